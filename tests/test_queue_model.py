"""Whatever happens to devices, clients and the server, each queue item ends.

Random histories of a household are walked with a real database: clients take items,
lose them and report late; devices are paused, shared and removed; the service restarts.
"""

import contextlib
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import catalogd
from conftest import Clock
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
