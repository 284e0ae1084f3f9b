"""Shoal is killed before or after each write of a scenario: the scenario ends as without the crash."""

import pytest

from shoal.cluster.resources import PODS
from shoal.simulator import Crash
from tests.scheduler.cases import CASES, CLASSES, HIGH, JOBS, LOW, A, in_pool, small, whole
from tests.scheduler.scenarios import Scenario, Step, run_scenario
from tests.scheduler.simulations import Run, simulated

UNSERVED = "unserved"
"""A node without a kubelet: a pod that is deleted there stays."""

MOVED_NOMINATION = Scenario(
    objects=[
        *(A, *CLASSES, in_pool("a", "n1"), in_pool("a", UNSERVED)),
        small("slow", "a", cpu=4, on=UNSERVED, priority=LOW),
        small("other", "a", cpu=4, on="n1", priority=HIGH),
    ],
    steps=[
        Step(create=[whole("first", HIGH)], waits={"first": "Unschedulable"}, on={"other": "n1"}),
        Step(ends=["other"], on={"first": "n1"}),
    ],
)

CHOSEN = {
    name: scenario
    for name, scenario in (CASES | JOBS).items()
    if name.startswith(("6:", "22:", "24:", "25:", "26:", "a gang", "a TYJob is", "the room of"))
} | {"a nominated pod takes other room that becomes free first": MOVED_NOMINATION}


@pytest.mark.parametrize("scenario", CHOSEN.values(), ids=CHOSEN.keys())
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_changes_nothing_about_the_end(scenario: Scenario, after: bool) -> None:  # noqa: FBT001 - a case
    expected, nth = ends(scenario), 0
    while True:
        nth += 1
        crash = Crash(nth=nth, after=after)
        came, end = ends_with(scenario, crash)
        assert end == expected, f"killed {'after' if after else 'before'} write {nth}"
        if not came:
            return


def ends(scenario: Scenario) -> dict[str, str]:
    return simulated(lambda one: ending(one, scenario))


def ends_with(scenario: Scenario, crash: Crash) -> tuple[bool, dict[str, str]]:
    """Whether the crash came at all, and where pods are in the end."""

    async def main(one: Run) -> tuple[bool, dict[str, str]]:
        end = await ending(one, scenario)
        return bool(one.faults.log), end

    return simulated(main, crash)


async def ending(one: Run, scenario: Scenario) -> dict[str, str]:
    await run_scenario(scenario, one.testbed, one.shoal)
    pods = (await one.store.list(PODS)).items
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
