"""The README says what is so: its walk is walked, its tables are complete."""

import dataclasses
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import catalogd

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATIENCE = 60.0  # seconds
DONE = "--- done"


def steps() -> Iterator[tuple[str, str]]:
    """The commands of the walk, each with what it prints."""
    for block in re.findall(
        r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE
    ):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            yield command, output


def pattern(text: str) -> str:
    """A regular expression in which `...` matches anything."""
    return ".*?".join(re.escape(part) for part in text.split("..."))


class Terminal:
    """A shell that runs one command after the other."""

    def __init__(self, home: pathlib.Path, port: int) -> None:
        self.port = port
        environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.shell = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=environment,
            text=True,
        )

    def here(self, text: str) -> str:
        """The README's text, for this machine."""
        program = f"{sys.executable} {ROOT / 'catalogd.py'}"
        return text.replace("uv run catalogd.py", program).replace(
            "6069", str(self.port)
        )

    def run(self, command: str) -> str:
        """What the command prints."""
        self.type(f"{command}\necho '{DONE}'")
        return self.read_until(f"{DONE}\n").removesuffix(f"{DONE}\n")

    def type(self, text: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(self.here(text) + "\n")
        self.shell.stdin.flush()

    def read_until(self, end: str) -> str:
        assert self.shell.stdout is not None
        printed = ""
        while not printed.endswith(end):
            line = self.shell.stdout.readline()
            assert line, f"the shell ended after: {printed}"
            printed += line
        return printed

    def close(self) -> None:
        """End what still runs in it, and then the shell."""
        self.type("kill $(jobs -p); wait; exit")
        self.shell.communicate(timeout=PATIENCE)


@pytest.fixture
def terminal(tmp_path: pathlib.Path) -> Iterator[Terminal]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = tmp_path / ".config" / "catalogd" / "catalogd.ini"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[library]\nsettle = 0\n[server]\nport = {port}\n")
    terminal = Terminal(tmp_path, port)
    yield terminal
    terminal.close()


def wait_for_entry(home: pathlib.Path) -> None:
    """Until the server has scanned."""
    database = home / ".local" / "share" / "catalogd"
    deadline = time.monotonic() + PATIENCE
    store = catalogd.Store(str(database))
    while store.entries.list_json() == "[]":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="the walk is for a POSIX shell")
def test_every_line_of_the_walk_comes_out_as_printed(
    terminal: Terminal, tmp_path: pathlib.Path
) -> None:
    walked = 0
    for command, output in steps():
        expected = terminal.here(output)
        if "catalogd.py serve" in command:
            terminal.type(f"{command} 2>log &")  # a terminal of its own
            printed = terminal.read_until("Stop with Ctrl-C.\n")
            wait_for_entry(tmp_path)
        else:
            printed = terminal.run(command)
            printed += "\n" if printed and not printed.endswith("\n") else ""
        assert re.fullmatch(pattern(expected), printed, re.DOTALL), (
            f"$ {command}\n{printed}\ninstead of\n{expected}"
        )
        walked += 1
    assert walked > 20


def test_the_settings_table_has_every_option() -> None:
    rows = []
    for field in dataclasses.fields(catalogd.Settings):
        default = catalogd.format_option(field.default)
        meaning = field.metadata["help"].replace("\n", " ")
        name = f"`[{field.metadata['section']}] {field.name}`"
        rows.append(f"| {name} | {f'`{default}`' if default else ''} | {meaning} |")
    assert "\n".join(["| --- | --- | --- |", *rows, ""]) in README


@pytest.mark.parametrize("command", [row.path for row in catalogd.COMMANDS])
def test_the_commands_table_has_every_command(command: str) -> None:
    assert re.search(rf"^\| `{command}\b", README, re.MULTILINE)


@pytest.mark.parametrize(
    "route", [route for route in catalogd.ROUTES if "/api/" in route.path]
)
def test_the_calls_table_has_every_call_of_the_interface(route: catalogd.Route) -> None:
    path = route.path.replace("<", "{").replace(">", "}")
    assert f"| `{route.method} {path}` |" in README


def problems(kind: type[catalogd.Problem]) -> set[int]:
    return {kind.status}.union(*(problems(each) for each in kind.__subclasses__()))


@pytest.mark.parametrize(
    "status",
    sorted(problems(catalogd.Problem) | set(catalogd.REFUSALS) - {501}),
)
def test_the_status_table_has_every_refusal(status: int) -> None:
    assert f"\n| {status} |" in README
