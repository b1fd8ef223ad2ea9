"""What a call may cost at most, whatever its caller writes into it. The only tests that
ask what something cost: the processor time of this thread, the least of three runs."""

import collections
import functools
import io
import json
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
from catalogd import Field, Route
from conftest import Library, cost
from example import session

MAX_TIMES = 20  # what the same call costs at its shortest, or
# What counts the lines that are covered takes its time too.
MAX_SECONDS = 0.15 if sys.gettrace() else 0.05
MAX_LITTLE_SECONDS = 0.005  # that is not asked about
EXEMPT = {
    "POST /web/consoles": "asks each host of the network",
    "POST /web/backup/file": "sends a file",
    "POST /web/scan": "scans",
    "POST /web/ages": "writes a row for each of 10,000 titles, for admins alone",
    "POST /web/check/scan": "scans",
}
PATTERNS = {  # texts of any length
    "one letter": "a",
    "marks": "\u0301\u0316",  # in the wrong order
    "eight marks": "e" + "\u0301\u0316" * 4,
    "wide": "\ufdfa",  # eighteen letters, when it is composed
    "digits": "9",
    "nested": "[",
    "quoted": '"a", ',
    "cookies": "session=a; ",
    "ranges": "0-1,",
    "slashes": "/../",
}
GUARDS = [  # header fields by which a call may be refused at once
    *("Cookie", "Authorization", "Content-Type", "Origin", "Sec-Fetch-Site"),
    "Upload-Offset",
]
HEADERS = [  # that may all be long in one call: then each alone costs less
    *("Accept-Encoding", "If-None-Match", "If-Match", "Range", "If-Range"),
    *("If-Modified-Since", "User-Agent", "X-Forwarded-For"),
]
QUERIES = [
    *("api_key", "client", "target", "target_code", "target_arguments", "unfinished"),
    *("watch", "finished"),
]
MAX_HEADER = 30_000  # of one, in a head
# A route, what is long, and arguments of the call and of the same one at its shortest.
Call = tuple[Route, str, dict[str, Any], dict[str, Any]]
SHORTEST: dict[type, Any] = {str: "a", int: 1, float: 1, bool: True, list: [], dict: {}}


def texts(length: int) -> Iterator[str]:
    """Yield texts of so many characters, or as many as fit into a body."""
    for pattern in PATTERNS.values():
        text = (pattern * length)[:length].encode()
        yield text[: catalogd.MAX_BODY_BYTES * 3 // 5].decode(errors="ignore")


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def worst(field: Field) -> Iterator[Any]:
    """Yield values of a field that may be the most costly."""
    if field.type is str:
        yield from texts(field.max_length)
        yield from texts(200_000)
    elif field.type is list:
        length = min(field.max_length, 200_000 // field.max_count - 4)
        yield [f"{n:0{length}}" for n in range(field.max_count)]
        yield ["a"] * 50_000
        yield [*texts(5_000)]
    elif field.type is dict:
        yield from (nested(depth) for depth in (7, 300, 400, 900))
        yield {f"{n}": text for n, text in enumerate(texts(100))}
    else:
        yield from (10**4000, 1e308, "9" * 200_000)


class House:
    """A service with a caller for each kind of access."""

    def __init__(self, web: catalogd.Web, library: Library) -> None:
        self.web, self.store = web, web.store
        accounts = self.store.accounts
        self.anna = accounts.id_of("anna")
        self.kid = accounts.add("kid", catalogd.hash_password("correct horse"), age=7)
        self.key = catalogd.new_key()
        accounts.add_key(self.anna, "costs", catalogd.hash_token(self.key))
        self.token = catalogd.new_token()
        self.store.addresses.set_browse_token(self.anna, self.token)
        self.secret = ""  # of a session, which some calls end
        for number in range(30):
            library.add(f"Game {number} [01000000000{number:02}000][v0].nsp")
        web.scanner.scan()
        self.entry = next(iter(self.store.entries.files())).id

    def call(
        self, rule: Route, body: bytes = b"{}", query: str = "", **headers: str
    ) -> None:
        """Answer a call of the route in this thread."""
        self.web.passwords.throttle = catalogd.Throttle()
        path = rule.path.replace("<base:re:(?:/dir(?:/[^/]+)?)?>", f"/dir/{self.token}")
        path = path.replace("<path:re:(?:/.*)?>", f"/{self.token}/a")
        path = re.sub("<account:.*?>", str(self.anna), path)
        path = re.sub("<way:.*?>", "retry", re.sub("<name:re:.*?>", "shop", path))
        path = re.sub("<.*?>", headers.pop("part", self.entry), path)
        environ: dict[str, Any] = {"REQUEST_METHOD": rule.method, "PATH_INFO": path}
        environ |= {"QUERY_STRING": query, "REMOTE_ADDR": "192.168.1.9"}
        environ |= {"HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json"}
        environ |= {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        environ |= {"wsgi.url_scheme": "http", "REQUEST_URI": path}
        environ |= {"HTTP_COOKIE": f"session={self.secret}"}
        if "key" in rule.access:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {self.key}"
        if rule.access == "token":
            environ["HTTP_AUTHORIZATION"] = f"Bearer {self.web.token}"
        environ |= headers
        answer = self.web.app(environ, lambda *given: None)
        collections.deque(answer, maxlen=0)
        getattr(answer, "close", bool)()

    def is_cheap(self, call: Callable[[], None], shortest: Callable[[], None]) -> bool:
        """Tell it by the first of three runs that is."""
        if not self.store.accounts.session_holder(catalogd.hash_token(self.secret)):
            self.secret = session(self.store, self.anna)
        return any(
            (seconds := cost(call)) <= MAX_SECONDS
            or seconds <= MAX_TIMES * cost(shortest)
            for _ in range(3)
        )


@pytest.fixture
def house(service: catalogd.Web, key: str, library: Library) -> House:
    return House(service, library)


ROUTES = [
    rule for rule in catalogd.ROUTES if f"{rule.method} {rule.path}" not in EXEMPT
]


def encoded(body: Any) -> bytes:
    text = json.dumps(body, ensure_ascii=False).encode()
    assert len(text) <= catalogd.MAX_BODY_BYTES, "waitress takes no more"
    return text


def walk(house: House, calls: Iterator[Call]) -> None:
    dear = []
    for rule, what, long, short in calls:
        one, two = ({"body": b"{}", **given} for given in (long, short))
        call = functools.partial(house.call, rule, **one)
        if not house.is_cheap(call, functools.partial(house.call, rule, **two)):
            dear.append((rule.method, rule.path, what, round(cost(call), 3)))
    assert dear == []


def long_fields() -> Iterator[Call]:
    for rule in ROUTES:
        fields = rule.fields or {}
        plain = {n: SHORTEST[f.type] for n, f in fields.items() if f.required}
        plain |= {
            n: f.choices[0] for n, f in fields.items() if f.choices and f.required
        }
        for name, field in fields.items():
            for value in worst(field):
                body, short = encoded({**plain, name: value}), encoded(plain)
                yield rule, f"{name} {body[:60]!r}", {"body": body}, {"body": short}


def long_bodies() -> Iterator[Call]:
    """Such as are no JSON, or JSON without a field that is known."""
    for rule in ROUTES:
        for text in texts(catalogd.MAX_BODY_BYTES):
            yield rule, text[:9], {"body": text.encode()[: catalogd.MAX_BODY_BYTES]}, {}
        for value in (nested(900), {text: 1 for text in texts(5_000)}):
            yield rule, "JSON", {"body": encoded(value)}, {}


def long_menus() -> Iterator[Call]:
    """What programs on consoles ask for, which is in no table."""
    pages = "page:$page,pageSize:$pageSize"
    for rule in (rule for rule in ROUTES if rule.path.endswith("graphql")):
        for text in texts(200_000):
            query = f"query(){{apps(owned:true,appType:[BASE],search:$search,{pages})"
            query += "{total items{appId}}}"
            for name in ("search", "page", "appIds"):
                fields = {"query": query, "variables": {name: text}}
                yield rule, name, {"body": encoded(fields)}, {}
            more = f"{query}{text}"[:4096]
            yield rule, "query", {"body": encoded({"query": more, "variables": {}})}, {}


def long_heads() -> Iterator[Call]:
    for rule in ROUTES:
        for text in texts(MAX_HEADER):
            sent = text.encode()[:MAX_HEADER].decode("latin-1")
            for names in (HEADERS, *([name] for name in GUARDS)):
                keys = [name.upper().replace("-", "_") for name in names]
                keys = [key if key == "CONTENT_TYPE" else f"HTTP_{key}" for key in keys]
                long, short = dict.fromkeys(keys, sent), dict.fromkeys(keys, "a")
                yield rule, f"{names} {text[:9]}", long, short


def long_addresses() -> Iterator[Call]:
    for rule in ROUTES:
        for text in texts(MAX_HEADER):
            sent = text.encode()[:MAX_HEADER]
            quoted = urllib.parse.quote(sent[: MAX_HEADER // 3])
            for names in (["api_key"], ["target_arguments"], QUERIES[1:]):
                long = "&".join(f"{name}={quoted}" for name in names)
                short = "&".join(f"{name}=a" for name in names)
                yield rule, f"?{names}= {text[:9]}", {"query": long}, {"query": short}
            part = sent.decode("latin-1").replace("/", "x")
            yield rule, f"path {text[:9]}", {"part": part}, {"part": "a"}


@pytest.mark.parametrize(
    "calls",
    [
        *(long_fields, long_menus),
        *(
            pytest.param(calls, marks=pytest.mark.ci)
            for calls in (long_bodies, long_heads)
        ),
        pytest.param(long_addresses, marks=pytest.mark.ci),
    ],
)
def test_no_call_costs_much_more_than_its_shortest_form(
    calls: Callable[[], Iterator[Call]], house: House
) -> None:
    walk(house, calls())


# What an account may have as much of as it wants


def fill(house: House) -> None:
    """Have a child at the limit of everything that it can make."""
    kid, store = house.kid, house.store
    devices = [
        store.accounts.add_key(kid, f"{n}", b"%d" % n, is_device=True)
        for n in range(catalogd.MAX_KEYS)
    ]
    for number in range(catalogd.MAX_LOGINS):
        store.accounts.add_key(kid, "login", b"l%d" % number, by_login=True)
    for number in range(catalogd.MAX_SESSIONS):
        store.accounts.add_session(kid, b"s%d" % number, "x" * 200)
    columns = "id, account, entry, place, created_at, device, status, ended_at, error"
    with store.database.writing() as db:
        db.execute(
            f"INSERT INTO queue ({columns}) SELECT hex(randomblob(8)), ?1, entries.id,"
            " 1, '2027', devices.value, 'pending', NULL, '' FROM entries, json_each(?2)"
            " AS devices ORDER BY 1 LIMIT ?3",
            (kid, json.dumps(devices), catalogd.MAX_OPEN),
        )
        db.execute(
            f"INSERT INTO queue ({columns}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
            " SELECT i + 1 FROM n WHERE i < ?2) SELECT hex(randomblob(8)), ?1, (SELECT"
            " min(id) FROM entries), 1, '2027', NULL, 'failed', '2027', ?3 FROM n",
            (kid, catalogd.MAX_FINISHED, "x" * 500),
        )
        for number in range(catalogd.MAX_UPLOADS):
            db.execute(
                "INSERT INTO uploads VALUES (?1, ?2, ?1, 9, 0)", (f"{number}", kid)
            )


@pytest.mark.parametrize("who", ["an admin", "a member"])
def test_what_an_account_has_makes_no_call_of_another_one_dear(
    who: str, house: House, library: Library, service: catalogd.Web
) -> None:
    """But what a child sends to a shared device is for its owner to see."""
    for number in range(200):
        library.add(f"More {number}.nsp")
    service.scanner.scan()
    if who == "a member":
        house.anna = house.store.accounts.add("ben", "-")
        house.key = catalogd.new_key()
        house.store.accounts.add_key(house.anna, "x", catalogd.hash_token(house.key))
    house.secret = session(house.store, house.anna)
    kinds = ("key", "session", "key or session", *["admin"] * (who == "an admin"))
    rules = [rule for rule in ROUTES if rule.method == "GET" and rule.access in kinds]
    calls = [functools.partial(house.call, rule) for rule in rules]
    before = [min(cost(call) for _ in range(5)) for call in calls]
    fill(house)
    after = [min(cost(call) for _ in range(5)) for call in calls]
    dear = {
        rule.path: (round(old, 4), round(new, 4))
        for rule, old, new in zip(rules, before, after, strict=True)
        if new > max(2 * old, MAX_LITTLE_SECONDS)
    }
    assert dear == {}
