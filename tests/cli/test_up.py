"""`shoal up` through the real command: start, stop, security, and unusable states."""

import json
import os
import resource
import shlex
import signal
import socket
import sqlite3
import ssl
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import CONFIG_MAPS
from tests.cli.daemon import up, url
from tests.cli.process import shoal
from tests.k8s.access import Client

NOTE = {"metadata": {"name": "note", "namespace": "default"}, "data": {"a": "1"}}


def server_url(home: Path) -> str:
    """The URL of the DI server, as `shoal status` shows it."""
    return str(json.loads(shoal("status", "-o", "json", "--home", str(home)).stdout)["server"])


async def note(home: Path, *, write: bool = False) -> str:
    """Read, or first create, a ConfigMap through the home's kubeconfig."""
    cluster = KubernetesCluster(find_access(str(home / "kubeconfig")))
    try:
        if write:
            await cluster.create(CONFIG_MAPS, NOTE)
        return str((await cluster.get(CONFIG_MAPS, "note", "default"))["data"]["a"])
    finally:
        await cluster.close()


def client(home: Path, token: str) -> Client:
    return Client(url(home), token, ssl.create_default_context(cafile=home / "ca.crt"))


async def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    with up(tmp_path) as daemon:
        await note(tmp_path, write=True)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
    with up(tmp_path):
        assert await note(tmp_path) == "1"


async def test_urls_and_token_survive_a_restart(tmp_path: Path) -> None:
    with up(tmp_path):
        first, token = (url(tmp_path), server_url(tmp_path)), (tmp_path / "token").read_text()
    with up(tmp_path):
        assert (url(tmp_path), server_url(tmp_path)) == first
        assert (tmp_path / "token").read_text() == token


def test_the_di_server_of_a_home(tmp_path: Path) -> None:
    """It answers on its port, with the administrator's token, about jobs that were just created."""
    job: dict[str, object] = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "job"},
    }
    container = {"name": "w", "image": "x", "command": ["sleep", "600"]}
    job["spec"] = {"preemptible": True, "maxReplicas": 3, "template": {"spec": {"containers": [container]}}}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with up(tmp_path, "--server-port", str(port)):
        assert server_url(tmp_path) == f"http://127.0.0.1:{port}"
        assert f"server    http://127.0.0.1:{port}," in shoal("status", "--home", str(tmp_path)).stdout
        token = (tmp_path / "token").read_text()
        path = "/apis/diengine.opendilab.org/v2alpha1/namespaces/default/dijobs"
        client(tmp_path, token).create(path, job)
        asked = Client(server_url(tmp_path), token, ssl.create_default_context())
        assert asked.call("POST", "/v2alpha1/default.job/replicas", {"replicas": 5})[0] == 409
        code, answer = asked.call("POST", "/v2alpha1/default.job/profilings", {"data": {"loss": 1}})
        assert (code, answer["success"]) == (200, True)
        stranger = Client(server_url(tmp_path), "", ssl.create_default_context())
        assert stranger.call("GET", "/v2alpha1/default.job/replicas")[0] == 401


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with up(tmp_path) as daemon:
        daemon.send_signal(number)
        out, err = daemon.communicate()
    assert (daemon.returncode, err) == (0, "")
    assert out.endswith("Stopping.\n")


def test_a_second_daemon_on_the_same_state_is_rejected(tmp_path: Path) -> None:
    with up(tmp_path):
        before = url(tmp_path)
        second = shoal("up", "--home", str(tmp_path))
        assert (second.returncode, second.stdout) == (1, "")
        assert (
            second.stderr
            == f"Error: {tmp_path} is in use by another process; stop it, or choose another directory\n"
        )
        assert url(tmp_path) == before
        assert client(tmp_path, (tmp_path / "token").read_text()).get("/api/v1/namespaces/default")


def test_a_port_in_use_is_an_error_and_writes_no_kubeconfig(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rejected = shoal("up", "--home", str(tmp_path), "--port", str(port))
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith(f"Error: port {port} of 127.0.0.1 is in use")
    assert not (tmp_path / "kubeconfig").exists()


def test_nothing_is_readable_without_the_token(tmp_path: Path) -> None:
    with up(tmp_path):
        for path in ("/api", "/apis", "/api/v1/secrets", "/openapi/v3", "/nonsense"):
            for token in ("", "wrong", (tmp_path / "token").read_text()[:-1]):
                code, answer = client(tmp_path, token).call("GET", path)
                assert (code, answer["kind"], answer["reason"]) == (401, "Status", "Unauthorized")


def test_other_users_cannot_read_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    previous = os.umask(0)
    try:
        with up(home):
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
            open_to_others = [path for path in home.iterdir() if stat.S_IMODE(path.stat().st_mode) & 0o077]
    finally:
        os.umask(previous)
    assert not open_to_others


def test_permissions_of_an_open_home_are_fixed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    with up(home):
        assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_it_listens_only_on_loopback(tmp_path: Path) -> None:
    with up(tmp_path) as daemon:
        ports = (urlsplit(url(tmp_path)).port, urlsplit(server_url(tmp_path)).port)
        assert listeners(daemon.pid) == {("127.0.0.1", port) for port in ports}


def test_it_listens_on_another_address_if_given(tmp_path: Path) -> None:
    with up(tmp_path, "--listen", "127.0.0.9"):
        assert urlsplit(url(tmp_path)).hostname == "127.0.0.9"
        assert client(tmp_path, (tmp_path / "token").read_text()).get("/api")


def listeners(pid: int) -> set[tuple[str, int]]:
    """The IPv4 addresses that a process listens on; asserts that there is no IPv6 address."""
    mine = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in mine:
                found[fields[1]] = table
    assert set(found.values()) <= {"tcp"}
    return {_address(text) for text in found}


def _address(text: str) -> tuple[str, int]:
    host, port = text.split(":")
    return socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)


# --- unusable states ----------------------------------------------------------------------------------------


def _corrupt(home: Path) -> None:
    (home / "state.db").write_bytes(b"this was a database once" * 400)


def _newer(home: Path) -> None:
    with sqlite3.connect(home / "state.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def _of_another_program(home: Path) -> None:
    (home / "state.db").unlink()
    with sqlite3.connect(home / "state.db") as database:
        database.execute("CREATE TABLE mine (a)")
    database.close()


def _a_directory(home: Path) -> None:
    (home / "state.db").unlink()
    (home / "state.db").mkdir()


def _broken_key(home: Path) -> None:
    (home / "server.key").write_text("not a key")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "a corrupt database": (_corrupt, "state.db"),
    "a database of a newer Shoal": (_newer, "written by a newer version of Shoal"),
    "a database of another program": (_of_another_program, "of another program"),
    "a directory in place of the database": (_a_directory, "state.db"),
    "an invalid key": (_broken_key, "server.key"),
}


@pytest.mark.parametrize("damage, message", BROKEN.values(), ids=BROKEN)
def test_an_unusable_state_is_an_error_and_is_not_changed(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    with up(tmp_path):
        pass
    damage(tmp_path)
    before = contents(tmp_path)
    rejected = shoal("up", "--home", str(tmp_path))
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith("Error: ")
    assert message in rejected.stderr
    assert rejected.stderr.count("\n") == 1
    assert contents(tmp_path) == before


def contents(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(home.iterdir()) if path.is_file()}


def test_a_foreign_directory_is_rejected_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    tmp_path.chmod(0o755)
    rejected = shoal("up", "--home", str(tmp_path))
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith(f"Error: {tmp_path} contains files that are not Shoal's")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_printed_export_command_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "a b"
    with up(home) as daemon:
        assert daemon.stdout
        assert shlex.split(daemon.stdout.readline()) == ["export", f"KUBECONFIG={home / 'kubeconfig'}"]


def test_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    with up(tmp_path) as daemon:
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


def test_unsupported_requests_print_nothing(tmp_path: Path) -> None:
    with up(tmp_path) as daemon:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        asked = urllib.request.Request(f"{url(tmp_path)}/healthz", headers=headers)  # noqa: S310 - https
        trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        with urllib.request.urlopen(asked, context=trusting) as answer:  # noqa: S310 - https
            assert answer.status == 200
        daemon.send_signal(signal.SIGTERM)
        assert daemon.communicate()[1] == ""


def test_error_of_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    rejected = shoal("up", "--home", str(tmp_path / "home"))
    assert rejected.returncode != 0
    assert "is a file" in rejected.stderr


def test_error_of_a_read_only_home() -> None:
    rejected = shoal("up", "--home", "/sys/shoal")  # not even root can make a directory there
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith("Error: /sys/shoal cannot be used: ")
    assert rejected.stderr.count("\n") == 1
