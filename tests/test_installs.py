"""What "sent" means: folders of FTP servers that install what is written to them, of
which Sphaira's tells whether it did; and answers that end nothing."""

import contextlib
import itertools
import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import ftpservers
import send_to_switch
from conftest import Home, wait_for
from consoles import FTPConsole, Origin, Request, when_sent
from ftpsrv import Ftpsrv, Session
from test_client import ITEM
from test_targets import files, put_back, same_state

GAME = os.urandom(300_000)
CLOSED = "The console did not install it, or its menu was left"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_to_switch, "MENU_SECONDS", 0.01)
    monkeypatch.setattr(send_to_switch, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(send_to_switch, "INSTALL_SECONDS", 0.5)


@pytest.fixture
def console(card: pathlib.Path) -> Iterator[FTPConsole]:
    (card / "install:").mkdir()
    with contextlib.closing(FTPConsole(card)) as console:
        yield console


@pytest.fixture
def game(home: Home) -> str:
    """The id of an item of the queue, whose file game.nsp is GAME."""
    return home.queue("game.nsp", GAME)


def send(home: Home, to: str, **options: Any) -> Any:
    """Look at the queue once. Return the client."""
    sender = home.sender(to, **options)
    with contextlib.suppress(send_to_switch.TargetOffline):
        sender.send_next()
    return sender


# Sphaira


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_a_good_package_is_sent_once_and_a_bad_one_has_failed(
    home: Home, console: FTPConsole, seconds: float
) -> None:
    good, bad, next_one = (home.queue(f"{name}.nsp", GAME) for name in "abc")
    console.menu.seconds = seconds
    console.menu.is_good = lambda name: name != "b.nsp"
    sender = home.sender(console.url(""))
    for _ in range(2):
        sender.send_next()
    assert home.item(good)["status"] == "completed"
    assert home.item(bad)["error"].startswith(CLOSED)
    assert (home.item(bad)["percent"], home.item(bad)["bytes"]) == (0, 0)
    put_back(home, next_one, sender, "Is its FTP install open")
    console.menu.is_open = True
    sender.send_next()
    assert home.item(next_one)["status"] == "completed"
    assert console.commands.count("question") == 3
    assert not {"REST", "APPE", "DELE", "RNFR", "MKD"} & {*console.commands}


def test_an_install_that_fails_in_the_middle_is_told_at_once(
    home: Home, console: FTPConsole
) -> None:
    def fail() -> None:
        console.drops_data, console.menu.is_open = 1, False

    item = home.queue("game.nsp", os.urandom(3_000_000))
    sender = home.sender(console.url(""))
    when_sent(sender, 1_000_000, fail)
    sender.send_next()
    assert home.item(item)["error"].startswith(CLOSED)
    assert console.commands.count("STOR") == 1


@pytest.mark.parametrize(("breaks", "sends"), [(1, 2), (2, 2)])
def test_what_broke_while_the_menu_is_open_is_tried_again_once(
    home: Home, console: FTPConsole, breaks: int, sends: int, game: str
) -> None:
    console.drops_data = breaks
    send(home, console.url(""))
    assert home.item(game)["status"] == ("completed" if breaks == 1 else "failed")
    assert ("Gave up after 2 attempts." in home.item(game)["error"]) == (breaks == 2)
    assert console.commands.count("STOR") == sends


@pytest.mark.parametrize("drops", [{"NOOP": 2}, {"NOOP": 99}, {"PASV": 0}])
def test_a_console_that_does_not_tell_has_it_sent_with_a_note(
    home: Home, console: FTPConsole, drops: dict[str, int], game: str
) -> None:
    if not drops.get("NOOP"):  # it answers what it never does
        console.answer = lambda command, name: (
            "500 What?" if name == "question.txt" else ""
        )
        console.menu.answer = lambda command, name: (  # type: ignore[method-assign]
            "213 0" if command == "SIZE" else ""
        )
    console.drops = {**drops}
    send(home, console.url(""))
    row, is_told = home.item(game), drops.get("NOOP") == 2
    assert row["status"] == "completed"
    assert row.get("reason") == (None if is_told else "ftp_untold")
    assert console.commands.count("STOR") == 1


def test_what_was_taken_before_the_client_ended_is_asked_and_not_sent_again(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Mock(side_effect=KeyboardInterrupt)
    items = [home.queue(f"{name}.nsp", GAME) for name in "ab"]
    console.menu.is_good = lambda name: name == "a.nsp"
    for _ in items:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(send_to_switch.FTP, "_is_open", end)
            home.sender(console.url(""), state=same_state(home)).send_next()
        send(home, console.url(""), state=same_state(home))
    assert [home.item(item)["status"] for item in items] == ["completed", "failed"]
    assert console.commands.count("STOR") == 2


def test_what_a_console_installs_is_reported_meanwhile(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, game: str
) -> None:
    def report(self: Any, item: Any, client: str, **fields: Any) -> Any:
        answer, row = plain(self, item, client, **fields), home.item(game)
        if "NOOP" in console.commands:  # a report that began before may tell less
            reports.append((row["status"], row["percent"]))
        return answer

    plain, reports = send_to_switch.Server.report, list[Any]()
    monkeypatch.setattr(send_to_switch.Server, "report", report)
    monkeypatch.setattr(send_to_switch, "REPORT_SECONDS", 0.02)
    monkeypatch.setattr(send_to_switch, "INSTALL_SECONDS", 60.0)
    console.before = {"NOOP": lambda: wait_for(lambda: ("processing", 100) in reports)}
    send(home, console.url(""))
    assert ("processing", 100) in reports
    assert home.item(game)["status"] == "completed"


def test_a_name_that_the_menu_never_takes_fails(
    home: Home, console: FTPConsole, game: str
) -> None:
    console.menu.TAKEN = (".xci",)
    send(home, console.url(""))
    assert (
        "The console refuses game.nsp: 551 Invalid argument"
        in (home.item(game)["error"])
    )


def test_a_cancelled_item_does_not_wait_for_its_install(
    home: Home, console: FTPConsole, game: str
) -> None:
    sender = home.sender(console.url(""))
    console.drops = {"NOOP": 999}
    console.before = {"NOOP": lambda: home.store.queue.cancel(home.anna, game)}
    sender.send_next()
    assert home.item(game)["status"] in ("cancelled", "completed")


def test_a_name_that_was_taken_though_the_reply_was_lost_is_not_sent_again(
    home: Home, console: FTPConsole, game: str
) -> None:
    console.drops_data = 1
    console.before = {"NOOP": lambda: console.menu.taken.add("game.nsp")}
    send(home, console.url(""))
    assert home.item(game)["status"] == "completed"


@pytest.mark.root
def test_the_real_engine_tells_whether_it_was_installed(
    home: Home, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    names = {"good.nsp": b"GOOD", "bad.nsp": b"EVIL", "later.nsp": b"GOOD"}
    items = [home.queue(name, head + GAME) for name, head in names.items()]
    (own := tmp_path / "own").mkdir()
    with ftpservers.running("sphaira", card, own) as url:
        sender = home.sender(f"{url}install:")
        for _ in items:
            with contextlib.suppress(send_to_switch.TargetOffline):
                sender.send_next()
    good, bad, later = map(home.item, items)
    assert good["status"] == "completed"
    assert bad["error"].startswith(CLOSED)
    assert later["status"] == "pending"
    assert (card / "install:" / "good.nsp").read_bytes() == b"GOOD" + GAME
    assert not (card / "install:" / "later.nsp").exists()


# Folders that are known by what they do


class Behaviour:
    """A folder of a console that is not Sphaira's."""

    def __init__(self, console: FTPConsole, has_parts: bool, has_names: bool) -> None:
        self.has_parts, self.has_names, self.uses_up = has_parts, has_names, True
        console.answer = self.answer
        console.uses_up = lambda path: self.uses_up

    def answer(self, command: str, name: str) -> str:
        is_taken = self.has_parts if name.endswith(".part") else self.has_names
        return "551 Permission denied" if command == "STOR" and not is_taken else ""


@pytest.mark.parametrize("has_parts", [True, False])
def test_a_folder_that_uses_files_up_installs_and_is_remembered(
    home: Home, console: FTPConsole, has_parts: bool
) -> None:
    folder = Behaviour(console, has_parts, has_names=True)
    items = [home.queue(f"{name}.nsp", GAME) for name in "abc"]
    for item, count in zip(items, (2, 3, 4), strict=True):
        send(home, console.url("/"), state=same_state(home))
        assert home.item(item)["status"] == "completed"
        assert console.commands.count("STOR") == count
    assert same_state(home).installs == {f"127.0.0.1:{console.port}/"}
    assert same_state(home).parts == {}
    folder.uses_up, folder.has_parts = False, True
    later = [home.queue(f"{name}.nsp", GAME) for name in "de"]
    for item in later:
        send(home, console.url("/"), state=same_state(home))
        assert home.item(item)["status"] == "completed"
    assert files(console.folder) == ["d.nsp", "e.nsp"]
    send(home, console.url("/"), state=same_state(home))
    assert same_state(home).installs == set()


def test_a_folder_that_installed_and_has_the_file_is_a_disk_again(
    home: Home, console: FTPConsole
) -> None:
    folder = Behaviour(console, has_parts=False, has_names=True)
    home.queue("a.nsp", GAME)
    send(home, console.url("/"), state=same_state(home))
    folder.uses_up, folder.has_parts = False, True
    item = home.queue("b.nsp", GAME)
    (console.folder / "b.nsp").write_bytes(b"other")
    send(home, console.url("/"), state=same_state(home))
    assert home.item(item)["reason"] == "other_file"
    assert (console.folder / "b.nsp").read_bytes() == b"other"


@pytest.mark.parametrize("replies", [{}, {"LIST": "502 No."}])
def test_a_folder_in_which_each_name_exists_installs_and_does_not_tell(
    home: Home, console: FTPConsole, replies: dict[str, str], game: str
) -> None:
    (console.folder / "install:").rmdir()
    (console.folder / "NAND").mkdir()
    sizes = {"SIZE": "213 0", **replies}
    console.answer = lambda command, name: sizes.get(command, "")
    send(home, console.url("/NAND"))
    assert home.item(game)["status"] == "completed"
    assert files(console.folder) == ["NAND/game.nsp"]
    assert "question" not in console.commands


def test_a_folder_that_installed_and_takes_nothing_now_has_the_item_wait(
    home: Home, console: FTPConsole
) -> None:
    folder = Behaviour(console, has_parts=False, has_names=True)
    home.queue("a.nsp", GAME)
    send(home, console.url("/"), state=same_state(home))
    folder.has_names = False
    item = home.queue("b.nsp", GAME)
    sender = home.sender(console.url("/"), state=same_state(home))
    put_back(home, item, sender, "takes no file now")


@pytest.mark.parametrize("has_list", [True, False])
@pytest.mark.parametrize("names", [["NAND install", "SD Card install"], []])
def test_a_folder_that_takes_no_file_names_those_that_are_in_it(
    home: Home, console: FTPConsole, names: list[str], has_list: bool, game: str
) -> None:
    (console.folder / "install:").rmdir()
    for name in names:
        (console.folder / name).mkdir()
    Behaviour(console, has_parts=False, has_names=False)
    console.refuses = {} if has_list else {"LIST": "502 No."}
    send(home, console.url("/"))
    why = "The console refuses game.nsp: 551 Permission denied."
    if names and has_list:
        why = "The folder / takes no file: 551 Permission denied. It has these"
        why += f" folders: {', '.join(names)}."
    assert home.item(game)["error"] == why


def test_each_folder_that_is_named_is_one_to_choose(
    home: Home, console: FTPConsole, game: str
) -> None:
    (console.folder / "install:").rmdir()
    names = {f"{number} {'x' * 60}" for number in range(9)}
    for name in names:
        (console.folder / name).mkdir()
    Behaviour(console, has_parts=False, has_names=False)
    send(home, console.url("/"))
    told = home.item(game)["arguments"]["folders"].split(", ")
    assert {*told} < names and len(told) == send_to_switch.MAX_NAMED_FOLDERS


@pytest.mark.parametrize("reply", ["550 Read-only file system", "552 Full", "452 No"])
def test_a_disk_that_is_full_or_read_only_is_no_folder_that_installs(
    home: Home, console: FTPConsole, reply: str, game: str
) -> None:
    console.answer = lambda command, name: reply if command == "STOR" else ""
    send(home, console.url("/"))
    assert home.item(game)["status"] == "failed"
    assert console.commands.count("STOR") == 1


@pytest.mark.parametrize("has_parts", [True, False])
def test_a_file_that_is_there_is_not_sent_over(
    home: Home, console: FTPConsole, has_parts: bool, game: str
) -> None:
    """Somebody puts a file there while the part is refused or used up."""

    def put() -> None:
        (console.folder / "game.nsp").write_bytes(b"other")

    Behaviour(console, has_parts, has_names=True)
    console.before = {"STOR": put}
    send(home, console.url("/"))
    assert home.item(game)["status"] == "failed"
    assert (console.folder / "game.nsp").read_bytes() == b"other"


@pytest.mark.parametrize("name", ["game.nsp", "ゲーム.nsp"])
def test_a_name_that_a_list_hides_is_read_before_it_is_gone(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """kaiHEN hides names that are not ASCII."""

    def listed(connection: Any) -> list[Any]:
        return [file for file in plain(connection) if file.name.isascii()]

    plain = send_to_switch.Connection.listed
    monkeypatch.setattr(send_to_switch.Connection, "listed", listed)
    console.refuses = {"SIZE": "500 Unknown."}
    item = home.queue(name, GAME)
    send(home, console.url("/"))
    assert home.item(item)["status"] == "completed"
    assert (console.folder / name).read_bytes() == GAME
    assert console.commands.count("STOR") == 1


def test_a_file_that_was_written_by_its_own_name_is_not_removed_as_a_part(
    home: Home, console: FTPConsole
) -> None:
    """The client ended when all of it was there."""
    item, state = home.queue("game.nsp", GAME), same_state(home)
    state.begin("game.nsp", "x", ITEM)
    (console.folder / "game.nsp").write_bytes(GAME)
    send(home, console.url("/"), state=state)
    assert home.item(item)["status"] == "completed"
    assert (console.folder / "game.nsp").read_bytes() == GAME


# Disks


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_card_with_fat32_is_told_after_one_attempt_or_once_it_can_be_asked(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    limit = 3 * 1024 * 1024
    monkeypatch.setattr(send_to_switch, "FAT32_LIMIT_BYTES", limit)
    item = home.queue("game.nsp", os.urandom(limit + 5_000_000))
    console.ends_after, console.ends_with = limit - 70_000, "426 I/O error"
    passes = itertools.count()
    console.answer = lambda command, name: (
        "426 Not now" if is_busy and command == "CWD" and next(passes) == 2 else ""
    )
    send(home, console.url("/"))
    assert home.item(item)["reason"] == "card_fat32"
    assert is_busy or console.commands.count("STOR") == 1


def test_a_card_that_is_full_in_mid_transfer_is_told_at_once_and_nothing_shown_of_it(
    home: Home, console: FTPConsole
) -> None:
    item = home.queue("game.nsp", os.urandom(4_000_000))
    console.ends_after, console.ends_with = 1_000_000, "552 Quota exceeded"
    send(home, console.url("/"))
    row = home.item(item)
    assert (row["status"], row["reason"]) == ("failed", "ftp_full")
    assert (row["percent"], row["bytes"]) == (0, 0)


def test_a_console_that_is_lost_at_the_limit_of_fat32_is_offline(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "FAT32_LIMIT_BYTES", 2_000_000)
    item = home.queue("game.nsp", os.urandom(4_000_000))
    sender = home.sender(console.url("/"))
    when_sent(sender, 2_000_000, console.close)
    put_back(home, item, sender)


@pytest.mark.parametrize("reply", ["500 OOPS: killed", "550 What?", "426 Broken"])
def test_a_reply_in_mid_transfer_is_a_connection_that_broke(
    home: Home, console: FTPConsole, reply: str
) -> None:
    game = os.urandom(8_000_000)
    item = home.queue("game.nsp", game)
    sender = home.sender(console.url("/"))
    console.ends_after, console.ends_with = 2_000_000, reply
    when_sent(sender, 1_000_000, lambda: setattr(console, "ends_after", 4_000_000))
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert (console.folder / "game.nsp").read_bytes() == game
    assert "APPE" in console.commands


@pytest.mark.parametrize("command", ["RETR", "LIST"])
def test_a_reply_in_mid_reading_is_a_connection_that_broke(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As a process of vsftpd that is killed tells."""

    def end(session: Session) -> None:
        kills.append(session.word)
        session.reply(500, "OOPS: killed")
        raise ConnectionAbortedError

    def give(session: Session, size: int) -> None:
        if not kills:
            end(session)

    def do_list(session: Session, argument: str) -> None:
        if kills:
            return plain(session, argument)
        with session.data():
            return end(session)

    kills: list[str] = []
    (card / "game.nsp").write_bytes(GAME)
    with contextlib.closing(Ftpsrv(card)) as console:
        plain = Session.do_LIST
        if command == "LIST":
            console.has_sizes = False
            monkeypatch.setattr(Session, "do_LIST", do_list)
        console.give = give
        item = home.queue("game.nsp", GAME)
        home.sender(console.url).send_next()
    assert kills == [command]
    assert home.item(item)["status"] == "completed"
    assert home.item(item)["error"] == ""


def test_a_size_that_is_refused_for_now_is_asked_of_the_list(
    home: Home, console: FTPConsole, game: str
) -> None:
    console.refuses = {"SIZE": "450 No such file."}
    send(home, console.url("/"))
    assert home.item(game)["status"] == "completed"


def test_a_login_that_is_refused_is_asked_again_by_and_by(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(send_to_switch.time, "monotonic", lambda: now[0])
    console.refuses = {"USER": "530 Not allowed."}
    sender = home.sender(console.url("/"))

    def tries(seconds: float) -> int:
        now[0] += seconds
        with pytest.raises(send_to_switch.TargetOffline, match="530 Not allowed"):
            sender.target.check_ready(sender.state)
        return console.commands.count("USER")

    waits = [0, 59, 2, 299, 2, 899, 2, 899, 2]
    assert [*map(tries, waits)] == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    console.refuses, now[0] = {}, now[0] + 901
    assert sender.target.check_ready(sender.state) == send_to_switch.READY
    sender.target.close()


@pytest.mark.parametrize("reply", ["500 PASV not understood", "502 No."])
def test_a_server_without_passive_mode_is_told_so(
    home: Home, console: FTPConsole, reply: str, game: str
) -> None:
    console.refuses = {"PASV": reply, "EPSV": reply}
    send(home, console.url("/"))
    assert home.item(game)["reason"] == "ftp_no_passive"


def test_a_web_server_at_the_port_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "CONNECT_SECONDS", 0.1)
    with contextlib.closing(Origin(lambda request: request.reply(200))) as origin:
        sender = home.sender(f"ftp://{origin.url.removeprefix('http://')}/")
        with pytest.raises(send_to_switch.TargetOffline, match="A web server answers"):
            sender.target.check_ready(sender.state)


def test_a_part_that_a_console_neither_renames_nor_removes_is_told(
    home: Home, console: FTPConsole, game: str
) -> None:
    console.refuses = {"RNFR": "502 No.", "DELE": "502 No."}
    send(home, console.url("/"))
    row = home.item(game)
    assert (row["status"], row["reason"]) == ("completed", "ftp_left")
    assert files(console.folder) == ["game.nsp", "game.nsp.part"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_names_that_the_target_does_not_list_any_more_are_forgotten(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_SENT_NAMES", 2)
    state = same_state(home)
    for name in ("gone.nsp", "ゲーム.nsp", "app.nro"):
        state.mark_sent(ITEM, name)
    if not is_listed:
        console.refuses = {"LIST": "502 No."}
    home.queue("game.nsp", GAME)
    send(home, console.url("/"), state=state)
    kept = {"ゲーム.nsp", "app.nro", "game.nsp", *([] if is_listed else ["gone.nsp"])}
    assert {*same_state(home).files} == kept
    home.queue("b.nsp", GAME)
    folder = home.sender(f"folder:{console.folder}", state=state)
    folder.send_next()
    assert "gone.nsp" not in state.files


# Answers that end nothing


@pytest.fixture
def proxy(home: Home) -> Iterator["Proxy"]:
    with contextlib.closing(Proxy(home)) as proxy:
        yield proxy


class Proxy:
    """Passes all calls on to the server, but for those that it answers itself."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.answers: Callable[[str], int] = lambda path: 0  # a status, 0 for none
        self.body = b"<html>"
        self.origin = Origin(lambda request: self.answer(request))
        self.url = self.origin.url
        self.cut = 10**9  # bytes after which a file breaks off

    def answer(self, request: Request) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        status = self.answers(request.path.partition("?")[0])
        if status:
            return request.reply(status, self.body)
        names = ("Authorization", "Range", "If-Range", "Content-Type")
        headers = {n: request.headers[n] for n in names if n in request.headers}
        parts = send_to_switch.split_address(self.home.address, "http")
        call = send_to_switch.connection(parts)
        with contextlib.closing(call):
            call.request(request.command, request.path, body or None, headers)
            answer = call.getresponse()
            kept = ("ETag", "Content-Range", "Content-Disposition", "Repr-Digest")
            more = {n: answer.headers[n] for n in kept if n in answer.headers}
            data = answer.read()
            length = {"Content_Length": str(len(data))}
            request.reply(answer.status, data[: self.cut], **more, **length)
        return None

    def close(self) -> None:
        self.origin.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 429])
def test_a_proxy_that_denies_a_file_lets_the_next_item_go_first(
    home: Home,
    proxy: Proxy,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    now = [0.0]
    clock = send_to_switch.time.monotonic
    monkeypatch.setattr(send_to_switch.time, "monotonic", lambda: clock() + now[0])
    first, second = home.queue("a.nsp", GAME * 10), home.queue("b.nsp", GAME)
    entry = home.store.queue.items(home.anna)[0]["entry"]
    calls = itertools.count()
    denies = [True]
    proxy.answers = lambda path: (
        status
        if path == f"/api/download/{entry}" and denies[0] and next(calls) > 1
        else 0
    )
    proxy.cut = 1_000_000
    sender = home.sender(f"folder:{card}", address=proxy.url)
    assert sender.send_next()
    assert home.item(second)["status"] == "completed"
    assert (home.item(first)["status"], home.item(first)["bytes"]) == (
        "pending",
        1_000_000,
    )
    for seconds in (300, 200):  # and what this takes
        now[0] += seconds
        with pytest.raises(send_to_switch.Denied):
            sender.send_next()
    now[0] += 101
    assert sender.send_next()
    row = home.item(first)
    assert row["status"] == "failed"
    assert "Gave up after 4 attempts." in row["error"]
    monkeypatch.setattr(send_to_switch, "UNDO_SECONDS", 0.0)
    assert not sender.send_next()
    assert (card / "a.nsp.part").stat().st_size == 1_000_000
    denies[0], proxy.cut = False, 10**9
    home.store.queue.retry(home.anna, first)
    assert sender.send_next()
    assert (card / "a.nsp").read_bytes() == GAME * 10
    assert files(card) == ["a.nsp", "b.nsp"]


@pytest.mark.parametrize(
    ("status", "body", "ends"),
    [(403, {"error": "x"}, True), (429, {"error": "x"}, False), (401, {}, False)],
)
def test_a_refusal_of_the_server_itself_fails_an_item(
    home: Home,
    proxy: Proxy,
    card: pathlib.Path,
    status: int,
    body: dict[str, str],
    ends: bool,
) -> None:
    item = home.queue("a.nsp", GAME)
    proxy.body = json.dumps(body).encode()
    proxy.answers = lambda path: status if "/api/download/" in path else 0
    send(home, f"folder:{card}", address=proxy.url)
    assert home.item(item)["status"] == ("failed" if ends else "pending")


def test_a_coded_refusal_of_the_key_ends_the_client(
    home: Home, proxy: Proxy, card: pathlib.Path
) -> None:
    home.queue("a.nsp", GAME)
    proxy.body = json.dumps({"error": "unauthorized"}).encode()
    proxy.answers = lambda path: 401 if "/api/download/" in path else 0
    with pytest.raises(send_to_switch.BadKey):
        home.sender(f"folder:{card}", address=proxy.url).send_next()


def test_a_claim_that_is_refused_for_good_holds_up_no_other_item(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(self: Any, item: Any, client: str, **fields: Any) -> Any:
        if item.entry_name == "a":
            raise send_to_switch.Failed("The report is refused.")
        return plain(self, item, client, **fields)

    plain = send_to_switch.Server.report
    monkeypatch.setattr(send_to_switch.Server, "report", report)
    home.queue("a.nsp", GAME)
    item = home.queue("b.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    assert sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert sender.reports.failures == 1


def test_what_was_served_of_a_list_is_asked_once() -> None:
    offers = send_to_switch.Offers(Mock(), Mock())
    offers._has_asked = True
    assert not offers.end_orphans(Mock(), [ITEM])


def test_what_is_offered_is_claimed_before_the_server_forgets_it() -> None:
    offered = send_to_switch.Offered(ITEM, send_to_switch.Screen())
    offered.progress.told_at -= 3.1
    assert offered.report(60.0) is None
    assert offered.report(10 / 3) is None
    assert offered.report(9 / 3) == {"offered": True}


def test_a_listing_that_never_ends_is_cancelled_at_once(
    home: Home, card: pathlib.Path
) -> None:
    over, waited = threading.Event(), list[bool]()

    def cancel() -> None:
        wait_for(lambda: "LIST" in console.commands)
        home.store.queue.cancel(home.anna, item)

    with contextlib.closing(Ftpsrv(card)) as console:
        console.has_sizes = False
        plain = console.note
        (card / "game.nsp.part").write_bytes(b"x")
        item = home.queue("game.nsp", GAME)
        sender = home.sender(console.url)

        def hang(command: str) -> None:
            plain(command)
            if command == "LIST":
                waited.append(over.wait(30))

        console.note = hang  # type: ignore[method-assign]
        canceller = threading.Thread(target=cancel)
        canceller.start()
        sender.send_next()
        assert waited == []  # the console still holds the list back
        over.set()
        canceller.join()
    assert home.item(item)["status"] == "cancelled"


def test_a_listing_that_never_ends_is_given_up(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "LIST_SECONDS", 0.2)
    with contextlib.closing(Ftpsrv(card)) as console:
        console.has_sizes = False
        console.list_seconds = 3.0
        (card / "game.nsp.part").write_bytes(b"x")
        item = home.queue("game.nsp", GAME)
        sender = home.sender(console.url)
        monkeypatch.setattr(send_to_switch, "MAX_ATTEMPTS", 1)
        sender.send_next()
        assert "no answer in time" in home.item(item)["error"]
