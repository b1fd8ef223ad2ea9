"""An example household: a server with games, two accounts and a queue."""

import contextlib
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import catalogd
import containers

PASSWORD = "correct horse"
MEGABYTE = 1_000_000
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
"""


ADD_ONS = ("Extra Levels", "Soundtrack", "The Frozen North")


class Demo(NamedTuple):
    """A running server with games, two accounts and a queue."""

    address: str
    store: catalogd.Store
    scanner: catalogd.Scanner


@contextlib.contextmanager
def served(web: catalogd.Web) -> Iterator[str]:
    """Serve, and return the address, such as `http://127.0.0.1:40123/`."""
    server = catalogd.listen(web)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}/"
    finally:
        server.stop()
        thread.join()


@contextlib.contextmanager
def running(fill: Callable[[pathlib.Path], None]) -> Iterator[Demo]:
    """Serve the files that `fill` writes, to two accounts."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        games = pathlib.Path(name, "Games")
        games.mkdir()
        fill(games)
        store = catalogd.Store(os.path.join(name, "data"), stale_after=86_400)
        stack.callback(store.close)
        for person in ("Robin", "Kim"):  # the first is an admin
            store.accounts.add(person, catalogd.hash_password(PASSWORD))
        settings = catalogd.Settings(folders=(str(games),), host="127.0.0.1", port=0)
        scanner = catalogd.Scanner(store, settings)
        scanner.scan()
        web = catalogd.Web(store, settings, scanner)
        address = stack.enter_context(served(web))
        yield Demo(address, store, scanner)


@contextlib.contextmanager
def demo(icons: Sequence[bytes] = (b"",)) -> Iterator[Demo]:
    """Serve the example data.

    :param icons: pictures for the games, used in turn; an empty one is none.
    """
    with running(lambda folder: fill(folder, icons)) as server:
        store = server.store
        robin = store.accounts.id_of("Robin")
        describe(store)
        fill_queue(store, robin)
        store.accounts.add_key(
            robin, "Computer in the living room", catalogd.hash_token("a key")
        )
        yield server


def session(store: catalogd.Store, account: int) -> str:
    """Sign in a browser of an account, and return its cookie."""
    secret = catalogd.secrets.token_urlsafe(32)
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    store.accounts.add_session(account, catalogd.hash_token(secret), agent)
    return secret


def fill(folder: pathlib.Path, icons: Sequence[bytes]) -> None:
    """Write sparse files of plausible sizes: games, most of them with updates and
    add-ons, and some homebrew."""
    for number, (name, version, _) in enumerate(games()):
        kind = ("nsp", "nsz", "xci", "nro")[number % 4]
        base = 0x0100_A000_0000_0000 + number * 0x2_0000
        icon = icons[number % len(icons)]
        size = (37 + number * 331 % 7000) * MEGABYTE + number * 4321
        path = folder / f"{name} [{base:016X}][v0].{kind}"
        if kind == "nro":
            control = containers.nacp(name, "Sofa Systems", version)
            put(path, size // 90, containers.nro(control, icon))
            continue
        put(path, size)
        if icon and kind == "nsz":
            path.with_suffix(".png").write_bytes(icon)
        if icon and kind == "xci":  # by the title's id, wherever it is
            (folder / "Covers").mkdir(exist_ok=True)
            (folder / "Covers" / f"{base:016X}.png").write_bytes(icon)
        patches = ((), (1, 3), (2,))[number % 3]
        for patch in patches:
            tags = f"[{base + 0x800:016X}][v{patch * 65536}]"
            put(folder / f"{name} {tags}.nsp", size // 20)
        for extra, own in enumerate(ADD_ONS[: number % 4]):
            tags = f"[{base + 0x1001 + extra:016X}][v0]"
            put(folder / f"{name} - {own} {tags}.nsp", size // (6 + extra))


def put(path: pathlib.Path, size: int, content: bytes = b"") -> None:
    path.write_bytes(content)
    os.truncate(path, max(size, len(content)))
    quiet = 1_760_000_000 + size % 86_400
    os.utime(path, (quiet, quiet))


def games() -> list[list[str]]:
    """Return name, version and description of each game."""
    return [row.split("|") for row in GAMES.splitlines()]


def by_age(store: catalogd.Store) -> list[catalogd.Row]:
    """Return all entries with their state, the oldest first."""
    sql = "SELECT id, name, type, source, file_type, size, state, file_name"
    return store.database.rows(f"{sql} FROM entries ORDER BY rowid")


def describe(store: catalogd.Store) -> None:
    texts = {name: (version, text) for name, version, text in games()}
    for row in by_age(store):
        if row["name"] in texts:
            version, text = texts[row["name"]]
            facts = {"version": version, "description": text}
            store.entries.edit(row["id"], facts)
    link = {"name": "Yonder Isles", "description": "", "version": "1.0.2"}
    url = "https://games.example.org/yonder-isles.nro"
    store.entries.add_link(url, 64 * MEGABYTE, "nro", link, by="Robin")


def fill_queue(store: catalogd.Store, account: int) -> None:
    """Queue items and bring them to every status, by the calls that clients make."""
    ids = {row["name"]: row["id"] for row in by_age(store)}
    ended = ("Echo Quarry", "Paper Harbor", "Hexagon Garden")
    waiting = ("Rooftop Gardener", "Moss & Copper", "Night Ferry")
    for name in (*ended, "Umbra Gambit", *waiting):
        store.queue.send(account, ids[name])
    items = {row["name"]: row for row in store.queue.items(account)}
    for name in ended[:2]:
        done = {"bytes_transferred": items[name]["size"], "progress_percent": 100}
        store.clients.report(
            account, items[name]["id"], {**done, "status": "completed"}
        )
    why = "/media/card has room for 188 MB, and the file needs 1.0 GB."
    failed = {"status": "failed", "error_message": why, "progress_percent": 34}
    store.clients.report(account, items["Hexagon Garden"]["id"], failed)
    now = items["Umbra Gambit"]
    done = {"bytes_transferred": int(now["size"] * 0.423), "progress_percent": 42.3}
    store.clients.report(account, now["id"], done)
    store.queue.progress._reports[now["id"]]["speed"] = 21_400_000
