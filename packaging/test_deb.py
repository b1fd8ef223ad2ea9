"""The Debian package, in a container that is booted with systemd. The tests depend on
each other, in their order: install, use, upgrade, remove.

SUITE=trixie packaging/... does the same on Debian 13.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from build import copied_tree
from conftest import APART, LANGUAGES, TOP, Debian, need, readme, run, wait_for

BOOT = """env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
    systemd-nspawn --quiet --boot --register=no --keep-unit --private-network
    --console=pipe --directory"""
CALL = """
import json, sys, urllib.request
url, headers, body = json.load(sys.stdin)
call = urllib.request.Request(url, body and body.encode(), headers)
with urllib.request.urlopen(call, timeout=30) as answer:
    print(json.dumps([dict(answer.headers), answer.read().decode()]))
"""
HANG = """
import dataclasses, os, sys, time
sys.path.insert(0, "/usr/share/catalogd")
import catalogd

def answer(web):
    while os.path.exists("/srv/hang"):
        time.sleep(0.1)
    return {}

for i, route in enumerate(catalogd.ROUTES):
    if route.path == "/healthz":
        catalogd.ROUTES[i] = dataclasses.replace(route, answer=answer)
sys.exit(catalogd.main())
"""

CLIENT = "send-to-switch@living-room.service"
DROP_IN = "/etc/systemd/system/send-to-switch@living-room.service.d/folder.conf"


class Machine:
    """A booted container without a network."""

    def __init__(
        self,
        root: pathlib.Path,
        nspawn: "subprocess.Popen[bytes]",
        console: pathlib.Path,
    ) -> None:
        self.root = root
        self.nspawn = nspawn
        self.console = console
        self.leader = ""
        self.leader = self.wait_for(self._first_process)
        state = ["systemctl", "is-system-running"]
        self.wait_for(lambda: "running" in self.does(*state))

    def _first_process(self) -> str:
        """Return the process that is number 1 in the container. For some milliseconds,
        systemd-nspawn has another child, which makes it."""
        process = pathlib.Path(f"/proc/{self.nspawn.pid}")
        for child in (process / f"task/{process.name}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):  # it has ended
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                if re.search(r"^NSpid:.*\t1$", status, re.MULTILINE):
                    return child
        return ""

    def wait_for(self, what: Callable[[], Any]) -> Any:
        """Return the first true value of `what()`. Where it does not come, the error
        has the last lines of the console, and what systemd has to do or could not."""
        try:
            return wait_for(lambda: self.is_up() and what(), 300)
        except AssertionError as error:
            lines = self.console.read_text(errors="replace").splitlines()
            error.add_note("\n".join(["The console's last lines:", *lines[-20:]]))
            if self.leader and self.nspawn.poll() is None:
                error.add_note(self.does("systemctl", "--failed"))
                error.add_note(self.does("systemctl", "list-jobs"))
            raise

    def is_up(self) -> bool:
        assert self.nspawn.poll() is None, "the container has ended"
        return True

    def does(self, *command: str, **options: Any) -> str:
        """Return what a command prints in the container; it may fail."""
        enter = ["nsenter", "--all", "--root", "--wdns=/", f"--target={self.leader}"]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        done = subprocess.run([*enter, *command], text=True, env=environment, **options)
        self.status = done.returncode
        return str(done.stdout)

    def run(self, *command: str, **options: Any) -> str:
        printed = self.does(*command, **options)
        assert self.status == 0, f"{command}: {printed}"
        return printed

    def call(self, path: str, body: Any = None, **headers: str) -> tuple[Any, str]:
        """Return headers and body of an answer of the service."""
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        asked = json.dumps([f"http://127.0.0.1{path}", headers, body])
        found = json.loads(self.run("python3", "-c", CALL, input=asked))
        return found[0], found[1]

    def follows(self, lines: list[str]) -> str:
        """Run lines of the README as root in /srv, and return what they print."""
        script = "\n".join(["set -e", "cd /srv", *lines]).replace("sudo ", "")
        return self.run("sh", "-c", script)

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def unit(self, name: str, unit: str = "catalogd") -> str:
        """Return a property of the service, such as its MainPID."""
        return self.run("systemctl", "show", "-P", name, unit).strip()

    @contextlib.contextmanager
    def drop_in(self, text: str) -> Iterator[None]:
        path = "/etc/systemd/system/catalogd.service.d/test.conf"
        self.write(path, text)
        try:
            self.reload()
            yield
        finally:
            (self.root / path.lstrip("/")).unlink()
            self.reload()

    def reload(self) -> None:
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "restart", "catalogd")

    def sources(self, key: str) -> set[str]:
        """Return the paths of all entries."""
        body = self.call(":6069/api/list", Authorization=f"Bearer {key}")[1]
        return {entry["source"] for entry in json.loads(body)["entries"]}


class Page:
    """Calls of the page, in a session of anna's."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        body = {"username": "anna", "password": "correct horse"}
        headers = machine.call(":6069/web/login", body)[0]
        self.cookie = headers["Set-Cookie"].partition(";")[0]

    def call(self, path: str, body: Any = None) -> Any:
        return json.loads(
            self.machine.call(f":6069{path}", body, Cookie=self.cookie)[1]
        )

    def send(self, name: str, device: str) -> None:
        """Send the entry to the device, by their names."""
        found = {}
        for path, part in {"entries": "entries", "changes": "devices"}.items():
            rows = self.call(f"/web/{path}")[part]
            found[part] = {row["name"]: row["id"] for row in rows}
        body = {"entry_id": found["entries"][name], "device": found["devices"][device]}
        self.call("/api/send-to-switch", body)


@pytest.fixture
def page(machine: Machine) -> Page:
    return Page(machine)


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """Build the package of this version and of a later one."""
    need("dpkg-buildpackage", "dh")
    folder = tmp_path_factory.mktemp("debs")
    later = changed_tree(folder / "later", "99.0")
    changelog = later / "packaging/debian/changelog"
    changelog.write_text(re.sub(r"\(.*?\)", "(99.0)", changelog.read_text(), count=1))
    return built(TOP, folder), built(later, folder)


def built(tree: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    command = [sys.executable, tree / "packaging/build.py", "deb", "--to", to]
    return pathlib.Path(run(*command).strip())


def changed_tree(tree: pathlib.Path, version: str) -> pathlib.Path:
    """Copy the project, with another version in it."""
    program = copied_tree(tree) / "catalogd.py"
    text = re.sub(
        r"(?m)^__version__ = .*", f'__version__ = "{version}"', program.read_text()
    )
    program.write_text(text)
    return tree


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, debian: Debian
) -> Iterator[Machine]:
    need("systemd-nspawn", "unshare", "nsenter", root=True)
    folder = tmp_path_factory.mktemp("machine")
    root = folder / "root"
    root.mkdir()
    run("tar", "-C", root, "-xpf", debian.service)
    console = folder / "console"
    with open(console, "wb") as output:
        nspawn = subprocess.Popen(
            [*APART, *BOOT.split(), str(root)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield Machine(root, nspawn, console)
    finally:
        nspawn.terminate()
        nspawn.wait(60)
        shutil.rmtree(root)


def test_a_changelog_of_another_version_is_an_error(tmp_path: pathlib.Path) -> None:
    build = changed_tree(tmp_path / "other", "98.0") / "packaging/build.py"
    done = subprocess.run([sys.executable, build, "deb"], capture_output=True)
    assert done.returncode == 1
    assert b"catalogd.py is 98.0, packaging/debian/changelog is" in done.stderr


def test_lintian_finds_no_error_and_no_warning(debs: tuple[pathlib.Path, ...]) -> None:
    need("lintian")
    printed = run("lintian", "--allow-root", "--fail-on=error,warning", debs[0])
    assert not re.search("^[EW]:", printed, re.MULTILINE), printed


@pytest.mark.parametrize("name", ["catalogd.service", "send-to-switch@.service"])
def test_the_service_is_exposed_as_little_as_promised(name: str) -> None:
    need("systemd-analyze")
    unit = TOP / "packaging/debian" / name
    run("systemd-analyze", "security", "--offline=true", "--threshold=15", unit)


@pytest.mark.parametrize("page", ["catalogd.1", "send-to-switch.1"])
def test_a_man_page_is_formatted_without_a_warning(page: str) -> None:
    need("man")
    path = TOP / "packaging/debian" / page
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    # man also warns of a language that is not installed, and of narrow terminals.
    command = ["env", "LC_ALL=C.UTF-8", "MANWIDTH=80", "man", "--warnings", "-l", path]
    done = subprocess.run(command, text=True, **options)
    assert (done.returncode, done.stderr) == (0, "")


def test_installing_starts_the_service_and_prints_where_the_setup_code_is(
    machine: Machine, debs: tuple[pathlib.Path, ...]
) -> None:
    (machine.root / "srv/dist").mkdir()
    shutil.copy(debs[0], machine.root / "srv/dist")
    printed = machine.follows(readme("| **Raspberry Pi OS")[2:])
    assert machine.unit("ActiveState") == "active", "systemd had its READY=1"
    [command] = re.findall("sudo (journalctl .*)", printed)
    code = machine.wait_for(lambda: machine.does("sh", "-c", command))
    [code] = re.findall("#setup=(.*)", code)
    body = {"code": code, "username": "anna", "password": "correct horse"}
    headers = machine.call(":6069/web/setup", body)[0]
    assert headers["Set-Cookie"].startswith("session=")


def test_a_group_may_copy_files_to_the_library_folder(machine: Machine) -> None:
    made = machine.run("stat", "-c", "%G %a", "/srv/games")
    assert made == "games-admin 2775\n"


def test_the_check_up_finds_nothing_wrong(machine: Machine) -> None:
    lines = machine.run("catalogd", "check").splitlines()
    assert len(lines) == 3
    assert all(" ok: " in line for line in lines)


def test_the_service_has_the_languages_of_the_page(machine: Machine) -> None:
    me = json.loads(machine.call(":6069/web/me")[1])
    assert [*me["languages"]] == LANGUAGES


def test_the_package_has_the_demo(machine: Machine) -> None:
    """It ends by SIGTERM, and leaves nothing."""
    script = "timeout --signal=TERM 20 catalogd serve --demo --port 6070; echo $?"
    printed = machine.does("sh", "-c", f"{script}; ls /tmp | grep catalogd-demo")
    assert len(re.findall("http://127.0.0.1:6070/demo/", printed)) == 2
    assert printed.endswith("\n124\n")


def test_a_wrong_setting_is_an_error_in_the_journal_and_not_tried_again(
    machine: Machine,
) -> None:
    path = machine.root / "etc/catalogd/catalogd.ini"
    before = path.read_text()
    path.write_text("[library]\nfolders =\n/srv/games\n")
    machine.does("systemctl", "restart", "catalogd")
    assert machine.unit("ActiveState") == "failed"
    assert machine.unit("ExecMainStatus") == "78"
    errors = ["journalctl", "--unit=catalogd", "--priority=err"]
    machine.wait_for(lambda: "catalogd.ini: line 3: " in machine.run(*errors))
    path.write_text(before)
    machine.run("systemctl", "restart", "catalogd")


def test_the_page_is_announced_on_the_network(machine: Machine) -> None:
    journal = ["journalctl", "--unit=avahi-daemon"]
    said = "/services/catalogd.service) successfully established"
    machine.wait_for(lambda: said in machine.run(*journal))


def test_a_command_of_root_leaves_all_files_to_the_service(
    machine: Machine,
) -> None:
    body = {"username": "ben", "password": "battery staple"}
    add = ["catalogd", "user", "add", "ben", "--password-stdin"]
    machine.run(*add, input=body["password"])
    assert machine.run("find", "/var/lib/catalogd", "!", "-user", "catalogd") == ""
    assert "session=" in machine.call(":6069/web/login", body)[0]["Set-Cookie"]


@pytest.fixture(scope="module")
def key(machine: Machine) -> str:
    return machine.run("catalogd", "key", "add", "anna", "test").strip()


def test_folders_below_srv_mnt_and_media_are_served(machine: Machine, key: str) -> None:
    folders = ["/srv/games", "/mnt/nas", "/media/disk"]
    files = {f"{folder}/{folder[1]}.nsp" for folder in folders}
    for path in files:
        machine.write(path, "bytes")
    rows = "\n    ".join(["folders =", *folders])
    ini = f"[library]\nscan_interval = 1\n{rows}\n"
    machine.write("/etc/catalogd/catalogd.ini", ini)
    machine.run("systemctl", "restart", "catalogd")
    machine.wait_for(lambda: machine.sources(key) == files)
    entry = json.loads(machine.call(f":6069/api/list?api_key={key}")[1])["entries"][0]
    download = machine.call(f":6069/api/download/{entry['id']}?api_key={key}")
    assert download[1] == "bytes"


def test_the_service_sends_to_a_console(machine: Machine, page: Page) -> None:
    """In its sandbox, which also allows for the search."""
    shutil.copy(TOP / "tests/ftpsrv.py", machine.root / "srv")
    run_console = ["python3", "/srv/ftpsrv.py", "/srv/console", "5000"]
    machine.run("mkdir", "/srv/console")
    machine.run("systemd-run", "--unit=console", *run_console)
    assert page.call("/web/consoles", {})["consoles"] == [], "there is no network"
    console = {"name": "Attic", "target": "ftp://127.0.0.1:5000/"}
    page.call("/web/devices", console)
    page.send("s", "Attic")
    file = machine.root / "srv/console/s.nsp"
    machine.wait_for(lambda: file.exists() and file.read_text() == "bytes")


def test_a_user_runs_the_client_as_a_service_for_a_card(
    machine: Machine, page: Page
) -> None:
    """By the lines of packaging/debian.md, with another folder."""
    machine.run("useradd", "--create-home", "emil")
    machine.run("install", "-d", "-o", "emil", "/srv/card")
    code = page.call("/web/pairing", {})["code"]
    pair, *lines, linger, enable = readme("A card in a reader is written")
    pair = pair.replace("482-915", code).replace("/media/SDCARD", "/srv/card")
    linger = linger.replace("sudo ", "").replace("$USER", "emil")
    machine.run(*linger.split())
    number = machine.run("id", "-u", "emil").strip()
    folder = f"/run/user/{number}"
    is_up = ["sh", "-c", f"test -S {folder}/systemd/private && echo yes"]
    machine.wait_for(lambda: machine.does(*is_up))
    own = f"export XDG_RUNTIME_DIR={folder}"
    script = "; ".join(["set -e; cd", own, pair, *lines, enable])
    machine.run("su", "emil", "-c", script)
    page.send("s", "Card reader")
    machine.wait_for((machine.root / "srv/card/s.nsp").exists)
    owner = machine.run("stat", "-c", "%U", "/srv/card/s.nsp")
    assert owner.strip() == "emil"


def test_a_user_runs_catalogd_as_a_service(machine: Machine) -> None:
    """By the lines of packaging/install.md, with another port, and after pipx has put
    the program where the service expects it."""
    _, install, enable, _ = readme("## Another Linux")
    unit = "packaging/autostart/catalogd.service"
    machine.write(f"/srv/{unit}", (TOP / unit).read_text())
    number = machine.run("id", "-u", "emil").strip()
    script = f"""set -e; cd; mkdir -p .local/bin .config/catalogd Games
        printf '#!/bin/sh\\nexec python3 /usr/share/catalogd/catalogd.py "$@"\\n' \\
            >.local/bin/catalogd
        chmod +x .local/bin/catalogd
        printf '[server]\\nport = 6070\\n' >.config/catalogd/catalogd.ini
        export XDG_RUNTIME_DIR=/run/user/{number}; cd /srv; {install}; {enable}"""
    machine.run("su", "emil", "-c", script)
    assert json.loads(machine.call(":6070/healthz")[1])["success"]
    stop = f"XDG_RUNTIME_DIR=/run/user/{number} systemctl --user disable --now catalogd"
    machine.run("su", "emil", "-c", stop)


def test_the_backup_and_restore_of_the_readme_work(machine: Machine, key: str) -> None:
    machine.follows(readme("**Backup**"))
    machine.run("catalogd", "user", "remove", "ben")
    before = machine.call(f":6069/api/list?api_key={key}")[1]
    machine.follows(readme("**Restore**"))
    assert "ben" in machine.run("catalogd", "user", "list")
    machine.wait_for(lambda: machine.call(f":6069/api/list?api_key={key}")[1] == before)
    assert machine.run("find", "/var/lib/catalogd", "!", "-user", "catalogd") == ""


def test_a_disk_that_is_mounted_later_is_scanned(machine: Machine, key: str) -> None:
    machine.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/mnt/nas")
    machine.run("sh", "-c", "echo bytes >/mnt/nas/later.nsp")
    machine.wait_for(lambda: "/mnt/nas/later.nsp" in machine.sources(key))
    # A scan, which begins each second, may be in it.
    machine.wait_for(lambda: machine.does("umount", "/mnt/nas") == "")
    machine.wait_for(lambda: "/mnt/nas/m.nsp" in machine.sources(key))


def test_the_drop_in_for_home_makes_it_readable(machine: Machine, key: str) -> None:
    machine.run("useradd", "--create-home", "carl")
    machine.run("su", "carl", "-c", "mkdir -m 700 ~/games; echo x >~/games/h.nsp")
    ini = machine.root / "etc/catalogd/catalogd.ini"
    before = ini.read_text()
    ini.write_text(f"{before}    /home/carl/games\n")
    drop_in = (TOP / "packaging/debian/examples/home.conf").read_text()
    home = "/home/carl/games/h.nsp"
    with machine.drop_in(drop_in.replace("User=NAME", "User=carl")):
        machine.wait_for(lambda: home in machine.sources(key))
        machine.run("catalogd", "user", "list")
        assert machine.run("find", "/var/lib/catalogd", "!", "-user", "carl") == ""
    ini.write_text(before)
    machine.run("systemctl", "restart", "catalogd")
    assert machine.run("find", "/var/lib/catalogd", "!", "-user", "catalogd") == ""


def test_check_names_what_the_sandbox_hides_and_what_is_missing(
    machine: Machine,
) -> None:
    machine.run("useradd", "--create-home", "dora")
    machine.run("su", "dora", "-c", "mkdir ~/games; chmod o+x ~; touch ~/games/h.nsp")
    ini = machine.root / "etc/catalogd/catalogd.ini"
    before = ini.read_text()
    ini.write_text(f"{before}    /home/dora/games\n    /mnt/none\n")
    machine.run("systemctl", "restart", "catalogd")
    hidden = "/home/dora/games is offline: Debian's service reads nothing below /home."
    missing = "/mnt/none does not exist yet."

    def is_told() -> bool:
        found = machine.does("catalogd", "check")
        return hidden in found and missing in found

    machine.wait_for(is_told)
    ini.write_text(before)
    machine.run("systemctl", "restart", "catalogd")


def test_the_drop_in_for_port_80_listens_there(machine: Machine) -> None:
    machine.follows(readme("listen on port 80 too,"))
    for address in ("/", ":6069/"):
        assert "catalogd" in machine.call(address)[1]
    found = machine.does("catalogd", "check")  # an earlier test took a disk away
    assert "service   ok: http://127.0.0.1:6069/ serves /" in found
    owner = machine.run("stat", "-c", "%U", f"/proc/{machine.unit('MainPID')}")
    assert owner.strip() == "catalogd"
    machine.run("rm", "/etc/systemd/system/catalogd.service.d/port-80.conf")
    machine.reload()


@pytest.mark.parametrize("path", ["/srv/games", "/mnt/nas", "/etc", "/usr", "/var/log"])
def test_the_sandbox_allows_writing_to_the_state_folder_only(
    machine: Machine, path: str
) -> None:
    enter = ["nsenter", "--mount", f"--target={machine.unit('MainPID')}"]
    printed = machine.does(*enter, "touch", f"{path}/it")
    assert "Read-only file system" in printed
    machine.run(*enter, "touch", "/var/lib/catalogd/it")
    machine.run("rm", "/var/lib/catalogd/it")


def test_the_sandbox_hides_home(machine: Machine) -> None:
    enter = ["nsenter", "--mount", f"--target={machine.unit('MainPID')}"]
    assert machine.run(*enter, "ls", "-A", "/home") == ""


def test_a_killed_service_comes_back(machine: Machine, key: str) -> None:
    before = machine.unit("MainPID")
    machine.run("sh", "-c", f"kill -9 {before}")
    machine.wait_for(lambda: machine.unit("MainPID") not in ("0", before))
    machine.wait_for(lambda: machine.unit("ActiveState") == "active")
    assert len(machine.sources(key)) == 3


def test_a_service_that_hangs_is_ended_by_the_watchdog(machine: Machine) -> None:
    machine.write("/srv/hang.py", HANG)
    start = "/usr/bin/env CATALOGD_CONFIG=/etc/catalogd/catalogd.ini"
    start += " CATALOGD_DATA_DIR=/var/lib/catalogd /usr/bin/python3 /srv/hang.py serve"
    rows = [
        "[Service]",
        "WatchdogSec=3",
        "RestartSec=1",
        "ExecStart=",
        f"ExecStart={start}",
    ]
    with machine.drop_in("\n".join(rows)):
        before = machine.unit("MainPID")
        machine.write("/srv/hang", "")
        machine.wait_for(lambda: machine.unit("ActiveState") != "active")
        (machine.root / "srv/hang").unlink()
        machine.wait_for(lambda: machine.unit("ActiveState") == "active")
        assert machine.unit("MainPID") != before
    journal = ["journalctl", "--unit=catalogd"]
    machine.wait_for(lambda: "Watchdog timeout" in machine.run(*journal))


def test_stopping_is_clean_and_quick(machine: Machine) -> None:
    machine.run("systemctl", "stop", "catalogd")
    assert machine.unit("Result") == "success"
    assert machine.unit("ExecMainStatus") == "0"
    machine.run("systemctl", "start", "catalogd")


@pytest.fixture(scope="module")
def client(machine: Machine) -> None:
    """Make a client a service, as an earlier release of the package did."""
    code = Page(machine).call("/web/pairing", {})["code"]
    pair = ["pair", "http://127.0.0.1:6069", code, "--to", "folder:/srv/living"]
    config = ["--config", "/etc/catalogd/send-to-switch/living-room.ini"]
    machine.run("send-to-switch", *pair, "--name", "Living room", *config)
    machine.run("systemctl", "enable", CLIENT)


def test_an_upgrade_keeps_the_data_and_restarts(
    machine: Machine, debs: tuple[pathlib.Path, ...], key: str, client: None
) -> None:
    before = machine.unit("MainPID")
    ini = machine.run("cat", "/etc/catalogd/catalogd.ini")
    shutil.copy(debs[1], machine.root / "srv")
    printed = machine.run("apt-get", "install", "-y", f"/srv/{debs[1].name}")
    assert "setup=" not in printed, "there is an account already"
    assert machine.unit("MainPID") != before
    assert machine.unit("MainPID", CLIENT) != "0"
    assert json.loads(machine.call(":6069/healthz")[1])["version"] == "99.0"
    assert len(machine.sources(key)) == 3
    assert machine.run("cat", "/etc/catalogd/catalogd.ini") == ini


def test_a_client_that_is_a_service_goes_on(machine: Machine, page: Page) -> None:
    """With the drop-in that its owner has for the folder."""
    owner = ["stat", "-c", "%U", f"/proc/{machine.unit('MainPID', CLIENT)}"]
    assert machine.run(*owner).strip() == "send-to-switch"
    told = "There is no folder /srv/living. Is the card in?"
    journal = ["journalctl", f"--unit={CLIENT}"]
    machine.wait_for(lambda: told in machine.run(*journal))
    machine.run("install", "-d", "-o", "send-to-switch", "/srv/living")
    machine.write(DROP_IN, "[Service]\nReadWritePaths=-/srv/living\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", CLIENT)
    page.send("s", "Living room")
    machine.wait_for((machine.root / "srv/living/s.nsp").exists)


def test_removing_keeps_the_data_and_the_settings(machine: Machine) -> None:
    machine.run("apt-get", "remove", "-y", "catalogd")
    for unit in ("catalogd", CLIENT):
        assert machine.does("systemctl", "is-active", unit).strip() != "active"
    kept = {path.name for path in (machine.root / "var/lib/catalogd").iterdir()}
    assert "catalogd.db" in kept
    assert (machine.root / "etc/catalogd/catalogd.ini").exists()


def test_a_package_that_is_installed_again_finds_its_data(
    machine: Machine, debs: tuple[pathlib.Path, ...], key: str
) -> None:
    machine.run("apt-get", "install", "-y", f"/srv/{debs[1].name}")
    assert len(machine.sources(key)) == 3
    assert machine.unit("ActiveState", CLIENT) == "active"


def test_purging_removes_everything_but_the_games(machine: Machine) -> None:
    nobody = {"stdin": subprocess.DEVNULL}
    machine.run("apt-get", "purge", "-y", "catalogd", **nobody)
    wanted = f"etc/systemd/system/multi-user.target.wants/{CLIENT}"
    paths = ("var/lib/catalogd", "var/lib/send-to-switch", "etc/catalogd", wanted)
    left = [machine.root / path for path in paths]
    assert [path for path in left if path.exists() or path.is_symlink()] == []
    assert (machine.root / "srv/games/s.nsp").exists()
