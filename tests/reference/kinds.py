"""How each kind becomes workloads: what tasks it has, in which order, and how many it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.reference.model import Elastic, Task, Workload, up_to
from tests.reference.objects import Input, is_terminating, labels, moment, namespace, owns, phase

Object = dict[str, Any]
Named = tuple[str, str, Object]
"""A task that a job wants: name, role, template."""

JOB_KINDS = ("TYJob", "DIJob", "TrainingJob")


def jobs(world: Input) -> list[Workload]:
    """The workloads of our own kinds: those that are neither finished nor going."""
    made = {"TYJob": _tyjob, "DIJob": _dijob, "TrainingJob": _trainingjob}
    active = [one for kind in JOB_KINDS for one in world.of_kind(kind) if not _is_over(one)]
    found = [made[one["kind"]](world, one) for one in active]
    return [workload for workload in found if workload.tasks or workload.elastic]


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
    if spec.get("preemptible", False):
        return _dijob_of_any_size(world, job, low, high)
    names = [f"{name}-{status.get('generation', 0)}-{rank}" for rank in range(status.get("replicas", low))]
    replicas = [(one, "replica", spec["template"]) for one in names]
    return _Making(world, job, {}).workload([], replicas, low, maximum=high)


def _dijob_of_any_size(world: Input, job: Object, low: int, high: int) -> Workload:
    status, stem = job.get("status") or {}, job["metadata"]["name"]
    ranks = _Ranks(world, job, f"{stem}-{status.get('generation', 0)}-")
    nodes = {ranks.name(rank): node for rank, node in enumerate(status.get("allocation") or [])}
    making = _Making(world, job, nodes)
    role = _Role(making, "replica", job["spec"]["template"], ranks.name)
    found = {rank for pod in world.pods if (rank := ranks.rank(pod)) is not None} | set(range(len(nodes)))
    asked = status.get("requestedReplicas")
    ceiling = high if asked is None else min(high, max(low, asked))
    return _elastic(
        making.workload([], [], low, maximum=high, templates=[role.template]), role, found, ceiling
    )


@dataclass(frozen=True)
class _Ranks:
    """Which pod of a DIJob has which rank: its label says it, else its name."""

    world: Input
    job: Object
    stem: str

    def rank(self, pod: Object) -> int | None:
        name = pod["metadata"]["name"]
        written = labels(pod).get("diengine/rank") or _number(name, self.stem)
        return int(written) if written and owns(self.job, pod) else None

    def name(self, rank: int) -> str:
        pods = [pod for pod in self.world.pods if self.rank(pod) == rank and not is_terminating(pod)]
        return str(pods[0]["metadata"]["name"]) if pods else f"{self.stem}{rank}"


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
    making = _Making(world, job, {})
    trainers = _paddle_role(making, "trainer")
    made = making.workload(fixed, [], low, maximum=high, templates=[trainers.template])
    for number, task in enumerate(task for task in made.tasks if task.role == "pserver"):
        task.index = number
    made.priority = world.priority([spec.get("priorityClassName")])
    made.makes_room = world.makes_room([spec.get("priorityClassName")], [])
    made = _elastic(made, trainers, trainers.found(), high)
    return _with_servers(made, making) if _scales_servers(spec) else made


def _scales_servers(spec: Object) -> bool:
    servers = spec.get("pserver") or {}
    return bool(servers.get("scaleWithTrainers")) and servers["min-instance"] < servers["max-instance"]


def _with_servers(made: Workload, making: "_Making") -> Workload:
    """A TrainingJob whose parameter servers come and go with the trainers."""
    assert made.elastic is not None
    role, spec = _paddle_role(making, "pserver"), making.job["spec"]["pserver"]
    low, high = spec["min-instance"], spec["max-instance"]
    more = [role.task(index) for index in sorted(role.found()) if index >= low]
    for task in more:
        if task.met:
            task.scaled = True
            made.add(task)
    made.elastic = replace(made.elastic, servers=(low, high), server=role.fresh)
    return made


def _paddle_role(making: "_Making", role: str) -> "_Role":
    stem = f"{making.job['metadata']['name']}-{role}-"
    return _Role(making, role, _paddle_template(making.job["spec"], role), lambda index: f"{stem}{index}")


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
        tasks = [self.task(one, fixed=True) for one in fixed if self.is_ours(one)]
        tasks += [self.task(one, fixed=False) for one in varying if self.is_ours(one)]
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

    def is_ours(self, wanted: Named) -> bool:
        scheduler = wanted[2]["spec"].get("schedulerName")
        return not scheduler or self.world.is_ours(scheduler)

    def task(self, wanted: Named, *, fixed: bool) -> Task:
        name, role, template = wanted
        pods = [pod for pod in self.world.pods if pod["metadata"]["name"] == name and owns(self.job, pod)]
        going = any(map(is_terminating, pods))
        live = next((pod for pod in pods if not is_terminating(pod) and phase(pod) != "Failed"), None)
        node = live["spec"].get("nodeName") if live else None
        nominations = (self.job.get("status") or {}).get("nominations") or {}
        nominated = nominations.get(name) or ((live or {}).get("status") or {}).get("nominatedNodeName")
        if not node and not going:
            node = self.allocation.get(name)
        made = as_task(live or template, namespace(self.job), name, role)
        return stand(made, node if node in self.world.nodes else None, nominated, fixed=fixed)


@dataclass(frozen=True)
class _Role:
    """The instances of one role, by their index."""

    making: _Making
    role: str
    template: Object
    name: Callable[[int], str]

    def task(self, index: int) -> Task:
        made = self.making.task((self.name(index), self.role, self.template), fixed=False)
        return replace(made, index=index)

    def fresh(self, index: int) -> Task:
        """One that has no node yet."""
        return replace(self.task(index), node=None, done=False)

    def found(self) -> set[int]:
        """The indices of those that exist."""
        stem = self.name(0)[:-1]
        names = [pod["metadata"]["name"] for pod in self.making.world.pods if owns(self.making.job, pod)]
        return {int(number) for name in names if (number := _number(name, stem))}


def _number(name: str, stem: str) -> str:
    """What follows the stem in a name, if it is a number."""
    number = name.removeprefix(stem)
    return number if name.startswith(stem) and number.isdigit() else ""


def _elastic(made: Workload, role: _Role, found: set[int], ceiling: int) -> Workload:
    """The workload with the instances that it has, and new ones up to its minimum."""
    job, world = role.making.job, role.making.world
    if not role.making.is_ours(("", role.role, role.template)):
        return made
    tasks = [role.task(index) for index in sorted(found)]
    status = job.get("status") or {}
    seated = {task.index for task in tasks if task.met}
    promised = status.get("nominations") or {}
    indices = range(max([0, *seated]) + ceiling + 1)
    times = [moment(record["time"]) for record in status.get("scaleRecords") or ()]
    pods = [pod for pod in world.pods if namespace(pod) == namespace(job)]
    made.elastic = Elastic(
        ceiling=ceiling,
        instance=role.fresh,
        promised=[(role.fresh(i), promised[role.name(i)]) for i in indices if role.name(i) in promised],
        changed=max(times, default=None),
        blocked=frozenset(pod["metadata"]["name"] for pod in pods if not owns(job, pod)),
        leaving=any(is_terminating(pod) and _is_one_of(role, pod, found) for pod in pods),
    )
    made.tasks += up_to(made.minimum, tasks, role.fresh)
    made.held = any(map(is_held, made.tasks))
    return made


def _is_one_of(role: _Role, pod: Object, found: set[int]) -> bool:
    return owns(role.making.job, pod) and pod["metadata"]["name"] in {role.name(index) for index in found}


def as_task(shape: Object, within: str, name: str, role: str) -> Task:
    """A task as a pod or a template describes it."""
    done = phase(shape) == "Succeeded"
    return Task(namespace=within, name=name, role=role, labels=labels(shape), spec=shape["spec"], done=done)


def stand(task: Task, node: str | None, nominated: str | None, *, fixed: bool = False) -> Task:
    """The task where it is, or where it was promised to be."""
    here = None if task.done else node
    return replace(task, fixed=fixed, node=here, nominated=None if here or task.done else nominated)


def is_held(task: Task) -> bool:
    """Gated, or with claims that are not understood: nothing for us yet."""
    waits = task.spec.get("schedulingGates") or task.spec.get("resourceClaims")
    return bool(waits) and not task.met
