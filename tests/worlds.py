"""Random small worlds: tight enough that conflicts, ties and partial fits are common.

Numbers are small so that ties happen. Running pods never oversubscribe a node. In `worlds` and `puzzles` they
are in their home pools, and no workload can borrow, preempt, grow or shrink, so that these are about queueing
and placement alone: pools are closed, and either preemption is disabled or all priorities are equal (then
gangs may be lost). In `shared_worlds` pools lend, borrow and reclaim, and pods run in any pool. Elastic jobs
have min = max there; in `elastic_worlds` they grow, shrink and give to each other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.builders import (
    Amount,
    Object,
    batch_job,
    budget,
    di_task,
    dijob,
    dijob_tasks,
    namespace,
    node,
    open_pool,
    owner,
    pod_of,
    pool,
    priority_class,
    resources,
    taint,
    template,
    trainingjob,
    tyjob,
)

T = TypeVar("T")

NOW = "2024-05-01T01:00:00Z"
CREATED = ("2024-05-01T00:00:00Z", "2024-05-01T00:00:00Z", "2024-05-01T00:30:00Z", None)
LONG_AGO, JUST_NOW = "2024-05-01T00:00:00Z", NOW
POLICIES = ("BinPack", "Gang", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity")
SMALL = ((1, 0, 0), (1, 1, 0), (1, 1, 0), (2, 1, 0), (1, 2, 0), (2, 2, 0), (3, 1, 0), (1, 0, 1), (1, 1, 1))
LARGE = ((1, 1, 0), (4, 2, 0), (4, 4, 0), (5, 1, 0), (2, 5, 0))


@dataclass(frozen=True)
class World:
    """The objects of a world, and the configuration to plan them with."""

    objects: list[Object]
    config: Object
    now: str = NOW


@dataclass(frozen=True)
class Shape:
    """The requests of a pod, in small numbers."""

    cpu: int
    memory: int
    gpu: int
    template: Object

    def resources(self) -> Object:
        return resources(self.cpu, _gi(self.memory), self.gpu)


@dataclass
class WorldBuilder:
    """Builds a world: the source of random choices, the objects so far, and the free room of each node."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    objects: list[Object] = field(default_factory=list)
    free: dict[str, list[int]] = field(default_factory=dict)
    """Per node: CPUs, Gi, GPUs, pods."""
    pool_of: dict[str, str] = field(default_factory=dict)
    with_priorities: bool = False
    large_nodes: bool = False
    """Larger nodes and pods without constraints: what decides is how sizes fit together."""
    pools: tuple[str, ...] = ()

    def choose(self, *choices: T) -> T:
        chosen: T = self.draw(st.sampled_from(choices))
        return chosen

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, hits: int, out_of: int) -> bool:
        return self.number(1, out_of) > out_of - hits

    def node_for(self, shape: Shape, home: str) -> str | None:
        """A random node, if it is in the home pool and has room for the shape; takes the room."""
        name = self.choose(*self.free)
        requests = (shape.cpu, shape.memory, shape.gpu, 1)
        left = self.free[name]
        if self.pool_of[name] != home or any(a > b for a, b in zip(requests, left, strict=True)):
            return None
        self.free[name] = [b - a for a, b in zip(requests, left, strict=True)]
        return name

    def home(self, requested: str | None) -> str:
        return requested if requested in self.pools else "default"


def _gi(number: int) -> Amount:
    return f"{number}Gi" if number else 0


# --- nodes and pools ---------------------------------------------------------------------------------------


def _cluster(builder: WorldBuilder) -> None:
    builder.large_nodes = builder.chance(1, 2)
    builder.pools = builder.choose((), (), (), ("p1",), ("p1", "p2"))
    if builder.pools:
        builder.objects += [
            pool("default"),
            namespace("team", pool=builder.choose(None, "p1"), labels={"team": "a"}),
        ]
        builder.objects += [_pool(builder, name) for name in builder.pools]
    builder.with_priorities = builder.chance(1, 2)
    if builder.with_priorities:
        builder.objects += [
            priority_class("high", 10),
            priority_class("low", -1, default=builder.chance(1, 6)),
        ]
    for number in range(builder.choose(1, 2, 2, 3, 3, 4, 5, 6)):
        _node(builder, f"n{number + 1}")


def _pool(builder: WorldBuilder, name: str) -> Object:
    queue = builder.choose(None, None, "Priority", "DRF")
    return pool(name, selector={"pool": name}, queue=queue)


def _node(builder: WorldBuilder, name: str) -> None:
    least, most = (4, 8) if builder.large_nodes else (2, 6)
    cpu, memory, gpu = builder.number(least, most), builder.number(least, most), builder.choose(0, 0, 1, 2)
    pods = builder.choose(None, None, 3)
    home = builder.choose("default", *builder.pools)
    labels = {"zone": builder.choose("a", "b")} | ({"pool": home} if builder.pools else {})
    kind = builder.number(0, 60 if builder.large_nodes else 11)
    taints = {0: [taint("team", "a")], 1: [taint("team", "a", "PreferNoSchedule")]}.get(kind, [])
    built = node(
        name,
        cpu=cpu,
        memory=_gi(memory),
        gpu=gpu,
        pods=pods,
        labels=labels,
        taints=taints,
        ready={2: "False", 3: "True"}.get(kind),
        unschedulable=kind == 4,
    )
    builder.objects.append(built)
    builder.free[name] = [cpu, memory, gpu, pods or 99]
    builder.pool_of[name] = home


# --- pods --------------------------------------------------------------------------------------------------


def _shape(builder: WorldBuilder, *, plain: bool = False) -> Shape:
    """A pod template: mostly without, sometimes with a constraint on its node."""
    plain = plain or builder.large_nodes
    cpu, memory, gpu = builder.choose(*SMALL, *(LARGE if builder.large_nodes else ()))
    app = builder.choose("a", "b")
    spec = {} if plain or not builder.chance(1, 3) else _constraint(builder, app)
    built = template(
        cpu=cpu,
        memory=_gi(memory),
        gpu=gpu,
        labels={"app": app},
        priority=builder.choose(None, None, "high", "low") if builder.with_priorities else None,
        host_port=80 if not plain and builder.chance(1, 6) else None,
        spec=spec,
    )
    return Shape(cpu, memory, gpu, built)


def _constraint(builder: WorldBuilder, app: str) -> Object:
    constraints: list[Object] = [
        {"tolerations": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
        {"nodeSelector": {"zone": "a"}},
        _node_affinity({"key": "zone", "operator": "NotIn", "values": ["a"]}),
        _pod_affinity("podAntiAffinity", app, "kubernetes.io/hostname"),
        _pod_affinity("podAntiAffinity", "a", "zone"),
        _pod_affinity("podAffinity", app, "zone"),
    ]
    if not builder.pools:
        constraints.append(_spread(app))
    return builder.choose(*constraints)


def _node_affinity(expression: Object) -> Object:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _pod_affinity(kind: str, app: str, key: str) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(app: str) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def _filler(builder: WorldBuilder, number: int) -> None:
    """A running pod of this scheduler or another one, terminating or not."""
    shape = _shape(builder, plain=True)
    is_ours = builder.chance(1, 2)
    home = builder.choose(*builder.pool_of.values()) if not is_ours else "default"
    on_node = builder.node_for(shape, home)
    if on_node is None:
        return
    built = pod_of(
        f"filler-{number}",
        shape.template,
        node=on_node,
        created=builder.choose(*CREATED),
        terminating=builder.chance(1, 2),
        phase=builder.choose("Running", "Running", "Running", "Succeeded"),
    )
    if not is_ours:
        built["spec"]["schedulerName"] = "default-scheduler"
    builder.objects.append(built)


# --- workloads ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkloadMeta:
    """Name, namespace, requested and home pool, and creation time of a workload."""

    name: str
    namespace: str
    pool: str | None
    home: str
    created: str | None


def _workload_meta(builder: WorldBuilder, number: int) -> WorkloadMeta:
    space = builder.choose("default", "default", "team")
    requested = "nowhere" if builder.chance(1, 12) else builder.choose(None, *builder.pools)
    inherited = [
        one["metadata"].get("annotations", {}).get("resource.aibee.cn/pool")
        for one in builder.objects
        if one["kind"] == "Namespace" and one["metadata"]["name"] == space
    ]
    home = builder.home(requested or next(iter(inherited), None))
    return WorkloadMeta(f"w{number}", space, requested, home, builder.choose(*CREATED))


def _workload(builder: WorldBuilder, number: int) -> None:
    meta = _workload_meta(builder, number)
    kind = builder.choose(
        _loose_pod,
        _loose_pod,
        _gang,
        _tyjob,
        _tyjob,
        _tyjob,
        _dijob,
        _dijob_of_tasks,
        _trainingjob,
        _batch_workload,
    )
    kind(builder, meta)


def _loose_pod(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    builder.objects.append(_pod(builder, meta, meta.name))


def _gang(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    size = builder.number(1, 4)
    least = builder.choose(None, *range(1, size + 1))
    for index in range(size):
        built = _pod(builder, meta, f"{meta.name}-{index}")
        notes = built["metadata"].setdefault("annotations", {})
        notes["shoal.io/gang"] = meta.name
        if least is not None:
            notes["shoal.io/gang-min"] = str(least)
        builder.objects.append(built)


def _pod(builder: WorldBuilder, meta: WorkloadMeta, name: str) -> Object:
    """A pod of this scheduler: pending, nominated or running."""
    shape = _shape(builder)
    state = builder.number(0, 7)
    on_node = builder.node_for(shape, meta.home) if state == 0 else None
    nominated = builder.choose(*builder.free) if state == 1 else None
    built = pod_of(
        name,
        shape.template,
        namespace=meta.namespace,
        created=meta.created,
        node=on_node,
        nominated=nominated,
    )
    if nominated and builder.pool_of[nominated] != meta.home:
        del built["status"]["nominatedNodeName"]
    if meta.pool:
        built["metadata"].setdefault("annotations", {})["resource.aibee.cn/pool"] = meta.pool
    if state == 2:
        built["spec"] |= builder.choose(
            {"schedulingGates": [{"name": "g"}]},
            {"resourceClaims": [{"name": "c"}]},
            {"overhead": {"cpu": "1"}},
        )
    return built


def _tyjob(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    leader, sets = _shape(builder), [_shape(builder) for _ in range(builder.choose(1, 2, 2, 3))]
    counts = [builder.number(1, 3) for _ in sets]
    workers = {f"s{index}": (counts[index], shape.template) for index, shape in enumerate(sets)}
    names = {f"{meta.name}-leader": leader}
    for index, shape in enumerate(sets):
        names |= {f"{meta.name}-s{index}-{i}": shape for i in range(counts[index])}
    status = _create_some_pods(builder, meta, "TYJob", names)
    if builder.chance(1, 6):
        status["allocations"] = _allocations(builder, meta, names)
    if builder.chance(1, 6):
        status["nominations"] = _nominations(builder, meta, names)
    largest = sum(counts)
    if largest > 1 and builder.chance(1, 6):
        status |= {builder.choose("completed", "failed"): {"s0": "0"}, "wholeMinimum": builder.number(1, 3)}
        largest -= 1
    built = tyjob(
        meta.name,
        leader=leader.template,
        workers=workers,
        namespace=meta.namespace,
        min_workers=builder.number(1, largest),
        policy=builder.choose(*POLICIES),
        queue=builder.choose(None, "Priority", "DRF"),
        priority=builder.choose(None, 1, 8),
        pool=meta.pool,
        created=meta.created,
        terminating=builder.chance(1, 12),
        status=status,
    )
    builder.objects.append(built)


def _dijob(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    shape, low, size = _shape(builder), builder.number(1, 3), builder.number(1, 4)
    preemptible = builder.chance(1, 2)
    size = low if preemptible else max(low, size)
    names = {f"{meta.name}-0-{rank}": shape for rank in range(size)}
    status = _create_some_pods(builder, meta, "DIJob", names)
    if not preemptible:
        status["replicas"] = size
    built = dijob(
        meta.name,
        shape.template,
        namespace=meta.namespace,
        replicas=(low, size),
        preemptible=preemptible,
        priority=builder.choose(None, "normal", "high"),
        suspend=builder.chance(1, 12),
        pool=meta.pool,
        created=meta.created,
        status=status,
    )
    builder.objects.append(built)


def _dijob_of_tasks(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    learner, collector = _shape(builder), _shape(builder)
    size = builder.number(1, 3)
    names = {f"{meta.name}-learner-0": learner}
    names |= {f"{meta.name}-c-{index}": collector for index in range(size)}
    built = dijob_tasks(
        meta.name,
        [
            di_task("learner", learner.template),
            di_task("collector", collector.template, replicas=size, name="c"),
        ],
        namespace=meta.namespace,
        priority=builder.choose(None, "high"),
        pool=meta.pool,
        created=meta.created,
        status=_create_some_pods(builder, meta, "DIJob", names),
    )
    builder.objects.append(built)


def _trainingjob(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    selector = builder.choose(None, None, {"zone": "a"})
    trainer, pserver = _trainingjob_shape(builder, selector), _trainingjob_shape(builder, selector)
    size, pservers, master = builder.number(1, 3), builder.number(0, 2), builder.chance(1, 2)
    names = {f"{meta.name}-master-0": pserver} if master else {}
    names |= {f"{meta.name}-pserver-{index}": pserver for index in range(pservers)}
    names |= {f"{meta.name}-trainer-{index}": trainer for index in range(size)}
    built = trainingjob(
        meta.name,
        trainer=trainer.resources(),
        trainers=(size, size),
        pserver=pserver.resources() if pservers else None,
        pservers=pservers,
        master=pserver.resources() if master else None,
        namespace=meta.namespace,
        selector=selector,
        priority=builder.choose(None, "high") if builder.with_priorities else None,
        pool=meta.pool,
        created=meta.created,
        status=_create_some_pods(builder, meta, "TrainingJob", names),
    )
    builder.objects.append(built)


def _trainingjob_shape(builder: WorldBuilder, selector: dict[str, str] | None) -> Shape:
    """A pod as a TrainingJob creates it: resources and a node selector."""
    shape = _shape(builder, plain=True)
    shape.template["metadata"] = {}
    shape.template["spec"]["nodeSelector"] = selector or {}
    return shape


def _batch_workload(builder: WorldBuilder, meta: WorkloadMeta) -> None:
    shape = _shape(builder)
    if meta.pool:
        shape.template["metadata"]["annotations"] = {"resource.aibee.cn/pool": meta.pool}
    size = builder.number(1, 3)
    indexed = builder.chance(1, 2)
    built = batch_job(
        meta.name,
        shape.template,
        namespace=meta.namespace,
        parallelism=size,
        completions=size if indexed else builder.choose(None, size, size + 1),
        indexed=indexed,
        created=meta.created,
        status={"completedIndexes": "0"} if indexed and builder.chance(1, 6) else None,
    )
    builder.objects.append(built)


# --- existing pods of jobs ----------------------------------------------------------------------------------


def _create_some_pods(
    builder: WorldBuilder, meta: WorkloadMeta, kind: str, names: dict[str, Shape]
) -> Object:
    """Create pods for some tasks of the job; the status says since when the gang is broken."""
    if not builder.chance(1, 3):
        return {}
    states = ("none", "running", "running", "running", "running", "leaving", "done", "failed", "pending")
    for name, shape in names.items():
        state = builder.choose(*states)
        built = None if state == "none" else _pod_in_state(builder, meta, name, shape, state)
        if built is not None:
            built["metadata"]["ownerReferences"] = [owner(kind, meta.name)]
            builder.objects.append(built)
    return {"brokenSince": builder.choose(JUST_NOW, LONG_AGO)}


def _pod_in_state(
    builder: WorldBuilder, meta: WorkloadMeta, name: str, shape: Shape, state: str
) -> Object | None:
    """The pod of a task; None if it should be on a node and the random one has no room."""
    on_node = None if state == "pending" else builder.node_for(shape, meta.home)
    if on_node is None and state != "pending":
        return None
    phases = {"done": "Succeeded", "failed": "Failed"}
    return pod_of(
        name,
        shape.template,
        namespace=meta.namespace,
        node=on_node,
        terminating=state == "leaving",
        phase=phases.get(state),
        created=meta.created,
    )


def _without_pods(builder: WorldBuilder, names: dict[str, Shape]) -> dict[str, Shape]:
    pods = {one["metadata"]["name"] for one in builder.objects if one["kind"] == "Pod"}
    return {name: shape for name, shape in names.items() if name not in pods}


def _allocations(builder: WorldBuilder, meta: WorkloadMeta, names: dict[str, Shape]) -> dict[str, str]:
    """Nodes that are assigned to tasks: those of their pods, and of some whose pods do not exist yet."""
    pods = {one["metadata"]["name"]: one for one in builder.objects if one["kind"] == "Pod"}
    allocation = {name: pods[name]["spec"].get("nodeName") for name in names if name in pods}
    for name, shape in _without_pods(builder, names).items():
        allocation[name] = builder.node_for(shape, meta.home)
    return {name: on_node for name, on_node in allocation.items() if on_node is not None}


def _nominations(builder: WorldBuilder, meta: WorkloadMeta, names: dict[str, Shape]) -> dict[str, str]:
    """Nominated nodes, sensible or not."""
    at_home = [name for name, home in builder.pool_of.items() if home == meta.home]
    if not at_home:
        return {}
    return {name: builder.choose(*at_home) for name in names if builder.chance(2, 3)}


# --- worlds ------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Any small world."""
    builder = WorldBuilder(draw)
    _cluster(builder)
    for number in range(builder.number(0, 4)):
        _filler(builder, number)
    for number in range(builder.number(0, 8)):
        _workload(builder, number)
    config: Object = (
        {"disablePreemption": True, "gangRecoverySeconds": 86400} if builder.with_priorities else {}
    )
    queue = builder.choose(None, None, "Priority", "DRF")
    return World(builder.objects, config | ({"queuePolicy": queue} if queue else {}))


@st.composite
def puzzles(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Few nodes, and jobs with tasks of different sizes, the large ones last.

    Often they fit only in the second attempt, by size, or only in the room of terminating pods.
    """
    builder = WorldBuilder(draw)
    for number in range(builder.number(2, 4)):
        size = builder.number(4, 6)
        builder.objects.append(node(f"n{number + 1}", cpu=size, memory=_gi(builder.choose(size, 8))))
        if builder.chance(1, 3):
            shape = template(cpu=builder.number(1, size))
            builder.objects.append(
                pod_of(f"leaving-{number}", shape, node=f"n{number + 1}", terminating=True)
            )
    for number in range(builder.number(1, 3)):
        _puzzle(builder, f"w{number}")
    return World(builder.objects, {})


def _puzzle(builder: WorldBuilder, name: str) -> None:
    sizes = sorted(builder.number(1, 5) for _ in range(builder.number(1, 4)))
    shapes = [template(cpu=size, memory=_gi(builder.choose(0, 1, size))) for size in sizes]
    built = tyjob(
        name,
        leader=template(cpu=1),
        workers={f"s{index}": (1, shape) for index, shape in enumerate(shapes)},
        min_workers=builder.choose(len(sizes), len(sizes), max(1, len(sizes) - 1), 1),
        policy=builder.choose("JobAntiAffinity", "JobAntiAffinity", "LeaderFirst", "MinFragment", "BinPack"),
        created=builder.choose(*CREATED),
    )
    builder.objects.append(built)


# --- worlds in which pools share ---------------------------------------------------------------------------

SHARED_POOLS = ("a", "b", "c")
SHARED_CLASSES = (None, None, "low", "high", "high", "patient")


@st.composite
def shared_worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Two or three pools that may lend, borrow and preempt, full of their own and other pods."""
    builder = WorldBuilder(draw, pools=SHARED_POOLS[: draw(st.sampled_from([1, 2, 2, 3]))])
    _shared_cluster(builder)
    for number in range(builder.number(0, 3)):
        _other_pod(builder, f"x{number}")
    for number in range(builder.number(1, 8)):
        kind = builder.choose(
            _shared_loose_pod,
            _shared_loose_pod,
            _shared_loose_pod,
            _shared_gang,
            _shared_gang,
            _shared_tyjob,
            _shared_tyjob,
            _shared_dijob,
        )
        kind(builder, f"w{number}")
    for number in range(builder.choose(0, 0, 1, 2)):
        builder.objects.append(_budget(builder, f"budget-{number}"))
    return World(builder.objects, _shared_config(builder))


def _shared_config(builder: WorldBuilder) -> Object:
    choices: Object = {
        "disablePreemption": builder.chance(1, 8) or None,
        "order": builder.choose(None, None, "BorrowFirst", "PreemptFirst"),
        "queuePolicy": builder.choose(None, None, None, None, "DRF"),
        "gangRecoverySeconds": builder.choose(86400, 86400, 60),
    }
    return {key: value for key, value in choices.items() if value is not None}


def _shared_cluster(builder: WorldBuilder) -> None:
    builder.objects += [_shared_pool(builder, name) for name in builder.pools]
    if builder.chance(1, 3):
        builder.objects.append(_shared_pool(builder, "default"))
    builder.objects += [
        priority_class("low", -1, default=builder.chance(1, 8)),
        priority_class("high", 10),
        priority_class("patient", 20, never=True),
    ]
    for number in range(builder.choose(1, 2, 2, 3, 3, 4)):
        name, home = f"n{number + 1}", builder.choose(*builder.pools, *builder.pools, "default")
        cpu, gpu = builder.number(2, 5), builder.choose(0, 0, 0, 2)
        memory, pods = builder.choose(8, 8, 8, 3), builder.choose(None, None, None, None, 3)
        taints = [taint("team", "a")] if builder.chance(1, 16) else []
        built = node(
            name, cpu=cpu, memory=_gi(memory), gpu=gpu, pods=pods, labels={"pool": home}, taints=taints
        )
        builder.objects.append(built)
        builder.free[name] = [cpu, memory, gpu, pods or 99]
        builder.pool_of[name] = home


def _shared_pool(builder: WorldBuilder, name: str) -> Object:
    built = open_pool(
        name,
        preempts=builder.chance(5, 6),
        borrows=builder.chance(5, 6),
        shares=builder.chance(5, 6),
        borrows_from=builder.choose((), (), (), ("a",), ("b", "default")),
        order=builder.choose(None, None, "BorrowFirst", "PreemptFirst"),
        queue=builder.choose(None, None, None, "Priority", "DRF"),
    )
    if name == "default":
        del built["spec"]["nodeSelector"]
    return built


def _budget(builder: WorldBuilder, name: str) -> Object:
    numbers: dict[str, Any] = builder.choose(
        {"min_available": 1},
        {"min_available": "50%"},
        {"max_unavailable": 1},
        {"max_unavailable": "30%"},
        {"max_unavailable": 0},
        {"min_available": 1, "allowed": 0},
        {"min_available": 1, "allowed": 1},
    )
    return budget(name, selector={"app": builder.choose("a", "b")}, **numbers)


def _plain_shape(builder: WorldBuilder, *, largest: int = 3) -> Shape:
    cpu, memory = builder.number(1, largest), builder.choose(0, 0, 0, 1, 2)
    gpu = builder.choose(0, 0, 0, 0, 0, 1)
    labels = {"app": builder.choose("a", "b")}
    priority = builder.choose(*SHARED_CLASSES)
    built = template(cpu=cpu, memory=_gi(memory), gpu=gpu, labels=labels, priority=priority)
    return Shape(cpu, memory, gpu, built)


def _any_node(builder: WorldBuilder, shape: Shape, previous_node: str | None = None) -> str | None:
    """A node with room for the shape, in any pool; mostly in the pool of the previous node."""
    pools = (
        [builder.pool_of[previous_node]]
        if previous_node and not builder.chance(1, 8)
        else list(builder.pool_of.values())
    )
    for home in pools:
        on_node = builder.node_for(shape, home)
        if on_node is not None:
            return on_node
    return None


def _other_pod(builder: WorldBuilder, name: str) -> None:
    """A pod of another scheduler, or one that is terminating."""
    shape = _plain_shape(builder)
    on_node = _any_node(builder, shape)
    if on_node is None:
        return
    foreign = builder.chance(1, 2)
    built = pod_of(name, shape.template, node=on_node, terminating=not foreign or builder.chance(1, 4))
    if foreign:
        built["spec"]["schedulerName"] = "default-scheduler"
    builder.objects.append(built)


def _shared_meta(builder: WorldBuilder, name: str) -> WorkloadMeta:
    requested = builder.choose(*builder.pools, *builder.pools, None)
    return WorkloadMeta(name, "default", requested, builder.home(requested), builder.choose(*CREATED))


def _shared_loose_pod(builder: WorldBuilder, name: str) -> None:
    """A loose pod, running on any node or pending."""
    meta, shape = _shared_meta(builder, name), _plain_shape(builder, largest=5)
    on_node = _any_node(builder, shape) if builder.chance(1, 2) else None
    builder.objects.append(_shared_pod(builder, meta, name, shape, on_node))


def _shared_gang(builder: WorldBuilder, name: str) -> None:
    """A gang of loose pods: all, some or none of it running."""
    meta, size = _shared_meta(builder, name), builder.number(2, 4)
    least, is_running, previous_node = (
        builder.choose(None, None, *range(1, size + 1)),
        builder.chance(1, 2),
        None,
    )
    shape = _plain_shape(builder, largest=2)
    for index in range(size):
        shape = shape if builder.chance(4, 5) else _plain_shape(builder, largest=2)
        on_node = _any_node(builder, shape, previous_node) if is_running and builder.chance(9, 10) else None
        previous_node = previous_node or on_node
        built = _shared_pod(builder, meta, f"{name}-{index}", shape, on_node)
        notes = built["metadata"].setdefault("annotations", {})
        notes["shoal.io/gang"] = name
        if least is not None:
            notes["shoal.io/gang-min"] = str(least)
        builder.objects.append(built)


def _shared_pod(
    builder: WorldBuilder, meta: WorkloadMeta, name: str, shape: Shape, on_node: str | None
) -> Object:
    nominated = builder.choose(*builder.free) if on_node is None and builder.chance(1, 10) else None
    of = owner("ReplicaSet", "r") if builder.chance(1, 2) else None
    built = pod_of(name, shape.template, node=on_node, nominated=nominated, of=of, created=meta.created)
    if meta.pool:
        built["metadata"].setdefault("annotations", {})["resource.aibee.cn/pool"] = meta.pool
    if builder.chance(1, 16):
        built["spec"] = built["spec"] | {"preemptionPolicy": "Never"}
    return built


def _shared_tyjob(builder: WorldBuilder, name: str) -> None:
    """A TYJob."""
    meta = _shared_meta(builder, name)
    leader, worker = _plain_shape(builder, largest=2), _plain_shape(builder, largest=3)
    count = builder.number(1, 3)
    names = {f"{name}-leader": leader} | {f"{name}-s-{index}": worker for index in range(count)}
    status = _create_shared_pods(builder, meta, "TYJob", names)
    if builder.chance(1, 10):
        status["nominations"] = {one: builder.choose(*builder.free) for one in names}
    built = tyjob(
        name,
        leader=leader.template,
        workers={"s": (count, worker.template)},
        min_workers=builder.number(1, count),
        policy=builder.choose(*POLICIES),
        queue=builder.choose(None, None, "DRF"),
        priority=builder.choose(None, 1, 8),
        pool=meta.pool,
        created=meta.created,
        status=status,
    )
    builder.objects.append(built)


def _shared_dijob(builder: WorldBuilder, name: str) -> None:
    """A DIJob, preemptible (then with a fixed size) or not."""
    meta, shape = _shared_meta(builder, name), _plain_shape(builder, largest=2)
    low, preemptible = builder.number(1, 3), builder.chance(1, 2)
    size = low if preemptible else low + builder.choose(0, 1)
    names = {f"{name}-0-{rank}": shape for rank in range(size)}
    status = _create_shared_pods(builder, meta, "DIJob", names)
    if not preemptible:
        status["replicas"] = size
    built = dijob(
        name,
        shape.template,
        replicas=(low, size),
        preemptible=preemptible,
        priority=builder.choose(None, "high"),
        suspend=builder.chance(1, 16),
        pool=meta.pool,
        created=meta.created,
        status=status,
    )
    builder.objects.append(built)


def _create_shared_pods(
    builder: WorldBuilder, meta: WorkloadMeta, kind: str, names: dict[str, Shape]
) -> Object:
    """Create pods for most tasks of half the jobs, on any node; sometimes terminating or finished."""
    if not builder.chance(1, 2):
        return {}
    previous_node = None
    for name, shape in names.items():
        state = builder.choose(*("running",) * 8, "none", "leaving", "done")
        on_node = None if state == "none" else _any_node(builder, shape, previous_node)
        if on_node is not None:
            previous_node = previous_node or on_node
            phase = "Succeeded" if state == "done" else None
            built = pod_of(name, shape.template, node=on_node, phase=phase, created=meta.created)
            if state == "leaving":
                built["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
            built["metadata"]["ownerReferences"] = [owner(kind, meta.name)]
            builder.objects.append(built)
    return {"brokenSince": builder.choose(JUST_NOW, LONG_AGO)}


# --- worlds in which sizes change --------------------------------------------------------------------------

CHANGES = (
    "2024-05-01T00:00:00Z",
    "2024-05-01T00:59:30Z",
    "2024-05-01T00:59:31Z",
    "2024-05-01T00:59:55Z",
    NOW,
)
ELASTIC_CLASSES = (None, None, None, "low", "high")


@st.composite
def elastic_worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Elastic jobs of all sizes on few nodes, and other workloads that need room."""
    builder = WorldBuilder(draw, pools=draw(st.sampled_from([(), (), (), ("a",), ("a",), ("a", "b")])))
    _elastic_cluster(builder)
    for number in range(builder.choose(0, 0, 1, 2)):
        _other_pod(builder, f"x{number}")
    for number in range(builder.number(2, 6)):
        kind = builder.choose(
            _elastic_trainingjob,
            _elastic_trainingjob,
            _elastic_trainingjob,
            _elastic_dijob,
            _elastic_dijob,
            _shared_loose_pod,
            _shared_gang,
            _shared_tyjob,
        )
        kind(builder, f"w{number}")
    if builder.chance(1, 5):
        builder.objects.append(_budget(builder, "budget"))
    return World(builder.objects, _elastic_config(builder))


def _elastic_config(builder: WorldBuilder) -> Object:
    choices: Object = {
        "disablePreemption": builder.chance(1, 16) or None,
        "maxLoad": builder.choose(None, 1, 1, 1, 0.97, 0.5),
        "rebalance": None if builder.chance(3, 4) else False,
        "cooldown": builder.choose(None, None, "0s", 45, "1m30s"),
        "order": builder.choose(None, None, None, "BorrowFirst"),
        "gangRecoverySeconds": 86400,
    }
    return {key: value for key, value in choices.items() if value is not None}


def _elastic_cluster(builder: WorldBuilder) -> None:
    builder.objects += [_shared_pool(builder, name) for name in builder.pools]
    if builder.chance(1, 6):
        builder.objects.append(_shared_pool(builder, "default"))
    builder.objects += [priority_class("low", -1), priority_class("high", 10)]
    builder.objects.append(priority_class("patient", 20, never=True))
    with_gpus = builder.chance(1, 2)
    for number in range(builder.choose(1, 2, 2, 3, 3, 4, 5)):
        name, homes = f"n{number + 1}", (*builder.pools, *builder.pools, "default")
        home = homes[number] if number < len(builder.pools) else builder.choose(*homes)
        cpu, memory = builder.number(3, 8), builder.choose(16, 8, 4)
        gpu, pods = builder.choose(0, 2, 4) if with_gpus else 0, builder.choose(*(None,) * 6, 4)
        kind = builder.number(0, 30)
        built = node(
            name,
            cpu=cpu,
            memory=_gi(memory),
            gpu=gpu,
            pods=pods,
            labels={"pool": home},
            ready={0: "False", 1: "True"}.get(kind),
            unschedulable=kind == 2,
        )
        builder.objects.append(built)
        builder.free[name] = [cpu, memory, gpu, pods or 99]
        builder.pool_of[name] = home


def _instance(builder: WorldBuilder, priority: str | None) -> Shape:
    sizes = [(1, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    with_gpus = any(left[2] for left in builder.free.values())
    cpu, memory, gpu = builder.choose(*sizes, *([(1, 0, 1), (1, 0, 1), (1, 1, 2)] if with_gpus else []))
    labels = {"app": builder.choose("a", "b")}
    shape = template(cpu=cpu, memory=_gi(memory), gpu=gpu, labels=labels, priority=priority)
    return Shape(cpu, memory, gpu, shape)


def _with_limits(builder: WorldBuilder, shape: Shape) -> Object | None:
    """Sometimes limits above the requests; also set in the template."""
    if not builder.chance(1, 4):
        return None
    limits = resources(shape.cpu + builder.choose(0, 1, 2), _gi(shape.memory), shape.gpu)
    shape.template["spec"]["containers"][0]["resources"]["limits"] = limits
    return limits


def _node_with_room(builder: WorldBuilder, shape: Shape, home: str) -> str | None:
    """A node with room for the shape, nearly always in the home pool; takes the room."""
    requests, elsewhere = (shape.cpu, shape.memory, shape.gpu, 1), builder.chance(1, 24)
    fitting = [
        name
        for name, left in builder.free.items()
        if all(a <= b for a, b in zip(requests, left, strict=True))
        and (elsewhere or builder.pool_of[name] == home)
    ]
    on_node = builder.choose(*fitting) if fitting else None
    if on_node is not None:
        builder.free[on_node] = [b - a for a, b in zip(requests, builder.free[on_node], strict=True)]
    return on_node


def _elastic_trainingjob(builder: WorldBuilder, name: str) -> None:
    """A TrainingJob, not started or of any size, also above its maximum."""
    meta, priority = _shared_meta(builder, name), builder.choose(*ELASTIC_CLASSES)
    low = builder.choose(1, 1, 2)
    high = low + builder.number(0, 4)
    shape, server = _instance(builder, None), _instance(builder, None)
    limits, servers = _with_limits(builder, shape), builder.choose(0, 0, 0, 0, 1, 2)
    scaled = servers + builder.number(1, 2) if servers and builder.chance(2, 3) else None
    master = builder.chance(1, 8)
    size = builder.choose(
        0, 0, low, builder.number(low, high), builder.number(low, high), high, high, high + 1
    )
    names = {f"{name}-master-0": server} if master and size else {}
    names |= {
        f"{name}-pserver-{i}": server
        for i in range(builder.number(servers, scaled or servers) if size else 0)
    }
    names |= {f"{name}-trainer-{i}": shape for i in range(size)}
    _create_pods(builder, meta, "TrainingJob", names)
    built = trainingjob(
        name,
        trainer=shape.resources(),
        trainers=(low, high),
        limits=limits,
        pserver=server.resources() if servers else None,
        pservers=servers,
        scaled_to=scaled,
        master=server.resources() if master else None,
        priority=priority,
        pool=meta.pool,
        created=meta.created,
        status=_elastic_status(builder, meta, [f"{name}-trainer-{i}" for i in range(high)]),
    )
    builder.objects.append(built)


def _elastic_dijob(builder: WorldBuilder, name: str) -> None:
    """A preemptible DIJob, not started or of any size."""
    meta, shape = _shared_meta(builder, name), _instance(builder, builder.choose(*ELASTIC_CLASSES))
    _with_limits(builder, shape)
    low = builder.number(0, 2)
    high = max(1, low) + builder.number(0, 3)
    size = builder.choose(
        0, 0, low, builder.number(low, high), builder.number(low, high), high, high, high + 1
    )
    names = {f"{name}-0-{rank}": shape for rank in range(size)}
    nodes = _create_pods(builder, meta, "DIJob", names)
    status = _elastic_status(builder, meta, [f"{name}-0-{rank}" for rank in range(high)])
    if builder.chance(1, 6):
        status["allocation"] = _rank_allocation(builder, meta, names, nodes, builder.number(0, high))
    if builder.chance(1, 4):
        status["requestedReplicas"] = builder.number(0, high + 1)
    built = dijob(
        name,
        shape.template,
        replicas=(low, high),
        preemptible=True,
        priority=builder.choose(None, None, "high"),
        suspend=builder.chance(1, 24),
        pool=meta.pool,
        created=meta.created,
        status=status,
    )
    builder.objects.append(built)


def _create_pods(
    builder: WorldBuilder, meta: WorkloadMeta, kind: str, names: dict[str, Shape]
) -> dict[str, str]:
    """Create the pods of tasks where there is room; sometimes one is missing, terminating or finished."""
    nodes, pool = {}, builder.choose(*(meta.home,) * 7, *builder.pool_of.values())
    for name, shape in names.items():
        state = builder.choose(*("running",) * 24, "none", "leaving", "leaving", "done", "failed")
        on_node = None if state == "none" else _node_with_room(builder, shape, pool)
        if on_node is None:
            continue
        nodes[name] = on_node
        phase = {"done": "Succeeded", "failed": "Failed"}.get(state)
        built = pod_of(name, shape.template, node=on_node, phase=phase, created=meta.created)
        if state == "leaving":
            built["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
        if kind == "DIJob":
            built["metadata"]["labels"]["diengine/rank"] = name.rpartition("-")[2]
        built["metadata"]["ownerReferences"] = [owner(kind, meta.name)]
        builder.objects.append(built)
    return nodes


def _rank_allocation(
    builder: WorldBuilder, meta: WorkloadMeta, names: dict[str, Shape], nodes: dict[str, str], size: int
) -> list[str]:
    """The nodes of the first ranks: where their pods are, or will be created."""
    allocation = []
    for rank in range(size):
        name, shape = f"{meta.name}-0-{rank}", next(iter(names.values()), None)
        on_node = nodes.get(name) or (_node_with_room(builder, shape, meta.home) if shape else None)
        if on_node is None:
            break
        allocation.append(on_node)
    return allocation


def _elastic_status(builder: WorldBuilder, meta: WorkloadMeta, names: list[str]) -> Object:
    """The time of the last resize, and nominations."""
    status: Object = {}
    if builder.chance(1, 3):
        record = {"time": builder.choose(*CHANGES), "from": 1, "to": 2, "reason": "Grown"}
        status["scaleRecords"] = [record]
    if builder.chance(1, 6):
        pods = {one["metadata"]["name"] for one in builder.objects if one["kind"] == "Pod"}
        free = [name for name in names if name not in pods]
        at_home = [name for name, home in builder.pool_of.items() if home == meta.home]
        if at_home:
            status["nominations"] = {
                name: builder.choose(*at_home) for name in free[: builder.choose(1, 1, 2)]
            }
    return status
