"""The database: accounts and keys, the catalog, the queue, and what may go wrong."""

import concurrent.futures
import contextlib
import itertools
import json
import operator
import os
import pathlib
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import catalogd
from conftest import Clock, go_on, small_disk, steps
from example import by_age

NOW = "2027-01-15T08:00:00"  # as conftest's clock stands
HERE = os.path.dirname(catalogd.__file__)
OPEN = ["pending", "offered", "processing"]
ENDED = ["completed", "failed", "cancelled"]


@pytest.fixture
def anna(store: catalogd.Store) -> int:
    return store.accounts.add("anna", "hash")


@pytest.fixture
def entry(store: catalogd.Store) -> str:
    return add_link(store, "Celeste")


@pytest.fixture
def item(store: catalogd.Store, anna: int, entry: str) -> str:
    """The id of an item of anna's queue, of the entry."""
    return send(store, anna, entry)


def add_link(store: catalogd.Store, name: str) -> str:
    facts = {"name": name, "description": "", "version": ""}
    return store.entries.add_link(f"http://host/{name}", 7, "nsp", facts, "anna")


def send(store: catalogd.Store, account: int, entry: str) -> str:
    """Queue an entry; the item's id."""
    assert store.queue.send(account, entry)
    return str(store.queue.items(account)[-1]["id"])


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def opened(
    folder: str, clock: Callable[[], float] = time.time
) -> contextlib.closing[catalogd.Store]:
    """A store of its own in this folder, as of another process."""
    return contextlib.closing(
        catalogd.Store(folder, clock=catalogd.Clock(clock, clock))
    )


def upgraded(
    folder: pathlib.Path, clock: Callable[[], float] = time.time
) -> contextlib.closing[catalogd.Store]:
    """The store of an earlier release, as a service opens it."""
    catalogd.upgrade(str(folder))
    return opened(str(folder), clock)


def status(store: catalogd.Store, account: int) -> list[str]:
    return [item["status"] for item in store.queue.items(account)]


def file(path: str, **facts: Any) -> catalogd.FoundFile:
    given = {"size": 3, "mtime": 4, "inode": 5, "volume": "v", **facts}
    return catalogd.FoundFile(path, "/games", **given)


def content(name: str, sample: str = "sample") -> catalogd.FileContent:
    facts = {"name": name, "description": "", "version": "1"}
    return catalogd.FileContent(sample, facts)


def add_file(store: catalogd.Store, name: str, **facts: Any) -> catalogd.KnownFile:
    """A file of this name, as a scan registers it."""
    path = f"/games/{name}.NSP"
    store.entries.add_files([(file(path, **facts), content(name))], listed=True)
    return next(known for known in store.entries.files() if known.file.path == path)


def listed(store: catalogd.Store) -> list[str]:
    return [
        entry["name"]
        for entry in json.loads(store.entries.list_json(catalogd.EVERYTHING))
    ]


# Accounts


def test_the_first_account_is_an_admin_and_the_next_is_not(
    store: catalogd.Store,
) -> None:
    assert not store.accounts.exist()
    for name in ("anna", "ben"):
        store.accounts.add(name, "hash")
    store.accounts.add("carl", "hash", admin=True)
    assert store.accounts.exist()
    assert store.accounts.all() == [
        {"id": 1, "name": "anna", "admin": True, "age": None, "created_at": NOW},
        {"id": 2, "name": "ben", "admin": False, "age": None, "created_at": NOW},
        {"id": 3, "name": "carl", "admin": True, "age": None, "created_at": NOW},
    ]


def test_a_name_is_taken_in_any_case_and_an_unknown_one_has_no_id(
    store: catalogd.Store, anna: int
) -> None:
    with pytest.raises(catalogd.Conflict, match="There is an account Anna already"):
        store.accounts.add("Anna", "hash")
    assert store.accounts.credentials("ANNA") == (anna, "hash")
    assert store.accounts.credentials("nobody") is None
    with pytest.raises(catalogd.NotFound, match="There is no account nobody"):
        store.accounts.id_of("nobody")


def test_an_account_goes_with_all_it_has(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    ben = store.accounts.add("ben", "hash")
    store.accounts.add_key(ben, "switch", b"key")
    store.accounts.add_session(ben, b"session", "browser")
    store.queue.send(ben, entry)
    store.accounts.remove(ben)
    assert [account["name"] for account in store.accounts.all()] == ["anna"]
    assert store.accounts.key_holder(b"key") is None
    assert store.accounts.session_holder(b"session") is None
    assert store.queue.items(ben) == []
    assert store.accounts.add("carl", "hash") != ben  # ids are never given again


def test_the_last_admin_cannot_be_removed_while_there_are_others(
    store: catalogd.Store, anna: int
) -> None:
    ben = store.accounts.add("ben", "hash")
    with pytest.raises(catalogd.Conflict, match="The last admin cannot be removed"):
        store.accounts.remove(anna)
    assert store.accounts.id_of("anna") == anna
    store.accounts.remove(ben)
    store.accounts.remove(anna)
    assert not store.accounts.exist()


# Keys and sessions


def test_a_key_tells_who_holds_it_until_it_is_revoked(
    store: catalogd.Store, anna: int
) -> None:
    key = store.accounts.add_key(anna, "switch", b"digest")
    other = store.accounts.add_key(anna, "phone", b"other")
    holder = catalogd.Caller(anna, "anna", True, catalogd.EVERYTHING, key)
    assert store.accounts.key_holder(b"digest") == holder
    assert store.accounts.key_holder(b"another") is None
    store.accounts.revoke_key(key, anna)
    store.accounts.revoke_key(other)
    assert store.accounts.key_holder(b"digest") is None
    assert store.accounts.key_holder(b"other") is None


def test_nothing_is_added_to_an_account_that_was_removed_just_now(
    store: catalogd.Store, anna: int
) -> None:
    store.accounts.remove(anna)
    with pytest.raises(catalogd.NotFound, match="was removed just now"):
        store.accounts.add_key(anna, "switch", b"1")


def requests(store: catalogd.Store) -> int:
    return int(store.accounts.keys()[0]["requests"])


def test_uses_are_written_when_the_service_asks_and_shown_at_once(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    store.accounts.add_key(anna, "switch", b"1")
    with opened(store.database.folder, clock) as other:
        for used in (1, 2, 3):
            clock.now += 3600
            store.accounts.key_holder(b"1")
            assert (requests(store), requests(other)) == (used, 0)
        store.accounts.write_uses()
        assert requests(other) == 3
    assert store.accounts.keys()[0]["last_used_at"] == catalogd.stamp(clock.now)


def test_without_uses_nothing_is_written(store: catalogd.Store) -> None:
    statements: list[str] = []
    store.database._writer.set_trace_callback(statements.append)
    store.accounts.write_uses()
    assert statements == []


def test_a_key_keeps_the_time_of_its_own_last_use(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    for digest, seconds in ((b"1", 0), (b"2", 1), (b"3", 3600)):
        store.accounts.add_key(anna, digest.decode(), digest)
        clock.now += seconds
        store.accounts.key_holder(digest)
    used = {key["label"]: key["last_used_at"] for key in store.accounts.keys(None)}
    assert used["2"] == "2027-01-15T08:00:01"


def test_uses_that_are_not_yet_written_are_when_the_store_is_closed(
    store: catalogd.Store, anna: int
) -> None:
    store.accounts.add_key(anna, "switch", b"1")
    with opened(store.database.folder) as other:
        for _ in range(3):
            other.accounts.key_holder(b"1")
    assert store.accounts.keys()[0]["requests"] == 3


def test_uses_that_cannot_be_written_refuse_no_key_and_are_kept(
    store: catalogd.Store,
    anna: int,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.accounts.add_key(anna, "switch", b"1")
    clock.now += 3600
    with monkeypatch.context() as broken:
        broken.setattr(store.database, "writing", full_disk)
        for _ in range(2):
            assert store.accounts.key_holder(b"1") is not None
            store.accounts.write_uses()
    assert caplog.text.count("could not be written: The disk is full.") == 1
    with opened(store.database.folder) as other:
        assert requests(other) == 0
        store.accounts.key_holder(b"1")
        assert requests(other) == 3


@pytest.fixture
def waits(store: catalogd.Store, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that each write may wait for others."""
    waits: list[float] = []
    writing = store.database.writing

    def note(wait: float | None = None) -> Any:
        waits.append(catalogd.MAX_WRITE_WAIT_SECONDS if wait is None else wait)
        return writing(wait)

    monkeypatch.setattr(store.database, "writing", note)
    return waits


def test_the_use_of_a_key_does_not_wait_for_a_write_and_is_written_with_the_next(
    store: catalogd.Store, anna: int, another: Any, waits: list[float]
) -> None:
    device = store.accounts.add_key(anna, "switch", b"1")
    with opened(store.database.folder) as other:
        with another(store):
            waits.clear()
            assert store.accounts.key_holder(b"1") is not None
            store.accounts.uses.set_target_state(device, "ready")
            store.accounts.write_uses()
            assert {*waits} == {0}
            assert (requests(other), other.devices.all()) == (0, [])
        store.accounts.key_holder(b"1")
        assert requests(other) == 2
        assert other.devices.all()[0]["target"] == "ready"


def test_sessions_tell_their_last_use_which_is_written_when_the_service_asks(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    def last_used(of: catalogd.Store) -> str:
        return str(of.accounts.sessions(anna)[0]["last_used_at"])

    store.accounts.add_session(anna, b"1", "browser")
    assert last_used(store) == NOW
    with opened(store.database.folder, clock) as other:
        clock.now += 1800
        store.accounts.session_holder(b"1")
        assert last_used(store) == catalogd.stamp(clock.now)
        assert last_used(other) == NOW
        store.accounts.write_uses()
        assert last_used(other) == catalogd.stamp(clock.now)


@contextlib.contextmanager
def full_disk(*given: Any, **options: Any) -> Iterator[sqlite3.Connection]:
    raise catalogd.StorageFull("The disk is full.")
    yield


def test_a_session_ends_after_ninety_days_without_use(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    for digest in (b"used", b"unused"):
        store.accounts.add_session(anna, digest, "browser")
    for _ in range(10):
        clock.now += 30 * 86400
        assert store.accounts.session_holder(b"used") is not None
        store.accounts.write_uses()
    assert store.accounts.session_holder(b"unused") is None
    clock.now += 90 * 86400
    store.drop_old()
    assert len(store.accounts.sessions(anna)) == 1
    clock.now += 1
    assert store.accounts.sessions(anna) == []
    assert store.accounts.session_holder(b"used") is None
    store.drop_old()
    assert store.database.value("SELECT 1 FROM sessions") is None


def test_a_use_in_the_last_day_of_a_session_is_written_at_once_and_no_other(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    store.accounts.add_session(anna, b"1", "browser")
    for days, count in ((89, 0), (1, 1), (0, 1)):
        clock.now += days * 86400
        before = store.database.data_version()
        with opened(store.database.folder, clock) as other:
            assert store.accounts.session_holder(b"1") is not None
            written = "SELECT count(last_used_at) FROM sessions"
            assert other.database.value(written) == count
        assert (store.database.data_version() == before) is (days != 1)


def test_a_key_of_a_client_s_login_ends_after_ninety_days_without_use(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    def labels() -> list[str]:
        store.drop_old()
        return sorted(row["label"] for row in store.accounts.keys(None))

    store.accounts.add_key(anna, "page", b"page")
    for digest in (b"used", b"unused"):
        store.accounts.add_key(anna, digest.decode(), digest, by_login=True)
    clock.now += 90 * 86400
    assert store.accounts.key_holder(b"used") is not None
    assert labels() == ["page", "unused", "used"]
    clock.now += 1
    assert store.accounts.key_holder(b"unused") is None, "before it is dropped"
    assert labels() == ["page", "used"]


# Entries


def test_the_list_is_ordered_by_name_without_case(store: catalogd.Store) -> None:
    for name in ("beta", "Alpha", "ALPHA 2", "ÉTÉ", "été 2", "Gamma"):
        add_link(store, name)
    assert listed(store) == ["Alpha", "ALPHA 2", "beta", "Gamma", "ÉTÉ", "été 2"]


def test_a_name_from_a_mac_is_listed_as_it_is_typed_elsewhere(
    store: catalogd.Store,
) -> None:
    mac, typed = "Poke\u0301mon", "Pok\u00e9mon"
    for name in (f"{mac}/{mac}", typed):
        path = f"/games/{name}.nsp"
        found = content(os.path.basename(name))
        store.entries.add_files([(file(path), found)], listed=True)
    assert listed(store) == [f"{typed} (games/{typed}.nsp)"] + [
        f"{typed} (games/{typed}/{typed}.nsp)"
    ]
    assert [
        row["source"]
        for row in json.loads(store.entries.list_json(catalogd.EVERYTHING))
    ] == [
        f"/games/{typed}.nsp",
        f"/games/{mac}/{mac}.nsp",
    ]


def test_what_a_scan_found_is_written(store: catalogd.Store) -> None:
    kept, gone, offline, dropped = (
        add_file(store, name) for name in ("kept", "gone", "offline", "dropped")
    )
    assert kept == (kept.id, file("/games/kept.NSP"), "sample", "here", None, 1, 0)
    moved = file("/games/moved.xci", inode=9)
    store.entries.apply(
        catalogd.Changes(
            updated=[(kept, moved, content("Moved", "new"))],
            gone=[gone],
            offline=[offline],
            forgotten=[dropped],
        )
    )
    assert list(store.entries.files()) == [
        (kept.id, moved, "new", "here", None, 1, 0),
        (gone.id, gone.file, "sample", "gone", NOW, 2, 0),
        (offline.id, offline.file, "sample", "offline", NOW, 3, 0),
    ]
    assert listed(store) == ["Moved"]
    assert store.entries.get(kept.id, catalogd.EVERYTHING)["file_type"] == "xci"
    with pytest.raises(catalogd.NotFound):
        store.entries.get(gone.id, catalogd.EVERYTHING)


def test_an_entry_that_takes_the_file_of_another_gets_what_hangs_on_it(
    store: catalogd.Store, anna: int
) -> None:
    winner, twin = add_file(store, "A"), add_file(store, "B")
    make(store, anna, twin.id, "failed")
    taken = (winner, twin.file, content("B"))
    store.entries.apply(catalogd.Changes(updated=[taken], merged=[(winner, twin)]))
    (known,) = store.entries.files()
    assert (known.id, known.file) == (winner.id, twin.file)
    assert [item["entry"] for item in store.queue.items(anna)] == [winner.id]
    assert listed(store) == ["B"]


@pytest.mark.parametrize("gift", ["edit", "item", "both wait"])
def test_a_twin_that_somebody_touches_while_its_file_is_taken_stays(
    gift: str, store: catalogd.Store, anna: int
) -> None:
    winner, twin = add_file(store, "A"), add_file(store, "B")
    if gift == "edit":
        store.entries.edit(twin.id, {"name": "Mine"})
    else:
        store.queue.send(anna, twin.id)
    if gift == "both wait":
        store.queue.send(anna, winner.id)
    taken = (winner, twin.file, content("B"))
    store.entries.apply(catalogd.Changes(updated=[taken], merged=[(winner, twin)]))
    states = {item.id: item.state for item in store.entries.files()}
    items = {item["entry"] for item in store.queue.items(anna)}
    if gift == "item":  # it goes on with the file
        assert states == {winner.id: "here"} and items == {winner.id}
    else:
        assert states == {winner.id: "here", twin.id: "gone"}
        assert items == ({winner.id, twin.id} if gift == "both wait" else set())


def test_what_was_given_to_a_content_ends_with_it(
    store: catalogd.Store, anna: int
) -> None:
    known, other = add_file(store, "A"), add_file(store, "B")
    store.entries.set_ages([known.id], 7)
    make(store, anna, known.id, "completed")
    store.entries.apply(catalogd.Changes(updated=[(known, known.file, content("A"))]))
    assert store.entries.ages() == {known.id: 7, other.id: 7}
    (now, _) = store.entries.files()
    assert now.is_touched
    changed = (known, known.file, content("A", "new sample"))
    store.entries.apply(catalogd.Changes(updated=[changed]))
    assert store.entries.ages() == {other.id: 7}
    assert not store.database.rows("SELECT * FROM sent")
    assert other.sample == "sample"


def test_a_file_that_is_back_keeps_its_facts(store: catalogd.Store) -> None:
    known = add_file(store, "A")
    store.entries.apply(catalogd.Changes(gone=[known]))
    store.entries.apply(catalogd.Changes(updated=[(known, known.file, None)]))
    assert list(store.entries.files()) == [known]
    assert listed(store) == ["A"]


def test_what_became_of_files_is_written_whole_or_not_at_all(
    store: catalogd.Store,
) -> None:
    one, two = add_file(store, "A"), add_file(store, "B")
    before = store.entries.list_version()
    bad = (two, two.file._replace(size=None), None)
    with pytest.raises(sqlite3.IntegrityError):
        store.entries.apply(
            catalogd.Changes(updated=[(one, file("/games/C.nsp"), None), bad])
        )
    assert list(store.entries.files()) == [one, two]
    assert store.entries.list_version() == before


def test_any_number_of_entries_is_written_at_once(store: catalogd.Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match="too many SQL variables"):
        store.database.rows(f"SELECT 1 IN ({'?,' * 32_766}?)", [0] * 32_767)
    found = [(file(f"/games/{n}.nsp"), content(str(n))) for n in range(2000)]
    store.entries.add_files(found, listed=True)
    known = list(store.entries.files())
    for changes in (
        {"gone": known},
        {"updated": [(row, row.file, None) for row in known]},
    ):
        store.entries.apply(catalogd.Changes(**changes))
    assert store.entries.count(catalogd.EVERYTHING) == 2000


def test_the_version_of_the_list_goes_up_with_each_change(
    store: catalogd.Store,
) -> None:
    link = add_link(store, "B")
    known = add_file(store, "A")
    checksum = catalogd.ServedFile(known.id, known.file.path, "/games", 3, 4, "0" * 64)
    versions = [store.entries.list_version()]
    for change in (
        lambda: store.entries.edit(known.id, {"name": "C"}),
        lambda: store.entries.set_checksum(checksum),
        lambda: store.entries.remove_link(link),
        lambda: store.entries.apply(catalogd.Changes(gone=[known])),
    ):
        change()
        versions.append(store.entries.list_version())
    assert versions == [2, 3, 4, 5, 6]


def test_overrides_go_over_the_file_facts_until_they_are_removed(
    store: catalogd.Store,
) -> None:
    known = add_file(store, "Z")
    add_file(store, "M")
    store.entries.edit(known.id, {"name": "A", "version": "2"})
    store.entries.edit(known.id, {"description": "words"})
    assert listed(store) == ["A", "M"]
    assert store.entries.get(known.id, catalogd.EVERYTHING)["metadata"] == {
        "description": "words",
        "version": "2",
    }
    store.entries.edit(known.id, None)
    assert listed(store) == ["M", "Z"]
    assert store.entries.get(known.id, catalogd.EVERYTHING)["metadata"] == {
        "description": "",
        "version": "1",
    }


def test_details_are_read_at_once_so_that_no_link_can_go_meanwhile(
    store: catalogd.Store, entry: str
) -> None:
    statements: list[str] = []
    with store.database.reading() as db:
        db.set_trace_callback(statements.append)
    assert (
        store.entries.details(entry, catalogd.EVERYTHING)["file"]["name"] == "Celeste"
    )
    assert len(statements) == 1
    store.entries.remove_link(entry)
    with pytest.raises(catalogd.NotFound):
        store.entries.details(entry, catalogd.EVERYTHING)


def test_a_checksum_is_told_as_long_as_it_is_of_the_same_file(
    store: catalogd.Store,
) -> None:
    known = add_file(store, "A")
    none = catalogd.ServedFile(known.id, "/games/A.NSP", "/games", 3, 4, None)
    assert (
        store.entries.served_files() == store.entries.served_files([known.id]) == [none]
    )
    store.entries.set_checksum(none._replace(sha256="0" * 64))
    assert store.entries.served_file(known.id).sha256 == "0" * 64
    assert (
        store.entries.get(known.id, catalogd.EVERYTHING)["metadata"]["sha256"]
        == "0" * 64
    )
    store.entries.apply(
        catalogd.Changes(updated=[(known, file("/games/A.NSP", mtime=5), None)])
    )
    assert store.entries.served_file(known.id) == none._replace(mtime=5)
    assert "sha256" not in store.entries.get(known.id, catalogd.EVERYTHING)["metadata"]


def test_only_files_that_are_here_have_checksums(
    store: catalogd.Store, entry: str
) -> None:
    gone = add_file(store, "A")
    store.entries.apply(catalogd.Changes(gone=[gone]))
    assert store.entries.served_files() == []
    for identity in (entry, gone.id, "unknown"):
        with pytest.raises(catalogd.NotFound, match=f"no file with the id {identity}"):
            store.entries.served_file(identity)


def test_only_a_link_can_be_removed(store: catalogd.Store, entry: str) -> None:
    known = add_file(store, "A")
    store.entries.remove_link(entry)
    for identity in (entry, known.id):
        with pytest.raises(catalogd.NotFound, match="There is no link"):
            store.entries.remove_link(identity)
    assert listed(store) == ["A"]


# Queue


def test_a_queue_is_first_in_first_out_and_ones_own(
    store: catalogd.Store, anna: int
) -> None:
    ben = store.accounts.add("ben", "hash")
    entries = [add_link(store, name) for name in ("C", "A", "B")]
    for entry in entries:
        assert store.queue.send(anna, entry)
    store.queue.send(ben, entries[1])
    assert names(store.clients.pending(anna)) == ["C", "A", "B"]
    assert names(store.clients.pending(ben)) == ["A"]


def test_a_report_without_a_change_of_status_writes_nothing(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    item = make(store, anna, entry, "processing")
    statements: list[str] = []
    store.database._writer.set_trace_callback(statements.append)
    for report in ({"progress_percent": 12}, {"status": "processing"}):
        assert store.clients.report(anna, item, report) == "processing"
    assert statements == []
    with opened(store.database.folder) as other:
        assert other.queue.items(anna)[0]["percent"] == 0
        store.clients.report(anna, item, {"status": "completed"})
        assert other.queue.items(anna)[0]["percent"] == 12
    statements.clear()
    store.clients.report(anna, item, {"status": "completed"})
    assert statements == []


def test_an_item_tells_of_its_entry_and_its_progress(
    store: catalogd.Store, anna: int, entry: str, item: str
) -> None:
    report = {
        "status": "failed",
        "progress_percent": 12.5,
        "bytes_transferred": 8,
        "error_message": "no card",
    }
    assert store.clients.report(anna, item, report) == "failed"
    assert store.queue.items(anna) == [
        {
            "id": item,
            "entry": entry,
            "title": entry,
            "name": "Celeste",
            "size": 7,
            "state": "here",
            "percent": 12.5,
            "bytes": 8,
            "speed": 0,
            "error": "no card",
            "created_at": NOW,
            "ended_at": NOW,
            "status": "failed",
            "device": None,
            "freed_from": None,
            "key": None,
            "account": "anna",
            "is_own": True,
        }
    ]


def test_an_entry_that_cannot_be_downloaded_cannot_be_sent(
    store: catalogd.Store, anna: int
) -> None:
    known = add_file(store, "A")
    store.entries.apply(catalogd.Changes(gone=[known]))
    for identity in (known.id, "unknown"):
        with pytest.raises(catalogd.NotFound, match="There is no such entry"):
            store.queue.send(anna, identity)


def test_an_item_whose_file_is_offline_waits_for_it(
    store: catalogd.Store, anna: int
) -> None:
    known = add_file(store, "A")
    store.queue.send(anna, known.id)
    store.entries.apply(catalogd.Changes(offline=[known]))
    assert store.clients.pending(anna) == []
    assert [item["state"] for item in store.queue.items(anna)] == ["offline"]
    store.entries.apply(catalogd.Changes(updated=[(known, known.file, None)]))
    assert names(store.clients.pending(anna)) == ["A"]


def make(store: catalogd.Store, account: int, entry: str, status: str) -> str:
    """An item of this status; its id."""
    item = send(store, account, entry)
    if status == "cancelled":
        store.queue.cancel(account, item)
    elif status == "offered":
        store.clients.report(account, item, {"offered": True})
    elif status != "pending":
        store.clients.report(account, item, {"status": status})
    return item


AFTER: dict[str, tuple[str | None, ...]] = {
    # status before: after figures alone, and after each of STATUSES; None is a conflict
    "pending": ("processing", "processing", "completed", "failed"),
    "offered": ("processing", "processing", "completed", "failed"),
    "processing": ("processing", "processing", "completed", "failed"),
    "completed": (None, None, "completed", None),
    "failed": ("failed", "processing", None, "failed"),
    "cancelled": (None, None, "cancelled", "cancelled"),
}
REPORTS = [
    (before, reported, after)
    for before in catalogd.QUEUE_STATUSES
    for reported, after in zip((None, *catalogd.STATUSES), AFTER[before], strict=True)
]


@pytest.mark.parametrize(("before", "reported", "after"), REPORTS)
def test_a_report_moves_an_item_as_decided(
    store: catalogd.Store,
    anna: int,
    entry: str,
    before: str,
    reported: str | None,
    after: str | None,
) -> None:
    item = make(store, anna, entry, before)
    assert status(store, anna) == [before]
    report = {"status": reported} if reported else {"bytes_transferred": 1}
    if after is None:
        with pytest.raises(catalogd.Conflict, match=f"^The item is {before}"):
            store.clients.report(anna, item, report)
    else:
        assert store.clients.report(anna, item, report) == after
    assert status(store, anna) == [after or before]


def test_what_happens_to_an_item_is_in_one_table() -> None:
    """Where each event leads to from each status, for the eye; - is a conflict."""
    events = ("figures", *catalogd.STATUSES, "offered", "release", "stale", "cancel")
    events += ("retry",)
    table = [
        f"{before}: {' '.join(row.next.get(event, '-')[:4] for event in events)}"
        for before, row in catalogd.QUEUE_STATUSES.items()
    ]
    assert table == [
        "pending: proc proc comp fail offe pend - canc -",
        "offered: proc proc comp fail offe pend pend canc -",
        "processing: proc proc comp fail proc pend pend canc -",
        "completed: - - comp - - - - - pend",
        "failed: fail proc - fail - - - - pend",
        "cancelled: - - canc canc - canc - - pend",
    ]


def test_the_speed_is_that_between_two_reports(
    store: catalogd.Store, anna: int, clock: Clock, item: str
) -> None:
    speeds = []
    for seconds, done in [
        (0, 1000),  # where a resumed transfer begins
        (2, 5000),
        (0.5, 9000),  # too soon to tell
        (1.5, 9000),
        (2, 9500),
        (2, 0),  # the transfer begins again
    ]:
        clock.now += seconds
        store.clients.report(anna, item, {"bytes_transferred": done})
        speeds.append(store.queue.items(anna)[0]["speed"])
    assert speeds == [0, 2000, 2000, 2000, 250, 0]
    store.clients.report(anna, item, {"progress_percent": 1})
    assert store.queue.items(anna)[0]["speed"] == 0


def test_an_error_stays_while_an_item_has_failed_and_no_longer(
    store: catalogd.Store, anna: int, item: str
) -> None:
    errors = []
    for report in (
        {"status": "processing", "error_message": "ignored"},
        {"status": "failed", "error_message": "no card"},
        {"status": "failed"},
        {"status": "processing"},
    ):
        store.clients.report(anna, item, report)
        errors.append(store.queue.items(anna)[0]["error"])
    assert errors == ["", "no card", "no card", ""]


def test_what_is_pending_costs_the_same_after_much_was_sent(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    def pending() -> object:
        return store.clients.pending(anna)

    pending()
    before = steps(store, pending)
    with store.database.writing() as db:
        db.executemany(
            "INSERT INTO queue"
            " (id, account, entry, place, status, created_at, ended_at)"
            " VALUES (?, ?, ?, ?, 'completed', ?5, ?5)",
            [(str(number), anna, entry, number, NOW) for number in range(500)],
        )
    assert steps(store, pending) <= before + 5


def test_what_is_asked_often_costs_the_same_in_a_large_library(
    store: catalogd.Store, anna: int
) -> None:
    known = add_file(store, "first")
    item = send(store, anna, known.id)
    calls: dict[str, Callable[[], object]] = {
        "pending": lambda: store.clients.pending(anna),
        "progress": lambda: store.clients.report(anna, item, {"bytes_transferred": 1}),
        "items": lambda: store.queue.items(anna),
        "entry": lambda: store.entries.get(known.id, catalogd.EVERYTHING),
        "details": lambda: store.entries.details(known.id, catalogd.EVERYTHING),
        "download": lambda: store.entries.served_file(known.id),
        "send": lambda: store.queue.send(anna, known.id),
        "edit": lambda: store.entries.edit(known.id, {"version": "2"}),
    }
    for call in calls.values():
        call()
    before = {name: steps(store, calls[name]) for name in calls}
    names = [str(number) for number in range(500)]
    files = [(file(f"/games/{name}.nsp"), content(name, name)) for name in names]
    store.entries.add_files(files, listed=True)
    more = {name: steps(store, calls[name]) - before[name] for name in calls}
    assert {name: count for name, count in more.items() if count > 50} == {}


def test_an_item_that_nobody_reports_on_is_pending_in_its_place_until_its_client_does(
    store: catalogd.Store, anna: int, clock: Clock, item: str
) -> None:
    store.queue.send(anna, add_link(store, "Next"))
    store.clients.report(anna, item, {"status": "processing"})
    clock.now += 300
    assert names(store.clients.pending(anna)) == ["Next"]
    clock.now += 1
    assert names(store.clients.pending(anna)) == ["Celeste", "Next"]
    assert {row["status"] for row in store.clients.pending(anna)} == {"pending"}
    assert store.clients.report(anna, item, {"bytes_transferred": 5}) == "processing"
    assert names(store.clients.pending(anna)) == ["Next"]


def test_an_offered_item_is_its_client_s_until_nobody_reports_on_it(
    store: catalogd.Store, anna: int, clock: Clock, item: str
) -> None:
    one, two = keys(store, anna)
    offered = {"offered": True, "client": "switch", "key": one}
    assert store.clients.report(anna, item, offered) == "offered"
    with pytest.raises(catalogd.Conflict, match="Another client"):
        store.clients.report(anna, item, {**offered, "key": two})
    assert store.clients.pending(anna, "switch", two) == []
    (row,) = store.clients.pending(anna, "switch", one)
    assert row["status"] == "pending"
    clock.now += 300
    assert store.clients.report(anna, item, offered) == "offered"
    clock.now += 301
    assert status(store, anna) == ["pending"]
    assert store.clients.report(anna, item, {**offered, "key": two}) == "offered"
    assert store.clients.report(anna, item, {"release": True, "key": two}) == "pending"


def keys(store: catalogd.Store, account: int) -> tuple[str, str]:
    """The ids of two keys."""
    one, two = (store.accounts.add_key(account, k, k.encode()) for k in ("1", "2"))
    return one, two


def test_the_first_key_that_reports_on_an_item_owns_it_until_it_ends(
    store: catalogd.Store, anna: int, item: str
) -> None:
    one, two = keys(store, anna)
    store.clients.report(anna, item, {"status": "processing", "key": one})
    before = store.queue.items(anna)
    reports = [{"status": name} for name in catalogd.STATUSES]
    for report in (*reports, {"release": True}, {"progress_percent": 9}):
        with pytest.raises(catalogd.Conflict, match="Another client"):
            store.clients.report(anna, item, {**report, "key": two})
    assert store.addresses.offer(anna, {item: "token"}, {"key": two}) == {}
    assert store.queue.items(anna) == before
    store.clients.report(anna, item, {"status": "failed", "key": one})
    store.clients.report(anna, item, {"status": "processing", "key": two})
    with pytest.raises(catalogd.Conflict, match="Another client"):
        store.clients.report(anna, item, {"status": "completed", "key": one})


def test_an_item_that_was_lost_in_a_crash_is_shown_to_its_own_key_alone(
    store: catalogd.Store, anna: int, item: str
) -> None:
    one, two = keys(store, anna)
    claim = {"status": "processing", "client": "switch", "key": one}
    store.clients.report(anna, item, claim)
    assert names(store.clients.pending(anna, "switch", one)) == ["Celeste"]
    assert store.clients.pending(anna, "switch", two) == []
    assert store.clients.pending(anna, "other", one) == []


def test_a_revoked_key_frees_its_item_at_once(
    store: catalogd.Store, anna: int, item: str
) -> None:
    one, two = keys(store, anna)
    done = send(store, anna, add_link(store, "Done"))
    report = {"status": "processing", "progress_percent": 5, "key": one}
    store.clients.report(anna, item, report)
    store.clients.report(anna, done, {"status": "completed", "key": one})
    store.addresses.offer(anna, {item: "token"}, {"key": one})
    with pytest.raises(catalogd.NotFound):
        store.accounts.revoke_key(one, anna + 1)
    assert status(store, anna) == ["processing", "completed"]
    store.accounts.revoke_key(one, anna)
    assert status(store, anna) == ["pending", "completed"]
    assert store.clients.pending(anna)[0]["percent"] == 0
    store.clients.report(anna, item, {"status": "processing", "key": two})
    assert store.addresses.address_holder(catalogd.hash_token("token")) is None


def test_a_report_of_a_key_that_was_revoked_just_now_changes_nothing(
    store: catalogd.Store, anna: int, item: str
) -> None:
    one, _ = keys(store, anna)
    store.accounts.revoke_key(one)
    with pytest.raises(catalogd.NotFound, match="was removed just now"):
        store.clients.report(anna, item, {"status": "processing", "key": one})
    assert status(store, anna) == ["pending"]


@pytest.mark.parametrize("before", catalogd.QUEUE_STATUSES)
def test_an_entry_is_in_the_queue_once_until_its_item_has_ended(
    store: catalogd.Store, anna: int, entry: str, clock: Clock, before: str
) -> None:
    make(store, anna, entry, before)
    is_added = store.queue.send(anna, entry)
    assert is_added is (before in ENDED)
    assert status(store, anna) == [before, *["pending"] * is_added]
    clock.now += 3600  # a stale item is the same one
    assert not store.queue.send(anna, entry)
    assert len(store.queue.items(anna)) == 1 + is_added


def test_of_many_that_send_at_once_one_adds_the_item(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    sent = at_once(12, lambda: store.queue.send(anna, entry))
    assert sorted(sent) == [False] * 11 + [True]
    assert len(store.queue.items(anna)) == 1


def at_once(count: int, call: Callable[[], Any]) -> list[Any]:
    """What a call gives in each of several threads that start together."""
    answers = []
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        answers.append(call())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("before", catalogd.QUEUE_STATUSES)
def test_what_has_ended_is_retried_in_its_old_place_and_what_has_not_is_cancelled(
    store: catalogd.Store, anna: int, entry: str, before: str
) -> None:
    item = make(store, anna, entry, before)
    store.queue.send(anna, add_link(store, "Next"))
    refused, taken = store.queue.retry, store.queue.cancel
    why, left = "The item is in the queue", ["Next"]
    if before in ENDED:
        refused, taken = taken, refused
        why, left = "The item has ended", ["Celeste", "Next"]
    with pytest.raises(catalogd.Conflict, match=why):
        refused(anna, item)
    assert status(store, anna) == [before, "pending"]
    taken(anna, item)
    (row, _) = store.queue.items(anna)
    assert row["status"] == ("pending" if before in ENDED else "cancelled")
    assert names(store.clients.pending(anna)) == left
    if before in ENDED:
        assert (row["percent"], row["bytes"], row["error"]) == (0, 0, "")
        assert row["ended_at"] is None


def test_an_old_item_is_not_taken_up_beside_a_new_one_of_its_entry(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    item = make(store, anna, entry, "failed")
    store.queue.send(anna, entry)
    with pytest.raises(catalogd.Conflict, match="queued again in another item"):
        store.queue.retry(anna, item)
    with pytest.raises(catalogd.Conflict, match="queued again in another item"):
        store.clients.report(anna, item, {"status": "processing"})
    assert status(store, anna) == ["failed", "pending"]


def test_of_several_items_those_are_cancelled_that_have_not_ended(
    store: catalogd.Store, anna: int
) -> None:
    items = [send(store, anna, add_link(store, name)) for name in "ABC"]
    store.clients.report(anna, items[1], {"status": "completed"})
    store.clients.report(anna, items[2], {})
    action = store.queue.cancel(anna, *items)
    assert status(store, anna) == ["cancelled", "completed", "cancelled"]
    store.queue.undo(anna, action)
    assert status(store, anna)[:2] == ["pending", "completed"]
    with pytest.raises(catalogd.NotFound):
        store.queue.cancel(anna, items[0], "unknown")
    assert status(store, anna)[0] == "pending"


def test_items_move_together_into_the_place_of_another(
    store: catalogd.Store, anna: int
) -> None:
    items = {name: send(store, anna, add_link(store, name)) for name in "ABCDE"}
    for names_, to, order in [
        ("D", None, "DABCE"),
        ("AC", None, "ACDBE"),
        ("BE", "D", "ACBED"),  # up: before it
        ("AC", "E", "BEACD"),  # down: after it
        ("DA", "B", "DABEC"),  # in the order of the call
        ("B", "B", "DABEC"),
        ("", "B", "DABEC"),
    ]:
        store.queue.move(anna, [items[name] for name in names_], items.get(to or ""))
        assert "".join(names(store.clients.pending(anna))) == order
    store.queue.send(anna, add_link(store, "F"))
    assert "".join(names(store.clients.pending(anna))) == "DABECF"
    ben = store.accounts.add("ben", "hash")
    for account, item in ((ben, items["A"]), (anna, "unknown")):
        with pytest.raises(catalogd.NotFound, match="no such item in your queue"):
            store.queue.move(account, [items["B"], item], None)
    assert "".join(names(store.clients.pending(anna))) == "DABECF"


def test_all_failed_items_are_retried_whose_entries_are_not_queued_again(
    store: catalogd.Store, anna: int
) -> None:
    ben = store.accounts.add("ben", "hash")
    make(store, ben, add_link(store, "ben's"), "failed")
    again = add_link(store, "again")
    for before in ("completed", "cancelled", "failed"):
        make(store, anna, add_link(store, before), before)
    make(store, anna, again, "failed")
    send(store, anna, again)
    store.queue.retry_failed(anna)
    wanted = ["completed", "cancelled", "pending", "failed", "pending"]
    assert status(store, anna) == wanted
    assert status(store, ben) == ["failed"]
    assert store.queue.items(anna)[2]["ended_at"] is None


@pytest.mark.parametrize("is_device", [True, False])
@pytest.mark.parametrize("way", ["one", "all"])
def test_what_any_device_may_send_is_retried_on_the_one_that_failed(
    store: catalogd.Store, anna: int, way: str, is_device: bool, item: str
) -> None:
    key = store.accounts.add_key(anna, "Attic", b"digest", is_device=is_device)
    store.clients.report(anna, item, {"status": "failed", "key": key})
    if way == "one":
        store.queue.retry(anna, item)
    else:
        store.queue.retry_failed(anna)
    (row,) = store.queue.items(anna)
    assert (row["status"], row["device"]) == ("pending", key if is_device else None)


def test_an_item_that_lost_its_device_is_retried_there_once_its_account_has_it(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    ben = store.accounts.add("ben", "hash")
    console = {"name": "Attic", "target": "ftp://10.0.0.7:5000", "shared": True}
    device = store.devices.add(ben, console)
    store.queue.send(anna, entry, device)
    (item,) = [row["id"] for row in store.queue.items(anna)]
    store.clients.report(ben, item, {"status": "failed", "key": device})
    store.devices.change(device, {"shared": False})
    store.devices.change(device, {"account": anna})
    store.queue.retry(anna, item)
    assert names(store.clients.pending(anna, key=device)) == ["Celeste"]


def test_only_what_was_shown_or_is_older_is_cleared(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    items = []
    for name in "ABCD":
        clock.now += name > "B"  # the first two end at the same time
        items.append(make(store, anna, add_link(store, name), "completed"))
    assert names(store.queue.items(anna, 2)) == ["C", "D"]
    assert store.queue.count_finished(anna) == 4
    store.queue.clear(anna, catalogd.stamp(clock.now - 1), items[2:3])
    assert names(store.queue.items(anna)) == ["D"]


def test_clearing_drops_what_ended_in_this_account(
    store: catalogd.Store, anna: int
) -> None:
    ben = store.accounts.add("ben", "hash")
    make(store, ben, add_link(store, "ben's"), "completed")
    for before in catalogd.QUEUE_STATUSES:
        make(store, anna, add_link(store, before), before)
    store.queue.clear(anna, "9999", ())
    assert status(store, anna) == ["pending", "offered", "processing"]
    assert status(store, ben) == ["completed"]


def test_a_client_is_told_to_stop_what_was_cancelled_and_cleared(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    item = make(store, anna, entry, "processing")
    store.queue.cancel(anna, item)
    store.queue.clear(anna, "9999", ())
    with pytest.raises(catalogd.Conflict):
        store.clients.report(anna, item, {"bytes_transferred": 5})
    store.clients.report(anna, item, {"status": "failed"})
    assert store.queue.items(anna) == []


def test_what_was_cleared_is_dropped_after_an_hour(
    store: catalogd.Store, anna: int, entry: str, clock: Clock
) -> None:
    make(store, anna, entry, "failed")
    cleared = store.queue.clear(anna, "9999", ())
    clock.now += 3600
    store.drop_old()
    store.queue.undo(anna, cleared)
    assert status(store, anna) == ["failed"]
    store.queue.clear(anna, "9999", ())
    clock.now += 3601
    store.drop_old()
    assert store.database.rows("SELECT * FROM queue") == []


# Undo


def undo(store: catalogd.Store, action: str) -> bool:
    """Undo an action. Return whether all of it was undone."""
    sql = "SELECT account FROM queue WHERE instr(action, ?)"
    account = store.database.value(sql, (action,)) or 0
    try:
        store.queue.undo(account, action)
        return True
    except catalogd.Conflict as problem:
        assert str(problem) == "What was changed in the meantime stays as it is."
        return False


@pytest.mark.parametrize("before", OPEN)
def test_a_cancelled_item_goes_back_to_its_place_with_what_the_target_has_of_it(
    store: catalogd.Store, anna: int, clock: Clock, before: str
) -> None:
    items = [send(store, anna, add_link(store, name)) for name in "ABC"]
    store.queue.move(anna, [items[1]], None)
    report = {"bytes_transferred": 4, "client": "it", "number": 1}
    if before != "pending":
        store.clients.report(anna, items[1], report | {"status": "processing"})
    if before == "offered":
        store.clients.report(anna, items[1], {"release": True})
        store.clients.report(anna, items[1], {"offered": True})
    cancelled = store.queue.cancel(anna, items[1])
    with opened(store.database.folder, clock) as restarted:
        assert undo(restarted, cancelled)
        assert names(restarted.clients.pending(anna)) == ["B", "A", "C"]
        row = restarted.queue.items(anna)[0]
        assert row["bytes"] == (0 if before == "pending" else 4)
        assert row["ended_at"] is None
        assert undo(restarted, cancelled)  # again: its answer was lost


def test_a_client_that_has_not_stopped_yet_goes_on_after_an_undo(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    item, report = send(store, anna, entry), {"client": "it", "bytes_transferred": 4}
    store.clients.report(anna, item, report)
    assert undo(store, store.queue.cancel(anna, item))
    assert status(store, anna) == ["pending"]
    assert store.clients.report(anna, item, report) == "processing"


@pytest.mark.parametrize("is_soon", [True, False])
def test_a_client_that_has_stopped_tells_what_is_left_on_its_target(
    store: catalogd.Store, anna: int, is_soon: bool, item: str
) -> None:
    store.clients.report(anna, item, {"bytes_transferred": 9})
    cancelled = store.queue.cancel(anna, item)
    left = {"release": True, "bytes_transferred": 8, "progress_percent": 80}
    if is_soon:
        assert undo(store, cancelled)
        assert store.clients.report(anna, item, left) == "pending"
    else:
        assert store.clients.report(anna, item, left) == "cancelled"
        assert undo(store, cancelled)
    [row] = store.queue.items(anna)
    assert (row["status"], row["bytes"], row["percent"]) == ("pending", 8, 80)


def test_all_that_waited_goes_back_but_what_was_changed_since(
    store: catalogd.Store, anna: int
) -> None:
    items = [send(store, anna, add_link(store, name)) for name in "ABCDE"]
    again = [row["entry"] for row in store.queue.items(anna)][2]
    store.clients.report(anna, items[0], {"status": "processing"})
    cancelled = store.queue.cancel_waiting(anna)
    assert status(store, anna) == ["processing", *["cancelled"] * 4]
    store.queue.retry(anna, items[1])
    send(store, anna, again)
    store.database.write("DELETE FROM entries WHERE name = ?", ("D",))
    assert not undo(store, cancelled)
    assert names(store.clients.pending(anna)) == ["B", "E", "C"]
    assert status(store, anna)[2] == "cancelled"  # its entry is queued again


@pytest.mark.parametrize("way", ["retry", "move"])
def test_an_undo_does_not_say_yes_where_an_item_stays(
    store: catalogd.Store, anna: int, clock: Clock, way: str
) -> None:
    links = [add_link(store, name) for name in "AB"]
    device = store.accounts.add_key(anna, "TV", b"1", is_device=True)
    sent = store.queue.send_all(anna, links, None)["undo"]
    item = store.queue.items(anna)[0]["id"]
    if way == "move":
        store.devices.move(anna, item, device, admin=False)
    else:
        cancelled = store.queue.cancel(anna, item)
        store.queue.retry(anna, item)
    with opened(store.database.folder, clock) as restarted:
        assert not undo(restarted, sent)
        assert names(restarted.queue.items(anna)) == ["A"]
    if way == "retry":
        store.queue.cancel(anna, item)
        assert not undo(store, cancelled), "it was cancelled again since"


def test_what_was_cleared_is_shown_again_and_nothing_else(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    items = [make(store, anna, add_link(store, name), "failed") for name in "ABC"]
    first = store.queue.clear(anna, "", items[:1])
    second = store.queue.clear(anna, "9999", ())
    assert status(store, anna) == []
    assert store.queue.count_finished(anna) == 0
    with opened(store.database.folder, clock) as restarted:
        assert undo(restarted, first)
        assert names(restarted.queue.items(anna)) == ["A"]
        # A client may try again what was cleared: then it is shown.
        restarted.clients.report(anna, items[1], {"status": "processing"})
        assert status(restarted, anna) == ["failed", "processing"]
        assert undo(restarted, second)
        assert status(restarted, anna) == ["failed", "processing", "failed"]


def test_what_was_cancelled_and_cleared_is_shown_before_it_is_queued(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    cancelled = store.queue.cancel(anna, send(store, anna, entry))
    cleared = store.queue.clear(anna, "9999", ())
    assert not undo(store, cancelled)
    assert undo(store, cleared)
    assert status(store, anna) == ["cancelled"]


def test_what_an_account_no_longer_sees_is_not_queued_again(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    ben = store.accounts.add("ben", "hash", age=None)
    sent = store.queue.send_all(ben, [entry], None)["undo"]
    cancelled = store.queue.cancel_waiting(ben)
    store.accounts.change(ben, {"age": 7})
    assert not undo(store, cancelled)
    assert store.clients.pending(ben) == []
    store.accounts.change(ben, {"age": None})
    assert undo(store, cancelled)
    store.accounts.change(ben, {"age": 7})  # cancels it
    store.accounts.change(ben, {"age": None})
    assert not undo(store, sent)
    assert status(store, ben) == ["cancelled"]


def test_what_was_cancelled_waits_for_a_choice_once_its_device_is_removed(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    device = store.accounts.add_key(anna, "TV", b"1", is_device=True)
    store.queue.send(anna, entry, device)
    cancelled = store.queue.cancel_waiting(anna)
    store.accounts.revoke_key(device)
    assert undo(store, cancelled)
    [row] = store.queue.items(anna)
    assert (row["device"], row["freed_from"]) == (None, "TV")
    assert store.clients.pending(anna) == []
    store.queue.cancel(anna, row["id"])
    store.queue.retry(anna, row["id"])
    assert store.clients.pending(anna) == []
    store.devices.move(anna, row["id"], None, admin=False)
    assert names(store.clients.pending(anna)) == names([row])


def test_what_was_sent_stays_known_when_the_queue_is_cleared(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    known = add_file(store, "A")
    make(store, anna, add_link(store, "B"), "failed")
    for _ in range(2):
        item = make(store, anna, known.id, "completed")
        clock.now += 60
        store.clients.report(anna, item, {"status": "completed"})  # repeated
        assert [row["entry"] for row in store.queue.sent(anna)] == [known.id]
        store.queue.clear(anna, "9999", ())
        assert store.queue.items(anna) == []
    assert store.database.rows("SELECT * FROM sent") == [
        {
            "entry": known.id,
            "account": anna,
            "version": "1",
            "contents": "[]",
            "device": "",
            "sent_at": catalogd.stamp(clock.now - 60),
        }
    ]
    store.entries.edit(known.id, {"version": "2"})
    assert store.database.value("SELECT version FROM sent") == "1"


def complete(store: catalogd.Store, account: int, entry: str) -> None:
    item = send(store, account, entry)
    store.clients.report(account, item, {"status": "completed"})


@pytest.mark.parametrize("also_by_anna", [False, True])
def test_what_was_sent_to_a_device_stays_known_without_its_sender(
    store: catalogd.Store, anna: int, entry: str, also_by_anna: bool
) -> None:
    ben = store.accounts.add("ben", "hash")
    bens = store.accounts.add_key(ben, "Ben's", b"2", is_device=True, shared=True)
    device = store.accounts.add_key(anna, "TV", b"1", is_device=True, shared=True)
    senders = [(ben, bens), (ben, device), *[(anna, device)] * also_by_anna]
    for account, key in senders:
        store.queue.send(account, entry, key)
        [item] = [row for row in store.queue.items(account) if not row["ended_at"]]
        report = {"key": key, "status": "completed"}
        store.clients.report(account, item["id"], report)
    store.accounts.remove(ben)
    [sent] = store.queue.sent(anna)
    assert (sent["entry"], sent["device"], sent["account"]) == (entry, device, "anna")


def test_what_was_sent_never_has_a_version_that_it_had_before(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    """Also where SQLite gives a new row the number of one that was dropped."""
    versions = [store.queue.sent_version()]
    complete(store, anna, entry)
    versions.append(store.queue.sent_version())
    for name in ("Sold", "Lent"):
        link = add_link(store, name)
        complete(store, anna, link)
        versions.append(store.queue.sent_version())
        store.entries.remove_link(link)
    assert len({*versions}) == 4
    assert store.queue.sent_version() == versions[1]  # and the same is sent as then


@pytest.mark.parametrize("before", ENDED)
def test_an_item_is_dropped_ninety_days_after_it_ended(
    store: catalogd.Store, anna: int, entry: str, clock: Clock, before: str
) -> None:
    waiting = send(store, anna, add_link(store, "waiting"))
    again = make(store, anna, add_link(store, "again"), "failed")
    clock.now += 86400
    store.clients.report(anna, again, {"status": "processing"})
    make(store, anna, entry, before)
    clock.now += 90 * 86400
    for seconds, left in ((0, 3), (1, 2)):
        clock.now += seconds
        store.drop_old()
        assert len(store.queue.items(anna)) == left
    assert {row["id"] for row in store.queue.items(anna)} == {waiting, again}
    assert bool(store.queue.sent(anna)) == (before == "completed")


def test_the_newest_thousand_finished_items_of_an_account_are_kept(
    store: catalogd.Store, anna: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catalogd.MAX_FINISHED == 1000
    monkeypatch.setattr(catalogd, "MAX_FINISHED", 3)
    ben = store.accounts.add("ben", "hash")
    for number, before in enumerate([*ENDED, *ENDED]):
        clock.now += number // 2  # two at a time
        make(store, anna, add_link(store, str(number)), before)
    send(store, anna, add_link(store, "waiting"))
    make(store, ben, add_link(store, "ben's"), "failed")
    clock.now += 3600  # since the start
    store.drop_old()
    assert names(store.queue.items(anna)) == ["3", "4", "5", "waiting"]
    assert names(store.queue.items(ben)) == ["ben's"]


def test_the_items_of_an_account_are_bounded_when_one_is_added(
    store: catalogd.Store, anna: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_FINISHED", 2)
    monkeypatch.setattr(catalogd, "MAX_OPEN", 2)
    links = [add_link(store, str(number)) for number in range(6)]
    for link in links[:4]:
        clock.now += 1
        make(store, anna, link, "failed")
    send(store, anna, links[4])
    assert names(store.queue.items(anna)) == ["2", "3", "4"]
    with pytest.raises(catalogd.Conflict, match="has 2 items"):
        store.queue.send_all(anna, [links[4], links[5], links[0]], None)
    send(store, anna, links[5])
    assert names(store.queue.items(anna)) == ["2", "3", "4", "5"]


def test_a_copy_that_was_sent_keeps_its_own_entry(
    store: catalogd.Store, anna: int
) -> None:
    sent, free = add_file(store, "A"), add_file(store, "B")
    make(store, anna, sent.id, "completed")
    store.queue.clear(anna, "9999", ())
    known = store.entries.equal(["sample"])
    assert [(row.id, row.is_touched) for row in known] == [(sent.id, 1), (free.id, 0)]


def test_an_item_runs_on_over_a_restart_until_its_client_is_silent(
    store: catalogd.Store, anna: int, clock: Clock, item: str
) -> None:
    one, two = keys(store, anna)
    store.clients.report(anna, item, {"status": "processing", "key": one})
    store.addresses.offer(anna, {item: "token"}, {"key": one})
    clock.now += 3600
    store.close()
    with opened(store.database.folder, clock) as store:
        clock.now += 300
        assert status(store, anna) == ["processing"]
        assert store.addresses.address_holder(catalogd.hash_token("token")) is not None
        with pytest.raises(catalogd.Conflict, match="Another client"):
            store.clients.report(anna, item, {"status": "processing", "key": two})
        clock.now += 1
        assert status(store, anna) == ["pending"]
        with pytest.raises(catalogd.NotFound, match="not being sent"):
            store.addresses.address_holder(catalogd.hash_token("token"))
        store.clients.report(anna, item, {"status": "processing", "key": two})
        with pytest.raises(catalogd.Conflict, match="Another client"):
            store.clients.report(anna, item, {"progress_percent": 2, "key": one})


def test_a_command_takes_a_running_item_for_one_that_is_sent(
    store: catalogd.Store, anna: int, entry: str, clock: Clock
) -> None:
    item = make(store, anna, entry, "processing")
    clock.now += 3600
    with opened(store.database.folder, clock) as command:
        assert status(store, anna) == ["pending"]
        assert status(command, anna) == ["processing"]
        with pytest.raises(catalogd.Conflict):
            command.devices.move(anna, item, None, False)


def test_a_transaction_in_a_transaction_is_refused_at_once(
    store: catalogd.Store, anna: int
) -> None:
    with (
        pytest.raises(sqlite3.OperationalError, match="within a transaction"),
        store.database.writing() as db,
    ):
        db.execute("DELETE FROM accounts")
        store.database.write("DELETE FROM accounts", ())
    assert store.accounts.exist()
    assert store.database.write("UPDATE accounts SET age = 7", ()) == 1


def test_the_item_of_a_client_that_died_is_pending_although_the_clock_was_set_back(
    store: catalogd.Store, anna: int, entry: str, clock: Clock, uptime: Clock
) -> None:
    store.clients.progress._clock = catalogd.Clock(clock, uptime)
    make(store, anna, entry, "processing")
    clock.now -= 5 * 3600
    assert store.clients.pending(anna) == []
    uptime.now += 301
    assert names(store.clients.pending(anna)) == ["Celeste"]


def test_several_threads_set_what_is_kept() -> None:
    """One drops what another has just set, and moves to the end."""
    recent, before = catalogd.Recent[int](1), sys.getswitchinterval()
    until = time.monotonic() + 0.2

    def set_many(key: int) -> None:
        while time.monotonic() < until:
            recent[key] = key

    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(set_many, range(4)))  # raises what a thread has raised
    finally:
        sys.setswitchinterval(before)
    assert len(recent) == 1


# A clock that is wrong

DAY = 86400
WRONG = {"400 days back": -400 * DAY, "1970": -1_800_000_000, "2032": 1820 * DAY}


@pytest.fixture
def uptime() -> Clock:
    """The monotonic clock, where that of the wall may be wrong."""
    return Clock()


@pytest.fixture
def wrong(store: catalogd.Store, clock: Clock, uptime: Clock) -> catalogd.Store:
    """A service in its second hour, whose wall clock a test sets."""
    uptime.now = clock.now
    store.database.clock = catalogd.Clock(clock, uptime)
    go_on(3600, clock, uptime)
    assert store.database.clock.is_believed()
    return store


def test_a_clock_is_believed_an_hour_after_the_start_and_after_a_jump(
    wrong: catalogd.Store, clock: Clock, uptime: Clock
) -> None:
    is_believed = wrong.database.clock.is_believed
    clock.now += 599  # no jump, but a correction
    assert is_believed()
    for jump in (600, -DAY):
        clock.now += jump
        wrong.database.time()  # as every poll asks for it
        assert not is_believed()
        go_on(3599, clock, uptime)
        assert not is_believed()
        go_on(1, clock, uptime)
        assert is_believed()


def test_a_clock_before_the_release_is_never_believed(clock: Clock) -> None:
    clock.now = 1_700_000_000.0
    told = catalogd.Clock(clock, clock)
    clock.now += DAY
    assert not told.is_believed()


@pytest.mark.parametrize("error", WRONG.values(), ids=WRONG)
def test_a_start_with_a_wrong_clock_destroys_nothing(
    store: catalogd.Store, anna: int, entry: str, clock: Clock, error: int
) -> None:
    store.accounts.add_session(anna, b"session", "browser")
    store.accounts.add_key(anna, "login", b"login", by_login=True)
    make(store, anna, entry, "completed")
    gone = add_file(store, "A")
    store.entries.apply(catalogd.Changes(gone=[gone]))
    store.close()
    clock.now += error
    with opened(store.database.folder, clock) as started:
        started.accounts.session_holder(b"session")
        started.accounts.key_holder(b"login")
        clock.now += 1800
        started.drop_old()
    clock.now -= error
    with opened(store.database.folder, clock) as corrected:
        clock.now += 3600
        corrected.drop_old()
        assert corrected.accounts.session_holder(b"session")
        assert corrected.accounts.key_holder(b"login")
        assert status(corrected, anna) == ["completed"]
        assert [known.gone_at for known in corrected.entries.files()] == [NOW]


def test_what_a_pi_wrote_before_it_had_a_clock_ages_from_when_it_has_one(
    wrong: catalogd.Store, anna: int, entry: str, clock: Clock, uptime: Clock
) -> None:
    right, clock.now = clock.now, 60
    wrong.accounts.add_session(anna, b"session", "browser")
    wrong.accounts.add_key(anna, "login", b"login", by_login=True)
    assert wrong.accounts.session_holder(b"session")
    make(wrong, anna, entry, "failed")
    gone = add_file(wrong, "A")
    wrong.entries.apply(catalogd.Changes(gone=[gone]))
    clock.now = right
    wrong.database.time()
    go_on(3600, clock, uptime)  # of doubt
    other = catalogd.Database(wrong.database.folder)
    with contextlib.closing(other), other.writing():
        assert wrong.database.expiry(1) == "", "the times wait for this writer"
    wrong.drop_old()
    now, tables = wrong.database.time(), ("sessions", "keys", "queue")
    assert [item.gone_at for item in wrong.entries.files()] == [now]
    for days, left in ((90, 3), (1, 0)):
        go_on(days * DAY, clock, uptime)
        wrong.drop_old()
        rows = [wrong.database.rows(f"SELECT 1 FROM {table}") for table in tables]
        assert len(sum(rows, [])) == left


def test_what_was_written_before_a_later_release_ages_as_it_should(
    store: catalogd.Store, anna: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.accounts.add_session(anna, b"old", "browser")
    clock.now += 180 * DAY
    monkeypatch.setattr(catalogd, "RELEASED", catalogd.stamp(clock.now)[:10])
    store.accounts.add_session(anna, b"new", "browser")
    store.close()
    with opened(store.database.folder, clock) as upgraded:
        clock.now += 3600
        upgraded.drop_old()
        assert upgraded.accounts.session_holder(b"new")
        assert not upgraded.database.rows("SELECT 1 FROM sessions WHERE digest = 'old'")
        assert len(upgraded.accounts.sessions(anna)) == 1


def test_a_session_of_the_future_ends_ninety_days_after_a_use_by_a_right_clock(
    wrong: catalogd.Store, anna: int, clock: Clock, uptime: Clock
) -> None:
    accounts = wrong.accounts
    clock.now += 2000 * DAY
    accounts.add_session(anna, b"used", "browser")
    accounts.add_session(anna, b"unused", "browser")
    clock.now -= 2000 * DAY
    for _ in range(2):  # in the hour after the jump, and after it
        assert accounts.session_holder(b"used")
        accounts.write_uses()
        go_on(3600, clock, uptime)
    for seconds, left in ((90 * DAY - 3600, 2), (1, 1)):
        go_on(seconds, clock, uptime)
        wrong.drop_old()
        assert len(accounts.sessions(anna)) == left
    assert accounts.session_holder(b"unused")


def test_a_login_key_of_the_future_ends_ninety_days_after_a_use_by_a_right_clock(
    wrong: catalogd.Store, anna: int, clock: Clock, uptime: Clock
) -> None:
    accounts = wrong.accounts
    clock.now += 2000 * DAY
    accounts.add_key(anna, "login", b"login", by_login=True)
    accounts.key_holder(b"login")
    clock.now -= 2000 * DAY
    accounts.key_holder(b"login")
    accounts.write_uses()  # the clock is not believed yet
    [key] = accounts.keys()
    assert key["last_used_at"] > "2032"
    go_on(3600, clock, uptime)
    accounts.key_holder(b"login")
    accounts.write_uses()
    for seconds, lives in ((90 * DAY, True), (90 * DAY + 1, False)):
        go_on(seconds, clock, uptime)
        wrong.drop_old()
        assert bool(accounts.key_holder(b"login")) is lives
        accounts.write_uses()


def test_a_login_key_goes_on_while_the_clock_is_ahead_and_after_it_was(
    store: catalogd.Store, anna: int, clock: Clock
) -> None:
    for name in (b"used", b"unused"):
        store.accounts.add_key(anna, "login", name, by_login=True)
        assert store.accounts.key_holder(name)
    store.close()
    clock.now += 2000 * DAY
    with opened(store.database.folder, clock) as started:
        assert started.accounts.key_holder(b"used")
        clock.now += 3600
        started.drop_old()
        assert started.accounts.key_holder(b"used")
        assert not started.accounts.key_holder(b"unused")
    clock.now -= 2000 * DAY
    with opened(store.database.folder, clock) as corrected:
        assert corrected.accounts.key_holder(b"used")


# The file


def tables(path: str) -> list[tuple[str, str]]:
    """What a database consists of."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        sql = "SELECT name, sql FROM sqlite_schema ORDER BY name"
        facts = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS]
        return [*db.execute(sql).fetchall(), *zip(PRAGMAS, facts, strict=True)]


PRAGMAS = ("application_id", "journal_mode", "user_version")


def is_whole(path: str) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("PRAGMA integrity_check").fetchall()
        return (
            rows == [("ok",)] and not db.execute("PRAGMA foreign_key_check").fetchall()
        )


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_others_cannot_read_the_data_folder(store: catalogd.Store) -> None:
    for path, mode in ((store.database.folder, 0o700), (store.database.path, 0o600)):
        assert stat.S_IMODE(os.stat(path).st_mode) == mode


def test_the_database_survives_a_power_cut(store: catalogd.Store) -> None:
    with store.database.writing() as db:
        pass
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_many_reads_and_writes_at_once_lose_nothing(
    store: catalogd.Store, anna: int
) -> None:
    numbers = iter(range(1000))

    def work() -> None:
        for _ in range(5):
            entry = add_link(store, f"{next(numbers):03}")
            store.queue.send(anna, entry)
            assert store.entries.get(entry, catalogd.EVERYTHING)["id"] == entry

    at_once(8, work)
    assert listed(store) == [f"{number:03}" for number in range(40)]
    places = store.database.rows("SELECT place FROM queue ORDER BY place")
    assert [row["place"] for row in places] == list(range(1, 41))


def test_reads_do_not_wait_for_a_write(store: catalogd.Store, entry: str) -> None:
    with store.database.writing() as db:
        db.execute("DELETE FROM entries")
        assert listed(store) == ["Celeste"]


# Several writers


HOLD_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("holds it", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(store: catalogd.Store) -> Iterator[None]:
    """Another process holds the database's write lock."""
    command = [sys.executable, "-c", HOLD_LOCK, store.database.path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "holds it\n"
        yield
        process.stdin.close()


@contextlib.contextmanager
def at_work(store: catalogd.Store) -> Iterator[None]:
    """Another thread writes."""
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with store.database.writing():
            began.set()
            assert go_on.wait(600)

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(60)
    yield
    go_on.set()
    thread.join()


@pytest.fixture(params=[locked, at_work])
def another(request: pytest.FixtureRequest) -> Any:
    """A writer of another process, or of another thread."""
    return request.param


def test_a_write_that_waits_too_long_says_that_the_database_is_busy(
    store: catalogd.Store, another: Any
) -> None:
    refused = pytest.raises(catalogd.Busy)
    with another(store), refused as refusal, store.database.writing(wait=0.3):
        pass
    assert (refusal.value.status, refusal.value.headers) == (503, {"Retry-After": "5"})
    store.accounts.add("anna", "hash")


def test_nothing_that_is_read_waits_for_a_writer(
    store: catalogd.Store, anna: int, another: Any
) -> None:
    """Who waits for one is refused, since it does not end before."""
    store.accounts.add_key(anna, "switch", b"1")
    store.database._idle.clear()  # the first read opens a connection
    with another(store):
        assert store.accounts.key_holder(b"1") is not None
        assert (
            store.entries.count(catalogd.EVERYTHING),
            store.clients.pending(anna),
        ) == (0, [])
        with opened(store.database.folder) as other:
            assert other.accounts.exist()


def test_figures_do_not_wait_for_a_writer_and_are_refused_beside_it_as_always(
    store: catalogd.Store, anna: int, another: Any, item: str
) -> None:
    store.clients.report(anna, item, {"status": "processing", "client": "one"})
    done = make(store, anna, add_link(store, "B"), "completed")
    gone = make(store, anna, add_link(store, "C"), "cancelled")
    with another(store):
        for report in ({"progress_percent": 5}, {"bytes_transferred": 7}):
            told = {**report, "client": "one"}
            assert store.clients.report(anna, item, told) == "processing"
        row, *_ = store.queue.items(anna)
        assert (row["percent"], row["bytes"]) == (5, 7)
        with pytest.raises(catalogd.NotFound):
            store.clients.report(anna, "unknown", {"bytes_transferred": 1})
        with pytest.raises(catalogd.Conflict, match="Another client"):
            store.clients.report(anna, item, {"bytes_transferred": 1, "client": "two"})
        for ended in (done, gone):
            with pytest.raises(catalogd.Conflict, match="The item is"):
                store.clients.report(anna, ended, {"bytes_transferred": 1})


@pytest.mark.parametrize("is_released", [True, False])
def test_how_far_an_item_is_outlives_its_release_and_the_service(
    store: catalogd.Store, anna: int, entry: str, is_released: bool, clock: Clock
) -> None:
    item = make(store, anna, entry, "processing")
    for sent in (4_200_000_000, 4_300_000_000):
        clock.now += 2
        figures = {"progress_percent": 5, "bytes_transferred": sent}
        store.clients.report(anna, item, figures)
    [row] = store.queue.items(anna)
    assert row["speed"], "which is not written"
    if is_released:
        store.clients.report(anna, item, {"release": True})
    store.clients.write_figures()
    before = store.database.data_version()
    store.clients.write_figures()  # nothing is new
    assert store.database.data_version() == before
    with opened(store.database.folder) as again:
        [row] = again.queue.items(anna)
        assert (row["percent"], row["bytes"], row["speed"]) == (5, 4_300_000_000, 0)
        again.clients.report(anna, item, {"status": "processing"})
        [row] = again.queue.items(anna)
        assert (row["percent"], row["bytes"]) == (5, 4_300_000_000)


def test_a_writer_leaves_sqlite_no_more_time_to_wait_than_it_has(
    store: catalogd.Store,
) -> None:
    for seconds in (0, 7, 3600):
        with store.database.writing(seconds) as db:
            [milliseconds] = db.execute("PRAGMA busy_timeout").fetchone()
        assert (seconds - 5) * 1000 < milliseconds <= seconds * 1000


@pytest.mark.parametrize("report", [{"status": "completed"}, {"release": True}])
def test_a_report_with_a_status_waits_for_a_writer_and_is_then_refused(
    store: catalogd.Store,
    anna: int,
    entry: str,
    report: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = make(store, anna, entry, "processing")
    monkeypatch.setattr(catalogd, "MAX_WRITE_WAIT_SECONDS", 0.1)
    with locked(store), pytest.raises(catalogd.Busy):
        store.clients.report(anna, item, report)
    assert status(store, anna) == ["processing"]


def test_the_last_figures_are_stored_with_the_end(
    store: catalogd.Store, anna: int, entry: str
) -> None:
    item = make(store, anna, entry, "processing")
    store.clients.report(anna, item, {"bytes_transferred": 7, "progress_percent": 1})
    store.clients.report(anna, item, {"status": "failed", "progress_percent": 2})
    (row,) = store.queue.items(anna)
    assert (row["status"], row["bytes"], row["percent"]) == ("failed", 7, 2)
    store.clients.report(anna, item, {"status": "processing"})
    assert store.queue.items(anna)[0]["bytes"] == 7  # they may be there still
    store.clients.report(anna, item, {"bytes_transferred": 5})
    store.queue.cancel(anna, item)
    assert store.queue.items(anna)[0]["bytes"] == 5


def test_a_writer_of_another_process_does_not_hold_up_the_end(
    store: catalogd.Store, anna: int, waits: list[float]
) -> None:
    store.accounts.add_key(anna, "switch", b"1")
    with locked(store):
        store.accounts.key_holder(b"1")
        store.close()
    assert waits[-1] == catalogd.MAX_CLOSE_WAIT_SECONDS < 1
    store.accounts.uses.unwritten.clear()  # they are lost


def test_a_write_that_fails_leaves_nothing(store: catalogd.Store) -> None:
    with pytest.raises(ZeroDivisionError), store.database.writing() as db:
        db.execute("DELETE FROM counters")
        raise ZeroDivisionError
    assert store.entries.list_version() == 0


def test_a_mistake_in_the_sql_is_no_refusal(store: catalogd.Store) -> None:
    with pytest.raises(sqlite3.OperationalError), store.database.reading() as db:
        db.execute("SELECT nonsense FROM nowhere")


def test_a_database_that_gets_unwritable_is_a_problem(store: catalogd.Store) -> None:
    store.database._writer.execute("PRAGMA query_only = ON")
    with pytest.raises(catalogd.StorageFailed, match="cannot be used") as refusal:
        store.accounts.add("anna", "hash")
    assert refusal.value.status == 503


def test_several_that_open_a_new_folder_at_once_all_can(tmp_path: pathlib.Path) -> None:
    program = (
        "import catalogd, sys; sys.stdin.read(1); catalogd.Store(sys.argv[1]).close()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as stack:
        many = [
            stack.enter_context(
                subprocess.Popen(command, cwd=HERE, stdin=pipe, stderr=pipe)
            )
            for _ in range(4)
        ]
        for process in many:
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.flush()
        errors = [process.communicate(timeout=60)[1] for process in many]
    assert errors == [b""] * 4


def test_one_process_at_a_time_prepares_a_new_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = []

    def exclusive(folder: str, work: str, wait: float) -> contextlib.nullcontext[None]:
        alone.append((work, wait))
        return contextlib.nullcontext()

    monkeypatch.setattr(catalogd, "exclusive", exclusive)
    for _ in range(2):
        catalogd.Store(str(tmp_path)).close()
    assert alone == [("upgrade", 60)]


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(catalogd.Problem, match="file/data: cannot be used: Not a dir"):
        catalogd.Store(str(tmp_path / "file" / "data"))


def test_a_file_that_is_no_database_is_a_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "catalogd.db").write_bytes(b"something else " * 100)
    with pytest.raises(catalogd.Problem, match="catalogd.db: .*file is not a database"):
        catalogd.Store(str(tmp_path))


def test_a_database_of_another_program_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "catalogd.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (id)")
    with pytest.raises(catalogd.Problem, match="is a database of another program"):
        catalogd.Store(str(tmp_path))
    assert [name for name, _ in tables(path)][0] == "theirs"
    assert len(tables(path)) == 1 + len(PRAGMAS)


# Upgrades

HERE_FILES = pathlib.Path(__file__).parent
ANSWERS = json.loads((HERE_FILES / "version1.json").read_text("utf-8"))


def data_folder(folder: pathlib.Path, version: int) -> pathlib.Path:
    """A data folder of an earlier version, with a table of Litestream's."""
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / "catalogd.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript((HERE_FILES / f"version{version}.sql").read_text("utf-8"))
        db.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
    return folder


@pytest.fixture
def released(tmp_path: pathlib.Path) -> pathlib.Path:
    """The data folder of a release with version 1 of the schema, with everything that
    it can hold. What it answered is in ANSWERS."""
    return data_folder(tmp_path / "released", 1)


def at_release() -> float:
    """The time at which it answered."""
    return float(ANSWERS["now"])


def answers(store: catalogd.Store) -> dict[str, Any]:
    """What the release was asked for ANSWERS."""
    accounts, entries, queue = store.accounts, store.entries, store.queue
    anna, ben = (row["id"] for row in accounts.all())
    menu = next(row for row in by_age(store) if row["name"] == "Homebrew Menu")
    queue.progress._reports["0b0c3827273f855c"]["heard"] = 0.0  # it was silent
    return {
        "now": store.database.clock(),
        "list": json.loads(entries.list_json(catalogd.EVERYTHING)),
        "page": [
            {"id": row["id"], "state": row["state"]}
            for row in json.loads(entries.list_json(catalogd.EVERYTHING, for_page=True))
        ],
        "downloadable": [row for row in by_age(store) if row.pop("state") == "here"],
        "files": [[row.id, *row.file[:6], *row[2:6]] for row in entries.files()],
        "accounts": accounts.all(),
        "credentials": accounts.credentials("ANNA"),
        "keys": accounts.keys(),
        "sessions": accounts.sessions(anna),
        "key": accounts.key_holder(catalogd.hash_token("catalogd_ben")),
        "session": accounts.session_holder(catalogd.hash_token("anna's cookie")),
        "address": store.addresses.address_holder(catalogd.hash_token("annasitem")),
        "browse": store.addresses.browse_token(ben),
        "checksums": [
            [known.id, known.path, known.size, known.mtime, known.sha256]
            for known in entries.served_files()
        ],
        "counts": [
            entries.count(catalogd.EVERYTHING),
            store.database.value("SELECT count(*) FROM queue WHERE is_open"),
        ],
        "icon": len(entries.icons.of(menu["id"], catalogd.EVERYTHING)),
        "items": {str(account): whole_items(store, account) for account in (anna, ben)},
        "pending": {
            str(account): store.clients.pending(account) for account in (anna, ben)
        },
        "pending of the client": store.clients.pending(anna, "switch-1"),
        "sent": {
            str(account): [row["entry"] for row in queue.sent(account)]
            for account in (anna, ben)
        },
    }


def whole_items(store: catalogd.Store, account: int) -> list[dict[str, Any]]:
    """The account's items with all that is stored of them."""
    stored = {row["id"]: row for row in store.database.rows("SELECT * FROM items")}
    return [{**stored[item["id"]], **item} for item in store.queue.items(account)]


ITEM_FACTS = ("id", "entry", "name", "source", "size", "created_at", "place", "status")


def drop_ages(answers: dict[str, Any]) -> None:
    for who in ("key", "session", "address"):
        facts = answers[who] or []
        answers[who] = [fact for fact in facts if fact != catalogd.EVERYTHING]
    for account in answers["accounts"]:
        account.pop("age", None)


def as_released(answers: dict[str, Any]) -> Any:
    """The answers without what differs: kinds, bases, names of parts, devices, when
    items ended, and what their clients last reported."""
    answers = json.loads(json.dumps(answers).replace("Celeste - Update 1", "Celeste"))
    drop_ages(answers)
    items = [*answers["items"].values(), *answers["pending"].values()]
    for row in itertools.chain(*items, answers["pending of the client"]):
        for name in row.keys() - ITEM_FACTS:
            del row[name]
    for session in answers["sessions"]:
        session.pop("last_used_at", None)
    for key in answers["keys"] or []:
        for name in ("is_device", "shared", "target"):
            key.pop(name, None)
    for entry in answers["downloadable"]:
        entry.pop("file_name", 0)
    answers["checksums"].sort(key=operator.itemgetter(1))
    answers["files"] = [file[:-1] for file in answers["files"]]  # when they were made
    for entry in answers["list"]:
        entry["metadata"].pop("kind", "")
        entry["metadata"].pop("base_id", "")
    return answers


def test_a_released_store_gives_the_same_answers_when_it_is_upgraded(
    released: pathlib.Path,
) -> None:
    with upgraded(released, at_release) as store:
        assert as_released(answers(store)) == as_released(ANSWERS)
        # A scan reads their files again.
        here = [row for row in by_age(store) if row["state"] == "here"]
        files = [row["id"] for row in here if row["type"] == "filepath"]
        assert {row.id for row in store.entries.outdated()} == {*files}
    with opened(str(released), at_release) as again:  # which counts a key's use
        assert as_released({**answers(again), "keys": 0}) == as_released(
            {**ANSWERS, "keys": 0}
        )
    assert is_whole(str(released / "catalogd.db"))


@pytest.mark.parametrize("version", [1, 4, 8, 17])
def test_an_upgraded_store_equals_a_fresh_one(
    tmp_path: pathlib.Path, version: int
) -> None:
    released = data_folder(tmp_path / "released", version)
    for folder in (released, tmp_path / "fresh"):
        upgraded(folder).thing.close()
    found = tables(str(released / "catalogd.db"))
    theirs = [row for row in found if row[0].startswith("_litestream")]
    assert [row for row in found if row not in theirs] == tables(
        str(tmp_path / "fresh" / "catalogd.db")
    )
    assert len(theirs) == 1


def test_an_upgraded_store_can_be_used_as_any(released: pathlib.Path) -> None:
    with upgraded(released, at_release) as store:
        anna = store.accounts.id_of("anna")
        entry = next(row for row in by_age(store) if row["name"] == "Broken")
        store.entries.edit(entry["id"], {"name": "Whole"})
        assert store.entries.get(entry["id"], catalogd.EVERYTHING)["name"] == "Whole"
        assert store.queue.send(anna, entry["id"])
        with pytest.raises(catalogd.NotFound):  # foreign keys are on again
            store.accounts.add_key(99, "nobody's", b"")


def by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a list, with their names in the form that lists have them in."""
    for row in rows:
        row["name"] = unicodedata.normalize("NFC", row["name"])
    return sorted(rows, key=lambda row: (row["name"].casefold(), row["id"]))


@pytest.mark.parametrize("version", [4, 8])
def test_a_later_store_gives_the_same_answers_when_it_is_upgraded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(catalogd, "BATCH", 3)  # entries are written in several
    released = data_folder(tmp_path / "released", version)
    answers = json.loads((HERE_FILES / f"version{version}.json").read_text("utf-8"))
    with contextlib.closing(sqlite3.connect(released / "catalogd.db")) as db, db:
        db.execute("UPDATE entries SET kind = 'base', title = '?'")  # and made again
    with upgraded(released, lambda: float(answers["now"])) as store:
        entries = store.entries
        assert json.loads(entries.list_json(catalogd.EVERYTHING)) == by_name(
            answers["list"]
        )
        pages = json.loads(entries.list_json(catalogd.EVERYTHING, for_page=True))
        times = [page.pop("file_time", None) for page in pages]  # which is new
        assert any(times) and pages == by_name(answers["page"])
        tidy = entries.tidy()
        for file in tidy:  # which older ones did not tell
            del file["format"], file["missing"]
        assert by_name(tidy) == by_name(answers["tidy"])
        checksums = sorted(answers["checksums"], key=operator.itemgetter(1))
        assert [[*row[:6]] for row in entries.served_files()] == checksums
        for entry, told in answers["files"].items():
            name = unicodedata.normalize("NFC", told["name"])
            assert entries.details(entry, catalogd.EVERYTHING)["file"] == {
                **told,
                "name": name,
            }
    assert is_whole(str(released / "catalogd.db"))


def test_a_store_of_version_8_keeps_its_file_names_queues_and_uploads(
    tmp_path: pathlib.Path,
) -> None:
    answers = json.loads((HERE_FILES / "version8.json").read_text("utf-8"))
    released = data_folder(tmp_path / "released", 8)
    with upgraded(released, lambda: float(answers["now"])) as store:
        names = {row["id"]: row["file_name"] for row in by_age(store)}
        others = {"0b3510b0b46ee1da": "Twin (0b3510b0b46ee1da).nsp"}  # not the oldest
        others |= {"6018366cf658f7a7": "Twin.nsp", "81a0d5b3ffc6e35c": "Sole.nsp"}
        assert names == answers["file_names"] | others
        for account in ("1", "2"):
            sent = store.queue.sent(int(account))
            numbers = {"8b54089fee8d99a0": 0}  # of the versions
            assert [[each[1] for each in row.pop("contents")] for row in sent] == [
                [numbers[row["entry"]]] if row["entry"] in numbers else []
                for row in answers["sent"][account]
            ]
            assert sent == answers["sent"][account]
            items = store.queue.items(int(account))
            for item in items:
                del item["created_at"], item["title"]  # which that version had not
            assert items == answers["items"][account]
        for row in answers["uploads"]:  # names are reserved no more
            del row["reserved"], row["inode"]
        assert catalogd.Uploads(store.database).all() == answers["uploads"]
        assert store.devices.by_server() == answers["devices"]
        images = store.entries.icons.of_titles().values()
        assert [[*image] for image in images] == answers["title_images"]


def test_a_store_of_version_4_keeps_its_accounts_and_queues(
    tmp_path: pathlib.Path,
) -> None:
    released = data_folder(tmp_path / "released", 4)
    with upgraded(released, lambda: 1_700_000_300.0) as store:
        anna, ben = (account["id"] for account in store.accounts.all())
        digest = catalogd.hash_token("anna's cookie")
        assert store.accounts.session_holder(digest) is not None
        [device] = store.devices.all("anna")
        assert (device["name"], device["target"]) == ("Living room", "ready")
        assert store.addresses.browse_token(ben) == "abcdefghjkmnpqrstuvw"
        assert status(store, anna) == ["pending"] * 2 + [*ENDED[:2], "cancelled"] + [
            "pending",  # of ben, for anna's shared device
            "processing",
        ]
        assert names(store.clients.pending(ben)) == []
        [sent] = store.queue.sent(anna)
        assert (sent["version"], sent["device"]) == ("0", device["id"])


@pytest.mark.parametrize("version", [1, 4, 8, 17])
def test_an_upgrade_keeps_sessions_that_were_used_in_ninety_days(
    tmp_path: pathlib.Path, clock: Clock, version: int
) -> None:
    released = data_folder(tmp_path / "released", version)
    with contextlib.closing(sqlite3.connect(released / "catalogd.db")) as db, db:
        made = (catalogd.stamp(clock.now - 29 * DAY),)
        columns = ["created_at", "last_used_at"][: 1 + (version > 1)]
        for column in columns:
            db.execute(f"UPDATE sessions SET {column} = ?", made)
    digest = catalogd.hash_token("anna's cookie")
    with upgraded(released, clock) as store:
        for days in (60, 90, 90, 91):
            clock.now += days * DAY
            is_open = store.accounts.session_holder(digest) is not None
            assert is_open is (days != 91)
            store.accounts.write_uses()


def test_an_upgrade_tells_when_items_ended(released: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(released / "catalogd.db")) as db, db:
        cleared = "SELECT id FROM queue WHERE cleared"
        sql = f"INSERT INTO addresses SELECT x'00', 2, id, NULL FROM ({cleared})"
        assert db.execute(sql).rowcount == 1
    with upgraded(released, at_release) as store:
        rows = store.database.rows("SELECT status, ended_at FROM queue")
        ended = {row["status"]: row["ended_at"] for row in rows}
        sent = store.database.rows("SELECT version, sent_at FROM sent ORDER BY 2")
    assert ended == {
        "pending": None,
        "processing": None,
        "completed": "2023-11-14T22:30:40",
        "failed": "2023-11-14T22:30:50",
        "cancelled": "2023-11-14T22:31:00",
    }
    assert [row["sent_at"][-8:] for row in sent] == ["22:30:40", "22:31:20"]
    assert [row["version"] for row in sent] == ["3.6.0", "2"]
    assert is_whole(str(released / "catalogd.db"))


KILLED = """
import catalogd, os, signal, sys
def die(db, rows):
    os.kill(os.getpid(), signal.SIGKILL)
catalogd.write_entries = die
catalogd.upgrade(sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_an_upgrade_that_is_killed_leaves_the_store_as_it_was(
    released: pathlib.Path,
) -> None:
    path = str(released / "catalogd.db")
    before = tables(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(released)], cwd=HERE)
    assert killed.returncode == -signal.SIGKILL
    assert tables(path) == before and is_whole(path)
    test_a_released_store_gives_the_same_answers_when_it_is_upgraded(released)


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(
    released: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tables(str(released / "catalogd.db"))
    monkeypatch.setitem(
        catalogd.UPGRADES, 1, (*catalogd.UPGRADES[1], "DROP TABLE nothing")
    )
    with pytest.raises(sqlite3.OperationalError):
        catalogd.upgrade(str(released))
    assert tables(str(released / "catalogd.db")) == before


def test_an_index_that_differs_is_made_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(str(tmp_path)).thing.close()
    schema = catalogd.SCHEMA.replace("ON queue (entry)", "ON queue (entry, place)")
    monkeypatch.setattr(catalogd, "SCHEMA", schema)
    version = catalogd.SCHEMA_VERSION
    monkeypatch.setattr(catalogd, "SCHEMA_VERSION", version + 1)
    monkeypatch.setattr(catalogd, "UPGRADES", {version: ()})
    upgraded(tmp_path).thing.close()
    made = dict(tables(str(tmp_path / "catalogd.db")))
    assert made["queue_entry"] == "CREATE INDEX queue_entry ON queue (entry, place)"


def test_a_store_is_copied_before_an_upgrade(tmp_path: pathlib.Path) -> None:
    released = data_folder(tmp_path / "released", 4)
    before = tables(str(released / "catalogd.db"))
    for _ in range(2):  # the second time there is nothing to upgrade
        with upgraded(released, at_release) as store:  # always in the same night
            backups = catalogd.Backups(
                store.database.path, store.database.clock, catalogd.Settings()
            )
            backups.count = 1
            backups.make()
    copies = sorted(path.name for path in (released / "backups").iterdir())
    assert copies[0] == "before-upgrade-4.db" and len(copies) == 2
    assert tables(str(released / "backups" / copies[0])) == before


def test_a_store_of_a_newer_version_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = data_folder(tmp_path / "released", 4)
    upgraded(released).thing.close()
    monkeypatch.setattr(catalogd, "SCHEMA_VERSION", 4)
    newer = "was made by a newer catalogd. Update it, or restore an older copy."
    for open_store in (upgraded, lambda folder: opened(str(folder))):
        with pytest.raises(catalogd.Problem, match=newer):
            open_store(released)


def test_only_a_service_upgrades_and_not_below_another(tmp_path: pathlib.Path) -> None:
    released = data_folder(tmp_path / "released", 4)
    before = tables(str(released / "catalogd.db"))
    with pytest.raises(catalogd.Problem, match="was made by an older .* Restart the s"):
        opened(str(released))
    with catalogd.exclusive(str(released), "serve"), pytest.raises(catalogd.Conflict):
        catalogd.upgrade(str(released))
    assert tables(str(released / "catalogd.db")) == before
    assert not (released / "backups").exists()


def test_no_upgrade_is_from_a_version_to_come() -> None:
    assert max(catalogd.UPGRADES) < catalogd.SCHEMA_VERSION


# Work of one process alone

HOLDER = """
import catalogd, sys, time
with catalogd.exclusive(sys.argv[1], "serve"):
    print("holds it", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(store: catalogd.Store) -> Iterator[subprocess.Popen[str]]:
    """Another process that does the work "serve"."""
    command = [sys.executable, "-c", HOLDER, store.database.folder]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds it\n"
        yield process
        process.kill()


def test_work_of_another_process_is_a_conflict(
    store: catalogd.Store, holder: subprocess.Popen[str]
) -> None:
    refused = pytest.raises(catalogd.Conflict, match=r"another catalogd .*\(serve\)")
    with refused, catalogd.exclusive(store.database.folder, "serve", wait=0.05):
        pass
    with catalogd.exclusive(store.database.folder, "scan"):
        pass  # other work is not held up


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_process_works_no_more(
    store: catalogd.Store, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with catalogd.exclusive(store.database.folder, "serve"):
        pass


def test_work_ends_with_its_block_also_by_an_error(store: catalogd.Store) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        catalogd.exclusive(store.database.folder, "serve"),
    ):
        raise ZeroDivisionError
    with catalogd.exclusive(store.database.folder, "serve"):
        pass


def test_work_that_cannot_be_noted_is_a_problem(store: catalogd.Store) -> None:
    os.mkdir(os.path.join(store.database.folder, "serve.lock"))
    with (
        pytest.raises(catalogd.StorageFailed),
        catalogd.exclusive(store.database.folder, "serve"),
    ):
        pass


# Backups


def test_a_backup_is_a_store(
    store: catalogd.Store, entry: str, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "restored"
    folder.mkdir()
    catalogd.copy_database(store.database.path, str(folder / "catalogd.db"))
    assert os.listdir(folder) == ["catalogd.db"]
    with opened(str(folder)) as restored:
        assert restored.entries.get(entry, catalogd.EVERYTHING) == store.entries.get(
            entry, catalogd.EVERYTHING
        )


def test_a_backup_that_is_taken_while_others_write_is_whole(
    store: catalogd.Store, anna: int, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "copy")
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            store.queue.send(anna, add_link(store, "A"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            catalogd.copy_database(
                store.database.path, path
            )  # each replaces the one before
            assert is_whole(path)
            with contextlib.closing(sqlite3.connect(path)) as copy:
                sql = "SELECT count(*), (SELECT value FROM counters) FROM entries"
                count, version = copy.execute(sql).fetchone()
                assert count == version
    finally:
        ended.set()
        writer.join()


def test_a_backup_replaces_no_other_file(
    store: catalogd.Store, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader")
    with pytest.raises(catalogd.Problem, match="is there already, and is not a backup"):
        catalogd.copy_database(store.database.path, str(path))
    assert path.read_text() == "Dear reader"


def test_a_backup_does_not_replace_the_database_itself(
    store: catalogd.Store, anna: int
) -> None:
    store.database._writer.execute(
        "PRAGMA wal_checkpoint"
    )  # so the file tells what it is
    before = os.stat(store.database.path).st_ino
    with pytest.raises(catalogd.Problem, match="is not a backup"):
        catalogd.copy_database(
            store.database.path, os.path.join(store.database.folder, ".", "catalogd.db")
        )
    assert os.stat(store.database.path).st_ino == before


def test_a_backup_that_fails_leaves_no_file(
    store: catalogd.Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "connected", full_disk)
    with pytest.raises(catalogd.Problem, match="The disk is full"):
        catalogd.copy_database(store.database.path, str(tmp_path / "copy"))
    assert os.listdir(tmp_path) == ["data"]


# A full disk


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, 2 * 1024 * 1024):
        yield folder


@pytest.mark.root
def test_a_full_disk_refuses_writes_and_nothing_else(disk: pathlib.Path) -> None:
    with opened(str(disk / "data")) as store:
        account = store.accounts.add("anna", "hash")
        store.accounts.add_key(account, "switch", b"1")
        kept = [add_link(store, "Celeste")]
        fill(disk / "ballast")
        with pytest.raises(catalogd.StorageFull, match="full") as refusal:
            while True:
                kept.append(add_link(store, "Another"))
        assert refusal.value.status == 507

        assert ids(store) == set(kept)
        assert store.accounts.key_holder(b"1") is not None
        with pytest.raises(catalogd.Problem, match="full"):
            catalogd.copy_database(store.database.path, str(disk / "copy"))

        os.unlink(disk / "ballast")
        kept.append(add_link(store, "Another"))
        assert ids(store) == set(kept)
    assert is_whole(store.database.path)


@pytest.mark.root
def test_a_backup_to_a_full_disk_names_the_copy_and_the_room_that_it_wants(
    store: catalogd.Store, disk: pathlib.Path
) -> None:
    store.database.write("CREATE TABLE ballast AS SELECT zeroblob(1e6) AS bytes", ())
    store.database.shrink()
    size = os.path.getsize(store.database.path) / 1e6
    (disk / "other").write_bytes(bytes(1_500_000))
    copy = disk / "copy"
    room = shutil.disk_usage(disk).free / 1e6
    with pytest.raises(catalogd.StorageFull) as caught:
        catalogd.copy_database(store.database.path, str(copy))
    told = f"{copy}: The disk is full. It needs {size - room:.1f} MB more."
    assert str(caught.value) == told and room > 0.4
    assert os.listdir(disk) == ["other"]


def test_a_backup_that_may_take_no_more_names_the_copy(
    store: catalogd.Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a quota, perhaps."""
    real = catalogd.sqlite3.connect

    def connect(path: str, **options: Any) -> sqlite3.Connection:
        db = real(path, **options)
        if path.endswith(".part"):
            db.execute("PRAGMA max_page_count = 2")
        return db

    monkeypatch.setattr(catalogd.sqlite3, "connect", connect)
    copy = tmp_path / "copy"
    with pytest.raises(catalogd.StorageFull) as caught:
        catalogd.copy_database(store.database.path, str(copy))
    assert str(caught.value) == f"{copy}: The disk is full."
    usage = type("Usage", (), {"free": 0})
    monkeypatch.setattr(catalogd.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(catalogd.StorageFull, match=r"It needs \d+\.\d MB more"):
        catalogd.copy_database(store.database.path, str(copy))
    monkeypatch.setattr(catalogd.sqlite3, "connect", real)
    with (
        pytest.raises(catalogd.StorageFull, match=r"It needs \d+\.\d MB more"),
        catalogd.named_problems(str(copy)),
    ):
        raise catalogd.StorageFull("disk_full")
    assert os.listdir(tmp_path) == ["data"]


def test_an_upgrade_names_the_room_that_it_wants(
    released: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = Mock(free=1_100_000)
    monkeypatch.setattr(catalogd.shutil, "disk_usage", lambda folder: usage)
    size = 2 * os.path.getsize(released / "catalogd.db") / 1e6 + 1
    told = f"full. It needs {size - 1.1:.1f} MB more"
    with pytest.raises(catalogd.StorageFull, match=told):
        catalogd.upgrade(str(released))
    assert not os.listdir(released / "backups")


@pytest.mark.parametrize("is_link", [True, False])
def test_an_upgrade_tells_that_its_copy_cannot_be_written(
    released: pathlib.Path, tmp_path: pathlib.Path, is_link: bool
) -> None:
    """The folder of backups is a link to a disk that is away, or a file."""
    backups = released / "backups"
    if is_link:
        backups.symlink_to(tmp_path / "away")
    else:
        backups.write_bytes(b"")
    why = "No such file or directory" if is_link else "File exists"
    told = rf"before-upgrade-[0-9]+\.db: cannot be written: {why}"
    with pytest.raises(catalogd.Problem, match=told):
        catalogd.upgrade(str(released))


def test_an_upgrade_removes_what_one_left_that_was_killed(
    released: pathlib.Path,
) -> None:
    (released / "backups").mkdir()
    part = released / "backups" / "before-upgrade-4.db.0123.part"
    other = released / "backups" / "other.part"
    with contextlib.closing(sqlite3.connect(released / "catalogd.db")) as db:
        ((version,),) = db.execute("PRAGMA user_version")
    part = part.with_name(part.name.replace("-4", f"-{version}"))
    for path in (part, other):
        path.write_bytes(b"")
    catalogd.upgrade(str(released))
    assert (part.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize(
    "old", ["CREATE VIEW viewers AS SELECT 1", "CREATE TABLE x (y)"]
)
def test_a_database_of_this_version_with_another_view_or_table_gets_ours(
    old: str, store: catalogd.Store
) -> None:
    folder = store.database.folder
    store.accounts.add("anna", "hash")
    store.entries.add_files([(file("/games/a.nsp"), content("a"))], listed=True)
    (known,) = store.entries.files()
    store.entries.set_ages([known.id], 7)
    store.close()
    with contextlib.closing(sqlite3.connect(catalogd.database_path(folder))) as db, db:
        if "VIEW" in old:
            db.execute("DROP VIEW viewers")
            db.execute(old)
        else:  # one without rowid
            db.execute("ALTER TABLE ages ADD COLUMN other TEXT")
    catalogd.upgrade(folder)
    with opened(folder) as again:
        assert again.entries.ages() == {known.id: 7}
        with again.database.reading() as db:
            assert catalogd.has_schema(db)


def test_a_restore_to_a_full_disk_names_that_disk(
    store: catalogd.Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, folder = tmp_path / "copy.db", tmp_path / "data"
    catalogd.copy_database(store.database.path, str(copy))
    monkeypatch.setattr(catalogd.shutil, "disk_usage", lambda folder: Mock(free=9))
    full = pytest.raises(catalogd.StorageFull, match="The disk is full")
    with copy.open("rb") as backup, full as caught:
        catalogd.restore(str(folder), backup)
    assert str(caught.value).startswith(store.database.path)
    assert not [name for name in os.listdir(folder) if len(name) == 16]


@pytest.mark.root
def test_a_full_disk_is_called_that_at_the_start(disk: pathlib.Path) -> None:
    folder = str(disk / "data")
    opened(folder).thing.close()
    fill(disk / "ballast")
    full = "catalogd.db: The disk is full. It needs 1.0 MB more"
    with pytest.raises(catalogd.StorageFull, match=full):
        opened(folder)


def ids(store: catalogd.Store) -> set[str]:
    return {
        entry["id"]
        for entry in json.loads(store.entries.list_json(catalogd.EVERYTHING))
    }


def fill(path: pathlib.Path) -> None:
    with open(path, "wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(4096))
