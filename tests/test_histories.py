"""No history of files and disks loses what people gave a game.

Files, folders, copies and disks are changed at random in real folders, with a stand-in
for what the system tells of disks, and scanned now and then: wholly, in parts, after a
restart, or by a service that is killed meanwhile. An entry that somebody touched keeps
its id, and is here while a file with its content can be read.
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.stateful import run_state_machine_as_test as run

import catalogd
from catalogd import FileContent, FoundFile, KnownFile
from conftest import LONG_AGO, Clock, short_and_long

POINTS = ("P0", "P1", "P2")
FOLDERS = ("x", "y", "x/deep")
DEEDS = (
    *("create", "copy", "copy", "overwrite", "write anew", "delete", "move"),
    *("move", "move over", "swap"),
)
SCANS = st.sampled_from(("whole", "whole", "in part", ""))
DISK_DEEDS = ("plug in", "plug in", "pull", "swap", "clone")
PATTERNS = ((), (), ("x",), ("DEEP",), ("b.nsp",), ("P1/*",))  # of what is excluded
AGES = st.sampled_from((3, 7, 12, 16, 18))
NUMBER = st.integers(0, 999)


@dataclasses.dataclass
class Disk:
    """One that people plug in, with the id that the system knows, or "" where it has
    none, and where it is mounted."""

    folder: str
    id: str
    size: int
    point: str | None = None
    is_cloned: bool = False  # or a clone: nothing tells it from the other one


class Killed(BaseException):
    """The service ends here."""


class World:
    """A library on the system's disk, and disks that are mounted in it."""

    def __init__(self, folder: str) -> None:
        self.folder, self.library = folder, os.path.join(folder, "library")
        self.count = itertools.count(1)
        self.disks: list[Disk] = []
        self.exclusion = catalogd.NO_EXCLUSION
        os.mkdir(self.library)
        for name in FOLDERS:
            os.mkdir(os.path.join(self.library, name))
        self.write(os.path.join(self.library, "always.nsp"))
        folders = [os.path.join(self.library, name) for name in FOLDERS]
        disks = [self.add_disk(id, n % 3) for n, id in enumerate(("a", "b", "", ""))]
        for folder in (*folders, *(disk.folder for disk in disks)):
            for name in "ab":
                self.write(os.path.join(folder, f"{name}.nsp"))
        for disk, point in zip(disks[1:3], POINTS, strict=False):
            shutil.copy2(os.path.join(disk.folder, "a.nsp"), disks[0].folder)
            self.mount(disk, point)

    def add_disk(self, id: str, size: int) -> Disk:
        disk = Disk(os.path.join(self.folder, f"disk {next(self.count)}"), id, size)
        os.mkdir(disk.folder)
        self.disks.append(disk)
        return disk

    def place(self, disk: Disk) -> str:
        return os.path.join(self.library, disk.point) if disk.point else disk.folder

    def mount(self, disk: Disk, point: str) -> None:
        path = os.path.join(self.library, point)
        if disk.point or any(other.point == point for other in self.disks):
            return
        shutil.rmtree(path, ignore_errors=True)
        os.rename(disk.folder, path)
        disk.point = point

    def unmount(self, disk: Disk, leaves_folder: bool) -> None:
        if disk.point:
            path = self.place(disk)
            os.rename(path, disk.folder)
            disk.point = None
            if leaves_folder:
                os.mkdir(path)

    def disk_of(self, path: str) -> Disk | None:
        first = os.path.relpath(path, self.library).split(os.sep)[0]
        return next((disk for disk in self.disks if disk.point == first), None)

    def volume_name(self, path: str, names: dict[int, str]) -> str:
        """In place of the program's: it tells the disks of the model apart."""
        device, disk = os.stat(path).st_dev, self.disk_of(path)
        names.setdefault(device, self.name_of(None))
        if disk:
            return names.setdefault(self.disks.index(disk), self.name_of(disk))
        return names[device]

    def volume_at(self, path: str) -> str:
        return self.name_of(self.disk_of(path))

    @staticmethod
    def name_of(disk: Disk | None) -> str:
        if disk is None:
            return "uuid:system"
        unsure = f"{catalogd.UNIDENTIFIED}{disk.size}:{disk.point}"
        return f"uuid:{disk.id}" if disk.id else unsure

    def write(self, path: str, content: str = "") -> None:
        token = next(self.count)
        with open(path, "w") as file:
            file.write(content or f"content {token:05}")
        os.utime(path, (LONG_AGO, LONG_AGO + token))

    def files(self) -> list[str]:
        return sorted(
            os.path.join(top, name)
            for top, _, names in os.walk(self.library)
            for name in names
        )

    def folders(self) -> list[str]:
        return sorted(top for top, _, _ in os.walk(self.library))

    def samples(self) -> dict[str, str]:
        """The content of each file that can be read and is not excluded, as the program
        knows it."""
        found = {}
        for path in itertools.filterfalse(self.exclusion.pattern, self.files()):
            with open(path, "rb", buffering=0) as file:
                found[path], _ = catalogd.sample(file, os.path.getsize(path))
        return found


class Histories(RuleBasedStateMachine):
    """What people, disks and the service may do, in any order."""

    new_data: pathlib.Path
    has_faults = True

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.world = World(folder)
        self.data, self.clock = os.path.join(folder, "data"), Clock()
        self.uptime = Clock()  # the monotonic one, which does not jump
        shutil.copytree(self.new_data, self.data)
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(catalogd, "volume_name", self.world.volume_name)
        self.store: Any = None
        self.touched: set[str] = set()
        self.items: set[str] = set()
        self.mounted: Any = None  # at the last scan of all
        # Where entries were at the last scan of all: disk, and path from its top.
        self.places: dict[str, tuple[KnownFile, Disk | None, str]] = {}
        self.start()
        self.account = self.store.accounts.add("anna", "-")
        self.scan_whole()

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()

    def start(self, exclude: tuple[str, ...] = ()) -> None:
        if self.store:
            self.store.close()
        clock = catalogd.Clock(self.clock, self.uptime)
        self.store = catalogd.Store(self.data, clock=clock)
        folders = (self.world.library,)
        options = catalogd.Settings(folders=folders, settle=0, exclude=exclude)
        self.world.exclusion = catalogd.Exclusion(exclude, folders)
        self.scanner = catalogd.Scanner(self.store, options)

    def wait(self, seconds: int) -> None:
        self.clock.now += seconds
        self.uptime.now += seconds

    # Files and folders

    def file(self, number: int) -> str:
        files = self.world.files()
        return files[number % len(files)]

    def new_path(self, number: int) -> str:
        folders = self.world.folders()
        count = next(self.world.count)
        name = f"{count} [0100{count % 3:08}0000].nsp" if number % 3 else f"{count}.nsp"
        return os.path.join(folders[number % len(folders)], name)

    @rule(deed=st.sampled_from(DEEDS), which=NUMBER, to=NUMBER, scan=SCANS)
    def change_files(self, deed: str, which: int, to: int, scan: str) -> None:
        self.change_file(deed, which, to)
        self.scan(scan, which, to)

    def change_file(self, deed: str, which: int, to: int) -> None:
        path, new = self.file(which), self.new_path(to)
        if deed == "create":
            self.world.write(new)
        elif deed == "copy":
            shutil.copy2(path, new)
        elif deed == "overwrite":
            self.world.write(path)
        elif deed == "swap":
            self.swap(path, self.file(to))
        elif not path.endswith("always.nsp"):  # a library that is emptied is away
            if deed == "delete":
                os.remove(path)
            elif deed == "write anew":
                os.remove(path)
                self.world.write(path)
            else:
                os.rename(path, new if deed == "move" else self.file(to))

    @staticmethod
    def swap(one: str, two: str) -> None:
        if one != two:
            os.rename(one, one + "~")
            os.rename(two, one)
            os.rename(one + "~", two)

    @rule(which=NUMBER, scan=SCANS)
    def rename_folder(self, which: int, scan: str) -> None:
        path = os.path.join(self.world.library, FOLDERS[which % len(FOLDERS)])
        for old, new in ((path, f"{path} away"), (f"{path} away", path)):
            if os.path.isdir(old) and not os.path.exists(new):
                os.rename(old, new)
                break
        self.scan(scan, which, which + 1)

    # Disks

    @rule(deed=st.sampled_from(DISK_DEEDS), which=NUMBER, point=NUMBER, scan=SCANS)
    def change_disks(self, deed: str, which: int, point: int, scan: str) -> None:
        disks, at = self.world.disks, POINTS[point % len(POINTS)]
        disk = disks[which % len(disks)]
        if deed == "clone" and len(disks) < 7:
            twin = self.world.add_disk(disk.id, disk.size)
            shutil.copytree(self.world.place(disk), twin.folder, dirs_exist_ok=True)
            disk.is_cloned = twin.is_cloned = True
        elif deed == "pull":
            self.world.unmount(disk, leaves_folder=bool(point % 2))
        elif deed == "swap":  # a visitor's disk for another one, between two scans
            for other in [other for other in disks if other.point == at]:
                self.world.unmount(other, False)
        if deed in ("plug in", "swap"):
            self.world.mount(disk, at)
        self.scan(scan, which, point)

    # The service

    def scan(self, scan: str, which: int, more: int) -> None:
        if scan == "in part" and self.mounted == self.mounts():
            self.scan_in_part(which, more)
        elif scan:  # a change of the disks has all be read
            self.scan_whole()

    def scan_whole(self) -> None:
        self.wait(60)
        before = self.before()
        changes = self.scanner.scan()
        self.mounted = self.mounts()
        self.check(before)
        self.check_twins(changes.merged)
        self.note_places()

    def scan_in_part(self, which: int, more: int) -> None:
        folders = self.world.folders()
        tops = {folders[number % len(folders)] for number in (which, more)}
        self.wait(60)
        before = self.before()
        changes = self.scanner.scan(tops=catalogd.outermost(tops))
        self.check_touched(before)
        self.check_twins(changes.merged)

    @rule(days=st.sampled_from([0, 1, 29, 400]), exclude=st.sampled_from(PATTERNS))
    def restart(self, days: int, exclude: tuple[str, ...]) -> None:
        self.start(exclude)
        self.mounted = None
        self.wait(days * 86400)

    @rule(days=st.sampled_from([-30_000, -400, 0, 0, 400]))
    def jump(self, days: int) -> None:
        """The clock is lost, as when a Pi boots in 1970, is wrong, or right again."""
        self.clock.now = max(self.uptime.now + days * 86400, 0)

    @rule(place=st.sampled_from(["apply", "add_files"]), is_done=st.booleans())
    def kill(self, place: str, is_done: bool) -> None:
        """The service is killed in a scan, before or after something is written."""
        work: Callable[..., None] = getattr(self.store.entries, place)

        def killed(*given: Any, **more: Any) -> None:
            if is_done:
                work(*given, **more)
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.store.entries, place, killed)
            with contextlib.suppress(Killed):
                self.scanner.scan()
        self.start()
        self.mounted = None

    # What people give a game

    @rule(gift=st.sampled_from(["edit", "age", "send"]), which=NUMBER, age=AGES)
    def give(self, gift: str, which: int, age: int) -> None:
        here = [item for item in self.known() if item.state == "here"]
        entry = here[which % len(here)].id
        sql = "SELECT title FROM entries WHERE id = ?"
        title = self.store.database.value(sql, (entry,))
        if gift != "age":  # which outlives any entry
            self.touched.add(entry)
        if gift == "edit":
            self.store.entries.edit(entry, {"name": "Mine"})
        elif gift == "age":
            self.store.entries.set_ages([title], age)
        else:
            self.store.queue.send(self.account, entry)
            items = self.store.queue.items(self.account)
            self.items |= {item["id"] for item in items}

    @rule(gift=st.sampled_from(["edit", "age", "send"]), which=NUMBER, age=AGES)
    def give_in_a_scan(self, gift: str, which: int, age: int) -> None:
        """While files are read: what comes too late for a scan counts in the next."""
        read, gifts = self.scanner.disks.read, [(gift, which, age)]

        def read_slowly(files: Any) -> Any:
            while gifts:
                self.give(*gifts.pop())
            return read(files)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.scanner.disks, "read", read_slowly)
            self.scanner.scan()
        self.scan_whole()

    @rule(which=NUMBER)
    def give_up(self, which: int) -> None:
        """An admin says that a disk will not return."""
        if self.has_faults and (disks := self.scanner.state.disks):
            disk = disks[which % len(disks)]
            self.scanner.give_up(disk["id"])
            assert disk["id"] not in {row["id"] for row in self.scanner.state.disks}

    # What holds

    def known(self) -> list[KnownFile]:
        return [*self.store.entries.files()]

    def before(self) -> tuple[dict[str, KnownFile], dict[str, int]]:
        known = {item.id: item for item in self.known()}
        return known, self.ages()

    def ages(self) -> dict[str, int]:
        rows = self.store.database.rows("SELECT subject, age FROM ages")
        return {row["subject"]: row["age"] for row in rows}

    def mounts(self) -> Any:
        return [disk.point for disk in self.world.disks]

    def check(self, before: Any) -> None:
        self.check_touched(before)
        known, samples = self.known(), self.world.samples()
        here = {item.file.path: item for item in known if item.state == "here"}
        assert len(here) == sum(item.state == "here" for item in known)
        assert {path: item.sample for path, item in here.items()} == samples
        for item in known:
            is_excluded = bool(self.world.exclusion.pattern(item.file.path))
            assert is_excluded == (item.state == "excluded")
            if item.id in self.touched and item.state not in ("here", "excluded"):
                with_it = [path for path in samples if samples[path] == item.sample]
                assert all(here[path].id in self.touched for path in with_it)
        self.check_words(before[0], known)
        self.check_in_place(before[0], here, samples)
        self.check_returned(before[0], here, samples)

    def check_mounted_elsewhere(
        self, old: dict[str, KnownFile], new: dict[str, KnownFile]
    ) -> None:
        """A disk without an id that has only moved does not count as away."""
        here = [id for id in old if old[id].state == "here" and id in new]
        moved = {
            old[id].file.volume
            for id in here
            if old[id].file[2:5] == new[id].file[2:5]
            and old[id].file.volume != new[id].file.volume
        }
        for id in here:
            is_moved = old[id].file.volume in moved
            is_sure = old[id].file.volume.startswith(catalogd.SURE_IDS)
            assert new[id].state != "offline" or is_sure or not is_moved

    def check_in_place(
        self, old: dict[str, KnownFile], here: dict[str, KnownFile], samples: Any
    ) -> None:
        """What has changed in its place on a sure volume goes along with its path,
        unless its file has moved, or that at its path is the file of another one."""
        inodes = {(os.stat(path).st_ino, samples[path]) for path in samples}
        for item in old.values():
            path, now = item.file.path, samples.get(item.file.path, item.sample)
            is_same = item.file.volume == self.world.volume_at(path)
            is_sure = is_same and item.file.volume.startswith(catalogd.SURE_IDS)
            has_moved = (item.file.inode, item.sample) in inodes
            has_changed = now != item.sample and not has_moved
            if item.state == "here" and is_sure and has_changed:
                holder = here[path]
                was = old.get(holder.id)
                is_moved = was and was.state != "gone" and was.sample == now
                assert holder.id == item.id or holder.is_touched or is_moved

    def check_returned(
        self, old: dict[str, KnownFile], here: dict[str, KnownFile], samples: Any
    ) -> None:
        """An entry is itself again once its file is back."""
        ids = {item.id for item in here.values()}
        for item in old.values():
            is_back = item.sample in self.at_place(item, samples)
            has_waited = item.state in ("offline", "excluded")
            if has_waited and is_back and not self.is_cloned(item):
                equal = [path for path in samples if samples[path] == item.sample]
                is_kept = all(here[path].is_touched for path in equal)
                assert item.id in ids or is_kept

    def check_twins(self, merged: Any) -> None:
        """An untouched entry takes the file of another one only if its own is gone."""
        samples = self.world.samples()
        for item, _ in merged:
            if not item.is_touched and item.id in self.places:
                _, disk, _ = self.places[item.id]
                assert disk is None or any(self.mounted_as(disk))
                assert item.sample not in self.at_place(item, samples)

    def is_cloned(self, item: KnownFile) -> bool:
        _, disk, _ = self.places[item.id]
        return disk is not None and disk.is_cloned

    def mounted_as(self, disk: Disk) -> list[Disk]:
        """This disk and its clones, if they are mounted."""
        disks = [other for other in self.world.disks if other.point]
        return [other for other in disks if other is disk or other.id == disk.id != ""]

    def at_place(self, item: KnownFile, samples: dict[str, str]) -> list[str]:
        """The contents at the place of an entry, on its disk and clones of it."""
        known, disk, path = self.places.get(item.id, (item, None, ""))
        if known.file.path != item.file.path or not path:
            return []
        disks = self.mounted_as(disk) if disk else []
        tops = [self.world.place(other) for other in disks]
        tops += [] if disk else [self.world.library]
        paths = [os.path.join(top, path) for top in tops]
        return [samples[path] for path in paths if path in samples]

    def note_places(self) -> None:
        for item in self.known():
            if item.state == "here":
                disk = self.world.disk_of(item.file.path)
                top = self.world.place(disk) if disk else self.world.library
                path = os.path.relpath(item.file.path, top)
                self.places[item.id] = item, disk, path

    def check_touched(self, before: Any) -> None:
        old, ages = before
        known, now = {item.id: item for item in self.known()}, self.ages()
        assert self.touched <= known.keys()
        assert all(now[subject] >= ages[subject] for subject in ages)
        found, samples = now.keys() - ages, {item.sample for item in known.values()}
        assert not found & samples, "a content that nobody gave an age"
        held = self.store.entries.ages()
        without = self.store.database.rows("SELECT id FROM entries WHERE title = id")
        for id in (row["id"] for row in without):
            assert held.get(id) == now.get(known[id].sample)
        items = {item["id"] for item in self.store.queue.items(self.account)}
        assert self.items <= items

    def check_words(self, old: dict[str, KnownFile], known: list[KnownFile]) -> None:
        mounted = {self.world.name_of(disk) for disk in self.world.disks if disk.point}
        for item in known:
            volume = item.file.volume
            was_here = item.id in old and old[item.id].state == "here"
            if was_here and item.state != "here" and "uuid:" in volume:
                is_there = volume in mounted | {"uuid:system"}
                assert is_there or item.state in ("offline", "excluded")
        self.check_mounted_elsewhere(old, {item.id: item for item in known})
        if self.has_faults:
            waiting = {item.file.volume for item in known if item.state == "offline"}
            assert {disk["id"] for disk in self.scanner.state.disks} == waiting


@pytest.fixture
def histories(new_data: pathlib.Path) -> Iterator[type[Histories]]:
    Histories.new_data = new_data
    yield Histories


@short_and_long(count=(30, 600), steps=(40, 60))
def test_no_history_of_files_and_disks_loses_what_people_gave_a_game(
    count: int, steps: int, histories: type[Histories]
) -> None:
    rules = settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    run(histories, settings=rules)


# Ids without a disk: a model of roots, disks and files is changed at random and scanned
# now and then. It knows which content each id was given to first, and holds
# `find_changes` to that: with all files, as of folders that are polled, and with those
# of the folders that have changed, as of folders that are watched.


ROOTS = ("/a", "/b")
NAMES = ("x.nsp", "y.nsp", "deep/x.nsp")
DAY = 86400
FORGET_AFTER = 30 * DAY


@dataclasses.dataclass
class Content:
    """What is in a file. Its token is its own, but for copies of it."""

    token: int
    mtime: int
    inode: int


def is_read(tree: catalogd.Tree, path: str) -> bool:
    return any(catalogd.is_below(path, top) for top in tree.tops)


class Model:
    """Two library folders, three disks to mount there, and what the store knows."""

    def __init__(self, watching: bool) -> None:
        self.watching = watching
        self.before: dict[str, tuple[catalogd.Tree | None, str | None]] = {}
        """The tree and the disk of each root at the last scan."""
        self.count = itertools.count(1)
        self.disks: dict[str, dict[str, Content]] = {"1": {}, "2": {}, "3": {}}
        self.folders = self
        self.kind = "fsid"  # of the id that disk 1 has; the others have none
        self.mounted: dict[str, str | None] = {"/a": "1", "/b": "2"}
        self.broken: str | None = None  # a folder that cannot be read
        self.now = 1_000_000_000.0
        self.known: dict[str, KnownFile] = {}
        self.owner: dict[str, str] = {}  # the first id that a sample had
        self.given: set[str] = set()  # ids of entries that somebody touched
        self.merged: set[str] = set()  # ids of entries that ended for an equal one
        self.copied: set[str] = set()  # samples that more than one file has had

    # What people do; each takes two numbers that say to what

    def place(self, number: int) -> tuple[dict[str, Content], str]:
        disks = [disk for disk in self.mounted.values() if disk]
        if not disks:
            return self.disks["3"], NAMES[number % 3]
        return self.disks[disks[number % len(disks)]], NAMES[number // 2 % 3]

    def create(self, one: int, two: int) -> None:
        files, name = self.place(one)
        # Two times only, so that many files are of the same size and time.
        files[name] = Content(next(self.count), two % 2, next(self.count))

    def delete(self, one: int, two: int) -> None:
        files, name = self.place(one)
        files.pop(name, None)

    def move(self, one: int, two: int) -> None:
        (source, old), (target, new) = self.place(one), self.place(two)
        if old in source:
            content = source.pop(old)
            if source is not target:
                content.inode = next(self.count)
            target[new] = content

    def swap(self, one: int, two: int) -> None:
        (first, old), (second, new) = self.place(one), self.place(two)
        if old in first and new in second and first is second:
            first[old], second[new] = second[new], first[old]

    def copy(self, one: int, two: int) -> None:
        (source, old), (target, new) = self.place(one), self.place(two)
        if old in source and (source is not target or old != new):
            content = source[old]
            self.copied.add(str(content.token))
            target[new] = Content(content.token, content.mtime, next(self.count))

    def rewrite(self, one: int, two: int) -> None:
        files, name = self.place(one)
        if name in files:
            files[name].token = next(self.count)
            files[name].mtime += 7

    def touch(self, one: int, two: int) -> None:
        files, name = self.place(one)
        if name in files:
            files[name].mtime += 3

    def renumber(self, one: int, two: int) -> None:
        for content in self.disks["123"[one % 3]].values():
            content.inode = next(self.count)

    def reboot(self, one: int, two: int) -> None:
        """The system tells another id of the disk that has one."""
        self.kind = ("fsid", "uuid")[one % 2]

    def mount(self, one: int, two: int) -> None:
        disk = ("1", "2", "3", None)[two % 4]
        root = ROOTS[one % 2]
        if disk is None or disk not in self.mounted.values():
            self.mounted[root] = disk

    def break_folder(self, one: int, two: int) -> None:
        self.broken = (None, "/a/deep", "/b/deep")[one % 3]

    def give(self, one: int, two: int) -> None:
        """Somebody edits an entry, or gives it an age."""
        here = [item for item in self.known.values() if item.state == "here"]
        for item in here[one : one + 1]:
            self.known[item.id] = item._replace(is_touched=1)
            self.given.add(item.id)

    def wait(self, one: int, two: int) -> None:
        self.now += (one % 40) * DAY

    # What the scanner sees, and what becomes of it

    def tree(self, root: str, empty: bool) -> catalogd.Tree | None:
        disk = self.mounted[root]
        if disk is None:
            volumes = {root: "the empty mount point's"}
            return catalogd.Tree(root, [root], volumes=volumes) if empty else None
        # Without an id, it is named by its kind and size, which others have too.
        volume = f"{self.kind}:1" if disk == "1" else f"mount:{root}"
        tree = catalogd.Tree(root, [root], volumes={root: volume})
        if self.broken and self.broken.startswith(root):
            tree.unreadable.add(self.broken)
        for name, content in self.disks[disk].items():
            path = f"{root}/{name}"
            if os.path.dirname(path) != self.broken:
                facts = root, 1, content.mtime, content.inode, volume
                tree.files.append(FoundFile(path, *facts))
        return tree

    def content(self, file: FoundFile) -> Content:
        disk = self.mounted[file.folder]
        assert disk is not None
        return self.disks[disk][file.path.removeprefix(file.folder + "/")]

    def read(self, file: FoundFile) -> FileContent:
        return FileContent(str(self.content(file).token), {"name": "name"})

    def read_all(self, files: Iterable[FoundFile]) -> dict[str, FileContent]:
        return {file.path: self.read(file) for file in files}

    def equal(self, samples: Any) -> list[KnownFile]:
        return [item for item in self.known.values() if item.sample in samples]

    def scan(self, one: int, two: int) -> None:
        self.now += 60
        trees = {root: self.tree(root, bool(one % 2)) for root in ROOTS}
        before = dict(self.known)
        forget_before = catalogd.stamp(self.now - FORGET_AFTER)
        read = {root: self.changed(root, trees[root]) for root in ROOTS}
        read = {root: tree and dataclasses.replace(tree) for root, tree in read.items()}
        known = [item for item in self.known.values() if self.concerns(item, read)]
        are_lost = any(item.state != "here" for item in self.known.values())
        changes = catalogd.find_changes(
            known, read, self.read_all, forget_before, self.equal, are_lost
        )
        self.before = {root: (tree, self.mounted[root]) for root, tree in trees.items()}
        self.apply(changes)
        files = {file for tree in trees.values() if tree for file in tree.files}
        self.check_every_file_has_one_id(files)
        self.check_nothing_vanished_early(before)
        self.check_what_is_unplugged_waits()
        self.check_ids_stay_with_their_files(before, files)
        self.check_what_was_touched_lives()

    def changed(self, root: str, now: catalogd.Tree | None) -> catalogd.Tree | None:
        """The part of a tree that is read: where it is watched, and neither mounted
        otherwise nor broken since, only the folders in which something happened."""
        old, disk = self.before.get(root, (None, None))
        if not self.watching or old is None or now is None:
            return now
        if (disk, old.volumes, old.unreadable) != (
            *(self.mounted[root], now.volumes),
            now.unreadable,
        ):
            return now
        changed = {*old.files} ^ {*now.files}
        tops = catalogd.outermost(os.path.dirname(file.path) for file in changed)
        part = dataclasses.replace(now, tops=tops, unreadable=set())
        part.files = [file for file in now.files if is_read(part, file.path)]
        return part

    @staticmethod
    def concerns(item: KnownFile, read: dict[str, catalogd.Tree | None]) -> bool:
        tree = read[item.file.folder]
        return tree is None or is_read(tree, item.file.path)

    def apply(self, changes: catalogd.Changes) -> None:
        """As the store does."""
        for file, content in changes.added:
            id = f"id{next(self.count)}"
            sample = (content or self.read(file)).sample
            serial = next(self.count)
            self.known[id] = KnownFile(id, file, sample, "here", None, serial)
        for item, file, content in changes.updated:
            sample = content.sample if content else item.sample
            back = item._replace(file=file, sample=sample, state="here", gone_at=None)
            self.known[item.id] = back
        for item in changes.gone:
            now = catalogd.stamp(self.now)
            self.known[item.id] = item._replace(state="gone", gone_at=now)
        for item in changes.offline:
            now = catalogd.stamp(self.now)
            self.known[item.id] = item._replace(state="offline", gone_at=now)
        ended = [twin for _, twin in changes.merged]
        self.merged |= {item.id for item in ended}
        for item in (*changes.forgotten, *ended):
            del self.known[item.id]

    def check_every_file_has_one_id(self, files: set[FoundFile]) -> None:
        here = [item for item in self.known.values() if item.state == "here"]
        assert sorted(item.file[:5] for item in here) == sorted(f[:5] for f in files)
        for item in here:
            assert item.sample == str(self.content(item.file).token)

    def check_nothing_vanished_early(self, before: dict[str, KnownFile]) -> None:
        for id in before.keys() - self.known.keys() - self.merged:
            assert before[id].state == "gone"
            gone_at = before[id].gone_at
            assert gone_at and gone_at < catalogd.stamp(self.now - FORGET_AFTER)

    def check_what_is_unplugged_waits(self) -> None:
        for item in self.known.values():
            disk = self.mounted[item.file.folder]
            if disk is None or item.file.path.rpartition("/")[0] == self.broken:
                assert item.state == "offline"

    def check_what_was_touched_lives(self) -> None:
        """It has its id, and a file if one with its content is not that of another
        entry which was touched."""
        assert self.given <= self.known.keys()
        here = [item for item in self.known.values() if item.state == "here"]
        untouched = {item.sample for item in here if not item.is_touched}
        for id in self.given:
            item = self.known[id]
            assert item.state == "here" or item.sample not in untouched

    def check_ids_stay_with_their_files(
        self, before: dict[str, KnownFile], files: set[FoundFile]
    ) -> None:
        """While content can be seen, it has the id that it had first, unless that is
        on a disk that cannot be seen. Copies have ids of their own, so a file that
        was copied may be written anew."""
        seen = {self.read(file).sample for file in files}
        for sample, id in list(self.owner.items()):
            item = self.known.get(id)
            if sample in seen and item and item.state != "offline":
                assert item.state == "here"
                assert item.sample == sample or sample in self.copied
            if item is None or item.sample != sample:
                del self.owner[sample]
        for sample in seen - self.owner.keys():
            having = [item for item in self.known.values() if item.sample == sample]
            self.owner[sample] = min(having, key=lambda item: item.serial).id


CHANGES = (
    *("create", "create", "delete", "move", "move", "swap", "copy", "rewrite"),
    *("touch", "renumber", "reboot", "mount", "mount", "break_folder", "wait"),
    *("give", "give"),
    *("scan", "scan", "scan", "scan"),
)
WHICH = st.integers(0, 11)


@pytest.mark.parametrize("watching", [False, True], ids=["polled", "watched"])
@settings(max_examples=400, deadline=None, derandomize=True)
@given(deeds=st.lists(st.tuples(st.sampled_from(CHANGES), WHICH, WHICH), max_size=60))
def test_after_any_sequence_of_changes_an_id_is_with_its_file(
    watching: bool, deeds: list[tuple[str, int, int]]
) -> None:
    world = Model(watching)
    for deed, one, two in deeds:
        getattr(world, deed)(one, two)
    world.scan(0, 0)
