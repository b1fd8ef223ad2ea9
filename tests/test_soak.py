"""Transfers, while client and server are killed at random moments."""

import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

import catalogd
from conftest import Library, free_port, short_and_long, wait_for, wait_until_quiet
from example import by_age, session

ROOT = pathlib.Path(catalogd.__file__).parent
MAX_PAUSES = 500  # of a third of a second each, until all has arrived


class Soak:
    """A server and a client, as processes that may be killed."""

    def __init__(
        self, folder: pathlib.Path, library: Library, key: str, cookie: str
    ) -> None:
        self.cookie = cookie
        self.folder = folder
        self.card = folder / "card"
        self.card.mkdir()
        self.library = library
        (folder / "key").write_text(key)
        self.port = free_port()
        self.log = folder / "log"
        self.client: subprocess.Popen[bytes] | None = None
        self.server: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        words = ["--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--data-dir", str(self.folder / "data")]
        command = [sys.executable, str(ROOT / "catalogd.py"), "serve", *words]
        self.server = subprocess.Popen(
            [*command, str(self.library.folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start_client(self) -> None:
        words = ["--once", "--server", f"http://127.0.0.1:{self.port}"]
        words += ["--key-file", str(self.folder / "key"), "--to", f"folder:{self.card}"]
        words += ["--state", str(self.folder / "state")]
        command = [sys.executable, str(ROOT / "send_to_switch.py"), *words]
        with open(self.log, "a") as log:
            self.client = subprocess.Popen(
                command, stdout=log, stderr=subprocess.DEVNULL
            )

    def has_scanned(self) -> bool:
        """Return whether the server has finished its first scan."""
        address = f"http://127.0.0.1:{self.port}/web/scan"
        call = urllib.request.Request(
            address, headers={"Cookie": f"session={self.cookie}"}
        )
        try:
            with urllib.request.urlopen(call) as answer:
                return bool(json.load(answer)["finished"])
        except urllib.error.URLError:  # it does not listen yet
            return False

    def client_ended(self) -> bool:
        return self.client is None or self.client.poll() is not None

    def kill(self, process: "subprocess.Popen[bytes] | None") -> None:
        if process:
            process.kill()
            process.wait(timeout=30)

    def close(self) -> None:
        self.kill(self.client)
        self.kill(self.server)

    def arrived(self) -> dict[str, int]:
        """The inode of each file on the card that has its name."""
        rows = [row for row in os.scandir(self.card) if not row.name.endswith(".part")]
        return {row.name: row.inode() for row in rows}


@pytest.fixture
def soak(
    tmp_path: pathlib.Path,
    library: Library,
    store: catalogd.Store,
    scanner: catalogd.Scanner,
    key: str,
    count: int,
) -> Iterator[Soak]:
    for number in range(count):
        library.add(f"{number:03}.nsp", os.urandom(1_500_000))
    scanner.scan()
    for row in by_age(store):
        store.queue.send(store.accounts.id_of("anna"), row["id"])
    cookie = session(store, store.accounts.id_of("anna"))
    store.close()
    with contextlib.closing(Soak(tmp_path, library, key, cookie)) as soak:
        yield soak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts what is written")
@short_and_long(count=(20, 20), polls=(30, 6000))
def test_a_service_that_only_answers_polls_writes_nothing(
    soak: Soak, count: int, polls: int
) -> None:
    """An SD card lives longer without."""
    soak.start_server()
    assert soak.server
    headers = {"Authorization": f"Bearer {(soak.folder / 'key').read_text()}"}
    address = f"http://127.0.0.1:{soak.port}/api/send-queue"
    poll = urllib.request.Request(address, headers=headers)
    counters = pathlib.Path(f"/proc/{soak.server.pid}/io")

    def written() -> int:
        return int(re.findall(r"write_bytes: (\d+)", counters.read_text())[0])

    wait_for(soak.has_scanned)
    urllib.request.urlopen(poll).close()  # the first makes the key a device's
    wait_until_quiet(written)
    before = written()
    for _ in range(polls):
        urllib.request.urlopen(poll).close()
        time.sleep(0.1)
    assert written() == before


@pytest.mark.ci
@pytest.mark.slow
@short_and_long(count=(30, 1000), kills=(10, 300))
def test_each_file_arrives_once_and_whole_whatever_is_killed(
    soak: Soak, count: int, kills: int
) -> None:
    """:param kills: of the client, and now and then of the server."""
    dice = random.Random()
    seen: dict[str, int] = {}
    pauses = 0
    soak.start_server()
    while kills or len(seen) < count or not soak.client_ended():
        pauses += 1
        assert pauses < MAX_PAUSES + 5 * count, f"{len(seen)} of {count} arrived"
        if soak.client_ended():
            soak.start_client()
        time.sleep(dice.uniform(0.15, 0.5))
        if kills:
            kills -= 1
            soak.kill(soak.client)
            if dice.random() < 0.3:
                soak.kill(soak.server)
                soak.start_server()
        for name, inode in soak.arrived().items():
            assert seen.setdefault(name, inode) == inode, f"{name} came twice"
    check(soak)


def check(soak: Soak) -> None:
    names = sorted(os.listdir(soak.library.folder))
    assert sorted(os.listdir(soak.card)) == names  # and no unfinished ones
    for name in names:
        sent = (soak.library.folder / name).read_bytes()
        assert (soak.card / name).read_bytes() == sent
    said = soak.log.read_text().splitlines()
    done = [line.partition(":")[0] for line in said if ": sent, " in line]
    assert len(done) == len(set(done))
    with contextlib.closing(catalogd.Store(str(soak.folder / "data"))) as store:
        items = store.queue.items(store.accounts.id_of("anna"))
    assert {item["status"] for item in items} == {"completed"}
