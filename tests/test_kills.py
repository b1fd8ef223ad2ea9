"""What becomes of calls, of transfers, and of what the server itself sends to consoles,
while the server, its clients and the consoles are killed, or hang."""

import concurrent.futures
import contextlib
import filecmp
import functools
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
import ftpsrv
import send_to_switch
from conftest import Library, free_port, short_and_long, wait_for, wait_until_quiet
from consoles import Installer, Remote
from example import by_age

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = os.path.dirname(catalogd.__file__)
PATIENCE = 60.0  # seconds for what is left when nothing is killed any more
FILES = 12
CALLERS = 100  # at once
MAX_PAUSES = 500  # of a third of a second each, until all has arrived
CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import send_to_switch
send_to_switch.POLL_SECONDS = send_to_switch.CHECK_SECONDS = 0.05
send_to_switch.SERVED_POLL_SECONDS = 0.05
send_to_switch.MAX_ORPHAN_SECONDS = 0.5
sys.exit(send_to_switch.run_by_server())
"""
SERVER = f"""
import sys
import catalogd
catalogd.CLIENT_CODE = {CLIENT!r}
catalogd.RESTART_SECONDS = catalogd.MAX_RESTART_SECONDS = 0.05
sys.exit(catalogd.main())
"""  # both as they are, but for shorter pauses


class FTPProcess:
    """An FTP server of a console, in a process of its own."""

    def __init__(self, folder: pathlib.Path, *stops: str) -> None:
        """:param stops: with how many bytes of a file it stops once."""
        self.folder, self.stops = folder, stops
        folder.mkdir()
        self.port = free_port()
        self.url = f"ftp://127.0.0.1:{self.port}/"
        self.log = folder.with_suffix(".log")
        self.inodes: dict[str, set[int]] = {}
        self.again: set[str] = set()  # none may come twice
        self.start()

    def start(self) -> None:
        command = [sys.executable, ftpsrv.__file__, str(self.folder), str(self.port)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*command, *self.stops], stdout=log)

    def restart(self) -> None:
        self.close()
        self.start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def has_stopped(self) -> bool:
        return state_of(self.process.pid) == "T"

    def commands(self) -> list[str]:
        return self.log.read_text().split()

    def sizes(self) -> dict[str, int]:
        """The bytes of each file, also of unfinished ones."""
        sizes = {}
        for row in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):  # it was renamed just now
                sizes[row.name] = row.stat().st_size
        return sizes

    def watch(self) -> None:
        """Note which files are there now."""
        for row in os.scandir(self.folder):
            if not row.name.endswith(".part"):
                self.inodes.setdefault(row.name, set()).add(row.inode())

    def check(self, contents: dict[str, bytes]) -> None:
        """Assert that each file is there, and came once."""
        found = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        assert found == contents
        self.watch()
        assert {
            name for name, inodes in self.inodes.items() if len(inodes) > 1
        } == set()


class LANThread:
    """An installer of a console. One that is killed loses what it does."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.files: dict[str, list[bytes]] = {}  # as they were fetched whole
        self.again: set[str] = set()  # which may come twice
        self._killed = 0
        self.installer = Installer(self.install, is_patient=True)
        self.url = self.installer.url

    def install(self, console: Installer, address: str) -> None:
        killed = self._killed
        name = urllib.parse.unquote(address.rpartition("/")[2])
        try:
            with console.file(address) as file:
                body = b"".join(self.pieces(file, killed))
        except (OSError, http.client.HTTPException) as error:
            console.reset()
            raise ConnectionAbortedError from error
        self.files.setdefault(name, []).append(body)

    def pieces(self, file: Remote, killed: int) -> Iterator[bytes]:
        """:raises OSError: the console or the server is killed meanwhile."""
        size = int(file.ask("HEAD")[1]["Content-Length"])
        for start in range(0, size, 100_000):
            if killed != self._killed:
                raise ConnectionAbortedError
            stop = min(start + 100_000, size)
            yield file.ask("GET", f"bytes={start}-{stop - 1}")[2]

    def restart(self) -> None:
        self._killed += 1

    def close(self) -> None:
        self.installer.close()

    def watch(self) -> None:
        """It counts by itself."""

    def check(self, contents: dict[str, bytes]) -> None:
        assert {name: bodies[-1] for name, bodies in self.files.items()} == contents
        twice = {name for name, bodies in self.files.items() if len(bodies) > 1}
        assert twice <= self.again


Console = FTPProcess | LANThread


class Serving:
    """A server with files to send, as a process that may be killed."""

    code = SERVER

    def __init__(self, store: catalogd.Store, library: Library) -> None:
        self.store = store
        self.library = library
        self.account = store.accounts.id_of("anna")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = library.folder.with_suffix(".log")

    def add(self, scanner: catalogd.Scanner, count: int) -> None:
        for number in range(count):
            size = random.randrange(500_000, 3_000_000)
            self.library.add(f"{number:04}.nsp", os.urandom(size))
        scanner.scan()
        self.ids = {row["name"]: row["id"] for row in by_age(self.store)}

    def start(self, *more: str) -> None:
        """:param more: arguments of the command."""
        words = ["serve", *more, "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--data-dir", self.store.database.folder, str(self.library.folder)]
        command = [sys.executable, "-c", self.code, *words]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def clients(self) -> list[int]:
        found: list[str] = []
        for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += path.read_text().split()  # unless that thread has ended
        return list(map(int, found))

    def kill(self) -> None:
        """Kill the server, and wait until what it has started has ended."""
        clients = self.clients()
        self.process.kill()
        self.process.wait(PATIENCE)
        wait_for(lambda: not any(map(is_alive, clients)))

    def restart(self) -> None:
        self.kill()
        self.start()

    def device(self, name: str, target: str) -> str:
        fields = {"name": name, "target": target}
        return self.store.devices.add(self.account, fields)

    def send(self, names: list[str], device: str | None = None) -> dict[str, bytes]:
        """Queue files, and return their contents by name."""
        for name in names:
            self.store.queue.send(self.account, self.ids[name], device)
        paths = [self.library.folder / f"{name}.nsp" for name in names]
        return {path.name: path.read_bytes() for path in paths}

    def statuses(self) -> dict[str, str]:
        items = self.store.queue.items(self.account)
        return {f"{item['name']}.nsp": item["status"] for item in items}

    def in_flight(self) -> set[str]:
        statuses = self.statuses().items()
        return {
            name for name, status in statuses if status in ("offered", "processing")
        }

    def has_sent(self, count: int, retries: bool = False) -> bool:
        if retries:
            self.store.queue.retry_failed(self.account)
        return [*self.statuses().values()].count("completed") == count

    def answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=PATIENCE) as answer:
            return bool(json.load(answer)["success"])


def state_of(process: int) -> str:
    """Return the letter that Linux has for the state of a process, "" if it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]
    return ""


def is_alive(process: int) -> bool:
    """A zombie waits for its parent alone."""
    return state_of(process) not in ("", "Z")


@pytest.fixture
def serving(library: Library, scanner: catalogd.Scanner, key: str) -> Iterator[Serving]:
    serving = Serving(scanner.store, library)
    yield serving
    serving.kill()


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("kind", [FTPProcess, LANThread])
@short_and_long(rounds=(1, 20), kills=(3, 20))
def test_each_file_arrives_once_and_whole_whatever_is_killed(
    serving: Serving,
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    kind: Any,
    rounds: int,
    kills: int,
) -> None:
    """But for the files that an installer was fetching: it fetches them again."""
    serving.add(scanner, rounds * FILES)
    names, contents = sorted(serving.ids), {}
    with contextlib.closing(kind(tmp_path / "console")) as console:
        device = serving.device("Attic", console.url)
        serving.start()
        for number in range(rounds):
            batch = names[number * FILES : (number + 1) * FILES]
            contents |= serving.send(batch, device)
            for _ in range(kills):
                time.sleep(random.uniform(0.1, 1.0))
                console.watch()
                console.again |= serving.in_flight()
                if random.random() < 0.5:
                    console.restart()
                    continue
                serving.kill()
                console.again |= serving.in_flight()  # of now, not of a moment ago
                serving.start()
            fails = kind is LANThread  # what a console had begun: somebody retries it
            sent = functools.partial(serving.has_sent, len(contents), fails)
            wait_for(sent, PATIENCE)
        console.check(contents)


@pytest.mark.ci
@pytest.mark.slow
def test_a_console_that_hangs_holds_up_nothing_and_goes_on_at_its_byte(
    serving: Serving, scanner: catalogd.Scanner, tmp_path: pathlib.Path
) -> None:
    """Neither another console, nor an answer, nor a stop, nor a kill: all of it is done
    before it goes on."""
    serving.add(scanner, 2)
    with (
        contextlib.closing(FTPProcess(tmp_path / "attic", "1000000")) as hung,
        contextlib.closing(FTPProcess(tmp_path / "cellar")) as well,
    ):
        serving.library.add("0000.nsp", os.urandom(1_000_000) * 100)
        scanner.scan()
        first = serving.device("Attic", hung.url)
        second = serving.device("Cellar", well.url)
        serving.start()
        contents = serving.send(["0000"], first)
        wait_for(hung.has_stopped)
        size = hung.sizes()["0000.nsp.part"]
        serving.send(["0001"], second)
        wait_for(lambda: well.sizes().get("0001.nsp"))
        assert serving.answers()
        serving.restart()  # by SIGKILL: the client that hangs ends as well
        wait_for(lambda: len(serving.clients()) == 2)
        clients = serving.clients()
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(PATIENCE) == 0
        assert not any(map(is_alive, clients))
        hung.send_signal(signal.SIGCONT)
        serving.start()
        wait_for(lambda: serving.has_sent(2), PATIENCE)
        hung.watch()
        hung.check(contents)
        assert size < len(contents["0000.nsp"])
        assert hung.commands().count("STOR") == hung.commands().count("APPE") == 1


# A client of somebody's own, and calls


class OwnClient:
    """A client on another computer, which sends to a card."""

    def __init__(self, url: str, folder: pathlib.Path, key: str) -> None:
        self.card, self.log = folder / "card", folder / "client.log"
        self.card.mkdir()
        (folder / "key").write_text(key)
        words = ["--once", "--server", url, "--key-file", str(folder / "key")]
        words += ["--to", f"folder:{self.card}", "--state", str(folder / "state")]
        self.command = [sys.executable, send_to_switch.__file__, *words]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.DEVNULL
            )

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def arrived(self) -> dict[str, int]:
        """The inode of each file on the card that has its name."""
        rows = [row for row in os.scandir(self.card) if not row.name.endswith(".part")]
        return {row.name: row.inode() for row in rows}

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)


@pytest.mark.ci
@pytest.mark.slow
@short_and_long(count=(30, 1000), kills=(10, 300))
def test_each_file_arrives_on_a_card_once_and_whole_whatever_is_killed(
    serving: Serving,
    scanner: catalogd.Scanner,
    tmp_path: pathlib.Path,
    key: str,
    count: int,
    kills: int,
) -> None:
    """:param kills: of the client, and now and then of the server."""
    serving.add(scanner, count)
    for name in sorted(serving.ids):
        serving.send([name])
    serving.start()
    seen: dict[str, int] = {}
    pauses = 0
    with contextlib.closing(OwnClient(serving.url, tmp_path, key)) as client:
        while kills or len(seen) < count or not client.has_ended():
            pauses += 1
            assert pauses < MAX_PAUSES + 5 * count, f"{len(seen)} of {count} arrived"
            if client.has_ended():
                client.start()
            time.sleep(random.uniform(0.15, 0.5))
            if kills:
                kills -= 1
                client.close()
                if random.random() < 0.3:
                    serving.restart()
            for name, inode in client.arrived().items():
                assert seen.setdefault(name, inode) == inode, f"{name} came twice"
    names = sorted(os.listdir(serving.library.folder))
    assert sorted(os.listdir(client.card)) == names  # and no unfinished ones
    for name in names:
        path = client.card / name
        assert filecmp.cmp(path, serving.library.folder / name, shallow=False)
    said = client.log.read_text().splitlines()
    done = [line.partition(":")[0] for line in said if ": sent, " in line]
    assert len(done) == len({*done})
    assert {*serving.statuses().values()} == {"completed"}


@pytest.mark.slow
@short_and_long(polls=(30, 6000))
def test_a_service_that_only_answers_polls_writes_nothing(
    serving: Serving, scanner: catalogd.Scanner, key: str, polls: int
) -> None:
    """An SD card lives longer without."""

    def call(path: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"{serving.url}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return dict(json.load(answer))

    def written() -> int:
        counters = pathlib.Path(f"/proc/{serving.process.pid}/io").read_text()
        return int(re.findall(r"write_bytes: (\d+)", counters)[0])

    serving.add(scanner, 20)
    for name in serving.ids:
        serving.send([name])
    serving.start()
    wait_for(lambda: catalogd.answers(f"{serving.url}/", 1))
    wait_for(lambda: call("/api/status")["scan"]["finished"])
    call("/api/send-queue")  # the first makes the key a device's
    wait_until_quiet(written)
    before = written()
    for _ in range(polls):
        call("/api/send-queue")
        time.sleep(0.1)
    assert written() == before


def test_a_killed_server_has_lost_nothing_that_it_acknowledged(
    serving: Serving, scanner: catalogd.Scanner, key: str
) -> None:
    def send(entry: str) -> None:
        """:raises OSError: the server was killed."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        body = json.dumps({"entry_id": entry}).encode()
        url = f"{serving.url}/api/send-to-switch"
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert json.load(answer)["success"]

    def send_until_it_dies() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            for entry in waiting:
                send(entry)
                acknowledged.append(entry)
                if len(acknowledged) >= CALLERS:  # two may come at once
                    serving.process.send_signal(signal.SIGKILL)

    for number in range(20 * CALLERS):  # more than it lives to queue
        serving.library.add(f"{number}.nsp")
    serving.add(scanner, 0)
    entries = [*serving.ids.values()]
    waiting, acknowledged = iter(entries), list[str]()
    serving.start()
    wait_for(lambda: catalogd.answers(f"{serving.url}/", 1))
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(send_until_it_dies) for _ in range(CALLERS)]
    assert [call.result() for call in calls] == [None] * CALLERS
    assert serving.process.wait(PATIENCE) == -signal.SIGKILL
    assert CALLERS <= len(acknowledged) < len(entries)  # it died in the midst of them

    items = serving.store.queue.items(serving.account)
    assert {item["entry"] for item in items}.issuperset(acknowledged)
    with serving.store.database.reading() as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert serving.store.queue.send(serving.account, entries[-1])
