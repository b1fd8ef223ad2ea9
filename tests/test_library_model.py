"""Whatever people do to their disks, an id stays with its file.

A model of roots, disks and files is changed at random and scanned now and then. It
knows which content each id was given to first, and holds `find_changes` to that: with
all files, as of folders that are polled, and with those of the folders that have
changed, as of folders that are watched.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catalogd
from catalogd import FileContent, FoundFile, KnownFile

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


class World:
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


DEEDS = (
    *("create", "create", "delete", "move", "move", "swap", "copy", "rewrite"),
    *("touch", "renumber", "reboot", "mount", "mount", "break_folder", "wait"),
    *("give", "give"),
    *("scan", "scan", "scan", "scan"),
)
NUMBER = st.integers(0, 11)


@pytest.mark.parametrize("watching", [False, True], ids=["polled", "watched"])
@settings(max_examples=400, deadline=None, derandomize=True)
@given(deeds=st.lists(st.tuples(st.sampled_from(DEEDS), NUMBER, NUMBER), max_size=60))
def test_after_any_sequence_of_changes_an_id_is_with_its_file(
    watching: bool, deeds: list[tuple[str, int, int]]
) -> None:
    world = World(watching)
    for deed, one, two in deeds:
        getattr(world, deed)(one, two)
    world.scan(0, 0)
