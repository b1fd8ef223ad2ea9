"""Runs waitress's own functional tests over catalogd's channel.

    python tests/waitress_functional.py [pytest options]

They come from the source distribution of the waitress that is installed. Bodies of
any size, from files and from memory, take the way of downloads here.
"""

import importlib.metadata
import io
import os
import pathlib
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
    waitress.server.BaseWSGIServer.channel_class = Channel
    with tempfile.TemporaryDirectory() as folder:
        source = unpack(version, folder)
        sys.path.insert(0, str(source))  # the tests import each other as `tests`
        os.chdir(source)
        tests = ["tests/test_functional.py", "-c", os.devnull, f"--rootdir={source}"]
        print(f"waitress {version} over {catalogd.Channel.__qualname__} of catalogd")
        return int(pytest.main([*tests, "-p", "no:cacheprovider", *options]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
