"""The queue, in a real Chromium."""

import statistics
import time
from typing import Any

import pytest

import catalogd
from browser import add, button, queued, report, sending, until
from screenshots import see


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
