"""The image and the options of compose.yaml, with the real buildah and podman. The
tests depend on each other, in their order."""

import concurrent.futures
import http.client
import itertools
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from conftest import (
    LANGUAGES,
    TOP,
    Debian,
    arrives,
    call,
    entries,
    free_port,
    get,
    languages,
    need,
    readme,
    run,
    shows_demo,
    skip,
    wait_for,
)

URL = "http://127.0.0.1:6069"
OWNER = 1234  # of the data folder, instead of the 1000 of the example
CONTENT = bytes(range(256)) * 10_000
FILES = 2000
# For a machine without systemd, cgroups of its own and a network bridge.
PODMAN = ["--cgroup-manager", "cgroupfs"]
RUN = ["--runtime", "runc", "--network", "host"]
RUN += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
RUN += ["--log-driver", "k8s-file"]


def compose(**variables: str) -> Any:
    """Return what compose.yaml has for the service, with these variables set."""
    text = (TOP / "packaging/compose.yaml").read_text()
    text = re.sub(
        r"\$\{(\w+):-(.*?)\}", lambda found: variables.get(found[1], found[2]), text
    )
    return yaml.safe_load(text)["services"]["catalogd"]


class Container:
    """A container of the image, with its storage in one folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.data = str(folder / "catalogd")
        self.storage = ["--storage-driver", "vfs", "--root", folder / "storage"]
        self.runroot = tempfile.mkdtemp()  # podman takes at most 50 characters
        self.storage += ["--runroot", self.runroot]

    def podman(self, *words: Any, **options: Any) -> str:
        return run("env", "DISABLE_HC_SYSTEMD=true", *self.command(*words), **options)

    def command(self, *words: Any) -> list[Any]:
        return ["podman", *self.storage, *PODMAN, *words]

    def build(self, debian: pathlib.Path) -> None:
        self.podman("import", debian, "localhost/base")
        options = ["--isolation", "chroot", "--network", "host", "--pull-never"]
        options += ["--format", "docker", "--build-arg", "BASE=localhost/base"]
        file = ["-f", TOP / "packaging/Containerfile"]
        run("buildah", *self.storage, "bud", *options, "-t", "catalogd", *file, TOP)

    def run(self) -> None:
        """Run what compose.yaml describes, with other folders and another owner."""
        service = compose(PUID=str(OWNER), PGID=str(OWNER), DATA=self.data)
        options = ["--user", service["user"]]
        for volume in service["volumes"]:
            options += ["--volume", volume.replace("/srv", str(self.folder))]
        options += ["--read-only"] if service["read_only"] else []
        for name in ("tmpfs", "cap_drop", "security_opt"):
            for value in service[name]:
                options += [f"--{name.replace('_', '-')}", value]
        self.podman("run", "--detach", "--name", "catalogd", *options, *RUN, "catalogd")
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        wait_for(lambda: get(f"{URL}/healthz"))

    def log(self) -> str:
        return self.podman("logs", "catalogd")

    def does(self, *words: Any, **options: Any) -> str:
        return self.podman("exec", "--interactive", "catalogd", *words, **options)


@pytest.fixture(scope="module")
def container(
    tmp_path_factory: pytest.TempPathFactory, debian: Debian
) -> Iterator[Container]:
    need("buildah", "podman", "runc", root=True)
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 6069)) == 0:
            skip("needs port 6069, which another program uses")
    folder = tmp_path_factory.mktemp("container")
    container = Container(folder)
    try:
        container.build(debian.bare)
        (folder / "catalogd").mkdir(mode=0o700)
        shutil.chown(folder / "catalogd", OWNER, OWNER)
        (folder / "games").mkdir()
        for number in range(FILES):
            (folder / "games" / f"{number}.nsp").write_bytes(CONTENT[: number + 1])
        (folder / "games/large.nsp").write_bytes(CONTENT)
        container.run()
        yield container
    finally:
        subprocess.run(container.command("rm", "--all", "--force"))
        shutil.rmtree(
            container.runroot, ignore_errors=True
        )  # its monitor may still end
        shutil.rmtree(folder)


def test_without_a_base_url_it_says_to_set_it(container: Container) -> None:
    log = container.log()
    assert "http://ADDRESS:6069/#setup=" in log
    assert "Set [server] base_url" in log


@pytest.fixture(scope="module")
def key(container: Container) -> str:
    add = ["catalogd", "user", "add", "anna", "--password-stdin"]
    container.does(*add, input="correct horse")
    return container.does("catalogd", "key", "add", "anna", "test").strip()


def test_the_printed_address_is_that_of_base_url(
    container: Container, key: str
) -> None:
    ini = container.folder / "catalogd/catalogd.ini"
    ini.write_text("[server]\nbase_url = https://example.org/games\n")
    container.podman("restart", "catalogd")
    container.wait_until_it_answers()
    last = container.log().rpartition("serves")[2]
    assert re.findall("https?://[^/]*", last) == ["https://example.org"]


def test_it_lists_and_serves_the_games(container: Container, key: str) -> None:
    wait_for(lambda: len(entries(URL, key)) == FILES + 1)
    path = f"{URL}/api/download/{entries(URL, key)['large.nsp']}"
    assert call(path, key).body == CONTENT
    part = call(path, key, Range="bytes=1000-1999")
    assert (part.status, part.body) == (206, CONTENT[1000:2000])


def test_it_has_the_languages_of_the_page(container: Container) -> None:
    assert languages(f"{URL}/") == LANGUAGES


def test_it_has_the_demo(container: Container, tmp_path: pathlib.Path) -> None:
    """By the line of the README, with another port."""
    [line] = readme("The demo in a container")
    line = line.replace("-p 127.0.0.1:6069:6069 ", "")
    assert line.startswith("docker run --rm catalogd catalogd serve --demo --host")
    words, options = line.split()[3:5], line.split()[7:]
    command = container.command("run", "--rm", *RUN, *words)
    assert shows_demo(command, tmp_path, *options, "--port", free_port())


def test_it_has_the_package_for_qr_codes(container: Container) -> None:
    container.does("python3", "-c", "import segno")


def test_it_sends_to_a_console(container: Container, key: str) -> None:
    assert arrives(URL, container.folder / "console", "large", CONTENT)


def test_it_writes_to_its_volume_alone_and_as_its_user(container: Container) -> None:
    for folder in ("/", "/games", "/usr/local/lib"):
        done = subprocess.run(
            container.command("exec", "catalogd", "touch", f"{folder}/file"),
            capture_output=True,
        )
        assert b"Read-only file system" in done.stderr
    assert container.does("id", "-u").strip() == str(OWNER)
    for path in (container.folder / "catalogd").iterdir():
        assert path.name == "catalogd.ini" or path.stat().st_uid == OWNER


def test_the_health_check_is_that_of_the_service(container: Container) -> None:
    container.podman("healthcheck", "run", "catalogd")
    image = json.loads(container.podman("image", "inspect", "catalogd"))[0]
    check = image["Healthcheck"]["Test"]
    assert check[0] == "CMD"
    elsewhere = [word.replace("6069", "1") for word in check[1:]]
    command = container.command("exec", "catalogd", *elsewhere)
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_without_variables_the_user_and_the_folders_are_the_usual_ones() -> None:
    service = compose()
    assert service["user"] == "1000:1000"
    folders = [volume.partition(":")[0] for volume in service["volumes"]]
    assert folders == ["/srv/catalogd", "/srv/games"]


def test_a_stop_loses_nothing_that_was_acknowledged(
    container: Container, key: str
) -> None:
    found = itertools.cycle(entries(URL, key).values())  # until it stops
    acknowledged: list[str] = []

    def send_until_it_stops() -> None:
        for entry in found:
            try:
                answer = call(f"{URL}/api/send-to-switch", key, {"entry_id": entry})
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 200:
                acknowledged.append(entry)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(send_until_it_stops) for _ in range(4)]
        wait_for(lambda: len(acknowledged) > 50)
        container.podman("stop", "catalogd")  # which kills what does not end soon
        assert [each.result() for each in calls] == [None] * 4
    state = json.loads(container.podman("inspect", "catalogd"))[0]["State"]
    assert state["ExitCode"] == 0
    container.podman("start", "catalogd")
    container.wait_until_it_answers()
    queue = json.loads(call(f"{URL}/api/send-queue", key).body)["queue"]
    assert {item["entry_id"] for item in queue}.issuperset(acknowledged)


@pytest.mark.parametrize("user", ["1000:1000", "4321:100"])
def test_the_lines_of_the_readme_run_it_as_any_user_with_a_new_volume(
    container: Container, user: str
) -> None:
    build, line, log = readme("| **Docker or Podman**")
    assert build == "docker build -t catalogd -f packaging/Containerfile ."
    container.podman("stop", "--ignore", "catalogd")
    words = line.replace("1000:1000", user).replace("/srv", str(container.folder))
    words = words.replace("--name catalogd", f"--name {user[:4]}")
    words = words.replace("-v catalogd:", f"-v {user[:4]}:")
    docker, run, *rest = words.replace("-p 6069:6069 ", "").split()
    assert (docker, run) == ("docker", "run")
    container.podman("run", *RUN, *rest)
    container.wait_until_it_answers()
    printed = container.podman(*log.replace("catalogd", user[:4]).split()[1:])
    assert "#setup=" in printed
    modes = ["stat", "-c", "%u %a", "/catalogd/catalogd.db"]
    told = container.podman("exec", user[:4], *modes)
    assert told.split() == [user[:4], "600"]
    container.podman("stop", user[:4])
