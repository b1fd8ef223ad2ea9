"""Attempts at a queue item: how they are counted, why they failed, and their end."""

from typing import Any

import pytest

import catalogd
from conftest import Clock
from test_store import add_file, add_link, make, opened, send

LOST = {
    "error_code": "bytes_lost",
    "error_arguments": {"done": "2.4", "size": "4.8 MB"},
    "error_message": "2.4 of 4.8 MB bytes have arrived.",
}


@pytest.fixture
def anna(store: catalogd.Store) -> int:
    return store.accounts.add("anna", "x")


@pytest.fixture
def item(store: catalogd.Store, anna: int) -> str:
    return make(store, anna, add_link(store, "Celeste"), "processing")


def attempt(
    store: catalogd.Store, anna: int, item: str, kept: int = 0, **fields: Any
) -> tuple[str, int]:
    """Report why an item is tried again; its status, and the number of attempts."""
    report = {"status": "processing", "bytes_kept": kept, **LOST, **fields}
    return store.clients.report(anna, item, report), store.clients.attempts(item)


def row(store: catalogd.Store, anna: int) -> dict[str, Any]:
    [found] = store.queue.items(anna)
    return found


def test_three_attempts_without_progress_are_a_failure_with_a_reason(
    store: catalogd.Store, anna: int, item: str
) -> None:
    assert attempt(store, anna, item) == ("processing", 1)
    assert attempt(store, anna, item) == ("processing", 2)
    assert row(store, anna)["reason"] == "bytes_lost"
    assert attempt(store, anna, item) == ("failed", 3)
    failed = row(store, anna)
    assert (failed["status"], failed["error"]) == ("failed", LOST["error_message"])
    assert (failed["reason"], [*failed["arguments"]]) == (
        "bytes_lost",
        ["done", "size"],
    )


def test_more_bytes_than_ever_before_begin_the_count_anew(
    store: catalogd.Store, anna: int, item: str
) -> None:
    steps = [(100, 0), (100, 1), (50, 2), (101, 0), (100, 1), (101, 2)]
    for kept, count in steps:
        assert attempt(store, anna, item, kept) == ("processing", count)
    assert attempt(store, anna, item, 7) == ("failed", 3)


@pytest.mark.parametrize("way", ["retry", "replace"])
def test_the_count_is_the_items_until_somebody_retries_it(
    store: catalogd.Store, anna: int, item: str, way: str
) -> None:
    attempt(store, anna, item)
    store.clients.report(anna, item, {"release": True})
    assert row(store, anna)["reason"] == "bytes_lost"
    with opened(store.database.folder) as again:
        again.clients.report(anna, item, {"status": "processing"})
        assert attempt(again, anna, item) == ("processing", 2)
        assert row(again, anna)["reason"] == "bytes_lost"
    store.clients.report(anna, item, {"status": "failed"})
    store.clients.report(anna, item, {"status": "processing"})
    assert attempt(store, anna, item) == ("failed", 3)
    store.queue.retry(anna, item, way=way)
    assert store.clients.attempts(item) == 0
    assert "reason" not in row(store, anna)


def test_another_version_of_the_file_begins_the_count_anew(
    store: catalogd.Store, anna: int
) -> None:
    known = add_file(store, "A")
    item = make(store, anna, known.id, "processing")
    assert attempt(store, anna, item, 10) == ("processing", 0)
    for count in (1, 2):
        assert attempt(store, anna, item, 10) == ("processing", count)
    store.database.write("UPDATE entries SET mtime = 5", ())
    assert attempt(store, anna, item, 3) == ("processing", 0)
    assert attempt(store, anna, item, 3) == ("processing", 1)


def test_the_third_attempt_waits_for_a_disk_that_is_away(
    store: catalogd.Store, anna: int
) -> None:
    item = make(store, anna, add_file(store, "A").id, "processing")
    store.database.write("UPDATE entries SET state = 'offline'", ())
    for status in ("processing", "processing", "pending"):
        assert attempt(store, anna, item)[0] == status


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_an_attempt_at_what_has_ended_is_refused(
    store: catalogd.Store, anna: int, status: str
) -> None:
    item = make(store, anna, add_link(store, "A"), status)
    with pytest.raises(catalogd.Conflict):
        attempt(store, anna, item)


def test_what_was_completed_has_no_reason(
    store: catalogd.Store, anna: int, item: str
) -> None:
    attempt(store, anna, item)
    store.clients.report(anna, item, {"status": "completed"})
    assert "reason" not in row(store, anna)
    assert row(store, anna)["error"] == ""


def test_what_was_completed_unread_says_so_until_it_is_retried(
    store: catalogd.Store, anna: int, item: str
) -> None:
    unread = {"error_code": "file_unread", "error_arguments": {"name": "A.nsp"}}
    store.clients.report(anna, item, {"status": "completed", **unread})
    done = row(store, anna)
    assert (done["status"], done["reason"]) == ("completed", "file_unread")
    store.queue.retry(anna, item)
    assert "reason" not in row(store, anna)


def test_the_reason_of_a_failure_is_known_by_its_code(
    store: catalogd.Store, anna: int, item: str
) -> None:
    why = {"code": "disk_full", "arguments": {}}
    report = {
        "status": "failed",
        "error_message": "Elsewhere in English.",
        "error_code": "gave_up",
        "error_arguments": {"count": 1, "why": why},
    }
    store.clients.report(anna, item, report)
    found = row(store, anna)
    assert found["error"] == "Elsewhere in English."
    assert found["reason"] == "gave_up"
    full = {"code": "disk_full", "arguments": {}}
    assert found["arguments"] == {"why": full, "count": "1"}


def nested(depth: int) -> dict[str, Any]:
    """Arguments that have others in them, so deep."""
    inner = nested(depth - 1) if depth else {"why": "Off."}
    return {"why": {"code": "from_start", "arguments": inner}}


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("of_a_later_release", {}),
        ("gave_up", {"count": 3}),
        ("disk_full", {"more": "x"}),
        ("gave_up", {"count": 3, "why": {"code": "unknown", "arguments": {}}}),
        ("gave_up", {"count": 3, "why": {"code": ["disk_full"], "arguments": {}}}),
        ("gave_up", {"count": 3, "why": {"code": "disk_full"}}),
        ("from_start", nested(3)),
    ],
)
def test_an_unknown_code_shows_the_text_as_it_came(
    store: catalogd.Store, anna: int, item: str, code: str, arguments: dict[str, Any]
) -> None:
    fields: Any = {"error_code": code, "error_arguments": arguments}
    attempt(store, anna, item, **fields, error_message="As it came.")
    assert row(store, anna)["error"] == "As it came."
    assert "reason" not in row(store, anna)


def test_what_is_known_of_an_item_that_was_cancelled_is_forgotten(
    store: catalogd.Store, anna: int, item: str, clock: Clock
) -> None:
    store.clients.report(anna, item, {"status": "processing"})
    store.queue.cancel(anna, item)
    store.clients.write_figures()
    assert store.clients.progress.times(), "its client may tell what it leaves"
    clock.now += 301
    store.clients.write_figures()
    assert not store.clients.progress.times()


def test_how_far_an_item_is_is_written_while_it_is_sent(
    store: catalogd.Store, anna: int, item: str
) -> None:
    figures = {"progress_percent": 50, "bytes_transferred": 4_300_000_000}
    store.clients.report(anna, item, figures)
    before = store.database.version()
    store.clients.write_figures()
    assert store.database.version() > before
    before = store.database.version()
    store.clients.write_figures()  # nothing is new
    assert store.database.version() == before
    with opened(store.database.folder) as again:  # as after kill -9
        assert row(again, anna)["bytes"] == 4_300_000_000


def test_a_client_that_knows_no_codes_is_answered_as_before(
    store: catalogd.Store, anna: int
) -> None:
    item = send(store, anna, add_link(store, "A"))
    report = {"status": "processing", "error_message": "Not meant for this status."}
    for _ in range(5):
        assert store.clients.report(anna, item, report) == "processing"
    assert store.clients.attempts(item) == 0
    assert row(store, anna)["error"] == ""
