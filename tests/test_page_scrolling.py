"""Scrolling through the long lists of the page, in a real Chromium."""

from collections.abc import Callable, Mapping

import pytest

import catalogd
from browser import (
    DESK,
    PHONE,
    add,
    add_device,
    add_files,
    options,
    report,
    see,
    sign_in,
    until,
)
from conftest import Visit

# Scroll from the top to the end and back, a step in each frame, and then rest. Return
# how often the page was drawn meanwhile, and where it moved by itself.
SCROLL = """async step => {
  const plain = draw;
  const done = {steps: 0, draws: 0, drawsAtRest: 0, moved: []};
  let count = 0;
  window.poll = () => {};
  window.draw = () => { if (++count < 1000) plain(); };  // so that a test can end
  const frame = () => new Promise(requestAnimationFrame);
  for (const by of [step, -step]) {
    for (let last = -1; scrollY !== last && done.steps < 2000; done.steps++) {
      last = scrollY;
      scrollBy(0, by);
      const wanted = scrollY;
      await frame();
      if (scrollY !== wanted) done.moved.push(wanted);
    }
  }
  done.draws = count;
  for (let n = 0; n < 10; n++) await frame();
  done.drawsAtRest = count - done.draws;
  return done;
}"""


def fill_queue(store: catalogd.Store) -> None:
    """Two devices with a queue: one is being sent to, the other is off."""
    living, attic = add_device(store, "Living room"), add_device(store, "Attic")
    for n in range(14):
        store.queue.send(1, add(store, f"Game {'I' * n}"), living)
    store.queue.send(1, add(store, "For the one that is off"), attic)
    report(store, store.queue.items(1)[0]["id"], 40, key=living)


def fill_library(store: catalogd.Store) -> None:
    add_files(store, (f"Game {n}" for n in range(32)))


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(DESK, marks=pytest.mark.ci, id="desk"),
        pytest.param(PHONE, id="phone"),
    ],
)
@pytest.mark.parametrize(
    ("address", "fill", "max_draws"),
    [("#queue", fill_queue, 0), ("#library", fill_library, 32)],
    ids=["queue", "library"],
)
def test_scrolling_draws_what_comes_in_sight_once_and_nothing_when_it_rests(
    visit: Visit,
    store: catalogd.Store,
    site: str,
    key: str,
    size: Mapping[str, int],
    address: str,
    fill: Callable[[catalogd.Store], None],
    max_draws: int,
) -> None:
    fill(store)
    page = visit(base_url=site, **options("light", size))
    sign_in(page, store, site, "anna")
    page.goto(address)
    see(page.locator(".entries, .item"), "Game")
    until(lambda: page.evaluate("Boolean(state.entries)"))  # whose covers the rows have
    done = page.evaluate(SCROLL, 7)
    assert done["steps"] > 100, "the list is longer than the screen"
    assert (done["moved"], done["drawsAtRest"]) == ([], 0)
    assert min(1, max_draws) <= done["draws"] <= max_draws
