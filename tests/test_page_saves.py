"""The list of saves, in a real Chromium."""

import dataclasses
import json
import pathlib
from typing import Any

import pytest

import catalogd
from browser import see, sign_in
from conftest import PASSWORD, Visit
from saves import packed

MARK = "0123456789ab"
BROKEN = "Not copied: /JKSV/Moon/2.zip: It is not whole, or it is being written."


@pytest.fixture
def settings(settings: catalogd.Settings, tmp_path: pathlib.Path) -> catalogd.Settings:
    (tmp_path / "saves").mkdir()
    return dataclasses.replace(settings, saves=str(tmp_path / "saves"))


@pytest.fixture
def device(
    service: catalogd.Web, store: catalogd.Store, key: str, tmp_path: pathlib.Path
) -> str:
    """A console with two saves, that was looked at."""
    target = {"name": "Living room", "target": "ftp://switch.lan", "shared": True}
    id = store.devices.add(store.accounts.id_of("anna"), target)
    for title, name in {"Étoile 日本": "#1 50%", "Moon": "Chapter 3"}.items():
        folder = tmp_path / "saves" / f"Living room ({id})" / title
        folder.mkdir(parents=True)
        (folder / f"{name}-{MARK}.zip").write_bytes(packed(title.encode()))
    console = catalogd.Console(service.consoles, {"id": id, "name": "Living room"})
    damaged = {"code": "save_damaged", "arguments": {}}
    broken = {"path": "/JKSV/Moon/2.zip", "why": damaged}
    failed = {"code": "save_failed", "arguments": broken}
    none = {"code": "", "arguments": {}}
    for told in ({"saves": None, **failed}, {"saves": 2, **none}):
        console._note_saves(f"{catalogd.TOLD}{json.dumps(told)}")
    service.consoles._running[id] = console
    return id


def test_the_saves_are_listed_by_title_and_downloaded(anna: Any, device: str) -> None:
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Saves")
    see(panel, "Looked for saves")
    see(panel, "2 copied")
    see(panel, BROKEN)
    panel.get_by_text("Étoile 日本").click()
    with anna.expect_download() as download:
        panel.get_by_role("link", name="Download #1 50%").click()
    assert download.value.suggested_filename == "#1 50%.zip"
    content = pathlib.Path(download.value.path()).read_bytes()
    assert content == packed("Étoile 日本".encode())


def test_a_device_has_its_own_saves(anna: Any, device: str) -> None:
    anna.goto("#settings/devices")
    row = anna.get_by_role("listitem").filter(has_text="switch.lan")
    see(row, BROKEN)
    row.get_by_text("Saves", exact=True).click()
    row.get_by_text("Moon", exact=True).click()
    row.get_by_role("link", name="Download Chapter 3").wait_for()


def test_where_their_disk_is_away_the_list_tells_it(
    anna: Any, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "saves").rmdir()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Saves")
    see(panel, "Its disk is not connected.")


def test_without_saves_there_is_no_list(anna: Any) -> None:
    anna.goto("#settings/library")
    anna.get_by_role("region", name="Tidy").wait_for()
    assert anna.get_by_role("region", name="Saves").count() == 0


def test_a_child_without_any_sees_none(
    visit: Visit, store: catalogd.Store, site: str, device: str
) -> None:
    store.accounts.add("kim", catalogd.hash_password(PASSWORD), age=7)
    page = visit(base_url=site)
    sign_in(page, store, site, "kim")
    page.goto("#settings/devices")
    see(page, "Living room")
    assert page.get_by_text("Saves", exact=True).count() == 0
