#!/usr/bin/env python3
"""Rates of small calls, compared with a "hello" of bottle and waitress alone.

    python3 tests/benchmarks/calls.py [SECONDS [ENTRIES]]

Each server is a process of its own; this one makes the calls, over connections that
stay open. The rates of a table are measured in turns, so that a busy machine slows all
of them: compare the ratios. SECONDS is the time for one rate (default 2),
ENTRIES the number of files in the library (default 10,000).
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import bottle  # noqa: E402
import waitress  # noqa: E402

import catalogd  # noqa: E402

QUEUED = 3  # items in the queue that is read
ROUNDS = 3
HEAD_END = b"\r\n\r\n"


# Servers


def hello(port: int, folder: str) -> None:
    """Serve "hello". At /durable it first writes and syncs one page, as SQLite does at
    least for a commit."""
    file = os.open(os.path.join(folder, "page"), os.O_RDWR | os.O_CREAT)

    def durable() -> str:
        os.pwrite(file, bytes(4096), 0)
        os.fdatasync(file)
        return "hello"

    app = bottle.Bottle()
    app.route("/hello", callback=lambda: "hello")
    app.route("/durable", callback=durable)
    waitress.serve(app, host="127.0.0.1", port=port, _quiet=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int, path: str, **headers: str) -> bytes:
    """Wait for the first answer, and return its body."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status}")
            return answer.read()
        time.sleep(0.002)


# Load


class Call:
    """A connection that repeats one request."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request
        self.missing = -1  # bytes of the answer; -1 while its head is not there
        self.head = b""

    def ask(self) -> None:
        self.head, self.missing = b"", -1
        self.socket.sendall(self.request)

    def is_answered(self) -> bool:
        """Receive bytes, and return whether they end the answer."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise SystemExit("The server closed a connection.")
        if self.missing < 0:
            self.head += data
            head, end, body = self.head.partition(HEAD_END)
            if not end:
                return False
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{self.request!r}: {self.head!r}")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            assert length is not None
            self.missing, data = int(length[1]), body
        self.missing -= len(data)
        return self.missing == 0


def rate(port: int, request: bytes, connections: int, seconds: float) -> float:
    """Return answers per second."""
    calls = [Call(port, request) for _ in range(connections)]
    with selectors.DefaultSelector() as selector:
        for call in calls:
            selector.register(call.socket, selectors.EVENT_READ, call)
            call.ask()
        answers = 0
        began = time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            for event, _ in selector.select():
                if event.data.is_answered():
                    answers += 1
                    event.data.ask()
    for call in calls:
        call.socket.close()
    return answers / took


def in_turns(seconds: float, tasks: dict[str, Callable[[float], float]]) -> list[float]:
    """Return the median rate of each task."""
    rates = collections.defaultdict(list)
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            rates[name].append(task(seconds / ROUNDS))
    return [statistics.median(rates[name]) for name in tasks]


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if body:
        headers |= {"Content-Type": "application/json"}
        headers |= {"Content-Length": str(len(body))}
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


# Measurements


class Filled(NamedTuple):
    """What the calls to a server with a library and a queue need."""

    bearer: dict[str, str]  # the header with the key
    cookie: dict[str, str]
    item: str  # in the queue


def fill(folder: pathlib.Path, entries: int) -> Filled:
    """Scan a library of small files and fill a queue."""
    library = folder / "library"
    library.mkdir()
    for number in range(entries):
        path = library / f"Game number {number} [0100{number:012X}][v65536].nsp"
        path.write_bytes(b"x")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    settings = catalogd.Settings(folders=(str(library),))
    with contextlib.closing(catalogd.Store(str(folder / "data"))) as store:
        changes = catalogd.Scanner(store, settings).scan()
        assert len(changes.added) == entries
        account = store.accounts.add("anna", "scrypt$2$1$1$$")
        key = catalogd.new_key()
        store.accounts.add_key(account, "benchmark", catalogd.hash_token(key))
        for known in list(store.entries.files())[:QUEUED]:
            store.queue.send(account, known.id)
        secret = catalogd.new_key()
        store.accounts.add_session(account, catalogd.hash_token(secret), "benchmark")
        item = str(store.clients.pending(account)[0]["id"])
        cookie = {"Cookie": f"session={secret}"}
        return Filled({"Authorization": f"Bearer {key}"}, cookie, item)


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def small_calls(seconds: float, plain: int, ours: int, filled: Filled) -> None:
    report = (
        f'{{"queue_item_id": "{filled.item}", "progress_percent": 41.5,'
        ' "bytes_transferred": 415000000, "transfer_speed": 21500000.5}'
    )
    calls = {
        "bare hello": (plain, request("GET", "/hello")),
        "hello with fdatasync": (plain, request("GET", "/durable")),
        "GET /api/send-queue": (
            ours,
            request("GET", "/api/send-queue", **filled.bearer),
        ),
        "POST .../progress": (
            ours,
            request(
                "POST",
                "/api/send-queue/progress",
                report.encode(),
                **filled.bearer,
            ),
        ),
    }
    print("calls a second (of the bare hello's)")
    print(f"{'':<24} {'1 connection':>20} {'8 connections':>20}")
    columns = []
    for connections in (1, 8):
        tasks = {
            name: lambda s, call=call, n=connections: rate(*call, n, s)
            for name, call in calls.items()
        }
        rates = in_turns(seconds, tasks)
        columns.append([f"{one:.0f} ({one / rates[0]:.0%})" for one in rates])
    for name, one, eight in zip(calls, *columns, strict=True):
        print(f"{name:<24} {one:>20} {eight:>20}")


def start(folder: pathlib.Path, filled: Filled) -> tuple[float, float]:
    """Return the seconds from start to first answer, and the MB after some calls."""
    port = free_port()
    began = time.perf_counter()
    with server(*serve_command(folder, port)) as process:
        wait_for(port, "/api/send-queue", **filled.bearer)
        took = time.perf_counter() - began
        for _ in range(10):
            wait_for(port, "/api/list", **filled.bearer)
        while not json.loads(wait_for(port, "/web/scan", **filled.cookie))["finished"]:
            time.sleep(0.01)
        for _ in range(10):
            wait_for(port, "/api/list", **filled.bearer)
        return took, resident(process.pid)


def serve_command(folder: pathlib.Path, port: int) -> list[str]:
    options = ["--host", "127.0.0.1", "--port", str(port)]
    options += ["--data-dir", str(folder / "data")]
    return ["-m", "catalogd", "serve", str(folder / "library"), *options]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    entries = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        filled = fill(folder, entries)
        starts = [start(folder, filled) for _ in range(3)]
        ours, plain = free_port(), free_port()
        stack.enter_context(server(*serve_command(folder, ours)))
        stack.enter_context(server(__file__, "hello", str(plain), name))
        wait_for(ours, "/api/list", **filled.bearer)
        wait_for(plain, "/hello")
        small_calls(seconds, plain, ours, filled)
    times, sizes = zip(*starts, strict=True)
    took = statistics.median(times)
    print(f"\nstart to first answer, {entries} entries: {took:.2f} s")
    print(f"resident after 20 lists of {entries} entries: {max(sizes):.1f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["hello"]:
        hello(int(sys.argv[2]), sys.argv[3])
    else:
        main()
