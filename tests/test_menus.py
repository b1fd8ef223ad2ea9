"""The library in the menus of programs on a console: what CyberFoil and Sphaira ask,
and how they read the answers, by their own rules."""

import contextlib
import http.client
import json
import random
import re
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest
import webtest
import yyjson

import catalogd
from conftest import LONG_AGO, Library, cost, short_and_long, wait_for
from containers import JPEG, jpeg, png
from example import by_age

Serve = Callable[[catalogd.Web], str]
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
    "Homebrew.nro": b"no package",
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
    offer = {"queue_item_ids": [item]}
    path = "/api/send-queue/addresses"
    address = browser.post_json(path, offer, headers=bearer).json["addresses"][item]
    path = urllib.parse.urlsplit(address).path.rpartition("/")[0]
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
    browser: webtest.TestApp, token: str, library: Library, scanner: catalogd.Scanner
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
    section_json = catalogd.MenuParts.section_json

    def counted(*given: Any) -> bytes:
        made.append(given)
        return section_json(*given)

    monkeypatch.setattr(catalogd.MenuParts, "section_json", counted)
    path = f"/dir/{token}/api/remote/sections"
    tag = browser.get(path).headers["ETag"]
    browser.get(path, headers={"If-None-Match": tag}, status=304)
    assert len(made) == 1
    library.add("One more.xci")
    scanner.scan()
    assert b"One more" in browser.get(path, headers={"If-None-Match": tag}).body
    assert len(made) == 2


# Sphaira's menu, by its own rules

IMAGE = "{url local}"
THUMB = f"(size:THUMB){IMAGE}"
CARDS = {
    "BASE": "appId displayVersion latestOwnedVersion{displayVersion}"
    f" titledb{{name publisher icon{THUMB} banner{THUMB}}}",
    "UPDATE": "appId titleId displayVersion"
    f" title{{name publisher icon{THUMB} banner{THUMB}}}",
    "DLC": "appId titleId displayVersion downloadUrl downloadExtension"
    f" titledb{{name publisher banner{THUMB}}} title{{name icon{THUMB}}}",
}
TOLD = {"appId", "titleId", "appVersion", "displayVersion", "downloadUrl", "title"}
TOLD |= {"downloadExtension", "downloadSize", "latestOwnedVersion", "titledb"}
TEXTS = {"name", "publisher", "description", "icon", "category", "screenshots"}
TEXTS |= {"full", "availableVersions"}
LIST = "[String!]"
CATEGORIES = {  # the type, the argument, and the types of its variables
    "New": ("BASE", "filter:{appId:{notIn:$appIds}}", {"appIds": LIST}),
    "Updates": ("UPDATE", "filter:{appId:{in:$appIds}}", {"appIds": LIST}),
    "DLC": (
        "DLC",
        "filter:{titleId:{in:$titleIds},appId:{notIn:$appIds}}",
        {"titleIds": LIST, "appIds": LIST},
    ),
    "All": ("BASE", "", {}),
    "Search": ("BASE", "search:$search", {"search": "String"}),
    "Before updates": ("UPDATE", "filter:{titleId:{in:$titleIds}}", {"titleIds": LIST}),
}
FILE = "downloadUrl downloadExtension"
TITLE = (
    "query($id:ID!){title(titleId:$id){name publisher intro description releaseDate"
    f" category numberOfPlayers size rating region banner(size:CLIENT){IMAGE}"
    f" fullBanner:banner(size:SCREEN){IMAGE} availableVersions{{version releaseDate}}"
    f" screenshots(size:CLIENT){IMAGE} full:screenshots(size:SCREEN){IMAGE}"
    f" base:apps(owned:true,appType:[BASE]){{displayVersion downloadSize {FILE}"
    " latestOwnedVersion{version displayVersion}}"
    f" updates:apps(owned:true,appType:[UPDATE]){{appVersion displayVersion {FILE}}}"
    f" dlc:apps(owned:true,appType:[DLC]){{appId appVersion {FILE}"
    f" titledb{{name intro banner{THUMB}}}}}}}}}"
)


def document(category: str, field: str = "NAME", direction: str = "ASC") -> str:
    kind, condition, types = CATEGORIES[category]
    fields, order = CARDS[kind], f"orderBy:{{field:{field},direction:{direction}}}"
    if category == "Before updates":
        fields, order = "appId titleId appVersion", ""
    given = {"page": "Int!", "pageSize": "Int!", **types}
    head = ",".join(f"${name}:{type}" for name, type in given.items())
    first = f"owned:true,appType:[{kind}],groupByAppId:true"
    pages = "page:$page,pageSize:$pageSize"
    arguments = ",".join(filter(None, [first, condition, order, pages]))
    return f"query({head}){{apps({arguments}){{total items{{{fields}}}}}}}"


DOCUMENTS = [
    document(category, field, direction)
    for category in list(CATEGORIES)[:5]
    for field in ("NAME", "ADDED_AT", "RELEASE_DATE")
    for direction in ("ASC", "DESC")
] + [document("Before updates"), TITLE]


class Menu:
    """Sphaira's menu on a console with these ids installed, by their numbers."""

    def __init__(self, browser: webtest.TestApp, base: str, size: int = 24) -> None:
        self.browser, self.base, self.size = browser, base, size
        self.installed: dict[str, int] = {}

    def ask(self, text: str, **variables: Any) -> Any:
        body = {"query": text, "variables": variables}
        path = f"{self.base}/api/graphql"
        answer = strict(self.browser.post_json(path, body, status=200).body)
        assert "errors" not in answer, answer
        return answer["data"]

    def card(self, item: Any, kind: str) -> Any:
        assert {*item} == TOLD
        assert {*re.findall(r"(\w+)(?:\{|\(| |$)", outer(CARDS[kind]))} <= TOLD
        assert re.fullmatch("[0-9A-F]{16}", item["appId"])
        assert item["displayVersion"] is None or item["displayVersion"]
        assert {*item["latestOwnedVersion"]} == {"version", "displayVersion"}
        for name in {"titledb", "title"} - {kind == "UPDATE" and "titledb"}:
            assert {*item[name]} == TEXTS
            assert isinstance(item[name]["name"], str) and item[name]["name"]
            self.image(item[name].get("icon"))
        return item

    def image(self, image: Any) -> None:
        if image is not None:
            assert image["local"] is True and image["url"].startswith("/")
            content = self.browser.get(self.base + image["url"]).body
            assert catalogd.image_type(content)

    def file(self, part: Any) -> None:
        """Resume at each byte, by Range with an open end."""
        assert part["downloadExtension"] in catalogd.PACKAGES
        assert part["downloadUrl"].startswith("/")
        path = self.base + part["downloadUrl"]
        whole = self.browser.get(path, headers={"Range": "bytes=0-"}, status=206).body
        rest = self.browser.get(path, headers={"Range": "bytes=3-"}, status=206).body
        assert rest == whole[3:]
        after = {"Range": f"bytes={len(whole)}-"}
        self.browser.get(path, headers=after, status=416)

    def pages(self, category: str, order: str = "NAME ASC", **more: Any) -> list[Any]:
        kind, found = CATEGORIES[category][0], []
        text = document(category, *order.split())
        for page in range(1, 1000):
            data = self.ask(text, page=page, pageSize=self.size, **more)["apps"]
            found += data["items"]
            if not data["items"]:
                break
            assert len(data["items"]) <= self.size
        assert data["total"] == len(found) == len({item["appId"] for item in found})
        if category != "Before updates":
            found = [self.card(item, kind) for item in found]
        return found

    def show(self, category: str, order: str = "NAME ASC") -> list[str]:
        """Return the ids that a category shows."""
        bases = [id for id in self.installed if id.endswith("000")]
        add_ons = [id for id in self.installed if not re.search("[08]00$", id)]
        more: dict[str, Any] = {}
        if category == "New":
            more = {"appIds": bases}
        if category == "DLC":
            more = {"titleIds": bases, "appIds": add_ons}
        if category == "Updates":
            found = self.pages("Before updates", titleIds=bases) if bases else []
            more["appIds"] = [
                item["appId"]
                for item in found
                if item["appVersion"] > self.installed.get(item["titleId"], 0)
            ]
        if category != "New" and not all(more.values()) and category != "DLC":
            return []
        if category == "DLC" and not bases:
            return []
        return [item["appId"] for item in self.pages(category, order, **more)]

    def title(self, id: str) -> Any:
        title = self.ask(TITLE, id=id)["title"]
        for name in ("category", "screenshots", "full", "availableVersions"):
            assert title[name] == []
        for part in [*title["base"], *title["updates"], *title["dlc"]]:
            self.file(part)
        for base in title["base"]:
            assert type(base["downloadSize"]) is int
            assert type(base["latestOwnedVersion"]["version"]) is int
        for part in [*title["updates"], *title["dlc"]]:
            assert type(part["appVersion"]) is int
        assert title["name"]
        return title


def outer(fields: str) -> str:
    """Return the names of the first level alone."""
    while (short := re.sub(r"\(size:THUMB\)|\{[^{}]*\}", "", fields)) != fields:
        fields = short
    return fields


@pytest.fixture
def menu(browser: webtest.TestApp, token: str) -> Menu:
    return Menu(browser, f"/dir/{token}")


def test_the_menu_is_greeted(
    browser: webtest.TestApp, token: str, store: catalogd.Store, key: str
) -> None:
    answer = strict(browser.options(f"/dir/{token}/").body)
    assert answer["features"]["shop"] is True and answer["remote"] == ""
    assert type(answer["protocol_version"]) is int and isinstance(answer["name"], str)
    basic(browser, key)
    for base in ("/", "/dir/"):
        assert strict(browser.options(base).body) == answer
    robin = store.accounts.add("robin", "")
    other = catalogd.new_token()
    store.addresses.set_browse_token(robin, other)
    theirs = strict(browser.options(f"/dir/{other}/").body)
    assert theirs["uid"] != answer["uid"] and re.fullmatch(r"\w+", answer["uid"])


@pytest.mark.parametrize("base", ["", "/dir", "/dir/wrong"])
def test_who_has_no_address_gets_no_menu(
    base: str, browser: webtest.TestApp, token: str
) -> None:
    for answer in (
        browser.options(f"{base}/", status=401),
        browser.post_json(f"{base}/api/graphql", {}, status=401),
    ):
        assert answer.json["error"].startswith("The address is wrong")


def test_each_document_is_answered(menu: Menu) -> None:
    assert len(DOCUMENTS) == 32
    for text in DOCUMENTS:
        menu.ask(text, page=1, pageSize=24, id=GAME, search="lemon", appIds=[])


def test_the_menu_of_a_console(menu: Menu) -> None:
    menu.installed = {GAME: 65536, ADD_ON: 0}
    assert menu.show("New") == [OTHER]
    assert menu.show("Updates") == [UPDATE]
    assert menu.show("DLC") == []
    del menu.installed[ADD_ON]
    assert menu.show("DLC") == [ADD_ON]
    menu.installed[GAME] = 131072
    assert menu.show("Updates") == []
    menu.installed[OTHER] = 0
    assert menu.show("New") == []
    menu.installed = {}
    assert menu.show("New") == menu.show("All")
    assert sorted(menu.show("All")) == [GAME, OTHER]


def test_a_title_has_all_versions_and_add_ons(menu: Menu) -> None:
    title = menu.title(GAME)
    assert title["name"] == "Lemon Kart"
    assert {row["downloadExtension"] for row in title["base"]} == {"nsp", "nsz"}
    latest = title["base"][0]["latestOwnedVersion"]
    assert latest == {"version": 131072, "displayVersion": None}
    assert {row["appVersion"] for row in title["updates"]} == {65536, 131072}
    [add_on] = title["dlc"]
    assert (add_on["appId"], add_on["titledb"]["name"]) == (
        ADD_ON,
        "Lemon Kart - Cherries",
    )
    own = menu.title(ADD_ON)
    assert own["name"] == "Lemon Kart - Cherries"
    assert (own["base"], own["updates"], own["dlc"]) == ([], [], [])
    assert menu.title(ORPHAN)["name"] == "Lonely"
    assert [row["appId"] for row in menu.title(ORPHAN)["dlc"]] == [LONELY]
    alone = menu.title(ALONE[:-3] + "000")
    assert (alone["name"], alone["base"]) == ("Alone", [])
    assert menu.ask(TITLE, id="0100FFFFFFFF0000") == {"title": None}


def test_the_second_game_of_a_cartridge_has_a_name_and_a_cover(
    menu: Menu, library: Library, scanner: catalogd.Scanner
) -> None:
    """Those of its own file, where there is one."""
    second = "0100F1F100060000"
    both, own = f"Apple Ape [{GAME}] + Pear [{second}]", f"Pear [{second}][v0]"
    library.add(f"two/{both}.xci")
    library.add(f"two/{both}.jpg", JPEG)
    scanner.scan()
    title = menu.title(second)
    assert title["name"] == "Apple Ape + Pear"
    assert [base["appId"] for base in title["base"]] == [second]
    image = title["icon"]["url"]
    library.add(f"one/{own}.nsp")
    library.add(f"one/{own}.jpg", png(8, 8))
    scanner.scan()
    title = menu.title(second)
    assert title["name"] == "Pear" and title["icon"]["url"] != image
    assert len(title["base"]) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [("LEMON", [GAME]), ("él", [OTHER]), ("日", [OTHER]), (GAME.lower(), [GAME])]
    + [("E\N{COMBINING ACUTE ACCENT}l", [OTHER]), ("nothing", [])],
)
def test_search_finds_names_and_ids(menu: Menu, text: str, found: list[str]) -> None:
    assert [item["appId"] for item in menu.pages("Search", search=text)] == found


def test_what_an_admin_typed_is_shown(menu: Menu, store: catalogd.Store) -> None:
    ids = {row["file_name"]: row["id"] for row in by_age(store)}
    [other] = [ids[name] for name in ids if OTHER in name]
    changes = {"name": "Melon", "version": "1.2.0", "description": "Karts."}
    store.entries.edit(other, changes)
    changes = {"base_id": "0100AA0000090000", "kind": "base"}
    store.entries.edit(ids["Without id.nsp"], changes)
    assert "0100AA0000090000" in menu.show("All")
    [card] = menu.pages("Search", search="melon")
    assert card["latestOwnedVersion"] == {"version": 0, "displayVersion": "1.2.0"}
    title = menu.title(OTHER)
    assert (title["name"], title["description"]) == ("Melon", "Karts.")


def test_a_child_has_a_menu_of_its_titles_alone(
    browser: webtest.TestApp, token: str, library: Library, scanner: catalogd.Scanner
) -> None:
    kids, base = catalogd.new_token(), f"/dir/{token}"
    scanner.store.addresses.set_browse_token(
        scanner.store.accounts.add("kid", "", age=7), kids
    )
    scanner.store.entries.set_ages([OTHER], 7)
    scanner.store.entries.set_ages([GAME], 12)
    library.add(COVER, png(9, 9), mtime=LONG_AGO + 9)
    scanner.scan()
    menu = Menu(browser, f"/dir/{kids}")
    asked = {"page": 1, "pageSize": 24, "search": "0100", "appIds": [], "titleIds": []}

    def answers() -> list[bytes]:
        found = [json.dumps(menu.ask(text, **asked, id=GAME)) for text in DOCUMENTS]
        return [
            *map(str.encode, found),
            json.dumps(sections(browser, menu.base)).encode(),
        ]

    before = answers()
    assert not re.search(
        rb"0100(AA|CC|DD|EE)|Lemon|Lonely|Alone|Far|Without", b"".join(before)
    )
    assert menu.show("All") == menu.show("New") == [OTHER]
    assert menu.ask(TITLE, id=GAME) == {"title": None}
    for n in range(9):
        library.add(f"Hidden {n} [0100{n:08x}0000][v0].nsp")
        library.add(f"Hidden {n} [0100{n:08x}0800][v65536].nsp")
    scanner.scan()
    assert answers() == before
    [url] = [
        row["icon_url"] for row in sections(browser, base) if row.get("app_id") == GAME
    ][:1]
    browser.get(base + url)
    browser.get(menu.base + url, status=404)
    scanner.store.entries.set_ages([GAME], 3)
    assert sorted(menu.show("All")) == [GAME, OTHER]
    browser.get(menu.base + url)
    assert sorted(Menu(browser, base).show("All"))[-1] == OTHER


def test_the_root_with_basic_authentication_has_the_same_menu(
    browser: webtest.TestApp, token: str, key: str
) -> None:
    basic(browser, key)
    for base in ("", "/dir"):
        menu = Menu(browser, base)
        assert sorted(menu.show("All")) == [GAME, OTHER]
        assert menu.title(GAME)["base"][0]["downloadUrl"].startswith(
            ("/dir/L", "/L")[base == "/dir"]
        )


ITEMS = "{total items{appId}}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "query",
        "{}}",
        "{apps}}",
        "{saves{id}}",
        "{apps(appType:[BASE)" + ITEMS + "}",
        "{apps(appType:BASE)" + ITEMS + "}",
        "{apps(filter:[])" + ITEMS + "}",
        "{apps(filter:{appId:{in:7}})" + ITEMS + "}",
        "{apps(page:true)" + ITEMS + "}",
        "{apps(page:}" + ITEMS + "}",
        "mutation{apps}",
        '{apps(search:"x")' + ITEMS + "}",
        "{apps(appType:[" + "[" * 20,
        "{" + "apps " * 1000 + "}",
        "{...apps}",
        "{apps(appType:[BASE]){total total}}",
        "{apps(appType:[BASE]){items{a:name}}}",
        "{apps(appType:[BASE])" + ITEMS + "}" + " " * 4096,
    ],
)
def test_a_query_that_is_not_understood_is_one_message(menu: Menu, text: str) -> None:
    path = f"{menu.base}/api/graphql"
    answer = strict(menu.browser.post_json(path, {"query": text}, status=200).body)
    assert {*answer} == {"errors"} and len(answer["errors"]) == 1
    assert answer["errors"][0]["message"].endswith(".")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"query": 1}', b"[" * 10_000])
def test_a_body_that_is_no_query_is_one_message(menu: Menu, body: bytes) -> None:
    answer = menu.browser.post(
        f"{menu.base}/api/graphql", body, content_type="application/json", status=200
    )
    assert [*strict(answer.body)] == ["errors"]


def test_a_document_is_known_by_its_fields_alone(menu: Menu) -> None:
    text = """query Page($number: Int!, $some: [String!], $query: String)
    {
      apps(page: $number, appType: [BASE], filter: {appId: {notIn: $some}},
        search: $query, orderBy: {field: NAME, direction: DESC}) { total,
        items { appId } }
    }"""
    other = " {title ( titleId : $game ) { name } } "
    data = menu.ask(text, number=-5, some=[GAME], query="")["apps"]
    assert [item["appId"] for item in data["items"]] == [OTHER]
    assert menu.ask(text, query="no such name") == {"apps": {"total": 0, "items": []}}
    assert {*menu.ask(other, game=GAME)["title"]} == TEXTS | {*catalogd.LISTS}


@short_and_long(count=(300, 20_000))
def test_no_mutated_query_is_an_error_of_the_server(menu: Menu, count: int) -> None:
    chance = random.Random(count)
    values: list[Any] = [1, "x", None, [], {}, True, [GAME], 10**30, -1, [[]], 1.5]
    names = ("page", "pageSize", "id", "search", "appIds", "titleIds")
    for _ in range(count):
        tokens = re.findall(r"\w+|\W", chance.choice(DOCUMENTS))
        for _ in range(chance.randint(0, 4)):
            at = chance.randrange(len(tokens))
            more = [chance.choice([*tokens, "[", "{", "(", "é", "9", '"'])]
            tokens[at : at + chance.randint(0, 3)] = more * chance.randint(0, 3)
        variables = {name: chance.choice(values) for name in names}
        body = {"query": "".join(tokens), "variables": variables}
        answer = menu.browser.post_json(f"{menu.base}/api/graphql", body, status=200)
        assert {*strict(answer.body)} in ({"data"}, {"errors"})


# Files that are fetched, and large libraries


def get(host: str, path: str, start: int, size: int | None = None) -> int:
    """Read so many bytes of a file from a byte on, and close the connection. Return how
    many there were."""
    connection = http.client.HTTPConnection(host, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Range": f"bytes={start}-"})
        answer = connection.getresponse()
        assert answer.status == 206
        return len(answer.read(size))


def test_a_console_that_hangs_up_and_resumes_has_fetched_the_file_once(
    token: str,
    service: catalogd.Web,
    serve: Serve,
    library: Library,
    caplog: pytest.LogCaptureFixture,
) -> None:
    size = 3_000_000
    library.add("Large.nsp", b"0123456789" * (size // 10))
    library.add("Other.nsp", b"0123456789" * 7)
    service.scanner.scan()
    caplog.set_level("INFO", "catalogd")
    host = serve(service).removeprefix("http://")
    threads = threading.active_count()
    chance, at = random.Random(7), 0
    while at < size:
        at += get(host, f"/dir/{token}/Large.nsp", at, chance.randint(1, 200_000))
    get(host, f"/dir/{token}/Large.nsp", 0)
    get(host, f"/dir/{token}/Other.nsp", 5)

    def lines() -> list[str]:
        found = [line for line in caplog.messages if "fetched by the console" in line]
        assert not [line for line in caplog.messages if token in line]
        return found

    wait_for(lines)
    wait_for(lambda: threading.active_count() <= threads)
    [line] = lines()
    assert (
        "GET /dir/.../Large.nsp from 127.0.0.1: anna: fetched by the console." in line
    )
    assert not [line for line in caplog.messages if re.search("installed|sent", line)]


def test_what_was_fetched_of_a_thousand_files_is_remembered(
    browser: webtest.TestApp, token: str, service: catalogd.Web
) -> None:
    fetched = service.calls["ConsoleCalls"].served
    fetched.most = 2
    for item in sections(browser, f"/dir/{token}")[:5]:
        if item["url"].startswith("/"):
            browser.get(f"/dir/{token}{item['url']}")
    assert len(fetched) == 2


def add_titles(store: catalogd.Store, count: int) -> list[str]:
    """Add games, every second with an update and every fifth with an add-on; a few have
    these alone. Return the ids of the games."""
    found, names = [], "é日𝄞\"'<&%+;#?\\ ([{"
    for n in range(count):
        base = f"0100{n + 1:08X}0000"
        name = f"Game {names[n % len(names)]} {n}"
        parts = [("", base, 0)] if n % 7 else []
        parts += [(" Update", base[:-3] + "800", 65536 * v) for v in (1, 2) if n % 2]
        parts += [(" DLC Hat", base[:-4] + "1001", 0)] if n % 5 == 0 else []
        for word, id, version in parts:
            path = f"/games/{name}{word} [{id}][v{version}].nsp"
            file = catalogd.FoundFile(path, "/games", 9, 4, len(found), "v")
            found.append((file, catalogd.FileContent(path, catalogd.name_facts(path))))
    store.entries.add_files(found, listed=True)
    return [id for n in range(count) if n % 7 for id in [f"0100{n + 1:08X}0000"]]


def test_the_menu_over_three_hundred_titles(
    browser: webtest.TestApp, store: catalogd.Store, key: str
) -> None:
    games = add_titles(store, 300)
    basic(browser, key)
    menu = Menu(browser, "/dir", size=96)
    assert sorted(menu.show("All")) == games
    names = menu.pages("All", "NAME DESC")
    folded = [item["titledb"]["name"].casefold() for item in names]
    assert folded == sorted(folded, reverse=True)
    assert menu.show("All", "NAME DESC") == menu.show("All", "RELEASE_DATE DESC")
    assert sorted(menu.show("All", "ADDED_AT DESC")) == games
    menu.installed = dict.fromkeys(games[:40], 65536)
    assert sorted(menu.show("New")) == games[40:]
    assert len(menu.show("Updates")) == len(
        [g for g in games[:40] if int(g[:12], 16) % 2 == 0]
    )
    missing = menu.show("DLC")
    assert missing
    menu.installed[missing[0]] = 0
    assert sorted(menu.show("DLC")) == sorted(missing[1:])
    menu.installed[games[40]] = 0
    assert sorted(menu.show("New")) == games[41:]


def test_a_page_after_a_change_costs_as_the_next_one(
    browser: webtest.TestApp, store: catalogd.Store, key: str
) -> None:
    """No list of all is made for it."""
    games = add_titles(store, 2000)
    basic(browser, key)
    menu = Menu(browser, "/dir")
    entry = next(iter(store.entries.files())).id

    def page() -> None:
        more = {"page": 2, "pageSize": 24, "appIds": games[:1000]}
        assert menu.ask(document("New"), **more)["apps"]["items"]

    def first() -> float:
        store.entries.edit(entry, {"name": "Changed"})
        return cost(page)

    page()
    assert min(first() for _ in range(5)) < 2 * min(cost(page) for _ in range(5))


def test_a_page_is_the_same_whichever_copy_of_a_part_is_taken(
    menu: Menu, library: Library, scanner: catalogd.Scanner
) -> None:
    """Each part is once in a list, and again with all its files on its title's page."""
    library.add(f"more/Lemon Kart [{GAME}][v0].nsz", b"more than before")
    library.add(f"more/Lemon Kart DLC Cherries [{ADD_ON}][v0].nsp", b"again")
    scanner.scan()
    for category in ("All", "DLC"):
        found = menu.pages(category, appIds=[], titleIds=[GAME])
        assert len([item for item in found if item["titleId"] == GAME]) == 1
    title = menu.title(GAME)
    assert (len(title["base"]), len(title["dlc"])) == (3, 2)
    menu.size = 1
    assert sorted(menu.show("All", "NAME DESC")) == [GAME, OTHER]
    data = menu.ask(document("All"), page=10**30, pageSize=0)["apps"]
    assert data == {"total": 2, "items": []}
    nested: Any = []
    for _ in range(900):
        nested = [nested]
    for wrong in ({"search": "x" * 65}, {"appIds": [nested]}):
        body = {"query": document("Search" if "search" in wrong else "New")}
        body |= {"variables": {"page": 1, "pageSize": 9, **wrong}}
        answer = menu.browser.post_json(f"{menu.base}/api/graphql", body).json
        assert answer["errors"][0]["message"].startswith("The field ")
