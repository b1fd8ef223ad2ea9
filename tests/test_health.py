"""What the service tells of its health: folders, disks, scans, backups and damage."""

import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import sqlite3
import threading
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
from conftest import Clock, Library, add_folder, wait_for

ROOM = shutil._ntuple_diskusage(10**12, 7 * 10**11, 3 * 10**11)


@pytest.fixture
def health(service: catalogd.Web) -> catalogd.Health:
    return service.health


def faults(health: catalogd.Health) -> list[tuple[str, str]]:
    """What each fault is about, and its message."""
    return [(row["about"], row["message"]) for row in health.state()["faults"]]


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The free bytes of folders, which a test may change."""
    known: dict[str, int] = {}
    real = shutil.disk_usage

    def disk_usage(path: str) -> Any:
        found = real(path)
        return found._replace(free=known.get(path, ROOM.free), used=ROOM.used)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    return known


# GET /api/status


def status_of(browser: webtest.TestApp, key: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"}
    answer: dict[str, Any] = browser.get("/api/status", headers=headers).json
    return answer


def test_every_key_gets_version_entries_and_the_queue_of_its_own_account(
    browser: webtest.TestApp, store: catalogd.Store, key: str
) -> None:
    ben = store.accounts.add("ben", "hash")
    of_ben = catalogd.new_key()
    store.accounts.add_key(ben, "phone", catalogd.hash_token(of_ben))
    facts = {"name": "Celeste", "description": "", "version": ""}
    entry = store.entries.add_link("http://host/x", 7, "nsp", facts, "anna")
    store.queue.send(store.accounts.id_of("anna"), entry)
    counts = dict.fromkeys(catalogd.QUEUE_STATUSES, 0)
    told = {"success": True, "version": catalogd.__version__, "entries": 1}
    told |= {"released": catalogd.RELEASED, "releases": catalogd.RELEASES}
    assert status_of(browser, of_ben) == {**told, "queue": counts}
    own = status_of(browser, key)["queue"]
    assert own == {**counts, "pending": 1}
    browser.get("/api/status", status=401)


def test_an_empty_mount_point_tells_nothing_of_the_disk_that_it_is_on(
    browser: webtest.TestApp, scanner: catalogd.Scanner, library: Library, key: str
) -> None:
    path = library.add("a.nsp")
    scanner.scan()
    assert status_of(browser, key)["folders"][0]["free"]
    pathlib.Path(path).unlink()
    scanner.scan()
    [folder] = status_of(browser, key)["folders"]
    assert (folder["state"], folder["free"], folder["used"]) == ("offline", None, None)


def test_an_admin_s_key_gets_folders_disks_scans_backups_and_faults(
    browser: webtest.TestApp,
    service: catalogd.Web,
    library: Library,
    key: str,
    free: dict[str, int],
) -> None:
    library.add("a.nsp")
    add_folder(service.scanner, "/missing")
    service.scanner.scan()
    service.backups.make()
    told = status_of(browser, key)
    room = {"answers": True, "writable": True, "free": ROOM.free, "used": ROOM.used}
    away = "/missing does not exist yet. Create it, or connect its disk."
    coded = {
        "reason": "folder_missing",
        "arguments": {"folder": "/missing"},
    }
    scanned = "2027-01-15T08:00:00"
    assert told["folders"] == [
        {"path": str(library.folder), "state": "online", "watched": False, "files": 1}
        | {"scanned_at": scanned, "problem": "", **room},
        {"path": "/missing", "state": "offline", "watched": False, "files": 0}
        | {"scanned_at": None, "problem": away, "answers": True}
        | coded
        | {"free": None, "used": None, "writable": False},
    ]
    assert told["scan"]["finished"] == scanned
    assert told["data"] == {"path": service.store.database.folder, **room}
    assert told["backup"]["kept"] == 7 and told["backup"]["size"] > 1000
    fault = {"about": "folders", "id": "/missing", "message": away, **coded}
    assert told["faults"] == [fault]
    browser.get("/healthz")  # it answers


@pytest.mark.parametrize("names", [["a/x/1.nsp", "a/y/2.nsp"], ["a/1.nsp"]])
def test_a_disk_that_is_away_below_a_library_folder_is_one_line(
    names: list[str],
    browser: webtest.TestApp,
    scanner: catalogd.Scanner,
    library: Library,
    key: str,
) -> None:
    for name in (*names, "b/3.nsp"):
        library.add(name)
    scanner.scan()
    disk = str(library.folder / "a")
    with scanner.store.database.writing() as db:  # which was mounted there
        sql = "UPDATE entries SET volume = 'uuid:a' WHERE source LIKE ?"
        db.execute(sql, (f"{disk}/%",))
    shutil.rmtree(disk)
    scanner.scan()
    scanner.scan()
    (fault,) = status_of(browser, key)["faults"]
    since = "2027-01-15T08:00:00"
    assert (fault["about"], fault["id"]) == ("folders", "uuid:a")
    name, shown = pathlib.Path(names[0]).stem, "2027-01-15 08:00 UTC"
    told = f"{disk} is offline since {shown}."
    told += f" Entries that wait for it: {len(names)}, such as {name}."
    assert (fault["message"], fault["reason"]) == (told, "disk_offline")
    of = [disk, shown, str(len(names)), name]
    assert [*fault["arguments"].values()] == of
    row = {"path": disk, "since": since, "entries": len(names), "id": "uuid:a"}
    row |= {"name": name, "missing": False}
    assert status_of(browser, key)["scan"]["disks"] == [row]


def faults_by_id(browser: webtest.TestApp, key: str) -> dict[str, str]:
    return {row["id"]: row["reason"] for row in status_of(browser, key)["faults"]}


def test_each_disk_that_is_away_is_a_fault_also_where_a_folder_is(
    browser: webtest.TestApp,
    scanner: catalogd.Scanner,
    library: Library,
    clock: Clock,
    key: str,
) -> None:
    """Two that were at one mount point are two. The last one tells why."""
    path = library.add("a.nsp")
    library.add("b.nsp")
    scanner.scan()
    with scanner.store.database.writing() as db:
        db.execute("UPDATE entries SET volume = 'uuid:a' WHERE source = ?", (path,))
    os.remove(path)
    scanner.scan()
    assert faults_by_id(browser, key) == {"uuid:a": "disk_offline"}
    clock.now += 60
    os.remove(library.folder / "b.nsp")
    scanner.scan()
    told = faults_by_id(browser, key)
    (other,) = told.keys() - {"uuid:a"}
    assert told == {other: "folder_empty", "uuid:a": "disk_offline"}
    browser.post_json("/web/login", {"username": "anna", "password": "correct horse"})
    for volume, left in ((other, ["uuid:a"]), ("uuid:a", [])):
        browser.delete(f"/web/disks/{volume}")
        scanner.scan()
        assert [*faults_by_id(browser, key)] == left
    assert {row.state for row in scanner.store.entries.files()} == {"gone"}


def test_a_disk_of_two_library_folders_is_one_fault(
    scanner: catalogd.Scanner, store: catalogd.Store, tmp_path: pathlib.Path
) -> None:
    found = [
        catalogd.FoundFile(
            f"{tmp_path}/{name}/1.nsp", f"{tmp_path}/{name}", 1, 1, 1, "v"
        )
        for name in "ab"
    ]
    facts = {"name": "name"}
    rows = [(row, catalogd.FileContent(row.path, facts)) for row in found]
    store.entries.add_files(rows, listed=True)
    store.entries.apply(catalogd.Changes(offline=[*store.entries.files()]))
    (disk,) = scanner._offline_disks()
    assert (disk["path"], disk["entries"], disk["id"]) == (f"{tmp_path}/a", 2, "v")


def test_work_that_fails_is_told_while_it_fails(health: catalogd.Health) -> None:
    thread = catalogd.Lasting("trial", Mock(side_effect=catalogd.Busy("Later.")), 600)
    health.threads = lambda: [thread]
    assert not health.state()["faults"]
    thread.start()
    try:
        wait_for(lambda: thread.has_failed)
        (fault,) = health.state()["faults"]
        assert (fault["about"], fault["id"]) == ("threads", "trial")
        assert fault["reason"] == "thread_failed"
    finally:
        assert thread.stop(60)


def test_files_that_are_missed_at_once_are_told_until_they_are_back(
    browser: webtest.TestApp, scanner: catalogd.Scanner, library: Library, key: str
) -> None:
    folder = library.folder
    for number in range(40):
        library.add(f"deep/{number}.nsp")
    library.add("a.nsp")
    browser.post_json("/web/login", {"username": "anna", "password": "correct horse"})
    for is_back in (True, False):
        scanner.scan()
        os.rename(folder / "deep", folder.with_name("deep"))
        scanner.scan()
        scanner.scan()
        (fault,) = status_of(browser, key)["faults"]
        of = [str(folder), "2027-01-15 08:00 UTC", "40", "0"]
        assert [*fault["arguments"].values()] == of
        assert (fault["about"], fault["reason"]) == ("folders", "files_missing")
        if is_back:
            os.rename(folder.with_name("deep"), folder / "deep")
        else:
            browser.delete(f"/web/disks/{fault['id']}")
        scanner.scan()
        assert faults_by_id(browser, key) == {}
    assert sum(row.state == "gone" for row in scanner.store.entries.files()) == 40


def test_a_folder_is_unread_before_its_first_scan(health: catalogd.Health) -> None:
    [folder] = health.state()["folders"]
    assert (folder["state"], folder["scanned_at"], folder["problem"]) == (
        *("unread", None),
        "",
    )


def test_the_page_gets_the_same_as_the_command_check(
    browser: webtest.TestApp, service: catalogd.Web, key: str, free: dict[str, int]
) -> None:
    login = {"username": "anna", "password": "correct horse"}
    browser.post_json("/web/login", login)
    page = browser.get("/web/status").json
    token = {"Authorization": f"Bearer {service.token}"}
    assert browser.get("/web/check", headers=token).json == page
    assert status_of(browser, key) == page


# Disks


def test_a_disk_that_does_not_answer_holds_up_one_call_and_no_other(
    health: catalogd.Health, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    health.wait_seconds = 0.1
    over, calls = threading.Event(), []
    real = shutil.disk_usage

    def disk_usage(path: str) -> Any:
        if path != str(library.folder):
            return real(path)
        calls.append(path)
        return over.wait(30) and real(path)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    for _ in range(3):
        [folder] = health.state()["folders"]
        assert (folder["answers"], folder["free"]) == (False, None)
    assert len(calls) == 1
    over.set()
    health.wait_seconds = 30
    while not health.state()["folders"][0]["answers"]:
        pass


def test_a_full_disk_is_a_fault_until_there_is_room_to_spare(
    health: catalogd.Health, store: catalogd.Store, free: dict[str, int]
) -> None:
    data = store.database.folder
    counts = []
    for megabytes in (101, 99, 150, 201, 150):
        free[data] = megabytes * 10**6
        counts.append(len(faults(health)))
    assert counts == [0, 1, 1, 0, 0]
    free[data] = 99 * 10**6
    message = f"{data}: only 99 MB are free. Make room."
    assert faults(health) == [("data", message)]


def test_a_folder_that_the_service_cannot_write_to_is_a_fault(
    service: catalogd.Web,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    copies = tmp_path / "copies"
    settings = dataclasses.replace(service.settings, backup_folder=str(copies))
    database = service.scanner.database
    backups = catalogd.Backups(database.path, database.clock, settings)
    health = catalogd.Health(service.scanner, backups, service.consoles)
    assert faults(health) == [("backup", f"{copies}: No such file or directory.")]
    copies.mkdir()
    assert faults(health) == []
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(copies))
    why = "the service cannot write there. Allow it."
    assert faults(health) == [("backup", f"{copies}: {why}")]
    health.log_folders()
    assert caplog.messages == [f"{copies}: {why}"]
    backups.problem = "The disk is full."
    assert faults(health) == [("backup", "No backup was made: The disk is full.")]
    none = dataclasses.replace(settings, backup_copies=0)
    backups = catalogd.Backups(database.path, database.clock, none)
    assert faults(catalogd.Health(service.scanner, backups, service.consoles)) == []


def test_a_data_folder_that_does_not_answer_is_a_fault(health: catalogd.Health) -> None:
    answers = {**health.ask(), health.data: TimeoutError("no answer")}
    [fault] = health.faults(answers)
    assert fault["about"] == "data"
    assert fault["message"] == f"{health.data}: it does not answer."


def test_an_inbox_and_a_folder_of_saves_that_do_not_answer_are_faults(
    health: catalogd.Health,
) -> None:
    """A fault that they had before is not solved by it."""
    health.consoles.saves = "/saves"
    health.written = {about: (f"/{about}", str) for about in ("inbox", "saves")}
    answers = {**health.ask(), "inbox": TimeoutError(), "saves": TimeoutError()}
    messages = {row["about"]: row["message"] for row in health.faults(answers)}
    assert messages["inbox"] == "/inbox: it does not answer."
    assert messages["saves"] == "/saves: it does not answer."


# Scans and damage


def test_a_disk_that_comes_back_while_faults_are_listed_is_no_error(
    health: catalogd.Health, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*of: str) -> catalogd.Fault:
        for row in scanner.state.folders.values():
            row["problem"] = ""  # as the scanner's thread may
        return make(*of)

    make = catalogd.Fault
    monkeypatch.setattr(catalogd, "Fault", fault)
    for folder in ("/games", "/more"):
        add_folder(scanner, folder)
        scanner.state.folders[folder]["problem"] = "It is away."
    assert faults(health) == [("folders", "It is away.")] * 2


def test_a_scan_that_failed_is_a_fault(
    health: catalogd.Health, scanner: catalogd.Scanner
) -> None:
    scanner.state.problem = "The disk is full."
    assert faults(health) == [("scan", "The last scan failed: The disk is full.")]


def test_damage_that_verify_found_is_a_fault_until_the_file_is_replaced(
    health: catalogd.Health, store: catalogd.Store
) -> None:
    facts = {"name": "Celeste", "description": "", "version": ""}
    entry = store.entries.add_link("http://host/x", 7, "nsp", facts, "anna")
    assert faults(health) == []
    store.entries.set_fault(entry, "damaged")
    told = [("files", "Celeste is damaged: its content has changed.")]
    assert faults(health) == told
    store.entries.set_fault(entry, None)
    assert faults(health) == []


def test_damage_of_a_file_that_was_deleted_is_no_fault(
    health: catalogd.Health, scanner: catalogd.Scanner, library: Library
) -> None:
    for name in ("a.nsp", "b.nsp"):
        path = library.add(name)
    scanner.scan()
    for file in scanner.entries.served_files():
        scanner.entries.set_fault(file.id, "damaged")
    told = [("files", f"{n} is damaged: its content has changed.") for n in "ab"]
    assert sorted(faults(health)) == told
    os.unlink(path)
    scanner.scan()
    assert faults(health) == told[:1]


def test_damage_is_found_without_a_search_through_a_large_library(
    health: catalogd.Health, store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = store.database.rows
    monkeypatch.setattr(
        store.database, "rows", lambda sql, *of: asked.append(sql) or rows(sql, *of)
    )
    store.entries.damaged()
    plan = rows(f"EXPLAIN QUERY PLAN {asked[0]}", (1,))
    assert [row["detail"].split(" USING ")[-1] for row in plan] == [
        "INDEX entries_damaged"
    ]


def test_a_database_that_cannot_be_read_is_a_fault(
    health: catalogd.Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(
        side_effect=catalogd.StorageFailed(
            "The database cannot be used: disk I/O error."
        )
    )
    monkeypatch.setattr(catalogd.Entries, "damaged", fail)
    told = ("database", "The database cannot be used: disk I/O error.")
    assert faults(health) == [told]


def test_a_damaged_database_is_not_copied_over_a_whole_copy(
    service: catalogd.Web, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "damaged.db"
    catalogd.copy_database(service.store.database.path, str(path))
    copy = tmp_path / "copy.db"
    catalogd.copy_database(str(path), str(copy))
    whole = copy.read_bytes()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript("""
            CREATE TABLE odd (x);
            INSERT INTO odd VALUES (NULL);
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = 'CREATE TABLE odd (x NOT NULL)'
            WHERE name = 'odd';
        """)
    with pytest.raises(catalogd.Damaged) as problem:
        catalogd.copy_database(str(path), str(copy))
    assert str(problem.value) == f"{path}: NULL value in odd.x."
    assert copy.read_bytes() == whole
    assert not [*tmp_path.glob("*.part*")]


# Asking what may not answer


def test_an_error_that_is_none_of_the_system_is_raised() -> None:
    with pytest.raises(ValueError, match="a bug"):
        catalogd.Askers().ask({"one": Mock(side_effect=ValueError("a bug"))}, 30)


@pytest.mark.parametrize("is_packaged", [True, False])
def test_who_did_not_install_debians_package_gets_no_advice_for_it(
    monkeypatch: pytest.MonkeyPatch, is_packaged: bool
) -> None:
    monkeypatch.setattr(catalogd, "IS_PACKAGED", is_packaged)
    error = PermissionError(errno.EACCES, "Permission denied")
    told = catalogd.why_offline("/home/anna/Games", error, True)
    assert ("home.conf" in told) == is_packaged
    assert "home.conf" not in catalogd.why_offline("/srv/games", error, True)
