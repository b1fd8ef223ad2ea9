"""Browsers that Playwright does not drive: the oldest Chromium that the page is made
for, Firefox, and WebKit, the engine of Safari."""

import base64
import contextlib
import hashlib
import importlib.util
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from browser import FLAGS, until
from conftest import free_port, need, skip

MAX_ANSWER_SECONDS = 120  # also of a browser that still starts
ESCAPE = "\ue00c"  # as WebDriver has the key
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The binary of Chromium 106 is in this package of npm. Debian has newer ones alone.
PACKAGE = "@sparticuz/chromium@106.0.2"
DIGEST = (  # as npm tells it
    "YDbwmfyzLi2WqVjAONPjxlCxAfLPjx4TE7KdDNOyITDGx6KAktgpZ9qab77ZRU/6mmCwSdg+QO+OGQTXOEY/RA=="
)
UNPACK = """const {createReadStream, createWriteStream} = require("fs");
createReadStream(process.argv[1])
  .pipe(require("zlib").createBrotliDecompress())
  .pipe(createWriteStream(process.argv[2], {mode: 0o755}));"""
NOTE_MISTAKES = """() => {
  if (window.mistakes) return;
  window.mistakes = [];
  const note = thing => mistakes.push(String(thing?.stack || thing));
  addEventListener("error", ({error}) => error && note(error));
  addEventListener("unhandledrejection", ({reason}) => note(reason));
  const tell = console.error;
  console.error = (...things) => (things.map(note), tell(...things));
}"""
# The last control whose name is this, or begins so, once the middle of it is in the
# window. One that is covered, or is not shown, is none. A field has its label's name.
PLACE = """([name, tag]) => {
  const nameOf = node =>
    node.getAttribute("aria-label") || (node.labels?.[0] || node).textContent;
  const controls = "button, a, input, select, textarea, summary";
  const layer = [...document.querySelectorAll("dialog")].at(-1) || document;
  const named = [...layer.querySelectorAll(tag || controls)].filter(
    node => nameOf(node).trim().startsWith(name) && node.getClientRects().length,
  );
  const exact = named.filter(node => nameOf(node).trim() === name);
  for (const node of (exact.length ? exact : named).reverse()) {
    const {left, top, width, height} = node.getBoundingClientRect();
    const [x, y] = [left + width / 2, top + height / 2];
    const hit = document.elementFromPoint(x, y);
    if (node.contains(hit) || hit?.closest("label")?.control === node) return [x, y];
    node.scrollIntoView({block: "center", inline: "nearest"});
  }
  return null;
}"""


class Tab:
    """A page in a browser, which is driven by a few calls."""

    _last = (-10.0, -10.0)  # where was clicked

    def evaluate(self, expression: str) -> Any:
        """Return the value of JavaScript, as of JSON."""
        raise NotImplementedError

    def load(self, address: str) -> None:
        raise NotImplementedError

    def resize(self, width: int, height: int) -> None:
        raise NotImplementedError

    def press(self, x: float, y: float) -> None:
        """Press the button of the mouse."""
        raise NotImplementedError

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        raise NotImplementedError

    def picture(self) -> bytes:
        """Return a PNG."""
        raise NotImplementedError

    def open(self, address: str) -> None:
        self.load(address)
        self.evaluate(f"({NOTE_MISTAKES})()")

    def mistakes(self) -> list[str]:
        """Return the errors of the page since it was opened."""
        found: list[str] = self.evaluate("window.mistakes")
        return found

    def text(self) -> str:
        """Return what is shown, with plain spaces."""
        return str(self.evaluate("document.body.innerText")).replace("\xa0", " ")

    def see(self, text: str) -> None:
        until(lambda: text in self.text())

    def lose(self, text: str) -> None:
        """Wait until a text is gone."""
        until(lambda: text not in self.text())

    def place(self, name: str, tag: str = "") -> Any:
        """Return where a control is whose name begins so, once nothing covers it."""
        call, places = f"({PLACE})({json.dumps([name, tag])})", [None]

        def is_there() -> bool:
            places.append(self.evaluate(call))
            return bool(places[-1]) and places[-1] == places[-2]  # it moves no more

        until(is_there)
        return places[-1]

    def click(self, name: str, tag: str = "") -> None:
        """Press a control once: of a double click, the page drops the second one."""
        x, y = self.place(name, tag)
        if math.dist((x, y), self._last) < 10:
            time.sleep(0.6)
        self._last = x, y
        self.press(x, y)

    def fill(self, name: str, text: str) -> None:
        self.click(name, "input")
        self.type(text)


class DevTools(Tab):
    """A tab of Chromium, by its DevTools protocol."""

    def __init__(self, line: Any) -> None:
        self._line, self._numbers = line, itertools.count(1)
        self.call("Page.enable")
        begin = f"({NOTE_MISTAKES})()"
        self.call("Page.addScriptToEvaluateOnNewDocument", source=begin)

    def call(self, method: str, **params: Any) -> Any:
        answer = exchange(self._line, next(self._numbers), method, params)
        assert "result" in answer, answer
        return answer["result"]

    def evaluate(self, expression: str) -> Any:
        asked = {"expression": expression, "returnByValue": True}
        answer = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def load(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        until(lambda: self.evaluate("document.readyState") == "complete")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", mobile=False, **size)

    def press(self, x: float, y: float) -> None:
        at, button = {"x": x, "y": y}, {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        self.call("Input.dispatchMouseEvent", type="mousePressed", **at, **button)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **at, **button)

    def type(self, text: str) -> None:
        for key in text:
            named = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
            one = named if key == ESCAPE else {"key": key, "text": key}
            for way in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=way, **one)

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])


class BiDi(Tab):
    """A tab of Firefox, by WebDriver BiDi."""

    def __init__(self, line: Any) -> None:
        self._line, self._numbers = line, itertools.count(1)
        self.call("session.new", capabilities={})
        [tab] = self.call("browsingContext.getTree")["contexts"]
        self._tab = {"context": tab["context"]}
        self.call("script.addPreloadScript", functionDeclaration=NOTE_MISTAKES)

    def call(self, method: str, **params: Any) -> Any:
        answer = exchange(self._line, next(self._numbers), method, params)
        assert answer["type"] == "success", answer
        return answer["result"]

    def evaluate(self, expression: str) -> Any:
        code = f"JSON.stringify(({expression}) ?? null)"
        asked = {"expression": code, "awaitPromise": False}
        answer = self.call("script.evaluate", target=self._tab, **asked)
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def load(self, address: str) -> None:
        self.call("browsingContext.navigate", **self._tab, url=address, wait="complete")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self.call("browsingContext.setViewport", **self._tab, viewport=size)

    def press(self, x: float, y: float) -> None:
        self._act([pointer(x, y)])

    def type(self, text: str) -> None:
        self._act([keys(text)])

    def _act(self, actions: list[Any]) -> None:
        self.call("input.performActions", **self._tab, actions=actions)

    def picture(self) -> bytes:
        taken = self.call("browsingContext.captureScreenshot", **self._tab)
        return base64.b64decode(taken["data"])


class WebDriver(Tab):
    """A tab of WebKit, by W3C WebDriver."""

    def __init__(self, address: str) -> None:
        self._session = f"{address}/session"
        wanted: Any = {"capabilities": {"alwaysMatch": {}}}
        self._session += f"/{self.call('', wanted)['sessionId']}"

    def call(self, command: str, body: Any = None, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        asked = urllib.request.Request(
            self._session + command, data, kind, method=method
        )
        with urllib.request.urlopen(asked, timeout=MAX_ANSWER_SECONDS) as answer:
            return json.load(answer)["value"]

    def evaluate(self, expression: str) -> Any:
        script = {"script": f"return ({expression})", "args": []}
        return self.call("/execute/sync", script)

    def load(self, address: str) -> None:
        self.call("/url", {"url": address})

    def resize(self, width: int, height: int) -> None:
        self.call("/window/rect", {"width": width, "height": height})

    def press(self, x: float, y: float) -> None:
        self.call("/actions", {"actions": [pointer(round(x), round(y))]})

    def type(self, text: str) -> None:
        self.call("/actions", {"actions": [keys(text)]})

    def picture(self) -> bytes:
        return base64.b64decode(self.call("/screenshot", method="GET"))


def exchange(line: Any, number: int, method: str, params: Any) -> Any:
    """Call a browser over a WebSocket, and return the answer."""
    line.send(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        answer = json.loads(line.recv(timeout=MAX_ANSWER_SECONDS))
        if answer.get("id") == number:
            return answer


def pointer(x: float, y: float) -> dict[str, Any]:
    """Return a click, as both kinds of WebDriver have it."""
    press = [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
    move = {"type": "pointerMove", "x": x, "y": y}
    return {"type": "pointer", "id": "mouse", "actions": [move, *press]}


def keys(text: str) -> dict[str, Any]:
    presses = [
        {"type": f"key{way}", "value": c} for c in text for way in ("Down", "Up")
    ]
    return {"type": "key", "id": "keys", "actions": presses}


@contextlib.contextmanager
def running(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and end it."""
    with subprocess.Popen(command, text=True, **how) as process:
        try:
            yield process
        finally:
            process.terminate()


def told(process: subprocess.Popen[str], pattern: str) -> str:
    """Return what a program tells on its standard error, as where it listens."""
    assert process.stderr is not None
    return next(
        told[1] for line in process.stderr if (told := re.search(pattern, line))
    )


def need_websockets() -> None:
    if importlib.util.find_spec("websockets") is None:
        skip("needs the package websockets of PyPI")


def old_chromium() -> pathlib.Path:
    """Return Chromium 106, which is downloaded once."""
    folder = ROOT / ".tox" / ".chromium"
    program = folder / PACKAGE.rpartition("@")[2]
    if program.exists():
        return program
    need("npm", "npm")
    folder.mkdir(parents=True, exist_ok=True)
    pack = ["npm", "pack", PACKAGE, "--json", "--loglevel=error"]
    done = subprocess.run(pack, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        skip(f"needs {PACKAGE} of npm: {done.stderr[-300:]}")
    archive = folder / json.loads(done.stdout)[0]["filename"]
    digest = hashlib.sha512(archive.read_bytes()).digest()
    assert base64.b64encode(digest).decode() == DIGEST
    shutil.unpack_archive(archive, folder)
    packed = folder / "package" / "bin" / "chromium.br"
    subprocess.run(["node", "-e", UNPACK, packed, folder / "new"], check=True)
    shutil.rmtree(folder / "package")
    archive.unlink()
    return (folder / "new").replace(program)


@contextlib.contextmanager
def start_chromium_106(folder: pathlib.Path) -> Iterator[Tab]:
    from websockets.sync.client import connect

    flags = [
        *FLAGS,
        "--headless",
        "--remote-debugging-port=0",
        "--disable-dev-shm-usage",
    ]
    command = [str(old_chromium()), *flags, f"--user-data-dir={folder}", "about:blank"]
    quiet = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with running(command, **quiet) as process:
        host = told(process, "DevTools listening on ws://([^/]+)")
        opened = urllib.request.Request(f"http://{host}/json/new", method="PUT")
        with urllib.request.urlopen(opened) as answer:
            page = json.load(answer)
        with connect(page["webSocketDebuggerUrl"], proxy=None, max_size=None) as line:
            yield DevTools(line)


# Whatever Firefox would load from elsewhere, it asks for at a port that is closed.
PREFS = {
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.trr.mode": 5,
    "toolkit.telemetry.enabled": False,
}


@contextlib.contextmanager
def start_firefox(folder: pathlib.Path) -> Iterator[Tab]:
    from websockets.sync.client import connect

    need("firefox-esr", "firefox-esr")
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFS.items()]
    (folder / "user.js").write_text("\n".join(lines), "utf-8")
    flags = ["--headless", "--remote-debugging-port=0", "--profile", str(folder)]
    quiet = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    home = {**os.environ, "HOME": str(folder)}
    with running(["firefox-esr", *flags], env=home, **quiet) as process:
        address = told(process, r"WebDriver BiDi listening on (ws://\S+)")
        with connect(f"{address}/session", proxy=None, max_size=None) as line:
            yield BiDi(line)


@contextlib.contextmanager
def start_webkit(folder: pathlib.Path) -> Iterator[Tab]:
    """Start WebKitGTK's browser in a window that nobody sees."""
    need("WebKitWebDriver", "webkit2gtk-driver")
    need("Xvfb", "xvfb")
    screen = ["Xvfb", "-displayfd", "2", "-screen", "0", "1400x1000x24"]
    screen += ["-nolisten", "tcp", "-nolisten", "unix"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with running(screen, **quiet) as server:
        display = told(server, r"^(\d+)$")
        # Where a variable chooses its plain renderer, a view transition crashes it.
        new = {"DISPLAY": f":{display}", "HOME": str(folder), "NO_AT_BRIDGE": "1"}
        new |= {"XDG_RUNTIME_DIR": str(folder)}
        port = free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        driver = ["WebKitWebDriver", f"--port={port}"]
        with running(driver, env={**os.environ, **new}, **quiet):
            address = f"http://127.0.0.1:{port}"
            until(lambda: listens(address))
            tab = WebDriver(address)
            try:
                yield tab
            finally:
                tab.call("", method="DELETE")


def listens(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/status").close()
    except OSError:
        return False
    return True


ENGINES = {
    "Chromium 106": start_chromium_106,
    "Firefox": start_firefox,
    "WebKit": start_webkit,
}
