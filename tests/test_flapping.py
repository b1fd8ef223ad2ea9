"""Transfers over connections that stall, break off and are slow, again and again."""

import contextlib
import hashlib
import http.client
import itertools
import os
import pathlib
import random
import select
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import send_to_switch
from conftest import Home, short_and_long, wait_for
from consoles import Installer
from example import by_age
from ftpsrv import Ftpsrv

PATIENCE = 600.0  # seconds for what is left once the connections are good
MAX_DELAY = 0.02
MAX_STALL = 1.2  # longer than the client waits for an answer


class Flapping:
    """Doors to ports of this machine, whose connections are bad until they are good.
    Each connection has dice of its own: how threads take turns changes no throw."""

    def __init__(self, seed: str) -> None:
        self.is_good = False
        self.breaks = 0
        self.least = 0  # bytes that each connection carries
        self.mean = 700_000  # bytes over these, after which it breaks
        self.seed = seed
        self._numbers = itertools.count()
        self._is_over = False
        self._threads: list[threading.Thread] = []

    def close(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def door(self, port: int, once: bool = False) -> int:
        """Return a port that leads to another, for one connection or for many."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0.1)
        self._start(self._accept, listener, port, once)
        return int(listener.getsockname()[1])

    def _start(self, function: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=function, args=given)
        thread.start()
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]

    def _accept(self, listener: socket.socket, port: int, once: bool) -> None:
        ends = time.monotonic() + 10 if once else float("inf")
        with listener:
            while not self._is_over and time.monotonic() < ends:
                with contextlib.suppress(TimeoutError):
                    self._start(self._carry, listener.accept()[0], port)
                    ends = 0 if once else ends

    def _carry(self, near: socket.socket, port: int) -> None:
        dice = random.Random(f"{self.seed} {next(self._numbers)}")
        left = self.least + dice.expovariate(1 / self.mean)
        with (
            near,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5) as far,
        ):
            pairs = {near: far, far: near}
            while pairs and not self._is_over and (left > 0 or self.is_good):
                left -= self._copy(pairs, dice)
            if pairs:
                self._break_off(near, far, is_error=dice.random() < 0.5)

    def _copy(
        self, pairs: dict[socket.socket, socket.socket], dice: random.Random
    ) -> int:
        """Copy what can be read now. Return the number of bytes."""
        count = 0
        for sock in select.select(list(pairs), [], [], 0.1)[0]:
            if not self.is_good and dice.random() < 0.05:
                time.sleep(dice.uniform(0, MAX_DELAY))
            if not self.is_good and dice.random() < 0.003:
                time.sleep(dice.uniform(0, MAX_STALL))
            data = sock.recv(65536)
            count += len(data)
            if data:
                pairs[sock].sendall(data)
            else:
                pairs.pop(sock).shutdown(socket.SHUT_WR)
        return count

    def _break_off(self, *socks: socket.socket, is_error: bool) -> None:
        self.breaks += 1
        if is_error:  # not an end
            for sock in socks:
                option = struct.pack("ii", 1, 0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Place:
    """Where files arrive: `digest` returns that of the file of a name, and `times` how
    often it has arrived whole."""

    def __init__(self, flapping: Flapping, card: pathlib.Path) -> None:
        self.flapping = flapping
        self.card = card
        self.to = f"folder:{card}"
        self.inodes: dict[str, set[int]] = {}

    def close(self) -> None:
        """End what was started for it."""

    def digest(self, name: str) -> str:
        return digest((self.card / name).read_bytes())

    def watch(self) -> None:
        """Note what is there now."""
        for row in os.scandir(self.card):
            if not row.name.endswith(".part"):
                self.inodes.setdefault(row.name, set()).add(row.inode())

    def times(self, name: str) -> int:
        return len(self.inodes[name])


class FTPPlace(Place):
    def __init__(self, flapping: Flapping, card: pathlib.Path) -> None:
        super().__init__(flapping, card)
        # The client reads a MiB of each to go on. Three that break before they carry
        # more are three attempts without progress: the item has failed, and rightly.
        flapping.least, flapping.mean = send_to_switch.SEAM_BYTES + 2**17, 200_000
        self.server = Ftpsrv(card)
        self.server.announce = lambda port: flapping.door(port, once=True)
        door = flapping.door(self.server.server_address[1])
        self.to = f"ftp://127.0.0.1:{door}/"

    def close(self) -> None:
        self.server.close()


class LANPlace(Place):
    def __init__(self, flapping: Flapping, card: pathlib.Path) -> None:
        super().__init__(flapping, card)
        self.installer = Installer(self.install, is_patient=True)
        self.to = f"lan://127.0.0.1:{flapping.door(self.installer.port)}"
        self.digests: dict[str, list[str]] = {}  # of files that were fetched whole

    def install(self, console: Installer, address: str) -> None:
        """Fetch a file in ranges, each as often as it takes."""
        name, body = urllib.parse.unquote(address.rpartition("/")[2]), b""
        size = self.fetch(console, address, "HEAD", "")
        while size is not None and len(body) < int(size):
            stop = min(len(body) + 300_000, int(size))
            piece = self.fetch(console, address, "GET", f"{len(body)}-{stop - 1}")
            if piece is None:
                return
            body += piece
        if size is not None:
            self.digests.setdefault(name, []).append(digest(body))

    def fetch(self, console: Installer, address: str, method: str, span: str) -> Any:
        """Return the file's size or a range; None where it is not served any more."""
        for _ in range(200):
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                console.file(address) as file,
            ):
                file.connection.timeout = 1.0
                status, headers, body = file.ask(method, span and f"bytes={span}")
                if status == 404:
                    return None
                if status == 206:
                    return body
                if status == 200:
                    return headers["Content-Length"]
            time.sleep(0.02)
        return None

    def close(self) -> None:
        self.installer.close()

    def digest(self, name: str) -> str:
        return self.digests[name][-1]

    def watch(self) -> None:
        """It counts by itself."""

    def times(self, name: str) -> int:
        return len(self.digests[name])


@pytest.fixture(params=[Place, FTPPlace, LANPlace], ids=["folder", "ftp", "lan"])
def place(request: pytest.FixtureRequest, card: pathlib.Path) -> Iterator[Place]:
    print("SEED =", seed := os.environ.get("SEED") or str(random.randrange(10**6)))
    with contextlib.closing(Flapping(seed)) as flapping:
        place: Place = request.param(flapping, card)
        with contextlib.closing(place):
            yield place


class Watch:
    """What the page shows, at each moment."""

    def __init__(self, home: Home, place: Place, digests: dict[str, str]) -> None:
        self.home = home
        self.place = place
        self.digests = digests  # by file name
        self.lies: list[str] = []
        self._completed: set[str] = set()

    def look(self) -> bool:
        """Note where the page is not true. Return whether all has been sent."""
        self.place.watch()
        items = self.home.store.queue.items(self.home.anna)
        for item in items:
            name = f"{item['name']}.nsp"
            if item["status"] not in ("pending", "offered", "processing", "completed"):
                self.lies.append(f"{name} is {item['status']}: {item['error']}")
            if item["status"] != "completed" and name in self._completed:
                self.lies.append(f"{name} was completed, and is {item['status']}")
            if item["status"] == "completed" and name not in self._completed:
                self._completed.add(name)
                if self.place.digest(name) != self.digests[name]:
                    self.lies.append(f"{name} is completed, and not the file")
        if sum(item["status"] == "processing" for item in items) > 1:
            self.lies.append("Two files are sent at once.")
        return len(self._completed) == len(self.digests)


def queue(home: Home, dice: random.Random, round_: int, count: int) -> dict[str, str]:
    """Queue so many new files of different sizes. Return their digests by name."""
    made = {}
    for number in range(count):
        name = f"{round_}-{number}.nsp"
        body = dice.randbytes(dice.randrange(200_000, 5_000_000))
        made[name] = digest(body)
        home.library.add(name, body)
    home.web.scanner.scan()
    for row in by_age(home.store):
        if f"{row['name']}.nsp" in made:
            home.store.queue.send(home.anna, row["id"])
    return made


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client wait for less than a bad connection does."""
    monkeypatch.setattr(send_to_switch, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(send_to_switch, "FTP_FINISH_SECONDS", 1.0)
    monkeypatch.setattr(send_to_switch, "FTP_REASON_SECONDS", 0.2)
    monkeypatch.setattr(send_to_switch, "MAX_ORPHAN_SECONDS", 3.0)
    monkeypatch.setattr(send_to_switch, "MAX_PAUSE_SECONDS", 0.2)


class Stop(Exception):
    """Ends a client that would go on."""


@contextlib.contextmanager
def sending(home: Home, place: Place, watch: Watch) -> Iterator[None]:
    """Let a client send from the server behind the bad connections."""
    over = threading.Event()
    port = place.flapping.door(int(home.address.rpartition(":")[2]))
    sender = home.sender(place.to, address=f"http://127.0.0.1:{port}")

    def stop(*_: str) -> None:
        if over.is_set():
            raise Stop

    def run() -> None:
        try:
            with contextlib.suppress(Stop):
                sender.run(once=False)
        finally:
            if not over.is_set():
                watch.lies.append("The client has ended.")

    sender.watch.look = stop  # type: ignore[method-assign]
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        place.flapping.is_good = True
        over.set()
        thread.join()
        sender.server.close()


@pytest.mark.ci
@short_and_long(count=(6, 100), breaks=(20, 4000))
@pytest.mark.usefixtures("hurry")
def test_each_file_arrives_once_and_whole_and_the_page_is_true(
    home: Home, place: Place, count: int, breaks: int
) -> None:
    """Over each of three kinds of targets.

    :param breaks: of connections, until they are good.
    """
    dice = random.Random(place.flapping.seed)
    digests = queue(home, dice, 0, count)
    watch = Watch(home, place, digests)
    with sending(home, place, watch):
        rounds = 1
        while place.flapping.breaks < breaks and not watch.lies:
            if watch.look():
                digests |= queue(home, dice, rounds, count)
                rounds += 1
            time.sleep(0.05)
        place.flapping.is_good = True
        wait_for(lambda: watch.look() or watch.lies, PATIENCE)
    assert watch.lies == []
    assert {place.times(name) for name in digests} == {1}
    assert {name: place.digest(name) for name in digests} == digests
