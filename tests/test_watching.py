"""Folders that are watched: what changes in them is listed at once."""

import contextlib
import ctypes
import dataclasses
import errno
import json
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import containers
from conftest import (
    LONG_AGO,
    PASSWORD,
    Clock,
    Games,
    Library,
    is_watching,
    need,
    online,
    short_and_long,
    skip,
    small_disk,
    wait_for,
    wait_until_quiet,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


def ids(store: catalogd.Store) -> dict[str, str]:
    """Ids by path, of what can be downloaded now."""
    entries = json.loads(store.entries.list_json(catalogd.EVERYTHING))
    return {entry["source"]: entry["id"] for entry in entries}


@pytest.fixture
def settings(settings: catalogd.Settings) -> catalogd.Settings:
    """With scans so rare that what is listed while a test waits was noticed at once."""
    return dataclasses.replace(settings, scan_interval=3600)


@contextlib.contextmanager
def running(scanner: catalogd.Scanner, watched: bool = True) -> Iterator[None]:
    """Run the thread, from the end of its first scan."""
    scanner.start()
    try:
        wait_for(lambda: is_watching(scanner) or not watched and scanner.state.next)
        yield
    finally:
        scanner.stop()


def counted(scanner: catalogd.Scanner) -> Mock:
    """Return what counts the scans from now on."""
    scanner.scan = scans = Mock(wraps=scanner.scan)
    return scans


def test_files_are_listed_renamed_and_removed_at_once(
    library: Library, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    scanner = catalogd.Scanner(store, dataclasses.replace(settings, settle=2))
    scanner.disks.growing.clock = time.time
    with running(scanner):
        path = library.add("deep/er/a.nsp", b"a", mtime=time.time())
        wait_for(lambda: path in ids(store))
        (before,) = ids(store).values()
        new = str(library.folder / "b.nsp")
        os.rename(path, new)
        wait_for(lambda: ids(store) == {new: before})
        os.rename(library.folder / "deep", library.folder / "other")
        path = library.add("other/er/c.nsp")
        wait_for(lambda: ids(store).keys() == {new, path})
        wait_for(lambda: online(scanner) == {str(library.folder): 2})
        library.add("b.png", containers.PNG)
        wait_for(
            lambda: "icon" in store.entries.get(before, catalogd.EVERYTHING)["metadata"]
        )
        os.remove(new)
        wait_for(lambda: ids(store).keys() == {path})
        shutil.rmtree(library.folder / "other")
        wait_for(lambda: not ids(store))


def test_only_folders_in_which_something_happened_are_read_again(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        library.add(f"{number}/a.nsp")
    read: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: read.append(path) or scandir(path))
    with running(scanner):
        assert len(read) == 10
        read.clear()
        library.add("3/.hidden")
        library.add("3/$RECYCLE.BIN/x.nsp")
        path = library.add("3/b.nsp")
        wait_for(lambda: path in ids(scanner.store))
        os.rename(library.folder / "5", library.folder / "six")
        wait_for(lambda: str(library.folder / "six" / "a.nsp") in ids(scanner.store))
        top = str(library.folder)
        assert {*read} <= {top, f"{top}/3", f"{top}/5", f"{top}/six"}


@pytest.mark.parametrize("part", ["A.nsp/{:02}", "A.xc{}", "A.nsp.{:02}"])
def test_parts_of_a_split_file_are_listed_at_once(
    library: Library, store: catalogd.Store, scanner: catalogd.Scanner, part: str
) -> None:
    """What comes behind a gap, too: it changes what is there into a part of it."""

    def has(**facts: object) -> bool:
        found = store.entries.list_json(catalogd.EVERYTHING)
        entries = [entry | entry["metadata"] for entry in json.loads(found)]
        return any(facts.items() <= entry.items() for entry in entries)

    with running(scanner):
        for number in (0, 1):
            library.add(part.format(number), b"12345")
        wait_for(lambda: has(size=10))
        library.add(part.format(3), b"12345")
        wait_for(lambda: has(missing=os.path.basename(part.format(2))))


def test_what_is_passed_over_is_told_at_once(
    library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp")
    scanner.disks.exclusion = catalogd.Exclusion(["wip"], scanner.folders)
    with running(scanner):
        for name in (".b.nsp", "c.zip", "wip/d.nsp"):
            path = library.add(name)
        wait_for(lambda: len(scanner.disks.passed_over) == 3)
        shutil.rmtree(os.path.dirname(path))
        (library.folder / ".b.nsp").rename(library.folder / "b.nsp")
        wait_for(lambda: [*scanner.disks.passed_over] == [f"{library.folder}/c.zip"])


def test_a_file_that_moves_to_another_watched_folder_keeps_its_id(
    tmp_path: pathlib.Path, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    one, two = Library(tmp_path / "one"), Library(tmp_path / "two")
    folders = (str(one.folder), str(two.folder))
    scanner = catalogd.Scanner(store, dataclasses.replace(settings, folders=folders))
    path = one.add("a.nsp")
    one.add("b.nsp")
    with running(scanner):
        before = ids(store)[path]
        os.rename(path, two.folder / "a.nsp")
        wait_for(lambda: ids(store).get(f"{two.folder}/a.nsp") == before)


def test_a_file_that_grows_is_not_forgotten_while_others_change(
    library: Library, store: catalogd.Store, scanner: catalogd.Scanner
) -> None:
    scanner.disks.growing.settle = 3600
    scanner.disks.growing.clock = time.time
    with running(scanner):
        slow = library.add("one/a.nsp", mtime=time.time() + 9999)
        wait_for(lambda: scanner.disks.growing.files)
        quick = library.add("two/b.nsp")
        wait_for(lambda: ids(store).keys() == {quick})
        scanner.disks.growing.settle = 0
        wait_for(lambda: ids(store).keys() == {slow, quick})


@short_and_long(count=(1000, 20_000))
def test_a_storm_of_renames_loses_nothing(
    library: Library, scanner: catalogd.Scanner, clock: Clock, count: int
) -> None:
    paths = [library.add(f"{number % 50}/{number}.nsp") for number in range(200)]
    with running(scanner):
        before = {os.stat(path).st_ino: id for path, id in ids(scanner.store).items()}
        clock.now += 60  # a file that is found at its new place first is a younger copy
        for number in range(count):
            at = number % len(paths)
            new = f"{library.folder}/{number % 7}/{number}-{at}.nsp"
            os.rename(paths[at], new)
            paths[at] = new
        now = {path: before[os.stat(path).st_ino] for path in paths}
        wait_for(lambda: ids(scanner.store) == now)


@pytest.mark.slow
def test_lost_events_are_made_good_by_a_scan_of_all(
    library: Library, store: catalogd.Store, scanner: catalogd.Scanner
) -> None:
    scanner.check_seconds = 1.5
    limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    files = [library.add("one"), library.add("two")]
    with running(scanner):
        for number in range(limit + 100):  # events, of which no two in a row are alike
            os.close(os.open(files[number % 2], os.O_WRONLY))
        path = library.add("late/a.nsp")
        wait_for(lambda: path in ids(store))


@short_and_long(count=(300, 5000))
def test_a_folder_that_is_moved_in_and_out_keeps_its_ids(
    library: Library, scanner: catalogd.Scanner, tmp_path: pathlib.Path, count: int
) -> None:
    library.add("a.nsp")
    outside = Library(tmp_path / "outside")
    for number in range(count):
        outside.add(f"{number % 20}/{number}.nsp")
    inside = library.folder / "inside"
    with running(scanner):
        os.rename(outside.folder, inside)
        wait_for(lambda: len(ids(scanner.store)) == count + 1)
        before = ids(scanner.store)
        os.rename(inside, outside.folder)
        wait_for(lambda: len(ids(scanner.store)) == 1)
        os.rename(outside.folder, inside)
        wait_for(lambda: ids(scanner.store) == before)


def test_a_library_folder_that_is_away_waits_for_its_return(
    library: Library, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    often = dataclasses.replace(settings, scan_interval=0.3)
    scanner = catalogd.Scanner(store, often)
    library.add("a.nsp")
    away = library.folder.with_name("away")
    with running(scanner):
        before = ids(store)
        os.rename(library.folder, away)
        wait_for(lambda: not ids(store))
        assert [item.state for item in store.entries.files()] == ["offline"]
        os.rename(away, library.folder)
        wait_for(lambda: ids(store) == before and is_watching(scanner))


@contextlib.contextmanager
def mounted(source: pathlib.Path, at: pathlib.Path) -> Iterator[None]:
    """Show a folder at another place, as a disk that is plugged in."""
    command = ["mount", "--bind", str(source), str(at)]
    if subprocess.run(command, capture_output=True).returncode:
        skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.mark.root
def test_a_disk_that_is_pulled_and_put_back_keeps_its_ids(
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    tmp_path: pathlib.Path,
) -> None:
    disk = Library(tmp_path / "disk")
    for number in range(20):
        disk.add(f"{number % 3}/{number}.nsp")
    often = dataclasses.replace(settings, scan_interval=0.5)
    scanner = catalogd.Scanner(store, often)
    with mounted(disk.folder, library.folder):
        scanner.start()
        wait_for(lambda: len(ids(store)) == 20)
        before = ids(store)
    try:
        wait_for(lambda: not ids(store))
        with mounted(disk.folder, library.folder):
            wait_for(lambda: ids(store) == before)
            path = library.add("0/new.nsp")
            wait_for(lambda: path in ids(store))
    finally:
        scanner.stop()


@pytest.mark.root
@short_and_long(count=(200, 2000))
def test_a_clean_unplug_is_one_line(
    library: Library,
    scanner: catalogd.Scanner,
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    root = str(library.folder)
    with small_disk(library.folder, count * 4096 + 2**20):
        for number in range(count):
            library.add(f"{number}/{number}.nsp")
        caplog.set_level(logging.INFO)
        scanner.start()
        wait_for(lambda: caplog.messages)  # the first scan has ended
    try:
        wait_for(lambda: not ids(scanner.store))
        told = f"{root} is offline: it is empty. Its entries are kept."
        wait_for(lambda: told in caplog.messages)
        time.sleep(1)
        assert caplog.messages[1:] == [told]
        assert [*scanner.state.problems()] == [root]
    finally:
        scanner.stop()


@short_and_long(count=(1000, 20_000))
def test_many_folders_that_are_removed_at_once_are_gone_soon(
    library: Library,
    store: catalogd.Store,
    scanner: catalogd.Scanner,
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    for number in range(count):
        library.add(f"games/{number}/{number}.nsp")
    kept = library.add("a.nsp")
    with running(scanner):
        wait_for(lambda: len(ids(store)) == count + 1)
        shutil.rmtree(library.folder / "games")
        wait_for(lambda: ids(store).keys() == {kept})
        wait_for(
            lambda: {item.state for item in store.entries.files()} == {"here", "gone"},
        )
    assert not [row for row in caplog.records if row.levelno >= logging.WARNING]


@pytest.mark.root
@pytest.mark.parametrize("kinds", [None, set()], ids=["watched", "polled"])
def test_a_disk_that_is_mounted_after_the_start_is_found_at_once(
    kinds: set[str] | None,
    library: Library,
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kinds is not None:
        monkeypatch.setattr(catalogd, "LOCAL_FILE_SYSTEMS", kinds)
    disk = Library(tmp_path / "disk")
    disk.add("deep/a.nsp")
    with running(scanner, watched=kinds is None):
        with mounted(disk.folder, library.folder):
            wait_for(lambda: len(ids(scanner.store)) == 1)
        wait_for(lambda: not ids(scanner.store))
        wait_for(lambda: [*scanner.state.problems()] == [str(library.folder)])
        scans = counted(scanner)
        elsewhere = Library(tmp_path / "elsewhere")
        with mounted(disk.folder, elsewhere.folder):
            time.sleep(1)
        assert not scans.called


def test_the_table_of_mounts_tells_a_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mounts"
    path.write_text("a disk\n")
    monkeypatch.setattr(catalogd, "MOUNT_TABLE", str(path))
    table = catalogd.mount_table()
    assert table == catalogd.mount_table()
    path.write_text("a disk\nanother\n")
    assert table != catalogd.mount_table()


def test_a_system_without_proc_tells_of_no_mounts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "MOUNT_TABLE", "/no/file")
    assert not catalogd.mount_table() and not catalogd.mounts("/")


@pytest.mark.root
def test_another_disk_at_a_watched_path_is_noticed(
    library: Library, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    often = dataclasses.replace(settings, scan_interval=0.5)
    scanner = catalogd.Scanner(store, often)
    library.add("a.nsp")
    with running(scanner):
        before = ids(store)
        with small_disk(library.folder, 2**20):
            other = library.add("b.nsp")
            wait_for(lambda: ids(store).keys() == {other})
        wait_for(lambda: ids(store) == before)


# What cannot be watched


class FullSystem:
    """A C library of a system that allows no more folders to be watched."""

    files = 1

    def __init__(self, name: None, use_errno: bool = True) -> None:
        real: Any = REAL_LIBRARY(name)
        self.inotify_init1 = real.inotify_init1 if self.files else lambda flags: -1

    def inotify_add_watch(self, *row: object) -> int:
        ctypes.set_errno(errno.ENOSPC)
        return -1


class FullProcess(FullSystem):
    """It may not even begin to watch."""

    files = 0


REAL_LIBRARY = ctypes.CDLL


def mount(kind: str) -> catalogd.Mount:
    return catalogd.Mount("line", "/", kind, "source")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("platform", "win32", "this system is not Linux"),
        (
            "mounts",
            lambda folder: [],
            "/proc/self/mountinfo does not tell what is mounted there",
        ),
        ("mounts", lambda folder: [mount("nfs4")], "a file system there is nfs4"),
        ("ctypes", FullSystem, "it has more folders than fs.inotify.max_user_watches"),
        ("ctypes", FullProcess, "fs.inotify.max_user_instances is reached"),
    ],
)
def test_a_folder_that_cannot_be_watched_is_scanned_at_intervals(
    name: str,
    value: Any,
    reason: str,
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    if name == "ctypes":
        monkeypatch.setattr(ctypes, "CDLL", value)
        monkeypatch.setattr(catalogd, "spare_memory", lambda: None)
    else:
        monkeypatch.setattr(sys if name == "platform" else catalogd, name, value)
    often = dataclasses.replace(settings, scan_interval=0.2)
    scanner = catalogd.Scanner(store, often)
    with running(scanner, watched=False):
        path = library.add("a.nsp")
        wait_for(lambda: path in ids(store))
        library.add("deep/b.nsp")
        wait_for(lambda: len(ids(store)) == 2)
    text = f"{library.folder} is scanned at intervals, not watched: {reason}."
    assert [row for row in caplog.messages if "intervals" in row] == [text]


def test_a_disk_of_ntfs_3g_is_watched(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "mounts", lambda folder: [mount("fuseblk")])
    watcher = catalogd.Watcher(str(library.folder), ["nsp"])
    watcher.start()
    assert watcher.is_watching()
    watcher.stop()


def test_a_watched_folder_is_read_again_after_a_day(
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    often = dataclasses.replace(settings, scan_interval=0.2)
    scanner = catalogd.Scanner(store, often)
    with running(scanner):
        scans = counted(scanner)
        time.sleep(0.5)
        assert not scans.called  # the mounts are as they were
        monkeypatch.setattr(catalogd, "REREAD_SECONDS", 0)
        wait_for(lambda: scans.called)


def test_a_watched_folder_is_looked_at_no_more_often_than_scans_are_due(
    store: catalogd.Store, settings: catalogd.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, looks = time.monotonic(), list[float]()
    often = dataclasses.replace(settings, scan_interval=0.1)
    scanner = catalogd.Scanner(store, often)
    scanner.check_seconds = 3600  # so that nothing else ends the wait

    def changed(is_due: bool) -> list[str]:
        if is_due:
            looks.append(time.monotonic())
        return []

    monkeypatch.setattr(scanner.disks, "changed", changed)
    with running(scanner):
        wait_for(lambda: len(looks) >= 5)
    assert looks[4] >= began + 5 * 0.1


def test_all_is_read_again_after_a_scan_that_failed(
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Soon, however rare scans are; until then nothing is called watched."""
    scanner = catalogd.Scanner(store, settings)
    scanner.retry_seconds = 0.5
    fail = Mock(side_effect=catalogd.StorageFull("The disk is full."))
    began = store.database.time()
    with running(scanner):
        with monkeypatch.context() as patch:
            patch.setattr(store.entries, "add_files", fail)
            path = library.add("a.nsp")
            wait_for(lambda: fail.called and not is_watching(scanner))
            wait_for(lambda: (scanner.state.next or "") >= began)
        wait_for(lambda: path in ids(store) and is_watching(scanner))


def test_a_folder_that_failed_once_is_read_again_soon_and_no_other(
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, folder, real = Library(tmp_path / "other"), str(library.folder), os.scandir
    other.add("c.nsp")
    both = dataclasses.replace(settings, folders=(folder, str(other.folder)))
    monkeypatch.setattr(catalogd.Scanner, "retry_seconds", 0.5)
    scanner = catalogd.Scanner(store, both)

    def fail(path: Any) -> Any:
        if path == folder:
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path)

    with running(scanner):
        scans, due = counted(scanner), scanner._scan_due
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", fail)
            path = library.add("a.nsp")
            wait_for(lambda: scanner.state.problems() and scanner.state.next)
        wait_for(lambda: path in ids(store))
        wait_for(lambda: all(row["watched"] for row in scanner.state.folders.values()))
        assert {*map(str, scans.call_args_list)} == {f"call(tops={[folder]})"}
        assert scanner._scan_due == due, "the others have their turn"


def test_a_scanner_that_cannot_begin_tries_again(
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scanner = catalogd.Scanner(store, dataclasses.replace(settings, scan_interval=1))

    refuse = Mock(side_effect=catalogd.Conflict("Another process scans."))
    library.add("a.nsp")
    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "exclusive", refuse)
        scanner.start()
        wait_for(lambda: caplog.messages)
    wait_for(lambda: ids(store) and is_watching(scanner))
    scanner.stop()


def test_unfinished_downloads_cause_no_scan(
    library: Library, store: catalogd.Store, scanner: catalogd.Scanner
) -> None:
    with running(scanner):
        scans = counted(scanner)
        part = library.add("a.nsp.part", mtime=LONG_AGO)
        time.sleep(0.8)
        assert not scans.called
        os.rename(part, library.folder / "a.nsp")
        wait_for(lambda: ids(store))


@pytest.mark.root
def test_mount_points_may_have_any_name(
    library: Library, tmp_path: pathlib.Path
) -> None:
    place = library.folder / "with space \\ and\ttab"
    place.mkdir()
    (tmp_path / "disk").mkdir()
    before = catalogd.mounts(str(library.folder))
    if not before:
        pytest.skip("the root is no mount point, but a folder for chroot")
    assert len(before) == 1
    with mounted(tmp_path / "disk", place):
        assert len(catalogd.mounts(str(library.folder))) == 2
        assert len(catalogd.mounts(str(place))) == 1
    assert catalogd.mounts(str(library.folder)) == before


# Downloads


@pytest.mark.parametrize("name", ["b.nsp", "b.txt"])
def test_a_file_that_was_renamed_just_now_can_be_downloaded(
    games: Games, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the scan that follows."""
    address = games.add("a.nsp", b"content")
    games.scanner.state.folders[str(games.library.folder)]["watched"] = True
    os.rename(games.library.folder / "a.nsp", games.library.folder / name)
    monkeypatch.setattr(time, "sleep", lambda seconds: games.scanner.scan())
    answer = games.ask(address)
    assert answer.status == (404 if name == "b.txt" else 200)
    assert answer.body == b"content" or answer.status == 404


# A disk that sleeps


@contextlib.contextmanager
def loop_disk(folder: pathlib.Path, image: pathlib.Path, size: int) -> Iterator[str]:
    """Mount a disk of so many bytes. Give the name of its device."""
    for tool in ("losetup", "mkfs.ext4"):
        need(tool, "mount, e2fsprogs")
    with open(image, "wb") as file:
        file.truncate(size)
    command = ["losetup", "--find", "--show", str(image)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        skip("needs a loop device")
    device = made.stdout.strip()
    now = "lazy_itable_init=0,lazy_journal_init=0"
    try:
        subprocess.run(["mkfs.ext4", "-q", "-E", now, "-i", "4096", device], check=True)
        subprocess.run(["mount", device, str(folder)], check=True)
        try:
            yield os.path.basename(device)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def sectors_read(device: str) -> int:
    return int(pathlib.Path(f"/sys/block/{device}/stat").read_text().split()[2])


def bytes_written() -> int:
    """The bytes that this process has written to disks."""
    rows = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(dict(row.split(": ") for row in rows)["write_bytes"])


@pytest.mark.root
@pytest.mark.slow
@short_and_long(count=(500, 100_000), rounds=(20, 3000))
def test_a_disk_sleeps_while_clients_and_a_page_poll(
    count: int,
    rounds: int,
    library: Library,
    store: catalogd.Store,
    settings: catalogd.Settings,
    key: str,
    tmp_path: pathlib.Path,
) -> None:
    size = 64 * 2**20 + count * 16384
    with loop_disk(library.folder, tmp_path / "disk.img", size) as device:
        for number in range(count):
            library.add(f"{number % 40}/{number // 20}/{number}.nsp")
        often = dataclasses.replace(settings, scan_interval=1)
        scanner = catalogd.Scanner(store, often)
        web = catalogd.Web(store, often, scanner)
        caller, page = (
            webtest.TestApp(web.app, extra_environ={"REMOTE_ADDR": "192.168.1.9"})
            for _ in range(2)
        )
        caller.authorization = ("Bearer", key)
        login = {"username": "anna", "password": PASSWORD}
        page.post_json("/web/login", login)

        def poll() -> None:
            for path in ("/api/list", "/api/send-queue"):
                caller.get(path)
            for path in ("/", "/web/me", "/web/entries", "/web/changes", "/web/scan"):
                page.get(path)

        with running(scanner):
            wait_for(lambda: bool(scanner.state.finished))
            wait_until_quiet(bytes_written)
            os.sync()
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
            read = sectors_read(device)
            poll()  # the first reader after a write notes it in the -shm file
            written = bytes_written()
            for _ in range(rounds):
                poll()
                time.sleep(0.2)
            assert sectors_read(device) == read
            assert bytes_written() == written
            path = library.add("0/late.nsp")  # it is watched still
            wait_for(lambda: path in ids(store))


def test_two_threads_that_stop_a_watcher_at_once_close_its_file_once(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the scanner's and the disk's do at the end of the service."""
    watcher = catalogd.Watcher(str(library.folder), ["nsp"])
    watcher.start()
    close, closed = os.close, list[int]()

    def close_late(number: int) -> None:
        closed.append(number)
        watcher.stop()
        close(number)

    monkeypatch.setattr(os, "close", close_late)
    watcher.stop()
    assert len(closed) == 1


# A library is shuffled for many rounds: files are renamed, moved, swapped, rewritten,
# deleted and brought back, whole folders are renamed, and one of the two library
# folders is unplugged and replugged. Every id stays with its file.


MAKERS = {
    "nsp": lambda number: containers.nsp(f"0100{number:08X}0000", b"%08d" % number),
    "xci": lambda number: containers.xci(1) + b"%08d" % number,
    "nro": lambda number: containers.nro(
        containers.nacp(f"Homebrew {number}"), icon=b"", program=0x80
    ),
}


class Shuffled:
    """The folders, and which file is where."""

    def __init__(self, top: str, count: int, swaps: bool = True) -> None:
        """:param swaps: whether files change places. Where a scan reads the folder of
        one of them alone, before the event of the other is there, each entry stays
        with its path: that is what a file that was rewritten looks like."""
        self.swaps = swaps
        self.chance = random.Random(1)
        self.top = top
        self.roots = [os.path.join(top, name) for name in ("one", "two")]
        self.trash = os.path.join(top, "trash")
        os.mkdir(self.trash)
        self.number = 0
        self.at: dict[str, int] = {}  # the number of the file at each path
        self.trashed: list[tuple[str, int]] = []
        for _ in range(count):
            self.create()

    def create(self) -> None:
        self.number += 1
        path = self.new_path()
        with open(path, "wb") as file:
            file.write(MAKERS[path[-3:]](self.number))
        # Few different times and sizes, so that they tell little.
        os.utime(path, (1_600_000_000, 1_600_000_000 + self.number % 3))
        self.at[path] = self.number

    def new_path(self) -> str:
        root, folder = self.chance.choice(self.roots), self.chance.randrange(200)
        where = os.path.join(root, f"{folder:03}")
        os.makedirs(where, exist_ok=True)
        while True:
            name = f"{self.chance.randrange(10**9)}.{self.chance.choice([*MAKERS])}"
            path = os.path.join(where, name)
            if path not in self.at:
                return path

    def some(self, part: float) -> list[str]:
        paths = sorted(self.at)
        return self.chance.sample(paths, max(2, int(len(paths) * part)))

    def move(self, old: str, new: str) -> None:
        new = new[:-3] + old[-3:]
        os.rename(old, new)
        self.at[new] = self.at.pop(old)

    def shuffle(self) -> None:
        for path in self.some(0.05):
            self.move(path, self.new_path())
        for path in self.some(0.01):
            hidden = os.path.join(self.trash, str(self.at[path]))
            os.rename(path, hidden)
            self.trashed.append((hidden, self.at.pop(path)))
        for _ in range(len(self.trashed) // 2):
            index = self.chance.randrange(len(self.trashed))
            hidden, number = self.trashed.pop(index)
            path = self.new_path()
            os.rename(hidden, path)
            self.at[path] = number
        pairs = self.some(0.02) if self.swaps else []
        for one, two in zip(pairs[::2], pairs[1::2], strict=False):
            self.swap(one, two)
        for _ in range(len(self.at) // 200):
            self.create()
        self.rename_folder()

    def swap(self, one: str, two: str) -> None:
        between = os.path.join(self.trash, "between")
        os.rename(one, between)
        os.rename(two, one)
        os.rename(between, two)
        self.at[one], self.at[two] = self.at[two], self.at[one]

    def rename_folder(self) -> None:
        old = os.path.dirname(self.chance.choice(sorted(self.at)))
        new = f"{old}-{self.chance.randrange(10**6)}"
        os.rename(old, new)
        for path in [path for path in self.at if path.startswith(old + os.sep)]:
            self.at[new + path[len(old) :]] = self.at.pop(path)

    @contextlib.contextmanager
    def unplugged(self) -> Iterator[None]:
        """One folder is away, and may be an empty mount point meanwhile."""
        root, away = self.roots[1], os.path.join(self.top, "away")
        os.rename(root, away)
        empty = self.chance.random() < 0.5
        if empty:
            os.mkdir(root)
        yield
        if empty:
            os.rmdir(root)
        os.rename(away, root)


def check(library: Shuffled, store: catalogd.Store, owner: dict[int, str]) -> None:
    found = ids(store)
    assert found.keys() == library.at.keys()
    for path, number in library.at.items():
        assert owner.setdefault(number, found[path]) == found[path], path


def check_plugged(library: Shuffled, store: catalogd.Store) -> None:
    one = library.roots[0]
    assert all(path.startswith(one) for path in ids(store))


def eventually(check: Callable[..., None], *row: Any) -> None:
    """Call a check until it holds."""
    end = time.monotonic() + 120
    while True:
        try:
            return check(*row)
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


@short_and_long(count=(150, 100_000), rounds=(4, 10))
def test_every_id_stays_with_its_file_in_folders_that_are_watched(
    store: catalogd.Store, tmp_path: pathlib.Path, count: int, rounds: int
) -> None:
    library = Shuffled(str(tmp_path), count, swaps=False)
    folders = tuple(library.roots)
    settings = catalogd.Settings(folders=folders, settle=0, scan_interval=1)
    scanner = catalogd.Scanner(store, settings)
    scanner.start()
    owner: dict[int, str] = {}
    try:
        for number in range(rounds):
            eventually(check, library, store, dict(owner))
            check(library, store, owner)
            with library.unplugged():
                eventually(check_plugged, library, store)
            if number % 2:  # else it is replugged and shuffled at once
                eventually(check, library, store, owner)
            library.shuffle()
        eventually(check, library, store, owner)
    finally:
        scanner.stop()


@short_and_long(count=(300, 100_000), rounds=(4, 10))
def test_every_id_stays_with_its_file(
    store: catalogd.Store, tmp_path: pathlib.Path, count: int, rounds: int
) -> None:
    library = Shuffled(str(tmp_path), count)
    scanner = catalogd.Scanner(
        store, catalogd.Settings(folders=tuple(library.roots), settle=0)
    )
    owner: dict[int, str] = {}
    for number in range(rounds):
        scanner.scan()
        check(library, store, owner)
        with library.unplugged():
            scanner.scan()
            check_plugged(library, store)
        if number % 2:  # else it is replugged and shuffled between two scans
            scanner.scan()
            check(library, store, owner)
        library.shuffle()
    scanner.scan()
    check(library, store, owner)
