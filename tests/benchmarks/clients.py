"""Clients that cost little processor time: they discard the bytes of an answer without
copying them."""

import contextlib
import http.client
import multiprocessing
import socket
import time
from collections.abc import Iterator
from typing import Any

from servers import HEADERS, Server

DISCARDED = bytearray(1024 * 1024)


def start(port: int, path: str, first: int | None = None) -> tuple[socket.socket, int]:
    """Request a file; return the connection and the number of bytes that will come."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    lines += [f"Range: bytes={first}-"] if first is not None else []
    client.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        part = client.recv(1)
        if not part:
            raise RuntimeError(f"no answer: {head!r}")
        head += part
    length = http_length(head)
    if int(head.split()[1]) != (200 if first is None else 206):
        raise RuntimeError(repr(head))
    return client, length


def http_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise RuntimeError(repr(head))


def discard(client: socket.socket, count: int) -> int:
    got = client.recv_into(DISCARDED, min(count, len(DISCARDED)), socket.MSG_TRUNC)
    if not got:
        raise RuntimeError("the download was cut off")
    return got


def fetch(
    port: int, path: str, rate: float = 0, first: int | None = None, most: int = 2**60
) -> float:
    """Download a file and return the seconds that it took.

    :param rate: bytes per second at most; 0 for no limit.
    :param most: bytes after which to stop.
    """
    began = time.perf_counter()
    client, left = start(port, path, first)
    left = min(left, most)
    done = 0
    with contextlib.closing(client):
        while done < left:
            done += discard(client, left - done)
            if rate and (wait := began + done / rate - time.perf_counter()) > 0.004:
                time.sleep(wait)
    return time.perf_counter() - began


def fetch_for(pipe: Any, port: int, path: str, rate: float, seconds: float) -> None:
    """Download a file repeatedly, and send the bytes per second to the pipe."""
    began = time.perf_counter()
    done = 0
    while time.perf_counter() < began + seconds:
        client, left = start(port, path)
        with contextlib.closing(client):
            while left and time.perf_counter() < began + seconds:
                got = discard(client, left)
                left, done = left - got, done + got
                if rate and (wait := began + done / rate - time.perf_counter()) > 0.004:
                    time.sleep(wait)
    pipe.send(done / (time.perf_counter() - began))


def trickle(ready: Any, port: int, path: str, count: int, rate: float) -> None:
    """Run downloads, each at `rate` bytes per second, until the process ends."""
    clients = [start(port, path)[0] for _ in range(count)]
    for client in clients:
        client.setblocking(False)
    ready.set()
    began, taken = time.perf_counter(), [0.0] * count
    while True:
        due = (time.perf_counter() - began) * rate
        for number, client in enumerate(clients):
            with contextlib.suppress(BlockingIOError):
                while taken[number] < due:
                    taken[number] += discard(client, int(due - taken[number]) + 1)
        time.sleep(0.02)


@contextlib.contextmanager
def trickling(server: Server, file: str, count: int, rate: float) -> Iterator[None]:
    ready = multiprocessing.Event()
    process = multiprocessing.Process(
        target=trickle, args=(ready, server.port, server.path(file), count, rate)
    )
    process.start()
    ready.wait(60)
    yield
    process.terminate()
    process.join()


@contextlib.contextmanager
def fetching(
    server: Server, file: str, seconds: float, rate: float = 0, count: int = 1
) -> Iterator[list[float]]:
    """Run downloads in other processes. After the block, the list that was yielded has
    the bytes per second of each."""
    rates: list[float] = []
    started = []
    for _ in range(count):
        mine, theirs = multiprocessing.Pipe()
        args = (theirs, server.port, server.path(file), rate, seconds)
        process = multiprocessing.Process(target=fetch_for, args=args)
        process.start()
        started.append((process, mine))
    yield rates
    for process, pipe in started:
        rates.append(pipe.recv() if pipe.poll(seconds + 30) else 0.0)
        process.join()


def poll(
    port: int, path: str, count: int, longest: float = 60, pause: float = 0.005
) -> list[float]:
    """Return the milliseconds of each of many small calls over one connection."""
    took: list[float] = []
    end = time.perf_counter() + longest
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        while len(took) < count and time.perf_counter() < end:
            began = time.perf_counter()
            connection.request("GET", path, headers=HEADERS)
            answer = connection.getresponse()
            answer.read()
            took.append((time.perf_counter() - began) * 1000)
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status}")
            time.sleep(pause)
    return took


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]
