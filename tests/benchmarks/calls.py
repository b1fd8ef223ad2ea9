#!/usr/bin/env python3
"""Rates of small calls, compared with a "hello" of bottle and waitress alone.

    python3 tests/benchmarks/calls.py [SECONDS]

Each server is a process of its own; this one makes the calls, over connections that
stay open. The rates of a table are measured in turns, so that a busy machine slows all
of them: compare the ratios. SECONDS is the time for one rate (default 2).
"""

import collections
import contextlib
import http.client
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

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import bottle  # noqa: E402
import waitress  # noqa: E402

import catalogd  # noqa: E402

ENTRIES = 10_000
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


def wait_for(port: int, path: str, key: str = "") -> None:
    """Wait for the first answer."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            status = connection.getresponse().status
            if status != 200:
                raise SystemExit(f"{path}: {status}")
            return
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


def request(method: str, path: str, key: str = "", body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


# Measurements


def fill(folder: pathlib.Path) -> tuple[str, str]:
    """Scan a library of small files and fill a queue. Return a key and an item id."""
    library = folder / "library"
    library.mkdir()
    for number in range(ENTRIES):
        path = library / f"Game number {number} [0100{number:012X}][v65536].nsp"
        path.write_bytes(b"x")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    settings = catalogd.Settings(folders=(str(library),))
    with contextlib.closing(catalogd.Store(str(folder / "data"))) as store:
        changes = catalogd.Scanner(store, settings).scan()
        assert len(changes.added) == ENTRIES
        account = store.accounts.add("anna", "scrypt$2$1$1$$")
        key = catalogd.new_key()
        store.accounts.add_key(account, "benchmark", catalogd.hash_token(key))
        for known in list(store.entries.files())[:QUEUED]:
            store.queue.send(account, known.id)
        return key, str(store.queue.pending(account)[0]["id"])


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def small_calls(seconds: float, plain: int, ours: int, key: str, item: str) -> None:
    report = (
        f'{{"queue_item_id": "{item}", "progress_percent": 41.5,'
        ' "bytes_transferred": 415000000, "transfer_speed": 21500000.5}'
    )
    calls = {
        "bare hello": (plain, request("GET", "/hello")),
        "hello with fdatasync": (plain, request("GET", "/durable")),
        "GET /api/send-queue": (ours, request("GET", "/api/send-queue", key)),
        "POST .../progress": (
            ours,
            request("POST", "/api/send-queue/progress", key, report.encode()),
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


def start(folder: pathlib.Path, key: str) -> tuple[float, float]:
    """Return the seconds from start to first answer, and the MB after some calls."""
    port = free_port()
    began = time.perf_counter()
    with server(*serve_command(folder, port)) as process:
        wait_for(port, "/api/send-queue", key)
        took = time.perf_counter() - began
        for _ in range(10):
            wait_for(port, "/api/list", key)
        time.sleep(3)  # for the first scan to end
        for _ in range(10):
            wait_for(port, "/api/list", key)
        return took, resident(process.pid)


def serve_command(folder: pathlib.Path, port: int) -> list[str]:
    options = ["--host", "127.0.0.1", "--port", str(port)]
    options += ["--data-dir", str(folder / "data")]
    return ["-m", "catalogd", "serve", str(folder / "library"), *options]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        key, item = fill(folder)
        starts = [start(folder, key) for _ in range(3)]
        ours, plain = free_port(), free_port()
        stack.enter_context(server(*serve_command(folder, ours)))
        stack.enter_context(server(__file__, "hello", str(plain), name))
        wait_for(ours, "/api/list", key)
        wait_for(plain, "/hello")
        small_calls(seconds, plain, ours, key, item)
    times, sizes = zip(*starts, strict=True)
    print(
        f"\nstart to first answer, {ENTRIES} entries: {statistics.median(times):.2f} s"
    )
    print(f"resident after 20 lists of {ENTRIES} entries: {max(sizes):.1f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["hello"]:
        hello(int(sys.argv[2]), sys.argv[3])
    else:
        main()
