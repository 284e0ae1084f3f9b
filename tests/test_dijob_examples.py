"""The DIJobs of `examples/dijob` run as processes: workers find each other, and are scaled and replaced.

Once with a hosts file in every container, once on a machine where it cannot be mounted.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.cluster.resources import Object
from tests.cli.daemon import up
from tests.cli.process import shoal

EXAMPLES = Path(__file__).parents[1] / "examples" / "dijob"
NODE = ("--nodes", "1", "--node-cpu", "4", "--node-memory", "8Gi")
TIMEOUT = "--timeout=120s"
WITHOUT_MOUNTS = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"',
    "sh",
)
"""Runs a command in a user namespace that can make no mount namespaces."""

Run = Callable[..., str]


@pytest.fixture(scope="module", params=["hosts files", "addresses in variables"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a command that must succeed on a cluster; return what it prints."""
    mounts = request.param == "hosts files"
    if not mounts and subprocess.run([*WITHOUT_MOUNTS, "true"], check=False).returncode:  # noqa: S603 - fixed
        pytest.skip("user namespaces cannot be made here")
    home, config = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("config") / "scheduler.yaml"
    config.write_text("cooldown: 0s")  # sizes may change at any time

    def command(*arguments: str, stdin: str = "") -> str:
        done = shoal("--home", str(home), *arguments, stdin=stdin.encode())
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    with up(home, *NODE, "--config", str(config), prefix=() if mounts else WITHOUT_MOUNTS):
        yield command


def test_both_jobs_run_to_their_end(run: Run) -> None:
    run("apply", "-f", str(EXAMPLES / "worker.yaml"))
    for job in ("elastic", "tasks"):
        text = (EXAMPLES / f"{job}.yaml").read_text()
        run(
            "apply",
            "-f",
            "-",
            stdin=text.replace('SECONDS_PER_BATCH, value: "0.5"', 'SECONDS_PER_BATCH, value: "0.02"'),
        )
    for job, ranks in {"elastic": 4, "tasks": 3}.items():
        run("wait", f"dijob/{job}", "--for=condition=Succeeded", TIMEOUT)
        log = run("logs", f"dijob/{job}")
        assert connected_ranks(log) == set(range(1, ranks))
        assert "trained" in log
        status = job_status(run, job)
        assert [worker["phase"] for worker in status["workers"]] == ["Succeeded"] * ranks
        assert (status["generation"], status["failures"]) == (0, 0)
        run("delete", f"dijob/{job}")


def test_elastic_job_is_scaled_while_it_runs(run: Run) -> None:
    apply_endless(run, "elastic", "scaled")
    run("wait", "dijob/scaled", "--for=jsonpath={.status.readyReplicas}=4", TIMEOUT)
    for size, ready in {"2": 2, "auto": 4, "3": 3}.items():
        run("scale", "dijob/scaled", f"--replicas={size}")
        run("wait", "dijob/scaled", f"--for=jsonpath={{.status.readyReplicas}}={ready}", TIMEOUT)
        run("wait", "dijob/scaled", "--for=condition=Running", TIMEOUT)
    status = job_status(run, "scaled")
    assert [worker["pod"] for worker in status["workers"]] == [f"scaled-0-{rank}" for rank in range(3)]
    assert status["generation"] == 0, "a resize is no restart"
    run("delete", "dijob/scaled")


def test_deleted_worker_comes_back_and_finds_the_learner(run: Run) -> None:
    apply_endless(run, "tasks", "replaced")
    run("wait", "dijob/replaced", "--for=condition=Running", TIMEOUT)
    run("delete", "pod/replaced-collector-0")
    run("wait", "dijob/replaced", "--for=jsonpath={.status.generation}=1", TIMEOUT)
    run("wait", "dijob/replaced", "--for=condition=Running", TIMEOUT)
    run("wait", "dijob/replaced", "--for=jsonpath={.status.readyReplicas}=3", TIMEOUT)
    status = job_status(run, "replaced")
    assert [(one["rank"], one["restarts"]) for one in status["workers"]] == [(0, 0), (1, 1), (2, 0)]
    assert status["failures"] == 0, "a deleted worker has not failed"
    run("scale", "dijob/replaced", "--role=collector", "--replicas=3")
    run("wait", "dijob/replaced", "--for=jsonpath={.status.readyReplicas}=4", TIMEOUT)
    follow_until_connected(run, {"replaced-collector-0": 1, "replaced-collector-2": 3})
    run("delete", "dijob/replaced")


def apply_endless(run: Run, example: str, name: str) -> None:
    """Apply an example under another name, with more batches than it can ever send."""
    run("apply", "-f", str(EXAMPLES / "worker.yaml"))
    text = (EXAMPLES / f"{example}.yaml").read_text()
    text = text.replace(f"name: {example}", f"name: {name}")
    run("apply", "-f", "-", stdin=re.sub(r'BATCHES, value: "\d+"', 'BATCHES, value: "1000000"', text))


def follow_until_connected(run: Run, pods: dict[str, int]) -> None:
    """Wait until the log of each pod says that its rank has reached the learner."""
    for pod, rank in pods.items():
        run("exec", pod, "--", "sh", "-c", 'test "$DI_RANK" = ' + str(rank))
        while rank not in connected_ranks(run("logs", pod)):
            pass


def connected_ranks(log: str) -> set[int]:
    return {int(rank) for rank in re.findall(r"rank (\d+) is connected to ", log)}


def job_status(run: Run, job: str) -> Object:
    found: Object = json.loads(run("get", f"dijob/{job}", "-o", "json"))
    return dict(found["status"])
