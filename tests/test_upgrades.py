"""Upgrades of large databases of earlier releases, which `serve` does at its start."""

import contextlib
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import catalogd
from conftest import wait_for
from test_store import data_folder

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
    "version", [1, *(pytest.param(version, marks=pytest.mark.ci) for version in (4, 8))]
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
