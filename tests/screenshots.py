"""A server with example data, the views of its page, and screenshots of them.

`python3 tests/screenshots.py` writes the two pictures of the README into packaging/;
with a folder as its argument it writes every view into that folder: 390, 1280 and 2560
pixels wide, light, dark, with forced colors, and with a font of 200 %. Names of views
after the folder choose among them.
"""

import contextlib
import functools
import importlib.util
import itertools
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import catalogd  # noqa: E402

CHROMIUM = "/usr/bin/chromium"
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
MODES = ("light", "dark", "forced", "large")
PASSWORD = "correct horse"
MEGABYTE = 1_000_000
GAMES = """\
Clockwork Orchard|0.4.2|Every fruit is a spring that wants winding.
Drift Cartographer|1.8.0|Draw the map of a land that does not hold still.
Echo Quarry|1.0.1|Dig by sound alone.
Fable Foundry|2.5.0|Cast stories in bronze, and sell them by weight.
Glass Heron|1.6.3|Fly low, break nothing.
Hexagon Garden|1.1.1|A puzzle that smells of thyme.
Juniper Rally|1.2.2|Hill climbs with a picnic on the back seat.
Kettle & Kiln|0.8.8|A pottery for two players and one wheel.
Lantern Keepers|1.2.0|A lighthouse, four keepers and one very long night.
Loom of Weather|1.0.0|Weave tomorrow before it comes.
Marble Postman|1.9.0|Roll letters to the right door.
Moss & Copper|0.9.1|Grow a garden inside an abandoned clock.
Night Ferry|2.2.0|The last boat of the day, and who is on it.
Nimbus Depot|1.1.0|Stock the clouds and keep the books.
Orbit Mechanic|1.0.0|Mend satellites before the coffee gets cold.
Otter Brigade|2.1.7|River rescue for one to four players.
Paper Harbor|3.1.4|Fold ships, trade goods, mind the rain.
Pixel Apiary|1.0.9|Ten thousand bees, all of them busy.
Pocket Locomotive|1.0.5|Lay the tracks while the train is on its way.
Quiet Circuit|1.4.2|A race without engines.
Rooftop Gardener|1.5.0|Tomatoes against the city.
Saffron Skies|0.7.0|Carry the mail between islands that drift.
Snowblind Courier|1.3.0|Deliver on foot, in any weather.
Thistle Racers|0.6.1|Snails, slopes, glory.
Tidepool Tactics|2.0.3|Small battles between large crabs.
Umbra Gambit|1.2.4|Chess by the light of one candle.
"""


ADD_ONS = ("Extra Levels", "Soundtrack", "The Frozen North")


class Demo(NamedTuple):
    """A running server with games, two accounts and a queue."""

    address: str
    store: catalogd.Store
    scanner: catalogd.Scanner
    cookie: str  # of Robin, who is an admin


@contextlib.contextmanager
def served(web: catalogd.Web) -> Iterator[str]:
    """Serve, and return the address, such as `http://127.0.0.1:40123/`."""
    server = catalogd.listen(web)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}/"
    finally:
        server.stop()
        thread.join()


@contextlib.contextmanager
def running(fill: Callable[[pathlib.Path], None]) -> Iterator[Demo]:
    """Serve the files that `fill` writes, to two accounts."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        games = pathlib.Path(name, "Games")
        games.mkdir()
        fill(games)
        store = catalogd.Store(os.path.join(name, "data"))
        stack.callback(store.close)
        robin = store.accounts.add("Robin", catalogd.hash_password(PASSWORD))
        store.accounts.add("Kim", catalogd.hash_password(PASSWORD))
        settings = catalogd.Settings(
            folders=(str(games),), host="127.0.0.1", port=0, stale_after=86_400
        )
        scanner = catalogd.Scanner(store, settings)
        scanner.scan()
        web = catalogd.Web(store, settings, scanner)
        address = stack.enter_context(served(web))
        yield Demo(address, store, scanner, session(store, robin))


@contextlib.contextmanager
def demo(icons: Sequence[bytes] = (b"",)) -> Iterator[Demo]:
    """Serve the example data.

    :param icons: JPEGs for the games, used in turn; an empty one is none.
    """
    with running(lambda folder: fill(folder, icons)) as server:
        store = server.store
        robin = store.accounts.id_of("Robin")
        describe(store)
        fill_queue(store, robin)
        store.accounts.add_key(
            robin, "Computer in the living room", catalogd.hash_token("a key")
        )
        yield server


def session(store: catalogd.Store, account: int) -> str:
    """Sign in a browser of an account, and return its cookie."""
    secret = catalogd.secrets.token_urlsafe(32)
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    store.accounts.add_session(account, catalogd.hash_token(secret), agent)
    return secret


def fill(folder: pathlib.Path, icons: Sequence[bytes]) -> None:
    """Write sparse files of plausible sizes: games, most of them with updates and
    add-ons, and some homebrew."""
    for number, (name, version, _) in enumerate(games()):
        kind = ("nsp", "nsz", "xci", "nro")[number % 4]
        base = 0x0100_A000_0000_0000 + number * 0x2_0000
        icon = icons[number % len(icons)]
        size = (37 + number * 331 % 7000) * MEGABYTE + number * 4321
        path = folder / f"{name} [{base:016X}][v0].{kind}"
        if kind == "nro":
            put(path, size // 90, nro(name, version, icon))
            continue
        put(path, size)
        if icon and number % 4 == 1:
            path.with_suffix(".jpg").write_bytes(icon)
        patches = ((), (1, 3), (2,))[number % 3]
        for patch in patches:
            tags = f"[{base + 0x800:016X}][v{patch * 65536}]"
            put(folder / f"{name} {tags}.nsp", size // 20)
        for extra, own in enumerate(ADD_ONS[: number % 4]):
            tags = f"[{base + 0x1001 + extra:016X}][v0]"
            put(folder / f"{name} - {own} {tags}.nsp", size // (6 + extra))


def put(path: pathlib.Path, size: int, content: bytes = b"") -> None:
    path.write_bytes(content)
    os.truncate(path, max(size, len(content)))
    quiet = 1_760_000_000 + size % 86_400
    os.utime(path, (quiet, quiet))


def games() -> list[list[str]]:
    """Return name, version and description of each game."""
    return [row.split("|") for row in GAMES.splitlines()]


def nro(name: str, version: str, icon: bytes) -> bytes:
    """Return the parts of a homebrew program that hold its name, version and icon."""
    size = 0x1000
    program = bytearray(size)
    program[0x10:0x1C] = struct.pack("<4sII", b"NRO0", 0, size)
    control = bytearray(0x4000)
    control[: len(name)] = name.encode()
    control[0x200:0x20C] = b"Sofa Systems"
    control[0x3060 : 0x3060 + len(version)] = version.encode()
    spans = (0x38, len(icon), 0x38 + len(icon), len(control), 0, 0)
    return bytes(program) + struct.pack("<4sI6Q", b"ASET", 0, *spans) + icon + control


def describe(store: catalogd.Store) -> None:
    texts = {name: (version, text) for name, version, text in games()}
    for row in store.entries.downloadable():
        if row["name"] in texts:
            version, text = texts[row["name"]]
            facts = {"version": version, "description": text}
            store.entries.edit(row["id"], facts)
    link = {"name": "Yonder Isles", "description": "", "version": "1.0.2"}
    url = "https://games.example.org/yonder-isles.nro"
    store.entries.add_link(url, 64 * MEGABYTE, "nro", link, by="Robin")


def fill_queue(store: catalogd.Store, account: int) -> None:
    """Queue items and bring them to every status, by the calls that clients make."""
    ids = {row["name"]: row["id"] for row in store.entries.downloadable()}
    ended = ("Echo Quarry", "Paper Harbor", "Hexagon Garden")
    waiting = ("Rooftop Gardener", "Moss & Copper", "Night Ferry")
    for name in (*ended, "Umbra Gambit", *waiting):
        store.queue.send(account, ids[name])
    items = {row["name"]: row for row in store.queue.items(account)}
    for name in ended[:2]:
        done = {"bytes_transferred": items[name]["size"], "progress_percent": 100}
        store.queue.report(account, items[name]["id"], {**done, "status": "completed"})
    why = "The device is out of space: 812 MB are missing."
    failed = {"status": "failed", "error_message": why, "progress_percent": 34}
    store.queue.report(account, items["Hexagon Garden"]["id"], failed)
    now = items["Umbra Gambit"]
    done = {"bytes_transferred": int(now["size"] * 0.423), "progress_percent": 42.3}
    store.queue.report(account, now["id"], {**done, "transfer_speed": 21_400_000})


# The browser


def missing_for_chromium() -> str:
    """Return the package, or the library of one, without which Chromium or Playwright
    does not start, or "" where they do."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        return "axe-playwright-python of PyPI"
    if not os.path.exists(CHROMIUM):
        return "chromium"
    driver = [sys.executable, "-m", "playwright", "--version"]
    browser = [CHROMIUM, "--headless", *FLAGS, "--dump-dom", "about:blank"]
    for command in (driver, browser):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            found = re.search(r"lib[\w+.-]+\.so[.\d]*", done.stderr)
            return f"of {found[0]}" if found else f"chromium: {done.stderr[-300:]}"
    return ""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Start Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def sign_in(context: Any, address: str, cookie: str) -> None:
    context.add_cookies([{"name": "session", "value": cookie, "url": address}])


# The views: how to reach each from a fresh page


def see(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for()


def library(page: Any, address: str) -> None:
    page.goto(address)
    page.locator(".entry").first.wait_for()


def queue(page: Any, address: str) -> None:
    page.goto(f"{address}#queue")
    page.locator(".sending").wait_for()


TABS = {  # of the settings, with a text in each
    "you": "this browser",
    "devices": "Computer in the living room",
    "library": "Nothing is deleted here",
    "people": "Kim",
    "server": f"catalogd {catalogd.__version__}",
}


def settings(page: Any, address: str, tab: str) -> None:
    page.goto(f"{address}#settings/{tab}")
    see(page, TABS[tab])


def view_signing_in(page: Any, address: str) -> None:
    page.context.clear_cookies()
    page.goto(address)
    page.get_by_role("button", name="Sign in").wait_for()


def view_wrong_password(page: Any, address: str) -> None:
    view_signing_in(page, address)
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    see(page, "The name or the password is wrong.")


def view_setup(page: Any, address: str) -> None:
    answer = {"success": True, "account": None, "needs_setup": True}
    page.route("**/web/me", lambda route: route.fulfill(json=answer))
    page.goto(f"{address}#setup=482-915")
    see(page, "Welcome")


def view_loading(page: Any, address: str) -> None:
    page.add_init_script(
        "const get = fetch; fetch = (path, options) =>"
        " path === 'web/entries' ? new Promise(() => {}) : get(path, options);"
    )
    page.goto(address)
    page.locator(".skeleton").wait_for()


def view_empty(page: Any, address: str) -> None:
    answer = {"success": True, "entries": []}
    page.route("**/web/entries", lambda route: route.fulfill(json=answer))
    page.goto(address)
    page.locator(".empty").wait_for()


def view_scanning(page: Any, address: str) -> None:
    scan = {"scanning": True, "files": 1234, "read": 87, "folders": []}
    page.route("**/web/scan", lambda route: route.fulfill(json=scan))
    view_empty(page, address)
    see(page, "1,234 files so far")


def view_broken(page: Any, address: str) -> None:
    answer = {"success": False, "error": "busy", "message": "The database is busy."}
    page.route("**/web/entries", lambda route: route.fulfill(status=503, json=answer))
    page.goto(address)
    see(page, "The database is busy.")


def view_reconnecting(page: Any, address: str) -> None:
    library(page, address)
    page.route("**/web/**", lambda route: route.abort())
    see(page, "Reconnecting")


def view_rows(page: Any, address: str) -> None:
    library(page, address)
    other = page.get_by_role("button", name="Show as")
    other.click()
    page.locator(".entry").first.wait_for()


def view_selecting(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("button", name="Select", exact=True).click()
    for name in ("Drift Cartographer", "Fable Foundry"):
        page.get_by_label(f"Select {name}").check()
    see(page, "2 selected")


def view_filters(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("button", name="Not sent yet").click()
    page.get_by_role("button", name="More filters").click()
    page.get_by_role("button", name="NSZ").click()


def view_not_loaded(page: Any, address: str) -> None:
    answer = {"success": False, "error": "busy", "message": "The database is busy."}
    page.route("**/web/keys", lambda route: route.fulfill(status=503, json=answer))
    page.goto(f"{address}#settings/devices")
    see(page, "This could not be loaded.")


def view_undo(page: Any, address: str) -> None:
    answer = {"success": True, "added": ["a", "b", "c"], "already": [], "failed": []}
    page.route("**/web/send", lambda route: route.fulfill(json=answer))
    library(page, address)
    page.get_by_role("button", name="Send Fable Foundry").click()
    see(page, "3 files added to the queue.")


def view_search(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_label("Search the library").fill("garden")
    see(page, "2 of 27 titles")


def view_nothing_found(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_label("Search the library").fill("submarine")
    see(page, "Nothing found")


def view_details(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("link", name="Echo Quarry").click()
    page.get_by_role("dialog").wait_for()


def view_file_details(page: Any, address: str) -> None:
    view_details(page, address)
    name = "File details of Echo Quarry - Soundtrack"
    page.get_by_role("button", name=name).click()
    see(page, "Location")


def view_editing(page: Any, address: str) -> None:
    view_details(page, address)
    page.get_by_role("button", name="Edit Echo Quarry", exact=True).click()
    page.get_by_role("button", name="Save").wait_for()


def view_gone(page: Any, address: str) -> None:
    page.goto(f"{address}#title/none")
    see(page, "This title no longer exists")


def view_toast(page: Any, address: str) -> None:
    answer = {"success": False, "error": "not_found", "message": "There is none."}
    page.route("**/web/send", lambda route: route.fulfill(status=404, json=answer))
    library(page, address)
    page.get_by_role("button", name="Send Fable Foundry").click()
    see(page, "Fable Foundry was not queued.")


def view_empty_queue(page: Any, address: str) -> None:
    answer = {"success": True, "queue": [], "freed": 0}
    page.route("**/web/queue", lambda route: route.fulfill(json=answer))
    page.goto(f"{address}#queue")
    see(page, "The queue is empty")
    see(page, "No device fetches your queue yet.")


def view_new_key(page: Any, address: str) -> None:
    settings(page, address, "devices")
    page.get_by_label("What is it for?").fill("Laptop")
    page.get_by_role("button", name="Create key").click()
    see(page, "It is shown only now.")


def view_tidy(page: Any, address: str) -> None:
    settings(page, address, "library")
    page.locator(".tidy summary").first.click()
    page.locator(".tidy .row").first.wait_for()
    page.locator(".tidy").first.scroll_into_view_if_needed()


def view_many(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("button", name="Select", exact=True).click()
    page.get_by_role("button", name="Select all").click()
    page.get_by_role("button", name="Send 2").click()
    page.get_by_role("dialog").wait_for()


def view_question(page: Any, address: str) -> None:
    settings(page, address, "people")
    page.get_by_role("button", name="Remove Kim").click()
    page.get_by_role("dialog").wait_for()


def device(name: str, **facts: Any) -> dict[str, Any]:
    """Return a device as the server tells of it."""
    return {
        **{"id": name, "name": name, "account": "Robin", "is_own": True},
        **{"shared": False, "state": "idle", "target": "ready", "last_call": None},
        **facts,
    }


NO_CONSOLE = "The FTP server at 192.168.1.21:5000 is not ready: no answer."
DEVICES = [
    device("Living room", state="sending", shared=True),
    device("Bedroom", target=NO_CONSOLE),
    device("Travel card", state="away", last_call="2026-01-31T18:05:59"),
    device("Attic", account="Kim", is_own=False, shared=True),
]


def answer_devices(page: Any, devices: Sequence[dict[str, Any]]) -> None:
    """Let the page have these devices, and its queue's items be for them in turn."""

    def answer_queue(route: Any) -> None:
        body = route.fetch().json()
        ids = itertools.cycle([each["id"] for each in devices[:2]] or [None])
        for item in body["queue"]:
            item["device"] = next(ids)
            if item["status"] == "processing":
                item["device"] = "Living room"
        *_, last = body["queue"]
        body["queue"][-1] = {**last, "is_own": False, "account": "Kim"}
        route.fulfill(json=body)

    answer = {"success": True, "devices": devices}
    page.route("**/web/devices", lambda route: route.fulfill(json=answer))
    page.route("**/web/queue", answer_queue)


def view_devices_queue(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    page.goto(f"{address}#queue")
    see(page, "Its console does not answer")


def view_devices_library(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    library(page, address)
    page.get_by_label("Send to").wait_for()


def view_devices_details(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    view_details(page, address)
    page.get_by_role("dialog").get_by_label("Send to").wait_for()


def view_devices_settings(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    settings(page, address, "devices")
    page.get_by_role("button", name="Rename Bedroom").click()
    page.get_by_label("New name of Bedroom").wait_for()


def view_freed(page: Any, address: str) -> None:
    def answer(route: Any) -> None:
        body = route.fetch().json()
        waits = [item for item in body["queue"] if item["status"] == "pending"]
        for item in waits:
            item["freed_from"] = "Bedroom"
        route.fulfill(json={**body, "freed": len(waits)})

    page.route("**/web/queue", answer)
    shown = {"success": True, "devices": DEVICES[:1]}
    page.route("**/web/devices", lambda route: route.fulfill(json=shown))
    page.goto(f"{address}#queue")
    see(page, "without a device, since Bedroom")


def view_no_device(page: Any, address: str) -> None:
    page.route(
        "**/web/devices",
        lambda route: route.fulfill(json={"success": True, "devices": []}),
    )
    queue(page, address)
    see(page, "Waits for a device.")


def view_add_device(page: Any, address: str) -> None:
    queue(page, address)
    page.goto(f"{address}#settings/devices")
    page.get_by_role("button", name="Add a device").click()
    see(page, "What does it put files on?")


def view_add_device_lines(page: Any, address: str) -> None:
    view_add_device(page, address)
    page.get_by_label("Where is it on that computer?").fill("/media/robin/SDCARD")
    see(page, "curl")
    page.locator(".pairing").scroll_into_view_if_needed()


def view_add_device_ftp(page: Any, address: str) -> None:
    view_add_device(page, address)
    page.get_by_label("Console over FTP").check()
    page.get_by_label("sys-ftpd", exact=True).check()
    page.get_by_label("Address of the console").fill("192.168.1.20")


def view_add_device_used(page: Any, address: str) -> None:
    used = {"code": None, "expires_in": 0, "device": "Bedroom", "success": True}
    answer_devices(page, [device("Bedroom", target=NO_CONSOLE)])
    view_add_device_lines(page, address)
    page.route("**/web/pairing", lambda route: route.fulfill(json=used))
    see(page, "Bedroom has called")
    page.locator(".ticks").scroll_into_view_if_needed()


def view_add_device_ready(page: Any, address: str) -> None:
    used = {"code": None, "expires_in": 0, "device": "Bedroom", "success": True}
    answer_devices(page, [device("Bedroom")])
    view_add_device_lines(page, address)
    page.route("**/web/pairing", lambda route: route.fulfill(json=used))
    see(page, "Send puts your games on Bedroom now.")
    page.locator(".step .actions").scroll_into_view_if_needed()


def view_add_device_ended(page: Any, address: str) -> None:
    ended = {"code": None, "expires_in": 0, "device": None, "ended": True}
    view_add_device_lines(page, address)
    answer = {**ended, "success": True}
    page.route("**/web/pairing", lambda route: route.fulfill(json=answer))
    see(page, "Somebody tried ten wrong codes")


def view_console_fetches(page: Any, address: str) -> None:
    answer = {"success": True, "token": "Tz6hT1mK0vB3nUqk"}
    page.route("**/web/dir", lambda route: route.fulfill(json=answer))
    view_add_device(page, address)
    page.get_by_label("The console fetches by itself").check()
    see(page, "http.ini")


VIEWS: dict[str, Callable[[Any, str], None]] = {
    "library": library,
    "queue": queue,
    **{f"settings_{tab}": functools.partial(settings, tab=tab) for tab in TABS},
    **{name[5:]: view for name, view in globals().items() if name[:5] == "view_"},
}


# The pictures

SKIES = (
    ("#20304f", "#d9774e", "#f6d28b", "#3b2f4f"),
    ("#0d3b3e", "#4fa38a", "#f4e3b5", "#133d35"),
    ("#4b2142", "#c9586b", "#f7c59f", "#2d1730"),
    ("#163a63", "#6fb1d6", "#f5f0dc", "#1d4a3f"),
    ("#2b2350", "#7d6bc4", "#f2c6de", "#1c1b3a"),
    ("#5b3416", "#e0a04a", "#fbeab8", "#3f2a1a"),
    ("#12302a", "#8fbf5f", "#f3f0a8", "#1f3d22"),
)


def art(number: int) -> str:
    """Return a landscape as an SVG, a different one for each number."""
    top, low, sun, land = SKIES[number % len(SKIES)]
    x, y = 50 + number * 61 % 156, 60 + number * 37 % 60
    ridges = [ridge(number * 7 + n * 3, 130 + n * 36) for n in range(3)]
    shapes = "".join(
        f'<path d="{path}" fill="{land}" opacity="{opacity}"/>'
        for path, opacity in zip(ridges, (0.45, 0.7, 1), strict=True)
    )
    stars = "".join(
        f'<circle cx="{n * 83 % 256}" cy="{n * 47 % 110}" r="1.5" fill="{sun}"/>'
        for n in range(number, number + 14)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 256 256" width="256">'
        f'<rect width="256" height="256" fill="{top}"/>{stars}'
        f'<circle cx="{x}" cy="{y}" r="110" fill="{low}" opacity=".35"/>'
        f'<circle cx="{x}" cy="{y}" r="70" fill="{low}" opacity=".6"/>'
        f'<circle cx="{x}" cy="{y}" r="{26 + number % 4 * 6}" fill="{sun}"/>'
        f"{shapes}</svg>"
    )


def ridge(seed: int, height: int) -> str:
    """Return the outline of hills or mountains as path data."""
    peaks = [height - (seed * 131 + n * n * 53 + n * 17) % 61 for n in range(7)]
    sharp = "L" if seed % 2 else "T"
    path = "".join(f"{sharp}{n * 43} {peak}" for n, peak in enumerate(peaks))
    return f"M0 {height}{path}V256H0z"


ICONS = [b"\xff\xd8\xff" + bytes([number]) for number in range(len(games()))]


def draw_icons(context: Any, store: catalogd.Store) -> None:
    """Replace the icons by drawings, because a JPEG's noise makes a PNG large."""
    numbers = {game[0]: number for number, game in enumerate(games())}
    rows = store.entries.downloadable()
    ids = {row["id"]: numbers.get(row["name"], 0) for row in rows}

    def answer(route: Any) -> None:
        entry = re.findall(r"/icons/(\w+)", route.request.url)[0]
        route.fulfill(content_type="image/svg+xml", body=art(ids[entry]))

    context.route("**/web/icons/*", answer)


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
    page.set_viewport_size(size)
    devtools = page.context.new_cdp_session(page)
    fonts = {"standard": 32, "fixed": 26} if mode == "large" else {"standard": 16}
    devtools.send("Page.setFontSizes", {"fontSizes": fonts})
    if size == PHONE:  # to turn it off would not bring the mouse back
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page.evaluate("dispatchEvent(new Event('resize'))")


def picture(page: Any, path: str) -> None:
    page.wait_for_timeout(150)  # for images and fonts
    page.screenshot(path=path)


@contextlib.contextmanager
def visiting(
    browser: Any, server: Demo, view: str, scheme: str, size: Mapping[str, int]
) -> Iterator[Any]:
    """Open a view with pictures on its covers."""
    context = browser.new_context(**options(scheme, size))
    sign_in(context, server.address, server.cookie)
    draw_icons(context, server.store)
    page = context.new_page()
    VIEWS[view](page, server.address)
    yield page
    close(context)


def close(context: Any) -> None:
    """Close a context when its routes have answered: they need its connections."""
    for page in context.pages:
        page.unroute_all(behavior="wait")
    context.close()


def all_views(browser: Any, server: Demo, folder: str, views: Sequence[str]) -> None:
    os.makedirs(folder, exist_ok=True)
    for view, size in itertools.product(views, (PHONE, DESK, WIDE)):
        with visiting(browser, server, view, "light", size) as page:
            for mode in MODES:
                show(page, mode, size)
                file = f"{view}-{size['width']}-{mode}.png"
                picture(page, os.path.join(folder, file))


def readme_pictures(browser: Any, server: Demo) -> None:
    folder = ROOT / "packaging"
    size = {"width": 1080, "height": 680}
    with visiting(browser, server, "library", "light", size) as page:
        picture(page, f"{folder}/page.png")
    with visiting(browser, server, "queue", "dark", PHONE) as page:
        picture(page, f"{folder}/page-phone.png")


FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<alias binding="strong">
<family>sans-serif</family><prefer><family>Inter</family></prefer>
</alias>
</fontconfig>
"""


def main() -> None:
    """Take the pictures, with Inter as the system's font where it is installed."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(FONTS)
        file.flush()
        os.environ["FONTCONFIG_FILE"] = file.name
        with chromium() as browser, demo(ICONS) as server:
            if sys.argv[1:]:
                all_views(browser, server, sys.argv[1], sys.argv[2:] or [*VIEWS])
            else:
                readme_pictures(browser, server)


if __name__ == "__main__":
    main()
