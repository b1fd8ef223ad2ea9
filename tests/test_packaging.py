"""What the installed forms need: systemd, a Windows console, nginx, the metadata."""

import ast
import configparser
import contextlib
import email.utils
import errno
import http.client
import io
import json
import ntpath
import os
import pathlib
import plistlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import send_to_switch
from conftest import free_port, skip, wait_for

TOP = pathlib.Path(__file__).parent.parent


# Metadata ---------------------------------------------------------------------


def setup_cfg() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read(TOP / "setup.cfg")
    return found


def script_metadata(path: pathlib.Path) -> dict[str, Any]:
    """Return the `# /// script` block of a file, by the pattern of PEP 723."""
    pattern = r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$"
    [block] = re.finditer(pattern, path.read_text())
    rows = block["content"].splitlines()
    return tomllib.loads("\n".join(row[2:] for row in rows))


def requirements(text: str) -> set[tuple[str, str, str]]:
    """Return each bound in lines such as `a>=1,<2`: the package, `>=` or `<`, and the
    version. A package without a bound has two empty texts."""
    found = set()
    for line in text.split():
        [name] = re.findall(r"^[\w-]+", line)
        bounds = re.findall(r"([<>]=?)([\d.]+)", line) or [("", "")]
        found |= {(name, sign, version) for sign, version in bounds}
    return found


def debian_relations(field: str) -> set[tuple[str, str, str]]:
    """Return each bound on a package of Python in a field of the control file, in the
    form of `requirements`."""
    control = (TOP / "packaging/debian/control").read_text()
    [text] = re.findall(rf"(?m)^{field}: (.*(?:\n .*)*)", control)
    found = re.findall(r"\bpython3-([\w-]+)(?: \((>=|<<) ([\d.]+)\))?", text)
    return {(name, sign.replace("<<", "<"), version) for name, sign, version in found}


def test_the_service_needs_the_same_packages_in_each_form() -> None:
    metadata = script_metadata(TOP / "catalogd.py")
    options = setup_cfg()["options"]
    needed = requirements(options["install_requires"])
    assert ("waitress", "<", "4") in needed
    extras = requirements(setup_cfg()["options.extras_require"]["qr"])
    assert requirements("\n".join(metadata["dependencies"])) == needed | extras
    assert debian_relations("Depends") == needed
    assert debian_relations("Recommends") == extras
    container = (TOP / "packaging/Containerfile").read_text()
    installed = {*re.findall(r"python3-(\w+)", container)}
    assert installed == {name for name, *_ in needed | extras}


def test_the_client_needs_a_part_of_these_packages() -> None:
    metadata = script_metadata(TOP / "send_to_switch.py")
    needed = requirements(setup_cfg()["options"]["install_requires"])
    assert requirements("\n".join(metadata["dependencies"])) <= needed


def test_each_form_needs_the_same_python() -> None:
    python = setup_cfg()["options"]["python_requires"]
    for name in ("catalogd.py", "send_to_switch.py"):
        assert script_metadata(TOP / name)["requires-python"] == python
    control = (TOP / "packaging/debian/control").read_text()
    assert f"python3 ({python.replace('>=', '>= ')})" in control


@pytest.mark.parametrize(
    "words", [row.path for row in catalogd.COMMANDS], ids=lambda words: words
)
def test_the_man_page_has_every_command_and_its_options(words: str) -> None:
    page = (TOP / "packaging/debian/catalogd.1").read_text().replace("\\-", "-")
    [options] = [row.arguments for row in catalogd.COMMANDS if row.path == words]
    named = re.search(rf'(?m)^\.BR? "?{words}(?!\w).*', page)
    assert named, f"the man page lacks {words}"
    for name, _ in options:
        assert not name.startswith("-") or name in named[0]


def test_the_man_page_and_the_reference_have_no_other_command() -> None:
    known = {row.path for row in catalogd.COMMANDS}
    page = (TOP / "packaging/debian/catalogd.1").read_text()
    page = page.partition(".SH COMMANDS")[2].partition(".SH OPTIONS")[0]
    found = re.findall(r'(?m)^\.TP\n\.BR? "?([a-z]+(?: [a-z]+)?)', page)
    assert {*found} == known
    text = (TOP / "packaging/reference.md").read_text(encoding="utf-8")
    lines = text.partition("## Commands")[2].partition("\n##")[0]
    rows = re.findall(r"(?m)^    ([a-z]+(?: [a-z]+)?)", lines)
    assert {*rows} == known


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("CHANGELOG.md", r"^## (\S+) \(.*\)$"),
        ("README.md", r"catalogd[_ ]([\d.]+)(?:_all\.deb| serves)"),
        ("packaging/debian/changelog", r"\Acatalogd \((.*)\) "),
        ("packaging/debian/catalogd.1", r'\A.* "catalogd (.*?)" '),
        ("packaging/debian/send-to-switch.1", r'\A.* "catalogd (.*?)" '),
    ],
)
def test_everything_is_of_one_version(name: str, pattern: str) -> None:
    found = re.findall(pattern, (TOP / name).read_text(encoding="utf-8"), re.MULTILINE)
    newest = found[:1] if name == "CHANGELOG.md" else found
    assert set(newest) == {catalogd.__version__}


def test_the_changelogs_have_the_same_versions_and_dates() -> None:
    """The page of a release tells users, Debian's changelog tells apt."""
    heads = re.findall(
        r"(?m)^## (\S+) \((.*)\)$", (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
    )
    text = (TOP / "packaging/debian/changelog").read_text(encoding="utf-8")
    days = re.findall(r"(?m)^ -- .*>  (.*)$", text)
    dates = [str(email.utils.parsedate_to_datetime(day).date()) for day in days]
    versions = re.findall(r"(?m)^catalogd \((.*)\) ", text)
    assert heads == list(zip(versions, dates, strict=True))


def unit(name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the settings of a unit file by section, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (TOP / "packaging/debian" / name).read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            found[heading[1]] = rows = []
        elif line and not line.startswith("#"):
            setting, equals, value = line.partition("=")
            assert equals, line
            rows.append((setting, value))
    return found


def test_the_service_notifies_and_restarts() -> None:
    service = unit("catalogd.service")["Service"]
    promised = {("Type", "notify"), ("RestartSec", "5"), ("Restart", "always")}
    assert promised <= set(service)
    assert float(dict(service)["WatchdogSec"]) >= 3 * catalogd.MAX_ANSWER_SECONDS


@pytest.mark.parametrize(
    "name", ["home.conf", "inbox.conf", "saves.conf", "port-80.conf"]
)
def test_a_drop_in_changes_the_service_section_only(name: str) -> None:
    assert set(unit(f"examples/{name}")) == {"Service"}


def test_the_drop_in_for_port_80_keeps_the_port_of_paired_devices() -> None:
    [_, (_, command)] = unit("examples/port-80.conf")["Service"][:2]
    [(_, before)] = [
        row for row in unit("catalogd.service")["Service"] if row[0] == "ExecStart"
    ]
    assert command == f"{before} --also 80"


def test_the_ini_file_of_the_package_is_valid() -> None:
    path = str(TOP / "packaging/debian/catalogd.ini")
    assert catalogd.Settings.read(path).folders == ("/srv/games",)


def test_the_announced_port_is_the_default() -> None:
    tree = xml.etree.ElementTree.parse(TOP / "packaging/debian/avahi/catalogd.service")
    assert tree.findtext("service/port") == str(catalogd.Settings().port)
    assert tree.findtext("service/type") == "_http._tcp"


@pytest.mark.parametrize(
    ("example", "files", "calls"),
    [
        ("nginx.conf", "location %s/srv/games/ {", "location %s/ {"),
        ("Caddyfile", "header X-Accel-Redirect %s/srv/games/*", "handle_path %s/* {"),
    ],
)
def test_the_settings_in_the_example_for_a_proxy_are_valid(
    tmp_path: pathlib.Path, example: str, files: str, calls: str
) -> None:
    text = (TOP / "packaging" / example).read_text()
    ini = tmp_path / "catalogd.ini"
    ini.write_text("\n".join(re.findall(r"(?m)^#     (.*)$", text)))
    found = catalogd.Settings.read(str(ini))
    assert files % found.accel_redirect in text
    assert calls % urllib.parse.urlsplit(found.base_url).path in text


def test_the_spec_of_the_executable_is_python() -> None:
    path = TOP / "packaging/catalogd.spec"
    names = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert names >= {"Analysis", "PYZ", "EXE"}


def test_the_spec_of_the_executable_fails_without_the_packages() -> None:
    """PyInstaller itself would build a program that cannot start."""
    run = "import sys; exec(open(sys.argv[1]).read(), {'SPECPATH': ''})"
    command = [sys.executable, "-I", "-S", "-c", run, TOP / "packaging/catalogd.spec"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pipx inject pyinstaller bottle platformdirs segno waitress" in done.stderr


def test_the_packages_of_the_archive_and_the_executable_are_within_the_bounds() -> None:
    text = (TOP / "packaging/requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"(?m)^([\w-]+)==([\d.]+) ", text))
    options = setup_cfg()
    bounds = requirements(options["options"]["install_requires"])
    bounds |= requirements(options["options.extras_require"]["qr"])
    assert pinned.keys() == {name for name, _, _ in bounds}
    for name, sign, bound in bounds:
        version, limit = (
            tuple(map(int, text.split("."))) for text in (pinned[name], bound)
        )
        assert (version >= limit) == (sign == ">=")


# What Windows lacks -----------------------------------------------------------

POSIX_MODULES = {
    *("crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline"),
    *("resource", "spwd", "syslog", "termios", "tty"),
}
POSIX_ONLY = {
    "os": """WNOHANG chown chroot confstr ctermid fchdir fchmod fchown fork forkpty
        fpathconf fstatvfs fwalk getegid geteuid getgid getgrouplist getgroups
        getloadavg getpgid getpgrp getpriority getresgid getresuid getsid getuid
        initgroups killpg lchown
        lockf major makedev minor mkfifo mknod nice openpty pathconf pipe2
        posix_fadvise posix_fallocate
        posix_spawn pread preadv pwrite pwritev readv register_at_fork
        sched_getaffinity sched_yield sendfile setegid seteuid setgid setgroups setpgid
        setpriority setregid setresgid setresuid setreuid setsid setuid statvfs sync
        sysconf tcgetpgrp ttyname uname wait waitid writev O_CLOEXEC O_DIRECTORY
        O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC""",
    "signal": """SIGALRM SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGQUIT SIGSTOP
        SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH alarm pause pthread_kill pthread_sigmask
        setitimer siginterrupt sigpending sigwait sigwaitinfo sigtimedwait""",
    "socket": """AF_UNIX AF_NETLINK AF_PACKET SO_REUSEPORT send_fds recv_fds sethostname
        if_nametoindex socketpair_unix""",
    "select": "poll epoll kqueue devpoll",
    "time": "tzset clock_settime pthread_getcpuclockid",
    "asyncio": "add_signal_handler create_unix_server open_unix_connection",
}
# What happens on Windows instead.
FALLBACKS = {
    "os.geteuid": "a Windows folder has no owner to become",
    "os.fchmod": "Windows has neither modes nor groups of files",
    "os.fchown": "as fchmod",
    "os.getgrouplist": "as geteuid",
    "os.setgroups": "as geteuid",
    "os.setgid": "as geteuid",
    "os.setuid": "as geteuid",
    "os.major": "the device is the serial number of the disk",
    "os.minor": "as major",
    "os.statvfs": "as major",
    "os.O_CLOEXEC": "left out of the flags: Windows does not inherit files",
    "os.O_NOFOLLOW": "left out of the flags",
    "os.O_NONBLOCK": "left out of the flags: Windows has no named pipes in folders",
    "os.posix_fadvise": "the system decides how far to read ahead",
    "os.sendfile": "the bytes are read and written",
    "select.poll": "the mount table is Linux's",
    "select.epoll": "waitress's own loop waits for the sockets",
    "socket.AF_UNIX": "there is no systemd to talk to",
}
OURS = [
    path for name in ("catalogd", "send_to_switch") for path in TOP.glob(f"{name}.py")
]


def posix_only(tree: ast.AST) -> set[str]:
    """Return names that Windows lacks, used as `os.fork` or as a string that is no key
    of a table."""
    names = {
        (module, name) for module, text in POSIX_ONLY.items() for name in text.split()
    }
    plain = {name: module for module, name in names}
    tables = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    keys = {key for table in tables for key in table.keys}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {(node.value.id, node.attr)} & names
        elif node in keys or not isinstance(node, ast.Constant):
            continue
        elif str(node.value) in plain:
            found.add((plain[str(node.value)], str(node.value)))
    return {f"{module}.{name}" for module, name in found}


def with_fallback(tree: ast.AST) -> set[str]:
    """Return modules that are imported in a `try` with `except ImportError`."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        and any(ast.unparse(row.type or node) == "ImportError" for row in node.handlers)
        for line in node.body
        if isinstance(line, ast.Import)
        for alias in line.names
    }


def on_linux_alone(tree: ast.AST) -> set[str]:
    """Return modules that a function imports after it has returned on Windows, and
    perhaps on other systems."""
    returns = ("if sys.platform != 'linux':", "if sys.platform == 'win32' or ")
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(row).startswith(returns) for row in node.body)
        for line in node.body
        if isinstance(line, ast.Import)
        for alias in line.names
    }


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_no_imported_module_is_missing_on_windows(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported = {
        alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names
    }
    imported |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}
    assert imported & POSIX_MODULES <= with_fallback(tree) | on_linux_alone(tree)


def test_every_function_that_windows_lacks_has_a_fallback() -> None:
    used = set().union(*(posix_only(ast.parse(path.read_text())) for path in OURS))
    assert used <= set(FALLBACKS)


def test_a_library_is_scanned_without_the_functions_that_windows_lacks(
    tmp_path: pathlib.Path, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("Celeste.nsp")
    usage = shutil.disk_usage(tmp_path)  # for which Windows has a way of its own
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    for name in FALLBACKS:
        module, attribute = name.split(".")
        monkeypatch.delattr(sys.modules[module], attribute, raising=False)
    monkeypatch.setattr(os, "supports_dir_fd", set())
    monkeypatch.setattr(sys, "platform", "win32")
    data = str(tmp_path / "data")
    ini = tmp_path / "catalogd.ini"
    ini.write_text(f"[library]\nfolders = {library.folder}\n")
    monkeypatch.setenv("CATALOGD_DATA_DIR", data)
    assert catalogd.main(["scan", "--config", str(ini)]) == 0
    assert catalogd.main(["key", "list", "--data-dir", data]) == 0
    catalogd.notify("READY=1")
    store = catalogd.Store(data)
    assert store.entries.count(catalogd.EVERYTHING) == 1
    store.close()


@pytest.mark.parametrize("program", [catalogd, send_to_switch])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_redirected_output_is_utf8_on_windows(
    name: str, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default it has the code page of old programs, which lacks most letters."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit):
        program.main(["--version"])
    assert stream.encoding == "utf-8"


# Folders and names of Windows -------------------------------------------------


@pytest.mark.parametrize(
    ("given", "served"),
    [
        (["D:"], ["D:\\"]),
        (["D:\\"], ["D:\\"]),
        (["d:/games", "D:\\Games\\"], ["D:\\Games"]),
        (["D:\\Games", "D:\\Games\\NSP"], ["D:\\Games"]),
        (["D:\\", "d:\\games"], ["D:\\"]),
        (["\\\\nas\\games"], ["\\\\nas\\games\\"]),
        (["//nas/games/nsp", "\\\\NAS\\games\\nsp\\new"], ["\\\\nas\\games\\nsp"]),
        (["C:\\Games", "C:\\Games2"], ["C:\\Games", "C:\\Games2"]),
    ],
)
def test_windows_folders_are_absolute_and_each_is_served_once(
    given: list[str], served: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "path", ntpath)
        found = catalogd.library_folders(given)
    assert found == served


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("CON", "_CON.nsp"),
        ("nul.backup", "_nul.backup.nsp"),
        ("Com1 ", "_Com1.nsp"),
        ("Contra", "Contra.nsp"),
        ("Com10", "Com10.nsp"),
        ("a:b", "a_b.nsp"),
    ],
)
def test_the_file_name_of_a_link_is_never_a_device_of_windows(
    name: str, safe: str
) -> None:
    assert catalogd.file_name({"type": "url", "name": name, "file_type": "nsp"}) == safe


def test_a_device_is_not_a_file() -> None:
    with pytest.raises(OSError, match="is not a file"):
        catalogd.open_file(os.devnull, os.path.dirname(os.devnull))


# systemd ----------------------------------------------------------------------


class Systemd:
    """The socket that systemd receives notifications at."""

    def __init__(self, address: str) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.link.bind(address)
        self.link.settimeout(30)

    def receive(self) -> list[str]:
        return self.link.recv(4096).decode().split("\n")


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "150000")
    found = Systemd(path)
    yield found
    found.link.close()


@contextlib.contextmanager
def beating(url: str) -> Iterator[None]:
    thread = catalogd.heartbeat(f"{url}/")
    thread.start()
    try:
        yield
    finally:
        thread.stop()


class Server:
    """A server at a port, while a function runs."""

    def __init__(self, url: str, run: Callable[[], Any]) -> None:
        self.effective_port = self.shown_port = urllib.parse.urlsplit(url).port
        self._run = run

    def run(self) -> bool:
        self._run()
        return True


def test_systemd_is_notified_while_the_service_answers(
    systemd: Systemd, service: catalogd.Web, serve: Callable[[catalogd.Web], str]
) -> None:
    with beating(serve(service)):
        beats = [systemd.receive(), systemd.receive()]
    assert beats == [["READY=1", "WATCHDOG=1"]] * 2


def test_systemd_is_notified_when_the_service_stops(
    systemd: Systemd,
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    server = Server(serve(service), systemd.receive)
    catalogd.run(server, service.scanner, service)
    found = [systemd.receive()]
    while found[-1] != ["STOPPING=1"]:
        found.append(systemd.receive())
    # Its last words may have had to wait until the ones before were received.
    wait_for(lambda: "heartbeat" not in {each.name for each in threading.enumerate()})


def test_a_service_that_hangs_does_not_notify_systemd(
    systemd: Systemd,
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hang, asked = threading.Event(), threading.Event()

    def version() -> int:
        asked.set()
        hang.wait(30)
        return 0

    monkeypatch.setattr(service.store.entries, "list_version", version)
    with beating(serve(service)):
        asked.wait(30)
        systemd.link.settimeout(1)
        with pytest.raises(TimeoutError):
            systemd.receive()
        hang.set()


def test_without_systemd_there_is_no_heartbeat(
    service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    names: list[str] = []

    def run() -> None:
        names.extend(thread.name for thread in threading.enumerate())

    catalogd.run(Server("http://x:81", run), service.scanner, service)
    assert "upkeep" in names and "heartbeat" not in names
    catalogd.notify("READY=1")


@pytest.mark.skipif(sys.platform != "linux", reason="a kind of socket of Linux")
def test_the_notify_socket_may_have_an_abstract_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"catalogd-test-{os.getpid()}"
    systemd = Systemd(f"\0{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    catalogd.notify("READY=1", "STATUS=well")
    assert systemd.receive() == ["READY=1", "STATUS=well"]
    systemd.link.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such sockets")
def test_a_notify_socket_that_is_gone_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    catalogd.notify("READY=1")


def test_a_closed_port_does_not_count_as_an_answer() -> None:
    assert not catalogd.answers(f"http://127.0.0.1:{free_port()}/", 30)


def test_an_answer_that_is_not_http_does_not_count() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            link = server.accept()[0]
            link.recv(4096)
            link.sendall(b"bla\r\n\r\n")
            link.close()

        thread = threading.Thread(target=babble)
        thread.start()
        port = server.getsockname()[1]
        assert not catalogd.answers(f"http://127.0.0.1:{port}/", 30)
        thread.join()


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("192.168.1.2", "192.168.1.2"),
    ],
)
def test_the_machine_reaches_its_own_service_at_every_host_setting(
    host: str, own: str
) -> None:
    assert catalogd.own_address(host, 81) == f"http://{own}:81/"


def test_a_port_that_windows_keeps_is_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It keeps some for Hyper-V, which no list of the ports in use shows."""

    class Kept(OSError):
        winerror = 10013  # WSAEACCES, which is errno.EACCES to Python

    refuse = Mock(side_effect=Kept(errno.EACCES, "The words of Windows"))
    monkeypatch.setattr(catalogd.socket, "create_server", refuse)
    with pytest.raises(catalogd.Problem) as told:
        catalogd.open_socket("", 6069)
    hint = "Windows or another program keeps this port: 'netsh interface ipv4 show"
    assert f"*:6069: The words of Windows. {hint}" in str(told.value)


# A double click ---------------------------------------------------------------


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Pretend to be a bundled program in this folder. Its INI file names no folder."""
    folder = tmp_path / "program"
    ini = tmp_path / "catalogd.ini"
    ini.write_text("[server]\nhost = 127.0.0.1\nport = 0\n")
    folder.mkdir()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(folder / "catalogd.exe"))
    monkeypatch.setenv("CATALOGD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CATALOGD_CONFIG", str(ini))
    return folder


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace `run`; return the folders and the `open` of each call."""
    begun: list[Any] = []

    def run(server: Any, scanner: catalogd.Scanner, web: Any, open: bool) -> bool:
        server.stop()
        begun.append((scanner.folders, open))
        return bool(server.run())  # closes its socket and ends its threads

    monkeypatch.setattr(catalogd, "run", run)
    return begun


def test_a_double_click_serves_the_folder_beside_the_program(
    program: pathlib.Path, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["catalogd.exe"])
    assert catalogd.main() == 0
    assert runs == [([str(program / "Games")], True)]
    assert (program / "Games").is_dir()


@pytest.fixture
def running(
    program: pathlib.Path, service: catalogd.Web, serve: Callable[[catalogd.Web], str]
) -> Iterator[str]:
    """The address of a service that runs with the data folder of the program."""
    url = serve(service)
    data = program.parent / "data"
    known = {"address": f"{url}/", "token": service.token}
    (data / catalogd.SERVICE_FILE).write_text(json.dumps(known))
    yield f"{url}/"


def test_a_second_double_click_opens_the_page_of_the_first(
    running: str, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(catalogd.webbrowser, "open", opened.append)
    assert catalogd.main([]) == 0
    assert (opened, runs) == ([running], [])


def test_a_folder_is_not_dropped_on_a_service_that_runs_without_it(
    running: str,
    program: pathlib.Path,
    runs: list[Any],
    library: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("builtins.input", lambda text: text)
    with catalogd.exclusive(str(program.parent / "data"), "serve"):
        assert catalogd.main([str(library.folder)]) == 2
    assert "another catalogd is at work" in capsys.readouterr().err


def test_folders_that_are_dropped_on_the_program_are_served(
    program: pathlib.Path, runs: list[Any], library: Any
) -> None:
    assert catalogd.main([str(library.folder)]) == 0
    assert runs == [([str(library.folder)], True)]
    assert not (program / "Games").exists()


def test_a_problem_after_a_double_click_stays_on_the_screen(
    program: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (program / "Games").write_text("in the way")
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text))
    assert catalogd.main([]) == 2
    assert "Games: cannot be created" in capsys.readouterr().err
    assert asked == ["Press Enter to close this window. "]


def test_without_a_keyboard_nothing_waits_for_enter(
    program: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program / "Games").write_text("in the way")
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert catalogd.main([]) == 2


def test_the_bundled_program_runs_commands(
    program: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert catalogd.main(["example"]) == 0
    assert capsys.readouterr().out == catalogd.EXAMPLE


def test_without_arguments_an_unbundled_program_prints_its_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert catalogd.main([]) == 0
    assert "Scan the library folders and serve them." in capsys.readouterr().out


def test_the_page_is_opened_with_the_option(
    service: catalogd.Web,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(catalogd.webbrowser, "open", opened.append)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    server = Server("http://x:81", lambda: None)
    catalogd.run(server, service.scanner, service, open=True)
    assert opened == [f"http://127.0.0.1:81/#setup={service.store.accounts.setup_code}"]
    assert opened[0] in capsys.readouterr().out


# Starting with the system -----------------------------------------------------


def test_the_file_for_macos_runs_what_pipx_installed(tmp_path: pathlib.Path) -> None:
    """launchd starts it in /, with HOME set and hardly anything else."""
    with open(TOP / "packaging/autostart/catalogd.plist", "rb") as file:
        found = plistlib.load(file)
    assert (found["Label"], found["RunAtLoad"]) == ("catalogd", True)
    program = tmp_path / ".local/bin/catalogd"
    for folder in (program.parent, tmp_path / "Library/Logs"):
        folder.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    if not os.access(program, os.X_OK):
        skip("needs a temporary folder whose programs may run")
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(found["ProgramArguments"], env=bare, cwd="/", check=True)
    log = (tmp_path / "Library/Logs/catalogd.log").read_text()
    assert log == f"serve {tmp_path}/Games\n"


def test_the_service_of_a_user_notifies_and_ends_after_a_wrong_setting() -> None:
    service = set(unit("../autostart/catalogd.service")["Service"])
    of_debian = set(unit("catalogd.service")["Service"])
    own = {("ExecStart", "%h/.local/bin/catalogd serve %h/Games")}
    assert service - of_debian == own
    assert {("Type", "notify"), ("RestartPreventExitStatus", "78")} <= service


# nginx ------------------------------------------------------------------------


def test_accel_redirect_needs_a_trusted_proxy() -> None:
    with pytest.raises(catalogd.Problem, match="accel_redirect needs trusted_proxy"):
        catalogd.Settings(accel_redirect="/files")


@pytest.mark.parametrize("text", ["/", "files", "/a b", "/a?b", "/../%2e", "//a"])
def test_an_internal_location_is_a_plain_path(
    tmp_path: pathlib.Path, text: str
) -> None:
    ini = tmp_path / "catalogd.ini"
    ini.write_text(f"[server]\ntrusted_proxy = 127.0.0.1\naccel_redirect = {text}\n")
    with pytest.raises(catalogd.Problem, match="is not a path such as"):
        catalogd.Settings.read(str(ini))


def behind_nginx(service: catalogd.Web, tmp_path: pathlib.Path) -> catalogd.Web:
    ini = tmp_path / "catalogd.ini"
    ini.write_text(
        "[server]\nhost = 127.0.0.1\nport = 0\ntrusted_proxy = 127.0.0.1\n"
        "accel_redirect = /files/\n"
    )
    return catalogd.Web(
        service.store, catalogd.Settings.read(str(ini)), service.scanner
    )


def download(
    url: str, store: catalogd.Store, key: str, headers: dict[str, str]
) -> http.client.HTTPResponse:
    entry = json.loads(store.entries.list_json(catalogd.EVERYTHING))[0]["id"]
    call = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
    path = f"/api/download/{entry}?api_key={key}"
    call.request("GET", path, headers={**headers, "Connection": "close"})
    return call.getresponse()


@pytest.fixture
def proxied(
    service: catalogd.Web,
    tmp_path: pathlib.Path,
    library: Any,
    key: str,
    serve: Callable[[catalogd.Web], str],
) -> Callable[..., http.client.HTTPResponse]:
    """Download `Pokémon #1.nsp` from a service behind nginx."""
    library.add("Pokémon #1.nsp", b"bytes")
    service.scanner.scan()
    url = serve(behind_nginx(service, tmp_path))
    return lambda **headers: download(url, service.store, key, headers)


def test_nginx_gets_the_path_of_the_file_and_no_bytes(
    proxied: Callable[..., http.client.HTTPResponse], library: Any
) -> None:
    answer = proxied(**{"X-Forwarded-For": "192.168.1.7", "Range": "bytes=1-2"})
    place = urllib.parse.unquote(answer.headers["X-Accel-Redirect"])
    assert place == f"/files{library.folder}/Pokémon #1.nsp"
    assert answer.headers["X-Accel-Redirect"].endswith("/Pok%C3%A9mon%20%231.nsp")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.status == 200, "nginx evaluates the range"
    assert answer.read() == b""


def test_a_client_that_bypasses_nginx_gets_the_bytes(
    proxied: Callable[..., http.client.HTTPResponse],
) -> None:
    answer = proxied()
    assert "X-Accel-Redirect" not in answer.headers
    assert answer.read() == b"bytes"


def test_nginx_is_not_sent_to_a_file_that_is_gone(
    proxied: Callable[..., http.client.HTTPResponse], library: Any
) -> None:
    (library.folder / "Pokémon #1.nsp").unlink()
    answer = proxied(**{"X-Forwarded-For": "192.168.1.7"})
    assert answer.status == 404
    assert "X-Accel-Redirect" not in answer.headers


def test_without_the_option_nginx_gets_the_bytes(
    browser: webtest.TestApp, service: catalogd.Web, library: Any, key: str
) -> None:
    library.add("Celeste.nsp", b"bytes")
    service.scanner.scan()
    entry = json.loads(service.store.entries.list_json(catalogd.EVERYTHING))[0]["id"]
    address = f"/api/download/{entry}?api_key={key}"
    answer = browser.get(address, headers={"X-Forwarded-For": "192.168.1.7"})
    assert answer.body == b"bytes"
