"""The library in the menus of programs on a console: what CyberFoil and Sphaira ask,
and how they read the answers, by their own rules."""

import json
import re
import urllib.parse
from typing import Any

import pytest
import webtest
import yyjson

import catalogd
from conftest import LONG_AGO, Library
from containers import JPEG, jpeg, png

GAME, OTHER, ORPHAN = "0100AA0000010000", "0100BB0000020000", "0100CC0000030000"
UPDATE, ADD_ON = GAME[:-3] + "800", GAME[:-4] + "1001"
ALONE, LONELY = "0100EE0000050800", ORPHAN[:-4] + "1007"
COVER = f'Él "日" <html> & 100%# [{OTHER}][v0].png'
FILES = {
    f"Lemon Kart [{GAME}][v0].nsp": b"0123456789",
    f"Lemon Kart [{GAME}][v0].nsz": b"01234",
    f"Lemon Kart Update [{UPDATE}][v65536].nsp": b"update 1",
    f"Lemon Kart Update [{UPDATE}][v131072].nsz": b"update 2",
    f"Lemon Kart DLC Cherries [{ADD_ON}][v0].nsp": b"add-on",
    COVER.replace(".png", ".xci"): b"other",
    f"Lonely DLC Pears [{LONELY}][v0].nsp": b"add-on of no game",
    "Without id.nsp": b"without id",
    "Notes.txt": b"no package",
    b"broken \xff [0100DD0000040000][v0].nsp".decode(errors="surrogateescape"): b"x",
    f"Alone Update [{ALONE}][v196608].nsp": b"update of no game",
}


@pytest.fixture
def token(
    store: catalogd.Store, library: Library, scanner: catalogd.Scanner, key: str
) -> str:
    """Of anna's console address, over a small library."""
    for name, content in FILES.items():
        library.add(name, content)
    library.add(f"Lemon Kart [{GAME}][v0].jpg", JPEG)
    library.add(COVER, png(1025, 2))
    scanner.scan()
    facts = {"name": "Far", "description": "", "version": ""}
    store.entries.add_link("http://x.example/get?id=1", 9, "nsp", facts, "anna")
    token = catalogd.new_token()
    store.addresses.set_browse_token(store.accounts.id_of("anna"), token)
    return token


def strict(body: bytes) -> Any:
    """Read JSON as consoles do: no lone surrogate, no NaN, no trailing comma."""
    return yyjson.Document(body).as_obj


def sections(browser: webtest.TestApp, base: str, **options: Any) -> list[Any]:
    """Read the items by CyberFoil's rules, which rejects the whole answer otherwise."""
    answers = [
        browser.get(f"{base}/api/{name}/sections", **options)
        for name in ("remote", "shop")
    ]
    assert answers[0].body == answers[1].body
    assert not re.search(rb"(?i)<html|<!doctype", answers[0].body)
    assert answers[0].content_type == "application/json"
    [section] = strict(answers[0].body)["sections"]
    assert (section["id"], section["title"]) == ("all", "All")
    for item in section["items"]:
        assert None not in item.values()
        assert isinstance(item["name"], str) and item["name"]
        assert isinstance(item["url"], str) and item["url"]
        assert type(item["size"]) is int and item["size"] >= 0
        assert item["app_type"] in ("BASE", "UPDATE", "DLC")
        assert 0 <= item.get("app_version", 0) < 2**32
        for name in {"title_id", "app_id"} & {*item}:
            assert re.fullmatch("[0-9A-F]{16}", item[name])
    return list(section["items"])


def basic(browser: webtest.TestApp, key: str, name: str = "anna") -> None:
    browser.authorization = ("Basic", (name, key))


# CyberFoil's sections


def test_each_package_is_in_the_one_section(
    browser: webtest.TestApp, token: str
) -> None:
    base = f"/dir/{token}"
    items = sections(browser, base)
    index = browser.get(f"{base}/index.json").json["files"]
    assert len(items) == len(index) == 10
    urls = {row["url"].partition(base)[2] or row["url"] for row in index}
    assert {row["url"] for row in items} == urls
    assert "http://x.example/get?id=1#Far.nsp" in urls
    parts = {(row.get("app_id"), row["app_version"], row["app_type"]) for row in items}
    assert parts > {
        (UPDATE, 65536, "UPDATE"),
        (UPDATE, 131072, "UPDATE"),
        (ALONE, 196608, "UPDATE"),
        (ADD_ON, 0, "DLC"),
        (LONELY, 0, "DLC"),
        (GAME, 0, "BASE"),
    }
    assert {row["title_id"] for row in items if row.get("app_id") == UPDATE} == {GAME}
    [plain] = [row for row in items if row["name"] == "Without id"]
    assert {*plain} == {"name", "url", "size", "app_type", "app_version"}


def test_cyberfoil_fetches_each_file_by_ranges(
    browser: webtest.TestApp, token: str
) -> None:
    base = f"/dir/{token}"
    for item in sections(browser, base):
        if item["url"].startswith("/"):
            ranges = {"Range": f"bytes=0-{item['size'] - 1}"}
            answer = browser.get(base + item["url"], headers=ranges, status=206)
            assert len(answer.body) == item["size"]
    browser.get(f"{base}/api/saves/list", status=404)


def test_basic_authentication_has_no_link_which_would_get_the_key(
    browser: webtest.TestApp, token: str, key: str
) -> None:
    basic(browser, key)
    for base, prefix in (("/dir", "/"), ("", "/dir/")):
        items = sections(browser, base)
        assert len(items) == 9
        for item in items:
            assert item["url"].startswith(prefix)
            assert browser.get(base + item["url"]).status_int == 200


@pytest.mark.parametrize("base", ["", "/dir", "/dir/wrong"])
@pytest.mark.parametrize("path", ["/api/remote/sections", "/api/icons/1/2.png"])
def test_a_refusal_has_a_sentence_for_the_console(
    base: str, path: str, browser: webtest.TestApp, token: str
) -> None:
    error = browser.get(base + path, status=401).json
    assert error["error"] == error["message"] and error["error"].endswith(".")


def test_no_address_of_a_queue_item_and_no_other_spelling_has_a_menu(
    browser: webtest.TestApp, token: str, store: catalogd.Store, key: str
) -> None:
    anna = store.accounts.id_of("anna")
    entry = json.loads(store.entries.list_json(catalogd.EVERYTHING))[0]["id"]
    store.queue.send(anna, entry)
    item = store.queue.items(anna)[0]["id"]
    store.clients.report(anna, item, {"status": "processing"})
    bearer = {"Authorization": f"Bearer {key}"}
    address = browser.post(f"/api/send-queue/{item}/address", headers=bearer).json
    path = urllib.parse.urlsplit(address["address"]).path.rpartition("/")[0]
    browser.get(f"{path}/api/remote/sections", status=404)
    basic(browser, key)
    browser.get("/dir/wrong/api/remote/sections", status=404)
    browser.authorization = None
    target = {"REQUEST_URI": f"//dir/{token}/api/shop/sections"}
    sections_path = f"/dir/{token}/api/shop/sections"
    browser.get(sections_path, extra_environ=target, status=404)
    browser.get(sections_path)
    store.addresses.set_browse_token(anna)
    browser.get(sections_path, status=401)


def test_covers_are_as_stored_and_none_is_too_large_for_a_console(
    browser: webtest.TestApp,
    token: str,
    library: Library,
    scanner: catalogd.Scanner,
) -> None:
    base = f"/dir/{token}"

    def icons() -> dict[str, str]:
        items = sections(browser, base)
        return {row["app_id"]: row["icon_url"] for row in items if "icon_url" in row}

    before = icons()
    assert OTHER not in before
    answer = browser.get(base + before[GAME])
    assert answer.body == JPEG and answer.content_type == "image/jpeg"
    assert before[GAME].endswith(".jpeg")
    library.add(f"Lemon Kart [{GAME}][v0].jpg", jpeg(1024, 9), mtime=LONG_AGO + 9)
    library.add(COVER, png(1024, 1024), mtime=LONG_AGO + 9)
    scanner.scan()
    after = icons()
    assert after[OTHER].endswith(".png") and after[GAME] != before[GAME]
    assert browser.get(base + after[GAME]).body == jpeg(1024, 9)
    browser.get(base + before[GAME], status=404)
    browser.get(base + after[GAME].replace("/api/icons/", "/api/icons/0"), status=404)


def test_sections_are_made_once_for_each_version(
    browser: webtest.TestApp,
    token: str,
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    rows = catalogd.Entries.in_menus

    def counted(entries: catalogd.Entries, age: int) -> list[Any]:
        made.append(age)
        return rows(entries, age)

    monkeypatch.setattr(catalogd.Entries, "in_menus", counted)
    path = f"/dir/{token}/api/remote/sections"
    tag = browser.get(path).headers["ETag"]
    browser.get(path, headers={"If-None-Match": tag}, status=304)
    assert len(made) == 1
    library.add("One more.xci")
    scanner.scan()
    assert b"One more" in browser.get(path, headers={"If-None-Match": tag}).body
    assert len(made) == 2
