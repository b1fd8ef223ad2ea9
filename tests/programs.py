"""The table of programs on consoles, made from that of catalogd.

`python3 tests/programs.py` writes it into packaging/consoles.md.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import catalogd  # noqa: E402

PATH = ROOT / "packaging" / "consoles.md"
HEAD = "| Program | Target | Ports | Folder | Browses | Menu |"
RULE = re.sub(r"[^|]+", " --- ", HEAD)
TABLE = re.compile(rf"{re.escape(HEAD)}\n(\|.*\n)*")
DOES = {
    "installs": "installs at once",
    "keeps": "is saved on the card",
    "": "not known",
}


def row(program: catalogd.ConsoleProgram) -> str:
    ports = ", ".join(f"{port}: {DOES[does]}" for port, does in program.ports.items())
    target = f"`{program.scheme}://`" if program.scheme else ""
    folder = f"`{program.folder}`" if program.folder else ""
    browses = "yes" if program.steps else ""
    cells = (program.name, target, ports, folder, browses, program.menu)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def table() -> str:
    """Return the table in Markdown."""
    rows = [row(program) for program in catalogd.CONSOLE_PROGRAMS.values()]
    return "\n".join([HEAD, RULE, *rows]) + "\n"


def text() -> str:
    """Return the document with the table of today."""
    return TABLE.sub(lambda found: table(), PATH.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
