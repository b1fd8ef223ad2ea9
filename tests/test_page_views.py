"""Every view of the page, in a real Chromium: in all modes, and at all widths."""

import calendar
import json
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import catalogd
from browser import (
    ALL_RULES,
    DESK,
    PHONE,
    options,
    resize,
    show,
    sign_in,
    translate,
    translation,
    violations,
)
from conftest import Visit
from example import Demo
from views import AGES, VIEWS, answer_titles, change_answers

# What people type in the views, what the browser writes, and what follows the name of a
# title in those of its parts.
ELSEWHERE = {"k7mp-x4tz-9hqw", "/media/", "SDCARD", "Extra Levels", "Soundtrack"}
ELSEWHERE |= {"and", "AM", "PM", *calendar.month_abbr}
DATA_FIELDS = """
account address author base_id code created_by description file_type id label name path
source title_id token types version
"""
TEXTS = """() => {
  const found = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ALL);
  while (walker.nextNode()) {
    const {parentElement, data, attributes} = walker.currentNode;
    const elsewhere = "script, noscript, code, .drawn, [lang]:not(html)";
    if (data && !parentElement.closest(elsewhere)) found.push(data);
    for (const {name, value} of attributes || [])
      if (/^(aria-label|aria-valuetext|title|placeholder|alt)$/.test(name))
        found.push(value);
  }
  return found;
}"""


def marked(text: str) -> str:
    """Put marks around a text, which take no room and no part in words."""
    return f"\u180b{text}\u180c"


def data(value: Any, name: str = "") -> Iterator[str]:
    """Yield the names, addresses and the like of an answer, with the folders and files
    of paths, and the titles of parts."""
    if isinstance(value, dict):
        for field, each in value.items():
            yield from data(each, field)
    elif isinstance(value, list):
        for each in value:
            yield from data(each, name)
    elif isinstance(value, str) and name in DATA_FIELDS.split():
        path = pathlib.PurePath(value)
        yield from (value, value.partition(" - ")[0], path.name)
        yield from map(str, path.parents[:1])


def texts_of(answer: Any) -> Iterator[str]:
    if (
        answer.ok
        and "/web/" in answer.url
        and "json" in answer.headers.get("content-type", "")
    ):
        yield from data(answer.json())


def untranslated(page: Any, answers: list[Any]) -> list[str]:
    """Return what the page shows that is neither of its table of words nor data."""
    # What a browser reads that is too old: it is hidden here, and not in the table.
    page.evaluate("document.getElementById('trouble').remove()")
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
    const isFree = node.closest(".shelf, .strip, .glow, svg"); // it scrolls
    if (!height || clipPath !== "none" || isFree) continue;
    const hides = overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1;
    if (left < -1 || right > width + 1 || (hides && node.clientWidth < 60))
      lost.push(node.outerHTML.slice(0, 90));
  }
  return lost;
}"""
SMALL = """() => {
  const targets = "#app :is(button, .button, a, input, select, textarea, summary)";
  const above = ".bar, .toasts, .selection, nav, .menu";
  for (const menu of document.querySelectorAll(".menu")) // its row scrolls away
    menu.style.positionArea = "none";
  const covers = [...document.querySelectorAll(above)];
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


# What a visitor sees first, and a view of each kind: CI has them all.
MAIN = {
    *("library", "queue", "details", "filters", "add_device_ftp", "settings_people"),
    *("signing_in", "reconnecting", "invitation"),
}


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(view, marks=() if view in MAIN else pytest.mark.ci)
        for view in VIEWS
    ],
)
def test_a_view_is_accessible_translated_and_fits_in_all_modes(
    visit: Visit, demo: Demo, view: str
) -> None:
    """The page is loaded once, in a language whose texts have marks around them. Small
    are targets of less than 44 pixels, broken are words, but those of paths."""
    page, answers = visit(), list[Any]()
    page.on("response", lambda answer: answers.append(answer))
    translate(page, translation(marked))
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
    show(page, "light", DESK)
    for width in (320, 600, 1024, 2560):
        resize(page, {**DESK, "width": width})
        found[f"lost, {width}"] = page.evaluate(LOST)
    assert {name: each for name, each in found.items() if each} == {}


GERMAN = pathlib.Path(catalogd.__file__).parent / "packaging/languages/de.json"
SPEAK = """([language, translation]) => {
  document.getElementById("app").replaceChildren();
  speak(language, translation);
  update({});
}"""
SHORTLY = {"library", "details", "queue", "add_device_ftp"}  # all others: -m soak


def twice_as_long(text: str) -> str:
    words = re.findall("[A-Za-z]+", re.sub(r"\{\w+\}", " ", text))
    return " ".join([text, *words])


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(view, marks=() if view in SHORTLY else pytest.mark.soak)
        for view in VIEWS
    ],
)
def test_texts_that_are_twice_as_long_break_nothing(
    visit: Visit, demo: Demo, view: str
) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS[view](page, demo.address)
    page.evaluate(SPEAK, ["en-GB", translation(twice_as_long)])
    found: dict[str, Any] = {}
    for mode in ("light", "large"):
        for size in (PHONE, DESK):
            show(page, mode, size)
            found[f"lost, {mode}, {size['width']}"] = page.evaluate(LOST)
        found[f"broken, {mode}"] = mode == "large" and page.evaluate(BROKEN)
    assert {name: each for name, each in found.items() if each} == {}


TIGHT = """() => Array.from(document.querySelectorAll("button"))
  .filter(node => node.scrollWidth > node.clientWidth + 1)
  .map(node => node.innerText)"""


@pytest.mark.parametrize("view", ["queue", "selecting", "settings_library"])
def test_the_long_words_of_german_fit(visit: Visit, demo: Demo, view: str) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS[view](page, demo.address)
    page.evaluate(SPEAK, ["de", json.loads(GERMAN.read_text("utf-8"))])
    for mode in ("light", "large"):
        show(page, mode, PHONE)
        assert page.evaluate(LOST) + page.evaluate(TIGHT) == []


PLACES = """text => {
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const at = nodes.currentNode.data.indexOf(text);
    if (at < 0) continue;
    const range = document.createRange();
    return Array.from(text, (_, index) => {
      range.setStart(nodes.currentNode, at + index);
      range.setEnd(nodes.currentNode, at + index + 1);
      return range.getBoundingClientRect().left;
    });
  }
}"""


def mirrored(text: str) -> str:
    """Return a text in Hebrew letters, but for the short signs of units."""
    return re.sub(r"(?<!\{)\b[A-Za-z]{3,}\b(?!\})", "שלום", text)


def test_what_stands_in_texts_from_right_to_left_reads_as_elsewhere(
    visit: Visit, demo: Demo
) -> None:
    """A size is "251 MB", and not "MB 251"."""
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["queue"](page, demo.address)
    page.evaluate(SPEAK, ["he", translation(mirrored, "rtl")])
    text = page.locator(".lane").inner_text()
    sizes = re.findall(r"\d[\d.]*\u2069?\s[kMG]B", text)
    assert sizes
    for size in sizes:
        places = page.evaluate(PLACES, size)
        seen = [x for x, sign in zip(places, size, strict=True) if sign.isalnum()]
        assert seen == sorted(seen), (size, text)


def test_the_letters_of_japanese_have_no_other_spacing_or_weight(
    visit: Visit, demo: Demo
) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["settings_you"](page, demo.address)
    heading = page.get_by_role("heading", level=1)
    style = "node => {const {letterSpacing: s, lineBreak: b} = getComputedStyle(node);"
    style += " return [s, b];}"
    assert heading.evaluate(style) == ["-0.52px", "auto"]
    page.evaluate(SPEAK, ["ja", translation()])
    assert heading.evaluate(style) == ["normal", "strict"]


def test_names_that_the_server_makes_up_are_in_the_words_of_the_page(
    visit: Visit, demo: Demo
) -> None:
    page = visit()
    translate(page, translation(patch="Stand {number}", addOn="Teil {number}"))
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["library"](page, demo.address)
    names = page.evaluate("state.entries.map(entry => entry.name)")
    assert [name for name in names if re.search(r" - (Update|Add-on) \d", name)] == []
    assert [name for name in names if re.search(r" - (Stand|Teil) \d", name)]


CUT = """() => {
  const texts = ".covers .mark, .figures, .covers .entry-name";
  return [...document.querySelectorAll(texts)]
    .filter(({scrollWidth, scrollHeight, clientWidth, clientHeight}) =>
      scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1)
    .map(node => node.textContent);
}"""
BELOW_COVERS = """() => [...document.querySelectorAll(".entries .entry")].map(entry => {
  const text = entry.querySelector(".entry-name").getBoundingClientRect();
  const {top, left} = entry.getBoundingClientRect();
  return [text.top - top, text.left - left].map(Math.round).join();
})"""


def test_what_is_on_and_below_covers_is_whole_and_at_one_height(
    visit: Visit, demo: Demo
) -> None:
    """So it is whether a title has a picture or not."""
    page = visit()
    page.add_init_script("localStorage.setItem('layout', 'covers')")
    answer = {"success": True, "ages": dict.fromkeys(AGES, 18), "former": {}}
    page.route("**/web/ages", lambda route: route.fulfill(json=answer))
    picture = {"body": catalogd.ICON, "content_type": "image/svg+xml"}
    page.route("**/web/icons/*", lambda route: route.fulfill(**picture))
    change_answers(page, lambda body: body["entries"][0].update(icon="a1"), "entries")
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["library"](page, demo.address)
    for size in (DESK, PHONE):
        show(page, "light", size)
        page.locator(".entries .meta", has_text="Not for children").first.wait_for()
        assert page.locator(".entries img").count() == 1
        assert page.locator(".entries .drawn").count() > 2
        assert len({*page.evaluate(BELOW_COVERS)}) == 1
        assert page.evaluate(CUT) == []


def test_the_count_of_a_long_queue_is_in_one_line_in_a_large_font(
    visit: Visit, demo: Demo
) -> None:
    def wait(body: dict[str, Any]) -> None:
        row = {**body["queue"]["items"][-1], "status": "pending"}
        more = [{**row, "id": f"{n}", "title": f"{n}"} for n in range(1200)]
        body["queue"]["items"] += more

    page = visit()
    change_answers(page, wait)
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["library"](page, demo.address)
    show(page, "large", PHONE)
    count = page.locator(".count")
    assert re.fullmatch(r"1,2\d\d", count.inner_text())
    assert count.bounding_box()["height"] < 50


def test_a_row_that_unfolds_is_as_high_as_another(visit: Visit, demo: Demo) -> None:
    page = visit(**options("light", PHONE))
    sign_in(page, demo.store, demo.address, "Robin")
    answer_titles(page, demo.address)
    VIEWS["queue"](page, demo.address)
    row = page.locator(".item", has_text="Echo Quarry")
    assert row.locator(".unfold").count() == 1
    room = row.bounding_box()["height"]
    assert room - row.locator(".item-text").bounding_box()["height"] < 24
