"""Check a catalogd.exe, on Windows, under wine, or as the program for Linux:
python check.py dist/catalogd.exe

Start it as a double click does, and once more, download a file from the folder beside
it, add a file, send it to a console, make a backup, end it, and restore the backup. The
folder of all has an umlaut and a blank in its name.
"""

import contextlib
import importlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

PASSWORD = "correct horse"
PATIENCE = 60  # seconds


def main(program: str) -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="Spiele für alle "))
    exe = str(shutil.copy(program, folder))
    address = prepare(folder)
    add_account(exe, "anna")
    key = output_of(exe, "key", "add", "anna", "test").strip()
    with started(exe, folder / "log") as service:
        check_answers(address, key)
        assert subprocess.run([exe], timeout=PATIENCE).returncode == 0
        check_page(address, folder)
        output_of(exe, "backup", folder / "backup.db")
        add_account(exe, "ben")
        if sys.platform != "win32":  # which kills what it ends
            check_end(service, folder / "data")
        assert str(folder / "Games") in (folder / "log").read_text(encoding="utf-8")
    check_restore(exe, folder)
    shutil.rmtree(folder, ignore_errors=True)
    print("All checks passed.")


def add_account(exe: str, name: str) -> None:
    add = [exe, "user", "add", name, "--password-stdin"]
    subprocess.run(add, input=PASSWORD, text=True, check=True)


def output_of(exe: str, *words: object) -> str:
    output = subprocess.check_output([exe, *map(str, words)])
    return output.decode().replace(os.linesep, "\n")


def check_restore(exe: str, folder: pathlib.Path) -> None:
    """Restore the backup. The database with the second account is kept."""
    told = output_of(exe, "restore", folder / "backup.db")
    kept = told.partition("The old database is ")[2].removesuffix(".\n")
    assert pathlib.Path(kept).parent == folder / "data", told
    assert accounts(exe, folder / "data") == ["anna"]
    (folder / "old").mkdir()
    os.rename(kept, folder / "old" / "catalogd.db")
    assert accounts(exe, folder / "old") == ["anna", "ben"]


def accounts(exe: str, data: pathlib.Path) -> list[str]:
    rows = output_of(exe, "user", "list", "--data-dir", data).splitlines()
    return [row.split()[0] for row in rows[1:]]


def prepare(folder: pathlib.Path) -> str:
    """Write the settings, and a game beside the program. Return the page's address."""
    inbox = folder / "Games" / "Inbox"
    inbox.mkdir(parents=True)
    game = folder / "Games" / "Pokémon.nsp"
    game.write_bytes(bytes(range(256)) * 400)
    os.utime(game, (1_600_000_000, 1_600_000_000))
    port = free_port()
    ini = f"[server]\nhost = 127.0.0.1\nport = {port}\n[library]\ninbox = {inbox}\n"
    (folder / "catalogd.ini").write_text(ini, encoding="utf-8")
    os.environ["CATALOGD_CONFIG"] = str(folder / "catalogd.ini")
    os.environ["CATALOGD_DATA_DIR"] = str(folder / "data")
    return f"http://127.0.0.1:{port}"


def free_port() -> int:
    """A port that no other program is given. But on Windows, it stays bound to a socket
    that does not listen, beside which servers may."""
    held = socket.socket()
    if os.name != "nt":
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if os.name == "nt":
        held.close()
    else:
        held.detach()
    return port


@contextlib.contextmanager
def started(exe: str, log: pathlib.Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the program as a double click does. Where a check fails, print its log."""
    began = time.monotonic()
    with open(log, "wb") as output:
        service = subprocess.Popen([exe], stdout=output, stderr=output)
    try:
        wait_for(lambda: b"Stop with Ctrl-C." in log.read_bytes())
        print(f"answered in {time.monotonic() - began:.2f} s")
        yield service
    except BaseException:
        print(log.read_text(encoding="utf-8", errors="backslashreplace"))
        raise
    finally:
        if sys.platform == "win32":  # it is two processes
            stop = ["taskkill", "/F", "/IM", os.path.basename(exe)]
            subprocess.run(stop, capture_output=True)
        else:
            service.terminate()
        service.wait(PATIENCE)


def check_end(service: "subprocess.Popen[bytes]", data: pathlib.Path) -> None:
    service.terminate()
    assert service.wait(20) == 0
    left = {path.name for path in data.iterdir()}
    assert "catalogd.db-wal" not in left, "the database was not closed"


def get(url: str, **headers: str) -> bytes:
    call = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(call, timeout=30) as answer:
        return answer.read()


def wait_for(what: Callable[[], Any]) -> Any:
    """Return the first true value of `what()`."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, f"nothing after {PATIENCE} s"
        time.sleep(0.2)
    return found


def check_page(address: str, folder: pathlib.Path) -> None:
    """Add a file and send it to a console, as the page does."""
    headers = {"Content-Type": "application/json"}

    def call(path: str, body: Any, method: str = "POST", **more: str) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = {**headers, **{name.replace("_", "-"): more[name] for name in more}}
        asked = urllib.request.Request(f"{address}/{path}", data, more, method=method)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            headers.setdefault("Cookie", answer.headers.get("Set-Cookie", ""))
            return json.loads(answer.read())

    call("web/login", {"username": "anna", "password": PASSWORD})
    headers["Cookie"] = headers["Cookie"].partition(";")[0]
    content = bytes(range(256)) * 100
    upload = call("web/uploads", {"name": "Ærø.nsp", "size": len(content)})
    octets = {"Content_Type": "application/octet-stream", "Upload_Offset": "0"}
    call(f"web/uploads/{upload['id']}", content, "PATCH", **octets)
    assert (folder / "Games/Inbox/Ærø.nsp").read_bytes() == content
    sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests"))
    (folder / "console").mkdir()
    ftpsrv = importlib.import_module("ftpsrv")
    with contextlib.closing(ftpsrv.Ftpsrv(folder / "console")) as console:
        device = call("web/devices", {"name": "Attic", "target": console.url})["device"]
        rows = wait_for(
            lambda: [
                row
                for row in json.loads(get(f"{address}/web/entries", **headers))[
                    "entries"
                ]
                if row["name"] == "Ærø"
            ]
        )
        call("api/send-to-switch", {"entry_id": rows[0]["id"], "device": device})
        sent = folder / "console"
        wait_for(lambda: content in [path.read_bytes() for path in sent.glob("*.nsp")])


def check_answers(address: str, key: str) -> None:
    url = f"{address}/api/list?api_key={key}"
    entries = wait_for(lambda: json.loads(get(url))["entries"])
    assert entries[0]["name"] == "Pokémon"
    url = f"{address}/api/download/{entries[0]['id']}?api_key={key}"
    assert get(url) == bytes(range(256)) * 400
    assert get(url, Range="bytes=256-257") == b"\x00\x01"
    assert b"<html" in get(f"{address}/")


if __name__ == "__main__":
    main(sys.argv[1])
