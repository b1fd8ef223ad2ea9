"""Files that change under a transfer, and clients that misbehave."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import hashlib
import http.client
import itertools
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
from conftest import Games, skip, wait_for

LARGE = 24 * 1024 * 1024  # bytes: more than sockets take while nobody reads


@pytest.fixture
def settings(
    settings: catalogd.Settings, request: pytest.FixtureRequest
) -> catalogd.Settings:
    return dataclasses.replace(settings, **getattr(request, "param", {}))


@pytest.fixture
def large() -> bytes:
    return os.urandom(1024 * 1024) * (LARGE // 1024 // 1024)


@pytest.fixture
def path(games: Games, large: bytes) -> str:
    """The address of a file, whose content is large."""
    return games.add("a.nsp", large)


@pytest.fixture(autouse=True)
def nothing_is_left(games: Games, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After a test: no file or connection of it is open, no download runs, and no
    traceback was logged."""
    before = open_sockets()
    yield
    games.connection.close()
    folder = str(games.library.folder)
    wait_for(lambda: not [link for link in descriptors() if link.startswith(folder)])
    wait_for(lambda: open_sockets() <= before)
    wait_for(lambda: not downloads())
    assert not [record for record in caplog.records if record.exc_info]
    assert "Traceback" not in caplog.text


def descriptors() -> list[str]:
    """What this process has open."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return links


def open_sockets() -> int:
    return len([link for link in descriptors() if link.startswith("socket:")])


def downloads() -> list[threading.Thread]:
    return [
        thread for thread in threading.enumerate() if thread.name == catalogd.OWN_THREAD
    ]


class Download:
    """A download that a test reads as it likes."""

    def __init__(
        self, games: Games, path: str, *headers: str, more: bytes = b""
    ) -> None:
        self.socket = games.connect()
        self.socket.sendall(games.request(path, *headers) + more)
        self.answer = self.socket.makefile("rb")
        self.status = self.answer.readline()
        self.headers = http.client.parse_headers(self.answer)

    def __enter__(self) -> "Download":
        return self

    def __exit__(self, *error: object) -> None:
        self.answer.close()
        self.socket.close()

    def read(self, count: int) -> bytes:
        return self.answer.read(count)

    def rest(self) -> bytes:
        """What comes until the connection ends, in whatever way."""
        parts = []
        with contextlib.suppress(ConnectionResetError):
            while part := self.answer.read1(1024 * 1024):
                parts.append(part)
        return b"".join(parts)

    def digest(self) -> tuple[int, str]:
        """Return the length and the SHA-256 of what comes until the connection ends."""
        count, found = 0, hashlib.sha256()
        while part := self.answer.read1(1024 * 1024):
            count += len(part)
            found.update(part)
        return count, found.hexdigest()

    def reset(self) -> None:
        self.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.answer.close()
        self.socket.close()


def assert_all_get(downloads: list[Download], content: bytes) -> None:
    """Read downloads at the same time: none is idle while another one is read."""
    with concurrent.futures.ThreadPoolExecutor(len(downloads)) as pool:
        found = list(pool.map(Download.digest, downloads))
    whole = len(content), hashlib.sha256(content).hexdigest()
    assert found == [whole] * len(downloads)


def stalled(games: Games, path: str, *headers: str, more: bytes = b"") -> Download:
    """A download of which only the headers are read, and of which the server has sent
    as much as the system takes."""
    download = Download(games, path, *headers, more=more)
    time.sleep(0.1)
    return download


def assert_no_spin() -> None:
    """In half a second no thread goes on but to see that nothing has come."""
    rounds: list[object] = []

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: rounds.append(call) or call(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogd.Server, "readable", counted(catalogd.Server.readable))
        patch.setattr(os, "sendfile", counted(os.sendfile))
        time.sleep(0.5)
    assert len(rounds) < 20


def assert_polls_are_answered(games: Games, count: int = 20) -> None:
    """And calls that are for the workers. Some tests let the server close connections
    that are idle for a second, which this one may be between two calls."""
    for _ in range(count):
        for path in ("/api/send-queue", "/healthz"):
            games.connection.close()
            assert games.ask(path).status == 200


# The file


@pytest.mark.parametrize("size", [LARGE // 2, 0])
def test_a_file_that_shrinks_cuts_the_download_off(
    games: Games, large: bytes, caplog: pytest.LogCaptureFixture, size: int, path: str
) -> None:
    with stalled(games, path) as download:
        os.truncate(games.library.folder / "a.nsp", size)
        body = download.rest()
    assert body == large[: len(body)]
    assert size <= len(body) < LARGE
    assert f"the file ends at byte {len(body)}" in caplog.text
    assert_no_spin()
    assert_polls_are_answered(games)


def test_a_file_that_grows_comes_as_it_was(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    with stalled(games, path, "Connection: close") as download:
        with open(games.library.folder / "a.nsp", "ab") as file:
            file.write(b"more")
        assert download.rest() == large


def test_a_file_that_is_replaced_comes_as_it_was(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    with stalled(games, path, "Connection: close") as download:
        games.library.add("b.part", b"other")
        (games.library.folder / "b.part").replace(games.library.folder / "a.nsp")
        assert download.rest() == large
    assert games.ask(path).body == b"other"


def test_a_file_that_is_deleted_comes_whole(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    with stalled(games, path, "Connection: close") as download:
        (games.library.folder / "a.nsp").unlink()
        assert download.rest() == large
    assert games.ask(path).status == 404


def test_a_file_that_becomes_unreadable_comes_whole(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    with stalled(games, path, "Connection: close") as download:
        (games.library.folder / "a.nsp").chmod(0)
        assert download.rest() == large


def test_a_disk_that_fails_cuts_the_download_off(
    games: Games,
    large: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sendfile = os.sendfile

    def fail(out: int, source: int, offset: int, count: int) -> int:
        if offset > LARGE // 2:
            raise OSError(errno.EIO, "Input/output error")
        return sendfile(out, source, offset, count)

    fail_too = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    monkeypatch.setattr(os, "sendfile", fail)
    monkeypatch.setattr(catalogd.Content, "read", fail_too, raising=False)
    path = games.add("a.nsp", large)
    with Download(games, path) as download:
        body = download.rest()
    assert body == large[: len(body)]
    assert LARGE // 2 < len(body) < LARGE
    assert "A download was cut off: Input/output error." in caplog.text


class Disk:
    """Holds up what is sent of one file, as a disk does that has to spin up."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.turns = threading.Event()
        self.waiting = 0
        self.sendfile = os.sendfile
        monkeypatch.setattr(os, "sendfile", self.send)

    def send(self, out: int, source: int, offset: int, count: int) -> int:
        if os.readlink(f"/proc/self/fd/{source}").endswith(self.name):
            self.waiting += 1
            self.turns.wait(30)
        return self.sendfile(out, source, offset, count)


def test_a_disk_that_takes_its_time_holds_up_nothing_else(
    games: Games, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = games.add("slow.nsp", large), games.add("fast.nsp", large)
    disk = Disk("slow.nsp", monkeypatch)
    with contextlib.ExitStack() as stack:
        waiting = [
            stack.enter_context(Download(games, slow, "Connection: close"))
            for _ in range(12)
        ]
        wait_for(lambda: disk.waiting == 12)
        assert_polls_are_answered(games)
        assert games.ask(fast).body == large
        disk.turns.set()
        assert_all_get(waiting, large)


@pytest.mark.parametrize("settings", [{"timeout": 3}], indirect=True)
def test_downloads_that_wait_for_a_disk_are_not_idle(
    games: Games, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(100_000)  # the system takes that, however late it is read
    path = games.add("slow.nsp", content)
    disk = Disk("slow.nsp", monkeypatch)
    with contextlib.ExitStack() as stack:
        downloads = []
        for number in range(20):
            wait_for(lambda number=number: disk.waiting == number)
            download = Download(games, path, "Connection: close")
            downloads.append(stack.enter_context(download))
        time.sleep(4)  # more than a client may be idle
        disk.turns.set()
        assert_all_get(downloads, content)


def test_files_on_a_disk_that_sleeps_hold_up_nothing_else(
    games: Games, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a file is to wait for the disk too."""
    path = games.add("slow.nsp", large)
    open_file, awake = catalogd.open_file, threading.Event()
    waiting = []

    def open_slowly(path: str, *how: Any) -> Any:
        waiting.append(path)
        awake.wait(30)
        return open_file(path, *how)

    monkeypatch.setattr(catalogd, "open_file", open_slowly)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(games.connect()) for _ in range(12)]
        for client in clients:
            client.sendall(games.request(path, "Connection: close"))
        wait_for(lambda: len(waiting) == 12)
        assert_polls_are_answered(games)
        awake.set()
        for client in clients:
            with client.makefile("rb") as answer:
                assert answer.read().endswith(large)


def test_closing_waits_for_no_disk(
    games: Games, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = games.add("slow.nsp", large)
    disk = Disk("slow.nsp", monkeypatch)
    with Download(games, path) as download:
        wait_for(lambda: disk.waiting)
        download.reset()
        assert_polls_are_answered(games)
        disk.turns.set()


# The client


@pytest.mark.parametrize("settings", [{"timeout": 1}], indirect=True)
def test_a_client_that_stops_reading_is_let_go(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    before = open_sockets()
    with stalled(games, path) as download:
        assert_no_spin()
        wait_for(lambda: open_sockets() == before + 1)  # the client's own end
        body = download.rest()
    assert body == large[: len(body)]
    assert len(body) < LARGE


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Python waits")


@on_linux
@pytest.mark.parametrize("settings", [{"timeout": 2}], indirect=True)
def test_the_kernel_waits_as_long_as_a_client_may_take_nothing(
    games: Games,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
) -> None:
    """It is the time since the last byte, however many calls wait meanwhile."""
    sendfile, taken = os.sendfile, []

    def noted(*given: int) -> int:
        taken.append(0)
        taken[-1] = sendfile(*given)
        return taken[-1]

    monkeypatch.setattr(os, "sendfile", noted)
    with stalled(games, path):
        wait_for(lambda: not downloads())
    waits = [*itertools.takewhile(lambda sent: not sent, reversed(taken))]
    assert 1 <= len(waits) <= 9  # each an eighth of the time
    assert "cut off" not in caplog.text


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"timeout": 2}], indirect=True)
def test_a_client_that_reads_10_kb_a_second_is_kept(
    games: Games, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def connect() -> socket.socket:
        client = socket.socket()
        client.settimeout(30)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((games.host, games.port))
        return client

    monkeypatch.setattr(games, "connect", connect)
    with stalled(games, path) as download:
        for _ in range(60):
            assert len(download.read(1000)) == 1000
            time.sleep(0.1)
        assert len(downloads()) == 1


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> list[catalogd.Channel]:
    """The connections over which something was sent."""
    noted, write_soon = [], catalogd.Channel.write_soon

    def write(channel: catalogd.Channel, data: Any) -> int:
        noted.append(channel)
        return write_soon(channel, data)

    monkeypatch.setattr(catalogd.Channel, "write_soon", write)
    return noted


@on_linux
def test_a_thread_that_the_kernel_holds_ends_when_it_is_hung_up(
    games: Games, large: bytes, channels: list[catalogd.Channel]
) -> None:
    with stalled(games, games.add("a.nsp", large)):
        wait_for(lambda: os.get_blocking(channels[-1].socket.fileno()))
        (thread,) = downloads()
        channels[-1].hang_up()
        thread.join(10)  # the time that a client has is 120 seconds
        assert not thread.is_alive()


def test_a_connection_does_not_block_after_a_file(
    games: Games, channels: list[catalogd.Channel]
) -> None:
    """The main loop would wait for it, and for no other one."""
    path = games.add("a.nsp", b"content")
    for _ in range(2):
        assert games.ask(path).body == b"content"
        wait_for(lambda: not downloads())
        assert not os.get_blocking(channels[-1].socket.fileno())


@pytest.fixture
def long_list(store: catalogd.Store) -> None:
    """More than the system takes of an answer that nobody reads."""
    said = {"name": "n", "description": "d" * 600_000, "version": ""}
    for number in range(40):
        store.entries.add_link(f"https://example.org/{number}", 1, "nsp", said, "anna")


def test_a_request_behind_a_list_is_answered_once_that_was_read(
    games: Games, long_list: None
) -> None:
    more = games.request("/healthz", "Connection: close")
    with stalled(games, "/api/list", more=more) as client:
        assert len(client.read(int(client.headers["Content-Length"]))) > 24_000_000
        assert client.rest().startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("settings", [{"timeout": 1}], indirect=True)
def test_a_client_that_does_not_read_its_list_is_let_go(
    games: Games, long_list: None
) -> None:
    before = open_sockets()
    with stalled(games, "/api/list", more=games.request("/api/list")):
        assert_no_spin()
        wait_for(lambda: open_sockets() == before + 1)


@pytest.mark.parametrize("settings", [{"timeout": 2}], indirect=True)
def test_a_client_that_reads_slowly_is_kept(games: Games, large: bytes) -> None:
    """Each pause is a tenth of the timeout, all are longer than it."""
    path = games.add("a.nsp", large)
    with stalled(games, path, "Connection: close") as download:
        parts = []
        for _ in range(12):
            parts.append(download.read(LARGE // 24))
            time.sleep(0.2)
        assert b"".join([*parts, download.rest()]) == large


@pytest.mark.parametrize("end", [Download.reset, Download.__exit__])
def test_a_client_that_goes_in_mid_body_is_forgotten(
    games: Games, end: Callable[..., None], path: str
) -> None:
    before = open_sockets()
    for _ in range(5):
        end(stalled(games, path))
    wait_for(lambda: open_sockets() == before)
    assert_no_spin()
    assert_polls_are_answered(games)


def test_a_client_that_only_says_it_will_send_no_more_gets_its_file(
    games: Games, large: bytes, path: str
) -> None:
    with stalled(games, path, "Connection: close") as download:
        download.socket.shutdown(socket.SHUT_WR)
        assert download.rest() == large


def test_garbage_in_mid_body_is_answered_after_it(games: Games, large: bytes) -> None:
    path = games.add("a.nsp", large)
    with stalled(games, path) as download:
        download.socket.sendall(b"\x00\xffgarbage\r\n\r\n")
        assert_no_spin()
        assert download.read(LARGE) == large
        assert download.rest().startswith(b"HTTP/1.0 4")


def test_a_request_behind_a_large_file_holds_no_worker(
    games: Games, settings: catalogd.Settings, large: bytes, path: str
) -> None:
    behind = games.request("/healthz") + games.request(path, "Connection: close")
    with contextlib.ExitStack() as stack:
        downloads = [
            stack.enter_context(stalled(games, path, more=behind))
            for _ in range(settings.threads + 2)
        ]
        assert_polls_are_answered(games)
        assert_no_spin()
        for download in downloads:
            assert download.read(LARGE) == large
            assert download.answer.readline() == b"HTTP/1.1 200 OK\r\n"
            assert b'{"success": true' in download.rest()[:1000]


def queue_long_item(store: catalogd.Store) -> None:
    """Make a poll's answer so long that a few of them fill the way to a client."""
    facts = {"name": "A", "description": "", "version": ""}
    url = f"https://example.org/{'x' * 500_000}"
    entry = store.entries.add_link(url, 1, "nsp", facts, "anna")
    store.queue.send(store.accounts.id_of("anna"), entry)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"timeout": 1}], indirect=True)
def test_a_client_that_polls_and_does_not_read_holds_up_nobody(
    games: Games, store: catalogd.Store
) -> None:
    queue_long_item(store)
    before = open_sockets()
    with games.connect() as client:
        client.settimeout(0.5)
        with contextlib.suppress(OSError):  # the server reads no more of them
            while client.send(games.request("/api/send-queue") * 1000):
                continue
        assert_polls_are_answered(games)
        games.connection.close()
        wait_for(lambda: open_sockets() == before + 1)
        assert_no_spin()


@pytest.mark.parametrize("settings", [{"timeout": 1}], indirect=True)
def test_a_client_that_pipelines_and_stops_reading_is_let_go(
    games: Games, path: str
) -> None:
    before = open_sockets()
    with stalled(games, path, more=games.request(path) * 3):
        wait_for(lambda: open_sockets() == before + 1)


def test_a_body_that_is_expected_behind_a_file_is_asked_for_after_it(
    games: Games, large: bytes, path: str
) -> None:
    """100 Continue may not come in the middle of the file."""
    post = games.request("/api/send-to-switch", "Content-Type: application/json")
    post = post.replace(b"GET", b"POST").removesuffix(b"\r\n")
    post += b"Content-Length: 2\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"
    with stalled(games, path, more=post) as download:
        assert download.read(LARGE) == large
        assert download.answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert download.answer.readline() == b"\r\n"
        download.socket.sendall(b"{}")
        assert download.rest().startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_headers_that_the_client_did_not_take_come_first(
    games: Games, large: bytes, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    send, calls = catalogd.Channel.send, iter(range(10**6))

    def fail_at_first(channel: Any, data: bytes, do_close: bool = True) -> int:
        """As where the way to the client is full."""
        return send(channel, data, do_close) if next(calls) else 0

    monkeypatch.setattr(catalogd.Channel, "send", fail_at_first)
    assert hashlib.md5(games.ask(path).body).digest() == hashlib.md5(large).digest()


def test_many_downloads_that_stand_still_hold_up_nobody(
    games: Games, path: str
) -> None:
    if catalogd.connection_limit(225) < 225:  # two ends and a file each
        skip("needs a higher limit of open files ('ulimit -Hn')")
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(Download(games, path))
        assert_polls_are_answered(games)
        assert_no_spin()
