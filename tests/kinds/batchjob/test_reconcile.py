"""The pure parts of the controller: cases, and what must hold for any pods."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.batch import INDEX_KEY, indices
from shoal.cluster.resources import Object
from shoal.cluster.times import as_text, moment
from shoal.controllers.changes import Changes, Create, Delete, Patch, PatchStatus
from shoal.controllers.views import Pod, reader
from shoal.kinds.batchjob.counting import FINALIZER
from shoal.kinds.batchjob.policy import end_time, ended, taken
from shoal.kinds.batchjob.reconcile import View, reconcile
from shoal.kinds.batchjob.views import Job, written
from tests.controllers.virtual import BEGINNING

DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]


def at(seconds: float) -> str:
    return as_text(BEGINNING + seconds)


def pod(name: str = "j-0", phase: str = "Running", *, index: int | None = None, **more: Any) -> Pod:  # noqa: ANN401 - as JSON has it
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
        ended_at = {"exitCode": more.get("code", 1), "finishedAt": at(more["stopped"])}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": ended_at}}]
    spec = {"nodeName": more.get("node", "")}
    return reader(Pod)(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def job(status: Object | None = None, **spec: Any) -> Job:  # noqa: ANN401 - as JSON has it
    template = {"spec": {"containers": [{"name": "main", "image": "b"}], "restartPolicy": "Never"}}
    metadata = {"name": "j", "namespace": "default", "uid": "uid-j", "resourceVersion": "5"}
    started = {"startTime": at(0)} | (status or {})
    raw = {"metadata": metadata, "spec": {"template": template, "completions": 1} | spec, "status": started}
    return reader(Job)(msgspec.json.encode(raw))


# --- ends --------------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[Pod, bool, bool]] = {
    "it runs": (pod(), False, False),
    "it succeeded": (pod(phase="Succeeded"), True, False),
    "it failed": (pod(phase="Failed", stopped=5), True, False),
    "it is on its way out": (pod(deleted=30, grace=30), False, True),
    "it was deleted before it had a node": (pod(phase="Pending", deleted=1), True, True),
    "it was deleted and failed for that": (pod(phase="Failed", stopped=12, deleted=10), True, True),
    "it was deleted, and its time is not over": (
        pod(phase="Failed", stopped=12, deleted=40, grace=30),
        True,
        True,
    ),
    "it had failed when it was deleted": (pod(phase="Failed", stopped=5, deleted=10), True, False),
    "it was deleted and succeeded all the same": (pod(phase="Succeeded", deleted=10), True, False),
    "the scheduler took it": (pod(phase="Failed", conditions=DISRUPTED, stopped=5), True, True),
    "the scheduler wanted it, and it succeeded": (pod(phase="Succeeded", conditions=DISRUPTED), True, False),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_pod_ended(name: str) -> None:
    found, is_ended, is_taken = ENDS[name]
    assert (ended(found), taken(found)) == (is_ended, is_taken)


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
    ids=["its containers stopped", "it was no longer ready", "it was asked to leave", "nobody knows"],
)
def test_when_a_pod_ended(found: Pod, seconds: float) -> None:
    assert end_time(found) == moment(BEGINNING) + timedelta(seconds=seconds)


# --- indexes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "indexes, text", [([], ""), ([3], "3"), ([2, 1], "1,2"), ([0, 1, 2, 5, 7, 8, 9, 10], "0-2,5,7-10")]
)
def test_indexes_are_written_as_kubernetes_writes_them(indexes: list[int], text: str) -> None:
    assert written(indexes) == text


@given(st.sets(st.integers(0, 200)))
def test_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    assert indices(written(indexes)) == indexes


# --- decisions ---------------------------------------------------------------------------------------------


def told(changes: Changes) -> list[str]:
    return [_told(write) for stage in changes.stages for write in stage]


def _told(write: object) -> str:
    match write:
        case Create(body=body):
            return f"make {body['metadata']['name']}"
        case Delete(name=name):
            return f"delete {name}"
        case Patch(name=name):
            return f"release {name}"
        case PatchStatus(version=version):
            return f"write at {version}"
    raise AssertionError(write)


STATUS = {"startTime": at(0), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
INDEXED = {"completionMode": "Indexed"}

DECISIONS: dict[str, tuple[View, list[str]]] = {
    "names that others have are passed over": (
        View(job=job(STATUS, completions=2, parallelism=2), is_free=lambda name: name not in ("j-0", "j-2")),
        ["make j-1", "make j-3"],
    ),
    "an index whose name is taken gets another": (
        View(job=job(STATUS, **INDEXED, completions=2, parallelism=2), is_free=lambda name: name != "j-1"),
        ["make j-0", "make j-1-0"],
    ),
    "a pod on its way out holds its index": (
        View(
            job=job(STATUS | {"terminating": 1}, **INDEXED, completions=2, parallelism=2),
            pods=(pod("j-0", index=0, deleted=30, grace=30),),
        ),
        ["make j-1"],
    ),
    "of two pods of an index the one that has come farther stays": (
        View(
            job=job(STATUS | {"active": 2}, **INDEXED, completions=1),
            pods=(pod("j-0", index=0), pod("j-0-0", index=0, node="n1")),
        ),
        ["delete j-0"],
    ),
    "of too many pods those that have no node go first": (
        View(
            job=job(STATUS | {"active": 3}, completions=9, parallelism=1),
            pods=(pod("j-0", node="n1"), pod("j-1", "Pending"), pod("j-2", "Pending")),
        ),
        ["delete j-1", "delete j-2"],
    ),
    "what is counted is released after it is written": (
        View(
            job=job(STATUS | {"active": 1}, completions=2),
            pods=(pod("j-0", "Succeeded"),),
            is_free=lambda name: name != "j-0",
        ),
        ["write at 5", "release j-0", "make j-1"],
    ),
    "a failure is waited for": (
        View(job=job(STATUS | {"failed": 1}), pods=(pod("j-0", "Failed", stopped=0, tracked=False),)),
        [],
    ),
    "pods of an earlier job of the name are let go": (
        View(job=None, orphans=(pod("j-0", deleted=0), pod("j-1"), pod("j-2", "Succeeded"))),
        ["release j-0", "release j-2"],
    ),
    "a late pod of a job that is over goes": (
        View(
            job=job(STATUS | {"conditions": [{"type": "Complete", "status": "True"}]}),
            pods=(pod("j-0"), pod("j-1", "Succeeded")),
        ),
        ["delete j-0", "release j-1"],
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_what_is_to_be_done(name: str) -> None:
    view, expected = DECISIONS[name]
    assert told(reconcile(view, BEGINNING + 5)) == expected


@pytest.mark.parametrize("failures, wait", [(1, 10), (2, 20), (4, 80), (9, 600)])
def test_the_more_failures_the_longer_the_wait(failures: int, wait: float) -> None:
    pods = tuple(pod(f"j-{k}", "Failed", stopped=k, tracked=False) for k in range(failures))
    view = View(job=job(STATUS | {"failed": failures}, backoffLimit=99), pods=pods)
    changes = reconcile(view, BEGINNING + 9)
    assert (told(changes), changes.again) == ([], BEGINNING + failures - 1 + wait)


def test_a_success_ends_the_waiting() -> None:
    pods = (
        pod("j-0", "Failed", stopped=1, tracked=False),
        pod("j-1", "Succeeded", stopped=2, code=0, tracked=False),
    )
    view = View(job=job(STATUS | {"failed": 1, "succeeded": 1}, completions=2), pods=pods)
    assert told(reconcile(view, BEGINNING + 3)) == ["make j-2"]


# --- whatever the pods -------------------------------------------------------------------------------------

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
def test_no_pods_lead_astray(
    raw: list[Object], mode: str, completions: int, parallelism: int, suspend: object
) -> None:
    pods = tuple(pod(f"j-{k}", **one) for k, one in enumerate(raw))
    made = job(STATUS, completionMode=mode, completions=completions, parallelism=parallelism, suspend=suspend)
    taken_names = {one.metadata.name for one in pods}
    view = View(job=made, pods=pods, is_free=lambda name: name not in taken_names)
    changes = reconcile(view, BEGINNING + 1000)
    writes = [write for stage in changes.stages for write in stage]
    creates = [write for write in writes if isinstance(write, Create)]
    deleted = {write.name for write in writes if isinstance(write, Delete)}
    active = [one for one in pods if one.active and one.metadata.name not in deleted]
    names = [write.body["metadata"]["name"] for write in creates]
    assert len(set(names)) == len(names)
    assert taken_names.isdisjoint(names)
    assert not creates or len(active) + len(creates) <= parallelism
    assert not (suspend and creates)
    held = {one.metadata.annotations[INDEX_KEY] for one in pods if not ended(one)}
    if mode == "Indexed":
        new = [write.body["metadata"]["annotations"][INDEX_KEY] for write in creates]
        assert len(set(new)) == len(new)
        assert held.isdisjoint(new)
    assert all(
        ended(one) for one in pods if one.metadata.name in {w.name for w in writes if isinstance(w, Patch)}
    )
