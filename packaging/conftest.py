"""Helpers of the tests of the installed forms. A test whose tools are missing is
skipped, but fails on CI."""

import contextlib
import email.message
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import pytest

from ftpsrv import Ftpsrv

TOP = pathlib.Path(__file__).parent.parent
LANGUAGES = sorted(path.stem for path in TOP.glob("packaging/languages/*.json"))
SUITE = os.environ.get("SUITE", "bookworm")  # of Debian
DEBIAN_PACKAGES = [
    *("systemd-sysv", "libpam-systemd", "dbus", "adduser", "avahi-daemon"),
    *("python3-bottle", "python3-waitress", "python3-platformdirs", "python3-segno"),
]

# What the tests start and call is here, also where a proxy leads to the registries.
HERE = [*map(os.environ.get, ("NO_PROXY", "no_proxy")), "127.0.0.1", "localhost"]
os.environ["no_proxy"] = ",".join(filter(None, HERE))

# Begins a command with mounts of its own, but without those of loop devices: until the
# command ends, the tests that run beside these could not detach their disks.
APART = [
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    """awk '/^.dev.loop/ && $2 != "/" {print $2}' /proc/self/mounts |
        xargs --no-run-if-empty umount --lazy
    exec "$@" """,
    "sh",
]


# The package of Debian that has a tool, where it is called otherwise.
PACKAGES = {
    "dh": "debhelper",
    "dpkg-buildpackage": "dpkg-dev",
    "man": "man-db",
    "nsenter": "util-linux",
    "objdump": "binutils",
    "systemd-analyze": "systemd",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process run all tests of a file, as they build on each other; but each of
    test_install.py has a machine of its own."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return nodeid if file.endswith("test_install.py") else file

    return Scheduling(config, log)


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


class Debian(NamedTuple):
    """Archives of the roots of small Debians."""

    bare: pathlib.Path  # with what each Debian has, and no Python
    service: pathlib.Path  # with systemd too, and what catalogd needs


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """Made once, by the first of the parallel test processes that needs it, and
    deleted by the last."""
    need("debootstrap", "tar", root=True)
    top = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent
    archives = Debian(top / "bare.tar", top / "service.tar")
    with open(top / "debian.users", "w") as users:
        with locked(top / "debian.lock"):
            if not archives.service.exists():
                make_archives(archives, top / "debian")
            fcntl.flock(users, fcntl.LOCK_SH)
        yield archives
        with locked(top / "debian.lock"), contextlib.suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for archive in archives:
                archive.unlink()


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Keep other processes out of the `with` block of the same path."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_archives(archives: Debian, root: pathlib.Path) -> None:
    mirror = "http://deb.debian.org/debian"
    run("debootstrap", "--variant=minbase", SUITE, root, mirror)
    run("chroot", root, "apt-get", "update")
    # What is installed need not outlive a power cut.
    (root / "etc/dpkg/dpkg.cfg.d/quick").write_text("force-unsafe-io\n")
    run("tar", "-C", root, "-cf", archives.bare, ".")
    install = ["apt-get", "install", "--yes", "--no-install-recommends"]
    run("chroot", root, *install, *DEBIAN_PACKAGES)
    run("tar", "-C", root, "-cf", archives.service, ".")
    shutil.rmtree(root)


def readme(start: str) -> list[str]:
    """Return the lines of the first block of code after some words of the README or of
    these documents, or the commands in the row of a table that begins so."""
    names = ("install", "use", "debian")
    files = [TOP / "README.md", *(TOP / f"packaging/{name}.md" for name in names)]
    text = "".join(file.read_text() for file in files)
    rest = text.partition(start)[2]
    if start.startswith("|"):
        return re.findall("`([^`]*)`", rest.partition("\n")[0])
    block = re.search(r"\n\n((?:    .*\n)+)", rest)
    assert block, start
    return [line.strip() for line in block[1].splitlines()]


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true value of `what()`."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"nothing after {seconds} s"
        time.sleep(0.1)
    return found


def free_port() -> int:
    """A port that no other test or program is given while these tests run: it stays
    bound to a socket that does not listen, beside which servers may."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    held.detach()
    return port


def get(url: str) -> bytes | None:
    """Return what is at an address, or None while nothing listens there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return None
        raise


class Answer(NamedTuple):
    status: int
    headers: email.message.Message
    body: bytes


def call(url: str, key: str, fields: Any = None, **headers: str) -> Answer:
    """Return the answer to a call with an API key, "" for none, also one with an error.
    With fields it is a POST."""
    headers = {name.replace("_", "-"): text for name, text in headers.items()}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    body = None
    if fields is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(fields).encode()
    asked = urllib.request.Request(url, body, headers)
    try:
        answer = urllib.request.urlopen(asked, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return Answer(answer.status, answer.headers, answer.read())


class Service:
    """catalogd as a process, with its settings, data and log in one folder. It runs
    while a `with` block does."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def write_settings(self, ini: str) -> None:
        (self.folder / "catalogd.ini").write_text(ini)

    def words(self, *command: str) -> list[Any]:
        where = ["--config", self.folder / "catalogd.ini"]
        where += ["--data-dir", self.folder / "data"]
        return [sys.executable, TOP / "catalogd.py", *command, *where]

    def __enter__(self) -> "Service":
        options = ["--host", "127.0.0.1", "--port", str(self.port)]
        with open(self.folder / "service.log", "ab") as log:
            command = self.words("serve", *options)
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(lambda: self.is_up() and get(f"{self.url}/healthz"))
        except BaseException:
            self.stop()
            raise
        return self

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log()
        return True

    def log(self) -> str:
        return (self.folder / "service.log").read_text()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def add_account(self, password: str) -> str:
        """Create the account anna, and return an API key of hers."""
        words = self.words("user", "add", "anna", "--password-stdin")
        run(*words, input=password)
        return run(*self.words("key", "add", "anna", "test")).strip()


def entries(url: str, key: str) -> dict[str, str]:
    """Return the ids of all entries by the last parts of their paths."""
    rows = json.loads(call(f"{url}/api/list", key).body)["entries"]
    return {row["source"].rpartition("/")[2]: row["id"] for row in rows}


def session(url: str) -> str:
    """Return the cookie of a sign-in of anna."""
    login = {"username": "anna", "password": "correct horse"}
    headers = call(f"{url}/web/login", "", login).headers
    return str(headers["Set-Cookie"].partition(";")[0])


def signed_in(url: str) -> Callable[..., Any]:
    """Return a function that gives the JSON of calls of the page, as anna."""
    cookie = session(url)

    def page(path: str, fields: Any = None) -> Any:
        return json.loads(call(f"{url}/{path}", "", fields, Cookie=cookie).body)

    return page


def draws_codes(url: str) -> bool:
    """Return whether a service has the package for QR codes."""
    return signed_in(url)("web/invitations", {})["qr"] is not None


def arrives(url: str, folder: pathlib.Path, name: str, content: bytes) -> bool:
    """As anna, add a console, and send an entry to it from the page. Tell whether it
    arrives there.

    :param folder: for the files of the console.
    """

    page = signed_in(url)
    folder.mkdir()
    with contextlib.closing(Ftpsrv(folder)) as console:
        device = page("web/devices", {"name": "Attic", "target": console.url})["device"]

        def entry() -> Any:
            rows = page("web/entries")["entries"]
            return {row["name"]: row["id"] for row in rows}.get(name)

        page("api/send-to-switch", {"entry_id": wait_for(entry), "device": device})
        found = wait_for(lambda: [*folder.glob(f"{name}.nsp")])
    return bool(found[0].read_bytes() == content)


LOOPBACK = ["--host", "127.0.0.1", "--port", "0"]


def at_home(folder: pathlib.Path) -> dict[str, str]:
    """Return an environment in which a folder is the user's home."""
    home = {"HOME": str(folder), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}
    home |= {"XDG_CONFIG_HOME": "", "CATALOGD_DATA_DIR": str(folder / "data")}
    return {**os.environ, **home}


def add_anna(command: list[Any], folder: pathlib.Path) -> None:
    """Have a program whose home is a folder create her account."""
    words = [*command, "user", "add", "anna", "--password-stdin"]
    run(*words, input="correct horse", env=at_home(folder))


@contextlib.contextmanager
def started(
    command: list[Any], folder: pathlib.Path, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program with `folder` as its home; yield it and its address."""
    with printing(command, folder, **environment) as (process, printed):
        [address] = re.findall(r"^    (http://127\.0\.0\.1:\d+/)$", printed, re.M)
        yield process, address


@contextlib.contextmanager
def printing(
    command: list[Any], folder: pathlib.Path, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program that serves; yield it and what it prints at its start."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**at_home(folder), **environment},
        cwd=TOP,
        text=True,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            printed = ""
            while not printed.endswith("Stop with Ctrl-C.\n"):
                assert (line := process.stdout.readline()), printed
                printed += line
            yield process, printed
        finally:
            process.terminate()


def shows_demo(command: list[Any], folder: pathlib.Path, *options: Any) -> bool:
    """Return whether a program serves the demo, with all of its titles, to whoever
    opens its first link, and leaves nothing."""
    words = [*command, "serve", "--demo", *(options or LOOPBACK)]
    temporary = folder / "temporary"
    temporary.mkdir()
    with printing(words, folder, TMPDIR=str(temporary)) as (_, printed):
        [link, _] = re.findall("http:.*/demo/.*", printed)
        page = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page.open(link, timeout=30).close()
        address = link.partition("demo/")[0]
        with page.open(f"{address}web/entries", timeout=30) as answer:
            rows = json.loads(answer.read())["entries"]
        assert "Demo" in (get(f"{address}style.css") or b"").decode()
    return len(rows) > 27 and not [*temporary.glob("catalogd-*")]  # uv leaves a lock


@pytest.fixture
def games(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "My Games"
    folder.mkdir()
    (folder / "Celeste.nsp").write_text("bytes")
    return folder


def languages(address: str) -> list[str]:
    """Return the languages that a service has the page in, beside English."""
    return [*json.loads(get(f"{address}web/me") or b"{}")["languages"]]


def answers(address: str) -> bool:
    """Tell whether a service works, and has the client program for devices and the
    translations."""
    client = get(f"{address}send_to_switch.py") or b""
    assert client == (TOP / "send_to_switch.py").read_bytes()
    assert languages(address) == LANGUAGES
    return bool(json.loads(get(f"{address}healthz") or b"{}")["success"])
