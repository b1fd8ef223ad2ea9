"""Stand-ins: an FTP server and a network installer of a console, and a web server.
Another FTP server is in ftpsrv.py."""

import contextlib
import http.client
import http.server
import math
import os
import pathlib
import socket
import struct
import threading
import time
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.filesystems import AbstractedFS
from pyftpdlib.handlers import DTPHandler, FTPHandler
from pyftpdlib.servers import FTPServer

import send_to_switch


def when_sent(
    sender: send_to_switch.Sender, count: int, act: Callable[[], Any]
) -> None:
    """Call `act`, once, when the target has so many bytes."""
    acts = [act]

    def show(progress: send_to_switch.Progress) -> None:
        if acts and progress.moved >= count:
            acts.pop()()

    sender.screen.show = show  # type: ignore[method-assign, assignment]


class Data(DTPHandler):  # type: ignore[misc]
    """The data connection. The script closes it, or says that the card is full."""

    def handle_read(self) -> None:
        script = self.cmd_channel.script
        if self.get_transmitted_bytes() > script.stall_after:
            script.stalled = True
            time.sleep(0.01)
            return
        super().handle_read()
        if self.get_transmitted_bytes() > script.ends_after:
            script.menu.is_open &= not script.menu.closes
            if script.ends_with:
                self.cmd_channel.respond(script.ends_with)
            self._resp = ()
            self.close()
        elif script.drops_data and self.get_transmitted_bytes():
            script.drops_data -= 1
            self.close()
            self.cmd_channel.close()

    handle_read_event = handle_read

    def close(self) -> None:
        script, is_whole = self.cmd_channel.script, self.receive and self._resp
        if script.end and is_whole and not self._closed:
            self._resp = ()
            super().close()
            if script.end == "hangs up":
                self.cmd_channel.close()
        else:
            super().close()


class Menu:
    """The FTP install of Sphaira, behind the folder "install:" of its server: as its
    ftpsrv_helper.cpp (release 1.0.6) and the engine ftpsrv behave together."""

    REFUSED = {"APPE", "RETR", "MKD", "DELE", "RNTO"}
    TAKEN: tuple[str, ...] = (".nsp", ".xci", ".nsz", ".xcz", ".msp")

    def __init__(self) -> None:
        self.is_open = True
        self.is_good: Callable[[str], bool] = lambda name: True  # to be installed
        self.closes = False  # when a transfer ends early, as its install fails
        self.seconds = 0.0  # that an install takes, once all bytes are there
        self.taken: set[str] = set()  # names, which are taken once
        self.waiting = ""  # the name that is being installed
        self.marker = False  # whether a REST came before

    def answer(self, command: str, name: str) -> str:
        """Return the reply to a command in the folder, "" to go on as with a disk."""
        self.finish()
        if command == "REST":
            self.marker = True
        if command in self.REFUSED:
            return "551 Permission denied."
        if command == "STOR":
            return self._refusal(name)
        replies = {"SIZE": "213 0", "MDTM": "213 19700101000000"}
        return replies.get(command, "")

    def _refusal(self, name: str) -> str:
        if self.marker:  # an install begins, and ends at once in an error
            self.is_open = self.marker = False
        if not self.is_open:
            return "551 Permission denied."
        if not name.lower().endswith(self.TAKEN):
            return "551 Invalid argument."
        if name in self.taken:
            return "551 File exists."
        return ""

    def take(self, name: str) -> None:
        """Begin to install a file, of which all bytes are there."""
        self.taken.add(name)
        self.waiting = name

    def finish(self) -> None:
        """End the install that goes on: each reply waits for that."""
        name, self.waiting = self.waiting, ""
        if name:
            time.sleep(self.seconds)
            self.is_open = self.is_good(name)


class Card(AbstractedFS):  # type: ignore[misc]
    def chdir(self, path: str) -> None:
        """Change the folder of this connection, and not that of the whole process, in
        which the threads of other servers run too."""
        os.scandir(path).close()
        self.cwd = self.fs2ftp(path)


class Control(FTPHandler):  # type: ignore[misc]
    """The control connection. It records the commands, and drops or refuses some."""

    script: "FTPConsole"
    dtp_handler = Data
    abstracted_fs = Card
    banner = "console"

    def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
        name = arg.rpartition("/")[2]
        is_question = name == "question.txt"
        self.script.commands.append("question" if is_question else cmd)
        self.script.before.get(cmd, lambda: None)()
        if self.script.drops.get(cmd, 0) > 0:
            self.script.drops[cmd] -= 1
            self.close()
        elif cmd in self.script.refuses_once:
            self.respond(self.script.refuses_once.pop(cmd))
        elif cmd in self.script.refuses:
            self.respond(self.script.refuses[cmd])
        elif reply := self._answer(cmd, name):
            self.respond(reply)
        else:
            super().pre_process_command(line, cmd, arg)

    def _answer(self, command: str, name: str) -> str:
        is_menu = self.fs and self.fs.cwd.startswith("/install:")
        if is_menu and (reply := self.script.menu.answer(command, name)):
            return reply
        return self.script.answer(command, name)

    def on_file_received(self, file: str) -> None:
        if self.fs.cwd.startswith("/install:"):
            self.script.menu.take(os.path.basename(file))
        elif self.script.uses_up(file):
            os.unlink(file)


class FTPConsole:
    """An FTP server over a folder, in a thread. Its attributes are its script."""

    def __init__(self, folder: pathlib.Path, port: int = 0) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self.drops: dict[str, int] = {}  # by command: how often to close the connection
        self.refuses: dict[str, str] = {}  # by command: the reply
        self.refuses_once: dict[str, str] = {}
        self.before: dict[str, Callable[[], Any]] = {}  # by command: what to do first
        self.answer: Callable[[str, str], str] = lambda command, name: ""  # a reply
        self.uses_up: Callable[[str], bool] = lambda path: False  # installs it
        self.menu = Menu()
        self.drops_data = 0  # how often the data connection is closed
        self.ends_after = math.inf  # bytes, after which it closes the connection
        self.ends_with = "452 Not enough space."  # "" for silence
        self.end = ""  # "hangs up" or "says nothing" when it has all bytes, before 226
        self.stall_after = math.inf  # bytes, after which it reads no more
        self.stalled = False
        users = DummyAuthorizer()
        with warnings.catch_warnings():  # about an anonymous user who may write
            warnings.simplefilter("ignore")
            users.add_anonymous(str(folder), perm="elradfmw")
        users.add_user("me", "p@ss", str(folder), perm="elradfmw")
        names = {"script": self, "authorizer": users, "use_sendfile": False}
        self.server = FTPServer(("127.0.0.1", port), type("Handler", (Control,), names))
        self.port = self.server.address[1]
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            self.server.ioloop.loop(timeout=0.01, blocking=False)
        self.server.close_all()

    def url(self, folder: str = "/") -> str:
        return f"ftp://127.0.0.1:{self.port}{folder}"

    def close(self) -> None:
        self._over = True
        self._thread.join()


class Installer:
    """A console that waits for addresses on a port, and fetches files, in a thread.

    :param behave: gets the installer and each address, and fetches the file. The
        final byte is written after it, whatever happened.
    :param is_patient: waits for more addresses again and again, until it is closed.
    """

    def __init__(
        self, behave: Callable[["Installer", str], None], is_patient: bool = False
    ) -> None:
        self.behave = behave
        self.is_patient = is_patient
        self.body = bytearray()
        self.received = b""
        self.says_goodbye = True
        self.problem: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1 if is_patient else 30)
        self.port = self._listener.getsockname()[1]
        self.url = f"lan://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._listener:
                if not self.is_patient:
                    self._wait()
                while self.is_patient:
                    with contextlib.suppress(OSError, struct.error):
                        self._wait()
        except BaseException as problem:
            self.problem = problem

    def _wait(self) -> None:
        with self._listener.accept()[0] as self.sock:
            self.sock.settimeout(30)
            head = exactly(self.sock, 4)
            if not head:
                return
            size = struct.unpack(">I", head)[0]
            self.received = exactly(self.sock, size)
            if len(self.received) < size:
                return
            for address in self.received.decode().splitlines():
                self.behave(self, address)
            if self.says_goodbye:
                self.sock.sendall(b"\0")

    def close(self) -> None:
        self.is_patient = False
        self._thread.join()
        if self.problem:
            raise self.problem

    # What consoles do with an address:

    def reset(self) -> None:
        """Close the connection in a way that is an error to the client."""
        self.says_goodbye = False
        option = struct.pack("ii", 1, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)

    @contextlib.contextmanager
    def file(self, address: str) -> Iterator["Remote"]:
        parts = urllib.parse.urlsplit(f"http://{address}")
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        with contextlib.closing(connection):
            yield Remote(connection, parts.path)

    def install(self, address: str, upto: float = 1.0, block: int = 4096) -> None:
        """Fetch the file up to a share of its size: HEAD, and then ranges of 206."""
        with self.file(address) as file:
            status, headers, _ = file.ask("HEAD")
            assert (status, headers["Accept-Ranges"]) == (200, "bytes")
            size = int(int(headers["Content-Length"]) * upto)
            for start in range(0, size, block):
                stop = min(start + block, size)
                status, _, body = file.ask("GET", f"bytes={start}-{stop - 1}")
                assert status == 206, status
                self.body += body
            file.ask("HEAD")  # is answered once the server has counted all of them


class Remote:
    """A file on the server."""

    def __init__(self, connection: http.client.HTTPConnection, path: str) -> None:
        self.connection = connection
        self.path = path

    def ask(self, method: str, span: str = "") -> tuple[int, Any, bytes]:
        headers = {"Range": span} if span else {}
        try:
            self.connection.request(method, self.path, headers=headers)
            answer = self.connection.getresponse()
        except ConnectionError:  # consoles use curl, which tries again
            self.connection.close()
            self.connection.request(method, self.path, headers=headers)
            answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()


def exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := sock.recv(count - len(found))):
        found += piece
    return found


class Origin:
    """A web server that links lead to, in a thread.

    :param answer: answers each request.
    """

    def __init__(self, answer: Callable[["Request"], None]) -> None:
        handler = type("Handler", (Request,), {"answer": answer, "origin": self})
        self.requests: list[tuple[str, dict[str, str]]] = []  # path, headers
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    origin: Origin

    def answer(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.origin.requests.append((self.path, dict(self.headers)))
        self.answer()

    do_POST = do_GET

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        if "Content-Length" not in headers:
            headers["Content-Length"] = str(len(body))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
