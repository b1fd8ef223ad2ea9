"""Check a catalogd.exe, on Windows or under wine: python check.py dist/catalogd.exe

Start it as a double click does, download a file from the folder beside it, and stop it
as closing its window does.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
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
    folder = pathlib.Path(tempfile.mkdtemp())
    exe = shutil.copy(program, folder)
    prepare(folder)
    add = [exe, "user", "add", "anna", "--password-stdin"]
    subprocess.run(add, input=PASSWORD, text=True, check=True)
    key = subprocess.check_output([exe, "key", "add", "anna", "test"], text=True)
    with started(exe, folder / "log") as service:
        check_answers(key.strip())
        if hasattr(ctypes.WinDLL("ntdll"), "wine_get_version"):
            print("not checked: wine does not tell a program that its window closes")
        else:
            check_end(service, folder / "data")
        assert str(folder / "Games") in (folder / "log").read_text(encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    print("All checks passed.")


def prepare(folder: pathlib.Path) -> None:
    """Write the settings, and a game beside the program."""
    (folder / "Games").mkdir()
    game = folder / "Games" / "Pokémon.nsp"
    game.write_bytes(bytes(range(256)) * 400)
    os.utime(game, (1_600_000_000, 1_600_000_000))
    (folder / "catalogd.ini").write_text("[server]\nhost = 127.0.0.1\nport = 6070\n")
    os.environ["CATALOGD_CONFIG"] = str(folder / "catalogd.ini")
    os.environ["CATALOGD_DATA_DIR"] = str(folder / "data")


@contextlib.contextmanager
def started(exe: str, log: pathlib.Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the program as a double click does. Where a check fails, print its log."""
    began = time.monotonic()
    group = subprocess.CREATE_NEW_PROCESS_GROUP
    with open(log, "wb") as output:
        service = subprocess.Popen(
            [exe], stdout=output, stderr=output, creationflags=group
        )
    try:
        wait_for(lambda: b"Stop with Ctrl-C." in log.read_bytes())
        print(f"answered in {time.monotonic() - began:.2f} s")
        yield service
    except BaseException:
        print(log.read_text(encoding="utf-8", errors="backslashreplace"))
        raise
    finally:
        stop = ["taskkill", "/F", "/IM", os.path.basename(exe)]
        subprocess.run(stop, capture_output=True)


def check_end(service: "subprocess.Popen[bytes]", data: pathlib.Path) -> None:
    service.send_signal(signal.CTRL_BREAK_EVENT)
    assert service.wait(20) == 0
    left = {path.name for path in data.iterdir()}
    assert "catalogd.db-wal" not in left, "the database was not closed"


def get(path: str, **headers: str) -> bytes:
    call = urllib.request.Request(f"http://127.0.0.1:6070{path}", headers=headers)
    with urllib.request.urlopen(call, timeout=30) as answer:
        return answer.read()


def wait_for(what: Callable[[], Any]) -> Any:
    """Return the first true value of `what()`."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, f"nothing after {PATIENCE} s"
        time.sleep(0.2)
    return found


def check_answers(key: str) -> None:
    path = f"/api/list?api_key={key}"
    entries = wait_for(lambda: json.loads(get(path))["entries"])
    assert entries[0]["name"] == "Pokémon"
    path = f"/api/download/{entries[0]['id']}?api_key={key}"
    assert get(path) == bytes(range(256)) * 400
    assert get(path, Range="bytes=256-257") == b"\x00\x01"
    assert b"<html" in get("/")


if __name__ == "__main__":
    main(sys.argv[1])
