"""`shoal up` with pods: what runs while it is up, what is left afterwards, and what survives its death."""

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
from tests.cli.running import SHOAL, run, shoal

T = TypeVar("T")

LONG = 120.0
"""Seconds after which what has not come will not come."""
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def until(look: Callable[[], T]) -> T:
    """What is found when one looks, as soon as it is something."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


@contextmanager
def in_background(home: Path, *options: str) -> Iterator[None]:
    """`shoal up -d`, and nothing left of it at the end, whatever happened."""
    try:
        start(home, *options)
        yield
    finally:
        if read_daemon_info(home) is None and any(home.glob("pods/*")):  # whoever was killed left them behind
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
    """Ask the API of a home; with a body, make something."""
    return asked(home, Request(method="GET" if body is None else "POST", path=path, body=body))


def asked(home: Path, request: Request) -> dict[str, Any]:
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


def lives(pid: str) -> bool:
    """Whether a process is there, and not only because nobody has asked how it ended."""
    try:
        return Path("/proc", pid.strip(), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def written(path: Path) -> str:
    """What a process has written, once it has."""
    return until(lambda: path.exists() and path.read_text()) or ""


# --- starting and stopping ---------------------------------------------------------------------------------


def test_in_the_background_it_is_ready_when_the_command_returns(tmp_path: Path) -> None:
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
        assert not lives(str(status["pid"]))


def test_who_is_not_up_is_said_not_to_be(tmp_path: Path) -> None:
    status = shoal("status", "--home", str(tmp_path))
    assert (status.returncode, status.stdout) == (1, "")
    assert status.stderr == f"Error: no daemon serves {tmp_path}; start one with `shoal up -d`\n"
    down = shoal("down", "--home", str(tmp_path))
    assert (down.returncode, down.stdout) == (0, f"{tmp_path} is not served.\n")


def test_a_second_one_in_the_background_says_so_in_one_line(tmp_path: Path) -> None:
    with in_background(tmp_path):
        before = read_daemon_info(tmp_path)
        second = shoal("up", "-d", "--home", str(tmp_path))
        assert (second.returncode, second.stdout) == (1, "")
        message = f"Error: {tmp_path} is in use by another process; stop it, or choose another directory\n"
        assert second.stderr == message
        assert read_daemon_info(tmp_path) == before


def test_a_port_in_use_is_said_by_the_command_that_was_called(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = shoal("up", "-d", "--home", str(tmp_path), "--port", str(port))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"Error: port {port} of 127.0.0.1 is in use")
    assert refused.stderr.count("\n") == 1
    assert read_daemon_info(tmp_path) is None


def test_a_directory_of_somebody_else_is_left_alone_in_the_background_too(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    refused = shoal("up", "-d", "--home", str(tmp_path))
    assert refused.returncode == 1
    assert "contains files that are not Shoal's" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_lock_that_nobody_holds_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o600)
    (tmp_path / "daemon.json").write_text('{"pid": 1, "url": "https://127.0.0.1:1"}')
    assert shoal("status", "--home", str(tmp_path)).returncode == 1
    with in_background(tmp_path):
        assert pid_of(tmp_path) != 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk that is full")
def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=16k none {tmp_path} && exec "$@"'
    command = [*SHOAL, "up", "--home", str(tmp_path)]
    refused = run(["unshare", "--mount", "sh", "-c", script, "sh", *command])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: ")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [("--node-cpu", "much"), ("--node-memory", "1Xi"), ("--nodes", "-1")])
def test_nodes_that_cannot_be_are_refused(tmp_path: Path, options: tuple[str, str]) -> None:
    refused = shoal("up", "--home", str(tmp_path), *options)
    assert refused.returncode == 2
    assert options[0] in refused.stderr
    assert not list(tmp_path.iterdir())


# --- pods --------------------------------------------------------------------------------------------------


def test_when_it_stops_no_process_is_left(tmp_path: Path) -> None:
    home, pid = tmp_path / "home", tmp_path / "pid"
    with up(home) as daemon:
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = written(pid)
        daemon.send_signal(signal.SIGINT)
        out, err = daemon.communicate(timeout=LONG)
    assert (daemon.returncode, err) == (0, "")
    assert "Stopping 1 container" in out
    assert not lives(child)


def test_a_job_goes_on_after_a_stop_and_its_pod_has_not_failed(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    with in_background(home):
        call(home, JOBS, job("a", f"echo x >> {log}; test $(wc -l < {log}) = 2 || exec sleep 600"))
        written(log)
        assert shoal("down", "--home", str(home)).returncode == 0
        start(home)
        assert until(lambda: all_done(home)) == {"a": "Complete"}


def test_what_a_killed_daemon_has_left_running_is_not_said_to_be_down(tmp_path: Path) -> None:
    home, pid = tmp_path / "home", tmp_path / "pid"
    with in_background(home):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = written(pid)
        os.kill(pid_of(home), signal.SIGKILL)
        until(lambda: read_daemon_info(home) is None)
        down = shoal("down", "--home", str(home))
        assert (down.returncode, down.stdout) == (1, "")
        assert "1 of its containers run on: `shoal up -d` finds them" in down.stderr
        start(home)
        assert shoal("down", "--home", str(home)).returncode == 0
        assert not lives(child)


def test_a_home_comes_back_as_the_nodes_that_its_pods_are_on(tmp_path: Path) -> None:
    home, pid, go = tmp_path / "home", tmp_path / "pid", tmp_path / "go"
    with in_background(home, "--nodes", "2", "--node-cpu", "3"):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; until test -e {go}; do sleep 0.01; done; exit 5"))
        child = written(pid)
        os.kill(pid_of(home), signal.SIGKILL)
        until(lambda: read_daemon_info(home) is None)
        start(home)
        assert nodes(home) == {"node-0": "3", "node-1": "3"}
        assert lives(child)
        go.touch()
        until(lambda: phase(home, "a") == "Failed")


def test_a_home_is_other_nodes_when_it_is_told_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with in_background(home, "--nodes", "2", "--node-cpu", "3"):
        pass
    with in_background(home, "--nodes", "1"):
        assert list(nodes(home)) == ["node-0"]
        refused = shoal("up", "--home", str(home), "--nodes", "5")
        assert refused.returncode == 1
    with in_background(home):
        assert list(nodes(home)) == ["node-0"]
    with in_background(home, "--nodes", "0"):
        assert not any(name.startswith("node-") for name in nodes(home))


def nodes(home: Path) -> dict[str, str]:
    """The CPUs of each node."""
    found = call(home, "/api/v1/nodes")["items"]
    return {node["metadata"]["name"]: node["status"]["capacity"]["cpu"] for node in found}


def test_pods_may_be_kept_and_are_found_again(tmp_path: Path) -> None:
    home, pid, go = tmp_path / "home", tmp_path / "pid", tmp_path / "go"
    with in_background(home):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; until test -e {go}; do sleep 0.01; done; exit 5"))
        child = written(pid)
        until(lambda: phase(home, "a") == "Running")
        assert shoal("down", "--home", str(home), "--keep-pods").returncode == 0
        assert lives(child)
        go.touch()
        until(lambda: not lives(child))
        start(home)
        until(lambda: phase(home, "a") == "Failed")
        status = call(home, f"{PODS}/a")["status"]["containerStatuses"][0]
        assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (5, 0)


def test_a_pod_does_not_see_what_is_the_administrators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, seen = tmp_path / "home", tmp_path / "seen"
    secrets = {"KUBECONFIG": str(home / "kubeconfig"), "SHOAL_HOME": str(home), "MY_TOKEN": "hush"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    with in_background(home):
        call(home, PODS, pod("a", f"env > {seen}.part; mv {seen}.part {seen}"))
        text = written(seen)
        assert not any(f"{name}=" in text for name in secrets)
        assert (home / "token").read_text() not in text
        assert "SHOAL_POD_IP=127." in text


def test_what_cannot_be_run_is_refused_at_submission(tmp_path: Path) -> None:
    with in_background(tmp_path):
        wrong = pod("a", "true", hostPID=True)
        del wrong["spec"]["containers"][0]["command"]
        with pytest.raises(
            InvalidError, match=r"spec.containers\[0\].command: .*spec.hostPID: not supported"
        ):
            call(tmp_path, PODS, wrong)


def test_a_node_is_lost_and_found(tmp_path: Path) -> None:
    home, config, pid = tmp_path / "home", tmp_path / "scheduler.yaml", tmp_path / "pid"
    config.write_text("nodeLostSeconds: 1\n")
    with in_background(home, "--nodes", "1", "--config", str(config)):
        call(home, PODS, pod("a", f"echo $$$$ > {pid}; exec sleep 600"))
        child = written(pid)
        stopped = shoal("node", "stop", "node-0", "--home", str(home))
        assert (stopped.returncode, stopped.stdout) == (0, "node/node-0 stopped\n")
        until(lambda: not lives(child))
        until(lambda: not call(home, PODS)["items"])
        assert ready(home) == "Unknown"
        started = shoal("node", "start", "node-0", "--home", str(home))
        assert (started.returncode, started.stdout) == (0, "node/node-0 started\n")
        until(lambda: ready(home) == "True")
        unknown = shoal("node", "stop", "none", "--home", str(home))
        assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
        assert 'nodes "none" not found' in unknown.stderr


def ready(home: Path) -> str:
    conditions = call(home, "/api/v1/nodes/node-0")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


# --- killed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_nothing_is_lost_and_nothing_runs_twice_however_often_it_is_killed(
    tmp_path: Path, count: int
) -> None:
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
        jobs = until(lambda: all_done(home))
        wrong = [
            name for name, codes in exit_codes(home).items() if codes != [3 if int(name) % 3 == 0 else 0]
        ]
    assert sorted(map(int, log.read_text().split())) == list(range(count))
    assert {name: "Failed" if int(name) % 3 == 0 else "Complete" for name in jobs} == jobs
    assert not wrong


def kill_and_start(home: Path) -> None:
    daemon = pid_of(home)
    os.kill(daemon, signal.SIGKILL)
    until(lambda: read_daemon_info(home) is None)
    start(home)


def all_done(home: Path) -> dict[str, str]:
    """How each job ended, by its number, once all have."""
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


def test_the_directories_of_pods_go_with_them(tmp_path: Path) -> None:
    with in_background(tmp_path):
        call(tmp_path, PODS, pod("a", "true"))
        until(lambda: phase(tmp_path, "a") == "Succeeded")
        assert len(list((tmp_path / "pods").iterdir())) == 1
        kill_and_start(tmp_path)
        assert phase(tmp_path, "a") == "Succeeded"
        asked(tmp_path, Request(method="DELETE", path=f"{PODS}/a", body={}))
        until(lambda: not list((tmp_path / "pods").iterdir()))
