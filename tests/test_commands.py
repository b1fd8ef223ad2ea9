"""The command line, as a person or a service manager uses it."""

import argparse
import collections
import contextlib
import errno
import io
import ipaddress
import itertools
import json
import logging
import os
import pathlib
import re
import runpy
import select
import shlex
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import send_to_switch
from conftest import PASSWORD, Library, free_port, refuse, wait_for
from test_client import Terminal

PROGRAM = catalogd.__file__
HERE = os.path.dirname(PROGRAM)
Run = Callable[..., str]


@pytest.fixture
def data(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A data folder. Nothing is written to the home of the user who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CATALOGD_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def run(data: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must succeed, and return what it prints."""

    def run(*words: str) -> str:
        assert catalogd.main(words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(data: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must fail, and return its one line of error."""

    def run(*words: str, code: int = 2) -> str:
        assert catalogd.main(words) == code
        out, err = capsys.readouterr()
        assert out == "" and re.fullmatch(r"catalogd: [^\n]+\n", err)
        return err.removeprefix("catalogd: ").rstrip("\n")

    return run


@contextlib.contextmanager
def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> Iterator[None]:
    """Give standard input this content while the block runs."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))
        yield


@pytest.fixture
def anna(run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create the account anna, and return what that printed."""
    with typed(monkeypatch, f"{PASSWORD}\n".encode()):
        return run("user", "add", "anna", "--password-stdin")


@contextlib.contextmanager
def opened(data: pathlib.Path) -> Iterator[catalogd.Store]:
    with contextlib.closing(catalogd.Store(str(data))) as store:
        yield store


# Standard streams


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT of others")
def test_ctrl_c_while_the_program_loads_is_no_traceback(data: pathlib.Path) -> None:
    code = f"""
import importlib.abc, os, runpy, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "bottle":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
runpy.run_path({PROGRAM!r}, run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_closed_standard_input_has_nothing_to_ask_on(data: pathlib.Path) -> None:
    for words in ([], ["--password-stdin"]):
        command = [sys.executable, catalogd.__file__, "user", "add", "bob", *words]
        shell = ["sh", "-c", f"exec {shlex.join(command)} <&-"]
        done = subprocess.run(shell, capture_output=True, text=True)
        assert done.returncode == 2 and "assword" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_service_with_closed_streams_serves(
    closed: str, data: pathlib.Path, library: Library
) -> None:
    port = free_port()
    command = [sys.executable, catalogd.__file__, "serve", str(library.folder)]
    command += ["--data-dir", str(data), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(["sh", "-c", f"exec {shlex.join(command)} {closed}"]) as one:
        try:
            wait_for(lambda: catalogd.answers(f"http://127.0.0.1:{port}/", 1))
        finally:
            one.terminate()
    assert one.returncode == 0


# The parser


@pytest.mark.parametrize("path", ["", *(row.path for row in catalogd.COMMANDS)])
def test_each_command_has_help_that_explains_every_argument(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        catalogd.main([*path.split(), "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: catalogd {path}".rstrip())
    rows = re.findall(r"^  (\S.*)$", text.partition("\n\n")[2], re.MULTILINE)
    assert all(re.search(r"\S  +\S", row) for row in rows if row != "COMMAND"), rows


@pytest.mark.parametrize("command", catalogd.COMMANDS, ids=lambda command: command.path)
def test_the_help_of_an_option_has_its_default(command: catalogd.Command) -> None:
    for name, rules in (*command.arguments, *catalogd.common_arguments()):
        is_optional = name.startswith("-") and not rules.get("required")
        assert not is_optional or "(default: " in rules["help"]


def test_the_help_lists_the_commands_in_their_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        catalogd.main(["--help"])
    found = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    words = ["serve", "scan", "user", "key", "verify"]
    assert found[: len(words)] == words


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        catalogd.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"catalogd {catalogd.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("dance", "argument COMMAND: invalid choice: 'dance'"),
        ("user add", "the following arguments are required: NAME."),
        ("scan more", "unrecognized arguments: more. See 'catalogd scan --help'."),
        ("serve --port x", "argument --port: 'x' is not a whole number."),
        ("serve --por 80", "unrecognized arguments: --por"),
        ("serve --port 65536", "argument --port: '65536' is not from 0 to 65535."),
    ],
)
def test_a_wrong_command_is_one_line(refused: Run, words: str, message: str) -> None:
    assert refused(*words.split()).startswith(message)


def test_a_key_in_a_wrong_command_is_not_printed(refused: Run) -> None:
    key = catalogd.new_key()
    printed = refused("scan", "--key", key)
    assert "--key catalogd_..." in printed and key not in printed


@pytest.mark.parametrize("path", ["", "user", "key"])
def test_a_group_of_commands_lists_them(run: Run, path: str) -> None:
    printed = run(*path.split())
    names = [row.path.split() for row in catalogd.COMMANDS if row.path.startswith(path)]
    assert all(f"\n    {words[len(path.split())]} " in printed for words in names)


@pytest.mark.parametrize("package", ["bottle", "platformdirs", "waitress.server"])
def test_without_a_package_one_line_tells_what_helps(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(PROGRAM, run_name="__main__")
    message = f"catalogd: the package {package} is missing. Run 'uv run catalogd.py' "
    assert str(end.value).startswith(message)
    assert "\n" not in str(end.value)


PIP = f"{sys.executable} -m pip install bottle waitress platformdirs"
APT = "apt install python3-bottle python3-waitress python3-platformdirs"


@pytest.mark.parametrize(
    ("prefix", "is_debian", "advice"),
    [("/home/a/venv", True, PIP), ("/usr", False, PIP), ("/usr", True, APT)],
)
def test_what_installs_a_package_fits_the_system(
    monkeypatch: pytest.MonkeyPatch, prefix: str, is_debian: bool, advice: str
) -> None:
    monkeypatch.setitem(sys.modules, "waitress.server", None)
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(os.path, "exists", lambda path: is_debian)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(PROGRAM, run_name="__main__")
    assert str(end.value).endswith(advice)


# Configuration


def test_the_example_is_printed(run: Run) -> None:
    assert run("example") == catalogd.EXAMPLE


@pytest.mark.parametrize("way", ["option", "variable", "default"])
def test_the_ini_file_is_found(
    refused: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = str(tmp_path / "config")
    monkeypatch.setattr(
        catalogd.platformdirs, "user_config_dir", lambda *names, **rules: folder
    )
    path = tmp_path / "config" / "catalogd.ini"
    message = "[server] port: 'this one' is not a whole number."
    words = ["user", "list"]
    if way != "default":
        path.parent.mkdir(parents=True)
        path.write_text("[server]\nport = none of these\n")
        path = tmp_path / "asked.ini"
    if way == "option":
        words += ["--config", str(path)]
    if way == "variable":
        monkeypatch.setenv("CATALOGD_CONFIG", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[server]\nport = this one\n")
    assert refused(*words, code=78) == f"{path}: {message}"


def test_the_default_ini_file_is_in_the_users_configuration(data: pathlib.Path) -> None:
    folder = catalogd.platformdirs.user_config_dir("catalogd", appauthor=False)
    assert catalogd.default_config_file() == os.path.join(folder, "catalogd.ini")


def test_an_ini_file_that_was_named_must_exist(refused: Run) -> None:
    assert "no.ini: cannot be read" in refused("scan", "--config", "no.ini", code=78)


@pytest.mark.parametrize("way", ["option", "variable", "default"])
@pytest.mark.parametrize("command", ["serve", "scan"])
def test_without_a_folder_the_message_names_the_file_that_would_be_read(
    refused: Run,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    way: str,
) -> None:
    path, words = str(tmp_path / "empty.ini"), [command]
    pathlib.Path(path).touch()
    if way == "option":
        words += ["--config", path]
    elif way == "variable":
        monkeypatch.setenv("CATALOGD_CONFIG", path)
    else:
        path = catalogd.default_config_file()
    message = "No library folder is set. Run 'catalogd serve /path/to/games', or list"
    assert refused(*words, code=78) == f"{message} folders in {path}."


def test_the_command_line_overrides_the_ini_file(tmp_path: pathlib.Path) -> None:
    ini = tmp_path / "a.ini"
    ini.write_text("[library]\nfolders = /a\n[server]\nport = 80\nhost = ::1\n")
    words = ["serve", "/b", "--port", "0", "--config", str(ini)]
    settings = catalogd.read_settings(catalogd.parser().parse_args(words))
    assert (settings.folders, settings.port, settings.host) == (("/a", "/b"), 0, "::1")


def test_the_data_folder_can_be_chosen(run: Run, tmp_path: pathlib.Path) -> None:
    with contextlib.closing(catalogd.Store(str(tmp_path / "chosen"))) as store:
        store.accounts.add("chosen", "hash")
    assert "chosen" in run("user", "list", "--data-dir", str(tmp_path / "chosen"))


NO_DATABASE = (
    "has no database. Start 'catalogd serve' with it once, or choose another"
    " --data-dir."
)


@pytest.mark.parametrize(
    "words", [("backup", "copy"), ("scan",), ("user", "add", "anna"), ("key", "list")]
)
def test_a_mistyped_data_folder_is_not_created(
    refused: Run, tmp_path: pathlib.Path, words: tuple[str, ...]
) -> None:
    typo = tmp_path / "dtaa"
    assert refused(*words, "--data-dir", str(typo)) == f"{typo}: {NO_DATABASE}"
    assert not typo.exists()


def test_the_parent_of_a_chosen_data_folder_must_exist(
    refused: Run, library: Library, tmp_path: pathlib.Path
) -> None:
    typo = tmp_path / "dtaa"
    printed = refused("serve", str(library.folder), "--data-dir", str(typo / "sub"))
    assert printed == f"{typo / 'sub'}: cannot be created: there is no folder {typo}."
    assert not typo.exists()


def test_a_folder_that_is_there_and_empty_is_a_new_data_folder(
    run: Run, refused: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "other"):
        (tmp_path / name).mkdir()
    with typed(monkeypatch, f"{PASSWORD}\n".encode()):
        words = ("--password-stdin", "--data-dir", str(tmp_path / "empty"))
        assert "Created the account" in run("user", "add", "anna", *words)
    (tmp_path / "other" / "letter.txt").touch()
    other = tmp_path / "other"
    for words in (("user", "list"), ("key", "list"), ("scan",)):
        told = refused(*words, "--data-dir", str(other))
        assert told == f"{other}: {NO_DATABASE}"
    assert os.listdir(other) == ["letter.txt"]


def test_the_default_data_folder_is_the_users(
    run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CATALOGD_DATA_DIR")
    usual = lambda *names, **rules: str(tmp_path / "usual")  # noqa: E731
    monkeypatch.setattr(catalogd.platformdirs, "user_data_dir", usual)
    run("user", "list")
    assert (tmp_path / "usual" / "catalogd.db").exists()


@pytest.mark.parametrize("is_old", [True, False])
def test_who_has_no_home_names_the_folders(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    is_old: bool,
) -> None:
    """As in a container. Before 4.4, platformdirs gave a path that begins with "~"."""

    def folder(name: str, appauthor: bool) -> str:
        if is_old:
            return f"~/.config/{name}"
        raise RuntimeError("could not determine the home directory")

    for name in ("user_config_dir", "user_data_dir"):
        monkeypatch.setattr(catalogd.platformdirs, name, folder)
    for name in ("CATALOGD_CONFIG", "CATALOGD_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert catalogd.main(["user", "list"]) == 2
    assert "arguments are required: --data-dir" in capsys.readouterr().err
    assert (
        catalogd.main(["check", "--data-dir", str(tmp_path)]) == 1
    )  # it has no library folder
    assert "settings  ok: no file (not there: the defaults" in capsys.readouterr().out


def test_settings_beside_the_program_that_are_not_read_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    beside, other = tmp_path / "catalogd.ini", tmp_path / "other.ini"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "catalogd.py")])
    other.touch()
    assert catalogd.settings_texts(str(other)) == [str(other)]
    beside.touch()
    told = f"{beside} is not read: name it with --config"
    assert catalogd.settings_texts(str(other)) == [str(other), told]
    assert catalogd.settings_texts(str(beside)) == [str(beside)]


def test_an_old_sqlite_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(SystemExit, match="and 3.38 or later is needed"):
        runpy.run_path(PROGRAM)


def test_a_data_folder_that_cannot_be_used_is_one_line(
    refused: Run, library: Library
) -> None:
    for command in (["user", "list"], ["serve", str(library.folder)], ["check"]):
        assert refused(*command, "--data-dir", PROGRAM).startswith(PROGRAM)


# Accounts


def test_the_first_account_is_an_admin(anna: str, data: pathlib.Path) -> None:
    assert anna == "Created the account anna, an admin.\n"
    with opened(data) as store:
        _, password = store.accounts.credentials("anna") or (0, None)
    assert catalogd.password_matches(PASSWORD, password)


@pytest.mark.parametrize(
    ("more", "role"), [([], "a member"), (["--admin"], "an admin")]
)
def test_a_later_account_is_an_admin_with_the_option(
    anna: str, run: Run, monkeypatch: pytest.MonkeyPatch, more: list[str], role: str
) -> None:
    with typed(monkeypatch, PASSWORD.encode()):
        printed = run("user", "add", "e\u0301va", "--password-stdin", *more)
    assert printed == f"Created the account éva, {role}.\n"


@pytest.mark.parametrize(
    ("name", "password", "message"),
    [
        ("Anna", b"long enough", "There is an account Anna already."),
        ("ÉVA", b"long enough", "There is an account ÉVA already."),
        ("\u017fcanner", b"long enough", "The account name scanner is reserved."),
        ("scanner", b"long enough", "The account name scanner is reserved."),
        ("ben", b"short", "A password has at least 8 characters."),
        ("ben", b"", "A password has at least 8 characters."),
        ("ben", b"\xff" * 8, "The password has a character that is not text."),
    ],
)
def test_an_account_that_cannot_be_created_is_one_line(
    anna: str,
    refused: Run,
    monkeypatch: pytest.MonkeyPatch,
    data: pathlib.Path,
    name: str,
    password: bytes,
    message: str,
) -> None:
    with opened(data) as store:
        store.accounts.add("éva", "hash")
    with typed(monkeypatch, password):
        assert refused("user", "add", name, "--password-stdin") == message


def test_a_password_is_not_the_name_of_its_account(
    refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed(monkeypatch, b"Somebody\n"):
        message = refused("user", "add", "somebody", "--password-stdin")
    assert message == catalogd.SENTENCES["common_password"]


def test_without_a_terminal_no_password_is_asked_for(
    refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed(monkeypatch, PASSWORD.encode()):
        message = "There is no terminal to ask on. Use --password-stdin."
        assert refused("user", "add", "anna") == message


def test_accounts_are_listed(anna: str, run: Run, data: pathlib.Path) -> None:
    with opened(data) as store:
        store.accounts.add("benjamin", "hash")
    head, *rows = run("user", "list").splitlines()
    assert head == "NAME      ROLE    AGE  CREATED (UTC)"
    assert [row[:18] for row in rows] == ["anna      admin   ", "benjamin  member  "]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", rows[0][23:])


def test_an_account_has_an_age(
    anna: str, run: Run, refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed(monkeypatch, PASSWORD.encode()):
        words = ("user", "add", "ben", "--password-stdin")
        assert run(*words, "--age", "7") == "Created the account ben, a member.\n"
    assert "ben   member  7    " in run("user", "list")
    assert run("user", "age", "ben", "12") == "ben sees what is for 12.\n"
    assert "ben   member  12   " in run("user", "list")
    assert run("user", "age", "ben", "none") == "ben sees every title.\n"
    assert "ben   member  -    " in run("user", "list")
    assert refused("user", "age", "anna", "7") == catalogd.say("admin_sees_all")
    assert "AGE: invalid choice: '8'" in refused("user", "age", "ben", "8")


def test_an_empty_list_has_a_message(run: Run) -> None:
    assert run("user", "list") == "There is no account yet.\n"
    assert run("key", "list") == "There is no key yet.\n"


def test_a_password_is_changed(
    anna: str, run: Run, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed(monkeypatch, b"another horse\r\n"):
        printed = run("user", "password", "anna", "--password-stdin")
    assert printed == "Changed the password of anna; all sessions ended.\n"
    with opened(data) as store:
        _, password = store.accounts.credentials("anna") or (0, None)
    assert catalogd.password_matches("another horse", password)


def test_a_word_that_is_no_text_is_one_line(anna: str, refused: Run) -> None:
    """Such as a name from a terminal whose letters are not UTF-8."""
    number, words = 0, {"age": "7"}
    for command in catalogd.COMMANDS:
        names = [name for name, _ in command.arguments if not name.startswith("-")]
        for name in {*names} - {"file", "folders", "ids", "age"}:
            given = [words.get(other, "a") for other in names]
            given[names.index(name)] = os.fsdecode(b"J\xfcrgen")
            told = refused(*command.path.split(), *given)
            assert told == f"The field {name} has a character that is not text."
            number += 1
    assert number > 6


def test_an_account_is_removed(anna: str, run: Run) -> None:
    printed = run("user", "remove", "anna")
    assert printed == "Removed the account anna with its keys and its queue.\n"
    assert run("user", "list") == "There is no account yet.\n"


@pytest.mark.parametrize(
    "words", [("user", "remove"), ("user", "password"), ("key", "list")]
)
def test_an_unknown_account_is_one_line(refused: Run, words: tuple[str, ...]) -> None:
    assert refused(*words, "nobody") == "There is no account nobody."


# Passwords on a terminal

# Makes standard input the terminal of the session, then becomes the command.
ATTACH = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def on_a_terminal(
    answers: list[bytes], words: Sequence[str] = (PROGRAM, "user", "add", "anna")
) -> tuple[int, str]:
    """Return exit code and output of what Python runs, with answers to its prompts."""
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    command = [sys.executable, *words]
    ours, theirs = pty.openpty()
    screen = b""
    with (
        open(ours, "r+b", buffering=0) as file,
        subprocess.Popen(
            [sys.executable, "-c", ATTACH, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        ) as process,
    ):
        os.close(theirs)
        while got := read(file):
            screen += got
            if answers and screen.endswith((b" characters): ", b"Again: ")):
                file.write(answers.pop(0))
    return process.returncode, screen.decode()


def read(terminal: io.FileIO) -> bytes:
    """Return what a program writes to a terminal; nothing after it has ended."""
    assert select.select([terminal], [], [], 60)[0]
    try:
        return terminal.read(1024) or b""
    except OSError as error:
        assert error.errno == errno.EIO
        return b""


def test_a_password_is_asked_for_twice_and_not_shown(data: pathlib.Path) -> None:
    code, screen = on_a_terminal([b"correct horse\n", b"correct horse\n"])
    ask = "Password (at least 8 characters): "
    lines = [ask, "Again: ", "Created the account anna, an admin.", ""]
    assert (code, screen.split("\r\n")) == (0, lines)


def test_what_a_terminal_gives_that_is_no_text_is_one_line(data: pathlib.Path) -> None:
    code, screen = on_a_terminal([b"\xff\xff\n"])
    assert (code, screen.count("catalogd: ")) == (2, 1)
    message = "The password has a character that is not text."
    assert screen.endswith(f"catalogd: {message}\r\n")
    with opened(data) as store:
        assert not store.accounts.exist()


def test_both_entries_of_a_password_are_compared(
    anna: str, refused: Run, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    answers = iter(["another horse", "another house", "another horse", "another horse"])
    monkeypatch.setattr(catalogd.getpass, "getpass", lambda prompt: next(answers))
    assert refused("user", "password", "anna") == "The two passwords differ."
    assert run("user", "password", "anna").startswith("Changed the password")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("short", "A password has at least 8 characters."),
        (EOFError, "No password was entered."),
    ],
)
def test_a_password_that_is_refused_is_one_line(
    data: pathlib.Path,
    refused: Run,
    monkeypatch: pytest.MonkeyPatch,
    typed: Any,
    message: str,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(catalogd.getpass, "getpass", Mock(side_effect=[typed]))
    assert refused("user", "add", "anna") == message
    with opened(data) as store:
        assert not store.accounts.exist()


# Keys


def test_a_key_is_printed_and_nothing_else(
    anna: str, run: Run, data: pathlib.Path
) -> None:
    key = run("key", "add", "anna", "switch")
    assert re.fullmatch(r"catalogd_[\w-]{43}\n", key)
    with opened(data) as store:
        assert store.accounts.key_holder(catalogd.hash_token(key.strip())) is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("anna", ""), "The field label is empty."),
        (("anna", "l" * 101), "The field label is longer than 100 characters."),
        (("anna", "\udcff"), "The field label has a character that is not text."),
        (("nobody", "switch"), "There is no account nobody."),
    ],
)
def test_a_key_that_cannot_be_created_is_one_line(
    anna: str, refused: Run, words: tuple[str, str], message: str
) -> None:
    assert refused("key", "add", *words) == message


def test_keys_are_listed_with_their_use(
    anna: str, run: Run, data: pathlib.Path
) -> None:
    key = run("key", "add", "anna", "living room").strip()
    before = run("key", "list").splitlines()
    assert before[0].split("  ")[0] == "ID"
    assert re.search(r"anna +living room +\S{19} +- +0$", before[1])
    with opened(data) as store:
        store.accounts.key_holder(catalogd.hash_token(key))
    after = run("key", "list", "anna").splitlines()
    assert re.search(r"anna +living room +\S{19} +\S{19} +1$", after[1])
    assert key not in "".join(before + after)


def test_a_label_cannot_move_the_cursor(anna: str, run: Run) -> None:
    run("key", "add", "anna", "a\n\x1b[2Jb")
    assert r"a\n\x1b[2Jb" in run("key", "list")


def test_a_key_is_revoked(anna: str, run: Run, refused: Run) -> None:
    run("key", "add", "anna", "switch")
    key = run("key", "list").splitlines()[1].split()[0]
    assert run("key", "revoke", key) == f"Revoked the key {key}.\n"
    assert refused("key", "revoke", key) == f"There is no key {key}."


def test_a_bundled_program_is_the_client_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(send_to_switch, "run_by_server", lambda: 3)
    assert catalogd.main(["send_to_switch"]) == 3


# Backup


def test_the_database_is_copied(anna: str, run: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "copy.db"
    assert run("backup", str(path)) == f"Copied the database to {path}.\n"
    with contextlib.closing(sqlite3.connect(path)) as copy:
        assert copy.execute("SELECT name FROM accounts").fetchall() == [("anna",)]


def test_a_backup_that_cannot_be_written_is_one_line(
    anna: str, refused: Run, tmp_path: pathlib.Path
) -> None:
    for path, why in (("no/copy", "No such file or directory"), ("", "Is a directory")):
        to = str(tmp_path / path)
        assert refused("backup", to) == f"{to}: cannot be written: {why}."


def test_a_printed_backup_is_one_that_restore_takes(
    anna: str, run: Run, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    before, copy = sorted(os.listdir(data)), tmp_path / "copy.db"
    copy.touch()
    with printing_to(str(copy)):
        run("backup", "-")
    catalogd.check_backup(str(copy), "copy.db")
    with contextlib.closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT name FROM accounts").fetchall() == [("anna",)]
    assert sorted(os.listdir(data)) == before


@contextlib.contextmanager
def printing_to(path: str) -> Iterator[None]:
    """While the block runs, have a file as the standard output of the process."""
    saved, new = os.dup(1), os.open(path, os.O_WRONLY)
    try:
        os.dup2(new, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(new)


def test_a_backup_that_standard_output_does_not_take_is_one_line(
    anna: str, refused: Run
) -> None:
    with printing_to("/dev/full"):
        message = "The output: cannot be written: No space left on device."
        assert refused("backup", "-") == message


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/full")
def test_an_output_that_is_not_taken_is_one_line(data: pathlib.Path) -> None:
    program = [sys.executable, catalogd.__file__, "example"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True)
    message = "catalogd: The output: cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/full")
@pytest.mark.parametrize("command", ["example", "user list", "check", "--version"])
def test_what_prints_to_a_full_disk_is_refused(
    refused: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        message = "The output: cannot be written: No space left on device."
        assert refused(*command.split()) == message


def test_another_error_of_the_system_is_no_fault_of_the_output(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=FileNotFoundError(2, "gone", "somewhere"))
    monkeypatch.setattr(catalogd, "run_command", fail)
    with pytest.raises(FileNotFoundError):
        catalogd.main(["example"])


def test_a_backup_is_not_printed_on_a_terminal(
    anna: str, refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert refused("backup", "-").startswith("A backup is no text. Add '> backup.db'")


def test_lists_are_printed_as_json(anna: str, run: Run) -> None:
    [user] = json.loads(run("user", "list", "--json"))
    assert (user["name"], user["role"], user["age"]) == ("anna", "admin", None)
    assert json.loads(run("key", "list", "--json")) == []
    run("key", "add", "anna", "laptop")
    [key] = json.loads(run("key", "list", "anna", "--json"))
    assert (key["account"], key["label"], key["requests"]) == ("anna", "laptop", 0)


def test_a_second_port_is_another_one(
    refused: Run, library: Library, no_handlers: None
) -> None:
    words = ("--port", "6070", "--also", "6070")
    printed = refused("serve", str(library.folder), *words)
    assert printed == "--also 6070 is the port itself. Leave it out."


def test_a_database_of_an_older_release_is_copied_and_not_upgraded(
    run: Run, refused: Run, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    data.mkdir()
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        sql = pathlib.Path(__file__).with_name("version4.sql").read_text("utf-8")
        db.executescript(sql)
    for words in (("user", "list"), ("key", "list"), ("scan",)):
        message = f"{data / 'catalogd.db'}: was made by an older catalogd."
        assert refused(*words).startswith(f"{message} Restart the service")
    run("backup", str(tmp_path / "copy"))
    for path in (data / "catalogd.db", tmp_path / "copy"):
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (4,)


# Scan


def ini_for(tmp_path: pathlib.Path, *folders: str) -> list[str]:
    """Return the option for an INI file with these folders."""
    path = tmp_path / "library.ini"
    path.write_text("[library]\nfolders =\n" + "".join(f"  {f}\n" for f in folders))
    return ["--config", str(path)]


def test_a_scan_prints_what_changed_and_what_is_still_being_copied(
    run: Run, library: Library, tmp_path: pathlib.Path
) -> None:
    config = ini_for(tmp_path, str(library.folder))
    library.add("a.nsp")
    library.add("b.xci")
    assert run("scan", *config) == "2 added.\n"
    os.unlink(library.folder / "a.nsp")
    assert run("scan", *config) == "1 gone.\n"
    assert run("scan", *config) == "nothing changed.\n"
    library.add("c.nsp")
    library.add("d.nsp", mtime=time.time() + 3600)
    assert run("scan", *config) == "1 added, 1 still being copied.\n"
    library.add("e.nsp", mtime=time.time() + 3600)
    assert run("scan", *config) == "2 still being copied.\n"


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock by a quarter of a second at each call."""
    monkeypatch.setattr(catalogd.time, "monotonic", itertools.count(0, 0.25).__next__)


def test_a_problem_is_one_line_whatever_is_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert catalogd.main(["scan", "--config", "/a\nb\x1b[2J\u202e.ini"]) == 78
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(r"catalogd: /a\nb\x1b[2J\u202e.ini: ")


@pytest.mark.parametrize(
    ("stream", "screen"),
    [(Terminal(), ["", "3 files found, 1 read", ""]), (io.StringIO(), [""])],
)
def test_progress_is_drawn_on_a_terminal_and_not_into_a_file(
    ticking: None, stream: io.StringIO, screen: list[str]
) -> None:
    line = catalogd.ProgressLine(stream)
    line.draw(catalogd.progress({"files": 3, "read": 1}))
    line.close()
    assert stream.getvalue().split("\r\x1b[K") == screen


def test_progress_is_drawn_ten_times_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd.time, "monotonic", itertools.count(0, 0.06).__next__)
    stream = Terminal()
    line = catalogd.ProgressLine(stream)
    for _ in range(4):
        line.draw("a")
    assert stream.getvalue().count("\r") == 2


def test_the_line_is_cleared_when_a_scan_fails(
    refused: Run,
    library: Library,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail = Mock(side_effect=catalogd.Busy("The database is busy."))
    ended = []
    monkeypatch.setattr(catalogd.Scanner, "scan", fail)
    monkeypatch.setattr(catalogd.ProgressLine, "close", lambda line: ended.append(line))
    config = ini_for(tmp_path, str(library.folder))
    assert refused("scan", *config) == "The database is busy."
    assert len(ended) == 1


# Serve


class Serving:
    """`catalogd serve` in a process of its own."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, "serve", "--host", "127.0.0.1", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.welcome = ""

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        while not self.welcome.endswith("Stop with Ctrl-C.\n"):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()[1]
            self.welcome += line

    @property
    def address(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+/", self.welcome)
        assert found
        return found[0]


@pytest.fixture
def serving(data: pathlib.Path) -> Iterator[Callable[..., Serving]]:
    """Start `catalogd serve`; each server ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> Serving:
            server = Serving(*words)
            stack.enter_context(server.process)
            stack.callback(server.process.kill)
            return server

        yield start


def get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def test_serve_prints_what_it_serves_and_where_and_ends_on_sigterm(
    serving: Callable[..., Serving], library: Library
) -> None:
    server = serving(str(library.folder), "--port", "0")
    server.wait_until_ready()
    assert b'"success": true' in get(f"{server.address}healthz")
    assert re.fullmatch(
        rf"catalogd \S+ serves\n    {re.escape(str(library.folder))}\n"
        r"Settings:\n    \S+/catalogd.ini \(not there: the defaults\)\n"
        r"Open in a browser:\n    (http://127.0.0.1:\d+/)\n"
        r"There is no account yet. Create the first one with this link:\n"
        r"    \1#setup=(\w{4}-\w{4}-\w{4})\nSetup code: \2\n"
        r"Stop with Ctrl-C.\n",
        server.welcome,
    )
    server.process.send_signal(signal.SIGTERM)
    assert server.process.communicate(timeout=60) == ("", "")
    assert server.process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_ends_it_without_a_traceback(
    serving: Callable[..., Serving], library: Library
) -> None:
    server = serving(str(library.folder), "--port", "0")
    server.wait_until_ready()
    server.process.send_signal(signal.SIGINT)
    assert server.process.communicate(timeout=60) == ("", "")
    assert server.process.returncode == 130


def test_a_second_server_on_the_same_data_is_refused(
    serving: Callable[..., Serving], library: Library, data: pathlib.Path
) -> None:
    first = serving(str(library.folder), "--port", "0")
    first.wait_until_ready()
    second = serving(str(library.folder), "--port", "0")
    message = f"catalogd: {data}: another catalogd is at work (serve).\n"
    assert second.process.communicate(timeout=60) == ("", message)
    assert second.process.returncode == 2
    assert get(f"{first.address}healthz")


def test_commands_work_while_it_serves(
    anna: str,
    serving: Callable[..., Serving],
    library: Library,
    run: Run,
    tmp_path: pathlib.Path,
) -> None:
    library.add("a.nsp")
    server = serving(str(library.folder), "--port", "0")
    server.wait_until_ready()
    run("key", "add", "anna", "a script's")
    run("backup", str(tmp_path / "copy"))


def test_a_running_service_scans_for_the_command(
    serving: Callable[..., Serving], library: Library, run: Run, data: pathlib.Path
) -> None:
    server = serving(str(library.folder), "--port", "0")
    server.wait_until_ready()
    assert run("scan") == "nothing changed.\n"
    library.add("a.nsp")
    # The system may have told the service of the file before.
    assert run("scan") in ("1 added.\n", "nothing changed.\n")
    with opened(data) as store:
        assert store.entries.count(catalogd.EVERYTHING) == 1


def test_a_scan_by_the_service_shows_how_far_it_is(
    ticking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    running = {"asked": True, "files": 3, "read": 1}
    ended = {"asked": False, "problem": "", "result": "1 added"}
    monkeypatch.setattr(catalogd, "ask_service", Mock(side_effect=[{}, running, ended]))
    result = catalogd.scan_by_service({}, catalogd.ProgressLine(stream))
    assert result == "1 added"
    assert "3 files found, 1 read" in stream.getvalue()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "The service ended before its scan did."),
        ({"asked": False, "problem": "No."}, "The scan failed: No."),
    ],
)
def test_a_scan_by_the_service_that_does_not_end_well_is_one_line(
    answer: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "ask_service", Mock(side_effect=[{}, answer]))
    with pytest.raises(catalogd.Problem) as caught:
        catalogd.scan_by_service({}, catalogd.ProgressLine(io.StringIO()))
    assert str(caught.value) == message


def test_a_new_data_folder_in_a_library_folder_is_refused(
    refused: Run, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    library, data = str(tmp_path), str(tmp_path / "data")
    message = f"{data}: the data folder is in the library folder {library}."
    told = refused("serve", library, "--data-dir", data, code=78)
    assert told == f"{message} Choose another one with --data-dir."
    assert not os.path.exists(data)
    catalogd.Store(data).close()
    catalogd.check_data_folder(data, [library])
    assert f"{message} Move it" in caplog.text


def test_serve_advises_a_folder_of_one_s_own_where_none_can_be_or_it_may_not_write(
    refused: Run,
    library: Library,
    data: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, advice = tmp_path / "file", " Choose a folder of yours with --data-dir."
    path.touch()
    told = refused("serve", str(library.folder), "--data-dir", f"{path}/data")
    assert told == f"{path}/data: cannot be used: Not a directory.{advice}"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    told = refused("serve", str(library.folder))
    assert told.startswith(f"{data}: cannot be used: Permission denied")
    assert told.endswith(advice)


def test_a_mistyped_folder_is_refused(refused: Run, tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "gmaes")
    assert refused("serve", path, code=78) == f"{path}: no such folder."
    (tmp_path / "gmaes").touch()
    assert refused("serve", path, code=78) == f"{path}: is not a folder."
    assert "No library folder is set" in refused("serve", "", code=78)


def test_a_folder_that_was_served_before_is_an_unplugged_disk(
    store: catalogd.Store, scanner: catalogd.Scanner, library: Library
) -> None:
    library.add("a.nsp")
    scanner.scan()
    os.rename(library.folder, f"{library.folder}.unplugged")
    catalogd.check_folders_exist([str(library.folder)], store)


def test_an_address_that_is_in_use_is_one_line(refused: Run, library: Library) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["serve", str(library.folder), "--host", "127.0.0.1", "--port", port]
        message = f"Cannot listen on 127.0.0.1:{port}: Address already in use."
        hint = "Another catalogd? Try --port 8080, or port in the INI."
        assert refused(*words) == f"{message} {hint}"


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (
            errno.EACCES,
            "A port below 1024 needs root. Try --port 8080, or port in the INI.",
        ),
        (errno.EADDRNOTAVAIL, "Check --host, or host in the INI."),
    ],
)
def test_an_address_that_cannot_be_bound_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    refuse = Mock(side_effect=OSError(number, "No"))
    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(catalogd.Problem) as error:
        catalogd.open_socket("127.0.0.1", 80)
    assert str(error.value) == f"Cannot listen on 127.0.0.1:80: No. {hint}"


NO_HOSTS = ["a..b", "a" * 70]  # DNS has no such names


@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_host_that_is_no_name_is_one_line(
    refused: Run, library: Library, host: str
) -> None:
    told = refused("serve", str(library.folder), "--host", host)
    assert told.startswith(f"Cannot listen on {host}:6069: ")
    assert told.endswith(" Check --host, or host in the INI.")


class Ending:
    """A server to which a signal is sent as soon as it runs."""

    effective_port = shown_port = 6069

    def __init__(self, number: int, has_ended: bool = True) -> None:
        self.number = number
        self.has_ended = has_ended
        self.stopped = False
        self.temporary = ""  # where long bodies are while it runs

    def run(self) -> bool:
        self.temporary = tempfile.gettempdir()
        signal.raise_signal(self.number)
        return self.has_ended

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def no_handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [(number, signal.getsignal(number)) for number in numbers]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_a_signal_ends_the_scanner_and_the_server(
    data: pathlib.Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    no_handlers: None,
    number: int,
    code: int,
) -> None:
    server = Ending(number)
    monkeypatch.setattr(catalogd, "listen", lambda web, also: server)
    # What takes longer ends the process, which is that of the tests.
    monkeypatch.setattr(catalogd, "MAX_SCAN_STOP_SECONDS", 30)
    assert catalogd.main(["serve", str(library.folder)]) == code
    assert server.stopped
    assert server.temporary == str(data)
    with opened(data) as store, catalogd.exclusive(store.database.folder, "serve"):
        pass


class Ended(BaseException):
    """An exception that no thread catches for the sake of its work."""


# What each thread that is to go on calls.
LASTING: dict[str, tuple[Any, str]] = {
    "scanner": (catalogd.Scanner, "_wait"),
    "upkeep": (catalogd.Upkeep, "__call__"),
    "uses": (catalogd.Accounts, "write_uses"),
    "consoles": (catalogd.Consoles, "update"),
    "notices": (catalogd.Notices, "send"),
    "heartbeat": (catalogd, "answers"),
    "console": (catalogd.Console, "_send"),
}


def end_at_first(
    monkeypatch: pytest.MonkeyPatch, place: Any, work: str, name: str
) -> threading.Event:
    """Let some work end its thread, until the event is set that this returns."""

    def call(*given: Any, **more: Any) -> Any:
        if threading.current_thread().name == name and not is_well.is_set():
            raise Ended
        return real(*given, **more)

    real, is_well = getattr(place, work), threading.Event()
    monkeypatch.setattr(place, work, call)
    return is_well


@pytest.mark.parametrize("name", LASTING)
def test_each_thread_goes_on_after_an_exception_which_is_told(
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    no_handlers: None,
    name: str,
) -> None:
    place, work = LASTING[name]
    is_well = end_at_first(monkeypatch, place, work, name)

    def look() -> None:
        try:
            wait_for(lambda: faults() == [name])
            is_well.set()
            wait_for(lambda: not faults())
            seen.append(name)
        finally:
            server.stop()

    def faults() -> list[str]:
        found = web.health.state()["faults"]
        return [fault["id"] for fault in found if fault["reason"] == "thread_failed"]

    monkeypatch.setattr(catalogd.Lasting, "again_seconds", 0.5)
    for pause in ("UPKEEP_CHECK", "CONSOLE_CHECK", "NOTICE_CHECK", "HEARTBEAT", "USES"):
        monkeypatch.setattr(catalogd, f"{pause}_SECONDS", 0.5)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    account = scanner.store.accounts.add("anna", "-")
    scanner.store.devices.add(account, {"name": "Attic", "target": "ftp://127.0.0.1:1"})
    settings = catalogd.Settings(
        host="127.0.0.1", port=free_port(), notify=("http://127.0.0.1:1",)
    )
    web, seen = catalogd.Web(scanner.store, settings, scanner), list[str]()
    server, looking = catalogd.listen(web), threading.Thread(target=look)
    with catalogd.log_thread():
        looking.start()
        catalogd.log.warning("A line to write.")
        catalogd.run(server, scanner, web)
        looking.join()
    assert seen == [name]
    assert any(f"The thread {name} failed" in line for line in caplog.messages)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="has no systemd")
def test_an_upgrade_tells_systemd_again_and_again_that_it_goes_on(
    data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bytes] = []
    monkeypatch.setattr(catalogd, "UPGRADE_SECONDS", 1)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "systemd"))
    args = argparse.Namespace(run=catalogd.serve, data_dir=str(data))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "systemd"))
        systemd.settimeout(60)

        def upgrade(folder: str) -> None:
            told.extend(systemd.recv(100) for _ in range(2))

        monkeypatch.setattr(catalogd, "upgrade", upgrade)
        with catalogd.open_store(args, catalogd.Settings()):
            assert told == [b"EXTEND_TIMEOUT_USEC=3000000"] * 2
            wait_for(lambda: "upgrade" not in {t.name for t in threading.enumerate()})


class Touched:
    """Notes which threads make a call: by name, or as "main loop" while that runs. A
    call to the store that tidies an inbox is one to its uploads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: set[tuple[str, str]] = set()
        self._patch, self._loop = monkeypatch.setattr, False
        run = catalogd.Server.run

        def loop(server: catalogd.Server) -> bool:
            self._loop = True
            try:
                return run(server)
            finally:
                self._loop = False

        self._patch(catalogd.Server, "run", loop)

    def note(self, place: Any, name: str, what: str) -> None:
        def call(*given: Any, **more: Any) -> Any:
            is_tidying = "tidy" in {at.name for at in traceback.extract_stack()}
            self.calls.add((self._thread(), "uploads" if is_tidying else what))
            return real(*given, **more)

        real = getattr(place, name)
        self._patch(place, name, call)

    def _thread(self) -> str:
        thread = threading.current_thread()
        is_loop = self._loop and thread is threading.main_thread()
        return "main loop" if is_loop else thread.name

    def by(self, thread: str) -> set[str]:
        return {what for name, what in self.calls if name == thread}


def test_threads_touch_what_the_table_at_the_top_says(
    store: catalogd.Store,
    library: Library,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    no_handlers: None,
) -> None:
    touched = Touched(monkeypatch)
    touched.note(catalogd.Database, "reading", "store")
    touched.note(catalogd.Database, "writing", "store")
    touched.note(catalogd, "walk", "folders")
    touched.note(catalogd, "answers", "service")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    library.add("Inbox/.catalogd-0a.part")
    folder, inbox = str(library.folder), str(library.folder / "Inbox")
    settings = catalogd.Settings((folder,), inbox=inbox, host="127.0.0.1", port=0)
    scanner = catalogd.Scanner(store, settings)
    web = catalogd.Web(store, settings, scanner)
    server = catalogd.listen(web)

    def call() -> None:
        try:
            wait_for(lambda: scanner.state.finished and touched.by("heartbeat"))
            place = f"http://127.0.0.1:{server.effective_port}/healthz"
            urllib.request.urlopen(place).close()
        finally:
            server.stop()

    calling = threading.Thread(target=call)
    calling.start()
    catalogd.run(server, scanner, web)
    calling.join()
    assert touched.by("scanner") == {"store"}
    assert touched.by("asker") == {"folders", "uploads"}
    assert touched.by("heartbeat") == {"service"}
    assert touched.by("main loop") == set()


def test_work_that_is_over_is_not_done_again() -> None:
    work = Mock(side_effect=[Ended, None])
    thread = catalogd.Lasting("trial", work)
    thread.again_seconds = 0
    thread.start()
    wait_for(lambda: not thread._thread.is_alive())
    assert not thread.has_failed and work.call_count == 2
    assert thread.stop()


@pytest.mark.parametrize("held_up", ["a call", "the scan"])
def test_a_disk_that_does_not_answer_does_not_keep_the_process(
    data: pathlib.Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    no_handlers: None,
    caplog: pytest.LogCaptureFixture,
    held_up: str,
) -> None:
    server = Ending(signal.SIGTERM, has_ended=held_up != "a call")
    stop = catalogd.Scanner.stop
    if held_up == "the scan":
        monkeypatch.setattr(
            catalogd.Scanner, "stop", lambda scanner, wait: stop(scanner) and False
        )
    monkeypatch.setattr(catalogd, "listen", lambda web, also: server)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    catalogd.main(["serve", str(library.folder)])
    assert codes == [0]
    assert "Stopped while a call was waiting" in caplog.text


def test_a_signal_while_it_starts_ends_it(
    data: pathlib.Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    no_handlers: None,
) -> None:
    def start(*parts: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(catalogd, "Scanner", start)
    with pytest.raises(SystemExit) as end:
        catalogd.main(["serve", str(library.folder)])
    assert end.value.code == 0
    with opened(data) as store, catalogd.exclusive(store.database.folder, "serve"):
        pass


@pytest.mark.parametrize(
    ("host", "own", "hosts"),
    [
        ("10.0.0.2", "10.0.0.9", ["10.0.0.2"]),
        ("fd00::2", "10.0.0.9", ["[fd00::2]"]),
        ("", "127.0.0.1 10.0.0.9 ::1 fd00::9", ["10.0.0.9"]),
        ("0.0.0.0", "127.0.0.1 10.0.0.9 ::1 fd00::9", ["10.0.0.9"]),
        ("::", "127.0.0.1 10.0.0.9 ::1 fd00::9 fe80::1", ["[fd00::9]"]),
        # Behind a VPN, and with two networks:
        ("", "10.8.0.2 192.168.1.7 10.0.0.9", ["10.8.0.2", "192.168.1.7", "10.0.0.9"]),
        # With IPv6 alone:
        ("", "127.0.0.1 ::1 2001:db8::9 fe80::1", ["[2001:db8::9]"]),
        # With a cable between two machines, and without any network:
        ("", "127.0.0.1 169.254.7.7 fe80::1", ["169.254.7.7"]),
        ("", "127.0.0.1 ::1", ["127.0.0.1"]),
        ("", "", ["localhost"]),
    ],
)
def test_the_addresses_are_those_that_people_can_open(
    monkeypatch: pytest.MonkeyPatch, host: str, own: str, hosts: list[str]
) -> None:
    addresses = [ipaddress.ip_address(one) for one in own.split()]
    monkeypatch.setattr(catalogd, "own_addresses", lambda: addresses)
    monkeypatch.setattr(catalogd, "local_name", lambda: "pi.local")
    for port, shown in ((6069, ":6069"), (80, "")):
        server: Any = Ending(0)
        server.shown_port = port
        settings = catalogd.Settings(host=host, base_url="https://example.org/games")
        first, *others = catalogd.page_addresses(server, settings)
        assert first == "https://example.org/games/"
        named = ["pi.local"] * (host in catalogd.WILDCARDS)
        assert others == [f"http://{one}{shown}/" for one in (*hosts, *named)]


def test_a_name_that_does_not_resolve_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "pi.home")
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, port: [name])
    assert catalogd.local_name() == "pi.local"

    fail = Mock(
        side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    )
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert catalogd.local_name() == ""
    server: Any = Ending(0)
    addresses = catalogd.page_addresses(server, catalogd.Settings())
    assert ".local" not in "".join(addresses)


def test_a_name_server_that_does_not_answer_delays_no_call(
    service: catalogd.Web,
    monkeypatch: pytest.MonkeyPatch,
    no_handlers: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As after a power cut, when the router starts too."""
    service.settings = catalogd.Settings(host="", port=0)
    server, router = catalogd.listen(service), threading.Event()
    monkeypatch.setattr(catalogd, "local_name", lambda: router.wait(30) and "pi.local")
    monkeypatch.setattr(catalogd, "MAX_SCAN_STOP_SECONDS", 30)
    answers: list[bytes] = []

    def call() -> None:
        try:
            answers.append(get(f"http://127.0.0.1:{server.effective_port}/healthz"))
            answers.append(capsys.readouterr().out.encode())
        finally:
            server.stop()
            router.set()

    caller = threading.Thread(target=call)
    caller.start()
    assert catalogd.run(server, service.scanner, service)
    caller.join()
    assert b'"success": true' in answers[0]
    assert not answers[1]
    assert f"http://pi.local:{server.effective_port}/" in capsys.readouterr().out


@pytest.mark.parametrize("base_url", ["", "https://example.org/games"])
def test_a_container_prints_its_base_url_or_says_to_set_it(
    service: catalogd.Web,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    base_url: str,
) -> None:
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")
    service.settings = catalogd.Settings(base_url=base_url)
    catalogd.greet(Ending(0), service.scanner, service)
    printed = capsys.readouterr().out
    assert f"    {base_url or 'http://ADDRESS:6069'}/#setup=" in printed
    assert ("Set [server] base_url" in printed) == (base_url == "")
    assert printed.count("//") == 2  # the address of the page, and that of the setup


def test_the_addresses_of_this_machine_are_some_it_can_listen_on() -> None:
    for host in catalogd.lan_hosts((4, 6)):
        with catalogd.open_socket(host, 0):
            pass


def test_another_port_is_served_too_and_is_the_one_that_is_shown(
    service: catalogd.Web, scanner: catalogd.Scanner, capsys: pytest.CaptureFixture[str]
) -> None:
    server = catalogd.listen(service, also=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.effective_port != server.shown_port
    ports = [int(server.effective_port), server.shown_port]
    try:
        for port in ports * 3:
            assert b'"success": true' in get(f"http://127.0.0.1:{port}/healthz")
        catalogd.greet(server, scanner, service)
        first = f"    http://127.0.0.1:{server.shown_port}/#setup="
        assert first in capsys.readouterr().out
    finally:
        server.stop()
        thread.join()
    for port in ports:
        with pytest.raises(OSError):
            get(f"http://127.0.0.1:{port}/healthz")


# Root

OWNER = 65534  # nobody, on most systems


@pytest.fixture
def theirs() -> Iterator[pathlib.Path]:
    """A data folder of another user, where that user can reach it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, OWNER, OWNER)
        yield pathlib.Path(folder)


@pytest.mark.root
def test_root_leaves_no_file_that_the_owner_cannot_open(
    data: pathlib.Path, theirs: pathlib.Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "user", "list"],
        cwd=HERE,
        env={**os.environ, "CATALOGD_DATA_DIR": str(theirs)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("There is no account yet.\n", "")
    made = os.stat(theirs / "catalogd.db")
    assert (made.st_uid, made.st_gid) == (OWNER, OWNER)


# Read by root, since its user may not reach the folder that the program is in.
MAIN = "import catalogd; raise SystemExit(catalogd.main())"


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record which user and groups a process of root would take."""
    became: list[tuple[str, Any]] = []
    for name in ("setgroups", "setgid", "setuid"):
        note = lambda value, name=name: became.append((name, value))  # noqa: E731
        monkeypatch.setattr(os, name, note)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return became


def owned_by(
    monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path, user: int, group: int
) -> None:
    facts = list(os.stat(folder))
    facts[stat.ST_UID], facts[stat.ST_GID] = user, group
    result = os.stat_result(facts)
    monkeypatch.setattr(os, "stat", lambda path, **rules: result)


@pytest.mark.parametrize(
    ("user", "name", "became"),
    [
        (7, "games", [("setgroups", [8, 44]), ("setgid", 8), ("setuid", 7)]),
        (7, None, [("setgroups", [8]), ("setgid", 8), ("setuid", 7)]),
        (0, "root", []),
    ],
)
def test_root_becomes_the_owner_of_the_data_folder_with_its_groups_first(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    identity: list[tuple[str, Any]],
    user: int,
    name: str | None,
    became: list[tuple[str, Any]],
) -> None:
    owned_by(monkeypatch, tmp_path, user, 8 if user else 0)
    owner = Mock(return_value=name) if name else Mock(side_effect=KeyError)
    monkeypatch.setattr(pathlib.Path, "owner", owner)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, 44])
    catalogd.become_owner(str(tmp_path))
    assert identity == became


def test_another_user_stays_the_same(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    identity: list[tuple[str, Any]],
) -> None:
    owned_by(monkeypatch, tmp_path, 7, 8)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    catalogd.become_owner(str(tmp_path))
    monkeypatch.delattr(os, "geteuid")  # as on Windows
    monkeypatch.setattr(sys, "platform", "win32")
    catalogd.become_owner(str(tmp_path))
    assert identity == []


def test_root_that_may_not_change_its_user_is_one_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, identity: Any
) -> None:
    owned_by(monkeypatch, tmp_path, 7, 8)
    monkeypatch.setattr(os, "setgroups", refuse)
    with pytest.raises(catalogd.Problem, match="cannot act as its owner: Operation"):
        catalogd.become_owner(str(tmp_path))


def test_letters_that_a_terminal_cannot_show_are_escaped(
    anna: str, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(data) as store:
        store.accounts.add("éva", "hash")
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, "ascii"))
    assert catalogd.main(["user", "list"]) == 0
    assert b"\n\\xe9va" in shown.getvalue()


def test_standard_output_may_be_any_stream(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert catalogd.main(["user", "list"]) == 0
    assert stream.getvalue() == "There is no account yet.\n"


def test_output_whose_reader_has_ended_is_no_traceback(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `catalogd check | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert catalogd.main(["example"]) == 1


def test_a_line_of_the_journal_has_its_level_and_no_time(
    journal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    formatter = catalogd.LogFormatter()
    levels = {logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}
    for level, number in levels.items():
        record = catalogd.log.makeRecord("catalogd", level, "", 0, "it", (), None)
        assert formatter.format(record) == f"<{number}>it"
    assert catalogd.main(["dance"]) == 2
    assert capsys.readouterr().err.startswith("<3>catalogd: argument COMMAND")


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard error lead to systemd's journal."""
    found = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")


def test_in_the_journal_nobody_is_told_of_ctrl_c_and_with_an_account_of_no_setup(
    journal: None, service: catalogd.Web, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogd.greet(Ending(0), service.scanner, service)
    printed = capsys.readouterr().out
    assert "Stop with Ctrl-C." not in printed and "#setup=" not in printed


def test_ctrl_c_leaves_the_prompt_a_line_of_its_own(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(catalogd, "read_settings", Mock(side_effect=KeyboardInterrupt))
    assert catalogd.main(["check"]) == 130
    assert stream.getvalue() == "\n"


# Check


Check = Callable[..., tuple[int, dict[str, str]]]
ROWS = re.compile("(?m)^(.{9}) (.*)$")


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return the exit code of the command, and the texts of each name, as one."""
    capsys.readouterr()
    code, rows = catalogd.main(["check", *words]), collections.defaultdict(list)
    for name, text in ROWS.findall(capsys.readouterr().out):
        rows[name.rstrip()].append(text)
    return code, {name: " ".join(texts) for name, texts in rows.items()}


@pytest.fixture
def check(
    anna: str,
    library: Library,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Check:
    """Check a service that is well but for these lines of its settings."""
    state = {"folders": [{"path": str(library.folder)}], "faults": [], "saves": []}
    state |= {"scan": {"passed_over": []}}
    service = {"address": "http://127.0.0.1:6069/", "token": "", **state}
    monkeypatch.setattr(catalogd, "running_service", lambda folder: service)
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 60)  # of a busy machine

    def check(*lines: str) -> Any:
        ini = tmp_path / "checked.ini"
        folders = f"[library]\nfolders = {library.folder}"
        ini.write_text("\n".join([folders, *lines]))
        return checked(capsys, "--config", str(ini))

    return check


def test_a_service_that_is_well_has_lines_that_are_ok(
    check: Check, library: Library, tmp_path: pathlib.Path
) -> None:
    assert check() == (
        0,
        {
            "version": f"ok: catalogd {catalogd.__version__}",
            "settings": f"ok: {tmp_path}/checked.ini",
            "service": f"ok: http://127.0.0.1:6069/ serves {library.folder}",
        },
    )


def test_a_wrong_setting_is_all_that_is_told(refused: Run, data: pathlib.Path) -> None:
    ini = data.parent / "wrong.ini"
    ini.write_text("[server]\nport = x")
    told = refused("check", "--config", str(ini), code=78)
    assert told == f"{ini}: [server] port: 'x' is not a whole number."


@pytest.fixture
def unserved(check: Check, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check while no service runs."""
    monkeypatch.setattr(catalogd, "running_service", lambda folder: None)

    def check_port(*lines: str, port: int = 0) -> tuple[int, dict[str, str]]:
        return check(*lines, "[server]", "host = 127.0.0.1", f"port = {port}")

    return check_port


def test_folders_that_are_not_there_are_told(
    unserved: Check, library: Library, tmp_path: pathlib.Path
) -> None:
    library.folder.rmdir()
    code, rows = unserved(f"  {tmp_path}/b")
    advice = "does not exist yet. Create it, or connect its disk."
    told = f"{library.folder} {advice} {tmp_path}/b {advice}"
    assert (code, rows["folders"]) == (1, told)


def test_a_folder_that_does_not_answer_is_told_soon(
    unserved: Check, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 0.2)
    over = threading.Event()
    real = os.listdir

    def listdir(path: Any) -> Any:
        return over.wait(30) if path == str(library.folder) else real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        code, rows = unserved()
    over.set()
    told = f"{library.folder} does not answer. Its entries are kept."
    assert (code, rows["folders"]) == (1, told)


# Check, beside a service


def test_a_check_reads_what_a_service_tells_that_an_upgrade_has_not_reached() -> None:
    told = {"address": "http://pi:6069", "folders": [], "faults": [], "scan": {}}
    tests = dict(catalogd.service_tests(told, catalogd.Settings()))
    assert tests == {"service": "ok: http://pi:6069 serves "}


@pytest.fixture
def served(anna: str, data: pathlib.Path, library: Library) -> Iterator[catalogd.Web]:
    """A service on the data folder, whose scanner does not run."""
    settings = catalogd.Settings(
        folders=(str(library.folder), "/zzz/missing"), host="127.0.0.1", port=0
    )
    with opened(data) as store:
        web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
        server = catalogd.listen(web)
        thread = threading.Thread(target=server.run)
        thread.start()
        with catalogd.service_file(server, web):
            yield web
            server.stop()
        thread.join()


def test_check_asks_the_service_what_only_it_can_know(
    served: catalogd.Web,
    data: pathlib.Path,
    library: Library,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = data / "service.json"
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    address = json.loads(known.read_text())["address"]
    served_there = f"ok: {address} serves {library.folder}, /zzz/missing"
    code, rows = checked(capsys)
    assert (code, rows["service"]) == (0, served_there)
    assert "library" not in rows
    path = library.add("a.zip")
    served.scanner.scan()
    _, rows = checked(capsys)
    told = "ok: passed over: 1 archive. Tidy on the page names them"
    assert rows["library"] == told
    os.remove(path)
    library.folder.rmdir()
    served.scanner.scan()
    served.scanner.state.problem = "The disk is full."
    served.backups.problem = "The second disk is away."
    away = "does not exist yet. Create it, or connect its disk."
    code, rows = checked(capsys)
    assert (code, rows["service"]) == (1, served_there)
    assert rows["folders"] == f"{library.folder} {away} /zzz/missing {away}"
    assert rows["scan"] == "The last scan failed: The disk is full."
    assert rows["backup"] == "No backup was made: The second disk is away."


def test_check_asks_the_service_for_its_data_folder(
    served: catalogd.Web,
    data: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, rows = checked(capsys)
    told = f"{data}: the service cannot write there. Allow it."
    assert (code, rows["data"]) == (1, told)


def test_a_service_whose_database_fails_says_so(
    served: catalogd.Web, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=catalogd.StorageFailed("The database cannot be used."))
    monkeypatch.setattr(catalogd.Entries, "count", fail)
    with pytest.raises(catalogd.Problem, match="^The database cannot be used.$"):
        catalogd.running_service(str(data))


def test_the_call_for_check_wants_the_token_of_the_service(
    browser: webtest.TestApp, key: str
) -> None:
    for credential in ("", "x", "\u00fc", key):
        headers = {"Authorization": f"Bearer {credential}"}
        answer = browser.get("/web/check", headers=headers, status=401)
        assert answer.json["error"] == "unauthorized"


def test_a_service_that_was_killed_is_not_asked(
    served: catalogd.Web, data: pathlib.Path
) -> None:
    known = data / "service.json"
    told = json.loads(known.read_text())
    known.write_text(json.dumps({**told, "token": "of another service"}))
    assert catalogd.running_service(str(data)) is None
    address = f"http://127.0.0.1:{free_port()}/"
    known.write_text(json.dumps({**told, "address": address}))
    assert catalogd.running_service(str(data)) is None


def write_service_file(data: pathlib.Path, sock: socket.socket) -> None:
    """Write the file of a service that was killed, whose port is now this socket's."""
    port = sock.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    known = {"address": address, "token": "its token"}
    (data / "service.json").write_text(json.dumps(known))


OURS = b'{"address": "http://[::1]:1/", "token": '


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\0" * 300, b"\xff", b"[]", b"null", b"{}", b"[" * 100_000),
        *(OURS, OURS + b"1}", OURS + rb'"\n"}', OURS + rb'"\u20ac"}'),
        OURS.replace(b":1/", b":99999/") + b'"x"}',
        OURS.replace(b":1/", b":%d/" % 2**64) + b'"x"}',
        OURS.replace(b"::1]", b"") + b'"x"}',
        OURS.replace(b"[::1]", b"a" * 100) + b'"x"}',
    ],
    ids=range(15),
)
def test_a_file_that_no_service_wrote_is_none(
    tmp_path: pathlib.Path, content: bytes
) -> None:
    (tmp_path / "service.json").write_bytes(content)
    assert catalogd.running_service(str(tmp_path)) is None


def test_a_service_file_that_cannot_be_read_is_told(
    anna: str, data: pathlib.Path, refused: Run
) -> None:
    path = data / "service.json"
    path.mkdir()
    assert refused("scan") == f"{path}: Is a directory."


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"220 FTP\r\n", b"\xff" * 99_999),
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nX: %b" % (b"x" * 99_999)),
        *(http(b""), http(b"<html>"), http(b"\xff"), http(b"{}", length=9)),
        *(http(b"[]"), http(b"null"), http(b"[" * 100_000), http(b"{}")),
        *(http(b'{"success": true}'), http(b'{"success": false}', "404 No")),
        http(b'{"success": false, "error": {}, "message": {}}'),
        http(b'{"error": "unauthorized", "message": "No"}', "401 No"),
    ],
    ids=range(19),
)
def test_what_has_the_port_of_a_killed_service_is_none(
    tmp_path: pathlib.Path, answer: bytes
) -> None:
    with killed(tmp_path, answer):
        assert catalogd.running_service(str(tmp_path)) is None


def test_commands_work_after_a_service_was_killed(
    anna: str, data: pathlib.Path, library: Library, run: Run
) -> None:
    library.add("a.nsp")
    ini = data / "catalogd.ini"
    ini.write_text(f"[library]\nfolders = {library.folder}\n[server]\nport = 0\n")
    with killed(data, http(b"{}")):
        assert run("scan", "--config", str(ini)) == "1 added.\n"
        assert "port      ok: 0 is free" in run("check", "--config", str(ini))


@contextlib.contextmanager
def killed(data: pathlib.Path, answer: bytes) -> Iterator[None]:
    """Leave the file of a service that was killed, whose port answers with these."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer_all, args=(other, answer)).start()
        write_service_file(data, other)
        try:
            yield
        finally:
            other.shutdown(socket.SHUT_RDWR)


def answer_all(server: socket.socket, answer: bytes) -> None:
    """Answer each connection with these bytes, until the socket is shut down."""
    with contextlib.suppress(OSError):
        while True:
            # Who is called may close the connection before it has all of them.
            with server.accept()[0] as sock, contextlib.suppress(OSError):
                sock.recv(65536)
                sock.sendall(answer)


def test_a_service_file_that_cannot_be_written_is_not_half_there(
    service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pathlib.Path(service.store.database.folder)
    monkeypatch.setattr(os, "fsync", refuse)
    with contextlib.closing(catalogd.listen(service)) as server:
        with (
            pytest.raises(catalogd.Problem),
            catalogd.service_file(server, service),
        ):
            pass
        assert not (folder / "service.json").exists()
        monkeypatch.undo()
        with catalogd.service_file(server, service):
            assert catalogd.parse(
                catalogd.SERVICE, (folder / "service.json").read_bytes()
            )
            (folder / "service.json").unlink()  # by a person
        assert not [*folder.glob("service*")]


def test_a_service_that_does_not_answer_is_told(
    data: pathlib.Path, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_service_file(data, silent)
        with pytest.raises(catalogd.Problem) as caught:
            catalogd.running_service(str(data))
    assert str(caught.value) == "The service runs, but does not answer."


def test_a_service_replaces_the_file_of_one_that_was_killed(
    service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pathlib.Path(service.store.database.folder)
    known = folder / "service.json"
    known.write_text("old")
    with contextlib.closing(catalogd.listen(service)) as server:
        with catalogd.service_file(server, service):
            assert json.loads(known.read_text())["token"] == service.token
        assert not known.exists()
        known.mkdir()
        with (
            pytest.raises(catalogd.Problem) as caught,
            catalogd.service_file(server, service),
        ):
            pass
        assert str(caught.value).startswith(f"{known}: Is a directory.")


def test_a_machine_on_which_nothing_was_served_yet_lacks_a_folder_alone(
    data: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listen = catalogd.open_socket  # another program may have the usual port
    monkeypatch.setattr(catalogd, "open_socket", lambda host, port: listen(host, 0))
    code, rows = checked(capsys)
    assert re.fullmatch(r"ok: /\S+ \(not there: the defaults\)", rows["settings"])
    no_folder = "No library folder is set. Run '"
    assert (code, rows["folders"][: len(no_folder)]) == (1, no_folder)
    advice = f"'{catalogd.PROGRAM} serve' creates it."
    assert rows["database"] == f"ok: none yet. {advice}"
    assert rows["port"] == "ok: 6069 is free"


def test_the_folders_that_the_service_writes_to_are_tested_whoever_asks(
    data: pathlib.Path,
    library: Library,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    serving: Callable[..., Serving],
) -> None:
    """By `check` while the service is stopped, and by `serve` in its log."""
    ini = tmp_path / "some.ini"
    folder, inbox, copies = (
        library.folder,
        library.folder / "Inbox",
        tmp_path / "copies",
    )
    ini.write_text(
        f"[library]\nfolders = {folder}\ninbox = {inbox}\n[server]\nport = 0\n"
        f"[backup]\nfolder = {copies}\n"
    )
    missing = "No such file or directory."
    told = {
        "inbox": f"{inbox}: The inbox cannot be written: {missing}",
        "backup": f"{copies}: {missing}",
    }
    assert catalogd.main(["check", "--config", str(ini)]) == 1
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {about: rows[about] for about in told} == told
    server = serving("--config", str(ini))
    server.wait_until_ready()
    server.process.send_signal(signal.SIGTERM)
    log = server.process.communicate(timeout=60)[1]
    assert all(text in log for text in told.values())
    for path in (inbox, copies):
        path.mkdir()
    assert catalogd.main(["check", "--config", str(ini)]) == 0
    assert f"inbox     ok: {inbox}\n" in capsys.readouterr().out


def test_check_without_a_service_upgrades_no_database(
    unserved: Check, data: pathlib.Path
) -> None:
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        db.execute("PRAGMA user_version = 3")
    before = sorted(data.iterdir())
    code, rows = unserved()
    advice = "Restart the service: it upgrades the database."
    told = f"{data}/catalogd.db: was made by an older catalogd. {advice}"
    assert (code, rows["database"]) == (1, told)
    assert sorted(data.iterdir()) == before
    with contextlib.closing(sqlite3.connect(data / "catalogd.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)


def test_check_without_a_service_makes_no_database(
    unserved: Check, data: pathlib.Path, library: Library
) -> None:
    shutil.rmtree(data)
    library.folder.rmdir()
    code, rows = unserved()
    assert code == 1
    assert "does not exist yet." in rows["folders"]
    assert rows["database"].startswith("ok: none yet.")
    assert not data.exists()


def test_a_damaged_database_is_told(
    unserved: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Mock(side_effect=catalogd.Damaged("row 1 missing."))
    monkeypatch.setattr(catalogd, "check_content", fault)
    code, rows = unserved()
    assert code == 1
    advice = r"There is no backup of it: move /.+/catalogd.db\* away, and start again."
    assert re.search(rf": row 1 missing. {advice}$", rows["database"])


def test_a_database_that_cannot_be_read_is_told(
    unserved: Check, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(data / "catalogd.db")
    fault = Mock(side_effect=PermissionError(errno.EPERM, "Not permitted", path))
    monkeypatch.setattr(catalogd, "check_content", fault)
    code, rows = unserved()
    assert (code, rows["database"]) == (1, f"{path}: Not permitted.")


def test_a_port_that_another_program_uses_is_told(unserved: Check) -> None:
    code, rows = unserved()
    assert (code, rows["port"]) == (0, "ok: 0 is free")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, rows = unserved(port=port)
    assert (code, rows["port"][:22]) == (1, "Cannot listen on 127.0")


# Python below /root: nothing can be imported once root has become the owner.
AS_OWNER = """
import os, signal, sys, threading, time
import catalogd

class Unreadable:
    def find_spec(self, name, *given):
        print("imported late:", name, file=sys.stderr)

def stop():
    while not os.path.exists(os.path.join(sys.argv[1], catalogd.SERVICE_FILE)):
        time.sleep(0.05)
    catalogd.answers(sys.argv[2].replace("127.0.0.1", "localhost"), 20)
    catalogd.find_consoles([], ())
    catalogd.post_notices(["http://localhost:1/"], "a", "b", catalogd.Askers())
    os.kill(os.getpid(), signal.SIGTERM)

os.geteuid, os.setgid, os.setgroups = (lambda: 0), print, print
os.setuid = lambda number: sys.meta_path.insert(0, Unreadable())
for words in sys.argv[3:]:
    if child := os.fork():  # each has what was imported above
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"{words}: {code}.", flush=True)
        continue
    if words == "serve":
        threading.Thread(target=stop, daemon=True).start()
    sys.exit(catalogd.main(words.split()))
"""
OWNED = [  # commands, and their exit codes
    *("serve: 0.", "scan: 0.", "verify: 0.", "check: 0.", "backup copy: 0."),
    *("restore copy: 0.", "user list: 0.", "user password anna: 0."),
    *("user age anna none: 0.", "key add anna x: 0.", "key list: 0."),
    *("key revoke nobody's: 2.", "notify --test: 1.", "user remove anna: 0."),
]


def test_nothing_is_imported_after_root_became_the_owner(
    data: pathlib.Path,
    library: Library,
    new_data: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library.add("a.nsp")
    shutil.copytree(new_data, data, dirs_exist_ok=True)
    with contextlib.closing(catalogd.Store(str(data))) as store:
        store.accounts.add("anna", "-")
    if os.geteuid() == 0:
        os.chown(data, 65534, 65534)
    monkeypatch.chdir(data.parent)
    shutil.copyfile(data / "catalogd.db", "copy")
    monkeypatch.setenv("PYTHONPATH", HERE)
    port = free_port()
    config = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "catalogd", "catalogd.ini")
    config.parent.mkdir(parents=True)
    config.write_text(
        f"[library]\nfolders = {library.folder}\n"
        f"[server]\nhost = 127.0.0.1\nport = {port}\n"
        f"[queue]\nnotify = http://localhost:{port}/topic"
    )
    given = [str(data), f"http://127.0.0.1:{port}/"]
    given += [line.partition(":")[0] for line in OWNED]
    _, screen = on_a_terminal([b"correct horse\n"] * 2, ["-c", AS_OWNER, *given])
    assert "imported late" not in screen
    assert [line for line in screen.splitlines() if line in OWNED] == OWNED, screen
