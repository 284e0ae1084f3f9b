"""How each job kind becomes a workload: its tasks, their order, and its minimum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.reference.filters import is_open
from tests.reference.model import Elastic, Task, Workload, up_to
from tests.reference.objects import (
    Input,
    has_succeeded,
    is_finished,
    is_live,
    is_terminating,
    labels,
    namespace,
    owns,
    parse_time,
    phase,
)

Object = dict[str, Any]
Named = tuple[str, str, Object]
"""A task that a job wants: name, role, template."""

JOB_KINDS = ("TYJob", "DIJob", "TrainingJob")


def jobs(world: Input) -> list[Workload]:
    """The workloads of Shoal's own kinds that are neither finished nor terminating."""
    builders = {"TYJob": _tyjob, "DIJob": _dijob, "TrainingJob": _trainingjob}
    active = [one for kind in JOB_KINDS for one in world.of_kind(kind) if not _is_finished(one)]
    found = [builders[one["kind"]](world, one) for one in active]
    return [workload for workload in found if workload.tasks or workload.elastic]


def _is_finished(job: Object) -> bool:
    status = job.get("status") or {}
    stage = status.get("stage") or status.get("phase")
    return stage in {"Succeeded", "Failed"} or job["spec"].get("terminating", False) or is_terminating(job)


# --- the three kinds ---------------------------------------------------------------------------------------


def _tyjob(world: Input, job: Object) -> Workload:
    spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
    leader = (f"{name}-{spec['leader']['name']}", "leader", spec["leader"]["template"])
    workers = [
        (f"{name}-{one['name']}-{index}", "worker", one["template"])
        for one in spec["workerSets"]
        for index in range(one.get("counts", 1))
        if index not in _indexes(status, "failed", one["name"])
    ]
    completed = {
        f"{name}-{one['name']}-{index}"
        for one in spec["workerSets"]
        for index in _indexes(status, "completed", one["name"])
    }
    policies = spec.get("schedulerPolicy") or {}
    policy = policies.get("basicPolicy") or "BinPack"
    least = len(workers) if policy == "Gang" else spec.get("minWorkersNum", 1)
    factory = _WorkloadFactory(world, job, status.get("allocations") or {}, completed)
    workload = factory.workload([leader], workers, least)
    workload.policy = policy
    workload.queue_policy = policies.get("jobQueuePolicy") or "Priority"
    workload.job_priority = spec.get("priority", 5)
    return workload


def _dijob(world: Input, job: Object) -> Workload:
    workload = _dijob_of_tasks(world, job) if job["spec"].get("tasks") else _dijob_of_replicas(world, job)
    workload.job_priority = {"normal": 5, "high": 10}[job["spec"].get("priority") or "normal"]
    workload.preemptible = job["spec"].get("preemptible", False)
    return workload


def _dijob_of_tasks(world: Input, job: Object) -> Workload:
    name = job["metadata"]["name"]
    named = [(one.get("name") or one["type"], one) for one in job["spec"]["tasks"]]
    pods = [
        (f"{name}-{task}-{index}", task, one["template"])
        for task, one in named
        for index in range(one.get("replicas", 1))
    ]
    workers = (job.get("status") or {}).get("workers") or ()
    completed = {one.get("pod", "") for one in workers if one.get("phase") == "Succeeded"}
    return _WorkloadFactory(world, job, {}, completed).workload([], pods, len(pods))


def _dijob_of_replicas(world: Input, job: Object) -> Workload:
    spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
    low = spec.get("minReplicas", 1)
    high = spec.get("maxReplicas", max(1, low))
    if spec.get("preemptible", False):
        return _dijob_of_any_size(world, job, low, high)
    ranks = _Ranks(world, job, f"{name}-{status.get('generation', 0)}-")
    names = [ranks.name(rank) for rank in range(status.get("replicas", low))]
    replicas = [(one, "replica", spec["template"]) for one in names]
    completed = {ranks.name(rank) for rank in _completed_ranks(job)}
    return _WorkloadFactory(world, job, {}, completed).workload([], replicas, low, maximum=high)


def _completed_ranks(job: Object) -> set[int]:
    workers = (job.get("status") or {}).get("workers") or ()
    return {one["rank"] for one in workers if one.get("phase") == "Succeeded"}


def _dijob_of_any_size(world: Input, job: Object, low: int, high: int) -> Workload:
    status, stem = job.get("status") or {}, job["metadata"]["name"]
    ranks = _Ranks(world, job, f"{stem}-{status.get('generation', 0)}-")
    allocation = {rank: node for rank, node in enumerate(status.get("allocation") or []) if node}
    nodes = {ranks.name(rank): node for rank, node in allocation.items()}
    completed = _completed_ranks(job)
    nominated = {
        ranks.name(int(name.rpartition("-")[2])): node
        for name, node in (status.get("nominations") or {}).items()
    }
    factory = _WorkloadFactory(world, job, nodes, {ranks.name(rank) for rank in completed}, nominated)
    role = _Role(factory, "replica", job["spec"]["template"], ranks.name)
    found = {rank for pod in world.pods if (rank := ranks.rank(pod)) is not None}
    found |= allocation.keys() | completed
    requests = status.get("requestedReplicas")
    ceiling = high if requests is None else min(high, max(low, requests))
    return _elastic(
        factory.workload([], [], low, maximum=high, templates=[role.template]), role, found, ceiling
    )


@dataclass(frozen=True)
class _Ranks:
    """The rank of each pod of a DIJob: by its label, else by its name."""

    world: Input
    job: Object
    stem: str

    def rank(self, pod: Object) -> int | None:
        name = pod["metadata"]["name"]
        written = labels(pod).get("diengine/rank") or _number(name, self.stem)
        return int(written) if written and owns(self.job, pod) else None

    def name(self, rank: int) -> str:
        """The name of its live pod, else of one that succeeded, else of one that is still there."""
        pods = [pod for pod in self.world.pods if self.rank(pod) == rank]
        live = [pod for pod in pods if is_live(pod)]
        there = live or [pod for pod in pods if has_succeeded(pod)] or [p for p in pods if not is_finished(p)]
        return str(there[0]["metadata"]["name"]) if there else f"{self.stem}{rank}"


def _trainingjob(world: Input, job: Object) -> Workload:
    spec, name = job["spec"], job["metadata"]["name"]
    low, high = spec["trainer"]["min-instance"], spec["trainer"]["max-instance"]
    pservers = spec["pserver"]["min-instance"] if spec.get("pserver") else 0
    counts = {"master": 1 if spec.get("master") is not None else 0, "pserver": pservers}
    fixed = [
        (f"{name}-{role}-{index}", role, _paddle_template(spec, role))
        for role, count in counts.items()
        for index in range(count)
    ]
    status = job.get("status") or {}
    completed = {
        f"{name}-{role}-{index}"
        for role in ("master", "pserver", "trainer")
        for index in _indexes(status, "completed", role)
    }
    factory = _WorkloadFactory(world, job, status.get("allocations") or {}, completed)
    trainers = _paddle_role(factory, "trainer")
    low = max(0, low - len(_indexes(status, "failed", "trainer")))
    workload = factory.workload(fixed, [], low, maximum=high, templates=[trainers.template])
    for number, task in enumerate(task for task in workload.tasks if task.role == "pserver"):
        task.index = number
    workload.priority = world.priority([spec.get("priorityClassName")])
    workload.may_preempt = world.may_preempt([spec.get("priorityClassName")], [])
    workload = _elastic(workload, trainers, trainers.found(), high)
    return _with_servers(workload, factory) if _scales_servers(spec) else workload


def _scales_servers(spec: Object) -> bool:
    servers = spec.get("pserver") or {}
    return bool(servers.get("scaleWithTrainers")) and servers["min-instance"] < servers["max-instance"]


def _with_servers(workload: Workload, factory: "_WorkloadFactory") -> Workload:
    """A TrainingJob whose parameter servers scale with the trainers."""
    assert workload.elastic is not None
    role, spec = _paddle_role(factory, "pserver"), factory.job["spec"]["pserver"]
    low, high = spec["min-instance"], spec["max-instance"]
    more = [role.task(index) for index in sorted(role.found()) if index >= low]
    for task in more:
        if task.met:
            task.scaled = True
            workload.add(task)
    workload.elastic = replace(workload.elastic, servers=(low, high), server=role.fresh)
    return workload


def _paddle_role(factory: "_WorkloadFactory", role: str) -> "_Role":
    stem = f"{factory.job['metadata']['name']}-{role}-"
    return _Role(factory, role, _paddle_template(factory.job["spec"], role), lambda index: f"{stem}{index}")


def _paddle_template(spec: Object, role: str) -> Object:
    selector = spec.get("nodeSelector") or spec.get("NodeSelector") or {}
    container = {"resources": spec[role].get("resources") or {}}
    return {"metadata": {}, "spec": {"nodeSelector": selector, "containers": [container]}}


# --- what they have in common ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _WorkloadFactory:
    """Common to all kinds: builds a workload from the tasks that a job wants and from its pods."""

    world: Input
    job: Object
    allocation: dict[str, str]
    """The nodes that the job's status assigns to its tasks."""
    completed: set[str] = field(default_factory=set)
    """The names of tasks that have succeeded, by the job's status."""
    nominated: dict[str, str] | None = None
    """The nodes that its tasks are nominated to, where their names are not those in the status."""

    def workload(
        self,
        fixed: list[Named],
        varying: list[Named],
        minimum: int,
        *,
        maximum: int | None = None,
        templates: Sequence[Object] = (),
    ) -> Workload:
        """`templates` are those of tasks that are added later."""
        world, job = self.world, self.job
        templates = [*(template for _, _, template in (*fixed, *varying)), *templates]
        tasks = [self.task(one, fixed=True) for one in fixed if self.is_responsible(one)]
        tasks += [self.task(one, fixed=False) for one in varying if self.is_responsible(one)]
        broken = (job.get("status") or {}).get("brokenSince")
        built = Workload(
            kind=job["kind"],
            namespace=namespace(job),
            name=job["metadata"]["name"],
            created=world.created(job),
            tasks=tasks,
            minimum=minimum,
            maximum=len(varying) if maximum is None else maximum,
            priority=world.priority(template["spec"].get("priorityClassName") for template in templates),
            may_preempt=world.may_preempt(
                (template["spec"].get("priorityClassName") for template in templates),
                (template["spec"] for template in templates),
            ),
            requested_pool=world.requested_pool(namespace(job), [job, *templates]),
            held=self.is_suspended or any(map(is_held, tasks)),
            broken_since=parse_time(broken) if broken else None,
            whole_minimum=(job.get("status") or {}).get("wholeMinimum"),
        )
        built.minimum = open_minimum(built, built.varying)
        return built

    @property
    def is_suspended(self) -> bool:
        return bool(self.job["spec"].get("suspend", False))

    def is_responsible(self, wanted: Named) -> bool:
        scheduler = wanted[2]["spec"].get("schedulerName")
        return not scheduler or self.world.is_responsible(scheduler)

    def task(self, wanted: Named, *, fixed: bool) -> Task:
        name, role, template = wanted
        pods = [pod for pod in self.world.pods if pod["metadata"]["name"] == name and owns(self.job, pod)]
        live = next(filter(is_live, pods), None)
        node = live["spec"].get("nodeName") if live else None
        node = node or self._allocated(name, (live or template)["spec"])
        there = [pod for pod in pods if not is_finished(pod) and pod["spec"].get("nodeName")]
        leaving = next((pod for pod in there if pod["spec"]["nodeName"] == node), None)
        nominations = self.nominated
        if nominations is None:
            nominations = (self.job.get("status") or {}).get("nominations") or {}
        nominated = nominations.get(name) or ((live or {}).get("status") or {}).get("nominatedNodeName")
        task = as_task(live or leaving or template, namespace(self.job), name, role)
        task.done = name in self.completed or any(map(has_succeeded, pods))
        return with_node(task, node if node in self.world.nodes else None, nominated, fixed=fixed)

    def _allocated(self, name: str, spec: Object) -> str | None:
        """The node that is assigned to a task, if its pod could be bound to it now."""
        node = self.world.nodes.get(self.allocation.get(name, ""))
        if node is None or self.is_suspended or not is_open(node, spec):
            return None
        return str(node["metadata"]["name"])


@dataclass(frozen=True)
class _Role:
    """The instances of one role, by their index."""

    factory: _WorkloadFactory
    role: str
    template: Object
    name: Callable[[int], str]

    def task(self, index: int) -> Task:
        task = self.factory.task((self.name(index), self.role, self.template), fixed=False)
        return replace(task, index=index)

    def fresh(self, index: int) -> Task:
        """An instance that has no node yet."""
        return replace(self.task(index), node=None, done=False)

    def found(self) -> set[int]:
        """The indices of existing pods, and those that are allocated or have succeeded."""
        stem, factory = self.name(0)[:-1], self.factory
        names = [pod["metadata"]["name"] for pod in factory.world.pods if owns(factory.job, pod)]
        names += [*factory.allocation, *factory.completed]
        found = {int(number) for name in names if (number := _number(name, stem))}
        return found - _indexes(factory.job.get("status") or {}, "failed", self.role)


def _number(name: str, stem: str) -> str:
    """What follows the stem in a name, if it is a number."""
    number = name.removeprefix(stem)
    return number if name.startswith(stem) and number.isdigit() else ""


def _elastic(workload: Workload, role: _Role, found: set[int], ceiling: int) -> Workload:
    """Add the existing instances to a workload, and new ones up to its minimum."""
    job, world = role.factory.job, role.factory.world
    if not role.factory.is_responsible(("", role.role, role.template)):
        return workload
    tasks = [role.task(index) for index in sorted(found)]
    status = job.get("status") or {}
    bound = {task.index for task in tasks if task.met}
    allocated = {task.index for task in tasks if task.name in role.factory.allocation and not task.met}
    reserved_tasks = status.get("nominations") or {}
    if role.factory.nominated is not None:
        reserved_tasks = role.factory.nominated
    indices = range(max([0, *bound]) + ceiling + 1)
    times = [parse_time(record["time"]) for record in status.get("scaleRecords") or ()]
    pods = [pod for pod in world.pods if namespace(pod) == namespace(job)]
    workload.elastic = Elastic(
        ceiling=ceiling,
        instance=role.fresh,
        reserved_tasks=[
            (role.fresh(i), reserved_tasks[role.name(i)]) for i in indices if role.name(i) in reserved_tasks
        ],
        changed=max(times, default=None),
        blocked=frozenset(pod["metadata"]["name"] for pod in pods if not owns(job, pod)),
        leaving=any(is_terminating(pod) and _is_one_of(role, pod, found) for pod in pods),
    )
    workload.minimum = open_minimum(workload, tasks)
    nominated = {task.index for task, _ in workload.elastic.reserved_tasks}
    first = range(job["spec"].get("minReplicas", 1)) if job["kind"] == "DIJob" else range(0)
    abandoned = _indexes(status, "failed", role.role)
    workload.tasks += up_to(
        workload.minimum, tasks, role.fresh, preferred={*allocated, *nominated, *first}, without=abandoned
    )
    workload.held = role.factory.is_suspended or any(map(is_held, workload.tasks))
    return workload


def _is_one_of(role: _Role, pod: Object, found: set[int]) -> bool:
    return owns(role.factory.job, pod) and pod["metadata"]["name"] in {role.name(index) for index in found}


def open_minimum(workload: Workload, varying: list[Task]) -> int:
    """The minimum to reach next: one that has lost a part gets back the last minimum that it had."""
    has_nodes = bool(workload.placed) or any(task.node for task in varying)
    lost = workload.whole_minimum is not None and sum(task.met for task in varying) < workload.whole_minimum
    return min(workload.whole_minimum or 0, workload.minimum) if has_nodes and lost else workload.minimum


def _indexes(status: Object, field_name: str, role: str) -> set[int]:
    """The indices that a status lists for a role: `0-2,5`."""
    parts = filter(None, (status.get(field_name) or {}).get(role, "").split(","))
    ends = [part.partition("-") for part in parts]
    return {index for low, _, high in ends for index in range(int(low), int(high or low) + 1)}


def as_task(shape: Object, within: str, name: str, role: str) -> Task:
    """A task as a pod or a template describes it."""
    done = phase(shape) == "Succeeded"
    return Task(namespace=within, name=name, role=role, labels=labels(shape), spec=shape["spec"], done=done)


def with_node(task: Task, node: str | None, nominated: str | None, *, fixed: bool = False) -> Task:
    """The task with its node, or with the node that it is nominated to."""
    here = None if task.done else node
    return replace(task, fixed=fixed, node=here, nominated=None if here or task.done else nominated)


def is_held(task: Task) -> bool:
    """Whether a task has scheduling gates, or resource claims, which are not supported."""
    waits = task.spec.get("schedulingGates") or task.spec.get("resourceClaims")
    return bool(waits) and not task.met
