"""Notifications that leave the service: what is news, and how addresses get it."""

import http.server
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
from conftest import Clock, wait_for

Calls = list[tuple[str, str, str, str]]  # path, type, title, text


class Receiver(http.server.BaseHTTPRequestHandler):
    calls: Calls = []
    status = 200

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        title = self.headers.get("Title", "")
        kind = self.headers["Content-Type"]
        self.calls.append((self.path, kind, title, text))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that keeps what it is told."""
    monkeypatch.setattr(Receiver, "calls", [])
    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Queued:
    """Anna's queue, and what is told of it."""

    def __init__(self, store: catalogd.Store, address: str) -> None:
        self.store = store
        self.account = store.accounts.add("anna", "hash")
        self.notices = catalogd.Notices(store, [f"{address}/topic"])

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
def queued(store: catalogd.Store, address: str) -> Queued:
    return Queued(store, address)


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
    queued.notices = catalogd.Notices(queued.store, [address])
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


@pytest.mark.parametrize("path", ["/api/webhook/of-mine", "/services/T0/B0?x=y", ""])
def test_other_addresses_than_topics_get_json(
    queued: Queued, address: str, path: str
) -> None:
    queued.notices.addresses = [address + path]
    queued.report(queued.send("Celeste"), status="completed")
    queued.notices.send()
    [(called, kind, _, body)] = Receiver.calls
    assert (called, kind) == (path or "/", "application/json")
    text = "Celeste was sent (anna)."
    assert json.loads(body) == {"title": "catalogd: 1 completed", "text": text}


def test_a_failure_is_logged_once_without_the_secret_and_others_are_told(
    queued: Queued, address: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    queued.notices.addresses = [f"{address}/secret/topic?key=secret", f"{address}/two"]
    monkeypatch.setattr(Receiver, "status", 403)
    warnings = []
    for name in ("one", "two", "three"):
        queued.report(queued.send(name), status="completed")
        queued.notices.send()
        warnings.append(caplog.text.count("127.0.0.1 was not notified"))
    assert warnings == [2, 2, 2]
    assert len(Receiver.calls) == 6
    assert "HTTP Error 403" in caplog.text and "secret" not in caplog.text
    monkeypatch.setattr(Receiver, "status", 200)
    queued.report(queued.send("four"), status="completed")
    queued.notices.send()
    monkeypatch.setattr(Receiver, "status", 500)
    queued.report(queued.send("five"), status="completed")
    queued.notices.send()
    assert caplog.text.count("127.0.0.1 was not notified") == 4


def test_an_address_that_is_silent_is_given_up(
    queued: Queued, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        queued.notices.addresses = [f"http://127.0.0.1:{silent.getsockname()[1]}/x"]
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
    why = "[queue] notify: an address is not like https://ntfy.sh/my-topic."
    assert str(problem.value) == f"{path}: {why}"


def test_check_names_the_hosts(
    store: catalogd.Store, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = tmp_path / "catalogd.ini"
    ini.write_text("[queue]\nnotify =\n  https://ntfy.sh/secret\n  http://ha:8123/x/y")
    folder = store.database.folder
    catalogd.main(["check", "--config", str(ini), "--data-dir", folder])
    printed = capsys.readouterr().out
    assert f"ok: {ini}; folders: 0; notifies ntfy.sh, ha\n" in printed
    assert "secret" not in printed


def test_a_running_service_tells(
    queued: Queued,
    settings: catalogd.Settings,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From start to stop, with the threads that `run` starts."""
    monkeypatch.setattr(catalogd, "NOTICE_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(catalogd.signal, "signal", lambda *words: None)
    logging.getLogger("catalogd").setLevel(logging.INFO)
    settings = catalogd.dataclasses.replace(settings, notify=(f"{address}/topic",))
    scanner = catalogd.Scanner(queued.store, settings)
    web = catalogd.Web(queued.store, settings, scanner)

    class Server:
        effective_port = 1

        def run(self) -> bool:
            queued.report(queued.send("Celeste"), status="completed")
            wait_for(lambda: Receiver.calls)
            return True

    server: Any = Server()
    assert catalogd.run(server, scanner, web)
    assert Receiver.calls[0][2] == "catalogd: 1 completed"
    assert not [one for one in threading.enumerate() if one.name == "notices"]
