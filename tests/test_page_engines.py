"""The page's main journey in the oldest Chromium that it is made for, in Firefox and
WebKit. All else is tested in Debian's Chromium."""

import pathlib
from collections.abc import Iterator

import pytest

import catalogd
from browser import DESK, PHONE, add_device, report, until
from conftest import PASSWORD, Library
from engines import ENGINES, ESCAPE, Tab
from example import by_age

pytestmark = pytest.mark.ci
# WebKit's window is not narrower than 450 pixels.
SIZES = {"desk": DESK, "phone": {**PHONE, "width": 450}}
TABS = {  # of the settings, with a heading in each
    "You": "Signed-in browsers",
    "Devices": "Programs on the console",
    "Files": "Library folders",
    "Server": "Health",
    "People": "Add an account",
}
LONG = (("Chromium 106", "desk"), ("Firefox", "phone"))
GAMES = ("Lantern Keepers", "Paper Harbor", "Otter Brigade")


@pytest.fixture
def tab(tmp_path: pathlib.Path, engine: str) -> Iterator[Tab]:
    folder = tmp_path / "profile"
    folder.mkdir()
    with ENGINES[engine](folder) as tab:
        yield tab


def waiting(store: catalogd.Store) -> list[str]:
    """Return the names of what waits in anna's queue."""
    items = store.queue.items(1)
    return [item["name"] for item in items if item["status"] == "pending"]


def sign_in(tab: Tab, name: str) -> None:
    tab.fill("Name", name)
    tab.fill("Password", PASSWORD)
    tab.click("Sign in", "button")


@pytest.mark.parametrize(
    ("engine", "size"),
    [
        ("Chromium 106", "phone"),
        ("Firefox", "desk"),
        *(("WebKit", size) for size in SIZES),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in LONG),
    ],
)
def test_a_household_finds_sends_and_sets_up_in_every_engine(
    tab: Tab,
    engine: str,
    size: str,
    site: str,
    scanner: catalogd.Scanner,
    library: Library,
    key: str,
) -> None:
    for name in GAMES:
        library.add(f"{name}.nsp", name.encode().ljust(1000))
    scanner.scan()
    device = add_device(scanner.store, "Attic")
    kim = scanner.store.accounts.add("Kim", catalogd.hash_password(PASSWORD), age=7)
    tab.resize(**SIZES[size])
    tab.open(site)
    sign_in(tab, "anna")
    find_and_send(tab, scanner.store)
    watch_and_cancel(tab, scanner.store, device)
    move_by_a_menu(tab, scanner.store)
    visit_settings(tab)
    add_another_device(tab)
    tab.click("You", "a")
    tab.click("Sign out", "button")
    sign_in(tab, "Kim")
    tab.see("Ask an adult")
    send_as_a_child(tab, scanner.store, kim)
    assert tab.mistakes() == []


def send_as_a_child(tab: Tab, store: catalogd.Store, kim: int) -> None:
    """The page of a small child has games, and nothing technical."""
    device = add_device(store, "Bedroom", kim)
    store.entries.set_ages([entry["id"] for entry in by_age(store)], 7)
    tab.click("Send Otter Brigade", "button")
    until(lambda: store.queue.items(kim))
    report(store, store.queue.items(kim)[0]["id"], 40, 1, kim, key=device)
    tab.see("40 %")
    until(lambda: tab.evaluate("document.querySelectorAll('.covers .fill').length"))
    tab.click("Settings", "a")
    tab.see("Change password")
    assert "Devices" not in tab.text()
    tab.click("Games", "a")
    tab.place("Send Paper Harbor", "button")


def find_and_send(tab: Tab, store: catalogd.Store) -> None:
    tab.click("Send Lantern Keepers", "button")
    until(lambda: waiting(store) == ["Lantern Keepers"])
    tab.fill("Search the library", "paper")
    tab.lose("Otter Brigade")
    tab.click("Paper Harbor", "a")
    tab.place("Close", "button")
    assert (
        tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none"
    )
    tab.click("Close", "button")
    tab.click("Send Paper Harbor", "button")
    until(lambda: waiting(store) == ["Lantern Keepers", "Paper Harbor"])


def watch_and_cancel(tab: Tab, store: catalogd.Store, device: str) -> None:
    tab.click("Queue", "a")
    item = store.queue.items(1)[0]["id"]
    for percent in (40, 60):
        report(store, item, percent, speed=1, key=device)  # or the page goes on
        tab.see(f"{percent} %")
    tab.click("Cancel Lantern Keepers", "button")
    tab.see("Lantern Keepers was cancelled.")
    until(lambda: waiting(store) == ["Paper Harbor"])
    tab.click("Undo", "button")
    until(lambda: waiting(store) == ["Lantern Keepers", "Paper Harbor"])


def move_by_a_menu(tab: Tab, store: catalogd.Store) -> None:
    """The menu shows all of its entries. Escape closes it, and so do a press elsewhere
    and a choice."""
    tab.see("Paper Harbor")
    for leave in (lambda: tab.type(ESCAPE), lambda: tab.press(3, 300)):
        tab.click("More: Paper Harbor", "button")
        tab.place("To the top Paper Harbor", "button")
        tab.place("Up Paper Harbor", "button")
        leave()
        tab.lose("To the top")
    tab.click("More: Paper Harbor", "button")
    tab.click("To the top Paper Harbor", "button")
    until(lambda: waiting(store) == ["Paper Harbor", "Lantern Keepers"])


def visit_settings(tab: Tab) -> None:
    tab.click("Settings", "a")
    for name, heading in TABS.items():
        tab.click(name, "a")
        tab.see(heading)
    tab.click("Make a link", "button")
    tab.see("Here is the link")


def add_another_device(tab: Tab) -> None:
    tab.click("Devices", "a")
    tab.click("Add a device", "button")
    tab.place("Look again", "button:not([aria-disabled])")  # the search has ended
    tab.click("Not found?", "button")
    tab.click("A computer with the SD card in it", "input")
    tab.click("SD card or folder", "input")
    tab.fill("Which folder on that computer", "/media/card")
    tab.click("Next", "button")
    tab.click("Next", "button")
    tab.see("urlretrieve")
    tab.click("Close", "button")
