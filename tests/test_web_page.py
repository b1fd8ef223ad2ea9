"""The calls below /web/, which only the page makes, and the files of the page."""

import base64
import hashlib
import json
import os
import re
import socket
from typing import Any

import pytest
import webtest

import catalogd
import containers
from conftest import LONG_AGO, PASSWORD, Clock, Library, add_folder

OWN = {"own_password": PASSWORD}


def accounts(app: webtest.TestApp) -> dict[str, dict[str, Any]]:
    rows = app.get("/web/accounts").json["accounts"]
    return {row["name"]: row for row in rows}


# Entries


def test_entries_of_an_unplugged_disk_are_shown_as_offline(
    signed_in: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Here.nsp")
    scanner.scan()
    library.folder.rename(library.folder.with_name("unplugged"))
    scanner.scan()
    (entry,) = signed_in.get("/web/entries").json["entries"]
    assert (entry["name"], entry["state"]) == ("Here", "offline")


def test_the_details_of_an_entry_are_those_of_the_list_with_its_state(
    signed_in: webtest.TestApp, key: str, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Here.nsp")
    scanner.scan()
    (listed,) = signed_in.get(f"/api/list?api_key={key}").json["entries"]
    details = signed_in.get(f"/web/entries/{listed['id']}").json
    assert details["entry"] == {**listed, "state": "here"}


def test_entries_that_did_not_change_are_not_sent_again(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    etag = signed_in.get("/web/entries").headers["ETag"]
    again = {"If-None-Match": etag}
    assert signed_in.get("/web/entries", headers=again).status_int == 304
    store.entries.add_link(
        "http://example.org/a.nsp", 1, "nsp", {"name": "A"}, by="anna"
    )
    assert signed_in.get("/web/entries", headers=again).status_int == 200


def test_the_page_downloads_with_its_session(
    signed_in: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Here.nsp", b"whole file")
    scanner.scan()
    (entry,) = signed_in.get("/web/entries").json["entries"]
    assert signed_in.get(f"/web/download/{entry['id']}").body == b"whole file"


# Accounts


@pytest.mark.parametrize("more", [{}, {"admin": True, **OWN}])
def test_an_admin_adds_an_account(
    signed_in: webtest.TestApp, more: dict[str, Any]
) -> None:
    body = {"username": "ben", "password": "long enough"}
    signed_in.post_json("/web/accounts", {**body, **more})
    assert accounts(signed_in)["ben"]["admin"] is bool(more)
    signed_in.post_json("/web/login", body)


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"username": "anna", "password": "long enough"}, 409, "anna"),
        ({"username": "ben", "password": "short"}, 400, "8 characters"),
        ({"username": "scanner", "password": "long enough"}, 400, "reserved"),
        ({"username": "ben", "password": "long enough", "admin": 1}, 400, "admin"),
    ],
)
def test_an_account_is_rejected(
    signed_in: webtest.TestApp, body: dict[str, Any], status: int, word: str
) -> None:
    answer = signed_in.post_json("/web/accounts", body, status=status)
    assert word in answer.json["message"]


def test_a_new_password_ends_the_sessions_of_its_account(
    signed_in: webtest.TestApp, member: webtest.TestApp
) -> None:
    ben = accounts(signed_in)["ben"]["id"]
    signed_in.post_json(f"/web/accounts/{ben}", {"password": "another one", **OWN})
    assert member.get("/web/entries", status=403).json["error"] == "signed_out"
    member.post_json("/web/login", {"username": "ben", "password": "another one"})


def test_an_admin_who_sets_their_own_password_stays_signed_in(
    signed_in: webtest.TestApp,
) -> None:
    anna = accounts(signed_in)["anna"]["id"]
    signed_in.post_json(f"/web/accounts/{anna}", {"password": "another one", **OWN})
    signed_in.get("/web/entries")


def test_a_member_becomes_an_admin(
    signed_in: webtest.TestApp, member: webtest.TestApp
) -> None:
    ben = accounts(signed_in)["ben"]["id"]
    signed_in.post_json(f"/web/accounts/{ben}", {"admin": True, **OWN})
    assert member.get("/web/me").json["account"]["admin"]


def test_the_last_admin_cannot_be_demoted(
    signed_in: webtest.TestApp, member: webtest.TestApp
) -> None:
    anna = accounts(signed_in)["anna"]["id"]
    path = f"/web/accounts/{anna}"
    body = {"admin": False, "password": "another one", **OWN}
    answer = signed_in.post_json(path, body, status=409)
    assert "last admin" in answer.json["message"]
    assert accounts(signed_in)["anna"]["admin"] is True
    signed_in.post_json("/web/login", {"username": "anna", "password": PASSWORD})


def test_a_removed_account_is_signed_out_and_an_admin_removes_no_own_one(
    signed_in: webtest.TestApp, member: webtest.TestApp
) -> None:
    ids = {name: row["id"] for name, row in accounts(signed_in).items()}
    signed_in.delete(f"/web/accounts/{ids['anna']}", status=409)
    signed_in.delete(f"/web/accounts/{ids['ben']}")
    assert member.get("/web/entries", status=403).json["error"] == "signed_out"


@pytest.mark.parametrize("account", ["99", "x", "9" * 30])
@pytest.mark.parametrize("body", [{"password": "long enough"}, {"admin": True}])
def test_an_unknown_account_is_404(
    signed_in: webtest.TestApp, body: dict[str, Any], account: str
) -> None:
    signed_in.post_json(f"/web/accounts/{account}", {**body, **OWN}, status=404)
    signed_in.delete(f"/web/accounts/{account}", status=404)


SECURED = {
    "an admin is added": (
        ("POST", "/web/accounts"),
        {"username": "eve", "password": "long enough", "admin": True},
    ),
    "a member becomes an admin": (("POST", "/web/accounts/2"), {"admin": True}),
    "another account gets a password": (
        ("POST", "/web/accounts/2"),
        {"password": "long enough"},
    ),
    "an admin is invited": (("POST", "/web/invitations"), {"admin": True}),
    "a link for a password is made": (("POST", "/web/invitations"), {"account": 2}),
    "an admin becomes a member": (("POST", "/web/accounts/3"), {"admin": False}),
    "an admin is removed": (("DELETE", "/web/accounts/3"), {}),
    "the backup is downloaded": (("POST", "/web/backup/file"), {}),
}


@pytest.mark.parametrize("what", SECURED)
def test_what_a_thief_of_the_session_would_do_wants_the_own_password(
    signed_in: webtest.TestApp,
    member: webtest.TestApp,
    service: catalogd.Web,
    what: str,
) -> None:
    service.store.accounts.add("cleo", "hash", admin=True)
    service.backups.make()
    before = accounts(signed_in)
    (method, path), body = SECURED[what]
    call = signed_in.post_json if method == "POST" else signed_in.delete_json
    answer = call(path, body, status=400)
    assert answer.json["message"] == "The field own_password is missing."
    for _ in range(catalogd.Throttle.free_tries):
        answer = call(path, {**body, "own_password": "a guess"}, status=403)
        assert answer.json["reason"] == "wrong_current_password"
    assert call(path, {**body, **OWN}, status=429).json["error"] == "too_many_tries"
    wrong = service.passwords.throttle.wrong
    del wrong["192.168.1.9"]
    assert call(path, {**body, **OWN}, status=429)  # guesses count by account too
    wrong.clear()
    assert accounts(signed_in) == before
    call(path, {**body, **OWN}, status=200)


# Signed-in browsers


def test_sessions_name_the_one_of_this_browser(
    signed_in: webtest.TestApp, service: catalogd.Web, clock: Clock
) -> None:
    clock.now += 60
    phone = webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.7"})
    body = {"username": "anna", "password": PASSWORD}
    phone.post_json("/web/login", body, headers={"User-Agent": "Phone/1"})
    rows = phone.get("/web/sessions").json["sessions"]
    assert [(row["browser"], row["current"]) for row in rows] == [
        ("Phone/1", True),
        ("", False),
    ]
    assert [row["last_used_at"][-5:] for row in rows] == ["01:00", "00:00"]


def test_a_session_is_ended_from_another_browser_but_not_by_another_account(
    signed_in: webtest.TestApp, member: webtest.TestApp, service: catalogd.Web
) -> None:
    phone = webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.7"})
    phone.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    rows = signed_in.get("/web/sessions").json["sessions"]
    (other,) = [row["id"] for row in rows if not row["current"]]
    member.delete(f"/web/sessions/{other}")
    phone.get("/web/entries")
    signed_in.delete(f"/web/sessions/{other}")
    phone.get("/web/entries", status=403)
    signed_in.get("/web/entries")


# The queue


def test_polls_of_a_client_do_not_change_the_etag_of_the_queue(
    signed_in: webtest.TestApp, key: str, clock: Clock
) -> None:
    etags = set()
    for _ in range(3):
        clock.now += 3
        signed_in.get(f"/api/send-queue?api_key={key}")
        etags.add(signed_in.get("/web/changes").headers["ETag"])
    assert len(etags) == 1
    last = catalogd.stamp(clock.now)
    clock.now += 61  # and when it was seen last is told once it is away
    (device,) = signed_in.get("/web/changes").json["devices"]
    assert (device["state"], device["last_call"]) == ("away", last)


def test_the_page_is_sent_the_newest_finished_items(
    signed_in: webtest.TestApp, store: catalogd.Store, clock: Clock
) -> None:
    for number in range(3):
        entry = store.entries.add_link(f"http://x/{number}", 1, "", {"name": "A"}, "")
        store.queue.send(1, entry)
        item = store.queue.items(1)[-1]["id"]
        store.clients.report(1, item, {"status": "failed"})
        clock.now += 60
    for limit, length in (("2", 2), ("", 3), ("x", 3), ("9" * 9, 3)):
        answer = signed_in.get(f"/web/changes?finished={limit}").json["queue"]
        assert (len(answer["items"]), answer["finished"]) == (length, 3)
    signed_in.post("/web/queue/retry")
    first = signed_in.get("/web/changes").json["queue"]["items"][0]
    moved = {"items": [first["id"]], "to": answer["items"][1]["id"]}
    for place in (1, 0):  # after it, and before it
        signed_in.post_json("/web/queue/move", moved)
        assert signed_in.get("/web/changes").json["queue"]["items"][place] == first


def test_an_unchanged_queue_is_not_read_again(
    signed_in: webtest.TestApp,
    store: catalogd.Store,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = store.entries.add_link("http://x/a", 1, "", {"name": "A"}, "")
    store.queue.send(1, entry)
    store.clients.report(1, store.queue.items(1)[0]["id"], {})
    etag = signed_in.get("/web/changes").headers["ETag"]
    with monkeypatch.context() as patch:
        patch.setattr(store.queue, "items", None)
        signed_in.get("/web/changes", headers={"If-None-Match": etag}, status=304)
    clock.now += 301  # the client's silence makes it wait again
    answer = signed_in.get("/web/changes", headers={"If-None-Match": etag}).json
    assert [row["status"] for row in answer["queue"]["items"]] == ["pending"]
    assert answer.keys() == {"success", "queue"}


def test_the_page_is_told_what_has_changed_alone(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    first = signed_in.get("/web/changes")
    parts = {"account", "queue", "devices", "scan", "sent", "entries", "ages"}
    assert first.json.keys() == {"success", *parts}
    assert first.headers["Cache-Control"] == "no-store"
    store.entries.add_link("http://x/a", 1, "", {"name": "A"}, "")
    known = {"If-None-Match": first.headers["ETag"]}
    second = signed_in.get("/web/changes", headers=known)
    versions = {
        "entries": store.entries.list_version(),
        "ages": store.entries.list_version(age=0),
    }
    assert second.json == {"success": True, **versions}


def test_entries_sent_by_another_account_are_not_marked(
    signed_in: webtest.TestApp, member: webtest.TestApp, store: catalogd.Store
) -> None:
    entry = store.entries.add_link("http://x/a", 1, "nsp", {"name": "A"}, "anna")
    store.queue.send(1, entry)
    (item,) = store.queue.items(1)
    store.clients.report(1, item["id"], {"status": "completed"})
    (row,) = signed_in.get("/web/changes").json["sent"]
    assert row["entry"] == entry
    assert member.get("/web/changes").json["sent"] == []


# The files of the page


def test_an_asset_is_sent_again_only_after_it_changed(browser: webtest.TestApp) -> None:
    addresses = re.findall(r'(?:href|src)="(\w[^"]+)"', browser.get("/").text)
    assert len(addresses) == 5
    for address in addresses:
        answer = browser.get(f"/{address}")
        assert answer.headers["Cache-Control"] == "no-cache"
        again = {"If-None-Match": answer.headers["ETag"]}
        assert browser.get(f"/{address}", headers=again).status_int == 304


def test_the_manifest_lets_the_page_be_installed(browser: webtest.TestApp) -> None:
    answer = browser.get("/manifest.webmanifest")
    assert answer.content_type == "application/manifest+json"
    manifest = json.loads(answer.text)
    assert (manifest["start_url"], manifest["display"]) == ("./", "standalone")
    for icon in manifest["icons"]:
        image = browser.get(f"/{icon['src']}").body
        if icon["src"].endswith(".png"):
            assert "{}x{}".format(*catalogd.image_sides(image)) == icon["sizes"]
    sizes = {icon["sizes"] for icon in manifest["icons"]}
    assert {"192x192", "512x512"} <= sizes, "Chrome on Android asks for both"


OPERATORS = re.compile(r" ([=!]==|&&|\|\||=>|\?\?|[=?:]) ")


def test_the_script_is_served_in_brief_and_with_its_line_numbers(
    browser: webtest.TestApp,
) -> None:
    lines = browser.get("/script.js").text.splitlines()
    assert not [line for line in lines if re.match(r" *(//|/\*\*\s|/\*\*.*\*/$)", line)]
    code = OPERATORS.sub(r"\1", re.sub("(?m)^ +", "", catalogd.JS))
    source = code.replace('JSON.parse("{}")', catalogd.ENGLISH).splitlines()
    assert len(lines) == len(source)
    assert [line for line in lines if line] == [
        re.sub(r"/\*\* @type [^*]*\*/ ?", "", line.lstrip().partition(" // ")[0])
        for line, kept in zip(source, lines, strict=True)
        if kept
    ]
    assert not [line for line in source if line.count("`") % 2], "a text spans lines"
    ends = [line.partition(" // ")[0] for line in source if " // " in line]
    assert not [end for end in ends if end.count('"') % 2], "a text has slashes"


@pytest.mark.parametrize("part", ["HTML", "CSS", "JS", "ICON", "MANIFEST"])
def test_nothing_is_loaded_from_other_sites(part: str) -> None:
    found = re.findall(r"https?://[^\s\"'`]+", getattr(catalogd, part))
    assert set(found) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    "word", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
)
def test_the_script_never_parses_text_as_html(word: str) -> None:
    assert word not in catalogd.JS


# What admins do to the library


def entries(store: catalogd.Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        store.entries.list_json(catalogd.EVERYTHING)
    )
    return found


# Editing


def test_an_admin_edits_an_entry_and_undoes_it(
    signed_in: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a [v65536].nsp")
    library.add("M.nsp")
    scanner.scan()
    before = entries(scanner.store)
    id = before[0]["id"]
    signed_in.post_json(f"/web/entries/{id}", {"name": "Zorro", "description": "Hm"})
    signed_in.post_json(f"/web/entries/{id}", {"version": "one"})
    edited = entries(scanner.store)[1]  # the list is in order of names
    assert (edited["id"], edited["name"]) == (id, "Zorro")
    assert edited["metadata"] == {"description": "Hm", "version": "one", "patch": 1}
    edits = signed_in.post_json(f"/web/entries/{id}/undo", {}).json["edits"]
    assert entries(scanner.store) == before
    signed_in.post_json(f"/web/entries/{id}", edits)
    assert entries(scanner.store)[1] == edited


def test_overrides_stay_when_the_file_changes(
    signed_in: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp")
    library.add("M.nsp")
    scanner.scan()
    id = entries(scanner.store)[0]["id"]
    signed_in.post_json(f"/web/entries/{id}", {"name": "Zorro"})
    library.add("a.nsp", b"a newer version", mtime=LONG_AGO + 60)
    scanner.scan()
    assert [entry["name"] for entry in entries(scanner.store)] == ["M", "Zorro"]


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


def test_verify_keeps_checksums_which_go_out_with_downloads_until_a_file_changes(
    library: Library,
    scanner: catalogd.Scanner,
    browser: webtest.TestApp,
    key: str,
    data: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = library.add("a.nsp", b"content")
    scanner.scan()
    id = entries(scanner.store)[0]["id"]
    download = f"/api/download/{id}?api_key={key}"
    assert "Repr-Digest" not in browser.head(download).headers
    assert catalogd.main(["verify", *data]) == 0
    assert capsys.readouterr().out == f"new         {id}  {path}\n1 new.\n"
    digest = hashlib.sha256(b"content").digest()
    assert entries(scanner.store)[0]["metadata"]["sha256"] == digest.hex()
    expected = f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert browser.head(download).headers["Repr-Digest"] == expected
    assert catalogd.main(["verify", id, *data]) == 0
    assert capsys.readouterr().out == f"ok          {id}  {path}\n1 ok.\n"
    library.add("a.nsp", b"CONTENT", mtime=LONG_AGO + 60)
    assert "Repr-Digest" not in browser.head(download).headers
    assert catalogd.main(["verify", *data]) == 0
    assert capsys.readouterr().out == f"changed     {id}  {path}\n1 changed.\n"
    scanner.scan()
    assert "sha256" not in entries(scanner.store)[0]["metadata"]


def test_verify_finds_damaged_files(
    library: Library,
    scanner: catalogd.Scanner,
    data: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    library.add("a\x1b.nsp", b"content")
    library.add("b.nsp")
    scanner.scan()
    catalogd.main(["verify", *data])
    library.add("a\x1b.nsp", b"c0ntent")
    os.remove(library.folder / "b.nsp")
    capsys.readouterr()
    assert catalogd.main(["verify", *data]) == 2
    told = capsys.readouterr()
    assert re.fullmatch(
        r"damaged     \w+  .*/a\\x1b\.nsp\nunreadable  \w+  .*/b\.nsp\n"
        r"1 damaged, 1 unreadable\.\n",
        told.out,
    )
    message = "The content of files changed, but not their size and time."
    assert told.err == f"catalogd: {message}\n"
    reasons = [(row["name"], row["reason"]) for row in scanner.store.entries.tidy()]
    assert reasons == [("a\x1b", "damaged"), ("b", "unreadable")]
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
