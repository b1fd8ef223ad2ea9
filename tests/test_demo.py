"""`serve --demo`: a household in a temporary folder, which ends with it."""

import contextlib
import http.cookiejar
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import demo
from browser import see, violations
from conftest import Visit, free_port, wait_for

PROGRAM = pathlib.Path(catalogd.__file__)


class Demo:
    """A demo as a process, with temporary and home folders of its own."""

    def __init__(self, folder: pathlib.Path, *words: str) -> None:
        self.temporary, home = folder / "temporary", folder / "home"
        for place in (self.temporary, home / ".config/catalogd"):
            place.mkdir(parents=True, exist_ok=True)
        (home / ".config/catalogd/catalogd.ini").write_text("this is not read")
        environment = {**os.environ, "TMPDIR": str(self.temporary), "HOME": str(home)}
        command = [sys.executable, str(PROGRAM), "serve", "--demo", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process: Any = subprocess.Popen(
            command, env=environment, text=True, **pipes
        )
        self.printed = ""
        while not self.printed.endswith("Stop with Ctrl-C.\n"):
            line = self.process.stdout.readline()
            assert line, self.printed
            self.printed += line
        self.links = re.findall("http://.*/demo/.*", self.printed)

    def folders(self) -> list[pathlib.Path]:
        return [*self.temporary.glob("catalogd-demo-*")]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = int(self.process.wait(60))
        self.process.stdout.close()
        return code


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Callable[..., Demo]]:
    """Starts demos on loopback, and ends them with the test."""
    with contextlib.ExitStack() as stack:

        def begin(*words: str) -> Demo:
            found = Demo(tmp_path, *(words or ("--port", "0")))
            stack.callback(found.end, signal.SIGKILL)
            return found

        yield begin


def visitor(link: str) -> Callable[[str], Any]:
    """Open a link in a new browser, and return what calls its page."""
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(jar)
    opener.open(link, timeout=60).close()

    def call(path: str) -> Any:
        with opener.open(link.partition("demo/")[0] + path, timeout=60) as answer:
            return json.loads(answer.read())

    return call


def test_a_demo_has_a_household_with_a_console_that_is_sent_to(
    start: Callable[..., Demo],
) -> None:
    running = start()
    adult, child = map(visitor, running.links)
    assert adult("web/me")["account"]["name"] == "Robin"
    assert child("web/me")["account"]["name"] == "Kim"
    entries = adult("web/entries")["entries"]
    names = {row["name"] for row in entries}
    assert {name for name, *_ in demo.games()} < names
    assert sum(bool(row.get("icon")) for row in entries) >= 27
    assert not [row for row in entries if row.get("complete") is False]
    assert len(child("web/entries")["entries"]) < len(entries)

    def sending() -> Any:
        items = adult("web/changes")["queue"]["items"]
        return [row for row in items if row["status"] == "processing"]

    wait_for(lambda: [row for row in sending() if row["percent"] > 0])
    states = {row["name"]: row["state"] for row in adult("web/changes")["devices"]}
    assert states["Living room"] == "sending"
    with urllib.request.urlopen(
        running.links[0].partition("demo/")[0] + "style.css"
    ) as it:
        assert 'content:"Demo"' in it.read().decode()


def test_a_link_of_a_demo_is_good_once(start: Callable[..., Demo]) -> None:
    link = start().links[1]
    visitor(link)
    with pytest.raises(urllib.error.HTTPError, match="410"):
        visitor(link)


def test_a_link_that_was_used_opens_the_page_where_it_was(
    start: Callable[..., Demo], visit: Visit
) -> None:
    """Elsewhere it tells what to do next, and looks as the page does."""
    adult, child = start().links
    robin, kim = visit(), visit()
    for _ in range(2):
        robin.goto(adult)
        see(robin, "27 titles")
    kim.goto(child)
    see(kim, "Games")
    for page, link in ((kim, adult), (robin, child), (visit(), child)):
        page.goto(link)
        card = page.get_by_role("main").locator(".card")
        assert card.get_by_role("heading").inner_text() == "This link no longer works"
        assert "start it again" in card.inner_text()
        style = "getComputedStyle(document.querySelector('.card')).padding"
        assert page.evaluate(style) != "0px"
        assert violations(page) == []


def test_a_demo_obeys_host_and_port(start: Callable[..., Demo]) -> None:
    port = free_port()
    running = start("--host", "localhost", "--port", str(port))
    assert running.links[0].startswith(f"http://localhost:{port}/demo/")


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_ends_with_its_folder(start: Callable[..., Demo], number: int) -> None:
    running = start()
    assert len(running.folders()) == 1
    assert running.end(number) == (0 if number == signal.SIGTERM else 130)
    assert not running.folders()
    assert not [*running.temporary.iterdir()]


def test_what_a_killed_demo_leaves_is_removed_by_the_next(
    start: Callable[..., Demo],
) -> None:
    killed, running = start(), start()
    killed.end(signal.SIGKILL)
    assert len(running.folders()) == 2
    third = start()
    assert len(third.folders()) == 2
    visitor(running.links[0])("web/me")


def test_a_demo_takes_no_room_for_its_games(tmp_path: pathlib.Path) -> None:
    demo.fill(tmp_path, [b""], demo.games())
    files = [path.stat() for path in tmp_path.iterdir()]
    assert sum(file.st_size for file in files) > 50 * 10**9
    assert os.name == "nt" or sum(file.st_blocks for file in files) < 2000


def test_something_is_always_being_sent(
    store: catalogd.Store, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "Games").mkdir()
    demo.fill(tmp_path / "Games", [b""], demo.games())
    settings = catalogd.Settings(folders=(str(tmp_path / "Games"),))
    catalogd.Scanner(store, settings).scan()
    home = demo.Household(store, "ftp://127.0.0.1:5000/", "ftp://127.0.0.1:5001/")
    home.settle()

    def waiting() -> list[str]:
        items = store.queue.items(home.robin)
        return [row["id"] for row in items if row["status"] == "pending"]

    def report(item: str, status: str) -> None:
        fields = {"status": status, "key": home.living}
        store.clients.report(home.robin, item, fields)

    before = waiting()
    home.refill()
    assert waiting() == before
    for _ in range(30):
        for item in waiting():
            report(item, "processing")
            home.refill()
            assert waiting(), "something comes next, also after the last one"
            report(item, "completed")
    assert len(waiting()) == 1


def test_folders_are_refused_beside_a_demo(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert catalogd.main(["serve", "--demo", "Games"]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "serve --demo has its own games." in capsys.readouterr().err


def test_a_demo_without_its_file_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "program_folders", lambda: [tmp_path])
    with pytest.raises(catalogd.Problem, match="The demo is not here"):
        catalogd.demo_module()


def test_a_demo_that_was_called_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        served: list[Any] = []
        serve = staticmethod(served.append)

    monkeypatch.setattr(signal, "signal", lambda *given: None)
    monkeypatch.setattr(catalogd, "demo_module", lambda: Module)
    assert catalogd.main(["serve", "--demo"]) == 0
    assert len(Module.served) == 1
