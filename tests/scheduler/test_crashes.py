"""Shoal is killed before or after each write of a scene: the scene ends as without the crash."""

import pytest

from shoal.cluster.resources import PODS
from shoal.simulator import Crash
from tests.scheduler.cases import CASES, CLASSES, HIGH, JOBS, LOW, A, in_pool, small, whole
from tests.scheduler.scenes import Act, Scene, play
from tests.scheduler.simulations import Run, simulated

UNSERVED = "unserved"
"""A node without a kubelet: a pod that is deleted there stays."""

MOVED_NOMINATION = Scene(
    objects=[
        *(A, *CLASSES, in_pool("a", "n1"), in_pool("a", UNSERVED)),
        small("slow", "a", cpu=4, on=UNSERVED, priority=LOW),
        small("other", "a", cpu=4, on="n1", priority=HIGH),
    ],
    acts=[
        Act(create=[whole("first", HIGH)], waits={"first": "Unschedulable"}, on={"other": "n1"}),
        Act(ends=["other"], on={"first": "n1"}),
    ],
)

CHOSEN = {
    name: scene
    for name, scene in (CASES | JOBS).items()
    if name.startswith(("6:", "22:", "24:", "25:", "26:", "a gang", "a TYJob is", "the room of"))
} | {"a nominated pod takes other room that becomes free first": MOVED_NOMINATION}


@pytest.mark.parametrize("scene", CHOSEN.values(), ids=CHOSEN.keys())
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_changes_nothing_about_the_end(scene: Scene, after: bool) -> None:  # noqa: FBT001 - a case
    expected, nth = ends(scene), 0
    while True:
        nth += 1
        crash = Crash(nth=nth, after=after)
        came, end = ends_with(scene, crash)
        assert end == expected, f"killed {'after' if after else 'before'} write {nth}"
        if not came:
            return


def ends(scene: Scene) -> dict[str, str]:
    return simulated(lambda one: ending(one, scene))


def ends_with(scene: Scene, crash: Crash) -> tuple[bool, dict[str, str]]:
    """Whether the crash came at all, and where pods are in the end."""

    async def main(one: Run) -> tuple[bool, dict[str, str]]:
        end = await ending(one, scene)
        return bool(one.faults.log), end

    return simulated(main, crash)


async def ending(one: Run, scene: Scene) -> dict[str, str]:
    await play(scene, one.stage, one.shoal)
    pods = (await one.store.list(PODS)).items
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
