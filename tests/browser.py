"""What the tests of the page do in a browser."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import screenshots
from screenshots import Demo, see

PATIENCE = 20_000  # milliseconds to wait on a busy machine


def sign_in(page: Any, store: catalogd.Store, address: str, name: str) -> None:
    cookie = screenshots.session(store, store.accounts.id_of(name))
    screenshots.sign_in(page.context, address, cookie)


def add(store: catalogd.Store, name: str, **facts: str) -> str:
    """Add a link, and return the id of its entry."""
    metadata = {"name": name, "description": "", "version": "", **facts}
    url = f"http://example.org/{len(name)}"
    kind = metadata.pop("file_type", "nsp")
    return store.entries.add_link(url, 1000, kind, metadata, by="anna")


def names(page: Any) -> list[str]:
    """Return the names of the titles in the document."""
    found: list[str] = page.locator(".entry-name").all_text_contents()
    return found


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name)


def until(check: Callable[[], Any]) -> None:
    """Wait for a condition that Playwright cannot wait for."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Taps:
    """What a person taps or clicks on, counted."""

    count = 0

    def on(self, target: Any) -> None:
        self.count += 1
        target.click()


def copied(page: Any, taps: Taps, name: str) -> str:
    """Return what the button with this name copies."""
    page.evaluate("navigator.clipboard.writeText('')")
    taps.on(button(page, name))
    until(lambda: page.evaluate("navigator.clipboard.readText()"))
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


@contextlib.contextmanager
def computer(folder: pathlib.Path, lines: list[str]) -> Iterator[None]:
    """Run lines in the shell of an empty folder. The last one starts the client."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to(sys.executable)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    how: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, "HOME": str(folder), "PATH": path},
    }
    *first, last = lines
    for line in first:
        subprocess.run(["sh", "-c", line], check=True, **how)
    with subprocess.Popen(["sh", "-c", f"exec {last}"], **how) as process:
        try:
            yield
        finally:
            process.kill()


def make_key(page: Any) -> None:
    page.get_by_label("What is it for?").fill("Laptop")
    button(page, "Create key").click()
    see(page, "It is shown only now.")


TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Any) -> list[tuple[str, str]]:
    """Return the rules that axe-core finds broken, each with its first element."""
    from axe_playwright_python.sync_playwright import Axe

    rules = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=rules).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in found]


def queued(store: catalogd.Store) -> list[str]:
    """Return the names of what waits in anna's queue."""
    return [row["name"] for row in store.queue.pending(1)]


def waiting(house: Demo, name: str = "kim2") -> list[str]:
    """Return the names of what waits in an account's queue."""
    account = house.store.accounts.id_of(name)
    return [row["name"] for row in house.store.queue.pending(account)]


def sending(store: catalogd.Store, name: str = "Paper Harbor") -> str:
    """Return the id of a queue item that a client is sending."""
    store.queue.send(1, add(store, name))
    (item,) = [row["id"] for row in store.queue.items(1) if row["name"] == name]
    report(store, item, 40)
    return str(item)


def report(store: catalogd.Store, item: str, percent: float, **more: Any) -> None:
    values = {"progress_percent": percent, "bytes_transferred": int(10 * percent)}
    store.queue.report(1, item, {**values, "transfer_speed": 100, **more})


COPY_WITHOUT_HTTPS = """
Object.defineProperty(navigator, 'clipboard', {value: undefined});
addEventListener('copy', event => { window.copied = event.target.value.slice(0, 9); });
"""


def focused(page: Any) -> str:
    name: str = page.evaluate(
        "document.activeElement.getAttribute('aria-label')"
        " || document.activeElement.textContent"
    )
    return name


def press_until(page: Any, key: str, name: str) -> None:
    for _ in range(40):
        page.keyboard.press(key)
        if focused(page).startswith(name):
            return
    pytest.fail(f"{key} does not lead to {name}")


def fill_folder(page: Any, folder: str) -> None:
    page.get_by_label("Where is it on that computer?").fill(folder)


def line_of(page: Any, name: str) -> str:
    """Return a line of the sheet, by what it does."""
    line: str = page.locator(".code", has_text=name).locator("code").text_content()
    return line


def pair(page: Any, code: str, name: str = "Living room") -> Any:
    """Redeem a pairing code, as a client does."""
    return page.request.post("/api/pair", data={"code": code, "name": name})
