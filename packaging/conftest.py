"""What the checks of the installed forms share. They need tools that few machines
have: elsewhere than on CI, a check without its tools is skipped."""

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
    """Skip the test, or fail on CI, where one of the tools is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    if missing:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"needs {', '.join(missing)}")


def run(*command: Any, **options: Any) -> str:
    """What a command prints. It has failed the test if it fails."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    done = subprocess.run([str(word) for word in command], text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return str(done.stdout)


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true value of `what()`."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"waited {seconds} s in vain"
        time.sleep(0.1)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def get(url: str) -> bytes | None:
    """What is at an address; None as long as nobody listens there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return None
        raise
