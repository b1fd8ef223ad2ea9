"""What a child sees, and how an admin chooses it, in a real Chromium."""

import re
from typing import Any

import pytest

import catalogd
from browser import (
    DESK,
    PHONE,
    Taps,
    add,
    add_device,
    button,
    choose_program,
    choose_way,
    deed,
    is_focused,
    names,
    options,
    see,
    set_library,
    sign_in,
    until,
)
from conftest import PASSWORD, Library, Visit
from example import Demo, by_age
from views import VIEWS


@pytest.fixture
def kid(store: catalogd.Store, key: str) -> int:
    """The account Kim, which sees what is for 7."""
    return store.accounts.add("Kim", catalogd.hash_password(PASSWORD), age=7)


def add_games(store: catalogd.Store, count: int) -> list[str]:
    return [add(store, f"Game {number:02}") for number in range(count)]


def choose(page: Any, menu: str, choice: str) -> None:
    page.get_by_label(menu, exact=True).select_option(label=choice)


def select(page: Any, *titles: str) -> None:
    for title in titles:
        page.get_by_label(f"Select {title}").check()


def enter(page: Any, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    button(page, "Sign in").click()


# Titles


def test_thirty_titles_get_an_age_in_33_taps(anna: Any, store: catalogd.Store) -> None:
    """A menu takes two taps: one opens it, and one chooses."""
    games, taps = add_games(store, 31), Taps()
    anna.set_viewport_size({"width": 1280, "height": 3000})
    anna.goto("")
    see(anna, "Game 30")
    taps.on(button(anna, "Select"))
    for number in range(30):
        taps.on(anna.get_by_label(f"Select Game {number:02}"))
    taps.count += 2
    choose(anna, "For children", "7+")
    see(anna, "30 titles are now for 7 and older.")
    assert store.entries.ages() == dict.fromkeys(games[:30], 7)
    assert taps.count <= 33
    anna.locator(".entries .meta", has_text="7+").nth(29).wait_for()


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_undo_which_covers_no_line_gives_each_title_its_former_age(
    anna: Any, store: catalogd.Store, size: dict[str, int]
) -> None:
    games = add_games(store, 4)
    store.entries.set_ages(games[:1], 3)
    store.entries.set_ages(games[1:2], 12)
    before = store.entries.ages()
    anna.set_viewport_size(size)
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 4 shown").click()
    choose(anna, "For children", "Not for children")
    see(anna, "4 titles are now not for children.")
    line, told = (
        anna.locator(each).bounding_box() for each in (".selection", ".toasts")
    )
    ends = [each["y"] + each["height"] for each in (told, line)]
    assert ends[0] <= line["y"] or ends[1] <= told["y"]
    assert store.entries.ages() == dict.fromkeys(games, 18)
    see(anna, "Nothing selected")
    button(anna, "Undo").click()
    until(lambda: store.entries.ages() == before)
    anna.locator(".entries .meta", has_text="12+").wait_for()


def test_the_menu_of_ages_keeps_the_focus_when_the_selection_is_emptied(
    anna: Any, store: catalogd.Store
) -> None:
    games = add_games(store, 2)
    anna.goto("")
    button(anna, "Select").click()
    button(anna, "Select all 2 shown").click()
    menu = anna.get_by_label("For children", exact=True)
    menu.focus()
    choose(anna, "For children", "7+")
    see(anna, "Nothing selected")
    assert is_focused(menu)
    menu.evaluate(
        "node => { node.value = 12; node.dispatchEvent(new Event('change')) }"
    )
    assert is_focused(menu)
    assert menu.input_value() == ""
    assert store.entries.ages() == dict.fromkeys(games, 7)


def test_all_that_a_search_shows_gets_an_age(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    """Also what is on a disk that is away."""
    path = library.add("Kite Wars.nsp")
    library.add("Otter Brigade.nsp")
    scanner.scan()
    ids = {row["name"]: row["id"] for row in by_age(store)}
    with store.database.writing() as db:
        db.execute("UPDATE entries SET state = 'offline' WHERE source = ?", (path,))
    anna.goto("")
    anna.get_by_label("Search the library").fill("kite")
    button(anna, "Select").click()
    button(anna, "Select all 1 shown").click()
    choose(anna, "For children", "12+")
    see(anna, "Kite Wars is now for 12 and older.")
    assert store.entries.ages() == {ids["Kite Wars"]: 12}


def test_filters_show_the_titles_of_an_age_and_the_undecided(
    anna: Any, store: catalogd.Store
) -> None:
    games = add_games(store, 3)
    store.entries.set_ages(games[:1], 7)
    anna.goto("")
    see(anna, "Game 02")
    set_library(anna, "7+")
    until(lambda: names(anna) == ["Game 00"])
    button(anna, "Sort and filter").click()
    chips = anna.get_by_role("group", name="For children").get_by_role("button")
    assert chips.all_text_contents() == ["7+", "Undecided"]
    button(anna, "Undecided").click()
    until(lambda: names(anna) == ["Game 01", "Game 02"])
    store.entries.set_ages(games[1:2], 3)
    until(lambda: names(anna) == ["Game 02"])


def test_a_title_s_age_is_changed_in_its_details(
    anna: Any, store: catalogd.Store
) -> None:
    [game] = add_games(store, 1)
    anna.goto(f"#title/{game}")
    menu = anna.get_by_role("dialog").get_by_label("For children")
    assert menu.input_value() == "none"
    menu.select_option(label="16+")
    see(anna.get_by_role("dialog"), "Game 00 is now for 16 and older.")
    until(lambda: store.entries.ages() == {game: 16})
    button(anna, "Undo").click()
    until(lambda: menu.input_value() == "none")
    assert store.entries.ages() == {}


def test_what_cannot_be_saved_is_told(anna: Any, store: catalogd.Store) -> None:
    """Another admin has made her a member as it is saved."""
    add_games(store, 1)

    def demote(route: Any) -> None:
        if route.request.method != "GET":
            store.database.write("UPDATE accounts SET admin = 0", ())
        route.continue_()

    anna.route("**/web/ages", demote)
    anna.goto("")
    button(anna, "Select").click()
    select(anna, "Game 00")
    choose(anna, "For children", "7+")
    see(anna, "Only an admin may do this.")


def test_a_member_has_neither_marks_nor_menus_of_ages(
    ben: Any, store: catalogd.Store
) -> None:
    games = add_games(store, 2)
    store.entries.set_ages(games[:1], 7)
    ben.goto(f"#title/{games[0]}")
    see(ben, "Added")
    ben.goto("#library")
    button(ben, "Select").click()
    select(ben, "Game 00")
    assert ben.get_by_label("For children").count() == 0
    assert ben.locator(".mark").count() == 2  # that it is a link
    assert ben.locator(".meta", has_text="7+").count() == 0


# A child


def test_parent_and_child_in_one_browser_see_their_own(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    games = add_games(store, 3)
    store.entries.set_ages(games[:1], 7)
    store.queue.send(1, games[2])
    anna.goto("")
    see(anna, "Game 02")
    for _ in range(2):
        anna.goto("#settings/you")
        button(anna, "Sign out").first.click()
        enter(anna, "Kim")
        see(anna, "1 title")
        assert names(anna) == ["Game 00"]
        anna.goto("#queue")
        see(anna, "The queue is empty")
        anna.goto("#settings/library")
        see(anna, "Signed in as Kim")
        assert anna.locator(".tabs a").count() == 0
        button(anna, "Sign out").first.click()
        enter(anna, "anna")
        see(anna, "3 titles")
        assert names(anna) == ["Game 00", "Game 01", "Game 02"]


def test_a_child_s_open_page_follows_the_ages(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    games = add_games(store, 2)
    anna.goto("")
    anna.goto("#settings/you")
    button(anna, "Sign out").first.click()
    enter(anna, "Kim")
    see(anna, "Ask an adult, who chooses what you see here.")
    assert button(anna, "Scan now").count() == 0
    assert "library folder" not in anna.locator("main").inner_text()
    store.entries.set_ages(games, 7)
    see(anna, "2 titles")
    store.entries.set_ages(games[:1], 12)
    until(lambda: names(anna) == ["Game 01"])


# People and devices


def test_an_admin_makes_an_account_of_an_age_and_changes_it(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/people")
    anna.get_by_label("I choose the name and the password").check()
    anna.get_by_label("Name", exact=True).fill("Kim")
    anna.get_by_label("Password", exact=True).fill(PASSWORD)
    choose(anna, "Sees", "Titles up to age 7")
    button(anna, "Add").click()
    see(anna, "The account Kim was added.")
    menu = deed(anna, "Sees", "Kim")
    assert menu.input_value() == "7"
    menu.select_option(label="Titles up to age 12")
    until(lambda: store.accounts.all()[1]["age"] == 12)
    menu.select_option(label="Every title")
    until(lambda: store.accounts.all()[1]["age"] is None)
    until(lambda: menu.input_value() == "")
    assert button(anna, "More: anna").count() == 0


def test_an_admin_is_made_without_an_age(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/people")
    anna.get_by_label("I choose the name and the password").check()
    anna.get_by_label("Name", exact=True).fill("Robin")
    anna.get_by_label("Password", exact=True).fill(PASSWORD)
    choose(anna, "Sees", "Titles up to age 7")
    anna.get_by_label("Is an admin").check()
    anna.get_by_label("Your password").fill(PASSWORD)
    button(anna, "Add").click()
    see(anna, "The account Robin was added.")
    assert store.accounts.all()[1]["age"] is None


def test_an_admin_makes_the_console_address_of_a_child(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    anna.goto("#settings/people")
    deed(anna, "Console address", "Kim").click()
    see(anna, "It lists what Kim sees, and replaces an older one.")
    button(anna, "Create address").click()
    token = anna.locator(".row code").text_content().split("/")[-2]
    assert token == store.addresses.browse_token(kid)


def test_a_child_reads_what_its_queue_waits_for(
    anna: Any, store: catalogd.Store, site: str, kid: int
) -> None:
    (game,) = add_games(store, 1)
    store.entries.set_ages([game], 7)
    store.queue.send(kid, game)
    sign_in(anna, store, site, "Kim")
    anna.goto("#queue")
    see(anna, "1 waiting")
    see(anna, "Waits for a device.")
    add_device(store, "Attic", kid, target="There is no folder /card.")
    see(anna.locator(".device-text"), "Off")


def test_an_admin_is_told_what_a_console_lists_and_chooses_whose_it_is(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    anna.goto("#settings/devices")
    see(anna, "on the console lists every game that this account sees")
    see(anna, "For a child's console, create it under People, with the child.")
    button(anna, "Add a device").click()
    choose_way(anna, "catalogd sends it to the console")
    choose_program(anna, "Sphaira")
    anna.get_by_label("Address of the console").fill("127.0.0.1:1")
    anna.get_by_role("button", name="Add", exact=True).click()
    see(anna, "Trying Living room")
    anna.get_by_label("What do you call it?").fill("Attic")
    choose(anna, "Whose is it?", "Kim")
    button(anna, "Done").click()
    until(lambda: store.devices.all()[0]["name"] == "Attic")
    [device] = store.devices.all()
    assert (device["name"], device["account"]) == ("Attic", "Kim")
    deed(anna, "Belongs to", "Attic").select_option(label="anna")
    until(lambda: store.devices.all()[0]["account"] == "anna")
    see(anna, "Attic")


def test_sending_tells_that_the_child_does_not_see_the_title(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    games = add_games(store, 3)
    store.entries.set_ages(games[:1], 7)
    add_device(store, "Kim's console", kid, shared=True)
    anna.goto(f"#title/{games[1]}")
    text = "Kim's console: Kim does not see this title, and will see it in the queue."
    see(anna.get_by_role("dialog"), text)
    button(anna, "Close").click()
    button(anna, "Send Game 00").click()
    see(anna, "Game 00: added to the queue of Kim's console (Kim).")
    assert anna.get_by_text(text).count() == 0
    button(anna, "Select").click()
    select(anna, "Game 01", "Game 02")
    button(anna, "Send 2").click()
    see(anna, "Kim does not see these 2 titles, and will see them in the queue.")
    assert {row["entry"] for row in store.queue.items(1)} == {*games}


def test_a_member_is_told_so_too(ben: Any, store: catalogd.Store, kid: int) -> None:
    [game] = add_games(store, 1)
    add_device(store, "Attic", kid, shared=True)
    ben.goto("")
    button(ben, "Send Game 00").click()
    see(ben, "Attic: Kim does not see this title, and will see it in the queue.")


def test_an_open_page_loses_its_folders_when_its_account_gets_an_age(
    ben: Any, store: catalogd.Store
) -> None:
    tabs = ben.locator(".tabs a")
    ben.goto("#settings/you")
    until(lambda: tabs.all_text_contents() == ["You", "Devices", "Files"])
    store.accounts.change(store.accounts.id_of("ben"), {"age": 12})
    until(lambda: tabs.all_text_contents() == ["You", "Devices"])


def test_an_undecided_title_tells_what_it_was_for_before(
    anna: Any, service: catalogd.Web, store: catalogd.Store, library: Library
) -> None:
    for name in ("Chess", "Go", "Reversi", "Whist"):
        library.add(f"{name}.nsp", name.encode())
    service.scanner.scan()
    ids = {row["name"]: row["id"] for row in by_age(store)}
    store.entries.set_ages([ids["Chess"], ids["Whist"]], 7)
    store.entries.edit(ids["Go"], {"base_id": "0100AAAABBBB0000", "kind": "base"})
    store.entries.set_ages(["0100AAAABBBB0000"], 12)
    store.entries.edit(ids["Go"])
    library.add("Chess.nsp", b"another game")
    service.scanner.scan()
    anna.goto("")
    set_library(anna, "Undecided")
    texts = anna.locator(".entries .meta")
    told = ["its file was replaced; it was for 7", "seen from 12 before"]
    for number, text in enumerate(told):
        see(texts.nth(number), f" · {text}")
    assert texts.count() == 3 and "before" not in (texts.nth(2).text_content() or "")
    anna.goto(f"#title/{ids['Chess']}")
    see(anna.get_by_role("dialog"), told[0])
    choose(anna, "For children", "7+")
    anna.get_by_role("dialog").get_by_text(told[0]).wait_for(state="detached")
    assert store.entries.ages()[ids["Chess"]] == 7


# A child's own page


TECHNICAL = (
    r"\d\s?[kMGT]?B\b|\b(?:NS[PZ]|XC[IZ]|NRO|DBI|Sphaira|Tinfoil|sys-ftpd)\b"
    r"|\d+\.\d+\.\d+|://|/media|\b[Uu]pdate\b|\badd-on"
)
SAID = """() => [document.body.innerText, ...Array.from(
  document.querySelectorAll("#app *"),
  node => `${node.getAttribute("aria-label") || ""} ${node.title || ""}`,
)].join("\\n")"""
BOXES = "all => all.map(each => each.getBoundingClientRect().toJSON())"
VIEWS_OF_A_CHILD = ["Games", "Queue", "Settings"]


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_child_s_page_has_no_technical_words(
    visit: Visit, demo: Demo, size: Any
) -> None:
    for view in ("library", "details", "queue", "settings"):
        page = visit(**options("light", size))
        sign_in(page, demo.store, demo.address, "Robin")
        VIEWS[f"child_{view}"](page, demo.address)
        assert re.findall(TECHNICAL, page.evaluate(SAID)) == []
        views = page.locator("nav").first.inner_text().split()
        assert [each for each in views if each.isalpha()] == VIEWS_OF_A_CHILD
        page.unroute_all(behavior="ignoreErrors")
        page.context.close()


def test_a_child_sees_two_columns_of_covers_with_a_large_button_under_each(
    visit: Visit, demo: Demo
) -> None:
    """What is being sent fills its button."""
    page = visit(**options("light", PHONE))
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["child_library"](page, demo.address)
    cards = page.locator(".entries .entry").evaluate_all(BOXES)
    assert len({card["x"] for card in cards}) == 2
    sends = page.locator(".entries .send").evaluate_all(BOXES)
    for card, send in zip(cards, sends, strict=True):
        assert (send["x"], send["width"]) == (card["x"], card["width"])
        assert send["height"] >= 44 and send["y"] - card["y"] > card["width"]
    page.get_by_label("Search the library").fill("umbra")
    fill = page.locator(".entries .fill")
    until(lambda: fill.count() == 1)
    assert fill.inner_text().startswith("42")
    whole, done, _ = page.locator(".entries .fill, .fill span").evaluate_all(BOXES)
    assert 0.4 < done["width"] / whole["width"] < 0.5


def test_an_older_child_has_the_page_of_all_others(
    anna: Any, store: catalogd.Store, kid: int
) -> None:
    store.accounts.change(kid, {"age": 12})
    add_games(store, 2)
    store.entries.set_ages([row["id"] for row in by_age(store)], 12)
    anna.goto("")
    anna.goto("#settings/you")
    button(anna, "Sign out").first.click()
    enter(anna, "Kim")
    see(anna, "2 titles")
    assert anna.get_by_role("link", name="Library").count() == 1
    assert anna.locator(".child").count() == 0
