"""Invitations in a real Chromium: made by an admin, accepted by somebody else."""

from typing import Any

import catalogd
from browser import button, deed, see, until
from conftest import PASSWORD, Visit
from qrcodes import read_picture

WELCOME = "anna invites you to this library."


def made_link(page: Any) -> str:
    """Return the link that the page shows."""
    text: str = page.locator(".new-key code").inner_text()
    return text


def invite(page: Any) -> str:
    """Make an invitation for a new member, and return its link."""
    page.goto("#settings/people")
    button(page, "Make a link").click()
    return made_link(page)


def test_a_child_is_invited_and_chooses_name_and_password(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    anna.goto("#settings/people")
    panel = anna.get_by_role("region", name="Add an account")
    panel.get_by_label("Sees").select_option("Titles up to age 7")
    button(panel, "Make a link").click()
    see(panel, "it is not shown again")
    assert read_picture(anna, panel.get_by_role("img", name="QR code")) == [
        made_link(anna)
    ]
    see(panel, "Open invitation, titles up to age 7")
    mia = visit()
    mia.goto(made_link(anna))
    see(mia, WELCOME)
    assert "#" not in mia.url
    mia.reload()
    mia.get_by_label("Name").fill("Mia")
    mia.get_by_label("Password").fill(PASSWORD)
    button(mia, "Create account").click()
    see(mia, "Nothing here yet")
    account = store.accounts.all()[-1]
    assert (account["name"], account["age"]) == ("Mia", 7)
    mia.reload()
    see(mia, "Nothing here yet")


def test_an_admin_is_invited_with_the_own_password(
    anna: Any, store: catalogd.Store
) -> None:
    anna.goto("#settings/people")
    panel = anna.get_by_role("region", name="Add an account")
    panel.get_by_role("checkbox", name="Is an admin").check()
    panel.get_by_label("Your password").fill("a guess")
    button(panel, "Make a link").click()
    see(panel, "The current password is wrong.")
    panel.get_by_label("Your password").fill(PASSWORD)
    button(panel, "Make a link").click()
    see(panel, "Open invitation for an admin")
    assert store.invitations.open()[0]["admin"]


def test_a_forgotten_password_is_replaced_by_a_link(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    ben = store.accounts.add("ben", catalogd.hash_password(PASSWORD))
    anna.goto("#settings/people")
    deed(anna, "Password link", "ben").click()
    dialog = anna.get_by_role("dialog")
    dialog.get_by_label("Your password").fill(PASSWORD)
    button(dialog, "Make a link").click()
    see(anna, "New password of ben")
    page = visit()
    page.goto(made_link(anna))
    see(page, "Choose a new password for ben.")
    page.get_by_label("Password").fill("another one")
    button(page, "Set password").click()
    see(page, "Nothing here yet")
    found = store.accounts.credentials("ben")
    assert found and found[0] == ben
    assert catalogd.password_matches("another one", found[1])


def test_a_removed_invitation_is_told_to_whoever_opens_it(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    link = invite(anna)
    button(anna, "Remove Open invitation").click()
    button(anna.get_by_role("dialog"), "Remove").click()
    until(lambda: store.invitations.open() == [])
    anna.locator(".new-key").wait_for(state="detached")
    guest = visit()
    guest.goto(link)
    see(guest, "The link was used, replaced or removed, or is older than a day.")
    button(guest, "Go to sign in").click()
    button(guest, "Sign in").wait_for()
    guest.reload()
    button(guest, "Sign in").wait_for()


def test_an_invitation_waits_for_a_server_that_is_away(anna: Any, visit: Visit) -> None:
    link = invite(anna)
    guest = visit()
    guest.route("**/web/invitation", lambda route: route.abort())
    guest.goto(link)
    see(guest, "Reconnecting to the server")
    guest.unroute("**/web/invitation")
    see(guest, WELCOME)


def test_a_late_answer_for_one_link_leaves_the_form_of_another(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    guest, first = visit(), invite(anna)
    button(anna, "Make a link").click()
    until(lambda: anna.wait_for_timeout(20) or made_link(anna) != first)
    calls: list[Any] = []
    guest.route("**/web/invitation", lambda route: calls.append(route))
    for count, link in enumerate((first, made_link(anna)), 1):
        guest.goto(link)
        until(lambda count=count: guest.wait_for_timeout(20) or len(calls) == count)
    calls[1].continue_()
    see(guest, WELCOME)
    calls[0].fulfill(json={"success": True, "invitation": {"maker": "ben", "name": ""}})
    guest.evaluate("new Promise(done => setTimeout(done))")
    see(guest, WELCOME)


def test_a_server_that_goes_away_after_an_account_was_made_is_waited_for(
    anna: Any, visit: Visit
) -> None:
    guest = visit()
    guest.goto(invite(anna))
    guest.get_by_label("Name").fill("ben")
    guest.get_by_label("Password").fill(PASSWORD)
    guest.route("**/web/me", lambda route: route.abort())
    button(guest, "Create account").click()
    see(guest, "Reconnecting to the server")
    guest.unroute("**/web/me")
    see(guest, "Nothing here yet")


def test_a_name_that_is_taken_is_told_and_another_one_is_chosen(
    anna: Any, visit: Visit, store: catalogd.Store
) -> None:
    guest = visit()
    guest.goto(invite(anna))
    guest.get_by_label("Name").fill("anna")
    guest.get_by_label("Password").fill(PASSWORD)
    button(guest, "Create account").click()
    see(guest, "There is an account anna already.")
    guest.get_by_label("Name").fill("ben")
    button(guest, "Create account").click()
    see(guest, "Nothing here yet")
    assert [row["name"] for row in store.accounts.all()] == ["anna", "ben"]


def test_whoever_is_signed_in_is_asked_to_sign_out_for_an_invitation(anna: Any) -> None:
    link = invite(anna)
    anna.goto(link)
    see(anna, "You are signed in as anna.")
    button(anna, "Go to the library").click()
    see(anna, "Nothing here yet")
    anna.goto(link)
    button(anna, "Sign out").click()
    see(anna, WELCOME)


def test_a_link_that_is_opened_over_the_sign_in_page_is_taken(
    anna: Any, visit: Visit
) -> None:
    link = invite(anna)
    guest = visit()
    guest.goto(link.partition("#")[0])
    button(guest, "Sign in").wait_for()
    guest.goto(link)
    see(guest, WELCOME)
