"""How the page's script draws: nodes, styles, the focus, and what it does when it
cannot draw."""

from typing import Any

import pytest

import catalogd
from browser import TWO_FRAMES, add, button, see, sign_in, until
from conftest import Visit
from example import session
from test_page_calls import poll

PATCH = """lists => {
  const box = document.createElement("div");
  return lists.map(keys => {
    patch(box, keys.map(key => h.i({key}, key)));
    return box.textContent;
  });
}"""


def test_siblings_with_the_same_key_all_stay_and_are_told(script: Any) -> None:
    told: list[str] = []
    texts = ["aab", "aab", "baa"]
    script.on("console", lambda line: told.append(line.text))
    assert script.evaluate(PATCH, [*map(list, texts)]) == texts
    until(lambda: len(told) == 3)
    assert {*told} == {"Two siblings have the key a."}


def test_a_style_that_is_no_longer_meant_goes(script: Any) -> None:
    code = """styles => {
      const box = document.createElement("div");
      return styles.map(style => {
        patch(box, [h.i({style})]);
        return box.firstChild.style.cssText;
      });
    }"""
    styles = [{"--hue": "3", "width": "5px"}, {"width": "6px"}, None]
    texts = ["--hue: 3; width: 5px;", "width: 6px;", ""]
    assert script.evaluate(code, styles) == texts


def test_an_empty_view_keeps_its_hand_of_covers(anna: Any) -> None:
    anna.goto("#queue")
    see(anna, "The queue is empty")
    anna.evaluate("update({})")
    anna.evaluate(TWO_FRAMES)
    assert anna.locator(".art .cover").count() == 3


def test_two_faults_with_the_same_sentence_are_both_told(anna: Any) -> None:
    fault = {"about": "files", "message": "The file is damaged."}
    faults = [{**fault, "id": name} for name in "ab"]
    answer = {"version": "1", "released": "2026-01-01", "folders": []}
    answer |= {"backup": {"kept": 0}, "faults": faults, "releases": ""}
    anna.route("**/web/status", lambda route: route.fulfill(json=answer))
    anna.goto("#settings/server")
    told = anna.get_by_text("The file is damaged.")
    until(lambda: told.count() == 2)
    anna.evaluate("update({})")
    anna.evaluate(TWO_FRAMES)
    assert told.count() == 2


COUNT_WALKS = """{
  window.walks = 0;
  const plain = focusable;
  window.focusable = selector => {
    walks += selector === "*";
    return plain(selector);
  };
}"""


def test_the_nodes_are_walked_through_only_when_that_with_the_focus_is_gone(
    anna: Any, store: catalogd.Store
) -> None:
    entries = [add(store, name) for name in ("Ant", "Bee", "Cat")]
    store.queue.send_all(1, entries, None)
    anna.goto("#queue")
    button(anna, "Cancel Bee").focus()
    anna.evaluate(COUNT_WALKS)
    anna.evaluate("update({})")
    anna.evaluate(TWO_FRAMES)
    assert anna.evaluate("walks") == 0
    button(anna, "Cancel Bee").press("Enter")
    button(anna, "Cancel Bee").wait_for(state="detached")
    label = "document.activeElement.ariaLabel"
    until(lambda: anna.evaluate(label) == "Cancel Cat")
    assert anna.evaluate("walks") >= 1
    button(anna, "Cancel Cat").press("Enter")
    until(lambda: anna.evaluate(label) == "Cancel Ant")


# What cannot be drawn


def test_a_page_that_cannot_be_drawn_says_so_and_what_to_do(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    anna.evaluate("console.error = () => {}; window.plain = renderTop; null")
    anna.evaluate("renderTop = () => { throw new Error('a hole'); }; update({})")
    see(anna, "This page has a mistake, and cannot be shown. Load it again.")
    assert anna.locator("#app > *").count() == 0
    anna.evaluate("renderTop = plain; update({})")
    see(anna, "Paper Harbor")
    assert anna.locator("#trouble").is_hidden()


def test_a_page_whose_script_does_not_begin_says_what_it_needs(
    visit: Visit, site: str
) -> None:
    page = visit(java_script_enabled=False)
    page.goto(site)
    needs = page.get_by_text("This page needs JavaScript, and")
    needs.wait_for()
    link = page.get_by_role("link", name="Try again")
    assert link.get_attribute("href") == "./"


def test_a_page_without_its_translation_is_english_and_says_so(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    page = visit(base_url=site, locale="de-DE")
    sign_in(page, store, site, "anna")
    path = "**/languages/de.json"
    page.route(path, lambda route: route.fulfill(status=500, body="no"), times=1)
    page.goto("")
    see(page, "Deutsch could not be loaded, so the page is in English.")
    see(page, "Nothing here yet")
    button(page, "Try again").click()
    page.get_by_role("link", name="Bibliothek").wait_for()


# Accounts


@pytest.mark.parametrize("rights", ["another account", "an admin no more"])
def test_a_page_whose_account_is_another_now_is_drawn_anew(
    anna: Any, store: catalogd.Store, rights: str
) -> None:
    for name in ("ben", "carl"):
        store.accounts.add(name, catalogd.hash_password("correct horse"))
    add(store, "Paper Harbor")
    anna.goto("#settings/people")
    see(anna, "Add an account")
    if rights == "another account":
        cookie = session(store, store.accounts.id_of("ben"))
        address = anna.url.split("#")[0]
        cookies = [{"name": "session", "value": cookie, "url": address}]
        anna.context.clear_cookies()  # also that of the page's own name
        anna.context.add_cookies(cookies)
        name = "ben"
    else:
        store.accounts.change(store.accounts.id_of("carl"), {"admin": True})
        store.accounts.change(1, {"admin": False})
        name = "anna"
    poll(anna)
    until(lambda: anna.locator(".who").inner_text() == name)
    anna.get_by_role("link", name="People").wait_for(state="detached")


def test_what_was_typed_goes_with_the_account(anna: Any, store: catalogd.Store) -> None:
    ben = store.accounts.add("ben", catalogd.hash_password("correct horse"))
    anna.goto("#settings/you")
    anna.get_by_label("Current password").fill("secret")
    anna.get_by_role("link", name="Library").click()
    see(anna, "Nothing here yet")
    kept = "[...document.querySelectorAll('#drafts [type=password]')].length"
    assert anna.evaluate(kept) == 2
    address = anna.evaluate("location.origin")
    cookie = {"name": "session", "value": session(store, ben), "url": address}
    anna.context.clear_cookies()
    anna.context.add_cookies([cookie])
    poll(anna)
    until(lambda: anna.locator(".who").inner_text() == "ben")
    assert anna.evaluate(kept) == 0
    anna.goto("#settings/you")
    assert anna.get_by_label("Current password").input_value() == ""


# The address


def test_a_search_is_in_the_address_and_back_ends_it(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("Ant", "Bee"):
        add(store, name)
    anna.goto("")
    search = anna.get_by_label("Search the library")
    length = anna.evaluate("history.length")
    search.press_sequentially("bee")
    see(anna, "1 of 2 titles")
    assert anna.evaluate("location.hash") == "#library?search=bee"
    anna.get_by_role("link", name="Queue").click()
    see(anna, "The queue is empty")
    anna.go_back()
    see(anna, "1 of 2 titles")
    anna.reload()
    see(anna, "1 of 2 titles")
    button(anna, "Sort and filter").click()
    button(anna.get_by_role("dialog"), "Newest").click()
    anna.go_back()
    anna.get_by_role("dialog").wait_for(state="detached")
    assert search.input_value() == "bee"
    anna.go_back()
    see(anna, "Ant")
    assert search.input_value() == ""
    assert anna.evaluate("history.length") == length + 2
    anna.go_forward()
    see(anna, "1 of 2 titles")
