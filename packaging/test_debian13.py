"""The first send, server and client, with the Python and the packages of Debian 13;
when asked, by -m soak, also the unit tests of client, server and store."""

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import TOP, Service, call, entries, need, run, wait_for

PACKAGES = "python3,python3-bottle,python3-waitress,python3-platformdirs"
TESTED = ["pytest", "pytest-xdist", "webtest", "pyftpdlib", "hypothesis", "jsonschema"]
UNIT_TESTS = ("client", "replies", "targets", "server", "store")


@pytest.fixture(params=[()])
def root(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> Iterator[pathlib.Path]:
    """A small Debian 13 with both programs in /opt and an empty folder /srv."""
    need("debootstrap", root=True)
    root = tmp_path / "root"
    packages = [PACKAGES, *(f"python3-{name}" for name in request.param)]
    options = ["--variant=minbase", f"--include={','.join(packages)}"]
    run("debootstrap", *options, "trixie", root, "http://deb.debian.org/debian")
    for program in ("catalogd.py", "send_to_switch.py"):
        shutil.copy(TOP / program, root / "opt")
    run("mount", "-t", "proc", "proc", root / "proc")
    try:
        yield root
    finally:
        run("umount", "--lazy", root / "proc")


class Inside(Service):
    """catalogd in that root, with its folder there as /srv."""

    def words(self, *command: str) -> list[Any]:
        where = ["--config", "/srv/catalogd.ini", "--data-dir", "/srv/data"]
        root = self.folder.parent
        return ["chroot", root, "python3", "/opt/catalogd.py", *command, *where]


def test_the_first_send_on_debian_13(root: pathlib.Path) -> None:
    folder = root / "srv"
    for name in ("games", "card"):
        (folder / name).mkdir()
    (folder / "games/Celeste.nsp").write_text("bytes")
    service = Inside(folder)
    service.write_settings("[library]\nfolders = /srv/games\nsettle = 0\n")
    with service:
        key = service.add_account("correct horse")
        (folder / "key").write_text(key)
        found = wait_for(lambda: entries(service.url, key))
        fields = {"entry_id": found["Celeste.nsp"]}
        assert call(f"{service.url}/api/send-to-switch", key, fields).status == 200
        client = ["chroot", root, "python3", "/opt/send_to_switch.py", "--once"]
        where = ["--server", service.url, "--key-file", "/srv/key"]
        where += ["--to", "folder:/srv/card", "--state", "/srv/state"]
        run(*client, *where)
    assert (folder / "card/Celeste.nsp").read_text() == "bytes"
    assert run("chroot", root, "python3", "--version").startswith("Python 3.13.")


@pytest.mark.soak
@pytest.mark.parametrize("root", [TESTED], indirect=True)
def test_the_unit_tests_on_debian_13(root: pathlib.Path) -> None:
    top = root / "opt/catalogd"
    shutil.copytree(TOP, top, ignore=shutil.ignore_patterns(".git", ".tox"))
    tests = [f"/opt/catalogd/tests/test_{name}.py" for name in UNIT_TESTS]
    # pyftpdlib's asynchat, which Debian has apart, warns of that.
    options = ["-q", "-n", "auto", "-W", "ignore::DeprecationWarning"]
    run(
        "chroot",
        root,
        "python3",
        "-m",
        "pytest",
        *options,
        "-c",
        "/opt/catalogd/setup.cfg",
        *tests,
    )
