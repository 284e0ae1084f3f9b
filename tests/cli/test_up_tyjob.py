"""A TYJob in `shoal up`, whose daemon is killed: each pod runs once, and each end counts once."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from shoal.embedded.daemon import read_daemon_info
from tests.cli.process import shoal
from tests.cli.test_up_pods import in_background, pid_of, start, wait_for


def tyjob(directory: Path) -> dict[str, Any]:
    """Return a job whose worker fails once, when told to, and whose leader succeeds when told to."""
    wait = "do sleep 0.05; done"
    leader = f"echo x >> {directory}/leader; until [ -e {directory}/succeed ]; {wait}"
    worker = (
        f"echo x >> {directory}/worker; [ $(wc -l < {directory}/worker) = 1 ] || exec sleep 600; "
        f"until [ -e {directory}/fail ]; {wait}; exit 3"
    )
    return {
        "apiVersion": "tyrl.io/v1alpha1",
        "kind": "TYJob",
        "metadata": {"name": "a"},
        "spec": {
            "leader": {"name": "learner", "template": template(leader)},
            "workerSets": [{"name": "actor", "template": template(worker)}],
            "cleanPodPolicy": "Running",
        },
    }


def template(command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", command]}
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}


def status_of(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shoal("get", "tyjob/a", "-o", "json", "--home", str(home)).stdout)
    return dict(found["status"])


def pods_of(home: Path) -> list[str]:
    return shoal("get", "pods", "-o", "name", "--home", str(home)).stdout.split()


def kill_daemon(home: Path) -> None:
    os.kill(pid_of(home), signal.SIGKILL)
    wait_for(lambda: read_daemon_info(home) is None)


def starts(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_ends_of_pods_while_the_daemon_is_killed_count_once(tmp_path: Path) -> None:
    home, directory = tmp_path / "home", tmp_path / "directory"
    directory.mkdir()
    with in_background(home):
        manifest = json.dumps(tyjob(directory)).encode()
        assert shoal("apply", "-f", "-", "--home", str(home), stdin=manifest).returncode == 0
        wait_for(lambda: status_of(home).get("stage") == "Running" and (directory / "worker").exists())
        kill_daemon(home)
        (directory / "fail").touch()
        start(home)
        wait_for(lambda: starts(directory / "worker") == 2)
        wait_for(lambda: status_of(home)["ready"] == "1/1")
        status = status_of(home)
        assert (status["stage"], status["restarts"]) == ("Running", {"actor-0": 1})
        kill_daemon(home)
        (directory / "succeed").touch()
        start(home)
        status = wait_for(lambda: (one := status_of(home))["stage"] == "Succeeded" and one) or {}
        assert (status["restarts"], status["completed"]) == ({"actor-0": 1}, {"learner": "0"})
        assert (starts(directory / "leader"), starts(directory / "worker")) == (1, 2)
        wait_for(lambda: pods_of(home) == ["pod/a-learner"])
