"""The client: its settings and its pure functions, and how it works off the queue of a
real server. Its targets are tested in test_targets."""

import contextlib
import http.client
import io
import json
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
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
import send_to_switch
from conftest import PASSWORD, Home, free_port, wait_for
from consoles import FTPConsole, Origin, Request, when_sent

GAME = os.urandom(3_000_000)
ROOT = pathlib.Path(send_to_switch.__file__).parent


@pytest.fixture
def origin() -> Iterator[Callable[..., Origin]]:
    with contextlib.ExitStack() as stack:

        def make(answer: Callable[[Request], None]) -> Origin:
            return stack.enter_context(contextlib.closing(Origin(answer)))

        yield make


@pytest.fixture(autouse=True)
def own_folders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep away from the settings and keys of the person who runs the tests."""
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
def test_an_unsafe_name_becomes_one_that_a_card_takes(name: str, safe: str) -> None:
    found = send_to_switch.safe_name(name)
    assert (found.partition("-")[0], len(found)) == (safe.partition("-")[0], len(safe))


def test_names_that_differ_only_by_unsafe_characters_stay_distinct() -> None:
    names = {send_to_switch.safe_name(f"a{sign}b.nsp") for sign in ':?*"<>|_'}
    assert len(names) == 8


def test_a_long_name_is_shortened_and_stays_distinct() -> None:
    names = [send_to_switch.safe_name("é" * 300 + end + ".nsp") for end in "ab"]
    assert names[0] != names[1]
    assert all(len(name.encode()) <= send_to_switch.MAX_NAME_BYTES for name in names)
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
    assert send_to_switch.disposition_name(header) == name


ZEROS = "A" * 43 + "="  # 32 of them, in Base64


@pytest.mark.parametrize(
    ("header", "digest"),
    [
        (f"sha-256=:{ZEROS}:", bytes(32)),
        (f"md5=:AA==:, sha-256=:{ZEROS}:", bytes(32)),
        (f"xsha-256=:{ZEROS}:", None),
        ("sha-256=:AAEC:", None),
        ("", None),
    ],
)
def test_the_digest_in_a_header_is_read(header: str, digest: bytes | None) -> None:
    assert send_to_switch.header_sha256(header) == digest


@pytest.mark.parametrize(
    ("name", "address", "whole"),
    [
        ("Far", "https://example.org/x.nsp?y=1.z", "Far.nsp"),
        ("Far.nsp", "/games/x.NSP", "Far.nsp"),
        ("Far", "https://example.org/", "Far"),
    ],
)
def test_a_name_gets_the_extension_of_its_address(
    name: str, address: str, whole: str
) -> None:
    assert send_to_switch.with_extension(name, address) == whole


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999 B"), (1500, "1.5 kB"), (2_100_000, "2.1 MB"), (7e10, "70.0 GB")],
)
def test_a_size_is_readable(count: float, text: str) -> None:
    assert send_to_switch.size_text(count) == text


def test_a_duration_is_readable() -> None:
    assert send_to_switch.duration_text(59) == "59 s"
    assert send_to_switch.duration_text(200) == "3 min 20 s"


# Settings


def test_the_command_line_beats_the_environment_which_beats_the_ini(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text("[send-to-switch]\nserver = ini\nto = ini\non_done = ini\n")
    monkeypatch.setenv("SEND_TO_SWITCH_SERVER", "environment")
    monkeypatch.setenv("SEND_TO_SWITCH_TO", "environment")
    settings = send_to_switch.Settings.load({"server": "given"}, str(ini))
    found = (settings.server, settings.to, settings.on_done, settings.verify)
    assert found == ("given", "environment", "ini", False)


@pytest.mark.parametrize(("text", "verify"), [("yes", True), ("no", False)])
def test_verify_may_be_a_word(tmp_path: pathlib.Path, text: str, verify: bool) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text(f"[send-to-switch]\nverify = {text}\n")
    assert send_to_switch.Settings.load({}, str(ini)).verify is verify


@pytest.mark.parametrize(
    "text", ["no section", "[send-to-switch]\nservr = x", "[a]\n[a]"]
)
def test_a_wrong_ini_file_is_a_problem_that_names_it(
    tmp_path: pathlib.Path, text: str
) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text(text)
    with pytest.raises(send_to_switch.Problem, match=r"x\.ini"):
        send_to_switch.Settings.load({}, str(ini))


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


def test_installing_platformdirs_later_loses_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "platformdirs", None)
        path = send_to_switch.config_path("key")
        send_to_switch.write_private(path, "catalogd_key")
    assert send_to_switch.config_path("key") == path


@pytest.mark.parametrize(
    "address", ["", "ftp://pi", "http://", "http://a:b", "http://me:secret/x@h"]
)
def test_a_wrong_server_address_is_refused(address: str) -> None:
    with pytest.raises(send_to_switch.Problem) as caught:
        send_to_switch.server_address(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["pi.local", "pi.local:6069/", "http://pi.local"])
def test_an_address_without_a_scheme_gets_one(address: str) -> None:
    assert send_to_switch.server_address(address).startswith("http://pi.local")


@pytest.mark.parametrize("content", [None, b"", b"two words", b"\xff"])
def test_a_key_file_without_a_key_is_refused(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    settings = send_to_switch.Settings(key_file=str(path))
    with pytest.raises(send_to_switch.Problem, match="key"):
        send_to_switch.read_key(settings)


def test_the_key_may_be_in_the_environment_but_must_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = send_to_switch.Settings(key_file="/none")
    monkeypatch.setenv("SEND_TO_SWITCH_KEY", "catalogd_key")
    assert send_to_switch.read_key(settings) == "catalogd_key"
    monkeypatch.setenv("SEND_TO_SWITCH_KEY", "two words")
    with pytest.raises(send_to_switch.Problem, match="SEND_TO_SWITCH_KEY"):
        send_to_switch.read_key(settings)


# State

ITEM = send_to_switch.Item("item", "entry", "a", "", 0)


def test_the_state_outlives_the_program(tmp_path: pathlib.Path) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    state.begin("a.nsp", '"tag"', ITEM)
    state.mark_sent(ITEM, "a.nsp", "ends")
    again = send_to_switch.State(str(tmp_path), "server", "target")
    part = send_to_switch.Part("item", '"tag"')
    known = (again.client, again.parts, again.sent)
    assert known == (state.client, {"a.nsp": part}, "item")
    assert again.files == {"a.nsp": ("entry", "ends")}
    again.forget("a.nsp")
    last = send_to_switch.State(str(tmp_path), "server", "target")
    assert (last.parts, last.sent, last.files) == ({}, "", again.files)


def test_what_is_kept_of_an_item_that_ended_is_no_items_and_others_stay(
    tmp_path: pathlib.Path,
) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    state.begin("a.nsp", '"tag"', ITEM)
    state.begin("b.nsp", '"tag"', ITEM._replace(queue_item_id="other"))
    state.change({ITEM.queue_item_id}, item="")
    assert {name: part.item for name, part in state.parts.items()} == {
        "a.nsp": "",
        "b.nsp": "other",
    }


def test_each_target_has_a_state_of_its_own(tmp_path: pathlib.Path) -> None:
    states = [
        send_to_switch.State(str(tmp_path), server, target)
        for server, target in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    assert len({state.path for state in states}) == 3
    assert len({state.client for state in states}) == 3


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"mount": "/card", "files": {"b": ["entry", "v"], "c": ["entry", "v"]}}
        | {"stopped": {"a.nsp": "item"}, "items": {"a.nsp": "item"}}
        | {"direct": ["a.nsp", "d.nsp"], "ends": {"b": "x"}, "tried": {"item": ["v"]}},
    ],
)
def test_a_state_of_an_earlier_release_is_read(
    tmp_path: pathlib.Path, more: dict[str, Any]
) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    assert state.path == str(tmp_path / "1c8406ad1eda669a.json")
    facts = {"client": "me", "parts": {"a.nsp": '"tag"'}, "sent": "item", **more}
    pathlib.Path(state.path).write_text(json.dumps(facts))
    parts = {"a.nsp.part": send_to_switch.Part("", '"tag"')}
    if more:
        parts = {"a.nsp": send_to_switch.Part("item", '"tag"', is_stopped=True)}
    for _ in range(2):  # also as this release writes it
        state = send_to_switch.State(str(tmp_path), "server", "target")
        assert (state.client, state.sent, state.parts) == ("me", "item", parts)
        sent = {"b": ("entry", "x"), "c": ("entry", "")} if more else {}
        assert (state.files, state.mount) == (sent, more.get("mount", ""))
        state.save()


@pytest.mark.parametrize("text", ["[]", "{", '{"client": 1, "parts": 5, "sent": ""}'])
def test_a_damaged_state_counts_as_empty(tmp_path: pathlib.Path, text: str) -> None:
    state = send_to_switch.State(str(tmp_path), "server", "target")
    pathlib.Path(state.path).write_text(text)
    again = send_to_switch.State(str(tmp_path), "server", "target")
    assert (again.parts, again.sent) == ({}, "")


def test_a_state_that_cannot_be_written_is_a_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    state = send_to_switch.State(str(tmp_path / "file"), "server", "target")
    with pytest.raises(send_to_switch.Problem, match="cannot be written"):
        state.save()


def test_two_clients_on_one_machine_cannot_send_to_one_target(
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


@contextlib.contextmanager
def answering(
    origin: Callable[..., Origin], status: int, body: bytes
) -> Iterator[send_to_switch.Server]:
    """A server that gives every call this answer."""
    url = origin(lambda request: request.reply(status, body)).url
    with contextlib.closing(send_to_switch.Server(url, "k")) as server:
        yield server


CODED = b'{"success": false, "error": "a_code", "message": "the reason"}'
QUEUE, REPORT = "/api/send-queue", "/api/send-queue/progress"
OFFLINE = send_to_switch.ServerOffline


@pytest.mark.parametrize(
    ("status", "path", "coded", "uncoded"),
    [
        (401, QUEUE, send_to_switch.BadKey, send_to_switch.BadKey),
        (401, REPORT, send_to_switch.BadKey, OFFLINE),
        (404, REPORT, send_to_switch.Missing, send_to_switch.Missing),
        (409, REPORT, send_to_switch.Cancelled, send_to_switch.Cancelled),
        *[(code, REPORT, send_to_switch.Failed, OFFLINE) for code in (400, 403, 405)],
        *[(status, REPORT, OFFLINE, OFFLINE) for status in (200, 301, 408, 429, 502)],
    ],
)
def test_only_what_is_catalogds_ends_an_item(
    origin: Callable[..., Origin],
    status: int,
    path: str,
    coded: type[Exception],
    uncoded: type[Exception],
) -> None:
    for kind, body in ((coded, CODED), (uncoded, b"<html>")):
        with answering(origin, status, body) as server:
            with pytest.raises(kind) as caught:
                server.call("GET", f"{path}?client=me")
            assert type(caught.value) is kind
    if coded is not send_to_switch.BadKey:
        assert f"{server.address}{path} answers with" in str(caught.value)


@pytest.mark.parametrize("status", [200, 301, 400, 403, 404, 405, 408, 409, 429, 500])
@pytest.mark.parametrize(
    "body",
    [
        CODED,
        b"<html>",
        b"[]",
        b"\xff",
        b'{"success": true, "queue": [{}], "served": 5}',
    ],
)
def test_no_answer_to_the_call_for_the_queue_ends_the_client(
    origin: Callable[..., Origin], status: int, body: bytes
) -> None:
    with answering(origin, status, body) as server:
        for call in (server.queue, server.served):
            with pytest.raises(OFFLINE):
                call("me")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("scheme", "answer", "advice"),
    [
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "Use http://127.0.0.1"),
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "Use https://127.0.0.1"),
        (
            "http",
            b"HTTP/1.1 400 Bad Request\r\n\r\nClient sent an HTTP request to an"
            b" HTTPS server.",
            "Use https://127.0.0.1",
        ),
        (
            "http",
            b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"succ',
            "be reached: Inc",
        ),
    ],
)
def test_an_answer_that_is_none_is_that_of_a_server_that_is_offline_or_named(
    scheme: str, answer: bytes, advice: str
) -> None:
    def serve() -> None:
        with listener.accept()[0] as call:
            call.recv(4096)
            call.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with (
            contextlib.closing(send_to_switch.Server(url)) as server,
            pytest.raises(send_to_switch.Problem, match=advice) as caught,
        ):
            server.call("GET", "/")
        thread.join()
    assert type(caught.value) is send_to_switch.ServerOffline


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (EOFError(), "the other side closed the connection"),
        (http.client.CannotSendRequest(), "the connection broke"),
        (ConnectionError("550 No such file."), "550 No such file"),
    ],
)
def test_the_cause_of_an_error_is_in_words(error: Exception, text: str) -> None:
    assert send_to_switch.error_text(error) == text


def test_a_secret_that_the_other_side_repeats_is_not_told() -> None:
    error = ConnectionError("530 me:s3cret is wrong.")
    assert send_to_switch.error_text(error, "s3cret") == "530 me:... is wrong"


def test_a_server_that_does_not_answer_in_time_is_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_to_switch, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with (
            contextlib.closing(send_to_switch.Server(url)) as server,
            pytest.raises(send_to_switch.ServerOffline, match="in time"),
        ):
            server.call("GET", "/")


def test_an_idle_connection_that_was_closed_is_opened_again(home: Home) -> None:
    sender = home.sender("folder:/tmp")
    assert sender.server.queue("me") == []
    home.drop()
    home.queue("a.nsp")
    assert [item.entry_name for item in sender.server.queue("me")] == ["a"]


# A download


def test_a_link_is_followed_without_the_key(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    far = origin(lambda request: request.reply(200, GAME))
    item = home.queue_link(f"{far.url}/Far%20away.nsp?x=1")
    home.sender(f"folder:{card}").send_next()
    assert (card / "Far.nsp").read_bytes() == GAME
    assert home.item(item)["status"] == "completed"
    assert all("Authorization" not in headers for _, headers in far.requests)
    assert far.requests[0][0] == "/Far%20away.nsp?x=1"


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_link_of_unknown_size_is_read_to_its_end_or_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin], is_whole: bool
) -> None:
    def chunks(request: Request) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        end = b"0\r\n\r\n" if is_whole else b"ff\r\n"
        request.wfile.write(b"4\r\nfour\r\n" + end)
        request.close_connection = not is_whole

    item = home.queue_link(f"{origin(chunks).url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    found = {path.name: path.read_bytes() for path in card.iterdir()}
    assert found == ({"Far.nsp": b"four"} if is_whole else {})
    assert ("was interrupted" in home.item(item)["error"]) is not is_whole


def ranged(request: Request, upto: int | None = None, **headers: str) -> None:
    """Answer with the range of GAME that was asked for, but end at `upto`."""
    start = int(request.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
    if request.headers.get("Range") == "bytes=0-0":
        span = {"Content_Range": f"bytes 0-0/{len(GAME)}"}
        return request.reply(206, GAME[:1], **span, **headers)
    end = request.headers.get("Range", "").rpartition("-")[2]
    stop = int(end) + 1 if end else len(GAME)
    span = {"Content_Range": f"bytes {start}-{stop - 1}/{len(GAME)}"}
    span["Content-Length"] = str(stop - start)
    body = GAME[start:stop][: upto or len(GAME)]
    return request.reply(206 if start else 200, body, **span, **headers)


def test_a_download_that_drops_is_resumed_with_if_range(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_to_switch, "SEAM_BYTES", 1000)
    far = origin(lambda request: ranged(request, 1_000_000, ETag='"x"'))
    item = home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert (card / "Far.nsp").read_bytes() == GAME
    assert home.item(item)["status"] == "completed"
    spans = [(head.get("Range"), head.get("If-Range")) for _, head in far.requests[1:]]
    assert spans == [
        (None, None),
        ("bytes=1000000-", '"x"'),
        ("bytes=2000000-", '"x"'),
        ("bytes=0-999", '"x"'),
        (f"bytes={len(GAME) - 1000}-{len(GAME) - 1}", '"x"'),
    ]


@pytest.mark.parametrize("size", [4, len(GAME)])
def test_a_link_whose_host_gives_the_file_once_is_sent_and_not_compared(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin], size: int
) -> None:
    def answer(request: Request) -> None:
        if request.headers.get("Range") in (None, "bytes=0-0"):
            return ranged(request, ETag='"x"')
        return request.reply(403)

    item = home.queue_link(f"{origin(answer).url}/x.nsp")
    sender = home.sender(f"folder:{card}")
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert (card / "Far.nsp").read_bytes() == GAME
    (card / "Far.nsp").write_bytes(b"o" * size)
    home.store.queue.send(home.anna, home.item(item)["entry"])
    sender.send_next()
    status = home.store.queue.items(home.anna)[-1]["status"]
    assert status == ("completed" if size == len(GAME) else "failed")
    assert (card / "Far.nsp").read_bytes() == b"o" * size


def test_a_download_that_is_reset_is_resumed(
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
    home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert (card / "Far.nsp").read_bytes() == GAME


def test_a_download_that_drops_and_cannot_be_resumed_starts_over_and_then_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    far = origin(lambda request: ranged(request, 1_000_000))
    item = home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert "Gave up after 3 attempts." in home.item(item)["error"]


def test_a_date_resumes_a_download_that_has_no_etag(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    date = "Mon, 02 Nov 2026 10:00:00 GMT"
    far = origin(lambda request: ranged(request, 2_000_000, Last_Modified=date))
    home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert far.requests[-1][1]["If-Range"] == date
    assert (card / "Far.nsp").read_bytes() == GAME


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "no longer"), (410, "no longer"), (403, "status 403"), (401, "status 401")],
)
def test_a_link_without_a_file_fails_and_the_next_item_is_sent(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    status: int,
    message: str,
) -> None:
    far = origin(lambda request: request.reply(status))
    item = home.queue_link(f"{far.url}/x.nsp")
    other = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    while sender.send_next():
        pass
    assert message in home.item(item)["error"]
    assert home.item(other)["status"] == "completed"


@pytest.mark.parametrize(
    "place",
    [
        *["mailto:me", "http://[", "http:///x", "/again"],
        *["http://a..b/x.nsp", f"http://{'a' * 70}.b/x.nsp"],
    ],
)
def test_a_link_that_redirects_to_nowhere_fails(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin], place: str
) -> None:
    far = origin(lambda request: request.reply(302, Location=place))
    item = home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert "redirect" in home.item(item)["error"]


def fetch_from(url: str, sender: send_to_switch.Sender) -> None:
    """Let a client fetch files from another address."""
    given = sender.target.send

    def send(download: send_to_switch.Download, state: send_to_switch.State) -> None:
        download.url = f"{url}/file"
        given(download, state)

    sender.target.send = send  # type: ignore[method-assign]


def test_a_server_that_is_down_behind_its_proxy_is_waited_for(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    def answer(request: Request) -> None:
        answers.append(next(statuses, 200))
        if answers[-1] == 200:
            request.reply(200, GAME)
        else:
            request.reply(answers[-1], b"<html>Bad Gateway</html>")

    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    down = [502] * 2 * send_to_switch.MAX_STALLS
    statuses, proxy = iter(down), origin(answer)
    answers = list[int]()
    fetch_from(proxy.url, sender)
    sender.send_next()
    assert answers == [*down, 200, 200]
    assert home.item(item)["status"] == "completed"


def test_a_file_that_a_proxy_waits_for_in_vain_holds_up_no_others(
    home: Home, card: pathlib.Path, origin: Callable[..., Origin]
) -> None:
    item, proxy = home.queue("game.nsp", GAME), origin(lambda call: call.reply(504))
    sender = home.sender(f"folder:{card}")
    fetch_from(proxy.url, sender)
    sender.send_next()
    assert "status 504. Gave up after" in home.item(item)["error"]


def test_a_queue_may_be_long(origin: Callable[..., Origin]) -> None:
    item = send_to_switch.Item("item", "entry", "x" * 500, "", 1)._asdict()
    body = json.dumps({"success": True, "queue": [item] * 10_000}).encode()
    with answering(origin, 200, body) as server:
        assert len(server.queue("me")) == 10_000


@pytest.mark.parametrize("trouble", ["refuses", "is away", "refuses the rest"])
def test_a_link_whose_host_is_offline_fails_in_the_end(
    home: Home,
    card: pathlib.Path,
    origin: Callable[..., Origin],
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
) -> None:
    def answer(request: Request) -> None:
        if trouble == "refuses" or request.headers.get("If-Range"):
            request.reply(503)
        else:
            ranged(request, 1_000_000, ETag='"x"')

    monkeypatch.setattr(send_to_switch, "MAX_STALLS", 3)
    url = origin(answer).url
    if trouble == "is away":
        url = f"http://127.0.0.1:{free_port()}"
    item = home.queue_link(f"{url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert "Gave up after 3 attempts." in home.item(item)["error"]
    assert os.listdir(card) == []


def test_a_file_that_became_shorter_in_mid_transfer_is_sent_from_the_start(
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
    home.queue_link(f"{far.url}/x.nsp")
    home.sender(f"folder:{card}").send_next()
    assert (card / "Far.nsp").read_bytes() == b"four"


def download(sender: send_to_switch.Sender) -> send_to_switch.Download:
    """The download of the first queue item."""
    [item, *_] = sender.server.queue("me")
    return send_to_switch.Download(sender.server, item, sender.screen)


def test_a_span_of_a_file_is_whole_or_a_problem(
    home: Home, origin: Callable[..., Origin]
) -> None:
    sizes = iter([None, 10, None])
    far = origin(lambda request: ranged(request, next(sizes), ETag='"x"'))
    home.queue_link(f"{far.url}/x.nsp")
    file = download(home.sender("folder:/tmp"))
    file.probe()
    with pytest.raises(send_to_switch.FileOffline):
        file.span(1000, 2000)
    assert file.span(1000, 2000) == GAME[1000:2000]


def test_a_key_that_was_revoked_stops_the_download(home: Home) -> None:
    home.queue("game.nsp", GAME)
    file = download(home.sender("folder:/tmp"))
    home.store.accounts.revoke_key(home.store.accounts.keys(home.anna)[0]["id"])
    with pytest.raises(send_to_switch.BadKey):
        file.probe()


def test_a_download_that_was_cancelled_opens_no_connection(home: Home) -> None:
    home.queue("game.nsp", GAME)
    file = download(home.sender("folder:/tmp"))
    file.probe()
    file.progress.cancel(send_to_switch.Cancelled("on the page"))
    with pytest.raises(send_to_switch.Cancelled):
        next(file.chunks())


# Attempts


def retry(pauses: list[float], **options: Any) -> send_to_switch.Retry:
    return send_to_switch.Retry(pauses.append, **options)


def test_pauses_double_up_to_a_limit_until_there_is_progress() -> None:
    pauses: list[float] = []
    attempts = retry(pauses, first_pause=3)
    for _ in range(5):
        attempts.wait(send_to_switch.TargetOffline("No card."))
    attempts.reset()
    attempts.wait(send_to_switch.TargetOffline("No card."))
    assert pauses == [3, 6, 12, 24, 30, 3]


def test_a_server_that_is_offline_is_waited_for_as_long_as_it_takes() -> None:
    pauses: list[float] = []
    attempts = retry(pauses, max_failures=2)
    for _ in range(100):
        attempts.wait(send_to_switch.ServerOffline("It is off."))
    assert len(pauses) == 100


def test_the_last_attempt_fails_with_its_problem() -> None:
    attempts = retry([], max_failures=2)
    attempts.wait(send_to_switch.Interrupted("It was interrupted."))
    with pytest.raises(send_to_switch.Failed) as caught:
        attempts.wait(send_to_switch.Interrupted("It was interrupted."))
    assert str(caught.value) == "It was interrupted. Gave up after 2 attempts."


# Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress_on(terminal: Terminal, size: int | None) -> send_to_switch.Progress:
    screen = send_to_switch.Screen(io.StringIO(), terminal)
    return send_to_switch.Progress(screen, size)


@pytest.mark.parametrize(
    ("size", "count", "shown"),
    [
        (1000, 240, "74 %, 4 min 20 s left, 0 B/s"),
        (None, 240, "740 B, 0 B/s"),
        (72_500, 36_000, "50 %, 60 min 0 s left, 10 B/s"),
    ],
)
def test_a_terminal_shows_the_progress_in_one_line(
    size: int | None, count: int, shown: str
) -> None:
    terminal = Terminal()
    progress = progress_on(terminal, size)
    progress.begin("game.nsp", 500, size)
    progress._began -= 3600
    progress.add(count)
    assert terminal.getvalue().count(f"{shown}: game.nsp") == 1
    assert "\n" not in terminal.getvalue()
    progress.screen.say("Next.")
    last = terminal.getvalue().split("\r")[-2]
    assert last and not last.strip(), "the next line does not begin beside the old one"


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("74 %: game.nsp", 10, "74 %: game"),
        ("74 %", 6, "74 %  "),
        ("ポケモン", 6, "ポケモ"),
        ("ポケモン", 5, "ポケ "),
        ("e\u0301a", 3, "e\u0301a "),
        ("wide", 0, ""),
    ],
)
def test_a_text_is_cut_by_columns(text: str, columns: int, shown: str) -> None:
    assert send_to_switch.fit(text, columns) == shown


def test_percent_and_time_are_seen_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    progress = progress_on(terminal, 1000)
    progress.begin("ゼルダの伝説 ブレス オブ ザ ワイルド.nsp", 500, 1000)
    progress._began -= 3600
    progress.add(240)
    line = terminal.getvalue().split("\r")[-2]
    assert line.startswith("74 %, 4 min 20 s left, 0 B/s: ゼル")
    assert sum(map(send_to_switch.width, line)) == 39


def test_a_terminal_shows_what_a_whole_file_waits_for() -> None:
    terminal = Terminal()
    progress = progress_on(terminal, 1000)
    progress.begin("game.nsp", 0, 1000)
    for _ in range(2):
        progress.add(500)  # the second one right after the first
    waits = "100 %, waits for the target: game.nsp"
    assert waits in terminal.getvalue().split("\r")[-2]


def test_the_progress_is_not_redrawn_for_each_chunk() -> None:
    terminal = Terminal()
    progress = progress_on(terminal, 1000)
    progress.begin("game.nsp", 0, 1000)
    for _ in range(100):
        progress.add(1)
    assert terminal.getvalue().count("game.nsp") < 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb: sent.\x1b[2J\r", r"a\nb: sent.\x1b[2J\r"),
        ("\u202egnp.exe\x9b2J\u2028\udcff", r"\u202egnp.exe\x9b2J\u2028\udcff"),
        ("Pokémon ポケモン 🎮", "Pokémon ポケモン 🎮"),
    ],
)
def test_what_comes_from_outside_steers_no_terminal(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a line, nor in the progress, nor in the last problem."""
    out, terminal = io.StringIO(), Terminal()
    screen = send_to_switch.Screen(out, terminal)
    screen.say(text)
    assert out.getvalue() == f"{shown}\n"
    screen.show(text)
    assert shown in terminal.getvalue()
    assert send_to_switch.main(["--server", f"http://{text}/", "--to", text]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_a_line_is_not_repeated() -> None:
    out = io.StringIO()
    screen = send_to_switch.Screen(out=out)
    for text in ("a", "a", "b", "a"):
        screen.say(text)
    assert out.getvalue() == "a\nb\na\n"


def test_what_is_told_to_the_server_is_a_line_that_no_name_can_make() -> None:
    out = io.StringIO()
    screen = send_to_switch.Screen(out=out)
    screen.tell(saves=2, code="a\nb")
    screen.say('\x1e{"saves": 3}')
    told, said = out.getvalue().removesuffix("\n").split("\n")
    assert json.loads(told.removeprefix("\x1e")) == {"saves": 2, "code": "a\nb"}
    assert told[0] == "\x1e" != said[0]


def test_a_character_that_the_terminal_cannot_show_becomes_a_question_mark() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    send_to_switch.Screen(out=out).say("Café")
    assert out.buffer.getvalue() == b"Caf?\n"  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_no_progress() -> None:
    err = io.StringIO()
    send_to_switch.Screen(err=err).show("game: 50 %")
    assert err.getvalue() == ""


# The queue


def test_the_queue_is_sent_in_order_and_a_failed_item_does_not_stop_it(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [home.queue(f"{name}.nsp", GAME) for name in "cab"]
    os.unlink(home.library.folder / "a.nsp")
    sender = home.sender(f"folder:{card}")
    sender.run(once=True)
    states = [home.item(item)["status"] for item in items]
    assert states == ["completed", "failed", "completed"]
    assert home.item(items[1])["error"] == "The server no longer has the file."
    of = {"host": {"code": "own_server", "arguments": {}}}  # in any language
    assert home.item(items[1])["arguments"] == of
    assert sender.reports.failures == 1
    told = re.findall(r"^(.+): sending 3\.0 MB\.$", capsys.readouterr().out, re.M)
    assert told == ["c", "a", "b"]


def test_no_thread_is_left_after_a_transfer(home: Home, card: pathlib.Path) -> None:
    home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}").send_next()
    assert "reporter" not in {thread.name for thread in threading.enumerate()}


class Scripted(send_to_switch.Target):
    """Calls `act` with the progress of each chunk, and drops the chunk."""

    start = "scripted:"

    def __init__(self, act: Callable[[send_to_switch.Progress], Any]) -> None:
        super().__init__(send_to_switch.Settings(to="scripted:"))
        self.act = act
        self.discarded: list[str] = []

    def send(
        self, download: send_to_switch.Download, state: send_to_switch.State
    ) -> None:
        download.probe()
        download.begin(0)
        for _ in download.chunks():
            self.act(download.progress)

    def discard(self, name: str) -> None:
        self.discarded.append(name)


def wait_to_be_cancelled(progress: send_to_switch.Progress) -> None:
    for _ in range(3000):
        progress.sleep(0.01)


def test_a_cancelled_item_stops_also_while_the_console_is_stuck(
    home: Home, card: pathlib.Path
) -> None:
    def cancel() -> None:
        wait_for(lambda: console.stalled)
        home.store.queue.cancel(home.anna, item)

    item = home.queue("game.nsp", os.urandom(30_000_000))
    with contextlib.closing(FTPConsole(card)) as console:
        console.stall_after = 1_000_000
        canceller = threading.Thread(target=cancel)
        canceller.start()
        home.sender(console.url("/")).send_next()
        canceller.join()
        console.stall_after = math.inf
    assert home.item(item)["status"] == "cancelled"


def test_reports_have_percent_and_bytes(home: Home) -> None:
    item = home.queue("game.nsp", GAME)
    rows = []

    def wait_for_report(progress: send_to_switch.Progress) -> None:
        if progress.done:
            wait_for(lambda: home.item(item)["bytes"])
            rows.append(home.item(item))
            raise KeyboardInterrupt

    sender = home.sender("folder:/tmp", target=Scripted(wait_for_report))
    with pytest.raises(KeyboardInterrupt):
        sender.send_next()
    assert rows[0]["bytes"] == send_to_switch.CHUNK_BYTES
    assert rows[0]["percent"] == 100 * send_to_switch.CHUNK_BYTES // len(GAME)


def test_a_report_that_does_not_reach_the_server_stops_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue("game.nsp", GAME)
    plain, failures = send_to_switch.Server.report, [1, 1]

    def report(self: Any, item: Any, client: str, **fields: Any) -> None:
        if "transfer_speed" in fields and failures:
            failures.pop()
            raise send_to_switch.ServerOffline("It restarts.")
        plain(self, item, client, **fields)

    monkeypatch.setattr(send_to_switch.Server, "report", report)
    sender = home.sender(
        "folder:/tmp", target=Scripted(lambda progress: wait_for(lambda: not failures))
    )
    sender.send_next()
    assert home.item(item)["status"] == "completed"


def test_reports_are_no_closer_than_two_seconds() -> None:
    assert send_to_switch.REPORT_SECONDS >= 2


def test_a_key_that_is_revoked_in_mid_transfer_stops_it_and_keeps_the_item(
    home: Home,
) -> None:
    def revoke(progress: send_to_switch.Progress) -> None:
        home.store.accounts.revoke_key(home.store.accounts.keys(home.anna)[0]["id"])
        wait_to_be_cancelled(progress)

    item = home.queue("game.nsp", GAME)
    sender = home.sender("folder:/tmp", target=Scripted(revoke))
    with pytest.raises(send_to_switch.BadKey):
        sender.send_next()
    assert home.item(item)["status"] == "pending"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_device_that_was_removed_leaves_nothing_on_a_card_that_is_there(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    names = ["a.nsp", "b.nsp"]
    sender = home.sender(f"folder:{card}")
    for name in names:
        home.queue(name, GAME)
        (card / f"{name}.part").write_bytes(GAME[:1000])
        sender.state.begin(f"{name}.part", "x", ITEM)
    (card / "c.nsp.part").write_bytes(b"of others")
    for key in home.store.accounts.keys(home.anna):
        home.store.accounts.revoke_key(key["id"], home.anna)
    if not is_there:
        card.rename(f"{card}.out")
    with pytest.raises(send_to_switch.BadKey):
        sender.run(once=False)
    said = capsys.readouterr().out
    for name in names:
        assert (f"{name}.part stays on the target." in said) == (not is_there)
    if is_there:
        assert [path.name for path in card.iterdir()] == ["c.nsp.part"]


def test_an_item_that_another_client_claimed_is_skipped(
    home: Home, card: pathlib.Path
) -> None:
    first, second = home.queue("a.nsp"), home.queue("b.nsp")
    sender = home.sender(f"folder:{card}")
    check_ready = sender.target.check_ready

    def claim_first(state: send_to_switch.State) -> str:
        if home.item(first)["status"] == "pending":
            report = {"status": "processing", "client": "other"}
            home.store.clients.report(home.anna, first, report)
        return check_ready(state)

    sender.target.check_ready = claim_first  # type: ignore[method-assign]
    assert sender.send_next()
    assert home.item(second)["status"] == "completed"
    assert os.listdir(card) == ["b.nsp"]
    assert not sender.send_next()


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


def test_a_server_that_restarts_in_mid_transfer_is_waited_for(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = os.urandom(30_000_000)  # more than the sockets' buffers hold
    item = home.queue("game.nsp", game)
    sender = home.sender(f"folder:{card}")
    plain = send_to_switch.connection
    refusals: list[int] = []  # that are to come

    def connection(parts: Any) -> Any:
        made = plain(parts)
        with contextlib.suppress(IndexError):
            made.port = refusals.pop()
        return made

    def restart() -> None:
        refusals.extend([1] * 5)  # a port where nothing listens
        home.drop()

    monkeypatch.setattr(send_to_switch, "connection", connection)
    when_sent(sender, 1_000_000, restart)
    sender.send_next()
    assert (card / "game.nsp").read_bytes() == game
    assert home.item(item)["status"] == "completed"


def test_the_end_is_reported_when_the_server_is_back(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")
    plain, attempts = sender.server.report, []

    def report(item: Any, client: str, **fields: Any) -> None:
        if fields.get("status") == "completed":
            attempts.append(1)
            if len(attempts) < 3:
                raise send_to_switch.ServerOffline("It restarts.")
        plain(item, client, **fields)

    sender.server.report = report  # type: ignore[method-assign]
    sender.send_next()
    assert home.item(item)["status"] == "completed"
    assert "It restarts. Trying again." in capsys.readouterr().out


def test_an_item_that_was_cleared_in_mid_transfer_is_no_problem(
    home: Home, card: pathlib.Path
) -> None:
    item = home.queue("game.nsp", GAME)
    sender = home.sender(f"folder:{card}")

    def clear() -> None:
        key = home.store.accounts.keys(home.anna)[0]["id"]
        home.store.clients.report(home.anna, item, {"status": "failed", "key": key})
        home.store.queue.clear(home.anna, "9999", ())

    when_sent(sender, 2_999_999, clear)
    sender.send_next()
    assert home.store.queue.items(home.anna) == []


def writing_environment(output: pathlib.Path) -> str:
    """Return a command for --on-done that writes its environment into a file."""
    script = f"import json, os; json.dump(dict(os.environ), open({str(output)!r}, 'w'))"
    return f'"{sys.executable}" -c "{script}"'


def test_the_command_of_on_done_gets_name_and_status(
    home: Home, card: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "output"
    home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}", on_done=writing_environment(output)).send_next()
    env = json.loads(output.read_text())
    assert env["SEND_TO_SWITCH_NAME"] == "game"
    assert env["SEND_TO_SWITCH_STATUS"] == "completed"


def test_the_command_of_on_done_gets_no_password_no_key_and_no_control_character(
    home: Home,
    card: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextlib.closing(FTPConsole(card)) as console:
        to = console.url().replace("//", "//me:p%40ss@", 1)
        monkeypatch.setenv("SEND_TO_SWITCH_TO", to)
        monkeypatch.setenv("SEND_TO_SWITCH_KEY", home.key)
        output = tmp_path / "output"
        sender = home.sender(to, on_done=writing_environment(output))
        item = send_to_switch.Item("item", "entry", "a\0b\x1b", "", 0)
        sender.reports._run_command(item, "completed")
        sender.preview()
    env = json.loads(output.read_text())
    assert env["SEND_TO_SWITCH_NAME"] == r"a\x00b\x1b"
    assert env["SEND_TO_SWITCH_TARGET"].startswith("ftp://me:...@127.0.0.1:")
    everything = output.read_text() + capsys.readouterr().out
    assert "p%40ss" not in everything and home.key not in everything


def test_a_command_that_fails_is_printed_and_changes_nothing(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("game.nsp", GAME)
    home.sender(f"folder:{card}", on_done="exit 3").send_next()
    assert "--on-done: Command 'exit 3' returned" in capsys.readouterr().out
    assert home.item(item)["status"] == "completed"


class Enough(Exception):
    """Ends a client that would run for ever."""


@pytest.mark.parametrize(
    "problem",
    [
        send_to_switch.ServerOffline("It is off."),
        send_to_switch.TargetOffline("No card."),
        send_to_switch.Unfinished("The console goes on with it."),
        send_to_switch.Denied("A proxy denies it."),
    ],
)
def test_a_server_or_target_that_is_offline_is_tried_again(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: Exception,
) -> None:
    sender = home.sender(f"folder:{card}")
    outcomes = iter([problem, True, False, problem])

    def send_next() -> bool:
        outcome = next(outcomes, Enough())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(sender, "send_next", send_next)
    with pytest.raises(Enough):
        sender.run(once=False)
    again = f"{problem} Trying again."
    lines = [again, "Waiting for queue items.", again]
    assert capsys.readouterr().out.splitlines()[-3:] == lines


@pytest.mark.parametrize("names", [[], ["game.nsp"]])
def test_a_target_that_is_offline_is_told_once(
    home: Home,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
) -> None:
    """Not by the check of the target, and again by the first attempt."""

    for name in names:
        home.queue(name)
    monkeypatch.setattr(send_to_switch.Pace, "wait", Mock(side_effect=Enough))
    sender = home.sender(f"folder:{card}/none")
    with pytest.raises(Enough):
        sender.run(once=False)
    problem = f"{sender.watch.readiness} Trying again."
    lines = [problem] if names else [problem, "Waiting for queue items."]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that would try again for ever fails its test."""
    monkeypatch.setattr(
        send_to_switch.Pace, "wait", lambda *given: pytest.fail("waits")
    )


def test_with_once_a_target_that_is_offline_is_the_end(
    home: Home, card: pathlib.Path, no_waiting: None
) -> None:
    home.queue("game.nsp")
    with pytest.raises(send_to_switch.TargetOffline):
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


def test_once_sends_everything_and_ends_with_0_or_1_if_an_item_failed(
    home: Home, card: pathlib.Path, run: Callable[..., int]
) -> None:
    home.queue("a.nsp", GAME)
    assert run("--once") == 0
    home.queue("b.nsp")
    os.unlink(home.library.folder / "b.nsp")
    assert run("--once") == 1
    assert os.listdir(card) == ["a.nsp"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--to", "x"], 2, "'x' is not a target. Use folder:PATH"),
        (["--to", "/media/card"], 2, "Did you mean folder:/media/card?"),
        (["--to", "E:\\card"], 2, "Did you mean folder:E:\\card?"),
        (["--to", "foo:bar"], 2, "'foo:bar' is not a target. Use folder:PATH"),
        (["--to", "ftp://me:secret@:x"], 2, "ftp://me:...@:x' is not an address"),
        (["--frob"], 2, "unknown option --frob. See '"),
        (["--to"], 2, "argument --to: expected one argument. See '"),
        (["--key", "s3cret"], 2, "unknown option --key. See '"),
        (["--key=s3cret"], 2, "unknown option --key. See '"),
        (["pair", "http://h"], 2, "The commands are login and pair URL CODE. See '"),
        (["--server", "ftp://x"], 2, "is not an address"),
        (["--config", "nosuch.ini"], 2, "nosuch.ini: there is no such file."),
        (["--key-file", "/none"], 2, "There is no key in SEND_TO_SWITCH_KEY or /none"),
        (["--verify", "--to", "lan://h"], 2, "cannot be read back"),
        (["--verify", "--to", "ftp://h"], 2, "cannot be read back"),
        (
            ["--once", "--server", "http://127.0.0.1:1"],
            4,
            "127.0.0.1:1 cannot be reached: ",
        ),
    ],
)
def test_a_problem_is_one_line_and_an_exit_code(
    no_waiting: None,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    """Before any server is called."""
    (tmp_path / "key").write_text(catalogd.new_key())
    given = ["--server", "http://127.0.0.1:1", "--key-file", str(tmp_path / "key")]
    given += ["--to", f"folder:{tmp_path}"]
    assert send_to_switch.main([*given, *words]) == code
    err = capsys.readouterr().err
    assert message in err and "s3cret" not in err
    assert err.startswith("send-to-switch: ") and err.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/full")
def test_an_output_that_is_not_taken_is_one_line(
    home: Home,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home.queue("a.nsp")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run("--dry-run") == 2
    err = capsys.readouterr().err
    assert err == "send-to-switch: The output: No space left on device.\n"


def test_another_error_of_the_system_is_told_with_its_place(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=FileNotFoundError(2, "gone", "somewhere"))
    monkeypatch.setattr(send_to_switch, "run_command", fail)
    with pytest.raises(FileNotFoundError):
        run()


def test_a_refused_key_ends_with_3_and_a_hint(
    home: Home, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    item = home.queue("a.nsp")
    home.store.accounts.revoke_key(home.store.accounts.keys(home.anna)[0]["id"])
    assert run("--once") == 3
    hint = "Add this device again: Settings, Devices."
    assert hint in capsys.readouterr().err
    assert home.item(item)["status"] == "pending"


def test_ctrl_c_ends_with_130(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", Mock(side_effect=KeyboardInterrupt))
    assert run() == 130


def test_a_dry_run_prints_what_would_be_sent_and_sends_nothing(
    home: Home,
    card: pathlib.Path,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = [home.queue("a.nsp", GAME), home.queue("b.nsp", b"b")]
    os.unlink(home.library.folder / "b.nsp")
    assert run("--dry-run") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"2 to send to folder:{card}.\n")
    assert "a.nsp: 3.0 MB." in out
    assert "b: would fail: The server no longer has the file." in out
    assert {home.item(item)["status"] for item in items} == {"pending"}
    assert os.listdir(card) == []


def test_a_dry_run_prints_that_the_target_is_not_ready(
    home: Home, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    home.queue("a.nsp", GAME)
    assert run("--dry-run", "--to", "folder:/none") == 0
    out = capsys.readouterr().out
    assert "Is the card in?" in out and "a.nsp: 3.0 MB." in out


def test_login_saves_all_settings_and_a_key_that_only_its_owner_reads(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    card: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter([home.address, "anna"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD)
    ini = pathlib.Path(send_to_switch.config_path("send-to-switch.ini"))
    ini.parent.mkdir(parents=True)
    ini.write_text(f"[send-to-switch]\nto = folder:{card}\n")
    key_file = pathlib.Path(send_to_switch.config_path("key"))
    pathlib.Path(f"{key_file}.new").touch(mode=0o644)
    assert send_to_switch.main(["login"]) == 0
    assert f"The key is in {key_file}" in capsys.readouterr().out
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    home.queue("a.nsp")
    assert send_to_switch.main(["--once"]) == 0  # without any more options
    assert os.listdir(card) == ["a.nsp"]


def test_login_with_a_wrong_password_or_that_cannot_write_is_a_problem(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passwords = iter(["wrong", PASSWORD])
    monkeypatch.setattr("builtins.input", lambda prompt: "anna")
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(passwords))
    words = ["login", "--server", home.address]
    assert send_to_switch.main(words) == 1
    assert "The name or the password is wrong." in capsys.readouterr().err
    assert send_to_switch.main([*words, "--key-file", "/dev/null/key"]) == 2
    assert "cannot be written" in capsys.readouterr().err


# Pairing


class Pairing:
    """A server that knows one pairing code, and has an empty queue."""

    def __init__(self, origin: Callable[..., Origin]) -> None:
        self.bodies: list[Any] = []
        self.targets: list[str] = []
        self.url = origin(lambda request: self.answer(request)).url

    def answer(self, request: Request) -> None:
        parts = urllib.parse.urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if parts.path == "/api/pair":
            self.bodies.append(json.loads(body))
            if self.bodies[-1]["code"] != "482915":
                message = "This code is wrong or too old."
                error = {"error": "code_wrong", "message": message}
                return self.reply(request, 403, success=False, **error)
            if self.bodies[-1]["name"] == "Den":
                message = "There is a device named Den already."
                return self.reply(request, 409, success=False, message=message)
            return self.reply(request, 200, success=True, api_key="k" * 9, device="d")
        assert request.headers["Authorization"] == f"Bearer {'k' * 9}"
        self.targets += urllib.parse.parse_qs(parts.query).get("target", [])
        return self.reply(request, 200, success=True, queue=[])

    def reply(self, request: Request, status: int, **body: Any) -> None:
        request.reply(status, json.dumps(body).encode())


@pytest.fixture
def pairing(origin: Callable[..., Origin]) -> Pairing:
    return Pairing(origin)


@pytest.mark.parametrize("code", [["482915"], ["482-915"], ["482 915"], ["482", "915"]])
def test_a_pairing_code_makes_all_settings(
    pairing: Pairing,
    card: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    code: list[str],
) -> None:
    words = ["pair", pairing.url, *code, "--name", "Living room"]
    assert send_to_switch.main([*words, "--to", f"folder:{card}"]) == 0
    assert pairing.bodies == [{"code": "482915", "name": "Living room"}]
    for name in ("send-to-switch.ini", "key"):
        path = pathlib.Path(send_to_switch.config_path(name))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    out = capsys.readouterr().out
    assert "k" * 9 not in out and out.endswith(f"'{send_to_switch.program()}'.\n")
    assert send_to_switch.main(["--once"]) == 0, "nothing more has to be given"
    assert pairing.targets[-1].startswith("ready")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "The queue is empty."


def test_without_a_target_pairing_asks_for_one(
    pairing: Pairing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send_to_switch.main(["pair", pairing.url, "482915"]) == 0
    assert pairing.bodies[0]["name"] == socket.gethostname()
    assert " --to TARGET'." in capsys.readouterr().out


def test_a_wrong_pairing_code_or_name_is_a_problem(
    pairing: Pairing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send_to_switch.main(["pair", pairing.url, "111111"]) == 1
    assert "This code is wrong or too old." in capsys.readouterr().err
    assert not os.path.exists(send_to_switch.config_path("key"))
    for code in ("abc", "12345", "1234567"):
        assert send_to_switch.main(["pair", pairing.url, code]) == 2
        assert "A pairing code has six digits" in capsys.readouterr().err
    words = ["pair", pairing.url, "482915", "--name", "Den"]
    assert send_to_switch.main(words) != 0
    assert capsys.readouterr().err.endswith("There is a device named Den already.\n")


def test_a_server_without_pairing_is_named(
    origin: Callable[..., Origin], capsys: pytest.CaptureFixture[str]
) -> None:
    server = origin(lambda request: request.reply(404))
    assert send_to_switch.main(["pair", server.url, "482915"]) == 2
    err = capsys.readouterr().err
    assert "Upgrade catalogd, or use '" in err and "login'" in err


def test_a_wrong_target_or_a_key_that_cannot_be_kept_uses_no_pairing_code_up(
    pairing: Pairing, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "keys" / "key"
    words = ["pair", pairing.url, "482915", "--to", "lan://h", "--key-file", str(key)]
    assert send_to_switch.main([*words[:-1], "/dev/null/key"]) == 2
    assert send_to_switch.main([*words, "--config", "/dev/null/x.ini"]) == 2
    assert send_to_switch.main([*words, "--to", "/media/card"]) == 2
    assert pairing.bodies == []
    assert capsys.readouterr().err.count("cannot be written") == 2
    assert send_to_switch.main(words) == 0
    assert os.listdir(key.parent) == ["key"], "what was tried is gone"


def test_another_device_needs_settings_of_its_own(
    pairing: Pairing,
    tmp_path: pathlib.Path,
    card: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["pair", pairing.url, "482915"]
    assert send_to_switch.main([*words, "--to", f"folder:{card}"]) == 0
    words[1] = words[1].removeprefix("http://") + "/"
    assert send_to_switch.main(words) == 0, "the same device may be paired again"
    assert send_to_switch.main([*words, "--to", "lan://kitchen"]) == 2
    assert "--config FILE" in capsys.readouterr().err
    other = tmp_path / "kitchen.ini"
    assert send_to_switch.main([*words, "--to", "lan://h", "--config", str(other)]) == 0
    assert f" --config {other}'." in capsys.readouterr().out
    assert (tmp_path / "kitchen.key").read_text() == "k" * 9 + "\n"
    assert f"key_file = {tmp_path / 'kitchen.key'}\n" in other.read_text()
    assert send_to_switch.main(["--config", str(other), "--once"]) == 0


def test_a_console_with_a_new_address_is_paired_again_by_its_name(
    pairing: Pairing, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pair", pairing.url, "482915"]
    name = ["--name", "Living room"]
    assert send_to_switch.main([*words, *name, "--to", "ftp://10.0.0.7"]) == 0
    assert send_to_switch.main([*words, "--to", "ftp://10.0.0.8"]) == 2
    other = ["--name", "Attic", "--to", "ftp://10.0.0.8"]
    assert send_to_switch.main([*words, *other]) == 2
    assert "is for another device" in capsys.readouterr().err
    assert send_to_switch.main([*words, *name, "--to", "ftp://10.0.0.8"]) == 0
    ini = send_to_switch.read_ini(send_to_switch.config_path("send-to-switch.ini"))
    assert (ini["to"], ini["name"]) == ("ftp://10.0.0.8", "Living room")


def test_a_key_is_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    key = catalogd.new_key()
    for words in ([key], ["--frob", key], ["--server", f"x://{key}"]):
        assert send_to_switch.main(words) == 2
    out = io.StringIO()
    send_to_switch.Screen(out).say(f"The key is {key}.")
    assert key not in capsys.readouterr().err + out.getvalue()


def test_an_option_of_several_lines_stays_when_the_settings_are_saved(
    pairing: Pairing,
) -> None:
    ini = pathlib.Path(send_to_switch.config_path("send-to-switch.ini"))
    ini.parent.mkdir(parents=True)
    ini.write_text("[send-to-switch]\non_done = one\n two\n")
    send_to_switch.main(["pair", pairing.url, "482915", "--to", "lan://h"])
    values = send_to_switch.read_ini(str(ini))
    assert (values["on_done"], values["to"]) == ("one\ntwo", "lan://h")


# The target's state


def test_polls_tell_that_the_target_is_not_ready(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    plain = send_to_switch.Server.queue

    def queue(self: Any, client: str, target: Any, *more: Any) -> Any:
        told.append(str(target))
        return plain(self, client, target, *more)

    monkeypatch.setattr(send_to_switch.Server, "queue", queue)
    card.rmdir()
    sender = home.sender(f"folder:{card}")
    sender.run(once=True)
    home.queue("game.nsp")
    card.mkdir()
    sender.run(once=True)
    assert told[0] == f"There is no folder {card}. Is the card in?"
    assert told[-1].startswith("ready")


def test_an_idle_target_is_checked_once_a_minute(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, checks = home.sender(f"folder:{card}"), []

    def check_ready(state: send_to_switch.State) -> str:
        checks.append(state)
        return send_to_switch.READY

    monkeypatch.setattr(sender.target, "check_ready", check_ready)
    for _ in range(3):
        sender.run(once=True)
    assert len(checks) == 1
    sender.watch._checked = -math.inf
    sender.run(once=True)
    assert len(checks) == 2


def test_a_target_is_checked_at_the_start_and_its_problem_is_told_once(
    home: Home, card: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sender = home.sender(f"folder:{card}/none")
    sender.run(once=True)
    sender.watch._checked = -math.inf
    sender.run(once=True)
    missing = f"There is no folder {card}/none. Is the card in?"
    assert capsys.readouterr().out.splitlines() == [missing, "The queue is empty."]


def test_an_idle_installer_is_left_alone(home: Home) -> None:
    sender = home.sender("lan://127.0.0.1:1")
    sender.run(once=True)
    assert sender.watch.readiness is None


# Messages


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/me/send_to_switch.py", " /home/me/send_to_switch.py pair URL"),
        ("/usr/bin/send-to-switch", "'send-to-switch pair URL CODE'"),
        ("C:/bin/send-to-switch.exe", "'send-to-switch pair URL CODE'"),
    ],
)
def test_messages_call_the_program_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, path: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "argv", [path])
    with pytest.raises(send_to_switch.Problem, match="No server given") as caught:
        send_to_switch.server_address("")
    assert shown in str(caught.value)


def test_the_help_has_the_defaults_and_the_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        send_to_switch.main(["--help"])
    text = re.sub(r"\s+", "", capsys.readouterr().out)
    assert "3thekeyisrefused" in text
    for name in ("send-to-switch.ini", "key"):
        assert f"(default:{send_to_switch.config_path(name)})" in text
    assert f"(default:{send_to_switch.own_folder('state')})" in text
    helps = {one.dest: str(one.help) for one in send_to_switch.parser()._actions}
    assert helps["on_done"].endswith("(default: none)")
    assert helps["verify"].endswith("(default: no)")


def test_the_man_page_has_every_option() -> None:
    page = (ROOT / "packaging/debian/send-to-switch.1").read_text().replace("\\-", "-")
    for action in send_to_switch.parser()._actions:
        for name in action.option_strings:
            assert name in page


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


def test_it_runs_without_any_package(tmp_path: pathlib.Path) -> None:
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


def test_a_stream_of_another_kind_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    assert send_to_switch.main(["--no-such"]) == 2
    assert "--no-such" in err.getvalue()
