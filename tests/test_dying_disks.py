"""A real service, a disk that dies while the service reads and writes there, and what
is told of it: nobody unmounts the disk, and no scan is due."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import catalogd
from conftest import LONG_AGO, PASSWORD, Library, short_and_long, wait_for
from example import by_age
from ftpsrv import Ftpsrv
from test_disks import REMOVE_LOOP, Machine, have_loop_devices, run
from test_kills import PATIENCE, ROOT, SERVER, Serving
from test_notices import Receiver, receiving

MEGABYTE = 1_000_000
BIG = os.urandom(MEGABYTE) * 32  # more than what a system reads ahead
HASTY = """
import catalogd
catalogd.Asker.max_silence = {silence}
catalogd.NOTICE_CHECK_SECONDS = catalogd.CONSOLE_CHECK_SECONDS = 0.2
"""


class Disk:
    """A disk with an NTFS, whose driver is a process."""

    def __init__(self, machine: Machine, image: pathlib.Path) -> None:
        self.machine, self.image = machine, image
        self.folder = machine.library / "disk"
        self.folder.mkdir()
        machine.create(image)
        self.plug_in()

    def plug_in(self) -> None:
        [slot, _] = self.machine.slots
        self.machine.slot_in(slot, self.image)
        command = ["ntfs-3g", "-o", "no_detach", slot, str(self.folder)]
        self.driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(self.folder.is_mount)

    def unplug(self) -> None:
        self.driver.kill()
        self.driver.wait(PATIENCE)
        run("umount", "--lazy", str(self.folder))
        self.machine.stack.close()

    def die(self, how: str) -> None:
        signals = {"does not answer": signal.SIGSTOP, "fails": signal.SIGKILL}
        self.driver.send_signal(signals[how])

    def come_back(self, how: str) -> None:
        if how == "does not answer":
            self.driver.send_signal(signal.SIGCONT)
        else:
            self.unplug()
            self.plug_in()


class Served(NamedTuple):
    """A service with two library folders, one of which is a disk."""

    serving: Serving
    disk: Disk
    key: str
    settings: pathlib.Path

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any], str]:
        """Return status, answer and cookie."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.serving.url + path
        request = urllib.request.Request(url, data, names, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
                return answer.status, json.load(answer), cookie
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error), ""

    def status(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.call("GET", "/api/status", **headers)[1]

    def faults(self) -> list[str]:
        """Return the library folders that a fault is told of."""
        faults = self.status()["faults"]
        folders = [fault for fault in faults if fault["about"] == "folders"]
        return [fault["arguments"]["folder"] for fault in folders]

    def check(self) -> str:
        """Return what the command tells."""
        words = ["check", "--config", str(self.settings)]
        words += ["--data-dir", self.serving.store.database.folder]
        command = [sys.executable, "catalogd.py", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    def queue(self, name: str, device: str) -> str:
        """Queue a file for a device, and return the id of the entry."""
        entries = by_age(self.serving.store)
        ids = {row["name"]: str(row["id"]) for row in entries}
        self.serving.store.queue.send(self.serving.account, ids[name], device)
        return ids[name]

    @contextlib.contextmanager
    def download(self, entry: str) -> Iterator[Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.serving.url}/api/download/{entry}"
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            yield answer


@pytest.fixture
def serve(
    store: catalogd.Store, library: Library, key: str, tmp_path: pathlib.Path
) -> Iterator[Callable[[float], Served]]:
    """Starts the service; takes the seconds after which a disk does not answer."""
    have_loop_devices("ntfs")
    library.add("well.nsp")
    with contextlib.ExitStack() as stack:
        disks, settings = tmp_path / "disks", tmp_path / "catalogd.ini"
        disks.mkdir()
        machine = Machine("ntfs", disks, tmp_path / "udev", megabytes=80)
        stack.callback(machine.control, REMOVE_LOOP)
        disk = Disk(machine, tmp_path / "image")
        stack.callback(lambda: disk.unplug())
        for name in ("sent.nsp", "downloaded.nsp"):
            (disk.folder / name).write_bytes(BIG)
            os.utime(disk.folder / name, (LONG_AGO, LONG_AGO))
        disk.unplug()
        disk.plug_in()  # with nothing of it in memory
        rows = [f"folders = {disk.folder}", f"inbox = {disk.folder}"]
        rows += ["scan_interval = 3600", "keep_free = 0", "[queue]", "notify = "]
        settings.write_text("\n".join(["[library]", *rows]))
        settings.write_text(settings.read_text() + stack.enter_context(receiving()))

        def start(silence: float) -> Served:
            serving = Serving(store, library)
            serving.code = HASTY.format(silence=silence) + SERVER
            serving.start("--config", str(settings))
            stack.callback(serving.kill)
            served = Served(serving, disk, key, settings)
            wait_for(lambda: len(by_age(store)) == 3)
            return served

        yield start


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "does not answer"])
@short_and_long(silence=(2.0, catalogd.Asker.max_silence))
def test_a_disk_that_dies_while_it_is_read_is_told_and_its_item_waits(
    serve: Callable[[float], Served], tmp_path: pathlib.Path, how: str, silence: float
) -> None:
    served = serve(silence)
    folder = str(served.disk.folder)
    # A scan tells that after it has listed the files.
    wait_for(lambda: all(row["watched"] for row in served.status()["folders"]))
    (tmp_path / "console").mkdir()
    with contextlib.closing(Ftpsrv(tmp_path / "console")) as console:
        goes_on = threading.Event()
        console.hold = lambda size: size < MEGABYTE or goes_on.wait(PATIENCE)
        entry = served.queue("sent", served.serving.device("Attic", console.url))
        part, sent = (console.folder / name for name in ("sent.nsp.part", "sent.nsp"))
        wait_for(lambda: part.exists() and part.stat().st_size >= MEGABYTE)
        with served.download(entry) as download:
            download.read(MEGABYTE)
            served.disk.die(how)
            goes_on.set()
            wait_for(lambda: served.faults() == [folder])
        folders = served.status()["folders"]
        assert [row["state"] for row in folders] == ["offline", "online"]
        wait_for(lambda: served.status()["queue"]["pending"] == 1)
        told = f"{folder} {'is offline' if how == 'fails' else how}"
        assert told in served.check()
        wait_for(lambda: any(told in text for *_, text in Receiver.calls))
        served.disk.come_back(how)
        wait_for(lambda: sent.exists() and sent.read_bytes() == BIG)
        wait_for(lambda: served.status()["queue"]["completed"] == 1)
        wait_for(lambda: not served.faults())


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "does not answer"])
def test_a_disk_that_dies_while_it_is_written_is_told_and_the_upload_goes_on(
    serve: Callable[[float], Served], how: str
) -> None:
    served = serve(2.0)
    folder = str(served.disk.folder)
    body = {"username": "anna", "password": PASSWORD}
    json_type = {"Content_Type": "application/json"}
    *_, cookie = served.call("POST", "/web/login", body, **json_type)
    headers = {"Cookie": cookie, **json_type}
    file = {"name": "new.nsp", "size": 2 * MEGABYTE}
    upload = served.call("POST", "/web/uploads", file, **headers)[1]["id"]

    def piece(offset: int) -> tuple[int, dict[str, Any], str]:
        kind = "application/octet-stream"
        given = {"Cookie": cookie, "Content_Type": kind, "Upload_Offset": str(offset)}
        return served.call("PATCH", f"/web/uploads/{upload}", BIG[:MEGABYTE], **given)

    assert piece(0)[1]["offset"] == MEGABYTE
    served.disk.die(how)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(piece(MEGABYTE)[0]))
    thread.start()
    wait_for(lambda: folder in served.faults())
    served.disk.come_back(how)
    thread.join(PATIENCE)
    assert answers == [503 if how == "fails" else 200]
    wait_for(lambda: not served.faults())
    if how == "fails":
        again = served.call("POST", "/web/uploads", file, **headers)[1]
        assert (again["id"], again["offset"]) == (upload, MEGABYTE)
        assert piece(MEGABYTE)[1]["name"] == "new.nsp"
    wait_for(lambda: len(by_age(served.serving.store)) == 4)
    assert (served.disk.folder / "new.nsp").read_bytes() == BIG[: 2 * MEGABYTE]
