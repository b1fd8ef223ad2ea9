"""A real Chromium, and what the tests of the page do in it."""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import catalogd
from example import Demo, session

PATIENCE = 20_000  # milliseconds to wait on a busy machine
# The shell draws no window around the page, which halves the time.
CHROMIUM = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
WIDE = {"width": 2560, "height": 1440}
IN_DIALOG = "/^#(filters|title|adding|question)/.test(location.hash)"
TWO_FRAMES = "new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))"


def missing_for_chromium() -> str:
    """Return the package, or the library of one, without which Chromium or Playwright
    does not start, or "" where they do."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        return "axe-playwright-python of PyPI"
    if not os.path.exists(CHROMIUM):
        return "chromium-headless-shell"
    driver = [sys.executable, "-m", "playwright", "--version"]
    browser = [CHROMIUM, "--headless", *FLAGS, "--dump-dom", "about:blank"]
    for command in (driver, browser):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            found = re.search(r"lib[\w+.-]+\.so[.\d]*", done.stderr)
            return f"of {found[0]}" if found else f"chromium: {done.stderr[-300:]}"
    return ""


@contextlib.contextmanager
def start_chromium() -> Iterator[Any]:
    """Start Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def translation(
    change: Callable[[str], str] = str, direction: str = "ltr", **words: Any
) -> dict[str, Any]:
    """Return a translation whose texts are changed English ones, but for `words`."""

    def changed(text: Any) -> Any:
        if isinstance(text, str):
            return change(text)
        return {name: changed(part) for name, part in text.items()}

    return {
        "about": {"direction": direction},
        "words": {**changed(catalogd.WORDS), **words},
        "sentences": changed(catalogd.SENTENCES),
    }


def translate(page: Any, table: Mapping[str, Any], language: str = "en-GB") -> None:
    """Have a page that is loaded next speak as in a translation. Texts that are put
    into others lose the marks around them, so that there is one at either end."""
    said = f'\nspeak("{language}", {json.dumps(table)});'
    script = catalogd.SCRIPT.replace('\nspeak("en-GB", ENGLISH);', said)
    unmarked = 'String(isolate(arg)).replace(/[\u180b\u180c]/g, "");'
    script = script.replace("isolate(arg);", unmarked)
    assert script != catalogd.SCRIPT
    page.route("**/script.js", lambda route: route.fulfill(body=script))


def options(scheme: str, size: Mapping[str, int]) -> dict[str, Any]:
    touch = {"has_touch": size == PHONE, "is_mobile": size == PHONE}
    return {
        "color_scheme": scheme,
        "viewport": size,
        "reduced_motion": "reduce",
        **touch,
    }


def show(page: Any, mode: str, size: Mapping[str, int]) -> None:
    """Show what is loaded in another mode and size. The finger of a phone comes with
    its width, and the font of "large" with the setting that browsers have for it."""
    scheme = "dark" if mode == "dark" else "light"
    colors = "active" if mode == "forced" else "none"
    page.emulate_media(color_scheme=scheme, forced_colors=colors)
    devtools = page.context.new_cdp_session(page)
    fonts = {"standard": 32, "fixed": 26} if mode == "large" else {"standard": 16}
    devtools.send("Page.setFontSizes", {"fontSizes": fonts})
    if size == PHONE:  # to turn it off would not bring the mouse back
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    resize(page, size)


def resize(page: Any, size: Mapping[str, int]) -> None:
    """Have a page draw what is loaded in another size."""
    page.set_viewport_size(size)
    page.evaluate("dispatchEvent(new Event('resize'))")


def stop_clock(page: Any) -> None:
    """Let the clock of a page, once it is installed, stand still but for `run_for`. An
    hour passes before, in which each timer ends that runs."""
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 3600)


def pause_polls(page: Any) -> None:
    """Poll, so that the pause until the next one begins now, on a clock that stands
    still."""
    page.evaluate("poll('changes')")


def close_context(context: Any) -> None:
    """Close a context when its routes have answered: they need its connections."""
    for page in context.pages:
        page.unroute_all(behavior="wait")
    context.close()


def see(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for()


def sign_in(page: Any, store: catalogd.Store, address: str, name: str) -> None:
    cookie = session(store, store.accounts.id_of(name))
    page.context.add_cookies([{"name": "session", "value": cookie, "url": address}])


def add(store: catalogd.Store, name: str, **facts: str) -> str:
    """Add a link, and return the id of its entry."""
    metadata = {"name": name, "description": "", "version": "", **facts}
    url = f"http://example.org/{len(name)}"
    kind = metadata.pop("file_type", "nsp")
    return store.entries.add_link(url, 1000, kind, metadata, by="anna")


def add_files(store: catalogd.Store, names: Iterable[str], size: int = 1000) -> None:
    """Add many files at once, as a scan does; they are on no disk."""
    files = []
    for number, name in enumerate(names):
        path = f"/games/{name}.nsp"
        file = catalogd.FoundFile(path, "/games", size, number, number, "1")
        files.append((file, catalogd.FileContent("", catalogd.name_facts(path))))
    for batch in catalogd.batches(files):
        store.entries.add_files(batch, listed=True)


def add_device(
    store: catalogd.Store,
    name: str,
    account: int = 1,
    target: str = "ready",
    **changes: Any,
) -> str:
    """Add a device whose key is its name, and return its id."""
    device = store.accounts.add_key(account, name, catalogd.hash_token(name))
    store.accounts.uses.set_target_state(device, target)
    store.accounts.key_holder(catalogd.hash_token(name))
    store.devices.change(device, changes)
    return device


def names(page: Any) -> list[str]:
    """Return the names of the titles below the shelf that are in the document."""
    found: list[str] = page.locator(".entries .entry-name").all_text_contents()
    return found


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name)


def deed(page: Any, name: str, row: str) -> Any:
    """Open the menu of a row, unless it is, and return what has this name in it."""
    menu = page.locator(".menu:popover-open")
    found = menu.get_by_label(f"{name} {row}")
    if menu.count() and not found.count():
        page.keyboard.press("Escape")
    if not found.count():
        button(page, f"More: {row}").click()
    return found


def queue_deed(page: Any, name: str) -> Any:
    """Open the menu of the queue, and return what has this name in it."""
    button(page, "More: Queue").click()
    return button(page.locator(".menu:popover-open"), name)


def choose_device(page: Any, name: str) -> None:
    """Choose the device of this name in the first menu that has it."""
    menu = page.get_by_label("Send to").first
    menu.select_option(menu.locator("option", has_text=name).get_attribute("value"))


def set_library(page: Any, choice: str) -> None:
    """Choose an order, a layout or a filter in the sheet of the library."""
    button(page, "Sort and filter").click()
    sheet = page.get_by_role("dialog", name="Sort and filter")
    button(sheet, choice).click()
    button(sheet, "Close").click()


def unfold_experts(page: Any) -> None:
    """Show what is for experts, unless it is shown."""
    folded = page.locator(".experts")
    folded.wait_for()
    if folded.get_attribute("open") is None:
        folded.locator("summary").click()


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
    unfold_experts(page)
    page.get_by_label("What is it for?").fill("Laptop")
    button(page, "Create key").click()
    see(page, "It is shown only now.")


TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL_RULES = {"type": "tag", "values": TAGS}
AXE = """rules => axe.run(document, rules).then(({violations}) =>
  violations.map(({id, nodes}) => [id, nodes[0].html]))"""


def violations(
    page: Any, run_only: Mapping[str, Any] = ALL_RULES
) -> list[tuple[str, str]]:
    """Return the rules that axe-core finds broken, each with its first element.

    :param run_only: which rules, as its option says it.
    """
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    rules = {"runOnly": run_only, "resultTypes": ["violations"]}
    rules |= {"preload": False, "selectors": False}  # no rule of these needs them
    return [(rule, element) for rule, element in page.evaluate(AXE, rules)]


def queued(store: catalogd.Store) -> list[str]:
    """Return the names of what waits in anna's queue."""
    return [row["name"] for row in store.clients.pending(1)]


def waiting(house: Demo, name: str = "kim2") -> list[str]:
    """Return the names of what waits in an account's queue."""
    account = house.store.accounts.id_of(name)
    return [row["name"] for row in house.store.clients.pending(account)]


def sending(store: catalogd.Store, name: str = "Paper Harbor") -> str:
    """Return the id of a queue item that a client is sending."""
    store.queue.send(1, add(store, name))
    (item,) = [row["id"] for row in store.queue.items(1) if row["name"] == name]
    report(store, item, 40)
    return str(item)


def report(
    store: catalogd.Store,
    item: str,
    percent: float,
    speed: int = 100,
    account: int = 1,
    **more: Any,
) -> None:
    """Report on an item, as if its bytes had come at this speed."""
    figures = {"progress_percent": percent, "bytes_transferred": int(10 * percent)}
    progress = store.queue.progress
    began = progress._clock.monotonic() - figures["bytes_transferred"] / speed
    progress._reports[item] = {"mark": (began, 0), "heard": began, "speed": speed}
    store.clients.report(account, item, {**figures, **more})


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


def is_focused(node: Any) -> bool:
    """Return whether a node keeps the focus also when the browser has drawn it: it
    takes it from one that is disabled then."""
    is_so: bool = node.evaluate(
        """async node => {
          await new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)));
          return node === document.activeElement;
        }"""
    )
    return is_so


def press_until(page: Any, key: str, name: str) -> None:
    for _ in range(40):
        page.keyboard.press(key)
        if focused(page).startswith(name):
            return
    raise AssertionError(f"{key} does not lead to {name}")


def choose_way(page: Any, way: str) -> None:
    """Answer the first question of the sheet that adds a device, which comes where no
    console is found."""
    button(page, "Not found?").click()
    page.get_by_role("radio", name=way).click()


def choose_computer(page: Any) -> None:
    choose_way(page, "A computer with the SD card in it")


def add_found(page: Any, program: str) -> None:
    """Add a console that was found."""
    page.get_by_role("button", name=re.compile(rf"^\W*Add\W* {program} ")).click()


def fill_folder(page: Any, folder: str, name: str = "") -> None:
    """Answer the other questions for a computer."""
    page.get_by_role("radio", name="SD card or folder").click()
    page.get_by_label("Folder on that computer").fill(folder)
    button(page, "Next").click()
    fill_name(page, name)


def fill_name(page: Any, name: str = "") -> None:
    """Answer what a device is called, which has an answer already."""
    field = page.get_by_label("What do you call it?")
    field.wait_for()
    if name:
        field.fill(name)
    button(page, "Next").click()


def choose_program(page: Any, program: str) -> None:
    """Answer which program is on the console."""
    page.get_by_role("radio", name=re.compile(rf"^\W*{program}\W*$")).click()


def line_of(page: Any, name: str) -> str:
    """Return a line of the sheet, by what it does."""
    line: str = page.locator(".code", has_text=name).locator("code").text_content()
    return line


def pair(page: Any, code: str, name: str = "Living room") -> Any:
    """Redeem a pairing code, as a client does."""
    return page.request.post("/api/pair", data={"code": code, "name": name})
