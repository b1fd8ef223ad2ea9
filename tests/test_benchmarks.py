"""The benchmarks run: each is tried on a small scale, and its figures are ignored."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


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
