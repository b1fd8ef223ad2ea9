"""What a console lists of its titles, told by its client and kept by the server."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import webtest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.stateful import run_state_machine_as_test as run

import catalogd
import send_to_switch as client
from browser import add_device, see, until
from conftest import PASSWORD, Clock, Library
from example import by_age
from ftpsrv import Ftpsrv

TITLES = ("0100AAAABBBB0000", "0100CCCCDDDD0000", "0100EEEEFFFF0000")
UPDATES = {title: f"{title[:-3]}800" for title in TITLES}


class Console:
    """Stands for the target: what Sphaira lists of its titles, by id and version."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, int]] = {}
        self.has_folder = self.is_on = True
        self.lists = 0

    def connect(self) -> None:
        if not self.is_on:
            raise client.TargetOffline("ftp_silent", address="console")

    def close(self) -> None:
        pass

    def list(self, folder: str, progress: Any) -> list[client.Listed]:
        self.lists += 1
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

    def listed(self, who: str, device: str) -> Any:
        """What the account is told of a console: its parts, and when it was read."""
        for row in self.store.queue.sent(self.accounts[who]):
            if row.get("is_listed") and row["device"] == self.devices[device]:
                return dict(row["contents"]), row["sent_at"]
        return None


def look(installed: client.Installed) -> None:
    installed.look(client.Progress(client.Screen()))


@pytest.fixture
def house(
    store: catalogd.Store,
    library: Library,
    settings: catalogd.Settings,
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
        for id, more in ((title, ""), (UPDATES[title], "1.2.0")):
            name = f"A game [{more}][{id}][v{65536 * bool(more)}][BASE].nsp"
            (folder / name).write_bytes(b"")
    with contextlib.closing(Ftpsrv(card)) as console:
        to = client.Settings(to=f"ftp://127.0.0.1:{console.server_address[1]}/")
        calls: Any = Calls(house.web, house.keys["anna"])
        look(client.Installed(client.FTP(to), calls))
    parts, _ = house.listed("anna", "anna")
    assert parts == {TITLES[1]: 0, UPDATES[TITLES[1]]: 65536}


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


class Histories(RuleBasedStateMachine):
    """Titles come, go and change on the console, in the library, and by sending."""

    house: House
    new_title: Any
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.console = Console()
        calls: Any = Calls(self.house.web, self.house.keys["anna"])
        target: Any = self.console
        self.installed = client.Installed(target, calls)
        self.told = self.house.listed("anna", "anna")  # of an earlier history
        self.names: list[str] | None = None  # of titles, when it was read

    @rule(title=st.sampled_from(TITLES), number=st.sampled_from([0, 65536, 131072]))
    def install(self, title: str, number: int) -> None:
        id = UPDATES[title] if number else title
        self.console.parts.setdefault(title, {})[id] = number

    @rule(title=st.sampled_from(TITLES))
    def delete(self, title: str) -> None:
        self.console.parts.pop(title, None)

    @rule(title=st.sampled_from(TITLES))
    def archive(self, title: str) -> None:
        """Its folder stays, without a part; as with one on a cartridge."""
        self.console.parts[title] = {}

    @rule(has_folder=st.booleans(), is_on=st.sampled_from([True, True, False]))
    def use_program(self, has_folder: bool, is_on: bool) -> None:
        self.console.has_folder, self.console.is_on = has_folder, is_on

    @rule(wakes=st.booleans())
    def look(self, wakes: bool) -> None:
        self.clock.now += 60
        if wakes:
            self.installed.forget()
            self.names = None
        names, parts = [*self.console.parts], self.console.parts
        is_read = self.console.is_on and self.console.has_folder and names
        with contextlib.suppress(client.TargetOffline):
            look(self.installed)
        if is_read and names != self.names:
            held = [parts[title] for title in names if title in TITLES[:2]]
            known = {id: number for row in held for id, number in row.items()}
            self.told, self.names = (known, catalogd.stamp(self.clock.now)), names
        assert self.house.listed("anna", "anna") == self.told


@pytest.fixture
def histories(house: House, clock: Clock) -> Iterator[type[Histories]]:
    Histories.house, Histories.clock = house, clock
    yield Histories


def test_no_history_of_a_console_makes_its_list_another_one(
    histories: type[Histories],
) -> None:
    rules = settings(
        max_examples=30,
        stateful_step_count=30,
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
    watch.read_installed()
    assert not console.lists  # it is not known to be ready
    for is_on in (False, True):
        console.is_on = is_on
        watch.readiness, watch._installed_due = client.Problem(client.READY), 0.0
        watch.read_installed()
    [line] = lines
    assert line.startswith("What is on the console is not known: console does not")
    assert house.listed("anna", "anna")[0] == {TITLES[0]: 0}
    before = console.lists
    watch.read_installed()  # which is not due
    assert console.lists == before


def test_what_a_console_has_listed_is_told_and_left_out(
    anna: Any,
    store: catalogd.Store,
    library: Library,
    scanner: catalogd.Scanner,
    clock: Clock,
) -> None:
    """Also what was never sent from here; and what is gone from there is sent again."""
    base, update = "0100AAAABBBB0000", "0100AAAABBBB0800"
    library.add(f"Chess [{base}][v0].nsp", b"game")
    library.add(f"Chess [{update}][v131072].nsp", b"update")
    scanner.scan()
    device = add_device(store, "Attic")
    ids = [row["id"] for row in by_age(store)]
    account = store.accounts.id_of("anna")
    for entry in ids:
        store.queue.send(account, entry, device)
        item = store.queue.items(account)[-1]["id"]
        for status in ("processing", "completed"):
            store.clients.report(account, item, {"status": status, "key": device})
    with store.database.writing() as db:
        db.execute("UPDATE sent SET sent_at = '2026-02-01T00:00:00'")
        db.execute("UPDATE queue SET ended_at = '2026-02-01T00:00:00'")
    anna.goto(f"#title/{base}")
    dialog = anna.get_by_role("dialog")
    see(dialog, "Send again")
    store.clients.take_list(device, {base: (base, 0), update: (base, 65536)})
    see(dialog, "Attic · update there: 1, here: 2 · on the console, read")
    until(lambda: anna.locator(".part-choice input:checked").count() == 1)
    clock.now += 60
    store.clients.take_list(device, {update: (base, 131072)})
    see(dialog, "Attic · on the console, read")
    checked = anna.locator(".part-choice:has(input:checked) .part-name")
    until(lambda: checked.all_text_contents() == ["Game"])
