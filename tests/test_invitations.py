"""Invitations: links by which somebody makes an account, or sets its password."""

import concurrent.futures
import dataclasses
import ipaddress
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Clock
from qrcodes import read_path

OWN = {"own_password": PASSWORD}
CHOSEN = {"username": "mia", "password": "long enough"}
DAY = 86400


@pytest.fixture
def guest(service: catalogd.Web) -> webtest.TestApp:
    """Calls of the page, by somebody who has no account."""
    return webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.7"})


def invite(app: webtest.TestApp, **fields: Any) -> str:
    """Return the token of a new link."""
    link: str = app.post_json("/web/invitations", fields).json["link"]
    return link.partition("#invitation=")[2]


def accept(app: webtest.TestApp, token: str, status: int = 200, **fields: Any) -> Any:
    body = {"token": token, **CHOSEN, **fields}
    return app.post_json("/web/invitation/accept", body, status=status)


def look(app: webtest.TestApp, token: str, status: int = 200) -> Any:
    return app.post_json("/web/invitation", {"token": token}, status=status).json


def listed(app: webtest.TestApp) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = app.get("/web/invitations").json["invitations"]
    return rows


def names(store: catalogd.Store) -> list[str]:
    return [row["name"] for row in store.accounts.all()]


@pytest.mark.parametrize(
    ("of", "account"),
    [
        ({}, {"admin": False}),
        ({"age": 7}, {"admin": False, "age": 7}),
        (
            {"admin": True, "age": None, **OWN},
            {"admin": True, "settings": "catalogd.ini"},
        ),
    ],
)
def test_whoever_is_invited_chooses_name_and_password_and_is_signed_in(
    signed_in: webtest.TestApp,
    guest: webtest.TestApp,
    of: dict[str, Any],
    account: dict[str, Any],
) -> None:
    token = invite(signed_in, **of)
    told = look(guest, token)["invitation"]
    assert (told["maker"], told["account"], told["name"]) == ("anna", None, None)
    assert (told["admin"], told["age"]) == (account["admin"], account.get("age"))
    assert accept(guest, token).json == {"success": True}
    assert guest.get("/web/me").json["account"] == {"name": "mia", **account}
    guest.post_json("/web/login", CHOSEN)


def test_an_invitation_is_good_once(
    signed_in: webtest.TestApp, guest: webtest.TestApp, store: catalogd.Store
) -> None:
    token = invite(signed_in)
    for _ in range(3):  # to open the link uses nothing
        look(guest, token)
    accept(guest, token)
    assert listed(signed_in) == []
    answer = accept(guest, token, status=403, username="eve").json
    assert answer["reason"] == "bad_invitation"
    assert look(guest, token, status=403)["reason"] == "bad_invitation"
    assert names(store) == ["anna", "mia"]


def test_of_two_who_accept_at_once_one_gets_an_account(
    signed_in: webtest.TestApp, service: catalogd.Web, store: catalogd.Store
) -> None:
    token = invite(signed_in)
    digest = catalogd.hash_token(token)

    def add(name: str) -> str:
        """Add an account as a call does that found the invitation open."""
        try:
            store.accounts.add(name, "hash", invitation=digest)
        except catalogd.WrongCode:
            return "too late"
        return "done"

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = sorted(pool.map(add, ["mia", "eve", "joe", "kim"]))
    assert results == ["done", "too late", "too late", "too late"]
    assert len(names(store)) == 2


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"username": "anna"}, 409, "account_name_taken"),
        ({"username": "a:b"}, 400, "bad_account_name"),
        ({"username": None}, 400, "bad_account_name"),
        ({"password": "short"}, 400, "short_password"),
    ],
)
def test_a_name_or_a_password_that_is_refused_uses_no_invitation(
    signed_in: webtest.TestApp,
    guest: webtest.TestApp,
    fields: dict[str, Any],
    status: int,
    reason: str,
) -> None:
    token = invite(signed_in)
    assert accept(guest, token, status, **fields).json["reason"] == reason
    accept(guest, token)


def test_a_link_for_a_password_sets_it_and_ends_the_sessions(
    signed_in: webtest.TestApp, member: webtest.TestApp, guest: webtest.TestApp
) -> None:
    token = invite(signed_in, account=2, **OWN)
    told = look(guest, token)["invitation"]
    assert (told["account"], told["name"]) == (2, "ben")
    accept(guest, token, username="ignored", password="another one")
    assert guest.get("/web/me").json["account"] == {"name": "ben", "admin": False}
    member.get("/web/entries", status=403)
    member.post_json("/web/login", {"username": "ben", "password": "another one"})
    accept(guest, token, status=403, password="a third one")


def test_a_second_link_for_a_password_replaces_the_first(
    signed_in: webtest.TestApp, member: webtest.TestApp, guest: webtest.TestApp
) -> None:
    first, second = (invite(signed_in, account=2, **OWN) for _ in range(2))
    [row] = listed(signed_in)
    assert row["name"] == "ben"
    look(guest, first, status=403)
    look(guest, second)


def test_a_link_for_an_unknown_account_is_not_made(signed_in: webtest.TestApp) -> None:
    body = {"account": 99, **OWN}
    signed_in.post_json("/web/invitations", body, status=404)
    assert listed(signed_in) == []


def test_the_token_is_in_no_address_that_a_server_gets_and_in_no_file(
    service: catalogd.Web, key: str, store: catalogd.Store
) -> None:
    app = webtest.TestApp(service.app, extra_environ={"HTTP_HOST": "games.lan:6069"})
    app.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    link = app.post_json("/web/invitations", {}).json["link"]
    page, token = link.split("#invitation=")
    assert page == "http://games.lan:6069/" and len(token) == 20
    dump = "\n".join(store.database._writer.iterdump())
    assert 'INSERT INTO "invitations"' in dump and token not in dump
    assert token not in app.get("/web/invitations").text


def test_the_link_has_the_public_address_of_the_service(
    signed_in: webtest.TestApp, service: catalogd.Web
) -> None:
    page, public = service.calls["AccountCalls"], "https://example.org/games"
    page.settings = dataclasses.replace(page.settings, base_url=public)
    link = signed_in.post_json("/web/invitations", {}).json["link"]
    assert link.startswith(f"{public}/#invitation=")


@pytest.mark.parametrize("seconds", [DAY + 1, -DAY - 1])
def test_an_invitation_ends_after_a_day_also_where_a_wrong_clock_has_made_it(
    signed_in: webtest.TestApp,
    guest: webtest.TestApp,
    store: catalogd.Store,
    clock: Clock,
    seconds: int,
) -> None:
    token = invite(signed_in)
    made_at, clock.now = clock.now, clock.now + seconds
    look(guest, token, status=403)
    assert store.invitations.open() == []
    clock.now = made_at + DAY - 1
    look(guest, token)


def test_ended_invitations_are_dropped_by_the_clock(
    signed_in: webtest.TestApp, store: catalogd.Store, clock: Clock
) -> None:
    invite(signed_in)
    for seconds, count in ((DAY - 1, 1), (2, 0)):
        clock.now += seconds
        store.drop_old()
        assert store.database.value("SELECT count(*) FROM invitations") == count


def test_an_admin_removes_the_invitation_of_another(
    signed_in: webtest.TestApp, guest: webtest.TestApp, store: catalogd.Store
) -> None:
    cleo = store.accounts.add("cleo", "hash", admin=True)
    token = catalogd.new_token()
    digest = catalogd.hash_token(token)
    made = store.invitations.add(digest, cleo, None, admin=False, age=12)
    [row] = listed(signed_in)
    assert (row["id"], row["maker"], row["age"]) == (made, "cleo", 12)
    signed_in.delete(f"/web/invitations/{made}")
    assert listed(signed_in) == []
    accept(guest, token, status=403)


def test_no_admin_of_an_age_is_invited(signed_in: webtest.TestApp) -> None:
    body = {"admin": True, "age": 7, **OWN}
    answer = signed_in.post_json("/web/invitations", body, status=409).json
    assert answer["reason"] == "admin_sees_all"
    signed_in.post_json("/web/invitations", {"age": 5}, status=400)


def test_guesses_delay_their_own_address_and_a_good_link_excuses_none(
    signed_in: webtest.TestApp, guest: webtest.TestApp
) -> None:
    token = invite(signed_in)
    for _ in range(catalogd.Throttle.free_tries):
        look(guest, token)
        answer = look(guest, catalogd.new_token(), status=403)
        assert answer["reason"] == "bad_invitation"
    assert look(guest, token, status=429)["reason"] == "too_many_tries"
    accept(guest, token, status=429)
    look(signed_in, token)


def test_the_log_tells_of_invitations_without_their_tokens(
    signed_in: webtest.TestApp,
    guest: webtest.TestApp,
    store: catalogd.Store,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    caplog.clear()
    token = invite(signed_in, admin=True, **OWN)
    accept(guest, token)
    password = invite(signed_in, account=2, **OWN)
    accept(guest, password, password="another one")
    invite(signed_in)
    signed_in.delete(f"/web/invitations/{listed(signed_in)[0]['id']}")
    guest.post_json("/web/invitation", {"token": token}, status=403)
    lines = [line.partition(": ")[2] for line in caplog.messages]
    ids = [line.split()[4] for line in lines if " made the invitation " in line]
    assert lines == [
        f"anna made the invitation {ids[0]} for an admin.",
        f"mia made this account by invitation {ids[0]} of anna.",
        "mia signed in.",
        f"anna made the invitation {ids[1]} for a password of mia.",
        f"mia set a new password by invitation {ids[1]} of anna.",
        "mia signed in.",
        f"anna made the invitation {ids[2]} for a member.",
        f"anna removed the invitation {ids[2]}.",
        catalogd.SENTENCES["bad_invitation"],
    ]
    assert token not in caplog.text and password not in caplog.text


# What ends access

LINKS = "SELECT count(*) FROM invitations"


def links(store: catalogd.Store) -> int:
    return int(store.database.value(LINKS))


@pytest.fixture
def given(signed_in: webtest.TestApp, store: catalogd.Store) -> int:
    """ben, who is an admin and has made a link for a member and one for carl's
    password; anna has made one for his password. Returns his id."""
    ben = store.accounts.add("ben", catalogd.hash_password(PASSWORD), admin=True)
    carl = store.accounts.add("carl", "hash")
    for number, (maker, account) in enumerate(((ben, None), (ben, carl), (1, ben))):
        store.invitations.add(bytes([number]), maker, account, False, None)
    return ben


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"password": "x"}, 0),
        ({"admin": False}, 1),  # that for his password
        ({"admin": True}, 2),  # those that he made
        ({"age": None}, 3),
    ],
)
def test_a_change_of_an_account_ends_links(
    store: catalogd.Store, given: int, change: dict[str, Any], left: int
) -> None:
    store.accounts.change(given, change)
    assert links(store) == left


@pytest.mark.parametrize("way", ["signs out everywhere", "password", "removed"])
def test_what_a_thief_of_a_session_invited_ends(
    service: catalogd.Web, store: catalogd.Store, given: int, way: str
) -> None:
    page = webtest.TestApp(service.app, {"REMOTE_ADDR": "192.168.1.8"})
    page.post_json("/web/login", {"username": "ben", "password": PASSWORD})
    if way == "removed":
        store.accounts.remove(given)
    elif way == "password":
        new = {"old": PASSWORD, "new": "battery staple"}
        page.post_json("/web/password", new)
    else:
        page.post_json("/web/sessions/end", {})
    assert links(store) == 0


def test_a_former_admin_undoes_nothing_of_others(
    service: catalogd.Web, store: catalogd.Store, given: int
) -> None:
    page = webtest.TestApp(service.app, {"REMOTE_ADDR": "192.168.1.8"})
    page.post_json("/web/login", {"username": "ben", "password": PASSWORD})
    device = store.accounts.add_key(1, "TV", b"1", is_device=True, shared=True)
    facts = {"name": "Far", "description": "", "version": ""}
    entry = store.entries.add_link("http://x/far.nsp", 9, "nsp", facts, "anna")
    store.queue.send(1, entry, device)
    [item] = store.queue.items(1)
    undo = page.post_json(f"/web/queue/{item['id']}/cancel", {}).json["undo"]
    store.accounts.change(given, {"admin": False})
    page.post_json("/web/queue/undo", {"undo": undo}, status=409)
    assert [row["status"] for row in store.queue.items(1)] == ["cancelled"]
    store.accounts.change(given, {"admin": True})
    page.post_json("/web/queue/undo", {"undo": undo})
    assert [row["status"] for row in store.queue.items(1)] == ["pending"]


def test_each_table_with_a_credential_has_its_ends(store: catalogd.Store) -> None:
    """A digest, a token or a password lets somebody in: of the service, or of the FTP
    server of a console."""
    rows = store.database.rows(
        "SELECT DISTINCT tables.name FROM sqlite_schema AS tables,"
        " pragma_table_xinfo(tables.name) AS columns WHERE tables.type = 'table'"
        " AND (columns.name IN ('digest', 'token', 'password', 'secret', 'code')"
        " OR columns.name LIKE '%hash%')"
    )
    names = {row["name"] for row in rows} - {"accounts", "icons"}  # digests of images
    assert names == {table for ends in catalogd.ENDS.values() for table in ends}


def test_a_password_is_not_the_name_of_a_new_account(
    signed_in: webtest.TestApp, guest: webtest.TestApp
) -> None:
    names = {"username": "somebody", "password": "Somebody"}
    answer = accept(guest, invite(signed_in), 400, **names)
    assert answer.json["reason"] == "common_password"


# QR codes, read back by another program than the one that draws them


LAN = ["http://192.168.1.20:6069/", "http://[fd00::9]:6069/"]
QR_LINKS = [
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


@pytest.mark.parametrize("link", QR_LINKS)
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
