"""Split files: folders and series of parts that are one entry each."""

import contextlib
import hashlib
import json
import os
import pathlib
import urllib.parse
from typing import Any

import pytest
import webtest

import catalogd
import containers
from conftest import Games, Home, Library
from consoles import FTPConsole, Installer
from test_menus import Menu, sections

WHOLE = containers.package(
    containers.content(1, ("0100AAAABBBB0000", 0))
    | {"large.nca": bytes(range(256)) * 9}
)
GAME = "0100AAAABBBB0000"
NAME = f"A [{GAME}][v0]"
FORMS = {  # how the names of the parts are made, the path of the entry, and its name
    "folder": (f"{NAME}.nsp/{{:02}}", f"{NAME}.nsp", f"{NAME}.nsp"),
    "series": (f"{NAME}.ns{{}}", f"{NAME}.ns0", f"{NAME}.nsp"),
    "sessions": (f"{NAME}.nsp.{{:02}}", f"{NAME}.nsp.00", f"{NAME}.nsp"),
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    names: tuple[str, str, str] = request.param
    return names


def split(
    library: Library, names: str, content: bytes = WHOLE, size: int = 700
) -> None:
    for number, at in enumerate(range(0, len(content), size)):
        library.add(names.format(number), content[at : at + size])


def listed(store: catalogd.Store) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(
        store.entries.list_json(catalogd.EVERYTHING)
    )
    return entries


def test_a_split_file_is_one_entry_with_the_joined_bytes(
    form: tuple[str, str, str], games: Games
) -> None:
    names, path, joined = form
    split(games.library, names)
    address = games.address(str(games.library.folder / path))
    [entry] = listed(games.scanner.store)
    assert (entry["file_type"], entry["size"]) == ("nsp", len(WHOLE))
    assert entry["metadata"]["complete"] is True
    assert entry["metadata"]["title_id"] == "0100AAAABBBB0000"
    whole = games.ask(address)
    assert whole.body == WHOLE
    assert f'filename="{joined}"' in whole.headers["Content-Disposition"]
    for start, stop in ((0, 1), (699, 701), (100, 2200), (len(WHOLE) - 1, len(WHOLE))):
        part = games.ask(address, Range=f"bytes={start}-{stop - 1}")
        assert (part.status, part.body) == (206, WHOLE[start:stop])
    head = games.ask(address, "HEAD")
    assert head.headers["Content-Length"] == str(len(WHOLE))
    verify = ["verify", "--data-dir", games.scanner.store.database.folder]
    assert catalogd.main(verify) == 0
    [entry] = listed(games.scanner.store)
    assert entry["metadata"]["sha256"] == hashlib.sha256(WHOLE).hexdigest()


def test_parts_may_be_named_in_capitals() -> None:
    assert catalogd.joined_name("/games/A.NS0") == "/games/A.nsp"
    assert catalogd.joined_name("/games/A.Xc0") == "/games/A.xci"


def test_a_change_of_a_part_is_one_of_the_entry(
    form: tuple[str, str, str], library: Library, scanner: catalogd.Scanner
) -> None:
    names, _, _ = form
    split(library, names)
    scanner.scan()
    [before] = listed(scanner.store)
    library.add(names.format(1), b"x" * 700)  # of the same size and time
    scanner.scan([str(library.folder)])
    library.add(names.format(2), b"y" * 700, mtime=1_700_000_000)
    scanner.scan([os.path.dirname(library.folder / names)])
    [after] = listed(scanner.store)
    assert (after["id"], scanner.state.result) == (before["id"], "1 updated")
    for number in range(4):
        os.remove(library.folder / names.format(number))
    scanner.scan()
    assert listed(scanner.store) == []


@pytest.mark.parametrize(
    ("change", "missing"),
    [(1, 1), (3, 3), (".hdr", ".hdr"), (".seq", ".seq")],
    ids=["a part in the middle", "the last part", "a header", "notes of a dump tool"],
)
def test_a_split_file_without_a_part_is_not_complete(
    form: tuple[str, str, str],
    library: Library,
    scanner: catalogd.Scanner,
    change: int | str,
    missing: int | str,
) -> None:
    names, path, joined = form
    split(library, names)
    if isinstance(change, int):
        os.remove(library.folder / names.format(change))
        expected = os.path.basename(names.format(missing))
    elif path == joined:
        pytest.skip("beside series alone")
    else:
        library.add(joined + change)
        expected = f"{joined}{missing}"
    scanner.scan()
    [entry] = listed(scanner.store)
    assert entry["metadata"]["complete"] is False
    assert expected.endswith(entry["metadata"]["missing"])


def test_a_compressed_cartridge_has_parts_of_one_size(
    library: Library, scanner: catalogd.Scanner
) -> None:
    for name, sizes in {"A": (5, 5, 3), "B": (5, 4, 3), "C": (5,)}.items():
        for number, size in enumerate(sizes):
            library.add(f"{name}.xcz/{number:02}", name.encode() * size)
    scanner.scan()
    facts = [entry["metadata"].get("complete") for entry in listed(scanner.store)]
    assert facts == [None, False, None]


def test_a_folder_with_other_files_is_a_folder(
    library: Library, scanner: catalogd.Scanner
) -> None:
    for name in ("A.xci/00", "A.xci/B.nsp", "C.nsp/01", "D/00", "E.xci/F.xci"):
        library.add(name)
    for name in ("G.nsp/00", "G.nsp/cover.jpg", "G.nsp/.DS_Store"):
        library.add(name, containers.JPEG)
    os.mkdir(library.folder / "H.nsp")
    scanner.scan()
    entries = listed(scanner.store)
    assert [entry["name"] for entry in entries] == ["B", "F", "G"]
    assert "icon" in entries[2]["metadata"]


def test_a_split_file_is_read_as_one(tmp_path: pathlib.Path) -> None:
    for number, content in enumerate((b"abc", b"", b"defg")):
        (tmp_path / f"A.xc{number}").write_bytes(content)
    with catalogd.open_file(str(tmp_path / "A.xc0"), str(tmp_path)) as file:
        assert (file.read(), file.tell(), file.read(5)) == (b"abcdefg", 7, b"")
        assert (file.seek(-5, os.SEEK_END), file.read(2)) == (2, b"cd")
        assert (file.seek(1, os.SEEK_CUR), file.read(None)) == (5, b"fg")
        file.seek(2)
        buffer = bytearray(9)
        assert (file.readinto(buffer), buffer[:5]) == (5, b"cdefg")
        assert file.stat().st_size == 7
    with pytest.raises(ValueError, match="closed"):
        file.place(0, 1)
    os.remove(tmp_path / "A.xc1")
    os.mkdir(tmp_path / "A.xc1")
    for path in ("A.xc0", "A.xc1"):
        with pytest.raises(OSError, match="not a file|is a folder"):
            catalogd.open_file(str(tmp_path / path), str(tmp_path))


def test_a_split_file_leaves_by_the_service_where_a_proxy_sends_files(
    form: tuple[str, str, str], games: Games
) -> None:
    names, path, _ = form
    split(games.library, names)
    address = games.address(str(games.library.folder / path))
    answer = games.ask(address, X_Accel_Location="/files")
    assert (answer.body, answer.headers["X-Accel-Redirect"]) == (WHOLE, None)


def queue(home: Home, names: str) -> str:
    """Queue a split file, and return the id of the queue item."""
    split(home.library, names)
    home.web.scanner.scan()
    [entry] = listed(home.store)
    home.store.queue.send(home.anna, entry["id"])
    return str(home.store.queue.items(home.anna)[-1]["id"])


def test_a_split_file_goes_to_an_ftp_server_as_one(
    form: tuple[str, str, str], home: Home, card: pathlib.Path
) -> None:
    names, _, joined = form
    item = queue(home, names)
    with contextlib.closing(FTPConsole(card)) as console:
        assert home.sender(console.url()).send_next()
    assert [path.name for path in card.iterdir()] == [joined]
    assert (card / joined).read_bytes() == WHOLE
    sent = home.item(item)
    assert (sent["status"], sent["bytes"]) == ("completed", len(WHOLE))


def test_a_split_file_goes_to_an_installer_as_one(
    form: tuple[str, str, str], home: Home
) -> None:
    names, _, joined = form
    item = queue(home, names)

    def install(console: Installer, address: str) -> None:
        console.install(address, block=1000)

    with contextlib.closing(Installer(install)) as console:
        assert home.sender(console.url).send_next()
    path = urllib.parse.unquote(console.received.decode().rstrip("\n"))
    assert path.endswith(f"/{joined}")
    assert bytes(console.body) == WHOLE
    sent = home.item(item)
    assert (sent["status"], sent["bytes"]) == ("completed", len(WHOLE))


def test_a_split_file_is_one_file_in_the_menus_of_a_console(
    form: tuple[str, str, str],
    library: Library,
    scanner: catalogd.Scanner,
    browser: webtest.TestApp,
    key: str,
) -> None:
    names, _, joined = form
    split(library, names)
    scanner.scan()
    token, store = catalogd.new_token(), scanner.store
    store.addresses.set_browse_token(store.accounts.id_of("anna"), token)
    [item] = sections(browser, f"/dir/{token}")
    [base] = Menu(browser, f"/dir/{token}").title(GAME)["base"]
    assert item["size"] == base["downloadSize"] == len(WHOLE)
    assert base["downloadExtension"] == "nsp"
    for path in (item["url"], base["downloadUrl"]):
        assert urllib.parse.unquote(path).endswith(f"/{joined}")
        assert browser.get(f"/dir/{token}{path}").body == WHOLE
