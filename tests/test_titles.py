"""Titles: names of parts, what a title offers, what is sent of it, and tidying."""

import errno
import functools
import json
import os
import pathlib
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import containers
import household
from conftest import LONG_AGO, PASSWORD, Clock, Library, add_folder, steps

BASE = "0100AAAABBBB0000"
UPDATE = "0100AAAABBBB0800"
ADD_ON = "0100AAAABBBB1001"
OTHER_BASE = "0100AAAABBBC0000"


@pytest.fixture
def anna(store: catalogd.Store) -> int:
    return store.accounts.add("anna", catalogd.hash_password(PASSWORD))


@pytest.fixture
def signed_in(browser: webtest.TestApp, anna: int) -> webtest.TestApp:
    browser.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    return browser


class Titles:
    """A library whose files are named by what is before their id."""

    def __init__(self, library: Library, scanner: catalogd.Scanner) -> None:
        self.library = library
        self.scanner = scanner
        self.store = scanner.store

    def add(self, *names: str) -> None:
        """Add files, all of another size."""
        count = len(os.listdir(self.library.folder))
        for number, name in enumerate(names):
            self.library.add(name, name.encode() + bytes(count + number))
        self.scanner.scan()

    def page(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self.store.entries.list_json(catalogd.EVERYTHING, for_page=True)
        )
        return found

    def names(self) -> list[str]:
        return [entry["name"] for entry in self.page()]

    def parts(self) -> dict[str, str | None]:
        """What becomes of each entry when its title is sent, by name."""
        return {entry["name"]: entry.get("part") for entry in self.page()}

    def id(self, name: str) -> str:
        return str(next(row["id"] for row in self.page() if row["name"] == name))

    def sent(self, done: dict[str, list[Any]]) -> list[str]:
        """The names of what was added to a queue."""
        names = {entry["id"]: entry["name"] for entry in self.page()}
        return [names[entry] for entry in done["added"]]

    def finish(self, account: int) -> None:
        for item in self.store.clients.pending(account):
            self.store.clients.report(account, item["id"], {"status": "completed"})


@pytest.fixture
def titles(library: Library, scanner: catalogd.Scanner) -> Titles:
    return Titles(library, scanner)


# Kinds and names


def test_an_entry_tells_its_kind_and_its_base(titles: Titles) -> None:
    titles.add(f"A [{UPDATE.lower()}][v131072].nsp", "B.nro", "C.nsp")
    rows = {
        row["name"]: row["metadata"]
        for row in json.loads(titles.store.entries.list_json(catalogd.EVERYTHING))
    }
    assert rows["A - Update 2"]["kind"] == "update"
    assert rows["A - Update 2"]["base_id"] == BASE
    assert rows["B"]["kind"] == "homebrew"
    assert {"kind", "base_id"}.isdisjoint(rows["C"])


def test_the_page_gets_only_what_it_needs(titles: Titles) -> None:
    titles.add(f"A [{UPDATE}][v131072].nsp", "B.nsp")
    update, plain = titles.page()
    assert update == {
        "id": update["id"],
        "name": "A - Update 2",
        "type": "filepath",
        "file_type": "nsp",
        "size": update["size"],
        "state": "here",
        "kind": "update",
        "base_id": BASE,
        "title_id": UPDATE,
        "version": "131072",
        "patch": 2,
        "created_at": update["created_at"],
        "file_time": update["file_time"],
    }
    of_games = {"kind", "base_id", "title_id", "version", "patch"}
    assert plain.keys() == update.keys() - of_games


def test_names_stay_apart_while_files_come_go_and_are_renamed(titles: Titles) -> None:
    folder = titles.library.folder
    titles.add(f"A [{BASE}].nsp")
    assert titles.names() == ["A"]
    titles.add(f"A [{BASE}].xci")
    assert titles.names() == ["A (NSP)", "A (XCI)"]
    titles.add(f"A [{BASE}][v0].nsp")
    assert titles.names() == [
        f"A (A [{BASE}].nsp)",
        f"A (A [{BASE}][v0].nsp)",
        "A (XCI)",
    ]
    os.rename(folder / f"A [{BASE}][v0].nsp", folder / f"B [{BASE}][v0].nsp")
    titles.scanner.scan()
    assert titles.names() == ["A (NSP)", "A (XCI)", "B"]
    os.remove(folder / f"A [{BASE}].xci")
    titles.scanner.scan()
    assert titles.names() == ["A", "B"]
    titles.store.entries.edit(titles.id("B"), {"name": "a"})
    assert titles.names() == ["a", "A (NSP)"]
    titles.store.entries.edit(titles.id("a"), None)
    assert titles.names() == ["A", "B"]


def test_a_link_and_a_file_of_one_name_are_told_apart(titles: Titles) -> None:
    titles.add("A.nsp")
    link = titles.store.entries.add_link("http://x/y", 1, "", {"name": "A"}, "anna")
    assert titles.names() == ["A", "A (NSP)"]
    titles.store.entries.remove_link(link)
    assert titles.names() == ["A"]


def test_a_file_that_is_back_gets_its_name_back(titles: Titles) -> None:
    titles.add("A.nsp", "A.xci")
    os.rename(titles.library.folder / "A.xci", titles.library.folder.parent / "A.xci")
    titles.scanner.scan()
    assert titles.names() == ["A"]
    os.rename(titles.library.folder.parent / "A.xci", titles.library.folder / "A.xci")
    titles.scanner.scan()
    assert titles.names() == ["A (NSP)", "A (XCI)"]


def test_downloads_and_directories_keep_the_names_of_files(
    titles: Titles, signed_in: webtest.TestApp, anna: int
) -> None:
    name = f"A [{UPDATE}][v131072].nsp"
    titles.add(name)
    answer = signed_in.get(f"/web/download/{titles.id('A - Update 2')}")
    assert name in answer.headers["Content-Disposition"]
    titles.store.addresses.set_browse_token(anna, "token")
    assert name in signed_in.get("/dir/token/nsp/").text


def test_the_kind_changes_with_the_name_of_the_file(titles: Titles) -> None:
    titles.add(f"A [{BASE}].nsp")
    before = titles.id("A")
    folder = titles.library.folder
    os.rename(folder / f"A [{BASE}].nsp", folder / f"A [{ADD_ON}].nsp")
    titles.scanner.scan()
    assert titles.id("A - Add-on 1") == before
    assert titles.page()[0]["kind"] == "add-on"


def test_an_admin_says_what_a_part_is(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add("A [v65536].nsp")
    entry = titles.id("A")
    body = {"kind": "update", "base_id": BASE.lower()}
    signed_in.post_json(f"/web/entries/{entry}", body)
    assert titles.names() == ["A - Update 1"]
    found = signed_in.get(f"/web/entries/{entry}").json
    assert found["entry"]["metadata"]["base_id"] == BASE
    assert found["entry"]["state"] == "here"
    assert found["file"] == {"name": "A", "description": "", "version": "65536"}
    signed_in.post_json(f"/web/entries/{entry}", {"kind": ""})
    assert titles.names() == ["A"]
    assert "kind" not in titles.page()[0]


def test_an_edit_form_is_told_what_the_file_says(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add(f"A [{UPDATE}][v65536].nsp")
    entry = titles.id("A - Update 1")
    signed_in.post_json(f"/web/entries/{entry}", {"name": "B", "version": "x"})
    found = signed_in.get(f"/web/entries/{entry}").json
    assert found["entry"]["name"] == "B"
    assert found["file"] == {
        "name": "A - Update 1",
        "description": "",
        "version": "65536",
        "kind": "update",
        "base_id": BASE,
    }


def test_an_entry_whose_file_is_gone_has_no_details(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add("A.nsp")
    entry = titles.id("A")
    os.remove(titles.library.folder / "A.nsp")
    titles.library.add("B.nsp")
    titles.scanner.scan()
    signed_in.get(f"/web/entries/{entry}", status=404)
    signed_in.get("/web/entries/x", status=404)


# What a title offers

OFFERS: dict[str, dict[str, str | None]] = {
    "two bases": {
        f"A [{BASE}][v0].nsp": "copy",
        f"A [{BASE}][v65536].nsz": None,
    },
    "a game, and a cartridge that has an update too": {
        f"A [{BASE}][v0].nsp": None,
        f"A [{BASE}][v9].xci": None,
        f"A [{UPDATE}][v9].nsp": None,
        f"A [{UPDATE}][v8].nsp": "superseded",
    },
    "packages with several contents": {
        f"A [{BASE}] [v9] (1G+1U).nsp": None,
        f"A [{BASE}] [v8] (1G+1U).xci": "copy",
        f"A [{BASE}] [v8] (1G+1U+1D).xci": None,  # it is not known which add-on
    },
    "bases of one version": {  # each file is larger than the one before
        f"A [{BASE}].nsp": "copy",
        f"A [{BASE}][v].xci": None,
    },
    "updates": {
        f"A [{BASE}][v0].nsp": None,
        f"A [{UPDATE}][v65536].nsp": "superseded",
        f"A [{UPDATE}][v131072].nsp": "copy",
        f"A [{UPDATE}][v131072].nsz": None,
        f"A [{UPDATE}][v].nsp": "superseded",
    },
    "an update older than its base": {
        f"A [{BASE}][v131072].nsp": None,
        f"A [{UPDATE}][v65536].nsp": "superseded",
    },
    "add-ons": {
        f"A [{ADD_ON}][v0].nsp": "copy",
        f"A [{ADD_ON}][v65536].nsp": None,
        "A [0100AAAABBBB1002][v0].nsp": None,
    },
    "ids that are no game's": {
        "A [0000000000000000].nsp": None,
        "A [0000000000000000].xci": None,
        "B [0000000000000800][v0].nsp": None,
        "B [0000000000000800][v65536].nsp": None,
    },
    "no ids": {"A.nsp": None, "A.xci": None, "A.nro": None},
}


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS.keys())
def test_a_title_offers_the_latest_of_each_part(
    offer: dict[str, str | None], titles: Titles
) -> None:
    titles.add(*offer)
    files = {known.id: known.file.path for known in titles.store.entries.files()}
    parts = {
        os.path.basename(files[row["id"]]): row.get("part") for row in titles.page()
    }
    assert parts == offer


def test_what_is_here_is_offered_before_what_is_offline(
    titles: Titles, settings: catalogd.Settings, tmp_path: pathlib.Path
) -> None:
    other = Library(tmp_path / "other")
    other.add(f"A [{BASE}][v65536].nsp")
    other.add(f"A [{UPDATE}][v131072].nsp")
    add_folder(titles.scanner, str(other.folder))
    titles.add(f"A [{BASE}][v0].xci", f"A [{UPDATE}][v65536].nsp")
    assert titles.parts()["A - Update 1"] == "superseded"
    other.folder.rename(tmp_path / "unplugged")
    titles.scanner.scan()
    assert titles.parts() == {
        "A (NSP)": "copy",
        "A (XCI)": None,
        "A - Update 1": None,
        "A - Update 2": None,
    }


# Sending


def test_a_title_is_sent_in_order(
    titles: Titles, anna: int, signed_in: webtest.TestApp
) -> None:
    titles.add(
        "A [0100AAAABBBB1002].nsp",
        f"A [{ADD_ON}].nsp",
        f"A [{UPDATE}][v131072].nsp",
        f"A [{UPDATE}][v65536].nsp",
        f"A [{BASE}].nsp",
        "B.nsp",
    )
    names = ["A", "A - Update 2", "A - Add-on 1", "A - Add-on 2"]
    body = {"entries": [titles.id(name) for name in names[::-1]]}
    done = signed_in.post_json("/web/send", body).json
    assert titles.sent(done) == names
    assert [row["name"] for row in titles.store.clients.pending(anna)] == titles.sent(
        done
    )
    assert (done["already"], done["failed"]) == ([], [])
    again = signed_in.post_json("/web/send", body).json
    assert (again["already"], again["added"]) == (done["added"], [])


def test_what_was_sent_is_told_a_part_and_a_version(
    titles: Titles, anna: int, signed_in: webtest.TestApp, clock: Clock
) -> None:
    name = f"A [{UPDATE}][v65536].nsp"
    titles.add(name)
    entry = titles.id("A - Update 1")
    titles.store.queue.send(anna, entry)
    titles.finish(anna)
    titles.store.queue.clear(anna, "9999", ())
    row = {"entry": entry, "version": "65536", "device": None}
    row["contents"] = [[UPDATE, 65536]]
    row |= {"account": "anna", "sent_at": catalogd.stamp(clock.now)}
    assert signed_in.get("/web/changes").json["sent"] == [row]
    newer = titles.library.folder / f"A [{UPDATE}][v131072].nsp"
    os.rename(titles.library.folder / name, newer)
    titles.scanner.scan()
    assert titles.store.queue.send(anna, entry)
    titles.finish(anna)
    rows = signed_in.get("/web/changes").json["sent"]
    assert [row["version"] for row in rows] == ["131072", "65536"]
    titles.library.add(newer.name, b"a better dump")  # of the same content
    titles.scanner.scan()
    assert signed_in.get("/web/changes").json["sent"] == rows


def test_what_was_sent_of_a_file_without_an_id_was_its_bytes(
    titles: Titles, anna: int
) -> None:
    titles.add("A.nsp")
    titles.store.queue.send(anna, titles.id("A"))
    titles.finish(anna)
    titles.library.add("A.nsp", b"another game")
    titles.scanner.scan()
    assert titles.store.queue.sent(anna) == []


def test_what_is_read_better_in_a_file_was_sent_then(
    titles: Titles, anna: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {"name": "A", "description": "", "version": ""}
    with monkeypatch.context() as patched:
        patched.setattr(catalogd, "file_facts", lambda *file: {**older})
        patched.setattr(catalogd, "FACTS_VERSION", catalogd.FACTS_VERSION - 1)
        titles.add(f"A [{BASE}] [v131072] (1G+1U).nsp")
        titles.store.queue.send(anna, titles.id("A"))
        titles.finish(anna)
    catalogd.Scanner(titles.store, titles.scanner.settings).scan()
    [sent] = titles.store.queue.sent(anna)
    assert (sent["version"], sent["contents"]) == (
        "131072",
        [[BASE, 0], [UPDATE, 131072]],
    )


def test_to_note_what_was_sent_reads_no_other_entries(titles: Titles) -> None:
    """Also in a library of 100,000, for each item that is completed."""
    sql = f"SELECT {catalogd.SENT_CONTENTS} FROM parts WHERE id = 'a'"
    plans = [*titles.store.database.rows(f"EXPLAIN QUERY PLAN {sql}")]
    better = f"EXPLAIN QUERY PLAN {catalogd.READ_SENT_BETTER}"
    plans += titles.store.database.rows(better, (1,))
    assert len(plans) > 4
    assert not [step for step in plans if step["detail"].startswith("SCAN")]


def test_many_entries_are_sent_title_after_title(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    other = "0100CCCCBBBB0000"
    titles.add(
        f"A [{UPDATE}][v131072].nsp",
        f"A [{UPDATE}][v65536].nsp",
        f"A [{BASE}].nsp",
        f"B [{other}].nsp",
        f"B [{other[:-4]}1001].nsp",
        "C.nsp",
    )
    names = ["B - Add-on 1", "A - Update 2", "C", "B", "A", "A - Update 1"]
    ids = [titles.id(name) for name in names]
    done = signed_in.post_json("/web/send", {"entries": ids}).json
    assert titles.sent(done) == [
        "B",
        "B - Add-on 1",
        "A",
        "A - Update 1",
        "A - Update 2",
        "C",
    ]


def test_a_title_whose_base_is_offline_is_sent_without_it(
    titles: Titles, tmp_path: pathlib.Path, signed_in: webtest.TestApp
) -> None:
    other = Library(tmp_path / "other")
    other.add(f"A [{BASE}].nsp")
    add_folder(titles.scanner, str(other.folder))
    titles.add(f"A [{UPDATE}][v65536].nsp")
    other.folder.rename(tmp_path / "unplugged")
    titles.scanner.scan()
    body = {"entries": [titles.id("A"), titles.id("A - Update 1")]}
    done = signed_in.post_json("/web/send", body).json
    assert titles.sent(done) == ["A - Update 1"]
    why = {"message": "Its disk is not connected.", "reason": "disk_away"}
    failed = {"entry_id": titles.id("A"), **why}
    assert done["failed"] == [failed]


def test_what_cannot_be_sent_does_not_hold_up_the_rest(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add("A.nsp")
    body = {"entries": ["none", titles.id("A")]}
    done = signed_in.post_json("/web/send", body).json
    assert titles.sent(done) == ["A"]
    why = {"message": "There is no such entry.", "reason": "no_entry"}
    failed = {"entry_id": "none", **why}
    assert done["failed"] == [failed]


def test_no_item_is_cancelled_twice_by_one_call(signed_in: webtest.TestApp) -> None:
    answer = signed_in.post_json("/web/queue/a,b,a/cancel", {}, status=400)
    assert answer.json["reason"] == "field_doubles"


def test_many_entries_are_sent_by_one_call_that_costs_as_much_as_they_are_many(
    store: catalogd.Store, signed_in: webtest.TestApp
) -> None:
    row = {"type": "url", "source": "http://x/y", "file_type": "nsp", "size": 1}
    row |= {"created_by": "anna", "state": "here", "created_at": "", "facts_version": 1}
    rows = [
        {**row, "id": f"{n:016x}", "facts": {"name": f"A{n}"}} for n in range(2_200)
    ]
    with store.database.writing() as db:
        catalogd.write_entries(db, rows)

    def send(entries: list[str]) -> None:
        done = signed_in.post_json("/web/send", {"entries": entries})
        assert done.json["added"] == entries

    ids = [row["id"] for row in rows]
    few, many = (
        steps(store, functools.partial(send, some)) for some in (ids[:200], ids[200:])
    )
    assert many < 20 * few


def test_a_send_can_be_undone(
    titles: Titles, anna: int, signed_in: webtest.TestApp
) -> None:
    titles.add("A.nsp", "B.nsp", "C.nsp")
    ids = [titles.id(name) for name in "ABC"]
    signed_in.post_json("/web/send", {"entries": ids[2:]})
    sent = signed_in.post_json("/web/send", {"entries": ids}).json
    store = titles.store
    third, first, second = store.queue.items(anna)
    store.clients.report(anna, first["id"], {})
    signed_in.post_json("/web/queue/undo", {"undo": sent["undo"]})
    left = {row["id"]: row["status"] for row in store.queue.items(anna)}
    assert left == {first["id"]: "cancelled", third["id"]: "pending"}
    with pytest.raises(catalogd.Conflict):  # the client that sends it is told
        store.clients.report(anna, first["id"], {})


def test_a_send_is_not_undone_once_its_file_was_sent(
    titles: Titles, anna: int, signed_in: webtest.TestApp
) -> None:
    titles.add("A.nsp")
    sent = signed_in.post_json("/web/send", {"entries": [titles.id("A")]}).json
    (item,) = titles.store.queue.items(anna)
    titles.store.clients.report(anna, item["id"], {"status": "completed"})
    undo = {"undo": sent["undo"]}
    for _ in range(2):
        answer = signed_in.post_json("/web/queue/undo", undo, status=409).json
        assert answer["reason"] == "changed_since"
    assert titles.store.queue.items(anna)[0]["status"] == "completed"


def test_all_that_waits_is_cancelled(
    titles: Titles, anna: int, signed_in: webtest.TestApp, clock: Clock
) -> None:
    titles.add("A.nsp", "B.nsp", "C.nsp")
    store = titles.store
    store.queue.send_all(anna, [titles.id(name) for name in "ABC"], None)
    stale, sending, _ = (row["id"] for row in store.queue.items(anna))
    store.clients.report(anna, stale, {})
    clock.now += 1000
    store.clients.report(anna, sending, {})
    signed_in.post_json("/web/queue/cancel", {})
    items = store.queue.items(anna)
    assert [row["status"] for row in items] == ["cancelled", "processing", "cancelled"]


# Tidying


def tidied(app: webtest.TestApp) -> list[tuple[str, str]]:
    files = app.get("/web/tidy").json["files"]
    return [(row["reason"], row["name"]) for row in files]


def test_a_tidy_library_has_nothing_to_tidy(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add(
        f"A [{BASE}].nsp", f"A [{UPDATE}][v65536].nsp", f"A [{BASE}].xci", "B.nro"
    )
    told = {"success": True, "files": [], "passed_over": [], "bytes": 0}
    assert signed_in.get("/web/tidy").json == told


def test_what_is_passed_over_is_told_and_named(
    titles: Titles, signed_in: webtest.TestApp, service: catalogd.Web, store: Any
) -> None:
    titles.add("A.nsp", ".b.nsp", "c.zip", "d.zip")
    folder = titles.library.folder
    passed = signed_in.get("/web/tidy").json["passed_over"]
    assert passed == [
        {"path": f"{folder}/.b.nsp", "kind": "passed_hidden", "pattern": ""},
        {"path": f"{folder}/c.zip", "kind": "passed_archive", "pattern": ""},
        {"path": f"{folder}/d.zip", "kind": "passed_archive", "pattern": ""},
    ]
    told = signed_in.get("/web/scan").json["passed_over"]
    assert [it["message"] for it in told] == ["2 archives", "1 hidden file"]
    assert told[0]["reason"] == "passed_archive"
    assert told[0]["arguments"] == {"count": "2"}
    assert catalogd.scan_state(titles.scanner, 7)["passed_over"] == []


def test_what_can_be_tidied_is_told_with_its_reason(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add(
        f"A [{BASE}].nsp",
        f"A [{UPDATE}][v65536].nsp",
        f"A [{UPDATE}][v131072].nsp",
        "B [0100CCCCBBBB0800][v65536].nsp",
        "C [0100CCCCBBBB1001].nsp",
    )
    path = titles.library.add("D.nsp", household.package(BASE, "D", False, 1 << 40))
    titles.scanner.scan()
    answer = signed_in.get("/web/tidy").json
    assert [(row["reason"], row["name"]) for row in answer["files"]] == [
        ("incomplete", "D"),
        ("no base", "B - Update 1"),
        ("no base", "C - Add-on 1"),
        ("superseded", "A - Update 1"),
    ]
    assert answer["bytes"] == sum(row["size"] for row in answer["files"])
    assert answer["files"][0] == {
        "reason": "incomplete",
        "id": titles.id("D"),
        "name": "D",
        "path": path,
        "size": os.path.getsize(path),
    }
    assert answer["files"][-1]["title"] == "A"


def test_of_equal_files_all_but_one_can_go(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    for name in ("one/A.nsp", "two/A.nsp", "three/A.nsp", "B.nsp"):
        titles.library.add(name, b"equal")
    titles.scanner.scan()
    files = signed_in.get("/web/tidy").json["files"]
    assert [row["reason"] for row in files] == ["equal"] * 3
    (kept,) = {row["of"] for row in files}
    assert kept not in {row["id"] for row in files}


def test_hard_links_waste_no_bytes(titles: Titles, signed_in: webtest.TestApp) -> None:
    path = titles.library.add("A.nsp", b"equal")
    os.link(path, titles.library.folder / "B.nsp")
    titles.scanner.scan()
    assert signed_in.get("/web/tidy").json["files"] == []
    copy = titles.library.add("C.nsp", b"equal")
    titles.scanner.scan()
    [file] = signed_in.get("/web/tidy").json["files"]
    assert file["path"] == copy


def test_of_equal_parts_the_one_that_is_offered_is_kept(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    for name in (f"A [{BASE}][v0].nsp", f"A [{BASE}][v65536].nsp"):
        titles.library.add(name, b"equal")
    titles.scanner.scan()
    offered = next(row["id"] for row in titles.page() if "part" not in row)
    (file,) = signed_in.get("/web/tidy").json["files"]
    assert file["of"] == offered


def test_files_with_other_checksums_are_not_equal(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    for name, middle in (("A.nsp", b"1"), ("B.nsp", b"2")):
        titles.library.add(name, b"a" * 70_000 + middle + b"a" * 70_000)
    titles.scanner.scan()
    assert len(tidied(signed_in)) == 1
    catalogd.main(["verify", "--data-dir", titles.store.database.folder])
    assert tidied(signed_in) == []


def test_a_file_that_verify_finds_damaged_is_told_until_it_is_read_again(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    verify = ["verify", "--data-dir", titles.store.database.folder]
    path = titles.library.add("A.nsp", b"content")
    titles.scanner.scan()
    catalogd.main(verify)
    titles.library.add("A.nsp", b"c0ntent")  # with the same time
    assert catalogd.main(verify) == 2
    assert tidied(signed_in) == [("damaged", "A")]
    assert catalogd.main(verify) == 2
    os.utime(path, (LONG_AGO + 1,) * 2)
    titles.scanner.scan()
    assert tidied(signed_in) == []


def test_a_file_that_a_scan_cannot_read_is_told_until_it_can(
    titles: Titles, signed_in: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = titles.library.add("A.nsp", b"content")

    fail = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "open_file", fail)
        titles.scanner.scan()
    [found] = signed_in.get("/web/tidy").json["files"]
    assert (found["reason"], found["path"]) == ("unreadable", path)
    assert found["size"] == len(b"content")
    titles.scanner.scan()
    assert tidied(signed_in) == []


# A whole library


def test_every_part_of_a_household_has_a_name_of_its_own(
    titles: Titles, signed_in: webtest.TestApp, anna: int
) -> None:
    household.write(titles.library.folder, unit=10)
    titles.scanner.scan()
    names = titles.names()
    assert len(names) == len({name.casefold() for name in names}) == 300
    reasons = {reason for reason, _ in tidied(signed_in)}
    assert reasons == {"equal", "incomplete", "no base", "superseded"}
    (garden,) = [row for row in titles.page() if row["name"] == "Star Garden"]
    parts = [row for row in titles.page() if row.get("base_id") == garden["base_id"]]
    offered = [row["id"] for row in parts if "part" not in row]
    sent = titles.sent(signed_in.post_json("/web/send", {"entries": offered}).json)
    assert sent[0] == "Star Garden" and len(sent) == len(set(sent)) > 14


def test_the_cost_of_add_ons_of_a_title_grows_no_faster_than_their_number(
    titles: Titles, anna: int
) -> None:
    store = titles.store

    def add_and_send(letter: str, base: str, count: int) -> None:
        first = int(base, 16) + 0x1001
        names = [f"{letter} [{first + number:016X}].nsp" for number in range(count)]
        rows = [
            (
                catalogd.FoundFile(f"/g/{name}", "/g", n + 1, 1, n, "v"),
                catalogd.FileContent(name, catalogd.name_facts(name)),
            )
            for n, name in enumerate(names)
        ]
        for batch in catalogd.batches(rows):
            store.entries.add_files(batch, listed=True)
        shown = [name for name in titles.names() if name.startswith(letter)]
        assert len({*shown}) == count
        assert shown[0] == f"{letter} - Add-on 1"
        ids = [row["id"] for row in titles.page() if row["name"] in {*shown}]
        assert len(store.queue.send_all(anna, ids, None)["added"]) == count

    few = steps(store, lambda: add_and_send("A", BASE, 100))
    many = steps(store, lambda: add_and_send("B", OTHER_BASE, 1000))
    assert many < 25 * few


# Contents of files


OTHER = "0100CCCCBBBB0000"
CARD = f"A [{BASE}][v9] + B [{OTHER}][v0].xci"


def test_a_cartridge_of_two_games_is_seen_from_the_stricter_age(titles: Titles) -> None:
    titles.add(CARD, "C.nsp")
    entries = titles.store.entries

    def seen(age: int) -> list[str]:
        return [row["name"] for row in json.loads(entries.list_json(age))]

    entries.set_ages([BASE], 7)
    assert seen(16) == []
    entries.set_ages([OTHER], 12)
    assert (seen(7), seen(12)) == ([], ["A + B"])
    entries.set_ages([OTHER], 3)
    assert seen(7) == ["A + B"]
    entries.set_ages([BASE], None)
    assert seen(16) == []


def test_a_file_brings_the_base_and_the_newest_update_to_its_title(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.add(CARD, f"B [{OTHER[:-3]}800][v1].nsp", f"A [{UPDATE}][v8].nsp")
    assert tidied(signed_in) == [("superseded", "A - Update 0")]


def test_the_contents_of_a_file_change_with_its_name(titles: Titles) -> None:
    titles.add(CARD)
    sql = "SELECT title_id, number FROM contents ORDER BY title_id"
    rows = [{"title_id": BASE, "number": 0}, {"title_id": UPDATE, "number": 9}]
    more = [{"title_id": OTHER, "number": 0}]
    assert titles.store.database.rows(sql) == rows + more
    entry = titles.id("A + B")
    titles.store.entries.edit(entry, {"base_id": OTHER})  # of the main one alone
    titles_of = "SELECT title FROM contents WHERE title_id = ?"
    assert titles.store.database.value(titles_of, (BASE,)) == OTHER
    os.rename(titles.library.folder / CARD, titles.library.folder / "A.xci")
    titles.scanner.scan()
    assert titles.store.database.rows(sql) == []
    assert titles.page()[0]["id"] == entry


def test_menus_have_a_file_for_each_of_its_contents(titles: Titles) -> None:
    titles.add(CARD, f"A [{UPDATE}][v8].nsp", f"A [{BASE}] [v9] (1G+1U+1D).nsp")
    menus = titles.store.entries.menus
    parts = menus.of_titles(catalogd.EVERYTHING, [OTHER])
    assert [(part["appId"], part["appType"]) for part in parts] == [(OTHER, "BASE")]
    parts = menus.of_titles(catalogd.EVERYTHING, [BASE])
    updates = sorted(part["appVersion"] for part in parts if part["appId"] == UPDATE)
    assert updates == [8, 9, 9]
    assert len([part for part in parts if part["appId"] == BASE]) == 2
    titles.add(f"A [{BASE}] + D [{ADD_ON}].xci")
    assert menus.titles_with(ADD_ON, catalogd.EVERYTHING) == [BASE]


def test_contents_without_a_game_are_none(titles: Titles) -> None:
    titles.add("A [05A1B2C3D4E5F000] + B [0100AAAABBBB0000].nsp")
    sql = "SELECT title_id FROM contents"
    assert titles.store.database.rows(sql) == [{"title_id": BASE}]


def test_a_title_that_became_part_of_a_file_tells_from_which_age_it_was_seen(
    titles: Titles,
) -> None:
    titles.add(CARD)
    titles.store.entries.set_ages([BASE], 7)
    former = {OTHER: {"age": 7, "replaced": False}}
    assert titles.store.entries.former_ages() == former
    titles.store.entries.set_ages([OTHER], 3)
    assert titles.store.entries.former_ages() == {}


def test_a_console_gets_a_name_with_the_ending_of_what_a_file_is(
    titles: Titles, signed_in: webtest.TestApp
) -> None:
    titles.library.add(f"A [{BASE}].nsp", containers.cartridge({}))
    titles.library.add(f"B [{OTHER}].nsp", b"PK\3\4" * 9)
    titles.scanner.scan()
    names = {row["file_name"] for row in titles.store.entries.on_console(99)}
    assert names == {f"A [{BASE}].xci", f"B [{OTHER}].nsp"}
    answer = signed_in.get(f"/web/download/{titles.id('A')}")
    assert f'"A [{BASE}].xci"' in answer.headers["Content-Disposition"]
    [part] = titles.store.entries.menus.of_titles(catalogd.EVERYTHING, [BASE])
    assert part["downloadExtension"] == "xci"
    [file] = signed_in.get("/web/tidy").json["files"]
    assert (file["reason"], file["format"]) == ("incomplete", "zip")
