"""The page in another language: its table of words has all that it shows."""

import calendar
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import catalogd
from browser import sign_in
from conftest import Visit
from example import Demo
from views import VIEWS

# What people type in the views, what the browser writes, and what follows the name of a
# title in those of its parts.
ELSEWHERE = {"k7mp-x4tz-9hqw", "folder:/media/", "SDCARD", "Extra Levels", "Soundtrack"}
ELSEWHERE |= {"and", "AM", "PM", *calendar.month_abbr}
DATA_FIELDS = """
account address author base_id code created_by description file_type id label name path
source title_id token types version
"""
BRACKETS = """
function bracket(words) {
  if (typeof words === "string") return `⟦${words}⟧`;
  if (typeof words === "function")
    return (...args) => {
      const text = words(...args);
      return bracket(text.replace ? text.replace(/[⟦⟧]/g, "") : text);
    };
  for (const name of Object.keys(words))
    if (!["direction", "language"].includes(name)) words[name] = bracket(words[name]);
  return words;
}
bracket(WORDS);
isolateArguments(WORDS);"""
TEXTS = """() => {
  const found = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ALL);
  while (walker.nextNode()) {
    const {parentElement, data, attributes} = walker.currentNode;
    if (data && !parentElement.closest("script, noscript, code, .drawn"))
      found.push(data);
    for (const {name, value} of attributes || [])
      if (/^(aria-label|aria-valuetext|title|placeholder|alt)$/.test(name))
        found.push(value);
  }
  return found;
}"""


def data(value: Any, name: str = "") -> Iterator[str]:
    """Yield the names, addresses and the like of an answer."""
    if isinstance(value, dict):
        for field, each in value.items():
            yield from data(each, field)
    elif isinstance(value, list):
        for each in value:
            yield from data(each, name)
    elif isinstance(value, str) and name in DATA_FIELDS.split():
        yield value


def texts_of(answer: Any) -> Iterator[str]:
    if (
        answer.ok
        and "/web/" in answer.url
        and "json" in answer.headers.get("content-type", "")
    ):
        yield from data(answer.json())


def untranslated(text: str, known: Iterable[str]) -> str:
    """Return what of a text is in no brackets, and is not data."""
    while (inner := re.sub("⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = inner
    for each in known:
        text = re.sub(rf"(?i){re.escape(each)}", "", text)
    return text


@pytest.mark.parametrize("view", VIEWS)
def test_all_texts_of_a_view_are_in_the_table_of_words(
    visit: Visit, demo: Demo, view: str
) -> None:
    """The table is translated to a language that has brackets around each text."""
    page, answers = visit(), list[Any]()
    page.on("response", lambda answer: answers.append(answer))
    script = catalogd.SCRIPT.replace("isolateArguments(WORDS);", BRACKETS)
    page.route("**/script.js", lambda route: route.fulfill(body=script))
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS[view](page, demo.address)
    known = [text for answer in answers for text in texts_of(answer)]
    names = sorted({*known, *ELSEWHERE}, key=len, reverse=True)
    texts = [untranslated(text, names) for text in page.evaluate(TEXTS)]
    assert [text for text in texts if re.search("[A-Za-z]{2}", text)] == []
