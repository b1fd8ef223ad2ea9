"""How many places a change touches, counted by doing it: each change is made to a copy
of the project, and what it is to give is asked there."""

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANGUAGES = sorted(ROOT.glob("packaging/languages/*.json"))


class Place(NamedTuple):
    """An edit: `new` is put behind the first `old` of a file."""

    file: str
    old: str
    new: str


def translated(key: str, old: str = "") -> list[Place]:
    """Return the edits of the four translations, behind the key `old`."""
    files = [f"packaging/languages/{path.name}" for path in LANGUAGES]
    return [Place(file, f'"{old}": {{\n', f'"{key}": "A trial.",\n') for file in files]


SETTING = [
    Place("catalogd.py", "\nkeep_free = 1\n", "# A trial.\ntrial = 5\n"),
    Place(
        "catalogd.py",
        '    saves: str = option("library", "saves", folder_path)\n',
        '    trial: float = option("library", "trial", number(float, 0, 9))\n',
    ),
    Place("catalogd.ini.example", "\nkeep_free = 1\n", "# A trial.\ntrial = 5\n"),
]
FAULT = [
    Place(
        "catalogd.py", "\nFAULTS = {", '"trial": FaultKind("A trial.", tab="files"),'
    ),
    Place(
        "catalogd.py",
        "        yield from self._folder_faults()\n",
        '        yield Fault("scan", "trial", say("trial"))\n',
    ),
    *translated("trial", "problems"),
]
FORMAT = [
    Place(
        "catalogd.py",
        "\n# Names: headers ---\n",
        "\n\ndef trial_facts(window: Any) -> dict[str, Any]:\n"
        '    return {"version": "9"}\n\n\n',
    ),
    Place("catalogd.py", "\nPACKAGES = {\n", '    "tri": trial_facts,\n'),
    Place("catalogd.py", "\nextensions = nsp", " tri"),
    Place("catalogd.ini.example", "\nextensions = nsp", " tri"),
]
CONSOLE_PROGRAM = [
    Place(
        "catalogd.py",
        "\nCONSOLE_PROGRAMS = {\n",
        '    "trial": ConsoleProgram(\n'
        '        *("Trial", "ftp", {5050: "keeps"}, "/", True, "Hi!"),\n'
        '        note="A trial.",\n    ),\n',
    ),
    *translated("trial", "programs"),
]
ROUTE = [
    Place(
        "catalogd.py",
        "\nclass LibraryCalls(Calls):\n",
        '    @route("GET /web/trial", access="admin")\n'
        "    def trial(self, caller: Caller) -> dict[str, Any]:\n"
        '        return {"trial": 1}\n\n',
    ),
    Place("tests/test_source.py", "\nGET    /web/tidy ", "admin\nGET    /web/trial "),
]
QUEUE_STATUS = [
    Place(
        "catalogd.py",
        "\nQUEUE_STATUSES = {\n",
        '    "tried": Status(False, False, {"retry": "pending"}),\n',
    ),
    Place("catalogd.py", '/** @typedef {"pending" | ', '"tried" | '),
    Place("catalogd.py", '\n    "states": {', '"tried": "Tried", '),
    *translated("tried", "states"),
]
CHANGES = {  # by their rows in contributing.md, each with what is asked after it
    "a setting": (
        SETTING,
        "assert catalogd.Settings().trial == 5;"
        "assert catalogd.EXAMPLE == open('catalogd.ini.example').read()",
    ),
    "a fault of the service": (
        FAULT,
        "home = catalogd.Store('data', 300);"
        "scanner = catalogd.Scanner(home, catalogd.Settings());"
        "health = catalogd.Web(home, catalogd.Settings(), scanner).health;"
        "assert 'trial' in {one['reason'] for one in health.state()['faults']};"
        "home.close();" + "texts('problems')",
    ),
    "a file format": (
        FORMAT,
        "assert 'tri' in catalogd.Settings().extensions;"
        "assert catalogd.FORMATS['tri'](None) == {'version': '9'};"
        "assert catalogd.EXAMPLE == open('catalogd.ini.example').read()",
    ),
    "a console program": (
        CONSOLE_PROGRAM,
        "assert catalogd.programs_at(5050, 'Hi!') == ['trial'];texts('programs')",
    ),
    "a route": (
        ROUTE,
        "import test_source as source;"
        "source.test_who_may_call_a_route_is_what_was_decided()",
    ),
    "a status of queue items": (
        QUEUE_STATUS,
        "assert not catalogd.QUEUE_STATUSES['tried'].is_open;texts('states', 'tried')",
    ),
}
PRELUDE = """
import json, pathlib, sys
sys.path[:0] = ["tests", "."]
import catalogd
def texts(group, key="trial"):
    for path in pathlib.Path("packaging/languages").glob("*.json"):
        assert key in json.loads(path.read_text("utf-8"))["words"][group], path
"""


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A copy of what the changes touch."""
    copy = tmp_path / "project"
    copy.mkdir()
    for name in ("catalogd.py", "send_to_switch.py", "catalogd.ini.example"):
        shutil.copy(ROOT / name, copy)
    for name in ("packaging/languages", "tests"):
        hidden = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, copy / name, ignore=hidden)
    yield copy


@pytest.mark.ci
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_touches_as_many_places_as_contributing_says(
    project: pathlib.Path, change: str
) -> None:
    places, asked = CHANGES[change]
    for place in places:
        path = project / place.file
        text = path.read_text(encoding="utf-8")
        assert place.old in text, place
        new = text.replace(place.old, place.old + place.new, 1)
        path.write_text(new, encoding="utf-8", newline="\n")
    program = [sys.executable, "-W", "ignore", "-c", f"{PRELUDE}{asked}"]
    subprocess.run(program, cwd=project, check=True)
    table = (ROOT / "packaging/contributing.md").read_text(encoding="utf-8")
    row = re.search(rf"(?m)^\| {re.escape(change)} \| (\d+): ", table)
    assert row and int(row[1]) == len(places)


def test_the_translations_are_json_with_a_text_a_line() -> None:
    """So that a line can be added to each in the same way."""
    for path in LANGUAGES:
        text = path.read_text(encoding="utf-8")
        assert (
            json.dumps(json.loads(text), ensure_ascii=False, indent=1) == text.strip()
        )


# Mutants of the programs: the tests kill nearly all


SOURCE = b"""
def f(a, b):
    "Say it."
    if a < b and not a:
        raise ValueError("a")
    while a in b:
        a += 1
    g(a, True)
    return -a if a == 3 else a - b
"""


def test_a_mutant_differs_in_one_place() -> None:
    found = [*mutants.mutants("a.py", SOURCE)]
    told = {" ".join(str(one).split()[2:]) for one in found}
    assert told >= {
        "a < b -> (a >= b)",
        "a < b -> (a <= b)",
        "a < b and not a -> (a < b or not a)",
        "a < b and not a -> (not (a < b and (not a)))",
        "not a -> (a)",
        'raise ValueError("a") -> pass',
        "a += 1 -> pass",
        "g(a, True) -> pass",
        "True -> (False)",
        "return -a if a == 3 else a - b -> return None",
        "a - b -> (a + b)",
        "3 -> (4)",
    }
    for one in found:
        text = one.apply(SOURCE)
        ast.parse(text)
        assert text != SOURCE and text.count(b"\n") == SOURCE.count(b"\n"), one


@pytest.mark.soak
@pytest.mark.parametrize(
    ("file", "count"), [(mutants.FILES[0], 30), (mutants.FILES[1], 10)]
)
def test_nearly_all_mutants_are_killed_and_none_hangs(file: str, count: int) -> None:
    """Some change nothing that could be seen."""
    command = [sys.executable, mutants.__file__, str(count), "--file", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert "hangs: " not in told and told.count("killed by ") >= 0.8 * count, told


# The benchmarks run: each is tried on a small scale, and its figures are ignored


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("scan.py", "200"), ("calls.py", "0.05", "200"), ("uploads.py", "16")],
)
def test_a_benchmark_prints_its_table(command: tuple[str, ...]) -> None:
    script, *options = command
    path = str(ROOT / "tests" / "benchmarks" / script)
    done = subprocess.run(
        [sys.executable, path, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) >= 4
