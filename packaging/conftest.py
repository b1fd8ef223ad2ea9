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
from typing import Any, NoReturn

import pytest

TOP = pathlib.Path(__file__).parent.parent


# The package of Debian that has a tool, where it is called otherwise.
PACKAGES = {
    "dh": "debhelper",
    "g++": "build-essential",
    "dpkg-buildpackage": "dpkg-dev",
    "man": "man-db",
    "nsenter": "util-linux",
    "objdump": "binutils",
    "systemd-analyze": "systemd",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}


def need(*tools: str, root: bool = False) -> None:
    """Skip the test, or fail on CI, where one of the tools is missing."""
    missing = [PACKAGES.get(tool, tool) for tool in tools if not shutil.which(tool)]
    if missing:
        skip(f"needs the package {', '.join(dict.fromkeys(missing))}")
    if root and os.geteuid() != 0:
        skip("needs root")


def skip(reason: str) -> NoReturn:
    """Skip a test, or fail it where `CI` is set: nothing is missing there."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


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
