"""The interface's description by OpenAPI 3.1, made from the routes and tables.

`python3 tests/openapi.py` writes it to packaging/openapi.json.
"""

import collections
import http.client
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import catalogd  # noqa: E402
from catalogd import KINDS, Field  # noqa: E402

PATH = ROOT / "packaging" / "openapi.json"

# What is answered: a type stands for a field that is always there, a Field for one that
# may be absent, [table] for a list.
DONE = {"success": bool}
MESSAGE = {**DONE, "message": str}
ERROR = {**MESSAGE, "error": str}
REPORTED = {**MESSAGE, "attempts": Field(int)}


class Maybe(NamedTuple):
    """A field that may be null, or, with `required` false, may be absent."""

    type: Any
    required: bool = True


CODED = {"reason": Field(str), "arguments": Maybe(dict, required=False)}
ROOM = {"answers": bool, "writable": bool, "free": Maybe(int), "used": Maybe(int)}
FOLDER = {
    "path": str,
    "state": Field(str, required=True, choices=("online", "offline", "unread")),
    "watched": bool,
    "files": int,
    "scanned_at": Maybe(str),
    "problem": str,
    **CODED,
    **ROOM,
}
SCAN = {
    "scanning": bool,
    "asked": bool,
    "result": str,
    "files": int,
    "read": int,
    "started": Maybe(str),
    "finished": Maybe(str),
    "next": Maybe(str),
    "problem": str,
    "disks": [
        {"path": str, "since": str, "entries": int, "id": str, "name": str}
        | {"missing": bool}
    ],
    "passed_over": [{"message": str, **CODED}],
    **CODED,
}
ABOUT = (
    *("folders", "files", "scan", "data", "inbox", "saves", "backup", "database"),
    *("languages", "threads"),
)
FAULT = {
    "about": Field(str, required=True, choices=ABOUT),
    "id": str,
    "message": str,
    **CODED,
}
LOOK = {
    **{"id": str, "name": str, "looked_at": str, "copied": int, "failures": int},
    "problems": [{"message": str, **CODED}],
}
STATUS = {
    **DONE,
    "version": str,
    "released": str,
    "releases": str,
    "entries": int,
    "queue": dict.fromkeys(catalogd.QUEUE_STATUSES, int),
    # With the key of an admin:
    "folders": Maybe([FOLDER], required=False),
    "scan": Maybe(SCAN, required=False),
    "data": Maybe({"path": str, **ROOM}, required=False),
    "backup": Maybe(
        {"kept": int, "made_at": Field(str), "size": Field(int)}, required=False
    ),
    "saves": Maybe([LOOK], required=False),
    "faults": Maybe([FAULT], required=False),
}
TITLE_ID = Field(str, hex_digits=16)
CONTENT = {
    "title_id": Field(str, required=True, hex_digits=16),
    "kind": Maybe(str),
    "version": str,
}
MORE = {kind: Field(int) for kind in (*catalogd.CONTENT_KINDS, "unknown")}
ENTRY = {
    "id": str,
    "name": str,
    "source": str,
    "file_type": str,
    "size": int,
    "type": Field(str, required=True, choices=("filepath", "url")),
    "created_at": str,
    "created_by": str,
    "metadata": {
        "description": str,
        "version": str,
        "author": Field(str),
        "title_id": TITLE_ID,
        "patch": Field(int),
        "kind": Field(str, choices=KINDS),
        "base_id": TITLE_ID,
        "icon": Field(str),
        "complete": Field(bool),
        "missing": Field(str),
        "format": Field(str, choices=(*catalogd.FORMATS, *catalogd.OTHER_FILES)),
        "contents": Maybe([CONTENT], required=False),
        "more": Maybe(MORE, required=False),
        "sha256": Field(str, hex_digits=64),
    },
}
ITEM = {
    "queue_item_id": str,
    "entry_id": str,
    "entry_name": str,
    "entry_source": str,
    "entry_size": int,
    "created_at": str,
    "status": Field(str, required=True, choices=("pending",)),
    "replace": Field(bool),
}
ADDRESSES = "/api/send-queue/addresses"
INTERFACE: dict[str, tuple[Any, list[int]]] = {  # answers, and statuses of its own
    "GET /api/status": (STATUS, []),
    "GET /healthz": ({**DONE, "version": str}, []),
    "POST /api/auth/login": ({**DONE, "api_key": str}, [403, 429]),
    "POST /api/pair": ({**DONE, "api_key": str, "device": str}, [403, 409]),
    "GET /api/list": ({"entries": [ENTRY]}, [304]),
    "GET /api/download/<entry_id>": (bytes, [206, 302, 304, 404, 412, 416]),
    "GET /api/entries/<entry_id>/info": ({**DONE, "entry": ENTRY}, [404]),
    "POST /api/send-to-switch": (MESSAGE, [403, 404, 409]),
    "GET /api/send-queue": ({**DONE, "queue": [ITEM]}, [304, 400]),
    "POST /api/on-console": ({**DONE, "known": [str]}, []),
    "POST /api/send-queue/progress": (REPORTED, [404, 409]),
    "POST /api/send-queue/update": (REPORTED, [404, 409]),
    f"POST {ADDRESSES}": ({**DONE, "addresses": dict, "stale_after": float}, []),
    f"GET {ADDRESSES}": ({**DONE, "served": dict}, []),
}
KEY_PLACES = {
    "header": {"type": "http", "scheme": "bearer"},
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": catalogd.COOKIE},
}
SECURITY = {  # by the access of a route
    "open": (),
    "key": ("header", "query"),
    "key or session": ("header", "query", "cookie"),
}
SERVER = {  # the document is not served, so its reader gives the address
    "url": "{base_url}",
    "variables": {"base_url": {"default": "http://127.0.0.1:6069"}},
}
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
JSON_TYPES |= {list: "array", dict: "object"}
TEXT = r"^[^\u0000\ud800-\udfff]*$"  # what check_text takes


def answer_schema(value: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field, a table or a list of what is answered."""
    if isinstance(value, Maybe):
        found = answer_schema(value.type)
        return {**found, "type": [found["type"], "null"]} if value.required else found
    if isinstance(value, list):
        return {"type": "array", "items": answer_schema(value[0])}
    if isinstance(value, dict):
        needed = [name for name in value if getattr(value[name], "required", True)]
        return object_schema(value, needed, answer_schema)
    if not isinstance(value, Field):
        return {"type": JSON_TYPES[value]}
    found = {"type": JSON_TYPES[value.type]}
    if value.choices:
        found["enum"] = [*value.choices]
    if value.hex_digits:
        found["pattern"] = f"^[0-9A-Fa-f]{{{value.hex_digits}}}$"
    return found


def object_schema(table: Any, needed: list[str], schema: Any) -> dict[str, Any]:
    fields = {name: schema(table[name]) for name in table}
    return {"type": "object", "properties": fields, "required": needed}


def body_schema(table: Mapping[str, Field]) -> dict[str, Any]:
    """Return the JSON Schema of a request's body."""
    needed = [name for name, field in table.items() if field.required]
    return object_schema(table, needed, field_schema)


def field_schema(field: Field) -> dict[str, Any]:
    """Return the JSON Schema of what `check` takes. An optional field may be null."""
    found: dict[str, Any] = {"type": JSON_TYPES[field.type]}
    least = field.min_length or int(field.required)
    text = {"minLength": least, "maxLength": field.max_length, "pattern": TEXT}
    if field.choices:
        found["enum"] = [*field.choices]
    elif field.type is str:
        found |= text
    elif field.type is list:
        found["items"] = {"type": "string", **text}
    elif field.type is dict:
        found["additionalProperties"] = True
    elif field.type is not bool:
        found |= {"minimum": field.low, "maximum": field.high}
    if not field.required:
        found["type"] = [found["type"], "null"]
        found |= {"enum": [*field.choices, None]} if field.choices else {}
    return found


def described(
    rule: catalogd.Route, gives: Any, own_statuses: Iterable[int]
) -> dict[str, Any]:
    """Return the Operation Object of a call."""
    places = SECURITY[rule.access]
    names = dict.fromkeys(re.findall("<(.*?)>", rule.path), "path")
    if rule.method == "GET" and rule.path in ("/api/send-queue", ADDRESSES):
        names |= {"client": "query"}
    if rule.path == "/api/send-queue":
        asked = ("target", "target_code", "target_arguments", "unfinished")
        names |= dict.fromkeys(asked, "query")
    text = {"schema": {"type": "string"}}
    call: dict[str, Any] = {
        "security": [{place: []} for place in places],
        "parameters": [
            {"name": name, "in": place, "required": place == "path", **text}
            for name, place in names.items()
        ],
    }
    statuses = {200, 408, 431, 500, 503, *own_statuses, *([401] if places else [])}
    statuses |= {507} if rule.method == "POST" else set()
    if rule.fields is not None:
        statuses |= {400, 413, 415, 501}
        content = {"application/json": {"schema": body_schema(rule.fields)}}
        call["requestBody"] = {"required": True, "content": content}
    answers = {str(one): described_answer(one, gives) for one in sorted(statuses)}
    return {**call, "responses": answers}


def described_answer(status: int, gives: Any) -> dict[str, Any]:
    """Return the Response Object of a status."""
    found: dict[str, Any] = {"description": http.client.responses[status]}
    table = gives if status < 300 else ERROR
    if table is bytes:
        found["content"] = {"application/octet-stream": {}}
    elif not 300 <= status < 400:
        found["content"] = {"application/json": {"schema": answer_schema(table)}}
    return found


def openapi() -> dict[str, Any]:
    """Return the OpenAPI Object."""
    paths: dict[str, Any] = collections.defaultdict(dict)
    for rule in catalogd.ROUTES:
        if found := INTERFACE.get(f"{rule.method} {rule.path}"):
            path = re.sub("<(.*?)>", r"{\1}", rule.path)
            paths[path][rule.method.lower()] = described(rule, *found)
    return {
        "openapi": "3.1.0",
        "info": {"title": "catalogd", "version": catalogd.__version__},
        "servers": [SERVER],
        "paths": paths,
        "components": {"securitySchemes": KEY_PLACES},
    }


def text() -> str:
    """Return the content of packaging/openapi.json."""
    return json.dumps(openapi(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
