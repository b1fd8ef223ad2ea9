#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "bottle>=0.12.23", "waitress>=2.1.2,<4", "platformdirs>=2.6", "segno>=1.4.1",
# ]
# ///
"""catalogd: a home game library for the LAN, with a send queue, in one file.

It scans folders, serves their files to browsers and to clients with a key, and keeps
a queue of entries to send for each account. The sections, in order; each uses only
those above it:

Problems   errors that go to the caller, with their HTTP status
Fields     the JSON bodies and header fields that are accepted, and their checks
Settings   the options, their defaults and their INI file
Names      what a file's name and header say
Accounts   passwords, keys and tokens, without storage
Store      the SQLite file: all SQL of the program
Disk       what is in the folders, their file systems, files and events
Scanner    what changed since the last scan, and the threads that look
Inbox      the one folder that files are added to
Downloads  validators, ranges, and how a file's bytes leave
Server     connections, deadlines, limits and threads: all that touches waitress
Consoles   devices that this server serves itself, and how to find them
Health     what is wrong with the service, and what time brings
Web        the routes: who may call them, what they answer
Menus      the library by title, for the menus of programs on a console
Page       HTML, CSS and JavaScript of the browser's page
Service    what `serve` runs: log, notices, addresses, threads
Commands   the command line

A file becomes a title on the page
 1. Watcher.changed() or the scan interval makes Scanner._wait() return the folders.
 2. Scanner.scan() keeps other processes away by exclusive(); Disks.trees() has a thread
    of each disk walk() below them, which gives a Tree of each library folder.
 3. find_changes() has pair_unchanged() pair the trees with what Entries.files() knows.
    Where an entry misses its file, compare() says what became of it: with what 4 reads.
 4. Disks.read() opens what is new, once GrowingFiles has seen it quiet: file_facts()
    joins what name_facts() and the reader of its format in FORMATS tell.
 5. Scanner._write() gives Entries.apply() what is no new file, then new ones in batches
    to Entries.add_files(). One that still grew is read when GrowingFiles.settled().
 6. write_entries() adds the columns that derived() works out, such as name and title.
 7. Entries.changing() raises the number that Entries.list_version() returns.
 8. The script asks QueueCalls.changes() every few seconds, and sees another number.
 9. Then LibraryCalls.entry_list() answers what Web.list has made once for that number.
10. takeEntries() takes the entries, makeTitle() makes titles, renderTitle() shows one.

A tap on Send becomes bytes on a card
 1. send() of the script calls QueueCalls.send_many() with the ids of the parts that
    the device lacks: the fewest() bytes that have them.
 2. Queue.send_all() adds items, in the order of titles, and Database.written is set.
 3. Consoles.update() was waiting for that, and wakes the Console of the device.
 4. Its run() has started the client before, whose run_by_server() runs Sender.run().
 5. Its Server.queue() calls QueueCalls.pending_items(), which asks Clients.pending().
 6. Reports.claim() reports an item; Clients.report() and next_status() let one have it.
 7. Download.begin() calls LibraryCalls.download(), whose file_answer() opens the file.
 8. Content.send() sends it in a thread of its own: see Server._start_thread().
 9. Storage.save() has Folder.write() or FTP.write() write a part, checks it, and gives
    it its name. LAN.push() tells an installer console addresses instead, to fetch from.
10. Reports.complete() reports it: Clients.report() notes for good what was sent.

A request becomes an answer
 1. The main loop accepts in Server.accept() and reads in Channel.received().
 2. checked_head() checks what the parser of waitress is given.
 3. Server.add_task() asks Web.runs() which threads answer the call, as its route says.
 4. Channel.service() calls bottle, which finds the route and calls Web._answer().
 5. Web._admit() finds the caller, by a key, the cookie, or the token in the path.
 6. parse() checks the body by the fields of the route, which check() one by one.
 7. A method of a class of Calls asks the Store: one method of it is one transaction.
 8. Database.reading() lends a connection; Database.writing() lets writers take turns.
 9. error_answer() tells a Problem, json_answer() what the method returned.
10. Channel.write_soon() keeps that for the main loop, but sends a file by itself.

Threads: who starts them, and what they may touch
main loop    Server.run()            sockets and channels; it waits for no thread
lists, passwords, writes, workers    Server.__init__(): the store, caches, no socket
own thread   Server._start_thread()  a download or a slow call: also its own socket
scanner      Scanner.start()         library folders, ScanState, the store's entries
asker        Asker.ask()             one call for a library folder, or to an address of
                                     `notify`; of the store, the icons of what it reads
                                     and the uploads of a tidied inbox
upkeep, uses, consoles, notices      run(): backups, figures and what is old; counts;
                                     clients of devices; addresses of `notify`: each
                                     with the store
greeting     run()                   resolves names, asks the store for an account,
                                     and prints where the service is
heartbeat, upgrade                   a call to this service, and systemd's socket
console, leaving  Consoles.update()  one client: its process, its pipe, and of the store
                                     its device's state and key
log, log end  LogQueue()             standard error
search       find_consoles()         a pool: a connection to a host each, for a second
Those that are to go on begin again after an exception: see Lasting.

Locks: a thread that holds several has taken them from the top to the bottom
Passwords._lock, DeviceCalls._lock   one check of a password, one pairing code
Latest._lock                         to make what a version has
Consoles._lock, Console._lock        which clients run; the pipe of one
Inbox._lock, Askers._lock            which uploads are written; which disks were asked
Uses._lock                           uses that wait, also while they are written
Database._lock                       from BEGIN to COMMIT
Served._lock, Recent._lock           what has left, what is kept: no other below
Channel.requests_lock, Server._lock  the next request, own threads; then a group's
Channel.outbuf_lock                  what waits to be sent: no other below

Scale: one process, one writer and one scan serve a household; 100,000 entries and 500
open downloads were measured (packaging/performance.md, and packaging/scaling.md).
"""

import argparse
import base64
import bisect
import collections
import concurrent.futures
import configparser
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import email.utils
import errno
import filecmp
import fnmatch
import functools
import getpass
import glob
import hashlib
import hmac
import html
import http.client
import importlib.util
import io
import ipaddress
import itertools
import json
import logging
import logging.handlers
import math
import operator
import os
import pathlib
import queue
import re
import secrets
import selectors
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unicodedata
import urllib.parse
import urllib.request
import weakref
import webbrowser
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import IO, Any, ClassVar, Generic, NamedTuple, NoReturn, TextIO, TypeVar

if __name__ == "__main__":  # until `main`, Ctrl-C has nothing to end but the process
    signal.signal(signal.SIGINT, signal.SIG_DFL)

for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
    # One that the caller has closed, as by ">&-". Other files would get its number,
    # and bottle 0.12 cannot be imported without.
    stream = getattr(sys, name) or os.fdopen(os.open(os.devnull, os.O_RDWR), mode)
    setattr(sys, name, stream)
try:
    import bottle
    import platformdirs
    import waitress.channel
    import waitress.parser
    import waitress.server
    import waitress.task
    import waitress.utilities
    import waitress.wasyncore
except ModuleNotFoundError as error:
    packages = ["bottle", "waitress", "platformdirs"]
    install = f"{sys.executable} -m pip install {' '.join(packages)}"
    if sys.prefix == "/usr" and os.path.exists("/etc/debian_version"):
        install = f"sudo apt install python3-{' python3-'.join(packages)}"
    raise SystemExit(
        f"catalogd: the package {error.name} is missing. Run 'uv run catalogd.py' or"
        f" 'pipx run ./catalogd.py', or first: {install}"
    ) from None
if sqlite3.sqlite_version_info < (3, 38):  # which has the operator ->>
    raise SystemExit(
        f"catalogd: the SQLite of this Python is {sqlite3.sqlite_version}, and 3.38 or"
        " later is needed. 'uv run --managed-python catalogd.py' brings its own."
    )

__version__ = "0.4.0"
RELEASED = "2026-11-24"  # a clock that tells an earlier day is wrong
RELEASES = ""  # address of the page with the releases, once there is one

log = logging.getLogger("catalogd")


# Problems ---------------------------------------------------------------------
# Errors that go to the caller. They know their HTTP status, and nothing else of HTTP.
# It may use the standard library alone.


# Sentences that the page may show, by codes, in the form of its WORDS. The last groups
# are those of the client, which reports texts.
SENTENCES = {
    "not_signed_in": "You are not signed in.",
    "wrong_login": "The name or the password is wrong.",
    "wrong_current_password": "The current password is wrong.",
    "wrong_setup_code": "The setup code is not the one that was printed.",
    "too_many_tries": "Too many wrong passwords. Try again in {seconds} s.",
    "has_account": "There is an account already. Sign in.",
    "account_name_taken": "There is an account {name} already.",
    "reserved_account_name": "The account name {name} is reserved.",
    "bad_account_name": "An account name has 1 to 64 printable characters, without"
    " ':'.",
    "mixed_account_name": "An account name must not mix Latin, Cyrillic and Greek.",
    "short_password": {"other": "A password has at least {count} characters."},
    "common_password": "This password is among the first that others guess.",
    "bad_password": "The password has a character that is not text.",
    "no_account": "There is no such account.",
    "own_account": "You are signed in with this account.",
    "admin_sees_all": "An admin sees every title, and has no age limit.",
    "last_admin": "The last admin cannot be removed or demoted. Add another admin"
    " first.",
    "admins_only": "Only an admin may do this.",
    "bad_invitation": "The link was used, replaced or removed, or is older than a day."
    " Ask for a new one.",
    "other_site": "The call comes from a page of another site.",
    "no_key": "There is no key {id}.",
    "many_keys": {
        "other": "An account has at most {count} keys and devices. Remove one first.",
    },
    # devices
    "no_device": "There is no such device that you may send to.",
    "unknown_device": "There is no device {id}.",
    "device_name_taken": "There is a device named {name} already.",
    "served_by_client": "A client serves this device, and has its address.",
    "pair_anew": "A client serves this device, and has its key. Pair it anew.",
    "console_known": "{name} is at this address already.",
    "target_is_folder": "The target is a folder: pair the computer that has the card.",
    "bad_target": "The target must be {form}.",
    "target_has_user": "The target has a user in it. Use the field user.",
    "long_target": "The target has more in it than {form}.",
    "target_has_lines": "Target, user and password must be one line each.",
    "no_client": "{program}.py is missing: put it beside catalogd.py.",
    # entries and the queue
    "no_entry": "There is no such entry.",
    "no_link": "There is no link {id}.",
    "disk_away": "Its disk is not connected.",
    "file_empty": "The file is empty.",
    "file_unreadable": "The entry's file cannot be read now.",
    "bad_link": "{address} is not an http or https address.",
    "no_item": "There is no such item in your queue.",
    "item_taken": "Another client sends the item.",
    "device_paused": "The device is paused.",
    "item_is_open": "The item is in the queue.",
    "item_is_busy": "The item is being sent. Cancel it first.",
    "item_is_hidden": "Its sender, or the device's owner, does not see this title.",
    "item_waits": "The item waits until somebody chooses a device for it.",
    "item_has_ended": "The item has ended.",
    "changed_since": "What was changed in the meantime stays as it is.",
    "all_on_console": "All of it is on {name}.",
    "queue_full": {"other": "Your queue has {count} items. Cancel some, or wait."},
    "queued_again": "The entry is queued again in another item.",
    # files that are added
    "no_inbox": "No files can be added: no inbox is set.",
    "bad_file_type": "Only the library's types of files, and covers, can be added.",
    "name_excluded": "The setting exclude leaves this name out: {pattern}",
    "inbox_offline": "The disk of the inbox is offline.",
    "inbox_full": "The disk of the inbox needs {size} more for this and other uploads.",
    "inbox_failed": "The inbox cannot be written: {why}.",
    "inbox_missing": "The folder of the inbox is missing. Create it on the server.",
    "inbox_is_file": "It is no plain folder",
    "many_uploads": {
        "other": "You have {count} unfinished uploads. Finish or remove one first.",
    },
    "upload_busy": "Another piece is being written. Try again.",
    "upload_gone": "What was uploaded is gone.",
    "no_upload": "There is no such upload.",
    "long_upload": "The body is longer than was announced.",
    # fields
    "field_missing": "The field {field} is missing.",
    "field_int": "The field {field} must be a whole number.",
    "field_float": "The field {field} must be a number.",
    "field_bool": "The field {field} must be a boolean.",
    "field_list": "The field {field} must be a list.",
    "field_doubles": "The field {field} has one value twice.",
    "field_str": "The field {field} must be a string.",
    "field_dict": "The field {field} must be an object of texts and numbers.",
    "field_range": "The field {field} must be from {least} to {most}.",
    "field_choices": "The field {field} must be one of {choices}.",
    "field_digits": {
        "other": "The field {field} must have {count} hexadecimal digits.",
    },
    "field_many": {"other": "The field {field} has more than {count} values."},
    "field_long": {"other": "The field {field} is longer than {count} characters."},
    "field_text": "The field {field} has a character that is not text.",
    "field_empty": "The field {field} is empty.",
    # what scans pass over, see PassedOver
    "passed_link": {"one": "{count} link", "other": "{count} links"},
    "passed_archive": {"one": "{count} archive", "other": "{count} archives"},
    "passed_folder": {
        "one": "{count} excluded folder",
        "other": "{count} excluded folders",
    },
    "passed_file": {"one": "{count} excluded file", "other": "{count} excluded files"},
    "passed_hidden": {"one": "{count} hidden file", "other": "{count} hidden files"},
    "passed_misnamed": {
        "one": "{count} name that is no text",
        "other": "{count} names that are no text",
    },
    "passed_cover": {
        "one": "{count} cover that is too large",
        "other": "{count} covers that are too large",
    },
    # what is wrong with the service
    "refused_container": "{why} for the container's user {user} (PUID or --user)",
    "refused_user": "{why} for the user {user}",
    "no_backup": "There is no backup yet.",
    "not_written": "{path}: cannot be written: {why}.",
    "no_room": "{path}: The disk is full. It needs {size} more.",
    "disk_full": "The disk is full.",
    "database_busy": "The database is busy. Try again.",
    "database_failed_at": "{path}: The database cannot be used: {why}.",
    "database_failed": "The database cannot be used: {why}.",
    "removed": "What this belongs to was removed just now.",
    "other_process": "{path}: another catalogd is at work ({process}).",
    # the client and its server
    "gave_up": {
        "one": "{why} Gave up after {count} attempt.",
        "other": "{why} Gave up after {count} attempts.",
    },
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
    "client_failed": "Sending ended with an error and begins again: {why}",
    "state_disk": "The disk that notes what was sent cannot be written: {why}.",
    "no_such_host": "No device has this name: {name}.",
    "ftp_silent": "{address} does not answer. Is the program open on the console?",
    "ftp_no_resume": "The console cannot resume a file: {why}.",
    "ftp_closed": "The console takes no file now: {why}. Is its FTP install open?",
    "ftp_no_reading": "The console does not let {name} be read back.",
    "ftp_no_rename": "The console cannot rename files: {why}. The file is sent again by"
    " its own name.",
    "ftp_unfinished": "The console has all of {name}, and does not say that it is"
    " done.",
    "ftp_no_port": "Nothing listens at port {port} of {address}. Is the program open on"
    " the console?",
    "ftp_web": "A web server answers at port {port} of {address}, not FTP. Is the port"
    " right?",
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


class FaultKind(NamedTuple):
    """What is told of something that is wrong until it is mended."""

    text: str
    advice: str = ""  # what to do
    # Of the settings, with what can be pressed: one of TABS in the script.
    tab: str = ""


FAULTS = {  # by the codes of their sentences
    "translation_left_out": FaultKind(
        "A translation is left out.", "Mend it, and restart: {why}"
    ),
    "scan_failed": FaultKind("The last scan failed: {why}", tab="library"),
    "folder_missing": FaultKind(
        "{folder} does not exist yet.", "Create it, or connect its disk.", "library"
    ),
    "folder_silent": FaultKind(
        "{folder} does not answer.", "Its entries are kept.", "library"
    ),
    "folder_unread": FaultKind(
        "{folder} is offline: {why}.", "Let the service read it.", "library"
    ),
    "folder_in_home": FaultKind(
        "{folder} is offline: Debian's service reads nothing below /home.",
        "/usr/share/doc/catalogd/examples/home.conf tells how to let it.",
        "library",
    ),
    "folder_empty": FaultKind(
        "{folder} is offline: it is empty.", "Its entries are kept.", "library"
    ),
    "folder_offline": FaultKind(
        "{folder} is offline: {why}.", "Its entries are kept.", "library"
    ),
    "disk_offline": FaultKind(
        "{folder} is offline since {time}.",
        "Entries that wait for it: {number}, such as {name}.",
        "library",
    ),
    "files_missing": FaultKind(
        "{folder}: files that are missing since {time}: {number}, such as {name}.",
        "They come back when the files do.",
        "library",
    ),
    "thread_failed": FaultKind(
        "A part of the service failed, and is tried again: {name}.",
        "The log tells why.",
    ),
    "file_damaged": FaultKind(
        "{path} is damaged: its content has changed.", tab="library"
    ),
    "disk_silent": FaultKind("{folder}: it does not answer."),
    "folder_read_only": FaultKind(
        "{folder}: the service cannot write there.", "Allow it."
    ),
    "little_space": FaultKind("{folder}: only {size} are free.", "Make room."),
    "saves_disk": FaultKind("Saves cannot be kept in {folder}: {why}", tab="library"),
    "saves_failed": FaultKind("Saves of {name} are not copied: {why}", tab="library"),
    "inbox_read_only": FaultKind("{folder}: The inbox cannot be written: {why}."),
    "backup_failed": FaultKind("No backup was made: {why}"),
}
FAULT_TEXTS = {code: f"{row.text} {row.advice}".strip() for code, row in FAULTS.items()}
SENTENCES = FAULT_TEXTS | SENTENCES  # in this order: others are parts of faults
PLACEHOLDER = re.compile(r"\{(\w+)\}")


def forms(text: Any) -> dict[str, str]:
    """Return the plural forms of a text, or its only one as "other"."""
    return text if isinstance(text, dict) else {"other": text}


class Sentence(str):
    """A sentence in English, and the pair that it was made of: its code, and arguments
    by the names of its placeholders, each a text or such a pair. {"code": "gave_up",
    "arguments": {"why": {"code": "disk_full", "arguments": {}}, "count": "3"}}"""

    pair: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return self  # with its pair


def say(text: str, *of: object) -> str:
    """Return the Sentence of a code, with `of` in the order of its placeholders, which
    may be such sentences too, or another text as it is."""
    if text not in SENTENCES:
        return text
    words = forms(SENTENCES[text])
    named = dict(zip(PLACEHOLDER.findall(words["other"]), of, strict=True))
    form = "one" if "one" in words and named["count"] == 1 else "other"
    sentence = Sentence(words[form].format(**named))
    arguments = {n: getattr(part, "pair", f"{part}") for n, part in named.items()}
    sentence.pair = {"code": text, "arguments": arguments}
    return sentence


def coded(text: object) -> dict[str, Any]:
    """Return the fields that an answer has beside a sentence, so that the page shows it
    in its language; none for a text from elsewhere."""
    pair = getattr(text, "pair", None)
    return {"reason": pair["code"], "arguments": pair["arguments"]} if pair else {}


def reported(code: Any, arguments: Any, depth: int = 3) -> str:
    """Return the sentence of a pair that a client has reported, or "" where this
    release has no such one, or it has others in it below this depth."""
    if not (depth and isinstance(code, str) and isinstance(arguments, dict)):
        return ""
    names = PLACEHOLDER.findall(forms(SENTENCES.get(code, ""))["other"])
    if code not in SENTENCES or {*names} != {*arguments}:
        return ""
    of = []
    for part in map(arguments.get, names):
        if isinstance(part, dict):
            part = reported(part.get("code"), part.get("arguments"), depth - 1)
            if not part:
                return ""
        of.append(part)
    return say(code, *of)


# Problems: exceptions ---


class Problem(Exception):
    """An error of the caller or of the machine: `str()` is for a person, `code` for a
    program.

    :param text: the sentence, or its code, with what varies in it."""

    status, code = 400, "bad_request"
    headers: Mapping[str, str] = {}
    facts: Mapping[str, Any] = {}  # that the answer has too
    is_guess = False  # it may be a try to get in: see Web._log
    logged = ""  # what the log has beside the sentence
    exit_code = 2

    def __init__(self, text: str = "", *of: object) -> None:
        super().__init__(say(text, *of))

    def __str__(self) -> str:
        return self.args[0]  # with its code


class BadSetting(Problem):
    """A service with such a setting fails again until somebody changes it."""

    exit_code = 78  # EX_CONFIG of sysexits.h


class BadKey(Problem):
    status, code, is_guess = 401, "unauthorized", True
    headers = {"WWW-Authenticate": 'Bearer realm="catalogd"'}


class BadAddress(BadKey):
    headers = {"WWW-Authenticate": 'Basic realm="catalogd", charset="UTF-8"'}


class Forbidden(Problem):
    status, code = 403, "forbidden"


class SignedOut(Forbidden):
    code = "signed_out"


class WrongCode(Forbidden):
    is_guess = True


class WrongPassword(WrongCode):
    code = "wrong_password"


class NotFound(Problem):
    status, code = 404, "not_found"


class Conflict(Problem):
    status, code = 409, "conflict"


class WrongOffset(Conflict):
    """A piece of an upload does not begin where the one before it ends."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"The next piece of the upload begins at byte {offset}.")
        self.facts = {"offset": offset}


class NoSuchRange(Problem):
    status, code = 416, "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The range is outside of the file's {size} bytes.")
        self.headers = {"Content-Range": f"bytes */{size}"}


class TooManyTries(Problem):
    status, code, is_guess = 429, "too_many_tries", True

    def __init__(self, wait: float) -> None:
        seconds = math.ceil(wait)
        super().__init__("too_many_tries", seconds)
        self.headers = {"Retry-After": str(seconds)}


class Busy(Problem):
    status, code = 503, "busy"
    headers = {"Retry-After": "5"}


class StorageFailed(Problem):
    status, code = 503, "storage_failed"


class Damaged(StorageFailed):
    """The database is no database any more."""


class StorageFull(Problem):
    status, code = 507, "storage_full"


# Problems: what the system refuses ---


def reason(error: OSError) -> str:
    """Return why the system refused a file, and what to do without permission."""
    text = refusal(error)
    can_be_root = "the user" in text and "SUDO_USER" not in os.environ
    return f"{text}.{' Run it with sudo.' if can_be_root else ''}"


def refusal(error: OSError) -> str:
    """Return why the system refused something, and to whom."""
    text = str(error.strerror or error)
    if sys.platform == "win32" or error.errno != errno.EACCES:
        return text
    import pwd

    user = str(os.geteuid())
    with contextlib.suppress(KeyError):  # it has no name, as in a container
        user = pwd.getpwuid(os.geteuid()).pw_name
    is_inside = os.environ.get("CATALOGD_CONTAINER")
    return say("refused_container" if is_inside else "refused_user", text, user)


def write_refusal(folder: str) -> str:
    """Return why this user cannot write to a folder, or ""."""
    try:
        os.stat(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            return ""
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        return refusal(error)


# Problems: errors of HTTP ---

MAX_BODY_BYTES = 256 * 1024  # for 10,000 entries to send
MAX_HEAD_BYTES = 32 * 1024
JSON_HEADERS = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
HTTP_ERRORS = {  # code and message by status, for errors that only HTTP knows
    400: ("bad_request", "The request is malformed."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "Only the methods of the Allow header are supported."),
    408: ("timeout", "The request took too long to arrive."),
    412: ("precondition_failed", "The file is not the one that was asked for."),
    413: ("too_large", f"The body is larger than {MAX_BODY_BYTES} bytes."),
    415: ("unsupported_media_type", "The call takes another Content-Type."),
    431: ("headers_too_large", f"The headers are larger than {MAX_HEAD_BYTES} bytes."),
    500: ("internal_error", "Something went wrong in the server. Its log has details."),
    503: ("busy", "The server cannot send more files now. Try again later."),
    501: ("not_implemented", "No transfer encoding other than chunked is supported."),
}
SENTENCES |= dict(HTTP_ERRORS.values())
HTTP_ERRORS = {status: (code, say(code)) for status, (code, _) in HTTP_ERRORS.items()}


def json_body(success: bool, **fields: Any) -> bytes:
    return json.dumps({"success": success, **fields}).encode() + b"\n"


# Fields -----------------------------------------------------------------------
# What callers may send: one table for each JSON body and one check for all of them,
# and the check of a request's header fields. It may use Problems: no disk.
# A bound in length alone is none in cost, so each is as short as its purpose allows.

MAX_INTEGER = 2**63 - 1  # the largest integer that SQLite stores
MAX_MARKS = 8  # on one letter: to normalize text takes the square of their number
MAX_NESTING = 8  # of an object in a field


class Field(NamedTuple):
    """What the value of a JSON field must be. A `float` may also be a whole number. A
    `list` is one of texts, each once; a `dict` has what varies in a sentence: see
    check_arguments."""

    type: type
    required: bool = False
    low: float = 0
    high: float = MAX_INTEGER
    min_length: int = 0  # characters; a required text has at least one
    max_length: int = 100  # also of each text of a list
    is_cut: bool = False  # to that length, and not refused
    max_count: int = 10_000  # texts of a list
    choices: tuple[Any, ...] = ()
    hex_digits: int = 0  # of a text that is a number, or empty
    nullable: bool = False  # null is a value, and not the same as no value


# Fields: tables ---


TYPE_NAMES = {int: "whole number", float: "number"}  # of options
TYPE_PROBLEMS = {int: "field_int", float: "field_float", bool: "field_bool"}
TYPE_PROBLEMS |= {list: "field_list", str: "field_str", dict: "field_dict"}
STATUSES = ("processing", "completed", "failed")  # that a client may report

KINDS = ("base", "update", "add-on", "homebrew")  # of entries
AGES = (3, 7, 12, 16)  # that an account may have
TITLE_AGES = (*AGES, 18)  # that a title may have; 18: not for children
AGE_FORM = f"{', '.join(map(str, AGES))} or none"

TO_DEVICE = {"device": Field(str)}  # its id; null for any client of the account
SEND = {"entry_id": Field(str, required=True), **TO_DEVICE}
SEND_MANY = {"entries": Field(list, required=True), **TO_DEVICE}
SEND_MANY["anyway"] = Field(bool)  # also what the console has listed
UNDO = {"undo": Field(str, required=True)}
CLEAR = {"before": Field(str, required=True), "items": Field(list, required=True)}
PROGRESS = {
    "queue_item_id": Field(str, required=True),
    "progress_percent": Field(float, high=100),
    "bytes_transferred": Field(int),
    "transfer_speed": Field(float),  # not used, see Progress
    "status": Field(str, choices=STATUSES),
    "error_message": Field(str, max_length=500, is_cut=True),
    "error_code": Field(str),  # with "processing": why it tries again
    "error_arguments": Field(dict, max_length=2000),  # by placeholder: see reported
    "bytes_kept": Field(int),  # that the target had at the attempt, for sure
    "client": Field(str),  # from now on only this one may report
    "release": Field(bool),  # makes the item pending again
    "offered": Field(bool),  # the item is in an installer's list, and not begun
}
CANCEL = {"freed": Field(bool)}  # only what waits for a choice
MOVE = {"items": CLEAR["items"], "to": Field(str)}  # the id of another item, or null
OFFER = {"queue_item_ids": Field(list, required=True), "client": PROGRESS["client"]}
ON_CONSOLE = {
    "titles": Field(list),  # ids of all titles: which of them does the library have?
    "parts": Field(list),  # each "TITLE_ID NUMBER"
    "goes_on": Field(bool),  # with the parts of the call before
    "is_last": Field(bool),  # of such calls; true unless told
}
UPDATE = {**PROGRESS, "status": Field(str, required=True, choices=STATUSES)}
LOGIN = {"username": Field(str, required=True, max_length=64)}
LOGIN["password"] = Field(str, required=True, max_length=4096)
SETUP = {"code": Field(str, required=True), **LOGIN}
PASSWORD = {"old": LOGIN["password"], "new": LOGIN["password"]}
SIGN_OUT = {"keys": Field(bool), "devices": Field(bool), "addresses": Field(bool)}
KEY = {"label": Field(str, required=True)}
PAIR = {"code": Field(str, required=True), "name": KEY["label"]}
PAIRING = {"name": Field(str)}  # that the device is to get
CONSOLE = {
    "target": Field(str, min_length=1, max_length=500),  # its address
    "user": Field(str),
    "password": Field(str),
}
OWNED = {"shared": Field(bool), "account": Field(int)}  # id of the one it belongs to
DEVICE_NAME = {"name": Field(str, min_length=1)}
DEVICE_CHANGES = {**DEVICE_NAME, "paused": Field(bool), **OWNED, **CONSOLE}
NEW_DEVICE = {"name": KEY["label"], **OWNED, **CONSOLE}
NEW_DEVICE |= {"target": CONSOLE["target"]._replace(required=True)}
AGE = {"age": Field(int, choices=AGES, nullable=True)}  # null: sees every title
OWN_PASSWORD = {"own_password": LOGIN["password"]._replace(required=False)}  # admin's
CONFIRMED = {"own_password": LOGIN["password"]}
ACCOUNT = {**LOGIN, "admin": Field(bool), **AGE, **OWN_PASSWORD}  # wanted for an admin
ACCOUNT_CHANGES = {"password": OWN_PASSWORD["own_password"], "admin": Field(bool)}
ACCOUNT_CHANGES |= {**AGE, **OWN_PASSWORD}
INVITATION = {**AGE, **OWN_PASSWORD, "admin": Field(bool)}
INVITATION |= {"account": Field(int)}  # id of the one that gets a new password
INVITED = {"token": Field(str, required=True)}
ACCEPTANCE = {**INVITED, "username": Field(str, max_length=64)}
ACCEPTANCE["password"] = LOGIN["password"]
SET_AGES = {
    "titles": Field(list, required=True),  # base ids, or ids of entries without one
    # null: undecided
    "age": AGE["age"]._replace(required=True, choices=TITLE_AGES),
}
ENTRY_TEXTS = {
    "name": Field(str, min_length=1, max_length=255),
    "description": Field(str, max_length=20_000),
    "version": Field(str),
}
# The page may put back a name that was given when names could be longer.
ENTRY_CHANGES = {**ENTRY_TEXTS, "name": Field(str, min_length=1, max_length=500)}
ENTRY_CHANGES |= {"kind": Field(str, choices=("", *KINDS))}
ENTRY_CHANGES |= {"base_id": Field(str, hex_digits=16)}
LINK = {
    "url": Field(str, required=True, max_length=4096),
    "size": Field(int),
    "file_type": Field(str, max_length=20),
    **ENTRY_TEXTS,
    "name": ENTRY_TEXTS["name"]._replace(required=True),
}
UPLOAD = {"name": LINK["name"], "size": Field(int, required=True, low=1)}
UPLOAD |= {"modified": Field(int)}  # milliseconds
ABOUT = {  # a translation
    "language": Field(str, required=True, max_length=4096),  # its name, in itself
    "direction": Field(str, choices=("ltr", "rtl")),
    "machine": Field(bool),  # nobody who speaks it has read it
    "form": Field(str, max_length=4096),  # how it addresses people, whose terms it has
    "same": Field(list),  # keys of texts that are as in English on purpose
}


# Fields: checks of JSON ---


def parse(fields: Mapping[str, Field], body: bytes) -> dict[str, Any]:
    """Return the known fields of a JSON object that are there and, unless null is one
    of their values, not null.
    :raises Problem: see json_object and check_all."""
    return check_all(fields, json_object(body))


def json_object(body: bytes) -> dict[str, Any]:
    """:raises Problem: the body is not a JSON object."""
    try:
        values = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise Problem("The body is not valid JSON.") from None
    if not isinstance(values, dict):
        raise Problem("The body is not a JSON object.")
    return values


def check_all(fields: Mapping[str, Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of these fields that are there and, where a field is not
    nullable, not None.
    :raises Problem: a field, which the message names, is missing or has a bad value."""
    found = {}
    for name, field in fields.items():
        value = values.get(name)
        if value is not None or (field.nullable and name in values):
            found[name] = value if value is None else check(name, field, value)
        elif field.required:
            raise Problem("field_missing", name)
    return found


def check(name: str, field: Field, value: Any) -> Any:
    """Return the value. :raises Problem: the field does not allow it."""
    if field.type is str:
        return check_text(name, field, value)
    if field.type is list and type(value) is list:
        return check_list(name, field, value)
    if field.type is dict:
        return check_arguments(name, field, value)
    types = (int, float) if field.type is float else (field.type,)
    if field.type is int and type(value) is float and value.is_integer():
        value = int(value)  # to JSON 1.0 is a whole number
    if type(value) not in types:  # isinstance would take a bool for an int
        raise Problem(TYPE_PROBLEMS[field.type], name)
    if not field.low <= value <= field.high:
        raise Problem("field_range", name, field.low, field.high)
    return check_choice(name, field, value)


def check_list(name: str, field: Field, values: Sequence[Any]) -> list[str]:
    if len(values) > field.max_count:
        raise Problem("field_many", name, field.max_count)
    texts = [check_text(name, field, text) for text in values]
    if len({*texts}) < len(texts):
        raise Problem("field_doubles", name)
    return texts


def check_choice(name: str, field: Field, value: Any) -> Any:
    if field.choices and value not in field.choices:
        raise Problem("field_choices", name, ", ".join(map(str, field.choices)))
    return value


def check_text(name: str, field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise Problem("field_str", name)
    value = value[: field.max_length] if field.is_cut else value
    check_choice(name, field, value)
    digits = field.hex_digits
    if digits and not re.fullmatch(f"([0-9A-Fa-f]{{{digits}}})?", value):
        raise Problem("field_digits", name, digits)
    if len(value) > field.max_length:
        raise Problem("field_long", name, field.max_length)
    is_usable = is_text(value) and (field.is_cut or not is_piled(value))
    if "\0" in value or not is_usable:
        raise Problem("field_text", name)
    if len(value) < (field.min_length or field.required):
        raise Problem("field_empty", name)
    return value


def check_arguments(name: str, field: Field, value: Any) -> dict[str, Any]:
    """Return what varies in a sentence: see reported. :raises Problem: it is no
    object, or too long."""
    if type(value) is not dict or not is_shallow(value, MAX_NESTING):
        raise Problem("field_dict", name)
    text = json.dumps(value, ensure_ascii=False)
    check_text(name, field, text)
    if len(text.encode()) > field.max_length:
        raise Problem("field_long", name, field.max_length)
    return value


def is_shallow(value: Any, depth: int) -> bool:
    """Return whether a value of JSON has no others in it below this depth."""
    within = value.values() if isinstance(value, dict) else value
    is_single = not isinstance(value, dict | list)
    return is_single or (
        depth > 0 and all(is_shallow(one, depth - 1) for one in within)
    )


def is_piled(text: str) -> bool:
    """Return whether a letter has more marks than writing needs."""
    if text.isascii():
        return False
    marks = itertools.groupby(map(unicodedata.combining, text), bool)
    return any(is_mark and len([*run]) > MAX_MARKS for is_mark, run in marks)


def is_text(text: str) -> bool:
    """Return whether UTF-8 can encode the text. File names, arguments and JSON may
    contain lone surrogates, which neither SQLite nor a JSON answer can hold."""
    return re.search(r"[\ud800-\udfff]", text) is None


# Fields: heads of requests ---


TARGET = rb"(?:/|\*|https?://)[^ \x00-\x1f\x7f]*"
REQUEST_LINE = re.compile(rb"[A-Z]+ %b(?: HTTP/1\.[01])?" % TARGET)
FIELD_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*")
HOST = re.compile(rb"[\w.~%:\[\]-]*")
MAX_HOST_BYTES = 255  # it is repeated for each entry of an index


def checked_head(head: bytes) -> bytes:
    """Return the head of a request without white space around its values. The check by
    RFC 9112 (sections 3.2, 5.2 and 6.1) takes linear time: waitress's patterns take
    quadratic time for some lines. :raises ValueError: it is malformed."""
    line, *fields = head.rstrip(b"\r\n").split(b"\r\n")
    is_whole = REQUEST_LINE.fullmatch(line) and all(map(FIELD_LINE.fullmatch, fields))
    pairs = [tuple(map(bytes.strip, field.split(b":", 1))) for field in fields]
    is_http_1_1 = line.endswith(b" HTTP/1.1")
    hosts = [value for name, value in pairs if name.lower() == b"host"]
    # HTTP/1.1 has one Host, an earlier version one or none.
    has_host = all(map(HOST.fullmatch, hosts)) and is_http_1_1 <= len(hosts) <= 1
    # Those of Host, and of a proxy's X-Forwarded-Host.
    named = [value for name, value in pairs if name.lower().endswith(b"host")]
    is_short = max(map(len, named), default=0) <= MAX_HOST_BYTES
    if not (is_whole and has_host and is_short):
        raise ValueError("The head of the request is malformed.")
    names = {name.lower() for name, _ in pairs}
    may_be_chunked = is_http_1_1 and b"content-length" not in names
    if b"transfer-encoding" in names and not may_be_chunked:
        raise ValueError("The length of the body is not certain.")
    return b"\r\n".join([line, *map(b":".join, pairs), b"", b""])


# Fields: targets of devices ---


# The address of a console, as the client reads it too: see Targets there.
class TargetKind(NamedTuple):
    """What targets with this scheme are."""

    form: str
    port: int  # of a target without one
    is_installer: bool  # has no folder and no user, and is called when there is a file


TARGETS = {
    "ftp": TargetKind("ftp://HOST[:PORT][/FOLDER]", 5000, is_installer=False),
    "lan": TargetKind("lan://HOST[:PORT]", 2000, is_installer=True),
}
TARGET_FORMS = " or ".join(kind.form for kind in TARGETS.values())


def address_parts(text: str) -> urllib.parse.SplitResult | None:
    """Return the parts of an address with a host, None for any other text."""
    try:
        parts = urllib.parse.urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:  # a broken IPv6 address, or a port that is not a number
        return None


def is_host(text: str) -> bool:
    """Return whether a text can be the address or the name of another device: a name
    ends in no number, as "192.168.1.300" does."""
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        labels = text.removesuffix(".").split(".")
        is_name = all(re.fullmatch(r"[\w-]{1,63}", label) for label in labels)
        return is_name and not labels[-1].isdecimal()


def check_console(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of CONSOLE. :raises Problem: one of them is wrong."""
    target = values.get("target", "lan://console")
    parts = address_parts(target)
    if target.startswith("folder:"):
        raise Problem("target_is_folder")
    kind = TARGETS.get(target.partition("://")[0])
    if parts is None or kind is None or not is_host(str(parts.hostname)):
        raise Problem("bad_target", TARGET_FORMS)
    if "@" in parts.netloc:
        raise Problem("target_has_user")
    has_folder = kind.is_installer and parts.path.strip("/")
    if parts.query or parts.fragment or has_folder:
        raise Problem("long_target", TARGET_FORMS)
    texts = [str(values.get(name, "")) for name in CONSOLE]
    if not "".join([*texts, urllib.parse.unquote(target)]).isprintable():
        raise Problem("target_has_lines")
    return values


def console_place(target: str) -> tuple[object, ...]:
    """Return what two spellings of a console's address have in common: scheme, host,
    port, and the folder as it is written, "" where the client chooses one."""
    parts = urllib.parse.urlsplit(target)
    port = parts.port or TARGETS[parts.scheme].port
    return parts.scheme, parts.hostname, port, parts.path.strip("/")


def client_target(device: Mapping[str, Any]) -> str:
    """Return the address of a device's console with user and password."""
    scheme, _, place = str(device["address"]).partition("://")
    names = (urllib.parse.quote(device[name], safe="") for name in ("user", "password"))
    login = f"{':'.join(names)}@" if device["user"] else ""
    return f"{scheme}://{login}{place}"


# Settings ---------------------------------------------------------------------
# EXAMPLE has the options with their defaults and meanings, Settings their checks.
# It may use Problems and Fields, and reads the INI file alone.


def program_name(path: str) -> str:
    """Return the words that call the program, for messages that name a command.
    :param path: of the program, as it was called."""
    if os.path.basename(path) not in ("catalogd.py", "catalogd.pyz"):
        return "catalogd"  # installed
    runner = "uv run" if "UV" in os.environ else os.path.basename(sys.executable)
    return f"{runner} {path}"


def is_bundled() -> bool:
    """Return whether this is an executable that PyInstaller made."""
    return bool(getattr(sys, "frozen", False))


PROGRAM = program_name(sys.argv[0])
IS_PACKAGED = os.path.isdir("/usr/share/doc/catalogd")  # by Debian's package


# Settings: parsers of options ---


def number(kind: type, low: float, high: float) -> Callable[[str], Any]:
    """Return a parser of an `int` or a `float` within bounds."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(f"is not a {TYPE_NAMES[kind]}") from None
        if not low <= value <= high:  # also rejects NaN
            raise ValueError(f"is not from {low} to {high}")
        return value

    return parse


def folder_list(text: str) -> tuple[str, ...]:
    """Return the folders, one on each line. :raises ValueError: one is mistyped."""
    folders = tuple(line.strip() for line in text.splitlines() if line.strip())
    for folder in folders:
        if re.search(r"[,;]\s*(/|[A-Za-z]:[\\/])", folder):
            raise ValueError("is several folders: write one on each line", folder)
    return tuple(map(folder_path, folders))


def folder_path(text: str) -> str:
    """Return "" or a whole path. :raises ValueError: it depends on who starts it."""
    if text and not (os.path.isabs(text) or os.path.splitdrive(text)[0]):
        raise ValueError("needs a whole path, without quotes, such as /srv/games", text)
    return text


def extensions(text: str) -> tuple[str, ...]:
    """Return file extensions, in lower case and without dots. :raises ValueError:"""
    words = text.lower().replace(",", " ").split()
    names = tuple(word.removeprefix(".") for word in words)
    if not names or not all(word.isalnum() for word in names):
        raise ValueError("is not a list of file extensions such as nsp xci")
    return names


def name_patterns(text: str) -> tuple[str, ...]:
    """Return patterns, one on each line. :raises ValueError: one is a whole path."""
    patterns = tuple(line.strip() for line in text.splitlines() if line.strip())
    for pattern in patterns:
        if os.path.isabs(pattern) or os.path.splitdrive(pattern)[0]:
            raise ValueError("has to begin behind the library folder", pattern)
    return patterns


def web_address(text: str) -> str:
    """Return "" or an address to which a path can be appended. :raises ValueError:"""
    if text and (not is_web_address(text) or "?" in text or "#" in text):
        raise ValueError("is not an address such as https://games.example.org")
    return text.rstrip("/")


def is_web_address(text: str) -> bool:
    parts = address_parts(text)
    is_printable = text.isprintable() and " " not in text
    return bool(parts and is_printable and parts.scheme in ("http", "https"))


NOTICE_WORD = re.compile(r"^(discord|gotify|json|ntfy)\+")  # the form of a notice


def secret_addresses(text: str) -> tuple[str, ...]:
    """Return addresses, one on each line. :raises ValueError: one is mistyped: its
    number is told, as a part of it may be secret."""
    addresses = tuple(text.split())
    for number, address in enumerate(addresses, 1):
        where = f"address {number}"
        if "@" in address.partition("://")[2].partition("/")[0]:
            raise ValueError("has a user or a password, which are not taken", where)
        is_known = is_web_address(NOTICE_WORD.sub("", address))
        if not is_known or not address.isascii():
            raise ValueError("is not like https://ntfy.sh/my-topic", where)
    return addresses


def ip_address(text: str) -> str:
    """Return "" or an IP address in its shortest form. :raises ValueError:"""
    try:
        return text and str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("is not an IP address") from None


def matching(pattern: str, kind: str) -> Callable[[str], str]:
    """Return a parser of texts of a whole pattern. It drops a slash at the end."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"is not {kind}")
        return text.rstrip("/")

    return parse


# Settings: options and the INI file ---


EXAMPLE = """\
# Settings of catalogd. Each option is shown with its default.

[library]
# Library folders, one on each line, indented.
folders =
# Extensions of the files that are listed.
extensions = nsp nsz xci xcz nro
# Files and folders to leave out, one on each line: a name such as *demo*, or with a
# slash a path from the library folder, such as old/*. Their entries wait, unlisted.
exclude =
# Seconds between scans of folders that cannot be watched.
scan_interval = 60
# Seconds without a change after which a file that is being copied is listed: at least
# 10 in folders that cannot be watched.
settle = 2
# Days that a deleted file is remembered, in case it comes back.
forget_after = 30
# Folder, in one of them, to add files to from the page.
inbox =
# Who may: admins, or everyone.
inbox_for = admins
# Gigabytes that added files, and saves, leave free.
keep_free = 1
# Folder for copies of the backups of saves that are on consoles which this server
# serves by FTP. It must exist, outside of the library folders.
saves =

[server]
# Address to listen on; empty for all interfaces.
host =
# TCP port to listen on.
port = 6069
# Public address of the service, such as https://example.org/games, where a
# reverse proxy gives it another address than clients connect to.
base_url =
# IP address of the reverse proxy whose X-Forwarded-* headers are trusted.
trusted_proxy =
# Internal location, such as /catalogd-files, from which nginx sends the files
# itself (X-Accel-Redirect). Needs trusted_proxy.
accel_redirect =
# Worker threads that answer calls.
threads = 4
# Connections that may be open at once.
connections = 1000
# Seconds without traffic after which a connection is closed, for example
# because the client stopped reading. It can resume with a new connection.
timeout = 120

[queue]
# Seconds without a report after which an item in processing is pending again.
stale_after = 300
# The entry_source of a file in the queue: its path on the server, or the url
# to download it, for clients that fetch entry_source themselves.
sources = path
# Addresses, such as https://ntfy.sh/my-topic, one on each line, that are told
# when items were sent, have failed, or have waited an hour for a device, and
# when something is wrong with the service.
notify =

[backup]
# Folder for the copies of the database, such as one on a second disk. It must
# exist. By default they are in the folder backups beside the database.
folder =
# Copies of the database that are kept, one of each night; 0 for none.
copies = 7
"""
DEFAULTS = configparser.ConfigParser(interpolation=None, default_section="")
DEFAULTS.read_string(EXAMPLE)
PERIOD = number(float, 1, 30 * 86400)
PORT = number(int, 0, 65535)
LOCATION = matching(r"((/[\w.-]+)+/?)?", "a path such as /catalogd-files")


def option(section: str, key: str, parse: Callable[[str], Any] = str) -> Any:
    """Return a field of Settings, with the default that EXAMPLE has. `parse` converts
    the INI file's text: the message of its ValueError continues a sentence that begins
    with the text."""
    metadata = {"name": (section, key), "parse": parse}
    return dataclasses.field(default=parse(DEFAULTS[section][key]), metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the INI file, checked. EXAMPLE tells what they mean. Times are in
    seconds, `forget_after` is in days."""

    folders: tuple[str, ...] = option("library", "folders", folder_list)
    extensions: tuple[str, ...] = option("library", "extensions", extensions)
    exclude: tuple[str, ...] = option("library", "exclude", name_patterns)
    scan_interval: float = option("library", "scan_interval", PERIOD)
    settle: float = option("library", "settle", number(float, 0, 86400))
    forget_after: float = option("library", "forget_after", number(float, 0, 36500))
    inbox: str = option("library", "inbox", folder_path)
    inbox_for: str = option(
        "library", "inbox_for", matching("admins|everyone", "one of admins, everyone")
    )
    keep_free: float = option("library", "keep_free", number(float, 0, 1e6))
    saves: str = option("library", "saves", folder_path)
    host: str = option("server", "host")
    port: int = option("server", "port", PORT)
    base_url: str = option("server", "base_url", web_address)
    trusted_proxy: str = option("server", "trusted_proxy", ip_address)
    accel_redirect: str = option("server", "accel_redirect", LOCATION)
    threads: int = option("server", "threads", number(int, 1, 64))
    connections: int = option("server", "connections", number(int, 1, 50_000))
    timeout: int = option("server", "timeout", number(int, 1, 86400))
    stale_after: float = option("queue", "stale_after", PERIOD)
    sources: str = option("queue", "sources", matching("path|url", "one of path, url"))
    notify: tuple[str, ...] = option("queue", "notify", secret_addresses)
    backup_folder: str = option("backup", "folder", folder_path)
    backup_copies: int = option("backup", "copies", number(int, 0, 3650))

    def __post_init__(self) -> None:
        if self.accel_redirect and not self.trusted_proxy:
            raise BadSetting("[server] accel_redirect needs trusted_proxy to be set.")

    @classmethod
    def read(cls, path: str) -> "Settings":
        """Return the settings of an INI file. :raises Problem: they are wrong."""
        fields = {field.metadata["name"]: field for field in dataclasses.fields(cls)}
        values = {}
        for section, key, text in read_ini(path):
            where = f"{path}: [{section}] {key}"
            name = RENAMED.get((section, key), (section, key))
            if name not in fields:
                hint = f"'{PROGRAM} example' lists all options with their sections."
                raise BadSetting(f"{where}: unknown option. {hint}")
            try:
                values[fields[name].name] = fields[name].metadata["parse"](text)
            except ValueError as error:
                fault, wrong = (*error.args, text)[:2]  # perhaps one line of several
                shown = wrong if key == "notify" else repr(wrong)
                raise BadSetting(f"{where}: {shown} {fault}.") from error
        return cls(**values)


RENAMED = {("store", "backups"): ("backup", "copies")}  # as earlier releases had it


def read_ini(path: str) -> list[tuple[str, str, str]]:
    """Return section, key and text of each option. :raises Problem:"""
    ini = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        ini.read_string(pathlib.Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        line, hint = error.object.count(b"\n", 0, error.start) + 1, "save it as UTF-8."
        raise BadSetting(f"{path}: line {line}: {hint}") from error
    except configparser.Error as error:
        line = getattr(error, "lineno", 0) or getattr(error, "errors", [[0]])[0][0]
        hint = 'Indent each folder under "folders =".'
        message = f'is no [section], no "option = value", or is there twice. {hint}'
        raise BadSetting(f"{path}: line {line}: {message}") from error
    return [(name, *row) for name in ini.sections() for row in ini[name].items()]


# Names ------------------------------------------------------------------------
# The facts in a file's name and in its header, which is read without any key. Nothing
# here raises on a broken or a hostile file: it has fewer facts. It may read a file that
# is open, and knows no path of the disk.

FACTS_VERSION = 4  # goes up when files that are known already should be read again
GAME_IDS = (  # of base games, on Switch and on Switch 2
    range(0x0100_0000_0001_0000, 0x0200_0000_0000_0000, 0x2000),
    range(0x0400_0000_0001_0000, 0x0500_0000_0000_0000, 0x2000),
)
ID_ENDINGS = {"base": "000", "update": "800"}  # of title ids; others are of add-ons
CONTENT_KINDS = (*ID_ENDINGS, "add-on")  # the first of a file's is what the file is
PART_NAMES = {"update": "Update", "add-on": "Add-on"}  # after a title's, see part_name
# Marks are what a name tells beside its words: ids, versions, kinds. `tagged` has each
# in square brackets. packaging/use.md has examples.
TAG = re.compile(r"\[([^\[\]]*)\](?:[+._-](?=\[))?")  # with what joins it to the next
TITLE_ID = re.compile("0[145][0-9A-F]{14}", re.IGNORECASE)
VERSION = re.compile(r"v(\d{1,10})|(0|\d{5,10})", re.IGNORECASE)
ID_OR_VERSION = re.compile(rf"{TITLE_ID.pattern}|{VERSION.pattern}", re.IGNORECASE)
DOTTED_VERSION = r"v(?:er\.? ?|\.)?\d+(?:\.\d+)+|\d+(?:\.\d+){2,}"  # Ver. 1.2, 1.0.3
KIND_WORDS = {  # and their first letters, where several are told
    **dict.fromkeys(("base", "b", "g"), "base"),
    **dict.fromkeys(("update", "upd", "patch", "u", "v"), "update"),
    **dict.fromkeys(("add-on", "addon", "dlc", "d"), "add-on"),
}
LONG_WORD = "|".join(word for word in KIND_WORDS if word[1:])
COUNT = rf"\d{{0,3}}(?:{LONG_WORD}|[BGUVD])\d{{0,10}}"  # such as 2D, DLC and U65536
SUM = rf"(?:{COUNT}\+)+(?:{COUNT})?"
NTH_UPDATE = r"(?:update|upd|patch)(?:[ _-]v?|v)\d[\d.]*"  # Update 1.2, UPD v65536
COUNTS = re.compile(rf"{SUM}|{LONG_WORD}|B|U\d+|{NTH_UPDATE}|\d{{1,3}}DLC", re.I)
COUNT_PARTS = re.compile(  # a number behind a space is none of a version's
    rf"(?i)(\d*)({LONG_WORD}|[BGUVD])(?:[ _-]?v)?(?:(?<=[a-z])(\d{{1,10}})(?![\d.]))?"
)
LAST_WORD = (  # unless it tells what is in a file too: "with DLC", "+ Update 1.2"
    r"(?<=.)(?<![+&])(?<![+&\]] )(?<!(?:all|and)[ _-])(?<!(?:with|incl)[ _-])"
    rf"(?:(?!patch){NTH_UPDATE}|update|upd|DLC)"
)
DLC_NAME = re.compile(r"(?i)(?:DLC|add-?on)[ -](?!incl)[^+&]*")  # such as DLC Wave 2
MARK = re.compile(
    r"(?P<tag>\[[^\[\]]*\])"
    rf"|\((?P<round>{TITLE_ID.pattern}|v\d{{1,10}}|{DOTTED_VERSION}|mgame|{LONG_WORD}"
    rf"|{SUM}|{NTH_UPDATE})\)|(?<=\d\] )\((?P<count>\d{{1,3}}[GUD])\)"
    r"|(?:(?<=[^\W_])[._])?(?<![^\W_])(?:"
    rf"(?P<bare>(?<!gamecard_){TITLE_ID.pattern}|v(?:0|\d{{5,10}}))(?![^\W_]|\.\d)"
    rf"|(?P<last>{LAST_WORD}|(?<=\d\] ){SUM}|(?<=\d_)BASE)(?:$|(?= \[v\d+\]$)))"
    rf"|(?<=\] )(?:{DOTTED_VERSION})$|(?<![\w.])(?:"
    rf"(?:{DOTTED_VERSION})(?= ?[\[(](?:0[145]|v?\d|(?:{LONG_WORD})\b))"
    rf"|\d+\.\d+(?= \[{TITLE_ID.pattern}\]\[v\d+\]\[UPD\]))"
    r"|[. ]?\b(?:TID|PID|VER)-(?=\[)",
    re.IGNORECASE,
)
MAY_HAVE_MARK = re.compile(  # outside of square brackets, of which "[" is left
    rf"[(_]|\d\.\d|v\d|D-\[|R-\[|\d[GUD]\+|{TITLE_ID.pattern}"
    r"|(?:DLC|update|upd)(?:$| \[)",
    re.IGNORECASE,
)
AFTER_TAGS = re.compile(r"(?<=\])(?:\s*\([^()]*\)|-\d{1,3})+$")  # "(trimmed)", "-002"
UPDATE_WORDS = re.compile(r"(?i)(?<=\S)[\s-]*\(?\b(?:update|upd|patch)\b[\s\d.v]*\)?$")
DLC_TAG = re.compile(r"\[(?:DLC|add-?on)\]", re.IGNORECASE)
LEADING_TAGS = re.compile(r"\A(?:\s*\[[^\[\]]*\])+")
# What stands before an add-on's own name, and that in brackets of its own.
OWN_NAME = (
    r"\[([^\W\d_][^\[\]]*? [^\[\]]*?)(?: DLC| add-?on)?\]"
    r"|\((?!\w\w[,)])([^()]*[^\W\d_][^()]*)\)"
    r"(?=(?:\s*\[(?!DLC|add-?on)[^\[\] ]*\])*\s*$)"  # behind are but such as [US]
)
ADD_ON_TAG = re.compile(rf"(?i)(?<=\S)[\s-]*(?:(){DLC_TAG.pattern}|{OWN_NAME})")
ADD_ON_WORDS = re.compile(
    r"(?i)(?<=\S)[\s-]*(?:[\[(]?\b(?:DLC|add-?ons?)[\s#-]*(\d*)\b[\s:-]*([^\[\]()]*)[\])]?"
    rf"|{OWN_NAME})"
)
USUAL_NAME = re.compile(  # Name [0100...][v0]
    rf"([^\[\](_+.]*)(?<!-)\[({TITLE_ID.pattern})\] ?(?:\[v(\d{{1,10}})\])?",
    re.IGNORECASE,
)
FIRST_PART = re.compile(  # of a split file, with the others beside it
    r"\.(?:(?P<start>ns|xc)0|(?P<type>ns[pz]|xc[iz])\.0?0)$", re.IGNORECASE
)
SPLIT_TYPES = {"ns": "nsp", "xc": "xci"}  # by how the first part's extension starts
PART_IN_FOLDER = re.compile(r"\d\d")  # of a folder that is a split file
ANY_PART = re.compile(  # of either, wherever it is
    r"(?:^|\.(?:ns|xc)|\.(?:ns[pz]|xc[iz])\.)\d+$", re.IGNORECASE
)
BESIDE_PARTS = (".hdr", ".seq")  # of a dump that was not finished
HIDDEN = (".", "~")  # starts of names that are passed over: ".Trash-1000" too
BINS = {  # folders of systems, in lower case, that have no games: who tells of them
    "$recycle.bin": "Windows",
    "system volume information": "Windows",
    "lost+found": "e2fsck(8)",
    "#recycle": "Synology, Shared Folder: Enable Recycle Bin",
    "@eadir": "Synology: what it knows of each file",
    "@recycle": "QNAP, Network Recycle Bin",
    # Older states of all files.
    "#snapshot": "Synology, Snapshot Replication: Make snapshot visible",
    "@recently-snapshot": "QNAP: github.com/music-assistant/support/issues/1159",
    ".zfs": "zfsprops(7): snapdir",
    ".snapshots": "snapper(8)",
    "~snapshot": "NetApp: github.com/owncloud/core/issues/15385",
    "network trash folder": "netatalk.io/docs/Special-Files-and-Folders",
}
UNFINISHED = ("part", "tmp", "crdownload")  # extensions that are never listed
TICKET = re.compile(r"([0-9a-f]{16})[0-9a-f]{16}\.tik", re.IGNORECASE)
# Documents that some tools put beside a content: a .cnmt.xml begins with its id and
# version, a .nacp.xml has its names. And its icons, one for each language.
CONTENT_DOCUMENT = re.compile(
    rb"<Id>\s{,9}0x([0-9a-f]{16})\s{,9}</Id>\s{,99}<Version>\s{,9}(\d{1,10})\s{,9}<",
    re.IGNORECASE,
)
NAMES_DOCUMENT = re.compile(r"<Name>([^<]+)</Name>\s{,99}(?:<Publisher>([^<]*))?")
ICON_NAME = re.compile(r".*\.nx\.\w+\.jpg", re.IGNORECASE)
MAX_DOCUMENT_BYTES = {".cnmt.xml": 512, ".nacp.xml": 0x4000}  # that are read of one
MAX_CONTENTS = 5_000  # of a file
FIRST_ID = 0x0100_0000_0001_0000  # that is not the system's
CARTRIDGES = {"xci", "xcz"}
PLAIN_FORMATS = {"nsz": "nsp", "xcz": "xci"}  # where there is nothing to compress
OTHER_FILES = {  # how files begin that are no packages: see header_facts
    "html": re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head)\b", re.I),
    "zip": re.compile(rb"PK(?:\x03\x04|\x05\x06)"),
    "rar": re.compile(rb"Rar!\x1a\x07"),
    "7z": re.compile(rb"7z\xbc\xaf\x27\x1c"),
    "zeros": re.compile(rb"\0{4096}"),
}
NACP_VERSION = slice(0x3060, 0x3070)  # this and the next: see nacp_facts
NACP_IS_COMPRESSED = slice(0x3215, 0x3216)
FRAME_HEADERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # markers SOFn of a JPEG
MAX_IMAGE_SIDE = 4096  # pixels
MAX_MENU_SIDE = 1024  # pixels of an image that a console shows with many others
IMAGE_TYPES = {  # and how each begins
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}


# Names: images ---


START_OF_SCAN, MAX_SCANS = b"\xff\xda", 40  # of a JPEG: ITU-T T.81, B.1.1


def image_type(image: bytes) -> str:
    """Return the media type that the first bytes tell, "" if it is not one of ours."""
    types = (kind for kind, start in IMAGE_TYPES.items() if start.match(image))
    return next(types, "")


def image_sides(image: bytes) -> tuple[int, int]:
    """Return width and height in pixels, zeros where they are not known. Sources: the
    PNG specification, 11.2.1, and ITU-T T.81, B.1.1."""
    with contextlib.suppress(IndexError, struct.error):  # it is cut
        if image_type(image) == "image/webp":
            return webp_sides(image)
        if image_type(image) == "image/png":
            width, height = struct.unpack_from(">II", image, 16)
            return width, height
        at = 2
        while image[at] == 0xFF:
            marker, length, height, width = struct.unpack_from(">xBHxHH", image, at)
            if marker in FRAME_HEADERS:
                return width, height
            at += 1 if marker == 0xFF else 2 + length
    return 0, 0


def webp_sides(image: bytes) -> tuple[int, int]:
    """Return the same of a WebP, zeros of an animation, of which a browser draws each
    frame. Sources: RFC 9649, 2.5 to 2.7 and 3.4, and RFC 6386, 9.1.
    :raises struct.error: it is cut."""
    kind = image[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", image, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (both,) = struct.unpack_from("<I", image, 21)
        return (both & 0x3FFF) + 1, (both >> 14 & 0x3FFF) + 1
    flags, *sides = struct.unpack_from("<B3xHBHB", image, 20)
    if kind != b"VP8X" or flags & 2:
        return 0, 0
    return (sides[0] | sides[1] << 16) + 1, (sides[2] | sides[3] << 16) + 1


def is_picture(image: bytes, max_side: int = MAX_IMAGE_SIDE) -> bool:
    """Return whether a browser can show an image without much memory."""
    kind = image_type(image)
    sides = image_sides(image) if kind else (0, 0)
    if kind == "image/jpeg" and image.count(START_OF_SCAN) > MAX_SCANS:
        return False  # a browser draws each
    return min(sides) > 0 and max(sides) <= max_side


# Names: facts of a name ---


def joined_name(path: str) -> str:
    """Return the name of the whole that a first part is of: "A.xci" of "A.xc0" and of
    "A.xci.00". Other names, also of folders that are split files, stay as they are."""
    first = FIRST_PART.search(path) if path.endswith("0") else None
    if first is None:
        return path
    ending = first["type"] or SPLIT_TYPES[first["start"].lower()]
    return f"{path[: first.start()]}.{ending}"


def split_parts(first: str) -> Iterator[str]:
    """Yield the names of the parts of a split file, without end, from the first one on:
    of "A.xc0" also "A.xc1", of "00" also "01"."""
    stem = first.rstrip("0")
    digits = len(first) - len(stem)
    return (f"{stem}{number:0{digits}}" for number in itertools.count())


def file_type(path: str) -> str:
    """Return the lower-case extension without its dot, "" where there is none."""
    return os.path.splitext(joined_name(path))[1][1:].lower()


def is_hidden(name: str) -> bool:
    """Return whether a file or folder with this name is passed over."""
    return name.startswith(HIDDEN) or name.lower() in BINS


def file_stem(path: str) -> str:
    """Return a file's name without its extension, which a merging tool may have put
    there twice, and without what tells that it is split."""
    stem, ending = os.path.splitext(os.path.basename(joined_name(path)))
    stem = stem.removesuffix(ending).removeprefix("!_")
    return stem.removesuffix("_split").removesuffix(".split")


def name_facts(path: str) -> dict[str, Any]:
    """Return name and metadata that a file's name gives.

    `Celeste [0100...][v65536].nsp` has the name Celeste, the title_id in the first
    tag, the version 65536, and so the patch 1. See kind_facts for what others tell.
    """
    stem = file_stem(path)
    usual = USUAL_NAME.fullmatch(stem)
    if usual and not MAY_HAVE_MARK.search(usual[1]):
        marks = {"title_id": usual[2].upper(), "version": usual[3] or ""}
        words = usual[1].strip() or marks["title_id"]
    elif file_type(path) == "nro":
        words, marks = stem, {}  # its control data has them
    else:
        words, marks = words_and_marks(tagged(stem))
    facts = {"description": "", "version": "", **marks}
    if facts["version"]:
        facts["patch"] = int(facts["version"]) // 65536
    return facts | {"name": " ".join(words.split()) or stem}


def tagged(stem: str) -> str:
    """Return a file's name with each mark in brackets of its own: "Celeste v0 (0100...)
    (BASE)" as "Celeste [v0] [0100...] [BASE]" and "Celeste.TID-[0100...]" as
    "Celeste[0100...]". A name that has this form is returned as it is."""
    if not MAY_HAVE_MARK.search(TAG.sub("[", stem)):
        return stem

    def bracketed(mark: re.Match[str]) -> str:
        if mark["count"]:
            return f"[{mark['count']}+]"
        text = mark["round"] or mark["bare"] or mark["last"]
        return f"[{text}]" if text else mark["tag"] or ""

    return MARK.sub(bracketed, stem)


def words_and_marks(stem: str) -> tuple[str, dict[str, Any]]:
    """Return the words of a tagged name, and what its tags tell. Where "+" stands
    between names with an id each, they are of the games of one cartridge."""
    if "[" not in stem:
        return stem, {}
    games = [game for game in re.split(r"\+(?![^\[]*\])", stem) if title_ids(game)]
    marks = mark_facts(games[0] if games else stem)
    if len(games) > 1:
        versions = {title_ids(it)[0]: mark_facts(it).get("version", "") for it in games}
        marks["contents"] = listed_contents(versions)
    words = TAG.sub(" ", AFTER_TAGS.sub("", stem) if games else stem).strip(" -_")
    if re.search(r"\w", words):
        return words, marks
    return " + ".join(title_ids(game)[0] for game in games) or stem, marks


def title_ids(stem: str) -> list[str]:
    return [tag.upper() for tag in TAG.findall(stem) if TITLE_ID.fullmatch(tag)]


def mark_facts(stem: str) -> dict[str, Any]:
    """Return what the tags of a name tell: title_id and version, the kind where there
    is no id, and contents: see kind_facts."""
    tags = sorted(TAG.findall(stem), key=lambda tag: tag[:1] not in "vV")
    version = next(filter(None, map(VERSION.fullmatch, tags)), None)
    facts = {
        "title_id": next(iter(title_ids(stem)), ""),
        "version": version[1] or version[2] if version else "",
    }
    counts = next(filter(COUNTS.fullmatch, tags), "")
    if not (counts or facts["title_id"]) and any(map(DLC_NAME.fullmatch, tags)):
        counts = "DLC"
    if counts:
        facts = kind_facts(counts, **facts)
    return {fact: value for fact, value in facts.items() if value}


def kind_facts(counts: str, title_id: str, version: str) -> dict[str, Any]:
    """Return the facts of a name with a tag of kinds, such as "UPD", "1G+1U+2D" or
    "B+U65536". Where that counts several, the version is that of the update."""
    kinds: collections.Counter[str] = collections.Counter()
    for count, word, number in COUNT_PARTS.findall(counts):
        if number != "0":  # as of "B+v0", which has no update
            kinds[KIND_WORDS[word.casefold()]] += int(count or 1)
        version = number or version
    kind = min(kinds, key=CONTENT_KINDS.index, default="")
    own = kind_of(title_id or "0")
    facts: dict[str, Any] = {"title_id": title_id, "version": version}
    if not title_id:
        facts |= {"kind": kind} | ({"more": dict(kinds)} if kinds.total() > 1 else {})
    elif kinds.total() > 1:
        facts |= counted_contents(kinds, title_id, version) if own in kinds else {}
    elif own == "base" and kind == "update":
        facts["title_id"] = update_id(title_id)
    elif own == "base" != kind:
        facts |= {"title_id": "", "kind": kind, "base_id": title_id}
    return facts


def counted_contents(
    kinds: collections.Counter[Any], title_id: str, version: str
) -> dict[str, Any]:
    """Return as `contents` those that have an id, and as `more` how many others there
    are of each kind."""
    versions = {title_id: version}
    if kind_of(title_id) == "base" and kinds["update"]:
        versions = {title_id: "", update_id(title_id): version}
    others = kinds - collections.Counter(map(kind_of, versions))
    contents = {"contents": listed_contents(versions)}
    return contents | ({"more": dict(others)} if others else {})


def listed_contents(versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return `contents` of these versions by title id."""
    return [
        {"title_id": title_id, "kind": kind_of(title_id), "version": version}
        for title_id, version in versions.items()
    ]


def kind_of(title_id: str) -> str | None:
    """Return the kind of a part, None of one that is no game's."""
    return title_facts(title_id).get("kind")


def update_id(base_id: str) -> str:
    return base_id[:-3] + ID_ENDINGS["update"]


@functools.lru_cache(1000)  # a scan asks for that of a file several times
def title_facts(title_id: str) -> Mapping[str, str]:
    """Return kind and base_id of the part that has this title id, nothing for one that
    is no game's. The id of a game is a multiple of 0x2000, its update is 0x800 behind
    it, its add-ons are from 0x1001 on. Source: "Title list" on switchbrew.org."""
    base, part = divmod(int(title_id, 16), 0x2000)
    kind = {0: "base", 0x800: "update"}.get(part, "add-on" if part > 0x1000 else "")
    is_game = kind and any(base * 0x2000 in ids for ids in GAME_IDS)
    return {"kind": kind, "base_id": f"{base * 0x2000:016X}"} if is_game else {}


def part_facts(file_type: str, metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return kind and base_id of an entry, None where they are not known.

    :param metadata: in which an admin's kind and base_id win; "" is none.
    """
    known = title_facts(metadata.get("title_id", "0"))
    if file_type == "nro":
        known = {"kind": "homebrew"}
    kind, base = ({**known, **metadata}.get(name) for name in ("kind", "base_id"))
    is_part = kind not in (None, "", "homebrew")
    base = (base or "").upper() or None if is_part else None
    return {"kind": kind or None, "base_id": base}


def part_name(path: str, metadata: Mapping[str, Any]) -> str:
    """Return a name that tells parts of a title apart, such as "Celeste - Update 3",
    made from a file's name and the metadata of its entry."""
    name, kind = str(metadata["name"]), metadata.get("kind")
    if kind == "update":
        name = UPDATE_WORDS.sub("", name)
        return f"{name} - {PART_NAMES[kind]} {metadata.get('patch', '')}".rstrip()
    if kind != "add-on":
        return name
    stem = AFTER_TAGS.sub("", tagged(file_stem(path)))
    stem = TAG.sub(lambda tag: " " if ID_OR_VERSION.fullmatch(tag[1]) else tag[0], stem)
    words = ADD_ON_TAG if DLC_TAG.search(stem) else ADD_ON_WORDS
    before, *found = words.split(LEADING_TAGS.sub("", stem), maxsplit=1)
    texts = before, " ".join(filter(None, found[1:]))
    game, own = (" ".join(TAG.sub(" ", text).split()).strip(" -_") for text in texts)
    if not own and not any(found[:1]):  # nor a number
        game, _, own = game.partition(" - ")
    number = int(metadata.get("title_id", "0")[-3:], 16) or ""
    return f"{game or name} - {own or f'{PART_NAMES[kind]} {number}'}".rstrip()


IN_BRACKETS = re.compile(r"[\[(]([^\[\]()]+)[\])]")
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
NO_DIFFERENCE = re.compile(  # of games: what else is told in brackets
    rf"{ID_OR_VERSION.pattern}|{DOTTED_VERSION}|{COUNTS.pattern}", re.IGNORECASE
)


def name_marks(path: str) -> list[str]:
    """Return what a file's name tells of a game beside its words, such as region and
    year."""
    stem = tagged(file_stem(path))
    told = IN_BRACKETS.findall(stem) + YEAR.findall(IN_BRACKETS.sub("", stem))
    return [text for text in told if not NO_DIFFERENCE.fullmatch(text)]


def title_differences(rows: Iterable[Any]) -> dict[tuple[str, str], str]:
    """Return what tells titles of one name apart, by that name and base id: what only
    the names of its files have beside it or, where several have nothing, the id."""
    marks: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        if title := row["base_id"]:
            titles = marks.setdefault(row["plain_name"].casefold(), {})
            titles.setdefault(title, {}).update(dict.fromkeys(name_marks(row["path"])))
    told = {}
    for name, titles in marks.items():
        counts = collections.Counter(itertools.chain(*titles.values()))
        own = {
            title: ", ".join(mark for mark in titles[title] if counts[mark] == 1)
            for title in titles
        }
        are_alike = [*own.values()].count("") > 1
        for title, text in own.items() if len(own) > 1 else ():
            told[name, title] = text or (title if are_alike else "")
    return told


def distinct_entry_names(rows: Sequence[Any]) -> dict[str, str]:
    """Return a name for each entry, by id: its plain name, or the first longer one that
    no other has. A "Celeste" from a.nsp and one from a.xci are "Celeste (NSP)" and
    "Celeste (XCI)"; games of one name are "Doom (1993)" and "Doom (2016)" before.
    :param rows: each with id, base_id, plain_name, path and library folder. Without a
        folder it keeps its plain name."""
    differences, choices = title_differences(rows), {}
    for row in rows:
        name = row["plain_name"]
        text = differences.get((name.casefold(), row["base_id"]))
        is_there = text and row["folder"] is not None
        choices[row["id"]] = [f"{name} ({text})" if is_there else name]
    first = collections.Counter(name.casefold() for [name] in choices.values())
    for row in rows:
        path, folder, [name] = row["path"], row["folder"], choices[row["id"]]
        if folder is not None and first[name.casefold()] > 1:
            relative = path.removeprefix(os.path.dirname(folder)).lstrip(os.sep)
            found = (file_type(path).upper(), os.path.basename(path), relative, path)
            more = map(normalized, found)
            choices[row["id"]] += [f"{name} ({text})" for text in more]
    counts = collections.Counter(map(str.casefold, itertools.chain(*choices.values())))
    return {
        entry: next((name for name in names if counts[name.casefold()] == 1), names[-1])
        for entry, names in choices.items()
    }


# Names: headers ---


def file_facts(path: str, file: io.FileIO, size: int) -> dict[str, Any]:
    """Return the facts of name and header: the name and metadata of an Entry, and as
    "icon" a JPEG. The header wins."""
    ending, facts = file_type(path), name_facts(path)
    header = header_facts(ending, Window(file, size)) if ending in FORMATS else {}
    if {ending, header.get("format")} & CARTRIDGES:
        facts |= cartridge_contents(facts)
    versions, count = header.pop("contents", {}), header.pop("count", 0)
    if versions or count:
        facts = joined_facts(facts, versions, count)
    ids = [part["title_id"] for part in facts.get("contents", ())]
    if len({title_facts(title_id).get("base_id") for title_id in ids}) > 1:
        for fact in ("name", "author", "icon"):  # are those of one game of several
            header.pop(fact, None)
    facts |= header | ({} if size else {"complete": False})
    return {fact: value for fact, value in facts.items() if value is not None}


def header_facts(ending: str, window: "Window") -> dict[str, Any]:
    """Return the facts that a file's bytes tell. As `format` they tell what it is, if
    its ending says otherwise. What is none of our formats is not complete, if its first
    bytes show that, and has no facts else."""
    for read in dict.fromkeys((FORMATS[ending], nsp_facts, xci_facts, nro_facts)):
        with contextlib.suppress(EOFError):
            if facts := read(window):
                if facts.get("format") in (ending, PLAIN_FORMATS.get(ending)):
                    facts.pop("format", None)
                return facts
    with contextlib.suppress(EOFError):
        start = window.read(0, min(window.size, 4096))
        for kind, begins in OTHER_FILES.items():
            if begins.match(start):
                return {"complete": False, "format": kind}
    return {}


def named_versions(named: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the contents that have an id in a name, by that."""
    parts = named.get("contents") or ([named] if "title_id" in named else [])
    return {part["title_id"]: part["version"] for part in parts}


def cartridge_contents(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents that the name of a cartridge tells: the version of a game,
    unless it is 0, is that of an update beside it. Source: nxdumptool."""
    versions: dict[str, str] = {}
    for title_id, version in named_versions(named).items():
        if kind_of(title_id) == "base" and int(version or 0):
            versions |= {title_id: "", update_id(title_id): version}
        else:
            versions[title_id] = version
    return {"contents": listed_contents(versions)} if len(versions) > 1 else {}


def joined_facts(
    named: Mapping[str, Any], versions: Mapping[str, str], count: int
) -> dict[str, Any]:
    """Return the facts of a name with the contents of a header. What the name alone
    tells counts as long as there is room for it.

    :param versions: the header's contents by title id, "" where no version is known.
    :param count: of all contents by the header, 0 where that is not known.
    """
    is_told = [*versions.items()] == [(named.get("title_id"), "")]
    if is_told and count <= 1 and "contents" not in named:
        return {**named}
    by_name = named_versions(named)
    parts = {one: versions[one] or by_name.get(one, "") for one in versions}
    kinds = [named["kind"]] if "kind" in named else []
    more = collections.Counter(named.get("more", kinds))
    more -= collections.Counter(map(kind_of, parts.keys() - by_name))
    most = count or (MAX_CONTENTS if by_name.keys() & parts.keys() else 0)
    for title_id, version in by_name.items():
        if kind_of(title_id) and len(parts) < most:
            parts.setdefault(title_id, version)
    others = [*itertools.islice(more.elements(), max(most - len(parts), 0))]
    others += ["unknown"] * (count - len(parts) - len(others))
    return main_facts(named, parts, collections.Counter(others))


def main_facts(
    named: Mapping[str, Any], parts: Mapping[str, str], more: Mapping[str, int]
) -> dict[str, Any]:
    """Return the facts of a file with contents of these versions by title id, and more
    of some kinds. The main one is that of the file's name, or else the first of the
    first kind."""
    by_header = {"contents", "more", *(("kind", "base_id") if parts else ())}
    facts = {fact: named[fact] for fact in named if fact not in by_header}
    is_known = parts or "title_id" not in named  # and not the system's
    kinds = [*CONTENT_KINDS, None]
    ids = sorted(parts, key=lambda title_id: kinds.index(kind_of(title_id)))
    ids.sort(key=lambda title_id: title_id != named.get("title_id"))
    if is_known and len(parts) + sum(more.values()) > 1:
        facts["contents"] = listed_contents({one: parts[one] for one in ids})
        facts |= {"more": dict(more)} if more else {}
    for main in ids[:1]:
        facts["title_id"] = main
        level = {main}  # the ids whose versions are the file's
        level |= {update_id(main)} if kind_of(main) == "base" else set()
        texts = [parts[one] for one in ids if one in level]
        if numbers := [int(text) for text in texts if text]:
            facts |= {"version": str(max(numbers)), "patch": max(numbers) // 65536}
    return facts


class Window:
    """A file of which a header reader can read little, and only what is there."""

    max_bytes = 256 * 1024  # that are read of any file

    def __init__(self, file: io.FileIO, size: int) -> None:
        self.file, self.size, self.left = file, size, self.max_bytes

    def read(self, offset: int, length: int) -> bytes:
        """:raises EOFError: the bytes are not there, or are too many."""
        if length > self.left or offset + length > self.size:
            raise EOFError
        self.left -= length
        self.file.seek(offset)
        found = self.file.read(length) or b""
        if len(found) < length:
            raise EOFError
        return found


def nro_facts(window: Window) -> dict[str, Any]:
    """Return the facts of a homebrew program: its size is at 0x18 of the file, behind
    it is an asset section with icon and NACP. Source: the NRO format and hbmenu's
    assets on switchbrew.org."""
    magic, _, program = struct.unpack("<4sII", window.read(0x10, 12))
    if magic != b"NRO0":
        return {}
    if window.size <= program:
        return {"format": "nro", "complete": window.size == program}
    magic, _, *spans = struct.unpack("<4sI6Q", window.read(program, 0x38))
    if magic != b"ASET":
        return {"format": "nro", "complete": True}
    sections = list(zip(spans[::2], spans[1::2], strict=True))
    ends = (offset + length for offset, length in sections if length)
    whole = program + max(ends, default=0x38)
    facts: dict[str, Any] = {"format": "nro", "complete": window.size >= whole}
    (icon_at, icon_size), (nacp_at, nacp_size), _ = sections
    with contextlib.suppress(EOFError):
        facts |= nacp_facts(window.read(program + nacp_at, min(nacp_size, 0x4000)))
        icon = window.read(program + icon_at, icon_size)
        if image_type(icon) == "image/jpeg":
            facts["icon"] = icon
    return facts


def nacp_facts(nacp: bytes) -> dict[str, Any]:
    """Return name, author and version of a control file, which has 16 titles, one for
    each language: the first with a name counts. Source: NACP on switchbrew.org."""
    titles = nacp[:0x3000]
    if nacp[NACP_IS_COMPRESSED] == b"\1":  # newer ones compress 32 titles
        length = int.from_bytes(nacp[:2], "little")
        try:
            titles = zlib.decompressobj(-15).decompress(nacp[2 : 2 + length], 0x6000)
        except zlib.error:
            titles = b""
    facts = {"version": padded_text(nacp[NACP_VERSION])}
    for at in range(0, len(titles), 0x300):
        if name := padded_text(titles[at : at + 0x200]):
            facts["name"] = name
            facts["author"] = padded_text(titles[at + 0x200 : at + 0x300])
            break
    return {fact: text for fact, text in facts.items() if text}


def padded_text(field: bytes) -> str:
    """Return the text of a NUL-padded field, "" where it is no UTF-8."""
    try:
        text = field.partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        return ""
    return " ".join("".join(filter(str.isprintable, text)).split())


class Member(NamedTuple):
    """A file in a package, or in a part of a cartridge."""

    name: str
    offset: int  # in the whole file
    size: int


def members(
    window: Window, at: int, magic: bytes, item_bytes: int
) -> list[Member] | None:
    """Return the files of an archive at this place, None where there is none. Sources:
    PFS0 and HFS0 on switchbrew.org.
    :raises EOFError: its table is cut, or too large."""
    start, count, names_bytes = struct.unpack("<4sII", window.read(at, 12))
    if start != magic:
        return None
    names_at = item_bytes * count
    table = window.read(at + 0x10, names_at + names_bytes)
    files = []
    for item in range(0, names_at, item_bytes):
        offset, size, name = struct.unpack_from("<QQI", table, item)
        text = table[names_at + name :][:MAX_NAME_BYTES].partition(b"\0")[0]
        offset += at + 0x10 + len(table)
        files.append(Member(text.decode("ascii", "replace"), offset, size))
    return files


def package_facts(window: Window, files: Sequence[Member]) -> dict[str, Any]:
    """Return the facts that the files of a package give: as `contents` versions by
    title id, "" where a ticket alone tells of one, and as `count` how many contents
    there are, each with a meta file. Documents and icons may be beside them."""
    versions: dict[str, str] = {}
    facts: dict[str, Any] = {}
    for file in files:
        if ticket := TICKET.fullmatch(file.name):
            versions.setdefault(ticket[1].upper(), "")
        elif file.name.endswith((".xml", ".jpg")):
            with contextlib.suppress(EOFError):
                versions |= document_version(window, file)
                facts = shown_facts(window, file, facts)
    games = {one: versions[one] for one in versions if int(one, 16) >= FIRST_ID}
    count = sum(file.name.endswith(".cnmt.nca") for file in files)
    return facts | {"contents": games, "count": count}


def document(window: Window, file: Member, ending: str) -> bytes:
    """Return the beginning of a document, nothing of a file with another ending."""
    if not file.name.endswith(ending):
        return b""
    return window.read(file.offset, min(file.size, MAX_DOCUMENT_BYTES[ending]))


def document_version(window: Window, file: Member) -> dict[str, str]:
    """Return the version of a content by its title id, if the file is its document."""
    content = CONTENT_DOCUMENT.search(document(window, file, ".cnmt.xml"))
    return {content[1].decode().upper(): content[2].decode()} if content else {}


def shown_facts(window: Window, file: Member, facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts, with name, author or icon if this file is the first that has it."""
    text = b"" if "name" in facts else document(window, file, ".nacp.xml")
    if names := NAMES_DOCUMENT.search(text.decode(errors="replace")):
        shown = (
            padded_text(html.unescape(name or "").encode()) for name in names.groups()
        )
        texts = dict(zip(("name", "author"), shown, strict=True))
        facts |= {fact: text for fact, text in texts.items() if text}
    if "icon" not in facts and ICON_NAME.fullmatch(file.name):
        icon = window.read(file.offset, file.size)
        facts |= {"icon": icon} if image_type(icon) == "image/jpeg" else {}
    return facts


def nsp_facts(window: Window) -> dict[str, Any]:
    """Return the facts of a package, which begins with a table of its files."""
    files = members(window, 0, b"PFS0", 0x18)
    if files is None:
        return {}
    whole = max((file.offset + file.size for file in files), default=0)
    facts = {"complete": window.size >= whole, **package_facts(window, files)}
    return facts | {"format": "nsz" if is_compressed(files) else "nsp"}


def is_compressed(files: Iterable[Member]) -> bool:
    return any(file.name.endswith(".ncz") for file in files)


def xci_facts(window: Window) -> dict[str, Any]:
    """Return the facts of a cartridge, which tells where its data ends, in units of
    0x200 bytes. A dump may have a key area of 0x1000 bytes before it. What is in it for
    a console is in its part "secure". Source: XCI on switchbrew.org."""
    for start in (0, 0x1000):
        if window.read(start + 0x100, 4) == b"HEAD":
            end, root = struct.unpack("<I20xQ", window.read(start + 0x118, 0x20))
            is_whole = window.size >= start + 0x200 * (end + 1)
            facts = {"format": "xci", "complete": is_whole}
            with contextlib.suppress(EOFError):
                facts |= secure_facts(window, start + root)
            return facts
    return {}


def secure_facts(window: Window, root: int) -> dict[str, Any]:
    """Return the facts of what a cartridge has for a console. Of one that was
    compressed the header does not tell where its data ends."""
    parts = members(window, root, b"HFS0", 0x40) or ()
    at = next((part.offset for part in parts if part.name == "secure"), None)
    if at is None:
        return {}
    files = members(window, at, b"HFS0", 0x40) or []
    facts = package_facts(window, files)
    return facts | ({"format": "xcz", "complete": None} if is_compressed(files) else {})


def xcz_facts(window: Window) -> dict[str, Any]:
    facts = xci_facts(window)
    return facts | {"complete": None} if facts else {}


# The readers of headers, by extension: consoles install these packages.
PACKAGES = {
    "nsp": nsp_facts,
    "nsz": nsp_facts,
    "xci": xci_facts,
    "xcz": xcz_facts,
}
FORMATS = {**PACKAGES, "nro": nro_facts}


# Names: safe names ---


def normalized(text: str) -> str:
    """Return Unicode's composed form (NFC): some systems send `é` as two characters."""
    return unicodedata.normalize("NFC", text)


MAX_NAME_BYTES = 255  # of a file name, in most file systems
MAX_CONSOLE_NAME_BYTES = 200  # some programs on consoles have 256 for a whole path
MAX_EXTENSION = 20  # characters; a longer one is a part of the name
UNSAFE = re.compile(  # in some file system, address, terminal or HTML
    r'[\\/:*?"<>|#%\x00-\x1f\x7f-\x9f\ud800-\udfff]|&(?=\w+;)'
)
INVISIBLE = re.compile(  # what shows nothing, or turns the text around it
    "[\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\s*(\.|$)", re.IGNORECASE)


def safe_name(name: str, max_bytes: int = MAX_NAME_BYTES, mark: str = "") -> str:
    """Return a file name that every system and every program on a console accepts.

    :param max_bytes: of the result in UTF-8; what is too long is cut before the
        extension.
    :param mark: is put before the extension.
    """
    name = unicodedata.normalize("NFC", INVISIBLE.sub("", name))
    name = UNSAFE.sub("_", name).rstrip(". ")
    name = f"_{name}" if DEVICE.match(name) else name  # reserved on Windows
    return cut_name(name, max_bytes, mark)


def cut_name(name: str, max_bytes: int, mark: str = "") -> str:
    """Return a safe name with a mark before its extension: see safe_name."""
    if not mark and len(name.encode()) <= max_bytes:
        return name.rstrip(". ") or "_"
    stem, ending = os.path.splitext(name)
    if len(ending) > MAX_EXTENSION:
        stem, ending = name, ""
    rest = max_bytes - len((mark + ending).encode())
    stem = stem.encode()[:rest].decode(errors="ignore")
    return f"{stem}{mark}{ending}".rstrip(". ") or "_"


def own_file_name(path: str, format: str | None) -> str:
    """Return the name of a file, as one, with the ending of what it is: consoles go by
    that. :param format: what its bytes tell, where its ending is another."""
    name = os.path.basename(joined_name(path))
    return f"{os.path.splitext(name)[0]}.{format}" if format in FORMATS else name


def file_name(row: Mapping[str, Any], max_bytes: int = MAX_NAME_BYTES) -> str:
    """Return a safe name for an entry's file, with its extension: see safe_name."""
    if row["type"] == "filepath":
        format = row.get("facts", {}).get("format")
        return safe_name(own_file_name(row["source"], format), max_bytes)
    name = row["name"].rstrip(". ")
    ending = f".{row['file_type']}" if row["file_type"] else ""
    name = name if name.lower().endswith(ending) else name + ending
    return safe_name(name, max_bytes)


def shown_name(row: Mapping[str, Any]) -> str:
    """Return the name of an entry's file with what is hidden in it made visible."""
    name = os.path.basename(joined_name(row["source"]))
    if not INVISIBLE.search(name):
        return str(row["file_name"])
    mark = f" ({row['id']})"  # where another file has that name
    mark = mark if mark in row["file_name"] else ""
    return safe_name(INVISIBLE.sub("\ufffd", name), mark=mark)


def download_name(name: str, entry: str, is_marked: object) -> str:
    """Return a file's name, with the entry's id in it if another one has that name."""
    return safe_name(name, mark=f" ({entry})") if is_marked else name


# Accounts ---------------------------------------------------------------------
# Passwords, keys and tokens, as pure functions but for chance and clocks. It may use
# Problems, Fields and Names.

SCANNER = "scanner"  # the account name that created scanned entries
MIN_PASSWORD_LENGTH = 8  # characters
SCRYPT = {"n": 2**14, "r": 8, "p": 5}  # OWASP's parameters for 16 MiB; about 0.2 s
KEY_PREFIX = "catalogd_"
KEY_SHAPE = re.compile(KEY_PREFIX + r"[\w-]{8,}")  # or a part of a key
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # 31 that look unlike one another


def hash_password(password: str) -> str:
    """Return `scrypt$n$r$p$salt$hash`, the last two in base64."""
    salt = secrets.token_bytes(16)
    hashed = hashlib.scrypt(normalized(password).encode(), salt=salt, **SCRYPT)
    parts = [base64.b64encode(part).decode() for part in (salt, hashed)]
    return "$".join(["scrypt", *map(str, SCRYPT.values()), *parts])


def password_matches(password: str, stored: str | None) -> bool:
    """Return whether a password has the stored hash. Without one, as of an account that
    does not exist, it takes as long: its time must not reveal which accounts exist."""
    no_hash = ["scrypt", *map(str, SCRYPT.values()), "", ""]
    _, *costs, salt, expected = stored.split("$") if stored else no_hash
    n, r, p = map(int, costs)
    given, salted = normalized(password).encode(), base64.b64decode(salt)
    digest = hashlib.scrypt(given, salt=salted, n=n, r=r, p=p)
    return hmac.compare_digest(digest, base64.b64decode(expected))


# Guesses begin with these, of those that are long enough.
COMMON_PASSWORDS = re.compile(
    r"(?i)\s*|(.)\1+|12345678(90?)?|87654321|qwertyui\w*|1q(2w3e4r|az2wsx)\w*|iloveyou"
    r"|sunshine|princess|football|baseball|superman|trustno1"
    r"|(passw[o0]rd|welcome|letmein|abcd|nintendo|catalogd)\d*"
)


def check_password(password: str, name: str = "") -> str:
    """Return a new password of the account with this name. :raises Problem: it is too
    short, is not text, or is among the first that others guess."""
    if len(password) < MIN_PASSWORD_LENGTH:
        raise Problem("short_password", MIN_PASSWORD_LENGTH)
    is_name = password.casefold() == name.casefold()
    if is_name or COMMON_PASSWORDS.fullmatch(password):
        raise Problem("common_password")
    if not is_text(password):
        raise Problem("bad_password")
    return password


def check_account_name(name: str) -> str:
    """Return a new account's name, normalized. :raises Problem: it is not allowed."""
    name = normalized(name.strip())
    if not 1 <= len(name) <= 64 or not name.isprintable() or ":" in name:
        raise Problem("bad_account_name")
    if name.casefold() == SCANNER:
        raise Problem("reserved_account_name", SCANNER)
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name}
    if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
        raise Problem("mixed_account_name")
    return name


def new_key() -> str:
    """Return an API key: 256 random bits after a prefix that tells what it is."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def new_token() -> str:
    """Return the secret part of a console address or an invitation: 99 random bits in
    20 letters, since people type it on a console."""
    return "".join(secrets.choice(LETTERS) for _ in range(20))


def hash_token(secret: str) -> bytes:
    """Return what is stored of a key, session or token. They are random, so SHA-256 is
    enough, and the time of a look-up reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def new_setup_code() -> str:
    """Return a code as people type it, such as `k7mp-x4tz-9hqw`."""
    letters = [secrets.choice(LETTERS) for _ in range(12)]
    return "-".join("".join(letters[start : start + 4]) for start in (0, 4, 8))


def is_code(text: str, code: str) -> bool:
    """Return whether a person typed the code, with or without spaces, hyphens and
    capitals, in constant time."""
    typed, wanted = (re.sub(r"[\s-]", "", one).lower() for one in (text, code))
    return hmac.compare_digest(hash_token(typed), hash_token(wanted))


# Accounts: pairing ---


class PairingCodes:
    """The codes that clients redeem for a key: each is good once, for ten minutes, for
    the account that made it, until the session or the password that it was made with
    ends. Ten wrong ones end all that are open."""

    max_seconds = 600
    min_seconds = 120  # that are left of a code which is not replaced
    max_wrong = 10

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        """:param password_of: gives the password's hash by a session that goes on."""
        self.password_of, self.clock = password_of, time.monotonic
        self.results: dict[int, Any] = {}  # what else `state` gives, by account
        # By account: code, its end, session, and the password's hash.
        self._codes: dict[int, tuple[str, float, str, str | None]] = {}
        self._wrong = 0

    def _open(self) -> dict[int, str]:
        codes, now = [*self._codes.items()], self.clock()
        return {
            account: code
            for account, (code, end, session, password) in codes
            if end > now and password and password == self.password_of(session)
        }

    def make(self, account: int, session: str) -> None:
        """Make a code, unless the account has one that is good for long enough."""
        if self.state(account)["expires_in"] > self.min_seconds:
            return
        others = self._open().values()
        self._wrong = self._wrong if others else 0
        codes = (f"{secrets.randbelow(10**6):06}" for _ in itertools.count())
        code = next(code for code in codes if code not in others)
        end, password = self.clock() + self.max_seconds, self.password_of(session)
        self._codes[account] = code, end, session, password
        self.results[account] = {}

    def state(self, account: int) -> dict[str, Any]:
        """Return the account's code with its seconds, or how the last one ended."""
        code = self._open().get(account)
        left = math.ceil(self._codes[account][1] - self.clock()) if code else 0
        state = {"code": code, "expires_in": left, "device": None}
        return state | self.results.get(account, {})

    def find(self, typed: str) -> int:
        """Return whose code it is. :raises WrongCode: it is nobody's."""
        codes = self._open()
        for account, code in codes.items():
            if is_code(typed, code):
                return account
        self._wrong += 1
        if self._wrong >= self.max_wrong:
            self.results |= dict.fromkeys(codes, {"ended": True})
            self._codes = {}
        why = "The pairing code is wrong, was used, or is older than ten minutes."
        raise WrongCode(f"{why} Make a new one on the page.")

    def end(self, account: int, device: str) -> None:
        """End the account's code, which the device with this id redeemed."""
        del self._codes[account]
        self.results[account] = {"device": device}


# Accounts: wrong passwords ---


Now = Callable[[], float]  # a clock, in seconds


class Throttle:
    """Delays for wrong passwords: the first are free, then each doubles the wait. A
    subject is an account, a session, an address or a network. Not thread-safe."""

    free_tries = 5
    max_seconds = 300.0
    memory_seconds = 3600.0

    def __init__(self, clock: Now = time.monotonic) -> None:
        self.clock = clock
        self.wrong: dict[str, tuple[int, float]] = {}  # subject: count, time of last

    def check(self, subject: str, times: int = 1) -> None:
        """:param times: so many times the tries are free.
        :raises TooManyTries: it has to wait."""
        count, last = self.wrong.get(subject, (0, 0.0))
        more = count - times * self.free_tries
        wait = min(2.0**more, self.max_seconds)
        left = last + wait - self.clock()
        if more >= 0 and left > 0:
            raise TooManyTries(left)

    def record(self, is_right: bool, subject: str) -> None:
        """Count a wrong password of the subject, or forget the earlier ones."""
        now, (count, _) = self.clock(), self.wrong.pop(subject, (0, 0.0))
        if not is_right:
            self.wrong[subject] = (min(count + 1, 64), now)
            while now - next(iter(self.wrong.values()))[1] > self.memory_seconds:
                del self.wrong[next(iter(self.wrong))]


def address_subject(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits, in which a
    single machine can have any."""
    address = address.removeprefix("::ffff:")  # IPv4 as such
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # a proxy may forward any word
        return address
    if ip.version == 4 or ip.is_loopback:
        return address
    return str(ipaddress.ip_network((int(ip), 64), strict=False))


# Store ------------------------------------------------------------------------
# The SQLite file. All SQL is here: one method a verb, the units in the schema. It may
# use all above, and the files of the data folder and of backups: none of the library.

# Store: schema ---


SCHEMA = """
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password TEXT NOT NULL,            -- see hash_password
    admin INTEGER NOT NULL,            -- 0 or 1
    created_at TEXT NOT NULL,          -- UTC, YYYY-MM-DDTHH:MM:SS, as all times here
    age INTEGER CHECK (age IN {AGES}) -- NULL: it sees every title
) STRICT;

-- What each account sees: titles that are seen from an age up to its own. 99 stands for
-- an account that sees every title, and for a title that no admin has decided on.
CREATE VIEW viewers AS SELECT id AS account, name, admin,
    iif(admin, 99, coalesce(age, 99)) AS age FROM accounts;

CREATE TABLE ages (                    -- what admins decided; outlives the entries
    subject TEXT PRIMARY KEY,          -- as in `entries`
    age INTEGER NOT NULL CHECK (age IN {TITLE_AGES}) -- 18: not for children
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0,
    by_login INTEGER NOT NULL DEFAULT 0, -- 1: made by a client's login
    unused_since TEXT NOT NULL GENERATED ALWAYS AS -- other keys do not end by that
        (iif(by_login, coalesce(last_used_at, created_at), '9999')) VIRTUAL,
    is_device INTEGER NOT NULL DEFAULT 0, -- 1: was paired, or has fetched a queue
    shared INTEGER NOT NULL DEFAULT 0, -- 1: every account may send to the device
    target TEXT NOT NULL DEFAULT '',   -- as its client last told: 'ready', or why not
    address TEXT NOT NULL DEFAULT '',  -- of the console, if this server serves it
    user TEXT NOT NULL DEFAULT '',     -- of the FTP server at that address
    password TEXT NOT NULL DEFAULT '', -- of that user, in plain text
    paused_by TEXT,                    -- an account, '': a command, NULL: not paused
    listed_at TEXT,                    -- when its console told what is on_console
    list_counts INTEGER NOT NULL DEFAULT 0 -- 1: it was not sent to, nor away, since
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL,
    last_used_at TEXT,                 -- NULL: not since it was made
    unused_since TEXT NOT NULL GENERATED ALWAYS AS
        (coalesce(last_used_at, created_at)) VIRTUAL
) STRICT;

CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the token in the link
    maker INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    account INTEGER REFERENCES accounts ON DELETE CASCADE, -- that gets a new password
    admin INTEGER NOT NULL,            -- this and the age: of a new account
    age INTEGER CHECK (age IS NULL OR NOT admin),
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE entries (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL CHECK (type IN ('filepath', 'url')),
    source TEXT NOT NULL,              -- absolute path, or URL
    file_type TEXT NOT NULL,
    size INTEGER NOT NULL,             -- bytes, 0 where unknown
    folder TEXT,                       -- library folder that the file is in
    mtime INTEGER,                     -- nanoseconds
    inode INTEGER,
    volume TEXT,                       -- file system that the file is on; see LOST
    cover TEXT,                        -- digest of path, size, mtime of its cover
    sample TEXT,                       -- digest of size, first and last 64 KiB
    sha256 TEXT,                       -- of the content, once somebody asked for it
    sha256_size INTEGER,               -- the file's size and mtime at that time
    sha256_mtime INTEGER,
    fault TEXT,                        -- 'damaged' or 'unreadable', as verify found it
    state TEXT NOT NULL CHECK (state IN ('here', 'gone', 'offline')),
    gone_at TEXT,                      -- since when it is gone, NULL: it is excluded
    facts TEXT NOT NULL,               -- JSON: name and metadata that the file tells
    facts_version INTEGER NOT NULL,    -- FACTS_VERSION of the program that read them
    overrides TEXT NOT NULL DEFAULT '{}', -- JSON: what an admin put over the facts
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    file_time TEXT,                    -- of what the first scan of its folder found
    kind TEXT,                         -- one of KINDS; this and the rest: see derived
    title TEXT NOT NULL DEFAULT '',    -- base_id, or the own id where there is none
    title_id TEXT,
    number INTEGER NOT NULL DEFAULT 0, -- of the version, 0 where that is no number
    plain_name TEXT NOT NULL DEFAULT '' COLLATE NOCASE, -- which others may have too
    name TEXT NOT NULL,                -- that, or a longer one that no other has
    sort_name TEXT NOT NULL,           -- the name, case folded
    file_name TEXT NOT NULL DEFAULT '', -- for consoles: safe
    marked_name TEXT NOT NULL DEFAULT '', -- where an older entry has that: with the id
    file_key TEXT NOT NULL DEFAULT '', -- the first of both, case folded
    others INTEGER NOT NULL DEFAULT 0, -- contents beside the main one, and
    unknown INTEGER NOT NULL DEFAULT 0, -- of all, how many have no id
    subject TEXT NOT NULL GENERATED ALWAYS AS -- of its age: the title or, without one,
        (iif(title = id, coalesce(sample, id), title)) VIRTUAL, -- the content
    former TEXT                        -- the last other subject that had an age
) STRICT;

CREATE TABLE contents (                -- with an id, of entries with several
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    title TEXT NOT NULL,               -- base_id
    kind TEXT NOT NULL,
    title_id TEXT NOT NULL,
    number INTEGER NOT NULL,           -- of the version, 0 where that is not known
    PRIMARY KEY (entry, title_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX contents_title ON contents (title, kind, title_id, number);

-- The contents of all entries. "+": they are found by title, not by state.
CREATE VIEW held AS SELECT id AS entry, title, kind, title_id, number, +state AS state
FROM entries WHERE others = 0 UNION ALL
SELECT entry, contents.title, contents.kind, contents.title_id, contents.number, +state
FROM contents JOIN entries ON id = entry;

CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_source ON entries (source);
CREATE INDEX entries_sample ON entries (sample);
CREATE INDEX entries_folder ON entries (folder, state);
CREATE INDEX entries_title ON entries
    (title, kind, title_id, number, state, size, created_at, id);
CREATE INDEX entries_name ON entries (plain_name);
CREATE INDEX entries_file ON entries (file_key);
CREATE INDEX entries_damaged ON entries (id) WHERE fault = 'damaged';
CREATE INDEX entries_cover ON entries (cover) WHERE cover IS NOT NULL;
CREATE INDEX entries_former ON entries (former) WHERE former IS NOT NULL;
CREATE INDEX entries_icon ON entries (facts ->> 'icon')
    WHERE facts ->> 'icon' IS NOT NULL;

CREATE TABLE scanned (                 -- library folders that were read whole
    folder TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE title_images (            -- images that have a title id in their names
    path TEXT PRIMARY KEY,
    folder TEXT NOT NULL,              -- library folder that the image is in
    volume TEXT NOT NULL,
    title TEXT NOT NULL,
    cover TEXT NOT NULL                -- digest of path, size and mtime
) STRICT;

CREATE INDEX title_images_title ON title_images (title, path);

CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- of a file's icon, or of an image as `cover`
    ending TEXT NOT NULL,              -- see menu_ending
    image BLOB NOT NULL                -- a JPEG, PNG or WebP
) STRICT;

-- Entries with what is worked out when it is asked for. They are seen from the stricter
-- age of all titles that they are part of. A title does not offer those that are
-- surplus: an update that is older than another one or than the base, and a copy of a
-- better entry with the same contents: one that is here, or else the later version,
-- larger file, or older entry. One whose contents are not all known is no copy.
CREATE VIEW parts AS SELECT *, rowid AS serial,
    iif(title = id, NULL, title) AS base_id,
    max(coalesce((SELECT age FROM ages WHERE subject = entries.subject), 99), iif(
        others = 0, 0, coalesce((
            SELECT max(coalesce(age, 99)) FROM contents
            LEFT JOIN ages ON ages.subject = contents.title
            WHERE entry = entries.id AND contents.title != entries.title
        ), 0)
    )) AS seen_from,
    coalesce(overrides ->> 'version', facts ->> 'version', '') AS version,
    coalesce((SELECT digest FROM icons WHERE digest = cover), (
        SELECT digest FROM title_images JOIN icons ON digest = title_images.cover
        WHERE title_images.title = entries.title ORDER BY path LIMIT 1
    ), facts ->> 'icon') AS icon,
    iif((sha256_size, sha256_mtime) = (size, mtime), sha256, NULL) AS checksum,
    CASE WHEN kind = 'update' AND others = 0 AND EXISTS (
        SELECT 1 FROM held AS other WHERE other.title = entries.title
        AND other.kind IN ('base', 'update') AND other.state = entries.state
        AND other.number > entries.number
    ) THEN 'superseded' WHEN unknown = 0 AND EXISTS (
        SELECT 1 FROM entries AS other WHERE other.title = entries.title
        AND other.kind = entries.kind AND other.title_id = entries.title_id
        AND other.others = entries.others
        AND (other.kind != 'update' OR other.number = entries.number)
        AND other.state != 'gone' AND (entries.others = 0 OR NOT EXISTS (
            SELECT 1 FROM contents AS own WHERE own.entry = entries.id
            AND NOT EXISTS (
                SELECT 1 FROM contents AS its WHERE its.entry = other.id
                AND its.title_id = own.title_id AND its.number >= own.number
            )
        ))
        -- The other is here and not offline, or else has the higher number, or else is
        -- larger, or else older: version 3 of 9 MB is surplus beside version 4 of 8 MB.
        AND (other.state, -other.number, -other.size, other.created_at, other.id) <
        (entries.state, -entries.number, -entries.size, entries.created_at, entries.id)
    ) THEN 'copy' END AS surplus
FROM entries;

-- What the scanner knows of files, and those that can be read whole. Somebody touched
-- what was edited, waits in a queue or was sent.
CREATE VIEW known_files AS SELECT id, source AS path, folder, size, mtime, inode,
    volume, cover, sample, gone_at, rowid AS serial, facts_version,
    iif(state = 'gone' AND gone_at IS NULL, 'excluded', state) AS state,
    overrides != '{}' OR id IN (SELECT entry FROM queue WHERE is_open)
    OR id IN (SELECT entry FROM sent) AS is_touched
FROM entries WHERE type = 'filepath';

CREATE VIEW served_files AS
SELECT id, source AS path, folder, size, mtime, checksum AS sha256,
facts ->> 'format' AS format
FROM parts WHERE type = 'filepath' AND +state = 'here'; -- "+": not by its index

-- What is answered of entries: the Entry of the interface, and what the page's list has
-- of it. json_patch leaves out what is NULL in its second argument (RFC 7396).
CREATE VIEW answers AS SELECT id, state, sort_name, seen_from,
    json_object(
        'id', id, 'name', name, 'source', source, 'type', type, 'file_type', file_type,
        'size', size, 'created_at', created_at, 'created_by', created_by, 'metadata',
        json_patch(
            iif(overrides = '{}', facts, json_patch(facts, overrides)),
            json_object('name', NULL, 'icon', icon, 'kind', kind, 'base_id', base_id,
                'sha256', checksum))
    ) AS entry_json,
    json_patch(json_remove(facts, '$.description'), json_object(
        'id', id, 'name', name, 'type', type, 'file_type', nullif(file_type, ''),
        'size', size, 'created_at', created_at, 'state', state, 'kind', kind,
        'file_time', file_time, 'base_id', base_id, 'title_id', title_id,
        'version', nullif(version, ''),
        'icon', icon, 'complete', iif(facts ->> 'complete', NULL, facts -> 'complete'),
        'part', surplus)
    ) AS page_json
FROM parts;

CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    place INTEGER NOT NULL,            -- the smallest is first
    status TEXT NOT NULL DEFAULT 'pending', -- one of QUEUE_STATUSES
    percent REAL NOT NULL DEFAULT 0,   -- 0 to 100, when it ended; see Progress
    bytes INTEGER NOT NULL DEFAULT 0,  -- at that time
    speed INTEGER NOT NULL DEFAULT 0,  -- bytes per second
    error TEXT NOT NULL DEFAULT '',    -- why the last attempt failed, in English
    error_code TEXT NOT NULL DEFAULT '', -- of that sentence, '' where it has none
    error_arguments TEXT NOT NULL DEFAULT '{}', -- JSON: what varies in it
    attempts INTEGER NOT NULL DEFAULT 0, -- that failed, since the target got further
    furthest INTEGER NOT NULL DEFAULT 0, -- bytes that the target had at most
    attempted TEXT,                    -- size and time of the file that these are of
    created_at TEXT NOT NULL,
    key TEXT REFERENCES keys ON DELETE SET NULL, -- of the client that sends it
    device TEXT REFERENCES keys ON DELETE SET NULL, -- the only key that may send it
    freed_from TEXT,                   -- label of its device before: waits for a choice
    replaces INTEGER NOT NULL DEFAULT 0, -- 1: it may replace a file on the target
    client TEXT,                       -- what that client calls itself, if it does
    ended_at TEXT,                     -- NULL while its status is an open one
    action TEXT,                       -- what sent, changed or cleared it: see ACTED
    cleared_at TEXT,                   -- NULL while it is shown
    is_open INTEGER NOT NULL GENERATED ALWAYS AS (ended_at IS NULL) VIRTUAL
) STRICT;

CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_ended ON queue (account, ended_at, place);
CREATE INDEX queue_waiting ON queue (coalesce(device, account)) WHERE is_open;
CREATE INDEX queue_running ON queue (key) WHERE is_open AND status != 'pending';
CREATE INDEX queue_entry ON queue (entry);
CREATE INDEX queue_device ON queue (device);
CREATE UNIQUE INDEX queue_open ON queue
    (coalesce(device, account || ' ' || freed_from, account), entry) WHERE is_open;

CREATE VIEW all_items AS               -- of the queue, with what they send
SELECT queue.id, entry, title, parts.name, type, source, file_type, size, seen_from,
    state, queue.created_at, percent, bytes, speed, error, error_code, error_arguments,
    attempts, furthest, attempted,
    size || ' ' || coalesce(mtime, '') AS version, -- of the file
    ended_at, place, status, is_open, device, freed_from, queue.key, client,
    replaces, action, cleared_at, queue.account AS sender, viewers.name AS account,
    viewers.age AS sender_age,
    owners.account AS owner,           -- of its device
    coalesce(owners.age, 99) AS owner_age,
    (SELECT paused_by FROM keys WHERE keys.id = coalesce(device, queue.key))
        AS paused_by,
    coalesce(devices.shared, 0) AS is_shared
FROM queue CROSS JOIN parts ON parts.id = entry -- never all parts first
JOIN viewers ON viewers.account = queue.account
LEFT JOIN keys AS devices ON devices.id = device
LEFT JOIN viewers AS owners ON owners.account = devices.account;

CREATE VIEW items AS SELECT * FROM all_items WHERE cleared_at IS NULL;

CREATE TABLE sent (                    -- outlives the queue's items
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    version TEXT NOT NULL,             -- metadata.version of the entry at that time
    contents TEXT NOT NULL DEFAULT '[]', -- JSON: their title ids and numbers, also then
    device TEXT NOT NULL DEFAULT '',   -- id of its key, which may be revoked; '': none
    sent_at TEXT NOT NULL,             -- when it was completed last
    PRIMARY KEY (entry, account, version, device)
) STRICT;

CREATE TABLE on_console (              -- of titles of the library, by the last list
    device TEXT NOT NULL REFERENCES keys ON DELETE CASCADE,
    title TEXT NOT NULL,               -- base_id
    title_id TEXT NOT NULL,
    number INTEGER NOT NULL,           -- of the version
    PRIMARY KEY (device, title_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE addresses (
    digest BLOB PRIMARY KEY,           -- hash_token of the token in the address
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    item TEXT UNIQUE REFERENCES queue ON DELETE CASCADE, -- NULL: the account's own
    token TEXT                         -- only of the account's own: the page shows it
) STRICT;

CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;

CREATE TABLE uploads (                 -- to the inbox, that are not whole yet
    id TEXT PRIMARY KEY,               -- see PART
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    name TEXT NOT NULL,                -- of the file, if it is free
    size INTEGER NOT NULL,             -- bytes
    modified INTEGER NOT NULL,         -- milliseconds, 0 where unknown
    UNIQUE (account, name, size, modified)
) STRICT;

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
"""
for name, ages in {"AGES": AGES, "TITLE_AGES": TITLE_AGES}.items():
    SCHEMA = SCHEMA.replace(f"{{{name}}}", f"{ages}")
SCHEMA_VERSION = 18  # also goes up when `derived` changes
# To version 18: an age is of a title or of a content. Of two that were given to one the
# stricter counts, and nobody sees a content that it did not see: a part that was held
# makes its title as strict, or undecided; what was seen before is told then.
AGES_OF_CONTENTS = (
    """
    CREATE TEMP TABLE seen AS
    SELECT id, coalesce(entries.sample, id) AS content,
        iif(entries.title = id, coalesce(entries.sample, id), entries.title) AS subject,
        iif(entries.title = id, 0, least_age) AS held_at,
        max(least_age, coalesce(iif(ages.sample IS NULL
            OR ages.sample = entries.sample AND least_age <= age, age, NULL), 99)
        ) AS seen_from
    FROM entries LEFT JOIN ages USING (title)
    """,
    """
    CREATE TEMP TABLE given AS
    SELECT ages.title AS id, age,
        coalesce(ages.sample, entries.sample, ages.title) AS subject
    FROM ages LEFT JOIN entries ON id = ages.title AND entries.title = id
    """,
    "DROP VIEW IF EXISTS held_ages",
    "DROP TABLE ages",
    "CREATE TABLE ages (subject TEXT PRIMARY KEY, age INTEGER NOT NULL)",
    """
    WITH meeting AS (
        SELECT subject, age FROM given UNION ALL
        SELECT seen.subject, age FROM given JOIN seen ON content = given.subject
    ), contents AS (
        SELECT content, min(seen_from) AS seen_from FROM seen GROUP BY content
    )
    INSERT INTO ages SELECT subject, max(age) FROM (
        SELECT * FROM meeting UNION ALL
        SELECT subject, max(held_at, contents.seen_from)
        FROM seen JOIN contents USING (content)
        WHERE subject IN (SELECT subject FROM meeting)
    ) GROUP BY subject HAVING max(age) < 99
    """,
    "ALTER TABLE entries ADD COLUMN former TEXT",
    "UPDATE entries SET former = given.subject FROM given WHERE given.id = entries.id",
    """
    UPDATE entries SET former = content FROM seen WHERE seen.id = entries.id
    AND seen_from < 99 AND seen.subject NOT IN (SELECT subject FROM ages)
    """,
    """
    INSERT OR IGNORE INTO ages SELECT content, max(seen_from) FROM seen
    WHERE seen_from < 99 AND subject NOT IN (SELECT subject FROM ages) GROUP BY content
    """,
)
# What came in the first hour of a folder counts as found by its first scan.
FIRST_SCANS = (
    "CREATE TABLE scanned AS SELECT DISTINCT folder FROM entries WHERE folder NOT NULL",
    "ALTER TABLE entries ADD COLUMN file_time TEXT",
    """
    WITH begun AS (
        SELECT folder, strftime('%Y-%m-%dT%H:%M:%S', min(created_at), '+1 hour') AS till
        FROM entries GROUP BY folder
    ), files AS (
        SELECT id, strftime('%Y-%m-%dT%H:%M:%S', mtime / 1000000000, 'unixepoch') AS at
        FROM entries JOIN begun USING (folder) WHERE created_at < till
    )
    UPDATE entries SET file_time = at FROM files
    WHERE files.id = entries.id AND at < created_at
    """,
)
# From a version: the statements that prepare its tables for adopt_schema, such as
# renames. That makes each table as SCHEMA has it, and keeps columns of the same names.
UPGRADES = {
    1: (
        "ALTER TABLE entries RENAME COLUMN root TO folder",
        "ALTER TABLE entries RENAME COLUMN said TO facts",
        "ALTER TABLE entries RENAME COLUMN typed TO overrides",
        "ALTER TABLE entries ADD COLUMN facts_version INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE entries ADD COLUMN title TEXT NOT NULL DEFAULT ''",
        "UPDATE counters SET name = 'list'",
        "CREATE TABLE sent AS SELECT entry, account,"
        " coalesce(overrides ->> 'version', facts ->> 'version', '') AS version,"
        " max(coalesce(reported_at, queue.created_at)) AS sent_at"
        " FROM queue JOIN entries ON entries.id = entry"
        " WHERE status = 'completed' GROUP BY entry, account",
        "DELETE FROM queue WHERE cleared",
        "DELETE FROM addresses WHERE item NOT IN (SELECT id FROM queue)",
        "ALTER TABLE queue ADD COLUMN ended_at TEXT",
        "UPDATE queue SET ended_at = coalesce(reported_at, created_at)"
        " WHERE status NOT IN ('pending', 'processing')",
    ),
    2: ("ALTER TABLE icons RENAME COLUMN jpeg TO image",),
    6: ("DROP TABLE IF EXISTS scan_request",),
    9: ("CREATE TABLE ages (title TEXT PRIMARY KEY, age INTEGER NOT NULL)",),
    15: (
        "ALTER TABLE ages ADD COLUMN sample TEXT",
        "ALTER TABLE entries ADD COLUMN least_age INTEGER NOT NULL DEFAULT 0",
    ),
    16: (
        "ALTER TABLE icons ADD COLUMN ending TEXT",
        "UPDATE icons SET ending = menu_ending(image)",
    ),
    17: (*AGES_OF_CONTENTS, *FIRST_SCANS),
}
# An earlier time of its own the service wrote without a clock: a Raspberry Pi begins in
# 1970. This day never moves, as RELEASED does.
FIRST_DAY = "2026-01-01"
TIMES = "SELECT tables.name, columns.name FROM sqlite_schema AS tables,"
TIMES += " pragma_table_info(tables.name) AS columns"
TIMES += " WHERE tables.type = 'table' AND columns.name GLOB '*_at'"
APPLICATION_ID = 0x63617464  # tells our files from other SQLite files
UNUSED_DAYS = 90  # that end a session, and a key that was made by a client's login
INVITATION_DAYS = 1
MAX_LOGINS = 100  # of clients, by which an account has keys
MAX_KEYS = 50  # of an account, beside those, also of its devices
MAX_SESSIONS = 100  # of an account: the one that was unused longest ends
MAX_OPEN = 10_000  # items of an account that have not ended
FINISHED_DAYS = 90  # that finished items are kept for, and
MAX_FINISHED = 1000  # so many of an account
MAX_UNDONE = 1000  # actions that were undone, which may be asked for again
CLIENT_SECONDS = 60  # a device counts as connected after a call: clients pause for 30
USES_SECONDS = 3600  # between two writes of which keys and sessions were used
DISK_ERROR = re.compile("SQLITE_(CANTOPEN|CORRUPT|IOERR|NOTADB|PERM|READONLY)")
MIN_SPEED_SECONDS = 1  # between the two reports that tell the speed of a transfer
MAX_WRITE_WAIT_SECONDS = 10
MIN_START_BYTES = 1_000_000  # free, for SQLite's files beside the database
MAX_CLOSE_WAIT_SECONDS = 0.9
BATCH = 250  # entries that are written at once
LOST = "lost:"  # begins a volume's name of files that were missed at once, on none
SPARE_COPIES = 7  # of the database, while the clock is not believed


# Store: statuses of queue items ---


class Status(NamedTuple):
    """What a status of a queue item means, and the next one by what happens: a client
    reports figures or a status, that it has offered the item to an installer, or that
    it gives the item back ("release"); the page can retry and cancel; an item is
    "stale" when no client has reported on it for `stale_after`. What is not in `next`
    is a Conflict."""

    is_open: bool  # the item has not ended, and is in the queue once
    is_running: bool  # a client has it, whose key owns it until the item is stale
    next: Mapping[str, str]


PENDING = {"figures": "processing", "release": "pending", "cancel": "cancelled"}
PENDING |= {status: status for status in (*STATUSES, "offered")}
RUNNING = {**PENDING, "stale": "pending"}
FAILED = {"figures": "failed", "failed": "failed", "processing": "processing"}
# The client's last report.
STOPPED = dict.fromkeys(("completed", "failed", "release"), "cancelled")
QUEUE_STATUSES = {
    "pending": Status(True, False, PENDING),
    "offered": Status(True, True, RUNNING),
    "processing": Status(True, True, {**RUNNING, "offered": "processing"}),
    "completed": Status(False, False, {"completed": "completed", "retry": "pending"}),
    "failed": Status(False, False, {**FAILED, "retry": "pending"}),
    "cancelled": Status(False, False, {**STOPPED, "retry": "pending"}),
}
FIGURES = {"progress_percent": "percent", "bytes_transferred": "bytes"}
NO_FIGURES = {"percent": 0, "bytes": 0, "speed": 0}
# What a retry makes of an item.
NO_ERROR = {"error": "", "error_code": "", "error_arguments": "{}"}
NO_ATTEMPTS = {"attempts": 0, "furthest": 0, "attempted": None}
NEW_ITEM: dict[str, Any] = {"status": "pending", **NO_FIGURES, **NO_ERROR}
NEW_ITEM |= {**NO_ATTEMPTS, **dict.fromkeys(("key", "client", "ended_at"))}
NEW_ITEM |= {"cleared_at": None, "action": "-"}
# The last actions of an item, each after a space: "send-1f", "cancel-2e", and "-" for
# one that has no undo. An undo takes the last one away, or finds that it is not.
ACTED = "action = substr(coalesce(action, '') || ' ' || :action, -400)"
WAS_LAST = "substr(action, -length(:action)) = :action"
UNACTED = "action = rtrim(substr(action, 1, length(action) - length(:action)))"
# What an undo has left undone.
IS_LEFT = f"""
instr(action, :action) AND ({WAS_LAST} OR iif(:action GLOB 'send*', is_open,
    iif(:action GLOB 'cancel*', status = 'cancelled', cleared_at NOT NULL)))
"""
MAX_ATTEMPTS = 3  # that get no further, before an item has failed
UNDO_ACTION = (
    f"UPDATE queue SET {UNACTED}, cleared_at = NULL"
    f" WHERE {WAS_LAST} AND cleared_at NOT NULL",
    f"UPDATE OR IGNORE queue SET {UNACTED}, status = 'pending', ended_at = NULL,"
    f" key = NULL, client = NULL WHERE {WAS_LAST} AND status = 'cancelled'"
    " AND id IN (SELECT id FROM items WHERE seen_from <= min(sender_age, owner_age))",
    f"DELETE FROM queue WHERE {WAS_LAST} AND status = 'pending'",
    f"UPDATE queue SET {UNACTED}, status = 'cancelled', ended_at = :now"
    f" WHERE {WAS_LAST} AND is_open",
)
CLEARED_DAYS = 1 / 24  # for which clearing can be undone


# Store: what ends access ---


# What ends by what happens to an account: conditions, by tables. An age that is set or
# lowered ends nothing: lists follow at once. What an account has given out is removed
# along with it (ON DELETE CASCADE).
GIVEN = "maker = :account OR account = :account"
ENDS = {
    "password": {
        "sessions": "account = :account AND id != :keep",
        "invitations": GIVEN,
    },
    "signed out": {
        "sessions": "account = :account",
        "invitations": GIVEN,
        "keys": "account = :account AND iif(is_device, :devices, :keys)",
        "addresses": "account = :account AND :addresses",
    },
    "made an admin": {"invitations": "account = :account"},
    "no longer an admin": {"invitations": "maker = :account"},
    "restored": {"invitations": "true"},
}


# Store: who sees an entry ---


# Who sees an entry: each statement that answers a caller by entries has one of these.
# The age is the caller's, as `viewers` has it. An account with an age also sees what
# others have waiting for its own device. The page's queue shows (SHOWN_ITEMS) what the
# account sent itself, and what others sent to a shared device: to its owner, and to an
# account that sees everything.
EVERYTHING = 99
SEEN = f"(:age = {EVERYTHING} OR seen_from <= :age)"
VIEWER = "(SELECT age FROM viewers WHERE viewers.account = :account)"
SEEN_BY = f"seen_from <= {VIEWER}"
SEEN_ITEM = f"({SEEN_BY} OR owner = :account AND is_open)"
SHOWN_ITEMS = f"""
FROM items WHERE id IN ( -- what others have for themselves is not read
    SELECT id FROM queue WHERE account = :account
    UNION SELECT queue.id FROM keys CROSS JOIN queue ON device = keys.id WHERE shared
) AND {SEEN_ITEM} AND
    (sender = :account OR is_shared AND (is_open OR status = 'failed')
        AND (owner = :account OR {VIEWER} = {EVERYTHING}))
"""
# Whether the id of an entry is in its file's name, as an account is told it: where the
# account sees an older entry with the plain name. That tells nothing of hidden ones. A
# hidden one that is sent to its device has the id, so that all on a card differ.
IS_MARKED = f"""
(seen_from > :age OR EXISTS (
    SELECT 1 FROM parts AS other
    WHERE other.file_key = parts.file_key AND other.serial < parts.serial
    AND (:age = {EVERYTHING} OR other.seen_from <= :age)
))
"""
FILE_NAME = f"iif({IS_MARKED}, marked_name, file_name)"
# Whose item it is: its sender's, that of the owner of its device, for an admin also one
# of a shared device. A client is told to stop what was cancelled, hidden or not.
OWN_ITEM = "(sender = :account OR owner IS :account OR :admin AND is_shared)"
CLIENT_ITEM = "(sender != :account OR seen_from <= sender_age OR status = 'cancelled')"
# An item is open only while its sender sees the title, and an adult has sent it where
# the owner of the device does not. A report or an undo opens it where both see it, see
# next_status and UNDO_ACTION; retrying and moving it as `check_open` says.
MAY_BE_OPEN = f"""
    (seen_from <= sender_age AND max(seen_from <= owner_age, sender_age = {EVERYTHING}))
"""
CANCEL_UNSEEN = f"""
UPDATE queue SET status = 'cancelled', ended_at = ?, action = action || ' -'
WHERE is_open AND id IN (SELECT id FROM items WHERE is_open AND NOT {MAY_BE_OPEN})
"""
# A content that was given an age turns out to be of a title, which has the stricter of
# both from then on; where an admin names the title, it keeps its own. One that has none
# gets that of the content, but stays undecided by a scan where others are of it: nobody
# gave them an age. A content that was not read before has what its entry was given.
MEET_AGES = """
WITH given AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'title' AS title,
        value ->> 'sample' AS sample FROM json_each(?)
    WHERE EXISTS (SELECT 1 FROM ages) -- else nothing is read
), entry AS MATERIALIZED (  -- the others are looked up of these alone
    SELECT id, title, sample, iif(title = id, sample, title) AS new, age FROM given
    JOIN ages ON ages.subject IN (
        sample, (SELECT id FROM entries WHERE id = given.id AND sample IS NULL)
    ) WHERE ages.subject != new
)
INSERT INTO ages SELECT new, max(age) FROM entry WHERE {}
GROUP BY new ON CONFLICT DO {} RETURNING subject, age
"""
FOUND_BY_SCAN = MEET_AGES.format(
    """NOT EXISTS (
        SELECT 1 FROM entries AS other WHERE other.title = entry.title
        AND coalesce(other.sample, other.id) = coalesce(entry.sample, entry.id)
    ) AND (new IN (SELECT subject FROM ages) OR NOT EXISTS (
        SELECT 1 FROM entries AS other WHERE other.title = entry.title
        AND other.id != entry.id
    ) AND NOT EXISTS (
        SELECT 1 FROM given AS other WHERE other.title = entry.title
        AND coalesce(other.sample, other.id) NOT IN (SELECT subject FROM ages)
        AND other.id != entry.id
    ))""",
    "UPDATE SET age = excluded.age WHERE excluded.age > age",
)
NAMED_BY_ADMIN = MEET_AGES.format(
    "title != (SELECT title FROM entries WHERE id = entry.id)", "NOTHING"
)
# Of which devices an account is told what is on them.
IS_TOLD = f"(account = :account OR shared AND {VIEWER} = {EVERYTHING})"
# Whether a console has listed all that is in a part, or a later version of it, and the
# account is told that. Of an update with the number 0 the version is not known.
IS_THERE = f"""
unknown = 0 AND EXISTS (
    SELECT 1 FROM keys WHERE id = :device AND list_counts AND {IS_TOLD})
AND NOT EXISTS (SELECT 1 FROM held WHERE entry = parts.id AND NOT EXISTS (
    SELECT 1 FROM on_console AS there WHERE device = :device
    AND there.title_id = held.title_id AND there.number >= held.number
    AND (held.number > 0 OR there.number = 0)))
"""
TITLE_ORDER = f"""
SELECT parts.id, CASE WHEN size = 0 AND parts.type = 'filepath' THEN 'empty'
    WHEN NOT :anyway AND state = 'here' AND {IS_THERE} THEN 'there' ELSE state END
    AS state
FROM json_each(:entries) JOIN parts ON parts.id = value WHERE {SEEN_BY}
AND max(seen_from <= :owner_age, {VIEWER} = {EVERYTHING})
ORDER BY min(key) OVER (PARTITION BY title),
    kind != 'base', kind != 'update', title_id, number, key
"""
# What is sent of an entry with a version, as [title_id, number] of each content. One
# of another version than the entry has now had the same main content.
SENT_CONTENTS = """
CASE WHEN parts.others > 0 THEN (
    SELECT json_group_array(json_array(title_id, number)) FROM contents
    WHERE entry = parts.id
) WHEN parts.title_id IS NULL THEN '[]'
ELSE json_array(json_array(parts.title_id, parts.number)) END
"""
ADD_SENT_CONTENTS = f"""
UPDATE sent SET contents = iif(sent.version = parts.version, {SENT_CONTENTS},
    json_array(json_array(title_id, CAST(sent.version AS INTEGER))))
FROM parts WHERE parts.id = sent.entry AND title_id NOT NULL AND contents = '[]'
"""
# What is read better in the same bytes was sent then, too.
SENT_AS_READ_BEFORE = """
SELECT sent.rowid FROM json_each(?) JOIN entries ON entries.id = value ->> 'id'
JOIN sent ON sent.entry = entries.id WHERE entries.sample = value ->> 'sample'
AND entries.source = value ->> 'source' AND entries.facts != value ->> 'facts'
AND sent.version = coalesce(overrides ->> 'version', facts ->> 'version', '')
"""
READ_SENT_BETTER = f"""
UPDATE OR REPLACE sent SET version = parts.version, contents = {SENT_CONTENTS}
FROM parts WHERE parts.id = sent.entry AND sent.rowid = ?
"""
COUNT = "UPDATE counters SET value = value + 1 WHERE name = ?"
ADD_ADDRESS = "INSERT OR REPLACE INTO addresses VALUES (?, ?, ?, ?)"
PACKAGE_TYPES = f"({', '.join(map(repr, PACKAGES))})"
# Entries, each of several contents as often, as what it is to a menu then.
APPS = f"""
SELECT parts.*, coalesce(contents.title, base_id) AS titleId,
coalesce(contents.kind, parts.kind) AS appKind,
coalesce(contents.title_id, parts.title_id) AS ownId,
coalesce(contents.number, parts.number) AS appNumber,
(SELECT facts ->> 'format' WHERE facts ->> 'format' IN {PACKAGE_TYPES}) AS own_format
FROM parts LEFT JOIN contents ON others > 0 AND entry = id
"""
# What the menus on a console may have, by Sphaira's names: `appId` is NULL where the id
# of a part is not known. And the ids of a page of a list that has each part once.
MENU_PARTS = f"""
SELECT id, name, plain_name, {FILE_NAME} AS file_name,
iif(type = 'url', source, NULL) AS link,
icon, facts ->> 'icon' AS own_icon, facts ->> 'author' AS publisher, created_at,
coalesce(overrides ->> 'description', facts ->> 'description') AS description,
size AS downloadSize, coalesce(own_format, file_type) AS downloadExtension, titleId,
appNumber AS appVersion, iif(version GLOB '*[^0-9]*', version, NULL) AS displayVersion,
CASE appKind WHEN 'update' THEN 'UPDATE' WHEN 'add-on' THEN 'DLC' ELSE 'BASE' END
AS appType, iif(titleId IS NULL, NULL, CASE appKind WHEN 'base' THEN titleId
WHEN 'update' THEN substr(titleId, 1, 13) || '{ID_ENDINGS["update"]}' ELSE ownId END)
AS appId, sort_name, surplus, title != titleId AS is_guest FROM ({APPS}) AS parts
WHERE +state = 'here' AND {SEEN} AND file_type IN {PACKAGE_TYPES}
"""
MENU_ORDER = "surplus IS 'copy', sort_name, id"
# Of two icons the one that comes first and that a console can decode.
ICON_PATH = """
'/api/icons/' || id || '/' ||
coalesce(one.digest || '.' || one.ending, own.digest || '.' || own.ending)
"""
MENU_ICONS = """
LEFT JOIN icons AS one ON one.digest = icon AND one.ending != ''
LEFT JOIN icons AS own ON own.digest = own_icon AND own.ending != ''
"""
# The items of CyberFoil's list, without null, which it may reject. It tells the type of
# a link by the name, and has updates without a number for new ones.
MENU_SECTION = f"""
SELECT CAST(group_concat(item) AS BLOB) FROM (
    SELECT json_patch('{{}}', json_object(
        'name', iif(link IS NULL, name, file_name), 'url',
        coalesce(link || '#', :prefix || '/') || :mark || file_name || :mark,
        'size', downloadSize, 'title_id', iif(appId IS NULL, NULL, titleId),
        'app_id', appId, 'app_version',
        iif(appType = 'UPDATE', nullif(appVersion, 0), appVersion),
        'app_type', appType, 'icon_url', :prefix || {ICON_PATH}
    )) AS item FROM ({MENU_PARTS}) {MENU_ICONS}
    WHERE :has_links OR link IS NULL ORDER BY {MENU_ORDER}
)
"""
MENU_PAGE = f"""
WITH listed AS (
    SELECT titleId, appId, max(appVersion), created_at, coalesce((
        SELECT sort_name FROM entries WHERE title = titleId AND appType = 'UPDATE'
        AND kind = 'base' AND state = 'here'
    ), sort_name) AS sort_name FROM ({MENU_PARTS})
    WHERE appType = :type AND appId NOT NULL AND link IS NULL
    AND (:appId_in IS NULL OR appId IN (SELECT value FROM json_each(:appId_in)))
    AND appId NOT IN (SELECT value FROM json_each(:appId_notIn))
    AND (:titleId_in IS NULL OR titleId IN (SELECT value FROM json_each(:titleId_in)))
    AND titleId NOT IN (SELECT value FROM json_each(:titleId_notIn))
    GROUP BY appId
), found AS MATERIALIZED (
    SELECT * FROM listed
    WHERE instr(sort_name || lower(' ' || appId || ' ' || titleId), :search ->> '$')
) SELECT count(*) AS total, (
    SELECT json_group_array(json_array(titleId, appId)) FROM (
        SELECT * FROM found ORDER BY {{}}, appId LIMIT :size OFFSET :start
    )
) AS ids FROM found
"""


# Store: rows ---


class Caller(NamedTuple):
    """The account that calls, from which age on it sees titles (or EVERYTHING), and the
    id of its key or session.

    One that browses does so below `base`. With an address that was made for a queue
    item it may have the `entry` of that `item` and nothing else.
    """

    account: int
    name: str
    admin: bool
    age: int
    credential: str
    base: str = "/dir"
    item: str | None = None
    entry: str | None = None


class FoundFile(NamedTuple):
    """A file as its folder lists it, without opening it."""

    path: str
    folder: str  # library folder
    size: int  # bytes
    mtime: int  # nanoseconds
    inode: int
    volume: str
    cover: str | None = None  # digest of path, size and mtime of the image beside it


class TitleImage(NamedTuple):
    """An image that has the id of a title in its name."""

    path: str
    folder: str  # library folder
    volume: str
    title: str
    cover: str  # digest of path, size and mtime


class FileContent(NamedTuple):
    """The sample and the facts of an opened file."""

    sample: str
    facts: dict[str, Any]
    is_hollow: bool = False  # it ends with zeros: perhaps it is still being copied


class KnownFile(NamedTuple):
    """What the store has of a file."""

    id: str
    file: FoundFile
    sample: str | None
    state: str  # as in `entries`, or "excluded"
    gone_at: str | None
    serial: int  # higher than those of entries that were made before
    is_touched: int = 0  # 1: it goes before others of its content, and is kept


class ServedFile(NamedTuple):
    """A file that is sent, or read whole, and the SHA-256 (in hexadecimal) that it had
    at this size and mtime."""

    id: str
    path: str
    folder: str
    size: int
    mtime: int
    sha256: str | None
    format: str | None = None  # what its bytes are, if not what its ending says


class Changes(NamedTuple):
    """The files that a scan adds, updates, marks as gone, offline or excluded, and
    forgets, and entries whose rows end, each after the one that has its file now."""

    added: Sequence[tuple[FoundFile, FileContent | None]] = ()  # None: not read yet
    updated: Sequence[tuple[KnownFile, FoundFile, FileContent | None]] = ()
    gone: Sequence[KnownFile] = ()
    offline: Sequence[KnownFile] = ()
    excluded: Sequence[KnownFile] = ()
    forgotten: Sequence[KnownFile] = ()
    merged: Sequence[tuple[KnownFile, KnownFile]] = ()


T = TypeVar("T")
Row = dict[str, Any]  # by column; of entries: NESTED_COLUMNS are decoded
Values = Sequence[Any] | Mapping[str, Any]  # of the parameters of a statement


# Store: columns of entries ---


ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
sqlite3.register_adapter(list, json.dumps)  # as a parameter it is JSON: see LISTED
sqlite3.register_adapter(dict, json.dumps)
NESTED_COLUMNS = ("facts", "overrides")  # of entries: JSON
LISTED = "(SELECT value FROM json_each(?))"  # what a JSON array has


def derived(entry: Row) -> Row:
    """Return the columns of an entry that follow from its others, by themselves: of an
    update's file "Celeste [0100...0800][v65536].nsp" the kind "update", the title
    "0100...0000", the number 65536 and the name "Celeste - Update 1"."""
    facts, overrides = entry["facts"], entry.get("overrides", {})
    metadata = {**facts, **overrides}
    metadata |= part_facts(entry["file_type"], metadata)
    name = metadata["name"]
    if entry["type"] == "filepath" and "name" not in overrides:
        name = part_name(entry["source"], metadata)
    versions = (overrides.get("version", ""), facts.get("version", ""))
    numbers = [int(text) for text in versions if re.fullmatch("[0-9]{1,10}", text)]
    unknown = sum(facts.get("more", {}).values())
    name = normalized(name)
    plain = file_name({**entry, "name": name}, MAX_CONSOLE_NAME_BYTES)
    return {
        "kind": metadata.get("kind"),
        "title_id": metadata.get("title_id"),
        "title": metadata["base_id"] or entry["id"],
        "number": numbers[0] if numbers else 0,
        "plain_name": name,
        "name": name,
        "sort_name": name.casefold(),
        "file_name": plain,
        "marked_name": cut_name(plain, MAX_CONSOLE_NAME_BYTES, f" ({entry['id']})"),
        "file_key": plain.casefold(),
        "others": max(len(facts.get("contents", ())) + unknown - 1, 0),
        "unknown": unknown,
    }


def contents_of(entry: Row) -> list[Row]:
    """Return the rows of the table of contents for an entry with several, of which the
    main one is what an admin says it is."""
    contents = []
    for part in entry["facts"].get("contents", ()):
        own = title_facts(part["title_id"])
        if part["title_id"] == entry["title_id"]:
            own = {"kind": entry["kind"], "base_id": entry["title"]}
        if own.get("kind"):
            of = {"entry": entry["id"], "title": own["base_id"], "kind": own["kind"]}
            number = int(part["version"] or 0)
            contents.append({**of, "title_id": part["title_id"], "number": number})
    return contents


def write_contents(db: sqlite3.Connection, entries: Sequence[Row]) -> None:
    """Write the contents of entries that have several, or had."""
    ids = [entry["id"] for entry in entries]
    db.execute(f"DELETE FROM contents WHERE entry IN {LISTED}", (ids,))
    contents = [content for entry in entries for content in contents_of(entry)]
    db.execute(
        "INSERT OR IGNORE INTO contents SELECT value ->> 'entry', value ->> 'title',"
        " value ->> 'kind', value ->> 'title_id', value ->> 'number' FROM json_each(?)",
        (contents,),
    )


def write_entries(
    db: sqlite3.Connection, rows: Sequence[Row], meeting: str = FOUND_BY_SCAN
) -> None:
    """Add entries, or replace those with the same ids, by one statement: SQLite works
    without holding up the threads that answer calls. All rows have the same columns.

    :param meeting: what becomes of the ages of contents, see MEET_AGES.
    """
    if not rows:
        return
    written = [{**row, **derived(row)} for row in rows]
    columns = [name for name in written[0] if name not in ("subject", "former")]
    values = ", ".join(f"value ->> '{column}'" for column in columns)
    updates = ", ".join(f"{column} = excluded.{column}" for column in columns)
    given = (ENCODER.encode(written),)
    met = db.execute(meeting, given).fetchall() if meeting else []
    is_new = "title" not in rows[0]
    sent = [] if is_new else db.execute(SENT_AS_READ_BEFORE, given).fetchall()
    db.execute(
        "WITH given AS MATERIALIZED (SELECT value FROM json_each(?))"
        f" INSERT INTO entries ({', '.join(columns)}) SELECT {values} FROM given"
        f" WHERE true ON CONFLICT (id) DO UPDATE SET {updates}, former ="
        " iif(subject IN (SELECT subject FROM ages) AND subject != excluded.subject,"
        " subject, former)",
        given,
    )
    pairs = zip(rows, written, strict=True)
    if held := [new for old, new in pairs if new["others"] or old.get("others")]:
        write_contents(db, held)
    db.executemany(READ_SENT_BETTER, sent)
    names = {row["plain_name"] for row in (*rows, *written) if "plain_name" in row}
    tell_apart(db, names | ages_changed(db, [row["subject"] for row in met]))
    for row in met:
        log.info("%s: for %s and older, as a file of it was.", *row)


def ages_changed(db: sqlite3.Connection, subjects: list[str]) -> set[str]:
    """Note that these have other ages now. Return the plain names of their entries."""
    if not subjects:
        return set()
    db.execute(COUNT, ("ages",))
    sql = f"SELECT plain_name FROM entries WHERE title IN {LISTED}"
    sql += f" OR title = id AND sample IN {LISTED} OR id IN"
    sql += f" (SELECT entry FROM contents WHERE contents.title IN {LISTED})"
    return {name for (name,) in db.execute(sql, (subjects,) * 3)}


def tell_apart(db: sqlite3.Connection, plain_names: Iterable[str]) -> None:
    """Give the files with these plain names, where others have the same one, names of
    their own. What an admin typed stays. Only those count that whoever sees an entry
    sees too: no name tells that something is hidden."""
    entries = db.execute(
        "SELECT id, name, plain_name, base_id, source AS path, seen_from,"
        " iif(overrides ->> 'name' IS NULL, folder, NULL) AS folder FROM parts"
        f" WHERE state != 'gone' AND plain_name IN {LISTED}",
        ([*plain_names],),
    ).fetchall()
    names: dict[str, str] = {}
    for age in sorted({entry["seen_from"] for entry in entries}):
        seen = [entry for entry in entries if entry["seen_from"] <= age]
        names = distinct_entry_names(seen) | names
    changed = {
        entry["id"]: {"name": name, "sort_name": name.casefold()}
        for entry in entries
        if (name := names[entry["id"]]) != entry["name"]
    }
    db.execute(
        "UPDATE entries SET name = value ->> 'name', sort_name = value ->> 'sort_name'"
        " FROM json_each(?) WHERE entries.id = key",
        (changed,),
    )
    if changed:
        db.execute(COUNT, ("list",))


def content_digest(*parts: bytes) -> str:
    """Return a hexadecimal digest of the parts as one text."""
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def read_entries(db: sqlite3.Connection, ids: Iterable[str]) -> list[Row]:
    sql = f"SELECT * FROM entries WHERE id IN {LISTED} ORDER BY rowid"
    entries = [dict(entry) for entry in db.execute(sql, ([*ids],))]
    for entry in entries:
        entry.update({name: json.loads(entry[name]) for name in NESTED_COLUMNS})
    return entries


def change_entries(db: sqlite3.Connection, columns: Mapping[str, Row]) -> None:
    """Change these columns of entries, which are given by their ids."""
    for ids in batches([*columns]):
        entries = read_entries(db, ids)
        write_entries(db, [{**entry, **columns[entry["id"]]} for entry in entries])


def set_states(
    db: sqlite3.Connection, files: Sequence[tuple[KnownFile, FoundFile, str]], now: str
) -> None:
    """Write the states of files that are not read, and what their folders tell."""
    rows = {item.id: {**file._asdict(), "state": state} for item, file, state in files}
    db.execute(
        "UPDATE entries SET"
        " state = iif(value ->> 'state' = 'excluded', 'gone', value ->> 'state'),"
        " gone_at = iif(value ->> 'state' IN ('here', 'excluded'), NULL, ?2),"
        " size = value ->> 'size', mtime = value ->> 'mtime',"
        " inode = value ->> 'inode', volume = value ->> 'volume',"
        " cover = value ->> 'cover' FROM json_each(?1) WHERE entries.id = key",
        (rows, now),
    )
    unlisted = {"gone", "excluded"}
    changed = [item.id for item, _, state in files if unlisted & {item.state, state}]
    sql = f"SELECT plain_name FROM entries WHERE id IN {LISTED}"
    tell_apart(db, {name for (name,) in db.execute(sql, (changed,))})


def file_columns(file: FoundFile, content: FileContent) -> Row:
    """Return the columns that a file gives that was found and read."""
    columns: Row = {**file._asdict(), "sample": content.sample, "facts": content.facts}
    columns |= {"state": "here", "gone_at": None, "fault": None}
    path = columns.pop("path")
    columns |= {"source": path, "file_type": file_type(path)}
    return columns | {"facts_version": FACTS_VERSION}


def known_file(row: Any) -> KnownFile:
    file = FoundFile(*(row[name] for name in FoundFile._fields))
    more = {name: row[name] for name in KnownFile._fields if name != "file"}
    return KnownFile(file=file, **more)


# Store: changes of queue items ---


def update_item(db: sqlite3.Connection, item: str, columns: Row) -> None:
    """Change these columns of an item.

    :raises NotFound: the key was revoked just now.
    :raises Conflict: it would be the second open item of its entry.
    """
    changes = [ACTED if name == "action" else f"{name} = :{name}" for name in columns]
    sql = f"UPDATE queue SET {', '.join(changes)} WHERE id = :id"
    try:
        with storage_problems():
            db.execute(sql, {**columns, "id": item})
    except sqlite3.IntegrityError as error:
        raise Conflict("queued_again") from error


def next_status(item: Row, report: Mapping[str, Any]) -> str:
    """Return an item's status after a report, which the item has counted if it tells of
    an attempt. :raises Conflict: there is none."""
    status = item["status"]
    is_owned = QUEUE_STATUSES[status].is_running and not is_owner(item, report)
    if is_owned or item["device"] not in (None, report.get("key")):
        raise Conflict("item_taken")
    if item["freed_from"] is not None and status != "cancelled":
        raise Conflict("item_waits")
    events = QUEUE_STATUSES[status].next
    event = "offered" if report.get("offered") else report.get("status", "figures")
    if is_attempt(report) and item["attempts"] >= MAX_ATTEMPTS and event in events:
        event = "failed"
    # What is on a disk that is away was not sent for now: it waits for the disk.
    is_away = event == "failed" and item["state"] == "offline"
    if (report.get("release") or is_away) and "release" in events:
        event = "release"
    opens = not item["is_open"] and QUEUE_STATUSES[events.get(event, status)].is_open
    is_hidden = item["seen_from"] > min(item["sender_age"], item["owner_age"])
    if event not in events or (opens and is_hidden):
        raise Conflict(f"The item is {status}.")
    goes_on = item["is_open"] and item["key"] == report.get("key")
    is_paused = report.get("paused_by") is not None
    if QUEUE_STATUSES[events[event]].is_running and is_paused and not goes_on:
        raise Conflict("device_paused")
    return events[event]


def is_attempt(report: Mapping[str, Any]) -> bool:
    """Return whether a report says why an item is tried again."""
    return report.get("status") == "processing" and "error_code" in report


def count_attempt(item: Row, report: Mapping[str, Any]) -> Row:
    """Return an item with the attempt that a report tells of: how many have failed
    since the target got more bytes of this version of the file than ever before."""
    counted = item if item["attempted"] == item["version"] else {**item, **NO_ATTEMPTS}
    kept, furthest = report.get("bytes_kept", 0), counted["furthest"]
    count = 0 if kept > furthest else counted["attempts"] + 1
    tried = {"furthest": max(kept, furthest), "attempted": item["version"]}
    return {**item, **tried, "attempts": count}


def is_owner(item: Row, report: Mapping[str, Any]) -> bool:
    """Return whether a report comes from the client that has the item."""
    is_its_key = item["key"] in (None, report.get("key"))
    return is_its_key and report.get("client") in (None, item["client"])


def free_items(db: sqlite3.Connection, key: str, keep: int | None = None) -> None:
    """Make the items that a key sends pending, and let those for its device wait until
    somebody chooses another place for them, unless they do so already.

    :param keep: the account whose items stay as they are.
    """
    sql = "SELECT id FROM queue WHERE key = ? AND is_open AND account IS NOT ?"
    for (item,) in db.execute(sql, (key, keep)).fetchall():
        db.execute("DELETE FROM addresses WHERE item = ?", (item,))
        update_item(db, item, NEW_ITEM)
    db.execute(
        "UPDATE OR IGNORE queue SET device = NULL,"
        " freed_from = (SELECT label FROM keys WHERE id = device)"
        " WHERE device = ? AND account IS NOT ?",
        (key, keep),
    )
    db.execute("DELETE FROM queue WHERE device = ? AND account IS NOT ?", (key, keep))


def adopt_items(db: sqlite3.Connection, device: str) -> None:
    """Let what waits for any device of an account that has none wait for this one, to
    which it may send now, but for what the owner of that may not be sent."""
    sql = "UPDATE OR IGNORE queue SET device = ? WHERE is_open AND device IS NULL"
    sql += " AND freed_from IS NULL AND account NOT IN (SELECT account FROM keys)"
    db.execute(sql, (device,))
    sql = "UPDATE queue SET device = NULL WHERE device = ? AND id IN"
    sql += f" (SELECT id FROM items WHERE is_open AND NOT {MAY_BE_OPEN})"
    db.execute(sql, (device,))


# Store: checks of keys and devices ---


def check_others(
    db: sqlite3.Connection, name: str, target: str = "", device: str = ""
) -> None:
    """Check the name and the address that a device is to have, or those that are given.
    :raises Conflict: another device has one of them."""
    sql = "SELECT label, address FROM keys WHERE is_device AND id != ?"
    for other in db.execute(sql, (device,)):
        label, address = other["label"], other["address"]
        if name and label.strip().casefold() == name.strip().casefold():
            raise Conflict("device_name_taken", name.strip())
        if target and address and console_place(address) == console_place(target):
            raise Conflict("console_known", label)


def check_room_for_key(db: sqlite3.Connection, account: int) -> None:
    """:raises Conflict: the account has as many keys as it may. A poll reads them."""
    sql = "SELECT count(*) FROM keys WHERE account = ? AND NOT by_login"
    if db.execute(sql, (account,)).fetchone()[0] >= MAX_KEYS:
        raise Conflict("many_keys", MAX_KEYS)


def check_owner(db: sqlite3.Connection, device: str, changes: Row) -> bool:
    """Return whether these changes move a device to another account.
    :raises Conflict: a client serves the device, whose address and key it has."""
    sql = "SELECT account, address FROM keys WHERE id = ? AND is_device"
    old = db.execute(sql, (device,)).fetchone()
    moves = old and changes.get("account", old["account"]) != old["account"]
    if old and not old["address"] and (moves or CONSOLE.keys() & changes):
        raise Conflict("pair_anew" if moves else "served_by_client")
    return bool(moves)


def check_device(db: sqlite3.Connection, account: int, device: str | None) -> int:
    """Return the age from which on the owner of a device sees titles, EVERYTHING
    without a device. :raises NotFound: the account may not send to it."""
    if device is None:
        return EVERYTHING
    sql = "SELECT age FROM keys JOIN viewers USING (account)"
    sql += " WHERE id = ? AND is_device AND (account = ? OR shared)"
    return int(existing(db.execute(sql, (device, account)).fetchone(), "no_device")[0])


def retried(db: sqlite3.Connection, item: Row) -> Row:
    """Return the columns of an item that is tried again. One that any device may send
    goes back to that of its account which sent it last, where people see it."""
    sql = "SELECT id AS device, NULL AS freed_from FROM keys WHERE id = coalesce(?, ?)"
    of = item["device"], item["key"], item["sender"]
    place = db.execute(f"{sql} AND account = ? AND is_device", of).fetchone()
    return {**NEW_ITEM, **dict(place or ())}


def bound_items(db: sqlite3.Connection, account: int) -> None:
    """Drop the oldest items of an account that have ended, if there are too many.
    :raises Conflict: too many are open."""
    which = "FROM queue WHERE account = ? AND ended_at IS"
    if db.execute(f"SELECT count(*) {which} NULL", (account,)).fetchone()[0] > MAX_OPEN:
        raise Conflict("queue_full", MAX_OPEN)
    old = f"SELECT id {which} NOT NULL ORDER BY ended_at DESC, place DESC"
    sql = f"DELETE FROM queue WHERE id IN ({old} LIMIT -1 OFFSET ?)"
    db.execute(sql, (account, MAX_FINISHED))


def check_open(db: sqlite3.Connection, account: int, item: str) -> None:
    """:raises Conflict: this item must not be open, or was not opened by this account,
    which does not see all titles."""
    sql = f"SELECT 1 FROM items WHERE id = :item AND (NOT {MAY_BE_OPEN}"
    sql += f" OR seen_from > owner_age AND {VIEWER} < {EVERYTHING})"
    if db.execute(sql, {"item": item, "account": account}).fetchone():
        raise Conflict("item_is_hidden")


def remove_keys(db: sqlite3.Connection, which: str, values: Values) -> list[str]:
    """Remove the keys that meet a condition, and return their labels."""
    keys = db.execute(f"SELECT id, label FROM keys WHERE {which}", values).fetchall()
    for key in keys:
        free_items(db, key["id"])
        db.execute("DELETE FROM keys WHERE id = ?", (key["id"],))
    return [key["label"] for key in keys]


def end_access(db: sqlite3.Connection, what: str, **values: Any) -> None:
    """End what ENDS has for what has happened to the account in `values`."""
    for table, which in ENDS[what].items():
        if table == "keys":
            remove_keys(db, which, values)
        else:
            db.execute(f"DELETE FROM {table} WHERE {which}", values)


def use_invitation(db: sqlite3.Connection, digest: bytes | None) -> None:
    """End the invitation with this digest, if one is given.
    :raises WrongCode: it has ended."""
    sql = "DELETE FROM invitations WHERE digest = ?"
    if digest and not db.execute(sql, (digest,)).rowcount:
        raise WrongCode("bad_invitation")


def caller(holder: Row | None) -> Caller | None:
    return Caller(**{**holder, "admin": bool(holder["admin"])}) if holder else None


class Recent(collections.OrderedDict[Any, T]):
    """A dictionary that has at most so many items: those that were set last. Any thread
    may set and get them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._lock = threading.Lock()

    def __setitem__(self, key: Any, value: T) -> None:
        with self._lock:
            super().__setitem__(key, value)
            self.move_to_end(key)  # in place: another thread may look for it
            while len(self) > self.most:
                self.popitem(last=False)


def existing(result: T | None, *problem: str) -> T:
    """Return what was found. :raises NotFound: it is None."""
    if result is None:
        raise NotFound(*problem)
    return result


def batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


@functools.lru_cache(100)  # a poll asks for the same few
def stamp(seconds: float) -> str:
    """Return a time since 1970 as the interface writes it; 1970 for all before."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(seconds, 0)))


def new_id() -> str:
    return secrets.token_hex(8)


# Store: files ---


def database_path(folder: str) -> str:
    return os.path.join(folder, "catalogd.db")


def write_private(path: str, content: IO[bytes]) -> None:
    """Make a file that only its owner can read, with this content, which is on the
    disk then. :raises FileExistsError: it is there already."""
    pathlib.Path(path).touch(0o600, exist_ok=False)
    with open(path, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


# Store: versions of the schema ---


def schema_parts() -> list[tuple[str, str, str]]:
    """Return kind, name and SQL of the tables, indexes and views of SCHEMA."""
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA)
        sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
        return fresh.execute(sql).fetchall()


def adopt_schema(db: sqlite3.Connection) -> None:
    """Give the database what SCHEMA has: tables, indexes and views that differ are made
    again. Others stay: tools such as Litestream have tables of theirs in the file."""
    for kind, name, sql in schema_parts():
        find = "SELECT sql FROM sqlite_schema WHERE name = ?"
        made = db.execute(find, (name,)).fetchone()
        if made and made["sql"] != sql and kind == "table":
            remake_table(db, name, sql)
        elif not made or made["sql"] != sql:
            db.execute(f"DROP {kind} IF EXISTS {name}")
            db.execute(sql)


def has_schema(db: sqlite3.Connection) -> bool:
    """Return whether the database has all that SCHEMA has, as it is there."""
    made = {part["sql"] for part in db.execute("SELECT sql FROM sqlite_schema")}
    return all(sql in made for _, _, sql in schema_parts())


def check_content(db: sqlite3.Connection) -> None:
    """:raises Damaged: SQLite finds a fault in the file."""
    fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise Damaged(f"{fault}.")


def check_version(db: sqlite3.Connection, path: str) -> int:
    """Return the version of a database's schema, 0 of a new file. :raises Problem: it
    is another program's, or that of a newer catalogd."""
    names = ("user_version", "application_id")
    version, identity = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    used = "SELECT 1 FROM sqlite_schema WHERE name NOT GLOB '_litestream*'"
    if identity == APPLICATION_ID and version > SCHEMA_VERSION:
        message = "was made by a newer catalogd. Update it, or restore an older copy."
        raise Problem(f"{path}: {message}")
    if identity != APPLICATION_ID and db.execute(used).fetchone():
        raise Problem(f"{path}: is a database of another program.")
    return version if identity == APPLICATION_ID else 0


def set_schema(db: sqlite3.Connection) -> None:
    """Make a database one of this version: a new one, or one that was upgraded."""
    adopt_schema(db)
    ids = [row["id"] for row in db.execute("SELECT id FROM entries ORDER BY rowid")]
    change_entries(db, dict.fromkeys(ids, {}))
    db.execute(ADD_SENT_CONTENTS)
    db.execute("INSERT OR IGNORE INTO counters VALUES ('list', 0), ('ages', 0)")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def upgrade(folder: str) -> None:
    """Copy the database, if it is of an earlier release, and upgrade it. Only a service
    may do so: an older one that still runs would no longer understand its database.

    :raises Conflict: another service runs.
    """
    path = database_path(folder)
    if not os.path.exists(path):
        return
    with connected(path) as db:
        version = check_version(db, path)
        if version == 0 or (version == SCHEMA_VERSION and has_schema(db)):
            return
        with exclusive(folder, "serve"):
            copy = os.path.join(folder, "backups", f"before-upgrade-{version}.db")
            make_place(copy)
            # The copy, and what SQLite writes before it changes the database.
            check_room(path, 2 * os.path.getsize(path) + MIN_START_BYTES)
            copy_database(path, copy)
            change_schema(db, version)
    log.info("Upgraded the database. A copy of the earlier one is %s.", copy)


def make_place(copy: str) -> None:
    """Make the folder of a copy, unless that is a link: its disk may be away. Remove
    what an upgrade left there that was killed. :raises Problem: that cannot be done."""
    folder = os.path.dirname(copy)
    try:
        if not os.path.islink(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        for part in glob.glob(f"{glob.escape(copy)}.*.part"):
            os.unlink(part)
    except OSError as error:
        raise Problem("not_written", copy, refusal(error)) from error


def change_schema(db: sqlite3.Connection, version: int) -> None:
    """Make a database of an earlier version one of this version."""
    db.execute("PRAGMA foreign_keys = OFF")  # to replace tables,
    db.execute("PRAGMA legacy_alter_table = ON")  # and only them
    db.create_function("menu_ending", 1, menu_ending)
    db.execute("BEGIN IMMEDIATE")
    for step in range(version, SCHEMA_VERSION):
        for statement in UPGRADES.get(step, ()):
            db.execute(statement)
    set_schema(db)
    db.execute("COMMIT")


def remake_table(db: sqlite3.Connection, name: str, sql: str) -> None:
    """Make a table anew, and move the columns to it that both have."""
    db.execute(f"ALTER TABLE {name} RENAME TO replaced")
    db.execute(sql)
    select = "SELECT name FROM pragma_table_xinfo(?)"
    old = {it["name"] for it in db.execute(select, ("replaced",))}
    new = [it["name"] for it in db.execute(f"{select} WHERE hidden = 0", (name,))]
    columns = ", ".join(column for column in new if column in old)
    order = "" if "WITHOUT ROWID" in sql else "ORDER BY rowid"
    db.execute(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM replaced {order}")
    db.execute("DROP TABLE replaced")  # with its indexes


# Store: problems and locks ---


@contextlib.contextmanager
def storage_problems() -> Iterator[None]:
    """Turn SQLite's errors of the disk and of other writers into a Problem. Its errors
    of our SQL pass: they are bugs."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            raise StorageFull("disk_full") from error
        if name.startswith("SQLITE_BUSY"):
            raise Busy("database_busy") from error
        if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
            raise NotFound("removed") from error
        if DISK_ERROR.match(name):
            is_damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
            kind = Damaged if is_damaged else StorageFailed
            raise kind("database_failed", error) from error
        raise


@contextlib.contextmanager
def exclusive(folder: str, work: str, wait: float = 0) -> Iterator[None]:
    """Let one process at a time do this work on a data folder. However the process
    ends, the next one may start.

    :raises Conflict: another one still does it after `wait` seconds.
    """
    path = os.path.join(folder, f"{work}.lock")
    with contextlib.ExitStack() as stack:
        try:
            with storage_problems():
                lock = sqlite3.connect(path, timeout=wait, isolation_level=None)
                stack.enter_context(contextlib.closing(lock))
                lock.execute("PRAGMA journal_mode = MEMORY")  # spares the disk
                lock.execute("BEGIN EXCLUSIVE")
        except Busy as problem:
            raise Conflict("other_process", folder, work) from problem
        yield


@contextlib.contextmanager
def named_problems(path: str) -> Iterator[None]:
    """Turn errors of SQLite into Problems that name the database, or a full disk. One
    that names another database passes."""
    try:
        with storage_problems():
            yield
    except (StorageFailed, StorageFull) as problem:
        if isinstance(problem.__context__, Problem):
            raise
        check_room(path, MIN_START_BYTES)
        raise type(problem)(f"{path}: {problem}") from problem


def check_room(path: str, wanted: int) -> None:
    """:raises StorageFull: the disk of a file has less free."""
    free = shutil.disk_usage(os.path.dirname(path)).free
    if free < wanted:
        raise StorageFull("no_room", path, f"{(wanted - free) / 1e6:.1f} MB")


def connect(path: str) -> sqlite3.Connection:
    """Open a database. Transactions begin where the code says so."""
    db = sqlite3.connect(path, timeout=MAX_WRITE_WAIT_SECONDS, check_same_thread=False)
    db.isolation_level = None
    db.row_factory = sqlite3.Row
    return db


@contextlib.contextmanager
def connected(path: str, name: str = "") -> Iterator[sqlite3.Connection]:
    """Open a database on its own, of whatever version. :raises Problem: it cannot be
    used, by its name, or else its path."""
    with named_problems(name or path), contextlib.closing(connect(path)) as db:
        yield db


def copy_database(path: str, copy: str) -> None:
    """Write a whole copy of a database, of whatever version, which may be in use, in
    place of an earlier copy.

    :raises Problem: another file is there, or it cannot be written: the copy is named.
    """
    part = f"{copy}.{new_id()}.part"
    try:
        if os.path.exists(copy) and not is_copy(copy, path):
            raise Problem(f"{copy}: is there already, and is not a backup.")
        pathlib.Path(part).touch(0o600, exist_ok=False)
        try:
            with connected(path) as db:
                check_content(db)
            with connected(path) as db, connected(part, copy) as target:
                db.backup(target)
            os.replace(part, copy)
        except BaseException:
            os.unlink(part)
            raise
    except StorageFull:  # what the part took is free again
        check_room(copy, os.path.getsize(path))
        raise
    except OSError as error:
        raise Problem("not_written", copy, refusal(error)) from error


def is_copy(copy: str, path: str) -> bool:
    """Return whether it is a database of ours other than the one in use. It is not
    opened by SQLite: to close the one in use would end SQLite's locks on it."""
    if os.path.samefile(copy, path):
        return False
    with open(copy, "rb") as file:
        head = file.read(72)  # see "The Database Header" on sqlite.org
    return head[68:] == APPLICATION_ID.to_bytes(4, "big")


class Clock:
    """The wall clock, which may be wrong. It is believed from the release's date on,
    but not in the first hour, nor in the hour after a jump of ten minutes: until then
    nothing is deleted by its age. Any thread may call."""

    max_jump_seconds = 600
    doubt_seconds = 3600

    def __init__(self, wall: Now = time.time, monotonic: Now = time.monotonic) -> None:
        self._wall, self.monotonic = wall, monotonic
        self._ahead = wall() - monotonic()
        self.doubted_at = monotonic()

    def __call__(self) -> float:
        wall, monotonic = self._wall(), self.monotonic()
        before, self._ahead = self._ahead, wall - monotonic
        if abs(self._ahead - before) >= self.max_jump_seconds:
            self.doubted_at = monotonic
        return wall

    def is_believed(self) -> bool:
        is_late = stamp(int(self())) >= RELEASED
        return is_late and self.monotonic() - self.doubted_at >= self.doubt_seconds


# Store: connections and transactions ---


class Database:
    """The SQLite file of one data folder. Any thread may call. Readers never wait for
    writers, which take turns. The order of locks is at the top of this file."""

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        """:raises Problem: the folder or its database cannot be used."""
        self.folder = folder
        self.path = database_path(folder)
        self.clock = clock or Clock()
        self.written = threading.Event()  # set by each transaction of this process
        self._mended_for = math.nan  # the clock's last doubt that was mended
        self._lock = threading.RLock()  # held by the thread that writes
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # it will hold passwords
                pathlib.Path(self.path).touch(0o600, exist_ok=False)
            with named_problems(self.path):
                self._writer = self._connect()
                self._writer.execute("PRAGMA synchronous = FULL")
                self._writer.execute("PRAGMA cache_size = -8000")  # KiB, first scan
                self._writer.execute("PRAGMA wal_autocheckpoint = 4000")  # pages
                self._prepare()
                self._observer = self._connect()
        except OSError as error:
            raise Problem(f"{self.folder}: cannot be used: {reason(error)}") from error

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
        self._idle.clear()

    def _connect(self) -> sqlite3.Connection:
        db = connect(self.path)
        self._all.append(db)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA cache_size = -500")  # KiB
        return db

    def _prepare(self) -> None:
        """Make the tables of a new file. :raises Problem: it is not of this version."""
        version = check_version(self._writer, self.path)
        if version == SCHEMA_VERSION:
            return
        if version:
            message = f"{self.path}: was made by an older catalogd."
            raise Problem(f"{message} Restart the service: it upgrades the database.")
        # SQLite itself does not wait there for a lock.
        with exclusive(self.folder, "upgrade", wait=60):
            self._writer.execute("PRAGMA journal_mode = WAL")
            with self.writing() as db:
                set_schema(db)

    def time(self, days_ago: float = 0) -> str:
        """Return a time as it is stored."""
        return stamp(int(self.clock() - days_ago * 86400))

    def expiry(self, days: float) -> str:
        """Return the time before which what lasts so many days has ended: nothing has
        while the clock is not believed, or times from before that wait to be mended.
        A block of `writing` does not call it."""
        is_believed, doubted_at = self.clock.is_believed(), self.clock.doubted_at
        if is_believed and self._mended_for != doubted_at:
            with contextlib.suppress(Problem):  # it is tried with the next call
                self._mend_times()
                self._mended_for = doubted_at
        is_sure = is_believed and self._mended_for == doubted_at
        return self.time(days) if is_sure else ""

    def _mend_times(self) -> None:
        """Let what was written without a clock be of now, before it ends by its age."""
        values = {"now": self.time(), "first": FIRST_DAY}
        with self.writing(0) as db:
            for table, column in db.execute(TIMES).fetchall():
                sql = f"UPDATE {table} SET {column} = :now WHERE {column} < :first"
                db.execute(sql, values)

    def data_version(self) -> int:
        """Return a number that changes with each transaction, also of other programs.
        SQLite tells it to a connection that does not write itself."""
        with storage_problems():
            return int(self._observer.execute("PRAGMA data_version").fetchone()[0])

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with storage_problems():
            try:
                db = self._idle.pop()
            except IndexError:
                db = self._connect()
            try:
                yield db
            finally:
                self._idle.append(db)

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        with self.reading() as db:
            return [dict(row) for row in db.execute(sql, values)]

    def row(self, sql: str, values: Values = ()) -> Row | None:
        """Return the first row, if there is any."""
        return next(iter(self.rows(sql, values)), None)

    def column(self, sql: str, values: Values = ()) -> list[Any]:
        """Return the first column of all rows."""
        with self.reading() as db:
            return [row[0] for row in db.execute(sql, values)]

    def value(self, sql: str, values: Values = ()) -> Any:
        """Return the first column of the first row, or None."""
        return next(iter(self.column(sql, values)), None)

    @contextlib.contextmanager
    def writing(self, wait: float | None = None) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction, which is on the disk when it has ended. In
        it, its thread begins no other one: SQLite would refuse that at once.

        :param wait: seconds to wait for other writers, in this process and in others;
            with None, MAX_WRITE_WAIT_SECONDS.
        :raises Busy: another one still writes then.
        """
        seconds = MAX_WRITE_WAIT_SECONDS if wait is None else wait
        with self._turn(seconds), storage_problems():
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
                self.written.set()
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextlib.contextmanager
    def _turn(self, wait: float) -> Iterator[None]:
        """Hold the lock, and leave SQLite the rest of the time to wait."""
        deadline = time.monotonic() + wait
        if not self._lock.acquire(timeout=wait):
            raise Busy("database_busy")
        try:
            left = max(deadline - time.monotonic(), 0)
            self._writer.execute(f"PRAGMA busy_timeout = {left * 1000:.0f}")
            yield
        finally:
            self._lock.release()

    def write(self, sql: str, values: Values) -> int:
        """Run one statement as a transaction, and return how many rows it changed."""
        with self.writing() as db:
            return db.execute(sql, values).rowcount

    def shrink(self) -> None:
        """Give back the memory, and the disk space in the WAL, of a large write."""
        with contextlib.suppress(Busy), self._turn(0.1), storage_problems():
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._writer.execute("PRAGMA shrink_memory")


# Store: backups ---


class Backups:
    """Copies of the database, one of each night."""

    def __init__(self, path: str, clock: Clock, settings: Settings) -> None:
        """:param path: of the database."""
        self.path, self.clock = path, clock
        self.count = settings.backup_copies
        self.own_folder = os.path.join(os.path.dirname(path), "backups")
        self.folder = settings.backup_folder or self.own_folder
        self.problem = ""  # why the last copy could not be made

    def make(self) -> None:
        """Make the copy of this night, if it is missing, and drop the oldest."""
        path = self._path()
        if not self.count or os.path.exists(path):
            return
        try:
            if self.folder == self.own_folder:  # no other: its disk may be away
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
            for part in pathlib.Path(self.folder).glob("catalogd-*.part*"):
                part.unlink()  # a crash left it
            copy_database(self.path, path)
            self.problem = ""
        except (OSError, Problem) as error:
            if self.problem != str(error):
                log.warning("No backup was made: %s", error)
            self.problem = str(error)
            return
        try:
            self.drop_old()
        except OSError as error:  # one is open; the next hour tries again
            log.warning("An old copy could not be dropped: %s", error)

    def drop_old(self) -> None:
        """Drop the oldest copies. Until the clock is believed, a few more stay: it may
        have made some of wrong nights. Some machines never run for that long."""
        spare = 0 if self.clock.is_believed() else SPARE_COPIES
        for old in self._paths()[: -self.count - spare]:
            old.unlink()

    def _path(self) -> str:
        """Return the path of the copy of this night, which begins at three o'clock."""
        night = time.localtime(self.clock() - 3 * 3600)
        return os.path.join(self.folder, time.strftime("catalogd-%Y-%m-%d.db", night))

    def _paths(self) -> list[pathlib.Path]:
        """Return the copies, the latest last. Those of the future, and of days before
        the release, were made by a wrong clock: they count as the oldest."""
        copies = pathlib.Path(self.folder).glob("catalogd-????-??-??.db")
        first, last = f"catalogd-{RELEASED}", os.path.basename(self._path())
        return sorted(copies, key=lambda path: (first <= path.name <= last, path))

    def last(self) -> ServedFile | None:
        """Return the latest copy as a file, if there is one."""
        for path in self._paths()[-1:]:
            now = path.stat()
            place = (str(path), self.folder, now.st_size, now.st_mtime_ns)
            return ServedFile("", *place, None)
        return None


def restore(folder: str, backup: IO[bytes]) -> tuple[str, int]:
    """Put a backup in the place of the database. Return the path of that one, or ""
    where there was none, and how many invitations have ended. :raises Problem: it is no
    backup, or the service runs."""
    path = database_path(folder)
    kept = f"{path}.{stamp(time.time()).replace(':', '')}.{new_id()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with (
        exclusive(folder, "serve"),
        exclusive(folder, "scan"),
        tempfile.TemporaryDirectory(dir=folder) as part,
    ):
        copy = database_path(part)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        check_room(path, size + backup.seek(0, os.SEEK_END))  # the old one is kept
        backup.seek(0)
        write_private(copy, backup)
        ended = check_backup(copy, backup.name)
        if is_there := os.path.exists(path):
            set_aside(path, kept)
        # What SQLite has beside a database that was moved away, or that it cannot read.
        for end in ("-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path + end, kept + end)
        os.replace(copy, path)
    return kept if is_there else "", ended


def check_backup(copy: str, name: str) -> int:
    """End the invitations in a backup, which may be of a version that had none, and
    return how many there were.
    :raises Problem: it is not a whole database of ours, or of a newer release."""
    message = f"{name}: is not a backup of catalogd, or is damaged."
    try:
        with connected(copy) as db:
            if not check_version(db, name):
                raise Problem(message)
            check_content(db)
            sql = "SELECT 1 FROM sqlite_schema WHERE name = 'invitations'"
            if db.execute(sql).fetchone():
                end_access(db, "restored")
            return db.total_changes
    except (Damaged, sqlite3.DatabaseError) as problem:
        raise Problem(message) from problem


def set_aside(path: str, kept: str) -> None:
    """Copy a database that no service uses. SQLite writes what its -wal has into it,
    and removes that: it must not lie beside another database.

    :raises Busy: another program uses it.
    """
    with contextlib.suppress(Damaged), connected(path) as db:
        for mode in ("DELETE", "WAL"):  # until somebody writes, WAL has no files
            db.execute(f"PRAGMA journal_mode = {mode}")
    with open(path, "rb") as old:
        write_private(kept, old)


# Store: accounts ---


class Uses:
    """Which keys and sessions were used, and what devices told of their targets. It is
    in memory until it is written, to spare an SD card. Any thread may call."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Count and time of the last, by the id of a key or a session.
        self.unwritten: dict[str, tuple[int, str]] = {}
        self.target_states: dict[str, str] = {}  # as devices told them, by key
        self._is_late = False  # others wrote when these should have been written
        self._lock = threading.Lock()  # of `unwritten`, also while it is written

    def rows(self, sql: str, values: Values) -> list[Row]:
        """Return the keys or sessions that a statement gives, with all their uses."""
        with self._lock:
            keys, uses = self._database.rows(sql, values), self.unwritten.copy()
        for key in keys:
            count, key["last_used_at"] = uses.get(key["id"], (0, key["last_used_at"]))
            if "requests" in key:
                key["requests"] += count
        return keys

    def count(self, credential: str, is_news: bool) -> None:
        """Count a use.

        :param is_news: write it at once: else a key or a session would end unused."""
        with self._lock:
            count, _ = self.unwritten.get(credential, (0, ""))
            self.unwritten[credential] = (count + 1, self._database.time())
        if is_news or self._is_late:
            self.write()

    def set_target_state(self, key: str, state: str) -> None:
        """Take what a client tells of its target. That the key is that of a device, and
        whether that is ready, is written at once."""
        before, is_ready = self.target_states.get(key), state.startswith("ready")
        self.target_states[key] = state
        if before is None or before.startswith("ready") != is_ready:
            self.write()

    def write(self, wait: float = 0) -> None:
        """Write all, unless another process writes for longer than `wait` seconds: then
        with the next use of any key."""
        # Until the clock is believed (?4), a time is not replaced by an earlier one.
        used = "last_used_at = iif(?4, ?2, max(coalesce(last_used_at, created_at), ?2))"
        of_key = f"UPDATE keys SET requests = requests + ?1, {used} WHERE id = ?3"
        of_session = f"UPDATE sessions SET {used} WHERE id = ?3"
        is_device = "UPDATE keys SET is_device = 1, target = ?1, list_counts ="
        is_device += " list_counts AND (target GLOB 'ready*' OR NOT ?1 GLOB 'ready*')"
        is_device += " WHERE id = ?2"
        is_sure = self._database.clock.is_believed()
        try:
            with self._lock:
                now, uses = self._database.time(), self.unwritten.items()
                rows = [
                    (count, at if at >= FIRST_DAY else now, key, is_sure)
                    for key, (count, at) in uses
                ]
                states = self.target_states.copy().items()
                with self._database.writing(wait) as db:
                    db.executemany(of_key, rows)
                    db.executemany(of_session, rows)
                    db.executemany(is_device, [(state, key) for key, state in states])
                self.unwritten.clear()
            self._is_late = False
        except Problem as problem:
            if not self._is_late and not isinstance(problem, Busy):
                log.warning("The uses of keys could not be written: %s", problem)
            self._is_late = True


class Accounts:
    """Accounts with their keys and sessions."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.uses = Uses(database)
        self.setup_code = new_setup_code()  # for the first account
        self._lent: dict[str, bytes] = {}  # digests by ids of devices, see lend_key

    def add(
        self,
        name: str,
        password: str,
        admin: bool = False,
        age: int | None = None,
        invitation: bytes | None = None,
    ) -> int:
        """Add an account, and return its id. The first one is an admin.

        :param password: its hash.
        :param age: from which on it sees titles; with None it sees every title.
        :param invitation: digest of the one that this uses.
        :raises Conflict: the name is taken, or it is an admin, who sees every title.
        """
        with self.database.writing() as db:
            use_invitation(db, invitation)
            if self.credentials(name):
                raise Conflict("account_name_taken", name)
            account = db.execute(
                "INSERT INTO accounts (name, password, admin, created_at, age) VALUES"
                " (?, ?, ? OR NOT EXISTS (SELECT 1 FROM accounts), ?, ?)"
                " RETURNING id, admin",
                (name, password, admin, self.database.time(), age),
            ).fetchone()
            if account["admin"] and age is not None:
                raise Conflict("admin_sees_all")
        return int(account["id"])

    def exist(self) -> bool:
        return bool(self.database.value("SELECT 1 FROM accounts"))

    def name_of(self, account: int) -> str:
        sql = "SELECT name FROM accounts WHERE id = ?"
        return str(self.database.value(sql, (account,)))

    def all(self) -> list[Row]:
        sql = "SELECT id, name, admin, age, created_at FROM accounts ORDER BY id"
        return [{**it, "admin": bool(it["admin"])} for it in self.database.rows(sql)]

    def credentials(self, name: str) -> tuple[int, str] | None:
        """Return id and password hash of an account, or None. SQLite ignores the case
        of ASCII letters only."""
        sql = "SELECT id, name, password FROM accounts ORDER BY name = ? DESC"
        for credential in self.database.rows(sql, (name,)):
            if credential["name"].casefold() == name.casefold():
                return credential["id"], credential["password"]
        return None

    def id_of(self, name: str) -> int:
        """:raises NotFound: there is no such account."""
        return existing(self.credentials(name), f"There is no account {name}.")[0]

    def change(
        self,
        account: int,
        changes: Row,
        keep: str = "",
        invitation: bytes | None = None,
    ) -> str:
        """Change an account's "password" (its hash), make it an "admin" or a member,
        and give it an "age", or with None none. What that ends see ENDS; what the
        account queued and no longer sees is cancelled. Return its name. Raises as
        `remove` does.

        :param keep: id of the session that goes on.
        :param invitation: digest of the one that this uses.
        :raises Conflict: also where an admin would get an age.
        """
        values = {"password": None, "admin": None, "age": None, **changes}
        values |= {"id": account, "has_age": "age" in changes}
        with self.database.writing() as db:
            use_invitation(db, invitation)
            sql = "UPDATE accounts SET password = coalesce(:password, password),"
            sql += " admin = coalesce(:admin, admin), age = iif(:has_age, :age, age)"
            row = self._change(db, f"{sql} WHERE id = :id", values)
            is_asked = {"admin", "age"} & changes.keys()
            if is_asked and row["admin"] and row["age"] is not None:
                raise Conflict("admin_sees_all")
            if values["password"] is not None:
                end_access(db, "password", account=account, keep=keep)
            if values["admin"] is not None:
                what = "made an admin" if values["admin"] else "no longer an admin"
                end_access(db, what, account=account)
            db.execute(CANCEL_UNSEEN, (self.database.time(),))
        return str(row["name"])

    def remove(self, account: int) -> str:
        """Remove it with its keys, sessions and queue, and return its name.

        :raises NotFound: there is no such account.
        :raises Conflict: the others would be without an admin.
        """
        with self.database.writing() as db:
            remove_keys(db, "account = ?", (account,))
            # What it sent to devices of others is on them: their owners keep that.
            sql = "UPDATE OR IGNORE sent SET account = keys.account FROM keys"
            sql += " WHERE keys.id = device AND is_device AND sent.account = ?"
            db.execute(sql, (account,))
            row = self._change(db, "DELETE FROM accounts WHERE id = ?", (account,))
        return str(row["name"])

    @staticmethod
    def _change(db: sqlite3.Connection, sql: str, values: Values) -> sqlite3.Row:
        row = db.execute(f"{sql} RETURNING *", values).fetchone()
        # NULL where no account is left
        if db.execute("SELECT max(admin) FROM accounts").fetchone()[0] == 0:
            raise Conflict("last_admin")
        return existing(row, "no_account")

    # Keys

    def add_key(self, account: int, label: str, digest: bytes, **more: Any) -> str:
        """Add a key, and return its id.

        :param more: other columns, such as is_device. With by_login it ends after
            UNUSED_DAYS without use, or after MAX_LOGINS later ones.
        :raises Conflict: another device has this name or address, or the account has
            MAX_KEYS.
        """
        key = {"id": new_id(), "account": account, "label": label, "digest": digest}
        key |= {"created_at": self.database.time(), **more}
        self.uses.write()  # by which the login's key is found that was unused longest
        with self.database.writing() as db:
            if "by_login" in more:
                others = "SELECT id FROM keys WHERE account = ? AND by_login"
                oldest = f"{others} ORDER BY unused_since DESC LIMIT -1 OFFSET ?"
                remove_keys(db, f"id IN ({oldest})", (account, MAX_LOGINS - 1))
            else:
                check_room_for_key(db, account)
            if "is_device" in more:
                check_others(db, label, more.get("address", ""))
            sql = f"INSERT INTO keys ({', '.join(key)}) VALUES (:{', :'.join(key)})"
            db.execute(sql, key)
        return str(key["id"])

    def keys(self, account: int | None = None) -> list[Row]:
        """Return the keys of one account or of all, with their uses, but not those of
        devices that this server serves, which nobody has."""
        keys = [key for key in self.all_keys(account) if not key.pop("address")]
        for key in keys:
            del key["age"], key["paused_by"]  # which devices tell
        return keys

    def all_keys(self, account: object = None, shared: bool = False) -> list[Row]:
        """Return the keys of one account, by its id or name, or of all.
        :param shared: also those of shared devices."""
        sql = "SELECT id, name AS account, label, created_at, last_used_at, requests,"
        sql += " is_device, shared, target, address, paused_by, age"
        sql += " FROM keys JOIN viewers ON viewers.account = keys.account"
        sql += " WHERE ?1 IS NULL OR ?1 IN (keys.account, name) OR ?2 AND shared"
        sql += " ORDER BY created_at, id"
        keys, states = self.uses.rows(sql, (account, shared)), self.uses.target_states
        for key in keys:
            is_device = bool(key["is_device"]) or key["id"] in states
            key.update(is_device=is_device, shared=bool(key["shared"]))
            key["target"] = states.get(key["id"], key["target"])
            key |= coded(key["target"])
        return keys

    def lend_key(self, device: str) -> str:
        """Return a new key for the client of a device that this server serves. It
        replaces the one before, and is in memory alone."""
        key = new_key()
        self._lent[device] = hash_token(key)
        return key

    def revoke_key(
        self, key: str, account: int | None = None, is_device: bool = False
    ) -> str:
        """Remove it, and return its label. The items that it sends are pending again,
        without an address.

        :param is_device: whether it must be that of a device.
        :raises NotFound: the account, or with None nobody, has such a key.
        """
        which = "id = ? AND account = coalesce(?, account) AND is_device >= ?"
        with self.database.writing() as db:
            for label in remove_keys(db, which, (key, account, is_device)):
                return label
        raise NotFound("unknown_device" if is_device else "no_key", key)

    def _holder(self, table: str, digest: bytes) -> Caller | None:
        """Return who has the key or session with this digest, and count a use of it."""
        last_day = self.database.time(UNUSED_DAYS - 1)
        lent = {digest: device for device, digest in self._lent.copy().items()}
        holder = self.database.row(
            f"SELECT account, name, admin, age, {table}.id AS credential,"
            f" unused_since < ? AS is_news FROM {table} JOIN viewers USING (account)"
            f" WHERE (digest = ? OR {table}.id = ?) AND unused_since >= ?",
            (last_day, digest, lent.get(digest), self.database.expiry(UNUSED_DAYS)),
        )
        if holder:
            self.uses.count(holder["credential"], holder.pop("is_news"))
        return caller(holder)

    key_holder = functools.partialmethod(_holder, "keys")
    session_holder = functools.partialmethod(_holder, "sessions")

    def write_uses(self) -> None:
        """Write the uses of keys and sessions: the service calls it once an hour. Those
        of its own clients alone are not worth a write."""
        if self.uses.unwritten.keys() - self._lent.keys():
            self.uses.write()

    # Sessions

    def add_session(self, account: int, digest: bytes, browser: str) -> None:
        session = (new_id(), account, digest, browser, self.database.time())
        self.uses.write()  # by which the one is found that was unused longest
        oldest = "SELECT id FROM sessions WHERE account = ? ORDER BY unused_since DESC"
        oldest = f"DELETE FROM sessions WHERE id IN ({oldest} LIMIT -1 OFFSET ?)"
        with self.database.writing() as db:
            db.execute(oldest, (account, MAX_SESSIONS - 1))
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, NULL)", session)

    def session_password(self, session: str) -> str | None:
        """Return the password's hash of the account that a session is of, if it goes
        on."""
        sql = "SELECT password FROM sessions JOIN accounts ON accounts.id = account"
        sql += " WHERE sessions.id = ? AND unused_since >= ?"
        return self.database.value(sql, (session, self.database.expiry(UNUSED_DAYS)))

    def sessions(self, account: int) -> list[Row]:
        """Return where the account is signed in, the newest first."""
        sql = "SELECT id, browser, created_at, unused_since AS last_used_at FROM"
        sql += " sessions WHERE account = ? AND unused_since >= ?"
        sql += " ORDER BY created_at DESC, id"
        return self.uses.rows(sql, (account, self.database.expiry(UNUSED_DAYS)))

    def sign_out(self, account: int, ends: Row) -> None:
        """End all sessions of an account, its links and, by the fields of SIGN_OUT, its
        keys, those of its devices, and its console addresses."""
        values = {**dict.fromkeys(SIGN_OUT, False), **ends}
        with self.database.writing() as db:
            end_access(db, "signed out", account=account, **values)

    def end_session(self, session: str, account: int) -> None:
        sql = "DELETE FROM sessions WHERE id = ? AND account = ?"
        self.database.write(sql, (session, account))


class Invitations:
    """The links by which somebody makes an account or sets the password of one: each
    is good once, for a day."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(
        self, digest: bytes, maker: int, account: int | None, admin: bool, age: Any
    ) -> str:
        """Add one for a new account, or for the password of one, in place of an earlier
        one for that. Return its id.

        :raises Conflict: it is for an admin of an age.
        """
        if admin and age is not None:
            raise Conflict("admin_sees_all")
        row = (new_id(), digest, maker, account, admin, age, self.database.time())
        with self.database.writing() as db:
            db.execute("DELETE FROM invitations WHERE account = ?", (account,))
            db.execute("INSERT INTO invitations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return row[0]

    def open(self, digest: bytes | None = None) -> list[Row]:
        """Return those that are good now, or the one with this digest, with the names
        of their makers and accounts. One from the future, which a wrong clock has made,
        ends a day after its time at the latest."""
        after, before = map(self.database.time, (INVITATION_DAYS, -INVITATION_DAYS))
        rows = self.database.rows(
            "SELECT invitations.id, makers.name AS maker, account,"
            " accounts.name AS name, invitations.admin, invitations.age,"
            " invitations.created_at FROM invitations"
            " JOIN accounts AS makers ON makers.id = maker"
            " LEFT JOIN accounts ON accounts.id = account"
            " WHERE invitations.created_at BETWEEN :after AND :before"
            " AND digest = coalesce(:digest, digest) ORDER BY invitations.rowid",
            {"after": after, "before": before, "digest": digest},
        )
        return [{**row, "admin": bool(row["admin"])} for row in rows]

    def remove(self, invitation: str) -> None:
        self.database.write("DELETE FROM invitations WHERE id = ?", (invitation,))


# Store: entries ---


class Entries:
    """Entries with their checksums, and what scans change in them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.folders = LibraryFolders(database)
        self.icons, self.menus = Icons(self), MenuParts(database)

    def list_version(self, age: int = EVERYTHING) -> int:
        """Return a number that goes up with every change of the list, also of the ages
        of titles if it is the list of an account with an age."""
        sql = "SELECT sum(value) FROM counters WHERE name = 'list' OR ? < ?"
        return int(self.database.value(sql, (age, EVERYTHING)))

    @contextlib.contextmanager
    def changing(self, listed: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction that changes the list."""
        with self.database.writing() as db:
            yield db
            if listed:
                db.execute(COUNT, ("list",))
            db.execute(CANCEL_UNSEEN, (self.database.time(),))

    def list_json(
        self, age: int, for_page: bool = False, around: bytes = b"[%b]"
    ) -> bytes:
        """Return the entries that can be downloaded now, by name, as a JSON array, or
        with other text around. SQLite makes all of it, while other threads go on: they
        wait only for Python to copy it, which it does twice.

        :param for_page: in the page's form, with entries of disks that are offline.
        """
        entry, page = ("entry_json", "= 'here'"), ("page_json", "!= 'gone'")
        form, states = page if for_page else entry
        sql = f"""
            SELECT CAST(group_concat({form}) AS BLOB) FROM (
                SELECT {form} FROM answers WHERE state {states} AND {SEEN}
                ORDER BY sort_name, id
            )
        """
        return around % (self.database.value(sql, {"age": age}) or b"")

    def get(self, entry: str, age: int, credential: str = "") -> dict[str, Any]:
        """Return the Entry of the interface, also a hidden one that is to be sent to
        the device with this key.

        :raises NotFound: there is none that can be downloaded now.
        """
        sql = f"""
            SELECT entry_json FROM answers WHERE id = :entry AND state = 'here' AND
            ({SEEN} OR id IN (SELECT entry FROM queue WHERE device = :key AND is_open))
        """
        text = self.database.value(sql, {"entry": entry, "age": age, "key": credential})
        return json.loads(existing(text, "no_entry"))

    def details(self, entry: str, age: int) -> dict[str, Row]:
        """Return the "entry" of the interface with its state, and what the "file" tells
        of what an admin may change.

        :raises NotFound: there is none, or its file is gone.
        """
        sql = "SELECT entries.*, entry_json FROM entries JOIN answers USING (id)"
        sql += f" WHERE id = :id AND entries.state != 'gone' AND {SEEN}"
        found = self.database.row(sql, {"id": entry, "age": age})
        columns = existing(found, "no_entry")
        columns["facts"] = json.loads(columns["facts"])
        facts = columns["facts"] | part_facts(columns["file_type"], columns["facts"])
        facts["name"] = derived({**columns, "overrides": {}})["name"]
        told = {n: facts[n] for n in ENTRY_CHANGES if facts.get(n) is not None}
        answer = {**json.loads(columns["entry_json"]), "state": columns["state"]}
        return {"entry": answer, "file": told}

    def tidy(self) -> list[Row]:
        """Return the files that waste space or will not work, each with a reason and,
        where it is equal to another file, the id of the entry to keep ("of")."""
        return self.database.rows("""
            WITH files AS (
                SELECT *, first_value(id) OVER equal AS kept,
                first_value(checksum) OVER equal AS kept_checksum,
                first_value(nullif(inode, 0)) OVER equal AS kept_inode,
                first_value(volume) OVER equal AS kept_volume, (
                    SELECT name FROM held JOIN entries AS base ON base.id = entry
                    WHERE held.title = parts.title AND held.kind = 'base'
                    AND held.state != 'gone'
                ) AS base
                FROM parts WHERE type = 'filepath' AND state = 'here' WINDOW equal AS
                (PARTITION BY sample ORDER BY surplus NOT NULL, created_at, source)
            ), found AS (
                SELECT *, CASE WHEN fault NOT NULL THEN fault
                WHEN facts ->> 'complete' = 0 THEN 'incomplete'
                WHEN id != kept AND coalesce(checksum = kept_checksum, 1)
                -- Another name of the same file has no bytes of its own.
                AND (inode, volume) IS NOT (kept_inode, kept_volume) THEN 'equal'
                WHEN surplus = 'superseded' THEN surplus
                WHEN kind IN ('update', 'add-on') AND base IS NULL THEN 'no base'
                END AS reason FROM files
            )
            SELECT reason, id, name, source AS path, size, base AS title,
            facts ->> 'format' AS format, facts ->> 'missing' AS missing,
            iif(reason = 'equal', kept, NULL) AS of FROM found
            WHERE reason NOT NULL ORDER BY reason, sort_name, id
        """)

    def on_console(
        self, age: int, entry: str | None = None, name: str = ""
    ) -> list[Row]:
        """Return what a console address has, by file name: all that is seen from this
        age on, or this entry, hidden or not; or what of these has this file name."""
        sql = f"SELECT id, type, source, file_type, size, {FILE_NAME} AS file_name"
        sql += " FROM parts WHERE +state = 'here' AND "
        sql += "id = :entry" if entry else SEEN
        sql += " AND (file_key = :key OR id = :marked)" if name else ""
        key, ids = name.casefold(), re.findall(r"\(([0-9a-f]{16})\)", name)
        values = {"age": age, "entry": entry, "key": key, "marked": "".join(ids[-1:])}
        rows = self.database.rows(f"{sql} ORDER BY file_key, serial", values)
        return [row for row in rows if key in ("", row["file_name"].casefold())]

    def marked(self, entries: Sequence[str], age: int) -> set[str]:
        """Return those of these entries whose ids are in the names of their files."""
        sql = "SELECT id FROM parts WHERE id IN (SELECT value FROM json_each(:ids))"
        sql += f" AND {IS_MARKED}"
        values = {"ids": [*entries], "age": age}
        return {*self.database.column(sql, values)} if entries else set()

    def count(self, age: int) -> int:
        """Return how many can be downloaded now."""
        sql = f"SELECT count(*) FROM parts WHERE state = 'here' AND {SEEN}"
        return int(self.database.value(sql, {"age": age}))

    def edit(self, entry: str, overrides: Mapping[str, str] | None = None) -> Row:
        """Put name, description or version over the file facts; with None, remove all
        that was put over them. Return what was over them before.

        :raises NotFound: there is no such entry.
        """
        with self.changing() as db:
            row = existing(next(iter(read_entries(db, [entry])), None), "no_entry")
            old: Row = row["overrides"]
            row["overrides"] = {} if overrides is None else {**old, **overrides}
            write_entries(db, [row], "" if overrides is None else NAMED_BY_ADMIN)
        return old

    def ages(self) -> dict[str, int]:
        """Return the ages that admins gave, by title."""
        ages = self.database.rows(
            "SELECT DISTINCT title, age FROM ages CROSS JOIN entries USING (subject)"
            " WHERE title = ages.subject OR sample = ages.subject"
        )
        return {it["title"]: it["age"] for it in ages}

    def former_ages(self) -> dict[str, Row]:
        """Return of undecided titles from which `age` on they were seen before, and
        whether a file of them was `replaced` by another content since."""
        titles = self.database.rows(
            "SELECT title, min(age) AS age, max(replaced) AS replaced FROM ("
            " SELECT title, age, state, entries.subject,"
            " length(former) > 16 AND former IS NOT sample AS replaced"  # no id
            " FROM entries INDEXED BY entries_former JOIN ages ON ages.subject = former"
            " WHERE former NOT NULL"
            " UNION ALL SELECT contents.title, age, state, contents.title, 0"
            " FROM contents JOIN entries ON id = entry JOIN ages USING (subject)"
            ") WHERE age < ? AND state != 'gone'"
            " AND subject NOT IN (SELECT subject FROM ages) GROUP BY title",
            (max(TITLE_AGES),),
        )
        return {
            title["title"]: {"age": title["age"], "replaced": bool(title["replaced"])}
            for title in titles
        }

    def known_titles(self, titles: Sequence[str], age: int) -> list[str]:
        """Return those of these titles of which an account of this age sees a part."""
        sql = "SELECT value FROM json_each(:titles) WHERE EXISTS (SELECT 1 FROM held"
        sql += " JOIN parts ON parts.id = entry WHERE held.title = value"
        sql += f" AND held.state != 'gone' AND {SEEN})"
        return self.database.column(sql, {"titles": [*titles], "age": age})

    def seen_titles(self, age: int) -> set[str]:
        """Return the ids and the names of the titles that an account of this age sees,
        in small letters."""
        sql = f"SELECT title, name FROM parts WHERE state != 'gone' AND {SEEN}"
        titles = self.database.rows(sql, {"age": age})
        return {str(text).lower() for title in titles for text in title.values()}

    def set_ages(self, titles: Sequence[str], age: int | None) -> None:
        """Let accounts of this age on see these titles, or with None nobody who has an
        age. What such accounts queued and no longer see is cancelled."""
        sql = "SELECT coalesce((SELECT subject FROM entries WHERE (id, title)"
        sql += " = (value, value)), value) AS subject FROM json_each(?)"
        with self.changing(listed=False) as db:
            subjects = [subject for (subject,) in db.execute(sql, ([*titles],))]
            for subject in subjects:
                db.execute("DELETE FROM ages WHERE subject = ?", (subject,))
                if age is not None:
                    db.execute("INSERT INTO ages VALUES (?, ?)", (subject, age))
            tell_apart(db, ages_changed(db, subjects))

    # Files

    def files(self, folders: Sequence[str] | None = None) -> Iterator[KnownFile]:
        """Yield what is known of all files, also of those that are gone or offline.

        :param folders: yield only files below these.
        """
        sql = "SELECT * FROM known_files"
        if folders is not None:
            sql = "SELECT file.* FROM json_each(:ends) AS top JOIN known_files AS file"
            sql += " ON file.path > top.key AND file.path < top.value"
        tops = [os.path.join(folder, "") for folder in folders or ()]
        ends = {top: f"{top[:-1]}{chr(ord(os.sep) + 1)}" for top in tops}
        with self.database.reading() as db:
            yield from map(known_file, db.execute(sql, {"ends": ends}))

    def known(self, which: str, *values: Any) -> list[KnownFile]:
        """Return the files that meet a condition, the oldest first."""
        sql = f"SELECT * FROM known_files WHERE {which} ORDER BY serial"
        return [*map(known_file, self.database.rows(sql, values))]

    def equal(self, samples: Iterable[str | None]) -> list[KnownFile]:
        """Return the entries of these contents, wherever they are, the oldest first."""
        return self.known(f"sample IN {LISTED}", [*samples])

    def outdated(self) -> list[KnownFile]:
        """Return the files here whose facts an older program read."""
        return self.known("state = 'here' AND facts_version < ?", FACTS_VERSION)

    def add_files(
        self, files: Iterable[tuple[FoundFile, FileContent]], listed: bool
    ) -> None:
        """Make entries of new files.

        :param listed: whether they are in the list at once, or after later changes.
        """
        now, scanned = self.database.time(), self.folders.scanned()
        new = {"type": "filepath", "created_by": SCANNER, "created_at": now}
        entries = []
        for file, content in files:
            time = stamp(file.mtime / 1e9)
            is_first = file.folder not in scanned and time < now
            own = {"id": new_id(), "file_time": time if is_first else None}
            entries.append({**own, **new, **file_columns(file, content)})
        with self.changing(listed) as db:
            write_entries(db, entries)

    def apply(self, changes: Changes) -> None:
        """Write what became of the files that are known, all of it or nothing."""
        found = changes.updated
        read = {item.id: file_columns(file, new) for item, file, new in found if new}
        states = [(item, file, "here") for item, file, new in found if not new]
        took = [(item.id, twin.id) for item, twin in changes.merged]
        ended = [*changes.forgotten, *(twin for _, twin in changes.merged)]
        # What has been touched meanwhile stays, and waits for its next file.
        states += [(item, item.file, "gone") for item in (*changes.gone, *ended)]
        states += [(item, item.file, "offline") for item in changes.offline]
        states += [(item, item.file, "excluded") for item in changes.excluded]
        anew = [item.id for item, _, new in found if new and new.sample != item.sample]
        with self.changing() as db:
            db.executemany("UPDATE OR IGNORE queue SET entry = ? WHERE entry = ?", took)
            sql = f"SELECT id FROM known_files WHERE id IN {LISTED} AND NOT is_touched"
            ids = [item.id for item in ended]
            db.execute(f"DELETE FROM entries WHERE id IN ({sql})", (ids,))
            change_entries(db, read)
            set_states(db, states, self.database.time())
            # What was sent was another content.
            sql = f"DELETE FROM sent WHERE entry IN {LISTED} AND contents = '[]'"
            db.execute(sql, (anew,))

    def give_up(self, volume: str) -> None:
        """Wait no more for the files of a volume: they are gone as of now. Those that
        are missing, as if on one, are not told any more."""
        files = self.known("volume = ? AND state IN ('gone', 'offline')", volume)
        gone = [file._replace(file=file.file._replace(volume="")) for file in files]
        self.apply(Changes(gone=gone))

    def served_files(self, entries: Sequence[str] = ()) -> list[ServedFile]:
        """Return the files of these entries, or all that are here.

        :raises NotFound: there is no such file.
        """
        these = "WHERE id IN (SELECT value FROM json_each(:ids))" if entries else ""
        sql = f"SELECT * FROM served_files {these} ORDER BY path"
        files = self.database.rows(sql, {"ids": [*entries]})
        for entry in {*entries}.difference(file["id"] for file in files):
            raise NotFound(f"There is no file with the id {entry}.")
        return [ServedFile(**file) for file in files]

    def served_file(self, entry: str) -> ServedFile:
        """Return the file of one entry. :raises NotFound: there is none here."""
        return self.served_files([entry])[0]

    def set_checksum(self, file: ServedFile) -> None:
        sql = "UPDATE entries SET (sha256, sha256_size, sha256_mtime)"
        sql += " = (:sha256, :size, :mtime) WHERE id = :id"
        with self.changing() as db:
            db.execute(sql, file._asdict())

    def damaged(self, limit: int = 100) -> list[Row]:
        """Return id and name of files that verify found to be damaged."""
        sql = "SELECT id, name FROM entries WHERE fault = 'damaged' AND state != 'gone'"
        return self.database.rows(f"{sql} ORDER BY id LIMIT ?", (limit,))

    def set_fault(self, entry: str, fault: str | None) -> None:
        """Keep what verify found wrong with a file, until it is read again."""
        sql = "UPDATE entries SET fault = ? WHERE id = ? AND fault IS NOT ?"
        self.database.write(sql, (fault, entry, fault))

    # Links

    def add_link(self, url: str, size: int, type: str, facts: Row, by: str) -> str:
        """Make a url entry in the name of the account `by`, and return its id.

        :param type: its file_type.
        """
        entry = new_id()
        link: Row = {"id": entry, "type": "url", "source": url, "file_type": type}
        link |= {"size": size, "facts": facts, "facts_version": FACTS_VERSION}
        link |= {"created_by": by, "created_at": self.database.time(), "state": "here"}
        with self.changing() as db:
            write_entries(db, [link])
        return entry

    def remove_link(self, entry: str) -> None:
        """:raises NotFound: there is no url entry with this id."""
        with self.changing() as db:
            sql = "DELETE FROM entries WHERE id = ? AND type = 'url'"
            link = db.execute(f"{sql} RETURNING plain_name", (entry,)).fetchone()
            tell_apart(db, [existing(link, "no_link", entry)["plain_name"]])


class LibraryFolders:
    """What is known of library folders, and of the file systems that their files are
    on."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def file_counts(self) -> dict[str, int]:
        """Return how many files are here, by library folder; also 0 for one whose files
        are all offline."""
        sql = "SELECT folder, count(*) FILTER (WHERE state = 'here') AS files FROM"
        sql += " entries WHERE folder NOT NULL AND state != 'gone' GROUP BY folder"
        return {it["folder"]: it["files"] for it in self.database.rows(sql)}

    def scanned(self) -> set[str]:
        """Return the library folders that were read whole."""
        return {*self.database.column("SELECT folder FROM scanned")}

    def set_scanned(self, folders: Iterable[str]) -> None:
        for folder in {*folders} - self.scanned():
            self.database.write("INSERT OR IGNORE INTO scanned VALUES (?)", (folder,))

    def has_missing_entries(self) -> bool:
        """Return whether there are entries without a file, which may find one."""
        missing = "SELECT 1 FROM entries WHERE state IN ('gone', 'offline')"
        return bool(self.database.value(f"SELECT EXISTS ({missing})"))

    def offline_disks(self) -> list[Row]:
        """Return of each file system that is offline, the last one first: since when
        how many entries wait for it, its id, the name of one, a library folder, the
        first and last of their paths, and whether others on it are here. Also what is
        LOST."""
        return self.database.rows(
            "SELECT min(coalesce(gone_at, created_at)) AS since, count(*) AS entries,"
            " volume AS id, min(name) AS name, min(folder) AS folder, min(source) AS"
            " first, max(source) AS last, volume IN (SELECT volume FROM entries"
            " WHERE state = 'here') AS has_others FROM entries WHERE state = 'offline'"
            f" OR state = 'gone' AND gone_at NOT NULL AND volume GLOB '{LOST}*'"
            " GROUP BY volume ORDER BY since DESC"
        )


def menu_ending(image: bytes) -> str:
    """Return "jpeg" or "png", "" for an image that a console's menu cannot show."""
    ending = image_type(image).removeprefix("image/")
    is_shown = ending != "webp" and is_picture(image, MAX_MENU_SIDE)
    return ending if is_shown else ""


class Icons:
    """The icons of entries: images beside their files, of their titles, or in them."""

    def __init__(self, entries: Entries) -> None:
        self.entries, self.database = entries, entries.database

    def of(self, entry: str, age: int, digest: str | None = None) -> bytes:
        """Return an image: that of the digest, if the entry has it, or what comes
        first. :raises NotFound: there is none of this entry."""
        sql = "SELECT image FROM icons JOIN parts ON digest = coalesce(:digest, icon)"
        sql += " AND digest IN (icon, facts ->> 'icon') WHERE id = :id"
        values = {"id": entry, "age": age, "digest": digest}
        image: bytes | None = self.database.value(f"{sql} AND {SEEN}", values)
        return existing(image, "The entry has no icon.")

    def add(self, icons: Mapping[str, bytes]) -> None:
        """Add them by their digests; those that are there already stay."""
        rows = [(digest, menu_ending(icon), icon) for digest, icon in icons.items()]
        with self.database.writing() as db:
            db.executemany("INSERT OR IGNORE INTO icons VALUES (?, ?, ?)", rows)

    def drop(self, listed: bool) -> None:
        """Drop those that no entry and no title has.

        :param listed: whether the list has changed by its icons.
        """
        with self.entries.changing(listed) as db:
            db.execute("""
                DELETE FROM icons WHERE digest NOT IN (
                    SELECT cover FROM entries WHERE cover NOT NULL
                    UNION ALL SELECT facts ->> 'icon' FROM entries
                    WHERE facts ->> 'icon' NOT NULL
                    UNION ALL SELECT cover FROM title_images
                )
            """)

    def of_titles(self) -> dict[str, TitleImage]:
        """Return the images that have a title id in their names, by path."""
        images = self.database.rows("SELECT * FROM title_images")
        return {image["path"]: TitleImage(**image) for image in images}

    def set_of_titles(self, images: Iterable[TitleImage]) -> None:
        with self.database.writing() as db:
            db.execute("DELETE FROM title_images")
            db.executemany("INSERT INTO title_images VALUES (?, ?, ?, ?, ?)", images)

    def unread(self, covers: set[str]) -> list[FoundFile | TitleImage]:
        """Return the files here, and the images of titles that are here, that have one
        of these covers, without those whose cover was read."""
        which = f"+state = 'here' AND cover IN {LISTED}"
        which += " AND cover NOT IN (SELECT digest FROM icons)"
        files = [item.file for item in self.entries.known(which, [*covers])]
        sql = "SELECT * FROM title_images WHERE cover NOT IN (SELECT digest FROM icons)"
        sql += " AND title IN (SELECT title FROM entries WHERE state = 'here')"
        images = [TitleImage(**image) for image in self.database.rows(sql)]
        return files + [image for image in images if image.cover in covers]


class MenuParts:
    """What the menus of programs on a console are told, as MENU_PARTS has it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def of_titles(self, age: int, titles: Sequence[str]) -> list[Row]:
        """Return the parts of titles as MENU_PARTS has them: by name, copies last, and
        after them what is first of all a part of another title."""
        these = "(SELECT value FROM json_each(:titles))"
        of = f"titleId IN {these} AND type = 'filepath' AND (title IN {these} OR"
        of += f" id IN (SELECT entry FROM contents WHERE contents.title IN {these}))"
        sql = f"SELECT found.*, {ICON_PATH} AS icon_path"
        sql += f" FROM ({MENU_PARTS} AND {of} AND appId NOT NULL) AS found {MENU_ICONS}"
        values = {"age": age, "titles": [*titles]}
        return self.database.rows(f"{sql} ORDER BY is_guest, {MENU_ORDER}", values)

    def section_json(self, age: int, prefix: str, has_links: bool, mark: str) -> bytes:
        """Return what MENU_SECTION has, as a JSON array.
        :param mark: what is put around each name in an address."""
        values = {"age": age, "prefix": prefix, "has_links": has_links, "mark": mark}
        return b"[%b]" % (self.database.value(MENU_SECTION, values) or b"")

    def page(
        self, age: int, order: str, values: Mapping[str, Any]
    ) -> tuple[int, list[list[str]]]:
        """Return how many parts a menu's list has, and title and id of each of a page.
        :param values: those of MENU_PAGE."""
        row = self.database.row(MENU_PAGE.format(order), {"age": age, **values}) or {}
        return row["total"], json.loads(row["ids"])

    def titles_with(self, add_on: str, age: int) -> list[str]:
        """Return the titles that have an add-on with this id."""
        sql = f"SELECT DISTINCT titleId FROM ({APPS}) AS parts WHERE {SEEN}"
        sql += " AND appKind = 'add-on' AND ownId = :id ->> '$'"
        return self.database.column(sql, {"age": age, "id": json.dumps(add_on)})


# Store: devices ---


class Devices:
    """The keys of clients that fetch queues, each with the console behind it."""

    def __init__(self, accounts: Accounts, clients: "Clients") -> None:
        self.accounts, self.clients = accounts, clients
        self.database = accounts.database

    def all(self, name: str = "", admin: bool = True) -> list[Row]:
        """Return the devices of the account with this name and those that are shared;
        for an admin, all. A state is "new", "away", "idle" or "sending"."""
        busy = dict.fromkeys(self.clients.running().values(), "sending")
        idle_since = self.database.time(CLIENT_SECONDS / 86400)
        keys = self.accounts.all_keys(None if admin else name, shared=True)
        devices = [key for key in keys if key.pop("is_device")]
        for device in devices:
            address = device.pop("address")
            device["by_server"] = bool(address)
            if admin and address:
                device["address"] = address
            device["name"], last = device.pop("label"), device.pop("last_used_at")
            device["last_call"], device["is_own"] = last, device["account"] == name
            is_near = device["by_server"] or (last or "") >= idle_since
            state = "idle" if is_near else "away"
            device["state"] = busy.get(device["id"], state if last else "new")
        return devices

    def by_server(self) -> list[Row]:
        """Return the devices that this server serves, with all that it needs for it."""
        sql = "SELECT id, account, label AS name, address, user, password FROM keys"
        return self.database.rows(f"{sql} WHERE address != '' ORDER BY created_at, id")

    def check_new(self, account: int, name: str) -> None:
        """:raises Conflict: a device has this name, or the account has MAX_KEYS."""
        with self.database.reading() as db:
            check_others(db, name)
            check_room_for_key(db, account)

    def add(self, account: int, device: Row) -> str:
        """Add a device that this server serves, and return its id. Its key has a random
        digest, which is that of no key.

        :param device: name and target, perhaps shared, user and password.
        :raises Conflict: the name is taken.
        """
        more = {name: device[name] for name in device.keys() & {"shared", *CONSOLE}}
        more |= {"is_device": True, "address": more.pop("target")}
        digest = secrets.token_bytes(32)
        return self.accounts.add_key(account, device["name"], digest, **more)

    def change(
        self, device: str, changes: Row, account: int | None = None, by: str = ""
    ) -> str:
        """Change a device of the account, or with None of any: "name", "shared", the
        "account" that it belongs to, whether it is "paused" and, of one that this
        server serves, "target", "user" and "password". A new target has neither user
        nor password unless they are given too. What others queued for one that is not
        shared, or that moves, waits without it. Return its name.

        :param by: the name of the account that pauses it, "" for a command.
        :raises NotFound: there is no such device, or no account that is to have it.
        :raises Conflict: the name is taken, or a client serves the device: it has the
            address, and a key that another account must not get.
        """
        values = {name: changes.get(name) for name in DEVICE_CHANGES} | {"by": by}
        with self.database.writing() as db:
            name, target = changes.get("name", ""), changes.get("target", "")
            check_others(db, name, target, device)
            moves = check_owner(db, device, changes)
            row = db.execute(
                "UPDATE keys SET label = coalesce(:name, label),"
                " shared = coalesce(:shared, shared),"
                " user = coalesce(:user, iif(:target != address, '', user)), password ="
                " coalesce(:password, iif(:target != address, '', password)),"
                " listed_at = iif(:target != address, NULL, listed_at), list_counts ="
                " iif(:target != address, 0, list_counts),"
                " address = coalesce(:target, address), paused_by ="
                " CASE :paused WHEN 0 THEN NULL WHEN 1 THEN :by ELSE paused_by END,"
                " account = coalesce(:account, account) WHERE id = :id AND is_device"
                " AND account = coalesce(:owner, account)"
                " RETURNING account, label, shared",
                {**values, "id": device, "owner": account},
            ).fetchone()
            if moves or not existing(row, "unknown_device", device)["shared"]:
                free_items(db, device, keep=row["account"])
            if changes.get("shared"):
                adopt_items(db, device)
            db.execute(CANCEL_UNSEEN, (self.database.time(),))
        return str(row["label"])

    def move(self, account: int, item: str, device: str | None, admin: bool) -> None:
        """Let an item wait for this device, or for any client of its account.

        :raises NotFound: no such item, or device that its account may send to.
        :raises Conflict: it does not wait, or the entry waits there already.
        """
        with self.clients.changing(account, admin, item) as (db, row):
            check_device(db, row["sender"], device)
            if row["status"] != "pending":
                raise Conflict("item_is_busy" if row["is_open"] else "item_has_ended")
            update_item(db, item, {**NEW_ITEM, "device": device, "freed_from": None})
            check_open(db, account, item)

    def move_freed(self, account: int, device: str | None) -> None:
        """Let what lost its device wait for this one, unless its entry does so already.
        :raises NotFound: the account may send to no such device."""
        freed = "account = ? AND freed_from IS NOT NULL AND is_open"
        sql = f"UPDATE OR IGNORE queue SET device = ?, freed_from = NULL WHERE {freed}"
        with self.database.writing() as db:
            check_device(db, account, device)
            db.execute(sql, (device, account))
            db.execute(f"DELETE FROM queue WHERE {freed}", (account,))
            db.execute(CANCEL_UNSEEN, (self.database.time(),))


# Store: reports of clients ---


class Progress:
    """What clients last reported on the items that they send. It is news, not state: in
    memory alone, so that no report waits for the disk. See also write_figures. Any
    thread may call."""

    def __init__(self, stale_after: float, clock: Clock) -> None:
        """:param stale_after: seconds of silence that make an item pending again."""
        self._stale_after, self._clock = stale_after, clock
        self._reports: dict[str, Row] = {}  # figures and times, by item
        self.count = 0  # of reports since the start

    def note(self, item: str, report: Mapping[str, Any]) -> None:
        """Take a report. What it does not mention stays. The speed is that since an
        earlier one: clients differ in what they call so."""
        figures = {FIGURES[name]: report[name] for name in FIGURES.keys() & report}
        now = {"reported": self._clock(), "heard": self._clock.monotonic()}
        known = {**self._reports.get(item, {}), **figures, **now}
        if "bytes" in figures:
            since, before = known.setdefault("mark", (known["heard"], known["bytes"]))
            seconds = known["heard"] - since
            if seconds >= MIN_SPEED_SECONDS:
                known["speed"] = max(round((known["bytes"] - before) / seconds), 0)
                known["mark"] = (known["heard"], known["bytes"])
        self._reports[item] = known
        self.count += 1

    def drop(self, item: str) -> None:
        """Forget an item that no client sends any more."""
        self._reports.pop(item, None)

    def silent(self) -> set[str]:
        """Return the items that no client has reported on for a while."""
        since, reports = self._clock.monotonic() - self._stale_after, self._reports
        return {item for item, it in reports.copy().items() if it["heard"] < since}

    def times(self) -> dict[str, str]:
        """Return when each item was reported on last."""
        reports = self._reports.copy()
        return {item: stamp(report["reported"]) for item, report in reports.items()}

    def figures(self, item: str) -> Row:
        """Return what is known of percent, bytes and speed of an item."""
        report = self._reports.get(item, {})
        return {name: report[name] for name in report.keys() & NO_FIGURES}

    def current(self, given: Iterable[Row]) -> list[Row]:
        """Return items as they are now: those that clients send with their figures, and
        pending again where a client is silent."""
        silent, items = self.silent(), [{**it} for it in given]
        for item in items:
            status = QUEUE_STATUSES[item["status"]]
            if status.is_running:
                item.update(self.figures(item["id"]))
            if item["id"] in silent:
                item["status"] = status.next.get("stale", item["status"])
        return items


class Clients:
    """What clients do with queue items: they take them, and report on them."""

    def __init__(self, database: Database, stale_after: float) -> None:
        """:param stale_after: see Progress."""
        self.database = database
        self.progress = Progress(stale_after, database.clock)
        for item in self.running():
            self.progress.note(item, {})  # as if it was reported just now

    def running(self) -> dict[str, str | None]:
        """Return the items that clients send now, each with its client's key."""
        sql = "SELECT id, status, key FROM queue INDEXED BY queue_running"
        sql += " WHERE is_open AND status != 'pending'"
        items = self.progress.current(self.database.rows(sql))
        return {it["id"]: it["key"] for it in items if it["status"] != "pending"}

    def pending(
        self, account: int, client: str | None = None, key: str | None = None
    ) -> list[Row]:
        """Return the items that a client may take now, in their order: those of
        its account, and those for the device that its key is. A paused device begins
        none, and what lost its device waits until somebody chooses another. A client
        that names itself also gets those that it began to send with the same key: that
        it asks means that it lost them in a crash."""
        # "+state" and "+place": a few open items are read, not all of the library.
        items = self.database.rows(
            "SELECT * FROM items WHERE is_open AND +state = 'here'"
            " AND coalesce(device, sender) IN (:account, :key)"
            " AND freed_from IS NULL AND ((SELECT paused_by FROM keys WHERE id = :key)"
            " IS NULL OR status = 'processing' AND items.key = :key)"
            f" AND (device = :key OR {SEEN_BY}) ORDER BY +place",
            {"account": account, "key": key},
        )
        for item in items:
            if client == item["client"] is not None and item["key"] in (None, key):
                item["status"] = "pending"
        items = self.progress.current(items)
        return [item for item in items if item["status"] == "pending"]

    def gone(self, items: Sequence[str], key: str | None) -> list[str]:
        """Return which of these items have ended, or are not for a client with the key:
        it removes what its target has of them."""
        sql = "SELECT value FROM json_each(:items) WHERE NOT EXISTS (SELECT 1 FROM"
        sql += " queue WHERE id = value AND is_open AND coalesce(device, :key) IS :key)"
        return self.database.column(sql, {"items": [*items], "key": key})

    def take_list(
        self, device: str, parts: Row, goes_on: bool = False, is_last: bool = True
    ) -> None:
        """Take what the console of a device has, in place of what it had. Until the
        last of several calls it is not known.

        :param parts: title and number of the version, by title id.
        """
        listed = [(device, title, id, number) for id, (title, number) in parts.items()]
        now = self.database.time() if is_last else None
        with self.database.writing() as db:
            # A console that lists is ready, also where that is not written yet.
            sql = "UPDATE keys SET listed_at = ?, list_counts = ?, target ="
            sql += " iif(target GLOB 'ready*', target, 'ready') WHERE id = ?"
            db.execute(sql, (now, is_last, device))
            if not goes_on:
                db.execute("DELETE FROM on_console WHERE device = ?", (device,))
            sql = "INSERT OR REPLACE INTO on_console SELECT ?1, ?2, ?3, ?4"
            sql += " WHERE EXISTS (SELECT 1 FROM held WHERE title = ?2)"
            db.executemany(sql, listed)

    def report(self, account: int, item: str, report: Row) -> str:
        """Take a client's report, and return the item's status after it. The first key
        that reports on an item owns it until it ends or is stale.

        A report that does not change the status waits neither for the disk nor for
        other writers.

        :param report: the fields of PROGRESS, and as `key` the id of the client's key.
        :raises NotFound: neither the account nor a device of it has such an item.
        :raises Conflict: the item's status does not allow it, or another key owns it,
            or another client, which names itself as this one does, sends it.
        """
        with self.database.reading() as db:
            row, status = self._checked(db, account, item, report)
        is_news = status != row["status"] or {"release", "error_code"} & report.keys()
        if is_news or status == "cancelled":
            with self.database.writing() as db:
                return str(self.take(db, account, item, report)["status"])
        if QUEUE_STATUSES[status].is_running:
            self.progress.note(item, report)
        return status

    def _checked(
        self, db: sqlite3.Connection, account: int, item: str, report: Row
    ) -> tuple[Row, str]:
        """Return the item of a report, and its status after it, unless `report`
        refuses that."""
        [row] = self._items_of(db, CLIENT_ITEM, [item], account=account)
        if is_attempt(report):
            row = count_attempt(row, report)
        paused = "SELECT paused_by FROM keys WHERE id = ?"
        for key in db.execute(paused, (report.get("key"),)):
            report = {**report, **key}
        return row, next_status(row, report)

    def take(self, db: sqlite3.Connection, account: int, item: str, report: Row) -> Row:
        """Write what `report` takes, and return the item after it."""
        row, status = self._checked(db, account, item, report)
        self.progress.note(item, report)
        columns = self._columns(row, status, report)
        update_item(db, item, columns)
        if not QUEUE_STATUSES[status].is_running:
            self.progress.drop(item)
        if status == "completed":
            db.execute(
                f"INSERT OR REPLACE INTO sent SELECT id, ?, version, {SENT_CONTENTS},"
                " coalesce((SELECT id FROM keys WHERE keys.id = ? AND is_device), ''),"
                " ? FROM parts WHERE id = ?",
                (row["sender"], report.get("key"), columns["ended_at"], row["entry"]),
            )
            unlisted = "UPDATE keys SET list_counts = 0 WHERE id = ?"
            db.execute(unlisted, (report.get("key"),))
        return {**row, **columns}

    def _columns(self, item: Row, status: str, report: Row) -> Row:
        """Return what a report that is noted already changes of an item."""
        if status == "cancelled":  # its client has stopped, and tells what it leaves
            return {name: report.get(field, 0) for field, name in FIGURES.items()}
        to, figures = QUEUE_STATUSES[status], self.progress.figures(item["id"])
        columns = {**NEW_ITEM, **{name: item[name] for name in NO_ATTEMPTS}}
        columns["status"] = status
        if item["is_open"]:
            del columns["action"]
        if to.is_open:  # what the target has of the file may stay there
            known = {**item, **figures}
            columns |= {name: known[name] for name in FIGURES.values()}
        if to.is_open and item["is_open"]:  # why it is tried again
            columns |= {name: item[name] for name in NO_ERROR}
        if to.is_running or not to.is_open:
            columns |= {"key": report.get("key"), "client": report.get("client")}
        if not to.is_open:
            columns |= {**figures, "ended_at": self.database.time()}
        if status == "failed" or "error_code" in report:
            columns |= {
                "error": report.get("error_message", ""),
                "error_code": report.get("error_code", ""),
                "error_arguments": ENCODER.encode(report.get("error_arguments", {})),
            }
        return columns

    def attempts(self, item: str) -> int:
        """Return how many attempts at an item have failed without getting further."""
        sql = "SELECT attempts FROM queue WHERE id = ?"
        return int(self.database.value(sql, (item,)) or 0)

    def write_figures(self) -> None:
        """Write how far the items are that clients send, for the next start."""
        silent, changed = self.progress.silent(), []
        sql = "SELECT id, percent, bytes FROM queue WHERE is_open"
        for item in self.database.rows(sql):
            silent.discard(item["id"])
            now = {**item, **self.progress.figures(item["id"])}
            if not item.items() <= now.items():
                changed.append(now)
        for ended in silent:
            self.progress.drop(ended)
        sql = "UPDATE queue SET percent = :percent, bytes = :bytes"
        if changed:
            with self.database.writing() as db:
                db.executemany(f"{sql} WHERE id = :id AND is_open", changed)

    def _items_of(
        self, db: sqlite3.Connection, which: str, items: Sequence[str], **who: Any
    ) -> list[Row]:
        """Return items as they are now.

        :param who: the "account" that they are of, and whether it is an "admin".
        :raises NotFound: one does not meet the condition, or is not its own.
        """
        sql = "SELECT * FROM all_items WHERE id IN (SELECT value FROM json_each(:ids))"
        values = {"ids": [*items], "admin": False, **who}
        found = db.execute(f"{sql} AND {OWN_ITEM} AND {which}", values).fetchall()
        existing(found if len(found) == len({*items}) else None, "no_item")
        return self.progress.current(found)

    @contextlib.contextmanager
    def changing(
        self, account: int, admin: bool, *items: str
    ) -> Iterator[tuple[Any, ...]]:
        """Run the block as one transaction, with items of the account as they are now,
        if it sees them. :raises NotFound: it has no such item."""
        which = f"{SEEN_ITEM} AND cleared_at IS NULL"
        with self.database.writing() as db:
            yield db, *self._items_of(db, which, items, account=account, admin=admin)


# Store: queue ---


@functools.cache
def unsent(state: str) -> Row:
    """Return why an entry in this state cannot be sent."""
    code = {"offline": "disk_away", "empty": "file_empty"}.get(state, "no_entry")
    return {"message": say(code), "reason": code}


class Queue:
    """What people do with queue items: they send entries, see how far they are, and
    order, retry, cancel and clear them."""

    def __init__(self, clients: Clients) -> None:
        self.clients, self.progress = clients, clients.progress
        self.database = clients.database
        self._undone = Recent[bool](MAX_UNDONE)

    def send(self, account: int, entry: str, device: str | None = None) -> bool:
        """Queue an entry; return False where it is pending or processing already.

        :raises NotFound: there is no such device, or entry that can be downloaded now.
        :raises Conflict: its file is empty.
        """
        done = self.send_all(account, [entry], device)
        for failure in done["failed"]:
            is_listed = failure["reason"] == "file_empty"
            raise (Conflict if is_listed else NotFound)(failure["reason"])
        return bool(done["added"])

    def send_all(
        self,
        account: int,
        entries: Sequence[str],
        device: str | None,
        anyway: bool = True,
    ) -> Row:
        """Queue entries, those of a title one after the other: base, updates, add-ons.

        Return the ids that were "added" and, in the same order, those that are pending
        or processing "already"; what "failed", each as entry_id, message, reason; and
        an id for `undo`.

        :param device: whose key alone may send them; with None, any of the account's.
        :param anyway: without, those that its console has listed are left out.
        :raises NotFound: there is no device with this id that it may send to.
        :raises Conflict: it would have more than MAX_OPEN open items, or none is left.
        """
        action = f"send-{new_id()}"
        with self.database.writing() as db:
            values = {"entries": [*entries], "account": account}
            values |= {"device": device, "anyway": anyway}
            values["owner_age"] = check_device(db, account, device)
            states = dict(db.execute(TITLE_ORDER, values).fetchall())
            here = [entry for entry in states if states[entry] == "here"]
            missing = [e for e in entries if states.get(e) not in ("here", "there")]
            if entries and not here and not missing:
                sql = "SELECT label FROM keys WHERE id = ?"
                raise Conflict("all_on_console", *db.execute(sql, (device,)).fetchone())
            done = db.execute(
                "INSERT INTO queue (id, account, device, created_at, entry, action,"
                " place) SELECT lower(hex(randomblob(8))), ?1, ?2, ?3, value, ?5,"
                " (SELECT coalesce(max(place), 0) FROM queue) + key + 1"
                " FROM json_each(?4) WHERE true"
                " ON CONFLICT DO NOTHING RETURNING entry",
                (account, device, self.database.time(), here, action),
            )
            added = {item["entry"] for item in done.fetchall()}
            bound_items(db, account)
        return {
            "undo": action,
            "added": [entry for entry in here if entry in added],
            "already": [entry for entry in here if entry not in added],
            "failed": [
                {"entry_id": id, **unsent(states.get(id, ""))} for id in missing
            ],
        }

    def items(self, account: int, finished: int = MAX_FINISHED) -> list[Row]:
        """Return the account's items, and what others have waiting for, sent by, or
        failed on a shared device: those that are open, of which those that a client may
        take, and those whose disk is away, are pending, and the `finished` newest of
        those that have ended."""
        # "+place": to sort a few open items is cheaper than to walk all by their place.
        items = self.database.rows(
            "SELECT id, entry, title, name, size, state, status, percent, bytes, speed,"
            " error, error_code, error_arguments, created_at, ended_at, device, key,"
            " freed_from, account, sender = :account AS is_own"
            f" FROM items WHERE id IN (SELECT id {SHOWN_ITEMS} AND is_open"
            f" UNION ALL SELECT * FROM (SELECT id {SHOWN_ITEMS} AND NOT is_open"
            " ORDER BY ended_at DESC, place DESC LIMIT :finished)) ORDER BY +place",
            {"account": account, "finished": finished},
        )
        own = self.progress.current(items)
        for item in own:
            code, of = item.pop("error_code"), json.loads(item.pop("error_arguments"))
            item.update(is_own=bool(item["is_own"]))
            item.update(coded(reported(code, of)))
            if item["state"] == "offline" and item["ended_at"] is None:
                item["status"] = "pending"
        return own

    def counts(self, account: int) -> dict[str, int]:
        """Return how many of its own items the account sees, by status."""
        counts = self.database.rows(
            "SELECT iif(is_open AND (state = 'offline' OR id IN (SELECT value FROM"
            " json_each(:silent))), 'pending', status) AS now, count(*) AS count"
            f" FROM items WHERE sender = :account AND {SEEN_ITEM} GROUP BY now",
            {"account": account, "silent": [*self.progress.silent()]},
        )
        return {count["now"]: count["count"] for count in counts}

    def version(self) -> str:
        """Return a text that changes when an item does, when a client reports on one,
        or when its silence makes one pending again."""
        silent = len(self.progress.silent())
        return f"{self.database.data_version():x}-{self.progress.count:x}-{silent:x}"

    def count_finished(self, account: int) -> int:
        """Return how many items that have ended the account may see."""
        sql = f"SELECT count(*) {SHOWN_ITEMS} AND NOT is_open"
        return int(self.database.value(sql, {"account": account}))

    def sent(self, account: int) -> list[Row]:
        """Return what the account has sent, and anybody to a device that it is told
        of: entry, version, contents, device, the sender's name and time. Then what the
        consoles of these have listed last, each in one row that `is_listed`, of no
        entry and of nobody: of titles that the account sees."""
        parts = self.database.rows(
            "SELECT entry, sent.version, contents, nullif(device, '') AS device,"
            " accounts.name AS account, sent_at FROM sent"
            " JOIN accounts ON accounts.id = account"
            f" JOIN parts ON parts.id = entry WHERE {SEEN_BY}"
            " AND (account = :account OR device IN"
            f" (SELECT id FROM keys WHERE is_device AND {IS_TOLD}))"
            " ORDER BY sent_at, entry, sent.version",
            {"account": account},
        )
        parts += self.database.rows(
            "SELECT '' AS entry, '' AS version, 1 AS is_listed, id AS device,"
            " '' AS account, listed_at AS sent_at, ("
            "SELECT json_group_array(json_array(title_id, number)) FROM on_console"
            " WHERE device = keys.id AND EXISTS (SELECT 1 FROM held"
            " JOIN parts ON parts.id = entry WHERE held.title = on_console.title"
            f" AND {SEEN_BY})) AS contents"
            f" FROM keys WHERE listed_at NOT NULL AND {IS_TOLD} ORDER BY id",
            {"account": account},
        )
        return [{**part, "contents": json.loads(part["contents"])} for part in parts]

    def sent_version(self) -> str:
        """Return a text that changes when anything was sent, listed or forgotten."""
        # SQLite may give the number of the last row again, when that was dropped.
        last = "SELECT rowid || entry || '-' || account || device || sent_at FROM sent"
        last += " ORDER BY rowid DESC LIMIT 1"
        listed = "SELECT group_concat(id || listed_at) FROM keys"
        sql = f"SELECT count(*) || '-' || coalesce(({last}), '')"
        sql += f" || coalesce(({listed}), '') FROM sent"
        return str(self.database.value(sql))

    # An admin may also do these with items for shared devices.

    def retry(
        self, account: int, item: str, admin: bool = False, way: str = "retry"
    ) -> None:
        """Make an item that ended pending again, with its old place.

        :param way: "replace" lets it replace another file on the target from now on.
        :raises NotFound: the account has no such item.
        :raises Conflict: it has not ended, or its entry is queued again already.
        """
        with self.clients.changing(account, admin, item) as (db, facts):
            if "retry" not in QUEUE_STATUSES[facts["status"]].next:
                raise Conflict("item_is_open")
            replaces = facts["replaces"] or way == "replace"
            update_item(db, item, {**retried(db, facts), "replaces": replaces})
            check_open(db, account, item)

    def cancel(self, account: int, *items: str, admin: bool = False) -> str:
        """Cancel those that have not ended, and return an id for `undo`.

        :raises NotFound: no such item. :raises Conflict: all have ended.
        """
        ended = {"status": "cancelled", "ended_at": self.database.time()}
        ended["action"] = f"cancel-{new_id()}"
        with self.clients.changing(account, admin, *items) as (db, *chosen):
            chosen = [item for item in chosen if QUEUE_STATUSES[item["status"]].is_open]
            if not chosen:
                raise Conflict("item_has_ended")
            for item in chosen:
                figures = self.progress.figures(item["id"])
                update_item(db, item["id"], {**ended, **figures})
        return ended["action"]

    def retry_failed(self, account: int) -> None:
        """Make the failed items pending again whose entries are not queued again."""
        sql = "SELECT * FROM items WHERE sender = ? AND status = 'failed'"
        sql += f" AND {MAY_BE_OPEN}"
        with self.database.writing() as db:
            for item in map(dict, db.execute(sql, (account,)).fetchall()):
                with contextlib.suppress(Conflict):
                    update_item(db, item["id"], retried(db, item))

    def cancel_waiting(self, account: int, freed: bool = False) -> str:
        """Cancel the items that no client sends, or only those that are `freed` from
        their devices, and return an id for `undo`."""
        sql = "status = 'cancelled', ended_at = :now WHERE account = :account"
        sql += " AND is_open AND (freed_from IS NOT NULL OR NOT :freed) AND"
        sql += " (status = 'pending' OR id IN (SELECT value FROM json_each(:silent)))"
        silent = [*self.progress.silent()]
        return self._act("cancel", account, sql, freed=freed, silent=silent)

    def move(
        self, account: int, items: Sequence[str], to: str | None, admin: bool = False
    ) -> None:
        """Put items, in this order, into the place of another one: before it, or after
        it where they come from before it; with None before all others.

        :raises NotFound: the account has no such item.
        """
        place = "SELECT coalesce((SELECT place + (place > ?) FROM queue WHERE id = ?),"
        place += " min(place), 0) FROM queue"
        with self.clients.changing(account, admin, *items) as (db, *moved):
            first = min([item["place"] for item in moved], default=0)
            start = db.execute(place, (first, to)).fetchone()[0]
            sql = "UPDATE queue SET place = place + ? WHERE place >= ?"
            db.execute(sql, (len(items), start))
            sql = "UPDATE queue SET place = ? + given.key FROM json_each(?) AS given"
            sql += " WHERE queue.id = given.value"
            db.execute(sql, (start, [*items]))

    def clear(self, account: int, before: str, items: Sequence[str]) -> str:
        """Hide the items that ended before this time, and these, and return an id for
        `undo`. They are dropped after CLEARED_DAYS."""
        sql = "cleared_at = :now WHERE account = :account AND NOT is_open AND"
        sql += " cleared_at IS NULL AND"
        sql += " (ended_at < :before OR id IN (SELECT value FROM json_each(:items)))"
        return self._act("clear", account, sql, before=before, items=[*items])

    def _act(self, what: str, account: int, sql: str, **more: Any) -> str:
        """Change items of an account by this SQL, and return an id for `undo`."""
        action = f"{what}-{new_id()}"
        values = {"action": action, "account": account, "now": self.database.time()}
        self.database.write(f"UPDATE queue SET {ACTED}, {sql}", {**values, **more})
        return action

    def undo(self, account: int, action: str, admin: bool = False) -> None:
        """Undo what returned this id, which nobody else knows: drop what it has sent,
        or cancel it where a client has it; put back into its place what it has
        cancelled; show what it has cleared. What was undone stays so.

        :raises Conflict: some of it was changed since then, and stays as it is, or is
            not the account's any more.
        """
        values: Row = {"action": action, "account": account, "admin": admin}
        values |= {"now": self.database.time()}
        items = "SELECT 1 FROM all_items WHERE"
        others = f"{items} instr(action, :action) AND NOT {OWN_ITEM}"
        with self.database.writing() as db:
            if action in self._undone:
                return
            undoes = () if db.execute(others, values).fetchone() else UNDO_ACTION
            count = sum(db.execute(sql, values).rowcount for sql in undoes)
            is_left = db.execute(f"{items} {IS_LEFT}", values).fetchone()
        if is_left or not count:
            raise Conflict("changed_since")
        self._undone[action] = True


# Store: console addresses ---


class ConsoleAddresses:
    """The addresses for programs on a console, which have no key."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.database = clients.database

    def browse_token(self, account: int) -> str | None:
        """Return the token of the account's address for all files, if it has one."""
        sql = "SELECT token FROM addresses WHERE account = ? AND item IS NULL"
        return self.database.value(sql, (account,))

    def set_browse_token(self, account: int, token: str | None = None) -> None:
        """Replace that token; with None the account has none after it."""
        with self.database.writing() as db:
            sql = "DELETE FROM addresses WHERE account = ? AND item IS NULL"
            db.execute(sql, (account,))
            if token is not None:
                db.execute(ADD_ADDRESS, (hash_token(token), account, None, token))

    def offer(
        self, account: int, tokens: Mapping[str, str], report: Row
    ) -> dict[str, str]:
        """Take a report that items are offered, make an address for each, and return
        their entries by item, without those that the client cannot have."""
        entries, offered = {}, {**report, "offered": True}
        with self.database.writing() as db:
            for item, token in tokens.items():
                with contextlib.suppress(NotFound, Conflict):
                    row = self.clients.take(db, account, item, offered)
                    db.execute(ADD_ADDRESS, (hash_token(token), account, item, None))
                    entries[item] = row["entry"]
        return entries

    def items(self, key: str, client: str | None) -> list[str]:
        """Return the items with an address that a client has, silent or not."""
        sql = "SELECT item FROM addresses JOIN queue ON queue.id = item WHERE is_open"
        sql += " AND status != 'pending' AND queue.key = ? AND client IS ?"
        return self.database.column(sql, (key, client))

    def check_begin(self, item: str) -> None:
        """:raises NotFound: the item is only offered, and its device is paused."""
        sql = "SELECT 1 FROM items WHERE id = ? AND status = 'offered' AND paused_by"
        if self.database.rows(f"{sql} IS NOT NULL", (item,)):
            raise NotFound("device_paused")

    def address_holder(self, digest: bytes) -> Caller | None:
        """Return who may browse with the token that has this digest, and what.

        :raises NotFound: no client sends the item any more.
        """
        holder = self.database.row(
            "SELECT viewers.*, '' AS credential, item, entry FROM addresses"
            " JOIN viewers ON viewers.account = addresses.account"
            " LEFT JOIN queue ON queue.id = item WHERE digest = ?",
            (digest,),
        )
        if holder and holder["item"] and holder["item"] not in self.clients.running():
            raise NotFound("The item is not being sent.")
        return caller(holder)


# Store: uploads ---


class Uploads:
    """The files that are being added to the inbox, until they are whole."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def begin(self, *file: Any) -> str:
        """Return the id of the upload of this file, which may be a new one.
        :param file: account, name, size and time of the last change"""
        sql = "INSERT OR IGNORE INTO uploads VALUES (?, ?, ?, ?, ?)"
        self.database.write(sql, (new_id(), *file))
        sql = "SELECT id FROM uploads WHERE (account, name, size, modified) ="
        return str(self.database.value(f"{sql} (?, ?, ?, ?)", file))

    def all(self) -> list[Row]:
        return self.database.rows("SELECT * FROM uploads")

    def get(self, account: int | None, upload: str) -> Row:
        """:raises NotFound: the account, or with None nobody, has such an upload."""
        sql = "SELECT * FROM uploads WHERE account = coalesce(?, account) AND id = ?"
        return existing(self.database.row(sql, (account, upload)), "no_upload")

    def remove(self, upload: str) -> None:
        self.database.write("DELETE FROM uploads WHERE id = ?", (upload,))


# Store: the whole ---


class Store:
    """The database of one data folder, and what is kept in it."""

    def __init__(
        self, folder: str, stale_after: float = 300, clock: Clock | None = None
    ) -> None:
        """
        :param stale_after: seconds without a report that make an item pending again.
        :raises Problem: the folder or its database cannot be used.
        """
        self.database = Database(folder, clock)
        self.accounts = Accounts(self.database)
        self.invitations = Invitations(self.database)
        self.entries = Entries(self.database)
        self.clients = Clients(self.database, stale_after)
        self.queue = Queue(self.clients)
        self.devices = Devices(self.accounts, self.clients)
        self.addresses = ConsoleAddresses(self.clients)

    def news(self, since: float, hour: float = 1 / 24) -> list[Row]:
        """Return the items of all accounts that were completed or have failed `since`
        so many days ago, or have waited for an hour since then, in order of `time`."""
        ago = self.database.time
        times = {"since": ago(since), "from": ago(since + hour), "until": ago(hour)}
        return self.database.rows(
            "SELECT id, name, account, error,"
            " iif(is_open, 'waiting', status) AS status, coalesce(ended_at,"
            " (SELECT value FROM json_each(:reported) WHERE key = items.id),"
            " created_at) AS time FROM items"
            " WHERE status IN ('completed', 'failed') AND time >= :since OR"
            " is_open AND state = 'here' AND paused_by IS NULL"
            " AND time BETWEEN :from AND :until ORDER BY time, place",
            {**times, "reported": self.clients.progress.times()},
        )

    def drop_old(self) -> None:
        """Drop sessions, invitations and keys that have ended by themselves, and the
        items that ended long ago or before many others of their account, if the clock
        is right."""
        days = (UNUSED_DAYS, INVITATION_DAYS, FINISHED_DAYS, CLEARED_DAYS)
        unused, invited, ended, cleared = map(self.database.expiry, days)
        with self.database.writing() as db:
            since = (unused,)
            db.execute("DELETE FROM sessions WHERE unused_since < ?", since)
            db.execute("DELETE FROM invitations WHERE created_at < ?", (invited,))
            remove_keys(db, "unused_since < ?", since)
            db.execute(
                "DELETE FROM queue WHERE ended_at < ? OR cleared_at < ?"
                " OR id IN (SELECT id FROM ("
                "SELECT id, row_number() OVER (PARTITION BY account"
                " ORDER BY ended_at DESC, place DESC) AS number"
                " FROM queue WHERE NOT is_open) WHERE number > ?)",
                (ended, cleared, MAX_FINISHED),
            )

    def close(self) -> None:
        if self.accounts.uses.unwritten:
            self.accounts.uses.write(MAX_CLOSE_WAIT_SECONDS)
        self.database.close()


# Disk -------------------------------------------------------------------------
# What is in the folders (`walk`), the file systems below them, their files and events.
# It may use all that is above but the database, and no thread.

SAMPLE_BYTES = 64 * 1024  # at both ends of a file
HOLLOW_BYTES = 2**20  # zeros at its end, where a copy has its whole size at once
JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT
UDEV_RECORDS = "/run/udev/data"  # a file for each device, which all may read
SURE_IDS = ("uuid:", "fsid:")  # begin names of volumes that only clones share
UNIDENTIFIED = "mount:"  # begins names of volumes that others may have too
COVERS = (".jpg", ".jpeg", ".png", ".webp")  # the first that is there counts
TITLE_IMAGE = re.compile(r"(?:^|\[)([0-9a-f]{13}000)(?:\]|\.\w+$)")  # in lower case
FOLDER_COVERS = ("cover", "folder", "poster")  # images for a title's whole folder
MAX_COVER_BYTES = 2 * 1024 * 1024
MAX_MISSING_PARTS = 99  # that are looked for behind one
DISK_ERRORS = {errno.EIO, errno.ENODEV, errno.ENOTCONN, getattr(errno, "ESTALE", 0)}


# Disk: what is passed over ---

Item = os.DirEntry[str]  # of a folder
ARCHIVES = (".7z", ".rar", ".tar", ".zip")  # which may have games in them
METADATA = "._"  # begins names of what macOS keeps of the file beside it


class PassedOver(NamedTuple):
    """Why a file or folder in a library folder is not listed."""

    kind: str  # the code of a sentence that counts them: "passed_link"
    pattern: str = ""  # that excludes it


def escaped(path: str) -> str:
    """Return a path as text, also one with bytes that are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def comparable(path: str) -> str:
    return normalized(path).lower().replace(os.sep, "/")


class Exclusion:
    """The patterns of `[library] exclude`, by fnmatch: one with a slash is for paths
    from the library folder, another one for names."""

    def __init__(self, patterns: Sequence[str], folders: Sequence[str]) -> None:
        self.folders = folders
        self._patterns = []
        for pattern in patterns:
            own = comparable(pattern)
            whole = own.strip("/")
            # Names have brackets: a pattern also stands for itself.
            fits = re.compile(f"{fnmatch.translate(whole)}|{re.escape(whole)}")
            self._patterns.append((pattern, "/" in own, fits.fullmatch))

    def pattern(self, path: str) -> str:
        """Return the pattern that a path, or a folder above it, fits, "" for none."""
        if not self._patterns:  # as for most: a walk asks this of each file
            return ""
        folder = next((top for top in self.folders if is_below(path, top)), path)
        parts = comparable(path[len(folder) :]).strip("/").split("/")
        for number, name in enumerate(filter(None, parts), 1):
            for pattern, is_path, fits in self._patterns:
                if fits("/".join(parts[:number]) if is_path else name):
                    return pattern
        return ""


NO_EXCLUSION = Exclusion((), ())


# Disk: walk ---


@dataclasses.dataclass
class Tree:
    """What is in a library folder, or below some of the folders in it."""

    library_folder: str
    tops: Sequence[str]  # the folders that were read with all that is below them
    files: list[FoundFile] = dataclasses.field(default_factory=list)
    # Names of volumes, by the paths of the folders where they begin, and by device.
    volumes: dict[str, str] = dataclasses.field(default_factory=dict)
    devices: dict[int, str] = dataclasses.field(default_factory=dict)
    unreadable: set[str] = dataclasses.field(default_factory=set)  # paths
    # By path, which is told: bytes that are no UTF-8 are escaped in it.
    passed_over: dict[str, PassedOver] = dataclasses.field(default_factory=dict)
    covers: dict[str, str] = dataclasses.field(default_factory=dict)  # paths by digest
    title_images: list[TitleImage] = dataclasses.field(default_factory=list)
    tick: Callable[[int], None] = lambda count: None
    endings: tuple[str, ...] = ()  # of the files that are listed
    exclusion: Exclusion = NO_EXCLUSION

    def contents_hash(self) -> int:
        """Return a number that changes, within one process, if anything here does."""
        facts = (*self.volumes.items(), *sorted(self.unreadable), *self.tops)
        return hash((*self.files, *self.title_images, *facts))

    def is_whole(self) -> bool:
        return self.library_folder in self.tops

    def is_empty(self) -> bool:
        """Return whether no game is there, as where a disk is not mounted."""
        return not (self.files or any(it.pattern for it in self.passed_over.values()))

    def volume_at(self, path: str) -> str:
        """Return the volume of the nearest folder above a path that is there."""
        while path not in self.volumes and path != os.path.dirname(path):
            path = os.path.dirname(path)  # up to "/" where the case differs: on Windows
        return self.volumes.get(path, self.volumes[self.library_folder])

    def read_folder(self, path: str) -> list[str]:
        """Add the files of one folder, and return the paths of the folders in it.

        :raises OSError: it is the library folder, and cannot be read.
        """
        is_top = path == self.library_folder
        try:  # it may be a junction, or have become a link just now
            if is_top or not is_link(path):
                return self._read(path)
            self._pass_over(path, "passed_link")
            return []
        except OSError as error:
            if is_top:
                raise
            self._add_unread(path, error)
            return []

    def _add_unread(self, path: str, error: OSError) -> None:
        is_gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
        (self._name_above if is_gone else self.unreadable.add)(path)

    def _name_above(self, path: str) -> None:
        """Name the volume again of the folder above what was removed: its disk may have
        been pulled, also in the middle of this walk."""
        self.volumes.pop(path, None)
        above = os.path.dirname(path)
        try:
            self.volumes[above] = volume_name(above, self.devices)
        except OSError:
            if above == self.library_folder:
                raise
            self._name_above(above)

    def _read(self, path: str) -> list[str]:
        with os.scandir(path) as iterator:
            listed = [*iterator]
        volume = volume_name(path, self.devices)  # of what was listed: it may be pulled
        if volume != self.volume_at(path):
            self.volumes[path] = volume
        shown = [item for item in listed if not self._passes_over(item)]
        folders, first = [], len(self.files)
        items = {item.name: item for item in shown}
        if path != self.library_folder and is_split(path, items, self.endings):
            self._add_file(path, volume, *parts_of("00", items))
            shown = [item for item in shown if item.name.lower().endswith(COVERS)]
        for item in shown:
            if self._is_served(item.name) and item.is_file(follow_symlinks=False):
                self._add_file(item.path, volume, *parts_of(item.name, items))
            elif item.is_dir(follow_symlinks=False):
                folders.append(item.path)
        by_name = {item.name.lower(): item for item in shown}
        if images := {name: by_name[name] for name in by_name if name.endswith(COVERS)}:
            self.files[first:] = self._with_covers(self.files[first:], images)
            self._add_title_images(images, volume)
        return folders

    def _is_served(self, name: str) -> bool:
        return joined_name(name).lower().endswith(self.endings)

    def _passes_over(self, item: Item) -> bool:
        """Return whether an item of a folder is passed over. What somebody may miss is
        told: nothing that systems keep for themselves."""
        name, is_served = item.name.lower(), self._is_served(item.name)
        is_folder = item.is_dir(follow_symlinks=False)
        if pattern := self.exclusion.pattern(item.path):
            kind = "passed_folder" if is_folder else "passed_file"
        elif is_hidden(name):
            kind = "passed_hidden"
        elif item.is_symlink():
            kind = "passed_link"
        elif name.endswith(ARCHIVES) and not (is_served or is_folder):
            kind = "passed_archive"
        elif (is_served or is_folder) and not is_text(item.name):
            kind = "passed_misnamed"
        else:
            return False
        is_told = is_served or kind not in ("passed_file", "passed_hidden")
        if is_told and not name.startswith(METADATA):
            self._pass_over(item.path, kind, pattern)
        return True

    def _pass_over(self, path: str, kind: str, pattern: str = "") -> None:
        self.passed_over[escaped(path)] = PassedOver(kind, pattern)

    def _with_covers(
        self, files: Sequence[FoundFile], images: Mapping[str, Item]
    ) -> Iterator[FoundFile]:
        """Yield a folder's files with their covers: each has that of its name, or that
        of the folder, if all are of one title. The images are by name in lower case."""
        shared = FOLDER_COVERS if len({title_of(file) for file in files}) == 1 else ()
        for file in files:
            stem = os.path.splitext(os.path.basename(file.path))[0].lower()
            own = stem, f"{stem}-cover"
            names = [name + end for name in (*own, *shared) for end in COVERS]
            covers = (self._cover(images[name]) for name in names if name in images)
            yield file._replace(cover=next(filter(None, covers), None))

    def _add_title_images(self, images: Mapping[str, Item], volume: str) -> None:
        for name, image in images.items():
            match = TITLE_IMAGE.search(name)
            if match and is_text(name) and (cover := self._cover(image)):
                facts = image.path, self.library_folder, volume, match[1].upper(), cover
                self.title_images.append(TitleImage(*facts))

    def _cover(self, image: Item) -> str | None:
        """Return the `cover` of files with this image, or None if it cannot be one."""
        try:
            now = image.stat(follow_symlinks=False)
        except OSError:  # it was removed just now, or its disk has an error
            return None
        if not stat.S_ISREG(now.st_mode):
            return None
        if now.st_size > MAX_COVER_BYTES:
            self._pass_over(image.path, "passed_cover")
            return None
        facts = f"{image.path} {now.st_size} {now.st_mtime_ns}"
        digest = content_digest(facts.encode())
        self.covers[digest] = image.path
        return digest

    def _add_file(
        self, path: str, volume: str, parts: Sequence[Item], missing: str
    ) -> None:
        """:param parts: of a split file, or else the file itself.
        :param missing: see missing_part. Where it changes, the file does."""
        try:
            now = joined_stat([*map(item_stat, parts)])
        except OSError as error:
            self._add_unread(path, error)
            return
        inode = (now.st_ino + zlib.crc32(missing.encode())) & MAX_INTEGER
        facts = self.library_folder, now.st_size, stored_mtime(now), inode, volume
        self.files.append(FoundFile(path, *facts))
        self.tick(1)


def item_stat(item: Item) -> os.stat_result:
    now = item.stat(follow_symlinks=False)
    if not now.st_ino:  # as on Windows
        now = os.stat(item.path, follow_symlinks=False)
    return now


def is_split(path: str, names: Iterable[str], endings: tuple[str, ...]) -> bool:
    """Return whether a folder is a split file: it has the parts of one, no other files
    but covers, and the name of a file that is served."""
    others = (name for name in names if not PART_IN_FOLDER.fullmatch(name))
    is_named = path.lower().endswith(endings) and "00" in names
    return is_named and all(name.lower().endswith(COVERS) for name in others)


def parts_of(first: str, names: Mapping[str, T]) -> tuple[list[T], str]:
    """Return those of the parts of a split file that are there, up to the first that is
    missing, and what tells that one is; of another file itself.
    :param names: what is in its folder."""
    if first != "00" and joined_name(first) == first:
        return [names[first]], ""
    parts = itertools.takewhile(names.__contains__, split_parts(first))
    return [names[part] for part in parts], missing_part(first, names)


def missing_part(first: str, names: Container[str]) -> str:
    """Return the name of the part of a split file that is missing, or of the header or
    the tool's notes that tell of a dump that was not finished, "" where none does."""
    parts = split_parts(first)
    missing = next(part for part in parts if part not in names)
    later = itertools.islice(parts, MAX_MISSING_PARTS)
    if any(part in names for part in later):
        return missing
    beside = (f"{joined_name(first)}{ending}" for ending in BESIDE_PARTS)
    return next((name for name in beside if name in names), "")


def joined_stat(parts: Sequence[os.stat_result]) -> os.stat_result:
    """Return the stat of one file with the bytes of all parts: it changes when a part
    does."""
    if len(parts) == 1:
        return parts[0]
    values = [*parts[0]]
    values[stat.ST_INO] = sum(part.st_ino for part in parts)
    values[stat.ST_SIZE] = sum(part.st_size for part in parts)
    last = max(part.st_mtime_ns for part in parts)
    return os.stat_result(values, {"st_mtime": last / 1e9, "st_mtime_ns": last})


def stored_mtime(status: os.stat_result) -> int:
    """Return the time of a file in nanoseconds, or the nearest that SQLite can store:
    what is before 1677, as 1601 on NTFS and SMB, or after 2262 does not fit."""
    return max(min(status.st_mtime_ns, MAX_INTEGER), -MAX_INTEGER)


def title_of(file: FoundFile) -> str:
    """Return the base id that the file's name gives, or its path."""
    facts = title_facts(name_facts(file.path).get("title_id", "0"))
    return facts.get("base_id", file.path)


def walk(
    folder: str,
    types: Iterable[str],
    tick: Callable[[int], None] = lambda count: None,
    watch: Callable[[str], None] = lambda path: None,
    tops: Sequence[str] = (),
    exclusion: Exclusion = NO_EXCLUSION,
) -> Tree:
    """Return the files below a library folder that have one of these types.

    Links and what is neither file nor folder are passed over: what a link leads to
    in the library is found under its own name.

    :param tick: is called for each folder with 0, and for each file with 1.
    :param watch: is called with the path of each folder before it is read.
    :param tops: folders in it, to read only what is below them. One that is gone is
        empty: it was removed.
    :raises OSError: the library folder cannot be read. It is not empty then.
    """
    endings = tuple(f".{type}" for type in types if type not in UNFINISHED)
    tree = Tree(folder, tops or [folder], tick=tick)
    tree.endings, tree.exclusion = endings, exclusion
    tree.volumes[folder] = volume_name(folder, tree.devices)
    waiting = [*tree.tops]
    while waiting:
        path = waiting.pop()
        tick(0)
        watch(path)
        waiting += tree.read_folder(path)
    return tree


# Disk: file systems ---


def volume_name(folder: str, names: dict[int, str]) -> str:
    """Return the name of a folder's file system: an id that is surely its own, or else
    a digest of what is known of it.
    :param names: those found so far, by device number."""
    device = os.stat(folder).st_dev
    if device not in names:
        own = file_system_id(folder, device)
        names[device] = own or UNIDENTIFIED + mount_digest(folder, device)
    return names[device]


def mount_digest(folder: str, device: int) -> str:
    """Return a digest of where a file system is mounted and, if it is a disk, its kind
    and size, else its source. On Windows, the device is the disk's serial number."""
    mount = next(iter(mounts(os.path.realpath(folder))), None)
    if not mount:
        return content_digest(str(device).encode())
    size = str(shutil.disk_usage(folder).total)
    facts = mount.kind, size if mount.kind in LOCAL_FILE_SYSTEMS else mount.source
    return content_digest("\0".join((mount.point, *facts)).encode(errors=SURROGATES))


def file_system_id(folder: str, device: int) -> str:
    """Return the id that a file system keeps wherever its disk is plugged in, and how
    it is known: as udev has read it, or as the system tells it. There it is 0 for some
    (FUSE), the device number for others (XFS, exFAT); the device then has none: ""."""
    if not hasattr(os, "statvfs"):  # Windows
        return ""
    record = f"{UDEV_RECORDS}/b{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open(record, errors="replace") as file:
        if match := re.search("^E:ID_FS_UUID=(.+)$", file.read(), re.MULTILINE):
            return f"uuid:{match[1]}"
    own = os.statvfs(folder).f_fsid
    return f"fsid:{own:x}" if own not in (0, device) else ""


# Disk: paths ---


def library_folders(folders: Iterable[str]) -> list[str]:
    """Return their absolute paths, without those inside of another.
    :raises Problem: the path of one is no Unicode, as JSON and SQLite need it."""
    paths = [*map(absolute, folders)]
    for path in itertools.filterfalse(is_text, paths):
        raise Problem(f"{path!r}: the path is not valid UTF-8. Rename the folder.")
    return outermost(paths)


def outermost(folders: Iterable[str]) -> list[str]:
    """Return each path once, without those inside of another."""
    outer: list[str] = []
    # What is below a folder comes next after it.
    for path in sorted(folders, key=lambda at: (os.path.normcase(at) + os.sep, at)):
        if not outer or not is_below(path, outer[-1]):
            outer.append(path)
    return outer


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is that of a folder, or of something in it."""
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(os.path.join(folder, ""))


def outside(items: Mapping[str, T], folders: Iterable[str]) -> dict[str, T]:
    """Return of items by path those that are not below these folders."""
    tops, left = {*map(pathlib.PurePath, folders)}, {}
    for path, item in {**items}.items():  # the thread of a disk may add one
        at = pathlib.PurePath(path)
        if tops.isdisjoint([at, *at.parents]):
            left[path] = item
    return left


def spelled(folder: str, path: str) -> str:
    """Return a path below a folder as the disk spells it, which may be blind to case.
    :raises OSError: a folder above it cannot be read."""
    for part in os.path.relpath(path, folder).split(os.sep):
        names = os.listdir(folder)
        alike = (name for name in names if comparable(name) == comparable(part))
        folder = os.path.join(folder, part if part in names else next(alike, part))
    return os.path.normpath(folder)


def absolute(folder: str) -> str:
    """Return the absolute path. A bare drive letter, or a share of a server, is the
    whole of it: to Windows `D:` is the folder of that drive that was visited last."""
    folder = os.path.expanduser(folder)
    drive, rest = os.path.splitdrive(folder)
    return os.path.abspath(folder if rest or not drive else drive + os.path.sep)


# Disk: files ---

OPEN_FLAGS = os.O_RDONLY
for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
    OPEN_FLAGS |= getattr(os, flag, 0)


class DiskFile(io.FileIO):
    """A file below a library folder."""

    parts: Sequence[int] = ()  # file descriptors of a split file
    missing = ""  # the name of its part that is not there, see missing_part, and
    following = ""  # that of one behind its last part

    def stat(self) -> os.stat_result:
        return os.fstat(self.fileno())

    def place(self, at: int, size: int) -> tuple[int, int, int]:
        """Return the file descriptor that has the byte at this place, where it has it,
        and how many of so many bytes."""
        return self.fileno(), at, size


class SplitFile(DiskFile):
    """A split file, whose parts are read as one."""

    def join(self, parts: Sequence[int], missing: str, following: str) -> None:
        """:param parts: they are closed along with the file, which is the first."""
        self.parts, self._at = parts, 0
        self.missing, self.following = missing, following
        sizes = (os.fstat(part).st_size for part in parts)
        self._starts = [*itertools.accumulate(sizes, initial=0)]

    def stat(self) -> os.stat_result:
        return joined_stat([*map(os.fstat, self.parts)])

    def place(self, at: int, size: int) -> tuple[int, int, int]:
        if not self.parts:  # it was closed
            return super().place(at, size)
        number = min(bisect.bisect_right(self._starts, at), len(self.parts)) - 1
        start, stop = self._starts[number : number + 2]
        return self.parts[number], at - start, max(min(size, stop - at), 0)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        from_start = (0, self._at, self._starts[-1])[whence]
        self._at = from_start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        left = self._starts[-1] - self._at if size is None or size < 0 else size
        pieces = []
        while left > 0 and (piece := self._read_piece(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _read_piece(self, size: int) -> bytes:
        part, at, size = self.place(self._at, size)
        os.lseek(part, at, os.SEEK_SET)
        piece = os.read(part, size)
        self._at += len(piece)
        return piece

    def close(self) -> None:
        others, self.parts = self.parts[1:], ()
        for part in others:
            os.close(part)
        super().close()


Kinds = tuple[type[DiskFile], type[SplitFile]]


def open_file(path: str, folder: str, kinds: Kinds = (DiskFile, SplitFile)) -> Any:
    """Open a regular file below a library folder, as an object of the first kind, or a
    split one of the second. Below that folder it follows no link, and it waits for no
    pipe. :raises OSError: it is none, or cannot be read."""
    if joined_name(path) == path:
        try:
            return kinds[0](open_regular(path, folder), "rb")
        except OSError:  # to ask before would cost a call to the disk for each file
            if not os.path.isdir(path):
                raise
    return open_parts(path, folder, kinds[1])


def is_joined(path: str) -> bool:
    """Return whether a file is a split one: a folder, or named by its first part."""
    return joined_name(path) != path or os.path.isdir(path)


def part_paths(path: str) -> tuple[list[str], str, str]:
    """Return the paths of the parts of a split file, and `missing` and `following` of a
    DiskFile. :raises OSError: their folder cannot be read."""
    above, first = (path, "00") if os.path.isdir(path) else os.path.split(path)
    paths = {name: os.path.join(above, name) for name in os.listdir(above)}
    parts, missing = parts_of(first, paths)
    following = next(itertools.islice(split_parts(first), len(parts), None))
    return parts, missing, following


def open_parts(path: str, folder: str, kind: type[SplitFile]) -> SplitFile:
    """Open a split file. :raises OSError: it is none, or cannot be read."""
    paths, missing, following = part_paths(path)
    if not paths:
        raise OSError(f"{path} is a folder")
    with contextlib.ExitStack() as opened:
        parts = []
        for part in paths:
            parts.append(open_regular(part, folder))
            opened.callback(os.close, parts[-1])
        file = kind(parts[0], "rb")
        opened.pop_all()
    file.join(parts, missing, following)
    return file


def open_regular(path: str, folder: str) -> int:
    """Open a regular file, and return its descriptor. :raises OSError: see open_file"""
    opened = open_below(folder, path[len(folder) :].lstrip(os.sep))
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(f"{path} is not a file")
    return opened


def open_below(folder: str, path: str) -> int:
    """Open a relative path to read, and return its file descriptor. Each part is opened
    in the one before: any part may be replaced by a link at any time.
    :raises OSError: a part is a link, or cannot be read."""
    if os.open not in os.supports_dir_fd:  # Windows
        return os.open(unlinked_path(folder, path), OPEN_FLAGS)
    opened = os.open(folder, os.O_RDONLY)  # it may be a link itself
    for name in path.split(os.sep):
        above = opened
        try:
            opened = os.open(name, OPEN_FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return opened


def unlinked_path(folder: str, path: str) -> str:
    """Return the whole of a relative path. :raises OSError: a part is a link."""
    for part in itertools.accumulate(path.split(os.sep), os.path.join):
        if is_link(os.path.join(folder, part)):
            raise OSError(f"{part} is a link")
    return os.path.join(folder, path)


def is_link(path: str) -> bool:
    """Return whether a path is a symbolic link or, on Windows, a junction."""
    status = os.lstat(path)
    tag = getattr(status, "st_reparse_tag", 0)  # which only Windows has
    return stat.S_ISLNK(status.st_mode) or tag == JUNCTION


def split_facts(file: DiskFile, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return that a split file is not complete, and which part is missing. Parts have
    one size, but for the last; a compressed cartridge tells no other."""
    sizes = [os.fstat(part).st_size for part in file.parts]
    is_uneven = "complete" not in facts and len({*sizes[:-1]}) > 1
    if file.missing or is_uneven:
        return {"complete": False, "missing": file.missing or file.following}
    return {"missing": file.following} if facts.get("complete") is False else {}


def sample(file: io.FileIO, size: int) -> tuple[str, bool]:
    """Return a digest of a file's size and of both its ends, which is the same for
    equal files, and cheap at any size. And whether the file is hollow."""
    file.seek(0)
    first = file.read(SAMPLE_BYTES) or b""
    file.seek(max(size - SAMPLE_BYTES, 0))
    last = file.read(SAMPLE_BYTES) or b""
    is_hollow = size >= HOLLOW_BYTES and not last.strip(b"\0")
    if is_hollow:
        file.seek(size - HOLLOW_BYTES)
        is_hollow = not (file.read(HOLLOW_BYTES) or b"").strip(b"\0")
    return content_digest(str(size).encode(), first, last), is_hollow


def sha256(path: str, folder: str) -> tuple[int, int, str]:
    """Return size, mtime and hexadecimal SHA-256 of a file below a library folder.
    :raises OSError: it cannot be read."""
    with open_file(path, folder) as file:
        now = file.stat()
        digest = hashlib.file_digest(file, "sha256")
    return now.st_size, stored_mtime(now), digest.hexdigest()


def has_failed(error: OSError) -> bool:
    """Return whether an error is that of a disk or a server, not of a file."""
    return isinstance(error, TimeoutError) or error.errno in DISK_ERRORS


def is_failing(path: str, folder: str) -> bool:
    """Return whether the disk fails to read the beginning of a file, once more."""
    try:
        with open_file(path, folder) as file:
            if hasattr(os, "posix_fadvise"):  # not what is still in memory
                first = (file.fileno(), 0, SAMPLE_BYTES)
                os.posix_fadvise(*first, os.POSIX_FADV_DONTNEED)
            file.read(SAMPLE_BYTES)
    except OSError as error:
        return has_failed(error)
    return False


def spare_memory() -> None:
    """Give back the memory that a scan, or the start, needed for a moment. The C
    library of Linux keeps it otherwise, and a heap for each thread too."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "malloc_trim"):
        library.mallopt(ctypes.c_int(-8), ctypes.c_int(1))  # M_ARENA_MAX
        # M_MMAP_THRESHOLD: bodies of uploads leave no holes in the heap.
        library.mallopt(ctypes.c_int(-3), ctypes.c_int(512 * 1024))
        library.malloc_trim(ctypes.c_size_t(0))


# Disk: events of the system ---

LOCAL_FILE_SYSTEMS = {
    *("bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "jfs"),
    *("ntfs3", "overlay", "tmpfs", "vfat", "xfs", "zfs"),
    "fuseblk",  # ntfs-3g and its like: they have a disk to themselves
}
MOUNT_TABLE = "/proc/self/mountinfo"  # see proc_pid_mountinfo(5)
SURROGATES = "surrogateescape"  # as Python reads paths that are no UTF-8
EVENT = struct.Struct("iIII")  # watch descriptor, flags, cookie, length of the name
IN_CHANGED = 0x3CC  # ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE
IN_MOVE_SELF, IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x800, 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_ISDIR = 0x0100_0000, 0x4000_0000
REREAD_SECONDS = 86400  # after which all of a watched folder is read again


class Mount(NamedTuple):
    """A line of MOUNT_TABLE."""

    line: str
    point: str
    kind: str  # of the file system, such as "ext4"
    source: str  # such as "/dev/sda1" or "nas:/games"


def mounts(folder: str) -> list[Mount]:
    """Return the mount that a folder is on, and those below it: none where the system
    does not tell them."""
    mounted: dict[str, Mount] = {}
    with contextlib.suppress(OSError), open(MOUNT_TABLE, errors=SURROGATES) as file:
        for line in file:
            fields = line.split()
            kind, source = fields[fields.index("-") + 1 :][:2]
            path = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[4])
            mounted[path] = Mount(line, path, kind, source)  # it hides those before
    top = max((path for path in mounted if is_below(folder, path)), key=len, default="")
    paths = (path for path in mounted if path == top or is_below(path, folder))
    return [mounted[path] for path in sorted(paths, key=len)]


def mount_table() -> bytes:
    """Return what changes when a file system is mounted or unmounted, on Linux."""
    with contextlib.suppress(OSError), open(MOUNT_TABLE, "rb") as file:
        return file.read()
    return b""


def events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield watch descriptor, flags and file name of each event that inotify tells."""
    at = 0
    while at < len(data):
        watch, flags, _, length = EVENT.unpack_from(data, at)
        at += EVENT.size + length
        yield watch, flags, os.fsdecode(data[at - length : at].rstrip(b"\0"))


class Watcher:
    """Tells below which folders of a library folder something may have happened: by
    inotify(7), or, where it cannot be watched, in all of it whenever a scan is due."""

    def __init__(self, folder: str, types: Iterable[str]) -> None:
        self.folder = folder
        own = (f".{type}" for type in types)
        self._endings = (*own, *COVERS, *ARCHIVES, *BESIDE_PARTS)
        self._events = -1  # a file descriptor, if the folder is watched
        self._paths: dict[int, str] = {}  # by watch descriptor
        self._real_path = self._problem = ""
        self._mounts: list[Mount] = []
        self._began = 0.0  # monotonic seconds

    def is_watching(self) -> bool:
        return self._events >= 0

    def is_polling(self) -> bool:
        """Return whether scans alone tell what was changed: no event does."""
        return bool(self._real_path) and not self.is_watching()

    def is_mounted_otherwise(self) -> bool:
        """Return whether other file systems are mounted there than at the start."""
        return bool(self._real_path) and mounts(self._real_path) != self._mounts

    def await_folder(self) -> None:
        """Watch the folder no more: it cannot be read before something is mounted."""
        self.stop()
        self._mounts = []  # a disk that is back at once has the same line in the table

    def start(self) -> None:
        """Watch the folder, if that is possible: each that is given to `add`."""
        self.stop()
        self._real_path = os.path.realpath(self.folder)
        self._mounts = mounts(self._real_path)
        if sys.platform != "linux":  # wine has /proc/self/mountinfo too
            return self.stop("this system is not Linux")
        if not self._mounts:
            return self.stop(f"{MOUNT_TABLE} does not tell what is mounted there")
        if remote := {mount.kind for mount in self._mounts} - LOCAL_FILE_SYSTEMS:
            return self.stop(f"a file system there is {min(remote)}")
        self._began = time.monotonic()
        self._library = ctypes.CDLL(None, use_errno=True)
        self._events = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if not self.is_watching():
            self.stop("fs.inotify.max_user_instances is reached")
        return None

    def stop(self, problem: str = "") -> None:
        """Watch it no more. A problem is logged, once. At the end of the service, the
        thread of the disk may do so at the same time."""
        events, self._events = self._events, -1
        if events >= 0:
            os.close(events)
        self._paths = {}
        if problem and problem != self._problem:
            self._problem = problem
            text = "%s is scanned at intervals, not watched: %s."
            log.info(text, self.folder, problem)

    def add(self, path: str) -> None:
        if self.is_watching():
            flags = IN_CHANGED | IN_MOVE_SELF | IN_ONLYDIR
            name = os.fsencode(path)
            watch = self._library.inotify_add_watch(self._events, name, flags)
            if watch >= 0:
                self._paths[watch] = path
            elif ctypes.get_errno() == errno.ENOSPC:
                self.stop("it has more folders than fs.inotify.max_user_watches")

    def changed(self, is_due: bool) -> set[str]:
        """Return the folders below which something may have changed since the last
        call.
        :param is_due: whether a scan is due. All is read then of what is not watched,
            is mounted otherwise than before, or was read a day ago."""
        age = time.monotonic() - self._began if self.is_watching() else math.inf
        if is_due and (age >= REREAD_SECONDS or self.is_mounted_otherwise()):
            return {self.folder}
        tops: set[str] = set()
        with contextlib.suppress(BlockingIOError):
            while self._events >= 0:
                for watch, flags, name in events(os.read(self._events, 64 * 1024)):
                    tops.add(self._top(self._paths.get(watch, ""), flags, name))
        return tops - {""}

    def _top(self, path: str, flags: int, name: str) -> str:
        """Return what an event in the folder with this path asks to be read, or ""."""
        has_moved = path == self.folder and flags & (IN_MOVE_SELF | IN_IGNORED)
        if has_moved or flags & (IN_UNMOUNT | IN_Q_OVERFLOW):
            return self.folder
        is_part = ANY_PART.search(name) is not None
        is_wanted = is_part or name.lower().endswith(self._endings)
        if not path or (is_hidden(name) and not is_wanted):
            return ""
        if name and flags & IN_ISDIR and is_text(name) and not is_hidden(name):
            return os.path.join(path, name)
        return path if is_wanted or flags & IN_ISDIR or not name else ""


# Scanner ----------------------------------------------------------------------
# What the files found mean for the entries (plain functions from lists to lists; one,
# `find_changes`, has read what they ask for), and the threads that read the disks. It
# may use all that is above, and knows no HTTP.

MAX_USE_SECONDS = 3  # of a file for a client, before its disk is asked
MAX_DELAY_SECONDS = 2  # that a disk without an answer delays the others
MIN_MISSING = 30  # files of a folder, and a quarter: when they are missed, it is told
POLLED_SETTLE_SECONDS = 10  # at least, where no events tell what was changed
MAX_PAUSE_SECONDS = 86400  # of a copy, after which it is listed as it is
MIN_RENUMBERED = 16  # files: fewer are read rather than believed to be renumbered

Count = Callable[..., None]


# Scanner: compare ---

Trees = Mapping[str, Tree | None]  # by library folder; None where it cannot be read
Pair = tuple[KnownFile, FoundFile]
Contents = Mapping[str, FileContent | None]  # by path; None of a file that grows
Samples = Mapping[str, str | None]  # by path; None of a file that grows
Likeness = Callable[[FoundFile, str | None], Any]  # of a file and its sample


class Difference(NamedTuple):
    """What is not as it was at the scan before, of the folders that were read."""

    updated: list[Pair]  # as they were but for cover, inode or name of the volume
    entries: list[KnownFile]  # the others
    files: list[FoundFile]  # that no entry has so
    stable: set[str]  # volumes where a file has kept its inode
    whole: set[str]  # library folders that were read with all that is below them

    def is_sure(self, file: FoundFile) -> bool:
        """Return whether a volume is surely the one that had this name before. A folder
        is read in part only while it is watched, and stays mounted."""
        is_watched = file.folder not in self.whole
        return is_sure_volume(file) or file.volume in self.stable or is_watched


def pair_unchanged(known_files: Iterable[KnownFile], trees: Trees) -> Difference:
    """Pair entries with the files that have not changed, and return the rest."""
    read = [tree for tree in trees.values() if tree]
    files = {file.path: file for tree in read for file in tree.files}
    updated, entries, stable = [], [], set()
    for entry in known_files:
        file = files.get(entry.file.path)
        if file and entry.state == "here" and is_unchanged(entry.file, file):
            stable.add(file.volume)
            if files.pop(file.path) != entry.file:
                updated.append((entry, file))
        else:
            entries.append(entry)
    whole = {tree.library_folder for tree in read if tree.is_whole()}
    polled = {path: file for path, file in files.items() if file.folder in whole}
    updated += (renumbered := pair_renumbered(entries, polled, stable))
    names = {entry.file.volume: file.volume for entry, file in updated}
    entries, new = rest(renumbered, entries, files.values())
    entries = [with_volume(entry, names, entry.file.volume) for entry in entries]
    return Difference(updated, entries, new, stable, whole)


def is_sure_volume(file: FoundFile) -> bool:
    return file.volume.startswith(SURE_IDS)


def is_unchanged(old: FoundFile, new: FoundFile) -> bool:
    """Return whether a file is as it was. Its cover may be another, and so may the kind
    of the volume's name: of two ids of one kind, each is that of a disk of its own."""
    kinds = {file.volume.partition(":")[0] for file in (old, new)}
    return old[:5] == new[:5] and (old.volume == new.volume or len(kinds) == 2)


def pair_renumbered(
    entries: Iterable[KnownFile], files: Mapping[str, FoundFile], stable: set[str]
) -> list[Pair]:
    """Pair entries of network drives that number all inodes anew, at times or even
    always, so that not all files are opened. Those drives are not watched, so they are
    read whole. :param files: of what is read whole, by path."""
    here = [entry for entry in entries if entry.state == "here"]
    pairs = [(it, files[it.file.path]) for it in here if it.file.path in files]
    pairs = [
        (entry, file)
        for entry, file in pairs
        if is_unchanged(entry.file._replace(inode=file.inode), file)
    ]
    counts = collections.Counter(file.volume for _, file in pairs)
    renumbered = {name for name in counts if counts[name] >= MIN_RENUMBERED} - stable
    return [(entry, file) for entry, file in pairs if file.volume in renumbered]


def rest(
    pairs: Sequence[Pair], entries: Iterable[KnownFile], files: Iterable[FoundFile]
) -> tuple[list[KnownFile], list[FoundFile]]:
    """Return the entries and the files that are in no pair."""
    ids = {entry.id for entry, _ in pairs}
    left = [entry for entry in entries if entry.id not in ids]
    paths = {file.path for _, file in pairs}
    return left, [file for file in files if file.path not in paths]


def with_volume(entry: KnownFile, names: Mapping[str, str], name: str) -> KnownFile:
    """Return an entry with another name of its volume, if there is one of this name."""
    volume = names.get(name, entry.file.volume)
    return entry._replace(file=entry.file._replace(volume=volume))


# What makes a file that of an entry, the surest first; None does not.
OWN: tuple[Likeness, ...] = (
    lambda file, sample: (sample, file.path, file.volume),
    lambda file, sample: (sample, file.volume, file.inode),
)
EQUAL: tuple[Likeness, ...] = (
    OWN[0],
    lambda file, sample: (sample, file.volume) if is_sure_volume(file) else None,
    lambda file, sample: (sample, file.inode),
    lambda file, sample: (sample, file.path),
    lambda file, sample: (sample,),
)


def pair_read(
    entries: list[KnownFile],
    files: Iterable[FoundFile],
    samples: Samples,
    is_sure: Callable[[FoundFile], bool],
    excluded: Container[str],
) -> list[Pair]:
    """Pair entries, in their order, with files that were read: with one that is their
    own, then with one that has changed in its place, then with any equal one, but for
    those with these ids: the file of an excluded entry is no equal one, it moved."""

    def in_place(file: FoundFile, sample: str | None) -> Any:
        return (file.path, file.volume) if is_sure(file) else None

    current = [entry for entry in entries if entry.state != "gone"]
    steps = [(current, likeness) for likeness in (*OWN, in_place)]
    missed = [entry for entry in entries if entry.id not in excluded]
    steps += [(missed, likeness) for likeness in EQUAL]
    pairs: list[Pair] = []
    for those, likeness in steps:
        pairs += pair_alike(*rest(pairs, those, files), samples, likeness)
    return pairs


def pair_alike(
    entries: Iterable[KnownFile],
    files: Iterable[FoundFile],
    samples: Samples,
    likeness: Likeness,
) -> list[Pair]:
    """Pair those that are alike, the first entry with the last file."""
    alike = collections.defaultdict[Any, list[FoundFile]](list)
    for file in files:
        alike[likeness(file, samples[file.path])].append(file)
    alike.pop(None, None)
    groups = ((it, alike.get(likeness(it.file, it.sample))) for it in entries)
    return [(entry, group.pop()) for entry, group in groups if group]


def waiting(
    entries: Iterable[KnownFile], others: Iterable[KnownFile], samples: Samples
) -> list[KnownFile]:
    """Return the entries that have no file, the first to get one first: what people
    touched, has just lost its own, or is older. One whose file grows stays as it is."""
    by_id = {it.id: it for it in others if it.state != "here"}
    by_id |= {it.id: it for it in entries}
    return sorted(
        (it for it in by_id.values() if samples.get(it.file.path, "?")),
        key=lambda it: (not it.is_touched, it.state != "here", it.serial),
    )


def with_files(
    here: Iterable[KnownFile], pairs: Iterable[Pair], samples: Samples
) -> list[KnownFile]:
    """Return entries that have a file, each with that which it has now."""
    as_before = [it for it in here if samples.get(it.file.path, it.sample) == it.sample]
    now = [it._replace(file=file, sample=samples[file.path]) for it, file in pairs]
    return as_before + now


def take_twins(
    entries: Iterable[KnownFile], twins: Iterable[KnownFile]
) -> list[tuple[KnownFile, KnownFile]]:
    """Let entries without a file have that of an equal one that nobody touched: a
    touched entry any, another one that of a younger entry. A move to another disk is a
    copy and a delete; a scan may run in between."""
    equal = collections.defaultdict[str | None, list[KnownFile]](list)
    for twin in twins:
        if not twin.is_touched:
            equal[twin.sample].append(twin)
    merged = []
    for entry in entries:
        for twin in equal[entry.sample]:
            if entry.is_touched or entry.serial < twin.serial:
                equal[entry.sample].remove(twin)
                merged.append((entry, twin))
                break
    return merged


def is_old(entry: KnownFile, before: str) -> bool:
    """Return whether an entry is to be forgotten that is gone since before a time."""
    is_gone = entry.state == "gone" and not entry.is_touched
    return is_gone and (entry.gone_at or "~") < before


def may_take(entry: KnownFile, state: str, left: Difference) -> bool:
    """Return whether an entry without a file may take that of another one: people miss
    what they touched; an untouched one is itself again once its file is back."""
    is_gone = "here" == entry.state != state == "gone" and left.is_sure(entry.file)
    return is_gone or bool(entry.is_touched and state != "excluded")


def moved_volumes(pairs: Iterable[Pair]) -> set[str]:
    """Return the names that volumes without an id had where they were mounted before:
    a file that has kept its inode and time tells that it is the same volume."""
    return {
        entry.file.volume
        for entry, file in pairs
        if entry.file[2:5] == file[2:5]
        and entry.file.volume != file.volume
        and not is_sure_volume(entry.file)
    }


def state_without_file(
    entry: KnownFile, trees: Trees, unread: Container[str], moved: Container[str]
) -> str:
    """Return the state of an entry without a file.

    :param unread: paths of files that cannot be read.
    :param moved: names of volumes that are mounted elsewhere.
    """
    path, is_here = entry.file.path, entry.state == "here"
    above = [trees[folder] for folder in trees if is_below(path, folder)]
    has_moved = is_here and entry.file.volume in moved
    is_missed = entry.state == "gone" or entry.file.volume.startswith(LOST)
    if is_missed or has_moved or not above:  # of no folder of the settings
        return "gone"
    is_off = path in unread or is_away(path, entry.file.volume, above[0])
    return "offline" if is_off else "gone"


def is_away(path: str, volume: str, tree: Tree | None) -> bool:
    """Return whether a file that was not found is on a disk that is not connected, or
    cannot be read. :param volume: that it was on."""
    if tree is None:
        return True
    if tree.is_empty() and tree.is_whole():  # perhaps its disk is not mounted
        return True
    above = map(str, pathlib.PurePath(path).parents)
    is_there = volume == tree.volume_at(path)
    return not is_there or not tree.unreadable.isdisjoint([path, *above])


def image_is_gone(image: TitleImage, tree: Tree | None) -> bool:
    """Return whether an image that was not found was looked for, and is gone."""
    is_read = tree and any(is_below(image.path, top) for top in tree.tops)
    return bool(is_read) and not is_away(image.path, image.volume, tree)


def compare(
    left: Difference,
    contents: Contents,
    others: Sequence[KnownFile],
    trees: Trees,
    forget_before: str,
    exclusion: Exclusion = NO_EXCLUSION,
) -> Changes:
    """Return what a scan means for the entries.

    :param contents: of the files left, but for those that cannot be read, and of those
        that merged entries had, once they were read again.
    :param others: entries of contents that were found or are missed, the oldest first.
    """
    samples = {path: content and content.sample for path, content in contents.items()}
    files = [file for file in left.files if samples.get(file.path)]
    entries = waiting(left.entries, others, samples)
    hidden = {it.id for it in entries if exclusion.pattern(it.file.path)}
    files = sorted(files, reverse=True)
    pairs = pair_read(entries, files, samples, left.is_sure, hidden)
    entries, new = rest(pairs, entries, files)
    unread = {file.path for file in left.files} - samples.keys()
    moved = moved_volumes(pairs)
    states = {it.id: state_without_file(it, trees, unread, moved) for it in entries}
    states |= dict.fromkeys(hidden, "excluded")
    takers = [it for it in entries if may_take(it, states[it.id], left)]
    ids = {it.id for it in left.entries}
    here = [it for it in others if it.state == "here" and it.id not in ids]
    merged = take_twins(takers, with_files(here, pairs, samples))
    pairs += [*((entry, twin.file) for entry, twin in merged), *left.updated]
    ended = {twin.id for _, twin in merged}
    kept = [(entry, file) for entry, file in pairs if entry.id not in ended]
    without = [it for it in rest(pairs, entries, ())[0] if it.id in ids]
    old = [it for it in without if it.id not in hidden and is_old(it, forget_before)]
    newly = {
        state: [it for it in without if it.state != states[it.id] == state]
        for state in ("gone", "offline", "excluded")
    }
    return Changes(
        added=[(file, contents[file.path]) for file in new],
        updated=[(entry, file, contents.get(file.path)) for entry, file in kept],
        forgotten=old,
        merged=merged,
        **newly,
    )


def find_changes(
    known_files: Iterable[KnownFile],
    trees: Trees,
    read: Callable[[Iterable[FoundFile]], Contents],
    forget_before: str,
    equal: Callable[[Iterable[str | None]], Iterable[KnownFile]] = lambda samples: (),
    has_missing: bool = False,
    exclusion: Exclusion = NO_EXCLUSION,
) -> Changes:
    """Return what a scan means for the known files, of which what is needed is read.

    :param trees: by library folder; None for a folder that cannot be read.
    :param read: reads files, by path, but for those that cannot be read. Of one that
        still grows it gives None.
    :param forget_before: files gone since before this time are forgotten.
    :param equal: gives the entries of contents, wherever they are, the oldest first.
    :param has_missing: whether there are other entries that may be those of new files.
    """
    left = pair_unchanged(known_files, trees)
    if not (left.entries or has_missing):  # the rest is read later, in batches
        updated = [(*pair, None) for pair in left.updated]
        return Changes([(file, None) for file in left.files], updated)
    contents = dict(read(left.files))
    missed = [it for it in left.entries if it.is_touched or it.state == "here"]
    samples = {content.sample for content in contents.values() if content}
    others = [*equal(samples | {it.sample for it in missed})]
    while True:
        changes = compare(left, contents, others, trees, forget_before, exclusion)
        files = [twin.file for _, twin in changes.merged]
        # Where not all folders were read, it may be another file by now.
        if not (unread := [file for file in files if file.path not in contents]):
            return changes
        contents |= {file.path: None for file in unread} | dict(read(unread))


def mark_lost(
    gone: Sequence[KnownFile], trees: Trees, counts: Mapping[str, int]
) -> list[KnownFile]:
    """Return what is gone, all that a folder misses at once with a volume's name of its
    own: perhaps it was not deleted, though its disk is there.
    :param counts: of the files that were here, by library folder."""
    lost = collections.Counter(entry.file.folder for entry in gone)
    whole = [folder for folder, tree in trees.items() if tree and tree.is_whole()]
    names = {
        folder: LOST + new_id()
        for folder in whole
        if lost[folder] >= max(MIN_MISSING, counts.get(folder, 0) / 4)
    }
    return [with_volume(entry, names, entry.file.folder) for entry in gone]


# Scanner: uses by clients ---


def has_room(client: socket.socket) -> bool:
    """Return whether a client has taken so much that the system would take more."""
    with selectors.DefaultSelector() as selector:
        with contextlib.suppress(OSError, ValueError):  # it was closed meanwhile
            selector.register(client, selectors.EVENT_WRITE)
        return bool(selector.select(0))


class FileUse(NamedTuple):
    path: str
    folder: str  # of the library
    client: socket.socket | None  # which the use may wait for
    began: float  # monotonic seconds

    def is_stuck(self) -> bool:
        """Return whether it takes long, and not because the client takes nothing."""
        is_long = time.monotonic() - self.began > MAX_USE_SECONDS
        return is_long and (self.client is None or has_room(self.client))


class FileUses:
    """What threads of calls read and write for clients. The scanner asks the disks of
    uses that fail, or do not end."""

    def __init__(self) -> None:
        self._running: dict[int, FileUse] = {}
        self._failed: dict[str, str] = {}  # library folders by path

    @contextlib.contextmanager
    def record(
        self, path: str, folder: str, client: socket.socket | None = None
    ) -> Iterator[None]:
        """Record a block that uses a file or folder, perhaps to send to a client."""
        use = FileUse(path, folder, client, time.monotonic())
        self._running[id(use)] = use
        try:
            yield
        except OSError as error:
            if has_failed(error):
                self._failed[path] = folder
            raise
        finally:
            del self._running[id(use)]

    def suspects(self) -> Iterator[tuple[str, str]]:
        """Yield path and library folder of what has failed since the last call, and of
        what takes long."""
        for use in self._running.copy().values():
            if use.is_stuck():
                self._failed[use.path] = use.folder
        for path in [*self._failed]:  # not what fails meanwhile: that has its turn
            yield path, self._failed.pop(path)


# Scanner: state of a scan ---


class Stopped(BaseException):
    """The scanner was told to stop while it scanned. As KeyboardInterrupt, this is no
    error to be logged."""


UNREAD: Row = {"state": "unread", "problem": "", "files": 0, "scanned_at": None}
UNREAD["watched"] = False


@dataclasses.dataclass
class ScanState:
    """How far a scan is, or what the last one found."""

    scanning: bool = False
    files: int = 0  # found so far
    read: int = 0  # files so far
    started: str | None = None
    finished: str | None = None
    next: str | None = None  # when the next one begins, if nobody asks before
    result: str = ""  # what the last one changed, see summary
    problem: str = ""  # why the last one failed, if it did
    # Library folders by path, each with its path, state, problem (why it is offline),
    # number of files, scanned_at (when it, or a part of it, was read last), and watched
    # (whether the system reports its changes).
    folders: dict[str, Row] = dataclasses.field(default_factory=dict)
    # Disks that are offline below library folders: path, since when, how many entries,
    # id of the volume. Or files that are missing though their disk is there.
    disks: list[Row] = dataclasses.field(default_factory=list)
    passed_over: list[str] = dataclasses.field(default_factory=list)  # "3 links"

    def problems(self) -> dict[str, str]:
        """Return why library folders are offline, by path."""
        problems = {path: folder["problem"] for path, folder in self.folders.items()}
        return {path: problem for path, problem in problems.items() if problem}


class GrowingFile(NamedTuple):
    facts: tuple[int, int]  # size and mtime
    since: float  # monotonic seconds, from which on they were the same
    is_paused: bool = False  # it was quiet, and hollow


class GrowingFiles:
    """The files that have changed lately: they are not read before they are quiet. A
    copy that pauses is quiet, too: it waits for its next change, or for a day."""

    def __init__(self, settle: float, clock: Now) -> None:
        """:param settle: seconds without a change, after which a file is quiet."""
        self.settle, self.clock = settle, clock
        self.files: dict[str, GrowingFile] = {}  # by path
        self._before = self.files  # those of the last scan

    def begin_scan(self, tops: Iterable[str]) -> None:
        """Forget those below these folders, unless the scan finds them again."""
        self._before, self.files = self.files, outside(self.files, tops)

    def is_quiet(self, path: str, now: os.stat_result, is_polled: bool) -> bool:
        """Return whether a file was left alone for a while: by its mtime, or, where
        that is in the future as on a NAS with another clock, by comparing it with what
        it was. One that is not quiet is remembered.
        :param is_polled: no event tells that it was changed or closed."""
        facts, at = (now.st_size, stored_mtime(now)), time.monotonic()
        file = self.files.get(path) or self._before.get(path)
        if file is None or file.facts != facts:
            file = GrowingFile(facts, at)
        wait = max(self.settle, POLLED_SETTLE_SECONDS) if is_polled else self.settle
        pause = MAX_PAUSE_SECONDS if file.is_paused else wait
        is_left_alone = at - file.since >= pause
        is_old = not file.is_paused and self.clock() - now.st_mtime >= wait
        if not (is_left_alone or is_old):
            self.files[path] = file
        return is_left_alone or is_old

    def pause(self, file: FoundFile) -> bool:
        """Return whether a hollow file that was quiet is to wait, as it has not waited
        for a day."""
        facts, before = (file.size, file.mtime), self._before.get(file.path)
        if before and before.is_paused and before.facts == facts:
            return False
        self.files[file.path] = GrowingFile(facts, time.monotonic(), is_paused=True)
        return True

    def settled(self, folder: str, is_polled: bool, is_due: bool) -> set[str]:
        """Return the folders, in this one, of those that are quiet now, or gone.
        :param is_due: ask also for those that are paused."""
        return {
            os.path.dirname(path)
            for path in self.below(folder, is_due)
            if self._settled(path, is_polled)
        }

    def below(self, folder: str, is_due: bool) -> list[str]:
        return [
            path
            for path, file in self.files.items()
            if is_below(path, folder) and (is_due or not file.is_paused)
        ]

    def _settled(self, path: str, is_polled: bool) -> bool:
        try:
            paths = part_paths(path)[0] if is_joined(path) else [path]
            return self.is_quiet(path, joined_stat([*map(os.stat, paths)]), is_polled)
        except OSError:
            return True


class Images:
    """Covers and icons that were read, and wait to be written."""

    max_bytes = 4 * 1024 * 1024  # that wait

    def __init__(self, entries: Entries, warn: Callable[[str, str], None]) -> None:
        self.entries, self.warn = entries, warn
        self.covers: dict[str, str] = {}  # paths of those to be read, by digest
        self._waiting: dict[str, bytes] = {}  # by digest

    def add_cover(self, file: FoundFile | TitleImage) -> bool:
        """Read a file's cover, unless it was read for another file. Return whether that
        was possible."""
        path = self.covers.pop(file.cover or "", None)
        if path is None:
            return True
        try:
            with open_file(path, file.folder) as opened:
                image = opened.read(MAX_COVER_BYTES)
        except OSError as error:
            self.warn(path, f"is not shown: {refusal(error)}.")
            return False
        self.add(image, file.cover)
        return True

    def add(self, image: bytes, cover: str | None = None) -> dict[str, str]:
        """Return the metadata of an image; nothing for what is no picture.
        :param cover: its digest, where that is not of the content."""
        if not is_picture(image):
            return {}
        digest = cover or content_digest(image)
        self._waiting[digest] = image
        if sum(map(len, self._waiting.values())) > self.max_bytes:
            self.write()
        return {"icon": digest}

    def write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self.entries.icons.add(waiting)


# Scanner: threads ---


class Lasting:
    """A thread that goes on: it calls `work` until that returns or, with a `period`,
    again and again. An exception is logged, and told by `has_failed` until the work has
    been begun again, or with a period has been done. Any thread may call `stop`."""

    again_seconds = 60.0  # from a failure to the next call, where there is no period

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        period: float | None = None,
        wake: threading.Event | None = None,
    ) -> None:
        """:param period: seconds from the end of a call to the next one
        :param wake: ends that pause; no other thread clears it"""
        self.name, self._work, self._period = name, work, period
        self._wake, self._over = wake or threading.Event(), threading.Event()
        self.has_failed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """:raises RuntimeError: the system starts no more threads."""
        self._thread.start()

    def _run(self) -> None:
        pause = self.again_seconds if self._period is None else self._period
        while not self._over.is_set():
            self.has_failed = self.has_failed and self._period is not None
            self.has_failed = not self._has_worked()
            if self._period is None and not self.has_failed:
                break
            self._wake.wait(pause)
            self._wake.clear()

    def _has_worked(self) -> bool:
        try:
            self._work()
            return True
        except Problem as problem:
            log.warning("The thread %s failed: %s", self.name, problem)
        except BaseException:  # whatever it is, the thread goes on
            log.exception("The thread %s failed.", self.name)
        return False

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self, wait: float | None = None) -> bool:
        """Begin no more work. Return whether the thread has ended after `wait` seconds:
        it may be held up by a disk, was not started, or asks this itself."""
        self._over.set()
        self._wake.set()
        if self._thread.is_alive() and not self.is_current():
            self._thread.join(wait)
        return not self._thread.is_alive()


# Scanner: disks ---


class Asker:
    """Asks a disk or a server, each time in a thread of its own: a call to one that
    does not answer may never end. One thread at a time calls all but `tick`."""

    max_silence = 25.0  # seconds without a tick, after which it does not answer

    def __init__(self) -> None:
        self._last = Future[Any]()
        self._last.set_result(None)
        self._ticked = 0.0  # monotonic seconds
        self._is_silent = False

    def tick(self) -> None:
        self._ticked = time.monotonic()

    def ask(self, read: Callable[[], Any]) -> Future[Any]:
        """Begin to read, unless the last call has not returned.
        :raises RuntimeError: the system starts no more threads."""
        answer = Future[Any]()
        self._is_silent = not self._last.done()
        if self._is_silent:
            answer.set_exception(TimeoutError())
            return answer

        def run() -> None:
            try:
                answer.set_result(read())
            except BaseException as error:
                answer.set_exception(error)

        self.tick()
        threading.Thread(target=run, name="asker", daemon=True).start()
        self._last = answer
        return answer

    def wait(
        self, answer: Future[Any], check: Callable[[], None], seconds: float = math.inf
    ) -> Any:
        """Return what was read.

        :param check: is called now and then.
        :param seconds: without a tick, after which not to wait, as after `max_silence`.
        :raises TimeoutError: it does not answer, or not yet.
        """
        while not concurrent.futures.wait([answer], 0.1).done:
            check()
            silence = time.monotonic() - self._ticked
            if silence >= min(seconds, self.max_silence):
                self._is_silent = True  # even if it answers just now
                raise TimeoutError
        return answer.result()

    def is_late(self) -> bool:
        """Return whether it has not answered yet, and may still do so."""
        silence = time.monotonic() - self._ticked
        return not self._last.done() and silence < self.max_silence

    def has_given_up(self) -> bool:
        return not self._last.done() and not self.is_late()

    def answers_again(self) -> bool:
        return self._is_silent and self._last.done()


class Askers:
    """Asks several at once, and waits for none that is silent. Any thread may call."""

    def __init__(self) -> None:
        self._askers: dict[str, Asker] = collections.defaultdict(Asker)
        self._lock = threading.Lock()

    def ask(
        self, calls: Mapping[str, Callable[[], Any]], seconds: float
    ) -> dict[str, Any]:
        """Return what each call gives, by its name, or the OSError that it raises:
        TimeoutError where it takes longer, or where the last one still does."""
        with self._lock:
            answers = {name: self._askers[name].ask(calls[name]) for name in calls}
            concurrent.futures.wait(answers.values(), seconds)
        results: dict[str, Any] = {}
        for name, answer in answers.items():
            try:
                results[name] = answer.result(0)
            except OSError as error:
                results[name] = error
        return results


class Disks:
    """Reads the library folders, and keeps what is wrong with them in the scanner's
    state. The scanner's thread calls it; `_walk`, the `work` of `each`, and what they
    call run in the threads of disks."""

    def __init__(
        self, entries: Entries, settings: Settings, state: ScanState, count: Count
    ) -> None:
        """:param count: counts files, and raises Stopped when the scan should end."""
        self.entries = entries
        self.types = settings.extensions
        self.state = state
        self.count = count
        self.folders = library_folders(settings.folders)
        self.watchers = {folder: Watcher(folder, self.types) for folder in self.folders}
        self.exclusion = Exclusion(settings.exclude, self.folders)
        self.passed_over: dict[str, PassedOver] = {}  # by path
        self.growing = GrowingFiles(settings.settle, entries.database.clock)
        self.images = Images(entries, self.warn)
        self.unreadable: dict[str, int] = {}  # sizes of files with an error, by path
        self.has_skipped = False  # whether a file could not be read in this scan
        self.has_scanned = False  # all folders, once
        self.uses = FileUses()
        self.inbox = Inbox(entries.database, settings, state, self.uses)
        state.folders = {path: {"path": path, **UNREAD} for path in self.folders}
        # By library folder.
        self.askers: dict[str, Asker] = collections.defaultdict(Asker)
        self._failed: dict[str, str] = {}  # library folders by path of what fails
        self._mount_table = mount_table()
        self._warnings: set[str] = set()  # of this scan, and of the one before: each
        self._previous_warnings: set[str] = set()  # is logged once

    def begin_scan(self) -> None:
        """Forget what was wrong before the last scan of all folders."""
        self._previous_warnings, self._warnings = self._warnings, set()

    def trees(self, tops: Iterable[str], is_service: bool) -> dict[str, Tree | None]:
        """Return what is below these folders, by library folder; None for a folder that
        cannot be read. To the service, one that is late is left out: `changed` tells
        when it has answered, or is given up.
        :param is_service: watch the folders that are read whole, and tidy the inbox."""
        answers = {}
        for folder in self.folders:
            if below := [top for top in tops if is_below(top, folder)]:
                begins = is_service and folder in below
                walk = functools.partial(self._walk, folder, below, begins)
                # It may always be slow: one that was late is waited for.
                is_hasty = is_service and not self.askers[folder].answers_again()
                seconds = MAX_DELAY_SECONDS if is_hasty else math.inf
                answers[folder] = self.askers[folder].ask(walk), seconds
        trees = {folder: self._tree(folder, *answers[folder]) for folder in answers}
        problems = self.state.problems()
        return {at: tree for at, tree in trees.items() if tree or at in problems}

    def _walk(self, folder: str, tops: Sequence[str], begins: bool) -> Tree:
        disk, watcher = self.askers[folder], self.watchers[folder]

        def tick(files: int) -> None:
            disk.tick()
            self.count(files)

        if begins:
            watcher.start()
            self.inbox.tidy(folder)
        try:
            tree = walk(folder, self.types, tick, watcher.add, tops, self.exclusion)
            self._leave_out_failed(tree)
            return tree
        except OSError:
            watcher.await_folder()
            raise

    def _leave_out_failed(self, tree: Tree) -> None:
        """Leave out of a tree what is listed and cannot be read: a file, or all of a
        disk of which no file can. :raises OSError: that is the library folder's."""
        listed = {file.path: file for file in tree.files}
        folder, is_whole = tree.library_folder, tree.is_whole()
        failed = [path for path in self._failed.copy() if is_below(path, folder)]
        for path in [path for path in failed if is_whole or path in listed]:
            if path not in listed or not is_failing(path, folder):
                del self._failed[path]
                continue
            volume = listed[path].volume
            beside = [file.path for file in tree.files if file.volume == volume]
            if not all(is_failing(other, folder) for other in beside[:3]):
                tree.unreadable.add(path)
                tree.files.remove(listed[path])
            elif volume == next(iter(tree.volumes.values())):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            else:
                tree.files = [file for file in tree.files if file.volume != volume]
                names = tree.volumes.items()
                tree.volumes = {path: name for path, name in names if name != volume}

    def _failing(self, is_due: bool) -> set[str]:
        """Return the library folders with files that clients could not use, and that
        fail again. :param is_due: also those where that was so before."""
        folders = {*self._failed.values()} if is_due else set()
        for path, folder in self.uses.suspects():
            work = functools.partial(self._check_failing, path, folder)
            if self._soon(folder, work, False):
                folders.add(folder)
        return folders

    def _soon(self, folder: str, work: Callable[[], Any], late: Any) -> Any:
        """Return what a disk gives soon, or else `late`: `changed` tells when it has
        answered, or is given up."""
        disk = self.askers[folder]
        try:
            return disk.wait(disk.ask(work), self.count, MAX_DELAY_SECONDS)
        except TimeoutError:
            return late

    def _check_failing(self, path: str, folder: str) -> bool:
        """Note and return whether a file fails or, for a folder, a file in it."""
        below = (item for item in self.entries.files([path]) if item.state == "here")
        path = next((item.file.path for item in below), path)
        if fails := is_failing(path, folder):
            self._failed[path] = folder
        return fails

    def _tree(self, folder: str, answer: Future[Any], seconds: float) -> Tree | None:
        disk = self.askers[folder]
        try:
            tree: Tree = disk.wait(answer, self.count, seconds)
        except OSError as error:
            if isinstance(error, TimeoutError):
                self.watchers[folder].stop()
            if not disk.is_late() and not disk.answers_again():
                is_known = folder in self.entries.folders.file_counts()
                self._set_problem(folder, why_offline(folder, error, is_known))
            return None
        self.state.folders[folder]["scanned_at"] = self.entries.database.time()
        self._warn_of(tree)
        self._keep_passed_over(tree)
        if tree.is_whole():
            is_known = folder in self.entries.folders.file_counts()
            is_emptied = is_known and tree.is_empty()
            problem = say("folder_empty", folder) if is_emptied else ""
            self._set_problem(folder, problem, len(tree.files))
        return tree

    def _set_problem(self, folder: str, problem: str, files: int = 0) -> None:
        """:param problem: why a library folder is offline, "" where it is not"""
        status = self.state.folders[folder]
        if status["problem"] != problem:
            level = logging.WARNING if problem else logging.INFO
            log.log(level, "%s", problem or f"{folder} is back.")
        status["state"] = "offline" if problem else "online"
        status.update(problem=problem, files=files)

    def _warn_of(self, tree: Tree) -> None:
        if tree.unreadable:
            first, more = min(tree.unreadable), len(tree.unreadable) - 1
            also = f", nor can {more} more in {tree.library_folder}" if more else ""
            self.warn(first, f"cannot be read{also}. The entries in it wait.")
        misnamed = "is not served: its name is not valid UTF-8. Rename it."
        for path, passed in tree.passed_over.items():
            if passed.kind == "passed_misnamed":
                self.warn(path, misnamed)

    def _keep_passed_over(self, tree: Tree) -> None:
        self.passed_over = outside(self.passed_over, tree.tops) | tree.passed_over
        counts = collections.Counter(it.kind for it in self.passed_over.values())
        kinds = (kind for kind in SENTENCES if kind in counts)
        self.state.passed_over = [say(kind, counts[kind]) for kind in kinds]

    def warn(self, path: str, what: str) -> None:
        message = f"{escaped(path)} {what}"
        if message not in self._warnings | self._previous_warnings:
            log.warning("%s", message)
        self._warnings.add(message)

    def each(self, files: Iterable[Any], work: Callable[[Any], Any]) -> dict[str, Any]:
        """Return what the work gives for each file, by path, but for those of disks
        that do not answer. A file has a path and a folder."""
        results: dict[str, Any] = {}

        def run(disk: Asker, group: Iterable[Any]) -> None:
            for file in group:
                disk.tick()
                results[file.path] = work(file)

        of = operator.attrgetter("folder")
        for folder, group in itertools.groupby(sorted(files, key=of), of):
            disk = self.askers[folder]
            answer = disk.ask(functools.partial(run, disk, [*group]))
            try:
                disk.wait(answer, self.count)
            except TimeoutError as error:
                self.has_skipped = True
                self._set_problem(folder, why_offline(folder, error, is_known=True))
        return results.copy()  # a disk may answer later

    def read(self, files: Iterable[FoundFile]) -> dict[str, FileContent | None]:
        """Return contents by path, or None of files that grow. What cannot be read, or
        is on a disk that does not answer, is left out."""
        files = [*files]
        read = self.each(files, self._read)
        for file in files:
            content = read.get(file.path)
            if content and self._is_paused(file, content):
                read[file.path], self.has_skipped = None, True
        return {at: it for at, it in read.items() if it or at not in self.unreadable}

    def _is_paused(self, file: FoundFile, content: FileContent) -> bool:
        """Return whether a new file is a copy that may go on. What is listed stays, as
        does what was there before the service, or came whole to the inbox."""
        if not content.is_hollow or not self.has_scanned:
            return False
        sql = "state != 'gone' AND (path = ? OR sample = ?)"
        is_listed = self.entries.known(sql, file.path, content.sample)
        is_whole = is_listed or file.path in self.inbox.added
        return not is_whole and self.growing.pause(file)

    def _read(self, file: FoundFile) -> FileContent | None:
        self.count(read=1)
        try:
            with open_file(file.path, file.folder) as handle:
                now = handle.stat()
                is_polled = self.watchers[file.folder].is_polling()
                if self.growing.is_quiet(file.path, now, is_polled):
                    return self._content(file.path, handle, now.st_size)
        except OSError as error:
            self.warn(file.path, f"is not served: {refusal(error)}.")
            self.unreadable[file.path] = file.size
        self.has_skipped = True
        return None

    def _content(self, path: str, handle: DiskFile, size: int) -> FileContent:
        facts = file_facts(path, handle, size)
        if handle.parts:
            facts |= split_facts(handle, facts)
        facts |= self.images.add(facts.pop("icon", b""))
        digest, is_hollow = sample(handle, size)
        if is_hollow:  # unless they are behind its end
            data = file_facts(path, handle, size - HOLLOW_BYTES)
            facts["complete"] = data.get("complete", False)
        return FileContent(digest, facts, is_hollow)

    def read_covers(self, files: Iterable[FoundFile | TitleImage]) -> None:
        """Read the covers of these files that no other file has, and write them with
        the icons that were read."""
        wanted = [file for file in files if file.cover in self.images.covers]
        if not all(self.each(wanted, self.images.add_cover).values()):
            self.has_skipped = True
        self.images.write()

    def changed(self, is_due: bool) -> list[str]:
        """Return the folders below which is to be read now.
        :param is_due: whether a scan is due of what is not watched."""
        # First: to ask a disk forgets that it was late.
        tops = {folder for folder in self.folders if self._has_news(folder)}
        tops |= self._failing(is_due)
        before, self._mount_table = self._mount_table, mount_table()
        if self.inbox.changed:
            tops.add(self.inbox.changed)
            self.inbox.changed = ""
        for folder, watcher in self.watchers.items():
            tops |= watcher.changed(is_due)
            if before != self._mount_table and watcher.is_mounted_otherwise():
                tops.add(folder)
            if self.growing.below(folder, is_due):
                given = folder, watcher.is_polling(), is_due
                settled = functools.partial(self.growing.settled, *given)
                tops |= self._soon(folder, settled, set())
        return outermost(tops)

    def _has_news(self, folder: str) -> bool:
        """Return whether a disk that was late has answered, or is given up now."""
        disk, is_known = self.askers[folder], folder in self.state.problems()
        return disk.answers_again() or (disk.has_given_up() and not is_known)

    def unwatch(self) -> None:
        for folder, watcher in self.watchers.items():
            watcher.stop()
            self.state.folders[folder]["watched"] = False


# Scanner: the thread ---


class Scanner:
    """Keep the store in sync with the library folders."""

    list_seconds = 5  # between two changes of the list in one scan
    check_seconds = 1.0  # between checks for events of the system, each perhaps logged
    retry_seconds = 60.0  # at most, after a scan that failed, or a folder that did

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.database = store.database
        self.entries = store.entries
        self.settings = settings
        self.state = ScanState()
        self.disks = Disks(store.entries, settings, self.state, self._count)
        self.folders = self.disks.folders
        # Whom a scan tells now and then how far it is.
        self.tick: Callable[[ScanState], None] = lambda state: None
        self._listed = time.monotonic()  # when the list changed last
        self._last_scanned: Any = None  # what the last scan has compared
        self._scan_due = time.monotonic() + settings.scan_interval
        self._retry_due = time.monotonic() + self.retry_seconds
        self._wake = threading.Event()  # set: a scan is asked for
        self._is_answering = False  # the scan that runs was asked for
        self._stopping = False
        self.thread = Lasting("scanner", self._run)

    def scan(self, tops: Sequence[str] = ()) -> Changes:
        """Scan the library folders once, write what changed, and return that.

        :param tops: folders, to read only what is below them.
        :raises Conflict: another process scans, and does not end in a minute.
        """
        tops = outermost(map(self._above, tops or self.folders))
        with exclusive(self.database.folder, "scan", wait=60):
            if tops == self.folders:
                self._scan_due = time.monotonic() + self.settings.scan_interval
                self.disks.begin_scan()
            self.state.scanning, self.state.started = True, self.database.time()
            self.state.files = self.state.read = 0
            try:
                trees = self.disks.trees(tops, self.thread.is_current())
                read = [top for top in tops if any(is_below(top, at) for at in trees)]
                changes = self._read_and_write(trees, read)
            finally:
                self.state.scanning = False
            counts = self.entries.folders.file_counts()
            for path, status in self.state.folders.items():
                status["files"] = counts.get(path, 0)
                status["watched"] = self.disks.watchers[path].is_watching()
            self.state.disks = self._offline_disks()
            self.state.result = summary(changes, len(self.disks.growing.files))
            self.state.finished, self.state.problem = self.database.time(), ""
        return changes

    def _offline_disks(self) -> list[Row]:
        """Return the disks, or folders, below library folders that are offline."""
        disks = []
        for disk in self.entries.folders.offline_disks():
            ends = [disk.pop("first"), disk.pop("last")]
            if not disk.pop("has_others"):  # all of the disk is away, not only a file
                ends = [os.path.dirname(path) for path in ends]
            path, folder = os.path.commonpath(ends), disk.pop("folder")
            is_missing = disk["id"].startswith(LOST)
            if is_missing or not is_below(path, folder):
                path = folder
            disks.append({"path": path, **disk, "missing": is_missing})
        return disks

    def give_up(self, volume: str) -> None:
        """Wait no more for a disk that is offline."""
        self.entries.give_up(volume)
        self.state.disks = self._offline_disks()
        self.rescan()

    def _count(self, files: int = 0, read: int = 0) -> None:
        """Count files. :raises Stopped: the scan should end."""
        if self._stopping:
            raise Stopped
        self.state.files += files
        self.state.read += read
        self.tick(self.state)

    def _above(self, top: str) -> str:
        """Return the folder above one that is excluded, or may be a split file, and
        others as they are: what is beside it tells what it is."""
        is_named = file_type(top) in self.disks.types and top not in self.folders
        is_named |= bool(self.disks.exclusion.pattern(top))
        return os.path.dirname(top) if is_named else top

    def _read_and_write(self, trees: Trees, tops: Sequence[str]) -> Changes:
        self.disks.growing.begin_scan(tops)
        digest = hash(tuple(tree and tree.contents_hash() for tree in trees.values()))
        forget_before = self.database.expiry(self.settings.forget_after)
        facts = digest, forget_before[:13]  # which is another one each hour
        if self._last_scanned == (*facts, self.entries.list_version()):
            return Changes()
        # What could not be read is tried again.
        unreadable = self.disks.unreadable
        for path in {*unreadable.copy()} - {*outside(unreadable, tops)}:
            unreadable.pop(path, None)
        self.disks.has_skipped = False
        self.disks.images.covers = {}
        for tree in filter(None, trees.values()):
            self.disks.images.covers |= tree.covers
        changes = self._write(self._find_changes(trees, tops, forget_before))
        has_images = self._write_images(trees)
        if has_images or any(changes):
            self.entries.icons.drop(listed=has_images)
        read = [tree for tree in trees.values() if tree and tree.is_whole()]
        # One that is empty may be a mount point.
        whole = (tree.library_folder for tree in read if tree.files)
        self.entries.folders.set_scanned(whole)
        if tops == self.folders:
            updated = [*changes.updated, *self._read_outdated()]
            changes = changes._replace(updated=updated)
            self.disks.has_scanned = True
        if not (self.disks.has_skipped or changes.merged):
            self._last_scanned = (*facts, self.entries.list_version())
        return changes

    def _find_changes(
        self, trees: Trees, tops: Sequence[str], forget_before: str
    ) -> Changes:
        known_files = self.entries.files(None if tops == self.folders else tops)
        folders = self.entries.folders
        has_missing = folders.has_missing_entries()
        given = self.disks.read, forget_before, self.entries.equal, has_missing
        changes = find_changes(known_files, trees, *given, self.disks.exclusion)
        gone = mark_lost(changes.gone, trees, folders.file_counts())
        return changes._replace(gone=gone)

    def _write(self, changes: Changes) -> Changes:
        """Write the changes, and return those that were. The new files come in batches:
        a first scan may take long, and they can be seen and sent before it ends."""
        self.disks.images.write()  # the icons of files that have changed
        others = changes._replace(added=())
        if any(others):
            self.entries.apply(others)
        added: list[tuple[FoundFile, None]] = []
        for batch in batches(changes.added):
            read = self.disks.read(file for file, content in batch if not content)
            contents = [(file, old or read.get(file.path)) for file, old in batch]
            files = [(file, content) for file, content in contents if content]
            self.disks.read_covers(file for file, _ in files)
            # Each change of the list costs those who poll it.
            is_due = time.monotonic() - self._listed >= self.list_seconds
            is_due |= batch[-1] is changes.added[-1]
            self.entries.add_files(files, listed=is_due)
            added += [(file, None) for file, _ in files]
            if is_due:
                self._listed = time.monotonic()
        return changes._replace(added=added)

    def _read_outdated(self) -> Iterator[tuple[KnownFile, FoundFile, FileContent]]:
        """Read the files again whose facts an older program read, and yield those that
        could be. What is read stays so, also where the scan is stopped."""
        for batch in batches(self.entries.outdated()):
            contents = self.disks.read(item.file for item in batch)
            self.disks.images.write()
            pairs = [(item, contents.get(item.file.path)) for item in batch]
            read = [(item, item.file, content) for item, content in pairs if content]
            self.entries.apply(Changes(updated=read))
            yield from read

    def _write_images(self, trees: Trees) -> bool:
        """Write which images have a title id, and read those of titles that are here,
        and covers that could not be read before. Return whether anything has changed.
        What is on a disk that is away stays."""
        icons, before = self.entries.icons, self.entries.icons.of_titles()
        trees = {**dict.fromkeys(self.folders), **trees}
        read = [tree for tree in trees.values() if tree]
        images = {image.path: image for tree in read for image in tree.title_images}
        for path, image in before.items():
            if image.folder in trees and not image_is_gone(image, trees[image.folder]):
                images.setdefault(path, image)
        if images != before:
            icons.set_of_titles(images.values())
        waiting = self.disks.images.covers
        waiting |= {image.cover: image.path for image in images.values()}
        covers = {*waiting}
        unread = icons.unread(covers)
        self.disks.read_covers(unread)
        return images != before or icons.unread(covers) != unread

    # The thread

    def start(self) -> None:
        spare_memory()
        self.thread.start()

    def stop(self, wait: float | None = None) -> bool:
        """Return whether the thread has ended after `wait` seconds. A disk that does
        not answer may hold it up."""
        self._stopping = True
        self._wake.set()
        return self.thread.stop(wait)

    def rescan(self) -> None:
        """Scan now, without waiting for it."""
        self._wake.set()

    def is_asked(self) -> bool:
        """Return whether a scan that was asked for has not ended."""
        return self._wake.is_set() or self._is_answering

    def _run(self) -> None:
        tops: Sequence[str] = self.folders
        with contextlib.suppress(Stopped):
            while True:
                self._count()
                with logged_problems("The scan failed"):
                    self._scan_and_log(tops)
                if time.monotonic() >= self._retry_due:
                    self._retry_due = time.monotonic() + self.retry_seconds
                due = self.database.clock() + self._scan_due - time.monotonic()
                folders = self.state.folders.values()
                is_watched = all(folder["watched"] for folder in folders)
                self.state.next = None if is_watched else stamp(due)
                spare_memory()
                tops = self._wait()
        self.disks.unwatch()

    def _scan_and_log(self, tops: Sequence[str]) -> None:
        began = time.monotonic()
        try:
            changes = self.scan(tops=tops)
        except BaseException as error:
            self.state.problem = str(error) or type(error).__name__
            self.disks.unwatch()  # all is read when the next scan is due
            self._scan_due = min(self._scan_due, time.monotonic() + self.retry_seconds)
            raise
        finally:
            self._is_answering = False
        if any(changes):
            text = f"Scanned in {time.monotonic() - began:.1f} s: {self.state.result}."
            # Why files are offline was logged.
            if not self.state.problems() or any(changes._replace(offline=())):
                log.info("%s", text)
            self.database.shrink()

    def _wait(self) -> Sequence[str]:
        """Return the folders below which to scan, once something is to be read there or
        a scan is asked for. :raises Stopped:"""
        while True:
            self._count()
            now = time.monotonic()
            if is_due := now >= self._scan_due:
                self._scan_due = now + self.settings.scan_interval
            tops = self.disks.changed(is_due)
            if is_due or now >= self._retry_due:
                tops = outermost([*tops, *self.state.problems()])
            if tops:
                return tops
            left = max(self._scan_due - time.monotonic(), 0)
            if self._wake.wait(min(left, self.check_seconds)):
                self._is_answering = True
                self._wake.clear()
                return self.folders


# Scanner: what is told of it ---


def why_offline(folder: str, error: OSError, is_known: bool) -> str:
    """Return what is wrong with a library folder.
    :param is_known: it was served before."""
    if isinstance(error, FileNotFoundError) and not is_known:
        return say("folder_missing", folder)
    if isinstance(error, TimeoutError):
        return say("folder_silent", folder)
    if not isinstance(error, PermissionError):
        return say("folder_offline", folder, refusal(error))
    if IS_PACKAGED and is_below(folder, "/home"):
        return say("folder_in_home", folder)
    return say("folder_unread", folder, refusal(error))


def progress(counts: Mapping[str, Any]) -> str:
    return f"{counts['files']} files found, {counts['read']} read"


@contextlib.contextmanager
def logged_problems(what: str) -> Iterator[None]:
    """Log what goes wrong in the block, and go on after it."""
    try:
        yield
    except Problem as problem:
        log.warning("%s: %s", what, problem)
    except Exception:
        log.exception("%s.", what)


def summary(changes: Changes, growing: int) -> str:
    """Return a text such as "3 added, 1 gone", for a log or a terminal.

    :param growing: number of files that are not read yet.
    """
    counts = {what: len(files) for what, files in changes._asdict().items()}
    texts = [f"{count} {what}" for what, count in counts.items() if count]
    if growing:
        texts.append(f"{growing} still being copied")
    return ", ".join(texts) or "nothing changed"


def scan_state(scanner: Scanner, age: int = EVERYTHING) -> dict[str, Any]:
    """Return what is known of scans and of the library folders: to those who do not see
    every title neither folders, nor how many files are in them."""
    is_asked = scanner.is_asked()  # first: what it has found is there then
    scan = scanner.state if age == EVERYTHING else ScanState()
    folders = [{**it, **coded(it["problem"])} for it in scan.folders.values()]
    passed = [{"message": text, **coded(text)} for text in scan.passed_over]
    told = vars(scan) | {"folders": folders, "passed_over": passed}
    return told | {"asked": is_asked, **coded(scan.problem)}


# Inbox ------------------------------------------------------------------------
# The one folder that files are added to: pieces of uploads, and what comes of them. It
# may use files and all that is above, and knows no HTTP.

UPLOAD_KEY = ("account", "name", "size", "modified")
UPLOAD_DAYS = 3  # that an unfinished upload is kept for
UPLOAD_SECONDS = 600  # after its last piece it keeps the room that it needs
MAX_UPLOADS = 20  # of an account that are unfinished
MAX_ENDED_UPLOADS = 1000  # whose last answer is known
PART = ".catalogd-{}.part"  # has what came of the upload with this id
IS_PART = re.compile(r"\.catalogd-([0-9a-f]+)\.part").fullmatch
MAX_READ_BYTES = 1024 * 1024  # at once


def share(file: io.FileIO, folder: str) -> None:
    """Give a new file the group of its folder, which may write to it, whatever the
    umask."""
    if os.open in os.supports_dir_fd:  # not on Windows
        os.fchmod(file.fileno(), 0o664)
        group = os.stat(folder).st_gid
        if os.fstat(file.fileno()).st_gid != group:
            os.fchown(file.fileno(), -1, group)


def sync_names(folder: str) -> None:
    """Have the names of a folder's files on the disk."""
    if os.open in os.supports_dir_fd:  # not on Windows
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_piece(file: io.FileIO, offset: int, body: IO[bytes]) -> int:
    """Write a body at the end of a file, have it on the disk, and return where it ends.
    What cannot be written whole is taken back."""
    try:
        while block := body.read(MAX_READ_BYTES):
            while block:
                block = block[file.write(block) :]
        os.fsync(file.fileno())
        return file.tell()
    except OSError:
        with contextlib.suppress(OSError):  # its disk may be away
            file.truncate(offset)
        raise


def are_equal(file: str, other: str) -> bool:
    """Return whether two files are the same in every byte. The other may be missing,
    or a link, which is no file."""
    with contextlib.suppress(OSError):
        return not is_link(other) and filecmp.cmp(file, other, shallow=False)
    return False


class Inbox:
    """The folder that people may add files to, from the page. Threads of calls use it,
    the scanner's, and for `tidy` that of the disk.

    A file grows as a hidden .part, whose size is the offset of the next piece. When it
    is whole, it gets the first name that is free."""

    def __init__(
        self, database: Database, settings: Settings, state: "ScanState", uses: FileUses
    ) -> None:
        """:raises BadSetting: no scan would find what is in the inbox."""
        self.path = path = absolute(settings.inbox) if settings.inbox else ""
        folders = library_folders(settings.folders)
        self.folder = next((top for top in folders if is_below(path, top)), "")
        self.exclusion = Exclusion(settings.exclude, folders)
        below = pathlib.PurePath(path[len(self.folder) :]).parts
        is_passed_over = any(map(is_hidden, below)) or self.exclusion.pattern(path)
        if path and (is_passed_over or not self.folder):
            reason = "is in no library folder, or is hidden or excluded."
            raise BadSetting(f"[library] inbox: {path} {reason}")
        self.clock, self.uploads = database.clock, Uploads(database)
        self.settings, self._state, self._uses = settings, state, uses
        self.changed = ""  # the path to scan below, as its disk spells it, and
        self.added: set[str] = set()  # those of files that came whole
        # What the last piece was answered, by id.
        self._ended = Recent[Row](MAX_ENDED_UPLOADS)
        # By id: whose it is, and monotonic seconds of the last piece.
        self.accounts = {it["id"]: it["account"] for it in self.uploads.all()}
        self._continued: dict[str, float] = {}
        self._running: set[str] = set()  # ids of what is written now
        self._lock = threading.Lock()  # of that, and of parts that are made

    def facts(self, caller: Caller) -> Row:
        """Return which files a caller may add. :raises NotFound, Forbidden: none."""
        if not self.path:
            raise NotFound("no_inbox")
        is_for_all = self.settings.inbox_for != "admins" and caller.age == EVERYTHING
        if not caller.admin and not is_for_all:
            raise Forbidden("admins_only")
        return {"types": self.settings.extensions, "max_cover_bytes": MAX_COVER_BYTES}

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        """:raises StorageFull, StorageFailed: the block could not use the disk, or a
        part of the path is a link."""
        try:
            with self._uses.record(self.path, self.folder):
                unlinked_path(self.folder, os.path.relpath(self.path, self.folder))
                yield
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise StorageFailed("inbox_missing") from error
            kind = StorageFull if error.errno == errno.ENOSPC else StorageFailed
            reason = error.strerror or say("inbox_is_file")
            raise kind("inbox_failed", reason) from error

    def _part(self, upload: str) -> str:
        return os.path.join(self.path, PART.format(upload))

    def _open_part(self, upload: str, flags: int = 0) -> io.FileIO:
        """Open the part of an upload to write."""
        flags |= OPEN_FLAGS | os.O_RDWR
        return io.FileIO(os.open(self._part(upload), flags, 0o664), "rb+")

    def begin(self, account: int, name: str, size: int, modified: int = 0) -> Row:
        """Return id and offset of an upload: of that which this account has begun for
        this file, or of a new one. :raises Problem: the file cannot be added."""
        name = safe_name(name)
        is_cover = name.lower().endswith(COVERS) and size <= MAX_COVER_BYTES
        is_listed = file_type(name) in {*self.settings.extensions} - {*UNFINISHED}
        if is_hidden(name) or not (is_cover or is_listed):
            raise Problem("bad_file_type")
        if pattern := self.exclusion.pattern(os.path.join(self.path, name)):
            raise Problem("name_excluded", pattern)
        file = (account, name, size, modified)
        with self._open(), self._lock:
            if self.folder in self._state.problems():
                raise StorageFailed("inbox_offline")
            by_file = {tuple(map(it.get, UPLOAD_KEY)): it for it in self._all()}
            begun = by_file.get(file, {"id": "", "offset": 0})
            is_new, count = file not in by_file, [key[0] for key in by_file]
            if is_new and count.count(account) >= MAX_UPLOADS:
                raise Conflict("many_uploads", MAX_UPLOADS)
            self._check_room(begun["id"], size - begun["offset"])
            upload = self.uploads.begin(*file)
            self.accounts[upload] = account
            with self._open_part(upload, os.O_CREAT) as part:
                share(part, self.path)
                return {"id": upload, "offset": part.seek(0, os.SEEK_END)}

    def _all(self) -> Iterator[Row]:
        """Yield the uploads that are not whole, each with its "offset": the bytes of it
        that are there."""
        for upload in self.uploads.all():
            with contextlib.suppress(FileNotFoundError):
                yield {**upload, "offset": os.path.getsize(self._part(upload["id"]))}

    def unfinished(self, account: int | None = None) -> list[Row]:
        """Return the uploads of an account that are not whole, or with None of all."""
        with self._open():
            return [it for it in self._all() if account in (None, it["account"])]

    def _keeps_room(self, upload: str) -> bool:
        """Return whether a piece of an upload has come lately."""
        since = self.clock.monotonic() - UPLOAD_SECONDS
        return self._continued.get(upload, -math.inf) > since

    def _check_room(self, upload: str, wanted: int) -> None:
        """Check that there is room for an upload beside those that keep theirs."""
        others = (it for it in self._all() if it["id"] != upload)
        kept = [it for it in others if self._keeps_room(it["id"])]
        self._check_space(wanted, sum(it["size"] - it["offset"] for it in kept))

    def _check_space(self, wanted: int, reserved: int = 0) -> None:
        """:param wanted: bytes. :raises StorageFull: there are fewer to be had."""
        free = shutil.disk_usage(self.path).free - self.settings.keep_free * 1e9
        if (more := wanted + reserved - free) > 0:
            raise StorageFull("inbox_full", f"{more / 1e6:.1f} MB")

    @contextlib.contextmanager
    def _turn(self, account: int | None, upload: str) -> Iterator[Row]:
        """Let one call at a time change an upload. :raises Busy, NotFound:"""
        with self._lock:
            if upload in self._running:
                raise Busy("upload_busy")
            self._running.add(upload)
        try:
            yield self.uploads.get(account, upload)
        finally:
            self._running.discard(upload)

    def append(self, account: int, upload: str, offset: int, body: IO[bytes]) -> Row:
        """Write a piece of an upload, and return the offset of the next one. The last
        piece gives the file its name, or drops it where an equal file has that: the
        answer tells the name then. What is answered is on the disk.

        :raises WrongOffset: the piece does not begin where the one before it ends.
        :raises Problem: it cannot be written.
        """
        if ended := self._ended.get(upload):
            return ended
        with self._turn(account, upload) as facts, self._open():
            if not os.path.lexists(self._part(upload)):
                raise NotFound("upload_gone")
            with self._open_part(upload) as part:
                length, begun = body.seek(0, os.SEEK_END), part.seek(0, os.SEEK_END)
                body.seek(0)
                if offset != begun:
                    raise WrongOffset(begun)
                if offset + length > facts["size"]:
                    raise Problem("long_upload")
                if self._keeps_room(upload):
                    self._check_space(length)
                else:
                    self._check_room(upload, facts["size"] - begun)
                offset = write_piece(part, offset, body)
                if length:
                    self._continued[upload] = self.clock.monotonic()
            return {"offset": offset} if offset < facts["size"] else self._end(facts)

    def _end(self, facts: Row) -> Row:
        """Give a whole file its name, or drop it where an equal file has that."""
        part = self._part(facts["id"])
        wait = max(self.settings.settle, POLLED_SETTLE_SECONDS)
        quiet = self.clock() - wait - 1  # to be scanned at once
        modified = min(facts["modified"] / 1000 or quiet, quiet)
        others = (safe_name(facts["name"], mark=f" ({n})") for n in itertools.count(2))
        names = itertools.chain([facts["name"]], others)
        while True:
            path = os.path.join(self.path, name := next(names))
            is_equal = are_equal(part, path)
            with contextlib.suppress(FileExistsError):
                if not is_equal:
                    self._name(part, path, modified)
                break
        ended = {"offset": facts["size"], "name": name, "is_equal": is_equal}
        self._ended[facts["id"]] = ended
        self._remove(facts["id"])
        return ended

    def _name(self, part: str, path: str, modified: float) -> None:
        """Give a whole file its name, and have that on the disk. The part may stay, as
        another name of the file. :raises FileExistsError: any program took the name."""
        try:
            os.link(part, path, follow_symlinks=False)
        except OSError:  # it is taken, or there are no links, as on exFAT
            with self._lock:  # an empty file that takes the name would outlive a kill
                if os.path.lexists(path):
                    raise FileExistsError(path) from None
                os.rename(part, path)
        os.utime(path, (modified, modified))
        sync_names(self.path)
        folder = spelled(self.folder, self.path)
        self.added.add(os.path.join(folder, os.path.basename(path)))
        self.changed = folder

    def drop(self, account: int | None, upload: str) -> None:
        """Remove an upload of the account, or with None of any, that is not whole.
        :raises Problem:"""
        with self._turn(account, upload), self._open():
            self._remove(upload)

    def _remove(self, upload: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._part(upload))
        self.uploads.remove(upload)
        for by_id in (self.accounts, self._continued):
            by_id.pop(upload, None)

    def tidy(self, folder: str) -> None:
        """Before a scan of a library folder, remove uploads whose part is gone and, if
        the clock is right, those that were not continued for days."""
        if not self.path or folder != self.folder:
            return
        is_sure, now = self.clock.is_believed(), self.clock()
        with contextlib.suppress(Problem), self._open(), self._lock:
            names = os.listdir(self.path)
            parts = {part[1] for part in map(IS_PART, names) if part}
            # An empty folder may be the mount point of a disk that is away.
            uploads = {it["id"] for it in self.uploads.all()} if names else parts
            for upload in (parts | uploads) - self._running:
                if upload not in parts:
                    self._remove(upload)
                elif is_sure:
                    self._drop_old(upload, now)

    def _drop_old(self, upload: str, now: float) -> None:
        changed = os.lstat(self._part(upload)).st_mtime
        if stamp(changed) < FIRST_DAY:  # as Database.expiry has it
            os.utime(self._part(upload), (now, now))
        elif changed < now - UPLOAD_DAYS * 86400:
            self._remove(upload)


# Downloads --------------------------------------------------------------------
# Validators and ranges by RFC 9110, names by RFC 6266, and how bytes leave. It may use
# Problems, sockets, and the Scanner's records of uses: no SQL.


def matches(header: str, etag: str, weak: bool) -> bool:
    """Return whether an If-Match or If-None-Match header has the strong `etag`."""
    tags = re.findall(r'(W/)?("[^"]*")', header)
    is_tag = ("", etag) in tags or (weak and ("W/", etag) in tags)
    return is_tag or header.strip() == "*"


def http_date(text: str | None, default: float) -> float:
    """Return seconds since 1970, or the default if the text is no date."""
    try:
        date = email.utils.parsedate_to_datetime(text or "")
        return date.replace(tzinfo=date.tzinfo or datetime.UTC).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return default


def is_current(condition: str | None, etag: str, modified: int) -> bool:
    """Return whether an If-Range header has the file as it is: by its ETag, or by its
    time, if the file was not changed so lately that it could have changed since."""
    if condition is None or condition == etag:
        return True
    return http_date(condition, -1) == modified and modified < time.time() - 1


RANGE = re.compile(r"(?ai)bytes=(?:(\d{1,99})-(\d{,99})|-(\d{1,99}))")


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one after the last, or None where the header is to
    be ignored: it is malformed, or asks for several ranges.
    :raises NoSuchRange: none of the bytes exists."""
    bounds = RANGE.fullmatch(header.strip())
    if bounds is None:
        return None
    first, last, tail = bounds.groups()
    if tail:
        start, stop = max(size - int(tail), 0), size
    else:
        start, stop = int(first), int(last) + 1 if last else size
    if (last and stop <= start) or (tail and not size):  # ignored by RFC 9110
        return None
    if start >= size:
        raise NoSuchRange(size)
    return start, min(stop, size)


def evaluate(
    sent: Callable[[str], str | None], etag: str, modified: int, size: int, method: str
) -> tuple[int, int, int]:
    """Return the status that a request for a file gets by RFC 9110 section 13.2.2, the
    first byte and the one after the last.

    :param sent: returns a header of the request.
    :param modified: the file's time in seconds.
    :raises NoSuchRange: none of the bytes that it asks for exists.
    """
    tags, date = sent("If-Match"), http_date(sent("If-Unmodified-Since"), math.inf)
    is_wanted = modified <= date if tags is None else matches(tags, etag, weak=False)
    if not is_wanted:
        return 412, 0, size
    tags, date = sent("If-None-Match"), http_date(sent("If-Modified-Since"), -1)
    is_known = modified <= date if tags is None else matches(tags, etag, weak=True)
    if is_known:
        return 304, 0, size
    found = None
    if method == "GET" and is_current(sent("If-Range"), etag, modified):
        found = byte_range(sent("Range") or "", size)
    return (206, *found) if found else (200, 0, size)


def attachment(name: str) -> str:
    """Return a Content-Disposition for any file name, by RFC 6266."""
    name = INVISIBLE.sub("", name)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^ !#$&+.0-9A-Z\[\]^_`a-z{}~()@,=\'-]", "_", plain)
    exact = urllib.parse.quote(name, safe="", errors="replace")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"


# Downloads: bytes that leave ---


class Served:
    """The bytes of a file that have left, over any number of connections. Those were
    taken by the system's network stack; a little may still be lost on the way."""

    max_ranges = 1000  # separate ones; a range beyond these is not counted

    def __init__(self, size: int = 0, line: str = "") -> None:
        """:param line: of the log, once all bytes of a file of this size have left:
        whether the console installed them, nobody knows."""
        self.size, self.line = size, line
        self.ranges: list[tuple[int, int]] = []  # first byte, the one after the last
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The number of bytes that have left, each counted once."""
        return sum(stop - start for start, stop in self.ranges)

    def add(self, start: int, stop: int) -> None:
        with self._lock:
            apart = []
            for first, last in self.ranges:
                if last < start or stop < first:
                    apart.append((first, last))
                else:
                    start, stop = min(first, start), max(last, stop)
            if len(apart) < self.max_ranges:
                self.ranges = sorted([*apart, (start, stop)])
            if self.line and self.bytes == self.size:
                log.info("%s", self.line)
                self.line = ""


MIN_PIECE_BYTES = 256 * 1024  # that one call of sendfile is to send
MAX_PIECE_BYTES = 4 * 1024 * 1024
PIECE_SECONDS = 0.5  # what has left of a file is known to about this time


RecordUse = Callable[..., contextlib.AbstractContextManager[Any]]  # see FileUses


def next_piece(sent: int, seconds: float) -> int:
    """Return the number of bytes to send next, after so many took so long. Since the
    first ones only fill buffers, it grows by a quarter at most."""
    pace = sent / max(seconds, PIECE_SECONDS / 1.25)
    return min(max(int(pace * PIECE_SECONDS), MIN_PIECE_BYTES), MAX_PIECE_BYTES)


def let_kernel_wait(sock: socket.socket, seconds: float) -> None:
    """On Linux, have each call that sends wait for the client in the kernel, which
    raises BlockingIOError after this time. Python would run for every few KiB."""
    if sys.platform == "linux":
        option = socket.SOL_SOCKET, socket.SO_SNDTIMEO
        # An emulated system may know no such option, and Python waits on.
        with contextlib.suppress(OSError):
            # Seconds and microseconds: on systems of 32 bits, Debian 12 has them in as
            # many each, Debian 13 in 64.
            layout = "=qq" if len(sock.getsockopt(*option, 16)) == 16 else "=ll"
            limit = struct.pack(layout, *divmod(int(seconds * 1e6), 1_000_000))
            sock.setsockopt(*option, limit)
            sock.settimeout(None)


class Content(DiskFile):
    """A file that is sent to a client."""

    served: Served | None = None
    record: RecordUse = contextlib.nullcontext  # each read

    def send(self, sock: socket.socket, size: int, timeout: float) -> None:
        """Send the next bytes, and count them as they leave.
        :raises OSError: the client is gone or takes nothing for this time, or the file
            cannot be read or ends before, which is logged."""
        start, piece = self.tell(), MIN_PIECE_BYTES
        stop = start + size
        try:
            while start < stop:
                began = time.monotonic()
                limit, end = min(piece, stop - start), began + timeout
                sent = self._send_some(sock, start, limit, end)
                if not sent:
                    raise OSError(f"the file ends at byte {start}")
                if self.served is not None:
                    self.served.add(start, start + sent)
                start += sent
                piece = next_piece(sent, time.monotonic() - began)
        except OSError as error:
            if not isinstance(error, ConnectionError | TimeoutError):
                log.warning("A download was cut off: %s.", error.strerror or error)
            raise

    def _send_some(self, sock: socket.socket, start: int, size: int, end: float) -> int:
        """Wait until the client takes bytes, and return their number."""
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError), self.record(sock):
                return self._send_piece(sock, start, size)
        raise TimeoutError("The client takes nothing.")

    def _send_piece(self, sock: socket.socket, start: int, size: int) -> int:
        # It would not wait where Python does: see let_kernel_wait.
        if hasattr(os, "sendfile") and not sock.gettimeout():
            try:
                return os.sendfile(sock.fileno(), *self.place(start, size))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):  # a file system's
                    raise
        self.seek(start)
        return sock.send(self.read(min(size, MAX_READ_BYTES)))


class SplitContent(SplitFile, Content):
    """A split file that is sent to a client."""


CONTENT = Content, SplitContent


# Server -----------------------------------------------------------------------
# All that touches waitress: its main loop accepts connections and reads requests,
# groups of threads answer them, and each download has a thread of its own.
# It may use sockets, threads, Content, and the errors of HTTP, but no Store.

# Returns which threads answer a call, by its method and path: OWN_THREAD, "workers" (of
# which there are `[server] threads`), or a name in THREAD_GROUPS.
Runs = Callable[[str, str], str]
OWN_THREAD = "own thread"
THREAD_GROUPS = {  # number of threads
    "lists": 1,  # one makes the list that the others wait for
    "passwords": 1,  # one costly hash at a time
    "writes": 8,  # calls that may wait for the database's write lock
}
MAX_LONG_BODY_BYTES = 8 * 1024 * 1024  # of a piece of an upload
MAX_LONG_BODIES = 3  # at once, in memory; beyond, pieces are as short as other bodies
MAX_LONG_BODIES_EACH = 2  # of an account
MAX_CHUNK_LINE_BYTES = 1024  # what is not whole is copied for each byte that comes
MAX_TRAILER_BYTES = 4096
MAX_RECEIVED_BYTES = 64 * 1024  # by one call
MAX_HEAD_SECONDS = 20  # from the first byte of a request to the end of its head
MAX_BODY_SECONDS = 60  # from the first byte of a request to the end of its body
MAX_DRAIN_SECONDS = 5  # how long a refused client may keep sending
THREADS_HINT = "Raise the limit of threads (TasksMax) or of memory."
MAX_STOP_SECONDS = 2  # how long a stop waits for threads to end
UNLIMITED = 1 << 40  # bytes
PROXY_HEADERS = "x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port"


# The thread that calls `Server.run` is the main loop. It accepts connections, reads
# requests, closes sockets, and alone calls the methods below, but for these: a thread
# that answers calls `service`, `write_soon` and `send` of its Channel, and `add_task`
# for the request after it. Any thread may call `hang_up` and `stop`.


# Server: requests ---


class RequestParser(waitress.parser.HTTPRequestParser):
    adj: Any
    command = path = ""  # also of a request whose head is malformed
    completed: bool
    # With the accounts that upload them, while in memory.
    long_bodies: ClassVar[Any] = weakref.WeakKeyDictionary()

    def received(self, data: bytes) -> int:
        # waitress copies what comes after a chunk for each chunk.
        part = data[:MAX_CHUNK_LINE_BYTES] if self.chunked else data
        consumed: int = super().received(part)
        self.expect_continue &= not self.completed  # no body to ask the client for
        if self.chunked and not self.completed:
            line, trailer = len(self.body_rcv.control_line), len(self.body_rcv.trailer)
            if line > MAX_CHUNK_LINE_BYTES or trailer > MAX_TRAILER_BYTES:
                self.error = waitress.utilities.BadRequest("A line is too long.")
                self.completed = True
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(checked_head(header_plus))
            self.path.encode("latin-1").decode("utf-8")
        except ValueError as error:  # int() and urlsplit() raise it too
            raise waitress.parser.ParsingError(str(error)) from error
        if self.command == "PATCH" and self.content_length > MAX_BODY_BYTES:
            self._allow_long_body()

    def _allow_long_body(self) -> None:
        """Take a piece of an upload, whose id only who began it knows, and only so many
        at once."""
        account = self.adj.uploader(self.path) if "COOKIE" in self.headers else None
        held = [*self.long_bodies.values()]
        is_own = account is not None and held.count(account) < MAX_LONG_BODIES_EACH
        if is_own and len(held) < MAX_LONG_BODIES:
            self.long_bodies[self] = account
            self.adj = copy.copy(self.adj)
            self.adj.max_request_body_size = MAX_LONG_BODY_BYTES + 1
            self.body_rcv.getbuf().overflow = UNLIMITED


class ErrorTask(waitress.task.ErrorTask):
    """The answer to a malformed request. It quotes nothing: a key may be anywhere."""

    def execute(self) -> None:
        error = self.request.error
        log.info("%d from %s: %s", error.code, self.channel.addr[0], error.reason)
        self.status = f"{error.code} {error.reason}"
        self.response_headers = [*JSON_HEADERS.items()]
        self.request.headers["CONNECTION"] = "close"
        code, message = HTTP_ERRORS[error.code]
        body = json_body(False, error=code, message=message, **coded(message))
        self.content_length = len(body)
        self.write(b"" if self.request.command == "HEAD" else body)
        self.close_on_finish = self.channel.is_refused = True


class Task(waitress.task.WSGITask):
    def build_response_header(self) -> bytes:
        if self.status.startswith("401"):  # what follows would be further guesses
            self.request.headers["CONNECTION"] = "close"
        return bytes(super().build_response_header())

    def finish(self) -> None:
        """Keep the connection after an answer without a body, which waitress closes."""
        bodyless = self.request.command == "HEAD" or not self.has_body
        asked = self.request.headers.get("CONNECTION", "").lower()
        keep = bodyless and self.version == "1.1" and asked != "close"
        self.response_headers += [("Connection", "keep-alive")] if keep else []
        super().finish()
        self.close_on_finish &= not keep


# Server: connections ---


class Channel(waitress.channel.HTTPChannel):
    """A connection. The main loop leaves it alone while a thread answers its request.
    Only a thread that sends a file waits for the client: a pipelined request is held
    until the answer before it has left."""

    task_class, error_task_class, parser_class = Task, ErrorTask, RequestParser
    request: Any = None  # the one that is being read
    is_held = False  # a request waits until the answer before it has left
    is_refused = False  # a request was refused, and the connection ends
    is_draining = False  # what a refused client still sends is dropped
    has_hung_up = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.subject = address_subject(self.addr[0])
        self.request_began = -math.inf
        self.waiting_since = self.sent_at = time.monotonic()
        self.server.make_room(self)

    def received(self, data: bytes) -> bool:
        if self.request_began < self.waiting_since:
            self.request_began = time.monotonic()
        return not self.is_draining and bool(super().received(data))

    def writable(self) -> bool:
        is_answered = self.requests and not self.is_held
        return not is_answered and bool(super().writable())

    def handle_write(self) -> None:
        super().handle_write()
        if self.is_held and not self.total_outbufs_len:
            self.is_held = False
            self.server.add_task(self)

    def handle_close(self) -> None:
        """Close the socket. After a refusal wait for the client to close it first: to
        close it with unread data resets it, and the client would not get the answer."""
        has_answer = self.is_refused and self.connected  # that the client may not have
        if not has_answer or self.is_draining:
            return self.close()
        self.is_draining, self.will_close, self.request = True, False, None
        return self.hang_up(socket.SHUT_WR)

    def close(self) -> None:
        super().handle_close()
        if self.request is not None:
            self.request.close()  # its body may be in a file

    def hang_up(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection: the main loop notices it and closes the socket, a thread
        that sends a file gets an error."""
        self.has_hung_up = how == socket.SHUT_RDWR
        with contextlib.suppress(OSError):  # the client was faster
            if own := self.socket:  # else the main loop was
                own.shutdown(how)

    def refuse(self, status: int) -> None:
        """Answer the first request with an error, and end the connection."""
        self.requests[0].error = error = waitress.utilities.Error("")
        error.code, error.reason = status, http.client.responses[status]
        self.server.add_task(self)

    def is_waiting(self) -> bool:
        """Return whether it is the client's turn to send."""
        return not self.requests and not self.total_outbufs_len

    def check_deadlines(self, now: float) -> None:
        """Refuse a request, or hang up on a client, that takes too long."""
        timeout = MAX_DRAIN_SECONDS if self.is_draining else self.adj.channel_timeout
        if not self.is_waiting():
            if self.total_outbufs_len and now - self.sent_at > timeout:
                self.hang_up()
        elif self.request is not None:
            in_body = self.request.headers_finished
            seconds = MAX_BODY_SECONDS if in_body else MAX_HEAD_SECONDS
            if now - max(self.request_began, self.waiting_since) > seconds:
                self.requests, self.request = [self.request], None
                self.refuse(408)
        elif now - self.waiting_since > timeout:
            self.hang_up()

    def service(self) -> None:
        super().service()
        self.waiting_since = time.monotonic()

    def send(self, data: bytes, do_close: bool = True) -> int:
        is_loop = threading.get_ident() == self.server.loop_thread
        sent: int = super().send(data, do_close and is_loop)
        self.sent_at = time.monotonic() if sent else self.sent_at
        return sent

    def write_soon(self, data: Any) -> int:
        """Queue bytes to send, or send a file and wait for the client."""
        if self.will_close:
            raise waitress.channel.ClientDisconnected
        file = getattr(data, "file", None)
        if not isinstance(file, Content):
            return int(super().write_soon(data))
        timeout, size = self.adj.channel_timeout, data.remain  # above 2 GiB, no `len`
        self.socket.settimeout(timeout)
        try:
            with self.outbuf_lock:
                self._flush_some(do_close=False)  # the head
            let_kernel_wait(self.socket, timeout / 8)  # several times a call
            with file:
                file.send(self.socket, size, timeout)
        except OSError as error:
            self.hang_up()
            raise waitress.channel.ClientDisconnected from error
        finally:
            self.socket.settimeout(0)
            self.waiting_since = time.monotonic()
        return int(size)


# Server: main loop ---


class Server(waitress.server.TcpWSGIServer):
    """The service at its address, from `run` until `stop`."""

    _door: socket.socket | None = None  # that listens at another port

    channel_class = Channel

    def __init__(
        self, sock: socket.socket, app: Any, settings: Settings, runs: Runs
    ) -> None:
        """:param sock: it listens at the address."""
        self._settings, self._runs = settings, runs
        self.loop_thread, self._next_check, self._is_stopping = 0, 0.0, False
        self._trigger_pulled = threading.Event()
        super().__init__(
            app,
            _sock=sock,
            dispatcher=self,
            sockinfo=(sock.family, sock.type, sock.proto, sock.getsockname()),
            bind_socket=False,
            ident=None,
            max_request_body_size=MAX_BODY_BYTES + 1,
            inbuf_overflow=MAX_BODY_BYTES // 4,  # of a longer body, into a file
            max_request_header_size=MAX_HEAD_BYTES,
            outbuf_overflow=UNLIMITED,  # never into a file
            outbuf_high_watermark=UNLIMITED,  # no thread waits for a client
            recv_bytes=MAX_RECEIVED_BYTES,
            channel_timeout=settings.timeout,
            clear_untrusted_proxy_headers=True,
            trusted_proxy=settings.trusted_proxy or "none",
            trusted_proxy_headers=PROXY_HEADERS,
        )
        self.shown_port = int(self.effective_port)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._lock = threading.Lock()  # of _own_threads
        self._own_threads: dict[threading.Thread, Channel] = {}
        self._groups: dict[str, Any] = {}
        for name, count in {**THREAD_GROUPS, "workers": settings.threads}.items():
            self._groups[name] = waitress.task.ThreadedTaskDispatcher()
            self._groups[name].set_thread_count(count)

    def run(self) -> bool:
        """Serve until `stop` is called. Return whether all threads have ended."""
        self.loop_thread = threading.get_ident()
        while not self._is_stopping:
            waitress.wasyncore.loop(1, use_poll=True, map=self._map, count=1)
        self._trigger_pulled.wait()  # it must not be pulled after it is closed
        if self._door:
            self._door.close()
        self.socket.close()  # for the next catalogd: a thread may wait for a disk
        if has_ended := self._end_threads():
            waitress.wasyncore.close_all(self._map)
        return has_ended

    def stop(self) -> None:
        """End `run`. Any thread may call it, and a signal handler."""
        if not self._is_stopping:
            self._is_stopping = True
            self.pull_trigger()
            self._trigger_pulled.set()

    def _end_threads(self) -> bool:
        deadline = time.monotonic() + MAX_STOP_SECONDS
        with self._lock:
            downloads = {**self._own_threads}
        for channel in downloads.values():
            channel.hang_up()
        for thread in downloads:
            thread.join(max(deadline - time.monotonic(), 0))
        for group in self._groups.values():
            group.shutdown(timeout=max(deadline - time.monotonic(), 0))
        return not (self._own_threads or any(g.threads for g in self._groups.values()))

    def add_task(self, channel: Channel) -> None:
        """Pass a connection's first request to the threads that answer it."""
        request = channel.requests[0]
        runs = "workers" if request.error else self._runs(request.command, request.path)
        if channel.total_outbufs_len:
            channel.is_held = True
        elif runs == OWN_THREAD:
            self._start_thread(channel)
        else:
            self._groups[runs].add_task(channel)

    def _start_thread(self, channel: Channel) -> None:
        thread = threading.Thread(target=self._answer, args=(channel,), daemon=True)
        thread.name = OWN_THREAD
        with self._lock:
            if self._is_stopping:
                return
            try:
                thread.start()
                self._own_threads[thread] = channel
            except RuntimeError as error:
                log.error("A download was refused: %s. %s", error, THREADS_HINT)
                channel.refuse(503)

    def _answer(self, channel: Channel) -> None:
        try:
            channel.service()
        finally:
            with self._lock:
                del self._own_threads[threading.current_thread()]

    def handle_error(self) -> None:
        log.exception("A connection could not be accepted.")

    def readable(self) -> bool:
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + 1
            for channel in list(self.active_channels.values()):
                channel.check_deadlines(now)
        return bool(self.accepting)

    def fix_addr(self, addr: Any) -> Any:
        return (addr[0].removeprefix("::ffff:"), *addr[1:])  # IPv4 as such

    def also_listen(self, sock: socket.socket) -> None:
        """Accept what comes at another port, which is the one to show to people."""
        sock.setblocking(False)
        self._door, self.shown_port = sock, sock.getsockname()[1]
        self._map[sock.fileno()] = self

    def accept(self) -> Any:
        if found := super().accept():
            return found
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            return self._door and self._door.accept()

    def make_room(self, newcomer: Channel) -> None:
        """Where the address of a new connection has too many, or the server, end the
        one that waits longest."""
        address, limit = newcomer.addr[0], self._settings.connections
        channels = [one for one in self.active_channels.values() if not one.has_hung_up]
        crowd = [one for one in channels if one.subject == newcomer.subject]
        is_exempt = address == self._settings.trusted_proxy
        is_exempt |= ipaddress.ip_address(address).is_loopback
        if len(crowd) > max(limit // 4, 1) and not is_exempt:
            channels = crowd
        elif len(channels) <= limit:
            return
        waiting = [one for one in channels if one.is_waiting()]
        min(waiting, key=lambda channel: channel.waiting_since).hang_up()


# Consoles ---------------------------------------------------------------------
# Devices that this server serves itself: each has a process that runs the client. And
# what answers on the network when an admin looks for consoles.
# It may use processes, sockets, threads and the Store, and knows no HTTP.

CLIENT = "send_to_switch"  # the module that sends, and that devices fetch
CLIENT_CODE = f"import sys; sys.path.insert(0, sys.argv[1]); import {CLIENT};"
CLIENT_CODE += f" sys.exit({CLIENT}.run_by_server())"
WRONG_SETTING = 2  # an exit code of the client, which is final for this address
CLIENT_PROBLEMS = (WRONG_SETTING, 3, 4)  # after which its last line tells a person why
RESTART_SECONDS = 10.0  # before a process that ended is started again,
MAX_RESTART_SECONDS = 60.0  # twice as many each time, until one ran for longer
MAX_CONSOLE_STOP_SECONDS = 1.0
MAX_LEAVE_SECONDS = 30.0  # that the client of a removed device may take to tidy up
SEND_TRY_SECONDS = 120  # that a client tries its console often: after a send,
DIALOG_TRY_SECONDS = 10  # and after each look of the page at its device
TOLD = "\x1e"  # begins a line of the client for this server, see Screen.tell there
SAVE_PATH = re.compile(  # of a copy, below the folder for saves
    r"(?P<console>.*) \((?P<device>[0-9a-f]{16})\)/"
    r"(?P<path>(?P<title>.*)/(?P<name>.*)-[0-9a-f]{12}\.zip)"
)
SAVE_TITLE_AT = {86: 5, 128: 8}  # of JKSV and Sphaira, by the bytes of these facts
MAX_GREETING_SECONDS = 1.0  # that a server has to accept a connection, and to greet
MAX_GREETING_BYTES = 200
SEARCH_THREADS = 254
MAX_NETWORKS = 4
MAX_INTERFACES = 100
SIOCGIFCONF = 0x8912  # see netdevice(7)
BRIDGE = re.compile(rb"(docker|podman|cni|virbr|lxcbr|lxdbr|incusbr)|br-[0-9a-f]{12}$")


# Consoles: their programs ---


class ConsoleProgram(NamedTuple):
    """A program on consoles. "Add a device" asks the ports of its FTP server; the page
    has its words, where "Add a device" and the console addresses name it; the table in
    consoles.md, which tests/programs.py writes, has a row for it."""

    name: str
    scheme: str = ""  # of its target: "ftp" or "lan"
    # Of that, the usual one first, with what becomes of a file: it is installed at
    # once, or saves on the card ("keeps"), or "" where that is not known for sure.
    ports: Mapping[int, str] = {}
    folder: str = ""  # of the target
    has_user: bool = False  # it may have a name and a password
    greeting: str = ""  # what its FTP server greets with, where that is known
    note: str = ""  # what to do there before something is sent
    steps: Mapping[str, str] = {}  # to let it browse a console address
    line: str = ""  # what to enter there, with the address
    menu: str = ""  # of its own that lists the library


LEAVE_OPEN = "Choose Install over LAN, and leave it open."
ASK_SCREEN = " Its screen tells which port installs, and which one is the SD card."
FTPSRV_GREETING = "Service ready for new user"
CONSOLE_PROGRAMS = {
    "sphaira": ConsoleProgram(
        # It has ftpsrv in it.
        *("Sphaira", "ftp", {5000: "installs"}, "", False, FTPSRV_GREETING),
        note="Open Menu, then FTP Install, and leave it open. It installs what"
        " arrives.",
        steps={
            "open": "On the SD card, open the file /config/sphaira/mount/http.ini, or"
            " make it.",
            "enter": "Add these lines:",
            "choose": "In Sphaira, open the file browser, and choose Library among the"
            " mounts.",
        },
        line="[Library]\nurl={address}",
        menu="Ownfoil",
    ),
    "ftpsrv": ConsoleProgram(
        *("ftpsrv", "ftp", {21: "keeps"}, "/games", True, FTPSRV_GREETING),
        note="Open it, or let it run in the background. Files go to the folder games"
        " of the SD card.",
    ),
    "sysftpd": ConsoleProgram(
        *("sys-ftpd", "ftp", {5000: "keeps"}, "/games", True, "Hello!"),
        note="It runs in the background. Files go to the folder games of the SD card.",
    ),
    "kaihen": ConsoleProgram(
        *("kaiHEN", "ftp", {5000: "keeps"}, "/games", False, "kaiHEN SD FTP ready"),
        note="Turn on its FTP plugin. Files go to the folder games of the SD card.",
    ),
    "sw2transfer": ConsoleProgram(
        *("SW2Transfer", "ftp", {6700: "keeps"}, "/games", True),
        note="Open it, or let it run in the background. Files go to the folder games"
        " of the SD card.",
    ),
    "dbi": ConsoleProgram(
        *("DBI", "ftp", {6000: "", 5000: ""}, "/"),
        note=f"Choose Run FTP server, and leave it open.{ASK_SCREEN}",
        steps={
            "open": "On the SD card, open the file /switch/DBI/dbi.config.",
            "enter": "Add these lines:",
            "choose": "Start DBI, choose Library, and then what to install.",
        },
        line="[Network sources]\nLibrary=ApacheHTTP|{address}/",
    ),
    "cnx": ConsoleProgram(
        *("CNX", "ftp", {7000: "installs", 6000: "keeps"}, "/"),
        note="It is a pack with DBI in it. Start its FTP server, and leave it open."
        " Port 7000 installs, and port 6000 is the SD card.",
    ),
    # It keeps saves.
    "checkpoint": ConsoleProgram("Checkpoint", "ftp", {50000: ""}, greeting="Hello!"),
    "awoo": ConsoleProgram("Awoo", "lan", {2000: "installs"}, note=LEAVE_OPEN),
    "cyberfoil": ConsoleProgram(
        *("CyberFoil", "lan", {2000: "installs"}), note=LEAVE_OPEN, menu="Remote"
    ),
    "other": ConsoleProgram(
        *("Another installer", "lan", {2000: "installs"}),
        note="Choose the install from the network, and leave it open.",
    ),
    "tinfoil": ConsoleProgram(
        "Tinfoil and others",
        steps={
            "open": "In the program, open the list of its locations, shops or hosts,"
            " and add one. By reports of its users, Tinfoil does not start on firmware"
            " 21 and later.",
            "enter": "Enter this address. Leave the name and the password empty:",
            "choose": "Save, and go back: the library is in the list.",
        },
        line="{address}/",
    ),
}
FTP_PROGRAMS = {id: row for id, row in CONSOLE_PROGRAMS.items() if row.scheme == "ftp"}
FTP_PORTS = sorted({port for row in FTP_PROGRAMS.values() for port in row.ports})


def program_facts(program: ConsoleProgram) -> Row:
    """Return what the page's script needs of a program. The port is what stands after
    the host in its target: "" if it is that of a target without one."""
    usual = TARGETS[program.scheme].port if program.scheme else None
    port = next(iter(program.ports), None)
    facts = {name: getattr(program, name) for name in ("scheme", "folder", "line")}
    facts |= {"has_user": program.has_user, "is_choice": bool(program.note)}
    return {**facts, "port": "" if port == usual else f":{port}"}


def programs_at(port: int, greeting: str) -> list[str]:
    """Return the programs whose FTP server may greet so at a port: those that are known
    by their greeting, if one has it, and by their port, if one of them has that. At the
    port of such a one, another greeting is that of any FTP server."""
    near = [id for id, program in FTP_PROGRAMS.items() if port in program.ports]
    greets = [id for id, program in FTP_PROGRAMS.items() if program.greeting]
    greeted = [id for id in greets if FTP_PROGRAMS[id].greeting in greeting]
    if not greeted:
        return [] if {*near} & {*greets} else near
    return [id for id in greeted if id in near] or greeted


def does_at(port: int, programs: Iterable[str]) -> str:
    """Return what all of these programs do with a file at a port, "" where that is not
    known."""
    does = {FTP_PROGRAMS[id].ports.get(port, "") for id in programs}
    return does.pop() if len(does) == 1 else ""


# Consoles: processes ---


def client_module() -> Any:
    """Return what Python knows of the client's file, its importlib.ModuleSpec.
    :raises NotFound: this server does not have the client."""
    if spec := importlib.util.find_spec(CLIENT):
        return spec
    raise NotFound("no_client", CLIENT)


def client_command() -> list[str]:
    """Return the command that runs the client with its settings from a pipe.
    :raises NotFound:"""
    folder = os.path.dirname(client_module().origin)
    options = ["-I", "-X", "utf8", "-c", CLIENT_CODE, folder]
    return [sys.executable, *([CLIENT] if is_bundled() else options)]


class Console(Lasting):
    """Runs the client for one device, in a process of its own: that reads its settings
    from a pipe, and ends where the pipe does. The thread starts the process, and writes
    its lines to the log. Any thread may call `try_often` and `end`."""

    def __init__(self, consoles: "Consoles", device: Row) -> None:
        super().__init__("console", self.run)
        self.device = device
        self.known: set[str] = set()  # items that wait, of which the client was told
        self.look: Row = {}  # at the saves there, the last one
        self._unsaved: list[Row] = []  # what the look that goes on could not copy
        self._consoles = consoles
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()  # held to start, to write to and to kill it

    def run(self) -> None:
        pause = RESTART_SECONDS
        while not self._over.is_set():
            code, started_at = 1, time.monotonic()
            with logged_problems(f"Sending to {self.device['name']} failed"):
                code = self._send()
            ran = time.monotonic() - started_at
            if code in CLIENT_PROBLEMS or ran > MAX_RESTART_SECONDS:
                pause = RESTART_SECONDS
            self._over.wait(None if code == WRONG_SETTING else pause)
            pause = min(2 * pause, MAX_RESTART_SECONDS)
        self._consoles.forget(self)

    def _send(self) -> int:
        """Run the process until it ends, tell why as the device's state, and return the
        exit code."""
        command, line, self._unsaved = client_command(), "", []
        settings = self._consoles.settings_of(self.device)
        with self._lock:
            if self._over.is_set():
                return 0
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._write(json.dumps(settings))  # which it reads first
            # One that was stopped must not stop who writes to it: see _write.
            pipe: Any = process.stdin
            getattr(os, "set_blocking", lambda *of: None)(pipe.fileno(), False)
        with process:
            for line in map(str.rstrip, process.stdout or ()):
                log.info("%s: %s", self.device["name"], self._note_saves(line))
        if not self._over.is_set():
            code = process.returncode
            # The last line of a traceback may have a path; the log has all of it.
            cause = line.partition(": ")[0][:200] if code == 1 else f"exit code {code}"
            is_told = code in CLIENT_PROBLEMS
            cause = line[:200] if is_told else say("client_failed", cause)
            uses = self._consoles.store.accounts.uses
            uses.set_target_state(self.device["id"], cause)
        return process.returncode

    def _note_saves(self, line: str) -> str:
        """Return a line of the client for the log. Note what it reports of saves."""
        with contextlib.suppress(Problem):  # it is none of these
            match line[:1] == TOLD and json_object(line[1:].encode()):
                case {"saves": int() | None as n, "code": str(code), "arguments": of}:
                    return self._note_look(reported(code, of) or code, n)
        return line

    def _note_look(self, problem: str, copied: int | None) -> str:
        """Note what could not be copied and, where `copied` tells how many were, that
        the look has ended, and why it saw no more. Return a line for the log."""
        self._unsaved += [{"message": problem, **coded(problem)}] if problem else []
        if copied is None:
            return f"Saves: {problem}"
        failures = self.look.get("failures", 0) + 1 if problem else 0
        now = self._consoles.store.database.time()
        look = {"copied": copied, "looked_at": now, "failures": failures}
        self.look, self._unsaved = {**look, "problems": self._unsaved}, []
        return f"Saves: {copied} copied. {problem}".rstrip()

    def _write(self, line: str) -> None:
        """Write a line to the process. The lock is held."""
        with contextlib.suppress(OSError, ValueError):  # it has ended
            if self._process and self._process.stdin:
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()

    def try_often(self, seconds: int) -> None:
        """Let the client look at its queue now, and for a while at its console."""
        with self._lock:
            self._write(str(seconds))

    def leave(self) -> None:
        """Let the client remove what its console has of unfinished files, and end: it
        looks at its queue, and learns that its key was removed."""
        self._over.set()
        self.try_often(DIALOG_TRY_SECONDS)
        threading.Thread(target=self._end_late, name="leaving", daemon=True).start()

    def _end_late(self) -> None:
        self.stop(MAX_LEAVE_SECONDS)
        self.end()

    def end(self) -> None:
        self.stop(0)
        with self._lock:
            if self._process:
                self._process.kill()


class Consoles:
    """The devices that this server serves, with a Console for each. Any thread may
    call."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """:raises BadSetting: see folder_for_saves."""
        self.store = store
        self.saves = folder_for_saves(settings)
        self.address = ""  # of this service on this machine, "" before and after it
        self._folder = os.path.join(store.database.folder, "consoles")
        self._limits = settings.keep_free * 1e9, os.path.join(self._folder, "saves")
        self._running: dict[str, Console] = {}
        self._leaving: set[Console] = set()
        self._version = -1  # of the database, when it was looked at last
        self._lock = threading.Lock()  # of these two; it is taken before the store's

    def update(self) -> None:
        """Start, end and wake the clients of devices, as the database says."""
        with self._lock:
            version = self.store.database.data_version()
            if version == self._version or not self.address:
                return
            wanted = {device["id"]: device for device in self.store.devices.by_server()}
            for id in self._running.keys() - wanted.keys():
                self._leaving.add(self._running[id])
                self._running.pop(id).leave()
            for id, console in [*self._running.items()]:
                if client_target(wanted[id]) != client_target(console.device):
                    self._end([self._running.pop(id)])
                else:
                    console.device = wanted[id]  # perhaps with another name
            for id in wanted.keys() - self._running.keys():
                console = Console(self, wanted[id])
                console.start()
                self._running[id] = console
            self._wake()
            self._version = version  # what fails above is done again

    def _wake(self) -> None:
        for id, console in self._running.items():
            waiting = self.store.clients.pending(console.device["account"], key=id)
            items = {item["id"] for item in waiting}
            if items - console.known:
                console.try_often(SEND_TRY_SECONDS)
            console.known = items

    def forget(self, console: Console) -> None:
        """Remove what the client of a removed device has kept. Its thread calls this as
        the last."""
        if console in self._leaving:
            folder = os.path.join(self._folder, console.device["id"])
            shutil.rmtree(folder, ignore_errors=True)
            self._leaving.discard(console)

    def settings_of(self, device: Row) -> dict[str, Any]:
        """Return what a new client of a device needs, among it a key that nobody else
        knows. By its state it goes on with what the client before it was sending."""
        return {
            "server": self.address,
            "key": self.store.accounts.lend_key(device["id"]),
            "to": client_target(device),
            "state": os.path.join(self._folder, device["id"]),
            "saves": self.saves and [saves_folder(self.saves, device), *self._limits],
        }

    def looks(self) -> list[Row]:
        """Return the last look at the saves of each console that was looked at."""
        looks = [(it.device, it.look) for it in [*self._running.values()]]
        return [{"id": of["id"], "name": of["name"], **it} for of, it in looks if it]

    def try_often(self, device: str) -> None:
        """Let the client of a device look at its console: somebody waits for it."""
        if console := self._running.get(device):
            console.try_often(DIALOG_TRY_SECONDS)

    def end(self) -> bool:
        """End all, note how far they were, and return whether they ended in time."""
        with self._lock:
            self.address = ""
            with logged_problems("How far items are could not be written"):
                self.store.clients.write_figures()
            return self._end(self.threads())

    def threads(self) -> list[Console]:
        return [*self._running.values(), *self._leaving]

    @staticmethod
    def _end(consoles: Sequence[Console]) -> bool:
        for console in consoles:
            console.end()
        deadline = time.monotonic() + MAX_CONSOLE_STOP_SECONDS
        left = (max(deadline - time.monotonic(), 0) for _ in consoles)
        return all([*map(Console.stop, consoles, left)])


# Consoles: saves ---


def folder_for_saves(settings: Settings) -> str:
    """Return its absolute path, or "". :raises BadSetting: it is a library folder, or
    in one."""
    saves = absolute(settings.saves) if settings.saves else ""
    if any(is_below(saves, top) for top in library_folders(settings.folders)):
        raise BadSetting(f"[library] saves: {saves} is in a library folder.")
    return saves


def saves_folder(folder: str, device: Mapping[str, Any]) -> str:
    """Return where the client of a device puts its saves, also if it had another name
    before: below that, a folder a title, with a zip file a version."""
    with contextlib.suppress(OSError, StopIteration):  # its disk fails, or none yet
        return str(next(pathlib.Path(folder).glob(f"* ({device['id']})")))
    return os.path.join(folder, f"{safe_name(device['name'], 200)} ({device['id']})")


def kept_saves(folder: str, seen: Container[str] | None = None) -> list[Row]:
    """Return the saves in this folder, the newest first; in "", none. A time is that of
    the copy: consoles tell theirs in different ways.

    :param seen: ids and names of the only titles of which to return any."""
    copies: list[Row] = []
    for path in pathlib.Path(folder).glob("*/*/*.zip") if folder else ():
        below = path.relative_to(folder)
        copy = SAVE_PATH.fullmatch(below.as_posix())
        # It is a link, its disk fails, or it was removed just now.
        with contextlib.suppress(OSError, zipfile.BadZipFile):
            now = os.stat(unlinked_path(folder, str(below)))
            if copy and (seen is None or title_in(path, now.st_mtime_ns) in seen):
                save = {"size": now.st_size, "added_at": stamp(now.st_mtime)}
                copies.append(copy.groupdict() | save)
    return sorted(copies, key=operator.itemgetter("added_at"), reverse=True)


@functools.lru_cache(20_000)
def title_in(path: pathlib.Path, mtime: int) -> str:
    """Return the id of its title, in small letters, that JKSV or Sphaira noted in a zip
    file, or the one that Checkpoint puts before the name of the title's folder; else
    that name. :raises OSError, zipfile.BadZipFile: the disk fails."""
    try:
        with zipfile.ZipFile(path) as whole, whole.open(".nx_save_meta.bin") as file:
            facts = file.read(max(SAVE_TITLE_AT) + 1)
        return facts[SAVE_TITLE_AT[len(facts)] :][7::-1].hex()
    except Exception as error:  # of any kind: a zip file may have anything in it
        if getattr(error.__context__ or error, "errno", None):  # the disk's: it may
            raise  # pass, and is not cached
        return re.sub(r"^0x([0-9a-f]{16}).*", r"\1", path.parent.name.lower())


# Consoles: search ---


def find_consoles(
    networks: Iterable[ipaddress.IPv4Network], ports: Sequence[int]
) -> list[Row]:
    """Return the addresses in these networks at which an FTP server answers, each with
    its port, its greeting, and the programs that it may be and what they do. Installers
    are not looked for: they take a connection for the start of a transfer."""
    hosts = [str(host) for network in networks for host in network.hosts()]
    places = [(host, port) for host in hosts for port in ports]
    with concurrent.futures.ThreadPoolExecutor(SEARCH_THREADS) as pool:
        greetings = [*zip(places, pool.map(greeting_at, places), strict=True)]
    return [
        {"address": host, "port": port, "greeting": text, "programs": programs}
        | {"does": does_at(port, programs)}
        for (host, port), text in greetings
        if text is not None
        for programs in [programs_at(port, text)]
    ]


def greeting_at(place: tuple[str, int]) -> str | None:
    """Return what an FTP server at a host and port greets with, as far as that can be
    printed, or None where none answers. Source: RFC 959."""
    try:
        with socket.create_connection(place, timeout=MAX_GREETING_SECONDS) as call:
            first = call.recv(MAX_GREETING_BYTES)
            call.sendall(b"QUIT\r\n")
    except OSError:
        return None
    line = first.partition(b"\n")[0].decode(errors="replace")
    text = "".join(filter(str.isprintable, line))
    return text[4:].strip() if text.startswith("220") else None


def own_networks() -> list[ipaddress.IPv4Network]:
    """Return the 256 addresses around each private address of this machine."""
    networks = dict.fromkeys(
        ipaddress.IPv4Network((int(address), 24), strict=False)
        for address in own_addresses()
        if address.version == 4 and address.is_private and not address.is_loopback
    )
    return [*networks][:MAX_NETWORKS]


def own_addresses() -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses of this machine: on Linux the IPv4 ones of all interfaces
    but the bridges to its containers, see netdevice(7), elsewhere those of its name. No
    netlink socket is needed, which the service's sandbox forbids."""
    if sys.platform != "linux":
        with contextlib.suppress(OSError):  # the name has none
            hosts = socket.getaddrinfo(socket.gethostname(), None)
            return [*dict.fromkeys(ipaddress.ip_address(host[4][0]) for host in hosts)]
        return []
    import fcntl

    # struct ifreq
    host = struct.Struct("16s4x4s16x" if struct.calcsize("P") == 8 else "16s4x4s8x")
    hosts = ctypes.create_string_buffer(MAX_INTERFACES * host.size)
    request = struct.pack("iP", len(hosts), ctypes.addressof(hosts))  # struct ifconf
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        length, _ = struct.unpack("iP", fcntl.ioctl(sock, SIOCGIFCONF, request))
    found = [*host.iter_unpack(bytes(hosts)[:length])]
    own = [address for name, address in found if not BRIDGE.match(name.rstrip(b"\0"))]
    return [*map(ipaddress.ip_address, own)]


# Health -----------------------------------------------------------------------
# What the service has, what is wrong with it, and what time brings.
# It may use all that is above, and knows no HTTP.

MIN_FREE_BYTES = 100_000_000  # for the database and its copies; less is a fault
NO_SPACE = {"free": None, "used": None, "writable": False}


def space(folder: str) -> Row:
    """Return the bytes on the disk of a folder, and whether this user may write there.
    :raises OSError: it is not there."""
    usage = shutil.disk_usage(folder)
    writable = os.access(folder, os.W_OK)
    return {"free": usage.free, "used": usage.used, "writable": writable}


def inbox_fault(folder: str) -> str:
    """Return why no file can be added to the inbox, or "" where one can, or the setting
    is empty."""
    reason = folder and write_refusal(folder)
    return say("inbox_read_only", folder, reason) if reason else ""


def saves_fault(folder: str) -> str:
    """Return why no saves can be kept in this folder, or "" as inbox_fault does."""
    refused = folder and write_refusal(folder)
    reason = f"{refused}." if os.path.isdir(folder) else say("disk_away")
    return say("saves_disk", folder, reason) if refused else ""


def answered(answer: str | OSError, folder: str) -> str:
    """Return what is wrong with a folder, as Health.ask has it, or ""."""
    if isinstance(answer, str):
        return answer
    reason = answer.strerror  # of a TimeoutError there is none
    return f"{folder}: {reason}." if reason else say("disk_silent", folder)


def space_fault(folder: str, room: Row, full: set[str]) -> str:
    """Return what is wrong with a folder that the service writes to, or "".
    :param full: folders on disks that were full: each needs more room than others, so
        that it is not full again at once"""
    if not room["writable"]:
        return say("folder_read_only", folder)
    if room["free"] >= MIN_FREE_BYTES * (2 if folder in full else 1):
        full.discard(folder)
        return ""
    full.add(folder)
    return say("little_space", folder, f"{room['free'] / 1e6:.0f} MB")


Test = Callable[[], str]  # returns what is wrong, or ""


def written_folders(
    settings: Settings, backups: Backups, full: set[str]
) -> dict[str, tuple[str, Test]]:
    """Return the folders that the service writes to, beside that of its data: by what a
    fault of each is about, its path and the test of it, which `serve` and `check` make.
    :param full: see space_fault"""
    inbox = settings.inbox and absolute(settings.inbox)
    saves, copies = folder_for_saves(settings), backups.folder
    folders: dict[str, tuple[str, Test]] = {
        "inbox": (inbox, functools.partial(inbox_fault, inbox)),
        "saves": (saves, functools.partial(saves_fault, saves)),
    }
    if backups.count and copies != backups.own_folder:
        folders["backup"] = copies, lambda: space_fault(copies, space(copies), full)
    return {about: folder for about, folder in folders.items() if folder[0]}


class Fault(NamedTuple):
    """Something that is wrong until it is mended."""

    # "folders", "files", "scan", "data", "inbox", "saves", "backup", "database",
    # "languages" or "threads".
    about: str
    # Of a file, a device or of the volume of a disk, the path of a folder or
    # translation, or the name of a thread; "" for the others.
    id: str
    message: str  # empty where all is well


class Health:
    """What the service has, and what is wrong with it: notices, `check`, the page and
    GET /api/status tell this. Any thread may call."""

    wait_seconds = 1.0  # for disks
    threads: Callable[[], Iterable[Lasting]] = tuple  # that are to go on
    languages: Mapping[str, str] = {}  # why translations are left out, by their paths

    def __init__(self, scanner: Scanner, backups: Backups, consoles: Consoles) -> None:
        self.scanner, self.backups, self.consoles = scanner, backups, consoles
        self.data = os.path.dirname(backups.path)
        self._askers = Askers()
        self._full: set[str] = set()  # folders on full disks
        self.written = written_folders(scanner.settings, backups, self._full)

    def ask(self, folders: Iterable[str] = ()) -> dict[str, Any]:
        """Return the space of these folders and of that of the data, by path, what is
        wrong with those that the service writes to, by what that is about, and the
        "last" backup; for each an OSError where it cannot be had."""
        paths = {self.data, *folders}
        calls: dict[str, Any] = {path: functools.partial(space, path) for path in paths}
        calls |= {about: test for about, (_, test) in self.written.items()}
        calls["last"] = self.backups.last
        return self._askers.ask(calls, self.wait_seconds)

    def faults(self, answers: Mapping[str, Any]) -> list[Row]:
        """:param answers: what `ask` returned."""
        faults = [fault for fault in self._faults(answers) if fault.message]
        return [{**fault._asdict(), **coded(fault.message)} for fault in faults]

    def _faults(self, answers: Mapping[str, Any]) -> Iterator[Fault]:
        scan, backups = self.scanner.state, self.backups
        yield from self._folder_faults()
        yield Fault("scan", "", scan.problem and say("scan_failed", scan.problem))
        for path, problem in self.languages.items():
            yield Fault("languages", path, problem)
        room = answers[self.data]
        if isinstance(room, OSError):
            yield Fault("data", "", answered(room, self.data))
        else:
            yield Fault("data", "", space_fault(self.data, room, self._full))
        problems = {
            about: answered(answers[about], path)
            for about, (path, _) in self.written.items()
        }
        if "inbox" in problems:
            yield Fault("inbox", self.written["inbox"][0], problems["inbox"])
        yield from self._saves_faults(problems.get("saves", ""))
        failed = backups.problem and say("backup_failed", backups.problem)
        yield Fault("backup", "", failed or problems.get("backup", ""))
        for thread in (thread for thread in self.threads() if thread.has_failed):
            yield Fault("threads", thread.name, say("thread_failed", thread.name))
        yield from self._file_faults()

    def _saves_faults(self, own: str) -> Iterator[Fault]:
        """:param own: what is wrong with the folder, as far as is known here."""
        faults = {self.consoles.saves: own}
        for look in self.consoles.looks():
            last = look["problems"][-1] if look["failures"] else {}
            if last.get("reason") == "saves_disk":
                faults[self.consoles.saves] = last["message"]
            elif look["failures"] > 1:
                faults[look["id"]] = say("saves_failed", look["name"], last["message"])
        yield from (Fault("saves", *fault) for fault in faults.items())

    def _file_faults(self) -> Iterator[Fault]:
        entries = self.scanner.entries
        try:
            for file in entries.damaged():
                yield Fault("files", file["id"], say("file_damaged", file["name"]))
        except StorageFailed as problem:
            yield Fault("database", "", str(problem))

    def _folder_faults(self) -> Iterator[Fault]:
        """Yield a fault of each volume that is away, and of folders without one: the
        disk that was here last is that of a folder which cannot be read."""
        problems = self.scanner.state.problems()
        for disk in self.scanner.state.disks:
            code = "files_missing" if disk["missing"] else "disk_offline"
            since = f"{disk['since'][:16].replace('T', ' ')} UTC"
            message = say(code, disk["path"], since, disk["entries"], disk["name"])
            above = (folder for folder in problems if is_below(disk["path"], folder))
            folder = next(above, "")
            if folder and not disk["missing"]:
                message = problems.pop(folder)
            yield Fault("folders", disk["id"], message)
        for path, problem in problems.items():
            yield Fault("folders", path, problem)

    def log_folders(self) -> None:
        """Log what is wrong with the folders that the service writes to."""
        faults = self.faults(self.ask())
        for fault in (each for each in faults if each["about"] in self.written):
            log.warning("%s", fault["message"])

    def state(self) -> Row:
        answers = self.ask(self.scanner.folders)
        scan, room = scan_state(self.scanner), {}
        for path in {self.data, *self.scanner.folders}:
            disk, is_away = answers[path], isinstance(answers[path], OSError)
            room[path] = {**(NO_SPACE if is_away else disk)}
            room[path]["answers"] = not isinstance(disk, TimeoutError)
        folders = scan.pop("folders")
        for folder in folders:
            folder |= room[folder["path"]]
            if folder["state"] == "offline":  # an empty mount point is on another disk
                folder |= NO_SPACE
        file = answers["last"] if isinstance(answers["last"], ServedFile) else None
        made = {"made_at": stamp(file.mtime / 1e9), "size": file.size} if file else {}
        return {
            "folders": folders,
            "scan": scan,
            "data": {"path": self.data, **room[self.data]},
            "backup": {"kept": self.backups.count, **made},
            "saves": self.consoles.looks(),
            "faults": self.faults(answers),
        }


class Upkeep:
    """Does what time brings: writes how far items are, makes the copy of a night and,
    each hour, drops what is old, once the clock is believed. One thread calls it, twice
    a minute."""

    seconds = 3600  # between two times that it drops what is old

    def __init__(self, scanner: Scanner, backups: Backups) -> None:
        self.scanner, self.backups = scanner, backups
        self._dropped_at: float | None = None

    def __call__(self) -> None:
        with logged_problems("How far items are could not be written"):
            self.scanner.store.clients.write_figures()
        if self.scanner.store.accounts.exist():  # before, there is nothing to keep
            self.backups.make()
        clock, before = self.scanner.database.clock, self._dropped_at
        is_due = before is None or clock.monotonic() - before >= self.seconds
        if not is_due or not clock.is_believed():
            return
        self._dropped_at = clock.monotonic()
        if before is None:
            self.scanner.rescan()  # that of the start could forget nothing
        store = self.scanner.store
        for work in (self.backups.drop_old, store.drop_old):
            with logged_problems("What is old could not be dropped"):
                work()


# Web --------------------------------------------------------------------------
# The routes. The first line of each says who may call it; `Web` enforces that. It may
# use all above and bottle: no SQL.

KEPT_HEADERS = {**JSON_HEADERS, "Cache-Control": "private, no-cache"}  # with an ETag
PAGE_HEADERS = {
    **JSON_HEADERS,
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'; object-src 'none'",
}
FILE_HEADERS = {**KEPT_HEADERS, "Content-Type": "application/octet-stream"}
GZIP = re.compile(r"(?i)(?:^|,)\s*gzip\s*(?:;\s*q=([\d.]+)\s*)?(?:,|$)")
PROCESS = secrets.token_hex(4)  # versions of two processes do not compare
KNOWN_TO_PAGE = {  # what the page's script needs of the server's tables
    "packages": [*PACKAGES],
    "parts": PART_NAMES,
    "fault_tabs": {code: kind.tab for code, kind in FAULTS.items() if kind.tab},
    "programs": {id: program_facts(row) for id, row in CONSOLE_PROGRAMS.items()},
    "installers": [scheme for scheme in TARGETS if TARGETS[scheme].is_installer],
}
# A token, or all that follows /dir where somebody has typed it in another way.
TOKEN_PATH = re.compile(r"(?is)(/dir)(?!/*$)(?:(/+)\w+(?=/|$)(?!.*/dir)|.*)")
CONSOLE_TARGET = re.compile(r"(https?://[^/]*)?/dir([/?]|$)")
# The interface's cookie, which other programs on the host may set too, and our own.
COOKIE, OWN_COOKIE = "session", "catalogd_session"
MAX_COOKIES = 4  # of the first name that are looked up
COOKIE_SECONDS = 400 * 86400  # the most of browsers; sessions end before, see Accounts
ONE_ACCOUNT = "/web/accounts/<account:re:[0-9]{1,18}>"
# Between two lines of the log about guesses from an address, and about what it asked
# for that does not exist.
GUESS_SECONDS, ERROR_SECONDS = 60, 1
# Addresses that an account was signed in from, addresses that the log told of, paths
# whose threads are known, queue items whose served bytes are: of each that are kept.
MAX_REMEMBERED = 1000
HOUSEHOLD = 10  # times the free tries of one address, for a network
MAX_QUEUES = 20  # accounts whose queue is kept as the page shows it
MAX_INDEXES = 10  # console addresses whose index.json is kept
VIEWS = len(AGES) + 1  # kinds of lists: one of every title, and one of each age
LONG_BODY_BYTES = 64 * 1024  # a body from this size on is not copied to be sent


# Web: routes ---


@dataclasses.dataclass
class Route:
    """An address of the service. `access` is "open", "key", "session", "admin" (a
    session of one), "key or session", "dir" (a token in the path, or Basic
    authentication with an account's name and key), "menu" (the same, but no address of
    a queue item; consoles show `error` of a refusal, which is a sentence), or "token"
    (that of the command `check`). `fields` are those of its JSON body.
    `runs` names the threads that answer it, see Server."""

    method: str
    path: str
    access: str
    fields: Mapping[str, Field] | None
    runs: str
    answer: Callable[..., Any]


ROUTES: list[Route] = []


def route(
    rule: str, access: str, fields: Mapping[str, Field] | None = None, runs: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a method of a class of Calls answer `rule`, such as "GET /api/list", or a
    function of `Web`. It is called with the caller (unless the route is open), the
    fields (if there are any), and the variable parts of the path by name. It returns
    the fields to answer beside "success", None if there are none, or a
    bottle.HTTPResponse."""

    def add(answer: Callable[..., Any]) -> Callable[..., Any]:
        method, path = rule.split()
        threads = runs or ("workers" if method == "GET" else "writes")
        ROUTES.append(Route(method, path, access, fields, threads, answer))
        return answer

    return add


# Web: errors and the log ---


def json_answer(body: bytes, status: int = 200, **headers: str) -> bottle.HTTPResponse:
    return bottle.HTTPResponse(body, status, {**JSON_HEADERS, **headers})


def error_answer(
    status: int, code: str, message: str, facts: Mapping[str, Any] = {}, **headers: str
) -> Any:
    is_for_page = bottle.request.environ.get("PATH_INFO", "").startswith("/web/")
    reason = coded(message) if is_for_page else {}
    body = json_body(False, error=code, message=message, **reason, **facts)
    return json_answer(body, status, **headers)


def call_line(text: str, status: int) -> str:
    """Return a line of the log: what became of a call, and where it came from. It has
    neither the query, which may contain a key, nor the token of a console address."""
    environ = bottle.request.environ
    path = TOKEN_PATH.sub(r"\1\2...", environ.get("PATH_INFO", ""), count=1)
    call = f"{bottle.request.method[:20]} {path[:200]}"
    return f"{status} {call} from {environ.get('REMOTE_ADDR')}: {text}"


def log_call(text: str, status: int) -> None:
    level = logging.INFO if status < 500 else logging.ERROR
    log.log(level, "%s", call_line(text, status))


def audit(name: str, text: str) -> None:
    """Log what the account with this name did to accounts, keys, devices, addresses or
    backups. The text has no password, key, token or code."""
    log_call(f"{name} {text}.", 200)


def changed(body: Mapping[str, Any]) -> str:
    """Return which fields were changed, for the log, and the values of booleans."""
    fields = {n: v for n, v in body.items() if n not in OWN_PASSWORD}
    texts = (f"{n} = {v}" if type(v) is bool else n for n, v in fields.items())
    return ", ".join(texts)


def request_header(name: str, default: Any = "") -> Any:
    """Return a header as Latin-1. bottle's other ways fail where it is not UTF-8."""
    return bottle.request.headers.raw(name, default)


bottle.BaseRequest.MEMFILE_MAX = MAX_BODY_BYTES  # it would leave larger files open


# Web: what is kept between calls ---


class Latest(Generic[T]):
    """What is made of the latest version of something, by the arguments of `make`, of
    which `version` has the first: once for each version. Other calls for it wait
    meanwhile, since an answer must not be older than its call. The `most` that were
    asked for last are kept."""

    def __init__(
        self, version: Callable[[int], Any], make: Callable[..., T], most: int = 1
    ) -> None:
        self._version, self._make = version, make
        # By the arguments: the version, and what was made.
        self._made = Recent[tuple[Any, T]](most)
        self._lock = threading.Lock()

    def __call__(self, first: int, *more: Any) -> T:
        key = first, *more
        with self._lock:
            version, made = self._version(first), self._made.get(key)
            if made is None or made[0] != version:
                made = version, self._make(*key)
            self._made[key] = made
            return made[1]


# Web: the application ---


class Web:
    """The service over HTTP: `app` is the WSGI application."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        scanner: Scanner,
        languages: tuple[dict[str, Any], Mapping[str, str]] | None = None,
    ) -> None:
        """:param languages: what `read_translations` returned (default: English)"""
        self.store = store
        self.settings = settings
        self.scanner = scanner
        database = store.database
        self.backups = Backups(database.path, database.clock, settings)
        self.consoles = Consoles(store, settings)
        self.health = Health(scanner, self.backups, self.consoles)
        # The INI file of `serve`, for admins to find; "" for none, None in the demo.
        self.settings_file: str | None = None
        self.translations, self.health.languages = languages or ({}, {})
        for line in self.health.languages.values():
            log.warning("%s", line)
        # By address and kind of a problem: when the log told of one, and how many more
        # there were since.
        self.told = Recent[tuple[float, int]](MAX_REMEMBERED)
        self.passwords = Passwords(store.accounts)
        self.token = secrets.token_urlsafe()  # of the command `check`
        # Gives the addresses of the page: see page_addresses in section Commands.
        self.page_addresses: Callable[[], Iterable[str]] = tuple
        self.list = Latest(store.entries.list_version, self._read_list, most=2 * VIEWS)
        self.calls = {kind.__name__: kind(self) for kind in Calls.__subclasses__()}
        self.runs = functools.lru_cache(MAX_REMEMBERED)(self._runs)
        self.app = bottle.Bottle()
        self.app.default_error_handler = self._http_error
        for rule in reversed(ROUTES):  # of several that match, the last one answers
            # "QueueCalls.progress" is called with that object, a function with Web.
            owner = self.calls.get(rule.answer.__qualname__.partition(".")[0], self)
            answer = functools.partial(self._answer, rule, owner)
            self.app.route(rule.path, rule.method, answer, runs=rule.runs)

    def _read_list(self, age: int, for_page: bool) -> "Body":
        # The version first: a change that comes between has another one, and is sent.
        tag = f"{PROCESS}-{self.store.entries.list_version():x}"
        content = self.store.entries.list_json(age, for_page, b'{"entries": [%b]}\n')
        if age != EVERYTHING:  # a version tells of changes of what is hidden
            tag = f"{age}-{content_digest(content)}"
        return Body(content, tag, level=1)

    def _runs(self, method: str, path: str) -> str:
        """Return the name of the threads that answer a call, as its route says."""
        call = {"REQUEST_METHOD": method, "PATH_INFO": "/" + path.lstrip("/")}
        try:
            return str(self.app.router.match(call)[0].config["runs"])
        except bottle.HTTPError:  # no such address or method
            return "workers"

    def uploader(self, path: str) -> int | None:
        """Return the account whose upload, begun at this service, a path is of."""
        upload = path.removeprefix("/web/uploads/")
        return self.scanner.disks.inbox.accounts.get(upload)

    def _answer(self, rule: Route, owner: Any, **parts: str) -> bottle.HTTPResponse:
        try:
            arguments = [owner]
            if rule.access != "open":
                arguments.append(self._admit(rule.access))
            elif rule.method == "POST" and rule.path.startswith("/web/"):
                reject_other_sites(self.settings)
            if rule.fields is not None:
                arguments.append(parse(rule.fields, request_body()))
            answer = rule.answer(*arguments, **parts)
        except Problem as problem:
            self._log(problem)
            status, code, text = problem.status, problem.code, str(problem)
            code = text if rule.access == "menu" else code
            return error_answer(status, code, text, problem.facts, **problem.headers)
        except bottle.HTTPError:
            raise
        except Exception:
            log.exception("%s", call_line("It failed.", 500))
            return error_answer(500, *HTTP_ERRORS[500])
        if isinstance(answer, bottle.HTTPResponse):
            return answer
        return json_answer(json_body(True, **(answer or {})))

    def _log(self, problem: Problem) -> None:
        seconds = GUESS_SECONDS if problem.is_guess else 0
        text, kind = f"{problem}{problem.logged}", type(problem).__name__
        self._log_some(text, problem.status, kind, seconds)

    def _log_some(self, text: str, status: int, kind: object, seconds: float) -> None:
        """Log a line of this kind for the caller's address, once in so many seconds."""
        now, key = self.store.database.clock.monotonic(), (caller_address(), kind)
        at, left_out = self.told.get(key, (-math.inf, 0))
        if now - at < seconds:
            self.told[key] = at, left_out + 1
            return
        self.told[key] = now, 0
        log_call(f"{text} {left_out} more like this." if left_out else text, status)

    def _http_error(self, error: bottle.HTTPError) -> bytes:
        """Answer an error of HTTP, such as no such path or method, as JSON."""
        allow = {}
        if "Allow" in error.headers:  # bottle answers HEAD where there is GET
            allow["Allow"] = error.headers["Allow"].replace("GET", "GET,HEAD")
        code, message = HTTP_ERRORS[error.status_code]
        self._log_some(message, error.status_code, error.status_code, ERROR_SECONDS)
        answer = error_answer(error.status_code, code, message, **allow)
        answer.apply(bottle.response)
        return bytes(answer.body)

    def _admit(self, access: str) -> Caller:
        """Return who calls. :raises BadKey, BadAddress, SignedOut, Forbidden:"""
        if access in ("dir", "menu", "token"):
            return self._admit_check() if access == "token" else self._admit_console()
        if "key" in access and (key := sent_key()) is not None:
            if caller := self.store.accounts.key_holder(hash_token(key)):
                return caller
            raise BadKey("The API key is not valid.")
        caller = session(self.store.accounts)[1] if access != "key" else None
        if caller is None and "key" in access:
            raise BadKey("The API key is missing.")
        if caller is None:
            raise SignedOut("not_signed_in")
        if bottle.request.method not in ("GET", "HEAD"):
            reject_other_sites(self.settings)
        if access == "admin" and not caller.admin:
            raise Forbidden("admins_only")
        return caller

    def _admit_check(self) -> Caller:
        """:raises BadKey: the caller cannot read the file that has the token."""
        if hash_token(sent_key() or "") != hash_token(self.token):
            raise BadKey("The token is not that of this service.")
        return Caller(0, "", True, EVERYTHING, "")  # an admin without a queue

    def _admit_console(self) -> Caller:
        """Return whose console address or Basic authentication this is. Other
        spellings of /dir/, such as //d%69r/, are refused: a proxy's log would not mask
        the token in them. :raises BadAddress, bottle.HTTPError:"""
        target = bottle.request.environ.get("REQUEST_URI", "/dir")
        is_below_dir = bottle.request.path.startswith("/dir")  # else: a menu's root
        if is_below_dir and not CONSOLE_TARGET.match(target):
            raise bottle.HTTPError(404)
        for token in bottle.request.path.split("/")[2:3]:
            if caller := self.store.addresses.address_holder(hash_token(token)):
                return caller._replace(base=f"/dir/{token}")
        name, key = bottle.request.auth or ("", "")
        caller = self.store.accounts.key_holder(hash_token(key))
        if caller is None or caller.name.casefold() != name.casefold():
            raise BadAddress("The address is wrong, or was replaced or revoked.")
        return caller


# Web: who calls ---


def request_body() -> bytes:
    """Return the JSON of the request, which a DELETE may leave out.
    :raises bottle.HTTPError: 415."""
    if bottle.request.method == "DELETE" and not bottle.request.content_length > 0:
        return b"{}"
    kind = bottle.request.content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise bottle.HTTPError(415)
    return bytes(bottle.request.body.read(MAX_BODY_BYTES))  # waitress takes no more


def sent_key() -> str | None:
    """Return the API key of the header, or else of the query."""
    scheme, _, key = request_header("Authorization").partition(" ")
    if scheme.lower() == "bearer":
        return str(key.strip())
    return bottle.request.query.get("api_key")


def sent_cookies(name: str) -> list[str]:
    """Return the values of cookies of a name, also beside such that the standard
    library cannot parse."""
    cookies = (text.partition("=") for text in request_header("Cookie").split(";"))
    return [value.strip().strip('"') for at, _, value in cookies if at.strip() == name]


def session(accounts: Accounts) -> tuple[str, Caller | None]:
    """Return the cookie and who is signed in by it, our own one before others."""
    own, others = sent_cookies(OWN_COOKIE)[:1], sent_cookies(COOKIE)[:MAX_COOKIES]
    for secret in dict.fromkeys([*own, *others]):
        if holder := accounts.session_holder(hash_token(secret)):
            return secret, holder
    return "", None


def reject_other_sites(settings: Settings) -> None:
    """Protect sessions: a page of another site could use them in the same browser.
    :raises Forbidden: the browser says that such a page made the call."""
    site = request_header("Sec-Fetch-Site", "same-origin")
    host = bottle.request.urlparts.netloc
    public = urllib.parse.urlsplit(settings.base_url).netloc or host
    origin = request_header("Origin", host).rpartition("://")[2]
    if site not in ("same-origin", "none") or origin not in (host, public):
        raise Forbidden("other_site")


def remote_address() -> str:
    address = str(bottle.request.environ.get("REMOTE_ADDR", "")).removeprefix("::ffff:")
    return re.sub(r"^\[(.*)\](:\d*)?$", r"\1", address)  # a proxy may tell a port


def caller_address() -> str:
    return address_subject(remote_address())


# Of addresses that lead nowhere on another machine, or, as ADDRESS, anywhere.
NOT_OPEN = re.compile(r"https?://(localhost|127\.[\d.]+|\[::1\]|ADDRESS)[:/]")


def base_url(settings: Settings) -> str:
    """Return the address of the service, as it is called from outside."""
    called = bottle.request.urlparts._replace(path="", query="", fragment="")
    return settings.base_url or called.geturl()


# Web: QR codes ---


def qr_code(text: str) -> dict[str, Any] | None:
    """Return a QR code for the page, None where the package segno is not installed: the
    dark parts as a path of SVG, and the sides of the square that it is in."""
    try:
        import segno
    except ImportError:
        return None
    lines = [*map(bytes, segno.make_qr(text).matrix_iter(border=4))]  # 1 is dark
    runs = (
        f"M{run.start()} {y}h{len(run[0])}v1h-{len(run[0])}z"
        for y, line in enumerate(lines)
        for run in re.finditer(b"\1+", line)
    )
    return {"size": len(lines), "path": "".join(runs)}


# Web: passwords ---


class Passwords:
    """Checks of passwords and of the setup code, one at a time since they are costly.
    Wrong ones delay the next check."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.throttle = Throttle()
        self._good = Recent[bool](MAX_REMEMBERED)  # by account and address
        self._lock = threading.Lock()

    def _places(self) -> dict[str, int]:
        """Return what a guess counts for by where it comes from: the address and, with
        room for a household, the network that a single machine may have of IPv6."""
        return {remote_address(): 1, f"net {caller_address()}": HOUSEHOLD}

    def check(self, name: str, password: str, problem: str = "wrong_login") -> int:
        """Return the account's id. :raises WrongPassword: `problem`, TooManyTries:"""
        name, address = normalized(name.strip()), remote_address()
        with self._lock:
            account, stored = self.accounts.credentials(name) or (0, None)
            # The hash: the count starts again with a new password.
            subjects, own = {address: 1}, f"account {stored or name.casefold()}"
            _, caller = session(self.accounts)
            # Others cannot lock out who is signed in, or was at this address.
            if caller and caller.account == account:
                subjects |= {f"session {own}": 1}
            elif (account, address) not in self._good:
                subjects = {**self._places(), own: 1}
            for subject, times in subjects.items():
                self.throttle.check(subject, times)
            is_right = password_matches(password, stored)
            for subject in subjects:
                self.throttle.record(is_right, subject)
            if not is_right:
                wrong = WrongPassword(problem)
                # People type passwords there: only the name of an account is logged.
                wrong.logged = f" The account: {name}." if stored else ""
                raise wrong
            self._good[account, address] = True
        return account

    def check_own(self, caller: Caller, body: Mapping[str, Any]) -> None:
        """Check that the caller is who signed in, and not somebody at the browser or
        with a stolen cookie. :raises Problem: no password, or as `check`."""
        if "own_password" not in body:
            raise Problem("field_missing", "own_password")
        self.check(caller.name, body["own_password"], "wrong_current_password")

    def check_code(self, find: Callable[[], T], problem: str) -> T:
        """Return what the setup code or the token of an invitation leads to. Guesses
        delay their own address alone: 59 bits and more need no more. A right one, which
        may be asked for often, excuses no guess.

        :raises WrongPassword: it leads to nothing; `problem` is the sentence.
        :raises TooManyTries:
        """
        with self._lock:
            for place, times in self._places().items():
                self.throttle.check(place, times)
            if result := find():
                return result
            for place in self._places():
                self.throttle.record(False, place)
        raise WrongPassword(problem)


# Web: calls about accounts ---


RENAME_SECONDS = 2  # after which a watched folder was read since a file was renamed


class Calls:
    """Base of the classes that answer calls. Each has one subject."""

    def __init__(self, web: Web) -> None:
        self.accounts = web.store.accounts
        self.invitations, self.web = web.store.invitations, web
        self.entries = web.store.entries
        self.clients = web.store.clients
        self.queue = web.store.queue
        self.devices = web.store.devices
        self.addresses = web.store.addresses
        self.consoles, self.passwords = web.consoles, web.passwords
        self.settings = web.settings
        self.scanner = web.scanner
        self.inbox = web.scanner.disks.inbox

    def open_addresses(self) -> list[str]:
        """Return the addresses of the page that others can open, the best first."""
        called = f"{base_url(self.settings)}/"
        own = [] if self.settings.base_url else [*self.web.page_addresses()]
        found = [*sorted(own, key=lambda one: one != called), called]
        return [one for one in dict.fromkeys(found) if not NOT_OPEN.match(one)]

    def content(
        self, entry: Row, age: int, served: Served | None = None, accel: str = ""
    ) -> bottle.HTTPResponse:
        """Return an entry's file where it is now, also if it was renamed just now, or a
        redirect to its link. With a location `accel`, nginx sends the file.

        :param age: of whoever gets it, by which it is named.
        :param served: gets the bytes that were sent.
        :raises NotFound: there is no such file.
        """
        if entry["type"] == "url":
            return json_answer(b"", 302, Location=entry["source"])
        file = self.entries.served_file(entry["id"])
        # Until the first scan has ended, files of folders of former settings are here.
        folder = self.scanner.state.folders.get(file.folder, UNREAD)
        if folder["watched"] and not os.path.lexists(file.path):
            time.sleep(RENAME_SECONDS)
            file = self.entries.served_file(entry["id"])
        is_marked = self.entries.marked([file.id], age)
        own_name = own_file_name(file.path, file.format)
        name = download_name(own_name, file.id, is_marked)
        uses = self.scanner.disks.uses
        if not accel or is_joined(file.path):
            return file_answer(file, name, uses, served)
        open_content(file, uses).close()
        headers = {**FILE_HEADERS, "Content-Disposition": attachment(name)}
        headers["X-Accel-Redirect"] = accel + urllib.parse.quote(file.path)
        return bottle.HTTPResponse(b"", 200, headers)


def page_account(caller: Caller) -> Row:
    """Return what the page shows of the account that it is signed in to."""
    age = {} if caller.age == EVERYTHING else {"age": caller.age}
    return {"name": caller.name, "admin": caller.admin, **age}


class SignInCalls(Calls):
    """Setup, passwords and sessions."""

    @route("GET /web/me", access="open")
    def me(self) -> Any:
        secret, caller = session(self.accounts)
        account: Row | None = None
        if caller:
            account = page_account(caller)
            if caller.admin:
                account["settings"] = self.web.settings_file or "catalogd.ini"
            with contextlib.suppress(NotFound, Forbidden):
                account["inbox"] = self.inbox.facts(caller)
        needs_setup = not caller and not self.accounts.exist()
        client = importlib.util.find_spec(CLIENT) is not None
        me = {"account": account, "needs_setup": needs_setup, "client": client}
        me["known"] = KNOWN_TO_PAGE
        found = self.web.translations.items()
        me["languages"] = {code: one.about["language"] for code, one in found}
        # The page asks at each load, so that the browser keeps the cookie.
        return self._cookie_answer(secret, secret, **me) if caller else me

    @route("POST /web/setup", access="open", fields=SETUP, runs="passwords")
    def setup(self, body: Mapping[str, Any]) -> bottle.HTTPResponse:
        if self.accounts.exist():  # no other call may be here: see THREAD_GROUPS
            raise Conflict("has_account")
        typed, code = body["code"], self.accounts.setup_code
        self.passwords.check_code(lambda: is_code(typed, code), "wrong_setup_code")
        name = check_account_name(body["username"])
        password = hash_password(check_password(body["password"], name))
        account = self.accounts.add(name, password)
        audit(name, "made this account, the first one")
        return self._sign_in(account)

    @route("POST /web/login", access="open", fields=LOGIN, runs="passwords")
    def login(self, body: Mapping[str, Any]) -> bottle.HTTPResponse:
        return self._sign_in(self.passwords.check(body["username"], body["password"]))

    @route("POST /api/auth/login", access="open", fields=LOGIN, runs="passwords")
    def client_login(self, body: Mapping[str, Any]) -> dict[str, Any]:
        account = self.passwords.check(body["username"], body["password"])
        label, key = "signed in by a client", new_key()
        self.accounts.add_key(account, label, hash_token(key), by_login=True)
        audit(self.accounts.name_of(account), "signed in by a client, which has a key")
        return {"api_key": key}

    @route("POST /web/invitation", access="open", fields=INVITED, runs="passwords")
    def invitation(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an invitation is for. It stays open."""
        return {"invitation": self._invitation(body["token"])}

    def _invitation(self, token: str) -> Row:
        find = functools.partial(self.invitations.open, hash_token(token))
        return self.passwords.check_code(find, "bad_invitation")[0]

    @route("POST /web/invitation/accept", "open", ACCEPTANCE, "passwords")
    def accept(self, body: Mapping[str, Any]) -> bottle.HTTPResponse:
        """Make the account, or set the password, that an invitation is for."""
        invitation = self._invitation(body["token"])
        digest, account = hash_token(body["token"]), invitation["account"]
        is_new, name = account is None, invitation["name"]
        if is_new:
            name = check_account_name(body.get("username", ""))
        password = hash_password(check_password(body["password"], name))
        if is_new:
            what, of = "made this account", (invitation["admin"], invitation["age"])
            account = self.accounts.add(name, password, *of, invitation=digest)
        else:
            what = "set a new password"
            self.accounts.change(account, {"password": password}, invitation=digest)
        audit(name, f"{what} by invitation {invitation['id']} of {invitation['maker']}")
        return self._sign_in(account)

    def _sign_in(self, account: int) -> bottle.HTTPResponse:
        secret = secrets.token_urlsafe(32)
        browser = request_header("User-Agent")[:200]
        if replaced := session(self.accounts)[1]:
            self.accounts.end_session(replaced.credential, replaced.account)
        self.accounts.add_session(account, hash_token(secret), browser)
        audit(self.accounts.name_of(account), "signed in")
        return self._cookie_answer(secret)

    def _cookie_answer(self, value: str, old: str = "", **fields: Any) -> Any:
        """Answer with cookies of this value, "" to remove them.
        :param old: the value that `session` must have, where it may be another's."""
        answer = json_answer(json_body(True, **fields))
        path = urllib.parse.urlsplit(self.settings.base_url).path or "/"
        is_secure = base_url(self.settings).startswith("https:")
        guards = {"secure": is_secure, "httponly": True, "samesite": "strict"}
        max_age = COOKIE_SECONDS if value else 0
        is_other = old and old not in sent_cookies(COOKIE)
        for name in [OWN_COOKIE] if is_other else [COOKIE, OWN_COOKIE]:
            answer.set_cookie(name, value, max_age=max_age, path=path, **guards)
        return answer

    @route("POST /web/logout", access="session")
    def logout(self, caller: Caller) -> bottle.HTTPResponse:
        secret, _ = session(self.accounts)
        self.accounts.end_session(caller.credential, caller.account)
        return self._cookie_answer("", secret)

    @route("POST /web/sessions/end", access="session", fields=SIGN_OUT)
    def end_sessions(self, caller: Caller, body: dict[str, Any]) -> Any:
        secret, _ = session(self.accounts)
        self.accounts.sign_out(caller.account, body)
        audit(caller.name, f"signed out everywhere ({changed(body)})")
        return self._cookie_answer("", secret)

    @route("POST /web/password", access="session", fields=PASSWORD, runs="passwords")
    def change_password(self, caller: Caller, body: Mapping[str, Any]) -> None:
        new = check_password(body["new"], caller.name)
        self.passwords.check_own(caller, {"own_password": body["old"]})
        changes = {"password": hash_password(new)}
        self.accounts.change(caller.account, changes, keep=caller.credential)
        audit(caller.name, "changed the own password")

    @route("GET /web/addresses", access="session")
    def page_addresses(self, caller: Caller) -> dict[str, Any]:
        found = self.open_addresses()
        return {"addresses": [{"address": one, "qr": qr_code(one)} for one in found]}

    @route("GET /web/sessions", access="session")
    def sessions(self, caller: Caller) -> dict[str, Any]:
        rows = self.accounts.sessions(caller.account)
        current = caller.credential
        return {"sessions": [{**row, "current": row["id"] == current} for row in rows]}

    @route("DELETE /web/sessions/<id>", access="session")
    def end_session(self, caller: Caller, id: str) -> None:
        self.accounts.end_session(id, caller.account)


class AccountCalls(Calls):
    """The caller's keys, and all accounts for admins."""

    @route("GET /web/keys", access="session")
    def keys(self, caller: Caller) -> dict[str, Any]:
        return {"keys": self.accounts.keys(caller.account)}

    @route("POST /web/keys", access="session", fields=KEY)
    def add_key(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        key = new_key()
        key_id = self.accounts.add_key(caller.account, body["label"], hash_token(key))
        audit(caller.name, f"made the key {body['label']!r}, {key_id}")
        return {"id": key_id, "key": key}

    @route("DELETE /web/keys/<key>", access="session")
    def revoke_key(self, caller: Caller, key: str) -> None:
        label = self.accounts.revoke_key(key, caller.account)
        audit(caller.name, f"revoked the key {label!r}, {key}")

    @route("GET /web/accounts", access="admin")
    def all_accounts(self, caller: Caller) -> dict[str, Any]:
        return {"accounts": self.accounts.all()}

    @route("POST /web/accounts", access="admin", fields=ACCOUNT, runs="passwords")
    def add_account(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        name = check_account_name(body["username"])
        password = hash_password(check_password(body["password"], name))
        admin, age = body.get("admin", False), body.get("age")
        if admin:
            self.passwords.check_own(caller, body)
        account = self.accounts.add(name, password, admin, age)
        audit(caller.name, f"made the account {name}, {'admin' if admin else 'member'}")
        return {"id": account}

    @route(f"POST {ONE_ACCOUNT}", "admin", ACCOUNT_CHANGES, "passwords")
    def edit_account(self, caller: Caller, body: dict[str, Any], account: str) -> None:
        changes = {name: body[name] for name in body.keys() - OWN_PASSWORD}
        if "password" in body:
            name = self.accounts.name_of(int(account))
            changes["password"] = hash_password(check_password(body["password"], name))
        if changes.keys() - AGE:
            self.passwords.check_own(caller, body)
        name = self.accounts.change(int(account), changes, keep=caller.credential)
        audit(caller.name, f"changed the account {name} ({changed(body)})")

    @route("GET /web/invitations", access="admin")
    def all_invitations(self, caller: Caller) -> dict[str, Any]:
        return {"invitations": self.invitations.open()}

    @route("POST /web/invitations", "admin", INVITATION, "passwords")
    def invite(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        token, account = new_token(), body.get("account")
        admin, age = body.get("admin", False), body.get("age")
        if admin or account is not None:
            self.passwords.check_own(caller, body)
        digest = hash_token(token)
        invitation = self.invitations.add(digest, caller.account, account, admin, age)
        what = "an admin" if admin else "a member"
        if account is not None:
            what = f"a password of {self.accounts.name_of(account)}"
        audit(caller.name, f"made the invitation {invitation} for {what}")
        called, addresses = f"{base_url(self.settings)}/", self.open_addresses()
        page = addresses[0] if addresses and called not in addresses else called
        link = f"{page}#invitation={token}"
        return {"id": invitation, "link": link, "qr": qr_code(link)}

    @route("DELETE /web/invitations/<id>", access="admin")
    def remove_invitation(self, caller: Caller, id: str) -> None:
        self.invitations.remove(id)
        audit(caller.name, f"removed the invitation {id}")

    @route(f"DELETE {ONE_ACCOUNT}", "admin", OWN_PASSWORD, "passwords")
    def remove_account(self, caller: Caller, body: Row, account: str) -> None:
        if int(account) == caller.account:
            raise Conflict("own_account")
        admins = [row["id"] for row in self.accounts.all() if row["admin"]]
        if int(account) in admins:
            self.passwords.check_own(caller, body)
        audit(caller.name, f"removed the account {self.accounts.remove(int(account))}")


# Web: calls about devices ---


class DeviceCalls(Calls):
    """Devices, and how they are paired."""

    def __init__(self, web: Web) -> None:
        super().__init__(web)
        self.codes = PairingCodes(self.accounts.session_password)
        self._lock = threading.Lock()

    @route("POST /web/pairing", access="session", fields=PAIRING)
    def make_code(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        self.devices.check_new(caller.account, body.get("name", ""))
        with self._lock:
            self.codes.make(caller.account, caller.credential)
        return self.code(caller)

    @route("GET /web/pairing", access="session")
    def code(self, caller: Caller) -> dict[str, Any]:
        with self._lock:
            return self.codes.state(caller.account)

    @route("POST /api/pair", access="open", fields=PAIR)
    def pair(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name, key = body["name"], new_key()
        with self._lock:
            account, digest = self.codes.find(body["code"]), hash_token(key)
            device = self.accounts.add_key(account, name, digest, is_device=True)
            self.codes.end(account, device)
        audit(self.accounts.name_of(account), f"paired the device {name!r}, {device}")
        return {"api_key": key, "device": device}

    @route("POST /web/devices", access="admin", fields=NEW_DEVICE)
    def add(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        client_module()
        account = body.pop("account", caller.account)
        device = self.devices.add(account, check_console(body))
        audit(caller.name, f"made the device {body['name']!r}, {device}")
        return {"device": device}

    @route("POST /web/devices/<device>", access="session", fields=DEVICE_CHANGES)
    def edit(self, caller: Caller, body: dict[str, Any], device: str) -> None:
        if body.keys() - {"name", "shared", "paused"} and not caller.admin:
            raise Forbidden("admins_only")
        account = None if caller.admin else caller.account
        name = self.devices.change(device, check_console(body), account, caller.name)
        if "target" in body:  # what was told of the last one is not of this one
            self.accounts.uses.set_target_state(device, "")
        audit(caller.name, f"changed the device {name!r}, {device} ({changed(body)})")

    @route("DELETE /web/devices/<device>", access="session")
    def revoke(self, caller: Caller, device: str) -> None:
        account = None if caller.admin else caller.account
        name = self.accounts.revoke_key(device, account, is_device=True)
        audit(caller.name, f"removed the device {name!r}, {device}")

    @route("GET /web/saves", access="session", runs=OWN_THREAD)
    def saves(self, caller: Caller) -> dict[str, Any]:
        """Return the copies of saves that the caller may have, and the last looks at
        consoles: a child has those of its own devices and of titles that it sees."""
        top, is_child = self.consoles.saves, caller.age != EVERYTHING
        away = say("disk_away") if top and not os.path.isdir(top) else ""
        seen = self.entries.seen_titles(caller.age) if is_child else None
        devices = self.devices.all(caller.name, caller.admin)
        of = {
            device["id"]: device["name"]
            for device in devices
            if device["is_own"] or not is_child
        }
        copies = [
            {**save, "console": of.get(save["device"], save["console"])}
            for save in kept_saves(top, seen)
            if caller.admin or save["device"] in of
        ]
        last = () if is_child else self.consoles.looks()
        looks = [look for look in last if look["id"] in of]
        problem = away and {"message": away, **coded(away)}
        return {"copies": copies, "looks": looks, "problem": problem}

    @route("GET /web/saves/<device>/<path:path>", access="session", runs=OWN_THREAD)
    def save(self, caller: Caller, device: str, path: str) -> bottle.HTTPResponse:
        for save in self.saves(caller)["copies"]:
            if (save["device"], save["path"]) == (device, path):
                top = self.consoles.saves
                file = pathlib.Path(saves_folder(top, {"id": device, "name": ""}), path)
                served = ServedFile("", str(file), top, 0, 0, None)
                return file_answer(served, f"{save['name']}.zip", FileUses())
        raise NotFound("file_unreadable")

    @route("POST /web/consoles", access="admin", runs=OWN_THREAD)
    def find_consoles(self, caller: Caller) -> dict[str, Any]:
        found = find_consoles(own_networks(), FTP_PORTS)
        return {"consoles": found, "in_container": "CATALOGD_CONTAINER" in os.environ}

    @route("GET /send_to_switch.py", access="open")
    def client(self) -> bottle.HTTPResponse:
        loader = client_module().loader  # perhaps of an archive
        program = loader.get_source(CLIENT).encode()
        return conditional(program, {**PAGE_HEADERS, "Content-Type": "text/x-python"})


# Web: calls about the library ---


class LibraryCalls(Calls):
    """Entries, their files and icons, and scans."""

    @route("GET /healthz", access="open")
    def health(self) -> dict[str, Any]:
        self.entries.list_version()
        return {"version": __version__}

    @route("GET /web/entries", access="session", runs="lists")
    @route("GET /api/list", access="key", runs="lists")
    def entry_list(self, caller: Caller) -> bottle.HTTPResponse:
        for_page = bottle.request.path == "/web/entries"
        return self.web.list(caller.age, for_page).answer(KEPT_HEADERS)

    @route("GET /web/download/<entry_id>", access="session", runs=OWN_THREAD)
    @route("GET /api/download/<entry_id>", access="key", runs=OWN_THREAD)
    def download(self, caller: Caller, entry_id: str) -> bottle.HTTPResponse:
        # waitress removes this header from calls that the trusted proxy did not make.
        is_behind_proxy = "HTTP_X_FORWARDED_FOR" in bottle.request.environ
        accel = self.settings.accel_redirect if is_behind_proxy else ""
        entry = self.entries.get(entry_id, caller.age, caller.credential)
        return self.content(entry, caller.age, accel=accel)

    @route("GET /api/entries/<entry_id>/info", access="key")
    def entry(self, caller: Caller, entry_id: str) -> dict[str, Any]:
        return {"entry": self.entries.get(entry_id, caller.age, caller.credential)}

    @route("GET /web/entries/<entry_id>", access="session")
    def details(self, caller: Caller, entry_id: str) -> dict[str, Any]:
        return self.entries.details(entry_id, caller.age)

    @route("GET /web/icons/<entry_id>", access="session")
    def icon(self, caller: Caller, entry_id: str) -> bottle.HTTPResponse:
        return image_answer(self.entries.icons.of(entry_id, caller.age))

    @route("GET /web/tidy", access="admin")
    def tidy(self, caller: Caller) -> dict[str, Any]:
        entries = self.entries.tidy()
        files = [{n: v for n, v in file.items() if v is not None} for file in entries]
        for path, size in self.scanner.disks.unreadable.copy().items():
            file = {"reason": "unreadable", "id": path, "path": path, "size": size}
            files.append({**file, "name": os.path.basename(path)})
        passed_over = [
            {"path": path, **passed._asdict()}
            for path, passed in sorted(self.scanner.disks.passed_over.items())
        ]
        told = {"files": files, "passed_over": passed_over}
        return {**told, "bytes": sum(file["size"] for file in files)}

    @route("POST /web/entries/<entry_id>", access="admin", fields=ENTRY_CHANGES)
    def edit(self, caller: Caller, body: dict[str, str], entry_id: str) -> None:
        self.entries.edit(entry_id, body)

    @route("POST /web/entries/<entry_id>/undo", access="admin")
    def undo_edits(self, caller: Caller, entry_id: str) -> dict[str, Any]:
        return {"edits": self.entries.edit(entry_id)}

    @route("POST /web/links", access="admin", fields=LINK)
    def add_link(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """:raises Problem: the address is not one of the web."""
        url = body["url"].strip(" ")
        is_address = is_web_address(url.replace(" ", "%20"))
        if not is_address or " " in urllib.parse.urlsplit(url).netloc:
            raise Problem("bad_link", repr(url))
        url = urllib.parse.quote(url, safe="!#$%&'()*+,/:;=?@[]~")  # as ASCII
        kind = body.get("file_type") or file_type(urllib.parse.urlsplit(url).path)
        kind = kind.lstrip(".").lower()
        facts = {name: body.get(name, "") for name in ENTRY_TEXTS}
        rest = body.get("size", 0), kind and safe_name(kind), facts, caller.name
        return {"id": self.entries.add_link(url, *rest)}

    @route("DELETE /web/links/<entry_id>", access="admin")
    def remove_link(self, caller: Caller, entry_id: str) -> None:
        self.entries.remove_link(entry_id)

    @route("GET /web/scan", access="session")
    @route("GET /web/check/scan", access="token")
    def scan_state(self, caller: Caller) -> dict[str, Any]:
        return scan_state(self.scanner, caller.age)

    @route("DELETE /web/disks/<volume>", access="admin")
    def give_up(self, caller: Caller, volume: str) -> None:
        self.scanner.give_up(volume)
        audit(caller.name, f"waits no more for the disk {volume}")

    @route("POST /web/scan", access="admin")
    @route("POST /web/check/scan", access="token")
    def rescan(self, caller: Caller) -> None:
        self.scanner.rescan()

    @route("GET /web/ages", access="session")
    def ages(self, caller: Caller) -> dict[str, Any]:
        if caller.age != EVERYTHING:
            raise Forbidden("admins_only")
        return {"ages": self.entries.ages(), "former": self.entries.former_ages()}

    @route("POST /web/ages", access="admin", fields=SET_AGES)
    def set_ages(self, caller: Caller, body: dict[str, Any]) -> None:
        self.entries.set_ages(body["titles"], body["age"])

    @route("GET /web/check", access="token")
    @route("GET /web/status", access="admin")
    @route("GET /api/status", access="key")
    def status(self, caller: Caller) -> dict[str, Any]:
        counts = self.queue.counts(caller.account)
        facts = {
            "version": __version__,
            "released": RELEASED,
            "releases": RELEASES,
            "entries": self.entries.count(caller.age),
            "queue": {status: counts.get(status, 0) for status in QUEUE_STATUSES},
        }
        return {**facts, **self.web.health.state()} if caller.admin else facts

    @route("POST /web/backup/file", "admin", CONFIRMED, OWN_THREAD)
    def backup_file(self, caller: Caller, body: Row) -> bottle.HTTPResponse:
        self.passwords.check_own(caller, body)
        if file := self.web.backups.last():
            name = os.path.basename(file.path)
            audit(caller.name, f"downloaded the backup {name}")
            return file_answer(file, name, FileUses())
        raise NotFound("no_backup")


class UploadCalls(Calls):
    """Files that are added to the inbox, in pieces."""

    @route("POST /web/uploads", access="session", fields=UPLOAD, runs=OWN_THREAD)
    def begin(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        self.inbox.facts(caller)
        return self.inbox.begin(caller.account, **body)

    @route("PATCH /web/uploads/<upload>", access="session", runs=OWN_THREAD)
    def append(self, caller: Caller, upload: str) -> Any:
        self.inbox.facts(caller)
        if bottle.request.content_type != FILE_HEADERS["Content-Type"]:
            raise bottle.HTTPError(415)
        offset = request_header("Upload-Offset")
        if not re.fullmatch("[0-9]{1,18}", offset):
            raise Problem("The header Upload-Offset is not a whole number from 0.")
        body = bottle.request.environ["wsgi.input"]  # bottle would copy it
        return self.inbox.append(caller.account, upload, int(offset), body)

    @route("DELETE /web/uploads/<upload>", access="session", runs=OWN_THREAD)
    def drop(self, caller: Caller, upload: str) -> None:
        self.inbox.facts(caller)
        self.inbox.drop(None if caller.admin else caller.account, upload)

    @route("GET /web/uploads", access="session", runs=OWN_THREAD)
    def unfinished(self, caller: Caller) -> dict[str, Any]:
        """Return the caller's uploads that are not whole; for an admin, all."""
        self.inbox.facts(caller)
        names = {row["id"]: row["name"] for row in self.accounts.all()}
        uploads = [
            {name: row[name] for name in ("id", "name", "size", "offset")}
            | {"account": names.get(row["account"], "")}
            | {"is_own": row["account"] == caller.account}
            for row in self.inbox.unfinished(None if caller.admin else caller.account)
        ]
        return {"uploads": uploads}


# Web: calls about the queue ---


MAX_ASKED = 50  # items of unfinished files that a client may ask about in one call


class QueueCalls(Calls):
    """The caller's send queue, for clients and for the page."""

    def __init__(self, web: Web) -> None:
        super().__init__(web)
        version = self.queue.version
        self._items = Latest(lambda account: version(), self._read_items, MAX_QUEUES)

    @route("POST /api/send-to-switch", access="key or session", fields=SEND)
    def send(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        is_new = self.queue.send(caller.account, body["entry_id"], body.get("device"))
        return {"message": "Added to the queue." if is_new else "Already in the queue."}

    @route("POST /web/send", access="session", fields=SEND_MANY)
    def send_many(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        to, anyway = body.get("device"), body.get("anyway", False)
        return self.queue.send_all(caller.account, body["entries"], to, anyway)

    @route("GET /api/send-queue", access="key")
    def pending_items(self, caller: Caller) -> bottle.HTTPResponse:
        query = bottle.request.query
        of: Row = {}
        if text := query.getunicode("target_arguments"):
            field, of = PROGRESS["error_arguments"], json_object(text.encode())
            check_arguments("target_arguments", field, of)
        target = reported(query.get("target_code", ""), of)
        target = target or (query.getunicode("target") or "")[:200]
        if target or caller.credential not in self.accounts.uses.target_states:
            self.accounts.uses.set_target_state(caller.credential, target)
        client = query.getunicode("client")
        waiting = self.clients.pending(caller.account, client, caller.credential)
        marked = self.entries.marked([item["entry"] for item in waiting], caller.age)
        queue = [self._item(item, item["entry"] in marked) for item in waiting]
        answer: dict[str, Any] = {"queue": queue}
        if asked := query.get("unfinished"):
            items = asked.split(",", MAX_ASKED)[:MAX_ASKED]
            answer["gone"] = self.clients.gone(items, caller.credential)
        return conditional(json_body(True, **answer))

    def _item(self, item: Mapping[str, Any], is_marked: bool) -> dict[str, Any]:
        name, source = item["name"], item["source"]
        if self.settings.sources == "url":
            name = download_name(file_name(item), item["entry"], is_marked)
            # Also for a link: clients send the key to this address.
            source = f"{base_url(self.settings)}/api/download/{item['entry']}"
        return {
            "queue_item_id": item["id"],
            "entry_id": item["entry"],
            "entry_name": name,
            "entry_source": source,
            "entry_size": item["size"],
            "status": item["status"],
            "created_at": item["created_at"],
            **({"replace": True} if item["replaces"] else {}),
        }

    @route("POST /api/send-queue/update", access="key", fields=UPDATE)
    @route("POST /api/send-queue/progress", access="key", fields=PROGRESS)
    def progress(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        report = {**body, "key": caller.credential}
        item = body["queue_item_id"]
        status = self.clients.report(caller.account, item, report)
        counted = {"attempts": self.clients.attempts(item)} if is_attempt(body) else {}
        return {"message": f"The item is {status}.", **counted}

    @route("POST /api/on-console", access="key", fields=ON_CONSOLE)
    def on_console(self, caller: Caller, body: Row) -> Row:
        """Take what the console behind a device lists of its titles; other texts are
        passed over. Return those of the `titles` that are known."""
        parts: dict[str, tuple[str, int]] = {}
        for text in body.get("parts", []):
            if part := re.fullmatch("([0-9A-F]{16}) ([0-9]{1,10})", text):
                base = title_facts(part[1]).get("base_id")
                parts |= {part[1]: (base, int(part[2]))} if base else {}
        if "parts" in body:
            goes_on, is_last = body.get("goes_on", False), body.get("is_last", True)
            self.clients.take_list(caller.credential, parts, goes_on, is_last)
        return {"known": self.entries.known_titles(body.get("titles", []), caller.age)}

    @route("GET /web/changes", access="session")
    def changes(self, caller: Caller) -> bottle.HTTPResponse:
        """Return the parts of what the page shows that differ from those in the answer
        whose ETag the call has. An ETag is made of a digest of each part. With
        ?watch=DEVICE the console of that one is tried often."""
        self.consoles.try_often(bottle.request.query.get("watch", ""))
        shown = re.fullmatch("[0-9]{1,9}", bottle.request.query.get("finished", ""))
        parts: dict[str, Any] = {
            "queue": self._items(caller.account, int(shown[0]) if shown else 100),
            "devices": self._page_devices(caller),
            "scan": scan_state(self.scanner, caller.age),
            "sent": self.queue.sent_version(),
            "entries": self.entries.list_version(),
            "account": page_account(caller),
        }
        if caller.age != EVERYTHING:  # versions tell of changes of what is hidden
            parts["sent"] = self.queue.sent(caller.account)
            parts["entries"] = self.web.list(caller.age, True).tag
        else:
            parts["ages"] = self.entries.list_version(age=0)
        who = PROCESS, caller.account
        texts = (json.dumps([who, part]).encode() for part in parts.items())
        tags = [content_digest(text)[:16] for text in texts]
        known = re.findall("[0-9a-f]{16}", request_header("If-None-Match"))
        tagged = zip(parts, tags, strict=True)
        changed = {name: parts[name] for name, tag in tagged if tag not in known}
        if "sent" in changed or "devices" in changed:
            changed["sent"] = self.queue.sent(caller.account)
        body = Body(json_body(True, **changed), "-".join(tags), level=1)
        # A browser that kept the part that one call is told would take it for all.
        return body.answer(JSON_HEADERS)

    def _page_devices(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the devices without what changes at each call of their clients."""
        devices = self.devices.all(caller.name, caller.admin)
        for device in devices:
            del device["requests"]
            if device["state"] != "away":
                device["last_call"] = None
        return devices

    def _read_items(self, account: int, limit: int) -> dict[str, Any]:
        """Return the open items and the newest finished ones, and how many of these
        there are in all."""
        items = self.queue.items(account, limit)
        return {"items": items, "finished": self.queue.count_finished(account)}

    @route("POST /web/queue/<item>/<way:re:retry|replace>", access="session")
    def retry(self, caller: Caller, item: str, way: str) -> None:
        self.queue.retry(caller.account, item, caller.admin, way)

    @route("POST /web/queue/retry", access="session")
    def retry_failed(self, caller: Caller) -> None:
        self.queue.retry_failed(caller.account)

    @route("POST /web/queue/<items>/cancel", access="session")
    def cancel(self, caller: Caller, items: str) -> dict[str, Any]:
        """Cancel items, whose ids have commas between them."""
        ids, admin = check("items", CLEAR["items"], items.split(",")), caller.admin
        return {"undo": self.queue.cancel(caller.account, *ids, admin=admin)}

    @route("POST /web/queue/cancel", access="session", fields=CANCEL)
    def cancel_waiting(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        return {"undo": self.queue.cancel_waiting(caller.account, **body)}

    @route("POST /web/queue/move", access="session", fields=MOVE)
    def move(self, caller: Caller, body: dict[str, Any]) -> None:
        self.queue.move(caller.account, body["items"], body.get("to"), caller.admin)

    @route("POST /web/queue/<item>/device", access="session", fields=TO_DEVICE)
    def move_to_device(self, caller: Caller, body: dict[str, Any], item: str) -> None:
        self.devices.move(caller.account, item, body.get("device"), caller.admin)

    @route("POST /web/queue/device", access="session", fields=TO_DEVICE)
    def move_freed(self, caller: Caller, body: dict[str, Any]) -> None:
        self.devices.move_freed(caller.account, body.get("device"))

    @route("POST /web/queue/clear", access="session", fields=CLEAR)
    def clear(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        return {"undo": self.queue.clear(caller.account, body["before"], body["items"])}

    @route("POST /web/queue/undo", access="session", fields=UNDO)
    def undo(self, caller: Caller, body: dict[str, Any]) -> None:
        self.queue.undo(caller.account, body["undo"], caller.admin)


# Web: calls of programs on consoles ---


class ConsoleCalls(Calls):
    """Console addresses: files for a program on the console, which has no key."""

    def __init__(self, web: Web) -> None:
        super().__init__(web)
        # By queue item, since it got its address or the server was started; what has
        # none, by account, entry and size.
        self.served = Recent[Served](MAX_REMEMBERED)
        self._index = Latest(self.entries.list_version, self._packages, MAX_INDEXES)
        self._folders = Latest(
            self.entries.list_version, self._folder_names, MAX_INDEXES
        )

    @route("POST /api/send-queue/addresses", access="key", fields=OFFER)
    def offer(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer null for an entry that is a link, or whose file is gone. Of more items
        than fit into a batch, the first are taken."""
        tokens = {item: new_token() for item in body["queue_item_ids"][:BATCH]}
        report = {**body, "key": caller.credential}
        offered = self.addresses.offer(caller.account, tokens, report)
        addresses: dict[str, str | None] = dict.fromkeys(offered)
        for item, entry in offered.items():
            for row in self.entries.on_console(caller.age, entry):
                if row["type"] == "filepath":
                    self.served[item] = Served()
                    place = f"{tokens[item]}/{urllib.parse.quote(row['file_name'], '')}"
                    addresses[item] = f"{base_url(self.settings)}/dir/{place}"
        return {"addresses": addresses, "stale_after": self.settings.stale_after}

    @route("GET /api/send-queue/addresses", access="key")
    def all_served_bytes(self, caller: Caller) -> dict[str, Any]:
        client = bottle.request.query.getunicode("client")
        items = self.addresses.items(caller.credential, client)
        return {"served": {id: self.served.get(id, Served()).bytes for id in items}}

    @route("GET /web/dir", access="session")
    def own_address(self, caller: Caller) -> dict[str, Any]:
        return {"token": self.addresses.browse_token(caller.account)}

    @route(f"POST {ONE_ACCOUNT}/dir", access="admin")
    @route("POST /web/dir", access="session")
    def make_address(self, caller: Caller, account: str = "") -> dict[str, Any]:
        token, of = new_token(), int(account or caller.account)
        self.addresses.set_browse_token(of, token)
        audit(caller.name, f"made a console address for {self.accounts.name_of(of)}")
        return {"token": token}

    @route("DELETE /web/dir", access="session")
    def revoke_address(self, caller: Caller) -> None:
        self.addresses.set_browse_token(caller.account)
        audit(caller.name, "revoked the console address")

    @route("GET /dir<path:re:(?:/.*)?>", access="dir", runs=OWN_THREAD)
    def browse(self, caller: Caller, path: str) -> bottle.HTTPResponse:
        age = caller.age
        path = f"/dir{path}".removeprefix(caller.base)
        place = "/".join(filter(None, path.split("/")))  # some programs double slashes
        is_httpdirfs = request_header("User-Agent").startswith("HTTPDirFS")
        if (path == "" and not is_httpdirfs) or place == "index.json":
            base = base_url(self.settings) + caller.base
            return conditional(self._index(age, base, caller.entry))
        if "." not in place and place in (folders := self._folders(age, caller.entry)):
            if path.endswith("/"):
                return directory_answer(folders[place])
            name = bottle.request.path.rpartition("/")[2]
            return json_answer(b"", 301, Location=f"{name}/")
        *folder, name = place.split("/")
        for entry in self.entries.on_console(age, caller.entry, name or "/"):
            if folder in ([], [entry["file_type"]], ["all"]):
                return self.content(entry, caller.age, self._served(caller, entry))
        raise NotFound("There is no such file.")

    def _served(self, caller: Caller, entry: Row) -> Served:
        if caller.item:
            served = self.served.setdefault(caller.item, Served())
            if not served.bytes:
                self.addresses.check_begin(caller.item)
            return served
        key = caller.account, entry["id"], entry["size"]
        line = call_line(f"{caller.name}: fetched by the console.", 200)
        return self.served.setdefault(key, Served(entry["size"], line))

    def _folder_names(self, age: int, entry: str | None) -> dict[str, dict[str, str]]:
        """Return the names in each folder, and how they are shown: one folder for each
        file type, "all", and "" for the top folder. That does not list "all", or
        mirrors would copy files twice."""
        found: dict[str, dict[str, str]] = {"all": {}}
        for row in self.entries.on_console(age, entry):
            if row["type"] == "filepath":
                for kind in ("all", row["file_type"]):
                    found.setdefault(kind, {})[row["file_name"]] = shown_name(row)
        kinds = [f"{kind}/" for kind in sorted(found) if kind != "all"]
        return {**found, "": dict(zip(kinds, kinds, strict=True))}

    def _packages(self, age: int, base: str, entry: str | None) -> bytes:
        """Return the list of packages in the form of Tinfoil's index.json."""
        files = []
        for row in self.entries.on_console(age, entry):
            if row["file_type"] in PACKAGES:
                name = urllib.parse.quote(row["file_name"], safe="")
                is_file = row["type"] == "filepath"
                url = f"{base}/{name}" if is_file else f"{row['source']}#{name}"
                files.append({"url": url, "size": row["size"]})
        index = {"files": files, "success": f"{len(files)} files"}
        return json.dumps(index).encode() + b"\n"


def quoted_name(name: str) -> str:
    """Return a name percent-encoded, also the H of "http", and a first character that
    is no letter or digit, which HTTPDirFS skips."""
    quoted = urllib.parse.quote(name, safe="/")
    return re.sub("(?i)^[-_]|h(?=ttp)", lambda found: f"%{ord(found[0]):X}", quoted)


def directory_answer(names: Mapping[str, str]) -> bottle.HTTPResponse:
    """Return a page that programs on consoles can parse: one relative link per line,
    `href` its first attribute, and no "http" in it, which would be another server."""
    link = '<a href="{}">{}</a><br>\n'.format
    links = "".join(link(quoted_name(a), html.escape(b)) for a, b in names.items())
    page = f"<!doctype html>\n<title>catalogd</title>\n<body>\n{links}</body>\n"
    kind = {"Content-Type": "text/html; charset=utf-8"}
    return conditional(page.encode(), {**KEPT_HEADERS, **kind})


# Web: bodies ---


def conditional(
    body: bytes, headers: Mapping[str, str] = KEPT_HEADERS, etag: str = ""
) -> bottle.HTTPResponse:
    """Return a body, or 304 to a caller that has it already. The default ETag is made
    from the content."""
    etag = etag or f'"{content_digest(body)}"'
    headers = {**headers, "ETag": etag}
    if matches(request_header("If-None-Match"), etag, weak=True):
        return bottle.HTTPResponse(b"", 304, headers)
    headers["Content-Length"] = str(len(body))
    is_long = len(body) > LONG_BODY_BYTES
    return bottle.HTTPResponse(io.BytesIO(body) if is_long else body, 200, headers)


def image_answer(image: bytes) -> bottle.HTTPResponse:
    """Return an image whose address changes with it."""
    cached = {"Cache-Control": "private, max-age=31536000, immutable"}
    headers = {**JSON_HEADERS, "Content-Type": image_type(image), **cached}
    return conditional(image, headers)


@dataclasses.dataclass
class Body:
    """A body for callers that may accept gzip. `tag` is that of its ETag, `level` that
    of the compression, which the first of them causes."""

    content: bytes
    tag: str
    level: int

    @functools.cached_property
    def zipped(self) -> bytes:
        return zlib.compress(self.content, self.level, wbits=31)

    def answer(self, headers: Mapping[str, str]) -> bottle.HTTPResponse:
        headers = {**headers, "Vary": "Accept-Encoding"}
        sent = GZIP.search(request_header("Accept-Encoding"))
        if sent is None or not (sent[1] or "1").strip("0."):  # absent, or q=0
            return conditional(self.content, headers, f'"{self.tag}"')
        headers["Content-Encoding"] = "gzip"
        return conditional(self.zipped, headers, f'"{self.tag}-gzip"')


def asset_route(name: str, kind: str, content: bytes) -> None:
    """Serve a part of the page, of the Content-Type `kind`."""
    body = Body(content, content_digest(content), level=9)
    headers = {**PAGE_HEADERS, "Content-Type": kind}
    route(f"GET /{name}", access="open")(lambda web: body.answer(headers))


@route("GET /languages/<language>.json", access="open")
def translation_answer(web: Web, language: str) -> bottle.HTTPResponse:
    if language not in web.translations:
        raise bottle.HTTPError(404)
    headers = {**PAGE_HEADERS, "Content-Type": "application/json"}
    return web.translations[language].body.answer(headers)


# Web: files ---


def open_content(served: ServedFile, uses: FileUses) -> Content:
    """Open the file of an entry. :raises NotFound: it is gone, or cannot be read.
    :raises StorageFailed: its disk fails."""
    record = functools.partial(uses.record, served.path, served.folder)
    try:
        with record():
            file: Content = open_file(served.path, served.folder, CONTENT)
    except OSError as error:
        if has_failed(error):
            raise StorageFailed("disk_away") from error
        raise NotFound("file_unreadable") from error
    file.record = record
    return file


def file_answer(
    known: ServedFile, name: str, uses: FileUses, served: Served | None = None
) -> bottle.HTTPResponse:
    """Return a file, or the part of it that the request asks for. :raises NotFound:"""
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(open_content(known, uses))
        file.served = served  # gets the bytes that were sent, as they are sent
        now = file.stat()
        date = int(time.time())  # of the answer, which no file is younger than
        modified = min(max(int(now.st_mtime), 0), date)
        headers = file_headers(known, name, now)
        headers["Date"] = email.utils.formatdate(date, usegmt=True)
        headers["Last-Modified"] = email.utils.formatdate(modified, usegmt=True)
        sent, method = bottle.request.headers.raw, bottle.request.method
        etag = headers["ETag"]
        status, start, stop = evaluate(sent, etag, modified, now.st_size, method)
        if status == 412:
            raise bottle.HTTPError(412)
        headers["Content-Length"] = str(stop - start)
        if status == 304:
            return bottle.HTTPResponse(b"", 304, headers)
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{now.st_size}"
        file.seek(start)
        opened.pop_all()  # the server closes it
    return bottle.HTTPResponse(file, status, headers)


def file_headers(served: ServedFile, name: str, now: os.stat_result) -> dict[str, str]:
    """Return headers of an answer with a file, among them that of RFC 9530, if the
    checksum of the file as it is is known."""
    headers = {**FILE_HEADERS, "Content-Disposition": attachment(name)}
    headers["Accept-Ranges"] = "bytes"
    headers["ETag"] = f'"{now.st_mtime_ns:x}-{now.st_size:x}"'
    if served.sha256 and (served.size, served.mtime) == (now.st_size, now.st_mtime_ns):
        checksum = base64.b64encode(bytes.fromhex(served.sha256)).decode()
        headers["Repr-Digest"] = f"sha-256=:{checksum}:"
    return headers


# Menus ------------------------------------------------------------------------
# The library by title, for the menus of programs on a console. Experimental.
# It may use all that is above: no SQL.

MENU = "<base:re:(?:/dir(?:/[^/]+)?)?>"  # below which a program has its menu
GREETING: Row = {"motd": "", "remote": "", "features": {"shop": True}}
GREETING |= {"version": __version__, "protocol_version": 1}
MAX_QUERY_LENGTH = 4096
MAX_PAGE_SIZE, MAX_PAGES = 100, 1_000_000  # one thread answers menus and lists
SEARCH = {"search": Field(str, max_length=64), "id": Field(str)}
Part = dict[str, Any]  # of a title, by GraphQL's names of fields
# Sphaira's documents, as plain_query writes them: a title's page, a page of a list.
TITLE_QUERY = re.compile(r"\{title\(titleId:\$(\w+)\)\{")
APPS_QUERY = re.compile(  # without aliases
    r"\{apps\(([^()]*)\)\{total items\{(?:[\w {}]|\([^()]*\))*\Z"
)
APP_TYPE = re.compile(r"\bappType:\[(BASE|UPDATE|DLC)\]")
ORDER = re.compile(r"\borderBy:\{field:(\w+) direction:(\w+)\}")
CONDITION = re.compile(r"\b(appId|titleId):\{(in|notIn):\$(\w+)\}")
CONDITIONS = ("appId_in", "appId_notIn", "titleId_in", "titleId_notIn")
VARIABLE = re.compile(r"\b(page|pageSize|search):\$(\w+)")
LISTS = {"base": "BASE", "updates": "UPDATE", "dlc": "DLC"}  # of the page of a title
PART_FIELDS = (
    *("appId", "titleId", "appVersion", "displayVersion"),
    *("downloadUrl", "downloadExtension", "downloadSize"),
)


class MenuCalls(Calls):
    """What a program on a console shows as its own menu: below a console address, or
    with Basic authentication below /dir, or at the root of the server."""

    def __init__(self, web: Web) -> None:
        super().__init__(web)
        self._sections = Latest(
            self.entries.list_version, self._make_sections, MAX_INDEXES
        )

    def _prefix(self, caller: Caller, base: str) -> str:
        """Return what comes before a path below /dir, where a program joins it to its
        base. :raises NotFound: the caller has no library at this base."""
        if caller.item or base not in ("", caller.base):
            raise NotFound("There is no library at this address.")
        return "" if base else "/dir"

    @route(f"GET {MENU}/api/<name:re:remote|shop>/sections", "menu", runs="lists")
    def sections(self, caller: Caller, base: str, name: str) -> bottle.HTTPResponse:
        # CyberFoil would send the key of Basic authentication to the host of a link.
        has_links = caller.base != "/dir"
        prefix = self._prefix(caller, base)
        return conditional(self._sections(caller.age, prefix, has_links))

    @route(f"OPTIONS {MENU}/", "menu", runs="workers")
    def greet(self, caller: Caller, base: str) -> bottle.HTTPResponse:
        """Tell Sphaira what this is. It saves one server for each `uid`."""
        self._prefix(caller, base)
        made_at = {row["id"]: row["created_at"] for row in self.accounts.all()}
        uid = content_digest(f"{caller.account} {made_at[caller.account]}".encode())
        greeting = {"uid": uid, "name": f"catalogd, {caller.name}", **GREETING}
        return json_answer(json.dumps(greeting).encode() + b"\n")

    @route(f"POST {MENU}/api/graphql", "menu", runs="lists")
    def query(self, caller: Caller, base: str) -> bottle.HTTPResponse:
        """Answer a query of Sphaira, which shows the first message of `errors`."""
        prefix = self._prefix(caller, base)
        try:
            body = json_object(request_body())
            answer: Row = {"data": self._answer(caller.age, prefix, body)}
        except Problem as problem:
            answer = {"errors": [{"message": str(problem)}]}
        return json_answer(json.dumps(answer).encode() + b"\n")

    @route(f"GET {MENU}/api/icons/<entry_id>/<digest>.<ending>", "menu")
    def icon(self, caller: Caller, base: str, **icon: str) -> bottle.HTTPResponse:
        self._prefix(caller, base)
        image = self.entries.icons.of(icon["entry_id"], caller.age, icon["digest"])
        return image_answer(image)

    def _answer(self, age: int, prefix: str, body: Mapping[str, Any]) -> Part:
        """:raises Problem: the query is none of Sphaira's."""
        text, variables = given(body, "query", str), given(body, "variables", dict)
        query = plain_query(text) if len(text) <= MAX_QUERY_LENGTH else ""
        if title := TITLE_QUERY.search(query):
            id = given(variables, title[1], str)
            titles = [id, *self.entries.menus.titles_with(id, age)]
            shelf = self._shelf(age, prefix, titles)
            return {"title": shelf.titles.get(id)}
        apps = APPS_QUERY.search(query)
        if not (apps and APP_TYPE.search(apps[1])):
            raise Problem("The query asks for what this server does not have.")
        field, direction = (ORDER.findall(apps[1]) or [("NAME", "ASC")])[0]
        field = "created_at" if field == "ADDED_AT" else "sort_name"
        order = f"{field} {'DESC' if direction == 'DESC' else 'ASC'}"
        values = list_values(apps[1], variables)
        total, ids = self.entries.menus.page(age, order, values)
        shelf = self._shelf(age, prefix, [title for title, _ in ids])
        items = [shelf.parts.get((title, part)) for title, part in ids]
        return {"apps": {"total": total, "items": [*filter(None, items)]}}

    def _shelf(self, age: int, prefix: str, titles: Sequence[str]) -> "Shelf":
        """Return the parts of titles, with the addresses of the file and of an icon
        that a console can decode."""
        files: list[Part] = self.entries.menus.of_titles(age, titles)
        for file in files:
            file["icon"] = file["icon_path"] and prefix + file["icon_path"]
            url = f"{prefix}/{urllib.parse.quote(file['file_name'], safe='')}"
            file["downloadUrl"] = url
        return Shelf(files)

    def _make_sections(self, age: int, prefix: str, has_links: bool) -> bytes:
        """Return the one section from which CyberFoil makes its others. It rejects an
        answer in which there is "<html"."""
        mark = secrets.token_hex(8)  # around names, which SQLite cannot quote
        items = self.entries.menus.section_json(age, prefix, has_links, mark)
        parts = items.replace(b"<", b"\\u003c").split(mark.encode())
        parts[1::2] = [urllib.parse.quote(name, "").encode() for name in parts[1::2]]
        around = b'{"sections": [{"id": "all", "title": "All", "items": %b}]}\n'
        return around % b"".join(parts)


def given(values: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a value, or an empty one of this type for null and where there is none.
    :raises Problem: it is of another type."""
    value = values.get(name)
    value = kind() if value is None else value
    if type(value) is not kind:
        raise Problem(f"{name} is of another type than {kind.__name__}.")
    return value


def plain_query(text: str) -> str:
    """Return a query with one space between words, without other space and commas."""
    words = " ".join(text.replace(",", " ").split())
    return re.sub(r" ?([^\w ]) ?", r"\1", words)


def list_values(arguments: str, variables: Mapping[str, Any]) -> Row:
    """Return the values of MENU_PAGE. An empty list is no condition.
    :raises Problem: a variable is of another type."""
    named = dict(VARIABLE.findall(arguments))
    values = {name: variables.get(variable) for name, variable in named.items()}
    search = check_text("search", SEARCH["search"], given(values, "search", str))
    search = normalized(search).casefold()
    size = given(values, "pageSize", int) or MAX_PAGE_SIZE
    size = min(max(size, 1), MAX_PAGE_SIZE)
    start = (min(max(given(values, "page", int), 1), MAX_PAGES) - 1) * size
    page: Row = {"size": size, "start": start, "search": json.dumps(search)}
    page |= {"type": APP_TYPE.findall(arguments)[0], **dict.fromkeys(CONDITIONS)}
    for name, way, variable in CONDITION.findall(arguments):
        texts = given(variables, variable, list)
        ids = [check_text(variable, SEARCH["id"], text) for text in texts]
        page[f"{name}_{way}"] = json.dumps(ids) if ids else None
    return page


class Shelf:
    """The parts that have ids, by title, as Sphaira's menu shows them. Of several files
    of one part, it takes the first."""

    def __init__(self, files: Iterable[Part]) -> None:
        self.titles: dict[str, Part] = {}  # by the ids of games, and of add-ons
        self.parts: dict[tuple[str, str], Part] = {}  # of each the newest version
        by_title = operator.itemgetter("titleId")
        for title_id, own in itertools.groupby(sorted(files, key=by_title), by_title):
            self._add(title_id, [*own])

    def _add(self, title_id: str, files: Sequence[Part]) -> None:
        first = min(files, key=operator.itemgetter("appType"))
        name = first["plain_name"]
        if first["appType"] != "BASE":  # see part_name
            name = name.rpartition(" - ")[0] or name
        texts = menu_texts(first, name)
        latest = max(files, key=lambda it: (it["appType"] != "DLC", it["appVersion"]))
        held = {"version": latest["appVersion"]}
        held["displayVersion"] = latest["displayVersion"]
        parts = {file["id"]: menu_part(file, texts, held) for file in files}
        lists = {
            name: [parts[file["id"]] for file in files if file["appType"] == kind]
            for name, kind in LISTS.items()
        }
        self.titles[title_id] = {**texts, **lists}
        for file in sorted(files[::-1], key=operator.itemgetter("appVersion")):
            part = self.parts[title_id, file["appId"]] = parts[file["id"]]
            if file["appType"] == "DLC":  # its page has no files of its own
                self.titles[file["appId"]] = part["titledb"] | dict.fromkeys(LISTS, [])


def menu_texts(part: Part, name: str) -> Part:
    """Return what the menu shows of a game or add-on."""
    icon = part["icon"] and {"url": part["icon"], "local": True}
    texts: Part = {"name": name, "icon": icon}
    texts |= {name: part[name] or None for name in ("publisher", "description")}
    lists = ("category", "screenshots", "full", "availableVersions")
    return texts | dict.fromkeys(lists, [])


def menu_part(part: Part, texts: Part, held: Part) -> Part:
    """Return what the menu is told of a part, with the texts of its game and the
    version of what is held."""
    own = menu_texts(part, part["name"]) if part["appType"] == "DLC" else texts
    facts = {name: part[name] for name in PART_FIELDS}
    facts |= {"title": texts, "latestOwnedVersion": held}
    return facts | {"titledb": None if part["appType"] == "UPDATE" else own}


# Page -------------------------------------------------------------------------
# The files of the page, each served at its own path, so that no script is inline.
# It may use what Web has to serve them, and read the files of translations.

# language=HTML
HTML = r"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport"
  content="width=device-width, initial-scale=1, viewport-fit=cover">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" content="#f4f2ec" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="#131716" media="(prefers-color-scheme: dark)">
<title>catalogd</title>
<link rel="icon" href="icon.svg">
<link rel="apple-touch-icon" href="icon-192.png">
<link rel="manifest" href="manifest.webmanifest">
<link rel="stylesheet" href="style.css">
<script src="script.js" defer></script>
<body>
<div id="app"></div>
<div id="drafts" hidden></div>
<div id="trouble">
<h1>catalogd</h1>
<p>This page needs JavaScript, and Chrome or Edge 105, Firefox 115 or Safari 15.4, or
later.</p>
<a class="button" href="./">Try again</a>
</div>
</body>
</html>
"""

# language=CSS
CSS = r""":root {
  --ground: #f4f2ec; --surface: #fffdf9; --ink: #1b211f; --muted: #5a635e;
  --line: #dedbd1; --edge: #868c85; --accent: #0f6b5c; --on-accent: #fff;
  --soft: #dfece6; --warn: #744a00; --warn-soft: #f7e8c6; --bad: #9f2a1c;
  --bad-soft: #f9e0da; --shade: 0 1px 2px #1b211f14, 0 4px 14px #1b211f0d;
  --ring: #0f6b5c12; --veiled: #929490; /* the ground below a dialog */
  --radius-s: 10px; --radius-m: 12px; --radius-l: 16px; --radius-full: 99px;
  --normal: 400; --medium: 550; --strong: 600; --bold: 700; /* weights */
  --tight: -.02em; --wide: .06em; /* spacing of letters */
  color-scheme: light dark;
  font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  scroll-padding: 9rem 0 8rem; overflow-y: scroll; scrollbar-gutter: stable;
}
:root:has(dialog[open]) { overflow: hidden; }
:root:has(dialog[open]:not(.filters)) { background: var(--veiled); }
dialog::backdrop { background: #1b211f73; } /* variables came to it in 2024 */
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #131716; --surface: #1b211f; --ink: #e9eeeb; --muted: #9faca6;
    --line: #2d3633; --edge: #74817b; --accent: #7fd4bf; --on-accent: #06281f;
    --soft: #1d3932; --warn: #f0c36a; --warn-soft: #3a2e12; --bad: #ffb1a3;
    --bad-soft: #47211b; --shade: 0 1px 2px #0006, 0 4px 14px #0003;
    --ring: #7fd4bf12; --veiled: #060807;
  }
  dialog::backdrop { background: #000a; }
}

*, ::before, ::after { box-sizing: border-box; }
#app * { unicode-bidi: plaintext; } /* each by its own text, as <bdi> is */
#app :is(:lang(ja), :lang(zh)):not(code) {
  line-break: strict; word-break: auto-phrase; letter-spacing: normal;
  font-synthesis: none;
}
body {
  min-height: 100vh; margin: 0; background: var(--ground); color: var(--ink);
  text-align: left; /* by the page's direction, not by that of each name */
}
[dir="rtl"] > body { text-align: right; }
[dir="rtl"] :is(.progress span, .fill > :first-child) { transform-origin: 100% 50%; }
h1, h2, h3, h4, p, ul, dl, dd { margin: 0; padding: 0; }
ul { list-style: none; }
h1, h2 { font-weight: var(--bold); letter-spacing: var(--tight); }
h1 { font-size: 1.625rem; line-height: 1.2; }
h2 { font-size: 1.25rem; line-height: 1.3; }
h3 { font-size: 1rem; font-weight: var(--strong); line-height: 1.3; }
h2, h3, .question p { overflow-wrap: break-word; }
h1 { overflow-wrap: anywhere; hyphens: auto; }
a { color: var(--accent); }
code { font: .875rem/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
:focus-visible {
  outline: 3px solid var(--accent); outline-offset: 2px; border-radius: var(--radius-s);
}
main:focus-visible { outline: none; }
:is(.option, .to-device):has(:focus-visible) {
  outline: 3px solid var(--accent); outline-offset: 2px;
}
[data-by="pointerdown"] :is(a, button):focus-visible { outline: none; } /* WebKit's */
.unseen {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap;
}
.glyph {
  width: 1.25em; height: 1.25em; flex: none; fill: none; stroke: currentColor;
  stroke-width: 2; stroke-linecap: round; stroke-linejoin: round;
}
.meta, .lead, .machine, .forgotten, dt { color: var(--muted); font-size: .875rem; }
.meta, .ring, .count, .chip-count, .selection p, .pairing-code, .percent, .fill-text,
.tidy td { font-variant-numeric: tabular-nums; }
.card {
  background: var(--surface); border: 1px solid var(--line);
  border-radius: var(--radius-l); box-shadow: var(--shade);
}
.who, .entry .mark, .dock .meta {
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
}

/* Rows, and those that go on in the next line where there is no room */
.brand, .check, .code, .device-head, .getting, .lane-head, .option, .part-choice,
.selection, .tabs a, .top nav a, .upload { display: flex; align-items: center; }
.actions, .chips, .head, .item, .machine, .part, .part-name, .row, .scan-line,
.send-bar, .strip, .summary, .toast, .tools, .top {
  display: flex; flex-wrap: wrap; align-items: center;
}

/* Controls */
button, .button, input, select, textarea { font: inherit; color: inherit; }
button, .button {
  display: inline-flex; align-items: center; justify-content: center; gap: .5rem;
  min-height: 2.5rem; padding: .4rem 1rem; border: 1px solid var(--edge);
  border-radius: var(--radius-s); background: var(--surface); color: var(--ink);
  font-size: .875rem; font-weight: var(--strong); line-height: 1.2;
  text-decoration: none; cursor: pointer; touch-action: manipulation;
}
button.primary {
  background: var(--accent); border-color: var(--accent); color: var(--on-accent);
}
button.plain {
  border-color: transparent; background: none; color: var(--accent);
  padding: .4rem .7rem;
}
button.danger, .upload[data-status="failed"] .meta { color: var(--bad); }
:is(button, select)[aria-disabled] { opacity: .55; cursor: default; }
select[aria-disabled] { pointer-events: none; }
button[aria-busy], form[aria-busy] button:not([type]) { opacity: .8; cursor: progress; }
button.wide { width: 100%; min-height: 2.875rem; }
.icon-button {
  width: 44px; min-height: 44px; padding: 0; flex: none;
  border-color: transparent; background: none; color: var(--muted);
}
.icon-button[aria-pressed="true"] { background: var(--soft); color: var(--accent); }
input, select, textarea {
  width: 100%; min-height: 2.75rem; padding: .5rem .75rem;
  border: 1px solid var(--edge); border-radius: var(--radius-s);
  background: var(--surface); font-size: 1rem;
}
input::placeholder { color: var(--muted); opacity: 1; }
textarea { resize: vertical; }
input[type="checkbox"] {
  width: 1.375rem; height: 1.375rem; min-height: 0; margin: 0;
  accent-color: var(--accent); flex: none;
}
.field { display: grid; gap: .3rem; align-content: end; min-width: 0; }
.field span { font-size: .875rem; font-weight: var(--medium); }
.field small {
  margin-inline-start: .5rem; font-weight: var(--normal); font-size: .75rem;
  color: var(--muted);
}
.check { gap: .6rem; min-height: 2rem; font-size: 1rem; }
.problem { color: var(--bad); font-size: 1rem; overflow-wrap: break-word; }
:is(.problem, .actions, .description, .waits, .found, .place, .meta):empty {
  display: none;
}
.actions { gap: .6rem; }
.spinner {
  display: inline-block; width: 1em; height: 1em; margin-inline-end: .6em;
  vertical-align: -.12em; border: 2px solid currentColor;
  border-inline-end-color: transparent; border-radius: var(--radius-full);
  animation: turn .9s linear infinite;
}
@keyframes turn { to { transform: rotate(1turn); } }
.mark {
  display: inline-block; padding: .05rem .5rem; border-radius: var(--radius-m);
  background: var(--soft); color: var(--accent); font-size: .75rem;
  font-weight: var(--strong); line-height: 1.4rem;
}
.mark.warn { background: var(--warn-soft); color: var(--warn); }
.mark.bad { background: var(--bad-soft); color: var(--bad); }
.mark.strong { background: var(--accent); color: var(--on-accent); }
.mark.quiet { background: var(--line); color: var(--ink); }
.progress {
  display: block; height: .5rem; border-radius: var(--radius-full); overflow: hidden;
  background: var(--line);
}
.progress span {
  display: block; height: 100%; background: var(--accent); transform-origin: 0 50%;
  transition: transform .3s linear;
}
.live { display: contents; }
.ring {
  position: relative; display: grid; place-items: center; width: 2.375rem;
  height: 2.375rem; flex: none; color: var(--muted); font-size: .75rem;
  font-weight: var(--bold);
}
.ring > svg:first-child {
  position: absolute; inset: 0; fill: none; stroke: var(--line); stroke-width: 4;
  transform: rotate(-90deg);
}
.ring circle + circle {
  stroke: var(--accent); transition: stroke-dasharray .3s linear;
}

/* Around the views */
.skip {
  position: fixed; z-index: 9; top: -6rem; inset-inline-start: 1rem;
  padding: .75rem 1rem; border-radius: var(--radius-s); background: var(--accent);
  color: var(--on-accent);
}
.skip:focus { top: 1rem; }
.bar {
  padding: .5rem 1rem; border-radius: var(--radius-m); background: var(--warn-soft);
  color: var(--warn); font-size: .875rem; font-weight: var(--medium);
}
.top { /* as high while the library loads */
  position: sticky; z-index: 3; top: 0; gap: .25rem 1rem; min-height: 4.25rem;
  max-width: 160rem; margin: 0 auto; padding: .5rem 2rem; background: var(--ground);
}
.top * { scroll-margin: -9rem 0 9rem; } /* in sight, where nothing has to scroll */
:root:has(#search:focus) { scroll-padding: 0; } /* for the caret, which has no margin */
.brand {
  gap: .65rem; font-weight: var(--bold); font-size: 1.25rem;
  letter-spacing: var(--tight);
}
.logo { display: block; width: 2rem; height: 2rem; border-radius: var(--radius-s); }
.who { order: 2; margin-inline-start: auto; color: var(--muted); font-size: .875rem; }
.top nav { display: flex; gap: .25rem; }
.top nav a {
  position: relative; gap: .5rem; min-height: 2.5rem; padding: .3rem .9rem;
  border-radius: var(--radius-s); color: var(--muted); font-weight: var(--medium);
  text-decoration: none;
}
.top nav a[aria-current] { background: var(--soft); color: var(--accent); }
.count { /* in no room of its own */
  position: absolute; top: -.1rem; inset-inline-start: 1.5rem; min-width: 1.3rem;
  padding: 0 .35rem; border-radius: var(--radius-full); background: var(--accent);
  color: var(--on-accent); font-size: .75rem; line-height: 1.3rem; text-align: center;
  white-space: nowrap;
}
.view { max-width: 160rem; margin: 0 auto; padding: 0 2rem 9rem; }
.head { gap: .25rem 1rem; padding: 1.25rem 0 1rem; }
.head > :first-child { margin-inline-end: auto; }
.starting { padding: 30vh 1rem 0; text-align: center; color: var(--muted); }
.toasts, .uploads {
  position: fixed; bottom: 1.5rem; width: min(26rem, calc(100vw - 2rem));
}
.toasts {
  z-index: 8; inset-inline-start: 2rem; display: grid; gap: .5rem;
  grid-template-columns: minmax(0, 1fr);
}
:has(.selection) > :is(.toasts, .uploads) { bottom: 6rem; }
.dock ~ :is(.toasts, .uploads) { bottom: 8rem; }
#app > .toasts.high { top: 4.5rem; bottom: auto; }
.toast {
  justify-content: end; gap: 0 .5rem; padding: .25rem; padding-inline-start: 1rem;
  border-radius: var(--radius-m); background: var(--ink); color: var(--ground);
  font-size: 1rem; animation: rise .18s ease-out;
}
.toast p { flex: 1 1 8rem; min-width: 0; padding: .5rem 0; overflow-wrap: anywhere; }
.toast .icon-button, .toast .plain { color: inherit; }
.toast .plain { font-weight: var(--bold); text-decoration: underline; }
.toast.bad { background: var(--bad); color: var(--ground); }
.toast :focus-visible { outline-color: currentColor; outline-offset: -4px; }
@keyframes rise { from { opacity: 0; transform: translateY(.5rem); } }
.empty {
  display: grid; justify-items: center; gap: .5rem; padding: 12vh 1rem 3rem;
  text-align: center;
}
.empty p {
  max-width: 26rem; margin-bottom: .75rem; color: var(--muted);
  overflow-wrap: anywhere; text-wrap: balance;
}
.art { display: flex; justify-content: center; margin: .5rem 0 1.75rem; }
.art .cover {
  width: min(6.5rem, 22vw); margin: 0 max(-.9rem, -3vw); box-shadow: 0 8px 24px #0003;
}
.art .cover:first-child { rotate: -9deg; translate: 0 .6rem; }
.art .cover:nth-child(2) { z-index: 1; scale: 1.12; }
.art .cover:last-child { rotate: 9deg; translate: 0 .6rem; }

#trouble { /* at once, or where the script has not begun after three seconds */
  padding: 30vh 1rem 0; text-align: center; animation: appear 1ms 3s backwards;
}
#trouble p { margin: .5rem auto 1.25rem; max-width: 26rem; }
@keyframes appear { from { visibility: hidden; } }

/* Signing in */
.door {
  display: grid; grid-template-columns: minmax(0, 25rem); place-content: center;
  min-height: 100vh; padding: 1.5rem min(1rem, 4vw);
  background: /* whole circles, which a card of usual size leaves in sight */
    radial-gradient(circle, var(--ring) 26vmin, transparent calc(26vmin + 1px)),
    radial-gradient(circle, var(--ring) 37vmin, transparent calc(37vmin + 1px)),
    radial-gradient(circle, var(--ring) 48vmin, transparent calc(48vmin + 1px));
}
.door .card { padding: min(2rem, 7vw); }
.door-head { display: grid; gap: .35rem; margin-bottom: 1.5rem; }
.door-head .logo {
  width: 3.25rem; height: 3.25rem; margin-bottom: .65rem;
  border-radius: var(--radius-m);
}
.door-head p, .step.is-done h3, .code small { color: var(--muted); }
.door .chips { justify-content: center; margin-top: 1rem; }
.door .chip:not([aria-pressed="true"]) { background: var(--ground); }
.machine { gap: 0 .75rem; }
.machine .icon-button { margin-inline-start: auto; }
.forgotten { margin-top: 1.25rem; }
.door form { display: grid; gap: 1.1rem; }

/* Library */
.tools { flex: 1 1 24rem; gap: .25rem; min-width: 0; }
.tools .to-device { margin-inline-start: auto; }
.search { position: relative; flex: 1 1 8rem; max-width: 34rem; min-width: 0; }
.search .glyph {
  position: absolute; inset-inline-start: .8rem; top: .8rem; color: var(--muted);
  pointer-events: none;
}
.search input {
  padding-inline-start: 2.6rem; border-radius: var(--radius-full);
  text-overflow: ellipsis;
}
.search kbd {
  position: absolute; inset-inline-end: .7rem; top: .7rem; width: 1.35rem;
  border-radius: var(--radius-s); border: 1px solid var(--line); color: var(--muted);
  font: .75rem/1.3rem system-ui; text-align: center; pointer-events: none;
}
.search input:not(:placeholder-shown) + kbd, .search :focus + kbd { display: none; }
.view > .note { margin: .75rem 0 0; }
.chips { gap: .35rem; }
.chip {
  display: block; min-height: 2.125rem; padding: .1rem .85rem;
  border-radius: var(--radius-full); flex: none; max-width: 100%;
  border-color: var(--line); background: none; font-size: .875rem;
}
.chip[aria-pressed="true"] {
  background: var(--accent); border-color: var(--accent); color: var(--on-accent);
}
.chip-count {
  margin-inline-start: .15rem; color: var(--muted); font-weight: var(--normal);
}
.chip[aria-pressed="true"] .chip-count { color: inherit; }
.is-set { color: var(--accent); background: var(--soft); }
/* Above the library, so that it pushes nothing */
.uploads { z-index: 5; inset-inline-end: 2rem; padding: .75rem 1.25rem; }
.upload { gap: .25rem; padding: .35rem 0; }
.upload h3 { font-size: 1rem; overflow-wrap: anywhere; }
.upload .progress { margin-top: .35rem; }
.uploads summary { min-height: 2.75rem; align-content: center; }
.uploads ul { max-height: 35vh; margin: .5rem 0; overflow: auto; }
.dropping {
  position: fixed; z-index: 9; inset: .75rem; display: grid; place-items: center;
  border: 3px dashed var(--accent); border-radius: var(--radius-l);
  background: var(--soft); color: var(--accent); font-size: 1.25rem;
  font-weight: var(--bold); opacity: .95; pointer-events: none;
}
.summary { gap: .25rem 1rem; padding: .25rem 0 .9rem; }
.strip { gap: .35rem 1rem; }
.shelves { display: flex; gap: 2rem; padding-bottom: 1.25rem; }
.shelf { --cover: 3.5rem; flex: 0 1 auto; min-width: min(22rem, 100%); }
.shelf h2 {
  display: inline-block; margin: 0 0 .4rem; margin-inline-end: .75rem; font-size: 1rem;
}
.shelf ul { display: flex; gap: 1rem; overflow-x: auto; scrollbar-width: none; }
.strip::-webkit-scrollbar, .shelf ul::-webkit-scrollbar { display: none; }
.shelf .entry {
  flex: 0 0 20rem; padding: .5rem; padding-inline-end: .75rem;
  border: 1px solid var(--line); border-radius: var(--radius-l);
  background: var(--surface);
}
.shelf .newer { display: none; }
.first-run { padding: 1.25rem 1.35rem; }
.first-run.card { width: 100%; margin-bottom: 1.25rem; }
.first-run.card .steps { --column: 16rem; gap: 1.25rem; margin-top: 1rem; }
.first-run.card .step::after { display: none; }
.first-run.empty .steps { max-width: 26rem; text-align: start; }
.first-run .step, .first-run .step.is-done {
  display: grid; align-content: start; gap: .35rem;
}
.first-run .steps .step p {
  max-width: none; margin: 0; font-weight: var(--normal); text-wrap: wrap;
}
.scanning { color: var(--accent); font-size: .875rem; font-weight: var(--medium); }
.entries { display: grid; align-content: start; }
.entries.covers { gap: 20px; }
.cover {
  display: block; width: 100%; height: auto; aspect-ratio: 1;
  border-radius: var(--radius-m); background: var(--line); object-fit: cover;
}
.entry { --lines: 2; position: relative; display: grid; min-width: 0; }
.entry-name, .item-text h3, .lane-text :is(h2, h3) { /* to the end of a word */
  max-height: calc(var(--lines, 1) * 1.3em); overflow: hidden; line-height: 1.3;
  overflow-wrap: break-word;
}
.entry-name {
  display: block; color: var(--ink); font-size: 1rem; font-weight: var(--strong);
  text-decoration: none;
}
a.entry-name::after { content: ""; position: absolute; inset: 0; } /* all is the link */
.entry .meta { height: 1.45em; overflow: hidden; word-break: keep-all; } /* in a line */
.entry .meta + .meta { height: auto; max-height: 2.9em; } /* an update on a console */
.entry-text { display: grid; min-width: 0; }
.marks { display: flex; flex-wrap: wrap; gap: .3rem; }
.send {
  position: relative; z-index: 1; border-color: transparent;
  border-radius: var(--radius-full); background: var(--accent);
  color: var(--on-accent); gap: .4rem; white-space: nowrap;
}
.send.is-again { background: none; border-color: var(--line); color: var(--accent); }
.send.is-queued { padding: 0; border-color: transparent; background: none; }
.choice, .part-choice input {
  -webkit-appearance: none; appearance: none; display: grid; place-items: center;
  padding: 0; border: 2px solid var(--edge); border-radius: var(--radius-full);
  background: var(--surface);
}
.choice.choice, .part-choice input {
  width: min(1.625rem, 8vw); height: min(1.625rem, 8vw);
}
.choice:checked, .part-choice input:checked {
  border-color: var(--accent); background: var(--accent);
}
.choice:checked::after, .part-choice input:checked::after {
  content: ""; width: .8rem; height: .4rem; margin-top: -.25rem; rotate: -45deg;
  border: solid var(--on-accent); border-width: 0 0 2.5px 2.5px;
}
.choice { justify-self: end; cursor: pointer; }
.choice::before { content: ""; position: absolute; z-index: 1; inset: 0; }
.entry-cover {
  position: relative; display: block; border-radius: var(--radius-m); overflow: hidden;
}
.selected .entry-cover { outline: 3px solid var(--accent); outline-offset: 2px; }
.is-away .cover { opacity: .4; filter: grayscale(.7); }
.entry .marks { position: absolute; top: 0; inset-inline: 0; pointer-events: none; }
.entry .mark { max-width: 100%; box-shadow: 0 1px 6px #0004; }
.entry .mark.completed { /* a tick */
  width: 1.5rem; height: 1.5rem; padding: 0; font-size: 0; line-height: 1.5rem;
  text-align: center;
}
.entry .mark.completed::before { content: "\2713"; font-size: .875rem; }

.covers .entry {
  grid-template: var(--cover) 1fr / minmax(0, 1fr) auto; gap: .5rem .25rem;
}
.covers .entry-cover { grid-area: 1 / 1 / 2 / 3; box-shadow: var(--shade); }
.covers .cover { transition: scale .25s ease-out; }
.covers .entry-text { align-content: start; }
.covers .entry-name { font-size: .9375rem; }
.covers .meta { font-size: .8125rem; }
.covers .marks { padding: .5rem; }
.covers .choice { align-self: start; margin: .3rem; }
.covers .send { width: 2.375rem; min-height: 2.375rem; padding: 0; align-self: start; }
.covers .send > .glyph + span { display: none; }

.rows .entry {
  grid-template-columns: var(--cover) minmax(0, 1fr) auto; align-items: center;
  gap: min(.875rem, 3vw); border-bottom: 1px solid var(--line);
}
.rows .entry-cover { border-radius: var(--radius-s); }
.rows .marks { inset: auto auto .2rem -.25rem; align-items: end; height: 1.5rem; }
.shelf .marks { inset-inline-start: 0; }
.rows .mark { padding: 0 .3rem; font-size: .6875rem; line-height: 1.125rem; }
.rows .send { /* as large whatever it says, so that nothing moves */
  display: grid; gap: 0; justify-items: center; min-height: 2.5rem; padding: 0 .9rem;
}
.rows .send::before, .rows .send::after {
  content: var(--send); height: 0; overflow: hidden; visibility: hidden;
}
.rows .send::after { content: var(--again); }
.rows .send > .glyph { display: none; }
.entries.rows { --cover: min(3.5rem, 15vw); column-gap: 2.5rem; }
.letters { /* beside a long list */
  position: fixed; z-index: 2; inset-inline-end: 0; top: 7rem; bottom: 7.5rem;
  display: flex; flex-direction: column; justify-content: center; width: 1.75rem;
  color: var(--accent); font-size: .6875rem; font-weight: var(--strong);
  line-height: 1; text-align: center; cursor: pointer; touch-action: none;
  -webkit-user-select: none; user-select: none;
}
.letters span { flex: 0 1 1.5rem; display: grid; place-items: center; min-height: 0; }

.selection {
  position: fixed; z-index: 5; inset-inline: 0; bottom: 1.25rem; width: fit-content;
  margin: 0 auto; gap: .5rem; max-width: calc(100vw - 1rem);
  padding: .6rem .75rem; padding-inline-start: 1.25rem;
  border: 1px solid var(--line); border-radius: var(--radius-l);
  background: var(--surface); box-shadow: 0 8px 30px #0003; white-space: nowrap;
}
.selection p { font-weight: var(--strong); }

/* Details, and questions */
dialog {
  max-width: none; max-height: none; padding: 0; border: 1px solid var(--line);
  border-radius: var(--radius-l); background: var(--surface); color: var(--ink);
  box-shadow: 0 20px 60px #0005; overscroll-behavior: contain;
}
dialog[open] { animation: rise .16s ease-out; }
.sheet {
  width: min(52rem, calc(100vw - 3rem)); max-height: calc(100vh - 3rem);
  max-height: calc(100dvh - 3rem); /* without the bars of a phone's browser */
  overflow-y: auto;
}
.sheet article { position: relative; padding: 1.75rem; min-height: 12rem; }
.sheet .close { position: absolute; z-index: 2; top: .6rem; inset-inline-end: .6rem; }
.glow {
  --cover: 52rem; position: absolute; inset: 0 0 auto; height: 20rem; overflow: hidden;
  opacity: .35; -webkit-mask-image: linear-gradient(#000, #0000); pointer-events: none;
  mask-image: linear-gradient(#000, #0000);
}
.glow .cover { filter: blur(40px) saturate(1.5); scale: 1.3; border-radius: 0; }
.facts-head {
  position: relative; display: grid; gap: .9rem 1.75rem; align-items: start;
  grid: "cover text" auto "cover has" 1fr / var(--cover) minmax(0, 1fr);
  --cover: min(13rem, 30vw);
}
.facts-cover { grid-area: cover; }
.facts-text { grid-area: text; display: grid; gap: .4rem; min-width: 0; }
.has { grid-area: has; display: grid; gap: .35rem; justify-items: start; }
.has dl { grid-template-columns: minmax(0, 1fr); gap: .4rem; padding: 0; border: 0; }
.has dl > div { display: grid; grid-template-columns: 6rem minmax(0, 1fr); }
.has dl > div:has(select) { align-items: center; }
.has dt { line-height: 1.4rem; }
:is(.has dd, .send-bar .meta, .unfold span)::first-letter { text-transform: uppercase; }
.has .plain, .forgotten .plain { margin-inline-start: -.7rem; }
.has .description { margin-top: .35rem; }
.send-bar {
  gap: .35rem 1rem; margin: 0 -1.75rem -1.75rem; padding: .75rem 1.75rem;
  background: var(--surface); border-top: 1px solid var(--line);
}
.send-bar .waits { flex-basis: 100%; }
.send-bar .meta { margin-inline-start: auto; }
@media (min-height: 34em) {
  .send-bar { position: sticky; z-index: 1; bottom: 0; }
  .details { scroll-padding-bottom: 7rem; }
}
.facts .send { min-height: 2.875rem; padding: .4rem 1.4rem; }
.facts .send.is-queued { padding: 0; }
.facts h2 {
  padding-inline-end: 2.5rem; font-size: 1.625rem; line-height: 1.15;
  text-wrap: balance;
}
.parts { position: relative; margin-top: 1.5rem; }
.parts h3 { padding: 1.25rem 0 .5rem; }
.note {
  padding: .6rem .9rem; margin-bottom: .5rem; border-radius: var(--radius-s);
  background: var(--warn-soft); color: var(--warn); font-size: .875rem;
}
.part {
  gap: 0 .5rem; border-top: 1px solid var(--line); content-visibility: auto;
  contain-intrinsic-height: auto 3rem;
}
.part-choice {
  flex: 1 1 10rem; gap: .9rem; min-width: 0; min-height: 3rem; padding: .25rem 0;
  cursor: pointer;
}
.part-choice:has(:disabled) { cursor: default; }
.part-choice :disabled { opacity: .45; pointer-events: none; }
.part-text {
  display: flex; flex: 1; flex-wrap: wrap; align-items: baseline; gap: 0 1rem;
  min-width: 0;
}
.part-text > .meta { margin-inline-start: auto; }
.part-name {
  gap: .15rem .6rem; font-weight: var(--strong); font-size: 1rem;
  overflow-wrap: break-word;
}
.is-replaced .part-name { color: var(--muted); font-weight: var(--normal); }
.part-actions { display: flex; }
.part dl { width: 100%; margin-bottom: 1rem; }
.description { white-space: pre-line; overflow-wrap: break-word; max-width: 60ch; }
dl {
  display: grid; gap: .75rem 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(10rem, 100%), 1fr));
  padding-top: .9rem; border-top: 1px solid var(--line);
}
.wide-field { grid-column: 1 / -1; }
dd { overflow-wrap: break-word; font-size: 1rem; }
.details form, .filters article { display: grid; gap: 1rem; }
.filters { width: min(30rem, calc(100vw - 3rem)); margin: 4.5rem 2rem auto auto; }
.filters::backdrop { background: none; }
:is(.filters, .panel) .chips::before {
  content: attr(aria-label); flex-basis: 100%; color: var(--muted); font-size: .875rem;
}
.adding { width: min(40rem, calc(100vw - 3rem)); }
.adding h2, .ready-word { font-size: 1.625rem; font-weight: var(--bold); }
.adding .field span { display: block; }
.step .field .unseen + small { margin: 0; }
.steps {
  display: grid; gap: 1.75rem; padding: 0; margin: 1.5rem 0 0; list-style: none;
}
.step {
  position: relative; display: grid; gap: .9rem; min-width: 0;
  padding-inline-start: 2.75rem; counter-increment: step;
}
.step::before {
  content: counter(step); position: absolute; inset-inline-start: 0; top: -.2rem;
  width: 1.75rem; border-radius: var(--radius-full); background: var(--soft);
  color: var(--accent); font-weight: var(--bold); font-size: .875rem;
  line-height: 1.75rem; text-align: center;
}
.step:not(:last-child)::after {
  content: ""; position: absolute; inset-inline-start: .85rem; top: 2rem;
  bottom: -1.3rem; width: 2px; background: var(--line);
}
.step h3 { font-size: 1.25rem; }
.step.is-done { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .9rem; }
.step.is-done > p {
  flex: 1 1 8rem; min-width: 0; font-weight: var(--medium); overflow-wrap: break-word;
}
.step.is-done::before { content: "\2713"; }
.looking, .adding > article > form { display: grid; gap: 1rem; margin-top: 1rem; }
.found, .ticks { display: grid; gap: .6rem; }
.found li { padding: .6rem .75rem; border: 1px solid var(--line); }
.found li { border-radius: var(--radius-m); animation: rise .25s ease-out; }
.pulse {
  position: relative; display: grid; place-items: center; width: 4rem; height: 4rem;
  margin: 2rem auto; border-radius: var(--radius-full); background: var(--accent);
  color: var(--on-accent); font-size: 1.75rem;
}
.pulse + .lead { min-height: 3rem; text-align: center; }
.pulse:not(.still)::before {
  content: ""; position: absolute; inset: 0; border: 2px solid var(--accent);
  border-radius: inherit; animation: spread 2.4s ease-out infinite;
}
@keyframes spread { from { opacity: .8; } to { scale: 2; opacity: 0; } }
.place { display: grid; gap: .75rem; min-width: 0; }
.menus summary { padding-block: .6rem; cursor: pointer; }
.menus > * + * { margin-top: .6rem; }
.choices { display: flex; flex-wrap: wrap; gap: .5rem; }
.kind, .way { --column: 14rem; }
.kind, .way, .pair, .lanes, .groups, .devices, .first-run.card .steps {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(var(--column), 100%), 1fr));
}
.option {
  position: relative; min-height: 2.75rem; padding: .35rem 1rem;
  border: 1px solid var(--edge); border-radius: var(--radius-s); font-size: 1rem;
  font-weight: var(--medium); line-height: 1.25; cursor: pointer;
}
.option:has(:checked) {
  border-color: var(--accent); background: var(--soft); color: var(--accent);
  box-shadow: inset 0 0 0 1px var(--accent);
}
.option input {
  position: absolute; inset: 0; width: 100%; min-height: 0; height: 100%; margin: 0;
  opacity: 0; cursor: pointer;
}
.option small { display: block; color: var(--muted); font-weight: var(--normal); }
.pairing {
  display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline;
  padding: .75rem 1rem; border-radius: var(--radius-m); background: var(--soft);
}
.pairing > :first-child { flex-basis: 100%; }
.pairing-code {
  font-size: 2.75rem; font-weight: var(--bold); letter-spacing: var(--wide);
  line-height: 1.2;
}
.is-over .pairing-code { color: var(--muted); text-decoration: line-through; }
.pairing .problem { flex-basis: 100%; margin-top: .4rem; }
.tick { display: flex; gap: .6rem; color: var(--muted); font-size: 1rem; }
.tick.check { color: var(--ink); font-weight: var(--medium); }
.tick.check .glyph { color: var(--accent); }
.tick.close, .tick.close .glyph { position: static; color: var(--bad); }
.tick small { display: block; font-weight: var(--normal); overflow-wrap: break-word; }
.ready {
  display: grid; justify-items: center; gap: .35rem; padding: 1.25rem 1rem;
  border-radius: var(--radius-l); background: var(--soft); text-align: center;
}
.ready > .glyph { width: 3rem; height: 3rem; color: var(--accent); }
.ready button { margin-top: .75rem; min-width: 9rem; }
.numbered {
  display: grid; grid-template-columns: minmax(0, 1fr); gap: .75rem;
  padding-inline-start: 1.25rem; margin: 0; overflow-wrap: break-word;
}
.numbered .code { margin-top: .4rem; }
.question { width: min(26rem, calc(100vw - 2rem)); }
.question article { padding: 1.5rem; }
.question .actions { justify-content: flex-end; margin-top: 1.25rem; }
.question form { display: grid; gap: .5rem; margin-top: 1rem; }

/* Queue */
.items { --cover: min(3.25rem, 15vw); margin-bottom: 1.5rem; }
.items > .head { padding: 0; min-height: 2.75rem; }
.item .entry-cover { width: var(--cover); border-radius: var(--radius-s); flex: none; }
.board { display: grid; gap: 1.5rem 3rem; grid-template-columns: minmax(0, 1fr); }
.board > * { display: grid; gap: 1.5rem; align-content: start; min-width: 0; }
.board > * > * { margin: 0; min-width: 0; }
.ended > button, .panel > button { justify-self: start; }
.lanes, .groups, .devices { --column: 21rem; gap: 1rem 1.25rem; }
.lane { /* dark also where the page is light */
  --cover: 7rem; --lines: 2; --surface: #171d1b; --ink: #fff; --muted: #d3dcd8;
  --accent: #8fe3cd; --on-accent: #06281f; --soft: #ffffff1f; --line: #ffffff3d;
  --edge: #fff9; --bad: #ffb1a3; --bad-soft: #47211b; --radius-m: var(--radius-s);
  position: relative; isolation: isolate; display: grid; align-items: center;
  grid-template: "head head head" auto "cover text text" auto
    "cover percent buttons" auto "bar bar bar" auto / var(--cover) minmax(0, 1fr) auto;
  gap: 0 1rem; padding: .75rem 1rem 1rem; border-radius: var(--radius-l);
  overflow: hidden; color: var(--ink); background: #0b100e; box-shadow: var(--shade);
}
.lane::after { /* an edge, also of a cover as dark as the page */
  content: ""; position: absolute; inset: 0; border: 1px solid #ffffff2e;
  border-radius: inherit; pointer-events: none;
}
.lane .glow { z-index: -1; inset: 0; height: auto; opacity: 1; }
.lane .glow { -webkit-mask-image: none; mask-image: none; }
.lane .glow::after {
  content: ""; position: absolute; inset: 0;
  background: linear-gradient(75deg, #0b100ecc, #0b100e99);
}
.lane .glow .cover {
  height: 100%; aspect-ratio: auto; filter: blur(36px) saturate(1.6) brightness(.8);
}
.lane .entry-cover { grid-area: cover; box-shadow: 0 8px 24px #0006; }
.lane-head { grid-area: head; gap: .6rem; margin-bottom: .5rem; }
.lane-text { grid-area: text; align-self: end; min-width: 0; }
.lane-text :is(h2, h3), .lane .entry-name { font-size: 1.25rem; }
.lane .percent { grid-area: percent; align-self: start; }
.percent {
  font-size: 2.75rem; font-weight: var(--bold); letter-spacing: var(--tight);
  line-height: 1.1; white-space: nowrap;
}
.lane .progress { grid-area: bar; margin-top: .85rem; height: .375rem; }
.lane-buttons {
  grid-area: buttons; display: flex; align-self: end; margin: 0 -.5rem -.35rem 0;
}
.lane :is(button, .row-parts) { position: relative; z-index: 2; }
.lane .entry-name::after { z-index: 1; }

.dock {
  position: fixed; z-index: 4; inset: auto 1rem 1rem; max-width: 156rem;
  display: flex; margin: 0 auto; border-radius: var(--radius-l); overflow: hidden;
  background: #39433f; box-shadow: 0 6px 30px #0006; animation: rise .25s ease-out;
}
.dock ul { display: flex; gap: 1px; flex: 1; min-width: 0; }
.dock .lane {
  --cover: 4.25rem; --lines: 1;
  flex: 1; min-width: 0; align-content: center; gap: .4rem 1rem;
  padding: .65rem; padding-inline-end: 1.25rem; border-radius: 0;
  grid-template: "cover text percent buttons" auto "cover bar percent buttons" auto /
    var(--cover) minmax(0, 1fr) auto auto;
}
.dock .lane::after { border: 0; }
.dock .lane-text { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }
.dock .entry-name { font-size: 1rem; min-width: 0; }
.dock .percent { align-self: center; font-size: 1.75rem; }
.dock .progress { margin: 0; }
.dock .lane-buttons { align-self: center; }
.dock .lane.offer { padding-inline: 1rem 1.5rem; }
:is(.note-lane, .offer).lane { display: flex; flex-wrap: wrap; justify-content: end; }
:is(.note-lane, .offer) .lane-text { flex: 1 1 11rem; font-size: .9375rem; }
.note-lane .entry-cover { width: 2.75rem; }
.more-lanes {
  display: grid; place-items: center; padding: 0 1.25rem; color: #fff;
  font-weight: var(--bold); text-decoration: none;
}

.item-text { --lines: 3; flex: 1 1 6rem; min-width: 0; }
.item {
  gap: .875rem; padding: .6rem 0; border-bottom: 1px solid var(--line);
  content-visibility: auto; contain-intrinsic-height: auto 4.5rem;
}
.item .meta { margin-top: .15rem; }
.item .meta > :not(:last-child), .device-text .meta > * { margin-inline-end: .5rem; }
.item.is-failed {
  display: grid; grid-template-columns: var(--cover) minmax(0, 1fr) auto;
}
.is-failed > .item-text { grid-column: 2 / 4; }
.is-failed > .entry-cover { align-self: start; }
.is-failed > .entry-cover ~ button { grid-column: 2; justify-self: start; }
.is-failed > .icon-button.icon-button { grid-column: 3; }
.remedy { margin-top: .15rem; font-size: .875rem; overflow-wrap: break-word; }
.item h4 { font-size: 1rem; font-weight: var(--normal); }
.unfold {
  position: relative; justify-content: start; gap: .25rem; min-height: 0;
  padding: .15rem 0; border: 0; background: none; color: var(--muted);
  font-size: .875rem; font-weight: var(--normal); text-align: start;
}
.unfold::after { content: ""; position: absolute; inset: calc(50% - 22px) 0; }
.unfold span { display: inline-block; }
.unfold .glyph { width: 1rem; height: 1rem; }
.unfold[aria-expanded=true] .glyph { transform: scaleY(-1); }
.row-parts { flex-basis: 100%; grid-column: 1 / -1; }
.row-parts .item {
  flex-wrap: wrap; min-height: 3rem; padding: .1rem 0;
  border-bottom: 0; border-top: 1px solid var(--line); content-visibility: visible;
}
.row-parts .item-text {
  display: flex; flex: 1 1 min(15rem, 60vw); flex-wrap: wrap; gap: 0 .75rem;
  align-items: baseline; justify-content: space-between;
}
:is(.lane, .row-parts) .meta { margin: 0; }
.row-parts .error { flex-basis: 100%; margin: 0 0 .4rem; }
.row-parts .percent { font-size: 1rem; letter-spacing: 0; margin: 0; }
.row-parts .progress { flex-basis: 100%; order: 1; margin: 0 0 .4rem; height: .25rem; }
.error {
  margin-top: .25rem; color: var(--bad); font-size: .875rem; overflow-wrap: break-word;
}
.items > .head { flex-wrap: nowrap; gap: .6rem; border-bottom: 1px solid var(--line); }
.items > :is(.waits, .error) { padding: .75rem 0; }
.device-icon {
  display: grid; place-items: center; width: 2.25rem; height: 2.25rem; flex: none;
  border-radius: var(--radius-s); background: var(--soft); color: var(--accent);
}
.head > .device-icon { margin: 0; }
.device-text { flex: 1; min-width: 0; padding: .3rem 0; }
.device-text :is(h2, h3) { font-size: 1rem; overflow-wrap: anywhere; }
.device { display: grid; gap: .5rem; align-content: start; min-width: 0; }
.devices > .device {
  padding: .75rem 1rem; border: 1px solid var(--line); border-radius: var(--radius-m);
}
.device-head { gap: .6rem; }
.getting {
  --cover: 2.75rem; gap: .75rem; padding: .4rem; border-radius: var(--radius-m);
  background: var(--ground); text-decoration: none;
}
.getting .entry-cover { width: var(--cover); flex: none; }
.getting .entry-name, .tidy summary .row-title { flex: 1; }
.idle .chip { display: flex; align-items: center; padding-inline-end: .4rem; }
.idle .menu { width: min(24rem, 92vw); padding: .75rem 1rem; }
.idle .menu p { padding: 0; }
button.link {
  display: inline; min-height: 0; padding: 0; border: 0; background: none;
  color: var(--accent); font-size: inherit; font-weight: var(--strong);
  text-decoration: underline; text-underline-offset: 3px;
}
.waits, .signed { color: var(--muted); font-size: 1rem; overflow-wrap: break-word; }
.choose {
  width: auto; max-width: 100%; padding: .3rem .6rem; font-size: .875rem;
  font-weight: var(--medium);
}
.to-device, .to-device.mark {
  position: relative; display: inline-flex; align-items: center; gap: .5rem;
  min-width: 0; min-height: 2.75rem; padding: 0 1rem; border-radius: var(--radius-full);
  font-size: .875rem; font-weight: var(--strong); line-height: 1.2;
}
.to-device.mark {
  flex-wrap: wrap; align-content: center; gap: 0 .5rem; padding-block: .3rem;
  padding-inline: 2.6rem 2.4rem;
}
.to-device.mark .glyph { position: absolute; inset-inline-start: 1rem; top: .8rem; }
.to-device.only {
  min-height: 1.75rem; padding-block: 0; background: none; color: var(--muted);
}
.to-device.only .glyph { top: .3rem; }
.to-device.only.warn { color: var(--warn); }
.to-device span { font-weight: var(--normal); overflow-wrap: anywhere; }
.to-device b { font-weight: var(--bold); }
.to-device select {
  position: absolute; inset: 0; min-height: 0; opacity: 0; cursor: pointer;
}
.to-device option { background: var(--surface); color: var(--ink); }
.to-device:has(select)::after {
  content: ""; position: absolute; inset-inline-end: 1.1rem; width: .45rem;
  height: .45rem; margin-top: -.25rem; border: solid; border-width: 0 2px 2px 0;
  rotate: 45deg; pointer-events: none;
}
.hint {
  display: grid; gap: .5rem; margin-bottom: 1.25rem; padding: 1rem 1.25rem;
  border-radius: var(--radius-m); background: var(--warn-soft); color: var(--ink);
  font-size: 1rem; justify-items: start;
}
.hint > p:first-child { font-weight: var(--strong); color: var(--warn); }
.code {
  gap: .5rem; padding: .35rem; padding-inline-start: .8rem;
  border: 1px solid var(--line); border-radius: var(--radius-s);
  background: var(--surface);
}
.code p { display: grid; flex: 1; min-width: 0; }
.code code { overflow-wrap: anywhere; white-space: pre-line; line-break: anywhere; }

/* Settings */
.tabs { display: flex; flex-wrap: wrap; margin: 0 max(-.6rem, -4vw) 1rem; }
.tabs a {
  min-height: 2.75rem; padding: 0 min(.6rem, 1.2vw); border-radius: var(--radius-s);
  color: var(--muted); font-size: 1rem; font-weight: var(--medium);
  text-decoration: none;
}
.tabs a[aria-current] {
  color: var(--accent); text-decoration: underline; text-underline-offset: .6rem;
  text-decoration-thickness: 3px;
}
.panels { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.25rem; }
.panel { display: grid; gap: .9rem; padding: 1.25rem 1.35rem; min-width: 0; }
.panel, .panel form, .panel .field { grid-template-columns: minmax(0, 1fr); }
.panel form { display: grid; gap: .9rem; justify-items: start; }
.panel form > :not(button) { width: 100%; }
.inline { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; }
.inline .field { flex: 1 1 12rem; }
.inline button { min-height: 2.75rem; }
.pair { --column: 11rem; gap: .9rem; }
.row { gap: .25rem .75rem; padding: .6rem 0; border-top: 1px solid var(--line); }
.row:first-child { border-top: 0; }
.row:last-child { padding-bottom: 0; }
.row > :is(.error, .code, .meta, .tidy) { width: 100%; }
.row > form { width: 100%; padding: .5rem 0; }
.row-text { flex: 1 1 10rem; min-width: 0; }
.row-title { font-weight: var(--medium); font-size: 1rem; overflow-wrap: break-word; }
.menu {
  min-width: 12rem; max-width: 100vw; padding: .4rem; border: 1px solid var(--line);
  border-radius: var(--radius-m); background: var(--surface); color: var(--ink);
  box-shadow: 0 8px 30px #0003;
}
.menu:popover-open { display: flex; flex-direction: column; }
@supports not selector(:popover-open) { /* it is a part of its row */
  .menu:not([hidden]) { display: grid; flex-basis: 100%; box-shadow: none; }
  :root:has(.menu:not([hidden])) { cursor: pointer; } /* or iOS tells of no tap there */
}
.menu button { justify-content: start; }
.menu :is(.check, p) { padding: .4rem .7rem; font-size: .875rem; }
.menu .choose { min-width: 0; margin-inline-start: auto; }
.menu button:not(.danger) { color: inherit; }
@supports (position-area: bottom) {
  .menu { margin: .25rem 0; max-height: 60vh; position-area: bottom span-left; }
  .menu { position-try: most-height flip-block, flip-inline, flip-block flip-inline; }
}
.new-key {
  display: grid; gap: .7rem; justify-items: start; padding: 1rem;
  border-radius: var(--radius-m); background: var(--soft);
}
.new-key .code { width: 100%; }
.new-key p { font-size: .875rem; }
.qr {
  width: min(15rem, 100%); border-radius: var(--radius-s); background: #fff; fill: #000;
  forced-color-adjust: none; shape-rendering: crispedges;
}
.tidy { border-top: 1px solid var(--line); }
.tidy summary {
  display: flex; flex-wrap: wrap; gap: 0 .75rem; justify-content: space-between;
  align-items: center; min-height: 2.75rem; padding: .4rem 0; cursor: pointer;
}
.tidy summary::before { content: "›"; transition: rotate .15s; }
.tidy[open] > summary::before { rotate: 90deg; }
.tidy > ul { padding-bottom: .6rem; }
.tidy table {
  width: 100%; table-layout: fixed; border-collapse: collapse; font-size: .875rem;
}
.tidy :is(th, td) {
  padding: .5rem 0; padding-inline-end: 1rem; text-align: start; vertical-align: top;
  overflow-wrap: break-word;
}
.tidy th {
  padding-top: 0; color: var(--muted); font-size: .875rem; font-weight: var(--normal);
}
.tidy .tidy-folder th {
  padding: .9rem 0 .5rem; color: var(--ink); overflow-wrap: anywhere;
}
.tidy .tidy-folder .glyph { margin-inline-end: .5rem; vertical-align: -.3em; }
.tidy :is(th, td):nth-child(2) { width: 7rem; white-space: nowrap; text-align: end; }
.tidy :is(th, td):last-child { padding-inline-end: 0; }
.tidy td { border-top: 1px solid var(--line); }
.experts { display: grid; gap: 1.25rem; }
.experts > summary {
  padding: .6rem .25rem; color: var(--muted); font-weight: var(--medium);
  cursor: pointer;
}
.tidy-sum { font-size: 1.25rem; font-weight: var(--bold); }
.scan-line { justify-content: space-between; gap: .5rem 1rem; }

/* Wide screens: two columns */
@media (min-width: 68.75em) {
  .board.has-both { grid-template-columns: minmax(0, 1fr) minmax(20rem, 28rem); }
  .view.settings {
    display: grid; grid-template: auto 1fr / 10rem minmax(0, 1fr); column-gap: 3rem;
  }
  .view.settings > :is(.head, .machine) { grid-column: 1 / 3; }
  .tabs { position: sticky; top: 1rem; flex-direction: column; align-self: start; }
  .tabs a[aria-current] { background: var(--soft); text-decoration: none; }
  .panels { /* no columns: WebKit balances them anew while a card is pressed */
    --width: max(25rem, (100% - 2.5rem) / 3);
    align-items: start;
    grid-template-columns: repeat(auto-fill, minmax(var(--width), 1fr));
  }
  .panels > :is(.experts, :has(.tidy), :has(.devices)) { grid-column: 1 / -1; }
  .panels > :is(.experts, :only-child) { max-width: 40rem; }
}
/* Motion: where something changes */
:is(button, .button, .chip, nav a, .option, input) {
  transition: background-color .15s, border-color .15s, color .15s, scale .15s;
}
:is(button, .button):active { scale: .97; }
.view { animation: come .18s ease-out; }
@keyframes come { from { opacity: .5; } } /* no view begins with a blank frame */
.row-parts, .selection, .items li, .lanes li, .step, .first-run {
  animation: lift .18s ease-out; /* also of a row that moves: it is put there anew */
}
@keyframes lift { from { transform: translateY(.5rem); } }
.selected .cover { scale: .96; border-radius: var(--radius-m); }

/* A child's: large covers, and a large button */
.child .covers .entry-name { font-size: 1.125rem; text-align: center; }
.child .covers .entry { grid-template: var(--cover) 1fr auto / minmax(0, 1fr); }
.child .covers .entry-cover { grid-area: auto; border-radius: var(--radius-l); }
.child .covers .entry-text { align-content: center; }
.child .covers .send, .child .send-bar .send {
  flex: 1; width: 100%; min-height: 3rem; font-size: 1.0625rem;
}
.child .covers .send > .glyph + span { display: block; }
.child .covers .send:not(.is-again, .is-queued) {
  background: var(--accent); color: var(--on-accent);
}
.child.settings .panels { grid-column: 1 / 3; }
.fill {
  position: relative; display: grid; place-items: center; width: 100%; height: 3rem;
  border-radius: var(--radius-full); overflow: hidden; background: var(--soft);
}
.fill > :first-child {
  position: absolute; inset: 0; background: var(--accent); transform-origin: 0 50%;
  transition: transform .3s linear;
}
.fill-text {
  position: relative; padding: .15rem .75rem; border-radius: var(--radius-full);
  background: var(--surface); color: var(--ink);
}

:root { view-transition-name: none; } /* the page stays below covers that travel */
::view-transition { pointer-events: none; }
::view-transition-group(*) {
  animation-duration: .28s; animation-timing-function: cubic-bezier(.3, .7, .1, 1);
}

/* With a mouse. A tap would leave these styles behind */
@media (hover: hover) {
  :where(button, .button):hover { background: var(--soft); }
  :is(.icon-button, nav a):hover { color: var(--ink); }
  button.plain:hover { background: var(--soft); }
  button.danger:hover { background: var(--bad-soft); }
  .toast button:hover { background: none; }
  .option:hover { border-color: var(--accent); }
  .entry-name:hover { text-decoration: underline; text-underline-offset: 3px; }
  :is(button.primary, .send):hover {
    background: var(--accent); filter: brightness(1.08);
  }
  .send.is-again:hover { background: var(--soft); filter: none; }
  .send.is-queued:hover { background: none; }
  .covers .entry:hover .cover { scale: 1.03; }
  .entry .send:not(.is-queued, .is-again) {
    background: var(--soft); color: var(--accent);
  }
  .entry:hover .send:not(.is-queued, .is-again),
  .entry:focus-within .send:not(.is-queued, .is-again) {
    background: var(--accent); color: var(--on-accent);
  }
}

/* With a finger */
@media (pointer: coarse) {
  .choose { font-size: 1rem; } /* or Safari on a phone zooms the page */
  :is(button:not(.link), .button, select, .check), .entry .send {
    min-width: 44px; min-height: 44px;
  }
}

/* Narrow screens: the menu is at the bottom, in reach of the thumb */
@media not all and (min-width: 43.75em) {
  .top { display: block; min-height: 0; padding: 0; }
  .brand, .who, .to-word, .search kbd { display: none; }
  .top nav {
    position: fixed; z-index: 5; inset-inline: 0; bottom: 0;
    justify-content: space-around; gap: 0;
    padding: .25rem 0 calc(.25rem + env(safe-area-inset-bottom));
    border-top: 1px solid var(--line); background: var(--surface);
  }
  .top nav a {
    flex: 1; flex-direction: column; gap: .1rem;
    min-height: 3.25rem; max-width: 9rem; padding: .3rem 0; justify-content: center;
    font-size: .75rem; text-align: center; overflow-wrap: anywhere; hyphens: auto;
  }
  .top nav a[aria-current] { background: none; }
  .top nav .glyph { width: 1.5rem; height: 1.5rem; }
  .count { top: .15rem; inset-inline-start: calc(50% + .35rem); }
  .view { padding: 0 min(1rem, 4vw) calc(10rem + env(safe-area-inset-bottom)); }
  .tools { gap: 0; padding: .5rem min(1rem, 4vw) .25rem; }
  .tools > .icon-button:last-child { margin-inline-end: -.6rem; }
  .send-bar .to-device { flex-basis: 100%; }
  .summary { padding: 0 0 .25rem; }
  .strip { /* one line, which scrolls */
    flex: 1 0 100%; flex-wrap: nowrap; gap: .35rem; overflow-x: auto;
    margin-inline: max(-1rem, -4vw); padding: 4px min(1rem, 4vw);
    padding-inline-end: 2rem; scrollbar-width: none; white-space: nowrap;
    -webkit-mask-image: linear-gradient(to left, #0000, #000 2rem);
    mask-image: linear-gradient(to left, #0000, #000 2rem);
  }
  [dir="rtl"] .strip { -webkit-mask-image: none; mask-image: none; }
  .strip > .chips { flex-wrap: nowrap; }
  .strip > *, .strip .chip { flex: none; }
  .strip :is(.chip, .to-device) { position: relative; min-height: 2.25rem; }
  .strip .chip::after { content: ""; position: absolute; inset: -4px 0; }
  .strip .to-device { flex-wrap: nowrap; padding-block: 0; }
  .strip .to-device > .glyph { top: .55rem; }
  .strip .to-device select { top: -4px; }
  .strip :focus-visible { outline-offset: 0; }
  .letters { bottom: calc(9rem + env(safe-area-inset-bottom)); width: 1.5rem; }
  .letters ~ .entries { margin-inline-end: .75rem; }
  .toasts, .uploads {
    inset-inline: .5rem; bottom: calc(4.25rem + env(safe-area-inset-bottom));
    width: auto;
  }
  .dock ~ :is(.toasts, .uploads) { bottom: calc(9rem + env(safe-area-inset-bottom)); }
  .dock { inset: auto .5rem calc(4.2rem + env(safe-area-inset-bottom)); }
  .dock .lane {
    --cover: 2.75rem;
    padding: .5rem; padding-inline-end: .75rem; gap: 0 .75rem;
    grid-template: "cover text percent buttons" auto /
      var(--cover) minmax(0, 1fr) auto auto;
  }
  .dock .lane-text { display: block; align-self: center; }
  .dock .percent { font-size: 1.25rem; }
  .dock .progress { position: absolute; inset: auto 0 0; height: 3px; }
  .dock .more-lanes {
    position: absolute; z-index: 2; inset: auto auto .3rem; inset-inline-start: 2.1rem;
    padding: 0 .35rem; border-radius: var(--radius-full); background: #000b;
    font-size: .6875rem;
  }
  .dock .more-lanes::after {
    content: ""; position: absolute; inset: -1.6rem -1rem -.3rem;
  }
  #app:has(> .uploads) > .toasts {
    bottom: calc(7.75rem + env(safe-area-inset-bottom));
  }
  :has(.selection) > .toasts, #app:has(> .uploads > [open]) > .toasts {
    top: 4.5rem; bottom: auto;
  }
  .sheet .toasts { position: sticky; bottom: .5rem; margin: 0 .5rem; }
  .details .toasts { bottom: 7rem; height: 0; align-content: end; } /* above its bar */
  .sheet .toast:last-child { margin-bottom: .5rem; }
  .sheet .toast:not(:last-child) { display: none; }
  .sheet { scroll-padding-bottom: 7rem; } /* above a toast */
  .selection {
    bottom: 0; width: auto; max-width: none; flex-wrap: wrap; white-space: normal;
    padding: .75rem 1rem calc(.75rem + env(safe-area-inset-bottom));
    border-width: 1px 0 0; border-radius: var(--radius-l) var(--radius-l) 0 0;
  }
  .selection .plain { padding: .4rem 0; font-size: .875rem; }
  .selection .primary { flex: 1 0 auto; max-width: 100%; }
  .item { gap: .3rem .5rem; }
  .item .item-text { margin-inline-start: .375rem; }
  .row-parts .item-text { margin-inline-start: 0; }
  .steps > .step { padding-inline-start: 0; }
  .step:not(.is-done) h3, .steps > .step.is-done { padding-inline-start: 2.4rem; }
  .step:not(:last-child)::after { display: none; }
  .selection p { flex: 1 1 50%; }
  .sheet {
    width: 100%; max-width: 100%; max-height: 92vh; margin: auto 0 0; max-height: 92dvh;
    border-width: 1px 0 0; border-radius: var(--radius-l) var(--radius-l) 0 0;
  }
  .sheet article { padding: 1.25rem 1rem calc(1.25rem + env(safe-area-inset-bottom)); }
  .facts-head {
    gap: 1rem; align-items: center;
    grid: "cover text" auto "has has" auto / var(--cover) minmax(0, 1fr);
    --cover: min(7rem, 30vw);
  }
  .send-bar {
    margin: 0 -1rem calc(-1.25rem - env(safe-area-inset-bottom));
    padding: .5rem 1rem calc(.5rem + env(safe-area-inset-bottom));
  }
  .send-bar .meta { flex: 1 1 8rem; }
  .part-text { display: grid; }
  .part-text > .meta { margin: 0; }
  .tabs { justify-content: space-between; }
  .panel { padding: 1rem; }
  .tidy thead {
    position: absolute; height: 1px; overflow: hidden; clip-path: inset(50%);
    white-space: nowrap;
  }
  .tidy :is(table, tbody) { display: block; }
  .tidy tr {
    display: flex; flex-wrap: wrap; gap: .1rem .75rem; padding: .6rem 0;
    border-top: 1px solid var(--line);
  }
  .tidy :is(td, .tidy-folder th) {
    flex: 1 1 100%; min-width: 0; padding: 0; border: 0; color: var(--muted);
  }
  .tidy td:first-child { flex: 1 1 10rem; color: var(--ink); }
  .tidy td:nth-child(2) { flex: none; width: auto; }
  .tidy [data-label]::before { content: attr(data-label) " "; }
}
@media not all and (min-width: 22em) { /* or large text */
  .lane.lane { --cover: 0rem; column-gap: .5rem; }
  .lane .entry-cover, .dock .more-lanes, .rows .send > .glyph + span { display: none; }
  .note-lane .lane-text { max-height: 4.5em; overflow-y: auto; }
  .rows .send { width: 44px; min-height: 44px; padding: 0; }
  .rows .send::before, .rows .send::after { content: none; }
  .rows .send > .glyph { display: block; }
}
@media not all and (min-width: 20em) {
  .device-head, .getting { flex-wrap: wrap; }
  .device-head > .device-text, .getting > .entry-name { flex-basis: 100%; }
  .lane-text :is(h2, h3), .lane .entry-name { font-size: .9375rem; }
  .has dl > div { grid-template-columns: minmax(0, 1fr); }
  .item .send { max-width: 100%; white-space: normal; overflow-wrap: anywhere; }
  .facts-head { grid: "cover" "text" "has" / minmax(0, 1fr); }
  .facts-cover { width: var(--cover); }
  .item { justify-content: end; }
  .item .item-text { flex-basis: calc(100% - var(--cover) - 1.5rem); }
}

/* Firefox before 121: what is chosen is seen, and nothing covers a button */
@supports not selector(:has(a)) {
  .option :checked { appearance: none; border: 3px solid var(--accent); }
  .option :is(:checked, :focus-visible) { background: none; opacity: 1; }
  .to-device:focus-within { outline: 3px solid var(--accent); outline-offset: 2px; }
  .toasts { bottom: 11rem; }
}

/* Colors that the system forces: a filled part stays filled */
@media (forced-colors: active) {
  .toast, .mark, .count, .bar, .fill, .dock, main .lane { border: 1px solid; }
  .progress { border: 1px solid; background: Canvas; }
  :is(.progress span, .fill > :first-child) { background: Highlight; }
  .ring > svg:first-child { stroke: GrayText; }
  .ring circle + circle { stroke: Highlight; }
  #app .send:not(.is-again, .is-queued) {
    forced-color-adjust: none; background: ButtonText; color: ButtonFace;
  }
  #app :is([aria-current], [aria-pressed="true"], [aria-selected="true"], .is-set),
  #app :is(.option:has(:checked), .choice:checked, .part-choice :checked) {
    forced-color-adjust: none; border-color: Highlight; background: Highlight;
    color: HighlightText;
  }
  #app :is(.choice, .part-choice input):checked::after { border-color: HighlightText; }
  .option small { color: inherit; }
  .toast, .toast.bad, .toast button { color: CanvasText; }
  button.primary { border-width: 3px; }
  :is(button, select)[aria-disabled] { color: GrayText; opacity: 1; }
  .selected .entry-cover { outline-color: Highlight; }
  .drawn, .spinner { forced-color-adjust: none; }
  .glow { display: none; }
  .lane {
    --ink: CanvasText; --muted: CanvasText; --accent: CanvasText; --bad: CanvasText;
    --line: CanvasText; --on-accent: Canvas; --soft: Canvas; --bad-soft: Canvas;
  }
}
@media (prefers-reduced-motion: reduce) {
  *, ::before, ::after { animation: none !important; transition: none !important; }
}
"""

# Every text of the page, in English; a translation has the same keys. {name} stands for
# what a text is made with. One with a {count} may have a form for each plural of its
# language: "one", "other" and so on. Sentences of the server are those of SENTENCES, or
# in "problems" where the page says them in other words.
WORDS = {
    "product": "catalogd",
    "skip": "Skip to the content",
    "menu": "Main",
    "library": "Library",
    "queue": "Queue",
    "settings": "Settings",
    "loading": "Loading",
    "notLoaded": "This could not be loaded. {why}",
    "close": "Close",
    "cancel": "Cancel",
    "save": "Save",
    "done": "Done",
    "add": "Add",
    "remove": "Remove",
    "between": {"facts": " · ", "items": ", ", "sentences": " "},
    "actionOn": "{label} {name}",
    "copy": "Copy",
    "copied": "Copied.",
    "optional": "optional",
    "tryAgain": "Try again",
    "reconnecting": "Reconnecting to the server",
    "unreachable": "The server cannot be reached.",
    "failed": "Something went wrong. Try again.",
    "broken": "This page has a mistake, and cannot be shown. Load it again.",
    "inEnglish": "{language} could not be loaded, so the page is in English. {why}",
    "problems": {
        "own_disk": "on its computer's own disk",
        "bad_target": "That is no address of a console. Example: 192.168.1.20",
    },
    "signIn": "Sign in",
    "signInLead": "Your home game library.",
    "signOut": "Sign out",
    "signedOut": "You were signed out. Sign in again.",
    "language": "Language",
    "byMachine": "Translated by machine.",
    "name": "Name",
    "password": "Password",
    "passwordHint": "At least 8 characters.",
    "forgotten": "Forgot the password? An admin can make a link for a new one, under"
    " Settings, People. On the server, this does it too:",
    "forgottenLine": "catalogd user password NAME",
    "setup": "Welcome",
    "setupLead": "Create the first account. It is an admin and can add others.",
    "setupCode": "Setup code",
    "setupCodeHint": "Twelve letters and digits, which the server printed when it"
    " started.",
    "createAccount": "Create account",
    "invitedLead": "{maker} invites you to this library.",
    "newPasswordLead": "Choose a new password for {name}.",
    "invitedElse": "You are signed in as {name}. To use this link for yourself, sign"
    " out first.",
    "toSignIn": "Go to sign in",
    "search": "Search the library",
    "searchHint": {"one": "Search {count} title", "other": "Search {count} titles"},
    "libraryMenu": "Sort and filter",
    "sort": "Sort by",
    "sorts": {"name": "Name", "newest": "Newest", "size": "Largest"},
    "layout": "Show as",
    "layouts": {"covers": "Covers", "rows": "Rows"},
    "filter": "Show",
    "filters": {
        "all": "All",
        "unsent": "Not sent yet",
        "recent": "Recently added",
        "updates": "Updates",
    },
    "only": "Only",
    "onlyOf": {
        "game": "Games",
        "homebrew": "Homebrew",
        "link": "Links",
        "offline": "Offline",
    },
    "forChildren": "For children",
    "ages": {
        "3": "3+",
        "7": "7+",
        "12": "12+",
        "16": "16+",
        "18": "Not for children",
        "none": "Undecided",
    },
    "ageSet": {
        "from": {
            "one": "{name} is now for {age} and older.",
            "other": "{name} are now for {age} and older.",
        },
        "18": {
            "one": "{name} is now not for children.",
            "other": "{name} are now not for children.",
        },
        "none": {
            "one": "{name} has no age now.",
            "other": "{name} have no age now.",
        },
    },
    "formerAge": {
        "seen": "seen from {age} before",
        "replaced": "its file was replaced; it was for {age}",
    },
    "hiddenFrom": {
        "one": "{device}: {child} does not see this title, and will see it in the"
        " queue.",
        "other": "{device}: {child} does not see these {count} titles, and will see"
        " them in the queue.",
    },
    "select": "Select",
    "selectTitle": "Select {name}",
    "selectShown": "Select all {count} shown",
    "selected": "{count} selected, {size}",
    "noneSelected": "Nothing selected",
    "sendSelected": "Send {count}",
    "titles": {"one": "{count} title", "other": "{count} titles"},
    "found": "{count} of {all} titles",
    "scanning": {
        "one": "Scanning: {count} file so far",
        "other": "Scanning: {count} files so far",
    },
    "emptyTitle": "Nothing here yet",
    "emptyText": "Put game files into a library folder, and they appear here.",
    "emptyTextOf": "Put game files into {folders}, and they appear here.",
    "emptyForChild": "Ask an adult, who chooses what you see here.",
    "addGames": "Add games",
    "addLead": "Games appear in the library once they are whole. The page cannot"
    " delete: a wrong file is removed in the folder on the server.",
    "uploads": "{done} of {count} added",
    "unfinished": "Not finished",
    "chooseAgain": "{figures}: choose the file again to go on",
    "reserved": "{size} reserved",
    "discard": "Discard",
    "discardQuestion": "Discard what was added of {name}?",
    "dropHere": "Drop files or folders to add them",
    "leftOut": "Left out {count}: {names}. {why}",
    "whyLeftOut": {
        "type": "The library takes only {types}, and covers.",
        "cover": "A cover has at most {size}.",
        "empty": "The file is empty.",
    },
    "isThere": "Perhaps there already: {name} has the same size. Resume to add it"
    " anyway",
    "unreadable": "The file was moved or changed. Choose it again.",
    "uploadWaits": "Goes on when the server can be reached.",
    "paused": "Paused",
    "pauseName": "Pause {name}",
    "resumeName": "Resume {name}",
    "dismissName": "Dismiss {name}",
    "wasAdded": "Added as {name}",
    "wasThere": "Already there as {name}",
    "noInbox": "To add games from this page, name a folder for them in {file}, such as"
    " “inbox = /srv/games/Inbox” below [library], restart catalogd, and reload this"
    " page.",
    "firstSteps": {
        "files": "Find your games",
        "device": "Add a device",
        "send": "Send the first one",
    },
    "firstSend": "Press Send on a title, and watch it arrive.",
    "emptyScanText": {
        "one": "{count} file so far. Games appear here as they are found.",
        "other": "{count} files so far. Games appear here as they are found.",
    },
    "sendingNow": "Sending now",
    "moreSending": {
        "one": "{count} more is being sent",
        "other": "{count} more are being sent",
    },
    "disksAway": {
        "one": "The disk with files of {count} title is not connected. Connect it to"
        " send them.",
        "other": "The disk with files of {count} titles is not connected. Connect it"
        " to send them.",
    },
    "noneTitle": "Nothing found",
    "noneText": "No title matches your search and filters.",
    "showAll": "Show all titles",
    "send": "Send",
    "again": "Again",
    "queued": "Queued",
    "queueing": "Queueing",
    "sendName": "Send {name}",
    "sendAgainName": "Send again: {name}",
    "sendAgain": "Send again",
    "sendNothing": "Choose what to send",
    "seeQueue": "{name} is in the queue",
    "queuedName": "{status}: {name} is in the queue",
    "marks": {
        "link": "link",
        "offline": "offline",
        "partly": "partly offline",
        "incomplete": "incomplete",
        "noPackage": "no package",
        "superseded": "superseded",
        "copy": "another copy",
        "queueing": "queueing",
        "pending": "queued",
        "offered": "offered",
        "processing": "sending",
        "completed": "sent",
        "failed": "failed",
        "newer": "update",
    },
    "sentAt": "sent {time}",
    "thereAt": "on the console, read {time}",
    "onConsole": "On {name}",
    "notOn": "Not on {name}",
    "sendAll": "Send all",
    "onNoConsole": "On none of your consoles",
    "updateThere": "update there: {there}, here: {here}",
    "sentAtBy": "sent {time} by {name}",
    "sentBy": "by {name}",
    "sentByYou": "by you",
    "notSentYet": "Not yet",
    "sentParts": "{name}: added to the queue.",
    "sentPartsTo": "{name}: added to the queue of {device}.",
    "sentAfter": {"one": "1 title is first.", "other": "{count} titles are first."},
    "whenBack": {
        "paused": "{name} is paused. Sending starts when it goes on.",
        "away": "{name} was last seen at {time}. Sending starts when it is back.",
        "new": "{name} has not connected yet. Sending starts when it does.",
        "silent": "{name} does not answer. Sending starts when it does.",
    },
    "sendAnyway": "Send anyway",
    "sentSome": "{sent} added to the queue, {failed} not: {why}",
    "notSent": {
        "one": "{name} was not queued. {why}",
        "other": "{name} were not queued. {why}",
    },
    "perhapsSent": {
        "one": "The server has not answered. When it is back, the queue shows whether"
        " {name} is in it.",
        "other": "The server has not answered. When it is back, the queue shows whether"
        " {name} are in it.",
    },
    "diskAway": "Its disk is not connected. Connect it, and try again.",
    "undo": "Undo",
    "details": "Details",
    "kinds": {
        "base": "Game",
        "update": "Update",
        "add-on": "Add-on",
        "homebrew": "Homebrew",
        "link": "Link",
        "file": "File",
    },
    "counted": {
        "base": {"one": "game", "other": "{count} games"},
        "update": {"one": "update", "other": "{count} updates"},
        "add-on": {"one": "add-on", "other": "{count} add-ons"},
        "homebrew": {"one": "homebrew", "other": "{count} homebrew files"},
        "link": {"one": "link", "other": "{count} links"},
        "file": {"one": "file", "other": "{count} files"},
        "unknown": {"one": "one more content", "other": "{count} more contents"},
    },
    "inOneFile": "{contents}, in one file",
    "searchWords": {
        "update": "update patch",
        "add-on": "dlc add on addon",
        "homebrew": "homebrew",
        "link": "link",
        "offline": "offline",
    },
    "contents": "Contents",
    "otherFiles": "Other files",
    "copyLink": "Copy link",
    "noBase": "The game itself is not in the library.",
    "showAllParts": "Show all {count}",
    "fileDetails": "File details of {name}",
    "addOn": "Add-on {number}",
    "addOns": {"one": "{count} add-on", "other": "{count} add-ons"},
    "fields": {
        "contents": "Contents",
        "sent": "Sent",
        "consoles": "On consoles",
        "age": "For children",
        "size": "Size",
        "title_id": "Title ID",
        "author": "Author",
        "added": "Added",
        "by": "Added by",
        "id": "ID",
        "source": "Location",
        "format": "Format",
        "missing": "Missing part",
    },
    "noPackages": {
        "html": "no package, but HTML",
        "zip": "no package, but a ZIP archive",
        "rar": "no package, but a RAR archive",
        "7z": "no package, but a 7z archive",
        "zeros": "no package, but zeros",
    },
    "noPackageQuestion": "{name} is {what}. Send it all the same?",
    "scanner": "scanner",
    "unknownSize": "size unknown",
    "sizeToSend": "{size} to send",
    "patch": "Update {number}",
    "baseVersion": "Game, version {number}",
    "openLink": "Open {name}",
    "download": "Download {name}",
    "notDownloaded": "{name} was not downloaded. {why}",
    "edit": "Edit {name}",
    "description": "Description",
    "version": "Version",
    "kind": "Kind",
    "unknownKind": "Unknown",
    "baseId": "Title ID of its game",
    "fileHas": "The file has: {text}",
    "undoEdits": "Undo all edits",
    "editsUndone": "The edits were undone.",
    "saved": "Saved.",
    "notSaved": "Not saved yet",
    "removeLink": "Remove the link",
    "removeLinkQuestion": "Remove the link {name}? The file that it leads to is not"
    " deleted.",
    "goneTitle": "This title no longer exists",
    "goneText": "Its files were moved away or deleted.",
    "toSend": "To send",
    "finished": "Finished",
    "moreFinished": "Show more",
    "emptyQueueTitle": "The queue is empty",
    "emptyQueueText": "Press Send in the library, and watch the progress here.",
    "toLibrary": "Go to the library",
    "percent": "{value} %",
    "speed": "{text}/s",
    "bytesOf": "{bytes} of {all}",
    "left": "{text} left",
    "noDevice": "No device fetches your queue yet.",
    "waitsForDevice": "Waits for a device.",
    "offered": "Offered to the console",
    "addOne": "Add one",
    "sendTo": "Send to",
    "deviceGone": "{name} was removed, or is no longer shared. Send it where?",
    "toDevice": "to {name}",
    "sender": "from {name}",
    "deviceOf": "{name} ({account})",
    "anyDevice": "Any device",
    "chooseDevice": "Choose a device",
    "thatDevice": "The device",
    "moreOf": "More: {name}",
    "moves": {"top": "To the top", "up": "Up", "down": "Down"},
    "freed": {
        "one": "{count} title waits for your choice, since {names} was removed or is no"
        " longer shared.",
        "other": "{count} titles wait for your choice, since {names} was removed or is"
        " no longer shared.",
    },
    "freedOfOne": {
        "one": "{count} title waits for your choice, since its own device was removed"
        " or is no longer shared.",
        "other": "{count} titles wait for your choice, since their own device was"
        " removed or is no longer shared.",
    },
    "waitsForChoice": "Waits for your choice",
    "sendThemTo": "Send them to {name}",
    "sendToFolder": "Send to the folder {name}",
    "cancelThem": "Cancel them",
    "decideLater": "Decide later",
    "lastAttempt": "Last attempt: {why}",
    "finishing": "Waits for the console to finish",
    "deviceStates": {
        "sending": "Sending",
        "idle": "Idle",
        "new": "Not connected yet",
        "off": "Off",
    },
    "lastSeen": "Last seen {time}",
    "noAnswer": "Its console does not answer",
    "pausedBy": "Paused by {name}",
    "pausesAfter": "Pauses after this title",
    "consoleAt": "Console at {address}",
    "sentTitles": {"one": "{count} title sent", "other": "{count} titles sent"},
    "remedies": {  # by codes of SENTENCES
        "card_full": "Make room there, then try again.",
        "ftp_full": "Make room there, then try again.",
        "card_read_only": "Allow writing there, then try again.",
        "card_refuses": "Check that folder, then try again.",
        "card_worn": "Try another card.",
        "file_gone": "Remove this, or give the link another address.",
        "file_refused": "Remove this, or give the link another address.",
        "other_file": "Replace that file, or remove this.",
        "same_size_file": "Replace that file, or remove this.",
        "file_unknown": "Replace that file, or remove this.",
        "ftp_refuses": "Look at the console's screen, then try again.",
        "ftp_broke": "Check the console's connection, then try again.",
        "lan_broke": "Check the console's connection, then try again.",
    },
    "sendAllTo": "Send all of them to",
    "replaceFile": "Replace the file of that name with {name}?",
    "cancelName": "Cancel {name}",
    "retryFailed": "Retry all failed",
    "clear": "Clear finished",
    "cleared": "Finished items were cleared.",
    "itemCancelled": {
        "one": "{name} was cancelled.",
        "other": "{name} were cancelled.",
    },
    "startsAgain": {
        "one": "{name} waits again, and will start from the beginning.",
        "other": "{name} wait again, and will start from the beginning.",
    },
    "cancelAll": "Cancel all waiting",
    "states": {"completed": "Sent", "failed": "Failed", "cancelled": "Cancelled"},
    "countedStates": {
        "completed": {"one": "{count} sent", "other": "{count} sent"},
        "failed": {"one": "{count} failed", "other": "{count} failed"},
        "cancelled": {"one": "{count} cancelled", "other": "{count} cancelled"},
    },
    "noReason": "The device gave no reason.",
    "areThere": "{amount} are there",
    "waitsForDisk": "Waiting for its disk",
    "progress": "{name}: {percent} %",
    "waiting": "{count} waiting",
    "about": "about {time}",
    "sent": {"one": "{name} was sent.", "other": "{name} were sent."},
    "notDelivered": {"one": "{name} was not sent.", "other": "{name} were not sent."},
    "title": "{percent} % {name} - catalogd",
    "titleOf": "{name} - catalogd",
    "titleWaiting": "({count}) catalogd",
    "tabs": {
        "you": "You",
        "devices": "Devices",
        "library": "Files",
        "people": "People",
        "server": "Server",
    },
    "account": "Account",
    "experts": "For experts",
    "keys": "Keys",
    "keysLead": "For scripts and other programs. A device gets its own when it is"
    " added.",
    "keyLabel": "What is it for?",
    "keyLabelExample": "Backup script",
    "createKey": "Create key",
    "newKey": "The key “{label}”",
    "newKeyLead": "It is shown only now.",
    "key": "Key",
    "copyKey": "Copy the key",
    "noKeys": "There is no key yet.",
    "created": "created {time}",
    "lastUsed": "last used {time}",
    "neverUsed": "never used",
    "requests": {"one": "{count} request", "other": "{count} requests"},
    "revoke": "Revoke",
    "revokeQuestion": 'Revoke the key "{name}"? A program that uses it stops working.',
    "devices": "Devices",
    "devicesLead": "The consoles and SD cards that games are sent to.",
    "shareDevice": "Everyone here may send to it",
    "isShared": "shared",
    "belongsTo": "Belongs to",
    "rename": "Rename",
    "newName": "New name of {name}",
    "removeDevice": "Remove {name}? The program that sends to it stops working. What"
    " waits for it then waits for your choice. Unfinished files (.part) on its card are"
    " removed if it answers now; else they stay there.",
    "addDevice": "Add a device",
    "questions": {
        "way": "How does it get there?",
        "kind": "Where do the games go?",
        "program": "Which program is on the console?",
        "host": "What is the address of the console?",
        "folder": "Which folder on that computer?",
        "name": "What do you call it?",
        "owner": "Whose is it?",
        "computer": "Where will the program run?",
        "fetch": "Set it up",
    },
    "ways": {
        "server": {
            "name": "catalogd sends it to the console",
            "note": "Over the network",
        },
        "computer": {
            "name": "A computer with the SD card in it",
            "note": "It runs a small program",
        },
        "console": {
            "name": "The console fetches it itself",
            "note": "Sphaira, DBI or Tinfoil",
        },
    },
    "next": "Next",
    "change": "Change",
    "changeStep": "Change: {title}",
    "programs": {id: row.name for id, row in CONSOLE_PROGRAMS.items() if row.scheme},
    "finding": "Looking for consoles…",
    "lookAgain": "Look again",
    "notFound": "Not found?",
    "portDoes": {
        "installs": "installs at once",
        "keeps": "is saved on the card",
        "unknown": "look at its screen: does this port install?",
    },
    "foundNone": "Nothing was found. Open the program on the console, and look again.",
    "onlyContainer": "Nothing was found. catalogd runs in a container, which may see"
    " its own network alone: type the address that the program shows.",
    "ftpUser": "Name, if you set one there",
    "ftpPassword": "Password, if you set one there",
    "cannotSend": "catalogd lacks its part for sending. Copy send_to_switch.py into"
    " the folder of catalogd.py, and come back.",
    "added": "Added",
    "notTried": "Whether it is ready is not known until something is sent.",
    "calling": "Trying {name}…",
    "notReady": "Not ready yet",
    "keepsTrying": "catalogd goes on trying. You can close this.",
    "changeAddress": "Address",
    "changeProgram": "Program",
    "targets": {
        "folder": {
            "name": "SD card or folder",
            "note": "A card in a reader, or any folder",
        },
        "console": {"name": "A console", "note": "Over the network"},
    },
    "consoleHost": "Address of the console",
    "consoleHostHint": "The program shows it, such as 192.168.1.20",
    "exampleDevice": "Living room",
    "ticks": {"check": "Done:", "close": "Not yet:", "wait": "Waiting:"},
    "programNotes": {id: row.note for id, row in CONSOLE_PROGRAMS.items() if row.note},
    "systems": {"windows": "Windows", "mac": "macOS", "linux": "Linux"},
    "computerNotes": {
        "windows": "Open PowerShell, and paste these lines one after the other.",
        "mac": "Open Terminal, and paste these lines one after the other.",
        "linux": "Open a terminal, and paste these lines one after the other.",
    },
    "openThere": "To copy the lines, open {address} on that computer.",
    "needsPython": "It needs Python 3.11 or newer, from python.org.",
    "noClient": "catalogd does not have the program here. Copy send_to_switch.py from"
    " where you got catalogd to that computer, and open the terminal in its folder.",
    "lines": {"fetch": "Get the program", "pair": "Connect it", "start": "Start it"},
    "copyLine": "Copy: {name}",
    "pairingCode": "Pairing code",
    "codeLeft": "good for {time}",
    "codeUsed": "used",
    "codeExpired": "The code has expired. The lines need a new one.",
    "codeEnded": "Somebody tried ten wrong codes, so this one was ended. The lines"
    " need a new one.",
    "newCode": "New code",
    "connectStep": "Watch it connect",
    "connects": {
        "paired": "Connected to catalogd",
        "called": "{name} asks for games",
        "folder": "Its folder is there",
        "ftp": "Its console answers",
        "lan": "Its console is called when a game is sent",
        "ready": "Ready",
    },
    "readyText": "Send puts your games on {name} now.",
    "readyFor": "Games that {account} sends arrive on {name} now.",
    "fetchers": {id: row.name for id, row in CONSOLE_PROGRAMS.items() if row.steps},
    "steps": {id: row.steps for id, row in CONSOLE_PROGRAMS.items() if row.steps},
    "changePassword": "Change password",
    "oldPassword": "Current password",
    "ownPassword": "Your password",
    "newPassword": "New password",
    "passwordChanged": "Changed the password. Your other browsers were signed out.",
    "console": "Programs on the console",
    "consoleLead": "With an address of this server, a program on the console lists"
    " every game that this account sees. It works without a password, so tell nobody.",
    "consoleOfChild": "For a child's console, create it under People, with the child.",
    "createAddressQuestion": "Create a console address for {name}? It lists what"
    " {name} sees, and replaces an older one.",
    "menus": "Sphaira's and CyberFoil's own menus (experimental)",
    "menusLead": "CyberFoil lists the library under Remote, Sphaira under Ownfoil:"
    " with covers, and with the updates and add-ons that the console lacks.",
    "menuFile": "Sphaira: the file /config/sphaira/ownfoil.ini on the card",
    "copyMenuFile": "Copy the file for Sphaira",
    "menuFields": {
        "protocol": "CyberFoil: Protocol",
        "host": "CyberFoil: Host",
        "port": "CyberFoil: Port",
        "path": "CyberFoil: Path",
    },
    "copyValue": "Copy {name}",
    "unlisted": {
        "one": "{count} file has no title id and is in the folders only.",
        "other": "{count} files have no title id and are in the folders only.",
    },
    "consoleAddress": "Console address",
    "copyAddress": "Copy the address",
    "createAddress": "Create address",
    "replace": "Replace",
    "replaceQuestion": "Replace the console address? Programs on the console that use"
    " the old one stop finding the library.",
    "revokeAddress": "Revoke the console address? Programs on the console that use it"
    " stop finding the library.",
    "sessions": "Signed-in browsers",
    "thisBrowser": "this browser",
    "end": "End",
    "signOutEverywhere": "Sign out everywhere",
    "signedOutEverywhere": "You were signed out in all browsers.",
    "everywhereQuestion": "Sign out in all browsers, and in this one too?",
    "everywhereLead": "Sign out in all browsers, and also:",
    "everywhere": {
        "keys": "revoke my keys",
        "devices": "remove my devices",
        "addresses": "revoke my console addresses",
    },
    "endQuestion": "End the session of {name}, last used {time}? That browser has to"
    " sign in again.",
    "folders": "Library folders",
    "folderStates": {
        "online": "online",
        "offline": "offline",
        "unread": "not scanned yet",
    },
    "files": {"one": "{count} file", "other": "{count} files"},
    "offlineSince": {
        "one": "{count} entry waits for it, since {time}",
        "other": "{count} entries wait for it, since {time}",
    },
    "filesMissing": {
        "one": "{count} file is missing since {time}. It comes back when the file"
        " does.",
        "other": "{count} files are missing since {time}. They come back when the files"
        " do.",
    },
    "giveUp": "Stop waiting",
    "giveUpQuestion": {
        "one": "Stop waiting for {count} entry of {name}? Its history is deleted"
        " gradually; what you edited, or gave an age, comes back with its file.",
        "other": "Stop waiting for {count} entries of {name}? Their history is deleted"
        " gradually; what you edited, or gave an age, comes back with its file.",
    },
    "allRight": "All right",
    "filesKept": "Its files are listed still, and can be sent when it is back.",
    "lastScan": "Last scan {time}.",
    "nextScan": "The next one is at {time}.",
    "watched": "New files are noticed at once.",
    "neverScanned": "Not scanned yet.",
    "scanFailed": "The last scan failed: {why}",
    "scanNow": "Scan now",
    "scanProgress": {
        "one": "{count} file found, {read} read",
        "other": "{count} files found, {read} read",
    },
    "health": "Health",
    "healthy": "All is well.",
    "disks": "Disks",
    "space": "{free} free, {used} used",
    "unknownSpace": "The disk is away.",
    "backups": "Backups",
    "backupsOff": "No backups are made.",
    "noBackup": "No backup was made yet.",
    "lastBackup": "Last backup {time}, {size}.",
    "downloadBackup": "Download",
    "backupQuestion": "Download the latest backup? It has the names, queues and"
    " consoles of everyone.",
    "server": "About",
    "serverVersionToday": "catalogd {version}, from today",
    "serverVersion": {
        "one": "catalogd {version}, {count} day old",
        "other": "catalogd {version}, {count} days old",
    },
    "releases": "Newer versions",
    "serverAddress": "Address of this page",
    "saves": "Saves",
    "savesLead": "Copies of the backups that programs on your consoles made. To put one"
    " back, download it, and restore it with that program. A copy that you delete comes"
    " back while its backup is on the card, and a console that is added again is copied"
    " anew. The nightly backup of the server has no saves in it.",
    "lookedForSaves": "Looked for saves: {time}",
    "savesCopied": {"one": "{count} copied", "other": "{count} copied"},
    "tidy": "Tidy",
    "tidyLead": "What wastes space or will not work. Nothing is deleted here: remove"
    " the files yourself.",
    "equalTo": "Equal to",
    "tidySum": {"one": "{count} file, {size}", "other": "{count} files, {size}"},
    "tidyNone": "Nothing to tidy.",
    "tidyReasons": {
        "equal": "Equal files",
        "superseded": "Updates that a newer one replaces",
        "no base": "Updates and add-ons without their game",
        "incomplete": "Incomplete files",
        "damaged": "Damaged files",
        "unreadable": "Files that cannot be read",
    },
    "passedOver": "Passed over",
    "passedOverOf": "Passed over: {what}",
    "whyPassedOver": {
        "passed_link": "Links are not followed",
        "passed_archive": "Unpack it to list what is in it",
        "passed_hidden": "Rename it to list it: its name begins with a dot or ~",
        "passed_misnamed": "Rename it to list it: its name is no text in UTF-8",
        "passed_cover": "A cover has at most 2 MiB",
    },
    "excludedBy": "The setting exclude leaves it out: {pattern}",
    "copyList": "Copy the list",
    "more": {
        "one": "{count} more is in the copied list",
        "other": "{count} more are in the copied list",
    },
    "accounts": "Accounts",
    "you": "you",
    "admin": "admin",
    "member": "member",
    "isAdmin": "Is an admin",
    "sees": "Sees",
    "seesAll": "Every title",
    "seesFor": "Titles up to age {age}",
    "seesAges": {
        "3": "Titles up to age 3",
        "7": "Titles up to age 7",
        "12": "Titles up to age 12",
        "16": "Titles up to age 16",
    },
    "makeAdmin": "Make admin",
    "makeMember": "Make member",
    "adminQuestion": "Make {name} an admin?",
    "agedAdminQuestion": "Remove the age of {name} and make an admin?",
    "memberQuestion": "Make {name} a member?",
    "setPassword": "Set password",
    "newPasswordOf": "New password of {name}",
    "passwordSet": "Changed the password of {name}; all sessions ended.",
    "removeQuestion": "Remove the account {name}, with its keys and its queue?",
    "passwordLink": "Password link",
    "passwordLinkQuestion": "Make a link with which {name} sets a new password? It is"
    " good once, for a day.",
    "inviteLead": "Whoever opens the link chooses a name and a password. It is good"
    " once, for a day.",
    "byHand": "I choose the name and the password",
    "makeLink": "Make a link",
    "onPhone": "This page on a phone",
    "onPhoneLead": "Point the camera of a phone in this network at the code.",
    "qrOf": "QR code of {address}",
    "newLink": "Here is the link",
    "newLinkLead": "Pass it on now: it is not shown again.",
    "invited": "Open invitation",
    "invitedAdmin": "Open invitation for an admin",
    "invitedFor": "Open invitation, titles up to age {age}",
    "madeBy": "by {name}",
    "removeInvitation": "Remove this invitation? Its link ends.",
    "addAccount": "Add an account",
    "accountAdded": "The account {name} was added.",
    "addLink": "Add a link",
    "addLinkLead": "An entry that leads to a web address instead of a file.",
    "address": "Address",
    "sizeBytes": "Size in bytes",
    "linkAdded": "{name} was added.",
    "signedInAs": "Signed in as {name}",
    "unknownBrowser": "A browser",
    "browserOn": "{browser} on {system}",
    "units": {
        "B": "{number} B",
        "kB": "{number} kB",
        "MB": "{number} MB",
        "GB": "{number} GB",
        "TB": "{number} TB",
    },
    "now": "just now",
    "minutesAgo": "{count} min ago",
    "hoursAgo": "{count} h ago",
    "seconds": "{count} s",
    "minutes": "{count} min",
    "hours": "{hours} h {minutes} min",
}

# language=JavaScript
JS = r""""use strict";

// What the server sends. Times are UTC, such as "2026-01-31T18:05:59".

/** @typedef {{types: string[], max_cover_bytes: number}} Inbox */
/** @typedef {{
 *   name: string, admin: boolean, age?: number, inbox?: Inbox, settings?: string,
 * }} Account
 * `age`: it sees titles from this age on, or every title; `inbox`: what it may add */
/** @typedef {Account & {id: number, created_at: string}} ListedAccount */
/** @typedef {{id: string, maker: string, name: string | null, admin: boolean,
 *   age: number | null, created_at: string}} Invitation for a new account, or for the
 * password of the one with the name */
/** @typedef {{size: number, path: string} | null} QrCode null where there is none */
/** @typedef {{id: string, link: string, qr: QrCode, account?: number}} NewLink of an
 * invitation */
/** @typedef {{address: string, qr: QrCode}} PageAddress that others can open */
/** @typedef {"base" | "update" | "add-on" | "homebrew"} Kind */
/** @typedef {{
 *   id: string, name: string, type: "filepath" | "url", state: "here" | "offline",
 *   size: number, created_at: string, file_time?: string, file_type?: string,
 *   kind?: Kind,
 *   base_id?: string, title_id?: string, version?: string, patch?: number,
 *   author?: string, complete?: boolean, icon?: string, part?: "superseded" | "copy",
 *   contents?: {title_id: string, kind: Kind | null, version: string}[],
 *   more?: Record<string, number>, isGuest?: boolean, format?: string,
 * }} Entry as in the list, where what is unknown is absent. One with `part` is not
 * offered: a newer update or a larger copy replaces it. `format` is what the bytes are,
 * where the file type says otherwise. One with several contents has
 * those with an id, and `more` the numbers of others, by kind. One that is another
 * title's, but has contents of this one, is a guest */
/** @typedef {{id: string, title: string, kind: Kind, number: number}} Content of an
 * entry: its title id, its title's and the number of its version */
/** @typedef {{
 *   id: string, name: string, source: string, size: number, created_at: string,
 *   created_by: string, metadata: Record<string, any>,
 * }} FullEntry */
/** @typedef {{entry: FullEntry, file: Record<string, string>}} Facts of an entry, and
 * those that its file has by itself */
/** @typedef {"game" | "homebrew" | "link"} TitleKind */
/** @typedef {{
 *   id: string, name: string, kind: TitleKind, parts: Entry[], size: number,
 *   created_at: string, sortKey: string, plainName: string, searchText: string,
 *   facets: string,
 * }} Title of entries with one base id, or of one without. It is `created_at` the time
 * of its newest part; `size` is that of the offered ones */
/** @typedef {{
 *   reason: string, id: string, name: string, path: string, size: number, of?: string,
 *   format?: string, missing?: string,
 * }} TidyFile is equal to the file of the entry `of` */
/** @typedef {{path: string, kind: string, pattern: string}} PassedOver of this kind, or
 * left out by the pattern */
/** @typedef {{files: TidyFile[], bytes: number, passed_over: PassedOver[]}} Tidy */
/** @typedef {{id: string, name: string, size: number, offset: number, account: string,
 *   is_own: boolean}} Unfinished of an upload, `offset` bytes are there */
/** @typedef {string | {code: string, arguments: Record<string, Argument>}} Argument
 * of a sentence: a text, or a sentence in it */
/** @typedef {{
 *   message: string, reason?: string, arguments?: Record<string, Argument>,
 * }} Sentence of the server: if `reason` is its code in SENTENCES, `arguments` has what
 * varies in it, by the names of its placeholders */
/** @typedef {Omit<Partial<Sentence>, "message">} Coded of a text beside it */
/** @typedef {"pending" | "offered" | "processing" | "completed" | "failed" |
 *   "cancelled"} Status */
/** @typedef {Coded & {
 *   id: string, entry: string, title: string, name: string, size: number,
 *   status: Status, state: "here" | "offline" | "gone", percent: number, bytes: number,
 *   speed: number, error: string, created_at: string, ended_at: string | null,
 *   device: string | null, key: string | null,
 *   account: string, is_own: boolean, freed_from: string | null,
 * }} QueueItem of the entry with the id `entry`; speed is in bytes per second, and
 * `device` null where any client of the account may take it */
/** @typedef {{
 *   entry: string, version: string, contents: [string, number][],
 *   device: string | null, account: string, sent_at: string, is_listed?: number,
 * }} Delivery of an entry, with title id and number of each content that has one;
 * clearing the queue does not change it. Or, of no entry, what a console has listed */
/** @typedef {Coded & {
 *   id: string, name: string, account: string, is_own: boolean, shared: boolean,
 *   state: "new" | "away" | "idle" | "sending", target: string,
 *   last_call: string | null, by_server: boolean, address?: string, age: number,
 *   paused_by: string | null,
 * }} Device whose target is "ready", maybe with a comma and a note, "" where that is
 * not known, or why it is not; `age` is its account's, or EVERYTHING; who paused it is
 * "" where a command did, and null where it is not paused */
/** @typedef {{
 *   code: string | null, expires_in: number, device: string | null, ended?: boolean,
 * }} Pairing the code of a device that is added, or how it ended; seconds */
/** @typedef {{
 *   id: string, label: string, created_at: string, last_used_at: string | null,
 *   requests: number, is_device: boolean,
 * }} Key */
/** @typedef {{
 *   id: string, browser: string, created_at: string, last_used_at: string,
 *   current: boolean,
 * }} Session whose browser is a User-Agent */
/** @typedef {{token: string | null}} ConsoleAddress of the account; with null it has
 * none */
/** @typedef {Coded & {
 *   path: string, state: "online" | "offline" | "unread", files: number,
 *   problem: string, free: number | null, used: number | null,
 * }} Folder with why it is offline, and the room on its disk: that is in Health alone,
 * and null where the disk does not tell */
/** @typedef {{kept: number, made_at?: string, size?: number}} Backup the last one, and
 * how many are kept */
/** @typedef {{
 *   version: string, released: string, releases: string, folders: Folder[],
 *   backup: Backup, faults: (Sentence & {about: string, id: string})[],
 * }} Health of the server */
/** @typedef {{
 *   path: string, since: string, entries: number, id: string, missing: boolean,
 * }} DiskAway a disk below a library folder that is away, since when, and how many
 * entries wait for it; or files that are missing there */
/** @typedef {Coded & {
 *   scanning: boolean, files: number, read: number, folders: Folder[] | null,
 *   disks: DiskAway[], passed_over: Sentence[],
 *   finished: string | null, next: string | null, problem: string,
 * }} ScanState with the numbers of files found and read; folders are null until loaded
 */

const GLYPHS = {
  library: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  queue: "M4 6h16M4 12h9M4 18h7M17.5 20v-9m0 0-3.5 3.5m3.5-3.5 3.5 3.5",
  settings:
    "M4 7h6m6 0h4M4 17h2m6 0h8M13 4a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM9 14a3 3 0 1 0 " +
    "0 6 3 3 0 0 0 0-6z",
  add: "M12 5v14M5 12h14",
  pause: "M8.5 5v14M15.5 5v14",
  play: "M8 5v14l11-7z",
  unfold: "m6 9.5 6 6 6-6",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20 20",
  send: "M20.5 3.5 3 10.5l7 3 3.5 7zM20.5 3.5 10 13.5",
  check: "m5 12.5 4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6 6 18",
  download: "M12 4v11m0 0 5-5m-5 5-5-5M5 20h14",
  retry: "M19.5 12a7.5 7.5 0 1 1-2.2-5.3L20 9.4M20 4.5v5h-5",
  edit: "m4 20 1-5L16 4l4 4L9 19z",
  select: "M4 4h16v16H4zM8 12l3 3 5-6",
  filter: "M4 6h16M7 12h10M10 18h4",
  link:
    "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 " +
    "6 6l1-1",
  info: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 11v5M12 8v.01",
  device: "M3 7h18v10H3zM7.5 7v10M16.5 7v10",
  folder: "M3 6h6l2 2.5h10V19H3z",
  more: "M4.5 11.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1z",
  clock: "M12 6v6l4 3",
  card: "M7 3h8l3 3.5V21H6V4zM9.5 6.5v3M12.5 6.5v3",
  wait: "M12 8v4l2.5 2.5M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16z",
};

// Data in texts: a name must not change how the text around it reads

const CONTROLS =
  /(?![\n\t\u2068\u2069])[\p{Cc}\p{Bidi_Control}\xad\u200b\u2028\u2029\u2060-\u2064\ufeff]/gu;
const RIGHT_TO_LEFT =
  /[\u0590-\u08ff\u2068\u2069\ufb1d-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Return a text with its control and invisible characters replaced by "\ufffd", except
 * those that isolate: the style gives each element a direction of its own. */
function visible(text) {
  return String(text).replace(CONTROLS, "\ufffd");
}

/** Isolate a text that may be read in the other direction than the page. It may be a
 * sentence with isolated texts in it, but none may end the isolation that it is in. */
function isolate(text) {
  const mayTurn = document.dir === "rtl" || RIGHT_TO_LEFT.test(text);
  if (typeof text !== "string" || !mayTurn) return text;
  const inside = isBalanced(text) ? text : text.replace(/[\u2068\u2069]/g, "\ufffd");
  return `\u2068${inside}\u2069`;
}

/** Whether each isolation that begins in a text ends in it, and no other does. */
function isBalanced(text) {
  let depth = 0;
  for (const char of text) {
    if (char === "\u2068") depth += 1;
    else if (char === "\u2069") depth -= 1;
    if (depth < 0) return false;
  }
  return depth === 0;
}

// Texts: those of the page are in the table of the server, or in a translation of it

/** @typedef {Record<string, any>} Table of texts and of groups of them */
/** @typedef {{
 *   about?: {direction?: string, machine?: boolean}, words: Table, sentences: Table,
 * }} Translation */
/** @type {Translation} */
const ENGLISH = JSON.parse("{}"); // the server has its WORDS here
const PLACEHOLDERS = /\{(\w+)\}/g;
/** What the page says: texts and, where those have placeholders, functions.
 * @type {Table} */
const WORDS = {};
/** @type {any[]} */
let [LOCALE, PLURALS, NUMBER, TENTHS, LIST, CHOICE, COLLATOR, SPELLINGS] = [];
let isByMachine = false; // and nobody who speaks the language has read it
/** The languages of the browser, but for such as "en-US@posix" and "C". */
const BROWSER_LANGUAGES = navigator.languages.filter(name =>
  /^[a-z]{2,3}(-\w{2,8})*$/i.test(name),
);
/** What the server tells at first: see KNOWN_TO_PAGE there. */
const KNOWN = {
  packages: /** @type {string[]} */ ([]),
  parts: {update: "", "add-on": ""},
  fault_tabs: /** @type {Record<string, string>} */ ({}), // by the codes of faults
  installers: /** @type {string[]} */ ([]), // how their addresses begin
  programs: /** @type {Record<string, ConsoleProgram>} */ ({}),
};
const LANGUAGES = {"en-GB": "English"}; // by code; the server names its others

/** Show the page in the language of a translation, and what that lacks in English.
 * Numbers and times follow the browser's region, where it has one for this language.
 * @param {string} language
 * @param {Translation} translation */
function speak(language, {about = {}, words, sentences}) {
  Object.assign(WORDS, spoken(ENGLISH.words, words));
  WORDS.problems = {...sentences, ...ENGLISH.words.problems, ...words.problems};
  isByMachine = Boolean(about.machine);
  const isSame = name => name.split("-")[0] === language.split("-")[0];
  LOCALE = BROWSER_LANGUAGES.find(isSame) || language;
  PLURALS = new Intl.PluralRules(language);
  NUMBER = new Intl.NumberFormat(LOCALE);
  const tenths = {minimumFractionDigits: 1, maximumFractionDigits: 1};
  TENTHS = new Intl.NumberFormat(LOCALE, tenths);
  LIST = new Intl.ListFormat(language);
  CHOICE = new Intl.ListFormat(language, {type: "disjunction"});
  COLLATOR = new Intl.Collator(language, {numeric: true});
  SPELLINGS = spellingsOf(language);
  const dir = about.direction || "ltr";
  Object.assign(document.documentElement, {lang: language, dir});
  for (const word of ["send", "again"]) // the room that its button keeps
    document.documentElement.style.setProperty(`--${word}`, `"${WORDS[word]}"`);
}

/** Show the page in the best of the languages that the server has words in. */
async function speakBest(languages = {}) {
  Object.assign(LANGUAGES, languages);
  const best = bestLanguage();
  if (best === "en-GB") return;
  try {
    speak(best, await call("GET", `languages/${best}.json`));
  } catch (error) {
    speak("en-GB", ENGLISH);
    const again = {label: WORDS.tryAgain, act: () => speakBest()};
    toast(WORDS.inEnglish(LANGUAGES[best], explain(error)), true, again);
  }
}

/** The chosen language, else the first of the browser's that there are words in. */
function bestLanguage() {
  const codes = Object.keys(LANGUAGES);
  const found = BROWSER_LANGUAGES.map(
    name => codes.find(code => code === name) || codes.find(code => isRead(code, name)),
  );
  const wanted = [state.kept.language, ...found];
  return wanted.find(name => codes.includes(name)) || codes[0];
}

/** Whether readers of one language read the other: those of zh-TW do not read zh-CN. */
function isRead(one, other) {
  const [a, b] = [one, other].map(name => new Intl.Locale(name).maximize());
  return a.language === b.language && a.script === b.script;
}

/** Speak another language, and load again what has words of the last one in it. */
async function chooseLanguage(language) {
  remember("language", language);
  if (language === "en-GB") speak(language, ENGLISH);
  await speakBest();
  update({changesTag: null});
  pollAll();
}

/** A text or a group of them, as in a translation or else in English. */
function spoken(english, text = english) {
  const isPlural = "one" in Object(english);
  if (typeof english === "string" || isPlural)
    return spokenText(english, typeof text === "string" || text.other ? text : english);
  const each = ([name, part]) => [name, spoken(part, text[name])];
  return Object.fromEntries(Object.entries(english).map(each));
}

/** A text or, where English has placeholders, a function that fills them: its arguments
 * are in their order. `count`, or else an argument after them, chooses the plural. */
function spokenText(english, text) {
  const found = (english.other || english).matchAll(PLACEHOLDERS);
  const names = [...new Set(Array.from(found, ([, name]) => name))];
  if (!names.length) return text;
  return (...args) => {
    const of = names.map((name, n) => [name, args[n]]);
    return filled(text, {count: args[names.length], ...Object.fromEntries(of)});
  };
}

/** A text, in the form for the `count` if it has several, with its placeholders filled.
 * @param {Record<string, any>} of by the names of the placeholders */
function filled(text, of) {
  const form = text.other ? text[PLURALS.select(of.count)] || text.other : text;
  return form.replace(PLACEHOLDERS, (part, name) => written(of[name] ?? part));
}

function written(arg) {
  return typeof arg === "number" ? NUMBER.format(arg) : isolate(arg);
}

speak("en-GB", ENGLISH);

/** @template Thing
 * @param {Thing[]} things
 * @param {(thing: Thing) => string} keyOf
 * @returns {Map<string, Thing[]>} the things of each key */
function groupBy(things, keyOf) {
  const groups = new Map();
  for (const thing of things) {
    const key = keyOf(thing);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(thing);
  }
  return groups;
}

/** Join facts of a thing, sentences or items, without those that are not known. */
function joinFacts(facts, between = WORDS.between.facts) {
  return facts.filter(Boolean).map(isolate).join(between);
}

/** Facts of which each but the first is in a line as a whole, or not in it. */
function wholeFacts(facts) {
  const {facts: between} = WORDS.between;
  const [first, ...others] = facts.filter(Boolean);
  const unbroken = fact => inOneLine(fact).replaceAll("-", "\u2011");
  return joinFacts([first, ...others.map(unbroken)], between.replace(/ $/, "\xA0"));
}

function joinSentences(...sentences) {
  return joinFacts(sentences, WORDS.between.sentences);
}

/** The name of an entry, with the server's "Update 3" and "Add-on 3" in our words. */
function entryName(name) {
  const {update, "add-on": addOn} = KNOWN.parts;
  const part = new RegExp(` - (${update}|${addOn})(?: (\\d+))?(?= \\(|$)`);
  const named = (kind, number) =>
    kind === update ? patchText(number) : addOnText(number);
  return name.replace(part, (_, kind, number) => ` - ${named(kind, number)}`);
}

// Nodes: a view is a tree of virtual nodes, and `patch` changes the document to match.
// Data becomes text or properties, never HTML.

/** @typedef {Record<string, any>} Props */
/** @typedef {{tag: string, props: Props, children: VNode[], text: string}} VNode */

const SVG_TAGS = new Set(["svg", "path", "circle", "rect", "text", "g"]);
const LIVE_PROPS = new Set(["value", "checked"]); // which people change too
// Not the document's:
const OWN_PROPS = new Set(["key", "reuse", "from", "drawn", "live"]);

/** A function for each tag: `h.p("meta", child, ...)` is short for
 * `h.p({class: "meta"}, child, ...)`. A child that is null or false becomes empty text,
 * so that its siblings keep their places.
 * @type {Record<string, (props?: Props | string | null, ...nodes: any[]) => VNode>} */
const h = new Proxy({}, {get: (_, tag) => makeVNode.bind(null, tag)});

function makeVNode(tag, given, ...children) {
  const props = typeof given === "string" ? {class: given} : given || {};
  return {tag, props, children: vnodes(children)};
}

function vnodes(children) {
  return children.flat(Infinity).map(child => (child?.tag ? child : textNode(child)));
}

function textNode(child) {
  const text = child === false ? "" : String(child ?? "");
  return {tag: "#text", props: {}, children: [], text};
}

/** A node that is made again only when one of the things changes that it is made from.
 * @param {string} key
 * @param {any[]} from
 * @param {() => VNode} make
 * @returns {VNode & {make: () => VNode}} */
function lazy(key, from, make) {
  return {tag: "li", props: {key, from}, children: [], text: "", make};
}

/** A node that is drawn again between polls, by itself: what is in it flows.
 * @param {() => any} render what is in it now */
function live(render) {
  return h.span({class: "live", live: render}, render());
}

/** Draw what flows, unless it should step. */
function flow() {
  if (document.hidden || isStill()) return;
  for (const node of document.querySelectorAll(".live"))
    patch(node, vnodes([shown.get(node)?.props.live()]));
}

function isStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** What each node of the document shows.
 * @type {WeakMap<Node, VNode>} */
const shown = new WeakMap();

function keyOf(node) {
  return shown.get(node)?.props.key;
}

/** Change the children of `parent` to match, and keep the nodes that can stay. */
function patch(parent, vnodes) {
  const keys = keysOf(vnodes);
  const keyed = new Map();
  for (const node of parent.childNodes) if (keyOf(node)) keyed.set(keyOf(node), node);
  let next = parent.firstChild;
  for (const vnode of vnodes) {
    const known = keyed.get(vnode.props.key);
    keyed.delete(vnode.props.key);
    while (next && isObsolete(next, known, keys) && !canReuse(next, known, vnode))
      next = removeNode(next);
    const node = known || (canShow(next, vnode, keys) ? next : createNode(vnode));
    if (node.contains(document.activeElement)) next = moveBehind(next, node);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    updateNode(node, vnode);
  }
  while (next) next = removeNode(next);
}

/** Move siblings that are before a node to their end: what has the focus, and maybe a
 * menu that is open, loses both where it is moved itself. */
function moveBehind(next, node) {
  while (next && next !== node && next.parentNode === node.parentNode) {
    const after = next.nextSibling;
    next.parentNode.append(next);
    next = after;
  }
  return next;
}

/** The keys of siblings. Each is there once: a second one is a mistake of ours. */
function keysOf(vnodes) {
  const keys = new Set();
  for (const {key} of vnodes.map(vnode => vnode.props)) {
    if (key && keys.has(key)) console.error(`Two siblings have the key ${key}.`);
    keys.add(key);
  }
  return keys;
}

/** Whether to remove a node. One without a key goes when a known node takes its place,
 * because moving the known one would take the focus from it. */
function isObsolete(node, known, keys) {
  const key = keyOf(node);
  return key ? !keys.has(key) : Boolean(known);
}

/** Whether to reuse a node whose thing is gone, which is faster than a new one. */
function canReuse(node, known, vnode) {
  const isMeant = vnode.props.reuse && shown.get(node)?.props.reuse;
  return isMeant && !known && !node.contains(document.activeElement);
}

function canShow(node, vnode, keys) {
  if (!node) return false;
  if (keyOf(node) || vnode.props.key)
    return !keys.has(keyOf(node)) && canReuse(node, null, vnode);
  return node.nodeName.toLowerCase() === vnode.tag;
}

/** A form that somebody has typed in is the same node again: that keeps its values. */
function createNode({tag, props}) {
  if (tag === "#text") return document.createTextNode("");
  if (SVG_TAGS.has(tag))
    return document.createElementNS("http://www.w3.org/2000/svg", tag);
  const kept = tag === "form" && formOf(props.key);
  return kept && isDraft(kept) ? kept : document.createElement(tag);
}

function updateNode(node, vnode) {
  const {text = "", props: before = {}} = shown.get(node) || {};
  const {make, props} = vnode;
  if (make && before.from?.every((thing, n) => thing === props.from[n])) return;
  if (make) {
    vnode = make();
    Object.assign(vnode.props, props);
  }
  shown.set(node, vnode);
  if (vnode.tag === "#text") {
    if (text !== vnode.text) node.data = visible(vnode.text);
    return;
  }
  // First, since a select has the values of its options. A textarea has its default.
  if (vnode.tag !== "textarea") patch(node, vnode.children);
  for (const name in before) if (!(name in vnode.props)) setProp(node, name, null);
  for (const name in vnode.props) {
    const value = vnode.props[name];
    if (value !== before[name] || LIVE_PROPS.has(name)) setProp(node, name, value);
  }
}

function setProp(node, name, value) {
  if (OWN_PROPS.has(name)) return;
  if (/^(on|default)/.test(name)) node[name] = value ?? "";
  else if (name === "style") setStyle(node.style, value || {});
  else if (LIVE_PROPS.has(name)) setLiveProp(node, name, value);
  else if (value === false || value == null) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : visible(value));
}

function setStyle(/** @type {CSSStyleDeclaration} */ style, properties) {
  for (const name of [...style]) if (!(name in properties)) style.removeProperty(name);
  for (const name in properties) style.setProperty(name, properties[name]);
}

/** Set a property only where it differs, so that the caret stays where it is. That of
 * an option is always set: without a value, it is its text. */
function setLiveProp(node, name, value) {
  if (node[name] !== value || node.nodeName === "OPTION") node[name] = value ?? "";
}

function removeNode(node) {
  const next = node.nextSibling;
  if (node.open) node.close?.(); // a dialog gives the focus back
  const isKept = form => isDraft(form) && node.contains(form);
  const drafts = [...document.forms].filter(isKept);
  node.remove();
  document.getElementById("drafts")?.append(...drafts);
  return next;
}

function glyph(name) {
  return h.svg(
    {viewBox: "0 0 24 24", class: "glyph", "aria-hidden": "true"},
    h.path({d: GLYPHS[name]}),
  );
}

const BUSY = {"aria-disabled": "true", "aria-busy": "true"};

/** A button, which is disabled until the Promise of its handler is settled. Those with
 * the same label are one, unless they have different names. */
function button(content, onclick, props = {}) {
  const name = props.name || props["aria-label"] || textOf(vnodes([content]));
  const act = event => once(name, () => onclick(event));
  const busy = state.busy.has(name) && BUSY;
  return h.button({type: "button", onclick: act, ...props, ...busy}, content);
}

function textOf(nodes) {
  return nodes.map(({text, children}) => text || textOf(children)).join("");
}

/** Do `work`, unless what it did before under this name is not settled yet. */
function once(name, work) {
  if (state.busy.has(name)) return;
  const done = work();
  if (!(done instanceof Promise)) return;
  update({busy: new Set(state.busy).add(name)});
  attempt(() => done).finally(() => {
    const busy = new Set(state.busy);
    busy.delete(name);
    update({busy});
  });
}

const SWITCHES =
  "label, input, summary, [aria-pressed], [aria-expanded]:not([popovertarget])";
/** @type {Element | null} */
let lastSwitch = null; // that was clicked

/** Make a double click one, which else would hit what it has shown; not of a switch. */
function dropSecondClick(event) {
  const last = lastSwitch;
  lastSwitch = event.target.closest(SWITCHES);
  if (event.detail < 2 || (last && last === lastSwitch)) return;
  event.preventDefault();
  event.stopPropagation();
}

// A menu is a popover. Browsers without those get it as a part of its row.
const HAS_POPOVERS = CSS.supports("selector(:popover-open)");
const [OPEN_MENU, CLOSED_MENU] = HAS_POPOVERS
  ? [".menu:popover-open", ".menu:not(:popover-open)"]
  : [".menu:not([hidden])", ".menu[hidden]"];

/** Close a menu before the button that was chosen in it acts: what that opens gives the
 * focus back to the button of the menu. */
function closeMenu({target}) {
  if (target.closest("button:not([data-stays])")) hideMenu(target.closest(OPEN_MENU));
}

function hideMenu(menu) {
  if (!menu) return;
  if (HAS_POPOVERS) return menu.hidePopover();
  const opener = menu.previousElementSibling;
  if (menu.contains(document.activeElement)) opener.focus();
  menu.hidden = true;
  opener.setAttribute("aria-expanded", "false");
}

/** Do what browsers do with popovers: the button of a menu opens and closes it, and a
 * press elsewhere closes it. */
function toggleMenu({target, defaultPrevented}) {
  const open = document.querySelector(OPEN_MENU);
  if (HAS_POPOVERS || defaultPrevented || open?.contains(target)) return;
  hideMenu(open);
  const opener = target.closest("[popovertarget]");
  if (!opener || opener.nextElementSibling === open) return;
  const menu = opener.nextElementSibling;
  menu.hidden = false;
  requestAnimationFrame(() => menu.scrollIntoView({block: "nearest"})); // once drawn
  opener.setAttribute("aria-expanded", "true");
}

/** Note whether a pointer or a key was used last. Only WebKit shows the ring of keys at
 * what a script has focused since a press of the pointer. */
function noteInput({type}) {
  document.documentElement.dataset.by = type;
}

/** Make a held key one press: what comes in place of a pressed button would act too. */
function dropRepeatedEnter(event) {
  const isPress = event.key === "Enter" && !event.target.matches("textarea");
  if (event.repeat && isPress) event.preventDefault();
}

function iconButton(icon, label, onclick, props) {
  const named = {class: "icon-button", "aria-label": label, title: label};
  return button(glyph(icon), onclick, {...named, ...props});
}

// State: what the page shows follows from this one object. `update` changes it, and
// draws the page again.

const FINISHED_STEP = 100; // finished items shown at first, and more with each tap
const NOBODY = {name: "", admin: false};
const NO_PROBLEM = {form: "", text: ""};

/** The state at first, and after signing out. Lists are null until they are loaded. */
function initialState() {
  return {
    phase: "starting", // starting, setup, sign-in, in
    connected: true,
    account: /** @type {Account} */ (NOBODY),
    setupCode: stored("setupCode"), // of a link that was opened
    invitation: stored("invitation"), // the token of one
    invited: /** @type {Invitation | null} */ (null), // what that is for
    view: "library",
    visit: {}, // of that view, another one each time
    library: {
      search: "",
      filter: "all", // one of FILTERS
      more: "", // one of furtherFilters, or "" for all
      selecting: false,
      selected: /** @type {Set<string>} */ (new Set()), // ids of titles
      lastSelected: "",
    },
    details: untouched(),
    queue: {
      finishedShown: FINISHED_STEP,
      unfolded: /** @type {Set<string>} */ (new Set()), // keys of rows that show parts
    },
    settings: {
      tab: "",
      showsExperts: false, // what is folded
      showsAllSessions: false,
      newKey: /** @type {{label: string, key: string} | null} */ (null),
      newLink: /** @type {NewLink | null} */ (null),
      pageAddress: "", // that was chosen
      // Tokens of console addresses that were created, by the ids of their accounts:
      addresses: /** @type {Record<number, string>} */ ({}),
    },
    filters: /** @type {object | null} */ (null), // while their sheet is open
    adding: /** @type {Adding | null} */ (null),
    question: /** @type {OpenQuestion | null} */ (null),

    openForm: "", // name of the form that is open in a list or in the details
    problem: NO_PROBLEM, // why a form was refused
    filled: /** @type {any} */ ({}), // in to add a device, while the sheet is closed
    menu: "", // id of the one that was opened last
    busy: /** @type {Set<string>} */ (new Set()), // names of what waits for an answer
    toasts: /** @type {Toast[]} */ ([]),
    announcement: "", // for screen readers
    // What this browser keeps, by its names in STORED:
    kept: Object.fromEntries(Object.keys(STORED).map(name => [name, stored(name)])),
    queueing: /** @type {Set<string>} */ (new Set()), // ids of parts in calls to send
    brokenIcons: /** @type {Set<string>} */ (new Set()), // that failed to load
    uploads: /** @type {Upload[]} */ ([]),
    unfinished: /** @type {Unfinished[]} */ ([]),
    dropping: false, // whether files are dragged over the page

    // What the server told:
    changesTag: /** @type {string | null} */ (null), // the ETag of the last changes
    toldAt: 0, // when those came, in milliseconds of performance.now()
    // Why something could not be loaded, by its name for `poll`:
    problems: /** @type {Record<string, string>} */ ({}),
    entries: /** @type {Entry[] | null} */ (null),
    // From which on children see a title, by its id; those undecided are absent:
    ages: /** @type {Record<string, number> | null} */ (null),
    // Of those, what children saw before:
    former: /** @type {Record<string, {age: number, replaced: boolean}>} */ ({}),
    sent: /** @type {Delivery[]} */ (NOTHING),
    items: /** @type {QueueItem[] | null} */ (null),
    finished: 0, // number of items that have ended, also those that are not loaded
    devices: /** @type {Device[] | null} */ (null),
    hasClient: true, // whether the server hands out the client
    scan: /** @type {ScanState} */ ({
      ...{scanning: false, files: 0, read: 0},
      ...{finished: null, next: null, problem: "", folders: null, disks: []},
      ...{passed_over: []},
    }),
    keys: /** @type {Key[] | null} */ (null),
    saves: /** @type {any} */ ({copies: [], looks: []}),
    dir: /** @type {ConsoleAddress | null} */ (null),
    sessions: /** @type {Session[] | null} */ (null),
    addresses: /** @type {PageAddress[] | null} */ (null),
    accounts: /** @type {ListedAccount[] | null} */ (null),
    invitations: /** @type {Invitation[] | null} */ (null),
    status: /** @type {Health | null} */ (null),
    tidy: /** @type {Tidy | null} */ (null),
  };
}

/** The details of a title before anything in them was changed.
 * @param {string} [id] of the title, or of a part of it; "" while they are closed */
function untouched(id = "") {
  return {
    id,
    facts: /** @type {Record<string, Facts>} */ ({}), // by id of the part
    ticked: /** @type {Set<string> | null} */ (null), // ids of parts; null: see `ticks`
    unfolded: "", // id of the part whose file details are shown
    edited: "", // id of the part that somebody chose to edit last
    showsAllParts: false,
  };
}

function isWide() {
  return matchMedia("(min-width: 43.75em)").matches;
}

/** What this browser or its tab keeps: each by default, and what else it may be.
 * @type {Record<string, [any, RegExp?]>} */
const STORED = {
  language: ["", /^/],
  device: [{id: "", name: "", account: ""}], // to send to, which the account has chosen
  sort: ["name", /^(newest|size)$/],
  layout: ["", /^(covers|rows)$/], // "" until somebody chose one
  scrolled: ["0", /^\d+$/],
  invitation: ["", /^\w+$/],
  setupCode: ["", /^/],
};

/** Return what is stored under this name or, where that cannot be, the default. */
function stored(name) {
  const [otherwise, pattern] = STORED[name];
  try {
    const text = sessionStorage.getItem(name) ?? localStorage.getItem(name) ?? "";
    if (pattern) return pattern.test(text) ? text : otherwise;
    const value = JSON.parse(text);
    const isWhole = Object.keys(otherwise).every(key => typeof value[key] === "string");
    return isWhole ? value : otherwise;
  } catch {
    return otherwise;
  }
}

/** @type {any[]} */
const NOTHING = []; // in place of a list that is not loaded: the same each time
const state = initialState();
let drawing = false;

function update(/** @type {Partial<typeof state>} */ changes) {
  Object.assign(state, changes);
  if (drawing) return;
  drawing = true;
  queueMicrotask(draw);
}

/** Change a part of the state.
 * @template {"library" | "details" | "queue" | "settings"} Part
 * @param {Part} part
 * @param {Partial<typeof state[Part]>} changes */
function change(part, changes) {
  update({[part]: {...state[part], ...changes}});
}

function draw() {
  drawing = false;
  try {
    drawPage();
    showTrouble("");
  } catch (error) {
    console.error(error);
    showTrouble(WORDS.broken);
  }
}

function drawPage() {
  const focused = /** @type {HTMLElement} */ (document.activeElement || document.body);
  lastFocus.setStartBefore(focused);
  const app = document.getElementById("app");
  patch(app, vnodes(renderPage()));
  if (!areTitlesPlaced()) patch(app, vnodes(renderPage())); // once more
  if (focused !== document.activeElement && !isGone(focused)) focused.focus();
  for (const dialog of document.getElementsByTagName("dialog"))
    if (!dialog.open) dialog.showModal();
  keepFocus(focused);
  document.title = visible(documentTitle());
  placeToasts();
}

/** @type {HTMLElement[]} */
let travellers = []; // covers that have a name, by which the browser finds them again
let lastTravel; // the last view transition

/** Make a change of the view. Covers in sight travel to where they are then, unless the
 * browser cannot do that or motion is reduced. The change comes a frame later then, so
 * what follows from it belongs into it.
 * @param {() => void} change
 * @param {() => HTMLElement[]} covers in the same order before it and after it */
function travel(change, covers) {
  const isPlain = !document.startViewTransition || isStill() || document.hidden;
  nameCovers(isPlain ? [] : covers());
  if (!travellers.length) return change();
  const own = document.startViewTransition(() => {
    change();
    draw();
    nameCovers(covers());
  });
  lastTravel = own;
  own.ready.catch(() => {}); // where the next one ends it
  own.finished.finally(() => own === lastTravel && nameCovers([]));
}

/** Name those of the covers that are in sight, by their places, and no others. */
function nameCovers(/** @type {HTMLElement[]} */ covers) {
  for (const {style} of travellers) style.viewTransitionName = "";
  travellers = covers.filter(isInSight);
  for (const cover of travellers)
    cover.style.viewTransitionName = `cover-${covers.indexOf(cover)}`;
}

/** Whether a cover is in sight and below no bar, which it would be above in motion. */
function isInSight(/** @type {HTMLElement} */ cover) {
  const {top, bottom} = cover.getBoundingClientRect();
  const isClear = bar => {
    const at = bar.getBoundingClientRect();
    return at.bottom <= top || at.top >= bottom || bar.contains(cover);
  };
  const bars = document.querySelectorAll(".top, nav, .dock");
  const isClearOfAll = cover.closest("dialog") || [...bars].every(isClear);
  return Boolean(bottom > 0 && top < innerHeight && isClearOfAll);
}

/** The cover of a title: in its details, else on its card, that with the focus. */
function coverOf(id) {
  const card = `.entry-cover[href="#title/${findTitle(id)?.id}"]`;
  const places = [card, `:focus-within > ${card}`, ".facts-cover"];
  return places.flatMap(findAll).slice(-1);
}

/** The covers of what is being sent, in the dock or the queue. */
function coversOfLanes() {
  return findAll(".lane:not(.note-lane) > .entry-cover");
}

/** @param {string} selector
 * @returns {HTMLElement[]} */
function findAll(selector) {
  return Array.from(document.querySelectorAll(selector));
}

const lastFocus = document.createRange(); // stays where the node with the focus was
/** @type {HTMLElement[]} */
let beginnings = []; // of forms and steps, in the page as it was drawn last
let formOpener = {node: document.body, name: ""}; // what had the focus before a form
// A form that opens begins with a field, and the open step of one where Tab leads to:
const STEP_FIELDS = ".step:not(.is-done) :not([type=radio]:not(:checked))";

/** @returns {HTMLElement[]} that can have the focus, in order */
function focusable(/** @type {string} */ selector) {
  const layer = [...document.querySelectorAll("#app dialog")].at(-1) || document;
  const controls = "a[href], button, input, select, textarea, summary";
  /** @type {NodeListOf<HTMLElement>} */
  const nodes = layer.querySelectorAll(selector);
  const isShown = node => !node.closest(CLOSED_MENU);
  return [...nodes].filter(
    node => node.matches(controls) && node.tabIndex >= 0 && isShown(node),
  );
}

/** A form that opens takes the focus. When the node with the focus is gone, that goes
 * to the next step, back to what opened the form, to the next node in that part of the
 * page that does the same, or else to the heading of that part.
 * @param {HTMLElement} focused before the page was drawn */
function keepFocus(focused) {
  const before = beginnings;
  beginnings = focusable(`[autofocus], ${STEP_FIELDS}`);
  const begun = beginnings.filter(node => !before.includes(node));
  /** @type {any} */
  const field = begun.find(node => node.autofocus);
  if (field) {
    formOpener = {node: focused, name: nameOf(focused)};
    field.focus();
    field.setSelectionRange?.(999, 999); // the caret goes to the end
  } else if (isGone(focused) && document.activeElement === document.body) {
    const {node: opener, name} = formOpener;
    const isOpener = node => node === opener || nameOf(node) === name;
    const back = focused.closest("form") && focusable("*").find(isOpener);
    const next = begun[0] || back || nextLike(focused);
    next?.focus({preventScroll: true});
  }
}

/** Whether a node that had the focus is no longer shown. */
function isGone(/** @type {Element} */ node) {
  return node !== document.body && !document.getElementById("app")?.contains(node);
}

/** The nearest node that does the same as one that is gone, in its part of the page, or
 * the heading of that. */
function nextLike(/** @type {HTMLElement} */ gone) {
  const place = /** @type {Element} */ (lastFocus.startContainer);
  const part = place.closest("section, dialog, main") || document.querySelector("main");
  const isLike = node => keyOf(node) && keyOf(node) === keyOf(gone);
  const like = focusable("*").filter(node => part?.contains(node) && isLike(node));
  const next = like.find(node => lastFocus.comparePoint(node, 0) > 0);
  const inMenu = focusable("*").find(node => place.closest(".menu")?.contains(node));
  return next || like[like.length - 1] || inMenu || headingOf(part);
}

/** @param {Element | null} part of the page
 * @returns {HTMLElement | null} */
function headingOf(part) {
  /** @type {HTMLElement | null | undefined} */
  const heading = part?.querySelector("h1, h2");
  if (heading) heading.tabIndex = -1;
  return heading || /** @type {HTMLElement | null} */ (part);
}

function nameOf(node) {
  return node.getAttribute("aria-label") || node.textContent;
}

/** Say beside the page why it cannot be drawn and what to do, or "" where it can. */
function showTrouble(text) {
  const [app, trouble] = ["app", "trouble"].map(id => document.getElementById(id));
  if (!app || !trouble) return;
  trouble.hidden = !text;
  if (!text) return;
  app.replaceChildren(); // a dialog would cover it
  Object.assign(trouble.querySelector("p") || {}, {textContent: text});
}

/** A copy of a set, without a thing that it had, or with it. */
function toggled(set, thing) {
  const copy = new Set(set);
  if (!copy.delete(thing)) copy.add(thing);
  return copy;
}

/** Return a function that computes again only when its arguments change, also those
 * that `compute` does not take.
 * @template {any[]} Arguments
 * @template Result
 * @param {(...args: Arguments) => Result} compute
 * @returns {(...args: [...Arguments, ...any[]]) => Result} */
function memo(compute) {
  let last;
  let result;
  return (...args) => {
    if (!last || args.some((arg, index) => arg !== last[index])) {
      result = compute(.../** @type {any} */ (args));
      last = args;
    }
    return result;
  };
}

/** Return a function of an object that computes once for each.
 * @template {WeakKey} T
 * @template R
 * @param {(thing: T) => R} compute
 * @returns {(thing: T) => R} */
function memoEach(compute) {
  const results = new WeakMap();
  return thing => {
    if (!results.has(thing)) results.set(thing, compute(thing));
    return results.get(thing);
  };
}

/** Have the browser keep a setting: a text or, where its default is one, an object. */
function remember(name, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  localStorage.setItem(name, text);
  update({kept: {...state.kept, [name]: value}});
}

/** Show other titles, from the first one on.
 * @param {Partial<Record<"search" | "filter" | "more", string>>} changes */
function narrow(changes) {
  change("library", changes);
  keepSearch();
  if (scrollY) scrollTo(0, 0);
}

/** @typedef {{label: string, act: () => void}} Action */
/** @typedef {{
 *   kind: string, text: string, isError: boolean, actions: Action[],
 *   names: Record<string, string>, undos: (() => any)[], id: number, isOld?: boolean,
 * }} Toast there is one of each kind. `names` are of the titles that it is about, by
 * their ids, and `undos` undo what was done with them. That of a send is in the dock:
 * it is old once its text has gone, and only its undo is left */
const ACTION_PAUSE = 10000; // milliseconds for which a toast with a button is shown
const MAX_CHOICES = 4; // that a question has buttons for
let toasts = 0;

/** Show a message, with a button for each action. */
function toast(text, isError = false, ...actions) {
  addToast({kind: text, text, isError, actions, names: {}, undos: []});
}

/** Show a toast in place of that of its kind. Of those without buttons, two are shown.
 * @param {Omit<Toast, "id">} added */
function addToast(added) {
  const {kind, isError, actions} = added;
  const id = ++toasts;
  const others = state.toasts.filter(each => each.isOld || each.kind !== kind);
  const all = [...others, {...added, id}];
  const passing = all.filter(each => !each.actions.length).slice(-2);
  update({toasts: all.filter(each => each.actions.length || passing.includes(each))});
  const end = () => (isOfDock(added) ? ageToast(id) : dismiss(id));
  setTimeout(end, actions.length ? ACTION_PAUSE : isError ? 9000 : 5000);
}

/** Whether a toast is in the dock, which has the undo of a send. */
function isOfDock(/** @type {Pick<Toast, "kind">} */ {kind}) {
  return kind.startsWith("queued");
}

function ageToast(id) {
  const aged = each => (each.id === id ? {...each, isOld: true} : each);
  update({toasts: state.toasts.map(aged)});
}

/** Forget how to undo the sends that have ended. */
function forgetUndos() {
  const open = new Set(openItems().map(item => findTitle(item.title)?.id));
  const goesOn = ({names}) => Object.keys(names).some(id => open.has(id));
  update({toasts: state.toasts.filter(each => !isOfDock(each) || goesOn(each))});
}

/** Tell what was done with titles, as one with what was done so to others and is still
 * shown: it has one Undo for all.
 * @param {{
 *   kind: string, names: Record<string, string>, undo?: () => any, isError?: boolean,
 *   say: (name: string, count: number, ids: string[]) => string, more?: Action[],
 * }} deed where `say` gets the name of the only title, or how many there are */
function tell({kind, names, undo, isError = false, say, more = []}) {
  const before = state.toasts.find(each => each.kind === kind && !each.isOld);
  const all = {...before?.names, ...names};
  const ids = Object.keys(all);
  if (!ids.length) return;
  const undos = [...(before?.undos || []), undo || []].flat();
  const act = async () => {
    for (const each of [...undos].reverse()) await attempt(each);
  };
  const name = ids.length > 1 ? WORDS.titles(ids.length) : all[ids[0]];
  const actions = undos.length ? [...more, {label: WORDS.undo, act}] : more;
  const text = say(name, ids.length, ids);
  addToast({kind, text, isError, actions, names: all, undos});
}

/** Move the toasts up from a row that they are about: its key begins with a title's. */
function placeToasts() {
  const box = document.querySelector("#app > .toasts");
  const ids = state.toasts.flatMap(({names}) => Object.keys(names));
  box?.classList.remove("high");
  if (!box || !ids.length) return;
  const {left, right, top, bottom} = box.getBoundingClientRect();
  const isCovered = row => {
    const at = row.getBoundingClientRect();
    return at.right > left && at.left < right && at.bottom > top && at.top < bottom;
  };
  const rows = [...document.querySelectorAll(".entry, .item, .lane")];
  const own = rows.filter(row => ids.includes(keyOf(row)?.split(",")[0]));
  box.classList.toggle("high", own.some(isCovered));
}

function dismiss(id) {
  update({toasts: state.toasts.filter(each => each.id !== id)});
}

// Numbers and times, as people read them

function inOneLine(text) {
  return text.replaceAll(" ", "\xA0");
}

function formatBytes(count) {
  let power = 0;
  const units = Object.values(WORDS.units);
  while (count >= 999.5 && power < units.length - 1) {
    count /= 1000;
    power += 1;
  }
  const isSmall = power > 1 && count < 9.95;
  return inOneLine(units[power](isSmall ? TENTHS.format(count) : Math.round(count)));
}

function formatDuration(seconds) {
  const whole = Math.max(1, Math.round(seconds));
  const minutes = Math.round(seconds / 60);
  if (seconds < 60) return inOneLine(WORDS.seconds(whole));
  if (minutes < 60) return inOneLine(WORDS.minutes(minutes));
  return inOneLine(WORDS.hours(Math.floor(minutes / 60), minutes % 60));
}

function ageOfVersion(version, released) {
  const days = Math.floor((Date.now() - Date.parse(released)) / 86400000);
  if (days < 1) return WORDS.serverVersionToday(version);
  return WORDS.serverVersion(version, days);
}

/** Minutes or hours ago within 20 hours, else the date. */
function formatAge(time) {
  const then = new Date(`${time}Z`);
  const minutes = Math.floor((Date.now() - then.getTime()) / 60000);
  if (minutes < 1) return WORDS.now;
  if (minutes < 60) return WORDS.minutesAgo(minutes);
  if (minutes < 20 * 60) return WORDS.hoursAgo(Math.floor(minutes / 60));
  return then.toLocaleDateString(LOCALE, {dateStyle: "medium"});
}

/** The time of today, else the date too. */
function formatClock(time) {
  const then = new Date(`${time}Z`);
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday
    ? then.toLocaleTimeString(LOCALE, {timeStyle: "short"})
    : formatTime(time);
}

function formatTime(time) {
  return new Date(`${time}Z`).toLocaleString(LOCALE, {
    dateStyle: "medium",
    timeStyle: "short",
  });
}

// Calls to the server

const MAX_ANSWER_MS = 10000; // until an answer begins
const MAX_BODY_MS = 120000; // until it has arrived: the list over a slow network
const MAX_FILE_MS = 3600000; // until a backup has, which may be large

/** Why a call failed, in words for people, and what the server has answered, if it has.
 * Where it has not, it may have done what it was asked for, or not. */
class Problem extends Error {
  constructor(message, status = 0, answer = /** @type {any} */ (null)) {
    super(message);
    Object.assign(this, {status, answer});
    this.isUnanswered = !answer;
    // What may go well later: not what a full disk or, for its length, a proxy refuses.
    this.isPassing = answer
      ? status === 408 || (status >= 500 && status !== 507)
      : status !== 413;
  }
}

/** Return the JSON of the answer. Throws a Problem. */
async function call(method, path, body) {
  const {data} = await request(method, path, body);
  return data;
}

/** Return the JSON or "blob" of an answer, null if it has that ETag, and its headers,
 * or throw a Problem. Of an account that is gone meanwhile, nothing comes.
 * @param {any} [body] a Blob, or what becomes JSON
 * @param {{
 *   as?: "json" | "blob", headers?: Record<string, string>, signal?: AbortSignal,
 *   limit?: number,
 * }} [how] with what ends the call, and milliseconds until an answer begins */
async function request(method, path, body, how = {}) {
  const {as = "json", headers, signal, limit = MAX_ANSWER_MS} = how;
  const isBlob = body instanceof Blob;
  const type = isBlob ? "application/octet-stream" : "application/json";
  const options = {
    method,
    headers: {...(body && {"Content-Type": type}), ...headers},
    body: isBlob || !body ? body : JSON.stringify(body),
  };
  const ender = new AbortController();
  signal?.addEventListener("abort", () => ender.abort());
  const ask = () => fetch(path, {...options, signal: ender.signal});
  const response = await within(limit, ender, ask);
  const kind = response.ok ? as : "json";
  // A response without JSON comes from a proxy in front of a server that is down.
  const read = () => (response.status === 304 ? null : response[kind]());
  const most = kind === "blob" ? MAX_FILE_MS : MAX_BODY_MS;
  const data = await within(most, ender, read, response.status);
  setConnected(true);
  if (data?.error === "signed_out" && state.phase === "in" && !isLeaving) {
    await findSession();
    return request(method, path, body, how);
  }
  if (data && !response.ok) throw new Problem(sentence(data), response.status, data);
  return {data, headers: response.headers};
}

/** Do a step of a call, and end it after so many milliseconds.
 * @param {AbortController} ender */
async function within(milliseconds, ender, step, status = 0) {
  const {account} = state;
  let isLate = false;
  const timer = setTimeout(() => ((isLate = true), ender.abort()), milliseconds);
  try {
    return await step();
  } catch {
    if (isLate || !ender.signal.aborted) setConnected(false);
    throw new Problem(WORDS.unreachable, status);
  } finally {
    clearTimeout(timer);
    if (account !== state.account) await never();
  }
}

/** What a call waits for, so that nothing comes of it, once the account is gone. */
function never() {
  return new Promise(() => {});
}

const NEXT_SESSION_MS = 1000; // in which the cookie comes of one that has just begun

/** Go on where another tab has begun a session of the same account. Else show the page
 * to whoever has one, or ask who it is: nothing comes of the call. */
async function findSession() {
  let {account} = await call("GET", "web/me");
  if (!account) {
    await new Promise(done => setTimeout(done, NEXT_SESSION_MS));
    ({account} = await call("GET", "web/me"));
  }
  if (account && !isOther(account)) return;
  if (account) beginAnew();
  else lock();
  await never();
}

/** Make a call again, after longer and longer pauses, until the server has answered it.
 * @param {() => Promise<any>} work
 * @param {(problem: Problem) => any} [goesOn] whether to try again
 * @param {AbortSignal} [signal] that ends a pause */
async function persist(work, goesOn = () => true, signal = undefined) {
  for (let pause = RETRY_PAUSE; ; pause = Math.min(2 * pause, MAX_RETRY_PAUSE)) {
    try {
      return await work();
    } catch (/** @type {any} */ error) {
      if (!error.isPassing || !goesOn(error)) throw error;
    }
    await new Promise(done => {
      setTimeout(done, pause);
      addEventListener("reconnect", done, {once: true});
      signal?.addEventListener("abort", done);
    });
  }
}

/** Have the browser save the file that a POST is answered with. */
async function saveFile(path, body) {
  const {data, headers} = await request("POST", path, body, {as: "blob"});
  const link = document.createElement("a");
  const name = headers.get("Content-Disposition").match(/filename="(.+?)"/);
  link.href = URL.createObjectURL(data);
  link.download = name[1];
  link.click();
  setTimeout(URL.revokeObjectURL, 60000, link.href); // once the browser has read it
}

/** A size ("1.5 GB") or time ("2026-11-28 04:28 UTC") of the server as others are. */
function inWords(text = "") {
  const [, size, unit] = text.match(/^([\d.]+) ([kMGT]?B)$/) || [];
  const [, day, time] = text.match(/^(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC$/) || [];
  if (day) return formatTime(`${day}T${time}`);
  const power = Object.keys(WORDS.units).indexOf(unit);
  return unit ? formatBytes(Number(size) * 1000 ** power) : text;
}

/** A sentence of the server, in our words, as are others, sizes and times in it.
 * @returns {string} */
function sentence(/** @type {Sentence} */ {reason = "", arguments: of = {}, message}) {
  const text = WORDS.problems[reason];
  if (!text) return inWords(message);
  const part = it =>
    sentence(typeof it === "string" ? {message: it} : {...it, reason: it.code});
  const parts = Object.entries(of).map(([name, it]) => [name, part(it)]);
  return filled(text, Object.fromEntries(parts));
}

function setConnected(connected) {
  if (connected === state.connected) return;
  update({connected, brokenIcons: new Set()});
  if (!connected) return;
  dispatchEvent(new Event("reconnect"));
  pollAll();
}

/** Do what somebody asked for; a Problem becomes a toast. */
async function attempt(work) {
  try {
    await work();
  } catch (error) {
    toast(explain(error), true);
  }
}

/** The text of a Problem. Any other error is a mistake in this script. */
function explain(error) {
  if (error instanceof Problem) return error.message;
  console.error(error);
  return WORDS.failed;
}

// Loading: what changes by itself is polled in one call. What that call tells to have
// changed is loaded then, and what could not be loaded before. When the page becomes
// visible or the server is back, it is polled at once, and what the shown tab of the
// settings has is loaded again.

const IN_CHANGES = ["devices", "queue", "scan"]; // told by the call that is polled
/** What is done with an answer, where it is not kept under its own name.
 * @type {Record<string, (answer: any) => any>} */
const TAKES = {
  changes: takeChanges,
  entries: takeEntries,
  ages: ({ages, former}) => update({ages, former}),
  uploads: ({uploads}) => update({unfinished: uploads}),
};
const RETRY_PAUSE = 1500; // milliseconds until the server is tried again, at first
const MAX_RETRY_PAUSE = 24000;
const BUSY_PAUSE = 2200; // between polls while something is sent or scanned
const ADDING_PAUSE = 1000; // while somebody watches a device connect
const REST_PAUSE = 5500;
let timer = 0; // of the next poll
/** @type {Record<string, Promise<void>>} */
const polls = {}; // the last of each name

/** Load what the server tells under this name. */
function poll(name) {
  const source = IN_CHANGES.includes(name) ? "changes" : name;
  const later = () => (polls[source] === loaded ? undefined : polls[source]);
  const loaded = load(source, later);
  polls[source] = loaded;
  return loaded;
}

/** Take what a path answers. Why that failed is kept until it is loaded. An answer that
 * a later call has overtaken is dropped: whoever waits for it waits for that call.
 * @param {() => Promise<void> | undefined} later that call, if there is one */
async function load(name, later) {
  if (state.phase !== "in" || (name === "uploads" && !state.account.inbox)) return;
  let problem = "";
  try {
    const path = `web/${name}`;
    const answer = await (name === "changes" ? askForChanges() : call("GET", path));
    const keep = () => update({[name]: answer[name] || answer});
    if (!later()) await (TAKES[name] || keep)(answer);
  } catch (error) {
    problem = explain(error);
  }
  if (later()) return later();
  if (problem !== (state.problems[name] || ""))
    update({problems: {...state.problems, [name]: problem}});
  if (name !== "changes") return;
  schedule();
  const isStale = state.view === "settings" && state.settings.tab === "people";
  if (isStale && !problem) loadsOf("people").forEach(poll); // which nobody tells
}

function schedule() {
  clearTimeout(timer);
  if (document.hidden) return;
  const isBusy = currentItem() || state.scan.scanning;
  let pause = isBusy ? BUSY_PAUSE : REST_PAUSE;
  if (state.adding) pause = ADDING_PAUSE;
  timer = setTimeout(poll, state.connected ? pause : RETRY_PAUSE, "changes");
}

function pollAll() {
  if (state.phase !== "in") return;
  const shown = state.view === "settings" ? loadsOf(state.settings.tab) : [];
  for (const name of new Set(["changes", "uploads", ...shown])) poll(name);
}

function askForChanges() {
  const shown = state.queue.finishedShown;
  const watched = state.adding?.device ? `&watch=${state.adding.device}` : "";
  const path = `web/changes?finished=${shown}${watched}`;
  const tag = state.changesTag;
  return request("GET", path, null, tag ? {headers: {"If-None-Match": tag}} : {});
}

/** Take the parts of the queue, the devices, the scan and what was sent that have
 * changed. Load the entries and ages where they have, and what could not be loaded. */
async function takeChanges({data, headers}) {
  const {problems, items: before, scan: lastScan} = state;
  const toLoad = new Set();
  if (data) {
    if (isOther(data.account)) return beginAnew();
    const {devices, sent, scan} = {...state, ...data};
    for (const item of data.queue?.items || []) item.name = entryName(item.name);
    const told = {changesTag: headers.get("ETag"), toldAt: performance.now()};
    update({...told, devices, sent, scan, ...data.queue});
    forgetUndos();
    if (before && data.queue) announceChanges(before, data.queue.items);
    if ("ages" in data) toLoad.add("ages");
    const hasScanned = lastScan.scanning && !scan.scanning;
    if ("entries" in data || hasScanned) toLoad.add("entries");
  }
  for (const name of Object.keys(problems)) // for which nobody waits
    if (problems[name] && name !== "changes" && !toLoad.has(name)) poll(name);
  await Promise.all([...toLoad].map(poll));
  if (state.adding?.pairing && !state.adding.pairing.device) await loadPairing("GET");
}

/** Whether another tab has signed in to another account, or this one has other rights.
 * @param {Account} [account] that the server has told */
function isOther(account) {
  const own = state.account;
  return account && ["name", "admin", "age"].some(key => account[key] !== own[key]);
}

function beginAnew() {
  leave();
  update({phase: "starting"});
  return start();
}

function takeEntries({entries}) {
  const isFirst = !state.entries;
  for (const entry of entries) entry.name = entryName(entry.name);
  update({entries});
  loadDescription();
  if (isFirst && state.view === "library") scrollBack();
}

// Signing in and out

async function start() {
  const me = await persist(() => call("GET", "web/me"));
  await speakBest(me.languages);
  update({hasClient: me.client});
  if (!me.needs_setup) sessionStorage.removeItem("setupCode");
  Object.assign(KNOWN, me.known);
  if (me.account) enter(me.account);
  else update({phase: me.needs_setup ? "setup" : "sign-in"});
  loadInvitation();
}

function enter(account) {
  if (state.account.name !== account.name) leave();
  update({phase: "in", account, problem: NO_PROBLEM});
  if (state.view === "settings") openTab();
  pollAll();
  runUploads();
}

/** Forget the account and all that was loaded for it. */
function leave() {
  if (state.account === NOBODY) return;
  sessionStorage.clear();
  for (const form of document.forms) emptyForm(form);
  document.getElementById("drafts")?.replaceChildren();
  scrolled.library = 0;
  update({...initialState(), hasClient: state.hasClient, phase: "sign-in"});
  readLocation();
}

/** Ask who it is where a session has ended. What was typed and where is kept for the
 * same account; what calls of the session answer, and what waits for that, is not. */
function lock() {
  closeQuestion();
  for (const upload of state.uploads)
    if (upload.status === "running") upload.status = "waiting";
  update({phase: "sign-in", account: {...state.account}, problem: NO_PROBLEM});
  update({busy: new Set(), queueing: new Set()});
  toast(WORDS.signedOut);
}

async function signOut() {
  await endSession("web/logout");
  history.replaceState(null, "", location.pathname); // the next person begins anew
  readLocation();
}

let isLeaving = false; // while a call that ends the session is under way

/** Make a call that ends the session. Other calls may be told so before it is. */
async function endSession(path, fields) {
  isLeaving = true;
  try {
    await call("POST", path, fields);
    leave();
  } finally {
    isLeaving = false;
    pollAll();
  }
}

function signIn(fields) {
  return enterBy("code" in fields ? "web/setup" : "web/login", fields);
}

/** @param {string} path of a call that signs in */
async function enterBy(path, fields) {
  await call("POST", path, fields);
  closeInvitation();
  await start();
  if (state.phase === "sign-in") throw new Problem(WORDS.failed); // it keeps no cookie
}

// Invitations, as whoever opens their links sees them

/** Keep the token over a reload, and out of the address. */
function openInvitation(token) {
  sessionStorage.setItem("invitation", token);
  update({invitation: token, invited: null, problem: NO_PROBLEM});
}

function closeInvitation() {
  openInvitation("");
}

/** Load what the invitation is for, unless somebody is signed in. */
async function loadInvitation() {
  const {invitation: token, phase} = state;
  if (!token || phase === "in") return;
  const isMeant = () => token === state.invitation;
  const ask = () => call("POST", "web/invitation", {token});
  try {
    const answer = persist(ask, isMeant).finally(() => isMeant() || never());
    update({invited: (await answer).invitation});
  } catch (error) {
    update({problem: {form: "invitation", text: explain(error)}});
  }
}

async function signOutForInvitation() {
  const token = state.invitation;
  await signOut();
  openInvitation(token);
  loadInvitation();
}

// Location: #library, maybe with ?search=TEXT, #queue, #settings/TAB, above these the
// dialogs #filters, #title/ID, #adding and #question, so that Back closes them and the
// page stays, and #setup=CODE, which the server prints, and #invitation=TOKEN

/** The views: WORDS has their names, and GLYPHS what is drawn on their tabs. */
const PAGES = {
  library: {glyph: "library", render: renderLibrary},
  queue: {glyph: "queue", render: renderQueue},
  settings: {glyph: "settings", render: renderSettings},
};
const VIEWS = Object.keys(PAGES);
const scrolled = {library: Number(stored("scrolled"))}; // pixels, by view and tab
/** How each dialog closes, by the word of its address. The last one is on top. */
const DIALOGS = {
  filters: () => closeDialog("filters"),
  title: closeDetails,
  adding: closeAdding,
  question: () => closeQuestion(),
};

function placeInAddress() {
  const [, word = "", rest = ""] = location.hash.match(/^#([a-z]*)[/=?]?(.*)$/) || [];
  return {word, rest};
}

/** Go where the changed address leads: with motion to and from the details of a title,
 * and to another view. */
function follow(/** @type {Event} */ event) {
  const {word, rest} = placeInAddress();
  const {view, details} = state;
  const go = () => readLocation(event);
  const isDialog = word in DIALOGS;
  const id = word === "title" ? rest : isDialog ? details.id : "";
  if (id !== details.id) travel(go, () => coverOf(id || details.id));
  else if (!isDialog && (word || "library") !== view) travel(go, coversOfLanes);
  else go();
}

/** @param {Event} [event] that changed the location, none when the page starts */
function readLocation(event) {
  const {word, rest} = placeInAddress();
  if (word === "setup") {
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem("setupCode", rest); // until there is an account
    update({setupCode: rest});
  } else if (word === "invitation") {
    history.replaceState(null, "", location.pathname);
    openInvitation(rest);
    if (event) loadInvitation();
  } else if (word in DIALOGS) {
    history.replaceState(history.state || {isInPage: Boolean(event)}, "");
    closeAbove(word);
    if (word === "title" && rest !== state.details.id) openTitle(rest);
    if (word !== "title" && !state[word]) leaveDialog(word); // after a reload
  } else show(VIEWS.includes(word) ? word : "library", rest, event);
}

/** Close the dialogs above one, or with "" all.
 * @param {string} word of its address */
function closeAbove(word) {
  const words = Object.keys(DIALOGS);
  const above = words.slice(words.indexOf(word) + 1).filter(isDialogOpen);
  for (const each of above.reverse()) DIALOGS[each]();
}

function isDialogOpen(word) {
  return Boolean(word === "title" ? state.details.id : state[word]);
}

/** @param {string} rest of the address: a tab of the settings, or a search
 * @param {any} [event] that changed it */
function show(view, rest, event) {
  const tab = view === "settings" ? rest : "";
  const place = state.view + state.settings.tab;
  const [, last = ""] = event?.oldURL?.match(/#([a-z]*)/) || [];
  closeAbove("");
  const hasChanged = view + tab !== place;
  if (hasChanged) {
    scrolled[place] = scrollY;
    if (state.view === "library") forgetUploads();
    update({view, visit: {}, openForm: "", problem: NO_PROBLEM});
    change("settings", {tab});
  }
  if (view === "library" && !(last in DIALOGS)) readSearch(rest);
  keepSearch(); // which a dialog may have changed
  if (!hasChanged) return;
  if (view === "settings" && state.phase === "in") {
    openTab();
    pollAll();
  }
  scrollBack();
}

/** Scroll to where the view was left, before anybody sees another place of it. */
function scrollBack() {
  draw(); // which gives it its height
  scrollTo(0, scrolled[state.view + state.settings.tab] || 0);
}

/** Where the address names no tab that the account has, go to the first. */
function openTab() {
  if (!tabs().includes(state.settings.tab)) change("settings", {tab: tabs()[0]});
  history.replaceState(history.state, "", addressOf("settings"));
}

function go(view) {
  location.hash = view;
}

const WHOLE = {search: "", filter: "all", more: ""}; // what shows all titles

/** The address of a view: that of the library has what its titles are narrowed by. */
function addressOf(view) {
  if (view === "settings") return `#settings/${state.settings.tab}`;
  const set = Object.keys(WHOLE).filter(name => state.library[name] !== WHOLE[name]);
  const query = new URLSearchParams(set.map(name => [name, state.library[name]]));
  return view === "library" && set.length ? `#library?${query}` : `#${view}`;
}

/** Take over a search and filters from the address. */
function readSearch(query) {
  const given = Object.fromEntries(new URLSearchParams(query));
  const {search, filter, more} = {...WHOLE, ...given};
  change("library", {search, filter: filter in FILTERS ? filter : "all", more});
}

/** Have the search and the filters in the address: one entry in the history for all of
 * one search, so that Back ends it. */
function keepSearch() {
  const address = addressOf("library");
  const isLibrary = /^(#library.*)?$/.test(location.hash) && state.view === "library";
  if (!isLibrary || address === (location.hash || "#library")) return;
  const isFirst = !location.hash.includes("?") && !history.state?.isSearch;
  if (isFirst) history.pushState({isSearch: true}, "", address);
  else history.replaceState(history.state, "", address);
}

let dialogCount = 0;

/** Open a dialog. The name of its form tells it from the others that were opened.
 * @param {"filters" | "adding" | "question"} name */
function openDialog(name, content = {}) {
  if (!state[name]) history.pushState({isInPage: true}, "", `#${name}`);
  const form = `${name}-${++dialogCount}`;
  update({[name]: {...content, form}, problem: NO_PROBLEM});
}

function closeDialog(name) {
  if (!state[name]) return;
  update({[name]: null});
  leaveDialog(name);
}

/** Leave the entry of a dialog in the history, unless Back has. */
function leaveDialog(word) {
  if (!location.hash.startsWith(`#${word}`)) return;
  if (history.state?.isInPage) history.back();
  else location.replace(addressOf(state.view));
}

/** Close one thing: a form in the details or a list, which keeps its draft, or the
 * selection. The browser closes a dialog by itself. */
function closeOneByEscape(/** @type {KeyboardEvent} */ event) {
  const layer = layerOnTop();
  if (event.key !== "Escape") return;
  const menu = document.querySelector(OPEN_MENU);
  if (menu) return HAS_POPOVERS || hideMenu(menu);
  if (!["page", "details"].includes(layer)) return;
  if (state.openForm) {
    event.preventDefault();
    openForm("");
  } else if (isSelecting() && layer === "page") setSelecting(false);
}

/** Keep the position in the library for a reload, and for Back from another page. */
function keepPosition() {
  if (state.phase !== "in" || !state.entries) return;
  if (state.view === "library") scrolled.library = scrollY;
  sessionStorage.setItem("scrolled", String(scrolled.library));
}

// Titles: the entries of one base id are the parts of one title

const KIND_PLACES = {base: 0, update: 1, "add-on": 2};
const searchWords = memo(words =>
  Object.fromEntries(Object.entries(words).map(([kind, text]) => [kind, fold(text)])),
);

/** Offered parts come first, each group as it is sent: base, newest update, add-ons.
 * A file of another title, too, comes after one of this title alone: see guestsOf. */
function compareParts(/** @type {Entry} */ a, /** @type {Entry} */ b) {
  return (
    Number(Boolean(a.part)) - Number(Boolean(b.part)) ||
    (KIND_PLACES[a.kind] || 0) - (KIND_PLACES[b.kind] || 0) ||
    Number(Boolean(a.isGuest)) - Number(Boolean(b.isGuest)) ||
    compareTexts(a.title_id || "", b.title_id || "") ||
    (b.patch || 0) - (a.patch || 0)
  );
}

const titlesOf = memo((/** @type {Entry[]} */ entries) => {
  const all = entries.flatMap(entry => [entry, ...guestsOf(entry)]);
  const groups = groupBy(all, titleOf);
  return Array.from(groups, ([id, parts]) => makeTitle(id, parts.sort(compareParts)));
});

function titleOf(/** @type {Entry} */ {base_id: base, id}) {
  return base || id;
}

/** What an entry is to its other titles: that of the second game of a cartridge.
 * @returns {Entry[]} */
function guestsOf(/** @type {Entry} */ entry) {
  if (!entry.contents) return [];
  const others = heldBy(entry).filter(({title}) => title !== titleOf(entry));
  const first = (a, b) => KIND_PLACES[b.kind] - KIND_PLACES[a.kind];
  const mains = new Map(others.sort(first).map(content => [content.title, content]));
  return Array.from(mains.values(), ({id, title, kind, number}) => {
    const patch = Math.floor(number / 65536);
    return {...entry, title_id: id, base_id: title, kind, patch, isGuest: true};
  });
}

/** The contents of an entry that have an id of a game.
 * @returns {Content[]} */
function heldBy(/** @type {Entry} */ entry) {
  const {title_id: own, base_id: base, kind, version, contents} = entry;
  const main = {title_id: own || "", kind: kind || null, version: version || ""};
  const all = contents || (own && base ? [main] : []);
  return all.flatMap(({title_id: id, kind: told, version: text}) => {
    const isMain = id === own;
    const part = isMain ? kind : told;
    const title = isMain ? titleOf(entry) : part && baseOf(id, part);
    const number = /^\d+$/.test(text) ? Number(text) : 0;
    return part && title ? [{id, title, kind: part, number}] : [];
  });
}

/** The title id of the game that an update or an add-on is of. */
function baseOf(id, kind) {
  const digit = parseInt(id[12], 16) - (kind === "add-on" ? 1 : 0);
  return `${id.slice(0, 12)}${digit.toString(16).toUpperCase()}000`;
}

/** The contents of a title that are in its part. */
const contentsIn = memoEach((/** @type {Entry} */ part) =>
  heldBy(part).filter(({title}) => title === titleOf(part)),
);

/** @returns {Title} */
function makeTitle(id, /** @type {Entry[]} */ parts) {
  const name = titleName(parts);
  const words = wordsOf(name);
  const times = parts.map(part => part.file_time || part.created_at).sort();
  return {
    id,
    name,
    kind: titleKind(parts[0]),
    parts,
    size: totalSize(fewest(parts.filter(isCurrent))),
    created_at: times.at(-1) || "",
    // Digits come before letters, and those before symbols.
    sortKey: (/^[\p{L}\p{N}]/u.test(words) ? "" : "\uffff") + words,
    plainName: fold(name),
    searchText: parts.map(searchTextOf).join("\n"),
    facets: ` ${[...new Set(parts.map(facetsOf))].join(" ")} `,
  };
}

function titleKind(/** @type {Entry} */ main) {
  if (main.kind === "homebrew") return "homebrew";
  return main.type === "url" && !main.kind ? "link" : "game";
}

/** The base's name, else the most common beginning of the parts' names. */
function titleName(/** @type {Entry[]} */ parts) {
  const bases = parts.filter(part => part.kind === "base");
  const main = bases[0] || parts[0];
  if (needsBase(main)) return commonBeginning(parts);
  return bases.length > 1 ? withoutEnding(main.name) : main.name;
}

/** Return a name without the file type or name by which the server tells it apart. */
function withoutEnding(name) {
  return name.replace(/ \((([^()]|\([^()]*\))*\.)?(ns[pz]|xc[iz]|nro)\)$/i, "");
}

function needsBase(/** @type {Entry} */ {kind}) {
  return kind === "update" || kind === "add-on";
}

/** Of equally common beginnings, the longest. They end before a " - " if there is one.
 * @param {Entry[]} parts */
function commonBeginning(parts) {
  const counts = new Map();
  for (const {name} of parts) {
    const words = name.split(" - ");
    for (let length = Math.max(1, words.length - 1); length > 0; length--) {
      const beginning = words.slice(0, length).join(" - ");
      counts.set(beginning, (counts.get(beginning) || 0) + 1);
    }
  }
  const rank = name => counts.get(name) * 1e6 + name.length;
  return [...counts.keys()].reduce((a, b) => (rank(b) > rank(a) ? b : a));
}

function searchTextOf(/** @type {Entry} */ {name, author = "", title_id: title = ""}) {
  const texts = SPELLINGS.length ? [name, spellOut(name), author] : [name, author];
  const words = texts.map(fold).join(" ");
  return `${words} ${numerals(words)} ${title.toLowerCase()}`;
}

const ROMAN = ["ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"]; // from two on

/** The numbers in a text in the other numerals: "2" for "ii", and "ii" for "2". */
function numerals(text) {
  const other = word =>
    /^[2-9]$/.test(word) ? ROMAN[Number(word) - 2] : 2 + ROMAN.indexOf(word);
  const others = text.split(" ").map(other);
  return others.filter(number => number !== 1).join(" ");
}

/** Words that are found whole only: the letters "add" should not find all add-ons.
 * @param {Entry} part */
function facetsOf({kind, type, state: place, file_type: fileType = ""}) {
  const others = [type === "url" && "link", place === "offline" && place];
  const words = searchWords(WORDS.searchWords);
  const said = [kind, ...others].map(each => each && words[each]);
  return [fileType, ...others, ...said].filter(Boolean).join(" ");
}

const titlesById = memo(titles => {
  const byId = new Map();
  for (const title of titles) {
    for (const part of title.parts)
      if (!part.isGuest || !byId.has(part.id)) byId.set(part.id, title);
    byId.set(title.id, title);
  }
  return byId;
});

/** @returns {Title[]} */
function allTitles() {
  return titlesOf(state.entries || NOTHING);
}

/** @returns {Title | undefined} of this id, or with a part of this id */
function findTitle(id) {
  return titlesById(allTitles()).get(id);
}

// Titles: their status, for the device that Send queues for

/** @typedef {Status | "queueing" | ""} PartStatus as the library shows it */
/** @typedef {Map<string, Delivery>} Sent by its keys, see `deliveriesTo` */
/** @typedef {{
 *   sent: Sent, items: Map<string, QueueItem>, queueing: Set<string>,
 * }} Known of entries, by id: what was sent (see `deliveriesTo`), the item in the queue
 * and whether a call to send it is not answered yet */
/** @typedef {{
 *   status: PartStatus, ofParts: Map<string, PartStatus>, toSend: Entry[],
 *   away: "" | "partly" | "offline", isSent: boolean, hasNewer: boolean,
 * }} TitleStatus the status of its parts that matters most, where "completed" is that
 * of all offered ones; that of each part, by its id; what Send would send; whether
 * offered parts are on a disk that is away; whether any part was sent, or listed by the
 * console, in any version; and whether the library has a newer base or update than was
 * sent */

/** @type {PartStatus[]} */
const FIRST_STATUSES = ["processing", "queueing", "offered", "pending", "failed"];
/** @type {Omit<TitleStatus, "away" | "toSend">} */
const UNSENT = {status: "", ofParts: new Map(), isSent: false, hasNewer: false};

/** Whether anything is known of a part, or of what is in it: of most, nothing is. */
function isTold(
  /** @type {Entry} */ part,
  /** @type {Known} */ {sent, items, queueing},
) {
  const ids = [part.id, ...contentsIn(part).map(({id}) => id)];
  return ids.some(id => sent.has(id) || items.has(id) || queueing.has(id));
}

/** @returns {TitleStatus} */
function workOutStatus(/** @type {Title} */ {parts}, /** @type {Known} */ known) {
  const offered = parts.filter(isCurrent);
  const here = offered.filter(part => part.state === "here");
  const away = here.length === offered.length ? "" : here.length ? "partly" : "offline";
  if (!parts.some(part => isTold(part, known)))
    return {...UNSENT, away, toSend: fewest(here)};
  const ofParts = new Map(parts.map(part => [part.id, statusOfPart(part, known)]));
  const isSent = key => Boolean(deliveryFor(key, known.sent));
  const unsent = fewest(here, isSent);
  const found = new Set(ofParts.values());
  const needed = fewest(offered);
  const isComplete =
    needed.every(part => ofParts.get(part.id) === "completed") ||
    (needed.some(part => part.contents) && !fewest(offered, isSent).length);
  const first = FIRST_STATUSES.find(status => found.has(status));
  return {
    status: first || (isComplete ? "completed" : ""),
    ofParts,
    toSend: unsent.length ? unsent : fewest(here),
    away,
    isSent: parts.some(({id}) => known.sent.has(id)) || isListed(parts, known.sent),
    hasNewer: hasNewer(parts, known.sent),
  };
}

/** @param {Entry} part
 * @param {Known} known
 * @returns {PartStatus} */
function statusOfPart(part, {sent, items, queueing}) {
  const item = items.get(part.id);
  if (item && isOpen(item)) return item.status;
  if (queueing.has(part.id)) return "queueing";
  if (item?.status === "failed") return "failed";
  const listedAt = sent.get("")?.sent_at || "";
  const isGone = contentsIn(part).length > 0 && (item?.ended_at || "") < listedAt;
  const isSent = item?.status === "completed" && !isGone;
  return deliveryOf(part, sent) || isSent ? "completed" : "";
}

/** Whether the library has a newer base or update than was sent. */
function hasNewer(/** @type {Entry[]} */ parts, /** @type {Sent} */ sent) {
  const levels = parts.flatMap(part => [
    ...(sent.has(part.id) && !contentsIn(part).length ? levelsIn(part) : []),
    ...contentsIn(part)
      .filter(({id, kind}) => kind !== "add-on" && sent.has(id))
      .map(({id}) => numberSent(id, sent)),
  ]);
  const latest = levels.length ? Math.max(...levels) : Infinity;
  return parts.some(
    part =>
      !part.part &&
      part.kind !== "add-on" &&
      !deliveryOf(part, sent) &&
      (sent.has(part.id) || Math.max(...levelsIn(part)) > latest),
  );
}

/** The numbers of the versions of the game and of its updates that are in a part. */
function levelsIn(/** @type {Entry} */ part) {
  const contents = contentsIn(part).filter(({kind}) => kind !== "add-on");
  if (!contents.length) return [(part.patch || 0) * 65536];
  return contents.map(({number}) => number);
}

/** The number of the newest content with an id that was sent. */
function numberSent(id, /** @type {Sent} */ sent) {
  const delivery = sent.get(id);
  const pairs = delivery ? delivery.contents : [];
  return Math.max(-1, ...pairs.filter(pair => pair[0] === id).map(pair => pair[1]));
}

/** What sending a part brings to a device, as keys of what was sent: its contents, or
 * the file itself where they are not known. */
const broughtBy = memoEach((/** @type {Entry} */ part) => {
  const keys = contentsIn(part).map(({id, number}) => versionKey(id, String(number)));
  const isKnown = keys.length && !part.more;
  return isKnown ? keys : [...keys, versionKey(part.id, part.version)];
});

/** What a device needs of these parts: the newest of each content, of the update only
 * what is newer than the game, and files whose contents are not known. */
function neededOf(/** @type {Entry[]} */ parts) {
  const newest = new Map();
  for (const {id, kind, number} of parts.flatMap(contentsIn))
    if (number >= (newest.has(id) ? newest.get(id).number : 0))
      newest.set(id, {kind, number});
  const bases = [...newest.values()].filter(({kind}) => kind === "base");
  const least = Math.max(-1, ...bases.map(({number}) => number));
  const keys = [...newest]
    .filter(([, {kind, number}]) => kind !== "update" || number >= least)
    .map(([id, {number}]) => versionKey(id, String(number)));
  const own = parts.flatMap(part => broughtBy(part).slice(contentsIn(part).length));
  return [...keys, ...own];
}

const MAX_PACKS = 8; // of several contents, of which all choices are compared

/** The parts that bring what a device needs in the fewest bytes, and then files.
 * @param {Entry[]} parts
 * @param {(key: string) => boolean} [isSent] what it has, nothing without */
function fewest(parts, isSent) {
  const isMissing = key => !isSent || !isSent(key);
  if (!parts.some(part => part.contents))
    return isSent ? parts.filter(part => broughtBy(part).some(isMissing)) : parts;
  const needed = neededOf(parts).filter(isMissing);
  const isNeeded = key => needed.includes(key);
  const useful = parts.filter(part => broughtBy(part).some(isNeeded));
  const worth = part => broughtBy(part).filter(isNeeded).length;
  const packs = useful
    .filter(part => part.contents)
    .sort((a, b) => worth(b) - worth(a))
    .slice(0, MAX_PACKS);
  let best = useful;
  for (let choice = 0; choice < 2 ** packs.length; choice++) {
    const chosen = packs.filter((_, index) => (choice >> index) & 1);
    const all = completed(chosen, useful, needed, packs);
    if (all && compareCosts(all, best) < 0) best = all;
  }
  return parts.filter(part => best.includes(part));
}

/** Packs, with the smallest other part for each key that they do not bring. Undefined
 * where there is none.
 * @param {Entry[]} chosen
 * @param {Entry[]} parts
 * @param {string[]} needed
 * @param {Entry[]} packs */
function completed(chosen, parts, needed, packs) {
  const all = new Set(chosen);
  const brought = new Set(chosen.flatMap(broughtBy));
  const singles = parts
    .filter(part => !packs.includes(part))
    .sort((a, b) => a.size - b.size);
  for (const key of needed) {
    if (brought.has(key)) continue;
    const part = singles.find(single => broughtBy(single).includes(key));
    if (!part) return undefined;
    all.add(part);
    broughtBy(part).forEach(other => brought.add(other));
  }
  return [...all];
}

function compareCosts(/** @type {Entry[]} */ a, /** @type {Entry[]} */ b) {
  return totalSize(a) - totalSize(b) || a.length - b.length;
}

/** Whether no other part replaces it. */
function isCurrent(/** @type {Entry} */ part) {
  return !part.part;
}

/** How a content, or a later version of it, was sent, or undefined. */
function deliveryFor(key, /** @type {Sent} */ sent) {
  const [id, number] = key.split(" ");
  if (!sent.has(id)) return undefined;
  const isLater = Number(number) > 0 && Number(number) < numberSent(id, sent);
  return sent.get(isLater ? id : key);
}

/** How this version of a part was sent, or undefined. */
function deliveryOf(/** @type {Entry} */ part, /** @type {Sent} */ sent) {
  const find = isCurrent(part) ? deliveryFor : key => sent.get(key);
  const deliveries = broughtBy(part).map(key => find(key, sent));
  return deliveries.every(Boolean) ? deliveries[0] : undefined;
}

function versionKey(id, version = "") {
  return `${id} ${version}`;
}

/** What was sent to a device, or by the account, by the entry's id, by that of each
 * content (the newest), and by the `versionKey` of both. Of contents, the last list of
 * the console counts, and what was sent after it. */
const deliveriesTo = memo((/** @type {Delivery[]} */ deliveries, device) => {
  const listed = deliveries.find(each => each.is_listed && each.device === device);
  const sent = new Map(listed && [["", listed]]);
  const isOver = ({contents, sent_at: time}) =>
    listed && contents.length > 0 && time < listed.sent_at;
  const isMeant = each => !device || [device, null].includes(each.device);
  const all = deliveries.filter(each => isMeant(each) && !isOver(each));
  for (const delivery of all.flatMap(singly)) {
    const {entry, version, contents} = delivery;
    sent.set(entry, delivery).set(versionKey(entry, version), delivery);
    for (const [id, number] of contents) {
      sent.set(versionKey(id, String(number)), delivery);
      if (numberSent(id, sent) <= number) sent.set(id, delivery);
    }
  }
  return sent;
});

/** What a console has listed, as one delivery for each content: they are many. */
function singly(/** @type {Delivery} */ delivery) {
  if (!delivery.is_listed) return delivery;
  return delivery.contents.map(pair => ({...delivery, contents: [pair]}));
}

/** The queue item of each entry, of the account's for this device, or for any: the open
 * one, or else the last. */
const itemsByEntry = memo((/** @type {QueueItem[]} */ items, device) => {
  const isMeant = item => item.is_own && [null, device].includes(item.device);
  const own = items.filter(isMeant);
  const ordered = [...own.filter(item => !isOpen(item)), ...own.filter(isOpen)];
  return new Map(ordered.map(item => [item.entry, item]));
});

/** With a place for the status of each title, which is worked out once. */
const knownOf = memo((sent, items, queueing) => {
  const statuses = /** @type {Map<Title, TitleStatus>} */ (new Map());
  return {sent, items, queueing, statuses};
});

function sentNow() {
  return deliveriesTo(state.sent, chosenDevice());
}

/** Whether the last list of a console has any of these parts. */
function isListed(/** @type {Entry[]} */ parts, /** @type {Sent} */ sent) {
  return parts.flatMap(contentsIn).some(({id}) => sent.get(id)?.is_listed);
}

/** The name of the console that Send is for, if it lists its titles. */
function listingConsole() {
  const device = sentNow().has("") && deviceOf(chosenDevice());
  return device && deviceName(device);
}

/** @returns {TitleStatus} */
function statusOf(/** @type {Title} */ title) {
  const items = itemsByEntry(state.items || NOTHING, chosenDevice());
  const known = knownOf(sentNow(), items, state.queueing);
  const status = known.statuses.get(title) || workOutStatus(title, known);
  known.statuses.set(title, status);
  return status;
}

function isOngoing(status) {
  return ["queueing", "pending", "offered", "processing"].includes(status);
}

function totalSize(/** @type {{size: number}[]} */ sized) {
  return sized.reduce((sum, {size}) => sum + size, 0);
}

// Library: which titles are shown, in which order

const LETTERS = {ø: "o", ł: "l", đ: "d", ß: "ss", æ: "ae", œ: "oe", ı: "i"};

/** Letters that a language may write as two, as German does with "ö" and "oe". */
function spellingsOf(language) {
  const options = {usage: "search", sensitivity: "base"};
  const {compare} = new Intl.Collator(language, /** @type {any} */ (options));
  const spellings = Object.entries({ä: "ae", ö: "oe", ü: "ue", å: "aa"});
  return spellings.filter(([letter, pair]) => compare(letter, pair) === 0);
}

function spellOut(text) {
  const spell = (all, [letter, pair]) => all.replaceAll(letter, pair);
  return SPELLINGS.reduce(spell, text.toLowerCase());
}

/** Return the words of a text without punctuation. */
function wordsOf(text) {
  return text
    .replace(/['’\u200c\u200d]/g, "")
    .replace(/&/g, " and ")
    .replace(/[^\p{L}\p{N}\p{M}][^\p{L}\p{N}]*/gu, " ")
    .trim();
}

/** Return the words of a text to search in, without case, accents and kinds of kana. */
function fold(text) {
  const plain = wordsOf(text).toLowerCase();
  if (!/[\u0080-\uffff]/.test(plain)) return plain;
  return plain
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .replace(/[øłđßæœı]/g, letter => LETTERS[letter])
    .normalize("NFC") // the voicing of kana is a part of the letter
    .replace(/[ァ-ヶ]/g, kana => String.fromCharCode(kana.charCodeAt(0) - 0x60));
}

function compareTexts(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

const COMPARE = {
  name: (a, b) => COLLATOR.compare(a.sortKey, b.sortKey),
  newest: (a, b) => compareTexts(b.created_at, a.created_at),
  size: (a, b) => b.size - a.size,
};

/** @type {Record<string, (title: Title) => boolean>} */
const FILTERS = {
  all: () => true,
  unsent: title => !statusOf(title).isSent,
  recent: title => title.created_at > recentSince(allTitles()),
  updates: title => statusOf(title).hasNewer,
};
/** How many titles of a search each filter shows. No filter depends on the queue. */
const countTitles = memo((/** @type {Title[]} */ titles) =>
  Object.entries(FILTERS).map(([filter, shows]) => ({
    filter,
    count: titles.filter(shows).length,
  })),
);

/** The kinds of titles, file types and ages that some titles have, but not all. */
const furtherFilters = memo(titles => {
  const types = titles.flatMap(({parts}) => parts.map(part => part.file_type || ""));
  const ages = state.account.admin ? Object.keys(WORDS.ages) : [];
  const all = [...Object.keys(WORDS.onlyOf), ...[...new Set(types)].sort(), ...ages];
  return all.filter(
    more => new Set(titles.map(title => isShown(title, more))).size > 1,
  );
});

function isShown(/** @type {Title} */ {id, kind, facets}, more) {
  return !more || [kind, ageOf(id)].includes(more) || facets.includes(` ${more} `);
}

const sorted = memo((titles, sort) => [...titles].sort(COMPARE[sort]));

function hasWord(/** @type {Title} */ {searchText, facets, plainName}, word) {
  return (
    searchText.includes(word) ||
    facets.includes(` ${word} `) ||
    plainName.replaceAll(" ", "").includes(word)
  );
}

/** Whether a word begins with a text in which a letter is wrong, missing, too many, or
 * swapped with the next one. */
function beginsNearly(word, text) {
  let at = 0;
  while (at < text.length && word[at] === text[at]) at++;
  const [rest, from, swapped] = [text.slice(at + 1), word.slice(at), text[at + 1]];
  return (
    from.slice(1).startsWith(rest) ||
    from.slice(1).startsWith(text.slice(at)) ||
    from.startsWith(rest) ||
    from.startsWith(swapped + text[at] + rest.slice(1))
  );
}

const MIN_NEAR_LETTERS = 5; // of a word of a search that may have a wrong one

/** Whether a title has a word, or one that is nearly so. */
function hasWordNearly(/** @type {Title} */ title, word) {
  const isNear = each => beginsNearly(each, word);
  const isLong = word.length >= MIN_NEAR_LETTERS;
  return hasWord(title, word) || (isLong && title.plainName.split(" ").some(isNear));
}

/** The titles that match: first those whose names begin with the search, and last those
 * that have a word of it but for one letter. */
const matching = memo((/** @type {Title[]} */ titles, search, more) => {
  const query = fold(search);
  const words = query.split(" ").filter(Boolean);
  const rankOf = title => {
    if (!query) return title.name.includes(search.trim()) ? 0 : -1;
    if (words.every(word => hasWord(title, word)))
      return title.plainName.startsWith(query) ? 0 : 1;
    return words.every(word => hasWordNearly(title, word)) ? 2 : -1;
  };
  const ranks = /** @type {Title[][]} */ ([[], [], []]);
  for (const title of titles)
    if (isShown(title, more)) ranks[rankOf(title)]?.push(title);
  return ranks.flat();
});

/** @returns {Title[]} */
function searchedTitles() {
  const {search, more} = state.library;
  return matching(sorted(allTitles(), state.kept.sort), search, more, state.ages);
}

/** @returns {Title[]} */
function visibleTitles() {
  return filtered(searchedTitles(), state.library.filter, sentNow());
}

const filtered = memo((titles, filter) => titles.filter(FILTERS[filter]));

// Titles in words

/** Version or patch of a part. A package's own version, such as 65536, says nothing. */
function versionText(/** @type {Entry} */ {version = "", patch, kind}) {
  if (patch === undefined || !/^\d+$/.test(version))
    return /^\d/.test(version) ? `v${version}` : version;
  return patch && kind === "base" ? WORDS.baseVersion(String(patch)) : "";
}

/** What a title consists of beside its base, or else the version of that, as facts. */
function contentsOf(/** @type {Title} */ {parts}) {
  const offered = parts.filter(isCurrent);
  const updates = offered.flatMap(part => [
    ...(part.kind === "update" ? [part.patch || 0] : []),
    ...contentsIn(part)
      .filter(({kind}) => kind === "update")
      .map(({number}) => Math.floor(number / 65536)),
  ]);
  const addOns = countKinds(offered)["add-on"];
  const facts = [
    updates.length > 0 && patchText(Math.max(...updates)),
    addOns > 0 && WORDS.addOns(addOns),
  ];
  const isAlone = !facts.some(Boolean);
  return isAlone ? [versionText(parts[0]) || fileTypeOf(parts[0])] : facts;
}

/** What a part is within its title: what its name has beyond that.
 * @param {Title} title
 * @param {Entry} part */
function partLabel({name: title, parts}, {kind, name}) {
  if (kind === "base" && parts.length > 1) return WORDS.kinds.base;
  const short = withoutEnding(name);
  return short.startsWith(`${title} - `) ? short.slice(title.length + 3) : short;
}

function patchText(number) {
  return number ? WORDS.patch(String(number)) : WORDS.kinds.update;
}

function addOnText(number) {
  return number ? WORDS.addOn(String(number)) : WORDS.kinds["add-on"];
}

/** @typedef {Entry | {
 *   type: string, id?: undefined, kind?: undefined, title_id?: undefined,
 *   contents?: undefined, more?: undefined,
 * }} Counted an entry, or a file that is gone */

/** Such as "game, update and 2 add-ons", which one file may have. */
function countParts(/** @type {Counted[]} */ parts) {
  const counts = Object.entries(countKinds(parts));
  const text = LIST.format(counts.map(([kind, count]) => WORDS.counted[kind](count)));
  const isOne = parts.length === 1 && (parts[0].contents || parts[0].more);
  return isOne ? WORDS.inOneFile(text) : text;
}

/** How many contents of each kind are in these parts, each once.
 * @returns {Record<string, number>} */
function countKinds(/** @type {Counted[]} */ parts) {
  const counts = /** @type {Record<string, number>} */ ({});
  const known = new Set();
  const count = (key, kind, number) => {
    if (!known.has(key)) counts[kind] = (counts[kind] || 0) + number;
    known.add(key);
  };
  parts.forEach((part, index) => {
    const own = part.id || index;
    const contents = part.contents ? contentsIn(part) : [];
    for (const {id, kind} of contents) count(id, kind, 1);
    for (const [kind, number] of Object.entries(part.more || {}))
      count(`${own} ${kind}`, kind, number);
    if (!part.contents && !part.more) count(part.title_id || own, kindOf(part), 1);
  });
  return counts;
}

function kindOf(/** @type {{kind?: string, type?: string}} */ {kind, type}) {
  return kind || (type === "url" ? "link" : "file");
}

function fileTypeOf(/** @type {Entry} */ part) {
  return (part.file_type || WORDS.marks.link).toUpperCase();
}

function sizeOf(/** @type {{size: number}} */ {size}) {
  return size ? formatBytes(size) : WORDS.unknownSize;
}

/** @typedef {[isShown: any, name: any, tone?: string]} Mark its name is in WORDS.marks;
 * the tone is "warn", "bad", "strong", "quiet", or else soft */
/** @type {Record<string, string>} */
const TONES = {failed: "bad", cancelled: "quiet"}; // of statuses

/** The mark of a file that is no package, or not all of one. */
function lackOf(/** @type {Entry} */ {format = "", complete}) {
  if (WORDS.noPackages[format]) return "noPackage";
  return complete === false && "incomplete";
}

/** What to know of a title, what matters most first: that one is at its cover.
 * @returns {Mark[]} */
function marksOfTitle(/** @type {Title} */ title) {
  const {status, hasNewer: isNewer} = statusOf(title);
  const lack = title.parts.filter(isCurrent).map(lackOf).find(Boolean);
  const isToldAll = !isChild();
  return [
    [status === "failed", "failed", "bad"],
    [isToldAll && lack, lack, "warn"],
    [isToldAll && isNewer && !isOngoing(status), "newer", "strong"],
    [status === "completed", "completed"],
    [isToldAll && title.kind === "link", "link", "quiet"],
  ];
}

/** @returns {Mark[]} */
function marksOfPart(/** @type {Entry} */ part, /** @type {PartStatus} */ status) {
  return [
    [part.part, part.part, "quiet"],
    [part.state === "offline", "offline", "warn"],
    [lackOf(part), lackOf(part), "warn"],
    [status !== "completed" && status, status, TONES[status]],
  ];
}

// Ages: from which on children see a title. Admins choose them

const EVERYTHING = 99; // the age of an account that sees every title

/** The age of a title, as a key of WORDS.ages. */
function ageOf(id) {
  return String(state.ages?.[id] || "none");
}

/** From which age on children saw an undecided title before, or "". */
function formerAge(/** @type {Title} */ {id}) {
  const {age, replaced} = state.former[id] || {};
  return age ? WORDS.formerAge[replaced ? "replaced" : "seen"](age) : "";
}

async function chooseAge(/** @type {Title[]} */ titles, /** @type {string} */ age) {
  const before = titles.map(({id}) => [id, ageOf(id)]);
  await saveAges(titles.map(({id}) => [id, age]));
  change("library", {selected: new Set(), lastSelected: ""});
  const names = Object.fromEntries(titles.map(({id, name}) => [id, name]));
  const say =
    WORDS.ageSet[age] || ((name, count) => WORDS.ageSet.from(name, age, count));
  tell({kind: `age ${age}`, names, say, undo: () => saveAges(before)});
}

/** @param {string[][]} pairs ids of titles, and their ages */
async function saveAges(pairs) {
  for (const age of new Set(pairs.map(pair => pair[1]))) {
    const titles = pairs.filter(pair => pair[1] === age).map(([id]) => id);
    await call("POST", "web/ages", {titles, age: Number(age) || null});
  }
  await poll("ages");
}

/** A menu that gives titles an age.
 * @param {Title[]} titles
 * @param {string} [value] that all of them have */
function renderAgeMenu(titles, value) {
  const count = titles.length;
  const choose = age => count && chooseAge(titles, age);
  const off = count ? null : "true"; // it keeps the focus, unlike one that is disabled
  const props = {value: value || "", "aria-disabled": off};
  const [label, prompt] = [WORDS.forChildren, !value && WORDS.forChildren];
  return renderSelect(label, prompt, Object.entries(WORDS.ages), choose, props);
}

/** That the child whose device it is does not see all of these titles, or "".
 * @param {(Title | undefined)[]} titles
 * @param {Device} [device] */
function hiddenNote(titles, device) {
  const {name = "", account = "", age = EVERYTHING} = device || {};
  const isHidden = title => title && (state.ages?.[title.id] || EVERYTHING) > age;
  const count = new Set(titles.filter(isHidden)).size;
  if (!state.ages || !count) return "";
  return WORDS.hiddenFrom(name, account, count);
}

// Devices: those that Send queues for

/** The account's devices, then those that others share. An admin sees others too. */
function reachable() {
  return (state.devices || [])
    .filter(device => device.is_own || device.shared)
    .sort((a, b) => Number(b.is_own) - Number(a.is_own));
}

/** The id of the device that Send queues for, or null where there is none: then any
 * client of the account may take the items, or the one that was chosen is gone. */
function chosenDevice() {
  const devices = reachable();
  const {id, account} = state.kept.device;
  if (account !== state.account.name) return devices.length ? devices[0].id : null;
  return devices.some(device => device.id === id) ? id : null;
}

/** Send to a device from now on, and return its id. */
function chooseDevice(id) {
  const place = deviceOf(id);
  const {name: account} = state.account;
  const {id: last, account: chooser} = state.kept.device;
  if (place && (id !== last || account !== chooser))
    remember("device", {id, name: deviceName(place), account});
  return id;
}

/** Return the device to send to, or null without any. Where the chosen one was removed
 * or is no longer shared, ask. Returns undefined where no answer is given.
 * @returns {Promise<string | null | undefined>} */
async function deviceToSendTo() {
  if (!state.devices) await poll("changes");
  if (!state.devices) throw new Problem(state.problems.changes);
  const devices = reachable();
  const chosen = chooseDevice(chosenDevice());
  if (chosen || !devices.length) return chosen;
  const choices = devices.map(device => ({
    yes: WORDS.toDevice(deviceName(device)),
    act: () => chooseDevice(device.id),
  }));
  return ask({
    text: WORDS.deviceGone(state.kept.device.name || WORDS.thatDevice),
    choices,
  });
}

/** @returns {Device | undefined} with this id */
function deviceOf(id) {
  return state.devices?.find(device => device.id === id);
}

/** What a device does, as a word with the tone of its mark, and when what waits for it
 * is sent, "" where nothing keeps it. A `kind` is "paused", "missed", which something
 * waits for, "off", or the state of the device. */
function statusOfDevice(/** @type {Device} */ device) {
  const {state: kind, target, paused_by: by, last_call: last} = device;
  const isConsole = device.by_server; // else it may be a card
  const [when, words] = [WORDS.whenBack, WORDS.deviceStates];
  const name = deviceName(device);
  const waitsForIt = item => isOpen(item) && placeOf(item) === device.id;
  const of = (kind, text, tone, when = "") => ({kind, text, tone, when});
  if (isPaused(device)) {
    const paused = by ? WORDS.pausedBy(by) : WORDS.paused;
    const text = kind === "sending" ? WORDS.pausesAfter : paused;
    return of("paused", text, "warn", when.paused(name));
  }
  if (kind === "idle" && target !== "" && !isTargetReady(target))
    return (state.items || NOTHING).some(waitsForIt)
      ? of("missed", isConsole ? WORDS.noAnswer : words.off, "bad", when.silent(name))
      : of("off", words.off, "quiet", when.silent(name));
  if (kind === "new") return of(kind, words.new, "warn", when.new(name));
  if (kind !== "away") return of(kind, words[kind], "");
  const away = when.away(name, formatClock(last));
  return of(kind, WORDS.lastSeen(formatAge(last)), "quiet", away);
}

/** When what waits for a device is sent, "" where nothing keeps it.
 * @param {Device} [device] */
function whenBack(device) {
  return device ? statusOfDevice(device).when : "";
}

/** With its owner, where that is another account. */
function deviceName({name, account, is_own: isOwn}) {
  return isOwn ? name : WORDS.deviceOf(name, account);
}

/** Such as "to Living room", or "" for one that is gone. */
function toDevice(id) {
  const device = deviceOf(id);
  return device ? WORDS.toDevice(deviceName(device)) : "";
}

function isPaused(/** @type {Device} */ {paused_by: by}) {
  return by !== null;
}

function isTargetReady(target) {
  return /^ready(,|$)/.test(target);
}

function targetText(/** @type {Device} */ device) {
  return sentence({...device, message: device.target});
}

function renderTargetNote(/** @type {Device} */ device) {
  const {kind} = statusOfDevice(device);
  if (isChild()) return false;
  if (kind === "missed") return h.p("error", targetText(device));
  const isTold = kind === "off" || device.reason === "own_disk";
  return isTold && h.p("meta", targetText(device));
}

/** Where Send queues for and how that is: a line, or a menu where there is a choice. */
function renderDeviceMenu() {
  const chosen = chosenDevice();
  const device = deviceOf(chosen);
  const name = device ? deviceName(device) : WORDS.chooseDevice;
  const status = device && statusOfDevice(device);
  const style = `to-device mark ${status ? status.tone : "warn"}`;
  const choices = reachable().map(each => [
    each.id,
    joinFacts([deviceName(each), statusOfDevice(each).text]),
  ]);
  if (!state.devices || (!choices.length && (offersDevice() || isChild())))
    return false;
  if (!choices.length) return addDeviceButton("to-device");
  const text = [
    glyph("device"),
    h.span(null, h.span("to-word", WORDS.sendTo, " "), h.b(null, name)),
    h.span(null, status && status.tone && status.text),
  ];
  if (device && choices.length === 1)
    return h.p({class: `${style} only`, key: "only-device"}, text);
  const prompt = !device && WORDS.chooseDevice;
  const props = {class: null, value: chosen || ""};
  return h.label(
    {class: style, key: "to-device"},
    text,
    renderSelect(WORDS.sendTo, prompt, choices, chooseDevice, props),
  );
}

/** A menu whose first line is no choice.
 * @param {string | false} prompt that line, unless there is a choice already
 * @param {any[][]} choices see renderOption */
function renderSelect(label, prompt, choices, choose, props = {}) {
  return h.select(
    {
      "aria-label": label,
      ...{class: "choose", value: ""},
      onchange: ({target}) => {
        const {value} = target;
        if (prompt) target.value = "";
        return attempt(() => choose(value));
      },
      onkeydown: openMenu,
      ...props,
    },
    prompt && h.option({value: "", selected: true, hidden: true}, prompt),
    choices.map(renderOption),
  );
}

// Library: sending

function askToSend(/** @type {Entry} */ {name, format}) {
  const text = WORDS.noPackageQuestion(name, formatName(format));
  return ask({text, yes: WORDS.send, act: () => true});
}

/** Queue parts, which wait until the server has answered, and return whether all are.
 * @param {Entry[]} parts of so many titles
 * @param {boolean} [anyway] also what the console has already
 * @param {boolean} [isAsked] whether files that are no packages were asked about
 * @returns {Promise<boolean>} */
async function send(parts, name, count = 1, anyway = false, isAsked = false) {
  const other = parts.find(part => lackOf(part) === "noPackage");
  if (other && !isAsked && !(await askToSend(other))) return false;
  const ids = parts.map(part => part.id);
  const device = await deviceToSendTo();
  if (device === undefined) return false;
  let isQueued = false;
  setQueueing(ids, true);
  try {
    const body = {entries: ids, device: device || undefined, anyway};
    const {added, failed, undo} = await call("POST", "web/send", body);
    await poll("changes");
    isQueued = !failed.length;
    if (isQueued) tellSent(added, device, undo);
    else tellNotSent(added, failed, name, count);
  } catch (/** @type {any} */ error) {
    if (error.answer?.reason === "all_on_console") {
      setQueueing(ids, false);
      const act = () => send(parts, name, count, true, true);
      return ask({text: explain(error), yes: WORDS.sendAnyway, act});
    }
    const text = WORDS.notSent(name, explain(error), count);
    toast(error.isUnanswered ? WORDS.perhapsSent(name, count) : text, true);
  }
  setQueueing(ids, false);
  return isQueued;
}

/** Send the parts of a title or, where none is here, say why that is not possible.
 * @param {Entry[]} parts
 * @param {boolean} [anyway] see send */
function sendOrExplain(parts, name, count = 1, anyway = false) {
  if (parts.length) return send(parts, name, count, anyway);
  return toast(WORDS.notSent(name, WORDS.diskAway, count), true);
}

function tellNotSent(added, failed, name, count) {
  const why = sentence(failed[0]);
  const countOf = ids => new Set(ids.map(findTitle)).size;
  const lost = countOf(failed.map(({entry_id: id}) => id));
  const some = WORDS.sentSome(countOf(added), lost, why);
  toast(added.length ? some : WORDS.notSent(name, why, count), true);
}

/** Say that a send went well, and what happens next. It can be undone.
 * @param {string[]} added
 * @param {string | null} device */
function tellSent(added, device, undo) {
  const place = deviceOf(device);
  const titles = added.map(findTitle).filter(title => title !== undefined);
  const queued = name =>
    place ? WORDS.sentPartsTo(name, deviceName(place)) : WORDS.sentParts(name);
  tell({
    kind: `queued ${device}`,
    names: Object.fromEntries(titles.map(title => [title.id, title.name])),
    undo: () => changeQueue("undo", {undo}),
    more: place || isChild() ? [] : [{label: WORDS.addOne, act: addDevice}],
    say: (name, count, ids) => {
      const hidden = hiddenNote(ids.map(findTitle), place);
      return joinSentences(queued(name), whenSent(ids, place), hidden);
    },
  });
}

/** What happens next to titles that were queued.
 * @param {string[]} ids
 * @param {Device} [device] */
function whenSent(ids, device) {
  if (!device) return WORDS.waitsForDevice;
  const isOther = row => row.place === device.id && !ids.includes(row.items[0].title);
  const {length} = openRows().filter(isOther);
  return whenBack(device) || (length > 0 && WORDS.sentAfter(length));
}

function setQueueing(ids, isQueueing) {
  const queueing = new Set(state.queueing);
  for (const id of ids) queueing[isQueueing ? "add" : "delete"](id);
  update({queueing});
}

// Library: selecting

function selectedTitles() {
  return allTitles().filter(title => state.library.selected.has(title.id));
}

function selectedParts() {
  return selectedTitles().flatMap(title => statusOf(title).toSend);
}

async function sendSelected() {
  const titles = selectedTitles();
  const parts = selectedParts();
  const away = titles.filter(title => statusOf(title).away === "offline");
  const countOf = ({length}) => /** @type {const} */ ([WORDS.titles(length), length]);
  if (parts.length && (await send(parts, ...countOf(titles)))) setSelecting(false);
  if (away.length) sendOrExplain([], ...countOf(away));
}

/** Select a title, or not; with shift, also all between it and the last one. */
function toggleSelected(id, withShift) {
  const selected = new Set(state.library.selected);
  const way = selected.has(id) ? "delete" : "add";
  for (const each of withShift ? titlesBetween(state.library.lastSelected, id) : [id])
    selected[way](each);
  change("library", {selected, lastSelected: id});
}

function titlesBetween(one, other) {
  const ids = visibleTitles().map(title => title.id);
  const [first, last] = [ids.indexOf(one), ids.indexOf(other)].sort((a, b) => a - b);
  return first < 0 ? [other] : ids.slice(first, last + 1);
}

function selectShown() {
  const ids = visibleTitles().map(title => title.id);
  change("library", {selected: new Set([...state.library.selected, ...ids])});
}

function setSelecting(selecting) {
  change("library", {selecting, selected: new Set(), lastSelected: ""});
}

// The grid of titles: only the rows in sight, and some around them, are in the document

const GAP = 20; // pixels, as in the style

function gridShape(width) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const isRows = layoutNow() === "rows";
  const [least, share, below] = isChild() ? [15, 0.18, 7] : [11, 0.09, 4.5];
  const cover = Math.max(least * rem, width * share); // larger on a large screen
  const half = Math.max((width - GAP) / 2, 8 * rem); // two columns on a phone
  const narrowest = isRows ? 26 * rem : Math.min(cover, half);
  const columns = Math.max(1, Math.floor((width + GAP) / (narrowest + GAP)));
  const columnWidth = (width - GAP * (columns - 1)) / columns;
  const row = width < 20 * rem ? 6.5 : 4.75; // higher where text is large
  const more = !isChild() && listingConsole() ? 1.25 : 0; // for the update there
  const height = isRows ? row * rem : columnWidth + (below + more) * rem;
  return {columns, columnWidth, height, pitch: height + (isRows ? 0 : GAP)};
}

/** The grid of so many titles, by where their list is, and its rows in sight with some
 * around them. */
function measureTitles(count, spare) {
  const list = document.querySelector("main > .entries") || document.body;
  const {top, width} = list.getBoundingClientRect();
  const grid = gridShape(width);
  const rows = Math.ceil(count / grid.columns);
  return {grid, rows: rowsInSight(top, grid.pitch, rows, spare)};
}

/** Rows around those in sight: few while somebody types a search. */
function spareRows() {
  return scrollY ? 1 : 0.1;
}

/** Whether the rows in sight are drawn, in the grid that their list has room for. */
function areTitlesPlaced() {
  const list = document.querySelector("main > .entries");
  if (!list) return true;
  const {grid, rows} = /** @type {VNode} */ (shown.get(list)).props.drawn;
  const now = measureTitles(visibleTitles().length, spareRows());
  const isSame = JSON.stringify(grid) === JSON.stringify(now.grid);
  return isSame && rows[0] <= now.rows[0] && now.rows[1] <= rows[1];
}

/** Draw other rows where those in sight are not drawn. This only reads where the list
 * is: were it to write, the browser would keep what is in sight in its place by
 * scrolling, before the rows that belong there are drawn. */
function placeTitles() {
  if (!areTitlesPlaced()) update({});
}

/** The first of `count` rows in sight, and the one after the last.
 * @param {number} top of the list
 * @param {number} spare rows before and after those in sight */
function rowsInSight(top, pitch, count, spare) {
  const first = Math.floor(-top / pitch - spare);
  const last = Math.ceil((innerHeight - top) / pitch + spare);
  return [Math.max(0, Math.min(first, count - 1)), Math.max(1, Math.min(last, count))];
}

// Views: the page around them

function renderPage() {
  if (state.phase === "starting") return [renderStarting(), renderToasts()];
  if (state.phase !== "in" || state.invitation)
    return [state.invitation ? renderInvitation() : renderSignIn(), renderToasts()];
  return [
    h.a({class: "skip", href: "#main", onclick: skipToMain}, WORDS.skip),
    renderTop(),
    h.main(
      {
        ...{id: "main", tabindex: "-1", key: state.view},
        class: forChild(`view ${state.view}`),
      },
      renderMachineNote(),
      PAGES[state.view].render(),
    ),
    state.dropping && h.div({class: "dropping", key: "dropping"}, WORDS.dropHere),
    isSelecting() ? renderSelection() : renderDock(),
    state.view === "library" && renderUploads(),
    renderToasts(),
    h.p({class: "unseen", role: "status"}, state.announcement),
    state.filters && renderFilters(),
    state.details.id && renderDetails(),
    state.adding && renderAdding(state.adding),
    state.question && renderQuestion(state.question),
  ];
}

/** The dialog on top, or "page": it has the toasts, which it would cover. */
function layerOnTop() {
  if (state.phase !== "in" || state.invitation) return "page";
  const word = Object.keys(DIALOGS).filter(isDialogOpen).at(-1) || "page";
  return word === "title" ? "details" : word;
}

/** The selection is kept while other views are shown. */
function isSelecting() {
  return state.library.selecting && state.view === "library";
}

function skipToMain(event) {
  event.preventDefault();
  document.querySelector("main")?.focus();
}

function renderStarting() {
  return h.main(
    {class: "starting", key: "starting"},
    h.h1("unseen", WORDS.product),
    h.p({role: "status"}, h.span("spinner"), WORDS.loading),
  );
}

/** What stays in sight: the views, and what the library is searched by. */
function renderTop() {
  return h.header(
    {class: "top", key: "top"},
    h.div("brand", renderLogo(), h.span(null, WORDS.product)),
    h.nav({"aria-label": WORDS.menu}, VIEWS.map(renderViewTab)),
    state.view === "library" && state.entries?.length !== 0 && renderTools(),
    h.p("who", state.account.name),
  );
}

function renderLanguages() {
  const names = Object.entries(LANGUAGES).map(([code, name]) => [
    code,
    h.span({lang: code}, name),
  ]);
  const {lang} = document.documentElement;
  return names.length > 1 && renderChips(WORDS.language, names, lang, chooseLanguage);
}

/** Tell of a translation that nobody has chosen or read. */
function renderMachineNote() {
  if (!isByMachine || state.kept.language) return false;
  const keep = () => chooseLanguage(document.documentElement.lang);
  return h.aside(
    {class: "machine", key: "machine"},
    h.p(null, WORDS.byMachine),
    button("English", () => chooseLanguage("en-GB"), {class: "plain", lang: "en"}),
    iconButton("close", WORDS.close, keep),
  );
}

function renderLogo() {
  return h.img({class: "logo", src: "icon.svg", alt: "", width: "32", height: "32"});
}

function renderViewTab(view) {
  const open = state.entries?.length ? countOpen() : 0;
  return renderTab(view, view === state.view, [
    glyph(PAGES[view].glyph),
    h.span(null, viewName(view)),
    view === "queue" && open > 0 && h.span("count", NUMBER.format(open)),
  ]);
}

const MAX_CHILD_AGE = 7; // of an account whose page has games, and nothing else

/** Whether the page is a child's, who may not read: without file types, sizes, programs
 * and addresses. */
function isChild() {
  const {age} = state.account;
  return Boolean(age && age <= MAX_CHILD_AGE);
}

/** The class of a part of the page, which is larger for a child. */
function forChild(style) {
  return isChild() ? `${style} child` : style;
}

/** The name of a view. */
function viewName(view) {
  const library = isChild() ? WORDS.onlyOf.game : WORDS.library;
  return view === "library" ? library : WORDS[view];
}

function renderTab(place, isShown, content) {
  const current = isShown ? "page" : null;
  const href = VIEWS.includes(place) ? addressOf(place) : `#${place}`;
  return h.a({href, key: place, "aria-current": current}, content);
}

function renderToasts(layer = "page") {
  if (layer !== layerOnTop()) return false;
  return h.div(
    {class: "toasts", role: "status", key: "toasts"},
    !state.connected &&
      h.p({class: "bar", key: "bar"}, h.span("spinner"), WORDS.reconnecting),
    state.toasts
      .filter(each => !each.isOld && !(layer === "page" && isOfDock(each)))
      .map(renderToast),
  );
}

/** The buttons of a toast, which each end it.
 * @param {Action[]} actions */
function renderActions(id, actions) {
  return actions.map(({label, act}) =>
    button(label, () => (dismiss(id), act()), {class: "plain", key: label}),
  );
}

function renderToast(/** @type {Toast} */ {id, text, isError, actions}) {
  return h.div(
    {class: isError ? "toast bad" : "toast", key: id},
    h.p(null, text),
    renderActions(id, actions),
    !actions.length &&
      iconButton("close", WORDS.close, () => dismiss(id), {key: "close"}),
  );
}

// Views: dialogs

let isPressedOutside = false; // where the last press on a dialog was

/** A dialog, which a click around it closes, but not a drag that began in it. */
function renderDialog(name, props, close, ...children) {
  return h.dialog(
    {
      ...props,
      key: name,
      onclose: () => state.phase === "in" && close(),
      // What returns false would keep the browser from what it does then.
      onpointerdown: event => void (isPressedOutside = isOutside(event)),
      onclick: event => void (isPressedOutside && isOutside(event) && close()),
    },
    h.article(null, children),
    renderToasts(name),
  );
}

/** Whether a pointer is on the backdrop of a dialog. */
function isOutside({target, currentTarget: dialog, clientX: x, clientY: y}) {
  const {left, right, top, bottom} = dialog.getBoundingClientRect();
  return target === dialog && (x < left || x > right || y < top || y > bottom);
}

/** @typedef {{yes: string, act: (fields?: Fields) => any}} Choice */
/** @typedef {{text: string, no?: string, isDanger?: boolean, isSecured?: boolean} &
 *   (Choice | {choices: Choice[]})} Question one answer besides "no", or several. One
 * that is secured wants the own password, which `act` gets */
/** @typedef {Question & {settle: (done?: any) => void, form: string}} OpenQuestion */

/** Ask before `act` is done. Returns a Promise of its end, or that of the question. */
function ask(/** @type {Question} */ question) {
  return new Promise(settle => openDialog("question", {...question, settle}));
}

/** @param {() => any} [act] what to do then */
function closeQuestion(act) {
  const {question} = state;
  if (!question) return;
  forgetDraft(question.form);
  closeDialog("question");
  question.settle(act?.());
}

/** @param {OpenQuestion} question */
function renderQuestion({text, no = WORDS.cancel, isDanger, isSecured, ...rest}) {
  const choices = "choices" in rest ? rest.choices : [rest];
  const submit = async fields => {
    await choices[0].act(fields);
    if (state.question?.form === rest.form) closeQuestion();
  };
  const answers = [
    button(no, () => closeQuestion(), {name: "no"}),
    choices.map(({yes, act}, n) =>
      h.button(
        {
          name: `yes${n}`,
          class: isDanger ? "danger" : "primary",
          type: isSecured ? "submit" : "button",
          onclick: isSecured ? null : () => closeQuestion(act),
        },
        yes,
      ),
    ),
  ];
  return renderDialog(
    "question",
    {class: "question", "aria-labelledby": "question-text"},
    closeQuestion,
    h.p({id: "question-text"}, text),
    isSecured
      ? form(rest.form, submit, renderOwnPassword(OPENED), h.div("actions", answers))
      : h.div("actions", answers),
  );
}

function renderOwnPassword(props) {
  const name = renderUsername(state.account.name);
  return [name, field(WORDS.ownPassword, "own_password", {...PASSWORD, ...props})];
}

// Views: forms

/** @typedef {Record<string, any>} Fields of a form, by name */

/** A form that calls `submit` with its fields, if it can be submitted, and shows the
 * Problem if that fails. It keeps what is typed until it was submitted or cancelled. */
function form(name, submit, ...children) {
  const problem = state.problem.form === name ? state.problem.text : "";
  return h.form(
    {
      ...{key: name, name},
      "aria-busy": state.busy.has(name) ? "true" : null,
      oninput: ({currentTarget}) => {
        currentTarget.dataset.typed = "";
        update({});
      },
      onsubmit: event => {
        event.preventDefault();
        once(name, () => submitForm(event.target, name, submit));
      },
    },
    children,
    h.p({class: "problem", role: "alert"}, problem),
  );
}

/** @returns {Fields} */
function fieldsOf(/** @type {HTMLFormElement | null} */ form) {
  const fields = Object.fromEntries(new FormData(form || undefined));
  for (const {type, name, checked} of /** @type {any} */ (form?.elements || []))
    if (type === "checkbox") fields[name] = checked;
  return fields;
}

async function submitForm(/** @type {HTMLFormElement} */ form, name, submit) {
  const fields = fieldsOf(form);
  update({problem: NO_PROBLEM});
  try {
    await submit(fields);
    const isNewer = JSON.stringify(fieldsOf(form)) !== JSON.stringify(fields);
    if (isNewer) return; // typed since
    emptyForm(form);
    update({});
  } catch (error) {
    const text = explain(error);
    if (!isGone(form)) update({problem: {form: name, text}});
    else toast(text, true);
  }
}

// A draft is a form that somebody has typed in, until it is submitted or cancelled, or
// the account changes. Those that are not shown stay in the document, out of sight.

/** @returns {HTMLFormElement | null} with this name */
function formOf(name) {
  return /** @type {any} */ (document.forms.namedItem(name));
}

function isDraft(/** @type {HTMLFormElement | null} */ form) {
  return form !== null && "typed" in form.dataset;
}

function emptyForm(/** @type {HTMLFormElement} */ form) {
  form.reset();
  delete form.dataset.typed;
  if (isGone(form)) form.remove();
}

function forgetDraft(name) {
  const form = formOf(name);
  if (form) emptyForm(form);
}

/** The button of a form that closes it, and forgets what was typed. */
function renderCancel(name, close) {
  const cancel = () => {
    forgetDraft(name);
    close();
  };
  return button(WORDS.cancel, cancel);
}

function field(label, name, props, hint = "") {
  return h.label(
    {class: "field", key: name},
    h.span(null, label, hint && h.small(null, hint)),
    h[props.rows ? "textarea" : "input"]({name, ...props}),
  );
}

/** A menu in a form.
 * @param {any[][]} choices see renderOption */
function selectField(label, name, choices) {
  return h.label(
    {class: "field", key: name},
    h.span(null, label),
    h.select({name, "aria-label": label}, choices.map(renderOption)),
  );
}

const OPENED = {autofocus: true}; // of the first field of a form that a button opens
const PLAIN_TEXT = {autocapitalize: "none", spellcheck: "false"};
const ACCOUNT_NAME = {...PLAIN_TEXT, required: true, maxlength: "64"};
const TITLE_ID = {...PLAIN_TEXT, pattern: "[0-9A-Fa-f]{16}"};
const ENTRY_NAME = {required: true, maxlength: "255"};
const ENTRY_VERSION = {maxlength: "100"};
const PASSWORD = {type: "password", required: true, autocomplete: "current-password"};
const NEW_PASSWORD = {...PASSWORD, minlength: "8", autocomplete: "new-password"};

// Views: an empty one

function renderEmpty(title, text, ...more) {
  return h.div("empty", renderArt(), h.h2(null, title), h.p(null, text), ...more);
}

/** Three covers, as of a hand of cards. */
function renderArt() {
  const covers = ["d", "m", "w"].map(renderDrawing);
  return h.div({class: "art", "aria-hidden": "true"}, covers);
}

// Views: signing in

function renderSignIn() {
  const isSetup = state.phase === "setup";
  return renderDoor(
    isSetup ? WORDS.setup : WORDS.product,
    isSetup ? WORDS.setupLead : WORDS.signInLead,
    form(
      "sign-in",
      signIn,
      renderOwnName(),
      isSetup ? renderSetupFields() : field(WORDS.password, "password", PASSWORD),
      h.button("primary wide", isSetup ? WORDS.createAccount : WORDS.signIn),
    ),
    !isSetup &&
      h.p("forgotten", WORDS.forgotten, " ", h.code(null, WORDS.forgottenLine)),
  );
}

function renderDoor(title, lead, ...children) {
  return h.main(
    {class: "door", key: title},
    renderMachineNote(),
    h.div(
      "card",
      h.div("door-head", renderLogo(), h.h1(null, title), h.p(null, lead)),
      children,
    ),
    renderLanguages(),
  );
}

function renderOwnName() {
  const name = {autocomplete: "username", defaultValue: state.account.name};
  return field(WORDS.name, "username", {...ACCOUNT_NAME, ...name});
}

function renderInvitation() {
  if (state.phase === "in") return renderSignedInElse();
  const {invited} = state;
  const name = invited?.name || "";
  const accept = fields =>
    enterBy("web/invitation/accept", {...fields, token: state.invitation});
  let title = invited ? WORDS.setup : WORDS.product;
  let lead = invited ? WORDS.invitedLead(invited.maker) : WORDS.signInLead;
  if (name) [title, lead] = [WORDS.newPassword, WORDS.newPasswordLead(name)];
  return renderDoor(
    title,
    lead,
    form(
      "invitation",
      accept,
      invited ? renderInvited(name) : !state.problem.text && renderLoading(),
    ),
    h.p("forgotten", button(WORDS.toSignIn, closeInvitation, {class: "plain"})),
  );
}

/** @param {string} name of the account whose password is set, "" for a new one */
function renderInvited(name) {
  return [
    name ? renderUsername(name) : renderOwnName(),
    field(WORDS.password, "password", NEW_PASSWORD, WORDS.passwordHint),
    h.button("primary wide", name ? WORDS.setPassword : WORDS.createAccount),
  ];
}

function renderSignedInElse() {
  const close = () => {
    closeInvitation();
    go("library");
  };
  return renderDoor(
    WORDS.product,
    WORDS.invitedElse(state.account.name),
    h.div(
      "actions",
      button(WORDS.signOut, signOutForInvitation),
      button(WORDS.toLibrary, close, {class: "primary"}),
    ),
  );
}

function renderSetupFields() {
  const example = {required: true, placeholder: "k7mp-x4tz-9hqw"};
  const code = {...TYPED, ...example, defaultValue: state.setupCode};
  return [
    field(WORDS.password, "password", NEW_PASSWORD, WORDS.passwordHint),
    field(WORDS.setupCode, "code", code, WORDS.setupCodeHint),
  ];
}

// Views: the library

function renderLibrary() {
  const heading = h.h1("unseen", viewName("library"));
  const {entries} = state;
  if (!entries) return [heading, renderLoaded("entries", entries)];
  const none = [WORDS.emptyTitle, WORDS.emptyForChild];
  if (!entries.length)
    return [heading, state.account.age ? renderEmpty(...none) : renderFirstRun()];
  const visible = visibleTitles();
  const away = state.account.age ? 0 : countAway(allTitles());
  return [
    heading,
    renderSummary(visible.length),
    away > 0 && h.p({class: "note", key: "away"}, WORDS.disksAway(away)),
    !isNarrowed() && (showsSteps() ? renderFirstRun() : renderShelves()),
    renderLetters(visible),
    visible.length
      ? renderTitles(visible)
      : renderEmpty(WORDS.noneTitle, WORDS.noneText, button(WORDS.showAll, showAll)),
  ];
}

const arePictured = memo(
  titles => 2 * titles.filter(picturedPart).length >= titles.length,
);

/** As somebody chose or, on a phone, covers where half of the titles have a picture. */
function layoutNow() {
  if (isChild()) return "covers";
  const isRows = !isWide() && !arePictured(allTitles());
  return state.kept.layout || (isRows ? "rows" : "covers");
}

function renderTitles(/** @type {Title[]} */ titles) {
  const drawn = measureTitles(titles.length, 3 * spareRows());
  const {grid, rows} = drawn;
  const layout = layoutNow();
  const [first, last] = rows.map(row => row * grid.columns);
  const cards = titles.slice(first, last).map((title, n) =>
    renderCard(title, {
      reuse: true,
      "aria-setsize": titles.length,
      "aria-posinset": first + n + 1,
    }),
  );
  const style = {
    height: `${Math.ceil(titles.length / grid.columns) * grid.pitch}px`,
    "padding-top": `${rows[0] * grid.pitch}px`,
    "grid-template-columns": `repeat(${grid.columns}, minmax(0, 1fr))`,
    "grid-auto-rows": `${grid.height}px`,
    ...(layout === "covers" && {"--cover": `${grid.columnWidth}px`}),
  };
  return h.ul({class: `entries ${layout}`, key: layout, style, drawn}, cards);
}

function renderCard(/** @type {Title} */ title, props = {}) {
  const {selecting, selected} = state.library;
  const isSelected = selecting && selected.has(title.id);
  const isAway = statusOf(title).away === "offline";
  const style = `entry${isAway ? " is-away" : ""}${isSelected ? " selected" : ""}`;
  return h.li(
    {class: style, key: title.id, ...props},
    renderTitle(title),
    selecting ? renderChoice(title, isSelected) : renderSendButton(title),
  );
}

const MAX_SHELF = 20; // titles in each part of the shelf
const RECENT_DAYS = 30;

/** Since when titles are recent: never, if that would be most of the library. */
const recentSince = memo(titles => {
  const since = new Date(Date.now() - RECENT_DAYS * 86400000).toISOString();
  const {length} = titles.filter(title => title.created_at > since);
  return length > titles.length / 2 ? "9" : since;
});

/** The titles with updates for the device, and those that came lately. Those that are
 * sent stay until the library is loaded again, so that nothing moves. */
const titlesToOffer = memo(titles => {
  const here = titles.filter(title => statusOf(title).away !== "offline");
  const [updates, recent] = ["updates", "recent"].map(filter =>
    sorted(here, "newest").filter(FILTERS[filter]),
  );
  return {updates, recent: recent.filter(title => !updates.includes(title))};
});

/** What people come for, above all titles: what has updates or is new. */
function renderShelves() {
  const isLoaded = Boolean(state.items && state.devices);
  const offered = titlesToOffer(allTitles(), chosenDevice(), isLoaded);
  const shelves = Object.entries(offered).filter(([, titles]) => titles.length);
  if (!shelves.length || !isWide() || isChild()) return false;
  const card = title => renderCard(title);
  return h.div(
    {class: "shelves", key: "shelves"},
    shelves.map(([name, titles]) =>
      h.section(
        {class: "shelf", key: name},
        h.h2(null, WORDS.filters[name]),
        name === "updates" && renderSendAll(titles),
        h.ul("rows", titles.slice(0, MAX_SHELF).map(card)),
      ),
    ),
  );
}

/** The button that sends all updates of these titles that are not under way. */
function renderSendAll(/** @type {Title[]} */ titles) {
  const isOffered = title => {
    const {hasNewer: isNewer, status, toSend, ofParts} = statusOf(title);
    const isSent = toSend.every(({id}) => ofParts.get(id) === "completed");
    return isNewer && !isSent && !isOngoing(status); // what is newer may be away
  };
  const offered = titles.filter(isOffered);
  const parts = offered.flatMap(title => statusOf(title).toSend);
  const {length} = offered;
  const act = () => send(parts, WORDS.titles(length), length);
  return parts.length > 0 && button(WORDS.sendAll, act, {class: "link", key: "send"});
}

/** Whether the library shows a part of its titles, or has them selected. */
function isNarrowed() {
  const {search, filter, more, selecting} = state.library;
  return Boolean(search || filter !== "all" || more || selecting);
}

function renderGlow(cover) {
  return h.div({class: "glow", key: "glow", "aria-hidden": "true"}, cover);
}

const countAway = memo(
  titles => titles.filter(title => isShown(title, "offline")).length,
);

function showAll() {
  narrow(WHOLE);
}

function hasSent() {
  const {items, sent} = state;
  return sent.length > 0 || Boolean(items?.some(item => item.status === "processing"));
}

function isFirstRun() {
  const {account, devices, items} = state;
  return Boolean(devices && items) && !account.age && !hasSent();
}

/** Whether the library tells what to do. It does so until somebody leaves it, so that
 * nothing moves when the first title is sent. */
function showsSteps() {
  return wasFirstRun(state.visit, Boolean(state.devices && state.items));
}

const wasFirstRun = memo(isFirstRun);

/** The first three steps, which tick themselves off. */
function renderFirstRun() {
  const {scanning, files, folders} = state.scan;
  const {length: count} = allTitles();
  const [device] = reachable();
  const paths = CHOICE.format((folders || []).map(({path}) => path));
  const put = paths ? WORDS.emptyTextOf(paths) : WORDS.emptyText;
  const {admin, inbox} = state.account;
  const scan = admin && !scanning && button(WORDS.scanNow, startScan);
  const addGames = inbox && button([glyph("add"), WORDS.addGames], chooseFiles);
  const found = scanning ? WORDS.emptyScanText(files) : put;
  const tick = h.span("unseen", WORDS.ticks.check);
  const steps = {
    files: [count > 0 && WORDS.titles(count), found, [scan, addGames]],
    device: [
      device && deviceName(device),
      WORDS.devicesLead,
      !offersDevice() && addDeviceButton(),
    ],
    send: [hasSent() && WORDS.firstSend, WORDS.firstSend],
  };
  return h.section(
    {class: count ? "first-run card" : "first-run empty", key: "first-run"},
    !count && renderArt(),
    h.h2(null, count ? WORDS.setup : emptyTitle()),
    h.ol(
      "steps",
      Object.entries(steps).map(([name, [done, text, actions]]) =>
        h.li(
          {class: done ? "step is-done" : "step", key: name},
          h.h3(null, done && tick, WORDS.firstSteps[name]),
          h.p("lead", done || text),
          h.div("actions", !done && actions),
        ),
      ),
    ),
  );
}

/** Why nothing is listed, as far as that is known. */
function emptyTitle() {
  const passed = state.scan.passed_over.map(sentence);
  return passed.length ? WORDS.passedOverOf(LIST.format(passed)) : WORDS.emptyTitle;
}

function renderTools() {
  const isDeviceShown = isWide() && (reachable().length > 0 || !isFirstRun());
  return h.div(
    {class: "tools", key: "tools"},
    renderSearch(),
    !isChild() && renderToolButtons(),
    isDeviceShown && renderDeviceMenu(),
  );
}

function renderToolButtons() {
  const {selecting, filter, more} = state.library;
  return [
    iconButton("filter", WORDS.libraryMenu, () => openDialog("filters"), {
      class: more || filter !== "all" ? "icon-button is-set" : "icon-button",
      "aria-haspopup": "dialog",
    }),
    iconButton("select", WORDS.select, () => setSelecting(!selecting), {
      "aria-pressed": String(selecting),
    }),
    Boolean(state.account.inbox) && iconButton("add", WORDS.addGames, chooseFiles),
  ];
}

/** The sheet of orders, layouts and filters. */
function renderFilters() {
  const {more} = state.library;
  const {sort} = state.kept;
  const found = furtherFilters(allTitles(), state.ages);
  const only = found
    .filter(each => !(each in WORDS.ages))
    .map(each => [each, WORDS.onlyOf[each] || each.toUpperCase()]);
  const ages = Object.entries(WORDS.ages).filter(([each]) => found.includes(each));
  const [sorts, layouts] = [WORDS.sorts, WORDS.layouts].map(Object.entries);
  const narrowTo = each => narrow({more: each === more ? "" : each});
  return renderSheet(
    "filters",
    WORDS.libraryMenu,
    () => closeDialog("filters"),
    h.h2(null, WORDS.libraryMenu),
    renderChips(WORDS.sort, sorts, sort, each => remember("sort", each)),
    renderChips(WORDS.layout, layouts, layoutNow(), each => remember("layout", each)),
    only.length > 0 && renderChips(WORDS.only, only, more, narrowTo),
    ages.length > 0 && renderChips(WORDS.forChildren, ages, more, narrowTo),
  );
}

/** Chips, of which at most one is pressed.
 * @param {any[][]} chips their names and contents */
function renderChips(label, chips, chosen, choose) {
  return h.div(
    {class: "chips", role: "group", "aria-label": label, key: label},
    chips.map(([name, content]) => {
      const props = {key: name, class: "chip", "aria-pressed": String(name === chosen)};
      return button(content, () => choose(name), props);
    }),
  );
}

/** The line above the titles: where a phone sends to, which are shown, how many. */
function renderSummary(count) {
  const {scanning, files} = state.scan;
  const all = allTitles().length;
  const isWhole = count === all;
  return h.div(
    {class: "summary", key: "summary"},
    h.div(
      "strip",
      !isWide() && isDeviceTold() && renderDeviceMenu(),
      !isChild() && renderFilter(),
      scanning &&
        !isChild() &&
        h.p("scanning", h.span("spinner"), WORDS.scanning(files)),
    ),
    h.p(
      {role: "status", class: isWhole && (isChild() || !isWide()) ? "unseen" : "meta"},
      isWhole ? WORDS.titles(all) : WORDS.found(count, all),
    ),
    0 < count && !isWhole && button(WORDS.showAll, showAll, {class: "link"}),
    state.library.filter === "updates" && renderSendAll(visibleTitles()),
  );
}

/** Whether there is a choice of devices, or something to say of the only one. */
function isDeviceTold() {
  const [first, ...others] = reachable();
  if (!first) return !isFirstRun();
  return others.length > 0 || statusOfDevice(first).tone !== "";
}

const MIN_LETTERED = 200; // titles in order, beside which their first letters are
const LETTER_PITCH = 16; // pixels, at least

/** The first letters of titles, each with the place of its first title. */
const initialsOf = memo((/** @type {Title[]} */ titles) => {
  const places = /** @type {Map<string, number>} */ (new Map());
  titles.forEach(({plainName}, place) => {
    const [first = ""] = plainName;
    const letter = /\d/.test(first) ? "#" : first.toUpperCase();
    if (letter && !places.has(letter)) places.set(letter, place);
  });
  return [...places];
});

/** The letters at the edge of a long list, as many as the window has room for. A press
 * or a finger that moves over them leads to the titles; keys have the search. */
function renderLetters(/** @type {Title[]} */ titles) {
  const isByName = state.kept.sort === "name" && !state.library.search;
  if (titles.length < MIN_LETTERED || !isByName) return false;
  const all = initialsOf(titles);
  const room = Math.max(1, Math.floor((innerHeight - 272) / LETTER_PITCH));
  const shown = all.filter((_, n) => n % Math.ceil(all.length / room) === 0);
  const lead = ({currentTarget: rail, clientY: y}) => {
    const {top} = rail.firstElementChild.getBoundingClientRect();
    const {bottom} = rail.lastElementChild.getBoundingClientRect();
    const at = Math.floor(((y - top) / (bottom - top)) * shown.length);
    scrollToPlace(shown[Math.max(0, Math.min(at, shown.length - 1))][1]);
  };
  return h.div(
    {
      ...{class: "letters", key: "letters", "aria-hidden": "true", onpointerdown: lead},
      onpointermove: event => event.buttons && lead(event),
    },
    shown.map(([letter]) => h.span(null, letter)),
  );
}

/** Scroll to the row of a title, by its place in the list. */
function scrollToPlace(place) {
  const list = document.querySelector("main > .entries");
  if (!list) return;
  const {columns, pitch} = /** @type {VNode} */ (shown.get(list)).props.drawn.grid;
  const head = document.querySelector(".top")?.clientHeight || 0;
  const {top} = list.getBoundingClientRect();
  scrollBy(0, top - head + Math.floor(place / columns) * pitch);
}

function renderSearch() {
  const count = allTitles().length;
  return h.div(
    {class: "search", role: "search"},
    glyph("search"),
    h.input({
      ...{...TYPED, type: "search", id: "search", enterkeyhint: "search"},
      ...{"aria-label": WORDS.search, "aria-keyshortcuts": "/"},
      value: state.library.search,
      placeholder: count ? WORDS.searchHint(count) : WORDS.search,
      oninput: event => narrow({search: event.target.value}),
    }),
    h.kbd({"aria-hidden": "true"}, "/"),
  );
}

function focusSearch(/** @type {KeyboardEvent} */ event) {
  const isTyping = /INPUT|TEXTAREA|SELECT/.test(document.activeElement?.tagName || "");
  const input = document.getElementById("search");
  if (event.key !== "/" || isTyping || !input || layerOnTop() !== "page") return;
  event.preventDefault();
  input.focus();
}

/** What there is none of is left out, but for updates. */
function renderFilter() {
  const {filter} = state.library;
  const chips = countTitles(searchedTitles(), sentNow())
    .filter(({filter: each, count}) => count > 0 || [filter, "updates"].includes(each))
    .map(({filter: each, count}) => {
      const number = h.span("chip-count", ` ${NUMBER.format(count)}`);
      const place = each === "unsent" && listingConsole();
      const label = place ? WORDS.notOn(place) : WORDS.filters[each];
      return [each, [label, each !== "all" && number]];
    });
  return renderChips(WORDS.filter, chips, filter, each => narrow({filter: each}));
}

/** The one anatomy of a title: its cover with a mark at the corner, its name, and what
 * is known of it. A button follows. */
function renderTitle(/** @type {Title} */ title) {
  const href = `#title/${title.id}`;
  const isTold = !isChild() && onConsole(title);
  const older = isTold && olderThere(title, id => numberSent(id, sentNow()));
  return [
    h.a(
      {class: "entry-cover", href, tabindex: "-1", "aria-hidden": "true"},
      renderCover(title),
    ),
    h.div(
      "entry-text",
      h.a({class: "entry-name", href, title: title.name}, title.name),
      renderTitleMeta(title),
      older && h.p({class: "meta", title: older}, older),
      renderMarks(marksOfTitle(title), 1),
    ),
  ];
}

/** Its size, and what it has or how long it still takes. */
function renderTitleMeta(/** @type {Title} */ title) {
  if (isChild()) return false;
  const {toSend, away} = statusOf(title);
  const row = rowSending(title);
  const left = totalSize(toSend) || title.size;
  const text = sizeOf({size: left});
  const size = left < title.size ? WORDS.sizeToSend(text) : text;
  const contents = away === "partly" ? [WORDS.marks.partly] : contentsOf(title);
  const decided = WORDS.ages[state.ages?.[title.id] || ""];
  const age = state.account.admin && (decided || formerAge(title));
  const flows = () => wholeFacts([size, row && leftText(figuresOf(row))]);
  const facts = [onConsole(title), size, age, ...contents];
  return h.p("meta", row ? live(flows) : wholeFacts(facts));
}

/** On which console a title is, if the one that Send is for lists it. */
function onConsole(/** @type {Title} */ {parts}) {
  const name = listingConsole();
  return name && isListed(parts, sentNow()) && WORDS.onConsole(name);
}

/** The row of the queue in which a device receives a title now, whoever sent it. */
function rowSending(/** @type {Title} */ title) {
  const item = (state.items || NOTHING).find(
    ({status, entry}) => status === "processing" && findTitle(entry) === title,
  );
  return item && openRows().find(({items}) => items.includes(item));
}

/** All of the card is its box. */
function renderChoice(/** @type {Title} */ {id, name}, checked) {
  return h.input({
    ...{class: "choice", type: "checkbox", checked, key: "choice"},
    "aria-label": WORDS.selectTitle(name),
    onclick: event => toggleSelected(id, event.shiftKey),
  });
}

/** @param {Mark[]} marks
 * @param {number} [most] of them that are shown */
function renderMarks(marks, most) {
  const told = marks.filter(([isShown]) => isShown).slice(0, most);
  return h.span(
    "marks",
    told.map(([, name, tone = ""]) =>
      h.span({class: `mark ${name} ${tone}`, key: name}, WORDS.marks[name]),
    ),
  );
}

/** Send is filled, Again is outlined, and what is under way is a ring. */
function renderSendButton(/** @type {Title} */ title) {
  const {status, ofParts, toSend} = statusOf(title);
  if (isOngoing(status)) return renderQueuedButton(title);
  const isAgain = toSend.some(part => ofParts.get(part.id));
  const label = isAgain ? WORDS.sendAgainName(title.name) : WORDS.sendName(title.name);
  return button(
    [
      glyph(isAgain ? "retry" : "send"),
      h.span(null, isAgain ? WORDS.again : WORDS.send),
    ],
    () => sendOrExplain(toSend, title.name),
    {
      class: isAgain ? "send is-again" : "send",
      key: "send",
      title: !isChild() && (toSend.length ? partsText(toSend) : WORDS.diskAway),
      "aria-label": label,
      "aria-disabled": toSend.length ? null : "true",
    },
  );
}

/** Such as "game and update · 4.1 GB". */
function partsText(/** @type {Entry[]} */ parts) {
  return joinFacts([countParts(parts), sizeOf({size: totalSize(parts)})]);
}

/** It takes the place of the send button, and its focus, and leads to the queue. */
function renderQueuedButton(/** @type {Title} */ title) {
  const {status} = statusOf(title);
  const row = rowSending(title);
  const isQueued = status !== "queueing";
  const figures = row && figuresOf(row);
  const text = figures ? WORDS.percent(percentOf(figures)) : WORDS.queued;
  const name = WORDS.seeQueue(title.name);
  const props = isQueued
    ? {title: name, "aria-label": WORDS.queuedName(text, title.name)}
    : {"aria-label": WORDS.actionOn(WORDS.queueing, title.name), ...BUSY};
  const shape = isChild() ? renderFill : renderRing;
  const progress = row ? live(() => shape(figuresOf(row))) : shape();
  return button(progress, () => isQueued && go("queue"), {
    class: "send is-queued",
    key: "send",
    ...props,
  });
}

/** A ring with the percent in it or, of what waits, with a clock.
 * @param {Figures} [figures] */
function renderRing(figures) {
  const circle = {cx: "20", cy: "20", r: "15.9"}; // 100 around
  const dashes = `${figures ? figures.percent : 0} 100`;
  return h.span(
    "ring",
    h.svg(
      {viewBox: "0 0 40 40", "aria-hidden": "true"},
      h.circle(circle),
      h.circle({...circle, style: {"stroke-dasharray": dashes}}),
    ),
    figures ? h.span(null, String(percentOf(figures))) : glyph("clock"),
  );
}

/** A button of a child that fills, with the percent in it.
 * @param {Figures} [figures] */
function renderFill(figures) {
  const {percent} = figures || {percent: 0};
  return h.span(
    "fill",
    h.span({style: {transform: `scaleX(${percent / 100})`}}),
    h.span("fill-text", figures ? WORDS.percent(percentOf(figures)) : WORDS.queued),
  );
}

function renderSelection() {
  const count = state.library.selected.size;
  const parts = selectedParts();
  const shown = visibleTitles().length;
  return h.div(
    {class: "selection", role: "region", "aria-label": WORDS.select, key: "selection"},
    h.p(
      {role: "status"},
      count ? WORDS.selected(count, formatBytes(totalSize(parts))) : WORDS.noneSelected,
    ),
    renderDeviceMenu(),
    button(WORDS.selectShown(shown), selectShown, {class: "plain"}),
    state.account.admin && renderAgeMenu(selectedTitles()),
    button(WORDS.done, () => setSelecting(false), {class: "plain"}),
    button([glyph("send"), WORDS.sendSelected(count)], () => count && sendSelected(), {
      class: "primary",
      "aria-disabled": parts.length ? null : "true",
    }),
  );
}

// Views: covers. A title without a picture gets a drawing, the same each time.

/** The first part that has a picture, which is the base. */
function picturedPart(/** @type {Title} */ {parts}) {
  return parts.find(part => part.icon && !state.brokenIcons.has(part.icon));
}

function renderCover(/** @type {Title} */ title) {
  const pictured = picturedPart(title);
  return pictured ? renderPicture(pictured) : renderDrawing(title.id);
}

function renderPicture(/** @type {Entry} */ {id, icon = ""}) {
  return h.img({
    ...{class: "cover", key: icon, alt: "", width: "256", height: "256"},
    ...{loading: "lazy", decoding: "async"},
    src: `web/icons/${id}?v=${icon}`,
    onerror: () => update({brokenIcons: new Set(state.brokenIcons).add(icon)}),
  });
}

// Colors of the drawings: the ground, two of its tone, a light one and a strong one
const PALETTES = [
  "16324f 2a6f97 61a5c2 f4e9cd f2b84b",
  "0f3d3e 1f7a6d 7cc6a4 f7f0d8 f28f5b",
  "3a1f3d 7b3f61 c9697b fbe3d0 f6b042",
  "2b2350 5a4a9c 9c8ce0 f4e6f3 f29bb2",
  "4a2511 a4531f e09a4f fbeecb 3f8f86",
  "123524 3e7b4f a3c46c f3f3cf f0c24b",
  "5b1a28 a8384a ea8a72 fde8d3 2f7f93",
  "1b2a41 43608a a5bcd6 f6efe2 e26d5a",
  "1d3b40 3f7d83 9fd0c4 fff3dc e5b13a",
  "46244c 8d4c8c d793bb fdeee6 6cc0a8",
  "2d2a26 6d6455 b7a98d f5efe0 d9693f",
  "0d3b66 2f7fb5 8ccbe8 fdf5df f4a259",
];
// Motifs of the drawings, 96 pixels a side: a path for each color but the ground
const MOTIFS = [
  "M0 4a92 92 0 0 1 92 92H0z|M0 26a70 70 0 0 1 70 70H0z|M0 48a48 48 0 0 1 48 " +
    "48H0z|M0 70a26 26 0 0 1 26 26H0z",
  "M-14 96a62 62 0 0 1 124 0z|M2 96a46 46 0 0 1 92 0z|M18 96a30 30 0 0 1 60 0z|" +
    "M34 96a14 14 0 0 1 28 0z",
  "M0 0h96L0 96z|M0 0h66L0 66z||M0 0h36L0 36z", // bands over a corner
  "M0 56q24-24 48 0t48 0v40H0z|M0 76q24-24 48 0t48 0v20H0z||M68 14a15 15 0 1 " +
    "1-.1 0z",
  "M0 0h16v96H0zM32 0h16v96H32zM64 0h16v96H64z||M18 48a30 30 0 0 1 60 0z|M18 " +
    "48a30 30 0 0 0 60 0z",
  "M0 0h48a48 48 0 0 1-48 48z|M96 96H48a48 48 0 0 1 48-48z|M48 0h48v48a48 48 0 0 " +
    "1-48-48z|M0 96V48a48 48 0 0 1 48 48z",
  "M0 48L48 0l48 48-48 48z|M24 48l24-24 24 24-24 24z||M36 48a12 12 0 1 1 24 0 12 " +
    "12 0 0 1-24 0z",
  "M0 96L40 26l40 70z|M34 96l32-52 30 52z|M28.6 46L40 26l11.4 20z|M70 10a11 11 0 " +
    "1 1-.1 0z",
  "M48 0a48 48 0 0 1 0 96 48 48 0 0 1 0-96z|M48 0a48 48 0 0 1 0 96z|M48 24a24 24 " +
    "0 0 0 0 48z|M48 24a24 24 0 0 1 0 48z",
  "M0 0q48 0 48 48Q0 48 0 0zM96 96q-48 0-48-48 48 0 48 48z|M96 0q0 48-48 48 0-48 " +
    "48-48zM0 96q0-48 48-48 0 48-48 48z||M38 48a10 10 0 1 1 20 0 10 10 0 0 1-20 0z",
  "M0 22L48 4l48 18v24L48 28 0 46z|M0 54l48-18 48 18v24L48 60 0 78z|M0 86l48-18 " +
    "48 18v10H0z|",
  "M0 64h96v32H0z|M0 80h96v16H0z||M18 64a30 30 0 0 1 60 0z", // a sunrise
  "M0 0h48v48h48v48H48V48H0z|M0 96a48 48 0 0 1 48-48v48z|M96 0a48 48 0 0 1-48 " +
    "48V0z|",
  "M0 48Q48-8 96 48 48 104 0 48z|M20 48a28 28 0 1 1 56 0 28 28 0 0 1-56 0z|M34 " +
    "48a14 14 0 1 1 28 0 14 14 0 0 1-28 0z|",
  "M0 96V72h24V48h24V24h24V0h24v96z|M24 96V72h24V48h24V24h24v72z||M14 12a13 13 0 " +
    "1 1-.1 0z",
  "M0 0h96L48 48zM0 96h96L48 48z|M0 0l48 48L0 96z||M34 48a14 14 0 1 1 28 0 14 14 " +
    "0 0 1-28 0z",
];

/** A poster for what has no picture. Its motif, its colors and which way up it is come
 * from the title's id alone: it is the same each time, and on every device. */
function renderDrawing(id) {
  const seed = hash(id);
  const [ground, ...colors] = PALETTES[seed % PALETTES.length].split(" ");
  const motif = MOTIFS[(seed >>> 7) % MOTIFS.length].split("|");
  const turn = `rotate(${90 * ((seed >>> 13) % 4)} 48 48)`;
  const transform = `${turn} translate(-1 -1) scale(1.021)`; // no ground at its edges
  const paths = motif.map((d, n) => h.path({d, fill: `#${colors[n]}`}));
  const size = {viewBox: "0 0 96 96", preserveAspectRatio: "xMidYMid slice"};
  return h.svg(
    {class: "cover drawn", "aria-hidden": "true", ...size},
    h.rect({width: "96", height: "96", fill: `#${ground}`}),
    h.g({transform}, paths),
  );
}

/** FNV-1a, over UTF-16 code units. */
function hash(text) {
  let sum = 2166136261;
  for (let n = 0; n < text.length; n++)
    sum = Math.imul(sum ^ text.charCodeAt(n), 16777619);
  return (sum ^ (sum >>> 15)) >>> 0;
}

// Views: the details of a title

const MAX_PARTS = 100; // that are shown at first

function openTitle(id) {
  update({details: untouched(id), openForm: "", problem: NO_PROBLEM});
  loadDescription();
}

/** Load the facts of the part that describes the open title, once it is known. */
function loadDescription() {
  const main = state.details.id && findTitle(state.details.id)?.parts[0];
  if (main && !state.details.facts[main.id]) loadFacts(main.id).catch(explain);
}

async function loadFacts(id) {
  const facts = await call("GET", `web/entries/${id}`);
  change("details", {facts: {...state.details.facts, [id]: facts}});
}

function closeDetails() {
  if (!state.details.id) return;
  update({details: untouched(), openForm: ""});
  leaveDialog("title");
}

function travelBack() {
  const {id} = state.details;
  travel(closeDetails, () => coverOf(id));
}

function renderDetails() {
  const title = findTitle(state.details.id);
  return renderSheet(
    "details",
    title ? title.name : WORDS.details,
    travelBack,
    title && renderOpenTitle(title),
    !title && state.entries && renderEmpty(WORDS.goneTitle, WORDS.goneText),
    !title && !state.entries && renderLoading(),
  );
}

function renderSheet(name, label, close, ...children) {
  return renderDialog(
    name,
    {class: forChild(`sheet ${name}`), "aria-label": label},
    close,
    iconButton("close", WORDS.close, close, {class: "icon-button close"}),
    ...children,
  );
}

function renderOpenTitle(/** @type {Title} */ title) {
  const edited = title.parts.find(part => draftOf(part.id) === state.openForm);
  if (edited) return renderEdit(edited);
  const [main] = title.parts;
  const description = state.details.facts[main.id]?.entry.metadata.description;
  const copyIt = () => copy(`${serverAddress()}/#title/${title.id}`);
  const {away} = statusOf(title);
  const device = deviceOf(chosenDevice());
  const note = away === "offline" ? WORDS.diskAway : whenBack(device);
  return h.div(
    {class: "facts", key: "facts"},
    renderGlow(renderCover(title)),
    h.div(
      "facts-head",
      h.div("facts-cover", renderCover(title)),
      h.div(
        "facts-text",
        h.h2(null, title.name),
        !isChild() && h.p("meta", joinFacts([main.author, versionText(main)])),
        renderMarks([[!isChild() && away, away, "warn"], ...marksOfTitle(title)]),
      ),
      h.div(
        "has",
        !isChild() && h.dl(null, titleFacts(title).map(renderFact)),
        h.p("description", description),
        !isChild() && button([glyph("link"), WORDS.copyLink], copyIt, {class: "plain"}),
      ),
    ),
    !isChild() && renderParts(title),
    h.div(
      "send-bar",
      h.p("waits", note),
      h.p("waits", hiddenNote([title], device)),
      renderDeviceMenu(),
      isChild() ? renderSendButton(title) : renderSendParts(title),
    ),
  );
}

/** What it has, when it came, to which devices it was sent last, when and by whom and,
 * for an admin, from which age on children see it. */
function titleFacts(/** @type {Title} */ title) {
  const {id, parts} = title;
  const isKnown = state.account.admin && state.ages;
  const ids = new Set(parts.map(part => part.id));
  const own = state.sent.filter(({entry}) => ids.has(entry)); // the last one last
  const last = new Map(own.map(delivery => [delivery.device, delivery]));
  const sent = Array.from(last.values(), delivery => {
    const by = isSelf(delivery) ? WORDS.sentByYou : WORDS.sentBy(delivery.account);
    const facts = [toDevice(delivery.device), formatAge(delivery.sent_at), by];
    return h.div(null, joinFacts(facts));
  });
  const consoles = listsOf(title).map(text => h.div(null, text));
  return [
    ["contents", partsText(fewest(parts.filter(isCurrent)))],
    ["added", formatAge(parts[0].created_at)],
    ["sent", sent.length ? sent.reverse() : WORDS.notSentYet],
    consoles.length ? ["consoles", consoles] : [],
    isKnown ? ["age", [renderAgeMenu([title], ageOf(id)), formerAge(title)]] : [],
  ].filter(({length}) => length);
}

/** What consoles have listed of a title, a line for each, with when that was read. */
function listsOf(/** @type {Title} */ title) {
  const ids = new Set(title.parts.flatMap(contentsIn).map(({id}) => id));
  return state.sent
    .filter(each => each.is_listed && each.contents.some(([id]) => ids.has(id)))
    .map(({device, contents, sent_at: time}) => {
      const numbers = new Map(contents);
      const older = olderThere(title, id => numbers.get(id) ?? -1);
      const name = state.devices?.find(({id}) => id === device)?.name || "";
      return joinFacts([name, older, WORDS.thereAt(formatAge(time))]);
    });
}

/** How old the newest update of a title on a console is, if there is a newer one here.
 * @param {Title} title
 * @param {(id: string) => number} numberThere of the version of a content */
function olderThere({parts}, numberThere) {
  const here = parts.flatMap(contentsIn);
  const there = here.map(each => ({...each, number: numberThere(each.id)}));
  const [level, newest] = [levelOf(there), levelOf(here)];
  return level < newest && WORDS.updateThere(level, newest);
}

/** The newest update among contents, as people count them. */
function levelOf(/** @type {{kind?: string, number: number}[]} */ contents) {
  const levels = contents
    .filter(({kind}) => kind !== "add-on")
    .map(each => each.number);
  return Math.floor(Math.max(0, ...levels) / 65536);
}

/** The ids of the parts that the button sends: those that people ticked, or else those
 * that a Send of the title sends and that are not in the queue. */
function ticks(/** @type {Title} */ title) {
  if (state.details.ticked) return state.details.ticked;
  const {ofParts, toSend} = statusOf(title);
  const parts = toSend.filter(part => !isOngoing(ofParts.get(part.id)));
  return new Set(parts.map(part => part.id));
}

/** The button that sends the ticked parts, after what they are. */
function renderSendParts(/** @type {Title} */ title) {
  const ticked = ticks(title);
  const parts = title.parts.filter(part => ticked.has(part.id));
  const {status, ofParts, away} = statusOf(title);
  if (!parts.length && isOngoing(status)) return renderQueuedButton(title);
  const sendTicked = () => {
    const isByHand = state.details.ticked !== null;
    change("details", {ticked: null});
    return sendOrExplain(parts, title.name, 1, isByHand);
  };
  const isAway = away === "offline";
  const isAgain = parts.every(part => ofParts.get(part.id) === "completed");
  return [
    !isAway && h.p("meta", parts.length ? partsText(parts) : WORDS.sendNothing),
    button(
      [glyph("send"), parts.length && isAgain ? WORDS.sendAgain : WORDS.send],
      () => (parts.length || isAway) && sendTicked(),
      {class: "send", key: "send", "aria-disabled": parts.length ? null : "true"},
    ),
  ];
}

function renderParts(/** @type {Title} */ title) {
  const {parts} = title;
  const shown = state.details.showsAllParts ? parts : parts.slice(0, MAX_PARTS);
  const showAll = () => change("details", {showsAllParts: true});
  const offered = shown.filter(isCurrent);
  const row = part => renderPart(title, part);
  return h.section(
    {class: "parts", "aria-label": WORDS.contents},
    parts.every(needsBase) && h.p("note", WORDS.noBase),
    h.ul(null, offered.map(row)),
    offered.length < shown.length && h.h3(null, WORDS.otherFiles),
    h.ul(null, shown.filter(part => part.part).map(row)),
    shown.length < parts.length &&
      button(WORDS.showAllParts(parts.length), showAll, {class: "plain"}),
  );
}

function renderPart(/** @type {Title} */ title, /** @type {Entry} */ part) {
  return h.li(
    {class: part.part ? "part is-replaced" : "part", key: part.id},
    renderPartChoice(title, part),
    h.div("part-actions", renderPartActions(part)),
    state.details.unfolded === part.id && renderFileDetails(part),
  );
}

function renderPartChoice(/** @type {Title} */ title, /** @type {Entry} */ part) {
  const status = statusOf(title).ofParts.get(part.id) || "";
  const sent = deliveryOf(part, sentNow());
  const label = partLabel(title, part);
  const number = parseInt(part.title_id?.slice(-3) || "", 16);
  const meta = [
    part.kind === "add-on" && label !== addOnText(number) && addOnText(number),
    versionText(part),
    fileTypeOf(part),
    sizeOf(part),
    sent && sentText(sent),
  ];
  const isHere = part.state === "here";
  return h.label(
    {
      class: "part-choice",
      onclick: isHere ? null : () => sendOrExplain([], part.name),
    },
    h.input({
      type: "checkbox",
      checked: ticks(title).has(part.id),
      disabled: !isHere,
      "aria-label": part.name,
      onchange: () => change("details", {ticked: toggled(ticks(title), part.id)}),
    }),
    h.span(
      "part-text",
      h.span("part-name", label, renderMarks(marksOfPart(part, status))),
      h.span("meta", joinFacts(meta)),
    ),
  );
}

/** When something was sent and, if by somebody else, by whom. */
function sentText(/** @type {Delivery} */ delivery) {
  const time = formatAge(delivery.sent_at);
  if (delivery.is_listed) return WORDS.thereAt(time);
  return isSelf(delivery) ? WORDS.sentAt(time) : WORDS.sentAtBy(time, delivery.account);
}

function isSelf({account}) {
  return account === state.account.name;
}

function renderPartActions(/** @type {Entry} */ part) {
  const isUnfolded = state.details.unfolded === part.id;
  const unfold = () => {
    change("details", {unfolded: isUnfolded ? "" : part.id});
    return isUnfolded || loadFacts(part.id);
  };
  const edit = async () => {
    change("details", {edited: part.id});
    await loadFacts(part.id);
    if (state.details.edited === part.id) openForm(draftOf(part.id));
  };
  return [
    iconButton("info", WORDS.fileDetails(part.name), unfold, {
      key: "info",
      "aria-expanded": String(isUnfolded),
    }),
    renderDownload(part),
    state.account.admin &&
      iconButton("edit", WORDS.edit(part.name), edit, {key: "edit"}),
  ];
}

function renderDownload(/** @type {any} */ entry) {
  const {id, name, type, state: place, href = `web/download/${id}`} = entry;
  if (place !== "here") return false;
  const isLink = type === "url";
  const label = isLink ? WORDS.openLink(name) : WORDS.download(name);
  return h.a(
    {
      class: "button icon-button",
      key: "download",
      href,
      download: !isLink,
      onclick: isLink ? null : event => downloadIfThere(event, name),
      rel: "noreferrer",
      "aria-label": label,
      title: label,
    },
    glyph("download"),
  );
}

/** Start a download or say why it would fail, which the browser would not. */
function downloadIfThere(event, name) {
  event.preventDefault();
  const {href} = event.currentTarget;
  return attempt(async () => {
    const how = {as: /** @type {const} */ ("blob"), headers: {Range: "bytes=0-0"}};
    await request("GET", href, null, how).catch(({message}) => {
      throw new Problem(WORDS.notDownloaded(name, message));
    });
    Object.assign(document.createElement("a"), {href, download: ""}).click();
  });
}

function renderFileDetails(/** @type {Entry} */ {id}) {
  const {entry} = state.details.facts[id] || {};
  if (!entry) return renderLoading();
  const {format} = entry.metadata;
  const facts = {
    size: entry.size ? WORDS.units.B(entry.size) : WORDS.unknownSize,
    ...entry.metadata,
    ...(format && {format: formatName(format)}),
    added: formatTime(entry.created_at),
    by: entry.created_by === "scanner" ? WORDS.scanner : entry.created_by,
    id,
    source: entry.source,
  };
  const known = Object.entries(facts).filter(([name]) => name in WORDS.fields);
  return h.dl({key: "facts"}, known.map(renderFact));
}

/** What the bytes of a file are, where its ending says otherwise. */
function formatName(format) {
  return WORDS.noPackages[format] || format.toUpperCase();
}

/** @param {any[]} fact its name in WORDS.fields, and its value */
function renderFact([name, value]) {
  return h.div(
    {key: name, class: name === "source" ? "wide-field" : null},
    h.dt(null, WORDS.fields[name]),
    h.dd(null, value),
  );
}

function renderEdit(/** @type {Entry} */ {id, kind, type, base_id: base}) {
  const {entry, file} = state.details.facts[id];
  const {name} = entry;
  const {version, description} = entry.metadata;
  const now = {name, version, description, kind, base_id: base};
  const kinds = ["", "base", "update", "add-on", "homebrew"].map(each => [
    ...[each, WORDS.kinds[each] || WORDS.unknownKind, each === kind],
  ]);
  const text = (label, key, props) => {
    const has = file[key];
    const hint = has && has !== (now[key] || "") ? WORDS.fileHas(has) : "";
    return field(label, key, {...props, defaultValue: now[key]}, hint);
  };
  return form(
    draftOf(id),
    fields => edit(id, fields, now),
    h.h2(null, WORDS.edit(name)),
    text(WORDS.name, "name", {...ENTRY_NAME, ...OPENED}),
    h.div(
      "pair",
      text(WORDS.version, "version", ENTRY_VERSION),
      selectField(WORDS.kind, "kind", kinds),
      text(WORDS.baseId, "base_id", TITLE_ID),
    ),
    field(WORDS.description, "description", {rows: "5", defaultValue: description}),
    h.div(
      "actions",
      h.button("primary", WORDS.save),
      renderCancel(draftOf(id), () => openForm("")),
      type === "url"
        ? renderRemoveLink(id, name)
        : renderUndoEdits(state.details.facts[id]),
      isDraft(formOf(draftOf(id))) && h.p("meta", WORDS.notSaved),
    ),
  );
}

/** The name of the form that edits a part. */
function draftOf(id) {
  return `edit-${id}`;
}

/** Change what differs from `before`. */
function edit(id, fields, before) {
  const changed = Object.entries(fields).filter(
    ([name, text]) => text !== (before[name] || ""),
  );
  return saveEdits(id, Object.fromEntries(changed));
}

async function saveEdits(id, fields) {
  await changeEntry(id, "", fields);
  toast(WORDS.saved);
}

function renderUndoEdits(/** @type {Facts} */ {entry, file}) {
  const {id, name, metadata} = entry;
  const now = {...metadata, name: withoutEnding(name)};
  const fields = ["name", "version", "description", "kind", "base_id"];
  if (fields.every(field => (now[field] || "") === (file[field] || ""))) return false;
  return button(WORDS.undoEdits, () => undoEdits(id), {class: "plain"});
}

async function undoEdits(id) {
  const {edits} = await changeEntry(id, "/undo");
  forgetDraft(draftOf(id));
  const undo = () => saveEdits(id, edits);
  tell({kind: "edits", names: {[id]: ""}, say: () => WORDS.editsUndone, undo});
}

/** The edited part may belong to another title then, so its own id is opened. */
async function changeEntry(id, path, fields) {
  const answer = await call("POST", `web/entries/${id}${path}`, fields);
  await poll("entries");
  if (isOpened(id)) openTitle(id);
  return answer;
}

/** Whether the details are open for a part or its form: they may have been closed. */
function isOpened(id) {
  const {id: opened} = state.details;
  return Boolean(opened) && (opened === id || state.openForm === draftOf(id));
}

function renderRemoveLink(id, name) {
  const remove = async () => {
    await call("DELETE", `web/links/${id}`);
    if (isOpened(id)) closeDetails();
    await poll("entries");
  };
  const question = WORDS.removeLinkQuestion(name);
  return askingButton(WORDS.removeLink, name, question, remove);
}

// Views: the queue

function isOpen(/** @type {QueueItem} */ item) {
  return waits(item) || item.status === "processing";
}

function waits(/** @type {QueueItem} */ item) {
  return item.status === "pending" || item.status === "offered";
}

/** Those of the account. */
function openItems() {
  return (state.items || NOTHING).filter(item => item.is_own && isOpen(item));
}

/** How many rows of the account are open. */
function countOpen() {
  return new Set(openItems().map(item => keyOfRow(item))).size;
}

/** The queue item that a device is receiving now, or undefined. */
function currentItem() {
  return openItems().find(item => item.status === "processing");
}

/** @returns {QueueRow[]} that the account sees and that have not ended */
function openRows() {
  return rowsOf((state.items || NOTHING).filter(isOpen));
}

/** Those that have ended, the last one first. */
function finishedItems(/** @type {QueueItem[]} */ items) {
  const finished = items.filter(item => !isOpen(item)).reverse();
  return finished.sort((a, b) => compareTexts(b.ended_at, a.ended_at));
}

/** @typedef {{
 *   key: string, name: string, place: string | null, items: QueueItem[],
 *   ways?: Record<string, string | null>,
 * }} QueueRow of what one account sends of a title to one place: what is open, after
 * what has ended of the same send; or what has ended. The ways are keys of WORDS.moves
 * that it may go, each with the item whose place it takes */

/** The open rows, in the order of the queue, then the others, the last one first. */
function rowsOf(/** @type {QueueItem[]} */ items) {
  const open = items.filter(isOpen);
  const sends = new Set(open.map(item => keyOfRow(item, item.created_at)));
  const keyIn = item => {
    const send = keyOfRow(item, item.created_at);
    return sends.has(send) && item.status !== "cancelled" ? keyOfRow(item) : send;
  };
  const groups = groupBy([...open, ...finishedItems(items)], keyIn);
  return Array.from(groups, ([key, all]) => {
    const ended = all.filter(item => !isOpen(item)).reverse();
    return rowOf(key, [...ended, ...all.filter(isOpen)]);
  });
}

/** @returns {QueueRow} */
function rowOf(key, /** @type {QueueItem[]} */ items) {
  const [{name, title}] = items;
  const whole = items.length > 1 && findTitle(title)?.name;
  return {key, name: whole || name, place: placeOf(items[0]), items};
}

function keyOfRow(/** @type {QueueItem} */ item, send = "") {
  return [item.title, item.account, placeOf(item), item.freed_from, send].join();
}

function isSending(/** @type {QueueRow} */ {items}) {
  return items.some(item => item.status === "processing");
}

/** What a progress bar shows of all its parts, without those that have failed.
 * @returns {Figures} */
function figuresOf(/** @type {QueueRow} */ {name, items}) {
  const parts = items.filter(item => isOpen(item) || item.status === "completed");
  const sum = of => parts.reduce((total, part) => total + of(part), 0);
  const size = totalSize(parts);
  const bytes = sum(part => (part.status === "completed" ? part.size : bytesNow(part)));
  const speed = sum(part => (part.status === "processing" ? part.speed : 0));
  const percent = size ? Math.min((100 * bytes) / size, 100) : parts[0]?.percent || 0;
  return {name, size, bytes, speed, percent};
}

const FLOW_PAUSE = 250; // milliseconds between two drawings of what flows
const MAX_FLOW_SECONDS = 5; // for which the last speed is believed
const CATCH_UP = 1000; // milliseconds in which a drawing reaches what is known
/** What was drawn last of each item, and what had been reported then.
 * @type {Map<string, {drawn: number, told: number, at: number}>} */
const flowing = new Map();

/** The bytes of an item to draw now. They flow to what was reported and its speed has
 * brought since, never beyond, and go back only where the item begins again. */
function bytesNow(/** @type {QueueItem} */ {id, status, bytes: told, speed, size}) {
  if (status !== "processing" || isStill()) return told;
  const at = performance.now();
  const seconds = Math.min((at - state.toldAt) / 1000, MAX_FLOW_SECONDS);
  const most = Math.min(told + (state.connected ? speed * seconds : 0), size || told);
  const last = flowing.get(id);
  const from = last && told >= last.told ? last : {drawn: told, at};
  const share = Math.min((at - from.at) / CATCH_UP, 1);
  const drawn = from.drawn + Math.max(0, most - from.drawn) * share;
  flowing.set(id, {drawn, told, at});
  return drawn;
}

/** First what moves, then what waits for each device, what failed, the devices without
 * anything to do, and what is finished. */
function renderQueue() {
  const heading = h.h1({key: "h1"}, WORDS.queue);
  const {items, devices} = state;
  if (!items || !devices) return [heading, renderLoaded("changes", null)];
  const rows = rowsOf(items);
  const failed = rows.filter(hasFailed);
  const finished = rows.filter(row => !row.items.some(isOpen) && !hasFailed(row));
  const link = h.a(
    {class: "button", href: "#library"},
    isChild() ? viewName("library") : WORDS.toLibrary,
  );
  const moving = [
    renderLanes(rows.filter(isSending)),
    renderGroups(rows.filter(isWaiting), devices),
  ].filter(Boolean);
  const ended = [
    failed.length > 0 && renderRows("failed", WORDS.states.failed, failed),
    !isChild() && renderIdle(devices),
    finished.length > 0 && renderFinished(finished),
  ].filter(Boolean);
  return [
    h.div({class: "head", key: "head"}, heading, renderQueueMenu(items)),
    renderFreed(freedItems()),
    !reachable().length && !isChild() && renderHint(),
    !rows.length && renderEmpty(WORDS.emptyQueueTitle, WORDS.emptyQueueText, link),
    h.div(
      {class: moving.length && ended.length ? "board has-both" : "board", key: "board"},
      moving.length > 0 && h.div({class: "moving", key: "moving"}, moving),
      ended.length > 0 && h.div({class: "ended", key: "ended"}, ended),
    ),
  ];
}

function renderRows(key, title, /** @type {QueueRow[]} */ rows) {
  return h.section(
    {key, class: "items"},
    h.div("head", h.h2(null, title)),
    h.ul(null, rows.map(renderQueueRow)),
  );
}

/** What can be done with many rows at once. */
function renderQueueMenu(/** @type {QueueItem[]} */ items) {
  const own = finishedItems(items).filter(item => item.is_own);
  const pending = openItems().filter(item => item.status === "pending");
  const shown = {items: own.map(({id}) => id), before: own.at(-1)?.ended_at};
  const {length: failed} = own.filter(item => item.status === "failed");
  const deeds = [
    [failed > 1, WORDS.retryFailed, () => changeQueue("retry")],
    [own.length, WORDS.clear, () => endItems("clear", shown, own)], // and all before
    [pending.length > 1, WORDS.cancelAll, () => endItems("cancel", {}, pending)],
  ].filter(([isShown]) => isShown);
  const buttons = () =>
    deeds.map(([, label, act]) => button(label, act, {class: "plain", key: label}));
  return deeds.length > 0 && renderMenu("all", WORDS.queue, buttons);
}

/** Whether it has ended, and not well. */
function hasFailed(/** @type {QueueRow} */ {items}) {
  return !items.some(isOpen) && items.some(item => item.status === "failed");
}

/** The id of the device that an item is for, that has taken it, or that will, since its
 * account has no other. */
function placeOf(/** @type {QueueItem} */ item) {
  const isPending = item.status === "pending" && item.freed_from === null;
  const takers = isPending ? takersOf(state.devices || NOTHING, item.account) : [];
  if (takers.length === 1) return item.device || takers[0].id;
  return item.device || (item.status === "pending" ? null : item.key);
}

const takersOf = memo((devices, account) =>
  devices.filter(each => each.account === account),
);

/** What waits for each device, in the order of the lanes, and then for any. */
function renderGroups(/** @type {QueueRow[]} */ rows, /** @type {Device[]} */ devices) {
  const others = rows.filter(row => !deviceOf(row.place));
  const isFreed = ({items}) => items.some(item => item.freed_from);
  const rest = others.filter(row => !isFreed(row));
  const placeIn = row => row.place;
  const lanes = openRows().filter(isSending).map(placeIn);
  const at = ({id}) => lanes.indexOf(id) >>> 0; // the last where it has no lane
  const ordered = [...devices].sort((a, b) => at(a) - at(b));
  const hasNone = isChild() && !devices.length; // others are offered one
  const note = hasNone && h.p("waits", WORDS.waitsForDevice);
  const groups = [
    ...ordered.map(device => renderDeviceGroup(device, lanes.includes(device.id))),
    renderGroup("choice", WORDS.waitsForChoice, others.filter(isFreed)),
    renderGroup("any", devices.length ? WORDS.anyDevice : WORDS.toSend, rest, note),
  ].filter(Boolean);
  return groups.length > 0 && h.div({class: "groups", key: "groups"}, groups);
}

/** @param {Device} device
 * @param {boolean} isTold how it is, by its lane, which pauses it too */
function renderDeviceGroup(device, isTold) {
  const open = openRows().filter(row => row.place === device.id);
  const facts = [!isTold && renderDeviceState(device), totalsText(open, device)];
  const head = [renderDeviceHead(device, facts), !isTold && renderPause(device)];
  const {kind, when} = statusOfDevice(device);
  const isAway = kind === "new" || kind === "away"; // else it is told beside it
  const note = isAway ? h.p("waits", when) : renderTargetNote(device);
  return renderGroup(device.id, head, open.filter(isWaiting), note);
}

/** @param {QueueRow[]} waiting
 * @param {any} head or a heading */
function renderGroup(key, head, waiting, note = /** @type {any} */ ("")) {
  if (!waiting.length) return false;
  const totals = h.p("meta", totalsText(waiting));
  const isHeading = typeof head === "string";
  return h.section(
    {key, class: "items"},
    h.div("head", isHeading ? h.div("device-text", h.h2(null, head), totals) : head),
    note,
    renderWaiting(waiting),
  );
}

/** @param {QueueRow[]} waiting rows of a group */
function renderWaiting(waiting) {
  const last = waiting.length - 1;
  const waysAt = n => ({
    ...(n > 0 && {top: null, up: waiting[n - 1].items.find(isOpen)?.id}),
    ...(n < last && {down: waiting[n + 1].items.at(-1)?.id}),
  });
  const rows = waiting.map((row, n) => lazyRow({...row, ways: waysAt(n)}));
  return h.ul({key: "waiting"}, rows);
}

function isWaiting(/** @type {QueueRow} */ row) {
  return row.items.some(isOpen) && !isSending(row);
}

/** Such as "7 waiting, 3.9 GB, about 4 min", as far as it is known.
 * @param {QueueRow[]} rows that are open
 * @param {Device} [device] that they wait for */
function totalsText(rows, device) {
  const waiting = rows.filter(isWaiting);
  if (!waiting.length) return "";
  const open = rows.flatMap(row => row.items).filter(isOpen);
  const left = totalSize(open) - open.reduce((sum, {bytes}) => sum + bytes, 0);
  const speed = device ? speedOf(device.id) : 0;
  const size = totalSize(waiting.flatMap(row => row.items).filter(isOpen));
  const isKnown = speed > 0 && open.every(item => item.size && item.state === "here");
  const totals = [
    WORDS.waiting(waiting.length),
    size > 0 && !isChild() && formatBytes(size),
    isKnown && !whenBack(device) && WORDS.about(formatDuration(left / speed)),
  ];
  return joinFacts(totals, WORDS.between.items);
}

/** Bytes per second of what is being sent or, if that is nothing, was sent last.
 * @param {string} device its id */
function speedOf(device) {
  const items = (state.items || NOTHING).filter(item => placeOf(item) === device);
  const sending = items.filter(item => item.status === "processing");
  if (sending.length) return sending.reduce((sum, {speed}) => sum + speed, 0);
  const sent = finishedItems(items).filter(item => item.status === "completed");
  return sent.find(item => item.speed > 0)?.speed || 0;
}

/** The head of a device in lanes, queue, popover and settings.
 * @param {Device} device
 * @param {any} facts of it */
function renderDeviceHead(device, facts) {
  return [
    h.span("device-icon", glyph(device.by_server ? "device" : "card")),
    h.div(
      "device-text",
      h[state.view === "settings" ? "h3" : "h2"](null, deviceName(device)),
      h.p("meta", facts),
    ),
  ];
}

/** How a device is, unless its note says that, which a child has not. */
function renderDeviceState(/** @type {Device} */ device) {
  const {kind, tone, text} = statusOfDevice(device);
  return (kind !== "missed" || isChild()) && h.span(`mark ${tone}`, text);
}

/** What a device is: a console, for an admin with its address, or a card. */
function addressText(/** @type {Device} */ {address, by_server: isConsole}) {
  const host = address?.replace(/^\w+:\/\/|\/.*$/g, "");
  const {name} = WORDS.targets[isConsole ? "console" : "folder"];
  return host ? WORDS.consoleAt(host) : name;
}

/** The devices for which nothing waits, in a line; each opens its card. */
function renderIdle(/** @type {Device[]} */ devices) {
  const busy = new Set(openRows().map(row => row.place));
  const idle = devices.filter(device => !busy.has(device.id) && device.is_own);
  if (!idle.length) return false;
  return h.div(
    {class: "chips idle", key: "idle", "aria-label": WORDS.devices, role: "group"},
    idle.map(device => {
      const name = deviceName(device);
      const content = [name, renderDeviceState(device)];
      const own = {class: "chip", key: device.id};
      const chip = (open, props) => button(content, open, {...props, ...own});
      const card = () => h.ul(null, renderDevice(device));
      return renderMenu(`idle-${device.id}`, name, card, chip);
    }),
  );
}

function renderPause(/** @type {Device} */ device) {
  if (!mayEdit(device)) return false;
  const {id, name} = device;
  const pause = () => changeDevice(id, {paused: !isPaused(device)});
  return isPaused(device)
    ? iconButton("play", WORDS.resumeName(name), pause, {key: "pause"})
    : iconButton("pause", WORDS.pauseName(name), pause, {key: "pause"});
}

function changeDevice(id, fields) {
  return changeRow("POST", `devices/${id}`, fields);
}

function mayEdit(/** @type {Device} */ {is_own: isOwn}) {
  return isOwn || state.account.admin;
}

/** What waits until somebody chooses a device for it. */
function freedItems() {
  return openItems().filter(item => item.freed_from !== null);
}

/** @param {QueueItem[]} items that are freed */
function textOfFreed(items) {
  const names = LIST.format(new Set(items.map(item => item.freed_from || "")));
  const {size} = new Set(items.map(item => keyOfRow(item)));
  return names ? WORDS.freed(size, names) : WORDS.freedOfOne(size);
}

/** @param {string} device its id, or "any" */
function sendFreed(device) {
  return changeQueue("device", {device: device === "any" ? null : device});
}

function cancelFreed() {
  return endItems("cancel", {freed: true}, freedItems());
}

/** What lost its device, and where all of it may go. */
function renderFreed(/** @type {QueueItem[]} */ items) {
  if (!items.length) return false;
  const devices = otherDevices(items[0]);
  const label = WORDS.sendAllTo;
  return h.aside(
    {class: "hint", key: "freed"},
    h.p(null, textOfFreed(items)),
    devices.length > 0 && renderSelect(label, label, devices, sendFreed),
    button(WORDS.cancelThem, cancelFreed, {class: "plain"}),
  );
}

/** Remove a device, and ask once what becomes of the items that waited for it. */
async function removeDevice(/** @type {Device} */ {id, name}) {
  await changeRow("DELETE", `devices/${id}`);
  await poll("queue");
  const items = freedItems();
  if (!items.some(item => item.freed_from === name)) return;
  const devices = otherDevices(items[0]).slice(0, MAX_CHOICES);
  const choices = devices.map(([device, label]) => ({
    yes: device === "any" ? label : WORDS.sendThemTo(label),
    act: () => sendFreed(device),
  }));
  choices.push({yes: WORDS.cancelThem, act: cancelFreed});
  ask({text: textOfFreed(items), no: WORDS.decideLater, choices});
}

function renderFinished(/** @type {QueueRow[]} */ rows) {
  const hasMore = state.finished > finishedItems(state.items || NOTHING).length;
  const showMore = () => {
    change("queue", {finishedShown: state.queue.finishedShown + FINISHED_STEP});
    return poll("changes");
  };
  return [
    renderRows("finished", WORDS.finished, rows),
    hasMore && button(WORDS.moreFinished, showMore, {key: "more"}),
  ];
}

/** Cancel or clear items. It can be undone. */
async function endItems(path, body, /** @type {QueueItem[]} */ items) {
  const {undo: action} = await changeQueue(path, body);
  const undo = async () => {
    await changeQueue("undo", {undo: action});
    const lost = item =>
      !item.bytes && items.some(({id, bytes}) => bytes && id === item.id);
    const again = namesOf(openItems().filter(lost));
    tell({kind: "again", names: again, say: WORDS.startsAgain});
  };
  const names = namesOf(items);
  if (path !== "clear")
    tell({kind: "cancelled", names, say: WORDS.itemCancelled, undo});
  else tell({kind: path, names, say: () => WORDS.cleared, undo});
}

/** What items are of, by the ids of their titles. */
function namesOf(/** @type {QueueItem[]} */ items) {
  const names = /** @type {Record<string, string>} */ ({});
  for (const {title, name} of items)
    names[title] = (title in names && findTitle(title)?.name) || withoutEnding(name);
  return names;
}

function renderHint() {
  const note = h.p(null, WORDS.noDevice);
  return h.aside({class: "hint", key: "hint"}, note, addDeviceButton());
}

function addDeviceButton(style = "primary", icon = "device") {
  return button([glyph(icon), WORDS.addDevice], addDevice, {class: style});
}

function percentOf(/** @type {Figures} */ item) {
  return Math.floor(item.percent);
}

/** Percent, remaining time, speed and bytes, as far as they are known. */
function progressFacts(/** @type {Figures} */ figures) {
  const {percent, bytes, size, speed} = figures;
  return [
    WORDS.percent(Math.floor(percent)),
    leftText(figures),
    speed > 0 && WORDS.speed(formatBytes(speed)),
    size ? WORDS.bytesOf(formatBytes(bytes), formatBytes(size)) : formatBytes(bytes),
  ].flatMap(fact => (fact ? fact.replaceAll(" ", "\xA0") : []));
}

/** How long it still takes, or "" where that is not known. */
function leftText(/** @type {Figures} */ {bytes, size, speed}) {
  const left = size - bytes;
  return speed > 0 && left > 0 ? WORDS.left(formatDuration(left / speed)) : "";
}

function renderProgress(/** @type {Figures} */ item) {
  return h.span(
    {
      ...{class: "progress", role: "progressbar", "aria-label": item.name},
      ...{"aria-valuemin": "0", "aria-valuemax": "100"},
      "aria-valuenow": percentOf(item),
    },
    h.span({style: {transform: `scaleX(${item.percent / 100})`}}),
  );
}

/** A row that waits, which a poll draws again only where it has changed. */
function lazyRow(/** @type {QueueRow} */ row) {
  const {key, items} = row;
  const facts = [row, otherDevices(items[0]), items.map(mayChange), isUnfolded(row)];
  const {busy, brokenIcons, menu} = state;
  const isOpen = menu === `menu-${key}`;
  const title = findTitle(items[0].title);
  const from = [JSON.stringify(facts), title, busy, brokenIcons, isOpen, LOCALE];
  return lazy(key, from, () => renderQueueRow(row));
}

function renderQueueRow(/** @type {QueueRow} */ row) {
  return h.li(
    {class: hasFailed(row) ? "item is-failed" : "item", key: row.key},
    h.span("entry-cover", renderRowCover(row)),
    renderRowText(row, h.h3(null, withoutEnding(row.name))),
    renderRowButtons(row),
    renderRowParts(row),
  );
}

function isUnfolded(/** @type {QueueRow} */ {key, items}) {
  return items.length > 1 && state.queue.unfolded.has(key);
}

function renderRowParts(/** @type {QueueRow} */ row) {
  const parts = isUnfolded(row) && row.items.map(renderRowPart);
  return parts && h.ul({class: "row-parts", key: "parts"}, parts);
}

function renderRowCover(/** @type {QueueRow} */ {items}) {
  const title = findTitle(items[0].title);
  return title ? renderCover(title) : renderDrawing(items[0].title);
}

/** What is being sent: a lane for each title. */
function renderLanes(/** @type {QueueRow[]} */ rows) {
  const lane = row => renderLane(row, true);
  return rows.length > 0 && h.ul({class: "lanes", key: "lanes"}, rows.map(lane));
}

const FURTHER_LANES = ["(min-width: 45em)", "(min-width: 68em)"]; // in the dock

/** What is being sent, and the undo of a send, at the bottom of the window: as in the
 * player of a music app, nothing else moves when one begins or ends. The queue has the
 * lanes itself. */
function renderDock() {
  const rows = state.view === "queue" ? [] : openRows().filter(isSending);
  const inLanes = rows.map(noteOf);
  const isShown = each => isOfDock(each) && !each.isOld && !inLanes.includes(each);
  const notes = layerOnTop() === "page" ? state.toasts.filter(isShown) : [];
  const further = FURTHER_LANES.filter(width => matchMedia(width).matches).length;
  const most = Math.max(0, 1 + further - notes.length);
  const left = rows.length - most;
  const more = {
    class: "more-lanes",
    href: "#queue",
    "aria-label": WORDS.moreSending(left),
  };
  if (!rows.length && !notes.length) return offersDevice() && renderOffer();
  return h.section(
    {class: "dock", key: "dock", "aria-label": WORDS.sendingNow},
    h.ul(
      null,
      rows.slice(0, most).map(row => renderLane(row, false)),
      notes.map(renderNote),
    ),
    left > 0 && h.a(more, `+${NUMBER.format(left)}`),
  );
}

/** Whether the dock, which is empty, is where an admin adds a first device. */
function offersDevice() {
  const {account, view, devices, entries} = state;
  const isLibrary = view === "library" && Boolean(entries?.length && devices);
  return isLibrary && account.admin && !reachable().length;
}

function renderOffer() {
  const note = h.p("lane-text", WORDS.noDevice);
  return h.section(
    {class: "dock", key: "dock", "aria-label": WORDS.addDevice},
    h.div("lane note-lane offer", note, h.div("lane-buttons", addDeviceButton())),
  );
}

/** That titles were queued, for a while. */
function renderNote(/** @type {Toast} */ {id, text, names, actions}) {
  const [title] = Object.keys(names).map(findTitle);
  return h.li(
    {class: "lane note-lane", key: `note-${id}`},
    title && h.span("entry-cover", renderCover(title)),
    h.p({class: "lane-text", role: "status"}, text),
    h.div("lane-buttons", renderActions(id, actions)),
  );
}

/** The toast of the send that a row is of, and of no other title. */
function noteOf(/** @type {QueueRow} */ {items}) {
  const id = findTitle(items[0].title)?.id || "";
  const isOf = ({names}) => id in names && Object.keys(names).length === 1;
  return state.toasts.filter(isOfDock).find(isOf);
}

function renderLaneHead(/** @type {Device} */ device) {
  const mark = isPaused(device) && renderDeviceState(device);
  return h.div("lane-head", renderDeviceHead(device, mark), renderPause(device));
}

/** A title that is being sent. In the dock, it leads to the queue.
 * @param {QueueRow} row
 * @param {boolean} isQueue whether it is there */
function renderLane(row, isQueue) {
  const device = deviceOf(row.place);
  const name = withoutEnding(row.name);
  const place = !isQueue && device && deviceName(device);
  const isFull = isQueue && !isChild();
  const facts = isFull ? progressFacts : figures => ["", leftText(figures)];
  const text = () => joinFacts([place, ...facts(figuresOf(row)).slice(1)]);
  const percent = () => WORDS.percent(percentOf(figuresOf(row)));
  const note = isQueue ? undefined : noteOf(row);
  const undo = note?.actions.filter(({label}) => label === WORDS.undo) || [];
  const link = h.a({class: "entry-name", href: "#queue", title: WORDS.queue}, name);
  return h.li(
    {class: "lane", key: row.key},
    renderGlow(renderRowCover(row)),
    isQueue && device && renderLaneHead(device),
    h.span("entry-cover", renderRowCover(row)),
    h.div(
      "lane-text",
      isQueue ? h[device ? "h3" : "h2"](null, name) : link,
      isQueue && renderUnfold(row),
      h.p("meta figures", live(text)),
      isQueue && renderOutcome(row),
    ),
    h.p("percent", live(percent)),
    live(() => renderProgress(figuresOf(row))),
    isQueue && h.div("lane-buttons", renderRowButtons(row)),
    note && h.div("lane-buttons", renderActions(note.id, undo)),
    isQueue && renderRowParts(row),
  );
}

/** A row of its own for one part of a row. */
function renderRowPart(/** @type {QueueItem} */ item) {
  const row = {...rowOf(item.id, [item]), place: null};
  const [title, part] = [findTitle(item.title), partOf(item)];
  const label = title && part ? partLabel(title, part) : withoutEnding(item.name);
  return h.li(
    {class: "item", key: item.id},
    renderRowText(row, h.h4(null, label)),
    renderRowButtons(row),
  );
}

function partOf(/** @type {QueueItem} */ {title, entry}) {
  return findTitle(title)?.parts.find(({id}) => id === entry);
}

function renderRowText(/** @type {QueueRow} */ row, /** @type {VNode} */ heading) {
  const flows = () => {
    const figures = figuresOf(row); // of one part of a row
    return [h.p("percent", progressFacts(figures)[0]), renderProgress(figures)];
  };
  return h.div(
    "item-text",
    heading,
    renderUnfold(row),
    isSending(row) && live(flows),
    renderOutcome(row),
  );
}

/** How parts of a row have ended, and what else is known. */
function renderOutcome(/** @type {QueueRow} */ row) {
  const {items} = row;
  const told = isUnfolded(row) ? [] : items;
  const ends = renderEnds(items);
  const facts = joinFacts(rowFacts(row));
  return [
    (ends.length > 0 || facts) && h.p("meta", ends, facts && h.span(null, facts)),
    !isChild() && renderReasons(told),
  ];
}

/** Why parts of a row have failed, and what to do. */
function renderReasons(/** @type {QueueItem[]} */ told) {
  const failed = told.filter(item => item.status === "failed");
  const tried = told.filter(item => isOpen(item) && item.error);
  const noted = told.filter(item => item.status === "completed" && item.error);
  return [
    [...new Set(failed.map(whyFailed))].map(why => h.p("error", why)),
    [...new Set(failed.map(remedyOf))].map(remedy => remedy && h.p("remedy", remedy)),
    tried.length > 0 && h.p("error", WORDS.lastAttempt(whyFailed(tried[0]))),
    noted.map(item => h.p("meta", whyFailed(item))),
  ];
}

/** What to do about a failure, where its sentence does not say that. It may have the
 * reason in it.
 * @param {any} failure a Coded, or a part of one, which has a `code` */
function remedyOf({reason = "", code = reason, arguments: {why} = {}}) {
  return WORDS.remedies[code] || (why?.code ? remedyOf(why) : "");
}

/** The button that shows the parts of a row, such as "game, update and 2 add-ons". */
function renderUnfold(/** @type {QueueRow} */ {key, items}) {
  if (items.length < 2 || isChild()) return false;
  const parts = items.map(item => partOf(item) || {type: "filepath"});
  const unfold = () => change("queue", {unfolded: toggled(state.queue.unfolded, key)});
  return button([h.span(null, countParts(parts)), glyph("unfold")], unfold, {
    ...{class: "unfold", key: "unfold", title: WORDS.contents},
    "aria-expanded": String(state.queue.unfolded.has(key)),
  });
}

/** How many parts have ended in which way, where that is not the same for all.
 * @param {QueueItem[]} items of a row */
function renderEnds(items) {
  const marks = Object.entries(WORDS.states).map(([status, text]) => {
    const {length} = items.filter(item => item.status === status);
    const told = length < items.length ? WORDS.countedStates[status](length) : text;
    return length > 0 && h.span(`mark ${TONES[status] || ""}`, told);
  });
  return marks.filter(Boolean);
}

function rowFacts(/** @type {QueueRow} */ row) {
  const {items} = row;
  const sender = !items[0].is_own && WORDS.sender(items[0].account);
  const open = items.filter(isOpen);
  if (!open.length) {
    const end = items.reduce((last, item) => item.ended_at || last, "");
    const place = !hasFailed(row) && toDevice(row.place); // else it is told above
    return [place, end && formatAge(end), sender];
  }
  const waiting = open.filter(waits).length;
  if (isSending(row)) {
    const isWhole = ({status, size, bytes}) =>
      status === "processing" && size > 0 && bytes >= size;
    const finishing = open.some(isWhole) && WORDS.finishing;
    return [finishing, waiting > 0 && WORDS.waiting(waiting), sender];
  }
  const {bytes, size} = figuresOf(row);
  const amount = WORDS.bytesOf(formatBytes(bytes), sizeOf({size}));
  return [
    !isChild() && (bytes ? WORDS.areThere(amount) : sizeOf({size})),
    sender,
    open.some(item => item.status === "offered") && WORDS.offered,
    open.some(item => item.freed_from) && WORDS.waitsForChoice,
    open.some(item => item.state === "offline") && WORDS.waitsForDisk,
    open.some(item => item.state === "gone") && WORDS.goneText,
  ];
}

const IN_THE_WAY = ["other_file", "same_size_file", "file_unknown"]; // to replace

/** The folders of a console whose own takes no file, to send there from now on. */
function renderFolderDeeds(/** @type {QueueItem[]} */ ended, name) {
  const failed = ended.find(({reason}) => reason === "ftp_no_files");
  const device = state.devices?.find(({id}) => id === failed?.device);
  const {folder = "", folders = ""} = failed?.arguments || {};
  if (!state.account.admin || !device?.address) return [];
  const top = `${device.address.replace(/(:\/\/[^/]*)\/.*/, "$1")}${folder}`;
  const choose = async each => {
    const target = `${top.replace(/\/$/, "")}/${encodeURIComponent(each)}`;
    await changeDevice(device.id, {target});
    await changeItems(ended, "retry");
  };
  const names = String(folders).split(", ");
  return names.map(each =>
    rowButton(WORDS.sendToFolder(each), name, () => choose(each)),
  );
}

/** Whether a later item has the same entry for the same place. */
function wasSentAnew(/** @type {QueueItem} */ item) {
  return (state.items || NOTHING).some(
    each =>
      each.entry === item.entry &&
      keyOfRow(each) === keyOfRow(item) &&
      each.created_at > item.created_at,
  );
}

/** At most one button, and a menu of what else can be done with a row. */
function renderRowButtons(/** @type {QueueRow} */ row) {
  const {key, name} = row;
  const items = row.items.filter(mayChange);
  const open = items.filter(isOpen);
  const over = items.filter(item => !isOpen(item) && item.status !== "completed");
  const ended = over.filter(item => !wasSentAnew(item));
  const other = ended.find(item => IN_THE_WAY.includes(item.reason || ""));
  const replace = () => changeQueue(`${other?.id}/replace`);
  const replaceIt = askingButton(WORDS.replace, name, WORDS.replaceFile(name), replace);
  const retry = () => changeItems(ended, "retry");
  const ids = open.map(({id}) => id).join();
  const cancel = () => endItems(`${ids}/cancel`, {}, open);
  const cleared = {items: over.map(({id}) => id), before: "0"};
  const clear = () => endItems("clear", cleared, over);
  const deeds = [
    ...(isSending(row) ? [] : renderMoves(row, items)),
    open.length > 0 && ended.length > 0 && rowButton(WORDS.tryAgain, name, retry),
    hasFailed(row) && other && rowButton(WORDS.tryAgain, name, retry),
    open.length > 0 && other && replaceIt,
    ...renderFolderDeeds(ended, name),
    hasFailed(row) && rowButton(WORDS.remove, name, clear),
  ].filter(Boolean);
  return [
    open.length > 0 &&
      iconButton("close", WORDS.cancelName(name), cancel, {key: "cancel"}),
    !open.length && ended.length > 0 && (other ? replaceIt : retryButton(name, retry)),
    deeds.length > 0 && renderMenu(key, name, () => deeds),
  ];
}

function retryButton(name, retry) {
  const label = WORDS.actionOn(WORDS.tryAgain, name);
  const props = {class: "send is-again", key: "retry", "aria-label": label};
  return button([glyph("retry"), WORDS.tryAgain], retry, props);
}

/** Whether it is the account's item, or one for its device; an admin may change all. */
function mayChange(/** @type {QueueItem} */ {is_own: isOwn, device}) {
  const isOwner = ({id, is_own: isOwnDevice}) => id === device && isOwnDevice;
  return isOwn || state.account.admin || Boolean(state.devices?.some(isOwner));
}

/** The other devices that the item's sender may send to, by their names.
 * @param {QueueItem} item */
function otherDevices({device, freed_from: freed, account, is_own: isOwn}) {
  const devices = (state.devices || []).filter(
    other => other.id !== device && (other.shared || other.account === account),
  );
  const names = devices.map(other => [other.id, deviceName(other)]);
  const mayBeAny = (device || freed) && isOwn && names.length;
  return mayBeAny ? [...names, ["any", WORDS.anyDevice]] : names;
}

/** Buttons for the places that a row can be moved to.
 * @param {QueueRow} row
 * @param {QueueItem[]} items of it */
function renderMoves({ways = {}, name}, items) {
  const pending = items.filter(item => item.status === "pending");
  if (!pending.length) return [];
  const ids = pending.map(({id}) => id);
  const moves = Object.entries(ways).map(([way, to]) => {
    const move = () => changeQueue("move", {items: ids, to});
    return rowButton(WORDS.moves[way], name, move, {"data-stays": true});
  });
  const devices = otherDevices(pending[0]).map(([id, label]) => {
    const device = id === "any" ? null : id;
    return rowButton(label, name, () => changeItems(pending, "device", {device}));
  });
  return [...moves, devices.length > 0 && h.p("meta", WORDS.sendTo), ...devices];
}

/** Open a closed menu by the keys that would choose from it at once. */
function openMenu(/** @type {KeyboardEvent & {target: HTMLSelectElement}} */ event) {
  const {key, target, altKey, ctrlKey, metaKey} = event;
  const chooses = /^(Arrow|Page|Home|End|[^ ]$)/.test(key);
  const isShortcut = altKey || ctrlKey || metaKey;
  if (!chooses || isShortcut || !CSS.supports("selector(:open)")) return;
  if (target.matches(":open")) return;
  event.preventDefault();
  target.showPicker();
}

/** @param {any[]} choice its value, its label and whether a form begins with it */
function renderOption([value, label, selected]) {
  return h.option({value, key: value, selected}, label);
}

function whyFailed(/** @type {QueueItem} */ item) {
  return sentence({...item, message: item.error}) || WORDS.noReason;
}

/** Change items one after the other, as far as that is possible.
 * @param {QueueItem[]} items
 * @param {"retry" | "device"} action
 * @param {{device: string | null}} [body] */
async function changeItems(items, action, body) {
  const problems = [];
  const keep = error => problems.push(error);
  for (const {id} of items)
    await call("POST", `web/queue/${id}/${action}`, body).catch(keep);
  await poll("queue");
  if (problems.length) throw problems[0];
}

function changeQueue(path, body) {
  return changeRow("POST", `queue/${path}`, body);
}

// Views: what is announced of the queue, by toasts and to screen readers

/** @param {QueueItem[]} before
 * @param {QueueItem[]} now */
function announceChanges(before, now) {
  const known = new Map(before.map(item => [item.id, item]));
  /** @type {Record<string, QueueItem[]>} */
  const ended = {completed: [], cancelled: [], failed: []};
  for (const item of now) {
    const old = known.get(item.id);
    if (!old || !item.is_own) continue;
    if (old.status !== item.status) ended[item.status]?.push(item);
    else if (quarterOf(old) !== quarterOf(item))
      update({announcement: WORDS.progress(item.name, percentOf(item))});
  }
  const sendOf = ({title, device, created_at: at}) => [title, device, at].join();
  const goesOn = new Set(now.filter(isOpen).map(sendOf));
  const whole = ended.completed.map(sendOf).filter(send => !goesOn.has(send));
  const sent = now.filter(item => whole.includes(sendOf(item)));
  tell({kind: "sent", names: namesOf(sent), say: WORDS.sent});
  tell({kind: "cancelled", names: namesOf(ended.cancelled), say: WORDS.itemCancelled});
  const see = [{label: WORDS.queue, act: () => go("queue")}]; // which says why
  const lost = state.view === "queue" ? [] : ended.failed.map(sendOf);
  const isLost = item => item.status === "failed" && lost.includes(sendOf(item));
  const names = namesOf(now.filter(isLost)); // that of the title, where parts failed
  tell({kind: "failed", names, say: WORDS.notDelivered, isError: true, more: see});
}

function quarterOf(/** @type {QueueItem} */ item) {
  return Math.floor(item.percent / 25);
}

function documentTitle() {
  const title = state.details.id && findTitle(state.details.id);
  if (title) return WORDS.titleOf(title.name);
  const item = currentItem();
  if (item) return WORDS.title(percentOf(item), item.name);
  const waiting = countOpen();
  return waiting ? WORDS.titleWaiting(waiting) : WORDS.product;
}

// Views: the settings

/** The tabs: what each loads, for anybody and for admins alone, by its names for
 * `poll`, and its panels.
 * @type {Record<string, {loads: string[], forAdmins: string[], panels(): any[]}>} */
const TABS = {
  you: {
    loads: ["sessions", "addresses"],
    forAdmins: [],
    panels: () => [
      renderAccountPanel(),
      !isChild() && renderOnPhone(),
      renderPassword(),
      !isChild() && renderSessions(),
    ],
  },
  devices: {
    loads: ["dir", "keys", "saves"],
    forAdmins: ["accounts"],
    panels: () => [renderDevices(), renderConsole(), renderExperts(renderKeys())],
  },
  people: {
    loads: [],
    forAdmins: ["accounts", "invitations"],
    panels: () => [
      panel(WORDS.accounts, list("accounts", state.accounts, renderAccountRow)),
      renderAddAccount(),
    ],
  },
  library: {
    loads: ["uploads", "saves"],
    forAdmins: ["tidy"],
    panels: () => [
      renderFolders(),
      state.account.inbox && renderUnfinished(),
      renderSaves(state.saves),
      state.account.admin && [renderTidy(), renderExperts(renderAddLink())],
    ],
  },
  server: {
    loads: [],
    forAdmins: ["status"],
    panels: () => {
      const {status} = state;
      return [
        panel(WORDS.health, renderLoaded("status", status, renderFaults)),
        panel(WORDS.disks, list("status", status?.folders, renderDisk)),
        panel(WORDS.backups, renderLoaded("status", status?.backup, renderLastBackup)),
        renderAbout(),
      ];
    },
  },
};

/** What a tab loads for the account. */
function loadsOf(tab) {
  const {loads, forAdmins} = TABS[tab];
  return state.account.admin ? [...loads, ...forAdmins] : loads;
}

/** The tabs that show something to the account: no folders to a child. The server tells
 * it none, also where the page does not know yet that it has an age. */
function tabs() {
  const {account, scan} = state;
  const hasNone = account.age || (!account.admin && scan.folders?.length === 0);
  const isFolders = tab => tab === "library" && hasNone;
  if (isChild()) return ["you"];
  return Object.keys(TABS).filter(tab => loadsOf(tab).length && !isFolders(tab));
}

/** Change a row, such as `keys/ID`, and load its list again, also if it was refused. */
function changeRow(method, path, body) {
  const load = () => state.connected && poll(path.split("/")[0]);
  return call(method, `web/${path}`, body).finally(load);
}

function renderSettings() {
  const {tab: shown} = state.settings;
  return [
    h.div("head", h.h1(null, WORDS.settings)),
    !isChild() &&
      h.nav(
        {class: "tabs", "aria-label": WORDS.settings},
        tabs().map(tab => renderTab(`settings/${tab}`, tab === shown, WORDS.tabs[tab])),
      ),
    h.div({class: "panels", key: shown}, TABS[shown].panels()),
  ];
}

function panel(title, ...children) {
  return h.section(
    {class: "card panel", key: title, "aria-label": title},
    h.h2(null, title),
    children,
  );
}

/** What few people need, folded. */
function renderExperts(...panels) {
  const {showsExperts} = state.settings;
  const ontoggle = ({target}) => change("settings", {showsExperts: target.open});
  return h.details(
    {class: "experts", key: "experts", open: showsExperts, ontoggle},
    h.summary(null, WORDS.experts),
    panels,
  );
}

function renderLoading() {
  return h.p("meta", h.span("spinner"), WORDS.loading);
}

/** What `render` makes of what was loaded, else that it is not, or why it cannot be. */
function renderLoaded(name, value, render = node => node) {
  if (value) return render(value);
  const problem = state.problems[name] || state.problems.changes;
  if (!problem) return renderLoading();
  return h.div(
    {class: "actions", role: "alert", key: "problem"},
    h.p("problem", WORDS.notLoaded(problem)),
    button(WORDS.tryAgain, () => poll(name), {name}),
  );
}

function list(name, rows, renderRow, empty = "", style = "") {
  return renderLoaded(name, rows, () =>
    rows.length ? h.ul(style, rows.map(renderRow)) : h.p("meta", empty),
  );
}

/** @typedef {{
 *   id: string | number, title: string, facts: any[], mark?: string[],
 *   actions?: any, menu?: any, more?: any,
 * }} Row of a table: a thing, what is known of it, a button or a menu and, below it,
 * anything else. A mark has a class and a text */

/** A menu of rarer deeds, which the browser opens and closes. The last one that was
 * opened has its contents.
 * @param {() => any} render
 * @param {(open: () => void, props: Props) => VNode} [opener] its button */
function renderMenu(id, name, render, opener) {
  const menu = `menu-${id}`;
  const props = {key: "more", popovertarget: menu};
  const dots = (open, more) => iconButton("more", WORDS.moreOf(name), open, more);
  return [
    (opener || dots)(() => update({menu}), props),
    h.div(
      {class: "menu", key: menu, id: menu, popover: "", hidden: !HAS_POPOVERS},
      state.menu === menu && render(),
    ),
  ];
}

/** @param {Row} row */
function renderRow({id, title, facts, mark, menu, actions = [], more}) {
  const text = joinFacts(facts);
  return h.li(
    {class: "row", key: id},
    h.div(
      "row-text",
      h.p("row-title", title),
      h.p("meta", mark && h.span(...mark), mark && text && " · ", text),
    ),
    menu ? renderMenu(id, title, () => menu) : actions,
    more,
  );
}

/** A button that does something with the thing of this name. */
function rowButton(label, name, act, props = {}) {
  const ariaLabel = WORDS.actionOn(label, name);
  const named = {class: "plain", key: label, "aria-label": ariaLabel};
  return button(label, act, {...named, ...props});
}

/** A button that asks before it does what cannot be undone. */
function askingButton(label, name, question, act, isSecured = false) {
  const open = () => ask({text: question, yes: label, act, isDanger: true, isSecured});
  return rowButton(label, name, open, {class: "plain danger"});
}

/** A button that ends a thing, and its row with it.
 * @param {string} path of the row, such as "keys/ID" */
function endButton(label, path, name, question, isSecured = false) {
  const end = fields => changeRow("DELETE", path, fields);
  return askingButton(label, name, question, end, isSecured);
}

/** A form in a row, which a button opens.
 * @param {string} name of the form, and of what it is about */
function renderRowForm(name, submit, ...fields) {
  if (state.openForm !== name) return false;
  const close = () => state.openForm === name && openForm("");
  const save = async values => {
    await submit(values);
    close();
  };
  const buttons = [h.button("primary", WORDS.save), renderCancel(name, close)];
  return form(name, save, h.div("inline", fields, buttons));
}

/** A menu in a row, for the thing of this name.
 * @param {string[][]} choices their values and labels */
function renderRowMenu(label, name, choices, value, choose) {
  const menu = WORDS.actionOn(label, name);
  const props = {value: String(value)};
  return h.label("check", label, renderSelect(menu, false, choices, choose, props));
}

/** @param {string} name of the form, "" to close the one that is open */
function openForm(name) {
  update({openForm: name, problem: NO_PROBLEM});
}

// Settings: devices

function renderDevices() {
  return panel(
    WORDS.devices,
    list("devices", state.devices, renderDevice, WORDS.devicesLead, "devices"),
    state.devices && addDeviceButton("primary", "add"),
  );
}

/** The card of a device: what it is, what it gets, what was sent to it and, in a menu,
 * what is rarely done with it. */
function renderDevice(/** @type {Device} */ device) {
  const {id, name, shared} = device;
  const formName = `rename-${id}`;
  const newName = {...DEVICE_NAME, ...OPENED, defaultValue: name};
  const openAddress = () => openForm(`address-${id}`);
  const open = openRows().filter(({place}) => place === id);
  const totals = h.span(null, totalsText(open, device) || addressText(device));
  const remove = () => removeDevice(device);
  const sent = state.sent.filter(each => each.device === id && !each.is_listed);
  const {size} = new Set(sent.map(({entry}) => findTitle(entry)?.id || entry));
  const facts = [size > 0 && WORDS.sentTitles(size), shared && WORDS.isShared];
  const deeds = () => [
    renderShare(device),
    device.address && renderOwner(device),
    rowButton(WORDS.rename, name, () => openForm(formName)),
    device.address && rowButton(WORDS.changeAddress, name, openAddress),
    renderProgram(device),
    askingButton(WORDS.remove, name, WORDS.removeDevice(name), remove),
  ];
  return h.li(
    {class: "device", key: id},
    h.div(
      "device-head",
      renderDeviceHead(device, [renderDeviceState(device), totals]),
      renderPause(device),
      mayEdit(device) && renderMenu(id, name, deeds),
    ),
    renderGetting(open),
    h.p("meta", joinFacts(facts)),
    renderTargetNote(device),
    renderRowForm(
      formName,
      fields => changeDevice(id, fields),
      field(WORDS.newName(name), "name", newName),
    ),
    device.address && renderAddressForm(device),
    renderSavesOf(device),
  );
}

/** What a device is getting, or gets next.
 * @param {QueueRow[]} rows of it that are open */
function renderGetting(rows) {
  const row = rows.find(isSending) || rows[0];
  if (!row) return false;
  return h.a(
    {class: "getting", href: "#queue", key: "getting"},
    h.span("entry-cover", renderRowCover(row)),
    h.span("entry-name", withoutEnding(row.name)),
    isSending(row) ? live(() => renderRing(figuresOf(row))) : renderRing(),
  );
}

/** Names of accounts, by their ids: for an admin, if there are several. */
function owners() {
  const accounts = state.accounts || [];
  return accounts.length > 1 ? accounts.map(({id, name}) => [String(id), name]) : [];
}

/** The id of the account with this name. */
function ownerId(name) {
  return owners().find(owner => owner[1] === name)?.[0];
}

function renderOwner(/** @type {Device} */ {id, name, account}) {
  const choose = owner => changeDevice(id, {account: Number(owner)});
  const value = ownerId(account);
  return value && renderRowMenu(WORDS.belongsTo, name, owners(), value, choose);
}

/** The program on a console, by its target, and others with an FTP server. */
function renderProgram(/** @type {Device} */ {id, name, address = ""}) {
  const [scheme, host = ""] = address.split(/:?\/+/);
  if (scheme !== "ftp" || !state.account.admin) return null;
  const place = host.replace(/:\d+$/, "");
  const targetAt = program => targetOf({kind: "console", host: place, program});
  const all = Object.entries(WORDS.programs);
  const programs = all.filter(each => KNOWN.programs[each[0]].scheme === scheme);
  const now = programs.find(each => targetAt(each[0]) === address);
  const choices = now ? programs : [["", address], ...programs];
  const choose = program => changeDevice(id, {target: targetAt(program)});
  return renderRowMenu(WORDS.changeProgram, name, choices, now?.[0] || "", choose);
}

function renderAddressForm(/** @type {Device} */ device) {
  const {id, address = ""} = device;
  const save = ({target, user, password}) =>
    changeDevice(id, {
      target: /\//.test(target) ? target.trim() : atHost(address, target.trim()),
      ...(user && {user: user.trim(), password}),
    });
  return renderRowForm(
    `address-${id}`,
    save,
    field(WORDS.consoleHost, "target", {...TYPED, ...OPENED, defaultValue: address}),
    !isInstaller(device) && renderFtpAccount(),
  );
}

function renderFtpAccount() {
  const filled = name => ({...TYPED, ...(state.adding && {value: state.adding[name]})});
  return [
    field(WORDS.ftpUser, "user", filled("user")),
    field(WORDS.ftpPassword, "password", {...filled("password"), type: "password"}),
  ];
}

/** The same place at another host and port, which is all that a console shows. */
function atHost(address, host) {
  return address.replace(/:\/\/[^/]*/, () => `://${host}`);
}

function renderShare(/** @type {Device} */ {id, name, shared}) {
  const share = ({target}) => changeDevice(id, {shared: target.checked});
  const onchange = event => attempt(() => share(event));
  const label = WORDS.actionOn(WORDS.shareDevice, name);
  const props = {"aria-label": label, checked: shared, onchange};
  return h.label("check", h.input({type: "checkbox", ...props}), WORDS.shareDevice);
}

// The sheet that adds a device: a form with a step for each question

/** @typedef {{
 *   scheme: "ftp" | "lan", port: string, folder: string, has_user: boolean,
 *   is_choice: boolean, line: string,
 * }} ConsoleProgram and where it puts files: the port has its colon, "" if it is usual;
 * and the line to enter there to let it browse, with an {address} */
/** @typedef {{
 *   address: string, port: number, greeting: string, program: string, does: string,
 * }} FoundConsole and the program that it may be, and what that does with a file */
/** @typedef {{
 *   way: "server" | "computer" | "console", program: string, user: string,
 *   password: string, kind: "folder" | "console", folder: string, host: string,
 *   name: string, system: "windows" | "mac" | "linux", fetcher: string,
 *   step: number, isFirst: boolean, code: string,
 *   pairing: Pairing | null, device: string, form: string,
 *   found: FoundConsole[] | null, note: string, isAsked: boolean,
 * }} Adding a device: what was filled in, of which the program is that on the console;
 * the step that is open, the code that the lines have, also after it was used, the
 * device that was added, the consoles that were found, null while they are looked for,
 * and whether the questions are asked */

const TYPED = {...PLAIN_TEXT, autocomplete: "off"}; // exactly as somebody typed it
const HOST = {...TYPED, required: true, placeholder: "192.168.1.20", inputmode: "url"};
const DEVICE_NAME = {...TYPED, required: true, maxlength: "100", pattern: ".*\\S.*"};
const FOLDERS = {windows: "E:\\", mac: "/Volumes/SDCARD", linux: "/media/sdcard"};
/** The questions, one a step. */
function stepsOf(/** @type {Adding} */ {way, kind}) {
  const place = kind === "folder" ? ["folder"] : ["program", "host"];
  return {
    server: ["way", "program", "host"],
    computer: ["way", "kind", ...place, "name", "computer"],
    console: ["way", "fetch"],
  }[way];
}

/** The server of an admin looks for consoles; others begin with a code for a card. What
 * either is asked comes where that does not do. */
function addDevice() {
  const isFirst = !state.devices?.some(({is_own: isOwn}) => isOwn);
  const {admin} = state.account;
  const system = guessSystem();
  const filled = {
    ...{way: admin ? "server" : "computer", program: "sphaira"},
    ...{user: "", password: "", kind: "folder", folder: FOLDERS[system], host: ""},
    ...{name: freeName(WORDS.exampleDevice), system, fetcher: "sphaira"},
    ...state.filled,
  };
  const isCard = !admin && filled.way === "computer";
  openDialog("adding", {
    ...{...filled, isAsked: !admin, isFirst, code: "", pairing: null, device: ""},
    ...{step: isCard ? stepsOf(filled).length - 1 : 0, found: null, note: ""},
  });
  for (const name of ["changes", ...loadsOf("devices")]) poll(name);
  if (admin && state.hasClient) attempt(findConsoles);
  if (isCard) attempt(() => loadPairing("POST", {name: filled.name}));
}

/** Go on to the next question, and do what this one asks for. */
async function goOn(/** @type {Adding} */ adding) {
  const next = stepsOf(adding)[adding.step + 1];
  if (!next) await addConsole(adding);
  if (next === "computer") await loadPairing("POST", {name: adding.name});
  const step = next ? adding.step + 1 : adding.step;
  changeAdding({password: "", step, isAsked: Boolean(next)}, adding); // the rest stays
}

/** @param {Adding} adding whose device is known: it was added, with another address */
async function addConsole(adding) {
  const {program, host, name, user, password, device: known} = adding;
  const access = KNOWN.programs[program].has_user ? {user: user.trim(), password} : {};
  const target = targetOf({kind: "console", host, program}) || host;
  const body = {name: name.trim(), target, ...access};
  const path = known ? `web/devices/${known}` : "web/devices";
  const {device = known} = await call("POST", path, body);
  changeAdding({device}, adding);
  await poll("devices");
}

async function findConsoles() {
  const {adding} = state;
  changeAdding({found: null, note: ""});
  const answer = await call("POST", "web/consoles").catch(error => {
    changeAdding({found: []}, adding);
    throw error;
  });
  const note = answer.in_container ? WORDS.onlyContainer : WORDS.foundNone;
  const found = answer.consoles.flatMap(place => {
    const programs = place.programs.length ? place.programs : [""];
    return programs.map(program => ({...place, program})); // a row for each
  });
  changeAdding({found, note: found.length ? "" : note}, adding);
}

/** Add what was found or, where its program is not known, ask for that. */
async function addFound(/** @type {FoundConsole} */ {address, port, program}) {
  const {adding} = state;
  const host = `${address}:${port}`;
  if (!program) return changeAdding({isAsked: true, way: "server", step: 1, host});
  changeAdding({host, program});
  await addConsole({.../** @type {Adding} */ (adding), host, program});
}

/** Change the sheet, unless another one was opened since.
 * @param {Partial<Adding>} changes
 * @param {Adding | null} [asked] the sheet when that was asked for which it changes */
function changeAdding(changes, asked = state.adding) {
  const {adding} = state;
  if (adding && adding.form === asked?.form) update({adding: {...adding, ...changes}});
}

/** Add a number to a name that a device has. */
function freeName(name) {
  const taken = new Set(state.devices?.map(device => device.name.toLowerCase()));
  let number = 1;
  let free = name;
  while (taken.has(free.toLowerCase())) free = `${name} ${++number}`;
  return free;
}

function closeAdding() {
  const {adding} = state;
  if (!adding) return;
  forgetDraft(adding.form);
  update({filled: adding.device || adding.pairing?.device ? {} : adding});
  closeDialog("adding");
}

/** Load the pairing code (GET), or make one that is good for a while (POST). */
async function loadPairing(method, body) {
  const {adding} = state;
  const pairing = /** @type {Pairing} */ (await call(method, "web/pairing", body));
  changeAdding({pairing, code: pairing.code || state.adding?.code}, adding);
}

function guessSystem() {
  if (navigator.userAgent.includes("Windows")) return "windows";
  return navigator.userAgent.includes("Mac OS") ? "mac" : "linux";
}

/** Where a device puts files, or "" until that is filled in.
 * @param {Pick<Adding, "kind" | "host" | "program"> & {folder?: string}} filled */
function targetOf({kind, folder = "", host, program}) {
  if (kind === "folder") return folder.trim() && `folder:${folder.trim()}`;
  const [, place = ""] = host.trim().match(/^(?:\w+:\/\/)?([^/]*)/) || [];
  const {scheme, port, folder: end} = KNOWN.programs[program];
  const hasPort = /:\d+$/.test(place);
  return place && `${scheme}://${place}${hasPort ? "" : port}${end}`;
}

function serverAddress() {
  return new URL(".", location.href).href.replace(/\/$/, "");
}

/** The lines to copy, by what they do.
 * @returns {Record<string, string>} */
function commandLines(/** @type {Adding} */ adding) {
  const {code, isFirst, system, name} = adding;
  const server = serverAddress();
  const label = quote(name.trim(), system);
  const target = quote(targetOf(adding), system);
  const words = name.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu);
  const points = [...name.trim()].map(sign => sign.codePointAt(0)?.toString(16));
  const config = isFirst ? "" : ` --config ${(words || points).join("-")}.ini`;
  const join = /^-/.test(name.trim()) ? "=" : " "; // a name may look like an option
  const file = "send_to_switch.py";
  const python = system === "windows" ? "python" : "python3";
  const get = `it.urlretrieve('${server}/${file}', '${file}')`;
  const pair = `pair ${server} ${code} --name${join}${label} --to ${target}`;
  const fetch = `${python} -c "import urllib.request as it; ${get}"`;
  return {
    ...(state.hasClient && {fetch}),
    pair: `${python} ${file} ${pair}${config}`,
    start: `${python} ${file}${config}`,
  };
}

/** Quote a text for a shell. PowerShell 5 loses a quotation mark, and puts one behind a
 * text with blanks, which a backslash at its end would take away. To it, curly quotes
 * are quotes too. */
function quote(text, system) {
  if (system !== "windows") return `'${text.replaceAll("'", "'\\''")}'`;
  const plain = text.replaceAll('"', "").replace(/(\s.*?)\\+$/, "$1");
  return `'${plain.replace(/['\u2018-\u201b]/g, "$&$&")}'`;
}

function renderAdding(/** @type {Adding} */ adding) {
  const added = deviceOf(adding.device);
  const answer = added ? renderAdded(adding, added) : renderLooking(adding);
  return renderSheet(
    "adding",
    WORDS.addDevice,
    closeAdding,
    h.h2(null, WORDS.addDevice),
    adding.isAsked ? renderSteps(adding) : answer,
  );
}

/** What answers in this network, each with the one button that adds it. */
function renderLooking(/** @type {Adding} */ {found, note}) {
  const {hasClient} = state;
  const isLooking = hasClient && !found;
  const ask = () => changeAdding({isAsked: true});
  return h.div(
    {class: "looking", key: "looking"},
    hasClient &&
      !found?.length &&
      h.p({class: `pulse ${isLooking ? "" : "still"}`, key: "pulse"}, glyph("device")),
    h.p(
      {class: "lead", role: "status"},
      isLooking ? WORDS.finding : hasClient ? note : WORDS.cannotSend,
    ),
    h.ul("found", (found || []).map(renderFound)),
    h.div(
      "actions",
      hasClient && button(WORDS.lookAgain, findConsoles, isLooking ? BUSY : {}),
      button(WORDS.notFound, ask, {class: "plain"}),
    ),
  );
}

function renderFound(/** @type {FoundConsole} */ place) {
  const {address, port, greeting, program, does} = place;
  const name = WORDS.programs[program] || greeting;
  const facts = [`${address}:${port}`, WORDS.portDoes[does || "unknown"]];
  return h.li(
    {class: "device-head", key: `${address}:${port} ${program}`},
    h.span("device-icon", glyph("device")),
    h.div("device-text", h.h3(null, name), h.p("meta", joinFacts(facts))),
    rowButton(WORDS.add, `${name} ${address}`, () => addFound(place), "primary"),
  );
}

/** A console that was added: how it is, what it is called and, where there are several
 * people, whose it is. */
function renderAdded(/** @type {Adding} */ adding, /** @type {Device} */ device) {
  const {id, name, account} = device;
  const own = ownerId(account);
  const choices = owners().map(([key, text]) => [key, text, key === own]);
  const save = async fields => {
    const body = {
      name: fields.name.trim(),
      ...(own && {account: Number(fields.owner)}),
    };
    await changeDevice(id, body);
    closeAdding();
  };
  const why = targetText(device);
  const label = why ? WORDS.notReady : WORDS.calling(name);
  const correct = () => changeAdding({isAsked: true, way: "server", step: 2});
  const wait = [
    renderTicks(renderTick(label, false, why)),
    h.p("lead", WORDS.keepsTrying),
    button(WORDS.changeAddress, correct, {class: "plain"}),
  ];
  return form(
    `${adding.form}-added`,
    save,
    isDeviceReady(device) ? renderReady(device, false) : wait,
    field(WORDS.questions.name, "name", {...DEVICE_NAME, defaultValue: name}),
    choices.length > 0 && selectField(WORDS.questions.owner, "owner", choices),
    h.button("primary wide", WORDS.done),
  );
}

/** The questions, of which the answered ones can be changed. */
function renderSteps(/** @type {Adding} */ adding) {
  const all = stepsOf(adding);
  const [open, next] = all.slice(adding.step);
  const fill = ({target}) => changeAdding(fieldsOf(target.form));
  return form(
    adding.form,
    () => goOn(adding),
    h.ol(
      {class: "steps", oninput: fill},
      all.slice(0, adding.step).map((name, at) => renderAnswer(adding, name, at)),
      h.li(
        {key: open, class: "step"},
        h.h3(null, WORDS.questions[open]),
        RENDER_STEP[open](adding),
        (next || adding.way === "server") && renderNext(!next),
      ),
    ),
  );
}

/** How each step asks it.
 * @type {Record<string, (adding: Adding) => unknown>} */
const RENDER_STEP = {
  way: () => {
    const {computer, console} = WORDS.ways;
    return renderChoices("way", state.account.admin ? WORDS.ways : {computer, console});
  },
  kind: () => renderChoices("kind", WORDS.targets),
  program: () => {
    const all = Object.entries(WORDS.programs);
    const offered = all.filter(([id]) => KNOWN.programs[id].is_choice);
    return renderChoices("program", Object.fromEntries(offered));
  },
  host: renderHostStep,
  folder: ({system}) =>
    filledField("folder", {...TYPED, placeholder: FOLDERS[system], required: true}),
  name: () => filledField("name", DEVICE_NAME),
  computer: adding => [
    renderComputerStep(adding),
    h.h3({key: "connect"}, WORDS.connectStep),
    renderConnectStep(adding),
  ],
  fetch: ({fetcher}) =>
    renderLoaded("dir", state.dir, ({token}) => renderFetchLines(fetcher, token)),
};

/** A step that is done, and the way back to it, but not to another way of what was
 * added. */
function renderAnswer(/** @type {Adding} */ adding, name, at) {
  const {device, pairing} = adding;
  const title = WORDS.questions[name];
  const labels = {way: WORDS.ways, kind: WORDS.targets, program: WORDS.programs};
  const answer = labels[name]?.[adding[name]];
  const back = () => changeAdding({step: at});
  return h.li(
    {key: name, class: "step is-done"},
    h.h3("unseen", title),
    h.p(null, answer?.name || answer || adding[name]),
    !(pairing?.device || (device && name === "way")) &&
      button(WORDS.change, back, {
        class: "link",
        name: adding.form, // disabled while that is submitted
        "aria-label": WORDS.changeStep(title),
      }),
  );
}

function renderNext(isLast) {
  const label = isLast ? WORDS.add : WORDS.next;
  const isOff = isLast && !state.hasClient;
  return h.div(
    {class: "actions", key: "next"},
    isOff && h.p("note", WORDS.cannotSend),
    h.button({class: "primary", disabled: isOff}, label),
  );
}

function renderHostStep(/** @type {Adding} */ {way, program}) {
  return [
    h.p("lead", WORDS.programNotes[program]),
    filledField("host", HOST, WORDS.consoleHostHint),
    way === "server" && KNOWN.programs[program].has_user && renderFtpAccount(),
  ];
}

/** Whether its console is not called before there is something to send. */
function isInstaller(/** @type {Device} */ {address = ""}) {
  return KNOWN.installers.includes(address.split(":")[0]);
}

function isDeviceReady(/** @type {Device} */ device) {
  return isTargetReady(device.target) || isInstaller(device);
}

/** It takes the focus, so that it is in sight.
 * @param {Device} device
 * @param {boolean} isEnd whether nothing is asked after it */
function renderReady(device, isEnd = true) {
  const {name, account, is_own: isOwn} = device;
  const ready = isOwn ? WORDS.readyText(name) : WORDS.readyFor(account, name);
  const [word, text] = isInstaller(device)
    ? [WORDS.added, WORDS.notTried]
    : [WORDS.connects.ready, ready];
  return h.div(
    {class: "ready", key: "ready", role: "status"},
    glyph("check"),
    h.p("ready-word", word),
    h.p("lead", text),
    isEnd && button(WORDS.done, closeAdding, {class: "primary", ...OPENED}),
  );
}

/** The field that a step asks for. */
function filledField(name, props, hint) {
  const label = h.span("unseen", WORDS.questions[name]);
  return field(label, name, {...props, value: state.adding?.[name]}, hint);
}

/** Go on once somebody has tapped on an answer; with a keyboard, Enter does. */
function goOnByTap(/** @type {any} */ {detail, target}) {
  const isQuestion = target.name in WORDS.questions;
  const submitButton = target.form.querySelector("button:not([type])");
  if (detail && isQuestion) setTimeout(() => submitButton.click());
}

/** Radio buttons for a field of the form.
 * @param {Table} choices labels, or names with a note */
function renderChoices(name, choices, label = WORDS.questions[name]) {
  const radio = {type: "radio", name, onclick: goOnByTap};
  return h.div(
    {class: `choices ${name}`, key: name, role: "radiogroup", "aria-label": label},
    Object.entries(choices).map(([choice, words]) =>
      h.label(
        {class: "option", key: choice},
        h.input({...radio, value: choice, checked: choice === state.adding?.[name]}),
        h.span(null, words.name || words, words.note && h.small(null, words.note)),
      ),
    ),
  );
}

function renderComputerStep(/** @type {Adding} */ adding) {
  const {system} = adding;
  const isPhone = /Android|iPhone|iPad/.test(navigator.userAgent);
  return [
    renderChoices("system", WORDS.systems, WORDS.questions.computer),
    h.div(
      {class: "place", key: "lines"},
      renderPairing(adding),
      isPhone && h.p("note", WORDS.openThere(serverAddress())),
      h.p("lead", joinSentences(WORDS.computerNotes[system], WORDS.needsPython)),
      !state.hasClient && h.p("note", WORDS.noClient),
      Object.entries(commandLines(adding)).map(([line, text]) =>
        renderCode(WORDS.lines[line], text, WORDS.copyLine(WORDS.lines[line])),
      ),
    ),
  ];
}

function renderPairing(/** @type {Adding} */ {code, pairing}) {
  if (!pairing) return renderLoading();
  const isOpen = pairing.code !== null;
  const time = formatDuration(pairing.expires_in);
  const why = pairing.ended ? WORDS.codeEnded : WORDS.codeExpired;
  const renew = () => loadPairing("POST", {});
  return h.div(
    {class: isOpen ? "pairing" : "pairing is-over", key: "pairing"},
    h.p("meta", WORDS.pairingCode),
    h.p("pairing-code", `${code.slice(0, 3)} ${code.slice(3)}`),
    isOpen && h.p("meta", WORDS.codeLeft(time)),
    pairing.device && h.p("meta", WORDS.codeUsed),
    h.p(
      {class: "problem", role: "status"},
      !isOpen && !pairing.device && [why, " ", button(WORDS.newCode, renew)],
    ),
  );
}

function renderConnectStep(/** @type {Adding} */ adding) {
  const {pairing} = adding;
  const device = deviceOf(pairing?.device);
  const caller = device?.state === "new" ? undefined : device;
  const [place] = targetOf(adding).split(":");
  const isReady = caller && (isTargetReady(caller.target) || place === "lan");
  const {paired, called, ...answers} = WORDS.connects;
  return [
    renderTicks(
      renderTick(paired, pairing?.device),
      renderTick(called(device?.name || adding.name.trim()), caller),
      renderTick(answers[place], isReady, caller && targetText(caller)),
    ),
    caller && isReady && renderReady(caller),
  ];
}

function renderTicks(...ticks) {
  return h.div({role: "status", key: "ticks"}, h.ul("ticks", ticks));
}

function renderTick(text, isDone, why = "") {
  const word = isDone ? "check" : why ? "close" : "wait";
  return h.li(
    {class: `tick ${word}`},
    glyph(word),
    h.span("unseen", WORDS.ticks[word]),
    h.p(null, text, !isDone && why && h.small(null, why)),
  );
}

function renderFetchLines(fetcher, token) {
  if (!token)
    return [
      renderConsoleLead(),
      renderCreateAddress({class: "primary", key: "create"}),
    ];
  const {open, enter, choose} = WORDS.steps[fetcher];
  const address = consoleAddress(token).replace(/\/$/, "");
  const text = KNOWN.programs[fetcher].line.replace("{address}", address);
  return [
    renderChoices("fetcher", WORDS.fetchers, WORDS.questions.fetch),
    h.ol(
      {class: "numbered", key: fetcher},
      h.li(null, open),
      h.li(null, enter, renderCode("", text, WORDS.copyLine(enter))),
      h.li(null, choose),
    ),
    h.p("meta", WORDS.consoleLead),
  ];
}

// Settings: keys

function renderKeys() {
  const keys = state.keys?.filter(key => !key.is_device);
  return panel(
    WORDS.keys,
    h.p("lead", WORDS.keysLead),
    state.settings.newKey ? renderNewKey(state.settings.newKey) : renderCreateKey(),
    list("keys", keys, renderKeyRow, WORDS.noKeys),
  );
}

function renderCreateKey() {
  const label = {...DEVICE_NAME, placeholder: WORDS.keyLabelExample};
  const fields = [field(WORDS.keyLabel, "label", label)];
  const make = h.button(null, WORDS.createKey);
  return form("key", createKey, h.div("inline", fields, make));
}

async function createKey({label}) {
  const {key} = await changeRow("POST", "keys", {label});
  change("settings", {newKey: {label, key}});
}

function renderNewKey({label, key}) {
  const code = renderCode(WORDS.key, key, WORDS.copyKey);
  return renderMade("newKey", WORDS.newKey(label), WORDS.newKeyLead, code);
}

/** What was made just now, and is shown once.
 * @param {"newKey" | "newLink"} name */
function renderMade(name, title, lead, ...content) {
  return h.div(
    {class: "new-key", role: "status", key: name},
    h.h3(null, title),
    h.p(null, lead),
    content,
    button(WORDS.done, () => change("settings", {[name]: null})),
  );
}

function renderCode(label, text, copyLabel) {
  return h.div(
    "code",
    h.p(null, label && h.small(null, label), h.code(null, text)),
    button(WORDS.copy, () => copy(text), {"aria-label": copyLabel}),
  );
}

/** Browsers have navigator.clipboard over HTTPS only, and a home network is HTTP. */
async function copy(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
  toast(WORDS.copied);
}

function copyBySelection(text) {
  const focused = /** @type {HTMLElement} */ (document.activeElement);
  const box = document.createElement("textarea");
  box.value = text;
  const dialogs = [...document.querySelectorAll("dialog")];
  (dialogs.at(-1) || document.body).append(box); // where it can have the focus
  box.select();
  document.execCommand("copy");
  box.remove();
  focused.focus();
}

/** @param {Key} key */
function renderKeyRow({id, label, created_at: created, last_used_at: used, requests}) {
  const facts = [
    WORDS.created(formatAge(created)),
    used ? WORDS.lastUsed(formatAge(used)) : WORDS.neverUsed,
    WORDS.requests(requests),
  ];
  const question = WORDS.revokeQuestion(label);
  const actions = [endButton(WORDS.revoke, `keys/${id}`, label, question)];
  return renderRow({id, title: label, facts, actions});
}

// Settings: the account, its password and browsers, and the console address

function renderAccountPanel() {
  return panel(
    WORDS.account,
    h.div(
      "scan-line",
      h.p("signed", WORDS.signedInAs(state.account.name)),
      button(WORDS.signOut, signOut),
    ),
    renderLanguages(),
  );
}

/** The page's address for another device, or one of several to choose from. */
function renderOnPhone() {
  const addresses = state.addresses || [];
  if (!addresses.length) return false;
  const choices = addresses.map(({address}) => [address, address]);
  const chosen = ({address}) => address === state.settings.pageAddress;
  const {address, qr} = addresses.find(chosen) || addresses[0];
  const choose = pageAddress => change("settings", {pageAddress});
  const props = {value: address};
  return panel(
    WORDS.onPhone,
    qr && h.p("lead", WORDS.onPhoneLead),
    choices.length > 1 && renderSelect(WORDS.address, false, choices, choose, props),
    renderCode("", address, WORDS.copyAddress),
    renderQr(address, qr),
  );
}

/** Dark on light in any mode, since some cameras read no other.
 * @param {string} text that the code has
 * @param {QrCode} qr */
function renderQr(text, qr) {
  if (!qr) return false;
  const {size, path} = qr;
  const props = {viewBox: `0 0 ${size} ${size}`, class: "qr", role: "img", key: "qr"};
  return h.svg({...props, "aria-label": WORDS.qrOf(text)}, h.path({d: path}));
}

function renderPassword() {
  return panel(
    WORDS.changePassword,
    form(
      "password",
      changePassword,
      renderUsername(state.account.name),
      field(WORDS.oldPassword, "old", PASSWORD),
      field(WORDS.newPassword, "new", NEW_PASSWORD, WORDS.passwordHint),
      h.button(null, WORDS.changePassword),
    ),
  );
}

/** Tell the browser's password manager whose password a form is about. */
function renderUsername(name) {
  return h.input({autocomplete: "username", hidden: true, value: name});
}

async function changePassword(fields) {
  await call("POST", "web/password", fields);
  toast(WORDS.passwordChanged);
  await poll("sessions");
}

function renderSessions() {
  const {sessions, settings} = state;
  const shown = settings.showsAllSessions ? sessions : sessions?.slice(0, 3);
  const count = sessions?.length;
  const show = () => change("settings", {showsAllSessions: true});
  return panel(
    WORDS.sessions,
    list("sessions", shown, renderSessionRow),
    shown?.length !== count && button(WORDS.showAllParts(count), show),
    form(
      "everywhere",
      signOutEverywhere,
      h.p(null, WORDS.everywhereLead),
      Object.entries(WORDS.everywhere).map(([name, text]) =>
        h.label({class: "check", key: name}, h.input({type: "checkbox", name}), text),
      ),
      h.button("danger", WORDS.signOutEverywhere),
    ),
  );
}

async function signOutEverywhere(/** @type {Fields} */ fields) {
  const act = async () => {
    await endSession("web/sessions/end", fields);
    toast(WORDS.signedOutEverywhere);
  };
  const text = WORDS.everywhereQuestion;
  await ask({text, yes: WORDS.signOutEverywhere, act, isDanger: true});
}

function renderSessionRow(/** @type {Session} */ {id, browser, last_used_at, current}) {
  const title = browserName(browser);
  const used = formatAge(last_used_at);
  const question = WORDS.endQuestion(title, used);
  const facts = [current && WORDS.thisBrowser, WORDS.lastUsed(used)];
  const actions = [endButton(WORDS.end, `sessions/${id}`, title, question)];
  return renderRow({id, title, facts, actions: current ? [] : actions});
}

// What User-Agents contain, the most telling first:
const BROWSERS = ["Firefox", "Edg", "OPR", "Chrome", "Safari"];
const BROWSER_NAMES = {Edg: "Edge", OPR: "Opera"}; // where that is not the same
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS", "CrOS", "Linux"];

function browserName(userAgent) {
  const browser = BROWSERS.find(word => userAgent.includes(`${word}/`));
  const system = SYSTEMS.find(word => userAgent.includes(word));
  if (!browser || !system) return userAgent || WORDS.unknownBrowser;
  return WORDS.browserOn(BROWSER_NAMES[browser] || browser, system);
}

function renderConsole() {
  return panel(
    WORDS.console,
    renderConsoleLead(),
    renderLoaded("dir", state.dir, renderConsoleAddress),
  );
}

function renderConsoleLead() {
  const more = state.account.admin && WORDS.consoleOfChild;
  return h.p("lead", joinSentences(WORDS.consoleLead, more));
}

function renderConsoleAddress(/** @type {ConsoleAddress} */ {token}) {
  if (!token) return renderCreateAddress();
  const name = WORDS.consoleAddress;
  const replace = () => changeRow("POST", "dir");
  return h.div(
    {class: "place", key: "address"},
    renderCode(name, consoleAddress(token), WORDS.copyAddress),
    renderMenus(new URL(consoleAddress(token))),
    h.div(
      "row-actions",
      askingButton(WORDS.replace, name, WORDS.replaceQuestion, replace),
      endButton(WORDS.revoke, "dir", name, WORDS.revokeAddress),
    ),
  );
}

/** What to type into the programs that have a menu for the library. */
function renderMenus(/** @type {URL} */ {href, protocol, hostname, port, pathname}) {
  const scheme = protocol.slice(0, -1);
  const usual = scheme === "https" ? "443" : "80";
  const values = [scheme, hostname, port || usual, pathname.slice(0, -1)];
  const file = `[catalogd]\nname=catalogd\nlocal_address=${href}`;
  const left = (state.entries || NOTHING).filter(
    ({type, file_type: ending, base_id: base}) =>
      type === "filepath" && KNOWN.packages.includes(ending || "") && !base,
  );
  return h.details(
    {class: "menus", key: "menus"},
    h.summary(null, WORDS.menus),
    h.p("lead", WORDS.menusLead),
    renderCode(WORDS.menuFile, file, WORDS.copyMenuFile),
    Object.values(WORDS.menuFields).map((name, n) =>
      renderCode(name, values[n], WORDS.copyValue(name)),
    ),
    left.length > 0 && h.p("meta", WORDS.unlisted(left.length)),
  );
}

function consoleAddress(token) {
  return new URL(`dir/${token}/`, location.href).href;
}

function renderCreateAddress(props) {
  return button(WORDS.createAddress, () => changeRow("POST", "dir"), props);
}

// Settings: folders and links

function renderFolders() {
  const {folders, disks, scanning, problem, ...why} = state.scan;
  const {admin, inbox, settings} = state.account;
  const text = sentence({...why, message: problem});
  return panel(
    WORDS.folders,
    list("scan", folders, renderFolder),
    h.ul(null, disks.map(renderDiskAway)),
    problem && h.p({class: "problem", role: "alert"}, WORDS.scanFailed(text)),
    h.div(
      "scan-line",
      h.p(
        {class: "meta", role: "status"},
        scanning && h.span("spinner"),
        folders && scanText(state.scan),
      ),
      admin &&
        button(WORDS.scanNow, startScan, {"aria-disabled": scanning ? "true" : null}),
    ),
    admin && !inbox && h.p("meta", WORDS.noInbox(settings)),
  );
}

function scanText(/** @type {ScanState} */ {scanning, files, read, finished, next}) {
  if (scanning) return WORDS.scanProgress(files, read);
  if (!finished) return WORDS.neverScanned;
  const then = next ? WORDS.nextScan(formatTime(next)) : WORDS.watched;
  return joinSentences(WORDS.lastScan(formatAge(finished)), then);
}

/** @param {Folder} folder */
function renderFolder({path, state: place, files, problem, ...why}) {
  const text = sentence({...why, message: problem});
  const isOffline = place === "offline";
  return renderRow({
    id: path,
    title: path,
    mark: [isOffline ? "mark warn" : "mark", WORDS.folderStates[place]],
    facts: [isOffline ? WORDS.filesKept : WORDS.files(files), text],
  });
}

/** A disk below a library folder that is away, as a folder that is, or missing files.
 * @param {DiskAway} disk */
function renderDiskAway(disk) {
  const {path, since, entries, missing} = disk;
  const told = missing ? WORDS.filesMissing : WORDS.offlineSince;
  return renderRow({
    id: disk.id,
    title: path,
    mark: missing ? undefined : ["mark warn", WORDS.folderStates.offline],
    facts: [told(entries, formatTime(since))],
    actions: state.account.admin ? [renderGiveUp(disk)] : [],
  });
}

function renderGiveUp(/** @type {DiskAway} */ {path, entries, id, missing}) {
  const act = async () => {
    await call("DELETE", `web/disks/${encodeURIComponent(id)}`);
    await poll("scan");
  };
  if (missing) return rowButton(WORDS.allRight, path, act);
  return askingButton(WORDS.giveUp, path, WORDS.giveUpQuestion(entries, path), act);
}

async function startScan() {
  if (state.scan.scanning) return;
  await call("POST", "web/scan");
  update({scan: {...state.scan, scanning: true, files: 0, read: 0}});
  await poll("scan");
}

function renderAddLink() {
  return panel(
    WORDS.addLink,
    h.p("lead", WORDS.addLinkLead),
    form(
      "link",
      addLink,
      field(WORDS.name, "name", ENTRY_NAME),
      field(WORDS.address, "url", {type: "url", required: true, maxlength: "4000"}),
      h.div(
        "pair",
        field(WORDS.version, "version", ENTRY_VERSION, WORDS.optional),
        field(WORDS.sizeBytes, "size", {type: "number", min: "0"}, WORDS.optional),
      ),
      field(WORDS.description, "description", {rows: "2"}, WORDS.optional),
      h.button(null, WORDS.add),
    ),
  );
}

async function addLink({size, ...fields}) {
  await call("POST", "web/links", size ? {...fields, size: Number(size)} : fields);
  toast(WORDS.linkAdded(fields.name));
  await poll("entries");
}

// Settings: backups and the server, for admins

/** What is wrong, each with a link to the tab in which something can be done. */
function renderFaults(/** @type {Health} */ {faults}) {
  if (!faults.length) return h.p("meta", WORDS.healthy);
  return faults.map(fault => {
    const tab = KNOWN.fault_tabs[fault.reason || ""];
    return h.p(
      {class: "problem", role: "alert", key: `${fault.about} ${fault.id}`},
      sentence(fault),
      tab && " ",
      tab && h.a({href: `#settings/${tab}`, class: "button"}, WORDS.tabs[tab]),
    );
  });
}

function renderDisk(/** @type {Folder} */ {path, free, used}) {
  const room = WORDS.space(formatBytes(free), formatBytes(used));
  const facts = [free === null ? WORDS.unknownSpace : room];
  return renderRow({id: path, title: path, facts});
}

function renderLastBackup(/** @type {Backup} */ {kept, made_at: time, size}) {
  const none = kept ? WORDS.noBackup : WORDS.backupsOff;
  const text = time ? WORDS.lastBackup(formatTime(time), formatBytes(size)) : none;
  const yes = WORDS.downloadBackup;
  const act = fields => saveFile("web/backup/file", fields);
  const open = () => ask({text: WORDS.backupQuestion, yes, act, isSecured: true});
  return h.div("scan-line", h.p("meta", text), time && button(yes, open));
}

function renderAbout() {
  return panel(
    WORDS.server,
    renderLoaded("status", state.status, ({version, released, releases}) => [
      h.p("meta", ageOfVersion(version, released)),
      releases && h.p(null, h.a({href: releases}, WORDS.releases)),
    ]),
    renderCode(WORDS.serverAddress, serverAddress(), WORDS.copyAddress),
  );
}

/** The uploads that are not whole: for an admin, those of all. */
function renderUnfinished() {
  const rows = leftUploads();
  if (!rows.length) return false;
  return panel(WORDS.unfinished, list("uploads", rows, renderUploadRow));
}

// Settings: saves, the newest first

function renderSaves({copies, looks, problem}) {
  if (!copies.length && !looks.length && !problem) return false;
  const lead = h.p("lead", WORDS.savesLead);
  const notes = [problem && h.p("error", sentence(problem)), looks.map(renderLook)];
  return panel(WORDS.saves, lead, notes, renderSavedTitles(copies));
}

/** The saves of a device, folded. */
function renderSavesOf(/** @type {Device} */ {id}) {
  const own = state.saves.copies.filter(({device}) => device === id);
  const look = state.saves.looks.find(({id: of}) => of === id);
  return [
    look && renderLook({...look, name: ""}),
    own.length > 0 && renderFolded(WORDS.saves, own.length, renderSavedTitles(own)),
  ];
}

function renderFolded(title, fact, ...content) {
  const summary = h.summary(null, h.span("row-title", title), h.span("meta", fact));
  return h.details({class: "tidy", key: title}, summary, content);
}

function renderLook({id, name, looked_at: time, copied, problems}) {
  const looked = WORDS.lookedForSaves(formatAge(time));
  return [
    h.p({class: "meta", key: id}, joinFacts([name, looked, WORDS.savesCopied(copied)])),
    problems.map(why => h.p({class: "error", key: id + why.message}, sentence(why))),
  ];
}

function renderSavedTitles(copies) {
  const groups = groupBy(copies, ({title}) => title);
  return Array.from(groups, ([title, saves]) => {
    const rows = h.ul(null, saves.map(renderSave));
    return renderFolded(title, formatAge(saves[0].added_at), rows);
  });
}

function renderSave({device, console: place, path, name, size, added_at: time}) {
  const href = `web/saves/${device}/${encodeURIComponent(path).replace("%2F", "/")}`;
  return renderRow({
    id: `${device}/${path}`,
    title: name,
    facts: [place, formatTime(time), formatBytes(size)],
    actions: renderDownload({name, state: "here", href}),
  });
}

// Settings: tidying up, for admins

const MAX_TIDY_ROWS = 50; // that are shown of each reason

function renderTidy() {
  return panel(
    WORDS.tidy,
    h.p("lead", WORDS.tidyLead),
    renderLoaded("tidy", state.tidy, renderTidyFiles),
    renderNowhere(),
  );
}

/** The titles that no console lists, of those that tell what they have. */
function renderNowhere() {
  const lists = state.sent.filter(each => each.is_listed);
  const ids = new Set(lists.flatMap(({contents}) => contents.map(([id]) => id)));
  const isNowhere = ({parts}) => {
    const contents = parts.flatMap(contentsIn);
    return contents.length > 0 && !contents.some(({id}) => ids.has(id));
  };
  const titles = sorted(allTitles(), "size").filter(isNowhere);
  if (!lists.length || !titles.length) return false;
  const sum = joinFacts([WORDS.titles(titles.length), formatBytes(totalSize(titles))]);
  const row = ({id, name, size}) =>
    h.li({key: id}, h.a({href: `#title/${id}`}, name), " ", formatBytes(size));
  return renderFolded(WORDS.onNoConsole, sum, h.ul(null, titles.map(row)));
}

function renderTidyFiles(/** @type {Tidy} */ {files, bytes, passed_over: passed}) {
  if (!files.length && !passed.length) return h.p("meta", WORDS.tidyNone);
  const groups = groupBy(files, ({reason}) => reason);
  const sum = WORDS.tidySum(files.length, formatBytes(bytes));
  return [
    h.div(
      "scan-line",
      h.p("tidy-sum", files.length ? sum : WORDS.tidyNone),
      button(WORDS.copyList, () => copy(tidyText(files, passed))),
    ),
    Object.keys(WORDS.tidyReasons).map(reason =>
      renderTidyGroup(reason, groups.get(reason) || []),
    ),
    passed.length > 0 && renderPassedOver(passed),
  ];
}

function renderTidyGroup(reason, /** @type {TidyFile[]} */ files) {
  if (!files.length) return false;
  const sum = WORDS.tidySum(files.length, formatBytes(totalSize(files)));
  const columns = [WORDS.name, WORDS.fields.size];
  if (reason === "equal") columns.push(WORDS.equalTo);
  const table = renderTidyTable(columns, files, renderTidyFile);
  return renderFolded(WORDS.tidyReasons[reason], sum, table);
}

function renderPassedOver(/** @type {PassedOver[]} */ passed) {
  const counts = joinFacts(state.scan.passed_over.map(sentence));
  const table = renderTidyTable([WORDS.name], passed, renderPassed);
  return renderFolded(WORDS.passedOver, counts, table);
}

function renderPassed(/** @type {PassedOver} */ passed) {
  const {path} = passed;
  return h.tr({key: path}, renderTidyName(baseName(path), whyPassedOver(passed)));
}

function renderTidyName(name, facts) {
  return h.td(null, h.p("row-title", name), h.p("meta", facts));
}

function whyPassedOver(/** @type {PassedOver} */ {kind, pattern}) {
  return pattern ? WORDS.excludedBy(pattern) : WORDS.whyPassedOver[kind];
}

/** Files by their folders. */
function renderTidyTable(columns, files, renderFile) {
  const hidden = files.length - MAX_TIDY_ROWS;
  const heads = columns.map(column => h.th({scope: "col"}, column));
  const folderOf = file => file.path.replace(/[\\/][^\\/]*$/, "");
  const folders = groupBy(files.slice(0, MAX_TIDY_ROWS), folderOf);
  return [
    h.table(
      null,
      h.thead(null, h.tr(null, heads)),
      [...folders].map(([folder, own]) =>
        h.tbody(
          {key: folder},
          h.tr(
            "tidy-folder",
            h.th({scope: "rowgroup", colspan: columns.length}, glyph("folder"), folder),
          ),
          own.map(renderFile),
        ),
      ),
    ),
    hidden > 0 && h.p("meta", WORDS.more(hidden)),
  ];
}

function baseName(path) {
  return path.replace(/^.*[\\/]/, "");
}

function renderTidyFile(/** @type {TidyFile} */ file) {
  const {id, name, size, path, format, missing} = file;
  const lack = missing && `${WORDS.fields.missing}: ${missing}`;
  const facts = joinFacts([baseName(path), format && formatName(format), lack]);
  const equal = equalName(file);
  return h.tr(
    {key: id},
    renderTidyName(withoutEnding(entryName(name)), facts),
    h.td(null, formatBytes(size)),
    equal && h.td({"data-label": WORDS.equalTo}, equal),
  );
}

/** The name of the entry that a file is equal to, which tells their folders apart. */
function equalName(/** @type {TidyFile} */ {of: id}) {
  return state.entries?.find(entry => entry.id === id)?.name || "";
}

/** One line a file, with tabs, as spreadsheets take it. */
function tidyText(/** @type {TidyFile[]} */ files, /** @type {PassedOver[]} */ passed) {
  const lines = files.map(file => [
    WORDS.tidyReasons[file.reason],
    file.size,
    file.path,
    equalName(file),
  ]);
  const others = passed.map(it => [WORDS.passedOver, "", it.path, whyPassedOver(it)]);
  return [...lines, ...others].map(line => line.join("\t")).join("\n");
}

// Settings: accounts, for admins

function renderAddAccount() {
  const {by_hand: isByHand, admin: isAdmin} = fieldsOf(formOf("account"));
  const username = {...ACCOUNT_NAME, autocomplete: "off"};
  return panel(
    WORDS.addAccount,
    h.p("lead", WORDS.inviteLead),
    form(
      "account",
      addAccount,
      h.label("check", h.input({type: "checkbox", name: "admin"}), WORDS.isAdmin),
      h.label("check", h.input({type: "checkbox", name: "by_hand"}), WORDS.byHand),
      isByHand &&
        h.div(
          "pair",
          field(WORDS.name, "username", username),
          field(WORDS.password, "password", NEW_PASSWORD),
        ),
      isAdmin ? renderOwnPassword() : selectField(WORDS.sees, "age", accountAges()),
      h.button(null, isByHand ? WORDS.add : WORDS.makeLink),
    ),
    renderNewLink(),
    list("invitations", state.invitations, renderInvitationRow),
  );
}

/** What an account may see, as choices. */
function accountAges() {
  return [["", WORDS.seesAll], ...Object.entries(WORDS.seesAges)];
}

async function addAccount(fields) {
  if (!fields.by_hand) return invite(fields);
  await changeRow("POST", "accounts", {...fields, age: Number(fields.age) || null});
  toast(WORDS.accountAdded(fields.username));
}

function renderAccountRow(/** @type {ListedAccount} */ account) {
  const {id, name, admin} = account;
  const isOwn = name === state.account.name;
  const role = admin ? WORDS.admin : WORDS.member;
  const change = admin ? WORDS.makeMember : WORDS.makeAdmin;
  const password = {...NEW_PASSWORD, ...OPENED};
  const formName = `password-${id}`;
  const path = `accounts/${id}`;
  const become = {admin: !admin, ...(account.age && {age: null})};
  const act = fields => changeRow("POST", path, {...become, ...fields});
  const see = age => changeRow("POST", path, {age: Number(age) || null});
  const token = state.settings.addresses[id];
  const adminQuestion = account.age ? WORDS.agedAdminQuestion : WORDS.adminQuestion;
  const text = (admin ? WORDS.memberQuestion : adminQuestion)(name);
  const sees = account.age && WORDS.seesFor(account.age);
  const created = WORDS.created(formatAge(account.created_at));
  const passwordLink = fields => invite({...fields, account: id});
  const question = {text: WORDS.passwordLinkQuestion(name), yes: WORDS.makeLink};
  const askForLink = () => ask({...question, act: passwordLink, isSecured: true});
  return renderRow({
    id,
    title: name,
    facts: [role, isOwn && WORDS.you, sees, created],
    menu: !isOwn && [
      !admin && renderRowMenu(WORDS.sees, name, accountAges(), account.age || "", see),
      rowButton(change, name, () => ask({text, yes: change, act, isSecured: true})),
      rowButton(WORDS.setPassword, name, () => openForm(formName)),
      rowButton(WORDS.passwordLink, name, askForLink),
      account.age && renderMakeAddress(account),
      endButton(WORDS.remove, path, name, WORDS.removeQuestion(name), admin),
    ],
    more: [
      token &&
        renderCode(WORDS.consoleAddress, consoleAddress(token), WORDS.copyAddress),
      renderRowForm(
        formName,
        fields => setPassword(account, fields),
        renderUsername(name),
        field(WORDS.newPasswordOf(name), "password", password),
        renderOwnPassword(),
      ),
      renderNewLink(id),
    ],
  });
}

/** @param {Fields} fields with the id of an `account` for a new password of it */
async function invite(fields) {
  const body = {...fields, age: Number(fields.age) || null};
  const made = await changeRow("POST", "invitations", body);
  change("settings", {newLink: {...made, account: fields.account}});
}

/** The link that was made just now, while it is open.
 * @param {number} [account] whose password it is for */
function renderNewLink(account) {
  const {newLink} = state.settings;
  const isOpen = state.invitations?.some(({id}) => id === newLink?.id);
  if (!newLink || newLink.account !== account || !isOpen) return false;
  const {link, qr} = newLink;
  const code = renderCode("", link, WORDS.copyLink);
  return renderMade(
    "newLink",
    WORDS.newLink,
    WORDS.newLinkLead,
    code,
    renderQr(link, qr),
  );
}

/** @param {Invitation} invitation */
function renderInvitationRow({id, maker, name, admin, age, created_at: created}) {
  let title = admin ? WORDS.invitedAdmin : WORDS.invited;
  if (age) title = WORDS.invitedFor(age);
  if (name) title = WORDS.newPasswordOf(name);
  const path = `invitations/${id}`;
  const facts = [WORDS.madeBy(maker), WORDS.created(formatAge(created))];
  const actions = [endButton(WORDS.remove, path, title, WORDS.removeInvitation)];
  return renderRow({id, title, facts, actions});
}

function renderMakeAddress(/** @type {ListedAccount} */ {id, name}) {
  const act = async () => {
    const {token} = await call("POST", `web/accounts/${id}/dir`);
    change("settings", {addresses: {...state.settings.addresses, [id]: token}});
  };
  const text = WORDS.createAddressQuestion(name);
  const open = () => ask({text, yes: WORDS.createAddress, act});
  return rowButton(WORDS.consoleAddress, name, open);
}

async function setPassword(/** @type {ListedAccount} */ {id, name}, fields) {
  await call("POST", `web/accounts/${id}`, fields);
  toast(WORDS.passwordSet(name));
}

// Uploads: files that are added to the inbox, one after the other, in pieces. They go
// on after a broken connection, a restart of the server, and signing in again.

const MIN_PIECE = 256 * 1024; // bytes
const MAX_PIECE = 8 * 1024 * 1024;
const QUICK_PIECE = 2000; // milliseconds: pieces that take less become longer
const MAX_PIECE_MS = 90000; // until a piece is answered
const COVER_TYPES = ["jpg", "jpeg", "png", "webp"];
const MAX_UPLOAD_ROWS = 50; // that are shown
let uploadCount = 0;

/** @typedef {Pick<QueueItem, "name" | "size" | "bytes" | "speed" | "percent">} Figures
 * what a progress bar shows */
/** @typedef {{
 *   key: number, file: File, id: string, offset: number, length: number, limit: number,
 *   status: "waiting" | "running" | "paused" | "failed" | "done",
 *   speed: number, note: string, call: AbortController,
 * }} Upload `length` and `limit` are of its pieces, in bytes */

/** Add those files that the library takes, and tell of the others. */
function addFiles(/** @type {File[]} */ files) {
  const {inbox} = state.account;
  if (!inbox) return;
  const shown = files.filter(file => !isHidden(file));
  const groups = groupBy(shown, whyLeftOut);
  const wanted = groups.get("") || [];
  groups.delete("");
  const told = Array.from(groups, ([why, left]) => {
    const names = joinFacts(left.slice(0, 3).map(({name}) => name));
    return WORDS.leftOut(left.length, names, why);
  });
  if (told.length) toast(joinSentences(...told), true);
  update({uploads: [...state.uploads, ...wanted.map(makeUpload)]});
  runUploads();
}

/** Why the library does not take a file, or "". */
function whyLeftOut(/** @type {File} */ {name, size}) {
  const {types, max_cover_bytes: max} = /** @type {Inbox} */ (state.account.inbox);
  const type = typeOf(name);
  if (!size) return WORDS.whyLeftOut.empty;
  if (!COVER_TYPES.includes(type))
    return types.includes(type) ? "" : WORDS.whyLeftOut.type(types.join(", "));
  return size > max ? WORDS.whyLeftOut.cover(formatBytes(max)) : "";
}

function typeOf(fileName) {
  return fileName.toLowerCase().split(".").pop();
}

/** Whether it is one of those that systems add to folders: they are left out. */
function isHidden({name}) {
  return /^[.~]/.test(name);
}

/** An upload, paused where a file of that type and size is there already. Images of
 * cartridges have few sizes: one of these must be named alike too.
 * @returns {Upload} */
function makeUpload(/** @type {File} */ file) {
  const [type, words] = [typeOf(file.name), fold(file.name)];
  const isNamed = text => words.includes(fold(text));
  const same = state.entries?.find(
    ({name, title_id: id = name, size, file_type: of}) =>
      size === file.size &&
      of === type &&
      (of !== "xci" || [id, withoutEnding(name)].some(isNamed)),
  );
  const note = same ? WORDS.isThere(same.name) : "";
  return {
    ...{key: ++uploadCount, file, id: "", offset: 0, speed: 0, note},
    ...{status: same ? "paused" : "waiting", length: MIN_PIECE, limit: MAX_PIECE},
    call: new AbortController(),
  };
}

/** @param {Upload} upload
 * @param {Partial<Upload>} changes */
function changeUpload(upload, changes) {
  Object.assign(upload, changes);
  update({uploads: [...state.uploads]});
}

/** Send the files that wait, one after the other. */
async function runUploads() {
  for (let next; (next = nextUpload()); ) {
    changeUpload(next, {status: "running"});
    while (next.status === "running" && state.uploads.includes(next))
      await sendPiece(next);
  }
}

/** The first that waits, unless another one is sent. */
function nextUpload() {
  const {phase, uploads} = state;
  const isBusy = phase !== "in" || uploads.some(({status}) => status === "running");
  return isBusy ? undefined : uploads.find(({status}) => status === "waiting");
}

async function sendPiece(/** @type {Upload} */ upload) {
  upload.call = new AbortController();
  const goesOn = ({isUnanswered, message}) => {
    const note = isUnanswered ? WORDS.uploadWaits : message;
    if (upload.status === "running")
      changeUpload(upload, {note, length: MIN_PIECE, speed: 0});
    return upload.status === "running";
  };
  try {
    await persist(() => sendBytes(upload), goesOn, upload.call.signal);
  } catch (error) {
    if (upload.status === "running") refusePiece(upload, error);
  }
}

/** Send a piece of an upload, or begin it first. The browser reads the piece: here, a
 * byte tells whether it can. */
async function sendBytes(/** @type {Upload} */ upload) {
  const {id, file, offset, length} = upload;
  const {signal} = upload.call;
  const {name, size, lastModified} = file;
  const began = performance.now();
  const how = {signal, limit: MAX_PIECE_MS, headers: {"Upload-Offset": String(offset)}};
  await file.slice(offset, offset + 1).arrayBuffer();
  const begin = {name, size, modified: Math.max(0, lastModified)};
  const {data} = await (id
    ? request("PATCH", `web/uploads/${id}`, file.slice(offset, offset + length), how)
    : request("POST", "web/uploads", begin, how));
  if (state.uploads.includes(upload))
    acceptPiece(upload, data, performance.now() - began);
}

/** @param {Upload} upload */
function acceptPiece(upload, {id = upload.id, offset, name, is_equal: isEqual}, ms) {
  const sent = upload.id ? offset - upload.offset : 0;
  const {speed, limit} = upload;
  const length = sent && ms < QUICK_PIECE ? upload.length * 2 : upload.length;
  const now = (sent * 1000) / Math.max(ms, 1);
  changeUpload(upload, {
    ...{id, offset, note: "", length: Math.min(length, limit)},
    speed: speed && sent ? speed * 0.7 + now * 0.3 : speed || now,
  });
  if (!name) return;
  const note = isEqual ? WORDS.wasThere(name) : WORDS.wasAdded(name);
  changeUpload(upload, {status: "done", note});
  update({announcement: note});
  poll("changes");
  if (state.unfinished.length) poll("uploads");
}

function refusePiece(/** @type {Upload} */ upload, error) {
  const {status, answer} = error;
  const shorter = Math.max(upload.length / 2, MIN_PIECE);
  const note = error instanceof DOMException ? WORDS.unreadable : explain(error);
  if (status === 409 && answer?.offset !== undefined)
    changeUpload(upload, {offset: answer.offset});
  else if (status === 404 && upload.id) changeUpload(upload, {id: "", offset: 0});
  else if (status === 413 && upload.length > MIN_PIECE)
    changeUpload(upload, {length: shorter, limit: shorter});
  else changeUpload(upload, {status: "failed", note});
}

/** Pause an upload, or go on with it. */
function toggleUpload(/** @type {Upload} */ upload, isStopped) {
  if (isStopped) changeUpload(upload, {status: "waiting", note: ""});
  else changeUpload(upload, {status: "paused", speed: 0, note: WORDS.paused});
  if (isStopped) runUploads();
  else upload.call.abort();
}

/** Cancel an upload, or remove a finished one from the list. What the server keeps of
 * it, if it cannot be told now, goes by itself. */
function cancelUpload(/** @type {Upload} */ upload) {
  const {id, status, call: running} = upload;
  update({uploads: state.uploads.filter(each => each !== upload)});
  changeUpload(upload, {status: "paused"});
  running.abort();
  return id && status !== "done" && changeRow("DELETE", `uploads/${id}`);
}

function isUnfinished(/** @type {Upload} */ {status}) {
  return status === "waiting" || status === "running" || status === "paused";
}

/** Forget the files that were added, once somebody has read so and all are. */
function forgetUploads() {
  if (!state.uploads.some(isUnfinished))
    update({uploads: state.uploads.filter(({status}) => status === "failed")});
}

function chooseFiles() {
  const input = document.createElement("input");
  Object.assign(input, {type: "file", multiple: true, hidden: true});
  input.onchange = () => addFiles([...(input.files || [])]);
  for (const end of ["change", "cancel"]) input.addEventListener(end, input.remove);
  document.body.append(input); // or Safari loses it, and what is chosen
  input.click();
}

function dragFiles(/** @type {DragEvent} */ event) {
  if (!state.account.inbox) return;
  const types = event.dataTransfer?.types || [];
  const isOver = event.type === "dragover" && types.includes("Files");
  if (isOver) event.preventDefault();
  const isDropping = isOver || (state.dropping && event.relatedTarget !== null);
  if (isDropping !== state.dropping) update({dropping: isDropping});
}

async function dropFiles(/** @type {DragEvent} */ event) {
  const {types = /** @type {readonly string[]} */ ([]), items} =
    event.dataTransfer || {};
  if (!state.account.inbox || !items || !types.includes("Files")) return;
  event.preventDefault();
  update({dropping: false});
  const entries = [...items].map(item => item.webkitGetAsEntry() || item.getAsFile());
  await attempt(async () => addFiles((await Promise.all(entries.map(filesOf))).flat()));
}

/** Return a dropped file, or those in a dropped folder.
 * @returns {Promise<File[]>} */
async function filesOf(entry) {
  if (!entry || entry instanceof File) return entry ? [entry] : [];
  if (entry.isFile) return [await new Promise((...ends) => entry.file(...ends))];
  const reader = entry.createReader();
  const found = /** @type {any[]} */ ([]);
  let batch; // of a hundred at most
  do {
    batch = await new Promise((...ends) => reader.readEntries(...ends));
    found.push(...batch);
  } while (batch.length);
  return (await Promise.all(found.map(filesOf))).flat();
}

/** @param {Unfinished} upload */
function renderUploadRow({id, name, size, offset, account, is_own: isOwn}) {
  const figures = WORDS.bytesOf(formatBytes(offset), formatBytes(size));
  const reserved = WORDS.reserved(formatBytes(size - offset));
  const facts = isOwn ? [WORDS.chooseAgain(figures)] : [account, figures, reserved];
  const question = WORDS.discardQuestion(name);
  const actions = [endButton(WORDS.discard, `uploads/${id}`, name, question)];
  return renderRow({id, title: name, facts, actions});
}

/** What is not whole, and not sent by this page now: an admin has that of all. */
function leftUploads() {
  const ids = state.uploads.map(({id}) => id);
  return state.unfinished.filter(({id}) => !ids.includes(id));
}

/** The files that are being added, the unfinished ones first. */
function renderUploads() {
  const {uploads} = state;
  const {length} = uploads;
  const left = leftUploads().filter(upload => upload.is_own);
  if (!(length || left.length) || !state.account.inbox) return false;
  const ended = uploads.filter(each => !isUnfinished(each));
  const shown = [...uploads.filter(isUnfinished), ...ended].slice(0, MAX_UPLOAD_ROWS);
  const done = uploads.filter(({status}) => status === "done").length;
  const clear = () => update({uploads: uploads.filter(isUnfinished)});
  const label = length ? WORDS.uploads(done, length) : WORDS.unfinished;
  return h.section(
    {class: "uploads card", "aria-label": label, key: "uploads"},
    h.details(
      {open: isWide()},
      h.summary("row-title", label),
      h.ul(null, shown.map(renderUpload), left.map(renderUploadRow)),
      uploads.length > 0 && h.p("meta", WORDS.addLead),
      ended.length > 0 && button(WORDS.clear, clear),
    ),
  );
}

function renderUpload(/** @type {Upload} */ upload) {
  const {key, status, file, offset: bytes, note} = upload;
  const {name, size} = file;
  const speed = status === "running" ? upload.speed : 0;
  const item = {name, size, bytes, speed, percent: (100 * bytes) / size};
  const facts = status === "done" ? [note] : [note, ...progressFacts(item)];
  const isStopped = status === "paused" || status === "failed";
  const toggle = () => toggleUpload(upload, isStopped);
  const icon = {paused: "play", failed: "retry"}[status] || "pause";
  const label = isStopped ? WORDS.resumeName(name) : WORDS.pauseName(name);
  const remove = status === "done" ? WORDS.dismissName(name) : WORDS.cancelName(name);
  return h.li(
    {class: "upload", "data-status": status, key},
    h.div(
      "item-text",
      h.h3(null, name),
      h.p("meta", joinFacts(facts)),
      status !== "done" && renderProgress(item),
    ),
    status !== "done" && iconButton(icon, label, toggle),
    iconButton("close", remove, () => cancelUpload(upload)),
  );
}

// Go

history.scrollRestoration = "manual";
addEventListener("hashchange", follow);
addEventListener("click", dropSecondClick, {capture: true});
for (const way of ["pointerdown", "keydown"]) addEventListener(way, noteInput);
addEventListener("click", closeMenu, {capture: true});
addEventListener("click", toggleMenu, {capture: true});
addEventListener("keydown", dropRepeatedEnter);
addEventListener("keydown", focusSearch);
addEventListener("keydown", closeOneByEscape);
addEventListener("pagehide", keepPosition);
addEventListener("scroll", placeTitles, {passive: true});
addEventListener("resize", () => update({}));
setInterval(flow, FLOW_PAUSE);
addEventListener("online", pollAll);
document.addEventListener("visibilitychange", () =>
  document.hidden ? (keepPosition(), schedule()) : pollAll(),
);
addEventListener("dragover", dragFiles);
addEventListener("dragleave", dragFiles);
addEventListener("drop", dropFiles);
addEventListener("beforeunload", event => {
  if (state.uploads.some(isUnfinished)) event.preventDefault();
});
readLocation();
start().catch(error => showTrouble(explain(error)));
"""

ICON = r"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
<rect width="64" height="64" rx="14" fill="#0f6b5c"/>
<path d="M17 14h6v36h-6zM26 18h6v32h-6z" fill="#f4f2ec"/>
<path d="m35.5 17.3 5.8-1.6 9 33-5.8 1.6z" fill="#f2b84b"/>
</svg>
"""

# ICON without round corners, as PNGs of so many pixels a side: iOS takes no SVG, and
# Android crops the corners itself.
PNG_ICONS = {
    192: """
iVBORw0KGgoAAAANSUhEUgAAAMAAAADABAMAAACg8nE0AAAAIVBMVEUPa1w9hnlroZaYvLLG18/0
8uw8ellqilWXmVLFqU7yuEsAJUjXAAACEUlEQVR42u3WsU5CQRSE4dsI6NPZ0NNpqKhMtKLSYEWn
obJS3Kc0Che6PZP99yQmzHSE5H4JmTucYXAcx3Ecx3Ecx3Ec5xJyNT/m1sAlA9NNKjB5LGWVCNzv
SinrNODu9/GlbJOAyaYc8pkEPB2fX76SgOUI7LsB44f533fXI1CSgNkJWOQAkxOwygGGE7BNAnYj
8JEE9OhpFejR0ypw6ul3EtCjp1Vg2qGnVeD8IqxzgB49rQOvBQ92HVjyF6EO3PCe1oEOg10HOvS0
DnToaR0493SbBPCeBgAf7ADggx0AvKcBwAc7APhhEQD8sIgAPNgRgHsaAbinEYAPiwjAPY0APNgR
gAc7AnBPQ4AOdgjQwyIE6GERAnSwQ4D2NARoT0OAHhYxAHsaA3CwYwAOdgzAnsYAHOwYgIdFDMDD
QgDYYAsA66kAsJ4KADssBID1VADYYAsAG2wBYD1VADTYCoAOCwVAh4UCoMFWANRTBUA9VQB0WEgA
6akEkMGWADLYEkB6KgFksCWAHBYSQA4LDQCDrQGgpxoAeqoB4LDQANBTDQCDrQFgsDUA9FQE2gdb
BNoPCxFoPyxEoH2wRaC9pyLQ3lMRaD8sVKC5pyrQPNgq0DzYKtDcUxVoHmwVaD4sVKD5sJCB8UV4
SfqJjj19T/rLPPZ0/5B0mx56+v08ZGb2thgcx3Ecx3Ecx3Ecx/kX+QGB7ttuTWv4JwAAAABJRU5E
rkJggg==
""",
    512: """
iVBORw0KGgoAAAANSUhEUgAAAgAAAAIABAMAAAAGVsnJAAAAFVBMVEUPa1xbmIyoxbz08uxbhVam
nlHyuEvvsixmAAAFY0lEQVR42u3YMY7sBBCEYQf2XIgLOGAcv2BxvMGs738EAhB6oB0Jia52Ff3/
N/AnWdX2shARERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERER
ERERERHR/7Jf3gQAAAAAAAAAAAAAAAAAAADAf2jdZwM8rx+TAZ7XdX3OBVjP67qu11SAPx5/LMD6
vP7sayTAX49/XddAgOf50/Nf+zSA9W+Pf7nvYDXAPx/ffgeLAZ7XNRngm8e338FCgF/P757ffQfr
AL5/fPsdbADYhwAcALzpxxCAxzuAzyEA2zuAVzzAv0Na3wF8DQFYrsgdLAQ4AUjcwUKAzB0sBMjc
wUKAzB0sBFgBSDwECgEyD4FKgMgdrASI3MFKgMgdrATYAAjcwUqAyB2sBIjcwVKAxB0sBTgAyDsE
SgESD4FSgMQdLAVI3MFSgMQdrAU4AYjbwVqAwB2sBQjcwVqAwB2sBVgBiDsEagECD4FigLwdLAbI
28FigLwdLAbYAEjbwWKAvB0sBsjbwWqAuB2sBjgACDsEqgHiDoFqgLgdrAaI28FqgLgdLAc4Acja
wXKAtB0sB0jbwXKAtB0sB1gByDoEygHSDoF6gLAdrAcI28F6gLAdrAfYAIjawXqAsB2sBwjbQQFA
1g4KAA4Akg4BAUDWISAAyNpBAUDWDgoAsnZQAXACELSDCoCoHVQARO2gAiBqBxUAKwBBh4ACIOoQ
kAAk7aAEIGkHJQCP6QBJP4Z7AV5DAJJ2UAKQtIMagKAd1AAcAMTsoAYg6INYAxC0gxqAoB3UACzj
AXJ+DHcD7EMAcnZQBJCzgyKAnB0UAawApOygCCDng1gFELODKoCYHVQBPKYDxPwYbgd4DQGI2UEV
QMwOygBSdlAGcEwHSNnBfoDPIQApOygDSNlBGcAyHiDkx/ANAPsQgJAPYh1AyA7qAEJ2UAewTgcI
2cEbAK4pABk7KATI2EEhwGM6QMaP4TsAXkMAMj6IhQAZO6gEiNhBJcAxHSBiB28B+BwCELGDSoCI
HVQCLOMBEn4M3wOwDwFI+CCWAiTsoBQgYQelAOt0gIQdvAfgmgIQsINagIAd1AI8pgME/Bi+CeA1
BCDgg1gLELCDYgD/HRQDHAC476AYwP+DWAzgv4NiAP8dFAMs4wHsfwzfBrAPAbDfQTWA/Q6qAex3
UA2wAmC+g2oA+w9iOYD7DsoB3HdQDuC+g3KADQDvHZQDuO+gHMB9B/UA5juoBzgAsD4E9ADmh4Ae
wHwH9QDmO6gHMN/BBoATAOcdbADw3sEGAO8dbADw3sEGgBUA50OgAcD7EOgAsN7BDgDrHewAsN7B
DoANAOMd7ACw3sEOAOsdbAFw3sEWgAMA30OgBcD5EGgBcN7BFgDnHWwBcN7BHoATANsd7AEw3sEe
AOMd7AEw3sEegBUA20OgB8D4EGgC8N3BJgDfHWwC8N3BJoANANcdbALw3cEmAN8d7AKw3cEugAMA
00OgC8D2EOgCsN3BLgDbHewCsN3BNoATAM8dbANw3cE2ANcdbANw3cE2gBUAz0OgDcD1EOgDMN3B
PgDTHewDMN3BPoANAMsd7AMw3cE+ANMdbATw3MFGgAMAx0OgEcDzEGgE8NzBRgDPHWwE8NzBToAT
gDevwD4E4M0Ofky5BL/fwXsfvxfgmx38bV8GAaxWL//9AF8fyzILYLF6+e8A+GkHP/ZlIMDh9PLf
AfCwe/xmgM3p5b+jbfbjL8tqcPjc2/DHJyIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIi
IiIiIiIiIiIiIiIiIiIiIiIiIiKiGf0Ol0aBX/w2gVIAAAAASUVORK5CYII=
""",
}

MANIFEST = r"""{
  "name": "catalogd",
  "short_name": "catalogd",
  "description": "The home game library",
  "start_url": "./",
  "scope": "./",
  "display": "standalone",
  "background_color": "#f4f2ec",
  "theme_color": "#0f6b5c",
  "icons": [
    {"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"},
    {"src": "icon-192.png", "sizes": "192x192", "type": "image/png"},
    {"src": "icon-512.png", "sizes": "512x512", "type": "image/png"},
    {"src": "icon-512.png", "sizes": "512x512", "purpose": "maskable"}
  ]
}
"""

COMMENT = re.compile(
    r"^ *(//.*|/\*\*(?:(?!\*/)[\s\S])*\*/)$| // .*$|/\*\* @type [^*]*\*/ ?",
    re.MULTILINE,
)
# Browsers get the script without its comments and most spaces, in the same lines. No
# text in it spans lines, or has two slashes or an operator between spaces.
SCRIPT = COMMENT.sub(lambda found: "\n" * found[0].count("\n"), JS)
SCRIPT = re.sub(r"(?m)^ +| ([=!]==|&&|\|\||=>|\?\?|[=?:]) ", r"\1", SCRIPT)
ENGLISH = json.dumps({"words": WORDS, "sentences": {}}, separators=(",", ":"))
SPACES = r"/\*.*?\*/|(?<=[{};,:>])\s+|;?\s+(?=[{};,>])"
STYLE = re.sub(SPACES, "", CSS, flags=re.DOTALL)
SCRIPT = SCRIPT.replace('JSON.parse("{}")', ENGLISH)
ASSETS = {
    "": ("text/html; charset=utf-8", HTML.encode()),
    "style.css": ("text/css; charset=utf-8", STYLE.encode()),
    "script.js": ("text/javascript; charset=utf-8", SCRIPT.encode()),
    "icon.svg": ("image/svg+xml", ICON.encode()),
    **{
        f"icon-{side}.png": ("image/png", base64.b64decode(text))
        for side, text in PNG_ICONS.items()
    },
    "manifest.webmanifest": ("application/manifest+json", MANIFEST.encode()),
}
for name, asset in ASSETS.items():
    asset_route(name, *asset)


# Page: languages ---

LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-[A-Z]{2}|-[0-9]{3})?")
ALL_PLURALS = "zero one two few many other"


class Translation(NamedTuple):
    """The texts of the page in another language, as a file has them."""

    about: Row
    texts: dict[str, dict[str, str]]  # see texts_of
    body: Body


def texts_of(table: Any, key: str = "") -> dict[str, dict[str, str]]:
    """Return the texts in a table by their plural forms, and by keys such as
    "words.sorts.name"."""
    if not isinstance(table, dict) or {"other"} <= {*table} <= {*ALL_PLURALS.split()}:
        return {key: forms(table)}
    texts: dict[str, dict[str, str]] = {}
    for name, part in table.items():
        texts |= texts_of(part, f"{key}.{name}".strip("."))
    return texts


def program_folders() -> list[Any]:
    """Return the folders, perhaps of a .pyz, that may have what comes with the program;
    the one of this file is the last."""
    program: Any = pathlib.Path(__file__).resolve().parent
    if not program.is_dir():  # in a .pyz
        program = zipfile.Path(program)
    installed = pathlib.Path(sysconfig.get_path("data"), "share", "catalogd")  # by pip
    return [installed, program / "packaging", program]


def translation_files(data_dir: str) -> Iterator[Any]:
    """Yield the paths of translations, and those of the owner last."""
    for place in (*program_folders(), pathlib.Path(data_dir)):
        folder = place / "languages"
        with logged_problems("Translations are left out"):
            paths = folder.iterdir() if folder.is_dir() else ()
            yield from (path for path in paths if path.suffix == ".json")


def read_translation(path: Any) -> Translation:
    """:raises Problem: the file is no translation."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise Problem("Put a file there.")
        if not LANGUAGE.fullmatch(path.stem):
            raise Problem("Name it by the code of its language: de.json, pt-BR.json.")
        file = {**json.loads(path.read_bytes())}  # of Windows' shells in UTF-16
        content = json.dumps(file, ensure_ascii=False).encode()
        about = check_all(ABOUT, {**file.pop("about", {})})
        texts = texts_of(file)
        for key, text in texts.items():
            for words in text.values():
                check_text(key, ABOUT["language"], words)
    except (OSError, Problem, RecursionError, TypeError, ValueError) as error:
        raise Problem(f"{path}: {error}") from error
    return Translation(about, texts, Body(content, content_digest(content), level=9))


def read_translations(data_dir: str) -> tuple[dict[str, Translation], dict[str, str]]:
    """Return the translations by the codes of their languages, and why the files at
    other paths are left out."""
    found, left_out = {}, {}
    for path in translation_files(data_dir):
        try:
            found[path.stem] = read_translation(path)
        except Problem as problem:
            left_out[str(path)] = say("translation_left_out", problem)
    return {code: found[code] for code in sorted(found)}, left_out


# Service ----------------------------------------------------------------------
# What `serve` runs: log, notices, addresses, and the threads beside those of Server.
# It may use all that is above.

WILDCARDS = {"": (4, 6), "0.0.0.0": (4,), "::": (6,)}  # hosts, with versions of IP
LISTEN_HINTS = {
    errno.EADDRINUSE: "Another catalogd? Try --port 8080, or port in the INI.",
    errno.EACCES: "A port below 1024 needs root."
    " The service of Debian's package gets it by the drop-in port-80.conf."
    if IS_PACKAGED
    else "A port below 1024 needs root. Try --port 8080, or port in the INI.",
    10013: "Windows or another program keeps this port: 'netsh interface ipv4 show"
    " excludedportrange tcp' lists what it keeps. Try --port 8080, or port in the INI.",
}
MAX_SCAN_STOP_SECONDS = 0.5  # how long a stop waits for a scan, and for a backup
UPKEEP_CHECK_SECONDS = 30.0  # between checks of whether a backup is due
NOTICE_CHECK_SECONDS = 5.0
CONSOLE_CHECK_SECONDS = 10.0  # between checks for devices that a command has changed
NEWS_SECONDS = 600.0  # longer than addresses that do not answer can hold up the rest
MAX_NOTICE_LINES = 10
MAX_NOTICE_BYTES = 1800  # less than Discord and ntfy take
NOTICES = {
    "completed": "{name} was sent ({account}).",
    "failed": "{name} has failed ({account}): {error:.200}",
    "waiting": "{name} has waited an hour for a device ({account}).",
    "problem": "{name}",
    "solved": "Solved: {name}",
}
SERVICE_FILE = "service.json"  # in the data folder, while the service runs
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
MAX_LOG_LINES = 10_000  # that wait to be written
MAX_LOG_STOP_SECONDS = 2.0  # that the end waits for them
UPGRADE_SECONDS = 20  # between messages to systemd that an upgrade goes on
HEARTBEAT_SECONDS = 20.0  # between messages to a systemd that set no watchdog
MAX_ANSWER_SECONDS = 5.0  # for a call of the program to itself, or of a notice
MAX_ANSWER_BYTES = 1_000_000


# Service: log ---


def printable(text: str) -> str:
    """Return a text as one line for a log or a terminal. It may come from outside: a
    client may send a key anywhere, and a file name may have lines and commands to a
    terminal in it."""
    text = KEY_SHAPE.sub(f"{KEY_PREFIX}...", text)
    return "".join(
        character if character.isprintable() else repr(character)[1:-1]
        for character in text
    )


def is_journal() -> bool:
    """Return whether standard error leads to systemd's journal, which keeps the time
    of a line, and takes its level from a prefix. See systemd.exec(5), sd-daemon(3)."""
    journal = os.environ.get("JOURNAL_STREAM")
    return bool(journal) and "{0.st_dev}:{0.st_ino}".format(os.fstat(2)) == journal


class LogFormatter(logging.Formatter):
    """Gives each record a line, and the lines of a traceback an indentation, so that
    none of them can pass for a record."""

    def __init__(self) -> None:
        self.is_journal = is_journal()
        super().__init__("%(message)s" if self.is_journal else LOG_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        level = {logging.WARNING: 4, logging.ERROR: 3}.get(record.levelno, 6)
        prefix = f"<{level}>" if self.is_journal else ""
        return prefix + printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"    {printable(line)}" for line in lines)


class LogWriter(logging.StreamHandler[TextIO]):
    """Writes lines to standard error: to a file of its own, since Python's end waits
    for whoever writes to sys.stderr."""

    def __init__(self) -> None:
        encoding = sys.stderr.encoding
        super().__init__(os.fdopen(os.dup(2), "w", -1, encoding, "backslashreplace"))

    def handleError(self, record: logging.LogRecord) -> None:
        """Go on with the next line: the disk is full, or the reader is gone."""


class LogQueue(logging.handlers.QueueHandler):
    """Has a thread write the log, so that no answer waits for the reader of a pipe or
    for a console in which text is selected. Lines that find MAX_LOG_LINES waiting are
    dropped and counted."""

    queue: queue.Queue[logging.LogRecord | None]

    def __init__(self) -> None:
        super().__init__(queue.Queue(MAX_LOG_LINES))
        self.setFormatter(LogFormatter())
        self._writer, self._dropped = LogWriter(), 0
        logging.handlers.QueueListener(self.queue, self._writer).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self.queue.put_nowait(self._dropped_record())
                self._dropped = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def _dropped_record(self) -> logging.LogRecord:
        text = f"{self._dropped} log lines were dropped."
        return logging.makeLogRecord({"msg": text})

    def close(self) -> None:
        """Wait a moment for the lines to be written: perhaps nobody reads them."""
        if not self._writer.stream.closed:
            end = threading.Thread(target=self._end, name="log end", daemon=True)
            end.start()
            end.join(MAX_LOG_STOP_SECONDS)
        super().close()

    def _end(self) -> None:
        if self._dropped:
            self.queue.put(self._dropped_record())
        self.queue.put(None)
        self.queue.join()
        self._writer.stream.close()


@contextlib.contextmanager
def log_thread() -> Iterator[None]:
    """While the block runs, have a LogQueue take what goes to standard error."""
    root = logging.getLogger()
    before = root.handlers
    others = [
        handler for handler in before if type(handler) is not logging.StreamHandler
    ]
    with contextlib.closing(LogQueue()) as lines:
        root.handlers = [*others, lines]
        try:
            yield
        finally:
            root.handlers = before


# Service: notices ---

# How servers take a title and a text, by the word before an address: the pattern of the
# addresses that need no word, without their scheme, and what is sent, as JSON if it is
# no text. The first one that fits counts. Sources: docs.ntfy.sh/publish, the source of
# gotify/server (api/message.go), and "Execute Webhook" in Discord's documentation.
NOTICE_FORMS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "discord": (
        r"(\w+\.)?discord(app)?\.com/api/.+",
        lambda title, text: {
            "content": f"**{title}**\n{text}",
            "allowed_mentions": {"parse": []},
        },
    ),
    "gotify": (
        r"[^?]+/message\?(.*&)?token=.+",
        lambda title, text: {"title": title, "message": text},
    ),
    "ntfy": (r"[^/]+/[\w-]+/?(\?.*)?", lambda title, text: text),
    "json": (r".*", lambda title, text: {"title": title, "text": text}),
}


def notice_form(address: str) -> tuple[str, str]:
    """Return the word for an address of the setting `notify`, and its URL."""
    if word := NOTICE_WORD.match(address):
        return word[1], address[word.end() :]
    place, forms = address.partition("://")[2], NOTICE_FORMS.items()
    return next(word for word, form in forms if re.fullmatch(form[0], place)), address


def post_notice(address: str, title: str, text: str) -> tuple[bool, str]:
    """Send a notice. Return whether it was taken, and the status of the answer, or what
    went wrong: any other text may quote what is secret in the address."""
    word, url = notice_form(address)
    body, kind = NOTICE_FORMS[word][1](title, text), "text/plain"
    if not isinstance(body, str):
        body, kind = json.dumps(body), "application/json"
    headers = {"Title": title, "Content-Type": kind}
    try:
        status, _ = fetch(url, body.encode(), headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        name = "timed out" if isinstance(error, TimeoutError) else type(error).__name__
        return False, getattr(error, "strerror", None) or name
    reason = http.client.responses.get(status, "")
    return 200 <= status < 300, f"{status} {reason}".rstrip()


def post_notices(
    addresses: Iterable[str], title: str, text: str, askers: Askers
) -> dict[str, tuple[bool, str]]:
    """Send a notice to all addresses at once, and return what `post_notice` does."""
    calls = {
        address: functools.partial(post_notice, address, title, text)
        for address in addresses
    }
    answers, late = askers.ask(calls, MAX_ANSWER_SECONDS), (False, "timed out")
    return {
        address: answer if isinstance(answer, tuple) else late
        for address, answer in answers.items()
    }


class Notices:
    """What the addresses of the setting `notify` are told of all queues, and of the
    service's health."""

    def __init__(self, store: Store, addresses: Iterable[str], health: Health) -> None:
        self.store, self.addresses, self.health = store, addresses, health
        self._askers = Askers()
        self._failed: set[str] = set()  # addresses, at the last try
        self._known: set[tuple[str, str]] = set()
        self._faults: dict[tuple[str, str], str] = {}  # messages that were told
        self._new()  # what ended before is no news

    def send(self) -> None:
        """Send what is new as one message, so that 300 items are one."""
        news = self._changed_faults()
        with logged_problems("The news could not be read"):
            news += self._new()
        if not news:
            return
        counts = collections.Counter(event["status"] for event in news)
        names = {"problem": "problems"} if counts["problem"] > 1 else {}
        titles = [f"{counts[status]} {names.get(status, status)}" for status in counts]
        lines = [NOTICES[event["status"]].format_map(event) for event in news]
        if len(lines) > MAX_NOTICE_LINES:
            lines[MAX_NOTICE_LINES:] = [f"and {len(lines) - MAX_NOTICE_LINES} more"]
        text = "\n".join(map(printable, lines)).encode()[:MAX_NOTICE_BYTES]
        self._post(f"catalogd: {', '.join(titles)}", text.decode(errors="ignore"))

    def _new(self) -> list[Row]:
        news = self.store.news(NEWS_SECONDS / 86400)
        now = {(event["id"], event["time"]): event for event in news}
        before, self._known = self._known, {*now}
        return [event for key, event in now.items() if key not in before]

    def _changed_faults(self) -> list[Row]:
        """Return the faults that have begun since the last call, or have ended. One
        goes on where only its message changes."""
        faults = self.health.state()["faults"]
        now = {(fault["about"], fault["id"]): fault["message"] for fault in faults}
        before, self._faults = self._faults, now
        begun = [("problem", now[key]) for key in now if key not in before]
        ended = [("solved", before[key]) for key in before if key not in now]
        return [{"status": status, "name": name} for status, name in (*begun, *ended)]

    def _post(self, title: str, text: str) -> None:
        answers = post_notices(self.addresses, title, text, self._askers)
        for address, (is_taken, reply) in answers.items():
            if not is_taken and address not in self._failed:
                host = urllib.parse.urlsplit(address).hostname
                log.warning("%s was not notified: %s.", host, reply)
        self._failed = {name for name, (is_taken, _) in answers.items() if not is_taken}


# Service: calls ---


def answers(address: str, timeout: float) -> bool:
    """Return whether the service at an address answers `GET /healthz` with 200."""
    try:
        return fetch(f"{address}healthz", timeout=timeout)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def fetch(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> tuple[int, bytes]:
    """Return status and body of an answer: of a GET, or of a POST with a body. It
    follows no redirect. The timeout is in seconds, by default `MAX_ANSWER_SECONDS`, for
    the connection and for each part of the answer.
    :raises OSError, http.client.HTTPException, ValueError:"""
    parts = urllib.parse.urlsplit(url)
    is_https = parts.scheme == "https"
    connect = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    place = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    method, seconds = "GET" if body is None else "POST", timeout or MAX_ANSWER_SECONDS
    with contextlib.closing(connect(parts.netloc, timeout=seconds)) as call:
        call.request(method, place, body, {**(headers or {}), "Connection": "close"})
        answer = call.getresponse()
        return answer.status, answer.read(MAX_ANSWER_BYTES)


def notify(*states: str) -> None:
    """Send states to systemd, if it started the service with Type=notify. See
    sd_notify(3)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # A shell may have the variable of a service that has ended.
        with link, contextlib.suppress(OSError):
            link.sendto("\n".join(states).encode(), re.sub("^@", "\0", address))


# Service: addresses ---


def settings_texts(config: str) -> list[str]:
    """Return which settings are read, and a file beside the program that is not.
    :param config: the path of the INI file, "" for none"""
    is_there = os.path.exists(config)
    texts = [config if is_there else f"{config or 'no file'} (not there: the defaults)"]
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "catalogd.ini")
    if os.path.exists(beside) and not (is_there and os.path.samefile(beside, config)):
        texts.append(f"{beside} is not read: name it with --config")
    return texts


@logged_problems("The addresses could not be printed")
def greet(server: Server, scanner: Scanner, web: Web, open: bool = False) -> None:
    """Print what is served, where, and how to create the first account.
    :param open: show it in a browser."""
    addresses = list(page_addresses(server, web.settings))
    first = addresses[0]
    print(f"catalogd {__version__} serves", *scanner.folders, sep="\n    ")
    if web.settings_file is not None:
        print("Settings:", *settings_texts(web.settings_file), sep="\n    ")
    print("Open in a browser:", *addresses, sep="\n    ")
    if "//ADDRESS:" in first:
        print("ADDRESS is the machine that runs this container. Set [server] base_url.")
    if not web.store.accounts.exist():
        code = web.store.accounts.setup_code
        first = f"{first}#setup={code}"
        print("There is no account yet. Create the first one with this link:")
        print(f"    {first}", f"Setup code: {code}", sep="\n")
    print(end="" if is_journal() else "Stop with Ctrl-C.\n", flush=True)
    if open:
        webbrowser.open(first)


def page_addresses(
    server: Server, settings: Settings, is_named: bool = True
) -> Iterator[str]:
    """Yield the addresses that people on the LAN can open, the most likely first.

    :param is_named: whether the name of this machine is one, which may take seconds to
        resolve."""
    if settings.base_url:
        yield f"{settings.base_url}/"
    port = server.shown_port
    if os.environ.get("CATALOGD_CONTAINER"):  # whose own addresses lead nowhere
        if not settings.base_url:
            yield http_address("ADDRESS", port)
    elif settings.host not in WILDCARDS:
        yield http_address(settings.host, port)
    else:
        names = [local_name()] if is_named else []
        for host in filter(None, [*lan_hosts(WILDCARDS[settings.host]), *names]):
            yield http_address(host, port)


def http_address(host: str, port: int) -> str:
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}/" if port == 80 else f"http://{host}:{port}/"


def lan_hosts(versions: Sequence[int]) -> list[str]:
    """Return the own addresses, of these versions of IP, that others can open: those of
    version 6, or of a network that assigns none, where there are no better ones."""
    hosts = collections.defaultdict(list)
    for address in own_addresses():
        if address.version in versions:
            rank = (address.is_loopback, address.is_link_local, address.version)
            hosts[rank].append(str(address))
    return hosts[min(hosts)] if hosts else ["localhost"]


def local_name() -> str:
    """Return the name that mDNS gives this machine, or "" where it does not resolve."""
    name = f"{socket.gethostname().partition('.')[0]}.local"
    try:
        return name if socket.getaddrinfo(name, None) else ""
    except OSError:
        return ""


def own_address(host: str, port: int) -> str:
    """Return the address at which this machine itself reaches the service."""
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    return http_address(everywhere.get(host, host), port)


# Service: threads ---


def run(server: Server, scanner: Scanner, web: Web, open: bool = False) -> bool:
    """Serve until a signal ends it. Return whether all threads have ended.
    :param open: show the page in a browser.
    :raises KeyboardInterrupt: all have, after Ctrl-C."""
    came = stop_at_signals(server)
    own = own_address(web.settings.host, server.effective_port)
    web.consoles.address = own.rstrip("/")
    web.page_addresses = lambda: page_addresses(server, web.settings, is_named=False)
    threads = repeated_work(scanner, web, own)
    lasting = [scanner.thread, *threads]
    web.health.threads = lambda: [*lasting, *web.consoles.threads()]
    scanner.start()
    for thread in threads:
        thread.start()
    # It may take seconds to resolve the name of this machine.
    args = server, scanner, web, open
    greeting = threading.Thread(target=greet, args=args, name="greeting", daemon=True)
    greeting.start()
    try:
        has_ended = server.run()
    finally:
        notify("STOPPING=1")
        has_sent = web.consoles.end()
        has_scanned = scanner.stop(MAX_SCAN_STOP_SECONDS)
        has_copied, *_ = [thread.stop(MAX_SCAN_STOP_SECONDS) for thread in threads]
        greeting.join(MAX_SCAN_STOP_SECONDS)
    have_ended = has_ended and has_sent and has_scanned and has_copied
    if have_ended and signal.SIGINT in came:
        raise KeyboardInterrupt
    return have_ended


def stop_at_signals(server: Server) -> list[int]:
    """Let SIGTERM and SIGINT stop a server. Return a list that gets their numbers."""
    came: list[int] = []

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        server.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return came


def repeated_work(scanner: Scanner, web: Web, own: str) -> list[Lasting]:
    """:param own: address at which this machine reaches the service."""
    update, written = web.consoles.update, web.store.database.written
    threads = [
        Lasting("upkeep", Upkeep(scanner, web.backups), UPKEEP_CHECK_SECONDS),
        Lasting("uses", web.store.accounts.write_uses, USES_SECONDS),
        Lasting("consoles", update, CONSOLE_CHECK_SECONDS, written),
    ]
    if web.settings.notify:
        notices = Notices(web.store, web.settings.notify, web.health)
        threads.append(Lasting("notices", notices.send, NOTICE_CHECK_SECONDS))
    if os.environ.get("NOTIFY_SOCKET"):
        threads.append(heartbeat(own))
    return threads


def heartbeat(address: str) -> Lasting:
    """Return a thread that calls the service and tells systemd when it answers: so
    systemd's watchdog restarts a service that hangs."""
    watchdog = int(os.environ.get("WATCHDOG_USEC", "0")) / 1_000_000
    interval = watchdog / 3 or HEARTBEAT_SECONDS

    def beat() -> None:
        if answers(address, min(interval, MAX_ANSWER_SECONDS)):
            notify("READY=1", "WATCHDOG=1")

    return Lasting("heartbeat", beat, interval)


# Service: sockets and the file of the service ---


@contextlib.contextmanager
def service_file(server: Server, web: Web) -> Iterator[None]:
    """While the block runs, have a file in the data folder with the address of this
    service and the token of its call for `check`, which only its owner can read.
    :raises Problem: the file cannot be written."""
    path = pathlib.Path(web.store.database.folder, SERVICE_FILE)
    part = path.with_suffix(".part")
    address = own_address(web.settings.host, server.effective_port)
    content = json.dumps({"address": address, "token": web.token}).encode()
    try:
        part.unlink(missing_ok=True)  # of a service that was killed
        write_private(str(part), io.BytesIO(content))
        part.replace(path)
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def listen(web: Web, also: int | None = None) -> Server:
    """:param also: another port, to show to people.
    :raises Problem: the address cannot be bound."""
    if also and also == web.settings.port:
        raise Problem(f"--also {also} is the port itself. Leave it out.")
    limit = connection_limit(web.settings.connections)
    settings = dataclasses.replace(web.settings, connections=limit)
    sock = open_socket(settings.host, settings.port)
    server = Server(sock, web.app, settings, web.runs)
    server.adj.uploader = web.uploader
    if also is not None:
        server.also_listen(open_socket(settings.host, also))
    return server


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on a host, or for "" on all interfaces. :raises Problem:"""
    try:
        if not host and socket.has_dualstack_ipv6():
            ipv6 = socket.AF_INET6
            return socket.create_server(("", port), family=ipv6, dualstack_ipv6=True)
        family, *_, address = socket.getaddrinfo(
            host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:  # DNS has no such name
        cause = str(getattr(error, "strerror", error))
        cause = cause.partition(" (while")[0]  # names the address again
        code: Any = getattr(error, "winerror", None) or getattr(error, "errno", 0)
        hint = LISTEN_HINTS.get(code, "Check --host, or host in the INI.")
        where = f"{host or '*'}:{port}"
        raise Problem(f"Cannot listen on {where}: {cause}. {hint}") from error


def connection_limit(wanted: int) -> int:
    """Return how many connections fit into the limit of open files, which is raised if
    it can be. One may need two: a socket and a file."""
    try:
        import resource
    except ImportError:  # Windows, where select() takes 512 sockets
        return min(wanted, 500)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS has one below the hard one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    # RLIM_INFINITY is negative. The database, and what else there is, needs 100.
    return wanted if soft < 0 else min(wanted, max((soft - 100) // 2, 1))


# Commands ---------------------------------------------------------------------
# The command line. A Problem becomes one line on standard error and exit code 2.
# It may use all that is above; but for it, Service alone prints.

CREATED = "CREATED (UTC)"


# Commands: words and options ---


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise Problem(f"{message}. See '{self.prog} --help'.")

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file)  # argparse's own hides a full disk


Argument = tuple[str, dict[str, Any]]
FLAG = {"action": "store_true"}


class Command(NamedTuple):
    path: str  # its words, such as "user add"
    run: Callable[[argparse.Namespace], int | None]
    arguments: tuple[Argument, ...]


COMMANDS: list[Command] = []  # in the order of the help
GROUPS = {
    "user": "Add, list and remove accounts, and change their passwords and ages.",
    "key": "Create, list and revoke API keys.",
}


def argument(name: str, help: str, **rules: Any) -> Argument:
    """Return what `add_argument` is called with."""
    if not name.startswith("-"):
        rules.setdefault("metavar", name.upper())
    return name, {"help": help.replace("%", "%%"), **rules}


def command(path: str, *arguments: Argument) -> Callable[[Any], Any]:
    """Make a function a command. Its docstring is the command's help."""

    def add(run: Callable[[argparse.Namespace], int | None]) -> Any:
        COMMANDS.append(Command(path, run, arguments))
        return run

    return add


def store_command(path: str, *arguments: Argument) -> Callable[[Any], Any]:
    """Make a function a command that gets the open store, too."""

    def add(work: Callable[[argparse.Namespace, Store], None]) -> Any:
        @functools.wraps(work)
        def run(args: argparse.Namespace) -> None:
            settings = read_settings(args)  # perhaps only root can read the file
            with open_store(args, settings) as store:
                work(args, store)

        return command(path, *arguments)(run)

    return add


def port_of(text: str) -> int:
    """Return the port of an argument. :raises argparse.ArgumentTypeError:"""
    try:
        return int(PORT(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


# Commands: settings and data folder ---


def own_folder(folder_of: Callable[..., str]) -> str:
    """Return a folder of this user, "" for one without a home, as in a container.

    :param folder_of: a function of platformdirs. It raises RuntimeError then, or
        returns a path that begins with "~" (before 4.4)."""
    with contextlib.suppress(RuntimeError):
        folder = folder_of("catalogd", appauthor=False)
        return "" if folder.startswith("~") else folder
    return ""


def default_config_file() -> str:
    folder = own_folder(platformdirs.user_config_dir)
    usual = folder and os.path.join(folder, "catalogd.ini")
    return os.environ.get("CATALOGD_CONFIG") or usual


def default_data_folder() -> str:
    folder = own_folder(platformdirs.user_data_dir)
    return os.environ.get("CATALOGD_DATA_DIR") or folder


def common_arguments() -> list[Argument]:
    """Return the arguments that every command has."""
    config, data = default_config_file(), default_data_folder()
    ini_help = f"INI file (default: {config or 'none'})"
    help = f"folder of the database (default: {data or 'none, as you have no home'})"
    folder: Any = {"type": os.path.abspath, "default": data, "required": not data}
    return [
        argument("--config", ini_help, metavar="FILE", default=config),
        argument("--data-dir", help, metavar="DIR", **folder),
    ]


def read_settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the INI file, the defaults where there is none, with those
    of the command line over them.
    :raises Problem: it is wrong, or is missing although it was named."""
    is_usual = args.config == default_config_file()
    is_named = not is_usual or os.environ.get("CATALOGD_CONFIG")
    is_read = is_named or os.path.exists(args.config)
    settings = Settings.read(args.config) if is_read else Settings()
    given = {name: getattr(args, name, None) for name in ("host", "port")}
    over: Any = {name: value for name, value in given.items() if value is not None}
    folders = (*settings.folders, *filter(None, getattr(args, "folders", ())))
    return dataclasses.replace(settings, folders=folders, **over)


@contextlib.contextmanager
def open_store(args: argparse.Namespace, settings: Settings) -> Iterator[Store]:
    """Open the database, as the user who owns the data folder, while the block runs."""
    path = find_database(args)
    try:
        if args.run is serve:
            longer = f"EXTEND_TIMEOUT_USEC={3 * UPGRADE_SECONDS}000000"
            going_on = Lasting("upgrade", lambda: notify(longer), UPGRADE_SECONDS)
            going_on.start()
            try:
                upgrade(args.data_dir)
            finally:
                going_on.stop()
        store = Store(args.data_dir, settings.stale_after)
        with contextlib.closing(store):
            yield store
    except Damaged as problem:
        advice = f"There is no backup of it: move {path}* away, and start again."
        if last := Backups(path, Clock(), settings).last():
            advice = f"Stop the service and run '{PROGRAM} restore {last.path}'."
        raise Problem(f"{problem} {advice}") from problem


def find_database(args: argparse.Namespace) -> str:
    """Return its path, as the user who owns the data folder, which may be a new one.
    :raises Problem: the database is to be there, and is not."""
    become_owner(args.data_dir)
    path = database_path(args.data_dir)
    is_chosen = args.data_dir != os.path.abspath(default_data_folder())
    is_backup = args.run is backup
    try:  # a mistyped folder must not become an empty database, nor a backup of one
        is_doubted = is_backup or (is_chosen and args.run is not serve)
        if is_doubted and (os.listdir(args.data_dir) or is_backup):
            os.stat(path)
    except FileNotFoundError as error:
        hint = f"Start '{PROGRAM} serve' with it once, or choose another --data-dir."
        raise Problem(f"{args.data_dir}: has no database. {hint}") from error
    except OSError as error:
        raise Problem(f"{error.filename}: cannot be used: {reason(error)}") from error
    return path


# What Python or this program imports only when it is called for.
LATE_MODULES = "concurrent.futures.thread", "encodings.idna", "resource", "segno"


def become_owner(folder: str) -> None:
    """As root, become the user who owns a folder, and create no file there that the
    service, which runs as that user, cannot open. :raises Problem:"""
    if sys.platform == "win32" or os.geteuid() != 0 or not os.path.isdir(folder):
        return
    owner = os.stat(folder)
    if owner.st_uid == 0:
        return
    sysconfig.get_config_vars()
    for name in LATE_MODULES:  # they may be where only root can read
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    groups = [owner.st_gid]
    with contextlib.suppress(KeyError):  # a user without a name, as in a container
        # One of its groups may be what allows it to read the library.
        groups = os.getgrouplist(pathlib.Path(folder).owner(), owner.st_gid)
    try:
        os.setgroups(groups)
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    except OSError as error:
        message = f"{folder}: cannot act as its owner: {error.strerror}."
        raise Problem(message) from error


# Commands: serve ---


@command(
    "serve",
    argument("folders", "folders to add to the INI's", nargs="*", metavar="DIR"),
    argument("--host", "address to listen on (default: the INI file's, else all)"),
    argument("--port", f"port (default: the INI's, or {Settings.port})", type=port_of),
    argument("--also", "another port (default: none)", metavar="PORT", type=port_of),
    argument("--open", "open the page in a browser (default: do not)", **FLAG),
    argument("--demo", "serve made-up games, and keep nothing (default: no)", **FLAG),
)
def serve(args: argparse.Namespace) -> None:
    """Scan the library folders and serve them."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    if args.demo:
        demo_module().serve(args)
        return
    if args.open and not args.folders and (other := running_service(args.data_dir)):
        webbrowser.open(other["address"])  # a second double click
        return
    settings = read_settings(args)
    if not settings.folders:
        folder = folder_beside_program(args.config)
        settings = dataclasses.replace(settings, folders=(folder,))
    check_data_folder(args.data_dir, settings.folders)
    with log_thread(), open_store(args, settings) as store:
        check_folders_exist(args.folders, store)
        if not serve_store(args, settings, store):
            log.warning("Stopped while a call was waiting, probably for a disk.")
            logging.shutdown()
            os._exit(0)  # a thread may wait for ever, and uses what others would close


def serve_store(args: argparse.Namespace, settings: Settings, store: Store) -> bool:
    """Scan and serve, and return whether all threads have ended."""
    with exclusive(args.data_dir, "serve"):
        scanner = Scanner(store, settings)
        languages = read_translations(store.database.folder)
        web = Web(store, settings, scanner, languages)
        web.settings_file = args.config
        server = listen(web, args.also)
        web.health.log_folders()
        tempfile.tempdir = args.data_dir  # of long bodies: /tmp may be in memory
        with service_file(server, web):
            return run(server, scanner, web, args.open)


def demo_module() -> Any:
    """Return the module that serves the demo. :raises Problem: the program lacks it."""
    for file in [place / "demo.py" for place in program_folders()[::-1]]:
        if file.is_file():
            sys.modules.setdefault("catalogd", sys.modules[__name__])  # for its import
            demo = type(sys)("demo")
            exec(compile(file.read_bytes(), str(file), "exec"), vars(demo))
            return demo
    raise Problem("The demo is not here: its file demo.py is not beside the program.")


def no_folder(config: str) -> BadSetting:
    hint = f"Run '{PROGRAM} serve /path/to/games', or list folders in {config}."
    return BadSetting(f"No library folder is set. {hint}")


def folder_beside_program(config: str) -> str:
    """Return the folder that a double click on a bundled program serves: `Games`
    beside it, created if necessary. :raises Problem:"""
    if not is_bundled():
        raise no_folder(config)
    folder = os.path.join(os.path.dirname(sys.executable), "Games")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Problem(
            f"{folder}: cannot be created: {error.strerror}. Drop the folder with your"
            " games on the program, or move the program to a folder of yours."
        ) from error
    return folder


def check_data_folder(path: str, folders: Iterable[str]) -> None:
    """:raises BadSetting: a new data folder would be in a library folder.
    :raises Problem: this user cannot write there."""
    for folder in library_folders(folders):
        if is_below(path, folder):
            message = f"{path}: the data folder is in the library folder {folder}."
            if not os.path.exists(database_path(path)):
                raise BadSetting(f"{message} Choose another one with --data-dir.")
            log.warning("%s Move it, while the service is stopped.", message)
    try:
        is_usual = path == os.path.abspath(default_data_folder())
        if not (is_usual or os.path.exists(parent := os.path.dirname(path))):
            raise Problem(f"{path}: cannot be created: there is no folder {parent}.")
        os.makedirs(path, mode=0o700, exist_ok=True)
        problem = write_refusal(path)
    except OSError as error:
        problem = refusal(error)
    if problem:
        advice = "Choose a folder of yours with --data-dir."
        raise Problem(f"{path}: cannot be used: {problem}. {advice}")


def check_folders_exist(folders: Iterable[str], store: Store) -> None:
    """Find mistyped folders. One that was served before is on a disk that is not
    connected now. :raises Problem: a folder does not exist, and never had an entry."""
    for path in library_folders(folders):
        if not os.path.isdir(path) and path not in store.entries.folders.file_counts():
            what = "is not a folder" if os.path.exists(path) else "no such folder"
            raise BadSetting(f"{path}: {what}.")


# Commands: scan ---


@command("scan")
def scan(args: argparse.Namespace) -> None:
    """Scan the library folders once and print what changed."""
    settings = read_settings(args)
    closing = contextlib.closing(ProgressLine(sys.stderr))
    with open_store(args, settings) as store, closing as line:
        if service := running_service(args.data_dir):
            result = scan_by_service(service, line)
        elif settings.folders:
            scanner = Scanner(store, settings)
            scanner.tick = lambda state: line.draw(progress(vars(state)))
            scanner.scan()
            result = scanner.state.result
        else:
            raise no_folder(args.config)
    print(f"{result}.")


def scan_by_service(service: Row, line: "ProgressLine") -> str:
    """Have the running service scan: it alone knows its folders and what it can read.
    Return what changed. :raises Problem: the scan failed, or the service ended."""
    ask_service(service, "web/check/scan", b"")
    while (scan := ask_service(service, "web/check/scan")).get("asked"):
        line.draw(progress(scan))
        time.sleep(0.1)
    if "asked" not in scan:
        raise Problem("The service ended before its scan did.")
    if scan["problem"]:
        raise Problem(f"The scan failed: {scan['problem']}")
    return str(scan["result"])


class ProgressLine:
    """A line that is drawn over and over on a terminal, at most ten times a second."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.is_terminal = stream, stream.isatty()
        self.drawn = time.monotonic()

    def draw(self, text: str) -> None:
        now = time.monotonic()
        if self.is_terminal and now - self.drawn >= 0.1:
            self.drawn = now
            print(f"\r\x1b[K{text}", end="", file=self.stream, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self.is_terminal:
            print("\r\x1b[K", end="", file=self.stream, flush=True)


# Commands: accounts and keys ---


def read_password(args: argparse.Namespace) -> str:
    """Return the hash of the password of standard input or of two prompts.
    :raises Problem:"""
    if args.password_stdin:
        password = read_line(sys.stdin.readline)
        return hash_password(check_password(password, args.name))
    if not sys.stdin.isatty():
        raise Problem("There is no terminal to ask on. Use --password-stdin.")
    prompt = f"Password (at least {MIN_PASSWORD_LENGTH} characters): "
    password = check_password(read_line(getpass.getpass, prompt), args.name)
    if read_line(getpass.getpass, "Again: ") != password:
        raise Problem("The two passwords differ.")
    return hash_password(password)


def read_line(read: Callable[..., str], *prompt: str) -> str:
    """Return a line of a terminal or of standard input. :raises Problem: nobody
    answers, or it is no text."""
    try:
        return read(*prompt).rstrip("\r\n")
    except EOFError:
        raise Problem("No password was entered.") from None
    except UnicodeDecodeError:
        raise Problem("bad_password") from None


NAME = argument("name", "name of the account", type=normalized)
FROM_STDIN = argument(
    "--password-stdin", "read the password from standard input (default: ask)", **FLAG
)


AGE_NAMES = {**{str(age): age for age in AGES}, "none": None}


@store_command(
    "user add",
    NAME,
    FROM_STDIN,
    argument("--admin", "make it an admin (default: only the first is one)", **FLAG),
    argument(
        "--age",
        f"it sees what is for this age: {AGE_FORM} (default: none, every title)",
        metavar="AGE",
        choices=AGE_NAMES,
        default="none",
    ),
)
def user_add(args: argparse.Namespace, store: Store) -> None:
    """Create an account. The first one is an admin."""
    name = check_account_name(args.name)
    store.accounts.add(name, read_password(args), args.admin, AGE_NAMES[args.age])
    is_admin = {user["name"]: user["admin"] for user in store.accounts.all()}[name]
    print(f"Created the account {name}, {'an admin' if is_admin else 'a member'}.")


JSON = argument("--json", "print JSON (default: a table)", **FLAG)


@store_command("user list", JSON)
def user_list(args: argparse.Namespace, store: Store) -> None:
    """List the accounts."""
    roles = {True: "admin", False: "member"}
    users = [{**user, "role": roles[user["admin"]]} for user in store.accounts.all()]
    heads = {"name": "NAME", "role": "ROLE", "age": "AGE", "created_at": CREATED}
    print_rows(args, heads, users, "There is no account yet.")


@store_command("user age", NAME, argument("age", AGE_FORM, choices=AGE_NAMES))
def user_age(args: argparse.Namespace, store: Store) -> None:
    """Let an account see what is for an age, or with none every title."""
    age = AGE_NAMES[args.age]
    store.accounts.change(store.accounts.id_of(args.name), {"age": age})
    what = f"what is for {age}" if age else "every title"
    print(f"{args.name} sees {what}.")


@store_command("user password", NAME, FROM_STDIN)
def user_password(args: argparse.Namespace, store: Store) -> None:
    """Change the password of an account, and end its sessions."""
    account = store.accounts.id_of(args.name)
    store.accounts.change(account, {"password": read_password(args)})
    print(f"Changed the password of {args.name}; all sessions ended.")


@store_command("user remove", NAME)
def user_remove(args: argparse.Namespace, store: Store) -> None:
    """Remove an account with its keys and its queue."""
    store.accounts.remove(store.accounts.id_of(args.name))
    print(f"Removed the account {args.name} with its keys and its queue.")


@store_command(
    "key add",
    argument("account", "name of its account", type=normalized),
    argument("label", "what the key is for"),
)
def key_add(args: argparse.Namespace, store: Store) -> None:
    """Create an API key and print it. It is not shown again."""
    label = check("label", KEY["label"], args.label)
    key = new_key()
    store.accounts.add_key(store.accounts.id_of(args.account), label, hash_token(key))
    print(key)


@store_command(
    "key list",
    argument("account", "only its keys (default: all)", nargs="?", type=normalized),
    JSON,
)
def key_list(args: argparse.Namespace, store: Store) -> None:
    """List the API keys with their last use, but not the keys themselves."""
    heads = {"id": "ID", "account": "ACCOUNT", "label": "LABEL", "created_at": CREATED}
    heads |= {"last_used_at": "LAST USED (UTC)", "requests": "REQUESTS"}
    keys = store.accounts.keys(args.account and store.accounts.id_of(args.account))
    print_rows(args, heads, keys, "There is no key yet.")


@store_command("key revoke", argument("id", f"as '{PROGRAM} key list' prints it"))
def key_revoke(args: argparse.Namespace, store: Store) -> None:
    """Revoke an API key at once."""
    store.accounts.revoke_key(args.id)
    print(f"Revoked the key {args.id}.")


# Commands: files and copies ---


@store_command(
    "verify",
    argument("ids", "ids of entries (default: all files)", nargs="*", metavar="ID"),
)
def verify(args: argparse.Namespace, store: Store) -> None:
    """Read files and compare them with their stored checksums."""
    files = store.entries.served_files(args.ids)
    results = [verify_file(store, file) for file in files]
    counts = [f"{results.count(result)} {result}" for result in sorted({*results})]
    print(f"{', '.join(counts) or 'no files'}.")
    if "damaged" in results:
        raise Problem("The content of files changed, but not their size and time.")


def verify_file(store: Store, file: ServedFile) -> str:
    """Compare a file with its checksum, and print and return the result: "ok",
    "damaged", "new" (the checksum was stored only now), "changed" (the next scan will
    see it) or "unreadable"."""
    try:
        size, mtime, digest = sha256(file.path, file.folder)
    except OSError:
        result = "unreadable"
    else:
        if (size, mtime) != (file.size, file.mtime):
            result = "changed"
        elif file.sha256 is None:
            store.entries.set_checksum(file._replace(sha256=digest))
            result = "new"
        else:
            result = "ok" if digest == file.sha256 else "damaged"
    fault = result if result in ("damaged", "unreadable") else None
    store.entries.set_fault(file.id, fault)
    print(f"{result:10}  {file.id}  {printable(file.path)}")
    return result


@command("backup", argument("file", "replaces an earlier copy; '-' is standard output"))
def backup(args: argparse.Namespace) -> None:
    """Copy the database. The service may run meanwhile."""
    path = os.path.abspath(args.file)
    database = find_database(args)
    if args.file == "-":
        print_backup(database)
        return
    copy_database(database, path)
    print(f"Copied the database to {path}.")


def print_backup(database: str) -> None:
    """Write a copy to standard output: the caller, not the owner of the data folder,
    then owns the file. :raises Problem:"""
    if sys.stdout.isatty():
        raise Problem("A backup is no text. Add '> backup.db' after the command.")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(database)) as folder:
        copy = os.path.join(folder, "copy")
        copy_database(database, copy)
        try:
            with open(copy, "rb") as file, os.fdopen(os.dup(1), "wb") as output:
                shutil.copyfileobj(file, output)
        except OSError as error:
            raise Problem("not_written", "The output", refusal(error)) from error


@command("restore", argument("file", "a copy that 'backup' or the service made"))
def restore_backup(args: argparse.Namespace) -> None:
    """Put a backup back, while the service is stopped, and keep the old database."""
    path = os.path.abspath(args.file)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise Problem(f"{path}: is not a file.")
        with open(path, "rb") as file:  # perhaps only root can
            become_owner(args.data_dir)
            kept, ended = restore(args.data_dir, file)
    except OSError as error:
        raise Problem(f"{error.filename or path}: {reason(error)}") from error
    print(f"Restored {path}." + (f" The old database is {kept}." if kept else ""))
    if ended:
        print("Its open invitations, and links for a new password, have ended.")


# Commands: tests ---


@command(
    "notify",
    argument("--test", "send a test message to each address", required=True, **FLAG),
)
def notify_test(args: argparse.Namespace) -> int:
    """Print what each address of [queue] notify answers to a message."""
    addresses = read_settings(args).notify
    if not addresses:
        raise Problem(f"{args.config}: [queue] notify has no addresses.")
    answers = post_notices(addresses, "catalogd: test", "This is a test.", Askers())
    for address, (_, reply) in answers.items():
        host = urllib.parse.urlsplit(address).hostname
        print(f"{host} ({notice_form(address)[0]}): {reply}")
    return 0 if all(is_taken for is_taken, _ in answers.values()) else 1


@command("check")
def check_up(args: argparse.Namespace) -> int:
    """Check settings, folders, database and port, and print what to do."""
    settings = read_settings(args)
    read = "; ".join(settings_texts(args.config))
    findings = [("version", f"ok: catalogd {__version__}"), ("settings", f"ok: {read}")]
    service = running_service(args.data_dir)
    become_owner(args.data_dir)
    tests = service_tests(service, settings) if service else own_tests(args, settings)
    findings += tests
    for name, text in findings:
        print(f"{name:10}{printable(text)}")
    return 0 if all(text.startswith("ok: ") for _, text in findings) else 1


Findings = Iterator[tuple[str, str]]  # what was tested, and "ok: ..." or what is wrong


def service_tests(service: Row, settings: Settings) -> Findings:
    """Yield what the running service says of itself, and the save copied last."""
    folders = ", ".join(row["path"] for row in service["folders"])
    yield "service", f"ok: {service['address']} serves {folders}"
    yield from ((row["about"], row["message"]) for row in service["faults"])
    # One that was not started again since an upgrade tells less.
    passed_over = service["scan"].get("passed_over", ())
    if passed := ", ".join(it["message"] for it in passed_over):
        yield "library", f"ok: passed over: {passed}. Tidy on the page names them"
    saves = folder_for_saves(settings)
    if os.path.isdir(saves):  # else a fault tells that its disk is away
        form = "{title}/{name} of {console}, {added_at} UTC"
        last = [form.format_map(row) for row in kept_saves(saves)[:1]] or ["none yet"]
        for look in service.get("saves", ()):
            last += [
                f"{look['name']}: {problem['message']}" for problem in look["problems"]
            ]
        yield "saves", f"ok: {'; '.join(last)}"


def own_tests(args: argparse.Namespace, settings: Settings) -> Findings:
    """Yield what can be told without a service. Nothing is created."""
    calls = {path: functools.partial(os.listdir, path) for path in settings.folders}
    for path, names in Askers().ask(calls, MAX_ANSWER_SECONDS).items():
        is_away = isinstance(names, OSError)
        yield "folders", why_offline(path, names, False) if is_away else f"ok: {path}"
    if not calls:
        yield "folders", str(no_folder(args.config))
    backups = Backups(database_path(args.data_dir), Clock(), settings)
    written = written_folders(settings, backups, set())
    tests = {about: test for about, (_, test) in written.items()}
    for about, answer in Askers().ask(tests, MAX_ANSWER_SECONDS).items():
        path = written[about][0]
        yield about, answered(answer, path) or f"ok: {path}"
    yield "database", outcome(check_database, args, settings)
    yield "port", outcome(check_port, settings)


def outcome(test: Callable[..., str], *args: Any) -> str:
    """Return what a test finds, after "ok: ", or what is wrong."""
    try:
        return f"ok: {test(*args)}"
    except OSError as error:
        return f"{error.filename}: {reason(error)}"
    except Problem as problem:
        return str(problem)


def check_database(args: argparse.Namespace, settings: Settings) -> str:
    path = database_path(args.data_dir)
    if not os.path.exists(path):
        return f"none yet. '{PROGRAM} serve' creates it."
    with open_store(args, settings), connected(path) as db:
        check_content(db)
    return path


def check_port(settings: Settings) -> str:
    open_socket(settings.host, settings.port).close()
    return f"{settings.port} is free"


def ask_service(service: Row, path: str, body: bytes | None = None) -> Row:
    """Return what it answers, {} where nothing or another program is at its address.
    :raises Problem: it does not answer, or answers with an error."""
    key = {"Authorization": f"Bearer {service['token']}"}
    try:
        answer = json_object(fetch(service["address"] + path, body, key)[1])
    except TimeoutError as error:
        raise Problem("The service runs, but does not answer.") from error
    except (OSError, http.client.HTTPException, ValueError, OverflowError, Problem):
        return {}
    match answer:
        case {"success": True}:
            return answer
        case {"error": str(code), "message": str(text)} if code != BadKey.code:
            raise Problem(text)
    return {}


SERVICE = dict.fromkeys(("address", "token"), Field(str, required=True))


def running_service(folder: str) -> Row | None:
    """Return the service of this data folder with what GET /web/check tells, None where
    none runs: one that was killed has left its file, and another program may have its
    port. :raises Problem: see ask_service; or the file cannot be read."""
    path = os.path.join(folder, SERVICE_FILE)
    try:
        with open(path, "rb") as file:
            service = parse(SERVICE, file.read())
    except (FileNotFoundError, Problem):  # a Problem: the service did not write it
        return None
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from error
    state = ask_service(service, "web/check")
    return {**state, **service} if "faults" in state else None


@command("example")
def example(args: argparse.Namespace) -> None:
    """Print an INI file with every option at its default."""
    print(EXAMPLE, end="")


# Commands: the program ---


def print_rows(
    args: argparse.Namespace, heads: Mapping[str, str], rows: Sequence[Row], none: str
) -> None:
    """Print a table, or JSON where that is asked for.
    :param heads: of the columns, by the names of their values.
    :param none: what to print instead of a table without rows."""
    if args.json:
        print(json.dumps([{name: row[name] for name in heads} for row in rows]))
        return
    table = [
        ["-" if row[name] is None else printable(str(row[name])) for name in heads]
        for row in (heads, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table if rows else ():
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())
    print(end="" if rows else f"{none}\n")


def parser() -> Parser:
    top = Parser(prog=PROGRAM, description="A home game library for the LAN.")
    top.add_argument("--version", action="version", version=f"catalogd {__version__}")
    top.set_defaults(run=lambda args: args.parser.print_help(), parser=top)
    groups = {"": top.add_subparsers(metavar="COMMAND")}
    for path, run, arguments in COMMANDS:
        group, _, name = path.rpartition(" ")
        if group not in groups:
            help = GROUPS[group]
            added = groups[""].add_parser(group, help=help, description=help)
            added.set_defaults(parser=added)
            groups[group] = added.add_subparsers(metavar="COMMAND")
        help = run.__doc__ or ""
        added = groups[group].add_parser(name, help=help, description=help)
        added.set_defaults(run=run, parser=added)
        for name, rules in (*arguments, *common_arguments()):
            added.add_argument(name, **rules)
    return top


def check_texts(args: argparse.Namespace) -> None:
    """:raises Problem: an argument has bytes that are not UTF-8, and is not a path."""
    for name, value in vars(args).items():
        is_path = name in ("config", "data_dir", "file")
        if isinstance(value, str) and not is_path and not is_text(value):
            raise Problem("field_text", name)


def run_command(argv: Sequence[str]) -> int:
    """Run the command of these words and return its exit code."""
    # A double click gives no arguments; dropping folders on the program gives those.
    clicked = is_bundled() and all(map(os.path.isdir, argv))
    try:
        words = ["serve", "--open", *argv] if clicked else argv
        args, unknown = parser().parse_known_args(words)
        if unknown:
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        check_texts(args)
        return args.run(args) or 0
    except Problem as problem:
        prefix = "<3>" if is_journal() else ""
        print(f"{prefix}catalogd: {printable(str(problem))}", file=sys.stderr)
        with contextlib.suppress(EOFError):
            if clicked:  # the window closes when the program ends
                input("Press Enter to close this window. ")
        return problem.exit_code
    except KeyboardInterrupt:
        print(end="\n" if sys.stderr.isatty() else "", file=sys.stderr)  # after the ^C
        return 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 where `check` finds something wrong,
    2 after a mistake, 78 after a wrong setting, 130 on Ctrl-C. The command's words are
    by default those of the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.basicConfig(handlers=[handler])
    log.setLevel(logging.INFO)
    encoding = "utf-8" if sys.platform == "win32" else None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # its encoding may lack letters
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    if is_bundled() and argv == [CLIENT]:
        return int(importlib.import_module(CLIENT).run_by_server())
    try:
        try:
            return run_command(argv)
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        # Of the output; its reader may have ended: see "Note on SIGPIPE" of signal.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 1
        problem = Problem("not_written", "The output", refusal(error))
        print(f"catalogd: {problem}", file=sys.stderr)
        return problem.exit_code


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())
