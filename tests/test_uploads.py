"""Files that people add to the inbox from the page: the calls, and the disk."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import gc
import http.client
import io
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import webtest

import catalogd
from conftest import PASSWORD, Clock, Library, refuse, small_disk, wait_for
from example import session
from test_kills import Serving, serving

__all__ = ["serving"]  # a fixture
KIB = 1024
MIB = 1024 * KIB
OCTETS = "application/octet-stream"
HERE = os.path.dirname(catalogd.__file__)


@pytest.fixture
def settings(library: Library, folder: pathlib.Path) -> catalogd.Settings:
    return catalogd.Settings(
        folders=(str(library.folder),),
        inbox=str(folder),
        keep_free=0,
        host="127.0.0.1",
        port=0,
    )


@pytest.fixture
def inbox(service: catalogd.Web) -> catalogd.Inbox:
    return service.scanner.disks.inbox


def begin(app: webtest.TestApp, name: str, size: int, **more: Any) -> dict[str, Any]:
    fields = {"name": name, "size": size}
    answer: dict[str, Any] = app.post_json("/web/uploads", fields, **more).json
    return answer


def piece(
    app: webtest.TestApp, upload: str, offset: object, body: bytes, **more: Any
) -> dict[str, Any]:
    answer: dict[str, Any] = app.patch(
        f"/web/uploads/{upload}",
        body,
        headers={"Upload-Offset": str(offset)},
        content_type=more.pop("content_type", OCTETS),
        **more,
    ).json
    return answer


def add(app: webtest.TestApp, name: str, content: bytes) -> dict[str, Any]:
    """Upload a file in one piece."""
    begun = begin(app, name, len(content))
    return piece(app, begun["id"], begun["offset"], content)


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def listed(scanner: catalogd.Scanner) -> list[str]:
    """The names of the files that a scan finds."""
    scanner.scan()
    known = scanner.entries.files()
    return sorted(os.path.basename(row.file.path) for row in known)


# Who may


def test_without_an_inbox_there_are_no_such_calls(
    store: catalogd.Store, settings: catalogd.Settings, key: str
) -> None:
    settings = dataclasses.replace(settings, inbox="")
    web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
    app = webtest.TestApp(web.app, extra_environ={"REMOTE_ADDR": "192.168.1.9"})
    app.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    begin(app, "a.nsp", 1, status=404)
    piece(app, "1", 0, b"", status=404)
    app.delete("/web/uploads/1", status=404)
    assert "inbox" not in app.get("/web/me").json["account"]
    assert catalogd.inbox_fault(web.scanner.disks.inbox.path) == ""


def test_members_add_files_where_the_settings_let_everyone(
    member: webtest.TestApp, service: catalogd.Web, folder: pathlib.Path
) -> None:
    begin(member, "a.nsp", 1, status=403)
    assert "inbox" not in member.get("/web/me").json["account"]
    everyone = dataclasses.replace(
        service.scanner.disks.inbox.settings, inbox_for="everyone"
    )
    service.scanner.disks.inbox.settings = everyone
    assert add(member, "a.nsp", b"x")["name"] == "a.nsp"
    told = member.get("/web/me").json["account"]["inbox"]
    assert told["types"] == [*everyone.extensions]
    assert told["max_cover_bytes"] == catalogd.MAX_COVER_BYTES


def test_nobody_adds_files_without_a_session_or_from_another_site(
    signed_in: webtest.TestApp, service: catalogd.Web, key: str
) -> None:
    stranger = webtest.TestApp(service.app)
    begin(stranger, "a.nsp", 1, status=403)
    headers = {"Authorization": f"Bearer {key}"}
    stranger.post_json("/web/uploads", {}, headers=headers, status=403)
    begin(signed_in, "a.nsp", 1, headers={"Origin": "https://evil.example"}, status=403)


def test_who_may_no_longer_add_files_drops_none(
    member: webtest.TestApp, inbox: catalogd.Inbox
) -> None:
    settings = inbox.settings
    inbox.settings = dataclasses.replace(settings, inbox_for="everyone")
    upload = begin(member, "a.nsp", 2)["id"]
    inbox.settings = settings
    member.delete(f"/web/uploads/{upload}", status=403)
    assert len(inbox.uploads.all()) == 1


def test_an_upload_of_another_account_is_not_to_be_had(
    signed_in: webtest.TestApp, member: webtest.TestApp, inbox: catalogd.Inbox
) -> None:
    inbox.settings = dataclasses.replace(inbox.settings, inbox_for="everyone")
    upload = begin(signed_in, "a.nsp", 2)["id"]
    piece(member, upload, 0, b"x", status=404)
    member.delete(f"/web/uploads/{upload}", status=404)
    assert begin(member, "a.nsp", 2)["id"] != upload


def test_a_session_that_ends_leaves_what_was_written(
    signed_in: webtest.TestApp, store: catalogd.Store, folder: pathlib.Path
) -> None:
    upload = begin(signed_in, "a.nsp", 4)["id"]
    piece(signed_in, upload, 0, b"ab")
    signed_in.post_json("/web/logout", {})
    piece(signed_in, upload, 2, b"cd", status=403)
    signed_in.post_json("/web/login", {"username": "anna", "password": PASSWORD})
    assert begin(signed_in, "a.nsp", 4) == {"success": True, "id": upload, "offset": 2}
    assert piece(signed_in, upload, 2, b"cd")["name"] == "a.nsp"
    assert (folder / "a.nsp").read_bytes() == b"abcd"


def test_the_inbox_must_be_where_a_scan_finds_what_is_in_it(
    store: catalogd.Store, settings: catalogd.Settings, tmp_path: pathlib.Path
) -> None:
    top = settings.folders[0]
    for inbox in (str(tmp_path), f"{top}/.hidden/Inbox", f"{top}/#recycle"):
        wrong = dataclasses.replace(settings, inbox=inbox)
        with pytest.raises(catalogd.BadSetting, match="in no library folder, or is"):
            catalogd.Scanner(store, wrong)
    wrong = dataclasses.replace(settings, inbox=f"{top}/Inbox", exclude=("inbox",))
    with pytest.raises(catalogd.BadSetting, match="is hidden or excluded"):
        catalogd.Scanner(store, wrong)


# Pieces


@pytest.mark.parametrize("system", ["dir_fd", "no dir_fd"])
def test_a_file_is_added_in_pieces_and_is_listed_when_it_is_whole(
    signed_in: webtest.TestApp,
    folder: pathlib.Path,
    scanner: catalogd.Scanner,
    system: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if system == "no dir_fd":  # as Windows
        monkeypatch.setattr(os, "supports_dir_fd", set())
    begun = begin(signed_in, "Celeste.nsp", 6)
    assert begun["offset"] == 0
    assert piece(signed_in, begun["id"], 0, b"abc") == {"success": True, "offset": 3}
    assert begin(signed_in, "Celeste.nsp", 6) == {**begun, "offset": 3}
    assert names(folder) == [f".catalogd-{begun['id']}.part"]
    assert listed(scanner) == []
    ended = piece(signed_in, begun["id"], 3, b"def")
    assert ended["name"] == "Celeste.nsp" and ended["is_equal"] is False
    assert names(folder) == ["Celeste.nsp"]
    assert (folder / "Celeste.nsp").read_bytes() == b"abcdef"
    assert listed(scanner) == ["Celeste.nsp"]  # at once: it need not settle


def test_an_upload_that_ends_with_zeros_is_whole(
    signed_in: webtest.TestApp, scanner: catalogd.Scanner
) -> None:
    """Unlike a copy that pauses."""
    assert listed(scanner) == []
    upload = begin(signed_in, "a.nsp", MIB)["id"]
    piece(signed_in, upload, 0, bytes(MIB))
    assert listed(scanner) == ["a.nsp"]


def test_the_library_folder_itself_can_be_the_inbox(
    store: catalogd.Store, settings: catalogd.Settings, library: Library, key: str
) -> None:
    settings = dataclasses.replace(settings, inbox=str(library.folder))
    scanner = catalogd.Scanner(store, settings)
    inbox = catalogd.Web(store, settings, scanner).scanner.disks.inbox
    account = store.accounts.id_of("anna")
    upload = inbox.begin(account, "a.nsp", 1)["id"]
    assert inbox.append(account, upload, 0, io.BytesIO(b"x"))["name"] == "a.nsp"
    assert listed(scanner) == ["a.nsp"]


def test_a_piece_that_begins_elsewhere_is_told_where_to_begin(
    signed_in: webtest.TestApp,
) -> None:
    upload = begin(signed_in, "a.nsp", 10)["id"]
    piece(signed_in, upload, 0, b"abc")
    for offset in (0, 2, 4, 10**17):
        answer = piece(signed_in, upload, offset, b"def", status=409)
        assert (answer["error"], answer["offset"]) == ("conflict", 3)
    assert piece(signed_in, upload, 3, b"def")["offset"] == 6


def test_an_offset_that_is_no_number_is_refused(signed_in: webtest.TestApp) -> None:
    upload = begin(signed_in, "a.nsp", 10)["id"]
    path, body = f"/web/uploads/{upload}", b"abc"
    for offset in ("-1", "", "x", "1.0", "9" * 19, "٣", "0x1"):
        headers = {"Upload-Offset": offset.encode().decode("latin-1")}
        signed_in.patch(path, body, headers=headers, content_type=OCTETS, status=400)
    signed_in.patch(path, body, content_type=OCTETS, status=400)
    piece(signed_in, upload, 0, body, content_type="application/json", status=415)
    assert begin(signed_in, "a.nsp", 10)["offset"] == 0


def test_a_body_longer_than_announced_is_refused(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    upload = begin(signed_in, "a.nsp", 4)["id"]
    piece(signed_in, upload, 0, b"abc")
    piece(signed_in, upload, 3, b"de", status=400)
    assert piece(signed_in, upload, 3, b"")["offset"] == 3
    assert piece(signed_in, upload, 3, b"d")["name"] == "a.nsp"
    assert (folder / "a.nsp").read_bytes() == b"abcd"


def test_a_piece_is_answered_again_after_the_file_has_its_name(
    signed_in: webtest.TestApp,
) -> None:
    """The answer may have got lost, or another browser was faster."""
    upload = begin(signed_in, "a.nsp", 3)["id"]
    ended = piece(signed_in, upload, 0, b"abc")
    assert piece(signed_in, upload, 0, b"abc") == ended
    begin(signed_in, "a.nsp", 3)  # it is another one
    piece(signed_in, "0" * 16, 0, b"abc", status=404)


def test_an_upload_is_dropped(signed_in: webtest.TestApp, folder: pathlib.Path) -> None:
    upload = begin(signed_in, "a.nsp", 3)["id"]
    piece(signed_in, upload, 0, b"ab")
    signed_in.delete(f"/web/uploads/{upload}")
    assert names(folder) == []
    signed_in.delete(f"/web/uploads/{upload}", status=404)
    piece(signed_in, upload, 2, b"c", status=404)


def test_an_upload_whose_part_somebody_deleted_begins_anew(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    upload = begin(signed_in, "a.nsp", 3)["id"]
    piece(signed_in, upload, 0, b"ab")
    (folder / names(folder)[0]).unlink()
    piece(signed_in, upload, 2, b"c", status=404)
    assert begin(signed_in, "a.nsp", 3)["offset"] == 0
    (folder / names(folder)[0]).unlink()
    signed_in.delete(f"/web/uploads/{upload}")


def test_one_piece_of_an_upload_is_written_at_a_time(
    signed_in: webtest.TestApp,
    store: catalogd.Store,
    inbox: catalogd.Inbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pieces of others are written meanwhile."""
    account = store.accounts.id_of("anna")
    one, two = (begin(signed_in, f"{n}.nsp", 3)["id"] for n in "ab")
    plain = catalogd.write_piece

    def write(*given: Any) -> int:
        monkeypatch.setattr(catalogd, "write_piece", plain)
        piece(signed_in, one, 0, b"x", status=503)
        piece(signed_in, two, 0, b"x")
        return plain(*given)

    monkeypatch.setattr(catalogd, "write_piece", write)
    inbox.append(account, one, 0, io.BytesIO(b"y"))
    assert begin(signed_in, "a.nsp", 3)["offset"] == 1


def test_two_browsers_add_the_same_file(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    folder: pathlib.Path,
    key: str,
) -> None:
    """Each goes on where the other was, and both are told its end."""
    content = os.urandom(300_001)
    client = Client(serve(service), cookie(service.store, "anna"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        uploads = [
            pool.submit(client.upload, "Same.nsp", content, 16 * KIB) for _ in range(2)
        ]
        ended = [upload.result(timeout=60) for upload in uploads]
    assert names(folder) == ["Same.nsp"]
    assert (folder / "Same.nsp").read_bytes() == content
    assert {answer["name"] for answer in ended} == {"Same.nsp"}


# Names


def test_a_name_is_made_one_safe_component(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    made = "a_.._b_c_d_.NSP"
    assert add(signed_in, "a/../b\\c:d*.NSP. ", b"x")["name"] == made
    assert names(folder) == [made]


def test_a_name_that_no_scan_lists_is_refused(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    refused = ["../../etc/passwd.nsp", ".hidden.nsp", "~a.nsp", "..", "", "a\ud800.nsp"]
    for name in (*refused, "a", "nsp", "a.exe", "a.nsp.part"):
        begin(signed_in, name, 1, status=400)
    assert names(folder) == []


def test_a_name_that_is_excluded_or_of_an_unfinished_file_is_refused_with_the_reason(
    inbox: catalogd.Inbox, store: catalogd.Store, key: str
) -> None:
    inbox.exclusion = catalogd.Exclusion(["*demo*"], [inbox.folder])
    inbox.settings = dataclasses.replace(inbox.settings, extensions=("nsp", "part"))
    for name, why in {
        "A Demo.nsp": r"leaves this name out: \*demo\*",
        "a.part": "Only the library's types",
    }.items():
        with pytest.raises(catalogd.Problem, match=why):
            inbox.begin(store.accounts.id_of("anna"), name, 1)


def test_a_size_must_be_one_of_a_file(signed_in: webtest.TestApp) -> None:
    for size in (0, -1, 1.5, None, 2**63):
        begin(signed_in, "a.nsp", size, status=400)
    begin(signed_in, "a.nsp", 1)


def test_a_cover_is_small(signed_in: webtest.TestApp, folder: pathlib.Path) -> None:
    begin(signed_in, "a.jpg", catalogd.MAX_COVER_BYTES + 1, status=400)
    for name in ("a.JPG", "a.jpeg", "a.png"):
        begin(signed_in, name, catalogd.MAX_COVER_BYTES)
    add(signed_in, "b.png", b"x")
    assert "b.png" in names(folder)


def test_no_file_is_written_over(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    (folder / "a (2).nsp").mkdir()
    (folder / "b.nsp").symlink_to("a.nsp")
    assert add(signed_in, "a.nsp", b"one")["name"] == "a.nsp"
    assert add(signed_in, "a.nsp", b"two")["name"] == "a (3).nsp"
    assert add(signed_in, "a.nsp", b"three")["name"] == "a (4).nsp"
    assert add(signed_in, "b.nsp", b"one")["name"] == "b (2).nsp"
    assert (folder / "a.nsp").read_bytes() == b"one"


def test_a_long_name_that_is_taken_stays_short_enough(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    name = "é" * 200 + ".nsp"
    assert add(signed_in, name, b"one")["name"] == "é" * 125 + ".nsp"
    other = add(signed_in, name, b"two")["name"]
    assert other.endswith(" (2).nsp") and len(other.encode()) <= 255


def test_an_equal_file_is_told_and_dropped(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogd, "MAX_READ_BYTES", 2)
    add(signed_in, "a.nsp", b"abcde")
    add(signed_in, "a.nsp", b"abcdx")
    for content, name in ((b"abcde", "a.nsp"), (b"abcdx", "a (2).nsp")):
        ended = add(signed_in, "a.nsp", content)
        assert (ended["name"], ended["is_equal"]) == (name, True)
    assert names(folder) == ["a (2).nsp", "a.nsp"]


# The disk


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_file_has_the_group_of_the_inbox_and_is_writable_for_it(
    signed_in: webtest.TestApp, folder: pathlib.Path
) -> None:
    groups = [group for group in (*os.getgroups(), 1) if group != os.getgid()]
    with contextlib.suppress(PermissionError):
        os.chown(folder, -1, groups[0])
    before = os.umask(0o077)
    try:
        add(signed_in, "a.nsp", b"x")
    finally:
        os.umask(before)
    found = (folder / "a.nsp").stat()
    assert stat.S_IMODE(found.st_mode) == 0o664
    assert found.st_gid == folder.stat().st_gid


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups")
def test_a_file_of_another_group_than_the_inbox_is_given_to_that(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, given = os.fstat, []

    def told(number: int) -> os.stat_result:
        found = plain(number)
        is_file = stat.S_ISREG(found.st_mode)
        return os.stat_result((*found[:5], 54321, *found[6:])) if is_file else found

    monkeypatch.setattr(os, "fstat", told)
    monkeypatch.setattr(os, "fchown", lambda number, *owner: given.append(owner))
    add(signed_in, "a.nsp", b"x")
    assert (-1, folder.stat().st_gid) in given


def test_a_piece_that_cannot_be_read_whole_is_taken_back(
    tmp_path: pathlib.Path,
) -> None:
    body = Mock()
    body.read.side_effect = [b"more", OSError(errno.EIO, "no")]
    with io.FileIO(tmp_path / "a.part", "wb+") as file:
        file.write(b"abc")
        with pytest.raises(OSError, match="no"):
            catalogd.write_piece(file, 3, body)
    assert (tmp_path / "a.part").read_bytes() == b"abc"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups")
def test_a_file_that_cannot_have_the_group_of_the_inbox_is_refused(
    signed_in: webtest.TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fchmod", refuse)
    why = "The inbox cannot be written: Operation not permitted."
    assert begin(signed_in, "a.nsp", 1, status=503)["message"] == why


def test_a_file_keeps_its_time_unless_that_is_in_the_future(
    inbox: catalogd.Inbox,
    store: catalogd.Store,
    key: str,
    folder: pathlib.Path,
    clock: Clock,
) -> None:
    account = store.accounts.id_of("anna")
    for name, modified in (("a.nsp", 10**12), ("b.nsp", 2**62), ("c.nsp", 0)):
        upload = inbox.begin(account, name, 1, modified)["id"]
        inbox.append(account, upload, 0, io.BytesIO(b"x"))
    assert (folder / "a.nsp").stat().st_mtime == 10**9
    assert (folder / "b.nsp").stat().st_mtime < clock.now
    assert (folder / "c.nsp").stat().st_mtime == (folder / "b.nsp").stat().st_mtime


def shown(name: str, size: int, offset: int, account: str = "anna") -> dict[str, Any]:
    """An unfinished upload, as anna sees it."""
    row = {"name": name, "size": size, "offset": offset, "account": account}
    return {**row, "is_own": account == "anna"}


@pytest.fixture
def all_may_add(service: catalogd.Web, inbox: catalogd.Inbox) -> None:
    inbox.settings = dataclasses.replace(inbox.settings, inbox_for="everyone")


def test_an_admin_sees_the_unfinished_uploads_of_all_and_drops_them(
    signed_in: webtest.TestApp,
    member: webtest.TestApp,
    folder: pathlib.Path,
    all_may_add: None,
) -> None:
    own = begin(signed_in, "a.nsp", 100)["id"]
    of_ben = begin(member, "b.nsp", 3000)["id"]
    piece(member, of_ben, 0, b"12")
    rows = signed_in.get("/web/uploads").json["uploads"]
    assert sorted(rows, key=lambda row: row["name"]) == [
        {"id": own, **shown("a.nsp", 100, 0)},
        {"id": of_ben, **shown("b.nsp", 3000, 2, "ben")},
    ]
    [row] = member.get("/web/uploads").json["uploads"]
    assert (row["id"], row["is_own"]) == (of_ben, True)
    member.delete(f"/web/uploads/{own}", status=404)
    signed_in.delete(f"/web/uploads/{of_ben}")
    assert member.get("/web/uploads").json["uploads"] == []
    assert len(names(folder)) == 1


def test_a_refused_announcement_leaves_nothing(
    signed_in: webtest.TestApp, inbox: catalogd.Inbox, folder: pathlib.Path
) -> None:
    for number in range(3):
        begin(signed_in, f"{number}.nsp", 10**15, status=507)
    assert inbox.uploads.all() == [] and names(folder) == []


def test_an_inbox_that_was_swapped_for_a_link_is_not_written(
    signed_in: webtest.TestApp, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    upload = begin(signed_in, "a.nsp", 2)["id"]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    before = names(tmp_path / "elsewhere")
    assert "/" not in begin(signed_in, "b.nsp", 1, status=503)["message"]
    piece(signed_in, upload, 0, b"x", status=503)
    assert names(tmp_path / "elsewhere") == before


def test_a_disk_that_was_pulled_out_loses_nothing(
    signed_in: webtest.TestApp,
    library: Library,
    folder: pathlib.Path,
    scanner: catalogd.Scanner,
) -> None:
    library.add("a.nsp")
    scanner.scan()
    upload = begin(signed_in, "b.nsp", 4)["id"]
    piece(signed_in, upload, 0, b"ab")
    aside = library.folder.rename(library.folder.with_name("pulled"))
    piece(signed_in, upload, 2, b"cd", status=503)
    begin(signed_in, "c.nsp", 4, status=503)
    library.folder.mkdir()  # what it was mounted over
    folder.mkdir()
    scanner.scan()
    assert "offline" in begin(signed_in, "c.nsp", 4, status=503)["message"]
    piece(signed_in, upload, 2, b"cd", status=404)
    assert names(folder) == []
    folder.rmdir()
    library.folder.rmdir()
    aside.rename(library.folder)
    scanner.scan()
    assert begin(signed_in, "b.nsp", 4)["offset"] == 2
    assert piece(signed_in, upload, 2, b"cd")["name"] == "b.nsp"


def test_a_disk_without_room_for_all_that_was_announced_takes_no_more(
    signed_in: webtest.TestApp,
    inbox: catalogd.Inbox,
    folder: pathlib.Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = 3_000_000_000
    monkeypatch.setattr(
        catalogd.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free})
    )
    inbox.settings = dataclasses.replace(inbox.settings, keep_free=1)
    begin(signed_in, "a.nsp", 2_000_000_001, status=507)
    assert names(folder) == []
    upload = begin(signed_in, "b.nsp", 1_500_000_000)["id"]
    second = begin(signed_in, "c.nsp", 2_000_000_000)["id"]
    piece(signed_in, upload, 0, b"")
    begin(signed_in, "c.nsp", 2_000_000_000)  # the other one has no byte
    piece(signed_in, upload, 0, b"x")
    answer = begin(signed_in, "d.nsp", 500_000_002, status=507)
    assert answer["message"] == (
        "The disk of the inbox needs 0.0 MB more for this and other uploads."
    )
    piece(signed_in, second, 0, b"x", status=507)
    free = 1_000_000_001
    assert piece(signed_in, upload, 1, b"x")["offset"] == 2
    free = 999_999_999
    answer = piece(signed_in, upload, 2, b"x", status=507)
    assert answer["message"] == (
        "The disk of the inbox needs 0.0 MB more for this and other uploads."
    )
    assert signed_in.get("/web/uploads").json["uploads"] == [
        {"id": upload, **shown("b.nsp", 1_500_000_000, 2)},
        {"id": second, **shown("c.nsp", 2_000_000_000, 0)},
    ]
    begin(signed_in, "b.nsp", 1_500_000_000, status=507)
    free = 3_000_000_000
    assert begin(signed_in, "b.nsp", 1_500_000_000)["offset"] == 2
    clock.now += catalogd.UPLOAD_SECONDS  # the first one has no room of its own now
    piece(signed_in, second, 0, b"x")
    piece(signed_in, upload, 2, b"x", status=507)


def test_an_account_has_few_unfinished_uploads(signed_in: webtest.TestApp) -> None:
    ids = [begin(signed_in, f"{n}.nsp", 9)["id"] for n in range(catalogd.MAX_UPLOADS)]
    begin(signed_in, "more.nsp", 9, status=409)
    assert begin(signed_in, "0.nsp", 9)["id"] == ids[0]
    signed_in.delete(f"/web/uploads/{ids[0]}")
    begin(signed_in, "more.nsp", 9)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_what_cannot_be_written_whole_is_taken_back(
    signed_in: webtest.TestApp, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(signed_in, "a.nsp", 9)["id"]
    piece(signed_in, upload, 0, b"abc")

    fail = Mock(side_effect=OSError(code, "It failed"))
    with monkeypatch.context() as failing:
        failing.setattr(catalogd.os, "fsync", fail)
        kind = 507 if code == errno.ENOSPC else 503
        piece(signed_in, upload, 3, b"def", status=kind)
    assert begin(signed_in, "a.nsp", 9)["offset"] == 3


@pytest.mark.root
def test_a_full_disk_takes_back_what_it_could_not_write(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small one, that others fill meanwhile."""
    with small_disk(folder, MIB):
        upload = begin(signed_in, "a.nsp", 900 * KIB)["id"]
        assert piece(signed_in, upload, 0, bytes(256 * KIB))["offset"] == 256 * KIB
        begin(signed_in, "b.nsp", 500 * KIB, status=507)
        (folder / "others.txt").write_bytes(bytes(300 * KIB))
        with monkeypatch.context() as believing:  # they are faster than the check
            believing.setattr(catalogd.Inbox, "_check_space", lambda *given: None)
            piece(signed_in, upload, 256 * KIB, bytes(644 * KIB), status=507)
        (part,) = folder.glob(".*.part")
        assert part.stat().st_size == 256 * KIB
        (folder / "others.txt").unlink()
        ended = piece(signed_in, upload, 256 * KIB, bytes(644 * KIB))
        assert ended["name"] == "a.nsp"
        assert names(folder) == ["a.nsp"]


def test_a_file_beyond_2_gib_is_added(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that tells of enough room: the file takes none."""
    size = 2**31 + 5
    usage = type("Usage", (), {"free": size})
    monkeypatch.setattr(catalogd.shutil, "disk_usage", lambda path: usage)
    upload = begin(signed_in, "a.nsp", size)["id"]
    (part,) = folder.glob(".*.part")
    os.truncate(part, size - 2)  # sparse
    assert begin(signed_in, "a.nsp", size)["offset"] == size - 2
    piece(signed_in, upload, 2**31 - 1, b"xy", status=409)
    assert piece(signed_in, upload, size - 2, b"xy")["offset"] == size
    assert (folder / "a.nsp").stat().st_size == size


# The end of an upload


def test_a_name_that_another_file_takes_meanwhile_is_left_to_that(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.nsp").write_bytes(b"theirs")
    with monkeypatch.context() as early:
        early.setattr(catalogd, "are_equal", lambda *given: False)
        assert add(signed_in, "a.nsp", b"theirs")["name"] == "a (2).nsp"
    assert names(folder) == ["a (2).nsp", "a.nsp"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_at_the_last_moment_is_not_written_over(
    signed_in: webtest.TestApp,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    has_links: bool,
) -> None:
    late = [b"theirs"]

    def name(plain: Any, part: str, path: str, **more: Any) -> None:
        if late:
            pathlib.Path(path).write_bytes(late.pop())
        if plain.__name__ == "link" and not has_links:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        plain(part, path, **more)

    for plain in (os.link, os.rename):
        patched = functools.partial(name, plain)
        monkeypatch.setattr(os, plain.__name__, patched)
    assert add(signed_in, "a.nsp", b"ours")["name"] == "a (2).nsp"
    assert names(folder) == ["a (2).nsp", "a.nsp"]
    assert (folder / "a.nsp").read_bytes() == b"theirs"
    assert (folder / "a (2).nsp").read_bytes() == b"ours"


def test_an_upload_that_cannot_get_its_name_gets_it_with_the_next_call(
    signed_in: webtest.TestApp, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(signed_in, "a.nsp", 1)["id"]
    with monkeypatch.context() as failing:
        failing.setattr(os, "link", lambda *given, **more: refuse())
        for name in ("rename", "replace"):  # as where the service is killed
            failing.setattr(os, name, lambda *given, **more: refuse())
        piece(signed_in, upload, 0, b"x", status=503)
    assert names(folder) == [f".catalogd-{upload}.part"]
    assert piece(signed_in, upload, 1, b"")["name"] == "a.nsp"


@pytest.mark.parametrize("spelling", ["inbox", "INBOX"])
def test_a_scan_of_an_inbox_spells_it_as_its_disk_does(
    inbox: catalogd.Inbox,
    signed_in: webtest.TestApp,
    scanner: catalogd.Scanner,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    spelling: str,
) -> None:
    """On a disk that is blind to case, where its files would be listed twice."""
    disk = {folder.parent: [spelling, "other"]}
    monkeypatch.setattr(os, "listdir", lambda path: disk[pathlib.Path(path)])
    add(signed_in, "a.nsp", b"x")
    assert scanner.disks.changed(False) == [str(folder.with_name(spelling))]


def test_an_inbox_that_is_a_library_folder_is_scanned(library: Library) -> None:
    assert catalogd.spelled(str(library.folder), str(library.folder)) == str(
        library.folder
    )


def test_an_upload_waits_while_the_inbox_is_away_or_an_empty_mount_point(
    signed_in: webtest.TestApp,
    inbox: catalogd.Inbox,
    library: Library,
    folder: pathlib.Path,
) -> None:
    upload = begin(signed_in, "a.nsp", 1)["id"]
    disk = folder.rename(folder.with_name("disk"))
    folder.mkdir()
    inbox.tidy(str(library.folder))
    folder.rmdir()
    inbox.tidy(str(library.folder))
    disk.rename(folder)
    assert [row["id"] for row in inbox.unfinished()] == [upload]


KILLED = """
import catalogd, io, os, signal, sys
data, folder, owner, call = sys.argv[1:]
store = catalogd.Store(data)
settings = catalogd.Settings(folders=(folder,), inbox=folder, keep_free=0)
inbox = catalogd.Inbox(
    store.database, settings, catalogd.ScanState(), catalogd.FileUses()
)
upload = inbox.begin(1, "a.nsp", 1)["id"]
def die(*given, **more):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(getattr(catalogd, owner), call, die)
inbox.append(1, upload, 0, io.BytesIO(b"x"))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("owner", "call", "offset", "done"),
    [
        ("Inbox", "_end", 1, False),  # when all bytes are written
        ("os", "link", 1, False),
        ("os", "utime", 1, True),  # when the file has its name
        ("os", "unlink", 1, True),
        ("Uploads", "remove", 0, True),  # when it has no other one
    ],
)
def test_an_upload_goes_on_after_a_kill_at_any_moment(
    store: catalogd.Store,
    settings: catalogd.Settings,
    folder: pathlib.Path,
    key: str,
    clock: Clock,
    owner: str,
    call: str,
    offset: int,
    done: bool,
) -> None:
    """Nothing half is listed, and what is there has all bytes."""
    clock.now = max(clock.now, time.time() + 60)  # what the process writes is quiet
    command = [sys.executable, "-c", KILLED, store.database.folder, str(folder)]
    killed = subprocess.run([*command, owner, call], cwd=HERE)
    assert killed.returncode == -signal.SIGKILL
    settings = dataclasses.replace(settings, folders=(str(folder),))
    scanner = catalogd.Scanner(store, settings)
    inbox = scanner.disks.inbox
    inbox.tidy(inbox.folder)
    assert listed(scanner) == ["a.nsp"] * done
    begun = inbox.begin(1, "a.nsp", 1)
    assert begun["offset"] == offset
    ended = inbox.append(1, begun["id"], offset, io.BytesIO(b"x"[offset:]))
    assert ended["is_equal"] == done
    assert listed(scanner) == [ended["name"]]
    assert (folder / ended["name"]).read_bytes() == b"x"
    assert not list(folder.glob(".*"))


# What is old


def test_what_was_not_continued_for_three_days_goes(
    signed_in: webtest.TestApp,
    inbox: catalogd.Inbox,
    library: Library,
    folder: pathlib.Path,
    clock: Clock,
) -> None:
    old, fresh, early, late = (begin(signed_in, f"{n}.nsp", 2)["id"] for n in "abcd")
    orphan = folder / ".catalogd-00ff.part"
    theirs = [folder / name for name in (".catalogd.part", ".a.part", "b.part")]
    for path in (orphan, *theirs):
        path.touch()
    days = {old: 3.1, fresh: 2.9, early: 9999, late: -30, "00ff": 3.1}
    for upload, ago in days.items():
        at = clock.now - ago * 86400
        os.utime(folder / f".catalogd-{upload}.part", (at, at))
    for path in theirs:
        os.utime(path, (0, 0))
    inbox.tidy(str(library.folder))  # the clock is not believed yet
    assert len(names(folder)) == 8
    clock.now += 3601
    inbox._running.add("00ff")
    inbox.tidy(str(library.folder))
    assert orphan.exists()
    inbox._running.clear()
    inbox.tidy(str(library.folder))
    kept = {f".catalogd-{upload}.part" for upload in (fresh, early, late)}
    assert {*names(folder)} == kept | {path.name for path in theirs}
    piece(signed_in, old, 0, b"x", status=404)


def test_an_upload_without_a_part_goes(
    signed_in: webtest.TestApp,
    inbox: catalogd.Inbox,
    library: Library,
    folder: pathlib.Path,
) -> None:
    kept, removed, running = (begin(signed_in, f"{n}.nsp", 2)["id"] for n in "abc")
    for upload in (removed, running):
        (folder / f".catalogd-{upload}.part").unlink()
    inbox._running.add(running)
    inbox.tidy(str(library.folder))
    assert {row["id"] for row in inbox.uploads.all()} == {kept, running}


def test_the_answers_of_the_last_uploads_are_kept(
    signed_in: webtest.TestApp, inbox: catalogd.Inbox
) -> None:
    inbox._ended.most = 2
    uploads = [begin(signed_in, f"{n}.nsp", 1)["id"] for n in "abc"]
    for upload in uploads:
        piece(signed_in, upload, 0, b"x")
    assert [*inbox._ended] == uploads[1:]


# Scans


def test_a_scan_lists_a_file_long_before_the_next_one_is_due(
    signed_in: webtest.TestApp,
    scanner: catalogd.Scanner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in a folder that cannot be watched, by the default settings."""
    monkeypatch.setattr(catalogd, "LOCAL_FILE_SYSTEMS", set())
    scanner.start()
    try:
        wait_for(lambda: scanner.state.finished)
        add(signed_in, "a.nsp", b"x")
        half = scanner.settings.scan_interval / 2
        wait_for(lambda: scanner.store.entries.count(catalogd.EVERYTHING) == 1, half)
    finally:
        scanner.stop()


def test_check_and_the_page_are_told_whether_the_inbox_can_be_written(
    service: catalogd.Web, folder: pathlib.Path
) -> None:
    assert service.health.state()["faults"] == []
    folder.rmdir()
    why = "No such file or directory"
    told = {"message": f"{folder}: The inbox cannot be written: {why}."}
    of = {"folder": str(folder), "why": why}
    told |= {"reason": "inbox_read_only", "arguments": of}
    about = {"about": "inbox", "id": str(folder)}
    assert service.health.state()["faults"] == [about | told]


# Real servers


def cookie(store: catalogd.Store, name: str) -> str:
    return session(store, store.accounts.id_of(name))


class Client:
    """A browser's calls to a real server."""

    def __init__(self, address: str, session: str) -> None:
        self.place = address.removeprefix("http://")
        self.session = session

    def call(
        self, method: str, path: str, body: bytes, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(self.place, timeout=60)
        with contextlib.closing(connection):
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            given["Cookie"] = f"session={self.session}"
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def begin(self, name: str, size: int) -> dict[str, Any]:
        body = json.dumps({"name": name, "size": size}).encode()
        kind = "application/json"
        status, answer = self.call("POST", "/web/uploads", body, Content_Type=kind)
        assert status == 200, answer
        return answer

    def piece(
        self, upload: str, offset: int, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Content_Type": OCTETS, "Upload_Offset": str(offset)}
        return self.call("PATCH", f"/web/uploads/{upload}", body, **headers)

    def upload(self, name: str, content: bytes, length: int) -> dict[str, Any]:
        """Upload a file as the page does, and return the last answer."""
        answer = self.begin(name, len(content))
        upload = answer["id"]
        while "name" not in answer:
            offset = answer["offset"]
            status, answer = self.piece(
                upload, offset, content[offset : offset + length]
            )
            if status == 503:
                answer = {"offset": offset}
            else:
                assert status in (200, 409), answer
        return answer


def heads_of_pieces(upload: str, other: str) -> list[tuple[str, str]]:
    """Return ids and header fields: of two accounts, and such as a guest may send."""
    length = "Content-Length: 999999\r\n"
    heads = [(other, "Cookie: x\r\nTransfer-Encoding: chunked\r\n")]
    heads += [("0" * 16, f"Cookie: x\r\n{length}"), (other, length)]
    return heads + [(id, f"Cookie: x\r\n{length}") for id in (*[upload] * 3, other)]


def test_few_long_bodies_are_in_memory_at_once(
    service: catalogd.Web,
    serve: Callable[[catalogd.Web], str],
    store: catalogd.Store,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond, and where nobody has begun it, a piece must be as short as any other
    body. An account cannot hold all."""
    store.accounts.add("ben", "", admin=True)
    temporary: list[Any] = []
    buffers = sys.modules["waitress.buffers"]
    plain = buffers.TempfileBasedBuffer
    monkeypatch.setattr(
        buffers,
        "TempfileBasedBuffer",
        lambda *given: temporary.append(given) or plain(*given),
    )
    client = Client(serve(service), cookie(store, "anna"))
    upload = client.begin("a.nsp", 20 * MIB)["id"]
    long = catalogd.MAX_LONG_BODY_BYTES
    assert client.piece(upload, 0, bytes(long)) == (
        200,
        {"success": True, "offset": long},
    )
    assert client.piece(upload, long, bytes(long + 1))[0] == 413

    def are_none_held() -> bool:
        gc.collect()
        return not catalogd.RequestParser.long_bodies

    wait_for(are_none_held)
    other = Client(client.place, cookie(store, "ben")).begin("b.nsp", 20 * MIB)["id"]
    with contextlib.ExitStack() as stack:
        for id, fields in heads_of_pieces(upload, other):
            place = ("127.0.0.1", int(client.place.partition(":")[2]))
            slow = stack.enter_context(socket.create_connection(place))
            head = f"PATCH /web/uploads/{id} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
            slow.sendall(head.encode())
        wait_for(lambda: len(catalogd.RequestParser.long_bodies) == 3)
        accounts = [*catalogd.RequestParser.long_bodies.values()]
        assert accounts.count(store.accounts.id_of("anna")) == 2
        assert client.piece(upload, long, bytes(MIB))[0] == 413
        assert temporary == []
        short = catalogd.MAX_BODY_BYTES
        assert client.piece(upload, long, bytes(short))[0] == 200
        assert len(temporary) == 1
    wait_for(lambda: not catalogd.RequestParser.long_bodies)
    assert client.piece(upload, long + short, bytes(MIB))[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_that_is_killed_at_66_of_75_mb_goes_on(
    serving: Serving, store: catalogd.Store, folder: pathlib.Path
) -> None:
    """It is killed in the midst of a piece, and nothing acknowledged is lost."""
    ini, content = folder.parent / "catalogd.ini", os.urandom(75_000_000)
    ini.write_text(f"[library]\ninbox = {folder}\nkeep_free = 0\n")
    serving.start("--config", str(ini))
    wait_for(lambda: catalogd.answers(f"{serving.url}/", 1))
    client = Client(serving.url, cookie(store, "anna"))
    begun = client.begin("Big.nsp", len(content))
    upload, offset = begun["id"], 0
    while offset < 66_000_000:
        status, answer = client.piece(upload, offset, content[offset:][: 6 * MIB])
        assert status == 200
        offset = answer["offset"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        last = pool.submit(client.piece, upload, offset, content[offset:][: 6 * MIB])
        serving.kill()
        with contextlib.suppress(OSError, http.client.HTTPException):
            offset = last.result(timeout=60)[1]["offset"]
    assert [name for name in names(folder) if not name.startswith(".")] == []
    serving.start("--config", str(ini))
    wait_for(lambda: catalogd.answers(f"{serving.url}/", 1))
    again = client.begin("Big.nsp", len(content))
    assert again["id"] == upload and again["offset"] >= offset
    assert client.upload("Big.nsp", content, 6 * MIB)["name"] == "Big.nsp"
    assert names(folder) == ["Big.nsp"]
    assert (folder / "Big.nsp").read_bytes() == content
    wait_for(lambda: store.entries.count(catalogd.EVERYTHING) == 1)
