"""Signing out, and the settings, in a real Chromium."""

import os
import re
import time
import urllib.parse
from typing import Any

import catalogd
from browser import (
    COPY_WITHOUT_HTTPS,
    add,
    button,
    choose_way,
    focused,
    make_key,
    see,
    sign_in,
    until,
)
from conftest import PASSWORD, Clock, Library, Visit, add_folder
from example import Demo
from views import TABS, VIEWS

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
    see(panel, old)
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    assert old in anna.evaluate("navigator.clipboard.readText()")


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
    text = panel.locator(".row .meta").inner_text()
    assert re.search(rf"/(Old disk|Switch)/{name}.nsp\W+ · \W+equal to .*\(", text)
    assert {"Old disk", "Switch"} == {*re.findall("Old disk|Switch", text)}
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    line = anna.evaluate("navigator.clipboard.readText()")
    assert re.search(rf"\t{name} \([^\t]+$", line)


def test_an_admin_sees_the_last_backup_and_downloads_it(
    anna: Any, service: catalogd.Web
) -> None:
    anna.goto("#settings/server")
    panel = anna.get_by_role("region", name="Backups")
    see(panel, "No backup was made yet.")
    service.backups.make()
    service.backups.problem = "The disk is full."
    anna.reload()
    panel.get_by_text(re.compile(r"^Last backup .*, \d+ \w+\.$")).wait_for()
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


def test_an_admin_sees_the_room_on_each_disk_and_whether_all_is_well(
    anna: Any, scanner: catalogd.Scanner, library: Library
) -> None:
    add_folder(scanner, "/missing")
    scanner.scan()
    anna.goto("#settings/server")
    disks = anna.get_by_role("region", name="Disks")
    row = disks.locator(".row").filter(has_text=str(library.folder))
    row.get_by_text(re.compile(r"^[\d.,]+ [GT]B free, [\d.,]+ [MGT]B used$")).wait_for()
    row = disks.locator(".row").filter(has_text="/missing")
    see(row, "The disk is away.")
    see(anna.get_by_role("region", name="Health"), "/missing does not exist yet.")
    scanner.state.problems.clear()
    anna.reload()
    see(anna, "All is well.")


def test_without_a_secure_address_no_notifications_are_offered(anna: Any) -> None:
    anna.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: 0})")
    anna.goto("#queue")
    anna.reload()
    see(anna, "Queue")
    assert button(anna, "Notify me").count() == 0


# Signing out


def test_signing_out_leads_to_the_sign_in_view(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("#settings/you")
    anna.get_by_role("button", name="Sign out", exact=True).click()
    button(anna, "Sign in").wait_for()
    anna.reload()
    button(anna, "Sign in").wait_for()
    assert anna.get_by_text("Paper Harbor").count() == 0


def test_signing_out_forgets_what_the_account_had(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings/devices")
    make_key(anna)
    anna.goto("#settings/you")
    anna.get_by_role("button", name="Sign out", exact=True).click()
    button(anna, "Sign in").wait_for()
    anna.get_by_label("Name").fill("ben")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "Nothing here yet")
    anna.goto("#settings/devices")
    see(anna, "There is no key yet.")
    assert anna.locator("code").count() == 0


def test_an_ended_session_keeps_text_and_place_for_its_account_alone(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    text = anna.get_by_label("Description")

    def sign_in_again(name: str) -> None:
        for row in store.accounts.sessions(1):
            store.accounts.end_session(row["id"], 1)
        button(anna, "Sign in").wait_for()
        anna.get_by_label("Name").fill(name)
        anna.get_by_label("Password").fill(PASSWORD)
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
    assert tabs.all_text_contents() == ["You", "Devices", "Files", "People", "Server"]
    tabs.nth(1).focus()
    anna.keyboard.press("Enter")
    see(anna, "There is no device yet.")
    assert tab_of(anna) == ("Devices", "settings/devices")
    assert focused(anna) == "Devices"
    tabs.nth(4).click()
    see(anna, f"catalogd {catalogd.__version__}")
    anna.go_back()
    anna.reload()
    see(anna, "There is no device yet.")
    assert tab_of(anna) == ("Devices", "settings/devices")
    anna.go_back()
    see(anna, "this browser")
    assert tab_of(anna) == ("You", "settings/you")


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
    for text in ("There is no device yet.", "Create address", "switch"):
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


def test_a_list_that_could_not_be_loaded_says_why_and_loads_again(anna: Any) -> None:
    answer = {"success": False, "error": "busy", "message": "The database is busy."}
    anna.route("**/web/keys", lambda route: route.fulfill(status=503, json=answer))
    anna.goto("#settings/devices")
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
    button(anna, "Copy the key").click()
    until(lambda: anna.evaluate("window.copied") == "catalogd_")


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
    see(anna, "There is no device yet.")
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


def test_signing_out_everywhere_leads_to_the_sign_in_view(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add_session(1, catalogd.hash_token("x"), "Chrome/99 Android")
    store.accounts.add_key(1, "script", b"1")
    anna.goto("#settings/you")
    anna.get_by_label("revoke my keys").check()
    button(anna, "Sign out everywhere").click()
    dialog = anna.get_by_role("dialog")
    button(dialog, "Sign out everywhere").click()
    see(anna, "You were signed out in all browsers.")
    button(anna, "Sign in").wait_for()
    assert store.accounts.sessions(1) == store.accounts.keys(1) == []


def test_an_account_is_added_made_admin_and_removed(
    anna: Any, store: catalogd.Store
) -> None:
    def roles() -> list[bool]:
        return [row["admin"] for row in store.accounts.all()]

    def answer(yes: str, password: str = PASSWORD) -> None:
        dialog.get_by_label("Your password").fill(password)
        button(dialog, yes).click()

    dialog = anna.get_by_role("dialog")
    anna.goto("#settings/people")
    form = anna.get_by_role("region", name="Add an account")
    form.get_by_label("Name").fill("ben")
    form.get_by_label("Password").fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    button(anna, "Make admin ben").click()
    answer("Make admin", "a guess")
    see(dialog, "The current password is wrong.")
    assert roles() == [True, False]
    answer("Make admin")
    button(anna, "Make member ben").wait_for()
    assert roles() == [True, True]
    button(anna, "Remove ben").click()
    assert dialog.get_by_label("Your password").input_value() == ""
    answer("Remove")
    until(lambda: len(store.accounts.all()) == 1)


def test_a_new_admin_wants_the_own_password(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings/people")
    form = anna.get_by_role("region", name="Add an account")
    form.get_by_label("Name").fill("ben")
    form.get_by_label("Password").fill(PASSWORD)
    form.get_by_role("checkbox").check()
    form.get_by_label("Your password").fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    until(lambda: [row["admin"] for row in store.accounts.all()] == [True, True])


def test_an_account_gets_a_new_password(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings/people")
    button(anna, "Set password ben").click()
    anna.get_by_label("New password of ben").fill("another one")
    anna.get_by_label("Your password").fill(PASSWORD)
    button(anna, "Save").click()
    see(anna, "Changed the password of ben; all sessions ended.")
    found = store.accounts.credentials("ben")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])
