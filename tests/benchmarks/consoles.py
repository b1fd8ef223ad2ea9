"""Memory of the clients that the server runs, and small calls beside them.

    python tests/benchmarks/consoles.py [SECONDS [CONSOLES [MEGABYTES_A_SECOND]]]

The server sends to that many FTP servers at once, each of which takes its file at that
speed (default: 20 seconds, 2 consoles, 20 MB/s). Meanwhile this program polls the queue
over one connection. A client should take at most 40 MB; the slowest hundredth of the
calls should begin at 10 ms at most.
"""

import contextlib
import http.client
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
DEFAULTS = (20, 2, 20)
PAUSE = 0.01  # seconds between two calls
CALL = "/api/send-queue"


def take(port: int, rate: float) -> None:
    """Be the FTP server of a console that takes so many bytes a second, and keeps
    none of them."""
    import ftpsrv

    class Slow(ftpsrv.Session):
        def receive(self, path: pathlib.Path, mode: str) -> None:
            began, count = time.monotonic(), 0
            with self.data() as data:
                while block := data.recv(65536):
                    count += len(block)
                    time.sleep(max(began + count / rate - time.monotonic(), 0))

    with tempfile.TemporaryDirectory() as folder:
        server = ftpsrv.Ftpsrv(pathlib.Path(folder), port=port)
        server.RequestHandlerClass = Slow
        threading.Event().wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def prepare(folder: pathlib.Path, ports: list[int], size: int) -> str:
    """Make a library with a file and a device for each port, and queue these. Return
    an API key of another account, whose queue is empty."""
    import catalogd

    (folder / "library").mkdir()
    for port in ports:
        with open(folder / f"library/{port}.nsp", "wb") as file:
            file.truncate(size)
        os.utime(file.name, (1, 1))
    with contextlib.closing(catalogd.Store(str(folder / "data"))) as store:
        settings = catalogd.Settings(folders=(str(folder / "library"),))
        catalogd.Scanner(store, settings).scan()
        anna, ben = (store.accounts.add(name, "-") for name in ("anna", "ben"))
        for row in store.database.rows("SELECT id, name FROM entries"):
            target = f"ftp://127.0.0.1:{row['name']}/"
            device = {"name": row["name"], "target": target}
            store.queue.send(anna, row["id"], store.devices.add(anna, device))
        key = catalogd.new_key()
        store.accounts.add_key(ben, "benchmark", catalogd.hash_token(key))
    return key


def delays(port: int, key: str, seconds: float) -> list[float]:
    """Return the milliseconds that each call took."""
    call = http.client.HTTPConnection("127.0.0.1", port)
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        call.request("GET", CALL, headers={"Authorization": f"Bearer {key}"})
        call.getresponse().read()
        found.append(1000 * (time.monotonic() - began))
        time.sleep(PAUSE)
    call.close()
    return found


def memory(process: int) -> tuple[float, float]:
    """Return RSS and PSS in MB."""
    text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    found = (re.search(rf"{name}: +(\d+) kB", text) for name in ("Rss", "Pss"))
    rss, pss = (int(match[1]) * 1024 / 1e6 if match else 0.0 for match in found)
    return rss, pss


def children(process: int) -> list[int]:
    tasks = pathlib.Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for path in tasks for number in path.read_text().split()]


def measure(folder: pathlib.Path, seconds: float, count: int, rate: float) -> None:
    ports, own = [free_port() for _ in range(count)], free_port()
    key = prepare(folder, ports, int(3 * rate * seconds) + 2**30)
    words = ["serve", "--host", "127.0.0.1", "--port", str(own)]
    words += ["--data-dir", str(folder / "data"), str(folder / "library")]
    takers = [[__file__, "take", str(port), str(rate)] for port in ports]
    commands = [*takers, [str(ROOT / "catalogd.py"), *words]]
    with contextlib.ExitStack() as stack:
        for command in commands:
            nowhere = subprocess.DEVNULL
            process = subprocess.Popen(
                [sys.executable, *command], stdout=nowhere, stderr=nowhere
            )
            stack.callback(process.kill)
        time.sleep(5)  # until all is being sent
        found = delays(own, key, seconds)
        for client in children(process.pid):
            rss, pss = memory(client)
            print(f"a client that sends       {rss:6.1f} MB RSS, {pss:6.1f} MB PSS")
        print(f"the server                {memory(process.pid)[0]:6.1f} MB RSS")
    cuts = statistics.quantiles(found, n=100)
    print(f"{len(found)} small calls          ", end="")
    print(f"median {cuts[49]:.1f} ms, 99th percentile {cuts[98]:.1f} ms")


def main() -> None:
    if sys.argv[1:2] == ["take"]:
        return take(int(sys.argv[2]), float(sys.argv[3]))
    given = sys.argv[1:]
    seconds, count, speed = map(float, [*given, *DEFAULTS[len(given) :]])
    with tempfile.TemporaryDirectory() as name:
        return measure(pathlib.Path(name), seconds, int(count), speed * 1e6)


if __name__ == "__main__":
    main()
