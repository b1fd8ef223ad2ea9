"""Every view of the page, in a real Chromium: in all modes, and at all widths."""

import calendar
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import catalogd
from browser import ALL_RULES, DESK, PHONE, show, sign_in, violations
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
# Have marks around each text of the table, which take no room and no part in words.
MARK_WORDS = """
function mark(words) {
  if (typeof words === "string") return `\u180b${words}\u180c`;
  if (typeof words === "function")
    return (...args) => {
      const text = words(...args);
      return mark(text.replace ? text.replace(/[\u180b\u180c]/g, "") : text);
    };
  for (const name of Object.keys(words))
    if (!["direction", "language"].includes(name)) words[name] = mark(words[name]);
  return words;
}
mark(WORDS);
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


def untranslated(page: Any, answers: list[Any]) -> list[str]:
    """Return what the page shows that is neither of its table of words nor data."""
    texts = page.evaluate(TEXTS)  # before the answers, since another may come
    known = {text for answer in answers for text in texts_of(answer)} | ELSEWHERE
    names = sorted(known, key=len, reverse=True)
    left = [without_known(text, names) for text in texts]
    return [text for text in left if re.search("[A-Za-z]{2}", text)]


def without_known(text: str, known: Iterable[str]) -> str:
    """Return what of a text is between no marks, and is not data."""
    while (inner := re.sub("\u180b[^\u180b\u180c]*\u180c", " ", text)) != text:
        text = inner
    for each in known:
        text = re.sub(rf"(?i){re.escape(each)}", "", text)
    return text


LOST = """() => {
  const lost = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > innerWidth) lost.push("the page");
  const top = document.querySelector("dialog:last-of-type") || document;
  for (const node of top.querySelectorAll("#app *")) {
    const {left, right, height} = node.getBoundingClientRect();
    const {overflowX, clipPath} = getComputedStyle(node);
    if (!height || clipPath !== "none" || node.closest(".shelf, .glow, svg")) continue;
    const hides = overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1;
    if (left < -1 || right > width + 1 || (hides && node.clientWidth < 60))
      lost.push(node.outerHTML.slice(0, 90));
  }
  return lost;
}"""
SMALL = """() => {
  const targets = "#app :is(button, .button, a, input, select, textarea, summary)";
  const covers = [...document.querySelectorAll(".bar, .toasts, .selection, nav")];
  const small = [];
  for (const node of document.querySelectorAll(targets)) {
    if (node.closest(".link, .unseen, .skip, [aria-hidden]")) continue;
    for (const cover of covers)
      cover.style.pointerEvents = cover.contains(node) ? "" : "none";
    node.scrollIntoView({block: "center", inline: "center"});
    const target = node.closest("label") || node;
    const {left, right, top, bottom} = target.getBoundingClientRect();
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    const hit = (dx, dy) => document.elementFromPoint(x + dx, y + dy);
    const reach = (dx, dy) => {
      let n = 0;
      while (n < 44 && target.contains(hit(dx * n, dy * n))) n += 2;
      return n;
    };
    const [width, height] = [reach(-1, 0) + reach(1, 0), reach(0, -1) + reach(0, 1)];
    if (width && Math.min(width, height) < 44) small.push(node.outerHTML.slice(0, 90));
  }
  return small;
}"""
BROKEN = r"""() => {
  const broken = [];
  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    // A mouse makes the buttons of rows wide, which a phone does not have.
    if (node.parentElement.closest(".unseen, .glow, .rows, code, noscript")) continue;
    for (const {0: word, index} of node.data.matchAll(/\p{L}{2,}/gu)) {
      const isInPath = /[\/\\\[\]._\d]/.test(around(node.data, index));
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const tops = [...range.getClientRects()].map(({top}) => Math.round(top));
      if (!isInPath && new Set(tops).size > 1) broken.push(word);
    }
  }
  return broken;
  function around(text, index) {
    return /\S*$/.exec(text.slice(0, index))[0] + /^\S*/.exec(text.slice(index))[0];
  }
}"""


# Each mode, with a size and the rules that axe-core checks in it: colors differ between
# the modes of a desk, and all else between a desk and a phone.
SHOWN: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "light": (DESK, ALL_RULES),
    "forced": (DESK, {"type": "rule", "values": ["color-contrast"]}),
    "dark": (PHONE, ALL_RULES),
    "large": (PHONE, {}),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_translated_and_fits_in_all_modes(
    visit: Visit, demo: Demo, view: str
) -> None:
    """The page is loaded once, in a language whose texts have marks around them. Small
    are targets of less than 44 pixels, broken are words, but those of paths."""
    page, answers = visit(), list[Any]()
    page.on("response", lambda answer: answers.append(answer))
    script = catalogd.SCRIPT.replace("isolateArguments(WORDS);", MARK_WORDS)
    page.route("**/script.js", lambda route: route.fulfill(body=script))
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS[view](page, demo.address)
    found: dict[str, Any] = {"not in the table": untranslated(page, answers)}
    for mode, (size, rules) in SHOWN.items():
        show(page, mode, size)
        if rules:
            found[f"violations, {mode}"] = violations(page, rules)
        if size is PHONE:
            found[f"lost, {mode}"] = page.evaluate(LOST)
            found[f"small, {mode}"] = page.evaluate(SMALL)
    found["broken, large"] = page.evaluate(BROKEN)
    show(page, "large", DESK)
    found["lost, large on a desk"] = page.evaluate(LOST)
    found["broken, large on a desk"] = page.evaluate(BROKEN)
    for width in (320, 600, 1024, 2560):
        show(page, "light", {**DESK, "width": width})
        found[f"lost, {width}"] = page.evaluate(LOST)
    assert {name: each for name, each in found.items() if each} == {}
