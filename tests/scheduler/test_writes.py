"""Evictions as they are written: a pod is marked and deleted, unless it has ended by itself."""

import pytest

from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import PODS, Object
from shoal.engine.config import SchedulerConfig
from shoal.kinds.pods import EvictionRecord
from shoal.scheduler.decisions import Evict
from shoal.scheduler.writes import Writes
from tests.scheduler.cases import small
from tests.scheduler.simulations import Run, simulated

MARKED = {"type": "DisruptionTarget", "status": "True"}


def evicted(status: Object) -> Object | None:
    """Evict a pod with a status; return it as it is then, None if it is gone."""

    async def main(one: Run) -> Object | None:
        created = await one.store.create(PODS, small("a", "pool", on="n1"))
        name, space = created["metadata"]["name"], created["metadata"]["namespace"]
        await one.store.patch_status(PODS, name, space, patch={"status": status})
        decision = Evict((space, name), created["metadata"]["uid"], EvictionRecord("Preempted"))
        await Writes(one.store, SchedulerConfig(), one.simulation.clock).evict(decision)
        try:
            return await one.store.get(PODS, name, space)
        except NotFoundError:
            return None

    return simulated(main)


CASES: dict[str, tuple[Object, bool]] = {
    "a running pod is marked and deleted": ({"phase": "Running"}, True),
    "a pod that was marked before it ended is deleted": (
        {"phase": "Succeeded", "conditions": [MARKED]},
        True,
    ),
    "a pod that has succeeded meanwhile is neither marked nor deleted": ({"phase": "Succeeded"}, False),
    "a pod that has failed meanwhile is neither marked nor deleted": ({"phase": "Failed"}, False),
}


@pytest.mark.parametrize("status, is_deleted", CASES.values(), ids=CASES)
def test_only_pods_that_have_not_ended_are_evicted(status: Object, is_deleted: bool) -> None:  # noqa: FBT001
    pod = evicted(status)
    is_touched = (
        pod is None or "deletionTimestamp" in pod["metadata"] or bool(pod["status"].get("conditions"))
    )
    assert is_touched == is_deleted
