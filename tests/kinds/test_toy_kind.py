"""A kind of job that no file of Shoal knows of: one JobKind is all that it takes.

The kind is in `toy_kind.py`. It is registered at run time, and through an entry point.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from shoal.api import kinds, registry
from shoal.api.crds import crd
from shoal.api.fields import InvalidObjectError
from shoal.cache.dry_run import run_cycles, world_of
from shoal.cli.commands.scale import scale_patch
from shoal.cli.input.session import Session
from shoal.cli.output.describe.table import describe_object
from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import report
from shoal.explain.explanation import explain
from shoal.explain.trials import PlanOptions
from tests.builders import node
from tests.kinds.toy_kind import KIND
from tests.scheduler.scenarios import Step, until
from tests.scheduler.simulations import Run, simulated

HERE = Path(__file__).parent
SOURCE = Path(kinds.__file__).parents[1]


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind for one test."""
    monkeypatch.setattr(registry._state, "added", registry._state.added)
    registry.register(KIND)


def toyjob(name: str, size: int, cpu: str = "1") -> Object:
    container = {"name": "main", "image": "toy", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": KIND.api_version,
        "kind": "ToyJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size, "template": {"spec": {"containers": [container]}}},
    }


def test_no_file_of_shoal_names_it() -> None:
    named = [path for path in SOURCE.rglob("*.py") if "toyjob" in path.read_text().lower()]
    assert [path for path in named if path.name != "registry.py"] == []  # its docstring has an example


def test_it_is_validated() -> None:
    bad = toyjob("a", 0)
    del bad["spec"]["template"]["spec"]["containers"][0]["name"]
    with pytest.raises(InvalidObjectError) as caught:
        kinds.read(KIND, bad)
    assert {error.path for error in caught.value.errors} >= {"spec.size"}


def test_it_has_a_crd_with_its_columns_and_defaults() -> None:
    made = crd(KIND)
    assert made["metadata"]["name"] == "toyjobs.toys.example.com"
    version = made["spec"]["versions"][0]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["Phase", "Running", "Age"]
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"] == 1


def test_it_is_planned_and_explained() -> None:
    raws = [node("n1", cpu="4"), toyjob("fits", 3), toyjob("waits", 3)]
    views = [kinds.read(kinds.by_name()[raw["apiVersion"], raw["kind"]], raw) for raw in raws]
    world = world_of(views, now=0)
    steps = run_cycles(world, SchedulerConfig(), cycles=1)
    planned = {entry.job: entry for entry in report(steps, SchedulerConfig()).jobs}
    assert planned["ToyJob/default/fits"].state == "ScheduledSucceed"
    assert planned["ToyJob/default/fits"].allocation == {f"fits-{i}": "n1" for i in range(3)}
    assert planned["ToyJob/default/waits"].state == "Unscheduled"
    waiting = next(workload for workload in steps[-1].snapshot.workloads if workload.name == "waits")
    explained = explain(world_of(views, now=0), PlanOptions(SchedulerConfig(), 0), steps, waiting)
    changes = {change.dimension: change for change in explained.changes}
    assert changes["fewer"].set == {"spec.size": 1}


def test_it_runs_is_scaled_described_and_deleted() -> None:
    """In the simulated home, with its own controller, the real scheduler and simulated kubelets."""

    async def main(one: Run) -> str:
        testbed, cluster = one.testbed, one.testbed.cluster
        toyjobs, namespace = resource_of("ToyJob"), one.testbed.namespace
        for raw in (node("n1", cpu="2"), node("n2", cpu="2")):
            await testbed.create(raw)
        async with one.shoal(cluster, SchedulerConfig()), testbed.machines():
            await testbed.create(toyjob("a", 2))
            step = Step(statuses={"ToyJob/a": {"phase": "Running", "running": 2}})
            await until(lambda: testbed.missing(step), "it runs")
            pods = await testbed.pods()
            assert sorted(pods) == ["a-0", "a-1"]

            manifest = await cluster.get(toyjobs, "a", namespace)
            patch = scale_patch(toyjobs, manifest, 3, "")
            await cluster.patch(toyjobs, "a", namespace, patch=patch.patch)
            await until(lambda: testbed.missing(Step(statuses={"ToyJob/a": {"running": 3}})), "it grows")
            grown = await testbed.pods()
            assert {name: grown[name]["metadata"]["uid"] for name in pods} == {
                name: pod["metadata"]["uid"] for name, pod in pods.items()
            }

            described = describe_object(
                _session(list((await testbed.pods()).values())),
                toyjobs,
                await cluster.get(toyjobs, "a", namespace),
                events=False,
            )

            await cluster.delete(toyjobs, "a", namespace)

            async def left() -> list[str]:
                return sorted(await testbed.pods())

            await until(left, "its pods go with it")
            with pytest.raises(NotFoundError):
                await cluster.get(toyjobs, "a", namespace)
        return described

    described = simulated(main)
    assert "Kind" not in described.splitlines()[0]
    for text in ("worker", "a-2", "Running"):
        assert text in described


def test_it_finishes_when_its_pods_have_succeeded() -> None:
    async def main(one: Run) -> None:
        testbed = one.testbed
        await testbed.create(node("n1", cpu="2"))
        async with one.shoal(testbed.cluster, SchedulerConfig()), testbed.machines():
            await testbed.create(toyjob("a", 2))
            await until(lambda: testbed.missing(Step(statuses={"ToyJob/a": {"running": 2}})), "it runs")
            await testbed.perform(Step(ends=["a-0", "a-1"]))
            await until(
                lambda: testbed.missing(Step(statuses={"ToyJob/a": {"phase": "Succeeded"}})), "it ends"
            )

    simulated(main)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(registry.KindError, match=r"ToyJob.*taken"):
        registry.register(KIND)


def test_another_package_adds_it_through_an_entry_point(tmp_path: Path) -> None:
    """The command line finds an installed kind: it prints its CRD, validates and plans its jobs."""
    shutil.copy(HERE / "toy_kind.py", tmp_path / "toy_kind.py")
    info = tmp_path / "toy_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[shoal.kinds]\ntoyjob = toy_kind:KIND\n")
    world = tmp_path / "world.yaml"
    world.write_text(yaml.safe_dump_all([node("n1", cpu="4"), toyjob("a", 2)]))

    def shoal(*arguments: str) -> str:
        command = [sys.executable, "-c", "from shoal.cli.main import main; main()", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "toyjobs.toys.example.com" in shoal("crds", "toyjob")
    assert "toyjobs.toys.example.com" in shoal("crds")
    shoal("validate", "-f", str(world))
    assert '"ToyJob/default/a"' in shoal("plan", "-f", str(world), "-o", "json")


def _session(pods: list[Object]) -> Session:
    """A session whose client lists these pods: what a description reads of a cluster."""

    def listed(resource: Any, _selector: Selector) -> list[Object]:  # noqa: ANN401 - as the client has it
        assert resource is PODS
        return pods

    return cast("Session", SimpleNamespace(client=SimpleNamespace(list=listed)))
