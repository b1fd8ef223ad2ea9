"""The log of what matters: who did what to accounts, keys and devices, from where."""

import logging
import re
from typing import Any

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Clock

NEW = "battery staple"
OWN = {"own_password": PASSWORD}


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def guess(browser: webtest.TestApp, name: str, address: str = "192.168.1.9") -> None:
    """Try a wrong password, or be told to wait."""
    there = {"REMOTE_ADDR": address}
    fields = {"username": name, "password": "wrong horse"}
    browser.post_json("/web/login", fields, extra_environ=there, expect_errors=True)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines since the last call, with letters for ids."""
    found = [re.sub(r"\b[0-9a-f]{16}\b", "ID", line) for line in caplog.messages]
    caplog.clear()
    return found


def test_the_first_account_is_logged(
    browser: webtest.TestApp, store: catalogd.Store, caplog: pytest.LogCaptureFixture
) -> None:
    code = store.accounts.setup_code
    fields = {"code": code, "username": "anna", "password": PASSWORD}
    browser.post_json("/web/setup", fields)
    assert lines(caplog) == [
        "200 POST /web/setup from 192.168.1.9: anna made this account, the first one.",
        "200 POST /web/setup from 192.168.1.9: anna signed in.",
    ]


def test_a_sign_in_is_logged_by_the_account_s_name(
    browser: webtest.TestApp, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("/web/login", "/api/auth/login"):
        browser.post_json(path, {"username": "ANNA", "password": PASSWORD})
    assert lines(caplog) == [
        "200 POST /web/login from 192.168.1.9: anna signed in.",
        "200 POST /api/auth/login from 192.168.1.9: anna signed in by a client, which"
        " has a key.",
    ]


def test_what_an_admin_does_with_accounts_is_logged(
    signed_in: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    lines(caplog)
    fields = {"username": "ben", "password": PASSWORD}
    signed_in.post_json("/web/accounts", fields)
    fields = {"username": "cleo", "password": PASSWORD, "admin": True, **OWN}
    cleo = signed_in.post_json("/web/accounts", fields).json["id"]
    changes = {"admin": False, "password": NEW, **OWN}
    signed_in.post_json(f"/web/accounts/{cleo}", changes)
    signed_in.delete(f"/web/accounts/{cleo}")
    assert [line.partition(": ")[2] for line in lines(caplog)] == [
        "anna made the account ben, member.",
        "anna made the account cleo, admin.",
        "anna changed the account cleo (password, admin = False).",
        "anna removed the account cleo.",
    ]


def test_what_people_do_with_their_own_account_is_logged(
    member: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    lines(caplog)
    key = member.post_json("/web/keys", {"label": "Kodi\nbox"}).json["id"]
    member.delete(f"/web/keys/{key}")
    member.post("/web/dir")
    member.delete("/web/dir")
    member.post_json("/web/password", {"old": PASSWORD, "new": NEW})
    member.post_json("/web/sessions/end", {"keys": True})
    assert [line.partition(" from ")[2] for line in lines(caplog)] == [
        "192.168.1.8: ben made the key 'Kodi\\nbox', ID.",
        "192.168.1.8: ben revoked the key 'Kodi\\nbox', ID.",
        "192.168.1.8: ben made a console address for ben.",
        "192.168.1.8: ben revoked the console address.",
        "192.168.1.8: ben changed the own password.",
        "192.168.1.8: ben signed out everywhere (keys = True).",
    ]


def test_what_becomes_of_devices_is_logged(
    signed_in: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    lines(caplog)
    target = {"target": "ftp://192.168.1.60:5000/", "user": "me", "password": NEW}
    added = signed_in.post_json("/web/devices", {"name": "Switch", **target})
    path = f"/web/devices/{added.json['device']}"
    signed_in.post_json(path, {"name": "Den", "shared": True, "password": PASSWORD})
    signed_in.delete(path)
    code = signed_in.post_json("/web/pairing", {}).json["code"]
    signed_in.post_json("/api/pair", {"code": code, "name": "Attic"})
    assert [line.partition(": ")[2] for line in lines(caplog)] == [
        "anna made the device 'Switch', ID.",
        "anna changed the device 'Den', ID (name, shared = True, password).",
        "anna removed the device 'Den', ID.",
        "anna paired the device 'Attic', ID.",
    ]


def test_the_download_of_a_backup_is_logged(
    signed_in: webtest.TestApp, service: catalogd.Web, caplog: pytest.LogCaptureFixture
) -> None:
    service.backups.make()
    lines(caplog)
    signed_in.post_json("/web/backup/file", OWN)
    [line] = lines(caplog)
    assert re.search(r"9: anna downloaded the backup catalogd-[0-9-]+\.db\.$", line)


def test_what_was_refused_is_not_logged_as_done(
    signed_in: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    lines(caplog)
    for path in ("/web/accounts/99", "/web/keys/none", "/web/devices/none"):
        signed_in.delete(path, status=404)
    assert [line[:5] for line in lines(caplog)] == ["404 D"] * 3


def test_a_wrong_password_is_logged_with_the_name_of_an_account_only(
    browser: webtest.TestApp, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """People type passwords into the field for the name."""
    guess(browser, "anna")
    guess(browser, "my secret horse", address="192.168.1.10")
    wrong = "403 POST /web/login from {}: The name or the password is wrong.{}"
    assert lines(caplog) == [
        wrong.format("192.168.1.9", " The account: anna."),
        wrong.format("192.168.1.10", ""),
    ]


def test_an_address_has_a_line_a_minute_for_each_kind_of_guess(
    browser: webtest.TestApp, key: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(12):
        guess(browser, "anna")
    for _ in range(2):
        browser.get("/api/list", headers={"Authorization": "Bearer x"}, status=401)
    browser.get("/dir/abc/", status=401)
    guess(browser, "anna", address="192.168.1.10")
    assert [line.split(" from ")[0] for line in lines(caplog)] == [
        *("403 POST /web/login", "429 POST /web/login"),
        *("401 GET /api/list", "401 GET /dir/.../", "429 POST /web/login"),
    ]
    clock.now += 60
    browser.get("/api/list", headers={"Authorization": "Bearer x"}, status=401)
    [line] = lines(caplog)
    assert line.endswith("The API key is not valid. 1 more like this.")


def test_an_address_has_a_line_a_second_for_what_does_not_exist(
    browser: webtest.TestApp, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for seconds in (0, 0, 0, 1):
        clock.now += seconds
        browser.get("/wp-login.php", status=404)
    _, line = lines(caplog)
    assert line.endswith("There is nothing at this address. 2 more like this.")


def test_the_addresses_of_which_the_log_tells_are_limited(
    service: catalogd.Web, browser: webtest.TestApp, key: str
) -> None:
    service.told.most = 3
    for number in range(9):
        guess(browser, "anna", address=f"10.0.0.{number}")
    assert [address for address, _ in service.told] == [
        "10.0.0.6",
        "10.0.0.7",
        "10.0.0.8",
    ]


def test_the_log_of_a_household_has_no_secret(
    signed_in: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [
        signed_in.post_json(
            "/api/auth/login", {"username": "anna", "password": PASSWORD}
        ),
        signed_in.post_json("/web/keys", {"label": "x"}),
        signed_in.post("/web/dir"),
        signed_in.post_json("/web/pairing", {}),
    ]
    secrets = [answer.json.get(name) for answer in answers for name in SECRETS]
    secrets += [PASSWORD, "wrong horse", *signed_in.cookies.values()]
    guess(signed_in, "anna")
    text = " ".join(lines(caplog))
    assert not [secret for secret in filter(None, secrets) if secret in text]


SECRETS = ("api_key", "key", "token", "code")
