"""Cards with backups of saves, as the five programs make them."""

import io
import os
import pathlib
import time
import zipfile
from typing import Any

PROGRAMS = {  # the path of a backup, by its title and its number
    "JKSV": "JKSV/{title}/{n} backup.zip",
    "Checkpoint": "switch/Checkpoint/saves/{title}/2024-0{n} Ann",
    "Sphaira": "dumps/Save/{title}/{title} {n}.zip",
    "DBI": "switch/DBI/saves/{title}/2024-0{n}/0100_1_{n}.zip",
    "Tinfoil": "switch/tinfoil/saves/{title}/{n}.ZIP",
}
TITLES = [
    "Étoile",
    "星の庭 日本",
    "CON",
    "Title..",
    "A .. B",
    "x" * 200,
    "nul.x",
    "a  b",
]
TITLES += [f"Title {n}" for n in range(60 - len(TITLES))]
Backup = bytes | frozenset[tuple[str, bytes]]  # a zip file, or the files in a folder


def packed(content: bytes, **more: bytes) -> bytes:
    """Return a zip file with this content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in {"save.bin": content, **more}.items():
            made.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


def write(card: pathlib.Path, path: str, content: bytes) -> Backup:
    """Make a backup of this content, and return what is to be kept of it."""
    place = card / path
    if path.lower().endswith(".zip"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(packed(content))
        return packed(content)
    (place / "in" / "deep").mkdir(parents=True, exist_ok=True)
    files = {"a.bin": content, "in/b": b"", "in/deep/é.sav": content[::-1]}
    for name, data in files.items():
        (place / name).write_bytes(data)
    return frozenset(files.items())


def fill(card: pathlib.Path) -> list[Backup]:
    """Make backups of 60 titles, and what is none. Return what is to be kept."""
    found = []
    for number, title in enumerate(TITLES):
        form = [*PROGRAMS.values()][number % len(PROGRAMS)]
        for n in range(1, 1 + number % 2 + 1):
            path = form.format(title=title, n=n)
            found.append(write(card, path, f"{title} {n}".encode() * 50))
    write(card, "JKSV/_TRASH_/gone.zip", b"trash")
    (card / "JKSV" / "Title 9").mkdir(exist_ok=True)  # without a backup
    (card / "JKSV" / TITLES[0] / "readme.txt").write_bytes(b"none")
    return found


def kept(folder: pathlib.Path) -> list[Any]:
    """Return what the copies in a folder hold, each of which must be whole."""
    return [content(path) for path in sorted(folder.rglob("*.zip"))]


def content(path: pathlib.Path) -> Backup:
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert file.testzip() is None
        if file.namelist()[0] == "save.bin":
            return data
        return frozenset((name, file.read(name)) for name in file.namelist())


def age(path: pathlib.Path, seconds: float) -> None:
    """Let a file be so many seconds old, which tells its version."""
    then = time.time() - seconds
    os.utime(path, (then, then))
