"""Change one thing at a time in catalogd.py and send_to_switch.py, and run the tests
that cover its line: a mutant that they let live may show a hole in them.

    pipx run tox -e newest --notest
    .tox/newest/bin/python tests/mutants.py 150 --seed 7 --file catalogd.py

The first run notes in .tox/mutants which test covers which line, and takes as long as
all tests. Each mutant is tried in a copy of these files. It is killed by a test that
fails, and hangs where a test does not end within `--limit` seconds.
"""

import argparse
import ast
import collections
import concurrent.futures
import copy
import hashlib
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / ".tox" / "mutants"
FILES = ["catalogd.py", "send_to_switch.py"]
MAX_TESTS = 150  # of those that cover a line, those that cover the fewest lines
# What starts and stops processes, disks and browsers tells little of one line.
CHOICE = "not soak and not browser and not slow and not root"
OTHER: dict[type, type] = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.GtE: ast.Lt},
    **{ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Mod: ast.Mult},
    **{ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd},
}
NEAR: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Mutant(NamedTuple):
    file: str
    function: str
    line: int
    start: int  # offsets in the file, in bytes
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(each.split()) for each in (self.before, self.after))
        return f"{self.file}:{self.line} {self.function}: {before} -> {after or 'pass'}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if is_dropped(node):
        yield ast.Pass()
    for kind, change in KINDS.items():
        if isinstance(node, kind):
            yield from change(node)


def compared(node: ast.Compare) -> Iterator[ast.AST]:
    for table in (OTHER, NEAR):
        if kind := table.get(type(node.ops[0])):
            yield with_field(node, "ops", [kind(), *node.ops[1:]])


def combined(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield with_field(node, "op", OTHER[type(node.op)]())
    yield node.values[0]


def calculated(node: ast.BinOp) -> Iterator[ast.AST]:
    if (kind := OTHER.get(type(node.op))) and not is_text(node):
        yield with_field(node, "op", kind())


def turned(node: ast.If | ast.While | ast.IfExp) -> Iterator[ast.AST]:
    yield with_field(node, "test", ast.UnaryOp(ast.Not(), node.test))


def undone(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not):
        yield node.operand


def other_value(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, str) and " " not in node.value:
        yield ast.Constant(f"{node.value}x")


def returned(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None:
        yield ast.Return(ast.Constant(None))


KINDS: dict[Any, Callable[[Any], Iterator[ast.AST]]] = {
    **{ast.Compare: compared, ast.BoolOp: combined, ast.BinOp: calculated},
    **{ast.If | ast.While | ast.IfExp: turned, ast.UnaryOp: undone},
    **{ast.Constant: other_value, ast.Return: returned},
}


def is_text(node: ast.AST) -> bool:
    """Return whether an operation is on texts, where no other operator has a sense."""
    kinds = (ast.JoinedStr, ast.Constant)
    parts = [each for each in ast.walk(node) if isinstance(each, kinds)]
    return any(isinstance(getattr(each, "value", ""), str) for each in parts)


def is_dropped(node: ast.AST) -> bool:
    """Return whether a mutant goes on without this statement."""
    is_call = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    return is_call or isinstance(node, ast.Raise | ast.AugAssign | ast.Continue)


def with_field(node: ast.AST, name: str, value: object) -> ast.AST:
    changed = copy.copy(node)
    setattr(changed, name, value)
    return changed


def nodes(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield each node in a function, with the name of that."""
    for node in ast.iter_child_nodes(tree):
        name = function
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{function}.{node.name}".lstrip(".")
        elif isinstance(node, ast.JoinedStr):
            continue  # its parts have no places of their own in Python 3.11
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if function and not isinstance(tree, ast.ClassDef | ast.arguments):
            yield name, node
        yield from nodes(node, name)


def mutants(file: str, source: bytes) -> Iterator[Mutant]:
    lines = [0]
    for row in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(row))
    for function, node in nodes(ast.parse(source)):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        for change in changes(node):
            if isinstance(node, ast.If | ast.While):
                yield condition(file, function, node, lines, source)
            else:
                after = ast.unparse(ast.fix_missing_locations(change))
                after = f"({after})" if isinstance(node, ast.expr) else after
                yield Mutant(file, function, node.lineno, start, end, before, after)


def condition(
    file: str, function: str, node: ast.If | ast.While, lines: list[int], source: bytes
) -> Mutant:
    """Return a statement whose condition is turned round; its body stays as it is."""
    test = node.test
    start = lines[test.lineno - 1] + test.col_offset
    end = lines[(test.end_lineno or 0) - 1] + (test.end_col_offset or 0)
    before = source[start:end].decode()
    after = f"(not ({ast.unparse(test)}))"
    return Mutant(file, function, test.lineno, start, end, before, after)


class Coverage:
    """Which tests cover which lines."""

    def __init__(self, files: list[str]) -> None:
        """:param files: those of tests to run, or their folder."""
        WORK.mkdir(parents=True, exist_ok=True)
        content = " ".join(files).encode()
        content += b"".join((ROOT / file).read_bytes() for file in FILES)
        for path in sorted((ROOT / "tests").glob("*.py")):
            content += path.read_bytes()
        path = WORK / f"{hashlib.sha256(content).hexdigest()[:16]}.db"
        if not path.exists():
            self.make(path, files)
        self.tests: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        self.counts: dict[str, int] = collections.Counter()
        self._read(path)

    @staticmethod
    def make(path: pathlib.Path, files: list[str]) -> None:
        """Run the tests once."""
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", CHOICE]
        command += ["--cov", "--cov-context=test", "--cov-report=", *files]
        made = WORK / "coverage"
        env = {**os.environ, "COVERAGE_FILE": str(made)}
        subprocess.run(command, cwd=ROOT, env=env, check=True)
        made.rename(path)

    def _read(self, path: pathlib.Path) -> None:
        with sqlite3.connect(path) as db:
            rows = db.execute(
                "SELECT DISTINCT file.path, context.context, tono FROM arc"
                " JOIN file ON file.id = file_id"
                " JOIN context ON context.id = context_id WHERE tono > 0"
            ).fetchall()
        for file, context, line in rows:
            if test := context.rpartition("|")[0]:  # a name may have one, too
                self.tests[pathlib.Path(file).name, line].add(test)
                self.counts[test] += 1

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests to run, first those that cover the fewest lines."""
        found = self.tests.get((mutant.file, mutant.line), set())
        return sorted(found, key=lambda test: (self.counts[test], test))[:MAX_TESTS]


class Place:
    """A copy of the files in which mutants are tried one after the other."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "copy"
        skipped = shutil.ignore_patterns(".git", ".tox", ".*_cache", "__pycache__")
        shutil.copytree(ROOT, self.folder, ignore=skipped)

    def run(self, mutant: Mutant, tests: list[str], limit: int) -> str:
        """Return what becomes of a mutant."""
        path = self.folder / mutant.file
        whole = path.read_bytes()
        path.write_bytes(mutant.apply(whole))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-o", f"faulthandler_timeout={limit}"]
        command += ["-o", "faulthandler_exit_on_timeout=true", "-m", CHOICE, *tests]
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=1200
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        finally:
            path.write_bytes(whole)
        if done.returncode == 0:
            return "LIVES"
        if re.search(r"^Timeout \(", done.stderr, re.MULTILINE):
            return "hangs"
        return f"killed by {killer(done.stdout + done.stderr)}"


def killer(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1] if found else f"an error: {' '.join(output.split())[-200:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", choices=FILES, action="append")
    parser.add_argument(
        "--function", help="only those of functions with this in a name"
    )
    parser.add_argument("--tests", nargs="*", default=["tests"], help="their files")
    parser.add_argument("--limit", type=int, default=120, help="seconds for one test")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    coverage = Coverage(args.tests)
    found = [
        (mutant, tests)
        for file in args.file or FILES
        for mutant in mutants(file, (ROOT / file).read_bytes())
        if (tests := coverage.of(mutant)) and (args.function or "") in mutant.function
    ]
    chosen = random.Random(args.seed).sample(found, min(args.count, len(found)))
    return tried(chosen, args.workers, args.limit)


def tried(chosen: list[tuple[Mutant, list[str]]], workers: int, limit: int) -> int:
    """Try mutants, print what becomes of each, and return how many are not killed."""
    counts: dict[str, int] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(pathlib.Path(folder, str(n))) for n in range(workers)]

        def run(chosen: tuple[Mutant, list[str]]) -> str:
            place = places.pop()
            try:
                return place.run(*chosen, limit)
            finally:
                places.append(place)

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            results = pool.map(run, chosen)
            for (mutant, tests), result in zip(chosen, results, strict=True):
                counts[result.partition(" ")[0]] += 1
                print(f"{result}: {mutant} ({len(tests)} tests)", flush=True)
    print(dict(counts))
    return len(chosen) - counts["killed"]


if __name__ == "__main__":
    raise SystemExit(int(main() > 0))
