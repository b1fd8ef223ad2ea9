"""The calls of clients that others wrote, to a real server with `sources = url`; and
the client, with a server that has the documented calls alone."""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import send_to_switch
from conftest import PASSWORD, Clock, Library
from consoles import Origin, Request
from example import by_age

GAME = os.urandom(2_000_000)
BLOCK = 64 * 1024


@pytest.fixture
def settings(settings: catalogd.Settings) -> catalogd.Settings:
    return dataclasses.replace(settings, sources="url")


class Client:
    """A client that logs in with name and password, and works on `queue[0]`."""

    key = ""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        body = {"username": "anna", "password": PASSWORD}
        status, answer = self.post("/api/auth/login", body)
        assert (status, answer["success"]) == (200, True)
        self.key = answer["api_key"]

    def headers(self) -> dict[str, str]:
        headers = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers

    def ask(
        self, method: str, url: str, body: str | None = None, **headers: str
    ) -> tuple[int, Any, bytes]:
        """Return status, headers and body of the answer."""
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        headers = {**self.headers(), **headers}
        with contextlib.closing(connection):
            connection.request(method, parts.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of the answer."""
        kind = {"Content-Type": "application/json"}
        url = f"{self.base_url}{path}"
        status, _, answer = self.ask("POST", url, json.dumps(body), **kind)
        return status, json.loads(answer)

    def first(self) -> dict[str, Any]:
        status, _, body = self.ask("GET", f"{self.base_url}/api/send-queue")
        answer = json.loads(body)
        assert (status, answer["success"]) == (200, True)
        return dict(answer["queue"][0])

    def report(self, item: dict[str, Any], **fields: Any) -> tuple[int, dict[str, Any]]:
        body = {"queue_item_id": item["queue_item_id"], **fields}
        return self.post("/api/send-queue/progress", body)

    def claim(self) -> dict[str, Any]:
        item = self.first()
        start = {"progress_percent": 0, "bytes_transferred": 0}
        assert self.report(item, status="processing", **start)[0] == 200
        return item


@pytest.fixture
def client(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    library: Library,
    scanner: catalogd.Scanner,
    key: str,
) -> Client:
    """A client with one file in its queue."""
    library.add("Café & more [0100AAAABBBB0000][v0].nsp", GAME)
    scanner.scan()
    entry = json.loads(scanner.store.entries.list_json(catalogd.EVERYTHING))[0]["id"]
    scanner.store.queue.send(scanner.store.accounts.id_of("anna"), entry)
    return Client(serve(service))


def test_a_transfer_over_ftp_is_a_head_and_one_get(
    client: Client, store: catalogd.Store, clock: Clock
) -> None:
    item = client.claim()
    status, headers, _ = client.ask("HEAD", item["entry_source"])
    assert (status, headers["Content-Length"]) == (200, str(len(GAME)))
    status, headers, body = client.ask("GET", item["entry_source"])
    assert (status, body) == (200, GAME)
    assert "Content-Encoding" not in headers
    half = {"progress_percent": 50, "bytes_transferred": len(GAME) // 2}
    clock.now += 2
    assert client.report(item, **half, transfer_speed=35.891)[0] == 200
    row = store.queue.items(store.accounts.id_of("anna"))[0]
    assert (row["status"], row["percent"]) == ("processing", 50)
    assert row["speed"] == len(GAME) // 4
    done = {"progress_percent": 100, "bytes_transferred": len(GAME) + 4096}
    assert client.report(item, status="completed", **done)[1]["success"] is True
    assert store.queue.items(store.accounts.id_of("anna"))[0]["status"] == "completed"


def test_no_two_entries_have_one_file_name_and_the_older_keeps_it(
    client: Client, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    anna = store.accounts.id_of("anna")
    store.queue.cancel_waiting(anna)
    entries = []
    for number, folder in enumerate("abc"):
        library.add(f"{folder}/{'gG'[number % 2]}ame: é.nsp", b"x" * (number + 1))
        scanner.scan()
        entries.append(by_age(store)[-1]["id"])
        store.queue.send(anna, entries[-1])

    def names() -> list[str]:
        _, _, body = client.ask("GET", f"{client.base_url}/api/send-queue")
        return [item["entry_name"] for item in json.loads(body)["queue"]]

    def downloaded(entry: str) -> str:
        url = f"{client.base_url}/api/download/{entry}"
        sent = client.ask("HEAD", url)[1]["Content-Disposition"]
        return urllib.parse.unquote(sent.partition("UTF-8''")[2])

    first, second, third = entries
    marked = [f"Game_ é ({second}).nsp", f"game_ é ({third}).nsp"]
    assert names() == ["game_ é.nsp", *marked]
    assert [downloaded(entry) for entry in entries] == ["game: é.nsp", *marked]
    (library.folder / "a" / "game: é.nsp").unlink()
    scanner.scan()
    assert names() == marked


def ranges(client: Client, item: dict[str, Any]) -> Iterator[bytes]:
    """Yield the blocks of a file: one range each, all over one connection."""
    parts = urllib.parse.urlsplit(item["entry_source"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    with contextlib.closing(connection):
        connection.connect()
        sock = connection.sock
        for start in range(0, item["entry_size"], BLOCK):
            stop = min(start + BLOCK, item["entry_size"])
            headers = {**client.headers(), "Range": f"bytes={start}-{stop - 1}"}
            connection.request("GET", parts.path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 206
            yield answer.read()
            assert connection.sock is sock


def test_a_transfer_over_usb_is_a_head_and_a_range_for_each_block(
    client: Client, store: catalogd.Store
) -> None:
    item = client.claim()
    status, headers, _ = client.ask("HEAD", item["entry_source"])
    assert (status, headers["Content-Length"]) == (200, str(len(GAME)))
    assert b"".join(ranges(client, item)) == GAME
    body = {"queue_item_id": item["queue_item_id"], "status": "completed"}
    status, answer = client.post("/api/send-queue/update", body)
    assert (status, answer["success"]) == (200, True)
    assert store.queue.items(store.accounts.id_of("anna"))[0]["status"] == "completed"


def test_a_link_does_not_get_the_key_of_a_client(
    client: Client, store: catalogd.Store
) -> None:
    """A client sends its key to `entry_source`, and drops it on a redirect."""
    facts = {"name": "Far", "description": "", "version": ""}
    far = "https://example.org/far.nsp"
    entry = store.entries.add_link(far, 7, "nsp", facts, by="anna")
    store.queue.send(store.accounts.id_of("anna"), entry)
    assert client.report(client.claim(), status="completed")[0] == 200
    item = client.claim()
    assert (item["entry_name"], item["entry_size"]) == ("Far.nsp", 7)
    assert item["entry_source"].startswith(f"{client.base_url}/api/download/")
    status, headers, _ = client.ask("HEAD", item["entry_source"])
    assert (status, headers["Location"]) == (302, far)


class Documented:
    """A server with one item, without ETags, ranges and calls of its own."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.origin = Origin(lambda request: self.answer(request))

    def answer(self, request: Request) -> None:
        path = urllib.parse.urlsplit(request.path).path
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if request.headers["Authorization"] != "Bearer key":
            self.reply(request, 401, success=False)
        elif path == "/api/send-queue":
            is_pending = not self.reports
            self.reply(request, 200, success=True, queue=[ITEM] * is_pending)
        elif path == "/api/send-queue/progress":
            self.reports.append(json.loads(body))
            self.reply(request, 200, success=True, message="")
        elif path == "/api/download/7":
            request.reply(200, GAME)
        else:
            self.reply(request, 404, success=False)

    def reply(self, request: Request, status: int, **body: Any) -> None:
        request.reply(status, json.dumps(body).encode())


ITEM = {
    **{"queue_item_id": "1", "entry_id": "7", "entry_name": "Game.nsp"},
    **{"entry_source": "/games/Game.nsp", "entry_size": len(GAME)},
    **{"status": "pending", "created_at": "2026-11-21T12:00:00"},
}


def test_the_client_sends_from_a_server_with_the_documented_calls_alone(
    card: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEND_TO_SWITCH_KEY", "key")
    monkeypatch.setattr("signal.signal", lambda number, does: None)
    server = Documented()
    with contextlib.closing(server.origin):
        words = ["--server", server.origin.url, "--state", str(tmp_path / "state")]
        (tmp_path / "none.ini").touch()
        words += ["--config", str(tmp_path / "none.ini"), "--to", f"folder:{card}"]
        assert send_to_switch.main([*words, "--once"]) == 0
    assert (card / "Game.nsp").read_bytes() == GAME
    states = [report["status"] for report in server.reports if "status" in report]
    assert states == ["processing", "completed"]
