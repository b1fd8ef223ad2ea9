"""What the tests share: a library with files, a store, the service, and a clock."""

import contextlib
import errno
import functools
import http.client
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
import webtest

import catalogd
import example
import household
import send_to_switch
from browser import (
    DESK,
    PATIENCE,
    close_context,
    missing_for_chromium,
    options,
    see,
    sign_in,
    start_chromium,
)
from example import Demo, by_age, served

LONG_AGO = 1_600_000_000  # the mtime of files that have long been quiet
MEMORY = "/dev/shm"  # Linux has a folder there that is on no disk
# Variables that change what the programs, or the calls of the tests, do.
FOREIGN = re.compile(
    r"(?i)(CATALOGD|SEND_TO_SWITCH|XDG)_.*|(https?|ftp|all|no)_proxy"
    r"|COLUMNS|NOTIFY_SOCKET"
)


class LimitedConnection(sqlite3.Connection):
    """One that takes as many variables as SQLite does by default, as on Windows. Some
    systems allow for more."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)


sqlite3.connect = functools.partial(sqlite3.connect, factory=LimitedConnection)

# Some thousand services start in the tests, and would spend half of that on these.
SHIPPED = pathlib.Path(catalogd.__file__).parent / "packaging" / "languages"
read_translation = catalogd.read_translation
read_shipped = functools.cache(read_translation)


def read_translation_once(path: Any) -> catalogd.Translation:
    is_shipped = getattr(path, "parent", None) == SHIPPED
    return (read_shipped if is_shipped else read_translation)(path)


catalogd.read_translation = read_translation_once


def pytest_configure() -> None:
    """Keep what the tests write in memory where that has room: on a disk, half of their
    time goes by waiting for it."""
    if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 2**30:
        tempfile.tempdir = MEMORY


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run in a browser, and let the slow ones begin first."""
    for item in items:
        if {"chromium", "firefox"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker("browser")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave what only root can do, such as to mount a disk, to the runs of root."""
    if item.get_closest_marker("root") and not is_root():
        skip("needs root")


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def skip(reason: str) -> NoReturn:
    """Skip a test, or fail it where `CI` is set: nothing is missing there.

    :param reason: names the package that is missing.
    """
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need(tool: str, package: str) -> None:
    """Skip a test that calls a program which is not installed."""
    if shutil.which(tool) is None:
        skip(f"needs the package {package}")


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: int) -> Iterator[None]:
    """Mount a file system of so many bytes, in a test with the mark `root`."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def free_port() -> int:
    """A port that no other test or program is given while these tests run. On Linux it
    stays bound, at all addresses, to a socket that does not listen: a server that
    shares addresses, as servers do, may listen there, end, and listen again."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("" if sys.platform == "linux" else "127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if sys.platform == "linux":
        held.detach()
    else:
        held.close()
    return port


def short_and_long(**sizes: tuple[Any, Any]) -> pytest.MarkDecorator:
    """Give a test two forms: a short one, and a long one for `pytest -m soak`.

    :param sizes: arguments of the test, each with its short and its long value, such
        as `stops=(20, 300)`.
    """
    short, long = zip(*sizes.values(), strict=True)
    forms = [
        pytest.param(*short, id="short"),
        pytest.param(*long, id="long", marks=pytest.mark.soak),
    ]
    return pytest.mark.parametrize(list(sizes), forms)


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def go_on(seconds: float, *clocks: Clock) -> None:
    """Let so much time pass on each of several clocks."""
    for clock in clocks:
        clock.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session", autouse=True)
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep away from settings, data and proxies of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(FOREIGN.fullmatch, [*os.environ]):
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing that takes no time; what is hashed still says its cost."""
    monkeypatch.setattr(catalogd, "SCRYPT", {"n": 16, "r": 1, "p": 1})


@pytest.fixture(autouse=True)
def no_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page looks for consoles as soon as somebody adds a device."""
    monkeypatch.setattr(catalogd, "own_networks", lambda: [])


@pytest.fixture(autouse=True)
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` has another one for its process, which here goes on to the next test."""
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())


class Library:
    """A folder with files that the tests make."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, content: bytes = b"", mtime: float = LONG_AGO) -> str:
        """The path of a new or rewritten file; its content is its name if not given."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or name.encode())
        os.utime(path, (mtime, mtime))
        return str(path)


@pytest.fixture
def library(tmp_path: pathlib.Path) -> Library:
    return Library(tmp_path / "library")


@pytest.fixture
def card(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder that a client sends to."""
    card = tmp_path / "card"
    card.mkdir()
    return card


@pytest.fixture(scope="session")
def new_data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A data folder as a first start makes it. To copy it costs half as much as to make
    another one."""
    folder = tmp_path_factory.mktemp("new") / "data"
    catalogd.Store(str(folder)).close()
    return folder


@pytest.fixture
def store(
    tmp_path: pathlib.Path, clock: Clock, new_data: pathlib.Path
) -> Iterator[catalogd.Store]:
    shutil.copytree(new_data, tmp_path / "data", dirs_exist_ok=True)
    with contextlib.closing(
        catalogd.Store(str(tmp_path / "data"), clock=catalogd.Clock(clock, clock))
    ) as it:
        yield it


@pytest.fixture
def settings(library: Library) -> catalogd.Settings:
    return catalogd.Settings(
        folders=(str(library.folder),), host="127.0.0.1", port=0, settle=0.2
    )


@pytest.fixture
def scanner(store: catalogd.Store, settings: catalogd.Settings) -> catalogd.Scanner:
    """A scanner whose thread does not run: a test scans when it wants."""
    return catalogd.Scanner(store, settings)


def add_folder(scanner: catalogd.Scanner, folder: str) -> None:
    """Have a scanner scan one more library folder."""
    scanner.folders.append(folder)
    watcher = catalogd.Watcher(folder, scanner.settings.extensions)
    scanner.disks.watchers[folder] = watcher
    scanner.state.folders[folder] = {"path": folder, **catalogd.UNREAD}


@pytest.fixture
def service(scanner: catalogd.Scanner, clock: Clock) -> catalogd.Web:
    """A service in which also the wait after wrong passwords ends by the clock: a test
    may itself be stopped for a second."""
    languages = catalogd.read_translations(scanner.store.database.folder)
    web = catalogd.Web(scanner.store, scanner.settings, scanner, languages)
    web.passwords.throttle.clock = clock
    return web


@pytest.fixture
def browser(service: catalogd.Web) -> webtest.TestApp:
    """Calls the routes without a socket, and keeps cookies."""
    return webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.9"})


@pytest.fixture
def key(store: catalogd.Store) -> str:
    """An API key of the account anna, who is an admin and has the password below."""
    account = store.accounts.add("anna", catalogd.hash_password(PASSWORD))
    key = catalogd.new_key()
    store.accounts.add_key(account, "switch", catalogd.hash_token(key))
    return key


PASSWORD = "correct horse"


@pytest.fixture
def serve() -> Iterator[Callable[[catalogd.Web], str]]:
    """Starts real servers over real sockets; gives the address, such as
    `http://127.0.0.1:40123`. They end with the test."""
    with contextlib.ExitStack() as stack:

        def start(web: catalogd.Web) -> str:
            server = catalogd.listen(web)
            thread = threading.Thread(target=server.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.stop)
            return f"http://127.0.0.1:{server.effective_port}"

        yield start


def refuse(*given: Any) -> NoReturn:
    """A call to the system that is not allowed."""
    raise PermissionError(errno.EPERM, "Operation not permitted")


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of a call in this thread. It is for the ratio of two
    costs in one run: how long something takes is a matter of the machine."""
    began = time.thread_time()
    work()
    return max(time.thread_time() - began, 1e-6)


def steps(store: catalogd.Store, call: Callable[[], object]) -> int:
    """How many steps of SQLite's machine a call takes, so that no clock is needed."""
    taken: list[None] = []
    with store.database.reading() as reader, store.database.writing() as writer:
        connections = (reader, writer)
    for db in connections:
        db.set_progress_handler(lambda: taken.append(None), 1)
    call()
    for db in connections:
        db.set_progress_handler(None, 1)
    return len(taken)


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Until it is true; fails if that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)


def online(scanner: catalogd.Scanner) -> dict[str, int]:
    """Return the number of files by library folder that is online."""
    rows = scanner.state.folders.values()
    return {row["path"]: row["files"] for row in rows if row["state"] == "online"}


def is_watching(scanner: catalogd.Scanner) -> bool:
    """Return whether the system reports changes of a library folder."""
    return any(row["watched"] for row in scanner.state.folders.values())


def wait_until_quiet(count: Callable[[], int]) -> None:
    """Wait until a number stays the same for a second: what is old is dropped some time
    after a start."""
    before = -1
    while before != (before := count()):
        time.sleep(1)


class Home:
    """A real server with anna's queue, and clients that send from it."""

    def __init__(self, web: catalogd.Web, address: str, key: str, library: Library):
        self.web = web
        self.address = address
        self.key = key
        self.library = library
        self.store = web.store
        self.anna = web.store.accounts.id_of("anna")
        self.folder = library.folder.parent
        self.open = contextlib.ExitStack()
        self.calls: list[Any] = []  # connections of clients to the server

    def queue(self, name: str, content: bytes = b"") -> str:
        """Put a file into the library and the queue; the queue item's id."""
        path = self.library.add(name, content)
        self.web.scanner.scan()
        rows = [row for row in by_age(self.store) if row["source"] == path]
        self.store.queue.send(self.anna, rows[0]["id"])
        return str(self.store.queue.items(self.anna)[-1]["id"])

    def queue_link(self, url: str, size: int = 0) -> str:
        """Queue a link with the name Far. Return the id of the queue item."""
        facts = {"name": "Far", "description": "", "version": ""}
        entry = self.store.entries.add_link(url, size, "nsp", facts, by="anna")
        self.store.queue.send(self.anna, entry)
        return str(self.store.queue.items(self.anna)[-1]["id"])

    def sender(self, to: str, **options: Any) -> send_to_switch.Sender:
        """A client of its own, unless it has the `state` of another. It may have
        another `target`, and another `address` of the server."""
        address, key = options.pop("address", self.address), self.key
        server = self.open.enter_context(
            contextlib.closing(send_to_switch.Server(address, key))
        )
        state = options.pop("state", None) or self.state()
        target = options.pop("target", None)
        settings = send_to_switch.Settings(server=address, to=to, **options)
        target = target or send_to_switch.find_target(settings)
        return send_to_switch.Sender(server, target, state)

    def state(self) -> send_to_switch.State:
        return send_to_switch.State(
            str(self.folder / "state"), "server", os.urandom(4).hex()
        )

    def drop(self) -> None:
        """Shut down all connections between clients and the server."""
        for call in self.calls:
            if sock := call.sock:  # another thread may close it meanwhile
                send_to_switch.shut_down(sock)

    def item(self, item: str) -> dict[str, Any]:
        rows = self.store.queue.items(self.anna)
        return {row["id"]: row for row in rows}[item]


@pytest.fixture
def home(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    library: Library,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Home]:
    """With clients that wait for nothing longer than a moment, but for a greeting."""
    monkeypatch.setattr(send_to_switch, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(send_to_switch, "MAX_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(send_to_switch, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(send_to_switch, "SERVED_POLL_SECONDS", 0.02)
    monkeypatch.setattr(send_to_switch, "REPORT_SECONDS", 0.05)
    monkeypatch.setattr(send_to_switch, "MAX_ORPHAN_SECONDS", 0.3)
    home = Home(service, serve(service), key, library)
    plain = send_to_switch.connection

    def connection(parts: Any) -> Any:
        home.calls.append(plain(parts))
        return home.calls[-1]

    monkeypatch.setattr(send_to_switch, "connection", connection)
    with home.open:
        yield home


@pytest.fixture
def consoles(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> Iterator[catalogd.Consoles]:
    """The devices that the running service of `home` serves itself."""
    monkeypatch.setattr(catalogd, "MAX_CONSOLE_STOP_SECONDS", 30)
    found = home.web.consoles
    found.address = home.address
    yield found
    assert found.end()


class Answer:
    """What a server said, read to its end."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()


class Games:
    """A server with a library, and one kept connection to it."""

    def __init__(
        self, address: str, key: str, library: Library, scanner: catalogd.Scanner
    ) -> None:
        self.key = key
        self.library = library
        self.scanner = scanner
        self.host, _, port = address.removeprefix("http://").partition(":")
        self.port = int(port)
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=30)

    def add(self, name: str, content: bytes = b"") -> str:
        """The address of a new file."""
        path = self.library.add(name, content)
        return self.address(path)

    def add_sparse(self, name: str, size: int) -> str:
        path = self.library.add(name)
        os.truncate(path, size)
        os.utime(path, (LONG_AGO, LONG_AGO))
        return self.address(path)

    def address(self, path: str) -> str:
        self.scanner.scan()
        found = [
            row.id for row in self.scanner.entries.files() if row.file.path == path
        ]
        return f"/api/download/{found[0]}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """:param headers: with _ for -, such as If_None_Match."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given["Authorization"] = f"Bearer {self.key}"
        self.connection.request(method, path, headers=given)
        return Answer(self.connection.getresponse())

    def request(self, path: str, *headers: str) -> bytes:
        """The bytes of a GET."""
        fixed = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.key}"]
        return "\r\n".join([*fixed, *headers, "", ""]).encode()

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=30)


@pytest.fixture
def games(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    key: str,
    library: Library,
) -> Iterator[Games]:
    games = Games(serve(service), key, library, service.scanner)
    with contextlib.closing(games.connection):
        yield games


@pytest.fixture
def signed_in(browser: webtest.TestApp, key: str) -> webtest.TestApp:
    """Calls of the page, as the admin anna."""
    browser.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    return browser


@pytest.fixture
def member(service: catalogd.Web, store: catalogd.Store, key: str) -> webtest.TestApp:
    """Calls of the page, as ben, who is no admin."""
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    app = webtest.TestApp(service.app, extra_environ={"REMOTE_ADDR": "192.168.1.8"})
    app.post_json("/web/login", {"username": "ben", "password": PASSWORD})
    return app


@pytest.fixture
def folder(library: Library) -> pathlib.Path:
    """The inbox, in the library."""
    folder = library.folder / "Inbox"
    folder.mkdir()
    return folder


# A browser, and servers for it


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        try:
            browser = stack.enter_context(start_chromium())
        except Exception:
            if missing := missing_for_chromium():
                skip(f"needs the package {missing}")
            raise
        yield browser


Visit = Callable[..., Any]


# A toast, or a call that is held back, lasts ten times as long: a test that waits for
# it may itself be stopped for seconds.
QUICK_POLLS = """{
  const wait = setTimeout;
  const factor = (work, pause) =>
    work === window.poll ? 0.1 : pause < 5000 ? 1 : 10;
  setTimeout = (work, pause, ...given) =>
    wait(work, pause * factor(work, pause), ...given);
}"""


@pytest.fixture
def polls() -> str:
    """A script that has the page poll ten times as often, and wait ten times as long. A
    test of its pauses takes "" instead."""
    return QUICK_POLLS


@pytest.fixture
def visit(chromium: Any, polls: str) -> Iterator[Visit]:
    """Return a function that opens a page in a browser context of its own, and takes
    Playwright's options for that."""
    problems: list[str] = []
    with contextlib.ExitStack() as stack:

        def open_page(**more: Any) -> Any:
            context = chromium.new_context(**{**options("light", DESK), **more})
            stack.callback(close_context, context)
            context.set_default_timeout(PATIENCE)
            context.add_init_script(polls)
            page = context.new_page()
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda line: note(line, problems))
            return page

        yield open_page
    assert problems == []


def note(line: Any, problems: list[str]) -> None:
    """Add an error of the console, but not that of a call, which tests let fail."""
    if line.type == "error" and not line.text.startswith("Failed to load resource"):
        problems.append(line.text)


@pytest.fixture
def site(service: catalogd.Web) -> Iterator[str]:
    """The address of the service."""
    with served(service) as address:
        yield address


@pytest.fixture
def anna(visit: Visit, store: catalogd.Store, site: str, key: str) -> Any:
    """A page in the browser of the admin anna, not loaded yet."""
    page = visit(base_url=site)
    sign_in(page, store, site, "anna")
    return page


@pytest.fixture
def ben(visit: Visit, store: catalogd.Store, site: str, key: str) -> Any:
    """A page in the browser of the member ben, not loaded yet."""
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    page = visit(base_url=site)
    sign_in(page, store, site, "ben")
    return page


@pytest.fixture(scope="session")
def house() -> Iterator[Demo]:
    """A server with the library of a household."""
    with example.running(household.write) as running:
        yield running


@pytest.fixture
def kim(visit: Visit, house: Demo) -> Iterator[Any]:
    """A page of that library, in the browser of an account without a queue."""
    account = house.store.accounts.add("kim2", catalogd.hash_password(PASSWORD))
    page = visit(base_url=house.address)
    sign_in(page, house.store, house.address, "kim2")
    page.goto("")
    see(page, "A Hat in the Rain")
    yield page
    house.store.accounts.remove(account)


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    with example.demo() as running:
        yield running


# A browser without a server


@pytest.fixture(scope="session")
def speaking(chromium: Any) -> Iterator[Callable[[str], Any]]:
    """Return a page that has the script in a language, and no server."""
    answers = {"web/me": '{"account": null, "needs_setup": false, "client": true}'}
    with contextlib.ExitStack() as opened:

        @functools.cache
        def speak(language: str) -> Any:
            page = opened.enter_context(chromium.new_page())
            page.route(
                "**/*",
                lambda route: route.fulfill(
                    body=answers.get(route.request.url[24:], '<div id="app"></div>')
                ),
            )
            page.goto("http://page.example.org/")
            page.add_script_tag(content=catalogd.SCRIPT)
            page.evaluate("language => speak(language, ENGLISH)", language)
            return page

        yield speak


@pytest.fixture
def script(speaking: Callable[[str], Any]) -> Any:
    return speaking("en-GB")
