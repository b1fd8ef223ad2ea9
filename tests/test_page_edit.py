"""`tests/page/check.py --edit`: style sheet and script as files of their own."""

import importlib
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import catalogd
from browser import see
from conftest import Visit

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(pathlib.Path(__file__).parent / "page")
    check: Any = importlib.import_module("check")
    edit: Any = sys.modules["edit"]


@pytest.fixture
def editing(tmp_path: pathlib.Path) -> Any:
    program = tmp_path / "copy" / "catalogd.py"
    program.parent.mkdir()
    shutil.copy(catalogd.__file__, program)
    return edit.Editing(program)


def change(editing: Any, name: str, old: str, new: str) -> None:
    text = editing.text(name)
    assert old in text
    editing.files[name].write_text(text.replace(old, new), encoding="utf-8")


def test_what_is_saved_is_put_back_and_nothing_else(editing: Any) -> None:
    before = editing.source
    assert [editing.text(name) for name in ("CSS", "JS")] == [catalogd.CSS, catalogd.JS]
    assert not editing.save()
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    change(editing, "JS", "const MAX_PARTS = 100;", r"const MAX_PARTS = /\d/ ? 99 : 9;")
    assert [editing.save() for _ in range(3)] == [True, True, False]
    now = editing.program.read_text(encoding="utf-8")
    now = now.replace("--accent: #123456", "--accent: #0f6b5c")
    assert now.replace(r"/\d/ ? 99 : 9;", "100;") == before
    editing.end()
    assert [path.name for path in editing.program.parent.iterdir()] == ["catalogd.py"]


def test_nothing_is_put_into_a_program_that_was_changed_meanwhile(editing: Any) -> None:
    other = editing.source + "# mine\n"
    editing.program.write_text(other, encoding="utf-8")
    assert not editing.save(), "nothing was edited"
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    with pytest.raises(edit.Refused, match="was changed meanwhile"):
        editing.save()
    assert editing.program.read_text(encoding="utf-8") == other
    assert "#123456" in editing.text("CSS"), "it is kept"


@pytest.mark.parametrize("text", ['a { content: """ }\n', "a { color: red }"])
def test_a_text_that_would_end_the_constant_is_refused(editing: Any, text: str) -> None:
    editing.files["CSS"].write_text(text, encoding="utf-8")
    with pytest.raises(edit.Refused):
        editing.save()
    assert editing.program.read_text(encoding="utf-8") == editing.source


@pytest.fixture
def proxy(editing: Any, site: str) -> Iterator[str]:
    server = edit.serve(editing, site, 0)
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_the_page_of_a_running_server_is_loaded_again_when_it_is_edited(
    visit: Visit, proxy: str, editing: Any, key: str
) -> None:
    page = visit()
    page.goto(proxy)
    see(page, "Your home game library.")
    color = "getComputedStyle(document.documentElement).getPropertyValue('--accent')"
    assert page.evaluate(color) == "#0f6b5c"
    change(editing, "CSS", "--accent: #0f6b5c", "--accent: #123456")
    page.wait_for_function(f"{color} === '#123456'")  # also while it is loaded again
    change(editing, "JS", "renderLogo(), h.h1(null, title)", "h.h1(null, 'Edited')")
    see(page, "Edited")
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    see(page, "The name or the password is wrong.")
