"""litestream.yml, with other folders: the real Litestream beside a real service."""

import concurrent.futures
import http.client
import itertools
import json
import pathlib
import random
import re
import subprocess
import time
import urllib.request
from typing import Any, NamedTuple

import pytest

from conftest import TOP, Service, call, need, run, wait_for

PASSWORD = "correct horse"
CALLERS = 4  # at once
MAX_LOSS_SECONDS = 2
DATABASE = "/var/lib/catalogd/catalogd.db"
LINE = re.compile(rf"    sudo -u catalogd (litestream .*{DATABASE}) && .*")


class Write(NamedTuple):
    """What a client was told to be stored, and when (monotonic seconds)."""

    kind: str
    name: str
    time: float


class Caller:
    """A browser of anna's that adds links, queues them, and creates keys."""

    def __init__(self, service: Service) -> None:
        self.service = service
        body = {"username": "anna", "password": PASSWORD}
        signed_in = call(f"{service.url}/web/login", "", body)
        self.cookie = signed_in.headers["Set-Cookie"].partition(";")[0]

    def post(self, path: str, fields: dict[str, Any]) -> Any:
        url, headers = f"{self.service.url}{path}", {"Cookie": self.cookie}
        headers["Content-Type"] = "application/json"
        post = urllib.request.Request(url, json.dumps(fields).encode(), headers)
        with urllib.request.urlopen(post, timeout=30) as answer:
            return json.load(answer)

    def write_until_it_is_killed(self) -> list[Write]:
        """Return what was acknowledged."""
        done: list[Write] = []
        link = {"url": "https://example.org/", "name": "A link", "size": 1}
        try:
            while True:
                entry = self.post("/web/links", link)["id"]
                done.append(Write("id", entry, time.monotonic()))
                self.post("/api/send-to-switch", {"entry_id": entry})
                done.append(Write("item", entry, time.monotonic()))
                key = self.post("/web/keys", {"label": "a key"})["id"]
                done.append(Write("key", key, time.monotonic()))
        except (OSError, http.client.HTTPException):
            return done


class Litestream:
    """Litestream, with the example for a service's database and a replica."""

    def __init__(self, service: Service, replica: pathlib.Path) -> None:
        self.database = service.folder / "data/catalogd.db"
        self.config = service.folder / "litestream.yml"
        self.log = service.folder / "litestream.log"
        text = (TOP / "packaging/litestream.yml").read_text()
        for old, new in ((DATABASE, self.database), ("/mnt/nas/catalogd", replica)):
            assert text.count(old) == 1
            text = text.replace(old, str(new))
        self.config.write_text(text)

    def start(self) -> "subprocess.Popen[bytes]":
        command = ["litestream", "replicate", "-config", self.config]
        with open(self.log, "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def restore(self) -> None:
        """Run the line of scaling.md."""
        text = (TOP / "packaging/scaling.md").read_text()
        [line] = LINE.findall(text)
        line = line.replace(" restore ", f" restore -config {self.config} ")
        run(*line.replace(DATABASE, str(self.database)).split())


def kill_both(service: Service, replica: pathlib.Path) -> list[Write]:
    """Write for some seconds beside Litestream, and kill both in the midst of it.
    Return what was acknowledged, with its age at that time in the place of the time."""
    callers = [Caller(service) for _ in range(CALLERS)]
    litestream = Litestream(service, replica).start()
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        try:
            wait_for(lambda: [*replica.rglob("*.ltx")])
            calls = [pool.submit(one.write_until_it_is_killed) for one in callers]
            time.sleep(MAX_LOSS_SECONDS + random.uniform(1, 2))
        finally:
            service.process.kill()
            litestream.kill()
        killed = time.monotonic()
        done = itertools.chain(*(each.result() for each in calls))
    litestream.wait(60)
    return [write._replace(time=killed - write.time) for write in done]


def missing(service: Service, key: str, writes: list[Write]) -> list[Write]:
    """Return the writes that the service does not know."""
    items = json.loads(call(f"{service.url}/api/send-queue", key).body)["queue"]
    rows = json.loads(call(f"{service.url}/api/list", key).body)["entries"]
    found = {("item", item["entry_id"]) for item in items}
    found |= {("id", row["id"]) for row in rows}
    keys = run(*service.words("key", "list", "anna")).splitlines()
    found |= {("key", line.split()[0]) for line in keys}
    return [write for write in writes if (write.kind, write.name) not in found]


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_standby_has_what_was_acknowledged_two_seconds_before_a_crash(
    tmp_path: pathlib.Path, kills: int
) -> None:
    """Each standby takes the place of the machine that died, and dies then itself."""
    need("litestream")
    replica = tmp_path / "replica"
    machine = new_machine(tmp_path / "0")
    with machine:
        key = machine.add_account(PASSWORD)
    for number in range(kills):
        with machine:
            writes = kill_both(machine, replica)
        assert any(write.time > MAX_LOSS_SECONDS for write in writes)
        machine = new_machine(tmp_path / str(number + 1))
        Litestream(machine, replica).restore()
        with machine:
            lost = missing(machine, key, writes)
        print(f"lost {len(lost)} of {len(writes)}:", max([0, *(w.time for w in lost)]))
        assert all(write.time < MAX_LOSS_SECONDS for write in lost)


def new_machine(folder: pathlib.Path) -> Service:
    (folder / "data").mkdir(parents=True)
    (folder / "library").mkdir()
    service = Service(folder)
    service.write_settings(f"[library]\nfolders = {folder}/library\n")
    return service
