"""Devices and the sheet that adds one, in a real Chromium."""

import contextlib
import ipaddress
import pathlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import catalogd
import send_to_switch
from browser import (
    COPY_WITHOUT_HTTPS,
    PHONE,
    add,
    add_device,
    button,
    choose_computer,
    choose_device,
    choose_program,
    choose_way,
    deed,
    fill_folder,
    fill_name,
    focused,
    line_of,
    options,
    pair,
    pause_polls,
    report,
    see,
    sign_in,
    stop_clock,
    unfold_experts,
    until,
)
from conftest import PASSWORD, Clock, Library, Visit
from consoles import FTPConsole, Installer
from example import Demo
from ftpsrv import Ftpsrv
from views import VIEWS, change_answers, device

ADD = "Add a device"


def add_ben(store: catalogd.Store) -> int:
    return store.accounts.add("ben", catalogd.hash_password(PASSWORD))


def open_sheet(page: Any) -> None:
    page.goto("#settings/devices")
    button(page, ADD).click()
    choose_computer(page)
    see(page, "Where do the games go?")


def pairing_code(page: Any) -> str:
    code: str = page.locator(".pairing-code").text_content()
    return code.replace(" ", "")


def poll(page: Any, key: str, target: str) -> None:
    """Fetch the queue, as a client does."""
    headers = {"Authorization": f"Bearer {key}"}
    path = "/api/send-queue"
    assert page.request.get(path, params={"target": target}, headers=headers).ok


def device_of(store: catalogd.Store) -> Any:
    """Wait for an item, and return which device the only one is for."""
    until(lambda: store.queue.items(1))
    (row,) = store.queue.items(1)
    return row["device"]


LINES = """([system, folder]) => {
  Object.defineProperty(navigator, "userAgent", {value: system, configurable: true});
  const device = {kind: "folder", folder, name: "TV", code: "1"};
  const lines = commandLines({...device, isFirst: true, system: guessSystem()});
  delete navigator.userAgent;
  return lines;
}"""


@pytest.mark.parametrize(
    ("system", "line", "text"),
    [
        ("Windows NT 10.0", "fetch", 'python -c "import urllib'),
        ("Windows NT 10.0", "pair", "python send_to_switch.py pair http://"),
        ("Macintosh; Intel Mac OS X", "fetch", 'python3 -c "import urllib'),
        ("X11; Linux x86_64", "start", "python3 send_to_switch.py"),
    ],
)
def test_the_lines_are_those_of_the_computer_that_shows_the_page(
    script: Any, system: str, line: str, text: str
) -> None:
    lines = script.evaluate(LINES, [f"Mozilla/5.0 ({system})", "/card"])
    assert lines[line].startswith(text)


@pytest.mark.parametrize(
    ("system", "text", "quoted"),
    [
        ("windows", "E:\\", "'E:\\'"),
        ("windows", "E:\\My Games\\", "'E:\\My Games'"),
        ("windows", '"E:\\My Games\\"', "'E:\\My Games'"),
        ("windows", "E:\\My\u3000Games\\", "'E:\\My\u3000Games'"),
        ("windows", "Anna\u2019s 'den' $x `y", "'Anna\u2019\u2019s ''den'' $x `y'"),
        ("mac", "/Volumes/Anna's $x\\", "'/Volumes/Anna'\\''s $x\\'"),
    ],
)
def test_a_text_is_quoted_for_the_shell_of_the_computer(
    script: Any, system: str, text: str, quoted: str
) -> None:
    assert script.evaluate("given => quote(...given)", [text, system]) == quoted


def test_a_shell_reads_a_folder_as_it_was_typed(script: Any) -> None:
    folder = "/media/Robin's $card"
    lines = script.evaluate(LINES, ["X11; Linux x86_64", folder])
    assert shlex.split(lines["pair"])[-1] == f"folder:{folder}"


def test_the_line_that_gets_the_program_needs_python_alone(
    anna: Any, tmp_path: pathlib.Path
) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    python = f"{shlex.quote(sys.executable)} "
    line = line_of(anna, "Get the program").replace("python3 ", python, 1)
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, env={}, check=True)
    fetched = (tmp_path / "send_to_switch.py").read_bytes()
    assert fetched == pathlib.Path(send_to_switch.__file__).read_bytes()


def test_the_sheet_copies_without_https_and_says_so(anna: Any) -> None:
    anna.add_init_script(COPY_WITHOUT_HTTPS)
    open_sheet(anna)
    fill_folder(anna, "/card")
    button(anna, "Copy: Start it").click()
    until(lambda: anna.evaluate("window.copied") == "python3 s")
    see(anna.get_by_role("dialog"), "Copied.")


TARGETS = """([known, devices]) => {
  Object.assign(KNOWN, known);
  return devices.map(device => targetOf({kind: "console", ...device}));
}"""


def test_the_target_is_that_of_the_program_on_the_console(script: Any) -> None:
    targets = {
        ("sphaira", "192.168.1.20"): "ftp://192.168.1.20",
        ("dbi", "10.0.0.7"): "ftp://10.0.0.7:6000/",
        ("dbi", "10.0.0.7:21"): "ftp://10.0.0.7:21/",
        ("dbi", "a:b@10.0.0.7"): "ftp://a:b@10.0.0.7:6000/",
        ("sysftpd", "a:b@10.0.0.7"): "ftp://a:b@10.0.0.7/games",
        ("awoo", "ftp://10.0.0.7/"): "lan://10.0.0.7",
    }
    devices = [{"program": program, "host": host} for program, host in targets]
    found = script.evaluate(TARGETS, [catalogd.KNOWN_TO_PAGE, devices])
    assert found == [*targets.values()]


def test_the_sheet_asks_for_the_program_and_the_address_of_a_console(anna: Any) -> None:
    open_sheet(anna)
    anna.get_by_role("radio", name="A console").click()
    choose_program(anna, "Awoo")
    anna.get_by_label("Address of the console").fill("10.0.0.7")
    button(anna, "Next").click()
    fill_name(anna)
    assert shlex.split(line_of(anna, "Connect it"))[-1] == "lan://10.0.0.7"


def test_a_phone_says_where_to_copy_the_lines(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    page = visit(base_url=site, user_agent="Mozilla/5.0 (Linux; Android 15)")
    sign_in(page, store, site, "anna")
    open_sheet(page)
    fill_folder(page, "/card")
    see(page, f"To copy the lines, open {site.rstrip('/')} on that computer.")


def test_a_second_device_has_settings_of_its_own_and_powershell_reads_its_folder(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Bedroom")
    open_sheet(anna)
    fill_folder(anna, "E:\\Robin's games\\")
    see(anna, "Start it")
    assert line_of(anna, "Start it").endswith(" --config living-room.ini")
    anna.get_by_label("Windows").check()
    assert "'folder:E:\\Robin''s games'" in line_of(anna, "Connect it")


@pytest.mark.parametrize(
    ("name", "file", "option"),
    [
        ("リビング", "リビング.ini", "--name 'リビング'"),
        ("🎮", "1f3ae.ini", "--name '🎮'"),
        ("-Ana", "ana.ini", "--name='-Ana'"),
    ],
)
def test_each_name_has_settings_of_its_own_and_is_no_option(
    script: Any, name: str, file: str, option: str
) -> None:
    adding = {"code": "1", "isFirst": False, "system": "linux", "name": name}
    adding |= {"kind": "folder", "folder": "/x", "host": "", "program": ""}
    lines = script.evaluate("adding => commandLines(adding)", adding)
    assert lines["start"].endswith(f" --config {file}")
    assert option in lines["pair"]


def test_a_server_without_the_program_says_what_to_do(anna: Any) -> None:
    def answer(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "client": False})

    anna.route("**/web/me", answer)
    open_sheet(anna)
    fill_folder(anna, "/card")
    see(anna, "catalogd does not have the program here.")
    assert anna.get_by_text("Get the program").count() == 0


def test_an_open_code_is_kept_when_the_sheet_is_opened_again(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    code = pairing_code(anna)
    button(anna, "Close").click()
    button(anna, ADD).click()
    choose_computer(anna)
    fill_folder(anna, "/card")
    assert pairing_code(anna) == code


def test_wrong_codes_end_the_code_and_a_new_one_is_made(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    code = pairing_code(anna)
    wrong = "000000" if code != "000000" else "111111"
    for _ in range(10):
        assert pair(anna, wrong).status == 403
    see(anna, "Somebody tried ten wrong codes")
    button(anna, "New code").click()
    see(anna, "good for")
    assert pairing_code(anna) != code


def test_an_expired_code_says_so(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    see(anna, "good for 10 min")
    answer = {"success": True, "code": None, "expires_in": 0, "device": None}
    anna.route("**/web/pairing", lambda route: route.fulfill(json=answer))
    see(anna, "The code has expired.")


@pytest.mark.parametrize("polls", [""])
def test_the_sheet_ticks_by_itself_within_two_seconds(anna: Any) -> None:
    anna.clock.install()
    open_sheet(anna)
    fill_folder(anna, "/card")
    code = pairing_code(anna)
    stop_clock(anna)
    pause_polls(anna)
    answer = pair(anna, code, "Attic").json()
    key, ticks = answer["api_key"], anna.locator(".tick.check")
    for text, target in (
        ("Connected to catalogd", ""),
        ("Attic asks for games", "ready"),
    ):
        anna.clock.run_for(2000)
        ticks.get_by_text(text).wait_for()
        pause_polls(anna)
        poll(anna, key, target)
    anna.clock.run_for(2000)
    anna.get_by_text("Ready", exact=True).wait_for()
    assert focused(anna) == "Done", "so that it is in sight"


def test_the_sheet_shows_why_a_console_does_not_answer(anna: Any) -> None:
    open_sheet(anna)
    fill_folder(anna, "/card")
    answer = pair(anna, pairing_code(anna)).json()
    poll(anna, answer["api_key"], "There is no folder /card. Is the card in?")
    see(anna, "There is no folder /card. Is the card in?")
    assert anna.get_by_text("Send puts your games on").count() == 0


def test_a_console_that_fetches_by_itself_gets_its_steps(anna: Any) -> None:
    steps = {
        "DBI": "Library=ApacheHTTP|http://127.0.0.1",
        "Tinfoil and others": "Enter this address.",
        "Sphaira": "url=http://127.0.0.1",
    }
    anna.goto("#settings/devices")
    button(anna, ADD).click()
    choose_way(anna, "The console fetches it itself")
    button(anna.get_by_role("dialog"), "Create address").click()
    for program, text in steps.items():
        anna.get_by_role("radio", name=program, exact=True).check()
        see(anna.get_by_role("dialog"), text)


def test_send_without_a_device_leads_to_the_sheet(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    see(anna, "Waits for a device.")
    button(anna, "Add one").click()
    button(anna, "Not found?").wait_for()
    assert device_of(store) is None


def test_send_goes_to_the_only_device_whose_name_is_seen(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    device = add_device(store, "Bedroom")
    anna.goto("")
    button(anna, "Send Paper Harbor").click()
    button(anna, "Queued").wait_for()
    assert device_of(store) == device
    see(anna.locator(".to-device"), "Bedroom")
    assert anna.get_by_label("Send to").count() == 0


def test_the_chip_tells_the_state_of_a_device_and_its_owner_if_that_is_another(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    bens = {"account": "ben", "is_own": False, "shared": True}
    twin = {**device("Attic", **bens), "id": "twin"}
    devices = [device("Attic", state="sending"), twin, device("Den", state="new")]
    change_answers(anna, lambda body: body.update(devices=devices))
    anna.goto("")
    see(anna, "Paper Harbor")
    lines = ["Attic · Sending", "Den · Not connected yet", "Attic (ben) · Idle"]
    options = anna.get_by_label("Send to").locator("option")
    assert options.all_text_contents() == lines
    button(anna, "Sort and filter").click()
    choose_device(anna, "Den")
    anna.locator(".to-device.warn").wait_for()


def test_the_first_send_is_told_in_one_message_with_what_happens_next(
    anna: Any, store: catalogd.Store
) -> None:
    for name in ("First", "Second", "Third"):
        add(store, name)
    anna.goto("")
    button(anna, "Send First").click()
    see(anna, "First: added to the queue. Waits for a device.")
    toast = anna.locator(".dock")
    assert toast.get_by_role("button").all_text_contents() == ["Add one", "Undo"]
    button(toast, "Undo").click()
    button(anna, "Send First").wait_for()
    add_device(store, "Attic")
    see(anna.locator(".to-device"), "Attic")
    button(anna, "Send Second").click()
    see(anna, "Second: added to the queue of Attic.")
    anna.evaluate("update({toasts: []})")
    button(anna, "Send Third").click()
    see(anna, "Third: added to the queue of Attic. 1 title is first.")
    button(anna, "Send First").click()
    see(anna, "2 titles: added to the queue of Attic. 1 title is first.")
    button(toast, "Undo").click()
    button(anna, "Send Third").wait_for()
    button(anna, "Send First").wait_for()


def test_the_details_tell_what_it_has_when_it_came_and_how_it_was_sent(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    clock.now = time.time()
    entry = add(store, "Paper Harbor")
    bedroom, attic = add_device(store, "Bedroom"), add_device(store, "Attic")
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    anna.goto(f"#title/{entry}")
    facts = anna.get_by_role("dialog").locator(".has dd:not(:has(select))")
    see(anna.get_by_role("dialog"), "Not yet")
    assert facts.all_text_contents() == ["link · 1\xa0kB", "just now", "Not yet"]
    for each in (bedroom, attic):
        clock.now += 1
        store.queue.send(1, entry, each)
        item = store.queue.items(1)[-1]["id"]
        report(store, item, 100, key=each, status="completed")
    last = ["to Attic · just now · by you", "to Bedroom · just now · by you"]
    until(lambda: facts.last.locator("div").all_text_contents() == last)
    button(anna, "Copy link").click()
    see(anna, "Copied.")
    copied = anna.evaluate("navigator.clipboard.readText()")
    assert copied == anna.evaluate("location.href")
    anna.goto("#queue")
    see(anna, "to Attic · ")


def test_the_details_tell_that_a_device_is_away_before_anything_is_sent(
    anna: Any, store: catalogd.Store
) -> None:
    entry = add(store, "Paper Harbor")
    add_device(store, "Attic", target="No answer.")
    anna.goto(f"#title/{entry}")
    see(anna.get_by_role("dialog"), "Attic does not answer.")


def test_undo_leaves_what_waits_for_another_device(
    anna: Any, store: catalogd.Store
) -> None:
    _, bedroom = add_device(store, "Attic"), add_device(store, "Bedroom")
    entries = [add(store, name) for name in ("First", "Second")]
    store.queue.send_all(1, entries, bedroom)
    anna.goto("")
    choose_device(anna, "Attic")
    button(anna, "Select").click()
    button(anna, "Select all 2 shown").click()
    button(anna, "Send 2").click()
    button(anna, "Undo").click()
    button(anna, "Send First").wait_for()
    found = [row["device"] for row in store.queue.items(1)]
    assert found == [bedroom, bedroom]


def test_send_goes_to_the_device_that_was_chosen_last_though_another_has_it(
    anna: Any, store: catalogd.Store
) -> None:
    store.queue.send(1, add(store, "Paper Harbor"), add_device(store, "Attic"))
    bedroom = add_device(store, "Bedroom")
    anna.goto("")
    choose_device(anna, "Attic")
    button(anna, "Queued").wait_for()
    choose_device(anna, "Bedroom")
    anna.reload()
    button(anna, "Send Paper Harbor").click()
    until(lambda: bedroom in [row["device"] for row in store.queue.items(1)])


def group(page: Any, name: str) -> Any:
    """Return the part of the queue that is for one device."""
    heading = page.get_by_role("heading", name=name, exact=True)
    return page.locator("section.items").filter(has=heading)


def test_the_queue_is_grouped_by_device_and_an_item_is_moved_to_another(
    anna: Any, store: catalogd.Store
) -> None:
    store.queue.send(1, add(store, "Paper Harbor"), add_device(store, "Attic"))
    store.queue.send(1, add(store, "Night Ferry"))
    anna.goto("#queue")
    see(group(anna, "Attic"), "Paper Harbor")
    see(group(anna, "Attic"), "Night Ferry")  # which no other device may take
    den = add_device(store, "Den")
    see(group(anna, "Any device"), "Night Ferry")
    deed(anna, "Den", "Paper Harbor").click()
    see(group(anna, "Den"), "Paper Harbor")
    assert store.queue.items(1)[0]["device"] == den


STATES = """devices => devices.map(device =>
  [statusOfDevice(device).text, textOf([renderTargetNote(device) || textNode("")])])"""


def test_the_state_of_a_device_and_why(script: Any) -> None:
    states = {
        "ready": ["Idle", ""],
        "": ["Idle", ""],
        catalogd.say("own_disk"): ["Idle", "on its computer's own disk"],
        "No answer from 10.0.0.7.": ["Off", "No answer from 10.0.0.7."],
    }
    devices = [device("Attic", target=target) for target in states]
    then = "2026-01-31T12:00:00"
    devices.append(device("Attic", state="away", last_call=then))
    devices.append(device("Attic", state="away", paused_by=""))
    seen = f"Last seen {script.evaluate('formatAge', then)}"
    expected = [*states.values(), [seen, ""], ["Paused", ""]]
    assert script.evaluate(STATES, devices) == expected


def test_the_queue_shows_the_state_of_a_device(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Attic", target=catalogd.say("own_disk"))
    anna.goto("#queue")
    chip = button(anna.locator(".idle"), "Attic")
    see(chip, "Idle")
    chip.click()
    see(anna.locator(".menu:popover-open"), "on its computer's own disk")


def test_that_a_console_does_not_answer_is_told_once(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic", target="No answer from 10.0.0.7.")
    store.queue.send(1, add(store, "Paper Harbor"), device)
    for address in ("#queue", "#settings/devices"):
        anna.goto(address)
        see(anna, "No answer from 10.0.0.7.")
        assert "does not answer" not in anna.inner_text("main")


def test_a_console_that_is_off_is_grey_unless_something_waits_for_it(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic", target="No answer from 10.0.0.7.")
    anna.goto("#queue")
    see(anna.locator(".idle .mark.quiet"), "Off")
    assert anna.locator(".error, .failed").count() == 0
    anna.goto("#settings/devices")
    see(anna.locator(".device .meta"), "No answer from 10.0.0.7.")
    assert anna.locator(".error, .failed").count() == 0
    anna.goto("#queue")
    store.queue.send(1, add(store, "Paper Harbor"), device)
    see(group(anna, "Attic").locator(".error"), "No answer from 10.0.0.7.")


def test_what_failed_stands_in_a_group_of_its_own(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    for name in ("First", "Second", "Third"):
        store.queue.send(1, add(store, name), device)
    first, second, _ = (row["id"] for row in store.queue.items(1))
    report(store, first, 100, key=device, status="completed")
    report(store, second, 40, key=device, status="failed", error_message="Full.")
    anna.goto("#queue")
    see(group(anna, "Failed"), "Full.")
    assert group(anna, "Attic").locator("h3").all_inner_texts() == ["Third"]
    assert group(anna, "Finished").locator("h3").all_inner_texts() == ["First"]
    deed(anna, "Remove", "Second").click()
    see(anna, "Finished items were cleared.")
    assert group(anna, "Attic").locator("h3").all_inner_texts() == ["Third"]
    button(anna, "Undo").click()
    see(group(anna, "Failed"), "Full.")


def test_a_device_is_paused_in_the_queue_and_goes_on_in_the_settings(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic", target="No answer from 10.0.0.7.")
    store.queue.send(1, add(store, "Paper Harbor"), device)
    anna.goto("#queue")
    see(anna, "No answer from 10.0.0.7.")
    button(anna, "Pause Attic").click()
    see(group(anna, "Attic"), "Paused by anna")
    assert focused(anna) == "Resume Attic"
    assert store.devices.all()[0]["paused_by"] == "anna"
    assert "answer" not in anna.inner_text("main")
    anna.goto("#settings/devices")
    see(anna, "Paused by anna")
    button(anna, "Resume Attic").click()
    button(anna, "Pause Attic").wait_for()
    assert store.devices.all()[0]["paused_by"] is None


def test_what_is_sent_to_a_paused_device_is_told_to_wait(
    anna: Any, store: catalogd.Store
) -> None:
    store.devices.change(add_device(store, "Attic"), {"paused": True})
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna.locator(".to-device", has_text="Attic"), "Paused")
    button(anna, "Send Paper Harbor").click()
    see(anna, "Attic is paused. Sending starts when it goes on.")


def test_a_shared_device_and_what_others_send_to_it_are_shown_but_not_changed(
    ben: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic", shared=True, paused=True)
    store.queue.send(1, add(store, "Paper Harbor"), device)
    ben.goto("#queue")
    see(group(ben, "Attic (anna)"), "Paused")
    see(group(ben, "Attic (anna)"), "from anna")
    assert button(ben, "Resume").count() == 0
    assert ben.locator(".item button, .item select").count() == 0


def test_a_console_of_another_account_is_no_card(
    ben: Any, store: catalogd.Store
) -> None:
    den = store.devices.add(1, {"name": "Den", "target": "ftp://10.0.0.7:5000/"})
    store.devices.change(den, {"shared": True})
    ben.goto("#settings/devices")
    see(ben, "Den (anna)")
    see(ben, "A console")
    icon = ben.locator(".device-icon path").get_attribute("d")
    assert icon == ben.evaluate("GLYPHS.device")


def test_a_card_that_is_not_in_is_no_console_that_does_not_answer(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Card", target="There is no folder /card.")
    store.queue.send(1, add(store, "Paper Harbor"), device)
    anna.goto("")
    see(anna.locator(".to-device"), "Off")


def test_each_step_of_adding_a_device_begins_with_the_focus_in_its_first_field(
    anna: Any,
) -> None:
    anna.goto("#queue")
    see(anna, "No device fetches your queue yet.")
    button(anna, "Add a device").click()
    button(anna, "Not found?").click()
    way = anna.get_by_role("radio", name="A computer with the SD card in it")
    way.focus()
    anna.keyboard.press("Space")
    button(anna, "Next").focus()
    anna.keyboard.press("Enter")
    anna.get_by_role("radio", name="SD card or folder").wait_for()
    first = anna.locator(".step:not(.is-done)").locator(
        ":is(input:not([type=radio]), :checked)"
    )
    assert first.first.evaluate("node => node === document.activeElement")
    button(anna, "Change").focus()
    anna.keyboard.press("Enter")
    until(lambda: way.evaluate("node => node === document.activeElement"))


def test_the_owner_of_a_device_cancels_an_item_of_another(
    anna: Any, store: catalogd.Store
) -> None:
    ben = add_ben(store)
    device = add_device(store, "Attic", shared=True)
    store.queue.send(ben, add(store, "Paper Harbor"), device)
    anna.goto("#queue")
    see(anna, "from ben")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "Cancelled")


def test_items_that_lost_their_device_are_told_and_go_to_another_at_once(
    anna: Any, store: catalogd.Store
) -> None:
    device = add_device(store, "Attic")
    for name in ("Paper Harbor", "Night Ferry"):
        store.queue.send(1, add(store, name), device)
    store.accounts.revoke_key(device)
    anna.goto("#queue")
    see(anna, "2 titles wait for your choice, since Attic was removed")
    assert anna.locator(".items h2").all_inner_texts() == ["Waits for your choice"]
    assert anna.locator(".hint select").count() == 0
    bedroom = add_device(store, "Bedroom")
    anna.get_by_label("Send all of them to").select_option("Bedroom")
    see(group(anna, "Bedroom"), "2 waiting")
    assert {row["device"] for row in store.queue.items(1)} == {bedroom}
    assert anna.locator(".hint").count() == 0


def test_a_device_is_renamed_shared_and_removed_after_a_question(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Attic")
    anna.goto("#settings/devices")
    deed(anna, "Rename", "Attic").click()
    anna.get_by_label("New name of Attic").fill("Cellar")
    button(anna, "Save").click()
    deed(anna, "Everyone here may send to it", "Cellar").check()
    until(lambda: store.devices.all()[0]["shared"])
    assert store.devices.all()[0]["name"] == "Cellar"
    deed(anna, "Remove", "Cellar").click()
    see(anna, "The program that sends to it stops working.")
    button(anna.get_by_role("dialog"), "Remove").click()
    see(anna, "The consoles and SD cards that games are sent to.")
    assert store.devices.all() == []


def remove_with_items(anna: Any, store: catalogd.Store) -> Any:
    """Remove a device that two items wait for; the question that follows."""
    device = add_device(store, "Attic")
    add_device(store, "Bedroom")
    for name in ("Paper Harbor", "Night Ferry"):
        store.queue.send(1, add(store, name), device)
    anna.goto("#settings/devices")
    deed(anna, "Remove", "Attic").click()
    dialog = anna.get_by_role("dialog")
    see(dialog, "What waits for it then waits for your choice.")
    button(dialog, "Remove").click()
    see(dialog, "2 titles wait for your choice, since Attic was removed")
    return dialog


def test_what_waited_for_a_removed_device_is_sent_to_another_one(
    anna: Any, store: catalogd.Store
) -> None:
    button(remove_with_items(anna, store), "Send them to Bedroom").click()
    until(lambda: [row["freed_from"] for row in store.queue.items(1)] == [None, None])
    [bedroom] = store.devices.all()
    assert {row["device"] for row in store.queue.items(1)} == {bedroom["id"]}


def test_what_waited_for_a_removed_device_goes_to_any_device(
    anna: Any, store: catalogd.Store
) -> None:
    button(remove_with_items(anna, store), "Any device").click()
    until(lambda: len(store.clients.pending(1)) == 2)


def test_what_waited_for_a_removed_device_is_cancelled_until_that_is_undone(
    anna: Any, store: catalogd.Store
) -> None:
    store.queue.send(1, add(store, "Aurora"))
    button(remove_with_items(anna, store), "Cancel them").click()
    see(anna, "2 titles were cancelled.")
    assert [row["name"] for row in store.queue.items(1) if not row["ended_at"]] == [
        "Aurora"
    ]
    button(anna, "Undo").click()
    until(lambda: all(not row["ended_at"] for row in store.queue.items(1)))


def test_what_waited_for_a_removed_device_waits_for_a_choice(
    anna: Any, store: catalogd.Store
) -> None:
    button(remove_with_items(anna, store), "Decide later").click()
    anna.goto("#queue")
    see(anna.locator("li", has_text="Night Ferry"), "Waits for your choice")
    assert store.clients.pending(1) == []
    deed(anna, "Any device", "Night Ferry").click()
    until(lambda: len(store.clients.pending(1)) == 1)
    deed(anna, "Any device", "Night Ferry").wait_for(state="detached")
    button(anna, "Cancel them").click()
    see(anna, "Paper Harbor was cancelled.")
    states = {row["name"]: row["status"] for row in store.queue.items(1)}
    assert states == {"Night Ferry": "pending", "Paper Harbor": "cancelled"}


def test_keys_of_devices_are_not_among_those_of_scripts(
    anna: Any, store: catalogd.Store
) -> None:
    add_device(store, "Attic")
    anna.goto("#settings/devices")
    unfold_experts(anna)
    see(anna.get_by_role("region", name="Keys"), "switch")
    assert anna.get_by_role("region", name="Keys").get_by_text("Attic").count() == 0


def test_a_device_that_is_away_is_not_promised_to_send(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    attic = add_device(store, "Attic")
    first, second = add(store, "First"), add(store, "Second")
    store.queue.send(1, first, attic)
    item = store.queue.items(1)[0]["id"]
    report(store, item, 100, key=attic, status="completed")
    store.queue.send(1, second, attic)
    clock.now += 7300
    add(store, "Third")
    anna.goto("")
    button(anna.locator(".entries"), "Send Third").click()
    see(anna.locator(".dock"), "added to the queue of Attic. Attic was last seen at ")
    anna.goto("#queue")
    see(group(anna, "Attic"), "Sending starts when it is back.")
    see(group(anna, "Attic"), "2 waiting, 2 kB")
    assert "about" not in group(anna, "Attic").inner_text()


def test_a_choice_that_is_gone_is_said_and_asked_again(
    visit: Visit, site: str, anna: Any, store: catalogd.Store
) -> None:
    ben = add_ben(store)
    add(store, "Paper Harbor")
    attic = add_device(store, "Attic", shared=True)
    own = add_device(store, "Bedroom", account=ben)
    page = visit(base_url=site)
    sign_in(page, store, site, "ben")
    page.goto("")
    choose_device(page, "Attic")
    store.devices.change(attic, {"shared": False})
    page.reload()
    button(page, "Send Paper Harbor").click()
    dialog = page.get_by_role("dialog")
    see(dialog, "Attic (anna) was removed, or is no longer shared.")
    assert store.queue.items(ben) == []
    button(dialog, "to Bedroom").click()
    button(page, "Queued").wait_for()
    assert [row["device"] for row in store.queue.items(ben)] == [own]


def test_the_details_tell_who_sent_a_part(
    visit: Visit, site: str, anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    clock.now = time.time()
    add_ben(store)
    entry = add(store, "Paper Harbor")
    attic = add_device(store, "Attic", shared=True)
    store.queue.send(1, entry, attic)
    item = store.queue.items(1)[0]["id"]
    report(store, item, 100, key=attic, status="completed")
    page = visit(base_url=site)
    sign_in(page, store, site, "ben")
    page.goto(f"#title/{entry}")
    see(page, "sent just now by anna")
    anna.goto(f"#title/{entry}")
    see(anna, "sent just now")
    assert anna.get_by_text("by anna").count() == 0


def test_two_devices_of_one_name_are_refused(anna: Any, store: catalogd.Store) -> None:
    add_device(store, "Living room")
    add_device(store, "Attic")
    open_sheet(anna)
    anna.get_by_role("radio", name="SD card or folder").click()
    anna.get_by_label("Folder on that computer").fill("/card")
    button(anna, "Next").click()
    assert anna.get_by_label("What do you call it?").input_value() == "Living room 2"
    fill_name(anna, "attic")
    see(anna, "There is a device named attic already.")
    assert anna.locator(".code").count() == 0
    button(anna, "Close").click()
    deed(anna, "Rename", "Attic").click()
    anna.get_by_label("New name of Attic").fill("living room")
    anna.keyboard.press("Enter")
    see(anna, "There is a device named living room already.")


def test_toasts_in_a_dialog_leave_its_button_free(visit: Visit, demo: Demo) -> None:
    page = visit(**options("light", PHONE))
    sign_in(page, demo.store, demo.address, "Robin")
    VIEWS["add_console"](page, demo.address)
    page.evaluate("toast('Paper Harbor was sent.'); toast('Nothing was found.', true)")
    add = button(page.get_by_role("dialog"), "Add").last
    add.evaluate("button => button.scrollIntoView({block: 'nearest'})")
    shown = page.locator(".sheet .toast:visible")
    place, covered = add.bounding_box(), shown.bounding_box()
    assert place["y"] + place["height"] <= covered["y"]


# A console that the server sends to, from the phone alone


CONTENT = bytes(range(256)) * 400
NAME = "Star Garden.nsp"
TERMS = ("API key", "pairing", "Pairing", "client", "Python")


PLACE = "192.168.1.20:5000"
FOUND = {"address": "192.168.1.20", "port": 5000, "greeting": "Who knows"}
FOUND |= {"programs": [], "does": ""}


@pytest.fixture
def sending(
    service: catalogd.Web, site: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[catalogd.Consoles]:
    """The service serves consoles, and looks for them on loopback alone."""
    consoles = service.consoles
    consoles.address = site.rstrip("/")
    networks = [ipaddress.IPv4Network("127.0.0.0/28")]
    monkeypatch.setattr(catalogd, "own_networks", lambda: networks)
    thread = catalogd.Lasting("consoles", consoles.update, 0.05)
    thread.start()
    yield consoles
    assert thread.stop(20) and consoles.end()


class Phone:
    """A page at 390 pixels, which counts taps and keeps what it has shown."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.taps = 0
        self.shown = ""

    def tap(self, name: str, within: str = "body") -> None:
        place = self.page.locator(within)
        found = place.get_by_role("button", name=name, exact=True)
        found.first.wait_for()
        self.shown += " ".join(place.locator("dialog, main").all_inner_texts())
        found.first.click()
        self.taps += 1

    def answer(self, name: str) -> None:
        """Tap on the answer of a question, after which the next one is asked."""
        radio = self.page.get_by_role("radio", name=re.compile(f"^{name}"))
        radio.wait_for()
        self.shown += " ".join(self.page.locator("dialog").all_inner_texts())
        radio.click()
        self.taps += 1


@pytest.fixture
def phone(visit: Visit, store: catalogd.Store, site: str, key: str) -> Phone:
    page = visit(base_url=site, **options("light", PHONE))
    sign_in(page, store, site, "anna")
    return Phone(page)


@contextlib.contextmanager
def ftp_console(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    (folder / "install:").mkdir()
    with contextlib.closing(FTPConsole(folder)) as console:
        yield "Sphaira", console.port


@contextlib.contextmanager
def truncating_console(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    (folder / "games").mkdir()
    with contextlib.closing(Ftpsrv(folder)) as console:
        yield "sys-ftpd", console.server_address[1]


@contextlib.contextmanager
def installer(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    def fetch(console: Installer, address: str) -> None:
        console.install(address)
        (folder / NAME).write_bytes(console.body)

    with contextlib.closing(Installer(fetch, is_patient=True)) as console:
        yield "Awoo", console.port


@pytest.mark.parametrize("kind", [ftp_console, truncating_console, installer])
def test_from_the_account_to_the_first_file_takes_seven_taps_at_most(
    phone: Phone,
    sending: catalogd.Consoles,
    service: catalogd.Web,
    library: Library,
    card: pathlib.Path,
    kind: Callable[[pathlib.Path], Any],
) -> None:
    """Where the console is not found."""
    library.add(NAME, CONTENT)
    service.scanner.scan()
    page = phone.page
    with kind(card) as (program, port):
        page.goto("")
        see(page, "Star Garden")
        phone.tap("Send Star Garden")
        phone.tap("Add one")
        phone.tap("Not found?")
        phone.answer("catalogd sends it to the console")
        phone.answer(program)
        page.get_by_label("Address of the console").fill(f"127.0.0.1:{port}")
        phone.tap("Add")
        phone.tap("Done")
        until(lambda: [*card.rglob(NAME)] and service.store.queue.sent(1))
    assert [path.read_bytes() for path in card.rglob(NAME)] == [CONTENT]
    assert phone.taps <= 7
    assert [term for term in TERMS if term in phone.shown] == []


@pytest.fixture
def console(
    card: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FTPConsole]:
    """One that the page finds."""
    with contextlib.closing(FTPConsole(card)) as console:
        monkeypatch.setattr(catalogd, "FTP_PORTS", [console.port])
        yield console


def add_console(phone: Phone, program: str = "Sphaira") -> None:
    phone.page.goto("#settings/devices")
    phone.tap("Add a device")
    phone.tap("Not found?")
    phone.answer("catalogd sends it to the console")
    phone.answer(program)


def test_a_console_that_is_found_is_ready_after_three_taps_and_no_typing(
    phone: Phone,
    sending: catalogd.Consoles,
    console: FTPConsole,
    store: catalogd.Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody looks for one before the first tap. What it is called is asked last."""
    page = phone.page
    looked: list[Any] = []
    page.on("request", lambda call: looked.append(call.url))
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")  # with the host's network
    monkeypatch.setattr(catalogd, "greeting_at", lambda place: "Hello!")
    page.goto("")
    add(store, "Paper Harbor")
    page.locator(".dock").wait_for()
    assert not [url for url in looked if url.endswith("web/consoles")]
    phone.tap("Add a device")
    see(page, f"127.0.0.1:{console.port} · look at its screen: does this port install?")
    assert page.get_by_text("in a container").count() == 0
    phone.tap("Add sys-ftpd 127.0.0.1")
    see(page, "Send puts your games on Living room now.")
    assert page.get_by_label("What do you call it?").input_value() == "Living room"
    page.get_by_label("What do you call it?").fill("Attic")
    phone.tap("Done")
    until(lambda: store.devices.all()[0]["name"] == "Attic")
    page.locator(".dock").wait_for(state="detached")
    assert phone.taps == 3


def test_an_installer_is_not_said_to_be_ready_before_something_is_sent(
    phone: Phone, sending: catalogd.Consoles
) -> None:
    page = phone.page
    add_console(phone, "Awoo")
    page.get_by_label("Address of the console").fill("127.0.0.1")
    phone.tap("Add")
    see(page, "Whether it is ready is not known until something is sent.")
    assert page.get_by_text("Ready", exact=True).count() == 0


def test_what_is_found_without_a_known_program_is_asked_for_it(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    page = phone.page
    page.route(
        "**/web/consoles",
        lambda route: route.fulfill(json={"consoles": [FOUND], "in_container": False}),
    )
    page.goto("#settings/devices")
    phone.tap("Add a device")
    phone.tap("Add Who knows 192.168.1.20")
    phone.answer("DBI")
    assert page.get_by_label("Address of the console").input_value() == PLACE


def test_why_a_console_is_not_ready_is_said_and_its_address_can_be_changed(
    phone: Phone,
    sending: catalogd.Consoles,
    card: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = phone.page
    monkeypatch.setattr(catalogd, "FTP_PORTS", [1])
    page.goto("#settings/devices")
    phone.tap("Add a device")
    see(page, "Nothing was found. Open the program")
    monkeypatch.setenv("CATALOGD_CONTAINER", "1")
    phone.tap("Look again")
    see(page, "Nothing was found. catalogd runs in a container")
    phone.tap("Close")
    add_console(phone)
    page.get_by_label("Address of the console").fill("127.0.0.1:1")
    phone.tap("Add")
    see(page, "catalogd goes on trying.")
    see(page, "127.0.0.1")
    phone.tap("Done")
    with contextlib.closing(FTPConsole(card)) as console:
        deed(page, "Address", "Living room").click()
        place = page.get_by_label("Address of the console")
        assert place.input_value() == "ftp://127.0.0.1:1"
        place.fill(f"127.0.0.1:{console.port}")
        phone.tap("Save")
        page.get_by_text("Its console does not answer").wait_for(state="hidden")
        see(page, "Idle")


def test_the_search_for_consoles_is_made_again_if_it_fails(
    phone: Phone, sending: catalogd.Consoles, console: FTPConsole
) -> None:
    page = phone.page
    busy = {"error": "busy", "message": "Somebody looks already."}
    page.route("**/web/consoles", lambda route: route.fulfill(status=503, json=busy))
    page.goto("#settings/devices")
    phone.tap("Add a device")
    see(page, "Somebody looks already.")
    page.unroute("**/web/consoles")
    phone.tap("Look again")
    see(page, f"127.0.0.1:{console.port}")


def test_a_mistyped_address_can_be_changed_where_it_was_typed(
    phone: Phone, sending: catalogd.Consoles, store: catalogd.Store, card: pathlib.Path
) -> None:
    page = phone.page
    add_console(phone)
    place = page.get_by_label("Address of the console")
    place.fill("Ftp://")
    phone.tap("Add")
    see(page, "That is no address of a console. Example: 192.168.1.20")
    place.fill("127.0.0.1:1")
    phone.tap("Add")
    see(page, "Not ready yet")
    with contextlib.closing(FTPConsole(card)) as console:
        phone.tap("Address")
        assert place.input_value() == "127.0.0.1:1"
        place.fill(f"127.0.0.1:{console.port}")
        phone.tap("Add")
        see(page, "Send puts your games on Living room now.")
    assert len(store.devices.by_server()) == 1
    assert button(page, "Change: ").count() == 0


def test_a_member_begins_with_the_code_of_a_card_and_is_not_offered_more(
    ben: Any,
) -> None:
    ben.goto("#settings/devices")
    button(ben, "Add a device").click()
    ben.locator(".pairing-code").wait_for()
    button(ben, "Change: How does it get there?").click()
    assert ben.get_by_role("radio").count() == 2
