"""DI-engine, torchrun and Transformers, unmodified, as jobs of an embedded home (`make frameworks`).

They are in a virtual environment of their own, which the variable FRAMEWORKS names.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.daemon import up
from tests.cli.process import SHOAL

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
TIMEOUT = 900.0
"""Seconds: importing torch takes a minute on a loaded machine."""


class Home:
    """A home and its commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._environment = os.environ | {"SHOAL_HOME": str(directory / "home")}

    def run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(  # noqa: S603 - our own command
            [*SHOAL, *arguments],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, example: str, **changes: str) -> None:
        text = (EXAMPLES / f"{example}.yaml").read_text()
        places = {
            "@BIN@": f"{os.environ['FRAMEWORKS']}/bin",
            "@HERE@": str(EXAMPLES),
            "@DATA@": str(self.directory),
            "@STEPS@": "10000",
        }
        for name, value in (places | changes).items():
            text = text.replace(name, value)
        self.run("apply", "-f", "-", stdin=text)

    def logs(self, job: str) -> str:
        return self.run("logs", f"dijob/{job}", "--tail", "2000")

    def field(self, job: str, path: str) -> str:
        return self.run("get", f"dijob/{job}", "-o", f"jsonpath={{{path}}}")

    def wait(self, job: str, holds: Callable[[], object]) -> None:
        """Wait until something holds; a job that fails ends it."""
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            phase = self.field(job, ".status.phase")
            assert phase != "Failed", self.logs(job)
            assert time.monotonic() < deadline, self.logs(job)
            time.sleep(1)

    def uids(self, job: str) -> dict[str, str]:
        """The uids of the pods of a job that run, by name."""
        found = json.loads(self.run("get", "pods", "-l", f"diengine/job={job}", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in found
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with up(tmp_path / "home", "--nodes", "1", "--node-cpu", "4", "--node-memory", "8Gi"):
        yield Home(tmp_path)


@pytest.mark.parametrize(
    "example, job",
    [("di-engine", "dqn"), ("di-engine-arguments", "dqn-arguments")],
    ids=["by DI_NODES and DI_RANK", "by the four variables with arguments"],
)
def test_workers_of_di_engine_find_their_peers_and_learn(home: Home, example: str, job: str) -> None:
    home.submit(example)
    home.wait(job, lambda: home.field(job, ".status.phase") == "Succeeded")
    text = home.logs(job)
    iterations = [int(found) for found in re.findall(r"Evaluation: Train Iter\((\d+)\)", text)]
    assert iterations[-1] > 0, "the evaluator, in one process, has weights of the learner, in another"
    assert home.field(job, ".status.generation") == "0"


def test_a_worker_joins_running_workers_of_di_engine(home: Home) -> None:
    home.submit("di-engine")
    home.wait("dqn", lambda: len(home.uids("dqn")) == 2)
    before = home.uids("dqn")
    home.run("scale", "dijob/dqn", "--replicas=3")
    home.wait("dqn", lambda: len(home.uids("dqn")) == 3)
    assert before.items() <= home.uids("dqn").items()
    home.wait("dqn", lambda: home.field("dqn", ".status.phase") == "Succeeded")
    assert home.field("dqn", ".status.generation") == "0", "no worker was started again"


def test_torchrun_grows_and_shrinks_with_its_job(home: Home) -> None:
    home.submit("torchrun")
    home.run("scale", "dijob/ddp", "--replicas=2")
    home.submit("torchrun", **{"suspend: true": "suspend: false"})
    home.wait("ddp", lambda: "rank 0 of 2 begins at step 0" in home.logs("ddp"))
    before = home.uids("ddp")
    home.run("scale", "dijob/ddp", "--replicas=3")
    home.wait("ddp", lambda: "rank 2 of 3 begins" in home.logs("ddp"))
    assert before.items() <= home.uids("ddp").items()
    home.run("scale", "dijob/ddp", "--replicas=2")
    home.wait("ddp", lambda: "rank 1 of 2 begins" in home.logs("ddp").rpartition("of 3 begins")[2])
    assert home.uids("ddp") == before
    starts = [int(found) for found in re.findall(r"rank 0 of \d begins at step (\d+)", home.logs("ddp"))]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[-1] > 0
    assert home.field("ddp", ".status.phase") == "Running"


def test_torchrun_ends_with_its_program(home: Home) -> None:
    home.submit("torchrun", **{"suspend: true": "suspend: false", "@STEPS@": "5"})
    home.wait("ddp", lambda: home.field("ddp", ".status.phase") == "Succeeded")
    assert "rank 0 of 3 is done" in home.logs("ddp")


def test_the_progress_of_a_trainer_is_shown(home: Home) -> None:
    home.submit("transformers")
    home.wait("trainer", lambda: home.field("trainer", ".status.phase") == "Succeeded")
    header, row = (line.split() for line in home.run("get", "dijob/trainer").splitlines())
    assert dict(zip(header, row, strict=True))["PROGRESS"] == "100"
    assert float(home.field("trainer", ".status.profilings.metrics.train_loss")) > 0
