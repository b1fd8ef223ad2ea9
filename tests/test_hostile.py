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
from unittest.mock import Mock

import pytest

import catalogd
from example import served

MIB = 1024 * 1024
PATIENCE = 30.0  # seconds, for a loaded machine


BEARER = "Authorization: Bearer KEY"
JSON, CHUNKED = "Content-Type: application/json", "Transfer-Encoding: chunked"
PROGRESS = "/api/send-queue/progress"


def head(line: str, *headers: str) -> bytes:
    """The bytes of a request without a body. KEY stands for a key."""
    lines = [line, "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(body: bytes, *headers: str, path: str = PROGRESS) -> bytes:
    """The bytes of a POST with a key, of JSON unless it has other headers."""
    given = [BEARER, *(headers or (JSON,))]
    if not any("chunked" in header for header in given):
        given.append(f"Content-Length: {len(body)}")
    return head(f"POST {path} HTTP/1.1", *given) + body


class Target:
    """A server, and what a test needs to know of it."""

    def __init__(self, address: str, key: str, log: pytest.LogCaptureFixture) -> None:
        parts = urllib.parse.urlsplit(address)
        self.place = (str(parts.hostname), int(parts.port or 0))
        self.key = key
        self.log = log

    def with_key(self, request: bytes) -> bytes:
        return request.replace(b"KEY", self.key.encode(), 1)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=PATIENCE)

    def answer(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        """Send all of it, with the key for KEY, and only then read: status, headers and
        body of the first answer."""
        with self.connect() as connection:
            connection.sendall(self.with_key(request))
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
        status, _, body = self.answer(head("GET /api/send-queue HTTP/1.1", BEARER))
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


LINES = [
    *(b"GET", b"get / HTTP/1.1", b"GET  / HTTP/1.1", b"GET /a b HTTP/1.1", b"{}"),
    *(b"GET / HTTP/1.1 x", b"GET / HTTP/x", b"GET http://[ HTTP/1.1"),
    *(b"GET nothing HTTP/1.1", b"GET /%ff%fe HTTP/1.1"),
    b"GET /%ed%a0%80 HTTP/1.1",  # a lone surrogate
    *(b"CONNECT example.org:443 HTTP/1.1", b"\x00\x00\x00\x08"),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
]
HEADERS = [
    *("no colon", ": no name", "Space : before", "Na\x00me: x", "Name: a\rb"),
    *("Name: a\nb", "Content-Length: -1", "Content-Length: +1", "Content-Length: ten"),
    *("Content-Length: 1\r\nContent-Length: 2", f"Content-Length: {'9' * 5000}"),
]
CHUNKS = [
    *(b"x\r\n", b"-1\r\n", b"2;=\r\nab\r\n", b"1\r\nab\r\n"),
    *(b"1" * 2000, b"0\r\nA: " + b"b" * 5000),  # a line, and a trailer, without end
]
PATHS = ["/%00", "/../../etc/passwd", "/%0d%0aX:%20y", "*", "/%"]
ENTRIES = ["%00", "..", "..%2f..%2fetc%2fpasswd", "a" * 9000]
CREDENTIALS = ["Bearer", "Bearer a b", "Bearer \xff\xfe", "Basic x", "\xff"]
COOKIES = ["session", "session=;;=", 'session="', "a/b=c", "\xff=\xff"]
ORIGINS = ["http://[", "null", "", "://", "\xff"]
LOGIN = b'{"username": "anna", "password": "correct horse"}'
TYPES = ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"]
TYPES += ["multipart/form-data; boundary=x", "", "\xff"]
ASKS = "Expect: 100-continue"  # before it sends a body
REFUSED: dict[tuple[int, str], list[bytes]] = {
    (400, "bad_request"): [
        *(line + b"\r\nHost: localhost\r\n\r\n" for line in LINES),
        *(head("POST /web/login HTTP/1.1", header) for header in HEADERS),
        *(post(chunk, CHUNKED) for chunk in CHUNKS),
        post(b"", JSON, CHUNKED).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
        post(b"", JSON, ASKS),
    ],
    (401, "unauthorized"): [
        head("GET /api/list HTTP/1.1", f"Authorization: {it}") for it in CREDENTIALS
    ],
    (403, "signed_out"): [
        head("GET /web/changes HTTP/1.1", f"Cookie: {cookie}") for cookie in COOKIES
    ],
    (403, "forbidden"): [
        post(LOGIN, JSON, f"Origin: {origin}", path="/web/login") for origin in ORIGINS
    ],
    (404, "not_found"): [
        *(head(f"GET {path} HTTP/1.1") for path in PATHS),
        *(head(f"GET /api/download/{it} HTTP/1.1", BEARER) for it in ENTRIES),
    ],
    (413, "too_large"): [post(b"", ASKS).replace(b"Length: 0", b"Length: 99999999")],
    (415, "unsupported_media_type"): [
        *(post(b"{}", f"Content-Type: {kind}") for kind in TYPES),
        post(b"{}", "Accept: */*"),
    ],
    (501, "not_implemented"): [post(b"", "Transfer-Encoding: gzip, chunked")],
}


@pytest.mark.parametrize(
    ("status", "code", "request_"),
    [(*why, request) for why, requests in REFUSED.items() for request in requests],
    ids=lambda value: repr(value)[:60],
)
def test_a_request_is_refused_by_the_table(
    target: Target, status: int, code: str, request_: bytes
) -> None:
    target.refuses(request_, status, code)


def test_a_refused_header_is_not_quoted_with_its_key(target: Target) -> None:
    request = head("GET /api/list HTTP/1.1", f"{BEARER}\rx")
    body = target.refuses(request, 400, "bad_request")
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


@pytest.mark.parametrize("method", ["DROP", "BREW", "PROPFIND", "CATALOGD", "X" * 5000])
def test_a_made_up_method_is_refused(target: Target, method: str) -> None:
    target.refuses(head(f"{method} /api/list HTTP/1.1"), 405, "method_not_allowed")
    assert len(target.log.text) < 300


# Bodies


@pytest.mark.parametrize("size", [catalogd.MAX_BODY_BYTES + 1, MIB, 8 * MIB])
def test_a_body_that_is_too_large_is_refused(target: Target, size: int) -> None:
    target.refuses(post(b" " * size), 413, "too_large")


@pytest.mark.parametrize("size", [catalogd.MAX_BODY_BYTES + 1, MIB, 8 * MIB])
def test_a_chunked_body_that_is_too_large_is_refused(target: Target, size: int) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size)
    target.refuses(post(chunks, JSON, CHUNKED), 413, "too_large")


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
    message = target.refuses(post(body), 400, "bad_request")["message"]
    assert message.startswith("The body is not ")


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


def test_a_client_that_goes_in_the_middle_of_a_body_does_no_harm(own: Target) -> None:
    with own.connect() as connection:
        connection.sendall(own.with_key(post(b"{" * 5000))[:-1000])
    own.goes_on()


def test_clients_that_wait_in_the_middle_of_a_request_hold_nobody_up(
    own: Target,
) -> None:
    halves = (b"", b"GET /api/list HTTP/1.1\r\nHost:", own.with_key(post(b"{}"))[:-1])
    waiting = [own.connect() for _ in range(10) for _ in halves]
    for number, connection in enumerate(waiting):
        connection.sendall(halves[number % len(halves)])
    own.goes_on()
    assert select.select(waiting, [], [], 0)[0] == []  # they wait still
    for connection in waiting:
        connection.close()


def test_the_rest_of_a_request_that_comes_late_is_taken(own: Target) -> None:
    request = own.with_key(post(b'{"queue_item_id": "x"}'))
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
    target.answer(head(f"{method} {path} HTTP/1.1"))
    target.goes_on()


def test_a_key_never_reaches_the_log_when_a_call_fails(
    own: Target, service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=RuntimeError("the catalog is on fire"))
    monkeypatch.setattr(service.store.entries, "list_version", fail)
    status, _, body = own.answer(head("GET /api/list?api_key=KEY HTTP/1.1"))
    assert (status, body["error"]) == (500, "internal_error")
    assert "fire" not in str(body)
    assert "on fire" in own.log.text
    assert own.key not in own.log.text
