"""Whatever becomes of consoles, disks, people and programs, each backup that was on a
card at a whole look is kept, as it was, and is shown to those who may have it.

A state machine walks histories with a real server, its database and real files; real
clients copy, in this process, from stand-ins for the servers of two consoles. Its model
is what is on the cards, which version of each was there at a look, and who may see it.
"""

import contextlib
import dataclasses
import errno
import io
import json
import os
import pathlib
import shutil
import tempfile
import time
import types
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import webtest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from hypothesis.stateful import run_state_machine_as_test as run

import catalogd
import saves
import send_to_switch
from conftest import PASSWORD, Clock, Library, short_and_long
from ftpsrv import Ftpsrv
from test_kept_saves import facts
from test_saves import said

PEOPLE = {"anna": None, "ben": None, "kim": 7}
GAMES = {"star": "0100aaaabbbb0000", "moon": "0100ccccdddd0000"}
MAX_BYTES, MAX_NAMES = 2000, 150
LARGE = bytes(MAX_BYTES + 1)
NO_ROOM = types.SimpleNamespace(free=0)
CLOSING = "426 Closing."
FORMS = [*saves.PROGRAMS.values()]
TROUBLES = (
    *("", "", "", "", "busy", "drop", "off", "refuse", "cut", "wanted", "play"),
    *("kill", "kill", "kill in renaming", "kill in renaming", "kill in telling"),
    *("full", "fails"),
)
DEEDS = (
    *["look"] * 4,
    *["copy"] * 8,
    *["play"] * 4,
    *("delete_backup", "flood", "move_disk", "move_disk", "delete_copies"),
    *("rename", "rename", "share", "give", "readdress", "remove", "remove", "restart"),
    *("set_age", "grow", "lose"),
)
CHOICES = {
    "box": st.sampled_from([0, 0, 1]),
    "trouble": st.sampled_from(TROUBLES),
    "at": st.integers(0, 40),
    "title": st.sampled_from(["Star", "MOON", "Nova", "0x0100CCCCDDDD0000 Moon"]),
    "form": st.sampled_from(FORMS),
    "n": st.sampled_from([1, 2]),
    "kind": st.sampled_from(["", "", "star", "moon", "broken", "large"]),
    "seconds": st.sampled_from([0, 1, 60, 3600]),
    "who": st.sampled_from([*PEOPLE]),
    "game": st.sampled_from([*GAMES]),
    "age": st.sampled_from([3, 7, 12, None]),
    "is_so": st.booleans(),
}


class Killed(BaseException):
    """The client ends here."""


@dataclasses.dataclass
class Save:
    """A backup on a card."""

    content: saves.Backup
    name: str  # of its copy, below the folder of the device
    title: str  # id or name, by which a child may see it
    fault: str = ""  # why it is not copied


class Card:
    """What is on the card of a console, and the server over it."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        self.folder, self.now = folder, dict[str, Save]()
        self.server = Ftpsrv(folder)
        self.server.is_card = True
        self.is_flooded = False
        self.device = ""  # its id, "" while it is removed

    def write(self, path: str, title: str, kind: str, number: int, at: int) -> None:
        content, fault, place = b"save %06d" % number, "", self.folder / path
        more = {}
        if kind == "large":
            content, fault = LARGE, "save_large"
        elif kind in GAMES:
            form = ("jksv", "sphaira")[number % 2]
            more = facts(int(GAMES[kind], 16), form)
        kept = saves.write(self.folder, path, content)
        if isinstance(kept, bytes):
            kept = saves.packed(content, **more)
            if kind == "broken":
                kept, fault = b"no zip %06d" % number, "save_damaged"
            place.write_bytes(kept)
        of = GAMES[kind] if more and isinstance(kept, bytes) else title.lower()
        of = of[2:18] if of.startswith("0x") else of
        self.now[path] = Save(kept, self.copy_name(path, title, at), of, fault)

    def copy_name(self, path: str, title: str, at: int) -> str:
        """What the contract calls the copy of a version."""
        place = self.folder / path
        below = [file for file in place.rglob("*") if file.is_file()]
        files = sorted(below or [place], key=str)
        for file in files:
            os.utime(file, (at, at))
        names = [file.relative_to(self.folder).as_posix() for file in files]
        sizes = [file.stat().st_size for file in files]
        rows = [f"/{name} {size}" for name, size in zip(names, sizes, strict=True)]
        times = len({names[0], names[-1]})
        rows += [time.strftime("%Y%m%d%H%M", time.gmtime(at))] * times
        name = send_to_switch.save_name(path)
        return f"{title}/{send_to_switch.marked(f'{name}.zip', chr(10).join(rows), 12)}"

    def remove(self, path: str) -> None:
        del self.now[path]
        place = self.folder / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    def flood(self) -> None:
        """In the folder that is read last."""
        place = self.folder / "switch/tinfoil/saves"
        place.mkdir(parents=True, exist_ok=True)
        for n in range(MAX_NAMES + 1):
            name = place / f"readme {n}.txt"
            name.unlink() if self.is_flooded else name.write_bytes(b"")
        self.is_flooded = not self.is_flooded

    def in_reach(self) -> dict[str, Save]:
        """What a whole look comes to, by its path."""
        last = "switch/tinfoil" if self.is_flooded else "no path"
        return {path: one for path, one in self.now.items() if last not in path}

    def wanted(self) -> dict[str, saves.Backup]:
        found = self.in_reach().values()
        return {one.name: one.content for one in found if not one.fault}


class Removed:
    """The server, as a client sees it whose device was removed."""

    gone = frozenset[str]()

    def queue(self, *_: Any) -> Any:
        raise send_to_switch.BadKey


class Client:
    """What the server runs for a console."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.pace, self.out = send_to_switch.Pace(is_told=True), io.StringIO()
        wanted = send_to_switch.Settings(to=values["to"])
        self.target: Any = send_to_switch.find_target(wanted)
        self.saves = send_to_switch.Saves(self.target, *values["saves"])
        state = send_to_switch.State(values["state"], "server", "target")
        screen, server = send_to_switch.Screen(self.out), Removed()
        more = (state, screen, self.pace, self.saves)
        self.sender = send_to_switch.Sender(server, self.target, *more)  # type: ignore[arg-type]
        self.sender.watch.installed = None

    def look(self) -> None:
        """As it does where it has nothing to send, long after what was before."""
        self.saves.due = self.target._asks_at = -float("inf")
        with contextlib.closing(self.target):
            with contextlib.suppress(send_to_switch.TargetOffline):
                self.sender.watch.check()
            self.sender.watch.read_console()

    def told(self) -> list[str]:
        lines = self.out.getvalue().split("\n")[:-1]
        self.out.seek(0)
        self.out.truncate()
        if self.pace._told.is_set():
            self.pace.wait(0)
        return lines

    def leave(self) -> None:
        with pytest.raises(send_to_switch.BadKey):
            self.sender.run(once=False)


class Near(catalogd.Console):
    """Has no process."""

    client: Client

    def start(self) -> None:
        self._unsaved = []  # as where a process starts
        self.client = Client(self._consoles.settings_of(self.device))

    def leave(self) -> None:
        self.client.leave()
        self._consoles.forget(self)

    def end(self) -> None:
        self.client.target.close()


def with_choices(deed: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """What may be done in this way."""
    names = getattr(Copies, deed).__annotations__.keys() & CHOICES.keys()
    given = {name: CHOICES[name] for name in sorted(names)}
    return st.tuples(st.just(deed), st.fixed_dictionaries(given))


class Copies(RuleBasedStateMachine):
    new_data: pathlib.Path
    looks = steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.open = contextlib.ExitStack()
        folder = self.open.enter_context(tempfile.TemporaryDirectory())
        self.folder = pathlib.Path(folder).resolve()
        self.top, self.clock = self.folder / "saves", Clock()
        self.top.mkdir()
        shutil.copytree(self.new_data, self.folder / "data")
        self.disk, self.is_mount = "here", False
        self.patch = self.open.enter_context(pytest.MonkeyPatch.context())
        plain = os.path.ismount
        self.patch.setattr(
            os.path, "ismount", lambda at: self.is_mounted(at) or plain(at)
        )
        self.patch.setattr(catalogd, "Console", Near)
        self.patch.setattr(send_to_switch, "MAX_SAVE_BYTES", MAX_BYTES)
        self.patch.setattr(send_to_switch, "MAX_SAVE_NAMES", MAX_NAMES)
        self.count, self.time = 0, 1_700_000_000
        self.begin_model()
        self.begin_household()

    def begin_model(self) -> None:
        self.kept: dict[str, dict[str, saves.Backup]] = {}  # by device and name
        self.parts: dict[str, int] = {}  # of clients that were killed, by device
        self.titles: dict[saves.Backup, str] = {}  # of all that was on a card
        self.stats: dict[tuple[str, str], Any] = {}
        self.owners: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.shared: set[str] = set()
        self.told: dict[str, dict[str, Any]] = {}  # the last look, by device
        self.ages: dict[str, int | None] = dict.fromkeys(GAMES)
        self.here = {*GAMES}
        self.people = dict(PEOPLE)

    def begin_household(self) -> None:
        library = Library(self.folder / "library")
        for game, id in GAMES.items():
            library.add(f"{game.title()} [{id}][v0].nsp")
        self.settings = catalogd.Settings(
            folders=(str(library.folder),), saves=str(self.top), settle=0, keep_free=0
        )
        self.apps: dict[str, webtest.TestApp] = {}
        self.start()
        self.web.scanner.scan()
        password = catalogd.hash_password(PASSWORD)
        self.accounts = {
            name: self.store.accounts.add(name, password, age=age)
            for name, age in PEOPLE.items()
        }
        for name, app in self.apps.items():
            app.post_json("/web/login", {"username": name, "password": PASSWORD})
        self.cards = [Card(self.folder / f"card {n}") for n in range(2)]
        for card, who in zip(self.cards, ("anna", "kim"), strict=True):
            self.open.callback(card.server.close)
            self.add(card, who)

    @initialize(is_mount=st.booleans())
    def begin(self, is_mount: bool) -> None:
        self.is_mount = is_mount
        self.look(0, "", 0)  # so that it is known where the disk is mounted

    def start(self) -> None:
        clock = catalogd.Clock(self.clock, self.clock)
        self.store = catalogd.Store(str(self.folder / "data"), clock=clock)
        scanner = catalogd.Scanner(self.store, self.settings)
        self.web = catalogd.Web(self.store, self.settings, scanner)
        self.consoles: Any = self.web.consoles
        self.consoles.address = "http://127.0.0.1:1"
        self.consoles.update()
        for name in PEOPLE:
            jar = self.apps[name].cookiejar if name in self.apps else None
            extra = {"REMOTE_ADDR": "192.168.1.9"}
            self.apps[name] = webtest.TestApp(self.web.app, extra, cookiejar=jar)

    def is_mounted(self, at: Any) -> bool:
        return self.is_mount and self.disk == "here" and str(at) == str(self.top)

    def place(self) -> pathlib.Path:
        """What is on the disk for copies, wherever it is."""
        return self.top if self.disk == "here" else self.folder / "pulled"

    # What happens

    @rule(deed=st.sampled_from(DEEDS).flatmap(with_choices))
    def do(self, deed: tuple[str, dict[str, Any]]) -> None:
        """One rule for all: hypothesis would leave out some rules in each run."""
        name, given = deed
        type(self).steps += 1
        self.clock.now += 1
        getattr(self, name)(**given)

    def change(self, box: int, **fields: Any) -> bool:
        """Whether there is such a device, that an admin can change."""
        if device := self.cards[box].device:
            self.apps["anna"].post_json(f"/web/devices/{device}", fields)
            self.consoles.update()
        return bool(device)

    # On the card

    def play(
        self, box: int, title: str, form: str, n: int, kind: str, seconds: int
    ) -> None:
        self.count, self.time = self.count + 1, self.time + seconds
        path = form.format(title=title, n=n)
        self.cards[box].write(path, title, kind, self.count, self.time)
        found = self.cards[box].now[path]
        self.titles[found.content] = found.title

    def copy(self, box: int, title: str, n: int, trouble: str, at: int) -> None:
        """What somebody has made just now."""
        self.play(box, title, FORMS[at % len(FORMS)], n, "", 3600)
        self.look(box, trouble, at)

    def delete_backup(self, box: int, at: int) -> None:
        if names := [*self.cards[box].now]:
            self.cards[box].remove(names[at % len(names)])

    def flood(self, box: int) -> None:
        self.cards[box].flood()

    # The disk for copies, and who owns it

    def move_disk(self, is_so: bool, at: int) -> None:
        """It is pulled seldom, and is back soon."""
        if self.disk == "here" and at % 3:
            return
        if self.disk == "here":
            self.top.rename(self.folder / "pulled")
            self.disk = "empty" if self.is_mount and is_so else "away"
            if self.disk == "empty":
                self.top.mkdir()
        else:
            if self.disk == "empty":
                self.top.rmdir()
            (self.folder / "pulled").rename(self.top)
            self.disk = "here"

    def delete_copies(self, at: int) -> None:
        """One of them, all of a title or of a console: that comes back."""
        copies = [(device, name) for device in self.kept for name in self.kept[device]]
        if not copies or self.disk != "here":
            return
        device, name = copies[at % len(copies)]
        place = self.folder_of(device) / name
        gone = [place, place.parent, place.parent.parent][at % 3]
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        left = {
            name for name in self.kept[device] if (place.parents[1] / name).exists()
        }
        for name in self.kept[device].keys() - left:
            del self.kept[device][name], self.stats[device, name]
        if gone is place.parents[1] or not [*place.parents[1].rglob("*.part")]:
            self.parts.pop(device, None)

    def folder_of(self, device: str) -> pathlib.Path:
        [found] = self.place().glob(f"*{device}*")
        return found

    # What people do

    def add(self, card: Card, who: str) -> None:
        self.count += 1
        fields = {"name": f"Box {self.count}", "target": card.server.url}
        card.device = self.store.devices.add(self.accounts[who], fields)
        self.owners[card.device], self.names[card.device] = who, fields["name"]
        self.consoles.update()

    def remove(self, box: int, who: str) -> None:
        """Or add it again."""
        if not (device := self.cards[box].device):
            self.add(self.cards[box], who)
            return
        self.apps["anna"].delete(f"/web/devices/{device}")
        self.consoles.update()
        self.cards[box].device = ""
        self.told.pop(device, None)
        del self.owners[device], self.names[device]
        if self.disk == "here":
            self.parts.pop(device, None)

    def rename(self, box: int) -> None:
        self.count += 1
        name = f"Box {self.count}"
        if self.change(box, name=name):
            self.names[self.cards[box].device] = name

    def share(self, box: int, is_so: bool) -> None:
        if self.change(box, shared=is_so):
            device = {self.cards[box].device}
            self.shared = self.shared | device if is_so else self.shared - device

    def give(self, box: int, who: str) -> None:
        if self.change(box, account=self.accounts[who]):
            self.owners[self.cards[box].device] = who

    def readdress(self, box: int) -> None:
        """Another client copies from now on."""
        self.count += 1
        if self.change(box, user=f"user{self.count}", password="x"):
            self.told.pop(self.cards[box].device, None)

    def set_age(self, game: str, age: int | None) -> None:
        body = {"titles": [self.title_id(game)], "age": age}
        self.apps["anna"].post_json("/web/ages", body)
        self.ages[game] = age

    def title_id(self, game: str) -> str:
        sql = "SELECT title FROM entries WHERE lower(title) = ?"
        return str(self.store.database.value(sql, (GAMES[game],)))

    def grow(self, age: int | None) -> None:
        path = f"/web/accounts/{self.accounts['kim']}"
        self.apps["anna"].post_json(path, {"age": age})
        self.people["kim"] = age

    def lose(self, game: str) -> None:
        """Its file is deleted, or there again."""
        self.here ^= {game}
        state = "here" if game in self.here else "gone"
        sql = "UPDATE entries SET state = ? WHERE title = ?"
        self.store.database.write(sql, (state, self.title_id(game)))

    def restart(self) -> None:
        for console in self.consoles.threads():
            console.end()
        self.store.close()
        self.told.clear()
        self.start()

    # A look

    def look(self, box: int, trouble: str, at: int) -> None:
        card = self.cards[box]
        if not (device := card.device):
            return
        before, wanted = {**self.kept.get(device, {})}, card.wanted()
        console = self.consoles._running[device]
        type(self).looks += 1
        with self.troubled(card, console, trouble, at) as fired:
            try:
                console.client.look()
            except Killed:
                assert "kill" in trouble
        lines = console.client.told()
        told = [json.loads(line[1:]) for line in lines]
        if trouble == "kill in telling":
            lines = lines[: at % (len(lines) + 1)]
        for line in lines:
            console._note_saves(line)
        self.note_told(device, told[: len(lines)])
        self.find_new(device, before, wanted | card.wanted())
        new = len(self.kept[device]) - len(before)
        self.check_look(card, told, new, trouble if fired else "")
        self.note_parts(device, "kill" in trouble, self.disk == "here" and bool(told))
        if "kill" in trouble:
            console.start()

    def note_parts(self, device: str, was_killed: bool, has_looked: bool) -> None:
        """Who is killed leaves one at most; each look removes those before it."""
        parts = len([*self.place().glob(f"*{device}*/*/*.part")])
        assert parts <= self.parts.get(device, 0) + was_killed
        assert parts == 0 or was_killed or not has_looked
        self.parts[device] = parts

    def note_told(self, device: str, told: list[dict[str, Any]]) -> None:
        """What the server is told of a look whose end it is told."""
        if not told or told[-1]["saves"] is None:
            return
        last = self.told.get(device, {"failures": 0})["failures"]
        problems = [said(one["code"], one["arguments"]) for one in told if one["code"]]
        failures = last + 1 if told[-1]["code"] else 0
        self.told[device] = {
            **{"copied": told[-1]["saves"], "failures": failures},
            **{"problems": problems, "is_disk": told[-1]["code"] == "saves_disk"},
        }

    def find_new(
        self, device: str, before: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        found = {}
        if [*self.place().glob(f"*{device}*")]:
            folder = self.folder_of(device)
            paths = [*folder.glob("*/*.zip")]
            found = {path.relative_to(folder).as_posix(): path for path in paths}
        assert before.keys() <= found.keys(), "lost"
        assert found.keys() <= wanted.keys() | before.keys(), "of no version"
        new = {name: wanted[name] for name in found.keys() - before.keys()}
        assert {name: saves.content(found[name]) for name in new} == new
        self.kept[device] = before | new

    def check_look(
        self, card: Card, told: list[dict[str, Any]], new: int, trouble: str
    ) -> None:
        """What it tells is so; and where nothing went wrong, it has all."""
        last = told[-1] if told else {"saves": new, "code": None}
        has_failed = trouble in ("full", "fails")  # perhaps to sync after the last one
        assert last["saves"] == new or has_failed and last["saves"] + 1 == new
        if self.disk != "here" and told:
            assert (new, last["code"]) == (0, "saves_disk")
            assert last["arguments"]["why"]["code"] == "disk_away"
        elif not trouble:
            assert card.wanted().keys() <= self.kept[card.device].keys()
            assert last["code"] == ("saves_many" if card.is_flooded else "")
            faults = [one.fault for one in card.in_reach().values() if one.fault]
            assert len(told) - 1 == min(len(faults), send_to_switch.MAX_SAVE_FAULTS)
            codes = [one["arguments"]["why"]["code"] for one in told[:-1]]
            assert len(codes) < 5 or {*codes} <= {*faults}
            assert len(codes) == 5 or sorted(codes) == sorted(faults)

    # What goes wrong in a look

    @contextlib.contextmanager
    def troubled(
        self, card: Card, console: Near, trouble: str, at: int
    ) -> Iterator[list[str]]:
        """Let this happen in the block: what is yielded is filled where it did."""
        fired: list[str] = []
        server, way = card.server, trouble.replace(" ", "_")
        with pytest.MonkeyPatch.context() as patch:
            if trouble:
                getattr(self, f"have_{way}")(card, console.client, patch, at, fired)
            yield fired
        server.refuses.clear()
        server.cuts_lists.clear()

    def on_command(
        self, server: Ftpsrv, patch: Any, at: int, act: Callable[[], object]
    ) -> None:
        """Let something happen at the console before it does a command."""
        ahead, plain = [None] * at, server.note

        def note(command: str) -> None:
            plain(command)
            if ahead:
                ahead.pop()
            else:
                server.note = plain  # type: ignore[method-assign]
                act()

        patch.setattr(server, "note", note)

    def have_busy(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        card.server.refuses["USER"] = ["530 Not now."]
        f.append("it is not looked at")

    def have_drop(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        def drop() -> None:
            f.append("")
            raise ConnectionAbortedError

        self.on_command(card.server, patch, at, drop)

    def have_off(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        def turn_off() -> None:
            f.append("")
            card.server.refuses["USER"] = ["421 Good bye."] * 99
            raise ConnectionAbortedError

        self.on_command(card.server, patch, at, turn_off)

    def have_refuse(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        command = ("LIST", "RETR", "MDTM", "PASV")[at % 4]
        times = 9 if at % 5 == 0 else 1
        card.server.refuses[command] = [*[""] * (at // 4), *[CLOSING] * times]
        f.append("")

    def have_cut(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        card.server.cuts_lists = [*[False] * (at % 9), True]
        f.append("")

    def have_wanted(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        """Something is to be sent."""

        def tell() -> None:
            f.append("")
            client.pace.tell(1)

        self.on_command(card.server, patch, at, tell)

    def have_play(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        """Somebody makes a backup anew."""

        def play() -> None:
            f.append("")
            box = self.cards.index(card)
            self.play(box, "Star", FORMS[at % len(FORMS)], 1, "", 3600)

        self.on_command(card.server, patch, at, play)

    def have_kill(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        plain = send_to_switch.Connection.putcmd
        die = self.death(patch, f)

        def putcmd(of: Any, line: str) -> None:
            if not ahead:
                die()
            ahead.pop()
            plain(of, line)

        ahead = [None] * at
        patch.setattr(send_to_switch.Connection, "putcmd", putcmd)

    def have_kill_in_renaming(
        self, card: Card, client: Any, patch: Any, at: int, f: Any
    ) -> None:
        """Before it, or after it."""
        plain, ahead = pathlib.Path.rename, [None] * (at // 2 % 3)
        die = self.death(patch, f)

        def rename(path: pathlib.Path, name: Any) -> None:
            if ahead or at % 2:
                plain(path, name)
            if not ahead:
                die()
            ahead.pop()

        patch.setattr(pathlib.Path, "rename", rename)

    def death(self, patch: Any, fired: list[str]) -> Callable[[], None]:
        """Return what kills a client, which then tidies nothing up."""
        plain = pathlib.Path.unlink

        def unlink(path: pathlib.Path, missing_ok: bool = False) -> None:
            if not fired:
                plain(path, missing_ok)

        def die() -> None:
            fired.append("")
            raise Killed

        patch.setattr(pathlib.Path, "unlink", unlink)
        return die

    def have_kill_in_telling(self, *given: Any) -> None:
        """See `look`."""

    def have_full(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        """It has no room for any, or it takes no more when it has some."""
        if at % 2:
            f.append("")
            patch.setattr(shutil, "disk_usage", lambda at: NO_ROOM)
        else:
            self.have_error(patch, at, f, errno.ENOSPC)

    def have_fails(self, card: Card, client: Any, patch: Any, at: int, f: Any) -> None:
        self.have_error(patch, at, f, errno.EIO)

    def have_error(self, patch: Any, at: int, f: Any, number: int) -> None:
        plain, ahead = os.fsync, [None] * (at // 2 % 4)

        def fsync(opened: int) -> None:
            if not ahead:
                f.append("")
                raise OSError(number, os.strerror(number))
            ahead.pop()
            plain(opened)

        patch.setattr(os, "fsync", fsync)

    # What holds

    def check_invariants(self, *given: Any, **more: Any) -> None:
        self.check(int(self.clock.now))
        super().check_invariants(*given, **more)

    def check(self, which: int) -> None:
        self.check_disk()
        self.check_faults()
        for who in PEOPLE:
            self.check_shown(who, which)

    def check_disk(self) -> None:
        """It has the copies, whole and never written again, and nothing else."""
        if self.disk == "empty":
            assert not [*self.top.iterdir()]
        files = [path for path in self.place().rglob("*") if path.is_file()]
        expected = set[pathlib.Path]()
        for device, copies in self.kept.items():
            for name in copies:
                path = self.folder_of(device) / name
                expected.add(path)
                now = path.stat()
                stat = self.stats.setdefault((device, name), now)
                assert (now.st_ino, now.st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
                if stat is now:
                    assert saves.content(path) == copies[name]
        parts = {path for path in files if path.suffix == ".part"}
        assert {*files} - parts == expected
        assert len(parts) == sum(self.parts.values())

    def expected_faults(self) -> dict[str, str]:
        place = str(self.top)
        found = {}
        if self.disk == "away":
            away = send_to_switch.Problem("disk_away")
            found[place] = str(
                send_to_switch.Problem("saves_disk", folder=place, why=away)
            )
        for device in self.consoles._running:
            look = self.told.get(device, {"failures": 0})
            if look["failures"] and look["is_disk"]:
                found[place] = look["problems"][-1]
            elif look["failures"] > 1:
                why = look["problems"][-1]
                found[device] = f"Saves of {self.names[device]} are not copied: {why}"
        return found

    def check_faults(self) -> None:
        state = self.web.health.state()
        rows = [row for row in state["faults"] if row["about"] == "saves"]
        assert {row["id"]: row["message"] for row in rows} == self.expected_faults()
        assert len(state["saves"]) == len(self.told)
        for row in state["saves"]:
            told = self.told[row["id"]]
            assert row["name"] == self.names[row["id"]]
            assert (row["copied"], row["failures"]) == (
                told["copied"],
                told["failures"],
            )
            assert [one["message"] for one in row["problems"]] == told["problems"]

    def may_see(
        self, who: str, device: str, content: saves.Backup | None = None
    ) -> bool:
        age = self.people[who]
        if who == "anna":
            return True
        is_own = self.owners.get(device) == who
        if age is None:
            return is_own or device in self.shared and device in self.owners
        seen = {game for game in self.here if (self.ages[game] or 99) <= age}
        titles = seen | {GAMES[game] for game in seen}
        return is_own and (content is not None and self.titles[content] in titles)

    def check_shown(self, who: str, which: int) -> None:
        app = self.apps[who]
        answer = app.get("/web/saves").json
        assert bool(answer["problem"]) == (self.disk == "away")
        rows = answer["copies"]
        expected = {
            (device, name)
            for device, copies in self.kept.items()
            for name, content in copies.items()
            if self.disk == "here" and self.may_see(who, device, content)
        }
        assert sorted((row["device"], row["path"]) for row in rows) == sorted(expected)
        times = [row["added_at"] for row in rows]
        assert times == sorted(times, reverse=True)
        looks = {device for device in self.told if self.may_see(who, device)}
        assert {row["id"] for row in answer["looks"]} == looks
        for row in rows[which % 5 :: 5]:
            self.check_row(app, row)
        if self.disk == "here":
            self.check_hidden(app, expected, which)

    def check_row(self, app: webtest.TestApp, row: dict[str, Any]) -> None:
        folder = self.folder_of(row["device"])
        title, _, name = row["path"].partition("/")
        console = self.names.get(
            row["device"], folder.name[: -len(" (0123456789abcdef)")]
        )
        told = {
            "console": console,
            "title": title,
            "name": name[: -len("-0123456789ab.zip")],
        }
        assert row == row | told
        path = urllib.parse.quote(row["path"])
        body = app.get(f"/web/saves/{row['device']}/{path}").body
        assert body == (folder / row["path"]).read_bytes()
        assert len(body) == row["size"]

    def check_hidden(
        self, app: webtest.TestApp, seen: set[tuple[str, str]], which: int
    ) -> None:
        every = {(device, name) for device in self.kept for name in self.kept[device]}
        for device, name in sorted(every - seen)[which % 3 :: 9]:
            app.get(f"/web/saves/{device}/{urllib.parse.quote(name)}", status=404)

    def teardown(self) -> None:
        with self.open, contextlib.closing(self.store):
            if self.disk != "here":
                self.move_disk(False, 0)
            for box, card in enumerate(self.cards):
                self.look(box, "", 0)
                if card.device:
                    assert card.wanted().keys() <= self.kept[card.device].keys()
            for which in range(5):
                self.check(which)


@short_and_long(examples=(6, 300), steps=(30, 50))
def test_no_history_loses_a_save_or_shows_it_to_others(
    examples: int, steps: int, new_data: pathlib.Path
) -> None:
    Copies.new_data = new_data
    is_short = steps == 30
    rules = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.generate],
        derandomize=is_short,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    run(Copies, settings=rules)
    print(f"{Copies.looks} looks in {Copies.steps} steps.")
