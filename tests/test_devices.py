"""Devices: two accounts and their clients, over a real server; and pairing."""

import contextlib
import http.client
import json
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
import send_to_switch
from conftest import PASSWORD, Clock, Library, wait_for
from example import by_age

Answer = dict[str, Any]


class Caller:
    """A browser that is signed in, or a client with a key, over real connections."""

    def __init__(self, address: str, id: str = "", **headers: str) -> None:
        self.host = address.removeprefix("http://")
        self.id = id  # of a client's device
        self.headers = {"Content-Type": "application/json", **headers}

    def call(self, method: str, path: str, expect: int = 200, **body: Any) -> Answer:
        """Return the JSON of an answer with the status that is expected."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body), self.headers)
            answer = connection.getresponse()
            found: Answer = json.loads(answer.read())
            if cookie := answer.headers["Set-Cookie"]:
                self.headers["Cookie"] = cookie.partition(";")[0]
        assert answer.status == expect, found
        assert found["success"] is (expect == 200)
        return found

    def get(self, path: str, **options: Any) -> Answer:
        return self.call("GET", path, **options)

    def post(self, path: str, **options: Any) -> Answer:
        return self.call("POST", path, **options)

    # As a browser

    def pair(self, name: str) -> "Caller":
        code = self.post("/web/pairing")["code"]
        paired = self.post("/api/pair", code=code, name=name)
        bearer = f"Bearer {paired['api_key']}"
        return Caller(self.host, paired["device"], Authorization=bearer)

    def send(self, entry: str, device: str | None = None) -> str:
        """Send an entry to a device, and return the id of the queue item."""
        self.post("/web/send", entries=[entry], device=device)
        for row in self.queue():
            if (row["entry"], row["device"]) == (entry, device):
                found = str(row["id"])
        return found

    def queue(self) -> list[Answer]:
        rows: list[Answer] = self.get("/web/changes")["queue"]["items"]
        return rows

    def row(self, item: str) -> Answer:
        return {row["id"]: row for row in self.queue()}[item]

    def devices(self) -> dict[str, Answer]:
        return {row["name"]: row for row in self.get("/web/changes")["devices"]}

    def share(self, device: str, shared: bool = True, expect: int = 200) -> None:
        self.post(f"/web/devices/{device}", expect=expect, shared=shared)

    # As a client

    def poll(self, query: str = "") -> list[str]:
        """Return the ids of the items that it may take."""
        queue = self.get(f"/api/send-queue{query}")["queue"]
        return [item["queue_item_id"] for item in queue]

    def report(self, item: str, status: str, expect: int = 200) -> None:
        fields = {"queue_item_id": item, "status": status}
        self.post("/api/send-queue/progress", expect=expect, **fields)


class Household:
    """Robin, who is an admin, and Kim, with a server and three entries."""

    def __init__(self, web: catalogd.Web, address: str) -> None:
        self.store = web.store
        self.address = address
        self.web = web
        accounts = self.store.accounts
        for name in ("robin", "kim", "ada"):
            accounts.add(name, catalogd.hash_password(PASSWORD))
        self.robin, self.kim = self.sign_in("robin"), self.sign_in("kim")
        texts = {"description": "", "version": ""}
        self.entries = [
            self.store.entries.add_link(
                "http://host/x.nsp", 7, "nsp", {"name": name, **texts}, by="robin"
            )
            for name in ("Alba", "Baba", "Celeste")
        ]

    def sign_in(self, name: str) -> Caller:
        caller = Caller(self.address)
        caller.post("/web/login", username=name, password=PASSWORD)
        return caller


@pytest.fixture
def house(service: catalogd.Web, serve: Callable[[catalogd.Web], str]) -> Household:
    return Household(service, serve(service))


@pytest.fixture
def living(house: Household) -> Caller:
    """The client of a device that Robin shares."""
    device = house.robin.pair("Living room")
    house.robin.share(device.id)
    return device


def test_what_waits_for_a_device_goes_to_the_first_that_is_shared(
    house: Household,
) -> None:
    """But that of an account with a device of its own."""
    device, own = house.robin.pair("Living room"), house.kim.pair("Attic")
    ada = house.sign_in("ada")
    item, other = ada.send(house.entries[0]), house.kim.send(house.entries[0])
    assert device.poll() == []
    house.robin.share(device.id)
    assert (device.poll(), own.poll()) == ([item], [other])


def test_what_waits_goes_to_no_device_whose_owner_may_not_see_it(
    house: Household,
) -> None:
    device, ada = house.kim.pair("Bedroom"), house.sign_in("ada")
    for name, age in {"kim": 7, "ada": 12}.items():
        account = house.store.accounts.id_of(name)
        house.store.accounts.change(account, {"age": age})
    for entry, age in zip(house.entries, (12, 7), strict=False):
        house.store.entries.set_ages([entry], age)
    hidden, seen = map(ada.send, house.entries[:2])
    house.robin.share(device.id)
    assert device.poll() == [seen]
    assert [ada.row(item)["status"] for item in (hidden, seen)] == ["pending"] * 2


def test_a_shared_device_sends_for_everyone_first_in_first_out(
    house: Household, living: Caller
) -> None:
    kims = house.kim.pair("Kim's")
    alba, baba, celeste = house.entries
    first = house.kim.send(alba, living.id)
    second = house.robin.send(baba)
    third = house.robin.send(celeste, living.id)
    own = house.kim.send(celeste)
    for_kims = house.kim.send(baba, kims.id)
    assert living.poll() == [first, second, third]
    assert kims.poll() == [own, for_kims]
    living.report(first, "completed")
    assert living.poll() == [second, third]
    for caller in (house.kim, house.robin):  # a fact of the device
        [sent] = caller.get("/web/changes")["sent"]
        assert (sent["entry"], sent["device"]) == (alba, living.id)
        assert sent["account"] == "kim"


def test_an_item_without_a_device_is_for_any_client_of_its_account(
    house: Household, living: Caller
) -> None:
    attic = house.robin.pair("Attic")
    item = house.robin.send(house.entries[0])
    assert living.poll() == attic.poll() == [item]
    attic.report(item, "processing")
    living.report(item, "processing", expect=409)
    attic.report(item, "completed")
    [sent] = house.robin.get("/web/changes")["sent"]
    assert sent["device"] == attic.id


def offer(caller: Caller, item: str) -> Any:
    """Offer an item, and return its address by its id."""
    return caller.post("/api/send-queue/addresses", queue_item_ids=[item])["addresses"]


def test_no_other_client_gets_the_item_of_a_device(
    house: Household, living: Caller, library: Library
) -> None:
    attic, kims = house.robin.pair("Attic"), house.kim.pair("Kim's")
    library.add("Doom.nsp")
    house.web.scanner.scan()
    item = house.robin.send(by_age(house.store)[-1]["id"], living.id)
    assert (living.poll(), attic.poll(), kims.poll()) == ([item], [], [])
    attic.report(item, "processing", expect=409)
    kims.report(item, "processing", expect=404)
    living.report(item, "processing")
    assert offer(kims, item) == offer(attic, item) == {}
    assert "/dir/" in offer(living, item)[item]
    assert living.get("/api/send-queue/addresses")["served"] == {item: 0}


@pytest.fixture
def offered(house: Household, living: Caller, library: Library) -> list[str]:
    """The items of three files for the device, which its client has offered."""
    names = ("Doom.nsp", "Echo.nsp", "Fez.nsp")
    for name in names:
        library.add(name)
    house.web.scanner.scan()
    files = {row["name"]: row["id"] for row in by_age(house.store)}
    return [house.kim.send(files[name[:-4]], living.id) for name in names]


def test_several_items_are_offered_and_taken_one_after_the_other(
    house: Household, living: Caller, offered: list[str]
) -> None:
    path, progress = "/api/send-queue/addresses", "/api/send-queue/progress"
    mine = f"{path}?client=one"
    body = {"queue_item_ids": [*offered, "unknown"], "client": "one"}
    addresses = living.post(path, **body)["addresses"]
    assert [*addresses] == offered
    assert {house.kim.row(item)["status"] for item in offered} == {"offered"}
    assert living.poll() == living.poll("?client=two") == []
    assert living.poll("?client=one") == offered
    assert living.get(mine)["served"] == dict.fromkeys(offered, 0)
    assert living.get(path)["served"] == {}
    first, second, third = offered
    with urllib.request.urlopen(addresses[first]) as answer:
        content = answer.read()
    counts = {first: len(content), second: 0, third: 0}
    wait_for(lambda: living.get(mine)["served"] == counts)
    living.report(first, "processing")
    living.post(progress, queue_item_id=first, offered=True)
    living.post(progress, queue_item_id=third, release=True)
    statuses = [house.kim.row(item)["status"] for item in offered]
    assert statuses == ["processing", "offered", "pending"]
    assert living.poll() == [third]
    living.report(first, "completed")
    house.kim.post(f"/web/queue/{second}/cancel")
    assert living.get(mine)["served"] == {}
    for address in addresses.values():
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(address)
        refused.value.close()


def test_what_is_no_file_gets_no_address_when_it_is_offered(
    house: Household, living: Caller
) -> None:
    path = "/api/send-queue/addresses"
    item = house.kim.send(house.entries[0], living.id)
    body = {"queue_item_ids": [item], "client": "one"}
    assert living.post(path, **body)["addresses"] == {item: None}
    living.report(item, "failed")
    assert living.post(path, **body)["addresses"] == {}


def test_of_many_items_the_first_are_offered(
    offered: list[str], living: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "BATCH", 2)
    answer = living.post("/api/send-queue/addresses", queue_item_ids=offered)
    assert [*answer["addresses"]] == offered[:2]


def test_who_may_not_send_to_a_device_is_told_that_there_is_none(
    house: Household, living: Caller
) -> None:
    attic = house.robin.pair("Attic")
    script = house.robin.post("/web/keys", label="a script's")["id"]
    entry = house.entries[0]
    for device in (attic.id, script, "unknown"):
        house.kim.post("/web/send", expect=404, entries=[entry], device=device)
        body = {"entry_id": entry, "device": device}
        house.kim.post("/api/send-to-switch", expect=404, **body)
    house.kim.post("/web/send", expect=404, entries=[entry], device=attic.id)
    house.kim.post("/api/send-to-switch", entry_id=entry, device=living.id)
    assert house.kim.queue()[0]["device"] == living.id


def test_an_entry_waits_once_for_a_device_and_once_without_one(
    house: Household, living: Caller
) -> None:
    entry = house.entries[0]
    assert house.kim.post("/web/send", entries=[entry], device=living.id)["added"]
    assert house.robin.post("/web/send", entries=[entry], device=living.id)["already"]
    body = {"entry_id": entry, "device": living.id}
    message = house.robin.post("/api/send-to-switch", **body)["message"]
    assert message == "Already in the queue."
    assert house.robin.post("/web/send", entries=[entry])["added"]
    assert house.kim.post("/web/send", entries=[entry])["added"]
    assert len(living.poll()) == 2


def test_a_title_is_sent_again_to_another_device(
    house: Household, living: Caller
) -> None:
    kims = house.kim.pair("Kim's")
    for device in (living, kims):
        house.kim.post("/web/send", entries=house.entries[:1], device=device.id)
        [item] = device.poll()
        device.report(item, "completed")
    devices = [row["device"] for row in house.kim.get("/web/changes")["sent"]]
    assert sorted(devices) == sorted([living.id, kims.id])


def test_others_see_what_is_for_a_shared_device(
    house: Household, living: Caller
) -> None:
    alba, baba, celeste = house.entries
    attic = house.robin.pair("Attic")
    shared = house.robin.send(alba, living.id)
    house.robin.send(baba, attic.id)
    house.robin.send(celeste)
    [row] = house.kim.queue()
    assert (row["id"], row["name"], row["account"]) == (shared, "Alba", "robin")
    assert (row["is_own"], row["device"]) == (False, living.id)
    living.report(shared, "processing")
    assert house.kim.row(shared)["status"] == "processing"
    living.report(shared, "completed")
    assert house.kim.queue() == []
    assert len(house.robin.queue()) == 3
    assert house.robin.row(shared)["is_own"] is True


ACTIONS = ("device", "cancel", "retry")


def test_the_sender_the_owner_and_an_admin_may_act_on_an_item(
    house: Household, living: Caller
) -> None:
    kims = house.kim.pair("Kim's")
    house.kim.share(kims.id)
    ada, entry = house.sign_in("ada"), house.entries[0]
    for caller in (ada, house.kim, house.robin):  # the sender, the owner, an admin
        item = ada.send(entry, kims.id)
        caller.post("/web/queue/move", items=[item])
        for action in ACTIONS:
            body = {"device": kims.id} if action == "device" else {}
            caller.post(f"/web/queue/{item}/{action}", **body)
        ada.post("/web/queue/cancel")
    item = ada.send(entry, living.id)
    house.kim.post("/web/queue/move", expect=404, items=[item])
    for action in ACTIONS:
        for hidden in (item, "unknown"):
            house.kim.post(f"/web/queue/{hidden}/{action}", expect=404)
    own = ada.send(entry)
    house.robin.post(f"/web/queue/{own}/cancel", expect=404)


def test_an_item_moves_to_where_its_sender_may_send(
    house: Household, living: Caller
) -> None:
    attic, kims = house.robin.pair("Attic"), house.kim.pair("Kim's")
    item = house.kim.send(house.entries[0])
    path = f"/web/queue/{item}/device"
    house.kim.post(path, device=living.id)
    assert (living.poll(), kims.poll()) == ([item], [])
    house.robin.post(path, expect=404, device=attic.id)  # which Kim may not send to
    again = house.kim.send(house.entries[0])
    house.kim.post(path, expect=409, device=None)  # it waits there already
    house.kim.post(f"/web/queue/{again}/cancel")
    house.robin.post(path, device=None)
    assert (living.poll(), kims.poll()) == ([], [item])
    kims.report(item, "processing")
    house.kim.post(path, expect=409, device=living.id)
    kims.report(item, "completed")
    house.kim.post(path, expect=409, device=living.id)


def test_the_top_is_before_the_items_of_everyone(
    house: Household, living: Caller
) -> None:
    first = house.robin.send(house.entries[0], living.id)
    second = house.kim.send(house.entries[1], living.id)
    house.kim.post("/web/queue/move", items=[second])
    assert living.poll() == [second, first]


def revoke(house: Household, device: Caller) -> None:
    house.robin.call("DELETE", f"/web/keys/{device.id}")


def unshare(house: Household, device: Caller) -> None:
    house.robin.share(device.id, shared=False)


def remove_owner(house: Household, device: Caller) -> None:
    accounts = house.store.accounts
    accounts.change(accounts.id_of("kim"), {"admin": True})
    accounts.remove(accounts.id_of("robin"))


@pytest.mark.parametrize("end", [revoke, unshare, remove_owner])
def test_items_wait_without_a_device_that_ended(
    house: Household, living: Caller, end: Callable[[Household, Caller], None]
) -> None:
    kims = house.kim.pair("Kim's")
    alba, baba, celeste = house.entries
    waits = house.kim.send(alba, living.id)
    sends = house.kim.send(baba, living.id)
    living.report(sends, "processing")
    both = [house.kim.send(celeste), house.kim.send(celeste, living.id)]
    end(house, living)
    rows = {row["id"]: row for row in house.kim.queue()}
    assert [*rows] == [waits, sends, *both]
    for item in (waits, sends, both[1]):
        row = rows[item]
        assert (row["status"], row["device"]) == ("pending", None)
        assert (row["freed_from"], row["percent"]) == ("Living room", 0)
    assert kims.poll() == [both[0]]
    for status in ("processing", "completed", "failed"):
        kims.report(waits, status, expect=409)
    house.kim.post(f"/web/queue/{waits}/device", device=kims.id)
    house.kim.post(f"/web/queue/{sends}/device", device=None)
    assert kims.poll() == [waits, sends, both[0]]
    kims.report(sends, "processing")
    house.kim.post(f"/web/queue/{both[1]}/device", expect=409, device=None)
    house.kim.post(f"/web/queue/{both[1]}/cancel")
    assert {row["freed_from"] for row in house.kim.queue()} == {None, "Living room"}


def test_what_failed_waits_for_a_choice_once_its_device_is_removed(
    house: Household, living: Caller
) -> None:
    kims = house.kim.pair("Kim's")
    item = house.kim.send(house.entries[0], living.id)
    living.report(item, "failed")
    revoke(house, living)
    kims.report(item, "processing", expect=409)
    house.kim.post(f"/web/queue/{item}/retry")
    assert kims.poll() == []
    again = house.kim.send(house.entries[0])
    assert kims.poll() == [again]
    house.kim.post(f"/web/queue/{again}/cancel")
    house.kim.post("/web/queue/device", device=kims.id)
    assert kims.poll() == [item]


def test_an_item_that_is_sent_is_cancelled_before_it_goes_to_another_device(
    house: Household, living: Caller
) -> None:
    item = house.kim.send(house.entries[0], living.id)
    living.report(item, "processing")
    move = f"/web/queue/{item}/device"
    refused = house.kim.post(move, expect=409, device=None)
    assert refused["message"] == "The item is being sent. Cancel it first."
    house.kim.post(f"/web/queue/{item}/cancel")
    refused = house.kim.post(move, expect=409, device=None)
    assert refused["reason"] == "item_has_ended"


def test_all_that_lost_its_device_goes_to_another_at_once(
    house: Household, living: Caller
) -> None:
    kims = house.kim.pair("Kim's")
    alba, baba, celeste = house.entries
    freed = [house.kim.send(entry, living.id) for entry in (alba, baba)]
    twin = house.kim.send(baba, kims.id)
    for_any = house.kim.send(celeste)
    revoke(house, living)
    house.robin.post("/web/queue/device", device=kims.id, expect=404)
    house.kim.post("/web/queue/device", device=kims.id)
    rows = {row["id"]: row for row in house.kim.queue()}
    assert [*rows] == [freed[0], twin, for_any]
    assert [row["device"] for row in rows.values()] == [kims.id, kims.id, None]
    assert {row["freed_from"] for row in rows.values()} == {None}


def test_the_owners_items_stay_with_a_device_that_is_not_shared_any_more(
    house: Household, living: Caller
) -> None:
    own = [house.robin.send(house.entries[0], living.id)]
    others = house.kim.send(house.entries[1], living.id)
    living.report(others, "processing")
    house.robin.share(living.id, shared=False)
    assert living.poll() == own
    living.report(others, "completed", expect=404)
    house.robin.post(f"/web/devices/{living.id}", name="Den")
    assert living.poll() == own


def test_a_paused_device_gets_no_items_of_its_own(
    house: Household, living: Caller
) -> None:
    alba, baba, celeste = house.entries
    running = house.kim.send(alba, living.id)
    waits = house.kim.send(baba, living.id)
    any_device = house.robin.send(celeste)
    living.report(running, "processing")
    house.kim.post(f"/web/devices/{living.id}", expect=404, paused=True)
    house.robin.post(f"/web/devices/{living.id}", paused=True)
    for caller in (house.robin, house.kim):
        assert caller.devices()["Living room"]["paused_by"] == "robin"
    assert living.poll() == []
    for item in (waits, any_device):
        living.report(item, "processing", expect=409)
    assert house.kim.row(waits)["status"] == "pending"
    living.report(running, "processing")
    living.report(running, "failed")
    living.report(running, "processing", expect=409)
    assert house.kim.row(running)["status"] == "failed"
    house.robin.post(f"/web/devices/{living.id}", paused=False)
    assert house.kim.devices()["Living room"]["paused_by"] is None
    assert living.poll() == [waits, any_device]
    for item in (running, waits, any_device):
        living.report(item, "processing")


def test_a_paused_device_takes_nothing_from_another_one_that_is_silent(
    house: Household, living: Caller, clock: Clock
) -> None:
    item = house.robin.send(house.entries[0])
    other = house.robin.pair("Attic")
    other.report(item, "processing")
    house.robin.post(f"/web/devices/{living.id}", paused=True)
    clock.now += 301
    assert living.poll() == []
    living.report(item, "processing", expect=409)
    assert other.poll() == [item]


def test_an_admin_pauses_the_device_of_another(house: Household) -> None:
    attic = house.kim.pair("Attic")
    item = house.kim.send(house.entries[0], attic.id)
    house.robin.post(f"/web/devices/{attic.id}", paused=True)
    assert house.kim.devices()["Attic"]["paused_by"] == "robin"
    assert attic.poll() == []
    house.kim.post(f"/web/devices/{attic.id}", name="Cellar")
    assert house.kim.devices()["Cellar"]["paused_by"] == "robin"
    house.kim.post(f"/web/devices/{attic.id}", paused=False)
    assert attic.poll() == [item]


def test_a_client_that_crashed_ends_its_file_on_a_paused_device(
    house: Household, living: Caller, clock: Clock
) -> None:
    first, second = (house.kim.send(one, living.id) for one in house.entries[:2])
    fields = {"queue_item_id": first, "client": "one"}
    living.post("/api/send-queue/progress", **fields, status="processing")
    house.robin.post(f"/web/devices/{living.id}", paused=True)
    assert living.poll("?client=one") == [first]
    clock.now += 301
    assert living.poll("?client=one") == [first]
    living.post("/api/send-queue/progress", **fields, status="processing")
    living.post("/api/send-queue/progress", **fields, status="completed")
    assert living.poll("?client=one") == []
    assert house.kim.row(second)["status"] == "pending"


def test_what_an_installer_was_offered_does_not_begin_on_a_paused_device(
    house: Household, living: Caller, offered: list[str]
) -> None:
    path = "/api/send-queue/addresses"
    body = {"queue_item_ids": offered, "client": "one"}
    addresses = living.post(path, **body)["addresses"]
    first, second, third = offered
    with urllib.request.urlopen(addresses[first]) as answer:
        answer.read()
    wait_for(lambda: living.get(f"{path}?client=one")["served"][first])
    house.robin.post(f"/web/devices/{living.id}", paused=True)
    with urllib.request.urlopen(addresses[first]) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        urllib.request.urlopen(addresses[second])
    refused.value.close()
    living.post("/api/send-queue/progress", queue_item_id=third, release=True)
    addresses = living.post(path, **body)["addresses"]
    assert addresses.keys() == {first, second}
    house.robin.post(f"/web/devices/{living.id}", paused=False)
    with urllib.request.urlopen(addresses[second]) as answer:
        assert answer.status == 200


def test_a_key_is_a_device_once_it_has_fetched_the_queue(
    house: Household, clock: Clock
) -> None:
    made = house.kim.post("/web/keys", label="old client")
    client = Caller(house.address, made["id"], Authorization=f"Bearer {made['key']}")
    client.get(f"/api/entries/{house.entries[0]}/info")
    assert house.kim.devices() == {}
    client.poll("?client=1&target=no+card+%C3%A9")
    [device] = house.store.devices.all("kim")
    assert (
        device.items()
        >= {
            "id": client.id,
            "name": "old client",
            "account": "kim",
            "is_own": True,
            "shared": False,
            "paused_by": None,
            "state": "idle",
            "target": "no card é",
            "last_call": catalogd.stamp(clock.now),
        }.items()
    )
    item = house.kim.send(house.entries[0], client.id)
    client.report(item, "processing")
    assert house.kim.devices()["old client"]["state"] == "sending"
    clock.now += 301
    assert house.kim.devices()["old client"]["state"] == "away"


def test_a_target_is_told_by_a_code_or_else_by_a_text(house: Household) -> None:
    device = house.kim.pair("Kim's")

    def told(target: str, code: str, arguments: str) -> Any:
        asked = {"target": target, "target_code": code, "target_arguments": arguments}
        device.poll(f"?{urllib.parse.urlencode(asked)}")
        return house.kim.devices()["Kim's"]

    row = told("Off.", "ftp_silent", '{"address": "10.0.0.7 \u00e9"}')
    assert row["reason"] == "ftp_silent"
    assert row["arguments"] == {"address": "10.0.0.7 é"}
    text = "10.0.0.7 é does not answer. Is the program open on the console?"
    assert row["target"] == text
    for code, arguments in (("ftp_silent", "{}"), ("of_later", '{"a": 1}'), ("", "")):
        row = told("Off.", code, arguments)
        assert row["target"] == "Off." and "reason" not in row


@pytest.mark.parametrize("arguments", ["[]", "{"])
def test_what_varies_in_a_targets_sentence_is_checked(
    house: Household, arguments: str
) -> None:
    device = house.kim.pair("Kim's")
    asked = {"target_code": "ftp_silent", "target_arguments": arguments}
    device.get(f"/api/send-queue?{urllib.parse.urlencode(asked)}", expect=400)


def test_what_the_last_address_did_is_not_told_of_a_corrected_one(
    house: Household,
) -> None:
    console = {"name": "Attic", "target": "ftp://127.0.0.1:1"}
    device = house.store.devices.add(1, console)
    house.store.accounts.uses.set_target_state(device, "127.0.0.1 does not answer.")
    house.robin.post(f"/web/devices/{device}", name="Hall")
    assert house.robin.devices()["Hall"]["target"] == "127.0.0.1 does not answer."
    house.robin.post(f"/web/devices/{device}", target="ftp://127.0.0.1:2")
    assert house.robin.devices()["Hall"]["target"] == ""


def test_a_device_is_kept_over_a_restart(house: Household, clock: Clock) -> None:
    device = house.kim.pair("Kim's")
    assert house.kim.devices()["Kim's"]["state"] == "new"
    device.poll("?target=ready")
    house.kim.post(f"/web/devices/{device.id}", paused=True)
    [before] = house.store.devices.all("kim")
    house.store.accounts.uses.write()
    house.store.database.close()
    with contextlib.closing(
        catalogd.Store(house.store.database.folder, clock=catalogd.Clock(clock, clock))
    ) as again:
        assert again.devices.all("kim") == [before]
    assert (before["target"], before["state"]) == ("ready", "idle")
    assert before["paused_by"] == "kim"


def test_a_device_is_known_while_another_process_writes(
    house: Household, store: catalogd.Store
) -> None:
    made = house.kim.post("/web/keys", label="Kim's")
    client = Caller(house.address, made["id"], Authorization=f"Bearer {made['key']}")
    with store.database.writing():
        assert client.poll() == []
        assert [*house.kim.devices()] == ["Kim's"]
    client.poll()
    assert store.database.value("SELECT is_device FROM keys")
    item = house.kim.send(house.entries[0], client.id)
    assert client.poll() == [item]


def test_who_sees_and_changes_which_devices(house: Household, living: Caller) -> None:
    attic, kims = house.robin.pair("Attic"), house.kim.pair("Kim's")
    assert house.robin.devices().keys() == {"Living room", "Attic", "Kim's"}
    assert house.kim.devices().keys() == {"Living room", "Kim's"}
    assert house.kim.devices()["Living room"]["is_own"] is False
    for path in (f"/web/devices/{living.id}", f"/web/devices/{attic.id}"):
        house.kim.post(path, expect=404, name="Mine", shared=False)
        house.kim.call("DELETE", path, expect=404)
    house.robin.post(f"/web/devices/{kims.id}", name="Kim's own")
    house.robin.call("DELETE", f"/web/devices/{kims.id}")
    kims.get("/api/send-queue", expect=401)
    house.kim.post(f"/web/devices/{living.id}", expect=400, name="")


def test_removing_a_device_removes_no_other_key(house: Household) -> None:
    key = house.kim.post("/web/keys", label="script")["id"]
    for person in (house.kim, house.robin):
        person.call("DELETE", f"/web/devices/{key}", expect=404)
    assert [row["id"] for row in house.kim.get("/web/keys")["keys"]] == [key]


# Pairing


def test_a_code_is_good_once_for_its_account(house: Household) -> None:
    state = house.kim.get("/web/pairing")
    assert state == {"success": True, "code": None, "expires_in": 0, "device": None}
    made = house.kim.post("/web/pairing")
    assert (len(made["code"]), made["expires_in"]) == (6, 600)
    assert house.robin.get("/web/pairing")["code"] is None
    typed = f" {made['code'][:3]}-{made['code'][3:]} "
    paired = house.robin.post("/api/pair", code=typed, name="Den")
    assert house.kim.get("/web/pairing")["device"] == paired["device"]
    assert [*house.kim.devices()] == ["Den"]
    key = {"Authorization": f"Bearer {paired['api_key']}"}
    assert Caller(house.address, **key).poll() == []
    body = {"code": made["code"], "name": "Den"}
    answer = house.kim.post("/api/pair", expect=403, **body)
    assert answer["error"] == "forbidden"


@pytest.mark.parametrize("code", ["", "x", "1234567", "é", "12345\ud800", None])
def test_a_code_that_is_none_is_refused(house: Household, code: str | None) -> None:
    house.kim.post("/web/pairing")
    status = 403 if code in ("x", "1234567", "é") else 400
    house.kim.post("/api/pair", expect=status, code=code, name="Den")


def test_a_code_ends_after_ten_minutes_and_by_a_new_one(
    house: Household, clock: Clock
) -> None:
    house.web.calls["DeviceCalls"].codes.clock = clock
    old = house.kim.post("/web/pairing")["code"]
    clock.now += 599.5
    assert house.kim.get("/web/pairing")["expires_in"] == 1
    new = house.kim.post("/web/pairing")["code"]
    house.kim.post("/api/pair", expect=403, code=old, name="Den")
    clock.now += 600
    assert house.kim.get("/web/pairing")["code"] is None
    house.kim.post("/api/pair", expect=403, code=new, name="Den")


def test_a_code_that_is_good_for_long_is_kept(house: Household) -> None:
    code = house.kim.post("/web/pairing", name="Den")["code"]
    assert house.kim.post("/web/pairing")["code"] == code


def test_a_name_that_a_device_has_is_refused_wherever_one_is_named(
    house: Household,
) -> None:
    house.kim.pair("Den")
    code = house.robin.post("/web/pairing", name="Attic")["code"]
    refused = {"expect": 409, "name": " den "}
    answers = [
        house.robin.post("/web/pairing", **refused),
        house.robin.post("/api/pair", code=code, **refused),
        house.robin.post("/web/devices", target="lan://10.0.0.9", **refused),
    ]
    attic = house.robin.post("/api/pair", code=code, name="Attic")["device"]
    answers.append(house.robin.post(f"/web/devices/{attic}", **refused))
    messages = {answer["message"] for answer in answers}
    assert messages == {"There is a device named den already."}
    house.robin.post(f"/web/devices/{attic}", name="ATTIC")


def wrong(*codes: str) -> str:
    return next(text for text in map(str, range(100_000, 100_009)) if text not in codes)


def test_ten_wrong_codes_end_all_open_ones(house: Household) -> None:
    codes = [who.post("/web/pairing")["code"] for who in (house.robin, house.kim)]
    assert codes[0] != codes[1]
    for _ in range(10):
        house.kim.post("/api/pair", expect=403, code=wrong(*codes), name="Den")
    for person, code in zip((house.robin, house.kim), codes, strict=True):
        state = person.get("/web/pairing")
        assert (state["code"], state["ended"]) == (None, True)
        person.post("/api/pair", expect=403, code=code, name="Den")
    house.kim.pair("Den")
    assert "ended" not in house.kim.get("/web/pairing")


def test_a_few_wrong_codes_end_none(house: Household) -> None:
    for name in ("Den", "Attic"):
        code = house.kim.post("/web/pairing")["code"]
        for _ in range(9):
            house.kim.post("/api/pair", expect=403, code=wrong(code), name=name)
        house.kim.post("/api/pair", code=code, name=name)


ENDS: dict[str, Callable[[catalogd.Accounts, int, str], None]] = {
    "session": lambda accounts, kim, session: accounts.end_session(session, kim),
    "password": lambda accounts, kim, session: accounts.change(
        kim, {"password": ""}, session
    ),
    "account": lambda accounts, kim, session: accounts.remove(kim),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_code_ends_with_what_made_it(
    house: Household, store: catalogd.Store, what: str
) -> None:
    code = house.kim.post("/web/pairing")["code"]
    kim = store.accounts.id_of("kim")
    [session] = store.accounts.sessions(kim)
    ENDS[what](store.accounts, kim, session["id"])
    house.robin.post("/api/pair", expect=403, code=code, name="Den")


def test_a_call_that_cannot_be_answered_now_does_not_use_up_the_code(
    house: Household, store: catalogd.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = house.kim.post("/web/pairing")["code"]

    fail = Mock(side_effect=catalogd.Busy("Busy."))
    with monkeypatch.context() as patch:
        patch.setattr(store.accounts, "add_key", fail)
        house.kim.post("/api/pair", expect=503, code=code, name="Den")
    assert house.kim.get("/web/pairing")["code"] == code
    house.kim.post("/api/pair", code=code, name="Den")


# The client program


def test_the_client_is_handed_out_to_all(browser: webtest.TestApp) -> None:
    answer = browser.get("/send_to_switch.py")
    assert answer.body == pathlib.Path(send_to_switch.__file__).read_bytes()
    assert answer.content_type == "text/x-python"
    assert browser.get("/web/me").json["client"] is True


def test_a_server_without_the_client_says_so(
    browser: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd.importlib.util, "find_spec", lambda name: None)
    answer = browser.get("/send_to_switch.py", status=404)
    assert "put it beside catalogd.py" in answer.json["message"]
    assert browser.get("/web/me").json["client"] is False


# The setup code


def test_a_setup_code_has_twelve_letters_and_is_another_one_at_each_start(
    store: catalogd.Store,
) -> None:
    code = store.accounts.setup_code
    assert re.fullmatch("[a-hjkmnp-z2-9]{4}(-[a-hjkmnp-z2-9]{4}){2}", code)
    with contextlib.closing(catalogd.Store(store.database.folder)) as again:
        assert again.accounts.setup_code != code
