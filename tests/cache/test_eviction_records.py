"""The eviction record of a pod survives in an annotation, and counts only with the condition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api import kinds
from shoal.api.disruption import DISRUPTION
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import EVICTION, EvictionRecord, eviction_in, record_of
from tests.builders import Object, pod

WORKLOADS = st.sampled_from(["", "Pod/default/p", "Gang/team/with", "TYJob/for/for"])
RECORD = EvictionRecord("Preempted", "TYJob/default/a", "Pod/default/b")


@given(st.sampled_from(["Preempted", "Reclaimed", "Shrunk", "Moved", "GangLost"]), WORKLOADS, WORKLOADS)
def test_a_record_is_read_as_it_was_written(reason: str, whole: str, beneficiary: str) -> None:
    record = EvictionRecord(reason, whole, beneficiary)
    assert eviction_in({EVICTION: record.annotation()}) == record


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"reason": 3}', "Shoal: Preempted"])
def test_another_annotation_is_no_record(text: str) -> None:
    assert eviction_in({EVICTION: text}) is None


def seen(annotated: bool, condition: str, *, deleted: bool = False) -> tuple[bool, EvictionRecord | None]:  # noqa: FBT001 - a table
    raw: Object = pod("p", node="n1")
    raw["metadata"].setdefault("annotations", {}).update({EVICTION: RECORD.annotation()} if annotated else {})
    if deleted:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if condition:
        raw["status"]["conditions"] = [{"type": DISRUPTION, "status": condition}]
    view = kinds.read(kinds.by_name()["v1", "Pod"], raw)
    record = record_of(view, PodClassCache(), 0)  # type: ignore[arg-type]  # a Pod
    return record.leaving, record.eviction


CASES = {
    "an ordinary pod": (seen(annotated=False, condition=""), (False, None)),
    "an eviction that is still to be carried out": (seen(annotated=True, condition="True"), (True, RECORD)),
    "the annotation alone, as in a copied manifest": (seen(annotated=True, condition=""), (False, None)),
    "a disruption by another component": (seen(annotated=False, condition="True"), (False, None)),
    "a disruption that was revoked": (seen(annotated=True, condition="False"), (False, None)),
    "a pod that is deleted": (seen(annotated=True, condition="True", deleted=True), (True, None)),
}


@pytest.mark.parametrize("name", CASES)
def test_when_a_pod_is_being_evicted(name: str) -> None:
    found, expected = CASES[name]
    assert found == expected
