"""How each kind becomes workloads: what tasks it has, in which order, and how many it needs."""

from dataclasses import dataclass, replace
from typing import Any

from tests.reference.model import Task, Workload
from tests.reference.objects import Input, annotations, is_terminating, labels, moment, namespace, owns, phase

Object = dict[str, Any]
Named = tuple[str, str, Object]
"""A task that a job wants: name, role, template."""

JOB_KINDS = ("TYJob", "DIJob", "TrainingJob")


def jobs(world: Input) -> list[Workload]:
    """The workloads of our own kinds: those that are neither finished nor going."""
    made = {"TYJob": _tyjob, "DIJob": _dijob, "TrainingJob": _trainingjob}
    active = [one for kind in JOB_KINDS for one in world.of_kind(kind) if not _is_over(one)]
    found = [made[one["kind"]](world, one) for one in active]
    return [workload for workload in found if workload.tasks]


def _is_over(job: Object) -> bool:
    status = job.get("status") or {}
    stage = status.get("stage") or status.get("phase")
    return stage in {"Succeeded", "Failed"} or job["spec"].get("terminating", False) or is_terminating(job)


# --- the three kinds ---------------------------------------------------------------------------------------


def _tyjob(world: Input, job: Object) -> Workload:
    spec, name = job["spec"], job["metadata"]["name"]
    leader = (f"{name}-{spec['leader']['name']}", "leader", spec["leader"]["template"])
    workers = [
        (f"{name}-{one['name']}-{index}", "worker", one["template"])
        for one in spec["workerSets"]
        for index in range(one.get("counts", 1))
    ]
    policies = spec.get("schedulerPolicy") or {}
    policy = policies.get("basicPolicy") or "BinPack"
    allocations = (job.get("status") or {}).get("allocations") or {}
    made = _Making(world, job, allocations).workload([leader], workers, spec.get("minWorkersNum", 1))
    if policy == "Gang":
        made.minimum = len(workers)
    made.policy = policy
    made.queue_policy = policies.get("jobQueuePolicy") or "Priority"
    made.job_priority = spec.get("priority", 5)
    return made


def _dijob(world: Input, job: Object) -> Workload:
    made = _dijob_of_tasks(world, job) if job["spec"].get("tasks") else _dijob_of_replicas(world, job)
    made.job_priority = {"normal": 5, "high": 10}[job["spec"].get("priority") or "normal"]
    made.held = made.held or job["spec"].get("suspend", False)
    made.preemptible = job["spec"].get("preemptible", False)
    return made


def _dijob_of_tasks(world: Input, job: Object) -> Workload:
    name = job["metadata"]["name"]
    named = [(one.get("name") or one["type"], one) for one in job["spec"]["tasks"]]
    pods = [
        (f"{name}-{task}-{index}", task, one["template"])
        for task, one in named
        for index in range(one.get("replicas", 1))
    ]
    return _Making(world, job, {}).workload([], pods, len(pods))


def _dijob_of_replicas(world: Input, job: Object) -> Workload:
    spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
    low = spec.get("minReplicas", 1)
    high = spec.get("maxReplicas", max(1, low))
    preemptible = spec.get("preemptible", False)
    nodes = (status.get("allocation") or []) if preemptible else []
    size = min(high, max(low, len(nodes))) if preemptible else status.get("replicas", low)
    names = [f"{name}-{status.get('generation', 0)}-{rank}" for rank in range(size)]
    replicas = [(one, "replica", spec["template"]) for one in names]
    making = _Making(world, job, dict(zip(names, nodes, strict=False)))
    return making.workload([], replicas, low, maximum=high)


def _trainingjob(world: Input, job: Object) -> Workload:
    spec, name = job["spec"], job["metadata"]["name"]
    low, high = spec["trainer"]["min-instance"], spec["trainer"]["max-instance"]
    pservers = spec["pserver"]["min-instance"] if spec.get("pserver") else 0
    masters = 1 if spec.get("master") is not None else 0
    counts = {"master": masters, "pserver": pservers}
    fixed = [
        (f"{name}-{role}-{index}", role, _paddle_template(spec, role))
        for role, count in counts.items()
        for index in range(count)
    ]
    pods = [pod["metadata"]["name"] for pod in world.pods if owns(job, pod)]
    existing = [index for index in range(high) if f"{name}-trainer-{index}" in pods]
    size = max([low, *(index + 1 for index in existing)])
    trainers = [(f"{name}-trainer-{i}", "trainer", _paddle_template(spec, "trainer")) for i in range(size)]
    made = _Making(world, job, {}).workload(fixed, trainers, low, maximum=high)
    made.priority = world.priority([spec.get("priorityClassName")])
    made.makes_room = world.makes_room([spec.get("priorityClassName")], [])
    return made


def _paddle_template(spec: Object, role: str) -> Object:
    selector = spec.get("nodeSelector") or spec.get("NodeSelector") or {}
    container = {"resources": spec[role].get("resources") or {}}
    return {"metadata": {}, "spec": {"nodeSelector": selector, "containers": [container]}}


# --- what they have in common ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Making:
    """The common part: from the tasks that a job wants to a workload that knows where they are."""

    world: Input
    job: Object
    allocation: dict[str, str]
    """The nodes that the job's status gives to its tasks."""

    def workload(
        self, fixed: list[Named], varying: list[Named], minimum: int, *, maximum: int | None = None
    ) -> Workload:
        world, job = self.world, self.job
        templates = [template for _, _, template in (*fixed, *varying)]
        tasks = [self._task(one, fixed=True) for one in fixed if self._is_ours(one)]
        tasks += [self._task(one, fixed=False) for one in varying if self._is_ours(one)]
        broken = (job.get("status") or {}).get("brokenSince")
        return Workload(
            kind=job["kind"],
            namespace=namespace(job),
            name=job["metadata"]["name"],
            created=world.created(job),
            tasks=tasks,
            minimum=minimum,
            maximum=len(varying) if maximum is None else maximum,
            priority=world.priority(template["spec"].get("priorityClassName") for template in templates),
            makes_room=world.makes_room(
                (template["spec"].get("priorityClassName") for template in templates),
                (template["spec"] for template in templates),
            ),
            wished_pool=world.wished_pool(namespace(job), [job, *templates]),
            held=any(map(is_held, tasks)),
            broken_since=moment(broken) if broken else None,
        )

    def _is_ours(self, wanted: Named) -> bool:
        scheduler = wanted[2]["spec"].get("schedulerName")
        return not scheduler or self.world.is_ours(scheduler)

    def _task(self, wanted: Named, *, fixed: bool) -> Task:
        name, role, template = wanted
        pods = [pod for pod in self.world.pods if pod["metadata"]["name"] == name and owns(self.job, pod)]
        going = any(map(is_terminating, pods))
        live = next((pod for pod in pods if not is_terminating(pod) and phase(pod) != "Failed"), None)
        node = live["spec"].get("nodeName") if live else None
        nominations = (self.job.get("status") or {}).get("nominations") or {}
        nominated = nominations.get(name) or ((live or {}).get("status") or {}).get("nominatedNodeName")
        if not node and not going:
            node = self.allocation.get(name)
        made = _task(live or template, namespace(self.job), name, role)
        return _stand(made, node if node in self.world.nodes else None, nominated, fixed=fixed)


def _task(shape: Object, within: str, name: str, role: str) -> Task:
    """A task as a pod or a template describes it."""
    done = phase(shape) == "Succeeded"
    return Task(namespace=within, name=name, role=role, labels=labels(shape), spec=shape["spec"], done=done)


def _stand(task: Task, node: str | None, nominated: str | None, *, fixed: bool = False) -> Task:
    """The task where it is, or where it was promised to be."""
    here = None if task.done else node
    return replace(task, fixed=fixed, node=here, nominated=None if here or task.done else nominated)


def is_held(task: Task) -> bool:
    """Gated, or with claims that are not understood: nothing for us yet."""
    waits = task.spec.get("schedulingGates") or task.spec.get("resourceClaims")
    return bool(waits) and not task.met


# --- pods without a job of ours ----------------------------------------------------------------------------


def loose(world: Input) -> list[Workload]:
    """Loose pods and gangs of them; the pods that a batch Job has yet to make are among them."""
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
    found = single + [_gang(world, name, members) for (_, name), members in gangs.items()]
    return [one for one in found if not all(task.done for task in one.tasks)]


def _is_loose(world: Input, pod: Object) -> bool:
    if is_terminating(pod) or phase(pod) == "Failed" or not world.is_ours(pod["spec"].get("schedulerName")):
        return False
    return not any(owns(job, pod) for kind in JOB_KINDS for job in world.of_kind(kind))


def _gang(world: Input, name: str, pods: list[Object]) -> Workload:
    minima = [annotations(pod).get("shoal.io/gang-min") for pod in pods]
    written = [int(minimum) for minimum in minima if minimum]
    return _of_pods(world, "Gang", name, pods, max(written, default=len(pods)))


def _of_pods(world: Input, kind: str, name: str, pods: list[Object], minimum: int) -> Workload:
    tasks = [_pod_task(pod) for pod in pods]
    return Workload(
        kind=kind,
        namespace=namespace(pods[0]),
        name=name,
        created=world.created(pods[0]),
        tasks=tasks,
        minimum=minimum,
        maximum=len(tasks),
        priority=world.priority(pod["spec"].get("priorityClassName") for pod in pods),
        makes_room=world.makes_room(
            (pod["spec"].get("priorityClassName") for pod in pods), (pod["spec"] for pod in pods)
        ),
        wished_pool=world.wished_pool(namespace(pods[0]), pods),
        held=any(map(is_held, tasks)),
    )


def _pod_task(pod: Object) -> Task:
    made = _task(pod, namespace(pod), pod["metadata"]["name"], "pod")
    return _stand(made, pod["spec"].get("nodeName"), (pod.get("status") or {}).get("nominatedNodeName"))


# --- batch Jobs --------------------------------------------------------------------------------------------

_INDEX = "batch.kubernetes.io/job-completion-index"


def pending_pods(world: Input, job: Object) -> list[Object]:
    """The pods that a batch Job has yet to make, if they are ours."""
    spec, status = job["spec"], job.get("status") or {}
    template = spec["template"]
    ended = any(
        c["status"] == "True" and c["type"] in {"Complete", "Failed"} for c in status.get("conditions") or ()
    )
    if (
        ended
        or is_terminating(job)
        or spec.get("suspend")
        or not world.is_ours(template["spec"].get("schedulerName"))
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
    """As many as may run at once and are still to be completed, less those that are there."""
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
    written = annotations(pod).get(_INDEX, labels(pod).get(_INDEX))
    return int(written) if written else None


def _ranges(text: str) -> set[int | None]:
    """`0,2-4`."""
    pairs = [part.split("-") for part in text.split(",") if part]
    return {index for pair in pairs for index in range(int(pair[0]), int(pair[-1]) + 1)}


def _pod_to_make(job: Object, template: Object, number: int) -> Object:
    """A pod as the Job would make it; it counts as created when its Job was."""
    shaped = template.get("metadata") or {}
    metadata = {
        "name": f"{job['metadata']['name']}-{number}",
        "namespace": namespace(job),
        "labels": shaped.get("labels") or {},
        "annotations": shaped.get("annotations") or {},
        "creationTimestamp": job["metadata"].get("creationTimestamp"),
    }
    return {"kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": {"phase": "Pending"}}
