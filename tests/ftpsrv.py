"""Stand-ins for the FTP server in Sphaira, and for others, as the real ones answer.

python3 ftpsrv.py FOLDER PORT runs it on loopback, and prints the commands that it gets.
With a SIZE behind them it stops itself once, when a file has so many bytes; with
"slow", it gives files by and by.
"""

import contextlib
import os
import pathlib
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """How a server answers, as the real one did."""

    greeting: str
    row: str  # of a file in its LIST
    replies: Mapping[tuple[str, int], str] = {}  # by command and code
    is_simple: bool = False  # RNFR takes any name, and RNTO none that is taken


FTPSRV = Kind(
    "Service ready for new user.",
    "-rw-r--r--   1 root root  {size:12d} Nov  24 05:40 {name}",
    is_simple=True,
)
VSFTPD = Kind(
    "(vsFTPd 3.0.3)",
    "-rw-r--r--    1 65534    65534    {size:8d} Nov 24 05:40 {name}",
    {
        ("USER", 230): "Login successful.",
        ("SIZE", 550): "Could not get file size.",
        ("DELE", 550): "Delete operation failed.",
        ("RNFR", 550): "RNFR command failed.",
        ("RNFR", 350): "Ready for RNTO.",
        ("LIST", 226): "Directory send OK.",
        ("STOR", 226): "Transfer complete.",
        ("APPE", 226): "Transfer complete.",
        ("RETR", 226): "Transfer complete.",
    },
)
PURE_FTPD = Kind(
    "-You are user number 1 of 50 allowed.\r\n",
    "-rw-r--r--    1 65534      nogroup    {size:10d} Nov 24 05:40 {name}",
    {
        ("USER", 230): "OK. Current directory is /",
        ("SIZE", 550): "Can't check for file existence",
        ("DELE", 550): "Could not delete it: No such file or directory",
        ("RNFR", 550): "Sorry, but that file doesn't exist",
        ("LIST", 226): "-Options: -l \r\n",
        ("STOR", 226): "-File successfully transferred\r\n",
        ("APPE", 226): "-File successfully transferred\r\n",
        ("RETR", 226): "-File successfully transferred\r\n",
    },
)
PROFTPD = Kind(
    "ProFTPD Server (ProFTPD) [::ffff:127.0.0.1]",
    "-rw-r--r--   1 nobody   nogroup  {size:8d} Nov 24 05:40 {name}",
    {
        ("USER", 230): "Anonymous access granted, restrictions apply",
        ("SIZE", 550): "it: No such file or directory",
        ("DELE", 550): "it: No such file or directory",
        ("RNFR", 550): "it: No such file or directory",
        ("STOR", 226): "Transfer complete",
        ("APPE", 226): "Transfer complete",
        ("RETR", 226): "Transfer complete",
        ("LIST", 226): "Transfer complete",
    },
)
KINDS = {"ftpsrv": FTPSRV, "vsftpd": VSFTPD, "pure": PURE_FTPD, "proftpd": PROFTPD}


class Session(socketserver.StreamRequestHandler):
    """A control connection to the server below, and its data connections."""

    timeout = 30
    disable_nagle_algorithm = True  # else each transfer waits 40 ms for its last reply
    server: "Ftpsrv"

    def handle(self) -> None:
        self.server.sessions.append(self)
        self.marker, self.renamed = 0, pathlib.Path()
        self.listener = socket.socket()
        self.place = self.server.folder
        self.word = ""
        self.reply(220, self.server.kind.greeting)
        with contextlib.suppress(OSError):
            for line in self.rfile:
                word, _, argument = line.decode().strip().partition(" ")
                self.word = word
                self.server.note(word)
                refusals = self.server.refuses.get(word, [])
                if refusals and (refusal := refusals.pop(0)):
                    self.reply(*refusal.split(" ", 1))
                else:
                    getattr(self, f"do_{word}", self.unknown)(argument)

    def reply(self, code: object, text: str) -> None:
        """A text that begins with "-" is made a reply of several lines."""
        text = self.server.kind.replies.get((self.word, int(str(code))), text)
        line = f"{code} {text}" if text[0] != "-" else f"{code}{text}{code} END"
        self.wfile.write(f"{line}\r\n".encode())

    def unknown(self, argument: str) -> None:
        self.reply(500, "Syntax error, command unrecognized.")

    def path(self, name: str) -> pathlib.Path:
        return self.server.folder / name[1:] if name[0] == "/" else self.place / name

    def do_USER(self, argument: str) -> None:
        self.reply(230, "User logged in, proceed.")

    def do_TYPE(self, argument: str) -> None:
        self.reply(200, "Command okay.")

    def do_CWD(self, argument: str) -> None:
        self.place = self.path(argument)
        if self.server.is_card and not self.place.is_dir():
            return self.reply(550, "Requested action not taken.")
        return self.reply(250, "Requested file action okay, completed.")

    def do_MDTM(self, argument: str) -> None:
        path = self.path(argument)
        if not path.is_file():
            return self.reply(550, "Requested action not taken.")
        changed = time.gmtime(path.stat().st_mtime)
        return self.reply(213, time.strftime("%Y%m%d%H%M", changed))

    def finish(self) -> None:
        self.listener.close()
        self.server.sessions.remove(self)

    def do_PASV(self, argument: str) -> None:
        self.listener.close()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(self.timeout)
        port = self.server.announce(self.listener.getsockname()[1])
        high, low = divmod(port, 256)
        self.reply(227, f"Entering Passive Mode (127,0,0,1,{high},{low}).")

    def do_SIZE(self, argument: str) -> None:
        path, half = self.path(argument), 2 ** (self.server.bits - 1)
        if path.is_file() and not self.server.has_sizes:
            self.reply(213, "0")
        elif path.is_file():
            self.reply(213, str((path.stat().st_size + half) % (2 * half) - half))
        else:
            self.reply(550, "Requested action not taken, No such file or directory.")

    def do_LIST(self, argument: str) -> None:
        rows = [self.server.list] if self.server.list else []
        for path in [] if rows else sorted(self.place.iterdir()):
            size, name = path.stat().st_size, path.name
            row = self.server.kind.row.format(size=size, name=name)
            rows.append(f"{'d' if path.is_dir() else '-'}{row[1:]}\r\n")
        text = "".join(rows).encode()
        with self.data() as data:
            time.sleep(self.server.list_seconds)
            if is_cut := bool(self.server.cuts_lists and self.server.cuts_lists.pop(0)):
                text = text[: len(text) // 2]
            data.sendall(text)
        if is_cut:
            raise ConnectionAbortedError
        self.reply(226, "Closing data connection.")

    def do_REST(self, argument: str) -> None:
        self.marker = int(argument)
        self.reply(350, "Requested file action pending further information.")

    def do_STOR(self, argument: str) -> None:
        self.receive(self.path(argument), "wb")

    def do_APPE(self, argument: str) -> None:
        self.receive(self.path(argument), "ab")

    def receive(self, path: pathlib.Path, mode: str) -> None:
        with open(path, mode, buffering=0) as file, self.data() as data:
            start = file.seek(self.take_marker() or file.tell())
            for block in iter(lambda: data.recv(65536), b""):
                file.write(block)
                self.server.hold(file.tell())
                if self.server.drop_at and file.tell() >= self.server.drop_at[0]:
                    self.server.drop_at.pop(0)
                    raise ConnectionAbortedError
            if self.server.keeps < 1:
                file.truncate(start + int((file.tell() - start) * self.server.keeps))
        if self.server.damages:
            with open(path, "r+b") as part:
                part.write(bytes(self.server.damages))
        self.end_transfer()

    def end_transfer(self) -> None:
        if self.server.end == "hangs up":
            raise ConnectionAbortedError
        if self.server.end == "full":
            self.reply(452, "Insufficient storage space in system.")
        elif self.server.end != "says nothing":
            self.reply(226, "Closing data connection.")

    def do_RETR(self, argument: str) -> None:
        if not self.path(argument).is_file():
            return self.reply(550, "Requested action not taken.")
        with open(self.path(argument), "rb") as file, self.data() as data:
            file.seek(self.take_marker())
            for block in iter(lambda: file.read(65536), b""):
                data.sendall(block)
                self.server.give(self, file.tell())
        return self.reply(226, "Closing data connection.")

    def take_marker(self) -> int:
        marker, self.marker = self.marker, 0
        return marker

    @contextlib.contextmanager
    def data(self) -> Iterator[socket.socket]:
        self.reply(150, "File status okay; about to open data connection.")
        with self.listener, self.listener.accept()[0] as data:
            data.settimeout(self.timeout)
            yield data

    def do_RNFR(self, argument: str) -> None:
        self.renamed = self.path(argument)
        if not self.server.kind.is_simple and not self.renamed.exists():
            return self.reply(550, "")
        return self.reply(350, "Requested file action pending further information.")

    def do_RNTO(self, argument: str) -> None:
        if self.server.kind.is_simple and self.path(argument).exists():
            return self.reply(553, "Requested action not taken, File exists.")
        self.renamed.rename(self.path(argument))
        return self.reply(250, "Requested file action okay, completed.")

    def do_DELE(self, argument: str) -> None:
        if not self.path(argument).exists():
            return self.reply(550, "Requested action not taken.")
        self.path(argument).unlink()
        return self.reply(250, "Requested file action okay, completed.")


class Ftpsrv(socketserver.ThreadingTCPServer):
    """By default the FTP server in Sphaira, as its source is: it takes REST, also
    before STOR, which then truncates the file and seeks; it knows no EPSV; its SIZE is
    a signed number of `bits` bits, whose sign makes a broken reply; it renames over no
    file."""

    allow_reuse_address = True
    daemon_threads = False

    def __init__(
        self, folder: pathlib.Path, bits: int = 32, port: int = 0, kind: Kind = FTPSRV
    ) -> None:
        super().__init__(("127.0.0.1", port), Session)
        self.folder = folder
        self.kind = kind
        self.bits = bits
        self.commands: list[str] = []
        self.refuses: dict[str, list[str]] = {}  # by command: replies, "" for its own
        self.drop_at: list[int] = []  # sizes of a file at which all connections close
        self.hold: Callable[[int], object] = lambda size: None  # while a file grows
        # While a file is read: the session, and how far it is.
        self.give: Callable[[Session, int], object] = lambda session, size: None
        self.is_card = False  # a folder must be there to change to it
        self.announce: Callable[[int], int] = lambda port: port  # of data connections
        self.has_sizes = True
        self.list_seconds = 0.0  # that a list takes
        self.keeps = 1.0  # share of the bytes that it takes
        self.end = ""  # after a file: "hangs up", "says nothing" or is "full"
        self.cuts_lists: list[bool] = []  # whether the connection breaks in the next
        self.list: str | None = None  # what LIST tells in place of its own
        self.damages = 0  # bytes at the start of each file that become zeros
        self.url = f"ftp://127.0.0.1:{self.server_address[1]}/"
        self.sessions: list[Session] = []  # that have not ended
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def note(self, command: str) -> None:
        self.commands.append(command)

    def is_busy(self) -> bool:
        return bool(self.sessions)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class Printing(Ftpsrv):
    def note(self, command: str) -> None:
        print(command, flush=True)


def stop_once(size: int) -> Callable[[int], None]:
    """Return what stops this process, as a signal does, when a file has this size."""
    ahead = [size]

    def hold(size: int) -> None:
        if ahead and size >= ahead[0]:
            ahead.clear()
            os.kill(os.getpid(), signal.SIGSTOP)

    return hold


if __name__ == "__main__":
    server = Printing(pathlib.Path(sys.argv[1]), port=int(sys.argv[2]))
    if sys.argv[3:] == ["slow"]:
        server.is_card, server.give = True, lambda session, size: time.sleep(0.01)
    elif sys.argv[3:]:
        server.hold = stop_once(int(sys.argv[3]))
