"""The views of the page: how to reach each from a fresh page."""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import catalogd
from browser import (
    add_found,
    button,
    choose_computer,
    choose_program,
    choose_way,
    deed,
    fill_folder,
    see,
    set_library,
    unfold_experts,
)


def exactly(text: str) -> re.Pattern[str]:
    """Match a text, also one that is translated by brackets around it."""
    return re.compile(rf"^\W*{re.escape(text)}\W*$")


def sentence(field: str, code: str, *of: object) -> dict[str, Any]:
    """Return a sentence with its code, as the server tells it in this field."""
    text = catalogd.say(code, *of)
    return {field: text, **catalogd.coded(text)}


def refusal(code: str) -> dict[str, Any]:
    return {"success": False, "error": "busy", **sentence("message", code)}


def library(page: Any, address: str) -> None:
    page.goto(address)
    page.locator(".entry").first.wait_for()


def queue(page: Any, address: str) -> None:
    page.goto(f"{address}#queue")
    page.locator(".lane").first.wait_for()


TABS = {  # of the settings, with a text in each
    "you": "this browser",
    "devices": "Programs on the console",
    "people": "Kim",
    "library": "Nothing is deleted here",
    "server": f"catalogd {catalogd.__version__}",
}


def settings(page: Any, address: str, tab: str) -> None:
    page.goto(f"{address}#settings/{tab}")
    see(page, TABS[tab])


def view_signing_in(page: Any, address: str) -> None:
    page.context.clear_cookies()
    page.goto(address)
    page.get_by_role("button", name="Sign in").wait_for()


def view_wrong_password(page: Any, address: str) -> None:
    view_signing_in(page, address)
    page.get_by_label("Name").fill("Robin")
    page.get_by_label("Password").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    see(page, "The name or the password is wrong.")


def view_setup(page: Any, address: str) -> None:
    answer = {"success": True, "account": None, "needs_setup": True}
    page.route("**/web/me", lambda route: route.fulfill(json=answer))
    page.goto(f"{address}#setup=k7mp-x4tz-9hqw")
    see(page, "Welcome")


INVITATION: dict[str, Any] = {
    **{"id": "5b", "maker": "Robin", "account": None, "name": None, "admin": False},
    **{"age": None, "created_at": "2026-09-01T10:00:00"},
}


def open_invitation(page: Any, address: str, **of: Any) -> None:
    invitation = {**INVITATION, **of}
    answer = {"success": True, "invitation": invitation}
    page.route("**/web/invitation", lambda route: route.fulfill(json=answer))
    page.goto(f"{address}#invitation=k7mpx4tz9hqwk7mpx4tz")


def view_invitation(page: Any, address: str) -> None:
    page.context.clear_cookies()
    open_invitation(page, address)
    see(page, "Robin invites you to this library.")


def view_invitation_for_password(page: Any, address: str) -> None:
    page.context.clear_cookies()
    open_invitation(page, address, account=2, name="Kim")
    see(page, "Choose a new password for Kim.")


def view_invitation_used(page: Any, address: str) -> None:
    page.context.clear_cookies()
    answer = {"success": False, **refusal("bad_invitation")}
    page.route(
        "**/web/invitation", lambda route: route.fulfill(json=answer, status=403)
    )
    page.goto(f"{address}#invitation=k7mpx4tz9hqwk7mpx4tz")
    see(page, "The link was used")


def view_invitation_signed_in(page: Any, address: str) -> None:
    open_invitation(page, address)
    see(page, "To use this link for yourself, sign out first.")


def view_invitations(page: Any, address: str) -> None:
    child = {**INVITATION, "id": "5c", "age": 7}
    answer = {"success": True, "invitations": [INVITATION, child]}
    link = f"http://192.168.1.20:6069/#invitation={'k7mpx' * 4}"
    new = {"success": True, "id": "5b", "link": link, "qr": catalogd.qr_code(link)}
    page.route(
        "**/web/invitations",
        lambda route: route.fulfill(
            json=new if route.request.method == "POST" else answer
        ),
    )
    settings(page, address, "people")
    button(page, "Make a link").click()
    page.get_by_role("img", name="QR code").scroll_into_view_if_needed()
    see(page, "it is not shown again")


def view_on_phone(page: Any, address: str) -> None:
    found = [f"http://192.168.1.{number}:6069/" for number in (20, 21)]
    codes = [{"address": one, "qr": catalogd.qr_code(one)} for one in found]
    answer = {"success": True, "addresses": codes}
    page.route("**/web/addresses", lambda route: route.fulfill(json=answer))
    settings(page, address, "you")
    page.get_by_role("img", name="QR code").wait_for()


def view_loading(page: Any, address: str) -> None:
    page.add_init_script(
        "const get = fetch; fetch = (path, options) =>"
        " path === 'web/entries' ? new Promise(() => {}) : get(path, options);"
    )
    page.goto(address)
    page.locator(".view > .meta .spinner").wait_for()


def view_empty(page: Any, address: str) -> None:
    answer = {"success": True, "entries": []}
    page.route("**/web/entries", lambda route: route.fulfill(json=answer))
    page.goto(address)
    page.locator(".empty").wait_for()


def change_answers(
    page: Any, change: Callable[[dict[str, Any]], object], path: str = "changes*"
) -> None:
    """Change what the page is told, such as of queue, devices and scans."""

    def answer(route: Any) -> None:
        headers = dict(route.request.headers)
        headers.pop("if-none-match", None)
        body = route.fetch(headers=headers).json()
        change(body)
        route.fulfill(json=body)

    page.route(f"**/web/{path}", answer)


def view_scanning(page: Any, address: str) -> None:
    scan = {"scanning": True, "files": 1234, "read": 87}
    scan |= {"folders": [], "disks": [], "passed_over": []}
    change_answers(page, lambda body: body.update(scan=scan))
    view_empty(page, address)
    see(page, "1,234 files so far")


def view_broken(page: Any, address: str) -> None:
    answer = refusal("database_busy")
    page.route("**/web/entries", lambda route: route.fulfill(status=503, json=answer))
    page.goto(address)
    see(page, "The database is busy.")


def view_reconnecting(page: Any, address: str) -> None:
    library(page, address)
    page.route("**/web/**", lambda route: route.abort())
    see(page, "Reconnecting")


def view_rows(page: Any, address: str) -> None:
    library(page, address)
    rows = page.locator(".rows").count()
    set_library(page, "Covers" if rows else "Rows")
    page.locator(".entry").first.wait_for()


def view_selecting(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("button", name=exactly("Select")).click()
    for name in ("Drift Cartographer", "Fable Foundry"):
        page.get_by_label(f"Select {name}").check()
    see(page, "2 selected")


def view_filters(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_role("button", name="Sort and filter").click()
    page.get_by_role("button", name="NSZ").click()


def view_not_loaded(page: Any, address: str) -> None:
    answer = refusal("database_busy")
    page.route("**/web/keys", lambda route: route.fulfill(status=503, json=answer))
    page.goto(f"{address}#settings/devices")
    unfold_experts(page)
    see(page, "This could not be loaded.")


def view_undo(page: Any, address: str) -> None:
    def answer(route: Any) -> None:
        added = route.request.post_data_json["entries"]
        done = {"added": added, "already": [], "failed": [], "undo": "1"}
        route.fulfill(json={"success": True, **done})

    page.route("**/web/send", answer)
    library(page, address)
    page.locator(".entries").get_by_role("button", name="Fable Foundry").click()
    see(page, "Fable Foundry: added to the queue.")


def view_search(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_label("Search the library").fill("garden")
    see(page, "2 of 27 titles")


def view_nothing_found(page: Any, address: str) -> None:
    library(page, address)
    page.get_by_label("Search the library").fill("submarine")
    see(page, "Nothing found")


def view_details(page: Any, address: str) -> None:
    library(page, address)
    page.locator(".entries").get_by_role("link", name="Echo Quarry").click()
    page.get_by_role("dialog").wait_for()


def view_file_details(page: Any, address: str) -> None:
    view_details(page, address)
    name = "File details of Echo Quarry - Soundtrack"
    page.get_by_role("button", name=name).click()
    see(page, "Location")


def view_editing(page: Any, address: str) -> None:
    view_details(page, address)
    page.get_by_role("button", name=exactly("Edit Echo Quarry")).click()
    page.get_by_role("button", name="Save").wait_for()


def view_gone(page: Any, address: str) -> None:
    page.goto(f"{address}#title/none")
    see(page, "This title no longer exists")


def view_toast(page: Any, address: str) -> None:
    answer = refusal("no_entry")
    page.route("**/web/send", lambda route: route.fulfill(status=404, json=answer))
    library(page, address)
    page.locator(".entries").get_by_role("button", name="Fable Foundry").click()
    see(page, "Fable Foundry was not queued.")


def view_empty_queue(page: Any, address: str) -> None:
    queue = {"items": [], "finished": 0}
    change_answers(page, lambda body: body.update(queue=queue))
    page.goto(f"{address}#queue")
    see(page, "The queue is empty")
    see(page, "No device fetches your queue yet.")


def view_new_key(page: Any, address: str) -> None:
    settings(page, address, "devices")
    unfold_experts(page)
    page.get_by_label("What is it for?").fill("Laptop")
    page.get_by_role("button", name="Create key").click()
    see(page, "It is shown only now.")


def view_tidy(page: Any, address: str) -> None:
    settings(page, address, "library")
    page.locator(".tidy summary").first.click()
    page.locator(".tidy td").first.wait_for()
    page.locator(".tidy").first.scroll_into_view_if_needed()


def view_offline(page: Any, address: str) -> None:
    why = sentence("problem", "folder_offline", "/games", "Input/output error")
    folder = {"path": "/games", "state": "offline", "files": 0, **why}
    disk = {"path": "/nas/Switch", "since": "2026-01-31T18:05:59", "entries": 12}
    missing = {**disk, "path": "/games", "entries": 40, "id": "lost:1", "missing": True}
    disk |= {"id": "uuid:1234-ABCD", "missing": False}
    scan = {
        "scanning": False,
        "folders": [folder],
        "disks": [disk, missing],
        "passed_over": [],
        "finished": None,
    }
    scan |= sentence("problem", "disk_full")
    change_answers(page, lambda body: body.update(scan=scan))
    settings(page, address, "library")
    see(page, "/games is offline")


def view_faults(page: Any, address: str) -> None:
    full = catalogd.say("no_room", "/backups/a.db", "0.8 MB")
    faults = [
        sentence("message", "backup_failed", full),
        sentence("message", "file_damaged", "Night Ferry"),
        sentence("message", "folder_missing", "/games"),
    ]
    for number, fault in enumerate(faults):
        fault |= {"about": "folders", "id": f"{number}"}
    change_answers(page, lambda body: body.update(faults=faults), "status")
    settings(page, address, "server")
    see(page, "No backup was made")


def view_question(page: Any, address: str) -> None:
    settings(page, address, "people")
    deed(page, "Remove", "Kim").click()
    page.get_by_role("dialog").wait_for()


def device(name: str, **facts: Any) -> dict[str, Any]:
    """Return a device as the server tells of it."""
    return {
        **{"id": name, "name": name, "account": "Robin", "is_own": True},
        **{"shared": False, "state": "idle", "target": "ready", "last_call": None},
        **{"age": catalogd.EVERYTHING, "paused_by": None},
        **facts,
        **catalogd.coded(facts.get("target", "")),
    }


AGES = {
    f"{0x0100_A000_0000_0000 + number * 0x2_0000:016X}": age
    for number, age in enumerate((3, 7, 12, 16, 18))
}


def answer_ages(page: Any) -> None:
    """Let five titles have an age, and the account Kim too."""
    answer = {"success": True, "ages": AGES, "former": {}}
    page.route("**/web/ages", lambda route: route.fulfill(json=answer))
    change_answers(page, lambda body: body["accounts"][1].update(age=7), "accounts")
    page.route("**/web/accounts/2/dir", lambda route: route.fulfill(json=ADDRESS))


ADDRESS: dict[str, Any] = {"success": True, "token": "Tz6hT1mK0vB3nUqk"}
NO_CONSOLE = catalogd.say("ftp_silent", "192.168.1.21")
DEVICES = [
    device("Living room", state="sending", shared=True),
    device("Bedroom", target=NO_CONSOLE),
    device("Travel card", state="away", last_call="2026-01-31T18:05:59"),
    device("Attic", account="Kim", is_own=False, shared=True),
]


def answer_devices(page: Any, devices: Sequence[dict[str, Any]]) -> None:
    """Let the page have these devices, and its queue's items be for them in turn."""

    def change(body: dict[str, Any]) -> None:
        body["devices"] = devices
        items = body["queue"]["items"]
        ids = itertools.cycle([each["id"] for each in devices[:2]] or [None])
        for item in items:
            item["device"] = next(ids)
            if item["status"] == "processing":
                item["device"] = "Living room"
        items[-1].update(is_own=False, account="Kim")

    change_answers(page, change)


def view_devices_queue(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    page.goto(f"{address}#queue")
    see(page, NO_CONSOLE)


def answer_titles(page: Any, address: str) -> None:
    """Let the queue have several parts of titles: one is being sent, with a part that
    was sent and one that has failed; one waits; and two have ended."""
    found = page.request.get(f"{address}web/entries").json()["entries"]
    by_title: dict[str, list[Any]] = {}
    for entry in found:
        by_title.setdefault(entry.get("base_id", ""), []).append(entry)
    titles = [parts for base, parts in by_title.items() if base and len(parts) > 3]
    sent = {"status": "completed", "percent": 100, "ended_at": "2026-01-31T18:05:59"}
    why = catalogd.say("card_full", "/media/card", "188 MB", "1.0 GB")
    failed = {**sent, "status": "failed", "percent": 0, "error": why}
    failed |= catalogd.coded(why)
    now = {"status": "processing", "percent": 40, "speed": 21_400_000}
    changes = [[sent, now, failed, {}], [{}, {}, {}], [sent, sent], [sent, failed]]
    items = []
    for parts, facts in zip(titles, changes, strict=False):
        for part, change in zip(parts, facts, strict=False):
            item = {name: part[name] for name in ("name", "size", "state")}
            item |= {"id": part["id"], "entry": part["id"], "title": part["base_id"]}
            item |= {"percent": 0, "speed": 0, "error": "", "ended_at": None}
            item |= {"created_at": "2026-01-31T18:05:59", "key": None}
            item |= {"device": "Living room", "account": "Robin", "is_own": True}
            item |= {"freed_from": None, "status": "pending", **change}
            items.append({**item, "bytes": item["size"] * item["percent"] // 100})
    queue = {"items": items, "finished": 4}
    change_answers(page, lambda body: body.update(queue=queue, devices=DEVICES[:1]))


def view_titles_queue(page: Any, address: str) -> None:
    answer_titles(page, address)
    page.goto(f"{address}#queue")
    see(page, "Living room")


def view_parts_queue(page: Any, address: str) -> None:
    view_titles_queue(page, address)
    for row in page.locator(".unfold").all():
        row.click()


def view_paused(page: Any, address: str) -> None:
    living, bedroom, *others = DEVICES
    paused = {**living, "paused_by": "Robin"}, {**bedroom, "paused_by": "Kim"}
    answer_devices(page, [*paused, *others])
    page.goto(f"{address}#queue")
    see(page, "Paused by Kim")


def view_devices_library(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    library(page, address)
    page.get_by_label("Send to").wait_for()


def view_one_device(page: Any, address: str) -> None:
    answer_devices(page, DEVICES[:1])
    library(page, address)
    see(page, "Living room")


def view_devices_details(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    view_details(page, address)
    page.get_by_role("dialog").get_by_label("Send to").wait_for()


def view_devices_settings(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    settings(page, address, "devices")
    deed(page, "Rename", "Bedroom").click()
    page.get_by_label("New name of Bedroom").wait_for()


def view_freed(page: Any, address: str) -> None:
    def change(body: dict[str, Any]) -> None:
        queue = body["queue"]
        waits = [item for item in queue["items"] if item["status"] == "pending"]
        for item in waits:
            item["freed_from"] = "Bedroom"
        body.update(queue=queue, devices=DEVICES[:1])

    change_answers(page, change)
    page.goto(f"{address}#queue")
    see(page, "your choice, since Bedroom")


def view_no_device(page: Any, address: str) -> None:
    change_answers(page, lambda body: body.update(devices=[]))
    queue(page, address)
    see(page, "No device fetches your queue yet.")


def view_add_device(page: Any, address: str) -> None:
    queue(page, address)
    page.goto(f"{address}#settings/devices")
    page.get_by_role("button", name="Add a device").click()
    button(page, "Not found?").wait_for()


def view_add_device_lines(page: Any, address: str) -> None:
    view_add_device(page, address)
    choose_computer(page)
    fill_folder(page, "/media/robin/SDCARD")
    see(page, "urlretrieve")
    page.locator(".pairing").scroll_into_view_if_needed()


def view_add_device_ftp(page: Any, address: str) -> None:
    view_add_device(page, address)
    choose_computer(page)
    page.get_by_role("radio", name="A console").click()
    choose_program(page, "sys-ftpd")
    page.get_by_label("Address of the console").fill("192.168.1.20")


def view_add_console(page: Any, address: str) -> None:
    place = {"address": "192.168.1.20", "port": 5000, "greeting": "Hello!"}
    place |= {"programs": ["sysftpd"], "does": "keeps"}
    found = {"consoles": [place], "success": True}
    page.route("**/web/consoles", lambda route: route.fulfill(json=found))
    view_add_device(page, address)
    see(page, "192.168.1.20:5000")


def view_add_console_ready(page: Any, address: str) -> None:
    posted = {"device": "Bedroom", "success": True}
    page.route("**/web/devices", lambda route: route.fulfill(json=posted))
    answer_devices(page, [device("Bedroom")])
    view_add_console(page, address)
    add_found(page, "sys-ftpd")
    see(page, "Send puts your games on Bedroom now.")


def view_add_device_used(page: Any, address: str) -> None:
    used = {"code": None, "expires_in": 0, "device": "Bedroom", "success": True}
    answer_devices(page, [device("Bedroom", target=NO_CONSOLE)])
    view_add_device_lines(page, address)
    page.route("**/web/pairing", lambda route: route.fulfill(json=used))
    see(page, "Bedroom asks for games")
    page.locator(".ticks").scroll_into_view_if_needed()


def view_add_device_ready(page: Any, address: str) -> None:
    used = {"code": None, "expires_in": 0, "device": "Bedroom", "success": True}
    answer_devices(page, [device("Bedroom")])
    view_add_device_lines(page, address)
    page.route("**/web/pairing", lambda route: route.fulfill(json=used))
    see(page, "Send puts your games on Bedroom now.")


def unfinished(page: Any, address: str) -> None:
    """Have Robin add games, and two uploads that are not whole."""
    rows = [
        {"id": "1", "name": "Paper Harbor [0100ABCD00010000][v0].nsp", "size": 419e6}
        | {"offset": 201e6, "account": "Robin", "is_own": True},
        {"id": "2", "name": "Lantern Bay [0100ABCD00020000][v0].xci", "size": 15.9e9}
        | {"offset": 8.1e9, "account": "Kim", "is_own": False},
    ]
    answer = {"success": True, "uploads": rows}
    page.route("**/web/uploads", lambda route: route.fulfill(json=answer))
    inbox = {"types": ["nsp", "xci"], "max_cover_bytes": 524288}
    account = {"name": "Robin", "admin": True, "inbox": inbox}
    me = {"success": True, "account": account, "needs_setup": False, "client": True}
    page.route("**/web/me", lambda route: route.fulfill(json=me))


def view_unfinished(page: Any, address: str) -> None:
    unfinished(page, address)
    library(page, address)
    see(page, "choose the file again")


def view_unfinished_of_all(page: Any, address: str) -> None:
    unfinished(page, address)
    settings(page, address, "library")
    see(page, "7.8 GB reserved")


def saves(page: Any) -> None:
    """Have the server tell of the saves of a console."""
    copy = {"device": "1", "console": "Bedroom", "size": 1_200_000}
    copies = [
        {**copy, "title": title, "name": f"2026-11-2{n} Ann", "path": f"{title}/{n}"}
        | {"added_at": f"2026-11-2{n}T10:00:00"}
        for title in ("Paper Harbor", "Lantern Bay")
        for n in (3, 2)
    ]
    damaged = catalogd.say("save_damaged")
    why = catalogd.say("save_failed", "/JKSV/Lantern Bay/1.zip", damaged)
    look = {"id": "1", "name": "Bedroom", "looked_at": "2026-11-24T10:00:00"}
    look |= {
        "copied": 2,
        "failures": 0,
        "problems": [{"message": why, **catalogd.coded(why)}],
    }
    answer = {"success": True, "copies": copies, "looks": [look]}
    page.route("**/web/saves", lambda route: route.fulfill(json=answer))


def view_saves(page: Any, address: str) -> None:
    saves(page)
    settings(page, address, "library")
    page.get_by_role("region", name="Saves").get_by_text("Paper Harbor").click()
    see(page, "2026-11-22 Ann")


def view_own_password(page: Any, address: str) -> None:
    settings(page, address, "people")
    deed(page, "Make admin", "Kim").click()
    page.get_by_label("Your password").fill("a guess")
    button(page.get_by_role("dialog"), "Make admin").click()
    see(page, "The current password is wrong.")


def view_set_password(page: Any, address: str) -> None:
    settings(page, address, "people")
    deed(page, "Set password", "Kim").click()
    page.get_by_label("Your password").wait_for()


def view_new_admin(page: Any, address: str) -> None:
    settings(page, address, "people")
    page.get_by_label("Is an admin").check()
    page.get_by_label("I choose the name").check()
    page.get_by_label("Your password").scroll_into_view_if_needed()


def view_add_device_ended(page: Any, address: str) -> None:
    ended = {"code": None, "expires_in": 0, "device": None, "ended": True}
    view_add_device_lines(page, address)
    answer = {**ended, "success": True}
    page.route("**/web/pairing", lambda route: route.fulfill(json=answer))
    see(page, "Somebody tried ten wrong codes")


def view_console_fetches(page: Any, address: str) -> None:
    page.route("**/web/dir", lambda route: route.fulfill(json=ADDRESS))
    view_add_device(page, address)
    choose_way(page, "The console fetches it itself")
    see(page, "http.ini")


def view_ages(page: Any, address: str) -> None:
    answer_ages(page)
    view_selecting(page, address)
    page.locator(".entry .meta", has_text="Not for children").first.wait_for()


def view_ages_filter(page: Any, address: str) -> None:
    answer_ages(page)
    library(page, address)
    page.locator(".entry .meta", has_text="Not for children").first.wait_for()
    page.get_by_role("button", name="Sort and filter").click()
    page.get_by_role("button", name="Not for children").click()
    see(page, "1 of 27 titles")


def view_ages_details(page: Any, address: str) -> None:
    answer_ages(page)
    attic = device("Attic", account="Kim", is_own=False, shared=True, age=7)
    answer_devices(page, [attic])
    view_details(page, address)
    see(page, "Attic: Kim does not see this title")


def view_ages_people(page: Any, address: str) -> None:
    answer_ages(page)
    settings(page, address, "people")
    deed(page, "Console address", "Kim").click()
    button(page, "Create address").click()
    see(page, ADDRESS["token"])


def be_child(page: Any, devices: Sequence[dict[str, Any]] = ()) -> None:
    """Have the account be that of a child, who has these devices."""
    account = {"name": "Kim", "admin": False, "age": 7}
    me = {"success": True, "account": account, "needs_setup": False, "client": True}
    page.route("**/web/me", lambda route: route.fulfill(json=me))

    def change(body: dict[str, Any]) -> None:
        body["account"] = account
        if devices:
            body["devices"] = devices
            for item in body["queue"]["items"]:
                item["device"] = devices[0]["id"]

    change_answers(page, change)


def view_child(page: Any, address: str) -> None:
    be_child(page)
    view_empty(page, address)
    see(page, "Ask an adult")


def view_child_library(page: Any, address: str) -> None:
    be_child(page, DEVICES[:2])
    library(page, address)
    page.locator(".child .send").first.wait_for()


def view_child_details(page: Any, address: str) -> None:
    be_child(page, DEVICES[:1])
    view_details(page, address)
    page.locator(".child .send-bar .send").wait_for()


def view_child_queue(page: Any, address: str) -> None:
    be_child(page, DEVICES[:1])
    queue(page, address)


def view_child_settings(page: Any, address: str) -> None:
    be_child(page)
    page.goto(f"{address}#settings/devices")
    see(page, "Change password")


def view_menu_people(page: Any, address: str) -> None:
    settings(page, address, "people")
    deed(page, "Make admin", "Kim").wait_for()


def view_menu_device(page: Any, address: str) -> None:
    answer_devices(page, DEVICES)
    settings(page, address, "devices")
    deed(page, "Rename", "Living room").wait_for()


def view_menu_queue(page: Any, address: str) -> None:
    view_devices_queue(page, address)
    deed(page, "Bedroom", "Rooftop Gardener").wait_for()


def first_run(page: Any, address: str, devices: Sequence[dict[str, Any]]) -> None:
    nothing = {"queue": {"items": [], "finished": 0}, "sent": [], "devices": devices}
    change_answers(page, lambda body: body.update(nothing))
    library(page, address)
    page.locator(".first-run").wait_for()


def view_first_run(page: Any, address: str) -> None:
    first_run(page, address, [])


def view_first_send(page: Any, address: str) -> None:
    first_run(page, address, [device("Living room")])


def view_next_title(page: Any, address: str) -> None:
    """Have nothing in the queue, so that the library offers a title."""
    nothing = {"queue": {"items": [], "finished": 0}, "devices": DEVICES[2:3]}
    change_answers(page, lambda body: body.update(nothing))
    library(page, address)


def send_three(body: dict[str, Any]) -> None:
    """Let three titles be sent at once, to devices of their own."""
    devices = [device(name, state="sending") for name in ("Den", "Attic", "Cellar")]
    names = iter(devices)
    for item in body["queue"]["items"]:
        if item["status"] not in ("completed", "failed") and (to := next(names, None)):
            item.update(status="processing", percent=17, bytes=item["size"] // 6)
            item.update(speed=11_000_000, device=to["id"], key=to["id"])
    body["devices"] = devices


def view_several_library(page: Any, address: str) -> None:
    change_answers(page, send_three)
    library(page, address)


def view_several_queue(page: Any, address: str) -> None:
    change_answers(page, send_three)
    queue(page, address)


VIEWS: dict[str, Callable[[Any, str], None]] = {
    "library": library,
    "queue": queue,
    **{f"settings_{tab}": functools.partial(settings, tab=tab) for tab in TABS},
    **{name[5:]: view for name, view in globals().items() if name[:5] == "view_"},
}
