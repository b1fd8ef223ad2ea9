"""The lines of the tables of README and install.md, each in a bare Debian."""

import os
import pathlib
import re
import shutil
from typing import Any

import pytest

from build import copied_tree
from conftest import APART, LOOPBACK, Debian, answers, need, readme, run, started

NSPAWN = (
    "systemd-nspawn --quiet --register=no --keep-unit --pipe --resolv-conf=copy-host"
)
# What a machine may need to reach its registries.
REACHES = re.compile(
    r"(?i)(https?|no)_proxy|PIP_(INDEX|TRUSTED|DEFAULT)\w*|UV_\w*INDEX\w*"
)
CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")


class Bare:
    """A machine with what each Debian has, the project, and a game in /root/Games."""

    def __init__(self, root: pathlib.Path, archive: pathlib.Path) -> None:
        self.root = root
        root.mkdir()
        run("tar", "-C", root, "-xpf", archive)
        copied_tree(root / "root/catalogd")
        (root / "root/Games").mkdir()
        (root / "root/Games/Celeste.nsp").write_text("bytes")
        self.options = ["--chdir=/root/catalogd", f"--directory={root}"]
        self.options += [f"--machine=catalogd-{os.getpid()}"]  # one for each worker
        for name, value in os.environ.items():
            if REACHES.fullmatch(name):
                self.options += [f"--setenv={name}={value}"]
        if CERTIFICATES.exists():
            shutil.copy(CERTIFICATES, root / "etc/certificates")
            for name in ("PIP_CERT", "SSL_CERT_FILE"):
                self.options += [f"--setenv={name}=/etc/certificates"]

    def words(self, line: str, shell: str = "sh -ec") -> list[Any]:
        """Return the command that runs a line of the README."""
        install = "apt-get install --yes --no-install-recommends"
        line = line.replace("sudo ", "").replace("apt install", install)
        line = line.replace("serve DIR", "serve ~/Games")
        if "serve ~/Games" in line:
            line += f" {' '.join(LOOPBACK)}"
        return [*APART, *NSPAWN.split(), *self.options, *shell.split(), line]

    def run(self, *lines: str) -> None:
        for line in lines:
            run(*self.words(line))

    def serves(self, line: str, shell: str = "sh -ec") -> bool:
        """Run a line of the README that serves; tell whether the service answers."""
        with started(self.words(line, shell), self.root / "root") as (_, address):
            return answers(address)


@pytest.fixture
def bare(debian: Debian, tmp_path: pathlib.Path) -> Any:
    need("systemd-nspawn", "unshare", root=True)
    found = Bare(tmp_path / "root", debian.bare)
    yield found
    shutil.rmtree(found.root)


def test_the_packages_of_debian_are_enough(bare: Bare) -> None:
    install, serve = readme("| **Debian**, to try")
    bare.run(install)
    assert bare.serves(serve)


def test_the_debian_package_is_built_and_installed_by_three_lines(bare: Bare) -> None:
    bare.run(*readme("| **Raspberry Pi OS"))
    bare.run("catalogd --version", "test -d /srv/games")


def test_uv_is_enough(bare: Bare) -> None:
    need("uv")
    [serve] = readme("| **macOS, another Linux**")
    shutil.copy(shutil.which("uv") or "", bare.root / "usr/local/bin")
    bare.run("apt install python3")  # which uv would download
    assert bare.serves(serve)


def test_uv_keeps_it(bare: Bare) -> None:
    need("uv")
    install, _, installed = readme("| **uv**, to keep it")
    shutil.copy(shutil.which("uv") or "", bare.root / "usr/local/bin")
    bare.run("apt install python3", install)
    assert bare.serves(f"PATH=~/.local/bin:$PATH; {installed}")


def test_pipx_is_enough(bare: Bare) -> None:
    serve, _, install, installed = readme("| **pipx**")
    bare.run("apt install pipx")
    assert bare.serves(serve)
    bare.run(install)
    new_terminal = "bash -ic"
    assert bare.serves(installed, new_terminal)


def test_python_with_venv_is_enough(bare: Bare) -> None:
    """For both commands of the README. Of the tests a few are enough here."""
    serve, test = readme("its venv alone (")
    bare.run("apt install python3-venv")
    assert bare.serves(serve)
    bare.run(f"{test} -e newest -- tests/test_fields.py")


def test_python_alone_serves_the_archive(bare: Bare) -> None:
    install, build, serve = readme("| **Python 3.11** and nothing else")
    bare.run(install, build, "apt-get purge --yes python3-pip")
    assert bare.serves(serve)


def test_a_system_without_python_runs_the_program(bare: Bare) -> None:
    install, build, serve = readme("| **Linux without Python**")
    bare.run(install, build)
    bare.run("apt-get purge --yes python3 python3-minimal 'libpython3*'")
    assert bare.serves(serve)
