"""Signing out, and the settings, in a real Chromium."""

import re
from typing import Any

import catalogd
from browser import COPY_WITHOUT_HTTPS, add, button, make_key, sign_in, until
from conftest import PASSWORD, Library, Visit
from screenshots import see

# Tidying up and backups


def test_tidy_lists_what_wastes_space(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    library.add("Paper Harbor [0100ABCD00010800][v65536].nsp")
    old = library.add("Paper Harbor [0100ABCD00010800][v0].nsp")
    scanner.scan()
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Updates that a newer one replaces").click()
    see(panel, old)
    button(panel, "Copy the list").click()
    see(anna, "Copied.")
    assert old in anna.evaluate("navigator.clipboard.readText()")


def test_tidy_names_the_file_that_another_is_equal_to(
    anna: Any, library: Library, scanner: catalogd.Scanner
) -> None:
    for folder in ("Old disk", "Switch"):
        library.add(f"{folder}/Paper Harbor.nsp", b"the same")
    scanner.scan()
    anna.reload()
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Tidy")
    panel.get_by_text("Equal files").click()
    see(panel, "1 file, 8 B")
    text = panel.locator(".row .meta").inner_text()
    assert re.search(r"/(Old disk|Switch)/Paper Harbor.nsp · equal to .*\(", text)
    assert {"Old disk", "Switch"} == {*re.findall("Old disk|Switch", text)}


def test_an_admin_sees_the_last_backup_and_downloads_it(
    anna: Any, service: catalogd.Web
) -> None:
    anna.goto("#settings")
    panel = anna.get_by_role("region", name="Backups")
    see(panel, "No backup was made yet.")
    service.backups.make()
    service.backups.problem = "The disk is full."
    anna.reload()
    panel.get_by_text(re.compile(r"^Last backup .*, \d+ \w+\.$")).wait_for()
    see(panel, "The last backup failed. The disk is full.")
    with anna.expect_download() as download:
        panel.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.startswith("catalogd-20")


def test_a_member_sees_no_backups(kim: Any) -> None:
    kim.goto("#settings")
    kim.get_by_role("region", name="Library folders").wait_for()
    assert kim.get_by_role("region", name="Backups").count() == 0


def test_without_a_secure_address_no_notifications_are_offered(anna: Any) -> None:
    anna.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: 0})")
    anna.goto("#queue")
    anna.reload()
    see(anna, "Queue")
    assert button(anna, "Notify me").count() == 0


def test_a_member_sees_nothing_to_tidy(kim: Any) -> None:
    kim.goto("#settings")
    see(kim, "There is no key yet.")
    assert kim.get_by_role("heading", name="Tidy").count() == 0


# Signing out


def test_signing_out_leads_to_the_sign_in_view(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("#settings")
    button(anna, "Sign out").click()
    button(anna, "Sign in").wait_for()
    anna.reload()
    button(anna, "Sign in").wait_for()
    assert anna.get_by_text("Paper Harbor").count() == 0


def test_signing_out_forgets_what_the_account_had(
    anna: Any, store: catalogd.Store
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings")
    make_key(anna)
    button(anna, "Sign out").click()
    button(anna, "Sign in").wait_for()
    anna.get_by_label("Name").fill("ben")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "There is no key yet.")
    assert anna.locator("code").count() == 0


def test_an_ended_session_leads_to_the_sign_in_view_and_back(
    anna: Any, store: catalogd.Store
) -> None:
    add(store, "Paper Harbor")
    anna.goto("")
    see(anna, "Paper Harbor")
    for row in store.accounts.sessions(1):
        store.accounts.end_session(row["id"], 1)
    see(anna, "You were signed out. Sign in again.")
    anna.get_by_label("Name").fill("anna")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "Paper Harbor")


def test_a_removed_account_leads_to_the_sign_in_view(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    ben = store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    page = visit()
    sign_in(page, store, site, "ben")
    page.goto(f"{site}#queue")
    see(page, "The queue is empty")
    store.accounts.remove(ben)
    button(page, "Sign in").wait_for()


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


def test_a_key_is_copied_and_shown_only_once(anna: Any, store: catalogd.Store) -> None:
    anna.context.grant_permissions(["clipboard-read", "clipboard-write"])
    anna.goto("#settings")
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
    anna.goto("#settings")
    make_key(anna)
    button(anna, "Copy the key").click()
    until(lambda: anna.evaluate("window.copied") == "catalogd_")


def test_a_console_address_is_created_replaced_and_revoked(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings")
    see(anna, "Programs on the console")
    button(anna, "Create address").click()
    see(anna, "/dir/")
    first = anna.locator("code").text_content()
    assert anna.request.get(first).status == 200
    button(anna, "Replace it").click()
    until(lambda: anna.locator("code").text_content() != first)
    assert anna.request.get(first).status == 401
    button(anna, "Revoke the address").click()
    button(anna, "Create address").wait_for()
    assert store.addresses.browse_token(store.accounts.id_of("anna")) is None


def test_no_console_address_is_offered_before_the_old_one_is_known(anna: Any) -> None:
    calls: list[Any] = []
    anna.route("**/web/dir", lambda route: calls.append(route))
    anna.goto("#settings")
    see(anna, "No library folder was scanned.")
    assert button(anna, "Create address").count() == 0
    calls[0].continue_()
    button(anna, "Create address").wait_for()


def test_a_key_is_revoked_after_a_question(anna: Any, store: catalogd.Store) -> None:
    anna.goto("#settings")
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
    anna.goto("#settings")
    anna.get_by_label("Current password").fill("a guess")
    anna.get_by_label("New password").fill("another one")
    button(anna, "Change password").click()
    see(anna, "The name or the password is wrong.")
    anna.get_by_label("Current password").fill(PASSWORD)
    button(anna, "Change password").click()
    see(anna, "Changed the password.")
    found = store.accounts.credentials("anna")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])


def test_another_browser_is_signed_out(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add_session(1, catalogd.hash_token("x"), "Chrome/99 Android")
    anna.goto("#settings")
    button(anna, "End the session of Chrome on Android").click()
    button(anna, "End the session of Chrome on Android").wait_for(state="detached")
    assert len(store.accounts.sessions(1)) == 1


def test_an_account_is_added_made_admin_and_removed(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings")
    form = anna.get_by_role("region", name="Accounts")
    form.get_by_label("Name").fill("ben")
    form.get_by_label("Password").fill(PASSWORD)
    form.get_by_role("button", name="Add").click()
    button(anna, "Make admin: ben").click()
    button(anna, "Make member: ben").wait_for()
    assert [row["admin"] for row in store.accounts.all()] == [True, True]
    button(anna, "Remove ben").click()
    anna.get_by_role("dialog").get_by_role("button", name="Remove").click()
    until(lambda: len(store.accounts.all()) == 1)


def test_an_account_gets_a_new_password(anna: Any, store: catalogd.Store) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings")
    button(anna, "Set the password of ben").click()
    anna.get_by_label("New password of ben").fill("another one")
    button(anna, "Save").click()
    see(anna, "Changed the password of ben; all sessions ended.")
    found = store.accounts.credentials("ben")
    assert found is not None
    assert catalogd.password_matches("another one", found[1])


def test_a_member_has_no_settings_of_the_server(
    visit: Visit, store: catalogd.Store, site: str, key: str
) -> None:
    store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    page = visit()
    sign_in(page, store, site, "ben")
    page.goto(f"{site}#settings")
    see(page, "There is no key yet.")
    assert page.get_by_role("heading", name="Accounts").count() == 0
    assert page.get_by_role("heading", name="Add a link").count() == 0
