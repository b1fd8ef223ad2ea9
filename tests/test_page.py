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
import household
import screenshots
from conftest import PASSWORD, Clock, Library, skip
from screenshots import DESK, PHONE, VIEWS, Demo, options, see, served

CI = os.environ.get("CI") == "true"
PATIENCE = 20_000  # milliseconds to wait on a busy machine
CI_FACTOR = 10 if CI else 1  # by which its machines are slower
PICTURES = screenshots.ROOT / "screenshots"
JPEG = base64.b64decode(  # 8 x 8 pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////"
    "////////////////////////////////////////////2wBDAVVaWnhpeOuCguv/////////////"
    "////////////////////////////////////////////////////////////wAARCAAIAAgDASIA"
    "AhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAP/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEB"
    "AQAAAAAAAAAAAAAAAAAAAQP/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCQBTf/"
    "2Q=="
)
BASE, OTHER_BASE = "0100ABCD00010000", "0100ABCD00030000"
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
            stack.callback(screenshots.close, context)
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
def house() -> Iterator[Demo]:
    """A server with the library of a household."""
    with screenshots.running(household.write) as running:
        yield running


@pytest.fixture
def kim(visit: Visit, house: Demo) -> Iterator[Any]:
    """A page of that library, in the browser of an account without a queue."""
    account = house.store.accounts.add("kim2", catalogd.hash_password(PASSWORD))
    page = visit(base_url=house.address)
    sign_in(page, house.store, house.address, "kim2")
    page.goto("")
    see(page, "12 Minutes to Midnight")
    yield page
    house.store.accounts.remove(account)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with screenshots.demo() as running:
        yield running


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
    """The real client is fetched, paired and started by the lines that were copied, in
    at most 8 taps. The answer to its first report is held back until the progress was
    seen."""
    library.add("Lantern Keepers.nsp", b"x" * 100_000)
    scanner.scan()
    go_on = hold(service.store, monkeypatch)
    (tmp_path / "card").mkdir()
    page, taps = visit(permissions=["clipboard-read", "clipboard-write"]), Taps()
    page.goto(f"{home}#setup={service.store.accounts.setup_code()}")
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    for name in ("Create account", "Send Lantern Keepers", "Add one"):
        taps.on(button(page, name))
    folder = page.get_by_label("Where is it on that computer?")
    taps.on(folder)
    folder.fill(str(tmp_path / "card"))
    lines = [copied(page, taps, f"Copy: {name}") for name in LINES]
    with computer(tmp_path / "computer", lines):
        see(page, "Send puts your games on Living room now.")
        taps.on(button(page, "Done"))
        page.get_by_role("link", name="Queue").click()
        page.get_by_role("progressbar", name="Lantern Keepers").wait_for()
        until(lambda: re.match(r"\d+ % Lantern Keepers", page.title()))
        go_on.set()
        see(page, "Lantern Keepers was sent.")
    assert (tmp_path / "card" / "Lantern Keepers.nsp").stat().st_size == 100_000
    assert taps.count <= 8
    page.get_by_role("link", name="Library").click()
    page.locator(".mark", has_text="sent").wait_for()


LINES = ("Get the program", "Connect it", "Start it")


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


def make_key(page: Any) -> None:
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("What is it for?").fill("Laptop")
    button(page, "Create key").click()
    see(page, "It is shown only now.")


def test_the_setup_code_is_taken_with_its_hyphen(
    visit: Visit, home: str, service: catalogd.Web
) -> None:
    code = service.store.accounts.setup_code()
    page = visit()
    page.goto(home)
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Setup code").fill(f"{code[:3]}-{code[3:]}")
    button(page, "Create account").click()
    see(page, "Nothing here yet")


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
    page.get_by_label("Setup code").fill(service.store.accounts.setup_code())
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
    see(anna, "1 title")
    add(store, "Hexagon Garden")
    anna.reload()
    see(anna, "2 titles")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PAPER", ["Paper Harbor"]),
        ("cafe etoile", ["Café Étoilé"]),
        ("smørrebrod", ["Smørrebrød"]),
        ("sofa systems", ["Moss & Copper"]),
        ("0100abcd", ["Paper Harbor"]),
        ("  harbor   paper ", ["Paper Harbor"]),
        ("moss and copper", ["Moss & Copper"]),
        ("Moss&Copper", ["Moss & Copper"]),
        ("grandmas garage!", ["Grandma's Garage"]),
        ("season pass", ["Paper Harbor"]),
        ("dlc", ["Paper Harbor"]),
        ("update", ["Café Étoilé"]),
        ("xci", ["Grandma's Garage"]),
    ],
)
def test_the_search_finds(
    anna: Any, store: catalogd.Store, text: str, found: list[str]
) -> None:
    add(store, "Paper Harbor", kind="base", base_id=BASE, title_id="0100ABCD00010000")
    add(store, "Paper Harbor - Season Pass", kind="add-on", base_id=BASE)
    add(store, "Café Étoilé", kind="base", base_id=OTHER_BASE)
    add(store, "Café Étoilé - Version 2", kind="update", base_id=OTHER_BASE)
    add(store, "Smørrebrød")
    add(store, "Moss & Copper", author="Sofa Systems")
    add(store, "Grandma's Garage", file_type="xci")
    anna.goto("")
    see(anna, "Paper Harbor")
    anna.get_by_label("Search the library").fill(text)
    see(anna, "1 of 5")
    assert names(anna) == found


def test_names_that_begin_with_the_search_come_first(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("A Garden", "Garden of Glass", "Hexagon Garden", "Star Garden"):
        add(store, name)
    anna.goto("")
    see(anna, "A Garden")
    anna.get_by_label("Search the library").fill("garden")
    until(lambda: names(anna)[:2] == ["Garden of Glass", "A Garden"])


def test_a_slash_leads_to_the_search(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    anna.keyboard.press("/")
    assert focused(anna) == "Search the library"
    anna.keyboard.type("a/b")
    assert anna.get_by_label("Search the library").input_value() == "a/b"


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
    button(anna, "More filters").click()
    button(anna, "XCI").click()
    until(lambda: names(anna) == ["Card"])
    button(anna, "XCI").click()
    until(lambda: len(names(anna)) == 3)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("Games 1", ["Card"]),
        ("Homebrew 1", ["Program"]),
        ("Links 1", ["Far away"]),
        ("Not sent yet 2", ["Far away", "Program"]),
        ("New 3", ["Card", "Far away", "Program"]),
        ("All 3", ["Card", "Far away", "Program"]),
    ],
)
def test_the_library_is_filtered_by(
    anna: Any,
    store: catalogd.Store,
    library: Library,
    scanner: catalogd.Scanner,
    label: str,
    shown: list[str],
) -> None:
    library.add("Card.xci")
    library.add("Program.nro")
    scanner.scan()
    add(store, "Far away")
    deliver(store, "Card")
    set_clock(anna)
    anna.goto("")
    button(anna, label).click()
    until(lambda: names(anna) == shown)


def set_clock(page: Any) -> None:
    """Set the page's clock to that of the store."""
    page.clock.set_fixed_time(Clock().now * 1000)


def deliver(store: catalogd.Store, name: str) -> None:
    """Send the entry of a name to anna's device."""
    ids = {row["name"]: row["id"] for row in store.entries.downloadable()}
    store.queue.send(1, ids[name])
    (item,) = [row["id"] for row in store.queue.items(1) if row["name"] == name]
    report(store, item, 100, status="completed")


def test_an_update_that_was_not_sent_is_found_by_the_filter(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Far Away [0100ABCD00030000][v0].nsp")
    library.add("Paper Harbor [0100ABCD00010000][v0].nsp")
    scanner.scan()
    deliver(store, "Far Away")
    deliver(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Updates 0").click()
    see(anna, "Nothing found")
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    scanner.scan()
    until(lambda: names(anna) == ["Paper Harbor"])
    assert anna.locator(".mark").all_text_contents() == ["update"]
    button(anna, "Send Paper Harbor").click()
    until(lambda: queued(store) == ["Paper Harbor - Update 1"])


def queued(store: catalogd.Store) -> list[str]:
    """Return the names of what waits in anna's queue."""
    return [row["name"] for row in store.queue.pending(1)]


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


def test_a_title_whose_game_is_offline_is_marked(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Paper Harbor [0100ABCD00010000][v0].nsp")
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    scanner.scan()
    game = [file for file in store.entries.files() if "[v0]" in file.file.path]
    store.entries.apply(catalogd.Changes(offline=game))
    anna.goto("")
    see(anna, "Paper Harbor")
    assert anna.locator(".mark").all_text_contents() == ["partly offline"]


def test_a_click_on_send_is_answered_at_once(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    calls: list[Any] = []
    anna.route("**/web/send", lambda route: calls.append(route))
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
    see(anna, "2 selected, 2 kB")
    button(anna, "Send 2").click()
    see(anna, "2 files added to the queue.")
    assert queued(store) == ["Game 1", "Game 3"]


def test_select_all_adds_the_shown_titles(anna: Any, store: catalogd.Store) -> None:
    for number in range(12):
        add(store, f"Game {number}")
    anna.goto("")
    see(anna, "Game 1")
    button(anna, "Select").click()
    anna.get_by_label("Select Game 7").check()
    anna.get_by_label("Search the library").fill("game 1")
    button(anna, "Select all 3 shown").click()
    button(anna, "Send 4").click()
    until(lambda: len(queued(store)) == 4)


def test_shift_selects_a_range(anna: Any, store: catalogd.Store) -> None:
    for number in range(9):
        add(store, f"Game {number}")
    anna.goto("")
    button(anna, "Select").click()
    anna.get_by_label("Select Game 6").check()
    anna.get_by_label("Select Game 3").click(modifiers=["Shift"])
    see(anna, "4 selected")
    anna.get_by_label("Select Game 5").click(modifiers=["Shift"])
    see(anna, "1 selected")


def test_the_selection_survives_a_look_at_the_queue(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Select").click()
    anna.get_by_label("Select Paper Harbor").check()
    anna.get_by_role("link", name="Queue").click()
    see(anna, "The queue is empty")
    assert button(anna, "Send 1").count() == 0
    anna.go_back()
    see(anna, "1 selected")
    assert anna.get_by_label("Select Paper Harbor").is_checked()


def test_many_titles_are_sent_after_a_question_and_undone(
    anna: Any, store: catalogd.Store
) -> None:
    for number in range(11):
        add(store, f"Game {number:02}")
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 11 shown").click()
    button(anna, "Send 11").click()
    dialog = anna.get_by_role("dialog")
    assert "Send 11 titles (11 kB)?" in dialog.inner_text()
    assert queued(store) == []
    dialog.get_by_role("button", name="Send").click()
    see(anna, "11 files added to the queue.")
    assert len(queued(store)) == 11
    button(anna, "Undo").click()
    until(lambda: queued(store) == [])


def test_a_selection_names_the_entries_that_were_not_queued(
    anna: Any, store: catalogd.Store
) -> None:
    entries = [add(store, f"Game {number}") for number in range(2)]
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 2 shown").click()
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
    assert "0100ABCD00000000" not in dialog.inner_text()
    button(dialog, "File details of Paper Harbor").click()
    see(dialog, "0100ABCD00000000")
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
    button(anna, "Edit ").click()
    anna.get_by_label("Name").fill("Paper Harbor")
    anna.get_by_label("Description").fill("Mind the rain.")
    button(anna, "Save").click()
    anna.get_by_role("dialog", name="Paper Harbor").wait_for()
    see(anna.get_by_role("dialog"), "Mind the rain.")
    button(anna, "Edit ").click()
    assert anna.get_by_label("Description").input_value() == "Mind the rain."
    anna.get_by_label("Version").fill("2.0")
    button(anna, "Save").click()
    see(anna.get_by_role("dialog"), "v2.0")
    see(anna.get_by_role("dialog"), "Mind the rain.")
    button(anna, "Edit ").click()
    button(anna, "Undo all edits").click()
    anna.get_by_role("dialog", name="Papper Harbor").wait_for()


def test_a_member_cannot_edit(
    visit: Visit, store: catalogd.Store, home: str, key: str
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    entry = add(store, "Paper Harbor")
    page = visit()
    sign_in(page, store, home, "ben")
    page.goto(f"{home}#title/{entry}")
    page.get_by_role("dialog").get_by_role("link", name="Open Paper Harbor").wait_for()
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
    see(anna, "64 MB")
    anna.get_by_role("link", name="Yonder Isles").click()
    button(anna, "Edit ").click()
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
    counts = {"library": 2, f"title/{entry}": 3, "queue": 2, "settings": 2}
    for view, count in counts.items():
        anna.goto(f"#{view}")
        until(lambda count=count: anna.get_by_text(HOSTILE).count() >= count)
    anna.goto("#library")
    assert anna.locator("img[src=x]").count() == 0
    assert anna.locator("script").count() == 1


# Titles


def find(page: Any, name: str) -> Any:
    """Search for a title, and return its card."""
    page.get_by_label("Search the library").fill(name)
    card = page.locator(".entry").filter(has=page.get_by_role("link", name=name))
    card.first.wait_for()
    return card


def open_title(page: Any, name: str) -> Any:
    """Return the dialog with the details of a title."""
    find(page, name).get_by_role("link").click()
    dialog = page.get_by_role("dialog", name=name, exact=True)
    dialog.wait_for()
    return dialog


def waiting(house: Demo, name: str = "kim2") -> list[str]:
    """Return the names of what waits in an account's queue."""
    account = house.store.accounts.id_of(name)
    return [row["name"] for row in house.store.queue.pending(account)]


def test_a_library_of_300_files_has_one_card_a_title(kim: Any, house: Demo) -> None:
    rows = kim.request.get("/web/entries").json()["entries"]
    titles = {row.get("base_id", row["id"]) for row in rows}
    assert len(rows) >= 300
    see(kim, f"{len(titles)} titles")
    seen: list[str] = []
    while not seen or names(kim)[-1] != seen[-1]:
        seen += [name for name in names(kim) if name not in seen]
        kim.locator(".entry").last.scroll_into_view_if_needed()
        kim.wait_for_timeout(100)
    assert len(seen) == len(titles)


def test_a_card_says_what_its_title_contains(kim: Any) -> None:
    meta = find(kim, "Alpine Echo").locator(".meta").inner_text()
    assert re.fullmatch(r"Update 4 · 3 add-ons\s*\d+ kB", meta)


def test_send_queues_the_game_its_newest_update_and_its_add_ons(
    kim: Any, house: Demo
) -> None:
    find(kim, "Alpine Echo").get_by_role("button").click()
    see(kim, "files added to the queue.")
    names = waiting(house)
    assert names[0].startswith("Alpine Echo")
    assert names[1].startswith("Alpine Echo - Update 4")
    assert len(names) == 5


def test_the_button_says_what_it_will_send(kim: Any, house: Demo) -> None:
    dialog = open_title(kim, "Alpine Echo")
    send = dialog.get_by_role("button", name="Send")
    assert re.match(r"Send game, update and 3 add-ons \(\d+ kB\)", send.inner_text())
    dialog.get_by_role("checkbox", name="Alpine Echo - Update 4").uncheck()
    assert send.inner_text().startswith("Send game and 3 add-ons (")
    dialog.get_by_role("checkbox", name="Alpine Echo - Update 3").check()
    send.click()
    see(kim, "5 files added to the queue.")
    assert waiting(house)[1] == "Alpine Echo - Update 3"


def test_a_replaced_update_is_marked_and_not_ticked(kim: Any) -> None:
    dialog = open_title(kim, "Alpine Echo")
    assert not dialog.get_by_role(
        "checkbox", name="Alpine Echo - Update 3"
    ).is_checked()
    part = dialog.locator(".part", has_text="Update 3")
    assert "superseded" in part.inner_text()


def test_a_copy_of_the_game_is_marked_and_not_ticked(kim: Any) -> None:
    dialog = open_title(kim, "Apprentice Baker")
    marks = dialog.locator(".part", has_text="another copy")
    assert marks.count() == 1
    assert not marks.get_by_role("checkbox").is_checked()


def test_each_part_has_a_name_of_its_own_for_a_screen_reader(kim: Any) -> None:
    dialog = open_title(kim, "Star Garden")
    labels = dialog.get_by_role("checkbox").evaluate_all(
        "boxes => boxes.map(box => box.ariaLabel)"
    )
    links = dialog.get_by_role("link").evaluate_all(
        "links => links.map(link => link.ariaLabel)"
    )
    assert len(labels) == len(links) > 14
    assert len({*labels, *links}) == len(labels) * 2
    assert violations(kim) == []


def test_add_ons_are_listed_by_their_number(kim: Any) -> None:
    parts = open_title(kim, "Star Garden").locator(".part")
    numbers = re.findall(r"Add-on (\d+)", "\n".join(parts.all_inner_texts()))
    assert [*map(int, numbers)] == [*range(1, 15)]


def test_a_title_without_its_game_says_so(kim: Any) -> None:
    dialog = open_title(kim, "Lost Harbour")
    see(dialog, "The game itself is not in the library.")
    assert button(dialog, "Send update").count() == 1


def test_two_thousand_add_ons_of_one_title_are_shown_in_part(
    anna: Any, store: catalogd.Store
) -> None:
    for number in range(2000):
        name = f"Paper Harbor - Add-on {number}"
        title_id = f"{int(BASE, 16) + 0x1001 + number:016X}"
        add(store, name, kind="add-on", base_id=BASE, title_id=title_id)
    anna.goto("")
    anna.get_by_role("link", name="Paper Harbor").click()
    dialog = anna.get_by_role("dialog", name="Paper Harbor")
    button(dialog, "Send 2,000 add-ons (2.0 MB)").wait_for()
    assert dialog.get_by_role("checkbox").count() == 100
    button(dialog, "Show all 2,000").click()
    until(lambda: dialog.get_by_role("checkbox").count() == 2000)


def test_the_keyboard_alone_chooses_parts_and_sends(kim: Any, house: Demo) -> None:
    kim.keyboard.press("/")
    kim.keyboard.type("alpine echo")
    press_until(kim, "Tab", "Alpine Echo")
    kim.keyboard.press("Enter")
    kim.get_by_role("dialog").wait_for()
    press_until(kim, "Tab", "Alpine Echo - Update 4")
    kim.keyboard.press("Space")
    press_until(kim, "Shift+Tab", "Send game and 3 add-ons")
    kim.keyboard.press("Enter")
    until(lambda: len(waiting(house)) == 4)
    kim.keyboard.press("Escape")
    until(lambda: focused(kim) == "Alpine Echo")


def test_back_closes_the_details_once(kim: Any) -> None:
    open_title(kim, "Star Garden")
    button(kim, "Close").click()
    kim.get_by_role("dialog").wait_for(state="detached")
    open_title(kim, "Alpine Echo")
    kim.go_back()
    kim.get_by_role("dialog").wait_for(state="detached")
    assert kim.evaluate("history.length") == 3


def test_search_filter_and_position_outlive_a_reload_and_back(kim: Any) -> None:
    button(kim, "Games").click()
    kim.get_by_label("Search the library").fill("a")
    see(kim, " of ")
    before = names(kim)
    kim.evaluate("scrollTo(0, 900)")
    until(lambda: names(kim) != before)
    for away in (kim.reload, lambda: (kim.goto("/healthz"), kim.go_back())):
        away()
        until(lambda: kim.evaluate("scrollY") == 900)
        assert kim.get_by_label("Search the library").input_value() == "a"
        assert button(kim, "Games").get_attribute("aria-pressed") == "true"


def test_neighbouring_covers_differ_without_their_names(kim: Any) -> None:
    kim.set_viewport_size({"width": 1280, "height": 4000})
    drawings = kim.locator(".drawn").evaluate_all(
        "all => all.map(each => each.style.background + each.firstChild.innerHTML)"
    )
    assert len(drawings) > 40
    assert len({*drawings}) == len(drawings)


# Tidying up


def test_tidy_lists_what_wastes_space(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    old = library.add("Paper Harbor [0100ABCD00010800][v0].nsp")
    scanner.scan()
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Updates that a newer one replaces").click()
    see(panel, old)
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    assert old in anna.evaluate("navigator.clipboard.readText()")


def test_tidy_names_the_file_that_another_is_equal_to(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for folder in ("Old disk", "Switch"):
        library.add(f"{folder}/Paper Harbor.nsp", b"the same")
    scanner.scan()
    anna.reload()
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Equal files").click()
    see(panel, "1 file, 8 B")
    text = panel.locator(".row .meta").inner_text()
    assert re.search(r"/(Old disk|Switch)/Paper Harbor.nsp · equal to .*\(", text)
    assert {"Old disk", "Switch"} == {*re.findall("Old disk|Switch", text)}


def test_an_admin_sees_the_last_backup_and_downloads_it(
    anna: Any, service: catalogd.Web
) -> None:
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Backups")
    see(panel, "No backup was made yet.")
    service.backups.make()
    service.backups.problem = "The disk is full."
    anna.reload()
    panel.get_by_text(re.compile(r"^Last backup .*, \d+ \w+\.$")).wait_for()
    see(panel, "The last backup failed. The disk is full.")
    with anna.expect_download() as download:
        panel.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.startswith("catalogd-20")


def test_a_member_sees_no_backups(kim: Any) -> None:
    kim.goto("#settings")
    kim.get_by_role("region", name="Library folders").wait_for()
    assert kim.get_by_role("region", name="Backups").count() == 0


def test_without_a_secure_address_no_notifications_are_offered(anna: Any) -> None:
    anna.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: 0})")
    anna.goto("#queue")
    anna.reload()
    see(anna, "Queue")
    assert button(anna, "Notify me").count() == 0


def test_a_member_sees_nothing_to_tidy(kim: Any) -> None:
    kim.goto("#settings")
    see(kim, "There is no key yet.")
    assert kim.get_by_role("heading", name="Tidy").count() == 0


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


SIZES = """[...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].filter(
    ({name}) => !name.includes("/web/")).map(({encodedBodySize: size}) => size)"""


def test_the_files_of_the_page_are_less_than_60_kb_compressed(anna: Any) -> None:
    anna.goto("")
    see(anna, "Nothing here yet")
    sizes = anna.evaluate(SIZES)
    assert len(sizes) >= 4  # the page, its style, its script and an icon
    assert 10_000 < sum(sizes) < 60_000


TEN_THOUSAND = 10_000
SLOW_LINK = 1_500_000 / 8  # bytes per second
SCROLL = """async () => {
  const frames = [];
  let last = performance.now();
  const started = last;
  while (performance.now() - started < 700) {
    scrollBy(0, 60);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames.slice(2);
}"""


def ten_thousand(store: catalogd.Store) -> None:
    words = ("Harbor", "Café", "Quarry", "Apiary", "Courier")
    files = []
    for n in range(TEN_THOUSAND):
        name = f"{words[n % 5]} {n // 5}"
        path = f"/games/{name} [{0x0100_0000_0001_0000 + n * 0x2000:016X}][v0].nsp"
        file = catalogd.FoundFile(path, "/games", n * 1_234_567, n, n, "1")
        files.append((file, catalogd.FileContent("", catalogd.name_facts(path))))
    for batch in catalogd.batches(files):
        store.entries.add_files(batch, listed=True)


@contextlib.contextmanager
def slowed(page: Any, factor: int) -> Iterator[Any]:
    """Slow the page's CPU down, and yield its DevTools session."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": factor})
    yield session
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    session.detach()


def test_ten_thousand_titles_are_drawn_and_searched_fast(
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
    with slowed(anna, 4):
        runs = [anna.evaluate(TYPE, "cafe 19") for _ in range(8)]
    keys = [min(times) for times in zip(*runs, strict=True)]  # without other programs
    with capsys.disabled():
        print(
            f"\n10,000 titles: first paint {min(paints):.0f} ms, first cards"
            f" {min(fulls):.0f} ms, a key on a CPU slowed four times"
            f" {statistics.median(keys):.1f} ms (median), {max(keys):.1f} ms"
            " (slowest)"
        )
    assert min(paints) < 1000
    assert min(fulls) < 2000
    assert sorted(keys)[-2] < 50  # one may be slowed by another program


def test_ten_thousand_titles_come_over_a_slow_link(
    anna: Any, store: catalogd.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    ten_thousand(store)
    anna.add_init_script(WATCH)
    session = anna.context.new_cdp_session(anna)
    link = {"downloadThroughput": SLOW_LINK, "uploadThroughput": SLOW_LINK}
    session.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": 20, **link}
    )
    times = []
    for _ in range(3):
        session.send("Network.clearBrowserCache")
        anna.goto("about:blank")
        anna.goto("")
        until(lambda: anna.evaluate("window.drawnAt"))
        times.append(anna.evaluate("window.drawnAt"))
    took = min(times)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    with capsys.disabled():
        print(f"\n1.5 Mbit/s: first cards {took:.0f} ms, heap {heap:.1f} MB")
    assert took < 3000
    assert heap < 30


def test_scrolling_through_ten_thousand_titles_drops_no_frame(
    anna: Any, store: catalogd.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    ten_thousand(store)
    anna.goto("")
    see(anna, "Apiary 0")
    longest: list[float] = []  # of each attempt: other programs slow some frames down
    until(lambda: longest.append(max(anna.evaluate(SCROLL))) or longest[-1] < 50)
    with capsys.disabled():
        print(f"\nthe longest frame while scrolling {longest[-1]:.0f} ms")


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
    see(anna, "Waits for a device.")
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


def test_all_waiting_items_are_cancelled_after_a_question(
    anna: Any, store: catalogd.Store
) -> None:
    sending(store)
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Cancel all waiting").click()
    dialog = anna.get_by_role("dialog")
    assert "Cancel all 2 waiting items?" in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel all").click()
    until(lambda: queued(store) == [])
    see(anna, "40 %")


def test_finished_items_are_cleared(anna: Any, store: catalogd.Store) -> None:
    report(store, sending(store), 100, status="completed")
    anna.goto("#queue")
    button(anna, "Clear finished").click()
    see(anna, "The queue is empty")
    anna.get_by_role("link", name="Go to the library").click()
    anna.locator(".mark", has_text="sent").wait_for()


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


COPY_WITHOUT_HTTPS = """
Object.defineProperty(navigator, 'clipboard', {value: undefined});
addEventListener('copy', event => { window.copied = event.target.value.slice(0, 9); });
"""


def test_a_page_without_https_copies_too(anna: Any) -> None:
    anna.add_init_script(COPY_WITHOUT_HTTPS)
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
    assert store.addresses.browse_token(store.accounts.id_of("anna")) is None


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
        if focused(page).startswith(name):
            return
    pytest.fail(f"{key} does not lead to {name}")


def test_on_a_phone_the_menu_is_at_the_bottom(visit: Visit, demo: Demo) -> None:
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True)
    screenshots.sign_in(page.context, demo.address, demo.cookie)
    screenshots.library(page, demo.address)
    box = page.get_by_role("navigation").bounding_box()
    assert box["y"] + box["height"] == PHONE["height"]
    page.get_by_role("link", name="Queue").tap()
    see(page, "Up next")


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
        page.goto(f"{address}games/#title/{entry}")
        page.get_by_role("dialog", name="Paper Harbor").wait_for()
        button(page.get_by_role("dialog"), "Send").click()
        until(lambda: bool(store.queue.items(1)))
        page.get_by_role("dialog").get_by_role("button", name="Add one").click()
        fill_folder(page, "/card")
        assert f"send_to_switch.py pair {address}games " in line_of(page, "Connect it")


# Devices

ADD = "Add a device"


def add_device(
    store: catalogd.Store,
    name: str,
    account: int = 1,
    target: str = "ready",
    **changes: Any,
) -> str:
    """Add a device whose key is its name, and return its id."""
    device = store.accounts.add_key(account, name, catalogd.hash_token(name))
    store.accounts.set_target(device, target)
    store.accounts.key_holder(catalogd.hash_token(name))
    store.devices.change(device, changes)
    return device


def add_ben(store: catalogd.Store) -> int:
    return store.accounts.add("ben", catalogd.hash_password(PASSWORD))


def open_sheet(page: Any) -> None:
    page.goto("#settings")
    button(page, ADD).click()
    see(page, "What does it put files on?")


def fill_folder(page: Any, folder: str) -> None:
    page.get_by_label("Where is it on that computer?").fill(folder)


def line_of(page: Any, name: str) -> str:
    """Return a line of the sheet, by what it does."""
    line: str = page.locator(".code", has_text=name).locator("code").text_content()
    return line


def pairing_code(page: Any) -> str:
    code: str = page.locator(".pairing-code").text_content()
    return code.replace(" ", "")


def pair(page: Any, code: str, name: str = "Living room") -> Any:
    """Redeem a pairing code, as a client does."""
    return page.request.post("/api/pair", data={"code": code, "name": name})


def poll(page: Any, key: str, target: str) -> None:
    """Fetch the queue, as a client does."""
    headers = {"Authorization": f"Bearer {key}"}
    path = "/api/send-queue"
    assert page.request.get(path, params={"target": target}, headers=headers).ok


def device_of(store: catalogd.Store) -> Any:
    """Wait for an item, and return which device the only one is for."""
    until(lambda: store.queue.items(1))
    (row,) = store.queue.items(1)
    return row["device"]


@pytest.mark.parametrize(
    ("system", "line", "text"),
    [
        ("Windows NT 10.0", "Get the program", "Invoke-WebRequest http://"),
        ("Windows NT 10.0", "Connect it", "python send_to_switch.py pair http://"),
        ("Macintosh; Intel Mac OS X", "Get the program", "curl -fO http://"),
        ("X11; Linux x86_64", "Start it", "python3 send_to_switch.py"),
    ],
)
def test_the_lines_are_those_of_the_computer_that_shows_the_page(
    anna: Any, system: str, line: str, text: str
) -> None:
    agent = f"Mozilla/5.0 ({system})"
    anna.add_init_script(
        f"Object.defineProperty(navigator, 'userAgent', {{value: '{agent}'}})"
    )
    open_sheet(anna)
    fill_folder(anna, "/card")
    assert line_of(anna, line).startswith(text)


def test_the_sheet_copies_without_https_and_says_so(anna: Any) -> None:
    anna.add_init_script(COPY_WITHOUT_HTTPS)
    open_sheet(anna)
    fill_folder(anna, "/card")
    button(anna, "Copy: Start it").click()
    until(lambda: anna.evaluate("window.copied") == "python3 s")
    see(anna.get_by_role("dialog"), "Copied.")


@pytest.mark.parametrize(
    ("chosen", "host", "target"),
    [
        (["Console over FTP"], "192.168.1.20", "ftp://192.168.1.20"),
        (["Console over FTP", "DBI"], "10.0.0.7", "ftp://10.0.0.7:6000/"),
        (["Console over FTP", "DBI"], "10.0.0.7:21", "ftp://10.0.0.7:21/"),
        (["Console over FTP", "sys-ftpd"], "a:b@10.0.0.7", "ftp://a:b@10.0.0.7/games"),
        (["Console that waits"], "ftp://10.0.0.7/", "lan://10.0.0.7"),
    ],
)
def test_the_target_is_that_of_the_program_on_the_console(
    anna: Any, chosen: list[str], host: str, target: str
) -> None:
    open_sheet(anna)
    for name in chosen:
        anna.get_by_role("radio", name=name, exact=name in ("DBI", "sys-ftpd")).check()
    see(anna, "First fill in where the files go, above.")
    anna.get_by_label("Address of the console").fill(host)
    assert shlex.split(line_of(anna, "Connect it"))[-1] == target


def test_a_phone_says_where_to_copy_the_lines(
    visit: Visit, store: catalogd.Store, home: str, key: str
) -> None:
    page = visit(base_url=home, user_agent="Mozilla/5.0 (Linux; Android 15)")
    sign_in(page, store, home, "anna")
    open_sheet(page)
    fill_folder(page, "/card")
    see(page, f"To copy the lines, open {home.rstrip('/')} on that computer.")


def test_a_shell_reads_a_folder_as_it_was_typed(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/media/Robin's $card")
    words = shlex.split(line_of(anna, "Connect it"))
    assert words[-1] == "folder:/media/Robin's $card"


def test_powershell_reads_a_folder_as_it_was_typed(anna: Any) -> None:
    open_sheet(anna)
    anna.get_by_label("Windows").check()
    fill_folder(anna, "E:\\Robin's games\\")
    assert line_of(anna, "Connect it").endswith(" 'folder:E:\\Robin''s games'")


def test_this_server_runs_the_program_as_a_service(anna: Any) -> None:
    open_sheet(anna)
    anna.get_by_label("This server").check()
    anna.get_by_label("What do you call it?").fill("Kid's room")
    anna.get_by_role("radio", name="Console over FTP").check()
    anna.get_by_label("Address of the console").fill("10.0.0.7")
    words = shlex.split(line_of(anna, "Connect it"))
    assert words[:3] == ["sudo", "send-to-switch", "pair"]
    assert words[-2:] == ["--service", "kid-s-room"]


def test_the_service_may_write_to_its_folder(anna: Any) -> None:
    open_sheet(anna)
    anna.get_by_label("This server").check()
    fill_folder(anna, "/media/My card")
    command, install = line_of(anna, "Let it write").split(" | ")
    text = subprocess.check_output(["sh", "-c", command], env={"USER": "pi"}, text=True)
    assert text == '[Service]\nReadWritePaths="-/media/My card"\nUser=pi\n'
    assert install.endswith("/send-to-switch@living-room.service.d/folder.conf")


def test_a_second_device_has_settings_of_its_own(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Bedroom")
    open_sheet(anna)
    fill_folder(anna, "/card")
    see(anna, "Start it")
    assert line_of(anna, "Start it").endswith(" --config living-room.ini")


def test_a_server_without_the_program_says_what_to_do(anna: Any) -> None:
    def answer(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "client": False})

    anna.route("**/web/me", answer)
    open_sheet(anna)
    fill_folder(anna, "/card")
    see(anna, "This server does not have the program.")
    assert anna.get_by_text("Get the program").count() == 0


def test_an_open_code_is_kept_when_the_sheet_is_opened_again(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    code = pairing_code(anna)
    button(anna, "Close").click()
    button(anna, ADD).click()
    fill_folder(anna, "/card")
    assert pairing_code(anna) == code


def test_wrong_codes_end_the_code_and_a_new_one_is_made(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    code = pairing_code(anna)
    wrong = "000000" if code != "000000" else "111111"
    for _ in range(10):
        assert pair(anna, wrong).status == 403
    see(anna, "Somebody tried ten wrong codes")
    button(anna, "New code").click()
    see(anna, "good for")
    assert pairing_code(anna) != code


def test_an_expired_code_says_so(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    see(anna, "good for 9:")
    answer = {"success": True, "code": None, "expires_in": 0, "device": None}
    anna.route("**/web/pairing", lambda route: route.fulfill(json=answer))
    see(anna, "The code has expired.")


def test_the_sheet_ticks_by_itself_within_two_seconds(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    answer = pair(anna, pairing_code(anna), "Attic").json()
    key, ticks = answer["api_key"], anna.locator(".tick.check")
    for text, target in (
        ("The code was used", ""),
        ("Attic has called", "ready"),
    ):
        ticks.get_by_text(text).wait_for(timeout=CI_FACTOR * 2000)
        poll(anna, key, target)
    ticks.get_by_text("Ready", exact=True).wait_for(timeout=CI_FACTOR * 2000)


def test_the_sheet_shows_why_a_console_does_not_answer(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    answer = pair(anna, pairing_code(anna)).json()
    poll(anna, answer["api_key"], "There is no folder /card. Is the card in?")
    see(anna, "There is no folder /card. Is the card in?")
    assert anna.get_by_text("Send puts your games on").count() == 0


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("Sphaira", "url=http://127.0.0.1"),
        ("DBI", "Library=ApacheHTTP|http://127.0.0.1"),
        ("Tinfoil and others", "Enter this address."),
    ],
)
def test_a_console_that_fetches_by_itself_gets_its_steps(
    anna: Any, program: str, text: str
) -> None:
    open_sheet(anna)
    anna.get_by_label("The console fetches by itself").check()
    button(anna.get_by_role("dialog"), "Create address").click()
    anna.get_by_role("radio", name=program, exact=True).check()
    see(anna.get_by_role("dialog"), text)


def test_send_without_a_device_leads_to_the_sheet(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    see(anna, "Waits for a device.")
    button(anna, "Add one").click()
    see(anna, "What does it put files on?")
    assert device_of(store) is None


def test_send_goes_silently_to_the_only_device(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    device = add_device(store, "Bedroom")
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    button(anna, "Queued").wait_for()
    assert device_of(store) == device
    assert anna.get_by_label("Send to").count() == 0


def test_send_goes_to_the_device_that_was_chosen_last(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    add_device(store, "Bedroom")
    attic = add_device(store, "Attic")
    anna.goto("")
    anna.get_by_label("Send to").select_option("to Attic")
    anna.reload()
    button(anna, "Send Paper Harbor").click()
    button(anna, "Queued").wait_for()
    assert device_of(store) == attic


def test_what_one_device_has_can_be_sent_to_another(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, "Paper Harbor")
    store.queue.send(1, entry, add_device(store, "Attic"))
    bedroom = add_device(store, "Bedroom")
    anna.goto("")
    anna.get_by_label("Send to").select_option("to Attic")
    button(anna, "Queued").wait_for()
    anna.get_by_label("Send to").select_option("to Bedroom")
    button(anna, "Send Paper Harbor").click()
    until(lambda: bedroom in [row["device"] for row in store.queue.items(1)])


def group(page: Any, name: str) -> Any:
    """Return the part of the queue that is for one device."""
    heading = page.get_by_role("heading", name=name, exact=True)
    return page.locator("section.items").filter(has=heading)


def test_the_queue_is_grouped_by_device(anna: Any, store: catalogd.Store) -> None:
    store.queue.send(1, add(store, "Paper Harbor"), add_device(store, "Attic"))
    store.queue.send(1, add(store, "Night Ferry"))
    anna.goto("#queue")
    see(group(anna, "Attic"), "Paper Harbor")
    see(group(anna, "Any device"), "Night Ferry")


@pytest.mark.parametrize(
    ("target", "age", "text"),
    [
        ("ready", 0, "Idle"),
        ("", 0, "Idle"),
        ("No answer from 10.0.0.7.", 0, "Its console does not answer"),
        ("No answer from 10.0.0.7.", 0, "No answer from 10.0.0.7."),
        ("ready", 7300, "Last seen "),
    ],
)
def test_the_queue_shows_the_state_of_a_device(
    anna: Any, store: catalogd.Store, clock: Clock, target: str, age: int, text: str
) -> None:
    add_device(store, "Attic", target=target)
    clock.now += age
    anna.goto("#queue")
    see(group(anna, "Attic"), text)


def test_an_item_is_moved_to_another_device(anna: Any, store: catalogd.Store) -> None:
    store.queue.send(1, add(store, "Paper Harbor"), add_device(store, "Attic"))
    bedroom = add_device(store, "Bedroom")
    anna.goto("#queue")
    move = anna.get_by_label("Move Paper Harbor to another device")
    move.select_option("Bedroom")
    see(group(anna, "Bedroom"), "Paper Harbor")
    assert device_of(store) == bedroom


def test_an_item_without_a_device_gets_one(anna: Any, store: catalogd.Store) -> None:
    store.queue.send(1, add(store, "Paper Harbor"))
    attic = add_device(store, "Attic")
    anna.goto("#queue")
    anna.get_by_label("Choose a device").select_option("Attic")
    see(group(anna, "Attic"), "Paper Harbor")
    assert device_of(store) == attic


def test_items_of_others_for_a_shared_device_are_shown_but_not_changed(
    visit: Visit, home: str, anna: Any, store: catalogd.Store
) -> None:
    add_ben(store)
    device = add_device(store, "Attic", shared=True)
    store.queue.send(1, add(store, "Paper Harbor"), device)
    page = visit(base_url=home)
    sign_in(page, store, home, "ben")
    page.goto("#queue")
    see(group(page, "Attic (anna)"), "from anna")
    assert page.locator(".item button, .item select").count() == 0


def test_the_owner_of_a_device_cancels_an_item_of_another(
    anna: Any, store: catalogd.Store
) -> None:
    ben = add_ben(store)
    device = add_device(store, "Attic", shared=True)
    store.queue.send(ben, add(store, "Paper Harbor"), device)
    anna.goto("#queue")
    see(anna, "from ben")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "Nothing waits.")


def test_items_that_lost_their_device_are_told(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    store.queue.send(1, add(store, "Paper Harbor"), device)
    store.accounts.revoke_key(device)
    anna.goto("#queue")
    see(anna, "1 item waits without a device, since Attic was removed")


def test_an_empty_queue_without_a_device_offers_to_add_one(anna: Any) -> None:
    anna.goto("#queue")
    see(anna, "No device fetches your queue yet.")
    button(anna, ADD).click()
    see(anna, "What does it put files on?")


def test_a_device_is_renamed(anna: Any, store: catalogd.Store) -> None:
    add_device(store, "Attic")
    anna.goto("#settings")
    button(anna, "Rename Attic").click()
    anna.get_by_label("New name of Attic").fill("Cellar")
    button(anna, "Rename").last.click()
    button(anna, "Rename Cellar").wait_for()
    assert store.devices.all()[0]["name"] == "Cellar"


def test_a_device_is_shared(anna: Any, store: catalogd.Store) -> None:
    add_device(store, "Attic")
    anna.goto("#settings")
    anna.get_by_label("Everyone here may send to Attic").check()
    until(lambda: store.devices.all()[0]["shared"])


def test_a_device_is_removed_after_a_question(anna: Any, store: catalogd.Store) -> None:
    add_device(store, "Attic")
    anna.goto("#settings")
    button(anna, "Remove Attic").click()
    see(anna, "The program that sends to it stops working.")
    button(anna.get_by_role("dialog"), "Remove").click()
    see(anna, "There is no device yet.")
    assert store.devices.all() == []


def test_keys_of_devices_are_not_among_those_of_scripts(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Attic")
    anna.goto("#settings")
    see(anna.get_by_role("region", name="Keys"), "switch")
    assert anna.get_by_role("region", name="Keys").get_by_text("Attic").count() == 0


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
