"""Pictures of the page.

`python3 tests/pictures.py` writes the three pictures of the README into packaging/;
with a folder as its argument it writes every view into that folder: 390, 1280 and 2560
pixels wide, light, dark, with forced colors, and with a font of 200 %. Names of views
after the folder choose among them.
"""

import contextlib
import itertools
import os
import pathlib
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
    close_context,
    options,
    show,
    sign_in,
    start_chromium,
)
from demo import covers  # noqa: E402
from example import Demo, demo  # noqa: E402
from views import VIEWS  # noqa: E402

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
    size = {"width": 1080, "height": 680}
    furnish(server.store)
    with visiting(browser, server, "library", "light", size) as page:
        picture(page, f"{folder}/page.png")
    with visiting(browser, server, "queue", "dark", PHONE) as page:
        picture(page, f"{folder}/page-phone.png")
    with visiting(browser, server, "add_console", "light", PHONE) as page:
        picture(page, f"{folder}/page-device.png")


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


if __name__ == "__main__":
    main()
