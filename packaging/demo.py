"""What `catalogd serve --demo` shows: a made-up household in a temporary folder, and a
console that takes what is sent to it. The tests' pictures show the same games.

It draws its covers itself, and keeps nothing: the files are as large as games and take
no room on the disk, and the console counts bytes that it does not store.
"""

import argparse
import contextlib
import dataclasses
import logging
import os
import pathlib
import secrets
import shutil
import socket
import socketserver
import stat
import struct
import sys
import tempfile
import threading
import time
import webbrowser
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import catalogd

MEGABYTE = 1_000_000
CONSOLE_SPEED = 20 * MEGABYTE  # bytes that the console takes in a second
REFILL_SECONDS = 2.0  # between checks that something waits to be sent
FOLDER = "catalogd-demo-"  # how the names of the temporary folders begin
GAMES = """\
Clockwork Orchard|0.4.2|Every fruit is a spring that wants winding.
Drift Cartographer|1.8.0|Draw the map of a land that does not hold still.
Echo Quarry|1.0.1|Dig by sound alone.
Fable Foundry|2.5.0|Cast stories in bronze, and sell them by weight.
Glass Heron|1.6.3|Fly low, break nothing.
Hexagon Garden|1.1.1|A puzzle that smells of thyme.
Juniper Rally|1.2.2|Hill climbs with a picnic on the back seat.
Kettle & Kiln|0.8.8|A pottery for two players and one wheel.
Lantern Keepers|1.2.0|A lighthouse, four keepers and one very long night.
Loom of Weather|1.0.0|Weave tomorrow before it comes.
Marble Postman|1.9.0|Roll letters to the right door.
Moss & Copper|0.9.1|Grow a garden inside an abandoned clock.
Night Ferry|2.2.0|The last boat of the day, and who is on it.
Nimbus Depot|1.1.0|Stock the clouds and keep the books.
Orbit Mechanic|1.0.0|Mend satellites before the coffee gets cold.
Otter Brigade|2.1.7|River rescue for one to four players.
Paper Harbor|3.1.4|Fold ships, trade goods, mind the rain.
Pixel Apiary|1.0.9|Ten thousand bees, all of them busy.
Pocket Locomotive|1.0.5|Lay the tracks while the train is on its way.
Quiet Circuit|1.4.2|A race without engines.
Rooftop Gardener|1.5.0|Tomatoes against the city.
Saffron Skies|0.7.0|Carry the mail between islands that drift.
Snowblind Courier|1.3.0|Deliver on foot, in any weather.
Thistle Racers|0.6.1|Snails, slopes, glory.
Tidepool Tactics|2.0.3|Small battles between large crabs.
Umbra Gambit|1.2.4|Chess by the light of one candle.
Yonder Isles|1.0.2|Somebody lit a fire over there.
"""
ADD_ONS = ("Extra Levels", "Soundtrack", "The Frozen North")
SENT = ("Echo Quarry", "Paper Harbor", "Glass Heron")
WAITING = ("Umbra Gambit", "Rooftop Gardener", "Moss & Copper", "Night Ferry")
TITLE_AGES = (3, 7, None, 12, 18, 7)  # in turn; None: undecided
SKIES = (  # above, below, the sun, the land
    (0x20304F, 0xD9774E, 0xF6D28B, 0x3B2F4F),
    (0x0D3B3E, 0x4FA38A, 0xF4E3B5, 0x133D35),
    (0x4B2142, 0xC9586B, 0xF7C59F, 0x2D1730),
    (0x163A63, 0x6FB1D6, 0xF5F0DC, 0x1D4A3F),
    (0x2B2350, 0x7D6BC4, 0xF2C6DE, 0x1C1B3A),
    (0x5B3416, 0xE0A04A, 0xFBEAB8, 0x3F2A1A),
    (0x12302A, 0x8FBF5F, 0xF3F0A8, 0x1F3D22),
)
SIDE = 384  # of a cover, in pixels
# The mark stays in the page's head. A phone has no room in it, but for the search's.
MARK = (
    '.top::before,.search::after,.view>.head::after{content:"Demo";order:1;'
    "padding:.1rem .6rem;border-radius:var(--radius-full);"
    "background:var(--warn-soft);color:var(--warn);font-size:.875rem;"
    "font-weight:var(--bold)}"
    ".search::after{position:absolute;inset-inline-end:.7rem;top:.6rem;"
    "pointer-events:none}"
    "@media (min-width:43.75em){.search::after,.view>.head::after{content:none}}"
    "@media not all and (min-width:43.75em){.top::before{content:none}}"
)
USED = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>catalogd</title>
<link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="../style.css">
<body><div id="app"><main class="door"><div class="card"><div class="door-head">
<img class="logo" src="../icon.svg" alt="">
<h1>This link no longer works</h1>
<p>Each link signs in one browser, once. For new ones, stop the demo with Ctrl-C in its
terminal, and start it again.</p>
</div></div></main></div></body>
</html>
"""


# Covers -----------------------------------------------------------------------


def covers() -> list[bytes]:
    """Return a PNG for each game: a landscape with a sun."""
    return [cover(number) for number in range(len(games()))]


def cover(number: int) -> bytes:
    """Draw by columns: each is its sky from above, with all that is in front of it."""
    top, low, sun, land = (color.to_bytes(3) for color in SKIES[number % len(SKIES)])
    halos = [mixed(top, low, share) for share in (0.35, 0.65)]
    hills = [mixed(halos[0], land, share) for share in (0.55, 0.8, 1)]
    x, y = (50 + number * 61 % 156) / 256, (60 + number * 37 % 60) / 256
    suns = zip((110, 70, 26 + number % 4 * 6), range(1, 4), strict=True)
    circles = [(radius / 256 * SIDE, color) for radius, color in suns]
    ridges = [heights(number * 7 + n * 3, 130 + n * 36) for n in range(3)]
    columns = []
    for column in range(SIDE):
        drawn = bytearray(SIDE)
        for radius, color in circles:
            if (half := radius**2 - (column - x * SIDE) ** 2) > 0:
                middle, reach = int(y * SIDE), int(half**0.5)
                first, last = max(middle - reach, 0), min(middle + reach, SIDE)
                drawn[first:last] = bytes([color]) * (last - first)
        for color, ridge in enumerate(ridges, 4):
            at = int(ridge[column])
            drawn[at:] = bytes([color]) * (SIDE - at)
        columns.append(bytes(drawn))
    return png(
        [bytes(row) for row in zip(*columns, strict=True)], top, *halos, sun, *hills
    )


def mixed(first: bytes, second: bytes, share: float) -> bytes:
    pairs = zip(first, second, strict=True)
    return bytes(int(a + (b - a) * share) for a, b in pairs)


def heights(seed: int, height: int) -> list[float]:
    """Return where hills or mountains begin in each column, counted from above."""
    peaks = [(height - (seed * 131 + n * n * 53 + n * 17) % 61) / 256 for n in range(8)]
    found = []
    for column in range(SIDE):
        at, share = divmod(column * 6 / SIDE, 1)
        share = share if seed % 2 else share * share * (3 - 2 * share)  # sharp or round
        found.append(SIDE * (peaks[int(at)] * (1 - share) + peaks[int(at) + 1] * share))
    return found


def png(rows: Sequence[bytes], *colors: bytes) -> bytes:
    """Return a picture whose bytes are numbers of colors."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = ((b"IHDR", head), (b"PLTE", b"".join(colors)), (b"IDAT", body))
    chunks = b"".join(chunk(*part) for part in (*parts, (b"IEND", b"")))
    return b"\x89PNG\r\n\x1a\n" + chunks


# Games ------------------------------------------------------------------------


def games() -> list[list[str]]:
    """Return name, version and description of each game."""
    return [row.split("|") for row in GAMES.splitlines()]


def fill(
    folder: pathlib.Path, icons: Sequence[bytes], rows: Sequence[Sequence[str]]
) -> None:
    """Write sparse files of plausible sizes: games, most of them with updates and
    add-ons, and some homebrew.

    :param icons: pictures for the games, used in turn; an empty one is none.
    """
    for number, (name, version, _) in enumerate(rows):
        kind = ("nsp", "nsz", "xci", "nro")[number % 4]
        base = 0x0100_A000_0000_0000 + number * 0x2_0000
        icon = icons[number % len(icons)]
        size = (37 + number * 331 % 7000) * MEGABYTE + number * 4321
        path = folder / f"{name} [{base:016X}][v0].{kind}"
        if icon and kind == "xci":  # by the title's id, wherever it is
            (folder / "Covers").mkdir(exist_ok=True)
            (folder / "Covers" / f"{base:016X}.png").write_bytes(icon)
        elif icon:
            path.with_suffix(".png").write_bytes(icon)
        if kind == "nro":
            put(path, size // 90, homebrew(name, "Sofa Systems", version))
            continue
        put(path, size)
        patches = ((), (1, 3), (2,))[number % 3]
        for patch in patches:
            tags = f"[{base + 0x800:016X}][v{patch * 65536}]"
            put(folder / f"{name} {tags}.nsp", size // 20)
        for extra, own in enumerate(ADD_ONS[: number % 4]):
            tags = f"[{base + 0x1001 + extra:016X}][v0]"
            put(folder / f"{name} - {own} {tags}.nsp", size // (6 + extra))


def put(path: pathlib.Path, size: int, content: bytes = b"made up") -> None:
    path.write_bytes(content)
    make_sparse(path)
    with open(path, "r+b") as file:
        file.seek(max(size, len(content) + 1) - 1)
        file.write(b".")  # what ends with zeros is not complete
    quiet = 1_760_000_000 + size % 86_400
    os.utime(path, (quiet, quiet))


def make_sparse(path: pathlib.Path) -> None:
    """Have Windows reserve no room for what is not written: see FSCTL_SET_SPARSE."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        with open(path, "r+b") as file:
            handle = ctypes.c_void_p(msvcrt.get_osfhandle(file.fileno()))
            count = ctypes.byref(ctypes.c_ulong())
            control = ctypes.windll.kernel32.DeviceIoControl
            control(handle, 0x900C4, None, 0, None, 0, count, None)


def homebrew(name: str, author: str, version: str) -> bytes:
    """Return a program of nothing but its control file."""
    control, header = bytearray(0x4000), bytearray(0x1000)
    control[0x300:0x600] = name.encode().ljust(0x200, b"\0") + author.encode().ljust(
        0x100, b"\0"
    )
    control[0x3060:0x3070] = version.encode().ljust(16, b"\0")
    header[0x10:0x14], header[0x18:0x1C] = b"NRO0", struct.pack("<I", 0x1000)
    sections = (0x38, 0, 0x38, len(control), 0, 0)
    assets = struct.pack("<4sI6Q", b"ASET", 0, *sections)
    return bytes(header) + assets + bytes(control)


# The household ----------------------------------------------------------------


def describe(store: catalogd.Store) -> None:
    """Give the games their versions and descriptions, as an admin does."""
    texts = {name: (version, text) for name, version, text in games()}
    for row in store.database.rows("SELECT id, name FROM entries ORDER BY rowid"):
        if row["name"] in texts:
            version, text = texts[row["name"]]
            store.entries.edit(row["id"], {"version": version, "description": text})


class Household:
    """Robin, who is an admin, Kim, who is 7, and their consoles."""

    def __init__(self, store: catalogd.Store, console: str, off: str) -> None:
        self.store = store
        no_password = catalogd.hash_password(secrets.token_urlsafe())
        self.robin = store.accounts.add("Robin", no_password)
        self.kim = store.accounts.add("Kim", no_password, age=7)
        living = {"name": "Living room", "target": console, "shared": True}
        self.living = store.devices.add(self.robin, living)
        bedroom = {"name": "Bedroom", "target": off, "shared": False}
        self.bedroom = store.devices.add(self.kim, bedroom)
        store.accounts.uses.set_target_state(self.living, "ready")

    def settle(self) -> None:
        """Decide ages, and bring the queue to where one sees how it works."""
        describe(self.store)
        for number, (name, *_) in enumerate(games()):
            if age := TITLE_AGES[number % len(TITLE_AGES)]:
                self.store.entries.set_ages([self.base(name)["title"]], age)
        self.send(self.robin, self.living, *SENT)
        for item in self.store.queue.items(self.robin):
            done = {"bytes_transferred": item["size"], "progress_percent": 100}
            done |= {"status": "completed", "key": self.living}
            self.store.clients.report(self.robin, item["id"], done)
        self.send(self.robin, self.living, *WAITING)
        self.send(self.kim, self.bedroom, "Hexagon Garden")

    def base(self, name: str) -> catalogd.Row:
        """Return the entry of a game."""
        sql = "SELECT id, title FROM entries WHERE name = ? ORDER BY rowid"
        return self.store.database.rows(sql, (name,))[0]

    def send(self, account: int, device: str, *names: str) -> None:
        for name in names:
            self.store.queue.send(account, self.base(name)["id"], device)

    def refill(self) -> None:
        """Send the next game where nothing waits behind what is being sent."""
        rows = self.store.queue.items(self.robin)
        if not any(row["status"] == "pending" for row in rows):
            self.send(self.robin, self.living, games()[len(rows) % len(games())][0])


# The console ------------------------------------------------------------------


class Session(socketserver.StreamRequestHandler):
    """A control connection of the FTP server of a console, and its data connections."""

    server: "Console"

    def handle(self) -> None:
        self.start, self.renamed = 0, ""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.reply("220 The console of a demo.")
        with self.listener, contextlib.suppress(OSError):
            for line in self.rfile:
                word, _, name = line.decode(errors="replace").strip().partition(" ")
                answer = getattr(self, f"do_{word.upper()}", None)
                self.reply(answer(name) if answer else "500 Unknown command.")

    def reply(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())

    def do_USER(self, name: str) -> str:
        return "230 Welcome."

    def do_TYPE(self, name: str) -> str:
        return "200 Okay."

    def do_CWD(self, name: str) -> str:
        return "250 Okay."

    def do_PASV(self, name: str) -> str:
        high, low = divmod(self.listener.getsockname()[1], 256)
        return f"227 Entering Passive Mode (127,0,0,1,{high},{low})."

    def do_SIZE(self, name: str) -> str:
        size = self.server.sizes.get(name.rpartition("/")[2])
        return "550 No such file." if size is None else f"213 {size}"

    def do_REST(self, name: str) -> str:
        self.start = int(name)
        return "350 Restarting."

    def do_STOR(self, name: str) -> str:
        """Count what comes, no faster than a console writes to its card."""
        start, self.start = self.start, 0
        name, sizes = name.rpartition("/")[2], self.server.sizes
        sizes[name], began = start, time.monotonic()
        with self.data() as data:
            while block := data.recv(65536):
                sizes[name] += len(block)
                due = began + (sizes[name] - start) / CONSOLE_SPEED
                time.sleep(max(due - time.monotonic(), 0))
        return "226 Done."

    def do_RETR(self, name: str) -> str:
        """Send zeros, as the games are made of."""
        start, self.start = self.start, 0
        left = self.server.sizes.get(name.rpartition("/")[2], 0) - start
        with self.data() as data:
            while left > 0:
                data.sendall(bytes(min(left, 65536)))
                left -= 65536
        return "226 Done."

    @contextlib.contextmanager
    def data(self) -> Iterator[socket.socket]:
        self.reply("150 Here it goes.")
        with self.listener.accept()[0] as data:
            yield data

    def do_RNFR(self, name: str) -> str:
        self.renamed = name.rpartition("/")[2]
        return "350 To which name?"

    def do_RNTO(self, name: str) -> str:
        """Forget the file, so that it can be sent again."""
        self.server.sizes.pop(self.renamed, None)
        return "250 Okay."

    def do_DELE(self, name: str) -> str:
        self.server.sizes.pop(name.rpartition("/")[2], None)
        return "250 Okay."


class Console(socketserver.ThreadingTCPServer):
    """A console with a card that has room for everything, since it keeps nothing."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.sizes: dict[str, int] = {}  # of files that are not whole
        self.url = f"ftp://127.0.0.1:{self.server_address[1]}/"

    def __enter__(self) -> "Console":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


# The service ------------------------------------------------------------------


def serve(args: argparse.Namespace) -> None:
    """Serve the demo until a signal ends it. :raises catalogd.Problem:"""
    if args.folders:
        raise catalogd.Problem("serve --demo has its own games. Leave out the folders.")
    remove_old()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True)
        )
        stack.enter_context(catalogd.exclusive(folder, "demo"))
        stack.enter_context(catalogd.log_thread())
        console = stack.enter_context(Console())
        off = stack.enter_context(socket.socket())  # bound, it refuses connections
        off.bind(("127.0.0.1", 0))
        games_folder = pathlib.Path(folder, "Games")
        games_folder.mkdir()
        fill(games_folder, covers(), games())
        store = stack.enter_context(
            contextlib.closing(catalogd.Store(os.path.join(folder, "data")))
        )
        home = Household(store, console.url, f"ftp://127.0.0.1:{off.getsockname()[1]}/")
        if not run(args, home, str(games_folder)):
            logging.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)  # a thread waits, and uses what is gone


def remove_old() -> None:
    """Remove what a demo that was killed has left."""
    user = getattr(os, "getuid", int)()
    for old in pathlib.Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        # One that runs has locked its folder; others are not ours to remove, such as a
        # link that somebody has put there.
        with contextlib.suppress(catalogd.Problem, OSError):
            info = old.lstat()
            if stat.S_ISDIR(info.st_mode) and info.st_uid == user:
                with catalogd.exclusive(str(old), "demo"):
                    pass
                shutil.rmtree(old)


def run(args: argparse.Namespace, home: Household, folder: str) -> bool:
    """Return whether all threads of the service have ended."""
    host = "127.0.0.1" if args.host is None else args.host
    port = catalogd.Settings.port if args.port is None else args.port
    settings = catalogd.Settings(folders=(folder,), host=host, port=port)
    if os.environ.get("CATALOGD_CONTAINER"):  # whose port is one of this machine's
        settings = dataclasses.replace(settings, base_url=f"http://localhost:{port}")
    scanner = catalogd.Scanner(home.store, settings)
    languages = catalogd.read_translations(home.store.database.folder)
    web = catalogd.Web(home.store, settings, scanner, languages)
    server = catalogd.listen(web, args.also)
    tempfile.tempdir = home.store.database.folder
    scanner.scan()
    home.settle()
    mark(web)
    address = next(catalogd.page_addresses(server, settings, is_named=False))
    links = add_links(web, {"Robin, an adult": home.robin, "Kim, 7 years": home.kim})
    print("A demo with made-up games, of which nothing is kept. Good once each:")
    for name, path in links.items():
        print(f"    {name + ':':18}{address}{path}", flush=True)
    if args.open:
        webbrowser.open(address + next(iter(links.values())))
    refill = catalogd.Lasting("refill", home.refill, REFILL_SECONDS)
    refill.start()
    try:
        return bool(catalogd.run(server, scanner, web))
    finally:
        refill.stop(1)


def mark(web: catalogd.Web) -> None:
    """Write "Demo" into the page's head."""
    kind, style = catalogd.ASSETS["style.css"]
    headers = {**catalogd.PAGE_HEADERS, "Content-Type": kind}
    body = catalogd.Body(style + MARK.encode(), secrets.token_hex(8), level=9)
    web.app.route("/style.css", "GET", lambda: body.answer(headers), runs="workers")


def add_links(web: catalogd.Web, accounts: Mapping[str, int]) -> dict[str, str]:
    """Return a path for each account, which signs in once, by its name. It leads to the
    page again where it did."""
    calls = catalogd.SignInCalls(web)
    tokens = {secrets.token_urlsafe(9): name for name in accounts}
    unused = {token: accounts[name] for token, name in tokens.items()}

    def sign_in(token: str) -> Any:
        account = unused.pop(token, None)
        _, holder = catalogd.session(calls.accounts)
        if account is not None:
            answer = calls._sign_in(account)
        elif holder and holder.account == accounts.get(tokens.get(token, "")):
            answer = catalogd.bottle.HTTPResponse()
        else:
            headers = {**catalogd.PAGE_HEADERS, "Content-Type": "text/html"}
            return catalogd.bottle.HTTPResponse(USED, 410, headers)
        answer.status, answer.body = 303, b""
        answer.set_header("Location", "/")
        return answer

    web.app.route("/demo/<token>", "GET", sign_in, runs="writes")
    return {name: f"demo/{token}" for token, name in tokens.items()}
