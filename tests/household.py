#!/usr/bin/env python3
"""A library of 300 files as a household has it: base games, updates, add-ons and
homebrew with real headers, in folders and with names as people have them.

`python3 tests/household.py FOLDER [UNIT]` writes it; it is the same each time.
"""

import os
import pathlib
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import containers

LONG_AGO = 1_700_000_000
GAMES = """
12 Minutes to Midnight;A Hat in the Rain;Abyss & Anchor;Acorn Empire;Alpine Echo
Amber Road;Apprentice Baker;Arcade Attic;Ash and Ivy;Aurora Station;Bamboo Knights
Barrel Run;Beacon Hill;Bellringer;Bitter Tea;Blue Lagoon Kart;Bones & Bonnets
Borrowed Time;Bramble;Café Nocturne;Candle Cove;Canyon Postmen;Cardboard Kingdom
Castle Cat;Chalk Dust;Clockwork Orchard;Cloud Shepherd;Comet Catchers;Copper Valley
Dandelion;Dawn of the Owls;Deep Sea Diner;Drift Cartographer;Dust Devils;Echo Quarry
Eleven Islands;Ember & Oak;Fable Foundry;Factory 51;Farewell, Lighthouse;Ferrywoman
Field Notes;Firefly Season;Fox & Ferret;Frostbite Inn;Garden of Glass;Ghost Train
Glass Heron;Golden Hour;Grandma's Garage;Hexagon Garden;Hollow Moon
Iron Orchid;Jam Session;Juniper Rally;Kettle & Kiln;Kite Wars II;Koi Pond
Lantern Keepers;Last Stop: Riverside;Little Locksmith;Loom of Weather;Magnet Man
Marble Postman;Märchenwald;Milk Run;Mole Patrol;Moss & Copper;Mushroom Market
Night Ferry;Nimbus Depot;Orbit Mechanic;Otter Brigade;Paper Harbor;Pixel Apiary
Pocket Locomotive;Quiet Circuit;Rooftop Gardener;Saffron Skies;Sea Legs
Snowblind Courier;Star Garden;Stone Soup;星の庭
"""
HOMEBREW = """
Album Sorter|Sofa Systems|1.4.0
Battery Watch|K. Lindqvist|0.9.2
Cheat Sheet|Sofa Systems|2.1.0
Controller Test|padlab|3.0.1
FTP Drawer|padlab|1.2.7
Gameboy Chess|Ines Ferreira|0.3
Home Theme Mixer|Theme House|5.6
Launch Pad|Sofa Systems|4.1.2
Music Box|Ines Ferreira|1.0.0
Notes|K. Lindqvist|1.1
Pixel Painter|padlab|0.8.0
Save Keeper|Theme House|2.2.2
Screen Ruler|K. Lindqvist|1.0
Weather Frog|Ines Ferreira|0.6.1
"""
ADD_ONS = (
    "Extra Levels",
    "Season Pass",
    "Soundtrack",
    "Costume Pack",
    "The Frozen North",
    "Hard Mode",
)
BASES = ("nsp", "nsz", "nsp", "xci", "nsp", "xcz")  # file types, in turn


class File(NamedTuple):
    """A file to write."""

    path: str  # below the library folder
    content: bytes  # its beginning
    size: int  # in megabytes


def titles() -> list[str]:
    return [name for row in GAMES.strip().splitlines() for name in row.split(";")]


def base_id(number: int) -> str:
    """Return a title id such as 01004E2B0A8C6000: 13 digits, even, and three zeros."""
    digits = zlib.crc32(f"title {number}".encode())
    return f"0100{digits:08X}{number * 2 % 16:X}000"


def numbered(base: str, number: int) -> str:
    """Return the id of an update (0x800) or of an add-on (0x1001 and following)."""
    return f"{int(base, 16) + number:016X}"


def package(title_id: str, name: str, ticket: bool, length: int = 0x200) -> bytes:
    """Return the beginning of a package.

    :param length: bytes of each file in it, as the header tells.
    """
    names = [f"{zlib.crc32(name.encode()):032x}.nca"]
    names += [f"{title_id.lower()}{0:016}.tik"] if ticket else []
    return containers.pfs0(names, [length] * len(names)) + name.encode().ljust(0x400)


def picture(number: int, width: int = 96) -> bytes:
    """Return a PNG in colours of its own."""
    top, low = (zlib.crc32(f"{end} {number}".encode()) for end in ("top", "low"))
    rows = b""
    for y in range(width):
        shades = [(top >> n & 255) * (width - y) + (low >> n & 255) * y for n in (0, 8)]
        pixel = bytes([shades[0] // width, 60 + y, shades[1] // width])
        rows += b"\0" + pixel * (width - y) + bytes(reversed(pixel)) * y

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def games() -> Iterator[File]:
    for number, name in enumerate(titles()):
        title = base_id(number)
        shown = title.lower() if number % 13 == 4 else title
        plain = name.replace(": ", " - ")
        folder = f"Switch/{plain}" if number % 3 == 0 else "Switch"
        size = 90 + number * number * 7 % 15_000
        kind = BASES[number % len(BASES)]
        tag = "[v]" if number % 29 == 7 else "[v0]"
        yield game(f"{folder}/{plain} [{shown}]{tag}.{kind}", title, size, number)
        if number % 21 == 6:  # the same one as a cartridge
            yield game(f"Cartridges/{plain} [{shown}].xci", title, size + 40, number)
        yield from updates(number, plain, folder, shown)
        yield from add_ons(number, plain, folder, shown)


def game(path: str, title: str, size: int, number: int) -> File:
    if path.endswith("xci"):
        content = bytearray(containers.xci(key_area=number % 2 == 0))
        content[-8:] = title.encode()[-8:]
        return File(path, bytes(content), size)
    return File(path, package(title, path, number % 5 != 2), size)


def updates(number: int, name: str, folder: str, shown: str) -> Iterator[File]:
    title = numbered(shown, 0x800)
    title = title.lower() if shown.islower() else title
    patches = ((), (1,), (2, 5), (), (1, 3, 4))[number % 5]
    folder = folder if number % 3 == 0 else "Updates"
    for patch in patches:
        forms = (
            f"{name} [{title}][v{patch * 65536}]",
            f"{name} [Update] [{title}][v{patch * 65536}]",
            f"{name} Update 1.{patch}.0 [{title}][v{patch * 65536}]",
            f"{name} [UPD][{title}][v]",
        )
        form = forms[3 if number == 36 else number % 3]
        path = f"{folder}/{form}.{'nsz' if number % 2 else 'nsp'}"
        yield game(path, title, 60 + number * patch, number)


def add_ons(number: int, name: str, folder: str, shown: str) -> Iterator[File]:
    count = 14 if name == "Star Garden" else (0, 2, 0, 1, 3, 0, 0)[number % 7]
    for index in range(1, count + 1):
        title = numbered(shown, 0x1000 + index)
        title = title.lower() if shown.islower() else title
        own = ADD_ONS[(number + index) % len(ADD_ONS)]
        forms = (
            f"{name} - {own} [{title}][v0]",
            f"{name} [DLC] [{title}][v0]",
            f"{name} [DLC {own}] [{title}][v0]",
            f"{name} (DLC) {own} [{title}]",
            f"{name} DLC {index} [{title}][v65536]",
        )
        place = folder if number % 3 == 0 else "DLC"
        form = forms[(number // 7 + index) % len(forms)]
        yield game(f"{place}/{form}.nsp", title, 3 + number * index % 700, number)


def homebrew() -> Iterator[File]:
    for number, row in enumerate(HOMEBREW.strip().splitlines()):
        name, author, version = row.split("|")
        icon = containers.JPEG + bytes([number]) if number % 6 else b""
        control = containers.nacp(name, author, version)
        path = f"Homebrew/{name.lower().replace(' ', '-')}.nro"
        yield File(path, containers.nro(control, icon), 1 + number * 5 % 37)


def strange() -> Iterator[File]:
    """What every library has too: without ids, without bases, cut off, and twice."""
    for name in ("Backup of cartridge", "Paper Harbor", "Tetra (prototype)"):
        yield game(f"Unsorted/{name}.xci", name, 700 + len(name), 1)
    for number, name in ((900, "Lost Harbour"), (901, "Windfall"), (902, "Zephyr")):
        title = numbered(base_id(number), (0x800, 0x1001, 0x1002)[number - 900])
        yield game(f"Unsorted/{name} [{title}][v65536].nsp", title, 40, number)
    for number, kind in ((903, "nsp"), (904, "nsz"), (905, "nsp")):  # of one name
        title = base_id(number)
        yield game(f"Unsorted/Tetra [{title}][v0].{kind}", title, 512, number)
    for number, name in ((906, "Unfinished Bridge"), (907, "Half Moon")):
        title = base_id(number)
        content = package(title, name, ticket=True, length=1 << 50)
        yield File(f"Downloads/{name} [{title}][v0].nsp", content, 1_800)
    for file in [*games()][5:120:40]:
        yield file._replace(path=f"Old disk/{os.path.basename(file.path)}")
    yield game("System/Firmware [0100000000000816][v0].nsp", "0100000000000816", 300, 1)
    yield game("Unsorted/Forwarder [05001A2B3C4D0000].nsp", "05001A2B3C4D0000", 2, 1)


def files() -> list[File]:
    return [*games(), *homebrew(), *strange()]


def covers() -> Iterator[tuple[str, bytes]]:
    """Yield path and PNG of covers beside files, and of one for a whole folder."""
    bases = [file for file in games() if "[v0]" in file.path and "DLC" not in file.path]
    for number, file in enumerate(bases[1::4]):
        yield f"{os.path.splitext(file.path)[0]}.png", picture(number)
    yield f"Switch/{titles()[0]}/cover.png", picture(99)


def write(folder: pathlib.Path, unit: int = 1000, with_covers: bool = False) -> None:
    """Write the library.

    :param unit: bytes that stand for a megabyte. The files are sparse: they have
        plausible sizes with a unit of 1,000,000, and take no more of the disk.
    """
    for number, (path, content, size) in enumerate(files()):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        os.truncate(place, max(size * unit + zlib.crc32(content) % unit, len(content)))
        quiet = LONG_AGO + number * 7_200
        os.utime(place, (quiet, quiet))
    if with_covers:
        for path, image in covers():
            (folder / path).write_bytes(image)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
