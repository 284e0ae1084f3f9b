"""Followups: evictions that were recorded and interrupted are continued, and nothing else is evicted."""

from typing import Any, Final

import pytest

from shoal.api.core import Pod
from shoal.api.decode import decode
from shoal.cache.world import World
from shoal.kinds.pods import EVICTION, EvictionRecord
from shoal.scheduler.followups import Followups
from tests.builders import pod

DISRUPTED: Final = [{"type": "DisruptionTarget", "status": "True"}]
ALL: Final = "Gang/default/g"


def member(name: str, *, whole: str | None = None, phase: str = "Running") -> Pod:
    """A member of a gang on a node; with `whole`, its eviction is recorded."""
    manifest: dict[str, Any] = pod(name, node="n", gang="g", gang_min=2)
    manifest["metadata"]["uid"] = f"uid-{name}"
    manifest["status"] = {"phase": phase}
    if whole is not None:
        record = EvictionRecord("Preempted", whole)
        manifest["metadata"].setdefault("annotations", {})[EVICTION] = record.annotation()
        manifest["status"]["conditions"] = DISRUPTED
    return decode(Pod, manifest)


CASES: Final = {
    "a pod whose eviction is recorded": ([member("a", whole=""), member("b")], ["a"]),
    "the rest of a workload that must go as a whole": ([member("a", whole=ALL), member("b")], ["a", "b"]),
    "the rest, if the first pod has ended meanwhile": (
        [member("a", whole=ALL, phase="Failed"), member("b")],
        ["b"],
    ),
    "no pod that has ended": ([member("a", whole="", phase="Failed"), member("b")], []),
    "no other workload, whatever the record says": (
        [member("a", whole="DIJob/default/x"), member("b")],
        ["a"],
    ),
}


def evicted(followups: Followups, **changed: str) -> list[str]:
    keys = {("default", name) for name in changed.values()}
    return sorted(one.key[1] for found in followups.take({"Pod": keys}) for one in found.evictions)


@pytest.mark.parametrize("case", CASES)
def test_what_is_evicted(case: str) -> None:
    pods, expected = CASES[case]
    world = World(0.0)
    world.put(*pods)
    assert evicted(Followups(world, lambda _: False), a="a", b="b") == expected


def test_later_pods_of_a_workload_are_not_evicted_for_one_that_has_ended() -> None:
    world = World(0.0)
    world.put(member("a", whole=ALL, phase="Failed"))
    followups = Followups(world, lambda _: False)
    assert evicted(followups, a="a") == []
    world.put(member("c"))
    assert evicted(followups, c="c") == []


def test_an_eviction_is_continued_when_other_writes_of_the_workload_are_done() -> None:
    world, busy = World(0.0), {ALL}
    world.put(member("a", whole=""))
    followups = Followups(world, busy.__contains__)
    assert evicted(followups, a="a") == []
    busy.clear()
    assert evicted(followups) == ["a"]
