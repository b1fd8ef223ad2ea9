"""Backups by themselves: when one is made and kept, who gets it, and its way back."""

import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Clock, Library, go_on, refuse

DAY = 86400
NIGHT = "catalogd-2027-01-15.db"  # of conftest's clock


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is UTC."""
    monkeypatch.setattr(catalogd.time, "localtime", time.gmtime)
    yield


@pytest.fixture
def backups(service: catalogd.Web) -> catalogd.Backups:
    return service.backups


def names(backups: catalogd.Backups) -> list[str]:
    return sorted(os.listdir(backups.folder))


def test_each_night_has_a_copy_and_the_oldest_are_dropped(
    backups: catalogd.Backups, clock: Clock
) -> None:
    for _ in range(10):
        backups.make()
        backups.make()  # nothing is due
        clock.now += DAY
    assert names(backups) == [f"catalogd-2027-01-{day}.db" for day in range(18, 25)]


def test_a_night_begins_at_three_o_clock(
    backups: catalogd.Backups, clock: Clock
) -> None:
    clock.now += 18.9 * 3600  # 2:54 of the next day
    backups.make()
    assert names(backups) == [NIGHT]
    clock.now += 0.2 * 3600
    backups.make()
    assert names(backups) == [NIGHT, "catalogd-2027-01-16.db"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_others_can_read_neither_the_copies_nor_their_folder(
    backups: catalogd.Backups,
) -> None:
    backups.make()
    path = pathlib.Path(backups.folder, NIGHT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_a_crash_left_is_removed_and_other_files_are_kept(
    backups: catalogd.Backups,
) -> None:
    os.mkdir(backups.folder)
    for name in ("catalogd-2027-01-14.db.1f.part-journal", "mine.db", "mine.part"):
        pathlib.Path(backups.folder, name).write_text("")
    backups.make()
    assert names(backups) == [NIGHT, "mine.db", "mine.part"]


def test_with_0_copies_none_is_made(store: catalogd.Store) -> None:
    settings = catalogd.Settings(backup_copies=0)
    backups = catalogd.Backups(store.database.path, store.database.clock, settings)
    backups.make()
    assert not os.path.exists(backups.folder)


def test_admins_see_the_last_copy_and_download_it(
    signed_in: webtest.TestApp, backups: catalogd.Backups
) -> None:
    state = {"kept": 7}
    assert signed_in.get("/web/status").json["backup"] == state
    own = {"own_password": PASSWORD}
    signed_in.post_json("/web/backup/file", own, status=404)
    backups.make()
    path = pathlib.Path(backups.folder, NIGHT)
    made_at = catalogd.stamp(path.stat().st_mtime)
    state |= {"made_at": made_at, "size": path.stat().st_size}
    assert signed_in.get("/web/status").json["backup"] == state
    answer = signed_in.post_json("/web/backup/file", own)
    assert answer.body == path.read_bytes()
    assert f'filename="{NIGHT}"' in answer.headers["Content-Disposition"]


@pytest.mark.parametrize("fault", ["the disk", "the folder"])
def test_a_failure_is_told_until_a_copy_is_made(
    signed_in: webtest.TestApp,
    backups: catalogd.Backups,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    fail = Mock(side_effect=catalogd.StorageFull("The disk is full."))
    problem = "The disk is full."
    if fault == "the folder":
        pathlib.Path(backups.folder).write_text("")
        problem = f"[Errno 17] File exists: '{backups.folder}'"
    else:
        monkeypatch.setattr(catalogd, "connected", fail)
    backups.make()
    [told] = signed_in.get("/web/status").json["faults"]
    assert told["message"] == f"No backup was made: {problem}"
    assert f"No backup was made: {problem}" in caplog.text
    if fault == "the folder":
        os.unlink(backups.folder)
    monkeypatch.undo()
    backups.make()
    assert signed_in.get("/web/status").json["faults"] == []


def test_copies_of_a_wrong_clock_are_the_oldest(
    backups: catalogd.Backups, clock: Clock
) -> None:
    uptime = Clock()
    backups.clock = catalogd.Clock(clock, uptime)
    for error in (-1_700_000_000, 2000 * DAY, 0):
        clock.now += error
        backups.make()
        last = backups.last()
        clock.now -= error
    assert last is not None and last.path.endswith(NIGHT)
    backups.count = 1
    clock.now += DAY
    backups.make()  # the clock has jumped: it is not believed yet
    nights = [f"catalogd-{day}.db" for day in ("2027-01-15", "2027-01-16")]
    assert names(backups) == [
        "catalogd-1973-03-03.db",
        *nights,
        "catalogd-2032-07-07.db",
    ]
    go_on(DAY, clock, uptime)
    backups.make()
    assert names(backups) == ["catalogd-2027-01-17.db"]


def test_none_is_made_before_there_is_an_account(service: catalogd.Web) -> None:
    upkeep = catalogd.Upkeep(service.scanner, service.backups)
    upkeep()
    assert service.backups.last() is None
    service.store.accounts.add("anna", "hash")
    upkeep()
    assert service.backups.last()


def evening(
    service: catalogd.Web, clock: Clock, minutes: int, uptime: Clock
) -> catalogd.Upkeep:
    """Switch the machine on for so long, with the clock as it is."""
    service.backups.clock = service.store.database.clock = catalogd.Clock(clock, uptime)
    upkeep = catalogd.Upkeep(service.scanner, service.backups)
    for _ in range(minutes):
        upkeep()
        go_on(60, clock, uptime)
    return upkeep


@pytest.mark.parametrize(("minutes", "kept"), [(120, 7), (40, 14)])
def test_a_machine_that_is_on_in_the_evening_drops_old_copies_too(
    service: catalogd.Web, clock: Clock, minutes: int, kept: int
) -> None:
    """30 evenings: with two hours each, those that the settings say; with less than the
    hour after which the clock is believed, a few more, but not all."""
    service.store.accounts.add("anna", "hash")
    for _ in range(30):
        clock.now += DAY
        evening(service, clock, minutes, Clock())
        clock.now -= minutes * 60
    found = names(service.backups)
    assert len(found) == kept and found[-1] == "catalogd-2027-02-14.db"


def test_a_machine_that_is_on_in_the_evening_forgets_what_is_old(
    service: catalogd.Web, library: Library, clock: Clock
) -> None:
    """Sessions, and entries whose files have long been gone: the scan at the start may
    not forget them, and no other one need come."""
    store, scanner = service.store, service.scanner
    anna = store.accounts.add("anna", "hash")
    for name in ("kept.nsp", "gone.nsp"):
        path = library.add(name)
    scanner.scan()
    os.unlink(path)
    scanner.scan()
    store.accounts.add_session(anna, b"old", "browser")
    clock.now += 400 * DAY
    uptime = Clock()
    evening(service, clock, 0, uptime)
    scanner.scan()
    upkeep = evening(service, clock, 59, uptime)
    assert store.database.value("SELECT count(*) FROM sessions") == 1
    assert len([*store.entries.files()]) == 2 and not scanner.is_asked()
    for _ in range(2):
        go_on(60, clock, uptime)
        upkeep()
    assert store.database.value("SELECT count(*) FROM sessions") == 0
    assert scanner.is_asked()
    scanner.scan()
    assert [file.file.path[-8:] for file in store.entries.files()] == ["kept.nsp"]


def test_what_is_old_is_dropped_once_an_hour(
    service: catalogd.Web, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(service.store, "drop_old", lambda: calls.append(clock.now))
    began, uptime = clock.now, Clock()
    evening(service, clock, 181, uptime)
    assert [(at - began) / 60 for at in calls] == [60, 120, 180]


def test_a_failed_copy_is_tried_again_within_a_minute_and_logged_once(
    service: catalogd.Web, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert catalogd.UPKEEP_CHECK_SECONDS <= 60
    service.store.accounts.add("anna", "hash")
    folder = pathlib.Path(service.backups.folder)
    folder.write_text("")
    evening(service, clock, 3, Clock())
    assert caplog.text.count("No backup was made") == 1
    folder.unlink()
    evening(service, clock, 1, Clock())
    assert names(service.backups) == [NIGHT]


def test_a_copy_was_made_also_where_an_old_one_cannot_be_dropped(
    signed_in: webtest.TestApp,
    backups: catalogd.Backups,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody has it open, on Windows or a share."""
    monkeypatch.setattr(backups, "drop_old", lambda: refuse("a copy"))
    backups.make()
    assert signed_in.get("/web/status").json["faults"] == []
    assert "An old copy could not be dropped: [Errno 1]" in caplog.text


def test_copies_that_cannot_be_dropped_hold_up_nothing_else(
    service: catalogd.Web, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = service.store, []
    monkeypatch.setattr(store, "drop_old", lambda: calls.append(1))
    evening(service, clock, 1, Clock())
    monkeypatch.setattr(service.backups, "drop_old", lambda: refuse("a copy"))
    evening(service, clock, 61, Clock())
    assert calls == [1]


# Restore


@pytest.fixture
def restored(store: catalogd.Store, backups: catalogd.Backups) -> pathlib.Path:
    """A data folder whose service is stopped, with a backup that has the account anna
    and a database that has ben too."""
    store.accounts.add("anna", "hash")
    backups.make()
    store.accounts.add("ben", "hash")
    store.close()
    return pathlib.Path(store.database.folder)


def run(folder: pathlib.Path, path: object) -> int:
    return catalogd.main(["restore", str(path), "--data-dir", str(folder)])


def accounts(folder: pathlib.Path) -> list[str]:
    with contextlib.closing(catalogd.Store(str(folder))) as store:
        return [account["name"] for account in store.accounts.all()]


def moved(path: pathlib.Path) -> str:
    """The path of the database that was replaced."""
    (kept,) = path.glob("catalogd.db.20*")
    return str(kept)


def test_a_backup_is_put_back_and_the_old_database_is_kept(
    restored: pathlib.Path, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path = restored / "backups" / NIGHT
    assert run(restored, path) == 0
    kept = moved(restored)
    assert re.fullmatch(r".*/catalogd\.db\.\d{4}-\d\d-\d\dT\d{6}\.[0-9a-f]{16}", kept)
    told = f"Restored {path}. The old database is {kept}.\n"
    assert capsys.readouterr().out == told
    assert accounts(restored) == ["anna"]
    (tmp_path / "old").mkdir()
    os.rename(kept, tmp_path / "old" / "catalogd.db")
    assert accounts(tmp_path / "old") == ["anna", "ben"]


@pytest.mark.skipif(os.name == "nt", reason="no name has a colon on Windows")
def test_a_folder_with_a_colon_in_its_path_gets_its_backup_back(
    restored: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "C:" / "Spiele für alle"
    shutil.copytree(restored, folder)
    assert run(folder, folder / "backups" / NIGHT) == 0
    assert accounts(folder) == ["anna"]
    assert re.fullmatch(r"catalogd\.db\.[\dT.a-f-]+", os.path.basename(moved(folder)))


def test_what_a_crash_left_in_the_wal_is_kept_with_the_old_database(
    restored: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with contextlib.closing(catalogd.Store(str(restored))) as store:
        store.accounts.add("carl", "hash")
        copies = [path.read_bytes() for path in sorted(restored.glob("catalogd.db*"))]
        files = [path.name for path in sorted(restored.glob("catalogd.db*"))]
    assert files == ["catalogd.db", "catalogd.db-shm", "catalogd.db-wal"]
    for name, content in zip(files, copies, strict=True):
        (restored / name).write_bytes(content)
    assert run(restored, restored / "backups" / NIGHT) == 0
    assert accounts(restored) == ["anna"]
    (tmp_path / "old").mkdir()
    for path in restored.glob("catalogd.db.20*"):
        end = path.name.partition("-")[2].partition("-")[2].partition("-")[2]
        path.rename(tmp_path / "old" / ("catalogd.db" + (f"-{end}" if end else "")))
    assert accounts(tmp_path / "old") == ["anna", "ben", "carl"]


def test_open_invitations_do_not_come_back_with_a_backup(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(catalogd.Store(str(tmp_path / "data"))) as store:
        anna = store.accounts.add("anna", "hash")
        store.invitations.add(b"1", anna, None, False, None)
        catalogd.copy_database(store.database.path, str(tmp_path / "copy"))
    assert run(tmp_path / "data", tmp_path / "copy") == 0
    assert "open invitations" in capsys.readouterr().out
    with contextlib.closing(catalogd.Store(str(tmp_path / "data"))) as store:
        assert store.invitations.open() == []


def test_a_backup_is_restored_on_a_new_machine(
    restored: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = restored / "backups" / NIGHT
    assert run(tmp_path / "new", path) == 0
    assert capsys.readouterr().out == f"Restored {path}.\n"
    assert accounts(tmp_path / "new") == ["anna"]


def test_the_tables_of_litestream_are_no_obstacle(restored: pathlib.Path) -> None:
    path = restored / "backups" / NIGHT
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE _litestream_seq (id); PRAGMA user_version = 1")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {catalogd.SCHEMA_VERSION}")
    assert run(restored, path) == 0
    assert accounts(restored) == ["anna"]


def test_a_backup_of_an_earlier_release_stays_one_for_that(
    restored: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The earlier release can then be installed, and go on with it."""
    copy = tmp_path / "before-upgrade-4.db"
    with contextlib.closing(sqlite3.connect(copy)) as db:
        sql = pathlib.Path(__file__).with_name("version4.sql").read_text("utf-8")
        db.executescript(sql)
    assert run(restored, copy) == 0
    assert (restored / "catalogd.db").read_bytes() == copy.read_bytes()


def other_program(path: pathlib.Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (id)")


def newer(path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {catalogd.SCHEMA_VERSION + 1}")


def as_pipe(path: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path)


NO_BACKUP = "is not a backup of catalogd, or is damaged."


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("no database"), NO_BACKUP),
        (lambda path: path.write_bytes(b""), NO_BACKUP),
        (other_program, "is a database of another program."),
        (as_pipe, "is not a file."),
        (newer, "was made by a newer catalogd. Update it, or restore an older copy."),
        (lambda path: path.unlink(), "No such file or directory."),
    ],
)
def test_what_is_no_backup_is_refused_and_changes_nothing(
    restored: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[pathlib.Path], Any],
    message: str,
) -> None:
    path = restored / "backups" / NIGHT
    spoil(path)
    before = sorted(os.listdir(restored))
    assert run(restored, path) == 2
    assert capsys.readouterr().err == f"catalogd: {path}: {message}\n"
    assert sorted({*os.listdir(restored)} - {"serve.lock", "scan.lock"}) == before
    assert accounts(restored) == ["anna", "ben"]


def spoil(path: pathlib.Path, sql: str) -> None:
    """Change a backup as SQLite allows, or as it can be talked into."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(f"PRAGMA writable_schema = ON; {sql}")


ENDLESS = "WITH n AS (SELECT 1 AS id UNION ALL SELECT id FROM n) SELECT * FROM n"


def test_a_start_makes_indexes_and_views_of_a_backup_anew_and_keeps_other_tables(
    restored: pathlib.Path,
) -> None:
    path, found = restored / "backups" / NIGHT, []
    spoil(
        path,
        "DROP INDEX entries_listed; CREATE INDEX entries_listed ON entries (id);"
        f"DROP VIEW items; CREATE VIEW items AS {ENDLESS};"
        "CREATE TABLE _litestream_seq (id); INSERT INTO _litestream_seq VALUES (5)",
    )
    assert run(restored, path) == 0
    catalogd.upgrade(str(restored))
    with contextlib.closing(sqlite3.connect(restored / "catalogd.db")) as db:
        sql = "SELECT type, name, sql FROM sqlite_schema"
        found = [row for row in db.execute(sql) if row in catalogd.schema_parts()]
        assert db.execute("SELECT * FROM _litestream_seq").fetchall() == [(5,)]
    assert len(found) == len(catalogd.schema_parts())
    assert accounts(restored) == ["anna"]


@pytest.mark.parametrize("version", [1, 4])
def test_a_backup_of_an_earlier_release_is_restored_as_it_is(
    tmp_path: pathlib.Path, version: int
) -> None:
    """So that the earlier release can be installed again. A start upgrades it."""
    path = tmp_path / "backup.db"
    text = pathlib.Path(__file__).with_name(f"version{version}.sql").read_text()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(text)
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        db.execute("PRAGMA journal_mode = WAL")
    folder = tmp_path / "new"
    assert run(folder, path) == 0
    assert (folder / "catalogd.db").read_bytes() == path.read_bytes()
    catalogd.upgrade(str(folder))
    assert accounts(folder)


def test_a_damaged_backup_is_refused(
    restored: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = restored / "backups" / NIGHT
    whole = path.read_bytes()
    for damaged in (whole[:20_000], whole[:8192] + bytes(4096) + whole[12288:]):
        path.write_bytes(damaged)
        assert run(restored, path) == 2
        assert capsys.readouterr().err == f"catalogd: {path}: {NO_BACKUP}\n"
    assert accounts(restored) == ["anna", "ben"]


def test_a_damaged_database_is_kept_as_it_is(restored: pathlib.Path) -> None:
    path = restored / "catalogd.db"
    damaged = b"damaged!" * 512 + path.read_bytes()[4096:]
    path.write_bytes(damaged)
    (restored / "catalogd.db-wal").write_bytes(b"damaged too")
    assert run(restored, restored / "backups" / NIGHT) == 0
    assert accounts(restored) == ["anna"]
    assert pathlib.Path(moved(restored)).read_bytes() == damaged


def test_the_wal_of_a_database_that_was_moved_away_is_kept_aside(
    restored: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A crash has left it, and SQLite would write it into the backup."""
    database, old = restored / "catalogd.db", tmp_path / "old"
    old.mkdir()
    with contextlib.closing(catalogd.Store(str(restored))) as store:
        store.accounts.add("carl", "hash")
        wal = (restored / "catalogd.db-wal").read_bytes()
        shutil.copy(database, old)
    database.unlink()
    (restored / "catalogd.db-wal").write_bytes(wal)
    (restored / "catalogd.db-journal").write_bytes(b"of a crash long ago")
    assert run(restored, restored / "backups" / NIGHT) == 0
    assert accounts(restored) == ["anna"]
    assert len([*restored.glob("catalogd.db.20*")]) == 2
    [kept] = restored.glob("catalogd.db.20*-wal")
    kept.rename(old / "catalogd.db-wal")
    assert accounts(old) == ["anna", "ben", "carl"]


def test_a_database_that_another_program_uses_is_not_replaced(
    restored: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "MAX_WRITE_WAIT_SECONDS", 0.1)
    with contextlib.closing(sqlite3.connect(restored / "catalogd.db")) as db:
        db.execute("SELECT * FROM accounts").fetchone()
        assert run(restored, restored / "backups" / NIGHT) == 2
    assert "The database is busy" in capsys.readouterr().err
    assert accounts(restored) == ["anna", "ben"]


KILLED = """
import catalogd, os, signal, sys
steps = left = int(sys.argv[3])
# The old database is kept under the second in which the command begins.
catalogd.time.time = lambda: 1.8e9 + steps
def count(event, *_):
    global left
    if event in ("os.link", "os.rename", "os.remove", "open", "sqlite3.connect"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
with open(sys.argv[2], "rb") as file:
    catalogd.restore(sys.argv[1], file)
"""


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_no_crash_leaves_a_folder_without_a_database(restored: pathlib.Path) -> None:
    backup, seen = restored / "backups" / NIGHT, set()
    for steps in itertools.count():
        words = [sys.executable, "-c", KILLED, str(restored), str(backup), str(steps)]
        code = subprocess.run(words, cwd=os.path.dirname(catalogd.__file__)).returncode
        with contextlib.closing(sqlite3.connect(restored / "catalogd.db")) as db:
            rows = db.execute("SELECT name FROM accounts ORDER BY id").fetchall()
        seen.add(" ".join(name for (name,) in rows))
        if code == 0:
            break
        assert code == -signal.SIGKILL and seen <= {"anna ben", "anna"}
    assert steps > 5 and seen == {"anna ben", "anna"}


def test_restores_in_the_same_second_keep_each_database(
    restored: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd.time, "time", lambda: 1.8e9)
    for _ in range(2):
        assert run(restored, restored / "backups" / NIGHT) == 0
        assert accounts(restored) == ["anna"]
    assert len([*restored.glob("catalogd.db.2027-01-15T080000.*")]) == 2


def test_nothing_is_restored_while_the_service_runs(
    restored: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with catalogd.exclusive(str(restored), "serve"):
        assert run(restored, restored / "backups" / NIGHT) == 2
    assert "another catalogd is at work (serve)" in capsys.readouterr().err
    assert accounts(restored) == ["anna", "ben"]


@pytest.mark.parametrize("has_backup", [True, False])
def test_a_damaged_database_names_the_backup_to_restore(
    restored: pathlib.Path, capsys: pytest.CaptureFixture[str], has_backup: bool
) -> None:
    last = restored / "backups" / NIGHT
    advice = f"Stop the service and run '{catalogd.PROGRAM} restore {last}'."
    database = restored / "catalogd.db"
    if not has_backup:
        last.unlink()
        advice = f"There is no backup of it: move {database}* away, and start again."
    whole = database.read_bytes()
    for damaged in (
        b"no database " * 500,
        whole[:8192] + bytes(4096) + whole[12288:],  # a page of it
    ):
        database.write_bytes(damaged)
        catalogd.main(["check", "--data-dir", str(restored)])
        [line] = re.findall("^database .*", capsys.readouterr().out, re.MULTILINE)
        assert str(database) in line and line.endswith(advice)


def test_copies_go_to_the_folder_of_the_settings_once_it_is_there(
    store: catalogd.Store, tmp_path: pathlib.Path
) -> None:
    ini = tmp_path / "catalogd.ini"
    disk = tmp_path / "disk"
    ini.write_text(f"[backup]\nfolder = {disk}\n[store]\nbackups = 2\n")
    settings = catalogd.Settings.read(str(ini))
    backups = catalogd.Backups(store.database.path, store.database.clock, settings)
    assert backups.count == 2  # the option as an earlier release had it
    backups.make()
    assert backups.problem.endswith("cannot be written: No such file or directory.")
    disk.mkdir()
    backups.make()
    assert (backups.problem, names(backups)) == ("", [NIGHT])
    assert os.listdir(disk) == [NIGHT]


# The thread


def test_work_is_repeated_also_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise catalogd.Busy("The database is busy.")

    thread = catalogd.Lasting("trial", work, 0.001)
    thread.start()
    while len(calls) < 2:
        time.sleep(0.01)
    assert thread.stop(10)
    assert "The thread trial failed: The database is busy." in caplog.text
