"""The pure parts of the Job controller: cases, and properties that hold for any pods."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.core import INDEX_KEY
from shoal.api.indexes import format_indexes, parse_indexes
from shoal.api.managed import ManagedJob, ManagedPod
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time, to_datetime
from shoal.controllers.changes import Changes, Create, Delete, Patch, PatchStatus
from shoal.controllers.jobs.ends import finish_time, has_stopped
from shoal.controllers.resources import reader
from shoal.kinds.batchjob.controller import JobView, reconcile
from shoal.kinds.batchjob.pods import FINALIZER, was_disrupted
from tests.controllers.virtual_time import START_TIME

DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]


def at(seconds: float) -> str:
    return format_time(START_TIME + seconds)


def pod(name: str = "j-0", phase: str = "Running", *, index: int | None = None, **more: Any) -> ManagedPod:  # noqa: ANN401 - as JSON has it
    """A pod of the job `j`; `stopped` and `deleted` are seconds, `grace` goes with the latter."""
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": at(0),
    }
    metadata["finalizers"] = [FINALIZER] if more.get("tracked", True) else []
    metadata["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}]
    if index is not None:
        metadata["annotations"] = {INDEX_KEY: str(index)}
    if "deleted" in more:
        metadata |= {
            "deletionTimestamp": at(more["deleted"]),
            "deletionGracePeriodSeconds": more.get("grace", 0),
        }
    status: Object = {"phase": phase, "conditions": more.get("conditions", [])}
    if "stopped" in more:
        terminated = {"exitCode": more.get("code", 1), "finishedAt": at(more["stopped"])}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": terminated}}]
    spec = {"nodeName": more.get("node", "")}
    return reader(ManagedPod)(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def job(status: Object | None = None, **spec: Any) -> ManagedJob:  # noqa: ANN401 - as JSON has it
    template = {"spec": {"containers": [{"name": "main", "image": "b"}], "restartPolicy": "Never"}}
    metadata = {"name": "j", "namespace": "default", "uid": "uid-j", "resourceVersion": "5"}
    started = {"startTime": at(0)} | (status or {})
    raw = {"metadata": metadata, "spec": {"template": template, "completions": 1} | spec, "status": started}
    return reader(ManagedJob)(msgspec.json.encode(raw))


# --- how pods end ------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[ManagedPod, bool, bool]] = {
    "it runs": (pod(), False, False),
    "it succeeded": (pod(phase="Succeeded"), True, False),
    "it failed": (pod(phase="Failed", stopped=5), True, False),
    "it is terminating": (pod(deleted=30, grace=30), False, True),
    "it was deleted before it had a node": (pod(phase="Pending", deleted=1), True, True),
    "it was deleted and then failed": (pod(phase="Failed", stopped=12, deleted=10), True, True),
    "it was deleted, and failed within its grace period": (
        pod(phase="Failed", stopped=12, deleted=40, grace=30),
        True,
        True,
    ),
    "it had failed when it was deleted": (pod(phase="Failed", stopped=5, deleted=10), True, False),
    "it was deleted and succeeded": (pod(phase="Succeeded", deleted=10), True, False),
    "it was evicted": (pod(phase="Failed", conditions=DISRUPTED, stopped=5), True, True),
    "it was evicted and succeeded": (pod(phase="Succeeded", conditions=DISRUPTED), True, False),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_pod_ended(name: str) -> None:
    found, stopped, disrupted = ENDS[name]
    assert (has_stopped(found), was_disrupted(found)) == (stopped, disrupted)


@pytest.mark.parametrize(
    "found, seconds",
    [
        (pod(phase="Failed", stopped=5), 5),
        (
            pod(
                phase="Failed", conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": at(7)}]
            ),
            7,
        ),
        (pod(phase="Failed", deleted=40, grace=30), 10),
        (pod(phase="Failed"), 0),
    ],
    ids=["containers stopped", "not ready any more", "deletion requested", "unknown"],
)
def test_when_a_pod_ended(found: ManagedPod, seconds: float) -> None:
    assert finish_time(found) == to_datetime(START_TIME) + timedelta(seconds=seconds)


# --- indexes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "indexes, text", [([], ""), ([3], "3"), ([2, 1], "1,2"), ([0, 1, 2, 5, 7, 8, 9, 10], "0-2,5,7-10")]
)
def test_indexes_are_formatted_as_in_kubernetes(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text


@given(st.sets(st.integers(0, 200)))
def test_formatted_indexes_are_parsed_back(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes


# --- decisions ---------------------------------------------------------------------------------------------


def describe(changes: Changes) -> list[str]:
    return [_describe(write) for stage in changes.stages for write in stage]


def _describe(write: object) -> str:
    match write:
        case Create(body=body):
            return f"create {body['metadata']['name']}"
        case Delete(name=name):
            return f"delete {name}"
        case Patch(name=name):
            return f"release {name}"
        case PatchStatus(version=version):
            return f"write status at {version}"
    raise AssertionError(write)


STATUS = {"startTime": at(0), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
INDEXED = {"completionMode": "Indexed"}

DECISIONS: dict[str, tuple[JobView, list[str]]] = {
    "taken names are skipped": (
        JobView(
            job=job(STATUS, completions=2, parallelism=2), is_free=lambda name: name not in ("j-0", "j-2")
        ),
        ["create j-1", "create j-3"],
    ),
    "a pod of an index whose name is taken gets a suffix": (
        JobView(job=job(STATUS, **INDEXED, completions=2, parallelism=2), is_free=lambda name: name != "j-1"),
        ["create j-0", "create j-1-0"],
    ),
    "a terminating pod holds its index": (
        JobView(
            job=job(STATUS | {"terminating": 1}, **INDEXED, completions=2, parallelism=2),
            pods=(pod("j-0", index=0, deleted=30, grace=30),),
        ),
        ["create j-1"],
    ),
    "of two pods of an index the one with more progress is kept": (
        JobView(
            job=job(STATUS | {"active": 2}, **INDEXED, completions=1),
            pods=(pod("j-0", index=0), pod("j-0-0", index=0, node="n1")),
        ),
        ["delete j-0"],
    ),
    "of surplus pods those without a node are deleted first": (
        JobView(
            job=job(STATUS | {"active": 3}, completions=9, parallelism=1),
            pods=(pod("j-0", node="n1"), pod("j-1", "Pending"), pod("j-2", "Pending")),
        ),
        ["delete j-1", "delete j-2"],
    ),
    "finalizers are removed after the count is written": (
        JobView(
            job=job(STATUS | {"active": 1}, completions=2),
            pods=(pod("j-0", "Succeeded"),),
            is_free=lambda name: name != "j-0",
        ),
        ["write status at 5", "release j-0", "create j-1"],
    ),
    "a failure starts a back-off": (
        JobView(job=job(STATUS | {"failed": 1}), pods=(pod("j-0", "Failed", stopped=0, tracked=False),)),
        [],
    ),
    "finalizers of pods of a deleted job are removed": (
        JobView(job=None, orphans=(pod("j-0", deleted=0), pod("j-1"), pod("j-2", "Succeeded"))),
        ["release j-0", "release j-2"],
    ),
    "an active pod of a finished job is deleted": (
        JobView(
            job=job(STATUS | {"conditions": [{"type": "Complete", "status": "True"}]}),
            pods=(pod("j-0"), pod("j-1", "Succeeded")),
        ),
        ["delete j-0", "release j-1"],
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_reconcile(name: str) -> None:
    view, expected = DECISIONS[name]
    assert describe(reconcile(view, START_TIME + 5)) == expected


@pytest.mark.parametrize("failures, wait", [(1, 10), (2, 20), (4, 80), (9, 600)])
def test_backoff_grows_with_failures(failures: int, wait: float) -> None:
    pods = tuple(pod(f"j-{k}", "Failed", stopped=k, tracked=False) for k in range(failures))
    view = JobView(job=job(STATUS | {"failed": failures}, backoffLimit=99), pods=pods)
    changes = reconcile(view, START_TIME + 9)
    assert (describe(changes), changes.requeue_at) == ([], START_TIME + failures - 1 + wait)


def test_a_success_ends_the_backoff() -> None:
    pods = (
        pod("j-0", "Failed", stopped=1, tracked=False),
        pod("j-1", "Succeeded", stopped=2, code=0, tracked=False),
    )
    view = JobView(job=job(STATUS | {"failed": 1, "succeeded": 1}, completions=2), pods=pods)
    assert describe(reconcile(view, START_TIME + 3)) == ["create j-2"]


# --- properties -------------------------------------------------------------------------------------

PODS = st.lists(
    st.fixed_dictionaries(
        {
            "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
            "index": st.integers(0, 4),
            "tracked": st.booleans(),
        },
        optional={"deleted": st.just(5), "grace": st.sampled_from([0, 30]), "conditions": st.just(DISRUPTED)},
    ),
    max_size=8,
)


@given(PODS, st.sampled_from(["Indexed", "NonIndexed"]), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_no_name_index_or_limit_is_violated(
    raw: list[Object], mode: str, completions: int, parallelism: int, suspend: object
) -> None:
    pods = tuple(pod(f"j-{k}", **one) for k, one in enumerate(raw))
    made = job(STATUS, completionMode=mode, completions=completions, parallelism=parallelism, suspend=suspend)
    taken_names = {one.metadata.name for one in pods}
    view = JobView(job=made, pods=pods, is_free=lambda name: name not in taken_names)
    changes = reconcile(view, START_TIME + 1000)
    writes = [write for stage in changes.stages for write in stage]
    creates = [write for write in writes if isinstance(write, Create)]
    deleted = {write.name for write in writes if isinstance(write, Delete)}
    active = [one for one in pods if one.active and one.metadata.name not in deleted]
    names = [write.body["metadata"]["name"] for write in creates]
    assert len(set(names)) == len(names)
    assert taken_names.isdisjoint(names)
    assert not creates or len(active) + len(creates) <= parallelism
    assert not (suspend and creates)
    held = {one.metadata.annotations[INDEX_KEY] for one in pods if not has_stopped(one)}
    if mode == "Indexed":
        new = [write.body["metadata"]["annotations"][INDEX_KEY] for write in creates]
        assert len(set(new)) == len(new)
        assert held.isdisjoint(new)
    assert all(
        has_stopped(one)
        for one in pods
        if one.metadata.name in {w.name for w in writes if isinstance(w, Patch)}
    )
