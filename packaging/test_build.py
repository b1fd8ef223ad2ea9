"""All that is released, built by one command."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

from build import copied_tree
from conftest import TOP, need, run


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the files."""
    need("dpkg-buildpackage", "dh")
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, TOP / "packaging/build.py", "--to", folder)
    return folder


def test_the_sums_are_those_of_all_files(release: pathlib.Path) -> None:
    rows = (release / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(row.split("  ")) for row in rows)
    files = {path for path in release.iterdir() if path.name != "SHA256SUMS"}
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    endings = [".deb", ".gz", ".pyz", ".whl"]
    assert sorted(path.suffix for path in files) == endings


def test_the_same_tree_gives_the_same_bytes(
    release: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Whoever builds it, where and when, and whatever was run in that tree before."""
    tree = copied_tree(tmp_path / "elsewhere")
    for path in tree.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (tree / "packaging/__pycache__").mkdir()
    (tree / "packaging/__pycache__/build.pyc").touch()
    to = tmp_path / "release"
    environment = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, tree / "packaging/build.py", "--to", to]
    run(*command, env=environment, umask=0o077)
    assert (to / "SHA256SUMS").read_text() == (release / "SHA256SUMS").read_text()


def test_the_source_archive_has_what_the_tests_need(release: pathlib.Path) -> None:
    [archive] = release.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    patterns = ["*.py", "*.cfg", "*.md", ".ci/*", "packaging/**/*", "tests/**/*.py"]
    paths = [path for pattern in patterns for path in TOP.glob(pattern)]
    kept = [path for path in paths if "__pycache__" not in path.parts]
    files = [path for path in kept if path.is_file()]
    assert {str(path.relative_to(TOP)) for path in files} <= names


def test_what_is_missing_is_named(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, TOP / "packaging/build.py", "deb", "--to", tmp_path]
    bare = {"PATH": str(tmp_path)}
    done = subprocess.run(command, env=bare, capture_output=True, text=True)
    wanted = "build.py: deb needs: sudo apt install --no-install-recommends debhelper\n"
    assert (done.returncode, done.stderr) == (1, wanted)
