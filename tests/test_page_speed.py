"""What the page loads, draws and changes for 10,000 titles, counted in a real Chromium.
How long that takes is printed by benchmarks/page.py."""

import itertools
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

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
from example import by_age

# Count what the page draws, from its first script on.
COUNT = """{
  window.draws = 0;
  const later = queueMicrotask;
  queueMicrotask = work => {
    if (work === window.draw) draws += 1;
    later(work);
  };
}"""
# Type a word, and return for each of its keys how often the page was drawn, how many
# changes of the document that made, how many titles are in it, and what it cost.
TYPE = """async word => {
  const input = document.getElementById("search");
  let changes = 0;
  const watcher = new MutationObserver(records => { changes += records.length; });
  watcher.observe(document, {childList: true, characterData: true, subtree: true});
  const keys = [];
  for (let n = 1; n <= word.length; n++) {
    await new Promise(requestAnimationFrame);
    const before = {draws, changes};
    const cost = await costOf(() => {
      input.value = word.slice(0, n);
      input.dispatchEvent(new Event("input"));
    });
    await new Promise(requestAnimationFrame);
    keys.push({
      draws: draws - before.draws,
      changes: changes - before.changes,
      titles: document.querySelectorAll(".entry").length,
      cost,
    });
  }
  watcher.disconnect();
  return keys;
}"""
COST = """{
  window.costOf = async work => {
    const began = performance.now();
    work();
    await Promise.resolve();
    await Promise.resolve();
    document.body.offsetHeight;
    return performance.now() - began;
  };
}"""
# Note the rows of a list whose nodes are gone through, to look for changes.
NOTE_ROWS = """() => {
  window.touched = new Set();
  const plain = updateNode;
  window.updateNode = (node, vnode) => {
    const row = node.parentElement?.closest("li");
    if (row) touched.add(row);
    plain(node, vnode);
  };
}"""
TOUCHED = "[...touched].map(row => row.querySelector('h2, h3').textContent)"
MAKE_TITLES = "costOf(() => titlesOf([...state.entries]))"
LOADED = """[...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].map(
    ({name, encodedBodySize: size}) => [name, size])"""
SCROLL = """async () => {
  const counts = [];
  const before = draws;
  for (let n = 0; n < 40; n++) {
    scrollBy(0, 60);
    await new Promise(requestAnimationFrame);
    counts.push(document.querySelectorAll(".entry").length);
  }
  return {titles: Math.max(...counts), draws: draws - before};
}"""


def test_the_files_of_the_page_are_less_than_82_kb_compressed(anna: Any) -> None:
    anna.goto("")
    see(anna, "Nothing here yet")
    sizes = [size for name, size in anna.evaluate(LOADED) if "/web/" not in name]
    assert len(sizes) >= 4  # the page, its style, its script and an icon
    assert 10_000 < sum(sizes) < 82_000


@pytest.fixture
def ten_thousand(anna: Any, store: catalogd.Store) -> Any:
    """The page of anna, with 10,000 titles."""
    words = ("Harbor", "Café", "Quarry", "Apiary", "Courier")
    ids = itertools.count(0x0100_0000_0001_0000, 0x2000)
    names = (f"{words[n % 5]} {n // 5} [{next(ids):016X}][v0]" for n in range(10_000))
    add_files(store, names, size=1_234_567)
    for script in (COUNT, COST):
        anna.add_init_script(script)
    anna.goto("")
    see(anna, "Apiary 0")
    return anna


def test_ten_thousand_titles_need_few_bytes_calls_and_nodes(ten_thousand: Any) -> None:
    draws, loaded = ten_thousand.evaluate(f"[draws, {LOADED}]")
    assert len({name for name, _ in loaded}) <= 10, "beside later polls"
    assert sum(size for _, size in loaded) < 400_000, "two seconds at 1.5 Mbit/s"
    assert draws <= 2 * len(loaded)
    assert ten_thousand.evaluate("document.querySelectorAll('*').length") < 1000
    devtools = ten_thousand.context.new_cdp_session(ten_thousand)
    devtools.send("HeapProfiler.collectGarbage")
    assert devtools.send("Runtime.getHeapUsage")["usedSize"] < 30_000_000


@pytest.mark.ci
def test_a_key_of_a_search_draws_once_and_makes_no_titles_anew(
    ten_thousand: Any,
) -> None:
    """Titles are made of entries when those come, which costs nine times as much."""
    rounds = [ten_thousand.evaluate(TYPE, "cafe 19") for _ in range(5)]
    for key in itertools.chain(*rounds):
        assert key["draws"] <= 2
        assert key["changes"] < 1000
        assert key["titles"] < 60
    costs = [min(key["cost"] for key in keys) for keys in zip(*rounds, strict=True)]
    making = min(ten_thousand.evaluate(MAKE_TITLES) for _ in range(5))
    assert statistics.median(costs) < making / 2


@pytest.mark.ci
def test_ten_thousand_titles_are_scrolled_through_with_few_in_the_document(
    ten_thousand: Any,
) -> None:
    scrolled = ten_thousand.evaluate(SCROLL)
    assert scrolled["titles"] < 100
    assert 1 <= scrolled["draws"] <= 20, "fewer than the steps of the scrolling"
    ten_thousand.evaluate("scrollTo(0, document.body.scrollHeight)")
    see(ten_thousand, "Quarry 1999")
    assert ten_thousand.locator(".entry").count() < 100


@pytest.mark.ci
def test_a_poll_goes_through_the_rows_of_a_long_queue_that_have_changed(
    anna: Any, store: catalogd.Store
) -> None:
    add_files(store, (f"Game {n}" for n in range(1000)))
    ids = [row["id"] for row in by_age(store)]
    store.queue.send_all(1, ids, None)
    item, other, below = (row["id"] for row in store.queue.items(1)[:3])
    report(store, item, 40)
    anna.goto("#queue")
    see(anna, "40 %")
    until(lambda: anna.evaluate("Boolean(state.entries)"))  # whose covers the rows have
    anna.evaluate(NOTE_ROWS)
    report(store, item, 50)
    see(anna, "50 %")
    names = anna.locator("main :is(.lane, .item) :is(h2, h3)")
    [sent, *rows] = names.all_text_contents()[:4]
    assert anna.evaluate(TOUCHED) == [sent]
    store.queue.move(1, [other], below)
    until(lambda: names.nth(1).text_content() == rows[1])
    assert {*anna.evaluate(TOUCHED)} == {sent, *rows}, "and the one below them"


@pytest.mark.ci
def test_the_benchmark_of_the_page_prints_its_table(chromium: Any) -> None:
    root = pathlib.Path(__file__).parents[1]
    script = root / "tests" / "benchmarks" / "page.py"
    command = [sys.executable, str(script), "200", "20", "1"]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) >= 10


# Scrolling

# Scroll from the top to the end and back, a step in each frame, and then rest. Return
# how often the page was drawn meanwhile, and where it moved by itself.
SCROLL_BY = """async step => {
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
    done = page.evaluate(SCROLL_BY, 21)
    assert done["steps"] > 40, "the list is longer than the screen"
    assert (done["moved"], done["drawsAtRest"]) == ([], 0)
    assert min(1, max_draws) <= done["draws"] <= max_draws
