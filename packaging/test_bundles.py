"""Forms that need no system package: the executable, the archive, and the tools that
run the file by its inline metadata."""

import ctypes.util
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import (
    LOOPBACK,
    TOP,
    add_anna,
    answers,
    arrives,
    draws_codes,
    free_port,
    need,
    run,
    shows_demo,
    skip,
    started,
    wait_for,
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build the executable of packaging/catalogd.spec."""
    need("objdump")
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if ctypes.util.find_library(library) is None:
        skip(f"needs the package lib{library}")
    folder = tmp_path_factory.mktemp("program")
    run(sys.executable, TOP / "packaging/build.py", "exe", "--to", folder)
    return folder / "catalogd"


def test_the_program_is_one_file_that_needs_no_python(
    program: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    bare = {"PATH": "", "HOME": str(tmp_path)}
    assert run(program, "--version", env=bare).startswith("catalogd ")
    assert program.stat().st_size < 40_000_000


def test_a_double_click_serves_the_games_beside_the_program_and_opens_the_page(
    program: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(
        f'#!/bin/sh\necho "$1" >"{opened}.part"\nmv "{opened}.part" "{opened}"\n'
    )
    browser.chmod(0o755)
    ini = tmp_path / "catalogd.ini"
    ini.write_text(f"[server]\nhost = 127.0.0.1\nport = {free_port()}\n")
    environment = {
        "BROWSER": str(browser),
        "CATALOGD_CONFIG": str(ini),
        "DISPLAY": ":0",
    }
    with started([program], tmp_path, **environment) as (process, address):
        wait_for(opened.exists)
        assert opened.read_text().startswith(f"{address}#setup=")
        assert (program.parent / "Games").is_dir()
        assert answers(address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not list((tmp_path / "data").glob("*-wal")), "the database was closed"


def test_the_check_of_the_program_for_windows_passes_on_linux_too(
    program: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    check = TOP / "packaging/windows/check.py"
    environment = {**os.environ, "BROWSER": "true", "TMPDIR": str(tmp_path)}
    output = run(sys.executable, check, program, env=environment)
    assert output.endswith("All checks passed.\n")


def test_a_folder_that_is_dropped_on_the_program_is_served(
    program: pathlib.Path, tmp_path: pathlib.Path, games: pathlib.Path
) -> None:
    ini = tmp_path / "catalogd.ini"
    ini.write_text("[server]\nhost = 127.0.0.1\nport = 0\n")
    environment = {"BROWSER": "true", "CATALOGD_CONFIG": str(ini)}
    add_anna([program], tmp_path)
    with started([program, games], tmp_path, **environment) as (_, address):
        assert answers(address) and draws_codes(address)
        assert arrives(address, tmp_path / "console", "Celeste", b"bytes")


def test_the_program_has_the_demo(
    program: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert shows_demo([program], tmp_path)


def test_the_archive_needs_nothing_but_python(
    tmp_path: pathlib.Path, games: pathlib.Path
) -> None:
    run(sys.executable, TOP / "packaging/build.py", "pyz", "--to", tmp_path)
    archive = tmp_path / "catalogd.pyz"
    command = [sys.executable, "-I", "-S", archive]
    add_anna(command, tmp_path)
    with started([*command, "serve", games, *LOOPBACK], tmp_path) as (_, address):
        assert answers(address) and draws_codes(address)
        assert arrives(address, tmp_path / "console", "Celeste", b"bytes")
    assert shows_demo(command, tmp_path)
    assert (
        subprocess.run([sys.executable, archive, "no"], capture_output=True).returncode
        == 2
    )


@pytest.mark.parametrize(
    "command", ["uv run catalogd.py serve", "pipx run --spec . catalogd serve"]
)
def test_one_line_starts_it_with_nothing_installed(
    command: str, tmp_path: pathlib.Path, games: pathlib.Path
) -> None:
    need(command.split()[0])
    words = [*command.split(), games, *LOOPBACK]
    add_anna(command.split()[:-1], tmp_path)
    with started(words, tmp_path, UV_PYTHON_DOWNLOADS="never") as (_, address):
        assert answers(address)
        # uv reads all of the inline metadata.
        assert draws_codes(address) or command.startswith("pipx")
    assert command in (TOP / "packaging/install.md").read_text()
    if command.startswith("uv"):
        assert shows_demo(command.split()[:-1], tmp_path)
        assert f"{command} --demo" in (TOP / "README.md").read_text()


def test_pipx_installs_the_command(tmp_path: pathlib.Path, games: pathlib.Path) -> None:
    need("pipx")
    where = {"PIPX_HOME": tmp_path / "pipx", "PIPX_BIN_DIR": tmp_path / "bin"}
    environment = {**os.environ, **{name: str(path) for name, path in where.items()}}
    run("pipx", "install", TOP, env=environment)
    command = [tmp_path / "bin/catalogd", "serve", games, *LOOPBACK]
    with started(command, tmp_path) as (_, address):
        assert answers(address)
    assert shows_demo(command[:1], tmp_path)
