"""Calls, dialogs and forms of the page, where a server is slow or a hand slips."""

import collections
import dataclasses
import functools
import re
import socket
from typing import Any

import pytest

import catalogd
from browser import (
    IN_DIALOG,
    PHONE,
    add,
    add_device,
    add_files,
    button,
    choose_computer,
    choose_program,
    choose_way,
    deed,
    fill_name,
    focused,
    pause_polls,
    queued,
    report,
    see,
    sending,
    sign_in,
    stop_clock,
    unfold_experts,
    until,
)
from conftest import PASSWORD, Visit, free_port
from example import served

EDIT = "Edit Paper Harbor"


class Held:
    """The first calls with a method, which the page gets no answer to yet."""

    def __init__(
        self, page: Any, path: str, method: str = "POST", count: int = 99
    ) -> None:
        self.page = page
        self.method = method
        self.count = count
        self.calls: list[Any] = []
        page.route(path, self.hold)

    def hold(self, route: Any) -> None:
        if route.request.method == self.method and len(self.calls) < self.count:
            self.calls.append(route)
        else:
            route.continue_()

    def reach_server(self, count: int = 1) -> None:
        until(lambda: self.page.wait_for_timeout(20) or len(self.calls) >= count)
        self.answers = [call.fetch() for call in self.calls]

    def answer(self) -> None:
        for call, answer in zip(self.calls, self.answers, strict=True):
            call.fulfill(response=answer)


IS_IN_REACH = """node => {
  const {x, y, width, height} = node.getBoundingClientRect();
  return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


def is_in_reach(target: Any) -> bool:
    """Return whether a tap on the middle of an element reaches it."""
    reached: bool = target.evaluate(IS_IN_REACH)
    return reached


def poll(page: Any) -> None:
    """Have the page call the server now."""
    page.evaluate("dispatchEvent(new Event('online'))")


def disconnect(page: Any) -> None:
    page.route("**/web/**", lambda route: route.abort())
    poll(page)
    see(page, "Reconnecting to the server")


def connect(page: Any) -> None:
    page.unroute("**/web/**")
    poll(page)
    page.get_by_text("Reconnecting").wait_for(state="detached")


def open_details(page: Any) -> Any:
    """Open a title by a click, and return the dialog."""
    page.get_by_role("link", name="Paper Harbor").first.click()
    page.get_by_role("dialog").wait_for()
    return page.get_by_role("dialog")


# Calls


def test_a_frozen_server_is_shown_after_ten_seconds(
    visit: Visit, settings: catalogd.Settings, scanner: catalogd.Scanner, key: str
) -> None:
    add(scanner.store, "Paper Harbor")
    page, calls = visit(), list[str]()
    page.clock.install()
    for event in ("request", "requestfinished", "requestfailed"):
        page.on(event, lambda call: calls.append(call.url))
    settings = dataclasses.replace(settings, port=free_port())
    with served(catalogd.Web(scanner.store, settings, scanner)) as address:
        sign_in(page, scanner.store, address, "anna")
        page.goto(address)
        button(page, "Send Paper Harbor").wait_for()
        stop_clock(page)
        until(lambda: page.wait_for_timeout(20) or len(calls) % 2 == 0)
    place = (settings.host, settings.port)
    with socket.create_server(place):  # accepts, and never answers
        button(page, "Send Paper Harbor").click()
        button(page, "Queueing Paper Harbor").wait_for()
        page.clock.run_for(9_000)
        assert page.get_by_text("Reconnecting").count() == 0
        page.clock.run_for(2_000)
        see(page, "Reconnecting to the server")
        see(page, "the queue shows whether Paper Harbor is in it.")
        button(page, "Send Paper Harbor").wait_for()
    with served(catalogd.Web(scanner.store, settings, scanner)):
        page.clock.resume()
        page.get_by_text("Reconnecting").wait_for(state="detached")


SLOW_LIST = """
const set = setTimeout, {json} = Response.prototype;
setTimeout = (work, pause, ...more) =>
  set(work, pause < 10000 ? pause : pause / 20, ...more);
Response.prototype.json = async function () {
  if (this.url.endsWith("/web/entries")) await new Promise(go => setTimeout(go, 20000));
  return json.call(this);
};
"""


def test_a_long_list_may_take_longer_to_arrive(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.add_init_script(SLOW_LIST)  # twenty times as fast
    anna.goto("")
    see(anna, "Paper Harbor")


def test_a_call_of_an_ended_session_does_nothing(
    anna: Any, store: catalogd.Store
) -> None:
    anna.clock.install()
    anna.goto("#settings/devices")
    see(anna, "The consoles and SD cards that games are sent to.")
    held = Held(anna, "**/web/keys")
    unfold_experts(anna)
    anna.get_by_label("What is it for?").fill("Laptop")
    button(anna, "Create key").click()
    held.reach_server()
    anna.get_by_role("link", name="You").click()
    anna.get_by_role("button", name="Sign out", exact=True).click()
    button(anna, "Sign in").wait_for()
    held.answer()
    calls: list[str] = []
    anna.on("request", lambda call: calls.append(call.url))
    anna.clock.run_for(30_000)
    assert calls == []
    store.accounts.add("ben", catalogd.hash_password("correct horse"))
    anna.get_by_label("Name").fill("ben")
    anna.get_by_label("Password").fill("correct horse")
    button(anna, "Sign in").click()
    anna.get_by_role("link", name="Settings").click()
    anna.get_by_role("link", name="Devices").click()
    unfold_experts(anna)
    see(anna, "There is no key yet.")
    assert anna.locator("code").count() == 0
    assert anna.get_by_text("It is shown only now.").count() == 0
    assert anna.locator(".toast").count() == 0


@pytest.mark.parametrize("everywhere", [False, True])
def test_signing_out_tells_of_no_ended_session(
    anna: Any, store: catalogd.Store, everywhere: bool
) -> None:
    """Other calls are told that the session has ended before the one that ended it."""
    add(store, "Paper Harbor")
    store.accounts.add_session(1, catalogd.hash_token("x"), "Chrome/99 Android")
    anna.goto("#settings/you")
    held = Held(anna, "**/web/sessions/end" if everywhere else "**/web/logout")
    if everywhere:
        anna.get_by_label("revoke my keys").check()
        button(anna, "Sign out everywhere").click()
        button(anna.get_by_role("dialog"), "Sign out everywhere").click()
    else:
        anna.get_by_role("button", name="Sign out", exact=True).click()
    held.reach_server()
    with anna.expect_response(lambda answer: answer.status == 403):
        poll(anna)
    held.answer()
    button(anna, "Sign in").wait_for()
    ended = anna.get_by_text("You were signed out. Sign in again.")
    if everywhere:
        see(anna, "You were signed out in all browsers.")
        assert store.accounts.sessions(1) == store.accounts.keys(1) == []
    assert ended.count() == anna.get_by_text("Paper Harbor").count() == 0
    anna.reload()
    button(anna, "Sign in").wait_for()
    assert anna.get_by_text("Paper Harbor").count() == 0


def test_signing_out_that_gets_no_answer_asks_whether_the_session_has_ended(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/you")
    held = Held(anna, "**/web/logout")
    anna.get_by_role("button", name="Sign out", exact=True).click()
    held.reach_server()
    held.calls.pop().abort()
    see(anna, "You were signed out. Sign in again.")
    button(anna, "Sign in").wait_for()


# Dialogs


def escape(page: Any) -> None:
    """Close a dialog, and wait until the browser has stepped back."""
    page.keyboard.press("Escape")
    until(lambda: not page.evaluate(IN_DIALOG))


def test_on_a_phone_what_fails_is_seen_above_the_dialog(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    add(store, "Paper Harbor")
    page = visit(base_url=site, viewport=PHONE, has_touch=True)
    sign_in(page, store, site, "anna")
    page.goto("")
    dialog = open_details(page)
    disconnect(page)
    button(dialog, "Send").tap()
    see(page, "the queue shows whether Paper Harbor is in it.")
    for text in (".toast", ".bar"):
        until(functools.partial(is_in_reach, page.locator(text)))
    connect(page)
    button(dialog, EDIT).tap()
    assert page.locator(".toast").count() == 1
    until(lambda: is_in_reach(button(dialog, "Save")))
    button(dialog, "Remove the link").tap()
    disconnect(page)
    until(lambda: is_in_reach(page.locator(".question .bar")))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_bar_leaves_the_search_free(
    visit: Visit, store: catalogd.Store, site: str, key: str, width: int
) -> None:
    for number in range(40):
        add(store, f"Game {number}")
    page = visit(base_url=site, viewport={"width": width, "height": 700})
    sign_in(page, store, site, "anna")
    page.goto("")
    see(page, "Game 1")
    disconnect(page)
    search = page.get_by_label("Search the library")
    for y in (0, 400):
        page.evaluate("y => scrollTo(0, y)", y)
        until(lambda: is_in_reach(search))
        until(lambda: is_in_reach(page.locator(".bar")))


def test_a_drag_out_of_a_dialog_does_not_close_it(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    dialog = open_details(anna)
    box = dialog.bounding_box()
    inside, outside = (box["x"] + 20, box["y"] + 20), (box["x"] - 40, box["y"] - 20)
    for begin, end in ((inside, outside), (outside, inside)):
        anna.mouse.move(*begin)
        anna.mouse.down()
        anna.mouse.move(*end)
        anna.mouse.up()
    anna.wait_for_timeout(50)
    assert dialog.is_visible()
    anna.mouse.click(*outside)
    dialog.wait_for(state="detached")


def test_back_closes_what_is_open_and_stays_on_the_page(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("#settings/devices")
    see(anna, "The consoles and SD cards that games are sent to.")
    length = anna.evaluate("history.length")
    dialog = anna.get_by_role("dialog")
    ways = (anna.go_back, lambda: escape(anna), anna.reload)
    for opener in ("Add a device", "Revoke switch"):
        for close in ways:
            unfold_experts(anna)
            button(anna, opener).click()
            dialog.wait_for()
            close()
            dialog.wait_for(state="detached")
            until(lambda: not anna.evaluate(IN_DIALOG))
            assert anna.url.endswith("#settings/devices")
    assert anna.evaluate("history.length") == length + 1
    unfold_experts(anna)
    button(anna, "Revoke switch").click()  # and what Back has closed can be asked again
    button(dialog, "Revoke").click()
    see(anna, "There is no key yet.")


def test_back_closes_a_question_and_then_the_details(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, "Paper Harbor")
    anna.goto(f"#title/{entry}")
    button(anna, EDIT).click()
    button(anna, "Remove the link").click()
    anna.locator(".question").wait_for()
    anna.go_back()
    anna.locator(".question").wait_for(state="detached")
    button(anna, "Save").wait_for()
    button(anna, "Close").click()
    anna.get_by_role("dialog").wait_for(state="detached")
    open_details(anna)
    anna.go_back()
    anna.get_by_role("dialog").wait_for(state="detached")
    see(anna, "1 title")


def test_escape_closes_what_is_seen_and_no_form_behind_it(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Attic")
    add(store, "Paper Harbor")
    name = anna.get_by_label("New name of Attic")
    dialog = anna.get_by_role("dialog")
    anna.goto("#settings/devices")
    deed(anna, "Rename", "Attic").click()
    name.wait_for()
    button(anna, "Add a device").click()
    dialog.wait_for()
    escape(anna)
    dialog.wait_for(state="detached")
    assert name.is_visible()
    escape(anna)
    name.wait_for(state="detached")
    deed(anna, "Rename", "Attic").click()
    name.wait_for()
    anna.get_by_role("link", name="Library").first.click()
    button(anna, "Sort and filter").click()
    dialog.wait_for()
    escape(anna)
    dialog.wait_for(state="detached")


# Forms


def test_a_changed_form_in_a_dialog_keeps_its_draft(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")

    def close_both() -> None:
        anna.keyboard.press("Escape")
        button(dialog, EDIT).wait_for()
        escape(anna)

    for close in (anna.go_back, close_both):
        dialog = open_details(anna)
        button(dialog, EDIT).click()
        dialog.get_by_label("Description").fill("Mind the rain.")
        dialog.get_by_label("Kind").select_option("Homebrew")
        see(dialog, "Not saved yet")
        close()
        dialog.wait_for(state="detached")
    open_details(anna)
    button(dialog, EDIT).click()
    assert dialog.get_by_label("Description").input_value() == "Mind the rain."
    assert dialog.get_by_label("Kind").input_value() == "homebrew"
    button(dialog, "Cancel").click()
    button(dialog, EDIT).click()
    assert dialog.get_by_label("Description").input_value() == ""
    assert dialog.get_by_label("Kind").input_value() == ""
    assert dialog.get_by_text("Not saved yet").count() == 0


def test_a_failed_save_and_a_poll_keep_what_was_typed(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, "Paper Harbor")
    anna.goto(f"#title/{entry}")
    button(anna, EDIT).click()
    name, version = anna.get_by_label("Name"), anna.get_by_label("Version")
    name.fill("Harbor")
    version.press_sequentially("2")
    anna.route("**/web/entries/*", lambda route: route.abort())
    with anna.expect_response("**/web/entries"):
        store.entries.edit(entry, {"name": "Another", "version": "1"})
        poll(anna)
    button(anna, "Save").click()
    see(anna, "The server cannot be reached.")
    assert (name.input_value(), version.input_value()) == ("Harbor", "2")
    anna.unroute("**/web/entries/*")
    held = Held(anna, "**/web/entries/*")
    button(anna, "Save").click()
    until(lambda: anna.wait_for_timeout(20) or held.calls)
    button(anna, "Close").click()
    held.calls[0].abort()
    anna.locator(".toast", has_text="The server cannot be reached.").wait_for()
    anna.unroute("**/web/entries/*")
    anna.get_by_role("link", name="Another").first.click()
    button(anna, "Edit Another").click()
    button(anna, "Save").click()
    anna.get_by_role("dialog", name="Harbor", exact=True).wait_for()
    see(anna, "Saved.")


def test_a_poll_keeps_the_caret_in_a_form_and_shows_new_values_of_the_others(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    anna.goto("#settings/devices")
    deed(anna, "Rename", "Attic").click()
    name = anna.get_by_label("New name of Attic")
    name.press_sequentially(" room")
    assert name.input_value() == "Attic room"
    name.evaluate("node => node.setSelectionRange(0, 5)")
    anna.evaluate("update({})")
    anna.keyboard.type("Bed")
    assert name.input_value() == "Bed room"
    button(anna, "Cancel").click()
    deed(anna, "Rename", "Attic").click()
    store.devices.change(device, {"name": "Den"})
    poll(anna)
    name = anna.get_by_label("New name of Den")
    until(lambda: name.input_value() == "Den")
    assert name.evaluate("node => node === document.activeElement")


def test_what_was_typed_outlives_other_views(anna: Any) -> None:
    link = anna.get_by_role("region", name="Add a link")
    folder = anna.get_by_label("Folder on that computer")
    anna.goto("#settings/library")
    unfold_experts(anna)
    link.get_by_label("Name").fill("Yonder Isles")
    anna.get_by_role("link", name="Devices").click()
    button(anna, "Add a device").click()
    choose_computer(anna)
    anna.get_by_role("radio", name="SD card or folder").click()
    folder.fill("/media/card")
    escape(anna)
    anna.get_by_role("link", name="Queue").click()
    see(anna, "The queue is empty")
    anna.go_back()
    button(anna, "Add a device").click()
    button(anna, "Not found?").click()
    button(anna, "Next").click()
    button(anna, "Next").click()
    assert folder.input_value() == "/media/card"
    escape(anna)
    anna.go_back()
    assert link.get_by_label("Name").input_value() == "Yonder Isles"


# Actions


def test_a_switch_is_switched_by_both_clicks(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Select").dblclick()
    button(anna, "Select").click()
    box = anna.get_by_label("Select Paper Harbor")
    box.dblclick()
    assert not box.is_checked()
    box.click(click_count=3)
    assert box.is_checked()


def test_a_double_click_makes_one(anna: Any, store: catalogd.Store) -> None:
    add(store, "Paper Harbor")
    sent: list[str] = []
    anna.on("request", lambda call: sent.append(f"{call.method} {call.url}"))
    anna.goto("#settings/devices")
    unfold_experts(anna)
    anna.get_by_label("What is it for?").fill("Laptop")
    button(anna, "Create key").dblclick()
    see(anna, "It is shown only now.")
    button(anna, "Add a device").dblclick()
    choose_computer(anna)
    anna.get_by_role("radio", name="SD card or folder").click()
    anna.get_by_label("Folder on that computer").fill("/media/card")
    button(anna, "Next").dblclick()
    button(anna, "Next").dblclick()
    see(anna, "Start it")
    escape(anna)
    anna.get_by_role("link", name="Library").first.click()
    button(anna, "Send Paper Harbor").dblclick()
    button(anna, "Queued").wait_for()
    posts = [call.rpartition("/")[2] for call in sent if call.startswith("POST")]
    assert posts == ["keys", "consoles", "pairing", "send"]
    assert queued(store) == ["Paper Harbor"]
    assert anna.url.endswith("#library")  # the second click has not opened the queue


def test_an_action_is_disabled_until_it_was_answered(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/devices")
    held = Held(anna, "**/web/keys")
    unfold_experts(anna)
    anna.get_by_label("What is it for?").fill("Laptop")
    scan = Held(anna, "**/web/scan")

    def click_twice(name: str) -> None:
        button(anna, name).click()
        button(anna, name).click(force=True)
        assert focused(anna) == name

    click_twice("Create key")
    assert anna.locator("form[aria-busy]").count() == 1
    anna.get_by_role("link", name="Files").click()
    click_twice("Scan now")
    assert button(anna, "Scan now").get_attribute("aria-busy") == "true"
    for calls in (held, scan):
        calls.reach_server()
        calls.answer()
    until(lambda: button(anna, "Scan now").get_attribute("aria-busy") is None)
    anna.get_by_role("link", name="Devices").click()
    see(anna, "It is shown only now.")
    assert (len(held.calls), len(scan.calls)) == (1, 1)


# Late answers

NO_POLLS = """{
  const wait = setTimeout;
  setTimeout = (work, pause, ...given) =>
    work !== window.poll && wait(work, pause < 10000 ? pause : pause * 10, ...given);
}"""
# Nor does the page give up a call that is held back while a test is busy.
without_polls = pytest.mark.parametrize("polls", [NO_POLLS])


def arrive(page: Any, call: Any, answer: Any) -> None:
    """Answer a call that was held back, and wait until the page has done what that
    leads to."""
    with page.expect_event("requestfinished", lambda done: done == call.request):
        call.fulfill(response=answer)
    page.evaluate("new Promise(done => setTimeout(setTimeout, 0, done))")


@without_polls
def test_a_late_answer_leaves_another_question_open(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("ben", "carl"):
        store.accounts.add(name, catalogd.hash_password(PASSWORD))
    anna.goto("#settings/people")
    password = anna.get_by_label("Your password")
    deed(anna, "Make admin", "ben").click()
    held = Held(anna, "**/web/accounts/*")
    password.fill(PASSWORD)
    password.press("Enter")
    held.reach_server()
    escape(anna)
    deed(anna, "Password link", "carl").click()
    password.fill(PASSWORD)
    made = Held(anna, "**/web/invitations")
    password.press("Enter")
    made.reach_server()
    arrive(anna, held.calls[0], held.answers[0])
    see(anna.locator(".row", has_text="ben"), "admin")
    anna.evaluate("new Promise(done => setTimeout(setTimeout, 0, done))")
    assert password.input_value() == PASSWORD
    made.answer()
    see(anna, "New password of carl")
    anna.get_by_role("dialog").wait_for(state="detached")


def add_console(page: Any) -> Held:
    """Fill in the sheet for a console, and hold the call back that adds it."""
    button(page, "Add a device").click()
    choose_way(page, "catalogd sends it to the console")
    choose_program(page, "Sphaira")
    page.get_by_label("Address of the console").fill("127.0.0.1")
    held = Held(page, "**/web/devices")
    page.get_by_role("button", name="Add", exact=True).click()
    held.reach_server()
    return held


@without_polls
def test_a_late_answer_changes_no_other_step_of_the_sheet(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/devices")
    held = add_console(anna)
    change = button(anna, "Change: ").last
    assert change.get_attribute("aria-disabled") == "true"
    change.click(force=True)
    held.answer()
    see(anna, "catalogd goes on trying.")
    assert anna.locator(".steps > li").count() == 0


@without_polls
def test_a_late_answer_changes_no_other_sheet(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/devices")
    held = add_console(anna)
    escape(anna)
    button(anna, "Add a device").click()
    choose_computer(anna)
    anna.get_by_role("radio", name="SD card or folder").click()
    folder = anna.get_by_label("Folder on that computer")
    folder.fill("/media/card")
    arrive(anna, held.calls[0], held.answers[0])
    assert folder.input_value() == "/media/card"
    button(anna, "Next").click()
    fill_name(anna, "Attic")
    anna.locator(".pairing-code").wait_for()


@pytest.mark.parametrize("name", ["entries", "ages"])
def test_a_list_that_was_refused_is_loaded_again(
    anna: Any, store: catalogd.Store, name: str
) -> None:
    entry = add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    refusal = {"status": 503, "json": {"error": "busy", "message": "Busy."}}
    path = f"**/web/{name}"
    anna.route(path, lambda route: route.fulfill(**refusal), times=1)
    with anna.expect_response(lambda answer: answer.status == 503):
        store.entries.set_ages([entry], 7)
        store.entries.edit(entry, {"name": "Another"})
    see(anna, "Another")
    anna.locator(".entries .meta", has_text="7+").wait_for()


@without_polls
def test_an_answer_that_was_overtaken_is_dropped(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/devices")
    unfold_experts(anna)
    button(anna, "Revoke switch").wait_for()
    held = Held(anna, "**/web/keys", "GET", 1)
    poll(anna)
    held.reach_server()
    anna.get_by_label("What is it for?").fill("Laptop")
    button(anna, "Create key").click()
    button(anna, "Revoke Laptop").wait_for()
    arrive(anna, held.calls[0], held.answers[0])
    assert button(anna, "Revoke Laptop").is_visible()


@without_polls
def test_who_waits_for_an_answer_that_was_overtaken_waits_for_the_later_one(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Send Paper Harbor").wait_for()
    anna.wait_for_load_state("networkidle")
    held = Held(anna, "**/web/changes*", "GET", 2)
    with anna.expect_request("**/web/changes*"):
        button(anna, "Send Paper Harbor").click()
    poll(anna)
    held.reach_server(2)
    first, second = held.calls
    arrive(anna, first, held.answers[0])
    assert button(anna, "Queueing Paper Harbor").is_visible()
    second.fulfill(response=held.answers[1])
    button(anna, "Queued").wait_for()


@without_polls
def test_a_late_answer_swaps_no_form(anna: Any, store: catalogd.Store) -> None:
    ids = ("0100AAAA00002000][v0", "0100AAAA00002800][v65536")
    add_files(store, [f"Paper Harbor [{each}]" for each in ids])
    anna.goto("")
    dialog = open_details(anna)
    edits = button(dialog, EDIT)
    edits.nth(1).wait_for()
    anna.wait_for_load_state("networkidle")
    held = Held(anna, "**/web/entries/*", "GET", 1)
    edits.nth(0).click()
    held.reach_server()
    edits.nth(1).click()
    name = dialog.get_by_label("Name")
    until(lambda: dialog.get_by_label("Version").input_value() == "65536")
    name.fill("Harbor")
    arrive(anna, held.calls[0], held.answers[0])
    assert name.input_value() == "Harbor"
    assert dialog.get_by_label("Version").input_value() == "65536"


def sign_in_form(visit: Visit, store: catalogd.Store, site: str) -> Any:
    """A page on which anna has typed her name and password."""
    password = {"password": catalogd.hash_password(PASSWORD)}
    store.accounts.change(store.accounts.id_of("anna"), password)
    page = visit()
    page.goto(site)
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    return page


def test_signing_in_waits_until_the_page_knows_who_it_is(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    page = sign_in_form(visit, store, site)
    field = page.get_by_label("Password")
    page.route("**/web/me", lambda route: route.abort(), times=1)
    button(page, "Sign in").click()
    problem = page.locator(".problem")
    until(lambda: field.count() == 0 or any(problem.all_inner_texts()))
    assert not any(problem.all_inner_texts())
    see(page, "Nothing here yet")
    store.database.write("DELETE FROM sessions", ())
    poll(page)
    see(page, "You were signed out. Sign in again.")
    assert field.input_value() == ""


def test_a_browser_that_keeps_no_cookie_is_told_that_signing_in_failed(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    """As one for HTTPS alone, on a page that came over HTTP."""
    page = sign_in_form(visit, store, site)
    page.route("**/web/login", lambda route: route.fulfill(json={}))
    button(page, "Sign in").click()
    see(page, "Something went wrong. Try again.")
    assert page.get_by_label("Name").input_value() == "anna"


# Outages


def test_a_restart_of_the_server_during_a_transfer_is_survived(
    visit: Visit, settings: catalogd.Settings, scanner: catalogd.Scanner, key: str
) -> None:
    item = sending(scanner.store)
    page = visit()
    settings = dataclasses.replace(settings, port=free_port())
    with served(catalogd.Web(scanner.store, settings, scanner)) as address:
        sign_in(page, scanner.store, address, "anna")
        page.goto(f"{address}#queue")
        see(page, "40 %")
    see(page, "Reconnecting to the server")
    see(page, "40 %")
    report(scanner.store, item, 60)
    with served(catalogd.Web(scanner.store, settings, scanner)):
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
