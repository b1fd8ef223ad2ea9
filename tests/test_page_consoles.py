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
    add,
    button,
    deed,
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


PLACE = "192.168.1.20:5000"
FOUND = {"address": "192.168.1.20", "port": 5000, "greeting": "Who knows"}
FOUND |= {"programs": [], "does": ""}


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
def test_from_the_account_to_the_first_file_takes_seven_taps_at_most(
    phone: Phone,
    sending: catalogd.Consoles,
    service: catalogd.Web,
    library: Library,
    card: pathlib.Path,
    kind: Callable[[pathlib.Path], Any],
) -> None:
    """Where the console is not found."""
    library.add(NAME, CONTENT)
    service.scanner.scan()
    page = phone.page
    with kind(card) as (program, port):
        page.goto("")
        see(page, "Star Garden")
        phone.tap("Send Star Garden")
        phone.tap("Add one")
        phone.tap("Not found?")
        phone.answer("catalogd sends it to the console")
        phone.answer(program)
        page.get_by_label("Address of the console").fill(f"127.0.0.1:{port}")
        phone.tap("Add")
        phone.tap("Done")
        until(lambda: [*card.rglob(NAME)] and service.store.queue.sent(1))
    assert [path.read_bytes() for path in card.rglob(NAME)] == [CONTENT]
    assert phone.taps <= 7
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
    phone.tap("Not found?")
    phone.answer("catalogd sends it to the console")
    phone.answer(program)


def test_a_console_that_is_found_is_ready_after_three_taps_and_no_typing(
    phone: Phone,
    sending: catalogd.Consoles,
    console: FTPConsole,
    store: catalogd.Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody looks for one before the first tap. What it is called is asked last."""
    page = phone.page
    looked: list[Any] = []
    page.on("request", lambda call: looked.append(call.url))
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")  # with the host's network
    monkeypatch.setattr(catalogd, "greeting_at", lambda place: "Hello!")
    page.goto("")
    add(store, "Paper Harbor")
    page.locator(".dock").wait_for()
    assert not [url for url in looked if url.endswith("web/consoles")]
    phone.tap("Add a device")
    see(page, f"127.0.0.1:{console.port} · look at its screen: does this port install?")
    assert page.get_by_text("in a container").count() == 0
    phone.tap("Add sys-ftpd 127.0.0.1")
    see(page, "Send puts your games on Living room now.")
    assert page.get_by_label("What do you call it?").input_value() == "Living room"
    page.get_by_label("What do you call it?").fill("Attic")
    phone.tap("Done")
    until(lambda: store.devices.all()[0]["name"] == "Attic")
    page.locator(".dock").wait_for(state="detached")
    assert phone.taps == 3


def test_an_installer_is_not_said_to_be_ready_before_something_is_sent(
    phone: Phone, sending: catalogd.Consoles
) -> None:
    page = phone.page
    add_console(phone, "Awoo")
    page.get_by_label("Address of the console").fill("127.0.0.1")
    phone.tap("Add")
    see(page, "Whether it is ready is not known until something is sent.")
    assert page.get_by_text("Ready", exact=True).count() == 0


def test_what_is_found_without_a_known_program_is_asked_for_it(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    page = phone.page
    page.route(
        "**/web/consoles",
        lambda route: route.fulfill(json={"consoles": [FOUND], "in_container": False}),
    )
    page.goto("#settings/devices")
    phone.tap("Add a device")
    phone.tap("Add Who knows 192.168.1.20")
    phone.answer("DBI")
    assert page.get_by_label("Address of the console").input_value() == PLACE


def test_why_a_console_is_not_ready_is_said_and_its_address_can_be_changed(
    phone: Phone,
    sending: catalogd.Consoles,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = phone.page
    monkeypatch.setattr(catalogd, "FTP_PORTS", [1])
    page.goto("#settings/devices")
    phone.tap("Add a device")
    see(page, "Nothing was found. Open the program")
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")
    phone.tap("Look again")
    see(page, "Nothing was found. catalogd runs in a container")
    phone.tap("Close")
    add_console(phone)
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


def test_the_search_for_consoles_is_made_again_if_it_fails(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    page = phone.page
    busy = {"error": "busy", "message": "Somebody looks already."}
    page.route("**/web/consoles", lambda route: route.fulfill(status=503, json=busy))
    page.goto("#settings/devices")
    phone.tap("Add a device")
    see(page, "Somebody looks already.")
    page.unroute("**/web/consoles")
    phone.tap("Look again")
    see(page, f"127.0.0.1:{console.port}")


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
        phone.tap("Address")
        assert place.input_value() == "127.0.0.1:1"
        place.fill(f"127.0.0.1:{console.port}")
        phone.tap("Add")
        see(page, "Send puts your games on Living room now.")
    assert len(store.devices.by_server()) == 1
    assert button(page, "Change: ").count() == 0


def test_a_member_begins_with_the_code_of_a_card_and_is_not_offered_more(
    ben: Any,
) -> None:
    ben.goto("#settings/devices")
    button(ben, "Add a device").click()
    ben.locator(".pairing-code").wait_for()
    button(ben, "Change: How does it get there?").click()
    assert ben.get_by_role("radio").count() == 2
