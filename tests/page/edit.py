"""Edit the page's style sheet and script as files of their own, and see each change.

They lie beside catalogd.py, and what is saved there is put back into it. A proxy in
front of a running `catalogd.py serve` has the page with them, and reloads it.
"""

import functools
import http.client
import http.server
import pathlib
import re
import threading
import time
import urllib.parse
from typing import Any

PAUSE = 0.2  # seconds between two looks at the files
NAMES = {"CSS": "catalogd.css", "JS": "catalogd.js"}
RELOAD = """const before = "{version}";
setInterval(async () => {
  const answer = await fetch("edited.txt").catch(() => null);
  if (answer && (await answer.text()) !== before) location.reload();
}, 300);
"""
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class Refused(Exception):
    """What was saved cannot be put into catalogd.py."""


class Editing:
    """The constants of a program as files, while somebody edits them."""

    def __init__(self, program: pathlib.Path) -> None:
        self.program = program
        self.source = program.read_text(encoding="utf-8")
        self.files = {name: program.parent / file for name, file in NAMES.items()}
        for name, path in self.files.items():
            path.write_text(self._found(name)[2], encoding="utf-8")

    def _found(self, name: str) -> re.Match[str]:
        """Match what is before the text of a constant, and the text."""
        pattern = rf'(?ms)^({name} = r""")(.*?)(?=^""")'
        found = re.search(pattern, self.source)
        if not found:
            raise LookupError(f"there is no {name} in {self.program}")
        return found

    def text(self, name: str) -> str:
        return self.files[name].read_text(encoding="utf-8")

    def version(self) -> str:
        """Return a text that changes with the files."""
        return " ".join(str(path.stat().st_mtime_ns) for path in self.files.values())

    def save(self) -> bool:
        """Put back what was saved, and return whether that was anything.

        :raises Refused: catalogd.py was changed meanwhile, or a text would end there.
        """
        source = self.source
        for name in self.files:
            text = self.text(name)
            found = self._found(name)
            if '"""' in text or not text.endswith("\n"):
                raise Refused(f'{name} has """ in it, or no line end at its end.')
            whole = found[1] + text
            source = source[: found.start()] + whole + source[found.end() :]
            if source == self.source:
                continue
            if self.program.read_text(encoding="utf-8") != self.source:
                raise Refused(f"{self.program} was changed meanwhile.")
            self.program.write_text(source, encoding="utf-8")
            self.source = source
            return True
        return False

    def end(self) -> None:
        for path in self.files.values():
            path.unlink()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what is edited, and else with what the server answers."""

    protocol_version = "HTTP/1.0"

    def __init__(self, editing: Editing, address: str, *more: Any) -> None:
        self.editing, self.place = editing, urllib.parse.urlsplit(address).netloc
        super().__init__(*more)

    def do_GET(self) -> None:
        own = {
            "/edited.txt": lambda: self.editing.version().encode(),
            "/reload.js": self._reload,
            "/style.css": lambda: self.editing.text("CSS").encode(),
            "/script.js": self._script,
            "/": self._page,
        }.get(self.path.partition("?")[0])
        if own is None:
            return self._forward()
        body = own()
        types = {"css": "text/css", "js": "text/javascript", "/": "text/html"}
        kind = types.get(self.path.rpartition(".")[2], "text/plain")
        headers = [("Content-Type", f"{kind}; charset=utf-8")]
        return self._answer(200, [*headers, ("Cache-Control", "no-store")], body)

    def _forward(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size) if size else None
        status, headers, answer = self._ask(dict(self.headers), body)
        self._answer(status, headers, answer)

    do_POST = do_PATCH = do_DELETE = do_HEAD = _forward

    def _ask(
        self, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection(self.place, timeout=60)
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        kept = [
            each for each in answer.getheaders() if each[0].lower() not in HOP_BY_HOP
        ]
        found = answer.status, kept, answer.read()
        server.close()
        return found

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _page(self) -> bytes:
        _, _, body = self._ask({"Host": self.place})
        style = b'<link rel="stylesheet"'  # after what would see that it changes
        return body.replace(style, b'<script src="reload.js"></script>\n' + style)

    def _reload(self) -> bytes:
        return RELOAD.replace("{version}", self.editing.version()).encode()

    def _script(self) -> bytes:
        """Return the script with the texts that the server puts into it."""
        _, _, served = self._ask({"Host": self.place})
        line = re.compile("^const ENGLISH ?= ?.*", re.MULTILINE)
        texts = line.findall(served.decode())[0]
        return line.sub(lambda found: texts, self.editing.text("JS")).encode()

    def log_message(self, *about: object) -> None:
        pass


def serve(editing: Editing, address: str, port: int) -> http.server.HTTPServer:
    """Serve the page that is edited, in a thread."""
    handler = functools.partial(Handler, editing, address)
    server = http.server.ThreadingHTTPServer(("localhost", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main(program: pathlib.Path, address: str = "http://localhost:6069") -> int:
    editing = Editing(program)
    server = serve(editing, address, 6070)
    print("Edit", *NAMES.values(), "and open http://localhost:6070. Ctrl-C ends.")
    try:
        while True:
            time.sleep(PAUSE)
            if editing.save():
                print(time.strftime("%H:%M:%S"), "put into", program.name)
    except Refused as why:
        print(f"{why} Not put back: what you edited is in {', '.join(NAMES.values())}.")
        return 1
    except KeyboardInterrupt:
        editing.end()
        return 0
    finally:
        server.shutdown()
