"""Odd answers, walked at random: any reply of a console, at any command and at any byte
of a file, against a model of what is there. Each item ends sent and whole, or failed
with a reason, or waits; none is sent and not there, and nothing ends the client."""

import contextlib
import itertools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import send_to_switch
from conftest import Home
from consoles import FTPConsole

GAME = os.urandom(150_000)
COUNTER = itertools.count()
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
