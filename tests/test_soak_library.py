"""A library is shuffled for many rounds, and every id stays with its file.

Files are renamed, moved, swapped, rewritten, deleted and brought back, whole folders
are renamed, and one of the two library folders is unplugged and replugged.
"""

import contextlib
import json
import os
import pathlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import catalogd
import containers
from conftest import short_and_long

MAKERS = {
    "nsp": lambda number: containers.nsp(f"0100{number:08X}0000", b"%08d" % number),
    "xci": lambda number: containers.xci(1) + b"%08d" % number,
    "nro": lambda number: containers.nro(
        containers.nacp(f"Homebrew {number}"), icon=b"", program=0x80
    ),
}


class Library:
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


def ids(store: catalogd.Store) -> dict[str, str]:
    return {
        entry["source"]: entry["id"]
        for entry in json.loads(store.entries.list_json(catalogd.EVERYTHING))
    }


def check(library: Library, store: catalogd.Store, owner: dict[int, str]) -> None:
    found = ids(store)
    assert found.keys() == library.at.keys()
    for path, number in library.at.items():
        assert owner.setdefault(number, found[path]) == found[path], path


def check_plugged(library: Library, store: catalogd.Store) -> None:
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
    library = Library(str(tmp_path), count, swaps=False)
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
    library = Library(str(tmp_path), count)
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
