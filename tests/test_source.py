"""What the source says of itself, and that it stays true."""

import ast
import bisect
import configparser
import dis
import functools
import inspect
import operator
import pathlib
import re
import sys
import types
from collections.abc import Iterator

import pytest

import catalogd
import send_to_switch

PATH = pathlib.Path(catalogd.__file__)
SOURCE = PATH.read_text(encoding="utf-8")
BANNER = re.compile(r"^# (\w+) -+$", re.MULTILINE)
SIGN = re.compile(r"^# (\w+): \S.* ---$", re.MULTILINE)  # of a subject in a section
DOCSTRING = catalogd.__doc__ or ""
NAMES = re.findall(r"(\w+(?:\.\w+)?)\(\)|\b([A-Z]\w+\.\w+)", DOCSTRING)
LONGEST = 40  # lines of a function, without its docstring


def sections() -> dict[str, str]:
    """The text of each section by its name, in order."""
    _, *parts = BANNER.split(SOURCE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_docstring_lists_the_sections_in_their_order() -> None:
    first = DOCSTRING.partition("\nA file becomes")[0]
    rows = re.findall(r"^(\w+) {2,}\S", first, re.MULTILINE)
    assert rows == list(sections())


def test_the_functions_of_the_journeys_are_there() -> None:
    def is_there(name: str) -> bool:
        first, _, attribute = name.partition(".")
        for module in (catalogd, send_to_switch):
            found = getattr(module, first, None)
            if found and (not attribute or attribute in text_of(found)):
                return True
        return f"\nfunction {name}(" in SOURCE or f"\nasync function {name}(" in SOURCE

    names = sorted({one or other for one, other in NAMES})
    assert len(names) > 30
    assert [name for name in names if not is_there(name)] == []


def test_what_a_change_touches_is_there() -> None:
    text = (PATH.parent / "packaging" / "contributing.md").read_text(encoding="utf-8")
    table = text.partition("| Change | Places |")[2].partition("\n## ")[0]
    names = set(re.findall(r"`([A-Za-z_]{5,}(?:\.\w+)?)`", table)) - {"extensions"}
    script = set(re.findall(r"(?m)^(?:const|function) (\w+)", catalogd.JS))
    found = [operator.attrgetter(name)(catalogd) for name in names - script]
    assert len(found) > 8
    assert len(names & script) > 5


@functools.cache
def class_texts(module: str) -> dict[str, str]:
    """The text of each class of a module by its name."""
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines(keepends=True)
    return {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }


def text_of(kind: type) -> str:
    """The text of a class and of those that it is made of."""
    kinds = [
        each for each in kind.__mro__ if each.__module__ not in ("builtins", "_io")
    ]
    return "".join(class_texts(each.__module__)[each.__name__] for each in kinds)


def test_the_tables_have_all_threads_and_locks() -> None:
    pattern = r"(?m)^class (\w+)|self\.(\w+) = threading\.R?Lock\(\)"
    kind, locks = "", set()
    for name, lock in re.findall(pattern, SOURCE):
        kind = name or kind
        locks |= {f"{kind}.{lock}"} if lock else set()
    assert len(locks) > 10
    assert [lock for lock in sorted(locks) if lock not in DOCSTRING] == []
    calls = r"threading\.Thread\([^()]*name=|Lasting\("
    started = rf"(?:{calls})\"([\w ]+)\"|super\(\).__init__\(\"(\w+)\", self"
    threads = {one or other for one, other in re.findall(started, SOURCE)}
    assert threads >= {"asker", "console", "log end", "scanner", "upkeep"}
    table = DOCSTRING.partition("\nThreads: ")[2].partition("\nLocks: ")[0]
    assert [name for name in sorted(threads) if name not in table] == []


def test_every_banner_ends_in_column_80() -> None:
    assert {len(found[0]) for found in BANNER.finditer(SOURCE)} == {80}


def test_a_sign_names_the_section_that_it_is_in() -> None:
    for name, text in sections().items():
        assert {found[1] for found in SIGN.finditer(text)} <= {name}


@pytest.mark.parametrize(
    ("use", "where"),
    [
        ("sqlite3.", {"Store"}),
        ("bottle.", {"Downloads", "Web", "Menus"}),
        ("subprocess.", {"Consoles"}),
        (
            "threading.",
            {"Store", "Disk", "Scanner", "Inbox", "Downloads", "Server", "Consoles"}
            | {"Web", "Service"},
        ),
        ("waitress.", {"Server"}),
        ("os.scandir", {"Disk"}),
        ("platformdirs.", {"Commands"}),
        ("argparse.", {"Commands"}),
        ("print(", {"Service", "Commands"}),
    ],
)
def test_a_module_is_used_in_its_sections_alone(use: str, where: set[str]) -> None:
    pattern = re.compile(rf"(?<![\w.]){re.escape(use)}")
    found = {name for name, text in sections().items() if pattern.search(code(text))}
    assert found and found <= where


# What uses a name of a section below it, and why. A class that is only a hint in quotes
# is no use.
USED_EARLY = {
    ("Disks.__init__", "Inbox"): "a walk of its folder tidies the inbox's parts",
}


def test_each_section_uses_only_those_above_it() -> None:
    """In every function too: what a reader has not met yet is needed nowhere."""
    order = list(sections())
    firsts = [SOURCE.count("\n", 0, found.start()) for found in BANNER.finditer(SOURCE)]

    def section(line: int) -> int:
        return bisect.bisect(firsts, line) - 1  # -1 is the head of the file

    names = list(uses(compile(SOURCE, str(PATH), "exec")))
    defined = {name: line for line, name, where in reversed(names) if not where}
    early = {
        (where, name)
        for line, name, where in names
        if where and section(defined.get(name, 0)) > section(line)
    }
    assert len(order) == len(firsts) > 10 and len(defined) > 500
    assert early == set(USED_EARLY)


def uses(program: types.CodeType) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and function of all that is used of a module, or, with "" as
    the function, is defined in it."""
    line, is_module = program.co_firstlineno, program.co_name == "<module>"
    for step in dis.get_instructions(program):
        line = step.positions.lineno or line if step.positions else line
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield line, step.argval, program.co_qualname
        elif step.opname == "STORE_NAME" and is_module:
            yield line, step.argval, ""
    for constant in program.co_consts:
        if isinstance(constant, types.CodeType):
            yield from uses(constant)


def code(text: str) -> str:
    """Without comments and the docstrings of one or more lines."""
    return re.sub(r'(?m)#.*$|"""[\s\S]*?"""', "", text)


def test_the_script_needs_what_the_package_needs() -> None:
    block = re.search(r"(?ms)^# /// script\n(.*?)^# ///$", SOURCE)
    assert block
    script = re.sub(r"(?m)^# ", "", block[1])
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(PATH.with_name("setup.cfg"), encoding="utf-8")
    options = setup["options"]
    lines = options["install_requires"] + setup["options.extras_require"]["qr"]
    needed = [f'"{name}",' for name in lines.splitlines() if name]
    assert script == (
        f'requires-python = "{options["python_requires"]}"\n'
        f"dependencies = [\n    {' '.join(needed)}\n]\n"
    )


def functions() -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.FunctionDef):
            yield node


def length(function: ast.FunctionDef) -> int:
    """Its lines, with its signature and without its docstring."""
    whole = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    docstring = function.body[0]
    return whole - ((docstring.end_lineno or 0) - docstring.lineno + 1)


def test_no_function_is_long() -> None:
    assert [f.name for f in functions() if length(f) > LONGEST] == []


ACCESS = """
GET    /                                 open
GET    /style.css                        open
GET    /script.js                        open
GET    /icon.svg                         open
GET    /manifest.webmanifest             open
GET    /icon-192.png                     open
GET    /icon-512.png                     open
GET    /languages/<language>.json        open
GET    /healthz                          open
GET    /api/list                         key
GET    /api/download/<entry_id>          key
GET    /api/entries/<entry_id>/info      key
GET    /api/status                       key
POST   /api/send-to-switch               key or session
GET    /api/send-queue                   key
POST   /api/send-queue/progress          key
POST   /api/send-queue/update            key
POST   /api/on-console                   key
POST   /api/send-queue/addresses         key
GET    /api/send-queue/addresses         key
POST   /api/auth/login                   open
GET    /dir<path:re:(?:/.*)?>            dir
GET    <base:re:(?:/dir(?:/[^/]+)?)?>/api/<name:re:remote|shop>/sections menu
OPTIONS <base:re:(?:/dir(?:/[^/]+)?)?>/ menu
POST   <base:re:(?:/dir(?:/[^/]+)?)?>/api/graphql menu
GET    <base:re:(?:/dir(?:/[^/]+)?)?>/api/icons/<entry_id>/<digest>.<ending> menu
GET    /web/check                        token
GET    /web/check/scan                   token
POST   /web/check/scan                   token
GET    /web/me                           open
POST   /web/setup                        open
POST   /web/invitation                   open
POST   /web/invitation/accept            open
POST   /web/login                        open
POST   /web/logout                       session
POST   /web/password                     session
GET    /web/sessions                     session
POST   /web/sessions/end                 session
DELETE /web/sessions/<id>                session
GET    /web/addresses                    session
GET    /web/accounts                     admin
POST   /web/accounts                     admin
POST   /web/accounts/<account:re:[0-9]{1,18}> admin
DELETE /web/accounts/<account:re:[0-9]{1,18}> admin
GET    /web/invitations                  admin
POST   /web/invitations                  admin
DELETE /web/invitations/<id>             admin
POST   /web/accounts/<account:re:[0-9]{1,18}>/dir admin
GET    /web/entries                      session
GET    /web/download/<entry_id>          session
GET    /web/keys                         session
POST   /web/keys                         session
DELETE /web/keys/<key>                   session
POST   /web/pairing                      session
GET    /web/pairing                      session
POST   /api/pair                         open
POST   /web/devices                      admin
GET    /web/saves                        session
GET    /web/saves/<device>/<path:path>   session
POST   /web/consoles                     admin
POST   /web/devices/<device>             session
DELETE /web/devices/<device>             session
GET    /send_to_switch.py                open
GET    /web/dir                          session
POST   /web/dir                          session
DELETE /web/dir                          session
GET    /web/changes                      session
POST   /web/queue/<item>/<way:re:retry|replace> session
POST   /web/queue/<items>/cancel         session
POST   /web/queue/move                   session
POST   /web/queue/<item>/device          session
POST   /web/queue/clear                  session
POST   /web/queue/device                 session
POST   /web/queue/cancel                 session
POST   /web/queue/retry                  session
POST   /web/queue/undo                   session
POST   /web/send                         session
GET    /web/scan                         session
POST   /web/scan                         admin
DELETE /web/disks/<volume>               admin
POST   /web/links                        admin
DELETE /web/links/<entry_id>             admin
GET    /web/tidy                         admin
GET    /web/status                       admin
GET    /web/ages                         session
POST   /web/ages                         admin
POST   /web/backup/file                  admin
GET    /web/entries/<entry_id>           session
POST   /web/entries/<entry_id>           admin
POST   /web/entries/<entry_id>/undo      admin
GET    /web/icons/<entry_id>             session
GET    /web/uploads                      session
POST   /web/uploads                      session
PATCH  /web/uploads/<upload>             session
DELETE /web/uploads/<upload>             session
"""


def test_who_may_call_a_route_is_what_was_decided() -> None:
    """With each new route, decide here who may call it."""
    decided = [row.split(maxsplit=2) for row in ACCESS.strip().splitlines()]
    routes = [[rule.method, rule.path, rule.access] for rule in catalogd.ROUTES]
    assert sorted(routes) == sorted(decided)


RUNS = """
GET    /api/list                         lists
GET    /web/entries                      lists
GET    /api/download/<entry_id>          own thread
GET    /web/download/<entry_id>          own thread
POST   /web/backup/file                  own thread
GET    /web/saves                        own thread
GET    /web/saves/<device>/<path:path>   own thread
POST   /web/consoles                     own thread
POST   /web/uploads                      own thread
GET    /web/uploads                      own thread
PATCH  /web/uploads/<upload>             own thread
DELETE /web/uploads/<upload>             own thread
GET    /dir<path:re:(?:/.*)?>            own thread
GET    <base:re:(?:/dir(?:/[^/]+)?)?>/api/<name:re:remote|shop>/sections lists
POST   <base:re:(?:/dir(?:/[^/]+)?)?>/api/graphql lists
OPTIONS <base:re:(?:/dir(?:/[^/]+)?)?>/ workers
POST   /api/auth/login                   passwords
POST   /web/setup                        passwords
POST   /web/invitation                   passwords
POST   /web/invitation/accept            passwords
POST   /web/login                        passwords
POST   /web/password                     passwords
POST   /web/accounts                     passwords
POST   /web/invitations                  passwords
POST   /web/accounts/<account:re:[0-9]{1,18}> passwords
DELETE /web/accounts/<account:re:[0-9]{1,18}> passwords
"""


def test_the_threads_of_a_route_are_what_was_decided() -> None:
    """The others read on the workers, and write in the threads for writes."""
    decided = {tuple(row.split(maxsplit=2)) for row in RUNS.strip().splitlines()}
    others = {("GET", "workers"), ("POST", "writes"), ("DELETE", "writes")}
    routes = {(rule.method, rule.path, rule.runs) for rule in catalogd.ROUTES}
    assert decided <= routes
    assert {(method, runs) for method, _, runs in routes - decided} == others
