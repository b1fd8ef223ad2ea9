"""A library on JuiceFS: with the real mount, also when it is lost and when it hangs."""

import contextlib
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from conftest import Service, call, entries, need, run, skip, wait_for

CONTENT = os.urandom(3_000_000)
LARGE_BYTES = 256 * 1024 * 1024


class Mount:
    """A file system of JuiceFS, whose objects are in a local folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.path = folder / "mount"
        self.path.mkdir()
        self.meta = f"sqlite3://{folder}/meta.db"
        store = ["--storage", "file", "--bucket", f"{folder}/objects/"]
        run("juicefs", "format", *store, self.meta, "games")

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        options = ["--no-usage-report", "--cache-dir", self.folder / "cache"]
        options += ["--log", self.folder / "mount.log"]
        command = ["juicefs", "mount", *options, self.meta, self.path]
        with open(self.folder / "mount.out", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for(lambda: os.path.ismount(self.path))
            yield
        finally:
            self.signal(signal.SIGCONT)  # or what calls it could not be killed
            subprocess.run(["umount", "--lazy", self.path], capture_output=True)
            self.signal(signal.SIGKILL)
            self.process.wait(60)

    def hang(self) -> None:
        """Stop all threads of the mount."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: self.states() == {"T"})

    def states(self) -> set[str]:
        found = set()
        for path in pathlib.Path("/proc").glob("[0-9]*/task/*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                state, _, group, *_ = path.read_text().rpartition(") ")[2].split()
                found |= {state} if int(group) == self.process.pid else set()
        return found

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@pytest.fixture
def mount(tmp_path: pathlib.Path) -> Mount:
    need("juicefs", root=True)
    if not os.path.exists("/dev/fuse"):
        skip("needs FUSE")
    return Mount(tmp_path)


def service_over(*folders: pathlib.Path, scan_interval: int = 1) -> Service:
    service = Service(folders[0].parent.parent)
    rows = "\n    ".join(["folders =", *map(str, folders)])
    seconds = f"scan_interval = {scan_interval}\nsettle = 0\n"
    service.write_settings(f"[library]\n{rows}\n{seconds}")
    return service


def test_ids_outlive_a_rename_and_the_loss_of_the_mount(mount: Mount) -> None:
    library = mount.path / "library"
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(contextlib.ExitStack())
        before.enter_context(mount.mounted())
        library.mkdir()
        (library / "a.nsp").write_bytes(CONTENT)
        service = stack.enter_context(service_over(library))
        key = service.add_account("correct horse")
        wait_for(lambda: "a.nsp" in entries(service.url, key))
        entry = entries(service.url, key)["a.nsp"]
        path = f"{service.url}/api/download/{entry}"
        assert call(path, key).body == CONTENT
        part = call(path, key, Range="bytes=1000000-1999999")
        assert (part.status, part.body) == (206, CONTENT[1_000_000:2_000_000])

        (library / "a.nsp").rename(library / "b.nsp")
        wait_for(lambda: entries(service.url, key) == {"b.nsp": entry})

        mount.signal(signal.SIGKILL)
        wait_for(lambda: entries(service.url, key) == {})
        assert call(path, key).status == 404
        assert "is offline" in service.log()
        before.close()
        with mount.mounted():
            wait_for(lambda: entries(service.url, key) == {"b.nsp": entry})
            assert call(path, key).body == CONTENT
            service.stop()  # before its files are unmounted


@contextlib.contextmanager
def hanging(mount: Mount, begin: bool) -> Iterator[tuple[Service, str]]:
    """A service over a local folder and over a mount that hangs, with five downloads
    that wait for the mount, and an API key.

    :param begin: whether one more download has begun before.
    """
    library, local = mount.path / "library", mount.folder / "local"
    local.mkdir()
    (local / "local.nsp").write_bytes(CONTENT)
    with mount.mounted(), contextlib.ExitStack() as opened:
        library.mkdir()
        (library / "far.nsp").touch()
        os.truncate(library / "far.nsp", LARGE_BYTES)
        os.utime(library / "far.nsp", (1_700_000_000, 1_700_000_000))  # no copy's pause
        service = service_over(library, local, scan_interval=3)
        with service:
            key = service.add_account("correct horse")
        (local / "new.nsp").write_bytes(CONTENT)
        opened.enter_context(service)
        opened.callback(mount.signal, signal.SIGCONT)
        wait_for(lambda: len(entries(service.url, key)) == 3)  # the scan has ended
        path = f"/api/download/{entries(service.url, key)['far.nsp']}"

        def ask() -> http.client.HTTPConnection:
            call = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
            opened.callback(call.close)
            call.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            return call

        if begin:
            assert ask().getresponse().read(1000) == bytes(1000)
        # Between two scans: Linux does not end a process that waits for the answer to
        # a call that the mount has read.
        mount.hang()
        for _ in range(5):
            ask()
        yield service, key


def assert_answers(service: Service, key: str) -> None:
    """Fail where a call waits that needs nothing of the mount, which goes on later."""
    local = f"/api/download/{entries(service.url, key)['local.nsp']}"
    for path in ("/healthz", "/api/list", "/api/send-queue", local):
        assert call(f"{service.url}{path}", key).status == 200


def is_refused(service: Service) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", service.port)) != 0


def test_a_mount_that_hangs_holds_up_its_own_downloads_alone(mount: Mount) -> None:
    with hanging(mount, begin=False) as (service, key):
        for _ in range(8):
            assert_answers(service, key)
            time.sleep(0.5)  # the scanner is held up meanwhile
        service.process.terminate()
        service.process.wait(60)


def test_the_next_service_starts_while_a_download_holds_up_the_last(
    mount: Mount,
) -> None:
    """Linux does not end a process that has a file of such a mount open."""
    with hanging(mount, begin=True) as (service, key):
        assert_answers(service, key)
        stuck = service.process
        stuck.terminate()
        wait_for(lambda: is_refused(service))
        wait_for(lambda: "Stopped while" in service.log())
        with service:
            assert stuck.poll() is None
            assert_answers(service, key)
            mount.signal(signal.SIGCONT)
            stuck.wait(60)
