"""Policies of users: other workloads do not wait for their answers, which are followed when they arrive."""

import asyncio
from collections.abc import Mapping, Sequence

from shoal.apiserver.registry.registry import Registry
from shoal.cache.policy_questions import PolicyQuestions
from shoal.cluster.resources import resource_of
from shoal.engine.config import SchedulerConfig
from shoal.engine.policy_answers import PolicyAnswers
from shoal.manager import running
from shoal.policies import JobInfo, NodeInfo
from shoal.scheduler.policy_client import PolicyCall, call_inline
from tests.builders import Object, dijob, template
from tests.scheduler.cases import in_pool, small
from tests.scheduler.fake_controllers import run_fake_controllers
from tests.scheduler.scenarios import ClusterTestbed, Step, new_testbed, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

MINE = SchedulerConfig(elastic_policy="mine", cooldown="0s")
JOB = dijob("d", template(cpu=1), replicas=(1, 3), preemptible=True)
NODES = [in_pool("a", "n1"), in_pool("a", "n2")]
DELAY = 1000.0
"""Seconds, of virtual time, that a slow policy takes."""


class Last:
    """A policy that chooses the last node, and two replicas."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> list[str]:
        return [max(nodes)]

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Sequence[str]],
    ) -> dict[str, list[str]]:
        return {key: [max(nodes)] * 2 for key in jobs}


def slowly(call: PolicyCall) -> PolicyCall:
    async def ask(asked: PolicyQuestions) -> PolicyAnswers:
        await asyncio.sleep(DELAY)
        return await call(asked)

    return ask


def with_policy(call: PolicyCall, *steps: Step) -> float:
    """Execute steps with a policy that is called in this way; return the seconds they took."""

    async def main(one: Run) -> float:
        for thing in NODES:
            await one.testbed.create(thing)
        clock = one.simulation.clock
        async with (
            running(one.store, MINE, clock=clock, policy_call=call),
            run_nodes(one.store, clock),
            run_fake_controllers(one.store, one.testbed.namespace),
        ):
            for step in steps:
                await one.testbed.perform(step)
                await until(lambda: one.testbed.missing(step), "it")  # noqa: B023 - at once
        return asyncio.get_running_loop().time()

    return simulated(main)


def test_a_policy_decides_the_first_node_and_the_size_of_a_job() -> None:
    with_policy(
        call_inline(Last()),
        Step(create=[JOB], statuses={"DIJob/d": {"allocation": ["n2", "n2"], "replicas": 2}}),
        Step(on={"d-0-0": "n2", "d-0-1": "n2"}),
    )


def test_other_pods_do_not_wait_for_a_slow_policy() -> None:
    took = with_policy(
        slowly(call_inline(Last())),
        Step(create=[JOB, small("p", "none")], on={"p": "n1"}),
        Step(create=[small("q", "none")], on={"q": "n1"}),
    )
    assert took < DELAY


async def test_a_policy_runs_in_a_process_of_its_own() -> None:
    async with Registry() as registry:
        testbed = await new_testbed(registry, asyncio.get_running_loop().time)
        for thing in NODES:
            await testbed.create(thing)
        config = SchedulerConfig(elastic_policy="fit")
        async with running(registry, config):
            await testbed.create(JOB)
            await until(lambda: unallocated(testbed), "the job is given its minimum")


async def unallocated(testbed: ClusterTestbed) -> list[str]:
    job: Object = await testbed.cluster.get(resource_of("DIJob"), "d", testbed.namespace)
    return [] if job.get("status", {}).get("allocation") == ["n1"] else [str(job.get("status"))]
