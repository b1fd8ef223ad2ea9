"""The README and packaging/*.md are true: their commands print what they show, their
quotes are the program's words, and their tables are complete."""

import ast
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
from conftest import free_port, need

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {
    path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("packaging/*.md")
}
PATIENCE = 300.0  # seconds for all commands of the walk together
DONE = "--- done"


def steps() -> Iterator[tuple[str, str]]:
    """Yield the commands of the first send and of the walk, with what they print."""
    text = README + DOCS["api.md"]
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            yield command, output


def pattern(text: str) -> str:
    """Return a regular expression in which `...` matches anything."""
    return ".*?".join(re.escape(part) for part in text.split("..."))


class Terminal:
    """A shell that runs one command after another."""

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
        """Return a text of the README for this machine."""
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
    port = free_port()
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
    text = DOCS["contributing.md"]
    told = re.search(r"sudo apt install (chromium(?:.*\\\n)*.*)", text)
    script = (ROOT / ".ci" / "run").read_text()
    installed = re.findall(r"packages\+?=\(([^)]*)\)", script)
    assert told
    assert sorted(told[1].replace("\\", "").split()) == sorted(
        " ".join(installed).split()
    )


@functools.cache
def messages() -> list[str]:
    """Return all texts of the programs, with `\0` for each part that varies."""
    return [*find_messages()]


def find_messages() -> Iterator[str]:
    for name in ("catalogd.py", "send_to_switch.py"):
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w+\}", "\0", node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", "\0") for part in node.values]
                yield "".join(str(p) if isinstance(p, str) else "\0" for p in parts)
    for text in re.findall(r'"((?:[^"\n]|"\s*\+\s*")+)"|`([^`\n]+)`', catalogd.JS):
        yield re.sub(r'"\s*\+\s*"|\$\{[^}]*\}', "\0", "".join(text))


def quotes() -> Iterator[str]:
    """Yield what the documents quote, which is never in code or in another file."""
    for text in (README, *DOCS.values()):
        prose = re.sub(r"(?ms)^```.*?^```$|^    .*?$|`[^`\n]*`", "", text)
        yield from re.findall(r'"([^"]+)"', prose)


@pytest.mark.parametrize("quote", sorted(set(quotes())))
def test_a_quote_is_what_a_program_says(quote: str) -> None:
    wanted = re.compile(pattern(" ".join(quote.split())), re.DOTALL)
    assert any(wanted.fullmatch(message) for message in messages())


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 170
    assert len(README.encode()) <= 12_000


def test_the_readme_tells_first_what_comes_first() -> None:
    heads = re.findall(r"(?m)^## (.*)$", README)
    assert heads[:3] == ["Install", "The first send", "What it does"]
    first = README.partition("\n## ")[0]
    for what in ("Nintendo Switch", "send.webp", "--demo", "serve ~/Games", "tox"):
        assert what in first


def test_the_first_send_answers_what_the_sheet_asks_in_its_order() -> None:
    step = " ".join(README.partition("**3. ")[2].partition("**4. ")[0].split())
    words, asked = catalogd.WORDS, catalogd.WORDS["questions"]
    shown = [words["addDevice"], words["add"], asked["name"], asked["owner"]]
    shown += [words["done"], words["notFound"]]
    places = [step.find(f'"{text}"') for text in shown]
    assert -1 not in places and places == sorted(places)


def test_every_document_is_linked_from_the_readme() -> None:
    linked = re.findall(r"\]\(packaging/([\w-]+\.md)", README)
    assert set(linked) == set(DOCS)


def command_line(command: catalogd.Command) -> str:
    words = [command.path]
    for name, rules in command.arguments:
        value = rules.get("metavar", name.strip("-").upper())
        if name.startswith("-"):
            value = name if "action" in rules else f"{name} {value}"
        value += " ..." if rules.get("nargs") == "*" else ""
        is_optional = "nargs" in rules or name.startswith("-")
        is_optional = is_optional and not rules.get("required")
        words.append(f"[{value}]" if is_optional else value)
    return f"    {' '.join(words)}"


def test_the_reference_has_every_command() -> None:
    lines = [command_line(command) for command in catalogd.COMMANDS]
    assert "\n".join(["", "", *lines, "", ""]) in DOCS["reference.md"]


@pytest.mark.parametrize(
    "route", [route for route in catalogd.ROUTES if route.path.startswith("/api/")]
)
def test_the_calls_table_has_every_call_of_the_interface(route: catalogd.Route) -> None:
    path = route.path.replace("<", "{").replace(">", "}")
    assert f"| `{route.method} {path}` |" in DOCS["api.md"]


def problems(kind: type[catalogd.Problem]) -> set[int]:
    return {kind.status}.union(*(problems(each) for each in kind.__subclasses__()))


@pytest.mark.parametrize(
    "status",
    sorted(problems(catalogd.Problem) | set(catalogd.HTTP_ERRORS) - {501}),
)
def test_the_status_table_has_every_refusal(status: int) -> None:
    table = DOCS["api.md"].partition("| Status |")[2].partition("\n\n")[0]
    assert re.search(rf"(?m)^\|[\d, ]*\b{status}\b", table)


@pytest.mark.ci
def test_the_map_of_the_program_is_that_of_its_sections() -> None:
    """Where lines have moved, packaging/sections.py writes it again."""
    code = (ROOT / "packaging/sections.py").read_text(encoding="utf-8")
    maker: dict[str, Any] = {"__file__": str(ROOT / "packaging/sections.py")}
    exec(compile(code, "sections.py", "exec"), maker)
    program = (ROOT / "catalogd.py").read_text(encoding="utf-8")
    text = DOCS["contributing.md"]
    assert maker["mapped"](text, program) == text
    [sections] = re.findall(
        r"(?m)^Problems   .*\n(?:\w+ +.*\n)+", catalogd.__doc__ or ""
    )
    assert re.findall(r"(?m)^\| \[(\w+)\]", text) == re.findall(r"(?m)^\w+", sections)


@pytest.mark.parametrize("text", [README, *DOCS.values()], ids=["README.md", *DOCS])
def test_links_lead_to_files_and_headings(text: str) -> None:
    folder = ROOT if text is README else ROOT / "packaging"
    for path, heading in re.findall(r"\]\((?!https:)([^)#]*)(?:#([^)]*))?\)", text):
        file = folder / path if path else folder / "README.md"
        assert file.exists(), path
        if heading and file.suffix == ".md":  # else: a line
            heads = re.findall(r"(?m)^#+ (.*)$", file.read_text(encoding="utf-8"))
            assert heading in [head.lower().replace(" ", "-") for head in heads]
