"""Shoal is killed before or after any write of a scene, each in turn: it ends as if nothing had happened."""

import pytest

from shoal.cluster.resources import PODS
from shoal.simulator import Crash
from tests.scheduler.cases import CASES, JOBS
from tests.scheduler.scenes import Scene, play
from tests.scheduler.simulations import Run, simulated

CHOSEN = {
    name: scene
    for name, scene in (CASES | JOBS).items()
    if name.startswith(("6:", "22:", "24:", "25:", "26:", "a gang", "a TYJob is", "the room of"))
}


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
