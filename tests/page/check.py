"""Check the page's script: its format with Prettier, ESLint's recommended rules, and
its types with the TypeScript compiler.

The tools are installed into .tox/.page, in the versions of package-lock.json. A check
that passed is not repeated while the script and the files here are the same. Without
node it is skipped, unless CI is true.

`--edit [http://localhost:6069]` has style sheet and script as files to edit, and shows
the page of a running `serve` with them at http://localhost:6070: see edit.py.
"""

import ast
import difflib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import edit

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / ".tox" / ".page"
TOOLS = WORK / "node_modules" / ".bin"
PASSED = WORK / "passed"  # a digest of what was checked last and is right


def script() -> tuple[int, str]:
    """Return the line of catalogd.py on which JS begins, and its text."""
    tree = ast.parse((ROOT / "catalogd.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "JS":
            return node.lineno, ast.literal_eval(node.value)
    raise LookupError("there is no JS in catalogd.py")


def install() -> None:
    """Install the tools, unless these versions are installed already."""
    installed = WORK / "node_modules" / "package-lock.json"
    lock = (HERE / "package-lock.json").read_bytes()
    WORK.mkdir(parents=True, exist_ok=True)
    for settings in [*HERE.glob("*.json"), *HERE.glob("*.mjs")]:
        shutil.copy(settings, WORK)
    if not installed.exists() or installed.read_bytes() != lock:
        npm = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=WORK, check=True)
        installed.write_bytes(lock)


def run(tool: str, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run one of the installed tools."""
    call = [str(TOOLS / tool), *arguments]
    return subprocess.run(call, cwd=WORK, encoding="utf-8", **how)


def is_formatted(text: str) -> bool:
    """Print the difference to what Prettier would write."""
    how = {"input": text, "stdout": subprocess.PIPE, "check": True}
    wanted = run("prettier", "--stdin-filepath", "catalogd.js", **how).stdout
    lines = text.splitlines(True), wanted.splitlines(True)
    sys.stdout.writelines(difflib.unified_diff(*lines, "catalogd.JS", "formatted"))
    return text == wanted


def has_no_findings(first_line: int, text: str) -> bool:
    """Run ESLint and the compiler, whose findings have the lines of catalogd.py."""
    blank_lines = "\n" * (first_line - 1)
    (WORK / "catalogd.js").write_text(blank_lines + text, encoding="utf-8")
    checks = [run("eslint", "catalogd.js"), run("tsc")]
    return not any(done.returncode for done in checks)


def digest(text: str) -> str:
    """Return a digest of all that a check depends on."""
    files = sorted(path for path in HERE.iterdir() if path.is_file())
    parts = [text.encode(), *(path.read_bytes() for path in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def main() -> int:
    if sys.argv[1:2] == ["--edit"]:
        return edit.main(ROOT / "catalogd.py", *sys.argv[2:])
    if shutil.which("npm") is None:
        print("The page's script was not checked: there is no node with npm.")
        return int(os.environ.get("CI") == "true")
    first_line, text = script()
    checked = digest(text)
    if PASSED.exists() and PASSED.read_text() == checked:
        print("The page's script is as it was when it passed.")
        return 0
    install()
    checks = [is_formatted(text), has_no_findings(first_line, text)]
    if all(checks):
        PASSED.write_text(checked)
    return 0 if all(checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
