"""All that is released, built by one command."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest
import yaml

from build import copied_tree
from conftest import TOP, need, run


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the files."""
    need("dpkg-buildpackage", "dh")
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, TOP / "packaging/build.py", "release", "--to", folder)
    return folder


def test_a_release_is_all_that_this_system_can_build_and_its_notes(
    release: pathlib.Path,
) -> None:
    names = {path.name for path in release.iterdir()}
    assert {"SHA256SUMS", "catalogd.pyz", "notes.md"} < names
    _, newest, *_ = (TOP / "CHANGELOG.md").read_text().split("\n## ")
    notes = newest.partition("\n")[2].strip()
    assert (release / "notes.md").read_text() == f"{notes}\n"


def test_the_workflow_of_a_host_runs_the_command_for_a_release() -> None:
    workflow = yaml.safe_load((TOP / ".github/workflows/release.yml").read_text())
    [job] = workflow["jobs"].values()
    lines = "\n".join(step.get("run", "") for step in job["steps"]).splitlines()
    assert "python3 packaging/build.py release" in lines


def test_the_sums_are_those_of_all_files(release: pathlib.Path) -> None:
    rows = (release / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(row.split("  ")) for row in rows)
    others = ("SHA256SUMS", "notes.md")
    files = {path for path in release.iterdir() if path.name not in others}
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    assert {path.suffix for path in files} >= {".deb", ".gz", ".pyz", ".whl"}


def test_the_sums_are_also_of_what_was_built_before(tmp_path: pathlib.Path) -> None:
    (tmp_path / "catalogd.deb").write_bytes(b"before")
    run(sys.executable, TOP / "packaging/build.py", "pyz", "--to", tmp_path)
    rows = (tmp_path / "SHA256SUMS").read_text().splitlines()
    assert [row.split("  ")[1] for row in rows] == ["catalogd.deb", "catalogd.pyz"]


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
    sums = [(place / "SHA256SUMS").read_text().splitlines() for place in (to, release)]
    assert len(sums[0]) == 4 and {*sums[0]} <= {*sums[1]}


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
