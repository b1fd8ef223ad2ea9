"""Whatever happens to devices, clients and the server, each queue item ends.

Random histories of a household are walked with a real database: clients take items,
lose them and report late; devices are paused, shared and removed; the service restarts.
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
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import catalogd
from conftest import PASSWORD, Clock, Library, short_and_long
from test_store import add_file

STALE_AFTER = 300
ANY = st.integers(0, 11)  # which one, of those that there are


class Client:
    """A device's client, and what it believes that it sends."""

    def __init__(self, account: int, device: str) -> None:
        self.account, self.device = account, device
        self.item: str | None = None
        self.is_paused = False

    def report(self, store: catalogd.Store, item: str, **fields: Any) -> str | None:
        """Report on an item; its status, or None where that is refused."""
        report = {"key": self.device, "client": "one", **fields}
        with contextlib.suppress(catalogd.Conflict, catalogd.NotFound):
            return store.clients.report(self.account, item, report)
        return None


class Household(RuleBasedStateMachine):
    """Two accounts, their devices and three files."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.stack = contextlib.ExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.clients: list[Client] = []
        self.owners: dict[str, tuple[Client, float]] = {}
        """Who reported on an item last that is being sent, and when."""
        self.freed: set[str] = set()
        """Items that lost their device, and that nobody has chosen another for."""
        self.completed: set[str] = set()
        # Accounts, actions, and the items that these have changed.
        self.undoable: list[tuple[int, str, list[str]]] = []
        self.open_store()

    def open_store(self) -> None:
        clock = catalogd.Clock(self.clock, self.clock)
        self.store = catalogd.Store(self.folder, STALE_AFTER, clock)

    @initialize()
    def begin(self) -> None:
        accounts = self.store.accounts
        self.accounts = [accounts.add(name, "x") for name in ("anna", "ben")]
        self.entries = [add_file(self.store, name).id for name in "ABC"]
        self.add_device(0)

    def teardown(self) -> None:
        if self.clients:
            self.end_all()
        self.store.close()
        self.stack.close()

    def items(self) -> list[dict[str, Any]]:
        return self.store.database.rows("SELECT * FROM queue ORDER BY place")

    def row(self, item: str) -> dict[str, Any]:
        return {row["id"]: row for row in self.items()}[item]

    def client(self, which: int) -> Client:
        return self.clients[which % len(self.clients)]

    # What people do

    @rule(which=ANY)
    @precondition(lambda self: len(self.clients) < 4)
    def add_device(self, which: int) -> None:
        account = self.accounts[which % 2]
        name = f"Device {self.clock.now}"
        self.clock.now += 1
        digest = catalogd.hash_token(name)
        device = self.store.accounts.add_key(account, name, digest, is_device=True)
        self.store.devices.change(device, {"shared": True})
        self.clients.append(Client(account, device))

    @rule(which=ANY, device=ANY, entry=ANY)
    def send(self, which: int, device: int, entry: int) -> None:
        account, to = self.accounts[which % 2], None
        if device % 4 and self.clients:
            to = self.client(device).device
        with contextlib.suppress(catalogd.NotFound):  # it is no longer shared
            before = {row["id"] for row in self.items()}
            entries = [self.entries[(entry + more) % 3] for more in range(2)]
            done = self.store.queue.send_all(account, entries, to)
            new = [row["id"] for row in self.items() if row["id"] not in before]
            self.undoable.append((account, done["undo"], new))

    @rule(which=ANY)
    @precondition(lambda self: self.clients)
    def remove_device(self, which: int) -> None:
        client = self.clients.pop(which % len(self.clients))
        self.note_freed(client)
        self.store.accounts.revoke_key(client.device)

    @rule(which=ANY, shared=st.booleans())
    @precondition(lambda self: self.clients)
    def share(self, which: int, shared: bool) -> None:
        client = self.client(which)
        if not shared:
            self.note_freed(client, client.account)
        self.store.devices.change(client.device, {"shared": shared})

    def note_freed(self, client: Client, keep: int | None = None) -> None:
        """Note what loses its device, but for the items of one account."""
        for row in self.items():
            if row["account"] == keep:
                continue
            if row["device"] == client.device:
                self.freed.add(row["id"])
            if self.owners.get(row["id"], (None,))[0] is client:
                del self.owners[row["id"]]

    @rule(which=ANY, paused=st.booleans())
    @precondition(lambda self: self.clients)
    def pause(self, which: int, paused: bool) -> None:
        client = self.client(which)
        client.is_paused = paused
        self.store.devices.change(client.device, {"paused": paused})

    @rule(which=ANY, way=st.sampled_from(["cancel", "retry", "replace", "move"]))
    @precondition(lambda self: self.items())
    def change_item(self, which: int, way: str) -> None:
        rows = self.items()
        row = rows[which % len(rows)]
        item, account, queue = row["id"], row["account"], self.store.queue
        with contextlib.suppress(catalogd.Conflict, catalogd.NotFound):
            if way == "cancel":
                self.undoable.append((account, queue.cancel(account, item), [item]))
                self.owners.pop(item, None)
            elif way == "move":
                self.move(account, item, which)
            else:
                queue.retry(account, item, way=way)
                assert self.row(item)["attempts"] == 0

    def move(self, account: int, item: str, which: int) -> None:
        to = self.client(which).device if which % 3 and self.clients else None
        self.store.devices.move(account, item, to, admin=False)
        self.freed.discard(item)
        self.owners.pop(item, None)

    @rule(which=ANY)
    def choose_for_all(self, which: int) -> None:
        account = self.accounts[which % 2]
        before = {row["id"]: row for row in self.items()}
        to = self.client(which).device if which % 3 and self.clients else None
        with contextlib.suppress(catalogd.NotFound):
            self.store.devices.move_freed(account, to)
            for item in [*self.freed]:
                row = before[item]
                if row["account"] == account and row["ended_at"] is None:
                    self.freed.discard(item)

    @rule(which=ANY)
    @precondition(lambda self: self.undoable)
    def undo(self, which: int) -> None:
        account, action, items = self.undoable.pop(which % len(self.undoable))
        is_undone = False
        with contextlib.suppress(catalogd.Conflict):
            self.store.queue.undo(account, action)
            is_undone = True
        rows = {row["id"]: row for row in self.items()}
        for row in (rows[item] for item in items if is_undone and item in rows):
            is_open = row["ended_at"] is None
            was_sent = action.startswith("send")
            assert not is_open if was_sent else row["status"] != "cancelled"
        for item in [*self.owners]:
            if item not in rows or rows[item]["ended_at"] is not None:
                del self.owners[item]
        self.freed &= rows.keys()

    # What clients do

    @rule(which=ANY)
    @precondition(lambda self: self.clients)
    def take(self, which: int) -> None:
        client = self.client(which)
        if client.item is None:
            for row in self.offered(client)[:1]:
                assert self.told(client, row["id"], status="processing")
                client.item = row["id"]

    def offered(self, client: Client) -> list[dict[str, Any]]:
        pending = self.store.clients.pending
        return pending(client.account, client="one", key=client.device)

    def told(self, client: Client, item: str, **fields: Any) -> str | None:
        """Report on an item; its status, None where that was refused."""
        owner, heard = self.owners.get(item, (client, 0.0))
        is_sent = owner is not client and self.clock.now - heard <= STALE_AFTER
        before = self.row(item) if item in {row["id"] for row in self.items()} else {}
        status = client.report(self.store, item, **fields)
        if status in ("processing", "offered"):
            assert not is_sent, "two devices have one item"
            goes_on = before["key"] == client.device and before["ended_at"] is None
            assert goes_on or not client.is_paused
            self.owners[item] = client, self.clock.now
        elif status is not None and not is_sent:
            self.owners.pop(item, None)
        return status

    @rule(which=ANY, kept=st.integers(0, 3))
    @precondition(lambda self: self.clients)
    def attempt(self, which: int, kept: int) -> None:
        self.fail_once(self.client(which), kept)

    def fail_once(self, client: Client, kept: int) -> None:
        if client.item is None:
            return
        before = [row for row in self.items() if row["id"] == client.item]
        why: Any = {"error_code": "ftp_broke", "error_arguments": {"why": "x"}}
        why |= {"error_message": "It broke.", "bytes_kept": kept}
        status = self.told(client, client.item, status="processing", **why)
        if status == "failed":
            assert before[0]["attempts"] == catalogd.MAX_ATTEMPTS - 1
        if status != "processing":
            client.item = None
            return
        row = self.row(client.item)
        assert row["error_code"] == "ftp_broke"
        assert row["attempts"] < catalogd.MAX_ATTEMPTS
        assert (row["attempts"] == 0) == (kept > before[0]["furthest"])

    @rule(which=ANY, status=st.sampled_from(["completed", "failed", "release"]))
    @precondition(lambda self: self.clients)
    def end(self, which: int, status: str) -> None:
        client = self.client(which)
        if client.item is not None:
            item, client.item = client.item, None
            fields: dict[str, Any] = {"status": status, "error_message": "It broke."}
            if status == "release":
                fields = {"release": True}
            if self.told(client, item, **fields) == "completed":
                self.completed.add(item)

    @rule(which=ANY, item=ANY, status=st.sampled_from(catalogd.STATUSES))
    @precondition(lambda self: self.clients and self.items())
    def intrude(self, which: int, item: int, status: str) -> None:
        """Report on an item that was perhaps not offered."""
        rows = self.items()
        row = rows[item % len(rows)]
        fields = {"status": status, "error_message": "It broke."}
        after = self.told(self.client(which), row["id"], **fields)
        assert row["id"] not in self.freed or after in (None, "cancelled")
        if after == "completed":
            self.completed.add(row["id"])

    @rule(which=ANY)
    @precondition(lambda self: self.clients)
    def die(self, which: int) -> None:
        self.client(which).item = None

    # What happens

    @rule(seconds=st.sampled_from([1, STALE_AFTER + 1]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        if is_clean:
            self.store.clients.write_figures()
        self.store.close()
        self.open_store()
        now = self.clock.now
        self.owners = {item: (one, now) for item, (one, _) in self.owners.items()}

    @rule(which=ANY, sql=st.sampled_from(["mtime = mtime + 1", "state = 'here'"]))
    def touch(self, which: int, sql: str) -> None:
        entry = self.entries[which % 3]
        self.store.database.write(f"UPDATE entries SET {sql} WHERE id = ?", (entry,))

    @rule(which=ANY)
    def take_disk_away(self, which: int) -> None:
        sql = "UPDATE entries SET state = 'offline' WHERE id = ?"
        self.store.database.write(sql, (self.entries[which % 3],))

    # What must hold

    @invariant()
    def nothing_is_offered_that_should_not_be(self) -> None:
        for client in self.clients:
            for row in self.offered(client):
                assert row["id"] not in self.freed
                assert row["device"] in (None, client.device)
                assert not client.is_paused or row["key"] == client.device

    @invariant()
    def each_end_is_true_and_has_a_reason(self) -> None:
        for row in self.items():
            assert row["status"] != "completed" or row["id"] in self.completed
            assert row["status"] != "failed" or row["error"]
            is_freed = row["freed_from"] is not None
            assert is_freed == (row["id"] in self.freed)
            assert not is_freed or row["device"] is None

    def end_all(self) -> None:
        """Let consoles that keep nothing have all that waits."""
        self.store.database.write("UPDATE entries SET state = 'here'", ())
        for number in (0, 1):
            self.add_device(number)
            self.store.devices.move_freed(self.accounts[number], None)
        for client in self.clients:
            self.store.devices.change(client.device, {"paused": False})
            client.item, client.is_paused = None, False
        self.freed = {row["id"] for row in self.items() if row["freed_from"]}
        bound = 4 * len(self.items())
        while any(row["is_open"] for row in self.items()):
            assert (bound := bound - 1) >= 0, self.items()
            self.clock.now += STALE_AFTER + 1
            for client in self.clients:
                self.take(self.clients.index(client))
                self.fail_once(client, 0)
        self.each_end_is_true_and_has_a_reason()


TestHousehold = Household.TestCase
TestHousehold.settings = settings(
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


# Whatever people do to a queue, ages, accounts and files, a child's session, keys and
# addresses open nothing that is hidden from it. A state machine does what an admin,
# another adult, two children and their clients may do, at random, over the routes. It
# knows which ages the admin has given, to which title or content, and which items an
# adult has sent to a child's device since.


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


@short_and_long(examples=(8, 300), steps=(30, 60), thorough=(False, True))
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
