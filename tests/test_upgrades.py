"""Upgrades of large databases of earlier releases, which `serve` does at its start."""

import collections
import contextlib
import csv
import json
import os
import pathlib
import random
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import catalogd
import containers
from conftest import wait_for
from test_store import data_folder, upgraded

COUNT = 5000  # entries on each of two disks
START_SECONDS = 90  # that systemd waits for a service, if the unit does not say
SERVE = """
import sys
def note(event, args):
    if event == "open" and str(args[0]).endswith(".nsp"):
        print("opened", args[0], flush=True)
sys.addaudithook(note)
import catalogd
catalogd.FACTS_VERSION = 1  # else the first scan reads the files again
options = ["--host", "127.0.0.1", "--port", "0", "--data-dir", *sys.argv[1:]]
sys.exit(catalogd.main(["serve", *options]))
"""
OLD_NAMES = {"folder": "root", "facts": "said", "overrides": "typed"}  # of version 1


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Small files, as an earlier release has them after a scan."""
    folder = tmp_path_factory.mktemp("games")
    volume = f"{os.statvfs(folder).f_fsid or os.stat(folder).st_dev:x}"
    rows = []
    for number in range(COUNT):
        path = folder / f"Game {number}.nsp"
        path.write_bytes(b"a game")
        found = path.stat()
        row = {"source": str(path), "size": 6, "mtime": found.st_mtime_ns}
        row |= {"inode": found.st_ino, "volume": volume, "folder": str(folder)}
        rows.append({**row, "sample": f"of game {number}", "cover": None})
    return rows


def entry_rows(files: Sequence[dict[str, Any]], disk: str) -> Iterator[dict[str, Any]]:
    """Yield entries of files: those of the two disks have the same names."""
    for number, file in enumerate(files):
        name = {"name": f"Game {number}", "description": "", "version": ""}
        note = {"description": f"note {number}"} if number % 10 == 0 else {}
        columns = {"facts": json.dumps(name), "overrides": json.dumps(note)}
        yield {"id": f"{disk}{number}", **file, **columns}


def add_rows(
    db: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]]
) -> None:
    """Add rows to a table of any version. They have all columns of one that waits or is
    here, but for those that are given."""
    sql = "SELECT name FROM pragma_table_info(?)"  # without generated ones
    columns = [name for (name,) in db.execute(sql, (table,))]
    where = "status = 'pending'" if table == "queue" else "state = 'here'"
    sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {where} LIMIT 1"
    like = dict(zip(columns, db.execute(sql).fetchone(), strict=True))
    for row in rows:
        named = {OLD_NAMES.get(name, name): row[name] for name in row}
        given = {name: row[name] for name in row} | named
        values = [given.get(name, like[name]) for name in columns]
        marks = ", ".join("?" * len(columns))
        db.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values
        )


def kept(db: sqlite3.Connection, version: int) -> dict[str, Any]:
    """Return what people would miss, of a database of any version."""
    overrides = OLD_NAMES["overrides"] if version == 1 else "overrides"
    typed = f"{overrides} ->> 'name', {overrides} ->> 'description'"
    by_queue = "WHERE NOT cleared" if version == 1 else ""
    tables = {
        "entries": f"SELECT id, source, sample, created_at, {typed} FROM entries",
        "queue": f"SELECT id, account, entry, status, place FROM queue {by_queue}",
        "accounts": "SELECT id, name, password, admin FROM accounts",
        "keys": "SELECT id, account, label, digest FROM keys",
        "sessions": "SELECT id, account, digest FROM sessions",
    }
    return {name: sorted(db.execute(sql).fetchall()) for name, sql in tables.items()}


@contextlib.contextmanager
def serving(
    data: pathlib.Path, folders: Sequence[str], output: pathlib.Path
) -> Iterator[None]:
    """Serve, and run the block when systemd would be told that the service is ready."""
    command = [sys.executable, "-c", SERVE, str(data), *folders]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
        output.open("wb") as to,
    ):
        told.bind(str(data / "notify"))
        told.settimeout(START_SECONDS)
        env = {**os.environ, "NOTIFY_SOCKET": str(data / "notify")}
        cwd = os.path.dirname(catalogd.__file__)
        with subprocess.Popen(command, cwd=cwd, env=env, stdout=to) as process:
            try:
                while b"READY=1" not in told.recv(4096):
                    pass
                yield
            finally:
                process.terminate()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no systemd")
@pytest.mark.parametrize(
    "version",
    [1, *(pytest.param(version, marks=pytest.mark.soak) for version in (4, 8))],
)
def test_ten_thousand_entries_are_upgraded_without_a_file_being_opened(
    tmp_path: pathlib.Path, games: list[dict[str, Any]], version: int
) -> None:
    data, away = data_folder(tmp_path / "data", version), tmp_path / "away"
    folder = games[0]["folder"]
    on_disk = [
        {**row, "source": str(away / os.path.basename(row["source"]))}
        | {"folder": str(away), "volume": "another disk"}
        | {"sample": row["sample"][::-1]}  # of another content
        for row in games
    ]
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db, db:
        add_rows(db, "entries", entry_rows(games, "here"))
        add_rows(db, "entries", entry_rows(on_disk, "away"))
        waiting = (
            {"id": f"item {n}", "entry": f"away{n}", "place": n} for n in range(99)
        )
        add_rows(db, "queue", waiting)
        before = kept(db, version)
    assert len(before["entries"]) > 2 * COUNT

    count = "SELECT state, count(*) FROM entries WHERE folder = ? GROUP BY state"
    with (
        serving(data, [folder, str(away)], tmp_path / "output"),
        contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db,
    ):
        wait_for(
            lambda: db.execute(count, (str(away),)).fetchall() == [("offline", COUNT)],
            START_SECONDS,
        )
        assert db.execute(count, (folder,)).fetchall() == [("here", COUNT)]
        assert kept(db, catalogd.SCHEMA_VERSION) == before
    assert "opened" not in (tmp_path / "output").read_text("utf-8")


# Ages: since version 18 they are of titles and of contents

SEEN_FROM = (
    "SELECT coalesce(sample, id) AS content, min(seen_from) FROM parts GROUP BY 1"
)


def seen_contents(data: pathlib.Path) -> dict[str, int]:
    """Return from which age on each content is seen, in a database of any version."""
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        return dict(db.execute(SEEN_FROM).fetchall())


def test_an_upgrade_makes_ages_those_of_titles_and_contents(
    tmp_path: pathlib.Path,
) -> None:
    """Of a database with the histories that 0.4.0 told apart."""
    data, equal = data_folder(tmp_path / "data", 17), "0100A00000090000"
    before = seen_contents(data)
    with upgraded(data) as store:
        rows = store.database.rows("SELECT name, seen_from, title FROM parts")
        titles = {row["title"]: row["name"] for row in reversed(rows)}
        former = store.entries.former_ages()
    after = seen_contents(data)
    assert [content for content in before if after[content] < before[content]] == []
    assert {row["name"]: row["seen_from"] for row in rows if row["seen_from"] < 99} == {
        **{"Two ages": 12, "Two ages again": 12},  # the stricter of two
        **{"One age": 7, "One age again": 7},  # a copy that was undecided
        **{"Raised": 12, "Raised from elsewhere": 12},  # as one part was held at 12
        **{
            "Equal (Equal.nsp)": 12,
            f"Equal (Equal [{equal}][v0].nsp)": 12,
        },  # a content of 12 in a title of 7
        **{"Aged link": 7, "Deleted": 7, "Sixteen": 16, "Adults": 18},
    }
    assert {titles[title]: age for title, age in former.items()} == {
        "Hidden": {"age": 7, "replaced": False},  # as one part was held as undecided
        "Undecided": {"age": 7, "replaced": False},  # which a file of 7 has joined
        "Replaced": {"age": 7, "replaced": True},
    }
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        known = dict(db.execute("SELECT subject, age FROM ages").fetchall())
    assert known["0100A000000B0000"] == 16  # no file is of it yet


def test_what_came_with_a_folder_is_as_new_as_its_file_after_an_upgrade(
    tmp_path: pathlib.Path,
) -> None:
    data = data_folder(tmp_path / "data", 17)
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db, db:
        last = "(SELECT max(rowid) FROM entries WHERE folder = '/srv/games')"
        db.execute(f"UPDATE entries SET created_at = '2026' WHERE rowid = {last}")
    with upgraded(data) as store:
        assert "/srv/games" in store.entries.folders.scanned()
        sql = "SELECT created_at, file_time FROM entries WHERE folder = '/srv/games'"
        rows = store.database.rows(f"{sql} ORDER BY rowid")
    assert rows.pop() == {"created_at": "2026", "file_time": None}
    assert rows and {row["file_time"][:4] for row in rows} == {"2020"}


def test_an_upgrade_of_ages_before_they_named_a_content(tmp_path: pathlib.Path) -> None:
    """As 0.3.0 had them."""
    data = data_folder(tmp_path / "data", 17)
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db, db:
        views = db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")
        for (view,) in views.fetchall():
            db.execute(f"DROP VIEW {view}")
        db.execute("ALTER TABLE ages DROP COLUMN sample")
        db.execute("ALTER TABLE entries RENAME COLUMN least_age TO unused")
        db.execute("ALTER TABLE icons DROP COLUMN ending")
        db.execute("PRAGMA user_version = 15")
    with upgraded(data) as store:
        rows = store.database.rows("SELECT name, seen_from FROM parts")
    ages = {row["name"]: row["seen_from"] for row in rows}
    one = ("One age", "One age again", "Aged link", "Plain link")
    assert [ages[name] for name in one] == [7, 7, 7, 99]


SUBJECT = "iif(title = id, coalesce(sample, id), title)"
SEEN_AFTER = (  # before the tables have the form of the schema
    f"SELECT coalesce(sample, id), coalesce(ages.age, 99), former.age FROM entries"
    f" LEFT JOIN ages ON ages.subject = {SUBJECT}"
    " LEFT JOIN ages AS former ON former.subject = entries.former ORDER BY id"
)
CHOICES = {"title": "TU", "sample": "cde", "least_age": (0, 0, 0, 7, 12, 99)}


def add_histories(db: sqlite3.Connection, seed: int) -> None:
    """Leave entries and ages of any kind alone in a database of 0.4.0."""
    choose = random.Random(seed).choice
    rows = [
        {"id": id, **{name: choose(of) for name, of in CHOICES.items()}}
        for id in "012345"[: choose((2, 3, 4, 6))]
    ]
    samples = {row["id"]: row["sample"] for row in rows}
    for row in rows:
        row |= {"title": choose((row["id"], row["title"])), "overrides": "{}"}
        row["sample"] = choose((row["sample"],) * 5 + (None,))
    add_rows(db, "entries", iter(rows))
    db.execute("DELETE FROM entries WHERE length(id) > 1")
    db.execute("DELETE FROM ages")
    for title in (*samples, "T", "U", "gone"):
        sample = samples.get(title) and choose((samples[title], "c", "f"))
        if choose((0, 1, 1)):
            age = choose((3, 7, 12))
            db.execute("INSERT INTO ages VALUES (?, ?, ?)", (title, age, sample))


def test_no_upgrade_shows_a_content_that_was_not_seen() -> None:
    sql = pathlib.Path(__file__).with_name("version17.sql").read_text("utf-8")
    with contextlib.closing(sqlite3.connect(":memory:")) as released:
        released.executescript(sql)
        for seed in range(300):
            with contextlib.closing(sqlite3.connect(":memory:")) as db:
                released.backup(db)
                add_histories(db, seed)
                check_ages(db)


def check_ages(db: sqlite3.Connection) -> None:
    """Upgrade the ages. Check that nobody sees a content that it did not see, that no
    age of a title falls, and that what is hidden by it tells what it was for."""
    contents = dict(db.execute(SEEN_FROM).fetchall())
    seen = [age for (age,) in db.execute("SELECT seen_from FROM parts ORDER BY id")]
    given = dict(db.execute("SELECT title, age FROM ages WHERE sample IS NULL"))
    db.execute("PRAGMA legacy_alter_table = ON")
    for statement in catalogd.UPGRADES[17]:
        db.execute(statement)
    for before, (content, after, former) in zip(
        seen, db.execute(SEEN_AFTER), strict=True
    ):
        assert after >= contents[content]
        assert after < 99 or before == 99 or former
    for subject, age in db.execute("SELECT subject, age FROM ages"):
        assert age >= given.get(subject, 0)


# Names that 0.4.0 did not read: its database of 300 files, read better after an upgrade

HERE = pathlib.Path(__file__).parent
MTIME = 1_790_000_000


def named_files() -> dict[str, bytes]:
    """Return the files by name: one for each name of names.csv, copies of some, and
    others whose headers tell more than their names."""
    with (HERE / "names.csv").open(encoding="utf-8") as lines:
        names = [f"{line['tool']}/{line['name']}" for line in csv.DictReader(lines)]
    files = {name: name.encode() for name in names}
    files |= {f"copies/{name}": name.encode() for name in names[:20:2]}
    for number in range(1, 14):
        games = [f"0100{number:06}{game:02}0000" for game in range(3)]
        update = (f"{games[0][:-3]}800", number * 65536)
        base = containers.content(0, (games[0], 0))
        other = containers.content(1, (games[1], 0))
        pack = containers.package(base | containers.content(2, update))
        more = {
            f"Pack {number}.nsp": pack,
            f"Two games {number} [{games[0]}].xci": containers.cartridge(base | other),
            f"Ticket {number}.nsp": containers.nsp(games[number % 3]),
            f"{number}.nro": containers.nro(containers.nacp(f"Program {number}"), b""),
        }
        files |= {f"more/{name}": content for name, content in more.items()}
    return files


def write_named(folder: pathlib.Path) -> None:
    for name, content in named_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (MTIME, MTIME))


@pytest.fixture
def named(tmp_path: pathlib.Path) -> pathlib.Path:
    """The data folder of 0.4.0, whose library is here."""
    library, data = tmp_path / "library", data_folder(tmp_path / "data", 17)
    write_named(library)
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db, db:
        for table in ("sent", "queue", "ages", "entries", "keys", "accounts"):
            db.execute(f"DELETE FROM {table}")
        db.executescript((HERE / "names17.sql").read_text("utf-8"))
        volume = catalogd.volume_name(str(library), {})
        sql = "UPDATE entries SET folder = ?, volume = ?,"
        sql += " source = replace(source, '/library/', ? || '/') WHERE folder NOT NULL"
        db.execute(sql, (str(library), volume, str(library)))
        files = db.execute(
            "SELECT id, source, state FROM entries WHERE folder NOT NULL"
        )
        for entry, path, state in files.fetchall():
            if state == "gone":
                os.remove(path)
            else:
                inode = os.stat(path).st_ino
                db.execute("UPDATE entries SET inode = ? WHERE id = ?", (inode, entry))
    return data


KEPT = {
    "entries": "id, source, state, overrides, created_at, created_by",
    "queue": "id, account, entry, device, key, place, error, created_at",
    "sent": "DISTINCT entry, account, device",
    "accounts": "*",
    "keys": "id, account, label, digest, is_device, shared",
}
SENT_NOW = (  # marks of what the entry is still
    "SELECT entry, account, device, sent_at FROM sent JOIN parts"
    " ON parts.id = entry AND parts.version = sent.version ORDER BY 1, 2, 3"
)
SENT_CONTENTS = f"SELECT contents, {catalogd.SENT_CONTENTS} AS held FROM sent"
SENT_CONTENTS += " JOIN parts ON parts.id = entry AND parts.version = sent.version"


def read_rows(data: pathlib.Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        return db.execute(sql).fetchall()


@contextlib.contextmanager
def read_better(data: pathlib.Path) -> Iterator[catalogd.Store]:
    """The database after its upgrade, and a first scan that reads the files again."""
    folder = str(data.parent / "library")
    with upgraded(data) as store:
        scanner = catalogd.Scanner(store, catalogd.Settings(folders=(folder,)))
        assert len(scanner.scan().updated) > 250
        yield store


def test_nothing_is_lost_of_files_whose_names_are_read_better_after_an_upgrade(
    named: pathlib.Path,
) -> None:
    kept = {table: f"SELECT {KEPT[table]} FROM {table}" for table in KEPT}
    before = {table: {*read_rows(named, sql)} for table, sql in kept.items()}
    sent, statuses = (
        read_rows(named, sql) for sql in (SENT_NOW, "SELECT id, status FROM queue")
    )
    assert len(before["entries"]) > 250 and len(sent) > 90
    with read_better(named) as store:
        for table, sql in kept.items():
            assert before[table] - {*read_rows(named, sql)} == set()
        assert read_rows(named, SENT_NOW) == sent
        marks = read_rows(named, SENT_CONTENTS)
        assert [mark for mark in marks if mark[0] != mark[1]] == []
        after = dict(read_rows(named, "SELECT id, status FROM queue"))
        changed = {id: after[id] for id, status in statuses if after[id] != status}
        items = store.database.rows("SELECT * FROM all_items")
        unseen = {it["id"] for it in items if it["seen_from"] > it["sender_age"]}
        assert {*changed.values()} == {"cancelled"} and {*changed} <= unseen


def test_nobody_sees_a_title_that_no_adult_gave_that_age_to_after_an_upgrade(
    named: pathlib.Path,
) -> None:
    given = dict(read_rows(named, "SELECT coalesce(sample, title), age FROM ages"))
    seen = read_rows(named, "SELECT id, seen_from FROM parts WHERE state = 'here'")
    with read_better(named) as store:
        former = store.entries.former_ages()
    titles = collections.defaultdict(set)
    for entry, title in read_rows(named, "SELECT entry, title FROM held"):
        titles[entry].add(title)
    parts = read_rows(named, "SELECT id, coalesce(sample, id), seen_from FROM parts")
    ages = collections.defaultdict(list)  # that adults gave titles, or files of them
    for subject, age in given.items():
        ages[subject].append(age)
    for entry, content, _ in parts:
        for title in titles[entry] - {content} if content in given else ():
            ages[title].append(given[content])
    for entry, content, age in parts:
        for title in titles[entry]:
            of = ages[content] if title == entry else ages[title]
            assert age == 99 or of and age >= max(of)
    after = {entry: age for entry, _, age in parts}
    hidden = [entry for entry, age in seen if age < 18 and after[entry] == 99]
    for entry in hidden:  # is told as undecided, unless a part of it is for adults
        assert titles[entry] & {*former} or any(18 in ages[it] for it in titles[entry])
    assert hidden
