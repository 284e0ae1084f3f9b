"""`shoal up` with pods: what runs, what remains after a stop, and what survives a kill."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from shoal.client.http import HttpClient, Request
from shoal.cluster.errors import InvalidError
from shoal.cluster.kubernetes.connect import find_access
from shoal.embedded.daemon import read_daemon_info
from tests.cli.daemon import up
from tests.cli.process import SHOAL, run, shoal

T = TypeVar("T")

TIMEOUT = 120.0
"""Timeout in seconds."""
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def wait_for(poll: Callable[[], T]) -> T:
    """Poll until a function returns something true; its value."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found := poll():
            return found
        time.sleep(0.05)
    raise AssertionError("timed out")


@contextmanager
def in_background(home: Path, *options: str) -> Iterator[None]:
    """Run `shoal up -d`; at the end its daemon and pods are stopped, whatever happened."""
    try:
        start(home, *options)
        yield
    finally:
        if read_daemon_info(home) is None and any(home.glob("pods/*")):  # a killed daemon leaves pods behind
            shoal("up", "-d", "--home", str(home))
        shoal("down", "--home", str(home), "--timeout", "5")


def start(home: Path, *options: str) -> None:
    done = shoal("up", "-d", "--home", str(home), *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Shoal is up at https://")


def pid_of(home: Path) -> int:
    facts = read_daemon_info(home)
    assert facts
    return int(facts["pid"])


def call(home: Path, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Call the API of a home: GET, or POST if there is a body."""
    return send(home, Request(method="GET" if body is None else "POST", path=path, body=body))


def send(home: Path, request: Request) -> dict[str, Any]:
    http = HttpClient(find_access(str(home / "kubeconfig")))
    try:
        answer: dict[str, Any] = json.loads(http.request(request))
    finally:
        http.close()
    return answer


def pod(name: str, command: str, **spec: object) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", command]}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "restartPolicy": "Never", **spec}}


def job(name: str, command: str) -> dict[str, Any]:
    template = {"spec": pod("", command)["spec"]}
    return {"metadata": {"name": name}, "spec": {"template": template, "backoffLimit": 0}}


def phase(home: Path, name: str) -> str:
    return str(call(home, f"{PODS}/{name}")["status"]["phase"])


def is_alive(pid: str) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path("/proc", pid.strip(), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_text(path: Path) -> str:
    """The contents of a file, once there are some."""
    return wait_for(lambda: path.exists() and path.read_text()) or ""


# --- starting and stopping ---------------------------------------------------------------------------------


def test_detached_up_returns_when_it_is_ready(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with in_background(home, "--nodes", "2", "--node-cpu", "3", "--node-memory", "1Gi", "--node-gpu", "1"):
        status = json.loads(shoal("status", "--home", str(home), "-o", "json").stdout)
        assert status["pid"] == pid_of(home)
        assert status["home"] == str(home)
        assert status["health"]["ready"]
        capacity = {"cpu": "3", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "1"}
        assert [(node["name"], node["ready"]) for node in status["nodes"]] == [
            ("node-0", True),
            ("node-1", True),
        ]
        assert all(node["capacity"] == capacity for node in status["nodes"])
        table = shoal("status", "--home", str(home)).stdout
        assert f"is up at {status['url']}" in table
        assert "node-1  yes" in table
        down = shoal("down", "--home", str(home))
        assert (down.returncode, down.stdout) == (0, "Shoal is down.\n")
        assert not (home / "daemon.json").exists()
        assert not is_alive(str(status["pid"]))


def test_status_and_down_without_a_daemon(tmp_path: Path) -> None:
    status = shoal("status", "--home", str(tmp_path))
    assert (status.returncode, status.stdout) == (1, "")
    assert status.stderr == f"Error: no daemon serves {tmp_path}; start one with `shoal up -d`\n"
    down = shoal("down", "--home", str(tmp_path))
    assert (down.returncode, down.stdout) == (0, f"{tmp_path} is not served.\n")


def test_a_second_detached_daemon_is_rejected(tmp_path: Path) -> None:
    with in_background(tmp_path):
        before = read_daemon_info(tmp_path)
        second = shoal("up", "-d", "--home", str(tmp_path))
        assert (second.returncode, second.stdout) == (1, "")
        message = f"Error: {tmp_path} is in use by another process; stop it, or choose another directory\n"
        assert second.stderr == message
        assert read_daemon_info(tmp_path) == before


def test_detached_up_reports_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rejected = shoal("up", "-d", "--home", str(tmp_path), "--port", str(port))
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith(f"Error: port {port} of 127.0.0.1 is in use")
    assert rejected.stderr.count("\n") == 1
    assert read_daemon_info(tmp_path) is None


def test_detached_up_rejects_a_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    rejected = shoal("up", "-d", "--home", str(tmp_path))
    assert rejected.returncode == 1
    assert "contains files that are not Shoal's" in rejected.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_stale_lock_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o600)
    (tmp_path / "daemon.json").write_text('{"pid": 1, "url": "https://127.0.0.1:1"}')
    assert shoal("status", "--home", str(tmp_path)).returncode == 1
    with in_background(tmp_path):
        assert pid_of(tmp_path) != 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk that is full")
def test_error_of_a_full_disk_is_one_line(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=16k none {tmp_path} && exec "$@"'
    command = [*SHOAL, "up", "--home", str(tmp_path)]
    rejected = run(["unshare", "--mount", "sh", "-c", script, "sh", *command])
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert rejected.stderr.startswith("Error: ")
    assert rejected.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [("--node-cpu", "much"), ("--node-memory", "1Xi"), ("--nodes", "-1")])
def test_invalid_node_sizes_are_rejected(tmp_path: Path, options: tuple[str, str]) -> None:
    rejected = shoal("up", "--home", str(tmp_path), *options)
    assert rejected.returncode == 2
    assert options[0] in rejected.stderr
    assert not list(tmp_path.iterdir())


# --- pods --------------------------------------------------------------------------------------------------


def test_stop_ends_all_processes(tmp_path: Path) -> None:
    home, pid = tmp_path / "home", tmp_path / "pid"
    with up(home) as daemon:
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = wait_for_text(pid)
        daemon.send_signal(signal.SIGINT)
        out, err = daemon.communicate(timeout=TIMEOUT)
    assert (daemon.returncode, err) == (0, "")
    assert "Stopping 1 container" in out
    assert not is_alive(child)


def test_a_job_continues_after_a_stop_without_a_failed_pod(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    with in_background(home):
        call(home, JOBS, job("a", f"echo x >> {log}; test $(wc -l < {log}) = 2 || exec sleep 600"))
        wait_for_text(log)
        assert shoal("down", "--home", str(home)).returncode == 0
        start(home)
        assert wait_for(lambda: all_done(home)) == {"a": "Complete"}


def test_down_reports_containers_left_by_a_killed_daemon(tmp_path: Path) -> None:
    home, pid = tmp_path / "home", tmp_path / "pid"
    with in_background(home):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = wait_for_text(pid)
        os.kill(pid_of(home), signal.SIGKILL)
        wait_for(lambda: read_daemon_info(home) is None)
        down = shoal("down", "--home", str(home))
        assert (down.returncode, down.stdout) == (1, "")
        assert (
            "1 of its containers still run: stop them with `shoal up -d` and then `shoal down`" in down.stderr
        )
        start(home)
        assert shoal("down", "--home", str(home)).returncode == 0
        assert not is_alive(child)


def test_node_layout_survives_a_kill(tmp_path: Path) -> None:
    home, pid, go = tmp_path / "home", tmp_path / "pid", tmp_path / "go"
    with in_background(home, "--nodes", "2", "--node-cpu", "3"):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; until test -e {go}; do sleep 0.01; done; exit 5"))
        child = wait_for_text(pid)
        os.kill(pid_of(home), signal.SIGKILL)
        wait_for(lambda: read_daemon_info(home) is None)
        start(home)
        assert nodes(home) == {"node-0": "3", "node-1": "3"}
        assert is_alive(child)
        go.touch()
        wait_for(lambda: phase(home, "a") == "Failed")


def test_node_layout_can_be_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with in_background(home, "--nodes", "2", "--node-cpu", "3"):
        pass
    with in_background(home, "--nodes", "1"):
        assert list(nodes(home)) == ["node-0"]
        rejected = shoal("up", "--home", str(home), "--nodes", "5")
        assert rejected.returncode == 1
    with in_background(home):
        assert list(nodes(home)) == ["node-0"]
    with in_background(home, "--nodes", "0"):
        assert not any(name.startswith("node-") for name in nodes(home))


def nodes(home: Path) -> dict[str, str]:
    """CPUs of each node."""
    found = call(home, "/api/v1/nodes")["items"]
    return {node["metadata"]["name"]: node["status"]["capacity"]["cpu"] for node in found}


def test_kept_pods_are_adopted(tmp_path: Path) -> None:
    home, pid, go = tmp_path / "home", tmp_path / "pid", tmp_path / "go"
    with in_background(home):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; until test -e {go}; do sleep 0.01; done; exit 5"))
        child = wait_for_text(pid)
        wait_for(lambda: phase(home, "a") == "Running")
        assert shoal("down", "--home", str(home), "--keep-pods").returncode == 0
        assert is_alive(child)
        go.touch()
        wait_for(lambda: not is_alive(child))
        start(home)
        wait_for(lambda: phase(home, "a") == "Failed")
        status = call(home, f"{PODS}/a")["status"]["containerStatuses"][0]
        assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (5, 0)


def test_pods_do_not_see_the_credentials_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, seen = tmp_path / "home", tmp_path / "seen"
    secrets = {"KUBECONFIG": str(home / "kubeconfig"), "SHOAL_HOME": str(home), "MY_TOKEN": "hush"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    with in_background(home):
        call(home, PODS, pod("a", f"env > {seen}.part; mv {seen}.part {seen}"))
        text = wait_for_text(seen)
        assert not any(f"{name}=" in text for name in secrets)
        assert (home / "token").read_text() not in text
        assert "SHOAL_POD_IP=127." in text


def test_unsupported_pods_are_rejected_on_create(tmp_path: Path) -> None:
    with in_background(tmp_path):
        wrong = pod("a", "true", hostPID=True)
        del wrong["spec"]["containers"][0]["command"]
        with pytest.raises(
            InvalidError, match=r"spec.containers\[0\].command: .*spec.hostPID: not supported"
        ):
            call(tmp_path, PODS, wrong)


def test_node_stop_and_start(tmp_path: Path) -> None:
    home, config, pid = tmp_path / "home", tmp_path / "scheduler.yaml", tmp_path / "pid"
    config.write_text("nodeLostSeconds: 1\n")
    with in_background(home, "--nodes", "1", "--config", str(config)):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = wait_for_text(pid)
        stopped = shoal("node", "stop", "node-0", "--home", str(home))
        assert (stopped.returncode, stopped.stdout) == (0, "node/node-0 stopped\n")
        wait_for(lambda: not is_alive(child))
        wait_for(lambda: not call(home, PODS)["items"])
        assert ready(home) == "Unknown"
        started = shoal("node", "start", "node-0", "--home", str(home))
        assert (started.returncode, started.stdout) == (0, "node/node-0 started\n")
        wait_for(lambda: ready(home) == "True")
        unknown = shoal("node", "stop", "none", "--home", str(home))
        assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
        assert 'nodes "none" not found' in unknown.stderr


def ready(home: Path) -> str:
    conditions = call(home, "/api/v1/nodes/node-0")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


# --- killed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_jobs_run_exactly_once_across_kills(tmp_path: Path, count: int) -> None:
    """Each job appends its number to a file when it runs; every third one fails."""
    home, log = tmp_path / "home", tmp_path / "log"
    with in_background(home):
        for number in range(count):
            command = f"echo {number} >> {log}; sleep 0.{number % 10}; exit {3 if number % 3 == 0 else 0}"
            call(home, JOBS, job(f"job-{number}", command))
            if number % 5 == 0:
                kill_and_start(home)
        for _ in range(count // 10):
            kill_and_start(home)
        jobs = wait_for(lambda: all_done(home))
        wrong = [
            name for name, codes in exit_codes(home).items() if codes != [3 if int(name) % 3 == 0 else 0]
        ]
    assert sorted(map(int, log.read_text().split())) == list(range(count))
    assert {name: "Failed" if int(name) % 3 == 0 else "Complete" for name in jobs} == jobs
    assert not wrong


def kill_and_start(home: Path) -> None:
    daemon = pid_of(home)
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: read_daemon_info(home) is None)
    start(home)


def all_done(home: Path) -> dict[str, str]:
    """Condition of each job by its number; empty until all have finished."""
    ends = {}
    for one in call(home, JOBS)["items"]:
        kinds = [each["type"] for each in one["status"].get("conditions", ()) if each["status"] == "True"]
        ended = [kind for kind in kinds if kind in ("Complete", "Failed")]
        if not ended:
            return {}
        ends[one["metadata"]["name"].removeprefix("job-")] = ended[0]
    return ends


def exit_codes(home: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in call(home, PODS)["items"]:
        code = one["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        number = one["metadata"]["labels"]["batch.kubernetes.io/job-name"].removeprefix("job-")
        found.setdefault(number, []).append(code)
    return found


def test_directories_of_deleted_pods_are_removed(tmp_path: Path) -> None:
    with in_background(tmp_path):
        call(tmp_path, PODS, pod("a", "true"))
        wait_for(lambda: phase(tmp_path, "a") == "Succeeded")
        assert len(list((tmp_path / "pods").iterdir())) == 1
        kill_and_start(tmp_path)
        assert phase(tmp_path, "a") == "Succeeded"
        send(tmp_path, Request(method="DELETE", path=f"{PODS}/a", body={}))
        wait_for(lambda: not list((tmp_path / "pods").iterdir()))
