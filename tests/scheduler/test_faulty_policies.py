"""Policies that hang, exit or return invalid answers: they run in a process, and other pods are served."""

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
from tests.scheduler.scenarios import ClusterTestbed, new_testbed, until
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

class Invalid(Policy):
    def do(self): return 42
"""
MESSAGES = {
    "hangs": "no answer within 2 s",
    "exits": "its process ended without an answer",
    "raises": "it raised SystemError: broken",
    "invalid": "must answer with a list of node names, and answered 42",
}
"""The message for the job that the policy was asked about."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with faulty policies, for this process and its children."""
    (tmp_path / "faulty.py").write_text(POLICIES)
    about = tmp_path / "faulty-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    lines = "\n".join(f"{name} = faulty:{name.title()}" for name in MESSAGES)
    (about / "entry_points.txt").write_text(f"[shoal.policies]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


async def unbound(testbed: ClusterTestbed, *names: str) -> list[str]:
    pods = [await testbed.cluster.get(PODS, name, testbed.namespace) for name in names]
    return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]


async def without_message(testbed: ClusterTestbed, what: str) -> list[str]:
    job: Object = await testbed.cluster.get(resource_of("DIJob"), "d", testbed.namespace)
    messages = [one["message"] for one in job.get("status", {}).get("conditions") or ()]
    return [] if any(what in message for message in messages) else messages or ["no condition"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", MESSAGES)
async def test_other_pods_are_served_and_the_job_gets_a_reason(name: str) -> None:
    async with Registry() as registry:
        testbed = await new_testbed(registry, asyncio.get_running_loop().time)
        for thing in NODES:
            await testbed.create(thing)
        config = SchedulerConfig(elastic_policy=name)
        with PolicyProcess(name, timeout=2.0) as policy:
            async with running(registry, config, policy_call=call_in_thread(policy)):
                await testbed.create(JOB)
                await testbed.create(small("before", "none"))
                await until(lambda: unbound(testbed, "before"), "a pod created while the policy is called")
                await until(
                    lambda: without_message(testbed, MESSAGES[name]),
                    "the job has the message",
                )
                await testbed.create(small("after", "none"))
                await until(lambda: unbound(testbed, "after"), "a pod created afterwards")


@pytest.mark.usefixtures("installed")
async def test_a_manager_stops_although_its_policy_hangs() -> None:
    async with Registry() as registry:
        testbed = await new_testbed(registry, asyncio.get_running_loop().time)
        for thing in (*NODES, JOB):
            await testbed.create(thing)
        async with running(registry, SchedulerConfig(elastic_policy="hangs")) as manager:
            await until(lambda: uncalled(manager.scheduler.cycles), "the policy is called")


async def uncalled(cycles: int) -> list[str]:
    return [] if cycles else ["no cycle yet"]
