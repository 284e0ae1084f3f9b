"""Policies that hang, die or answer nonsense, in a process of their own: everybody else is served as ever."""

import asyncio
from pathlib import Path

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.resources import PODS, Object, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from shoal.policies.process import PolicyProcess
from shoal.scheduler.policy_client import call_in_thread
from tests.scheduler.cases import small
from tests.scheduler.scenes import Stage, new_stage, until
from tests.scheduler.test_policy_client import JOB, NODES

POLICIES = """
import os, time

class Policy:
    def allocate(self, job, nodes): return self.do()
    def optimize(self, jobs, nodes, previous): return self.do()

class Hangs(Policy):
    def do(self): time.sleep(10**6)

class Exits(Policy):
    def do(self): os._exit(3)

class Raises(Policy):
    def do(self): raise SystemError("broken")

class Rambles(Policy):
    def do(self): return 42
"""
SAYS = {
    "hangs": "no answer within 2 s",
    "exits": "its process ended without an answer",
    "raises": "it raised SystemError: broken",
    "rambles": "must answer with a list of node names, and answered 42",
}
"""What the job that a policy should have decided on is told."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with awkward policies, as if it were installed, here and in processes that are started."""
    (tmp_path / "awkward.py").write_text(POLICIES)
    about = tmp_path / "awkward-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: awkward\nVersion: 1\n")
    lines = "\n".join(f"{name} = awkward:{name.title()}" for name in SAYS)
    (about / "entry_points.txt").write_text(f"[shoal.policies]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


async def unbound(stage: Stage, *names: str) -> list[str]:
    pods = [await stage.cluster.get(PODS, name, stage.namespace) for name in names]
    return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]


async def untold(stage: Stage, what: str) -> list[str]:
    job: Object = await stage.cluster.get(resource_of("DIJob"), "d", stage.namespace)
    said = [one["message"] for one in job.get("status", {}).get("conditions") or ()]
    return [] if any(what in message for message in said) else said or ["nothing"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", SAYS)
async def test_other_pods_are_served_and_the_job_gets_a_reason(name: str) -> None:
    async with Registry() as registry:
        stage = await new_stage(registry, asyncio.get_running_loop().time)
        for thing in NODES:
            await stage.create(thing)
        config = SchedulerConfig(elastic_policy=name)
        with PolicyProcess(name, timeout=2.0) as policy:
            async with running(registry, config, policy_call=call_in_thread(policy)):
                await stage.create(JOB)
                await stage.create(small("before", "none"))
                await until(lambda: unbound(stage, "before"), "a pod that comes while the policy is asked")
                await until(lambda: untold(stage, SAYS[name]), "the job is told what is wrong")
                await stage.create(small("after", "none"))
                await until(lambda: unbound(stage, "after"), "a pod that comes afterwards")


@pytest.mark.usefixtures("installed")
async def test_a_manager_stops_although_its_policy_hangs() -> None:
    async with Registry() as registry:
        stage = await new_stage(registry, asyncio.get_running_loop().time)
        for thing in (*NODES, JOB):
            await stage.create(thing)
        async with running(registry, SchedulerConfig(elastic_policy="hangs")) as manager:
            await until(lambda: unasked(manager.scheduler.cycles), "the policy is asked")


async def unasked(cycles: int) -> list[str]:
    return [] if cycles else ["no cycle yet"]
