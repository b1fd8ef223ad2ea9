"""Sentences of the server and of its client: each that the page may show has a code, by
which the page, and a translation of it, has a text of its own."""

import ast
import collections
import pathlib
import types
from collections.abc import Iterable, Iterator

import pytest

import catalogd
import send_to_switch

# What the page does not show: answers to other programs and to commands, and to
# mistakes that the page does not make.
NOT_SHOWN = {
    "",
    "The API key is missing.",
    "The API key is not valid.",
    "The address is wrong, or was replaced or revoked.",
    "The body is not a JSON object.",
    "The body is not valid JSON.",
    "The body must have either entries or a title.",
    "The entry has no icon.",
    "The entry is a link, or its file is gone.",
    "The header Upload-Offset is not a whole number from 0.",
    "The item is not being sent.",
    "The item is {}.",
    "The query asks for what this server does not have.",
    "The query is malformed.",
    "The query is too long, or too deep.",
    "The token is not that of this service.",
    "There is no account {}.",
    "There is no file with the id {}.",
    "There is no library at this address.",
    "There is no such file.",
    "This server does not have it: put it beside catalogd.py.",
    "[library] inbox: {} {}",
    "[library] saves: {} is in a library folder.",
    "queue_item_ids has more than {} ids.",
    "The pairing code is wrong, was used, or is older than ten minutes. Make a new one"
    " on the page.",
    "{}: cannot be used: {}",
    "{}: was made by an older catalogd. Restart the service: it upgrades the database.",
    "{}: is not a backup of catalogd, or is damaged.",
    "{}: was made by a newer catalogd. Update it, or restore an older copy.",
    "{}.",
    "{} is of another type than {}.",
    "{}: is a database of another program.",
    "{}: is there already, and is not a backup.",
    "{}: the path is not valid UTF-8. Rename the folder.",
}


def parsed(module: types.ModuleType) -> ast.Module:
    source = pathlib.Path(str(vars(module)["__file__"])).read_text(encoding="utf-8")
    return ast.parse(source)


def template(node: ast.AST | None, known: dict[str, str]) -> str:
    """Return the text that an expression makes, with {} for what varies in it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(template(value, known) for value in values)
        case ast.FormattedValue(value=value):
            return template(value, known)
        case ast.Name(id=name):
            return known.get(name, "{}")
    return "{}"


def errors(code: ast.AST, kinds: Iterable[str], known: dict[str, str]) -> Iterator[str]:
    """Yield the texts of the errors that some code makes, with {} in them."""
    for node in ast.walk(code):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = template(value, known)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                known[name] = known.get(name, "") + template(value, known)
    for node in ast.walk(code):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[text, *_]) if name in kinds:
                yield template(text, known)


def placed(text: str) -> list[str]:
    """Return the parts of a text, which its placeholders are between."""
    return catalogd.PLACEHOLDER.split(text)


def texts(module: types.ModuleType) -> list[str]:
    """Return the constant texts of a module in their order."""
    nodes = [
        node for node in ast.walk(parsed(module)) if isinstance(node, ast.Constant)
    ]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return [str(node.value) for node in nodes]


def test_every_sentence_of_calls_has_a_code() -> None:
    kinds = {name for name, thing in vars(catalogd).items() if is_problem(thing)}
    found: set[str] = set()
    source = pathlib.Path(catalogd.__file__).read_text(encoding="utf-8")
    fields, _, others = source.partition("\n# Settings -")
    names = others[others.index("\n# Names -") : others.index("\n# Page -")]
    calls = fields[fields.index("\n# Fields -") :] + names
    for node in ast.parse(calls).body:
        found.update(errors(node, {*kinds, "kind"}, {}))
    assert found - catalogd.SENTENCES.keys() - {"{}"} <= NOT_SHOWN


def is_problem(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, catalogd.Problem)


CLIENT_TEXTS = {  # of problems that have no code: settings, and what others answer
    "{}",
    "",
    "{} cannot answer now: {}.",
    "The server is down: status {}.",
    "{} is a server for {}. Use {}.",
}


def test_the_client_and_the_server_have_the_same_sentences() -> None:
    for code, text in send_to_switch.SENTENCES.items():
        assert catalogd.forms(catalogd.SENTENCES[code])["other"] == text


def test_every_sentence_of_the_client_is_used_and_every_problem_has_one() -> None:
    counts = collections.Counter(texts(send_to_switch))
    assert [code for code in send_to_switch.SENTENCES if counts[code] < 2] == []
    kinds = {
        name
        for name, thing in vars(send_to_switch).items()
        if isinstance(thing, type)
        and issubclass(thing, (send_to_switch.Failed, send_to_switch.Offline))
    }
    found: set[str] = set()
    for node in ast.walk(parsed(send_to_switch)):
        if isinstance(node, ast.FunctionDef):
            found.update(errors(node, kinds, {}))
    assert found - send_to_switch.SENTENCES.keys() <= CLIENT_TEXTS


def test_a_problem_is_told_by_its_code_and_known_again() -> None:
    worn = send_to_switch.Failed("card_worn")
    why = send_to_switch.Interrupted("from_start", why=worn)
    problem = send_to_switch.Failed("gave_up", why=why, count=3)
    inner = {"code": "card_worn", "arguments": {}}
    arguments = {"why": {"code": "from_start", "arguments": {"why": inner}}, "count": 3}
    fields = {"error_code": "gave_up", "error_arguments": arguments}
    assert problem.fields() == {**fields, "error_message": str(problem)}
    assert catalogd.reported("gave_up", arguments) == str(problem)


@pytest.mark.parametrize("text", ["{odd", "x" * 3000])
def test_a_problem_without_a_code_is_told_by_its_text(text: str) -> None:
    problem = send_to_switch.Failed(text)
    fields = {"error_message": text[:500], "error_code": ""}
    assert problem.fields() == fields
    assert (problem.told(), str(problem)) == (text, text)
    long = send_to_switch.Failed("ftp_full", why="é" * 1000).fields()
    assert long.keys() == fields.keys() and long["error_code"] == ""


def test_every_code_is_used() -> None:
    counts = collections.Counter(texts(catalogd))
    elsewhere = {code for code, _ in catalogd.HTTP_ERRORS.values()}
    elsewhere.add("database_failed_at")  # is made of two sentences
    for code in catalogd.SENTENCES.keys() - send_to_switch.SENTENCES.keys():
        assert counts[code] > 1 or code in elsewhere, code


@pytest.mark.parametrize("code", catalogd.SENTENCES)
def test_a_sentence_has_its_code_and_what_varies_in_it(code: str) -> None:
    names = placed(catalogd.forms(catalogd.SENTENCES[code])["other"])[1::2]
    of = {name: f"a {name}. b:" for name in names}
    text = catalogd.say(code, *of.values())
    assert catalogd.coded(text) == {"reason": code, "arguments": of}


@pytest.mark.parametrize("code", catalogd.SENTENCES)
def test_each_form_of_a_sentence_has_the_same_placeholders(code: str) -> None:
    forms = catalogd.forms(catalogd.SENTENCES[code])
    names = placed(forms["other"])[1::2]
    assert len(names) == len(set(names))
    assert all(placed(text)[1::2] == names for text in forms.values())
    assert forms.keys() == {"other"} or "count" in names


@pytest.mark.parametrize("count", [1, 3])
def test_a_sentence_has_a_form_for_its_number(count: int) -> None:
    text = catalogd.say("gave_up", catalogd.say("disk_full"), count)
    assert text.endswith("after 1 attempt." if count == 1 else "after 3 attempts.")
    why = {"code": "disk_full", "arguments": {}}
    assert catalogd.coded(text)["arguments"] == {"why": why, "count": str(count)}


def test_a_sentence_may_be_in_another_one() -> None:
    full = catalogd.say("no_room", "/copies/a.db", "0.8 MB")
    arguments = catalogd.coded(catalogd.say("backup_failed", full))["arguments"]
    room = {"path": "/copies/a.db", "size": "0.8 MB"}
    assert arguments == {"why": {"code": "no_room", "arguments": room}}


@pytest.mark.parametrize("text", ["", "ready", "Bad Gateway", "The disk is full."])
def test_a_text_from_elsewhere_has_no_code(text: str) -> None:
    assert catalogd.coded(text) == {}
