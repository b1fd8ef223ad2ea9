"""What admins do to the library: links, edits, icons, scans on demand, checksums."""

import base64
import hashlib
import json
import os
import socket
from typing import Any

import pytest
import webtest

import catalogd
import containers
from conftest import LONG_AGO, Library, add_folder


def entries(store: catalogd.Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        store.entries.list_json(catalogd.EVERYTHING)
    )
    return found


# Editing


def test_an_admin_edits_an_entry_and_undoes_it(
    signed_in: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a [v65536].nsp")
    library.add("M.nsp")
    scanner.scan()
    before = entries(store)
    id = before[0]["id"]
    signed_in.post_json(f"/web/entries/{id}", {"name": "Zorro", "description": "Hm"})
    signed_in.post_json(f"/web/entries/{id}", {"version": "one"})
    edited = entries(store)[1]  # the list is in order of names
    assert (edited["id"], edited["name"]) == (id, "Zorro")
    assert edited["metadata"] == {"description": "Hm", "version": "one", "patch": 1}
    edits = signed_in.post_json(f"/web/entries/{id}/undo", {}).json["edits"]
    assert entries(store) == before
    signed_in.post_json(f"/web/entries/{id}", edits)
    assert entries(store)[1] == edited


def test_overrides_stay_when_the_file_changes(
    signed_in: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a.nsp")
    library.add("M.nsp")
    scanner.scan()
    id = entries(store)[0]["id"]
    signed_in.post_json(f"/web/entries/{id}", {"name": "Zorro"})
    library.add("a.nsp", b"a newer version", mtime=LONG_AGO + 60)
    scanner.scan()
    assert [entry["name"] for entry in entries(store)] == ["M", "Zorro"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": 1}, "name"),
        ({"version": "v" * 101}, "version"),
        ({"kind": "game"}, "kind"),
        ({"base_id": "0100"}, "base_id"),
    ],
)
def test_a_bad_edit_is_refused(
    body: dict[str, Any], named: str, signed_in: webtest.TestApp
) -> None:
    answer = signed_in.post_json("/web/entries/x", body, status=400)
    assert named in answer.json["message"]


def test_an_entry_that_is_not_there_cannot_be_edited(
    signed_in: webtest.TestApp,
) -> None:
    signed_in.post_json("/web/entries/x", {"name": "A"}, status=404)


# Links


def test_an_admin_adds_and_removes_a_link(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    body = {"url": "https://example.org/a/Käse.NSP?x=1", "name": "Käse", "size": 7}
    id = signed_in.post_json("/web/links", body).json["id"]
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
    signed_in.delete(f"/web/links/{id}")
    assert entries(store) == []
    signed_in.delete(f"/web/links/{id}", status=404)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"url": "https://host/a.XCI?b.c"}, {"file_type": "xci", "size": 0}),
        ({"file_type": ".NSP"}, {"file_type": "nsp"}),
        ({"file_type": "nsp/../../../x"}, {"file_type": "nsp_.._.._.._x"}),
        ({"file_type": ".."}, {"file_type": ""}),
        ({"file_type": "a\nb"}, {"file_type": "a_b"}),
        ({"url": " http://host/a?b c "}, {"source": "http://host/a?b%20c"}),
        ({"url": "http://host/é?x=%20#y"}, {"source": "http://host/%C3%A9?x=%20#y"}),
    ],
)
def test_a_link_is_stored_as_consoles_take_it(
    signed_in: webtest.TestApp,
    store: catalogd.Store,
    given: dict[str, Any],
    stored: dict[str, Any],
) -> None:
    signed_in.post_json("/web/links", {"url": "https://host/a", "name": "A", **given})
    (entry,) = entries(store)
    assert {name: entry[name] for name in stored} == stored


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
def test_other_addresses_are_no_links(url: str, signed_in: webtest.TestApp) -> None:
    answer = signed_in.post_json("/web/links", {"url": url, "name": "A"}, status=400)
    assert "http" in answer.json["message"]


def test_the_server_of_a_link_is_not_called(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.nsp"
        signed_in.post_json("/web/links", {"url": url, "name": "A"})
        with pytest.raises(BlockingIOError):
            server.accept()
    assert entries(store)[0]["size"] == 0


# Scans on demand, and icons


def test_the_page_sees_how_far_a_scan_is(
    signed_in: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp")
    add_folder(scanner, "/missing")
    assert signed_in.get("/web/scan").json["finished"] is None
    seen = []
    scanner.tick = lambda state: seen.append(signed_in.get("/web/scan").json)
    scanner.scan()
    assert seen[-1]["scanning"] is True
    after = signed_in.get("/web/scan").json
    # By a thread that does not run.
    online = {"state": "online", "watched": False, "problem": ""}
    online |= {"scanned_at": "2027-01-15T08:00:00"}
    missing = "/missing does not exist yet. Create it, or connect its disk."
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
            {**online, "path": "/missing", "state": "offline", "files": 0}
            | {"problem": missing, "reason": "folder_missing", "scanned_at": None}
            | {"arguments": {"folder": "/missing"}},
        ],
        "disks": [],
        "passed_over": [],
        "problem": "",
        "result": "1 added",
        "asked": False,
    }


def test_an_admin_asks_for_a_scan(
    signed_in: webtest.TestApp, scanner: catalogd.Scanner
) -> None:
    signed_in.post_json("/web/scan", {})
    assert scanner._wake.is_set()


def test_the_page_gets_icons(
    signed_in: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
) -> None:
    library.add("a.nro", containers.nro())
    scanner.scan()
    answer = signed_in.get(f"/web/icons/{entries(store)[0]['id']}")
    assert answer.body == containers.JPEG
    assert answer.headers["Content-Type"] == "image/jpeg"
    assert "immutable" in answer.headers["Cache-Control"]
    library.add("a.png", containers.PNG)
    scanner.scan()
    answer = signed_in.get(f"/web/icons/{entries(store)[0]['id']}")
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    signed_in.get("/web/icons/x", status=404)


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
    reasons = [(row["name"], row["reason"]) for row in store.entries.tidy()]
    assert reasons == [("a", "damaged"), ("b", "unreadable")]
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
