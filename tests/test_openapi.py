"""The description of the interface, held equal to what the service answers."""

import json
import re
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
import webtest

import catalogd
import containers
import openapi
from conftest import PASSWORD, Library

SPEC: dict[str, Any] = json.loads(openapi.PATH.read_text("utf-8"))
CALLS = sorted(
    (path, method) for path in SPEC["paths"] for method in SPEC["paths"][path]
)
LOGIN = {"username": "anna", "password": PASSWORD}
BY_SERVER = {"408", "413", "431", "501"}  # that test_server.py has, over sockets

# From the interface document: what each answer has at least.
ENTRY = {
    "id": "string",
    "name": "string",
    "source": "string",
    "type": "string",
    "file_type": "string",
    "size": "integer",
    "created_at": "string",
    "created_by": "string",
    "metadata": "object",
}
ITEM = {
    "queue_item_id": "string",
    "entry_id": "string",
    "entry_name": "string",
    "entry_source": "string",
    "entry_size": "integer",
    "status": "string",
    "created_at": "string",
}


def body_of(content: Any) -> Any:
    return content["content"]["application/json"]["schema"]


def answer_of(path: str, method: str, status: str = "200") -> Any:
    return body_of(SPEC["paths"][path][method]["responses"][status])


def types(schema: Any) -> dict[str, str]:
    """The type of each field, apart from null."""
    found = {}
    for name, field in schema["properties"].items():
        kind = field["type"]
        found[name] = kind if isinstance(kind, str) else kind[0]
    return found


def closed(schema: Any) -> Any:
    """The schema, which allows for no other fields than its own."""
    if isinstance(schema, dict):
        more = {"additionalProperties": False} if "properties" in schema else {}
        return {name: closed(value) for name, value in schema.items()} | more
    return schema


def test_the_description_is_valid() -> None:
    openapi_spec_validator.validate(SPEC)
    assert SPEC["openapi"] == "3.1.0"


def test_it_is_the_one_that_the_program_makes() -> None:
    assert openapi.PATH.read_text("utf-8") == openapi.text()
    assert SPEC["info"]["version"] == catalogd.__version__


def test_it_has_every_call_of_the_interface() -> None:
    paths = {re.sub("<(.*?)>", r"{\1}", rule.path): rule for rule in catalogd.ROUTES}
    wanted = {path for path in paths if path.startswith("/api/")} | {"/healthz"}
    assert {path for path, _ in CALLS} == wanted
    routes = {f"{rule.method} {rule.path}" for rule in catalogd.ROUTES}
    assert openapi.INTERFACE.keys() <= routes


def test_it_has_every_documented_field_with_its_type() -> None:
    entries = answer_of("/api/list", "get")["properties"]["entries"]["items"]
    assert types(entries) == ENTRY
    assert entries["required"] == list(types(entries))
    metadata = entries["properties"]["metadata"]
    assert metadata["required"] == ["description", "version"]
    queue = answer_of("/api/send-queue", "get")
    assert types(queue) == {"success": "boolean", "queue": "array"}
    items = queue["properties"]["queue"]["items"]
    assert types(items) == {**ITEM, "replace": "boolean"}
    assert "replace" not in items["required"], "it is an addition to the interface"
    message = {"success": "boolean", "message": "string"}
    assert types(answer_of("/api/send-to-switch", "post")) == message
    answer = answer_of("/api/send-queue/progress", "post")
    assert types(answer) == {**message, "attempts": "integer"}
    assert answer["required"] == [*message]
    report = body_of(SPEC["paths"]["/api/send-queue/progress"]["post"]["requestBody"])
    documented = {
        "queue_item_id": "string",
        "progress_percent": "number",
        "bytes_transferred": "integer",
        "transfer_speed": "number",
        "status": "string",
        "error_message": "string",
    }
    assert documented.items() <= types(report).items()
    assert report["required"] == ["queue_item_id"]
    assert report["properties"]["status"]["enum"] == [*catalogd.STATUSES, None]


class Client:
    """Calls the service, and holds each answer against the description."""

    def __init__(self, app: webtest.TestApp, key: str) -> None:
        self.app = app
        self.key = key
        self.seen: set[tuple[str, str, str]] = set()  # path, method, status

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> webtest.TestResponse:
        more: dict[str, Any] = {"method": method, "expect_errors": True}
        kind = {"Authorization": f"Bearer {self.key}", **headers}
        if body is not None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            more["body"] = raw
            kind = {"Content-Type": "application/json", **kind}
        answer = self.app.request(path, headers=kind, **more)
        self.check(method.lower(), path.partition("?")[0], answer)
        return answer

    def check(self, method: str, path: str, answer: webtest.TestResponse) -> None:
        [rule] = [
            rule
            for rule, of in CALLS
            if of == method and re.fullmatch(re.sub("{.*?}", "[^/]+", rule), path)
        ]
        status = str(answer.status_int)
        described = SPEC["paths"][rule][method]["responses"]
        assert status in described, (rule, method, status)
        self.seen.add((rule, method, status))
        content = described[status].get("content", {})
        for kind in content:
            assert answer.content_type == kind
            if kind == "application/json":
                jsonschema.validate(answer.json, closed(content[kind]["schema"]))
        assert content or not answer.body


@pytest.fixture
def client(browser: webtest.TestApp, key: str) -> Client:
    return Client(browser, key)


@pytest.fixture
def entry(
    client: Client, library: Library, scanner: catalogd.Scanner, store: catalogd.Store
) -> str:
    """The id of a file, whose metadata has all there is."""
    head = b"PFS0" + bytes(12)
    library.add("Game [0100000000010000][v65536].nsp", head)
    library.add("Game.jpg", containers.JPEG)
    scanner.scan()
    [found] = client.call("GET", "/api/list").json["entries"]
    return str(found["id"])


@pytest.fixture
def item(client: Client, entry: str) -> str:
    client.call("POST", "/api/send-to-switch", {"entry_id": entry})
    return str(client.call("GET", "/api/send-queue").json["queue"][0]["queue_item_id"])


def transfer(client: Client, entry: str, item: str, link: str) -> None:
    """All calls of a transfer, and what may be wrong with each."""
    queue = "/api/send-queue"
    report = {"queue_item_id": item, "status": "processing", "transfer_speed": 0.5}
    for path in (f"{queue}/progress", f"{queue}/update"):
        client.call("POST", path, report)
    for path in ("/api/list", queue):
        tag = client.call("GET", path).headers["ETag"]
        client.call("GET", path, **{"If-None-Match": tag})
    client.call("POST", f"{queue}/addresses", {"queue_item_ids": [item]})
    client.call("GET", f"{queue}/addresses")
    file = f"/api/download/{entry}"
    tag = client.call("GET", file).headers["ETag"]
    client.call("GET", file, **{"If-None-Match": tag})
    client.call("GET", file, **{"If-Match": '"other"'})
    client.call("GET", file, Range="bytes=4-")
    client.call("GET", file, Range="bytes=999-")
    client.call("GET", f"/api/download/{link}")
    client.call("GET", f"{queue}?target_arguments=%5B%5D")
    report["status"] = "completed"
    client.call("POST", f"{queue}/progress", report)
    report["status"] = "failed"
    for path in (f"{queue}/progress", f"{queue}/update"):
        client.call("POST", path, report)
    client.call("GET", f"/api/entries/{entry}/info")
    client.call("GET", "/healthz")
    client.call("GET", "/api/status")


def unknown(client: Client) -> None:
    for path in ("/api/download/1", "/api/entries/1/info"):
        client.call("GET", path)
    client.call("POST", "/api/send-to-switch", {"entry_id": "1"})
    for path in ("/api/send-queue/progress", "/api/send-queue/update"):
        body = {"queue_item_id": "1", "status": "failed"}
        client.call("POST", path, body)


def foreign(client: Client) -> None:
    """A call with the cookie, by the page of another site; wrong passwords."""
    path = "/api/send-to-switch"
    client.app.post_json("/web/login", LOGIN)
    site = {"Sec-Fetch-Site": "cross-site"}
    body = {"entry_id": "1"}
    answer = client.app.post_json(path, body, headers=site, expect_errors=True)
    client.check("post", path, answer)
    for name in ("Switch", "Switch", "Other"):  # the second one has a name of another
        code = client.app.post_json("/web/pairing", {}).json["code"]
        client.call("POST", "/api/pair", {"code": code, "name": name})
    client.app.reset()
    client.call("POST", "/api/pair", {"code": "wrong", "name": "Switch"})
    client.call("POST", "/api/auth/login", LOGIN)
    for _ in range(7):
        client.call("POST", "/api/auth/login", {**LOGIN, "password": "wrong"})


def malformed(client: Client) -> None:
    for path, method in CALLS:
        place = re.sub("{.*?}", "1", path)
        client.call(method.upper(), place, Authorization="Bearer wrong")
        if "requestBody" in SPEC["paths"][path][method]:
            client.call("POST", place, b"{")
            client.call("POST", place, b"{}", **{"Content-Type": "text/plain"})


def broken(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine does wrong."""
    faults = [catalogd.Busy("Busy."), catalogd.StorageFull("Full."), ValueError()]
    for fault in faults:

        def fail(*words: Any, fault: Exception = fault) -> None:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(catalogd.Accounts, "key_holder", fail)
            patch.setattr(catalogd.Accounts, "credentials", fail)
            patch.setattr(catalogd.PairingCodes, "find", fail)
            patch.setattr(catalogd.Entries, "list_version", fail)
            for path, method in CALLS:
                is_full = isinstance(fault, catalogd.StorageFull)
                if method == "post" or not is_full:
                    both = {**LOGIN, "code": "1", "name": "x"}
                    body = both if method == "post" else None
                    client.call(method.upper(), re.sub("{.*?}", "1", path), body)


def test_every_answer_is_described_and_every_description_is_answered(
    client: Client,
    entry: str,
    item: str,
    store: catalogd.Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = {"name": "Link", "description": "", "version": ""}
    link = store.entries.add_link("http://host/x", 7, "nsp", facts, "anna")
    transfer(client, entry, item, link)
    unknown(client)
    malformed(client)
    broken(client, monkeypatch)
    client.call("POST", "/api/send-to-switch", {"entry_id": link})
    [of_link] = client.call("GET", "/api/send-queue").json["queue"]
    report = {"queue_item_id": of_link["queue_item_id"], "status": "processing"}
    client.call("POST", "/api/send-queue/progress", report)
    client.call("POST", "/api/on-console", {"parts": ["0100AAAABBBB0000 0"]})
    store.database.write("UPDATE entries SET size = 0 WHERE id = ?", (entry,))
    client.call("POST", "/api/send-to-switch", {"entry_id": entry})
    foreign(client)
    described = {
        (path, method, status)
        for path, method in CALLS
        for status in SPEC["paths"][path][method]["responses"]
        if status not in BY_SERVER
    }
    assert sorted(described - client.seen) == []


BODIES: list[dict[str, Any]] = [
    {},
    {"progress_percent": 100},
    {"progress_percent": 100.5},
    {"progress_percent": -1},
    {"progress_percent": True},
    {"bytes_transferred": 2**63 - 1},
    {"bytes_transferred": 2**63},
    {"bytes_transferred": 1.0},
    {"bytes_transferred": 1.5},
    {"transfer_speed": 1.5},
    {"transfer_speed": "1"},
    {"status": "processing"},
    {"status": "pending"},
    {"error_message": "x" * 500},
    {"client": ""},
    {"client": "x" * 101},
    {"release": False},
    {"release": 0},
    {"progress_percent": None},
    {"bytes_transferred": None},
    {"status": None},
    {"error_message": None},
    {"error_message": "\0"},
    {"error_message": "\ud800"},
    {"error_message": "\U0001f600\n"},
    {"error_code": "x" * 64},
    {"error_code": "x" * 65},
    {"error_arguments": {"count": 1, "why": {"code": "a", "arguments": {}}}},
    {"error_arguments": None},
    {"error_arguments": []},
    {"error_arguments": {"a": True}},
    {"bytes_kept": 1},
    {"bytes_kept": -1},
    {"status": "processing", "error_code": "disk_full"},
    {"release": None},
    {"other": 1},
    {"queue_item_id": ""},
    {"queue_item_id": 7},
    {"queue_item_id": None},
]


@pytest.mark.parametrize("fields", BODIES, ids=[str(row)[:30] for row in BODIES])
def test_a_body_is_taken_if_its_description_allows_it(
    client: Client, item: str, fields: dict[str, Any]
) -> None:
    path = "/api/send-queue/progress"
    body = {"queue_item_id": item, **fields}
    schema = body_of(SPEC["paths"][path]["post"]["requestBody"])
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(body)
    status = client.call("POST", path, body).status_int
    assert (status == 200) == is_valid, body
    assert status in (200, 400)
