"""How all tests run, fail and skip: in few lines, whatever they compare or lack."""

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

LONG = 1000  # bytes: what is longer is told by its length and digest


def pytest_assertrepr_compare(op: str, left: object, right: object) -> None:
    """Let an assertion on long bodies print their digests, not their bytes.

    :raises AssertionError: since pytest's own comparison, which comes next, would
        first list the bytes.
    """
    short = brief(left), brief(right)
    if short != (left, right):
        raise AssertionError(f"not so: {short[0]} {op} {short[1]}")


def brief(value: Any) -> Any:
    """Return the value, with words in the place of long bytes in it."""
    if isinstance(value, tuple | list):
        kind = list if isinstance(value, list) else tuple
        return kind(map(brief, value))
    if isinstance(value, bytes | bytearray) and len(value) > LONG:
        digest = hashlib.sha256(value).hexdigest()
        return f"<{len(value)} bytes, SHA-256 {digest[:16]}...>"
    return value


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one test more at once than there are cores: they often wait."""
    return (os.cpu_count() or 1) + 1


LEFT_OUT = pytest.StashKey[int]()
ADVICE = """
{} tests with the mark ci were left out, which .ci/run runs. All of them run here by
    pipx run tox -e newest -- -m "not soak"
"""


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the tests that only CI runs, also those of a process of xdist."""
    marks = [{mark.name for mark in item.iter_markers()} for item in items]
    config = items[0].config
    if config.option.keyword or "not ci" not in config.option.markexpr:
        return  # others were asked for
    config.stash[LEFT_OUT] = sum("ci" in each and "soak" not in each for each in marks)
    getattr(config, "workeroutput", {})["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist has counted, as each of them has."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Tell how many tests were left out, and how to run them."""
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write(ADVICE.format(count))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """List the skipped tests of a file in one line for each reason."""
    report: pytest.TestReport = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(item.path), None, report.longrepr[2])
    return report
