"""What a browser keeps of the page, in a real Chromium."""

import re
from typing import Any

import pytest

import catalogd
from browser import add, button, see, until
from conftest import PASSWORD, Visit

STORED = re.search(r"const STORED = \{([\s\S]*?)\n\};", catalogd.JS)
assert STORED
KEYS = re.findall(r"^  (\w+): ", STORED[1], re.MULTILINE)
RUBBISH = ["{", "null", "constructor", "-1", "\u0000 ☃ <b>", '{"id": 5}']


def test_every_key_that_is_stored_has_a_default() -> None:
    used = r'(?:stored|setItem|removeItem)\(\s*"(\w+)"'
    assert {*re.findall(used, catalogd.JS)} <= {*KEYS}
    assert "getItem" not in catalogd.JS.replace("getItem(name) ??", "")
    assert len(KEYS) == 7


PUT = """{
  const [names, text] = JSON.parse(sessionStorage.rubbish || "[[]]");
  for (const place of [localStorage, sessionStorage])
    for (const name of names) place.setItem(name, text);
}"""


@pytest.mark.parametrize(
    "names",
    [
        [name for name in KEYS if name != "invitation"],  # which hides
        *(pytest.param([name], marks=pytest.mark.ci) for name in KEYS),
    ],
    ids=lambda names: names[0] if len(names) == 1 else "together",
)
def test_rubbish_that_is_stored_does_not_leave_the_page_blank(
    anna: Any, store: catalogd.Store, names: list[str]
) -> None:
    add(store, "Paper Harbor")
    anna.add_init_script(PUT)  # what leaves, keeps its own
    anna.goto("")
    for text in RUBBISH:
        put = "put => { sessionStorage.rubbish = JSON.stringify(put); }"
        anna.evaluate(put, [names, text])
        anna.reload()
        shown = "Paper Harbor|Nothing found|You are signed in as anna."
        anna.get_by_text(re.compile(shown)).first.wait_for()
        anna.evaluate("localStorage.clear(); sessionStorage.clear()")


def test_the_setup_code_of_a_link_is_kept_until_there_is_an_account(
    visit: Visit, site: str, store: catalogd.Store
) -> None:
    page = visit(base_url=site)
    page.goto(f"#setup={store.accounts.setup_code}")
    code = page.get_by_label("Setup code")
    until(lambda: code.input_value() == store.accounts.setup_code)
    page.reload()
    until(lambda: code.input_value() == store.accounts.setup_code)
    page.get_by_label("Name").fill("robin")
    page.get_by_label("Password").fill(PASSWORD)
    button(page, "Create account").click()
    see(page, "Nothing here yet")
    assert page.evaluate("sessionStorage.getItem('setupCode')") is None


def test_another_language_leaves_what_was_typed(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor - Update 3", kind="update", base_id="0100AAAA00000000")
    anna.goto("#settings/you")
    old = anna.get_by_label("Current password")
    old.fill("half a pass")
    german = {"words": catalogd.WORDS | {"oldPassword": "Altes Passwort"}}
    german |= {"sentences": catalogd.SENTENCES, "about": {"direction": "ltr"}}
    anna.route("**/languages/de.json", lambda route: route.fulfill(json=german))
    anna.evaluate("LANGUAGES.de = 'Deutsch'; update({})")
    button(anna, "Deutsch").click()
    typed = anna.get_by_label("Altes Passwort")
    until(lambda: typed.input_value() == "half a pass")
    assert anna.evaluate("document.documentElement.lang") == "de"
    button(anna, "English").click()
    until(lambda: old.input_value() == "half a pass")
