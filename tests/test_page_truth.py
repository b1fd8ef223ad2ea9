"""What the page says while consoles, clients and the server fail, in the browsers of an
owner and a member: at each moment the queue of the interface says the same, and so do
the files on the target. Server, client and console are real, on loopback."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
from browser import button, deed, see, unfold_experts, until
from conftest import PASSWORD, Visit, free_port, short_and_long, wait_for
from consoles import FTPConsole
from example import session
from test_page_uploads import choose

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

ROOT = os.path.dirname(catalogd.__file__)
CLIENT = """
import sys
import send_to_switch
send_to_switch.POLL_SECONDS = send_to_switch.CHECK_SECONDS = 0.05
send_to_switch.UNDO_SECONDS = 600
send_to_switch.REPORT_SECONDS, send_to_switch.MAX_PAUSE_SECONDS = 0.1, 0.1
sys.exit(send_to_switch.main())
"""  # as it is, but for shorter pauses, and a longer one where the machine is busy
ENDED = ("Sent", "Failed", "Cancelled")
SHARED = ("sending", "waiting", "Failed")
KEY = "catalogd_" + "k" * 43
SMALL, BIG = 3_000_000, 30_000_000  # the latter is more than sockets hold
STALLED = 5_000_000  # bytes of it, after which a console reads no more
KEEP_TOASTS = """() => {
  const wait = setTimeout;
  setTimeout = (work, pause, ...given) =>
    wait(work, pause === ACTION_PAUSE ? 1e6 : pause, ...given);
}"""
# The names of the page's rows, by what it says of them.
ROWS = """() => {
  const found = {};
  for (const row of document.querySelectorAll("main li:has(h3)")) {
    const mark = row.querySelector(".mark")?.textContent || "waiting";
    const kind = row.matches(".lane") ? "sending" : mark;
    (found[kind] ||= []).push(row.querySelector("h3").textContent);
  }
  return found;
}"""


class House:
    """A server with three games, an owner, a member, and the owner's shared device."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self.games, self.inbox, self.target = (
            folder / name for name in ("games", "games/inbox", "target")
        )
        for path in (self.games, self.inbox, self.target):
            path.mkdir()
        self.cookies: dict[str, str] = {}
        self.processes = contextlib.ExitStack()
        self.fill()
        self.start()

    def fill(self) -> None:
        with contextlib.closing(catalogd.Store(str(self.folder / "data"))) as store:
            for name in ("anna", "ben"):
                account = store.accounts.add(name, catalogd.hash_password(PASSWORD))
                self.cookies[name] = session(store, account)
            digest = catalogd.hash_token(KEY)
            device = store.accounts.add_key(1, "Attic", digest, is_device=True)
            store.devices.change(device, {"shared": True})

    def add(self, name: str, size: int) -> bytes:
        """Add a game, and return what it has."""
        path = self.games / f"{name}.nsp"
        content = os.urandom(size)
        path.write_bytes(content)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return content

    def start(self) -> None:
        lines = ["[library]", f"folders = {self.games}", f"inbox = {self.inbox}"]
        lines += ["scan_interval = 1", "[server]", "host = 127.0.0.1"]
        ini = self.folder / "catalogd.ini"
        ini.write_text("\n".join([*lines, f"port = {self.port}", ""]), "utf-8")
        options = ["--config", str(ini), "--data-dir", str(self.folder / "data")]
        self.server = self.run("catalogd.py", "serve", *options)
        wait_for(self.answers)

    def answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("/healthz")[0] == 200
        return False

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.callback(kill, process)
        return process

    def send_to(self, to: str) -> subprocess.Popen[bytes]:
        """Start the client of the device."""
        key = self.folder / "key"
        key.write_text(KEY)
        options = ["--server", self.address, "--key-file", str(key), "--to", to]
        return self.run("-c", CLIENT, *options, "--state", str(self.folder / "state"))

    def ask(self, path: str) -> tuple[int, Any]:
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        ) as line:
            line.request("GET", path, headers={"Authorization": f"Bearer {KEY}"})
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())

    def pending(self) -> list[str]:
        """Return what the queue of the interface has for the device."""
        rows = self.ask("/api/send-queue?target=ready")[1]["queue"]
        return [row["entry_name"] for row in rows]

    def check(self, sender: Any, *others: Any, parts: int = 0, **rows: Any) -> None:
        """Wait until pages say no more and no less than this of the queue, and compare
        that with the interface and the target. Others than who has sent an item see
        it until it was sent or cancelled."""
        for page in (sender, *others):
            names = [name for name in rows if page == sender or name in SHARED]
            wanted = {name: rows[name] for name in names}
            until(lambda page=page, wanted=wanted: said(page) == wanted)
        wait_for(lambda: self.pending() == rows.get("waiting", []))
        sent = {f"{name}.nsp" for name in rows.get("Sent", [])}
        # A file is begun just after it is said to be sent:
        wait_for(lambda: len(list(self.target.iterdir())) == len(sent) + parts)
        found = {path.name for path in self.target.iterdir()}
        assert found >= sent
        assert [path.endswith(".part") for path in found - sent] == [True] * parts
        for name in sent:
            content = (self.games / name).read_bytes()
            assert (self.target / name).read_bytes() == content


def said(page: Any) -> dict[str, list[str]]:
    """Return what it says of the queue: what ended in the same second in any order."""
    rows: dict[str, list[str]] = page.evaluate(ROWS)
    return {name: sorted(rows[name]) if name in ENDED else rows[name] for name in rows}


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture
def house(tmp_path: pathlib.Path) -> Iterator[House]:
    house = House(tmp_path)
    with house.processes:
        yield house


Enter = Callable[[str], Any]


@pytest.fixture
def enter(house: House, visit: Visit) -> Enter:
    """Return a function that opens the queue in a browser of an account."""

    def open_queue(name: str) -> Any:
        page = visit(base_url=house.address)
        cookie = {"name": "session", "value": house.cookies[name]}
        page.context.add_cookies([{**cookie, "url": house.address}])
        page.goto("#queue")
        page.evaluate(KEEP_TOASTS)
        see(page, "The queue is empty")
        return page

    return open_queue


def send(page: Any, *names: str) -> None:
    page.goto("#library")
    for name in names:
        button(page, f"Send {name}").click()
        page.get_by_role("button", name=f"Queued: {name}").wait_for()
    page.goto("#queue")


@contextlib.contextmanager
def stalled(house: House) -> Iterator[FTPConsole]:
    """A console that takes a part of a file. Its port stays its own when it is off."""
    with contextlib.closing(FTPConsole(house.target, free_port())) as console:
        console.stall_after = STALLED
        yield console


@pytest.mark.ci
def test_a_console_that_is_off_in_mid_send(house: House, enter: Enter) -> None:
    for name in ("Glass Heron", "Paper Harbor"):
        house.add(name, BIG)
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Glass Heron", "Paper Harbor")
    with stalled(house) as console:
        house.send_to(console.url())
        now = {"sending": ["Glass Heron"], "waiting": ["Paper Harbor"]}
        house.check(ben, anna, parts=1, **now)
        wait_for(lambda: console.stalled)
    house.check(ben, anna, parts=1, waiting=["Glass Heron", "Paper Harbor"])
    for page in (anna, ben):
        see(page, "are there")
        see(page, "Nothing listens at port")
    console = FTPConsole(house.target, console.port)
    with contextlib.closing(console):
        house.check(ben, anna, Sent=["Glass Heron", "Paper Harbor"])
    assert "APPE" in console.commands or "REST" in console.commands


def hold_second(route: Any, held: list[Any]) -> None:
    """Hold the second piece of an upload."""
    if route.request.headers.get("upload-offset") == "0":
        route.continue_()
    else:
        held.append(route)


@pytest.mark.ci
def test_a_server_that_is_killed_in_mid_send_and_in_mid_upload(
    house: House, enter: Enter
) -> None:
    house.add("Paper Harbor", BIG)
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Paper Harbor")
    added = house.folder / "Glass Heron.nsp"
    added.write_bytes(os.urandom(SMALL))
    with stalled(house) as console:
        house.send_to(console.url())
        house.check(ben, anna, parts=1, sending=["Paper Harbor"])
        held: list[Any] = []
        anna.route("**/web/uploads/*", lambda route: hold_second(route, held))
        anna.goto("#library")
        choose(anna, added)
        until(lambda: anna.wait_for_timeout(20) or held)
        [part] = house.inbox.glob(".catalogd-*.part")
        assert 0 < part.stat().st_size < SMALL
        kill(house.server)
        anna.unroute("**/web/uploads/*")
        for page in (anna, ben):
            see(page, "Reconnecting to the server")
        house.start()
        console.stall_after = float("inf")
        anna.get_by_text("Added as Glass Heron.nsp").first.wait_for(timeout=60_000)
        anna.goto("#queue")
        house.check(ben, anna, Sent=["Paper Harbor"])
    assert (house.inbox / added.name).read_bytes() == added.read_bytes()
    anna.goto("#library")
    button(anna.locator(".entries"), "Send Glass Heron").wait_for()


@pytest.mark.ci
def test_a_device_that_is_removed_with_a_queue(house: House, enter: Enter) -> None:
    for name in ("Glass Heron", "Paper Harbor"):
        house.add(name, BIG)
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Glass Heron")
    send(anna, "Paper Harbor")
    with stalled(house) as console:
        client = house.send_to(console.url())
        until(lambda: said(ben).get("sending") == ["Glass Heron"])
        anna.goto("#settings/devices")
        deed(anna, "Remove", "Attic").click()
        button(anna.get_by_role("dialog"), "Remove").click()
        client.wait(60)  # its key is refused
    assert house.ask("/api/send-queue")[0] == 401
    anna.goto("#queue")
    for page, name in ((anna, "Paper Harbor"), (ben, "Glass Heron")):
        until(lambda page=page, name=name: said(page) == {"waiting": [name]})
        see(page, "Attic")  # where it was for


@pytest.mark.ci
def test_a_failed_item_is_retried_and_replaces_a_file(
    house: House, enter: Enter
) -> None:
    """The card is full at first, and then it has another file of this name."""
    house.add("Paper Harbor", BIG)
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Paper Harbor")
    with contextlib.closing(FTPConsole(house.target)) as console:
        console.ends_after = STALLED
        house.send_to(console.url())
        house.check(ben, anna, Failed=["Paper Harbor"])
        see(anna, "space")
        console.ends_after = float("inf")
        other = house.target / "Paper Harbor.nsp"
        other.write_bytes(b"another file")
        button(ben, "Try again Paper Harbor").click()
        see(ben, "Another file Paper Harbor.nsp is there.")
        until(lambda: said(anna) == {"Failed": ["Paper Harbor"]})
        assert other.read_bytes() == b"another file"
        button(ben, "Replace Paper Harbor").click()
        button(ben.get_by_role("dialog"), "Replace").click()
        house.check(ben, anna, Sent=["Paper Harbor"])


def test_two_tabs_and_an_undo(house: House, enter: Enter) -> None:
    for name in ("Glass Heron", "Paper Harbor"):
        house.add(name, BIG)
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Glass Heron", "Paper Harbor")
    other = ben.context.new_page()
    other.goto(f"{house.address}#queue")
    with stalled(house) as console:
        house.send_to(console.url())
        now = {"sending": ["Glass Heron"], "waiting": ["Paper Harbor"]}
        house.check(ben, other, anna, parts=1, **now)
        button(ben, "Cancel Glass Heron").click()
        wait_for(lambda: console.commands.count("STOR") == 2)
        console.stall_after = float("inf")
        sent = {"Sent": ["Paper Harbor"], "Cancelled": ["Glass Heron"]}
        for tab in (ben, other):
            house.check(tab, anna, parts=1, **sent)
        button(ben.locator(".toast", has_text="was cancelled"), "Undo").click()
        for tab in (ben, other):
            house.check(tab, anna, Sent=["Glass Heron", "Paper Harbor"])
    assert "APPE" in console.commands or "REST" in console.commands


@pytest.mark.ci
def test_a_session_that_ends_while_a_form_is_filled(house: House, enter: Enter) -> None:
    anna, other = enter("anna"), enter("anna")
    anna.goto("#settings/library")
    unfold_experts(anna)
    link = anna.get_by_role("region", name="Add a link")
    link.get_by_label("Name").fill("Yonder Isles")
    other.goto("#settings/you")
    button(other, "Sign out everywhere").click()
    button(other.get_by_role("dialog"), "Sign out everywhere").click()
    see(anna, "You were signed out. Sign in again.")
    anna.locator("[name=username]").fill("anna")  # beside the form that stays
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    link.wait_for()
    assert link.get_by_label("Name").input_value() == "Yonder Isles"


@pytest.mark.ci
@short_and_long(size=(BIG, 2 << 30))
def test_a_file_of_many_bytes(house: House, enter: Enter, size: int) -> None:
    house.add("Paper Harbor", SMALL)
    path = house.games / "Paper Harbor.nsp"
    with open(path, "r+b") as file:
        file.seek(size - 1)
        file.write(b"!")  # zeros would be those of a copy that pauses
    os.utime(path, (1_700_000_000, 1_700_000_000))
    anna, ben = enter("anna"), enter("ben")
    send(ben, "Paper Harbor")
    house.send_to(f"folder:{house.target}")
    wait_for(lambda: (house.target / path.name).exists(), 600)
    house.check(ben, anna, Sent=["Paper Harbor"])
    assert (house.target / path.name).stat().st_size == size
