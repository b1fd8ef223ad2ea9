"""Disks as homes have them: which of them was plugged in, by what their systems tell.

The disks are images on loop devices, in slots that stand for the order in which disks
are plugged in: a slot gives the device number.
"""

import contextlib
import fcntl
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

import catalogd
from conftest import LONG_AGO, Library, need, skip, wait_for

ADD_LOOP, REMOVE_LOOP = 0x4C80, 0x4C81  # see loop(4)
TOOLS = {  # packages by tool
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.exfat": "exfatprogs or exfat-utils",
    "mount.exfat-fuse": "exfat-fuse",
    "mkfs.ntfs": "ntfs-3g",
    "ntfs-3g": "ntfs-3g",
}


class FileSystem(NamedTuple):
    """How to make and mount one."""

    make: list[str]
    mount: list[str]
    megabytes: int


FILE_SYSTEMS = {
    "ext4": FileSystem(["mkfs.ext4", "-q"], ["mount"], 8),
    "xfs": FileSystem(["mkfs.xfs", "-q"], ["mount"], 320),
    "exfat": FileSystem(["mkfs.exfat"], ["mount.exfat-fuse"], 8),
    "ntfs": FileSystem(["mkfs.ntfs", "-Q", "-F", "-q"], ["ntfs-3g"], 8),
}


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, (command, done.stderr)
    return done.stdout


class Machine:
    """Two slots for disks, whose mount points are in one library folder."""

    def __init__(self, kind: str, library: pathlib.Path, records: pathlib.Path) -> None:
        """:param records: the folder with udev's records, if the machine has it."""
        self.system, self.library, self.records = FILE_SYSTEMS[kind], library, records
        first = 300 + 2 * (os.getpid() % 500)  # no other test has these
        self.slots = [f"/dev/loop{number}" for number in (first, first + 1)]
        self.stack = contextlib.ExitStack()
        self.control(ADD_LOOP)

    def control(self, command: int) -> None:
        with open("/dev/loop-control") as control:
            for slot in self.slots:
                fcntl.ioctl(control, command, int(slot.removeprefix("/dev/loop")))

    def make(self, image: pathlib.Path, *games: str) -> pathlib.Path:
        """Make a disk with games."""
        with open(image, "wb") as file:
            file.truncate(self.system.megabytes * 2**20)
        run(*self.system.make, str(image))
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
            self._plug_in(slot, disk)
            point = self.library / place
            point.mkdir(exist_ok=True)
            run(*self.system.mount, slot, str(point))
            self.stack.callback(run, "umount", str(point))

    def _plug_in(self, slot: str, disk: pathlib.Path) -> None:
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


@pytest.fixture(params=FILE_SYSTEMS)
def machine(
    request: pytest.FixtureRequest, library: Library, records: pathlib.Path
) -> Iterator[Machine]:
    system = FILE_SYSTEMS[request.param]
    for tool in ("losetup", system.make[0], system.mount[0]):
        need(tool, TOOLS.get(tool, "mount"))
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")
    machine = Machine(request.param, library.folder, records)
    try:
        with machine.stack:
            yield machine
    finally:
        machine.control(REMOVE_LOOP)


def test_a_disk_is_known_wherever_it_is_plugged_in(
    machine: Machine,
    scanner: catalogd.Scanner,
    store: catalogd.Store,
    tmp_path: pathlib.Path,
) -> None:
    a = machine.make(tmp_path / "a", "one.nsp", "two.nsp")
    b = machine.make(tmp_path / "b", "one.nsp", "three.nsp")
    c = machine.make(tmp_path / "c", "one.nsp", "four.nsp")

    def scan(**disks: pathlib.Path) -> dict[str, tuple[str, str]]:
        """Return folder and state of each entry."""
        machine.boot(disks)
        scanner.scan()
        return {
            item.id: (item.file.path.split("/")[-2], item.state)
            for item in store.entries.files()
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
