#!/usr/bin/env python3
"""Durations of scans, compared with `find` on the same folder in the same run.

    python3 tests/benchmarks/scan.py [FILES]

Makes a library of FILES files (default 100,000) with real headers in a temporary
folder, and prints a table. "reading the headers" reads the headers and fingerprints of
all files without storing anything, which is a part of every first scan.
"""

import contextlib
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), os.getcwd()]

import catalogd  # noqa: E402
import containers  # noqa: E402

ROUNDS = 3


def make_library(folder: str, count: int) -> None:
    """Write packages, cartridges and homebrew, all different, 100 in each folder."""
    kinds = ("nsp", "nsz", "xci", "nro")
    for number in range(count):
        kind = kinds[number % 4]
        title = f"0100{number:08X}0000"
        mark = f"{number:08}".encode()
        content = {
            "nsp": lambda title=title, mark=mark: containers.nsp(title, mark),
            "nsz": lambda title=title, mark=mark: containers.nsp(title, mark),
            "xci": lambda mark=mark: containers.xci(1) + mark,
            "nro": lambda mark=mark: containers.nro(
                containers.nacp(f"Homebrew {mark.decode()}"), icon=b"", program=0x80
            ),
        }[kind]()
        where = os.path.join(folder, f"{number // 100:04}")
        os.makedirs(where, exist_ok=True)
        path = os.path.join(where, f"Game {number} [{title}][v0].{kind}")
        with open(path, "wb") as file:
            file.write(content)
        os.utime(path, (1_600_000_000, 1_600_000_000))


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def find(folder: str) -> None:
    command = ["find", folder, "-printf", "%p %s %T@ %i\n"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def read_headers(folder: str, settings: catalogd.Settings, data: str) -> float:
    """Return the seconds that reading all headers and fingerprints takes."""
    with contextlib.closing(catalogd.Store(data)) as store:
        scanner = catalogd.Scanner(store, settings)
        files = catalogd.walk(folder, settings.extensions).files
        return seconds(lambda: scanner.disks.read(files))


def memory() -> float:
    """Return the resident memory in MB."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Callers:
    """Threads that call the service's code every few milliseconds during a block."""

    def __init__(self, store: catalogd.Store) -> None:
        self.account = store.accounts.add("bench", "x")
        self.store = store
        entry = store.entries.add_link(
            "http://x/y.nsp", 1, "nsp", {"name": "y"}, "bench"
        )
        store.queue.send(self.account, entry)
        self.item = store.clients.pending(self.account)[0]["id"]
        self.times: dict[str, list[float]] = {"list": [], "progress": []}
        self.stop = threading.Event()

    def _call(self, name: str, work: Callable[[], Any]) -> None:
        while not self.stop.wait(0.01):
            self.times[name].append(seconds(work))

    def _list(self) -> None:
        self.store.entries.list_json(catalogd.EVERYTHING)

    def _post(self) -> None:
        self.store.clients.report(self.account, self.item, {"status": "processing"})

    @contextlib.contextmanager
    def calling(self) -> Any:
        calls = {"list": self._list, "progress": self._post}
        threads = [
            threading.Thread(target=self._call, args=row) for row in calls.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()

    def p99(self, name: str) -> float:
        return statistics.quantiles(self.times[name], n=100)[98] * 1000


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 100_000
    with tempfile.TemporaryDirectory() as top:
        library, data = os.path.join(top, "library"), os.path.join(top, "data")
        make_library(library, count)
        find(library)
        settings = catalogd.Settings(folders=(library,))
        finds = [seconds(lambda: find(library)) for _ in range(ROUNDS)]
        headers = read_headers(library, settings, os.path.join(top, "none"))
        before = memory()
        with contextlib.closing(catalogd.Store(data)) as store:
            scanner = catalogd.Scanner(store, settings)
            callers = Callers(store)
            with callers.calling():
                first = seconds(scanner.scan)
                again = seconds(scanner.scan)
            grown = memory() - before
            rescans = [seconds(scanner.scan) for _ in range(ROUNDS)]
        with contextlib.closing(catalogd.Store(os.path.join(top, "quiet"))) as store:
            quiet = seconds(catalogd.Scanner(store, settings).scan)
        base = statistics.median(finds)
        rescan = statistics.median(rescans)
        rows = [
            ("find -printf", base, ""),
            ("reading the headers", headers, ""),
            ("first scan", quiet, f"{(quiet - headers) / base:.1f} x find, + headers"),
            ("rescan, nothing changed", rescan, f"{rescan / base:.1f} x find"),
            ("first scan beside calls", first, ""),
            ("rescan beside calls", again, ""),
        ]
        print(f"{count} files")
        for name, took, note in rows:
            print(f"{name:30}{took:8.2f} s   {note}")
        for name in callers.times:
            worst = max(callers.times[name]) * 1000
            label = f"{name} beside scans, p99"
            print(f"{label:30}{callers.p99(name):8.1f} ms  {worst:.0f} ms at most")
        print(f"{'memory grown by':30}{grown:8.1f} MB")


if __name__ == "__main__":
    main()
