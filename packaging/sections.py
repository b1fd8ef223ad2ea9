#!/usr/bin/env python3
"""Write the map of catalogd.py into contributing.md, from the banners in the file: the
sections, where they begin, and what each may use."""

import pathlib
import re
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = TOP / "packaging/contributing.md"
BANNER = re.compile(r"(?m)^# (\w+) -{20,}\n((?:# .*\n)+)")
TABLE = re.compile(r"(?m)^\| Section \|.*\n(?:\|.*\n)+")


def rows(program: str) -> Iterator[str]:
    """Yield a row for each section."""
    for found in BANNER.finditer(program):
        line = program.count("\n", 0, found.start()) + 1
        text = found[2].replace("# ", "").replace("\n", " ").strip()
        use = re.search(r"It may (.*)\.", text)
        yield f"| [{found[1]}](../catalogd.py#L{line}) | {use[1] if use else '-'} |"


def mapped(document: str, program: str) -> str:
    """Return the document with the map of the program."""
    table = ["| Section | It may |", "| --- | --- |", *rows(program)]
    return TABLE.sub(lambda found: "\n".join([*table, ""]), document)


if __name__ == "__main__":
    program = (TOP / "catalogd.py").read_text(encoding="utf-8")
    text = mapped(DOCUMENT.read_text(encoding="utf-8"), program)
    DOCUMENT.write_text(text, encoding="utf-8", newline="\n")
