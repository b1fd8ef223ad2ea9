"""What the client makes of replies that no good server gives: whatever answers at the
address of a console, or of a link, may send any bytes, slowly and without an end."""

import contextlib
import itertools
import re
import socket
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import send_to_switch
from conftest import Home
from consoles import Origin, Request

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


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_to_switch, "MAX_ATTEMPTS", 1)


@pytest.fixture
def odd() -> Iterator[Callable[..., Odd]]:
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


def test_a_reply_in_another_encoding_is_told_as_far_as_it_is_known(
    home: Home, odd: Callable[..., Odd]
) -> None:
    reply = "550 Fichier inexistant é".encode("latin-1")
    why = refusal(home, odd(CWD=reply, MKD=reply))
    assert (
        why == "The console refuses the folder /games: 550 Fichier inexistant \ufffd."
    )


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (b"550-Error during write\r\n550 Aborted", "550 Error during write; Aborted"),
        (b"550-One\r\n two\r\n550-three\r\n550", "550 One; two; three"),
        (b"550 a\tb\x1b[2J\x00c", r"550 a b\x1b[2J\x00c"),
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
    home: Home,
    odd: Callable[..., Odd],
    monkeypatch: pytest.MonkeyPatch,
    reply: bytes,
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


PORTS = [
    b"227 Gladly.",
    b"227 (127,0,0,1,999,999)",
    b"227 (" + b"9" * 5000 + b",0,0,1,2,3)",
]
PORTS += [b"227 (1,2,3,4,5," + b"9" * 5000 + b")", b"257 What?"]


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


@pytest.mark.parametrize("place", ["http://a..b/x.nsp", f"http://{'a' * 70}.b/x.nsp"])
def test_a_redirect_to_what_is_no_host_fails_the_item(home: Home, place: str) -> None:
    def answer(request: Request) -> None:
        request.reply(302, Location=place)

    with contextlib.closing(Origin(answer)) as origin:
        item = home.queue_link(f"{origin.url}/far.nsp")
        home.sender(f"folder:{home.library.folder.parent}").send_next()
    assert "The redirect has no valid address" in home.item(item)["error"]


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
