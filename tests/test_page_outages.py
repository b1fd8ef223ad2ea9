"""The page and a server that does not answer, in a real Chromium."""

import collections
from typing import Any

import catalogd
from browser import button, report, see, sending, sign_in, until
from conftest import Visit
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


def test_what_was_sent_is_loaded_once_the_server_is_back(
    anna: Any, store: catalogd.Store
) -> None:
    report(store, sending(store), 100, status="completed")
    store.queue.clear(1, "9999", ())
    anna.route("**/web/sent", lambda route: route.abort(), times=1)
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
