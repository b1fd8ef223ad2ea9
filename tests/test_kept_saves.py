"""The saves that the server keeps: who may have them, and what is told of them."""

import contextlib
import dataclasses
import errno
import io
import json
import os
import pathlib
import re
import shutil
import struct
import sys
import threading
import urllib.parse
import zipfile
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import send_to_switch
from browser import see
from browser import sign_in as sign_in_page
from conftest import PASSWORD, Home, Library, Visit, wait_for
from consoles import FTPConsole
from saves import kept, packed, write

MARK = "0123456789ab"
AWAY = "Its disk is not connected."
KEPT_IN = "Saves cannot be kept in "


@pytest.fixture
def saves(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder for saves."""
    folder = tmp_path / "saves"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(settings: catalogd.Settings, saves: pathlib.Path) -> catalogd.Settings:
    return dataclasses.replace(settings, saves=str(saves))


class Copies:
    """The devices of anna, ben and kim, who is seven, and copies of saves."""

    def __init__(self, store: catalogd.Store, folder: pathlib.Path) -> None:
        self.store, self.folder = store, folder
        self.ids: dict[str, str] = {}

    def account(self, name: str, age: int | None = None) -> int:
        return self.store.accounts.add(name, catalogd.hash_password(PASSWORD), age=age)

    def device(self, name: str, account: int, **more: Any) -> str:
        target = {"name": name, "target": f"ftp://{name.lower()}.lan", **more}
        self.ids[name] = self.store.devices.add(account, target)
        return self.ids[name]

    def add(self, device: str, title: str, name: str, content: bytes = b"") -> str:
        """Return the path of a new copy in the server's list."""
        folder = self.folder / f"{device} ({self.ids.get(device, '0' * 16)})" / title
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}-{MARK}.zip").write_bytes(content or packed(b"save"))
        return f"{title}/{name}-{MARK}.zip"


@pytest.fixture
def copies(store: catalogd.Store, key: str, saves: pathlib.Path) -> Copies:
    found = Copies(store, saves)
    found.device("Attic", store.accounts.id_of("anna"))
    return found


def sign_in(service: catalogd.Web, name: str) -> webtest.TestApp:
    app = webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.9"})
    app.post_json("/web/login", {"username": name, "password": PASSWORD})
    return app


def listed(app: webtest.TestApp) -> list[str]:
    rows = app.get("/web/saves").json["copies"]
    return sorted(f"{row['console']}: {row['title']}" for row in rows)


# Who may have them


def test_a_member_has_the_saves_of_own_and_shared_devices_an_admin_all(
    service: catalogd.Web, copies: Copies
) -> None:
    ben = copies.account("ben")
    copies.device("Cellar", ben)
    copies.device("Living", copies.store.accounts.id_of("anna"), shared=True)
    for device in ("Attic", "Cellar", "Living", "Old"):
        copies.add(device, "Star", "1")
    member, admin = (sign_in(service, name) for name in ("ben", "anna"))
    assert listed(member) == ["Cellar: Star", "Living: Star"]
    assert listed(admin) == ["Attic: Star", "Cellar: Star", "Living: Star", "Old: Star"]
    own, others = (f"/web/saves/{copies.ids[name]}" for name in ("Cellar", "Attic"))
    assert member.get(f"{own}/Star/1-{MARK}.zip").body == packed(b"save")
    member.get(f"{others}/Star/1-{MARK}.zip", status=404)
    member.get(f"/web/saves/{'0' * 16}/Star/1-{MARK}.zip", status=404)
    admin.get(f"/web/saves/{'0' * 16}/Star/1-{MARK}.zip")


def facts(id: int, form: str) -> dict[str, bytes]:
    jksv = b"JKSV" + b"\1" + struct.pack("<Q", id) + bytes(73)
    sphaira = b"JKSV" + bytes(4) + struct.pack("<Q", id) + bytes(112)
    return {".nx_save_meta.bin": {"jksv": jksv, "sphaira": sphaira}.get(form, b"odd")}


def test_a_child_has_the_saves_of_own_devices_and_of_titles_that_it_sees(
    service: catalogd.Web, copies: Copies, library: Library
) -> None:
    copies.device("Kid", copies.account("kim", age=7))
    copies.device("Living", copies.store.accounts.id_of("anna"), shared=True)
    library.add("Seen [0100AAAABBBB0000][v0].nsp")
    library.add("Hidden [0100CCCCDDDD0000][v0].nsp")
    service.scanner.scan()
    copies.store.entries.set_ages(["0100AAAABBBB0000"], 7)
    seen, hidden = 0x0100AAAABBBB0000, 0x0100CCCCDDDD0000
    for title in ("Seen", "Hidden", "Unknown"):
        copies.add("Kid", title, "plain")
    copies.add("Kid", "Odd name", "jksv", packed(b"", **facts(seen, "jksv")))
    copies.add("Kid", "Odder name", "sphaira", packed(b"", **facts(seen, "sphaira")))
    path = copies.add("Kid", "Seen", "hidden", packed(b"", **facts(hidden, "jksv")))
    copies.add("Kid", "SEEN", "odd", packed(b"", **facts(hidden, "odd")))
    copies.add("Kid", "Hidden", "broken", b"no zip")
    copies.add("Living", "Seen", "of others")
    service.consoles._running["x"] = Looked(copies.ids["Kid"])  # type: ignore[assignment]
    kim = sign_in(service, "kim")
    answer = kim.get("/web/saves").json
    found = sorted(row["name"] for row in answer["copies"])
    assert found == ["jksv", "odd", "plain", "sphaira"]
    assert answer["looks"] == []  # these may name titles
    kim.get(f"/web/saves/{copies.ids['Kid']}/{path}", status=404)
    kim.get(f"/web/saves/{copies.ids['Kid']}/Odd name/jksv-{MARK}.zip")


class Looked:
    """A console that was looked at."""

    def __init__(self, device: str, failures: int = 0, why: str = "") -> None:
        if AWAY in why:
            folder = why.removesuffix(f": {AWAY}").removeprefix(KEPT_IN)
            why = catalogd.say("saves_disk", folder, catalogd.say("disk_away"))
        problems = [{"message": why, **catalogd.coded(why)}] if why else []
        self.device = {"id": device, "name": "Attic"}
        self.look = {"looked_at": "2026-01-01T00:00:00", "copied": 2}
        self.look |= {"failures": failures, "problems": problems}


# The list


def test_a_list_has_each_copy_the_newest_first(
    signed_in: webtest.TestApp, copies: Copies, saves: pathlib.Path
) -> None:
    first = copies.add("Attic", "Étoile 日本", "#1 50%")
    folder = saves / f"Attic ({copies.ids['Attic']})"
    os.utime(folder / first, (1e9, 1e9))
    second = copies.add("Attic", "Moon", "2")
    (folder / "Moon" / f"3-{MARK}.part").write_bytes(b"")
    (folder / "Moon" / "readme.txt").write_bytes(b"")
    (saves / f"Moon-{MARK}.zip").write_bytes(b"")
    copies.store.devices.change(copies.ids["Attic"], {"name": "Loft"})
    rows = signed_in.get("/web/saves").json["copies"]
    assert [row["path"] for row in rows] == [second, first]
    assert rows[1] == {
        **{"device": copies.ids["Attic"], "console": "Loft", "path": first},
        **{"title": "Étoile 日本", "name": "#1 50%", "size": len(packed(b"save"))},
        "added_at": "2001-09-09T01:46:40",
    }
    quoted = urllib.parse.quote(first)
    answer = signed_in.get(f"/web/saves/{copies.ids['Attic']}/{quoted}")
    assert answer.body == packed(b"save")
    assert "UTF-8''%231%2050%25.zip" in answer.headers["Content-Disposition"]


@pytest.mark.parametrize(
    "path", ["Star/../Star/1", "Star/1-0123456789ab.part", "../../data/catalogd.db"]
)
def test_only_what_is_in_the_list_is_answered(
    path: str, signed_in: webtest.TestApp, copies: Copies
) -> None:
    copies.add("Attic", "Star", "1")
    signed_in.get(f"/web/saves/{copies.ids['Attic']}/{path}", status=404)


def squeezed(method: int) -> bytes:
    """Return a zip file whose facts are broken, and packed in this way."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        made.writestr(".nx_save_meta.bin", os.urandom(2000))
    content = bytearray(file.getvalue())
    content[60:1000] = b"\xa5" * 940
    return bytes(content)


ODD = {
    "lzma": squeezed(zipfile.ZIP_LZMA),
    "bzip2": squeezed(zipfile.ZIP_BZIP2),
    "deflated": squeezed(zipfile.ZIP_DEFLATED),
    "unknown": squeezed(zipfile.ZIP_STORED).replace(
        b"\x14\0\0\0\0\0", b"\x14\0\0\0\x63\0"
    ),
    "no zip": b"no zip",
    "empty": b"",
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_an_odd_zip_has_the_title_of_its_folder(
    content: bytes, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "Star" / "1.zip"
    path.parent.mkdir()
    path.write_bytes(content)
    assert catalogd.title_in(path, 1) == "star"


@pytest.mark.parametrize(
    ("folder", "title"),
    [
        ("0x0100AAAABBBB0000 Star", "0100aaaabbbb0000"),
        ("0x0100AAAABBBB0000", "0100aaaabbbb0000"),
        ("Star 0x0100AAAABBBB0000", "star 0x0100aaaabbbb0000"),
        ("0x0100", "0x0100"),
    ],
)
def test_the_folder_of_checkpoint_has_the_id_of_its_title(
    folder: str, title: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / folder / "1.zip"
    path.parent.mkdir()
    path.write_bytes(packed(b""))
    assert catalogd.title_in(path, 1) == title


@pytest.mark.parametrize("after", [0, 1])
def test_a_disk_that_fails_for_a_while_hides_a_copy_for_that_while(
    after: int, copies: Copies, saves: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is opened, or read."""
    content = packed(b"", **facts(0x0100AAAABBBB0000, "jksv"))
    copies.add("Attic", "Odd name", "1", content)

    fail = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    with monkeypatch.context() as patch:
        name = ["ZipFile", "_EndRecData"][after]
        patch.setattr(zipfile, name, fail)
        assert catalogd.kept_saves(str(saves), {"odd name"}) == []
    [row] = catalogd.kept_saves(str(saves), {"0100aaaabbbb0000"})
    assert row["title"] == "Odd name"


@pytest.mark.parametrize("level", ["device", "title", "file"])
def test_links_are_not_followed(
    level: str, signed_in: webtest.TestApp, copies: Copies, saves: pathlib.Path
) -> None:
    path = copies.add("Attic", "Star", "1")
    place = saves / f"Attic ({copies.ids['Attic']})"
    linked = {"device": place, "title": place / "Star", "file": place / path}[level]
    linked.rename(saves / "elsewhere")
    linked.symlink_to(saves / "elsewhere")
    assert listed(signed_in) == []
    signed_in.get(f"/web/saves/{copies.ids['Attic']}/{path}", status=404)


def test_without_a_folder_there_are_none(
    store: catalogd.Store, settings: catalogd.Settings, key: str
) -> None:
    settings = dataclasses.replace(settings, saves="")
    web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
    answer = sign_in(web, "anna").get("/web/saves").json
    assert (answer["copies"], answer["looks"]) == ([], [])
    assert web.consoles.settings_of({**DEVICE, "id": "x"})["saves"] == ""
    assert web.health.state()["faults"] == []


DEVICE = {"name": "Attic", "address": "ftp://attic.lan", "user": "", "password": ""}


def test_a_folder_in_the_library_is_refused(
    store: catalogd.Store, settings: catalogd.Settings, library: Library
) -> None:
    settings = dataclasses.replace(settings, saves=str(library.folder / "saves"))
    with pytest.raises(catalogd.BadSetting, match="is in a library folder"):
        catalogd.Web(store, settings, catalogd.Scanner(store, settings))


def test_check_without_a_service_tells_where_no_saves_can_be_kept(
    library: Library, saves: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    expected = {
        str(saves): f"ok: {saves}",
        f"{saves}/away": f"Saves cannot be kept in {saves}/away: {AWAY}",
        "": "",
    }
    for folder, told in expected.items():
        assert checked(folder, library, tmp_path, capsys) == told


@pytest.mark.parametrize("is_running", [False, True])
def test_check_refuses_a_folder_in_the_library_as_serve_does(
    is_running: bool,
    service: catalogd.Web,
    library: Library,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"address": "", **service.health.state()} if is_running else None
    monkeypatch.setattr(catalogd, "running_service", lambda folder: row)
    ini, inside = tmp_path / "catalogd.ini", library.folder / "saves"
    ini.write_text(f"[library]\nfolders = {library.folder}\nsaves = {inside}\n")
    for command in ("check", "serve"):
        words = ["--config", str(ini), "--data-dir", str(tmp_path / "data")]
        assert catalogd.main([command, *words]) == 78
        told = f"[library] saves: {inside} is in a library folder."
        assert told in capsys.readouterr().err


def checked(saves: str, library: Library, top: pathlib.Path, capsys: Any) -> str:
    """Return what `check` tells of the folder for saves."""
    ini = top / "catalogd.ini"
    ini.write_text(f"[library]\nfolders = {library.folder}\nsaves = {saves}\n")
    catalogd.main(["check", "--config", str(ini), "--data-dir", str(top / "data")])
    rows = capsys.readouterr().out.splitlines()
    return "; ".join(row[10:] for row in rows if row.startswith("saves"))


# What is told


def faults(service: catalogd.Web) -> list[tuple[str, str]]:
    return [(row["id"], row["message"]) for row in service.health.state()["faults"]]


def test_a_folder_that_is_away_is_told_once(
    service: catalogd.Web, signed_in: webtest.TestApp, saves: pathlib.Path
) -> None:
    told = f"{KEPT_IN}{saves}: {AWAY}"
    for name in ("a", "b"):
        looked = Looked(name, failures=2, why=told)
        service.consoles._running[name] = looked  # type: ignore[assignment]
    assert faults(service) == [(str(saves), told)]  # only the clients may know
    service.consoles._running.clear()
    assert faults(service) == []
    saves.rmdir()
    assert faults(service) == [(str(saves), told)]
    answer = signed_in.get("/web/saves").json
    assert (answer["copies"], answer["looks"]) == ([], [])
    assert answer["problem"] == {
        "message": AWAY,
        "reason": "disk_away",
        "arguments": {},
    }


@pytest.mark.skipif(os.name == "nt" or not os.geteuid(), reason="root may write")
def test_a_folder_that_cannot_be_written_is_told(
    service: catalogd.Web, saves: pathlib.Path
) -> None:
    saves.chmod(0o500)
    [(_, told)] = faults(service)
    assert "Permission denied for the user" in told
    saves.chmod(0o700)


def test_the_second_look_in_a_row_that_fails_is_a_fault(service: catalogd.Web) -> None:
    why = "192.168.1.20 does not answer. Is the program open on the console?"
    for failures in (1, 2):
        looked = Looked("a", failures, why)
        service.consoles._running["a"] = looked  # type: ignore[assignment]
        assert len(faults(service)) == failures - 1
    assert faults(service) == [("a", f"Saves of Attic are not copied: {why}")]


def test_what_the_client_tells_is_noted(service: catalogd.Web) -> None:
    console = catalogd.Console(service.consoles, {"id": "x", "name": "Attic"})
    broken = "Not copied: /JKSV/A/1.zip: It is not whole, or it is being written."
    damaged = send_to_switch.Problem("save_damaged")
    failed = send_to_switch.Problem("save_failed", path="/JKSV/A/1.zip", why=damaged)
    assert console._note_saves("Waiting for queue items.") == "Waiting for queue items."
    assert console._note_saves(told_line(failed.told())) == f"Saves: {broken}"
    assert not console.look
    assert console._note_saves(told_line("", 3)) == "Saves: 3 copied."
    assert (console.look["copied"], console.look["failures"]) == (3, 0)
    [told] = console.look["problems"]
    before = console.look
    assert (told["message"], told["reason"]) == (broken, "save_failed")
    assert told["arguments"]["path"] == "/JKSV/A/1.zip"
    assert told["arguments"]["why"]["code"] == "save_damaged"
    for failures in (1, 2):
        why = send_to_switch.Problem("ftp_silent", address="1.2.3.4").told()
        console._note_saves(told_line(why, 0))
        assert console.look["failures"] == failures
        assert [one["reason"] for one in console.look["problems"]] == ["ftp_silent"]
    console._note_saves(told_line("By another release.", 0))
    assert console.look["problems"] == [{"message": "By another release."}]
    console._note_saves(told_line("", 0))
    assert (console.look["failures"], console.look["problems"]) == (0, [])
    assert before["copied"] == 3  # another thread may have it


def told_line(told: Any, copied: int | None = None) -> str:
    facts = told if isinstance(told, dict) else {"code": told, "arguments": {}}
    return catalogd.TOLD + json.dumps({"saves": copied, **facts})


@pytest.mark.parametrize("failures", [1, 2])
def test_a_look_has_the_name_that_its_device_has_now(
    failures: int, service: catalogd.Web
) -> None:
    console = catalogd.Console(service.consoles, {"id": "x", "name": "Attic"})
    service.consoles._running["x"] = console
    for _ in range(failures):
        console._note_saves(told_line("It broke.", 0))
    console.device = {"id": "x", "name": "Loft"}
    [look] = service.consoles.looks()
    assert (look["id"], look["name"]) == ("x", "Loft")
    told = [("x", "Saves of Loft are not copied: It broke.")]
    assert faults(service) == told[: failures - 1]


def test_what_a_killed_client_told_is_not_of_the_look_of_the_next(
    service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = catalogd.Console(service.consoles, {**DEVICE, "id": "x"})
    for line in (told_line("It broke."), told_line("", 3)):
        code = f"input(), print({line!r})"
        monkeypatch.setattr(
            catalogd, "client_command", lambda code=code: [sys.executable, "-c", code]
        )
        console._send()
    assert (console.look["copied"], console.look["problems"]) == (3, [])


class Assigned(catalogd.Console):
    """Notes each look that another thread may see."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "look":
            vars(self).setdefault("seen", []).append(dict(value))
        super().__setattr__(name, value)


def test_a_look_is_told_whole(service: catalogd.Web) -> None:
    console = Assigned(service.consoles, {"id": "x", "name": "Attic"})
    console._note_saves(told_line("", 3))
    assert vars(console)["seen"] == [{}, console.look]


@pytest.mark.parametrize(
    "told",
    [
        *("{", "[" * 100_000, "null", "3", "{}", "[]"),
        *('{"saves": 3}', '{"saves": 3, "code": 1, "arguments": {}}'),
        *('{"saves": "3", "code": "", "arguments": {}}', '{"saves": 3, "code": ""}'),
    ],
)
def test_what_has_another_form_is_an_ordinary_line(
    told: str, service: catalogd.Web
) -> None:
    console = catalogd.Console(service.consoles, {"id": "x", "name": "Attic"})
    line = catalogd.TOLD + told
    assert (console._note_saves(line), console.look) == (line, {})


HOSTILE = [
    "Saves",
    "Saves: 3 copied",
    '{"saves": 1}',
    '{"saves": 7, "code": "", "arguments": {}}',
    '\x1e{"saves": 7, "code": "", "arguments": {}}',
    'a\n\x1e{"saves": 7, "code": "", "arguments": {}}\n',
    '\x1e{"saves": "',
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_makes_a_line_of_saves(name: str, service: catalogd.Web) -> None:
    console = catalogd.Console(service.consoles, {"id": "x", "name": "Attic"})
    assert catalogd.TOLD == send_to_switch.TOLD
    out = io.StringIO()
    for text in (f"{name}: sending 1 B.", name, f"Not sent: {name}", f"{name}: {name}"):
        send_to_switch.Screen(out).say(text)
    lines = re.split("[\r\n]", out.getvalue())
    assert [console._note_saves(line) for line in lines] == lines
    assert (console.look, console._unsaved) == ({}, [])


def test_a_file_of_any_name_is_sent(
    home: Home, consoles: catalogd.Consoles, console: FTPConsole
) -> None:
    device = add(home, console)
    home.library.add("Star Garden.nsp", b"x" * 1000)
    home.web.scanner.scan()
    [entry] = home.store.database.rows("SELECT id FROM entries")
    home.store.entries.edit(entry["id"], {"name": HOSTILE[3]})
    home.store.queue.send(home.anna, entry["id"], device)
    consoles.update()
    wait_for(lambda: states(home) == ["completed"])
    wait_for(lambda: consoles.looks())
    assert consoles.looks()[0]["copied"] == 0


def states(home: Home) -> list[str]:
    return [row["status"] for row in home.store.database.rows("SELECT * FROM queue")]


# The whole of it


@pytest.fixture
def console(card: pathlib.Path) -> Iterator[FTPConsole]:
    with contextlib.closing(FTPConsole(card)) as console:
        yield console


def add(home: Home, console: FTPConsole, name: str = "Attic: Étoile") -> str:
    device = {"name": name, "target": console.url()}
    return home.store.devices.add(home.anna, device)


def test_the_server_has_the_saves_of_its_consoles_copied(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    card: pathlib.Path,
    saves: pathlib.Path,
) -> None:
    whole = write(card, "JKSV/Star/1.zip", b"first")
    device = add(home, console)
    consoles.update()
    wait_for(lambda: consoles.looks())
    assert kept(saves) == [whole]
    [look] = consoles.looks()
    assert (look["id"], look["copied"], look["problems"]) == (device, 1, [])
    rows = sign_in(home.web, "anna").get("/web/saves").json["copies"]
    assert [row["console"] for row in rows] == ["Attic: Étoile"]
    [folder] = saves.iterdir()
    home.store.devices.change(device, {"name": "Loft"})
    [row] = home.store.devices.by_server()
    assert consoles.settings_of(row)["saves"][0] == str(folder)
    own = pathlib.Path(home.store.database.folder, "consoles")
    consoles._version = -1
    consoles.update()
    assert (own / "saves").is_dir()


BIG = 300_000_000


@pytest.mark.slow
def test_a_send_begins_while_a_large_backup_is_copied(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    card: pathlib.Path,
    saves: pathlib.Path,
) -> None:
    (card / "JKSV/Star").mkdir(parents=True)
    big = card / "JKSV/Star/1.zip"
    big.write_bytes(packed(b""))
    os.truncate(big, BIG)
    device = add(home, console)
    home.library.add("Star Garden.nsp", b"x" * 1000)
    home.web.scanner.scan()
    [entry] = home.store.database.rows("SELECT id FROM entries")
    begun = threading.Event()
    console.before["STOR"] = begun.set
    consoles.update()
    wait_for(lambda: any(file.stat().st_size for file in saves.rglob("*.part")))
    home.store.queue.send(home.anna, entry["id"], device)
    consoles.update()
    assert begun.wait(60)
    assert not [*saves.rglob("*.zip")]  # it was in the middle of that


# The command check


def test_check_tells_what_was_copied_last_and_why_not(
    copies: Copies,
    service: catalogd.Web,
    saves: pathlib.Path,
    library: Library,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told() -> str:
        return checked(str(saves), library, tmp_path, capsys)

    def running(folder: str) -> dict[str, Any]:
        return {"address": "", **service.health.state()}

    monkeypatch.setattr(catalogd, "running_service", running)
    assert told() == "ok: none yet"
    path = copies.add("Attic", "Star", "1")
    os.utime(saves / f"Attic ({copies.ids['Attic']})" / path, (1e9, 1e9))
    last = "ok: Star/1 of Attic, 2001-09-09T01:46:40 UTC"
    assert told() == last
    looked = Looked("a", 1, "It broke.")
    service.consoles._running["a"] = looked  # type: ignore[assignment]
    assert told() == f"{last}; Attic: It broke."
    looked.look["failures"] = 2
    fault = "Saves of Attic are not copied: It broke."
    assert told() == f"{fault}; {last}; Attic: It broke."
    service.consoles._running.clear()
    shutil.rmtree(saves)
    assert told() == f"Saves cannot be kept in {saves}: {AWAY}"
    assert send_to_switch.SENTENCES["disk_away"] == AWAY


# The page in a real Chromium

BROKEN = "Not copied: /JKSV/Moon/2.zip: It is not whole, or it is being written."


@pytest.fixture
def looked(service: catalogd.Web, store: catalogd.Store, copies: Copies) -> str:
    """A console with two saves, that was looked at."""
    id = copies.device("Living room", store.accounts.id_of("anna"), shared=True)
    for title, name in {"Étoile 日本": "#1 50%", "Moon": "Chapter 3"}.items():
        copies.add("Living room", title, name, packed(title.encode()))
    console = catalogd.Console(service.consoles, {"id": id, "name": "Living room"})
    damaged = {"code": "save_damaged", "arguments": {}}
    broken = {"path": "/JKSV/Moon/2.zip", "why": damaged}
    failed = {"code": "save_failed", "arguments": broken}
    none = {"code": "", "arguments": {}}
    for told in ({"saves": None, **failed}, {"saves": 2, **none}):
        console._note_saves(f"{catalogd.TOLD}{json.dumps(told)}")
    service.consoles._running[id] = console
    return id


def test_the_saves_are_listed_by_title_and_downloaded(anna: Any, looked: str) -> None:
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Saves")
    see(panel, "Looked for saves")
    see(panel, "2 copied")
    see(panel, BROKEN)
    panel.get_by_text("Étoile 日本").click()
    with anna.expect_download() as download:
        panel.get_by_role("link", name="Download #1 50%").click()
    assert download.value.suggested_filename == "#1 50%.zip"
    content = pathlib.Path(download.value.path()).read_bytes()
    assert content == packed("Étoile 日本".encode())


def test_a_device_has_its_own_saves(anna: Any, looked: str) -> None:
    anna.goto("#settings/devices")
    row = anna.get_by_role("listitem").filter(has_text="living room.lan")
    see(row, BROKEN)
    row.get_by_text("Saves", exact=True).click()
    row.get_by_text("Moon", exact=True).click()
    row.get_by_role("link", name="Download Chapter 3").wait_for()


def test_where_their_disk_is_away_the_list_tells_it(
    anna: Any, saves: pathlib.Path
) -> None:
    saves.rmdir()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Saves")
    see(panel, AWAY)


def test_without_saves_there_is_no_list(anna: Any) -> None:
    anna.goto("#settings/library")
    anna.get_by_role("region", name="Tidy").wait_for()
    assert anna.get_by_role("region", name="Saves").count() == 0


def test_a_child_without_any_sees_none(
    visit: Visit, store: catalogd.Store, site: str, looked: str
) -> None:
    store.accounts.add("kim", catalogd.hash_password(PASSWORD), age=12)
    page = visit(base_url=site)
    sign_in_page(page, store, site, "kim")
    page.goto("#settings/devices")
    see(page, "Living room")
    assert page.get_by_text("Saves", exact=True).count() == 0
