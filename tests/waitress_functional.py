"""Runs waitress's own functional tests over catalogd's channel, twice: all calls are
answered by workers, and then by the main loop.

    python tests/waitress_functional.py [pytest options]

They come from the source distribution of the waitress that is installed. Bodies of
any size, from files and from memory, take the way of downloads here.
"""

import importlib.metadata
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

import pytest
import waitress.server

import catalogd


class Channel(catalogd.Channel):
    """Has senders in each process that the tests start, and uses them for all."""

    large = 0

    def __init__(self, server: Any, *args: Any, **options: Any) -> None:
        if not hasattr(server, "senders"):
            server.senders = catalogd.Senders()
        self.senders = server.senders
        super().__init__(server, *args, **options)

    def write_soon(self, data: Any) -> int:
        file = getattr(data, "file", None)
        if isinstance(file, io.BufferedReader):
            content = catalogd.Content(os.dup(file.fileno()))
            content.seek(file.tell())
            file.close()
            data.file = content
        return super().write_soon(data)


class LoopChannel(Channel):
    """Has the main loop answer all calls."""

    calls = re.compile("(?P<all>.*)", re.DOTALL)

    def __init__(self, server: Any, *args: Any, **options: Any) -> None:
        self.lanes = {"all": catalogd.AtOnce(server.task_dispatcher)}
        server.add_task = Channel.assign
        super().__init__(server, *args, **options)


def unpack(version: str, folder: str) -> pathlib.Path:
    """The source distribution of this waitress, unpacked in the folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    what = ["--no-binary", "waitress", f"waitress=={version}", "--dest", folder]
    subprocess.run([*pip, *what], check=True)
    with tarfile.open(next(pathlib.Path(folder).glob("waitress-*.tar.gz"))) as archive:
        archive.extractall(folder)
    return pathlib.Path(folder, f"waitress-{version}")


def main(options: list[str]) -> int:
    version = importlib.metadata.version("waitress")
    with tempfile.TemporaryDirectory() as folder:
        source = unpack(version, folder)
        sys.path.insert(0, str(source))  # the tests import each other as `tests`
        os.chdir(source)
        tests = ["tests/test_functional.py", "-c", os.devnull, f"--rootdir={source}"]
        run = [*tests, "-p", "no:cacheprovider", *options]
        print(f"waitress {version} over {catalogd.Channel.__qualname__} of catalogd")
        waitress.server.BaseWSGIServer.channel_class = Channel
        failed = pytest.main(run)
        print("the same, answered by the main loop")
        waitress.server.BaseWSGIServer.channel_class = LoopChannel
        # One test sleeps in a call, and expects another to be answered meanwhile.
        return pytest.main([*run, "-k", "not SleepyThreadTests"]) or failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
