"""What a console lists of its titles, told by its client and kept by the server."""

import contextlib
import math
import pathlib
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.stateful import run_state_machine_as_test as run

import catalogd
import send_to_switch as client
from browser import add_device, add_files, button, see, until
from browser import names as titles
from conftest import PASSWORD, Clock, Home, Library, refuse
from example import by_age
from ftpsrv import Ftpsrv

TITLES = ("0100AAAABBBB0000", "0100CCCCDDDD0000", "0100EEEEFFFF0000")
UPDATES = {title: f"{title[:-3]}800" for title in TITLES}
FILES = {  # of the library, with the title, id and version of each
    f"Game [{id}][v{number}].nsp": (title, id, number)
    for title in TITLES[:2]
    for id, number in ((title, 0), (UPDATES[title], 65536), (UPDATES[title], 131072))
}


class Console:
    """Stands for the target: what Sphaira lists of its titles, by id and version."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, int]] = {}
        self.has_folder = self.is_on = True
        self.lists = 0
        self.ends = math.inf  # the time that the last list has

    def connect(self) -> None:
        if not self.is_on:
            raise client.TargetOffline("ftp_silent", address="console")

    def close(self) -> None:
        pass

    def list(self, folder: str, progress: Any, end: float) -> list[client.Listed]:
        self.lists += 1
        self.ends = end
        if folder == client.GAMES_FOLDER:
            names = [f"A [b] game [{title}]" for title in self.parts]
            return [client.Listed(name, 0, True) for name in names * self.has_folder]
        title = folder[-17:-1]
        kinds = {title: "BASE", UPDATES.get(title): "UPD"}
        names = [
            f"A game [1.{number}][{id}][v{number}][{kinds[id]}].nsp"
            for id, number in self.parts[title].items()
        ]
        return [client.Listed(name, 5, False) for name in [*names, "icon.jpg"]]


class Calls:
    """Stands for the client's connection to the server."""

    def __init__(self, web: catalogd.Web, key: str) -> None:
        self.app = webtest.TestApp(web.app, {"REMOTE_ADDR": "192.168.1.9"})
        self.app.authorization = ("Bearer", key)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if method == "GET":
            return self.app.get(path).json
        return self.app.post_json(path, body).json

    def tell(self, target: str) -> Any:
        """Tell how the target is, and return the queue."""
        return self.call("GET", f"/api/send-queue?client=a&target={target}")["queue"]


class House:
    """anna, her child of seven, and the console of each."""

    def __init__(self, store: catalogd.Store, web: catalogd.Web) -> None:
        self.store, self.web = store, web
        password = catalogd.hash_password(PASSWORD)
        self.accounts = {
            "anna": store.accounts.add("anna", password, admin=True),
            "kid": store.accounts.add("kid", password, age=7),
        }
        self.keys, self.devices = {}, {}
        for name, account in self.accounts.items():
            self.keys[name] = key = catalogd.new_key()
            digest = catalogd.hash_token(key)
            self.devices[name] = store.accounts.add_key(
                account, name, digest, is_device=True, shared=True
            )

    def page(self, who: str) -> webtest.TestApp:
        app = webtest.TestApp(self.web.app)
        app.post_json("/web/login", {"username": who, "password": PASSWORD})
        return app

    def ids(self) -> dict[str, str]:
        """The ids of entries by what their files are called."""
        return {
            pathlib.Path(row["source"]).name: row["id"] for row in by_age(self.store)
        }

    def listed(self, who: str, device: str) -> Any:
        """What the account is told of a console: its parts, and when it was read."""
        for row in self.store.queue.sent(self.accounts[who]):
            if row.get("is_listed") and row["device"] == self.devices[device]:
                return dict(row["contents"]), row["sent_at"]
        return None


def look(installed: client.Installed) -> bool:
    return installed.read(client.Progress(client.Screen()))


@pytest.fixture
def house(
    store: catalogd.Store, library: Library, settings: catalogd.Settings
) -> House:
    for title in TITLES[:2]:
        library.add(f"Game [{title}][v0].nsp", title.encode())
    web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
    web.scanner.scan()
    return House(store, web)


def test_a_console_with_the_folder_tells_what_the_library_has_too(
    house: House, tmp_path: pathlib.Path
) -> None:
    card = tmp_path / "card"
    for title in TITLES[1:]:
        folder = card / "games:" / f"A [b] game [{title}]"
        folder.mkdir(parents=True)
        numbers = {title: [0], UPDATES[title]: [65536, 196608, 131072]}
        for id, number in [(id, number) for id, of in numbers.items() for number in of]:
            name = f"A game [{numbers[id].index(number)}][{id}][v{number}][BASE].nsp"
            (folder / name).write_bytes(b"")
    with contextlib.closing(Ftpsrv(card)) as console:
        to = client.Settings(to=f"ftp://127.0.0.1:{console.server_address[1]}/")
        calls: Any = Calls(house.web, house.keys["anna"])
        look(client.Installed(client.FTP(to), calls))
    parts, _ = house.listed("anna", "anna")
    assert parts == {TITLES[1]: 0, UPDATES[TITLES[1]]: 196608}  # the newest of each


def test_a_child_is_told_of_titles_that_it_sees_on_its_own_console(
    house: House,
) -> None:
    page = webtest.TestApp(house.web.app)
    for who in ("anna", "kid"):
        body = {"parts": [f"{title} 0" for title in TITLES] + ["x", "0" * 16 + " 1"]}
        page.authorization = ("Bearer", house.keys[who])
        page.post_json("/api/on-console", body)
    house.store.entries.set_ages([TITLES[0]], 7)
    assert house.listed("kid", "anna") is None
    assert {*house.listed("kid", "kid")[0]} == {TITLES[0]}
    assert {*house.listed("anna", "kid")[0]} == {*TITLES[:2]}
    before = house.store.queue.sent_version()
    house.store.clients.take_list(house.devices["kid"], {})
    house.store.accounts.revoke_key(house.devices["anna"], is_device=True)
    assert house.store.queue.sent_version() != before
    assert house.listed("anna", "kid")[0] == {}
    assert house.listed("anna", "anna") is None


def test_a_list_counts_until_the_device_gets_another_console(house: House) -> None:
    device, account = house.devices["anna"], house.accounts["anna"]
    calls = Calls(house.web, house.keys["anna"])
    calls.tell("ready")
    with house.store.database.writing() as db:
        sql = "UPDATE keys SET address = 'ftp://192.168.1.5/' WHERE id = ?"
        db.execute(sql, (device,))
    house.store.clients.take_list(device, {TITLES[0]: (TITLES[0], 0)})
    counts = "SELECT list_counts FROM keys WHERE id = ?"
    calls.call("GET", "/api/send-queue")  # by a program that tells of no target
    calls.tell("ready")
    assert house.store.database.value(counts, (device,))
    house.store.devices.change(device, {"target": "ftp://192.168.1.5/"})
    assert house.listed("anna", "anna")
    house.store.devices.change(device, {"target": "ftp://192.168.1.6/"}, account)
    assert house.listed("anna", "anna") is None
    assert not house.store.database.value(counts, (device,))


class Histories(RuleBasedStateMachine):
    """Titles come, go and change on the console behind the library's back, in the
    library, and by sending."""

    house: House
    library: Library
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.console = Console()
        self.calls = Calls(self.house.web, self.house.keys["anna"])
        self.page = self.house.page("anna")
        calls: Any = self.calls
        target: Any = self.console
        self.installed = client.Installed(target, calls)
        self.told = self.house.listed("anna", "anna")  # of an earlier history
        self.counts = False  # whether Send goes by that
        self.seen: Any = None  # titles there and here, when it was read
        self.here: set[str] = set()
        for name in FILES:
            self.keep(name, True)
        self.wake()

    @rule(title=st.sampled_from(TITLES), number=st.sampled_from([0, 65536, 131072]))
    def install(self, title: str, number: int) -> None:
        id = UPDATES[title] if number else title
        self.console.parts.setdefault(title, {})[id] = number

    @rule(title=st.sampled_from(TITLES))
    def delete(self, title: str) -> None:
        self.console.parts.pop(title, None)

    @rule(title=st.sampled_from(TITLES))
    def delete_update(self, title: str) -> None:
        self.console.parts.get(title, {}).pop(UPDATES[title], None)

    @rule(title=st.sampled_from(TITLES))
    def archive(self, title: str) -> None:
        """Its folder stays, without a part; as with one on a cartridge."""
        self.console.parts[title] = {}

    @rule(has_folder=st.booleans(), is_on=st.sampled_from([True, True, False]))
    def use_program(self, has_folder: bool, is_on: bool) -> None:
        self.console.has_folder, self.console.is_on = has_folder, is_on

    @rule(name=st.sampled_from([*FILES]), is_here=st.booleans())
    def keep(self, name: str, is_here: bool) -> None:
        """Let the library have a file or not. One stays, as on a disk that is there."""
        if is_here:
            self.library.add(name)
        elif len(self.here | {name}) > 1:
            (self.library.folder / name).unlink(missing_ok=True)
        self.here = {path.name for path in self.library.folder.iterdir()}
        self.house.web.scanner.scan()

    @rule()
    def wake(self) -> None:
        """The console was away, and its client has told that."""
        self.calls.tell("It is off.")
        self.calls.tell("ready")
        self.forget()

    def forget(self) -> None:
        self.installed.forget()
        self.seen, self.counts = None, False

    @rule()
    def look(self) -> None:
        self.clock.now += 60
        titles, parts = [*self.console.parts], self.console.parts
        known = {FILES[name][0] for name in self.here}
        is_read = self.console.is_on and self.console.has_folder and titles
        seen = titles, [title for title in titles if title in known]
        with contextlib.suppress(client.TargetOffline):
            assert look(self.installed)
        if is_read and seen != self.seen:
            listed = {i: n for title in seen[1] for i, n in parts[title].items()}
            self.told = listed, catalogd.stamp(self.clock.now)
            self.seen, self.counts = seen, True
        assert self.house.listed("anna", "anna") == self.told

    def is_there(self, name: str) -> bool:
        _, id, number = FILES[name]
        there = self.told[0].get(id, -1) if self.counts else -1
        return number <= there and (number > 0 or there == 0)

    @rule(
        names=st.sets(st.sampled_from([*FILES]), min_size=1),
        way=st.sampled_from(["page", "page", "anyway", "interface"]),
    )
    def send(self, names: set[str], way: str) -> None:
        """Send what the console has not, as far as its last list tells. Then its client
        sends that, and knows that it has to look again."""
        ids, wanted = self.house.ids(), sorted(names & self.here)
        device = self.house.devices["anna"]
        left = [n for n in wanted if way != "page" or not self.is_there(n)]
        if way == "interface":
            for name in wanted:
                body = {"entry_id": ids[name], "device": device}
                self.page.post_json("/api/send-to-switch", body)
        elif wanted:
            body = {"entries": [ids[name] for name in wanted], "device": device}
            body |= {"anyway": way == "anyway"}
            status = 200 if left else 409
            done = self.page.post_json("/web/send", body, status=status).json
            if left:
                assert {*done["added"]} == {ids[name] for name in left}
            else:
                assert done["reason"] == "all_on_console"
                assert done["message"] == "All of it is on anna."
        self.deliver(left)

    def deliver(self, names: list[str]) -> None:
        items = self.calls.tell("ready")
        assert {item["entry_id"] for item in items} == {
            self.house.ids()[name] for name in names
        }
        for item in items:
            report = {"queue_item_id": item["queue_item_id"], "status": "completed"}
            self.calls.call("POST", "/api/send-queue/update", report)
        for title, id, number in (FILES[name] for name in names):
            self.console.parts.setdefault(title, {})[id] = number
        if names:
            self.forget()


@pytest.fixture
def histories(
    house: House, library: Library, clock: Clock
) -> Iterator[type[Histories]]:
    Histories.house, Histories.library, Histories.clock = house, library, clock
    yield Histories


def test_no_history_of_a_console_makes_send_leave_out_what_is_not_listed(
    histories: type[Histories],
) -> None:
    rules = settings(
        max_examples=25,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    run(histories, settings=rules)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_list_without_a_title_or_with_too_many_is_not_known(
    is_full: bool, house: House
) -> None:
    console, calls = Console(), Calls(house.web, house.keys["anna"])
    count = client.MAX_CONSOLE_TITLES + 1 if is_full else 0
    console.parts = {f"{n:016X}": {} for n in range(count)}
    target, server = console, calls
    installed = client.Installed(target, server)  # type: ignore[arg-type]
    with pytest.raises(client.Failed) if is_full else contextlib.nullcontext():
        look(installed)
    assert house.listed("anna", "anna") is None


def test_five_thousand_titles_are_read_in_several_looks_and_told_in_several_calls(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    console, calls = Console(), Calls(house.web, house.keys["anna"])
    count = client.MAX_CONSOLE_TITLES
    titles = [f"0100{number:08X}2000" for number in range(1, count + 1)]
    for title in titles:
        console.parts[title] = {title: 0, f"{title[:-3]}800": 4294901760}
        UPDATES.setdefault(title, f"{title[:-3]}800")
    add_files(house.store, [f"Game [{title}]" for title in titles])
    target: Any = console
    server: Any = calls
    installed = client.Installed(target, server)
    begins, now = time.monotonic(), [time.monotonic()]

    def tick() -> float:
        now[0] += 0.02  # that the console takes for a list
        return now[0]

    monkeypatch.setattr(client.time, "monotonic", tick)
    looks = 1
    while not look(installed):
        assert console.ends <= now[0] + client.LOOK_SECONDS
        assert house.listed("anna", "anna") is None
        looks += 1
    monkeypatch.undo()
    assert 1 < looks <= math.ceil((now[0] - begins) / 40)
    parts, _ = house.listed("anna", "anna")
    assert len(parts) == 2 * count
    assert console.lists == count + 1
    assert look(installed)
    assert console.lists == count + 2


@pytest.mark.parametrize("known", [None, ["0100FFFFFFFF0000"]])
def test_a_server_that_answers_in_another_way_ends_no_client(
    house: House, known: Any
) -> None:
    console, server = Console(), Mock()
    console.parts = {TITLES[0]: {TITLES[0]: 0}}
    server.call.return_value = {"success": True, "known": known}
    assert look(client.Installed(console, server))  # type: ignore[arg-type]
    assert console.lists == 1


def test_a_list_that_was_told_in_part_does_not_count(house: House) -> None:
    calls = Calls(house.web, house.keys["anna"])
    part: Any = {"parts": [f"{TITLES[0]} 0"], "is_last": False}
    calls.call("POST", "/api/on-console", part)
    assert house.listed("anna", "anna") is None
    rest: Any = {"parts": [f"{TITLES[1]} 0"], "goes_on": True}
    calls.call("POST", "/api/on-console", rest)
    assert {*house.listed("anna", "anna")[0]} == {*TITLES[:2]}


def test_a_console_is_asked_of_titles_that_its_account_sees(house: House) -> None:
    house.store.entries.set_ages([TITLES[0]], 7)
    for who, known in (("anna", [*TITLES[:2]]), ("kid", [TITLES[0]])):
        calls = Calls(house.web, house.keys[who])
        asked: Any = {"titles": [*TITLES]}
        assert calls.call("POST", "/api/on-console", asked)["known"] == known


def test_send_goes_by_a_list_that_the_account_is_told(house: House) -> None:
    """To a shared device that is not its own a child sends what it likes: that it is
    there is not for it to know."""
    house.store.entries.set_ages([*TITLES[:2]], 7)
    ids = [*house.ids().values()]
    for who in house.accounts:
        calls = Calls(house.web, house.keys[who])
        calls.call("POST", "/api/on-console", {"parts": [f"{t} 0" for t in TITLES]})
    for who, device, status in (
        ("anna", "anna", 409),
        ("anna", "kid", 409),
        ("kid", "kid", 409),
        ("kid", "anna", 200),
    ):
        body: Any = {"entries": ids, "device": house.devices[device]}
        house.page(who).post_json("/web/send", body, status=status)
    body = {"entries": [*ids, "none"], "device": house.devices["anna"]}
    done = house.page("anna").post_json("/web/send", body).json
    assert not done["added"]
    assert [failure["entry_id"] for failure in done["failed"]] == ["none"]


def test_a_client_looks_again_after_it_has_sent(
    home: Home, card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = home.queue(f"Game [{TITLES[0]}][v0].nsp")
    with contextlib.closing(Ftpsrv(card)) as console:
        sender = home.sender(f"ftp://127.0.0.1:{console.server_address[1]}/")
        watch = sender.watch
        assert watch.installed
        watch.installed.due = math.inf
        monkeypatch.setattr(sender.pace, "wait", refuse)  # ends the client
        with pytest.raises(PermissionError):
            sender.run(once=False)
    [sent] = home.store.queue.items(home.anna)
    assert (sent["id"], sent["status"]) == (item, "completed")
    assert watch.installed.due < math.inf


def test_what_is_on_the_console_is_read_while_it_is_idle_and_ready(
    house: House, tmp_path: pathlib.Path
) -> None:
    console, calls = Console(), Calls(house.web, house.keys["anna"])
    console.parts = {TITLES[0]: {TITLES[0]: 0}}
    lines: list[str] = []
    target: Any = console
    server: Any = calls
    screen, pace = client.Screen(), client.Pace()
    watch = client.Watch(
        target, client.State(str(tmp_path), "a", "b"), screen, pace, None
    )
    watch.screen.say = lines.append  # type: ignore[method-assign]
    watch.installed = client.Installed(target, server)
    watch.read_console()
    assert not console.lists  # it is not known to be ready
    for is_on in (False, True):
        console.is_on = is_on
        watch.readiness, watch.installed.due = client.Problem(client.READY), 0.0
        watch.read_console()
    [line] = lines
    assert line.startswith("What is on the console is not known: console does not")
    assert house.listed("anna", "anna")[0] == {TITLES[0]: 0}
    watch.installed.read = lambda progress: False  # type: ignore[method-assign]
    watch.installed.due = 0.0
    watch.read_console()
    assert watch.installed.due <= time.monotonic()  # it goes on at the next time
    watch.installed.due = math.inf
    before = console.lists
    watch.read_console()  # which is not due
    assert console.lists == before


def test_what_a_console_has_listed_is_told_and_left_out(
    anna: Any, library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    """Also what was never sent from here; and what is gone from there is sent again."""
    base, update = "0100AAAABBBB0000", "0100AAAABBBB0800"
    library.add(f"Chess [{base}][v0].nsp", b"game")
    library.add(f"Chess [{update}][v131072].nsp", b"update")
    scanner.scan()
    device = add_device(scanner.store, "Attic")
    ids = [row["id"] for row in by_age(scanner.store)]
    account = scanner.store.accounts.id_of("anna")
    for entry in ids:
        scanner.store.queue.send(account, entry, device)
        item = scanner.store.queue.items(account)[-1]["id"]
        for status in ("processing", "completed"):
            scanner.store.clients.report(
                account, item, {"status": status, "key": device}
            )
    with scanner.store.database.writing() as db:
        db.execute("UPDATE sent SET sent_at = '2026-02-01T00:00:00'")
        db.execute("UPDATE queue SET ended_at = '2026-02-01T00:00:00'")
    anna.goto(f"#title/{base}")
    dialog = anna.get_by_role("dialog")
    see(dialog, "Send again")
    scanner.store.clients.take_list(device, {base: (base, 0), update: (base, 65536)})
    see(dialog, "Attic · update there: 1, here: 2 · on the console, read")
    until(lambda: anna.locator(".part-choice input:checked").count() == 1)
    clock.now += 60
    scanner.store.clients.take_list(device, {update: (base, 131072)})
    see(dialog, "Attic · on the console, read")
    checked = anna.locator(".part-choice:has(input:checked) .part-name")
    until(lambda: checked.all_text_contents() == ["Game"])


def test_what_a_console_has_listed_is_sent_anyway_where_somebody_wants_that(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    base, update = TITLES[0], UPDATES[TITLES[0]]
    library.add(f"Chess [{base}][v0].nsp", b"game")
    library.add(f"Chess [{update}][v131072].nsp", b"update")
    scanner.scan()
    device, account = add_device(store, "Attic"), store.accounts.id_of("anna")
    parts = {base: (base, 0), update: (base, 131072)}
    store.clients.take_list(device, parts)
    anna.goto(f"#title/{base}")
    dialog = anna.get_by_role("dialog")
    button(dialog, "Send again").click()
    see(anna.get_by_role("dialog"), "All of it is on Attic.")
    button(anna, "Cancel").click()
    assert not store.clients.pending(account, key=device)
    button(dialog, "Send again").click()
    button(anna, "Send anyway").click()
    until(lambda: len(store.clients.pending(account, key=device)) == 2)


def test_what_somebody_ticks_is_sent_although_the_console_has_it(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    base, update = TITLES[0], UPDATES[TITLES[0]]
    library.add(f"Chess [{base}][v0].nsp", b"PK\3\4 game")
    library.add(f"Chess [{update}][v131072].nsp", b"update")
    scanner.scan()
    device, account = add_device(store, "Attic"), store.accounts.id_of("anna")
    store.clients.take_list(device, {base: (base, 0)})
    anna.goto(f"#title/{base}")
    anna.locator(".part-choice input:not(:checked)").check()
    button(anna.get_by_role("dialog"), "Send").click()
    question = anna.locator(".question")
    see(question, "is no package, but a ZIP archive. Send it all the same?")
    button(question, "Send").click()
    until(lambda: len(store.clients.pending(account, key=device)) == 2)


def test_nothing_is_sent_for_an_update_that_is_away(
    anna: Any, library: Library, scanner: catalogd.Scanner, clock: Clock
) -> None:
    store = scanner.store
    base, update = TITLES[0], UPDATES[TITLES[0]]
    library.add(f"Chess [{base}][v0].nsp")
    library.add(f"Chess [{update}][v65536].nsp")
    library.add(f"Chess [{update}][v131072].nsp")
    scanner.scan()
    files = store.entries.files()
    away = [file for file in files if "[v131072]" in file.file.path]
    store.entries.apply(catalogd.Changes(offline=away))
    device = add_device(store, "Attic")
    store.clients.take_list(device, {base: (base, 0)})
    anna.goto("")
    all_of_them = button(anna.locator(".shelf", has_text="Updates"), "Send all")
    all_of_them.wait_for()
    clock.now += 60
    store.clients.take_list(device, {base: (base, 0), update: (base, 65536)})
    all_of_them.wait_for(state="detached")
    see(anna.locator(".entries .entry"), "update there: 1, here: 2")


def test_a_child_is_told_no_numbers_of_updates(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    base, update = TITLES[0], UPDATES[TITLES[0]]
    library.add(f"Chess [{base}][v0].nsp")
    library.add(f"Chess [{update}][v131072].nsp")
    scanner.scan()
    store.clients.take_list(add_device(store, "Attic"), {base: (base, 0)})
    anna.goto("")
    card = anna.locator(".entries .entry")
    see(card, "update there: 0, here: 2")
    anna.evaluate("update({account: {...state.account, admin: false, age: 7}})")
    card.get_by_text("update there").wait_for(state="detached")
    height = anna.evaluate("(grid => grid.height - grid.columnWidth)(gridShape(800))")
    assert round(height) == 7 * 16


def test_cards_filters_the_shelf_and_tidy_go_by_the_last_list(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    names = dict(zip(("Chess", "Go", "Reversi"), TITLES, strict=True))
    for name, title in names.items():
        library.add(f"{name} [{title}][v0].nsp")
    chess, update = names["Chess"], UPDATES[names["Chess"]]
    library.add(f"Chess [{update}][v131072].nsp")
    scanner.scan()
    device, account = add_device(store, "Attic"), store.accounts.id_of("anna")
    parts = {chess: (chess, 0), update: (chess, 65536)}
    parts[names["Go"]] = (names["Go"], 0)
    store.clients.take_list(device, parts)
    anna.goto("")
    card = anna.locator(".entries .entry", has_text="Chess")
    see(card, "On Attic")
    see(card, "update there: 1, here: 2")
    button(anna, "Not on Attic").click()
    until(lambda: titles(anna) == ["Reversi"])
    anna.get_by_role("button", name="All", exact=True).click()
    button(anna.locator(".shelf"), "Send all").click()
    until(lambda: len(store.clients.pending(account, key=device)) == 1)
    [item] = store.clients.pending(account, key=device)
    assert "Update" in item["name"]
    anna.goto("#settings/library")
    anna.get_by_text("On none of your consoles").click()
    see(anna.locator(".tidy"), "Reversi")
    assert not anna.locator(".tidy").get_by_text("Go").count()
