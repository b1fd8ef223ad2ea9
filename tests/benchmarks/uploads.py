#!/usr/bin/env python3
"""Speed of an upload, the memory that it needs, and small calls beside it.

    python3 tests/benchmarks/uploads.py [MIB [FOLDER]]

The server is a process of its own, and another one makes the small calls, which read
what the page polls. MIB is the size of the file (default 512), FOLDER is on the disk to
measure (default: that of temporary files). "write" is what the disk does with the same
pieces without a server.
"""

import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from servers import free_port  # noqa: E402

import catalogd  # noqa: E402
from example import session  # noqa: E402

PIECE = os.urandom(catalogd.MAX_LONG_BODY_BYTES)
PACE = 50e6  # bytes a second


def write(folder: pathlib.Path, count: int) -> float:
    """Return MB/s of writing and syncing pieces."""
    began = time.monotonic()
    with open(folder / "plain", "wb", 0) as file:
        for _ in range(count):
            file.write(PIECE)
            os.fsync(file.fileno())
    (folder / "plain").unlink()
    return count * len(PIECE) / (time.monotonic() - began) / 1e6


def paced(rate: float) -> Iterator[bytes]:
    """Yield a piece in parts, at so many bytes a second."""
    began, step = time.monotonic(), 64 * 1024
    for at in range(0, len(PIECE), step):
        time.sleep(max(began + at / rate - time.monotonic(), 0))
        yield PIECE[at : at + step]


def upload(
    port: int, headers: dict[str, str], count: int, name: str, rate: float = 0
) -> float:
    """Return MB/s of an upload, which is paced to bytes a second, if given."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        kind = {"Content-Type": "application/json"}
        begin = json.dumps({"name": name, "size": count * len(PIECE)})
        connection.request("POST", "/web/uploads", begin, {**headers, **kind})
        begun = json.load(connection.getresponse())
        began, offset = time.monotonic(), 0
        for _ in range(count):
            kind = {"Content-Type": "application/octet-stream"}
            kind["Upload-Offset"] = str(offset)
            path = f"/web/uploads/{begun['id']}"
            kind["Content-Length"] = str(len(PIECE))
            body = paced(rate) if rate else PIECE
            connection.request("PATCH", path, body, {**headers, **kind})
            offset = json.load(connection.getresponse())["offset"]
    return offset / (time.monotonic() - began) / 1e6


def small_calls(port: int, headers: dict[str, str], over: Event, times: Any) -> None:
    """Add the milliseconds of each call, one every ten milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found = []
    while not over.is_set():
        began = time.perf_counter()
        connection.request("GET", "/web/changes", headers=headers)
        connection.getresponse().read()
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)
    times += found


def memory(process: int, what: str) -> float:
    """Return MB of a process: VmRSS is now, VmHWM was the most since a reset."""
    rows = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(what)) / 1000


def beside(
    port: int, headers: dict[str, str], work: Callable[[], Any]
) -> dict[str, float]:
    """Return the times of small calls while the work is done."""
    with multiprocessing.Manager() as manager:
        over, times = multiprocessing.Event(), manager.list()
        given = port, headers, over, times
        calls = multiprocessing.Process(target=small_calls, args=given)
        calls.start()
        work()
        over.set()
        calls.join()
        cuts = statistics.quantiles(times, n=100)
    return {"call, median ms": cuts[49], "call, p99 ms": cuts[98]}


@contextlib.contextmanager
def serving(folder: pathlib.Path, port: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Run a server. Yield its process and the headers of a signed-in browser."""
    games, data = folder / "games", str(folder / "data")
    games.mkdir()
    with contextlib.closing(catalogd.Store(data)) as store:
        account = store.accounts.add("anna", catalogd.hash_password("a password"))
        headers = {"Cookie": f"session={session(store, account)}"}
    ini = folder / "catalogd.ini"
    ini.write_text(f"[library]\nfolders = {games}\ninbox = {games}\nkeep_free = 0\n")
    command = [sys.executable, str(ROOT / "catalogd.py"), "serve", "--config", str(ini)]
    command += ["--data-dir", data, "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as server:
        time.sleep(3)
        yield server.pid, headers
        server.terminate()


def measure(folder: pathlib.Path, count: int) -> None:
    port = free_port()
    with serving(folder, port) as (process, headers):
        print_row("write", {"MB/s": write(folder, count)})
        print_row("idle", beside(port, headers, lambda: time.sleep(5)))
        for name, rate in ((f"{PACE / 1e6:.0f} MB/s", PACE), ("full speed", 0)):
            before = memory(process, "VmRSS")
            pathlib.Path(f"/proc/{process}/clear_refs").write_text("5")
            found: dict[str, float] = {}

            def work(name: str = name, rate: float = rate, found: Any = found) -> None:
                found["MB/s"] = upload(port, headers, count, f"{name}.nsp", rate)

            times = beside(port, headers, work)
            more = memory(process, "VmHWM") - before
            print_row(name, {**found, "more memory, MB": more, **times})


def print_row(name: str, figures: dict[str, float]) -> None:
    facts = ", ".join(f"{what} {value:.1f}" for what, value in figures.items())
    print(f"{name:12} {facts}", flush=True)


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    place = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        count = max(mib * 2**20 // len(PIECE), 1)
        measure(pathlib.Path(folder), count)


if __name__ == "__main__":
    main()
