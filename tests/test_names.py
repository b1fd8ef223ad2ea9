"""The facts in file names and file headers."""

import csv
import io
import pathlib
import re
import struct
import subprocess
import sys
from typing import Any

import pytest

import catalogd
import containers
from conftest import short_and_long


@pytest.mark.parametrize(
    ("path", "name", "version"),
    [
        ("/games/Celeste [0100AAAABBBB0000][v65536].nsp", "Celeste", "65536"),
        ("/games/Celeste.nsp", "Celeste", ""),
        ("/games/[0100AAAABBBB0000].nsp", "0100AAAABBBB0000", ""),
        ("/games/No tags (2021).xci", "No tags (2021)", ""),
        ("/games/Two  [DLC]  words[V0].nsz", "Two words", "0"),
    ],
)
def test_a_file_name_gives_name_and_version(path: str, name: str, version: str) -> None:
    facts = catalogd.name_facts(path)
    assert (facts["name"], facts["version"]) == (name, version)


def test_a_file_name_gives_title_id_and_patch_number() -> None:
    facts = catalogd.name_facts("Celeste [0100aaaabbbb0800][v131072].nsp")
    assert (facts["title_id"], facts["patch"]) == ("0100AAAABBBB0800", 2)


def test_a_name_without_tags_gives_neither() -> None:
    assert {"title_id", "patch"}.isdisjoint(catalogd.name_facts("Celeste.nsp"))


BASE = "0100AAAABBBB0000"


@pytest.mark.parametrize(
    ("title_id", "kind", "base_id"),
    [
        ("0100AAAABBBB0000", "base", BASE),
        ("0100AAAABBBB0800", "update", BASE),
        ("0100AAAABBBB1001", "add-on", BASE),
        ("0100AAAABBBB100C", "add-on", BASE),
        ("0100AAAABBBB17FF", "add-on", BASE),
        ("0100AAAABBBB1801", "add-on", BASE),
        ("0100AAAABBBB1FFF", "add-on", BASE),
        ("0100AAAABBBBE000", "base", "0100AAAABBBBE000"),
        ("0100AAAABBBBE800", "update", "0100AAAABBBBE000"),
        ("0100AAAABBBBF123", "add-on", "0100AAAABBBBE000"),
        ("0100AAAABBBB1800", "add-on", BASE),
        ("0100AAAABBBB1000", None, None),  # no multiple of 0x2000, but homebrew
        ("0100AAAABBBC0001", None, None),
        ("0100000000010000", "base", "0100000000010000"),
        ("01FFFFFFFFFFE000", "base", "01FFFFFFFFFFE000"),
        ("0400AAAABBBB0800", "update", "0400AAAABBBB0000"),  # of Switch 2
        ("0000000000000000", None, None),
        ("0000000000000800", None, None),
        ("0000000000000001", None, None),
        ("0100000000000816", None, None),  # the system's
        ("0100000000010001", None, None),  # whose base would be the system's
        ("05001A2B3C4D0000", None, None),  # made up by a program
        ("FFFFFFFFFFFFFFFF", None, None),
    ],
)
def test_a_title_id_gives_kind_and_base_id(
    title_id: str, kind: str | None, base_id: str | None
) -> None:
    found = catalogd.part_facts("nsp", {"title_id": title_id})
    assert found == {"kind": kind, "base_id": base_id}


@pytest.mark.parametrize(
    ("file_type", "metadata", "kind", "base_id"),
    [
        ("nsp", {}, None, None),
        ("nro", {}, "homebrew", None),
        ("nro", {"title_id": BASE}, "homebrew", None),
        ("nro", {"kind": "base", "base_id": BASE}, "base", BASE),
        ("nsp", {"title_id": BASE, "kind": "update"}, "update", BASE),
        ("nsp", {"title_id": BASE, "kind": ""}, None, None),
        ("nsp", {"title_id": BASE, "kind": "homebrew"}, "homebrew", None),
        ("nsp", {"title_id": BASE, "base_id": ""}, "base", None),
        ("nsp", {"kind": "add-on", "base_id": BASE.lower()}, "add-on", BASE),
        ("nsp", {"base_id": BASE}, None, None),
    ],
)
def test_what_an_admin_typed_wins(
    file_type: str, metadata: dict[str, str], kind: str | None, base_id: str | None
) -> None:
    found = catalogd.part_facts(file_type, metadata)
    assert found == {"kind": kind, "base_id": base_id}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Star Garden [0100AAAABBBB0000][v0]", "Star Garden"),
        ("Star Garden - Deluxe [0100AAAABBBB0000]", "Star Garden - Deluxe"),
        ("Patch Quest DLC Edition [0100AAAABBBB0000]", "Patch Quest DLC Edition"),
        ("Star Garden [0100AAAABBBB0800][v196608]", "Star Garden - Update 3"),
        ("Star Garden [0100aaaabbbb0800][V65536]", "Star Garden - Update 1"),
        ("Star Garden [UPD][0100AAAABBBB0800][v0]", "Star Garden - Update 0"),
        ("Star Garden [0100AAAABBBB0800][v]", "Star Garden - Update"),
        ("Star Garden [0100AAAABBBB0800]", "Star Garden - Update"),
        ("Star Garden Update 1.0.3 [0100AAAABBBB0800]", "Star Garden - Update"),
        ("Star Garden - Update [0100AAAABBBB0800]", "Star Garden - Update"),
        ("Star Garden (Update) [0100AAAABBBB0800]", "Star Garden - Update"),
        ("Patch Quest Tales [0100AAAABBBB0800]", "Patch Quest Tales - Update"),
        ("Star Garden [0100AAAABBBB100C][v0]", "Star Garden - Add-on 12"),
        ("Star Garden [DLC] [0100AAAABBBB1001]", "Star Garden - Add-on 1"),
        ("Star Garden DLC 7 [0100AAAABBBB1001]", "Star Garden - Add-on 1"),
        ("Star Garden - DLC [0100AAAABBBB1001]", "Star Garden - Add-on 1"),
        ("Star Garden (DLC) [US] [0100AAAABBBB1001]", "Star Garden - Add-on 1"),
        ("Star - Garden [DLC 3][0100AAAABBBB1001]", "Star - Garden - Add-on 1"),
        ("Star Garden - Extra Levels [0100AAAABBBB1001]", "Star Garden - Extra Levels"),
        ("Star Garden - Extra [DLC][0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden [DLC Extra] [0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden [DLC - Extra][0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden (DLC) Extra [0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden [DLC 2] Extra [US][0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden - DLC - Extra [0100AAAABBBB1001]", "Star Garden - Extra"),
        (
            "Star Garden DLC Extra (Part 2) [0100AAAABBBB1001]",
            "Star Garden - Extra (Part 2)",
        ),
        ("Star Garden Add-On: Extra [0100AAAABBBB1001]", "Star Garden - Extra"),
        ("Star Garden [Extra Levels] [0100AAAABBBB1001]", "Star Garden - Extra Levels"),
        ("DLC Quest [0100AAAABBBB1001]", "DLC Quest - Add-on 1"),
        ("[0100AAAABBBB1001][v0]", "0100AAAABBBB1001 - Add-on 1"),
        ("Firmware [0100000000000816]", "Firmware"),
    ],
)
def test_a_part_is_named_by_its_own_file(file: str, name: str) -> None:
    metadata = catalogd.name_facts(f"{file}.nsp")
    metadata |= catalogd.part_facts("nsp", metadata)
    assert catalogd.part_name(f"/games/{file}.nsp", metadata) == name


NAMES = pathlib.Path(__file__).with_name("names.csv").read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    "expected",
    [*csv.DictReader(NAMES)],
    ids=lambda expected: expected["name"],
)
def test_names_of_dump_tools_are_read(expected: dict[str, str]) -> None:
    """The file has made-up names as tools and people write them. Its `contents` are
    joined by "+", also those of which a name tells a kind and a number alone."""
    path = expected["name"].removesuffix("/00")  # of a folder with the parts of a file
    metadata = catalogd.name_facts(path)
    contents = [
        ":".join(map(str, part.values())) for part in metadata.get("contents", ())
    ]
    for kind, count in metadata.get("more", {}).items():
        version = metadata["version"] if kind == "update" else ""
        contents += [f":{kind}:{version}"] * count
    metadata |= catalogd.part_facts(catalogd.file_type(path), metadata)
    assert {
        "title_id": metadata.get("title_id", ""),
        "kind": metadata["kind"] or "",
        "version": metadata["version"],
        "display_name": catalogd.part_name(path, metadata),
        "contents": "+".join(sorted(contents)),
    } == {
        "title_id": expected["title_id"],
        "kind": expected["kind"],
        "version": expected["version"],
        "display_name": expected["display_name"],
        "contents": "+".join(sorted(filter(None, expected["contents"].split("+")))),
    }


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        ("A [B+v0]", {"kind": "base", "version": "0"}),
        ("A [U0]", {"version": "0"}),  # there is no such update
        (f"A [U{'9' * 30}]", {"kind": "update"}),
        ("A [ba\u017fe]", {"kind": "base"}),
        ("A [0100AAAABBBB0000][DLC]", {"kind": "add-on", "base_id": BASE}),
        ("A [0100AAAABBBB0800][BASE]", {"title_id": "0100AAAABBBB0800"}),
        ("A [0100AAAABBBB0800] (1G+2D)", {"title_id": "0100AAAABBBB0800"}),
        ("A (3D) [0100AAAABBBB0000]", {"title_id": BASE, "name": "A (3D)"}),
        ("A [3D]", {"name": "A"}),
        ("A (U) (1941)", {"name": "A (U) (1941)"}),
    ],
)
def test_a_mark_that_does_not_fit_is_not_believed(
    file: str, facts: dict[str, str]
) -> None:
    found = catalogd.name_facts(f"{file}.nsp")
    assert found == {"name": "A", "description": "", "version": "", **found, **facts}
    assert found.keys() - facts.keys() <= {"name", "description", "version", "patch"}


def test_an_add_on_without_a_title_id_has_no_number() -> None:
    assert catalogd.part_name("A.nsp", {"name": "A", "kind": "add-on"}) == "A - Add-on"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/1/A.nsp"], ["A"]),
        (["/1/A.nsp", "/1/B.nsp"], ["A", "B"]),
        (["/1/A.nsp", "/1/a.xci"], ["A (NSP)", "a (XCI)"]),
        (
            ["/1/A.nsp", "/1/A [x].nsp", "/1/A.xci"],
            ["A (A.nsp)", "A (A [x].nsp)", "A (XCI)"],
        ),
        (["/1/A.nsp", "/1/b/A.nsp"], ["A (1/A.nsp)", "A (1/b/A.nsp)"]),
        (["/2/1/A.nsp", "/3/1/A.nsp"], ["A (/2/1/A.nsp)", "A (/3/1/A.nsp)"]),
    ],
)
def test_equal_names_are_told_apart(paths: list[str], names: list[str]) -> None:
    rows = [
        row(path, catalogd.name_facts(path)["name"], path[: path.index("/1") + 2])
        for path in paths
    ]
    assert list(catalogd.distinct_entry_names(rows).values()) == names


def row(
    path: str, name: str, folder: str | None, title: str | None = None
) -> dict[str, str | None]:
    own = {"id": path, "base_id": title}
    return {**own, "plain_name": name, "path": path, "folder": folder}


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (
            ["Doom (1993) [T].nsp", "Doom (2016) [U].xci"],
            ["Doom (1993)", "Doom (2016)"],
        ),
        (["Doom 1993 [T].nsp", "Doom 2016 [U].nsp"], ["Doom (1993)", "Doom (2016)"]),
        (["Doom [T][v0] (USA).nsp", "Doom [U][v0].nsp"], ["Doom (USA)", "Doom"]),
        (
            ["Doom [T][v0].nsp", "Doom [U][v65536].nsp", "Doom (BASE) (EU) [V].nsp"],
            ["Doom (T)", "Doom (U)", "Doom (EU)"],
        ),
        (
            ["Doom (EU, 1993) [T].nsp", "Doom (EU, 1993) [T].xci", "Doom [U].nsp"],
            ["Doom (EU, 1993) (NSP)", "Doom (EU, 1993) (XCI)", "Doom"],
        ),
        (
            ["Doom (EU) 1993 [T].nsp", "Doom (EU) 2016 [U].nsp", "Doom.nro"],
            ["Doom (1993)", "Doom (2016)", "Doom"],
        ),
    ],
)
def test_games_of_one_name_are_told_apart_by_what_differs_else_by_their_ids(
    paths: list[str], names: list[str]
) -> None:
    ids = {"T": BASE, "U": f"{BASE[:-4]}2000", "V": f"{BASE[:-4]}4000"}
    rows = []
    for path in paths:
        letter = "".join(re.findall(r"\[([TUV])\]", path))
        title = ids.get(letter)
        path = path.replace(f"[{letter}]", f"[{title}]")
        rows.append(row(f"/1/{path}", "Doom", "/1", title))
    told = catalogd.distinct_entry_names(rows).values()
    assert [*told] == [
        re.sub(r"\(([TUV])\)", lambda it: f"({ids[it[1]]})", name) for name in names
    ]


def test_a_game_of_the_name_that_an_admin_gave_another_one_is_told_apart() -> None:
    rows = [row("1", "A", None, "T"), row("/1/a (EU).nsp", "a", "/1", "U")]
    assert list(catalogd.distinct_entry_names(rows).values()) == ["A", "a (EU)"]


def test_a_name_that_an_admin_typed_stays() -> None:
    rows = [row("1", "A", None), row("2", "a", None), row("/1/A.nsp", "A", "/1")]
    assert list(catalogd.distinct_entry_names(rows).values()) == ["A", "a", "A (NSP)"]


def facts_of(name: str, content: bytes) -> dict[str, Any]:
    return catalogd.file_facts(name, io.BytesIO(content), len(content))


def test_homebrew_gives_title_author_version_and_icon() -> None:
    content = containers.nro(containers.nacp("Käse Invaders", "Somebody", "0.9"))
    found = facts_of("x.nro", content)
    assert found.pop("icon") == containers.JPEG
    assert found == {
        "name": "Käse Invaders",
        "author": "Somebody",
        "version": "0.9",
        "description": "",
        "complete": True,
    }


def test_a_compressed_control_file_gives_its_title() -> None:
    facts = facts_of("x.nro", containers.nro(containers.compressed_nacp("New", "Who")))
    assert (facts["name"], facts["author"]) == ("New", "Who")


def test_a_compressed_control_file_with_a_broken_stream_gives_the_version() -> None:
    control = bytearray(containers.compressed_nacp("New", "Who"))
    control[2:40] = b"\xff" * 38
    facts = facts_of("x.nro", containers.nro(bytes(control)))
    assert (facts["name"], facts["version"]) == ("x", "1.2.3")


def test_a_title_that_is_no_text_is_not_taken() -> None:
    control = containers.nacp().replace(
        b"Homebrew", b"\xff\xfe\xfd\xfc\xff\xfe\xfd\xfc"
    )
    assert facts_of("My file.nro", containers.nro(control))["name"] == "My file"


def test_control_characters_are_not_part_of_a_title() -> None:
    assert (
        facts_of("x.nro", containers.nro(containers.nacp("A\x1b[31m\tB")))["name"]
        == "A[31mB"
    )


def test_an_icon_of_thousands_of_scans_is_not_taken() -> None:
    assert catalogd.is_picture(containers.JPEG)
    assert not catalogd.is_picture(containers.JPEG + b"\xff\xda" * 41)


def test_an_icon_that_is_no_jpeg_is_not_taken() -> None:
    content = containers.nro(icon=b"<svg onload=alert(1)>")
    assert "icon" not in facts_of("x.nro", content)


def test_homebrew_without_assets_is_as_large_as_its_program() -> None:
    program = containers.nro()[:0x1000]
    assert facts_of("x.nro", program)["complete"] is True
    assert facts_of("x.nro", program + bytes(0x100))["complete"] is True
    assert facts_of("x.nro", program[:-1])["complete"] is False


def test_assets_without_sections_are_whole() -> None:
    bare = struct.pack("<4sI6Q", b"ASET", *[0] * 7)
    assert facts_of("x.nro", containers.nro()[:0x1000] + bare)["complete"] is True


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.nro", containers.nro()),
        ("x.nsp", containers.nsp()),
        ("x.nsz", containers.nsp()),
        ("x.xci", containers.xci()),
        ("x.xci", containers.xci(key_area=True)),
    ],
)
def test_a_file_shorter_than_its_header_tells_is_not_complete(
    name: str, content: bytes
) -> None:
    assert facts_of(name, content)["complete"] is True
    assert facts_of(name, content + b"trailing bytes")["complete"] is True
    assert facts_of(name, content[:-1])["complete"] is False


def test_a_ticket_gives_the_title_id_of_a_package() -> None:
    facts = facts_of("Name [0100000000000000].nsp", containers.nsp("0100ABCDABCD0800"))
    assert facts["title_id"] == "0100ABCDABCD0800"


def test_a_package_without_ticket_has_the_title_id_of_its_name() -> None:
    content = containers.pfs0(["a.nca"], [1]) + b"x"
    facts = facts_of("Name [0100000000000000].nsp", content)
    assert facts["title_id"] == "0100000000000000"


@pytest.mark.parametrize("name", ["x.nro", "x.nsp", "x.nsz", "x.xci", "x.xcz", "x.zip"])
@pytest.mark.parametrize("content", [b"", b"MZ", bytes(0xFFF), b"<x>" * 2000])
def test_other_content_has_no_facts(name: str, content: bytes) -> None:
    empty = {} if content else {"complete": False}
    facts = {"name": "x", "description": "", "version": "", **empty}
    assert facts_of(name, content) == facts


UPDATE, ADD_ON, OTHER = "0100AAAABBBB0800", "0100AAAABBBB1001", "0100AAAABBBC0000"
SYSTEM = "0100000000000816"


def held(*ids: str | int | tuple[str, int]) -> dict[str, bytes]:
    """The files of contents: with a ticket, without, or with a document."""
    files: dict[str, bytes] = {}
    for number, content in enumerate(ids):
        files |= containers.content(
            number, content if isinstance(content, tuple) else None
        )
        if isinstance(content, str):
            files[f"{content.lower()}{number:016}.tik"] = b"ticket"
    return files


ALL = held((UPDATE, 196608), (BASE, 0), (ADD_ON, 65536))
FOUR = held(1, 2, 3, 4)
COUNTED = f"A [{BASE}] [v9] (1G+1U+2D)"
BOTH = f"{BASE}: {UPDATE}:9"


@pytest.mark.parametrize(
    ("name", "files", "contents", "more", "version"),
    [
        # Documents tell all, whatever the name is.
        ("A", ALL, f"{BASE}:0 {UPDATE}:196608 {ADD_ON}:65536", {}, "196608"),
        (f"A [{ADD_ON}]", ALL, f"{ADD_ON}:65536 {BASE}:0 {UPDATE}:196608", {}, "65536"),
        (f"A [{OTHER}][v3]", held((BASE, 0)), BASE, {}, "0"),
        # Tickets tell of some, and the name of others while there is room.
        ("A", held(1, UPDATE, 3, 4), f"{UPDATE}:", {"unknown": 3}, ""),
        (COUNTED, FOUR, BOTH, {"add-on": 2}, "9"),
        (COUNTED, held(ADD_ON, 2, 3, 4), f"{BOTH} {ADD_ON}:", {"add-on": 1}, "9"),
        (COUNTED, held(1), BASE, {}, "9"),
        (
            "A [B+U9+9DLC]",
            held(1, 2, UPDATE),
            f"{UPDATE}:",
            {"base": 1, "add-on": 1},
            "9",
        ),
        (
            f"A [{ADD_ON}] [v9] (3D)",
            FOUR,
            f"{ADD_ON}:9",
            {"add-on": 2, "unknown": 1},
            "9",
        ),
        ("A [Update]", held(UPDATE), UPDATE, {}, ""),
        ("A [Update]", FOUR, "", {"update": 1, "unknown": 3}, ""),
        ("A", held(1, 2), "", {"unknown": 2}, ""),
        (f"A [{BASE}]", held(1, 2), f"{BASE}:", {"unknown": 1}, ""),
        # Those of the system are none.
        (f"A [{SYSTEM}]", held(SYSTEM, 2), SYSTEM, {}, ""),
        # Without meta files nothing counts them.
        (f"A [{BASE}] [v9] (1G+1U)", {f"{BASE}{0:016}.tik": b""}, BOTH, {}, "9"),
        (f"A [{OTHER}]", {f"{BASE}{0:016}.tik": b""}, BASE, {}, ""),
    ],
)
def test_a_package_has_the_contents_that_its_header_tells(
    name: str,
    files: dict[str, bytes],
    contents: str,
    more: dict[str, int],
    version: str,
) -> None:
    found = facts_of(f"{name}.nsp", containers.package(files))
    assert contents_of(found) == contents
    assert found.get("more", {}) == more
    assert found["version"] == version


def contents_of(facts: dict[str, Any]) -> str:
    """Return the contents of a file with several, or else its title id."""
    parts = facts.get("contents", ())
    several = " ".join(f"{part['title_id']}:{part['version']}" for part in parts)
    return several or facts.get("title_id", "")


@pytest.mark.parametrize("start", [0, 0x1000])
@pytest.mark.parametrize(
    ("name", "secure", "contents"),
    [
        (f"A [{BASE}][v0]", held(1), BASE),
        (f"A [{BASE}][v9]", held(1), BASE),  # a newer game, there is no room
        (f"A [{BASE}][v9]", held(1, 2), BOTH),
        (f"A [{BASE}][v9]", held(1, UPDATE), BOTH),
        (f"A [{BASE}][v9]", {}, BOTH),
        (f"A [{BASE}] [v9] (1G+1U)", held(1, 2), BOTH),
        (
            f"A [{BASE}][v9] + B [{OTHER}][v0]",
            held(1, 2, 3),
            f"{BASE}: {OTHER}:0 {UPDATE}:9",
        ),
    ],
)
def test_a_cartridge_has_the_contents_of_its_secure_part(
    start: int, name: str, secure: dict[str, bytes], contents: str
) -> None:
    content = containers.cartridge(secure, FOUR, start)
    found = facts_of(f"{name}.xci", content)
    assert (contents_of(found), found["complete"]) == (contents, True)
    assert facts_of(f"{name}.xci", content[:-1])["complete"] is False
    assert contents_of(facts_of(f"{name}.nsp", content)) == contents
    assert facts_of(f"{name}.xci", content[: start + 0x200])["complete"] is False


NAMES = {"1.nacp.xml": containers.names_document("K&#228;se", "Me")}
ICONS = {"1.nx.Dutch.jpg": b"x", "1.nx.French.jpg": containers.JPEG}


@pytest.mark.parametrize("contents", [[(BASE, 0)], [(BASE, 0), (UPDATE, 65536)]])
def test_documents_and_icons_in_a_package_give_name_author_and_icon(
    contents: list[tuple[str, int]],
) -> None:
    files = {"2.nx.Thai.jpg": b"", "2.nacp.xml": b"", **NAMES, **ICONS}
    files = held(*contents) | files
    found = facts_of("x.nsp", containers.package(files))
    facts = (found["name"], found["author"], found["icon"])
    assert facts == ("Käse", "Me", containers.JPEG)


def test_a_package_with_two_games_has_no_name_of_one() -> None:
    files = held((BASE, 0), (OTHER, 0)) | NAMES | ICONS
    found = facts_of("x.nsp", containers.package(files))
    assert (found["name"], found.keys() & {"author", "icon"}) == ("x", set())


def test_a_document_that_tells_nothing_is_passed_over() -> None:
    files = {"1.cnmt.xml": b"<Id>0x01</Id>", "1.nacp.xml": b"<Name></Name>"}
    package = containers.package(files)
    assert facts_of("x.nsp", package)["name"] == "x"
    assert "title_id" not in facts_of("x.nsp", package[:-1])


@pytest.mark.parametrize(
    ("ending", "content", "kind"),
    [
        ("nsp", containers.cartridge({}), "xci"),
        ("xci", containers.package({}), "nsp"),
        ("nsp", containers.package({"a.ncz": b""}), "nsz"),
        ("xci", containers.cartridge({"a.ncz": b""}), "xcz"),
        ("xcz", containers.nro(), "nro"),
        ("nsp", containers.nro()[:0x1000], "nro"),
        ("nsp", containers.nro()[:0x1000] + bytes(0x100), "nro"),
        ("nsz", containers.package({}), None),
        ("xcz", containers.cartridge({}), None),
        ("xcz", containers.cartridge({"a.ncz": b""}), None),
        ("nsp", bytes(4096), "zeros"),
        ("nsz", b"\xef\xbb\xbf\n<!DOCTYPE HTML>", "html"),
        ("nro", b"PK\3\4", "zip"),
        ("xcz", b"Rar!\x1a\7\1\0", "rar"),
        ("xci", b"7z\xbc\xaf\x27\x1c", "7z"),
        ("zip", b"PK\3\4", None),
        ("nsp", bytes(4095) + b"x", None),
    ],
)
def test_a_file_is_what_its_bytes_tell(
    ending: str, content: bytes, kind: str | None
) -> None:
    found = facts_of(f"x.{ending}", content)
    assert found.get("format") == kind
    assert ("complete" in found and not found["complete"]) == (
        kind in catalogd.OTHER_FILES
    )
    is_counted = ending == "xcz" or kind == "xcz"
    assert (
        "complete" not in found
        or not is_counted
        or kind in (*catalogd.OTHER_FILES, "nro")
    )


def test_a_table_that_is_too_large_is_not_read() -> None:
    header = struct.pack("<4sIII", b"PFS0", 0xFFFF, 1 << 30, 0)
    assert "complete" not in facts_of("x.nsp", header + bytes(4 << 20))


def test_a_file_that_got_shorter_meanwhile_has_only_the_facts_of_its_name() -> None:
    found = catalogd.file_facts("x.nsp", io.BytesIO(b"PFS0"), 1 << 20)
    assert "complete" not in found


@short_and_long(count=(5_000, 100_000))
def test_broken_headers_neither_raise_nor_cost_much_more_than_whole_ones(
    count: int,
) -> None:
    """In a process of its own: measuring coverage would make it ten times as costly."""
    pytest.importorskip("resource", reason="Windows does not tell of used memory so")
    script = pathlib.Path(__file__).with_name("fuzz_headers.py")
    paths = f"{script.parent}:{script.parents[1]}"
    done = subprocess.run(
        [sys.executable, str(script), str(count)],
        env={"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{count} headers") == 4
