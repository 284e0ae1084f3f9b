"""Workloads without a job of ours: loose pods, gangs of them, and pods that batch Jobs will create."""

from typing import Any

from tests.reference.kinds import JOB_KINDS, as_task, is_held, with_node
from tests.reference.model import Task, Workload
from tests.reference.objects import (
    Input,
    annotations,
    is_terminating,
    labels,
    namespace,
    owns,
    parse_time,
    phase,
)

Object = dict[str, Any]


def loose_pods(world: Input) -> list[Workload]:
    """Loose pods and gangs of them, including pods that a batch Job has not created yet."""
    pods = [pod for pod in world.pods if _is_loose(world, pod)]
    pods += [pod for job in world.of_kind("Job") for pod in pending_pods(world, job)]
    pods.sort(key=lambda pod: (world.created(pod), pod["metadata"]["name"]))
    gangs: dict[tuple[str, str], list[Object]] = {}
    single: list[Workload] = []
    for pod in pods:
        gang = annotations(pod).get("shoal.io/gang")
        if gang:
            gangs.setdefault((namespace(pod), gang), []).append(pod)
        elif phase(pod) != "Succeeded":
            single.append(_of_pods(world, "Pod", pod["metadata"]["name"], [pod], 1))
    found = single + [_gang(world, name, nodes_by_pool) for (_, name), nodes_by_pool in gangs.items()]
    return [one for one in found if not all(task.done for task in one.tasks)]


def _is_loose(world: Input, pod: Object) -> bool:
    if (
        is_terminating(pod)
        or phase(pod) == "Failed"
        or not world.is_responsible(pod["spec"].get("schedulerName"))
    ):
        return False
    return not any(owns(job, pod) for kind in JOB_KINDS for job in world.of_kind(kind))


def _gang(world: Input, name: str, pods: list[Object]) -> Workload:
    minima = [annotations(pod).get("shoal.io/gang-min") for pod in pods]
    written = [int(minimum) for minimum in minima if minimum]
    return _of_pods(world, "Gang", name, pods, max(written, default=len(pods)))


def _of_pods(world: Input, kind: str, name: str, pods: list[Object], minimum: int) -> Workload:
    tasks = [_pod_task(pod) for pod in pods]
    broken = [annotations(pod).get("shoal.io/broken-since") for pod in pods]
    return Workload(
        kind=kind,
        namespace=namespace(pods[0]),
        name=name,
        created=world.created(pods[0]),
        tasks=tasks,
        minimum=minimum,
        maximum=len(tasks),
        priority=world.priority(pod["spec"].get("priorityClassName") for pod in pods),
        may_preempt=world.may_preempt(
            (pod["spec"].get("priorityClassName") for pod in pods), (pod["spec"] for pod in pods)
        ),
        requested_pool=world.requested_pool(namespace(pods[0]), pods),
        held=any(map(is_held, tasks)),
        broken_since=min(map(parse_time, filter(None, broken)), default=None),
    )


def _pod_task(pod: Object) -> Task:
    made = as_task(pod, namespace(pod), pod["metadata"]["name"], "pod")
    return with_node(made, pod["spec"].get("nodeName"), (pod.get("status") or {}).get("nominatedNodeName"))


# --- batch Jobs --------------------------------------------------------------------------------------------

INDEX = "batch.kubernetes.io/job-completion-index"


def pending_pods(world: Input, job: Object) -> list[Object]:
    """The pods that a batch Job has not created yet, if this scheduler is responsible for them."""
    spec, status = job["spec"], job.get("status") or {}
    template = spec["template"]
    ended = any(
        c["status"] == "True" and c["type"] in {"Complete", "Failed"} for c in status.get("conditions") or ()
    )
    if (
        ended
        or is_terminating(job)
        or spec.get("suspend")
        or not world.is_responsible(template["spec"].get("schedulerName"))
    ):
        return []
    pods = [pod for pod in world.pods if owns(job, pod)]
    active = [pod for pod in pods if not is_terminating(pod) and phase(pod) in {"Pending", "Running"}]
    if spec.get("completionMode") == "Indexed":
        wanted = _missing_indices(job, pods, active)
    else:
        wanted = list(range(len(pods), len(pods) + _missing(job, pods, active)))
    return [_pod_to_make(job, template, number) for number in wanted]


def _missing(job: Object, pods: list[Object], active: list[Object]) -> int:
    """The number of pods that may run in parallel and are still to complete, less the active ones."""
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    counted = (job.get("status") or {}).get("succeeded", 0)
    succeeded = max(counted, sum(phase(pod) == "Succeeded" for pod in pods))
    left = parallelism if spec.get("completions") is None else int(spec["completions"]) - succeeded
    return max(0, min(parallelism, left) - len(active))


def _missing_indices(job: Object, pods: list[Object], active: list[Object]) -> list[int]:
    done = {_index(pod) for pod in pods if phase(pod) == "Succeeded"}
    done |= _ranges((job.get("status") or {}).get("completedIndexes") or "")
    there = {_index(pod) for pod in active}
    left = [index for index in range(job["spec"]["completions"]) if index not in done]
    room = max(0, min(job["spec"].get("parallelism", 1), len(left)) - len(active))
    return [index for index in left if index not in there][:room]


def _index(pod: Object) -> int | None:
    written = annotations(pod).get(INDEX, labels(pod).get(INDEX))
    return int(written) if written else None


def _ranges(text: str) -> set[int | None]:
    """Parse index ranges such as `0,2-4`."""
    pairs = [part.split("-") for part in text.split(",") if part]
    return {index for pair in pairs for index in range(int(pair[0]), int(pair[-1]) + 1)}


def _pod_to_make(job: Object, template: Object, number: int) -> Object:
    """A pod as the Job would create it, with the creation time of the Job."""
    shaped = template.get("metadata") or {}
    metadata = {
        "name": f"{job['metadata']['name']}-{number}",
        "namespace": namespace(job),
        "labels": shaped.get("labels") or {},
        "annotations": shaped.get("annotations") or {},
        "creationTimestamp": job["metadata"].get("creationTimestamp"),
    }
    return {"kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": {"phase": "Pending"}}
