"""Entry points of the reference: plan a world, or query it."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.reference.cycle import CyclePhases
from tests.reference.model import Workload
from tests.reference.next_world import apply_plan, is_stable
from tests.reference.objects import Input, newest, parse_time
from tests.reference.placement import place_minimum

Object = dict[str, Any]

STEP = timedelta(seconds=30)


def plan(
    objects: list[Object], config: Object | None = None, now: str | None = None, *, cycles: int = 1
) -> Object:
    """Plan and apply the plan, until nothing changes or all cycles are done."""
    world = _world(objects, config, now)
    placements: list[Object] = []
    evictions: list[Object] = []
    for number in range(1, cycles + 1):
        cycle = CyclePhases(world)
        answer = cycle.run()
        placements += answer["placements"]
        evictions += answer["evictions"]
        stable = is_stable(cycle)
        if stable or number == cycles:
            break
        world = replace(world, objects=apply_plan(cycle), now=world.now + STEP)
    done = {"cycles": number, "stable": stable, "placements": placements, "evictions": evictions}
    return answer | done


def workloads(objects: list[Object], config: Object | None = None, now: str | None = None) -> list[Workload]:
    """The workloads of a world before any plan, each with its home pool."""
    return CyclePhases(_world(objects, config, now)).jobs


def fits_without(objects: list[Object], config: Object, now: str, job: str, gone: set[str]) -> bool:
    """Whether a minimum fits its home pool without these pods and without terminating ones."""
    cycle = CyclePhases(_world(objects, config, now))
    wanted = next(one for one in cycle.jobs if one.key == job)
    pods = {task for one in cycle.jobs for task in one.placed if f"{task.namespace}/{task.name}" in gone}
    room = cycle.room_after_release.without(pods)
    return place_minimum(room, cycle.pools[wanted.pool], wanted) is not None


def _world(objects: list[Object], config: Object | None, now: str | None) -> Input:
    """A copy of the input; objects without a creation time are as old as the first cycle."""
    start = parse_time(now) if now else newest(objects)
    copied = deepcopy(objects)
    for one in copied:
        if not one["metadata"].get("creationTimestamp"):
            one["metadata"]["creationTimestamp"] = start.isoformat()
    return Input(copied, config or {}, start)
