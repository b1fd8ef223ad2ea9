"""Devices that the server serves itself, and the search for consoles."""

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import programs
import send_to_switch
from conftest import Home, free_port, wait_for
from consoles import FTPConsole

LOOPBACK = [ipaddress.IPv4Network("127.0.0.0/28")]
ODD = bytes(range(256)) * 5000


@pytest.fixture
def console(tmp_path: pathlib.Path) -> Iterator[FTPConsole]:
    folder = tmp_path / "console"
    folder.mkdir()
    with contextlib.closing(FTPConsole(folder)) as console:
        yield console


def add(home: Home, target: str, name: str = "Attic", **more: Any) -> str:
    return home.store.devices.add(home.anna, {"name": name, "target": target, **more})


def processes(consoles: catalogd.Consoles) -> list[Any]:
    return [one._process for one in consoles._running.values() if one._process]


# What is told of a console


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"target": "folder:/media/card"}, "pair the computer"),
        ({"target": "192.168.1.20"}, "must be ftp://HOST"),
        ({"target": "ftp://1.2.3.4.5"}, "must be ftp://HOST"),
        ({"target": "ftp://0.0.0.0:5000"}, "must be ftp://HOST"),
        ({"target": "ftp://[::]"}, "must be ftp://HOST"),
        ({"target": "ftp://console/a%0d%0aDELE%20b"}, "one line each"),
        ({"target": "ftp://me:secret@console"}, "Use the field user."),
        ({"target": "ftp://console/a?b"}, "has more in it"),
        ({"target": "lan://console/folder"}, "has more in it"),
        ({"target": "ftp://console/a\nb"}, "one line each"),
        ({"user": "me\r\nDELE x"}, "one line each"),
    ],
)
def test_an_address_that_is_none_is_refused_and_says_why(
    values: dict[str, str], why: str
) -> None:
    with pytest.raises(catalogd.Problem, match=why):
        catalogd.check_console(values)


@pytest.mark.parametrize(
    "host", ["192.168.1.20", "[fe80::1%eth0]", "switch", "switch-2.lan.", "küche_1"]
)
def test_an_address_or_a_name_is_one(host: str) -> None:
    catalogd.check_console({"target": f"ftp://{host}:5000/a b/100%25"})


PLACES = {  # scheme, host, port and folder by address
    "ftp://switch": ("ftp", "switch", 5000, ""),
    "ftp://Switch.lan.:6000/games/": ("ftp", "switch.lan.", 6000, "games"),
    "ftp://192.168.1.20/a b/100%25": ("ftp", "192.168.1.20", 5000, "a b/100%25"),
    "ftp://[fe80::1%eth0]:5000/install:": ("ftp", "fe80::1%eth0", 5000, "install:"),
    "lan://küche_1": ("lan", "küche_1", 2000, ""),
    "lan://[::1]:2001/": ("lan", "::1", 2001, ""),
    **dict.fromkeys(["console", "http://console", "ftp://", "lan://", "ftp://[::1"]),
    **dict.fromkeys(["ftp://console:0", "ftp://console:x", "lan://console:70000"]),
    **dict.fromkeys(
        ["ftp://foo bar", "Ftp://console", "ftp://192.168.1", "lan://[::]"]
    ),
    **dict.fromkeys(["lan://192.168.1.300", "ftp://a..b", f"ftp://{'a' * 64}.lan"]),
    **dict.fromkeys(["ftp://console/a?b", "ftp://console/a#b", "lan://console/a"]),
    **dict.fromkeys(["ftp://console/a%0d%0aDELE%20b"]),
}


@pytest.mark.parametrize("target", PLACES)
def test_server_and_client_read_the_address_of_a_console_alike(target: str) -> None:
    if known := PLACES[target]:
        catalogd.check_console({"target": target})
        assert catalogd.console_place(target) == known
        console = send_to_switch.find_target(send_to_switch.Settings(to=target))
        assert target.startswith(console.start)
        parts, *place = send_to_switch.console_parts(target)
        assert (parts.scheme, *place, parts.path.strip("/")) == known
    else:
        with pytest.raises(catalogd.Problem):
            catalogd.check_console({"target": target})
        with pytest.raises(send_to_switch.Problem):
            send_to_switch.find_target(send_to_switch.Settings(to=target))


def test_a_console_that_is_a_device_is_not_added_again(home: Home) -> None:
    device = add(home, "ftp://Switch.lan", "Living room")
    other = add(home, "ftp://switch.lan:6000", "Attic")
    with pytest.raises(catalogd.Conflict) as problem:
        add(home, "ftp://switch.lan:5000/", "Cellar")
    assert str(problem.value) == "Living room is at this address already."
    with pytest.raises(catalogd.Conflict, match="Living room is at"):
        home.store.devices.change(other, {"target": "ftp://switch.lan:5000"})
    home.store.devices.change(device, {"target": "ftp://switch.lan:5000/"})
    add(home, "lan://switch.lan", "Cellar")


def test_user_and_password_may_have_any_letter() -> None:
    device = {"address": "ftp://console/games", "user": "m/e", "password": "p@s:s"}
    assert catalogd.client_target(device) == "ftp://m%2Fe:p%40s%3As@console/games"
    assert catalogd.client_target({**device, "user": ""}) == "ftp://console/games"


def test_what_the_service_writes_ends_the_pause_of_its_thread(
    store: catalogd.Store,
) -> None:
    done, written = threading.Semaphore(0), store.database.written
    written.clear()
    thread = catalogd.Lasting("trial", done.release, 600, written)
    thread.start()
    for _ in range(2):
        assert done.acquire(timeout=20)
        store.database.write("UPDATE counters SET value = value", ())
    assert done.acquire(timeout=20)
    assert thread.stop(20)


# Adding and changing


def test_an_admin_adds_a_device_and_sees_its_address_but_no_password(
    home: Home, browser: webtest.TestApp, consoles: catalogd.Consoles
) -> None:
    sign_in(browser)
    target = "ftp://127.0.0.1:1/games"
    values = {"name": "Attic", "target": target, "user": "me", "password": "p@ss1234"}
    device = browser.post_json("/web/devices", values).json["device"]
    answer = browser.get("/web/changes")
    assert "p@ss1234" not in answer.text
    [row] = answer.json["devices"]
    assert (row["id"], row["by_server"], row["address"]) == (device, True, target)
    assert browser.get("/web/keys").json["keys"][0]["label"] == "switch"
    assert len(browser.get("/web/keys").json["keys"]) == 1
    browser.post_json("/web/devices", values, status=409)
    browser.post_json(f"/web/devices/{device}", {"target": "lan://127.0.0.1"})
    assert home.store.devices.by_server()[0]["password"] == ""
    assert home.store.devices.by_server()[0]["user"] == ""
    browser.delete(f"/web/devices/{device}")
    assert browser.get("/web/changes").json["devices"] == []


def test_a_new_password_leaves_address_and_user(home: Home) -> None:
    device = add(home, "ftp://127.0.0.1:1", user="me", password="old")
    home.store.devices.change(device, {"password": "new"})
    home.store.devices.change(device, {"target": "ftp://127.0.0.1:1"})
    [row] = home.store.devices.by_server()
    assert (row["user"], row["password"]) == ("me", "new")


def test_a_member_neither_sees_nor_changes_an_address(
    home: Home, browser: webtest.TestApp
) -> None:
    home.store.accounts.add("kim", catalogd.hash_password("a long password"))
    login = {"username": "kim", "password": "a long password"}
    browser.post_json("/web/login", login)
    device = add(home, "ftp://127.0.0.1:1", shared=True)
    browser.post_json(f"/web/devices/{device}", {"password": "x"}, status=403)
    [row] = browser.get("/web/changes").json["devices"]
    assert row["by_server"] and "address" not in row


def test_the_address_of_a_device_that_a_client_serves_is_the_clients(
    home: Home, browser: webtest.TestApp
) -> None:
    sign_in(browser)
    device = home.store.accounts.add_key(home.anna, "card", b"1", is_device=True)
    change = {"target": "ftp://127.0.0.1:1"}
    browser.post_json(f"/web/devices/{device}", change, status=409)
    browser.post_json(f"/web/devices/{device}", {"name": "Attic"})


def test_without_the_client_no_console_is_added(
    home: Home, browser: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(browser)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    values = {"name": "Attic", "target": "ftp://127.0.0.1:1"}
    answer = browser.post_json("/web/devices", values, status=404)
    assert "put it beside catalogd.py" in answer.json["message"]


def test_a_bundled_program_runs_itself_as_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert catalogd.client_command() == [sys.executable, "send_to_switch"]


def sign_in(browser: webtest.TestApp) -> None:
    login = {"username": "anna", "password": "correct horse"}
    browser.post_json("/web/login", login)


def test_on_windows_the_client_has_no_window(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[dict[str, Any]] = []

    def start(command: list[str], **given: Any) -> None:
        options.append(given)
        raise OSError

    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", 1 << 27, raising=False)
    monkeypatch.setattr(subprocess, "Popen", start)
    add(home, "ftp://127.0.0.1:1")
    consoles.update()
    wait_for(lambda: options)
    assert options[0]["creationflags"] == 1 << 27
    assert options[0]["stdin"] == subprocess.PIPE  # at whose end it ends


# Sending


def test_it_says_why_a_console_is_not_ready_and_then_a_tap_brings_the_file(
    home: Home, consoles: catalogd.Consoles, console: FTPConsole
) -> None:
    device = add(home, console.url())
    console.refuses["USER"] = "421 Not now."
    consoles.update()
    wait_for(lambda: "not ready" in state_of(home, device))
    console.refuses.clear()
    consoles.try_often(device)
    wait_for(lambda: state_of(home, device) == "ready")
    item = home.queue("Star Garden.nsp", ODD)
    consoles.update()
    wait_for(lambda: home.item(item)["status"] == "completed")
    assert (console.folder / "Star Garden.nsp").read_bytes() == ODD


def test_an_item_without_a_device_wakes_each_client_of_its_account(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits looks at its queue but once a minute."""
    woken: list[str] = []
    client(monkeypatch, "sys.stdin.read()")
    ben = home.store.accounts.add("ben", "hash")
    own = [add(home, f"ftp://127.0.0.1:{port}", f"Room {port}") for port in (1, 2)]
    target = {"name": "Ben's", "target": "ftp://127.0.0.1:3"}
    home.store.devices.add(ben, target)
    consoles.update()
    note = lambda console, seconds: woken.append(console.device["id"])  # noqa: E731
    monkeypatch.setattr(catalogd.Console, "try_often", note)
    home.queue("Star Garden.nsp", ODD)
    assert home.store.database.written.is_set(), "for which the thread waits"
    consoles.update()
    assert sorted(woken) == sorted(own)


def state_of(home: Home, device: str) -> str:
    rows = {row["id"]: row["target"] for row in home.store.devices.all()}
    return str(rows[device])


def test_the_secrets_are_in_the_pipe_alone(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    caplog: pytest.LogCaptureFixture,
) -> None:
    device = add(home, console.url(), user="me", password="p@ss")
    with caplog.at_level("INFO"):
        consoles.update()
        wait_for(lambda: state_of(home, device) == "ready")
    [process] = processes(consoles)
    seen = caplog.text + str(process.args)
    if sys.platform == "linux":
        for name in ("cmdline", "environ"):
            seen += pathlib.Path(f"/proc/{process.pid}/{name}").read_text()
    stored = pathlib.Path(home.store.database.path)
    kept = [file for file in stored.parent.rglob("*") if file.is_file()]
    for key in home.store.accounts._lent.values():
        assert all(key not in file.read_bytes() for file in kept)
    assert "p@ss" not in seen and "p%40ss" not in seen and "catalogd_" not in seen


def test_a_device_that_is_removed_leaves_nothing_on_its_console(
    home: Home, consoles: catalogd.Consoles, console: FTPConsole
) -> None:
    console.stall_after = 200_000
    device = add(home, console.url())
    (console.folder / "other.nsp.part").write_bytes(b"of others")
    home.queue("Star Garden.nsp", ODD)
    consoles.update()
    wait_for(lambda: console.stalled)
    [process] = processes(consoles)
    folder = pathlib.Path(home.store.database.folder, "consoles", device)
    assert folder.is_dir()
    home.store.accounts.revoke_key(device)
    consoles.update()
    wait_for(lambda: not folder.exists())
    assert process.returncode == 3
    assert [path.name for path in console.folder.iterdir()] == ["other.nsp.part"]


def test_what_stays_on_the_console_of_a_removed_device_is_told_once(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    caplog: pytest.LogCaptureFixture,
) -> None:
    console.stall_after = 200_000
    device = add(home, console.url())
    home.queue("Star Garden.nsp", ODD)
    consoles.update()
    wait_for(lambda: console.stalled)
    console.refuses["USER"] = "421 Not now."
    with caplog.at_level("INFO"):
        home.store.accounts.revoke_key(device)
        consoles.update()
        wait_for(lambda: not consoles._leaving)
    assert caplog.text.count("Star Garden.nsp.part stays on the target.") == 1


def test_the_client_of_a_removed_device_that_hangs_is_ended(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_LEAVE_SECONDS", 0.1)
    client(monkeypatch, "print('x', flush=True)", "import time", "time.sleep(600)")
    device = add(home, "ftp://127.0.0.1:1")
    consoles.update()
    wait_for(lambda: processes(consoles))
    [process] = processes(consoles)
    home.store.accounts.revoke_key(device)
    consoles.update()
    add(home, "ftp://127.0.0.1:2", name="Cellar")
    consoles.update()
    wait_for(lambda: not consoles._leaving)
    assert process.returncode not in (None, 0)


def test_a_new_name_disturbs_nothing_and_a_new_address_begins_anew(
    home: Home, consoles: catalogd.Consoles, console: FTPConsole
) -> None:
    device = add(home, console.url())
    consoles.update()
    wait_for(lambda: processes(consoles))
    [before] = processes(consoles)
    home.store.devices.change(device, {"name": "Cellar"})
    consoles.update()
    assert processes(consoles) == [before]
    assert consoles._running[device].device["name"] == "Cellar"
    home.store.devices.change(device, {"target": console.url("/new")})
    consoles.update()
    wait_for(lambda: processes(consoles))
    assert before.returncode is not None and processes(consoles) != [before]


def test_a_process_that_is_killed_goes_on_with_its_item(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "RESTART_SECONDS", 0.01)
    console.stall_after = 200_000
    add(home, console.url())
    item = home.queue("Star Garden.nsp", ODD)
    consoles.update()
    wait_for(lambda: console.stalled)
    [process] = processes(consoles)
    os.kill(process.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    console.stall_after = len(ODD) + 1
    wait_for(lambda: home.item(item)["status"] == "completed")
    assert (console.folder / "Star Garden.nsp").read_bytes() == ODD
    assert console.commands.count("STOR") == 1


def test_a_hung_console_holds_up_neither_a_stop_nor_an_answer(
    home: Home, consoles: catalogd.Consoles, browser: webtest.TestApp
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, says nothing
        add(home, f"ftp://127.0.0.1:{silent.getsockname()[1]}")
        consoles.update()
        with silent.accept()[0]:
            sign_in(browser)
            browser.get("/web/changes")
            assert consoles.end()


def client(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let another program be the client."""
    code = "\n".join(["import json, sys", *lines])
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(catalogd, "client_command", lambda: command)
    monkeypatch.setattr(catalogd, "RESTART_SECONDS", 0.01)


def test_a_wrong_setting_is_shown_and_not_tried_again_until_it_is_changed(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(monkeypatch, "input()", "print('It is wrong.')", "sys.exit(2)")
    device = add(home, "ftp://127.0.0.1:1")
    consoles.update()
    thread = consoles._running[device]
    wait_for(lambda: state_of(home, device) == "It is wrong.")
    [process] = processes(consoles)
    home.store.devices.change(device, {"password": "x"})
    consoles.update()
    assert consoles._running[device] is thread  # without a user it changes nothing
    assert thread._thread.is_alive() and processes(consoles) == [process]
    home.store.devices.change(device, {"user": "x"})
    consoles.update()
    assert consoles._running[device] is not thread


AGAIN = "Sending ended with an error and begins again"


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("sys.exit(3)", "The key is wrong."),
        ("sys.exit(4)", "The key is wrong."),
        ("open('/no/file')", f"{AGAIN}: FileNotFoundError"),  # without the path
        ("sys.exit('http://a:1 is odd: no')", f"{AGAIN}: http://a:1 is odd"),
        ("sys.exit(9)", f"{AGAIN}: exit code 9"),
    ],
)
def test_what_may_pass_is_told_and_tried_again(
    home: Home,
    consoles: catalogd.Consoles,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    state: str,
) -> None:
    client(monkeypatch, "print('The key is wrong.', flush=True)", end)
    device = add(home, "ftp://127.0.0.1:1")
    consoles.update()
    wait_for(lambda: state_of(home, device) == state)
    first = processes(consoles)
    wait_for(lambda: processes(consoles) != first)


def test_a_client_that_ends_at_once_again_and_again_is_started_less_often(
    store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    consoles = catalogd.Consoles(store, catalogd.Settings())
    console = catalogd.Console(consoles, {"id": "1", "name": "Attic"})
    now, pauses = catalogd.time.monotonic(), []
    runs = [(1, 1)] * 5 + [(1, 3600), (1, 1), (3, 1), (1, 1)]

    def send() -> int:
        nonlocal now
        code, seconds = runs.pop(0)
        now += seconds
        return code

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if not runs:
            console._over.set()

    monkeypatch.setattr(catalogd.time, "monotonic", lambda: now)
    monkeypatch.setattr(console, "_send", send)
    monkeypatch.setattr(console._over, "wait", wait)
    console.run()
    assert pauses == [10, 20, 40, 60, 60, 10, 20, 10, 20]


def test_a_disk_of_the_server_that_fails_is_told_until_it_is_well(
    home: Home,
    consoles: catalogd.Consoles,
    console: FTPConsole,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogd, "RESTART_SECONDS", 0.01)
    device = add(home, console.url())
    item = home.queue("Star Garden.nsp", ODD)
    folder = pathlib.Path(home.store.database.folder, "consoles")
    folder.mkdir()
    (folder / device).write_text("no folder")
    consoles.update()
    why = "The disk that notes what was sent cannot be written"
    wait_for(lambda: state_of(home, device).startswith(why))
    assert str(folder) not in state_of(home, device)
    (folder / device).unlink()
    wait_for(lambda: home.item(item)["status"] == "completed")
    wait_for(lambda: state_of(home, device) == "ready")


def test_what_fails_of_an_update_is_done_again(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=catalogd.StorageFailed("database_busy"))
    client(monkeypatch, "sys.stdin.read()")
    device = add(home, "ftp://127.0.0.1:1")
    with monkeypatch.context() as patch, pytest.raises(catalogd.StorageFailed):
        patch.setattr(home.store.devices, "by_server", fail)
        consoles.update()
    consoles.update()
    assert [*consoles._running] == [device]


def test_keys_that_two_clients_get_at_once_are_both_good(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hash_token(token: str) -> bytes:
        if threading.current_thread() is not other and not other.ident:
            other.start()
            other.join()
        return plain(token)

    plain = catalogd.hash_token
    accounts = home.store.accounts
    other = threading.Thread(target=accounts.lend_key, args=("b",))
    monkeypatch.setattr(catalogd, "hash_token", hash_token)
    accounts.lend_key("a")
    other.join()
    assert sorted(accounts._lent) == ["a", "b"]


def peak_memory(consoles: catalogd.Consoles) -> int:
    """Return the most kB that the client took, or 0 if it has ended just now."""
    for process in processes(consoles):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s*([0-9]+) kB", status):
                return int(found[1])
    return 0


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
@pytest.mark.parametrize(
    "block", [b"220-x\r\n" * 8000, b"x" * 64000, b"\n" * 64000, b""]
)
def test_a_client_takes_at_most_60_mb(
    home: Home, consoles: catalogd.Consoles, console: FTPConsole, block: bytes
) -> None:
    def flood(server: socket.socket) -> None:
        with contextlib.suppress(OSError), server.accept()[0] as call:
            for _ in range(5000):
                call.sendall(block)

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"ftp://127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=flood, args=(server,))
        thread.start()
        device = add(home, url if block else console.url())
        item = home.queue("Star Garden.nsp", os.urandom(20_000_000))
        consoles.update()
        peaks: list[int] = []
        wait_for(lambda: peaks.append(peak_memory(consoles)) or state_of(home, device))
        if not block:
            wait_for(lambda: home.item(item)["status"] == "completed")
            socket.create_connection(server.getsockname()[:2]).close()
        peaks.append(peak_memory(consoles))
        thread.join()
    assert 0 < max(peaks) < 60_000


def test_a_console_that_is_ended_first_starts_nothing(
    home: Home, consoles: catalogd.Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(home, "ftp://127.0.0.1:1")
    [row] = home.store.devices.by_server()
    console = catalogd.Console(consoles, row)
    console.try_often(1)  # there is nobody to tell
    plain = consoles.settings_of

    def settings_of(device: catalogd.Row) -> dict[str, str]:
        console.end()
        return plain(device)

    monkeypatch.setattr(consoles, "settings_of", settings_of)
    console.start()
    wait_for(lambda: not console._thread.is_alive())
    assert console._process is None


class EagerLock:
    """A lock that another thread waits for, which wakes the console at once."""

    def __init__(self, console: catalogd.Console) -> None:
        self.console, self.lock, self.is_first = console, threading.Lock(), True

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *failure: object) -> None:
        self.lock.release()
        if self.is_first:
            self.is_first = False
            self.console.try_often(1)


def test_a_client_gets_its_settings_before_anything_wakes_it(
    home: Home,
    consoles: catalogd.Consoles,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client(monkeypatch, "print('keys', *json.loads(input()), flush=True)")
    add(home, "ftp://127.0.0.1:1")
    [row] = home.store.devices.by_server()
    console = catalogd.Console(consoles, row)
    monkeypatch.setattr(console, "_lock", EagerLock(console))
    with caplog.at_level("INFO"):
        assert console._send() == 0
    assert "Attic: keys server key to state" in caplog.text


def test_what_the_client_says_is_logged_with_the_devices_name(
    home: Home,
    consoles: catalogd.Consoles,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client(monkeypatch, "print('hello', flush=True)", "sys.stdin.read()")
    add(home, "ftp://127.0.0.1:1")
    with caplog.at_level("INFO"):
        consoles.update()
        wait_for(lambda: "Attic: hello" in caplog.text)


def test_the_clients_key_is_new_at_each_start_and_opens_the_queue(
    home: Home,
    consoles: catalogd.Consoles,
    monkeypatch: pytest.MonkeyPatch,
    browser: webtest.TestApp,
) -> None:
    device = add(home, "ftp://127.0.0.1:1")
    row = home.store.devices.by_server()[0]
    first = consoles.settings_of(row)["key"]
    second = consoles.settings_of(row)["key"]
    for key, status in ((first, 401), (second, 200)):
        headers = {"Authorization": f"Bearer {key}"}
        browser.get("/api/send-queue", headers=headers, status=status)
    home.store.accounts.revoke_key(device)
    headers = {"Authorization": f"Bearer {second}"}
    browser.get("/api/send-queue", headers=headers, status=401)


def test_its_uses_alone_are_not_written(home: Home) -> None:
    device = add(home, "ftp://127.0.0.1:1")
    key = catalogd.hash_token(home.store.accounts.lend_key(device))
    home.store.accounts.key_holder(key)  # the first is written at once
    home.store.accounts.key_holder(key)
    before = home.store.database.data_version()
    home.store.accounts.write_uses()
    assert home.store.database.data_version() == before


# The search


@pytest.fixture
def greeting() -> Iterator[Callable[[str, bytes, int], None]]:
    """Starts servers that send these bytes first."""
    with contextlib.ExitStack() as stack:

        def start(host: str, first: bytes, port: int) -> None:
            server = stack.enter_context(socket.create_server((host, port)))
            threading.Thread(target=answer, args=(server, first), daemon=True).start()

        yield start


def answer(server: socket.socket, first: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            call, _ = server.accept()
            with call:
                call.sendall(first)


def test_what_greets_as_an_ftp_server_is_found(
    greeting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_GREETING_SECONDS", 30)
    port = free_port()
    greeting("127.0.0.3", b"220 Console\x1b ready.\r\n", port)
    greeting("127.0.0.4", b"SSH-2.0-x\r\n", port)
    greeting("127.0.0.5", b"220-Hello!\r\n220 All.\r\n", port)
    own = catalogd.FTP_PROGRAMS["sysftpd"]._replace(ports={port: "keeps"})
    monkeypatch.setitem(catalogd.FTP_PROGRAMS, "sysftpd", own)
    found = catalogd.find_consoles(LOOPBACK, [port])
    first, second = ("127.0.0.3", "Console ready."), ("127.0.0.5", "Hello!")
    assert [(row["address"], row["greeting"]) for row in found] == [first, second]
    assert [row["port"] for row in found] == [port, port]
    assert [row["programs"] for row in found] == [[], ["sysftpd"]]
    assert [row["does"] for row in found] == ["", "keeps"]


@pytest.mark.parametrize(
    ("port", "greeting", "found", "does"),
    [
        (5000, "Service ready for new user.", ["sphaira"], "installs"),
        (21, "Service ready for new user.", ["ftpsrv"], "keeps"),
        (2121, "Service ready for new user.", ["sphaira", "ftpsrv"], ""),
        (5000, "Hello!", ["sysftpd"], "keeps"),
        (5001, "Hello!", ["sysftpd", "checkpoint"], ""),
        (5000, "kaiHEN SD FTP ready.", ["kaihen"], "keeps"),
        (5000, "Welcome", [], ""),
        (6700, "Welcome", ["sw2transfer"], "keeps"),
        (6000, "Welcome", ["dbi", "cnx"], ""),
        (7000, "", ["cnx"], "installs"),
        (50000, "Hello!", ["checkpoint"], ""),
        (2121, "(vsFTPd 3.0.3)", [], ""),
    ],
)
def test_a_greeting_and_a_port_tell_the_program_as_far_as_they_are_sure(
    port: int, greeting: str, found: list[str], does: str
) -> None:
    assert catalogd.programs_at(port, greeting) == found
    assert catalogd.does_at(port, found) == does


def test_the_ports_of_ftp_servers_are_asked_and_no_installers() -> None:
    assert catalogd.FTP_PORTS == [21, 5000, 6000, 6700, 7000, 50000]


def test_the_document_has_the_table_of_programs() -> None:
    assert programs.PATH.read_text(encoding="utf-8") == programs.text()


def test_an_admin_looks_for_consoles(
    home: Home, browser: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(browser)
    monkeypatch.setattr(catalogd, "own_networks", lambda: LOOPBACK)
    monkeypatch.setattr(catalogd, "FTP_PORTS", [free_port()])
    answer = browser.post("/web/consoles").json
    assert answer == {"success": True, "consoles": [], "in_container": False}


OWN_NETWORKS = catalogd.own_networks  # which conftest.py replaces in each test


def test_it_looks_around_each_private_address_at_most_four(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = ["127.0.0.1", "8.8.8.8", "192.168.1.7", "192.168.1.9", "10.0.0.1"]
    own += ["172.16.0.1", "10.1.1.1", "10.2.2.2"]
    found = [ipaddress.ip_address(one) for one in [*own, "fd00::2"]]
    monkeypatch.setattr(catalogd, "own_addresses", lambda: found)
    assert list(map(str, OWN_NETWORKS())) == [
        "192.168.1.0/24",
        "10.0.0.0/24",
        "172.16.0.0/24",
        "10.1.1.0/24",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_linux_tells_the_addresses_of_all_interfaces() -> None:
    assert ipaddress.ip_address("127.0.0.1") in catalogd.own_addresses()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_linux_tells_no_addresses_of_bridges_to_containers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (b"docker0", b"br-0123456789ab"):
        assert catalogd.BRIDGE.match(name)
    assert not catalogd.BRIDGE.match(b"br-lan")
    monkeypatch.setattr(catalogd, "BRIDGE", re.compile(rb"lo$"))
    assert ipaddress.ip_address("127.0.0.1") not in catalogd.own_addresses()


def test_elsewhere_the_addresses_of_the_machine_s_name_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    hosts = ["192.168.1.7", "192.168.1.7", "fe80::1%12"]
    rows = [(0, 0, 0, "", (host, 0)) for host in hosts]
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, port: rows)
    own = [str(one) for one in catalogd.own_addresses()]
    assert own == ["192.168.1.7", "fe80::1%12"]

    fail = Mock(
        side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    )
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert catalogd.own_addresses() == []


# The client that the server runs


@contextlib.contextmanager
def told(values: dict[str, str]) -> Iterator[int]:
    """Give the end of a pipe with these settings in it, and word of somebody."""
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as pipe:
        print(json.dumps(values), "0", sep="\n", file=pipe, flush=True)
        yield read


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set where the client would end its process."""
    event = threading.Event()
    monkeypatch.setattr(send_to_switch.os, "_exit", lambda code: event.set())
    monkeypatch.setattr(send_to_switch.signal, "signal", lambda number, act: None)
    return event


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"key": "catalogd_wrong"}, 3, "refuses the key"),
        ({"to": "ftp:"}, 2, "is not a target"),
    ],
)
def test_the_client_says_why_it_ends_and_ends_with_the_pipe(
    home: Home,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    ended: threading.Event,
    changes: dict[str, str],
    code: int,
    why: str,
) -> None:
    values = {"server": home.address, "key": home.key, "to": "lan://127.0.0.1"}
    with told({**values, "state": str(tmp_path / "state"), **changes}) as pipe:
        assert send_to_switch.run_by_server(pipe) == code
        assert why in capsys.readouterr().out
        assert not ended.is_set()
    assert ended.wait(20)


def test_the_client_looks_often_while_somebody_waits(
    home: Home,
    tmp_path: pathlib.Path,
    ended: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paces: list[Any] = []
    monkeypatch.setattr(
        send_to_switch.Sender, "run", lambda self, once: paces.append(self.pace)
    )
    values = {"server": home.address, "key": home.key, "to": "lan://127.0.0.1"}
    with told({**values, "state": str(tmp_path / "state")}) as pipe:
        assert send_to_switch.run_by_server(pipe) == 0
    assert ended.wait(20)
    [pace] = paces
    assert pace.check_seconds() == send_to_switch.CHECK_SECONDS
    pace.tell(100)
    assert pace.check_seconds() == send_to_switch.POLL_SECONDS
    pace.wait(60)  # it was told


def test_only_one_client_sends_to_a_target_at_a_time(tmp_path: pathlib.Path) -> None:
    first, second = (send_to_switch.State(str(tmp_path), "s", "t") for _ in range(2))
    with (
        first.exclusive(),
        pytest.raises(send_to_switch.TargetOffline),
        second.exclusive(),
    ):
        pass
