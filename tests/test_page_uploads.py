"""Adding games on the page, in a real Chromium."""

import dataclasses
import os
import pathlib
from typing import Any

import pytest
import webtest

import catalogd
import containers
from browser import DESK, PHONE, TWO_FRAMES, add, button, options, see, sign_in, until
from conftest import PASSWORD, Library, Visit

KIB = 1024


@pytest.fixture
def settings(settings: catalogd.Settings, folder: pathlib.Path) -> catalogd.Settings:
    return dataclasses.replace(settings, inbox=str(folder), keep_free=0)


@pytest.fixture
def games(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of the person who adds games."""
    games = tmp_path / "games"
    (games / "more").mkdir(parents=True)
    (games / "Celeste.nsp").write_bytes(os.urandom(900 * KIB))
    (games / "Celeste.png").write_bytes(containers.PNG)
    (games / "more" / "Paper Harbor.xci").write_bytes(os.urandom(10 * KIB))
    (games / "more" / "notes.txt").write_text("notes")
    (games / "more" / ".DS_Store").write_text("hidden")
    (games / "Empty.nsp").touch()
    (games / "Big.png").write_bytes(bytes(2049 * KIB))
    return games


def choose(page: Any, *paths: pathlib.Path) -> None:
    """Press "Add games", and choose files."""
    with page.expect_file_chooser() as chooser:
        button(page, "Add games").click()
    chooser.value.set_files([str(path) for path in paths])


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def hold(page: Any) -> list[Any]:
    """Hold pieces back. Return the list to which they are added."""
    held: list[Any] = []
    page.route("**/web/uploads/*", lambda route: held.append(route))
    return held


def wait_until_held(page: Any, held: list[Any]) -> None:
    page.wait_for_timeout(1)  # Playwright adds them while it waits
    until(lambda: page.wait_for_timeout(10) or held)


@pytest.mark.parametrize(
    "size", [PHONE, pytest.param(DESK, marks=pytest.mark.ci)], ids=["390", "1280"]
)
def test_games_are_chosen_and_added(
    visit: Visit,
    site: str,
    key: str,
    scanner: catalogd.Scanner,
    folder: pathlib.Path,
    games: pathlib.Path,
    size: dict[str, int],
) -> None:
    page = visit(base_url=site, **options("light", size))
    sign_in(page, scanner.store, site, "anna")
    page.goto("")
    wrong = [games / "more" / "notes.txt", games / "Empty.nsp", games / "Big.png"]
    choose(page, games / "Celeste.nsp", games / "Celeste.png", *wrong)
    see(
        page,
        "Left out 1: notes.txt. The library takes only nsp, nsz, xci, xcz, nro, and",
    )
    see(page, "Left out 1: Empty.nsp. The file is empty.")
    see(page, "Left out 1: Big.png. A cover has at most 2.1 MB.")
    see(page, "2 of 2 added")
    if not page.get_by_text("Added as Celeste.nsp").is_visible():
        page.locator(".uploads summary").click()  # it is folded on a phone
    see(page, "Added as Celeste.nsp")
    see(page, "The page cannot delete")
    assert names(folder) == ["Celeste.nsp", "Celeste.png"]
    for name in names(folder):
        assert (folder / name).read_bytes() == (games / name).read_bytes()
    scanner.scan()
    button(page, "Send Celeste").wait_for()
    with page.expect_request("**/web/uploads") as asked:
        choose(page, games / "Celeste.nsp")
        see(page, "Perhaps there already: Celeste has the same size.")
        button(page, "Resume Celeste.nsp").click()
    assert asked.value.method == "POST"
    see(page, "Already there as Celeste.nsp")
    assert page.evaluate("document.body.scrollWidth <= innerWidth")
    button(page, "Dismiss Celeste.png").click()
    see(page, "2 of 2 added")
    button(page, "Clear finished").click()
    page.locator(".uploads").wait_for(state="detached")


def test_files_and_folders_are_dropped_anywhere(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    anna.goto("#queue")
    anna.get_by_role("heading", name="Queue").first.wait_for(state="attached")
    wire = anna.context.new_cdp_session(anna)
    files = [str(games / "Celeste.nsp"), str(games / "more")]
    data = {"items": [], "files": files, "dragOperationsMask": 1}
    at = {"x": 300, "y": 300, "data": data}
    hint = anna.get_by_text("Drop files or folders to add them")

    def is_over() -> bool:
        """Drag once more, as a browser does again and again."""
        for kind in ("dragEnter", "dragOver"):
            wire.send("Input.dispatchDragEvent", {"type": kind, **at})
        return bool(hint.is_visible())

    until(is_over)
    anna.evaluate("dispatchEvent(new DragEvent('dragleave'))")
    anna.locator(".dropping").wait_for(state="detached")
    until(is_over)
    wire.send("Input.dispatchDragEvent", {"type": "drop", **at})
    see(anna, "Left out 1: notes.txt")
    anna.goto("#library")
    see(anna, "2 of 2 added")
    assert names(folder) == ["Celeste.nsp", "Paper Harbor.xci"]


def test_a_file_is_held_back_for_one_of_its_size_and_type_and_a_cartridge_of_its_name(
    anna: Any,
    library: Library,
    scanner: catalogd.Scanner,
    folder: pathlib.Path,
    games: pathlib.Path,
) -> None:
    """Dumps of cartridges have few sizes. All else may be there by any name."""
    cartridge, update = "Celeste [0100ABCD00010000].xci", "[0100ABCD00010800][v65536]"
    for number, name in enumerate((cartridge, f"Celeste {update}.nsp"), 1):
        library.add(name, bytes([number]) * KIB)
    scanner.scan()
    chosen = [games / "Glass Heron.xci", games / "Any name.nsp"]
    chosen.append(games / "céleste.xci")
    for path in chosen:
        path.write_bytes(bytes(KIB))
    anna.goto("")
    button(anna, "Send Celeste").wait_for()
    choose(anna, *chosen)
    see(anna, "Added as Glass Heron.xci")
    see(anna, "Perhaps there already: Celeste has the same size.")
    see(anna, "Perhaps there already: Celeste - Update 1 has the same size.")
    assert names(folder) == ["Glass Heron.xci"]


def choose_and_hold(page: Any, *paths: pathlib.Path) -> list[Any]:
    """Choose files, and hold the first piece back. Return the list that has it."""
    page.goto("")
    held = hold(page)
    choose(page, *paths)
    wait_until_held(page, held)
    return held


def test_an_upload_is_paused_and_resumed_and_begins_where_it_was_next_day(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    offsets: list[str] = []
    held = choose_and_hold(anna, games / "Celeste.nsp")
    held.pop().continue_()
    wait_until_held(anna, held)
    button(anna, "Pause Celeste.nsp").click()
    see(anna, "Paused · 28 %")
    held.pop().abort()
    resume = button(anna, "Resume Celeste.nsp")
    play = "M8 5v14l11-7z"
    assert resume.locator("path").get_attribute("d") == play
    resume.click()
    wait_until_held(anna, held)
    anna.on("dialog", lambda dialog: dialog.accept())
    anna.reload()  # as on the next day
    anna.unroute("**/web/uploads/*")
    anna.on(
        "request",
        lambda sent: (
            sent.method == "PATCH" and offsets.append(sent.headers["upload-offset"])
        ),
    )
    choose(anna, games / "Celeste.nsp")
    see(anna, "Added as Celeste.nsp")
    assert offsets[0] == str(256 * KIB)
    anna.get_by_role("link", name="Queue").click()
    see(anna, "The queue is empty")
    anna.get_by_role("link", name="Library", exact=True).click()
    anna.locator("main.library").wait_for()
    assert anna.locator(".uploads").count() == 0
    assert (folder / "Celeste.nsp").read_bytes() == (games / "Celeste.nsp").read_bytes()


SHIFTS = """{
  window.shifts = [];
  new PerformanceObserver(list => {
    for (const {value, sources} of list.getEntries())
      shifts.push([value, ...sources.map(({node}) => node?.className || "")]);
  }).observe({type: "layout-shift"});
}"""


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_an_upload_and_a_lost_server_move_nothing(
    anna: Any, store: catalogd.Store, games: pathlib.Path, size: dict[str, int]
) -> None:
    for name in ("Ant", "Bee", "Cat"):
        add(store, name)
    anna.set_viewport_size(size)
    anna.goto("")
    button(anna, "Send Ant").wait_for()
    anna.wait_for_load_state("networkidle")
    anna.evaluate(SHIFTS)
    held = hold(anna)
    choose(anna, games / "Celeste.nsp")
    wait_until_held(anna, held)
    anna.route("**/web/changes*", lambda route: route.abort())
    see(anna, "Reconnecting to the server")
    anna.evaluate(TWO_FRAMES)
    assert anna.evaluate("shifts") == []
    held.pop().abort()


def test_a_piece_is_sent_without_being_read_by_the_script(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    """To read 8 MB would stop the page for as long."""
    anna.add_init_script(
        """{
      window.bodies = [];
      const plain = fetch;
      window.fetch = (path, options) => {
        if (options?.method === "PATCH") bodies.push(options.body instanceof Blob);
        return plain(path, options);
      };
    }"""
    )
    anna.goto("")
    choose(anna, games / "Celeste.nsp")
    see(anna, "Added as Celeste.nsp")
    assert {*anna.evaluate("bodies")} == {True}


def test_closing_the_tab_asks_while_something_is_added(
    anna: Any, games: pathlib.Path
) -> None:
    asked: list[str] = []
    held = choose_and_hold(anna, games / "Celeste.nsp")

    def stay(dialog: Any) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    anna.on("dialog", stay)
    anna.close(run_before_unload=True)
    until(lambda: anna.wait_for_timeout(10) or asked)
    assert asked == ["beforeunload"]
    held.pop().abort()


def test_an_upload_is_cancelled(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    """The next one begins."""
    anna.goto("")
    held = hold(anna)
    choose(anna, games / "Celeste.nsp", games / "more" / "Paper Harbor.xci")
    wait_until_held(anna, held)
    assert len(names(folder)) == 1
    button(anna, "Cancel Celeste.nsp").click()
    until(lambda: anna.wait_for_timeout(10) or len(held) == 3)
    held[0].abort()
    for route in held[1:]:  # which drops the first file, and that which sends the next
        route.continue_()
    see(anna, "Added as Paper Harbor.xci")
    until(lambda: names(folder) == ["Paper Harbor.xci"])


def test_an_upload_goes_on_after_a_broken_connection(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    anna.goto("")
    anna.route("**/web/uploads/*", lambda route: route.abort())
    choose(anna, games / "Celeste.nsp")
    see(anna, "Goes on when the server can be reached.")
    anna.unroute("**/web/uploads/*")
    see(anna, "Added as Celeste.nsp")
    assert (folder / "Celeste.nsp").read_bytes() == (games / "Celeste.nsp").read_bytes()


def test_pieces_are_as_long_as_a_proxy_takes(
    anna: Any, folder: pathlib.Path, games: pathlib.Path
) -> None:
    """They begin short, and become longer while that is quick, as here it always is."""
    lengths: list[int] = []
    anna.add_init_script("performance.now = () => 0")

    def limit(route: Any) -> None:
        lengths.append(len(route.request.post_data_buffer or b""))
        if lengths[-1] > 300 * KIB:
            route.fulfill(status=413, body="<html>Too large</html>")
        else:
            route.continue_()

    anna.route("**/web/uploads/*", limit)
    anna.goto("")
    choose(anna, games / "Celeste.nsp")
    see(anna, "Added as Celeste.nsp")
    assert lengths == [256 * KIB, 512 * KIB, 256 * KIB, 256 * KIB, 132 * KIB]


def test_what_another_browser_has_sent_is_not_sent_again(
    anna: Any, folder: pathlib.Path, games: pathlib.Path, service: catalogd.Web
) -> None:
    """Nor is a file that is gone from the server taken for whole."""
    content = (games / "Celeste.nsp").read_bytes()
    held = choose_and_hold(anna, games / "Celeste.nsp")
    (part,) = folder.iterdir()
    part.write_bytes(content[: 300 * KIB])
    held.pop().continue_()  # it is told where to begin
    wait_until_held(anna, held)
    assert held[-1].request.headers["upload-offset"] == str(300 * KIB)
    part.unlink()
    held.pop().continue_()
    anna.unroute("**/web/uploads/*")
    see(anna, "Added as Celeste.nsp")
    assert (folder / "Celeste.nsp").read_bytes() == content


def test_an_upload_goes_on_after_signing_in_again(
    anna: Any, store: catalogd.Store, folder: pathlib.Path, games: pathlib.Path
) -> None:
    held = choose_and_hold(anna, games / "Celeste.nsp")
    store.database.write("DELETE FROM sessions", ())
    held.pop().continue_()
    anna.unroute("**/web/uploads/*")
    see(anna, "You were signed out. Sign in again.")
    password = {"password": catalogd.hash_password(PASSWORD)}
    store.accounts.change(store.accounts.id_of("anna"), password)
    anna.get_by_label("Name").fill("anna")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    see(anna, "Added as Celeste.nsp")


def test_a_late_refusal_of_a_piece_leaves_a_later_session_open(
    anna: Any, store: catalogd.Store, folder: pathlib.Path, games: pathlib.Path
) -> None:
    pieces: list[Any] = []

    def hold_first(route: Any) -> None:
        pieces.append(route)
        if len(pieces) > 1:
            route.continue_()

    anna.route("**/web/uploads/*", hold_first)
    anna.goto("")
    choose(anna, games / "Celeste.nsp")
    wait_until_held(anna, pieces)
    password = {"password": catalogd.hash_password(PASSWORD)}
    store.accounts.change(store.accounts.id_of("anna"), password)
    refusal = pieces[0].fetch()
    see(anna, "You were signed out. Sign in again.")
    anna.get_by_label("Name").fill("anna")
    anna.get_by_label("Password").fill(PASSWORD)
    button(anna, "Sign in").click()
    button(anna, "Add games").wait_for()
    pieces[0].fulfill(response=refusal)
    see(anna, "Added as Celeste.nsp")
    assert button(anna, "Sign in").count() == 0


def half_of(games: pathlib.Path, app: webtest.TestApp) -> None:
    """Begin to add Celeste.nsp, as a page did before."""
    path = games / "Celeste.nsp"
    modified = path.stat().st_mtime_ns // 1_000_000
    fields = {"name": path.name, "size": 900 * KIB, "modified": modified}
    upload = app.post_json("/web/uploads", fields).json["id"]
    headers = {"Content-Type": "application/octet-stream", "Upload-Offset": "0"}
    body = path.read_bytes()[: 600 * KIB]
    app.patch(f"/web/uploads/{upload}", body, headers)


def test_what_a_page_began_before_is_shown_and_goes_on_with_the_same_file(
    anna: Any, games: pathlib.Path, signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    half_of(games, signed_in)
    anna.goto("")
    card = anna.locator(".uploads")
    see(card, "614 KB of 922 KB: choose the file again to go on")
    choose(anna, games / "Celeste.nsp")
    see(anna, "Added as Celeste.nsp")
    see(card, "1 of 1 added")
    button(anna, "Clear finished").click()
    card.wait_for(state="detached")
    assert (folder / "Celeste.nsp").read_bytes() == (games / "Celeste.nsp").read_bytes()


def test_an_admin_discards_what_others_did_not_finish(
    anna: Any,
    games: pathlib.Path,
    member: webtest.TestApp,
    service: catalogd.Web,
    folder: pathlib.Path,
) -> None:
    plain = service.scanner.disks.inbox.settings
    service.scanner.disks.inbox.settings = dataclasses.replace(
        plain, inbox_for="everyone"
    )
    half_of(games, member)
    anna.goto("")
    button(anna, "Add games").wait_for()
    anna.goto("#settings/library")
    panel = anna.get_by_role("region", name="Not finished")
    see(panel, "ben · 614 KB of 922 KB · 307 KB reserved")
    button(panel, "Discard Celeste.nsp").click()
    button(anna.get_by_role("dialog"), "Discard").click()
    panel.wait_for(state="detached")
    assert names(folder) == []


def test_a_full_disk_is_told_and_the_upload_can_be_resumed(
    anna: Any, games: pathlib.Path, service: catalogd.Web
) -> None:
    plain = service.scanner.disks.inbox.settings
    service.scanner.disks.inbox.settings = dataclasses.replace(plain, keep_free=1e6)
    anna.goto("")
    choose(anna, games / "Celeste.nsp")
    see(anna, "The disk of the inbox needs ")
    service.scanner.disks.inbox.settings = plain
    button(anna, "Resume Celeste.nsp").click()
    see(anna, "Added as Celeste.nsp")


def test_an_upload_into_a_missing_inbox_is_tried_less_and_less_often(
    anna: Any, games: pathlib.Path, folder: pathlib.Path
) -> None:
    tries: list[str] = []
    anna.clock.install()
    anna.goto("")
    button(anna, "Add games").wait_for()
    folder.rmdir()
    anna.on("response", lambda answer: tries.append(answer.url))
    choose(anna, games / "Celeste.nsp")
    see(anna, "The folder of the inbox is missing. Create it on the server.")

    def tried() -> int:
        return sum(url.endswith("/web/uploads") for url in tries)

    for pause, count in ((1600, 2), (3100, 3), (6100, 4), (12_100, 5)):
        anna.clock.run_for(pause)
        until(lambda count=count: anna.wait_for_timeout(10) or tried() == count)
    folder.mkdir()
    anna.clock.run_for(24_100)
    see(anna, "Added as Celeste.nsp")


def test_a_file_that_was_removed_meanwhile_is_told(
    anna: Any, games: pathlib.Path
) -> None:
    held = choose_and_hold(anna, games / "Celeste.nsp")
    (games / "Celeste.nsp").unlink()
    held.pop().continue_()
    see(anna, "The file was moved or changed. Choose it again.")


def test_nothing_of_it_is_shown_to_those_who_may_not(
    ben: Any, games: pathlib.Path
) -> None:
    ben.goto("")
    see(ben, "Nothing here yet")
    assert button(ben, "Add games").count() == 0
    ben.goto("#settings/library")
    see(ben, "Library folders")
    assert ben.get_by_text("inbox").count() == 0


def test_an_admin_is_told_how_to_name_an_inbox(
    anna: Any, service: catalogd.Web
) -> None:
    service.scanner.disks.inbox.path = ""
    anna.goto("#settings/library")
    see(anna, "To add games from this page, name a folder")
    see(anna, "restart catalogd, and reload this page.")
