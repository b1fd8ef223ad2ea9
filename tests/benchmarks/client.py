"""Speed of send-to-switch, compared with curl, and its memory.

    python tests/benchmarks/client.py [MEGABYTES]

Both download the same file into the same folder, in turns. The best run of the client
must reach 60 % of the speed of curl's best, with less than 40 MB of memory.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import catalogd  # noqa: E402

TURNS = 4


def prepare(folder: pathlib.Path, size: int) -> str:
    """Make a library with one file and an account, and return its key."""
    (folder / "library").mkdir()
    path = folder / "library/game.nsp"
    with open(path, "wb") as file:
        for _ in range(size // 2**20):
            file.write(os.urandom(2**20))
    os.utime(path, (1, 1))
    key = catalogd.new_key()
    with contextlib.closing(catalogd.Store(str(folder / "data"))) as store:
        account = store.accounts.add("anna", "no password")
        store.accounts.add_key(account, "benchmark", catalogd.hash_token(key))
    (folder / "key").write_text(key)
    return key


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def call(url: str, key: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def wait_for_entry(url: str, key: str) -> str:
    for _ in range(300):
        with contextlib.suppress(OSError, IndexError):
            return call(f"{url}/api/list", key)["entries"][0]["id"]
        time.sleep(0.1)
    raise SystemExit("The server did not start.")


def peak(command: list[str]) -> tuple[float, int]:
    """Return the seconds that a command takes, and its peak memory in KiB."""
    began, most = time.monotonic(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        with contextlib.suppress(OSError, IndexError):
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(status.split("VmHWM:")[1].split()[0]))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed.")
    return time.monotonic() - began, most


def measure(folder: pathlib.Path, size: int, url: str, key: str) -> None:
    entry = wait_for_entry(url, key)
    card = folder / "card"
    card.mkdir()
    client = [sys.executable, str(ROOT / "send_to_switch.py"), "--once"]
    client += ["--server", url, "--key-file", str(folder / "key")]
    client += ["--state", str(folder / "state"), "--to", f"folder:{card}"]
    curl = ["curl", "-sf", "-H", f"Authorization: Bearer {key}", "-o"]
    curl += [str(card / "curl"), f"{url}/api/download/{entry}"]
    ours, theirs, memory = [], [], 0
    for _ in range(TURNS):
        for path in card.iterdir():
            path.unlink()
        theirs.append(peak(curl)[0])
        call(f"{url}/api/send-to-switch", key, {"entry_id": entry})
        seconds, most = peak(client)
        ours.append(seconds)
        memory = max(memory, most)
    for name, times in (("curl", theirs), ("send-to-switch", ours)):
        print(f"{name:15} {size / 1e6 / min(times):8.0f} MB/s")
    share = min(theirs) / min(ours)
    print(f"send-to-switch has {share:.0%} of curl's speed, and took {memory} KiB.")
    if share < 0.6 or memory > 40_000:
        raise SystemExit("The client is too slow or too large.")


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else 2000) * 2**20
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        key, port = prepare(folder, size), free_port()
        words = ["serve", "--host", "127.0.0.1", "--port", str(port)]
        words += ["--data-dir", str(folder / "data"), str(folder / "library")]
        server = subprocess.Popen(
            [sys.executable, str(ROOT / "catalogd.py"), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            measure(folder, size, f"http://127.0.0.1:{port}", key)
        finally:
            server.terminate()
            server.wait(timeout=30)


if __name__ == "__main__":
    main()
