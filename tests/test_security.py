"""The table of packaging/security.md: each route, called by each kind of caller."""

import pathlib
import re
from typing import Any

import pytest
import webtest

import catalogd
from conftest import PASSWORD
from test_ages import MISSING, World, call, rule_id, world

__all__ = ["world"]  # a fixture
TEXT = pathlib.Path(__file__).parent.parent / "packaging/security.md"
ROWS = re.findall(r"(?m)^\| (.*) \| (.*) \|$", TEXT.read_text().split("\n\n")[2])[2:]
EVERYBODY = ROWS[0][1].split(", ")
# Who may, by the codes of a row: an access of routes, or the start of some routes.
MAY = {
    code: {who for who in EVERYBODY if who in callers.split(", ")}
    for what, callers in ROWS
    for code in re.findall("`([^`]+)`", what)
}


def allowed(rule: catalogd.Route) -> set[str]:
    named = [code for code in MAY if "/" in code and code in rule_id(rule)]
    return MAY.get(named[0] if named else rule.access, set())


def test_each_route_is_in_the_table() -> None:
    assert {rule.access for rule in catalogd.ROUTES} <= {*MAY}
    known = {*EVERYBODY, "nobody of these"}
    assert all(known.issuperset(callers.split(", ")) for _, callers in ROWS)
    assert len(EVERYBODY) == 7


class Callers:
    """One of each kind, which has all that it may have."""

    def __init__(self, world: World) -> None:
        self.world, store = world, world.store
        store.accounts.add("ben", catalogd.hash_password(PASSWORD))
        console = {"name": "Attic", "target": "lan://127.0.0.1"}
        device = store.devices.add(world.anna, console)
        self.lent = store.accounts.lend_key(device)

    def app(self, who: str, access: str) -> webtest.TestApp:
        app = self.world.app("open")
        names = {"child": "kid", "member": "ben", "admin": "anna"}
        if who in names:
            return self.world.app("session", names[who])
        key = {"served console": self.lent, "paired device": self.world.keys["anna"]}
        if who in key and access in ("dir", "menu"):
            app.authorization = ("Basic", ("anna", key[who]))
        elif who in key:
            app.authorization = ("Bearer", key[who])
        return app

    def call(self, who: str, rule: catalogd.Route) -> Any:
        app = self.app(who, rule.access)
        if who == "console address" and rule.access in ("dir", "menu"):
            base = f"/dir/{self.world.tokens['anna']}"
            path = re.sub(r"<base[^>]*>+|^/dir<path.*", base, rule.path)
            path = re.sub(r"<\w+(:re:[^>]*)?>", "remote", path)
            return app.request(path, method=rule.method, expect_errors=True)
        return call(app, rule, MISSING, self.world)

    def may(self, who: str, rule: catalogd.Route) -> bool:
        return not is_refused(self.call(who, rule))


def is_refused(answer: Any) -> bool:
    found = answer.json if answer.content_type == "application/json" else {}
    return answer.status_int == 401 or (
        found.get("reason") in ("admins_only", "not_signed_in")
    )


READS = [rule for rule in catalogd.ROUTES if rule.method == "GET"]
GROUPS = [READS, *([rule] for rule in catalogd.ROUTES if rule not in READS)]


@pytest.mark.parametrize("rules", GROUPS, ids=lambda rules: rule_id(rules[0]))
def test_each_caller_may_do_what_the_table_says(
    rules: list[catalogd.Route], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes that change nothing are called in one household."""
    monkeypatch.setattr(catalogd, "find_consoles", lambda *given: [])
    callers = Callers(world)
    found = {
        rule_id(rule): {who for who in EVERYBODY if callers.may(who, rule)}
        for rule in rules
    }
    assert found == {rule_id(rule): allowed(rule) for rule in rules}
