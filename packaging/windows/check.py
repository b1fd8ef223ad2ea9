"""Check a catalogd.exe, on Windows or under wine: python check.py dist/catalogd.exe

Start it as a double click does, download a file from the folder beside it, and stop it
as closing its window does.
"""

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

PASSWORD = "correct horse"


def main(program: str) -> None:
    folder = pathlib.Path(tempfile.mkdtemp())
    exe = shutil.copy(program, folder)
    games = folder / "Games"
    games.mkdir()
    (games / "Pokémon.nsp").write_bytes(bytes(range(256)) * 400)
    os.utime(games / "Pokémon.nsp", (1_600_000_000, 1_600_000_000))
    (folder / "catalogd.ini").write_text("[server]\nhost = 127.0.0.1\nport = 6070\n")
    os.environ["CATALOGD_CONFIG"] = str(folder / "catalogd.ini")
    os.environ["CATALOGD_DATA_DIR"] = str(folder / "data")
    add = [exe, "user", "add", "anna", "--password-stdin"]
    subprocess.run(add, input=PASSWORD, text=True, check=True)
    key = subprocess.check_output([exe, "key", "add", "anna", "test"], text=True)
    began = time.monotonic()
    service = subprocess.Popen(
        [exe],
        text=True,
        stdout=subprocess.PIPE,
        creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
    )
    try:
        printed = [service.stdout.readline() for _ in range(4)]
        print(*printed, f"answered in {time.monotonic() - began:.2f} s", sep="")
        check_answers(key.strip())
        if hasattr(ctypes.WinDLL("ntdll"), "wine_get_version"):
            print("not checked: wine does not tell a program that its window closes")
        else:
            check_end(service, folder / "data")
    finally:
        stop = ["taskkill", "/F", "/IM", os.path.basename(exe)]
        subprocess.run(stop, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
    print("All checks passed.")


def check_end(service: "subprocess.Popen[str]", data: pathlib.Path) -> None:
    service.send_signal(signal.CTRL_BREAK_EVENT)
    assert service.wait(20) == 0
    left = {path.name for path in data.iterdir()}
    assert "catalogd.db-wal" not in left, "the database was not closed"


def get(path: str, **headers: str) -> bytes:
    call = urllib.request.Request(f"http://127.0.0.1:6070{path}", headers=headers)
    with urllib.request.urlopen(call, timeout=30) as answer:
        return answer.read()


def check_answers(key: str) -> None:
    entries = []
    while not entries:
        time.sleep(0.2)
        entries = json.loads(get(f"/api/list?api_key={key}"))["entries"]
    print(json.dumps(entries[0], indent=4))
    path = f"/api/download/{entries[0]['id']}?api_key={key}"
    assert get(path) == bytes(range(256)) * 400
    assert get(path, Range="bytes=256-257") == b"\x00\x01"
    assert b"<html" in get("/")


if __name__ == "__main__":
    main(sys.argv[1])
