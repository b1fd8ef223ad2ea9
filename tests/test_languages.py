"""Translations of the page: their files, which one is shown, and the check of one."""

import errno
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import webtest

import catalogd
from browser import see, until
from conftest import Visit

PACKAGING = pathlib.Path(catalogd.__file__).parent / "packaging"
FOLDER = PACKAGING / "languages"
FILES = sorted(FOLDER.glob("*.json"))
OTHERS = ["de", "en", "es", "fr", "it", "nl", "pt-BR", "sv", "tr"]
Write = Callable[..., pathlib.Path]
PIPES: Any = {"capture_output": True, "check": False}
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(PACKAGING)
    checker: Any = importlib.import_module("words")


def changed(text: Any, change: Callable[[str], str]) -> Any:
    """Return a table with each text changed, but for what stands in braces."""
    if isinstance(text, dict):
        return {name: changed(part, change) for name, part in text.items()}
    parts = re.split(r"(\{\w+\})", text)
    return "".join(each if n % 2 else change(each) for n, each in enumerate(parts))


def translation(change: Callable[[str], str] = str.upper, **about: Any) -> Any:
    """Return a translation whose texts are changed English ones."""
    english = {"words": catalogd.WORDS, "sentences": catalogd.SENTENCES}
    tables = changed(english, change)
    texts = catalogd.texts_of(tables)
    same = [key for key, text in checker.ENGLISH_TEXTS.items() if text == texts[key]]
    return {"about": {"language": "Test", "same": same, **about}, **tables}


@pytest.fixture(autouse=True)
def no_others(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no translations of the project beside those that a test writes."""
    program = tmp_path / "program" / "catalogd.py"
    program.parent.mkdir()
    monkeypatch.setattr(catalogd, "__file__", str(program))


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Write:
    """Return a function that writes a file in the owner's folder of translations."""

    def write(language: str, content: Any, folder: str = "data") -> pathlib.Path:
        path = tmp_path / folder / "languages" / f"{language}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), "utf-8"
        )
        return path

    return write


# The files


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_translation_of_the_project_is_whole(path: pathlib.Path) -> None:
    found = catalogd.read_translation(path)
    assert [*checker.translation_faults(path.stem, found)] == []
    assert found.about["form"]


def folded(text: str) -> str:
    """Return a text without case and accents, in which a stem is found."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def stem(words: str) -> str:
    """Return what the forms of a word begin with: that of "actualización" is also in
    "actualizaciones"."""
    word = folded(words).split()[0]
    return word[:-2] if len(word) > 5 and word.isascii() else word


def glossary() -> dict[str, dict[str, str]]:
    """Return the words of each language, by the English ones."""
    text = (PACKAGING / "languages.md").read_text(encoding="utf-8")
    lines = text.partition("## Glossary")[2].strip().splitlines()
    head, _, *rows = ([*map(str.strip, line.split("|")[1:-1])] for line in lines[2:])
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_translation_keeps_to_the_glossary(path: pathlib.Path) -> None:
    """In at least two of three texts: some say it with another part of speech."""
    texts = catalogd.read_translation(path).texts
    assert len(glossary()) == 30
    for english, words in glossary().items():
        has = re.compile(rf"(?i)(?<![\w-]){english}s?(?![\w-])")
        keys = [
            key
            for key, text in checker.ENGLISH_TEXTS.items()
            if has.search(catalogd.PLACEHOLDER.sub("", text["other"]))
        ]
        kept = [
            key for key in keys if stem(words[path.stem]) in folded(str(texts[key]))
        ]
        assert len(keys) >= 2 and len(kept) * 3 >= len(keys) * 2, (english, kept)


def test_the_plural_forms_of_a_language_are_those_of_the_browser(chromium: Any) -> None:
    code = """names => names.map(name => {
      const {select} = Intl.PluralRules.prototype;
      const rules = new Intl.PluralRules(name);
      const numbers = Array.from({length: 200}, (_, n) => select.call(rules, n));
      return [...new Set(numbers)];
    })"""
    names = [*" ".join(checker.PLURALS).split(), *OTHERS, *(p.stem for p in FILES)]
    page = chromium.new_page()
    found = page.evaluate(code, names)
    page.close()
    for name, forms in zip(names, found, strict=True):
        assert {*forms, "other"} == {*checker.plurals_of(name)}, name


# The check of a translator


@pytest.fixture
def words(capsys: pytest.CaptureFixture[str]) -> Callable[[pathlib.Path, int], str]:
    """Check a file, which must end with this code, and return what it prints."""

    def run(path: pathlib.Path, code: int) -> str:
        assert checker.main(str(path)) == code
        out, err = capsys.readouterr()
        return str(out + err)

    return run


def test_a_new_translation_is_printed_and_filled_in(
    words: Any, write: Write, tmp_path: pathlib.Path
) -> None:
    new = json.loads(words(tmp_path / "pt-BR.json", 0))
    assert json.loads(words(write("pt-BR", ""), 0)) == new, "as the shell makes it"
    assert new["words"] == catalogd.WORDS
    assert new["sentences"] == catalogd.SENTENCES
    path = write("pt-BR", new)
    assert words(path, 2) == f"{path}: The field language is empty.\n"
    new["about"] = {"language": "Test"}
    lines = words(write("pt-BR", new), 1).splitlines()
    text = 'words.save: as in English. Translate it, or add it to "same".'
    assert text in lines
    assert not any(line.startswith("words.percent:") for line in lines), "no words"
    new["about"]["same"] = [line.partition(":")[0] for line in lines]
    assert words(write("pt-BR", new), 0) == "ok\n"


def test_the_check_runs_from_any_folder(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, str(PACKAGING / "words.py")]
    whole = subprocess.run([*command, str(FILES[0])], cwd=tmp_path, text=True, **PIPES)
    assert (whole.returncode, whole.stdout) == (0, "ok\n")
    bare = subprocess.run(command, cwd=tmp_path, text=True, **PIPES)
    assert (bare.returncode, bare.stdout) == (1, "")
    assert "Check a translation" in bare.stderr


@pytest.mark.parametrize(
    ("language", "key", "text", "line"),
    [
        ("nl", "save", None, 'words.save: missing. Translate "Save".'),
        ("nl", "saev", "S", "words.saev: unknown. Remove it."),
        ("nl", "sendName", "S", "words.sendName: {name} is missing. Add it."),
        ("nl", "sendName", "{name} {who}", "words.sendName: {who} is unknown. Remove"),
        ("nl", "titles", "{count}", 'words.titles: the plural form "one" is missing.'),
        ("nl", "titles", {"one": "1", "other": "{count}"}, "words.titles: {count} is"),
        ("pl", "titles", {"one": "{count}", "other": "{count}"}, 'form "few" is miss'),
        ("sl", "titles", dict.fromkeys(("one", "few", "other"), "{count}"), '"two"'),
    ],
)
def test_a_fault_of_a_translation_is_a_line(
    words: Any, write: Write, language: str, key: str, text: Any, line: str
) -> None:
    new = translation()
    new["words"][key] = text
    if text is None:
        del new["words"][key]
    assert line in words(write(language, new), 1)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ja", "{count}"),
        ("sl", dict(one="{count}", two="II", few="{count}", other="{count}")),
    ],
)
def test_a_translation_may_have_the_plurals_of_its_language_alone(
    words: Any, write: Write, language: str, text: Any
) -> None:
    new = translation()
    new["words"]["titles"] = text
    assert "words.titles" not in words(
        write(language, new), 0 if language == "ja" else 1
    )


BROKEN = {
    "cut": json.dumps(translation())[:-9],
    "a list": "[]",
    "without a head": '{"words": {}}',
    "a number": json.dumps({**translation(), "sentences": {"busy": 5}}),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=[*BROKEN])
def test_a_broken_file_is_english_with_a_line_in_the_log(
    write: Write, store: Any, text: str, caplog: Any, words: Any, request: Any
) -> None:
    path = write("pl", text)
    browser = request.getfixturevalue("browser")
    [line] = caplog.messages
    assert line.startswith(f"A translation is left out. Mend it, and restart: {path}: ")
    assert "pl" not in browser.get("/web/me").json["languages"]
    browser.get("/languages/pl.json", status=404)
    assert words(path, 2).startswith(f"{path}: ")


def test_a_broken_file_is_a_fault_that_the_page_and_check_tell(
    write: Write, request: Any
) -> None:
    path = write("pl", "[]")
    [fault] = request.getfixturevalue("service").health.state()["faults"]
    assert (fault["about"], fault["id"]) == ("languages", str(path))
    assert fault["reason"] == "translation_left_out"
    assert fault["message"].startswith(
        f"A translation is left out. Mend it, and restart: {path}: "
    )


def test_a_file_in_the_encoding_of_a_windows_shell_is_served_in_utf_8(
    write: Write, store: Any, words: Any, request: Any
) -> None:
    path = write("nl", "")
    path.write_text(json.dumps(translation()), "utf-16")
    assert words(path, 0) == "ok\n"
    answer = request.getfixturevalue("browser").get("/languages/nl.json")
    assert json.loads(answer.body.decode()) == translation()


def test_a_folder_of_languages_that_cannot_be_read_leaves_english(
    write: Write, store: Any, caplog: Any, monkeypatch: Any, request: Any
) -> None:
    def fail(folder: pathlib.Path) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    write("pl", translation())
    monkeypatch.setattr(pathlib.Path, "iterdir", fail)
    browser = request.getfixturevalue("browser")
    assert browser.get("/web/me").json["languages"] == {}
    assert "Translations are left out." in caplog.messages


@pytest.mark.parametrize("name", ["deutsch", "de_DE", "pt-br", "../de", "de.part"])
def test_a_file_without_the_code_of_a_language_is_left_out(
    write: Write, store: Any, caplog: Any, request: Any, name: str
) -> None:
    write(name, translation())
    browser = request.getfixturevalue("browser")
    known = browser.get("/web/me").json["languages"]
    assert not known
    assert len(caplog.messages) == (name != "../de")


# The answers of the server


def test_the_owners_file_takes_the_place_of_that_of_the_program(
    write: Write, store: Any, request: Any
) -> None:
    write("pl", translation(language="Theirs"), "program")
    write("cs", translation(language="Theirs"), "program/packaging")
    write("pl", translation(language="Own"))
    languages = request.getfixturevalue("browser").get("/web/me").json["languages"]
    assert languages == {"cs": "Theirs", "pl": "Own"}


def test_translations_are_read_from_inside_an_archive(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "catalogd.pyz", "w") as archive:
        archive.writestr("catalogd.py", "")
        archive.writestr("languages/pl.json", json.dumps(translation()))
    inside = tmp_path / "catalogd.pyz" / "catalogd.py"
    monkeypatch.setattr(catalogd, "__file__", str(inside))
    assert "pl" in catalogd.read_translations(str(tmp_path))[0]


def test_a_translation_is_sent_compressed_and_again_only_after_it_changed(
    write: Write, store: Any, request: Any
) -> None:
    write("pl", translation())
    browser = request.getfixturevalue("browser")
    answer = browser.get("/languages/pl.json", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["ETag"].endswith('-gzip"')
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Cache-Control"] == "no-cache"
    again = {"If-None-Match": answer.headers["ETag"], "Accept-Encoding": "gzip"}
    browser.get("/languages/pl.json", headers=again, status=304)


@pytest.mark.parametrize("name", ["xx", "..%2f..%2fcatalogd", "..", ".", "pl.json"])
def test_nothing_but_a_known_translation_is_sent(
    browser: webtest.TestApp, name: str
) -> None:
    browser.get(f"/languages/{name}.json", status=404)


# Which language the page is in


def open_page(visit: Visit, site: str, *languages: str) -> tuple[Any, list[str]]:
    """Open the page before the sign-in, in a browser with these languages. Return it
    and the addresses of the translations that it asks for."""
    page = visit(base_url=site, locale=languages[0])
    named = json.dumps(languages)
    page.add_init_script(
        f"Object.defineProperty(navigator, 'languages', {{get: () => {named}}})"
    )
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.url.removeprefix(site)))
    page.goto("")
    page.get_by_role("button", name=re.compile("^sign in$", re.I)).wait_for()
    return page, [path for path in asked if path.startswith("languages/")]


def language_of(page: Any) -> str:
    return str(page.evaluate("document.documentElement.lang"))


@pytest.fixture
def spoken(write: Write, store: Any, request: Any) -> str:
    """The address of a service with translations."""
    write("pl", translation(language="Polski"))
    write("he", translation(language="Ivrit", direction="rtl"))
    write("zh-TW", translation(language="Taiwan"))
    write("pt-PT", translation(language="Portugal"))
    write("pt-BR", translation(language="Brasil"))
    return str(request.getfixturevalue("site"))


BEST = """cases => {
  const own = [...BROWSER_LANGUAGES];
  const codes = ["he", "pl", "pt-BR", "pt-PT", "zh-TW"];
  for (const code of codes) LANGUAGES[code] = code;
  const found = [...cases, own].map(names => {
    BROWSER_LANGUAGES.splice(0, BROWSER_LANGUAGES.length, ...names);
    return bestLanguage();
  });
  for (const code of codes) delete LANGUAGES[code];
  return found.slice(0, -1);
}"""


def test_the_best_language_is_the_first_of_the_browser_that_there_is(
    script: Any,
) -> None:
    best = {
        ("en-US",): "en-GB",
        ("en-US", "pl"): "en-GB",
        ("pl-PL", "en-US"): "pl",
        ("cy", "pl"): "pl",
        ("cy",): "en-GB",
        ("pt-BR",): "pt-BR",
        ("pt-PT",): "pt-PT",
        ("pt",): "pt-BR",
        ("zh-CN", "en"): "en-GB",
        ("zh-HK", "en"): "zh-TW",
    }
    assert script.evaluate(BEST, [*map(list, best)]) == [*best.values()]


@pytest.mark.parametrize(
    ("languages", "spoken_one"),
    [(["pl-PL", "en-US"], "pl"), (["en-US@posix"], "en-GB")],
)
def test_the_page_is_in_the_first_language_of_the_browser_that_it_has(
    visit: Visit, spoken: str, key: str, languages: list[str], spoken_one: str
) -> None:
    page, asked = open_page(visit, spoken, *languages)
    assert language_of(page) == spoken_one
    if spoken_one == "en-GB":
        assert asked == [], "English is in the script"
    else:
        assert asked == [f"languages/{spoken_one}.json"]
        see(page, "SIGN IN")


def test_the_page_runs_from_right_to_left_where_the_language_does(
    visit: Visit, spoken: str, key: str
) -> None:
    page, _ = open_page(visit, spoken, "he-IL")
    assert page.locator("html").get_attribute("dir") == "rtl"


def test_another_language_is_one_tap_away_before_the_sign_in(
    visit: Visit, spoken: str, key: str
) -> None:
    page, _ = open_page(visit, spoken, "pl")
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="Sign in").wait_for()
    page.reload()
    page.get_by_role("button", name="Sign in").wait_for()
    assert language_of(page) == "en-GB"
    page.get_by_role("button", name="Brasil").click()
    until(lambda: language_of(page) == "pt-BR")


def test_the_settings_choose_the_language_of_this_browser(
    spoken: str, anna: Any
) -> None:
    anna.goto("#settings/you")
    choices = anna.get_by_role("group", name="Language").get_by_role("button")
    choices.first.wait_for()
    assert choices.all_inner_texts()[0] == "English"
    choices.get_by_text("Polski").click()
    see(anna, "SIGN OUT")
    anna.reload()
    see(anna, "SIGN OUT")
    chosen = anna.get_by_role("button", name="Polski")
    assert chosen.get_attribute("aria-pressed") == "true"


def test_without_translations_there_is_no_choice(
    visit: Visit, key: str, site: str, service: catalogd.Web
) -> None:
    service.translations.clear()
    page, _ = open_page(visit, site, "pl")
    assert page.get_by_role("group").count() == 0


def test_a_choice_that_is_gone_is_none(visit: Visit, spoken: str, key: str) -> None:
    page, _ = open_page(visit, spoken, "pl")
    page.evaluate("localStorage.setItem('language', 'cy')")
    page.reload()
    see(page, "SIGN IN")


# Translations that nobody has read


@pytest.fixture
def by_machine(write: Write, store: Any, request: Any) -> str:
    write("pl", translation(language="Polski", machine=True))
    return str(request.getfixturevalue("site"))


def test_a_translation_by_machine_says_so_until_that_is_closed(
    visit: Visit, by_machine: str, key: str
) -> None:
    page, _ = open_page(visit, by_machine, "pl")
    note = page.get_by_role("complementary")
    assert note.inner_text().splitlines()[0] == "TRANSLATED BY MACHINE."
    note.get_by_role("button", name="CLOSE").click()
    note.wait_for(state="detached")
    page.reload()
    see(page, "SIGN IN")
    assert note.count() == 0


def test_english_is_one_tap_away_from_a_translation_by_machine(
    visit: Visit, by_machine: str, store: Any, key: str
) -> None:
    page, _ = open_page(visit, by_machine, "pl")
    page.get_by_role("complementary").get_by_role("button", name="English").click()
    page.get_by_role("button", name="Sign in").wait_for()
    assert page.get_by_role("complementary").count() == 0


def test_a_chosen_translation_by_machine_says_nothing(
    by_machine: str, anna: Any
) -> None:
    anna.goto("#settings/you")
    anna.get_by_role("button", name="Polski").click()
    see(anna, "SIGN OUT")
    assert anna.get_by_role("complementary").count() == 0


# Faulty texts


def test_a_text_that_is_missing_or_misshapen_is_english(
    visit: Visit, write: Write, store: Any, key: str, request: Any
) -> None:
    new = translation()
    del new["words"]["signIn"]
    new["words"]["password"] = {"one": "ONE PASSWORD"}
    new["words"]["sorts"] = "a group"
    new["words"]["signInLead"] = "<b>bold</b> {nmae}"
    del new["sentences"]["wrong_login"]
    write("pl", new)
    page, _ = open_page(visit, request.getfixturevalue("site"), "pl")
    page.get_by_label("Password").fill("a wrong one")
    page.get_by_label("NAME").fill("anna")
    see(page, "<b>bold</b> {nmae}")
    page.get_by_role("button", name="Sign in").click()
    see(page, "The name or the password is wrong.")


SAID = """([language, translation, counts]) => {
  speak(language, translation);
  const {queue, settings, marks, titles} = WORDS;
  const texts = [queue, settings, marks.failed, marks.link];
  const said = [...texts, ...counts.map(count => titles(count))];
  speak("en-GB", ENGLISH);
  return said;
}"""


def test_counts_have_the_forms_of_the_language(script: Any) -> None:
    forms = {form: f"{form} {{count}}" for form in ("one", "few", "many", "other")}
    new = {"words": {"titles": forms}, "sentences": {}}
    texts = script.evaluate(SAID, ["pl", new, [1, 2, 5, 21, 22, 0.5]])[4:]
    assert texts == ["one 1", "few 2", "many 5", "many 21", "few 22", "other 0,5"]


def test_a_text_that_a_translation_lacks_is_english(script: Any) -> None:
    words = {"queue": "Warteschlange", "marks": {"failed": "ging nicht"}}
    said = script.evaluate(SAID, ["de", {"words": words, "sentences": {}}, [2]])
    assert said == ["Warteschlange", "Settings", "ging nicht", "link", "2 titles"]


def test_a_pipe_among_the_translations_is_left_out(tmp_path: pathlib.Path) -> None:
    (tmp_path / "languages").mkdir()
    path = tmp_path / "languages" / "eo.json"
    os.mkfifo(path)
    found, left_out = catalogd.read_translations(str(tmp_path))
    assert "eo" not in found and "Put a file there." in left_out[str(path)]
