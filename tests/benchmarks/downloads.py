#!/usr/bin/env python3
"""Processor time and speed of downloads, compared with nginx, copyparty, unchanged
waitress and uvicorn. "plain" is catalogd without sendfile.

    python3 tests/benchmarks/downloads.py [--mib 512] [--rounds 5] [SERVER ...]

Prints a table of medians. The servers take turns within a round, and send a file of the
page cache over loopback. servers.py lists the programs that this needs.
"""

import argparse
import multiprocessing
import pathlib
import statistics
import tempfile
from collections import defaultdict

from clients import fetch
from servers import Bench, Server, table

SERVERS = ["nginx", "copyparty", "catalogd", "plain", "stock", "starlette"]
LINE = 125e6  # bytes a second: 1 Gbit/s
GIB = 2**30


def streams(server: Server, file: str, count: int, size: int) -> tuple[float, float]:
    """Return MB/s of all streams together, and the server's seconds per GiB."""
    before = server.cpu()
    job = (server.port, server.path(file))
    with multiprocessing.Pool(count) as pool:
        seconds = pool.starmap(fetch, [job] * count)
    moved = size * count
    return moved / max(seconds) / 1e6, (server.cpu() - before) / moved * GIB


def paced(server: Server, file: str, size: int, first: int | None) -> float:
    """Return the server's seconds per GiB at 1 Gbit/s."""
    before = server.cpu()
    fetch(server.port, server.path(file), LINE, first)
    return (server.cpu() - before) / (size - (first or 0)) * GIB


def sample(bench: Bench, server: Server, size: int) -> dict[str, float]:
    found = {}
    for count in (1, 8):
        taken = []
        for _ in range(3):
            bench.warm()
            taken.append(streams(server, "large.nsp", count, size))
        rate, cost = (statistics.median(part) for part in zip(*taken, strict=True))
        found[f"{count} stream, MB/s"], found[f"{count} stream, s/GiB"] = rate, cost
    bench.warm()
    found["1 Gbit/s, s/GiB"] = paced(server, "large.nsp", size, None)
    found["range, s/GiB"] = paced(server, "large.nsp", size, 1_000_001)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers", nargs="*", default=SERVERS)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size = options.mib * 2**20
    results: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(pathlib.Path(home))
        bench.add("large.nsp", size)
        for _ in range(options.rounds):
            for name in options.servers:
                with bench.run(name) as server:
                    fetch(server.port, server.path("large.nsp"), most=10_000_000)
                    results[name].append(sample(bench, server, size))
    columns = list(results[options.servers[0]][0])
    rows = []
    for name in options.servers:
        values = [
            statistics.median(row[key] for row in results[name]) for key in columns
        ]
        cells = [f"{v:.0f}" if v > 20 else f"{v:.3f}" for v in values]
        rows.append([name, *cells])
    table(["server", *columns], rows)


if __name__ == "__main__":
    main()
