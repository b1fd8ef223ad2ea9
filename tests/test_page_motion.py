"""What moves between library, queue and details, in a real Chromium."""

from typing import Any

import pytest

import catalogd
from browser import PHONE, add_files, button, names, options, sending, sign_in, until
from conftest import Visit

# Notes which pseudo-elements move in each transition, and how the page is where the
# browser first shows what it has drawn.
NOTE = """
window.seen = [];
const start = document.startViewTransition?.bind(document);
document.startViewTransition = start && (change => {
  const transition = start(change);
  transition.ready.then(() => {
    const moved = document.getAnimations().map(({effect}) => effect.pseudoElement);
    const cards = [...document.querySelectorAll("main .entry")];
    const isInSight = ({top, bottom}) => bottom > 0 && top < innerHeight;
    seen.push({
      moved: [...new Set(moved)].filter(name => /group\\(cover/.test(name)).sort(),
      top: scrollY,
      faintest: Math.min(...[...document.querySelectorAll("main, main li")].map(
        node => Number(getComputedStyle(node).opacity))),
      cards: cards.filter(card => isInSight(card.getBoundingClientRect())).length,
    });
  }, () => {});
  return transition;
});
"""
LEFT = """() => document.querySelectorAll('[style*="view-transition-name"]').length"""


@pytest.fixture
def moving(visit: Visit, store: catalogd.Store, site: str, key: str) -> Any:
    """A page of somebody who likes motion, with 60 titles, one of them under way."""
    add_files(store, [f"Game {number:02}" for number in range(60)])
    sending(store, "A Paper Harbor")
    page = visit(base_url=site, reduced_motion="no-preference")
    page.add_init_script(NOTE)
    sign_in(page, store, site, "anna")
    page.goto("")
    button(page.locator(".entries"), "Send Game 00").wait_for()
    return page


def seen(page: Any, count: int) -> list[dict[str, Any]]:
    """Return what was noted of so many transitions, once the last one is over."""
    until(lambda: page.evaluate("seen.length") == count)
    until(lambda: page.evaluate(LEFT) == 0)
    found: list[dict[str, Any]] = page.evaluate("seen")
    return found


def test_a_cover_travels_to_the_details_and_back(moving: Any) -> None:
    dialog = moving.get_by_role("dialog")
    ways = (button(dialog, "Close").click, moving.go_back)
    for number, close in enumerate(ways):
        moving.get_by_role("link", name="Game 03").last.click()
        dialog.wait_for()
        seen(moving, 2 * number + 1)
        close()
        dialog.wait_for(state="detached")
        seen(moving, 2 * number + 2)
    moved = [each["moved"] for each in seen(moving, 4)]
    assert moved == [["::view-transition-group(cover-0)"]] * 4


def test_the_covers_of_what_is_sent_travel_from_the_dock_to_the_queue(
    moving: Any, store: catalogd.Store
) -> None:
    """The library comes back where it was, with its titles, before it is shown."""
    sending(store, "A Second Harbor")
    moving.reload()
    until(lambda: moving.locator(".dock .lane").count() == 2)
    button(moving.locator(".entries"), "Send Game 00").wait_for()
    moving.evaluate("scrollTo(0, 1200)")
    for number, view in enumerate(("queue", "library", "settings")):
        moving.evaluate("go", view)
        seen(moving, number + 1)
    found = seen(moving, 3)
    covers = [f"::view-transition-group(cover-{number})" for number in range(2)]
    assert [each["moved"] for each in found] == [covers] * 3
    assert [each["top"] for each in found] == [0, 1200, 0]
    assert found[1]["cards"] > 6
    assert min(each["faintest"] for each in found) >= 0.5


def test_a_cover_that_is_partly_below_the_head_stays_there(moving: Any) -> None:
    """In motion, it would be above the head."""
    link = moving.get_by_role("link", name="Game 03").last
    link.evaluate("""node => {
        const cover = node.closest("li").querySelector(".entry-cover");
        scrollBy(0, cover.getBoundingClientRect().bottom - 100);
        node.focus({preventScroll: true});
        node.click();
    }""")
    moving.get_by_role("dialog").wait_for()
    moving.go_back()
    assert [each["moved"] for each in seen(moving, 1)] == [[]]


def test_who_goes_on_during_a_motion_arrives(moving: Any) -> None:
    """Each address is a change of its own, some before the one before is drawn."""
    link = moving.get_by_role("link", name="Game 03").last
    address = link.get_attribute("href")
    for words in (
        [address, "#queue"],
        ["#library", address, "#settings"],
        ["#library"],
    ):
        moving.evaluate("words => words.forEach(word => location.hash = word)", words)
    moving.locator(".library").wait_for()
    link.click()
    moving.evaluate("history.back()")
    link.click()
    moving.get_by_role("dialog").wait_for()
    moving.keyboard.press("Escape")
    moving.get_by_role("dialog").wait_for(state="detached")
    until(lambda: moving.evaluate("location.hash") == "#library")
    assert moving.evaluate(LEFT) == 0


STOP = """() => document.getAnimations()
  .filter(({effect}) => /group/.test(effect.pseudoElement || ""))
  .map(animation => animation.pause()).length"""


def test_a_press_during_a_motion_reaches_what_is_below(moving: Any) -> None:
    box = moving.get_by_role("link", name="Settings").bounding_box()
    moving.evaluate("go('queue')")
    until(lambda: moving.evaluate(STOP))
    moving.mouse.click(box["x"] + 20, box["y"] + 10)
    until(lambda: moving.locator(".settings").count() == 1)


@pytest.mark.parametrize("way", ["reduced", "lacking"])
def test_nothing_moves_for_who_minds_it_or_in_a_browser_that_cannot(
    visit: Visit, store: catalogd.Store, site: str, key: str, way: str
) -> None:
    add_files(store, [f"Game {number:02}" for number in range(60)])
    is_reduced = way == "reduced"
    motion = {"reduced_motion": "reduce" if is_reduced else "no-preference"}
    page = visit(base_url=site, **{**options("light", PHONE), **motion})
    lacking = "Document.prototype.startViewTransition = undefined;"
    page.add_init_script(("" if is_reduced else lacking) + NOTE)
    sign_in(page, store, site, "anna")
    page.goto("")
    until(lambda: "Game 00" in names(page))
    page.evaluate("scrollTo(0, 1200)")
    page.locator("nav a", has_text="Queue").click()
    until(lambda: page.locator(".queue").count() == 1)
    page.locator("nav a", has_text="Library").click()
    until(lambda: page.evaluate("scrollY") == 1200)
    page.get_by_role("link", name="Game").nth(4).click()
    page.get_by_role("dialog").wait_for()
    assert page.evaluate("seen") == []
    assert page.evaluate(LEFT) == 0
