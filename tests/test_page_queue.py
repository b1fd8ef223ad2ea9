"""The queue, in a real Chromium."""

import re
from typing import Any

import pytest

import catalogd
from browser import (
    add,
    add_device,
    button,
    focused,
    queued,
    report,
    see,
    sending,
    stop_clock,
    until,
)
from conftest import Clock


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
        report(store, item, percent)
        anna.clock.run_for(3000)
        see(anna, f"{percent} %")


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
    see(anna, "1 waiting")
    assert [row["status"] for row in store.queue.items(1)] == ["pending"]


def test_an_item_whose_file_is_on_the_target_may_replace_it(
    anna: Any, store: catalogd.Store
) -> None:
    item = sending(store)
    why = "The target has another Paper Harbor.nsp. Replace it with --overwrite."
    report(store, item, 0, status="failed", error_message=why)
    anna.goto("#queue")
    error = anna.locator(".error")
    see(error, "The target has another Paper Harbor.nsp.")
    assert "overwrite" not in error.inner_text(), "people have a button for that"
    button(anna, "Replace Paper Harbor").click()
    button(anna.get_by_role("dialog"), "Replace").click()
    see(anna, "1 waiting")
    [row] = store.clients.pending(1)
    assert row["replaces"]


def test_an_item_is_cancelled(anna: Any, store: catalogd.Store) -> None:
    sending(store)
    anna.goto("#queue")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "Cancelled")
    assert [row["status"] for row in store.queue.items(1)] == ["cancelled"]


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
    found: list[str] = page.locator(f"{row} h3").all_text_contents()
    return found


def test_an_item_moves_to_the_top_up_and_down(anna: Any, store: catalogd.Store) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    menu = anna.get_by_label("Move Third")
    for way, order in [
        ("To the top", ["Third", "First", "Second"]),
        ("Down", ["First", "Third", "Second"]),
        ("Up", ["Third", "First", "Second"]),
    ]:
        menu.focus()
        menu.select_option(way)
        until(lambda order=order: shown(anna) == order)
        assert focused(anna).startswith("Move Third")
    assert queued(store) == ["Third", "First", "Second"]
    anna.get_by_label("Move Second").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):  # open, top, up
        anna.keyboard.press(key)
    until(lambda: shown(anna) == ["Third", "Second", "First"])
    assert menu.locator("option:not([hidden])").all_text_contents() == ["Down"]


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
    assert anna.get_by_label("Move First").count() == 0
    see(anna, "Sending")
    anna.get_by_label("Cancel First").click()
    until(lambda: store.queue.items(1)[0]["status"] == "cancelled")


def test_a_group_tells_how_much_waits(anna: Any, store: catalogd.Store) -> None:
    device = add_device(store, "Attic")
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name), device)
    anna.goto("#queue")
    see(anna, "3 waiting, 3 kB")
    assert "about" not in anna.locator(".totals").text_content()
    item = store.queue.items(1)[0]["id"]
    report(store, item, 40, key=device, speed=13)
    see(anna, "2 waiting, 2 kB, about 3 min")
    report(store, item, 100, key=device, status="completed", speed=5)
    see(anna, "2 waiting, 2 kB, about 7 min")
    store.queue.send(1, add(store, "Fourth one"), device)
    last = store.queue.items(1)[-1]["id"]
    report(store, last, 1, key=device, speed=1)
    store.queue.cancel(1, last)
    report(store, last, 1, key=device, status="failed", speed=1)  # it has stopped
    see(anna, "Cancelled")
    see(anna, "2 waiting, 2 kB, about 7 min")


def test_an_item_that_waits_tells_what_is_there(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    store.queue.send(1, add(store, "First"), device)
    item = store.queue.items(1)[0]["id"]
    report(store, item, 40, key=device)
    store.clients.report(1, item, {"release": True, "key": device})
    anna.goto("#queue")
    see(anna, "400 B of 1 kB are there")


IN_SIGHT = """[...document.querySelectorAll(".item h3")]
  .filter(node => node.checkVisibility({contentVisibilityAuto: true}))
  .map(node => node.textContent)"""


@pytest.mark.parametrize("has_device", [True, False])
def test_how_much_waits_stands_beside_the_heading(
    anna: Any, store: catalogd.Store, has_device: bool
) -> None:
    device = add_device(store, "Attic") if has_device else None
    store.queue.send(1, add(store, "First"), device)
    anna.goto("#queue")
    see(anna, "1 waiting")
    heading = anna.locator(".items .head h2").bounding_box()
    totals = anna.locator(".totals").bounding_box()
    assert 0 < totals["x"] - (heading["x"] + heading["width"]) < 40


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


def test_an_item_rises_each_time_that_its_menu_is_asked(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third", "Fourth", "Fifth"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    for expected in (["First", "Second", "Fourth"], ["First", "Fourth", "Second"]):
        anna.get_by_label("Move Fourth").select_option("up")
        until(lambda expected=expected: shown(anna)[:3] == expected)
        assert anna.get_by_label("Move Fourth").input_value() == ""


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


def test_clearing_the_finished_items_can_be_undone(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    report(store, sending(store), 100, status="completed")
    later = sending(store, "Glass Heron")
    anna.clock.install()
    anna.goto("#queue")
    button(anna, "Clear finished").click()
    see(anna, "Finished items were cleared.")
    assert "Paper Harbor" not in shown(anna)
    button(anna, "Undo").click()
    until(lambda: "Paper Harbor" in shown(anna))
    anna.clock.run_for(11_000)
    until(lambda: "Paper Harbor" in shown(anna))
    button(anna, "Clear finished").click()
    clock.now += 1
    report(store, later, 100, status="completed")  # which was not shown as finished
    anna.clock.run_for(11_000)
    until(lambda: [row["id"] for row in store.queue.items(1)] == [later])
    until(lambda: shown(anna) == ["Glass Heron"])
    anna.get_by_role("link", name="Library").click()
    anna.clock.run_for(1000)
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
    see(anna, "Show 2 more")
    assert shown(anna)[:3] == ["Game 0", "Game 1", "Game 101"]
    assert "Cancelled · " in anna.inner_text("main")
    calls: list[Any] = []  # that still ask for less
    anna.route(re.compile("finished=100$"), lambda route: calls.append(route))
    until(lambda: anna.wait_for_timeout(20) or calls)
    store.queue.retry(1, items[0])
    button(anna, "Show 2 more").click()
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
    button(anna, "Clear finished").click()
    for name in ("First", "Second"):
        report(store, sending(store, name), 40, status="failed")
    button(anna, "Retry all failed").click()
    see(anna, "2 waiting")
    assert queued(store) == ["First", "Second"]


def test_the_end_of_a_run_is_told(anna: Any, store: catalogd.Store) -> None:
    device = add_device(store, "Attic")
    facts = {"kind": "base"}
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name, **facts), device)
    anna.add_init_script(NOTIFICATIONS)
    anna.goto("#queue")
    button(anna, "Notify me").click()
    see(anna, "2 waiting")
    for row in store.queue.items(1):
        report(store, row["id"], 100, key=device, status="completed")
    see(anna, "Second was sent.")
    see(anna, "All done: 2 games on Attic.")
    until(lambda: "catalogd: All done: 2 games on Attic." in anna.evaluate("notices"))
    store.queue.send(1, add(store, "Third"), device)
    see(anna, "1 waiting")
    item = store.queue.items(1)[-1]["id"]
    report(store, item, 100, key=device, status="completed")
    see(anna, "Third was sent.")
    assert sum("All done" in notice for notice in anna.evaluate("notices")) == 1


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
