"""A console that the server sends to, from the phone alone, in a real Chromium."""

import contextlib
import ipaddress
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
from browser import (
    PHONE,
    button,
    deed,
    fill_name,
    is_focused,
    options,
    see,
    sign_in,
    until,
)
from conftest import Library, Visit
from consoles import FTPConsole, Installer
from ftpsrv import Ftpsrv

CONTENT = bytes(range(256)) * 400
NAME = "Star Garden.nsp"
TERMS = ("API key", "pairing", "Pairing", "client", "Python")


@pytest.fixture
def sending(
    service: catalogd.Web, site: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[catalogd.Consoles]:
    """The service serves consoles, and looks for them on loopback alone."""
    consoles = service.consoles
    consoles.address = site.rstrip("/")
    networks = [ipaddress.IPv4Network("127.0.0.0/28")]
    monkeypatch.setattr(catalogd, "own_networks", lambda: networks)
    thread = catalogd.Lasting("consoles", consoles.update, 0.05)
    thread.start()
    yield consoles
    assert thread.stop(20) and consoles.end()


class Phone:
    """A page at 390 pixels, which counts taps and keeps what it has shown."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.taps = 0
        self.shown = ""

    def tap(self, name: str, within: str = "body") -> None:
        place = self.page.locator(within)
        found = place.get_by_role("button", name=name, exact=True)
        found.first.wait_for()
        self.shown += " ".join(place.locator("dialog, main").all_inner_texts())
        found.first.click()
        self.taps += 1

    def answer(self, name: str) -> None:
        """Tap on the answer of a question, after which the next one is asked."""
        radio = self.page.get_by_role("radio", name=re.compile(f"^{name}"))
        radio.wait_for()
        self.shown += " ".join(self.page.locator("dialog").all_inner_texts())
        radio.click()
        self.taps += 1


@pytest.fixture
def phone(visit: Visit, store: catalogd.Store, site: str, key: str) -> Phone:
    page = visit(base_url=site, **options("light", PHONE))
    sign_in(page, store, site, "anna")
    return Phone(page)


@contextlib.contextmanager
def ftp_console(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    (folder / "install:").mkdir()
    with contextlib.closing(FTPConsole(folder)) as console:
        yield "Sphaira", console.port


@contextlib.contextmanager
def truncating_console(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    (folder / "games").mkdir()
    with contextlib.closing(Ftpsrv(folder)) as console:
        yield "sys-ftpd", console.server_address[1]


@contextlib.contextmanager
def installer(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    def fetch(console: Installer, address: str) -> None:
        console.install(address)
        (folder / NAME).write_bytes(console.body)

    with contextlib.closing(Installer(fetch, is_patient=True)) as console:
        yield "Awoo", console.port


@pytest.mark.parametrize("kind", [ftp_console, truncating_console, installer])
def test_from_the_account_to_the_first_file_takes_six_taps_at_most(
    phone: Phone,
    sending: catalogd.Consoles,
    service: catalogd.Web,
    library: Library,
    card: pathlib.Path,
    kind: Callable[[pathlib.Path], Any],
) -> None:
    library.add(NAME, CONTENT)
    service.scanner.scan()
    page = phone.page
    with kind(card) as (program, port):
        page.goto("")
        see(page, "Star Garden")
        phone.tap("Send Star Garden")
        phone.tap("Add one")
        phone.answer("catalogd sends it to the console")
        phone.answer(program)
        page.get_by_label("What do you call it?").press("Enter")
        page.get_by_label("Address of the console").fill(f"127.0.0.1:{port}")
        phone.tap("Add")
        phone.tap("Done")
        until(lambda: [*card.rglob(NAME)] and service.store.queue.sent(1))
    assert [path.read_bytes() for path in card.rglob(NAME)] == [CONTENT]
    assert phone.taps <= 6
    assert [term for term in TERMS if term in phone.shown] == []


@pytest.fixture
def console(
    card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FTPConsole]:
    """One that the page finds."""
    with contextlib.closing(FTPConsole(card)) as console:
        monkeypatch.setattr(catalogd, "FTP_PORTS", [console.port])
        yield console


def add_console(phone: Phone, program: str = "Sphaira") -> None:
    phone.page.goto("#settings/devices")
    phone.tap("Add a device")
    phone.answer("catalogd sends it to the console")
    phone.answer(program)
    fill_name(phone.page)


def test_a_console_is_found_and_it_is_said_when_it_is_ready(
    phone: Phone,
    sending: catalogd.Consoles,
    console: FTPConsole,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = phone.page
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")  # with the host's network
    add_console(phone)
    monkeypatch.setattr(catalogd, "greeting_at", lambda place: "Hello!")
    phone.tap("Find consoles")
    see(page, "sys-ftpd / Checkpoint · look at its screen: does this port install?")
    button(page, f"127.0.0.1, port {console.port}").click()
    assert page.get_by_text("in a container").count() == 0
    place = page.get_by_label("Address of the console")
    assert place.input_value() == f"127.0.0.1:{console.port}"
    phone.tap("Add")
    see(page, "Send puts your games on Living room now.")
    phone.tap("Done")
    see(page, f"ftp://127.0.0.1:{console.port}")


def test_a_port_that_was_found_is_not_that_of_another_program(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    page = phone.page
    place = page.get_by_label("Address of the console")
    shown = {f"127.0.0.1:{console.port}": "127.0.0.1", "127.0.0.1:7": "127.0.0.1:7"}
    add_console(phone)
    phone.tap("Find consoles")
    button(page, f"127.0.0.1, port {console.port}").click()
    for filled, left in shown.items():
        place.fill(filled)
        phone.tap("Change: Which program is on the console?")
        phone.answer("Sphaira" if filled.endswith(":7") else "DBI")
        fill_name(page)
        assert place.input_value() == left


def test_an_installer_is_not_said_to_be_ready_before_something_is_sent(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    """What is found is the FTP server of its console, at another port."""
    page = phone.page
    add_console(phone, "Awoo")
    phone.tap("Find consoles")
    button(page, f"127.0.0.1, port {console.port}").click()
    place = page.get_by_label("Address of the console")
    assert place.input_value() == "127.0.0.1"
    phone.tap("Add")
    see(page, "Whether it is ready is not known until something is sent.")
    assert page.get_by_text("Ready", exact=True).count() == 0


def test_why_a_console_is_not_ready_is_said_and_its_address_can_be_changed(
    phone: Phone,
    sending: catalogd.Consoles,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = phone.page
    monkeypatch.setattr(catalogd, "FTP_PORTS", [1])
    add_console(phone)
    phone.tap("Find consoles")
    see(page, "Nothing was found. Open the program")
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")
    phone.tap("Find consoles")
    see(page, "Nothing was found. catalogd runs in a container")
    page.get_by_label("Address of the console").fill("127.0.0.1:1")
    phone.tap("Add")
    see(page, "catalogd goes on trying.")
    see(page, "127.0.0.1")
    phone.tap("Done")
    with contextlib.closing(FTPConsole(card)) as console:
        deed(page, "Address", "Living room").click()
        place = page.get_by_label("Address of the console")
        assert place.input_value() == "ftp://127.0.0.1:1"
        place.fill(f"127.0.0.1:{console.port}")
        phone.tap("Save")
        page.get_by_text("Its console does not answer").wait_for(state="hidden")
        see(page, "Idle")


def test_the_search_for_consoles_keeps_the_focus_and_is_made_again_if_it_fails(
    phone: Phone,
    sending: catalogd.Consoles,
    console: FTPConsole,
) -> None:
    page = phone.page
    calls: list[Any] = []
    page.route("**/web/consoles", lambda route: calls.append(route))
    add_console(phone)
    find = button(page, "Find consoles")
    looking = page.get_by_text("Looking around")

    def press() -> tuple[Any, bool]:
        """Return the call, and whether the button has kept the focus."""
        find.focus()
        for _ in range(2):
            page.keyboard.press("Enter")
        until(lambda: page.wait_for_timeout(20) or (calls and looking.count()))
        return calls.pop(), is_focused(find)

    busy = {"error": "busy", "message": "Somebody looks already."}
    call, is_kept = press()
    call.fulfill(status=503, json=busy)
    see(page, "Somebody looks already.")
    looking.wait_for(state="detached")
    assert is_kept
    call, is_kept = press()
    call.continue_()
    button(page, f"127.0.0.1, port {console.port}").wait_for()
    assert is_kept and is_focused(find)
    assert calls == []


def test_a_mistyped_address_can_be_changed_where_it_was_typed(
    phone: Phone,
    sending: catalogd.Consoles,
    store: catalogd.Store,
    card: pathlib.Path,
) -> None:
    page = phone.page
    add_console(phone)
    place = page.get_by_label("Address of the console")
    place.fill("Ftp://")
    phone.tap("Add")
    see(page, "That is no address of a console. Example: 192.168.1.20")
    place.fill("127.0.0.1:1")
    phone.tap("Add")
    see(page, "Not ready yet")
    with contextlib.closing(FTPConsole(card)) as console:
        phone.tap("Change: What is the address of the console?")
        assert place.input_value() == "127.0.0.1:1"
        place.fill(f"127.0.0.1:{console.port}")
        phone.tap("Add")
        see(page, "Send puts your games on Living room now.")
    assert len(store.devices.by_server()) == 1
    assert button(page, "Change: ").count() == 0


def test_a_member_is_not_offered_what_only_an_admin_may_do(ben: Any) -> None:
    ben.goto("#settings/devices")
    button(ben, "Add a device").click()
    see(ben, "How does it get there?")
    assert ben.get_by_role("radio").count() == 2
