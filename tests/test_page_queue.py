"""The queue, in a real Chromium."""

import re
from typing import Any

import pytest

import catalogd
from browser import (
    DESK,
    PHONE,
    add,
    add_device,
    add_files,
    button,
    deed,
    focused,
    pause_polls,
    queue_deed,
    queued,
    report,
    resize,
    see,
    sending,
    show,
    sign_in,
    stop_clock,
    until,
    violations,
)
from conftest import Clock, Visit


@pytest.mark.parametrize("polls", [""])
def test_progress_is_shown_within_three_seconds(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    anna.clock.install()
    anna.goto("#queue")
    see(anna, "40 %")
    see(anna, "6 s left · 100 B/s · 400 B of 1 kB")
    stop_clock(anna)
    for percent in (50, 60, 70):
        pause_polls(anna)
        report(store, item, percent)
        anna.clock.run_for(3000)
        see(anna, f"{percent} %")


@pytest.mark.parametrize(
    ("status", "why", "prefix", "text"),
    [
        (
            "processing",
            {"error_code": "ftp_full", "error_arguments": {"why": "552 No room"}},
            "Last attempt: ",
            "Letzter Versuch: Die Konsole ist voll",
        ),
        (
            "completed",  # and nobody compared it
            {"error_code": "file_unread", "error_arguments": {"name": "A.nsp"}},
            "",
            "Sie wurde nicht verglichen.",
        ),
    ],
)
def test_an_item_that_is_tried_again_or_was_not_compared_says_so(
    anna: Any, store: catalogd.Store, status: str, why: Any, prefix: str, text: str
) -> None:
    report(store, sending(store), 40, status=status, **why, error_message="As it came.")
    anna.goto("#queue")
    see(anna.locator(".board"), f"{prefix}As it came.")
    anna.evaluate("localStorage.language = 'de'")
    anna.reload()
    see(anna.locator(".board"), text)


def test_each_quarter_is_announced_and_a_whole_file_waits_for_the_console(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    assert anna.get_by_text("Waits for the console to finish").count() == 0
    report(store, item, 51)
    until(lambda: "Paper Harbor: 51 %" in anna.get_by_role("status").all_inner_texts())
    report(store, item, 100)
    see(anna, "Waits for the console to finish")


def test_an_item_whose_file_is_on_the_target_may_replace_it(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    why = "Another file Paper Harbor.nsp is there."
    of = {"name": "Paper Harbor.nsp"}
    told = {"error_code": "other_file", "error_arguments": of}
    report(store, item, 0, status="failed", **told, error_message=why)
    anna.goto("#queue")
    error = anna.locator(".error")
    see(error, why)
    assert "overwrite" not in error.inner_text(), "people have a button for that"
    see(anna, "Replace that file, or remove this.")
    button(anna, "Replace Paper Harbor").click()
    button(anna.get_by_role("dialog"), "Replace").click()
    see(anna, "1 waiting")
    [row] = store.clients.pending(1)
    assert row["replaces"]


def test_a_folder_of_the_console_is_chosen_where_its_own_takes_no_file(
    anna: Any, store: catalogd.Store
) -> None:
    device = store.devices.add(1, {"name": "Den", "target": "ftp://10.0.0.7:6000/"})
    store.queue.send(1, add(store, "Paper Harbor"), device)
    [item] = store.queue.items(1)
    of = {"folder": "/", "why": "551 No", "folders": "NAND install, SD Card install"}
    told = {"error_code": "ftp_no_files", "error_arguments": of}
    failed = {"status": "failed", **told, "key": device, "error_message": "No."}
    store.clients.report(1, item["id"], failed)
    anna.goto("#queue")
    deed(anna, "Send to the folder SD Card install", "Paper Harbor").click()
    see(anna, "1 waiting")
    [row] = store.devices.all()
    assert row["address"] == "ftp://10.0.0.7:6000/SD%20Card%20install"


def test_a_key_that_is_held_down_cancels_one_item(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    calls: list[str] = []
    anna.on("request", lambda call: calls.append(call.url))
    button(anna, "Cancel First").focus()
    anna.keyboard.down("Enter")
    see(anna, "2 waiting")
    until(lambda: focused(anna).startswith("Cancel "))
    for _ in range(5):
        anna.keyboard.down("Enter")
        anna.wait_for_timeout(20)
    anna.keyboard.up("Enter")
    assert len([call for call in calls if call.endswith("/cancel")]) == 1
    assert queued(store) == ["Second", "Third"]


def shown(page: Any, row: str = ".item") -> list[str]:
    """Return the names of items in their order on the page."""
    found: list[str] = page.locator(f"{row} :is(.lane-text h2, h3)").all_text_contents()
    return found


def test_an_item_moves_to_the_top_up_and_down(anna: Any, store: catalogd.Store) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    for way, order in [
        ("To the top", ["Third", "First", "Second"]),
        ("Down", ["First", "Third", "Second"]),
        ("Up", ["Third", "First", "Second"]),
    ]:
        deed(anna, way, "Third").click()
        until(lambda order=order: shown(anna) == order)
        assert focused(anna).endswith(" Third"), "in the menu, which stays open"
    assert queued(store) == ["Third", "First", "Second"]
    button(anna, "More: Second").focus()
    for key in ("Enter", "Tab", "Tab", "Enter"):  # open, top, up
        anna.keyboard.press(key)
    until(lambda: shown(anna) == ["Third", "Second", "First"])
    assert focused(anna) == "Up Second"
    deed(anna, "Down", "Third").wait_for()
    menu = anna.locator(".menu:popover-open")
    assert menu.locator("button").all_inner_texts() == ["Down"]
    anna.keyboard.press("Escape")
    menu.wait_for(state="detached")


def test_the_menu_of_a_row_at_the_end_of_a_low_window_opens_above_it(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.set_viewport_size({"width": 1280, "height": 400})
    anna.goto("#queue")
    deed(anna, "To the top", "Third").wait_for()
    opener, menu = button(anna, "More: Third"), anna.locator(".menu:popover-open")
    assert menu.bounding_box()["y"] < opener.bounding_box()["y"]
    assert menu.evaluate("node => node.scrollHeight - node.clientHeight") == 0


def test_an_offered_item_is_told_apart_and_stays_where_it_is(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name), device)
    item = store.queue.items(1)[0]["id"]
    store.clients.report(1, item, {"offered": True, "key": device})
    anna.goto("#queue")
    see(anna, "2 waiting, 2 kB")
    see(anna, "Offered to the console")
    assert button(anna, "More: First").count() == 0
    see(anna, "Sending")
    anna.get_by_label("Cancel First").click()
    until(lambda: store.queue.items(1)[0]["status"] == "cancelled")


def parts_of(store: catalogd.Store, name: str, base: str, count: int = 3) -> list[str]:
    """Queue a game with add-ons at once, and return the ids of its items."""
    facts = {"base_id": base, "title_id": base, "kind": "base"}
    parts = [add(store, name, **facts)]
    for number in range(1, count):
        facts |= {"kind": "add-on", "title_id": f"{int(base, 16) + 4096 + number:016X}"}
        parts.append(add(store, f"{name} - Pack {number}", **facts))
    store.queue.send_all(1, parts, None)
    rows = {row["entry"]: row["id"] for row in store.queue.items(1)}
    return [rows[part] for part in parts]


LEMON, MAPLE = "0100A00000000000", "0100A00000020000"


def test_the_parts_of_a_title_are_one_row_that_unfolds(
    anna: Any, store: catalogd.Store
) -> None:
    parts_of(store, "Lemon Kart", LEMON)
    store.queue.send(1, add(store, "Night Ferry"))
    anna.goto("#queue")
    see(anna, "2 waiting, 4 kB")
    until(lambda: shown(anna) == ["Lemon Kart", "Night Ferry"])  # by the entries
    anna.get_by_role("navigation").get_by_text("2", exact=True).wait_for()
    unfold = button(anna, "game and 2 add-ons")
    assert unfold.get_attribute("aria-expanded") == "false"
    unfold.focus()
    anna.keyboard.press("Enter")
    see(anna, "Pack 2")
    assert unfold.get_attribute("aria-expanded") == "true"
    assert focused(anna) == "game and 2 add-ons"
    labels = anna.locator(".row-parts h4").all_text_contents()
    assert labels == ["Game", "Pack 1", "Pack 2"]
    assert violations(anna) == []
    anna.get_by_label("Cancel Lemon Kart - Pack 1").click()
    button(anna, "game and add-on").wait_for()
    assert queued(store) == ["Lemon Kart", "Lemon Kart - Pack 2", "Night Ferry"]
    finished = anna.locator("section.items").last
    finished.get_by_role("heading", name="Lemon Kart - Pack 1").wait_for()
    button(anna, "game and add-on").click()
    until(lambda: anna.locator(".row-parts").count() == 0)


def test_a_row_that_is_unfolded_leaves_the_others_as_they_are(
    anna: Any, store: catalogd.Store
) -> None:
    parts_of(store, "Lemon Kart", LEMON)
    parts_of(store, "Maple Run", MAPLE)
    anna.goto("#queue")
    unfold = button(anna, "game and 2 add-ons")
    for row in range(2):
        unfold.nth(row).click()
        until(lambda row=row: unfold.nth(row).get_attribute("aria-expanded") == "true")
    assert anna.locator(".row-parts").count() == 2


def test_the_parts_of_a_title_are_moved_cancelled_and_retried_together(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    lemon = parts_of(store, "Lemon Kart", LEMON)
    maple = parts_of(store, "Maple Run", MAPLE, 2)
    store.queue.send(1, add(store, "Night Ferry"))
    anna.goto("#queue")
    for way, order in [
        ("Down", ["Maple Run", "Lemon Kart", "Night Ferry"]),
        ("Down", ["Maple Run", "Night Ferry", "Lemon Kart"]),
        ("Up", ["Maple Run", "Lemon Kart", "Night Ferry"]),
        ("To the top", ["Lemon Kart", "Maple Run", "Night Ferry"]),
    ]:
        deed(anna, way, "Lemon Kart").click()
        until(lambda order=order: shown(anna) == order)
    waiting = [row["id"] for row in store.clients.pending(1)]
    assert waiting[:-1] == [*lemon, *maple]
    deed(anna, "Attic", "Maple Run").click()
    until(lambda: [row["device"] for row in store.queue.items(1)].count(device) == 2)
    see(anna, "3 waiting, ")  # for the only device
    assert anna.get_by_text("3 waiting, ").count() == 1
    anna.get_by_label("Cancel Lemon Kart").click()
    button(anna, "Try again Lemon Kart").wait_for()
    assert queued(store) == ["Night Ferry"]
    button(anna, "Try again Lemon Kart").click()
    until(lambda: len(queued(store)) == 4)  # one call each
    anna.get_by_label("Cancel Lemon Kart").wait_for()


def test_a_row_tells_how_far_all_its_parts_are(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    sent, now, failed, *_ = parts_of(store, "Lemon Kart", LEMON, 5)
    report(store, sent, 100, status="completed")
    report(store, failed, 30, status="failed", error_message="The card is full.")
    report(store, now, 40)
    anna.goto("#queue")
    see(anna, "35 %")  # 1400 of 4000 bytes
    assert shown(anna, ".lane") == ["Lemon Kart"]
    text = anna.locator(".lane").inner_text()
    for fact in ("1 sent", "1 failed", "2 waiting", "1\xa0kB\xa0of\xa04\xa0kB"):
        assert fact in text
    see(anna, "The card is full.")
    deed(anna, "Try again", "Lemon Kart").click()
    see(anna, "3 waiting")
    for item in store.queue.items(1)[1:]:
        report(store, item["id"], 100, status="completed")
    until(lambda: shown(anna) == ["Lemon Kart"])
    clock.now += 60
    store.queue.send(1, store.queue.items(1)[0]["entry"])  # a send of its own
    until(lambda: shown(anna) == ["Lemon Kart", "Lemon Kart"])


def test_a_bar_is_seen_where_the_system_forces_colors(
    anna: Any, store: catalogd.Store
) -> None:
    store.queue.send(1, add(store, "Lemon Kart"))
    report(store, store.queue.items(1)[0]["id"], 40)
    for view, places in {"": ".dock", "#queue": "main"}.items():
        anna.goto(view)
        show(anna, "forced", DESK)
        bar = anna.locator(f"{places} .lane .progress")
        color = "node => getComputedStyle(node).backgroundColor"
        track, part = bar.evaluate(color), bar.locator("span").evaluate(color)
        assert anna.locator("body").evaluate(color) == track != part


def test_the_dock_has_as_many_lanes_as_have_room(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        device = add_device(store, f"Console of {name}")
        store.queue.send(1, add(store, name), device)
        report(store, store.queue.items(1)[-1]["id"], 40, key=device)
    for width, lanes in {390: 1, 768: 2, 1280: 3}.items():
        resize(anna, {**DESK, "width": width})
        anna.goto("about:blank")
        anna.goto("")
        anna.locator(".dock").wait_for()
        assert anna.locator(".dock .lane").count() == lanes
        more = anna.locator(".dock .more-lanes").all_inner_texts()
        assert more == [f"+{3 - lanes}"] * (lanes < 3)


def test_a_group_tells_how_much_waits(anna: Any, store: catalogd.Store) -> None:
    device = add_device(store, "Attic")
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name), device)
    anna.goto("#queue")
    see(anna, "3 waiting, 3 kB")
    assert "about" not in anna.locator(".items .meta").first.text_content()
    item = store.queue.items(1)[0]["id"]
    report(store, item, 40, key=device, speed=13)
    see(anna, "2 waiting, 2 kB, about 3 min")
    assert "about 3\xa0min" in anna.locator(".items .meta").first.text_content()
    report(store, item, 100, key=device, status="completed", speed=5)
    see(anna, "2 waiting, 2 kB, about 7 min")
    store.queue.send(1, add(store, "Fourth one"), device)
    last = store.queue.items(1)[-1]["id"]
    report(store, last, 1, key=device, speed=1)
    store.queue.cancel(1, last)
    report(store, last, 1, key=device, status="failed", speed=1)  # it has stopped
    see(anna, "Cancelled")
    see(anna, "2 waiting, 2 kB, about 7 min")


IN_SIGHT = """[...document.querySelectorAll(".item h3")]
  .filter(node => node.checkVisibility({contentVisibilityAuto: true}))
  .map(node => node.textContent)"""


def test_of_a_long_queue_only_what_is_in_sight_is_laid_out(
    anna: Any, store: catalogd.Store
) -> None:
    ids = [add(store, f"Game {n}") for n in range(1, 400)]
    store.queue.send_all(1, ids, None)
    anna.goto("#queue")
    see(anna, "399 waiting")
    assert len(shown(anna)) == 399, "so that the browser finds each by its name"
    until(lambda: 5 < len(anna.evaluate(IN_SIGHT)) < 60)
    assert anna.evaluate(IN_SIGHT)[0] == "Game 1"
    anna.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(lambda: anna.evaluate(IN_SIGHT)[-1] == "Game 399")
    until(lambda: 5 < len(anna.evaluate(IN_SIGHT)) < 60)


MOVE = """async () => {
  update({items: [...state.items].reverse()});
  await new Promise(queueMicrotask);
  return document.getAnimations().map(({effect}) => effect.getTiming().duration);
}"""


@pytest.mark.parametrize(
    ("motion", "durations"), [("no-preference", [180]), ("reduce", [])]
)
def test_a_title_that_moves_up_is_seen_to_move_unless_motion_is_reduced(
    visit: Visit,
    store: catalogd.Store,
    site: str,
    key: str,
    motion: str,
    durations: list[int],
) -> None:
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    page = visit(base_url=site, reduced_motion=motion)
    sign_in(page, store, site, "anna")
    page.goto("#queue")
    see(page, "2 waiting")
    until(lambda: page.evaluate("document.getAnimations().length") == 0)
    assert page.evaluate(MOVE) == durations


def test_all_waiting_items_are_cancelled_which_can_be_undone(
    anna: Any, store: catalogd.Store
) -> None:
    sending(store)
    parts_of(store, "Lemon Kart", LEMON, 2)  # a title, though of two files
    store.queue.send(1, add(store, "Second"))
    anna.goto("#queue")
    queue_deed(anna, "Cancel all waiting").click()
    see(anna, "2 titles were cancelled.")
    assert queued(store) == []
    see(anna, "40 %")
    button(anna, "Undo").click()
    until(lambda: len(queued(store)) == 3)
    see(anna, "2 waiting")


def test_a_cancelled_item_goes_back_to_its_place(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Cancel Second").focus()
    anna.keyboard.press("Enter")
    see(anna, "Second was cancelled.")
    until(lambda: shown(anna) == ["First", "Third", "Second"])
    button(anna, "Undo").focus()
    anna.keyboard.press("Enter")
    until(lambda: shown(anna) == ["First", "Second", "Third"])
    assert focused(anna) == "Queue"
    assert anna.locator(".toast").count() == 0
    assert queued(store) == ["First", "Second", "Third"]


def test_titles_that_are_cancelled_one_after_the_other_have_one_undo(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, "Paper Harbor")
    for name in ("Attic", "Den"):
        store.queue.send(1, entry, add_device(store, name))
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    see(anna, "2 waiting")
    cancel = button(anna, "Cancel Paper Harbor")
    for left in (1, 0):
        cancel.first.click()
        until(lambda left=left: anna.wait_for_timeout(20) or cancel.count() == left)
    see(anna, "Paper Harbor was cancelled.")
    for name in ("First", "Second"):
        button(anna, f"Cancel {name}").click()
        button(anna, f"Cancel {name}").wait_for(state="detached")
    see(anna, "3 titles were cancelled.")
    assert anna.locator(".toast").count() == 1
    button(anna, "Undo").click()
    until(lambda: anna.wait_for_timeout(20) or cancel.count() == 2)
    assert queued(store)[-2:] == ["First", "Second"]


@pytest.mark.parametrize("polls", [""])
def test_a_title_that_was_sent_is_told_once_all_of_its_files_are(
    anna: Any, store: catalogd.Store
) -> None:
    first, second = parts_of(store, "Paper Harbor", "0100AAAA00000000", 2)
    report(store, first, 10)
    anna.goto("#queue")
    see(anna, "5 %")
    report(store, first, 100, status="completed")
    report(store, second, 10)
    anna.evaluate("poll('queue')")
    until(lambda: anna.evaluate("state.items[0].status") == "completed")
    assert anna.locator(".toast").count() == 0
    report(store, second, 100, status="completed")
    see(anna.locator(".toast"), "Paper Harbor was sent.")
    assert anna.locator(".toast").count() == 1


def test_whoever_sent_a_title_is_told_that_another_has_cancelled_it(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    anna.goto("#queue")
    see(anna, "40 %")
    store.queue.cancel(1, item)
    see(anna.locator(".toast"), "Paper Harbor was cancelled.")
    assert button(anna.locator(".toast"), "Undo").count() == 0


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["390", "1280"])
def test_a_toast_does_not_cover_the_row_that_it_is_about(
    anna: Any, store: catalogd.Store, size: dict[str, int]
) -> None:
    names = [f"Title {n:02}" for n in range(30)]
    for name in names:
        store.queue.send(1, add(store, name))
    anna.set_viewport_size(size)
    anna.goto("#queue")
    see(anna, "30 waiting")
    for name in (names[2], names[20]):
        row = anna.get_by_role("heading", name=name)
        row.evaluate("each => each.scrollIntoView({block: 'end'})")
        anna.evaluate(
            f"tell({{kind: '{name}', names: {{[state.items.find(item =>"
            f" item.name === '{name}').title]: ''}}, say: () => 'Told'}})"
        )
        toast = anna.locator(".toast").bounding_box()
        box = row.locator("xpath=ancestor::li").bounding_box()
        is_below = box["y"] + box["height"] <= toast["y"]
        assert is_below or box["y"] >= toast["y"] + toast["height"]
        anna.evaluate("update({toasts: []})")


def test_what_is_sent_goes_on_after_an_undo_or_starts_again_if_nothing_is_left(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    anna.goto("#queue")
    for left, text in (
        ({"release": True, "bytes_transferred": 300}, "300 B of 1 kB are there"),
        ({"release": True}, "will start from the beginning"),
    ):
        see(anna, "40 %")
        button(anna, "Cancel Paper Harbor").click()
        see(anna, "Paper Harbor was cancelled.")
        store.clients.report(1, item, left)
        button(anna, "Undo").click()
        see(anna, text)
        assert queued(store) == ["Paper Harbor"]
        report(store, item, 40)


def test_an_undo_tells_of_all_titles_that_start_again(
    anna: Any, store: catalogd.Store
) -> None:
    items = [sending(store, name) for name in ("First", "Second")]
    anna.goto("#queue")
    for name in ("First", "Second"):
        button(anna, f"Cancel {name}").click()
    see(anna, "2 titles were cancelled.")
    for item in items:
        store.clients.report(1, item, {"release": True})
    button(anna, "Undo").click()
    see(anna, "2 titles wait again, and will start from the beginning.")


def test_what_was_cancelled_is_not_tried_again_once_it_was_sent_anew(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    ids = {name: add(store, name) for name in ("First", "Second")}
    for entry in ids.values():
        store.queue.send(1, entry)
    store.queue.cancel_waiting(1)
    anna.goto("#queue")
    button(anna, "Try again First").wait_for()
    clock.now += 60
    store.queue.send(1, ids["First"])
    see(anna, "1 waiting")
    assert anna.get_by_text("Cancelled", exact=True).count() == 2
    assert button(anna, "Try again").count() == 1
    button(anna, "Try again Second").wait_for()


def test_an_item_says_whether_its_disk_is_away_or_its_file_is_gone(
    anna: Any, store: catalogd.Store
) -> None:
    add_files(store, ["First", "Second"])
    first, second = store.entries.files()
    for file in (first, second):
        store.queue.send(1, file.id)
    store.entries.apply(catalogd.Changes(gone=[first], offline=[second]))
    anna.goto("#queue")
    rows = anna.locator(".item")
    see(rows.filter(has_text="First"), "Its files were moved away or deleted.")
    see(rows.filter(has_text="Second"), "Waiting for its disk")
    assert anna.get_by_text("Waiting for its disk").count() == 1


def test_what_was_changed_in_another_tab_is_not_undone(
    anna: Any, store: catalogd.Store
) -> None:
    store.queue.send(1, add(store, "First"))
    anna.goto("#queue")
    other = anna.context.new_page()
    other.goto(anna.url)
    button(other, "Cancel First").click()
    see(other, "First was cancelled.")
    queue_deed(anna, "Clear finished").click()
    see(anna, "The queue is empty")
    button(other, "Undo").click()
    see(other, "What was changed in the meantime stays as it is.")
    button(anna, "Undo").click()
    see(anna, "Cancelled")


def test_what_a_refused_undo_has_left_is_shown_at_once(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    anna.clock.install()
    anna.goto("#queue")
    see(anna, "2 waiting")
    stop_clock(anna)  # so that no poll comes by itself
    queue_deed(anna, "Cancel all waiting").click()
    see(anna, "2 titles were cancelled.")
    for row in store.queue.items(1):
        store.queue.retry(1, row["id"])
    button(anna, "Undo").click()
    see(anna, "What was changed in the meantime stays as it is.")
    see(anna, "2 waiting")


def test_clearing_the_finished_items_can_be_undone(
    anna: Any, store: catalogd.Store
) -> None:
    report(store, sending(store), 100, status="completed")
    later = sending(store, "Glass Heron")
    anna.goto("#queue")
    queue_deed(anna, "Clear finished").click()
    see(anna, "Finished items were cleared.")
    until(lambda: "Paper Harbor" not in shown(anna))
    button(anna, "Undo").click()
    until(lambda: "Paper Harbor" in shown(anna))
    queue_deed(anna, "Clear finished").click()
    until(lambda: "Paper Harbor" not in shown(anna))
    report(store, later, 100, status="completed")
    until(lambda: shown(anna) == ["Glass Heron"])
    anna.get_by_role("link", name="Library").click()
    anna.locator(".mark", has_text="sent").first.wait_for()


def test_finished_items_are_in_the_order_of_time_and_a_hundred_at_first(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    for n in range(102):
        store.queue.send(1, add(store, f"Game {n}"))
    items = [row["id"] for row in store.queue.items(1)]
    for item in items[2:]:
        report(store, item, 100, status="completed")
    clock.now += 60
    report(store, items[1], 40)
    store.queue.cancel(1, items[1])
    report(store, items[1], 40, status="failed")  # its client has stopped
    clock.now += 60
    report(store, items[0], 40, status="failed")
    anna.goto("#queue")
    see(anna, "Show more")
    assert shown(anna)[:3] == ["Game 0", "Game 1", "Game 101"]
    assert "Cancelled" in anna.inner_text("main")
    calls: list[Any] = []  # that still ask for less
    anna.route(re.compile("finished=100$"), lambda route: calls.append(route))
    until(lambda: anna.wait_for_timeout(20) or calls)
    store.queue.retry(1, items[0])
    button(anna, "Show more").click()
    until(lambda: len(shown(anna)) == 102)
    for call in calls:
        call.fulfill(response=call.fetch())
    see(anna, "Game 2")
    assert len(shown(anna)) == 102


def test_all_failed_items_are_retried_but_those_that_were_cleared(
    anna: Any, store: catalogd.Store
) -> None:
    report(store, sending(store, "Cleared"), 40, status="failed")
    anna.goto("#queue")
    queue_deed(anna, "Clear finished").click()
    for name in ("First", "Second"):
        report(store, sending(store, name), 40, status="failed")
    queue_deed(anna, "Retry all failed").click()
    see(anna, "2 waiting")
    assert queued(store) == ["First", "Second"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("completed", "Paper Harbor was sent."),
        ("failed", "Paper Harbor was not sent."),
    ],
)
def test_the_title_tells_how_far_an_item_is_and_a_toast_how_it_ended(
    anna: Any, store: catalogd.Store, status: str, told: str
) -> None:
    """In the queue, which says more of a failure, no toast does."""
    item = sending(store)
    anna.goto("")
    until(lambda: anna.title() == "40 % Paper Harbor - catalogd")
    report(store, item, 90, status=status, error_message="The cable came off.")
    see(anna.locator(".toasts"), told)
    assert anna.title() == "catalogd"
    if status == "failed":
        button(anna.locator(".toasts"), "Queue").click()
        see(anna, "The cable came off.")
        report(store, sending(store, "Second"), 90, status="failed")
        see(anna, "The device gave no reason.")
        assert anna.locator(".toast").count() == 0


def test_what_was_sent_is_told_together_and_pushes_no_undo_out(
    anna: Any, store: catalogd.Store
) -> None:
    names = ("First", "Second", "Third", "Fourth")
    items = [sending(store, name) for name in names]
    anna.clock.install()
    anna.goto("#queue")
    button(anna, "Cancel First").wait_for()
    stop_clock(anna)  # an Undo is there for ten seconds
    button(anna, "Cancel First").click()
    button(anna, "Undo").wait_for()
    for item in items[1:]:
        report(store, item, 100, status="completed")
    anna.evaluate("pollAll()")
    see(anna, "3 titles were sent.")
    assert button(anna, "Undo").count() == 1


def test_a_long_name_takes_three_lines_of_a_phone(
    anna: Any, store: catalogd.Store
) -> None:
    name = "The Lighthouse Keeper and " * 5
    store.queue.send(1, add(store, name.strip()))
    anna.set_viewport_size({"width": 390, "height": 844})
    anna.goto("#queue")
    heading = anna.get_by_role("heading", name="The Lighthouse Keeper")
    lines = heading.evaluate(
        "each => each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight)"
    )
    assert round(lines) == 3
