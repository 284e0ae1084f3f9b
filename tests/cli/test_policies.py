"""Elastic policies from installed packages: named in scheduler.yaml, run in a separate process."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from shoal.policies.process import PolicyProcess
from shoal.policies.registry import PolicyError, load, names
from tests.builders import dijob, node, owner, pod, template
from tests.cli.process import SHOAL

EXAMPLE = Path(__file__).parents[2] / "examples" / "policies" / "marginal"

FAULTY_PACKAGE = """
import os, time

class Base:
    def allocate(self, job, nodes): return []

class Hangs(Base):
    def optimize(self, jobs, nodes, previous): time.sleep(10**6)

class Exits(Base):
    def optimize(self, jobs, nodes, previous): os._exit(3)

class Raises(Base):
    def optimize(self, jobs, nodes, previous): raise SystemError("broken")

class Odd(Base):
    def optimize(self, jobs, nodes, previous): return object()

class Chats(Base):
    def optimize(self, jobs, nodes, previous):
        print("thinking")
        return {key: [*ranks, ranks[0]] for key, ranks in previous.items()}

class Lacks: pass

class Breaks:
    def __init__(self): raise RuntimeError("no licence")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two installed packages: the example of the docs, and one with faulty policies."""
    directory = tmp_path_factory.mktemp("site")
    trouble = tmp_path_factory.mktemp("trouble")
    (trouble / "trouble.py").write_text(FAULTY_PACKAGE)
    kinds = "\n".join(f'{name} = "trouble:{name.title()}"' for name in FAULTY_POLICIES)
    (trouble / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "trouble"\nversion = "1"\n'
        f'[project.entry-points."shoal.policies"]\n{kinds}\ngone = "trouble:Gone"\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["trouble.py"]\n'
    )
    for package in (EXAMPLE, trouble):
        _install(package, directory, tmp_path_factory.mktemp("wheel"))
    return directory


FAULTY_POLICIES = ("hangs", "exits", "raises", "odd", "chats", "lacks", "breaks")


def _install(package: Path, site: Path, wheels: Path) -> None:
    """Build a wheel and unpack it, which is what an installation does."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=package, check=True, capture_output=True)  # noqa: S603 - our own command
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(site)


def _world(path: Path) -> Path:
    """Two nodes of 4 CPUs, a job that gains from more replicas, and one that does not."""
    objects = [node("n1", cpu=4), node("n2", cpu=4)]
    for name, samples in (("scales", {"1": 10, "4": 40}), ("stalls", {"1": 10, "2": 10})):
        job = dijob(name, template(cpu=1), replicas=(1, 4), preemptible=True)
        job["status"] = {"profilings": {"samples": samples}}
        rank = pod(f"{name}-0-0", cpu=1, node="n1")
        rank["metadata"] |= {"labels": {"diengine/rank": "0"}, "ownerReferences": [owner("DIJob", name)]}
        objects += [job, rank]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def _plan(tmp_path: Path, site: Path, policy: str) -> subprocess.CompletedProcess[str]:
    """Plan with a policy; the site is on the Python path."""
    (tmp_path / "scheduler.yaml").write_text(f"elasticPolicy: {policy}\n")
    world = str(_world(tmp_path / "world.json"))
    command = [*SHOAL, "plan", "-f", world, "--config", str(tmp_path / "scheduler.yaml"), "-o", "json"]
    path = os.pathsep.join([str(site), *sys.path])
    return subprocess.run(  # noqa: S603 - our own command
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_example_policy_grows_the_job_that_gains(tmp_path: Path, site: Path) -> None:
    done = _plan(tmp_path, site, "marginal")
    assert (done.returncode, done.stderr) == (0, "")
    targets = {job["job"]: job["target"] for job in json.loads(done.stdout)["jobs"]}
    assert targets == {"DIJob/default/scales": 4, "DIJob/default/stalls": 1}


def test_output_of_a_policy_does_not_mix_with_the_plan(tmp_path: Path, site: Path) -> None:
    done = _plan(tmp_path, site, "chats")
    assert {job["target"] for job in json.loads(done.stdout)["jobs"]} == {2}
    assert "thinking" in done.stderr


@pytest.mark.parametrize(
    "policy, reason",
    [
        ("exits", "its process ended without an answer"),
        ("raises", "it raised SystemError: broken"),
        ("odd", "it answered with object where a list of node names was due"),
        ("lacks", "policy lacks has no method allocate"),
        ("breaks", "policy breaks does not load: RuntimeError: no licence"),
        ("gone", "policy gone does not load: AttributeError"),
    ],
)
def test_a_failing_policy_changes_nothing(tmp_path: Path, site: Path, policy: str, reason: str) -> None:
    done = _plan(tmp_path, site, policy)
    assert done.returncode == 0
    for job in json.loads(done.stdout)["jobs"]:
        assert job["target"] == 1
        assert [reason["code"] for reason in job["reasons"]] == ["PolicyRefused"]
        assert reason in job["reasons"][0]["message"]


def test_a_hanging_policy_is_killed_and_restarted(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    with PolicyProcess("hangs", timeout=2) as policy:
        for _ in range(2):
            with pytest.raises(PolicyError, match="no answer within 2 s"):
                policy.optimize({}, {}, {})


def test_an_unregistered_policy_is_invalid_input(tmp_path: Path, site: Path) -> None:
    done = _plan(tmp_path, site, "gootput")
    assert (done.returncode, done.stdout) == (2, "")
    assert "elasticPolicy: 'gootput' is not registered; choose one of: " in done.stderr
    assert "fit, fulfilment" in done.stderr
    assert "marginal" in done.stderr


def test_builtin_policies_are_registered() -> None:
    assert {"fit", "fulfilment"} <= set(names())
    assert type(load("fit")).__name__ == "FitPolicy"
    with pytest.raises(PolicyError, match="not registered"):
        load("nothing")
