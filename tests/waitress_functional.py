"""Runs waitress's own functional tests over catalogd's channel.

    python tests/waitress_functional.py [pytest options]

They come from the source distribution of the waitress that is installed. Files are sent
as downloads are.
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
    """Sends every file as catalogd sends a download. The tests' own parser and error
    task stay, since they test the texts of these."""

    parser_class = waitress.channel.HTTPChannel.parser_class
    error_task_class = waitress.channel.HTTPChannel.error_task_class

    def __init__(self, server: Any, *args: Any, **options: Any) -> None:
        server.make_room = lambda newcomer: None
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
    with tempfile.TemporaryDirectory() as folder:
        source = unpack(version, folder)
        sys.path.insert(0, str(source))  # the tests import each other as `tests`
        os.chdir(source)
        tests = ["tests/test_functional.py", "-c", os.devnull, f"--rootdir={source}"]
        run = [*tests, "-p", "no:cacheprovider", *options]
        print(f"waitress {version} over {catalogd.Channel.__qualname__} of catalogd")
        waitress.server.BaseWSGIServer.channel_class = Channel
        return pytest.main(run)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
