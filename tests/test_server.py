"""The server over real sockets: heads, deadlines, limits, stops, fuzz, and other
processes that hold the database."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import http.client
import io
import json
import logging
import os
import pathlib
import random
import re
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import waitress
import waitress.adjustments

import catalogd
from conftest import Games, Library, cost, short_and_long, skip, wait_for

ADJUSTMENTS = waitress.adjustments.Adjustments(
    max_request_header_size=catalogd.MAX_HEAD_BYTES,
    clear_untrusted_proxy_headers=True,
)


@pytest.fixture
def settings(
    settings: catalogd.Settings, request: pytest.FixtureRequest
) -> catalogd.Settings:
    return dataclasses.replace(settings, **getattr(request, "param", {}))


def parse(data: bytes) -> int:
    """Return the status that waitress's parser has for a request, 200 if it is whole,
    and 0 if it is not complete."""
    parser = catalogd.RequestParser(ADJUSTMENTS)
    while data and not parser.completed:
        data = data[parser.received(data) :]
    return parser.error.code if parser.error else 200 if parser.completed else 0


# Heads

SLOW_HEADS = {
    "digits of a port": b"GET a://%b x HTTP/1.1\r\nHost: x\r\n\r\n" % (b"1" * 32_000),
    "spaces before a value": b"GET / HTTP/1.1\r\nHost: x\r\nA:%bx\r\n\r\n"
    % (b" " * 32_000),
    "spaces and a control": b"GET / HTTP/1.1\r\nHost: x\r\nA:%b\x01\r\n\r\n"
    % (b" " * 32_000),
    "folded lines": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n%b\r\n"
    % (b" c\r\n" * 7_500),
    "pairs of spaces": b"GET / HTTP/1.1\r\nHost: x\r\nA: %b\r\n\r\n"
    % (b"a  " * 10_000),
}


def mutations(head: bytes, count: int) -> Iterator[bytes]:
    """Yield heads in which some bytes or a span of the given one were changed."""
    chance = random.Random(len(head))
    for _ in range(count):
        changed = bytearray(head)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(changed))
            changed[at : at + chance.choice([0, 1, 1, 100])] = chance.choice(
                [b" ", b"\t", b":", b"/", b"\r\n", b"1", b"x", b"\x00", b"\xff", b"//"]
            )
        yield bytes(changed[:32_700]) + b"\r\n\r\n"


@pytest.mark.parametrize("head", SLOW_HEADS.values(), ids=SLOW_HEADS)
def test_no_head_costs_much_more_than_one_of_many_short_lines(head: bytes) -> None:
    """waitress's own parser takes some thousand times as long for most of them."""
    lines = b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n" % (b"A: b\r\n" * 5_300)
    usual = cost(functools.partial(parse, lines))
    for request in (head, *mutations(head, 100)):
        call = functools.partial(parse, request)
        # Another program may slow some of the attempts down.
        assert any(cost(call) < 10 * usual for _ in range(5))


def test_a_slow_head_keeps_nobody_from_an_answer(games: Games) -> None:
    for head in SLOW_HEADS.values():
        with games.connect() as client:
            client.sendall(head)
            assert games.ask("/healthz").status == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x", 200),
        (b"GET / HTTP/1.1\r\nHost:", 200),
        (b"GET / HTTP/1.0", 200),
        (b"GET / HTTP/1.0\r\nA: \t b \t", 200),
        (b"GET http://x/healthz HTTP/1.1\r\nHost: x", 200),
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nhost: y", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA : b", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length", 400),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
            b"Transfer-Encoding: chunked",
            400,
        ),
        (b"GET / HTTP/1.1 \r\nHost: x", 400),
        (b"GET ftp://x/ HTTP/1.1\r\nHost: x", 400),
        (b"GET / HTTP/2.0\r\nHost: x", 400),
        (b"GET / HTTP/1.1\r\nHost: a b", 400),
        (b"GET / HTTP/1.1\r\nHost: a/c?", 400),
        (b"GET / HTTP/1.1\r\nHost: [::1]:6069", 200),
        (b"GET / HTTP/1.1\r\nHost: " + b"x" * 255, 200),
        (b"GET / HTTP/1.1\r\nHost: " + b"x" * 256, 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: " + b"x" * 255, 200),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: " + b"x" * 256, 400),
        (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked", 400),
    ],
)
def test_a_head_is_taken_or_refused_by_the_book(head: bytes, status: int) -> None:
    assert parse(head + b"\r\n\r\n") == status


@pytest.mark.parametrize("value", ["keep-alive", "closet, TE", "TE"])
def test_other_words_keep_the_connection(games: Games, value: str) -> None:
    for _ in range(2):
        assert games.ask("/healthz", Connection=value).status == 200
    assert games.connection.sock is not None


def test_the_refusal_of_a_head_has_no_body_for_head(games: Games) -> None:
    request = b"HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"
    with games.connect() as client:
        client.sendall(request)
        answer = until_closed(client)
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert answer.endswith(b"\r\n\r\n")


def test_a_refusal_names_one_connection_option(games: Games) -> None:
    head = (
        b"POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 999999\r\n\r\n"
    )
    with games.connect() as client:
        client.sendall(head)
        answer = until_closed(client)
    assert answer.startswith(b"HTTP/1.0 413 ")
    assert answer.lower().count(b"\r\nconnection:") == 1


# Deadlines


def until_closed(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "part",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"POST /web/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["head", "line feeds", "body"],
)
def test_a_request_that_takes_too_long_is_answered_408(
    games: Games, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with games.connect() as client:
        for byte in part:
            client.sendall(bytes([byte]))
        monkeypatch.setattr(catalogd, "MAX_HEAD_SECONDS", 1)
        monkeypatch.setattr(catalogd, "MAX_BODY_SECONDS", 1)
        answer = until_closed(client)
    assert answer.startswith(b"HTTP/1.")
    assert b" 408 Request Timeout\r\n" in answer
    assert b'"error": "timeout"' in answer


def test_a_head_may_take_its_time_again_on_a_kept_connection(
    games: Games, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline is of each request, not of the connection."""
    began: list[float] = []
    channels: list[catalogd.Channel] = []
    received = catalogd.Channel.received

    def note(channel: catalogd.Channel, data: bytes) -> bool:
        more = received(channel, data)
        channels[:] = [channel]
        began.append(channel.request_began)
        return more

    monkeypatch.setattr(catalogd.Channel, "received", note)
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with games.connect() as client, client.makefile("rb") as answers:
        for _ in range(3):
            began.clear()
            sent = time.monotonic()
            for part in (head, b"A: b\r\n", b"\r\n"):
                count = len(began)
                client.sendall(part)
                wait_for(lambda count=count: len(began) > count)
            assert len({*began}) == 1 and began[0] > sent
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            length = http.client.parse_headers(answers)["Content-Length"]
            assert json.loads(answers.read(int(length)))["success"]
            wait_for(lambda: channels[0].waiting_since > began[0])


def test_empty_lines_do_not_put_the_deadline_off(
    games: Games, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_HEAD_SECONDS", 1)
    with games.connect() as client:
        client.settimeout(0.2)
        client.sendall(b"\r")
        answer = b""
        for _ in range(300):
            if answer:
                break
            with contextlib.suppress(OSError):
                client.sendall(b"\n\r\n\r")
            with contextlib.suppress(TimeoutError):
                answer = client.recv(1000)
    assert b" 408 Request Timeout\r\n" in answer


@pytest.mark.parametrize("settings", [{"timeout": 1}], indirect=True)
def test_a_connection_without_requests_is_closed(games: Games) -> None:
    with games.connect() as client:
        assert until_closed(client) == b""


def test_who_does_not_read_an_answer_has_the_time_that_a_pause_may_take(
    games: Games, store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"name": "A", "description": "", "version": ""}
    for number in range(20):  # more than the system takes at once
        url = f"https://example.org/{number}/{'x' * 400_000}"
        store.entries.add_link(url, 1, "nsp", facts, "anna")
    channels: list[catalogd.Channel] = []
    make_room = catalogd.Server.make_room

    def note(server: catalogd.Server, newcomer: catalogd.Channel) -> None:
        channels.append(newcomer)
        make_room(server, newcomer)

    monkeypatch.setattr(catalogd.Server, "make_room", note)
    with games.connect() as client:
        client.sendall(games.request("/api/list"))
        wait_for(lambda: channels and channels[0].total_outbufs_len)
        [channel] = channels
        timeout = channel.adj.channel_timeout
        channel.check_deadlines(channel.sent_at + timeout - 1)
        assert not channel.has_hung_up
        channel.check_deadlines(channel.sent_at + timeout + 60)
        assert channel.has_hung_up


# Limits


class Strangers:
    """Makes connections that come from other addresses than this machine's."""

    def __init__(self, games: Games, monkeypatch: pytest.MonkeyPatch) -> None:
        self.games = games
        self.open: list[socket.socket] = []
        monkeypatch.setattr(
            catalogd.Server, "fix_addr", lambda server, addr: self.shown(*addr)
        )
        # Two addresses may have the same port.
        self._channels: dict[tuple[str, int], catalogd.Channel] = {}
        make_room = catalogd.Server.make_room

        def note(server: catalogd.Server, newcomer: catalogd.Channel) -> None:
            self._channels[newcomer.addr] = newcomer
            make_room(server, newcomer)

        monkeypatch.setattr(catalogd.Server, "make_room", note)

    @staticmethod
    def shown(address: str, port: int) -> tuple[str, int]:
        """Return what the server takes for the address of a client."""
        return address.replace("127.0.0.", "192.0.2."), port

    def connect(self, number: int) -> socket.socket:
        """:param number: the last of the address, from 2 to 254."""
        client = socket.create_connection(
            (self.games.host, self.games.port),
            timeout=30,
            source_address=(f"127.0.0.{number}", 0),
        )
        self.open.append(client)
        return client

    def is_noted(self, client: socket.socket) -> bool:
        """Return whether it is answered, and wait until the server counts from that."""
        began = time.monotonic()
        answered = is_alive(client)
        channel = self._channels[self.shown(*client.getsockname())]
        wait_for(lambda: channel.is_waiting() and channel.waiting_since > began)
        return answered


def is_alive(client: socket.socket) -> bool:
    """Return whether a call over a connection is answered. Those that were opened
    before it have been accepted then."""
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    with contextlib.suppress(ConnectionError):
        while not answer.endswith(b"}\n") and (part := client.recv(65536)):
            answer += part
    return answer.startswith(b"HTTP/1.1 200 OK")


@pytest.fixture
def strangers(games: Games, monkeypatch: pytest.MonkeyPatch) -> Iterator[Strangers]:
    """Their ends of the connections are in the process of the server too."""
    if catalogd.connection_limit(2000) < 2000:
        skip("needs a higher limit of open files ('ulimit -Hn')")
    strangers = Strangers(games, monkeypatch)
    yield strangers
    for client in strangers.open:
        client.close()


def ended(clients: list[socket.socket]) -> list[int]:
    """Return the numbers of those that the server has closed."""
    ready = select.select(clients, [], [], 0)[0]
    return [at for at, client in enumerate(clients) if client in ready]


@pytest.mark.parametrize("settings", [{"connections": 16}], indirect=True)
def test_an_address_has_a_quarter_of_the_connections(strangers: Strangers) -> None:
    clients = [strangers.connect(7) for _ in range(4)]
    other = strangers.connect(8)
    assert is_alive(other)
    assert ended(clients) == []
    clients += [strangers.connect(7), strangers.connect(7)]
    wait_for(lambda: ended(clients) == [0, 1])
    assert is_alive(clients[2])
    assert is_alive(other)


@pytest.mark.parametrize("settings", [{"connections": 16}], indirect=True)
def test_this_machine_may_have_all_connections(games: Games) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(games.connect()) for _ in range(16)]
        assert is_alive(clients[-1])
        assert ended(clients) == []


@pytest.mark.parametrize(
    "settings", [{"connections": 16, "trusted_proxy": "192.0.2.7"}], indirect=True
)
def test_a_trusted_proxy_may_have_all_connections(strangers: Strangers) -> None:
    clients = [strangers.connect(7) for _ in range(16)]
    assert is_alive(clients[-1])
    assert ended(clients) == []


@pytest.mark.parametrize("settings", [{"connections": 16}], indirect=True)
def test_at_the_limit_the_connection_goes_that_waits_longest(
    strangers: Strangers,
) -> None:
    clients = [strangers.connect(number) for number in range(2, 18)]
    assert all(map(strangers.is_noted, [*clients, clients[0]]))
    clients.append(strangers.connect(18))
    wait_for(lambda: ended(clients) == [1])
    assert is_alive(clients[0])
    assert is_alive(clients[-1])


def trickle(clients: list[socket.socket], over: threading.Event) -> None:
    """Send a byte on each connection, again and again."""
    while not over.wait(0.05):
        for client in clients[:: max(len(clients) // 100, 1)]:
            with contextlib.suppress(OSError):  # it was ended
                client.send(b"x")


@short_and_long(rounds=(20, 500))
@pytest.mark.parametrize("settings", [{"connections": 400}], indirect=True)
def test_connections_that_trickle_lock_nobody_out(
    strangers: Strangers, games: Games, rounds: int
) -> None:
    """1,200 of an address, more than there may be of all. Others are answered while
    they trickle."""
    over = threading.Event()
    clients = [strangers.connect(7) for _ in range(1200)]
    thread = threading.Thread(target=trickle, args=(clients, over))
    thread.start()
    try:
        for _ in range(rounds):
            with strangers.connect(9) as client:
                assert is_alive(client)
            assert catalogd.answers(f"http://{games.host}:{games.port}/", 30)
            time.sleep(0.1)
    finally:
        over.set()
        thread.join()


def resident() -> int:
    """Return the bytes of memory that this process has."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.ci
def test_unfinished_posts_hold_little_memory(
    strangers: Strangers, games: Games
) -> None:
    """A body is refused by its length before it is read, or is kept in a file."""
    head = b"POST /web/login HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    before = resident()
    for number in range(900):
        client = strangers.connect(2 + number // 240)
        size = 520_000 if number % 2 else 240_000
        with contextlib.suppress(ConnectionError):
            client.sendall(head % size + b"x" * 239_000)
    assert games.ask("/healthz").status == 200
    assert resident() - before < 80e6


def test_waitress_has_what_the_server_builds_on() -> None:
    """A smoke test: where a release of waitress changes one of these, this fails."""
    channel = waitress.channel.HTTPChannel
    for name in ("received", "writable", "handle_write", "handle_close", "service"):
        assert callable(getattr(channel, name))
    for name in ("write_soon", "_flush_some", "send"):
        assert callable(getattr(channel, name))
    server = waitress.server.TcpWSGIServer
    for name in ("readable", "fix_addr", "add_task", "pull_trigger"):
        assert callable(getattr(server, name))
    assert callable(waitress.wasyncore.loop)
    assert callable(waitress.wasyncore.close_all)


# Stops


class Service:
    """catalogd in a process of its own, with a key."""

    def __init__(self, home: pathlib.Path, host: str, **popen: Any) -> None:
        where = ["--data-dir", str(home / "own"), "--host", host, "--port", "0"]
        command = [sys.executable, catalogd.__file__, "serve", str(home / "library")]
        self.process = subprocess.Popen(
            [*command, *where],
            stdout=subprocess.PIPE,
            stderr=popen.pop("stderr", subprocess.PIPE),
            text=True,
            env={**os.environ, "CATALOGD_CONFIG": "", **popen.pop("env", {})},
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://.*:(\d+)/", line):
                self.port = int(found[1])
                break

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM. Return the exit code and the log."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        log = self.process.stderr.read() if self.process.stderr else ""
        return self.process.returncode, log


@pytest.fixture
def home(tmp_path: pathlib.Path, library: Library) -> pathlib.Path:
    """A folder with a library and a data folder, which has an account and a key."""
    library.add("a.nsp", os.urandom(1024 * 1024) * 20)
    with contextlib.closing(catalogd.Store(str(tmp_path / "own"))) as store:
        account = store.accounts.add("otto", catalogd.hash_password("correct horse"))
        key = catalogd.new_key()
        store.accounts.add_key(account, "switch", catalogd.hash_token(key))
        settings = catalogd.Settings(folders=(str(library.folder),))
        catalogd.Scanner(store, settings).scan()
        entry = next(iter(store.entries.files())).id
    (tmp_path / "key").write_text(key)
    (tmp_path / "entry").write_text(entry)
    return tmp_path


@pytest.fixture
def start(home: pathlib.Path) -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(host: str = "127.0.0.1", **popen: Any) -> Service:
        started.append(Service(home, host, **popen))
        return started[-1]

    yield start
    for service in started:
        service.process.kill()
        service.process.communicate()


class Client(threading.Thread):
    """Downloads, or polls, until the server ends; `got` is what came of a file."""

    def __init__(self, home: pathlib.Path, port: int, path: str) -> None:
        super().__init__()
        self.path = path
        self.port = port
        self.key = (home / "key").read_text()
        self.got: list[bytearray] = []
        self.over = False
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            while not self.over:
                self.call()

    def call(self) -> None:
        call = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(call):
            call.request(
                "GET", self.path, headers={"Authorization": f"Bearer {self.key}"}
            )
            answer = call.getresponse()
            if not self.path.startswith("/api/download/"):
                answer.read()
                return
            self.got.append(bytearray())
            while part := answer.read1(256 * 1024):
                self.got[-1] += part


@pytest.mark.ci
@pytest.mark.slow
@short_and_long(stops=(2, 150), clients=(6, 32))
@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_a_stop_damages_no_download(
    start: Callable[..., Service],
    home: pathlib.Path,
    library: Library,
    host: str,
    stops: int,
    clients: int,
) -> None:
    """:param clients: those that download and poll when SIGTERM comes."""
    content = (library.folder / "a.nsp").read_bytes()
    path = f"/api/download/{(home / 'entry').read_text()}"
    chance = random.Random(stops)
    for _ in range(stops):
        service = start(host)
        downloads = [Client(home, service.port, path) for _ in range(clients)]
        polls = [
            Client(home, service.port, "/api/send-queue") for _ in range(clients // 4)
        ]
        time.sleep(chance.uniform(0.05, 0.6))
        code, log = service.stop()
        for client in (*downloads, *polls):
            client.over = True
            client.join()
        assert (code, "Traceback" in log) == (0, False), log
        for client in downloads:
            assert all(content[: len(got)] == got for got in client.got)


@contextlib.contextmanager
def download(
    service: Service, home: pathlib.Path, **headers: str
) -> Iterator[http.client.HTTPResponse]:
    headers["Authorization"] = f"Bearer {(home / 'key').read_text()}"
    call = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    path = f"/api/download/{(home / 'entry').read_text()}"
    call.request("GET", path, headers=headers)
    with contextlib.closing(call), call.getresponse() as answer:
        yield answer


def test_a_server_that_is_told_to_stop_does_so_and_clients_resume(
    start: Callable[..., Service], home: pathlib.Path, library: Library
) -> None:
    content = (library.folder / "a.nsp").read_bytes()
    service = start()
    with download(service, home) as answer:
        etag = answer.headers["ETag"]
        body = answer.read(1_000_000)
        code, log = service.stop()  # which does not wait for the client
        with contextlib.suppress(ConnectionResetError, http.client.IncompleteRead):
            while part := answer.read1(1024 * 1024):
                body += part
    assert (code, "Traceback" in log) == (0, False), log
    assert len(body) < len(content)
    again = {"Range": f"bytes={len(body)}-", "If-Range": etag}
    with download(start(), home, **again) as answer:
        assert answer.status == 206
        assert body + answer.read() == content


# Requests by the thousand


def requests(home: pathlib.Path) -> list[bytes]:
    """Return requests of each kind that leave the connection open."""
    download = f"/api/download/{(home / 'entry').read_text()}"
    lines: list[tuple[str, ...]] = [
        ("GET /healthz",),
        ("GET /",),
        ("GET /api/list",),
        ("GET /api/list?name=caf%C3%A9", "Accept-Encoding: gzip"),
        ("GET /api/send-queue", "If-None-Match: *"),
        ("GET /nowhere/%41",),
        ("GET /dir/wrong/",),
        ("OPTIONS /api/list",),
        (f"HEAD {download}",),
        (f"GET {download}", "If-None-Match: *"),
        (f"GET {download}", "Range: bytes=7-7"),
        (f"GET {download}", "Range: bytes=-100000"),
        (f"GET {download}", "Range: bytes=99999999-"),
        (f"GET {download}", 'If-Match: "other"'),
    ]
    found = ["\r\n".join([f"{first} HTTP/1.1", *rest, ""]) for first, *rest in lines]
    post = (
        "POST /api/send-queue/progress HTTP/1.1\r\nContent-Type: application/json\r\n"
    )
    found += [f"{post}Content-Length: 2\r\n", f"{post}Transfer-Encoding: chunked\r\n"]
    bodies = [b""] * len(lines) + [b"{}", b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"]
    common = f"Host: x\r\nAuthorization: Bearer {(home / 'key').read_text()}\r\n\r\n"
    heads = [f"{head}{common}".encode() for head in found]
    return [head + body for head, body in zip(heads, bodies, strict=True)]


def exchange(port: int, *parts: bytes) -> bytes:
    """Send the parts, and nothing more. Return what is answered, at most a mebibyte."""
    found = b""
    source = (f"127.0.0.{random.randrange(2, 255)}", 0)  # each address has its ports
    with (
        socket.create_connection(("127.0.0.1", port), 30, source) as client,
        contextlib.suppress(ConnectionError),
    ):
        for part in parts:
            client.sendall(part)
        client.shutdown(socket.SHUT_WR)
        while len(found) < 2**20 and (part := client.recv(65536)):
            found += part
    return found


FRAGMENTS = [  # that are put into requests to mangle them
    *(b"\r\n", b"\n", b"\r", b"\0", b"\xff", b" ", b"\t", b":", b",", b";", b'"', b"{"),
    *(b"/", b"//", b"/../", b"?", b"#", b"%", b"%00", b"%0d%0a", b"0", b"-1"),
    *(b"HTTP/1.0", b"HTTP/9.9", b"bytes=0-0,-1", b"bytes=-", b"9" * 30, b"x" * 5000),
    *(b"\r\nHost: y", b"\r\nContent-Length: 5", b"\r\nTransfer-Encoding: chunked"),
    *(b"\r\nConnection: close", b"\r\nExpect: 100-continue", b"\r\n folded", b""),
    b"[" * 500,
]


def mangled(chance: random.Random, seeds: list[bytes]) -> bytes:
    """Return one of the requests, or two of them, with some of its bytes changed."""
    data = bytearray(b"".join(chance.choices(seeds, k=chance.choice((1, 1, 2)))))
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        copied = bytes(data[at : at + 40])
        fragment = chance.choice([*FRAGMENTS, chance.randbytes(2), copied])
        data[at : at + chance.choice((0, 0, 1, 1, 4, 40))] = fragment
    return bytes(data)


def memory(process: "subprocess.Popen[str]") -> int:
    """Return the bytes of memory that a process has."""
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@short_and_long(connections=(750, 100_000))
def test_no_bytes_at_all_upset_the_service(
    start: Callable[..., Service], home: pathlib.Path, connections: int
) -> None:
    """Each connection is answered or closed, without an error of the server's own."""
    key = (home / "key").read_bytes()
    seeds = requests(home)
    with open(home / "log", "w") as log:
        service = start(stderr=log)
    assert all(exchange(service.port, seed) for seed in seeds)
    before = memory(service.process)

    def send(number: int) -> int:
        data = mangled(random.Random(number), seeds)
        try:
            answer = exchange(service.port, data)
        except TimeoutError:
            pytest.fail(f"neither answered nor closed: {data!r}")
        assert re.match(rb"HTTP/1\.[01] (?!500)|$", answer), (data, answer[:1000])
        assert key not in answer, data
        return bool(answer)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answered = sum(pool.map(send, range(connections)))
    assert answered > connections / 2
    assert catalogd.answers(f"http://127.0.0.1:{service.port}/", 30)
    assert memory(service.process) - before < 50e6
    assert service.stop()[0] == 0
    lines = (home / "log").read_text()
    assert "Traceback" not in lines
    assert " ERROR " not in lines
    assert key.decode() not in lines


@short_and_long(connections=(40, 1000))
def test_pipelined_requests_are_answered_as_single_ones(
    start: Callable[..., Service], home: pathlib.Path, connections: int
) -> None:
    """50 answers a connection, compared byte by byte. After a guess it would end."""
    port = start().port
    seeds = [seed for seed in requests(home) if b"/dir/wrong" not in seed]

    def undated(answers: bytes) -> bytes:
        return re.sub(rb"\r\nDate: [^\r]+", b"", answers)

    alone = {seed: undated(exchange(port, seed)) for seed in seeds}
    assert all(alone.values())

    def send(number: int) -> None:
        chance = random.Random(number)
        chosen = chance.choices(seeds, k=50)
        data = b"".join(chosen)
        cuts = sorted(chance.choices(range(len(data)), k=chance.randrange(20)))
        spans = zip([0, *cuts], [*cuts, len(data)], strict=True)
        answers = undated(exchange(port, *(data[at:end] for at, end in spans)))
        assert answers == b"".join(alone[request] for request in chosen)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(send, range(connections))) == [None] * connections


def test_a_guess_ends_its_connection(
    start: Callable[..., Service], home: pathlib.Path
) -> None:
    head = b"GET /dir/wrong/ HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = exchange(start().port, head * 20)
    assert answers.count(b"HTTP/1.1 401 ") == 1
    assert b"\r\nConnection: close\r\n" in answers


def test_a_second_stop_touches_nothing_that_was_closed(service: catalogd.Web) -> None:
    server = catalogd.listen(service)
    thread = threading.Thread(target=server.run)
    thread.start()
    server.stop()
    thread.join()
    with open(os.devnull, "wb"):  # it has the number of a descriptor that was closed
        server.stop()


def test_no_download_begins_after_a_stop(service: catalogd.Web) -> None:
    server = catalogd.listen(service)
    server.stop()
    channel: Any = object()  # that nobody may touch
    server._start_thread(channel)
    assert server.run()


def test_nothing_is_sent_on_a_connection_that_is_to_be_closed() -> None:
    """As after an error of the socket, which only the main loop closes."""
    channel: Any = object.__new__(catalogd.Channel)
    channel.will_close = True
    with pytest.raises(waitress.channel.ClientDisconnected):
        channel.write_soon(b"more")


def test_a_connection_that_the_main_loop_has_closed_is_hung_up_as_others(
    service: catalogd.Web,
) -> None:
    """As at a stop, where a thread may end its download a moment later."""
    server = catalogd.listen(service)
    channel: Any = object.__new__(catalogd.Channel)
    channel.socket = None
    ending = threading.Thread()
    ending.start()
    server._own_threads[ending] = channel
    assert not server._end_threads()
    assert channel.has_hung_up
    server._own_threads.clear()
    server.stop()
    assert server.run()


def test_an_error_while_a_connection_is_accepted_does_not_end_the_service(
    games: Games, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail = Mock(side_effect=RuntimeError("on purpose"))
    with monkeypatch.context() as broken:
        broken.setattr(catalogd.Server, "make_room", fail)
        with games.connect():
            wait_for(lambda: "on purpose" in caplog.text)
    assert games.ask("/healthz").status == 200


def test_a_download_for_which_there_is_no_thread_is_refused(
    games: Games, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = games.add("a.nsp", b"0123456789")
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == catalogd.OWN_THREAD:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        answer = games.ask(path)
        assert (answer.status, json.loads(answer.body)["error"]) == (503, "busy")
    assert len([text for text in caplog.messages if "TasksMax" in text]) == 1
    assert games.ask(path).body == b"0123456789"


def test_a_thread_that_answers_closes_no_connection(
    games: Games, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main loop does, which alone uses the sockets of idle connections."""
    closed: list[int] = []
    close = catalogd.Channel.handle_close

    def noted(channel: catalogd.Channel) -> None:
        closed.append(threading.get_ident() - channel.server.loop_thread)
        close(channel)

    monkeypatch.setattr(catalogd.Channel, "handle_close", noted)
    head = games.request("/healthz") + b"POST /web/login HTTP/1.1\r\nHost: x\r\n"
    head += b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    for _ in range(200):
        with games.connect() as client:
            client.sendall(head)
            linger = struct.pack("ii", 1, 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    wait_for(lambda: len(closed) >= 200)
    assert set(closed) == {0}


def test_a_stop_that_a_call_holds_up_ends_the_process(
    service: catalogd.Web,
    games: Games,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing that the call uses is closed: its disk may never answer."""
    path = games.add("a.nsp")
    monkeypatch.setattr(catalogd, "MAX_STOP_SECONDS", 0.2)
    asked, go_on = threading.Event(), threading.Event()

    def hang(*parts: Any) -> Any:
        asked.set()
        go_on.wait(30)
        raise OSError("gone")

    monkeypatch.setattr(catalogd, "open_file", hang)
    server = catalogd.listen(service)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(server.run()))
    thread.start()
    with socket.create_connection((games.host, server.effective_port)) as client:
        client.sendall(games.request(path))
        asked.wait(30)
        server.stop()
        thread.join()
    assert ended == [False]
    go_on.set()
    wait_for(lambda: not server._own_threads)
    waitress.wasyncore.close_all(server._map)  # in place of the end of the process


# The database


@contextlib.contextmanager
def write_lock(folder: str) -> Iterator[None]:
    """Hold the database's write lock, as another program does."""
    path = os.path.join(folder, "catalogd.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def post(games: Games, path: str, fields: dict[str, Any]) -> tuple[int, Any, Any]:
    """Return status, headers and JSON of a POST over a connection of its own."""
    call = http.client.HTTPConnection(games.host, games.port, timeout=30)
    headers = {
        "Authorization": f"Bearer {games.key}",
        "Content-Type": "application/json",
    }
    with contextlib.closing(call):
        call.request("POST", path, json.dumps(fields), headers)
        answer = call.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


@pytest.mark.slow
@short_and_long(rounds=(10, 600))
def test_a_program_that_holds_the_write_lock_stops_no_reader(
    games: Games, store: catalogd.Store, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads is answered while the lock is held."""
    monkeypatch.setattr(catalogd, "MAX_WRITE_WAIT_SECONDS", 1)
    path = games.add("a.nsp", b"content")
    account = store.accounts.id_of("anna")
    store.queue.send(account, path.rpartition("/")[2])
    (item,) = store.queue.items(account)
    report = {"queue_item_id": item["id"], "progress_percent": 7}
    assert post(games, "/api/send-queue/progress", report)[0] == 200
    refused: list[tuple[int, Any, Any]] = []

    def write() -> None:
        fields = {"queue_item_id": item["id"], "status": "completed"}
        refused.append(post(games, "/api/send-queue/progress", fields))

    writers = [threading.Thread(target=write) for _ in range(6)]
    with write_lock(store.database.folder):
        for writer in writers:
            writer.start()
        for _ in range(rounds):
            for read in ("/healthz", "/api/list", "/api/send-queue", path):
                assert games.ask(read).status == 200
            assert post(games, "/api/send-queue/progress", report)[0] == 200
            watched = f"http://{games.host}:{games.port}/"
            assert catalogd.answers(watched, 30)  # by the watchdog
            time.sleep(0.1)
        for writer in writers:
            writer.join()
    for status, headers, body in refused:
        assert (status, body["error"]) == (503, "busy")
        assert headers["Retry-After"]


@pytest.mark.slow
def test_programs_that_do_not_read_an_index_share_one_in_memory(
    games: Games, store: catalogd.Store
) -> None:
    facts = {"name": "A", "description": "", "version": ""}
    for number in range(10):
        url = f"https://example.org/{number}/{'x' * 400_000}"
        store.entries.add_link(url, 1, "nsp", facts, "anna")
    token = catalogd.new_token()
    store.addresses.set_browse_token(store.accounts.id_of("anna"), token)
    size = len(games.ask(f"/dir/{token}/index.json").body)
    assert size > 3_000_000
    before = resident()
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            client = stack.enter_context(games.connect())
            client.sendall(games.request(f"/dir/{token}/index.json"))
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert resident() - before < 20 * size


# The log


def test_a_log_that_nobody_reads_delays_no_answer(
    start: Callable[..., Service], home: pathlib.Path
) -> None:
    read, write = os.pipe()
    service = start(stderr=write)
    os.close(write)
    call = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    with contextlib.closing(call):
        for number in range(200):  # more lines than the pipe takes
            call.request("GET", f"/nowhere/{number}/{'x' * 1000}")
            answer = call.getresponse()
            assert answer.status == 404
            answer.read()
        with open(read, "rb", buffering=0) as log:
            assert service.stop()[0] == 0
            lines = log.read(1024 * 1024)
    assert b"404 GET /nowhere/0/xx" in lines


def test_the_log_says_how_many_lines_were_dropped(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def hold(writer: catalogd.LogWriter, record: logging.LogRecord) -> None:
        holds.set()
        go_on.wait(20)
        emit(writer, record)

    monkeypatch.setattr(catalogd, "MAX_LOG_LINES", 2)
    emit = catalogd.LogWriter.emit
    monkeypatch.setattr(catalogd.LogWriter, "emit", hold)
    holds, go_on = threading.Event(), threading.Event()
    with contextlib.closing(catalogd.LogQueue()) as log:
        log.emit(log_record("line 0"))
        assert holds.wait(20)
        for number in range(1, 10):
            log.emit(log_record(f"line {number}"))
        go_on.set()
        wait_for(log.queue.empty)
        for number in (10, 11):
            log.emit(log_record(f"line {number}"))
            wait_for(log.queue.empty)
        go_on.clear()
        for number in range(12, 17):
            log.emit(log_record(f"line {number}"))
        go_on.set()
    lines = [
        line.partition(" INFO line ") for line in capfd.readouterr().err.split("\n")
    ]
    assert [number or text for text, _, number in lines[:6]] == [
        "0", "1", "2", "7 log lines were dropped.", "10", "11"
    ]  # fmt: skip
    assert lines[-2][0].endswith(" log lines were dropped.")


def test_a_log_that_nobody_reads_holds_up_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    monkeypatch.setattr(catalogd.os, "dup", lambda number: write)
    monkeypatch.setattr(catalogd, "MAX_LOG_STOP_SECONDS", 0.1)
    log = catalogd.LogQueue()
    for _ in range(20):
        log.emit(log_record("x" * 10_000))
    log.close()
    assert not log._writer.stream.closed
    with open(read, "rb") as reader:
        while reader.read1(1024 * 1024):  # until it is closed
            pass
    wait_for(lambda: log._writer.stream.closed)
    log.close()


def test_a_disk_that_is_full_for_a_moment_does_not_end_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    problems = [OSError(errno.ENOSPC, "No space left on device")]
    with contextlib.closing(catalogd.LogQueue()) as thread:
        flush = thread._writer.stream.flush

        def flush_or_fail() -> None:
            if problems:
                raise problems.pop()
            flush()

        monkeypatch.setattr(thread._writer.stream, "flush", flush_or_fail)
        thread.emit(log_record("while it is full"))
        wait_for(lambda: not problems)
        thread.emit(log_record("later"))
    assert " INFO later\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("encoding", "line"),
    [("utf-16-le", "Pokémon\n".encode("utf-16-le")), ("ascii", b"Pok\\xe9mon\n")],
)
def test_the_log_has_the_encoding_of_standard_error(
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    encoding: str,
    line: bytes,
) -> None:
    """On Windows that is UTF-8, also in a file, and not that of old programs."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stderr", stream)
    with contextlib.closing(catalogd.LogQueue()) as thread:
        thread.emit(log_record("Pokémon"))
    assert line in capfdbinary.readouterr().err


FORGERIES = {
    "a name\n2026-01-01 ERROR forged": r"a name\n2026-01-01 ERROR forged",
    "\x1b[2J\x9b2J\r\t\0\x7f": r"\x1b[2J\x9b2J\r\t\x00\x7f",
    "\u202egnp.exe\u2066\u200f": r"\u202egnp.exe\u2066\u200f",  # bidi
    "a\x85b\u2028c\u2029d": r"a\x85b\u2028c\u2029d",  # lines, to str.splitlines
    "\udcff\U000e0001": r"\udcff\U000e0001",
    f"?api_key=catalogd_{'aB3-_' * 9}&x": "?api_key=catalogd_...&x",
    f"/catalogd_{'aB3-_' * 4}": "/catalogd_...",  # a path is cut to be logged
    "/srv/catalogd_games/a.nsp": "/srv/catalogd_games/a.nsp",
    "Pokémon ポケモン 🎮": "Pokémon ポケモン 🎮",
}


@pytest.mark.parametrize(("text", "shown"), FORGERIES.items())
def test_what_comes_from_outside_forges_no_log_line_and_steers_no_terminal(
    text: str, shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(catalogd.LogQueue()) as thread:
        thread.emit(log_record(text))
    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith(f" INFO {shown}")


def test_a_traceback_is_indented_line_by_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    record = log_record("It failed.")
    try:
        raise ValueError("a\n2026-01-01 ERROR forged \x1b[2J")
    except ValueError:
        record.exc_info = sys.exc_info()
    with contextlib.closing(catalogd.LogQueue()) as thread:
        thread.emit(record)
    first, *lines = capfd.readouterr().err.splitlines()
    assert first.endswith(" INFO It failed.")
    assert all(line.startswith("    ") for line in lines)
    assert lines[-1] == r"    2026-01-01 ERROR forged \x1b[2J"


def log_record(message: str) -> logging.LogRecord:
    return catalogd.log.makeRecord("catalogd", 20, "", 0, message, (), None)
