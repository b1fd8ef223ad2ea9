"""Downloads by RFC 9110 and RFC 6266, over real sockets; and the list."""

import contextlib
import dataclasses
import email.utils
import errno
import functools
import gzip
import hashlib
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import struct
import sys
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable
from unittest.mock import Mock

import bottle
import pytest
import waitress.buffers

import catalogd
from conftest import LONG_AGO, Games, Library, cost, wait_for

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)
ETAG = f'"{LONG_AGO * 10**9:x}-{SIZE:x}"'
MODIFIED = "Sun, 13 Sep 2020 12:26:40 GMT"
EARLIER = "Sun, 13 Sep 2020 12:26:39 GMT"
LATER = "Sun, 13 Sep 2020 12:26:41 GMT"


# What goes with a file


def test_a_file_comes_whole_with_its_validators(games: Games) -> None:
    answer = games.ask(games.add("a.nsp", CONTENT))
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == str(SIZE)
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["ETag"] == ETAG
    assert answer.headers["Last-Modified"] == MODIFIED
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_head_has_the_headers_of_get_and_no_body(games: Games) -> None:
    path = games.add("a.nsp", CONTENT)
    get, head = games.ask(path), games.ask(path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    for answer in (get, head):
        del answer.headers["Date"], answer.headers["Connection"]
    assert sorted(head.headers.items()) == sorted(get.headers.items())


def test_head_ignores_a_range(games: Games) -> None:
    """Installers probe with it, and take 200 with Accept-Ranges."""
    answer = games.ask(games.add("a.nsp", CONTENT), "HEAD", Range="bytes=0-0")
    assert (answer.status, answer.headers["Content-Length"]) == (200, str(SIZE))


def test_a_changed_file_has_another_etag(games: Games) -> None:
    path = games.add("a.nsp", CONTENT)
    before = games.ask(path).headers["ETag"]
    games.library.add("a.nsp", CONTENT, mtime=LONG_AGO + 1)
    assert games.ask(path).headers["ETag"] != before


def test_an_empty_file_is_whole_or_not_satisfiable(games: Games) -> None:
    path = games.library.add("empty.nsp")
    os.truncate(path, 0)
    os.utime(path, (LONG_AGO, LONG_AGO))
    address = games.address(path)
    assert (games.ask(address).status, games.ask(address).body) == (200, b"")
    assert games.ask(address, Range="bytes=-5").status == 200
    answer = games.ask(address, Range="bytes=0-")
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */0")


def test_bodies_of_files_are_never_compressed(games: Games) -> None:
    answer = games.ask(games.add("a.nsp", CONTENT), Accept_Encoding="gzip, *")
    assert answer.body == CONTENT
    assert answer.headers["Content-Encoding"] is None


@pytest.mark.parametrize("mtime", [-1, 0, 2**34, 2**40])
def test_any_time_of_a_file_can_be_told(games: Games, mtime: int) -> None:
    path = games.add("a.nsp", CONTENT)
    try:
        os.utime(games.library.folder / "a.nsp", (mtime, mtime))
    except OverflowError:
        pytest.skip("this file system has no such times")
    answer = games.ask(path)
    assert answer.status == 200
    assert answer.headers["Last-Modified"].endswith(" GMT")


def test_a_file_of_the_future_is_not_younger_than_its_answer(games: Games) -> None:
    path, tomorrow = games.add("a.nsp", CONTENT), time.time() + 86400
    os.utime(games.library.folder / "a.nsp", (tomorrow, tomorrow))
    for _ in range(20):  # none of them may fall between two seconds
        answer = games.ask(path)
        assert answer.headers["Last-Modified"] == answer.headers["Date"]
    date = answer.headers["Date"]  # proves nothing of a file that may yet change
    assert games.ask(path, If_Range=date, Range="bytes=1-").status == 200


def test_a_file_that_is_gone_is_404(
    games: Games, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "RENAME_SECONDS", 0)
    path = games.add("a.nsp", CONTENT)
    (games.library.folder / "a.nsp").unlink()
    answer = games.ask(path)
    assert (answer.status, json.loads(answer.body)["error"]) == (404, "not_found")
    assert str(games.library.folder) not in str(answer.body)


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file outside of the library, in a folder of its own."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.nsp").write_bytes(b"secret")
    return tmp_path / "outside" / "a.nsp"


@pytest.fixture(params=["dir_fd", "no dir_fd"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that opens files step by step, and one that does not, as Windows."""
    if request.param == "no dir_fd":
        monkeypatch.setattr(os, "supports_dir_fd", set())


def test_a_file_of_a_former_library_folder_is_served_until_a_scan_has_ended(
    games: Games, store: catalogd.Store, settings: catalogd.Settings
) -> None:
    path = games.library.add("below/Celeste.nsp", CONTENT)
    former = dataclasses.replace(settings, folders=(os.path.dirname(path),))
    catalogd.Scanner(store, former).scan()
    [file] = store.entries.files()
    assert games.ask(f"/api/download/{file.id}").body == CONTENT


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("swapped", ["x/y/a.nsp", "x/y", "x"])
def test_what_is_swapped_for_a_link_is_not_served(
    games: Games, secret: pathlib.Path, swapped: str
) -> None:
    """Not before the next scan either."""
    path = games.add("x/y/a.nsp", b"public")
    own = games.library.folder / swapped
    (secret.parent / "y").symlink_to(secret.parent)
    own.rename(f"{own}.aside")
    own.symlink_to(secret if swapped.endswith(".nsp") else secret.parent)
    assert (games.library.folder / "x/y/a.nsp").read_bytes() == b"secret"
    answer = games.ask(path)
    assert (answer.status, json.loads(answer.body)["error"]) == (404, "not_found")
    own.unlink()
    own.with_name(f"{own.name}.aside").rename(own)
    assert games.ask(path).body == b"public"


@pytest.mark.usefixtures("system")
def test_a_library_folder_may_be_a_link(games: Games, tmp_path: pathlib.Path) -> None:
    path = games.add("x/a.nsp", b"public")
    games.library.folder.rename(tmp_path / "disk")
    games.library.folder.symlink_to(tmp_path / "disk")
    assert games.ask(path).body == b"public"


def test_a_link_that_comes_and_goes_leads_nowhere(
    library: Library, secret: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = library.add("x/a.nsp", b"public")
    own, aside, link = library.folder / "x", tmp_path / "aside", tmp_path / "link"
    link.symlink_to(secret.parent)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            own.rename(aside)
            link.rename(own)
            own.rename(link)
            aside.rename(own)

    thread = threading.Thread(target=swap)
    thread.start()
    found = set()
    try:
        for number in range(1_000_000):
            with (
                contextlib.suppress(OSError),
                catalogd.open_file(path, str(library.folder)) as file,
            ):
                found.add(file.read())
            if found and number >= 5000:  # the file may be aside for all of these
                break
    finally:
        over.set()
        thread.join()
    assert found == {b"public"}


NAMES = [
    "plain.nsp",
    "with space & more.nsp",
    'quo"te.nsp',
    "back\\slash.nsp",
    "semi;colon, comma.nsp",
    "per%41cent.nsp",
    "hash#question?.nsp",
    "Pokémon Écarlate.nsp",
    "ゼルダの伝説.nsp",
    "emoji 🎮.nsp",
    "line\nbreak\r\ttab.nsp",
    "apo'strophe (1) [v0].nsp",
    "e\u0301 decomposed.nsp",
    "\u202egnp.nsp",
    "=?utf-8?q?tricky?=.nsp",
    "x" * 200 + ".nsp",
]


@pytest.mark.parametrize("name", ["line\nbreak\r\ttab.nsp", "ゼルダの伝説.nsp"])
def test_any_name_arrives(games: Games, name: str) -> None:
    answer = games.ask(games.add(name, CONTENT))
    assert answer.headers["Content-Disposition"] == catalogd.attachment(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_disposition_has_any_name_as_it_is_shown(name: str) -> None:
    said = catalogd.attachment(name)
    found = re.fullmatch(
        r'attachment; filename="([ !#-\[\]-~]*)"; '
        r"filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]+)",
        said,
    )
    assert found is not None, said
    sent = urllib.parse.unquote(found[2], errors="strict")
    assert sent == name.replace("\u202e", "")  # which would turn the text around it
    assert "%" not in found[1]
    assert found[1].endswith(".nsp")


@pytest.mark.parametrize("name", [*NAMES, "\udcff.nsp", "\0.nsp", ""])
def test_a_disposition_is_one_line_of_ascii(name: str) -> None:
    said = catalogd.attachment(name)
    assert said.isascii()
    assert said.isprintable()
    assert said.count('"') == 2


# Conditions


CONDITIONS = [
    # If-None-Match: weak comparison
    ({"If-None-Match": ETAG}, 304),
    ({"If-None-Match": f"W/{ETAG}"}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": f'"x", {ETAG}'}, 304),
    ({"If-None-Match": f'"a,b",W/"c" , W/{ETAG}'}, 304),
    ({"If-None-Match": '"x"'}, 200),
    ({"If-None-Match": ETAG.strip('"')}, 200),
    ({"If-None-Match": '"x", "y"'}, 200),
    ({"If-None-Match": ""}, 200),
    # If-Modified-Since
    ({"If-Modified-Since": MODIFIED}, 304),
    ({"If-Modified-Since": LATER}, 304),
    ({"If-Modified-Since": EARLIER}, 200),
    ({"If-Modified-Since": "Sunday, 13-Sep-20 12:26:40 GMT"}, 304),
    ({"If-Modified-Since": "Sun Sep 13 12:26:40 2020"}, 304),
    ({"If-Modified-Since": "Sun Sep 13 12:26:39 2020"}, 200),
    ({"If-Modified-Since": "yesterday"}, 200),
    ({"If-Modified-Since": "99999999999999999999"}, 200),
    ({"If-None-Match": '"x"', "If-Modified-Since": LATER}, 200),
    ({"If-None-Match": ETAG, "If-Modified-Since": EARLIER}, 304),
    # If-Match: strong comparison
    ({"If-Match": ETAG}, 200),
    ({"If-Match": "*"}, 200),
    ({"If-Match": f'"x", {ETAG}'}, 200),
    ({"If-Match": f"W/{ETAG}"}, 412),
    ({"If-Match": '"x"'}, 412),
    ({"If-Match": ""}, 412),
    # If-Unmodified-Since
    ({"If-Unmodified-Since": MODIFIED}, 200),
    ({"If-Unmodified-Since": LATER}, 200),
    ({"If-Unmodified-Since": EARLIER}, 412),
    ({"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 412),
    ({"If-Unmodified-Since": "never"}, 200),
    ({"If-Match": ETAG, "If-Unmodified-Since": EARLIER}, 200),
    # in the order of RFC 9110 section 13.2.2
    ({"If-Match": '"x"', "If-None-Match": ETAG}, 412),
    ({"If-Match": ETAG, "If-None-Match": ETAG}, 304),
    ({"If-Match": '"x"', "Range": "bytes=0-0"}, 412),
    ({"If-None-Match": ETAG, "Range": "bytes=0-0"}, 304),
    ({"If-None-Match": '"x"', "Range": "bytes=0-0"}, 206),
    # If-Range: strong comparison
    ({"Range": "bytes=0-0", "If-Range": ETAG}, 206),
    ({"Range": "bytes=0-0", "If-Range": f"W/{ETAG}"}, 200),
    ({"Range": "bytes=0-0", "If-Range": '"x"'}, 200),
    ({"Range": "bytes=0-0", "If-Range": f'{ETAG}, "x"'}, 200),
    ({"Range": "bytes=0-0", "If-Range": MODIFIED}, 206),
    ({"Range": "bytes=0-0", "If-Range": LATER}, 200),
    ({"Range": "bytes=0-0", "If-Range": EARLIER}, 200),
    ({"Range": "bytes=0-0", "If-Range": "x"}, 200),
    ({"If-Range": ETAG}, 200),
    ({"Range": f"bytes={SIZE}-", "If-Range": '"x"'}, 200),
    ({"Range": f"bytes={SIZE}-", "If-Range": ETAG}, 416),
]


@pytest.mark.parametrize(("headers", "status"), CONDITIONS)
def test_conditions_by_the_table(headers: dict[str, str], status: int) -> None:
    try:
        found, _, _ = catalogd.evaluate(headers.get, ETAG, LONG_AGO, SIZE, "GET")
    except catalogd.NoSuchRange as problem:
        assert problem.status == status
    else:
        assert found == status


def test_conditions_over_a_socket(games: Games) -> None:
    path = games.add("a.nsp", CONTENT)
    body = {200: CONTENT, 206: CONTENT[:1], 304: b""}
    for headers, status in CONDITIONS:
        given = {name.replace("-", "_"): value for name, value in headers.items()}
        answer = games.ask(path, **given)
        assert answer.status == status, headers
        assert answer.body == body.get(status, answer.body)
        assert answer.headers["ETag"] == (ETAG if status < 400 else None)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_304_has_the_etag(games: Games, method: str) -> None:
    answer = games.ask(games.add("a.nsp", CONTENT), method, If_None_Match=ETAG)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == ETAG
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_the_time_of_a_file_that_may_change_again_is_not_strong() -> None:
    """Two versions of one second have the same Last-Modified."""
    modified = int(time.time()) + 60
    date = email.utils.formatdate(modified, usegmt=True)
    assert not catalogd.is_current(date, ETAG, modified)
    assert catalogd.is_current(ETAG, ETAG, modified)


# Ranges


RANGES = [
    ("bytes=0-0", (0, 1)),
    ("bytes=5-9", (5, 10)),
    ("bytes=0-", (0, 100)),
    ("bytes=99-", (99, 100)),
    ("bytes=-1", (99, 100)),
    ("bytes=-100", (0, 100)),
    ("bytes=-101", (0, 100)),
    ("bytes=90-99", (90, 100)),
    ("bytes=90-100", (90, 100)),
    ("bytes=90-99999999999999999999999999", (90, 100)),
    ("bytes=-99999999999999999999999999", (0, 100)),
    ("BYTES=5-9", (5, 10)),
    (" bytes=5-9 ", (5, 10)),
    ("bytes=" + "0" * 98 + "5-9", (5, 10)),
    # not satisfiable
    ("bytes=100-", 416),
    ("bytes=100-200", 416),
    ("bytes=-0", 416),
    ("bytes=" + "9" * 20 + "-", 416),
    ("bytes=" + "9" * 99 + "-" + "9" * 99, 416),
    # malformed, or not understood: ignored
    ("", None),
    ("bytes", None),
    ("bytes=", None),
    ("bytes=-", None),
    ("bytes=9-5", None),
    ("bytes=99-98", None),
    ("bytes=200-100", None),
    ("bytes=a-b", None),
    ("bytes=5", None),
    ("bytes=5-9-", None),
    ("bytes=--5", None),
    ("bytes=+5-9", None),
    ("bytes=5-+9", None),
    ("bytes=5 - 9", None),
    ("bytes 5-9", None),
    ("bytes=0x5-9", None),
    ("bytes=" + "0" * 5000 + "5-9", None),
    ("bytes=" + "9" * 20000 + "-" + "9" * 20000, None),
    ("bytes=5.0-9", None),
    ("items=5-9", None),
    ("bytes=٥-٩", None),
    ("bytes=²-9", None),
    ("bytes=5-9,", None),
    # several: answered whole
    ("bytes=0-0,2-2", None),
    ("bytes=0-0,-1", None),
    ("bytes=" + ",".join(["0-"] * 5000), None),
    ("bytes=" + ",".join(f"{n}-{n}" for n in range(3000)), None),
]


@pytest.mark.parametrize(("header", "found"), RANGES)
def test_ranges_by_the_table(header: str, found: tuple[int, int] | int | None) -> None:
    if found == 416:
        with pytest.raises(catalogd.NoSuchRange) as refusal:
            catalogd.byte_range(header, 100)
        assert refusal.value.headers == {"Content-Range": "bytes */100"}
    else:
        assert catalogd.byte_range(header, 100) == found


def test_ranges_over_a_socket(games: Games) -> None:
    content = CONTENT[:100]
    path = games.add("a.nsp", content)
    for header, found in RANGES:
        if not header.isascii() or len(header) > 20000:
            continue
        answer = games.ask(path, Range=header)
        if found == 416:
            assert answer.status == 416, header
            assert answer.headers["Content-Range"] == "bytes */100"
            assert json.loads(answer.body)["error"] == "range_not_satisfiable"
        elif isinstance(found, tuple):
            start, stop = found
            assert (answer.status, answer.body) == (206, content[start:stop]), header
            assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/100"
            assert answer.headers["Content-Length"] == str(stop - start)
        else:
            assert (answer.status, answer.body) == (200, content), header
            assert answer.headers["Content-Range"] is None


@pytest.mark.parametrize("piece", ["9", "0-,", "bytes="])
def test_the_cost_of_a_hostile_range_grows_no_faster_than_its_length(
    piece: str,
) -> None:
    def read(length: int) -> None:
        header = ("bytes=" + piece * length)[:length]
        for _ in range(30_000 // length * 10):  # as many bytes in all
            assert catalogd.byte_range(header, SIZE) is None

    short, long = (lambda: read(300)), (lambda: read(30_000))
    # Another program may slow some of the attempts down.
    assert any(cost(long) < 20 * cost(short) for _ in range(5))


def test_digits_that_are_not_ascii_are_no_range(games: Games) -> None:
    path = games.add("a.nsp", CONTENT)
    with games.connect() as client, client.makefile("rb") as answer:
        request = games.request(path, "Range: bytes=\u0665-\u0669", "Connection: close")
        client.sendall(request)
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        assert answer.read().endswith(CONTENT)


# Large files


@pytest.mark.parametrize("size", [2**32 + 5, 100 * 2**30])
def test_files_over_4_gib(games: Games, size: int) -> None:
    path = games.add_sparse("large.xci", size)
    assert games.ask(path, "HEAD").headers["Content-Length"] == str(size)
    file = games.library.folder / "large.xci"
    for start in (2**31 - 2, 2**32 - 2, size - 4):
        with file.open("r+b") as handle:
            handle.seek(start)
            handle.write(b"mark")
        os.utime(file, (LONG_AGO, LONG_AGO))
        answer = games.ask(path, Range=f"bytes={start}-{start + 3}")
        assert (answer.status, answer.body) == (206, b"mark")
        said = f"bytes {start}-{start + 3}/{size}"
        assert answer.headers["Content-Range"] == said
    assert games.ask(path, Range="bytes=-4").body == b"mark"
    assert games.ask(path, Range=f"bytes={size - 4}-").body == b"mark"
    assert games.ask(path, Range=f"bytes={size}-").status == 416


def test_every_byte_of_a_large_file_arrives(games: Games) -> None:
    content = os.urandom(1024 * 1024) * 24 + b"end"
    path = games.add("large.nsp", content)
    assert hashlib.md5(games.ask(path).body).digest() == hashlib.md5(content).digest()
    answer = games.ask(path, Range="bytes=1048575-")
    assert answer.body == content[1048575:]


def test_one_connection_takes_hundreds_of_blocks(games: Games) -> None:
    content = os.urandom(400 * 1000 + 7)
    path = games.add("a.nsp", content)
    games.ask(path, Range="bytes=0-0")
    port = games.connection.sock.getsockname()[1]
    parts = []
    for start in range(0, len(content), 1000):
        stop = min(start + 1000, len(content))
        answer = games.ask(path, Range=f"bytes={start}-{stop - 1}")
        assert answer.status == 206
        parts.append(answer.body)
    assert b"".join(parts) == content
    assert games.connection.sock.getsockname()[1] == port


def test_pipelined_requests_are_answered_in_order(games: Games) -> None:
    content = os.urandom(3_000_000)
    path = games.add("a.nsp", content)
    with games.connect() as client, client.makefile("rb") as answer:
        wanted = [path, "/healthz", path, "/style.css", path]
        requests = [games.request(each) for each in wanted]
        client.sendall(b"".join(requests) + games.request("/x", "Connection: close"))
        for each in wanted:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(answer)
            body = answer.read(int(headers["Content-Length"]))
            assert (body == content) == (each == path)
        assert answer.readline() == b"HTTP/1.1 404 Not Found\r\n"


def test_pipelined_polls_are_answered_in_order(games: Games) -> None:
    wanted = ["/api/send-queue", "/style.css", "/api/send-queue", "/healthz"] * 20
    with games.connect() as client, client.makefile("rb") as answer:
        client.sendall(b"".join(games.request(each) for each in wanted))
        for each in wanted:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(answer)
            body = answer.read(int(headers["Content-Length"]))
            assert (b'"queue": []' in body) == (each == "/api/send-queue")


def test_the_answer_to_who_has_it_already_keeps_the_connection(games: Games) -> None:
    etag = games.ask("/api/list").headers["ETag"]
    port = games.connection.sock.getsockname()[1]
    for _ in range(3):
        answer = games.ask("/api/list", If_None_Match=etag)
        assert (answer.status, answer.headers["Connection"]) == (304, "keep-alive")
    assert games.connection.sock.getsockname()[1] == port
    answer = games.ask("/api/list", If_None_Match=etag, Connection="close")
    assert (answer.status, answer.headers["Connection"]) == (304, "close")


def test_a_client_of_http_1_0_gets_its_file_and_the_end(games: Games) -> None:
    path = games.add("a.nsp", CONTENT)
    with games.connect() as client, client.makefile("rb") as answer:
        client.sendall(games.request(path).replace(b"HTTP/1.1", b"HTTP/1.0"))
        said = answer.read()
    assert said.startswith(b"HTTP/1.0 200 OK\r\n")
    assert said.endswith(b"\r\n\r\n" + CONTENT)


# What has left


def test_served_ranges_are_joined() -> None:
    served = catalogd.Served()
    for start, stop in [(10, 20), (30, 40), (0, 5), (20, 30), (5, 6), (35, 50)]:
        served.add(start, stop)
    assert served.ranges == [(0, 6), (10, 50)]
    assert served.bytes == 46


def test_served_ranges_do_not_grow_without_end() -> None:
    served = catalogd.Served()
    for start in range(0, 3 * served.max_ranges, 2):
        served.add(start, start + 1)
    assert len(served.ranges) == served.max_ranges
    served.add(0, 2 * served.max_ranges)  # one that joins others is counted still
    assert served.ranges == [(0, 2 * served.max_ranges)]


class Hidden:
    """An application that serves one file to all, and counts what has left of it."""

    def __init__(self, path: str, settings: catalogd.Settings) -> None:
        self.served = catalogd.Served()
        self.settings = settings
        self.app = bottle.Bottle()
        folder = os.path.dirname(path)
        known = catalogd.ServedFile("id", path, folder, 0, 0, None)
        answer = functools.partial(
            catalogd.file_answer, known, "x", catalogd.FileUses(), self.served
        )
        self.app.route("/file", callback=answer)

    def runs(self, method: str, path: str) -> str:
        return catalogd.OWN_THREAD

    def uploader(self, path: str) -> None:
        """Nobody uploads here."""


def refuse(error: int) -> Callable[..., int]:
    """Return what `os.sendfile` is for a file system that does not have it."""

    return Mock(side_effect=OSError(error, os.strerror(error)))


@pytest.mark.parametrize(
    "sendfile",
    [getattr(os, "sendfile", None), None, refuse(errno.EINVAL), refuse(errno.ENOSYS)],
    ids=["sendfile", "none", "EINVAL", "ENOSYS"],
)
@pytest.mark.parametrize("waits", ["the kernel", "no such option", "another system"])
def test_a_file_arrives_whole_and_what_has_left_is_known(
    library: Library,
    settings: catalogd.Settings,
    serve: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    sendfile: Callable[..., int] | None,
    waits: str,
) -> None:
    no_length = Mock(side_effect=OverflowError)
    wrapper = waitress.buffers.ReadOnlyFileBasedBuffer
    monkeypatch.setattr(wrapper, "__len__", no_length, raising=False)
    if waits == "no such option":  # as where another system is emulated
        monkeypatch.setattr(socket, "SO_SNDTIMEO", 9999)
    elif waits == "another system":
        monkeypatch.setattr(sys, "platform", "freebsd")
    if sendfile:
        monkeypatch.setattr(os, "sendfile", sendfile)
    else:
        monkeypatch.delattr(os, "sendfile", raising=False)
    content = os.urandom(catalogd.MAX_PIECE_BYTES + 3_000_000)
    hidden = Hidden(library.add("a.nsp", content), settings)
    address = serve(hidden)
    games = Games(address, "", library, None)  # type: ignore[arg-type]
    with contextlib.closing(games.connection):
        assert games.ask("/file", Range="bytes=10-19").body == content[10:20]
        wait_for(lambda: hidden.served.ranges == [(10, 20)])
        games.ask("/file", "HEAD")
        assert games.ask("/file", Range="bytes=1000-1999").body == content[1000:2000]
        assert games.ask("/file", Range="bytes=1500-2499").body == content[1500:2500]
        wait_for(lambda: hidden.served.ranges == [(10, 20), (1000, 2500)])
        assert games.ask("/file").body == content
        wait_for(lambda: hidden.served.bytes == len(content))
        assert games.ask("/file", Range="bytes=-7").body == content[-7:]


SO_SNDTIMEO_NEW = 67  # takes 64 bits each; on a system of 32 bits the other takes 32


@pytest.mark.parametrize("option", [socket.SO_SNDTIMEO, SO_SNDTIMEO_NEW])
def test_the_kernel_waits_for_as_long_as_it_is_told(
    option: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "SO_SNDTIMEO", option)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        catalogd.let_kernel_wait(sock, 2.5)
        limit = sock.getsockopt(socket.SOL_SOCKET, option, 16)
        assert struct.unpack("=qq" if len(limit) == 16 else "=ll", limit) == (2, 500000)


@pytest.mark.parametrize(
    ("sent", "seconds", "size"),
    [
        (2**20, 0.0, 2**20 * 5 // 4),  # into a buffer
        (2**20, 0.1, 2**20 * 5 // 4),
        (10**6, 1.0, 500_000),
        (4 * 2**20, 0.04, catalogd.MAX_PIECE_BYTES),  # 1 Gbit/s
        (10_000, 1.0, catalogd.MIN_PIECE_BYTES),
        (0, 0.0, catalogd.MIN_PIECE_BYTES),
    ],
)
def test_the_next_piece_follows_from_the_pace(
    sent: int, seconds: float, size: int
) -> None:
    assert catalogd.next_piece(sent, seconds) == size


@pytest.mark.parametrize("buffer", [80_000, 2_500_000, 4_500_000])
def test_what_has_left_at_1_mb_a_second_is_known_every_two_seconds(buffer: int) -> None:
    """The system takes as much as its buffer has room for, and waits until a third of
    it is free."""
    room, piece, took = buffer, catalogd.MIN_PIECE_BYTES, []
    for _ in range(100):
        seconds, left = 0.0, piece
        while left > room:
            left, room = left - room, buffer // 3
            seconds += room / 1e6
        room -= left
        took.append(seconds)
        piece = catalogd.next_piece(piece, seconds)
    assert max(took) < 2
    assert sum(took) > 10


# Limits


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "limit"),
    [
        (1024, 524288, 100, 100),
        (1024, 524288, 1000, 1000),
        (1024, -1, 1000, 1000),
        (-1, -1, 1000, 1000),
        (1024, 1024, 1000, 462),
        (64, 64, 1000, 1),
    ],
)
def test_connections_are_as_many_as_there_are_descriptors(
    soft: int, hard: int, wanted: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, now: done.append(now))
    assert catalogd.connection_limit(wanted) == limit
    assert done == [(hard, hard)]


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_a_limit_that_cannot_be_raised_is_kept(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS refuses more than kern.maxfilesperproc, below an infinite hard limit."""

    refuse = Mock(side_effect=error("not allowed to raise maximum limit"))
    monkeypatch.setattr(resource, "getrlimit", lambda what: (256, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert catalogd.connection_limit(1000) == 78


def test_windows_has_as_many_connections_as_select_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert catalogd.connection_limit(1000) == 500


# The list


def test_the_list_answers_304_until_it_changes(games: Games) -> None:
    games.add("a.nsp")
    first = games.ask("/api/list")
    assert [row["name"] for row in json.loads(first.body)["entries"]] == ["a"]
    etag = first.headers["ETag"]
    again = games.ask("/api/list", If_None_Match=f'W/{etag}, "x"')
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
    games.add("b.nsp")
    changed = games.ask("/api/list", If_None_Match=etag)
    assert changed.status == 200
    assert len(json.loads(changed.body)["entries"]) == 2
    assert changed.headers["ETag"] != etag


def test_the_list_is_made_once_for_a_change(
    games: Games, service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    games.add("a.nsp")
    made = []
    listing = service.store.entries.list_json
    monkeypatch.setattr(
        service.store.entries,
        "list_json",
        lambda *shape: made.append(1) or listing(*shape),
    )
    bodies = {games.ask("/api/list").body for _ in range(3)}
    assert (len(bodies), len(made)) == (1, 1)


@pytest.mark.parametrize(
    ("header", "zipped"),
    [
        ("gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("br ,GZIP ; q=0.1", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, br", False),
        ("identity", False),
        ("x-gzip2", False),
        ("", False),
    ],
)
def test_the_list_is_zipped_for_those_who_ask(
    games: Games, header: str, zipped: bool
) -> None:
    games.add("a.nsp")
    plain = games.ask("/api/list", Accept_Encoding="identity")
    answer = games.ask("/api/list", Accept_Encoding=header)
    assert answer.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert (answer.headers["Content-Encoding"] == "gzip") == zipped
    body = gzip.decompress(answer.body) if zipped else answer.body
    assert body == plain.body
    assert (answer.headers["ETag"] == plain.headers["ETag"]) == (not zipped)
    again = games.ask(
        "/api/list", Accept_Encoding=header, If_None_Match=answer.headers["ETag"]
    )
    assert again.status == 304


def test_the_list_is_zipped_once(games: Games, monkeypatch: pytest.MonkeyPatch) -> None:
    games.add("a.nsp")
    done = []
    compress = zlib.compress
    monkeypatch.setattr(
        zlib,
        "compress",
        lambda *args, **more: done.append(1) or compress(*args, **more),
    )
    for _ in range(3):
        games.ask("/api/list", Accept_Encoding="gzip")
    assert len(done) == 1


def test_calls_for_the_list_leave_the_workers_to_others(
    games: Games, service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than there are workers wait for a list that takes long."""
    games.add("a.nsp")
    go_on = threading.Event()
    listing = service.store.entries.list_json
    monkeypatch.setattr(
        service.store.entries,
        "list_json",
        lambda *shape: go_on.wait(20) and listing(*shape),
    )
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(games.connect()) for _ in range(8)]
        for client in waiting:
            client.sendall(games.request("/api/list", "Connection: close"))
        for _ in range(20):
            assert games.ask("/api/send-queue").status == 200
        go_on.set()
        for client in waiting:
            with client.makefile("rb") as answer:
                assert b'"entries": [{' in answer.read()


def test_a_large_list_comes_whole(games: Games, store: catalogd.Store) -> None:
    said = {"name": "n", "description": "d" * 1000, "version": ""}
    for number in range(300):
        store.entries.add_link(f"https://example.org/{number}", 1, "nsp", said, "anna")
    assert len(json.loads(games.ask("/api/list").body)["entries"]) == 300
