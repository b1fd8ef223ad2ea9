"""Over real sockets: what no friendly client sends gets one clear answer, leaves at
most one line in the log, and the server goes on."""

import contextlib
import http.client
import json
import logging
import pathlib
import re
import select
import shutil
import socket
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
from example import served

MIB = 1024 * 1024
PATIENCE = 30.0  # seconds, for a loaded machine


class Target:
    """A server, and what a test needs to know of it."""

    def __init__(self, address: str, key: str, log: pytest.LogCaptureFixture) -> None:
        parts = urllib.parse.urlsplit(address)
        self.place = (str(parts.hostname), int(parts.port or 0))
        self.key = key
        self.log = log

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=PATIENCE)

    def post(self, body: bytes, *headers: str, path: str = "/api/send-queue/progress"):
        """The bytes of a POST with a key."""
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self.key}",
            *(headers or ("Content-Type: application/json",)),
        ]
        if not any("chunked" in line for line in lines):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def answer(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        """Send all of it, and only then read: status, headers and body of the first
        answer."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_answer(connection)

    def refuses(self, request: bytes, status: int, code: str) -> dict[str, Any]:
        """The body of a refusal in our shape, after which all is well."""
        found, headers, body = self.answer(request)
        assert (found, body["error"]) == (status, code)
        assert set(body) - {"reason", "arguments"} == {"success", "error", "message"}
        assert body["success"] is False
        assert body["message"]
        assert headers["content-type"] == "application/json"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        self.goes_on()
        return dict(body)

    def goes_on(self) -> None:
        """The log has at most a line, without the key; the next call is answered."""
        assert len(self.log.text.splitlines()) <= 1, self.log.text
        assert self.key not in self.log.text
        assert not any(record.exc_info for record in self.log.records)
        head = f"GET /api/send-queue HTTP/1.1\r\nAuthorization: Bearer {self.key}\r\n"
        status, _, body = self.answer(f"{head}Host: localhost\r\n\r\n".encode())
        assert (status, body) == (200, {"success": True, "queue": []})


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, json.loads(response.read() or b"null")


@pytest.fixture
def log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[pytest.LogCaptureFixture]:
    """The log as the service writes it."""
    caplog.set_level(logging.INFO)
    caplog.handler.setFormatter(catalogd.LogFormatter())
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # as main does
    yield caplog
    assert capfd.readouterr() == ("", "")  # nothing goes around the log


@pytest.fixture(scope="module")
def common(
    tmp_path_factory: pytest.TempPathFactory, new_data: pathlib.Path
) -> Iterator[tuple[str, str]]:
    """Address and key of a server that tests share whose requests it refuses."""
    data = shutil.copytree(new_data, tmp_path_factory.mktemp("common") / "data")
    settings = catalogd.Settings(host="127.0.0.1", port=0)
    with contextlib.closing(catalogd.Store(str(data))) as store:
        account, key = store.accounts.add("anna", "hash"), catalogd.new_key()
        store.accounts.add_key(account, "switch", catalogd.hash_token(key))
        web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
        with served(web) as address:
            yield address, key


@pytest.fixture
def target(common: tuple[str, str], log: pytest.LogCaptureFixture) -> Target:
    return Target(*common, log)


@pytest.fixture
def own(
    service: catalogd.Web,
    key: str,
    serve: Callable[[catalogd.Web], str],
    log: pytest.LogCaptureFixture,
) -> Target:
    """A server for one test: what it does last may be logged after the test."""
    return Target(serve(service), key, log)


# The request line and headers


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET",
        b"get / HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET / HTTP/1.1 x",
        b"GET / HTTP/x",
        b"GET http://[ HTTP/1.1",
        b"GET nothing HTTP/1.1",
        b"GET /%ff%fe HTTP/1.1",
        b"GET /%ed%a0%80 HTTP/1.1",  # a lone surrogate
        b"CONNECT example.org:443 HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"{}",
        b"\x00\x00\x00\x08",
    ],
)
def test_a_malformed_request_line_is_refused(
    target: Target, request_line: bytes
) -> None:
    request = request_line + b"\r\nHost: localhost\r\n\r\n"
    target.refuses(request, 400, "bad_request")


@pytest.mark.parametrize(
    "header",
    [
        b"no colon",
        b": no name",
        b"Space : before",
        b"Na\x00me: x",
        b"Name: a\rb",
        b"Name: a\nb",
        b"Content-Length: -1",
        b"Content-Length: +1",
        b"Content-Length: ten",
        b"Content-Length: 1\r\nContent-Length: 2",
        b"Content-Length: " + b"9" * 5000,
    ],
)
def test_a_malformed_header_is_refused(target: Target, header: bytes) -> None:
    request = b"POST /web/login HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n"
    target.refuses(request, 400, "bad_request")


def test_a_refused_header_is_not_quoted_with_its_key(target: Target) -> None:
    head = f"GET /api/list HTTP/1.1\r\nAuthorization: Bearer {target.key}\rx\r\n\r\n"
    body = target.refuses(head.encode(), 400, "bad_request")
    assert target.key not in str(body)


@pytest.mark.parametrize(
    "padding",
    [
        b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nCookie: " + b"a" * 33_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000,
        b"a" * 4 * MIB,
    ],
    ids=["path", "one header", "many headers", "no end"],
)
def test_headers_of_more_than_32_kib_are_refused(
    target: Target, padding: bytes
) -> None:
    target.refuses(padding + b"\r\n", 431, "headers_too_large")


def test_a_transfer_encoding_that_is_unknown_is_refused(target: Target) -> None:
    request = target.post(b"", "Transfer-Encoding: gzip, chunked")
    target.refuses(request, 501, "not_implemented")


@pytest.mark.parametrize(
    "chunk",
    [
        *(b"x\r\n", b"-1\r\n", b"2;=\r\nab\r\n", b"1\r\nab\r\n"),
        *(b"1" * 2000, b"0\r\nA: " + b"b" * 5000),  # a line, and a trailer, without end
    ],
)
def test_a_malformed_chunk_is_refused(target: Target, chunk: bytes) -> None:
    request = target.post(chunk, "Transfer-Encoding: chunked")
    target.refuses(request, 400, "bad_request")


def test_a_chunked_body_in_http_1_0_is_refused(target: Target) -> None:
    kind = "Content-Type: application/json"
    request = target.post(b"", kind, "Transfer-Encoding: chunked")
    request = request.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    target.refuses(request, 400, "bad_request")


@pytest.mark.parametrize("method", ["DROP", "BREW", "PROPFIND", "CATALOGD", "X" * 5000])
def test_a_made_up_method_is_refused(target: Target, method: str) -> None:
    request = f"{method} /api/list HTTP/1.1\r\nHost: localhost\r\n\r\n"
    target.refuses(request.encode(), 405, "method_not_allowed")
    assert len(target.log.text) < 300


@pytest.mark.parametrize(
    "path",
    ["/%00", "/../../etc/passwd", "/%0d%0aX:%20y", "*", "/%"],
)
def test_a_strange_path_is_not_found(target: Target, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    target.refuses(request.encode(), 404, "not_found")


@pytest.mark.parametrize("entry", ["%00", "..", "..%2f..%2fetc%2fpasswd", "a" * 9000])
def test_a_strange_entry_is_not_found(target: Target, entry: str) -> None:
    head = f"GET /api/download/{entry} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {target.key}\r\n\r\n"
    target.refuses(head.encode(), 404, "not_found")


@pytest.mark.parametrize(
    "credentials", ["Bearer", "Bearer a b", "Bearer \xff\xfe", "Basic x", "\xff"]
)
def test_strange_credentials_are_refused(target: Target, credentials: str) -> None:
    head = "GET /api/list HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: {credentials}\r\n\r\n"
    target.refuses(head.encode("latin-1"), 401, "unauthorized")


@pytest.mark.parametrize(
    "cookie", ["session", "session=;;=", 'session="', "a/b=c", "\xff=\xff"]
)
def test_a_strange_cookie_is_none(target: Target, cookie: str) -> None:
    head = f"GET /web/changes HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
    target.refuses(head.encode("latin-1"), 403, "signed_out")


@pytest.mark.parametrize("origin", ["http://[", "null", "", "://", "\xff"])
def test_a_strange_origin_is_another_site(target: Target, origin: str) -> None:
    body = b'{"username": "anna", "password": "correct horse"}'
    kind = "Content-Type: application/json"
    request = target.post(body, kind, "Origin: ORIGIN", path="/web/login")
    request = request.replace(b"ORIGIN", origin.encode("latin-1"))
    target.refuses(request, 403, "forbidden")


# Bodies


@pytest.mark.parametrize("size", [catalogd.MAX_BODY_BYTES + 1, MIB, 8 * MIB])
def test_a_body_that_is_too_large_is_refused(target: Target, size: int) -> None:
    target.refuses(target.post(b" " * size), 413, "too_large")


@pytest.mark.parametrize("size", [catalogd.MAX_BODY_BYTES + 1, MIB, 8 * MIB])
def test_a_chunked_body_that_is_too_large_is_refused(target: Target, size: int) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size)
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    target.refuses(target.post(chunks, *headers), 413, "too_large")


def test_a_client_that_asks_before_it_sends_too_much_is_told_at_once(
    target: Target,
) -> None:
    request = target.post(b"", "Expect: 100-continue")
    request = request.replace(b"Length: 0", b"Length: 99999999")
    target.refuses(request, 413, "too_large")


def test_a_client_that_asks_before_it_sends_nothing_is_answered(
    target: Target,
) -> None:
    kind = "Content-Type: application/json"
    request = target.post(b"", kind, "Expect: 100-continue")
    target.refuses(request, 400, "bad_request")


def test_a_client_that_does_not_stop_sending_is_cut_off(
    own: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_DRAIN_SECONDS", 0.5)
    with own.connect() as connection, pytest.raises(OSError):
        connection.settimeout(5)  # with a full window it may not be told of the end
        connection.sendall(b"\x00\r\n\r\n")
        while True:
            connection.sendall(b"x" * MIB)
    own.goes_on()


@pytest.mark.parametrize(
    "body",
    [b"", b'{"queue_item_id": "\xff"}', b"[" * 60_000, b"[]"],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_no_json_object_is_refused(target: Target, body: bytes) -> None:
    message = target.refuses(target.post(body), 400, "bad_request")["message"]
    assert message.startswith("The body is not ")


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/x-www-form-urlencoded", "application/jsonp"),
        *("multipart/form-data; boundary=x", "", "\xff", None),
    ],
)
def test_a_body_of_another_type_or_of_none_is_refused(
    target: Target, kind: str | None
) -> None:
    header = "Accept: */*" if kind is None else "Content-Type: KIND"
    request = target.post(b"{}", header)
    request = request.replace(b"KIND", (kind or "").encode("latin-1"))
    target.refuses(request, 415, "unsupported_media_type")


# Connections


def test_a_client_that_half_closes_its_socket_does_no_harm(own: Target) -> None:
    whole = b"GET /web/me HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for request in (b"", b"GET / HT", whole, b"\x00\r\n\r\n"):
        with own.connect() as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            read_all(connection)
    own.goes_on()


def read_all(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_client_that_goes_in_the_middle_of_a_body_does_no_harm(
    own: Target,
) -> None:
    with own.connect() as connection:
        connection.sendall(own.post(b"{" * 5000)[:-1000])
    own.goes_on()


def test_clients_that_wait_in_the_middle_of_a_request_hold_nobody_up(
    own: Target,
) -> None:
    halves = (b"", b"GET /api/list HTTP/1.1\r\nHost:", own.post(b"{}")[:-1])
    waiting = [own.connect() for _ in range(10) for _ in halves]
    for number, connection in enumerate(waiting):
        connection.sendall(halves[number % len(halves)])
    own.goes_on()
    assert select.select(waiting, [], [], 0)[0] == []  # they wait still
    for connection in waiting:
        connection.close()


def test_the_rest_of_a_request_that_comes_late_is_taken(own: Target) -> None:
    request = own.post(b'{"queue_item_id": "x"}')
    with own.connect() as connection:
        for place in range(0, len(request), 20):
            connection.sendall(request[place : place + 20])
        status, _, body = read_answer(connection)
    assert (status, body["error"]) == (404, "not_found")


def test_garbage_after_a_request_does_not_spoil_its_answer(own: Target) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with own.connect() as connection:
        connection.sendall(request + b"\x00\x01 garbage\r\n\r\n" + b"more" * MIB)
        answers = read_all(connection)
    assert re.findall(rb"HTTP/1\.\d (\d+)", answers) == [b"200", b"400"]
    own.goes_on()


# Keys


@pytest.mark.parametrize(
    "path",
    [
        "/api/list?api_key=KEY",
        "/api/list?api_key=KEYx",
        "/api/list%3Fapi_key=KEY",
        "/api/download/KEY",
        "/KEY",
        "/api/download/x?api_key=KEY",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DROP"])
def test_a_key_never_reaches_the_log(target: Target, path: str, method: str) -> None:
    place = path.replace("KEY", target.key)
    target.answer(f"{method} {place} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    target.goes_on()


def test_a_key_never_reaches_the_log_when_a_call_fails(
    own: Target, service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("the catalog is on fire")

    monkeypatch.setattr(service.store.entries, "version", fail)
    head = f"GET /api/list?api_key={own.key} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    status, _, body = own.answer(head.encode())
    assert (status, body["error"]) == (500, "internal_error")
    assert "fire" not in str(body)
    assert "on fire" in own.log.text
    assert own.key not in own.log.text
