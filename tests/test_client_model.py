"""The life of a queue item, walked at random: a console that keeps all, half or none of
a file, answers, hangs up, is silent, full or off, and has files of others; a file of
the library that is touched, replaced, overwritten or deleted meanwhile; people who
cancel, retry and replace; a client that ends. The rules stand in `Life`."""

import contextlib
import itertools
import os
import pathlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import send_to_switch
from conftest import Home
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
