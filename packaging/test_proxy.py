"""The examples for nginx, Caddy and HAProxy, with other names, ports and folders: the
real programs in front of a real service, on a sub-path, with TLS."""

import contextlib
import email.message
import hashlib
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from conftest import TOP, Service, free_port, need, run, wait_for

CLIENT = "127.0.0.5"  # the address that the calls come from
NAME = "Pokémon #1 100% [v0]+.nsp"
CONTENT = hashlib.shake_128(b"content").digest(3_000)
PIECE = bytes(8 * 1024 * 1024)  # the longest piece of an upload
LARGE_BYTES = 64 * 1024 * 1024
PASSWORD = "correct horse"
AROUND_NGINX = """daemon off;
pid {folder}/nginx.pid;
error_log {folder}/main.log crit;
{user}
events {{}}
http {{
    include /etc/nginx/mime.types;
    gzip on;
    gzip_types *;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/catalogd.conf;
}}
"""
AROUND_CADDY = """{
	admin off
	auto_https off
	skip_install_trust
	default_bind 127.0.0.1
"""
# With the timeouts of Debian's /etc/haproxy/haproxy.cfg.
AROUND_HAPROXY = """global
    log stdout format raw local0
defaults
    log global
    mode http
    option httplog
    option dontlognull
    timeout connect 5000
    timeout client 50000
    timeout server 50000
"""


class Answer(NamedTuple):
    status: int
    headers: email.message.Message
    body: bytes


class Proxy(NamedTuple):
    """A program, its example, and the form of a line in its log. `write` writes its
    configuration and returns the command that runs it."""

    program: str
    example: str
    write: Callable[[pathlib.Path, int, int], list[Any]]
    line: str
    masked: str
    spellings: tuple[str, ...]


class Site:
    """A client of the service behind a proxy."""

    def __init__(self, service: Service, proxy: Proxy) -> None:
        self.service = service
        self.proxy = proxy
        self.folder = service.folder
        self.port = free_port()
        self.key = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        with contextlib.closing(self.connect()) as call:
            headers = {name.replace("_", "-"): text for name, text in headers.items()}
            call.request(method, path, body, headers)
            answer = call.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def connect(self) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        return http.client.HTTPSConnection(
            "localhost",
            self.port,
            timeout=30,
            context=trust,
            source_address=(CLIENT, 0),
        )

    def log(self, name: str = "catalogd.log") -> str:
        return (self.folder / name).read_text()

    def masked(self, below: str) -> str:
        """Return what the log has for a path below a console address."""
        return self.proxy.masked.format(below)

    def has_logged(self, method: str, path: str, status: int) -> bool:
        words = {"client": CLIENT, "method": method, "path": path, "status": status}
        line = self.proxy.line % {key: re.escape(str(words[key])) for key in words}
        return re.search(f"(?m)^{line}", self.log()) is not None

    def entry(self, name: str) -> str:
        """Return the path that downloads the file with this name."""
        path = f"/games/api/list?api_key={self.key}"
        entries = json.loads(self.call("GET", path).body)["entries"]
        [found] = [row for row in entries if row["source"].endswith(f"/{name}")]
        return f"/games/api/download/{found['id']}?api_key={self.key}"


def replaced(text: str, pairs: dict[str, str]) -> str:
    for old, new in pairs.items():
        assert old in text, f"the example has no {old}"
        text = text.replace(old, new)
    return text


def settings(proxy: Proxy, port: int, accel: bool, library: pathlib.Path) -> str:
    """Return the lines of catalogd.ini in the first comment of an example."""
    example = (TOP / "packaging" / proxy.example).read_text()
    ini = "\n".join(re.findall(r"^#     (.*)$", example, re.MULTILINE))
    pairs = {"https://home.example.org/": f"https://localhost:{port}/"}
    if not accel:
        pairs["accel_redirect = /catalogd-files"] = ""
    rows = f"[library]\nfolders = {library}\nscan_interval = 1\nsettle = 0\n"
    rows += f"inbox = {library}/Inbox\n"
    return f"{replaced(ini, pairs)}\n{rows}"


def write_nginx_conf(folder: pathlib.Path, service: int, port: int) -> list[Any]:
    pairs = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "listen [::]:443 ssl;": "",
        "home.example.org;": "localhost;",
        "/etc/ssl/certs/home.example.org.pem": f"{folder}/cert.pem",
        "/etc/ssl/private/home.example.org.key": f"{folder}/key.pem",
        "/var/log/nginx": f"{folder}",
        "127.0.0.1:6069": f"127.0.0.1:{service}",
        "/srv/games/": f"{folder}/library/",
    }
    example = (TOP / "packaging/nginx.conf").read_text()
    (folder / "catalogd.conf").write_text(replaced(example, pairs))
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(AROUND_NGINX.format(folder=folder, user=user))
    return ["nginx", "-p", folder, "-c", folder / "nginx.conf"]


def write_caddyfile(folder: pathlib.Path, service: int, port: int) -> list[Any]:
    pairs = {
        "\n{\n": f"\n{AROUND_CADDY}",
        "home.example.org {": f"https://localhost:{port} {{",
        "/etc/ssl/certs/home.example.org.pem": f"{folder}/cert.pem",
        "/etc/ssl/private/home.example.org.key": f"{folder}/key.pem",
        "/var/log/caddy": f"{folder}",
        "127.0.0.1:6069": f"127.0.0.1:{service}",
        "/srv/games": f"{folder}/library",
    }
    example = (TOP / "packaging/Caddyfile").read_text()
    (folder / "Caddyfile").write_text(replaced(example, pairs))
    home = [f"HOME={folder}", f"XDG_DATA_HOME={folder}", f"XDG_CONFIG_HOME={folder}"]
    return ["env", *home, "caddy", "run", "--config", folder / "Caddyfile"]


def write_haproxy_cfg(folder: pathlib.Path, service: int, port: int) -> list[Any]:
    pairs = {
        "bind :443 ": f"bind 127.0.0.1:{port} ",
        "/etc/haproxy/home.example.org.pem": f"{folder}/both.pem",
        "127.0.0.1:6069": f"127.0.0.1:{service}",
    }
    example = replaced((TOP / "packaging/haproxy.cfg").read_text(), pairs)
    (folder / "haproxy.cfg").write_text(AROUND_HAPROXY + example)
    certificate = [(folder / name).read_text() for name in ("cert.pem", "key.pem")]
    (folder / "both.pem").write_text("".join(certificate))
    run = f"exec haproxy -f {folder}/haproxy.cfg >{folder}/catalogd.log"
    return ["sh", "-c", run]


SPELLINGS = ("/games/dir/", "/games//dir/", "/games/DIR/")
NGINX = Proxy(
    "nginx",
    "nginx.conf",
    write_nginx_conf,
    r'%(client)s \[.*\] "%(method)s %(path)s" %(status)s ',
    "/games/dir/...{}",
    # It decodes all of these before it passes them on.
    (*SPELLINGS, "//games/d%69r/", "/games/x/../dir%2F"),
)
CADDY = Proxy(
    "caddy",
    "Caddyfile",
    write_caddyfile,
    r'.*"remote_ip":"%(client)s".*"method":"%(method)s".*"uri":"%(path)s"'
    r'.*"status":%(status)s',
    "/games/dir/...",
    SPELLINGS,
)
# Its settings are those of nginx, without accel_redirect.
HAPROXY = Proxy(
    "haproxy",
    "nginx.conf",
    write_haproxy_cfg,
    r'%(client)s \[.*\] "%(method)s %(path)s" %(status)s ',
    "/games/dir/...{}",
    (*SPELLINGS, "//games/d%69r/", "/games/dir%2F"),
)


@pytest.fixture(
    scope="module",
    params=[
        *[(NGINX, True), (NGINX, False), (CADDY, True), (CADDY, False)],
        (HAPROXY, False),
    ],
    ids=["nginx-accel", "nginx", "caddy-accel", "caddy", "haproxy"],
)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    proxy, accel = request.param
    need(proxy.program, "openssl")
    folder = tmp_path_factory.mktemp("site")
    library = folder / "library"
    (library / "Inbox").mkdir(parents=True)
    (library / NAME).write_bytes(CONTENT)
    (library / "large.nsp").touch()
    os.truncate(library / "large.nsp", LARGE_BYTES)
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files)
    service = Service(folder)
    found = Site(service, proxy)
    service.write_settings(settings(proxy, found.port, accel, library))
    command = proxy.write(folder, service.port, found.port)
    with service, open(folder / "proxy.log", "wb") as log:
        found.key = service.add_account(PASSWORD)
        found.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(lambda: NAME.encode() in list_body(found))
            yield found
        finally:
            found.process.terminate()
            found.process.wait(60)


def list_body(site: Site) -> bytes:
    with contextlib.suppress(ConnectionRefusedError):
        body = site.call("GET", f"/games/api/list?api_key={site.key}").body
        return json.dumps(json.loads(body), ensure_ascii=False).encode()
    return b""


@pytest.fixture
def cookie(site: Site) -> str:
    """Sign in as anna, and return the cookie."""
    body = {"username": "anna", "password": PASSWORD}
    answer = site.call("POST", "/games/web/login", body)
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_the_page_and_its_assets_are_below_the_sub_path(site: Site) -> None:
    page = site.call("GET", "/games/")
    assert page.status == 200
    for name in re.findall(rb'(?:href|src)="([^"]+)"', page.body):
        part = urllib.parse.urljoin("/games/", name.decode())
        assert part.startswith("/games/")
        assert site.call("GET", part).status == 200


def test_the_sub_path_without_its_slash_leads_to_the_page(site: Site) -> None:
    answer = site.call("GET", "/games")
    assert answer.status == 308
    top = f"https://localhost:{site.port}"
    page = urllib.parse.urljoin(f"{top}/games", answer.headers["Location"])
    assert page == f"{top}/games/"


def test_the_cookie_is_for_the_sub_path_and_for_tls_alone(site: Site) -> None:
    body = {"username": "anna", "password": PASSWORD}
    cookie = site.call("POST", "/games/web/login", body).headers["Set-Cookie"]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert parts >= {"path=/games", "secure", "httponly", "samesite=strict"}


def test_the_page_can_queue_with_its_cookie(site: Site, cookie: str) -> None:
    entry = site.entry(NAME).split("/")[4].partition("?")[0]
    origin = f"https://localhost:{site.port}"
    path, body = "/games/api/send-to-switch", {"entry_id": entry}
    answer = site.call("POST", path, body, Cookie=cookie, Origin=origin)
    assert (answer.status, json.loads(answer.body)["success"]) == (200, True)


def test_the_longest_piece_of_an_upload_arrives(site: Site, cookie: str) -> None:
    headers = {"Cookie": cookie, "Origin": f"https://localhost:{site.port}"}
    upload = {"name": "added.nsp", "size": len(PIECE)}
    begun = json.loads(site.call("POST", "/games/web/uploads", upload, **headers).body)
    headers |= {"Content-Type": "application/octet-stream", "Upload-Offset": "0"}
    with contextlib.closing(site.connect()) as call:
        path = f"/games/web/uploads/{begun['id']}"
        call.request("PATCH", path, PIECE, headers)
        assert call.getresponse().status == 200
    assert (site.folder / "library/Inbox/added.nsp").read_bytes() == PIECE


def test_the_page_of_another_site_cannot(site: Site, cookie: str) -> None:
    path, body = "/games/api/send-to-switch", {"entry_id": "x"}
    foreign = "https://other.example.org"
    assert site.call("POST", path, body, Cookie=cookie, Origin=foreign).status == 403


def test_a_download_is_whole_and_has_its_name(site: Site) -> None:
    answer = site.call("GET", site.entry(NAME), Accept_Encoding="gzip")
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Encoding"] is None
    exact = urllib.parse.quote(NAME, safe="")
    assert answer.headers["Content-Disposition"].endswith(f"UTF-8''{exact}")


def test_no_client_learns_the_path_of_the_file(site: Site) -> None:
    answer = site.call("GET", site.entry(NAME))
    assert str(site.folder) not in str(answer.headers)
    inside = f"/catalogd-files{site.folder}/library/{urllib.parse.quote(NAME)}"
    assert site.call("GET", inside).status == 404


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-1999", 1_000, 2_000),
        ("bytes=2990-", 2_990, 3_000),
        ("bytes=-10", 2_990, 3_000),
        ("bytes=0-999999", 0, 3_000),
    ],
)
def test_a_range_is_answered_with_its_bytes(
    site: Site, asked: str, start: int, stop: int
) -> None:
    answer = site.call("GET", site.entry(NAME), Range=asked)
    assert (answer.status, answer.body) == (206, CONTENT[start:stop])
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/3000"


def test_a_range_beyond_the_end_cannot_be_satisfied(site: Site) -> None:
    answer = site.call("GET", site.entry(NAME), Range="bytes=3000-")
    assert answer.status == 416
    assert answer.headers["Content-Range"] == "bytes */3000"


def test_a_download_can_be_resumed_with_its_validator(site: Site) -> None:
    path = site.entry(NAME)
    etag = site.call("HEAD", path).headers["ETag"]
    rest = site.call("GET", path, Range="bytes=2000-", If_Range=etag)
    assert (rest.status, rest.body) == (206, CONTENT[2_000:])
    whole = site.call("GET", path, Range="bytes=2000-", If_Range='"other"')
    assert (whole.status, whole.body) == (200, CONTENT)
    assert site.call("GET", path, If_None_Match=etag).status == 304
    assert site.call("GET", path, If_Match='"other"').status == 412


def test_head_has_the_size_and_no_body(site: Site) -> None:
    answer = site.call("HEAD", site.entry(NAME))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Length"] == "3000"


def test_the_header_may_carry_the_key(site: Site) -> None:
    path = site.entry(NAME).partition("?")[0]
    right = site.call("GET", path, Authorization=f"Bearer {site.key}")
    assert right.body == CONTENT
    assert site.call("GET", path, Authorization="Bearer wrong").status == 401
    assert site.call("GET", path).status == 401


def test_a_file_that_became_a_link_is_not_sent(site: Site) -> None:
    secret = site.folder / "secret.nsp"
    secret.write_text("secret")
    swapped = site.folder / "library/swapped.nsp"
    swapped.write_text("game")
    wait_for(lambda: b"swapped" in list_body(site))
    path = site.entry("swapped.nsp")
    swapped.unlink()
    swapped.symlink_to(secret)
    answer = site.call("GET", path)
    assert answer.status in (403, 404)
    assert b"secret" not in answer.body


def test_both_logs_have_the_address_of_the_client(site: Site) -> None:
    def is_told() -> bool:
        """The service tells of one such call a second: others came just before."""
        assert site.call("GET", "/games/nothing").status == 404
        return f"404 GET /nothing from {CLIENT}" in site.log("service.log")

    wait_for(is_told)
    wait_for(lambda: site.has_logged("GET", "/games/nothing", 404))


@pytest.fixture
def token(site: Site, cookie: str) -> str:
    """The token of anna's console address."""
    origin = f"https://localhost:{site.port}"
    answer = site.call("POST", "/games/web/dir", Cookie=cookie, Origin=origin)
    return str(json.loads(answer.body)["token"])


def test_a_console_address_serves_a_file_and_its_folders(
    site: Site, token: str
) -> None:
    base = f"/games/dir/{token}"
    page = site.call("GET", f"{base}/nsp/").body.decode()
    [link] = re.findall('href="(Pok[^"]*)"', page)
    assert site.call("GET", f"{base}//nsp/{link}").body == CONTENT
    folder = site.call("GET", f"{base}/nsp").headers["Location"]
    path = urllib.parse.urlsplit(urllib.parse.urljoin(f"{base}/nsp", folder)).path
    assert path == f"{base}/nsp/"


BELOW = ("", "/", "/all", "//nsp/nothing.nsp", "/dir/nothing.nsp", "/index.json?x")


def test_no_log_has_the_token_of_a_console_address(site: Site, token: str) -> None:
    for above in site.proxy.spellings:
        for below in BELOW:
            answer = site.call("GET", f"{above}{token}{below}")
            assert answer.status in (200, 301, 404)
    wait_for(lambda: site.has_logged("GET", site.masked("/all"), 301))
    site.call("GET", "/games/last")
    wait_for(lambda: site.has_logged("GET", "/games/last", 404))
    assert_no_log_has(site, token)


@pytest.mark.parametrize(
    "spelling",
    ["//dir//", "/d%69r/", "//%64ir//", "/dir%2F", "/./dir/./", "/dir;/", "/dir%5C"],
)
def test_another_spelling_of_it_leads_nowhere_or_is_masked_too(
    site: Site, token: str, spelling: str
) -> None:
    answer = site.call("GET", f"/games{spelling}{token}/index.json")
    if answer.status not in (401, 404):
        wait_for(lambda: site.has_logged("GET", site.masked("/index.json"), 200))
        assert_no_log_has(site, token)


def test_no_log_has_a_key(site: Site) -> None:
    site.call("GET", f"/games/api/nothing?api_key={site.key}")
    wait_for(lambda: "/games/api/nothing" in site.log())
    assert_no_log_has(site, site.key)


def assert_no_log_has(site: Site, secret: str) -> None:
    for path in site.folder.glob("*.log"):
        assert secret not in path.read_text(), path


def test_a_download_is_not_buffered_on_the_disk(site: Site) -> None:
    before = written_bytes(site.process.pid)
    with contextlib.closing(site.connect()) as call:
        call.request("GET", site.entry("large.nsp"))
        answer = call.getresponse()
        received = len(answer.read(1024))
        time.sleep(0.5)  # the client is slower than the disk
        while block := answer.read(1024 * 1024):
            received += len(block)
    assert received == LARGE_BYTES
    assert written_bytes(site.process.pid) - before < LARGE_BYTES / 64


def written_bytes(process: int) -> int:
    """Return how many bytes a process and its children have written to disks."""
    folder = pathlib.Path("/proc", str(process))
    [written] = re.findall(r"(?m)^write_bytes: (\d+)", (folder / "io").read_text())
    children = (folder / "task" / str(process) / "children").read_text().split()
    return int(written) + sum(written_bytes(int(child)) for child in children)


def test_an_error_of_the_proxy_is_logged_without_secrets(
    site: Site, token: str
) -> None:
    """The last test of each site: it stops the service."""
    site.service.stop()
    answers = [
        site.call("GET", f"/games/dir/{token}/nsp/"),
        site.call("GET", f"/games/api/list?api_key={site.key}"),
    ]
    [status] = {answer.status for answer in answers}
    assert status in (502, 503)
    wait_for(lambda: site.has_logged("GET", site.masked("/nsp/"), status))
    assert_no_log_has(site, token)
    assert_no_log_has(site, site.key)
