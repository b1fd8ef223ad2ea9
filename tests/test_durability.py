"""What was acknowledged survives the sudden death of the server."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

import catalogd

HERE = os.path.dirname(catalogd.__file__)
CALLERS = 100  # at once
PROGRAM = """
import catalogd, sys
settings = catalogd.Settings(host="127.0.0.1", port=0, threads=8)
store = catalogd.Store(sys.argv[1])
web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
server = catalogd.listen(web)
print(server.effective_port, flush=True)
server.run()
"""


@pytest.fixture
def entries(store: catalogd.Store) -> list[str]:
    """The ids of more entries than the server lives to queue."""
    rows = [
        (
            catalogd.FoundFile(f"/games/{number}.nsp", "/games", 1, 2, number, "v"),
            catalogd.FileContent("", {"name": "A"}),
        )
        for number in range(20 * CALLERS)
    ]
    store.entries.add_files(rows, listed=True)
    return [known.id for known in store.entries.files()]


@pytest.fixture
def server(store: catalogd.Store) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-c", PROGRAM, store.database.folder]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_server_has_lost_nothing_that_it_acknowledged(
    store: catalogd.Store,
    key: str,
    entries: list[str],
    server: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = server
    waiting = iter(entries)
    acknowledged: list[str] = []

    def send_until_it_dies() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            for entry in waiting:
                send(address, key, entry)
                acknowledged.append(entry)
                if len(acknowledged) >= CALLERS:  # two may come at once
                    process.send_signal(signal.SIGKILL)

    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(send_until_it_dies) for _ in range(CALLERS)]
    assert [call.result() for call in calls] == [None] * CALLERS
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert CALLERS <= len(acknowledged) < len(entries)  # it died in the midst of them

    account = store.accounts.id_of("anna")
    queued = {item["entry"] for item in store.queue.items(account)}
    assert queued.issuperset(acknowledged)
    with store.database.reading() as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert store.queue.send(account, entries[-1])


def send(address: str, key: str, entry: str) -> None:
    """Have an entry queued, or raise what the connection says."""
    request = urllib.request.Request(
        f"{address}/api/send-to-switch",
        json.dumps({"entry_id": entry}).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.loads(answer.read())["success"]
