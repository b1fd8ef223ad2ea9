"""The page and a server that does not answer, in a real Chromium."""

import collections
import dataclasses
import re
from typing import Any

import pytest

import catalogd
from browser import (
    button,
    pause_polls,
    report,
    see,
    sending,
    sign_in,
    stop_clock,
    until,
)
from conftest import Visit, free_port
from example import served


def test_a_restart_of_the_server_during_a_transfer_is_survived(
    visit: Visit,
    store: catalogd.Store,
    settings: catalogd.Settings,
    scanner: catalogd.Scanner,
    key: str,
) -> None:
    item = sending(store)
    page = visit()
    settings = dataclasses.replace(settings, port=free_port())
    with served(catalogd.Web(store, settings, scanner)) as address:
        sign_in(page, store, address, "anna")
        page.goto(f"{address}#queue")
        see(page, "40 %")
    see(page, "Reconnecting to the server")
    see(page, "40 %")
    report(store, item, 60)
    with served(catalogd.Web(store, settings, scanner)):
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


def test_what_was_sent_is_loaded_once_the_server_is_back(
    anna: Any, store: catalogd.Store
) -> None:
    report(store, sending(store), 100, status="completed")
    store.queue.clear(1, "9999", ())
    anna.route("**/web/changes*", lambda route: route.abort(), times=1)
    anna.goto("")
    button(anna, "Send again: Paper Harbor").wait_for()
    assert anna.locator(".toast").count() == 0


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


def test_what_has_not_changed_is_not_sent_again(
    anna: Any, store: catalogd.Store
) -> None:
    sending(store)
    statuses: dict[str, list[int]] = collections.defaultdict(list)

    def note(answer: Any) -> None:
        statuses[re.sub(r".*/|\?.*", "", answer.url)].append(answer.status)

    anna.on("response", note)
    anna.goto("#queue")
    until(lambda: anna.wait_for_timeout(50) or len(statuses["changes"]) >= 3)
    assert statuses["changes"] == [200] + [304] * (len(statuses["changes"]) - 1)
    assert statuses["entries"] == [200]


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


COUNT_POLLS = """() => {
  const plain = poll;
  window.polling = 0;
  window.poll = async name => {
    polling += 1;
    await plain(name);
    polling -= 1;
  };
}"""


def calls_in_half_a_minute(page: Any) -> int:
    """Return how many calls the page makes while nothing happens, by its own clock. It
    stands still until the pause after a call has begun."""
    calls: list[Any] = []
    page.on("request", lambda call: calls.append(call))
    for _ in range(30):
        page.clock.run_for(1000)
        until(lambda: page.evaluate("polling") == 0)
    return len(calls)


@pytest.mark.parametrize("polls", [""])
def test_the_page_calls_seldom(anna: Any, store: catalogd.Store) -> None:
    item = sending(store)
    anna.clock.install()
    anna.goto("#queue")
    see(anna, "40 %")
    stop_clock(anna)
    anna.evaluate(COUNT_POLLS)
    pause_polls(anna)
    assert 8 <= calls_in_half_a_minute(anna) <= 15
    pause_polls(anna)
    report(store, item, 100, status="completed")
    anna.clock.run_for(3000)
    see(anna, "Paper Harbor was sent.")
    pause_polls(anna)
    assert 3 <= calls_in_half_a_minute(anna) <= 6
    anna.evaluate(HIDE, True)
    assert calls_in_half_a_minute(anna) == 0
    with anna.expect_response("**/web/changes*"):
        anna.evaluate(HIDE, False)
