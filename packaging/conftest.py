"""Helpers of the tests of the installed forms. A test whose tools are missing is
skipped, but fails on CI."""

import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

TOP = pathlib.Path(__file__).parent.parent


def need(*tools: str, root: bool = False) -> None:
    """Skip the test, or fail it on CI, if a tool is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    if missing:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"needs {', '.join(missing)}")


def run(*command: Any, **options: Any) -> str:
    """Return what a command prints. The command must succeed."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    done = subprocess.run([str(word) for word in command], text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return str(done.stdout)


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true value of `what()`."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"nothing after {seconds} s"
        time.sleep(0.1)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def get(url: str) -> bytes | None:
    """Return what is at an address, or None while nothing listens there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return None
        raise
