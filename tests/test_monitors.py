"""packaging/home-assistant.yaml: its templates, rendered with what GET /api/status
answers."""

import math
import pathlib
import shutil
from typing import Any

import jinja2
import pytest
import webtest
import yaml

import catalogd
from conftest import Library

ROOT = pathlib.Path(__file__).parents[1]


def recipe() -> dict[str, Any]:
    """Return what the recipe has for GET /api/status."""
    text = (ROOT / "packaging/home-assistant.yaml").read_text(encoding="utf-8")
    [found] = yaml.safe_load(text)["rest"]
    return dict(found)


ENTITIES = {
    entity["name"]: entity for entity in recipe()["binary_sensor"] + recipe()["sensor"]
}


def is_number(value: Any) -> bool:
    """Home Assistant's filter of that name."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def render(template: str, answer: Any, undefined: type[jinja2.Undefined]) -> str:
    environment = jinja2.Environment(undefined=undefined)
    environment.filters["is_number"] = is_number
    return environment.from_string(template).render(value_json=answer)


def state_of(name: str, answer: Any) -> str:
    """Return the state that Home Assistant gives an entity of the recipe. An error of
    a template is in its log; the state is unknown then, and off for a binary sensor."""
    entity = ENTITIES[name]
    try:
        template = entity.get("availability", "True")
        if render(template, answer, jinja2.StrictUndefined) == "False":
            return "unavailable"
        return render(entity["value_template"], answer, jinja2.Undefined)
    except jinja2.UndefinedError:
        return "False" if entity in recipe()["binary_sensor"] else "unknown"


@pytest.fixture
def answer(browser: webtest.TestApp, key: str) -> Any:
    """Call GET /api/status with an admin's key, or with another."""

    def call(used: str = key) -> Any:
        headers = {"Authorization": f"Bearer {used}"}
        return browser.get("/api/status", headers=headers, expect_errors=True).json

    return call


@pytest.fixture
def member_key(store: catalogd.Store, key: str) -> str:
    ben, of_ben = store.accounts.add("ben", "hash"), catalogd.new_key()
    store.accounts.add_key(ben, "monitor", catalogd.hash_token(of_ben))
    return of_ben


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give disks that are there 300 GB of room."""
    real = shutil.disk_usage
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: real(path)._replace(free=3 * 10**11)
    )


def test_without_a_fault_no_problem_is_told(
    answer: Any, scanner: catalogd.Scanner, library: Library
) -> None:
    library.add("a.nsp")
    scanner.scan()
    found = {name: state_of(name, answer()) for name in ENTITIES}
    assert found == {
        "Game library": "False",
        "Games to send": "0",
        "Room for games": "300.0",
    }


def test_what_waits_and_what_is_sent_are_the_games_to_send(answer: Any) -> None:
    told = answer()
    told["queue"].update(pending=2, processing=1, completed=7)
    assert state_of("Games to send", told) == "3"


def test_a_disk_that_is_away_is_a_problem_and_its_room_is_unavailable(
    answer: Any, scanner: catalogd.Scanner, library: Library
) -> None:
    library.add("a.nsp")
    scanner.scan()
    library.folder.rename(f"{library.folder}.away")
    scanner.scan()
    assert state_of("Game library", answer()) == "True"
    assert state_of("Room for games", answer()) == "unavailable"


def test_a_key_that_is_not_an_admin_s_is_a_problem_that_shows(
    answer: Any, member_key: str
) -> None:
    for key in (member_key, "revoked"):
        assert state_of("Game library", answer(key)) == "True"
        assert state_of("Room for games", answer(key)) == "unknown"


def test_home_assistant_may_draw_and_convert_the_numbers() -> None:
    room = ENTITIES["Room for games"]
    assert (room["device_class"], room["unit_of_measurement"]) == ("data_size", "GB")
    assert {row["state_class"] for row in recipe()["sensor"]} == {"measurement"}
