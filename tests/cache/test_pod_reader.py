"""A pod is read as if it were the first one, whatever was read before."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api import kinds
from shoal.api.core import Pod
from shoal.api.fields import InvalidObjectError
from shoal.api.kinds import by_name
from shoal.cache.pod_reader import PodReader
from shoal.cache.world import World
from shoal.kinds.pods import PodRecord, record_of

NOW = 1_767_225_600.0
CPUS = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
PARTS: dict[str, list[dict[str, Any]]] = {
    "metadata": [
        {},
        {"labels": {"app": "a"}},
        {"labels": {"app": "b"}, "annotations": {"shoal.io/gang": "g", "shoal.io/gang-min": "2"}},
        {"labels": None},
        {"annotations": {"shoal.io/broken-since": "2026-01-01T00:00:00Z"}},
        {"labels": {"diengine/rank": "3"}, "ownerReferences": [{"kind": "DIJob", "name": "j", "uid": "u"}]},
        {"deletionTimestamp": "2026-01-02T00:00:00Z", "creationTimestamp": "2026-01-01T00:00:00Z"},
        {"labels": {"no good": "a"}},
        {"name": "No_Good"},
        {"namespace": ""},
    ],
    "spec": [
        {"containers": [CPUS]},
        {"containers": [CPUS, CPUS]},
        {"containers": [CPUS], "nodeName": "n1"},
        {"containers": [CPUS], "nodeName": "n2", "priority": 5, "schedulerName": "shoal"},
        {"containers": [CPUS], "schedulingGates": [{"name": "g"}]},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]},
        {"containers": []},
        {"containers": [CPUS], "nodeName": None},
    ],
    "status": [
        {},
        {"phase": "Running"},
        {"nominatedNodeName": "n1"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "message": "Preempted for Pod/d/p"}]},
    ],
}
TEXTS = st.builds(
    lambda name, metadata, spec, status: json.dumps(
        {"metadata": {"name": name, "namespace": "d", "uid": name} | metadata, "spec": spec, "status": status}
    ).encode(),
    st.sampled_from(["a", "b"]),
    *map(st.sampled_from, PARTS.values()),
)


def thorough(text: Any) -> Any:  # noqa: ANN401 - the view of a pod
    return kinds.read(by_name()["v1", "Pod"], json.loads(bytes(text)))


def alone(text: bytes, world: World) -> PodRecord | str:
    """What is made of a pod that nothing is known of."""
    try:
        return record_of(thorough(text), world.pod_classes, NOW)
    except InvalidObjectError as problem:
        return str(problem)


def after_others(read: PodReader, text: bytes) -> PodRecord | str:
    try:
        return read(text)
    except InvalidObjectError as problem:
        return str(problem)


@given(st.lists(TEXTS, max_size=12), st.integers(1, 4))
def test_what_was_read_before_changes_nothing(texts: list[bytes], keep: int) -> None:
    world = World(NOW)
    read = PodReader(world, thorough, keep)
    assert [after_others(read, text) for text in texts] == [alone(text, world) for text in texts]


@pytest.mark.parametrize("change", [{"nodeName": "n1"}, {"hostname": "h"}], ids=json.dumps)
def test_what_is_alike_is_read_once(change: dict[str, Any]) -> None:
    read = []

    def counted(text: Any) -> Pod:  # noqa: ANN401
        read.append(text)
        pod: Pod = thorough(text)
        return pod

    reader = PodReader(World(NOW), counted)
    for name, more in (("a", {}), ("a", change), ("b", change)):
        pod = {"metadata": {"name": name, "namespace": "d"}, "spec": {"containers": [CPUS]} | more}
        reader(json.dumps(pod).encode())
    assert len(read) == 1
