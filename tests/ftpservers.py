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

# Sphaira's folder "install:" over the real engine: its names exist, it takes packages
# while its menu is open, and a package that does not begin with "GOOD" closes the menu
# once its last byte has been taken. See its ftpsrv_helper.cpp, release 1.0.6.
INSTALL = r"""
#define ftp_vfs_open disk_open
#define ftp_vfs_close disk_close
#define ftp_vfs_stat disk_stat
#include "platform/unistd/vfs_unistd.c"
#undef ftp_vfs_open
#undef ftp_vfs_close
#undef ftp_vfs_stat
#include <errno.h>
#include <string.h>

static int is_closed, fd = -1;
static char last[4096];

static int installs(const char* path) { return !strncmp(path, "/install:/", 10); }

static int refuse(int why) { errno = why; return -1; }

int ftp_vfs_open(struct FtpVfsFile* f, const char* path, enum FtpVfsOpenMode mode) {
    if (!installs(path)) return disk_open(f, path, mode);
    const size_t size = strlen(path);
    if (mode != FtpVfsOpenMode_WRITE || is_closed) return refuse(EACCES);
    if (size < 4 || strcmp(path + size - 4, ".nsp")) return refuse(EINVAL);
    if (!strcmp(last, path)) return refuse(EEXIST);
    snprintf(last, sizeof(last), "%s", path);
    return fd = disk_open(f, path, mode);
}

int ftp_vfs_close(struct FtpVfsFile* f) {
    char head[4] = "";
    const int ours = f->valid && f->fd == fd, rc = disk_close(f);
    if (ours) {
        const int again = open(last, O_RDONLY);
        if (read(again, head, 4) != 4 || memcmp(head, "GOOD", 4)) is_closed = 1;
        close(again);
        fd = -1;
    }
    return rc;
}

int ftp_vfs_stat(const char* path, struct stat* st) {
    if (!installs(path)) return disk_stat(path, st);
    memset(st, 0, sizeof(*st));
    st->st_mode = S_IFREG | 0644;
    return 0;
}
"""


def servers() -> pathlib.Path:
    return pathlib.Path(os.environ.get("FTP_SERVERS", "/"))


def find(program: str) -> str:
    """Return the path of a server. It is skipped where there is none."""
    places = [str(servers() / place) for place in PLACES]
    if path := shutil.which(program, path=os.pathsep.join(places)):
        return path
    pytest.skip(f"needs {program}, in the system or in FTP_SERVERS")


def build(program: pathlib.Path, files: str = "") -> None:
    """Build ftpsrv, without libraries.
    :param files: source of what reads and writes files, in place of its own."""
    source = servers() / "ftpsrv" / "src"
    if not (source.is_dir() and shutil.which("gcc")):
        pytest.skip("needs the source of ftpsrv, in FTP_SERVERS, and gcc")
    at = source / "platform" / "unistd"
    headers = {"SOCKET": at / "socket_unistd.h", "VFS": at / "vfs_unistd.h"}
    options = [f"-D{name}=1" for name in FTPSRV_HAS.split()]
    options += [f'-DFTP_{name}_HEADER="{path}"' for name, path in headers.items()]
    options += ['-DFTPSRV_VERSION_HASH=""', '-DFTPSRV_VERSION_STR=""']
    parts = [f"{source / part}.c" for part in FTPSRV_PARTS]
    parts.append(str(at / "vfs_unistd.c"))
    if files:
        parts[-1] = f"{program}.c"
        pathlib.Path(parts[-1]).write_text(files)
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


def sphaira(folder: pathlib.Path, own: pathlib.Path, port: int) -> list[str]:
    """ftpsrv, with the folder that installs."""
    (folder / "install:").mkdir()
    build(folder / "ftpsrv", INSTALL)
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
    command = {**COMMANDS, "sphaira": sphaira}[name](folder, own, port)
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
