"""catalogd and the servers that it is compared with, each in a process of its own.

nginx must be installed on the system, the others for the interpreter that runs this:
`pip install bottle waitress platformdirs copyparty uvicorn starlette`.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

import catalogd  # noqa: E402

KEY = catalogd.KEY_PREFIX + "benchmark"
HEADERS = {"Authorization": f"Bearer {KEY}"}
POLL = "/api/send-queue"
NGINX = """
worker_processes 1; daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nopush on; client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=2048; root {files}; }}
}}
"""

# The service over unchanged waitress, with bottle's static_file for files.
STOCK = """
import sys, bottle, waitress
sys.path.insert(0, {root!r})
import catalogd
settings = catalogd.Settings()
store = catalogd.Store({data!r})
web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
web.app.route("/<name>", callback=lambda name: bottle.static_file(
    name, {files!r}, "application/octet-stream"))
waitress.serve(web.app, host="127.0.0.1", port={port}, threads=4)
"""

# catalogd over a database whose files do not exist.
UNSCANNED = """
import sys
sys.path.insert(0, {root!r})
import catalogd
settings = catalogd.Settings(host="127.0.0.1", port={port})
store = catalogd.Store({data!r})
web = catalogd.Web(store, settings, catalogd.Scanner(store, settings))
catalogd.listen(web).run()
"""

# The same on a system without sendfile.
PLAIN = f"import os\ndel os.sendfile\n{UNSCANNED}"

# The framework that the first implementation of the interface used.
STARLETTE = """
import json, sys
sys.path.insert(0, {root!r})
import catalogd, uvicorn
from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Route
store = catalogd.Store({data!r})
def poll(request):
    key = request.headers["authorization"].removeprefix("Bearer ")
    caller = store.accounts.key_holder(catalogd.hash_token(key))
    items = store.clients.pending(caller.account)
    return JSONResponse({{"success": True, "queue": items}})
async def file(request):
    return FileResponse({files!r} + "/" + request.path_params["name"])
app = Starlette(routes=[Route("/api/send-queue", poll), Route("/{{name}}", file)])
uvicorn.run(app, host="127.0.0.1", port={port}, log_level="warning")
"""


class Server:
    """A server that is running. `path` maps the name of a file to its address."""

    def __init__(
        self, name: str, port: int, process: "subprocess.Popen[bytes]"
    ) -> None:
        self.name = name
        self.port = port
        self.process = process
        self.paths: dict[str, str] = {}

    def path(self, file: str) -> str:
        return self.paths.get(file, f"/{file}")

    def processes(self) -> list[int]:
        """Return the ids of the process and its children."""
        task = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [self.process.pid, *map(int, pathlib.Path(task).read_text().split())]

    def cpu(self) -> float:
        """Return the processor time so far in seconds (clock_getcpuclockid)."""
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in self.processes())

    def memory(self) -> float:
        """Return the resident memory in MB."""
        pages = [
            int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
            for pid in self.processes()
        ]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bench:
    """A folder with files and a database, and the servers over it."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.files = home / "files"
        self.data = home / "data"
        self.files.mkdir()

    def add(self, name: str, size: int) -> None:
        """Write a file of random bytes that was last changed long ago."""
        block = os.urandom(1024 * 1024)
        with open(self.files / name, "wb") as file:
            for _ in range(size // len(block)):
                file.write(block)
            file.write(block[: size % len(block)])
        os.utime(self.files / name, (1_600_000_000, 1_600_000_000))

    def warm(self) -> None:
        """Read all files into the page cache again."""
        for file in self.files.iterdir():
            subprocess.run(["cat", file], stdout=subprocess.DEVNULL, check=True)

    def fill_store(self) -> dict[str, str]:
        """Scan the files and add the key. Return the path of each file by its name."""
        settings = catalogd.Settings(folders=(str(self.files),))
        with contextlib.closing(catalogd.Store(str(self.data))) as store:
            if not store.accounts.exist():
                account = store.accounts.add("anna", catalogd.hash_password("x" * 8))
                store.accounts.add_key(account, "benchmark", catalogd.hash_token(KEY))
            catalogd.Scanner(store, settings).scan()
            return {
                os.path.basename(row.file.path): f"/api/download/{row.id}"
                for row in store.entries.files()
            }

    @contextlib.contextmanager
    def run(self, name: str, preload: str = "", **env: str) -> Iterator[Server]:
        """Run catalogd, plain, unscanned, nginx, copyparty, stock or starlette."""
        paths = self.fill_store()
        port = free_port()
        environ = {**os.environ, **env, "LD_PRELOAD": preload, "HOME": str(self.home)}
        with open(self.home / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                self._command(name, port),
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.home,
            )
        server = Server(name, port, process)
        server.paths = paths if name in ("catalogd", "plain") else {}
        try:
            self._wait(server)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
            process.kill()
            process.wait()

    def _command(self, name: str, port: int) -> Sequence[str]:
        python = sys.executable
        where = {
            "root": str(ROOT),
            "port": port,
            "files": str(self.files),
            "data": str(self.data),
            "home": str(self.home),
        }
        if name == "nginx":
            conf = self.home / "nginx.conf"
            conf.write_text(
                ("user root;" if os.geteuid() == 0 else "") + NGINX.format(**where)
            )
            return [shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(conf)]
        if name == "copyparty":
            listen = ["-i", "127.0.0.1", "-p", str(port), "--http-only", "-q"]
            return [python, "-m", "copyparty", *listen, "-nw", "-v", f"{self.files}::r"]
        scripts = {"stock": STOCK, "starlette": STARLETTE}
        scripts |= {"unscanned": UNSCANNED, "plain": PLAIN}
        if name in scripts:
            script = self.home / f"run_{name}.py"
            script.write_text(scripts[name].format(**where))
            return [python, str(script)]
        serve = [python, str(ROOT / "catalogd.py"), "serve", str(self.files)]
        where_to = ["--host", "127.0.0.1", "--port", str(port)]
        return [*serve, *where_to, "--data-dir", str(self.data)]

    @staticmethod
    def _wait(server: Server) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", server.port)).close()
                return
            except OSError:
                if time.monotonic() > end or server.process.poll() is not None:
                    raise RuntimeError(f"{server.name} does not answer") from None
                time.sleep(0.1)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        print("|", " | ".join(str(cell) for cell in row), "|", flush=True)
