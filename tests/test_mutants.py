"""Mutants of the programs: they are made, and the tests kill nearly all."""

import ast
import subprocess
import sys

import pytest

import mutants

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
