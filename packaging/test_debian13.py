"""The first send, server and client, with the Python and the packages of Debian 13;
when asked, by -m soak, also the unit tests of client, server and store. And files that
a size of 32 bits does not have, with those of a Debian 12 of 32 bits."""

import json
import os
import pathlib
import shutil
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import TOP, Service, call, entries, need, run, session, wait_for

PACKAGES = "python3,python3-bottle,python3-waitress,python3-platformdirs"
TESTED = ["pytest", "pytest-xdist", "webtest", "pyftpdlib", "hypothesis", "jsonschema"]
TEST_PACKAGES = ",".join([PACKAGES, *map("python3-{}".format, TESTED)])
UNIT_TESTS = ("client", "targets", "server", "store")

DEBIAN_13 = ["--include", PACKAGES, "trixie"]
DEBIAN_12_OF_32_BITS = ["--arch=i386", "--include", PACKAGES, "bookworm"]


@pytest.fixture(params=[DEBIAN_13])
def root(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> Iterator[pathlib.Path]:
    """A small Debian with both programs in /opt, and empty folders in /srv."""
    need("debootstrap", root=True)
    root, mirror = tmp_path / "root", "http://deb.debian.org/debian"
    *options, suite = request.param
    run("debootstrap", "--variant=minbase", *options, suite, root, mirror)
    for program in ("catalogd.py", "send_to_switch.py"):
        shutil.copy(TOP / program, root / "opt")
    for name in ("games", "card"):
        (root / "srv" / name).mkdir()
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

    def send(self, entry: str, key: str) -> None:
        """Queue an entry, and have the client send it to /srv/card."""
        fields = {"entry_id": entry}
        assert call(f"{self.url}/api/send-to-switch", key, fields).status == 200
        (self.folder / "key").write_text(key)
        root, where = self.folder.parent, ["--server", self.url]
        where += ["--key-file", "/srv/key", "--state", "/srv/state"]
        client = ["chroot", root, "python3", "/opt/send_to_switch.py", "--once"]
        run(*client, *where, "--to", "folder:/srv/card")


def test_the_first_send_on_debian_13(root: pathlib.Path) -> None:
    folder = root / "srv"
    (folder / "games/Celeste.nsp").write_text("bytes")
    service = Inside(folder)
    service.write_settings("[library]\nfolders = /srv/games\nsettle = 0\n")
    with service:
        key = service.add_account("correct horse")
        found = wait_for(lambda: entries(service.url, key))
        service.send(found["Celeste.nsp"], key)
    assert (folder / "card/Celeste.nsp").read_text() == "bytes"
    assert run("chroot", root, "python3", "--version").startswith("Python 3.13.")


SIZE, MARK = 2**32 + 10**6, b"MARK"  # in a file with holes, at:
MARKED = (0, 2**31 - 2, 2**32 - 2, SIZE - 4)


@pytest.mark.parametrize("root", [DEBIAN_12_OF_32_BITS], indirect=True)
def test_files_above_4_gib_on_a_system_of_32_bits(root: pathlib.Path) -> None:
    folder = root / "srv"
    games, card = folder / "games", folder / "card"
    with open(games / "Large.nsp", "wb") as file:
        for place in MARKED:
            file.seek(place)
            file.write(MARK)
    service = Inside(folder)
    service.write_settings(
        "[library]\nfolders = /srv/games\nsettle = 0\ninbox = /srv/games\n"
    )
    with service:
        key = service.add_account("correct horse")
        entry = wait_for(lambda: entries(service.url, key))["Large.nsp"]
        for place in MARKED:
            wanted = {"Range": f"bytes={place}-{place + 3}"}
            answer = call(f"{service.url}/api/download/{entry}", key, **wanted)
            assert (answer.status, answer.body) == (206, MARK)
        upload_beyond_2_gib(service.url, games)
        service.send(entry, key)
        added = wait_for(lambda: entries(service.url, key).get("Added.nsp"))
        assert "1 new." in run(*service.words("verify", added))
    assert (card / "Large.nsp").stat().st_size == SIZE
    with open(card / "Large.nsp", "rb") as file:
        for place in MARKED:
            file.seek(place)
            assert file.read(4) == MARK


def upload_beyond_2_gib(url: str, games: pathlib.Path) -> None:
    """Add a file of which all but the last bytes are a hole, as if sent before."""
    cookie, size = {"Cookie": session(url)}, 2**31 + 4

    def begin() -> Any:
        fields = {"name": "Added.nsp", "size": size}
        return json.loads(call(f"{url}/web/uploads", "", fields, **cookie).body)

    upload = begin()["id"]
    os.truncate(games / f".catalogd-{upload}.part", size - 8)
    headers = {"Upload-Offset": str(begin()["offset"]), **cookie}
    headers["Content-Type"] = "application/octet-stream"
    address = f"{url}/web/uploads/{upload}"
    piece = urllib.request.Request(address, 2 * MARK, headers, method="PATCH")
    urllib.request.urlopen(piece, timeout=30).close()
    assert (games / "Added.nsp").stat().st_size == size


@pytest.mark.soak
@pytest.mark.parametrize(
    "root", [["--include", TEST_PACKAGES, "trixie"]], indirect=True
)
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
