"""The client copies the backups of saves that are on a console, each version once."""

import contextlib
import errno
import itertools
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
import ftpservers
import saves
import send_to_switch
from conftest import Home, free_port, short_and_long, small_disk, wait_for
from consoles import FTPConsole
from ftpsrv import Ftpsrv, Session
from saves import Backup, kept, packed, write
from send_to_switch import Cancelled

ZIP = "JKSV/Star/1.zip"
PLACE = pathlib.Path("kept", "Attic (0123456789abcdef)")


@pytest.fixture
def card(tmp_path: pathlib.Path) -> pathlib.Path:
    """The SD card; beside it, the folder for copies."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "card").mkdir()
    return tmp_path / "card"


@pytest.fixture
def console(card: pathlib.Path) -> Iterator[Ftpsrv]:
    """The stand-in for ftpsrv over the card."""
    with contextlib.closing(Ftpsrv(card)) as server:
        server.is_card = True
        yield server


def said(code: str, arguments: dict[str, Any]) -> str:
    """Return the sentence of a problem that was told, as the server says it."""
    return catalogd.reported(code, arguments) or code


def text(saves: int | None, **told: Any) -> str:
    """Return what the client has told of a look as a line."""
    counted = "" if saves is None else f"{saves} copied. "
    return f"Saves: {counted}{said(**told)}".rstrip()


class Watcher:
    """The client's saves of one console, and what it tells of them."""

    def __init__(self, url: str, top: pathlib.Path, keep_free: float = 0) -> None:
        target = send_to_switch.find_target(send_to_switch.Settings(to=url))
        assert isinstance(target, send_to_switch.FTP)
        self.pace, self.folder = send_to_switch.Pace(is_told=True), top / PLACE
        options = str(self.folder), keep_free, str(top / "state")
        self.saves = send_to_switch.Saves(target, *options)

    def look(self) -> list[str]:
        told, screen = list[str](), send_to_switch.Screen()
        screen.tell = lambda **facts: told.append(text(**facts))  # type: ignore
        self.saves.look(self.pace.idle, screen)
        return told

    def kept(self) -> list[Any]:
        return kept(self.folder)


@pytest.fixture
def watcher(console: Ftpsrv, tmp_path: pathlib.Path) -> Watcher:
    return Watcher(console.url, tmp_path)


def names(folder: pathlib.Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))


# What is copied


@contextlib.contextmanager
def served(name: str, card: pathlib.Path, own: pathlib.Path) -> Iterator[str]:
    """Serve a card by a server of this name, and yield its address."""
    if name == "pyftpdlib":
        with contextlib.closing(FTPConsole(card)) as console:
            yield console.url()
    else:
        own.mkdir(exist_ok=True)
        with ftpservers.running(name, card, own) as url:
            yield url


@pytest.mark.parametrize(
    "name",
    [
        "pyftpdlib",
        *(pytest.param(name, marks=pytest.mark.root) for name in ftpservers.COMMANDS),
    ],
)
def test_each_backup_of_five_programs_is_copied_once(
    name: str, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    expected = saves.fill(card)
    with served(name, card, tmp_path / "own") as url:
        watcher = Watcher(url, tmp_path)
        counts = [int(watcher.look()[-1].split()[1]) for _ in range(4)]
        # ftpsrv may refuse what goes on well the next time: its port is taken.
        assert (counts[0] == sum(counts)) or name == "ftpsrv"
        assert sum(counts) == len(expected)
        assert sorted(map(hash, watcher.kept())) == sorted(map(hash, expected))
        before = {path: path.stat() for path in watcher.folder.rglob("*")}
        assert watcher.look() == ["Saves: 0 copied."]
        expected.append(write(card, "JKSV/Étoile/1 backup.zip", b"played on"))
        assert watcher.look() == ["Saves: 1 copied."]
    assert sorted(map(hash, watcher.kept())) == sorted(map(hash, expected))
    for path, was in before.items():
        if path.is_file():
            assert path.stat() == was
        assert not send_to_switch.UNSAFE.search(path.name)
        assert not send_to_switch.WINDOWS_DEVICE.match(path.name)


def test_a_console_without_saves_is_fine(watcher: Watcher) -> None:
    assert watcher.look() == ["Saves: 0 copied."]
    assert not watcher.folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["a\nb.zip", "a\\b.zip", "a\x1bb.zip", b"\xff.zip"])
def test_a_name_that_cannot_be_read_is_told_and_stops_no_other(
    name: str | bytes, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    whole = write(card, "JKSV/Star/2.zip", b"second")
    write(card, "switch/Checkpoint/saves/0x1 Star/2024", b"packed")
    for folder in (card / "JKSV/Star", card / "switch/Checkpoint/saves/0x1 Star/2024"):
        (
            pathlib.Path(
                os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(name)))
            ).write_bytes(packed(b"first"))
        )
    with contextlib.closing(FTPConsole(card)) as console:
        watcher = Watcher(console.url(), tmp_path)
        told = watcher.look()
    assert watcher.kept() == [whole]
    assert told[-1] == "Saves: 1 copied."
    assert len(told) == 3
    why = "refuses" if isinstance(name, bytes) else "Its name cannot be read."
    assert all("Saves: Not copied: /" in line and why in line for line in told[:-1])


def test_a_zip_beside_the_folders_of_titles_is_a_title(
    card: pathlib.Path, watcher: Watcher
) -> None:
    whole = write(card, "switch/tinfoil/saves/Star.zip", b"all")
    (card / "switch/tinfoil/saves/readme.txt").write_bytes(b"")
    watcher.look()
    assert watcher.kept() == [whole]
    assert [path.name for path in watcher.folder.iterdir()] == ["Star"]


def test_a_time_tells_a_version_to_the_minute(
    card: pathlib.Path, watcher: Watcher
) -> None:
    write(card, ZIP, b"one")
    (card / "JKSV/Star/2.zip").write_bytes(packed(b"two"))
    saves.age(card / ZIP, 3600)
    assert watcher.look() == ["Saves: 2 copied."]
    write(card, ZIP, b"eno")  # as large
    saves.age(card / ZIP, 60)
    assert watcher.look() == ["Saves: 1 copied."]
    assert len(watcher.kept()) == 3


def test_a_server_without_times_tells_a_version_by_its_size(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    console.refuses["MDTM"] = ["500 Unknown."] * 100
    write(card, ZIP, b"one")
    assert watcher.look() == ["Saves: 1 copied."]
    saves.age(card / ZIP, 3600)
    assert watcher.look() == ["Saves: 0 copied."]


def test_what_was_deleted_comes_back_while_it_is_on_the_card(
    card: pathlib.Path, watcher: Watcher
) -> None:
    whole = write(card, ZIP, b"one")
    watcher.look()
    before = names(watcher.folder)
    (watcher.folder / before[0]).unlink()
    watcher.look()
    assert watcher.kept() == [whole]
    assert names(watcher.folder) == before


# What is not whole


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_changes_while_it_is_read_is_copied_once_it_is_quiet(
    grows: bool, card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    write(card, ZIP, os.urandom(300_000))

    def change(session: Session, size: int) -> None:
        console.give = lambda session, size: None
        if grows:
            with open(card / ZIP, "ab") as file:
                file.write(bytes(100_000))
        else:
            os.truncate(card / ZIP, 100_000)

    console.give = change
    told = watcher.look()
    assert told == [
        f"Saves: Not copied: /{ZIP}: It is not whole, or it is being written.",
        "Saves: 0 copied.",
    ]
    whole = write(card, ZIP, os.urandom(300_500))
    assert watcher.look() == ["Saves: 1 copied."]
    assert watcher.kept() == [whole]
    assert len(names(watcher.folder)) == 1


def test_a_time_that_changes_while_a_file_is_read_is_another_version(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    whole = write(card, ZIP, bytes(1000))
    saves.age(card / ZIP, 3600)
    console.give = lambda session, size: saves.age(card / ZIP, 60)
    assert "not whole" in watcher.look()[0]
    assert watcher.look() == ["Saves: 1 copied."]
    assert watcher.kept() == [whole]


@pytest.mark.parametrize("damage", [b"no zip" * 100, packed(bytes(900))[:-10]])
def test_a_broken_backup_is_told_and_not_fetched_again_by_the_process(
    damage: bytes, card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    whole = write(card, "JKSV/Star/2.zip", b"two")
    (card / ZIP).write_bytes(damage)
    for count in (1, 0):
        console.commands.clear()
        told = watcher.look()
        assert f"/{ZIP}: It is not whole" in told[0]
        assert told[1:] == [f"Saves: {count} copied."]
        assert console.commands.count("RETR") == 2 * count
    assert watcher.kept() == [whole]


def test_a_directory_that_is_too_large_for_a_zip_is_not_read(
    card: pathlib.Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(card, ZIP, b"one")
    monkeypatch.setattr(send_to_switch, "MAX_LIST_BYTES", 100)
    with (
        send_to_switch.ZipFolder(str(card / ZIP)) as file,
        pytest.raises(zipfile.BadZipFile),
    ):
        file.read(101)


def test_a_backup_that_is_too_large_is_told(
    card: pathlib.Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(card, ZIP, b"one")
    monkeypatch.setattr(send_to_switch, "MAX_SAVE_BYTES", 100)
    assert watcher.look()[0].endswith(": It is larger than 100 B.")


@pytest.mark.parametrize("cut", ["data", "all"])
def test_a_connection_that_breaks_in_a_file_stops_no_other(
    cut: str, card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    expected = [write(card, f"JKSV/Star/{n}.zip", os.urandom(90_000)) for n in range(3)]
    (card / "JKSV/Star/4.zip").symlink_to(card / "JKSV/Star/0.zip")

    def drop(session: Session, size: int) -> None:
        console.give = lambda session, size: None
        if cut == "data":
            session.reply(426, "Closing.")
        raise ConnectionAbortedError

    console.give = drop
    told = watcher.look()
    assert told[0].startswith("Saves: Not copied: /JKSV/Star/0.zip: The co")
    assert watcher.look()[-1] == "Saves: 1 copied."
    assert {*watcher.kept()} == {*expected}
    assert not [*watcher.folder.rglob("*.part")]


def test_a_list_that_breaks_stops_no_other_folder(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    write(card, "switch/Checkpoint/saves/Star/2024", b"one")
    other = write(card, "dumps/Save/Moon/1.zip", b"two")
    console.refuses["LIST"] = ["", "", "426 Closing."]  # in that of 2024
    told = watcher.look()
    assert "Not copied: /switch/Checkpoint/saves/Star/2024: " in told[0]
    assert told[1:] == ["Saves: 1 copied."]
    assert watcher.kept() == [other]
    assert watcher.look() == ["Saves: 1 copied."]


class Hang(threading.Event):
    has_ended = False  # so that the console goes on


def hang(console: Ftpsrv, monkeypatch: pytest.MonkeyPatch) -> Hang:
    """Let the first LIST have no reply, until the event."""
    goes_on, plain = Hang(), console.note

    def note(command: str) -> None:
        plain(command)
        if command == "LIST" and console.commands.count("LIST") == 1:
            goes_on.wait(30)
            goes_on.has_ended = True

    monkeypatch.setattr(console, "note", note)
    return goes_on


def test_a_folder_that_hangs_is_given_up_and_holds_up_no_other(
    card: pathlib.Path,
    console: Ftpsrv,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(card, ZIP, b"one")
    other = write(card, "dumps/Save/Moon/1.zip", b"two")
    goes_on, commands, ahead = hang(console, monkeypatch), list[str](), ["LIST"]
    plain, putcmd = select.select, send_to_switch.Connection.putcmd

    def put(ftp: Any, command: str) -> None:
        commands.append(command)
        putcmd(ftp, command)

    def wait(*given: Any) -> Any:
        """Let its silence last long enough at once."""
        if commands[-1:] != ahead:
            return plain(*given)
        ahead[:] = ["no other"]
        return [], [], []

    monkeypatch.setattr(send_to_switch.Connection, "putcmd", put)
    monkeypatch.setattr(select, "select", wait)
    told = watcher.look()
    goes_on.set()
    assert told[0].startswith("Saves: Not copied: /JKSV: The connection")
    assert told[1:] == ["Saves: 1 copied."]
    assert watcher.kept() == [other]


def test_a_folder_that_hangs_holds_up_nothing_that_is_to_be_sent(
    card: pathlib.Path,
    console: Ftpsrv,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(card, ZIP, b"one")
    goes_on = hang(console, monkeypatch)
    note = console.note

    def tell(command: str) -> None:
        if command == "LIST":
            watcher.pace.tell(1)
        note(command)

    monkeypatch.setattr(console, "note", tell)
    with pytest.raises(Cancelled):
        watcher.look()
    assert not goes_on.has_ended
    goes_on.set()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_connection_that_breaks_in_a_list_copies_nothing_by_halves(
    number: int, card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    expected = [write(card, f"switch/Checkpoint/saves/S/{n}", n.encode()) for n in "ab"]
    expected.append(write(card, "dumps/Save/Moon/1.zip", b"two"))
    console.cuts_lists = [False] * number + [True]
    told = watcher.look()
    assert told[0].startswith("Saves: Not copied: /switch/Checkpoint/saves")
    assert {*watcher.kept()} < {*expected}
    watcher.look()
    assert sorted(map(hash, watcher.kept())) == sorted(map(hash, expected))


def test_five_broken_connections_end_a_look(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    for n in range(9):
        write(card, f"JKSV/Star/{n}.zip", b"one")
    console.refuses["RETR"] = ["426 Closing."] * 99
    told = watcher.look()
    assert len(told) == 6
    assert told[-1].startswith("Saves: 0 copied. The console ended the transfer")
    assert console.commands.count("RETR") == 5


def test_a_server_that_is_gone_ends_a_look(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    write(card, ZIP, b"one")
    console.refuses["LIST"] = [""] * 2
    console.refuses["RETR"] = ["426 Closing."]
    console.refuses["USER"] = ["", "530 Not now."]
    told = watcher.look()
    assert "Saves: 0 copied. The FTP server at " in told[-1]


def test_parts_of_a_process_that_was_killed_are_removed(
    card: pathlib.Path, watcher: Watcher
) -> None:
    title = watcher.folder / "Star"
    title.mkdir(parents=True)
    for name in ("1-0123456789ab.part", "1.part", "1-0123456789ab.zip"):
        (title / name).write_bytes(packed(b""))
    watcher.look()
    assert names(watcher.folder) == ["Star/1-0123456789ab.zip", "Star/1.part"]


@pytest.mark.parametrize("fails", [False, True])
def test_parts_of_a_device_that_was_removed_are_removed(
    fails: bool,
    card: pathlib.Path,
    console: Ftpsrv,
    home: Home,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where their disk fails, that is said, and the key's end too."""
    write(card, ZIP, b"one")
    watcher.look()
    [copy] = watcher.folder.rglob("*.zip")
    part = copy.parent / "2-0123456789ab.part"
    part.write_bytes(b"")
    for key in home.store.accounts.keys(home.anna):
        home.store.accounts.revoke_key(key["id"], home.anna)
    sender = home.sender(console.url)
    sender.watch.saves = watcher.saves
    with monkeypatch.context() as patch, pytest.raises(send_to_switch.BadKey):
        if fails:
            patch.setattr(pathlib.Path, "unlink", Mock(side_effect=OSError(5, "")))
        sender.run(once=False)
    is_said = "Saves cannot be kept in" in capsys.readouterr().out
    assert (part.exists(), is_said, copy.exists()) == (fails, fails, True)


def test_a_device_that_had_another_name_while_its_disk_was_away_keeps_its_folder(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher, tmp_path: pathlib.Path
) -> None:
    whole = write(card, ZIP, b"one")
    watcher.look()
    renamed = Watcher(console.url, tmp_path)
    name = watcher.folder.name.replace("Attic", "Loft")
    renamed.saves.folder = watcher.folder.with_name(name)
    assert renamed.look() == ["Saves: 0 copied."]
    assert [*watcher.folder.parent.iterdir()] == [watcher.folder]
    assert watcher.kept() == [whole]


@pytest.mark.parametrize(("times", "count"), [(4, 1), (5, 0)])
def test_a_port_that_is_taken_is_asked_for_again(
    times: int, count: int, card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    write(card, ZIP, b"one")
    console.refuses["PASV"] = [*[""] * 2, *["501 bind failed."] * times]
    assert watcher.look()[-1] == f"Saves: {count} copied."


# Bounds


def test_a_list_that_is_too_long_is_not_read(
    console: Ftpsrv, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_LIST_BYTES", 1000)
    (console.folder / "JKSV").mkdir()
    console.list = "x" * 1001
    assert "too many files" in watcher.look()[0]


def test_too_many_names_end_a_look(
    console: Ftpsrv, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    (console.folder / "JKSV").mkdir()
    row = "-rw-r--r-- 1 a b 10 Nov 24 05:40 {}.zip\r\n"
    console.list = "".join(row.format(n) for n in range(20_001))
    assert watcher.look() == [
        "Saves: 0 copied. The console has too many files or folders."
    ]


def test_a_size_of_thousands_of_digits_is_none() -> None:
    line = "-rw-r--r-- 1 a b {} Nov 24 05:40 a.zip"
    assert send_to_switch.read_listed(line.format("9" * 18)).size == 10**18 - 1
    assert send_to_switch.read_listed(line.format("9" * 5000)).size == -1


def test_folders_that_are_too_deep_are_told(
    card: pathlib.Path, watcher: Watcher
) -> None:
    other = write(card, "JKSV/Star/2/1.zip", b"two")
    deep = card / "JKSV/Moon"
    for _ in range(12):
        deep /= "more"
    deep.mkdir(parents=True)
    (deep / "save").write_bytes(b"")
    told = watcher.look()
    assert "more: The console has too many files or folders" in told[0]
    assert watcher.kept() == [other]


# The disk for the copies


def test_a_full_disk_ends_a_look_and_leaves_what_is_to_stay_free(
    card: pathlib.Path, console: Ftpsrv, tmp_path: pathlib.Path
) -> None:
    write(card, ZIP, b"one")
    write(card, "JKSV/Star/2.zip", b"two")
    told = Watcher(console.url, tmp_path, keep_free=1e18).look()
    full = f"Saves cannot be kept in {tmp_path / 'kept'}: The disk is full."
    assert told == [f"Saves: 0 copied. {full}"]
    assert not [*tmp_path.rglob("kept/*/*/*")]


def test_a_disk_that_fails_while_a_file_is_written_ends_a_look(
    card: pathlib.Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(card, ZIP, b"one")

    fail = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    monkeypatch.setattr(os, "fsync", fail)
    [told] = watcher.look()
    assert told.endswith("kept: Input/output error.")
    assert names(watcher.folder) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("path", "size"),
    [(ZIP, 2_400_000), ("switch/Checkpoint/saves/Star/2024", 1_200_000)],
)
def test_a_disk_that_fills_up_in_a_file_has_no_part_of_it(
    path: str, size: int, card: pathlib.Path, watcher: Watcher
) -> None:
    with small_disk(watcher.folder.parent, 3_000_000):
        first = write(card, "JKSV/Star/0.zip", os.urandom(10_000))
        watcher.look()
        filler = watcher.folder / "filler"
        write(card, path, os.urandom(size))
        plain = shutil.disk_usage

        def free(folder: Any) -> Any:  # another program is faster
            found = plain(folder)
            filler.write_bytes(bytes(1_000_000))
            return found

        shutil.disk_usage = free  # type: ignore[assignment]
        try:
            [told] = watcher.look()
        finally:
            shutil.disk_usage = plain
        assert told.endswith("The disk is full.")
        assert watcher.kept() == [first]
        assert not [*watcher.folder.rglob("*.part")]
        filler.unlink()
        assert watcher.look() == ["Saves: 1 copied."]


def test_nothing_is_made_where_the_folder_is_missing(
    card: pathlib.Path, watcher: Watcher
) -> None:
    write(card, ZIP, b"one")
    top = watcher.folder.parent
    top.rmdir()
    away = f"Saves: 0 copied. Saves cannot be kept in {top}: Its disk is not connected."
    assert watcher.look() == [away]
    assert not top.exists()
    top.mkdir()
    assert watcher.look() == ["Saves: 1 copied."]


def mount_points(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Further ones, which the test may change."""
    plain, found = os.path.ismount, list[str]()
    monkeypatch.setattr(os.path, "ismount", lambda at: at in found or plain(at))
    return found


def test_nothing_is_made_below_the_mount_point_of_a_disk_that_is_away(
    card: pathlib.Path,
    console: Ftpsrv,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(card, ZIP, b"one")
    place, mounted = str(tmp_path / "kept"), mount_points(monkeypatch)
    assert Watcher(console.url, tmp_path).look() == ["Saves: 1 copied."]
    mounted.append(place)  # a disk that is put there later
    assert Watcher(console.url, tmp_path).look() == ["Saves: 0 copied."]
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    mounted.clear()
    for _ in range(2):  # also for another process
        [told] = Watcher(console.url, tmp_path).look()
        assert told.endswith("Its disk is not connected.")
    assert not [*(tmp_path / "kept").iterdir()]
    mounted.append(place)
    assert Watcher(console.url, tmp_path).look() == ["Saves: 1 copied."]


def test_where_the_disk_is_mounted_is_known_by_the_client_of_another_device(
    card: pathlib.Path,
    console: Ftpsrv,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(card, ZIP, b"one")
    mounted = mount_points(monkeypatch)
    mounted.append(str(tmp_path / "kept"))
    first, other = (Watcher(console.url, tmp_path) for _ in range(2))
    assert first.look() == ["Saves: 1 copied."]
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    mounted.clear()
    assert other.look()[-1].endswith("Its disk is not connected.")
    assert not [*(tmp_path / "kept").iterdir()]


# When


def test_a_look_ends_where_the_server_tells_something(
    card: pathlib.Path, console: Ftpsrv, watcher: Watcher
) -> None:
    whole = write(card, ZIP, os.urandom(300_000))
    going_on = threading.Event()

    def tell(session: Session, size: int) -> None:
        watcher.pace.tell(1)
        waited.append(going_on.wait(30))

    waited: list[bool] = []
    console.give = tell
    with pytest.raises(Cancelled):
        watcher.look()
    assert waited == []  # the console still holds the file back
    going_on.set()
    assert watcher.kept() == []
    with pytest.raises(Cancelled):
        watcher.look()  # until it has waited
    watcher.pace.wait(60)
    console.give = lambda session, size: None
    assert watcher.look() == ["Saves: 1 copied."]
    assert watcher.kept() == [whole]


class Looks(send_to_switch.Saves):
    """Counts, and may be told of something meanwhile."""

    def __init__(self) -> None:
        self.count, self.is_told = 0, False

    def look(self, progress: Any, screen: Any) -> float:
        self.count += 1
        if self.is_told:
            raise Cancelled
        return send_to_switch.SAVES_SECONDS


def test_a_look_is_due_when_the_console_becomes_ready_and_then_every_half_hour(
    home: Home, console: Ftpsrv, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, now = home.sender(console.url), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sender.watch.saves = looks = Looks()
    sender.watch.installed = None
    sender.watch.read_console()  # it is not known whether it is ready
    assert looks.count == 0
    sender.watch.check()
    looks.is_told = True
    sender.watch.read_console()
    looks.is_told = False
    sender.watch.read_console()
    sender.watch.read_console()
    assert looks.count == 2
    now[0] += 1801
    sender.watch.read_console()
    assert looks.count == 3
    console.refuses["USER"] = ["421 Not now."]
    sender.target.close()
    with pytest.raises(send_to_switch.TargetOffline):
        sender.watch.check()
    sender.watch.read_console()
    assert looks.count == 3
    sender.watch.check()
    sender.watch.read_console()
    assert looks.count == 4
    sender.target.close()


@contextlib.contextmanager
def pipe(values: Any) -> Iterator[int]:
    read, write_end = os.pipe()
    with open(write_end, "w", encoding="utf-8") as file:
        print(json.dumps(values), file=file, flush=True)
        yield read


@pytest.mark.parametrize("scheme", ["ftp", "lan"])
def test_the_client_of_an_installer_copies_no_saves(
    scheme: str, home: Home, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    ended = threading.Event()
    monkeypatch.setattr(send_to_switch.os, "_exit", lambda code: ended.set())
    monkeypatch.setattr(send_to_switch.signal, "signal", lambda number, act: None)
    run = lambda self, once: found.append(self.watch.saves)  # noqa: E731
    monkeypatch.setattr(send_to_switch.Sender, "run", run)
    values = {"server": home.address, "key": home.key, "to": f"{scheme}://127.0.0.1"}
    values["state"] = str(tmp_path / "state")
    with pipe({**values, "saves": [str(tmp_path / PLACE), 0, ""]}) as end:
        assert send_to_switch.run_by_server(end) == 0
    assert ended.wait(20)
    assert [type(one).__name__ for one in found] == [
        "Saves" if scheme == "ftp" else "NoneType"
    ]


# Kills


class Kitchen:
    """A card that somebody goes on playing with, its server and the client, both of
    them processes that may be killed."""

    def __init__(self, home: Home, top: pathlib.Path) -> None:
        self.card, self.folder, self.home = top / "card", top / PLACE, home
        self.port, self.top = free_port(), top
        self.ever: set[Backup] = set()
        self.now: dict[str, Backup] = {}
        self.seen: dict[pathlib.Path, os.stat_result] = {}
        self.lines: list[str] = []
        self.numbers = itertools.count(1000)

    def play(self) -> None:
        title = f"Title {random.randrange(8)}"
        form = random.choice([*saves.PROGRAMS.values()])
        path = form.format(title=title, n=random.randrange(1, 4))
        number = next(self.numbers)  # each of another size
        self.now[path] = write(self.card, path, random.randbytes(400_000 + number))
        self.ever.add(self.now[path])

    def start_console(self) -> None:
        module = pathlib.Path(__file__).with_name("ftpsrv.py")
        command = [sys.executable, str(module), str(self.card), str(self.port), "slow"]
        self.console = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(lambda: ftpservers.is_open(self.port))

    def start_client(self) -> None:
        code, folder = catalogd.CLIENT_CODE, str(pathlib.Path(catalogd.__file__).parent)
        values = {"server": self.home.address, "key": self.home.key}
        values |= {
            "to": f"ftp://127.0.0.1:{self.port}/",
            "state": str(self.top / "own"),
        }
        options = [str(self.folder), 0, str(self.top / "state")]
        self.client = subprocess.Popen(
            [sys.executable, "-c", code, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.client.stdin
        print(
            json.dumps({**values, "saves": options}), file=self.client.stdin, flush=True
        )

    def wait_for_part(self) -> None:
        wait_for(lambda: [*self.folder.rglob("*.part")] or self.client.poll(), 20)
        time.sleep(random.random() / 20)

    def end_client(self, is_killed: bool) -> None:
        assert self.client.stdin and self.client.stdout
        if is_killed:
            self.client.kill()
        with contextlib.suppress(BrokenPipeError):
            self.client.stdin.close()  # as where the server is killed
        self.client.wait(timeout=30)
        self.client.stdout.close()

    def check(self) -> None:
        """Each copy is whole, and what it was; it was on the card at some moment."""
        found = sorted(self.folder.rglob("*.zip"))
        assert {*map(saves.content, found)} <= self.ever
        for path in found:
            assert self.seen.setdefault(path, path.stat()) == path.stat()
        assert self.seen.keys() == {*found}

    def look_quietly(self) -> None:
        self.start_client()
        assert self.client.stdout
        for line in self.client.stdout:
            if line.startswith(send_to_switch.TOLD) and "null" not in line:
                assert json.loads(line[1:])["code"] == "", line
                break
        self.end_client(is_killed=False)


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signals")
@short_and_long(kills=(6, 150))
def test_what_is_killed_leaves_whole_copies_and_in_the_end_all_of_them(
    kills: int, home: Home, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """In turn: the client, its server, and the server on the console."""
    kitchen = Kitchen(home, tmp_path)
    kitchen.start_console()
    try:
        for number in range(kills):
            for _ in range(3):
                kitchen.play()
            kitchen.start_client()
            kitchen.wait_for_part()
            if number % 3 == 2:
                kitchen.console.send_signal(signal.SIGKILL)
                kitchen.console.wait(timeout=30)
                kitchen.start_console()
            kitchen.end_client(is_killed=number % 3 == 0)
            kitchen.check()
        kitchen.look_quietly()
        kitchen.check()
    finally:
        kitchen.console.kill()
        kitchen.console.wait(timeout=30)
    copies = kept(kitchen.folder)
    assert {*kitchen.now.values()} <= {*copies}
    assert len({*copies}) == len(copies)
    assert not [*kitchen.folder.rglob("*.part")]
