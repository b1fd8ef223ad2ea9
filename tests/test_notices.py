"""Notifications that leave the service: what is news, and how addresses get it."""

import contextlib
import http.server
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
from conftest import Clock, add_folder, free_port, wait_for

Calls = list[tuple[str, str, str, str]]  # path, type, title, text


class Receiver(http.server.BaseHTTPRequestHandler):
    calls: Calls = []
    status = 200
    answer = b""

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        title = self.headers.get("Title", "")
        kind = self.headers["Content-Type"]
        self.calls.append((self.path, kind, title, text))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *words: Any) -> None:
        pass


@contextlib.contextmanager
def receiving() -> Iterator[str]:
    """Yield the address of a server that keeps what it is told."""
    Receiver.calls = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take seconds for an answer."""
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 60)


@pytest.fixture
def address() -> Iterator[str]:
    with receiving() as address:
        yield address


class Queued:
    """Anna's queue, and what is told of it."""

    def __init__(self, web: catalogd.Web, address: str) -> None:
        self.web = web
        self.store = web.store
        self.account = self.store.accounts.add("anna", "hash")
        self.notices = self.notices_to(f"{address}/topic")

    def notices_to(self, *addresses: str) -> catalogd.Notices:
        return catalogd.Notices(self.store, addresses, self.web.health)

    def send(self, name: str) -> str:
        """Queue a new entry; the item's id."""
        facts = {"name": name, "description": "", "version": ""}
        url = f"http://host/{name}"
        entry = self.store.entries.add_link(url, 7, "nsp", facts, "anna")
        assert self.store.queue.send(self.account, entry)
        return str(self.store.queue.items(self.account)[-1]["id"])

    def report(self, item: str, **fields: Any) -> None:
        self.store.clients.report(self.account, item, {"key": None, **fields})

    def told(self) -> list[tuple[str, str]]:
        """Title and text of what was told now."""
        before = len(Receiver.calls)
        self.notices.send()
        return [(title, text) for _, _, title, text in Receiver.calls[before:]]


@pytest.fixture
def queued(service: catalogd.Web, address: str) -> Queued:
    return Queued(service, address)


def test_what_was_sent_or_has_failed_is_told_once(queued: Queued) -> None:
    assert queued.told() == []
    first, second = queued.send("Celeste"), queued.send("Hades")
    queued.report(first, status="processing")
    assert queued.told() == []
    queued.report(first, status="completed")
    queued.report(second, status="failed", error_message="The card is full.")
    sent = "Celeste was sent (anna)."
    failed = "Hades has failed (anna): The card is full."
    title = "catalogd: 1 completed, 1 failed"
    assert queued.told() == [(title, f"{sent}\n{failed}")]
    queued.report(first, status="completed")
    assert queued.told() == []


def test_an_item_that_fails_again_is_told_again(queued: Queued, clock: Clock) -> None:
    item = queued.send("Celeste")
    for _ in range(2):
        queued.report(item, status="failed", error_message="No card.")
        message = "Celeste has failed (anna): No card."
        assert queued.told() == [("catalogd: 1 failed", message)]
        queued.store.queue.retry(queued.account, item)
        clock.now += 5


def test_what_ended_before_the_start_is_no_news(queued: Queued, address: str) -> None:
    queued.report(queued.send("Celeste"), status="completed")
    queued.notices = queued.notices_to(address)
    assert queued.told() == []


def test_an_item_that_waits_for_an_hour_is_told_once(
    queued: Queued, clock: Clock
) -> None:
    queued.send("Celeste")
    clock.now += 3599
    assert queued.told() == []
    clock.now += 2
    message = "Celeste has waited an hour for a device (anna)."
    assert queued.told() == [("catalogd: 1 waiting", message)]
    for _ in range(300):
        clock.now += 5
        assert queued.told() == []


def test_an_item_that_is_sent_does_not_wait(queued: Queued, clock: Clock) -> None:
    item = queued.send("Celeste")
    for _ in range(3):
        clock.now += 1790
        queued.report(item, status="processing")
        assert queued.told() == []
    clock.now += 3601  # its client has died
    assert [title for title, _ in queued.told()] == ["catalogd: 1 waiting"]


def test_what_waits_for_a_paused_device_is_no_news(
    queued: Queued, clock: Clock
) -> None:
    store, item = queued.store, queued.send("Celeste")
    device = store.accounts.add_key(queued.account, "attic", b"1", is_device=True)
    store.devices.move(queued.account, item, device, admin=False)
    store.devices.change(device, {"paused": True}, by="anna")
    for _ in range(3):
        clock.now += 3599
        assert queued.told() == []


def test_many_items_are_one_message(queued: Queued) -> None:
    for number in range(12):
        queued.report(queued.send(f"Game {number}"), status="completed")
    [(title, text)] = queued.told()
    assert title == "catalogd: 12 completed"
    assert text.splitlines()[9:] == ["Game 9 was sent (anna).", "and 2 more"]


def test_a_long_error_is_cut_and_a_key_in_it_is_hidden(queued: Queued) -> None:
    error = f"{catalogd.new_key()}\n" + "x" * 10_000
    queued.report(queued.send("Celeste"), status="failed", error_message=error)
    [(_, text)] = queued.told()
    assert "catalogd_...\\nxxx" in text and len(text) < 300


def test_a_message_fits_into_those_of_discord_and_ntfy(queued: Queued) -> None:
    for number in range(12):
        item = queued.send(str(number) + "\u6e38" * 200)
        queued.report(item, status="failed", error_message="x" * 200)
    [(_, text)] = queued.told()
    assert 1700 < len(text.encode()) <= 1800


# The forms


TITLE, TEXT = "catalogd: 1 completed", "Celeste was sent (anna)."
JSON = {"title": TITLE, "text": TEXT}
GOTIFY = {"title": TITLE, "message": TEXT}
DISCORD = {"content": f"**{TITLE}**\n{TEXT}", "allowed_mentions": {"parse": []}}


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("http://HOST/message?token=AbC", GOTIFY),
        ("http://HOST/gotify/message?x=1&token=AbC", GOTIFY),
        ("gotify+http://HOST/push?token=AbC", GOTIFY),
        ("discord+http://HOST/api/webhooks/1/secret", DISCORD),
        ("http://HOST/api/webhook/of-mine", JSON),
        ("http://HOST/services/T0/B0?x=y", JSON),
        ("http://HOST", JSON),
        ("json+http://HOST/topic", JSON),
    ],
)
def test_other_addresses_than_topics_get_json_of_their_form(
    queued: Queued, address: str, url: str, fields: Any
) -> None:
    queued.notices = queued.notices_to(
        url.replace("HOST", address.removeprefix("http://"))
    )
    queued.report(queued.send("Celeste"), status="completed")
    queued.notices.send()
    [(called, kind, _, body)] = Receiver.calls
    path = url.partition("HOST")[2] or "/"
    assert (called, kind) == (path, "application/json")
    assert json.loads(body) == fields


@pytest.mark.parametrize("path", ["topic", "topic?auth=x", "my_Topic-1/"])
def test_a_topic_of_ntfy_gets_the_text_and_the_title_in_a_header(
    queued: Queued, address: str, path: str
) -> None:
    below = f"ntfy+{address}/ntfy/{path}"
    queued.notices = queued.notices_to(f"{address}/{path}", below)
    queued.report(queued.send("Celeste"), status="completed")
    queued.notices.send()
    calls = [(called, *rest) for called, *rest in Receiver.calls]
    told = ("text/plain", TITLE, TEXT)
    assert sorted(calls) == sorted([(f"/{path}", *told), (f"/ntfy/{path}", *told)])


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("https://discord.com/api/webhooks/1/abc", "discord"),
        ("https://ptb.discord.com/api/webhooks/1/abc?wait=true", "discord"),
        ("https://discordapp.com/api/v10/webhooks/1/abc", "discord"),
        ("https://discord.example.org/api/webhooks/1/abc", "json"),
        ("https://ntfy.sh/message", "ntfy"),
        ("https://push.example.org/message?token=abc", "gotify"),
    ],
)
def test_an_address_tells_its_form(address: str, form: str) -> None:
    assert catalogd.notice_form(address) == (form, address)


# What addresses answer


def test_a_failure_is_logged_once_without_the_secret_and_others_are_told(
    queued: Queued, address: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    queued.notices = queued.notices_to(
        f"{address}/secret/topic?key=se%63ret&x=secret2", f"{address}/two"
    )
    monkeypatch.setattr(Receiver, "status", 403)
    answer = b"No key secret for secret2 in /secret/topic?key=se%63ret,\n try two."
    monkeypatch.setattr(Receiver, "answer", answer)
    warnings = []
    for name in ("one", "two", "three"):
        queued.report(queued.send(name), status="completed")
        queued.notices.send()
        warnings.append(caplog.text.count("127.0.0.1 was not notified"))
    assert warnings == [2, 2, 2]
    assert len(Receiver.calls) == 6
    assert "not notified: 403 Forbidden." in caplog.text
    assert "secret" not in caplog.text
    caplog.clear()
    monkeypatch.setattr(Receiver, "status", 204)
    monkeypatch.setattr(Receiver, "answer", b"")
    queued.report(queued.send("four"), status="completed")
    queued.notices.send()
    assert caplog.text == ""
    monkeypatch.setattr(Receiver, "status", 500)
    queued.report(queued.send("five"), status="completed")
    queued.notices.send()
    assert caplog.text.count("127.0.0.1 was not notified: 500") == 2


def test_no_redirect_is_followed(
    queued: Queued, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Receiver, "status", 307)
    queued.report(queued.send("Celeste"), status="completed")
    queued.notices.send()
    assert [path for path, *_ in Receiver.calls] == ["/topic"]
    assert "127.0.0.1 was not notified: 307" in caplog.text


@pytest.fixture
def trickling() -> Iterator[str]:
    """The address of a server that sends a byte of its answer now and then. After some
    minutes it is at its end."""
    over = threading.Event()

    def trickle(listener: socket.socket) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), listener.accept()[0] as client:
                calls.append(1)
                for _ in range(10_000):
                    if over.wait(0.02):
                        break
                    client.sendall(b"H")

    calls: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        over.set()
        socket.create_connection(listener.getsockname()).close()
        thread.join()
    assert len(calls) <= 2  # with the last one: none while an answer is owed


def test_a_slow_address_keeps_no_other_waiting_and_has_one_deadline(
    queued: Queued,
    address: str,
    trickling: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 1)
    queued.notices = queued.notices_to(trickling, f"{address}/topic")
    for name in ("one", "two"):
        queued.report(queued.send(name), status="completed")
        queued.notices.send()
    assert [text for *_, text in Receiver.calls] == [
        "one was sent (anna).",
        "two was sent (anna).",
    ]
    assert caplog.text.count("127.0.0.1 was not notified: timed out.") == 1


def test_an_address_that_is_silent_is_given_up(
    queued: Queued, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        queued.notices = queued.notices_to(f"http://127.0.0.1:{port}/x")
        queued.report(queued.send("Celeste"), status="completed")
        queued.notices.send()
    assert "127.0.0.1 was not notified: timed out." in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "ntfy.sh/my-topic",
        "https://ntfy.sh/mein-gerät",
        "https://anna:secret@ntfy.sh/my-topic",
        "https://ntfy.sh/a\nftp://host/b",
        "pager+https://ntfy.sh/my-topic",
        "ntfy+ftp://ntfy.sh/my-topic",
    ],
)
def test_a_mistyped_address_is_named_by_its_option_without_the_secret(
    text: str, tmp_path: Any
) -> None:
    path = tmp_path / "catalogd.ini"
    lines = text.replace("\n", "\n    ")
    path.write_text(f"[queue]\nnotify = {lines}\n", encoding="utf-8")
    with pytest.raises(catalogd.BadSetting) as problem:
        catalogd.Settings.read(str(path))
    number = 2 if "\n" in text else 1
    why = "is not like https://ntfy.sh/my-topic"
    if "@" in text:
        why = "has a user or a password, which are not taken"
    assert str(problem.value) == f"{path}: [queue] notify: address {number} {why}."


def test_a_test_message_tells_what_each_address_answered(
    address: str,
    tmp_path: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ini = tmp_path / "catalogd.ini"
    ini.write_text(f"[queue]\nnotify =\n  {address}/secret\n  json+{address}/y")
    command = ["notify", "--test", "--config", str(ini)]
    monkeypatch.setattr(Receiver, "answer", b'{"id": "1"}')
    assert catalogd.main(command) == 0
    told = "127.0.0.1 (ntfy): 200 OK\n127.0.0.1 (json): 200 OK\n"
    assert capsys.readouterr().out == told
    assert len(Receiver.calls) == 2
    monkeypatch.setattr(Receiver, "status", 404)
    monkeypatch.setattr(Receiver, "answer", b"no topic secret")
    assert catalogd.main(command) == 1
    assert "(ntfy): 404 Not Found\n" in capsys.readouterr().out
    ini.write_text("")
    assert catalogd.main(command) == 2
    told = f"catalogd: {ini}: [queue] notify has no addresses.\n"
    assert capsys.readouterr().err == told
    assert catalogd.main(["notify"]) == 2


def test_an_address_without_a_server_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    ini = tmp_path / "catalogd.ini"
    ini.write_text(f"[queue]\nnotify = https://127.0.0.1:{free_port()}/topic")
    assert catalogd.main(["notify", "--test", "--config", str(ini)]) == 1
    assert "127.0.0.1 (ntfy): " in (printed := capsys.readouterr().out)
    assert "refused" in printed


# Health


def test_a_fault_is_told_once_when_it_begins_and_once_when_it_ends(
    queued: Queued,
) -> None:
    state, backups = queued.web.scanner.state, queued.web.backups
    add_folder(queued.web.scanner, "/usb")
    told = []
    for problem in ("", "/usb is offline.", "/usb does not answer.", ""):
        state.folders["/usb"]["problem"] = problem
        for _ in range(2):
            told += queued.told()
    assert told == [
        ("catalogd: 1 problem", "/usb is offline."),
        ("catalogd: 1 solved", "Solved: /usb does not answer."),
    ]
    backups.problem = "The disk is full."
    state.problem = "Busy."
    queued.report(queued.send("Celeste"), status="completed")
    lines = [
        "The last scan failed: Busy.",
        "No backup was made: The disk is full.",
        TEXT,
    ]
    told = queued.told()
    assert told == [("catalogd: 2 problems, 1 completed", "\n".join(lines))]


def test_a_database_that_fails_is_told(
    queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=catalogd.Damaged("The database cannot be used: malformed."))
    for name in ("rows", "data_version"):
        monkeypatch.setattr(catalogd.Database, name, fail)
    told = "The database cannot be used: malformed."
    assert queued.told() == [("catalogd: 1 problem", told)]
    assert queued.told() == []
    monkeypatch.undo()
    assert queued.told() == [("catalogd: 1 solved", f"Solved: {told}")]


def test_a_running_service_tells(
    queued: Queued,
    settings: catalogd.Settings,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From start to stop, with the threads that `run` starts."""
    monkeypatch.setattr(catalogd, "NOTICE_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(catalogd, "MAX_SCAN_STOP_SECONDS", 30)
    monkeypatch.setattr(catalogd.signal, "signal", lambda *words: None)
    logging.getLogger("catalogd").setLevel(logging.INFO)
    settings = catalogd.dataclasses.replace(settings, notify=(f"{address}/topic",))
    scanner = catalogd.Scanner(queued.store, settings)
    web = catalogd.Web(queued.store, settings, scanner)

    class Server:
        effective_port = shown_port = 1

        def run(self) -> bool:
            queued.report(queued.send("Celeste"), status="completed")
            wait_for(lambda: Receiver.calls)
            return True

    server: Any = Server()
    assert catalogd.run(server, scanner, web)
    assert Receiver.calls[0][2] == "catalogd: 1 completed"
    assert not [one for one in threading.enumerate() if one.name == "notices"]
