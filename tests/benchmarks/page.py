#!/usr/bin/env python3
"""How soon Chromium shows the page, with its processor slowed four times.

    python3 tests/benchmarks/page.py [TITLES [ITEMS [ROUNDS]]]

Serves a library of TITLES titles (default 10,000) and a queue of ITEMS items (default
1,000), and prints a table. Of what is done in several rounds (default 3), the best is
what the page takes while other programs leave the processor to it.
"""

import contextlib
import itertools
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import catalogd  # noqa: E402
from browser import (  # noqa: E402
    DESK,
    add_files,
    close_context,
    options,
    sign_in,
    start_chromium,
    until,
)
from example import Demo, by_age, running  # noqa: E402

SLOWER = 4  # times
SLOW_LINK = {"downloadThroughput": 187_500, "uploadThroughput": 187_500}  # 1.5 Mbit/s
ONLINE = {"downloadThroughput": -1, "uploadThroughput": -1}

# Note when the first titles are painted.
WATCH = """
new MutationObserver((records, watcher) => {
  if (!document.querySelector(".entry")) return;
  watcher.disconnect();
  const note = () => { window.drawnAt = performance.now(); };
  requestAnimationFrame(() => setTimeout(note));
}).observe(document, {childList: true, subtree: true});
"""
TYPE = """async word => {
  const input = document.getElementById("search");
  const took = [];
  for (let n = 1; n <= word.length; n++) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    input.value = word.slice(0, n);
    input.dispatchEvent(new Event("input"));
    await Promise.resolve();
    await Promise.resolve();
    document.body.offsetHeight;
    took.push(performance.now() - began);
  }
  return took;
}"""
DRAW = """() => {
  const began = performance.now();
  draw();
  document.body.offsetHeight;
  return performance.now() - began;
}"""
SORT = """() => {
  const titles = [...allTitles()];
  for (let n = titles.length - 1; n > 0; n--) {
    const other = (n * 7919) % (n + 1);
    [titles[n], titles[other]] = [titles[other], titles[n]];
  }
  const began = performance.now();
  sorted(titles, "name");
  return performance.now() - began;
}"""
SCROLL = """async () => {
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let n = 0; n < 60; n++) {
    scrollBy(0, 60);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"


def fill(store: catalogd.Store, titles: int, items: int) -> None:
    """Add titles that are on no disk, and queue some of them."""
    words = ("Harbor", "Café", "Quarry", "Apiary", "Courier")
    ids = itertools.count(0x0100_0000_0001_0000, 0x2000)
    names = (f"{words[n % 5]} {n // 5} [{next(ids):016X}][v0]" for n in range(titles))
    add_files(store, names, size=1_234_567)
    entries = [entry["id"] for entry in by_age(store)]
    store.queue.send_all(store.accounts.id_of("Robin"), entries[:items], None)


@contextlib.contextmanager
def opened(demo: Demo) -> Iterator[tuple[Any, Any]]:
    """Yield a page in the browser of the admin, and its DevTools."""
    with start_chromium() as chromium:
        context = chromium.new_context(base_url=demo.address, **options("light", DESK))
        page = context.new_page()
        sign_in(page, demo.store, demo.address, "Robin")
        page.add_init_script(WATCH)
        devtools = context.new_cdp_session(page)
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        yield page, devtools
        close_context(context)


def load(page: Any, devtools: Any, link: dict[str, int]) -> tuple[float, float]:
    """Load the page without a cache. Return the milliseconds to the first paint, and
    to the first titles."""
    network = {"offline": False, "latency": 0, **link}
    devtools.send("Network.emulateNetworkConditions", network)
    devtools.send("Network.clearBrowserCache")
    page.goto("about:blank")
    page.goto("#library", timeout=0)
    page.locator(".entry").first.wait_for(timeout=0)
    until(lambda: page.evaluate(f"window.drawnAt && {PAINT}"))
    paint, titles = page.evaluate(f"[{PAINT}.startTime, drawnAt]")
    return paint, titles


def best(rounds: int, measure: Callable[[], Sequence[float]]) -> list[float]:
    """Return the least of each of several figures."""
    return [
        min(figures)
        for figures in zip(*(measure() for _ in range(rounds)), strict=True)
    ]


def heap(devtools: Any) -> float:
    """Return the megabytes of the script's memory."""
    devtools.send("HeapProfiler.collectGarbage")
    return float(devtools.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def measure(page: Any, devtools: Any, rounds: int) -> Iterator[tuple[str, str]]:
    """Yield what was measured, and the figure."""
    _, slow = best(rounds, lambda: load(page, devtools, SLOW_LINK))
    paint, cards = best(rounds, lambda: load(page, devtools, ONLINE))
    yield "first paint", f"{paint:.0f} ms"
    yield "first titles", f"{cards:.0f} ms"
    yield "first titles over 1.5 Mbit/s", f"{slow:.0f} ms"
    yield "memory of the script", f"{heap(devtools):.1f} MB"
    keys = best(rounds, lambda: page.evaluate(TYPE, "cafe 19"))
    yield "a key of a search, median", f"{statistics.median(keys):.1f} ms"
    yield "a key of a search, slowest", f"{max(keys):.1f} ms"
    (sort,) = best(rounds, lambda: [page.evaluate(SORT)])
    yield "sorting shuffled titles by name", f"{sort:.0f} ms"
    yield from lists(page)


def lists(page: Any) -> Iterator[tuple[str, str]]:
    """Yield the figures of drawing and scrolling both lists."""
    for name, mark in {"library": ".entry", "queue": ".item"}.items():
        page.goto(f"#{name}")
        page.locator(mark).first.wait_for(timeout=0)
        (draw,) = best(10, lambda: [page.evaluate(DRAW)])
        frames = page.evaluate(SCROLL)
        yield f"drawing the {name} again", f"{draw:.1f} ms"
        yield (
            f"a frame of scrolling the {name}, median",
            f"{statistics.median(frames):.1f} ms",
        )
        yield f"a frame of scrolling the {name}, slowest", f"{max(frames):.1f} ms"


def main(titles: int = 10_000, items: int = 1_000, rounds: int = 3) -> None:
    with running(lambda folder: None) as demo:
        fill(demo.store, titles, items)
        with opened(demo) as (page, devtools):
            print(
                f"{titles:,} titles, {items:,} queue items, a processor slowed 4 times"
            )
            for what, figure in measure(page, devtools, rounds):
                print(f"{what:45}{figure:>12}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
