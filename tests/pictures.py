"""Pictures of the page.

`python3 tests/pictures.py` writes the pictures of the README into packaging/, a moving
one among them, for which it needs ffmpeg; with a folder as its argument it writes every
view into that folder: 390, 1280 and 2560 pixels wide, light, dark, with forced colors,
and with a font of 200 %. Names of views after the folder choose among them.
"""

import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import catalogd  # noqa: E402
from browser import (  # noqa: E402
    DESK,
    PHONE,
    WIDE,
    add_device,
    button,
    close_context,
    options,
    show,
    sign_in,
    start_chromium,
)
from demo import covers, describe, fill, games  # noqa: E402
from example import Demo, demo, running  # noqa: E402
from views import VIEWS  # noqa: E402

SHOWN = "Clockwork Orchard"  # what the moving picture sends
MODES = ("light", "dark", "forced", "large")


def picture(page: Any, path: str) -> None:
    page.wait_for_timeout(150)  # for images and fonts
    page.screenshot(path=path)


@contextlib.contextmanager
def visiting(
    browser: Any, server: Demo, view: str, scheme: str, size: Mapping[str, int]
) -> Iterator[Any]:
    """Open a view."""
    context = browser.new_context(**options(scheme, size))
    page = context.new_page()
    sign_in(page, server.store, server.address, "Robin")
    VIEWS[view](page, server.address)
    yield page
    close_context(context)


def all_views(browser: Any, server: Demo, folder: str, views: Sequence[str]) -> None:
    os.makedirs(folder, exist_ok=True)
    for view, size in itertools.product(views, (PHONE, DESK, WIDE)):
        with visiting(browser, server, view, "light", size) as page:
            for mode in MODES:
                show(page, mode, size)
                file = f"{view}-{size['width']}-{mode}.png"
                picture(page, os.path.join(folder, file))


def furnish(store: catalogd.Store) -> None:
    """Add two devices that are there, have all of the queue be for the first, and all
    titles but three be older."""
    robin, kim = (store.accounts.id_of(name) for name in ("Robin", "Kim"))
    living = add_device(store, "Living room", robin, shared=True)
    add_device(store, "Bedroom", kim, shared=True)
    with store.database.writing() as db:
        db.execute("UPDATE queue SET device = :id, key = :id", {"id": living})
        db.execute("UPDATE sent SET device = ?", (living,))
        lately = ("Loom of Weather", "Otter Brigade", "Tidepool Tactics")
        db.execute(
            "UPDATE entries SET created_at = '2026-01-31T18:05:59'"
            " WHERE name NOT IN (?, ?, ?)",
            lately,
        )


def readme_pictures(browser: Any, server: Demo) -> None:
    folder = ROOT / "packaging"
    furnish(server.store)
    with visiting(browser, server, "library", "light", DESK) as page:
        picture(page, f"{folder}/page.png")
    with visiting(browser, server, "queue", "dark", PHONE) as page:
        picture(page, f"{folder}/page-phone.png")


class Film:
    """Frames of a page, and how long each is shown."""

    def __init__(self, page: Any, folder: str) -> None:
        self.page, self.folder = page, folder
        self.lines: list[str] = []

    def shoot(self, seconds: float) -> None:
        path = os.path.join(self.folder, f"{len(self.lines)}.png")
        picture(self.page, path)
        self.lines.append(f"file '{path}'\nduration {seconds}\n")

    def tap(self, target: Any) -> None:
        """Tap on a button, and show where."""
        box = target.bounding_box()
        x, y = box["x"] + box["width"] / 2 - 22, box["y"] + box["height"] / 2 - 22
        style = f"left: {x}px; top: {y}px; width: 44px; height: 44px;"
        style += "position: fixed; z-index: 99; border-radius: 50%; background: #fb08"
        show = "style => { finger = document.createElement('div');"
        show += " finger.style.cssText = style; document.body.append(finger); }"
        self.page.evaluate(show, style)
        self.shoot(0.5)
        self.page.evaluate("finger.remove()")
        target.click()

    def write(self, path: pathlib.Path) -> None:
        """Write a WebP with ffmpeg."""
        frames = os.path.join(self.folder, "frames.txt")
        pathlib.Path(frames).write_text("".join([*self.lines, self.lines[-1]]))
        command = ["ffmpeg", "-v", "error", "-y", "-f", "concat", "-safe", "0"]
        command += ["-i", frames, "-vf", "fps=10", "-loop", "0", "-quality", "60"]
        subprocess.run([*command, "-c:v", "libwebp_anim", str(path)], check=True)


def film_of_a_send(browser: Any) -> None:
    """Write a moving picture of eight seconds: on a phone, Send is tapped, the progress
    runs, and the game is sent."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(lambda games_folder: fill(games_folder, covers(), games())) as server,
    ):
        store = server.store
        describe(store)
        robin = store.accounts.id_of("Robin")
        device = add_device(store, "Living room", robin)
        with visiting(browser, server, "library", "light", PHONE) as page:
            film = Film(page, folder)
            film.shoot(1.2)
            film.tap(button(page.locator(".entries"), SHOWN).first)
            page.locator(".dock").first.wait_for()
            film.shoot(1)
            for percent in range(5, 100, 5):
                report(store, robin, device, {"progress_percent": percent})
                film.page.evaluate("poll('changes')")
                film.shoot(0.2)
            report(store, robin, device, {"status": "completed"})
            film.page.evaluate("poll('changes')")
            film.shoot(1.5)
            film.write(ROOT / "packaging/send.webp")


def report(
    store: catalogd.Store, account: int, device: str, figures: dict[str, Any]
) -> None:
    """Report on what is sent to a device as its client does, at 21 MB/s."""
    for item in store.queue.items(account):
        if item["status"] in ("pending", "processing"):
            done = item["size"] * figures.get("progress_percent", 100) // 100
            figures = {**figures, "bytes_transferred": done, "key": device}
            store.clients.report(account, item["id"], figures)
            if kept := store.queue.progress._reports.get(item["id"]):
                kept["speed"] = 21_400_000


FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<alias binding="strong">
<family>sans-serif</family><prefer><family>Inter</family></prefer>
</alias>
</fontconfig>
"""


def main() -> None:
    """Take the pictures, with Inter as the system's font where it is installed."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(FONTS)
        file.flush()
        os.environ["FONTCONFIG_FILE"] = file.name
        with start_chromium() as browser, demo(covers()) as server:
            if sys.argv[1:]:
                all_views(browser, server, sys.argv[1], sys.argv[2:] or [*VIEWS])
            else:
                readme_pictures(browser, server)
                film_of_a_send(browser)


if __name__ == "__main__":
    main()
