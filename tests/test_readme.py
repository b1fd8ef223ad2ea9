"""The README says what is so: its walk is walked, its tables are complete."""

import dataclasses
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import catalogd
from conftest import need

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
            start_new_session=True,
        )
        self.timer = threading.Timer(
            PATIENCE, os.killpg, [self.shell.pid, signal.SIGKILL]
        )
        self.timer.start()

    def here(self, text: str) -> str:
        """The README's text, for this machine."""
        program = f"{sys.executable} {ROOT / 'catalogd.py'}"
        return text.replace("uv run catalogd.py", program).replace(
            "6069", str(self.port)
        )

    def run(self, commands: list[str]) -> list[str]:
        """Paste all commands at once, and return what each prints."""
        for command in commands:
            self.type(f"{command}\necho '{DONE}'")
        return [self.read_until(f"{DONE}\n") for _ in commands]

    def type(self, text: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(self.here(text) + "\n")
        self.shell.stdin.flush()

    def read_until(self, end: str) -> str:
        """Return what is printed before the line `end`."""
        assert self.shell.stdout is not None
        printed = ""
        while not printed.endswith(end):
            line = self.shell.stdout.readline()
            assert line, f"the shell ended after: {printed}"
            printed += line
        return printed.removesuffix(end)

    def close(self) -> None:
        """End what still runs in it, and then the shell."""
        self.type("kill $(jobs -p); wait; exit")
        self.shell.communicate(timeout=PATIENCE)
        self.timer.cancel()


@pytest.fixture
def terminal(tmp_path: pathlib.Path) -> Iterator[Terminal]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = tmp_path / ".config" / "catalogd" / "catalogd.ini"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[server]\nport = {port}\n")
    terminal = Terminal(tmp_path, port)
    yield terminal
    terminal.close()


@pytest.mark.skipif(os.name == "nt", reason="the walk is for a POSIX shell")
def test_every_line_of_the_walk_comes_out_as_printed(terminal: Terminal) -> None:
    need("curl", "curl")
    commands, outputs = zip(*steps(), strict=True)
    [serve] = [at for at, line in enumerate(commands) if "catalogd.py serve" in line]
    printed = terminal.run([*commands[:serve]])
    terminal.type(f"{commands[serve]} 2>log &")  # a terminal of its own
    end = "Stop with Ctrl-C.\n"
    printed.append(terminal.read_until(end) + end)
    printed += terminal.run([*commands[serve + 1 :]])
    for command, found, output in zip(commands, printed, outputs, strict=True):
        expected = terminal.here(output).rstrip("\n")
        assert re.fullmatch(pattern(expected), found.rstrip("\n"), re.DOTALL), (
            f"$ {command}\n{found}\ninstead of\n{expected}"
        )
    assert len(commands) > 20


def test_the_packages_for_the_tests_are_those_of_the_ci() -> None:
    told = re.search(r"sudo apt install (chromium(?:.*\\\n)*.*)", README)
    script = (ROOT / ".ci" / "run").read_text()
    installed = re.findall(r"packages\+?=\(([^)]*)\)", script)
    assert told
    assert sorted(told[1].replace("\\", "").split()) == sorted(
        " ".join(installed).split()
    )


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
    sorted(problems(catalogd.Problem) | set(catalogd.HTTP_ERRORS) - {501}),
)
def test_the_status_table_has_every_refusal(status: int) -> None:
    assert f"\n| {status} |" in README
