"""The options of the INI file, and the messages for what is not one."""

import errno
import ntpath
import os
import pathlib
import sys
import types
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd

EXAMPLE = pathlib.Path(__file__).parent.parent / "catalogd.ini.example"


@pytest.fixture
def ini(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "catalogd.ini"


def test_the_example_in_the_repository_is_the_one_that_is_printed() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") == catalogd.EXAMPLE


def test_the_example_has_the_defaults() -> None:
    assert catalogd.Settings.read(str(EXAMPLE)) == catalogd.Settings()


def test_an_empty_file_means_the_defaults(ini: pathlib.Path) -> None:
    ini.write_text("")
    assert catalogd.Settings.read(str(ini)) == catalogd.Settings()


@pytest.mark.parametrize(
    ("section", "line", "name", "value"),
    [
        ("library", "folders =\n  /games\n\n  # old\n  /a b%c\n", "folders", None),
        ("library", "extensions = .NSP, xci", "extensions", ("nsp", "xci")),
        ("library", "scan_interval = 0.5e2", "scan_interval", 50.0),
        ("library", "exclude =\n  *demo*\n  old/\n", "exclude", ("*demo*", "old/")),
        ("library", "settle = 0", "settle", 0.0),
        ("library", "forget_after = 36500", "forget_after", 36500.0),
        ("server", "host = ::1", "host", "::1"),
        ("server", "PORT : 80", "port", 80),
        (
            "server",
            "base_url = https://é.org/games/",
            "base_url",
            "https://é.org/games",
        ),
        ("server", "trusted_proxy = 0:0::1", "trusted_proxy", "::1"),
        ("server", "trusted_proxy =", "trusted_proxy", ""),
        ("server", "threads = 64", "threads", 64),
        ("queue", "stale_after = 1", "stale_after", 1.0),
        ("queue", "sources = url", "sources", "url"),
    ],
)
def test_each_option_is_read(
    ini: pathlib.Path, section: str, line: str, name: str, value: Any
) -> None:
    ini.write_text(f"[{section}]\n{line}\n", encoding="utf-8")
    expected = ("/games", "/a b%c") if value is None else value
    assert getattr(catalogd.Settings.read(str(ini)), name) == expected


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(ini: pathlib.Path) -> None:
    ini.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 80\r\n")
    assert catalogd.Settings.read(str(ini)).port == 80


@pytest.mark.parametrize(
    ("section", "key", "text", "reason"),
    [
        ("library", "extensions", "", "is not a list of file extensions"),
        ("library", "extensions", "*.nsp", "is not a list of file extensions"),
        ("library", "scan_interval", "often", "is not a number"),
        ("library", "scan_interval", "0.5", "is not from 1 to 2592000"),
        ("library", "settle", "nan", "is not from 0 to 86400"),
        ("library", "forget_after", "inf", "is not from 0 to 36500"),
        ("server", "port", "", "is not a whole number"),
        ("server", "port", "80.0", "is not a whole number"),
        ("server", "port", "65536", "is not from 0 to 65535"),
        ("library", "folders", "games", "needs a whole path, without quotes"),
        ("library", "folders", "~/Games", "needs a whole path, without quotes"),
        ("library", "folders", "/a, /b", "is several folders: write one on each line"),
        (
            "library",
            "folders",
            r"D:\a;E:\b",
            "is several folders: write one on each line",
        ),
        ("library", "folders", '"/srv/my games"', "needs a whole path, without quotes"),
        ("library", "exclude", "/lib/old", "has to begin behind the library folder"),
        ("library", "inbox", "Inbox", "needs a whole path, without quotes"),
        ("library", "inbox", "~/Games/Inbox", "needs a whole path, without quotes"),
        ("backup", "folder", '"/mnt/backup"', "needs a whole path, without quotes"),
        ("server", "base_url", "example.org", "is not an address such as"),
        ("server", "base_url", "ftp://example.org", "is not an address such as"),
        ("server", "base_url", "http://[broken", "is not an address such as"),
        ("server", "base_url", "http://example.org:web", "is not an address such as"),
        ("server", "base_url", "http://example.org:0", "is not an address such as"),
        ("server", "base_url", "http://exa mple.org", "is not an address such as"),
        ("server", "base_url", "http://example.org/?a", "is not an address such as"),
        ("server", "base_url", "http://example.org/#a", "is not an address such as"),
        ("server", "trusted_proxy", "localhost", "is not an IP address"),
        ("server", "threads", "0", "is not from 1 to 64"),
        ("queue", "stale_after", "0", "is not from 1 to 2592000"),
        ("queue", "sources", "both", "is not one of path, url"),
    ],
)
def test_a_bad_value_is_named_with_its_file_section_and_key(
    ini: pathlib.Path, section: str, key: str, text: str, reason: str
) -> None:
    ini.write_text(f"[{section}]\n{key} = {text}\n")
    with pytest.raises(catalogd.Problem) as error:
        catalogd.Settings.read(str(ini))
    assert str(error.value).startswith(f"{ini}: [{section}] {key}: {text!r} {reason}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[server]\nprot = 80", "[server] prot: unknown option."),
        ("[queue]\nport = 80", "[queue] port: unknown option."),
        ("[sever]\nport = 80", "[sever] port: unknown option."),
        ("[DEFAULT]\nport = 80", "[DEFAULT] port: unknown option."),
        ("port = 80", "line 1: is no "),
        ("[server]\nport", "line 2: is no "),
        ("[library]\nfolders =\n/srv/games", "line 3: is no "),
        ("[library]\nfolders =\n /srv\n Games", "[library] folders: 'Games' needs "),
        ("[library]\nfolders =\n /a\n b", "[library] folders: 'b' needs "),
        ("[server]\nport=1\nport=2", "line 3: is no "),
        ("[server]\n[server]\n", "line 2: is no "),
    ],
)
def test_what_is_not_a_setting_is_named_with_its_file(
    ini: pathlib.Path, content: str, message: str
) -> None:
    ini.write_text(content)
    with pytest.raises(catalogd.Problem) as error:
        catalogd.Settings.read(str(ini))
    assert str(error.value).startswith(f"{ini}: {message}")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_utf_8_is_an_error(ini: pathlib.Path) -> None:
    ini.write_bytes(b"[server]\nhost = \xff\n")
    with pytest.raises(catalogd.Problem, match="line 2: save it as UTF-8."):
        catalogd.Settings.read(str(ini))


def test_a_folder_whose_name_looks_like_more_may_be_there(
    ini: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "Game #1"
    folder.mkdir()
    ini.write_text(f"[library]\nfolders = {folder}\n")
    assert catalogd.Settings.read(str(ini)).folders == (str(folder),)


@pytest.mark.parametrize("path", ["D:", "D:\\my games", "D:/games", "\\\\nas\\games"])
def test_a_folder_of_windows_has_a_drive_or_a_server(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(catalogd.os, "path", ntpath)
    assert catalogd.folder_list(path) == (path,)


@pytest.mark.parametrize(
    ("path", "uv", "name"),
    [
        ("/usr/bin/catalogd", False, "catalogd"),
        ("-c", False, "catalogd"),
        ("catalogd.py", False, "python3 catalogd.py"),
        ("./catalogd.pyz", False, "python3 ./catalogd.pyz"),
        ("catalogd.py", True, "uv run catalogd.py"),
    ],
)
def test_messages_call_the_program_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, path: str, uv: bool, name: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.delenv("UV", raising=False)
    if uv:
        monkeypatch.setenv("UV", "/usr/bin/uv")
    assert catalogd.program_name(path) == name


@pytest.mark.parametrize(
    ("platform", "number", "text"),
    [
        ("linux", errno.EACCES, "no for the user anna. Run it with sudo."),
        ("linux", errno.ENOENT, "no."),
        ("win32", errno.EACCES, "no."),
    ],
)
def test_who_lacks_a_right_is_told_what_helps(
    monkeypatch: pytest.MonkeyPatch, platform: str, number: int, text: str
) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    named = types.SimpleNamespace(pw_name="anna")
    users = types.SimpleNamespace(getpwuid=lambda uid: named)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setitem(sys.modules, "pwd", users if platform == "linux" else None)
    assert catalogd.reason(OSError(number, "no")) == text


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_sudo_is_no_advice_to_who_uses_it_nor_in_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pwd

    denied, user = PermissionError(errno.EACCES, "no"), Mock(pw_name="anna")
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=[user, KeyError]))
    monkeypatch.setenv("SUDO_USER", "anna")
    assert catalogd.reason(denied) == "no for the user anna."
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)  # who has no name there
    told = "no for the container's user 54321 (PUID or --user)."
    assert catalogd.reason(denied) == told


def test_a_missing_file_is_an_error(ini: pathlib.Path) -> None:
    with pytest.raises(catalogd.Problem, match="cannot be read: No such file"):
        catalogd.Settings.read(str(ini))


def test_an_empty_section_changes_nothing(ini: pathlib.Path) -> None:
    ini.write_text("[store]\n[server]\n[library]\n")
    assert catalogd.Settings.read(str(ini)) == catalogd.Settings()
