#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["platformdirs>=2.6"]
# ///
"""send-to-switch: sends the entries of catalogd's send queue to a console.

It runs on any machine of the LAN, with Python alone: platformdirs and tqdm are used
where they are installed. The sections, in order; each uses only those above it when
the module loads:

Problems   what can go wrong, each with its exit code
Settings   the command line, the environment and the INI file, in order of precedence
Names      file names, sizes, and the headers that describe a file
State      what outlives the program: its client name and its unfinished files
Server     the calls of the interface
Screen     lines of text, and a progress bar
Progress   how far a transfer is, whether to go on, and pauses between attempts
Downloads  a file from any byte on, across drops and restarts
Targets    where the client puts files: a folder, an FTP server, a network installer
Transfers  the copy of one queue item's file, its progress reported by a thread
Sender     the queue, item by item
Commands   the command line
"""

import abc
import argparse
import base64
import collections
import configparser
import contextlib
import dataclasses
import errno
import ftplib
import getpass
import hashlib
import http.client
import importlib
import io
import json
import math
import os
import pathlib
import re
import secrets
import select
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
from typing import Any, ClassVar, NamedTuple, TextIO, TypeVar

__version__ = "0.1.0"

PROGRAM = "send-to-switch"
POLL_SECONDS = 3.0  # between two calls for the queue
REPORT_SECONDS = 2.0  # between two reports of progress
TIMEOUT_SECONDS = 30.0  # that a socket may be silent
CHUNK_BYTES = 1024 * 1024
Address = urllib.parse.SplitResult
Response = http.client.HTTPResponse
Result = TypeVar("Result")


# Problems ---------------------------------------------------------------------
# What can go wrong. `str()` of each is a message to a person.


class Problem(Exception):
    """A mistake in the settings."""

    exit_code = 2


class BadKey(Problem):
    """The server refuses the key."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__(f"The server refuses the key. Run '{PROGRAM} login'.")


class Away(Problem):
    """The server or the target cannot be reached now; no item is at fault."""

    exit_code = 4


class ServerAway(Away):
    """The server cannot be reached now. The client waits as long as it takes."""


class FileAway(ServerAway):
    """The server answers but does not give the file, or the host of a link is away."""


class TargetAway(Away):
    """The target takes no file now."""


class Failed(Problem):
    """This item cannot be sent; others may."""

    exit_code = 1


class Interrupted(Failed):
    """The copy broke off. Another attempt, which asks for the file again, may do."""


class Cancelled(Problem):
    """The item is not, or no longer, this client's to send."""


# Settings ---------------------------------------------------------------------
# A field is an option of the command line, the environment and the INI file.

INI_FILE = f"{PROGRAM}.ini"
KEY_FILE = "key"
TRUE = ("true", "yes", "on", "1")


def option(help: str, metavar: str = "") -> Any:
    """:param metavar: what its value is; none is needed for a switch."""
    kind = {"metavar": metavar} if metavar else {"action": "store_true"}
    default = "" if metavar else False
    return dataclasses.field(default=default, metadata={"help": help, **kind})


@dataclasses.dataclass(frozen=True)
class Settings:
    server: str = option("address of catalogd, such as http://pi.local:6069", "URL")
    key_file: str = option("file with the API key (login writes one)", "FILE")
    to: str = option("folder:PATH, ftp://HOST[:PORT]/FOLDER or lan://HOST", "TARGET")
    on_done: str = option("command to run after each item", "CMD")
    verify: bool = option("read each file back from the target")
    state: str = option("folder for the program's state", "DIR")

    @classmethod
    def load(cls, options: Mapping[str, Any], ini: str) -> "Settings":
        """Return the value of each option from the command line, or else from the
        environment, or else from the INI file.

        :raises Problem: the INI file is wrong.
        """
        values = read_ini(ini)
        for field in dataclasses.fields(cls):
            name = f"SEND_TO_SWITCH_{field.name.upper()}"
            if value := options.get(field.name) or os.environ.get(name):
                values[field.name] = value
        values["verify"] = str(values.get("verify", "")).lower() in TRUE
        return cls(**values)


def read_ini(path: str) -> dict[str, Any]:
    """Return the options in an INI file, none where there is no file.

    :raises Problem: it is not an INI file, or has an unknown option.
    """
    ini = configparser.ConfigParser(interpolation=None)
    try:
        ini.read(path, encoding="utf-8-sig")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from error
    values = dict(ini[PROGRAM]) if ini.has_section(PROGRAM) else {}
    for name in values:
        if name not in Settings.__dataclass_fields__:
            raise Problem(f"{path}: unknown option {name}.")
    return values


def import_optional(name: str) -> Any:
    """Return a module, or None where it is not installed."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    return None


def own_folder(kind: str) -> str:
    """Return the program's folder for its "config" or its "state"."""
    if platformdirs := import_optional("platformdirs"):
        folder_of = getattr(platformdirs, f"user_{kind}_dir")
        return str(folder_of(PROGRAM, appauthor=False))
    home = os.path.expanduser(os.path.join("~", f".{PROGRAM}"))
    return os.environ.get("APPDATA", home) if kind == "config" else home


def config_path(name: str) -> str:
    return os.path.join(own_folder("config"), name)


def write_private(path: str, text: str) -> None:
    """Replace a file, atomically, by one that only its owner may read.

    :raises Problem: it cannot be written.
    """
    path = os.path.realpath(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.new")
        with open(os.open(f"{path}.new", flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise Problem(f"{path}: cannot be written: {error.strerror}.") from error


def server_address(text: str) -> str:
    """Return the address without a slash at its end.

    :raises Problem: it is not a web address.
    """
    if not text:
        raise Problem(f"No server given. Use --server URL, or '{PROGRAM} login'.")
    split_address(text, "http", "https")
    return text.rstrip("/")


def split_address(text: str, *schemes: str) -> Address:
    """:raises Problem: it is not an address with a host and one of the schemes."""
    try:
        parts = urllib.parse.urlsplit(text)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise Problem(f"{text!r} is not an address: {error}.") from error
    if parts.scheme not in schemes or not parts.hostname:
        raise Problem(f"{text!r} is not an address such as {schemes[0]}://HOST.")
    return parts


def read_key(settings: Settings) -> str:
    """Return the API key of the environment, or else of the key file.

    :raises Problem: there is none.
    """
    place, key = "SEND_TO_SWITCH_KEY", os.environ.get("SEND_TO_SWITCH_KEY")
    if not key:
        place = settings.key_file or config_path(KEY_FILE)
        try:
            key = pathlib.Path(place).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            hint = f"Run '{PROGRAM} login', or use --key-file."
            raise Problem(f"There is no key in {place}. {hint}") from error
    if not re.fullmatch(r"[!-~]+", key):
        raise Problem(f"{place} holds no API key.")
    return key


# Names ------------------------------------------------------------------------
# File names, sizes, and the headers that describe a file. Pure functions.

UNSAFE = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f]')  # on a FAT or exFAT card
MAX_NAME_BYTES = 240  # so that ".part" fits too


def safe_name(name: str) -> str:
    """Return a file name that an SD card takes. Different names stay different: a
    name that had to change carries a part of its digest."""
    name = unicodedata.normalize("NFC", name)
    stem, extension = os.path.splitext(UNSAFE.sub("_", name).strip(". ") or "_")
    room = MAX_NAME_BYTES - len(extension.encode())
    if shorten(stem, room) + extension == name:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{shorten(stem, room - 7)}-{mark}{extension}"


def shorten(text: str, size: int) -> str:
    """Return the start of a text, cut at a character to so many bytes of UTF-8."""
    return text.encode("utf-8", "replace")[: max(size, 1)].decode("utf-8", "ignore")


def disposition_name(header: str) -> str:
    """Return the file name in a Content-Disposition header (RFC 6266), or ""."""
    if match := re.search(r"filename\*=UTF-8''([^;\s]+)", header, re.IGNORECASE):
        return urllib.parse.unquote(match[1])
    match = re.search(r'filename="?([^";]+)', header, re.IGNORECASE)
    return match[1] if match else ""


def header_sha256(header: str) -> bytes | None:
    """Return the SHA-256 in a Repr-Digest header (RFC 9530), or None."""
    match = re.search(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/]{43}=):", header)
    return base64.b64decode(match[1]) if match else None


def with_extension(name: str, address: str) -> str:
    """Return the name of an entry, with the file extension of its address."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(address).path)
    extension = os.path.splitext(path)[1]
    return name if name.lower().endswith(extension.lower()) else name + extension


def size_text(count: float) -> str:
    """Return a number of bytes for a person, such as "2.1 GB"."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def duration_text(seconds: float) -> str:
    """Return a duration for a person, such as "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def printable(text: str) -> str:
    """Return a text as one line, in which nothing steers the terminal."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def error_text(error: BaseException) -> str:
    """Return the cause of a network error for a person."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# State ------------------------------------------------------------------------
# What outlives the program, also when it is killed.


class State:
    """A small JSON file for each pair of a server and a target.

    `client` identifies this client to the server, which gives an item to one client
    only, and gives it back to that client after a crash. `unfinished` has the
    validator of each unfinished file by its name. `sent` is the id of the queue item
    whose file is complete while the server does not know it yet.
    """

    def __init__(self, folder: str, server: str, target: str) -> None:
        name = hashlib.sha256(f"{server}\n{target}".encode()).hexdigest()[:16]
        self.path = os.path.join(folder, f"{name}.json")
        self.client = secrets.token_hex(8)
        self.unfinished: dict[str, str] = {}
        self.sent = ""
        self._load()

    def _load(self) -> None:
        """Read the file. One that is missing or damaged counts as empty."""
        damage = (OSError, ValueError, KeyError, TypeError)
        with contextlib.suppress(*damage), open(self.path, encoding="utf-8") as file:
            values = json.load(file)
            self.client, self.sent = str(values["client"]), str(values["sent"])
            self.unfinished = dict(values["parts"])

    def save(self) -> None:
        """:raises Problem: the file cannot be written."""
        values = {"client": self.client, "parts": self.unfinished, "sent": self.sent}
        write_private(self.path, json.dumps(values))

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let only one process send at a time. SQLite's lock works on every system,
        and ends with the process.

        :raises Problem: another process sends from this server to this target.
        """
        self.save()
        lock = sqlite3.connect(f"{self.path}.lock", timeout=0, isolation_level=None)
        with contextlib.closing(lock):
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise Problem(f"Another {PROGRAM} sends to this target.") from error
            yield

    def can_resume(self, name: str, validator: str) -> bool:
        """Return whether an unfinished file is of the version with this validator."""
        return bool(validator) and self.unfinished.get(name) == validator

    def begin(self, name: str, validator: str) -> None:
        """Note that there is an unfinished file of this version from now on."""
        if self.unfinished.get(name) != validator:
            self.unfinished[name] = validator
            self.save()

    def mark_sent(self, item: str) -> None:
        self.sent = item
        self.save()

    def forget(self, name: str) -> None:
        """Note that the item has ended, and that its file is no longer unfinished."""
        self.unfinished.pop(name, None)
        self.sent = ""
        self.save()


# Server -----------------------------------------------------------------------
# The calls of the interface, over one connection.

NETWORK_ERRORS = (OSError, http.client.HTTPException)


class Item(NamedTuple):
    """A queue item, as far as the client needs it, with the interface's names."""

    queue_item_id: str
    entry_id: str
    entry_name: str
    entry_source: str
    entry_size: int  # bytes, 0 where unknown


class Answer(NamedTuple):
    status: int
    etag: str
    json: dict[str, Any]  # empty where the body is no JSON object


def json_object(text: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    return {}


def connection(parts: Address) -> http.client.HTTPConnection:
    """Return a connection to the host of an address, not yet opened."""
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    host = parts.hostname or ""
    return kinds[parts.scheme](host, parts.port, timeout=TIMEOUT_SECONDS)


class Server:
    """catalogd, for the calls of one thread."""

    def __init__(self, address: str, key: str = "") -> None:
        self.address = address
        self.key = key
        self._parts = urllib.parse.urlsplit(address)
        self._connection = connection(self._parts)
        self._etag = ""  # of the queue below
        self._queue: list[Item] = []
        self._is_over = False

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """End the call that another thread waits for, and refuse to repeat it."""
        self._is_over = True
        if self._connection.sock:
            hang_up(self._connection.sock)

    def key_header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Return the JSON of a successful answer.

        :raises ServerAway, BadKey, Cancelled, Failed: by the status of any other.
        """
        return self._checked(self._send(method, path, body))

    def _send(self, method: str, path: str, body: Any = None, etag: str = "") -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.key_header()}
        if etag:
            headers["If-None-Match"] = etag
        while True:
            is_new = self._connection.sock is None
            try:
                self._connection.request(method, self._parts.path + path, data, headers)
                answer = self._connection.getresponse()
                found = json_object(answer.read())
                return Answer(answer.status, answer.headers.get("ETag", ""), found)
            except NETWORK_ERRORS as error:
                self._connection.close()
                if is_new or self._is_over:  # else an idle connection was closed
                    message = f"{self.address} cannot be reached: {error_text(error)}."
                    raise ServerAway(message) from error

    def _checked(self, answer: Answer) -> dict[str, Any]:
        if answer.status == 200 and answer.json.get("success"):
            return answer.json
        if answer.status == 401:
            raise BadKey
        message = str(answer.json.get("message") or f"status {answer.status}")
        if answer.status >= 500:
            raise ServerAway(f"{self.address} cannot answer now: {message}.")
        raise Cancelled(message) if answer.status in (404, 409) else Failed(message)

    def queue(self, client: str) -> list[Item]:
        """Return the queue items to send, in their order."""
        path = f"/api/send-queue?client={client}"
        answer = self._send("GET", path, etag=self._etag)
        if answer.status != 304:
            rows = self._checked(answer).get("queue") or ()
            try:
                items = [Item(*[row[key] for key in Item._fields]) for row in rows]
            except (KeyError, TypeError) as error:
                message = f"{self.address} answers with a queue of an unknown form."
                raise Problem(message) from error
            self._etag, self._queue = answer.etag, items
        return self._queue

    def report(self, item: Item, client: str, **fields: Any) -> None:
        """:raises Cancelled: the item is not this client's to send."""
        body = {"queue_item_id": item.queue_item_id, "client": client, **fields}
        self.call("POST", "/api/send-queue/progress", body)

    def item_address(self, item: Item) -> str:
        """Return an address from which a console can download the item's file."""
        return str(self.call("POST", self._address_path(item))["address"])

    def served_bytes(self, item: Item) -> int:
        """Return how many bytes of the file that address has served."""
        return int(self.call("GET", self._address_path(item))["served"])

    @staticmethod
    def _address_path(item: Item) -> str:
        return f"/api/send-queue/{item.queue_item_id}/address"

    def login(self, name: str, password: str) -> str:
        """Return a new API key."""
        body = {"username": name, "password": password}
        return str(self.call("POST", "/api/auth/login", body)["api_key"])


def hang_up(sock: socket.socket) -> None:
    """End whatever another thread waits for on this socket."""
    with contextlib.suppress(OSError):  # it is closed already
        sock.shutdown(socket.SHUT_RDWR)


# Screen -----------------------------------------------------------------------
# A line for each event; on a terminal also a progress bar, where tqdm is installed.


class Screen:
    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._last = ""
        self._bar: Any = None

    def say(self, text: str) -> None:
        """Print a line, unless it repeats the last one. A character that the terminal
        cannot show becomes a question mark."""
        if text != self._last:
            self._last = text
            encoding = self.out.encoding or "utf-8"
            text = printable(text).encode(encoding, "replace").decode(encoding)
            print(text, file=self.out, flush=True)

    def start_progress(self, name: str, done: int, size: int | None) -> None:
        """Show from now on how far the file is. `size` is None where unknown."""
        self.end_progress()
        if (tqdm := import_optional("tqdm")) and self.err.isatty():
            tqdm.tqdm.monitor_interval = 0  # it would leave a thread behind
            form = {"unit": "B", "unit_scale": True, "leave": False, "ncols": 79}
            state = {"initial": done, "total": size, "file": self.err}
            self._bar = tqdm.tqdm(desc=printable(name), **state, **form)

    def advance(self, count: int, text: str) -> None:
        """Move the bar by so many bytes; on a terminal without one, say the text."""
        if self._bar is not None:
            self._bar.update(count)
        elif self.err.isatty():
            self.say(text)

    def end_progress(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


# Progress ---------------------------------------------------------------------
# What the thread that copies a file shares with the one that reports it, and pauses.

MAX_PAUSE_SECONDS = 30.0  # between two attempts


class Progress:
    """How far a transfer is, and whether to go on.

    The transfer moves it, while another thread reads it and may cancel. `start` is the
    byte at which the last attempt began, `done` the bytes that the target has, and
    `moved` the bytes that were copied since the program took the item.
    """

    def __init__(self, screen: Screen, size: int | None = None) -> None:
        self.screen = screen
        self.size = size  # bytes, None where unknown
        self.name = ""
        self.start = 0
        self.done = 0
        self.moved = 0
        self._problem: Problem | None = None
        self._sockets: set[socket.socket] = set()
        self._wake = threading.Event()

    def begin(self, name: str, start: int, size: int | None) -> None:
        """Note that an attempt is about to copy the file from the byte `start` on."""
        if start:
            self.screen.say(f"{name}: resuming at {size_text(start)}.")
        self.start = self.done = start
        self.name, self.size = name, size
        self.screen.start_progress(name, start, size)

    def add(self, count: int) -> None:
        self.done += count
        self.moved += count
        self.screen.advance(count, f"{self.name}: {self.percent() // 10 * 10} %")

    def percent(self) -> int:
        """Return how much of the file the target has, 0 where its size is unknown."""
        return min(100 * self.done // self.size, 100) if self.size else 0

    def cancel(self, problem: Problem) -> None:
        """End the transfer from another thread, whatever it waits for."""
        self._problem = problem
        self._wake.set()
        for sock in list(self._sockets):
            hang_up(sock)

    def check(self) -> None:
        """:raises Problem: the transfer was cancelled, for this reason."""
        if self._problem:
            raise self._problem

    def sleep(self, seconds: float) -> None:
        """Sleep until the time is over, or the transfer is cancelled."""
        self._wake.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def covering(self, sock: socket.socket) -> Iterator[None]:
        """Inside the block, let `cancel` hang up this socket, too."""
        self._sockets.add(sock)
        try:
            self.check()
            yield
        finally:
            self._sockets.discard(sock)


@dataclasses.dataclass
class Retry:
    """Attempts with pauses between them, each pause twice as long as the last.

    `sleep` waits for a number of seconds; it may raise to end the attempts.
    `max_failures` in a row are the end. A server that cannot be reached counts as none:
    the client waits for it as long as it takes. `say` gets the problem before a pause.
    """

    sleep: Callable[[float], None]
    max_failures: float = math.inf
    say: Callable[[str], None] = lambda text: None
    first_pause: float = 0.5
    failures: int = 0
    pause: float = 0.0

    def reset(self) -> None:
        """Begin with short pauses again, since there was progress."""
        self.failures, self.pause = 0, 0.0

    def wait(self, problem: Away | Interrupted) -> None:
        """Pause before the next attempt.

        :raises TargetAway, Failed: the problem, where it was the last attempt.
        """
        self.failures = 0 if type(problem) is ServerAway else self.failures + 1
        if self.failures >= self.max_failures:
            if isinstance(problem, TargetAway):
                raise problem
            raise Failed(f"{problem} Gave up after {self.failures} attempts.")
        self.say(f"{problem} Trying again.")
        self.pause = min(2 * self.pause or self.first_pause, MAX_PAUSE_SECONDS)
        self.sleep(self.pause)

    def call(self, function: Callable[[], Result]) -> Result:
        """Return the function's result, of the first attempt that has one."""
        while True:
            try:
                return function()
            except (Away, Interrupted) as problem:
                self.wait(problem)


# Downloads --------------------------------------------------------------------
# A file from any byte on. If-Range resumes it where the file has a validator.

MAX_STALLS = 15  # attempts without a byte, which take about five minutes
MAX_REDIRECTS = 10


class Download:
    """The file of a queue item, as the server gives it.

    `probe` sets the file's `name`, `size` in bytes (None where unknown), `validator`
    ("" where it has none) and `sha256` (None where unknown).
    """

    def __init__(self, server: Server, item: Item, progress: Progress) -> None:
        self.server = server
        self.item = item
        self.progress = progress
        self.url = f"{server.address}/api/download/{urllib.parse.quote(item.entry_id)}"
        self.name = ""
        self.size: int | None = item.entry_size or None
        self.validator = ""
        self.sha256: bytes | None = None

    def retry(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call to the server, waited for while it is away."""
        return Retry(self.progress.sleep, MAX_STALLS).call(call)

    def probe(self) -> None:
        """Ask the server for the facts above.

        :raises ServerAway, BadKey, Failed: the file cannot be downloaded now.
        """
        with self._open({"Range": "bytes=0-0"}) as response:
            headers = response.headers
            self.size = whole_size(response)
        self.validator = strong_validator(headers)
        self.sha256 = header_sha256(headers.get("Repr-Digest", ""))
        name = disposition_name(headers.get("Content-Disposition", ""))
        fallback = with_extension(self.item.entry_name, self.item.entry_source)
        self.name = safe_name(name or fallback)

    def begin(self, start: int) -> None:
        """Let the chunks begin at this byte."""
        self.progress.begin(self.name, start, self.size)

    def chunks(self) -> Iterator[memoryview]:
        """Yield the rest of the file, in a buffer that is used again. A chunk counts as
        done when the next one is asked for. A server that is away is waited for.

        :raises Interrupted: the file has changed, or its download cannot be resumed.
        :raises Failed: the server is there, and does not give the file.
        """
        buffer = memoryview(bytearray(CHUNK_BYTES))
        retry = Retry(self.progress.sleep, MAX_STALLS)
        while self.progress.done != self.size:
            try:
                for count in self._read(buffer):
                    yield buffer[:count]
                    self.progress.add(count)
                    retry.reset()
                return
            except ServerAway as problem:
                retry.wait(problem)

    def _read(self, buffer: memoryview) -> Iterator[int]:
        """Fill the buffer from one response, again and again, until it ends.

        :raises FileAway: it ended before the file.
        """
        start, headers = self.progress.done, {}
        if start and not self.validator:
            raise Interrupted("The download broke off, and cannot be resumed.")
        if start:
            headers = {"Range": f"bytes={start}-", "If-Range": self.validator}
        with self._open(headers) as response:
            span = response.headers.get("Content-Range", "")
            is_resumed = response.status == 206 and span.startswith(f"bytes {start}-")
            has_changed = strong_validator(response.headers) != self.validator
            if has_changed or (start and not is_resumed):
                raise Interrupted("The file has changed on the server.")
            with contextlib.suppress(*NETWORK_ERRORS):
                while count := response.readinto(buffer):
                    self.progress.check()
                    yield count
                if self.size is None:
                    return
        self.progress.check()
        if self.progress.done != self.size:
            raise FileAway("The download broke off.")

    @contextlib.contextmanager
    def _open(self, range_headers: dict[str, str]) -> Iterator[Response]:
        """Open the response that carries the file, after redirects. Only the server
        itself gets the key."""
        parts = own = urllib.parse.urlsplit(self.url)
        for _ in range(MAX_REDIRECTS):
            is_own = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
            key = self.server.key_header() if is_own else {}
            with self._request(parts, {**range_headers, **key}, is_own) as response:
                if response.status not in (301, 302, 303, 307, 308):
                    check_accepted(response, is_own)
                    yield response
                    return
            parts = redirect_address(parts, response.headers.get("Location", ""))
        raise Failed("The server redirects in a circle.")

    @contextlib.contextmanager
    def _request(
        self, parts: Address, headers: dict[str, str], is_own: bool
    ) -> Iterator[Response]:
        """:raises ServerAway: the host of the address is."""
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        with contextlib.closing(connection(parts)) as call:
            try:
                call.connect()
                sock = call.sock  # the connection forgets it when it is the last call
                with self.progress.covering(sock):
                    call.request("GET", path, headers=headers)
                    response = call.getresponse()
            except NETWORK_ERRORS as error:
                self.progress.check()
                kind = ServerAway if is_own else FileAway
                message = f"{parts.netloc} cannot be reached: {error_text(error)}."
                raise kind(message) from error
            with response, self.progress.covering(sock):
                yield response


def redirect_address(parts: Address, location: str) -> Address:
    """:raises Failed: the redirect does not lead to a web address."""
    location = urllib.parse.quote(location, safe="!#$%&'()*+,/:;=?@[]~")
    try:
        new = urllib.parse.urljoin(parts.geturl(), location)
        return split_address(new, "http", "https")
    except (Problem, ValueError) as problem:
        raise Failed(f"The redirect has no valid address: {problem}") from problem


def check_accepted(response: Response, is_own: bool) -> None:
    """:raises BadKey, Interrupted, FileAway, Failed: it does not carry the file."""
    status = response.status
    is_empty = response.headers.get("Content-Range") == "bytes */0"
    if status in (200, 206) or (status == 416 and is_empty):
        return
    if status == 401 and is_own:
        raise BadKey
    if status == 416:
        raise Interrupted("The file has become shorter on the server.")
    if status >= 500:
        raise FileAway(f"The server does not give the file now: status {status}.")
    if status in (404, 410):
        raise Failed("The server no longer has the file.")
    raise Failed(f"The server does not give the file: status {status}.")


def whole_size(response: Response) -> int | None:
    """Return the size of the file that the response is a range of, None if unknown."""
    if response.status == 200:
        return response.length
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


def strong_validator(headers: http.client.HTTPMessage) -> str:
    """Return what If-Range takes (RFC 9110): a strong ETag, or else a date, or ""."""
    etag = headers.get("ETag", "")
    return str(etag if etag.startswith('"') else headers.get("Last-Modified", ""))


# Targets ----------------------------------------------------------------------
# Where the client puts files. A new kind of target is one class here.

FAT32_LIMIT_BYTES = 2**32
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
BAD_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
FAT32_MESSAGE = (
    "The folder is on a FAT32 card, which takes no file of 4 GiB or more. Format it"
    " as exFAT, or send this file by ftp: or lan:."
)


class Target:
    """`start` is how its addresses start. `reads_back` is whether it supports
    --verify."""

    start: ClassVar[str]
    reads_back = True

    def __init__(self, address: str, verify: bool = False) -> None:
        """:raises Problem: the address is wrong."""
        self.address = address
        self.verify = verify

    def check_ready(self) -> None:
        """:raises TargetAway: it takes no file now."""

    def check_room(self, download: Download, start: int = 0) -> None:
        """:raises Failed: it cannot take the file, of which it has `start` bytes."""

    def send(self, download: Download, state: State) -> None:
        """Put the file there, under its name once it is complete.

        :raises TargetAway, Interrupted: another attempt may do.
        :raises Failed: no other attempt will.
        """

    def discard(self, name: str) -> None:
        """Remove what there is of a file that will not be completed."""

    def close(self) -> None:
        """Close the connection: after each item, and before another attempt."""


def check_digests(
    download: Download, sent: bytes | None, read_back: bytes | None = None
) -> None:
    """:raises Failed: the SHA-256 of what was sent, or read back, is not the file's."""
    expected = download.sha256 or sent
    if sent not in (None, expected):
        raise Failed("The file arrived damaged: its digest is not the server's.")
    if read_back not in (None, expected):
        raise Failed("The file reads back differently. Is the card worn out?")


class Storage(Target, abc.ABC):
    """A target that keeps files by their names, which its subclasses read and write.
    An unfinished one is called NAME.part, and is resumed where that is possible."""

    @abc.abstractmethod
    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file, None where it does not exist, or if unknown."""

    @abc.abstractmethod
    def write(self, name: str, download: Download) -> bytes | None:
        """Write the rest of the file. Return the SHA-256 of all of it where it is
        needed, and known."""

    @abc.abstractmethod
    def read_back(self, name: str, progress: Progress) -> bytes:
        """Return the SHA-256 of a file."""

    @abc.abstractmethod
    def rename(self, part: str, name: str) -> None:
        """Rename a file, also over an existing one."""

    def can_resume(self, download: Download, start: int) -> bool:
        return True

    def save(self, download: Download, state: State) -> None:
        """Write the file to NAME.part, and rename that once it is complete."""
        name, part = download.name, f"{download.name}.part"
        item, progress = download.item.queue_item_id, download.progress
        start = self.size_of(part) or 0
        if state.sent == item and not start and self.size_of(name) == download.size:
            return  # a run of the program ended before it could report that
        is_known = state.can_resume(name, download.validator)
        is_part = 0 < start <= (download.size or 0)
        if not (is_known and is_part and self.can_resume(download, start)):
            start = 0
        self.check_room(download, start)
        state.begin(name, download.validator)
        download.begin(start)
        digest = self.write(part, download)
        if (size := self.size_of(part)) not in (None, progress.done):
            raise Interrupted(f"{size} of {progress.done} bytes have arrived.")
        read_back = self.read_back(part, progress) if self.verify else None
        check_digests(download, digest, read_back)
        state.mark_sent(item)
        self.rename(part, name)


class Folder(Storage):
    """A mounted SD card, or a share."""

    start = "folder:"

    def __init__(self, address: str, verify: bool = False) -> None:
        super().__init__(address, verify)
        self.folder = os.path.expanduser(address.removeprefix(self.start))
        if not self.folder:
            raise Problem("Which folder? Use --to folder:PATH.")

    def check_ready(self) -> None:
        if not os.path.isdir(self.folder):
            raise TargetAway(f"There is no folder {self.folder}. Is the card in?")
        if not os.access(self.folder, os.W_OK):
            raise TargetAway(f"The folder {self.folder} cannot be written to.")

    def check_room(self, download: Download, start: int = 0) -> None:
        size = download.size or 0
        if size >= FAT32_LIMIT_BYTES and file_system(self.folder) in ("vfat", "msdos"):
            raise Failed(FAT32_MESSAGE)
        free = shutil.disk_usage(self.folder).free
        if size - start > free:
            raise Failed(
                f"{self.folder} has room for {size_text(free)}, and the file needs"
                f" {size_text(size - start)}."
            )

    def send(self, download: Download, state: State) -> None:
        download.retry(download.probe)
        try:
            self.save(download, state)
        except OSError as error:
            raise self._problem(error) from error

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def size_of(self, name: str) -> int | None:
        path = self._path(name)
        return os.path.getsize(path) if os.path.isfile(path) else None

    def write(self, name: str, download: Download) -> bytes | None:
        digest = hashlib.sha256() if download.sha256 or self.verify else None
        start = left = download.progress.start
        with open(self._path(name), "r+b" if start else "wb") as file:
            while digest and left and (block := file.read(min(left, CHUNK_BYTES))):
                digest.update(block)
                left -= len(block)
                download.progress.check()
            file.seek(start)
            for chunk in download.chunks():
                file.write(chunk)
                if digest:
                    digest.update(chunk)
            file.flush()
            os.fsync(file.fileno())
        return digest.digest() if digest else None

    def read_back(self, name: str, progress: Progress) -> bytes:
        with open(self._path(name), "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):  # read the card, not the page cache
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return hashlib.file_digest(file, "sha256").digest()

    def rename(self, part: str, name: str) -> None:
        os.replace(self._path(part), self._path(name))

    def discard(self, name: str) -> None:
        with contextlib.suppress(OSError):  # it does not exist, or the card is out
            os.unlink(self._path(f"{name}.part"))

    def _problem(self, error: OSError) -> Problem:
        if error.errno in NO_SPACE:
            return Failed(f"{self.folder} is full.")
        if error.errno == errno.EFBIG:
            return Failed(FAT32_MESSAGE)
        if error.errno in BAD_NAME:
            return Failed(f"{self.folder} refuses the file's name: {error.strerror}.")
        return TargetAway(f"{self.folder} cannot be written: {error.strerror}.")


def file_system(folder: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Return the type of a folder's file system, such as "vfat", or "" if unknown.

    :param mounts: a file in the format of proc_pid_mountinfo(5).
    """
    try:
        device = os.stat(folder).st_dev
        with open(mounts, encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    return next((row[row.index("-") + 1] for row in rows if row[2] == number), "")


FTP_PORT = 5000  # where Sphaira listens
INSTALL_FOLDER = "install:"  # Sphaira installs what is written to it
HOMEBREW_FOLDER = "/switch"  # where .nro files go instead
FTP_FINISH_SECONDS = 120.0  # that a console may take to finish a file
FTP_REASON_SECONDS = 5.0  # that a console may take to say why it broke off
FULL_REPLY = re.compile(r"^[45]52|no space|disk full|quota", re.IGNORECASE)


class FTP(Storage):
    """The FTP server of a console, or any other. A folder whose name ends in a colon
    is not on a disk: what is written to it is used at once, and cannot be resumed."""

    start = "ftp://"

    def __init__(self, address: str, verify: bool = False) -> None:
        super().__init__(address, verify)
        parts = split_address(address, "ftp")
        self.host = parts.hostname or ""
        self.port = parts.port or FTP_PORT
        self.user = urllib.parse.unquote(parts.username or "anonymous")
        self.password = urllib.parse.unquote(parts.password or "")
        folder = urllib.parse.unquote(parts.path or INSTALL_FOLDER)
        self.folder = "/" + folder.strip("/")
        self.reads_back = not self.folder.endswith(":")
        self._ftp = ftplib.FTP()

    def check_ready(self) -> None:
        self._connect(self.folder)

    def _connect(self, folder: str) -> None:
        """Open the connection if necessary, and enter the folder.

        :raises TargetAway: it cannot be opened, or there is no such folder.
        """
        try:
            if self._ftp.sock is None:
                self._ftp.connect(self.host, self.port, TIMEOUT_SECONDS)
                self._ftp.login(self.user, self.password)
                self._ftp.voidcmd("TYPE I")
            if folder == HOMEBREW_FOLDER:
                with contextlib.suppress(ftplib.error_perm):  # it exists
                    self._ftp.mkd(folder)
            self._ftp.cwd(folder)
        except ftplib.all_errors as error:
            self.close()
            where = f"{self.host}:{self.port}"
            message = f"The FTP server at {where} is not ready: {error_text(error)}."
            raise TargetAway(message) from error

    def close(self) -> None:
        self._ftp.close()

    def _folder_of(self, name: str) -> str:
        return HOMEBREW_FOLDER if name.lower().endswith(".nro") else self.folder

    def send(self, download: Download, state: State) -> None:
        download.retry(download.probe)
        folder = self._folder_of(download.name)
        self._connect(folder)
        assert self._ftp.sock
        with ftp_problems(download.name), download.progress.covering(self._ftp.sock):
            if not folder.endswith(":"):
                self.save(download, state)
            elif state.sent != download.item.queue_item_id:
                download.begin(0)
                check_digests(download, self.write(download.name, download))
                state.mark_sent(download.item.queue_item_id)

    def size_of(self, name: str) -> int | None:
        with contextlib.suppress(ftplib.error_perm):
            return self._ftp.size(name)
        return None

    def can_resume(self, download: Download, start: int) -> bool:
        if self.verify and not download.sha256:
            return False  # what is read back could not be compared with anything
        with contextlib.suppress(ftplib.error_perm):
            self._ftp.sendcmd(f"REST {start}")
            return True
        return False

    def write(self, name: str, download: Download) -> bytes | None:
        start = download.progress.start
        is_needed = not start and (download.sha256 or self.verify)
        digest = hashlib.sha256() if is_needed else None
        with self._open(name, start) as data, download.progress.covering(data):
            for chunk in download.chunks():
                try:
                    data.sendall(chunk)
                except OSError:
                    self._read_reply(FTP_REASON_SECONDS)  # and raise the reason in it
                    raise
                if digest:
                    digest.update(chunk)
        self._read_reply(FTP_FINISH_SECONDS)
        return digest.digest() if digest else None

    def _open(self, name: str, start: int) -> socket.socket:
        """Return the data connection that takes the file.

        :raises TargetAway: an install folder refuses every file now.
        """
        try:
            return self._ftp.transfercmd(f"STOR {name}", start or None)
        except ftplib.error_perm as error:
            if name.endswith(".part"):
                raise
            hint = f"The console takes no file now: {error}. Is its FTP install open?"
            raise TargetAway(hint) from error

    def _read_reply(self, seconds: float) -> None:
        """Wait for the reply that ends a command."""
        assert self._ftp.sock
        self._ftp.sock.settimeout(seconds)
        self._ftp.voidresp()

    def read_back(self, name: str, progress: Progress) -> bytes:
        digest = hashlib.sha256()

        def update(block: bytes) -> None:
            progress.check()
            digest.update(block)

        self._ftp.retrbinary(f"RETR {name}", update, CHUNK_BYTES)
        return digest.digest()

    def rename(self, part: str, name: str) -> None:
        try:
            self._ftp.rename(part, name)
        except ftplib.error_perm:  # some servers do not rename over an existing file
            self._ftp.delete(name)
            self._ftp.rename(part, name)

    def discard(self, name: str) -> None:
        folder = self._folder_of(name)
        if folder.endswith(":"):
            return
        with contextlib.suppress(TargetAway, *ftplib.all_errors):  # it does not exist
            self._connect(folder)
            self._ftp.delete(f"{name}.part")


@contextlib.contextmanager
def ftp_problems(name: str) -> Iterator[None]:
    """Turn the errors of ftplib into problems with the file of this name."""
    try:
        yield
    except ftplib.all_errors as error:
        reply = error_text(error)
        if isinstance(error, ftplib.Error) and FULL_REPLY.search(reply):
            raise Failed(f"The console is full: {reply}") from error
        if isinstance(error, ftplib.error_perm):
            raise Failed(f"The console refuses {name}: {reply}") from error
        message = f"The console broke off ({reply}). Is its card full?"
        raise Interrupted(message) from error


LAN_PORT = 2000
SERVED_POLL_SECONDS = 1.0  # between two calls for the bytes that the console fetched
MAX_CHOICE_SECONDS = 600.0  # that a person may take to choose on the console
MAX_QUIET_SECONDS = 120.0  # that a console may fetch nothing
MIN_SHARE = 0.98  # of the bytes; installers skip some that they do not need


class LAN(Target):
    """A network installer on a console: it gets an address of the file, and fetches it
    from the server, which counts the bytes. It never tells whether it succeeded."""

    start = "lan://"
    reads_back = False

    def __init__(self, address: str, verify: bool = False) -> None:
        super().__init__(address, verify)
        parts = split_address(address, "lan")
        self.host = parts.hostname or ""
        self.port = parts.port or LAN_PORT
        self._sock: socket.socket | None = None
        self._served = 0  # bytes, by the last answer of the server

    def check_ready(self) -> None:
        try:
            if self._sock is None:
                place = (self.host, self.port)
                self._sock = socket.create_connection(place, TIMEOUT_SECONDS)
        except OSError as error:
            raise TargetAway(
                f"The console at {self.host}:{self.port} does not wait for files:"
                f" {error_text(error)}. Open its LAN install."
            ) from error

    def close(self) -> None:
        if self._sock:
            self._sock.close()
        self._sock = None

    def send(self, download: Download, state: State) -> None:
        item = download.item
        if state.sent == item.queue_item_id:
            return  # a run of the program ended before it could report that
        self.check_ready()
        assert self._sock
        address = download.retry(lambda: download.server.item_address(item))
        name = urllib.parse.unquote(address.rpartition("/")[2])
        download.progress.begin(name, 0, download.size)
        self._served = 0
        text = f"{console_address(address, self._sock)}\n".encode()
        with download.progress.covering(self._sock):
            try:
                self._sock.sendall(struct.pack(">I", len(text)) + text)
            except OSError as error:
                message = f"The console hung up: {error_text(error)}."
                raise TargetAway(message) from error
            self._follow(self._sock, download)
        state.mark_sent(item.queue_item_id)

    def _follow(self, sock: socket.socket, download: Download) -> None:
        """Wait until the console is done: it sends a byte then, also after failures.

        :raises Failed: it did not fetch the file.
        """
        progress, size = download.progress, download.size or 0
        active = time.monotonic()
        while not select.select([sock], [], [], SERVED_POLL_SECONDS)[0]:
            with contextlib.suppress(ServerAway):  # it will be back
                if self._count(download):
                    active = time.monotonic()
            limit = MAX_QUIET_SECONDS if progress.done else MAX_CHOICE_SECONDS
            if time.monotonic() > active + limit:
                break
        for pause in (0.0, SERVED_POLL_SECONDS):  # the last bytes may be counted late
            progress.sleep(pause)
            download.retry(lambda: self._count(download))
            if progress.done >= MIN_SHARE * size:
                return
        raise Failed(
            f"The console ended after {size_text(progress.done)} of {size_text(size)}."
            " Its screen may show why."
        )

    def _count(self, download: Download) -> int:
        """Return how many bytes more the server has sent to the console. A server that
        was restarted counts from zero again."""
        before = self._served
        self._served = download.server.served_bytes(download.item)
        new = self._served - before if self._served >= before else self._served
        download.progress.add(new)
        return new


def console_address(address: str, sock: socket.socket) -> str:
    """Return the address in a form for the console: without a scheme, as ns-usbloader
    sends it, and with an IP address, since it may not resolve names."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme != "http":
        return address
    try:
        found = socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
        host = str(min(found)[4][0])  # IPv4 before IPv6
    except OSError:
        host = parts.hostname or ""
    if host == "::1" or host.startswith("127."):  # the server runs on this machine
        host = sock.getsockname()[0]
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or 80}{parts.path}"


TARGETS: tuple[type[Target], ...] = (Folder, FTP, LAN)


def find_target(address: str, verify: bool = False) -> Target:
    """:raises Problem: the address is wrong, or its target cannot be read back."""
    for kind in TARGETS:
        if address.startswith(kind.start):
            target = kind(address, verify)
            if verify and not target.reads_back:
                raise Problem(f"{address} cannot be read back. Omit --verify.")
            return target
    forms = "folder:PATH, ftp://HOST[:PORT]/FOLDER or lan://HOST"
    raise Problem(f"No target given. Use --to with {forms}.")


# Transfers --------------------------------------------------------------------
# The copy of one queue item's file. A thread reports its progress meanwhile.

MAX_ATTEMPTS = 5  # in a row that get no further


class Transfer:
    def __init__(
        self, server: Server, item: Item, target: Target, state: State, screen: Screen
    ) -> None:
        self.item = item
        self.target = target
        self.state = state
        self.progress = Progress(screen, item.entry_size or None)
        self.download = Download(server, item, self.progress)
        self._retry = Retry(self.progress.sleep, MAX_ATTEMPTS)
        self._furthest = 0  # byte that an attempt began at
        self._over = threading.Event()
        self._reporter = Server(server.address, server.key)

    def run(self) -> None:
        """:raises TargetAway, Failed, Cancelled, BadKey: the file is not there."""
        thread = threading.Thread(target=self._report, name="reporter")
        thread.start()
        try:
            self._retry.call(self._attempt)
        finally:
            self._over.set()
            thread.join(REPORT_SECONDS)  # a late report would take the item back
            self._reporter.interrupt()
            thread.join()
            self._reporter.close()
            self.progress.screen.end_progress()

    def _attempt(self) -> None:
        try:
            self.target.send(self.download, self.state)
        except Problem:
            self.target.close()
            self.progress.check()  # cancelling causes other problems
            if self.progress.start > self._furthest:
                self._furthest = self.progress.start
                self._retry.reset()
            raise

    def _report(self) -> None:
        """Report the progress until the transfer is over. This runs in the thread."""
        progress, moved, since = self.progress, 0, time.monotonic()
        while not self._over.wait(REPORT_SECONDS):
            now, new = time.monotonic(), progress.moved - moved
            fields = {
                "progress_percent": progress.percent(),
                "bytes_transferred": progress.done,
                "transfer_speed": int(new / (now - since)),
            }
            moved, since = moved + new, now
            try:
                self._reporter.report(self.item, self.state.client, **fields)
            except ServerAway:
                continue  # the next report brings it up to date
            except Problem as problem:
                progress.cancel(problem)
                return


# Sender -----------------------------------------------------------------------
# The queue, item by item: a failed one does not stop the rest.

MAX_OUTAGES = 5  # of the target while it gets one item, before the item fails
MAX_COMMAND_SECONDS = 300.0  # that the command of --on-done may take


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
        self._outages: collections.Counter[str] = collections.Counter()  # by item

    def run(self, once: bool) -> None:
        """Send what is in the queue; and, unless `once`, what will be.

        :raises Problem: it cannot go on.
        """
        retry = Retry(time.sleep, say=self.screen.say, first_pause=POLL_SECONDS)
        while True:
            try:
                has_sent = self.send_next()
                retry.reset()
            except Away as problem:
                if once:
                    raise
                retry.wait(problem)
                continue
            if once and not has_sent:
                return
            if not has_sent:
                self.screen.say("Waiting for queue items.")
                time.sleep(POLL_SECONDS)

    def send_next(self) -> bool:
        """Send the first item that can be claimed. Return False if there is none.

        :raises Away: the server or the target is.
        """
        with contextlib.closing(self.target):
            for item in self.server.queue(self.state.client):
                self.target.check_ready()
                if self._claim(item):
                    self._send(item)
                    return True
        return False

    def _claim(self, item: Item) -> bool:
        """Return whether the item is this client's now; another may have been first."""
        fields = {"progress_percent": 0, "bytes_transferred": 0}
        try:
            self._report(item, status="processing", **fields)
        except Cancelled:
            return False
        return True

    def _report(self, item: Item, **fields: Any) -> None:
        self.server.report(item, self.state.client, **fields)

    def _send(self, item: Item) -> None:
        transfer = Transfer(self.server, item, self.target, self.state, self.screen)
        self.screen.say(f"{item.entry_name}: sending {size_text(item.entry_size)}.")
        began = time.monotonic()
        try:
            self._run(transfer)
            size = transfer.progress.size or transfer.progress.done
            took = duration_text(time.monotonic() - began)
            fields = {"progress_percent": 100, "bytes_transferred": size}
            text = f"sent, {size_text(size)} in {took}."
            self._end(transfer, text, status="completed", **fields)
        except Cancelled as problem:
            self._fail(transfer, "Stopped.", f"stopped: {problem}")
        except Failed as problem:
            self.failures += 1
            self._fail(transfer, str(problem), f"failed: {problem}")
        except BadKey:
            raise
        except BaseException:
            self._release(item)
            raise

    def _run(self, transfer: Transfer) -> None:
        try:
            transfer.run()
        except TargetAway as problem:
            self._outages[transfer.item.queue_item_id] += 1
            if self._outages[transfer.item.queue_item_id] < MAX_OUTAGES:
                raise
            raise Failed(str(problem)) from problem  # the item may be at fault

    def _fail(self, transfer: Transfer, error: str, text: str) -> None:
        if transfer.download.name:
            self.target.discard(transfer.download.name)
        self._end(transfer, text, status="failed", error_message=error[:500])

    def _end(self, transfer: Transfer, text: str, status: str, **fields: Any) -> None:
        """Report how the item ended, as soon as the server can be reached."""
        item = transfer.item

        def report() -> None:
            with contextlib.suppress(Cancelled):  # it is no longer in the queue
                self._report(item, status=status, **fields)

        Retry(time.sleep, say=self.screen.say).call(report)
        self.state.forget(transfer.download.name)
        self.screen.say(f"{item.entry_name}: {text}")
        self._run_command(item, status)

    def _release(self, item: Item) -> None:
        """Put the item back into the queue. The server does so itself after a while."""
        with contextlib.suppress(Problem):
            self._report(item, release=True)
            self.screen.say(f"{item.entry_name}: put back into the queue.")

    def _run_command(self, item: Item, status: str) -> None:
        """Run the command of --on-done. Its environment says what has ended."""
        if not self.settings.on_done:
            return
        env = {
            **os.environ,
            "SEND_TO_SWITCH_NAME": item.entry_name,
            "SEND_TO_SWITCH_STATUS": status,
            "SEND_TO_SWITCH_TARGET": self.target.address,
        }
        command, limit = self.settings.on_done, MAX_COMMAND_SECONDS
        try:
            subprocess.run(command, shell=True, check=True, env=env, timeout=limit)
        except (OSError, subprocess.SubprocessError) as error:
            self.screen.say(f"--on-done: {error}")

    def preview(self) -> None:
        """Say what `run` would send, and send nothing."""
        items = self.server.queue(self.state.client)
        self.screen.say(f"{len(items)} to send to {self.target.address}.")
        try:
            with contextlib.closing(self.target):
                self.target.check_ready()
        except TargetAway as problem:
            self.screen.say(str(problem))
        for item in items:
            download = Download(self.server, item, Progress(self.screen))
            try:
                download.probe()
                self.target.check_room(download)
                self.screen.say(f"{download.name}: {size_text(download.size or 0)}.")
            except (Failed, FileAway) as problem:
                self.screen.say(f"{item.entry_name}: would fail: {problem}")


# Commands ---------------------------------------------------------------------
# The command line. A problem is one line on standard error, and an exit code.


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Send the entries of catalogd's send queue to a console.",
        epilog="Exit codes: 0 everything is sent, 1 an item failed, 2 a mistake in the"
        " settings, 3 the key is refused, 4 the server or the target cannot be reached"
        " (with --once), 130 Ctrl-C. Each option is also an environment variable, such"
        " as SEND_TO_SWITCH_SERVER, and a key of the INI file"
        f" {config_path(INI_FILE)}, in the section [{PROGRAM}].".replace("%", "%%"),
    )
    top.add_argument("command", nargs="?", choices=["login"], help="get an API key")
    for field in dataclasses.fields(Settings):
        name = f"--{field.name.replace('_', '-')}"
        top.add_argument(name, **field.metadata)
    top.add_argument("--config", metavar="FILE", help="INI file, if not the default")
    top.add_argument("--once", action="store_true", help="end when the queue is empty")
    top.add_argument("--dry-run", action="store_true", help="print what would be sent")
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return top


def login(settings: Settings, ini: str) -> None:
    """Ask for name and password, and save a new key and the server's address."""
    address = server_address(
        settings.server or input("Address of catalogd, such as http://pi.local:6069: ")
    )
    name = input("Name: ")
    password = getpass.getpass("Password: ")
    with contextlib.closing(Server(address)) as server:
        key = server.login(name, password)
    path = settings.key_file or config_path(KEY_FILE)
    write_private(path, key + "\n")
    save_server(ini, address)
    print(f"The key is in {path}. Now run '{PROGRAM} --to TARGET'.")


def save_server(ini: str, address: str) -> None:
    """Write the server's address into the INI file, beside its other options."""
    parser = configparser.ConfigParser(interpolation=None)
    parser[PROGRAM] = {**read_ini(ini), "server": address}
    text = io.StringIO()
    parser.write(text)
    write_private(ini, text.getvalue())


def send(args: argparse.Namespace, settings: Settings) -> int:
    """Send the queue, or preview that. Return the exit code."""
    address = server_address(settings.server)
    target = find_target(settings.to, settings.verify)
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
        ini = args.config or config_path(INI_FILE)
        settings = Settings.load(vars(args), ini)
        if args.command == "login":
            login(settings, ini)
            return 0
        return send(args, settings)
    except Problem as problem:
        print(f"{PROGRAM}: {printable(str(problem))}", file=sys.stderr)
        return problem.exit_code
    except (EOFError, KeyboardInterrupt):  # also of input() in `login`
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
