"""The page's main journey in Debian's Firefox, which WebDriver BiDi drives. All else is
tested in Chromium."""

import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
from browser import add, add_device, queued, report, until
from conftest import PASSWORD, Library, need, skip

# Whatever it would load from elsewhere, it asks for at a port that is closed.
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
pytestmark = pytest.mark.ci
MAX_ANSWER_SECONDS = 120  # also of a browser that still starts
READY = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


class Firefox:
    """A tab of Firefox."""

    def __init__(self, line: Any) -> None:
        self._line, self._numbers = line, itertools.count(1)
        self.errors: list[str] = []  # of the page's script
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        [tab] = self.call("browsingContext.getTree")["contexts"]
        self.tab = tab["context"]

    def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._line.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._line.recv(timeout=MAX_ANSWER_SECONDS))
            if answer.get("method") == "log.entryAdded":
                self._note(answer["params"])
            elif answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def _note(self, entry: Any) -> None:
        if entry["level"] == "error" and entry["type"] == "javascript":
            self.errors.append(entry["text"])

    def open(self, address: str) -> None:
        self.call(
            "browsingContext.navigate", context=self.tab, url=address, wait="complete"
        )

    def text(self) -> str:
        """Return what is shown."""
        asked = {"expression": "document.body.innerText", "awaitPromise": False}
        found = self.call("script.evaluate", target={"context": self.tab}, **asked)
        return str(found["result"]["value"])

    def see(self, text: str) -> None:
        until(lambda: text in self.text())

    def node(self, name: str, **role: str) -> Any:
        """Return a reference of the node with this name, once it is there. A field
        comes after its label, which has the same one."""
        locator = {"type": "accessibility", "value": {"name": name, **role}}
        found: list[Any] = []

        def is_there() -> bool:
            asked = {"context": self.tab, "locator": locator}
            found[:] = self.call("browsingContext.locateNodes", **asked)["nodes"]
            return bool(found)

        until(is_there)
        return {"sharedId": found[-1]["sharedId"]}

    def click(self, name: str, **role: str) -> None:
        node = self.node(name, **role)
        self.call(
            "script.callFunction",
            functionDeclaration="node => node.scrollIntoView({block: 'center'})",
            target={"context": self.tab},
            arguments=[node],
            awaitPromise=False,
        )
        move = {"type": "pointerMove", "x": 0, "y": 0}
        origin = {"type": "element", "element": node}
        press = [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
        self._act("pointer", [{**move, "origin": origin}, *press])

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        keys = [
            {"type": f"key{way}", "value": c} for c in text for way in ("Down", "Up")
        ]
        self._act("key", keys)

    def _act(self, kind: str, actions: list[Any]) -> None:
        source = {"type": kind, "id": kind, "actions": actions}
        self.call("input.performActions", context=self.tab, actions=[source])


@contextlib.contextmanager
def start_firefox(folder: pathlib.Path) -> Iterator[Firefox]:
    """Start Debian's Firefox without a window."""
    from websockets.sync.client import connect

    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFS.items()]
    (folder / "user.js").write_text("\n".join(lines), "utf-8")
    options = ["--headless", "--remote-debugging-port=0", "--profile", str(folder)]
    with subprocess.Popen(
        ["firefox-esr", *options],
        env={**os.environ, "HOME": str(folder)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            found = next(filter(None, map(READY.search, process.stderr)))
            with connect(f"{found[1]}/session", proxy=None) as line:
                yield Firefox(line)
        finally:
            process.kill()


@pytest.fixture
def firefox(tmp_path: pathlib.Path) -> Iterator[Firefox]:
    need("firefox-esr", "firefox-esr")
    if importlib.util.find_spec("websockets") is None:
        skip("needs the package websockets of PyPI")
    folder = tmp_path / "profile"
    folder.mkdir()
    with start_firefox(folder) as browser:
        yield browser
    assert browser.errors == []


def test_a_game_is_found_sent_watched_and_cancelled_in_firefox(
    firefox: Firefox,
    site: str,
    store: catalogd.Store,
    scanner: catalogd.Scanner,
    library: Library,
    key: str,
) -> None:
    for name in ("Lantern Keepers", "Paper Harbor"):
        library.add(f"{name}.nsp", name.encode() * 100)
    scanner.scan()
    device = add_device(store, "Attic")
    firefox.open(site)
    for label, text in (("Name", "anna"), ("Password", PASSWORD)):
        firefox.click(label)
        firefox.type(text)
    firefox.click("Sign in", role="button")
    firefox.see("Lantern Keepers")
    firefox.click("Search the library", role="searchbox")
    firefox.type("paper")
    until(lambda: "Lantern Keepers" not in firefox.text())
    firefox.click("Send Paper Harbor", role="button")
    firefox.click("Queue", role="link")
    firefox.see("1 waiting")
    [item] = [row["id"] for row in store.queue.items(1)]
    for percent in (40, 60):
        report(store, item, percent, key=device)
        firefox.see(f"{percent}\xa0%")
    firefox.click("Cancel Paper Harbor", role="button")
    firefox.see("Paper Harbor was cancelled.")
    assert store.queue.items(1)[0]["status"] == "cancelled"
    firefox.click("Undo", role="button")
    firefox.see("1 waiting")
    assert store.queue.items(1)[0]["status"] == "pending"


def test_a_title_moves_up_by_its_menu_in_firefox(
    firefox: Firefox, site: str, store: catalogd.Store, key: str
) -> None:
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    firefox.open(f"{site}#queue")
    for label, text in (("Name", "anna"), ("Password", PASSWORD)):
        firefox.click(label)
        firefox.type(text)
    firefox.click("Sign in", role="button")
    firefox.see("2 waiting")
    assert "To the top" not in firefox.text()
    firefox.click("More: Second", role="button")
    firefox.see("To the top")
    firefox.click("To the top Second", role="button")
    until(lambda: queued(store) == ["Second", "First"])
    until(lambda: "To the top" not in firefox.text())
