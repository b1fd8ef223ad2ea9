"""Each kind of target, with a real server on the one side and on the other a folder,
a real FTP server, or an installer that pulls as consoles do."""

import contextlib
import errno
import hashlib
import os
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import send_to_switch
from conftest import Home, small_disk, wait_for
from consoles import FTPConsole, Installer

GAME = os.urandom(3_000_000)  # several blocks, and more than a socket's buffers hold


@pytest.fixture
def card(tmp_path: pathlib.Path) -> pathlib.Path:
    card = tmp_path / "card"
    card.mkdir()
    return card


@pytest.fixture
def console(card: pathlib.Path) -> Iterator[FTPConsole]:
    with contextlib.closing(FTPConsole(card)) as console:
        yield console


@pytest.fixture
def installer() -> Iterator[Callable[..., Installer]]:
    with contextlib.ExitStack() as stack:

        def make(behave: Callable[[Installer, str], None]) -> Installer:
            return stack.enter_context(contextlib.closing(Installer(behave)))

        yield make


class Crash(BaseException):
    """The end of the client, at a moment where it cannot do anything about it."""


def crash(*given: Any) -> None:
    raise Crash


def ctrl_c() -> None:
    raise KeyboardInterrupt


def at(sender: send_to_switch.Sender, count: int, act: Callable[[], Any]) -> None:
    """Do something, once, when so many bytes are at the target."""
    left = [count]

    def moved(more: int) -> None:
        before, left[0] = left[0], left[0] - more
        if before > 0 >= left[0]:
            act()

    sender.screen.moved = moved  # type: ignore[method-assign]


def files(folder: pathlib.Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )


# Any target


@pytest.mark.parametrize(
    "to", ["", "folder:", "ftp://", "lan://", "smb://x", "ftp://[", "lan://h:x"]
)
def test_what_is_no_target_is_refused(to: str) -> None:
    with pytest.raises(send_to_switch.Problem):
        send_to_switch.find_target(to)


# A folder


def test_a_folder_gets_the_file_under_its_name_and_nothing_else(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("A game [v0].nsp", GAME)
    assert home.sender(f"folder:{card}").step()
    assert os.listdir(card) == ["A game [v0].nsp"]
    assert (card / "A game [v0].nsp").read_bytes() == GAME
    row = home.item(item)
    assert (row["status"], row["percent"]) == ("completed", 100)
    assert row["bytes"] == len(GAME)


def test_an_empty_file_is_a_file_too(home: Home, card: pathlib.Path) -> None:
    pathlib.Path(home.library.add("empty.nsp")).write_bytes(b"")
    os.utime(home.library.folder / "empty.nsp", (1, 1))
    home.web.scanner.scan()
    home.store.queue.send(home.anna, home.store.entries.downloadable()[0]["id"])
    home.sender(f"folder:{card}").step()
    assert (card / "empty.nsp").read_bytes() == b""


def test_a_file_of_the_same_name_is_replaced(home: Home, card: pathlib.Path) -> None:
    (card / "game.nsp").write_bytes(b"old")
    home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}").step()
    assert (card / "game.nsp").read_bytes() == GAME


def test_an_interrupted_file_goes_on_where_it_was(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    at(sender, 1_000_000, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        sender.step()
    have = (card / "game.nsp.part").stat().st_size
    assert have >= 1_000_000
    assert home.item(item)["status"] == "pending"
    home.sender(f"folder:{card}", state=sender.state).step()
    assert f"going on at {send_to_switch.amount(have)}" in capsys.readouterr().out
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_part_of_what_the_file_was_before_is_not_gone_on_with(
    home: Home, card: pathlib.Path
) -> None:
    home.queue("game.nsp", b"x" * 3_000_000)
    sender = home.sender(f"folder:{card}")
    at(sender, 1_000_000, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        sender.step()
    home.library.add("game.nsp", GAME, mtime=1_700_000_000)
    home.web.scanner.scan()
    home.sender(f"folder:{card}", state=sender.state).step()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_part_that_nothing_is_known_of_is_not_gone_on_with(
    home: Home, card: pathlib.Path
) -> None:
    (card / "game.nsp.part").write_bytes(b"of something else")
    home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}").step()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_file_that_changes_in_mid_transfer_is_begun_again(
    home: Home, card: pathlib.Path
) -> None:
    home.queue("game.nsp", os.urandom(30_000_000))  # more than is on its way at once
    sender = home.sender(f"folder:{card}")

    def change() -> None:
        path = home.library.folder / "game.nsp"
        path.write_bytes(GAME)
        home.drop()

    at(sender, 500_000, change)
    sender.step()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_file_that_was_sent_before_a_crash_is_not_sent_again(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    monkeypatch.setattr(sender, "_completed", crash)
    monkeypatch.setattr(sender, "_release", lambda item: None)
    with pytest.raises(Crash):
        sender.step()
    assert home.item(item)["status"] == "processing"
    inode = (card / "game.nsp").stat().st_ino
    again = home.sender(f"folder:{card}", state=sender.state)
    assert again.step()
    assert home.item(item)["status"] == "completed"
    assert (card / "game.nsp").stat().st_ino == inode


def test_a_folder_that_is_not_there_takes_nothing(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    with pytest.raises(send_to_switch.TargetAway, match="Is the card in"):
        home.sender(f"folder:{card}/nowhere").step()
    assert home.item(item)["status"] == "pending"


def test_a_folder_that_cannot_be_written_to_takes_nothing(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    home.queue("game.nsp", GAME)
    with pytest.raises(send_to_switch.TargetAway, match="cannot be written to"):
        home.sender(f"folder:{card}").step()


def test_a_file_that_does_not_fit_fails_before_it_starts(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    with small_disk(card, 1_000_000):
        home.sender(f"folder:{card}").step()
        assert os.listdir(card) == []
    row = home.item(item)
    assert row["status"] == "failed"
    assert "has room for" in row["error"]
    assert "3.0 MB" in row["error"]


def test_a_disk_that_fills_up_on_the_way_fails_the_item_and_is_cleaned(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    small = home.queue("small.nsp", b"small")
    with small_disk(card, 4_000_000):
        sender = home.sender(f"folder:{card}")
        other = card / "other"
        at(sender, 500_000, lambda: other.write_bytes(b"x" * 3_000_000))
        sender.step()
        assert home.item(item)["error"] == f"{card} is full."
        assert os.listdir(card) == ["other"]
        sender.step()
        assert (card / "small.nsp").read_bytes() == b"small"
    assert home.item(small)["status"] == "completed"


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EFBIG, "FAT32"),
        (errno.ENAMETOOLONG, "refuses the file's name"),
        (errno.EDQUOT, "is full"),
    ],
)
def test_what_the_folder_refuses_fails_the_item(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    says: str,
) -> None:
    def refuse(*given: Any) -> None:
        raise OSError(number, os.strerror(number))

    item = home.queue("game.nsp", GAME)
    monkeypatch.setattr(os, "fsync", refuse)
    home.sender(f"folder:{card}").step()
    assert says in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_folder_that_lost_bytes_fails_the_item(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    monkeypatch.setattr(os, "fsync", lambda number: os.ftruncate(number, 5))
    home.sender(f"folder:{card}").step()
    assert f"has 5 of {len(GAME)} bytes" in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_card_that_is_pulled_out_gives_the_item_back(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)

    def gone(*given: Any) -> None:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(os, "fsync", gone)
    sender = home.sender(f"folder:{card}")
    for _ in range(send_to_switch.AWAYS - 1):
        with pytest.raises(send_to_switch.TargetAway, match="No such device"):
            sender.step()
        assert home.item(item)["status"] == "pending"
    sender.step()  # so often that the item may be at fault
    assert home.item(item)["status"] == "failed"


def test_a_file_of_4_gib_is_refused_on_a_fat_card(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    monkeypatch.setattr(send_to_switch, "FOUR_GIB", len(GAME))
    monkeypatch.setattr(send_to_switch, "file_system", lambda folder: "vfat")
    home.sender(f"folder:{card}").step()
    assert "takes no file of 4 GiB" in home.item(item)["error"]


def test_the_kind_of_a_file_system_is_found(
    card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    device = os.stat(card).st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(
        "1 1 0:0 / / rw shared:1 - ext4 /dev/a rw\n"
        f"2 1 {number} / /media/My\\040card rw shared:2 master:3 - vfat /dev/b rw\n"
    )
    assert send_to_switch.file_system(str(card), str(mounts)) == "vfat"
    mounts.write_text("1 1 0:0 / / rw - ext4 /dev/a rw\n")
    assert send_to_switch.file_system(str(card), str(mounts)) == ""
    assert send_to_switch.file_system(str(card), str(tmp_path / "none")) == ""


def tell_digest(home: Home, digest: bytes) -> None:
    """Have the server send the SHA-256 of its one file along, as Repr-Digest."""
    (known,) = home.store.entries.checksums()
    now = os.stat(known.path)
    known = known._replace(size=now.st_size, mtime=now.st_mtime_ns)
    home.store.entries.set_checksum(known._replace(sha256=digest.hex()))


def test_the_servers_digest_is_checked_also_over_an_interruption(
    home: Home, card: pathlib.Path
) -> None:
    home.queue("game.nsp", GAME)
    tell_digest(home, hashlib.sha256(GAME).digest())
    sender = home.sender(f"folder:{card}")
    at(sender, 1_000_000, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        sender.step()
    home.sender(f"folder:{card}", state=sender.state).step()
    assert (card / "game.nsp").read_bytes() == GAME


def test_a_part_that_was_damaged_is_found_by_the_servers_digest(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    tell_digest(home, hashlib.sha256(GAME).digest())
    sender = home.sender(f"folder:{card}")
    at(sender, 1_000_000, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        sender.step()
    with open(card / "game.nsp.part", "r+b") as part:
        part.write(b"damage")
    home.sender(f"folder:{card}", state=sender.state).step()
    assert "digests differ" in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_file_that_is_not_what_the_server_says_fails(
    home: Home, card: pathlib.Path, console: FTPConsole
) -> None:
    for to in (f"folder:{card}", console.url()):
        item = home.queue("game.nsp", GAME)
        tell_digest(home, hashlib.sha256(b"other").digest())
        home.sender(to).step()
        assert "digests differ" in home.item(item)["error"]
        assert os.listdir(card) == []


def test_verify_reads_the_file_back(home: Home, card: pathlib.Path) -> None:
    item = home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}", verify=True).step()
    assert home.item(item)["status"] == "completed"


def test_verify_finds_a_card_that_is_worn_out(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.setattr(os, "fsync", lambda number: os.pwrite(number, b"x", 7))
    home.sender(f"folder:{card}", verify=True).step()
    assert "reads back differently" in home.item(item)["error"]


# A console's FTP server


def test_ftp_gets_the_file_under_its_name_and_nothing_else(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "games").mkdir()
    item = home.queue("A game [v0].nsp", GAME)
    home.sender(console.url("/games/")).step()
    assert files(console.folder) == ["games/A game [v0].nsp"]
    assert (console.folder / "games/A game [v0].nsp").read_bytes() == GAME
    assert home.item(item)["status"] == "completed"


def test_an_account_of_the_console_is_used(home: Home, console: FTPConsole) -> None:
    home.queue("game.nsp", GAME)
    home.sender(console.url().replace("//", "//me:p%40ss@", 1)).step()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_the_install_folder_is_the_default_and_gets_a_plain_stream(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    home.queue("game.nsp", GAME)
    home.sender(console.url("")).step()
    assert files(console.folder) == ["install:/game.nsp"]
    assert not {"REST", "RNFR", "RNTO", "SIZE"}.intersection(console.commands)


@pytest.mark.parametrize("has_folder", [True, False])
def test_homebrew_goes_to_the_switch_folder(
    home: Home, console: FTPConsole, has_folder: bool
) -> None:
    (console.folder / "install:").mkdir()
    if has_folder:
        (console.folder / "switch").mkdir()
    home.queue("app.nro", GAME)
    home.sender(console.url("/install:")).step()
    assert files(console.folder) == ["switch/app.nro"]


def test_a_console_that_is_off_takes_nothing(home: Home, console: FTPConsole) -> None:
    item = home.queue("game.nsp", GAME)
    console.close()
    with pytest.raises(send_to_switch.TargetAway, match="is away"):
        home.sender(console.url()).step()
    assert home.item(item)["status"] == "pending"


def test_a_folder_that_the_console_does_not_have_takes_nothing(
    home: Home, console: FTPConsole
) -> None:
    item = home.queue("game.nsp", GAME)
    with pytest.raises(send_to_switch.TargetAway, match="550"):
        home.sender(console.url("/nowhere")).step()
    assert home.item(item)["status"] == "pending"


STAGES = ["USER", "TYPE", "CWD", "SIZE", "PASV", "STOR", "RNFR", "RNTO"]


@pytest.mark.parametrize("stage", STAGES[3:])
def test_a_connection_that_drops_at_any_command_is_mended(
    home: Home, console: FTPConsole, stage: str
) -> None:
    item = home.queue("game.nsp", GAME)
    console.drops = {stage: 2}
    home.sender(console.url()).step()
    assert home.item(item)["status"] == "completed"
    assert files(console.folder) == ["game.nsp"]
    assert (console.folder / "game.nsp").read_bytes() == GAME


@pytest.mark.parametrize("stage", STAGES[:3])
def test_a_connection_that_drops_at_its_start_is_a_console_that_is_away(
    home: Home, console: FTPConsole, stage: str
) -> None:
    item = home.queue("game.nsp", GAME)
    console.drops = {stage: 1}
    sender = home.sender(console.url())
    with pytest.raises(send_to_switch.TargetAway):
        sender.step()
    assert home.item(item)["status"] == "pending"
    sender.step()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_data_that_breaks_off_is_gone_on_with(
    home: Home, console: FTPConsole, capsys: pytest.CaptureFixture[str]
) -> None:
    home.queue("game.nsp", GAME)
    console.drops_data = 3
    home.sender(console.url()).step()
    assert (console.folder / "game.nsp").read_bytes() == GAME
    assert "going on at" in capsys.readouterr().out
    assert "REST" in console.commands


def test_an_install_that_breaks_off_begins_at_zero(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    home.queue("game.nsp", GAME)
    console.drops_data = 3
    home.sender(console.url("")).step()
    assert (console.folder / "install:/game.nsp").read_bytes() == GAME
    assert "REST" not in console.commands


def test_a_console_without_rest_gets_the_file_from_zero(
    home: Home, console: FTPConsole
) -> None:
    home.queue("game.nsp", GAME)
    console.drops_data = 2
    console.refuses = {"REST": "502 Not implemented."}
    home.sender(console.url()).step()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_a_console_that_always_breaks_off_fails_the_item_and_not_the_next(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    first, second = home.queue("a.nsp", GAME), home.queue("b.nsp", GAME)
    console.drops_data = send_to_switch.FTP_TRIES
    sender = home.sender(console.url(""))
    sender.step()
    assert "broke off 5 times" in home.item(first)["error"]
    sender.step()
    assert home.item(second)["status"] == "completed"


def test_a_console_that_is_switched_off_on_the_way_gives_the_item_back(
    home: Home, console: FTPConsole
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(console.url())
    at(sender, 500_000, console.close)
    with pytest.raises(send_to_switch.TargetAway):
        sender.step()
    assert home.item(item)["status"] == "pending"


def test_a_report_on_its_way_is_taken_before_the_item_is_given_back(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    report = home.store.report
    arrived, taken = threading.Event(), threading.Event()

    def slowly(account: int, item: str, fields: Any) -> str:
        if "release" in fields or "status" in fields:
            return report(account, item, fields)
        arrived.set()
        time.sleep(0.2)
        status = report(account, item, fields)
        taken.set()
        return status

    def leave() -> None:
        assert arrived.wait(20)
        raise send_to_switch.TargetAway("gone")

    monkeypatch.setattr(home.store, "report", slowly)
    sender = home.sender(f"folder:{card}")
    at(sender, 500_000, leave)
    with pytest.raises(send_to_switch.TargetAway):
        sender.step()
    assert taken.wait(20)
    assert home.item(item)["status"] == "pending"


@pytest.mark.parametrize("command", ["STOR", "RNFR"])
def test_a_name_that_the_console_refuses_fails_the_item_and_not_the_next(
    home: Home, console: FTPConsole, command: str
) -> None:
    first, second = home.queue("bad.nsp", GAME), home.queue("good.nsp", GAME)
    console.refuses = {command: "553 File name not allowed."}
    sender = home.sender(console.url())
    sender.step()
    row = home.item(first)
    assert row["status"] == "failed"
    assert "The console refuses bad.nsp" in row["error"] or command == "RNFR"
    assert files(console.folder) == []
    console.refuses = {}
    sender.step()
    assert home.item(second)["status"] == "completed"


def test_an_install_menu_that_is_closed_gives_the_item_back(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    item = home.queue("game.nsp", GAME)
    console.refuses = {"STOR": "550 No such file."}
    sender = home.sender(console.url(""))
    with pytest.raises(send_to_switch.TargetAway, match="Is its FTP install open"):
        sender.step()
    assert home.item(item)["status"] == "pending"


def test_a_console_that_is_full_fails_the_item_and_keeps_no_part(
    home: Home, console: FTPConsole
) -> None:
    item = home.queue("game.nsp", GAME)
    console.ends_after = 1_000_000
    home.sender(console.url()).step()
    assert "The console is full" in home.item(item)["error"]
    assert files(console.folder) == []


def test_a_console_that_takes_no_more_and_says_that_all_is_well_gets_the_rest(
    home: Home, console: FTPConsole
) -> None:
    home.queue("game.nsp", os.urandom(30_000_000))
    console.ends_after = 10_000_000
    console.ends_with = "226 Thank you."
    home.sender(console.url()).step()
    assert files(console.folder) == ["game.nsp"]
    assert (console.folder / "game.nsp").stat().st_size == 30_000_000


def test_homebrew_that_does_not_fit_leaves_no_part_either(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "install:").mkdir()
    home.queue("app.nro", GAME)
    console.ends_after = 1_000_000
    home.sender(console.url("")).step()
    assert files(console.folder) == []


def test_a_console_whose_card_is_really_full_fails_the_item(
    home: Home, console: FTPConsole
) -> None:
    item = home.queue("game.nsp", GAME)
    with small_disk(console.folder, 1_000_000):
        home.sender(console.url()).step()
        assert files(console.folder) == []
    assert "Is its card full?" in home.item(item)["error"]  # it says 426, and no more


def test_a_file_that_is_there_is_replaced_also_where_rename_does_not(
    home: Home, console: FTPConsole
) -> None:
    (console.folder / "game.nsp").write_bytes(b"old")
    home.queue("game.nsp", GAME)
    console.refuses_once = {"RNTO": "553 It is there."}
    home.sender(console.url()).step()
    assert (console.folder / "game.nsp").read_bytes() == GAME


def test_ftp_goes_on_after_a_restart_of_the_client(
    home: Home, console: FTPConsole, capsys: pytest.CaptureFixture[str]
) -> None:
    game = os.urandom(30_000_000)  # more than is on its way at once
    home.queue("game.nsp", game)
    sender = home.sender(console.url())
    at(sender, 20_000_000, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        sender.step()
    home.sender(console.url(), state=sender.state).step()
    assert (console.folder / "game.nsp").read_bytes() == game
    assert "going on at" in capsys.readouterr().out


@pytest.mark.parametrize("folder", ["", "/"])
def test_ftp_does_not_send_again_what_was_sent_before_a_crash(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (console.folder / "install:").mkdir()
    item = home.queue("game.nsp", GAME)
    sender = home.sender(console.url(folder))
    monkeypatch.setattr(sender, "_completed", crash)
    monkeypatch.setattr(sender, "_release", lambda item: None)
    with pytest.raises(Crash):
        sender.step()
    home.sender(console.url(folder), state=sender.state).step()
    assert home.item(item)["status"] == "completed"
    assert console.commands.count("STOR") == 1


def test_ftp_verify_reads_the_file_back(home: Home, console: FTPConsole) -> None:
    item = home.queue("game.nsp", GAME)
    home.sender(console.url(), verify=True).step()
    assert home.item(item)["status"] == "completed"
    assert "RETR" in console.commands


def test_ftp_verify_finds_what_was_damaged(
    home: Home, console: FTPConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    console.before = {
        "RETR": lambda: (console.folder / "game.nsp.part").write_bytes(b"x" * 9)
    }
    home.sender(console.url(), verify=True).step()
    assert "reads back differently" in home.item(item)["error"]
    assert files(console.folder) == []


def test_a_part_that_the_console_lost_bytes_of_is_mended(
    home: Home, console: FTPConsole
) -> None:
    home.queue("game.nsp", GAME)
    part = console.folder / "game.nsp.part"
    shrink = iter([lambda: None, lambda: os.truncate(part, 2_000_000)])
    console.before = {"SIZE": lambda: next(shrink, lambda: None)()}
    home.sender(console.url()).step()
    assert (console.folder / "game.nsp").read_bytes() == GAME


# A console that pulls


def lan(home: Home, installer: Installer, **options: Any) -> send_to_switch.Sender:
    return home.sender(installer.url, **options)


def test_a_console_pulls_the_file_by_an_address_that_ends_in_its_name(
    home: Home, installer: Callable[..., Installer]
) -> None:
    item = home.queue("A game [v0].nsp", GAME)
    console = installer(
        lambda console, address: console.install(address, block=500_000)
    )
    assert lan(home, console).step()
    assert bytes(console.body) == GAME
    text = console.told.decode()
    assert text.endswith("/A%20game%20%5Bv0%5D.nsp\n")
    assert text.startswith("127.0.0.1:")
    row = home.item(item)
    assert (row["status"], row["bytes"]) == ("completed", len(GAME))


def test_a_console_that_has_pulled_is_not_told_again_after_a_crash(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    console = installer(
        lambda console, address: console.install(address, block=500_000)
    )
    sender = lan(home, console)
    monkeypatch.setattr(sender, "_completed", crash)
    monkeypatch.setattr(sender, "_release", lambda item: None)
    with pytest.raises(Crash):
        sender.step()
    again = installer(lambda console, address: None)
    lan(home, again, state=sender.state).step()
    assert again.told == b""
    assert home.item(item)["status"] == "completed"


def test_the_address_is_dead_when_the_console_is_done(
    home: Home, installer: Callable[..., Installer]
) -> None:
    home.queue("game.nsp", GAME)
    console = installer(
        lambda console, address: console.install(address, block=500_000)
    )
    lan(home, console).step()
    with console.file(console.told.decode().strip()) as file:
        assert file.ask("GET")[0] == 401


def test_a_console_that_fails_on_the_way_fails_the_item(
    home: Home, installer: Callable[..., Installer]
) -> None:
    item = home.queue("game.nsp", GAME)
    console = installer(lambda console, address: console.install(address, upto=0.5))
    lan(home, console).step()
    row = home.item(item)
    assert row["status"] == "failed"
    assert row["error"].startswith("The console ended after 1.5 MB of 3.0 MB.")


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_console_that_hangs_up_at_once_fails_the_item_and_not_the_next(
    home: Home, installer: Callable[..., Installer], says_goodbye: bool
) -> None:
    item = home.queue("game.nsp", GAME)
    console = installer(lambda console, address: None)
    console.says_goodbye = says_goodbye
    lan(home, console).step()
    assert "after 0 bytes" in home.item(item)["error"]


def test_a_console_that_asks_with_methods_of_its_own_is_served_on(
    home: Home, installer: Callable[..., Installer]
) -> None:
    def drop_and_install(console: Installer, address: str) -> None:
        with console.file(address) as file:
            assert file.ask("DROP")[0] == 405
            assert file.ask("HEAD", "bytes=0-0")[0] in (200, 206)
        console.install(address, block=500_000)

    item = home.queue("game.nsp", GAME)
    console = installer(drop_and_install)
    lan(home, console).step()
    assert home.item(item)["status"] == "completed"


def test_a_console_that_does_not_wait_takes_nothing(home: Home) -> None:
    item = home.queue("game.nsp", GAME)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(send_to_switch.TargetAway, match="Open its LAN install"):
        home.sender(f"lan://127.0.0.1:{port}").step()
    assert home.item(item)["status"] == "pending"


def test_a_console_that_asks_for_nothing_more_fails_the_item(
    home: Home, installer: Callable[..., Installer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "QUIET", 0.3)
    over = threading.Event()

    def stall(console: Installer, address: str) -> None:
        console.install(address, upto=0.3, block=500_000)
        over.wait(30)

    item = home.queue("game.nsp", GAME)
    console = installer(stall)
    lan(home, console).step()
    over.set()
    assert "ended after 0.9 MB" in home.item(item)["error"].replace(
        "900.0 KB", "0.9 MB"
    )


def test_a_console_that_is_reset_fails_the_item(
    home: Home, installer: Callable[..., Installer]
) -> None:
    item = home.queue("game.nsp", GAME)
    console = installer(lambda console, address: console.reset())
    lan(home, console).step()
    assert home.item(item)["status"] == "failed"


def test_a_console_that_was_gone_when_the_item_was_claimed_gives_it_back(
    home: Home,
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender("lan://127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = socket.create_connection(listener.getsockname())
    sender.target._line = line  # type: ignore[attr-defined]
    with pytest.raises(send_to_switch.TargetAway, match="hung up"):
        sender.step()
    assert home.item(item)["status"] == "pending"


def test_a_link_cannot_be_pulled_and_fails(
    home: Home, installer: Callable[..., Installer]
) -> None:
    said = {"name": "Far", "description": "", "version": ""}
    link = home.store.entries.add_link(
        "https://example.org/x", 7, "nsp", said, by="anna"
    )
    home.store.queue.send(home.anna, link)
    console = installer(lambda console, address: None)
    lan(home, console).step()
    assert "is a link" in home.store.queue.items(home.anna)[0]["error"]


def test_a_server_that_was_restarted_counts_from_zero_and_the_client_adds(
    home: Home, installer: Callable[..., Installer]
) -> None:
    def restart(console: Installer, address: str) -> None:
        console.install(address, upto=0.5, block=500_000)
        wait_for(lambda: home.item(item)["bytes"] == 1_500_000)
        home.web.calls["ConsoleCalls"].served[item] = catalogd.Served()
        home.web.calls["ConsoleCalls"].served[item].add(0, 10)
        wait_for(lambda: home.item(item)["bytes"] == 1_500_010)
        home.web.calls["ConsoleCalls"].served[item].add(1_500_000, 3_000_000)

    item = home.queue("game.nsp", GAME)
    console = installer(restart)
    sender = lan(home, console)
    sender.step()
    assert home.item(item)["status"] == "completed"


@pytest.mark.parametrize(
    ("address", "told"),
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
def test_a_console_is_told_an_address_that_it_can_reach(
    address: str, told: str
) -> None:
    class Line:
        def getsockname(self) -> tuple[str, int]:
            return "192.0.2.7", 4711

    assert send_to_switch.for_console(address, Line()) == told  # type: ignore
