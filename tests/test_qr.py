"""QR codes, read back by another program than the one that draws them."""

import dataclasses
import ipaddress
import sys
from collections.abc import Callable
from typing import Any

import pytest
import webtest

import catalogd
from conftest import PASSWORD
from qrcodes import read_path

LAN = ["http://192.168.1.20:6069/", "http://[fd00::9]:6069/"]
LINKS = [
    "http://192.168.1.20:6069/",
    "http://192.168.1.20:6069/#invitation=k7mpx4tz9hqwk7mpx4tz",
    f"https://example.org/{'games/' * 30}#setup=k7mp-x4tz-9hqw",
]


@pytest.fixture
def app(service: catalogd.Web, key: str) -> Callable[[str], webtest.TestApp]:
    """Return a function that gives calls of the page, at the address of a host."""

    def signed_in(host: str) -> webtest.TestApp:
        app = webtest.TestApp(service.app, extra_environ={"HTTP_HOST": host})
        app.post_json("/web/login", {"username": "anna", "password": PASSWORD})
        return app

    return signed_in


def addresses(app: webtest.TestApp) -> list[str]:
    found = app.get("/web/addresses").json["addresses"]
    return [one["address"] for one in found]


@pytest.mark.parametrize("link", LINKS)
def test_a_code_is_read_back(link: str) -> None:
    code = catalogd.qr_code(link)
    assert code and read_path(code) == [link]


def test_each_address_has_its_code(
    app: Callable[[str], webtest.TestApp], service: catalogd.Web
) -> None:
    service.page_addresses = lambda: LAN
    found = app("localhost:6069").get("/web/addresses").json["addresses"]
    assert [one["address"] for one in found] == LAN
    assert [read_path(one["qr"]) for one in found] == [[one] for one in LAN]


def test_without_the_package_there_are_addresses_and_links_alone(
    app: Callable[[str], webtest.TestApp],
    service: catalogd.Web,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    service.page_addresses = lambda: LAN
    page = app("localhost:6069")
    assert page.get("/web/addresses").json["addresses"] == [
        {"address": one, "qr": None} for one in LAN
    ]
    made = page.post_json("/web/invitations", {}).json
    assert made["qr"] is None and made["link"].startswith(LAN[0])


@pytest.mark.parametrize(
    ("host", "own", "found"),
    [
        ("localhost:6069", [*LAN, "http://127.0.0.1:6069/"], LAN),
        ("127.0.0.2:6069", LAN, LAN),
        ("[::1]:6069", LAN, LAN),
        ("[fd00::9]:6069", LAN, LAN[::-1]),
        ("pi.local:6069", LAN, [*LAN, "http://pi.local:6069/"]),
        ("localhost.example.org", [], ["http://localhost.example.org/"]),
        ("localhost:6069", ["http://localhost:6069/"], []),
    ],
)
def test_addresses_are_those_that_others_can_open(
    app: Callable[[str], webtest.TestApp],
    service: catalogd.Web,
    host: str,
    own: list[str],
    found: list[str],
) -> None:
    service.page_addresses = lambda: own
    assert addresses(app(host)) == found


@pytest.mark.parametrize(
    ("host", "start"),
    [
        ("pi.local:6069", "http://pi.local:6069/#invitation="),
        ("localhost:6069", f"{LAN[0]}#invitation="),
    ],
)
def test_the_link_of_an_invitation_leads_others_to_the_page(
    app: Callable[[str], webtest.TestApp], service: catalogd.Web, host: str, start: str
) -> None:
    service.page_addresses = lambda: LAN
    made = app(host).post_json("/web/invitations", {}).json
    assert made["link"].startswith(start)
    assert read_path(made["qr"]) == [made["link"]]


def test_the_public_address_is_the_only_one(
    app: Callable[[str], webtest.TestApp], service: catalogd.Web
) -> None:
    service.page_addresses = lambda: LAN
    signed_in, calls = app("localhost"), service.calls["SignInCalls"]
    public = "https://example.org/games"
    calls.settings = dataclasses.replace(calls.settings, base_url=public)
    assert addresses(signed_in) == [f"{public}/"]


class Listening:
    shown_port = 6069


def test_the_service_gives_its_addresses_without_asking_for_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [ipaddress.ip_address(one) for one in ("127.0.0.1", "192.168.1.20")]
    monkeypatch.setattr(catalogd, "own_addresses", lambda: own)
    monkeypatch.setattr(catalogd, "local_name", pytest.fail)
    server: Any = Listening()
    found = catalogd.page_addresses(server, catalogd.Settings(), is_named=False)
    assert [*found] == LAN[:1]
