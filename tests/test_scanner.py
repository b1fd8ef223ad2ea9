"""The scanner: `walk`, `find_changes`, and both with a real store."""

import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

import catalogd
import containers
from catalogd import EVERYTHING, FileContent, FoundFile, KnownFile
from conftest import (
    LONG_AGO,
    Clock,
    Library,
    add_folder,
    cost,
    online,
    short_and_long,
    small_disk,
    wait_for,
)

ROOT, DISK, UNREADABLE = "/games", "uuid:disk", "unreadable"
GONE = {"state": "gone", "gone_at": "2026-01-01T00:00:00"}


def file(path: str, content: str = "", **facts: Any) -> FoundFile:
    """A file of a disk that is made up; files of the same content are alike."""
    row = {"size": len(content or path), "mtime": LONG_AGO, "inode": hash(path)}
    return FoundFile(path, **{"folder": ROOT, **row, "volume": DISK, **facts})


def known(id: str, found: FoundFile, content: str = "", **facts: Any) -> KnownFile:
    row = {"sample": content or found.path, "state": "here", "gone_at": None}
    return KnownFile(
        id, found, **{**row, "serial": int(id) if id.isdigit() else 0, **facts}
    )


def tree(
    *files: FoundFile, root: str = ROOT, volume: str = DISK, unreadable: Any = ()
) -> catalogd.Tree:
    """A snapshot that has these files; a folder is there even if it is empty."""
    volumes = {root: volume, **{file.path: file.volume for file in files}}
    return catalogd.Tree(root, [root], [*files], volumes, unreadable={*unreadable})


def compare(
    items: list[KnownFile],
    *trees: catalogd.Tree,
    contents: dict[str, str | None] | None = None,
    **more: Any,
) -> dict[str, str]:
    """What becomes of each id, and of each path that is new: the path an item is at
    now, or "gone", "offline" or "forgotten"; "new" for a path."""

    def read(files: Iterable[FoundFile]) -> dict[str, FileContent | None]:
        found = {file.path: file.path for file in files}
        told = {path: (contents or {}).get(path, path) for path in found}
        return {
            path: FileContent(text, {"name": "name"}) if text else None
            for path, text in told.items()
            if text != UNREADABLE
        }

    disk = {found.library_folder: found for found in trees}
    before = more.pop("forget_before", "2020-01-01T00:00:00")
    changes = catalogd.find_changes(
        items, {**disk, **more.pop("roots", {})}, read, before, **more
    )
    told = {found.path: "new" for found, _ in changes.added}
    told |= {item.id: found.path for item, found, _ in changes.updated}
    told |= {twin.id: f"merged into {item.id}" for item, twin in changes.merged}
    for kind in ("gone", "offline", "forgotten"):
        told |= {item.id: kind for item in getattr(changes, kind)}
    return told


A, B, C = file("/games/a.nsp"), file("/games/b.nsp"), file("/games/c.nsp")


def test_files_that_have_not_changed_are_not_read() -> None:
    def read(files: Iterable[FoundFile]) -> dict[str, FileContent]:
        raise AssertionError(files)

    trees = {ROOT: tree(A, B)}
    changes = catalogd.find_changes([known("1", A), known("2", B)], trees, read, "")
    assert not any(changes)


def test_a_first_scan_adds_all_files_before_it_reads_them() -> None:
    changes = catalogd.find_changes([], {ROOT: tree(A, B)}, lambda files: {}, "")
    assert [(found.path, content) for found, content in changes.added] == [
        ("/games/a.nsp", None),
        ("/games/b.nsp", None),
    ]


# What happened, the known entries, the files with the content that is read in each, ""
# where none is to be read, and what becomes of the entries.
MOVES: list[
    tuple[str, list[KnownFile], dict[FoundFile, str | None], dict[str, str]]
] = [
    (
        "renamed",
        [known("1", A, "one")],
        {file("/games/new.nsp", inode=A.inode): "one"},
        {"1": "/games/new.nsp"},
    ),
    (
        "moved to another folder of a drive that numbers inodes anew",
        [known("1", A, "one")],
        {file("/games/deep/a.nsp", size=A.size): "one"},
        {"1": "/games/deep/a.nsp"},
    ),
    (
        "rewritten in place",
        [known("1", A, "one")],
        {A._replace(size=99, mtime=LONG_AGO + 5): "two"},
        {"1": A.path},
    ),
    (
        "touched",
        [known("1", A, "one")],
        {A._replace(mtime=LONG_AGO + 5): "one"},
        {"1": A.path},
    ),
    (
        "two that changed places, of the same size and time",
        [known("1", A, "one"), known("2", B, "two")],
        {A._replace(inode=B.inode): "two", B._replace(inode=A.inode): "one"},
        {"1": B.path, "2": A.path},
    ),
    (
        "three in a circle, with a new one in the place of the first",
        [known("1", A, "one"), known("2", B, "two")],
        {
            B._replace(inode=A.inode): "one",
            C._replace(inode=B.inode): "two",
            A._replace(inode=1): "three",
        },
        {"1": B.path, "2": C.path, A.path: "new"},
    ),
    (
        "changed in its place, though there is a copy of what it was",
        [known("1", A, "one", is_touched=1), known("2", C, "one")],
        {A._replace(size=99): "two", B: "one", C: ""},
        {"1": A.path, B.path: "new"},
    ),
    (
        "renamed, with a new file in its place and a copy",
        [known("1", A, "one")],
        {A._replace(inode=1): "two", B: "one", C._replace(inode=A.inode): "one"},
        {"1": C.path, A.path: "new", B.path: "new"},
    ),
    (
        "changed in its place to what was there before another one that is gone",
        [known("1", A, "one", state="gone"), known("2", A, "two", is_touched=1)],
        {A._replace(size=99): "one"},
        {"2": A.path},
    ),
    (
        "one of a disk without an id that is mounted elsewhere",
        [
            known("1", A._replace(volume="uuid:other"), "one"),
            known("2", B._replace(volume="mount:p"), "one", state="offline"),
        ],
        {C._replace(inode=B.inode, volume="mount:q"): "one"},
        {"2": C.path, "1": "offline"},
    ),
    (
        "one moved over another",
        [known("1", A, "one"), known("2", B, "two")],
        {B._replace(inode=A.inode, size=A.size + 1): "one"},
        {"1": B.path, "2": "gone"},
    ),
    (
        "a new file under a removed one's inode number",
        [known("1", A, "one"), known("2", B, "two")],
        {B: "", file("/games/new.nsp", inode=A.inode, size=A.size): "three"},
        {"1": "gone", "/games/new.nsp": "new"},
    ),
    (
        "another file of the same size and time under the same path",
        [known("1", A, "one"), known("2", B, "two")],
        {A._replace(inode=71): "three", B: ""},
        {"1": A.path},
    ),
    (
        "a second file of the same content is a second entry",
        [known("1", A, "one")],
        {A: "", C: "one"},
        {C.path: "new"},
    ),
    (
        "two of the same content, both moved, keep their names",
        [known("1", A, "one"), known("2", B, "one")],
        {file("/games/x/a.nsp"): "one", file("/games/x/b.nsp"): "one"},
        {"1": "/games/x/a.nsp", "2": "/games/x/b.nsp"},
    ),
    (
        "one that grows stays what it was",
        [known("1", A, "one")],
        {A._replace(size=99): None},
        {},
    ),
    (
        "one that cannot be read waits, and its file that moved on is found",
        [known("1", A, "one"), known("2", B, "two")],
        {A._replace(size=99): UNREADABLE, B._replace(size=99): UNREADABLE, C: "one"},
        {"1": C.path, "2": "offline"},
    ),
    (
        "one that came back after it was gone",
        [known("1", A, "one", **GONE)],
        {C: "one"},
        {"1": C.path},
    ),
    (
        "one that came back unchanged",
        [known("1", A, "one", **GONE)],
        {A: "one"},
        {"1": A.path},
    ),
    (
        "what is here goes before what is gone",
        [known("1", A, "one", **GONE), known("2", A, "two")],
        {A._replace(size=99): "three"},
        {"2": A.path},
    ),
    (
        "what somebody touched goes before what is here, and what is older",
        [
            known("1", A, "one", **GONE),
            known("2", B, "one"),
            known("3", C, "one", state="offline", is_touched=1),
        ],
        {file("/games/new.nsp"): "one"},
        {"3": "/games/new.nsp", "2": "gone"},
    ),
    (
        "one that waits does not go along with its path",
        [known("1", A, "one", **GONE)],
        {A: "two"},
        {A.path: "new"},
    ),
    (
        "a disk that is mounted elsewhere, and a copy in its place",
        [known("1", A, "one", is_touched=1), known("2", B, "two")],
        {
            file("/games/x/a.nsp"): "one",
            A._replace(volume="uuid:other", inode=1): "one",
        },
        {"1": "/games/x/a.nsp", "2": "gone", A.path: "new"},
    ),
    (
        "a copy of another file over it is a change of it",
        [known("1", A, "one"), known("2", B, "two")],
        {A._replace(size=9): "two", B: ""},
        {"1": A.path},
    ),
]


@pytest.mark.parametrize(
    ("items", "files", "expected"),
    [row[1:] for row in MOVES],
    ids=[row[0] for row in MOVES],
)
def test_an_id_follows_its_file(
    items: list[KnownFile],
    files: dict[FoundFile, str | None],
    expected: dict[str, str],
) -> None:

    def equal(samples: Iterable[str]) -> list[KnownFile]:
        return [item for item in items if item.sample in samples]

    contents = {found.path: text for found, text in files.items() if text != ""}
    assert compare(items, tree(*files), contents=contents, equal=equal) == expected


def test_where_all_inodes_are_numbered_anew_nothing_is_opened() -> None:
    files = [file(f"/games/{number}.nsp", inode=number) for number in range(20)]
    items = [known(str(number), row) for number, row in enumerate(files)]
    items.append(known("gone", files[0], **GONE))
    anew = [row._replace(inode=row.inode + 7) for row in files]
    contents: dict[str, str | None] = dict.fromkeys(row.path for row in files)
    told = compare(items, tree(*anew), contents=contents)
    assert told == {str(number): row.path for number, row in enumerate(files)}


def test_a_file_that_is_removed_is_gone() -> None:
    assert compare([known("1", A), known("2", B)], tree(B)) == {"1": "gone"}


def test_a_file_that_is_gone_for_long_is_forgotten() -> None:
    items = [
        known("1", A, state="gone", gone_at="2019-12-31T23:59:59"),
        known("2", C, state="gone", gone_at="2020-01-01T00:00:00"),
    ]
    assert compare(items, tree(B), contents={B.path: "b"}) == {
        "1": "forgotten",
        B.path: "new",
    }


def test_a_file_of_a_folder_that_is_no_library_any_more_is_gone() -> None:
    assert compare([known("1", A)], tree(root="/other")) == {"1": "gone"}


def test_a_file_of_a_folder_that_is_in_a_library_now_waits_for_its_disk() -> None:
    """The settings name the folder above it now, and its disk is away."""
    item = known("1", file("/games/disk/a.nsp", folder="/games/disk"))
    told = compare([item], tree(B, volume="uuid:system"), contents={B.path: "b"})
    assert told == {"1": "offline", B.path: "new"}


def test_the_files_of_a_folder_that_cannot_be_read_are_offline() -> None:
    assert compare([known("1", A)], roots={ROOT: None}) == {"1": "offline"}


def test_the_files_of_a_folder_that_is_suddenly_empty_are_offline() -> None:
    assert compare([known("1", A)], tree()) == {"1": "offline"}


@pytest.mark.parametrize(
    "found",
    [None, tree(), tree(B._replace(volume="uuid:other"), volume="uuid:other")],
    ids=["cannot be read", "empty", "another disk"],
)
def test_what_was_gone_before_its_disk_is_gone(found: catalogd.Tree | None) -> None:
    """It is not offline: nothing waits for that disk."""
    items = [known("1", A, state="gone", gone_at="2021-01-01T00:00:00")]
    told = compare(items, roots={ROOT: found})
    assert told.pop(B.path, "new") == "new"
    assert told == {}


def test_what_is_offline_stays_so() -> None:
    offline = known("1", A, state="offline", gone_at="2026-01-01T00:00:00")
    assert compare([offline], tree()) == {}


def test_what_is_offline_is_gone_when_its_disk_is_back_without_it() -> None:
    items = [known("1", A, state="offline"), known("2", B, state="offline")]
    assert compare(items, tree(B)) == {"1": "gone", "2": B.path}


def test_what_is_below_an_unreadable_folder_is_offline() -> None:
    deep = file("/games/deep/er/a.nsp")
    beside = file("/games/deeper.nsp")
    items = [known("1", deep), known("2", B), known("3", beside)]
    found = tree(B, unreadable=["/games/deep"])
    assert compare(items, found) == {"1": "offline", "3": "gone"}


def test_a_file_that_cannot_be_measured_is_offline() -> None:
    found = tree(B, unreadable=[A.path])
    assert compare([known("1", A), known("2", B)], found) == {"1": "offline"}


def test_the_files_of_another_disk_at_the_same_place_get_ids_of_their_own() -> None:
    other = A._replace(volume="uuid:other", size=99)
    found = tree(other, volume="uuid:other")
    told = compare([known("1", A, "one")], found, contents={A.path: "two"})
    assert told == {"1": "offline", A.path: "new"}


@pytest.mark.parametrize("volume", ["mount:1", "811"])
def test_on_a_disk_that_is_not_surely_the_same_a_change_is_a_new_file(
    volume: str,
) -> None:
    """Unless another file there has kept its path and inode."""
    old, other = (row._replace(volume=volume) for row in (A, B))
    new = A._replace(volume="mount:1", size=99)
    items, contents = [known("1", old, "one")], {A.path: "two"}
    told = compare(items, tree(new, volume="mount:1"), contents=contents)
    assert told.pop("1") in ("gone", "offline")
    assert told == {A.path: "new"}
    items.append(known("2", other))
    found = tree(new, B._replace(volume="mount:1"), volume="mount:1")
    told = compare(items, found, contents=contents)
    assert told.pop("2", B.path) == B.path
    assert told == {"1": A.path}


@pytest.mark.parametrize("volume", ["mount:p", "uuid:p"])
def test_a_disk_without_an_id_that_is_mounted_elsewhere_is_not_away(
    volume: str,
) -> None:
    """Though one of its files was removed there, and others of that name wait."""
    items = [known(str(n), at._replace(volume=volume)) for n, at in enumerate((A, B))]
    items.append(known("3", C._replace(volume=volume), "c", state="offline"))
    moved = A._replace(path="/games/q/a.nsp", volume="mount:q")
    told = compare(items, tree(moved), contents={moved.path: A.path})
    assert told == {"0": moved.path, "1": "gone" if volume == "mount:p" else "offline"}


def test_a_disk_that_gets_another_name_is_not_read() -> None:
    items = [
        known(str(n), row._replace(volume="fsid:1")) for n, row in enumerate((A, B))
    ]
    contents: dict[str, str | None] = {A.path: None, B.path: None}
    assert compare(items, tree(A, B), contents=contents) == {"0": A.path, "1": B.path}
    items.append(known("3", C._replace(volume="fsid:1")))
    assert compare(items, tree(A, B), contents=contents)["3"] == "gone"


def test_an_entry_goes_on_with_a_copy_when_its_disk_is_away() -> None:
    """And it is new when the disk is back."""
    copy = file("/other/a.nsp", folder="/other")
    told = compare(
        [known("1", A, "one")],
        tree(copy, root="/other"),
        contents={copy.path: "one"},
        roots={ROOT: None},
    )
    assert told == {"1": copy.path}


@pytest.mark.parametrize("state", ["here", "gone"])
def test_a_file_goes_on_with_the_older_of_two_entries_that_were_its_own(
    state: str,
) -> None:
    """Where its new place was scanned first, it had two."""
    items = [known("2", A, "one", state=state), known("1", C, "one", state=state)]
    told = compare(items, tree(B), contents={B.path: "one"})
    assert told.pop("2", "gone") == "gone"
    assert told == {"1": B.path}


def test_a_copy_is_taken_once() -> None:
    twin = known("3", C, "one")
    told = compare(
        [known("1", A, "one"), known("2", B, "one"), twin],
        tree(C),
        contents={C.path: "one"},
        equal=lambda samples: [twin] if "one" in samples else [],
    )
    assert told == {"1": C.path, "2": "gone", "3": "merged into 1"}


@pytest.mark.parametrize("content", [None, "two"])
def test_a_copy_that_is_another_file_by_now_is_left_alone(content: str | None) -> None:
    twin = known("2", C, "one")
    told = compare(
        [known("1", A, "one"), twin],
        tree(C),
        contents={C.path: content},
        equal=lambda samples: [twin],
    )
    assert told == {"1": "gone"}


@pytest.mark.parametrize(
    ("twin", "expected"),
    [
        ({"is_touched": 1}, {"2": "gone"}),
        ({"serial": 0}, {"2": "/games/c.nsp", "1": "merged into 2"}),
    ],
)
def test_what_somebody_touched_takes_the_place_of_what_nobody_did(
    twin: Any, expected: dict[str, str]
) -> None:
    """Also when it has waited, and is younger."""
    older = known("1", C, "one", **twin)
    waiting = known("2", A, "one", state="offline", gone_at="2026", is_touched=1)
    told = compare(
        [waiting, older],
        tree(C),
        contents={C.path: "one"},
        equal=lambda samples: [older, waiting],
    )
    assert told == expected


TAKES: list[tuple[FoundFile, dict[str, Any], catalogd.Tree | None, str]] = [
    (A, {}, tree(C), "2"),
    (A, {"is_touched": 1}, None, "2"),
    (A, {}, None, ""),
    (A._replace(volume="uuid:other"), {}, tree(C), ""),
    (A, {"state": "offline"}, tree(C), ""),
    (A._replace(volume="mount:1"), {}, tree(C, volume="mount:1"), ""),
]


@pytest.mark.parametrize(
    ("own", "facts", "found", "ended"),
    TAKES,
    ids=[
        "gone",
        "touched",
        "unread",
        "away",
        "back without it",
        "perhaps another disk",
    ],
)
def test_an_untouched_entry_takes_the_file_of_another_one_only_if_its_own_is_gone(
    own: FoundFile, facts: dict[str, Any], found: catalogd.Tree | None, ended: str
) -> None:
    copy = file("/other/a.nsp", folder="/other")
    items = [known("1", own, "one", **facts), known("2", copy, "one")]
    told = compare(
        items,
        tree(copy, root="/other"),
        contents={copy.path: "one"},
        equal=lambda samples: items[1:],
        roots={ROOT: found},
    )
    assert [id for id in told if told[id] == "merged into 1"] == [*ended]


@pytest.mark.parametrize(("count", "missing"), [(29, 40), (30, 121), (30, 120)])
def test_many_files_that_are_missed_at_once_are_marked(
    count: int, missing: int
) -> None:
    files = [file(f"/games/{number}.nsp") for number in range(missing)]
    items = [known(str(number), row) for number, row in enumerate(files)]
    for found in (tree(*files[count:]), part("/games", *files[count:]), None):
        counts = {"/games": missing, "/other": 1}
        (*_, last) = catalogd.mark_lost(items[:count], {"/games": found}, counts)
        is_marked = last.file.volume.startswith(catalogd.LOST)
        assert is_marked == bool(
            count >= 30 and missing == 120 and found and found.is_whole()
        )


# Some of the folders in a library folder


def part(top: str, *files: FoundFile) -> catalogd.Tree:
    return catalogd.Tree(ROOT, [top], [*files], {ROOT: DISK})


def test_what_was_gone_from_folders_that_are_not_read_stays_gone() -> None:
    gone = known("1", A, **GONE)
    assert compare([gone], part("/games/deep")) == {}


def test_what_was_gone_may_come_back_in_any_folder() -> None:
    gone = known("1", A, "one", **GONE)
    moved = file("/games/deep/er/a.nsp")
    told = compare([gone], part("/games/deep", moved), contents={moved.path: "one"})
    assert told == {"1": moved.path}


def test_only_the_outermost_of_several_folders_are_read() -> None:
    paths = ["/a/b", "/a", "/a-b", "/a/b/c", "/b/c", "/a", "/ab"]
    assert catalogd.outermost(paths) == ["/a-b", "/a", "/ab", "/b/c"]


def test_a_walk_below_some_folders_reads_nothing_else(library: Library) -> None:
    for name in ("x.nsp", "a/x.nsp", "a/b/x.nsp", "c/x.nsp", "d/x.nsp"):
        library.add(name)
    top, watched = str(library.folder), []
    tops = [f"{top}/{name}" for name in ("a", "d", "gone", "gone/er")]
    tree = catalogd.walk(top, ["nsp"], watch=watched.append, tops=tops)
    found = sorted(os.path.relpath(file.path, top) for file in tree.files)
    assert found == ["a/b/x.nsp", "a/x.nsp", "d/x.nsp"]
    assert len(watched) == len({*watched}) == 5
    assert not tree.unreadable
    assert len(tree.volumes) == 1


# walk: the disk


def remove_in_walk(
    library: Library, paths: list[pathlib.Path], remaining: int = 0
) -> catalogd.Tree:
    """What a walk finds where folders are removed when the first file is found."""

    def tick(count: int) -> None:
        for path in paths if count > remaining else ():
            shutil.rmtree(path, ignore_errors=True)

    return catalogd.walk(str(library.folder), ["nsp"], tick)


def test_folders_that_are_removed_in_a_walk_are_not_away(library: Library) -> None:
    library.add("a.nsp")
    for name in ("b/c/d/1.nsp", "b/c/e/1.nsp", "f/2.nsp"):
        library.add(name)
    tree = remove_in_walk(library, [library.folder / "b", library.folder / "f"])
    assert not tree.unreadable
    assert {*tree.volumes} == {str(library.folder)}
    item = known("1", file(f"{library.folder}/b/c/d/1.nsp"), state="here")
    volume = tree.volumes[str(library.folder)]
    assert not catalogd.is_away(item.file.path, volume, tree)


def test_a_library_folder_that_is_removed_in_a_walk_cannot_be_read(
    library: Library,
) -> None:
    library.add("a.nsp")
    library.add("b/c/1.nsp")
    with pytest.raises(OSError, match="No such file"):
        remove_in_walk(library, [library.folder])


def test_a_disk_that_is_pulled_in_a_walk_is_away(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is below its mount point was listed before."""
    point = library.folder / "disk"
    for name in ("a/1.nsp", "b/2.nsp"):
        library.add(f"disk/{name}")

    def volume_name(folder: str, names: dict[int, str]) -> str:
        os.stat(folder)
        is_there = os.path.exists(point / "a") and folder.startswith(str(point))
        return "uuid:disk" if is_there else "uuid:system"

    monkeypatch.setattr(catalogd, "volume_name", volume_name)
    library.add("always.nsp")
    read = os.scandir

    def scandir(path: Any) -> Any:
        found = read(path)
        if str(path) == str(point):
            listed = [*found]
            found.close()
            os.rename(point, library.folder.with_name("pulled"))
            os.mkdir(point)
            return contextlib.nullcontext(listed)
        return found

    monkeypatch.setattr(os, "scandir", scandir)
    tree = catalogd.walk(str(library.folder), ["nsp"])
    assert [os.path.basename(row.path) for row in tree.files] == ["always.nsp"]
    assert catalogd.is_away(f"{point}/a/1.nsp", "uuid:disk", tree)


def names(library: Library, *types: str) -> list[str]:
    found = catalogd.walk(str(library.folder), types or ("nsp", "nro"))
    return sorted(os.path.relpath(row.path, library.folder) for row in found.files)


def test_a_walk_finds_the_files_of_the_wanted_types(library: Library) -> None:
    for name in ("a.nsp", "deep/er/b.NRO", "c.txt", "d", "nsp", "e.nsp.txt", "f.x.nsp"):
        library.add(name)
    assert names(library) == ["a.nsp", "deep/er/b.NRO", "f.x.nsp"]


def test_what_is_unfinished_or_hidden_is_no_entry(library: Library) -> None:
    for name in (".a.nsp", "~b.nsp", "._c.nsp", ".d/e.nsp", "f.nsp.part", "g.part"):
        library.add(name)
    for name in ("h.nsp.tmp", "i.nsp.crdownload", "j.nsp~", "k.nsp"):
        library.add(name)
    assert names(library) == ["k.nsp"]
    assert names(library, "part", "tmp", "crdownload", "nsp") == ["k.nsp"]


BINS = (
    *("$RECYCLE.BIN", "$Recycle.Bin", "System Volume Information", "lost+found"),
    *("#recycle", "@Recycle", "@eaDir", ".Trash-1000", "#snapshot"),
    *("@Recently-Snapshot", ".zfs", "~snapshot", "Network Trash Folder"),
)


@pytest.mark.parametrize("bin", BINS)
def test_what_was_deleted_is_gone_though_a_bin_has_it(
    bin: str, library: Library, scanner: catalogd.Scanner
) -> None:
    path = library.add("deep/a.nsp")
    library.add("b.nsp")
    library.add(f"deep/{bin}/$I0X7Q2A.nsp", bytes(544))
    scanner.scan()
    assert [*ids_by_name(scanner)] == ["a.nsp", "b.nsp"]
    os.rename(path, f"{library.folder}/deep/{bin}/$R0X7Q2A.nsp")
    assert len(scanner.scan().gone) == 1
    assert [*ids_by_name(scanner)] == ["b.nsp"]


def test_what_is_passed_over_is_named(library: Library) -> None:
    for name in ("a.nsp", ".b.nsp", "~c.XCI", "._a.nsp", ".d/e.nsp", ".f.txt", "g.txt"):
        library.add(name)
    for name in ("h.ZIP", "deep/i.7z", "#recycle/j.nsp", "k.zip/l.nsp", "OLD/m.nsp"):
        library.add(name)
    for name in ("n demo.nsp", "n demo.txt", "deep/wip/o.nsp", "wip/p.nsp"):
        library.add(name)
    (library.folder / "q").symlink_to(library.folder)
    folder = str(library.folder)
    patterns = "old", "*DEMO*", "deep/wip/"
    exclusion = catalogd.Exclusion(patterns, [folder])
    tree = catalogd.walk(folder, ["nsp", "xci"], exclusion=exclusion)
    listed = sorted(os.path.relpath(row.path, folder) for row in tree.files)
    assert listed == ["a.nsp", "k.zip/l.nsp", "wip/p.nsp"]
    found = {os.path.relpath(path, folder): it for path, it in tree.passed_over.items()}
    assert found == {
        ".b.nsp": ("passed_hidden", ""),
        "~c.XCI": ("passed_hidden", ""),
        "h.ZIP": ("passed_archive", ""),
        "deep/i.7z": ("passed_archive", ""),
        "OLD": ("passed_folder", "old"),
        "n demo.nsp": ("passed_file", "*DEMO*"),
        "deep/wip": ("passed_folder", "deep/wip/"),
        "q": ("passed_link", ""),
    }
    tree = catalogd.walk(folder, ["zip", "nsp"])
    assert "h.ZIP" in {os.path.basename(row.path) for row in tree.files}


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*demo*", "/lib/A Demo.nsp", True),
        ("*demo*", "/lib/demos/a.nsp", True),
        ("a", "/lib/a.nsp", False),
        ("old/*", "/lib/old/deep/a.nsp", True),
        ("old/*", "/lib/new/old/a.nsp", False),
        ("old/", "/lib/old/a.nsp", True),
        ("old/", "/lib/new/old/a.nsp", False),
        ("OLD/A.NSP", "/lib/old/a.nsp", True),
        ("A [v0].nsp", "/lib/a [v0].nsp", True),
        ("[ab].nsp", "/lib/b.nsp", True),
        ("caf\u00e9", "/lib/cafe\u0301/a.nsp", True),
        ("lib", "/lib/a.nsp", False),
        ("*", "/lib", False),
        ("*", "/other/a.nsp", False),
    ],
)
def test_a_pattern_is_for_names_or_for_paths_from_the_library_folder(
    pattern: str, path: str, fits: bool
) -> None:
    exclusion = catalogd.Exclusion([pattern], ["/lib"])
    assert exclusion.pattern(path) == (pattern if fits else "")


class Excluding:
    """A library whose owner changes what is excluded, which restarts the service."""

    def __init__(self, library: Library, store: catalogd.Store) -> None:
        self.library, self.store = library, store
        self.folder = str(library.folder)

    def scan(self, *patterns: str) -> catalogd.Changes:
        options = catalogd.Settings(
            folders=(self.folder,), settle=0, exclude=patterns, forget_after=30
        )
        self.scanner = catalogd.Scanner(self.store, options)
        return self.scanner.scan()

    def begin(self) -> tuple[str, str]:
        """Scan a file in "wip" and another one; return path and id of the first."""
        path = self.library.add("wip/a.nsp")
        self.library.add("b.nsp")
        self.scan()
        return path, ids_by_name(self.scanner)["a.nsp"]

    def names(self) -> list[str]:
        return sorted(ids_by_name(self.scanner))

    def state(self, entry: str) -> str:
        return next(it.state for it in self.store.entries.files() if it.id == entry)


@pytest.fixture
def excluding(library: Library, store: catalogd.Store) -> Excluding:
    return Excluding(library, store)


def test_an_excluded_entry_waits_unlisted_and_is_itself_again(
    excluding: Excluding, clock: Clock
) -> None:
    entries, (_, entry) = excluding.store.entries, excluding.begin()
    entries.set_ages([entry], 7)
    assert len(excluding.scan("wip").excluded) == 1
    for _ in range(2):
        clock.now += 400 * 86400
        assert not any(excluding.scan("wip"))
        assert excluding.names() == ["b.nsp"]
        assert excluding.scanner.state.disks == []
        assert not excluding.scanner.state.problems()
    assert [str(it) for it in excluding.scanner.state.passed_over] == [
        "1 excluded folder"
    ]
    excluding.scan()
    assert ids_by_name(excluding.scanner)["a.nsp"] == entry
    assert entries.ages() == {entry: 7}
    assert excluding.scanner.state.passed_over == []


def test_an_excluded_file_that_was_deleted_counts_from_the_end_of_the_pattern(
    excluding: Excluding, clock: Clock
) -> None:
    path, entry = excluding.begin()
    excluding.scan("wip")
    os.remove(path)
    clock.now += 400 * 86400
    assert [it.id for it in excluding.scan().gone] == [entry]
    clock.now += 29 * 86400
    assert not excluding.scan().forgotten
    clock.now += 2 * 86400
    assert [it.id for it in excluding.scan().forgotten] == [entry]


def test_what_was_gone_is_not_forgotten_while_its_folder_is_excluded(
    excluding: Excluding, clock: Clock
) -> None:
    path, entry = excluding.begin()
    os.remove(path)
    excluding.scan()
    clock.now += 400 * 86400
    excluding.scan("wip")
    assert excluding.state(entry) == "excluded"


def test_all_that_is_excluded_is_no_disk_that_is_away(excluding: Excluding) -> None:
    for number in range(40):
        excluding.library.add(f"wip/{number}.nsp")
    excluding.scan()
    for _ in range(2):
        excluding.scan("*.nsp")
        assert excluding.names() == []
        assert excluding.scanner.state.disks == []
        assert not excluding.scanner.state.problems()
        [told] = excluding.scanner.state.passed_over
        assert told == "40 excluded files"
    excluding.scan()
    assert len(excluding.names()) == 40


def test_files_that_were_missed_at_once_are_not_told_once_they_are_excluded(
    excluding: Excluding,
) -> None:
    for number in range(40):
        excluding.library.add(f"wip/{number}.nsp")
    excluding.library.add("b.nsp")
    excluding.scan()
    shutil.rmtree(excluding.library.folder / "wip")
    excluding.scan()
    assert len(excluding.scanner.state.disks) == 1
    excluding.scan("wip")
    assert excluding.scanner.state.disks == []
    excluding.scan()
    assert len(excluding.scanner.state.disks) == 1


def test_an_excluded_entry_takes_no_copy_but_goes_along_with_its_file(
    excluding: Excluding,
) -> None:
    entries = excluding.store.entries
    path = excluding.library.add("wip/a.nsp", b"equal")
    excluding.library.add("copy.nsp", b"equal")
    excluding.scan()
    entry = ids_by_name(excluding.scanner)["a.nsp"]
    copy = ids_by_name(excluding.scanner)["copy.nsp"]
    entries.edit(entry, {"name": "Mine"})
    excluding.scan("wip")
    excluding.library.add("another.nsp", b"equal")
    excluding.scan("wip")
    assert ids_by_name(excluding.scanner)["copy.nsp"] == copy
    assert excluding.names() == ["another.nsp", "copy.nsp"]
    os.rename(path, excluding.library.folder / "done.nsp")
    excluding.scan("wip")
    assert ids_by_name(excluding.scanner)["done.nsp"] == entry


def file_times(scanner: catalogd.Scanner) -> dict[str, str | None]:
    rows = scanner.database.rows("SELECT name, file_time FROM entries")
    return {row["name"]: row["file_time"] for row in rows}


def test_what_the_first_scan_of_a_folder_found_has_the_time_of_its_file(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    scanner.disks.growing.settle = 0
    scanner.scan()  # nothing: perhaps its disk is mounted later
    library.add("a.nsp")
    library.add("b.nsp", mtime=clock.now + 9)
    scanner.scan()
    library.add("c.nsp")
    scanner.scan(tops=[str(library.folder)])
    old = catalogd.stamp(LONG_AGO)
    assert file_times(scanner) == {"a": old, "b": None, "c": None}
    other = library.folder.parent / "other"
    other.mkdir()
    shutil.copy2(library.folder / "a.nsp", other / "d.nsp")
    add_folder(scanner, str(other))
    scanner.scan()
    assert file_times(scanner)["d"] == old
    listed = json.loads(scanner.entries.list_json(EVERYTHING, for_page=True))
    assert {it["name"]: it.get("file_time") for it in listed}["a"] == old


def test_a_folder_that_appears_is_excluded_too(excluding: Excluding) -> None:
    excluding.library.add("a.nsp")
    excluding.scan("wip")
    path = excluding.library.add("wip/b.nsp")
    scanner = excluding.scanner
    scanner.scan(tops=[os.path.dirname(path)])
    assert excluding.names() == ["a.nsp"]
    assert [*scanner.disks.passed_over] == [os.path.dirname(path)]
    excluding.library.add("deep/c.zip")
    scanner.scan(tops=[f"{excluding.folder}/deep"])
    assert len(scanner.disks.passed_over) == 2
    shutil.rmtree(os.path.dirname(path))
    scanner.scan(tops=[os.path.dirname(path)])
    assert [*scanner.disks.passed_over] == [f"{excluding.folder}/deep/c.zip"]


def test_links_pipes_and_devices_are_no_entries(library: Library) -> None:
    outside = library.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.nsp").write_bytes(b"x")
    library.add("a.nsp")
    (library.folder / "link.nsp").symlink_to(outside / "secret.nsp")
    (library.folder / "inside.nsp").symlink_to(library.folder / "a.nsp")
    (library.folder / "folder").symlink_to(outside)
    (library.folder / "loop").symlink_to(library.folder)
    os.mkfifo(library.folder / "pipe.nsp")
    (library.folder / "broken.nsp").symlink_to("nowhere")
    assert names(library) == ["a.nsp"]


class Status(NamedTuple):
    """What Windows tells of a path."""

    st_mode: int
    st_reparse_tag: int


def test_junctions_of_windows_are_neither_walked_nor_opened(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    path = library.add("junction/b.nsp")
    tags = {"junction": 0xA0000003, "a.nsp": 0x80000013}  # of deduplicated files
    monkeypatch.setattr(os, "supports_dir_fd", set())
    monkeypatch.setattr(
        os, "lstat", lambda path: Status(0, tags.get(os.path.basename(path), 0))
    )
    assert names(library) == ["a.nsp"]
    with catalogd.open_file(f"{library.folder}/a.nsp", str(library.folder)) as file:
        assert file.read() == b"a.nsp"
    with pytest.raises(OSError, match="junction is a link"):
        catalogd.open_file(path, str(library.folder))


def test_a_folder_that_is_swapped_for_a_link_is_not_walked(library: Library) -> None:
    """It is swapped after its folder was read."""
    library.add("b/c.nsp")
    library.add("a.nsp")
    outside = library.folder.parent / "outside"

    def swap(count: int) -> None:
        if not outside.exists():
            (library.folder / "b").rename(outside)
            (library.folder / "b").symlink_to(outside)

    tree = catalogd.walk(str(library.folder), ["nsp"], swap)
    assert [os.path.basename(file.path) for file in tree.files] == ["a.nsp"]


def test_a_folder_with_an_extension_is_a_folder(library: Library) -> None:
    library.add("split.nsp/00.nsp")
    assert names(library) == ["split.nsp/00.nsp"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_a_name_that_is_no_unicode_is_logged_and_not_served(library: Library) -> None:
    library.add("a.nsp")
    bad = os.fsencode(library.folder) + b"/bad\xff"
    with open(bad + b".nsp", "wb"):
        pass
    os.mkdir(bad)
    found = catalogd.walk(str(library.folder), ["nsp"])
    folder = str(library.folder)
    assert found.passed_over == {
        f"{folder}/bad\\xff.nsp": ("passed_misnamed", ""),
        f"{folder}/bad\\xff": ("passed_misnamed", ""),
    }
    assert names(library) == ["a.nsp"]


def test_a_missing_folder_is_an_error_not_an_empty_tree(library: Library) -> None:
    with pytest.raises(OSError, match="No such file"):
        catalogd.walk(str(library.folder / "missing"), ["nsp"])


def test_a_folder_that_cannot_be_read_is_logged(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    library.add("bad/b.nsp")
    library.add("good/c.nsp")
    fail_in(monkeypatch, "bad")
    found = catalogd.walk(str(library.folder), ["nsp"])
    assert found.unreadable == {str(library.folder / "bad")}
    assert len(found.files) == 2


def fail_in(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make folders fail by name as on a disk that breaks: root reads them all."""
    real = os.scandir

    def scandir(path: str | int) -> Any:
        if os.path.basename(str(path)) in names:
            raise OSError(5, "Input/output error", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


class Row:
    """A folder's row of which the disk cannot tell more, or tells what it must."""

    def __init__(self, result: os.stat_result | OSError) -> None:
        self.name, self.path, self.result = "a.nsp", "/games/a.nsp", result

    def stat(self, follow_symlinks: bool) -> os.stat_result:
        if isinstance(self.result, OSError):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("problem", "is_told"),
    [(FileNotFoundError(2, "gone"), False), (OSError(5, "broken"), True)],
)
def test_a_file_that_cannot_be_measured_is_logged_unless_it_is_gone(
    problem: OSError, is_told: bool, library: Library
) -> None:
    folder, row = str(library.folder), Row(problem)
    row.path = os.path.join(folder, "a.nsp")
    tree = catalogd.Tree(folder, [folder])
    tree._add_file(row.path, "disk", [row], "")  # type: ignore[list-item]
    assert (tree.files, tree.unreadable) == ([], {row.path} if is_told else set())


def test_where_a_folder_does_not_tell_inodes_the_file_is_asked(
    library: Library,
) -> None:
    path = library.add("a.nsp")
    row = Row(os.stat_result((stat.S_IFREG, 0, 0, 1, 0, 0, 5, 0, 0, 0)))
    row.path = path
    tree = catalogd.Tree("/games", ["/games"])
    tree._add_file(row.path, "disk", [row], "")  # type: ignore[list-item]
    assert tree.files[0].inode == os.stat(path).st_ino


def test_a_volume_is_named_by_the_id_that_is_known(
    library: Library, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "UDEV_RECORDS", str(tmp_path))
    folder = str(library.folder)
    device = os.stat(folder).st_dev
    record = tmp_path / f"b{os.major(device)}:{os.minor(device)}"
    record.write_text(
        "I:1\nE:ID_FS_UUID_ENC=a\nE:ID_FS_UUID=1234-ABCD\nE:ID_FS_TYPE=b\n"
    )
    assert catalogd.volume_name(folder, {}) == "uuid:1234-ABCD"
    record.write_text("E:ID_BUS=usb\n")
    sizes = dict.fromkeys(("f_frsize", "f_blocks", "f_bfree", "f_bavail"), 1)
    told = Mock(f_fsid=0xABC, **sizes)
    monkeypatch.setattr(os, "statvfs", lambda path: told)
    assert catalogd.volume_name(folder, {}) == "fsid:abc"
    for told.f_fsid in (0, device):  # as FUSE's, and as XFS's
        assert catalogd.volume_name(folder, {}).startswith("mount:")
    monkeypatch.delattr(os, "statvfs")  # as on Windows
    monkeypatch.setattr(catalogd, "mounts", Mock(return_value=[]))
    assert catalogd.volume_name(folder, {}).startswith("mount:")


def test_a_disk_without_an_id_is_named_by_its_mount(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk by kind, size and mount point, others by source and mount point."""
    folder, names = str(library.folder), set()
    monkeypatch.setattr(catalogd, "file_system_id", lambda folder, device: "")
    mount = catalogd.Mount("line", "/games", "xfs", "/dev/sda1")
    usage = Mock(total=1)
    monkeypatch.setattr(catalogd.shutil, "disk_usage", lambda folder: usage)
    for other in (
        mount,
        mount._replace(point="/mnt"),
        mount._replace(kind="ext4"),
        mount._replace(kind="nfs4", source="nas:/a"),
        mount._replace(kind="nfs4", source="nas:/b"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(catalogd, "mounts", lambda path, other=other: [other])
            names.add(catalogd.volume_name(folder, {}))
            patch.setattr(usage, "total", 2)
            names.add(catalogd.volume_name(folder, {}))
    assert len(names) == 3 * 2 + 2, "the size of a share may change"
    with monkeypatch.context() as patch:  # as on Windows, or in a container
        patch.setattr(catalogd, "mounts", lambda path: [])
        names.add(catalogd.volume_name(folder, {}))
        assert len({catalogd.volume_name(folder, {})} - names) == 0
    assert len(names) == 9


def test_nested_and_doubled_library_folders_are_walked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/pi")
    folders = ["/games/switch", "~/games", "/games/", "/games", "/games2", "/"]
    assert catalogd.library_folders(folders) == ["/"]
    assert catalogd.library_folders(folders[:-1]) == [
        "/games",
        "/games2",
        "/home/pi/games",
    ]


def test_a_library_folder_whose_path_is_no_unicode_is_refused() -> None:
    with pytest.raises(catalogd.Problem, match=r"'/games\\udcff': the path"):
        catalogd.library_folders(["/games\udcff"])


# The scanner, with a real disk and a real store


def listed(scanner: catalogd.Scanner) -> list[dict[str, Any]]:
    """What can be downloaded now, as the list tells it."""
    entries: list[dict[str, Any]] = json.loads(scanner.entries.list_json(EVERYTHING))
    return entries


def ids_by_name(scanner: catalogd.Scanner) -> dict[str, str]:
    """Id by file name, of what can be downloaded now."""
    return {os.path.basename(row["source"]): row["id"] for row in listed(scanner)}


def test_a_scan_registers_files(library: Library, scanner: catalogd.Scanner) -> None:
    path = library.add("Celeste [0100AAAABBBB0000][v65536].nsp", containers.nsp())
    scanner.scan()
    (entry,) = listed(scanner)
    assert entry == {
        "id": entry["id"],
        "name": "Celeste",
        "source": path,
        "type": "filepath",
        "file_type": "nsp",
        "size": len(containers.nsp()),
        "created_at": "2027-01-15T08:00:00",
        "created_by": "scanner",
        "metadata": {
            "description": "",
            "version": "65536",
            "patch": 1,
            "title_id": "0100AAAABBBB0000",
            "complete": True,
            "kind": "base",
            "base_id": "0100AAAABBBB0000",
        },
    }


def test_ids_outlive_rescans_restarts_renames_and_moves(
    library: Library, scanner: catalogd.Scanner
) -> None:
    first, second = library.add("a.nsp"), library.add("b.nsp")
    scanner.scan()
    before = ids_by_name(scanner)
    scanner.scan()
    assert ids_by_name(scanner) == before
    os.rename(first, library.folder / "renamed.nsp")
    (library.folder / "deep").mkdir()
    os.rename(second, library.folder / "deep" / "b.nsp")
    catalogd.Scanner(scanner.store, scanner.settings).scan()
    assert ids_by_name(scanner) == {
        "renamed.nsp": before["a.nsp"],
        "b.nsp": before["b.nsp"],
    }


def volumes(scanner: catalogd.Scanner) -> set[str]:
    rows = scanner.database.rows(
        "SELECT volume FROM entries WHERE state = 'here'"
        " UNION ALL SELECT volume FROM title_images"
    )
    return {row["volume"] for row in rows}


def test_an_upgrade_renames_volumes_without_opening_a_file(
    library: Library,
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a.nsp", "b.nsp", "0100ABCD00010000.png"):
        library.add(name)
    path = library.add("gone.nsp")
    scanner.scan()
    os.remove(path)
    scanner.scan()
    before = [(item.id, item.state) for item in scanner.entries.files()]
    with scanner.database.writing() as db:  # as 0.2.0 named it, by the device
        db.execute("UPDATE entries SET volume = '811'")
        db.execute("UPDATE title_images SET volume = '811'")
    monkeypatch.setattr(catalogd, "UDEV_RECORDS", str(tmp_path))
    device = os.stat(path.removesuffix("gone.nsp")).st_dev
    record = tmp_path / f"b{os.major(device)}:{os.minor(device)}"
    record.write_text("E:ID_FS_UUID=1234-ABCD\n")
    started = catalogd.Scanner(scanner.store, scanner.settings)
    assert not any(started.scan()._replace(updated=()))
    assert started.state.read == 0
    assert volumes(scanner) == {"uuid:1234-ABCD"}
    assert [(item.id, item.state) for item in scanner.entries.files()] == before


def test_a_folder_on_a_disk_without_an_id_is_scanned_in_parts(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "file_system_id", lambda folder, device: "")
    library.add("a.nsp")
    library.add("deep/b.nsp")
    scanner.scan()
    (name,) = volumes(scanner)
    for tops in ([f"{library.folder}/deep"], []):
        library.add(f"deep/{len(tops)}.nsp")
        os.remove(library.folder / "deep" / "b.nsp") if tops else None
        scanner.scan(tops=tops)
        assert volumes(scanner) == {name}
    states = {
        os.path.basename(row.file.path): row.state for row in scanner.entries.files()
    }
    assert states == {
        "a.nsp": "here",
        "b.nsp": "gone",
        "0.nsp": "here",
        "1.nsp": "here",
    }


def test_an_entry_keeps_its_overrides_and_its_queue_through_a_move(
    library: Library, scanner: catalogd.Scanner, key: str
) -> None:
    path = library.add("a.nsp")
    scanner.scan()
    (entry,) = listed(scanner)
    scanner.entries.edit(entry["id"], {"name": "Mine", "description": "A note"})
    scanner.store.queue.send(1, entry["id"])
    (library.folder / "deep").mkdir()
    os.rename(path, library.folder / "deep" / "b.nsp")
    scanner.scan()
    (after,) = listed(scanner)
    assert (after["id"], after["name"]) == (entry["id"], "Mine")
    assert after["metadata"]["description"] == "A note"
    assert [item["entry"] for item in scanner.store.clients.pending(1)] == [entry["id"]]


def test_a_rename_gives_the_name_of_the_new_file_name(
    library: Library, scanner: catalogd.Scanner
) -> None:
    path = library.add("clst.nsp")
    scanner.scan()
    os.rename(path, library.folder / "Celeste [v0].nsp")
    scanner.scan()
    (entry,) = listed(scanner)
    assert (entry["name"], entry["metadata"]["patch"]) == ("Celeste", 0)


def test_a_removed_file_is_not_listed_and_comes_back_with_its_id(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    path, _ = library.add("a.nsp"), library.add("b.nsp")
    scanner.scan()
    before = ids_by_name(scanner)
    os.remove(path)
    scanner.scan()
    assert "a.nsp" not in ids_by_name(scanner)
    with pytest.raises(catalogd.NotFound):
        scanner.entries.get(before["a.nsp"], EVERYTHING)
    clock.now += 29 * 86400
    scanner.scan()
    library.add("deep/a.nsp", b"a.nsp")
    scanner.scan()
    assert ids_by_name(scanner) == before


def test_an_unplugged_disk_forgets_nothing_ever(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    library.add("a.nsp")
    scanner.scan()
    before = ids_by_name(scanner)
    away = library.folder.with_name("away")
    os.rename(library.folder, away)
    for days in (0, 40, 400):
        clock.now += days * 86400
        scanner.scan()
        assert ids_by_name(scanner) == {}
    os.mkdir(library.folder)  # an empty mount point
    clock.now += 400 * 86400
    scanner.scan()
    os.rmdir(library.folder)
    os.rename(away, library.folder)
    scanner.scan()
    assert ids_by_name(scanner) == before


def test_no_file_is_forgotten_by_a_clock_that_may_be_wrong(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    uptime = Clock()
    scanner.database.clock = catalogd.Clock(clock, uptime)
    path = library.add("a.nsp")
    library.add("b.nsp")
    scanner.scan()
    os.unlink(path)
    scanner.scan()
    clock.now += 400 * 86400
    assert not scanner.scan().forgotten
    for now in (clock, uptime):
        now.now += 3600
    assert len(scanner.scan().forgotten) == 1
    assert len([*scanner.entries.files()]) == 1


def test_a_start_with_the_clock_years_ahead_forgets_nothing_that_was_touched(
    library: Library, store: catalogd.Store, settings: catalogd.Settings, clock: Clock
) -> None:
    account = store.accounts.add("anna", "-")
    store.accounts.add_session(account, b"session", "browser")
    paths = {name: library.add(f"{name}.nsp") for name in ("edited", "plain", "there")}
    scanner = catalogd.Scanner(store, settings)
    scanner.scan()
    before = ids_by_name(scanner)
    store.entries.edit(before["edited.nsp"], {"description": "Mine."})
    for name in ("edited", "plain"):
        os.remove(paths[name])
    catalogd.Scanner(store, settings).scan()
    store.close()
    clock.now += 5 * 365 * 86400
    told = catalogd.Clock(clock, clock)
    with contextlib.closing(catalogd.Store(store.database.folder, clock=told)) as again:
        scanner = catalogd.Scanner(again, settings)
        again.drop_old()
        assert not scanner.scan().forgotten
        assert again.accounts.session_holder(b"session")
        clock.now += 3600
        assert [row.id for row in scanner.scan().forgotten] == [before["plain.nsp"]]
        assert again.accounts.session_holder(b"session")
        library.add("edited.nsp")
        scanner.scan()
        assert ids_by_name(again)["edited.nsp"] == before["edited.nsp"]


def test_folders_are_compared_again_each_hour_for_what_is_to_be_forgotten(
    library: Library,
    scanner: catalogd.Scanner,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library.add("a.nsp")
    clock.now += 3600  # the clock is believed from then on
    scanner.scan()
    compared: list[Any] = []
    find = catalogd.find_changes
    monkeypatch.setattr(
        catalogd, "find_changes", lambda *given: compared.append(given) or find(*given)
    )
    for seconds, times in ((60, 0), (3600, 1), (60, 1), (3600, 2)):
        clock.now += seconds
        scanner.scan()
        assert len(compared) == times


def test_a_copy_to_another_library_and_a_removal_keep_the_id(
    tmp_path: pathlib.Path, store: catalogd.Store, clock: Clock
) -> None:
    old, new = Library(tmp_path / "old"), Library(tmp_path / "new")
    settings = catalogd.Settings(folders=(str(old.folder), str(new.folder)))
    scanner = catalogd.Scanner(store, settings)
    path = old.add("a.nsp", b"content")
    old.add("other.nsp")
    scanner.scan()
    before = ids_by_name(scanner)["a.nsp"]
    copy = new.add("b.nsp", b"content")  # in the same second
    scanner.scan()
    assert len(ids_by_name(scanner)) == 3
    os.remove(path)
    clock.now += 60
    scanner.scan()
    assert ids_by_name(scanner)["b.nsp"] == before
    assert store.entries.get(before, EVERYTHING)["source"] == copy
    old.add("a.nsp", b"content")  # and back: the copy's id has waited for it
    scanner.scan()
    assert len(ids_by_name(scanner)) == 3
    assert len(list(store.entries.files())) == 3


def test_a_copy_that_was_queued_keeps_its_own_id(
    library: Library, scanner: catalogd.Scanner, clock: Clock, key: str
) -> None:
    path = library.add("a.nsp", b"content")
    scanner.scan()
    clock.now += 60
    library.add("b.nsp", b"content")
    scanner.scan()
    copy = ids_by_name(scanner)["b.nsp"]
    scanner.store.queue.send(1, copy)
    os.remove(path)
    scanner.scan()
    assert ids_by_name(scanner) == {"b.nsp": copy}


def test_a_rescan_that_finds_nothing_new_opens_nothing_and_writes_nothing(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    scanner.scan()
    monkeypatch.setattr(catalogd, "open_file", None)
    monkeypatch.setattr(scanner.database, "writing", None)
    assert not any(scanner.scan())
    assert not any(catalogd.Scanner(scanner.store, scanner.settings).scan())


def test_a_file_that_cannot_be_opened_is_logged_once_and_tried_again(
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library.add("a.nsp")

    def refuse(path: str, folder: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "open_file", refuse)
        scanner.scan()
        scanner.scan()
    assert [row.message for row in caplog.records] == [
        f"{library.folder}/a.nsp is not served: {catalogd.refusal(DENIED)}."
    ]
    for _ in range(2):
        scanner.scan()
    assert ids_by_name(scanner)
    told = caplog.messages[0].removeprefix(f"{library.folder}/a.nsp ")
    scanner.disks.warn(f"{library.folder}/a.nsp", told)
    assert caplog.messages == [caplog.messages[0]] * 2  # anew after it was well


def test_the_log_names_what_is_offline_unreadable_or_misnamed(
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library.add("bad/a.nsp")
    with open(os.fsencode(library.folder) + b"/\xff.nsp", "wb"):
        pass
    fail_in(monkeypatch, "bad")
    add_folder(scanner, "/missing")
    scanner.scan()
    assert [row.message for row in caplog.records] == [
        f"{library.folder}/bad cannot be read. The entries in it wait.",
        f"{library.folder}/\\xff.nsp is not served: its name is not valid UTF-8."
        " Rename it.",
        "/missing does not exist yet. Create it, or connect its disk.",
    ]
    assert online(scanner) == {str(library.folder): 0}


def test_a_folder_that_must_not_be_read_is_offline_with_a_hint() -> None:
    assert catalogd.why_offline("/games", DENIED, is_known=True) == (
        f"/games is offline: {catalogd.refusal(DENIED)}. Let the service read it."
    )


def test_a_scan_that_is_asked_for_begins_at_once_and_tells_what_has_changed(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner.disks, "changed", lambda is_due: [])
    scanner.start()
    wait_for(lambda: scanner.state.finished)
    library.add("a.nsp")
    with catalogd.exclusive(scanner.database.folder, "scan", wait=60):
        scanner.rescan()
        assert scanner.is_asked()  # it cannot end here
    wait_for(lambda: not scanner.is_asked())
    assert scanner.state.result == "1 added"
    scanner.stop()


def test_a_scan_that_is_asked_for_has_ended_where_it_fails(
    scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "scan", Mock(side_effect=catalogd.Busy("Later.")))
    scanner._is_answering = True
    with pytest.raises(catalogd.Busy):
        scanner._scan_and_log(scanner.folders)
    assert (scanner.is_asked(), scanner.state.problem) == (False, "Later.")


def test_a_scan_leaves_no_long_wal(library: Library, scanner: catalogd.Scanner) -> None:
    for number in range(1000):
        library.add(f"{number}.nsp")
    scanner._scan_and_log(scanner.folders)
    assert os.path.getsize(f"{scanner.database.path}-wal") == 0


@pytest.mark.parametrize("has_own_scans", [False, True])
def test_one_of_several_folders_that_comes_and_goes_is_logged_each_time(
    has_own_scans: bool,
    library: Library,
    store: catalogd.Store,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its own scans, which events of the system ask for, are not those of all."""
    caplog.set_level(logging.INFO)
    library.add("a.nsp")
    (tmp_path / "other").mkdir()
    root, away = str(library.folder), library.folder.with_name("away")
    folders = (root, str(tmp_path / "other"))
    scanner = catalogd.Scanner(store, catalogd.Settings(folders=folders, settle=0))
    scanner.scan()
    tops = [root] if has_own_scans else []
    for _ in range(3):
        os.rename(root, away)
        scanner.scan(tops=tops)
        scanner.scan(tops=tops)
        os.rename(away, root)
        scanner.scan(tops=tops)
    offline = f"{root} is offline: No such file or directory. Its entries are kept."
    assert caplog.messages == [offline, f"{root} is back."] * 3


def test_a_folder_that_is_suddenly_empty_is_offline(
    library: Library, scanner: catalogd.Scanner, caplog: pytest.LogCaptureFixture
) -> None:
    root = str(library.folder)
    scanner.scan()
    assert online(scanner) == {root: 0}
    path = library.add("a.nsp")
    scanner.scan()
    os.remove(path)
    scanner.scan()
    scanner.scan()
    told = f"{root} is offline: it is empty. Its entries are kept."
    assert caplog.messages == [told]
    assert not online(scanner)
    assert scanner.state.problems() == {root: told}
    library.add("b.nsp")
    scanner.scan()
    assert online(scanner) == {root: 1}
    assert not scanner.state.problems()


def test_a_library_folder_that_cannot_be_read_is_offline(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    scanner.scan()
    fail_in(monkeypatch, library.folder.name)
    assert len(scanner.scan().offline) == 1
    assert not online(scanner) and str(library.folder) in scanner.state.problems()


def test_many_folders_that_cannot_be_read_are_one_line(
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(300):
        library.add(f"bad {number}/{number}.nsp")
    library.add("good/a.nsp")
    scanner.scan()
    fail_in(monkeypatch, *(f"bad {number}" for number in range(300)))
    scanner.scan()
    assert caplog.messages == [
        f"{library.folder}/bad 0 cannot be read, nor can 299 more in {library.folder}."
        " The entries in it wait."
    ]
    assert ids_by_name(scanner).keys() == {"a.nsp"}


@short_and_long(count=(300, 20_000))
def test_what_many_unreadable_folders_mean_takes_linear_time(count: int) -> None:
    def cost_of(count: int) -> float:
        folders = [f"{ROOT}/{number}" for number in range(count)]
        items = [
            known(f"{folder} {n}", file(f"{folder}/{n}.nsp"))
            for folder in folders
            for n in range(2)
        ]
        disk = tree(A, unreadable=folders)
        told: list[Any] = []
        found = cost(lambda: told.extend(compare([known("a", A), *items], disk)))
        assert len(told) == len(items)
        return found

    # Another program may slow some of the attempts down.
    assert any(cost_of(count * 8) < 30 * cost_of(count) for _ in range(3))


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("moment", ["scandir", "stat"])
def test_a_disk_that_is_pulled_while_a_folder_is_read_is_away(
    moment: str,
    is_left: bool,
    library: Library,
    tmp_path: pathlib.Path,
    monkeypatch: Any,
) -> None:
    """Also where its mount point stays. Of its files none is called deleted."""
    library.add("a.nsp")
    paths = [library.add(f"disk/{number}.nsp") for number in range(4)]
    root, disk = str(library.folder), library.folder / "disk"

    def name_of(path: str, names: Any) -> str:
        os.stat(path)
        is_on = path.startswith(str(disk)) and not (tmp_path / "away").exists()
        return "uuid:disk" if is_on else "uuid:system"

    work = {"scandir": os.scandir, "stat": catalogd.stored_mtime}[moment]

    def pull(given: Any) -> Any:
        """Just before the folder is listed, or when one of its files was measured."""
        is_listed = str(given) == str(disk) or moment == "stat" and root in waiting
        if is_listed and not (tmp_path / "away").exists():
            disk.rename(tmp_path / "away")
            disk.mkdir() if is_left else None
        return work(given)

    waiting: set[str] = set()
    monkeypatch.setattr(catalogd, "volume_name", name_of)
    where = os if moment == "scandir" else catalogd
    monkeypatch.setattr(where, work.__name__, pull)
    tree = catalogd.walk(root, ["nsp"], lambda count: waiting.update([root] * count))
    missing = {*paths} - {file.path for file in tree.files}
    assert len(missing) == (4 if moment == "scandir" else 3)
    assert {catalogd.is_away(path, "uuid:disk", tree) for path in missing} == {True}


def test_a_path_that_is_spelled_in_another_way_is_on_the_volume_of_its_library() -> (
    None
):
    """As on Windows, where the settings may name a folder in other letters."""
    assert tree().volume_at("/GAMES/a.nsp") == DISK


@pytest.mark.parametrize("pulled", ["disk", "disk/x"])
def test_a_disk_that_goes_with_its_mount_point_in_mid_walk_is_away(
    pulled: str, library: Library, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    """As udisks removes it. What was not listed yet is not deleted."""
    library.add("a.nsp")
    path, disk = library.add("disk/x/b.nsp"), library.folder / "disk"
    root = str(library.folder)

    def name_of(path: str, names: Any) -> str:
        os.stat(path)
        return "uuid:disk" if path.startswith(str(disk)) else "uuid:system"

    def pull(path: str) -> None:
        if path == os.path.join(root, pulled):
            disk.rename(tmp_path / "away")

    monkeypatch.setattr(catalogd, "volume_name", name_of)
    tree = catalogd.walk(root, ["nsp"], watch=pull)
    assert catalogd.is_away(path, "uuid:disk", tree)
    assert not catalogd.is_away(os.path.join(root, "c.nsp"), "uuid:system", tree)


def test_a_growing_file_is_left_alone_until_it_is_quiet_and_stays_listed_if_it_was(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    library.add("a.nsp", mtime=clock.now - 0.1)
    scanner.scan()
    assert not ids_by_name(scanner)
    clock.now += 1
    scanner.scan()
    before = ids_by_name(scanner)
    library.add("a.nsp", b"new content", mtime=clock.now)
    for size in (len(b"a.nsp"), len(b"new content")):
        scanner.scan()
        assert ids_by_name(scanner) == before
        assert [row["size"] for row in listed(scanner)] == [size]
        clock.now += 1


def test_a_file_from_the_future_is_watched_instead(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    library.add("a.nsp", mtime=clock.now + 3600)
    scanner.scan()
    assert not ids_by_name(scanner)
    library.add("a.nsp", b"grown", mtime=clock.now + 3700)
    scanner.scan()
    time.sleep(scanner.settings.settle + 0.05)
    scanner.scan()
    assert ids_by_name(scanner)


def test_a_file_from_the_future_is_watched_for_the_whole_time(
    library: Library, store: catalogd.Store, settings: catalogd.Settings, clock: Clock
) -> None:
    patient = dataclasses.replace(settings, settle=60)
    scanner = catalogd.Scanner(store, patient)
    library.add("a.nsp", mtime=clock.now + 3600)
    scanner.scan()
    growing = dict(scanner.disks.growing.files)
    scanner.scan()
    assert scanner.disks.growing.files == growing != {}
    assert not ids_by_name(scanner)


def test_a_growing_file_that_is_removed_waits_no_longer(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    scanner.disks.growing.settle = 60
    path = library.add("a.nsp", mtime=clock.now + 3600)
    scanner.scan()
    asked = str(library.folder), False, False
    assert not scanner.disks.growing.settled(*asked)
    os.remove(path)
    told = scanner.disks.growing.settled(*asked)
    assert told == {str(library.folder)}


# A copy that pauses


ZEROS = bytes(catalogd.HOLLOW_BYTES)
HOLLOW = b"has its whole size, and its first bytes" + ZEROS


@pytest.fixture
def scanned(library: Library, scanner: catalogd.Scanner) -> catalogd.Scanner:
    """A scanner after its first scan."""
    library.add("first.nsp")
    scanner.scan()
    return scanner


def entries_of(scanner: catalogd.Scanner) -> dict[str, Any]:
    """Return whether each entry is known to be complete, by name."""
    return {it["name"]: it["metadata"].get("complete") for it in listed(scanner)}


def end_pause(scanner: catalogd.Scanner, path: str) -> None:
    """Let a day pass since the last change."""
    files = scanner.disks.growing.files
    since = files[path].since - catalogd.MAX_PAUSE_SECONDS
    files[path] = files[path]._replace(since=since)


def test_a_copy_that_pauses_is_told_as_growing_until_it_goes_on(
    library: Library, scanned: catalogd.Scanner
) -> None:
    library.add("a.nsp", HOLLOW)
    for _ in range(2):
        scanned.scan()
        assert scanned.state.result == "1 still being copied"
        assert [*entries_of(scanned)] == ["first"]
    asked, growing = (str(library.folder), False, True), scanned.disks.growing
    assert not growing.settled(*asked)
    library.add("a.nsp", HOLLOW, mtime=LONG_AGO + 1)  # it goes on, and pauses again
    assert growing.settled(*asked)
    scanned.scan()
    assert [*entries_of(scanned)] == ["first"]
    library.add("a.nsp", HOLLOW[:-1] + b"!", mtime=LONG_AGO + 2)
    scanned.scan()
    assert entries_of(scanned) == {"a": None, "first": None}
    assert not growing.files


def test_a_copy_that_pauses_for_a_day_is_listed_as_not_complete(
    library: Library, scanned: catalogd.Scanner
) -> None:
    path = library.add("a.nsp", HOLLOW)
    scanned.scan()
    end_pause(scanned, path)
    folder, growing = str(library.folder), scanned.disks.growing
    assert not growing.settled(folder, False, False)  # disks may sleep meanwhile
    assert growing.settled(folder, False, True) == {folder}
    scanned.scan()
    assert entries_of(scanned) == {"a": False, "first": None}
    before = ids_by_name(scanned)
    library.add("a.nsp", HOLLOW, mtime=LONG_AGO + 1)
    os.rename(path, library.folder / "b.nsp")
    scanned.scan()
    assert ids_by_name(scanned) == {"b.nsp": before.pop("a.nsp"), **before}


def test_zeros_behind_the_data_of_a_cartridge_do_not_make_it_incomplete(
    library: Library, scanned: catalogd.Scanner
) -> None:
    path = library.add("a.xci", containers.xci(1) + ZEROS)
    scanned.scan()
    end_pause(scanned, path)
    scanned.scan()
    assert entries_of(scanned) == {"a": True, "first": None}


def test_what_was_there_before_the_service_is_listed_whatever_its_end_is(
    library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp", HOLLOW)
    library.add("b.nsp", ZEROS[1:] + b"!")
    library.add("c.nsp", b"!" + bytes(catalogd.HOLLOW_BYTES - 1))
    scanner.scan()
    assert entries_of(scanner) == {"a": False, "b": False, "c": None}
    library.add("d.nsp", ZEROS[1:])  # too small for a pause
    scanner.scan()
    assert "d" in entries_of(scanner)


def test_what_is_listed_is_not_taken_away_by_zeros_at_its_end(
    library: Library, scanned: catalogd.Scanner
) -> None:
    before = ids_by_name(scanned)
    library.add("first.nsp", HOLLOW)
    scanned.scan()
    assert entries_of(scanned) == {"first": False}
    os.rename(library.folder / "first.nsp", library.folder / "second.nsp")
    scanned.scan()
    assert ids_by_name(scanned) == {"second.nsp": before["first.nsp"]}


def test_a_new_file_waits_longer_where_no_event_tells_that_it_was_closed(
    library: Library,
    scanner: catalogd.Scanner,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "mounts", lambda path: [])
    scanner.disks.watchers[str(library.folder)].start()
    library.add("a.nsp", mtime=clock.now - catalogd.POLLED_SETTLE_SECONDS + 1)
    scanner.scan()
    assert not ids_by_name(scanner)
    assert not scanner.disks.changed(is_due=False)
    clock.now += 2
    assert scanner.disks.changed(is_due=False) == [str(library.folder)]
    scanner.scan()
    assert ids_by_name(scanner)


@pytest.mark.root
@pytest.mark.parametrize("year", [1600, 1676, 1678, 2262, 2400])
def test_a_file_of_any_age_is_an_entry_beside_others(
    year: int, library: Library, scanner: catalogd.Scanner
) -> None:
    with small_disk(library.folder, 2**20):  # whose times have 64 bits of seconds
        path = library.add("a.nsp")
        library.add("b.nsp")
        os.utime(path, (0, (year - 1970) * 31_556_952))
        scanner.scan()
        time.sleep(scanner.settings.settle + 0.05)
        scanner.scan()
        assert ids_by_name(scanner).keys() == {"a.nsp", "b.nsp"}
        assert scanner.scan() == catalogd.Changes()


def test_icons_are_kept_and_dropped_with_their_entries(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    path = library.add("a.nro", containers.nro())
    library.add("b.nsp")
    scanner.disks.images.max_bytes = 1
    scanner.scan()
    entry = ids_by_name(scanner)["a.nro"]
    assert scanner.entries.icons.of(entry, EVERYTHING) == containers.JPEG
    assert scanner.entries.get(entry, EVERYTHING)["metadata"]["icon"]
    with pytest.raises(catalogd.NotFound):
        scanner.entries.icons.of(ids_by_name(scanner)["b.nsp"], EVERYTHING)
    os.remove(path)
    scanner.scan()
    clock.now += 31 * 86400
    scanner.scan()
    assert not scanner.database.rows("SELECT * FROM icons")


def test_images_are_written_together_until_they_take_much_memory(
    scanner: catalogd.Scanner,
) -> None:
    images = scanner.disks.images
    images.max_bytes = 2 * len(containers.JPEG)
    counts = []
    for digest in ("a", "b", "c", "d"):
        images.add(containers.JPEG, digest)
        counts.append(scanner.database.value("SELECT count(*) FROM icons"))
    assert counts == [0, 0, 3, 3]


def test_an_icon_is_kept_that_comes_in_a_scan_which_misses_another_file(
    library: Library, scanner: catalogd.Scanner
) -> None:
    path = library.add("a.nsp")
    library.add("b.nsp")
    scanner.scan()
    os.remove(path)
    library.add("c.nro", containers.nro())
    scanner.scan()
    assert icon(scanner, "c.nro") == containers.JPEG


# Covers

PNG, JPEG = containers.PNG, containers.JPEG
BASE, UPDATE = "A [0100ABCD00010000].nsp", "A [0100ABCD00010800].nsp"
ADD_ON, OTHER = "A [0100ABCD00011005].nsp", "B [0100ABCD00030000].nsp"


def icon(scanner: catalogd.Scanner, name: str) -> bytes | None:
    """The icon of the entry with this file name. The list must tell the same of it."""
    entry = ids_by_name(scanner)[name]
    try:
        image = scanner.entries.icons.of(entry, EVERYTHING)
    except catalogd.NotFound:
        image = None
    metadata = scanner.entries.get(entry, EVERYTHING)["metadata"]
    assert (image is None) == ("icon" not in metadata)
    return image


Cover = Callable[[str, dict[str, bytes]], bytes | None]


@pytest.fixture
def cover(library: Library, scanner: catalogd.Scanner) -> Cover:
    """Return a function that scans a file and some images; it returns the file's."""

    def scan(path: str, images: dict[str, bytes]) -> bytes | None:
        for name, content in {path: b"", **images}.items():
            library.add(name, content)
        scanner.scan()
        return icon(scanner, os.path.basename(path))

    return scan


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ({"A.jpg": JPEG}, JPEG),
        ({"A.JPEG": JPEG}, JPEG),
        ({"a.png": PNG}, PNG),
        ({"A.png": PNG, "A.jpg": JPEG}, JPEG),
        ({"A.png": PNG, "cover.jpg": JPEG}, PNG),
        ({"folder.png": PNG}, PNG),
        ({"Folder.png": PNG, "Cover.jpg": JPEG}, JPEG),
        ({"B.jpg": JPEG, ".A.jpg": JPEG, "A.gif": JPEG, "covers.jpg": JPEG}, None),
        ({"A.jpg": b"<svg onload=alert(1)>"}, None),
        ({"A.webp": containers.WEBP, "A-cover.jpg": JPEG}, containers.WEBP),
        ({"A-Cover.png": PNG, "cover.jpg": JPEG}, PNG),
        ({"poster.webp": containers.WEBP}, containers.WEBP),
        ({"poster.png": PNG, "folder.jpg": JPEG}, JPEG),
        ({"A.jpg": JPEG.ljust(2 << 20)}, JPEG.ljust(2 << 20)),
        ({"A.jpg": JPEG.ljust((2 << 20) + 1)}, None),
        ({"A.jpg": JPEG.ljust((2 << 20) + 1), "cover.png": PNG}, PNG),
    ],
)
def test_an_image_of_its_name_is_the_cover_of_a_file_else_one_of_its_folder(
    images: dict[str, bytes], expected: bytes | None, cover: Cover
) -> None:
    files = {f"game/{name}": content for name, content in images.items()}
    assert cover("game/A.nsp", files) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((BASE, UPDATE, ADD_ON), JPEG),
        ((BASE, OTHER), None),
        ((BASE, "c.nsp"), None),
        (("c.nsp", "d.nsp"), None),
    ],
)
def test_a_folder_has_a_cover_only_if_it_holds_one_title(
    files: tuple[str, ...],
    expected: bytes | None,
    library: Library,
    scanner: catalogd.Scanner,
) -> None:
    for name in files:
        library.add(f"game/{name}")
    library.add("game/cover.jpg", JPEG)
    library.add("game/deep/er.nsp")
    scanner.scan()
    assert {icon(scanner, name) for name in files} == {expected}
    assert icon(scanner, "er.nsp") is None


def test_a_cover_that_is_too_large_is_named(library: Library) -> None:
    library.add("a.nsp")
    library.add("b.jpg", bytes(catalogd.MAX_COVER_BYTES + 1))  # of no file
    library.add("cover.jpg/b.txt")
    path = library.add("a.jpg", bytes(catalogd.MAX_COVER_BYTES + 1))
    tree = catalogd.walk(str(library.folder), ["nsp"])
    assert tree.passed_over == {path: ("passed_cover", "")}


DENIED = PermissionError(13, "Permission denied")


@pytest.fixture
def images_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, no file but images may be opened."""
    real = catalogd.open_file

    def open_image(path: str, folder: str) -> Any:
        assert path.endswith(catalogd.COVERS), path
        return real(path, folder)

    return lambda: monkeypatch.setattr(catalogd, "open_file", open_image)


NOT_SURE = {
    "three zero bytes before the first table": containers.jpeg(8, 8, bytes(3)),
    "a length behind the end": containers.jpeg(8, 8, b"\xff\xe1\xff\xff"),
    "no frame": b"\xff\xd8\xff\xe0\0\2\xff\xd9",
    "no lines": containers.jpeg(8, 0),
    "a JPEG that is cut": containers.JPEG[:16],
    "a PNG that is cut": containers.PNG[:20],
    "a WebP that is cut": containers.WEBP[:28],
    "an extended WebP that is cut": containers.extended_webp(8, 8)[:24],
    "an animation": containers.extended_webp(8, 8, flags=0x12),
    "a WebP of another kind": containers.webp(b"VP9 ", bytes(20)),
}


@pytest.mark.parametrize("what", NOT_SURE)
def test_an_image_whose_sides_are_not_known_is_no_cover(
    what: str, cover: Cover
) -> None:
    assert cover("a.nsp", {"a.png": NOT_SURE[what]}) is None


@pytest.mark.parametrize(
    "image",
    [
        containers.PNG,
        containers.jpeg(8, 8, b"\xff\xe1\0\4ab"),
        containers.JPEG[:-2] + b"\xff\xda\0\2more data\xff\xd9 and a preview",
        containers.JPEG[:-2],  # cut behind its frame, as by a download
    ],
)
def test_an_image_whose_sides_are_known_is_a_cover(image: bytes, cover: Cover) -> None:
    assert cover("a.nsp", {"a.png": image}) == image


SIZED = {
    "png": containers.png,
    "jpg": containers.jpeg,
    "webp": containers.lossy_webp,
    "lossless": containers.lossless_webp,
    "extended": containers.extended_webp,
}


@pytest.mark.parametrize("kind", SIZED)
@pytest.mark.parametrize(
    ("sides", "is_shown"),
    [((4096, 4096), True), ((4097, 1), False), ((1, 4097), False)],
)
def test_a_cover_of_too_many_pixels_is_none(
    kind: str, sides: tuple[int, int], is_shown: bool, cover: Cover
) -> None:
    image = SIZED[kind](*sides)
    assert cover("a.nsp", {"a.png": image}) == (image if is_shown else None)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ({"0100ABCD00010000.jpg": JPEG}, JPEG),
        ({"0100abcd00010000.PNG": PNG}, PNG),
        ({"A (2020) [0100ABCD00010000] front.jpg": JPEG}, JPEG),
        ({"b/0100ABCD00010000.png": PNG, "a/0100ABCD00010000.jpg": JPEG}, JPEG),
        ({"0100ABCD00010000.jpg": JPEG, f"{BASE[:-4]}.png": PNG}, PNG),
        ({"a/0100ABCD00010000.jpg": b"no image", "b/[0100ABCD00010000].png": PNG}, PNG),
        ({"0100ABCD00010000 front.jpg": JPEG}, None),
        ({"0100ABCD00010800.jpg": JPEG}, None),
        ({"0100ABCD00030000.jpg": JPEG}, None),
        ({".0100ABCD00010000.jpg": JPEG}, None),
    ],
)
def test_an_image_named_by_a_title_id_is_the_cover_of_the_title(
    images: dict[str, bytes], expected: bytes | None, cover: Cover
) -> None:
    files = {
        f"games/{name}" if name[:3] == BASE[:3] else f"x/{name}": content
        for name, content in images.items()
    }
    assert cover(f"games/{BASE}", files) == expected


def test_covers_of_titles_come_change_and_go(
    library: Library, scanner: catalogd.Scanner
) -> None:
    """Also where the images and the files are not scanned at the same time."""
    games, images = str(library.folder / "games"), str(library.folder / "images")
    library.add(f"games/{BASE}")
    library.add("images/other.txt")
    scanner.scan()
    before = scanner.entries.list_json(EVERYTHING)
    path = library.add("images/[0100ABCD00010000].jpg", JPEG)
    for number in range(50):
        library.add(f"images/01000000000{number:02}000.jpg", JPEG)
    scanner.scan(tops=[images])
    assert icon(scanner, BASE) == JPEG
    scanner.scan(tops=[games])
    library.add(f"games/{UPDATE}")
    scanner.scan(tops=[games])
    assert icon(scanner, UPDATE) == JPEG
    assert len(scanner.database.rows("SELECT * FROM icons")) == 1, "others are not read"
    library.add("images/[0100ABCD00010000].jpg", JPEG + b"!")
    scanner.scan(tops=[images])
    assert icon(scanner, BASE) == JPEG + b"!"
    os.remove(path)
    os.remove(library.folder / "games" / UPDATE)
    scanner.scan()
    assert scanner.entries.list_json(EVERYTHING) == before
    assert scanner.database.rows("SELECT * FROM icons") == []


def test_a_title_that_comes_after_its_cover_has_it(
    library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("images/0100abcd00010000.png", PNG)
    scanner.scan()
    library.add(f"games/{BASE}")
    scanner.scan(tops=[str(library.folder / "games")])
    assert icon(scanner, BASE) == PNG


def test_covers_of_titles_stay_while_their_disk_is_away(
    library: Library, scanner: catalogd.Scanner, tmp_path: pathlib.Path
) -> None:
    library.add(BASE)
    other = Library(tmp_path / "other")
    other.add("c.nsp")
    other.add("0100ABCD00010000.png", PNG)
    add_folder(scanner, str(other.folder))
    scanner.scan()
    away = other.folder.with_name("away")
    os.rename(other.folder, away)
    scanner.scan()
    assert icon(scanner, BASE) == PNG
    other.folder.mkdir()
    library.add("d.nsp")
    scanner.scan()
    assert icon(scanner, BASE) == PNG, "an empty folder is a disk that is not mounted"
    scanner.folders.remove(str(other.folder))
    library.add("e.nsp")
    scanner.scan()
    assert icon(scanner, BASE) is None


def test_covers_come_change_and_go_while_their_files_are_not_opened(
    library: Library, scanner: catalogd.Scanner, images_only: Callable[[], None]
) -> None:
    library.add("a.nro", containers.nro())
    library.add("b.nsp")
    scanner.scan()
    before, entries = ids_by_name(scanner), scanner.entries.list_json(EVERYTHING)
    images_only()
    cover = library.add("a.jpg", JPEG)
    scanner.scan()
    assert icon(scanner, "a.nro") == JPEG
    metadata = scanner.entries.get(before["a.nro"], EVERYTHING)["metadata"]
    library.add("a.jpg", JPEG + b"!")  # of the same time, and another size
    scanner.scan()
    assert icon(scanner, "a.nro") == JPEG + b"!"
    assert (
        scanner.entries.get(before["a.nro"], EVERYTHING)["metadata"]["icon"]
        != metadata["icon"]
    )
    os.utime(cover, (LONG_AGO + 1, LONG_AGO + 1))
    with open(cover, "r+b") as opened:
        opened.write(b"nothing")
    scanner.scan()
    assert icon(scanner, "a.nro") == containers.JPEG
    os.remove(cover)
    scanner.scan()
    assert icon(scanner, "a.nro") == containers.JPEG
    assert (ids_by_name(scanner), scanner.entries.list_json(EVERYTHING)) == (
        before,
        entries,
    )
    assert len(scanner.database.rows("SELECT * FROM icons")) == 1


def test_a_second_title_in_a_folder_takes_its_cover_away_and_gives_it_back(
    library: Library, scanner: catalogd.Scanner
) -> None:
    library.add(BASE)
    library.add("folder.png", PNG)
    scanner.scan()
    other = library.add(OTHER)
    scanner.scan()
    assert icon(scanner, BASE) is icon(scanner, OTHER) is None
    os.remove(other)
    scanner.scan()
    assert icon(scanner, BASE) == PNG


def test_the_cover_moves_with_its_file_and_a_link_is_none(
    library: Library, scanner: catalogd.Scanner
) -> None:
    path, image = library.add("a.nsp"), library.add("a.png", PNG)
    library.add("b.nsp")
    (library.folder / "b.png").symlink_to(image)
    scanner.scan()
    assert (icon(scanner, "a.nsp"), icon(scanner, "b.nsp")) == (PNG, None)
    before = ids_by_name(scanner)["a.nsp"]
    os.rename(path, library.folder / "c.nsp")
    os.rename(image, library.folder / "c.png")
    scanner.scan()
    assert icon(scanner, "c.nsp") == PNG
    assert ids_by_name(scanner)["c.nsp"] == before


def test_the_files_of_an_offline_disk_keep_their_covers(
    library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("a.nsp")
    library.add("a.png", PNG)
    scanner.scan()
    entry = ids_by_name(scanner)["a.nsp"]
    away = library.folder.with_name("away")
    os.rename(library.folder, away)
    scanner.scan()
    assert not ids_by_name(scanner)
    assert scanner.entries.icons.of(entry, EVERYTHING) == PNG
    os.rename(away, library.folder)
    scanner.scan()
    assert icon(scanner, "a.nsp") == PNG


def test_an_unreadable_file_is_forgotten_with_the_scan_that_misses_it(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("deep/a.nsp")
    scanner.scan()
    paths = [library.add(name) for name in ("b.nsp", "deep/b.nsp", "deep/c.nsp")]
    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "open_file", Mock(side_effect=DENIED))
        scanner.scan()
        assert {*scanner.disks.unreadable} == {*paths}
        os.remove(paths[1])
        scanner.scan(tops=[str(library.folder / "deep")])
        assert {*scanner.disks.unreadable} == {paths[0], paths[2]}
        os.remove(paths[2])
        scanner.scan(tops=[str(library.folder / "deep")])
        assert {*scanner.disks.unreadable} == {paths[0]}


def test_a_cover_that_cannot_be_read_is_logged_and_read_when_it_can(
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also one that is named by a title id. Until then nothing changes."""
    library.add("a.nsp")
    library.add(BASE)
    images = [library.add(name, PNG) for name in ("a.png", "0100ABCD00010000.png")]
    real = catalogd.open_file

    def refuse(path: str, folder: str) -> Any:
        if path in images:
            raise PermissionError(13, "Permission denied", path)
        return real(path, folder)

    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "open_file", refuse)
        scanner.scan()
        version = scanner.entries.list_version()
        for _ in range(2):
            assert not any(scanner.scan())
        assert scanner.entries.list_version() == version
    why = catalogd.refusal(DENIED)
    assert {*caplog.messages} == {f"{path} is not shown: {why}." for path in images}
    assert len(caplog.messages) == 2
    assert icon(scanner, "a.nsp") is icon(scanner, BASE) is None
    scanner.scan()
    assert icon(scanner, "a.nsp") == icon(scanner, BASE) == PNG
    assert scanner.entries.list_version() > version


def test_an_image_that_cannot_be_measured_is_no_cover(library: Library) -> None:
    row: Any = Row(OSError(5, "broken"))
    row.name = "a.png"
    tree = catalogd.Tree("/games", ["/games"])
    assert [*tree._with_covers([A], {"a.png": row})] == [A]
    assert not tree.covers


def test_many_new_files_come_in_batches_and_the_list_changes_seldom(
    library: Library, scanner: catalogd.Scanner
) -> None:
    for number in range(25):
        library.add(f"{number}.nsp")
    library.add("7.png", PNG)
    scanner.batch = 10
    scanner.scan()
    assert len(ids_by_name(scanner)) == 25
    assert (icon(scanner, "7.nsp"), scanner.entries.list_version()) == (PNG, 1)
    library.add("7.png", PNG + b"!")
    scanner.scan()
    assert icon(scanner, "7.nsp") == PNG + b"!"


def test_a_whole_folder_of_many_files_keeps_its_ids_when_it_is_renamed(
    library: Library, scanner: catalogd.Scanner
) -> None:
    for number in range(2000):
        library.add(f"old/{number}.nsp")
    scanner.scan()
    before = ids_by_name(scanner)
    os.rename(library.folder / "old", library.folder / "new")
    changes = scanner.scan()
    assert (len(changes.updated), len(changes.added)) == (2000, 0)
    assert ids_by_name(scanner) == before


# The thread


def test_a_file_that_stops_growing_is_found_before_the_next_scan(
    library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    growing, settle = scanner.disks.growing, scanner.settings.settle
    growing.clock, growing.settle = time.time, 3600  # until both were noticed
    path = library.add("a.nsp", mtime=time.time())
    removed = library.add("b.nsp", mtime=time.time() + 1000)
    scanner.start()
    try:
        wait_for(lambda: len(growing.files) == 2)
        with open(path, "ab") as grows:
            grows.write(b"more")
        os.remove(removed)
        growing.settle = settle
        wait_for(lambda: ids_by_name(scanner))
        wait_for(lambda: not growing.files)
    finally:
        scanner.stop()


def test_a_scan_that_is_due_comes_by_itself(
    library: Library, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    often = dataclasses.replace(settings, scan_interval=0.1)
    scanner = catalogd.Scanner(store, often)
    scanner.check_seconds = 3600  # so that nothing else ends the wait
    scanner.start()
    try:
        wait_for(lambda: scanner.state.finished)
        library.add("a.nsp")
        wait_for(lambda: ids_by_name(scanner))
    finally:
        scanner.stop()


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            catalogd.StorageFull("The disk is full."),
            "The scan failed: The disk is full.",
        ),
        (ValueError("a bug"), "The scan failed."),
    ],
)
def test_the_thread_goes_on_after_a_scan_that_failed(
    problem: Exception,
    message: str,
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library.add("a.nsp")

    with monkeypatch.context() as patch:
        patch.setattr(scanner.entries, "add_files", Mock(side_effect=problem))
        scanner.start()
        wait_for(lambda: message in caplog.messages)
        assert scanner.state.problem == str(problem)
    scanner.rescan()
    try:
        wait_for(lambda: ids_by_name(scanner) and not scanner.state.problem)
    finally:
        scanner.stop()


def test_a_disk_that_could_not_be_asked_for_want_of_threads_is_asked_again(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    with monkeypatch.context() as patch:
        fail = Mock(side_effect=RuntimeError("can't start new thread"))
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            scanner.scan()
    assert len(scanner.scan().added) == 1


# Disks that do not answer


class Hang:
    """A function of the system that does not return for one folder."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self.function, self.folder = function, folder
        self.over = threading.Event()
        self.waiting = threading.Event()

    def __call__(self, path: Any, *more: Any, **options: Any) -> Any:
        if str(path).startswith(self.folder):
            self.waiting.set()
            assert self.over.wait(30)
        return self.function(path, *more, **options)


class Two(NamedTuple):
    """Two library folders with a file each, one of which will hang: from then on a
    moment without an answer of it is too long."""

    scanner: catalogd.Scanner
    hanging: Library
    other: Library

    def hang(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> Hang:
        hang = Hang(getattr(module, name), str(self.hanging.folder))
        monkeypatch.setattr(module, name, hang)
        self.scanner.disks.askers[hang.folder].max_silence = 0.3
        return hang

    def go_on(self, hang: Hang) -> None:
        """Let it answer again."""
        disk = self.scanner.disks.askers[hang.folder]
        disk.max_silence = 60
        hang.over.set()
        wait_for(disk.answers_again)


@pytest.fixture
def two(
    library: Library,
    tmp_path: pathlib.Path,
    store: catalogd.Store,
    settings: catalogd.Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Two:
    monkeypatch.setattr(catalogd.Asker, "max_silence", 60)
    hanging = Library(tmp_path / "hanging")
    hanging.add("a.nsp")
    library.add("b.nsp")
    folders = (str(hanging.folder), str(library.folder))
    more = dataclasses.replace(settings, folders=folders, scan_interval=3600)
    return Two(catalogd.Scanner(store, more), hanging, library)


def test_a_folder_that_does_not_answer_stops_no_other(
    two: Two, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scanner, folder = two.scanner, str(two.hanging.folder)
    told = f"{folder} does not answer. Its entries are kept."
    scanner.scan()
    before = ids_by_name(two.scanner)
    hang = two.hang(monkeypatch, os, "scandir")
    two.other.add("c.nsp")
    scanner.scan()
    assert ids_by_name(two.scanner).keys() == {"b.nsp", "c.nsp"}
    assert folder not in online(scanner)
    assert scanner.state.problems() == {folder: told}
    two.other.add("d.nsp")
    scanner.scan()  # which does not wait for it again
    assert caplog.messages == [told]
    assert not scanner.disks.changed(is_due=False), "that is known"
    two.go_on(hang)
    assert scanner.disks.changed(is_due=False) == [folder]
    scanner.scan(tops=[folder])
    assert ids_by_name(two.scanner).keys() == {"a.nsp", "b.nsp", "c.nsp", "d.nsp"}
    assert ids_by_name(two.scanner)["a.nsp"] == before["a.nsp"]
    assert not scanner.state.problems()


@pytest.mark.parametrize("is_told", [False, True])
def test_folders_that_answer_are_listed_while_another_is_late(
    is_told: bool, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a disk is that begins to turn: it is not away. If it never answers, that is
    told without another scan."""
    monkeypatch.setattr(catalogd, "MAX_DELAY_SECONDS", 0.2)
    hang = two.hang(monkeypatch, os, "scandir")
    disk = two.scanner.disks.askers[hang.folder]
    disk.max_silence = 60
    two.scanner.start()
    wait_for(lambda: ids_by_name(two.scanner).keys() == {"b.nsp"})
    two.other.add("c.nsp")
    two.scanner.rescan()
    wait_for(lambda: ids_by_name(two.scanner).keys() == {"b.nsp", "c.nsp"})
    assert two.scanner.state.folders[hang.folder]["state"] == "unread"
    if is_told:
        disk.max_silence = 0
        wait_for(lambda: hang.folder in two.scanner.state.problems())
    hang.over.set()
    wait_for(lambda: ids_by_name(two.scanner).keys() == {"a.nsp", "b.nsp", "c.nsp"})
    assert not two.scanner.state.problems()
    assert two.scanner.stop(60)


def test_a_folder_that_answers_just_when_it_is_late_is_not_told_and_read_again(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_DELAY_SECONDS", 0)
    hang, disks = two.hang(monkeypatch, os, "scandir"), two.scanner.disks
    disk = disks.askers[hang.folder]

    def answer_now(*_: int) -> None:
        if threading.current_thread() is threading.main_thread():
            hang.over.set()
            wait_for(disk._last.done)

    monkeypatch.setattr(disks, "count", answer_now)
    assert disks.trees([hang.folder], is_service=True) == {}
    assert not disks.state.problems()
    assert hang.folder in disks.changed(is_due=False)


def test_a_disk_that_answers_before_its_next_caller_waits_answers_again() -> None:
    disk, over = catalogd.Asker(), threading.Event()
    first = disk.ask(over.wait)
    second = disk.ask(str)
    over.set()
    wait_for(first.done)
    with pytest.raises(TimeoutError):
        disk.wait(second, str)
    assert disk.answers_again()


def test_a_file_that_does_not_answer_waits(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = two.hang(monkeypatch, catalogd, "open_file")
    two.scanner.scan()
    assert ids_by_name(two.scanner).keys() == {"b.nsp"}
    assert str(two.hanging.folder) in two.scanner.state.problems()
    two.go_on(hang)
    two.scanner.scan()
    assert ids_by_name(two.scanner).keys() == {"a.nsp", "b.nsp"}


def test_a_growing_file_that_does_not_answer_waits(
    two: Two, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    two.hanging.add("a.nsp", mtime=clock.now + 3600)
    two.scanner.scan()
    hang = two.hang(monkeypatch, os, "stat")
    assert two.scanner.disks.changed(is_due=False) == []
    two.go_on(hang)
    assert two.scanner.disks.changed(is_due=False) == [str(two.hanging.folder)]


def test_a_stop_does_not_wait_for_a_disk(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = two.hang(monkeypatch, os, "scandir")
    two.scanner.disks.askers[hang.folder].max_silence = 60
    two.scanner.start()
    assert hang.waiting.wait(20)
    assert two.scanner.stop(10)
    hang.over.set()


# A newer reader of file facts


@pytest.fixture
def newer(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> catalogd.Scanner:
    """The scanner of a program that reads one more fact, and knows five files that an
    older one has read. It writes two at once."""
    for number in range(5):
        library.add(f"{number}.nsp")
    scanner.scan()
    monkeypatch.setattr(catalogd, "FORMATS", {"nsp": lambda window: {"newer": True}})
    monkeypatch.setattr(catalogd, "FACTS_VERSION", catalogd.FACTS_VERSION + 1)
    monkeypatch.setattr(catalogd, "BATCH", 2)
    return catalogd.Scanner(scanner.store, scanner.settings)


def with_newer_fact(scanner: catalogd.Scanner) -> set[str]:
    entries = listed(scanner)
    return {entry["name"] for entry in entries if "newer" in entry["metadata"]}


def test_files_that_are_known_are_read_again_by_a_newer_reader(
    newer: catalogd.Scanner,
) -> None:
    ids = ids_by_name(newer)
    newer.entries.edit(ids["3.nsp"], {"description": "mine"})
    newer.scan()
    assert (newer.state.result, newer.state.read) == ("5 updated", 5)
    assert with_newer_fact(newer) == {"0", "1", "2", "3", "4"}
    edited = newer.entries.get(ids["3.nsp"], EVERYTHING)
    assert edited["metadata"]["description"] == "mine"
    version = newer.entries.list_version()
    newer.scan()
    assert (newer.state.result, newer.state.read) == ("nothing changed", 0)
    assert newer.entries.list_version() == version


def test_reading_again_goes_on_where_it_was_stopped(
    newer: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = newer.entries.apply

    def stop(changes: catalogd.Changes) -> None:
        apply(changes)
        newer._stopping = True

    with monkeypatch.context() as patch:
        patch.setattr(newer.entries, "apply", stop)
        with pytest.raises(catalogd.Stopped):
            newer.scan()
    assert len(with_newer_fact(newer)) == 2
    again = catalogd.Scanner(newer.store, newer.settings)
    again.scan()
    assert again.state.read == 3
    assert len(with_newer_fact(newer)) == 5


def test_a_file_that_cannot_be_read_again_holds_up_no_other(
    newer: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = catalogd.open_file

    def broken(path: str, folder: str) -> Any:
        if path.endswith("/1.nsp"):
            raise OSError(5, "broken")
        return real(path, folder)

    with monkeypatch.context() as patch:
        patch.setattr(catalogd, "open_file", broken)
        newer.scan()
    assert with_newer_fact(newer) == {"0", "2", "3", "4"}
    newer.scan()
    assert len(with_newer_fact(newer)) == 5


def test_a_scan_stops_when_it_is_told_to(
    library: Library, scanner: catalogd.Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("a.nsp")
    looking, go_on = threading.Event(), threading.Event()
    real = catalogd.open_file

    def slow(path: str, folder: str) -> Any:
        looking.set()
        go_on.wait(20)
        return real(path, folder)

    monkeypatch.setattr(catalogd, "open_file", slow)
    library.add("b.nsp")
    scanner.start()
    assert looking.wait(20)
    stopper = threading.Thread(target=scanner.stop)
    stopper.start()
    wait_for(lambda: scanner._stopping)
    go_on.set()
    stopper.join(20)
    assert scanner.thread.stop(0)
    assert not scanner.state.scanning
    # Its disk may still read, and would log that the files are gone after the test.
    wait_for(scanner.disks.askers[str(library.folder)]._last.done)


def test_a_scan_that_changed_something_is_one_line_in_the_log(
    library: Library, scanner: catalogd.Scanner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    library.add("a.nsp")
    scanner._scan_and_log(scanner.folders)
    scanner._scan_and_log(scanner.folders)
    (line,) = caplog.messages
    assert line.endswith(": 1 added.")


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_memory_is_given_back_where_the_system_takes_it(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    class Library:
        def mallopt(self, option: Any, value: Any) -> None:
            calls.append((option.value, value.value))

        def malloc_trim(self, left: Any) -> None:
            calls.append(left.value)

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    catalogd.spare_memory()
    assert calls == ([(-8, 1), (-3, 2**19), 0] if platform == "linux" else [])


def test_a_summary_of_no_changes() -> None:
    assert catalogd.summary(catalogd.Changes(), 0) == "nothing changed"


def test_only_regular_files_are_opened(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", ".", "missing"):
        with pytest.raises(OSError):
            catalogd.open_file(str(tmp_path / name), str(tmp_path))
