#!/usr/bin/env python3
"""Build what is released, with its SHA256SUMS. The same tree gives the same bytes.

deb    the Debian package; needs: sudo apt install --no-install-recommends debhelper
pyz    one file with the program and its packages, for Python 3.11 or later
wheel  the source archive, and the wheel
exe    one file that needs no Python, for the system that builds it; on Debian it needs:
       sudo apt install binutils libpython3-dev
image  an image for Docker and podman, as a file that they load; needs: buildah
release  all of these, but for what this system cannot build, which is told, and the
       notes of this version from CHANGELOG.md

All but deb and image need pip; on Debian: sudo apt install python3-pip
"""

import argparse
import datetime
import email.utils
import gzip
import hashlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

TOP = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "packaging/requirements.txt"
BUILD_PACKAGES = "packaging/requirements-build.txt"
PYINSTALLER = "pyinstaller==6.22.3"
Path = pathlib.Path


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = f"default: {' '.join(usual_forms())}"
    choices = [*FORMS, "release", []]
    parser.add_argument("form", nargs="*", choices=choices, help=text)
    text = "folder for the files (default: %(default)s)"
    parser.add_argument(
        "--to", metavar="FOLDER", type=Path, default=TOP / "dist", help=text
    )
    options = parser.parse_args(argv)
    os.environ.update(SOURCE_DATE_EPOCH=str(released()), PYTHONHASHSEED="0", TZ="UTC")
    os.umask(0o022)
    options.to.mkdir(parents=True, exist_ok=True)
    is_release = "release" in options.form
    for form in FORMS if is_release else options.form or usual_forms():
        try:
            made = build(form, options.to)
        except SystemExit as problem:
            if not (is_release and form in DEPEND_ON_SYSTEM):
                raise
            print(f"{form} is left out. {problem}", file=sys.stderr)
            continue
        print(*made, sep="\n")
    (options.to / "SHA256SUMS").write_text(sums(options.to), newline="\n")
    if is_release:
        (options.to / "notes.md").write_text(notes(), encoding="utf-8", newline="\n")
    return 0


def sums(folder: Path) -> str:
    """Return the lines of SHA256SUMS for all files of a folder, also of other runs."""
    others = ("SHA256SUMS", "notes.md")
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    files = [path for path in files if path.name not in others]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    names = [path.name for path in files]
    return "".join(map("{}  {}\n".format, digests, names))


def build(form: str, to: Path) -> list[Path]:
    """Build a form in a folder of its own, and return copies of its files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = sorted(FORMS[form](copied_tree(Path(folder, "tree"))))
        return [Path(shutil.copy(path, to)) for path in paths]


def version() -> str:
    program = (TOP / "catalogd.py").read_text(encoding="utf-8")
    return str(re.findall(r'(?m)^__version__ = "(.*)"$', program)[0])


def notes() -> str:
    """Return what CHANGELOG.md has on this version, or on what is not released yet."""
    text = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
    title = rf"(?:{re.escape(version())}|Unreleased)\b"
    section = rf"(?ms)^## {title}[^\n]*\n+(.*?)(?=^## |\Z)"
    if not (found := re.search(section, text)):
        fail(f"CHANGELOG.md has no section on {version()}")
    return found[1].rstrip() + "\n"


def usual_forms() -> list[str]:
    return (
        ["exe", "pyz", "wheel"] if sys.platform == "win32" else ["deb", "pyz", "wheel"]
    )


def released() -> int:
    """Return the time of this version, by Debian's changelog, which must name it."""
    text = (TOP / "packaging/debian/changelog").read_text(encoding="utf-8")
    [theirs] = re.findall(r"\Acatalogd \((.*)\) ", text)
    if version() != theirs:
        fail(f"catalogd.py is {version()}, packaging/debian/changelog is {theirs}")
    [date, *_] = re.findall(r"(?m)^ -- .*>  (.*)$", text)
    return int(email.utils.parsedate_to_datetime(date).timestamp())


def fail(message: str) -> None:
    raise SystemExit(f"build.py: {message}")


def copied_tree(tree: Path) -> Path:
    """Copy the project without what git ignores, with plain permissions and times."""
    ignored = (TOP / ".gitignore").read_text(encoding="utf-8").split()
    junk = shutil.ignore_patterns(".git", *(name.strip("/") for name in ignored))
    shutil.copytree(TOP, tree, ignore=junk)
    for path in tree.rglob("*"):
        is_program = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (released(), released()))
    return tree


def run(*command: Any, **options: Any) -> None:
    """Run a command. It prints only where it fails, which ends this program."""
    words = [str(word) for word in command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, text=True, **pipes, **options)
    if done.returncode:
        fail(f"{words[0]} has failed:\n{done.stdout}")


def install(folder: Path, *words: Any) -> Path:
    """Install packages into a folder."""
    if importlib.util.find_spec("pip") is None:
        fail("this needs pip; on Debian: sudo apt install python3-pip")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    pip += ["--disable-pip-version-check", "--root-user-action=ignore"]
    run(*pip, "--only-binary=:all:", "--upgrade", "--target", folder, *words)
    return folder


# The forms --------------------------------------------------------------------
# Each is built in a tree of its own, and returns the files that it has made.


def build_deb(tree: Path) -> Iterable[Path]:
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        fail("deb needs: sudo apt install --no-install-recommends debhelper")
    (tree / "packaging/debian").rename(tree / "debian")
    # Nothing is compiled, so that build-essential, which it asks for, is not needed.
    options = ("--build=binary", "--no-sign", "--no-check-builddeps")
    run("dpkg-buildpackage", *options, cwd=tree)
    return tree.parent.glob("*.deb")


def build_pyz(tree: Path) -> Iterable[Path]:
    folder = install(tree.parent / "pyz", "-r", tree / PACKAGES)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for name in ("RECORD", "INSTALLER", "REQUESTED"):  # vary with pip
        for path in folder.glob(f"*.dist-info/{name}"):
            path.unlink()
    shutil.copy(tree / "catalogd.py", folder)
    shutil.copy(tree / "send_to_switch.py", folder)  # served to devices
    shutil.copytree(tree / "packaging/languages", folder / "languages")
    shutil.copy(tree / "packaging/demo.py", folder)
    code = "import catalogd; raise SystemExit(catalogd.main())\n"
    (folder / "__main__.py").write_text(code)
    archive = tree.parent / "catalogd.pyz"
    with open(archive, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        pack(folder, file)
    archive.chmod(0o755)
    return [archive]


def pack(folder: Path, file: io.BufferedWriter) -> None:
    """Append all files of a folder as a zip archive."""
    moment = datetime.datetime.fromtimestamp(released(), datetime.UTC)
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            info = zipfile.ZipInfo(name, moment.timetuple()[:6])
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)


def build_wheel(tree: Path) -> Iterable[Path]:
    folder = install(tree.parent / "packages", "-r", tree / BUILD_PACKAGES)
    code = "from setuptools.build_meta import *; build_sdist('..'); build_wheel('..')"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    run(sys.executable, "-c", code, cwd=tree, env=environment)
    [source] = tree.parent.glob("*.tar.gz")
    repack(source)
    return [source, *tree.parent.glob("*.whl")]


def repack(archive: Path) -> None:
    """Write a .tar.gz again, without the times and owners of the files."""
    with tarfile.open(archive) as packed:
        files = [member for member in packed.getmembers() if member.isfile()]
        bodies = {member.name: packed.extractfile(member).read() for member in files}
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as packed:
        for old in sorted(files, key=lambda member: member.name):
            new = tarfile.TarInfo(old.name)
            new.size, new.mode, new.mtime = old.size, old.mode, released()
            packed.addfile(new, io.BytesIO(bodies[old.name]))
    archive.write_bytes(gzip.compress(body.getvalue(), mtime=0))


def build_exe(tree: Path) -> Iterable[Path]:
    folder = install(tree.parent / "packages", PYINSTALLER)
    install(folder, "-r", tree / PACKAGES)
    made = tree.parent / "made"
    words = ["--log-level=WARN", "--distpath", made, "packaging/catalogd.spec"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    run(sys.executable, "-m", "PyInstaller", *words, cwd=tree, env=environment)
    return made.iterdir()


def build_image(tree: Path) -> Iterable[Path]:
    if not shutil.which("buildah"):
        fail("image needs: sudo apt install buildah")
    name, image = f"catalogd:{version()}", tree.parent / "catalogd-image.tar"
    file = tree / "packaging/Containerfile"
    run("buildah", "bud", "--format", "docker", "-t", name, "-f", file, tree)
    run("buildah", "push", name, f"docker-archive:{image}:{name}")
    return [image]


DEPEND_ON_SYSTEM = ("deb", "exe", "image")
FORMS: dict[str, Callable[[Path], Iterable[Path]]] = {
    "deb": build_deb,
    "pyz": build_pyz,
    "wheel": build_wheel,
    "exe": build_exe,
    "image": build_image,
}


if __name__ == "__main__":
    raise SystemExit(main())
