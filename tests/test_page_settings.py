"""Sessions that end, and the settings, in a real Chromium."""

import datetime
import os
import re
import shutil
import sys
import time
import urllib.parse
from typing import Any

import pytest

import catalogd
from browser import (
    COPY_WITHOUT_HTTPS,
    DESK,
    add,
    button,
    choose_way,
    deed,
    focused,
    is_focused,
    make_key,
    see,
    show,
    sign_in,
    unfold_experts,
    until,
)
from conftest import PASSWORD, Clock, Library, Visit, add_folder
from example import Demo, session
from qrcodes import read_picture
from test_page_calls import without_polls
from views import TABS, VIEWS

pytestmark = pytest.mark.ci

# Tidying up and backups


def test_tidy_lists_what_wastes_space(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    old = library.add("Paper Harbor [0100ABCD00010800][v0].nsp")
    scanner.scan()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Updates that a newer one replaces").click()
    columns = panel.get_by_role("columnheader").all_text_contents()
    assert columns == ["Name", "Size"]
    cells = panel.get_by_role("cell").all_inner_texts()
    assert cells[1:] == [f"{os.path.getsize(old)}\xa0B"]
    folders = panel.get_by_role("rowheader").all_inner_texts()
    assert folders == [os.path.dirname(old)]
    assert cells[0].splitlines()[-1] == os.path.basename(old)
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    assert old in anna.evaluate("navigator.clipboard.readText()")


def test_tidy_has_the_files_of_each_folder_together(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for name in ("Paper Harbor [0100ABCD00010800]", "Night Ferry [0100ABCD00020800]"):
        library.add(f"{name}[v131072].nsp")
        for folder, version in (("A", 0), ("B", 65536)):
            path = f"{folder}/{name}[v{version}].nsp"
            library.add(path, path.encode())  # no two are equal
    scanner.scan()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Updates that a newer one replaces").click()
    rows = panel.locator("[open] tbody")
    until(lambda: rows.count() == 2)
    for folder, texts in zip("AB", rows.all_inner_texts(), strict=True):
        assert texts.splitlines()[0].endswith(f"/{folder}")
        assert texts.count(".nsp") == 2


def test_what_is_passed_over_is_told_where_nothing_is_listed_and_named_in_tidy(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    library.add("wip/a.nsp")
    library.add("b.zip")
    folders = scanner.disks.folders
    scanner.disks.exclusion = catalogd.Exclusion(["wip"], folders)
    scanner.scan()
    anna.goto("")
    see(anna, "Passed over: 1 archive and 1 excluded folder")
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Tidy")
    see(panel, "Nothing to tidy.")
    panel.get_by_text("Passed over", exact=True).click()
    archive, folder = panel.get_by_role("cell").all_inner_texts()
    assert archive.split("\n\n") == ["b.zip", "Unpack it to list what is in it"]
    why = "The setting exclude leaves it out: wip"
    assert folder.split("\n\n") == ["wip", why]
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    lines = anna.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[1] == f"Passed over\t\t{library.folder}/wip\t{why}"


def test_three_browsers_are_listed_at_first(anna: Any, store: catalogd.Store) -> None:
    for _ in range(4):
        session(store, 1)
    anna.goto("#settings/you")
    panel = anna.get_by_role("region", name="Signed-in browsers")
    see(panel, "Show all 5")
    assert panel.locator(".row").count() == 3
    button(panel, "Show all 5").click()
    until(lambda: panel.locator(".row").count() == 5)
    assert button(panel, "Show all").count() == 0


def test_tidy_names_the_file_that_another_is_equal_to(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    name = "Paper \u05e0\u05de\u05dc"  # written from right to left
    for folder in ("Old disk", "Switch"):
        library.add(f"{folder}/{name}.nsp", b"the same")
    scanner.scan()
    anna.reload()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Equal files").click()
    see(panel, "1 file, 8 B")
    cells = panel.get_by_role("cell")
    cells.nth(2).wait_for()  # whose text is by the entries
    _, size, equal = cells.all_inner_texts()
    folder = panel.get_by_role("rowheader").inner_text()
    assert (size, {"Old disk", "Switch"}) == (
        "8\xa0B",
        {*re.findall("Old disk|Switch", f"{os.path.basename(folder)} {equal}")},
    )
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    line = anna.evaluate("navigator.clipboard.readText()")
    assert re.search(rf"\t{name} \([^\t]+$", line)


def test_a_disk_that_is_away_is_told_where_library_folders_are(
    anna: Any, library: Library, scanner: catalogd.Scanner, store: catalogd.Store
) -> None:
    for name in ("a/1.nsp", "a/2.nsp", "b/3.nsp"):
        library.add(name)
    scanner.scan()
    disk = library.folder / "a"
    with store.database.writing() as db:  # which was mounted there
        sql = "UPDATE entries SET volume = 'uuid:a' WHERE source LIKE ?"
        db.execute(sql, (f"{disk}/%",))
    shutil.rmtree(disk)
    scanner.scan()
    scanner.scan()
    anna.goto("#settings/server")
    health = anna.get_by_role("region", name="Health")
    see(health, f"{disk} is offline since")
    health.get_by_role("link", name="Files").click()
    row = anna.get_by_role("listitem").filter(has_text=str(disk))
    see(row, "offline · 2 entries wait for it, since Jan")
    name = f"Stop waiting {disk}"
    row.get_by_role("button", name=name).click()
    dialog = anna.get_by_role("dialog")
    see(dialog, f"Stop waiting for 2 entries of {disk}?")
    with anna.expect_response("**/web/disks/*") as answer:
        button(dialog, "Stop waiting").click()
    assert answer.value.ok
    row.wait_for(state="detached")
    assert sum(item.state == "gone" for item in store.entries.files()) == 2
    shutil.copytree(library.folder / "b", disk)


def test_files_that_are_missing_are_told_until_that_is_all_right(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for number in range(40):
        library.add(f"deep/{number}.nsp")
    library.add("a.nsp")
    scanner.scan()
    shutil.rmtree(library.folder / "deep")
    scanner.scan()
    anna.goto("#settings/library")
    row = anna.get_by_role("listitem").filter(has_text="files are missing")
    see(row, "40 files are missing since Jan")
    row.get_by_role("button", name=f"All right {library.folder}").click()
    row.wait_for(state="detached")


def test_an_admin_sees_the_last_backup_and_downloads_it(
    anna: Any, service: catalogd.Web
) -> None:
    anna.goto("#settings/server")
    panel = anna.get_by_role("region", name="Backups")
    see(panel, "No backup was made yet.")
    service.backups.make()
    service.backups.problem = "The disk is full."
    anna.reload()
    panel.get_by_text(re.compile(r"^Last backup .*, \d+\s\w+\.$")).wait_for()
    told = "No backup was made: The disk is full."
    see(anna.get_by_role("region", name="Health"), told)
    button(panel, "Download").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_label("Your password").fill("a guess")
    button(dialog, "Download").click()
    see(dialog, "The current password is wrong.")
    dialog.get_by_label("Your password").fill(PASSWORD)
    with anna.expect_download() as download:
        button(dialog, "Download").click()
    found = service.backups.last()
    assert found is not None
    assert download.value.suggested_filename == os.path.basename(found.path)
    assert os.path.getsize(download.value.path()) == found.size
    dialog.wait_for(state="detached")


COUNT_FILES = """
window.files = 0;
const {createObjectURL: create, revokeObjectURL: revoke} = URL;
URL.createObjectURL = file => (window.files += 1, create(file));
URL.revokeObjectURL = address => (window.files -= 1, revoke(address));
"""


def download_backup(page: Any) -> Any:
    """Ask for it, and return the dialog."""
    page.goto("#settings/server")
    button(page.get_by_role("region", name="Backups"), "Download").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Your password").fill(PASSWORD)
    button(dialog, "Download").click()
    return dialog


def test_a_backup_leaves_the_memory_of_the_browser(
    anna: Any, service: catalogd.Web
) -> None:
    service.backups.make()
    anna.add_init_script(COUNT_FILES)
    anna.clock.install()
    with anna.expect_download():
        download_backup(anna)
    assert anna.evaluate("files") == 1
    anna.clock.run_for(60_000)
    until(lambda: anna.evaluate("files") == 0)


def test_a_backup_that_breaks_off_says_that_the_server_is_not_reached(
    anna: Any, service: catalogd.Web
) -> None:
    service.backups.make()
    broken = "Response.prototype.blob = () => Promise.reject(new TypeError('lost'));"
    anna.add_init_script(broken)
    dialog = download_backup(anna)
    see(dialog, "The server cannot be reached.")


def test_an_admin_sees_the_room_on_each_disk_and_whether_all_is_well(
    anna: Any, scanner: catalogd.Scanner, library: Library
) -> None:
    add_folder(scanner, "/missing")
    scanner.scan()
    anna.goto("#settings/server")
    disks = anna.get_by_role("region", name="Disks")
    row = disks.locator(".row").filter(has_text=str(library.folder))
    row.get_by_text(
        re.compile(r"^[\d.,]+\s[GT]B free, [\d.,]+\s[MGT]B used$")
    ).wait_for()
    row = disks.locator(".row").filter(has_text="/missing")
    see(row, "The disk is away.")
    see(anna.get_by_role("region", name="Health"), "/missing does not exist yet.")
    scanner.state.folders["/missing"]["problem"] = ""
    anna.reload()
    see(anna, "All is well.")


# Sessions that end


def test_an_ended_session_keeps_text_and_place_for_its_account_alone(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    text = anna.get_by_label("Description")

    def sign_in_again(name: str) -> None:
        for row in store.accounts.sessions(1):
            store.accounts.end_session(row["id"], 1)
        button(anna, "Sign in").wait_for()
        form = anna.locator(".door")
        form.get_by_label("Name").fill(name)
        form.get_by_label("Password").fill(PASSWORD)
        button(anna, "Sign in").click()

    anna.goto(f"#title/{add(store, 'Paper Harbor')}")
    button(anna, "Edit Paper Harbor").click()
    text.fill("Mind the rain.")
    sign_in_again("anna")
    until(lambda: text.input_value() == "Mind the rain.")
    assert anna.title() == "Paper Harbor - catalogd"
    sign_in_again("ben")
    see(anna, "Paper Harbor")
    assert text.count() == 0


def test_what_an_ended_session_has_refused_can_be_done_after_signing_in(
    anna: Any, store: catalogd.Store
) -> None:
    def end(route: Any) -> None:
        (session,) = store.accounts.sessions(1)
        store.accounts.end_session(session["id"], 1)
        route.continue_()

    def meet_the_end(name: str, call: str) -> None:
        anna.route(call, end, times=1)
        button(anna, name).click()
        form = anna.locator(".door")  # the form that was left stays, hidden
        form.get_by_label("Name").fill("anna")
        form.get_by_label("Password").fill(PASSWORD)
        button(anna, "Sign in").click()
        button(anna, name).click()

    add(store, "Paper Harbor")
    anna.goto("")
    meet_the_end("Send Paper Harbor", "**/web/send")
    button(anna, "Queued").wait_for()
    anna.get_by_role("link", name="Paper Harbor").first.click()
    button(anna, "Edit Paper Harbor").click()
    anna.get_by_label("Description").fill("Mind the rain.")
    meet_the_end("Save", "**/web/entries/*")
    see(anna, "Saved.")


def test_a_removed_account_leads_to_the_sign_in_view(
    ben: Any, store: catalogd.Store
) -> None:
    ben.goto("#queue")
    see(ben, "The queue is empty")
    store.accounts.remove(store.accounts.id_of("ben"))
    button(ben, "Sign in").wait_for()


def test_a_wrong_password_is_explained_in_the_form(
    visit: Visit, site: str, key: str
) -> None:
    page = visit()
    page.goto(site)
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill("a guess")
    button(page, "Sign in").click()
    assert (
        page.get_by_role("alert").text_content() == "The name or the password is wrong."
    )


# Settings


def tab_of(page: Any) -> tuple[str, str]:
    """Return the name of the tab that is shown, and the address."""
    current = page.locator(".tabs [aria-current=page]")
    return current.text_content(), page.url.partition("#")[2]


def test_each_tab_has_an_address_and_loads_what_it_shows_alone(anna: Any) -> None:
    calls: list[str] = []
    anna.on("request", lambda request: calls.append(request.url.rpartition("/")[2]))
    anna.goto("#settings")
    see(anna, "this browser")
    assert tab_of(anna) == ("You", "settings/you")
    assert {*calls}.isdisjoint({"keys", "dir", "accounts", "tidy", "status"})
    tabs = anna.get_by_role("navigation", name="Settings").get_by_role("link")
    assert tabs.all_text_contents() == ["You", "Devices", "People", "Files", "Server"]
    tabs.nth(1).focus()
    anna.keyboard.press("Enter")
    see(anna, "The consoles and SD cards that games are sent to.")
    assert tab_of(anna) == ("Devices", "settings/devices")
    assert focused(anna) == "Devices"
    tabs.nth(4).click()
    see(anna, f"catalogd {catalogd.__version__}")
    anna.go_back()
    anna.reload()
    see(anna, "The consoles and SD cards that games are sent to.")
    assert tab_of(anna) == ("Devices", "settings/devices")
    anna.go_back()
    see(anna, "this browser")
    assert tab_of(anna) == ("You", "settings/you")


def test_the_server_tab_tells_the_age_of_this_version_and_where_newer_ones_are(
    anna: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = anna.get_by_role("region", name="About")
    anna.goto("#settings/server")
    about.get_by_text(re.compile(r" \d+ days? old|, from today")).wait_for()
    assert about.get_by_role("link").count() == 0
    day = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=40)
    monkeypatch.setattr(catalogd, "RELEASED", f"{day:%Y-%m-%d}")
    monkeypatch.setattr(catalogd, "RELEASES", "https://host/releases")
    anna.reload()
    age = re.escape(catalogd.__version__) + ", 4[01] days old"  # at midnight, one more
    about.get_by_text(re.compile(age)).wait_for()
    link = about.get_by_role("link", name="Newer versions")
    assert link.get_attribute("href") == "https://host/releases"


def test_a_member_sees_no_tab_for_admins(kim: Any) -> None:
    kim.goto("#settings/people")
    see(kim, "Signed in as kim2")
    assert tab_of(kim) == ("You", "settings/you")
    tabs = kim.get_by_role("navigation", name="Settings").get_by_role("link")
    assert tabs.all_text_contents() == ["You", "Devices", "Files"]
    tabs.last.click()
    kim.get_by_role("region", name="Library folders").get_by_text("online").wait_for()
    assert kim.get_by_role("region").count() == 1
    assert button(kim, "Scan now").count() == 0


def test_the_texts_of_a_tab_are_no_wall(visit: Visit, demo: Demo) -> None:
    page = visit()
    for row in demo.store.accounts.sessions(1):  # those of other tests
        demo.store.accounts.end_session(row["id"], 1)
    sign_in(page, demo.store, demo.address, "Robin")
    for tab in TABS:
        VIEWS[f"settings_{tab}"](page, demo.address)
        words = re.findall(r"\w[\w']*", page.locator(".panels").inner_text())
        assert len(words) < 100, tab


def test_settings_that_were_opened_in_an_outage_load_after_it(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/you")
    see(anna, "this browser")
    anna.context.set_offline(True)
    see(anna, "Reconnecting")
    anna.get_by_role("link", name="Devices").click()
    see(anna, "This could not be loaded. The server cannot be reached.")
    anna.context.set_offline(False)
    unfold_experts(anna)
    for text in (
        "The consoles and SD cards that games are sent to.",
        "Create address",
        "switch",
    ):
        see(anna, text)
    assert button(anna, "Try again").count() == 0


def test_a_console_address_that_could_not_be_loaded_is_after_an_outage(
    anna: Any,
) -> None:
    anna.goto("#queue")
    button(anna, "Add a device").wait_for()
    anna.context.set_offline(True)
    button(anna, "Add a device").click()
    choose_way(anna, "The console fetches it itself")
    see(anna, "This could not be loaded.")
    assert button(anna, "Create address").count() == 0
    anna.context.set_offline(False)
    button(anna, "Create address").wait_for()


@without_polls  # which load it again too
def test_a_list_that_could_not_be_loaded_says_why_and_loads_again(anna: Any) -> None:
    answer = {"success": False, "error": "busy", "message": "The database is busy."}
    anna.route("**/web/keys", lambda route: route.fulfill(status=503, json=answer))
    anna.goto("#settings/devices")
    unfold_experts(anna)
    keys = anna.get_by_role("region", name="Keys")
    see(keys, "This could not be loaded. The database is busy.")
    anna.unroute_all()
    button(keys, "Try again").click()
    see(keys, "switch")


def test_a_key_is_copied_and_shown_only_once(anna: Any, store: catalogd.Store) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    anna.goto("#settings/devices")
    make_key(anna)
    key = anna.locator("code").first.text_content()
    assert store.accounts.key_holder(catalogd.hash_token(key)) is not None
    button(anna, "Copy the key").click()
    see(anna, "Copied.")
    assert anna.evaluate("navigator.clipboard.readText()") == key
    button(anna, "Done").click()
    anna.get_by_text(key).wait_for(state="detached")


def test_a_page_without_https_copies_too(anna: Any) -> None:
    anna.add_init_script(COPY_WITHOUT_HTTPS)
    anna.goto("#settings/devices")
    make_key(anna)
    copy = button(anna, "Copy the key")
    copy.focus()
    anna.keyboard.press("Enter")
    until(lambda: anna.evaluate("window.copied") == "catalogd_")
    assert is_focused(copy)


def test_a_console_address_is_created_replaced_and_revoked_after_questions(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/devices")
    button(anna, "Create address").click()
    see(anna, "/dir/")
    first = anna.locator("code").first.text_content()
    assert anna.request.get(first).status == 200
    button(anna, "Replace").click()
    dialog = anna.get_by_role("dialog")
    see(dialog, "Programs on the console that use the old one stop finding the library")
    assert anna.request.get(first).status == 200
    button(dialog, "Replace").click()
    until(lambda: anna.locator("code").first.text_content() != first)
    assert anna.request.get(first).status == 401
    button(anna, "Revoke Console address").click()
    see(dialog, "Programs on the console that use it stop finding the library")
    button(dialog, "Revoke").click()
    button(anna, "Create address").wait_for()
    assert store.addresses.browse_token(store.accounts.id_of("anna")) is None


def test_what_to_type_into_programs_with_menus_is_offered(
    anna: Any, store: catalogd.Store, library: Library, scanner: catalogd.Scanner
) -> None:
    library.add("Plain.nsp")
    library.add("Game [0100AA0000010000][v0].nsp")
    scanner.scan()
    store.addresses.set_browse_token(store.accounts.id_of("anna"), "secret")
    anna.goto("#settings/devices")
    anna.get_by_text("own menus (experimental)").click()
    see(anna, "local_address=http://")
    texts = anna.locator(".menus code").all_text_contents()
    site = urllib.parse.urlsplit(texts[0].rpartition("=")[2])
    assert texts[0].startswith("[catalogd]\nname=catalogd\nlocal_address=")
    assert site.path == "/dir/secret/"
    assert texts[1:] == ["http", site.hostname, str(site.port), "/dir/secret"]
    see(anna, "1 file has no title id and is in the folders only.")


def test_no_console_address_is_offered_before_the_old_one_is_known(
    anna: Any, store: catalogd.Store
) -> None:
    store.addresses.set_browse_token(store.accounts.id_of("anna"), "old")
    calls: list[Any] = []
    anna.route("**/web/dir", lambda route: calls.append(route))
    anna.goto("#settings/devices")
    see(anna, "The consoles and SD cards that games are sent to.")
    assert button(anna, "Create address").count() == 0
    anna.goto("#queue")
    button(anna, "Add a device").click()
    choose_way(anna, "The console fetches it itself")
    see(anna.get_by_role("dialog"), "Loading")
    assert button(anna, "Create address").count() == 0
    for call in calls:
        call.continue_()
    see(anna.get_by_role("dialog"), "/dir/old")


def test_a_key_is_revoked_after_a_question(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/devices")
    assert not button(anna, "Revoke switch").is_visible()
    unfold_experts(anna)
    button(anna, "Revoke switch").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="detached")
    assert len(store.accounts.keys()) == 1
    button(anna, "Revoke switch").click()
    dialog.get_by_role("button", name="Revoke").click()
    see(anna, "There is no key yet.")
    assert store.accounts.keys() == []


def test_the_password_is_changed(anna: Any, store: catalogd.Store, site: str) -> None:
    anna.goto("#settings/you")
    anna.get_by_label("Current password").fill("a guess")
    anna.get_by_label("New password").fill("another one")
    button(anna, "Change password").click()
    see(anna, "The current password is wrong.")
    assert anna.get_by_label("Current password").input_value() == "a guess"
    anna.get_by_label("Current password").fill(PASSWORD)
    button(anna, "Change password").click()
    see(anna, "Changed the password.")
    found = store.accounts.credentials("anna")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])


ADDRESSES = ["http://192.168.1.20:6069/", "http://192.168.1.21:6069/"]


@pytest.mark.parametrize("mode", ["light", "dark", "forced"])
def test_a_phone_reads_the_address_of_the_page_in_any_mode(
    visit: Visit, service: catalogd.Web, site: str, key: str, mode: str
) -> None:
    service.page_addresses = lambda: ADDRESSES
    page = visit()
    sign_in(page, service.store, site, "anna")
    page.goto(f"{site}#settings/you")
    show(page, mode, DESK)
    panel = page.get_by_role("region", name="This page on a phone")
    for address in ADDRESSES:
        panel.get_by_label("Address", exact=True).select_option(address)
        code = panel.get_by_role("img", name=f"QR code of {address}", exact=True)
        assert read_picture(page, code) == [address]
        button(panel, "Copy the address").wait_for()


def test_without_the_package_for_codes_there_is_the_address_alone(
    anna: Any, service: catalogd.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    service.page_addresses = lambda: ADDRESSES[:1]
    anna.goto("#settings/you")
    panel = anna.get_by_role("region", name="This page on a phone")
    see(panel, ADDRESSES[0])
    assert (
        panel.get_by_role("img").count() == panel.get_by_role("combobox").count() == 0
    )


def test_where_others_cannot_open_the_page_no_address_is_shown(anna: Any) -> None:
    anna.goto("#settings/you")
    see(anna, "this browser")
    anna.wait_for_load_state("networkidle")
    assert anna.get_by_text("This page on a phone").count() == 0


def test_another_browser_is_signed_out_after_a_question(
    anna: Any, store: catalogd.Store, clock: Clock
) -> None:
    store.accounts.add_session(1, catalogd.hash_token("x"), "Chrome/99 Android")
    clock.now = time.time()
    anna.goto("#settings/you")
    see(anna, "this browser · last used just now")
    button(anna, "End Chrome on Android").click()
    dialog = anna.get_by_role("dialog")
    see(dialog, "End the session of Chrome on Android, last used")
    assert len(store.accounts.sessions(1)) == 2
    button(dialog, "End").click()
    button(anna, "End Chrome on Android").wait_for(state="detached")
    assert len(store.accounts.sessions(1)) == 1


def test_a_new_admin_wants_the_own_password(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/people")
    form = anna.get_by_role("region", name="Add an account")
    form.get_by_label("I choose the name and the password").check()
    form.get_by_label("Name", exact=True).fill("ben")
    form.get_by_label("Password", exact=True).fill(PASSWORD)
    form.get_by_label("Is an admin").check()
    form.get_by_label("Your password").fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    until(lambda: [row["admin"] for row in store.accounts.all()] == [True, True])


def test_a_question_begins_without_the_problem_of_the_last_one(
    anna: Any, store: catalogd.Store
) -> None:
    for name, age in {"ben": None, "carl": 7}.items():
        store.accounts.add(name, catalogd.hash_password(PASSWORD), age=age)
    anna.goto("#settings/people")
    deed(anna, "Make admin", "ben").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_label("Your password").fill("a guess")
    button(dialog, "Make admin").click()
    see(dialog, "The current password is wrong.")
    button(dialog, "Cancel").click()
    dialog.wait_for(state="detached")
    deed(anna, "Make admin", "carl").click()
    see(dialog, "Remove the age of carl and make an admin?")
    assert dialog.get_by_text("The current password is wrong.").count() == 0
    dialog.get_by_label("Your password").fill(PASSWORD)
    button(dialog, "Make admin").click()
    until(lambda: [row["admin"] for row in store.accounts.all()] == [True, False, True])


def test_an_account_gets_a_new_password(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings/people")
    deed(anna, "Set password", "ben").click()
    anna.get_by_label("New password of ben").fill("another one")
    anna.get_by_label("Your password").fill(PASSWORD)
    button(anna, "Save").click()
    see(anna, "Changed the password of ben; all sessions ended.")
    found = store.accounts.credentials("ben")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])
