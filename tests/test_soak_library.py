#!/usr/bin/env python3
"""Shuffles a library for many rounds, and checks that every id stays where it belongs.

    python3 tests/soak_library.py [FILES [ROUNDS [SEED]]]

Makes two library folders with real containers, then renames, moves, swaps, rewrites,
deletes and brings back files, renames whole folders, unplugs and replugs one of the
folders, and scans after each round. It ends with an error if an id is not with its
file.
"""

import contextlib
import json
import os
import random
import sys
import tempfile
import time

import catalogd
import containers

MAKERS = {
    "nsp": lambda number: containers.nsp(f"0100{number:08X}0000", b"%08d" % number),
    "xci": lambda number: containers.xci(1) + b"%08d" % number,
    "nro": lambda number: containers.nro(
        containers.nacp(f"Homebrew {number}"), icon=b"", program=0x80
    ),
}


class Library:
    """The folders, and which file is where."""

    def __init__(self, top: str, count: int, seed: int) -> None:
        self.chance = random.Random(seed)
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
        pairs = self.some(0.02)
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
    def unplugged(self) -> object:
        """One folder is away, and may be an empty mount point meanwhile."""
        root, away = self.roots[1], os.path.join(self.top, "away")
        os.rename(root, away)
        empty = self.chance.random() < 0.5
        if empty:
            os.mkdir(root)
        yield root
        if empty:
            os.rmdir(root)
        os.rename(away, root)


def ids(store: catalogd.Store) -> dict[str, str]:
    return {
        entry["source"]: entry["id"] for entry in json.loads(store.entries.list_json())
    }


def check(library: Library, store: catalogd.Store, owner: dict[int, str]) -> None:
    found = ids(store)
    if found.keys() != library.at.keys():
        raise SystemExit(f"{len(found.keys() ^ library.at.keys())} files are wrong")
    wrong = 0
    for path, number in library.at.items():
        wrong += owner.setdefault(number, found[path]) != found[path]
    if wrong:
        raise SystemExit(f"{wrong} ids are not with their files")


def main(count: int = 100_000, rounds: int = 10, seed: int = 1) -> None:
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory())
        library = Library(top, count, seed)
        store = stack.enter_context(
            contextlib.closing(catalogd.Store(os.path.join(top, "data")))
        )
        settings = catalogd.Settings(folders=tuple(library.roots))
        scanner = catalogd.Scanner(store, settings)
        owner: dict[int, str] = {}
        for number in range(rounds):
            began = time.monotonic()
            changes = scanner.scan()
            took = time.monotonic() - began
            check(library, store, owner)
            print(f"round {number}: {took:.1f} s, {catalogd.summary(changes)}")
            with library.unplugged():
                scanner.scan()
                one = library.roots[0]
                assert all(path.startswith(one) for path in ids(store))
            if number % 2:  # else it is replugged and shuffled between two scans
                scanner.scan()
                check(library, store, owner)
            library.shuffle()
        scanner.scan()
        check(library, store, owner)
        print(f"{len(library.at)} files, {rounds} rounds: every id is with its file")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
