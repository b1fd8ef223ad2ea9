"""Whatever people do to a queue, ages, accounts and files, a child's session, keys and
addresses open nothing that is hidden from it.

A state machine does what an admin, another adult, two children and their clients may
do, at random, over the routes. It knows which ages the admin has given, to which
title or content, and which items an adult has sent to a child's device since.
"""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
import urllib.parse
from typing import Any

import webtest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

import catalogd
from conftest import PASSWORD, Clock, Library, short_and_long

EVERYTHING = catalogd.EVERYTHING
FILES = {  # by title, "" for an entry without one
    "Zxqa": "0100AAAABBBB0000",
    "Zxqb": "",
}
PEOPLE = ("anna", "kid", "tot")
REPORTS = (
    {"status": "processing"},
    {"status": "failed", "error_message": "broken"},
    {"status": "processing"},
    {"status": "failed"},
    {"status": "completed"},
    {"release": True},
    {},
)
DEEDS = (
    *("send", "send", "report", "report", "report", "report", "offer", "decide"),
    *(
        "decide",
        "set_age",
        "share",
        "rename",
        "name",
        "name",
        "replace",
        "copy",
        "retry_failed",
        "undo",
        "undo",
    ),
    *("change retry", "change retry", "change cancel", "change device"),
    *("change clear", "change move", "change replace"),
    *("edit", "edit", "undo_edits", "remove_device", "choose", "choose"),
)
CHOICES = {
    "who": st.sampled_from(PEOPLE),
    "file": st.sampled_from([*FILES]),
    "to": st.sampled_from([None, "kid", "kid", "tot", "anna"]),
    "item": st.sampled_from([0, 0, 0, 1, 2]),  # the last one, the one before, ...
    "is_device": st.sampled_from([True, True, False]),
    "report": st.sampled_from(REPORTS),
    "age": st.sampled_from([3, 7, 18, 18, None]),
    "child": st.sampled_from(["kid", "tot"]),
    "years": st.sampled_from([3, 7, None]),
    "title": st.sampled_from(["0100AAAABBBB0000", "0100CCCCDDDD0000"]),
}
HOT = re.compile("/web/(entries|changes)$|/api/(list|send-queue|status)$")


class Access(RuleBasedStateMachine):
    """`thorough`: all routes are called after each step."""

    thorough = False

    def __init__(self) -> None:
        super().__init__()
        self.open = contextlib.ExitStack()
        folder = pathlib.Path(tempfile.mkdtemp())
        self.open.callback(shutil.rmtree, folder)
        self.library, clock = Library(folder / "library"), Clock()
        self.contents = {name: f"content of {name}".encode() for name in FILES}
        for name, title in FILES.items():
            self.library.add(self.file_name(name, title), self.contents[name])
        self.store = self.open.enter_context(
            contextlib.closing(
                catalogd.Store(str(folder / "data"), clock=catalogd.Clock(clock, clock))
            )
        )
        options = catalogd.Settings(folders=(str(self.library.folder),), settle=0.2)
        scanner = catalogd.Scanner(self.store, options)
        self.web = catalogd.Web(self.store, options, scanner)
        self.web.scanner.scan()
        self.paths = {name: self.file_name(name, t) for name, t in FILES.items()}
        self.ids: dict[str, str] = {}
        self.decided: dict[str | bytes, int] = {}  # titles, and contents
        self.renamed = 0
        self.files: dict[str, str] = {}  # by all ids that they have had
        self.people()
        self.scan()
        self.granted: dict[str, str] = {}  # device by item
        self.undos: list[tuple[str, str]] = []
        self.addresses: dict[str, list[str]] = {}  # of items
        for file in FILES:
            self.decide(file, 3)

    @staticmethod
    def file_name(name: str, title: str) -> str:
        return f"{name} [{title}][v0].nsp" if title else f"{name}.nro"

    def people(self) -> None:
        password = catalogd.hash_password(PASSWORD)
        ages = {"kid": 7, "tot": 3}
        self.accounts = {
            name: self.store.accounts.add(name, password, age=ages.get(name))
            for name in PEOPLE
        }
        self.pages = {name: self.app() for name in PEOPLE}
        for name, page in self.pages.items():
            page.post_json("/web/login", {"username": name, "password": PASSWORD})
        self.keys: dict[tuple[str, bool], webtest.TestApp] = {}
        self.devices: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        for name, account in self.accounts.items():
            self.add_key(name)
            self.pair(name)
            self.tokens[name] = catalogd.new_token()
            self.store.addresses.set_browse_token(account, self.tokens[name])

    def add_key(self, name: str, **device: bool) -> str:
        secret = catalogd.new_key()
        digest = catalogd.hash_token(secret)
        self.keys[name, bool(device)] = self.app(secret)
        account = self.accounts[name]
        return self.store.accounts.add_key(account, secret[-9:], digest, **device)

    def pair(self, name: str) -> None:
        self.devices[name] = self.add_key(name, is_device=True, shared=True)

    def app(self, key: str = "") -> webtest.TestApp:
        app = webtest.TestApp(self.web.app, {"REMOTE_ADDR": "192.168.1.9"})
        if key:
            app.authorization = ("Bearer", key)
        return app

    # What is known of items

    def items(self) -> list[dict[str, Any]]:
        """All items, also those that are cleared."""
        return self.store.database.rows(
            "SELECT queue.*, accounts.name AS sender FROM queue"
            " JOIN accounts ON accounts.id = account ORDER BY queue.rowid"
        )

    def one(self, number: int) -> dict[str, Any] | None:
        items = self.items()
        return items[-1 - number % len(items)] if items else None

    def age(self, name: str) -> int:
        sql = "SELECT age FROM viewers WHERE name = ?"
        return int(self.store.database.value(sql, (name,)))

    def is_seen(self, file: str, who: str) -> bool:
        return self.seen_from(file) <= self.age(who)

    def seen_from(self, file: str) -> int:
        return self.decided.get(self.subject(file), EVERYTHING)

    def subject(self, file: str) -> str | bytes:
        title = self.title(file)
        return self.contents[file] if title == self.ids[file] else title

    def title(self, file: str) -> str:
        sql = "SELECT title FROM entries WHERE id = ?"
        return str(self.store.database.value(sql, (self.ids[file],)))

    def grant(self, who: str, item: str) -> None:
        """An adult has sent, retried or moved an item."""
        [row] = [row for row in self.items() if row["id"] == item]
        if self.age(who) == self.age(row["sender"]) == EVERYTHING:
            self.granted[item] = row["device"]

    # What people do

    @rule(deed=st.sampled_from(DEEDS), more=st.fixed_dictionaries(CHOICES))
    def do(self, deed: str, more: dict[str, Any]) -> None:
        """One rule for all: hypothesis would leave out some rules in each run."""
        way, _, wanted = deed.partition(" ")
        names = getattr(self, way).__annotations__
        given = {name: more[name] for name in names.keys() & more.keys()}
        getattr(self, way)(**given | ({"way": wanted} if wanted else {}))

    def send(self, who: str, file: str, to: str | None) -> None:
        before = {row["id"] for row in self.items()}
        body = {"entries": [self.ids[file]], "device": to and self.devices[to]}
        answer = self.pages[who].post_json("/web/send", body, expect_errors=True).json
        if "undo" in answer:
            self.undos.append((who, answer["undo"]))
        for row in self.items():
            if row["id"] not in before:
                self.grant(who, row["id"])

    def report(self, who: str, is_device: bool, item: int, report: Any) -> None:
        if row := self.one(item):
            body = {"queue_item_id": row["id"], **report}
            path = "/api/send-queue/progress"
            self.keys[who, is_device].post_json(path, body, expect_errors=True)

    def offer(self, who: str, is_device: bool, item: int) -> None:
        if row := self.one(item):
            key, path = self.keys[who, is_device], "/api/send-queue/addresses"
            body = {"queue_item_ids": [row["id"]]}
            found = key.post_json(path, body, expect_errors=True).json
            for address in filter(None, found.get("addresses", {}).values()):
                self.addresses.setdefault(row["id"], []).append(address)

    def change(self, who: str, item: int, way: str, to: str | None) -> None:
        if not (row := self.one(item)):
            return
        path, body = f"/web/queue/{row['id']}/{way}", {}
        if way == "device":
            body = {"device": to and self.devices[to]}
        if way in ("clear", "move"):
            path, body = f"/web/queue/{way}", {"items": [row["id"]], "before": "2000"}
        answer = self.pages[who].post_json(path, body, expect_errors=True)
        if "undo" in answer.json:
            self.undos.append((who, answer.json["undo"]))
        if answer.status_int == 200 and way in ("retry", "replace", "device"):
            self.grant(who, row["id"])

    def retry_failed(self, who: str) -> None:
        failed = [row["id"] for row in self.items() if row["status"] == "failed"]
        self.pages[who].post_json("/web/queue/retry", {})
        for row in self.items():
            if row["id"] in failed and row["is_open"] and row["sender"] == who:
                self.grant(who, row["id"])

    def undo(self, item: int) -> None:
        if not self.undos:
            return
        who, undo = self.undos[-1 - item % len(self.undos)]
        first, again = (
            self.pages[who].post_json(
                "/web/queue/undo", {"undo": undo}, expect_errors=True
            )
            for _ in range(2)
        )
        assert first.status_int == again.status_int

    def decide(self, file: str, age: int | None) -> None:
        title = self.title(file)
        self.pages["anna"].post_json("/web/ages", {"titles": [title], "age": age})
        self.decided.pop(self.subject(file), None)
        if age:
            self.decided[self.subject(file)] = age

    def edit(self, file: str, title: str) -> None:
        self.change_title(file, "", base_id=title, kind="base")

    def undo_edits(self, file: str) -> None:
        self.change_title(file, "/undo")

    def change_title(self, file: str, way: str, **edits: str) -> None:
        """A title that an admin names has its age or, without one, the content's."""
        old = self.title(file)
        path = f"/web/entries/{self.ids[file]}{way}"
        self.pages["anna"].post_json(path, edits)
        given = self.decided.get(self.contents[file])
        if edits and given and self.title(file) != old:
            self.decided.setdefault(self.subject(file), given)

    def remove_device(self, who: str) -> None:
        """What others sent to it waits for their choice."""
        self.pages[who].delete(f"/web/devices/{self.devices[who]}")
        self.pair(who)

    def choose(self, who: str, to: str | None) -> None:
        """Send what waits for a choice to this device."""
        body = {"device": to and self.devices[to]}
        freed = [row["id"] for row in self.items() if row["freed_from"] is not None]
        self.pages[who].post_json("/web/queue/device", body, expect_errors=True)
        for row in self.items():
            if row["id"] in freed and row["device"] and row["sender"] == who:
                self.grant(who, row["id"])

    def set_age(self, child: str, years: int | None) -> None:
        path = f"/web/accounts/{self.accounts[child]}"
        self.pages["anna"].post_json(path, {"age": years})

    def share(self, who: str, is_device: bool) -> None:
        path = f"/web/devices/{self.devices[who]}"
        self.pages["anna"].post_json(path, {"shared": is_device})

    def rename(self, file: str) -> None:
        self.move(file, os.path.basename(self.paths[file]))

    def name(self, file: str, title: str, is_device: bool) -> None:
        """Let the file's name have an id, or none."""
        self.move(file, self.file_name(file, title if is_device else ""))

    def move(self, file: str, name: str) -> None:
        self.renamed += 1
        path = f"{self.renamed}/{name}"
        (self.library.folder / str(self.renamed)).mkdir()
        os.rename(self.library.folder / self.paths[file], self.library.folder / path)
        self.paths[file] = path
        self.scan_for(file)

    def replace(self, file: str) -> None:
        """Put another content there: of a file without an id, that is another game."""
        self.write(file, b"other %d" % (self.renamed + 1))

    def copy(self, file: str) -> None:
        """Put the content of the other file there."""
        (other,) = {*FILES} - {file}
        self.write(file, self.contents[other])

    def write(self, file: str, content: bytes) -> None:
        self.renamed += 1
        self.library.add(self.paths[file], content, self.renamed)
        self.contents[file] = content
        self.scan_for(file)

    def scan_for(self, file: str) -> None:
        """A title that a scan finds out has the stricter age, its own or the content's.
        One without stays undecided where it has other parts."""
        has = self.parts()
        self.scan()
        given, title = self.decided.get(self.contents[file]), self.title(file)
        sample = self.parts()[self.ids[file]][1]
        others = [had for had in has if had != self.ids[file] and has[had][0] == title]
        is_new = (title, sample) not in has.values()
        is_open = title in self.decided or not others
        if title != self.ids[file] and given and is_new and is_open:
            self.decided[title] = max(given, self.decided.get(title, 0))

    def parts(self) -> dict[str, tuple[str, str]]:
        """The titles and contents of all entries, by their ids."""
        rows = self.store.database.rows("SELECT id, title, sample FROM entries")
        return {row["id"]: (row["title"], row["sample"]) for row in rows}

    def scan(self) -> None:
        self.web.scanner.scan()
        sql = "SELECT id FROM entries WHERE source = ? AND state = 'here'"
        for file, path in self.paths.items():
            where = str(self.library.folder / path)
            self.ids[file] = self.store.database.value(sql, (where,))
            self.files[self.ids[file]] = file

    # After each step

    def opened(self) -> dict[str, set[str]]:
        """What an adult has open on each device: its files."""
        found: dict[str, set[str]] = {}
        ended = {row["id"] for row in self.items() if not row["is_open"]}
        for item in ended & {*self.granted}:
            del self.granted[item]
        for row in self.items():
            is_granted = row["id"] in self.granted and row["device"]
            if row["is_open"] and is_granted:
                found.setdefault(row["device"], set()).add(self.files[row["entry"]])
        return found

    def check_invariants(self, *given: Any, **more: Any) -> None:
        self.check()
        super().check_invariants(*given, **more)

    def check(self) -> None:
        opened = self.opened()
        for who in PEOPLE:
            if self.age(who) != EVERYTHING:
                waiting = opened.get(self.devices[who], set())
                hidden = {file for file in FILES if not self.is_seen(file, who)}
                self.check_lists(who, hidden - waiting)
                for file in FILES:
                    self.check_file(who, file, file in hidden, file in waiting)
                self.check_items(who, hidden - waiting)
        self.check_addresses(opened)

    def check_file(self, who: str, file: str, is_hidden: bool, waits: bool) -> None:
        key, plain = self.keys[who, True], self.keys[who, False]
        id, name = self.ids[file], urllib.parse.quote(self.shown_name(file))
        for app, is_open in ((key, waits), (plain, False)):
            for path in (f"/api/download/{id}", f"/api/entries/{id}/info"):
                status = app.get(path, expect_errors=True).status_int
                assert status == (200 if is_open or not is_hidden else 404)
        status = 404 if is_hidden else 200
        for path in (f"/web/download/{id}", f"/web/entries/{id}"):
            assert self.pages[who].get(path, expect_errors=True).status_int == status
        path = f"/dir/{self.tokens[who]}/{name}"
        assert self.app().get(path, expect_errors=True).status_int == status

    def shown_name(self, file: str) -> str:
        sql = "SELECT file_name FROM entries WHERE id = ?"
        return str(self.store.database.value(sql, (self.ids[file],)))

    def check_lists(self, who: str, hidden: set[str]) -> None:
        told = {
            file: {self.title(file), *re.findall(r"\[(\w{16})", self.paths[file])}
            for file in FILES
        }
        seen = set().union(*(told[file] for file in {*FILES} - hidden))
        titles = set().union(*(told[file] for file in hidden)) - seen
        words = [*hidden, *titles, *(self.ids[file] for file in hidden)]
        apps = {
            "session": [self.pages[who]],
            "key": [self.keys[who, True], self.keys[who, False]],
        }
        apps["key or session"] = [*apps["key"], *apps["session"]]
        for route in catalogd.ROUTES:
            is_plain = route.method == "GET" and "<" not in route.path
            if is_plain and (self.thorough or HOT.search(route.path)):
                for app in apps.get(route.access, []):
                    text = app.get(route.path, expect_errors=True).text
                    assert not [word for word in words if word in text], route.path
        for end in ("/all/", "/nsp/", "/index.json", "/api/shop/sections"):
            text = self.app().get(f"/dir/{self.tokens[who]}{end}", expect_errors=True)
            assert not [word for word in words if word in text.text]

    def check_items(self, who: str, hidden: set[str]) -> None:
        """An item that its sender may not see is missing, or was cancelled."""
        ids = {id for id, file in self.files.items() if file in hidden}
        for row in self.items():
            if row["entry"] in ids and row["sender"] == who:
                assert not row["is_open"]
                for is_device in (True, False):
                    answer = self.keys[who, is_device].post_json(
                        "/api/send-queue/progress",
                        {"queue_item_id": row["id"], "status": "processing"},
                        expect_errors=True,
                    )
                    is_told = row["status"] == "cancelled"
                    assert answer.status_int in ((404, 409) if is_told else (404,))
                    assert not [file for file in FILES if file in answer.text]
                path = f"/web/queue/{row['id']}/retry"
                assert (
                    self.pages[who].post_json(path, {}, expect_errors=True).status_int
                    == 404
                )

    def check_addresses(self, opened: dict[str, set[str]]) -> None:
        for row in self.items():
            file, owners = self.files[row["entry"]], {row["sender"]}
            owners |= {who for who, id in self.devices.items() if id == row["device"]}
            is_hidden = not all(self.is_seen(file, who) for who in owners)
            waits = file in opened.get(row["device"], set())
            for address in self.addresses.get(row["id"], []):
                path = urllib.parse.urlsplit(address).path
                answer = self.app().get(path, expect_errors=True)
                assert answer.status_int in (200, 404, 401, 403)
                if answer.status_int == 200:
                    assert row["is_open"] and (waits or not is_hidden)

    def teardown(self) -> None:
        with self.open:
            Access.check_all(self)

    def check_all(self) -> None:
        self.thorough = True
        self.check()


@short_and_long(examples=(15, 300), steps=(30, 60), thorough=(False, True))
def test_no_history_opens_what_is_hidden(
    examples: int, steps: int, thorough: bool, cheap_passwords: None
) -> None:
    Machine = type("Machine", (Access,), {"thorough": thorough})
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=[Phase.generate],
            derandomize=not thorough,
            database=None,
            suppress_health_check=[*HealthCheck],
        ),
    )
