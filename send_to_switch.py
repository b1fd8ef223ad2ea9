#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["platformdirs>=2.6"]
# ///
"""send-to-switch: sends the entries of catalogd's send queue to a console.

It runs on any machine of the LAN, with Python alone. The sections, in order; each uses
only those above it when the module loads:

Problems   what can go wrong, each with its exit code
Settings   the command line, the environment and the INI file, in order of precedence
Names      file names, sizes, and the headers that describe a file
State      what outlives the program: its client name and its unfinished files
Server     the calls of the interface
Screen     lines of text, and the progress of a transfer
Progress   how far a transfer is, whether to go on, and pauses between attempts
Downloads  a file from any byte on, also after interruptions
Targets    where the client puts files: a folder, an FTP server, a network installer
Saves      copies of the backups of saves that are on a console, for its server alone
Reports    what is done between items: the target is watched, and each end reported
Transfers  the copy of one queue item's file, its progress reported by a thread
Offers     the files that a network installer has in its list, and fetches itself
Sender     the queue, item by item
Commands   the command line
"""

import abc
import argparse
import base64
import configparser
import contextlib
import dataclasses
import errno
import ftplib
import functools
import getpass
import hashlib
import http.client
import importlib
import io
import ipaddress
import itertools
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
import zipfile
from collections.abc import (
    Callable,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import IO, Any, ClassVar, NamedTuple, NoReturn, TextIO, TypeVar

__version__ = "0.4.0"

PROGRAM = "send-to-switch"
POLL_SECONDS = 3.0  # between two calls for the queue
REPORT_SECONDS = 2.0  # between two reports of progress
TIMEOUT_SECONDS = 30.0  # that a socket may be silent
CONNECT_SECONDS = 5.0  # that a console may take to greet
CHUNK_BYTES = 1024 * 1024
Address = urllib.parse.SplitResult
Response = http.client.HTTPResponse
Blocks = Generator[bytes, None, None]
Result = TypeVar("Result")


# Problems ---------------------------------------------------------------------
# What can go wrong. `str()` of each is a message to a person.


# What the client tells a person: the page has these texts too, by their codes.
SENTENCES = {
    "gave_up": "{why} Gave up after {count} attempts.",
    "from_start": "{why} It has to be sent from its start.",
    "bad_key": "The server refuses the key. Add this device again: Settings, Devices.",
    "download_lost": "The download was interrupted, and cannot be resumed.",
    "download_cut": "The download was interrupted.",
    "file_changed": "The file has changed on the server.",
    "host_silent": "{host} cannot be reached: {why}.",
    "bad_redirect": "The redirect has no valid address: {address}",
    "many_redirects": "The server redirects in a circle.",
    "file_refused_now": "{host} does not give the file now: status {status}.",
    "file_gone": "{host} no longer has the file.",
    "file_refused": "{host} does not give the file: status {status}.",
    "file_damaged_there": "The file arrived damaged: its digest is not the server's.",
    "card_kept": "The folder kept {done} of {size}.",
    "bytes_lost": "The console kept {done} of {size}.",
    "card_worn": "The file reads back differently. Is the card worn out?",
    "other_file": "Another file {name} is there.",
    "same_size_file": "Another file of that size is there: {name}.",
    "file_unknown": "The console does not tell whether there is a file {name}.",
    "file_unread": "A file {name} of that size is there already, not compared.",
    # the target of a client
    "own_disk": "ready, on this computer's own disk",
    "other_client": "Another {name} sends to this target.",
    "no_folder": "There is no folder {path}. Is the card in?",
    "no_card": "The card is not in: nothing is mounted at {path}.",
    "card_read_only": "The folder {path} cannot be written to.",
    "card_full": "{path} has room for {free}, and the file needs {size}.",
    "card_fat32": "The card is FAT32 and takes no file of 4 GiB or more. Format it as"
    " exFAT, or choose a folder that installs.",
    "card_refuses": "{path} does not take the file: {why}.",
    "ftp_not_ready": "The FTP server at {address} is not ready: {why}.",
    "state_disk": "The disk that notes what was sent cannot be written: {why}.",
    "no_such_host": "No device has this name: {name}.",
    "ftp_no_port": "Nothing listens at port {port} of {address}. Is the program open on"
    " the console?",
    "ftp_web": "A web server answers at port {port} of {address}, not FTP. Is the port"
    " right?",
    "ftp_silent": "{address} does not answer. Is the program open on the console?",
    "ftp_no_resume": "The console cannot resume a file: {why}.",
    "ftp_closed": "The console takes no file now: {why}. Is its FTP install open?",
    "ftp_no_reading": "The console does not let {name} be read back.",
    "ftp_no_rename": "The console cannot rename files: {why}. The file is sent again by"
    " its own name.",
    "ftp_unfinished": "The console has all of {name}, and does not say that it is"
    " done.",
    "ftp_not_installed": "The console did not install it, or its menu was left: its"
    " screen says why. Open its FTP install again.",
    "ftp_untold": "It does not say whether it installed it.",
    "ftp_no_files": "The folder {folder} takes no file: {why}. It has these folders:"
    " {folders}.",
    "ftp_no_folder": "The console refuses the folder {name}: {why}.",
    "ftp_no_install": "The program on the console has no folder {name}, as Sphaira has:"
    " {why}. Open Sphaira's FTP install, or choose another program for this device.",
    "ftp_left": "It is sent, but {name} is there too: the console removes no file.",
    "ftp_no_passive": "The FTP server takes no data connections from here (passive"
    " mode): {why}. Use another program.",
    "ftp_full": "The console is full: {why}.",
    "ftp_refuses": "The console refuses {name}: {why}.",
    "ftp_ended": "The console ended the transfer ({why}). Is its card full?",
    "ftp_broke": "The connection to the console broke: {why}.",
    "lan_silent": "The console at {address} does not wait for files: {why}. Open its"
    " LAN install.",
    "lan_broke": "The console closed the connection: {why}.",
    "lan_not_fetched": "The console has not fetched it.",
    "lan_ended": "The console ended after {done} of {size}. Its screen may show why.",
    "lan_idle": "The console has fetched nothing. Open its LAN install.",
    "lan_no_file": "It is a link, or its file is gone: a console cannot fetch it.",
    # saves
    "disk_away": "Its disk is not connected.",
    "disk_full": "The disk is full.",
    "saves_disk": "Saves cannot be kept in {folder}: {why}",
    "saves_many": "The console has too many files or folders.",
    "save_failed": "Not copied: {path}: {why}",
    "save_damaged": "It is not whole, or it is being written.",
    "save_large": "It is larger than {size}.",
    "save_name": "Its name cannot be read.",
    # causes, as parts of others
    "timed_out": "no answer in time",
    "hung_up": "the other side closed the connection",
    "net_broke": "the connection broke",
    "own_server": "The server",
}
CAUSE_CODES = ("timed_out", "hung_up", "net_broke", "own_server")
CAUSES = {SENTENCES[code]: code for code in CAUSE_CODES}
MAX_TOLD_BYTES = 2000  # of a code and its arguments, in a report


def program() -> str:
    """Return the command that called this program, such as "python3 NAME.py"."""
    path = pathlib.Path(sys.argv[0])
    python = pathlib.Path(sys.executable).stem
    return f"{python} {path}" if path.suffix == ".py" else path.stem


def pairing_hint() -> str:
    return f"run '{program()} pair URL CODE', as the page shows: Settings, Devices."


class Problem(Exception):
    """A mistake in the settings.

    :param text: a code of SENTENCES, with what its placeholders stand for in `of`: see
        `argument`; or a text of its own.
    """

    exit_code = 2

    def __init__(self, text: str = "", **of: object) -> None:
        super().__init__(text)
        self.text, sentence = text, SENTENCES.get(text, "")
        self.of = {n: argument(v) for n, v in of.items() if f"{{{n}}}" in sentence}

    def __str__(self) -> str:
        sentence = SENTENCES.get(self.text)
        return sentence.format(**self.of) if sentence else self.text

    def coded(self) -> dict[str, Any]:
        """Return it as JSON: its code, or its text in the place of one, and what its
        placeholders stand for."""
        of = {n: v.told() if isinstance(v, Problem) else v for n, v in self.of.items()}
        return {"code": self.text, "arguments": of}

    def told(self) -> Any:
        """Return what is `coded`, or its text alone."""
        return self.coded() if self.text in SENTENCES else self.text

    def fields(self) -> dict[str, Any]:
        """Return the fields of a report that tell it."""
        form, fields = self.told(), {"error_message": str(self)[:500], "error_code": ""}
        if isinstance(form, dict) and len(json.dumps(form)) <= MAX_TOLD_BYTES:
            fields |= {f"error_{name}": value for name, value in form.items()}
        return fields


def argument(value: object) -> Any:
    """Return a number, a problem, the cause of an error, or else a text."""
    if not isinstance(value, (Problem, int)):
        value = error_text(value) if isinstance(value, Exception) else str(value)
    cause = CAUSES.get(str(value))
    return Problem(cause) if cause else value


class BadKey(Problem):
    """The server refuses the key."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__("bad_key")


class Offline(Problem):
    """The server or the target cannot be used now; no item is at fault."""

    exit_code = 4


class ServerOffline(Offline):
    """The server cannot be reached now, or a proxy before it answers in its place. The
    client waits as long as it takes."""


class FileOffline(ServerOffline):
    """The server, or the host of a link, does not serve the file now."""


class TargetOffline(Offline):
    """The target takes no file now."""


class Unfinished(TargetOffline):
    """The target has taken the file, and goes on with it: the next item goes first."""


class Denied(Unfinished):
    """Something before the server does not give the file: the next item goes first."""


class Failed(Problem):
    """This item cannot be sent; others may."""

    exit_code = 1


class Interrupted(Failed):
    """The copy was interrupted. Another attempt may succeed."""


class Unrenamed(Interrupted):
    """The target renames no file. It may take one by its own name."""


class Gone(Interrupted):
    """The target took no file by this name, or used it up: it may install files."""


class Unread(Failed):
    """The target lets nobody read a file."""


class Full(Failed):
    """The target has no room for the file."""


class Ended(Interrupted, Full):
    """The target ended the copy. Its card may be full."""


class Cancelled(Problem):
    """The item is not, or no longer, this client's to send."""


class Missing(Cancelled):
    """The server does not have what is asked for, or does not know the call."""


# Settings ---------------------------------------------------------------------
# A field is an option of the command line, the environment and the INI file.

INI_FILE = f"{PROGRAM}.ini"
KEY_FILE = "key"
TARGET_FORMS = "folder:PATH, ftp://HOST[:PORT][/FOLDER] or lan://HOST[:PORT]"


def option(help: str, metavar: str = "") -> Any:
    """:param metavar: name of the option's value; "" for a switch, which has none."""
    kind = {"metavar": metavar} if metavar else {"action": "store_true"}
    default = "" if metavar else False
    return dataclasses.field(default=default, metadata={"help": help, **kind})


@dataclasses.dataclass(frozen=True)
class Settings:
    server: str = option("address of catalogd, such as http://pi.local:6069", "URL")
    key_file: str = option("file with the API key (login and pair write one)", "FILE")
    to: str = option(TARGET_FORMS, "TARGET")
    on_done: str = option("command to run after each item", "CMD")
    verify: bool = option("read each file back from the target")
    overwrite: bool = option("replace files that are on the target already")
    name: str = option("name of this device, for pair", "NAME")
    state: str = option("folder for the program's state", "DIR")

    @classmethod
    def load(cls, options: Mapping[str, Any], ini: str) -> "Settings":
        """Return each option's value: of the command line, or else of the environment,
        or else of the INI file."""
        chosen = read_ini(ini)
        for field in dataclasses.fields(cls):
            name = f"SEND_TO_SWITCH_{field.name.upper()}"
            if value := options.get(field.name) or os.environ.get(name):
                chosen[field.name] = value
        words = configparser.ConfigParser.BOOLEAN_STATES  # such as "yes"
        for name in ("verify", "overwrite"):
            chosen[name] = words.get(str(chosen.get(name)).lower(), False)
        return cls(**chosen)


def read_ini(path: str) -> dict[str, Any]:
    """:raises Problem: there is a file, but with a mistake or an unknown option."""
    ini = configparser.ConfigParser(interpolation=None)
    try:
        ini.read(path, encoding="utf-8-sig")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from error
    settings = dict(ini[PROGRAM]) if ini.has_section(PROGRAM) else {}
    if unknown := settings.keys() - Settings.__dataclass_fields__.keys():
        raise Problem(f"{path}: unknown option {min(unknown)}.")
    return settings


def own_folder(kind: str) -> str:
    """Return the program's folder for its "config" or its "state". Where it once ran
    without platformdirs it goes on with that folder, and so finds its key and files."""
    home = os.path.expanduser(os.path.join("~", f".{PROGRAM}"))
    with contextlib.suppress(ImportError):
        folder_of = getattr(importlib.import_module("platformdirs"), f"user_{kind}_dir")
        if not os.path.isdir(home):
            return str(folder_of(PROGRAM, appauthor=False))
    return os.environ.get("APPDATA", home) if kind == "config" else home


def config_path(name: str) -> str:
    return os.path.join(own_folder("config"), name)


def write_private(path: str, text: str) -> None:
    """Replace a file, atomically, by one that only its owner may read."""
    path = os.path.realpath(path)
    new = pathlib.Path(f"{path}.new")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new.unlink(missing_ok=True)
    new.touch(mode=0o600, exist_ok=False)
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def server_address(text: str) -> str:
    """:raises Problem: it is not a web address, with or without its scheme."""
    if not text:
        raise Problem(f"No server given. Use --server URL, or {pairing_hint()}")
    text = text if "://" in text else f"http://{text}"
    split_address(text, "http", "https")
    return text.rstrip("/")


def split_address(text: str, *schemes: str) -> Address:
    """:raises Problem: it is not an address with a host and one of the schemes."""
    with contextlib.suppress(ValueError):  # its text may have a part of the password
        parts = urllib.parse.urlsplit(text)
        parts.port  # noqa: B018 - reading it checks it
        if parts.scheme in schemes and (parts.hostname or "").encode("idna"):
            return parts
    shown = one_line(without_password(text))
    raise Problem(f"{shown!r} is not an address such as {schemes[0]}://HOST.")


def read_key(settings: Settings) -> str:
    """:raises Problem: neither the environment nor the key file has an API key."""
    path, key = settings.key_file or config_path(KEY_FILE), ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        key = pathlib.Path(path).read_text(encoding="utf-8").strip()
    key = os.environ.get("SEND_TO_SWITCH_KEY") or key
    if not re.fullmatch(r"[!-~]+", key):
        hint = f"Use --key-file FILE, or {pairing_hint()}"
        raise Problem(f"There is no key in SEND_TO_SWITCH_KEY or {path}. {hint}")
    return key


# Names ------------------------------------------------------------------------
# File names, sizes, and the headers that describe a file. Pure functions.

UNSAFE = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f\ud800-\udfff]')  # on an SD card
HIDDEN = re.compile(  # what shows nothing, or turns the text around it
    "[\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
MAX_NAME_BYTES = 240  # so that ".part" fits too
MAX_REASON_CHARACTERS = 300  # of a reply that a person sees


def safe_name(name: str) -> str:
    """Return a file name that an SD card takes. Different names stay different: a
    name that had to change is marked."""
    name = unicodedata.normalize("NFC", name)
    safe = UNSAFE.sub("_", HIDDEN.sub("", name)).strip(". ") or "_"
    is_safe = safe == name and len(name.encode()) <= MAX_NAME_BYTES
    return name if is_safe else marked(safe, name)


def marked(name: str, text: str, digits: int = 6) -> str:
    """Return the name with a part of the text's digest before its extension."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:digits]
    stem, extension = os.path.splitext(name)
    size = max(MAX_NAME_BYTES - len(f"-{mark}{extension}".encode()), 1)
    return f"{stem.encode()[:size].decode(errors='ignore')}-{mark}{extension}"


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
    path = urllib.parse.urlsplit(address).path
    extension = os.path.splitext(urllib.parse.unquote(path))[1]
    return name if name.lower().endswith(extension.lower()) else name + extension


def size_text(count: float) -> str:
    """Return a number of bytes for a person, such as "2.1 GB"."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def json_object(text: bytes) -> dict[str, Any]:
    """Return the object that a text is, {} if it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    return {}


def number(text: str) -> int | None:
    """Return a number that the other side tells, None for what is none."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None


def duration_text(seconds: float) -> str:
    """Return a duration for a person, such as "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def printable(text: str) -> str:
    """Return a text as one line without keys, in which nothing steers the terminal."""
    text = re.sub(r"\bcatalogd_[\w-]{8,}", "catalogd_...", text)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return a text from elsewhere, which may be long, as a short line."""
    return printable(" ".join(text.split()))[:MAX_REASON_CHARACTERS]


def width(character: str) -> int:
    """Return the columns of a terminal that a character takes."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return a text, cut and padded to so many columns of a terminal."""
    ends = list(itertools.accumulate(map(width, text)))
    count = sum(end <= columns for end in ends)
    return text[:count] + " " * (columns - (ends[count - 1] if count else 0))


def without_password(address: str) -> str:
    """Return the address with dots in place of its password."""
    return re.sub(r"(//[^/@:]*):.*@", r"\1:...@", address)


def error_text(error: BaseException, secret: str = "") -> str:
    """Return the cause of a network error for a person, without a full stop, and
    without the secret that the other side may repeat."""
    if isinstance(error, TimeoutError):
        return SENTENCES["timed_out"]
    if isinstance(error, EOFError):
        return SENTENCES["hung_up"]
    text = getattr(error, "strerror", None) or str(error)
    text = text.replace(secret, "...") if secret else text
    return one_line(text).rstrip(". ") or SENTENCES["net_broke"]


# State ------------------------------------------------------------------------
# What outlives the program, also when it is killed.


class Item(NamedTuple):
    """A queue item, as far as the client needs it, with the interface's names."""

    queue_item_id: str
    entry_id: str
    entry_name: str
    entry_source: str
    entry_size: int  # bytes, 0 where unknown
    replace: bool = False  # whether it may replace another file on the target


def read_item(facts: dict[str, Any]) -> Item:
    needed = [facts[name] for name in Item._fields[:-1]]
    return Item._make([*needed, facts.get("replace") is True])


class Part(NamedTuple):
    """What the target may have of a file that is not complete."""

    item: str  # the id of its queue item, "" if it stays though that has ended
    version: str  # the validator, "" if it is not resumed
    is_stopped: bool = False  # whether its item was cancelled, so that it is removed


class Sent(NamedTuple):
    """A file that the target keeps."""

    entry: str  # the id of its entry
    ends: str  # what `file_ends` told of it, "" if unknown


@contextlib.contextmanager
def disk_problems() -> Iterator[None]:
    """:raises TargetOffline: the disk of the program's state fails in the block, or
    another process has locked it."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
            raise TargetOffline("other_client", name=PROGRAM) from error
        raise TargetOffline("state_disk", why=error) from error


class State:
    """Small JSON files for each pair of a server and a target.

    `client` identifies this client to the server, which gives an item to one client
    only, and gives it back to that client after a crash. `parts` has the unfinished
    files by what they are called on the target. `sent` is the id of the queue item
    whose file is complete while the server does not know it yet. `installs` has the
    folders of FTP servers that were seen to install what is written there, with host
    and port. `mount` is the mount point that the target's folder was below, "" if
    unknown. `files` has what was sent by its name without case, in a file of its own:
    it is long, and changes once an item.
    """

    def __init__(self, folder: str, server: str, target: str) -> None:
        name = hashlib.sha256(f"{server}\n{target}".encode()).hexdigest()[:16]
        self.path = os.path.join(folder, f"{name}.json")
        self.client = secrets.token_hex(8)
        self.parts: dict[str, Part] = {}
        self.sent = self.mount = ""
        self.installs: set[str] = set()
        self._written: dict[str, str] = {}  # by path
        self.files = {n: Sent(*of) for n, of in self._read("-sent").items()}
        with contextlib.suppress(KeyError, TypeError, AttributeError):  # of no use
            facts = self._read()
            self.client, self.sent = str(facts["client"]), str(facts["sent"])
            self.parts = read_parts(facts)
            self.mount = str(facts["mount"])
            self.installs = set(facts.get("installs", ()))
            for name, (entry, _) in facts.get("files", {}).items():
                self.files.setdefault(name, Sent(entry, facts["ends"].get(name, "")))

    def _read(self, kind: str = "") -> dict[str, Any]:
        path = self.path.replace(".json", f"{kind}.json")
        with contextlib.suppress(OSError), open(path, "rb") as file:
            return json_object(file.read())
        return {}

    def save(self) -> None:
        """Write what is not written yet. :raises TargetOffline: the disk fails, or is
        full: that may pass."""
        self._write(self.path.replace(".json", "-sent.json"), self.files)
        facts = {"client": self.client, "parts": self.parts, "sent": self.sent}
        facts |= {"mount": self.mount, "installs": sorted(self.installs)}
        self._write(self.path, facts)

    def _write(self, path: str, facts: dict[str, Any]) -> None:
        if (text := json.dumps(facts)) != self._written.get(path, "{}"):
            with disk_problems():
                write_private(path, text)
            self._written[path] = text

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let only one process send to this target. SQLite's lock works on every
        system, and ends with the process.

        :raises TargetOffline: another process sends.
        """
        self.save()
        name = f"{self.path}.lock"
        with disk_problems():
            lock = sqlite3.connect(name, timeout=0, isolation_level=None)
        with contextlib.closing(lock):
            with disk_problems():
                lock.execute("BEGIN EXCLUSIVE")
            yield

    def begin(self, name: str, version: str, item: Item) -> None:
        """Note that there is an unfinished file of this version from now on."""
        self.parts[name] = Part(item.queue_item_id, version)
        self.save()

    def stop(self, item: Item, name: str, is_damaged: bool = False) -> None:
        """Note that an item was cancelled, or that what is left of it is damaged."""
        self.sent = ""
        if part := self.parts.get(name):
            version = "" if is_damaged else part.version
            self.parts[name] = Part(item.queue_item_id, version, is_stopped=True)
        self.save()

    def change(self, items: Container[str], **facts: Any) -> None:
        """Note of these items' parts: that they stay though the item has ended, which
        has no `item` then, or that it ended while this client did not send it."""
        for name, part in self.parts.items():
            if part.item in items:
                self.parts[name] = part._replace(**facts)
                self.save()

    def drop_part(self, name: str) -> None:
        """Note that an unfinished file is not there any more."""
        self.parts.pop(name, None)
        self.save()

    def own_name(self, name: str, entry: str) -> str:
        """Return the name for an entry's file: marked where another entry has it."""
        sent = self.files.get(name.casefold())
        return name if sent is None or sent.entry == entry else marked(name, entry)

    def mark_sent(self, item: Item, name: str = "", ends: str = "") -> None:
        """:param name: of the file, where the target keeps it."""
        self.sent = item.queue_item_id
        if name:
            self.files[name.casefold()] = Sent(item.entry_id, ends)
        self.save()

    def keep_files(self, names: Iterable[str], name: str) -> None:
        """Forget files that a folder does not list any more, of those that lie where
        this one does: homebrew has a folder of its own. kaiHEN lists no name that is
        not ASCII."""
        listed, is_homebrew = {*map(str.casefold, names)}, name.endswith(".nro")
        for other in [*self.files] if listed else ():
            is_near = other.isascii() and other.endswith(".nro") == is_homebrew
            if is_near and other not in listed:
                del self.files[other]
        self.save()

    def forget(self, name: str) -> None:
        """Note that an item has ended, and that its file is no longer unfinished."""
        self.sent = ""
        self.drop_part(name)


def read_parts(facts: dict[str, Any]) -> dict[str, Part]:
    """Return the parts of a state file, also of one that release 0.4.0 wrote: by the
    names of files, with a version each."""
    parts, items = {}, facts.get("items", {})
    for name, part in facts["parts"].items():
        if isinstance(part, str):
            part = items.get(name, ""), part, name in facts.get("stopped", ())
            name = name if name in facts.get("direct", ()) else f"{name}.part"
        parts[name] = Part(*part)
    return parts


# Server -----------------------------------------------------------------------
# The calls of the interface, over one connection.

MAX_ANSWER_BYTES = 64 * 1024 * 1024  # for a queue of 100,000 items
QUEUE_PATH = "/api/send-queue"
ON_CONSOLE_PATH = "/api/on-console"
MAX_ASKED = 50  # items of unfinished files in one call
NETWORK_ERRORS = (OSError, http.client.HTTPException)
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # reasons of ssl.SSLError
TLS_ALERT = "\x15\x03"  # what servers for https answer to plain http, or this in a 400:
HTTPS_HINT = re.compile(rb"HTTPS (port|server)")


def is_coded(answer: dict[str, Any]) -> bool:
    """Return whether a refusal is one of catalogd, and not of a proxy before it."""
    return isinstance(answer.get("error"), str)


def is_final(status: int, answer: dict[str, Any]) -> bool:
    """Return whether a refusal stays as it is, however often somebody asks."""
    return 400 <= status < 500 and status not in (408, 429) and is_coded(answer)


def body_of(answer: http.client.HTTPResponse) -> bytes:
    """Return the body of an answer; of one that is too long a part, which is no JSON.
    :raises http.client.IncompleteRead: the connection was closed before its end."""
    body = answer.read(MAX_ANSWER_BYTES)
    if answer.length and len(body) < MAX_ANSWER_BYTES:
        raise http.client.IncompleteRead(body, answer.length)
    return body


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
        self._is_over = False
        self.stale_after = math.inf  # seconds after which it forgets an offered item
        self.gone: set[str] = set()  # items of unfinished files that nobody sends here

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """End the call that another thread waits for, and refuse to repeat it."""
        self._is_over = True
        shut_down(self._connection.sock)

    def key_header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Return the JSON of a successful answer.

        :raises ServerOffline, BadKey, Cancelled, Failed: by the status of any other.
        """
        status, answer = self._send(method, path, body)
        if status == 200 and answer.get("success"):
            return answer
        place, _, _ = path.partition("?")
        if status == 401 and (is_coded(answer) or place == QUEUE_PATH):
            raise BadKey
        message = f"{self.address}{place} answers with status {status}."
        message = one_line(str(answer.get("message") or message))
        if kind := {404: Missing, 409: Cancelled}.get(status):
            raise kind(message)
        if is_final(status, answer):
            raise Failed(message)
        raise self._offline(message)

    def _offline(self, message: str) -> ServerOffline:
        message = message.rstrip(".")
        return ServerOffline(f"{self.address} cannot answer now: {message}.")

    def _send(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.key_header()}
        while True:
            is_new = self._connection.sock is None
            try:
                self._connection.request(method, self._parts.path + path, data, headers)
                with self._connection.getresponse() as answer:
                    text = body_of(answer)
                if answer.status == 400 and HTTPS_HINT.search(text):
                    raise ConnectionError(TLS_ALERT)
                return answer.status, json_object(text)
            except NETWORK_ERRORS as error:
                self._connection.close()
                if is_new or self._is_over:  # else an idle connection was closed
                    raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServerOffline:
        """Return why nothing answers: the address may have the other scheme."""
        is_plain = getattr(error, "reason", "") in NO_TLS
        if not (is_plain or str(error).startswith(TLS_ALERT)):
            return ServerOffline("host_silent", host=self.address, why=error)
        parts = self._parts._replace(scheme="http" if is_plain else "https")
        right = f"a server for {parts.scheme}. Use {urllib.parse.urlunsplit(parts)}."
        return ServerOffline(f"{self.address} is {right}")

    def queue(
        self, client: str, target: Problem | None = None, unfinished: Iterable[str] = ()
    ) -> list[Item]:
        """Return the queue items to send, and tell the target's state, if known.

        :param target: its state, told by its code and, for older servers, as a text.
        :param unfinished: ids of items of unfinished files. Those that have ended, or
            are for another device, are `gone` then.
        """
        query = {"client": client}
        if target:
            fields = target.fields()
            query |= {"target": str(target)[:200], "target_code": fields["error_code"]}
            query["target_arguments"] = json.dumps(fields.get("error_arguments", {}))
        if asked := ",".join(sorted(set(unfinished))[:MAX_ASKED]):
            query["unfinished"] = asked
        try:
            path = f"{QUEUE_PATH}?{urllib.parse.urlencode(query)}"
            answer = self.call("GET", path)
            self.gone = set(answer.get("gone") or ())
            return [read_item(facts) for facts in answer.get("queue") or ()]
        except (KeyError, TypeError, Cancelled, Failed) as error:
            raise self._offline(f"No queue: {error!r}") from error

    def report(self, item: Item, client: str, **fields: Any) -> dict[str, Any]:
        """Return the answer. :raises Cancelled: the item is not this client's."""
        body = {"queue_item_id": item.queue_item_id, "client": client, **fields}
        return self.call("POST", "/api/send-queue/progress", body)

    def offer(self, items: Sequence[Item], client: str) -> dict[str, str | None]:
        """Claim items for an installer. Return by item the address of its file, None
        where it has none that a console can fetch, without the items of others."""
        ids = [item.queue_item_id for item in items]
        body = {"queue_item_ids": ids, "client": client}
        return self._addresses("", "addresses", body)

    def served(self, client: str) -> dict[str, int]:
        """Return by item how many bytes were served of what the client has claimed."""
        query = f"?{urllib.parse.urlencode({'client': client})}"
        return self._addresses(query, "served")

    def _addresses(self, query: str, field: str, body: Any = None) -> dict[str, Any]:
        try:
            method = "POST" if body else "GET"
            answer = self.call(method, f"{QUEUE_PATH}/addresses{query}", body)
            self.stale_after = float(answer.get("stale_after") or self.stale_after)
            return dict(answer[field])
        except (KeyError, TypeError, Cancelled, Failed) as error:
            hint = "It has no addresses for lan://. Upgrade catalogd."
            raise self._offline(hint) from error

    def login(self, name: str, password: str) -> str:
        """Return a new API key."""
        body = {"username": name, "password": password}
        return str(self.call("POST", "/api/auth/login", body)["api_key"])

    def pair(self, code: str, name: str) -> str:
        """Return the API key of a new device, for a code that the page shows."""
        try:
            body = {"code": code, "name": name}
            return str(self.call("POST", "/api/pair", body)["api_key"])
        except Missing as problem:
            hint = f"Upgrade catalogd, or use '{program()} login'."
            raise Problem(f"{self.address} knows no pairing. {hint}") from problem


def shut_down(sock: socket.socket | None) -> None:
    """End the call that another thread waits for on this socket."""
    with contextlib.suppress(OSError):  # it is closed
        if sock:
            sock.shutdown(socket.SHUT_RDWR)


# Screen -----------------------------------------------------------------------
# A line for each event; on a terminal also one for the progress, redrawn in place.

TOLD = "\x1e"  # see RFC 7464


class Screen:
    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._last = ""
        self.shown = 0.0  # when the progress was, by time.monotonic()

    def say(self, text: str) -> None:
        """Print a line, unless it repeats the last one."""
        if text != self._last:
            self._last = text
            self._redraw("")
            encoding = self.out.encoding or "utf-8"
            text = printable(text).encode(encoding, "replace").decode(encoding)
            print(text, file=self.out, flush=True)

    def tell(self, **facts: Any) -> None:
        """Print a line for the server that runs this program. It begins with a sign
        that `say` prints of no name."""
        print(f"{TOLD}{printable(json.dumps(facts))}", file=self.out, flush=True)

    def show(self, progress: object) -> None:
        """Show the progress of a transfer, where there is a terminal."""
        if time.monotonic() > self.shown + 0.2:
            self.shown = time.monotonic()
            self._redraw(str(progress))

    def _redraw(self, text: str) -> None:
        """Replace the terminal's line that the next one replaces, too."""
        if self.err.isatty():
            line = fit(printable(text), shutil.get_terminal_size().columns - 1)
            print(f"\r{line}\r", end="", file=self.err, flush=True)


# Progress ---------------------------------------------------------------------
# What the thread that copies a file shares with the one that reports it, and pauses.

MAX_PAUSE_SECONDS = 30.0  # between two attempts
AGAIN = "Trying again."  # behind a problem that ends nothing


class Progress:
    """How far a transfer is, and whether to go on: another thread may cancel it.

    `start` is the byte at which the last attempt began, `done` the bytes that the
    target has, and `moved` the bytes that were copied since the item was claimed.
    """

    def __init__(self, screen: Screen, size: int | None = None) -> None:
        self.screen = screen
        self.size = size  # bytes, None where unknown
        self.name = ""
        self.start = self.done = self.moved = 0
        self._told = 0  # of the bytes that were moved, those in a report
        self._began = self.told_at = time.monotonic()
        self._problem: Problem | None = None
        self._interrupts: set[Callable[[], None]] = set()
        self._wake = threading.Event()

    def begin(self, name: str, start: int, size: int | None) -> None:
        """Note that an attempt is about to copy the file from the byte `start` on."""
        if start:
            self.screen.say(f"{name}: resuming at {size_text(start)}.")
        self.start = self.done = start
        self.name, self.size = name, size
        self._began = time.monotonic()

    def add(self, count: int) -> None:
        self.done += count
        self.moved += count
        if self.done == self.size:
            self.screen.shown = 0.0  # nothing is shown after this
        self.screen.show(self)

    def __str__(self) -> str:
        """Return how far the transfer is, for a person."""
        if self.done == self.size:
            return f"100 %, waits for the target: {self.name}"
        speed = (self.done - self.start) / max(time.monotonic() - self._began, 0.001)
        left = duration_text(max((self.size or 0) - self.done, 0) / max(speed, 1))
        share = f"{self.percent()} %, {left} left"
        share = share if self.size else size_text(self.done)
        return f"{share}, {size_text(speed)}/s: {self.name}"

    def percent(self) -> int:
        """Return how much of the file the target has, 0 where its size is unknown."""
        return min(100 * self.done // self.size, 100) if self.size else 0

    def figures(self) -> dict[str, int]:
        """Return the fields of a report that tell how far it is."""
        return {"progress_percent": self.percent(), "bytes_transferred": self.done}

    def news(self) -> dict[str, int]:
        """Return its `figures`, and how fast it was since this was asked."""
        now, moved = time.monotonic(), self.moved
        speed = int((moved - self._told) / max(now - self.told_at, 0.001))
        self._told, self.told_at = moved, now
        return {**self.figures(), "transfer_speed": speed}

    def cancel(self, problem: Problem) -> None:
        """End the transfer from another thread, whatever it waits for."""
        self._problem = problem
        self._wake.set()
        for interrupt in list(self._interrupts):
            interrupt()

    def check(self) -> None:
        """:raises Problem: the transfer was cancelled, for this reason."""
        if self._problem:
            raise self._problem

    def sleep(self, seconds: float) -> None:
        """Sleep until the time is over, or the transfer is cancelled."""
        self._wake.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def cancels(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Inside the block, let `cancel` call this too, to end what is waited for."""
        self._interrupts.add(interrupt)
        try:
            self.check()
            yield
        finally:
            self._interrupts.discard(interrupt)


class Sending:
    """A queue item while it is sent."""

    part = ""  # what its unfinished file is called on the target, if there is any
    note: Problem | None = None  # that the item tells when it is sent

    def __init__(self, item: Item, screen: Screen) -> None:
        self.item = item
        self.progress = Progress(screen, item.entry_size or None)
        self.began = time.monotonic()


@dataclasses.dataclass
class Retry:
    """Attempts with pauses between them, each pause twice as long as the last.

    `max_failures` in a row are the end. A server that cannot be reached counts as none:
    the client waits for it as long as it takes. `sleep` may raise to end the attempts.
    """

    sleep: Callable[[float], None]
    max_failures: float = math.inf
    say: Callable[[str], None] = lambda text: None
    first_pause: float = 0.5
    kinds: tuple[type[Problem], ...] = (Offline, Interrupted)  # others are the end
    failures: int = 0
    pause: float = 0.0

    def reset(self) -> None:
        """Begin with short pauses again, since there was progress."""
        self.failures, self.pause = 0, 0.0

    def wait(self, problem: Problem) -> None:
        """Pause before the next attempt.

        :raises TargetOffline, Failed: the problem, where it was the last attempt.
        """
        self.failures = 0 if type(problem) is ServerOffline else self.failures + 1
        if self.failures >= self.max_failures:
            if isinstance(problem, TargetOffline):
                raise problem
            raise Failed("gave_up", why=problem, count=self.failures)
        self.say(f"{problem} {AGAIN}")
        self.pause = min(2 * self.pause or self.first_pause, MAX_PAUSE_SECONDS)
        self.sleep(self.pause)

    def call(self, function: Callable[[], Result]) -> Result:
        """Return the function's result, of the first attempt that has one.
        :raises Unfinished: at once, as the next item goes first."""
        while True:
            try:
                return function()
            except Unfinished:
                raise
            except self.kinds as problem:
                self.wait(problem)


# Downloads --------------------------------------------------------------------
# A file from any byte on. If-Range resumes it where the file has a validator.

MAX_STALLS = 15  # attempts without a byte, which take about five minutes
MAX_REDIRECTS = 10
MAX_REFUSAL_BYTES = 65536
MAX_SENT_NAMES = 1000  # that are kept without a look at what the target has
SEAM_BYTES = 1024 * 1024  # that are compared at an end, and where a file was resumed


class Download(Sending):
    """The file of a queue item, as the server gives it.

    `probe` sets the file's `name`, `size` in bytes (None where unknown), `validator`
    ("" where it has none) and `sha256` (None where unknown).
    """

    def __init__(self, server: Server, item: Item, screen: Screen) -> None:
        super().__init__(item, screen)
        self.server = server
        self.url = f"{server.address}/api/download/{urllib.parse.quote(item.entry_id)}"
        self.name = ""
        self.size: int | None = item.entry_size or None
        self.has_broken = False  # where the target is to get it once
        self.has_ranges = False
        self.validator = ""
        self.sha256: bytes | None = None
        self.digest: Any = None  # hash of the chunks, where all of them are known

    def retry(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call to the server, repeated while it is offline."""
        retry = Retry(self.progress.sleep, MAX_STALLS, kinds=(ServerOffline,))
        return retry.call(call)

    def probe(self) -> None:
        """Ask the server for the facts above.

        :raises ServerOffline, BadKey, Failed: the file cannot be downloaded now.
        """
        with self._open({"Range": "bytes=0-0"}) as response:
            headers = response.headers
            self.size = whole_size(response)
            self.has_ranges = response.status != 200
        self.validator = strong_validator(headers)
        self.sha256 = header_sha256(headers.get("Repr-Digest", ""))
        name = disposition_name(headers.get("Content-Disposition", ""))
        fallback = with_extension(self.item.entry_name, self.item.entry_source)
        self.name = safe_name(name or fallback)

    def is_over(self) -> bool:
        return self.progress.done == self.size

    def begin(self, start: int, is_hashed: bool = False) -> None:
        """Let the chunks begin at this byte, and hash them where that is needed."""
        is_hashed = not start and (is_hashed or self.sha256 is not None)
        self.digest = hashlib.sha256() if is_hashed else None
        self.progress.begin(self.name, start, self.size)

    def chunks(self) -> Iterator[memoryview]:
        """Yield the rest of the file, in a buffer that is used again. A chunk counts as
        done when the next one is asked for.

        :raises Interrupted: the file has changed, or its download cannot be resumed.
        """
        buffer = memoryview(bytearray(CHUNK_BYTES))
        retry = Retry(self.progress.sleep, MAX_STALLS)
        while self.progress.done != self.size:
            try:
                for count in self._read(buffer):
                    yield buffer[:count]
                    if self.digest:
                        self.digest.update(buffer[:count])
                    self.progress.add(count)
                    retry.reset()
                return
            except ServerOffline as problem:
                retry.wait(problem)

    def _read(self, buffer: memoryview) -> Iterator[int]:
        """Fill the buffer again and again, until the response ends."""
        start, headers = self.progress.done, {}
        if start and not self.validator:
            raise Interrupted("download_lost")
        if start:
            headers = {"Range": f"bytes={start}-", "If-Range": self.validator}
        with self._open(headers) as response:
            self._check_version(response, start)
            with contextlib.suppress(*NETWORK_ERRORS):
                while count := response.readinto(buffer):
                    self.progress.check()
                    yield count
                if self.size is None:
                    return
        self.progress.check()
        if self.progress.done != self.size:
            raise FileOffline("download_cut")

    def span(self, start: int, stop: int) -> bytes:
        """Return the file's bytes from the byte `start` up to, without, `stop`.

        :raises ServerOffline, BadKey, Failed: they cannot be downloaded now.
        """
        headers = {"Range": f"bytes={start}-{max(stop - 1, start)}"}
        headers |= {"If-Range": self.validator} if stop else {}
        with self._open(headers) as response:
            self._check_version(response, start)
            with contextlib.suppress(*NETWORK_ERRORS):
                body = response.read(stop - start)
                if len(body) == stop - start:
                    return body
        raise FileOffline("download_cut")

    def ends(self) -> str:
        """Return what `file_ends` tells of this version, "" where that is unknown.

        :raises Interrupted: the server has another version by now.
        """
        if not (self.validator and self.has_ranges and self.size is not None):
            return self.check_unchanged()
        spans = end_spans(self.size)
        try:
            pieces = self.retry(lambda: [self.span(*span) for span in spans])
        except Interrupted:
            raise
        except Failed:  # the host of a link may give a file once only
            return ""
        return file_ends(self.size, pieces)

    def check_unchanged(self) -> str:
        """:raises Interrupted: the server has another version by now."""
        if self.validator:
            self.retry(lambda: self.span(0, 0))
        return ""

    def _check_version(self, response: Response, start: int) -> None:
        """:raises Interrupted: it does not carry this version from this byte on."""
        span = response.headers.get("Content-Range", "")
        is_resumed = response.status == 206 and span.startswith(f"bytes {start}-")
        has_changed = self.validator not in ("", strong_validator(response.headers))
        if has_changed or (start and not is_resumed):
            raise Interrupted("file_changed")

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
                    check_accepted(response, is_own, parts.netloc)
                    yield response
                    return
            place = response.headers.get("Location", "")
            try:
                place = urllib.parse.quote(place, safe="!#$%&'()*+,/:;=?@[]~")
                place = urllib.parse.urljoin(parts.geturl(), place)
                parts = split_address(place, "http", "https")
            except (Problem, ValueError) as problem:
                raise Failed("bad_redirect", address=problem) from problem
        raise Failed("many_redirects")

    @contextlib.contextmanager
    def _request(
        self, parts: Address, headers: dict[str, str], is_own: bool
    ) -> Iterator[Response]:
        """:raises ServerOffline: the host of the address is."""
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        with contextlib.closing(connection(parts)) as call:
            try:
                call.connect()
                # The connection forgets its socket when it is the last call.
                interrupt = functools.partial(shut_down, call.sock)
                with self.progress.cancels(interrupt):
                    call.request("GET", path, headers=headers)
                    response = call.getresponse()
            except NETWORK_ERRORS as error:
                self.progress.check()
                kind = ServerOffline if is_own else FileOffline
                raise kind("host_silent", host=parts.netloc, why=error) from error
            with response, self.progress.cancels(interrupt):
                yield response


def end_spans(size: int) -> list[tuple[int, int]]:
    """Return where the ends of a file begin and end, once each."""
    spans = ((0, min(SEAM_BYTES, size)), (max(size - SEAM_BYTES, 0), size))
    return [*dict.fromkeys(spans)] if size else []


def file_ends(size: int, pieces: Iterable[bytes]) -> str:
    """Return the digest of a file's size and both ends, which are its `end_spans`."""
    text = b"".join([size.to_bytes(8, "big"), *pieces])
    return hashlib.sha256(text).hexdigest()


def check_accepted(response: Response, is_own: bool, host: str) -> None:
    """:param is_own: whether the server gives it, and not the host of a link.
    :raises BadKey, FileOffline, Denied, Failed: it does not carry the file."""
    status, who = response.status, SENTENCES["own_server"] if is_own else host
    if status in (200, 206, 416):  # 416: the file is empty, or shorter than it was
        return
    if status == 502 and is_own:  # by its reverse proxy; 504 may be this file alone
        raise ServerOffline(f"The server is down: status {status}.")
    if status >= 500:
        raise FileOffline("file_refused_now", host=who, status=status)
    answer: dict[str, Any] = {}
    with contextlib.suppress(*NETWORK_ERRORS):
        answer = json_object(response.read(MAX_REFUSAL_BYTES) if is_own else b"")
    if status == 401 and is_coded(answer):
        raise BadKey
    code = "file_gone" if status in (404, 410) else "file_refused"
    kind = Failed if not is_own or is_final(status, answer) else Denied
    raise kind(code, host=who, status=status)


def whole_size(response: Response) -> int | None:
    """Return the size of the file that the response is a range of, None if unknown."""
    if response.status == 200:
        return response.length
    return number(response.headers.get("Content-Range", "").rpartition("/")[2])


def strong_validator(headers: http.client.HTTPMessage) -> str:
    """Return what If-Range takes (RFC 9110): a strong ETag, or else a date, or ""."""
    etag = headers.get("ETag", "")
    return str(etag if etag.startswith('"') else headers.get("Last-Modified", ""))


# Targets ----------------------------------------------------------------------
# Where the client puts files. A new kind of target is one class here.

FAT32_LIMIT_BYTES = 2**32
SIZE_MODULUS = 2**32  # ftpsrv tells sizes as numbers of 32 bits
BAD_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EISDIR, errno.EPERM)
REFUSALS = dict.fromkeys(BAD_NAME, Failed) | {errno.ENOSPC: Full, errno.EDQUOT: Full}
CONSOLE_PORTS = {"ftp": 5000, "lan": 2000}  # where programs listen
READY = "ready"


def console_parts(target: str) -> tuple[Address, str, int]:
    """Return the parts of a console's address, its host and its port, as catalogd reads
    it too: see check_console there. :raises Problem: it is none."""
    parts = split_address(target, *CONSOLE_PORTS)
    host, more = parts.hostname or "", [parts.query, parts.fragment]
    more += [parts.path.strip("/")] if parts.scheme == "lan" else []
    if any(more) or parts.port == 0 or not is_host(host):
        shown = one_line(without_password(target))
        raise Problem(f"{shown!r} is no address of a console. Use {TARGET_FORMS}.")
    return parts, host, parts.port or CONSOLE_PORTS[parts.scheme]


def is_host(text: str) -> bool:
    """Return whether a text can be the address or the name of another device: a name
    ends in no number, as "192.168.1.300" does."""
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        labels = text.removesuffix(".").split(".")
        is_name = all(re.fullmatch(r"[\w-]{1,63}", label) for label in labels)
        return is_name and not labels[-1].isdecimal()


class Target:
    """`start` is how its addresses start. `reads_back` is whether it supports --verify,
    `is_watched` whether it may be checked while there is nothing to send."""

    start: ClassVar[str]
    reads_back = True
    is_watched = True

    def __init__(self, settings: Settings) -> None:
        """:raises Problem: the address is wrong."""
        self.settings = settings
        self.address = without_password(settings.to)

    def check_ready(self, state: State) -> str:
        """Return "ready", or a code that tells too where the files go, if that may be a
        surprise.

        :raises TargetOffline: it takes no file now.
        """
        return READY

    def check_room(self, download: Download, start: int = 0) -> None:
        """:raises Failed: it cannot take the file, of which it has `start` bytes."""

    def send(self, download: Download, state: State) -> None:
        """Put the file there, under its name once it is complete.

        :raises TargetOffline, Interrupted: another attempt may succeed.
        """

    def discard(self, part: str) -> None:
        """Remove an unfinished file, by what it is called there."""

    def close(self) -> None:
        """Close the connection: after each item, and before another attempt."""


FREE, EQUAL, OURS = "free", "equal", "ours"  # what is where a file is to go
UNSEEN = -(2**62)  # the bytes of a file of which the target does not tell


def check_sent(download: Download) -> None:
    """:raises Failed: the SHA-256 of what was sent is not the server's."""
    sent = download.digest.digest() if download.digest else None
    if None not in (sent, download.sha256) and sent != download.sha256:
        raise Failed("file_damaged_there")


class Storage(Target, abc.ABC):
    """A target that keeps files by their names, which its subclasses read and write.
    An unfinished one is called NAME.part, and is resumed where that is possible.

    What a target says of a resumed file proves nothing: ftpsrv, for one, tells the
    right size of a file whose head it has replaced by zeros. So the end of the part is
    read back before it is resumed, and again once the rest has been written.
    """

    can_append = True  # False once the target has refused it, or damaged a file
    lost: ClassVar[str]  # code of what missing bytes are

    @abc.abstractmethod
    def size_of(self, name: str, expected: int = 0) -> int | None:
        """Return the bytes of a file, None where it does not exist, UNSEEN where the
        target does not tell. One that does not count beyond 32 bits gives `expected` if
        it may be that."""

    @abc.abstractmethod
    def names(self) -> Iterable[str]:
        """Return the names of the files in the folder, [] if that is not known."""

    def lacks(self, name: str) -> bool:
        """Return whether a file that has no size is not there either."""
        return True

    @abc.abstractmethod
    def write(self, name: str, download: Download) -> None:
        """Write the rest of the file."""

    @abc.abstractmethod
    def read(self, name: str, start: int, progress: Progress) -> Blocks:
        """Yield what a file has from the byte `start` on. :raises Unread: refused."""

    @abc.abstractmethod
    def rename(self, part: str, name: str, replaces: bool) -> None:
        """Rename a file; and if it `replaces` an existing one, also over that.
        :raises Unrenamed: the target renames none."""

    def save(self, download: Download, state: State) -> None:
        """Write the file to its part, and rename that once it is complete."""
        item = download.item
        self.check_ready(state)  # also in a later attempt
        name = download.name = state.own_name(download.name, item.entry_id)
        download.part = self._part_for(name, download, state)
        if self._find(name, download, state) == EQUAL:
            download.progress.screen.say(f"{name} is on the target already.")
            ends = download.ends()
            if name != download.part in state.parts:
                self._discard_part(download)
        else:
            self._fill(download, state)
            ends = self._name(name, download, state)
        state.mark_sent(item, name, ends)
        if len(state.files) > MAX_SENT_NAMES:
            state.keep_files(self.names(), name)

    def _part_for(self, name: str, download: Download, state: State) -> str:
        """Return what the unfinished file is called: by its own name where the target
        renames none, and else NAME.part, unless somebody else has that there."""
        if name == download.part or name in state.parts:
            return name
        part = f"{name}.part"
        is_free = part in state.parts or self.size_of(part) is None
        return part if is_free else f"{marked(name, state.client)}.part"

    def _find(self, name: str, download: Download, state: State) -> str:
        """Return whether nothing of a name is there, or the same file, or one that may
        be replaced: it was sent by this client, or somebody asks to replace it.

        :raises Failed: there is another one.
        """
        may_replace = self._may_replace(download)
        is_sent = state.sent == download.item.queue_item_id
        size = self.size_of(name, download.size or 0)
        if size is None:
            return FREE
        if may_replace and (size == UNSEEN or not is_sent):
            return OURS
        is_begun = name in state.parts  # where the target renames none
        if is_begun and (size == UNSEEN or self._is_begun(name, size, download)):
            return OURS
        if size == UNSEEN:
            raise Failed("file_unknown", name=name)
        return self._compare(name, size, download, state)

    def _may_replace(self, download: Download) -> bool:
        return self.settings.overwrite or download.item.replace

    def _is_begun(self, name: str, size: int, download: Download) -> bool:
        """Return whether a file that is written by its own name has nothing of others
        in it."""
        is_less = size < (download.size or math.inf)
        with contextlib.suppress(Unread):
            return is_less and self._matches(name, size, download, is_end=True)
        return True

    def _compare(self, name: str, size: int, download: Download, state: State) -> str:
        """Return what `_find` does of a file that is there, by its size and ends."""
        expected, is_same_size, ends = download.ends(), size == download.size, ""
        with contextlib.suppress(Unread):
            spans = end_spans(size) if expected else []
            pieces = [self._piece(name, *span, download.progress) for span in spans]
            ends = file_ends(size, pieces) if expected else ""
        if is_same_size and not ends:
            download.note = Failed("file_unread", name=name)
        if is_same_size and ends in ("", expected):
            return EQUAL
        sent = state.files.get(name.casefold())
        is_own = sent and ends and ends == sent.ends
        if is_own or self._may_replace(download):
            return OURS
        state.drop_part(name)  # what this client began by that name is not there
        raise Failed("same_size_file" if is_same_size else "other_file", name=name)

    def _fill(self, download: Download, state: State) -> None:
        """Write what the part lacks. :raises Failed: it is not the file then."""
        part = download.part
        size = max(self.size_of(part) or 0, 0)
        begun = state.parts.get(part)
        is_same = begun and begun.version == download.validator != ""
        start = self._resume_at(part, size, download) if is_same else 0
        self.check_room(download, start or size)
        state.begin(part, download.validator, download.item)
        download.begin(start, self.settings.verify)
        self.write(part, download)
        try:
            self._check_written(part, download)
        except Failed as problem:
            if not start or isinstance(problem, Interrupted):
                raise
            self.can_append = False
            state.begin(part, "", download.item)
            raise Interrupted("from_start", why=problem) from None

    def _name(self, name: str, download: Download, state: State) -> str:
        """Give the part its name, and return what `file_ends` tells of it."""
        ends = download.ends()  # of the same version still
        self.check_ready(state)
        if name == download.part:
            return ends
        outcome = self._find(name, download, state)
        state.mark_sent(download.item)
        try:
            if outcome == EQUAL:
                self._discard_part(download)
            else:
                self.rename(download.part, name, outcome == OURS)
        except Unrenamed:
            self._discard_part(download)
            state.drop_part(download.part)
            download.part = name  # at the next attempt
            raise
        return ends

    def _discard_part(self, download: Download) -> None:
        """Remove the part of a file that is on the target by its name, or will be."""
        self.discard(download.part)
        if not self.lacks(download.part):
            download.note = Failed("ftp_left", name=download.part)

    def _resume_at(self, part: str, size: int, download: Download) -> int:
        """Return the byte at which the part can go on and then be verified, 0 where it
        cannot. Of a target that counts in 32 bits, `size` may lack some 4 GiB."""
        is_verifiable = not self.settings.verify or download.sha256 is not None
        if not (size and self.can_append and is_verifiable):
            return 0
        for start in range(size, (download.size or 0) + 1, SIZE_MODULUS):
            with contextlib.suppress(Unread):
                if self._matches(part, start, download, is_end=True):
                    return start
        return 0

    def _matches(
        self, part: str, stop: int, download: Download, is_end: bool = False
    ) -> bool:
        """Return whether the part has, in the MiB before the byte `stop`, what the file
        has there; and, if `is_end`, nothing after it."""
        first = max(stop - SEAM_BYTES, 0)
        expected = download.retry(lambda: download.span(first, stop))
        return expected == self._piece(part, first, stop + is_end, download.progress)

    def _piece(self, name: str, start: int, stop: int, progress: Progress) -> bytes:
        """Return a file's bytes from `start` up to, without, `stop`, or to its end."""
        piece, blocks = b"", self.read(name, start, progress)
        with contextlib.closing(blocks):
            while len(piece) < stop - start and (block := next(blocks, b"")):
                piece += block
        return piece[: stop - start]

    def _check_written(self, part: str, download: Download) -> None:
        """:raises Failed: what the target has is not the file."""
        progress, sent = download.progress, download.digest
        kept = self.size_of(part, progress.done)
        if kept not in (progress.done, UNSEEN):
            kind = Gone if kept is None and self.lacks(part) else Interrupted
            raise kind(self.lost, **kept_sizes(kept or 0, progress.done))
        check_sent(download)
        is_whole = True
        if self.settings.verify or (progress.start and download.sha256):
            copy = hashlib.sha256()
            for block in self.read(part, 0, progress):
                copy.update(block)
            is_whole = copy.digest() == (download.sha256 or sent.digest())
        elif progress.start:
            is_whole = self._matches(part, progress.start, download)
        if not is_whole:
            raise Failed("card_worn")


def kept_sizes(kept: int, size: int) -> dict[str, str]:
    """Return two different numbers of bytes for a person."""
    texts = {"done": size_text(kept), "size": size_text(size)}
    exact = {"done": f"{kept} B", "size": f"{size} B"}
    return exact if texts["done"] == texts["size"] else texts


def mount_point(folder: str) -> str:
    """Return the mount point that a folder is on; on Windows, the drive."""
    path = os.path.realpath(folder)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def holds_home(mount: str) -> bool:
    """Return whether a mount point is the root, or the disk of the home folder."""
    paths = [mount, os.path.realpath(os.path.expanduser("~"))]
    with contextlib.suppress(ValueError):  # they are on different drives
        return mount == "/" or os.path.commonpath(paths) == mount
    return False


def sync_folder(folder: pathlib.Path) -> None:
    """Have the names of a folder written to its disk, where system and disk can."""
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            raise


class Folder(Storage):
    """A mounted SD card, or a share."""

    start = "folder:"
    lost = "card_kept"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if settings.to == self.start:
            raise Problem("Which folder? Use --to folder:PATH.")
        if re.search(r"[\ud800-\udfff]", settings.to):
            raise Problem("The name of the folder is not UTF-8. Rename it.")
        self.folder = pathlib.Path(settings.to.removeprefix(self.start)).expanduser()

    def check_ready(self, state: State) -> str:
        if not os.path.isdir(self.folder):
            raise TargetOffline("no_folder", path=self.folder)
        if state.mount and not os.path.ismount(state.mount):
            raise TargetOffline("no_card", path=state.mount)
        if not os.access(self.folder, os.W_OK):
            raise TargetOffline("card_read_only", path=self.folder)
        state.mount = mount_point(str(self.folder))
        state.save()
        return "own_disk" if holds_home(state.mount) else READY

    def check_room(self, download: Download, start: int = 0) -> None:
        free, size = shutil.disk_usage(self.folder).free, (download.size or 0) - start
        if size > free:
            sizes = {"free": size_text(free), "size": size_text(size)}
            raise Full("card_full", path=self.folder, **sizes)

    def send(self, download: Download, state: State) -> None:
        download.retry(download.probe)
        try:
            self.save(download, state)
        except OSError as error:
            raise self._problem(error, download.size or 0) from error

    def size_of(self, name: str, expected: int = 0) -> int | None:
        path = self.folder / name
        return path.stat().st_size if path.is_file() else None

    def names(self) -> Iterable[str]:
        return os.listdir(self.folder)

    def write(self, name: str, download: Download) -> None:
        start = download.progress.start
        with open(self.folder / name, "r+b" if start else "wb") as file:
            file.seek(download.size or 0)  # Linux: EINVAL where FAT32 cannot hold it
            file.seek(start)
            for chunk in download.chunks():
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def read(self, name: str, start: int, progress: Progress) -> Blocks:
        with open(self.folder / name, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):  # read the card, not the page cache
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(start)
            while block := file.read(CHUNK_BYTES):
                progress.check()
                yield block

    def rename(self, part: str, name: str, replaces: bool) -> None:
        (self.folder / part).replace(self.folder / name)
        sync_folder(self.folder)  # before the card is pulled out

    def discard(self, part: str) -> None:
        try:
            (self.folder / part).unlink(missing_ok=True)
        except OSError as error:
            raise TargetOffline("card_refuses", path=self.folder, why=error) from error

    def _problem(self, error: OSError, size: int) -> Problem:
        is_big = size >= FAT32_LIMIT_BYTES and error.errno == errno.EINVAL
        if error.errno == errno.EFBIG or is_big:
            return Failed("card_fat32")
        kind = REFUSALS.get(error.errno or 0, Interrupted)
        return kind("card_refuses", path=self.folder, why=error.strerror)


INSTALL_FOLDER = "install:"  # Sphaira installs what is written to it
HOMEBREW_FOLDER = "/switch"  # where .nro files go instead
FTP_FINISH_SECONDS = 120.0  # that a console may take to finish a file
FTP_REASON_SECONDS = 5.0  # that a console may take to say why it ended a transfer
LOGIN_SECONDS = 30.0  # for connecting, the greeting and the login together
MAX_REPLY_BYTES = 64 * 1024
MAX_REPLY_LINES = 200
# ValueError: of what is no number in a reply
FTP_ERRORS: tuple[type[Exception], ...] = (*ftplib.all_errors, ValueError)
FULL_REPLY = re.compile(r"^[45]52|no space|disk full|quota", re.IGNORECASE)
READ_ONLY_REPLY = re.compile(r"read.?only", re.IGNORECASE)
MAX_LIST_BYTES = 4 * 1024 * 1024
LIST_SECONDS = 60.0  # that a list may take as a whole
LIST_ROW = re.compile(  # such as "-rw-r--r-- 1 user group 1010 Nov 24 05:40 a game.nsp"
    r"[-d]\S{9,}\s+\d+\s+\S+\s+\S+\s+(?P<size>\d{1,18})"
    r"\s+\w+\s+\d+\s+[\d:]+ (?P<name>.+)"
)
NO_ROW = re.compile(r"total \d+|\s*$")
INSTALL_SECONDS = 900.0  # that Sphaira may take to tell whether it installed a file
MENU_SECONDS = 1.0  # that its menu may take to close after an install that failed
MENU_REPLY = re.compile(r"(permission denied)|invalid argument", re.IGNORECASE)
MAX_NAMED_FOLDERS = 8  # of which the page lets one be chosen
LOGIN_PAUSES = (60.0, 300.0, 900.0)  # seconds, after a login that was refused
NO_PASSIVE = ("500", "502")  # replies of a server that knows no passive mode
WEB_REPLY = re.compile(r"HTTP/|\s*<")
EXISTS_REPLY = re.compile(r"(?<!not )\bexists?\b", re.IGNORECASE)


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """:raises TargetOffline: no device has the name.
    :raises OSError: it cannot be connected to, or nobody tells its address now."""
    try:
        return socket.create_connection((host, port), seconds)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise
        raise TargetOffline("no_such_host", name=host) from error


class Listed(NamedTuple):
    """A file or a folder in a list of a server."""

    name: str  # the whole line, where that cannot be read
    size: int  # bytes, negative where it cannot be read
    is_folder: bool = False


def read_listed(line: str) -> Listed:
    """Return what a line of a list tells."""
    match, is_folder = LIST_ROW.fullmatch(line), line.startswith("d")
    name, size = (match["name"], int(match["size"])) if match else (line, -1)
    return Listed(name, size, is_folder)


class NoPassive(ConnectionError):
    """The server opens no data connection for this side to connect to."""


class Connection(ftplib.FTP):
    """The control connection to a console's FTP server, or to whatever else answers
    there. All replies and lists are read here: any bytes, but with an end. `progress`
    is of what it is used for: that may be cancelled at any time."""

    progress: Progress
    _reply_seconds = TIMEOUT_SECONDS  # that the next reply may take as a whole
    end = math.inf  # of all calls, by time.monotonic()
    _unread = b""

    def open(self, host: str, port: int, user: str, password: str) -> None:
        """Connect and log in. A console that is off is told soon; later it may be busy.
        :raises TargetOffline: no device has the name."""
        self.end, self._unread = time.monotonic() + LOGIN_SECONDS, b""
        self.host, self.timeout = host, TIMEOUT_SECONDS  # also of data connections
        self.sock = connect(host, port, CONNECT_SECONDS)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.af = self.sock.family
        try:
            self.reply_within(CONNECT_SECONDS)
        except TimeoutError:
            self._check_web()
            raise
        self.login(user, password)
        self.voidcmd("TYPE I")
        self.end = math.inf

    def _check_web(self) -> None:
        """:raises ftplib.error_proto: what greets nobody is a web server."""
        assert self.sock
        self.sock.sendall(b"QUIT\r\n\r\n")
        answer = self._receive(self.sock, time.monotonic() + 1.0)
        if WEB_REPLY.match(line := answer.decode("utf-8", "replace")):
            raise ftplib.error_proto(line)

    def reply_within(self, seconds: float) -> None:
        """Wait for a reply that nothing is asked for, or that may take long.
        :raises ftplib.Error: it tells no success."""
        self._reply_seconds = seconds
        self.voidresp()

    def end_transfer(self, seconds: float) -> None:
        """Wait for the reply to a transfer. What refuses for good what the server does
        already is a connection that broke: a process of vsftpd that is killed tells so.
        :raises ftplib.Error, ConnectionError: it tells no success."""
        try:
            self.reply_within(seconds)
        except ftplib.error_perm as error:
            if FULL_REPLY.search(str(error)):
                raise
            raise ConnectionError(str(error)) from error

    def getmultiline(self) -> str:
        """Return a reply as one line: its code, and its texts.

        :raises TimeoutError, EOFError: it does not end.
        :raises ftplib.error_proto: it is longer than any reply, or is none.
        """
        end = min(time.monotonic() + self._reply_seconds, self.end)
        self._reply_seconds = TIMEOUT_SECONDS  # of the next
        code, room, texts = "", MAX_REPLY_BYTES, list[str]()
        for _ in range(MAX_REPLY_LINES):
            line = self._line(room, end)
            code, room = code or line[:3], room - len(line)
            if not re.fullmatch("[1-5][0-9]{2}", code):
                raise ftplib.error_proto(line)
            texts.append(re.sub(f"^{code}[ -]?", "", line))
            if line[:3] == code and line[3:4] != "-":
                return f"{code} {'; '.join(filter(None, map(str.strip, texts)))}"
        raise ftplib.error_proto(f"{code} without an end")

    def _line(self, room: int, end: float) -> str:
        """Return a line of a reply. ftpsrv tells a SIZE of 2 to 4 GiB as a negative
        number, of whose sign it makes a reply of several lines."""
        assert self.sock
        while b"\n" not in self._unread:
            if len(self._unread) > room:
                raise ftplib.error_proto("a reply without an end")
            piece = self._receive(self.sock, end)
            if not piece:
                raise EOFError
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        return re.sub(r"^213-(\d+)213 END$", r"213 -\1", text)

    def interrupt(self) -> None:
        """End the call that another thread waits for."""
        shut_down(self.sock)

    @contextlib.contextmanager
    def data(self, command: str, start: int = 0) -> Iterator[socket.socket]:
        """Open the data connection of a command. Its end is not waited for."""
        sock = self.transfercmd(command, start or None)
        with sock, self.progress.cancels(functools.partial(shut_down, sock)):
            yield sock

    def blocks(self, path: str, start: int = 0) -> Blocks:
        """Yield a file from the byte `start` on. Servers reply to an early end in
        different ways: the connection is of no use after it."""
        with self.data(f"RETR {path}", start) as data:
            while block := data.recv(CHUNK_BYTES):
                yield block
        self.end_transfer(FTP_FINISH_SECONDS)

    def listed(self, folder: str = "") -> list[Listed]:
        """Return what is in a folder, by default the current one.
        :raises Failed: the list has no end."""
        text, end = b"", min(time.monotonic() + LIST_SECONDS, self.end)
        with self.data(f"LIST {folder}".strip()) as data:
            while block := self._receive(data, end):
                text += block
                if len(text) > MAX_LIST_BYTES:
                    raise Failed("saves_many")
        self.end_transfer(TIMEOUT_SECONDS)
        lines = text.decode("utf-8", "replace").splitlines()
        files = [read_listed(line) for line in lines if not NO_ROW.match(line)]
        return [file for file in files if file.name not in (".", "..")]

    def _receive(self, sock: socket.socket, end: float) -> bytes:
        """Wait for bytes until the time `end`. :raises TimeoutError: none came."""
        left = max(end - time.monotonic(), 0)
        if not select.select([sock], [], [], left)[0]:
            raise TimeoutError
        return sock.recv(CHUNK_BYTES)

    def makepasv(self, tries: int = 5) -> tuple[str, int]:
        """:raises ConnectionError: also where the reply is that it never works: the
        port may be taken now, as that of ftpsrv is once in a hundred calls."""
        try:
            host, port = super().makepasv()
            port.to_bytes(2, "big")  # checks it
        except (ftplib.Error, ValueError, OverflowError) as error:
            if tries > 1:
                return self.makepasv(tries - 1)
            knows_it = not str(error).startswith(NO_PASSIVE)
            raise (ConnectionError if knows_it else NoPassive)(str(error)) from error
        return host, port


class FTPDisk(Storage):
    """The FTP server of a console, or any other, with files on a disk."""

    lost = "bytes_lost"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        parts, self.host, self.port = console_parts(settings.to)
        self.user = urllib.parse.unquote(parts.username or "anonymous")
        self.password = urllib.parse.unquote(parts.password or "")
        folder = urllib.parse.unquote(parts.path or INSTALL_FOLDER)
        self.folder = re.sub("/+", "/", f"/{folder.strip('/')}")
        if re.search(r"[\r\n\0\ud800-\udfff]", self.user + self.password + folder):
            raise Problem("User, password and folder must be one line each.")
        self.reads_back = not self.folder.endswith(":")
        self._ftp = Connection()
        self._ftp.progress = Progress(Screen())
        self._entered = ""
        self._finish_seconds = FTP_FINISH_SECONDS  # that the reply to a file may take
        self._refusals = 0  # of the login, in a row
        self._refusal: TargetOffline | None = None  # the last, if it is not asked again
        self._asks_at = -math.inf  # before this time, by time.monotonic()

    def check_ready(self, state: State) -> str:
        self.connect()
        return READY

    def connect(self) -> None:
        """:raises TargetOffline: it takes no file now."""
        if self._refusal and time.monotonic() < self._asks_at:
            raise self._refusal
        try:
            if self._ftp.sock is None:
                self._ftp.open(self.host, self.port, self.user, self.password)
                self._refusals = 0
        except FTP_ERRORS as error:
            self.close()
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> TargetOffline:
        """Return why there is no connection. A login that was refused is not tried
        again at once: somebody has to change something."""
        of, text = {"address": self.host, "port": str(self.port)}, str(error)
        if isinstance(error, ConnectionRefusedError):
            return TargetOffline("ftp_no_port", **of)
        if WEB_REPLY.match(text):
            return TargetOffline("ftp_web", **of)
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
            return TargetOffline("ftp_silent", address=self.host)
        where, reply = f"{self.host}:{self.port}", error_text(error, self.password)
        problem = TargetOffline("ftp_not_ready", address=where, why=reply)
        if text.startswith("530"):
            pause = LOGIN_PAUSES[min(self._refusals, len(LOGIN_PAUSES) - 1)]
            self._refusals += 1
            self._refusal, self._asks_at = problem, time.monotonic() + pause
        return problem

    def _enter_for(self, name: str) -> None:
        """Change to the folder for a file. One for homebrew may be forbidden."""
        if name.lower().endswith(".nro"):
            try:
                return self._enter(HOMEBREW_FOLDER)
            except Failed:
                if not self.reads_back:
                    raise
        return self._enter(self.folder)

    def _enter(self, folder: str) -> None:
        self._entered = folder
        is_install = folder == f"/{INSTALL_FOLDER}"
        code = "ftp_no_install" if is_install else "ftp_no_folder"
        with self._problems(folder, code):
            self._change_to(folder)

    def _change_to(self, folder: str) -> None:
        """Change to a folder. One of a disk is created, with those that it is in."""
        try:
            self._ftp.cwd(folder)
        except ftplib.error_perm:
            above, _, name = folder.rpartition("/")
            if not name or name.endswith(":"):
                raise
            if above:
                self._change_to(above)
            self._ftp.mkd(folder)
            self._ftp.cwd(folder)

    @contextlib.contextmanager
    def calls(self, name: str, progress: Progress) -> Iterator[Connection]:
        """Inside the block, use the connection for what has this name. What cancels the
        progress ends the wait for a reply.

        :raises Failed: see `_problems`.
        """
        self._ftp.progress = progress
        with self._problems(one_line(name)), progress.cancels(self._ftp.interrupt):
            yield self._ftp

    def list(
        self, folder: str, progress: Progress, end: float = math.inf
    ) -> list[Listed]:
        """Return what is in a folder, [] where there is no such folder.
        :raises Failed: it cannot be read until the time `end`."""
        with self.calls(folder, progress) as ftp:
            ftp.end = end
            try:
                ftp.cwd(folder)
            except ftplib.error_perm:
                return []
            return ftp.listed()

    @contextlib.contextmanager
    def _problems(
        self, name: str, code: str = "ftp_refuses", kind: type[Failed] = Failed
    ) -> Iterator[None]:
        """Turn errors of the server into problems with the file of this name.
        :param code: of a refusal, which is of this kind."""
        try:
            yield
        except FTP_ERRORS as error:
            reply = error_text(error, self.password)
            is_error = isinstance(error, ftplib.Error)
            if is_error and FULL_REPLY.search(str(error)):
                kind, code = Full, "ftp_full"
            elif isinstance(error, NoPassive):
                kind, code = Failed, "ftp_no_passive"
            elif not is_error or str(error).startswith("425"):
                kind, code = Interrupted, "ftp_broke"
            elif not isinstance(error, ftplib.error_perm):
                kind, code = Ended, "ftp_ended"
            raise kind(code, name=name, why=reply) from error

    def close(self) -> None:
        self._ftp.close()

    def _reconnect(self) -> None:
        self.close()
        self.connect()
        self._enter(self._entered)

    def names(self) -> Iterable[str]:
        return [file.name for file in self._listed()]

    def _listed(self, folder: str = "") -> Sequence[Listed]:
        """Return what is in a folder, [] where the server tells nobody."""
        with contextlib.suppress(ftplib.error_perm):
            return self._ftp.listed(folder)
        return []

    def lacks(self, name: str) -> bool:
        sizes = (ask(name) for ask in (self.size_of, self._listed_size))
        has_size = any(size not in (None, UNSEEN) for size in sizes)
        return not (has_size or self._can_read(name))

    def _can_read(self, name: str) -> bool:
        """Return whether there is a file. kaiHEN lists none whose name is not ASCII."""
        with contextlib.suppress(Unread):
            self._piece(name, 0, 1, self._ftp.progress)
            return True
        return False

    def size_of(self, name: str, expected: int = 0) -> int | None:
        size = self._told_size(name)
        if size in (0, UNSEEN):
            size = self._listed_size(name)
        if size in (None, UNSEEN):
            return size
        is_expected = (size - expected) % SIZE_MODULUS == 0
        return expected if is_expected else size % SIZE_MODULUS if size < 0 else size

    def _told_size(self, name: str) -> int | None:
        """Return what SIZE tells of a file: UNSEEN where that is nothing."""
        try:
            size = number(self._ftp.sendcmd(f"SIZE {name}")[3:].strip())
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if str(error).startswith("550"):  # proftpd, for one, has others too
                return None
            size = None
        return UNSEEN if size is None else size

    def _listed_size(self, name: str) -> int | None:
        """Return what LIST tells of a file."""
        try:
            files = [file for file in self._ftp.listed() if not file.is_folder]
        except ftplib.error_perm:
            return UNSEEN
        for file in files:
            if file.name.casefold() == name.casefold():
                return file.size
        is_hidden = not name.isascii() and self._can_read(name)
        is_unread = any(file.size < 0 for file in files)
        return UNSEEN if is_hidden or is_unread else None

    def write(self, name: str, download: Download) -> None:
        start = download.progress.start
        if 0 < start == download.size:
            return  # it has all bytes: an APPE of none would be in vain
        data = self._open(name, start)
        with data, download.progress.cancels(functools.partial(shut_down, data)):
            for chunk in download.chunks():
                try:
                    data.sendall(chunk)
                except OSError:  # a server with a full card may give no reply
                    silent = ftplib.error_temp(SENTENCES["timed_out"])
                    self._read_end(FTP_REASON_SECONDS, silent)
                    raise
        unfinished = Unfinished("ftp_unfinished", name=download.name)
        self._read_end(self._finish_seconds, unfinished)

    def _read_end(self, seconds: float, silent: Exception) -> None:
        """Wait for the reply to a file. :raises silent: there is none."""
        try:
            self._ftp.end_transfer(seconds)
        except TimeoutError as error:
            raise silent from error

    def _open(self, name: str, start: int) -> socket.socket:
        """Open the data connection that takes the file. REST is not for this: ftpsrv
        accepts it, and then truncates the file at STOR."""
        try:
            return self._ftp.transfercmd(f"{'APPE' if start else 'STOR'} {name}")
        except ftplib.error_perm as error:
            reply = error_text(error, self.password)
            if start:
                self.can_append = False
                raise Interrupted("ftp_no_resume", why=reply) from error
            if FULL_REPLY.search(reply) or READ_ONLY_REPLY.search(reply):
                raise
            raise Gone("ftp_refuses", name=name, why=reply) from error

    def read(self, name: str, start: int, progress: Progress) -> Blocks:
        first, blocks, skip = self._begin_to_read(name, start)
        try:
            for block in itertools.chain([first], blocks):
                if rest := block[skip:]:
                    yield rest
                skip -= len(block) - len(rest)
        except GeneratorExit:
            blocks.close()
            self._reconnect()
            raise

    def _begin_to_read(self, name: str, start: int) -> tuple[bytes, Blocks, int]:
        """Return the first block of a file from the byte `start` on, the others, and
        how many bytes come before that, where the console refuses REST."""
        for place in dict.fromkeys((start, 0)):
            blocks = self._ftp.blocks(name, place)
            with contextlib.suppress(ftplib.error_perm):
                return next(blocks, b""), blocks, start - place
        if start:
            self._reconnect()  # so that no REST is left for what comes next
        raise Unread("ftp_no_reading", name=name)

    def rename(self, part: str, name: str, replaces: bool) -> None:
        with self._problems(part, "ftp_no_rename", Unrenamed):
            self._ftp.sendcmd(f"RNFR {part}")
        try:
            reply = self._ftp.voidcmd(f"RNTO {name}")
        except ftplib.error_perm as error:
            if not (replaces and EXISTS_REPLY.search(str(error))):
                raise
            self._ftp.delete(name)  # some servers do not rename over an existing file
            reply = self._ftp.rename(part, name)
        if self.size_of(part) not in (None, UNSEEN):  # though it has said yes
            why = error_text(ftplib.error_reply(reply), self.password)
            raise Unrenamed("ftp_no_rename", why=why)

    def discard(self, part: str) -> None:
        try:
            self.connect()
            self._enter_for(part.removesuffix(".part"))
            with self._problems(part):
                self._ftp.delete(part)
        except (Interrupted, Full) as problem:  # it is busy
            raise TargetOffline(problem.text, **problem.of) from problem
        except Failed:  # it is not there
            pass


class FTP(FTPDisk):
    """An FTP server with a folder that may install what is written to it: as one does
    in which every name exists, or of what it took nothing is there then. That cannot be
    resumed or read back. Sphaira's tells how it went: see ftpsrv_helper.cpp of its
    release 1.0.6."""

    start = "ftp://"

    def send(self, download: Download, state: State) -> None:
        download.retry(download.probe)
        self.connect()
        try:
            with self.calls(download.name, download.progress):
                self._enter_for(download.name)
                self._put(download, state)
        except (Interrupted, Full) as problem:
            if self._has_reached_limit(download):
                raise Failed("card_fat32") from problem
            raise

    def _has_reached_limit(self, download: Download) -> bool:
        """Return whether a part is as large as a file on a FAT32 card can be."""
        least, limit = FAT32_LIMIT_BYTES - CHUNK_BYTES, FAT32_LIMIT_BYTES
        if min(download.progress.done, (download.size or 0) - CHUNK_BYTES) < least:
            return False
        with contextlib.suppress(Problem, *FTP_ERRORS):
            self._reconnect()
            size = self.size_of(download.part, limit - 1)
            return least <= (size or 0) < limit
        return False

    def _put(self, download: Download, state: State) -> None:
        """Send a file once its folder is entered."""
        place, name = f"{self.host}:{self.port}{self._entered}", download.name
        has_all = self._told_size(secrets.token_hex(8)) not in (None, UNSEEN)
        if not has_all and not (place in state.installs and self.lacks(name)):
            state.installs.discard(place)  # a file stays there
            try:
                return self.save(download, state)
            except Gone as problem:
                if not (self.lacks(download.part) and self.lacks(download.name)):
                    raise Failed(problem.text, **problem.of) from problem
                state.drop_part(download.part)
        return self._install(download, state, place, has_all)

    def _install(
        self, download: Download, state: State, place: str, has_all: bool
    ) -> None:
        """Write a file by its own name. What was taken is never sent again."""
        names = [file.name for file in self._listed("/")] if has_all else []
        self.reads_back, tells = False, INSTALL_FOLDER in names  # is it Sphaira's?
        if state.sent != download.item.queue_item_id:
            self._finish_seconds = INSTALL_SECONDS if tells else FTP_FINISH_SECONDS
            self._write_once(download, tells, has_all or place in state.installs)
            is_kept = not has_all and not self.lacks(download.name)
            if is_kept:
                state.installs.discard(place)
                self._check_written(download.name, download)
            elif not has_all:
                state.installs.add(place)
            state.mark_sent(download.item, download.name if is_kept else "")
        is_open = self._is_open(download.progress) if tells else True
        if is_open is False:
            raise Failed("ftp_not_installed")
        if is_open is None:
            download.note = Failed("ftp_untold")

    def _write_once(self, download: Download, tells: bool, installs: bool) -> None:
        """Write a file, of which nothing is sent again once it was taken."""
        try:
            with self._problems(download.name):
                download.begin(0)
                self.write(download.name, download)
            download.check_unchanged()
            check_sent(download)
        except Gone as problem:
            if not (download.has_broken and EXISTS_REPLY.search(str(problem))):
                raise self._why_closed(problem, tells, installs) from problem
        except (Interrupted, Unfinished) as problem:
            if not tells:
                raise
            self.close()  # a late reply would be taken for another
            if problem.text == "file_changed" and download.is_over():
                raise Failed(problem.text) from problem
            raise self._why_broken(download, problem) from problem

    def _why_broken(self, download: Download, problem: Problem) -> Problem:
        """Return what to tell of a copy that broke. It is tried again once, and only if
        the menu is open still: an install that fails breaks it too."""
        if self._is_open(download.progress) is False:
            return Failed("ftp_not_installed")
        if download.has_broken:
            return Failed("gave_up", why=problem, count=2)
        download.has_broken = True
        return problem

    def _why_closed(self, problem: Gone, tells: bool, installs: bool) -> Problem:
        """Return what to tell of a folder that takes no file now; or that is none for
        files, as the one at DBI's root: those in it may be."""
        reply = MENU_REPLY.search(str(problem)) if tells else None
        if installs and not (reply and reply[1] is None):
            return TargetOffline("ftp_closed", why=problem.of["why"])
        listed = [] if installs else self._listed()
        names = [file.name for file in listed if file.is_folder][:MAX_NAMED_FOLDERS]
        if names:
            of = {"folder": self._entered, "folders": ", ".join(names)}
            return Failed("ftp_no_files", why=problem.of["why"], **of)
        return Failed(problem.text, **problem.of)

    def _is_open(self, progress: Progress) -> bool | None:
        """Return whether Sphaira's menu takes files still, None where it does not tell
        in time. It closes after an install that failed. The reply to the next command
        waits for the end of the install: that to the file, 226, does not."""
        end = time.monotonic() + INSTALL_SECONDS
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(Problem, *FTP_ERRORS):
                if self._ftp.sock is None:
                    self._reconnect()
                self._ftp.putcmd("NOOP")
                self._ftp.reply_within(left)
                progress.sleep(MENU_SECONDS)
                return self._takes_files()
            self.close()
            progress.sleep(POLL_SECONDS)
        return None

    def _takes_files(self) -> bool | None:
        """Return what Sphaira tells of its menu. It refuses an empty text in any case,
        and says why."""
        try:
            self._ftp.storbinary("STOR question.txt", io.BytesIO())
        except ftplib.error_perm as error:
            if reply := MENU_REPLY.search(str(error)):
                return reply[1] is None
        return None


class LAN(Target):
    """A network installer on a console: it gets addresses of files, and fetches them
    from the server, which counts the bytes. It never tells whether it succeeded."""

    start = "lan://"
    reads_back = False
    is_watched = False  # installers take a connection for the start of a transfer

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        _, self.host, self.port = console_parts(settings.to)
        self._sock: socket.socket | None = None

    def check_ready(self, state: State) -> str:
        try:
            if self._sock is None:
                self._sock = connect(self.host, self.port, TIMEOUT_SECONDS)
        except OSError as error:
            where = f"{self.host}:{self.port}"
            raise TargetOffline("lan_silent", address=where, why=error) from error
        return READY

    def close(self) -> None:
        if self._sock:
            self._sock.close()
        self._sock = None

    def push(self, addresses: Sequence[str]) -> None:
        """Give the console all addresses, after `check_ready`."""
        assert self._sock
        lines = [console_address(address, self._sock) for address in addresses]
        text = "".join(f"{line}\n" for line in lines).encode()
        try:
            self._sock.sendall(struct.pack(">I", len(text)) + text)
        except OSError as error:
            raise TargetOffline("lan_broke", why=error) from error

    def is_connected(self) -> bool:
        return self._sock is not None

    def has_ended(self, seconds: float) -> bool:
        """Wait for so long, or until the console is done: it sends a byte then, also
        after failures. Without that it may go on when the connection is lost."""
        if self._sock is None:
            time.sleep(seconds)
            return False
        if not select.select([self._sock], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            if self._sock.recv(1):
                return True
        self.close()
        return False


def console_address(address: str, sock: socket.socket) -> str:
    """Return the address in a form for the console: without a scheme, as ns-usbloader
    sends it, and with an IP address, since it may not resolve names."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme != "http":
        return address
    try:
        addresses = socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
        host = str(min(addresses)[4][0])  # IPv4 before IPv6
    except OSError:
        host = parts.hostname or ""
    if host == "::1" or host.startswith("127."):  # the server runs on this machine
        host = sock.getsockname()[0]
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or 80}{parts.path}"


def find_target(settings: Settings) -> Target:
    """:raises Problem: the address is wrong, or its target cannot be read back."""
    to, forms = settings.to, TARGET_FORMS
    for kind in (Folder, FTP, LAN):
        if to.startswith(kind.start):
            target = kind(settings)
            if settings.verify and not target.reads_back:
                raise Problem(f"{target.address} cannot be read back. Omit --verify.")
            return target
    if not to:
        raise Problem(f"No target given. Use --to with {forms}.")
    is_path = re.match(r"(\w:)?[^:]*[/\\]", to)
    hint = f"Did you mean folder:{to}?" if is_path else f"Use {forms}."
    raise Problem(f"{without_password(to)!r} is not a target. {hint}")


# Saves ------------------------------------------------------------------------
# Copies of the backups of saves that programs on a console made. A client that its
# server runs makes them while it has nothing to send; all else goes on without them.

SAVES_SECONDS = 1800.0  # between two looks
# Of JKSV, Checkpoint, Sphaira, DBI and Tinfoil:
SAVES_FOLDERS = ["/JKSV", "/switch/Checkpoint/saves", "/dumps/Save"]
SAVES_FOLDERS += ["/switch/DBI/saves", "/switch/tinfoil/saves"]
UNUSED_SAVES = "/JKSV/_TRASH_"
MAX_SAVE_DEPTH = 10  # of a path
MAX_SAVE_NAMES = 20_000  # in one look
MAX_SAVE_BYTES = 4 * 10**9  # of a backup
MAX_SAVE_FAULTS = 5  # broken connections, and lines that tell what failed, in one look
ID_LENGTH = len(" (0123456789abcdef)")  # which ends the name of a device's folder
SAVE_PARTS = f"*/*-{'[0-9a-f]' * 12}.part"
SAVE_NAME = re.compile(r"[^/\\\x00-\x1f\ufffd]+")  # "\ufffd" stands for no UTF-8
WINDOWS_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
DISK_CODES = {errno.ENOENT: "disk_away", errno.ENOSPC: "disk_full"}
ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, OSError, ValueError)


Files = Sequence[Listed]  # whose names are paths, and whose sizes, if negative, noted


class ZipFolder(io.FileIO):
    """A zip file, of which a directory that is too large for one is not read."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size and size > MAX_LIST_BYTES:
            raise zipfile.BadZipFile
        return super().read(size) or b""


def save_name(path: str) -> str:
    """Return the last part of a path as a name that any system takes."""
    name = safe_name(re.sub(r"(?i)\.zip$", "", os.path.basename(path)))
    return marked(f"_{name}", name) if WINDOWS_DEVICE.match(name) else name


def write_through(path: str, flags: int) -> int:
    """Open a file so that each write waits for the disk: one for all of them at its end
    would hold up what is to be sent meanwhile."""
    return os.open(path, flags | getattr(os, "O_DSYNC", 0), 0o666)


class Saves:
    """Copies what is new to FOLDER/TITLE/NAME-MARK.zip. The mark is a digest of paths,
    sizes and times on the console: by these names it knows what it has, by nothing
    else. A file that has its name is whole, and is neither changed nor removed.

    :param folder: for the device; the owner made the one that this is in.
    :param keep_free: bytes that stay free on its disk.
    :param state: folder of the State that notes where its disk is mounted.
    """

    due = -math.inf  # when the next look is, by time.monotonic()

    def __init__(self, target: FTP, folder: str, keep_free: float, state: str) -> None:
        self.target, self.keep_free = target, keep_free
        self.folder = pathlib.Path(folder)
        self._state_of = state, "saves", str(self.folder.parent)
        self._damaged = set[pathlib.Path]()  # copies that would not be whole

    def look(self, progress: Progress, screen: Screen) -> float:
        """Copy what is new, and tell the server how that went. Return the seconds until
        the next look. :raises Cancelled: the server has told something."""
        self._progress, end = progress, Problem("")
        self._copied, self._faults = 0, list[Problem]()
        self._names = self._breaks = self._received = 0  # of them, breaks, bytes
        try:
            with contextlib.closing(self.target), self._disk():
                self._copy_new()
        except Problem as problem:
            self._progress.check()
            end = problem
        for fault in self._faults[:MAX_SAVE_FAULTS]:
            screen.tell(saves=None, **fault.coded())
        screen.tell(saves=self._copied, **end.coded())
        return SAVES_SECONDS

    def _copy_new(self) -> None:
        """:raises Problem: the rest is for the next time."""
        self._check_folder()
        self.remove_parts()
        self.target.connect()
        for title in itertools.chain.from_iterable(map(self._list, SAVES_FOLDERS)):
            for path, files in self._backups(title):
                with self._going_on(path):
                    self._copy(title.name, path, files)

    def remove_parts(self) -> None:
        """Remove those of a process that was killed, also where the device had another
        name. :raises Problem: the disk fails."""
        with self._disk():
            of_device = self.folder.parent.glob(f"*{self.folder.name[-ID_LENGTH:]}")
            self.folder = next(of_device, self.folder)
            for part in self.folder.glob(SAVE_PARTS):
                part.unlink()

    @contextlib.contextmanager
    def _going_on(self, path: str) -> Iterator[None]:
        """Note what fails in the block, and connect again to go on after it."""
        try:
            yield
        except (Failed, TargetOffline) as problem:
            self._progress.check()
            self._note(path, problem)
            self._breaks += isinstance(problem, (Interrupted, TargetOffline))
            if self._breaks >= MAX_SAVE_FAULTS:
                raise
            self.target.close()
            self.target.connect()

    def _note(self, path: str, why: Problem) -> None:
        self._faults.append(Failed("save_failed", path=one_line(path), why=why))

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        """:raises Problem: the disk of this computer fails in the block."""
        try:
            yield
        except OSError as error:
            cause = Problem(DISK_CODES.get(error.errno or 0, f"{error_text(error)}."))
            parent = self.folder.parent
            raise Problem("saves_disk", folder=parent, why=cause) from error

    def _check_folder(self) -> None:
        """:raises OSError: its disk is away. Nothing is made below its mount point: the
        State is read anew, since the client of another device may have noted that."""
        state, parent = State(*self._state_of), str(self.folder.parent)
        os.stat(parent)
        if state.mount and not os.path.ismount(state.mount):
            raise FileNotFoundError(errno.ENOENT, "")
        if (mount := mount_point(parent)) != state.mount:
            state.mount = mount
            state.save()

    # What is on the console

    def _list(self, folder: str) -> list[Listed]:
        """Return what a folder has, [] where it does not exist."""
        files = [Listed(f"{folder}/", -1)]
        with self._going_on(folder):
            if folder.count("/") >= MAX_SAVE_DEPTH:
                raise Failed("saves_many")
            names = self.target.list(folder, self._progress)
            files = [self._file(folder, name) for name in names]
        self._names += len(files)
        if self._names > MAX_SAVE_NAMES:
            raise Problem("saves_many")
        return [file for file in files if file.name != UNUSED_SAVES]

    def _file(self, folder: str, file: Listed) -> Listed:
        if file.size >= 0 and SAVE_NAME.fullmatch(file.name):
            return file._replace(name=f"{folder}/{file.name}")
        self._note(f"{folder}/{file.name}", Failed("save_name"))
        return Listed(f"{folder}/", -1)

    def _tree(self, file: Listed) -> list[Listed]:
        """Return the files below a folder, or a file itself."""
        if not file.is_folder:
            return [file]
        return [below for each in self._list(file.name) for below in self._tree(each)]

    def _backups(self, title: Listed) -> Iterator[tuple[str, Files]]:
        """Yield the path and the files of each backup: a zip file is one, and so is a
        folder in that of a title if it has none."""

        def names_of(file: Listed) -> list[str]:
            return file.name.split("/")[: title.name.count("/") + 2]

        for names, group in itertools.groupby(sorted({*self._tree(title)}), names_of):
            files, path = [*group], "/".join(names)
            zips = [file for file in files if file.name.lower().endswith(".zip")]
            yield from ((file.name, [file]) for file in zips)
            if not zips and path != files[0].name:
                yield path, files

    def _version(self, files: Files) -> str:
        """Return what changes where a backup is written again: paths, sizes, and the
        times of two files, since each costs a call, to the minute, since some programs
        tell no seconds."""
        texts = [f"{file.name} {file.size}" for file in files]
        for file in dict.fromkeys((files[0], files[-1])):
            calls = self.target.calls(file.name, self._progress)
            with calls as ftp, contextlib.suppress(ftplib.error_perm):
                texts.append(ftp.sendcmd(f"MDTM {file.name}")[4:16])
        return "\n".join(texts)

    # What is copied

    def _copy(self, title: str, path: str, files: Files) -> None:
        """Copy a backup, unless this version of it is there. :raises Failed: it cannot
        be read whole. :raises OSError: the disk takes no more."""
        if min(file.size for file in files) < 0:
            return
        version, size = self._version(files), sum(file.size for file in files)
        name = marked(f"{save_name(path)}.zip", version, 12)
        copy = self.folder / save_name(title) / name
        if copy.exists():
            return
        if size > MAX_SAVE_BYTES:
            raise Failed("save_large", size=size_text(MAX_SAVE_BYTES))
        if copy in self._damaged:
            raise Failed("save_damaged")
        self._check_folder()
        copy.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(copy.parent).free - size < self.keep_free:
            raise OSError(errno.ENOSPC, "")
        part = copy.with_suffix(".part")
        try:
            if not self._fetch(part, path, files):
                self._damaged.add(copy)
            if copy in self._damaged or self._version(files) != version:
                raise Failed("save_damaged")
            part.rename(copy)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(copy.parent)
        self._copied += 1

    def _fetch(self, part: pathlib.Path, path: str, files: Files) -> bool:
        """Write a backup to a new file, and return whether it is whole."""
        self._received = 0
        with open(part, "wb", 4 * CHUNK_BYTES, opener=write_through) as out:
            if files[0].name == path:
                out.writelines(self._blocks(files[0]))
            else:
                self._pack(path, files, out)
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(*ZIP_ERRORS), ZipFolder(str(part)) as file:
            zipfile.ZipFile(file)
            return self._received == sum(file.size for file in files)
        return False

    def _pack(self, path: str, files: Files, out: IO[bytes]) -> None:
        with zipfile.ZipFile(out, "w") as packed:
            for file in files:
                info = zipfile.ZipInfo(file.name.removeprefix(f"{path}/"))
                info.file_size = file.size
                with packed.open(info, "w") as part:
                    part.writelines(self._blocks(file))

    def _blocks(self, file: Listed) -> Blocks:
        """Yield what a file has, until that is more than its size."""
        left = file.size
        with self.target.calls(file.name, self._progress) as ftp:
            with contextlib.closing(ftp.blocks(file.name)) as blocks:
                while left >= 0 and (block := next(blocks, b"")):
                    left -= len(block)
                    self._received += len(block)
                    yield block
            self._progress.check()


# Reports ----------------------------------------------------------------------
# What the client does between items: it watches its target, and reports how each ended.

MAX_COMMAND_SECONDS = 300.0  # that the command of --on-done may take
NOTHING_KEPT = {"progress_percent": 0, "bytes_transferred": 0}
UNDO_SECONDS = 30.0  # for which cancelling can be undone; the page offers it for 10
CHECK_SECONDS = 60.0  # between two checks of the target while there is nothing to send
INSTALLED_SECONDS = 600.0  # between two looks at what is on a console
LOOK_SECONDS = 60.0  # that one of them may take
LAST_TITLE_SECONDS = 10.0  # before its end, no title is begun
MAX_CONSOLE_TITLES = 5000
MAX_TOLD_PARTS = 5000  # in one call: 160 KB
GAMES_FOLDER = "/games:"
CONSOLE_TITLE = re.compile(r"\[([0-9A-F]{16})\]$")
CONSOLE_PART = re.compile(r"\[([0-9A-F]{16})\]\[v([0-9]{1,10})\]\[[A-Z]+\]\.nsp$")


class Pace:
    """How often a sender looks at its queue and at its target.

    :param is_told: whether its server runs the client. That tells when somebody waits
        for this target, and for how many seconds to look often; else the client looks
        once a minute, whatever the sender wants.
    """

    def __init__(self, is_told: bool = False) -> None:
        self.idle = Progress(Screen())  # of what ends when the server tells something
        self._is_told, self._told = is_told, threading.Event()
        self._often_until = -math.inf

    def check_seconds(self) -> float:
        """Return the time between two looks at the target."""
        is_often = time.monotonic() < self._often_until
        return POLL_SECONDS if is_often else CHECK_SECONDS

    def wait(self, wanted: float) -> None:
        """Wait for the next look: as many seconds as the sender wants, or until the
        server tells something, or it is due."""
        if not self._is_told:
            return time.sleep(wanted)  # Ctrl-C ends it, on Windows too
        self._told.wait(self.check_seconds())
        self.idle = Progress(Screen())
        return self._told.clear()

    def tell(self, seconds: float) -> None:
        self._often_until = max(self._often_until, time.monotonic() + seconds)
        self._told.set()
        self.idle.cancel(Cancelled("The console is wanted."))


class Installed:
    """Tells the server what Sphaira lists of the titles that are installed: in its
    folder "games:" one for each, "NAME [ID]", with a file for each part in it, such as
    "NAME [1.2.0][ID][v65536][UPD].nsp". Other programs have no such folder: of those
    it is not known. Source: devoptab_game.cpp of Sphaira 1.0.6."""

    def __init__(self, target: FTPDisk, server: Server) -> None:
        self.target, self.server = target, server
        self.forget()

    def forget(self) -> None:
        """Read all anew, and at once: the console was away, or was sent to."""
        self.due = -math.inf  # when the next look is, by time.monotonic()
        # All titles that are told, and folders of those that the library has:
        self._seen: tuple[list[Listed], list[str]] = [], []
        self._left: list[str] = []  # of these, those to read
        self._parts: dict[str, int] = {}  # numbers of versions that were read, by id

    def look(self, progress: Progress, screen: Screen) -> float:
        """Go on reading. Return the seconds until the next look.
        :raises Cancelled: the server has told something."""
        try:
            return INSTALLED_SECONDS if self.read(progress) else 0.0
        except Problem as problem:
            progress.check()
            screen.say(f"What is on the console is not known: {problem}")
            return INSTALLED_SECONDS

    def read(self, progress: Progress) -> bool:
        """Go on reading, for at most LOOK_SECONDS, and tell the server when that is
        done. Return whether it is: the rest is for the next time.
        :raises Problem: it cannot be read or told."""
        end = time.monotonic() + LOOK_SECONDS
        with contextlib.closing(self.target):
            self.target.connect()
            if not self._left and not self._begin(progress, end):
                return True
            while self._left and time.monotonic() < end - LAST_TITLE_SECONDS:
                self._read(self._left[-1], progress, end)
                self._left.pop()
        return not self._left and self._tell()

    def _begin(self, progress: Progress, end: float) -> bool:
        """Read the titles, and return whether there is news: others than before, or
        others of them that the library has."""
        titles = self.target.list(GAMES_FOLDER, progress, end)
        if not titles:
            return False
        if len(titles) > MAX_CONSOLE_TITLES:
            raise Failed("saves_many")
        found = [(CONSOLE_TITLE.search(title.name), title.name) for title in titles]
        folders = {match[1]: name for match, name in found if match}
        asked = {"titles": list(folders)}
        known = self.server.call("POST", ON_CONSOLE_PATH, asked).get("known") or ()
        wanted = [folders[id] for id in known if id in folders]
        if (titles, wanted) == self._seen:
            return False
        self._seen, self._left, self._parts = (titles, wanted), wanted[::-1], {}
        return True

    def _read(self, name: str, progress: Progress, end: float) -> None:
        """Read the parts of a title."""
        for file in self.target.list(f"{GAMES_FOLDER}/{name}", progress, end):
            if part := CONSOLE_PART.search(file.name):
                number = max(int(part[2]), self._parts.get(part[1], 0))
                self._parts[part[1]] = number

    def _tell(self) -> bool:
        """Tell the server, in one call or several, and return True."""
        seen, self._seen = self._seen, ([], [])  # again, where that breaks
        texts = [f"{id} {number}" for id, number in sorted(self._parts.items())]
        for first in range(0, max(len(texts), 1), MAX_TOLD_PARTS):
            last = first + MAX_TOLD_PARTS
            more = {"goes_on": first > 0, "is_last": last >= len(texts)}
            body = {"parts": texts[first:last], **more}
            self.server.call("POST", ON_CONSOLE_PATH, body)
        self._seen = seen
        return True


class Watch:
    """The target while nothing is sent: whether it is ready, what is left there of
    files that nobody wants any more, what is installed, and the saves on it."""

    installed: Installed | None = None

    def __init__(
        self, target: Target, state: State, screen: Screen, pace: Pace, saves: Any
    ) -> None:
        """:param saves: None where none are copied."""
        self.target, self.state, self.screen, self.pace = target, state, screen, pace
        self.saves: Saves | None = saves
        self.readiness: Problem | None = None  # "ready", or why not, None: not known
        self._checked = -math.inf  # when that was, by time.monotonic()
        self._stopped_at: dict[str, float] = {}  # by name

    def look(self, after: str = "") -> None:
        """Check the target, if the last time is long ago, and say what is new.

        :param after: what ends a problem, so that the attempt after it, which meets the
            same one, repeats the line.
        """
        is_due = time.monotonic() >= self._checked + self.pace.check_seconds()
        if not (self.target.is_watched and is_due):
            return
        before = self.readiness
        with contextlib.suppress(TargetOffline), contextlib.closing(self.target):
            self.check()
        if (now := str(self.readiness)) not in (str(before), READY):
            is_offline = isinstance(self.readiness, TargetOffline)
            self.screen.say(now[0].upper() + now[1:] + after * is_offline)

    def check(self) -> None:
        """:raises TargetOffline: it takes no file now."""
        self._checked, was_ready = time.monotonic(), str(self.readiness) == READY
        try:
            self.state.save()  # what a failing disk did not take
            self.readiness = Problem(self.target.check_ready(self.state))
            if not was_ready:
                self.forget_installed()
                if self.saves:
                    self.saves.due = -math.inf
        except TargetOffline as problem:
            self.readiness = problem
            raise

    def forget_installed(self) -> None:
        if self.installed:
            self.installed.forget()

    def read_console(self) -> None:
        """Read what is due of a console that is ready: what is installed, and saves."""
        readers: list[Installed | Saves | None] = [self.installed, self.saves]
        for reader in readers if str(self.readiness) == READY else []:
            if reader and time.monotonic() >= reader.due:
                with contextlib.suppress(Cancelled):  # then it is due again at once
                    seconds = reader.look(self.pace.idle, self.screen)
                    reader.due = time.monotonic() + seconds

    def stop(self, item: Item, name: str) -> None:
        """Note that an item was cancelled. What the target has of it stays for now."""
        self._stopped_at[name] = time.monotonic()
        self.state.stop(item, name)

    def remove_stopped(self, after: float = 0, undone: Container[str] = ()) -> bool:
        """Remove from the target what it has of files that were cancelled so many
        seconds ago, and return whether there was any.

        :param undone: ids of items that wait again.
        """
        now, at = time.monotonic(), self._stopped_at
        parts = self.state.parts.items()
        wanted = [n for n, part in parts if part.is_stopped and part.item not in undone]
        names = [name for name in wanted if now >= at.setdefault(name, now) + after]
        at.update(dict.fromkeys(names, now))  # when it is tried again
        return any([self.discard(name) for name in names])

    def remove_parts(self) -> None:
        """Remove what the target has of unfinished files, and what this computer has of
        copies, since this device was removed. Say what stays on the target."""
        for name in [*self.state.parts]:
            if not self.discard(name):
                break
        for name in self.state.parts:
            self.screen.say(f"{name} stays on the target.")
        if self.saves:
            try:
                self.saves.remove_parts()
            except Problem as problem:
                self.screen.say(str(problem))

    def discard(self, name: str) -> bool:
        """Return whether the target could remove an unfinished file."""
        try:
            self.check()
            self.target.discard(name)
            self.state.drop_part(name)
        except TargetOffline:
            return False
        finally:
            self.target.close()
        return True


class Reports:
    """How items begin and end: told to the server, to a person, and to the command of
    --on-done. `failures` counts the items that failed."""

    def __init__(self, server: Server, watch: Watch) -> None:
        self.server, self.watch = server, watch
        self.target, self.state, self.screen = watch.target, watch.state, watch.screen
        self.failures = 0

    def claim(self, item: Item) -> bool:
        """Return whether the item is this client's now; another may have been first."""
        try:
            self.server.report(item, self.state.client, status="processing")
            return True
        except Cancelled:
            pass
        except Failed as problem:
            self.fail(Sending(item, self.screen), problem)
        return False

    def stop(self, sending: Sending, why: Cancelled) -> None:
        """End an item that was cancelled. What the target has of it stays for now."""
        item = sending.item
        self.watch.stop(item, sending.part)
        self._report_at_last(item, release=True, **self._kept(sending))
        self.screen.say(f"{item.entry_name}: stopped: {why}")
        self._run_command(item, "failed")

    def complete(self, sending: Sending) -> None:
        progress, note, now = sending.progress, sending.note, time.monotonic()
        size = progress.size or progress.done
        fields: dict[str, Any] = {"progress_percent": 100, "bytes_transferred": size}
        took = duration_text(now - (sending.began or now))
        text = str(note or f"sent, {size_text(size)} in {took}.")
        fields |= note.fields() if note else {}
        self._end(sending.item, sending.part, text, status="completed", **fields)

    def fail(self, sending: Sending, problem: Problem) -> None:
        self.failures += 1
        item, name = sending.item, sending.part
        has_part = name in self.state.parts
        is_left = has_part and not self.watch.discard(name)
        fields = {"status": "failed", **problem.fields()}
        if not is_left and (has_part or not self.target.reads_back):
            fields |= NOTHING_KEPT
        self._end(item, "" if is_left else name, f"failed: {problem}", **fields)
        if is_left:  # it may be damaged: it is removed, once the target is back
            self.state.stop(item, name, is_damaged=True)

    def _end(self, item: Item, name: str, text: str, **fields: Any) -> None:
        """Report how the item ended, and go on to the next."""
        self._report_at_last(item, **fields)
        self.state.forget(name)
        self.screen.say(f"{item.entry_name}: {text}")
        self._run_command(item, fields["status"])

    def _report_at_last(self, item: Item, **fields: Any) -> None:
        """Report on an item, as soon as the server can be reached."""

        def report() -> None:
            with contextlib.suppress(Cancelled, Failed):  # it is not in the queue
                self.server.report(item, self.state.client, **fields)

        Retry(time.sleep, say=self.screen.say).call(report)

    def _kept(self, sending: Sending) -> dict[str, int]:
        """Return how much of a file stays on a target, which can be read back then."""
        return sending.progress.figures() if self.target.reads_back else NOTHING_KEPT

    def release(self, sending: Sending, why: Problem) -> None:
        """Put the item back into the queue: until then it counts as being sent."""
        fields = {**self._kept(sending), **why.fields()}
        self._report_at_last(sending.item, release=True, **fields)
        self.screen.say(f"{sending.item.entry_name}: put back into the queue: {why}")

    def release_now(self, sending: Sending) -> None:
        """Put the item back when the program ends. The server does so after a while."""
        item, kept = sending.item, self._kept(sending)
        with contextlib.suppress(Problem):
            self.server.report(item, self.state.client, release=True, **kept)
            self.screen.say(f"{item.entry_name}: put back into the queue.")

    def _run_command(self, item: Item, status: str) -> None:
        """Run the command of --on-done. Its environment says what has ended."""
        if not self.target.settings.on_done:
            return
        secrets = ("SEND_TO_SWITCH_KEY", "SEND_TO_SWITCH_TO")
        env = {name: text for name, text in os.environ.items() if name not in secrets}
        env["SEND_TO_SWITCH_NAME"] = printable(item.entry_name)
        env["SEND_TO_SWITCH_STATUS"] = status
        env["SEND_TO_SWITCH_TARGET"] = self.target.address
        command, limit = self.target.settings.on_done, MAX_COMMAND_SECONDS
        try:
            subprocess.run(command, shell=True, check=True, env=env, timeout=limit)
        except (OSError, subprocess.SubprocessError) as error:
            self.screen.say(f"--on-done: {error}")


# Transfers --------------------------------------------------------------------
# The copy of one queue item's file. A thread reports its progress meanwhile.

MAX_ATTEMPTS = 3  # that get no further, before an item has failed
MAX_SILENCES = 5  # attempts to reach a target, before its items wait
MIN_DENIED_SECONDS = 600.0  # for which a file is denied, before its item has failed


@dataclasses.dataclass
class Attempts:
    """What this client knows of its attempts at an item, while that is in the queue."""

    failures: int = 0  # in a row that have got no further
    furthest: int = 0  # the byte at which one of them began
    version: str = ""  # of the file then
    denials: list[float] = dataclasses.field(default_factory=list)  # time.monotonic()

    def fail(self, start: int, version: str) -> int:
        """Count an attempt that has failed, and return how many have got no further:
        those before it did if it began at a later byte than any of them."""
        furthest = self.furthest if version == self.version else 0
        self.failures = 1 if start > furthest else self.failures + 1
        self.furthest, self.version = max(start, furthest), version
        return self.failures

    def deny(self) -> int:
        """Count that the file was denied. Return how often it was, 0 if that may pass
        still."""
        times = self.denials = [*self.denials, time.monotonic()]
        is_over = times[-1] - times[0] >= MIN_DENIED_SECONDS
        return len(times) if is_over and len(times) >= MAX_ATTEMPTS else 0


class Transfer:
    def __init__(
        self, reports: Reports, download: Download, attempts: Attempts
    ) -> None:
        self.target, self.state = reports.target, reports.state
        self.download, self.progress = download, download.progress
        self.attempts = attempts
        self._retry = Retry(self.progress.sleep, MAX_SILENCES)
        self._over = threading.Event()
        self._reporter = Server(reports.server.address, reports.server.key)
        self._reporting = threading.Lock()  # held to report, in the order of numbers

    def run(self) -> None:
        """:raises TargetOffline, Failed, Cancelled, BadKey: the file is not there."""
        thread = threading.Thread(target=self._report_on, name="reporter")
        thread.start()
        try:
            self._retry.call(self._attempt)
        finally:
            self._over.set()
            thread.join(REPORT_SECONDS)  # a late report would take the item back
            self._reporter.interrupt()
            thread.join()
            self._reporter.close()

    def _attempt(self) -> None:
        try:
            self.target.send(self.download, self.state)
        except Problem as problem:
            self.target.close()
            self.progress.check()  # cancelling causes other problems
            is_attempt = isinstance(problem, (Interrupted, Unfinished))
            if is_attempt and not isinstance(problem, Denied):
                self._retry.reset()  # the target answers
                self._count(problem)
            raise

    def _count(self, problem: Problem) -> None:
        """Report why the item is tried again, and count the attempt, as the server
        does over all clients.

        :raises Failed: it was the third in a row that has got no further.
        """
        start = self.progress.start
        count = self.attempts.fail(start, self.download.validator)
        with contextlib.suppress(ServerOffline):
            fields = {"status": "processing", "bytes_kept": start, **problem.fields()}
            told = number(str(self._report(**fields).get("attempts")))
            count = max(count, told or 0)
        if count >= MAX_ATTEMPTS:
            kind = Full if isinstance(problem, Full) else Failed
            raise kind("gave_up", why=problem, count=MAX_ATTEMPTS)

    def _report(self, **fields: Any) -> dict[str, Any]:
        item, fields = self.download.item, {**self.progress.figures(), **fields}
        with self._reporting:
            return self._reporter.report(item, self.state.client, **fields)

    def _report_on(self) -> None:
        """Report the progress until the transfer is over. This runs in the thread."""
        while not self._over.wait(REPORT_SECONDS):
            try:
                self._report(**self.progress.news())
            except ServerOffline:
                continue  # the next report brings it up to date
            except Problem as problem:
                self.progress.cancel(problem)
                break


# Offers -----------------------------------------------------------------------
# The files that a network installer has in its list. It fetches them from the server:
# how far it is can be told by the bytes that the server has served alone.

MAX_OFFERED = 50  # files in one list
SERVED_POLL_SECONDS = 1.0  # between two calls for the bytes that the console fetched
CLAIM_SECONDS = 60.0  # between two reports that a file, not begun yet, is offered
MAX_CHOICE_SECONDS = 600.0  # that a person may take to choose on the console
MAX_QUIET_SECONDS = 120.0  # that a console may fetch nothing
MAX_ORPHAN_SECONDS = 10.0  # the same, without the connection that tells its end
MIN_SHARE = 0.98  # of the bytes; installers skip some that they do not need


class Offered(Sending):
    """A file in the list. It `began` when its first byte was served, 0: none was."""

    def __init__(self, item: Item, screen: Screen) -> None:
        super().__init__(item, screen)
        self.progress.begin(item.entry_name, 0, item.entry_size)
        self.began = 0.0
        self._served = 0  # bytes, by the last answer of the server

    def count(self, served: int) -> bool:
        """Return whether more bytes were served than at the last call. A server that
        was restarted counts from zero again."""
        new = served - self._served if served >= self._served else served
        self._served = served
        if new:
            self.began = self.began or time.monotonic()
            self.progress.add(new)
        return new > 0

    def is_whole(self) -> bool:
        return self.progress.done >= MIN_SHARE * self.item.entry_size

    def report(self, claim_seconds: float) -> dict[str, Any] | None:
        """Return the fields of a report, None where it is too early for one."""
        waited = time.monotonic() - self.progress.told_at
        if waited < (REPORT_SECONDS if self.began else claim_seconds):
            return None
        news = self.progress.news()
        return {"status": "processing", **news} if self.began else {"offered": True}


class Offers:
    """The lists that an installer gets, one after another."""

    def __init__(self, server: Server, reports: Reports) -> None:
        self.server = server
        self.reports = reports
        self.client = reports.state.client
        self.files: dict[str, Offered] = {}  # that have not ended, by queue item
        self.has_begun = False  # whether the console has fetched anything
        self._has_asked = False  # what was served of the list of a run that crashed

    def give(self, target: LAN, items: Sequence[Item]) -> bool:
        """Give the installer a list, and follow how it fetches that. Return True.

        :raises TargetOffline: it has fetched nothing.
        """
        with contextlib.closing(target):
            self.reports.watch.check()
            addresses = self.server.offer(items[:MAX_OFFERED], self.client)
            self._add([item for item in items if item.queue_item_id in addresses])
            try:
                for item in [item for item in self.files if not addresses[item]]:
                    self._end(item, Failed("lan_no_file"))
                if self.files:
                    self._follow(target, filter(None, addresses.values()))
            finally:
                self._leave()
        return True

    def end_orphans(self, target: LAN, items: Sequence[Item]) -> bool:
        """End what an installer has fetched whole, and let it finish, before it gets
        other addresses: an earlier run of the program had given it a list. Return False
        where that was done already."""
        if self._has_asked:
            return False
        served = self.server.served(self.client)
        if any(served.values()):
            self._add([item for item in items if item.queue_item_id in served])
            text = "Waiting for the console to finish what it has begun."
            self.reports.screen.say(text)
        self._wait(target)
        for item, problem in self._rest():
            self._end(item, problem and TargetOffline(problem.text, **problem.of))
        self._has_asked = True
        return True

    def _add(self, items: Sequence[Item]) -> None:
        screen, self.has_begun = self.reports.screen, False
        self.files = {item.queue_item_id: Offered(item, screen) for item in items}

    def _follow(self, target: LAN, addresses: Iterable[str]) -> None:
        self.reports.screen.say(f"Offered to the console: {len(self.files)}.")
        target.push(list(addresses))
        self._wait(target)
        for item, problem in self._rest():
            self._end(item, problem)
        if not self.has_begun:
            raise TargetOffline("lan_idle")

    def _leave(self) -> None:
        """Put back what the console has not fetched whole, when the program ends. The
        next run asks for the rest."""
        for item, problem in self._rest():
            if problem:
                self.reports.release_now(self.files[item])

    def _end(self, item: str, problem: Problem | None) -> None:
        file = self.files.pop(item)
        if problem is None:
            self.reports.complete(file)
        elif isinstance(problem, TargetOffline):
            self.reports.release(file, problem)
        elif isinstance(problem, Cancelled):
            self.reports.stop(file, problem)
        else:
            self.reports.fail(file, problem)

    def _wait(self, target: LAN) -> None:
        """End files as the console fetches them, until it ends."""
        active = time.monotonic()
        while self.files and not target.has_ended(SERVED_POLL_SECONDS):
            with contextlib.suppress(ServerOffline):  # it will be back
                has_moved = self._count()
                self._report()
                active = time.monotonic() if has_moved else active
            limit = MAX_QUIET_SECONDS if self.has_begun else MAX_CHOICE_SECONDS
            limit = limit if target.is_connected() else MAX_ORPHAN_SECONDS
            if time.monotonic() > active + limit:
                break
        for pause in (0.0, SERVED_POLL_SECONDS):  # the last bytes may be counted late
            time.sleep(pause)
            Retry(time.sleep, kinds=(ServerOffline,)).call(self._count)

    def _count(self) -> bool:
        """Ask the server how much it has served, and return whether that is more. End
        what was cancelled, and what was fetched whole before another file: until then
        it may be read again."""
        served = self.server.served(self.client)
        for item in self.files.keys() - served.keys():
            self._end(item, Cancelled("It was cancelled."))
        moved = [file.count(served[item]) for item, file in self.files.items()]
        self.has_begun |= any(moved)
        begun = [item for item, file in self.files.items() if file.began]
        begun.sort(key=lambda item: self.files[item].began)
        for item in begun[:-1]:
            if self.files[item].is_whole():
                self._end(item, None)
        return any(moved)

    def _report(self) -> None:
        claim_seconds = min(CLAIM_SECONDS, self.server.stale_after / 3)
        for item, file in [*self.files.items()]:
            if fields := file.report(claim_seconds):
                try:
                    self.server.report(file.item, self.client, **fields)
                except (Cancelled, Failed) as problem:
                    self._end(item, problem)

    def _rest(self) -> Iterator[tuple[str, Problem | None]]:
        """Yield the others once the console has ended, and why they are not sent."""
        for item, file in [*self.files.items()]:
            done, size = file.progress.done, file.item.entry_size
            problem: Problem | None = None
            if not file.began and size:
                problem = TargetOffline("lan_not_fetched")
            elif not file.is_whole():
                sizes = {"done": size_text(done), "size": size_text(size)}
                problem = Failed("lan_ended", **sizes)
            yield item, problem


# Sender -----------------------------------------------------------------------
# The queue, item by item: a failed one does not stop the rest.


@dataclasses.dataclass
class Sender:
    server: Server
    target: Target
    state: State
    screen: Screen = dataclasses.field(default_factory=Screen)
    pace: Pace = dataclasses.field(default_factory=Pace)
    saves: Saves | None = None

    def __post_init__(self) -> None:
        target, pace = self.target, self.pace
        self.watch = Watch(target, self.state, self.screen, pace, self.saves)
        if isinstance(target, FTPDisk):
            self.watch.installed = Installed(target, self.server)
        self.reports = Reports(self.server, self.watch)
        self._offers = Offers(self.server, self.reports)
        # Items that wait behind the others, since the target took none of them.
        self._put_back: dict[str, Attempts] = {}

    def run(self, once: bool) -> None:
        """Send what is in the queue; and, unless `once`, what will be."""
        retry = Retry(self.pace.wait, say=self.screen.say, first_pause=POLL_SECONDS)
        while True:
            try:
                self.watch.look("" if once else f" {AGAIN}")
                has_sent = self.send_next()
                retry.reset()
            except BadKey:
                self.watch.remove_parts()
                raise
            except Offline as problem:
                if once:
                    raise
                retry.wait(problem)
                continue
            if once and not has_sent:
                self.screen.say("The queue is empty.")
                self.watch.remove_stopped()
                return
            if has_sent:
                self.watch.forget_installed()
            else:
                self.watch.read_console()
                self.screen.say("Waiting for queue items.")
                self.pace.wait(POLL_SECONDS)

    def send_next(self) -> bool:
        """Send the first item that can be claimed. Return False if there is none.

        :raises TargetOffline: the target has taken none of them.
        """
        items, back = self._queue(), self._put_back
        self.state.change(self.server.gone, is_stopped=True)
        items.sort(key=lambda item: item.queue_item_id in back)
        queued = {item.queue_item_id for item in items}
        self._put_back = {item: back[item] for item in back.keys() & queued}
        self.watch.remove_stopped(UNDO_SECONDS, queued)
        if not isinstance(self.target, LAN):
            return self._send_first(items)
        if items and self._offers.end_orphans(self.target, items):
            items = self._queue()
        return bool(items) and self._offers.give(self.target, items)

    def _queue(self) -> list[Item]:
        unfinished = [part.item for part in self.state.parts.values() if part.item]
        return self.server.queue(self.state.client, self.watch.readiness, unfinished)

    def _send_first(self, items: Sequence[Item]) -> bool:
        """Send the first of these items that can be claimed, as `send_next` does."""
        problems: list[TargetOffline] = []
        with contextlib.closing(self.target):
            for item in items:
                self.watch.check()
                if not self.reports.claim(item):
                    continue
                try:
                    self._send(item)
                    return True
                except TargetOffline as problem:
                    problems.append(problem)
        if problems:
            raise problems[-1]
        return False

    def _send(self, item: Item) -> None:
        reports, download = self.reports, Download(self.server, item, self.screen)
        attempts = self._put_back.pop(item.queue_item_id, Attempts())
        self.screen.say(f"{item.entry_name}: sending {size_text(item.entry_size)}.")
        try:
            Transfer(reports, download, attempts).run()
            reports.complete(download)
        except TargetOffline as problem:
            self._put_off(download, attempts, problem)
        except Cancelled as problem:
            reports.stop(download, problem)
        except Failed as problem:
            # A full card may have room without the files that were cancelled.
            is_full = isinstance(problem, Full) and self.watch.remove_stopped()
            if is_full and reports.claim(item):
                self._send(item)
            else:
                reports.fail(download, problem)
        except BaseException as problem:
            if not isinstance(problem, BadKey):
                reports.release_now(download)
            raise

    def _put_off(
        self, download: Download, attempts: Attempts, problem: TargetOffline
    ) -> None:
        """Put back an item that the target has not taken, unless its file was denied
        too often: what was sent of it stays. :raises TargetOffline: it is put back."""
        item = download.item
        if isinstance(problem, Denied) and (count := attempts.deny()):
            self.state.change({item.queue_item_id}, item="")
            why = Failed("gave_up", why=problem, count=count)
            return self.reports.fail(Sending(item, self.screen), why)
        self._put_back[item.queue_item_id] = attempts
        self.reports.release(download, problem)
        raise problem

    def preview(self) -> None:
        """Say what `run` would send, and send nothing."""
        items = self.server.queue(self.state.client)
        self.screen.say(f"{len(items)} to send to {self.target.address}.")
        self.watch.look()
        for item in items:
            download = Download(self.server, item, self.screen)
            try:
                download.probe()
                if not isinstance(self.watch.readiness, TargetOffline):
                    self.target.check_room(download)
                self.screen.say(f"{download.name}: {size_text(download.size or 0)}.")
            except (Failed, FileOffline) as problem:
                self.screen.say(f"{item.entry_name}: would fail: {problem}")


# Commands ---------------------------------------------------------------------
# The command line. A problem is one line on standard error, and an exit code.


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        kind, mark, words = message.partition("unrecognized arguments: ")
        if mark:  # without its value: that may be a key
            option = re.search(r"(?<!\S)-[^\s=]*", words)
            message = f"unknown option {option[0] if option else ''}"
        raise Problem(f"{message}. See '{self.prog} --help'.")


def parser() -> Parser:
    top = Parser(
        prog=program(),
        allow_abbrev=False,  # "--key" is not "--key-file"
        usage="%(prog)s [OPTION ...] [login | pair URL CODE]",
        description="Send the entries of catalogd's send queue to a console.",
        epilog="Exit codes: 0 everything is sent, 1 an item failed, 2 a mistake in the"
        " settings, 3 the key is refused, 4 the server or the target cannot be reached"
        " (with --once), 130 Ctrl-C. Each option up to --config is also an environment"
        " variable, such as SEND_TO_SWITCH_SERVER, and a key of the INI file, in the"
        f" section [{PROGRAM}].",
    )
    text = "login: get an API key for a name and a password. pair: get one for the"
    text += " pairing code that the page shows, such as 482-915"
    top.add_argument("command", nargs="*", metavar="COMMAND", help=text)
    defaults = {"key_file": config_path(KEY_FILE), "state": own_folder("state")}
    defaults["name"] = socket.gethostname()
    for field in dataclasses.fields(Settings):
        words = dict(field.metadata)
        default = defaults.get(field.name, "none" if "metavar" in words else "no")
        words["help"] += f" (default: {default})".replace("%", "%%")
        top.add_argument(f"--{field.name.replace('_', '-')}", **words)
    text, path = "INI file (default: %(default)s)", config_path(INI_FILE)
    top.add_argument("--config", metavar="FILE", default=path, help=text)
    top.add_argument("--once", action="store_true", help="end when the queue is empty")
    top.add_argument("--dry-run", action="store_true", help="print what would be sent")
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return top


def login(settings: Settings, ini: str) -> int:
    """Ask for name and password, and save a new key and the server's address."""
    text = "Address of catalogd, such as http://pi.local:6069: "
    address = server_address(settings.server or input(text))
    name = input("Name: ")
    password = getpass.getpass("Password: ")
    redeem(settings, ini, lambda server: server.login(name, password), server=address)
    return 0


def pair(settings: Settings, ini: str, url: str, code: str, name: str | None) -> int:
    """Redeem a pairing code, and save the server, the target and the key. A device that
    is paired again by its name may have a new target."""
    address, code = server_address(url), re.sub(r"[\s-]", "", code)
    if not re.fullmatch("[0-9]{6}", code):
        raise Problem("A pairing code has six digits, such as 482-915.")
    saved = {"server": address, "to": settings.to, **read_ini(ini)}
    is_same = saved["to"] == settings.to or saved.get("name", "") == name
    if server_address(saved["server"]) != address or not is_same:
        raise Problem(f"{ini} is for another device. Choose a file with --config FILE.")
    if settings.to:
        find_target(settings)
    named, host = {"name": name} if name else {}, name or socket.gethostname()
    written = {"server": address, "to": settings.to, **named}
    redeem(settings, ini, lambda server: server.pair(code, host), **written)
    return 0


def redeem(
    settings: Settings, ini: str, ask: Callable[[Server], str], **values: str
) -> None:
    """Ask for a key, which is given only once, and write it into a file, and the path
    of that and the values into the INI file. Say how to go on.
    :raises Problem: one of them cannot be written. Then no key was asked for."""
    is_default = ini == config_path(INI_FILE)
    name = config_path(KEY_FILE) if is_default else f"{os.path.splitext(ini)[0]}.key"
    path = os.path.abspath(settings.key_file or name)
    for place in (path, ini):
        write_file(f"{place}.try", "")
        os.unlink(f"{place}.try")
    with contextlib.closing(Server(values["server"])) as server:
        write_file(path, f"{ask(server)}\n")
    values = {**read_ini(ini), "key_file": path, **values}
    lines = [f"{n} = {v}".replace("\n", "\n\t") for n, v in values.items()]
    write_file(ini, "\n".join([f"[{PROGRAM}]", *lines, ""]))
    options = "" if is_default else f" --config {ini}"
    options += "" if settings.to else " --to TARGET"
    print(f"The key is in {path}. Now run '{program()}{options}'.")


def write_file(path: str, text: str) -> None:
    """:raises Problem: in the place of an OSError."""
    try:
        write_private(path, text)
    except OSError as error:
        path = path.removesuffix(".try")
        raise Problem(f"{path}: cannot be written: {error.strerror}.") from error


def send(args: argparse.Namespace, settings: Settings) -> int:
    """Send the queue, or preview that. Return the exit code."""
    address = server_address(settings.server)
    target = find_target(settings)
    state = State(settings.state or own_folder("state"), address, settings.to)
    with contextlib.closing(Server(address, read_key(settings))) as server:
        sender = Sender(server, target, state)
        if args.dry_run:
            sender.preview()
            return 0
        with state.exclusive():
            sender.screen.say(f"From {address} to {target.address}. Stop with Ctrl-C.")
            sender.run(args.once)
    return Failed.exit_code if sender.reports.failures else 0


def run_by_server(pipe: int = 0) -> int:
    """Send until the server ends, which runs this program, and return the exit code.

    :param pipe: to which the server writes its address as "server", the "key", the
        target as "to", a folder as "state", and what Saves needs as "saves" if it is to
        copy them, as a line of JSON; then a number of seconds whenever somebody waits,
        see Pace.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the server
    lines = io.FileIO(pipe)  # unbuffered: it has no lock for a thread to hold at exit
    given = json.loads(lines.readline())
    key, pace, screen = given.pop("key"), Pace(is_told=True), Screen()
    saves, copies = given.pop("saves", None), None
    threading.Thread(target=listen, args=(lines, pace), daemon=True).start()
    try:
        settings = Settings(**given)
        target = find_target(settings)
        # The name of its state stays when a port or the target's address changes.
        state = State(settings.state, "server", "target")
        server = Server(settings.server, key)
        if saves and isinstance(target, FTP):
            copies = Saves(target, *saves)
        with contextlib.closing(server), state.exclusive():
            Sender(server, target, state, screen, pace, copies).run(once=False)
        return 0
    except Problem as problem:
        screen.say(str(problem))
        return problem.exit_code


def listen(lines: io.FileIO, pace: Pace) -> None:
    """Take what the server writes, and end at once where the pipe ends."""
    with lines:
        for line in lines:
            pace.tell(float(line))
    os._exit(0)


def run_command(argv: Sequence[str] | None) -> int:
    """:raises Problem, EOFError, KeyboardInterrupt:"""
    args = parser().parse_intermixed_args(argv)
    settings = Settings.load(vars(args), args.config)
    match args.command:
        case []:
            if args.config != config_path(INI_FILE) and not os.path.exists(args.config):
                raise Problem(f"{args.config}: there is no such file.")
            return send(args, settings)
        case ["login"]:
            return login(settings, args.config)
        case ["pair", url, *code] if code:
            return pair(settings, args.config, url, "".join(code), args.name)
    commands = "The commands are login and pair URL CODE"
    raise Problem(f"{commands}. See '{program()} --help'.")


def main(argv: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    encoding = "utf-8" if sys.platform == "win32" else None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # its encoding may lack letters
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        try:
            return run_command(argv)
        finally:
            sys.stdout.flush()
    except Problem as problem:
        print(f"{PROGRAM}: {printable(str(problem))}", file=sys.stderr)
        return problem.exit_code
    except (EOFError, KeyboardInterrupt):  # also of input() in `login`
        print(file=sys.stderr)  # the prompt of the shell gets a line of its own
        return 130
    except OSError as error:
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{PROGRAM}: The output: {error.strerror}.", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
