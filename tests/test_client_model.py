"""The life of a queue item, walked at random: a console that keeps all, half or none of
a file, answers, hangs up, is silent, full or off, and has files of others; a file of
the library that is touched, replaced, overwritten or deleted meanwhile; people who
cancel, retry and replace; a client that ends. The rules stand in `Life`."""

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
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import send_to_switch
from conftest import Home, short_and_long, wait_for
from consoles import FTPConsole, Installer
from example import by_age
from ftpsrv import Ftpsrv

ENDED = {"completed", "failed", "cancelled"}
SIZE = 30_000  # bytes of each version
MAX_SENDS = 60  # STOR and APPE, until all has ended
COUNTER = itertools.count()


def content(number: int) -> bytes:
    return number.to_bytes(8, "big") * (SIZE // 8)


class Life:
    """A file, its queue items, and a console's card with files of others."""

    def __init__(self, home: Home, folder: pathlib.Path) -> None:
        self.home = home
        self.card = folder / f"card {next(COUNTER)}"
        self.card.mkdir()
        self.console = Ftpsrv(self.card)
        self.port = int(self.console.server_address[1])
        self.name = f"game {next(COUNTER)}.nsp"
        self.path = home.library.folder / self.name
        self.versions: list[bytes] = []
        self.others: dict[str, bytes] = {}  # that the console has of them
        self.may_replace = False
        self.ended: set[str] = set()
        self.sends = 0
        home.queue(self.name, self.version())
        self.entry = str(self.home.store.queue.items(home.anna)[-1]["entry"])
        self.state = home.state()
        self.restart()

    def close(self) -> None:
        self.cancel(0)
        self.turn_off()

    def version(self) -> bytes:
        self.versions.append(content(next(COUNTER)))  # which no other file has
        return self.versions[-1]

    def items(self) -> list[dict[str, object]]:
        rows = self.home.store.queue.items(self.home.anna)
        return [row for row in rows if row["entry"] == self.entry]

    # What happens; each takes a number that says how

    def send(self, number: int) -> None:
        """Let the client look at its queue once; while it sends, something happens."""
        self.during(number)
        with contextlib.suppress(send_to_switch.TargetOffline):
            self.sender.send_next()
        self.console.hold = lambda size: None
        self.check()

    def during(self, number: int) -> None:
        acts: list[Callable[[], object]] = [
            *[lambda: None] * 4,
            lambda: self.overwrite(number),
            lambda: self.touch(number),
            lambda: self.put(number),
        ]
        waiting = [acts[number % len(acts)]]

        def hold(size: int) -> None:
            if waiting and size > SIZE // 3:
                waiting.pop()()

        self.console.hold = hold

    def restart(self, number: int = 0) -> None:
        self.sender = self.home.sender(
            f"ftp://127.0.0.1:{self.port}/", state=self.state
        )
        self.sender.screen.say = lambda text: None  # type: ignore[method-assign]

    def change_mind(self, number: int) -> None:
        """The console keeps another share, and ends transfers in another way."""
        self.console.keeps = (1.0, 1.0, 0.5, 0.0)[number % 4]
        self.console.end = ("", "", "hangs up", "says nothing", "full")[number % 5]

    def turn_off(self, number: int = 0) -> None:
        self.sends += len(self.attempts())
        self.console.close()

    def turn_on(self, number: int) -> None:
        before = self.console
        self.turn_off()
        self.console = Ftpsrv(self.card, port=self.port)
        self.console.keeps, self.console.end = before.keeps, before.end

    def attempts(self) -> list[str]:
        commands = self.console.commands
        self.console.commands = []
        return [word for word in commands if word in ("STOR", "APPE")]

    def put(self, number: int) -> None:
        """Somebody puts a file there, by one of the names that the client uses."""
        name = self.name + ("", ".part")[number % 2]
        if not (self.card / name).exists():
            self.others[name] = (b"other", bytes(SIZE), b"o" * SIZE)[number % 3]
            (self.card / name).write_bytes(self.others[name])

    def overwrite(self, number: int) -> None:
        if self.path.exists():
            with open(self.path, "r+b") as file:
                file.write(self.version())

    def touch(self, number: int) -> None:
        if self.path.exists():
            os.utime(self.path, (number, number))
            self.home.web.scanner.scan()

    def replace_file(self, number: int) -> None:
        self.home.library.add(self.name, self.version(), mtime=1_600_000_000 + number)
        self.home.web.scanner.scan()

    def delete(self, number: int) -> None:
        self.path.unlink(missing_ok=True)
        self.home.web.scanner.scan()

    def queue(self, number: int) -> None:
        with contextlib.suppress(Exception):  # the file is gone
            self.home.store.queue.send(self.home.anna, self.entry)

    def cancel(self, number: int) -> None:
        for item in self.items():
            if item["status"] in ("pending", "processing"):
                self.home.store.queue.cancel(self.home.anna, str(item["id"]))

    def retry(self, number: int) -> None:
        for item in self.items():
            if item["status"] == "failed":
                way = ("retry", "replace")[number % 2]
                self.may_replace |= way == "replace"
                with contextlib.suppress(Exception):  # it is queued again
                    self.home.store.queue.retry(
                        self.home.anna, str(item["id"]), way=way
                    )

    # What always holds

    def check(self) -> None:
        for item in self.items():
            if item["status"] == "failed":
                assert item["error"]
        new = {str(i["id"]) for i in self.items() if i["status"] == "completed"}
        for _ in new - self.ended:
            found = (self.card / self.name).read_bytes()
            assert found in self.versions, "completed with bytes of no version"
            assert self.may_replace or self.name not in self.others, "overwritten"
            self.others.pop(self.name, None)
            self.may_replace = False
        self.ended |= new
        for name, body in self.others.items():
            if not (self.may_replace and name == self.name):
                assert (self.card / name).read_bytes() == body, name

    def finish(self) -> None:
        """Let the console be well, and the client go on until all has ended."""
        self.console.keeps, self.console.end = 1.0, ""
        self.turn_on(0)
        self.replace_file(1)
        for _ in range(20):
            self.home.web.scanner.scan()
            self.send(0)
            # What is for a file that was deleted waits, until somebody cancels it.
            here = [row for row in self.items() if row["state"] == "here"]
            if {row["status"] for row in here} <= ENDED:
                break
        assert {row["status"] for row in here} <= ENDED
        self.sends += len(self.attempts())
        assert self.sends <= MAX_SENDS
        left = {path.name for path in self.card.iterdir()} - self.others.keys()
        assert left <= {self.name}


EVENTS = (
    *["send"] * 4,
    *["change_mind"] * 3,
    *["turn_off", "turn_on", "restart", "put", "overwrite", "touch", "replace_file"],
    *["delete", "queue", "cancel", "retry", "retry"],
)
STEPS = st.tuples(st.sampled_from(EVENTS), st.integers(0, 200))


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.setattr(send_to_switch, "FTP_FINISH_SECONDS", 0.05)
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0.0)
    yield tmp_path


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("LIVES", "15")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
@given(steps=st.lists(STEPS, max_size=20))
@example(steps=[("change_mind", 2), ("send", 0)])
@example(steps=[("change_mind", 3), ("send", 0), ("retry", 0), ("send", 0)])
@example(steps=[("put", 0), ("send", 0), ("retry", 1), ("put", 1), ("send", 4)])
def test_each_life_of_an_item_ends_well(
    home: Home, folder: pathlib.Path, steps: list[tuple[str, int]]
) -> None:
    with contextlib.closing(Life(home, folder)) as life:
        for event, number in steps:
            getattr(life, event)(number)
        life.finish()


# Odd answers: any reply of a console, at any command and at any byte of a file, against
# a model of what is there. Each item ends sent and whole, or failed with a reason, or
# waits; none is sent and not there, and nothing ends the client.


GAME = os.urandom(150_000)
MAX_LOOKS = 12  # at the queue

REPLIES = [
    *["200 Fine", "202 No", "213 0", "213 5000000000", "213 x", "226 Done", "250 Yes"],
    *["331 Who?", "350 More", "421 Bye", "425 No", "426 Broken", "450 No", "451 Oh"],
    *["452 Full", "500 What?", "500 OOPS: killed", "501 bind failed", "502 No"],
    *["530 Please log in", "550 No such file", "551 Permission denied"],
    *["551 Invalid argument", "552 Quota", "553 File exists", "550-a\r\n550 b", "x"],
]
COMMANDS = ["USER", "TYPE", "CWD", "SIZE", "PASV", "EPSV", "LIST", "STOR", "APPE"]
COMMANDS += ["RETR", "REST", "RNFR", "RNTO", "DELE", "NOOP", "MKD"]
ENDS = ["452 Full", "500 OOPS", "426 I/O error", "550 No", "226 Done", ""]


class Odd:
    """A console that answers as told a few times, and is well then."""

    def __init__(self, home: Home, folder: pathlib.Path, kind: str) -> None:
        self.home = home
        self.card = folder / f"card {next(COUNTER)}"
        (self.card / "install:").mkdir(parents=True)
        self.console = FTPConsole(self.card)
        self.kind = kind
        self.installed: set[str] = set()
        if kind == "uses up":
            self.console.uses_up = self.use_up
        if kind == "install:":
            self.console.menu.is_good = self.install
            self.console.menu.closes = True
        to = self.console.url("/install:" if kind == "install:" else "/")
        self.sender = home.sender(to)
        self.sender.screen.say = lambda text: None  # type: ignore[method-assign]
        self.names = {
            home.queue(name, GAME): name
            for name in (f"a {next(COUNTER)}.nsp", f"ゲ {next(COUNTER)}.nsp")
        }

    def use_up(self, path: str) -> bool:
        if pathlib.Path(path).read_bytes() == GAME:
            self.installed.add(os.path.basename(path).removesuffix(".part"))
        return True

    def install(self, name: str) -> bool:
        is_whole = (self.card / "install:" / name).read_bytes() == GAME
        self.installed |= {name} if is_whole else set()
        return is_whole

    def is_there(self, name: str) -> bool:
        path = self.card / name  # of a disk, or what broke off was renamed there
        return name in self.installed or (path.exists() and path.read_bytes() == GAME)

    def look(self) -> None:
        """Let the client look at its queue, after a while."""
        self.sender.target._asks_at = 0.0  # type: ignore[attr-defined]
        with contextlib.suppress(send_to_switch.Offline):
            self.sender.send_next()
        self.check()

    def check(self) -> None:
        for item, name in self.names.items():
            row = self.home.item(item)
            assert row["status"] != "cancelled", row
            assert row["status"] != "failed" or row["error"]
            if row["status"] == "completed" and row.get("reason") != "ftp_untold":
                assert self.is_there(name), f"{name} is sent, and not there"

    def finish(self) -> None:
        """Nobody is odd any more: each item comes to its end."""
        self.console.answer = lambda command, name: ""
        self.console.drops, self.console.ends_after = {}, float("inf")
        self.console.end = ""
        for _ in range(MAX_LOOKS):
            self.console.menu.is_open = True
            self.console.menu.taken.clear()
            self.look()
        statuses = {self.home.item(item)["status"] for item in self.names}
        assert statuses <= {"failed", "completed"}

    def close(self) -> None:
        self.sender.target.close()
        self.console.close()
        for item in self.names:
            with contextlib.suppress(Exception):  # it has ended
                self.home.store.queue.cancel(self.home.anna, item)


class Script:
    """Replies by the number of the command, for a while."""

    def __init__(self, replies: list[tuple[str, int, str]]) -> None:
        self.replies, self.counts = replies, dict[str, int]()

    def answer(self, command: str, name: str) -> str:
        self.counts[command] = number = self.counts.get(command, -1) + 1
        for odd, at, reply in self.replies:
            if (odd, at) == (command, number):
                return reply
        return ""


@pytest.fixture
def quick(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    seconds = {"MENU": 0.0, "POLL": 0.01, "INSTALL": 0.3, "FTP_FINISH": 0.1}
    seconds |= {"FTP_REASON": 0.1, "TIMEOUT": 0.5, "LIST": 0.5, "CONNECT": 0.5}
    for name, value in seconds.items():
        monkeypatch.setattr(send_to_switch, f"{name}_SECONDS", value)
    monkeypatch.setattr(send_to_switch, "MAX_PAUSE_SECONDS", 0.01)
    yield tmp_path


KINDS = ["disk", "install:", "uses up"]
ODD_REPLY = st.tuples(
    st.sampled_from(COMMANDS), st.integers(0, 4), st.sampled_from(REPLIES)
)
BREAK = st.tuples(st.integers(0, len(GAME)), st.sampled_from(ENDS))


def walk(
    home: Home,
    folder: pathlib.Path,
    kind: str,
    replies: list[tuple[str, int, str]],
    breaks: list[tuple[int, str]],
) -> None:
    with contextlib.closing(Odd(home, folder, kind)) as odd:
        odd.console.answer = Script(replies).answer
        for after, reply in [*breaks, (10**9, "")]:
            odd.console.ends_after, odd.console.ends_with = after, reply
            odd.look()
        odd.finish()


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("ODD", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
@given(
    kind=st.sampled_from(KINDS),
    replies=st.lists(ODD_REPLY, max_size=5),
    breaks=st.lists(BREAK, max_size=2),
)
@example(kind="disk", replies=[("SIZE", 1, "213 x")], breaks=[(70_000, "500 OOPS")])
@example(kind="install:", replies=[("NOOP", 0, "426 Broken")], breaks=[(9, "")])
@example(kind="uses up", replies=[("STOR", 0, "551 Permission denied")], breaks=[])
@example(kind="disk", replies=[("RNTO", 0, "226 Done")], breaks=[])
def test_each_item_ends_sent_and_whole_or_says_why(
    home: Home,
    quick: pathlib.Path,
    kind: str,
    replies: list[tuple[str, int, str]],
    breaks: list[tuple[int, str]],
) -> None:
    walk(home, quick, kind, replies, breaks)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_reply_at_each_command(
    home: Home, quick: pathlib.Path, kind: str, command: str
) -> None:
    for reply, number in itertools.product(REPLIES, range(3)):
        walk(home, quick, kind, [(command, number, reply)], [])
    for after, reply in itertools.product((0, 70_000, len(GAME) - 1), ENDS):
        walk(home, quick, kind, [(command, 1, "426 Broken")], [(after, reply)])


# Connections that stall, break off and are slow, again and again


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
