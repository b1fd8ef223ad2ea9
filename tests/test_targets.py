"""Each kind of target: between a real server and a folder, a real FTP server, or an
installer that fetches files as consoles do."""

import contextlib
import errno
import hashlib
import io
import itertools
import json
import math
import ntpath
import os
import pathlib
import re
import shutil
import socket
import stat
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
import send_to_switch
from conftest import Clock, Home, free_port, small_disk, wait_for
from consoles import FTPConsole, Installer, Origin, Request, when_sent
from example import by_age
from ftpsrv import KINDS, Ftpsrv
from test_client import ITEM, writing_environment
from test_store import add_file, add_link, make, opened, send

GAME = os.urandom(3_000_000)  # several blocks, and more than a socket's buffers hold


@pytest.fixture(autouse=True)
def quick_menu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_to_switch, "MENU_SECONDS", 0.01)
    monkeypatch.setattr(send_to_switch, "INSTALL_SECONDS", 1.0)
    monkeypatch.setattr(send_to_switch, "POLL_SECONDS", 0.05)


@pytest.fixture
def console(card: pathlib.Path) -> Iterator[FTPConsole]:
    with contextlib.closing(FTPConsole(card)) as console:
        yield console


@pytest.fixture
def game(home: Home) -> str:
    """The id of an item of the queue, whose file game.nsp is GAME."""
    return home.queue("game.nsp", GAME)


@pytest.fixture
def installer() -> Iterator[Callable[..., Installer]]:
    with contextlib.ExitStack() as stack:

        def make(behave: Callable[[Installer, str], None]) -> Installer:
            return stack.enter_context(contextlib.closing(Installer(behave)))

        yield make


class Crash(BaseException):
    """The end of a client that gets no chance to clean up."""


def crash_when_sent(
    sender: send_to_switch.Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send an item, and crash before the server knows that it was sent."""

    monkeypatch.setattr(sender.reports, "_end", Mock(side_effect=Crash))
    monkeypatch.setattr(sender.reports, "release_now", lambda *given: None)
    with pytest.raises(Crash):
        sender.send_next()


def interrupt(sender: send_to_switch.Sender, count: int) -> None:
    """Send so many bytes of an item, and then press Ctrl-C."""

    when_sent(sender, count, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        sender.send_next()


def put_back(
    home: Home, item: str, sender: send_to_switch.Sender, why: str | None = None
) -> None:
    """Send an item, which is pending again, since its target is away."""
    with pytest.raises(send_to_switch.TargetOffline, match=why):
        sender.send_next()
    assert home.item(item)["status"] == "pending"


def files(folder: pathlib.Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )


# Any target


@pytest.mark.parametrize(
    "to",
    [
        *["", "folder:", "ftp://", "lan://", "smb://x", "ftp://[", "lan://h:x"],
        *["ftp://a..b/", f"lan://{'a' * 64}", "ftp://h/a%0d%0aDELE%20b"],
        *["ftp://me:%00@h", "ftp://h/\udcff"],
    ],
)
def test_a_wrong_target_is_refused(to: str) -> None:
    with pytest.raises(send_to_switch.Problem):
        send_to_switch.find_target(send_to_switch.Settings(to=to))


# A folder


@pytest.fixture(params=["folder", "ftp"])
def to(request: pytest.FixtureRequest, card: pathlib.Path, console: FTPConsole) -> str:
    """A folder, as a target of either kind."""
    return f"folder:{card}" if request.param == "folder" else console.url("/")


def test_a_target_gets_the_file_under_its_name_and_nothing_else(
    home: Home, card: pathlib.Path, to: str
) -> None:
    item = home.queue("A game [v0].nsp", GAME)
    assert home.sender(to).send_next()
    assert os.listdir(card) == ["A game [v0].nsp"]
    assert (card / "A game [v0].nsp").read_bytes() == GAME
    row = home.item(item)
    assert (row["status"], row["percent"]) == ("completed", 100)
    assert row["bytes"] == len(GAME)


def test_an_empty_file_is_incomplete_and_not_sent(home: Home) -> None:
    pathlib.Path(home.library.add("empty.nsp")).write_bytes(b"")
    os.utime(home.library.folder / "empty.nsp", (1, 1))
    home.web.scanner.scan()
    [entry] = by_age(home.store)
    with pytest.raises(catalogd.Conflict, match="The file is empty."):
        home.store.queue.send(home.anna, entry["id"])
    assert home.store.queue.items(home.anna) == []
    [row] = home.store.entries.tidy()
    assert row["reason"] == "incomplete"


@pytest.mark.parametrize("header", [{"Content_Range": "bytes */0"}, {}])
def test_an_empty_file_behind_a_link_is_sent(
    home: Home, card: pathlib.Path, to: str, header: dict[str, str]
) -> None:
    def answer(request: Request) -> None:
        status = 416 if request.headers.get("Range") else 200
        request.reply(status, **header, **({} if status == 416 else {"ETag": '"x"'}))

    with contextlib.closing(Origin(answer)) as origin:
        item = home.queue_link(f"{origin.url}/empty.nsp")
        home.sender(to).send_next()
    assert home.item(item)["status"] == "completed"
    assert (card / "Far.nsp").read_bytes() == b""


def test_two_entries_with_one_file_name_do_not_overwrite_each_other(
    home: Home, card: pathlib.Path, to: str
) -> None:
    """As two names are that differ in capitals on an SD card."""
    home.queue("one/game.nsp", GAME)
    home.queue("two/GAME.nsp", b"other")
    sender = home.sender(to)
    while sender.send_next():
        pass
    first, second = sorted(os.listdir(card), key=len)
    assert first == "game.nsp" and second.startswith("GAME (")
    assert (card / first).read_bytes() == GAME
    assert (card / second).read_bytes() == b"other"


def test_an_entry_keeps_its_file_name_on_the_target(
    home: Home, card: pathlib.Path, to: str
) -> None:
    sender = home.sender(to)
    for content in (b"first", b"second!"):
        home.queue("one/game.nsp", b"one")
        home.queue("two/game.nsp", content)
        while sender.send_next():
            pass
    assert len(os.listdir(card)) == 2
    assert {path.read_bytes() for path in card.iterdir()} == {b"one", b"second!"}


def test_a_file_that_is_there_already_counts_as_sent(
    home: Home, card: pathlib.Path, to: str, game: str
) -> None:
    (card / "game.nsp").write_bytes(GAME)
    os.utime(card / "game.nsp", (1, 1))
    home.sender(to).send_next()
    assert home.item(game)["status"] == "completed"
    assert (card / "game.nsp").stat().st_mtime == 1


@pytest.mark.parametrize("other", [b"old", bytes(len(GAME)), GAME[:-1] + b"?"])
@pytest.mark.parametrize("was_sent", [True, False])
def test_what_is_of_others_is_not_overwritten_unasked(
    home: Home, card: pathlib.Path, to: str, other: bytes, was_sent: bool
) -> None:
    item, sender = home.queue("game.nsp", GAME), home.sender(to)
    if was_sent:
        sender.send_next()
        home.store.queue.send(home.anna, home.item(item)["entry"])
        item = home.store.queue.items(home.anna)[-1]["id"]
    (card / "game.nsp").write_bytes(other)
    sender.send_next()
    row = home.item(item)
    assert row["status"] == "failed" and (card / "game.nsp").read_bytes() == other
    is_same_size = len(other) == len(GAME)
    assert row["reason"] == ("same_size_file" if is_same_size else "other_file")
    assert is_same_size or row["error"] == "Another file game.nsp is there."
    home.store.queue.retry(home.anna, item, way="replace")
    sender.send_next()
    assert (card / "game.nsp").read_bytes() == GAME


@pytest.mark.parametrize("size", [4, len(GAME), None])
def test_what_somebody_puts_there_meanwhile_is_not_overwritten_and_may_be_the_file(
    home: Home, card: pathlib.Path, to: str, size: int | None
) -> None:
    item, sender = home.queue("game.nsp", GAME), home.sender(to)
    other = GAME if size is None else b"x" * size
    when_sent(sender, 1_000_000, lambda: (card / "game.nsp").write_bytes(other))
    sender.send_next()
    assert home.item(item)["status"] == ("completed" if size is None else "failed")
    assert files(card) == ["game.nsp"]
    assert (card / "game.nsp").read_bytes() == other


def test_a_part_is_removed_where_its_file_is_there_by_now(
    home: Home, card: pathlib.Path, to: str
) -> None:
    item, sender = home.queue("game.nsp", GAME), home.sender(to)
    interrupt(sender, 1_000_000)
    (card / "game.nsp").write_bytes(GAME)
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert files(card) == ["game.nsp"]


def overwrite(path: pathlib.Path, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(content)


@pytest.mark.parametrize("folder", ["/", "/install:"])
def test_a_file_that_is_overwritten_in_place_meanwhile_is_sent_anew(
    home: Home, card: pathlib.Path, console: FTPConsole, folder: str
) -> None:
    (card / "install:").mkdir()
    item, sender = (
        home.queue("game.nsp", b"x" * 8_000_000),
        home.sender(console.url(folder)),
    )
    path, new = home.library.folder / "game.nsp", b"y" * 8_000_000
    when_sent(sender, 2_000_000, lambda: overwrite(path, new))
    sender.send_next()
    row = home.item(item)
    if folder == "/":
        assert row["status"] == "completed"
        assert (card / "game.nsp").read_bytes() == new
    else:  # what the console has taken is not sent again
        assert row["error"] == "The file has changed on the server."


def test_a_file_that_changes_for_ever_fails(
    home: Home, card: pathlib.Path, to: str
) -> None:
    def touch(progress: send_to_switch.Progress) -> None:
        times.append(len(times) + 1)
        os.utime(home.library.folder / "game.nsp", (times[-1], times[-1]))

    times: list[int] = []
    item, sender = home.queue("game.nsp", GAME), home.sender(to)
    sender.screen.show = touch  # type: ignore[method-assign, assignment]
    sender.send_next()
    error = home.item(item)["error"]
    assert error == "The file has changed on the server. Gave up after 3 attempts."
    assert files(card) == []


def test_overwrite_replaces_a_file_that_is_there(
    home: Home, card: pathlib.Path, to: str, game: str
) -> None:
    (card / "game.nsp").write_bytes(b"o" * len(GAME))
    home.sender(to, overwrite=True).send_next()
    assert (card / "game.nsp").read_bytes() == GAME


def test_an_item_that_may_replace_does_so_also_after_a_release(
    home: Home, card: pathlib.Path, to: str, game: str
) -> None:
    (card / "game.nsp").write_bytes(b"old")
    (card / "other.nsp").write_bytes(b"old")
    home.queue("other.nsp", GAME)
    sender = home.sender(to)
    while sender.send_next():
        pass
    home.store.queue.retry(home.anna, game, way="replace")
    key = {"key": home.item(game)["device"]}  # of the device that was sent to
    home.store.clients.report(home.anna, game, {"status": "processing", **key})
    home.store.clients.report(home.anna, game, {"release": True, **key})
    assert sender.send_next()
    assert not sender.send_next()
    assert home.item(game)["status"] == "completed"
    assert (card / "game.nsp").read_bytes() == GAME
    assert (card / "other.nsp").read_bytes() == b"old"


def test_a_newer_version_of_the_same_size_replaces_the_file(
    home: Home, card: pathlib.Path, to: str
) -> None:
    home.queue("game.nsp", b"o" * len(GAME))
    sender = home.sender(to)
    sender.send_next()
    home.library.add("game.nsp", GAME, mtime=1_700_000_000)
    home.web.scanner.scan()
    home.store.queue.send(home.anna, by_age(home.store)[0]["id"])
    sender.send_next()
    assert (card / "game.nsp").read_bytes() == GAME


def test_an_interrupted_file_is_resumed_and_the_servers_digest_is_that_of_the_whole(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str], game: str
) -> None:
    set_digest(home, hashlib.sha256(GAME).digest())
    sender = home.sender(f"folder:{card}")
    interrupt(sender, 1_000_000)
    have = (card / "game.nsp.part").stat().st_size
    assert have >= 1_000_000
    assert home.item(game)["status"] == "pending"
    home.sender(f"folder:{card}", state=sender.state).send_next()
    assert f"resuming at {send_to_switch.size_text(have)}" in capsys.readouterr().out
    assert (card / "game.nsp").read_bytes() == GAME


def same_state(home: Home) -> send_to_switch.State:
    """That of a client which may be started again."""
    return send_to_switch.State(str(home.folder / "state"), "server", "target")


def cancel_when_sent(home: Home, sender: send_to_switch.Sender, item: str) -> str:
    """Send a MB of an item, and cancel it. Return what can undo that."""
    actions: list[str] = []

    def show(progress: send_to_switch.Progress) -> None:
        if not actions and progress.moved >= 1_000_000:
            actions.append(home.store.queue.cancel(home.anna, item))
            for _ in range(600):
                progress.sleep(0.05)

    sender.screen.show = show  # type: ignore[method-assign, assignment]
    sender.send_next()
    return actions[0]


def test_the_command_of_on_done_runs_after_a_cancel(
    home: Home, card: pathlib.Path, tmp_path: pathlib.Path, game: str
) -> None:
    output = tmp_path / "output"
    sender = home.sender(f"folder:{card}", on_done=writing_environment(output))
    cancel_when_sent(home, sender, game)
    assert json.loads(output.read_text())["SEND_TO_SWITCH_STATUS"] == "failed"


@pytest.fixture(params=["folder", "ftp"])
def place(
    request: pytest.FixtureRequest, card: pathlib.Path, console: FTPConsole
) -> tuple[str, pathlib.Path]:
    """The address of a target, and its folder."""
    if request.param == "ftp":
        return console.url(), console.folder
    return f"folder:{card}", card


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_cancelled_is_resumed_when_that_is_undone(
    home: Home,
    place: tuple[str, pathlib.Path],
    capsys: pytest.CaptureFixture[str],
    is_restarted: bool,
) -> None:
    item, (to, folder) = home.queue("game.nsp", GAME), place
    sender = home.sender(to, state=same_state(home))
    cancelled = cancel_when_sent(home, sender, item)
    assert home.item(item)["status"] == "cancelled"
    assert home.item(item)["bytes"] >= 1_000_000
    assert not home.store.queue.progress.times()  # the server knows that it stopped
    assert sender.reports.failures == 0
    other = home.queue("other.nsp", GAME[:1000])
    sender.send_next()
    assert home.item(other)["status"] == "completed"
    assert files(folder) == ["game.nsp.part", "other.nsp"]

    home.store.queue.undo(home.anna, cancelled)
    if is_restarted:
        sender = home.sender(to, state=same_state(home))
    sender.send_next()
    assert "resuming at" in capsys.readouterr().out
    assert home.item(item)["status"] == "completed"
    assert (folder / "game.nsp").read_bytes() == GAME
    assert not sender.state.parts


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_cancelled_file_is_removed_once_that_can_no_longer_be_undone(
    home: Home,
    place: tuple[str, pathlib.Path],
    monkeypatch: pytest.MonkeyPatch,
    is_restarted: bool,
) -> None:
    item, (to, folder) = home.queue("game.nsp", GAME), place
    sender = home.sender(to, state=same_state(home))
    cancel_when_sent(home, sender, item)
    if is_restarted:
        sender = home.sender(to, state=same_state(home))
    sender.send_next()
    assert files(folder) == ["game.nsp.part"]
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0)
    sender.send_next()
    assert files(folder) == []
    assert not sender.state.parts


def test_a_cancelled_file_is_removed_where_another_has_no_room_beside_it(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = home.sender(f"folder:{card}")
    cancel_when_sent(home, sender, home.queue("game.nsp", GAME))
    real, size = shutil.disk_usage, len(GAME)

    def disk_usage(path: Any) -> Any:
        used = sum(file.stat().st_size for file in card.iterdir())
        return real(path)._replace(free=size - used)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    other = home.queue("other.nsp", GAME)
    sender.send_next()
    assert home.item(other)["status"] == "completed"
    assert files(card) == ["other.nsp"]
    assert sender.reports.failures == 0


@pytest.mark.parametrize("reply", ["452 Not enough space.", "426 Transfer aborted."])
def test_a_cancelled_file_is_removed_where_a_console_may_be_full(
    home: Home, console: FTPConsole, reply: str
) -> None:
    def lose() -> None:
        if console.ends_after < math.inf and part.exists():
            os.truncate(part, 1000)

    sender, part = home.sender(console.url()), console.folder / "other.nsp.part"
    cancel_when_sent(home, sender, home.queue("game.nsp", GAME))
    console.ends_after, console.ends_with = 1_000_000, reply
    console.before["DELE"] = lambda: setattr(console, "ends_after", math.inf)
    console.before["SIZE"] = lose  # the rest had no room
    other = home.queue("other.nsp", GAME)
    sender.send_next()
    assert home.item(other)["status"] == "completed"
    assert files(console.folder) == ["other.nsp"]


def test_a_file_that_fails_beside_a_cancelled_one_is_sent_once(
    home: Home, place: tuple[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    to, folder = place
    sender, sent = home.sender(to), list[str]()
    cancel_when_sent(home, sender, home.queue("game.nsp", GAME))
    other, send = home.queue("other.nsp", b"other"), sender.target.send
    set_digest(home, hashlib.sha256(b"another").digest())

    def count(download: send_to_switch.Download, state: send_to_switch.State) -> None:
        sent.append(download.item.entry_name)
        send(download, state)

    monkeypatch.setattr(sender.target, "send", count)
    sender.send_next()
    assert sent == ["other"]
    assert "arrived damaged" in home.item(other)["error"]
    assert files(folder) == ["game.nsp.part"]  # it may still be undone


def test_a_cancelled_file_is_removed_once_its_target_is_back(
    home: Home, place: tuple[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Mock(side_effect=send_to_switch.TargetOffline("It is away."))
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0)
    to, folder = place
    sender = home.sender(to)
    item = home.queue("game.nsp", GAME)
    cancel_when_sent(home, sender, item)
    with monkeypatch.context() as patch:
        patch.setattr(sender.target, "check_ready", away)
        sender.send_next()
    assert files(folder) == ["game.nsp.part"]
    assert sender.state.parts["game.nsp.part"][::2] == (item, True)
    sender.send_next()
    assert files(folder) == []
    assert not sender.state.parts


@pytest.mark.parametrize("is_lost", [True, False])
def test_what_has_failed_is_removed_once_its_target_is_back(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0)
    item = home.queue("game.nsp", GAME)
    set_digest(home, hashlib.sha256(b"another").digest())
    console.drops = {"DELE": int(is_lost)}
    console.refuses_once = {} if is_lost else {"DELE": "450 The file is busy."}
    sender = home.sender(console.url())
    sender.send_next()
    assert "arrived damaged" in home.item(item)["error"]
    assert files(console.folder) == ["game.nsp.part"]
    assert sender.state.parts["game.nsp.part"].version == ""  # which is not resumed
    sender.send_next()
    assert files(console.folder) == []
    assert not sender.state.parts


@pytest.mark.parametrize("way", ["cancel", "move"])
def test_a_part_of_an_item_that_is_not_for_this_client_any_more_is_removed(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0.0)
    item, sender = home.queue("game.nsp", GAME), home.sender(f"folder:{card}")
    interrupt(sender, 1_000_000)
    assert files(card) == ["game.nsp.part"]
    if way == "cancel":
        home.store.queue.cancel(home.anna, item)
    else:
        device = home.store.accounts.add_key(home.anna, "b", b"1", is_device=True)
        home.store.devices.move(home.anna, item, device, admin=False)
    sender.send_next()
    assert files(card) == []


def test_a_part_of_an_item_that_waits_is_kept(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0.0)
    sender = home.sender(f"folder:{card}")
    interrupt(sender, 1_000_000)
    home.store.database.write("UPDATE entries SET state = 'offline'", ())
    assert not sender.send_next()
    assert files(card) == ["game.nsp.part"]


def test_a_folder_that_keeps_a_part_is_asked_again(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO)))
    sender = home.sender(f"folder:{card}")
    cancel_when_sent(home, sender, home.queue("game.nsp", GAME))
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "unlink", fail)
        assert not sender.watch.remove_stopped()
    assert sender.watch.remove_stopped()
    assert files(card) == []


@pytest.mark.root
def test_a_part_of_an_older_version_takes_no_room_from_the_file(
    home: Home, card: pathlib.Path
) -> None:
    with small_disk(card, 4_000_000):
        item = home.queue("game.nsp", b"x" * 3_000_000)
        sender = home.sender(f"folder:{card}")
        interrupt(sender, 2_000_000)
        home.library.add("game.nsp", GAME, mtime=1_700_000_000)
        home.web.scanner.scan()
        home.sender(f"folder:{card}", state=sender.state).send_next()
        assert home.item(item)["status"] == "completed"
        assert (card / "game.nsp").read_bytes() == GAME


def test_a_new_version_that_gets_no_name_does_not_count_as_sent(
    home: Home, console: FTPConsole
) -> None:
    home.queue("game.nsp", b"x" * len(GAME))
    sender = home.sender(console.url())
    sender.send_next()
    home.library.add("game.nsp", GAME, mtime=1_700_000_000)
    home.web.scanner.scan()
    home.store.queue.send(home.anna, by_age(home.store)[0]["id"])
    item = home.store.queue.items(home.anna)[-1]["id"]
    console.refuses_once = {"RNTO": "550 The file is in use."}
    sender.send_next()
    assert "in use" in home.item(item)["error"]
    home.store.queue.retry(home.anna, item)
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_with_once_a_cancelled_file_is_removed_at_the_end(
    home: Home, card: pathlib.Path
) -> None:
    sender = home.sender(f"folder:{card}")
    cancel_when_sent(home, sender, home.queue("game.nsp", GAME))
    sender.run(once=True)
    assert files(card) == []


def test_a_cancelled_file_that_is_sent_anew_is_resumed(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str], game: str
) -> None:
    sender = home.sender(f"folder:{card}")
    cancel_when_sent(home, sender, game)
    home.store.queue.send(home.anna, home.item(game)["entry"])
    interrupt(sender, 500_000)
    sender.send_next()
    assert capsys.readouterr().out.count("resuming at") == 2
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_part_of_an_older_version_is_not_resumed(
    home: Home, card: pathlib.Path
) -> None:
    home.queue("game.nsp", b"x" * 3_000_000)
    sender = home.sender(f"folder:{card}")
    interrupt(sender, 1_000_000)
    home.library.add("game.nsp", GAME, mtime=1_700_000_000)
    home.web.scanner.scan()
    home.sender(f"folder:{card}", state=sender.state).send_next()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_part_of_others_stays_as_it_is(
    home: Home, card: pathlib.Path, to: str, game: str
) -> None:
    (card / "game.nsp.part").write_bytes(GAME[:1000])
    sender = home.sender(to)
    interrupt(sender, 1_000_000)
    assert len(files(card)) == 2
    sender.send_next()
    assert files(card) == ["game.nsp", "game.nsp.part"]
    assert (card / "game.nsp").read_bytes() == GAME
    assert (card / "game.nsp.part").read_bytes() == GAME[:1000]


def test_a_file_that_changes_in_mid_transfer_is_sent_from_the_start(
    home: Home, card: pathlib.Path
) -> None:
    home.queue(
        "game.nsp", os.urandom(30_000_000)
    )  # more than the sockets' buffers hold
    sender = home.sender(f"folder:{card}")

    def change() -> None:
        path = home.library.folder / "game.nsp"
        path.write_bytes(GAME)
        home.drop()

    when_sent(sender, 500_000, change)
    sender.send_next()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_file_that_was_sent_before_a_crash_is_not_sent_again(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    sender = home.sender(f"folder:{card}")
    crash_when_sent(sender, monkeypatch)
    assert home.item(game)["status"] == "processing"
    inode = (card / "game.nsp").stat().st_ino
    again = home.sender(f"folder:{card}", state=sender.state)
    assert again.send_next()
    assert home.item(game)["status"] == "completed"
    assert (card / "game.nsp").stat().st_ino == inode


def test_a_missing_folder_is_offline(home: Home, card: pathlib.Path, game: str) -> None:
    put_back(home, game, home.sender(f"folder:{card}/nowhere"), "Is the card in")


@pytest.fixture
def mounts(home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The mount points: the root, and that of a card with the folder of the target."""
    mounts = {"/", str(card)}
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounts)
    (card / "games").mkdir()
    return mounts


def test_nothing_is_written_where_the_card_is_not_in(
    home: Home, card: pathlib.Path, mounts: set[str]
) -> None:
    home.queue("a.nsp", GAME)
    state = home.state()
    home.sender(f"folder:{card}/games", state=state).send_next()
    mounts.remove(str(card))
    item = home.queue("b.nsp", GAME)
    again = home.sender(f"folder:{card}/games", state=state)
    put_back(home, item, again, "The card is not in")
    assert files(card) == ["games/a.nsp"]
    mounts.add(str(card))
    again.send_next()
    assert files(card) == ["games/a.nsp", "games/b.nsp"]


def test_a_card_that_is_not_in_any_more_gets_no_final_name(
    home: Home, card: pathlib.Path, mounts: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("a.nsp", GAME)
    monkeypatch.setattr(os, "fsync", lambda number: mounts.discard(str(card)))
    put_back(home, item, home.sender(f"folder:{card}/games"), "The card is not in")
    assert files(card) == ["games/a.nsp.part"]


def test_a_card_that_is_pulled_out_leaves_nothing_below_its_mount_point(
    home: Home, card: pathlib.Path, mounts: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(target: Any, name: str, download: Any) -> None:
        mounts.discard(str(card))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    item = home.queue("a.nsp", GAME)
    writes = iter([pull, send_to_switch.Folder.write])
    sender = home.sender(f"folder:{card}/games")
    monkeypatch.setattr(
        send_to_switch.Folder, "write", lambda *given: next(writes)(*given)
    )
    put_back(home, item, sender, "The card is not in")
    assert files(card) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows opens no folders")
@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.EIO])
def test_a_file_counts_as_sent_once_its_name_is_on_the_disk(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fsync(opened: int) -> None:
        real(opened)
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            synced.append((files(card), home.item(item)["status"]))
            if number and len(synced) == 1:
                raise OSError(number, os.strerror(number))

    real, synced = os.fsync, list[tuple[list[str], str]]()
    monkeypatch.setattr(os, "fsync", fsync)
    item = home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}").send_next()
    assert synced == [(["game.nsp"], "processing")]
    assert home.item(item)["status"] == "completed"


def test_a_mount_that_has_died_is_a_card_that_is_not_in(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    def fail(path: Any, **more: Any) -> os.stat_result:
        if str(path) == str(card):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return real(path, **more)

    real = os.stat
    sender = home.sender(f"folder:{card}")
    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(send_to_switch.TargetOffline, match="Is the card in"):
        sender.send_next()


def test_a_folder_whose_name_is_no_text_is_refused(home: Home) -> None:
    with pytest.raises(send_to_switch.Problem, match="is not UTF-8. Rename it"):
        home.sender("folder:/mnt/\udcff")


def test_a_card_that_is_put_in_later_is_noted(
    home: Home, card: pathlib.Path, mounts: set[str]
) -> None:
    sender = home.sender(f"folder:{card}/games")
    mounts.remove(str(card))
    assert sender.target.check_ready(sender.state) == "own_disk"
    mounts.add(str(card))
    assert sender.target.check_ready(sender.state) == send_to_switch.READY
    mounts.remove(str(card))
    with pytest.raises(send_to_switch.TargetOffline):
        sender.target.check_ready(sender.state)


def test_the_disk_of_the_home_folder_is_no_card(
    home: Home, card: pathlib.Path, mounts: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(card / "home"))
    home.queue("a.nsp", GAME)
    sender = home.sender(f"folder:{card}/games")
    sender.run(once=True)
    assert str(sender.watch.readiness) == "ready, on this computer's own disk"
    assert files(card) == ["games/a.nsp"]


def test_a_drive_of_windows_holds_no_home_on_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "path", ntpath)
    assert not send_to_switch.holds_home("E:\\")


def test_a_file_on_the_own_disk_is_told_once(
    home: Home,
    card: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(card / "home"))
    sender = home.sender(f"folder:{card}")
    sender.run(once=True)
    sender.watch._checked = -math.inf
    sender.run(once=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["Ready, on this computer's own disk", "The queue is empty."]


def test_an_item_is_put_back_when_the_server_can_be_reached_again(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    plain, outages = send_to_switch.Server.report, [1, 1]

    def report(self: Any, item: Any, client: str, **fields: Any) -> Any:
        if "release" in fields and outages:
            outages.pop()
            raise send_to_switch.ServerOffline("It restarts.")
        return plain(self, item, client, **fields)

    monkeypatch.setattr(send_to_switch.Server, "report", report)
    monkeypatch.setattr(os, "fsync", pull_out)
    put_back(home, game, home.sender(f"folder:{card}"))


@pytest.mark.root
def test_a_real_card_that_is_pulled_out_is_missed(
    home: Home, card: pathlib.Path, game: str
) -> None:
    sender = home.sender(f"folder:{card}")
    with small_disk(card, 10_000_000):
        sender.send_next()
        assert str(sender.watch.readiness) == "ready"
    home.queue("other.nsp", GAME)
    with pytest.raises(send_to_switch.TargetOffline, match="The card is not in"):
        sender.send_next()
    assert home.item(game)["status"] == "completed"
    assert files(card) == []


def test_a_read_only_folder_is_offline(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    home.queue("game.nsp", GAME)
    with pytest.raises(send_to_switch.TargetOffline, match="cannot be written to"):
        home.sender(f"folder:{card}").send_next()


@pytest.mark.root
def test_a_file_that_does_not_fit_fails_before_it_starts(
    home: Home, card: pathlib.Path, game: str
) -> None:
    with small_disk(card, 1_000_000):
        home.sender(f"folder:{card}").send_next()
        assert os.listdir(card) == []
    row = home.item(game)
    assert row["status"] == "failed"
    assert "has room for" in row["error"]
    assert "3.0 MB" in row["error"]


@pytest.mark.root
def test_a_disk_that_fills_up_in_mid_transfer_fails_the_item_and_keeps_no_part(
    home: Home, card: pathlib.Path, game: str
) -> None:
    small = home.queue("small.nsp", b"small")
    with small_disk(card, 4_000_000):
        sender = home.sender(f"folder:{card}")
        other = card / "other"
        when_sent(sender, 500_000, lambda: other.write_bytes(b"x" * 3_000_000))
        sender.send_next()
        assert "No space left on device" in home.item(game)["error"]
        assert os.listdir(card) == ["other"]
        sender.send_next()
        assert (card / "small.nsp").read_bytes() == b"small"
    assert home.item(small)["status"] == "completed"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EFBIG, "FAT32"),
        (errno.ENAMETOOLONG, "File name too long"),
        (errno.EDQUOT, "Disk quota exceeded"),
        (errno.EPERM, "Operation not permitted"),
        (errno.EIO, "Input/output error. Gave up after 3 attempts."),
    ],
)
def test_a_refusal_of_the_folder_fails_the_item(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    message: str,
) -> None:
    refuse = Mock(side_effect=OSError(number, os.strerror(number)))
    item = home.queue("game.nsp", GAME)
    monkeypatch.setattr(os, "fsync", refuse)
    home.sender(f"folder:{card}").send_next()
    assert message in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_folder_in_the_place_of_a_file_fails_the_item(
    home: Home, card: pathlib.Path, game: str
) -> None:
    (card / "game.nsp").mkdir()
    home.sender(f"folder:{card}").send_next()
    assert "Is a directory" in home.item(game)["error"]
    assert os.listdir(card) == ["game.nsp"]


@pytest.mark.parametrize(
    ("kept", "told"),
    [(5, "5 B of 3.0 MB."), (2_999_000, "2999000 B of 3000000 B.")],
)
def test_a_folder_that_lost_bytes_fails_the_item(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: int,
    told: str,
) -> None:
    item = home.queue("game.nsp", GAME)
    monkeypatch.setattr(os, "fsync", lambda number: os.ftruncate(number, kept))
    home.sender(f"folder:{card}").send_next()
    assert f"The folder kept {told}" in home.item(item)["error"]
    assert os.listdir(card) == []


def pull_out(*given: Any) -> None:
    raise send_to_switch.TargetOffline("no_folder", path="there")


def test_a_card_that_is_pulled_out_puts_the_item_back(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: card.rename(f"{card}.out"))
    put_back(home, game, home.sender(f"folder:{card}"), "Is the card in?")


@pytest.mark.parametrize("once", [True, False])
def test_an_item_that_the_target_does_not_take_now_goes_behind_the_others(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    class Enough(Exception):
        """Ends a client that would go on."""

    def check_room(target: Any, download: Any, start: int = 0) -> None:
        if download.name == "a.nsp":
            pull_out()

    def say(text: str) -> None:
        if "Trying again" in text:
            raise Enough

    first, second = home.queue("a.nsp", GAME), home.queue("b.nsp", GAME)
    monkeypatch.setattr(send_to_switch.Folder, "check_room", check_room)
    sender = home.sender(f"folder:{card}")
    monkeypatch.setattr(sender.screen, "say", say)
    with pytest.raises(send_to_switch.TargetOffline if once else Enough):
        sender.run(once)
    assert home.item(first)["status"] == "pending"
    assert home.item(second)["status"] == "completed"
    assert sender.reports.failures == 0
    monkeypatch.undo()
    sender.send_next()
    assert home.item(first)["status"] == "completed"


def test_a_card_that_cannot_hold_the_file_refuses_it_before_it_is_copied(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    class FAT32File(io.FileIO):
        """Beyond 4 GiB, Linux answers EINVAL to a seek there."""

        def seek(self, place: int, whence: int = 0) -> int:
            if place >= len(GAME):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return super().seek(place, whence)

    monkeypatch.setattr(send_to_switch, "FAT32_LIMIT_BYTES", len(GAME))
    monkeypatch.setattr(send_to_switch, "open", FAT32File, raising=False)
    home.sender(f"folder:{card}").send_next()
    assert "takes no file of 4 GiB" in home.item(game)["error"]
    assert home.item(game)["bytes"] == 0


def set_digest(home: Home, digest: bytes) -> None:
    """Let the server send this SHA-256 with its files, as Repr-Digest."""
    for known in home.store.entries.served_files():
        now = os.stat(known.path)
        known = known._replace(size=now.st_size, mtime=now.st_mtime_ns)
        home.store.entries.set_checksum(known._replace(sha256=digest.hex()))


@pytest.mark.parametrize("seam", [1000, 2**20])
def test_a_damaged_part_is_sent_from_its_start(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seam: int
) -> None:
    monkeypatch.setattr(send_to_switch, "SEAM_BYTES", seam)
    item = home.queue("game.nsp", GAME)
    set_digest(home, hashlib.sha256(GAME).digest())
    sender = home.sender(f"folder:{card}")
    interrupt(sender, 1_000_000)
    with open(card / "game.nsp.part", "r+b") as part:
        part.write(b"damage")
    home.sender(f"folder:{card}", state=sender.state).send_next()
    assert home.item(item)["status"] == "completed"
    assert (card / "game.nsp").read_bytes() == GAME


@pytest.mark.parametrize("folder", [None, "/", "/install:"])
def test_a_file_with_another_digest_than_the_servers_fails(
    home: Home, card: pathlib.Path, console: FTPConsole, folder: str | None, game: str
) -> None:
    (card / "install:").mkdir()
    set_digest(home, hashlib.sha256(b"other").digest())
    home.sender(f"folder:{card}" if folder is None else console.url(folder)).send_next()
    assert "arrived damaged" in home.item(game)["error"]
    assert not (card / "game.nsp").exists()


def test_verify_reads_the_file_back(home: Home, card: pathlib.Path, game: str) -> None:
    home.sender(f"folder:{card}", verify=True).send_next()
    assert home.item(game)["status"] == "completed"


def test_verify_finds_a_worn_out_card(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.setattr(os, "fsync", lambda number: os.pwrite(number, b"x", 7))
    home.sender(f"folder:{card}", verify=True).send_next()
    assert "reads back differently" in home.item(game)["error"]


# A console's FTP server


def test_an_account_of_the_console_is_used(home: Home, console: FTPConsole) -> None:
    home.queue("game.nsp", GAME)
    home.sender(console.url().replace("//", "//me:p%40ss@", 1)).send_next()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_the_install_folder_is_the_default_and_gets_a_plain_stream(
    home: Home, console: FTPConsole, game: str
) -> None:
    (console.folder / "install:").mkdir()
    home.sender(console.url("")).send_next()
    assert files(console.folder) == ["install:/game.nsp"]
    assert not {"REST", "RNFR", "RNTO", "APPE"}.intersection(console.commands)
    assert console.commands[-4:] == ["NOOP", "TYPE", "PASV", "question"]


@pytest.mark.parametrize("has_folder", [True, False])
def test_homebrew_goes_to_the_switch_folder(
    home: Home, console: FTPConsole, has_folder: bool
) -> None:
    (console.folder / "install:").mkdir()
    if has_folder:
        (console.folder / "switch").mkdir()
    home.queue("app.nro", GAME)
    home.sender(console.url("/install:")).send_next()
    assert files(console.folder) == ["switch/app.nro"]


def test_a_console_that_is_off_is_offline(home: Home, console: FTPConsole) -> None:
    item = home.queue("game.nsp", GAME)
    console.close()
    put_back(home, item, home.sender(console.url()), "Nothing listens at port")


def test_a_console_that_accepts_and_says_nothing_is_soon_offline(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = home.sender(f"ftp://127.0.0.1:{silent.getsockname()[1]}/")
        why = "Is the program open on the console"
        with pytest.raises(send_to_switch.TargetOffline, match=why):
            sender.target.check_ready(sender.state)


def test_what_a_console_does_after_its_greeting_may_take_longer(
    home: Home, console: FTPConsole
) -> None:
    target: Any = home.sender(console.url()).target
    assert target.check_ready(home.state()) == send_to_switch.READY
    seconds = send_to_switch.TIMEOUT_SECONDS
    assert target._ftp.timeout == target._ftp.sock.gettimeout() == seconds
    target.close()


@pytest.mark.parametrize("folder", ["/nowhere", "/install:"])
def test_a_folder_that_cannot_be_created_fails_the_item(
    home: Home, console: FTPConsole, folder: str, game: str
) -> None:
    console.refuses = {"MKD": "550 Read-only file system."}
    home.sender(console.url(folder)).send_next()
    why = f"has no folder {folder}" if ":" in folder else f"refuses the folder {folder}"
    assert why in home.item(game)["error"]
    # What is on no disk is not to be created.
    assert ("MKD" in console.commands) == (not folder.endswith(":"))


def test_a_connection_that_breaks_is_an_error_whatever_the_console_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = send_to_switch.FTP(send_to_switch.Settings(to="ftp://console"))
    data, other_end = socket.socketpair()
    other_end.close()
    monkeypatch.setattr(target, "_open", lambda name, start: data)
    monkeypatch.setattr(target, "_read_end", lambda *given: None)  # as after a 226
    download = Mock(**{"progress.start": 0, "chunks.return_value": [GAME]})
    download.progress.cancels.return_value = contextlib.nullcontext()
    with pytest.raises(BrokenPipeError):
        target.write("game.nsp", download)


def test_a_missing_folder_is_created_with_those_that_it_is_in(
    home: Home, console: FTPConsole, game: str
) -> None:
    (console.folder / "games").mkdir()
    home.sender(console.url("/games//new/b/")).send_next()
    assert files(console.folder) == ["games/new/b/game.nsp"]


@pytest.mark.parametrize("size", [0, 500_000])
def test_homebrew_goes_to_the_folder_where_the_server_forbids_its_own(
    home: Home, console: FTPConsole, size: int
) -> None:
    (console.folder / "switch").write_text("no folder")
    item = home.queue("app.nro", GAME)
    console.ends_after = size or math.inf
    home.sender(console.url("/games")).send_next()
    assert home.item(item)["status"] == ("failed" if size else "completed")
    assert files(console.folder) == [*([] if size else ["games/app.nro"]), "switch"]


def test_an_installer_gets_no_homebrew_where_the_server_forbids_its_folder(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    (console.folder / "switch").write_text("no folder")
    item = home.queue("app.nro", GAME)
    home.sender(console.url("")).send_next()
    assert "refuses the folder /switch: 550" in home.item(item)["error"]
    assert files(console.folder) == ["switch"]


STAGES = ["USER", "TYPE", "CWD", "SIZE", "PASV", "STOR", "RNFR", "RNTO"]


@pytest.mark.parametrize("stage", STAGES[2:])
def test_a_connection_that_drops_at_any_command_is_opened_again(
    home: Home, console: FTPConsole, stage: str, game: str
) -> None:
    console.drops = {stage: 2}
    home.sender(console.url()).send_next()
    assert home.item(game)["status"] == "completed"
    assert files(console.folder) == ["game.nsp"]
    assert (console.folder / "game.nsp").read_bytes() == GAME


@pytest.mark.parametrize("stage", STAGES[:2])
def test_a_connection_that_drops_at_its_start_is_a_console_that_is_offline(
    home: Home, console: FTPConsole, stage: str, game: str
) -> None:
    console.drops = {stage: 1}
    sender = home.sender(console.url())
    put_back(home, game, sender)
    sender.send_next()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_a_connection_that_always_breaks_fails_the_item_but_not_the_next(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    first, second = home.queue("a.nsp", GAME), home.queue("b.nsp", GAME)
    console.drops_data = send_to_switch.MAX_ATTEMPTS
    sender = home.sender(console.url(""))
    assert sender.send_next()
    assert "The connection to the console broke" in home.item(first)["error"]
    assert sender.send_next()
    assert home.item(second)["status"] == "completed"
    home.store.queue.retry(home.anna, first)
    console.drops_data = 1  # an install starts over
    assert sender.send_next()
    assert home.item(first)["status"] == "completed"
    assert (console.folder / "install:/a.nsp").read_bytes() == GAME
    assert "REST" not in console.commands


@pytest.mark.parametrize("folder", ["/", "/install:"])
def test_a_console_that_is_switched_off_in_mid_transfer_puts_the_item_back(
    home: Home, console: FTPConsole, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (console.folder / "install:").mkdir()
    item = home.queue("game.nsp", GAME)
    sender = home.sender(console.url(folder))
    when_sent(sender, 500_000, console.close)
    with pytest.raises(send_to_switch.TargetOffline) as error:
        sender.send_next()
    why = f"put back into the queue: {error.value}\n"
    assert capsys.readouterr().out.endswith(why)
    row = home.item(item)
    assert row["status"] == "pending"
    assert (row["bytes"] > 0) == (row["percent"] > 0) == (folder == "/")


def test_a_name_that_the_console_refuses_fails_the_item_but_not_the_next(
    home: Home, console: FTPConsole
) -> None:
    first, second = home.queue("bad.nsp", GAME), home.queue("good.nsp", GAME)
    console.refuses = {"STOR": "553 File name not allowed."}
    sender = home.sender(console.url())
    sender.send_next()
    row = home.item(first)
    assert row["status"] == "failed"
    assert "The console refuses bad.nsp" in row["error"]
    assert files(console.folder) == []
    console.refuses = {}
    sender.send_next()
    assert home.item(second)["status"] == "completed"


def test_an_install_menu_that_is_closed_puts_the_item_back(
    home: Home, console: FTPConsole, game: str
) -> None:
    (console.folder / "install:").mkdir()
    console.menu.is_open = False
    sender = home.sender(console.url(""))
    put_back(home, game, sender, "Is its FTP install open")


@pytest.mark.parametrize(("name", "folder"), [("game.nsp", "/"), ("app.nro", "")])
def test_a_console_that_is_full_fails_the_item_and_keeps_no_part(
    home: Home, console: FTPConsole, name: str, folder: str
) -> None:
    (console.folder / "install:").mkdir()
    item = home.queue(name, GAME)
    console.ends_after = 1_000_000
    home.sender(console.url(folder)).send_next()
    assert "The console is full" in home.item(item)["error"]
    assert files(console.folder) == []


def test_a_console_that_stops_reading_and_reports_success_gets_the_rest(
    home: Home, console: FTPConsole
) -> None:
    home.queue("game.nsp", os.urandom(30_000_000))
    console.ends_after = 10_000_000
    console.ends_with = "226 Thank you."
    home.sender(console.url()).send_next()
    assert files(console.folder) == ["game.nsp"]
    assert (console.folder / "game.nsp").stat().st_size == 30_000_000


@pytest.mark.root
def test_a_console_with_a_full_card_fails_the_item(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    monkeypatch.setattr(send_to_switch, "FTP_FINISH_SECONDS", 0.5)
    with small_disk(console.folder, 1_000_000):
        home.sender(console.url()).send_next()
        assert files(console.folder) == []
    # its reply is 426, without a reason, or none: with Python 3.14 pyftpdlib fails
    # where it closes the file
    assert "Is its card full?" in home.item(game)["error"]


def test_a_console_that_goes_silent_fails_the_item_after_several_attempts(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    (console.folder / "install:").mkdir()
    for name in ("FTP_FINISH_SECONDS", "FTP_REASON_SECONDS"):
        monkeypatch.setattr(send_to_switch, name, 0.1)
    item = home.queue("game.nsp", os.urandom(30_000_000))
    console.ends_after, console.ends_with = 1_000_000, ""
    sender = home.sender(console.url(""))
    sender.send_next()
    error = home.item(item)["error"]
    assert error.startswith("The console ended the transfer (no answer in time).")
    assert error.endswith("Gave up after 2 attempts.")


def test_ftp_resumes_after_a_restart_of_the_client(
    home: Home, console: FTPConsole, capsys: pytest.CaptureFixture[str]
) -> None:
    game = os.urandom(30_000_000)  # more than the sockets' buffers hold
    home.queue("game.nsp", game)
    sender = home.sender(console.url())
    interrupt(sender, 20_000_000)
    home.sender(console.url(), state=sender.state).send_next()
    assert (console.folder / "game.nsp").read_bytes() == game
    assert "resuming at" in capsys.readouterr().out


def test_ftp_verify_starts_over_where_the_server_has_no_digest(
    home: Home, console: FTPConsole, game: str
) -> None:
    console.drops_data = 1
    home.sender(console.url(), verify=True).send_next()
    assert (console.folder / "game.nsp").read_bytes() == GAME
    assert "REST" not in console.commands


@pytest.mark.parametrize("folder", ["", "/"])
def test_ftp_does_not_send_again_what_was_sent_before_a_crash(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (console.folder / "install:").mkdir()
    item = home.queue("game.nsp", GAME)
    sender = home.sender(console.url(folder))
    crash_when_sent(sender, monkeypatch)
    home.sender(console.url(folder), state=sender.state).send_next()
    assert home.item(item)["status"] == "completed"
    assert console.commands.count("STOR") == 1


def test_ftp_verify_finds_a_damaged_file(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    console.before = {
        "RETR": lambda: (console.folder / "game.nsp.part").write_bytes(b"x" * 9)
    }
    home.sender(console.url(), verify=True).send_next()
    assert "reads back differently" in home.item(game)["error"]
    assert files(console.folder) == []


def test_a_part_that_lost_bytes_on_the_console_is_resumed(
    home: Home, console: FTPConsole, game: str
) -> None:
    part = console.folder / "game.nsp.part"
    shrink = iter([lambda: None, lambda: os.truncate(part, 2_000_000)])
    console.before = {"SIZE": lambda: next(shrink, lambda: None)()}
    home.sender(console.url()).send_next()
    assert (console.folder / "game.nsp").read_bytes() == GAME
    assert console.commands.count("STOR") == 1


@pytest.mark.parametrize("kept", [0, 2_000_000])
def test_a_console_that_keeps_fewer_bytes_than_it_took_fails_the_item(
    home: Home, console: FTPConsole, kept: int
) -> None:
    item, other = home.queue("game.nsp", GAME), home.queue("other.nsp", b"x")
    part = console.folder / "game.nsp.part"

    def lose() -> None:
        if part.exists():
            os.truncate(part, kept)

    console.before = {"SIZE": lose}
    sender = home.sender(console.url())
    sender.send_next()
    row, size = home.item(item), send_to_switch.size_text(kept)
    why = f"The console kept {size} of 3.0 MB. Gave up after 3 attempts."
    assert (row["status"], row["error"], row["reason"]) == ("failed", why, "gave_up")
    sends = console.commands.count("STOR") + console.commands.count("APPE")
    assert sends == (3 if not kept else 4)
    assert files(console.folder) == []
    sender.send_next()
    assert home.item(other)["status"] == "completed"
    console.before = {}
    home.store.queue.retry(home.anna, item)
    sender.send_next()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def keep_nothing(console: FTPConsole) -> None:
    """Let the console answer 226, and lose what it took."""
    part = console.folder / "game.nsp.part"
    console.before = {"SIZE": lambda: part.exists() and os.truncate(part, 0)}


def test_attempts_count_over_restarts_of_the_client(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    end = Mock(side_effect=KeyboardInterrupt)
    keep_nothing(console)
    with monkeypatch.context() as patch:
        patch.setattr(send_to_switch.Progress, "sleep", end)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                home.sender(console.url(), state=same_state(home)).send_next()
            assert home.item(game)["status"] == "pending"
        home.sender(console.url(), state=same_state(home)).send_next()
    why = "The console kept 0 B of 3.0 MB. Gave up after 3 attempts."
    assert home.item(game)["error"] == why


@pytest.mark.parametrize("attempts", [3, None])
def test_attempts_count_over_clients(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, attempts: Any
) -> None:
    """As a server counts them that has a number for the item."""
    reports: list[Any] = []

    def report(self: Any, item: Any, client: str, **fields: Any) -> Any:
        reports.extend([fields] if fields.get("error_code") else [])
        return {**plain(self, item, client, **fields), "attempts": attempts}

    plain = send_to_switch.Server.report
    monkeypatch.setattr(send_to_switch.Server, "report", report)
    item = home.queue("game.nsp", GAME)
    keep_nothing(console)
    home.sender(console.url()).send_next()
    assert "Gave up after 3 attempts." in home.item(item)["error"]
    *tries, end = reports
    assert len(tries) == (1 if attempts == 3 else 3)
    arguments = {"done": "0 B", "size": "3.0 MB"}
    code = {"error_code": "bytes_lost", "error_arguments": arguments}
    for fields in tries:
        assert fields == {**fields, **code, "bytes_kept": 0, "status": "processing"}
    why = {"code": "bytes_lost", "arguments": arguments}
    assert end["error_arguments"] == {"why": why, "count": 3}


def test_attempts_that_end_before_their_first_byte_count_as_well(
    home: Home, console: FTPConsole
) -> None:
    item, other = home.queue("game.nsp", GAME), home.queue("other.nsp", GAME)
    console.drops = {"CWD": send_to_switch.MAX_ATTEMPTS}
    sender = home.sender(console.url())
    sender.send_next()
    assert "The connection to the console broke" in home.item(item)["error"]
    assert "Gave up after 3 attempts." in home.item(item)["error"]
    sender.send_next()
    assert home.item(other)["status"] == "completed"


def test_an_attempt_is_counted_also_while_the_server_is_away(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(self: Any, item: Any, client: str, **fields: Any) -> Any:
        if "bytes_kept" in fields:
            raise send_to_switch.ServerOffline("It restarts.")
        return plain(self, item, client, **fields)

    plain = send_to_switch.Server.report
    monkeypatch.setattr(send_to_switch.Server, "report", report)
    item = home.queue("game.nsp", GAME)
    keep_nothing(console)
    home.sender(console.url()).send_next()
    assert "Gave up after 3 attempts." in home.item(item)["error"]


@pytest.mark.parametrize("end", ["hangs up", "says nothing"])
def test_a_part_that_is_whole_is_renamed_and_not_sent_again(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(send_to_switch, "FTP_FINISH_SECONDS", 0.2)
    first, second = home.queue("game.nsp", GAME), home.queue("other.nsp", GAME)
    console.end = end
    sender = home.sender(console.url())
    if end == "says nothing":  # once; then the next item goes first
        with pytest.raises(send_to_switch.Unfinished):
            sender.send_next()
        assert home.item(first)["status"] == home.item(second)["status"] == "pending"
    console.end = end if end == "hangs up" else ""
    while sender.send_next():
        pass
    assert home.item(first)["status"] == home.item(second)["status"] == "completed"
    assert (console.folder / "game.nsp").read_bytes() == GAME
    sends = [word for word in console.commands if word in ("STOR", "APPE")]
    assert sends == ["STOR", "STOR"]


def test_a_console_that_never_says_that_it_is_done_holds_up_no_other_item(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.answer = lambda command, name: "213 0" if command == "SIZE" else ""
    monkeypatch.setattr(send_to_switch, "FTP_FINISH_SECONDS", 0.1)
    first, second = home.queue("a.nsp", GAME), home.queue("b.nsp", GAME)
    console.end = "says nothing"
    sender = home.sender(console.url("/any"))
    sender.screen.say = lambda text: texts.append(text)  # type: ignore[method-assign]
    texts: list[str] = []
    for _ in range(20):
        with contextlib.suppress(send_to_switch.TargetOffline):
            if not sender.send_next():
                break
    for item in (first, second):
        assert "does not say that it is done. Gave up" in home.item(item)["error"]
    assert console.commands.count("STOR") == 6
    assert [text[0] for text in texts if ": sending" in text][:2] == ["a", "b"]


REFUSED = "502 Command not implemented."


@pytest.mark.parametrize("command", ["RNFR", "DELE"])
def test_a_console_that_renames_nothing_gets_the_file_by_its_own_name(
    home: Home, console: FTPConsole, command: str, game: str
) -> None:
    console.refuses = {"RNFR": REFUSED, command: "550 Not allowed."}
    sender = home.sender(console.url())
    sender.send_next()
    assert home.item(game)["status"] == "completed"
    assert (console.folder / "game.nsp").read_bytes() == GAME
    left = ["game.nsp.part"] if command == "DELE" else []
    assert files(console.folder) == ["game.nsp", *left]
    assert sender.state.parts == {}


@pytest.mark.parametrize("is_other", [False, True])
@pytest.mark.parametrize(
    ("trouble", "by_command"),
    [
        ("refuses", {"RNFR": REFUSED}),
        ("refuses_once", {"RNTO": "250 It is not done."}),
        ("refuses", {"RNTO": "250 It is not done."}),
        *[("drops", {command: 1}) for command in ("RNFR", "RNTO")],
    ],
)
def test_a_file_has_its_name_whatever_becomes_of_renaming(
    home: Home,
    console: FTPConsole,
    trouble: str,
    by_command: dict[str, Any],
    is_other: bool,
) -> None:
    """Also where somebody asks to replace the other one that is there."""
    if is_other:
        (console.folder / "game.nsp").write_bytes(b"old")
    item = home.queue("game.nsp", GAME)
    setattr(console, trouble, by_command)
    home.sender(console.url(), overwrite=is_other).send_next()
    assert home.item(item)["status"] == "completed"
    assert files(console.folder) == ["game.nsp"]
    assert (console.folder / "game.nsp").read_bytes() == GAME


# Resuming, as the FTP server inside Sphaira does it


@pytest.fixture
def ftpsrv(card: pathlib.Path) -> Iterator[Ftpsrv]:
    with contextlib.closing(Ftpsrv(card)) as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "size"), [("ftpsrv", ""), *((kind, "500 No.") for kind in KINDS)]
)
def test_each_server_gets_the_rest_and_keeps_what_is_of_others(
    home: Home, card: pathlib.Path, kind: str, size: str
) -> None:
    (card / "folder").mkdir()
    with contextlib.closing(Ftpsrv(card, kind=KINDS[kind])) as server:
        server.refuses = {"SIZE": [size] * 99}
        server.drop_at = [3_000_000]
        item, sender = home.queue("a game.nsp", BIG), home.sender(server.url)
        sender.send_next()
        assert (card / "a game.nsp").read_bytes() == BIG
        home.store.queue.send(home.anna, home.item(item)["entry"])
        sender.send_next()
        (card / "other.nsp").write_bytes(bytes(len(GAME)))
        other = home.queue("other.nsp", GAME)
        sender.send_next()
        assert home.item(other)["reason"] == "same_size_file"
        assert (card / "other.nsp").read_bytes() == bytes(len(GAME))
        home.store.queue.retry(home.anna, other, way="replace")
        sender.send_next()
        assert (card / "other.nsp").read_bytes() == GAME
        assert files(card) == ["a game.nsp", "other.nsp"]
        assert [server.commands.count(word) for word in ("STOR", "APPE")] == [2, 1]


BIG = os.urandom(8_000_000)  # some of it has arrived when the rest is lost


@pytest.fixture(params=["ftpsrv", "pyftpdlib"])
def drops(
    request: pytest.FixtureRequest, card: pathlib.Path
) -> Iterator[FTPConsole | Ftpsrv]:
    """A console whose connections break in the middle of a file."""
    if request.param == "ftpsrv":
        with contextlib.closing(Ftpsrv(card)) as server:
            server.drop_at = [3_000_000, 5_000_000]
            yield server
    else:
        with contextlib.closing(FTPConsole(card)) as console:
            console.drops_data = 3
            yield console


def address(console: FTPConsole | Ftpsrv) -> str:
    return console.url if isinstance(console, Ftpsrv) else console.url()


def test_a_file_is_resumed_by_appending_to_it_and_rest_is_for_reading_back_alone(
    home: Home,
    drops: FTPConsole | Ftpsrv,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_to_switch, "SEAM_BYTES", 1000)
    item = home.queue("game.nsp", BIG)
    home.sender(address(drops)).send_next()
    assert (card / "game.nsp").read_bytes() == BIG
    assert home.item(item)["status"] == "completed"
    assert drops.commands.count("STOR") == 1 and "APPE" in drops.commands
    places = [n for n, word in enumerate(drops.commands) if word == "REST"]
    assert {drops.commands[place + 1] for place in places} == {"RETR"}


def test_a_console_that_does_not_seek_is_read_back_from_the_start(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path
) -> None:
    home.queue("game.nsp", BIG)
    ftpsrv.drop_at = [3_000_000]
    ftpsrv.refuses = {"REST": ["502 Not implemented."] * 9}
    home.sender(ftpsrv.url).send_next()
    assert (card / "game.nsp").read_bytes() == BIG
    assert ftpsrv.commands.count("STOR") == 1


@pytest.mark.parametrize(
    "refuses",
    [
        {"APPE": ["502 Command not implemented."]},
        {"APPE": ["550 Permission denied."]},
        {"RETR": ["550 Permission denied."] * 2},
        {"SIZE": ["502 No."] * 99, "LIST": ["502 No."] * 99},
    ],
)
def test_a_console_that_cannot_resume_gets_the_file_from_its_start(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, refuses: dict[str, list[str]]
) -> None:
    item = home.queue("game.nsp", BIG)
    ftpsrv.drop_at = [3_000_000]
    ftpsrv.refuses = refuses
    home.sender(ftpsrv.url, overwrite="SIZE" in refuses).send_next()
    assert (card / "game.nsp").read_bytes() == BIG
    assert home.item(item)["status"] == "completed"
    assert ftpsrv.commands.count("STOR") == 2


def test_a_console_whose_size_tells_nothing_is_asked_for_its_list(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path
) -> None:
    (card / "folder").mkdir()
    first, second = home.queue("game.nsp", BIG), home.queue("other.nsp", BIG)
    (card / "other.nsp").write_bytes(b"old")
    ftpsrv.drop_at = [3_000_000]
    ftpsrv.has_sizes = False
    sender = home.sender(ftpsrv.url)
    while sender.send_next():
        pass
    assert (card / "game.nsp").read_bytes() == BIG
    assert home.item(first)["status"] == "completed"
    assert ftpsrv.commands.count("STOR") == ftpsrv.commands.count("APPE") == 1
    assert home.item(second)["reason"] == "other_file"
    assert (card / "other.nsp").read_bytes() == b"old"


@pytest.mark.parametrize("rows", [None, "game.nsp 3000000\r\n"])
def test_a_console_that_tells_nothing_of_its_files_needs_somebody_to_replace(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, rows: str | None
) -> None:
    item, sender = home.queue("game.nsp", GAME), home.sender(ftpsrv.url)
    (card / "game.nsp").write_bytes(b"old")
    ftpsrv.refuses = {"SIZE": [REFUSED] * 99}
    ftpsrv.refuses |= {} if rows else {"LIST": [REFUSED] * 99}
    ftpsrv.list = rows
    sender.send_next()
    assert home.item(item)["reason"] == "file_unknown"
    assert files(card) == ["game.nsp"]
    home.store.queue.retry(home.anna, item, way="replace")
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert files(card) == ["game.nsp"]
    assert (card / "game.nsp").read_bytes() == GAME


@pytest.mark.parametrize("there", [bytes(len(GAME)), b"other"])
def test_a_file_that_cannot_be_read_back_is_told_by_its_size(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, there: bytes, game: str
) -> None:
    (card / "game.nsp").write_bytes(there)
    ftpsrv.refuses = {"RETR": ["550 Permission denied."] * 99}
    sender, said = home.sender(ftpsrv.url), list[str]()
    sender.screen.say = said.append  # type: ignore[method-assign]
    sender.send_next()
    is_same_size = len(there) == len(GAME)
    assert home.item(game)["status"] == ("completed" if is_same_size else "failed")
    assert ("not compared" in said[-1]) == is_same_size
    assert (card / "game.nsp").read_bytes() == there


def test_a_file_by_its_own_name_goes_on_where_it_was_interrupted(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path
) -> None:
    item, sender = home.queue("game.nsp", BIG), home.sender(ftpsrv.url)
    ftpsrv.refuses = {"RNFR": ["502 No."] * 99}
    ftpsrv.drop_at = [len(BIG) + 1, 3_000_000]
    ftpsrv.drop_at = []

    def drop(size: int) -> None:
        if "DELE" in ftpsrv.commands and not ftpsrv.drop_at and len(drops) < 2:
            drops.append(size)
            ftpsrv.drop_at = [3_000_000 * len(drops)]

    drops: list[int] = []
    ftpsrv.hold = drop
    sender.send_next()
    assert home.item(item)["error"] == ""
    assert home.item(item)["status"] == "completed"
    assert files(card) == ["game.nsp"]
    assert (card / "game.nsp").read_bytes() == BIG


@pytest.mark.parametrize("reads", [True, False])
def test_what_somebody_puts_in_the_place_of_an_unfinished_file_stays(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, reads: bool
) -> None:
    """It can be told by its bytes, where the console lets them be read."""
    item, sender = home.queue("game.nsp", GAME), home.sender(ftpsrv.url)
    sender.state.begin("game.nsp", "x", ITEM)
    (card / "game.nsp").write_bytes(b"other")
    ftpsrv.refuses = {} if reads else {"RETR": ["550 No."] * 9}
    sender.send_next()
    assert home.item(item)["status"] == ("failed" if reads else "completed")
    found = (card / "game.nsp").read_bytes() if (card / "game.nsp").exists() else b""
    assert found == (b"other" if reads else GAME)


def test_a_part_whose_end_is_damaged_is_not_resumed(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path
) -> None:
    home.queue("game.nsp", BIG)
    sender = home.sender(ftpsrv.url)
    interrupt(sender, 3_000_000)
    part = card / "game.nsp.part"
    wait_for(lambda: not ftpsrv.is_busy())  # it may still write what has arrived
    os.truncate(part, part.stat().st_size // 2**20 * 2**20 + 2**20)  # zeros
    home.sender(ftpsrv.url, state=sender.state).send_next()
    assert (card / "game.nsp").read_bytes() == BIG
    assert "APPE" not in ftpsrv.commands


@pytest.mark.parametrize("has_digest", [True, False])
def test_a_file_that_resuming_damages_is_sent_from_its_start(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, has_digest: bool
) -> None:
    def damage(*given: Any) -> None:
        ftpsrv.damages = 3_000_000 if ftpsrv.commands[-1] == "APPE" else 0

    item = home.queue("game.nsp", BIG)
    if has_digest:
        set_digest(home, hashlib.sha256(BIG).digest())
    ftpsrv.drop_at = [3_000_000]
    sender = home.sender(ftpsrv.url)
    sender.screen.show = damage  # type: ignore[method-assign]
    sender.send_next()
    assert (card / "game.nsp").read_bytes() == BIG
    assert home.item(item)["status"] == "completed"
    assert [word for word in ftpsrv.commands if word in ("STOR", "APPE")] == [
        *["STOR", "APPE", "STOR"]
    ]


@pytest.mark.parametrize("bits", [21, 23])
def test_a_size_of_32_bits_is_no_obstacle(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """It stands for a file of more than 2 GiB, and of more than 8."""
    monkeypatch.setattr(send_to_switch, "SIZE_MODULUS", 2**bits)
    item = home.queue("game.nsp", BIG)
    with contextlib.closing(Ftpsrv(card, bits)) as ftpsrv:
        ftpsrv.drop_at = [3_000_000, 5_500_000]
        home.sender(ftpsrv.url).send_next()
        assert ftpsrv.commands.count("STOR") == 1
    assert (card / "game.nsp").read_bytes() == BIG
    assert home.item(item)["status"] == "completed"


@pytest.mark.parametrize(
    "reply", ["553 Permission denied.", "550 The folder does not exist."]
)
def test_a_file_that_is_there_is_kept_where_the_console_refuses_its_name(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, reply: str, game: str
) -> None:
    (card / "game.nsp").write_bytes(b"old")
    ftpsrv.refuses = {"RNTO": [reply]}
    home.sender(ftpsrv.url, overwrite=True).send_next()
    assert (card / "game.nsp").read_bytes() == b"old"
    assert home.item(game)["status"] == "failed"


@pytest.mark.parametrize("word", ["PASV", "TYPE"])
def test_a_port_that_is_taken_is_tried_again(
    home: Home, ftpsrv: Ftpsrv, card: pathlib.Path, word: str, game: str
) -> None:
    ftpsrv.refuses = {word: ["501 bind failed, Address already in use"] * 2}
    if word == "TYPE":
        ftpsrv.refuses[word].insert(0, "")
    home.sender(ftpsrv.url).send_next()
    assert (card / "game.nsp").read_bytes() == GAME
    assert home.item(game)["status"] == "completed"


# A network installer


def install_all(console: Installer, address: str) -> None:
    console.install(address, block=500_000)


def test_an_installer_fetches_the_file_from_an_address_that_ends_in_its_name(
    home: Home, installer: Callable[..., Installer]
) -> None:
    item = home.queue("A game [v0].nsp", GAME)
    console = installer(install_all)
    assert home.sender(console.url).send_next()
    assert bytes(console.body) == GAME
    text = console.received.decode()
    assert text.endswith("/A%20game%20%5Bv0%5D.nsp\n")
    assert text.startswith("127.0.0.1:")
    row = home.item(item)
    assert (row["status"], row["bytes"]) == ("completed", len(GAME))


def test_an_installer_gets_all_files_in_one_list(
    home: Home, installer: Callable[..., Installer]
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "abc"]
    seen = []

    def install(console: Installer, address: str) -> None:
        seen.append([home.item(item)["status"] for item in items])
        console.install(address, block=500_000)
        wait_for(lambda: "processing" in [home.item(item)["status"] for item in items])

    console = installer(install)
    sender = home.sender(console.url)
    assert sender.send_next()
    assert len(console.received.splitlines()) == 3
    assert bytes(console.body) == GAME * 3
    assert {home.item(item)["status"] for item in items} == {"completed"}
    assert seen[0] == ["offered"] * 3
    assert seen[1][1:] == ["offered"] * 2
    assert not sender.send_next()


def test_an_installer_gets_no_longer_list_than_it_takes(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_OFFERED", 2)
    items = [home.queue(f"{name}.nsp", GAME) for name in "abc"]
    console = installer(install_all)
    home.sender(console.url).send_next()
    states = [home.item(item)["status"] for item in items]
    assert states == ["completed", "completed", "pending"]


def test_what_an_installer_does_not_fetch_is_pending_again(
    home: Home, installer: Callable[..., Installer]
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "abc"]

    def choose(console: Installer, address: str) -> None:
        if address.endswith("b.nsp"):
            console.install(address, block=500_000)

    console = installer(choose)
    sender = home.sender(console.url)
    assert sender.send_next()
    states = [home.item(item)["status"] for item in items]
    assert states == ["pending", "completed", "pending"]
    assert sender.reports.failures == 0


def test_what_was_fetched_whole_is_not_put_back(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    sender = home.sender(installer(install_all).url)

    def press(progress: send_to_switch.Progress) -> None:
        if progress.done == len(GAME):
            raise KeyboardInterrupt

    sender.screen.show = press  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        sender.send_next()
    assert home.item(game)["status"] in ("offered", "processing")


def test_a_file_that_the_console_gives_up_fails_and_the_next_is_sent(
    home: Home, installer: Callable[..., Installer]
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "ab"]

    def install(console: Installer, address: str) -> None:
        share = 0.5 if address.endswith("a.nsp") else 1.0
        console.install(address, upto=share, block=500_000)
        wait_for(lambda: home.item(items[share == 1])["status"] == "processing")

    home.sender(installer(install).url).send_next()
    states = [home.item(item)["status"] for item in items]
    assert states == ["failed", "completed"]
    assert home.item(items[0])["error"].startswith("The console ended after 1.5 MB")


def test_a_console_that_fetches_nothing_fails_no_item_however_often(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    state = home.state()
    for _ in range(6):
        console = installer(lambda console, address: None)
        put_back(
            home, game, home.sender(console.url, state=state), "has fetched nothing"
        )


def test_a_console_where_nobody_chooses_gets_the_item_again_later(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_CHOICE_SECONDS", 0.1)
    over = threading.Event()
    item = home.queue("game.nsp", GAME)
    console = installer(lambda console, address: over.wait(30))
    with pytest.raises(send_to_switch.TargetOffline, match="has fetched nothing"):
        home.sender(console.url).send_next()
    over.set()
    assert home.item(item)["status"] == "pending"


def test_an_item_that_waits_in_a_list_stays_this_clients(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "CLAIM_SECONDS", 0.05)
    reports: list[dict[str, Any]] = []
    plain = send_to_switch.Server.report

    def report(self: Any, item: Any, client: str, **fields: Any) -> None:
        reports.append(fields)
        plain(self, item, client, **fields)

    monkeypatch.setattr(send_to_switch.Server, "report", report)
    item = home.queue("game.nsp", GAME)

    def wait(console: Installer, address: str) -> None:
        wait_for(lambda: reports)
        console.install(address, block=500_000)

    home.sender(installer(wait).url).send_next()
    assert reports[0] == {"offered": True}
    assert home.item(item)["status"] == "completed"


def test_a_cancelled_item_in_a_list_is_not_served(
    home: Home, installer: Callable[..., Installer]
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "ab"]

    def cancel(console: Installer, address: str) -> None:
        if address.endswith("a.nsp"):
            home.store.queue.cancel(home.anna, items[0])
            with console.file(address) as file:
                assert file.ask("GET")[0] == 404
        else:
            console.install(address, block=500_000)

    home.sender(installer(cancel).url).send_next()
    states = [home.item(item)["status"] for item in items]
    assert states == ["cancelled", "completed"]


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_an_item_whose_report_is_refused_ends_and_the_client_goes_on(
    home: Home,
    installer: Callable[..., Installer],
    monkeypatch: pytest.MonkeyPatch,
    status: str,
) -> None:
    plain = send_to_switch.Server.report

    def report(self: Any, item: Any, client: str, **fields: Any) -> None:
        if fields.get("status") == "processing":
            if status == "failed":
                raise send_to_switch.Failed("It is refused.")
            home.store.queue.cancel(home.anna, item.queue_item_id)
        plain(self, item, client, **fields)

    def wait(console: Installer, address: str) -> None:
        with contextlib.suppress(AssertionError):
            console.install(address, upto=0.5, block=500_000)
        wait_for(lambda: home.item(item)["status"] == status)

    monkeypatch.setattr(send_to_switch.Server, "report", report)
    item = home.queue("game.nsp", GAME)
    sender = home.sender(installer(wait).url)
    sender.send_next()
    assert home.item(item)["status"] == status
    assert sender.reports.failures == (status == "failed")


def test_after_a_crash_the_console_finishes_and_gets_only_the_rest(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_ORPHAN_SECONDS", 60)
    items = [home.queue(f"{name}.nsp", GAME) for name in "abc"]
    crashed, over = threading.Event(), threading.Event()

    def go_on(console: Installer, address: str) -> None:
        if address.endswith("c.nsp"):  # it has the others, and fetches nothing more
            monkeypatch.setattr(send_to_switch, "MAX_ORPHAN_SECONDS", 0.3)
            over.wait(60)
            return
        if address.endswith("b.nsp"):
            crashed.wait(60)
        console.install(address, block=500_000)

    console = installer(go_on)
    sender = home.sender(console.url)
    with monkeypatch.context() as patch:
        patch.setattr(sender._offers, "_leave", lambda: None)
        patch.setattr(sender.screen, "show", Mock(side_effect=Crash))
        with pytest.raises(Crash):
            sender.send_next()
    again = installer(install_all)
    restarted = home.sender(again.url, state=sender.state)
    say = restarted.screen.say
    monkeypatch.setattr(
        restarted.screen, "say", lambda text: (say(text), crashed.set())
    )
    restarted.send_next()
    over.set()
    assert [line[-5:] for line in again.received.splitlines()] == [b"c.nsp"]
    assert {home.item(item)["status"] for item in items} == {"completed"}


def test_ctrl_c_puts_back_what_the_console_has_not_fetched(
    home: Home, installer: Callable[..., Installer]
) -> None:
    def install(console: Installer, address: str) -> None:
        with contextlib.suppress(AssertionError):  # it is put back meanwhile
            console.install(address, upto=0.5, block=500_000)

    items = [home.queue(f"{name}.nsp", GAME) for name in "ab"]
    sender = home.sender(installer(install).url)

    press = Mock(side_effect=KeyboardInterrupt)
    sender.screen.show = press  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        sender.send_next()
    assert "pending" in {home.item(item)["status"] for item in items}
    assert "offered" not in {home.item(item)["status"] for item in items}


def test_a_server_without_lists_is_named(home: Home) -> None:
    with contextlib.closing(Origin(lambda request: request.reply(404))) as origin:
        server = send_to_switch.Server(origin.url, "k")
        with (
            contextlib.closing(server),
            pytest.raises(send_to_switch.Problem, match="Upgrade catalogd"),
        ):
            server.served("me")


def test_an_installer_that_closes_the_connection_at_once_puts_the_item_back(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    console = installer(lambda console, address: None)
    console.says_goodbye = False
    put_back(home, game, home.sender(console.url))


def test_an_installer_with_methods_of_its_own_is_served(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    def drop_and_install(console: Installer, address: str) -> None:
        with console.file(address) as file:
            assert file.ask("DROP")[0] == 405
            assert file.ask("HEAD", "bytes=0-0")[0] in (200, 206)
        console.install(address, block=500_000)

    console = installer(drop_and_install)
    home.sender(console.url).send_next()
    assert home.item(game)["status"] == "completed"


def test_an_installer_that_does_not_listen_is_offline(home: Home, game: str) -> None:
    put_back(
        home,
        game,
        home.sender(f"lan://127.0.0.1:{free_port()}"),
        "Open its LAN install",
    )


def test_an_installer_that_fetches_nothing_more_fails_the_item(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def stall(console: Installer, address: str) -> None:
        console.install(address, upto=0.3, block=500_000)
        monkeypatch.setattr(send_to_switch, "MAX_QUIET_SECONDS", 0.3)
        over.wait(30)

    item = home.queue("game.nsp", GAME)
    console = installer(stall)
    home.sender(console.url).send_next()
    over.set()
    assert "ended after 900.0 kB of 3.0 MB" in home.item(item)["error"]


def test_an_installer_that_resets_the_connection_fails_what_it_has_begun(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    def reset(console: Installer, address: str) -> None:
        console.install(address, upto=0.5, block=500_000)
        console.reset()

    home.sender(installer(reset).url).send_next()
    assert home.item(game)["status"] == "failed"


def test_an_installer_that_ends_before_it_has_the_address_puts_the_item_back(
    home: Home, game: str
) -> None:
    sender = home.sender("lan://127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = socket.create_connection(listener.getsockname())
    sender.target._sock = line  # type: ignore[attr-defined]
    put_back(home, game, sender, "closed the connection")


def test_a_link_fails_since_an_installer_cannot_fetch_it(
    home: Home, installer: Callable[..., Installer]
) -> None:
    item = home.queue_link("https://example.org/x", 7)
    console = installer(lambda console, address: None)
    home.sender(console.url).send_next()
    assert "is a link" in home.item(item)["error"]


def test_the_bytes_before_and_after_a_restart_of_the_server_are_added(
    home: Home, installer: Callable[..., Installer], game: str
) -> None:
    def restart(console: Installer, address: str) -> None:
        console.install(address, upto=0.5, block=500_000)
        wait_for(lambda: home.item(game)["bytes"] == 1_500_000)
        home.web.calls["ConsoleCalls"].served[game] = catalogd.Served()
        home.web.calls["ConsoleCalls"].served[game].add(0, 10)
        wait_for(lambda: home.item(game)["bytes"] == 1_500_010)
        home.web.calls["ConsoleCalls"].served[game].add(1_500_000, 3_000_000)

    console = installer(restart)
    sender = home.sender(console.url)
    sender.send_next()
    assert home.item(game)["status"] == "completed"


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("http://127.0.0.1:6069/dir/t/a.nsp", "192.0.2.7:6069/dir/t/a.nsp"),
        ("http://localhost/dir/t/a.nsp", "192.0.2.7:80/dir/t/a.nsp"),
        ("http://[::1]:6069/dir/t/a.nsp", "192.0.2.7:6069/dir/t/a.nsp"),
        ("http://192.168.1.4:6069/x.nsp", "192.168.1.4:6069/x.nsp"),
        ("http://[2001:db8::1]:6069/x.nsp", "[2001:db8::1]:6069/x.nsp"),
        ("http://nowhere.invalid:6069/x.nsp", "nowhere.invalid:6069/x.nsp"),
        ("https://example.org/x.nsp", "https://example.org/x.nsp"),
    ],
)
def test_a_console_gets_an_address_that_it_can_reach(address: str, sent: str) -> None:
    class Socket:
        def getsockname(self) -> tuple[str, int]:
            return "192.0.2.7", 4711

    assert send_to_switch.console_address(address, Socket()) == sent  # type: ignore


# The disk of the client itself


def test_a_disk_that_does_not_take_the_state_is_told_and_tried_again(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    fail = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(send_to_switch, "MAX_ATTEMPTS", 1)
    sender = home.sender(console.url())
    why = (
        "The disk that notes what was sent cannot be written: No space left on device."
    )
    with monkeypatch.context() as patch:
        patch.setattr(send_to_switch, "write_private", fail)
        for _ in range(2):
            with pytest.raises(send_to_switch.TargetOffline, match=why):
                sender.send_next()
        assert str(sender.watch.readiness) == why
        assert home.item(game)["status"] == "pending"
    sender.send_next()
    assert home.item(game)["status"] == "completed"


def test_a_lock_that_cannot_be_made_is_no_other_client(tmp_path: pathlib.Path) -> None:
    state = send_to_switch.State(str(tmp_path), "s", "t")
    pathlib.Path(f"{state.path}.lock").mkdir()
    why = "cannot be written: unable to open database file"
    with pytest.raises(send_to_switch.TargetOffline, match=why), state.exclusive():
        pass


# What answers as no good server does: any bytes, slowly and without an end

USUAL = {"USER": b"331 Password?", "PASS": b"230 Hello.", "TYPE": b"200 Binary."}
USUAL |= {"CWD": b"250 Okay.", "SIZE": b"550 No such file."}
Reply = bytes | Iterable[bytes]


class Odd:
    """An FTP server that gives these replies, by command, of a line or piece by piece.
    The reply to "" is the greeting."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self.replies: dict[str, Reply] = {"": b"220 Hello.", **USUAL, **replies}
        self.sent = 0  # bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._listener.accept()[0] as sock, contextlib.suppress(OSError):
                    self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock.makefile("rb") as lines:
            for line in itertools.chain([b""], lines):
                word = line.decode().partition(" ")[0].strip()
                reply = self.replies.get(word, b"502 No")
                if isinstance(reply, Iterator):  # is for once
                    del self.replies[word]
                for piece in [reply + b"\r\n"] if isinstance(reply, bytes) else reply:
                    sock.sendall(piece)
                    self.sent += len(piece)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Odd]]:
    monkeypatch.setattr(send_to_switch, "MAX_ATTEMPTS", 1)
    with contextlib.ExitStack() as stack:
        yield lambda **replies: stack.enter_context(contextlib.closing(Odd(replies)))


def slowly(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        time.sleep(0.02)
        yield piece


def without_end(*pieces: bytes) -> list[bytes]:
    """Return 20 MB, which is more than a client takes and less than a test should."""
    block = b"".join(pieces) * (65536 // len(b"".join(pieces)))
    return [block] * (20_000_000 // len(block))


def refusal(home: Home, server: Odd, user: str = "") -> str:
    """Return why a target is not ready, or why it refuses an item, at one attempt."""
    item = home.queue("game.nsp", b"content")
    sender = home.sender(f"ftp://{user}{server.place}/games")
    try:
        sender.send_next()
    except send_to_switch.TargetOffline as problem:
        assert home.item(item)["status"] == "pending"
        return str(problem)
    return str(home.item(item)["error"])


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (b"550-Error during write\r\n550 Aborted", "550 Error during write; Aborted"),
        (b"550-One\r\n two\r\n550-three\r\n550", "550 One; two; three"),
        (b"550 a\tb\x1b[2J\x00c", r"550 a b\x1b[2J\x00c"),
        (b"550 Fichier inexistant \xe9", "550 Fichier inexistant \ufffd"),
        (b"550 " + b"x" * 60_000, "550 " + "x" * 296),
        (b"550-" + b"y\r\n550-" * 198 + b"\r\n550 z", "550 " + ("y; " * 198)[:296]),
    ],
)
def test_a_reply_is_told_as_one_short_line_with_its_code_once(
    home: Home, odd: Callable[..., Odd], reply: bytes, told: str
) -> None:
    why = refusal(home, odd(CWD=reply, MKD=reply))
    assert why == f"The console refuses the folder /games: {told}."


@pytest.mark.parametrize(
    "reply",
    [
        *[b"SSH-2.0-OpenSSH_9.2", b"", b"\xff\xfe\x00", b"990 Hm.", b"220"],
        *[b"HTTP/1.1 400 Bad Request", b"220-\r\n\r\n", b"120 Ready in 3 minutes."],
    ],
)
def test_what_is_no_ftp_server_is_not_ready(
    home: Home, odd: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    monkeypatch.setattr(send_to_switch, "CONNECT_SECONDS", 0.5)
    why = refusal(home, odd(**{"": reply, "USER": b"500 No."}))
    assert re.search("is not ready: |does not answer|A web server answers at port", why)


@pytest.mark.parametrize("command", ["", "CWD"])
@pytest.mark.parametrize(
    "pieces",
    [[b"220-x\r\n"], [b"220-\r\n"], [b"\n"], [b"\xff"], [b"220-", b"y" * 9000, b"\n"]],
)
def test_a_reply_without_an_end_is_not_read_on(
    home: Home, odd: Callable[..., Odd], command: str, pieces: list[bytes]
) -> None:
    server = odd(**{command: without_end(*pieces)})
    why = refusal(home, server)
    assert "is not ready: " in why or "The console ended the transfer (" in why
    assert server.sent < 15_000_000  # sockets' buffers hold some of it
    assert len(why) < 400


@pytest.mark.parametrize("command", ["", "PASS"])
def test_a_login_that_never_ends_is_given_up(
    home: Home, odd: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(send_to_switch, "LOGIN_SECONDS", 0.2)
    server = odd(**{command: slowly([b"x"] * 3000)})  # for a minute
    assert "127.0.0.1 does not answer." in refusal(home, server)
    assert server.sent < 2000


def test_the_parts_of_a_login_have_their_time_together(
    home: Home, odd: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "LOGIN_SECONDS", 0.5)
    lines = {"": b"220 Hello.", **USUAL}
    names = ("", "USER", "PASS", "TYPE")
    replies = {name: slowly([b""] * 10 + [lines[name] + b"\r\n"]) for name in names}
    assert "127.0.0.1 does not answer." in refusal(home, odd(**replies))


def test_after_the_login_a_reply_may_take_longer(
    home: Home, odd: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the client goes on by more than the login has, and by less than the
    reply has."""

    def late() -> Iterator[bytes]:
        yield b"550 At"
        passed.append(20.0)
        yield b" last.\r\n"

    def monotonic() -> float:
        return time.monotonic() + sum(passed)

    passed: list[float] = []
    clock = types.SimpleNamespace(**{**vars(time), "monotonic": monotonic})
    monkeypatch.setattr(send_to_switch, "LOGIN_SECONDS", 15.0)
    monkeypatch.setattr(send_to_switch, "time", clock)
    why = refusal(home, odd(CWD=late(), MKD=b"550 No."))
    assert why == "The console refuses the folder /games: 550 No."
    assert passed


PORTS = [b"227 Gladly.", b"227 (127,0,0,1,999,999)", b"257 What?"]
PORTS += [b"227 (%b,0,0,1,2,3)" % (b"9" * 5000), b"227 (1,2,3,4,5,%b)" % (b"9" * 5000)]


@pytest.mark.parametrize("reply", PORTS)
def test_a_port_that_is_none_ends_no_client(
    home: Home, odd: Callable[..., Odd], reply: bytes
) -> None:
    why = refusal(home, odd(PASV=reply, EPSV=reply))
    assert why.startswith("The connection to the console broke: ")
    assert len(why) < 400


SIZES = [b"213 many", b"213 " + b"9" * 5000, b"213 ", b"213 0x10", b"213 1.5", b"213 0"]


@pytest.mark.parametrize("reply", [*SIZES, b"500 Unknown command.", b"502 No."])
def test_a_size_that_is_no_number_is_asked_of_the_list(
    home: Home, odd: Callable[..., Odd], reply: bytes
) -> None:
    sender = home.sender(f"ftp://{odd(SIZE=reply).place}/")
    target: Any = sender.target
    target.check_ready(sender.state)
    with (
        contextlib.closing(target),
        pytest.raises(ConnectionError, match="502"),  # to the PASV for the list
    ):
        target.size_of("game.nsp")


@pytest.mark.parametrize("command", ["", "PASS", "TYPE", "CWD", "PASV"])
@pytest.mark.parametrize("reply", [b"530 Pa%55 is wrong", b"530-Hi\r\n530 <Pa%55>"])
def test_a_password_that_a_server_repeats_is_told_nobody(
    home: Home,
    odd: Callable[..., Odd],
    capsys: pytest.CaptureFixture[str],
    command: str,
    reply: bytes,
) -> None:
    server = odd(**{command: reply, "MKD": reply})
    why = refusal(home, server, user="me:Pa%2555@")
    assert "Pa%55" not in why + capsys.readouterr().out
    assert "..." in why


@pytest.mark.parametrize("scheme", ["ftp", "lan"])
def test_a_name_that_no_device_has_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    def fail(*given: Any, **named: Any) -> None:
        raise socket.gaierror(errors.pop(), "Something is wrong")

    errors = [socket.EAI_AGAIN, socket.EAI_NONAME]
    sender = home.sender(f"{scheme}://console.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    for why in ("No device has this name: console.invalid.", "Something is wrong"):
        with pytest.raises(send_to_switch.TargetOffline, match=why):
            sender.target.check_ready(sender.state)


def test_a_size_of_a_link_that_is_no_number_is_unknown() -> None:
    for total, size in (("9" * 5000, None), ("*", None), ("x", None), ("12", 12)):
        headers = {"Content-Range": f"bytes 0-0/{total}"}
        response: Any = type("Response", (), {"status": 206, "headers": headers})
        assert send_to_switch.whole_size(response) == size


def test_an_answer_of_a_server_is_not_read_on_without_an_end() -> None:
    def answer(request: Request) -> None:
        with contextlib.suppress(OSError):
            request.reply(200, b"[" * 30_000_000)
        counts.append(1)

    counts: list[int] = []
    with contextlib.closing(Origin(answer)) as origin:
        server = send_to_switch.Server(origin.url)
        for _ in range(2):  # also over a connection that has unread bytes
            with pytest.raises(send_to_switch.ServerOffline, match="status 200"):
                server.call("GET", "/api/send-queue")
        server.close()


# Attempts, as the server counts them over all clients

LOST = {
    "error_code": "bytes_lost",
    "error_arguments": {"done": "2.4", "size": "4.8 MB"},
    "error_message": "2.4 of 4.8 MB bytes have arrived.",
}


@pytest.fixture
def anna(store: catalogd.Store) -> int:
    return store.accounts.add("anna", "x")


@pytest.fixture
def item(store: catalogd.Store, anna: int) -> str:
    return make(store, anna, add_link(store, "Celeste"), "processing")


def attempt(
    store: catalogd.Store, anna: int, item: str, kept: int = 0, **fields: Any
) -> tuple[str, int]:
    """Report why an item is tried again; its status, and the number of attempts."""
    report = {"status": "processing", "bytes_kept": kept, **LOST, **fields}
    return store.clients.report(anna, item, report), store.clients.attempts(item)


def row(store: catalogd.Store, anna: int) -> dict[str, Any]:
    [found] = store.queue.items(anna)
    return found


@pytest.mark.parametrize(
    "steps",
    [
        [(0, 1), (0, 2), (0, 3)],
        [(100, 0), (100, 1), (50, 2), (101, 0), (100, 1), (101, 2), (7, 3)],
    ],
)
def test_three_attempts_that_get_no_further_than_ever_are_a_failure_with_a_reason(
    store: catalogd.Store, anna: int, item: str, steps: list[tuple[int, int]]
) -> None:
    for kept, count in steps:
        status = "failed" if count == 3 else "processing"
        assert attempt(store, anna, item, kept) == (status, count)
        assert row(store, anna)["reason"] == "bytes_lost"
    failed = row(store, anna)
    assert (failed["status"], failed["error"]) == ("failed", LOST["error_message"])
    assert [*failed["arguments"]] == ["done", "size"]


@pytest.mark.parametrize("way", ["retry", "replace"])
def test_the_count_is_the_items_until_somebody_retries_it(
    store: catalogd.Store, anna: int, item: str, way: str
) -> None:
    attempt(store, anna, item)
    store.clients.report(anna, item, {"release": True})
    assert row(store, anna)["reason"] == "bytes_lost"
    with opened(store.database.folder) as again:
        again.clients.report(anna, item, {"status": "processing"})
        assert attempt(again, anna, item) == ("processing", 2)
        assert row(again, anna)["reason"] == "bytes_lost"
    store.clients.report(anna, item, {"status": "failed"})
    store.clients.report(anna, item, {"status": "processing"})
    assert attempt(store, anna, item) == ("failed", 3)
    store.queue.retry(anna, item, way=way)
    assert store.clients.attempts(item) == 0
    assert "reason" not in row(store, anna)


def test_another_version_of_the_file_begins_the_count_anew(
    store: catalogd.Store, anna: int
) -> None:
    known = add_file(store, "A")
    item = make(store, anna, known.id, "processing")
    assert attempt(store, anna, item, 10) == ("processing", 0)
    for count in (1, 2):
        assert attempt(store, anna, item, 10) == ("processing", count)
    store.database.write("UPDATE entries SET mtime = 5", ())
    assert attempt(store, anna, item, 3) == ("processing", 0)
    assert attempt(store, anna, item, 3) == ("processing", 1)


def test_the_third_attempt_waits_for_a_disk_that_is_away(
    store: catalogd.Store, anna: int
) -> None:
    item = make(store, anna, add_file(store, "A").id, "processing")
    store.database.write("UPDATE entries SET state = 'offline'", ())
    for status in ("processing", "processing", "pending"):
        assert attempt(store, anna, item)[0] == status


def test_what_was_completed_has_no_reason_unless_it_was_not_compared(
    store: catalogd.Store, anna: int, item: str
) -> None:
    unread = {"error_code": "file_unread", "error_arguments": {"name": "A.nsp"}}
    for more in ({}, unread):
        attempt(store, anna, item)
        store.clients.report(anna, item, {"status": "completed", **more})
        done = row(store, anna)
        assert (done["status"], done.get("reason", "")) == (
            "completed",
            more.get("error_code", ""),
        )
        store.queue.retry(anna, item)
        assert "reason" not in row(store, anna)


def test_the_reason_of_a_failure_is_known_by_its_code(
    store: catalogd.Store, anna: int, item: str
) -> None:
    why = {"code": "disk_full", "arguments": {}}
    report = {
        "status": "failed",
        "error_message": "Elsewhere in English.",
        "error_code": "gave_up",
        "error_arguments": {"count": 1, "why": why},
    }
    store.clients.report(anna, item, report)
    found = row(store, anna)
    assert found["error"] == "Elsewhere in English."
    assert found["reason"] == "gave_up"
    full = {"code": "disk_full", "arguments": {}}
    assert found["arguments"] == {"why": full, "count": "1"}


def nested(depth: int) -> dict[str, Any]:
    """Arguments that have others in them, so deep."""
    inner = nested(depth - 1) if depth else {"why": "Off."}
    return {"why": {"code": "from_start", "arguments": inner}}


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("of_a_later_release", {}),
        ("gave_up", {"count": 3}),
        ("disk_full", {"more": "x"}),
        ("gave_up", {"count": 3, "why": {"code": "unknown", "arguments": {}}}),
        ("gave_up", {"count": 3, "why": {"code": ["disk_full"], "arguments": {}}}),
        ("gave_up", {"count": 3, "why": {"code": "disk_full"}}),
        ("from_start", nested(3)),
    ],
)
def test_an_unknown_code_shows_the_text_as_it_came(
    store: catalogd.Store, anna: int, item: str, code: str, arguments: dict[str, Any]
) -> None:
    fields: Any = {"error_code": code, "error_arguments": arguments}
    attempt(store, anna, item, **fields, error_message="As it came.")
    assert row(store, anna)["error"] == "As it came."
    assert "reason" not in row(store, anna)


def test_what_is_known_of_an_item_that_was_cancelled_is_forgotten(
    store: catalogd.Store, anna: int, item: str, clock: Clock
) -> None:
    store.clients.report(anna, item, {"status": "processing"})
    store.queue.cancel(anna, item)
    store.clients.write_figures()
    assert store.clients.progress.times(), "its client may tell what it leaves"
    clock.now += 301
    store.clients.write_figures()
    assert not store.clients.progress.times()


def test_a_client_that_knows_no_codes_is_answered_as_before(
    store: catalogd.Store, anna: int
) -> None:
    item = send(store, anna, add_link(store, "A"))
    report = {"status": "processing", "error_message": "Not meant for this status."}
    for _ in range(5):
        assert store.clients.report(anna, item, report) == "processing"
    assert store.clients.attempts(item) == 0
    assert row(store, anna)["error"] == ""
