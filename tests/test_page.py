"""The page in a real Chromium, over real sockets, end to end."""

import dataclasses
import importlib
import pathlib
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
from browser import (
    DESK,
    PATIENCE,
    PHONE,
    TWO_FRAMES,
    Taps,
    add,
    button,
    choose_computer,
    computer,
    copied,
    deed,
    fill_folder,
    focused,
    line_of,
    press_until,
    report,
    see,
    sending,
    show,
    sign_in,
    translate,
    translation,
    until,
)
from conftest import PASSWORD, Library, Visit
from example import Demo, served
from qrcodes import read_picture
from test_page_devices import add_device
from views import VIEWS

# End to end


def test_from_the_setup_link_to_a_finished_transfer(
    visit: Visit,
    site: str,
    service: catalogd.Web,
    library: Library,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real client is fetched, paired and started by the lines that were copied, in
    at most 11 taps. The answer to its first report is held back until the progress was
    seen."""
    library.add("Lantern Keepers.nsp", b"x" * 100_000)
    service.scanner.scan()
    go_on = hold(service.store, monkeypatch)
    (tmp_path / "card").mkdir()
    page, taps = visit(permissions=["clipboard-read", "clipboard-write"]), Taps()
    page.goto(f"{site}#setup={service.store.accounts.setup_code}")
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    for name in ("Create account", "Send Lantern Keepers", "Add one"):
        taps.on(button(page, name))
    taps.on(button(page, "Not found?"))
    taps.on(page.get_by_role("radio", name="A computer with the SD card in it"))
    taps.on(page.get_by_role("radio", name="SD card or folder"))
    page.get_by_label("Folder on that computer").fill(str(tmp_path / "card"))
    page.keyboard.press("Enter")
    taps.on(button(page, "Next"))
    lines = [copied(page, taps, f"Copy: {name}") for name in LINES]
    with computer(tmp_path / "computer", lines):
        see(page, "Send puts your games on Living room now.")
        taps.on(button(page, "Done"))
        page.get_by_role("link", name="Queue").click()
        page.get_by_role("progressbar", name="Lantern Keepers").wait_for()
        until(lambda: re.match(r"\d+ % Lantern Keepers", page.title()))
        go_on.set()
        see(page, "Lantern Keepers was sent.")
    assert (tmp_path / "card" / "Lantern Keepers.nsp").stat().st_size == 100_000
    assert taps.count <= 11
    page.get_by_role("link", name="Library").click()
    page.locator(".mark", has_text="sent").wait_for()


LINES = ("Get the program", "Connect it", "Start it")


def hold(store: catalogd.Store, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Answer reports only when the returned event is set; they are written at once."""
    go_on = threading.Event()
    write = store.clients.report

    def report(*args: Any, **more: Any) -> str:
        status = write(*args, **more)
        go_on.wait(PATIENCE / 1000)
        return status

    monkeypatch.setattr(store.clients, "report", report)
    return go_on


def test_without_the_setup_link_the_page_asks_for_the_code(
    visit: Visit, site: str, service: catalogd.Web
) -> None:
    page = visit()
    page.goto(site)
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Setup code").fill("a guess")
    button(page, "Create account").click()
    see(page, "The setup code is not the one that was printed.")
    page.get_by_label("Setup code").fill(service.store.accounts.setup_code)
    button(page, "Create account").click()
    see(page, "Nothing here yet")


# Modes of the browser


def test_forced_colors_show_what_is_current_pressed_checked_and_sent(
    visit: Visit, demo: Demo
) -> None:
    page = visit()
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["details"](page, demo.address)
    page.keyboard.press("Tab")
    show(page, "forced", DESK)
    filled = {
        "nav [aria-current]": "nav :not([aria-current])",
        "[aria-pressed=true]": "[aria-pressed=false]",
        ".part-choice :checked": ".part-choice input:not(:checked)",
        ".progress span": ".progress",
    }
    paint = "one => getComputedStyle(document.querySelector(one)).backgroundColor"
    fills = {page.evaluate(paint, one) for one in filled}
    assert len(fills) == 1
    assert fills.isdisjoint({page.evaluate(paint, one) for one in filled.values()})
    outline = "getComputedStyle(document.activeElement).outline"
    assert "solid 3px" in page.evaluate(outline)


def test_the_page_keeps_still_behind_a_dialog(visit: Visit, demo: Demo) -> None:
    page = visit(viewport={"width": 1280, "height": 700})
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["library"](page, demo.address)
    page.mouse.move(5, 250)
    page.mouse.wheel(0, 300)
    until(lambda: page.evaluate("scrollY") == 300)
    card = page.locator(".entry").nth(8)
    before = card.bounding_box()
    card.get_by_role("link").dispatch_event("click")
    page.get_by_role("dialog").wait_for()
    page.mouse.move(5, 250)
    page.mouse.wheel(0, 300)
    assert card.bounding_box() == before
    button(page, "Close").click()
    page.evaluate(TWO_FRAMES)  # the browser scrolls what it has drawn
    page.mouse.wheel(0, 100)
    until(lambda: page.evaluate("scrollY") == 400)


HOVER_RULES = """Array.from(document.styleSheets[0].cssRules).flatMap(rule =>
  rule.conditionText === "(hover: hover)" ? [] : rule.cssText.match(/:hover/g) || [])"""


def test_hover_styles_are_for_pointers_that_hover(visit: Visit, site: str) -> None:
    page = visit()
    page.goto(site)
    assert page.evaluate(HOVER_RULES) == []


def test_the_scheme_is_that_of_the_system(visit: Visit, site: str) -> None:
    page = visit()
    page.goto(site)
    see(page, "Setup code")
    paint = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paint)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(paint) != light


DIFFERENCE = """async png => {
  const draw = async (address) => {
    const image = new Image(180, 180);
    image.src = address;
    await image.decode();
    const canvas = new OffscreenCanvas(180, 180).getContext("2d");
    canvas.drawImage(image, 0, 0, 180, 180);
    return canvas.getImageData(0, 0, 180, 180).data;
  };
  const [one, other] = [await draw("icon.svg"), await draw(png)];
  let sum = 0;
  const middle = [45 * 180 * 4, 135 * 180 * 4];  // without the round corners
  for (let i = middle[0]; i < middle[1]; i++) sum += Math.abs(one[i] - other[i]);
  return sum / (middle[1] - middle[0]);
}"""


def test_all_icons_look_the_same(visit: Visit, site: str) -> None:
    page = visit()
    page.goto(site)
    for side in catalogd.PNG_ICONS:
        assert page.evaluate(DIFFERENCE, f"icon-{side}.png") < 1  # of 255


def test_reduced_motion_turns_animations_off(visit: Visit, demo: Demo) -> None:
    page = visit(reduced_motion="reduce")
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["queue"](page, demo.address)
    animations = "document.getAnimations().length"
    assert page.evaluate(animations) == 0
    bar = "getComputedStyle(document.querySelector('.progress span'))"
    assert page.evaluate(f"{bar}.transitionDuration") == "0s"


# Keyboard, phone and proxy


def test_the_keyboard_alone_opens_closes_and_sends(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    press_until(anna, "Tab", "Paper Harbor")
    anna.keyboard.press("Enter")
    anna.get_by_role("dialog").wait_for()
    anna.keyboard.press("Escape")
    anna.get_by_role("dialog").wait_for(state="detached")
    assert focused(anna) == "Paper Harbor"
    anna.keyboard.press("Tab")
    anna.keyboard.press("Enter")
    until(lambda: bool(store.queue.items(1)))
    until(lambda: focused(anna).startswith("Queued"))


def test_the_focus_goes_from_a_menu_to_a_form_and_back_and_to_a_neighbour(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    for name in ("Attic", "Bedroom"):
        add_device(store, name)

    def opens(name: str, row: str, field: Any) -> None:
        deed(anna, name, row).focus()
        anna.keyboard.press("Enter")
        until(lambda: field.evaluate(IS_FOCUSED))
        anna.keyboard.press("Escape")
        until(lambda: focused(anna) == f"More: {row}")

    anna.goto("#settings/people")
    opens("Set password", "ben", anna.get_by_label("New password of ben"))
    anna.goto("#settings/devices")
    opens("Rename", "Attic", anna.get_by_label("New name of Attic"))
    deed(anna, "Remove", "Attic").focus()
    anna.keyboard.press("Enter")
    button(anna.get_by_role("dialog"), "Remove").focus()
    anna.keyboard.press("Enter")
    until(lambda: focused(anna) == "More: Bedroom")


def test_the_focus_goes_to_a_form_that_opens_and_to_a_neighbour_of_what_goes(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto(f"#title/{add(store, 'Paper Harbor')}")
    button(anna, "Edit Paper Harbor").focus()
    anna.keyboard.press("Enter")
    until(lambda: anna.get_by_label("Name", exact=True).evaluate(IS_FOCUSED))
    anna.keyboard.press("Escape")
    until(lambda: focused(anna) == "Edit Paper Harbor")
    button(anna, "Edit Paper Harbor").click()
    anna.get_by_label("Version").fill("2")
    anna.keyboard.press("Enter")
    until(lambda: focused(anna) == "Edit Paper Harbor")
    for name in ("First", "Second"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Cancel Second").wait_for()  # a poll may have seen the first one alone
    for name, then in {
        "Cancel First": "Cancel Second",
        "Cancel Second": "Queue",
    }.items():
        button(anna, name).focus()
        anna.keyboard.press("Enter")
        until(lambda then=then: focused(anna) == then)


IS_FOCUSED = "node => node === document.activeElement"


def test_the_focus_goes_to_the_heading_of_a_list_without_another_such_row(
    anna: Any, store: catalogd.Store
) -> None:
    """Neither to another button, nor to one of a toast."""
    report(store, sending(store, "Sent"), 100, status="completed")
    report(store, sending(store, "Broken"), 40, status="failed")
    store.queue.send(1, add(store, "Waiting"))
    anna.goto("#queue")
    anna.evaluate("toast('Done.', false, {label: 'Undo', act: () => {}})")
    button(anna, "Undo").wait_for()
    button(anna, "Try again Broken").focus()
    anna.keyboard.press("Enter")
    until(lambda: focused(anna) == "Queue")


def test_the_focus_stays_when_an_item_above_it_goes(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name))
    anna.goto("#queue")
    button(anna, "Cancel Second").focus()
    store.queue.cancel(1, store.queue.items(1)[0]["id"])
    see(anna, "Cancelled")
    assert focused(anna) == "Cancel Second"


def test_the_first_tab_stop_skips_to_the_content(anna: Any) -> None:
    anna.goto("#queue")
    see(anna, "The queue is empty")
    anna.keyboard.press("Tab")
    assert focused(anna) == "Skip to the content"
    anna.keyboard.press("Enter")
    assert anna.evaluate("document.activeElement.id") == "main"


def test_on_a_phone_the_menu_is_at_the_bottom(visit: Visit, demo: Demo) -> None:
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True)
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["library"](page, demo.address)
    box = page.get_by_role("navigation").bounding_box()
    assert box["y"] + box["height"] == PHONE["height"]
    page.get_by_role("link", name="Queue").tap()
    see(page, "To send")


def test_the_page_works_below_another_path(
    visit: Visit, settings: catalogd.Settings, scanner: catalogd.Scanner, key: str
) -> None:
    entry = add(scanner.store, "Paper Harbor")
    service = catalogd.Web(scanner.store, settings, scanner)
    inner = service.app

    def proxy(environ: dict[str, Any], start: Any) -> Any:
        assert environ["PATH_INFO"].startswith("/games/"), environ["PATH_INFO"]
        return inner({**environ, "PATH_INFO": environ["PATH_INFO"][6:]}, start)

    proxy.__dict__["router"] = inner.router  # which tells what threads answer a call
    service.app = proxy
    page = visit()
    with served(service) as address:
        sign_in(page, scanner.store, address, "anna")
        page.goto(f"{address}games/#title/{entry}")
        page.get_by_role("dialog", name="Paper Harbor").wait_for()
        button(page.get_by_role("dialog"), "Send").click()
        until(lambda: bool(scanner.store.queue.items(1)))
        page.get_by_role("dialog").get_by_role("button", name="Add one").click()
        choose_computer(page)
        fill_folder(page, "/card")
        assert f"send_to_switch.py pair {address}games " in line_of(page, "Connect it")


def test_over_http_on_the_lan_the_console_stays_empty(
    visit: Visit, settings: catalogd.Settings, scanner: catalogd.Scanner, key: str
) -> None:
    add(scanner.store, "Paper Harbor")
    scanner.store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    settings = dataclasses.replace(settings, host="0.0.0.0")
    page, lines = visit(), []
    page.on("console", lambda line: lines.append(line.text))
    with served(catalogd.Web(scanner.store, settings, scanner)) as address:
        [host, *_] = catalogd.lan_hosts((4,))
        address = address.replace("127.0.0.1", host)
        page.goto(address)
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill(PASSWORD)
        button(page, "Sign in").click()
        see(page, "Paper Harbor")
        page.get_by_role("link", name="Queue").click()
        page.get_by_role("heading", name="Queue", level=1).wait_for()
        page.get_by_role("link", name="Settings").click()
        for tab in ("Devices", "Files", "Server", "You", "People"):
            page.locator("main").get_by_role("link", name=tab, exact=True).click()
            page.get_by_text("Loading").first.wait_for(state="detached")
        deed(page, "Set password", "ben").click()
        page.get_by_label("New password of ben").wait_for()
    assert lines == []


# Script and style as text


def test_every_glyph_is_used() -> None:
    table = re.search(r"^const GLYPHS = {\n(.*?)^};", catalogd.JS, re.M | re.S)
    assert table is not None
    keys = re.findall(r"^  (\w+):", table[1], re.M)
    assert [key for key in keys if f'"{key}"' not in catalogd.JS] == []


def test_no_text_of_the_script_has_an_operator_between_spaces() -> None:
    """The spaces around one are not sent."""
    code = catalogd.COMMENT.sub("", catalogd.JS)
    texts = re.findall(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`', code)
    plain = [re.sub(r"\$\{[^}]*\}", "", text) for text in texts]
    operator = re.compile(r" ([=!]==|&&|\|\||=>|\?\?|[=?:]) ")
    assert len(plain) > 1000
    assert [text for text in plain if operator.search(text)] == []


def number_of_arguments(text: str) -> int | None:
    """Count the arguments of the call that a text begins with, if it does."""
    if not text.startswith("("):
        return None
    depth, parts = 0, [""]
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return sum(bool(part.strip()) for part in parts)
        parts[-1] += char.strip("(")
        if char == "," and depth == 1:
            parts.append("")
    raise ValueError(text)


def test_the_script_uses_each_text_with_as_many_things_as_it_has_placeholders() -> None:
    wrong, used = [], set[str]()
    for found in re.finditer(r"\bWORDS\.([\w.]*\w)", catalogd.JS):
        text: Any = catalogd.WORDS
        for key in found[1].split("."):
            text = text.get(key) if isinstance(text, dict) else None
        used.add(found[1].split(".")[0])
        count = number_of_arguments(catalogd.JS[found.end() :])
        names = {
            name
            for form in catalogd.forms(text).values()
            for name in catalogd.PLACEHOLDER.findall(str(form))
        } | ({"count"} if isinstance(text, dict) and "one" in text else set())
        if text is None or (count is not None and count != len(names)):
            wrong.append(found[1])
    assert wrong == []
    assert catalogd.WORDS.keys() - used == set()


def test_the_plurals_of_texts_are_by_a_count() -> None:
    for texts in groups(catalogd.WORDS):
        if "one" in texts:
            assert texts.keys() == {"one", "other"}
            one, other = (catalogd.PLACEHOLDER.findall(form) for form in texts.values())
            assert set(one) <= set(other)
            assert {"count", "name"} & set(other), "a name may be a number of titles"
        else:
            assert "{count}" not in str(texts.get("other"))


def groups(texts: Any) -> Iterator[dict[str, Any]]:
    if isinstance(texts, dict):
        yield texts
        for part in texts.values():
            yield from groups(part)


def test_every_class_of_the_style_is_used() -> None:
    styled = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", catalogd.CSS))
    words = set(re.findall(r"[a-z][\w-]*", catalogd.JS))
    assert styled - words == set()


def test_corners_weights_and_spacing_of_letters_are_of_a_few_sizes() -> None:
    allowed = {
        "border-radius": r"inherit|((0|var\(--radius-(s|m|l|full)\)) ?)+",
        "font-weight": r"var\(--(normal|medium|strong|bold)\)",
        "letter-spacing": r"0|normal|var\(--(tight|wide)\)",
    }
    for name, value in re.findall(r"([a-z-]+): ([^;{}]+);", catalogd.CSS):
        assert re.fullmatch(allowed.get(name, ".+"), value, re.DOTALL), (name, value)


def test_language_direction_and_sentences_come_from_the_table_of_words(
    visit: Visit, demo: Demo
) -> None:
    page = visit()
    table = translation(direction="rtl")
    table["sentences"]["account_name_taken"] = "{name}: already taken"
    translate(page, table, "he")
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["queue"](page, demo.address)
    assert page.locator("html").get_attribute("lang") == "he"
    page.goto(f"{demo.address}#settings/people")
    form = page.get_by_role("region", name="Add an account")
    form.get_by_label("I choose the name and the password").check()
    form.get_by_label("Name", exact=True).fill("Kim")
    form.get_by_label("Password", exact=True).fill("a long password")
    button(form, "Add").click()
    see(page, "\u2068Kim\u2069: already taken")
    VIEWS["queue"](page, demo.address)
    cover = page.locator(".item .entry-cover").first.bounding_box()
    text = page.locator(".item .item-text").first.bounding_box()
    assert cover["x"] > text["x"]
    sides = r"(?<!-)\b(left|right)\s*:|(margin|padding|border)-(left|right)\b"
    assert re.search(sides, catalogd.CSS) is None


# Settings


def test_an_account_is_added_made_admin_and_removed(
    anna: Any, store: catalogd.Store
) -> None:
    def roles() -> list[bool]:
        return [row["admin"] for row in store.accounts.all()]

    def answer(yes: str, password: str = PASSWORD) -> None:
        dialog.get_by_label("Your password").fill(password)
        button(dialog, yes).click()

    dialog = anna.get_by_role("dialog")
    anna.goto("#settings/people")
    form = anna.get_by_role("region", name="Add an account")
    form.get_by_label("I choose the name and the password").check()
    form.get_by_label("Name", exact=True).fill("ben")
    form.get_by_label("Password", exact=True).fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    deed(anna, "Make admin", "ben").click()
    answer("Make admin", "a guess")
    see(dialog, "The current password is wrong.")
    assert roles() == [True, False]
    answer("Make admin")
    deed(anna, "Make member", "ben").wait_for()
    assert roles() == [True, True]
    button(anna, "Remove ben").click()
    assert dialog.get_by_label("Your password").input_value() == ""
    answer("Remove")
    until(lambda: len(store.accounts.all()) == 1)


# What a browser keeps

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


# `tests/page/check.py --edit`: style sheet and script as files of their own

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(pathlib.Path(__file__).parent / "page")
    check: Any = importlib.import_module("check")
    edit: Any = sys.modules["edit"]


@pytest.fixture
def editing(tmp_path: pathlib.Path) -> Any:
    program = tmp_path / "copy" / "catalogd.py"
    program.parent.mkdir()
    shutil.copy(catalogd.__file__, program)
    return edit.Editing(program)


def change(editing: Any, name: str, old: str, new: str) -> None:
    text = editing.text(name)
    assert old in text
    editing.files[name].write_text(text.replace(old, new), encoding="utf-8")


def test_what_is_saved_is_put_back_and_nothing_else(editing: Any) -> None:
    before = editing.source
    assert [editing.text(name) for name in ("CSS", "JS")] == [catalogd.CSS, catalogd.JS]
    assert not editing.save()
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    change(editing, "JS", "const MAX_PARTS = 100;", r"const MAX_PARTS = /\d/ ? 99 : 9;")
    assert [editing.save() for _ in range(3)] == [True, True, False]
    now = editing.program.read_text(encoding="utf-8")
    now = now.replace("--accent: #123456", "--accent: #0f6b5c")
    assert now.replace(r"/\d/ ? 99 : 9;", "100;") == before
    editing.end()
    assert [path.name for path in editing.program.parent.iterdir()] == ["catalogd.py"]


def test_nothing_is_put_into_a_program_that_was_changed_meanwhile(editing: Any) -> None:
    other = editing.source + "# mine\n"
    editing.program.write_text(other, encoding="utf-8")
    assert not editing.save(), "nothing was edited"
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    with pytest.raises(edit.Refused, match="was changed meanwhile"):
        editing.save()
    assert editing.program.read_text(encoding="utf-8") == other
    assert "#123456" in editing.text("CSS"), "it is kept"


@pytest.mark.parametrize("text", ['a { content: """ }\n', "a { color: red }"])
def test_a_text_that_would_end_the_constant_is_refused(editing: Any, text: str) -> None:
    editing.files["CSS"].write_text(text, encoding="utf-8")
    with pytest.raises(edit.Refused):
        editing.save()
    assert editing.program.read_text(encoding="utf-8") == editing.source


@pytest.fixture
def proxy(editing: Any, site: str) -> Iterator[str]:
    server = edit.serve(editing, site, 0)
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_the_page_of_a_running_server_is_loaded_again_when_it_is_edited(
    visit: Visit, proxy: str, editing: Any, key: str
) -> None:
    page = visit()
    page.goto(proxy)
    see(page, "Your home game library.")
    color = "getComputedStyle(document.documentElement).getPropertyValue('--accent')"
    assert page.evaluate(color) == "#0f6b5c"
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    page.wait_for_function(f"{color} === '#123456'")  # also while it is loaded again
    change(editing, "JS", "renderLogo(), h.h1(null, title)", "h.h1(null, 'Edited')")
    see(page, "Edited")
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    see(page, "The name or the password is wrong.")


# Invitations


WELCOME = "anna invites you to this library."


def made_link(page: Any) -> str:
    """Return the link that the page shows."""
    text: str = page.locator(".new-key code").inner_text()
    return text


def invite(page: Any) -> str:
    """Make an invitation for a new member, and return its link."""
    page.goto("#settings/people")
    button(page, "Make a link").click()
    return made_link(page)


def test_a_child_is_invited_and_chooses_name_and_password(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    anna.goto("#settings/people")
    panel = anna.get_by_role("region", name="Add an account")
    panel.get_by_label("Sees").select_option("Titles up to age 7")
    button(panel, "Make a link").click()
    see(panel, "it is not shown again")
    assert read_picture(anna, panel.get_by_role("img", name="QR code")) == [
        made_link(anna)
    ]
    see(panel, "Open invitation, titles up to age 7")
    mia = visit()
    mia.goto(made_link(anna))
    see(mia, WELCOME)
    assert "#" not in mia.url
    mia.reload()
    mia.get_by_label("Name").fill("Mia")
    mia.get_by_label("Password").fill(PASSWORD)
    button(mia, "Create account").click()
    see(mia, "Nothing here yet")
    account = store.accounts.all()[-1]
    assert (account["name"], account["age"]) == ("Mia", 7)
    mia.reload()
    see(mia, "Nothing here yet")


def test_an_admin_is_invited_with_the_own_password(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/people")
    panel = anna.get_by_role("region", name="Add an account")
    panel.get_by_role("checkbox", name="Is an admin").check()
    panel.get_by_label("Your password").fill("a guess")
    button(panel, "Make a link").click()
    see(panel, "The current password is wrong.")
    panel.get_by_label("Your password").fill(PASSWORD)
    button(panel, "Make a link").click()
    see(panel, "Open invitation for an admin")
    assert store.invitations.open()[0]["admin"]


def test_a_forgotten_password_is_replaced_by_a_link(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    ben = store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings/people")
    deed(anna, "Password link", "ben").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_label("Your password").fill(PASSWORD)
    button(dialog, "Make a link").click()
    see(anna, "New password of ben")
    page = visit()
    page.goto(made_link(anna))
    see(page, "Choose a new password for ben.")
    page.get_by_label("Password").fill("another one")
    button(page, "Set password").click()
    see(page, "Nothing here yet")
    found = store.accounts.credentials("ben")
    assert found and found[0] == ben
    assert catalogd.password_matches("another one", found[1])


def test_a_removed_invitation_is_told_to_whoever_opens_it(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    link = invite(anna)
    button(anna, "Remove Open invitation").click()
    button(anna.get_by_role("dialog"), "Remove").click()
    until(lambda: store.invitations.open() == [])
    anna.locator(".new-key").wait_for(state="detached")
    guest = visit()
    guest.goto(link)
    see(guest, "The link was used, replaced or removed, or is older than a day.")
    button(guest, "Go to sign in").click()
    button(guest, "Sign in").wait_for()
    guest.reload()
    button(guest, "Sign in").wait_for()


def test_an_invitation_waits_for_a_server_that_is_away(anna: Any, visit: Visit) -> None:
    link = invite(anna)
    guest = visit()
    guest.route("**/web/invitation", lambda route: route.abort())
    guest.goto(link)
    see(guest, "Reconnecting to the server")
    guest.unroute("**/web/invitation")
    see(guest, WELCOME)


def test_a_late_answer_for_one_link_leaves_the_form_of_another(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    guest, first = visit(), invite(anna)
    button(anna, "Make a link").click()
    until(lambda: anna.wait_for_timeout(20) or made_link(anna) != first)
    calls: list[Any] = []
    guest.route("**/web/invitation", lambda route: calls.append(route))
    for count, link in enumerate((first, made_link(anna)), 1):
        guest.goto(link)
        until(lambda count=count: guest.wait_for_timeout(20) or len(calls) == count)
    calls[1].continue_()
    see(guest, WELCOME)
    calls[0].fulfill(json={"success": True, "invitation": {"maker": "ben", "name": ""}})
    guest.evaluate("new Promise(done => setTimeout(done))")
    see(guest, WELCOME)


def test_a_server_that_goes_away_after_an_account_was_made_is_waited_for(
    anna: Any, visit: Visit
) -> None:
    guest = visit()
    guest.goto(invite(anna))
    guest.get_by_label("Name").fill("ben")
    guest.get_by_label("Password").fill(PASSWORD)
    guest.route("**/web/me", lambda route: route.abort())
    button(guest, "Create account").click()
    see(guest, "Reconnecting to the server")
    guest.unroute("**/web/me")
    see(guest, "Nothing here yet")


def test_a_name_that_is_taken_is_told_and_another_one_is_chosen(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    guest = visit()
    guest.goto(invite(anna))
    guest.get_by_label("Name").fill("anna")
    guest.get_by_label("Password").fill(PASSWORD)
    button(guest, "Create account").click()
    see(guest, "There is an account anna already.")
    guest.get_by_label("Name").fill("ben")
    button(guest, "Create account").click()
    see(guest, "Nothing here yet")
    assert [row["name"] for row in store.accounts.all()] == ["anna", "ben"]


def test_whoever_is_signed_in_is_asked_to_sign_out_for_an_invitation(anna: Any) -> None:
    link = invite(anna)
    anna.goto(link)
    see(anna, "You are signed in as anna.")
    button(anna, "Go to the library").click()
    see(anna, "Nothing here yet")
    anna.goto(link)
    button(anna, "Sign out").click()
    see(anna, WELCOME)


def test_a_link_that_is_opened_over_the_sign_in_page_is_taken(
    anna: Any, visit: Visit
) -> None:
    link = invite(anna)
    guest = visit()
    guest.goto(link.partition("#")[0])
    button(guest, "Sign in").wait_for()
    guest.goto(link)
    see(guest, WELCOME)
