"""Disks as homes have them: which of them was plugged in, by what their systems tell.

The disks are images on loop devices, in slots that stand for the order in which disks
are plugged in: a slot gives the device number.
"""

import contextlib
import dataclasses
import errno
import fcntl
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

import catalogd
from conftest import LONG_AGO, PASSWORD, Library, need, short_and_long, skip, wait_for
from example import by_age
from ftpsrv import Ftpsrv
from test_kills import PATIENCE, ROOT, SERVER, Serving
from test_notices import Receiver, receiving

ADD_LOOP, REMOVE_LOOP = 0x4C80, 0x4C81  # see loop(4)
TOOLS = {  # packages by tool
    "losetup": "mount",
    **dict.fromkeys(("mkfs.ext2", "mkfs.ext3", "mkfs.ext4"), "e2fsprogs"),
    "mkfs.xfs": "xfsprogs",
    "mkfs.exfat": "exfatprogs or exfat-utils",
    "mount.exfat-fuse": "exfat-fuse",
    "mkfs.ntfs": "ntfs-3g",
    "ntfs-3g": "ntfs-3g",
    "mkfs.vfat": "dosfstools",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.f2fs": "f2fs-tools",
}


class FileSystem(NamedTuple):
    """How to make and mount one."""

    make: list[str]
    mount: list[str]
    megabytes: int


FILE_SYSTEMS = {
    "ext2": FileSystem(["mkfs.ext2", "-q"], ["mount"], 8),
    "ext3": FileSystem(["mkfs.ext3", "-q"], ["mount"], 8),
    "ext4": FileSystem(["mkfs.ext4", "-q"], ["mount"], 8),
    "xfs": FileSystem(["mkfs.xfs", "-q"], ["mount", "-o", "nouuid"], 320),
    "btrfs": FileSystem(["mkfs.btrfs", "-q"], ["mount"], 120),
    "f2fs": FileSystem(["mkfs.f2fs", "-q"], ["mount"], 64),
    "vfat": FileSystem(["mkfs.vfat"], ["mount"], 8),
    "exfat": FileSystem(["mkfs.exfat"], ["mount.exfat-fuse"], 8),
    "ntfs": FileSystem(["mkfs.ntfs", "-Q", "-F", "-q"], ["ntfs-3g"], 8),
}


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, (command, done.stderr)
    return done.stdout


LACKS = {  # what `mount` says of a kernel
    "unknown filesystem type": "has the file system",
    "File exists": "mounts a clone beside its original",
}


class Machine:
    """Two slots for disks, whose mount points are in one library folder."""

    def __init__(
        self,
        kind: str,
        library: pathlib.Path,
        records: pathlib.Path,
        megabytes: int = 0,
    ) -> None:
        """:param records: the folder with udev's records, if the machine has it.
        :param megabytes: of each disk, if not the fewest."""
        self.system, self.library, self.records = FILE_SYSTEMS[kind], library, records
        self.megabytes = megabytes or self.system.megabytes
        self.stack = contextlib.ExitStack()
        while True:
            first = random.randrange(300, 60_000, 2)
            self.slots = [f"/dev/loop{number}" for number in (first, first + 1)]
            # Another test has these, or one that was killed.
            with contextlib.suppress(FileExistsError):
                self.control(ADD_LOOP)
                break

    def control(self, command: int) -> None:
        with open("/dev/loop-control") as control:
            for slot in self.slots:
                fcntl.ioctl(control, command, int(slot.removeprefix("/dev/loop")))

    def create(self, image: pathlib.Path) -> None:
        with open(image, "wb") as file:
            file.truncate(self.megabytes * 2**20)
        run(*self.system.make, str(image))

    def make(self, image: pathlib.Path, *games: str) -> pathlib.Path:
        """Make a disk with games."""
        self.create(image)
        self.boot({image.stem: image})
        with contextlib.chdir(self.library / image.stem):
            for game in games:
                pathlib.Path(game).write_bytes(f"{game} of {image.name}".encode())
                os.utime(game, (LONG_AGO, LONG_AGO + 60 * ord(image.name)))
        return image

    def boot(self, disks: Mapping[str, pathlib.Path]) -> None:
        """Start with these disks by mount point, in the order of plugging them in."""
        self.stack.close()
        for slot, (place, disk) in zip(self.slots, disks.items(), strict=False):
            self.slot_in(slot, disk)
            point = self.library / place
            point.mkdir(exist_ok=True)
            self.mount(slot, str(point))
            self.stack.callback(run, "umount", str(point))

    def mount(self, slot: str, point: str) -> None:
        command = [*self.system.mount, slot, point]
        done = subprocess.run(command, capture_output=True, text=True)
        for words, reason in LACKS.items():
            if words in done.stderr:
                pytest.skip(f"needs a kernel that {reason}: {self.system.make[0]}")
        assert not done.returncode, (command, done.stderr)

    def slot_in(self, slot: str, disk: pathlib.Path) -> None:
        run("losetup", slot, str(disk))
        self.stack.callback(self._pull, slot)
        if self.records.is_dir():
            number = os.stat(slot).st_rdev
            record = self.records / f"b{os.major(number)}:{os.minor(number)}"
            rows = [
                "S:disk/by-id/usb",
                "E:ID_FS_UUID_ENC=x",
                f"E:ID_FS_UUID={disk.name}",
            ]
            record.write_text("\n".join([*rows, "E:ID_FS_TYPE=x", ""]))

    def _pull(self, slot: str) -> None:
        """FUSE's programs end some time after `umount`."""
        run("losetup", "--detach", slot)
        bound = pathlib.Path(f"/sys/block/{os.path.basename(slot)}/loop")
        wait_for(lambda: not bound.exists())


@pytest.fixture(params=["with udev", "without udev"])
def records(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> pathlib.Path:
    """The folder with udev's records, which is missing in containers."""
    records = tmp_path / "udev"
    monkeypatch.setattr(catalogd, "UDEV_RECORDS", str(records))
    if request.param == "with udev":
        records.mkdir()
    return records


def have_loop_devices(kind: str) -> None:
    """Skip a test of a file system of this kind where it cannot be made."""
    system = FILE_SYSTEMS[kind]
    for tool in ("losetup", system.make[0], system.mount[0]):
        need(tool, TOOLS.get(tool, "mount"))
    if not os.path.exists("/dev/loop-control"):
        skip("needs loop devices")


@pytest.fixture(params=FILE_SYSTEMS)
def machine(
    request: pytest.FixtureRequest, library: Library, records: pathlib.Path
) -> Iterator[Machine]:
    have_loop_devices(request.param)
    machine = Machine(request.param, library.folder, records)
    try:
        with machine.stack:
            yield machine
    finally:
        machine.control(REMOVE_LOOP)


@pytest.mark.root
def test_a_disk_is_known_wherever_it_is_plugged_in(
    machine: Machine, scanner: catalogd.Scanner, tmp_path: pathlib.Path
) -> None:
    a = machine.make(tmp_path / "a", "one.nsp", "two.nsp")
    b = machine.make(tmp_path / "b", "one.nsp", "three.nsp")
    machine.megabytes += 8  # where it has no id, its size tells it from the others
    c = machine.make(tmp_path / "c", "one.nsp", "four.nsp")

    def scan(**disks: pathlib.Path) -> dict[str, tuple[str, str]]:
        """Return folder and state of each entry."""
        machine.boot(disks)
        scanner.scan()
        return {
            item.id: (item.file.path.split("/")[-2], item.state)
            for item in scanner.store.entries.files()
        }

    both = scan(a=a, b=b)
    assert sorted(both.values()) == [("a", "here")] * 2 + [("b", "here")] * 2
    assert scan(b=b, a=a) == both
    only_b = {
        id: ("b", "here") if row[0] == "b" else ("a", "offline")
        for id, row in both.items()
    }
    assert scan(b=b) == only_b
    other = scan(a=c, b=b)
    others = {id: other[id] for id in other.keys() - both.keys()}
    assert other == {**only_b, **others}
    assert [*others.values()] == [("a", "here")] * 2
    waiting = dict.fromkeys(others, ("a", "offline"))
    assert scan(a=a, b=b) == {**both, **waiting}
    assert scan(b=b, a=c) == {**only_b, **others}


@pytest.mark.root
def test_clones_in_any_order_lose_nothing_that_somebody_edited(
    machine: Machine, scanner: catalogd.Scanner, tmp_path: pathlib.Path
) -> None:
    """Disks of one size and one id, each pulled and plugged in, over restarts."""
    a = machine.make(tmp_path / "a", "one.nsp", "two.nsp")
    clone = tmp_path / "clone" / a.name  # udev tells the id by the image's name
    clone.parent.mkdir()
    machine.boot({})
    shutil.copyfile(a, clone)
    visitor = machine.make(tmp_path / "v", "one.nsp", "three.nsp")
    machine.boot({"a": a})
    scanner.scan()
    edited = {row.id for row in scanner.store.entries.files()}
    for entry in edited:
        scanner.store.entries.edit(entry, {"name": entry})
    slots: list[dict[str, pathlib.Path]] = []
    orders = [*itertools.permutations((a, clone))]
    for plugged, pulled in itertools.product(orders, repeat=2):
        one, two = plugged
        left = {"b": two} if one == pulled[0] else {"a": one}
        slots += [{"a": one}, {"a": one, "b": two}, left, {}]
    slots += [{"a": visitor}, {"a": visitor, "b": clone}, {"b": a, "a": visitor}]
    for disks in slots:
        machine.boot(disks)
        catalogd.Scanner(scanner.store, scanner.settings).scan()
        here = {row.id for row in scanner.store.entries.files() if row.state == "here"}
        is_there = {a, clone} & {*disks.values()}
        assert edited & here == (edited if is_there else set())
        assert len(here) == 2 * len(disks)


# A disk that dies, and is still mounted


class Broken(catalogd.Content):
    """A file of a disk that died after its folders were read."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, "Input/output error", self.name)


@contextlib.contextmanager
def broken(*names: str) -> Iterator[None]:
    """Have the reads of files with these names fail, and no call of `sendfile`."""
    real = catalogd.open_file

    def open_file(path: str, folder: str, *kinds: Any) -> Any:
        is_broken = os.path.basename(path) in names
        return Broken(path) if is_broken else real(path, folder, *kinds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogd, "open_file", open_file)
        patch.delattr(os, "sendfile", raising=False)
        yield


def look(scanner: catalogd.Scanner, is_due: bool = False) -> dict[str, str]:
    """Scan what the scanner would now, and return the states of files by names."""
    if tops := scanner.disks.changed(is_due):
        scanner.scan(tops=tops)
    return {
        os.path.basename(item.file.path): item.state for item in scanner.entries.files()
    }


def download(scanner: catalogd.Scanner, path: str) -> None:
    folder = os.path.dirname(path)
    known = catalogd.ServedFile("id", path, folder, 0, 0, None)
    one, two = socket.socketpair()
    with one, two, catalogd.open_content(known, scanner.disks.uses) as file:
        file.send(one, 1, timeout=10)


@pytest.fixture
def games(library: Library, scanner: catalogd.Scanner) -> list[str]:
    """Paths of three files that were scanned."""
    paths = [library.add(f"{name}.nsp") for name in "abc"]
    scanner.scan()
    scanner.disks.changed(True)
    for watcher in scanner.disks.watchers.values():
        watcher.changed = lambda is_due: set()  # as of one that is watched
    return paths


def test_a_read_that_fails_makes_the_scanner_look_at_the_disk(
    games: list[str], scanner: catalogd.Scanner, library: Library
) -> None:
    folder = str(library.folder)
    download(scanner, games[0])
    assert not scanner.disks.changed(False)
    with broken("a.nsp", "b.nsp", "c.nsp"):
        assert not scanner.disks.changed(True), "nobody has read"
        with pytest.raises(OSError, match="Input/output"):
            download(scanner, games[0])
        assert {*look(scanner).values()} == {"offline"}
        why = f"{folder} is offline: Input/output error. Its entries are kept."
        assert scanner.state.problems() == {folder: why}
        assert {*look(scanner, is_due=True).values()} == {"offline"}
    assert {*look(scanner, is_due=True).values()} == {"here"}
    assert not scanner.state.problems()
    assert not scanner.disks.changed(True)


def test_one_file_that_cannot_be_read_is_not_a_disk_that_died(
    games: list[str], scanner: catalogd.Scanner
) -> None:
    with broken("a.nsp"):
        with pytest.raises(OSError, match="Input/output"):
            download(scanner, games[0])
        assert look(scanner) == {"a.nsp": "offline", "b.nsp": "here", "c.nsp": "here"}
        assert not scanner.state.problems()
        assert [disk["path"] for disk in scanner.state.disks] == [games[0]]


def test_a_disk_that_died_below_a_library_folder_is_left_out(
    games: list[str], scanner: catalogd.Scanner, library: Library
) -> None:
    folder = str(library.folder)
    volumes = {folder: "uuid:top", games[0]: "uuid:disk"}
    files = [
        catalogd.FoundFile(path, folder, 1, 1, 1, volumes.get(path, "uuid:top"))
        for path in games
    ]
    tree = catalogd.Tree(folder, [folder], files, volumes)
    scanner.disks._failed[games[0]] = folder
    with broken("a.nsp"):
        scanner.disks._leave_out_failed(tree)
    assert [file.path for file in tree.files] == games[1:]
    assert tree.volumes == {folder: "uuid:top"}


def test_a_read_that_does_not_end_makes_the_scanner_look_at_the_disk(
    games: list[str],
    scanner: catalogd.Scanner,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = str(library.folder)
    with scanner.disks.uses.record(games[0], folder):
        assert not scanner.disks.changed(False)
        monkeypatch.setattr(catalogd, "MAX_USE_SECONDS", -1)
        monkeypatch.delattr(os, "posix_fadvise", raising=False)  # as on other systems
        assert not scanner.disks.changed(False), "the client is slow, not the disk"
        goes_on = threading.Event()
        monkeypatch.setattr(catalogd, "is_failing", lambda *file: not goes_on.wait(60))
        monkeypatch.setattr(catalogd.Asker, "max_silence", 0.2)
        wait_for(lambda: {*look(scanner).values()} == {"offline"})
        assert scanner.state.problems()[folder].startswith(f"{folder} does not answer.")
    goes_on.set()
    monkeypatch.setattr(catalogd.Asker, "max_silence", 60)
    wait_for(lambda: {*look(scanner).values()} == {"here"})


def test_a_client_that_takes_nothing_does_not_make_the_scanner_read(
    games: list[str], scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_USE_SECONDS", -1)
    uses, folder = scanner.disks.uses, os.path.dirname(games[0])
    one, two = socket.socketpair()
    with one, two, uses.record(games[0], folder, one):
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while one.send(bytes(65536)):
                pass
        assert not [*uses.suspects()]
        while catalogd.has_room(one) is False:
            two.recv(65536)
        assert [*uses.suspects()] == [(games[0], folder)], "it waits for the disk"
        one.close()
        assert not [*uses.suspects()]


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
def test_a_file_that_cannot_be_opened_makes_the_scanner_look_if_the_disk_fails(
    error: int,
    games: list[str],
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_file = Mock(side_effect=OSError(error, os.strerror(error)))
    monkeypatch.setattr(catalogd, "open_file", open_file)
    is_missing = error == errno.EACCES
    kind = catalogd.NotFound if is_missing else catalogd.StorageFailed  # for now
    with pytest.raises(kind):
        download(scanner, games[0])
    assert bool(scanner.disks.changed(False)) == (error == errno.EIO)


def test_an_upload_that_fails_makes_the_scanner_look_at_the_disk(
    library: Library, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    """At a file that is known there: what is in memory of a folder tells nothing."""
    folder = str(library.folder)
    scanner = catalogd.Scanner(store, dataclasses.replace(settings, inbox=folder))
    library.add("a.nsp")
    scanner.scan()
    scanner.disks.changed(True)
    for broken_file, state in {"b.nsp": "here", "a.nsp": "offline"}.items():
        with broken(broken_file):
            with pytest.raises(catalogd.StorageFailed), scanner.disks.inbox._open():
                raise OSError(errno.EIO, "Input/output error")
            assert {*look(scanner).values()} == {state}


def test_a_disk_that_is_mounted_again_at_once_is_read(
    games: list[str], scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of mounts has the same line for it then."""
    [folder] = scanner.folders
    watcher = scanner.disks.watchers[folder]
    monkeypatch.setattr(catalogd, "mount_table", object)  # another one each time
    watcher.start()
    try:
        assert not scanner.disks.changed(False), "another disk was mounted"
        with broken("a.nsp", "b.nsp", "c.nsp"):
            with pytest.raises(OSError, match="Input/output"):
                download(scanner, games[0])
            assert {*look(scanner).values()} == {"offline"}
        assert scanner.disks.changed(False) == [folder]
        assert {*look(scanner).values()} == {"here"}
    finally:
        watcher.stop()


def test_an_item_whose_disk_died_while_it_was_sent_waits(
    games: list[str], scanner: catalogd.Scanner, store: catalogd.Store, key: str
) -> None:
    account = store.accounts.id_of("anna")
    (entry,) = (row.id for row in store.entries.files() if row.file.path == games[0])
    store.queue.send(account, entry)
    (item,) = store.clients.pending(account)
    store.clients.report(account, item["id"], {"status": "processing", "key": None})
    failed = {"status": "failed", "error_message": "404", "key": None}
    with broken("a.nsp"):
        with pytest.raises(OSError, match="Input/output"):
            download(scanner, games[0])
        look(scanner)
        (waiting,) = store.queue.items(account)
        assert (waiting["status"], waiting["state"]) == ("pending", "offline")
        assert store.clients.report(account, item["id"], failed) == "pending"
        assert store.clients.pending(account) == []
    look(scanner, is_due=True)
    (again,) = store.clients.pending(account)
    assert again["id"] == item["id"]


# A real service, a disk that dies while the service reads and writes there, and what is
# told of it: nobody unmounts the disk, and no scan is due.


MEGABYTE = 1_000_000
BIG = os.urandom(MEGABYTE) * 32  # more than what a system reads ahead
HASTY = """
import catalogd
catalogd.Asker.max_silence = {silence}
catalogd.NOTICE_CHECK_SECONDS = catalogd.CONSOLE_CHECK_SECONDS = 0.2
"""


class Disk:
    """A disk with an NTFS, whose driver is a process."""

    def __init__(self, machine: Machine, image: pathlib.Path) -> None:
        self.machine, self.image = machine, image
        self.folder = machine.library / "disk"
        self.folder.mkdir()
        machine.create(image)
        self.plug_in()

    def plug_in(self) -> None:
        [slot, _] = self.machine.slots
        self.machine.slot_in(slot, self.image)
        command = ["ntfs-3g", "-o", "no_detach", slot, str(self.folder)]
        self.driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(self.folder.is_mount)

    def unplug(self) -> None:
        self.driver.kill()
        self.driver.wait(PATIENCE)
        run("umount", "--lazy", str(self.folder))
        self.machine.stack.close()

    def die(self, how: str) -> None:
        signals = {"does not answer": signal.SIGSTOP, "fails": signal.SIGKILL}
        self.driver.send_signal(signals[how])

    def come_back(self, how: str) -> None:
        if how == "does not answer":
            self.driver.send_signal(signal.SIGCONT)
        else:
            self.unplug()
            self.plug_in()


class Served(NamedTuple):
    """A service with two library folders, one of which is a disk."""

    serving: Serving
    disk: Disk
    key: str
    settings: pathlib.Path

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any], str]:
        """Return status, answer and cookie."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.serving.url + path
        request = urllib.request.Request(url, data, names, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
                return answer.status, json.load(answer), cookie
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error), ""

    def status(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.call("GET", "/api/status", **headers)[1]

    def faults(self) -> list[str]:
        """Return the library folders that a fault is told of."""
        faults = self.status()["faults"]
        folders = [fault for fault in faults if fault["about"] == "folders"]
        return [fault["arguments"]["folder"] for fault in folders]

    def check(self) -> str:
        """Return what the command tells."""
        words = ["check", "--config", str(self.settings)]
        words += ["--data-dir", self.serving.store.database.folder]
        command = [sys.executable, "catalogd.py", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    def queue(self, name: str, device: str) -> str:
        """Queue a file for a device, and return the id of the entry."""
        entries = by_age(self.serving.store)
        ids = {row["name"]: str(row["id"]) for row in entries}
        self.serving.store.queue.send(self.serving.account, ids[name], device)
        return ids[name]

    @contextlib.contextmanager
    def download(self, entry: str) -> Iterator[Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.serving.url}/api/download/{entry}"
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            yield answer


@pytest.fixture
def serve_there(
    store: catalogd.Store, library: Library, key: str, tmp_path: pathlib.Path
) -> Iterator[Callable[[float], Served]]:
    """Starts the service; takes the seconds after which a disk does not answer."""
    have_loop_devices("ntfs")
    library.add("well.nsp")
    with contextlib.ExitStack() as stack:
        disks, settings = tmp_path / "disks", tmp_path / "catalogd.ini"
        disks.mkdir()
        machine = Machine("ntfs", disks, tmp_path / "udev", megabytes=80)
        stack.callback(machine.control, REMOVE_LOOP)
        disk = Disk(machine, tmp_path / "image")
        stack.callback(lambda: disk.unplug())
        for name in ("sent.nsp", "downloaded.nsp"):
            (disk.folder / name).write_bytes(BIG)
            os.utime(disk.folder / name, (LONG_AGO, LONG_AGO))
        disk.unplug()
        disk.plug_in()  # with nothing of it in memory
        rows = [f"folders = {disk.folder}", f"inbox = {disk.folder}"]
        rows += ["scan_interval = 3600", "keep_free = 0", "[queue]", "notify = "]
        settings.write_text("\n".join(["[library]", *rows]))
        settings.write_text(settings.read_text() + stack.enter_context(receiving()))

        def start(silence: float) -> Served:
            serving = Serving(store, library)
            serving.code = HASTY.format(silence=silence) + SERVER
            serving.start("--config", str(settings))
            stack.callback(serving.kill)
            served = Served(serving, disk, key, settings)
            wait_for(lambda: len(by_age(store)) == 3)
            return served

        yield start


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "does not answer"])
@short_and_long(silence=(2.0, catalogd.Asker.max_silence))
def test_a_disk_that_dies_while_it_is_read_is_told_and_its_item_waits(
    serve_there: Callable[[float], Served],
    tmp_path: pathlib.Path,
    how: str,
    silence: float,
) -> None:
    served = serve_there(silence)
    folder = str(served.disk.folder)
    # A scan tells that after it has listed the files.
    wait_for(lambda: all(row["watched"] for row in served.status()["folders"]))
    (tmp_path / "console").mkdir()
    with contextlib.closing(Ftpsrv(tmp_path / "console")) as console:
        goes_on = threading.Event()
        console.hold = lambda size: size < MEGABYTE or goes_on.wait(PATIENCE)
        entry = served.queue("sent", served.serving.device("Attic", console.url))
        part, sent = (console.folder / name for name in ("sent.nsp.part", "sent.nsp"))
        wait_for(lambda: part.exists() and part.stat().st_size >= MEGABYTE)
        with served.download(entry) as download:
            download.read(MEGABYTE)
            served.disk.die(how)
            goes_on.set()
            wait_for(lambda: served.faults() == [folder])
        folders = served.status()["folders"]
        assert [row["state"] for row in folders] == ["offline", "online"]
        wait_for(lambda: served.status()["queue"]["pending"] == 1)
        told = f"{folder} {'is offline' if how == 'fails' else how}"
        assert told in served.check()
        wait_for(lambda: any(told in text for *_, text in Receiver.calls))
        served.disk.come_back(how)
        wait_for(lambda: sent.exists() and sent.read_bytes() == BIG)
        wait_for(lambda: served.status()["queue"]["completed"] == 1)
        wait_for(lambda: not served.faults())


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "does not answer"])
def test_a_disk_that_dies_while_it_is_written_is_told_and_the_upload_goes_on(
    serve_there: Callable[[float], Served], how: str
) -> None:
    served = serve_there(2.0)
    folder = str(served.disk.folder)
    body = {"username": "anna", "password": PASSWORD}
    json_type = {"Content_Type": "application/json"}
    *_, cookie = served.call("POST", "/web/login", body, **json_type)
    headers = {"Cookie": cookie, **json_type}
    file = {"name": "new.nsp", "size": 2 * MEGABYTE}
    upload = served.call("POST", "/web/uploads", file, **headers)[1]["id"]

    def piece(offset: int) -> tuple[int, dict[str, Any], str]:
        kind = "application/octet-stream"
        given = {"Cookie": cookie, "Content_Type": kind, "Upload_Offset": str(offset)}
        return served.call("PATCH", f"/web/uploads/{upload}", BIG[:MEGABYTE], **given)

    assert piece(0)[1]["offset"] == MEGABYTE
    served.disk.die(how)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(piece(MEGABYTE)[0]))
    thread.start()
    wait_for(lambda: folder in served.faults())
    served.disk.come_back(how)
    thread.join(PATIENCE)
    assert answers == [503 if how == "fails" else 200]
    wait_for(lambda: not served.faults())
    if how == "fails":
        again = served.call("POST", "/web/uploads", file, **headers)[1]
        assert (again["id"], again["offset"]) == (upload, MEGABYTE)
        assert piece(MEGABYTE)[1]["name"] == "new.nsp"
    wait_for(lambda: len(by_age(served.serving.store)) == 4)
    assert (served.disk.folder / "new.nsp").read_bytes() == BIG[: 2 * MEGABYTE]
