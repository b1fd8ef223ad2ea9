"""The library and the details of titles, in a real Chromium."""

import base64
import itertools
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import pytest

import catalogd
import containers
from browser import (
    DESK,
    IN_DIALOG,
    PHONE,
    TWO_FRAMES,
    add,
    add_device,
    add_files,
    button,
    focused,
    names,
    options,
    press_until,
    queued,
    report,
    resize,
    see,
    set_library,
    show,
    sign_in,
    translation,
    unfold_experts,
    until,
    violations,
    waiting,
)
from conftest import Clock, Library, Visit
from example import Demo, by_age
from test_page_calls import without_polls
from test_page_views import GERMAN, SPEAK
from views import DEVICES, VIEWS, answer_devices, change_answers, unfinished

JPEG = base64.b64decode(  # 8 x 8 pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////"
    "////////////////////////////////////////////2wBDAVVaWnhpeOuCguv/////////////"
    "////////////////////////////////////////////////////////////wAARCAAIAAgDASIA"
    "AhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAP/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEB"
    "AQAAAAAAAAAAAAAAAAAAAQP/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCQBTf/"
    "2Q=="
)
PROGRAM = containers.nro(containers.nacp("Paper Harbor", version="3.1.4"), JPEG)
BASE = "0100ABCD00010000"
HOSTILE = "<img src=x onerror=alert(1)>"

# Library


def test_a_slash_leads_to_the_search(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    anna.keyboard.press("/")
    assert focused(anna) == "Search the library"
    anna.keyboard.type("a/b")
    assert anna.get_by_label("Search the library").input_value() == "a/b"


def test_the_largest_come_first_and_the_choice_is_remembered(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for size, name in ((5, "A.nsp"), (900, "B.nsp"), (70, "C.nsp")):
        library.add(name, b"x" * size)
    scanner.scan()
    anna.goto("")
    see(anna, "A")
    set_library(anna, "Largest")
    until(lambda: names(anna) == ["B", "C", "A"])
    anna.reload()
    until(lambda: names(anna) == ["B", "C", "A"])


def test_the_library_is_filtered_by_file_type_and_by_what_was_not_sent(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Card.xci")
    library.add("Program.nro")
    scanner.scan()
    add(store, "Far away")
    deliver(store, "Card")
    set_clock(anna)
    anna.goto("")
    set_library(anna, "XCI")
    until(lambda: names(anna) == ["Card"])
    set_library(anna, "XCI")
    until(lambda: len(names(anna)) == 3)
    button(anna, "Not sent yet 2").click()
    until(lambda: names(anna) == ["Far away", "Program"])


DATE = """{
  const Real = Date;
  Date = class extends Real {
    constructor(...given) { super(...(given.length ? given : [NOW])); }
    static now() { return NOW; }
  };
}"""


def set_clock(page: Any, now: float = Clock().now) -> None:
    """Set the page's date to that of the store. Playwright's clock would also take its
    timers, so that the page polled as seldom as it does for people."""
    page.add_init_script(DATE.replace("NOW", str(int(now * 1000))))


def deliver(store: catalogd.Store, name: str) -> None:
    """Send the entry of a name to anna's device."""
    ids = {row["name"]: row["id"] for row in by_age(store)}
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
    assert anna.locator(".mark:not(.to-device)").all_text_contents() == ["update"]
    button(anna, "Send Paper Harbor").click()
    until(lambda: queued(store) == ["Paper Harbor - Update 1"])


def shelf(page: Any) -> dict[str, list[str]]:
    """Return the names of the titles on the shelf, by their part of it."""
    parts = page.locator(".shelf").all()
    return {
        part.locator("h2").inner_text(): part.locator(".entry-name").all_text_contents()
        for part in parts
    }


def dock(page: Any) -> list[str]:
    """Return the lines of the dock."""
    texts = page.locator(".dock .lane").all_inner_texts()
    return [line for text in texts for line in text.split("\n") if line]


def test_the_shelf_has_updates_and_stays_while_they_are_sent(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    """A first scan is not what came lately."""
    library.add("Far Away [0100ABCD00030000][v0].nsp")
    library.add("Paper Harbor [0100ABCD00010000][v0].nsp")
    scanner.scan()
    set_clock(anna)
    anna.goto("")
    see(anna, "2 titles")
    deliver(store, "Paper Harbor")
    anna.reload()
    see(anna, "2 titles")
    until(lambda: anna.locator(".first-run").count() == 0)
    assert shelf(anna) == {}
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    scanner.scan()
    until(lambda: shelf(anna) == {"Updates": ["Paper Harbor"]})
    button(anna.locator(".shelf"), "Send Paper Harbor").click()
    button(anna.locator(".shelf"), "Queued: Paper Harbor").wait_for()
    deliver(store, "Paper Harbor - Update 1")
    button(anna.locator(".shelf"), "Send again: Paper Harbor").wait_for()
    assert shelf(anna) == {"Updates": ["Paper Harbor"]}
    anna.get_by_label("Search the library").fill("far")
    until(lambda: shelf(anna) == {})


SHIFTS = """new PerformanceObserver(list => {
  window.shifts = [...(window.shifts || []), ...list.getEntries().map(
    ({value, sources}) => [value, sources.map(({node}) => node?.outerHTML)])];
}).observe({type: "layout-shift"})"""


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_moves_when_a_send_begins_or_ends(
    visit: Visit, store: catalogd.Store, site: str, key: str, size: Any
) -> None:
    for number in range(30):
        add(store, f"Game {number:02}")
    device = add_device(store, "Attic")
    deliver(store, "Game 29")
    page = visit(base_url=site, **options("light", size))
    sign_in(page, store, site, "anna")
    page.goto("")
    see(page, "Game 05")
    page.evaluate(TWO_FRAMES)
    page.evaluate(SHIFTS)
    place = page.locator(".entries .entry").nth(3).bounding_box()
    button(page, "Send Game 03").first.click()
    see(page.locator(".dock"), "Game 03: added to the queue of Attic.")
    item = store.queue.items(1)[-1]["id"]
    report(store, item, 40, key=device)
    page.evaluate("update({toasts: []})")
    until(lambda: "Game 03" in dock(page))
    assert page.locator(".entries .entry").nth(3).bounding_box() == place
    report(store, item, 100, key=device, status="completed")
    see(page, "Game 03 was sent.")
    page.locator(".dock").wait_for(state="detached")
    assert page.locator(".entries .entry").nth(3).bounding_box() == place
    assert page.evaluate("window.shifts || []") == []


def test_the_dock_has_lanes_side_by_side_and_one_on_a_phone(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    for number in range(4):
        device = add_device(store, f"Room {number}")
        store.queue.send(1, add(store, "Game" + " of the year" * number), device)
        report(store, store.queue.items(1)[-1]["id"], 40, key=device)
    for size, lanes in ((DESK, 3), (PHONE, 1)):
        page = visit(base_url=site, **options("light", size))
        sign_in(page, store, site, "anna")
        page.goto("")
        until(lambda page=page, lanes=lanes: page.locator(".lane").count() == lanes)
        boxes = [each.bounding_box() for each in page.locator(".lane").all()]
        assert len({(box["y"], box["height"]) for box in boxes}) == 1
        assert boxes[0]["height"] <= 96
        assert page.get_by_role("progressbar", name="Game").count() == lanes
        page.get_by_role("link", name=f"{4 - lanes} more").wait_for()
        page.locator(".dock").get_by_role("link", name="Game", exact=True).click()
        until(lambda page=page: page.locator(".lanes .lane").count() == 4)
        assert page.locator(".dock").count() == 0


def test_the_undo_of_a_send_is_in_the_dock_until_that_has_ended(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    for name in ("First", "Second"):
        add(store, name)
    anna.clock.install()
    anna.goto("")
    button(anna, "Send First").click()
    see(anna.locator(".dock"), "First: added to the queue of Attic.")
    report(store, store.queue.items(1)[0]["id"], 40, key=device)
    anna.clock.run_for(11_000)
    until(lambda: dock(anna)[:1] == ["First"])
    button(anna, "Send Second").click()
    see(anna.locator(".dock"), "Second: added to the queue of Attic. 1 title is first.")
    button(anna.locator(".dock .note-lane"), "Undo").click()
    button(anna, "Send Second").wait_for()
    button(anna.locator(".dock"), "Undo").click()
    until(lambda: store.queue.items(1)[0]["status"] == "cancelled")
    anna.locator(".dock").wait_for(state="detached")


STILL_CLOCK = """() => {
  window.now = 0;
  performance.now = () => window.now * 1000;
  window.matchMedia = () => ({matches: false});
  window.at = (now, bytes, toldAt = now, speed = 100) => {
    window.now = now;
    state.toldAt = toldAt * 1000;
    return bytesNow({id: "1", status: "processing", bytes, speed, size: 10000});
  };
}"""


def test_bytes_flow_between_reports_neither_back_nor_beyond_what_is_known(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("")
    see(anna, "Nothing here yet")
    anna.evaluate(STILL_CLOCK)
    reports = [(0, 0), (2.2, 220), (4.4, 300), (6.6, 660), (8.8, 700), (11, 710)]
    last = 0
    for (begins, bytes), (ends, _) in itertools.pairwise([*reports, (24, 0)]):
        for step in range(int((ends - begins) * 4)):
            now = begins + step / 4
            drawn = anna.evaluate("args => at(...args)", [now, bytes, begins])
            known = bytes + 100 * min(now - begins, 5)
            assert last <= drawn <= max(last, known)
            last = drawn
    assert 1209 < last <= 1210  # a speed is believed for five seconds
    assert anna.evaluate("at(30, 10)") == 10  # it begins again


def test_the_first_steps_tick_themselves_off(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    done = anna.locator(".first-run .is-done h3")
    anna.goto("")
    see(anna, "Put game files into ")
    assert done.count() == 0
    library.add("Paper Harbor.nsp")
    scanner.scan()
    until(lambda: done.count() == 1)
    assert done.inner_text().split() == ["Done:", "Find", "your", "games"]
    device = add_device(store, "Attic")
    until(lambda: done.count() == 2)
    see(anna.locator(".first-run"), "Press Send on a title")
    place = anna.locator(".entries .entry").bounding_box()
    button(anna, "Send Paper Harbor").click()
    until(lambda: store.queue.items(1))
    report(store, store.queue.items(1)[0]["id"], 40, key=device)
    until(lambda: "Paper Harbor" in dock(anna))
    until(lambda: done.count() == 3)
    report(store, store.queue.items(1)[0]["id"], 100, key=device, status="completed")
    see(anna, "Paper Harbor was sent.")
    assert anna.locator(".entries .entry").bounding_box() == place
    for view in ("Queue", "Library"):
        anna.get_by_role("link", name=view).click()
    until(lambda: names(anna) == ["Paper Harbor"])
    assert anna.locator(".first-run").count() == 0


def test_an_empty_library_has_no_count_of_the_queue(visit: Visit, demo: Demo) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["empty"](page, demo.address)
    assert page.locator(".count").count() == 0


def test_what_came_lately_is_on_the_shelf(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    for name in ("First", "Second", "Third"):
        add(store, name)
    clock.now += 29 * 86400
    add(store, "Night Ferry")
    deliver(store, "First")
    set_clock(anna, clock.now + 2 * 86400)
    anna.goto("")
    until(lambda: shelf(anna) == {"Recently added": ["Night Ferry"]})
    button(anna, "Recently added 1").click()
    until(lambda: names(anna) == ["Night Ferry"])
    assert shelf(anna) == {}


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
    assert marks == ["incomplete"]  # which matters more than that it is a link
    see(anna, "The disk with files of 1 title is not connected.")
    assert anna.locator(".is-away").inner_text().startswith("Away")


def test_a_card_tells_the_age_after_the_size_and_as_many_facts_as_fit(
    anna: Any, store: catalogd.Store
) -> None:
    base = "0100AAAABBBB0000"
    names = [f"Chess [{base}][v0]", f"Chess [{base[:-3]}800][v262144]"]
    add_files(store, [*names, *(f"Chess [0100AAAABBBB100{n}][v0]" for n in (1, 2, 3))])
    store.entries.set_ages([base], 7)
    anna.goto("")
    meta = anna.locator(".entries .meta")
    see(meta, "Update")
    facts = "5\xa0kB ·\xa07+ ·\xa0Update\xa04 ·\xa03\xa0add\u2011ons"
    assert meta.text_content() == facts  # which breaks before each dot


def test_a_title_whose_game_is_offline_is_marked(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Paper Harbor [0100ABCD00010000][v0].nsp")
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    scanner.scan()
    game = [file for file in store.entries.files() if "[v0]" in file.file.path]
    store.entries.apply(catalogd.Changes(offline=game))
    anna.goto("")
    see(anna, "partly offline")
    see(anna, "The disk with files of 1 title is not connected.")
    anna.get_by_role("link", name="Paper Harbor").click()
    dialog = anna.get_by_role("dialog")
    dialog.wait_for()
    marks = dialog.locator(".mark:not(.to-device)").all_text_contents()
    assert marks == ["partly offline", "offline"]


def test_a_click_on_send_is_answered_at_once(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    calls: list[Any] = []
    anna.route("**/web/send", lambda route: calls.append(route))
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    button(anna, "Queueing Paper Harbor").wait_for()
    until(lambda: anna.wait_for_timeout(20) or calls)
    assert button(anna, "Queued").count() == 0
    calls[0].continue_()
    button(anna, "Queued").wait_for()
    assert queued(store) == ["Paper Harbor"]


def remove_before_send(page: Any, store: catalogd.Store, entry: str) -> None:
    """Remove a link as soon as it is to be sent: a poll would take it off the page."""

    def remove(route: Any) -> None:
        store.entries.remove_link(entry)
        route.continue_()

    page.route("**/web/send", remove)


def test_a_rejected_send_is_undone(anna: Any, store: catalogd.Store) -> None:
    remove_before_send(anna, store, add(store, "Paper Harbor"))
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    see(anna, "Paper Harbor was not queued. There is no such entry.")
    assert button(anna, "Queued").count() == 0


def test_a_selection_is_sent_without_a_question_and_undone(
    anna: Any, store: catalogd.Store
) -> None:
    for number in range(12):
        add(store, f"Game {number}")
    anna.goto("")
    see(anna, "Game 1")
    button(anna, "Select").click()
    anna.get_by_label("Select Game 7").check()
    see(anna, "1 selected, 1 kB")
    anna.get_by_label("Search the library").fill("game 1")
    button(anna, "Select all 3 shown").click()
    button(anna, "Send 4").click()
    see(anna, "4 titles: added to the queue. Waits for a device.")
    assert {*queued(store)} == {f"Game {number}" for number in (1, 7, 10, 11)}
    button(anna, "Undo").click()
    until(lambda: queued(store) == [])


def test_shift_selects_a_range_which_survives_a_look_at_the_queue(
    anna: Any, store: catalogd.Store
) -> None:
    for number in range(9):
        add(store, f"Game {number}")
    anna.goto("")
    button(anna, "Select").click()
    anna.get_by_label("Select Game 6").check()
    anna.get_by_label("Select Game 3").click(modifiers=["Shift"])
    see(anna, "4 selected")
    anna.get_by_label("Select Game 5").click(modifiers=["Shift"])
    see(anna, "1 selected")
    anna.get_by_role("link", name="Queue").click()
    see(anna, "The queue is empty")
    assert button(anna, "Send 1").count() == 0
    anna.go_back()
    see(anna, "1 selected")
    assert anna.get_by_label("Select Game 6").is_checked()


def test_a_selection_names_the_entries_that_were_not_queued(
    anna: Any, store: catalogd.Store
) -> None:
    entries = [add(store, f"Game {number}") for number in range(2)]
    remove_before_send(anna, store, entries[0])
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 2 shown").click()
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


def test_a_download_whose_file_has_vanished_says_so(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    path = library.add("Paper Harbor.nsp")
    scanner.scan()
    anna.goto("")
    anna.get_by_role("link", name="Paper Harbor").click()
    pathlib.Path(path).unlink()
    anna.get_by_role("link", name="Download Paper Harbor").click()
    see(anna.get_by_role("dialog"), "Paper Harbor was not downloaded. The")
    assert "#title/" in anna.url


def test_send_says_why_a_title_on_an_unplugged_disk_cannot_be_sent(
    anna: Any, library: Library, store: catalogd.Store, scanner: catalogd.Scanner
) -> None:
    library.add("Away.nsp")
    scanner.scan()
    library.folder.rename(library.folder.with_name("unplugged"))
    scanner.scan()
    add(store, "Paper Harbor")
    anna.goto("")
    why = "Away was not queued. Its disk is not connected."

    def check(text: str = why) -> None:
        see(anna, text)
        button(anna.locator(".toast"), "Close").first.click()
        anna.locator(".toast").wait_for(state="detached")

    button(anna, "Send Away").wait_for()
    press_until(anna, "Tab", "Send Away")
    anna.keyboard.press("Enter")
    check()
    anna.get_by_role("link", name="Away").click()
    dialog = anna.get_by_role("dialog")
    button(dialog, "Send").click(force=True)  # it is marked as disabled
    check()
    dialog.locator(".part-name").click(force=True)
    check()
    button(dialog, "Close").click()
    button(anna, "Select").click()
    anna.get_by_label("Select Away").check()
    button(anna, "Send 1").click(force=True)
    check("1 title was not queued. Its disk is not connected.")
    anna.get_by_label("Select Paper Harbor").check()
    button(anna, "Send 2").click()
    see(anna, "1 title was not queued. Its disk is not connected.")
    assert queued(store) == ["Paper Harbor"]


def test_covers_that_failed_are_loaded_again_after_reconnecting(
    anna: Any, library: Library, store: catalogd.Store, scanner: catalogd.Scanner
) -> None:
    library.add("game.nro", PROGRAM)
    scanner.scan()
    (file,) = scanner.entries.files()
    store.queue.send(1, file.id)
    anna.route("**/web/icons/**", lambda route: route.abort())
    size = "document.querySelector('{} img.cover')?.naturalWidth"
    for place, view in (("main", ""), ("main", "#queue"), ("dialog", "#title/")):
        anna.goto(view + file.id if place == "dialog" else view)
        anna.locator(f"{place} .drawn").first.wait_for()
    anna.unroute("**/web/icons/**")
    anna.context.set_offline(True)
    see(anna, "Reconnecting to the server")
    anna.context.set_offline(False)
    for place, view in (("dialog", ""), ("main", "#queue"), ("main", "#library")):
        if view:
            anna.goto(view)
        until(lambda place=place: anna.evaluate(size.format(place)) == 8)


def test_an_admin_edits_an_entry_undoes_it_and_undoes_that(
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
    button(anna, "Undo").click()
    anna.get_by_role("dialog", name="Paper Harbor").wait_for()
    see(anna.get_by_role("dialog"), "v2.0")
    see(anna.get_by_role("dialog"), "Mind the rain.")


def test_a_member_cannot_edit(ben: Any, store: catalogd.Store) -> None:
    ben.goto(f"#title/{add(store, 'Paper Harbor')}")
    ben.get_by_role("dialog").get_by_role("link", name="Open Paper Harbor").wait_for()
    assert button(ben, "Edit").count() == 0


def test_a_link_is_added_and_removed(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/library")
    unfold_experts(anna)
    form = anna.get_by_role("region", name="Add a link")
    form.get_by_label("Name").fill("Yonder Isles")
    form.get_by_label("Address").fill("http://example.org/yonder.nro")
    form.get_by_label("Size in bytes").fill("64000000")
    form.get_by_role("button", name="Add").click()
    see(anna, "Yonder Isles was added.")
    anna.goto("#library")
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
    anna.goto("#settings/library")
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


def test_an_empty_library_names_its_folder_and_offers_a_scan(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    scanner.scan()
    anna.goto("")
    see(anna, f"Put game files into {library.folder}, and they appear here.")
    with anna.expect_request(lambda call: call.method == "POST") as call:
        button(anna, "Scan now").click()
    assert call.value.url.endswith("/web/scan")


@without_polls  # which try again too
def test_a_library_that_does_not_load_can_be_tried_again(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
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
    store.clients.report(1, store.queue.items(1)[0]["id"], report)
    store.accounts.add_key(1, HOSTILE, catalogd.hash_token("x"))
    store.accounts.add(HOSTILE, "none")
    counts = {"library": 2, f"title/{entry}": 3, "queue": 2}
    counts |= {"settings/devices": 1, "settings/people": 1}
    for view, count in counts.items():
        anna.goto(f"#{view}")
        until(lambda count=count: anna.get_by_text(HOSTILE).count() >= count)
    anna.goto("#library")
    assert anna.locator("img[src=x]").count() == 0
    assert anna.locator("script").count() == 1


STYLE = """node => [getComputedStyle(node).unicodeBidi,
  getComputedStyle(node).textAlign]"""
DISGUISED, PLAIN = "evil\u202egnp.exe\x07\u200b", "evil\ufffdgnp.exe\ufffd\ufffd"
HEBREW = "\u05e9\u05dc\u05d5\u05dd (2)"
SHOWN = """() => [document.title, document.body.innerText,
  ...Array.from(document.querySelectorAll("#app *"), node =>
    Array.from(node.attributes, ({value}) => value)).flat()].join("\\n")"""


def test_a_name_can_neither_hide_characters_nor_turn_its_sentence(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, DISGUISED, author=DISGUISED, kind="base")
    store.queue.send(1, entry)
    report(store, store.queue.items(1)[0]["id"], 40)
    store.accounts.add_key(1, DISGUISED, catalogd.hash_token("x"))
    store.accounts.add(HEBREW, "none")
    for view in ("library", f"title/{entry}", "queue", "settings/devices"):
        anna.goto(f"#{view}")
        until(lambda: anna.get_by_text(PLAIN).count() > 0)
        assert set(DISGUISED) & set(anna.evaluate(SHOWN)) <= set("evilgnp.exe")
    assert anna.title() == f"40 % {PLAIN} - catalogd"
    anna.goto("#settings/people")
    anna.get_by_label(f"More: \u2068{HEBREW}\u2069", exact=True).wait_for()
    style = anna.get_by_text(HEBREW, exact=True).evaluate(STYLE)
    assert style == ["plaintext", "left"]


def test_a_sentence_in_another_keeps_its_names_isolated(
    anna: Any, store: catalogd.Store
) -> None:
    other = store.accounts.add(HEBREW, "none")
    device = add_device(store, "Attic", account=other, shared=True)
    store.queue.send(other, add(store, "Paper Harbor"), device)
    anna.goto("#queue")
    see(anna, f"1 kB · \u2068from \u2068{HEBREW}\u2069\u2069")
    store.queue.send(1, add(store, f"\u2069{HEBREW}"), device)
    button(anna, f"Cancel \u2068\ufffd{HEBREW}\u2069").wait_for()


@pytest.mark.parametrize(
    ("locale", "size", "bytes_", "time"),
    [
        ("fi-FI", "1.5 MB", "1,500,000 B", "15 Jan 2027, 08:00"),
        ("en-US", "1.5 MB", "1,500,000 B", "Jan 15, 2027, 8:00 AM"),
    ],
)
def test_numbers_and_times_are_those_of_the_language_and_its_region(
    visit: Visit,
    store: catalogd.Store,
    site: str,
    key: str,
    locale: str,
    size: str,
    bytes_: str,
    time: str,
) -> None:
    facts = {"name": "Paper Harbor", "description": "", "version": ""}
    url = "http://example.org/a.nsp"
    entry = store.entries.add_link(url, 1_500_000, "nsp", facts, by="anna")
    page = visit(locale=locale, timezone_id="UTC")
    sign_in(page, store, site, "anna")
    page.goto(f"{site}#title/{entry}")
    see(page, f"link · {size}")
    button(page, "File details").click()
    see(page, bytes_)
    see(page.locator("dd"), time.replace(" AM", ""))


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


def test_a_library_of_300_files_has_one_card_a_title(kim: Any, house: Demo) -> None:
    rows = kim.request.get("/web/entries").json()["entries"]
    titles = {row.get("base_id", row["id"]) for row in rows}
    assert len(rows) >= 300
    see(kim, f"{len(titles)} titles")
    seen: set[str] = set()

    def see_more() -> bool:
        seen.update(names(kim))
        kim.locator(".entry").last.scroll_into_view_if_needed()
        return len(seen) >= len(titles)

    until(see_more)
    assert len(seen) == len(titles)


def test_send_queues_the_game_its_newest_update_and_its_add_ons(
    kim: Any, house: Demo
) -> None:
    card = find(kim, "Alpine Echo")
    meta = card.locator(".meta").inner_text().replace("\u2011", "-")
    assert re.fullmatch(r"\d+ kB · Update 4 · 3 add-ons", meta.replace("\xa0", " "))
    card.get_by_role("button").click()
    see(kim, "Alpine Echo: added to the queue.")
    names = waiting(house)
    assert names[0].startswith("Alpine Echo")
    assert names[1].startswith("Alpine Echo - Update 4")
    assert len(names) == 5


def test_beside_the_button_stands_what_it_will_send(kim: Any, house: Demo) -> None:
    dialog = open_title(kim, "Alpine Echo")
    send = dialog.get_by_role("button", name="Send")
    what = dialog.locator(".send-bar .meta")
    assert re.match(r"Game, update and 3 add-ons · \d+\xa0kB", what.inner_text())
    dialog.get_by_role("checkbox", name="Alpine Echo - Update 4").uncheck()
    assert what.inner_text().startswith("Game and 3 add-ons · ")
    dialog.get_by_role("checkbox", name="Alpine Echo - Update 3").check()
    send.click()
    see(kim, "Alpine Echo: added to the queue.")
    assert waiting(house)[1] == "Alpine Echo - Update 3"


def test_the_details_list_add_ons_by_number_and_tick_no_copy_or_older_update(
    kim: Any,
) -> None:
    dialog = open_title(kim, "Alpine Echo")
    older = dialog.locator(".part", has_text="Update 3")
    assert "superseded" in older.inner_text()
    assert not older.get_by_role("checkbox").is_checked()
    button(dialog, "Close").click()
    copy = open_title(kim, "Apprentice Baker").locator(".part", has_text="another copy")
    assert copy.count() == 1
    assert not copy.get_by_role("checkbox").is_checked()
    button(kim, "Close").click()
    parts = open_title(kim, "Star Garden").locator(".part")
    numbers = re.findall(r"Add-on (\d+)", "\n".join(parts.all_inner_texts()))
    assert [*map(int, numbers)] == [*range(1, 15)]
    button(kim, "Close").click()
    dialog = open_title(kim, "Lost Harbour")
    see(dialog, "The game itself is not in the library.")
    see(dialog.locator(".send-bar"), "update ·")


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


def test_two_thousand_add_ons_of_one_title_are_shown_in_part(
    anna: Any, store: catalogd.Store
) -> None:
    first = int(BASE, 16) + 0x1001
    ids = [f"{first + number:016X}" for number in range(2000)]
    add_files(store, [f"Paper Harbor - Add-on {each} [{each}][v0]" for each in ids])
    anna.goto("")
    anna.get_by_role("link", name="Paper Harbor").click()
    dialog = anna.get_by_role("dialog", name="Paper Harbor")
    see(dialog, "2,000 add-ons · 2.0 MB")
    boxes = dialog.locator("input[type=checkbox]")  # by its role it takes a minute
    assert boxes.count() == 100
    button(dialog, "Show all 2,000").click()
    until(lambda: boxes.count() == 2000)


def test_the_keyboard_alone_chooses_parts_and_sends(kim: Any, house: Demo) -> None:
    kim.keyboard.press("/")
    kim.keyboard.type("alpine echo")
    press_until(kim, "Tab", "Alpine Echo")
    kim.keyboard.press("Enter")
    kim.get_by_role("dialog").wait_for()
    press_until(kim, "Tab", "Alpine Echo - Update 4")
    kim.keyboard.press("Space")
    see(kim.locator(".send-bar"), "game and 3 add-ons ·")
    press_until(kim, "Tab", "Send")
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
    assert kim.evaluate("history.length") == 4, "with the search"


def test_search_filter_and_position_outlive_a_reload_and_back(kim: Any) -> None:
    set_library(kim, "Games")
    button(kim, "Not sent yet").click()
    kim.get_by_label("Search the library").fill("a")
    see(kim, " of ")
    before = names(kim)
    kim.evaluate("scrollTo(0, 900)")
    until(lambda: names(kim) != before)
    for away in (kim.reload, lambda: (kim.goto("/healthz"), kim.go_back())):
        away()
        # The browser scrolls on for a line that is drawn above what is in sight.
        until(lambda: 900 <= kim.evaluate("scrollY") < 950)
        assert kim.get_by_label("Search the library").input_value() == "a"
        unsent = button(kim, "Not sent yet")
        assert unsent.get_attribute("aria-pressed") == "true"


BOXES = "all => all.map(each => each.getBoundingClientRect().toJSON())"


def test_a_large_screen_is_filled_with_more_and_larger_covers(kim: Any) -> None:
    sizes = {}
    for width in (1280, 2560):
        kim.set_viewport_size({"width": width, "height": 1440})
        until(lambda width=width: kim.evaluate("innerWidth") == width)
        kim.evaluate(TWO_FRAMES)
        until(lambda: kim.locator(".entry").count() >= 30)
        boxes = kim.locator(".entry").evaluate_all(BOXES)[:20]
        columns = [box for box in boxes if box["y"] == boxes[0]["y"]]
        sizes[width] = (len(columns), columns[0]["width"])
        assert boxes[len(columns)]["y"] - boxes[0]["y"] == boxes[0]["height"] + 20
        assert columns[-1]["x"] + columns[-1]["width"] > width - 60
    assert sizes[2560] > sizes[1280]
    assert sizes[2560][1] > 1.1 * sizes[1280][1]


@pytest.fixture
def phone(visit: Visit, demo: Demo) -> Any:
    """A page on Robin's phone, not loaded yet."""
    page = visit(**options("light", PHONE))
    sign_in(page, demo.store, demo.address, "Robin")
    return page


def test_bars_and_sheets_on_a_phone_keep_their_margins(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    page = visit(base_url=site, **options("light", PHONE))
    sign_in(page, store, site, "anna")
    add(store, "Paper Harbor")
    page.goto("")
    bar, note = (
        page.locator(f".dock .{name}").bounding_box() for name in ("lane", "lane-text")
    )
    add_button = button(page.locator(".dock"), "Add a device").bounding_box()
    assert note["x"] == bar["x"] + 16
    assert add_button["x"] + add_button["width"] == bar["x"] + bar["width"] - 16
    add_device(store, "Attic")
    page.get_by_role("link", name="Paper Harbor").click()
    part = page.locator(".part").bounding_box()
    assert (part["x"], part["width"]) == (16, 390 - 2 * 16)
    button(page.locator(".send-bar"), "Send").click()
    toast = page.locator(".details .toast")
    toast.wait_for()
    top = page.locator(".send-bar").bounding_box()["y"]
    until(lambda: toast.evaluate("each => each.getBoundingClientRect().bottom") <= top)


def test_a_phone_begins_with_games(phone: Any, demo: Demo) -> None:
    VIEWS["one_device"](phone, demo.address)
    phone.locator(".lane").wait_for()
    assert phone.locator(".shelf").count() == 0
    assert phone.locator(".to-device").count() == 0  # there is no other, and it is fine
    assert button(phone, "Send Glass Heron").inner_text() == "Send"
    for layout in ("Covers", "Rows"):
        set_library(phone, layout)
        first = phone.locator(f".{layout.lower()} .entry").first
        assert first.bounding_box()["y"] <= MAX_HEAD


MAX_HEAD = 120  # pixels above the first title
MIDDLES = """all => all.map(each => each.getBoundingClientRect())
  .map(({top, height}) => top + height / 2)"""


def test_a_phone_has_its_head_in_a_row_and_its_chips_in_a_line(
    phone: Any, demo: Demo
) -> None:
    """Its buttons cover no chip, and the head is there before the titles are."""
    answer_devices(phone, DEVICES)
    unfinished(phone, demo.address)  # so that there is an inbox
    VIEWS["library"](phone, demo.address)
    button(phone, "Add games").wait_for()
    see(phone.locator(".strip"), "Living room")
    for width in (390, 320):
        show(phone, "light", {**PHONE, "width": width})
        until(lambda: phone.locator(".entry").first.bounding_box()["y"] <= MAX_HEAD)
        row = phone.locator(".top :is(input, .icon-button)").evaluate_all(MIDDLES)
        line = phone.locator(".strip :is(label, button)").evaluate_all(MIDDLES)
        assert len({*row}) == len({*line}) == 1
        assert line[0] - row[0] > 40


def test_the_head_is_there_before_the_titles(phone: Any, demo: Demo) -> None:
    VIEWS["loading"](phone, demo.address)
    phone.get_by_label("Search the library").wait_for()


def test_a_desktop_keeps_views_search_and_target_in_sight(
    visit: Visit, demo: Demo
) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["devices_library"](page, demo.address)
    for width in (768, 1280):
        resize(page, {**DESK, "width": width})
        page.evaluate("scrollTo(0, 900)")
        for label in ("Search the library", "Send to"):
            place = page.get_by_label(label).first.bounding_box()
            assert 0 <= place["y"] < 120
        assert page.get_by_role("link", name="Queue").first.bounding_box()["y"] >= 0


# The words of cards that are cut: those of which a part can be seen.
CUT_WORDS = r"""() => {
  const range = document.createRange();
  const isIn = (box, {left, right, top, bottom}) =>
    box.left > left - 3 && box.right < right + 3 && box.top > top - 3 &&
    box.bottom < bottom + 3;
  const isOut = (box, {right, bottom}) => box.top > bottom - 8 || box.left > right;
  const nodes = document.querySelectorAll(".entries :is(.entry-name, .meta)");
  return [...nodes].flatMap(node => {
    const [text, place] = [node.firstChild, node.getBoundingClientRect()];
    return [...(text.data || "").matchAll(/\S+/g)]
      .filter(({0: word, index}) => {
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        const boxes = [...range.getClientRects()];
        return !boxes.every(box => isIn(box, place) || isOut(box, place));
      })
      .map(([word]) => word);
  });
}"""


@pytest.mark.parametrize("layout", ["covers", "rows"])
def test_names_and_facts_of_cards_end_at_a_word(
    phone: Any, demo: Demo, layout: str
) -> None:
    def lengthen(body: dict[str, Any]) -> None:
        for number, entry in enumerate(body["entries"]):
            entry["name"] += " of the Unforgettable Northern Archipelago"[: 8 + number]

    change_answers(phone, lengthen, "entries")
    phone.add_init_script(f"localStorage.setItem('layout', '{layout}')")
    VIEWS["library"](phone, demo.address)
    phone.evaluate(SPEAK, ["de", json.loads(GERMAN.read_text("utf-8"))])
    for width in (320, 390, 768):
        show(phone, "light", {**PHONE, "width": width})
        assert phone.evaluate(CUT_WORDS) == []


def test_letters_lead_through_a_long_list_in_order(
    anna: Any, store: catalogd.Store
) -> None:
    words = ("Amber", "Émile", "Harbor", "Quiet", "Zebra")
    long = [f"{word} {number:03}" for word in words for number in range(50)]
    add_files(store, [*long, *(f"{number} Rooms" for number in range(9))])
    anna.goto("")
    letters = anna.locator(".letters span")
    letters.first.wait_for()
    assert letters.all_text_contents() == ["#", "A", "E", "H", "Q", "Z"]
    for letter, first in (("Q", "Quiet 000"), ("E", "Émile 000"), ("#", "0 Rooms")):
        letters.get_by_text(letter, exact=True).click()
        until(lambda first=first: is_on_top(anna, first))
    set_library(anna, "Largest")
    until(lambda: letters.count() == 0)
    set_library(anna, "Name")
    letters.first.wait_for()
    anna.get_by_label("Search the library").fill("quiet")
    until(lambda: letters.count() == 0)


def is_on_top(page: Any, name: str) -> bool:
    """Return whether the row with this title is the first one below the head."""
    card = page.locator(".entries .entry", has_text=name).first
    if not card.count():
        return False
    above = card.bounding_box()["y"] - page.locator(".top").bounding_box()["height"]
    return bool(-page.locator(".entry").first.bounding_box()["height"] < above < 200)


def test_a_phone_begins_with_covers_where_half_of_the_titles_have_a_picture(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    """Who has chosen keeps it."""
    page = visit(base_url=site, **options("light", PHONE))
    sign_in(page, store, site, "anna")
    for name in ("First", "Second"):
        add(store, name)
    page.goto("")
    page.locator(".entries.rows").wait_for()
    change_answers(page, lambda body: body["entries"][0].update(icon="a1"), "entries")
    page.reload()
    page.locator(".entries.covers").wait_for()
    left, right = (each.bounding_box() for each in page.locator(".entry").all())
    assert (left["y"], left["width"]) == (right["y"], right["width"])
    send = page.get_by_role("button", name="Send First").bounding_box()
    assert (send["width"], send["height"]) == (44, 44)
    names = page.locator(".covers .entry-name").all_inner_texts()
    assert names == ["First", "Second"]
    set_library(page, "Rows")
    page.reload()
    page.locator(".entries.rows").wait_for()


CUT = """() => [...document.querySelectorAll(".rows .entry")].flatMap(entry => {
  const row = entry.getBoundingClientRect();
  const isOut = ({top, bottom}) => top < row.top - 1 || bottom > row.bottom + 1;
  return [...entry.querySelectorAll(".entry-text, .entry-text *, .send")]
    .filter(node => node.matches(".mark, .send")
      ? node.scrollWidth > node.clientWidth + 1
      : node.offsetHeight && isOut(node.getBoundingClientRect()))
    .map(node => node.outerHTML.slice(0, 90));
})"""


def longest(tables: Sequence[Any]) -> Any:
    """Return a table with the longest of each text."""
    if isinstance(tables[0], str):
        return max(tables, key=len)

    def text(table: Any, name: str) -> Any:
        if isinstance(table, str):  # for all plurals
            return table
        return table.get(name) or table["other"]

    return {
        name: longest([text(table, name) for table in tables]) for name in tables[0]
    }


def test_rows_of_one_height_hold_the_longest_words_of_all_languages(
    phone: Any, demo: Demo
) -> None:
    found = [
        json.loads(path.read_text("utf-8")) for path in GERMAN.parent.glob("*.json")
    ]
    words = longest([catalogd.WORDS, *(table["words"] for table in found)])
    table = {**translation(), "words": words}
    phone.add_init_script("localStorage.setItem('layout', 'rows')")
    VIEWS["library"](phone, demo.address)
    phone.locator(".entries.rows").wait_for()
    phone.evaluate(SPEAK, ["de", table])
    for mode, width in itertools.product(("light", "large"), (390, 320)):
        show(phone, mode, {**PHONE, "width": width})
        assert phone.evaluate(CUT) == []


def test_filters_are_a_sheet_from_below_on_a_phone(phone: Any, demo: Demo) -> None:
    VIEWS["library"](phone, demo.address)
    sheet = phone.get_by_role("dialog", name="Sort and filter")
    for close in (lambda: phone.touchscreen.tap(200, 50), phone.go_back):
        button(phone, "Sort and filter").click()
        box = sheet.bounding_box()
        assert box["y"] > PHONE["height"] / 4
        assert box["y"] + box["height"] == PHONE["height"]
        button(sheet, "XCI").click()
        see(phone, "of 27 titles")
        close()
        sheet.wait_for(state="detached")
        until(lambda: not phone.evaluate(IN_DIALOG))
        button(phone, "Show all titles").click()
        see(phone, "27 titles")
    button(phone, "Updates 2").click()
    see(phone, "2 of 27 titles")


def test_send_stays_at_the_lower_edge_of_a_phone_in_one_line(
    phone: Any, demo: Demo
) -> None:
    VIEWS["details"](phone, demo.address)
    dialog = phone.get_by_role("dialog")
    send = button(dialog, "Send")
    for _ in range(2):
        box = send.bounding_box()
        assert PHONE["height"] - 100 < box["y"]
        assert box["y"] + box["height"] <= PHONE["height"]
        assert box["height"] < 50
        dialog.evaluate("each => each.scrollTo(0, each.scrollHeight)")
    tops = dialog.locator(".description, .has .plain").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)


DRAWINGS = """all => all.map(each => each.outerHTML)"""


def test_drawn_covers_differ_and_are_the_same_on_each_device(
    kim: Any, visit: Visit, demo: Demo
) -> None:
    """Each is made of a title's id alone, without a call to the server."""
    kim.set_viewport_size({"width": 1280, "height": 4000})
    drawn = kim.locator(".drawn")
    until(lambda: drawn.count() > 40)
    drawings = drawn.evaluate_all(DRAWINGS)
    assert len({*drawings}) > 0.8 * len(drawings)
    again = """ids => ids.map(id => {
        const place = document.createElement("p");
        patch(place, [renderDrawing(id)]);
        return place.innerHTML;
    })"""
    ids = [f"0100{number:08X}0000" for number in range(2000)]
    other = visit(base_url=demo.address, **options("dark", PHONE))
    other.goto("")
    assert kim.evaluate(again, ids) == other.evaluate(again, ids)
    assert len({*kim.evaluate(again, ids)}) > 700  # of 16 motifs, 4 turns, 12 palettes
