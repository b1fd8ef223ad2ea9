"""An example household: a server with games, two accounts and a queue."""

import contextlib
import os
import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import catalogd

sys.path.append(str(pathlib.Path(catalogd.__file__).parent / "packaging"))
from demo import MEGABYTE, describe, fill, games  # noqa: E402

PASSWORD = "correct horse"


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
        languages = catalogd.read_translations(store.database.folder)
        web = catalogd.Web(store, settings, scanner, languages)
        address = stack.enter_context(served(web))
        yield Demo(address, store, scanner)


@contextlib.contextmanager
def demo(icons: Sequence[bytes] = (b"",)) -> Iterator[Demo]:
    """Serve the games of `serve --demo`, one of them as a link.

    :param icons: pictures for the games, used in turn; an empty one is none.
    """
    with running(lambda folder: fill(folder, icons, games()[:-1])) as server:
        store = server.store
        robin = store.accounts.id_of("Robin")
        describe(store)
        add_link(store)
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


def by_age(store: catalogd.Store) -> list[catalogd.Row]:
    """Return all entries with their state, the oldest first."""
    sql = "SELECT id, name, type, source, file_type, size, state,"
    sql += f" {catalogd.FILE_NAME} AS file_name FROM parts ORDER BY serial"
    return store.database.rows(sql, {"age": catalogd.EVERYTHING})


def add_link(store: catalogd.Store) -> None:
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
    of = {"path": "/media/card", "free": "188 MB", "size": "1.0 GB"}
    why: dict[str, object] = {"error_code": "card_full", "error_arguments": of}
    why["error_message"] = catalogd.reported("card_full", of)
    failed = {"status": "failed", **why, "progress_percent": 34}
    store.clients.report(account, items["Hexagon Garden"]["id"], failed)
    now = items["Umbra Gambit"]
    done = {"bytes_transferred": int(now["size"] * 0.423), "progress_percent": 42.3}
    store.clients.report(account, now["id"], done)
    store.queue.progress._reports[now["id"]]["speed"] = 21_400_000
