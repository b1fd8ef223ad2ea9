"""FTP servers as programs, each over one folder, for the tests of saves, as root.

They are those of the machine, or of the folder that FTP_SERVERS names: the packages of
Debian, which cannot be installed together, unpacked there, and the source of ftpsrv,
the server in Sphaira, which is built, in a folder `ftpsrv`.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from conftest import free_port, wait_for

PLACES = ("usr/sbin", "usr/bin", "")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
FTPSRV_PARTS = ("ftpsrv", "args/args", "platform/unistd/main")
FTPSRV_HAS = "FTP_VFS_FD HAVE_LSTAT HAVE_READLINK HAVE_POLL HAVE_STRNCASECMP"
FTPSRV_HAS += " HAVE_GMTIME_R HAVE_LOCALTIME_R HAVE_TCP_NODELAY HAVE_SO_REUSEADDR"
VSFTPD = """
listen=YES
listen_address=127.0.0.1
listen_port={port}
anonymous_enable=YES
anon_root={folder}
anon_world_readable_only=NO
allow_writeable_chroot=YES
secure_chroot_dir={own}
ftp_username=daemon
nopriv_user=daemon
background=NO
seccomp_sandbox=NO
"""
PROFTPD = """
ServerType standalone
Port {port}
DefaultAddress 127.0.0.1
UseIPv6 off
User root
Group root
PidFile {own}/pid
ScoreboardFile {own}/scores
DelayTable none
WtmpLog off
SystemLog none
TransferLog none
RequireValidShell off
RootLogin on
<Anonymous {folder}>
  User root
  Group root
  UserAlias anonymous root
  RequireValidShell off
</Anonymous>
"""


def servers() -> pathlib.Path:
    return pathlib.Path(os.environ.get("FTP_SERVERS", "/"))


def find(program: str) -> str:
    """Return the path of a server. It is skipped where there is none."""
    places = [str(servers() / place) for place in PLACES]
    if path := shutil.which(program, path=os.pathsep.join(places)):
        return path
    pytest.skip(f"needs {program}, in the system or in FTP_SERVERS")


def build(program: pathlib.Path) -> None:
    """Build ftpsrv, without libraries."""
    source = servers() / "ftpsrv" / "src"
    if not (source.is_dir() and shutil.which("gcc")):
        pytest.skip("needs the source of ftpsrv, in FTP_SERVERS, and gcc")
    at = source / "platform" / "unistd"
    headers = {"SOCKET": at / "socket_unistd.h", "VFS": at / "vfs_unistd.h"}
    options = [f"-D{name}=1" for name in FTPSRV_HAS.split()]
    options += [f'-DFTP_{name}_HEADER="{path}"' for name, path in headers.items()]
    options += ['-DFTPSRV_VERSION_HASH=""', '-DFTPSRV_VERSION_STR=""']
    parts = [
        f"{source / part}.c" for part in (*FTPSRV_PARTS, "platform/unistd/vfs_unistd")
    ]
    command = ["gcc", "-w", "-O1", "-static", "-I", str(source), *options, *parts]
    if subprocess.run([*command, "-o", str(program)], capture_output=True).returncode:
        pytest.skip("ftpsrv cannot be built here")


def vsftpd(folder: pathlib.Path, own: pathlib.Path, port: int) -> list[str]:
    config = own / "vsftpd.conf"
    config.write_text(VSFTPD.format(port=port, folder=folder, own=own))
    return [find("vsftpd"), str(config)]


def proftpd(folder: pathlib.Path, own: pathlib.Path, port: int) -> list[str]:
    config = own / "proftpd.conf"
    config.write_text(PROFTPD.format(port=port, folder=folder, own=own))
    return [find("proftpd"), "--nodaemon", "--config", str(config)]


def pure_ftpd(folder: pathlib.Path, own: pathlib.Path, port: int) -> list[str]:
    """It has one user, me, whose password is "secret"."""
    known, table = str(own / "users"), str(own / "users.pdb")
    add = [find("pure-pw"), "useradd", "me", "-u", "nobody", "-d", str(folder)]
    secret = b"secret\nsecret\n"
    subprocess.run([*add, "-f", known, "-F", table, "-m"], input=secret, check=True)
    options = ["--login", f"puredb:{table}", "--bind", f"127.0.0.1,{port}"]
    options += ["--dontresolve", "--chrooteveryone", "--pidfile", str(own / "pid")]
    return [find("pure-ftpd"), *options, "--maxclientsperip", "50", "--minuid", "1"]


def ftpsrv(folder: pathlib.Path, own: pathlib.Path, port: int) -> list[str]:
    """Its root is that of the system, which is the folder for this program."""
    build(folder / "ftpsrv")
    return ["chroot", str(folder), "/ftpsrv", f"--port={port}", "--anon=1"]


COMMANDS: dict[str, Callable[[pathlib.Path, pathlib.Path, int], list[str]]] = {
    "vsftpd": vsftpd,
    "proftpd": proftpd,
    "pure-ftpd": pure_ftpd,
    "ftpsrv": ftpsrv,
}


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def running(name: str, folder: pathlib.Path, own: pathlib.Path) -> Iterator[str]:
    """Serve a folder by this program, and yield its address.
    :param own: a folder for what the program needs."""
    port = free_port()
    command = COMMANDS[name](folder, own, port)
    libraries = os.pathsep.join(str(servers() / place) for place in LIBRARIES)
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    with open(own / "log", "wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or is_open(port))
        if process.poll() is not None:
            pytest.skip(f"{name} does not run here: {(own / 'log').read_text()[-200:]}")
        yield f"ftp://{'me:secret@' * (name == 'pure-ftpd')}127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=30)
