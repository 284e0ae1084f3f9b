"""Incremental snapshots of random changing worlds equal snapshots that are built from scratch."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.decode import decode
from shoal.engine.config import SchedulerConfig
from tests.builders import Object, namespace
from tests.incremental import NOW, IncrementalWorld, identity, snapshot_data
from tests.worlds import World, elastic_worlds, shared_worlds, worlds

over_changes = settings(max_examples=60)

PAIRS = st.one_of(
    st.tuples(worlds(), worlds()),
    st.tuples(shared_worlds(), shared_worlds()),
    st.tuples(elastic_worlds(), elastic_worlds()),
    st.tuples(worlds(), elastic_worlds()),
)
"""Two worlds whose objects have the same names; the objects of both are put in random order."""

LATER = (NOW, NOW + 30, NOW + 61, NOW + 3600)
LONG_AGO = "2024-05-01T00:00:00Z"


def _recordoned(one: Object) -> None:
    one["spec"]["unschedulable"] = not one["spec"].get("unschedulable", False)


def _silent(one: Object) -> None:
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2024-05-01T00:59:30Z"}
    one["status"]["conditions"] = [condition]


def _unready(one: Object) -> None:
    one["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastHeartbeatTime": LONG_AGO}]


def _resized(one: Object) -> None:
    one["status"]["allocatable"] = {"cpu": "3", "example.com/fpga": "2"}


def _moved(one: Object) -> None:
    one["metadata"]["labels"]["pool"] = "p1" if one["metadata"]["labels"].get("pool") != "p1" else "a"


def _leaving(one: Object) -> None:
    one["metadata"]["deletionTimestamp"] = LONG_AGO


def _ended(one: Object) -> None:
    one["status"]["phase"] = "Succeeded"


def _failed(one: Object) -> None:
    one["status"]["phase"] = "Failed"


def _bound(one: Object) -> None:
    one["spec"]["nodeName"] = "n2"


def _on_its_own(one: Object) -> None:
    one["metadata"].pop("ownerReferences", None)


def _of_another(one: Object) -> None:
    for reference in one["metadata"].get("ownerReferences", ()):
        reference["uid"] = "another"


def _in_a_gang(one: Object) -> None:
    one["metadata"].setdefault("annotations", {})["shoal.io/gang"] = "w1"


def _renamed(one: Object) -> None:
    one["metadata"]["uid"] = "renewed"


CHANGES: dict[str, tuple[Callable[[Object], None], ...]] = {
    "Node": (_recordoned, _silent, _unready, _resized, _moved),
    "Pod": (_leaving, _ended, _failed, _bound, _on_its_own, _of_another, _in_a_gang),
    "TYJob": (_leaving, _renamed),
    "DIJob": (_leaving, _renamed),
    "TrainingJob": (_leaving, _renamed),
}


def changed(draw: Callable[[st.SearchStrategy[Any]], Any], one: Object) -> Object:
    """An object, unchanged or with one random change."""
    change = draw(st.sampled_from((None, *CHANGES.get(one["kind"], ()))))
    made = deepcopy(one)
    if change:
        made.setdefault("status", {})
        change(made)
    return made


def steps(data: st.DataObject, pair: tuple[World, World]) -> list[list[Object]]:
    """All objects of both worlds in any order, some of them changed, a few at a time."""
    spaces = [namespace("team", labels={"team": team}) for team in "ab"]
    objects = data.draw(st.permutations([*pair[0].objects, *pair[1].objects, *spaces]))
    made = [changed(data.draw, one) for one in objects]
    size = data.draw(st.integers(1, 12))
    return [made[start : start + size] for start in range(0, len(made), size)]


@over_changes
@given(PAIRS, st.data())
def test_an_incremental_snapshot_equals_a_new_one(pair: tuple[World, World], data: st.DataObject) -> None:
    incremental = IncrementalWorld(decode(SchedulerConfig, pair[0].config))
    for step in steps(data, pair):
        incremental.put(*step)
        known = sorted(incremental.objects)
        incremental.remove(*data.draw(st.lists(st.sampled_from(known), max_size=3)))
        if data.draw(st.booleans()):
            incremental.check(data.draw(st.sampled_from(LATER)))
    incremental.check()


@over_changes
@given(PAIRS, st.data())
def test_a_world_can_be_emptied_again(pair: tuple[World, World], data: st.DataObject) -> None:
    incremental = IncrementalWorld.of(pair[0].objects, pair[0].config)
    for key in data.draw(st.permutations(sorted(incremental.objects))):
        incremental.remove(key)
        if data.draw(st.integers(0, 3)) == 0:
            incremental.check()
    empty = incremental.check()
    assert empty.workloads == ()
    assert empty.nodes.names == ()


@over_changes
@given(PAIRS, st.data())
def test_earlier_snapshots_do_not_change(pair: tuple[World, World], data: st.DataObject) -> None:
    incremental = IncrementalWorld.of(pair[0].objects, pair[0].config)
    seen = [incremental.build().snapshot]
    data_before = [snapshot_data(seen[0])]
    for step in steps(data, pair):
        incremental.put(*step)
        incremental.remove(identity(step[0]))
        seen.append(incremental.build().snapshot)
        data_before.append(snapshot_data(seen[-1]))
    assert [snapshot_data(snapshot) for snapshot in seen] == data_before
