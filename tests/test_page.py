"""The page in a real Chromium, over real sockets.

An error of its script, or against its Content-Security-Policy, fails the test.
"""

import base64
import collections
import contextlib
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import screenshots
from conftest import PASSWORD, Clock, Library, skip
from screenshots import DESK, PHONE, VIEWS, Demo, options, see, served

CI = os.environ.get("CI") == "true"
PATIENCE = 20_000  # milliseconds to wait on a busy machine
PICTURES = screenshots.ROOT / "screenshots"
JPEG = base64.b64decode(  # 8 x 8 pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////"
    "////////////////////////////////////////////2wBDAVVaWnhpeOuCguv/////////////"
    "////////////////////////////////////////////////////////////wAARCAAIAAgDASIA"
    "AhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAP/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEB"
    "AQAAAAAAAAAAAAAAAAAAAQP/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCQBTf/"
    "2Q=="
)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if missing := screenshots.missing_for_chromium():
        skip(f"needs the package {missing}")
    with screenshots.chromium() as browser:
        yield browser


Visit = Callable[..., Any]


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """Return a function that opens a page in a browser context of its own, and takes
    Playwright's options for that."""
    problems: list[str] = []
    with contextlib.ExitStack() as stack:

        def open_page(**more: Any) -> Any:
            context = chromium.new_context(**{**options("light", DESK), **more})
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda line: note(line, problems))
            return page

        yield open_page
    assert problems == []


def note(line: Any, problems: list[str]) -> None:
    """Add an error of the console, but not that of a call, which tests let fail."""
    if line.type == "error" and not line.text.startswith("Failed to load resource"):
        problems.append(line.text)


@pytest.fixture
def home(service: catalogd.Web) -> Iterator[str]:
    """The address of the service of conftest.py."""
    with served(service) as address:
        yield address


@pytest.fixture
def anna(visit: Visit, store: catalogd.Store, home: str, key: str) -> Any:
    """A page in the browser of the admin anna, not loaded yet."""
    page = visit(base_url=home)
    sign_in(page, store, home, "anna")
    return page


def sign_in(page: Any, store: catalogd.Store, address: str, name: str) -> None:
    cookie = screenshots.session(store, store.accounts.id_of(name))
    screenshots.sign_in(page.context, address, cookie)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with screenshots.demo() as running:
        yield running


def add(store: catalogd.Store, name: str, **facts: str) -> str:
    """Add a link, and return the id of its entry."""
    metadata = {"name": name, "description": "", "version": "", **facts}
    url = f"http://example.org/{len(name)}"
    return store.entries.add_link(url, 1000, "nsp", metadata, by="anna")


def names(page: Any) -> list[str]:
    """Return the names of the entries in the document."""
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


# End to end


def test_from_the_setup_link_to_a_finished_transfer(
    visit: Visit,
    home: str,
    service: catalogd.Web,
    library: Library,
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real client is started with the command that the page shows. The answer to
    its first report is held back until the progress was seen."""
    library.add("Lantern Keepers.nsp", b"x" * 100_000)
    scanner.scan()
    go_on = hold(service.store, monkeypatch)
    page = visit()
    page.goto(f"{home}#setup={service.setup_code}")
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    button(page, "Create account").click()
    see(page, "Lantern Keepers")
    assert service.setup_code not in page.url
    command = make_key(page)
    page.get_by_role("link", name="Library").click()
    button(page, "Send Lantern Keepers").click()
    button(page, "Queued").click()
    see(page, "Waiting")
    with client(command, tmp_path):
        page.get_by_role("progressbar", name="Lantern Keepers").wait_for()
        until(lambda: re.match(r"\d+ % Lantern Keepers", page.title()))
        go_on.set()
        see(page, "Lantern Keepers was sent.")
    assert (tmp_path / "card" / "Lantern Keepers.nsp").stat().st_size == 100_000
    page.get_by_role("link", name="Library").click()
    page.locator(".mark", has_text="sent").wait_for()


def hold(store: catalogd.Store, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Answer reports only when the returned event is set; they are written at once."""
    go_on = threading.Event()
    write = store.queue.report

    def report(*args: Any, **more: Any) -> str:
        status = write(*args, **more)
        go_on.wait(PATIENCE / 1000)
        return status

    monkeypatch.setattr(store.queue, "report", report)
    return go_on


@contextlib.contextmanager
def client(command: str, folder: pathlib.Path) -> Iterator[None]:
    """Run the client by the command that the page shows, with another target."""
    (folder / "card").mkdir()
    key, program, *arguments, target = shlex.split(command)
    assert (program, target) == ("send-to-switch", "folder:/path/to/sd-card")
    script = screenshots.ROOT / "send_to_switch.py"
    environment = {**os.environ, "HOME": str(folder)}
    environment.update([key.split("=")])
    call = [sys.executable, str(script), *arguments, f"folder:{folder / 'card'}"]
    with subprocess.Popen(call, env=environment) as process:
        try:
            yield
        finally:
            process.kill()


def make_key(page: Any) -> str:
    """Create a key, and return the command that is shown with it."""
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("What is it for?").fill("Laptop")
    button(page, "Create key").click()
    command: str = page.locator("code").nth(1).text_content()
    return command


def test_without_the_setup_link_the_page_asks_for_the_code(
    visit: Visit, home: str, service: catalogd.Web
) -> None:
    page = visit()
    page.goto(home)
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Setup code").fill("a guess")
    button(page, "Create account").click()
    see(page, "The setup code is not the one that was printed.")
    page.get_by_label("Setup code").fill(service.setup_code)
    button(page, "Create account").click()
    see(page, "Nothing here yet")


# Every view, in both schemes and at all widths


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_in_both_schemes_and_fits(
    visit: Visit, demo: Demo, view: str
) -> None:
    page = visit()
    screenshots.sign_in(page.context, demo.address, demo.cookie)
    VIEWS[view](page, demo.address)
    PICTURES.mkdir(exist_ok=True)
    for scheme, size in (("light", DESK), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        page.screenshot(path=PICTURES / f"{view}-{scheme}.png")
        assert violations(page) == []
    for width in (320, 600, 1024):
        page.set_viewport_size({**DESK, "width": width})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Any) -> list[tuple[str, str]]:
    """Return the rules that axe-core finds broken, each with its first element."""
    from axe_playwright_python.sync_playwright import Axe

    rules = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=rules).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in found]


def test_the_scheme_is_that_of_the_system(visit: Visit, home: str) -> None:
    page = visit()
    page.goto(home)
    see(page, "Setup code")
    paint = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paint)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(paint) != light


DIFFERENCE = """async () => {
  const draw = async (address) => {
    const image = new Image(180, 180);
    image.src = address;
    await image.decode();
    const canvas = new OffscreenCanvas(180, 180).getContext("2d");
    canvas.drawImage(image, 0, 0, 180, 180);
    return canvas.getImageData(0, 0, 180, 180).data;
  };
  const [one, other] = [await draw("icon.svg"), await draw("touch-icon.png")];
  let sum = 0;
  const middle = [45 * 180 * 4, 135 * 180 * 4];  // without the round corners
  for (let i = middle[0]; i < middle[1]; i++) sum += Math.abs(one[i] - other[i]);
  return sum / (middle[1] - middle[0]);
}"""


def test_both_icons_look_the_same(visit: Visit, home: str) -> None:
    page = visit()
    page.goto(home)
    assert page.evaluate(DIFFERENCE) < 1  # of 255


def test_reduced_motion_turns_animations_off(visit: Visit, demo: Demo) -> None:
    page = visit(reduced_motion="reduce")
    screenshots.sign_in(page.context, demo.address, demo.cookie)
    screenshots.queue(page, demo.address)
    animations = "document.getAnimations().length"
    assert page.evaluate(animations) == 0
    bar = "getComputedStyle(document.querySelector('.progress div'))"
    assert page.evaluate(f"{bar}.transitionDuration") == "0s"


# Library


def test_the_library_counts_in_words(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    anna.goto("/")
    see(anna, "1 entry")
    add(store, "Hexagon Garden")
    anna.reload()
    see(anna, "2 entries")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PAPER", ["Paper Harbor"]),
        ("cafe etoile", ["Café Étoilé"]),
        ("smørrebrod", ["Smørrebrød"]),
        ("thyme", ["Hexagon Garden"]),
        ("0100ABCD", ["Paper Harbor"]),
        ("  harbor   paper ", ["Paper Harbor"]),
    ],
)
def test_the_search_finds(
    anna: Any, store: catalogd.Store, text: str, found: list[str]
) -> None:
    add(store, "Paper Harbor", title_id="0100ABCD00000000")
    add(store, "Café Étoilé")
    add(store, "Smørrebrød")
    add(store, "Hexagon Garden", description="It smells of thyme.")
    anna.goto("")
    see(anna, "Paper Harbor")
    anna.get_by_label("Search the library").fill(text)
    see(anna, "1 of 4")
    assert names(anna) == found


@pytest.mark.parametrize(
    ("order", "expected"),
    [("Name", ["Élan", "Fjord", "Zeal"]), ("Newest", ["Fjord", "Élan", "Zeal"])],
)
def test_the_library_is_sorted_by(
    anna: Any, store: catalogd.Store, clock: Clock, order: str, expected: list[str]
) -> None:
    for name in ("Zeal", "Élan", "Fjord"):
        clock.now += 60
        add(store, name)
    anna.goto("")
    see(anna, "Fjord")
    anna.get_by_label("Sort by").select_option(order)
    until(lambda: names(anna) == expected)


def test_the_largest_come_first_and_the_choice_is_remembered(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for size, name in ((5, "A.nsp"), (900, "B.nsp"), (70, "C.nsp")):
        library.add(name, b"x" * size)
    scanner.scan()
    anna.goto("")
    see(anna, "A")
    anna.get_by_label("Sort by").select_option("Largest")
    until(lambda: names(anna) == ["B", "C", "A"])
    anna.reload()
    until(lambda: names(anna) == ["B", "C", "A"])


def test_the_library_is_filtered_by_file_type(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Card.xci")
    library.add("Program.nro")
    scanner.scan()
    add(store, "Far away")
    anna.goto("")
    button(anna, "XCI").click()
    until(lambda: names(anna) == ["Card"])
    button(anna, "Links").click()
    until(lambda: names(anna) == ["Far away"])
    button(anna, "All").click()
    until(lambda: len(names(anna)) == 3)


def test_an_entry_is_marked(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Away.nsp")
    scanner.scan()
    library.folder.rename(library.folder.with_name("unplugged"))
    scanner.scan()
    add(store, "Far away", complete=False)  # type: ignore[arg-type]
    anna.goto("")
    see(anna, "Far away")
    marks = anna.locator(".mark").all_text_contents()
    assert marks == ["offline", "link", "incomplete"]


def test_a_click_on_send_is_answered_at_once(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    calls: list[Any] = []
    anna.route("**/send-to-switch", lambda route: calls.append(route))
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    button(anna, "Queued").wait_for()
    calls[0].continue_()
    until(lambda: bool(store.queue.items(1)))


def test_a_rejected_send_is_undone(anna: Any, store: catalogd.Store) -> None:
    entry = add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Send Paper Harbor").wait_for()
    store.entries.remove_link(entry)
    button(anna, "Send Paper Harbor").click()
    see(anna, "Paper Harbor was not queued. There is no such entry.")
    assert button(anna, "Queued").count() == 0


def test_a_selection_is_sent(anna: Any, store: catalogd.Store) -> None:
    for number in range(5):
        add(store, f"Game {number}")
    anna.goto("")
    button(anna, "Select").click()
    anna.get_by_label("Select Game 1").check()
    anna.get_by_label("Select Game 3").check()
    button(anna, "Send 2").click()
    see(anna, "2 added to the queue.")
    assert [item["name"] for item in store.queue.items(1)] == ["Game 1", "Game 3"]


def test_select_all_selects_the_found_entries(anna: Any, store: catalogd.Store) -> None:
    for number in range(12):
        add(store, f"Game {number}")
    anna.goto("")
    see(anna, "Game 1")
    anna.get_by_label("Search the library").fill("game 1")
    button(anna, "Select").click()
    button(anna, "Select all 3").click()
    button(anna, "Send 3").click()
    until(lambda: len(store.queue.items(1)) == 3)


def test_a_selection_names_the_entries_that_were_not_queued(
    anna: Any, store: catalogd.Store
) -> None:
    entries = [add(store, f"Game {number}") for number in range(2)]
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 2").click()
    store.entries.remove_link(entries[0])
    button(anna, "Send 2").click()
    see(anna, "1 added to the queue, 1 not: There is no such entry.")


def test_the_details_lead_to_the_download(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Paper Harbor [0100ABCD00000000][v65536].nsp", b"whole file")
    scanner.scan()
    anna.goto("")
    anna.get_by_role("link", name="Paper Harbor").click()
    dialog = anna.get_by_role("dialog", name="Paper Harbor")
    assert "0100ABCD00000000" in dialog.inner_text()
    with anna.expect_download() as download:
        dialog.get_by_role("link", name="Download").click()
    assert pathlib.Path(download.value.path()).read_bytes() == b"whole file"


def test_an_icon_is_that_of_the_file(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("game.nro", screenshots.nro("Paper Harbor", "3.1.4", JPEG))
    scanner.scan()
    anna.goto("")
    see(anna, "v3.1.4")
    size = "document.querySelector('img.cover').naturalWidth"
    until(lambda: anna.evaluate(size) == 8)


def test_an_admin_edits_an_entry_and_undoes_it(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Papper Harbor.nsp")
    scanner.scan()
    anna.goto("")
    anna.get_by_role("link", name="Papper Harbor").click()
    button(anna, "Edit").click()
    anna.get_by_label("Name").fill("Paper Harbor")
    anna.get_by_label("Description").fill("Mind the rain.")
    button(anna, "Save").click()
    anna.get_by_role("dialog", name="Paper Harbor").wait_for()
    see(anna.get_by_role("dialog"), "Mind the rain.")
    button(anna, "Edit").click()
    assert anna.get_by_label("Description").input_value() == "Mind the rain."
    anna.get_by_label("Version").fill("2.0")
    button(anna, "Save").click()
    see(anna.get_by_role("dialog"), "v2.0")
    see(anna.get_by_role("dialog"), "Mind the rain.")
    button(anna, "Edit").click()
    button(anna, "Undo all edits").click()
    anna.get_by_role("dialog", name="Papper Harbor").wait_for()


def test_a_member_cannot_edit(
    visit: Visit, store: catalogd.Store, home: str, key: str
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    entry = add(store, "Paper Harbor")
    page = visit()
    sign_in(page, store, home, "ben")
    page.goto(f"{home}#entry/{entry}")
    page.get_by_role("dialog").get_by_role("link", name="Open the link").wait_for()
    assert button(page, "Edit").count() == 0


def test_a_link_is_added_and_removed(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings")
    form = anna.get_by_role("region", name="Add a link")
    form.get_by_label("Name").fill("Yonder Isles")
    form.get_by_label("Address").fill("http://example.org/yonder.nro")
    form.get_by_label("Size in bytes").fill("64000000")
    form.get_by_role("button", name="Add").click()
    see(anna, "Yonder Isles was added.")
    anna.get_by_role("link", name="Library").click()
    see(anna, "NRO · 64 MB")
    anna.get_by_role("link", name="Yonder Isles").click()
    button(anna, "Edit").click()
    button(anna, "Remove the link").click()
    button(anna, "Remove").last.click()
    see(anna, "Nothing here yet")


def test_a_scan_is_started_and_shown(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Paper Harbor.nsp")
    anna.goto("#settings")
    see(anna, "Not scanned yet.")
    scanner.start()
    try:
        see(anna, "1 file")
        see(anna, "Last scan")
        library.add("Night Ferry.nsp")
        button(anna, "Scan now").click()
        see(anna, "2 files")
    finally:
        scanner.stop()


def test_a_new_file_shows_up_by_itself(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.goto("")
    see(anna, "Nothing here yet")
    library.add("Paper Harbor.nsp")
    scanner.scan()
    see(anna, "Paper Harbor")


NO_POLLS_OF_ENTRIES = """
setTimeout = new Proxy(setTimeout, {
  apply: (set, self, [work, pause, job]) => job !== "entries" && set(work, pause, job),
});
"""


def test_a_library_that_does_not_load_can_be_tried_again(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.add_init_script(NO_POLLS_OF_ENTRIES)
    VIEWS["broken"](anna, "")
    anna.unroute("**/web/entries")
    button(anna, "Try again").click()
    see(anna, "Paper Harbor")


def test_hostile_names_are_shown_as_text(
    anna: Any, store: catalogd.Store, key: str
) -> None:
    entry = add(store, HOSTILE, description=HOSTILE, version=HOSTILE)
    store.queue.send(1, entry)
    report = {"status": "failed", "error_message": HOSTILE}
    store.queue.report(1, store.queue.items(1)[0]["id"], report)
    store.accounts.add_key(1, HOSTILE, catalogd.hash_token("x"))
    store.accounts.add(HOSTILE, "none")
    counts = {"library": 2, f"entry/{entry}": 3, "queue": 2, "settings": 2}
    for view, count in counts.items():
        anna.goto(f"#{view}")
        until(lambda count=count: anna.get_by_text(HOSTILE).count() >= count)
    anna.goto("#library")
    assert anna.locator("img[src=x]").count() == 0
    assert anna.locator("script").count() == 1


# Speed

WATCH = """
new MutationObserver((records, watcher) => {
  if (!document.querySelector(".entry")) return;
  watcher.disconnect();
  const note = () => { window.drawnAt = performance.now(); };
  requestAnimationFrame(() => setTimeout(note));
}).observe(document, {childList: true, subtree: true});
"""
TYPE = """async word => {
  const input = document.getElementById("search");
  const took = [];
  for (let n = 1; n <= word.length; n++) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    input.value = word.slice(0, n);
    input.dispatchEvent(new Event("input"));
    await Promise.resolve();
    await Promise.resolve();
    document.body.offsetHeight;
    took.push(performance.now() - began);
  }
  return took;
}"""


def ten_thousand(store: catalogd.Store) -> None:
    names = [
        f"{word} {number}"
        for number in range(2000)
        for word in ("Harbor", "Café", "Quarry", "Apiary", "Courier")
    ]
    facts = {"description": "A long way to the lighthouse and back. " * 4}
    contents = [
        catalogd.FileContent("", {"name": name, "version": "1.0", **facts})
        for name in names
    ]
    files = [
        catalogd.FoundFile(f"/games/{n}.nsp", "/games", n * 1000, n, n, "1")
        for n in range(len(contents))
    ]
    store.entries.add_files(list(zip(files, contents, strict=True)), listed=True)


def test_ten_thousand_entries_are_drawn_and_searched_fast(
    anna: Any, store: catalogd.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    ten_thousand(store)
    anna.add_init_script(WATCH)
    paints, fulls = [], []
    for _ in range(3):
        anna.goto("about:blank")
        anna.goto("")
        until(lambda: anna.evaluate("window.drawnAt"))
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        paints.append(anna.evaluate(paint))
        fulls.append(anna.evaluate("window.drawnAt"))
    assert anna.locator(".entry").count() < 100
    strokes = anna.evaluate(TYPE, "cafe 19") + anna.evaluate(TYPE, "lighthouse")
    with capsys.disabled():
        print(
            f"\n10,000 entries: first paint {min(paints):.0f} ms, first entries"
            f" {min(fulls):.0f} ms, a keystroke {statistics.median(strokes):.1f} ms"
            f" (median), {max(strokes):.1f} ms (slowest)"
        )
    assert min(paints) < 1000
    assert min(fulls) < 2000
    assert statistics.median(strokes) < 50


def test_the_last_of_ten_thousand_is_reached_by_scrolling(
    anna: Any, store: catalogd.Store
) -> None:
    ten_thousand(store)
    anna.goto("")
    see(anna, "Apiary 0")
    anna.evaluate("scrollTo(0, document.body.scrollHeight)")
    see(anna, "Quarry 1999")


# Queue


def sending(store: catalogd.Store, name: str = "Paper Harbor") -> str:
    """Return the id of a queue item that a client is sending."""
    store.queue.send(1, add(store, name))
    (item,) = [row["id"] for row in store.queue.items(1) if row["name"] == name]
    report(store, item, 40)
    return str(item)


def report(store: catalogd.Store, item: str, percent: float, **more: Any) -> None:
    values = {"progress_percent": percent, "bytes_transferred": int(10 * percent)}
    store.queue.report(1, item, {**values, "transfer_speed": 100, **more})


def test_progress_is_shown_within_two_seconds(anna: Any, store: catalogd.Store) -> None:
    item = sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    see(anna, "6 s left · 100 B/s · 400 B of 1 kB")
    waits = []
    for percent in (50, 60, 70):
        began = time.monotonic()
        report(store, item, percent)
        see(anna, f"{percent} %")
        waits.append(time.monotonic() - began)
    assert statistics.median(waits) < 2


def test_each_quarter_is_announced_to_screen_readers(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    report(store, item, 51)
    until(lambda: "Paper Harbor: 51 %" in anna.get_by_role("status").all_inner_texts())


def test_a_failed_item_shows_its_reason_and_is_retried(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    report(store, item, 40, status="failed", error_message="The cable came off.")
    anna.goto("#queue")
    see(anna, "The cable came off.")
    button(anna, "Retry Paper Harbor").click()
    see(anna, "Waiting")
    assert [row["status"] for row in store.queue.items(1)] == ["pending"]


def test_an_item_is_cancelled(anna: Any, store: catalogd.Store) -> None:
    sending(store)
    anna.goto("#queue")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "Cancelled")
    assert [row["status"] for row in store.queue.items(1)] == ["cancelled"]


def test_an_item_is_moved_to_the_top(anna: Any, store: catalogd.Store) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Move Third to the top").click()
    until(lambda: anna.locator(".item h3").all_text_contents()[0] == "Third")
    assert [row["name"] for row in store.queue.pending(1)] == [
        "Third",
        "First",
        "Second",
    ]


def test_finished_items_are_cleared(anna: Any, store: catalogd.Store) -> None:
    report(store, sending(store), 100, status="completed")
    anna.goto("#queue")
    button(anna, "Clear finished").click()
    see(anna, "The queue is empty")
    anna.get_by_role("link", name="Go to the library").click()
    anna.locator(".mark", has_text="sent").wait_for()


def test_a_missing_client_is_shown_with_the_command_to_start_it(
    anna: Any, clock: Clock
) -> None:
    anna.goto("#queue")
    see(anna, "The queue is empty")
    assert anna.get_by_text("No device has fetched").count() == 0
    clock.now += 60
    see(anna, "No device has fetched your queue yet.")
    see(anna, "send-to-switch --server")


def test_the_title_shows_the_progress(anna: Any, store: catalogd.Store) -> None:
    item = sending(store)
    anna.goto("")
    until(lambda: anna.title() == "40 % Paper Harbor - catalogd")
    report(store, item, 100, status="completed")
    until(lambda: anna.title() == "catalogd")


NOTIFICATIONS = """
window.notices = [];
window.Notification = class {
  static async requestPermission() { return "granted"; }
  constructor(title, {body}) { notices.push(`${title}: ${body}`); }
};
"""


@pytest.mark.parametrize(
    ("status", "notice"),
    [
        ("completed", "Sent: Paper Harbor was sent."),
        ("failed", "Failed: Paper Harbor failed. The cable came off."),
    ],
)
def test_a_notification_shows_how_an_item_finished(
    anna: Any, store: catalogd.Store, status: str, notice: str
) -> None:
    item = sending(store)
    anna.add_init_script(NOTIFICATIONS)
    anna.goto("#queue")
    button(anna, "Notify me").click()
    button(anna, "Notifications on").wait_for()
    report(store, item, 90, status=status, error_message="The cable came off.")
    until(lambda: notice in anna.evaluate("notices"))


def test_blocked_notifications_are_explained(anna: Any, store: catalogd.Store) -> None:
    anna.add_init_script(NOTIFICATIONS.replace("granted", "denied"))
    anna.goto("#queue")
    button(anna, "Notify me").click()
    see(anna, "The browser blocks notifications from this page.")
    button(anna, "Notify me").wait_for()


# An unreachable server


def test_a_restart_of_the_server_during_a_transfer_is_survived(
    visit: Visit,
    store: catalogd.Store,
    settings: catalogd.Settings,
    scanner: catalogd.Scanner,
    key: str,
) -> None:
    item = sending(store)
    page = visit()
    with served(catalogd.Web(store, settings, scanner)) as address:
        sign_in(page, store, address, "anna")
        page.goto(f"{address}#queue")
        see(page, "40 %")
    see(page, "Reconnecting to the server")
    see(page, "40 %")
    report(store, item, 60)
    port = int(address.rstrip("/").rpartition(":")[2])
    again = catalogd.dataclasses.replace(settings, port=port)
    with served(catalogd.Web(store, again, scanner)):
        see(page, "60 %")
        page.get_by_text("Reconnecting").wait_for(state="detached")
        assert page.locator(".toast").count() == 0


def test_a_lost_network_is_shown_once(anna: Any, store: catalogd.Store) -> None:
    sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    anna.context.set_offline(True)
    see(anna, "Reconnecting to the server")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "The server cannot be reached.")
    button(anna, "Cancel Paper Harbor").click()
    assert anna.locator(".toast").count() == 1
    anna.context.set_offline(False)
    anna.get_by_text("Reconnecting").wait_for(state="detached")


def test_an_error_page_of_a_proxy_is_an_unreachable_server(
    anna: Any, store: catalogd.Store
) -> None:
    sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    page = {"status": 502, "content_type": "text/html", "body": "<h1>Bad Gateway</h1>"}
    anna.route("**/web/**", lambda route: route.fulfill(**page))
    see(anna, "Reconnecting to the server")
    anna.unroute("**/web/**")
    anna.get_by_text("Reconnecting").wait_for(state="detached")


def test_polls_of_an_unchanged_queue_are_304(anna: Any, store: catalogd.Store) -> None:
    sending(store)
    statuses: dict[str, list[int]] = collections.defaultdict(list)
    anna.on(
        "response",
        lambda answer: statuses[answer.url.rpartition("/")[2]].append(answer.status),
    )
    anna.goto("#queue")
    until(lambda: anna.wait_for_timeout(50) or len(statuses["queue"]) >= 4)
    assert statuses["queue"] == [200] + [304] * (len(statuses["queue"]) - 1)
    assert statuses["entries"].count(200) == 1


PAUSES = """
window.pauses = [];
setTimeout = new Proxy(setTimeout, {
  apply(set, self, [work, pause, ...more]) {
    if (more[0] === "queue") pauses.push(pause);
    return set(work, pause, ...more);
  },
});
"""
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_polls_less_often_until_it_is_visible(anna: Any) -> None:
    anna.add_init_script(PAUSES)
    anna.goto("#queue")
    until(lambda: len(anna.evaluate("pauses")) > 1)
    seen = anna.evaluate("pauses").pop()
    anna.evaluate(HIDE, True)
    until(lambda: anna.evaluate("pauses").pop() >= 5 * seen)
    with anna.expect_response("**/web/queue", timeout=5000):
        anna.evaluate(HIDE, False)


# Signing out


def test_signing_out_leads_to_the_sign_in_view(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("#settings")
    button(anna, "Sign out").click()
    button(anna, "Sign in").wait_for()
    anna.reload()
    button(anna, "Sign in").wait_for()
    assert anna.get_by_text("Paper Harbor").count() == 0


def test_signing_out_forgets_what_the_account_had(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings")
    make_key(anna)
    button(anna, "Sign out").click()
    button(anna, "Sign in").wait_for()
    anna.get_by_label("Name").fill("ben")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "There is no key yet.")
    assert anna.locator("code").count() == 0


def test_an_ended_session_leads_to_the_sign_in_view_and_back(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    for row in store.accounts.sessions(1):
        store.accounts.end_session(row["id"], 1)
    see(anna, "You were signed out. Sign in again.")
    anna.get_by_label("Name").fill("anna")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "Paper Harbor")


def test_a_removed_account_leads_to_the_sign_in_view(
    visit: Visit, store: catalogd.Store, home: str, key: str
) -> None:
    ben = store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    page = visit()
    sign_in(page, store, home, "ben")
    page.goto(f"{home}#queue")
    see(page, "The queue is empty")
    store.accounts.remove(ben)
    button(page, "Sign in").wait_for()


def test_a_wrong_password_is_explained_in_the_form(
    visit: Visit, home: str, key: str
) -> None:
    page = visit()
    page.goto(home)
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill("a guess")
    button(page, "Sign in").click()
    assert (
        page.get_by_role("alert").text_content() == "The name or the password is wrong."
    )


# Settings


def test_a_key_is_copied_and_shown_only_once(anna: Any, store: catalogd.Store) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    anna.goto("#settings")
    make_key(anna)
    key = anna.locator("code").first.text_content()
    assert store.accounts.key_holder(catalogd.hash_token(key)) is not None
    button(anna, "Copy the key").click()
    see(anna, "Copied.")
    assert anna.evaluate("navigator.clipboard.readText()") == key
    button(anna, "Done").click()
    anna.get_by_text(key).wait_for(state="detached")


def test_a_page_without_https_copies_too(anna: Any) -> None:
    anna.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "addEventListener('copy', event => {"
        " window.copied = event.target.value.slice(0, 9); });"
    )
    anna.goto("#settings")
    make_key(anna)
    button(anna, "Copy the key").click()
    until(lambda: anna.evaluate("window.copied") == "catalogd_")


def test_a_console_address_is_created_replaced_and_revoked(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings")
    see(anna, "Programs on the console")
    button(anna, "Create address").click()
    see(anna, "/dir/")
    first = anna.locator("code").text_content()
    assert anna.request.get(first).status == 200
    button(anna, "Replace it").click()
    until(lambda: anna.locator("code").text_content() != first)
    assert anna.request.get(first).status == 401
    button(anna, "Revoke the address").click()
    button(anna, "Create address").wait_for()
    assert store.queue.browse_token(store.accounts.id_of("anna")) is None


def test_no_console_address_is_offered_before_the_old_one_is_known(anna: Any) -> None:
    calls: list[Any] = []
    anna.route("**/web/dir", lambda route: calls.append(route))
    anna.goto("#settings")
    see(anna, "No library folder was scanned.")
    assert button(anna, "Create address").count() == 0
    calls[0].continue_()
    button(anna, "Create address").wait_for()


def test_a_key_is_revoked_after_a_question(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings")
    button(anna, "Revoke switch").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="detached")
    assert len(store.accounts.keys()) == 1
    button(anna, "Revoke switch").click()
    dialog.get_by_role("button", name="Revoke").click()
    see(anna, "There is no key yet.")
    assert store.accounts.keys() == []


def test_the_password_is_changed(anna: Any, store: catalogd.Store, home: str) -> None:
    anna.goto("#settings")
    anna.get_by_label("Current password").fill("a guess")
    anna.get_by_label("New password").fill("another one")
    button(anna, "Change password").click()
    see(anna, "The name or the password is wrong.")
    anna.get_by_label("Current password").fill(PASSWORD)
    button(anna, "Change password").click()
    see(anna, "Changed the password.")
    found = store.accounts.credentials("anna")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])


def test_another_browser_is_signed_out(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add_session(1, catalogd.hash_token("x"), "Chrome/99 Android")
    anna.goto("#settings")
    button(anna, "End the session of Chrome on Android").click()
    button(anna, "End the session of Chrome on Android").wait_for(state="detached")
    assert len(store.accounts.sessions(1)) == 1


def test_an_account_is_added_made_admin_and_removed(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings")
    form = anna.get_by_role("region", name="Accounts")
    form.get_by_label("Name").fill("ben")
    form.get_by_label("Password").fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    button(anna, "Make admin: ben").click()
    button(anna, "Make member: ben").wait_for()
    assert [row["admin"] for row in store.accounts.all()] == [True, True]
    button(anna, "Remove ben").click()
    anna.get_by_role("dialog").get_by_role("button", name="Remove").click()
    until(lambda: len(store.accounts.all()) == 1)


def test_an_account_gets_a_new_password(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings")
    button(anna, "Set the password of ben").click()
    anna.get_by_label("New password of ben").fill("another one")
    button(anna, "Save").click()
    see(anna, "Changed the password of ben; all sessions ended.")
    found = store.accounts.credentials("ben")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])


def test_a_member_has_no_settings_of_the_server(
    visit: Visit, store: catalogd.Store, home: str, key: str
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    page = visit()
    sign_in(page, store, home, "ben")
    page.goto(f"{home}#settings")
    see(page, "There is no key yet.")
    assert page.get_by_role("heading", name="Accounts").count() == 0
    assert page.get_by_role("heading", name="Add a link").count() == 0


# Keyboard, phone and proxy


def test_the_keyboard_alone_opens_closes_and_sends(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    press_until(anna, "Tab", "Paper Harbor")
    anna.keyboard.press("Enter")
    anna.get_by_role("dialog").wait_for()
    anna.keyboard.press("Escape")
    anna.get_by_role("dialog").wait_for(state="detached")
    assert focused(anna) == "Paper Harbor"
    anna.keyboard.press("Tab")
    anna.keyboard.press("Enter")
    until(lambda: bool(store.queue.items(1)))
    until(lambda: focused(anna).startswith("Queued"))


def test_the_focus_stays_when_an_item_above_it_goes(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Cancel Second").focus()
    store.queue.cancel(1, store.queue.items(1)[0]["id"])
    see(anna, "Cancelled")
    assert focused(anna) == "Cancel Second"


def test_the_first_tab_stop_skips_to_the_content(anna: Any) -> None:
    anna.goto("#queue")
    see(anna, "The queue is empty")
    anna.keyboard.press("Tab")
    assert focused(anna) == "Skip to the content"
    anna.keyboard.press("Enter")
    assert anna.evaluate("document.activeElement.id") == "main"


def focused(page: Any) -> str:
    name: str = page.evaluate(
        "document.activeElement.getAttribute('aria-label')"
        " || document.activeElement.textContent"
    )
    return name


def press_until(page: Any, key: str, name: str) -> None:
    for _ in range(40):
        page.keyboard.press(key)
        if focused(page) == name:
            return
    pytest.fail(f"{key} does not lead to {name}")


def test_on_a_phone_the_menu_is_at_the_bottom(visit: Visit, demo: Demo) -> None:
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True)
    screenshots.sign_in(page.context, demo.address, demo.cookie)
    screenshots.library(page, demo.address)
    box = page.get_by_role("navigation").bounding_box()
    assert box["y"] + box["height"] == PHONE["height"]
    page.get_by_role("link", name="Queue").tap()
    see(page, "Sending now")


def test_the_page_works_below_another_path(
    visit: Visit,
    store: catalogd.Store,
    settings: catalogd.Settings,
    scanner: catalogd.Scanner,
    key: str,
) -> None:
    entry = add(store, "Paper Harbor")
    service = catalogd.Web(store, settings, scanner)
    inner = service.app

    def proxy(environ: dict[str, Any], start: Any) -> Any:
        assert environ["PATH_INFO"].startswith("/games/"), environ["PATH_INFO"]
        return inner({**environ, "PATH_INFO": environ["PATH_INFO"][6:]}, start)

    service.app = proxy
    page = visit()
    with served(service) as address:
        sign_in(page, store, address, "anna")
        page.goto(f"{address}games/#entry/{entry}")
        page.get_by_role("dialog", name="Paper Harbor").wait_for()
        button(page.get_by_role("dialog"), "Send").click()
        until(lambda: bool(store.queue.items(1)))
        page.goto(f"{address}games/#settings")
        assert f"--server {address}games --to" in make_key(page)


# Script and style as text


@pytest.mark.parametrize(
    ("name", "use"), [("WORDS", r"WORDS\.{}\b"), ("GLYPHS", '"{}"')]
)
def test_every_row_of_a_table_is_used(name: str, use: str) -> None:
    table = re.search(rf"^const {name} = {{\n(.*?)^}};", catalogd.JS, re.M | re.S)
    assert table is not None
    keys = re.findall(r"^  (\w+):", table[1], re.M)
    assert [key for key in keys if not re.search(use.format(key), catalogd.JS)] == []


def test_every_class_of_the_style_is_used() -> None:
    styled = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", catalogd.CSS))
    words = set(re.findall(r"[a-z][\w-]*", catalogd.JS))
    assert styled - words == set()
