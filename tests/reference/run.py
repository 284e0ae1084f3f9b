"""The doors of the reference: plan a world, or ask what is in it."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.reference.carrying import carried_out, changed_nothing
from tests.reference.cycle import Turns
from tests.reference.model import Workload
from tests.reference.objects import Input, moment, newest
from tests.reference.placing import place_minimum

Object = dict[str, Any]

STEP = timedelta(seconds=30)


def plan(
    objects: list[Object], config: Object | None = None, now: str | None = None, *, cycles: int = 1
) -> Object:
    """Plan, do as planned, and plan again, until nothing changes or all cycles are run."""
    world = _world(objects, config, now)
    placements: list[Object] = []
    evictions: list[Object] = []
    for number in range(1, cycles + 1):
        cycle = Turns(world)
        answer = cycle.run()
        placements += answer["placements"]
        evictions += answer["evictions"]
        stable = changed_nothing(cycle)
        if stable or number == cycles:
            break
        world = replace(world, objects=carried_out(cycle), now=world.now + STEP)
    done = {"cycles": number, "stable": stable, "placements": placements, "evictions": evictions}
    return answer | done


def workloads(objects: list[Object], config: Object | None = None, now: str | None = None) -> list[Workload]:
    """The workloads of the world as they are before any plan, each with its home pool."""
    return Turns(_world(objects, config, now)).jobs


def fits_without(objects: list[Object], config: Object, now: str, job: str, gone: set[str]) -> bool:
    """Whether the minimum of a workload fits its home pool when these pods are gone, and those that leave."""
    cycle = Turns(_world(objects, config, now))
    wanted = next(one for one in cycle.jobs if one.key == job)
    pods = {task for one in cycle.jobs for task in one.placed if f"{task.namespace}/{task.name}" in gone}
    room = cycle.waiting_room.without(pods)
    return place_minimum(room, cycle.pools[wanted.pool], wanted) is not None


def _world(objects: list[Object], config: Object | None, now: str | None) -> Input:
    """What does not say when it was created is as old as the first cycle."""
    start = moment(now) if now else newest(objects)
    copied = deepcopy(objects)
    for one in copied:
        if not one["metadata"].get("creationTimestamp"):
            one["metadata"]["creationTimestamp"] = start.isoformat()
    return Input(copied, config or {}, start)
