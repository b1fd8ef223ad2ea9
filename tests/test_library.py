"""What admins do to the library: links, edits, icons, scans on demand, checksums."""

import base64
import contextlib
import hashlib
import http.client
import http.server
import inspect
import io
import json
import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import webtest

import catalogd
import containers
from conftest import LONG_AGO, PASSWORD, Library, add_folder


@pytest.fixture
def admin(browser: webtest.TestApp, key: str) -> webtest.TestApp:
    """A browser in which anna, an admin, is signed in."""
    browser.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    return browser


@pytest.fixture
def member(service: catalogd.Web, key: str) -> webtest.TestApp:
    service.store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    app = webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.8"})
    app.post_json("/web/login", {"username": "ben", "password": PASSWORD})
    return app


def entries(store: catalogd.Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(store.entries.list_json())
    return found


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/web/scan"),
        ("POST", "/web/links"),
        ("DELETE", "/web/links/x"),
        ("POST", "/web/entries/x"),
        ("POST", "/web/entries/x/undo"),
    ],
)
def test_members_may_not_change_the_library(
    method: str, path: str, member: webtest.TestApp
) -> None:
    answer = member.request(path, method=method, status=403)
    assert answer.json["error"] == "forbidden"


# Editing


def test_an_admin_edits_an_entry_and_undoes_it(
    admin: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a [v65536].nsp")
    library.add("M.nsp")
    scanner.scan()
    before = entries(store)
    id = before[0]["id"]
    admin.post_json(f"/web/entries/{id}", {"name": "Zorro", "description": "Hm"})
    admin.post_json(f"/web/entries/{id}", {"version": "one"})
    edited = entries(store)[1]  # the list is in order of names
    assert (edited["id"], edited["name"]) == (id, "Zorro")
    assert edited["metadata"] == {"description": "Hm", "version": "one", "patch": 1}
    edits = admin.post_json(f"/web/entries/{id}/undo", {}).json["edits"]
    assert entries(store) == before
    admin.post_json(f"/web/entries/{id}", edits)
    assert entries(store)[1] == edited


def test_overrides_stay_when_the_file_changes(
    admin: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a.nsp")
    library.add("M.nsp")
    scanner.scan()
    id = entries(store)[0]["id"]
    admin.post_json(f"/web/entries/{id}", {"name": "Zorro"})
    library.add("a.nsp", b"a newer version", mtime=LONG_AGO + 60)
    scanner.scan()
    assert [entry["name"] for entry in entries(store)] == ["M", "Zorro"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": 1}, "name"),
        ({"version": "v" * 101}, "version"),
    ],
)
def test_a_bad_edit_is_refused(
    body: dict[str, Any], named: str, admin: webtest.TestApp
) -> None:
    answer = admin.post_json("/web/entries/x", body, status=400)
    assert named in answer.json["message"]


def test_an_entry_that_is_not_there_cannot_be_edited(admin: webtest.TestApp) -> None:
    admin.post_json("/web/entries/x", {"name": "A"}, status=404)


# Links


def test_an_admin_adds_and_removes_a_link(
    admin: webtest.TestApp, store: catalogd.Store
) -> None:
    body = {"url": "https://example.org/a/Käse.NSP?x=1", "name": "Käse", "size": 7}
    id = admin.post_json("/web/links", body).json["id"]
    (entry,) = entries(store)
    assert entry == {
        "id": id,
        "name": "Käse",
        "source": "https://example.org/a/K%C3%A4se.NSP?x=1",
        "type": "url",
        "file_type": "nsp",
        "size": 7,
        "created_at": entry["created_at"],
        "created_by": "anna",
        "metadata": {"description": "", "version": ""},
    }
    admin.delete(f"/web/links/{id}")
    assert entries(store) == []
    admin.delete(f"/web/links/{id}", status=404)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/a.nsp",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https://exa mple.org/a",
        "http://[::1/a",
        "http://example.org/\r\nSet-Cookie: a=b",
    ],
)
def test_other_addresses_are_no_links(url: str, admin: webtest.TestApp) -> None:
    answer = admin.post_json("/web/links", {"url": url, "name": "A"}, status=400)
    assert "http" in answer.json["message"]


class Remote(http.server.BaseHTTPRequestHandler):
    """A server that tells the size of a file, or does not, or redirects to the path
    after "/to/"."""

    calls: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.calls.append(self.path)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
        elif self.path == "/missing":
            self.send_response(404)
        else:
            self.send_response(200)
            if self.path != "/silent":
                length = "much" if self.path == "/wrong" else "12345"
                self.send_header("Content-Length", length)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def remote() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Remote) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("file.nsp", 12345),
        ("to//file.nsp", 12345),
        ("to//to//file.nsp", 12345),
        ("to/ftp://127.0.0.1/file.nsp", 0),
        ("to/file:///etc/passwd", 0),
        ("to//to/ftp://127.0.0.1/file.nsp", 0),
        ("to/http://[/file.nsp", 0),
        ("missing", 0),
        ("silent", 0),
        ("wrong", 0),
    ],
)
def test_the_size_of_a_link_is_asked_for(
    path: str, size: int, remote: str, admin: webtest.TestApp, store: catalogd.Store
) -> None:
    admin.post_json("/web/links", {"url": f"{remote}/{path}", "name": "A"})
    assert entries(store)[0]["size"] == size


HOSTS = {
    "example.org": ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "other.example.org": ["93.184.215.15"],
    "nas.local": ["192.168.1.5", "fd00::5"],
    "both.example.org": ["93.184.215.14", "127.0.0.1"],
    "zone.local": ["fe80::1%lo"],
    "mapped.example.org": ["::ffff:127.0.0.1"],
    "zero.example.org": ["0.0.0.0"],
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the resolver know these hosts, and nothing else."""

    def getaddrinfo(host: str, *_: object) -> list[Any]:
        if host not in HOSTS:
            raise socket.gaierror("no such host")
        return [(0, 0, 0, "", (address, 0)) for address in HOSTS[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    ("link", "place", "is_followed"),
    [
        ("example.org", "http://other.example.org:81/b", True),
        ("example.org", "http://nas.local/b", False),
        ("example.org", "http://both.example.org/b", False),
        ("example.org", "http://zone.local/b", False),
        ("example.org", "http://mapped.example.org/b", False),
        ("example.org", "http://zero.example.org/b", False),
        ("example.org", "http://unknown.example.org/b", False),
        ("example.org", "ftp://other.example.org/b", False),
        ("nas.local", "http://nas.local:81/b", True),
        ("nas.local", "http://example.org/b", True),
        ("nas.local", "ftp://nas.local/b", False),
    ],
)
@pytest.mark.usefixtures("names")
def test_only_a_link_into_the_home_network_is_redirected_into_it(
    link: str, place: str, is_followed: bool
) -> None:
    request = urllib.request.Request(f"http://{link}/a", method="HEAD")
    redirects = catalogd.Redirects()
    answer = (io.BytesIO(), 302, "Found", http.client.HTTPMessage())
    with (
        contextlib.nullcontext()
        if is_followed
        else pytest.raises((OSError, ValueError))
    ):
        found = redirects.redirect_request(request, *answer, place)
        assert (found.full_url, found.get_method()) == (place, "HEAD")


def test_a_redirect_into_the_home_network_is_not_called(
    remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = remote.replace("127.0.0.1", "localhost")
    monkeypatch.setattr(catalogd, "is_public", lambda url: not url.startswith(home))
    Remote.calls.clear()
    assert catalogd.remote_size(f"{remote}/to/{home}/file.nsp") == 0
    assert len(Remote.calls) == 1


def test_a_server_that_does_not_answer_is_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.nsp"
        with contextlib.ExitStack() as stack:
            dripping = threading.Thread(target=drip, args=(listener,))
            dripping.start()
            stack.callback(dripping.join)
            assert catalogd.remote_size(url, timeout=0.5) == 0
        assert time.monotonic() - began < 10


def test_the_page_waits_longer_than_two_addresses_of_a_server_are_tried() -> None:
    seconds = inspect.signature(catalogd.remote_size).parameters["timeout"].default
    waits = re.search(r"MAX_ANSWER_MS = (\d+);", catalogd.JS)
    assert waits
    assert 2 * seconds < int(waits[1]) / 1000


def drip(listener: socket.socket) -> None:
    """Answer with a header that comes a byte at a time, for two seconds."""
    peer, _ = listener.accept()
    with peer, contextlib.suppress(OSError):
        for _ in range(20):
            peer.sendall(b"H")
            time.sleep(0.1)


# Scans on demand, and icons


def test_the_page_sees_how_far_a_scan_is(
    admin: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp")
    add_folder(scanner, "/missing")
    assert admin.get("/web/scan").json["finished"] is None
    seen = []
    scanner.scan(lambda state: seen.append(admin.get("/web/scan").json))
    assert seen[-1]["scanning"] is True
    after = admin.get("/web/scan").json
    online = {"state": "online", "watched": False}  # by a thread that does not run
    assert after == {
        "success": True,
        "scanning": False,
        "files": 1,
        "read": 1,
        "started": "2027-01-15T08:00:00",
        "finished": "2027-01-15T08:00:00",
        "next": None,  # by a scanner whose thread does not run
        "folders": [
            {**online, "path": str(library.folder), "files": 1},
            {**online, "path": "/missing", "state": "offline", "files": 0},
        ],
    }


def test_an_admin_asks_for_a_scan(
    admin: webtest.TestApp, scanner: catalogd.Scanner
) -> None:
    admin.post_json("/web/scan", {})
    assert scanner._wake.is_set()


def test_the_page_gets_icons(
    admin: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a.nro", containers.nro())
    scanner.scan()
    answer = admin.get(f"/web/icons/{entries(store)[0]['id']}")
    assert answer.body == containers.JPEG
    assert answer.headers["Content-Type"] == "image/jpeg"
    assert "immutable" in answer.headers["Cache-Control"]
    library.add("a.png", b"\x89PNG\r\n\x1a\n and so on")
    scanner.scan()
    answer = admin.get(f"/web/icons/{entries(store)[0]['id']}")
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    admin.get("/web/icons/x", status=404)


# Checksums


@pytest.fixture
def data(store: catalogd.Store) -> list[str]:
    """The option that leads commands to the store of the other fixtures."""
    return ["--data-dir", store.database.folder]


def test_verify_keeps_checksums_and_they_go_out_with_downloads(
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
    browser: webtest.TestApp,
    key: str,
    data: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = library.add("a.nsp", b"content")
    scanner.scan()
    id = entries(store)[0]["id"]
    download = f"/api/download/{id}?api_key={key}"
    assert "Repr-Digest" not in browser.head(download).headers
    assert catalogd.main(["verify", *data]) == 0
    assert capsys.readouterr().out == f"new         {id}  {path}\n1 new.\n"
    digest = hashlib.sha256(b"content").digest()
    assert entries(store)[0]["metadata"]["sha256"] == digest.hex()
    expected = f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert browser.head(download).headers["Repr-Digest"] == expected
    assert catalogd.main(["verify", id, *data]) == 0
    assert capsys.readouterr().out == f"ok          {id}  {path}\n1 ok.\n"


def test_a_checksum_is_not_that_of_a_file_that_changed_since(
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
    browser: webtest.TestApp,
    key: str,
    data: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    library.add("a.nsp", b"content")
    scanner.scan()
    catalogd.main(["verify", *data])
    id = entries(store)[0]["id"]
    library.add("a.nsp", b"CONTENT", mtime=LONG_AGO + 60)
    answer = browser.head(f"/api/download/{id}?api_key={key}")
    assert "Repr-Digest" not in answer.headers
    capsys.readouterr()
    assert catalogd.main(["verify", *data]) == 0
    assert capsys.readouterr().out.endswith("1 changed.\n")
    scanner.scan()
    assert "sha256" not in entries(store)[0]["metadata"]


def test_verify_finds_damaged_files(
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
    data: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    library.add("a.nsp", b"content")
    library.add("b.nsp")
    scanner.scan()
    catalogd.main(["verify", *data])
    library.add("a.nsp", b"c0ntent")
    os.remove(library.folder / "b.nsp")
    capsys.readouterr()
    assert catalogd.main(["verify", *data]) == 2
    told = capsys.readouterr()
    assert told.out.endswith("1 damaged, 1 unreadable.\n")
    assert told.err.count("\n") == 1
    assert catalogd.main(["verify", *data]) == 2  # it is not forgotten


def test_verify_of_an_empty_library(
    store: catalogd.Store, data: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert catalogd.main(["verify", *data]) == 0
    assert capsys.readouterr().out == "no files.\n"


def test_verify_of_an_unknown_id(
    store: catalogd.Store, data: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert catalogd.main(["verify", "nope", *data]) == 2
    assert capsys.readouterr().err == "catalogd: There is no file with the id nope.\n"
