"""Addresses without a key: what programs on a console browse and pull."""

import base64
import contextlib
import html
import http.client
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import webtest

import catalogd
from conftest import Clock, Library, wait_for
from example import by_age

Serve = Callable[[catalogd.Web], str]


def basic(name: str, key: str) -> dict[str, str]:
    pair = base64.b64encode(f"{name}:{key}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


@pytest.fixture
def token(store: catalogd.Store, key: str) -> str:
    """Of anna's address to browse."""
    token = catalogd.new_token()
    store.addresses.set_browse_token(store.accounts.id_of("anna"), token)
    return token


@pytest.fixture
def item(library: Library, scanner: catalogd.Scanner, key: str) -> str:
    """A queue item of anna's that a client works on."""
    library.add("A game [v0].nsp", b"0123456789")
    scanner.scan()
    anna = scanner.store.accounts.id_of("anna")
    scanner.store.queue.send(
        anna, json.loads(scanner.store.entries.list_json(catalogd.EVERYTHING))[0]["id"]
    )
    item = str(scanner.store.clients.pending(anna)[0]["id"])
    scanner.store.clients.report(anna, item, {"status": "processing"})
    return item


def call(method: str, url: str, **headers: str) -> tuple[int, Any, bytes]:
    """Over a real socket: status, headers and body."""
    request = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, answer.headers, answer.read()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def offer(browser: webtest.TestApp, key: str, item: str) -> Any:
    """Offer an item, and return its address by its id."""
    body = {"queue_item_ids": [item]}
    answer = browser.post_json("/api/send-queue/addresses", body, headers=bearer(key))
    return answer.json["addresses"]


def item_path(browser: webtest.TestApp, key: str, item: str) -> str:
    """The path of a new address of an item, without the host."""
    return urllib.parse.urlsplit(offer(browser, key, item)[item]).path


# Names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Plain & simple + café [v0].nsp", "Plain & simple + café [v0].nsp"),
        ('a/b\\c:d*e?f"g<h>i|j#k%l.nsp', "a_b_c_d_e_f_g_h_i_j_k_l.nsp"),
        ("Pokemon\u0301.nsp", "Pokemoń.nsp".replace("ń", "n\u0301")),
        ("ends in dots. .", "ends in dots"),
        ("...", "_"),
        ("line\r\nbreak\x1b[2J\x9b.nsp", "line__break_[2J_.nsp"),
        ("not text \udcff.nsp", "not text _.nsp"),
        ("Tom &amp; Jerry & a &lt;3.nsp", "Tom _amp; Jerry & a _lt;3.nsp"),
        ("con.nsp", "_con.nsp"),
        ("evil\u202epsn.exe\u200f", "evilpsn.exe"),
    ],
)
def test_a_safe_name_has_what_every_file_system_takes(name: str, safe: str) -> None:
    assert catalogd.safe_name(name) == catalogd.unicodedata.normalize("NFC", safe)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("a" * 300 + ".nsp", "a" * 16 + ".nsp"),
        ("é" * 300 + ".nsp", "é" * 8 + ".nsp"),
        ("a" + "é" * 300 + ".nsp", "a" + "é" * 7 + ".nsp"),
        ("\N{VIDEO GAME}" * 300, "\N{VIDEO GAME}" * 5),
        ("a" * 19 + ". " + "b" * 300, "a" * 19),
        ("." + "a" * 300, "." + "a" * 19),
        ("a" * 16 + ".nsp", "a" * 16 + ".nsp"),
    ],
)
def test_a_long_name_is_cut_before_its_extension_between_characters(
    name: str, short: str
) -> None:
    assert catalogd.safe_name(name, max_bytes=20) == short


FACTS = {"name": "A", "description": "", "version": ""}


def add_files(store: catalogd.Store, *paths: str) -> list[str]:
    """Add files, and return the names that all have on consoles, the oldest first."""
    found = [
        catalogd.FoundFile(path, "/games", 3, 4, number, "v")
        for number, path in enumerate(paths)
    ]
    rows = [(file, catalogd.FileContent(file.path, FACTS)) for file in found]
    store.entries.add_files(rows, listed=True)
    return [row["file_name"] for row in by_age(store)]


@pytest.mark.parametrize("sign", ["a", "é", "\N{VIDEO GAME}"])
def test_equal_long_names_stay_distinct_and_short(
    store: catalogd.Store, sign: str
) -> None:
    safe = add_files(store, *(f"/games/{sign * 250}{last}.nsp" for last in "abc"))
    assert len(set(safe)) == 3
    assert max(len(name.encode()) for name in safe) <= catalogd.MAX_CONSOLE_NAME_BYTES
    assert all(name.endswith(".nsp") for name in safe)


def test_names_that_differ_by_unsafe_characters_stay_distinct(
    store: catalogd.Store,
) -> None:
    names = add_files(store, "/g/a:b.nsp", "/g/a?b.nsp", "/g/A_B.nsp", "/g/c.nsp")
    _, two, three, _ = (row["id"] for row in by_age(store))
    assert names == ["a_b.nsp", f"a_b ({two}).nsp", f"A_B ({three}).nsp", "c.nsp"]


def test_a_file_that_gets_a_name_of_its_own_has_it_without_its_id(
    store: catalogd.Store,
) -> None:
    add_files(store, "/one/A.nsp", "/two/A.nsp")
    _, second = store.entries.files()
    for name in ("B.nsp", f"A ({second.id}).nsp"):
        path = f"/two/{name.partition(' ')[0].removesuffix('.nsp')}.nsp"
        file = second.file._replace(path=path)
        content = catalogd.FileContent("", FACTS)
        store.entries.apply(catalogd.Changes(updated=[(second, file, content)]))
        assert add_files(store) == ["A.nsp", name]


# Browsing


class Browsed:
    """A library, as a program on a console browses it below anna's address."""

    def __init__(
        self, app: webtest.TestApp, library: Library, scanner: catalogd.Scanner
    ) -> None:
        self.app, self.library, self.scanner = app, library, scanner
        store = scanner.store
        self.base = f"/dir/{store.addresses.browse_token(store.accounts.id_of('anna'))}"

    def add(self, *names: str, content: bytes = b"0123456789") -> None:
        for name in names:
            self.library.add(name, content)
        self.scanner.scan()

    def get(self, path: str, **more: Any) -> Any:
        return self.app.get(f"{self.base}{path}", **more)

    def links(self, folder: str) -> list[str]:
        return re.findall(r'<a href="([^"]*)">', self.get(folder).text)


@pytest.fixture
def browsed(
    browser: webtest.TestApp, library: Library, scanner: catalogd.Scanner, token: str
) -> Browsed:
    return Browsed(browser, library, scanner)


def test_the_root_has_a_folder_for_each_kind(browsed: Browsed) -> None:
    browsed.add("one.nsp", "two.NSP", "three.nro")
    assert browsed.get("/").content_type == "text/html"
    assert browsed.links("/") == ["nro/", "nsp/"]


def test_a_folder_has_relative_encoded_links_with_the_address_first(
    browsed: Browsed,
) -> None:
    browsed.add("Tom & Jerry #1 é.nsp")
    line = '<a href="Tom%20%26%20Jerry%20_1%20%C3%A9.nsp">Tom &amp; Jerry _1 é.nsp</a>'
    assert line in browsed.get("/nsp/").text


@pytest.mark.parametrize("folder", ["", "nsp/"])
def test_a_file_is_served_by_its_name_with_head_and_ranges(
    browsed: Browsed, service: catalogd.Web, serve: Serve, folder: str
) -> None:
    browsed.add("Safe Name.nsp")
    address = f"{serve(service)}{browsed.base}/{folder}Safe%20Name.nsp"
    status, headers, _ = call("HEAD", address)
    assert (status, headers["Content-Length"]) == (200, "10")
    assert headers["Accept-Ranges"] == "bytes"
    assert call("GET", address)[2] == b"0123456789"
    assert call("GET", address, Range="bytes=2-4")[::2] == (206, b"234")


@pytest.mark.parametrize("name", ["game.nsp", "Odyssey (0100000000010000).nsp"])
def test_files_of_one_name_in_two_folders_are_both_served(
    browsed: Browsed, name: str
) -> None:
    browsed.add(f"a/{name}", content=b"first")
    browsed.add(f"b/{name}", content=b"second")
    bodies = [browsed.get(f"/{link}").body for link in browsed.links("/nsp/")]
    assert sorted(bodies) == [b"first", b"second"]
    assert browsed.get(f"/{name}").body == b"first"


def test_two_files_with_hidden_characters_do_not_look_alike(browsed: Browsed) -> None:
    for folder in "ab":
        browsed.add(f"{folder}/A\u200bB.nsp", content=folder.encode())
    page = browsed.get("/nsp/").text
    plain, marked = sorted(re.findall(r"<a href=[^>]*>([^<]*)</a>", page))[::-1]
    assert plain == "A\ufffdB.nsp"
    assert re.fullmatch("A\ufffdB \\([0-9a-f]{16}\\).nsp", marked)


@pytest.mark.parametrize(
    "name",
    [
        *("Tom &amp; Jerry.nsp", "1 &lt; 2 & 3.nsp", "&#60;.nsp", "é" * 120 + ".nsp"),
        "evil\u202epsn.exe\u2066.nsp",
    ],
)
def test_a_program_that_decodes_html_after_percents_finds_the_file(
    browsed: Browsed, name: str
) -> None:
    browsed.add(name)
    [link] = browsed.links("/nsp/")
    decoded = html.unescape(urllib.parse.unquote(html.unescape(link)))
    assert len(decoded.encode()) <= 200 and decoded.isprintable()
    path = f"/nsp/{urllib.parse.quote(decoded)}"
    assert browsed.get(path).body == b"0123456789"


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200f", "\u200b", "\xad"])
def test_what_a_name_hides_is_shown_and_not_sent(browsed: Browsed, hidden: str) -> None:
    browsed.add(f"evil{hidden}psn.nsp")
    page = browsed.get("/nsp/").text
    assert '<a href="evilpsn.nsp">evil\ufffdpsn.nsp</a>' in page
    answer = browsed.get("/nsp/evilpsn.nsp")
    named = "attachment; filename=\"evilpsn.nsp\"; filename*=UTF-8''evilpsn.nsp"
    assert answer.headers["Content-Disposition"] == named


@pytest.mark.parametrize("place", ["", "/index.json"])
def test_the_index_has_absolute_addresses_that_work(
    browsed: Browsed, place: str
) -> None:
    browsed.add("Mario + Rabbids.nsp")
    index = browsed.get(place).json
    assert index["success"] == "1 files"
    (file,) = index["files"]
    expected = f"http://localhost:80{browsed.base}/Mario%20%2B%20Rabbids.nsp"
    assert file == {"url": expected, "size": 10}
    path = urllib.parse.urlsplit(file["url"]).path
    assert browsed.app.get(path).body == b"0123456789"


def test_a_link_is_in_the_index_with_its_name_and_redirects(
    browser: webtest.TestApp, store: catalogd.Store, token: str
) -> None:
    said = {"name": "Far away + on", "description": "", "version": ""}
    store.entries.add_link("https://example.org/x", 7, "nsp", said, by="anna")
    (file,) = browser.get(f"/dir/{token}/index.json").json["files"]
    assert file["url"] == "https://example.org/x#Far%20away%20%2B%20on.nsp"
    answer = browser.get(f"/dir/{token}/Far%20away%20+%20on.nsp")
    assert (answer.status_int, answer.location) == (302, "https://example.org/x")
    assert "href" not in browser.get(f"/dir/{token}/").text


def test_the_index_has_only_what_a_program_can_install(
    browsed: Browsed, store: catalogd.Store
) -> None:
    browsed.add("a.nsp", "b.nsz", "c.xci", "d.XCZ", "e.nro")
    facts = {"name": "Save", "description": "", "version": ""}
    store.entries.add_link("https://example.org/x", 7, "zip", facts, by="anna")
    index = browsed.get("/index.json").json
    names = [file["url"].rpartition("/")[2] for file in index["files"]]
    assert names == ["a.nsp", "b.nsz", "c.xci", "d.XCZ"]
    assert "nro/" in browsed.get("/").text


def test_one_folder_has_all_files(browsed: Browsed) -> None:
    browsed.add("one.nsp", "two.xci", "three.nro")
    assert browsed.links("/all/") == ["one.nsp", "three.nro", "two.xci"]
    assert browsed.get("/all/two.xci").body == b"0123456789"
    assert "all/" not in browsed.get("/").text  # or mirrors copy twice


def test_a_link_never_contains_http(browsed: Browsed) -> None:
    """Some programs take such a link for the address of another server."""
    browsed.add("From http HTTPS Http.nsp")
    [link] = browsed.links("/all/")
    assert "http" not in link.lower()
    assert browsed.get(f"/all/{link}").body == b"0123456789"


@pytest.mark.parametrize("folder", ["nsp", "all", "/nsp"])
def test_a_folder_without_its_slash_leads_to_it(browsed: Browsed, folder: str) -> None:
    browsed.add("game.nsp")
    answer = browsed.get(f"/{folder}")
    assert answer.status_int == 301
    assert "game.nsp" in answer.follow().text


@pytest.mark.parametrize("is_basic", [False, True])
def test_a_mount_by_httpdirfs_has_the_folders(
    browsed: Browsed, key: str, is_basic: bool
) -> None:
    """It asks without the slash at the end, and would read JSON as an empty folder."""
    browsed.add("game.nsp")
    app, base = browsed.app, "/dir" if is_basic else browsed.base
    headers = {"User-Agent": "HTTPDirFS-1.2.5"} | (
        basic("anna", key) if is_basic else {}
    )
    answer = app.get(base, headers=headers)
    assert answer.status_int == 301
    assert 'href="nsp/"' in answer.follow(headers=headers).text
    assert "files" in app.get(base, headers={**headers, "User-Agent": "CyberFoil"})


@pytest.mark.parametrize("sign", "_-")
def test_a_link_begins_with_a_letter_or_a_percent_sign(
    browsed: Browsed, sign: str
) -> None:
    """HTTPDirFS skips other links."""
    browsed.add(f"a/{sign}game.nsp")
    [link] = browsed.links("/nsp/")
    assert re.match("[0-9A-Za-z%]", link)
    assert browsed.get(f"/nsp/{link}").body == b"0123456789"


# A base address with a slash at its end, and a path with one at its start, make two.
SLASHES = [
    ("//", "href"),
    ("///", "href"),
    ("//nsp/", "href"),
    ("/nsp//", "href"),
    ("//all//", "href"),
    ("//nsp/game.nsp", "0123456789"),
    ("//nsp//game.nsp", "0123456789"),
    ("/game.nsp/", "0123456789"),
    ("//game.nsp//", "0123456789"),
    ("//index.json", "files"),
    ("/index.json/", "files"),
]


@pytest.mark.parametrize(("path", "found"), SLASHES)
@pytest.mark.parametrize("is_basic", [False, True])
def test_empty_parts_of_a_path_are_ignored(
    browsed: Browsed,
    service: catalogd.Web,
    serve: Serve,
    key: str,
    path: str,
    found: str,
    is_basic: bool,
) -> None:
    browsed.add("game.nsp")
    base, headers = "/dir" if is_basic else browsed.base, basic("anna", key)
    url = f"{serve(service)}{base}{path}"
    assert found in call("GET", url, **(headers if is_basic else {}))[2].decode()


# Proxies mask "/dir/TOKEN" in their logs, and would not know these.
SPELLINGS = [
    ("//dir/{}/", 404),
    ("/d%69r/{}/", 404),
    ("/%64ir/{}/game.nsp", 404),
    ("/dir%2F{}/", 404),
    ("/dir%2f{}%2Fgame.nsp", 404),
    ("//host/dir/{}/", 404),
    ("http://host//dir/{}/", 404),
    ("http://host/d%69r/{}/", 404),
    ("//[/dir/{}/", 404),
    ("/DIR/{}/", 404),
    ("/dir//{}/", 401),
    ("/dir/./{}/", 401),
    ("/dir/%2F{}/", 401),
    ("/dir/{}?x", 200),
    ("/dir/{}/", 200),
    ("http://host/dir/{}/", 200),
    ("/dir/{}%2Fgame.nsp", 200),
]


@pytest.mark.parametrize(("target", "status"), SPELLINGS)
def test_a_console_address_has_one_spelling(
    browsed: Browsed, service: catalogd.Web, serve: Serve, target: str, status: int
) -> None:
    browsed.add("game.nsp")
    host = urllib.parse.urlsplit(serve(service)).netloc
    connection = http.client.HTTPConnection(host, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", target.format(browsed.base.removeprefix("/dir/")))
        assert connection.getresponse().status == status


@pytest.mark.parametrize(
    "place",
    ["nothing.nsp", "xci/", "xci", "xci/game.nsp", "api/saves/list", "a/b/c.nsp"],
)
def test_what_is_not_there_is_404(browsed: Browsed, place: str) -> None:
    browsed.add("game.nsp")
    browsed.get(f"/{place}", status=404)


def test_a_made_up_method_is_405_and_the_next_call_is_answered(
    browser: webtest.TestApp, service: catalogd.Web, serve: Serve, item: str, key: str
) -> None:
    path = item_path(browser, key, item)
    address = urllib.parse.urlsplit(serve(service))
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    connection.request("DROP", path)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 405
    connection.request("GET", path)
    assert connection.getresponse().read() == b"0123456789"
    connection.close()


# Who may


def test_basic_authentication_with_name_and_key_is_taken(
    browser: webtest.TestApp, library: Library, scanner: catalogd.Scanner, key: str
) -> None:
    library.add("game.nsp")
    scanner.scan()
    index = browser.get("/dir/index.json", headers=basic("Anna", key)).json
    path = urllib.parse.urlsplit(index["files"][0]["url"]).path
    assert path == "/dir/game.nsp"
    assert browser.get(path, headers=basic("anna", key)).body == b"game.nsp"
    assert "nsp/" in browser.get("/dir/", headers=basic("anna", key)).text


@pytest.mark.parametrize("path", ["/dir", "/dir/", "/dir/x/", "/dir/game.nsp"])
@pytest.mark.parametrize(
    "headers", [{}, basic("anna", "x"), {"Authorization": "Basic"}]
)
def test_without_token_and_key_it_is_401_that_asks_for_basic(
    browser: webtest.TestApp, key: str, path: str, headers: dict[str, str]
) -> None:
    answer = browser.get(path, headers=headers, status=401)
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def test_the_key_of_another_account_is_refused(
    browser: webtest.TestApp, key: str
) -> None:
    browser.get("/dir/", headers=basic("bert", key), status=401)


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/dir/{}/nothing.nsp", "404 GET /dir/.../nothing.nsp"),
        ("/dir//{}/nothing.nsp", "401 GET /dir//.../nothing.nsp"),
        ("/Dir/{}", "404 GET /Dir/..."),
        ("/dir;/{}", "404 GET /dir..."),
        ("/dir%5C{}", "404 GET /dir..."),
        ("/dir/;/{}/x", "401 GET /dir..."),
        ("/dir/x/dir/{}", "401 GET /dir..."),
    ],
)
def test_a_token_is_not_written_to_the_log(
    browser: webtest.TestApp,
    token: str,
    caplog: pytest.LogCaptureFixture,
    path: str,
    logged: str,
) -> None:
    caplog.set_level("INFO")
    browser.get(path.format(token), status="*")
    assert logged in caplog.text
    assert token not in caplog.text


def sign_in(browser: webtest.TestApp) -> None:
    browser.post_json("/web/login", {"username": "anna", "password": "correct horse"})


def test_the_page_makes_shows_replaces_and_revokes_the_address(
    browser: webtest.TestApp, key: str
) -> None:
    sign_in(browser)
    assert browser.get("/web/dir").json == {"success": True, "token": None}
    first = browser.post("/web/dir").json["token"]
    assert browser.get("/web/dir").json["token"] == first
    browser.get(f"/dir/{first}/")
    second = browser.post("/web/dir").json["token"]
    browser.get(f"/dir/{first}/", status=401)
    browser.get(f"/dir/{second}/")
    browser.delete("/web/dir")
    assert browser.get("/web/dir").json["token"] is None
    browser.get(f"/dir/{second}/", status=401)


def test_a_token_is_short_and_easy_to_type() -> None:
    assert re.fullmatch(r"[a-hj-km-np-z2-9]{20}", catalogd.new_token())


# Addresses of one queue item


def test_an_item_address_ends_in_the_file_name_and_gives_the_file(
    browser: webtest.TestApp, key: str, item: str
) -> None:
    path = item_path(browser, key, item)
    assert path.endswith("/A%20game%20%5Bv0%5D.nsp")
    assert browser.get(path).body == b"0123456789"


def test_an_item_address_gives_no_other_entry(
    browser: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    key: str,
    item: str,
) -> None:
    library.add("Other.nsp")
    scanner.scan()
    base = item_path(browser, key, item).rpartition("/")[0]
    browser.get(f"{base}/Other.nsp", status=404)
    assert len(browser.get(f"{base}/index.json").json["files"]) == 1


@pytest.mark.parametrize(
    "report", [{"status": "completed"}, {"status": "failed"}, {"release": True}]
)
def test_an_item_address_ends_with_the_sending(
    browser: webtest.TestApp, key: str, item: str, report: dict[str, Any]
) -> None:
    path = item_path(browser, key, item)
    body = {"queue_item_id": item, **report}
    browser.post_json("/api/send-queue/progress", body, headers=bearer(key))
    browser.get(path, status=404)


def test_a_new_item_address_replaces_the_last(
    browser: webtest.TestApp, key: str, item: str
) -> None:
    first, second = (item_path(browser, key, item) for _ in range(2))
    browser.get(first, status=401)
    browser.get(second)


def served_bytes(url: str, key: str) -> Any:
    """How many bytes were served of each item that the key has."""
    answer = call("GET", f"{url}/api/send-queue/addresses", **bearer(key))[2]
    return json.loads(answer)["served"]


def test_served_bytes_are_counted_once_each(
    browser: webtest.TestApp, service: catalogd.Web, serve: Serve, key: str, item: str
) -> None:
    url = serve(service)

    def served() -> int:
        return int(served_bytes(url, key)[item])

    assert served_bytes(url, key) == {}
    address = url + item_path(browser, key, item)
    call("HEAD", address)
    assert served() == 0
    call("GET", address, Range="bytes=0-3")
    call("GET", address, Range="bytes=2-4")
    call("GET", address, Range="bytes=8-9")
    wait_for(lambda: served() == 7)
    call("GET", address)
    wait_for(lambda: served() == 10)


def test_the_served_bytes_of_a_limited_number_of_items_are_kept(
    browser: webtest.TestApp, service: catalogd.Web, key: str, item: str
) -> None:
    served = service.calls["ConsoleCalls"].served
    served.most = 1
    served["older"] = catalogd.Served()
    browser.get(item_path(browser, key, item))
    assert list(served) == [item]


def test_an_address_outlives_a_restart_of_the_server(
    browser: webtest.TestApp, serve: Serve, service: catalogd.Web, key: str, item: str
) -> None:
    path = item_path(browser, key, item)
    url = serve(catalogd.Web(service.scanner.store, service.settings, service.scanner))
    assert call("GET", f"{url}{path}")[2] == b"0123456789"
    wait_for(lambda: served_bytes(url, key) == {item: 10})


# Two clients of one account


def test_an_item_that_a_client_sends_is_refused_to_another(
    store: catalogd.Store, clock: Clock, item: str
) -> None:
    anna = store.accounts.id_of("anna")
    claim = {"status": "processing", "client": "one"}
    with pytest.raises(catalogd.Conflict, match="Another client"):
        store.clients.report(anna, item, claim)  # one without a name sends it
    clock.now += 301
    store.clients.report(anna, item, claim)
    with pytest.raises(catalogd.Conflict, match="Another client"):
        store.clients.report(anna, item, {**claim, "client": "two"})
    store.clients.report(anna, item, {**claim, "progress_percent": 5})
