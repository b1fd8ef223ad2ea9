#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["platformdirs>=2.6"]
# ///
"""send-to-switch: brings what was queued on catalogd's page to the console.

It runs on any machine of the LAN, with Python alone: platformdirs and tqdm are used
where they are installed. The sections, in order; each uses only those above it when
the module loads:

Problems   what can go wrong, and the exit code that tells
Settings   the command line, the environment and the INI file, the first that says
Names      file names, sizes and what headers say of them
State      what outlives the program: who it is, and what its unfinished files are
Server     the calls of the interface
Downloads  a file from any byte on, across drops and restarts
Screen     what a person sees
Transfers  one item on its way: its progress is told while it lasts
Targets    where files go: a folder, an FTP server, a console that pulls
Sender     the queue, item by item
Commands   the command line

Exit codes: 0 all is sent (or it was told to stop), 1 an item failed, 2 a mistake in
the settings, 3 the server refuses the key, 4 the server or the target is away (with
--once; without it, it waits for them), 130 stopped by Ctrl-C.
"""

import argparse
import base64
import binascii
import configparser
import contextlib
import dataclasses
import errno
import ftplib
import getpass
import hashlib
import http.client
import importlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, NamedTuple, TextIO

__version__ = "0.1.0"

POLL = 3.0  # seconds between two looks at the queue
LONGEST_PAUSE = 30.0  # seconds between two tries to reach what is away
REPORT = 2.0  # seconds between two reports of progress
LAST_REPORT = 1.0  # seconds that the report on its way may take when a transfer ends
TIMEOUT = 30.0  # seconds that a socket may be silent
PATIENCE = 300.0  # seconds that a server other than ours may give nothing
BLOCK = 1024 * 1024  # bytes that are moved at once


# Problems ---------------------------------------------------------------------
# What can go wrong. `str()` is for a person.


class Problem(Exception):
    """A mistake in what the person asked for."""

    exit_code = 2


class BadKey(Problem):
    """The server does not take the key."""

    exit_code = 3


class Away(Problem):
    """The server or the target is not there now, which says nothing of an item."""

    exit_code = 4


class ServerAway(Away):
    pass


class Trouble(ServerAway):
    """It is there, but does not give the file; or it is not our own server."""


class TargetAway(Away):
    pass


class Failed(Problem):
    """This item cannot be sent; others may."""

    exit_code = 1


class Cancelled(Problem):
    """The item is not ours to send, or not any more."""


class Changed(Problem):
    """What arrived before does not go with what the server has now."""


class Dropped(Problem):
    """The connection to the target broke: another try may do."""


# Settings ---------------------------------------------------------------------
# A field is an option, of the command line, the environment and the INI file.

SECTION = "send-to-switch"
TRUE = ("true", "yes", "on", "1")


def option(help: str, metavar: str | None = None, default: Any = "") -> Any:
    metadata = {"help": help, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    server: str = option("address of catalogd, such as http://pi.local:6069", "URL")
    key_file: str = option("file with the API key (login makes one)", "FILE")
    to: str = option("folder:PATH, ftp://HOST[:PORT]/FOLDER or lan://HOST", "TARGET")
    on_done: str = option("command to run after each item", "CMD")
    verify: bool = option("read each file back from the target", default=False)
    state: str = option("folder for what outlives the program", "DIR")

    @classmethod
    def find(cls, given: Mapping[str, Any], ini: str) -> "Settings":
        """The value of each option that was given, or else is in the environment,
        or else in the INI file.

        :raises Problem: the INI file is wrong.
        """
        found = read_ini(ini)
        for field in dataclasses.fields(cls):
            name = f"SEND_TO_SWITCH_{field.name.upper()}"
            if os.environ.get(name):
                found[field.name] = os.environ[name]
            if given.get(field.name):
                found[field.name] = given[field.name]
        found["verify"] = str(found.get("verify", "")).lower() in TRUE
        return cls(**found)


def read_ini(path: str) -> dict[str, Any]:
    """:raises Problem: it is not an INI file, or has an option that there is not."""
    ini = configparser.ConfigParser(interpolation=None)
    try:
        ini.read(path, encoding="utf-8-sig")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from error
    found = dict(ini[SECTION]) if ini.has_section(SECTION) else {}
    names = {field.name for field in dataclasses.fields(Settings)}
    for name in found:
        if name not in names:
            raise Problem(f"{path}: there is no option {name}.")
    return found


def optional(name: str) -> Any:
    """A module that is used where it is installed, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def own_folder(kind: str) -> str:
    """Where this program keeps its things. `kind` is "config" or "state"."""
    platformdirs = optional("platformdirs")
    if platformdirs:
        find = getattr(platformdirs, f"user_{kind}_dir")
        return str(find(SECTION, appauthor=False))
    home = os.path.expanduser(os.path.join("~", f".{SECTION}"))
    return os.environ.get("APPDATA", home) if kind == "config" else home


def usual_ini() -> str:
    return os.path.join(own_folder("config"), f"{SECTION}.ini")


def usual_key_file() -> str:
    return os.path.join(own_folder("config"), "key")


def write_private(path: str, text: str) -> None:
    """Replace a file by one that only its owner may read."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(f"{path}.new", flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def server_address(text: str) -> str:
    """The address without a slash at its end. :raises Problem: it is none."""
    if not text:
        raise Problem(
            f"Which server? Say --server http://HOST:6069, or run '{SECTION} login'."
        )
    parts = split_address(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem(f"{text!r} is not an address such as http://pi.local:6069.")
    return text.rstrip("/")


def split_address(text: str) -> urllib.parse.SplitResult:
    """:raises Problem: it is no address."""
    try:
        parts = urllib.parse.urlsplit(text)
        parts.port  # noqa: B018 - it is checked by being read
    except ValueError as error:
        raise Problem(f"{text!r} is not an address: {error}.") from error
    return parts


def read_key(settings: Settings) -> str:
    """That of the environment, or else of the key file.

    :raises Problem: there is none.
    """
    key = os.environ.get("SEND_TO_SWITCH_KEY")
    path = "SEND_TO_SWITCH_KEY" if key else settings.key_file or usual_key_file()
    key = key or key_in(path)
    if not re.fullmatch(r"[!-~]+", key):
        raise Problem(f"{path} holds no API key.")
    return key


def key_in(path: str) -> str:
    """:raises Problem: the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(
            f"There is no key in {path}. Run '{SECTION} login', or say --key-file."
        ) from error


# Names ------------------------------------------------------------------------
# File names, sizes and what headers say of them. Pure functions.

UNSAFE = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f]')  # on a FAT or exFAT card
LONGEST_NAME = 240  # bytes, so that ".part" fits too


def safe_name(name: str) -> str:
    """A file name that an SD card takes. Names that differ stay distinct: one that
    had to be changed carries a digest of what it was."""
    name = unicodedata.normalize("NFC", name)
    stem, ending = os.path.splitext(UNSAFE.sub("_", name).strip(". ") or "_")
    room = LONGEST_NAME - len(ending.encode())
    short = stem.encode("utf-8", "replace")[: max(room, 1)].decode("utf-8", "ignore")
    if short + ending == name:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:6]
    short = short.encode()[: max(room - 7, 1)].decode("utf-8", "ignore")
    return f"{short}-{mark}{ending}"


def header_name(disposition: str) -> str:
    """The file name in a Content-Disposition header, "" where there is none."""
    if found := re.search(r"filename\*=UTF-8''([^;\s]+)", disposition, re.IGNORECASE):
        return urllib.parse.unquote(found[1])
    found = re.search(r'filename="?([^";]+)', disposition, re.IGNORECASE)
    return found[1] if found else ""


def header_digest(digests: str) -> bytes | None:
    """The SHA-256 in a Repr-Digest header, by RFC 9530."""
    found = re.search(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]+):", digests)
    try:
        return base64.b64decode(found[1], validate=True) if found else None
    except binascii.Error:
        return None


def with_ending(name: str, address: str) -> str:
    """The name of an entry, with the ending that its address has."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(address).path)
    ending = os.path.splitext(path)[1]
    return name if name.lower().endswith(ending.lower()) else name + ending


def amount(count: float) -> str:
    """Bytes, for a person: "2.1 GB"."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.1f} KB"


def duration(seconds: float) -> str:
    """For a person: "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


# State ------------------------------------------------------------------------
# What outlives the program, also where it was killed.


class State:
    """A small JSON file for each pair of a server and a target.

    `client` is what this client calls itself, so that the server gives an item to one
    client only, and gives it back to the one that crashed. `parts` has for each
    unfinished file the validator of what it is a part of. `sent` is the item whose
    file is whole while the server does not know it yet.
    """

    def __init__(self, folder: str, server: str, target: str) -> None:
        name = hashlib.sha256(f"{server}\n{target}".encode()).hexdigest()[:16]
        self.path = os.path.join(folder, f"{name}.json")
        self.client = secrets.token_hex(8)
        self.parts: dict[str, str] = {}
        self.sent = ""
        self._load()

    def _load(self) -> None:
        """What the file has; nothing where there is none, or none that is whole."""
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            self.client, self.sent = str(found["client"]), str(found["sent"])
            self.parts = dict(found["parts"])
        except (OSError, ValueError, KeyError, TypeError):
            return

    def save(self) -> None:
        """:raises Problem: it cannot be written."""
        try:
            found = {"client": self.client, "parts": self.parts, "sent": self.sent}
            write_private(self.path, json.dumps(found))
        except OSError as error:
            raise Problem(
                f"{self.path}: cannot be written: {error.strerror}"
            ) from error

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Only one process at a time. SQLite has a lock that works anywhere, and that
        ends with the process.

        :raises Problem: another one sends from this server to this target.
        """
        self.save()
        lock = sqlite3.connect(f"{self.path}.lock", timeout=0, isolation_level=None)
        with contextlib.closing(lock):
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                message = f"Another {SECTION} sends to this target already."
                raise Problem(message) from error
            yield

    def begin(self, name: str, tag: str) -> None:
        """From now on the unfinished file `name` is a part of what `tag` says."""
        if self.parts.get(name) != tag:
            self.parts[name] = tag
            self.save()

    def mark_sent(self, item: str) -> None:
        self.sent = item
        self.save()

    def forget(self, name: str) -> None:
        """There is no unfinished file of this name any more."""
        self.parts.pop(name, None)
        self.sent = ""
        self.save()


# Server -----------------------------------------------------------------------
# The calls of the interface, over one connection.


class Item(NamedTuple):
    """A queue item, as far as it matters here."""

    id: str
    entry: str
    name: str
    source: str
    size: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Item":
        values = [row[f"entry_{key}"] for key in ("id", "name", "source", "size")]
        return cls(row["queue_item_id"], *values)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}


def connection(parts: urllib.parse.SplitResult) -> http.client.HTTPConnection:
    """To the host of an address; it is not opened yet."""
    kinds = {
        "http": http.client.HTTPConnection,
        "https": http.client.HTTPSConnection,
    }
    return kinds[parts.scheme](parts.hostname or "", parts.port, timeout=TIMEOUT)


def reason(error: BaseException) -> str:
    """What a network error says, for a person."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


NETWORK = (OSError, http.client.HTTPException)  # all that a call may raise


class Server:
    """The service, as one thread may call it."""

    def __init__(self, address: str, key: str = "") -> None:
        self.address = address
        self.key = key
        self._parts = urllib.parse.urlsplit(address)
        self._connection = connection(self._parts)
        self._queue: tuple[str, list[Item]] = ("", [])  # ETag, and what it stands for
        self._over = False

    def close(self) -> None:
        self._connection.close()

    def wake(self) -> None:
        """End the call that another thread waits in, and make no other."""
        self._over = True
        if self._connection.sock:
            hang_up(self._connection.sock)

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> dict[str, Any]:
        """The JSON that the server answers.

        :raises ServerAway, BadKey, Cancelled, Failed: what else it may answer.
        """
        return self._checked(self._send(method, path, body, headers)).json()

    def _send(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {**headers, **self.headers(), "Content-Type": "application/json"}
        while True:
            fresh = self._connection.sock is None
            try:
                self._connection.request(method, self._parts.path + path, data, headers)
                answer = self._connection.getresponse()
                return Answer(answer.status, answer.headers, answer.read())
            except NETWORK as error:
                self._connection.close()
                if fresh or self._over:  # or else an idle connection has ended
                    message = f"{self.address} is away: {reason(error)}."
                    raise ServerAway(message) from error

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def _checked(self, answer: Answer) -> Answer:
        if answer.status == 200 and answer.json().get("success"):
            return answer
        message = str(answer.json().get("message") or f"status {answer.status}")
        kinds = {401: BadKey, 404: Cancelled, 409: Cancelled, 200: Failed}
        if answer.status >= 500:
            raise ServerAway(f"{self.address} is in trouble: {message}.")
        raise kinds.get(answer.status, Failed)(message)

    def queue(self, client: str) -> list[Item]:
        """What is to be sent, in its order."""
        path = f"/api/send-queue?client={client}"
        known = {"If-None-Match": self._queue[0]} if self._queue[0] else {}
        answer = self._send("GET", path, None, known)
        if answer.status != 304:
            rows = self._checked(answer).json().get("queue")
            try:
                items = [Item.of(row) for row in rows or ()]
            except (KeyError, TypeError) as error:
                message = f"{self.address}: its queue is not understood."
                raise Problem(message) from error
            self._queue = (answer.headers.get("ETag", ""), items)
        return self._queue[1]

    def report(self, item: Item, client: str, **fields: Any) -> None:
        body = {"queue_item_id": item.id, "client": client, **fields}
        self.call("POST", "/api/send-queue/progress", body)

    def item_address(self, item: Item) -> str:
        """An address that a console can download the item's file from."""
        return str(self.call("POST", f"/api/send-queue/{item.id}/address")["address"])

    def served(self, item: Item) -> int:
        """How many bytes of the file have left by that address."""
        return int(self.call("GET", f"/api/send-queue/{item.id}/address")["served"])

    def login(self, name: str, password: str) -> str:
        """A new key."""
        body = {"username": name, "password": password}
        return str(self.call("POST", "/api/auth/login", body)["api_key"])


def hang_up(line: socket.socket) -> None:
    """End what another thread waits for on this socket."""
    with contextlib.suppress(OSError):  # it has ended already
        line.shutdown(socket.SHUT_RDWR)


# Downloads --------------------------------------------------------------------
# A file from any byte on. A drop is mended with If-Range, where there is a validator.


class Watched:
    """Something that goes on while a thread looks after it, which may end it."""

    problem: Problem | None = None

    def __init__(self) -> None:
        self._lines: set[socket.socket] = set()
        self._wake = threading.Event()

    def check(self) -> None:
        """:raises Problem: it was ended, for this reason."""
        if self.problem:
            raise self.problem

    def sleep(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def guard(self, line: socket.socket) -> Iterator[None]:
        """While the block lasts, the end also hangs up this socket."""
        self._lines.add(line)
        try:
            self.check()
            yield
        finally:
            self._lines.discard(line)

    def end(self, problem: Problem) -> None:
        self.problem = problem
        self._wake.set()
        for line in list(self._lines):
            hang_up(line)


def backoff(first: float = 0.5) -> Iterator[float]:
    """Seconds to wait between tries, each twice the last up to a limit."""
    pause = min(first, LONGEST_PAUSE)
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


class Patience:
    """Waits between tries: for our own server as long as it takes, and for one that
    is there, but gives nothing, only so long."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep
        self.pauses = backoff()
        self.since = time.monotonic()

    def wait(self, problem: ServerAway) -> None:
        """:raises Failed: it has been long enough."""
        if not isinstance(problem, Trouble):
            self.since = time.monotonic()
        elif time.monotonic() > self.since + PATIENCE:
            raise Failed(f"The download stands still: {problem}") from problem
        self.sleep(next(self.pauses))


class Stream(NamedTuple):
    """An answer whose body has not been read yet, and what it comes over."""

    answer: http.client.HTTPResponse
    line: socket.socket
    connection: http.client.HTTPConnection

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


class Download:
    """The file of an entry. `size` is None, `tag` "" and `digest` None where the
    server does not tell."""

    def __init__(self, server: Server, item: Item, watch: Watched) -> None:
        """:raises ServerAway, BadKey, Failed: there is no such file to be had now."""
        self.server = server
        self.watch = watch
        self.url = f"{server.address}/api/download/{urllib.parse.quote(item.entry)}"
        with contextlib.closing(self._open({"Range": "bytes=0-0"})) as stream:
            headers = stream.answer.headers
            self.size = whole_size(stream.answer)
        self.tag = validator(headers)
        self.digest = header_digest(headers.get("Repr-Digest", ""))
        name = header_name(headers.get("Content-Disposition", ""))
        self.name = safe_name(name or with_ending(item.name, item.source))

    def blocks(self, start: int) -> Iterator[memoryview]:
        """The bytes from `start` on, in a buffer that is used again. It waits for a
        server that is away.

        :raises Changed: the file is not what it was, or that cannot be told.
        :raises Failed: the server is there and does not give it.
        """
        buffer = memoryview(bytearray(BLOCK))
        patience = Patience(self.watch.sleep)
        while start != self.size:
            problem: ServerAway = Trouble("the connection breaks off.")
            try:
                for count in self._some(start, buffer):
                    yield buffer[:count]
                    start += count
                    patience = Patience(self.watch.sleep)
            except ServerAway as away:
                problem = away
            else:
                if self.size is None:
                    return
            if start != self.size:
                patience.wait(problem)

    def _some(self, start: int, buffer: memoryview) -> Iterator[int]:
        """Fills the buffer, again and again, until the connection ends."""
        with contextlib.closing(self._open(self._range(start))) as stream:
            self._check_resumed(stream.answer, start)
            with self.watch.guard(stream.line):
                while count := self._fill(stream, buffer):
                    yield count
        self.watch.check()

    def _fill(self, stream: Stream, buffer: memoryview) -> int:
        try:
            return stream.answer.readinto(buffer)
        except NETWORK as error:
            if self.size is None:  # there is no telling how much of it is missing
                raise Changed(f"The download broke off: {reason(error)}.") from error
            return 0

    def _range(self, start: int) -> dict[str, str]:
        if start == 0:
            return {}
        if not self.tag:
            raise Changed("The server does not tell whether the file has changed.")
        return {"Range": f"bytes={start}-", "If-Range": self.tag}

    def _check_resumed(self, answer: http.client.HTTPResponse, start: int) -> None:
        span = answer.headers.get("Content-Range", "")
        resumed = answer.status == 206 and span.startswith(f"bytes {start}-")
        if (start and not resumed) or validator(answer.headers) != self.tag:
            raise Changed("The file has changed on the server.")

    def _open(self, headers: dict[str, str]) -> Stream:
        """The answer, wherever the server sends us for it. Only the server itself
        gets the key."""
        parts = own = urllib.parse.urlsplit(self.url)
        for _ in range(10):
            is_own = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
            key = self.server.headers() if is_own else {}
            stream = self._ask(parts, {**headers, **key}, is_own)
            if stream.answer.status not in (301, 302, 303, 307, 308):
                return accepted(stream, is_own)
            stream.close()
            place = stream.answer.headers.get("Location", "")
            parts = next_address(parts, place)
        raise Failed("The server redirects in a circle.")

    def _ask(
        self, parts: urllib.parse.SplitResult, headers: dict[str, str], is_own: bool
    ) -> Stream:
        call = connection(parts)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        try:
            call.connect()
            with self.watch.guard(call.sock):
                line = call.sock
                call.request(
                    "GET", target, headers={"Accept-Encoding": "identity", **headers}
                )
                return Stream(call.getresponse(), line, call)
        except NETWORK as error:
            call.close()
            self.watch.check()
            kind = ServerAway if is_own else Trouble
            raise kind(f"{parts.netloc} is away: {reason(error)}.") from error
        except BaseException:
            call.close()
            raise


def next_address(
    parts: urllib.parse.SplitResult, place: str
) -> urllib.parse.SplitResult:
    """Where a redirect leads. :raises Failed: to nowhere that we can go."""
    place = urllib.parse.quote(place, safe="!#$%&'()*+,/:;=?@[]~")
    try:
        found = split_address(urllib.parse.urljoin(parts.geturl(), place))
    except (Problem, ValueError) as problem:
        raise Failed(f"The server redirects wrongly: {problem}") from problem
    if found.scheme not in ("http", "https") or not found.hostname:
        raise Failed(f"The server redirects to {place!r}, which is no web address.")
    return found


def accepted(stream: Stream, is_own: bool) -> Stream:
    """The stream, if it brings the file."""
    status = stream.answer.status
    empty = stream.answer.headers.get("Content-Range") == "bytes */0"
    if status in (200, 206) or (status == 416 and empty):
        return stream
    stream.close()
    if status == 401 and is_own:
        raise BadKey("status 401")
    if status == 416:
        raise Changed("The file has become shorter on the server.")
    if status >= 500:
        raise Trouble(f"the server answers with status {status}.")
    if status in (404, 410):
        raise Failed("The server does not have the file any more.")
    raise Failed(f"The server does not give the file: status {status}.")


def whole_size(answer: http.client.HTTPResponse) -> int | None:
    """Of the file that the answer is a part of; None where it does not tell."""
    if answer.status == 200:
        return answer.length
    total = answer.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


def validator(headers: http.client.HTTPMessage) -> str:
    """What If-Range takes: a strong ETag, or else a date."""
    tag = headers.get("ETag", "")
    if tag.startswith('"'):
        return str(tag)
    return str(headers.get("Last-Modified", ""))


def insist(
    call: Callable[[], Any],
    sleep: Callable[[float], None],
    tell: Callable[[Away], None] = lambda away: None,
) -> Any:
    """What the call gives, when the server is there for it."""
    pauses = backoff()
    while True:
        try:
            return call()
        except ServerAway as away:
            tell(away)
        sleep(next(pauses))


# Screen -----------------------------------------------------------------------
# What a person sees: a line for each event, and where somebody watches a bar.


class Line:
    """A progress bar for those who have no tqdm, whose part of the interface it has."""

    def __init__(
        self, total: int | None, initial: int, desc: str, file: TextIO
    ) -> None:
        self.total = total
        self.done = self.initial = initial
        self.name = desc
        self.file = file
        self.began = time.monotonic()
        self.drawn = 0.0

    def update(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.drawn >= 0.2:
            self.drawn = now
            width = shutil.get_terminal_size().columns - 1
            self.file.write(f"\r{self.text(now)[:width]:{width}}")
            self.file.flush()

    def text(self, now: float) -> str:
        speed = (self.done - self.initial) / max(now - self.began, 0.001)
        much = f"{amount(self.done)}, {amount(speed)}/s"
        if not self.total:
            return f"{self.name}: {much}"
        left = (self.total - self.done) / max(speed, 1)
        share = 100 * self.done // self.total
        return f"{self.name}: {share} %, {much}, {duration(left)} left"

    def close(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        self.file.write(f"\r{'':{width}}\r")
        self.file.flush()


class Screen:
    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.bar: Any = None
        self.last = ""

    def say(self, text: str) -> None:
        """A line; one that was the last already is not said again. A letter that the
        terminal does not have is a question mark."""
        if text != self.last:
            self.last = text
            coding = self.out.encoding or "utf-8"
            text = text.encode(coding, "replace").decode(coding)
            print(text, file=self.out, flush=True)

    def begin(self, name: str, done: int, size: int | None) -> None:
        self.end()
        if self.err.isatty():
            self.bar = self._bar_class()(
                total=size, initial=done, desc=name, file=self.err
            )

    @staticmethod
    def _bar_class() -> Any:
        tqdm = optional("tqdm")
        if tqdm is None:
            return Line
        tqdm.tqdm.monitor_interval = 0  # it would leave a thread behind
        rules = {"unit": "B", "unit_scale": True, "leave": False, "ncols": 79}
        return lambda **given: tqdm.tqdm(**rules, **given)

    def moved(self, count: int) -> None:
        if self.bar:
            self.bar.update(count)

    def end(self) -> None:
        if self.bar:
            self.bar.close()
        self.bar = None


# Transfers --------------------------------------------------------------------
# One item on its way. While it lasts a thread tells the server how far it is.


class Transfer(Watched):
    """What a target gets to do its work: the file, and where to tell of progress."""

    def __init__(
        self, server: Server, item: Item, state: State, screen: Screen, verify: bool
    ) -> None:
        super().__init__()
        self.server = server
        self.item = item
        self.state = state
        self.screen = screen
        self.verify = verify
        self.file: Download | None = None
        self.name = ""  # of the file, when it is known
        self.size: int | None = item.size or None
        self.done = 0  # bytes that the target has
        self.moved = 0  # bytes that were sent to it, in this run
        self.start = 0  # byte that the last try began at
        self._over = threading.Event()
        self._reporter = Server(server.address, server.key)
        self._thread = threading.Thread(target=self._report, name="reporter")

    def __enter__(self) -> "Transfer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        # A report that is cut off could still be taken, after those that come next.
        self._thread.join(LAST_REPORT)
        self._reporter.wake()
        self._thread.join()
        self._reporter.close()
        self.screen.end()

    def _report(self) -> None:
        """It runs in the thread."""
        before, since = 0, time.monotonic()
        while not self._over.wait(REPORT):
            now = time.monotonic()
            speed = max(self.moved - before, 0) / (now - since)
            before, since = self.moved, now
            try:
                self._reporter.report(self.item, self.state.client, **self.told(speed))
            except ServerAway:
                continue  # it is told when it is back
            except Problem as problem:
                self.end(problem)
                return

    def told(self, speed: float) -> dict[str, int]:
        percent = 100 * self.done // self.size if self.size else 0
        return {
            "progress_percent": min(percent, 100),
            "bytes_transferred": self.done,
            "transfer_speed": int(speed),
        }

    def download(self) -> Download:
        """The item's file, which is asked for once."""
        patience = Patience(self.sleep)
        while self.file is None:
            try:
                self.file = Download(self.server, self.item, self)
            except ServerAway as problem:
                patience.wait(problem)
        self.size, self.name = self.file.size, self.file.name
        return self.file

    def begin(self, name: str, start: int) -> None:
        """The target is about to take the file, from the byte `start` on."""
        if start:
            self.screen.say(f"{name}: going on at {amount(start)}.")
        self.done = self.start = start
        self.screen.begin(name, start, self.size)

    def blocks(self, start: int) -> Iterator[memoryview]:
        """The file's bytes. A block has been taken when the next one is asked for."""
        for block in self.download().blocks(start):
            self.check()
            yield block
            self.move(len(block))
        self.check()

    def insist(self, call: Callable[[], Any]) -> Any:
        return insist(call, self.sleep)

    def move(self, count: int) -> None:
        self.done += count
        self.moved += count
        self.screen.moved(count)


# Targets ----------------------------------------------------------------------
# Where files go. A new kind of target is one class here.


class Target:
    """`start` of its address tells the kind of a target. `reads_back` is whether
    --verify can be done."""

    start: ClassVar[str]
    reads_back = True

    def __init__(self, address: str) -> None:
        """:raises Problem: the address is not right."""
        self.address = address

    def ready(self) -> None:
        """:raises TargetAway: it takes nothing now."""

    def check(self, file: Download, have: int = 0) -> None:
        """:raises Failed: it cannot take this file, of which it has some bytes."""

    def send(self, transfer: Transfer) -> None:
        """Bring the file there, under its name when it is whole.

        :raises Failed: it cannot be. :raises TargetAway: not now.
        :raises Changed: it must begin again.
        """

    def discard(self, transfer: Transfer) -> None:
        """Remove what there is of a file that is not to come."""

    def close(self) -> None:
        """After each item, since the next one may be long in coming."""


def check_digests(
    file: Download, received: "hashlib._Hash | None", read_back: bytes | None
) -> None:
    """:raises Failed: what arrived, or what was written, is not what was sent."""
    arrived = received.digest() if received else None
    expected = file.digest or arrived
    if arrived != expected and arrived is not None:
        raise Failed("What arrived is not what the server has: the digests differ.")
    if read_back != expected and read_back is not None:
        raise Failed("What was written reads back differently. Is the card worn out?")


FOUR_GIB = 2**32
FULL = (errno.ENOSPC, errno.EDQUOT)
BAD_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
FAT_SAYS = (
    "The folder is on a FAT32 card, which takes no file of 4 GiB or more. Format it"
    " as exFAT, or send this file by ftp: or lan:."
)


class Folder(Target):
    """A mounted SD card, or a share."""

    start = "folder:"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.folder = os.path.expanduser(address.removeprefix(self.start))
        if not self.folder:
            raise Problem("Which folder? Say --to folder:PATH.")

    def ready(self) -> None:
        if not os.path.isdir(self.folder):
            raise TargetAway(f"There is no folder {self.folder}. Is the card in?")
        if not os.access(self.folder, os.W_OK):
            raise TargetAway(f"The folder {self.folder} cannot be written to.")

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def check(self, file: Download, have: int = 0) -> None:
        if file.size is None:
            return
        if file.size >= FOUR_GIB and file_system(self.folder) in ("vfat", "msdos"):
            raise Failed(FAT_SAYS)
        free, needed = shutil.disk_usage(self.folder).free, file.size - have
        if needed > free:
            raise Failed(
                f"{self.folder} has room for {amount(free)}, and the file needs"
                f" {amount(needed)}."
            )

    def send(self, transfer: Transfer) -> None:
        file = transfer.download()
        try:
            if not self._was_sent(transfer, file):
                self._send(transfer, file)
        except OSError as error:
            raise self._explained(error) from error

    def _was_sent(self, transfer: Transfer, file: Download) -> bool:
        """Whether it was, by a run that ended before it could say so."""
        path = self.path(file.name)
        return (
            transfer.state.sent == transfer.item.id
            and not os.path.exists(f"{path}.part")
            and os.path.isfile(path)
            and os.path.getsize(path) == file.size
        )

    def _send(self, transfer: Transfer, file: Download) -> None:
        path = self.path(file.name)
        start = self._have(transfer, file, f"{path}.part")
        self.check(file, start)
        transfer.state.begin(file.name, file.tag)
        transfer.begin(file.name, start)
        with open(f"{path}.part", "r+b" if start else "wb") as part:
            received = self._copy(transfer, file, part, start)
            part.flush()
            os.fsync(part.fileno())
            size = os.fstat(part.fileno()).st_size
        if size != transfer.done:
            raise Failed(f"{self.folder} has {size} of {transfer.done} bytes.")
        read_back = self._read_back(f"{path}.part") if transfer.verify else None
        check_digests(file, received, read_back)
        transfer.state.mark_sent(transfer.item.id)
        os.replace(f"{path}.part", path)

    @staticmethod
    def _have(transfer: Transfer, file: Download, part: str) -> int:
        """How much of this very file there is from an earlier run."""
        if not file.tag or transfer.state.parts.get(file.name) != file.tag:
            return 0
        have = os.path.getsize(part) if os.path.exists(part) else 0
        return have if have <= (file.size or 0) else 0

    @staticmethod
    def _copy(
        transfer: Transfer, file: Download, part: BinaryIO, start: int
    ) -> "hashlib._Hash | None":
        """Write the rest; the digest of all, if it is needed."""
        digest = hashlib.sha256() if file.digest or transfer.verify else None
        left = start if digest else 0
        while digest and left and (block := part.read(min(left, BLOCK))):
            digest.update(block)
            left -= len(block)
            transfer.check()
        part.seek(start)
        for piece in transfer.blocks(start):
            part.write(piece)
            if digest:
                digest.update(piece)
        return digest

    @staticmethod
    def _read_back(path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):  # from the card, not from memory
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return hashlib.file_digest(file, "sha256").digest()

    def _explained(self, error: OSError) -> Problem:
        if error.errno in FULL:
            return Failed(f"{self.folder} is full.")
        if error.errno == errno.EFBIG:
            return Failed(FAT_SAYS)
        if error.errno in BAD_NAME:
            return Failed(f"{self.folder} refuses the file's name: {error.strerror}.")
        return TargetAway(f"{self.folder} cannot be written: {error.strerror}.")

    def discard(self, transfer: Transfer) -> None:
        with contextlib.suppress(OSError):  # it is not there, or the card is out
            os.unlink(self.path(f"{transfer.name}.part"))


def file_system(folder: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Its kind, such as "vfat"; "" where the system does not tell."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
        device = os.stat(folder).st_dev
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = [row[row.index("-") + 1] for row in rows if row[2] == number]
    return kinds[0] if kinds else ""


FTP_PORT = 5000  # where Sphaira listens
FTP_TRIES = 5  # without a byte that counts
INSTALL = "install:"  # Sphaira's folder that installs what is written to it
HOMEBREW = "/switch"  # where .nro files go instead
FTP_FINISH = 120.0  # seconds that a console may take to finish a file
FULL_SAYS = re.compile(r"^[45]52|no space|disk full|quota", re.IGNORECASE)
PASSING = ("421", "425", "426", "450", "451")  # replies after which it may go on


class FTP(Target):
    """A console's FTP server, or any other. A folder whose name ends in a colon is
    not on a disk: what is written to it is used at once, and cannot be gone on with."""

    start = "ftp://"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        parts = split_address(address)
        if not parts.hostname:
            raise Problem("Which console? Say --to ftp://HOST[:PORT]/FOLDER.")
        self.host = parts.hostname
        self.port = parts.port or FTP_PORT
        self.user = urllib.parse.unquote(parts.username or "anonymous")
        self.password = urllib.parse.unquote(parts.password or "")
        folder = urllib.parse.unquote(parts.path or INSTALL)
        self.folder = "/" + folder.strip("/")
        self.reads_back = not self.folder.endswith(":")
        self.where = f"{self.host}:{self.port}"
        self._ftp: ftplib.FTP | None = None

    def ready(self) -> None:
        self._session(self.folder)

    def _session(self, folder: str) -> ftplib.FTP:
        """A connection that is in the folder.

        :raises TargetAway: there is none to be had.
        """
        try:
            if self._ftp is None:
                self._ftp = ftplib.FTP(timeout=TIMEOUT)
                self._ftp.connect(self.host, self.port)
                self._ftp.login(self.user, self.password)
                self._ftp.voidcmd("TYPE I")
            self._enter(self._ftp, folder)
        except ftplib.all_errors as error:
            self.close()
            message = f"The console's FTP at {self.where} is away: {reason(error)}."
            raise TargetAway(message) from error
        return self._ftp

    @staticmethod
    def _enter(ftp: ftplib.FTP, folder: str) -> None:
        try:
            ftp.cwd(folder)
        except ftplib.error_perm:
            if folder != HOMEBREW:
                raise
            ftp.mkd(folder)
            ftp.cwd(folder)

    def close(self) -> None:
        if self._ftp:
            self._ftp.close()
        self._ftp = None

    def send(self, transfer: Transfer) -> None:
        file = transfer.download()
        pauses, tries, best = backoff(), 0, 0
        while True:
            try:
                return self._send(transfer, file)
            except (Dropped, TargetAway) as problem:
                self.close()
                transfer.check()
                tries = tries + 1 if transfer.start <= best else 1
                best = max(best, transfer.start)
                if tries >= FTP_TRIES:
                    raise given_up(problem, tries) from problem
            except BaseException:
                self.close()
                raise
            transfer.sleep(next(pauses))

    def _send(self, transfer: Transfer, file: Download) -> None:
        folder = self._folder_of(file.name)
        ftp = self._session(folder)
        assert ftp.sock
        with ftp_problems(file.name), transfer.guard(ftp.sock):
            if not folder.endswith(":"):
                self._send_part(transfer, file, ftp)
            elif transfer.state.sent != transfer.item.id:
                self._store(transfer, ftp, file.name, 0, self._digest(transfer, 0))
                transfer.state.mark_sent(transfer.item.id)

    def _folder_of(self, name: str) -> str:
        return HOMEBREW if name.lower().endswith(".nro") else self.folder

    def _send_part(self, transfer: Transfer, file: Download, ftp: ftplib.FTP) -> None:
        part = f"{file.name}.part"
        have = ftp_size(ftp, part)
        if transfer.state.sent == transfer.item.id and have is None:
            return  # the last run ended before it could say that all is there
        start = self._start(transfer, file, ftp, have or 0)
        transfer.state.begin(file.name, file.tag)
        digest = self._digest(transfer, start)
        self._store(transfer, ftp, part, start, digest)
        self._check_size(ftp, part, transfer.done)
        read_back = ftp_digest(transfer, ftp, part) if transfer.verify else None
        check_digests(file, digest, read_back)
        transfer.state.mark_sent(transfer.item.id)
        ftp_rename(ftp, part, file.name)

    @staticmethod
    def _start(transfer: Transfer, file: Download, ftp: ftplib.FTP, have: int) -> int:
        """The byte to go on from, 0 where that cannot be."""
        is_ours = bool(file.tag) and transfer.state.parts.get(file.name) == file.tag
        can_be_checked = bool(file.digest) or not transfer.verify
        if not is_ours or not can_be_checked or not 0 < have <= (file.size or 0):
            return 0
        try:
            ftp.sendcmd(f"REST {have}")
        except ftplib.error_perm:
            return 0
        return have

    @staticmethod
    def _digest(transfer: Transfer, start: int) -> "hashlib._Hash | None":
        """To digest what is sent, where that is all of the file."""
        needed = transfer.download().digest or transfer.verify
        return hashlib.sha256() if needed and not start else None

    def _store(
        self,
        transfer: Transfer,
        ftp: ftplib.FTP,
        name: str,
        start: int,
        digest: "hashlib._Hash | None",
    ) -> None:
        transfer.begin(transfer.download().name, start)
        data = self._opened(ftp, name, start)
        with data, transfer.guard(data):
            for block in transfer.blocks(start):
                self._put(ftp, data, block)
                if digest:
                    digest.update(block)
        assert ftp.sock
        ftp.sock.settimeout(FTP_FINISH)
        ftp.voidresp()

    @staticmethod
    def _opened(ftp: ftplib.FTP, name: str, start: int) -> socket.socket:
        try:
            return ftp.transfercmd(f"STOR {name}", start or None)
        except ftplib.error_perm as error:
            if name.endswith(".part"):
                raise
            hint = f"The console takes nothing now: {error}. Is its FTP install open?"
            raise TargetAway(hint) from error

    @staticmethod
    def _put(ftp: ftplib.FTP, data: socket.socket, block: memoryview) -> None:
        """Send a block. Where that fails, the console says why, or nothing."""
        try:
            data.sendall(block)
        except OSError as error:
            assert ftp.sock
            ftp.sock.settimeout(5)
            ftp.voidresp()
            raise Dropped(reason(error)) from error

    @staticmethod
    def _check_size(ftp: ftplib.FTP, part: str, expected: int) -> None:
        size = ftp_size(ftp, part)
        if size not in (None, expected):
            raise Dropped(f"it has {size} of {expected} bytes")

    def discard(self, transfer: Transfer) -> None:
        """Also where the connection broke: then it takes a new one."""
        folder = self._folder_of(transfer.name)
        if folder.endswith(":"):
            return
        with contextlib.suppress(TargetAway, *ftplib.all_errors):  # it is not there
            self._session(folder).delete(f"{transfer.name}.part")


@contextlib.contextmanager
def ftp_problems(name: str) -> Iterator[None]:
    """Turns what an FTP server says, or that it says nothing, into our problems."""
    try:
        yield
    except (ftplib.error_perm, ftplib.error_temp) as error:
        if FULL_SAYS.search(str(error)):
            raise Failed(f"The console is full: {error}") from error
        if str(error)[:3] in PASSING:
            raise Dropped(str(error)) from error
        raise Failed(f"The console refuses {name}: {error}") from error
    except ftplib.all_errors as error:
        raise Dropped(reason(error)) from error


def given_up(problem: Problem, tries: int) -> Problem:
    if isinstance(problem, TargetAway):
        return problem
    return Failed(f"The console broke off {tries} times: {problem} Is its card full?")


def ftp_size(ftp: ftplib.FTP, name: str) -> int | None:
    """None where there is no such file, or the server does not tell."""
    try:
        return ftp.size(name)
    except ftplib.error_perm:
        return None


def ftp_digest(transfer: Transfer, ftp: ftplib.FTP, name: str) -> bytes:
    """Of a file, read back."""
    digest = hashlib.sha256()

    def take(block: bytes) -> None:
        transfer.check()
        digest.update(block)

    ftp.retrbinary(f"RETR {name}", take, BLOCK)
    return digest.digest()


def ftp_rename(ftp: ftplib.FTP, part: str, name: str) -> None:
    """Some servers do not rename over a file that is there."""
    try:
        ftp.rename(part, name)
    except ftplib.error_perm:
        ftp.delete(name)
        ftp.rename(part, name)


LAN_PORT = 2000
LOOK = 1.0  # seconds between two looks at what the console has taken
CHOOSING = 600.0  # seconds that a person may take to choose on the console
QUIET = 120.0  # seconds that a console may ask for nothing
ENOUGH = 0.98  # of the bytes: installers pass over some that they do not need


class LAN(Target):
    """A console that pulls: it is told an address of the file, and asks the server
    for it. How far it is, the server tells; it never says whether it succeeded."""

    start = "lan://"
    reads_back = False

    def __init__(self, address: str) -> None:
        super().__init__(address)
        parts = split_address(address)
        if not parts.hostname:
            raise Problem("Which console? Say --to lan://HOST.")
        self.place = (parts.hostname, parts.port or LAN_PORT)
        self._line: socket.socket | None = None

    def ready(self) -> None:
        self._connected()

    def _connected(self) -> socket.socket:
        try:
            if self._line is None:
                self._line = socket.create_connection(self.place, TIMEOUT)
        except OSError as error:
            where = "{}:{}".format(*self.place)
            message = f"The console at {where} does not wait for files: {reason(error)}"
            raise TargetAway(f"{message}. Open its LAN install.") from error
        return self._line

    def close(self) -> None:
        if self._line:
            self._line.close()
        self._line = None

    def send(self, transfer: Transfer) -> None:
        if transfer.state.sent == transfer.item.id:
            return  # the last run ended before it could say so
        line = self._connected()
        address = transfer.insist(lambda: transfer.server.item_address(transfer.item))
        transfer.begin(urllib.parse.unquote(address.rpartition("/")[2]), 0)
        told = f"{for_console(address, line)}\n".encode()
        with transfer.guard(line):
            try:
                line.sendall(struct.pack(">I", len(told)) + told)
            except OSError as error:
                raise TargetAway(f"The console hung up: {reason(error)}.") from error
            self._follow(transfer, line)
        transfer.state.mark_sent(transfer.item.id)

    def _follow(self, transfer: Transfer, line: socket.socket) -> None:
        """Until the console is done. :raises Failed: it did not take the file."""
        count = Count(transfer)
        heard = time.monotonic()
        while not self._has_ended(line):
            transfer.check()
            with contextlib.suppress(ServerAway):  # the console knows before we do
                if count.look():
                    heard = time.monotonic()
            if time.monotonic() > heard + (QUIET if transfer.done else CHOOSING):
                break
        transfer.check()
        enough = ENOUGH * (transfer.size or 0)
        transfer.insist(count.look)
        if transfer.done < enough:  # what left last may not have been counted yet
            transfer.sleep(LOOK)
            transfer.insist(count.look)
        if transfer.done < enough:
            raise Failed(
                f"The console ended after {amount(transfer.done)} of"
                f" {amount(transfer.size or 0)}. Its screen may say why."
            )

    @staticmethod
    def _has_ended(line: socket.socket) -> bool:
        line.settimeout(LOOK)
        try:
            line.recv(1)  # a byte, after failures too, or nothing: it has hung up
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


class Count:
    """Adds up what the server has served. A server that was restarted begins anew."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.before = 0
        self.last = 0

    def look(self) -> bool:
        """Whether it is more than it was."""
        now = self.transfer.server.served(self.transfer.item)
        if now < self.last:
            self.before += self.last
        self.last = now
        more = self.before + now - self.transfer.done
        self.transfer.move(max(more, 0))
        return more > 0


def for_console(address: str, line: socket.socket) -> str:
    """The address as the console can use it: with a number for the host, since it may
    not resolve names, and, as other senders write it, without its scheme."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme != "http":
        return address
    try:
        found = socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
        host = str(min(found)[4][0])  # version 4 before version 6
    except OSError:
        host = parts.hostname or ""
    if host == "::1" or host.startswith("127."):  # here, so it is this machine's own
        host = line.getsockname()[0]
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or 80}{parts.path}"


TARGETS: tuple[type[Target], ...] = (Folder, FTP, LAN)


def find_target(address: str) -> Target:
    """:raises Problem: it is none."""
    for kind in TARGETS:
        if address.startswith(kind.start):
            return kind(address)
    ways = "folder:PATH, ftp://HOST[:PORT]/FOLDER or lan://HOST"
    raise Problem(f"Where to? Say --to with {ways}.")


# Sender -----------------------------------------------------------------------
# The queue, item by item: what fails is told and does not stop the rest.

AWAYS = 5  # times that a target may be away for one item before the item fails


class Sender:
    def __init__(
        self, server: Server, target: Target, state: State, settings: Settings
    ) -> None:
        self.server = server
        self.target = target
        self.state = state
        self.settings = settings
        self.screen = Screen()
        self.failures = 0
        self._aways: dict[str, int] = {}  # by item

    def run(self, once: bool) -> None:
        """Send what there is; and, unless `once`, what comes.

        :raises Problem: it cannot go on.
        """
        pauses = backoff(POLL)
        while True:
            try:
                if self.step():
                    pauses = backoff(POLL)
                    continue
                if once:
                    return
                pauses, pause = backoff(POLL), POLL
                self.screen.say("Waiting for something to send.")
            except Away as problem:
                if once:
                    raise
                pause = next(pauses)
                self.screen.say(f"{problem} Trying again.")
            time.sleep(pause)

    def step(self) -> bool:
        """Send the first item that may be; False where there is none.

        :raises Away: the server or the target is.
        """
        with contextlib.closing(self.target):
            for item in self.server.queue(self.state.client):
                self.target.ready()
                if self._claim(item):
                    self._send(item)
                    return True
        return False

    def _claim(self, item: Item) -> bool:
        """Whether the item is ours now. Another client may have been faster."""
        fields = {"progress_percent": 0, "bytes_transferred": 0}
        try:
            self._report(item, status="processing", **fields)
        except Cancelled:
            return False
        return True

    def _report(self, item: Item, **fields: Any) -> None:
        self.server.report(item, self.state.client, **fields)

    def _send(self, item: Item) -> None:
        transfer = Transfer(
            self.server, item, self.state, self.screen, self.settings.verify
        )
        self.screen.say(f"{item.name}: sending {amount(item.size)}.")
        began = time.monotonic()
        try:
            with transfer:
                self._deliver(transfer)
            self._completed(transfer, time.monotonic() - began)
        except Cancelled as problem:
            self._ended(transfer, f"stopped: {problem}")
        except Failed as problem:
            self.failures += 1
            self._ended(transfer, f"failed: {problem}", error=str(problem))
        except BadKey:
            raise
        except BaseException:
            self._release(item)
            raise

    def _deliver(self, transfer: Transfer, tries: int = 3) -> None:
        try:
            self.target.send(transfer)
        except Changed as changed:
            if tries == 1:
                raise Failed(f"{changed} It was so three times.") from changed
            transfer.file = None
            self._deliver(transfer, tries - 1)
        except TargetAway as away:
            self._count_away(transfer.item, away)
            raise

    def _count_away(self, item: Item, problem: TargetAway) -> None:
        """:raises Failed: it may be the item that is at fault."""
        self._aways[item.id] = self._aways.get(item.id, 0) + 1
        if self._aways[item.id] >= AWAYS:
            raise Failed(str(problem)) from problem

    def _completed(self, transfer: Transfer, seconds: float) -> None:
        item, size = transfer.item, transfer.size or transfer.done
        done = {"progress_percent": 100, "bytes_transferred": size}
        self._tell_end(item, status="completed", **done)
        self._forget(transfer)
        took = f"{amount(size)} in {duration(seconds)}"
        self.screen.say(f"{item.name}: sent, {took}.")
        self._on_done(transfer, "completed")

    def _ended(self, transfer: Transfer, text: str, error: str = "Stopped.") -> None:
        self.target.discard(transfer)
        self._tell_end(transfer.item, status="failed", error_message=error[:500])
        self._forget(transfer)
        self.screen.say(f"{transfer.item.name}: {text}")
        self._on_done(transfer, "failed")

    def _forget(self, transfer: Transfer) -> None:
        self.state.forget(transfer.name)

    def _tell_end(self, item: Item, **fields: Any) -> None:
        """Tell the server, however long it takes until it is there to be told."""

        def tell() -> None:
            with contextlib.suppress(Cancelled):  # it is not in the queue any more
                self._report(item, **fields)

        insist(tell, time.sleep, lambda away: self.screen.say(f"{away} Trying again."))

    def _release(self, item: Item) -> None:
        """Put the item back. Where the server cannot be told, it does so by itself
        when it has heard nothing for a while, or when this client asks again."""
        with contextlib.suppress(Problem):
            self._report(item, release=True)
            self.screen.say(f"{item.name}: put back into the queue.")

    def _on_done(self, transfer: Transfer, status: str) -> None:
        """Run the person's command. It tells in the environment what was done."""
        if not self.settings.on_done:
            return
        told = {
            "SEND_TO_SWITCH_NAME": transfer.item.name,
            "SEND_TO_SWITCH_STATUS": status,
            "SEND_TO_SWITCH_TARGET": self.target.address,
        }
        try:
            subprocess.run(
                self.settings.on_done,
                shell=True,
                check=True,
                env={**os.environ, **told},
                timeout=PATIENCE,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.screen.say(f"--on-done: {error}")

    def preview(self) -> None:
        """Say what would be done, and do nothing."""
        items = self.server.queue(self.state.client)
        self.screen.say(f"{len(items)} to send to {self.target.address}.")
        try:
            with contextlib.closing(self.target):
                self.target.ready()
        except TargetAway as problem:
            self.screen.say(str(problem))
        for item in items:
            try:
                file = Download(self.server, item, Watched())
                self.target.check(file)
                self.screen.say(f"{file.name}: {amount(file.size or 0)}.")
            except (Failed, Trouble) as problem:
                self.screen.say(f"{item.name}: would fail: {problem}")


# Commands ---------------------------------------------------------------------
# The command line. A problem is one line on standard error, and an exit code.


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=SECTION,
        description="Bring what was queued on catalogd's page to the console.",
        epilog="Exit codes: 0 all is sent, 1 an item failed, 2 a mistake in the"
        " settings, 3 the key is refused, 4 the server or the target is away (with"
        " --once), 130 Ctrl-C. Each option is also an environment variable, such as"
        " SEND_TO_SWITCH_SERVER, and a key of the INI file"
        f" {usual_ini()}, in the section [{SECTION}].".replace("%", "%%"),
    )
    top.add_argument(
        "command", nargs="?", choices=["login"], help="ask for a key, and keep it"
    )
    for field in dataclasses.fields(Settings):
        name = f"--{field.name.replace('_', '-')}"
        rules: dict[str, Any] = {"help": field.metadata["help"]}
        if field.type is bool:
            rules["action"] = "store_true"
        else:
            rules["metavar"] = field.metadata["metavar"]
        top.add_argument(name, **rules)
    top.add_argument("--config", metavar="FILE", help="another INI file")
    top.add_argument("--once", action="store_true", help="end when the queue is empty")
    top.add_argument("--dry-run", action="store_true", help="only say what would be")
    top.add_argument("--version", action="version", version=f"{SECTION} {__version__}")
    return top


def login(settings: Settings, ini: str) -> None:
    """Ask for a key, and keep it and the server's address."""
    address = server_address(
        settings.server or input("Address of catalogd, such as http://pi.local:6069: ")
    )
    name = input("Name: ")
    password = getpass.getpass("Password: ")
    with contextlib.closing(Server(address)) as server:
        key = server.login(name, password)
    path = settings.key_file or usual_key_file()
    try:
        write_private(os.path.abspath(path), key + "\n")
        keep_server(ini, address)
    except OSError as error:
        raise Problem(
            f"{error.filename}: cannot be written: {error.strerror}"
        ) from error
    print(f"The key is in {path}. Now run '{SECTION} --to TARGET'.")


def keep_server(ini: str, address: str) -> None:
    """Write the server's address into the INI file, beside what is there."""
    found = configparser.ConfigParser(interpolation=None)
    found[SECTION] = {**read_ini(ini), "server": address}
    os.makedirs(os.path.dirname(os.path.abspath(ini)), exist_ok=True)
    with open(ini, "w", encoding="utf-8") as file:
        found.write(file)


def run(args: argparse.Namespace, settings: Settings) -> int:
    address = server_address(settings.server)
    target = find_target(settings.to)
    if settings.verify and not target.reads_back:
        raise Problem(f"Nothing can be read back from {settings.to}. Omit --verify.")
    state = State(settings.state or own_folder("state"), address, settings.to)
    with contextlib.closing(Server(address, read_key(settings))) as server:
        sender = Sender(server, target, state, settings)
        if args.dry_run:
            sender.preview()
            return 0
        with state.exclusive():
            sender.screen.say(f"From {address} to {settings.to}. Stop with Ctrl-C.")
            sender.run(args.once)
    return Failed.exit_code if sender.failures else 0


def main(argv: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        args = parser().parse_args(argv)
        ini = args.config or usual_ini()
        settings = Settings.find(vars(args), ini)
        if args.command == "login":
            login(settings, ini)
            return 0
        return run(args, settings)
    except BadKey:
        message = f"The server refuses the key. Get a new one with '{SECTION} login'."
        print(f"{SECTION}: {message}", file=sys.stderr)
        return BadKey.exit_code
    except Problem as problem:
        print(f"{SECTION}: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
