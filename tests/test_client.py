"""The client: its settings and its pure parts, and what it does with the queue of a
real server. What the targets do is in test_targets."""

import contextlib
import io
import math
import os
import pathlib
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import send_to_switch
from conftest import PASSWORD, Home, wait_for
from consoles import FTPConsole, Origin, Request

GAME = os.urandom(3_000_000)
ROOT = pathlib.Path(send_to_switch.__file__).parent


@pytest.fixture
def card(tmp_path: pathlib.Path) -> pathlib.Path:
    card = tmp_path / "card"
    card.mkdir()
    return card


@pytest.fixture
def origin() -> Iterator[Callable[..., Origin]]:
    with contextlib.ExitStack() as stack:

        def make(answer: Callable[[Request], None]) -> Origin:
            return stack.enter_context(contextlib.closing(Origin(answer)))

        yield make


@pytest.fixture(autouse=True)
def own_folders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the person who runs the tests is read or written."""
    for name in list(os.environ):
        if name.startswith(("SEND_TO_SWITCH_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setattr(signal, "signal", lambda number, does: None)


# Names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Celeste [v0].nsp", "Celeste [v0].nsp"),
        ("a/b.nsp", "a_b-3e7bb8.nsp"),
        ("e\u0301.nsp", "é.nsp"),
        ("", "_-e3b0c4"),
        ("..", "_-5ec1f7"),
    ],
)
def test_a_safe_name_is_one_that_a_card_takes(name: str, safe: str) -> None:
    found = send_to_switch.safe_name(name)
    assert (found.partition("-")[0], len(found)) == (safe.partition("-")[0], len(safe))


def test_names_that_differ_only_by_unsafe_characters_stay_distinct() -> None:
    names = {send_to_switch.safe_name(f"a{sign}b.nsp") for sign in ':?*"<>|_'}
    assert len(names) == 8


def test_a_long_name_is_shortened_and_stays_distinct() -> None:
    names = [send_to_switch.safe_name("é" * 300 + end + ".nsp") for end in "ab"]
    assert names[0] != names[1]
    assert all(len(name.encode()) <= send_to_switch.LONGEST_NAME for name in names)
    assert all(name.endswith(".nsp") for name in names)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("attachment; filename=\"e.nsp\"; filename*=UTF-8''%C3%A9%20.nsp", "é .nsp"),
        ('attachment; filename="a b.nsp"', "a b.nsp"),
        ("attachment; filename=a.nsp; size=3", "a.nsp"),
        ("inline", ""),
    ],
)
def test_the_name_in_a_header_is_read(header: str, name: str) -> None:
    assert send_to_switch.header_name(header) == name


@pytest.mark.parametrize(
    ("header", "digest"),
    [
        ("sha-256=:AAEC:", b"\0\1\2"),
        ("md5=:AA==:, sha-256=:AAEC:", b"\0\1\2"),
        ("xsha-256=:AAEC:", None),
        ("sha-256=:AAECA:", None),
        ("", None),
    ],
)
def test_the_digest_in_a_header_is_read(header: str, digest: bytes | None) -> None:
    assert send_to_switch.header_digest(header) == digest


@pytest.mark.parametrize(
    ("name", "address", "whole"),
    [
        ("Far", "https://example.org/x.nsp?y=1.z", "Far.nsp"),
        ("Far.nsp", "/games/x.NSP", "Far.nsp"),
        ("Far", "https://example.org/", "Far"),
    ],
)
def test_a_name_gets_the_ending_of_its_address(
    name: str, address: str, whole: str
) -> None:
    assert send_to_switch.with_ending(name, address) == whole


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999 bytes"), (1500, "1.5 KB"), (2_100_000, "2.1 MB"), (7e10, "70.0 GB")],
)
def test_an_amount_is_for_a_person(count: float, text: str) -> None:
    assert send_to_switch.amount(count) == text


def test_a_duration_is_for_a_person() -> None:
    assert send_to_switch.duration(59) == "59 s"
    assert send_to_switch.duration(200) == "3 min 20 s"


# Settings


def test_the_command_line_goes_before_the_environment_and_that_before_the_ini(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text("[send-to-switch]\nserver = ini\nto = ini\non_done = ini\n")
    monkeypatch.setenv("SEND_TO_SWITCH_SERVER", "environment")
    monkeypatch.setenv("SEND_TO_SWITCH_TO", "environment")
    settings = send_to_switch.Settings.find({"server": "given"}, str(ini))
    found = (settings.server, settings.to, settings.on_done, settings.verify)
    assert found == ("given", "environment", "ini", False)


@pytest.mark.parametrize(("text", "verify"), [("yes", True), ("no", False)])
def test_verify_may_be_said_in_words(
    tmp_path: pathlib.Path, text: str, verify: bool
) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text(f"[send-to-switch]\nverify = {text}\n")
    assert send_to_switch.Settings.find({}, str(ini)).verify is verify


@pytest.mark.parametrize(
    "text", ["no section", "[send-to-switch]\nservr = x", "[a]\n[a]"]
)
def test_a_wrong_ini_file_is_told(tmp_path: pathlib.Path, text: str) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text(text)
    with pytest.raises(send_to_switch.Problem, match=r"x\.ini"):
        send_to_switch.Settings.find({}, str(ini))


@pytest.mark.parametrize("kind", ["config", "state"])
@pytest.mark.parametrize("has_platformdirs", [True, False])
def test_a_folder_of_its_own_is_found_with_and_without_platformdirs(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    kind: str,
    has_platformdirs: bool,
) -> None:
    if not has_platformdirs:
        monkeypatch.setitem(sys.modules, "platformdirs", None)
    found = send_to_switch.own_folder(kind)
    assert found.startswith(str(tmp_path / "me"))
    assert found.endswith("send-to-switch")


@pytest.mark.parametrize(
    "address", ["", "pi.local", "ftp://pi", "http://", "http://a:b"]
)
def test_what_is_no_server_is_refused(address: str) -> None:
    with pytest.raises(send_to_switch.Problem):
        send_to_switch.server_address(address)


@pytest.mark.parametrize("content", [None, b"", b"two words", b"\xff"])
def test_what_is_no_key_is_refused(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    settings = send_to_switch.Settings(key_file=str(path))
    with pytest.raises(send_to_switch.Problem, match="key"):
        send_to_switch.read_key(settings)


def test_the_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEND_TO_SWITCH_KEY", "catalogd_key")
    settings = send_to_switch.Settings(key_file="/none")
    assert send_to_switch.read_key(settings) == "catalogd_key"
    monkeypatch.setenv("SEND_TO_SWITCH_KEY", "two words")
    with pytest.raises(send_to_switch.Problem, match="SEND_TO_SWITCH_KEY"):
        send_to_switch.read_key(settings)


# State


def test_the_state_outlives_the_program(tmp_path: pathlib.Path) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    state.begin("a.nsp", '"tag"')
    state.mark_sent("item")
    again = send_to_switch.State(str(tmp_path), "server", "target")
    found = (again.client, again.parts, again.sent)
    assert found == (state.client, {"a.nsp": '"tag"'}, "item")
    again.forget("a.nsp")
    last = send_to_switch.State(str(tmp_path), "server", "target")
    assert (last.parts, last.sent) == ({}, "")


def test_each_target_has_a_state_of_its_own(tmp_path: pathlib.Path) -> None:
    states = [
        send_to_switch.State(str(tmp_path), server, target)
        for server, target in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    assert len({state.path for state in states}) == 3
    assert len({state.client for state in states}) == 3


def test_a_damaged_state_is_begun_anew(tmp_path: pathlib.Path) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    pathlib.Path(state.path).write_text("[]")
    again = send_to_switch.State(str(tmp_path), "server", "target")
    assert (again.parts, again.sent) == ({}, "")


def test_a_state_that_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    state = send_to_switch.State(str(tmp_path / "file"), "server", "target")
    with pytest.raises(send_to_switch.Problem, match="cannot be written"):
        state.save()


def test_two_clients_of_one_target_on_one_machine_do_not_run(
    tmp_path: pathlib.Path,
) -> None:
    one, two = (send_to_switch.State(str(tmp_path), "s", "t") for _ in range(2))
    with (
        one.exclusive(),
        pytest.raises(send_to_switch.Problem, match="Another"),
        two.exclusive(),
    ):
        raise AssertionError
    with two.exclusive():
        pass


# The server


def asked(origin: Origin, key: str = "k") -> send_to_switch.Server:
    return send_to_switch.Server(origin.url, key)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, send_to_switch.BadKey),
        (404, send_to_switch.Cancelled),
        (409, send_to_switch.Cancelled),
        (400, send_to_switch.Failed),
        (200, send_to_switch.Failed),
        (502, send_to_switch.ServerAway),
    ],
)
def test_a_refusal_of_the_server_is_understood(
    origin: Callable[..., Origin], status: int, kind: type[Exception]
) -> None:
    body = b'{"success": false, "message": "for a person"}'
    with contextlib.closing(asked(origin(lambda r: r.reply(status, body)))) as server:
        with pytest.raises(kind, match="for a person") as caught:
            server.call("GET", "/")
        assert type(caught.value) is kind


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff"])
def test_what_is_no_answer_of_ours_is_told(
    origin: Callable[..., Origin], body: bytes
) -> None:
    with (
        contextlib.closing(asked(origin(lambda r: r.reply(200, body)))) as server,
        pytest.raises(send_to_switch.Failed, match="status 200"),
    ):
        server.call("GET", "/")


def test_a_queue_that_is_not_understood_is_told(origin: Callable[..., Origin]) -> None:
    body = b'{"success": true, "queue": [{}]}'
    with (
        contextlib.closing(asked(origin(lambda r: r.reply(200, body)))) as server,
        pytest.raises(send_to_switch.Problem, match="not understood"),
    ):
        server.queue("me")


def test_a_server_that_does_not_answer_in_time_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_to_switch, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with (
            contextlib.closing(send_to_switch.Server(url)) as server,
            pytest.raises(send_to_switch.ServerAway, match="in time"),
        ):
            server.call("GET", "/")


def test_an_idle_connection_that_was_ended_is_opened_again(home: Home) -> None:
    sender = home.sender("folder:/tmp")
    assert sender.server.queue("me") == []
    home.drop()
    home.queue("a.nsp")
    assert [item.name for item in sender.server.queue("me")] == ["a"]


def test_an_unchanged_queue_is_not_sent_again(home: Home) -> None:
    home.queue("a.nsp")
    server = home.sender("folder:/tmp").server
    first = server.queue("me")
    assert server.queue("me") is first


# A download


def link(home: Home, url: str, size: int = 0, name: str = "Far") -> str:
    """Queue an entry that is an address."""
    said = {"name": name, "description": "", "version": ""}
    entry = home.store.entries.add_link(url, size, "nsp", said, by="anna")
    home.store.queue.send(home.anna, entry)
    return str(home.store.queue.items(home.anna)[-1]["id"])


def test_a_link_is_followed_without_the_key(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    far = origin(lambda request: request.reply(200, GAME))
    item = link(home, f"{far.url}/Far%20away.nsp?x=1")
    home.sender(f"folder:{card}").step()
    assert (card / "Far.nsp").read_bytes() == GAME
    assert home.item(item)["status"] == "completed"
    assert all("Authorization" not in headers for _, headers in far.requests)
    assert far.requests[0][0] == "/Far%20away.nsp?x=1"


def test_a_link_without_a_length_is_taken_to_its_end(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    def chunks(request: Request) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.write(b"4\r\nfour\r\n0\r\n\r\n")

    link(home, f"{origin(chunks).url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert (card / "Far.nsp").read_bytes() == b"four"


def test_a_link_without_a_length_that_breaks_off_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    def broken(request: Request) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.write(b"4\r\nfour\r\nff\r\n")
        request.close_connection = True

    item = link(home, f"{origin(broken).url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert "broke off" in home.item(item)["error"]
    assert os.listdir(card) == []


def ranged(request: Request, upto: int | None = None, **headers: str) -> None:
    """Answer a range of GAME as it should be, but only so many bytes of it."""
    start = int(request.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
    if request.headers.get("Range") == "bytes=0-0":
        span = {"Content_Range": f"bytes 0-0/{len(GAME)}"}
        return request.reply(206, GAME[:1], **span, **headers)
    span = {"Content_Range": f"bytes {start}-{len(GAME) - 1}/{len(GAME)}"}
    span["Content-Length"] = str(len(GAME) - start)
    body = GAME[start : start + (upto or len(GAME))]
    return request.reply(206 if start else 200, body, **span, **headers)


def test_a_download_that_drops_goes_on_with_if_range(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    far = origin(lambda request: ranged(request, 1_000_000, ETag='"x"'))
    item = link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert (card / "Far.nsp").read_bytes() == GAME
    assert home.item(item)["status"] == "completed"
    spans = [(head.get("Range"), head.get("If-Range")) for _, head in far.requests[1:]]
    assert spans == [
        (None, None),
        ("bytes=1000000-", '"x"'),
        ("bytes=2000000-", '"x"'),
    ]


def test_a_download_that_is_reset_goes_on(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    def answer(request: Request) -> None:
        if len(far.requests) != 2:
            return ranged(request, ETag='"x"')
        ranged(request, 100_000, ETag='"x"')
        option = struct.pack("ii", 1, 0)
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
        return request.connection.close()

    far = origin(answer)
    link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert (card / "Far.nsp").read_bytes() == GAME


def test_a_download_that_drops_and_cannot_go_on_begins_again_and_then_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    far = origin(lambda request: ranged(request, 1_000_000))
    item = link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert "three times" in home.item(item)["error"]


def test_a_date_serves_where_there_is_no_etag(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    date = "Mon, 02 Nov 2026 10:00:00 GMT"
    far = origin(lambda request: ranged(request, 2_000_000, Last_Modified=date))
    link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert far.requests[-1][1]["If-Range"] == date
    assert (card / "Far.nsp").read_bytes() == GAME


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "any more"), (410, "any more"), (403, "status 403"), (401, "status 401")],
)
def test_a_link_that_gives_nothing_fails_and_not_the_next(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    status: int,
    says: str,
) -> None:
    far = origin(lambda request: request.reply(status))
    item = link(home, f"{far.url}/x.nsp")
    other = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    while sender.step():
        pass
    assert says in home.item(item)["error"]
    assert home.item(other)["status"] == "completed"


@pytest.mark.parametrize("place", ["mailto:me", "http://[", "http:///x", "/again"])
def test_a_link_that_leads_nowhere_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin], place: str
) -> None:
    far = origin(lambda request: request.reply(302, Location=place))
    item = link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert "redirects" in home.item(item)["error"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_whose_server_is_in_trouble_fails_in_the_end(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
) -> None:
    monkeypatch.setattr(send_to_switch, "PATIENCE", 0.1)
    far = origin(lambda request: request.reply(503))
    url = far.url
    if not is_there:
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as unused:
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    item = link(home, f"{url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert "stands still" in home.item(item)["error"]


def test_a_link_whose_server_gets_into_trouble_on_the_way_fails_in_the_end(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_to_switch, "PATIENCE", 0.1)

    def answer(request: Request) -> None:
        if request.headers.get("If-Range"):
            request.reply(503)
        else:
            ranged(request, 1_000_000, ETag='"x"')

    item = link(home, f"{origin(answer).url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert "stands still" in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_file_that_became_shorter_on_the_way_is_begun_again(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    def answer(request: Request) -> None:
        if request.headers.get("If-Range"):
            request.reply(416, Content_Range="bytes */4")
        elif len(far.requests) > 3:
            request.reply(200, b"four", ETag='"y"')
        else:
            ranged(request, 1_000_000, ETag='"x"')

    far = origin(answer)
    link(home, f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").step()
    assert (card / "Far.nsp").read_bytes() == b"four"


def test_a_key_that_is_revoked_just_now_stops_the_download(
    home: Home, card: pathlib.Path
) -> None:
    home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    (item,) = sender.server.queue("me")
    home.store.accounts.revoke_key(home.store.accounts.keys(home.anna)[0]["id"])
    with pytest.raises(send_to_switch.BadKey):
        send_to_switch.Download(sender.server, item, send_to_switch.Watched())


def test_a_download_that_was_ended_opens_no_connection(home: Home) -> None:
    home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp")
    (item,) = sender.server.queue("me")
    watch = send_to_switch.Watched()
    file = send_to_switch.Download(sender.server, item, watch)
    watch.end(send_to_switch.Cancelled("on the page"))
    with pytest.raises(send_to_switch.Cancelled):
        next(file.blocks(0))


def test_a_size_that_is_not_told_is_not_invented() -> None:
    class Answer:
        status = 206
        headers = {"Content-Range": "bytes 0-0/*"}

    assert send_to_switch.whole_size(Answer()) is None  # type: ignore[arg-type]


# What a person sees


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_terminal_shows_a_bar_that_goes_away(
    monkeypatch: pytest.MonkeyPatch, has_tqdm: bool
) -> None:
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    terminal = Terminal()
    threads = threading.active_count()
    screen = send_to_switch.Screen(err=terminal)
    screen.begin("game.nsp", 500, 1000)
    screen.moved(240)
    screen.moved(10)
    time.sleep(0.21)
    screen.moved(1)
    screen.end()
    assert re.search(r"game.nsp: +75 ?%", terminal.getvalue())
    assert terminal.getvalue().endswith("\r")
    assert threading.active_count() <= threads


def test_a_bar_without_a_total_tells_the_bytes() -> None:
    line = send_to_switch.Line(None, 0, "game", io.StringIO())
    line.done = 2_000_000
    assert line.text(line.began + 1) == "game: 2.0 MB, 2.0 MB/s"


def test_a_line_is_not_said_twice_in_a_row() -> None:
    out = io.StringIO()
    screen = send_to_switch.Screen(out=out)
    for text in ("a", "a", "b", "a"):
        screen.say(text)
    assert out.getvalue() == "a\nb\na\n"


def test_a_terminal_without_a_letter_is_no_problem() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    send_to_switch.Screen(out=out).say("Café")
    assert out.buffer.getvalue() == b"Caf?\n"  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_no_bar() -> None:
    err = io.StringIO()
    screen = send_to_switch.Screen(err=err)
    screen.begin("game", 0, 10)
    screen.moved(5)
    screen.end()
    assert err.getvalue() == ""


# The queue


def at(sender: send_to_switch.Sender, count: int, act: Callable[[], Any]) -> None:
    """Do something, once, when so many bytes are at the target."""
    left = [count]

    def moved(more: int) -> None:
        before, left[0] = left[0], left[0] - more
        if before > 0 >= left[0]:
            act()

    sender.screen.moved = moved  # type: ignore[method-assign]


def test_the_queue_is_sent_in_its_order_and_what_fails_does_not_stop_it(
    home: Home, card: pathlib.Path
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "cab"]
    os.unlink(home.library.folder / "a.nsp")
    sender = home.sender(f"folder:{card}")
    sender.run(once=True)
    assert "reporter" not in {thread.name for thread in threading.enumerate()}
    states = [home.item(item)["status"] for item in items]
    assert states == ["completed", "failed", "completed"]
    assert "any more" in home.item(items[1])["error"]
    assert sender.failures == 1


class Slow(send_to_switch.Target):
    """Takes a block, and then waits for what the test wants."""

    start = "slow:"

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__("slow:")
        self.act = act
        self.discarded = False

    def send(self, transfer: send_to_switch.Transfer) -> None:
        for _ in transfer.blocks(0):
            self.act()
            end = time.monotonic() + 30
            while time.monotonic() < end:
                transfer.sleep(0.01)

    def discard(self, transfer: send_to_switch.Transfer) -> None:
        self.discarded = True


def test_a_cancelled_item_is_stopped_and_its_part_removed(home: Home) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp")
    target = sender.target = Slow(lambda: home.store.queue.cancel(home.anna, item))
    sender.step()
    assert target.discarded
    assert home.item(item)["status"] == "cancelled"
    assert home.item(item)["reported_at"] is None  # the server knows that it stopped
    assert sender.failures == 0


def test_a_cancelled_item_stops_a_stuck_console_within_two_seconds(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_to_switch, "REPORT", 2.0)
    item = home.queue("game.nsp", os.urandom(30_000_000))
    with contextlib.closing(FTPConsole(card)) as console:
        sender = home.sender(console.url("/"))
        console.stall_after = 1_000_000

        def cancel() -> None:
            wait_for(lambda: console.stalled)
            home.store.queue.cancel(home.anna, item)
            cancelled.append(time.monotonic())

        cancelled: list[float] = []
        canceller = threading.Thread(target=cancel)
        canceller.start()
        sender.step()
        canceller.join()
        assert time.monotonic() - cancelled[0] < 2.5  # 2 s, and a slow machine
        console.stall_after = math.inf
    assert home.item(item)["status"] == "cancelled"


def test_progress_is_told_with_percent_bytes_and_speed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp")

    def look() -> None:
        if sender.target.first:  # type: ignore[attr-defined]
            return
        wait_for(lambda: home.item(item)["speed"])
        row = home.item(item)
        assert row["bytes"] == send_to_switch.BLOCK
        assert row["percent"] == 100 * send_to_switch.BLOCK // len(GAME)
        raise KeyboardInterrupt

    class Two(Slow):
        first = True

        def send(self, transfer: send_to_switch.Transfer) -> None:
            for _ in transfer.blocks(0):
                self.act()
                self.first = False

    sender.target = Two(look)
    with pytest.raises(KeyboardInterrupt):
        sender.step()


def test_a_report_that_the_server_does_not_hear_stops_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp")
    plain, unheard = send_to_switch.Server.report, [1, 1]

    def report(self: Any, item: Any, client: str, **fields: Any) -> None:
        if "transfer_speed" in fields and unheard:
            unheard.pop()
            raise send_to_switch.ServerAway("It restarts.")
        plain(self, item, client, **fields)

    class Patient(Slow):
        def send(self, transfer: send_to_switch.Transfer) -> None:
            for _ in transfer.blocks(0):
                self.act()

    monkeypatch.setattr(send_to_switch.Server, "report", report)
    sender.target = Patient(lambda: wait_for(lambda: not unheard))
    sender.step()
    assert home.item(item)["status"] == "completed"


def test_reports_are_no_closer_than_two_seconds() -> None:
    assert send_to_switch.REPORT >= 2


def test_a_key_that_is_revoked_on_the_way_stops_at_once_and_keeps_the_queue(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp")
    identity = home.store.accounts.keys(home.anna)[0]["id"]
    sender.target = Slow(lambda: home.store.accounts.revoke_key(identity))
    with pytest.raises(send_to_switch.BadKey):
        sender.step()
    assert home.item(item)["status"] == "processing"  # until it goes stale


def test_an_item_that_another_client_took_is_passed_over(
    home: Home, card: pathlib.Path
) -> None:
    first, second = home.queue("a.nsp"), home.queue("b.nsp")
    sender = home.sender(f"folder:{card}")
    ready = sender.target.ready

    def late() -> None:
        ready()
        if home.item(first)["status"] == "pending":
            report = {"status": "processing", "client": "other"}
            home.store.queue.report(home.anna, first, report)

    sender.target.ready = late  # type: ignore[method-assign]
    assert sender.step()
    assert home.item(second)["status"] == "completed"
    assert os.listdir(card) == ["b.nsp"]
    assert not sender.step()


def test_two_clients_at_once_send_each_item_once(
    home: Home, tmp_path: pathlib.Path
) -> None:
    items = [home.queue(f"{number}.nsp", os.urandom(50_000)) for number in range(12)]
    cards = [tmp_path / name for name in ("one", "two")]
    senders = []
    for card in cards:
        card.mkdir()
        senders.append(home.sender(f"folder:{card}"))
    threads = [threading.Thread(target=sender.run, args=(True,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = sorted(name for card in cards for name in os.listdir(card))
    assert names == sorted(f"{number}.nsp" for number in range(12))
    assert {home.item(item)["status"] for item in items} == {"completed"}


def test_a_server_that_is_away_on_the_way_is_waited_for(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = os.urandom(30_000_000)  # more than is on its way at once
    item = home.queue("game.nsp", game)
    sender = home.sender(f"folder:{card}")
    plain = send_to_switch.connection
    away_until = [0.0]

    def connection(parts: Any) -> Any:
        made = plain(parts)
        if time.monotonic() < away_until[0]:
            made.port = 1  # where nobody listens
        return made

    def restart() -> None:
        away_until[0] = time.monotonic() + 0.3
        home.drop()

    monkeypatch.setattr(send_to_switch, "connection", connection)
    at(sender, 1_000_000, restart)
    sender.step()
    assert (card / "game.nsp").read_bytes() == game
    assert home.item(item)["status"] == "completed"


def test_the_end_is_told_when_the_server_is_there_again(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    plain, tries = sender.server.report, []

    def report(item: Any, client: str, **fields: Any) -> None:
        if fields.get("status") == "completed":
            tries.append(1)
            if len(tries) < 3:
                raise send_to_switch.ServerAway("It restarts.")
        plain(item, client, **fields)

    sender.server.report = report  # type: ignore[method-assign]
    sender.step()
    assert home.item(item)["status"] == "completed"
    assert "It restarts. Trying again." in capsys.readouterr().out


def test_an_item_that_was_cleared_in_the_meantime_is_no_problem(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")

    def clear() -> None:
        home.store.queue.report(home.anna, item, {"status": "failed"})
        home.store.queue.clear(home.anna)

    at(sender, 2_999_999, clear)
    sender.step()
    assert home.store.queue.items(home.anna) == []


def test_what_was_done_is_told_to_a_command(
    home: Home, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    told = tmp_path / "told"
    home.queue("game.nsp", GAME)
    command = (
        f'"{sys.executable}" -c "import os; open({str(told)!r}, \'w\').write('
        "os.environ['SEND_TO_SWITCH_NAME'] + ' ' +"
        " os.environ['SEND_TO_SWITCH_STATUS'])\""
    )
    home.sender(f"folder:{card}", on_done=command).step()
    assert told.read_text() == "game completed"


def test_a_command_that_fails_is_told_and_changes_nothing(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}", on_done="exit 3").step()
    assert "--on-done: Command 'exit 3' returned" in capsys.readouterr().out
    assert home.item(item)["status"] == "completed"


class Enough(Exception):
    """Ends a client that would wait for ever."""


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (send_to_switch.ServerAway("It is off."), "It is off. Trying again."),
        (send_to_switch.TargetAway("No card."), "No card. Trying again."),
    ],
)
def test_what_is_away_is_waited_for_longer_and_longer(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: Exception,
    says: str,
) -> None:
    sender = home.sender(f"folder:{card}")
    outcomes = iter([problem] * 5 + [True, False, problem])
    pauses: list[float] = []

    def step() -> Any:
        outcome = next(outcomes, Enough())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(sender, "step", step)
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(send_to_switch, "POLL", 3.0)
    monkeypatch.setattr(send_to_switch, "LONGEST_PAUSE", 30.0)
    with pytest.raises(Enough):
        sender.run(once=False)
    assert pauses == [3, 6, 12, 24, 30, 3, 3]
    out = capsys.readouterr().out
    assert says in out
    assert "Waiting for something to send." in out


def test_with_once_what_is_away_ends_it(home: Home, card: pathlib.Path) -> None:
    home.queue("game.nsp")
    with pytest.raises(send_to_switch.TargetAway):
        home.sender(f"folder:{card}/none").run(once=True)


# Commands


@pytest.fixture
def run(home: Home, tmp_path: pathlib.Path, card: pathlib.Path) -> Callable[..., int]:
    key_file = tmp_path / "key"
    key_file.write_text(home.key)

    def run(*words: str) -> int:
        common = {"--server": home.address, "--key-file": str(key_file)}
        given = [word for pair in common.items() for word in pair]
        return send_to_switch.main([*given, "--to", f"folder:{card}", *words])

    return run


def test_once_sends_all_and_ends_with_0(
    home: Home, card: pathlib.Path, run: Callable[..., int]
) -> None:
    home.queue("a.nsp", GAME)
    assert run("--once") == 0
    assert os.listdir(card) == ["a.nsp"]


def test_an_item_that_failed_ends_with_1(home: Home, run: Callable[..., int]) -> None:
    home.queue("a.nsp")
    os.unlink(home.library.folder / "a.nsp")
    assert run("--once") == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--to", "x"], 2, "Where to?"),
        (["--server", "x"], 2, "is not an address"),
        (["--key-file", "/none"], 2, "There is no key in /none"),
        (["--verify", "--to", "lan://h"], 2, "Nothing can be read back"),
        (["--verify", "--to", "ftp://h"], 2, "Nothing can be read back"),
        (["--once", "--server", "http://127.0.0.1:1"], 4, "127.0.0.1:1 is away: "),
    ],
)
def test_a_problem_is_one_line_and_an_exit_code(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    says: str,
) -> None:
    assert run(*words) == code
    err = capsys.readouterr().err
    assert says in err
    assert err.startswith("send-to-switch: ") and err.count("\n") == 1


def test_a_refused_key_ends_with_3_and_says_what_to_do(
    home: Home, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("a.nsp")
    home.store.accounts.revoke_key(home.store.accounts.keys(home.anna)[0]["id"])
    assert run("--once") == 3
    assert "send-to-switch login" in capsys.readouterr().err
    assert home.item(item)["status"] == "pending"


def test_ctrl_c_ends_with_130(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", ctrl_c)
    assert run() == 130


def test_a_dry_run_says_what_would_be_and_does_nothing(
    home: Home,
    card: pathlib.Path,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = [home.queue("a.nsp", GAME), home.queue("b.nsp", b"b")]
    os.unlink(home.library.folder / "b.nsp")
    assert run("--dry-run") == 0
    out = capsys.readouterr().out
    assert "a.nsp: 3.0 MB." in out
    assert "b: would fail: The server does not have the file any more." in out
    assert {home.item(item)["status"] for item in items} == {"pending"}
    assert os.listdir(card) == []


def test_a_dry_run_tells_of_a_target_that_is_not_there(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--dry-run", "--to", "folder:/none") == 0
    assert "Is the card in?" in capsys.readouterr().out


def test_login_keeps_a_key_that_only_its_owner_reads(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    card: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter([home.address, "anna"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD)
    ini = pathlib.Path(send_to_switch.usual_ini())
    ini.parent.mkdir(parents=True)
    ini.write_text(f"[send-to-switch]\nto = folder:{card}\n")
    key_file = pathlib.Path(send_to_switch.usual_key_file())
    pathlib.Path(f"{key_file}.new").touch(mode=0o644)
    assert send_to_switch.main(["login"]) == 0
    assert f"The key is in {key_file}" in capsys.readouterr().out
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    home.queue("a.nsp")
    assert send_to_switch.main(["--once"]) == 0  # all that it needs is kept now
    assert os.listdir(card) == ["a.nsp"]


def test_login_with_a_wrong_password_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: "anna")
    monkeypatch.setattr("getpass.getpass", lambda prompt: "wrong")
    assert send_to_switch.main(["login", "--server", home.address]) == 1
    assert "The name or the password is wrong." in capsys.readouterr().err


def test_login_where_nothing_can_be_written_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: "anna")
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD)
    words = ["login", "--server", home.address, "--key-file", "/dev/null/key"]
    assert send_to_switch.main(words) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_sigterm_puts_the_item_back_and_ends_with_0(
    home: Home, tmp_path: pathlib.Path, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    key_file = tmp_path / "key"
    key_file.write_text(home.key)
    with contextlib.closing(FTPConsole(card)) as console:
        console.stall_after = 1_000_000
        words = ["--server", home.address, "--key-file", str(key_file)]
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "send_to_switch.py"), *words]
            + ["--to", console.url("/")],
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: console.stalled)
        process.terminate()
        out, _ = process.communicate(timeout=30)
        console.stall_after = math.inf
    assert process.returncode == 0
    assert "put back into the queue" in out
    assert home.item(item)["status"] == "pending"


def test_it_runs_where_nothing_is_installed(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-I", "-S", str(ROOT / "send_to_switch.py")]
    done = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"send-to-switch {send_to_switch.__version__}\n"


def test_the_docstring_lists_the_sections_in_order() -> None:
    banners = re.findall(
        r"^# (\w+) -+$", (ROOT / "send_to_switch.py").read_text(), re.M
    )
    rows = re.findall(r"^([A-Z]\w+)  +\S", send_to_switch.__doc__ or "", re.M)
    assert rows == banners


def test_both_programs_have_one_version() -> None:
    assert send_to_switch.__version__ == catalogd.__version__


def test_the_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        send_to_switch.main(["--help"])
    assert "3 the key is refused" in " ".join(capsys.readouterr().out.split())
