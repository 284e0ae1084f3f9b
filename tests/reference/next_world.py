"""The next world: the objects after a plan was applied, as input of the next cycle."""

from copy import deepcopy
from typing import Any

from tests.reference.kinds import JOB_KINDS
from tests.reference.loose_pods import INDEX, pending_pods
from tests.reference.model import Task, Workload
from tests.reference.objects import annotations, is_terminating, namespace, phase
from tests.reference.state import CycleState
from tests.reference.verdicts import nominations

Object = dict[str, Any]
Name = tuple[str, str]


def is_stable(cycle: CycleState) -> bool:
    """Whether nothing new was placed, evicted or nominated, and no pod on a node was terminating."""
    leaving = any(pod.terminating for pod in cycle.room.pods_on_nodes)
    new = any(nominations(cycle, job).items() - _known(job).items() for job in cycle.jobs)
    return not (cycle.placements or cycle.evictions or new or leaving)


def _known(job: Workload) -> dict[str, str]:
    known = {task.name: task.nominated for task in job.tasks if task.nominated}
    return known | {task.name: node for task, node in (job.elastic.reserved_tasks if job.elastic else [])}


def apply_plan(cycle: CycleState) -> list[Object]:
    """The objects of the next cycle."""
    others = [deepcopy(one) for one in cycle.world.objects if one["kind"] != "Pod"]
    pods = {_name(pod): deepcopy(pod) for pod in cycle.world.pods if not is_terminating(pod)}
    for gone in cycle.evictions:
        _remove_evicted(pods, gone)
    for job in cycle.jobs:
        for task in job.tasks:
            _run(cycle, pods, job, task)
        _write(cycle, others, pods, job)
    return [*others, *pods.values()]


def _name(one: Object) -> Name:
    return namespace(one), str(one["metadata"]["name"])


def _remove_evicted(pods: dict[Name, Object], gone: Object) -> None:
    """Remove an evicted pod; it is pending again under its name if a controller other than ours owns it."""
    space, _, name = gone["pod"].partition("/")
    pod = pods.pop((space, name), None)
    ours = gone["job"].partition("/")[0] in JOB_KINDS
    if pod is not None and not ours and _has_controller(pod):
        del pod["spec"]["nodeName"]
        pods[space, name] = pod | {"status": {"phase": "Pending"}}


def _has_controller(pod: Object) -> bool:
    return any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ())


def _run(cycle: CycleState, pods: dict[Name, Object], job: Workload, task: Task) -> None:
    """Run a task that has a node there."""
    name, node = (task.namespace, task.name), task.node
    if node is None:
        return
    found = pods.get(name)
    if found is None or phase(found) == "Failed":
        found = pods[name] = _new_pod(cycle, job, task)
    if found["spec"].get("nodeName") != node:
        found["spec"] |= {"nodeName": node}
        found["status"] = {"phase": "Running"}


def _new_pod(cycle: CycleState, job: Workload, task: Task) -> Object:
    """The pod that the owner creates, with the owner's creation time."""
    if job.kind not in JOB_KINDS:
        return _new_batch_pod(cycle, task)
    labels = task.labels | ({"diengine/rank": str(task.index)} if job.elastic and job.kind == "DIJob" else {})
    metadata = {
        "name": task.name,
        "namespace": task.namespace,
        "labels": labels,
        "creationTimestamp": job.created.isoformat(),
        "ownerReferences": [{"kind": job.kind, "name": job.name, "controller": True}],
    }
    spec = {key: value for key, value in task.spec.items() if key != "nodeName"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _new_batch_pod(cycle: CycleState, task: Task) -> Object:
    for job in cycle.world.of_kind("Job"):
        for pod in pending_pods(cycle.world, job):
            if _name(pod) == (task.namespace, task.name):
                made = deepcopy(pod)
                owner = {"kind": "Job", "name": job["metadata"]["name"], "controller": True}
                number = task.name.rpartition("-")[2]
                notes = annotations(made) | {INDEX: number}
                made["metadata"] |= {"ownerReferences": [owner], "annotations": notes}
                return made
    raise LookupError(f"no batch Job creates {task.name}")


# --- status and annotations ---------------------------------------------------------------------------------


def _write(cycle: CycleState, others: list[Object], pods: dict[Name, Object], job: Workload) -> None:
    if job.kind in JOB_KINDS:
        _write_to_job(cycle, others, job)
    else:
        _write_to_pods(cycle, pods, job)


def _write_to_job(cycle: CycleState, others: list[Object], job: Workload) -> None:
    one = next(one for one in others if one["kind"] == job.kind and _name(one) == (job.namespace, job.name))
    status = one.setdefault("status", {})
    for key in ("allocation", "allocations", "nominations", "brokenSince"):
        status.pop(key, None)
    status["nominations"] = nominations(cycle, job)
    if job.is_broken:
        status["brokenSince"] = (job.broken_since or cycle.world.now).isoformat()
    if job.key in cycle.grown | cycle.shrunk:
        record = {"time": cycle.world.now.isoformat(), "from": cycle.current[job.key], "to": job.size}
        status["scaleRecords"] = [*(status.get("scaleRecords") or ()), record]


def _write_to_pods(cycle: CycleState, pods: dict[Name, Object], job: Workload) -> None:
    reserved_tasks = nominations(cycle, job)
    for task in job.tasks:
        name = (task.namespace, task.name)
        if task.name in reserved_tasks and name not in pods and not _existed(cycle, name):
            pods[name] = _new_batch_pod(cycle, task)
        if name in pods:
            _write_to_pod(pods[name], reserved_tasks.get(task.name))
            notes = annotations(pods[name])
            notes.pop("shoal.io/broken-since", None)
            if job.is_broken:
                notes["shoal.io/broken-since"] = (job.broken_since or cycle.world.now).isoformat()
            pods[name]["metadata"]["annotations"] = notes


def _existed(cycle: CycleState, name: Name) -> bool:
    return any(_name(pod) == name for pod in cycle.world.pods)


def _write_to_pod(pod: Object, reserved_tasks: str | None) -> None:
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    if reserved_tasks:
        status["nominatedNodeName"] = reserved_tasks
