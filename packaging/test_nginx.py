"""nginx.conf, with other names, ports and folders, in a real nginx in front of a real
service: on a sub-path, with TLS."""

import base64
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
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from conftest import TOP, free_port, get, need, run, wait_for

EXAMPLE = TOP / "packaging/nginx.conf"
CLIENT = "127.0.0.5"  # the address that the calls come from
NAME = "Pokémon #1 100% [v0]+.nsp"
CONTENT = hashlib.shake_128(b"content").digest(3_000)
PASSWORD = "correct horse"
AROUND = """daemon off;
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


class Answer(NamedTuple):
    status: int
    headers: email.message.Message
    body: bytes


class Site:
    """A client of the service behind nginx."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.cookie = ""
        self.key = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        trust = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        call = http.client.HTTPSConnection(
            "localhost",
            self.port,
            timeout=30,
            context=trust,
            source_address=(CLIENT, 0),
        )
        with contextlib.closing(call):
            headers = {name.replace("_", "-"): text for name, text in headers.items()}
            call.request(method, path, body, headers)
            answer = call.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()

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


def settings_in_example() -> str:
    """Return the lines of catalogd.ini in the first comment of nginx.conf."""
    rows = re.findall(r"^#     (.*)$", EXAMPLE.read_text(), re.MULTILINE)
    return "\n".join(rows)


def write_settings(folder: pathlib.Path, service: int, port: int, accel: bool) -> None:
    base = {"https://home.example.org/": f"https://localhost:{port}/"}
    ini = replaced(settings_in_example(), base)
    if not accel:
        ini = replaced(ini, {"accel_redirect = /catalogd-files": ""})
    library = f"[library]\nfolders = {folder}/library\nscan_interval = 1\nsettle = 0\n"
    (folder / "catalogd.ini").write_text(f"{ini}\nport = {service}\n{library}")


def write_nginx_conf(folder: pathlib.Path, service: int, port: int) -> None:
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
    (folder / "catalogd.conf").write_text(replaced(EXAMPLE.read_text(), pairs))
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user=user))


def catalogd(folder: pathlib.Path, *command: str, **options: Any) -> str:
    where = ["--config", folder / "catalogd.ini", "--data-dir", folder / "data"]
    return run(sys.executable, TOP / "catalogd.py", *command, *where, **options)


@pytest.fixture(scope="module", params=[True, False], ids=["accel", "proxied"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    need("nginx", "openssl")
    folder = tmp_path_factory.mktemp("site")
    (folder / "library").mkdir()
    (folder / "library" / NAME).write_bytes(CONTENT)
    service, port = free_port(), free_port()
    write_settings(folder, service, port, request.param)
    write_nginx_conf(folder, service, port)
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files)
    where = ["--config", folder / "catalogd.ini", "--data-dir", folder / "data"]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(folder / "service.log", "wb"))
        for command in (
            [sys.executable, TOP / "catalogd.py", "serve", *where],
            ["nginx", "-p", folder, "-c", folder / "nginx.conf"],
        ):
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        wait_for(lambda: get(f"http://127.0.0.1:{service}/healthz"))
        catalogd(folder, "user", "add", "anna", "--password-stdin", input=PASSWORD)
        found = Site(folder, port)
        found.key = catalogd(folder, "key", "add", "anna", "test").strip()
        wait_for(lambda: NAME.encode() in list_body(found))
        yield found


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
    assert answer.headers["Location"] == f"https://localhost:{site.port}/games/"


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
    body = {"username": "anna", "password": base64.b64encode(b"wrong").decode()}
    assert site.call("POST", "/games/web/login", body).status == 403
    wait_for(lambda: f"403 POST /web/login from {CLIENT}" in site.log("service.log"))
    seen = rf'(?m)^{re.escape(CLIENT)} \[.*\] "POST /games/web/login" 403 '
    wait_for(lambda: re.search(seen, site.log("catalogd.log")))


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


# nginx decodes all of these before it passes them on.
ABOVE = ("/games/dir/", "/games//dir/", "//games/d%69r/", "/games/x/../dir%2F")
BELOW = ("", "/", "/all", "//nsp/nothing.nsp", "/dir/nothing.nsp", "/index.json?x")


def test_no_log_has_the_token_of_a_console_address(site: Site, token: str) -> None:
    for above in ABOVE:
        for below in BELOW:
            answer = site.call("GET", f"{above}{token}{below}")
            assert answer.status in (200, 301, 404)
    site.call("GET", "/games/last")
    wait_for(lambda: "/games/last" in site.log("catalogd.log"))
    masked = '"GET /games/dir/.../index.json" 200 '
    assert site.log("catalogd.log").count(masked) == len(ABOVE)
    for path in site.folder.glob("*.log"):
        assert token not in path.read_text(), path


def test_no_log_has_a_key(site: Site) -> None:
    site.call("GET", f"/games/api/nothing?api_key={site.key}")
    wait_for(lambda: "/games/api/nothing" in site.log("catalogd.log"))
    for path in site.folder.glob("*.log"):
        assert site.key not in path.read_text(), path
