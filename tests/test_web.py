"""The routes, without a socket: who may call them, what they take and answer."""

import contextlib
import dataclasses
import http.client
import json
import logging
import os
import pathlib
import re
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
import wsgiref.util
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Clock, Library
from example import by_age

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
STRANGER = {"Sec-Fetch-Site": "cross-site"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def app_of(service: catalogd.Web, address: str) -> webtest.TestApp:
    """Calls as one machine of the LAN does."""
    return webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": address})


@pytest.fixture
def client(service: catalogd.Web, key: str) -> webtest.TestApp:
    """Calls with anna's key in the header."""
    app = app_of(service, "192.168.1.7")
    app.authorization = ("Bearer", key)
    return app


def sign_in(browser: webtest.TestApp, password: str = PASSWORD, **more: Any) -> Any:
    fields = {"username": "anna", "password": password}
    return browser.post_json("/web/login", fields, **more)


@pytest.fixture
def stranger(store: catalogd.Store, key: str) -> str:
    """The key of bert, who is a member."""
    account = store.accounts.add("bert", catalogd.hash_password(PASSWORD))
    key = catalogd.new_key()
    store.accounts.add_key(account, "switch", catalogd.hash_token(key))
    return key


@pytest.fixture
def entry(library: Library, scanner: catalogd.Scanner, store: catalogd.Store) -> str:
    """The id of the entry of a file, which is `hello`."""
    library.add("Celeste [0100AAAABBBB0000][v65536].nsp", b"hello")
    scanner.scan()
    return str(json.loads(store.entries.list_json(catalogd.EVERYTHING))[0]["id"])


@pytest.fixture
def item(client: webtest.TestApp, entry: str) -> str:
    """The id of a pending item in anna's queue."""
    client.post_json("/api/send-to-switch", {"entry_id": entry})
    return str(pending(client)[0]["queue_item_id"])


def pending(client: webtest.TestApp) -> list[dict[str, Any]]:
    queue: list[dict[str, Any]] = client.get("/api/send-queue").json["queue"]
    return queue


def report(
    client: webtest.TestApp, item: str, /, expect: int = 200, **fields: Any
) -> Any:
    """What a progress report is answered, with the HTTP status `expect`."""
    body = {"queue_item_id": item, **fields}
    return client.post_json("/api/send-queue/progress", body, status=expect).json


def only_item(store: catalogd.Store) -> dict[str, Any]:
    (row,) = store.queue.items(1)
    return row


@dataclasses.dataclass
class Common:
    """A service that tests share whose calls change nothing. It has the account anna,
    with a key, a session, an entry and a pending item."""

    service: catalogd.Web
    key: str
    cookie: str
    ids: dict[str, str]

    def app(self) -> webtest.TestApp:
        """Return calls of a stranger."""
        return app_of(self.service, "192.168.1.7")

    def client(self) -> webtest.TestApp:
        app = self.app()
        app.authorization = ("Bearer", self.key)
        return app

    def signed_in(self) -> webtest.TestApp:
        app = self.app()
        app.set_cookie("session", self.cookie)
        assert app.get("/web/me").json["account"]
        return app


@pytest.fixture(scope="module")
def common(
    tmp_path_factory: pytest.TempPathFactory, new_data: pathlib.Path
) -> Iterator[Common]:
    library = Library(tmp_path_factory.mktemp("common") / "library")
    library.add("Celeste [0100AAAABBBB0000][v65536].nsp", b"hello")
    settings = catalogd.Settings(folders=(str(library.folder),), host="127.0.0.1")
    data = shutil.copytree(new_data, library.folder.with_name("data"))
    with contextlib.closing(catalogd.Store(str(data))) as store:
        account, key = store.accounts.add("anna", "hash"), catalogd.new_key()
        store.accounts.add_key(account, "switch", catalogd.hash_token(key))
        session = catalogd.new_key()
        store.accounts.add_session(account, catalogd.hash_token(session), "")
        scanner = catalogd.Scanner(store, settings)
        scanner.scan()
        entry = str(by_age(store)[0]["id"])
        store.queue.send(account, entry)
        ids = {"ENTRY": entry, "ITEM": str(store.queue.items(account)[0]["id"])}
        service = catalogd.Web(store, settings, scanner)
        common = Common(service, key, session, ids)
        common.client().get("/api/list")  # the first use of a key is written at once
        common.signed_in()
        yield common


@pytest.fixture
def unchanged(common: Common) -> Iterator[Common]:
    """The common service, whose database is as before at the end of the test."""
    before = common.service.store.database.data_version()
    yield common
    assert common.service.store.database.data_version() == before


def assert_refused(answer: Any, code: str) -> None:
    facts = (
        {"reason", "arguments"} if answer.request.path.startswith("/web/") else set()
    )
    assert {*answer.json} - facts == {"success", "error", "message"}
    assert answer.json["success"] is False
    assert answer.json["error"] == code
    assert answer.json["message"]


# The interface: catalog


def test_the_list_has_each_entry_with_the_documented_fields(
    client: webtest.TestApp, entry: str, library: Library
) -> None:
    answer = client.get("/api/list")
    assert answer.content_type == "application/json"
    assert set(answer.json) == {"entries"}
    (found,) = answer.json["entries"]
    assert re.fullmatch(TIME, found.pop("created_at"))
    metadata = found.pop("metadata")
    assert (metadata["description"], metadata["version"]) == ("", "65536")
    assert found == {
        "id": entry,
        "name": "Celeste",
        "source": str(library.folder / "Celeste [0100AAAABBBB0000][v65536].nsp"),
        "type": "filepath",
        "file_type": "nsp",
        "size": 5,
        "created_by": "scanner",
    }


def test_the_list_of_an_empty_library_is_empty(client: webtest.TestApp) -> None:
    assert client.get("/api/list").json == {"entries": []}


def test_a_list_that_changes_while_it_is_read_is_sent_again(
    client: webtest.TestApp,
    entry: str,
    library: Library,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = scanner.store.entries.list_json

    def read_and_change(*given: Any) -> bytes:
        found = read(*given)
        monkeypatch.undo()
        library.add("Second.nsp")
        scanner.scan()
        return found

    monkeypatch.setattr(scanner.store.entries, "list_json", read_and_change)
    before = client.get("/api/list")
    assert len(before.json["entries"]) == 1
    after = client.get("/api/list", headers={"If-None-Match": before.headers["ETag"]})
    assert len(after.json["entries"]) == 2


def test_a_file_is_downloaded(client: webtest.TestApp, entry: str) -> None:
    answer = client.get(
        f"/api/download/{entry}",
        extra_environ={"wsgi.file_wrapper": wsgiref.util.FileWrapper},
    )
    assert answer.body == b"hello"
    assert answer.content_type == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")


@pytest.mark.parametrize("path", ["/api/download/none", "/api/entries/none/info"])
def test_an_entry_that_does_not_exist_is_404(unchanged: Common, path: str) -> None:
    client = unchanged.client()
    assert_refused(client.get(path, status=404), "not_found")
    sent = client.post_json("/api/send-to-switch", {"entry_id": "none"}, status=404)
    assert_refused(sent, "not_found")


def test_the_info_of_an_entry_is_that_of_the_list(
    client: webtest.TestApp, entry: str
) -> None:
    info = client.get(f"/api/entries/{entry}/info").json
    assert info == {
        "success": True,
        "entry": client.get("/api/list").json["entries"][0],
    }


# The interface: queue


def test_an_entry_that_is_sent_twice_is_in_the_queue_once(
    client: webtest.TestApp, entry: str
) -> None:
    for message in ("Added to the queue.", "Already in the queue."):
        answer = client.post_json("/api/send-to-switch", {"entry_id": entry})
        assert answer.json == {"success": True, "message": message}
    assert len(pending(client)) == 1


def test_an_empty_file_is_refused_with_the_reason(
    client: webtest.TestApp, library: Library, scanner: catalogd.Scanner
) -> None:
    os.truncate(library.add("Empty.nsp"), 0)
    scanner.scan()
    [entry] = client.get("/api/list").json["entries"]
    body = {"entry_id": entry["id"]}
    answer = client.post_json("/api/send-to-switch", body, status=409)
    assert answer.json["message"] == "The file is empty."


def test_a_client_may_have_any_name(
    client: webtest.TestApp, item: str, store: catalogd.Store
) -> None:
    report(client, item, status="processing", client="Küche")
    told = client.get("/api/send-queue", params={"client": "Küche"}).json["queue"]
    assert [row["queue_item_id"] for row in told] == [item], "it has begun that before"
    named = {"client": "Küche"}
    offer = {"queue_item_ids": [item], **named}
    client.post_json("/api/send-queue/addresses", offer)
    served = client.get("/api/send-queue/addresses", params=named).json["served"]
    assert [*served] == [item]


def test_the_queue_has_pending_items_with_the_documented_fields(
    client: webtest.TestApp, entry: str, item: str, library: Library
) -> None:
    answer = client.get("/api/send-queue")
    assert answer.content_type == "application/json"
    assert set(answer.json) == {"success", "queue"}
    assert answer.json["success"] is True
    (found,) = answer.json["queue"]
    assert re.fullmatch(TIME, found.pop("created_at"))
    assert found == {
        "queue_item_id": item,
        "entry_id": entry,
        "entry_name": "Celeste",
        "entry_source": str(library.folder / "Celeste [0100AAAABBBB0000][v65536].nsp"),
        "entry_size": 5,
        "status": "pending",
    }


@pytest.mark.parametrize("path", ["/api/send-queue/progress", "/api/send-queue/update"])
def test_another_account_s_item_is_404(
    browser: webtest.TestApp, item: str, stranger: str, store: catalogd.Store, path: str
) -> None:
    for hidden in (item, "unknown"):
        body = {"queue_item_id": hidden, "status": "completed"}
        answer = browser.post_json(path, body, headers=bearer(stranger), status=404)
        assert_refused(answer, "not_found")
    assert only_item(store)["status"] == "pending"


def test_another_key_s_report_on_an_item_changes_nothing(
    client: webtest.TestApp, item: str, store: catalogd.Store
) -> None:
    other = catalogd.new_key()
    store.accounts.add_key(1, "other", catalogd.hash_token(other))
    report(client, item, status="processing", progress_percent=5)
    body = {"queue_item_id": item, "status": "failed", "error_message": "lost the race"}
    headers = bearer(other)
    for path in ("/api/send-queue/progress", "/api/send-queue/update"):
        client.post_json(path, body, headers=headers, status=409)
    offer = {"queue_item_ids": [item]}
    answer = client.post_json("/api/send-queue/addresses", offer, headers=headers)
    assert answer.json["addresses"] == {}
    assert client.get("/api/send-queue?client=a", headers=headers).json["queue"] == []
    (row,) = store.queue.items(1)
    assert (row["status"], row["percent"], row["error"]) == ("processing", 5, "")
    report(client, item, status="completed")


def test_a_cancelled_item_stops_its_client_and_takes_its_last_word(
    client: webtest.TestApp, item: str, store: catalogd.Store
) -> None:
    report(client, item, status="processing")
    store.queue.cancel(1, item)
    refused = report(client, item, expect=409, progress_percent=50)
    assert refused == {
        "success": False,
        "error": "conflict",
        "message": "The item is cancelled.",
    }
    last = report(client, item, status="failed", error_message="aborted")
    assert last["success"] is True


def test_update_sets_the_status_as_progress_does_and_wants_one(
    client: webtest.TestApp, item: str, store: catalogd.Store
) -> None:
    path, body = "/api/send-queue/update", {"queue_item_id": item}
    answer = client.post_json(path, {**body, "status": "processing"})
    assert answer.json == {"success": True, "message": "The item is processing."}
    assert only_item(store)["status"] == "processing"
    assert pending(client) == []
    told = report(client, item, status="completed", progress_percent=100)
    assert told == {"success": True, "message": "The item is completed."}
    assert only_item(store)["status"] == "completed"
    answer = client.post_json(path, body, status=400)
    assert answer.json["message"] == "The field status is missing."


def test_a_bad_field_is_refused_by_its_name(unchanged: Common) -> None:
    body = {"queue_item_id": unchanged.ids["ITEM"], "transfer_speed": -1}
    client = unchanged.client()
    answer = client.post_json("/api/send-queue/progress", body, status=400)
    assert_refused(answer, "bad_request")
    assert "field transfer_speed " in answer.json["message"]


def test_a_long_error_message_is_cut_and_not_refused(
    client: webtest.TestApp, item: str, store: catalogd.Store
) -> None:
    report(client, item, status="failed", error_message="é" * 10_000)
    assert only_item(store)["error"] == "é" * 500


@pytest.mark.parametrize("path", ["/api/download/x", "//api/download/x"])
def test_a_download_has_a_thread_of_its_own_however_it_is_spelled(
    service: catalogd.Web, path: str
) -> None:
    assert service.runs("GET", path) == catalogd.OWN_THREAD


# For clients that fetch entry_source themselves


@pytest.fixture
def by_url(key: str, entry: str, scanner: catalogd.Scanner) -> webtest.TestApp:
    """A client of a service with `sources = url`, with an item in the queue."""
    settings = catalogd.Settings(sources="url")
    app = app_of(catalogd.Web(scanner.store, settings, scanner), "192.168.1.7")
    app.authorization = ("Bearer", key)
    app.post_json("/api/send-to-switch", {"entry_id": entry})
    return app


def test_sources_can_be_the_address_that_downloads_them(
    by_url: webtest.TestApp, entry: str
) -> None:
    answer = by_url.get("/api/send-queue", headers={"Host": "nas.local:6069"})
    (found,) = answer.json["queue"]
    assert found["entry_source"] == f"http://nas.local:6069/api/download/{entry}"
    assert found["entry_name"] == "Celeste [0100AAAABBBB0000][v65536].nsp"
    assert by_url.get(urllib.parse.urlsplit(found["entry_source"]).path).status_int


def test_the_public_address_comes_before_the_one_that_was_called(
    store: catalogd.Store, scanner: catalogd.Scanner, client: webtest.TestApp, item: str
) -> None:
    public = "https://example.org/games"
    settings = catalogd.Settings(sources="url", base_url=public)
    app = app_of(catalogd.Web(store, settings, scanner), "192.168.1.7")
    app.authorization = client.authorization
    (found,) = pending(app)
    entry = found["entry_id"]
    assert found["entry_source"] == f"{public}/api/download/{entry}"


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("line\r\nbreak: a?.nsp", "line__break_ a_.nsp"),
        ("aux.nsp", "_aux.nsp"),
    ],
)
def test_the_name_of_a_file_in_the_queue_is_safe(
    by_url: webtest.TestApp,
    library: Library,
    scanner: catalogd.Scanner,
    name: str,
    file_name: str,
) -> None:
    path = library.add(name)
    scanner.scan()
    [entry] = [row for row in by_age(scanner.store) if row["source"] == path]
    by_url.post_json("/api/send-to-switch", {"entry_id": entry["id"]})
    assert pending(by_url)[1]["entry_name"] == file_name


@pytest.mark.parametrize(
    ("name", "file_type", "file_name"),
    [
        ("Far", "xci", "Far.xci"),
        ("Far.XCI", "xci", "Far.XCI"),
        ("Far", "", "Far"),
        ("a/b: c?", "nsp", "a_b_ c_.nsp"),
        ("Far", "nsp/../../../x", "Far.nsp_.._.._.._x"),
        ("a" * 300, "nsp", "a" * 251 + ".nsp"),
    ],
)
def test_the_source_of_a_link_is_an_address_that_redirects(
    by_url: webtest.TestApp,
    store: catalogd.Store,
    name: str,
    file_type: str,
    file_name: str,
) -> None:
    said = {"name": name, "description": "", "version": ""}
    address = "https://example.org/a"
    link = store.entries.add_link(address, 0, file_type, said, by="anna")
    by_url.post_json("/api/send-to-switch", {"entry_id": link})
    found = pending(by_url)[1]
    source = f"http://localhost:80/api/download/{link}"
    assert (found["entry_source"], found["entry_name"]) == (source, file_name)
    assert found["entry_size"] == 0
    answer = by_url.get(urllib.parse.urlsplit(source).path, status=302)
    assert (answer.location, answer.body) == (address, b"")


def test_a_client_signs_in_for_a_key_of_its_own_which_ends_when_it_is_not_used(
    browser: webtest.TestApp, key: str, clock: Clock
) -> None:
    fields = {"username": "ANNA ", "password": PASSWORD}
    answer = browser.post_json("/api/auth/login", fields).json
    of_login = answer["api_key"]
    assert answer["success"] is True and of_login.startswith("catalogd_")
    assert browser.get("/api/list", headers=bearer(of_login)).status_int == 200
    assert not browser.cookies
    clock.now += 90 * 86400 + 1
    browser.get("/api/list", headers=bearer(of_login), status=401)
    browser.get("/api/list", headers=bearer(key))


def test_a_client_s_login_replaces_the_login_key_that_was_unused_longest(
    browser: webtest.TestApp,
    store: catalogd.Store,
    key: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sign_in() -> str:
        clock.now += 60
        fields = {"username": "anna", "password": PASSWORD}
        return str(browser.post_json("/api/auth/login", fields).json["api_key"])

    def holds(key: str) -> bool:
        digest = catalogd.hash_token(key)
        sql = "SELECT 1 FROM keys WHERE digest = ?"
        return store.database.value(sql, (digest,)) is not None

    monkeypatch.setattr(catalogd, "MAX_LOGINS", 3)
    first, second, third = sign_in(), sign_in(), sign_in()
    browser.get("/api/list", headers=bearer(first))
    clock.now += 60
    browser.get("/api/list", headers=bearer(third))
    fourth = sign_in()
    assert [*map(holds, (key, first, second, third, fourth))] == [1, 1, 0, 1, 1]
    clock.now += 60
    browser.get("/api/list", headers=bearer(first))
    fifth = sign_in()
    assert [*map(holds, (key, first, third, fourth, fifth))] == [1, 1, 0, 1, 1]
    assert len(store.accounts.keys()) == 4


def test_an_account_has_few_keys(
    signed_in: webtest.TestApp, store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of clients that signed in are not counted."""
    monkeypatch.setattr(catalogd, "MAX_KEYS", 2)
    signed_in.post_json("/api/auth/login", {"username": "anna", "password": PASSWORD})
    label = {"label": "x"}
    made = signed_in.post_json("/web/keys", label).json["id"]
    assert signed_in.post_json("/web/keys", label, status=409).json["message"] == (
        "An account has at most 2 keys and devices. Remove one first."
    )
    signed_in.post_json("/web/pairing", {}, status=409)
    signed_in.delete(f"/web/keys/{made}")
    code = signed_in.post_json("/web/pairing", {}).json["code"]
    signed_in.post_json("/web/keys", label)
    signed_in.post_json("/api/pair", {"code": code, "name": "tv"}, status=409)


def test_an_account_has_few_sessions(
    browser: webtest.TestApp, store: catalogd.Store, key: str, clock: Clock
) -> None:
    anna = store.accounts.id_of("anna")
    for _ in range(catalogd.MAX_SESSIONS + 1):
        clock.now += 1
        sign_in(browser)
        browser.reset()
    sessions = store.accounts.sessions(anna)
    assert len(sessions) == catalogd.MAX_SESSIONS
    assert sessions[-1]["created_at"] > store.database.time(1)


# Who may call


DOCUMENTED = [
    ("GET", "/api/list", None),
    ("GET", "/api/download/ENTRY", None),
    ("POST", "/api/send-to-switch", {"entry_id": "ENTRY"}),
    ("GET", "/api/send-queue", None),
    ("POST", "/api/send-queue/progress", {"queue_item_id": "ITEM"}),
]
BEYOND = [
    ("POST", "/api/send-queue/update", {"queue_item_id": "ITEM", "status": "failed"}),
    ("GET", "/api/entries/ENTRY/info", None),
]
Call = tuple[str, str, dict[str, str] | None]
with_a_key = pytest.mark.parametrize("call", DOCUMENTED + BEYOND, ids=lambda c: c[1])


@pytest.fixture
def ids(entry: str, item: str) -> dict[str, str]:
    return {"ENTRY": entry, "ITEM": item}


def make(app: webtest.TestApp, call: Call, ids: dict[str, str], **more: Any) -> Any:
    """Make a documented call. `query` goes after the path."""
    method, path, body = call
    path = path.replace("ENTRY", ids["ENTRY"]) + more.pop("query", "")
    if body is None:
        return app.get(path, **more)
    fields = {name: ids.get(value, value) for name, value in body.items()}
    return app.post_json(path, fields, **more)


@with_a_key
@pytest.mark.parametrize(
    "way", ["Bearer KEY", "bearer KEY", "BEARER KEY", "Bearer   KEY", "?api_key=KEY"]
)
def test_a_key_is_taken_from_the_header_and_from_the_query(
    browser: webtest.TestApp, key: str, ids: dict[str, str], call: Call, way: str
) -> None:
    given: Any = way.replace("KEY", key)
    header = {"headers": {"Authorization": given}}
    make(browser, call, ids, **({"query": given} if "?" in way else header))


@with_a_key
@pytest.mark.parametrize(
    ("header", "query"),
    [
        ("", ""),
        ("Bearer", ""),
        ("Bearer wrong", ""),
        ("Basic KEY", ""),
        ("KEY", ""),
        ("Bearer KEYx", ""),
        ("", "?api_key="),
        ("", "?api_key=wrong"),
        ("", "?API_KEY=KEY"),
        ("Bearer wrong", "?api_key=KEY"),
    ],
)
def test_a_missing_or_wrong_key_is_401(
    unchanged: Common, call: Call, header: str, query: str
) -> None:
    key, ids = unchanged.key, unchanged.ids
    headers = {"Authorization": header.replace("KEY", key)} if header else {}
    query = query.replace("KEY", key)
    app = unchanged.app()
    answer = make(app, call, ids, headers=headers, query=query, status=401)
    assert_refused(answer, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@with_a_key
def test_the_cookie_is_taken_by_send_to_switch_alone(
    signed_in: webtest.TestApp, ids: dict[str, str], call: Call
) -> None:
    status = 200 if call[1] == "/api/send-to-switch" else 401
    make(signed_in, call, ids, status=status)


def test_a_wrong_key_is_401_also_with_a_good_cookie_and_a_wrong_cookie_is(
    signed_in: webtest.TestApp, entry: str
) -> None:
    path, body = "/api/send-to-switch", {"entry_id": entry}
    signed_in.post_json(path, body, headers=bearer("wrong"), status=401)
    signed_in.reset()
    signed_in.set_cookie("session", "wrong")
    assert_refused(signed_in.post_json(path, body, status=401), "unauthorized")


def calls_for(*access: str) -> list[tuple[str, str]]:
    """Return method and path of each route with one of these."""

    def filled(path: str) -> str:
        path = re.sub("<way:re:(.*?)[|].*?>", r"\1", path)
        return re.sub("<.*?>", "1", path)

    routes = [route for route in catalogd.ROUTES if route.access in access]
    return [(route.method, filled(route.path)) for route in routes]


SESSION_ROUTES = calls_for("session", "admin")


@pytest.mark.parametrize(("method", "path"), SESSION_ROUTES)
def test_the_page_s_endpoints_want_a_session(
    unchanged: Common, method: str, path: str
) -> None:
    """A key is not enough, and it is no 401, which would make a client drop its key."""
    headers = bearer(unchanged.key)
    answer = unchanged.app().request(path, method=method, headers=headers, status=403)
    assert_refused(answer, "signed_out")


@pytest.mark.parametrize(
    ("method", "path"), [row for row in SESSION_ROUTES if row[0] != "GET"]
)
def test_the_page_s_endpoints_refuse_other_sites(
    unchanged: Common, method: str, path: str
) -> None:
    app = unchanged.signed_in()
    answer = app.request(path, method=method, headers=STRANGER, status=403)
    assert_refused(answer, "forbidden")


def test_what_is_for_admins_is_refused_to_members(member: webtest.TestApp) -> None:
    for method, path in calls_for("admin"):
        answer = member.request(path, method=method, status=403)
        assert_refused(answer, "forbidden")


# Other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/api/send-to-switch", "/web/login", "/web/setup", "/web/invitation"]
)
def test_a_post_from_another_site_is_refused(
    unchanged: Common, headers: dict[str, str], path: str
) -> None:
    entry = unchanged.ids["ENTRY"]
    body = {"entry_id": entry, "username": "anna", "password": PASSWORD}
    app = unchanged.signed_in()
    answer = app.post_json(path, body, headers=headers, status=403)
    assert_refused(answer, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:80"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://nas.local:6069", "Host": "nas.local:6069"},
    ],
)
def test_a_post_from_the_page_itself_is_taken(
    browser: webtest.TestApp, key: str, headers: dict[str, str]
) -> None:
    sign_in(browser, headers=headers)


def test_the_public_address_is_the_page_s_own_and_its_cookie_secure_and_for_its_path(
    store: catalogd.Store, scanner: catalogd.Scanner, key: str
) -> None:
    settings = catalogd.Settings(base_url="https://example.org/games")
    app = app_of(catalogd.Web(store, settings, scanner), "192.168.1.7")
    answer = sign_in(app, headers={"Origin": "https://example.org"})
    rules = answer.headers["Set-Cookie"].lower().split("; ")
    assert {"path=/games", "secure"} <= {*rules}
    sign_in(app, headers={"Origin": "https://example.net"}, status=403)


def test_a_key_is_taken_from_any_site(client: webtest.TestApp, entry: str) -> None:
    body = {"entry_id": entry}
    client.post_json("/api/send-to-switch", body, headers=STRANGER)


# Signing in and out


OTHERS = {
    code: t.about["language"] for code, t in catalogd.read_translations("")[0].items()
}
ME = {"success": True, "account": None, "client": True, "languages": OTHERS}
ME |= {"known": catalogd.KNOWN_TO_PAGE}


def test_me_tells_whether_there_is_an_account_and_who_is_signed_in(
    browser: webtest.TestApp, store: catalogd.Store
) -> None:
    assert browser.get("/web/me").json == {**ME, "needs_setup": True}
    store.accounts.add("anna", catalogd.hash_password(PASSWORD))
    assert browser.get("/web/me").json == {**ME, "needs_setup": False}
    sign_in(browser)
    account = {"name": "anna", "admin": True, "settings": "catalogd.ini"}
    me = {**ME, "account": account, "needs_setup": False}
    assert browser.get("/web/me").json == me


def setup_fields(service: catalogd.Web) -> dict[str, str]:
    code = service.store.accounts.setup_code
    return {"code": code, "username": "anna", "password": PASSWORD}


def test_the_first_account_is_made_with_the_printed_code_as_people_write_it(
    browser: webtest.TestApp, service: catalogd.Web
) -> None:
    fields = setup_fields(service) | {"username": " anna "}
    fields["code"] = fields["code"].replace("-", " ", 1).upper()
    assert browser.post_json("/web/setup", fields).json == {"success": True}
    account = {"name": "anna", "admin": True, "settings": "catalogd.ini"}
    assert browser.get("/web/me").json["account"] == account


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"code": "wrong"}, 403, "wrong_password"),
        ({"username": "scanner"}, 400, "bad_request"),
        ({"username": "a:b"}, 400, "bad_request"),
        ({"password": "short"}, 400, "bad_request"),
        ({"code": None}, 400, "bad_request"),
    ],
)
def test_a_bad_setup_makes_no_account(
    browser: webtest.TestApp,
    service: catalogd.Web,
    fields: dict[str, Any],
    status: int,
    code: str,
) -> None:
    fields = {**setup_fields(service), **fields}
    answer = browser.post_json("/web/setup", fields, status=status)
    assert_refused(answer, code)
    assert browser.get("/web/me").json["needs_setup"] is True


def test_the_setup_code_makes_one_account_only(
    browser: webtest.TestApp, service: catalogd.Web, key: str, store: catalogd.Store
) -> None:
    answer = browser.post_json("/web/setup", setup_fields(service), status=409)
    assert_refused(answer, "conflict")
    assert [account["name"] for account in store.accounts.all()] == ["anna"]


def test_guesses_of_the_setup_code_delay_their_own_address_alone(
    browser: webtest.TestApp, store: catalogd.Store
) -> None:
    guest = {"REMOTE_ADDR": "10.0.0.1"}
    fields = {"code": "wrong", "username": "eve", "password": PASSWORD}
    for number in range(catalogd.Throttle.free_tries + 1):
        is_free = number < catalogd.Throttle.free_tries
        status = 403 if is_free else 429
        browser.post_json("/web/setup", fields, extra_environ=guest, status=status)
    fields["code"] = store.accounts.setup_code
    browser.post_json("/web/setup", fields, extra_environ=guest, status=429)
    browser.post_json("/web/setup", fields)


def test_the_cookie_is_for_this_site_and_no_script(
    browser: webtest.TestApp, key: str
) -> None:
    headers = sign_in(browser).headers.getall("Set-Cookie")
    for name, header in zip(("session", "catalogd_session"), headers, strict=True):
        value, *rules = header.lower().split("; ")
        assert re.fullmatch(rf"{name}=[\w-]{{43}}", value)
        guards = {"httponly", "max-age=34560000", "path=/", "samesite=strict"}
        assert set(rules) == guards
    # A browser forgets a cookie after its Max-Age: each load of the page renews it.
    assert browser.get("/web/me").headers.getall("Set-Cookie") == headers
    browser.reset()
    assert "Set-Cookie" not in browser.get("/web/me").headers


def test_another_program_may_set_the_cookie_of_the_interface(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    """As Flask does by default, also on another port of the host."""
    ours = signed_in.cookies["session"]
    signed_in.reset()

    def ask(method: str, path: str, cookies: str) -> list[str]:
        """Return the cookies that the answer sets."""
        headers = {"Cookie": cookies.format(ours)}
        answer = signed_in.request(path, method=method, headers=headers)
        signed_in.reset()
        return [text.split("=")[0] for text in answer.headers.getall("Set-Cookie")]

    both, other = ["session", "catalogd_session"], "session=flask; catalogd_session={}"
    assert ask("GET", "/web/me", "session={}") == both, "an earlier release set but one"
    assert ask("GET", "/web/me", other) == both[1:]
    assert ask("POST", "/web/logout", other) == both[1:]
    assert ask("GET", "/web/me", other) == []


def test_signing_in_again_ends_the_session_that_it_replaces(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    sign_in(signed_in)
    assert len(store.accounts.sessions(store.accounts.id_of("anna"))) == 1


def test_few_cookies_of_other_programs_are_looked_up(
    signed_in: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = signed_in.cookies["session"]
    signed_in.reset()
    for count, is_known in {3: True, 3000: False}.items():
        header = "session=x; " * count + f"session={ours}"
        account = signed_in.get("/web/me", headers={"Cookie": header}).json["account"]
        assert bool(account) == is_known


def test_signing_out_ends_the_session(signed_in: webtest.TestApp) -> None:
    cookie = signed_in.cookies["session"]
    answer = signed_in.post("/web/logout")
    assert "max-age=0" in answer.headers["Set-Cookie"].lower()
    signed_in.set_cookie("session", cookie)
    assert signed_in.get("/web/me").json["account"] is None


@pytest.mark.parametrize(
    "cookies",
    [
        "a/b=c; session=KEY",
        "session=other; session=KEY",
        'session="KEY"',
        "x=\xff;session=KEY;y",
    ],
)
def test_cookies_of_others_do_no_harm(
    browser: webtest.TestApp, key: str, cookies: str
) -> None:
    sign_in(browser)
    header = cookies.replace("KEY", browser.cookies["session"])
    browser.reset()
    me = browser.get("/web/me", extra_environ={"HTTP_COOKIE": header}).json
    assert me["account"]["name"] == "anna"


@pytest.mark.parametrize("path", ["/web/login", "/api/auth/login"])
@pytest.mark.parametrize(
    ("name", "password"), [("anna", "wrong"), ("nobody", PASSWORD), ("anna", "x" * 99)]
)
def test_a_wrong_password_is_refused(
    browser: webtest.TestApp, key: str, path: str, name: str, password: str
) -> None:
    fields = {"username": name, "password": password}
    answer = browser.post_json(path, fields, status=403)
    assert_refused(answer, "wrong_password")
    assert "Set-Cookie" not in answer.headers


def test_wrong_passwords_slow_an_account_down(
    browser: webtest.TestApp, key: str
) -> None:
    for number in range(catalogd.Throttle.free_tries):
        there = {"REMOTE_ADDR": f"192.168.1.{number}"}
        sign_in(browser, "wrong", extra_environ=there, status=403)
    there = {"REMOTE_ADDR": "192.168.1.99"}
    answer = sign_in(browser, extra_environ=there, status=429)
    assert_refused(answer, "too_many_tries")
    assert answer.headers["Retry-After"] == "1"


def test_wrong_passwords_slow_an_address_down(
    browser: webtest.TestApp, key: str
) -> None:
    for number in range(catalogd.Throttle.free_tries):
        fields = {"username": f"guess {number}", "password": "wrong"}
        browser.post_json("/web/login", fields, status=403)
    sign_in(browser, status=429)
    sign_in(browser, extra_environ={"REMOTE_ADDR": "192.168.1.99"})


def lock_out(browser: webtest.TestApp) -> None:
    """Guess the password of anna from other addresses, until the account must wait."""
    for number in range(catalogd.Throttle.free_tries + 3):
        there = {"REMOTE_ADDR": f"192.168.1.{100 + number}"}
        sign_in(browser, "wrong", extra_environ=there, expect_errors=True)
    there = {"REMOTE_ADDR": "192.168.1.200"}
    assert sign_in(browser, extra_environ=there, expect_errors=True).status_int == 429


def test_guesses_of_others_lock_nobody_out_of_an_address_that_was_good(
    browser: webtest.TestApp, key: str
) -> None:
    sign_in(browser)
    browser.reset()
    lock_out(browser)
    sign_in(browser)


def test_guesses_of_others_lock_nobody_out_who_has_a_session(
    signed_in: webtest.TestApp, service: catalogd.Web
) -> None:
    lock_out(app_of(service, "192.168.1.50"))
    sign_in(signed_in, extra_environ={"REMOTE_ADDR": "192.168.1.51"})


def test_a_guest_of_the_same_ipv6_network_locks_nobody_out(
    browser: webtest.TestApp, key: str
) -> None:
    there = {"REMOTE_ADDR": "fd21::2"}
    for number in range(9):
        fields = {"username": f"guess {number}", "password": "wrong"}
        browser.post_json("/web/login", fields, extra_environ=there, expect_errors=True)
    sign_in(browser, extra_environ=there, status=429)
    sign_in(browser, extra_environ={"REMOTE_ADDR": "fd21::3"})


def test_a_network_of_ipv6_has_room_for_a_household(
    browser: webtest.TestApp, service: catalogd.Web, key: str
) -> None:
    home = {"REMOTE_ADDR": "fd21::f"}
    sign_in(browser, extra_environ=home)
    browser.reset()
    for number in range(catalogd.HOUSEHOLD * catalogd.Throttle.free_tries):
        fields = {"username": f"guess {number}", "password": "wrong"}
        there = {"REMOTE_ADDR": f"fd21::{number + 0x100:x}"}
        browser.post_json("/web/login", fields, extra_environ=there, status=403)
    other = {"REMOTE_ADDR": "fd21::e"}
    sign_in(browser, extra_environ=other, status=429)
    code = {"token": "x"}
    browser.post_json("/web/invitation", code, extra_environ=other, status=429)
    sign_in(browser, extra_environ={"REMOTE_ADDR": "fd22::1"})
    browser.reset()
    sign_in(browser, extra_environ=home)


def test_guesses_with_a_session_count_for_the_account(
    signed_in: webtest.TestApp, service: catalogd.Web
) -> None:
    """However many addresses a thief of the cookie has."""
    answers = [
        signed_in.post_json(
            "/web/password",
            {"old": "wrong", "new": "battery staple"},
            extra_environ={"REMOTE_ADDR": f"10.0.0.{number % 6}"},
            expect_errors=True,
        ).status_int
        for number in range(24)
    ]
    assert answers == [403] * 5 + [429] * 19
    sign_in(app_of(service, "10.0.1.1"))  # the owner at another browser


def test_a_new_password_begins_without_a_wait(
    browser: webtest.TestApp, store: catalogd.Store, key: str
) -> None:
    """Also one that was set by another process, on the command line."""
    lock_out(browser)
    password = catalogd.hash_password("battery staple")
    store.accounts.change(store.accounts.id_of("anna"), {"password": password})
    sign_in(browser, "battery staple")


def test_the_addresses_that_were_good_are_limited(
    browser: webtest.TestApp, service: catalogd.Web, key: str
) -> None:
    service.passwords._good.most = 2
    for number in range(5):
        sign_in(browser, extra_environ={"REMOTE_ADDR": f"10.0.0.{number}"})
    good = [address for _, address in service.passwords._good]
    assert good == ["10.0.0.3", "10.0.0.4"]


def test_a_right_password_is_taken_after_the_wait(
    browser: webtest.TestApp, key: str, clock: Clock
) -> None:
    for _ in range(catalogd.Throttle.free_tries):
        sign_in(browser, "wrong", status=403)
    wait = sign_in(browser, status=429).headers["Retry-After"]
    clock.now += int(wait)
    sign_in(browser)


def test_a_new_password_ends_the_other_sessions(
    signed_in: webtest.TestApp, service: catalogd.Web
) -> None:
    other = app_of(service, "192.168.1.8")
    sign_in(other)
    fields = {"old": PASSWORD, "new": "battery staple"}
    assert signed_in.post_json("/web/password", fields).json == {"success": True}
    assert signed_in.get("/web/me").json["account"]["name"] == "anna"
    assert other.get("/web/me").json["account"] is None
    sign_in(other, status=403)
    sign_in(other, "battery staple")


@pytest.mark.parametrize(
    ("old", "new", "status", "code", "message"),
    [
        ("wrong", "battery staple", 403, "wrong_password", "The current password is"),
        (PASSWORD, "short", 400, "bad_request", "A password has at least"),
    ],
)
def test_a_bad_password_change_changes_nothing(
    signed_in: webtest.TestApp, old: str, new: str, status: int, code: str, message: str
) -> None:
    fields = {"old": old, "new": new}
    answer = signed_in.post_json("/web/password", fields, status=status)
    assert_refused(answer, code)
    assert answer.json["message"].startswith(message)
    sign_in(signed_in)


@pytest.mark.parametrize("ended", [(), ("keys",), ("devices", "addresses")])
def test_signing_out_everywhere_ends_what_is_chosen(
    signed_in: webtest.TestApp,
    service: catalogd.Web,
    store: catalogd.Store,
    stranger: str,
    key: str,
    ended: tuple[str, ...],
) -> None:
    other = app_of(service, "192.168.1.8")
    sign_in(other)
    client = app_of(service, "192.168.1.9")
    device = signed_in.post_json("/web/keys", {"label": "Attic"}).json["key"]
    client.get("/api/send-queue", headers=bearer(device))
    token = signed_in.post_json("/web/dir", {}).json["token"]
    body = dict.fromkeys(ended, True)
    answer = signed_in.post_json("/web/sessions/end", body)
    assert "max-age=0" in answer.headers["Set-Cookie"].lower()
    for app in (signed_in, other):
        assert app.get("/web/me").json["account"] is None
    status = {name: 401 if name in ended else 200 for name in catalogd.SIGN_OUT}
    client.get("/api/list", headers=bearer(key), status=status["keys"])
    client.get("/api/list", headers=bearer(device), status=status["devices"])
    client.get(f"/dir/{token}/", status=status["addresses"])
    client.get("/api/list", headers=bearer(stranger))


# Keys


def test_a_key_is_made_listed_used_and_revoked(
    signed_in: webtest.TestApp, service: catalogd.Web
) -> None:
    made = signed_in.post_json("/web/keys", {"label": "living room"}).json
    assert set(made) == {"success", "id", "key"}
    client = app_of(service, "192.168.1.7")
    client.get("/api/list", headers=bearer(made["key"]))
    listed = signed_in.get("/web/keys")
    assert made["key"] not in listed.text
    (row,) = [row for row in listed.json["keys"] if row["id"] == made["id"]]
    assert (row["label"], row["account"], row["requests"]) == ("living room", "anna", 1)
    assert signed_in.delete(f"/web/keys/{made['id']}").json == {"success": True}
    client.get("/api/list", headers=bearer(made["key"]), status=401)


def test_neither_a_key_nor_a_cookie_is_stored_itself(
    signed_in: webtest.TestApp, store: catalogd.Store
) -> None:
    key = signed_in.post_json("/web/keys", {"label": "living room"}).json["key"]
    paths = map(pathlib.Path, (store.database.path, f"{store.database.path}-wal"))
    stored = b"".join(path.read_bytes() for path in paths)
    for secret in (key, signed_in.cookies["session"]):
        assert secret.encode() not in stored


@pytest.mark.parametrize("label", [None, "", 1, "x" * 101, "\ud800"])
def test_a_bad_label_is_refused(signed_in: webtest.TestApp, label: Any) -> None:
    answer = signed_in.post_json("/web/keys", {"label": label}, status=400)
    assert "label" in answer.json["message"]


def test_another_account_s_key_is_neither_seen_nor_revoked(
    signed_in: webtest.TestApp, stranger: str, store: catalogd.Store
) -> None:
    theirs = store.accounts.keys(store.accounts.id_of("bert"))[0]["id"]
    assert theirs not in signed_in.get("/web/keys").text
    assert_refused(signed_in.delete(f"/web/keys/{theirs}", status=404), "not_found")


# The page's queue


def test_the_page_cancels_retries_and_clears(
    signed_in: webtest.TestApp, client: webtest.TestApp, item: str, clock: Clock
) -> None:
    def statuses() -> list[str]:
        rows = signed_in.get("/web/changes").json["queue"]["items"]
        return [row["status"] for row in rows]

    signed_in.post(f"/web/queue/{item}/cancel")
    assert statuses() == ["cancelled"]
    signed_in.post(f"/web/queue/{item}/retry")
    assert statuses() == ["pending"]
    report(client, item, status="failed")
    assert statuses() == ["failed"]
    signed_in.post_json("/web/queue/clear", {"before": "9999", "items": []})
    assert statuses() == []


# Answers


def test_what_was_asked_for_last_is_made_once_for_each_version() -> None:
    version, made = [1], []
    latest = catalogd.Latest(
        lambda key: version[0], lambda key: made.append(key) or key, 2
    )
    assert [latest(key) for key in "abaacb"] == [*"abaacb"]
    assert made == [*"abcb"]
    version[0] = 2
    assert (latest("b"), made) == ("b", [*"abcbb"])


@pytest.mark.parametrize("path", ["/api/list", "/api/send-queue"])
def test_what_a_client_has_already_is_304(
    client: webtest.TestApp, item: str, path: str
) -> None:
    etag = client.get(path).headers["ETag"]
    for header in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        answer = client.get(path, headers={"If-None-Match": header}, status=304)
        assert answer.body == b""
        assert answer.headers["ETag"] == etag
    client.get(path, headers={"If-None-Match": '"x"'}, status=200)


def test_a_queue_that_changed_is_sent_again(
    client: webtest.TestApp, signed_in: webtest.TestApp, item: str
) -> None:
    for app, path in ((client, "/api/send-queue"), (signed_in, "/web/changes")):
        etag = app.get(path).headers["ETag"]
        app.get(path, headers={"If-None-Match": etag}, status=304)
        report(client, item, status="processing")
        report(client, item, progress_percent=len(path))
        app.get(path, headers={"If-None-Match": etag}, status=200)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/script.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
        ("/icon-192.png", "image/png"),
    ],
)
def test_the_page_is_open_to_all(
    browser: webtest.TestApp, path: str, kind: str
) -> None:
    answer = browser.get(path)
    assert answer.content_type == kind
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    etag = {"If-None-Match": answer.headers["ETag"]}
    browser.get(path, headers=etag, status=304)


def test_healthz_is_open_to_all(browser: webtest.TestApp) -> None:
    body = {"success": True, "version": catalogd.__version__}
    assert browser.get("/healthz").json == body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/healthz", 200),
        ("GET", "/web/me", 200),
        ("GET", "/api/list", 200),
        ("GET", "/api/send-queue", 200),
        ("GET", "/api/download/ENTRY", 200),
        ("GET", "/api/download/none", 404),
        ("GET", "/nothing", 404),
        ("GET", "/web/changes", 403),
        ("POST", "/api/send-to-switch", 415),
        ("DELETE", "/api/list", 405),
        ("HEAD", "/api/list", 200),
    ],
)
def test_every_answer_has_the_headers_that_protect_it(
    client: webtest.TestApp, entry: str, method: str, path: str, status: int
) -> None:
    path = path.replace("ENTRY", entry)
    answer = client.request(path, method=method, status=status)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] in (
        "no-store",
        "no-cache",
        "private, no-cache",
    )


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/api/list", "GET,HEAD"),
        ("DELETE", "/api/download/x", "GET,HEAD"),
        ("GET", "/api/send-to-switch", "POST"),
        ("HEAD", "/api/send-queue/progress", "POST"),
        ("PUT", "/web/keys", "GET,HEAD,POST"),
        ("OPTIONS", "/api/list", "GET,HEAD"),
        ("PATCH", "/", "GET,HEAD,OPTIONS"),  # the last is for menus of consoles
    ],
)
def test_a_wrong_method_is_405_with_those_that_are_right(
    unchanged: Common, method: str, path: str, allow: str
) -> None:
    answer = unchanged.client().request(path, method=method, status=405)
    assert answer.headers["Allow"] == allow
    if method != "HEAD":
        assert_refused(answer, "method_not_allowed")


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/list/", "/api/download/"])
def test_an_unknown_address_is_404(unchanged: Common, path: str) -> None:
    assert_refused(unchanged.client().get(path, status=404), "not_found")


def test_a_bad_body_is_refused_after_the_key_is_checked(unchanged: Common) -> None:
    client, path = unchanged.client(), "/api/send-queue/progress"
    answer = client.post(path, "{", content_type="application/json", status=400)
    assert_refused(answer, "bad_request")
    client.authorization = None
    client.post(path, "{", content_type="application/json", status=401)


def test_a_body_of_64_kib_is_taken(client: webtest.TestApp, item: str) -> None:
    body = json.dumps({"queue_item_id": item}).ljust(65536)
    kind = "application/json; charset=utf-8"
    client.post("/api/send-queue/progress", body, content_type=kind)


def fail(*args: Any) -> NoReturn:
    raise RuntimeError("/secret/path is on fire")


def test_an_unexpected_error_is_500_without_its_reason(
    client: webtest.TestApp,
    store: catalogd.Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(store.clients, "pending", fail)
    answer = client.get("/api/send-queue", status=500)
    assert_refused(answer, "internal_error")
    assert "secret" not in answer.text
    assert "/secret/path is on fire" in caplog.text


def test_an_error_outside_of_the_routes_is_500_too(
    client: webtest.TestApp,
    service: catalogd.Web,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(service.app.router, "match", fail)
    answer = client.get("/api/send-queue", status=500, expect_errors=True)
    assert_refused(answer, "internal_error")
    assert "secret" not in answer.text


def test_a_full_disk_is_507(
    client: webtest.TestApp, store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> NoReturn:
        raise catalogd.StorageFull("The disk with the data folder is full.")

    monkeypatch.setattr(store.clients, "report", full)
    assert report(client, "x", expect=507)["error"] == "storage_full"


def test_a_refusal_is_one_line_in_the_log(
    client: webtest.TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.get("/a%0Ab", params={"api_key": "hidden"}, status=404)
    (record,) = caplog.records
    assert (
        catalogd.LogFormatter()
        .format(record)
        .endswith(
            " INFO 404 GET /a\\nb from 192.168.1.7: There is nothing at this address."
        )
    )


def test_success_is_not_logged(
    client: webtest.TestApp, item: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.get("/api/send-queue")
    report(client, item)
    assert not caplog.records


# Sockets


@pytest.mark.parametrize(
    ("host", "dual_stack", "family", "address"),
    [
        ("", True, socket.AF_INET6, "::"),
        ("", False, socket.AF_INET, "0.0.0.0"),
        ("127.0.0.1", True, socket.AF_INET, "127.0.0.1"),
        ("::1", True, socket.AF_INET6, "::1"),
    ],
)
def test_it_listens_on_a_host_or_on_all_interfaces(
    host: str,
    dual_stack: bool,
    family: int,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: dual_stack)
    with catalogd.open_socket(host, 0) as found:
        assert (found.family, found.getsockname()[0]) == (family, address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_call_has_its_address_on_a_socket_for_all(
    address: str,
    service: catalogd.Web,
    serve: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    service.settings = dataclasses.replace(service.settings, host="")
    port = int(serve(service).rpartition(":")[2])
    call = http.client.HTTPConnection(address, port, timeout=30)
    with contextlib.closing(call):
        call.request("GET", "/nowhere")
        assert call.getresponse().status == 404
    assert f"404 GET /nowhere from {address}: " in caplog.messages[0]


def test_the_ports_of_one_address_guess_together(
    browser: webtest.TestApp, key: str
) -> None:
    """Some proxies tell them."""
    body = {"username": "anna", "password": "wrong horse"}
    for port in range(7):
        there = {"REMOTE_ADDR": f"[fd00::7]:{port}"}
        status = 403 if port < 5 else 429
        browser.post_json("/web/login", body, extra_environ=there, status=status)


def forwarded(address: str) -> urllib.request.Request:
    """A wrong key, sent by a proxy in the name of another machine."""
    headers = {
        "Authorization": "Bearer wrong",
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Proto": "https",
    }
    return urllib.request.Request(f"{address}/api/list", headers=headers)


@pytest.mark.parametrize(
    ("proxy", "caller"), [("", "127.0.0.1"), ("127.0.0.1", "203.0.113.7")]
)
def test_only_a_trusted_proxy_says_who_calls(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    caplog: pytest.LogCaptureFixture,
    proxy: str,
    caller: str,
) -> None:
    caplog.set_level(logging.INFO)
    service.settings = dataclasses.replace(service.settings, trusted_proxy=proxy)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(forwarded(serve(service)), timeout=30)
    refused.value.close()
    assert f"from {caller}: " in caplog.text
