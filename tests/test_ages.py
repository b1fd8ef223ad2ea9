"""Accounts with an age, which see the titles that an admin gave an age up to their own:
for them, hidden is missing.

The cases come from the table of routes: a route with a variable or a field that is
neither in NAMES nor in PLAIN fails here until somebody says what it names.
"""

import dataclasses
import gzip
import json
import os
import pathlib
import re
import urllib.parse
from typing import Any

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Library
from containers import PNG, pfs0
from example import by_age

EVERYTHING = catalogd.EVERYTHING
NAMES = {  # what a variable of a path, or a field of a body, names
    **dict.fromkeys(("entry_id", "entries"), "entry"),
    **dict.fromkeys(("title", "titles"), "title"),
    **dict.fromkeys(("item", "queue_item_id", "queue_item_ids", "items"), "item"),
    "to": "item",
    "path": "file",
}
PLAIN = {  # those that name nothing of the library
    *("account", "age", "id", "device", "upload", "way", "before", "username"),
    *("password", "old", "new", "code", "label", "keys", "devices", "addresses"),
    *("admin", "name", "shared", "target", "user", "url", "size", "file_type"),
    *("description", "version", "kind", "base_id", "modified", "status", "number"),
    *("progress_percent", "bytes_transferred", "transfer_speed", "error_message"),
    *("client", "release", "offered", "key", "own_password", "base", "digest"),
    *("ending", "token", "paused", "undo", "language", "volume", "freed"),
    *("error_code", "error_arguments", "bytes_kept", "parts", "goes_on", "is_last"),
    *("anyway",),
}
VALUES = {"before": "2000-01-01T00:00:00", "status": "failed", "way": "retry"}
VALUES |= {"base": "/dir", "name": "remote"}
VALUES |= {"admin": False, "age": 3, "size": 5, "kind": "base", "account": 1}
SEEN, HIDDEN, MISSING = range(3)
TITLES = ["0100AAAABBBB0000", "0100CCCCDDDD0000", "0100EEEEFFFF0000"]
SECRETS = re.compile(rb"(?i)secret|0100ccccdddd|7654321|hushed")
# A client may ask for an item of its own account that was cancelled, and is told so.
TOLD_TO_STOP = {
    "POST /api/send-queue/progress",
    "POST /api/send-queue/update",
}


class World:
    """anna, who is an admin, and her child of seven, who sees one title of several."""

    def __init__(self, web: catalogd.Web, library: Library) -> None:
        self.web, self.store, store = web, web.store, web.store
        files = {
            "Seen [0100AAAABBBB0000][v0].nsp": b"seen",
            "Seen Update [0100AAAABBBB0800][v65536].nsp": b"seen update",
            "Secret [0100CCCCDDDD0000][v0].nsp": b"S" * 7_654_321,
            "Secret Update [0100CCCCDDDD0800][v65536].nsp": b"secret update",
            "Hushed.nro": b"hushed",
        }
        for name, content in files.items():
            library.add(name, content)
        for name in [*files][::2][:2]:
            library.add(name.replace(".nsp", ".png"), PNG)
        web.scanner.scan()
        facts = {"name": "Secret link", "description": "", "version": ""}
        store.entries.add_link("http://x/secret.nsp", 9, "nsp", facts, "anna")
        password = catalogd.hash_password(PASSWORD)
        self.anna = store.accounts.add("anna", password)
        self.kid = store.accounts.add("kid", password, age=7)
        self.keys, self.devices, self.tokens = {}, {}, {}
        for who, account in (("anna", self.anna), ("kid", self.kid)):
            self.keys[who] = catalogd.new_key()
            digest = catalogd.hash_token(self.keys[who])
            name = f"{who}'s console"
            device = store.accounts.add_key(account, name, digest, is_device=True)
            store.devices.change(device, {"shared": True})
            self.devices[who] = device
            self.tokens[who] = catalogd.new_token()
            store.addresses.set_browse_token(account, self.tokens[who])
        self._queue()
        names = ["Seen [0100AAAABBBB0000][v0].nsp", "Secret [0100CCCCDDDD0000][v0].nsp"]
        self.named = {
            "entry": [self.ids["Seen"], self.ids["Secret"], "0" * 16],
            "title": TITLES,
            "item": [*self.items, "0" * 16],
            "file": [*names, "Nobody [0100EEEEFFFF0000][v0].nsp"],
        }

    def _queue(self) -> None:
        store = self.store
        rows = store.database.rows("SELECT id, name FROM entries")
        self.ids = {row["name"]: row["id"] for row in rows}
        seen, secret = self.ids["Seen"], self.ids["Secret"]
        store.entries.set_ages(TITLES[:2], 7)
        self.items = []
        for entry in (seen, secret):  # the child sent both, and has queued both again
            store.queue.send(self.kid, entry)
            report = {"key": self.devices["kid"]}
            for status in ("processing", "completed"):
                item = store.queue.items(self.kid)[-1]["id"]
                store.clients.report(self.kid, item, {**report, "status": status})
            store.queue.send(self.kid, entry)
            self.items.append(store.queue.items(self.kid)[-1]["id"])
        store.entries.set_ages([TITLES[1]], 12)
        for entry in (secret, self.ids["Hushed"]):
            store.queue.send(self.anna, entry, self.devices["anna"])

    def apps(self, access: str, who: str = "kid") -> list[webtest.TestApp]:
        """Return a caller for each way to call: by session, key, Basic, or nothing."""
        ways = {
            "session": access in ("session", "admin", "key or session"),
            "key": access in ("key", "key or session"),
            "dir": access in ("dir", "menu"),
            "open": access in ("open", "token"),
        }
        return [self.app(way, who) for way in ways if ways[way]]

    def app(self, way: str, who: str = "kid") -> webtest.TestApp:
        extra = {"REMOTE_ADDR": "192.168.1.9"}
        app = webtest.TestApp(self.web.app, extra_environ=extra)
        if way == "session":
            body = {"username": who, "password": PASSWORD}
            app.post_json("/web/login", body)
        if way == "key":
            app.authorization = ("Bearer", self.keys[who])
        if way == "dir":
            app.authorization = ("Basic", (who, self.keys[who]))
        return app


@pytest.fixture
def world(
    store: catalogd.Store, library: Library, settings: catalogd.Settings
) -> World:
    library.add("inbox/x.txt")
    inbox, saves = str(library.folder / "inbox"), library.folder.parent / "saves"
    settings = dataclasses.replace(
        settings, inbox=inbox, inbox_for="everyone", saves=str(saves)
    )
    web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
    world = World(web, library)
    for title in ("Seen", "Secret", "Hushed", "Unknown secret"):
        kept = saves / f"Kid's ({world.devices['kid']})" / title
        kept.mkdir(parents=True)
        (kept / f"{title}-0123456789ab.zip").write_bytes(b"")
    return world


def variables(rule: catalogd.Route) -> list[str]:
    return re.findall(r"<(\w+)", rule.path)


def names_of(rule: catalogd.Route) -> list[str]:
    return [*variables(rule), *(rule.fields or {})]


def rule_id(rule: catalogd.Route) -> str:
    return f"{rule.method} {rule.path}"


def call(app: webtest.TestApp, rule: catalogd.Route, which: int, world: World) -> Any:
    """Call a route with what is seen, hidden or missing."""

    def value(name: str) -> Any:
        if name in NAMES:
            return world.named[NAMES[name]][which]
        return VALUES.get(name, world.devices["kid"] if name == "device" else "1")

    path = rule.path
    for name in variables(rule):
        text = f"/{value(name)}" if name == "path" else str(value(name))
        pattern = rf"<{name}(?::re:(?:\(\?:.*?\)\?|[^<>]*))?>"
        quoted = urllib.parse.quote(text)
        path = re.sub(pattern, lambda found, text=quoted: text, path, count=1)
    if rule.fields is None:
        return app.request(path, method=rule.method, expect_errors=True)
    body = {}
    for name, field in rule.fields.items():
        if name == "title" and "entries" in rule.fields:
            continue  # one of the two: see the test of titles
        if name in NAMES or field.required:
            body[name] = [value(name)] if field.type is list else value(name)
    return app.request(
        path,
        method=rule.method,
        body=json.dumps(body).encode(),
        content_type="application/json",
        expect_errors=True,
    )


def content(answer: Any) -> bytes:
    is_zipped = answer.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(answer.body) if is_zipped else bytes(answer.body)


def told(answer: Any, name: str) -> Any:
    """Return what an answer tells, without the name that the call had."""
    body = re.sub(rb'("undo": )"[\w-]+"', rb"\1ID", content(answer))
    for text in (name, urllib.parse.quote(name)):
        body = body.replace(text.encode(), b"NAME")
    headers = {**answer.headers}
    for name in ("Content-Length", "Set-Cookie", "Date"):
        headers.pop(name, None)
    return answer.status, headers, body


def test_each_variable_and_field_is_known() -> None:
    names = {name for rule in catalogd.ROUTES for name in names_of(rule)}
    assert names <= {*NAMES} | PLAIN


NAMING = [rule for rule in catalogd.ROUTES if {*NAMES} & {*names_of(rule)}]


@pytest.mark.parametrize("rule", NAMING, ids=rule_id)
def test_hidden_is_missing(rule: catalogd.Route, world: World) -> None:
    subject = next(NAMES[name] for name in names_of(rule) if name in NAMES)
    for app in world.apps(rule.access):
        hidden = call(app, rule, HIDDEN, world)
        missing = call(app, rule, MISSING, world)
        if rule_id(rule) in TOLD_TO_STOP:
            assert hidden.status_int in (200, 409)
            continue
        one, other = world.named[subject][1:]
        assert told(hidden, one) == told(missing, other)


def test_what_is_seen_is_not_missing(world: World) -> None:
    page, key = world.app("session"), world.app("key")
    seen = world.ids["Seen"]
    assert page.get(f"/web/entries/{seen}").json["entry"]["id"] == seen
    assert key.get(f"/api/download/{seen}").body == b"seen"
    assert key.get(f"/api/entries/{seen}/info").json["entry"]["id"] == seen
    assert page.get(f"/web/icons/{seen}").body == PNG
    for path in ("/dir/all/", "/dir/index.json"):
        text = urllib.parse.unquote(world.app("dir").get(path).text)
        assert world.named["file"][SEEN] in text
    entries = key.get("/api/list").json["entries"]
    assert [entry["id"] for entry in entries] == [seen, world.ids["Seen - Update 1"]]
    assert page.get("/web/me").json["account"]["age"] == 7
    assert key.get("/api/status").json["entries"] == 2


def test_the_page_has_a_word_for_each_age() -> None:
    assert [*catalogd.WORDS["ages"]] == [*map(str, catalogd.TITLE_AGES), "none"]


def test_a_hidden_entry_is_not_sent(world: World) -> None:
    page = world.app("session")
    sent = [
        page.post_json("/web/send", {"entries": [entry]}).json
        for entry in (world.ids["Seen"], world.ids["Secret"], "none")
    ]
    assert sent[0]["added"] or sent[0]["already"]
    told = [[row["reason"] for row in one["failed"]] for one in sent]
    assert told == [[], ["no_entry"], ["no_entry"]]


READS = [
    rule
    for rule in catalogd.ROUTES
    if rule.method == "GET" and rule.path != "/send_to_switch.py"
]
FOLDERS = ("", "/", "/all/", "/nsp/", "/nro/", "/index.json")


def reads(world: World, rule: catalogd.Route) -> list[Any]:
    """Return what the child gets of a route that changes nothing."""
    found = []
    for app in world.apps(rule.access):
        if rule.access == "dir":
            for base in ("/dir", f"/dir/{world.tokens['kid']}"):
                found += [app.get(base + path, expect_errors=True) for path in FOLDERS]
        else:
            found.append(call(app, rule, SEEN, world))
    return found


def test_no_answer_names_what_is_hidden(world: World) -> None:
    hidden = {id.encode() for name, id in world.ids.items() if "Seen" not in name}
    for rule in READS:
        for answer in reads(world, rule):
            text = content(answer) + repr(answer.headers).encode()
            assert not SECRETS.search(text), rule_id(rule)
            assert not [entry for entry in hidden if entry in text], rule_id(rule)


@pytest.mark.parametrize("path", ["/web/entries", "/web/changes", "/dir/index.json"])
def test_an_etag_of_another_account_gives_no_304(path: str, world: World) -> None:
    way = "dir" if path.startswith("/dir") else "session"
    tag = world.app(way, "anna").get(path).headers["ETag"]
    answer = world.app(way).get(path, headers={"If-None-Match": tag})
    assert answer.status_int == 200 and answer.body
    if path == "/web/changes":
        assert {"queue", "devices", "scan", "sent", "entries"} < {*answer.json}


def test_an_etag_of_another_adult_hides_nothing(world: World) -> None:
    world.store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    tag = world.app("session", "anna").get("/web/changes").headers["ETag"]
    ben = world.app("session", "ben")
    told = ben.get("/web/changes", headers={"If-None-Match": tag}).json
    assert {"queue", "devices", "scan", "sent", "entries"} < {*told}


def test_more_that_is_hidden_changes_no_answer(world: World, library: Library) -> None:
    reading = [
        rule
        for rule in READS
        if rule.access not in ("open", "token", "admin")
        and rule.path not in ("/web/sessions", "/web/keys")
    ]

    def answers() -> dict[str, Any]:
        found = [answer for rule in reading for answer in reads(world, rule)]
        return {answer.request.path: told(answer, "") for answer in found}

    answers()  # the devices have called
    before = answers()
    for n in range(30):
        name = f"Hushed {n} [0100{n:08x}0000][v0].nsp"
        library.add(name, b"x" * (n + 1))
    world.web.scanner.scan()
    rows = world.store.database.rows("SELECT id FROM entries WHERE name GLOB 'Hushed*'")
    for row in rows[::2]:
        world.store.queue.send(world.anna, row["id"], world.devices["anna"])
    item = world.store.queue.items(world.anna)[-1]["id"]
    for status in ("processing", "completed"):
        report = {"status": status, "key": world.devices["anna"]}
        world.store.clients.report(world.anna, item, report)
    world.store.entries.set_ages(["0100000000010000"], 12)
    after = answers()
    assert [path for path in before if after[path] != before[path]] == []


def test_of_two_thousand_titles_one_is_seen(world: World, library: Library) -> None:
    for n in range(2000):
        library.add(f"Hushed {n} [0100{n:08x}0000][v0].nsp")
    world.web.scanner.scan()
    paths = ["/web/entries", "/web/changes", "/web/me", "/web/scan"]
    for path in paths + [f"/dir/{world.tokens['kid']}{end}" for end in FOLDERS]:
        answer = world.app("session").get(
            path, headers={"Accept-Encoding": "gzip"}, expect_errors=True
        )
        assert not re.search(rb"(?i)hushed|secret|\b200\d\b", content(answer))
    for path in ("/api/list", "/api/status", "/api/send-queue"):
        text = world.app("key").get(path).text
        assert not re.search(r"(?i)hushed|secret|\b200\d\b", text)


def test_two_children_of_different_ages_see_different_titles(world: World) -> None:
    store = world.store
    store.accounts.add("teen", "", age=12)
    for age, count in ((3, 0), (7, 2), (12, 4), (16, 4), (EVERYTHING, 6)):
        assert len(json.loads(store.entries.list_json(age))) == count
    store.entries.set_ages(["0100CCCCDDDD0000"], catalogd.TITLE_AGES[-1])
    assert len(json.loads(store.entries.list_json(16))) == 2


def test_lists_are_kept_for_each_kind_of_view(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parent and child with all pages open rebuild nothing for each other."""
    made = []
    plain = catalogd.Entries.list_json

    def counted(
        entries: catalogd.Entries, age: int, for_page: bool, *more: bytes
    ) -> bytes:
        made.append((age, for_page))
        return plain(entries, age, for_page, *more)

    monkeypatch.setattr(catalogd.Entries, "list_json", counted)
    for _ in range(3):
        for who in ("anna", "kid"):
            world.app("session", who).get("/web/entries")
            world.app("session", who).get("/web/changes")
            world.app("key", who).get("/api/list")
    assert sorted(made) == [(7, False), (7, True), (99, False), (99, True)]
    world.store.entries.set_ages(["0100CCCCDDDD0000"], 3)  # changes no list of anna
    tag = world.app("session", "anna").get("/web/entries").headers["ETag"]
    world.app("session").get("/web/entries")
    assert made[4:] == [(7, True)] and tag.strip('"').startswith(catalogd.PROCESS)


# Ages, and what follows from them


def seen_names(world: World, age: int = 7) -> set[str]:
    rows = json.loads(world.store.entries.list_json(age))
    return {row["name"] for row in rows}


def test_a_new_part_of_a_title_has_its_age(world: World, library: Library) -> None:
    library.add("Seen DLC [0100AAAABBBB1001][v0].nsp")
    library.add("New [0100AAAACCCC0000][v0].nsp")
    before = seen_names(world)
    world.web.scanner.scan()
    assert len(seen_names(world) - before) == 1


def title_of(world: World, path: str) -> str:
    """Return the title of the file that is there."""
    sql = "SELECT title FROM entries WHERE source GLOB ? AND state = 'here'"
    return str(world.store.database.value(sql, ("*/" + path,)))


def put(world: World, library: Library, name: str, content: bytes = b"quiet") -> str:
    """Write a file, and return its title."""
    library.add(name, content, mtime=10**9 + len(os.listdir(library.folder)))
    world.web.scanner.scan()
    return title_of(world, name.replace("[", "[[]"))


UNDECIDED = None
NEW = "0100EEEEFFFF0000"  # no other file is of it


@pytest.mark.parametrize(
    ("given", "by_title", "by_scan", "by_admin"),
    [
        (7, UNDECIDED, UNDECIDED, 7),
        (7, 3, 7, 3),
        (7, 12, 12, 12),
        (UNDECIDED, 7, 7, 7),
        (UNDECIDED, UNDECIDED, UNDECIDED, UNDECIDED),
    ],
)
@pytest.mark.parametrize("way", ["renamed", "copied", "named"])
def test_a_content_that_turns_out_to_be_of_a_title_meets_its_age(
    way: str,
    given: int | None,
    by_title: int | None,
    by_scan: int | None,
    by_admin: int | None,
    world: World,
    library: Library,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The title has the stricter of both, where both were given. Where an admin names
    the title, its age holds. The content keeps its own, also when it leaves again."""
    caplog.set_level("INFO")
    entries, other = world.store.entries, TITLES[HIDDEN]
    quiet = put(world, library, "Quiet.nsp")
    entries.set_ages([quiet], given)
    entries.set_ages([other], by_title)
    path = library.folder / "Quiet.nsp"
    named = library.folder / f"Quiet [{other}].nsp"
    if way == "renamed":
        os.rename(path, named)
    elif way == "copied":
        named.write_bytes(path.read_bytes())
    else:
        entries.edit(quiet, {"base_id": other, "kind": "base"})
    world.web.scanner.scan()
    expected = by_admin if way == "named" else by_scan
    assert entries.ages().get(other) == expected
    assert ("a file of it was" in caplog.text) == (expected != by_title)
    if way == "copied":
        assert entries.ages().get(quiet) == given
    elif way == "renamed":
        os.rename(named, path)
        world.web.scanner.scan()
    else:
        entries.edit(quiet)
    assert entries.ages().get(quiet) == given
    assert entries.ages().get(other) == expected


def test_a_title_of_no_other_content_has_the_age_of_the_first(
    world: World, library: Library
) -> None:
    entries = world.store.entries
    entries.set_ages([put(world, library, "Quiet.nsp")], 7)
    os.rename(library.folder / "Quiet.nsp", library.folder / f"Quiet [{NEW}].nsp")
    version = entries.list_version(age=0)
    world.web.scanner.scan()
    assert entries.list_version(age=0) > version  # open pages of admins follow
    assert entries.ages()[NEW] == 7 and "Quiet" in seen_names(world)
    put(world, library, f"Quiet DLC [{NEW[:-4]}1001].nsp", b"more")
    assert len(seen_names(world)) == 4  # which asks nothing


def test_a_title_that_an_admin_decided_is_not_raised_again_by_the_same_content(
    world: World, library: Library
) -> None:
    entries = world.store.entries
    entries.set_ages([put(world, library, "Quiet.nsp")], 12)
    put(world, library, f"Quiet [{NEW}].nsp")
    entries.set_ages([NEW], 7)
    put(world, library, f"Copy [{NEW}].nsp")
    assert entries.ages()[NEW] == 7


def test_ages_stay_whatever_becomes_of_files_and_names(
    world: World, library: Library
) -> None:
    """Moved, copied, deleted and forgotten, put back, renamed, edited and restarted."""
    entries, folder = world.store.entries, library.folder
    quiet = put(world, library, "Quiet.nsp")
    entries.set_ages([quiet], 7)
    os.mkdir(folder / "sub")
    os.rename(folder / "Quiet.nsp", folder / "sub" / "Quiet.nsp")
    put(world, library, "Copy.nsp")
    assert {"Quiet", "Copy"} <= seen_names(world)
    assert len(entries.ages().keys() & {*all_ids(world)}) == 2
    for path in ("sub/Quiet.nsp", "Copy.nsp"):
        os.remove(folder / path)
    world.web.scanner.scan()
    with entries.changing() as db:
        db.execute("DELETE FROM entries WHERE state = 'gone'")
    back = put(world, library, "Back.nsp")
    assert back != quiet and "Back" in seen_names(world)
    entries.edit(back, {"name": "Front"})
    entries.edit(back)
    assert entries.ages()[back] == 7
    entries.set_ages([back], UNDECIDED)
    assert back not in entries.ages() and "Back" not in seen_names(world)


def test_an_id_that_an_admin_typed_names_what_lies_there(
    world: World, library: Library
) -> None:
    entries, hushed = world.store.entries, world.ids["Hushed"]
    entries.edit(hushed, {"base_id": TITLES[SEEN], "kind": "base"})
    assert put(world, library, "Hushed.nro", b"another one") == TITLES[SEEN]
    assert "Hushed" in seen_names(world)
    entries.edit(hushed)
    assert title_of(world, "Hushed.nro") == hushed
    assert "Hushed" not in seen_names(world)


def test_a_link_has_the_age_that_its_entry_was_given(world: World) -> None:
    entries = world.store.entries
    facts = {"name": "Quiet", "description": "", "version": ""}
    link = entries.add_link("http://x/quiet.nsp", 9, "nsp", facts, "anna")
    entries.set_ages([link], 7)
    assert "Quiet" in seen_names(world)
    entries.edit(link, {"base_id": NEW, "kind": "base"})
    assert entries.ages() == {NEW: 7, TITLES[SEEN]: 7, TITLES[HIDDEN]: 12}
    entries.edit(link)
    assert entries.ages()[link] == 7
    entries.remove_link(link)
    entries.add_link("http://x/new.nsp", 9, "nsp", facts, "anna")
    assert "Quiet" not in seen_names(world)


@pytest.mark.parametrize("other", [UNDECIDED, 3, 12])
def test_a_file_that_is_read_first_has_the_age_that_its_entry_was_given(
    other: int | None, world: World, library: Library
) -> None:
    entries = world.store.entries
    entry = put(world, library, "Quiet.nsp")
    entries.set_ages([put(world, library, "Copy.nsp")], other)
    with entries.changing() as db:
        unread = {"sample": None, "facts_version": 0}
        catalogd.change_entries(db, {entry: unread})
    entries.set_ages([entry], 7)
    world.web.scanner.scan()
    assert entries.ages()[entry] == max(7, other or 0)


def test_an_age_is_not_lost_by_a_name_that_has_an_id_for_a_while(
    world: World, library: Library
) -> None:
    path = library.add("Quiet.nsp")
    world.web.scanner.scan()
    ((quiet, *_),) = world.store.entries.known("path = ?", path)
    world.store.entries.set_ages([quiet], 7)
    world.store.queue.send(world.kid, quiet)
    named = str(library.folder / "Quiet [0100EEEEFFFF0000].nsp")
    for old, new in ((path, named), (named, path)):
        os.rename(old, new)
        world.web.scanner.scan()
        items = world.store.queue.items(world.kid)
        assert [row["status"] for row in items if row["entry"] == quiet] == ["pending"]
        assert "Quiet" in seen_names(world)
        (known,) = world.store.entries.known("id = ?", quiet)
        assert known.is_touched


def test_what_leaves_a_title_has_the_age_of_its_content_or_none(
    world: World, library: Library
) -> None:
    entries = world.store.entries
    seen, other = library.folder / f"Seen [{TITLES[SEEN]}][v0].nsp", TITLES[HIDDEN]
    entries.set_ages([other], UNDECIDED)
    for base_id in (NEW, other):
        entries.edit(world.ids["Seen"], {"base_id": base_id})
        assert seen_names(world) == {"Seen - Update 1"}
        before = {"age": 7, "replaced": False}
        assert entries.former_ages() == {base_id: before}
    entries.edit(world.ids["Seen"])
    assert entries.former_ages() == {}
    os.rename(seen, library.folder / "Seen.nsp")
    world.web.scanner.scan()
    assert seen_names(world) == {"Seen - Update 1"}
    assert entries.former_ages() == {world.ids["Seen"]: before}
    entries.set_ages([world.ids["Seen"]], 3)
    os.rename(library.folder / "Seen.nsp", seen)
    world.web.scanner.scan()
    entries.set_ages([TITLES[SEEN]], 12)
    os.rename(seen, library.folder / "Seen.nsp")
    world.web.scanner.scan()
    assert seen_names(world, 3) == {"Seen"}


@pytest.mark.parametrize("way", ["overwritten", "renamed over", "deleted and put"])
def test_an_age_without_an_id_ends_with_the_content(
    way: str, world: World, library: Library
) -> None:
    entries, hushed = world.store.entries, world.ids["Hushed"]
    page = world.app("session", "anna")
    entries.set_ages([hushed], 7)
    version = entries.list_version(age=0)
    item = world.store.queue.send_all(world.kid, [hushed], None)
    assert item["added"]
    path = library.folder / "Hushed.nro"
    if way == "renamed over":
        os.rename(library.add("new.part", b"another game"), path)
    else:
        if way == "deleted and put":
            path.unlink()
            world.web.scanner.scan()
        library.add("Hushed.nro", b"another game")
    os.utime(path, (10**9, 10**9))
    world.web.scanner.scan()
    assert seen_names(world) == {"Seen", "Seen - Update 1"}
    sql = "SELECT id FROM entries WHERE source LIKE '%/Hushed.nro' AND state = 'here'"
    is_new = world.store.database.value(sql) != hushed
    assert is_new == (way == "deleted and put")
    if is_new:  # what was deleted waits for its content
        return
    assert world.app("key").get("/api/download/" + hushed, status=404)
    assert entries.list_version(age=0) > version and hushed not in entries.ages()
    told = {hushed: {"age": 7, "replaced": True}}
    assert page.get("/web/ages").json["former"] == told
    page.post_json("/web/ages", {"titles": [hushed], "age": 7})
    assert "Hushed" in seen_names(world)
    assert page.get("/web/ages").json["former"] == {}


def test_an_age_comes_back_with_its_content_alone(
    world: World, library: Library
) -> None:
    world.store.entries.set_ages([world.ids["Hushed"]], 7)
    for time, content, is_seen in ((1, b"b", 0), (2, b"c", 0), (3, b"hushed", 1)):
        library.add("Hushed.nro", content, mtime=10**9 + time)
        world.web.scanner.scan()
        assert ("Hushed" in seen_names(world)) == is_seen


def test_an_undecided_title_stays_so_when_a_seen_entry_joins_it(world: World) -> None:
    entries = world.store.entries
    entries.set_ages(["0100CCCCDDDD0000"], None)
    entries.edit(world.ids["Seen"], {"base_id": "0100CCCCDDDD0000"})
    assert "Seen" not in seen_names(world)


@pytest.mark.parametrize("ticket", ["", "0100aaaaeeee00000000000000000001.tik"])
def test_another_game_under_the_same_file_name_gets_no_age(
    ticket: str, world: World, library: Library
) -> None:
    def put(name: str, content: bytes) -> None:
        library.add("game.nsp", pfs0([name], [len(content)]) + content)
        world.web.scanner.scan()

    put(ticket or "0.nca", b"one")
    entries = world.store.entries
    sql = "SELECT title FROM entries WHERE source LIKE '%/game.nsp'"
    entries.set_ages([world.store.database.value(sql)], 3)
    assert "game" in seen_names(world)
    put("0100aaaaffff00000000000000000001.tik", b"another")
    assert world.store.database.value(sql) == "0100AAAAFFFF0000"
    assert "game" not in seen_names(world)
    assert "0100AAAAFFFF0000" not in entries.ages()


def item_path(key: webtest.TestApp, item: str) -> str:
    """Return the path of the address of an item that a client has."""
    offer = {"queue_item_ids": [item]}
    found = key.post_json("/api/send-queue/addresses", offer).json["addresses"]
    return urllib.parse.urlsplit(found[item]).path


@pytest.mark.parametrize("way", ["taken away", "raised", "account"])
def test_what_a_child_queued_ends_with_the_age(way: str, world: World) -> None:
    """What runs ends as by Cancel; what an adult sent stays."""
    store, title, seen = world.store, "0100AAAABBBB0000", world.ids["Seen"]
    device = world.devices["kid"]
    key, nobody = world.app("key"), world.app("open")
    item = {"queue_item_id": world.items[SEEN]}
    key.post_json("/api/send-queue/progress", {**item, "status": "processing"})
    path = item_path(key, world.items[SEEN])
    assert nobody.get(path).status_int == 200
    store.queue.send(world.anna, seen, device)
    if way == "account":
        store.accounts.change(world.kid, {"age": 3})
    else:
        store.entries.set_ages([title], None if way == "taken away" else 12)
    stopped = key.post_json("/api/send-queue/progress", item, status=409).json
    assert stopped["message"] == "The item is cancelled."
    key.post_json("/api/send-queue/progress", {**item, "status": "failed"}, status=200)
    assert nobody.get(path, expect_errors=True).status_int == 404
    kept = [row for row in store.queue.items(world.kid) if row["is_own"]]
    assert kept == []
    (adults,) = key.get("/api/send-queue").json["queue"]
    assert adults["entry_id"] == seen


def test_an_entry_that_joins_a_hidden_title_is_cancelled(world: World) -> None:
    entries = world.store.entries
    entries.edit(world.ids["Seen"], {"base_id": "0100CCCCDDDD0000"})
    assert world.app("key").get("/api/send-queue").json["queue"] == []


def test_an_account_with_an_age_is_made_an_admin_without_it(world: World) -> None:
    accounts = world.store.accounts
    accounts.change(world.kid, {"admin": True, "age": None})
    page = world.app("session")
    assert "age" not in page.get("/web/me").json["account"]
    assert len(page.get("/web/entries").json["entries"]) == 6
    accounts.change(world.kid, {"admin": False})
    assert "age" not in page.get("/web/me").json["account"]


@pytest.mark.parametrize(
    "change", [{"age": 7}, {"admin": True}, {"admin": True, "age": 7}]
)
def test_an_admin_has_no_age(change: dict[str, Any], world: World) -> None:
    page = world.app("session", "anna")
    account = world.anna if "admin" not in change else world.kid
    change |= {"own_password": PASSWORD}
    answer = page.post_json(f"/web/accounts/{account}", change, status=409).json
    assert answer["reason"] == "admin_sees_all"
    ages = {row["name"]: row["age"] for row in world.store.accounts.all()}
    assert ages == {"anna": None, "kid": 7}
    new = {"username": "robin", "password": PASSWORD, "age": 7, **change, "admin": True}
    page.post_json("/web/accounts", new, status=409)
    assert len(world.store.accounts.all()) == 2


def test_adults_are_told_the_ages_and_children_are_not(world: World) -> None:
    """So that an adult learns what the child whose device it is does not see."""
    world.store.accounts.change(world.kid, {"age": None})
    page = world.app("session")
    assert page.get("/web/ages").json["ages"][world.named["title"][HIDDEN]] == 12
    devices = {
        row["id"]: row["age"] for row in page.get("/web/changes").json["devices"]
    }
    assert devices[world.devices["kid"]] == EVERYTHING
    world.store.accounts.change(world.kid, {"age": 7})
    page.get("/web/ages", status=403)
    changes = page.get("/web/changes").json
    assert "ages" not in changes
    ages = {row["id"]: row["age"] for row in changes["devices"]}
    assert ages[world.devices["kid"]] == 7


def test_the_page_gives_accounts_and_titles_ages(world: World) -> None:
    page = world.app("session", "anna")
    new = {"username": "robin", "password": PASSWORD, "age": 3}
    robin = page.post_json("/web/accounts", new).json["id"]
    page.post_json(f"/web/accounts/{robin}", {"age": 16})
    page.post_json(f"/web/accounts/{world.kid}", {"age": None})
    rows = page.get("/web/accounts").json["accounts"]
    assert [row["age"] for row in rows] == [None, None, 16]
    version = page.get("/web/changes").json["ages"]
    titles = {"titles": [world.ids["Hushed"], world.named["title"][SEEN]]}
    page.post_json("/web/ages", {**titles, "age": 18})
    assert set(page.get("/web/ages").json["ages"].values()) == {12, 18}
    page.post_json("/web/ages", {**titles, "age": None})
    assert page.get("/web/ages").json["ages"] == {world.named["title"][HIDDEN]: 12}
    assert page.get("/web/changes").json["ages"] == version + 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"titles": ["0100AAAABBBB0000"], "age": 8}, 400),
        ({"titles": ["0100AAAABBBB0000"], "age": "7"}, 400),
        ({"titles": ["0100AAAABBBB0000"]}, 400),
        ({"age": 7}, 400),
    ],
)
def test_bad_ages_are_refused(body: Any, status: int, world: World) -> None:
    page = world.app("session", "anna")
    before = world.store.entries.ages()
    page.post_json("/web/ages", body, status=status)
    assert world.store.entries.ages() == before


# Devices and console addresses


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_child_s_device_fetches_what_an_adult_sends_to_it(
    end: str, world: World
) -> None:
    secret, device = world.ids["Secret"], world.devices["kid"]
    key, page = world.app("key"), world.app("session")
    world.store.queue.send(world.anna, secret, device)
    queue = key.get("/api/send-queue").json["queue"]
    [item] = [row for row in queue if row["entry_id"] == secret]
    assert key.get(f"/api/download/{secret}").status_int == 200
    assert key.get(f"/api/entries/{secret}/info").json["entry"]["id"] == secret
    page.get(f"/web/download/{secret}", status=404)
    page.get(f"/web/entries/{secret}", status=404)
    other = catalogd.new_key()
    world.store.accounts.add_key(world.kid, "other", catalogd.hash_token(other))
    bearer = {"Authorization": f"Bearer {other}"}
    world.app("open").get(f"/api/download/{secret}", headers=bearer, status=404)
    assert secret not in key.get("/api/list").text
    shown = page.get("/web/changes").json["queue"]["items"]
    assert "Secret" in [row["name"] for row in shown]
    report = {"queue_item_id": item["queue_item_id"]}
    key.post_json("/api/send-queue/progress", {**report, "status": "processing"})
    path = item_path(key, item["queue_item_id"])
    assert world.app("open").get(path).status_int == 200
    key.post_json("/api/send-queue/progress", {**report, "status": end})
    key.get(f"/api/download/{secret}", status=404)
    assert not SECRETS.search(page.get("/web/changes").body)


def test_on_a_shared_device_a_child_sees_its_own_items_alone(world: World) -> None:
    store, shared = world.store, world.devices["anna"]
    before = world.app("session").get("/web/changes").json["sent"]
    store.queue.send(world.anna, world.ids["Seen - Update 1"], shared)
    item = store.queue.items(world.anna)[-1]["id"]
    for status in ("processing", "completed"):
        report = {"status": status, "key": shared}
        store.clients.report(world.anna, item, report)
    store.queue.send(world.kid, world.ids["Seen - Update 1"], shared)
    store.queue.send(world.anna, world.ids["Seen"], shared)
    assert world.app("session").get("/web/changes").json["sent"] == before
    shown = world.app("session").get("/web/changes").json["queue"]["items"]
    assert {row["account"] for row in shown} == {"kid"}
    assert [row["device"] for row in shown if row["device"]] == [shared]


def test_an_admin_adds_a_console_for_a_child(world: World) -> None:
    page = world.app("session", "anna")
    body = {"name": "Attic", "target": "lan://127.0.0.1", "account": world.kid}
    device = page.post_json("/web/devices", body).json["device"]
    kids = world.app("session").get("/web/changes").json["devices"]
    assert [row["is_own"] for row in kids if row["id"] == device] == [True]
    page.post_json(f"/web/devices/{device}", {"account": world.anna})
    kids = world.app("session").get("/web/changes").json["devices"]
    assert device not in [row["id"] for row in kids]
    page.post_json(f"/web/devices/{device}", {"account": 99}, status=404)
    own = world.devices["kid"]
    body = {"account": world.anna}
    world.app("session").post_json(f"/web/devices/{own}", body, status=403)


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_others_queued_leaves_a_console_that_changes_hands(
    is_shared: bool, world: World
) -> None:
    store, entry = world.store, world.ids["Seen - Update 1"]
    console = {"name": "Attic", "target": "lan://127.0.0.1", "shared": is_shared}
    device = store.devices.add(world.kid, console)
    store.queue.send(world.kid, entry, device)
    store.devices.change(device, {"account": world.anna})
    rows = store.queue.items(world.kid)
    assert device not in [row["device"] for row in rows]
    assert "Attic" in [row["freed_from"] for row in rows]


def test_a_paired_device_takes_its_key_to_no_other_account(world: World) -> None:
    page, device = world.app("session", "anna"), world.devices["kid"]
    path = f"/web/devices/{device}"
    answer = page.post_json(path, {"account": world.anna}, status=409).json
    assert answer["reason"] == "pair_anew"
    page.post_json(path, {"account": world.kid, "name": "Theirs"})
    assert len(world.app("key").get("/api/list").json["entries"]) == 2


def test_no_name_tells_that_another_one_is_hidden(
    world: World, library: Library
) -> None:
    library.add("sub/Seen [0100FFFF00000000][v0].nsp")
    world.web.scanner.scan()
    [entry] = [row for row in world.app("key").get("/api/list").json["entries"]][:1]
    assert entry["name"] == "Seen"
    anna = {row["name"] for row in by_age(world.store)}
    [other] = [name for name in anna if name.startswith("Seen (")]
    version = world.store.entries.list_version()
    world.store.entries.set_ages(["0100FFFF00000000"], 7)
    assert len([name for name in seen_names(world) if name.startswith("Seen (")]) == 2
    assert world.store.entries.list_version() > version
    world.store.entries.set_ages(["0100FFFF00000000"], 12)
    assert seen_names(world) == {"Seen", "Seen - Update 1"}
    assert {row["name"] for row in by_age(world.store)} == anna


def test_no_file_s_name_tells_that_another_one_is_hidden(
    world: World, library: Library
) -> None:
    """Each has the name that it has without the hidden ones; adults have as before."""
    name, titles = "Twin.nsp", {}
    for folder in "abc":
        library.add(f"{folder}/{name}", folder.encode())
        world.web.scanner.scan()
        titles[folder] = by_age(world.store)[-1]["id"]
    a, b, c = titles.values()
    marked = {"b": f"Twin ({b}).nsp", "c": f"Twin ({c}).nsp"}
    shown = {"": {}, "b": {"b": name}, "bc": {"b": name, "c": marked["c"]}}
    shown |= {"c": {"c": name}, "abc": {"a": name, **marked}}
    for seen, names in shown.items():
        for folder, title in titles.items():
            world.store.entries.set_ages([title], 7 if folder in seen else None)
        assert twins(world, "kid") == {names[folder]: folder for folder in names}
        assert twins(world, "anna") == {name: "a", marked["b"]: "b", marked["c"]: "c"}
        for app, age in ((world.app("key"), 7), (world.app("key", "anna"), EVERYTHING)):
            for folder, title in titles.items():
                if age == EVERYTHING or folder in seen:
                    given = names if age == 7 else {"a": name, **marked}
                    told = app.get(f"/api/download/{title}").headers
                    told_name = told["Content-Disposition"].partition("UTF-8''")[2]
                    assert urllib.parse.unquote(told_name) == given[folder]


def twins(world: World, who: str) -> dict[str, str]:
    """Return the contents of the files called Twin, by their names in each list."""
    app = webtest.TestApp(world.web.app, {"REMOTE_ADDR": "192.168.1.9"})
    base = f"/dir/{world.tokens[who]}"
    index = [file["url"] for file in app.get(f"{base}/index.json").json["files"]]
    [section] = app.get(f"{base}/api/shop/sections").json["sections"]
    listed = re.findall('href="(Twin[^"]*)"', app.get(f"{base}/nsp/").text)
    lists = [index, [item["url"] for item in section["items"]], listed]
    found = [
        {urllib.parse.unquote(url.rpartition("/")[2]) for url in urls if "Twin" in url}
        for urls in lists
    ]
    assert found[0] == found[1] == found[2]
    every = [f"Twin{mark}.nsp" for mark in ("", *(f" ({id})" for id in all_ids(world)))]
    answers = {
        name: app.get(f"{base}/{urllib.parse.quote(name)}", expect_errors=True)
        for name in every
    }
    got = {
        name: answers[name].text for name in every if answers[name].status_int == 200
    }
    assert found[0] == {*got}
    return got


def all_ids(world: World) -> list[str]:
    return [row["id"] for row in by_age(world.store)]


def test_an_item_s_name_differs_from_all_on_the_card(
    world: World, library: Library
) -> None:
    """Also that of a hidden one, which an adult has sent to a child's device."""
    settings = dataclasses.replace(world.web.settings, sources="url")
    web = catalogd.Web(world.store, settings, world.web.scanner)
    ids = {}
    for folder in "abc":
        library.add(f"{folder}/Twin.nro", folder.encode())
        world.web.scanner.scan()
        ids[folder] = by_age(world.store)[-1]["id"]
    world.store.entries.set_ages([ids["b"]], 7)
    world.store.queue.cancel_waiting(world.anna)
    for folder in "ab":
        world.store.queue.send(world.anna, ids[folder], world.devices["kid"])
    app = webtest.TestApp(web.app, {"REMOTE_ADDR": "192.168.1.9"})
    app.authorization = ("Bearer", world.keys["kid"])
    items = app.get("/api/send-queue").json["queue"]
    names = [item["entry_name"] for item in items if "Twin" in item["entry_name"]]
    assert names == [f"Twin ({ids['a']}).nro", "Twin.nro"]


def test_the_age_of_equal_files_tells_of_no_hidden_name(
    world: World, library: Library
) -> None:
    for path, content in {"x/One": b"1", "y/Two": b"2", "z/Two": b"1"}.items():
        library.add(f"{path}.nro", content)
        world.web.scanner.scan()
    one = next(row["id"] for row in by_age(world.store) if row["name"] == "One")
    world.store.entries.set_ages([one], 7)
    os.remove(library.folder / "x/One.nro")
    world.web.scanner.scan()
    assert "Two" in seen_names(world)


def test_an_admin_makes_a_console_address_for_a_child(world: World) -> None:
    page = world.app("session", "anna")
    token = page.post_json(f"/web/accounts/{world.kid}/dir", {}).json["token"]
    assert world.app("session").get("/web/dir").json["token"] == token
    text = world.app("open").get(f"/dir/{token}/all/").text
    assert "Seen" in text and "Secret" not in text
    page.post_json("/web/accounts/99/dir", {}, status=404)


def test_a_child_adds_no_files(world: World) -> None:
    """An upload would tell which names are taken, and which contents are there."""
    page = world.app("session")
    assert "inbox" not in page.get("/web/me").json["account"]
    assert "inbox" in world.app("session", "anna").get("/web/me").json["account"]
    body = {"name": "Secret [0100CCCCDDDD0000][v0].nsp", "size": 5}
    page.post_json("/web/uploads", body, status=403)


def test_a_child_s_scan_state_has_neither_folders_nor_counts(world: World) -> None:
    state = world.app("session").get("/web/scan").json
    assert not state["folders"] and not state["files"] and not state["result"]
    assert world.app("session", "anna").get("/web/scan").json["folders"]


# Items that open again


def failed(world: World, who: str, entry: str, device: str | None) -> dict[str, str]:
    """Send an entry that fails. Return the field that names its item."""
    account = {"anna": world.anna, "kid": world.kid}[who]
    world.store.queue.send(account, world.ids[entry], device)
    sql = "SELECT id FROM queue ORDER BY rowid DESC"
    item = {"queue_item_id": world.store.database.value(sql)}
    for status in ("processing", "failed"):
        world.app("key").post_json("/api/send-queue/update", {**item, "status": status})
    return item


@pytest.mark.parametrize("is_for_device", [True, False])
def test_a_child_opens_no_hidden_item_again(is_for_device: bool, world: World) -> None:
    key, page = world.app("key"), world.app("session")
    device = world.devices["kid"] if is_for_device else None
    item = failed(world, "kid", "Seen - Update 1", device)
    world.store.entries.set_ages([TITLES[SEEN]], 18)
    for body in ({"status": "processing"}, {"status": "failed"}, {}, {"offered": True}):
        path = "/api/send-queue/progress"
        answer = key.post_json(path, item | body, status=404)
        missing = key.post_json(path, {"queue_item_id": "0" * 16} | body, status=404)
        assert answer.body == missing.body
    path = f"/web/queue/{item['queue_item_id']}"
    page.post_json(f"{path}/retry", {}, status=404)
    page.post_json("/web/queue/retry", {})
    offer = {"queue_item_ids": [item["queue_item_id"]]}
    answer = key.post_json("/api/send-queue/addresses", offer)
    assert answer.json["addresses"] == {}
    key.get(f"/api/download/{world.ids['Seen - Update 1']}", status=404)
    status = 409 if is_for_device else 404  # an admin sees what a shared device failed
    world.app("session", "anna").post_json(f"{path}/retry", {}, status=status)


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_child_s_device_opens_nothing_again_that_an_adult_sent(
    is_cleared: bool, world: World
) -> None:
    item = failed(world, "anna", "Secret", world.devices["kid"])
    if is_cleared:
        world.store.queue.clear(world.anna, "9999", ())
    body = item | {"status": "processing"}
    key = world.app("key")
    key.post_json("/api/send-queue/progress", body, status=409)
    body["status"] = "failed"  # the end is repeated where the answer was lost
    key.post_json("/api/send-queue/progress", body)
    key.get(f"/api/download/{world.ids['Secret']}", status=404)


def test_an_adult_sends_anew_what_failed_on_a_child_s_device(world: World) -> None:
    item = failed(world, "anna", "Secret", world.devices["kid"])["queue_item_id"]
    anna, kid = world.app("session", "anna"), world.app("session")
    kid.post_json(f"/web/queue/{item}/retry", {}, status=404)
    anna.post_json(f"/web/queue/{item}/retry", {})
    undo = anna.post_json(f"/web/queue/{item}/cancel", {}).json
    anna.post_json("/web/queue/undo", undo | {"success": True}, status=409)
    assert (
        world.app("key")
        .get(f"/api/download/{world.ids['Secret']}", expect_errors=True)
        .status_int
        == 404
    )


def test_a_child_sends_nothing_to_a_younger_one_s_device(world: World) -> None:
    store, seen = world.store, world.ids["Seen - Update 1"]
    baby = store.accounts.add("baby", "", age=3)
    key = store.accounts.add_key(baby, "Baby", b"1", is_device=True, shared=True)
    assert store.queue.send_all(world.kid, [seen], key)["added"] == []
    store.queue.send(world.kid, seen)
    item = store.queue.items(world.kid)[-1]["id"]
    page = world.app("session")
    answer = page.post_json(f"/web/queue/{item}/device", {"device": key}, status=409)
    assert answer.json["reason"] == "item_is_hidden"
    assert store.queue.send_all(world.anna, [seen], key)["added"] == [seen]


# What may read entries without asking who sees them, in calls of a child.
UNASKED = {
    "SELECT * FROM served_files": "the file of an entry that Entries.get gave",
    "SELECT * FROM entries WHERE id IN": "Entries.details, after its check",
    "INSERT OR REPLACE INTO sent": "of the item that CLIENT_ITEM gave",
    "SELECT id, device, status": "how many items wait, for the state of a device",
    "SELECT 1 FROM all_items WHERE instr(action": "undo, by an id its maker alone has",
}
READ = re.compile(
    r"\b(FROM|JOIN)"
    r" (entries|parts|answers|items|all_items|known_files|served_files|icons)\b"
)


def test_each_statement_asks_who_sees_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of routes to come: SQLite tells which statements their calls run."""
    stay = re.compile("logout|sessions|DELETE|clear|web/check|consoles|/icon|manifest")
    calls = [
        (rule, app)
        for rule in catalogd.ROUTES
        if rule.access in ("session", "key", "key or session", "dir", "menu")
        and not stay.search(rule_id(rule))
        for app in world.apps(rule.access)
    ]
    run: list[str] = []
    connect = catalogd.Database._connect

    def traced(database: catalogd.Database) -> Any:
        db = connect(database)
        db.set_trace_callback(run.append)
        return db

    for db in world.store.database._all:
        db.set_trace_callback(run.append)
    monkeypatch.setattr(catalogd.Database, "_connect", traced)
    for rule, app in calls:
        for which in (SEEN, HIDDEN):
            call(app, rule, which, world)
    statements = {" ".join(text.split()) for text in run if READ.search(text)}
    assert len(statements) > 10
    assert not [
        text
        for text in statements
        if "seen_from" not in text and not text.startswith(tuple(UNASKED))
    ]


def test_parts_that_turn_out_to_be_of_one_title_are_undecided_if_one_of_them_was(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an upgrade reads the ids of both at once."""
    entries = scanner.store.entries
    monkeypatch.setattr(catalogd, "title_facts", lambda title_id: {})
    for number in ("0000", "0800"):
        library.add(f"A [0400AAAABBBB{number}].nsp")
    scanner.scan()
    base, _ = entries.files()
    entries.set_ages([base.id], 7)
    monkeypatch.undo()
    with entries.changing() as db:
        catalogd.change_entries(db, {row.id: {} for row in entries.files()})
    assert json.loads(entries.list_json(16)) == []
    assert entries.former_ages()["0400AAAABBBB0000"]["age"] == 7


# The table of packaging/security.md: each route, called by each kind of caller


TEXT = pathlib.Path(__file__).parent.parent / "packaging/security.md"
ROWS = re.findall(r"(?m)^\| (.*) \| (.*) \|$", TEXT.read_text().split("\n\n")[2])[2:]
EVERYBODY = ROWS[0][1].split(", ")
# Who may, by the codes of a row: an access of routes, or the start of some routes.
MAY = {
    code: {who for who in EVERYBODY if who in callers.split(", ")}
    for what, callers in ROWS
    for code in re.findall("`([^`]+)`", what)
}


def allowed(rule: catalogd.Route) -> set[str]:
    named = [code for code in MAY if "/" in code and code in rule_id(rule)]
    return MAY.get(named[0] if named else rule.access, set())


def test_each_route_is_in_the_table() -> None:
    assert {rule.access for rule in catalogd.ROUTES} <= {*MAY}
    known = {*EVERYBODY, "nobody of these"}
    assert all(known.issuperset(callers.split(", ")) for _, callers in ROWS)
    assert len(EVERYBODY) == 7


class Callers:
    """One of each kind, which has all that it may have."""

    def __init__(self, world: World) -> None:
        self.world, store = world, world.store
        store.accounts.add("ben", catalogd.hash_password(PASSWORD))
        console = {"name": "Attic", "target": "lan://127.0.0.1"}
        device = store.devices.add(world.anna, console)
        self.lent = store.accounts.lend_key(device)

    def app(self, who: str, access: str) -> webtest.TestApp:
        app = self.world.app("open")
        names = {"child": "kid", "member": "ben", "admin": "anna"}
        if who in names:
            return self.world.app("session", names[who])
        key = {"served console": self.lent, "paired device": self.world.keys["anna"]}
        if who in key and access in ("dir", "menu"):
            app.authorization = ("Basic", ("anna", key[who]))
        elif who in key:
            app.authorization = ("Bearer", key[who])
        return app

    def call(self, who: str, rule: catalogd.Route) -> Any:
        app = self.app(who, rule.access)
        if who == "console address" and rule.access in ("dir", "menu"):
            base = f"/dir/{self.world.tokens['anna']}"
            path = re.sub(r"<base[^>]*>+|^/dir<path.*", base, rule.path)
            path = re.sub(r"<\w+(:re:[^>]*)?>", "remote", path)
            return app.request(path, method=rule.method, expect_errors=True)
        return call(app, rule, MISSING, self.world)

    def may(self, who: str, rule: catalogd.Route) -> bool:
        return not is_refused(self.call(who, rule))


def is_refused(answer: Any) -> bool:
    found = answer.json if answer.content_type == "application/json" else {}
    return answer.status_int == 401 or (
        found.get("reason") in ("admins_only", "not_signed_in")
    )


SAFE = [rule for rule in catalogd.ROUTES if rule.method == "GET"]
GROUPS = [SAFE, *([rule] for rule in catalogd.ROUTES if rule not in SAFE)]


@pytest.mark.parametrize("rules", GROUPS, ids=lambda rules: rule_id(rules[0]))
def test_each_caller_may_do_what_the_table_says(
    rules: list[catalogd.Route], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes that change nothing are called in one household."""
    monkeypatch.setattr(catalogd, "find_consoles", lambda *given: [])
    callers = Callers(world)
    found = {
        rule_id(rule): {who for who in EVERYBODY if callers.may(who, rule)}
        for rule in rules
    }
    assert found == {rule_id(rule): allowed(rule) for rule in rules}
