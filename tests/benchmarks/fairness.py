#!/usr/bin/env python3
"""Response times of small calls during downloads, and small calls per second.

    python3 tests/benchmarks/fairness.py [busy] [disk] [many] [rate] [list]

Prints a table for each of these (all, if none is named): during 34 downloads; during
downloads from a slow disk (needs gcc); with 500 open downloads; calls per second (needs
wrk); the list of 100,000 entries. servers.py lists the programs that this needs.
"""

import contextlib
import gzip
import http.client
import json
import multiprocessing
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from clients import fetching, poll, quantile, trickling
from servers import HEADERS, POLL, Bench, Server, catalogd, table

LINE = 118e6  # bytes of a file a second over 1 Gbit/s Ethernet
ENTRIES = 100_000


def small(server: Server) -> str:
    """Return the path of the small call: an authenticated poll, or a tiny file."""
    tiny = server.name in ("nginx", "copyparty")
    return server.path("tiny.nsp") if tiny else POLL


def figures(took: list[float]) -> list[str]:
    return [f"{quantile(took, part):.2f}" for part in (0.5, 0.99)]


def busy(bench: Bench) -> None:
    """Poll during 32 downloads at 1 MB/s and two at full speed."""
    rows = []
    for name in ("catalogd", "copyparty", "nginx", "stock"):
        found = []
        for _ in range(3):
            bench.warm()
            with (
                bench.run(name) as server,
                trickling(server, "large.nsp", 32, 1e6),
                fetching(server, "large.nsp", 12, count=2),
            ):
                time.sleep(1)
                found.append(poll(server.port, small(server), 1000, longest=8))
        halves = [quantile(took, 0.5) for took in found]
        tails = [quantile(took, 0.99) for took in found]
        rows.append(
            [
                name,
                f"{statistics.median(halves):.2f}",
                f"{statistics.median(tails):.2f}",
            ]
        )
    table(["beside 34 downloads", "p50 ms", "p99 ms"], rows)


def disk(bench: Bench) -> None:
    """Poll during eight downloads from a disk that takes 200 ms per MiB."""
    if shutil.which("gcc") is None:
        print("Skipped the slow disk: gcc is not installed.")
        return
    shim = str(bench.home / "slowdisk.so")
    source = pathlib.Path(__file__).with_name("slowdisk.c")
    build = ["gcc", "-O2", "-shared", "-fPIC", "-o", shim, str(source), "-ldl"]
    subprocess.run(build, check=True)
    rows = []
    for name in ("catalogd", "copyparty", "nginx", "stock"):
        bench.warm()
        with (
            bench.run(name, shim, SLOW_NAME="slow.nsp", SLOW_MS="200") as server,
            fetching(server, "slow.nsp", 14, count=8),
        ):
            time.sleep(1)
            with fetching(server, "large.nsp", 10, LINE) as rates:
                took = poll(server.port, small(server), 1000, longest=9)
        share = f"{rates[0] / LINE * 100:.1f} %"
        rows.append([name, *figures(took), share])
    head = ["beside a slow disk", "p50 ms", "p99 ms", "cached download, of the line"]
    table(head, rows)


def many(bench: Bench) -> None:
    """Poll during 500 downloads that are read slowly."""
    rows = []
    for name in ("catalogd", "copyparty", "nginx"):
        with bench.run(name) as server, trickling(server, "large.nsp", 500, 2e4):
            time.sleep(2)
            before = server.cpu()
            took = poll(server.port, small(server), 500, longest=20)
            spent = (server.cpu() - before) / (sum(took) / 1000 + len(took) * 0.005)
            cells = [f"{server.memory():.0f}", f"{spent * 100:.0f} %"]
        rows.append([name, *figures(took), *cells])
    table(["beside 500 downloads", "p50 ms", "p99 ms", "MB", "CPU"], rows)


def rate(bench: Bench) -> None:
    """Poll as fast as possible, with 1, 8 and 32 connections."""
    if shutil.which("wrk") is None:
        print("Skipped calls per second: wrk is not installed.")
        return
    rows = []
    for name in ("catalogd", "stock", "starlette"):
        with bench.run(name) as server:
            rows.append([name, *(wrk(server, count) for count in (1, 8, 32))])
    table(["polls a second, at connections", 1, 8, 32], rows)


def wrk(server: Server, connections: int) -> int:
    """Return calls per second, the median of three runs."""
    command = ["wrk", "-t1", f"-c{connections}", "-d3", "-H"]
    command += [f"Authorization: {HEADERS['Authorization']}"]
    command += [f"http://127.0.0.1:{server.port}{POLL}"]
    found = []
    for _ in range(3):
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
        if "Non-2xx" in printed:
            raise RuntimeError(printed)
        calls = re.search(r"Requests/sec:\s*([\d.]+)", printed)
        found.append(float(calls[1]) if calls else 0.0)
    return round(statistics.median(found))


def fill(path: str) -> None:
    """Add 100,000 files that do not exist, as a scan would."""
    with contextlib.closing(catalogd.Store(path)) as store:
        files = []
        for number in range(ENTRIES):
            name = f"Some Game {number} [0100{number:012X}][v65536].nsp"
            file = catalogd.FoundFile(
                f"/games/{name}", "/games", number, 1, number, "v"
            )
            facts = catalogd.name_facts(file.path)
            files.append((file, catalogd.FileContent("", facts)))
        for batch in catalogd.batches(files):
            store.entries.add_files(batch, listed=True)


def change(path: str, number: int) -> None:
    """Change the list, as another process would."""
    with contextlib.closing(catalogd.Store(path)) as store:
        said = {"name": "a link", "description": "", "version": ""}
        store.entries.add_link(f"https://example.org/{number}", 1, "nsp", said, "anna")


def ask(server: Server, **headers: str) -> tuple[float, Any, bytes]:
    """Return the milliseconds of a call for the list, its headers and its body."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        began = time.perf_counter()
        connection.request("GET", "/api/list", headers={**HEADERS, **given})
        answer = connection.getresponse()
        body = answer.read()
        return (time.perf_counter() - began) * 1000, answer.headers, body


def rows_as_json(path: str) -> list[float]:
    """Return the milliseconds of the plain way (rows, dictionaries, json.dumps), and
    those of json.dumps alone."""
    with contextlib.closing(sqlite3.connect(f"{path}/catalogd.db")) as db:
        began = time.perf_counter()
        rows = db.execute("SELECT entry_json FROM answers ORDER BY sort_name, id")
        entries = [json.loads(row[0]) for row in rows]
        dumping = time.perf_counter()
        json.dumps({"entries": entries}).encode()
        end = time.perf_counter()
        return [(end - began) * 1000, (end - dumping) * 1000]


def built_alone(path: str) -> float:
    """Return the milliseconds of building the list."""
    with contextlib.closing(catalogd.Store(path)) as store:
        began = time.perf_counter()
        store.entries.list_json(catalogd.EVERYTHING)
        return (time.perf_counter() - began) * 1000


def median_cost(server: Server, call: Any, count: int = 5) -> list[float]:
    """Return the milliseconds of a call, and those of the server's processor."""
    took, cost = [], []
    for _ in range(count):
        before = server.cpu()
        took.append(call())
        cost.append((server.cpu() - before) * 1000)
    return [statistics.median(took), statistics.median(cost)]


def list_(bench: Bench) -> None:
    bench.files = bench.home / "nothing"
    bench.files.mkdir()
    bench.data = bench.home / "many"
    numbers = iter(range(10**6))
    with bench.run("unscanned") as server:
        fill(str(bench.data))
        path = str(bench.data)
        plain = [rows_as_json(path) for _ in range(5)]
        whole, dumps = (statistics.median(part) for part in zip(*plain, strict=True))
        alone = statistics.median(built_alone(path) for _ in range(5))

        def rebuild() -> float:
            change(path, next(numbers))
            return ask(server)[0]

        built = median_cost(server, rebuild)
        again = median_cost(server, lambda: ask(server)[0])
        _, headers, body = ask(server)
        etag = headers["ETag"]
        unchanged = median_cost(server, lambda: ask(server, If_None_Match=etag)[0])
        zipping, headers, zipped = ask(server, Accept_Encoding="gzip")
        assert gzip.decompress(zipped) == body
        zipped_again = median_cost(
            server, lambda: ask(server, Accept_Encoding="gzip")[0]
        )
        waits = wait_beside_rebuilds(server, path, numbers)
    rows: list[list[Any]] = [["rows, dictionaries, json.dumps", whole, ""]]
    rows += [["of that, json.dumps", dumps, ""], ["made by SQLite", alone, ""]]
    rows += [["the list after a change", *built], ["the same list again", *again]]
    rows += [["304", *unchanged], ["zipped, the first time", zipping, ""]]
    rows += [["zipped, again", *zipped_again]]
    rows += [["longest poll beside rebuilds, 4 callers", max(waits), ""]]
    rows += [["p99 of polls beside rebuilds", quantile(waits, 0.99), ""]]
    shown = [[f"{c:.1f}" if isinstance(c, float) else c for c in row] for row in rows]
    table([f"{ENTRIES:,} entries, {len(body) / 1e6:.0f} MB", "ms", "CPU ms"], shown)


def call_and_change(port: int, path: str, numbers: list[int]) -> None:
    """Change the list, and call it from four threads at once."""
    server = Server("catalogd", port, None)  # type: ignore[arg-type]
    for number in numbers:
        change(path, number)
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def wait_beside_rebuilds(server: Server, path: str, numbers: Any) -> list[float]:
    given = [next(numbers) for _ in range(8)]
    work = multiprocessing.Process(
        target=call_and_change, args=(server.port, path, given)
    )
    work.start()
    took = []
    while work.is_alive():
        took += poll(server.port, POLL, 20, pause=0.002)
    work.join()
    return took


def main(names: list[str]) -> None:
    parts = {"busy": busy, "disk": disk, "many": many, "rate": rate, "list": list_}
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(pathlib.Path(home))
        bench.add("large.nsp", 256 * 2**20)
        bench.add("slow.nsp", 256 * 2**20)
        bench.add("tiny.nsp", 200)
        for name in names or parts:
            parts[name](bench)


if __name__ == "__main__":
    main(sys.argv[1:])
