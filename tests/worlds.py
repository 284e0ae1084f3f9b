"""Random small worlds: tight enough that conflicts, ties and partial fits are the rule.

Numbers are small so that ties happen. What already runs never oversubscribes a node. In `worlds` and
`puzzles` it stands in its home pool, and nobody can borrow, preempt, grow or shrink, so that they are about
queueing and placing alone: pools are closed; either preemption is off, or all priorities are equal (then
gangs may be lost). In `shared_worlds` pools lend, borrow and take back, and pods stand anywhere. Elastic jobs
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
    """What a pod asks for, in small numbers."""

    cpu: int
    memory: int
    gpu: int
    template: Object

    def resources(self) -> Object:
        return resources(self.cpu, _gi(self.memory), self.gpu)


@dataclass
class Making:
    """A world in the making: what is drawn, what exists, and how much room is left on each node."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    objects: list[Object] = field(default_factory=list)
    free: dict[str, list[int]] = field(default_factory=dict)
    """Per node: CPUs, Gi, GPUs, pods."""
    pool_of: dict[str, str] = field(default_factory=dict)
    classes: bool = False
    roomy: bool = False
    """Larger nodes and pods without wishes: what decides is how sizes fit together."""
    pools: tuple[str, ...] = ()

    def one(self, *choices: T) -> T:
        chosen: T = self.draw(st.sampled_from(choices))
        return chosen

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, hits: int, out_of: int) -> bool:
        return self.number(1, out_of) > out_of - hits

    def node_for(self, shape: Shape, home: str) -> str | None:
        """A node at home with room for the shape, if the one that was drawn is such."""
        name = self.one(*self.free)
        asked = (shape.cpu, shape.memory, shape.gpu, 1)
        left = self.free[name]
        if self.pool_of[name] != home or any(a > b for a, b in zip(asked, left, strict=True)):
            return None
        self.free[name] = [b - a for a, b in zip(asked, left, strict=True)]
        return name

    def home(self, wish: str | None) -> str:
        return wish if wish in self.pools else "default"


def _gi(number: int) -> Amount:
    return f"{number}Gi" if number else 0


# --- nodes and pools ---------------------------------------------------------------------------------------


def _cluster(making: Making) -> None:
    making.roomy = making.chance(1, 2)
    making.pools = making.one((), (), (), ("p1",), ("p1", "p2"))
    if making.pools:
        making.objects += [
            pool("default"),
            namespace("team", pool=making.one(None, "p1"), labels={"team": "a"}),
        ]
        making.objects += [_pool(making, name) for name in making.pools]
    making.classes = making.chance(1, 2)
    if making.classes:
        making.objects += [priority_class("high", 10), priority_class("low", -1, default=making.chance(1, 6))]
    for number in range(making.one(1, 2, 2, 3, 3, 4, 5, 6)):
        _node(making, f"n{number + 1}")


def _pool(making: Making, name: str) -> Object:
    queue = making.one(None, None, "Priority", "DRF")
    return pool(name, selector={"pool": name}, queue=queue)


def _node(making: Making, name: str) -> None:
    least, most = (4, 8) if making.roomy else (2, 6)
    cpu, memory, gpu = making.number(least, most), making.number(least, most), making.one(0, 0, 1, 2)
    pods = making.one(None, None, 3)
    home = making.one("default", *making.pools)
    labels = {"zone": making.one("a", "b")} | ({"pool": home} if making.pools else {})
    kind = making.number(0, 60 if making.roomy else 11)
    taints = {0: [taint("team", "a")], 1: [taint("team", "a", "PreferNoSchedule")]}.get(kind, [])
    made = node(
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
    making.objects.append(made)
    making.free[name] = [cpu, memory, gpu, pods or 99]
    making.pool_of[name] = home


# --- pods --------------------------------------------------------------------------------------------------


def _shape(making: Making, *, plain: bool = False) -> Shape:
    """A pod template: mostly plain, now and then with a wish about where it stands."""
    plain = plain or making.roomy
    cpu, memory, gpu = making.one(*SMALL, *(LARGE if making.roomy else ()))
    app = making.one("a", "b")
    spec = {} if plain or not making.chance(1, 3) else _wish(making, app)
    made = template(
        cpu=cpu,
        memory=_gi(memory),
        gpu=gpu,
        labels={"app": app},
        priority=making.one(None, None, "high", "low") if making.classes else None,
        host_port=80 if not plain and making.chance(1, 6) else None,
        spec=spec,
    )
    return Shape(cpu, memory, gpu, made)


def _wish(making: Making, app: str) -> Object:
    wishes: list[Object] = [
        {"tolerations": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
        {"nodeSelector": {"zone": "a"}},
        _node_affinity({"key": "zone", "operator": "NotIn", "values": ["a"]}),
        _pod_affinity("podAntiAffinity", app, "kubernetes.io/hostname"),
        _pod_affinity("podAntiAffinity", "a", "zone"),
        _pod_affinity("podAffinity", app, "zone"),
    ]
    if not making.pools:
        wishes.append(_spread(app))
    return making.one(*wishes)


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


def _filler(making: Making, number: int) -> None:
    """A pod that takes room: of another scheduler or ours, staying or leaving."""
    shape = _shape(making, plain=True)
    ours = making.chance(1, 2)
    home = making.one(*making.pool_of.values()) if not ours else "default"
    where = making.node_for(shape, home)
    if where is None:
        return
    made = pod_of(
        f"filler-{number}",
        shape.template,
        node=where,
        created=making.one(*CREATED),
        terminating=making.chance(1, 2),
        phase=making.one("Running", "Running", "Running", "Succeeded"),
    )
    if not ours:
        made["spec"]["schedulerName"] = "default-scheduler"
    making.objects.append(made)


# --- workloads ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a workload lives."""

    name: str
    namespace: str
    pool: str | None
    home: str
    created: str | None


def _place(making: Making, number: int) -> Place:
    space = making.one("default", "default", "team")
    wish = "nowhere" if making.chance(1, 12) else making.one(None, *making.pools)
    inherited = [
        one["metadata"].get("annotations", {}).get("resource.aibee.cn/pool")
        for one in making.objects
        if one["kind"] == "Namespace" and one["metadata"]["name"] == space
    ]
    home = making.home(wish or next(iter(inherited), None))
    return Place(f"w{number}", space, wish, home, making.one(*CREATED))


def _workload(making: Making, number: int) -> None:
    place = _place(making, number)
    kind = making.one(_loose, _loose, _gang, _tyjob, _tyjob, _tyjob, _replicas, _tasks, _paddle, _batch)
    kind(making, place)


def _loose(making: Making, place: Place) -> None:
    making.objects.append(_pod(making, place, place.name))


def _gang(making: Making, place: Place) -> None:
    size = making.number(1, 4)
    least = making.one(None, *range(1, size + 1))
    for index in range(size):
        made = _pod(making, place, f"{place.name}-{index}")
        notes = made["metadata"].setdefault("annotations", {})
        notes["shoal.io/gang"] = place.name
        if least is not None:
            notes["shoal.io/gang-min"] = str(least)
        making.objects.append(made)


def _pod(making: Making, place: Place, name: str) -> Object:
    """A pod of ours: pending, promised a node, or running."""
    shape = _shape(making)
    state = making.number(0, 7)
    where = making.node_for(shape, place.home) if state == 0 else None
    promised = making.one(*making.free) if state == 1 else None
    made = pod_of(
        name, shape.template, namespace=place.namespace, created=place.created, node=where, nominated=promised
    )
    if promised and making.pool_of[promised] != place.home:
        del made["status"]["nominatedNodeName"]
    if place.pool:
        made["metadata"].setdefault("annotations", {})["resource.aibee.cn/pool"] = place.pool
    if state == 2:
        made["spec"] |= making.one(
            {"schedulingGates": [{"name": "g"}]},
            {"resourceClaims": [{"name": "c"}]},
            {"overhead": {"cpu": "1"}},
        )
    return made


def _tyjob(making: Making, place: Place) -> None:
    leader, sets = _shape(making), [_shape(making) for _ in range(making.one(1, 2, 2, 3))]
    counts = [making.number(1, 3) for _ in sets]
    workers = {f"s{index}": (counts[index], shape.template) for index, shape in enumerate(sets)}
    names = {f"{place.name}-leader": leader}
    for index, shape in enumerate(sets):
        names |= {f"{place.name}-s{index}-{i}": shape for i in range(counts[index])}
    status = _progress(making, place, "TYJob", names)
    if making.chance(1, 6):
        status["allocations"] = _allocations(making, place, names)
    if making.chance(1, 6):
        status["nominations"] = _nominations(making, place, names)
    made = tyjob(
        place.name,
        leader=leader.template,
        workers=workers,
        namespace=place.namespace,
        min_workers=making.number(1, sum(counts)),
        policy=making.one(*POLICIES),
        queue=making.one(None, "Priority", "DRF"),
        priority=making.one(None, 1, 8),
        pool=place.pool,
        created=place.created,
        terminating=making.chance(1, 12),
        status=status,
    )
    making.objects.append(made)


def _replicas(making: Making, place: Place) -> None:
    shape, low, size = _shape(making), making.number(1, 3), making.number(1, 4)
    preemptible = making.chance(1, 2)
    size = low if preemptible else max(low, size)
    names = {f"{place.name}-0-{rank}": shape for rank in range(size)}
    status = _progress(making, place, "DIJob", names)
    if not preemptible:
        status["replicas"] = size
    made = dijob(
        place.name,
        shape.template,
        namespace=place.namespace,
        replicas=(low, size),
        preemptible=preemptible,
        priority=making.one(None, "normal", "high"),
        suspend=making.chance(1, 12),
        pool=place.pool,
        created=place.created,
        status=status,
    )
    making.objects.append(made)


def _tasks(making: Making, place: Place) -> None:
    learner, collector = _shape(making), _shape(making)
    size = making.number(1, 3)
    names = {f"{place.name}-learner-0": learner}
    names |= {f"{place.name}-c-{index}": collector for index in range(size)}
    made = dijob_tasks(
        place.name,
        [
            di_task("learner", learner.template),
            di_task("collector", collector.template, replicas=size, name="c"),
        ],
        namespace=place.namespace,
        priority=making.one(None, "high"),
        pool=place.pool,
        created=place.created,
        status=_progress(making, place, "DIJob", names),
    )
    making.objects.append(made)


def _paddle(making: Making, place: Place) -> None:
    selector = making.one(None, None, {"zone": "a"})
    trainer, pserver = _paddle_shape(making, selector), _paddle_shape(making, selector)
    size, pservers, master = making.number(1, 3), making.number(0, 2), making.chance(1, 2)
    names = {f"{place.name}-master-0": pserver} if master else {}
    names |= {f"{place.name}-pserver-{index}": pserver for index in range(pservers)}
    names |= {f"{place.name}-trainer-{index}": trainer for index in range(size)}
    made = trainingjob(
        place.name,
        trainer=trainer.resources(),
        trainers=(size, size),
        pserver=pserver.resources() if pservers else None,
        pservers=pservers,
        master=pserver.resources() if master else None,
        namespace=place.namespace,
        selector=selector,
        priority=making.one(None, "high") if making.classes else None,
        pool=place.pool,
        created=place.created,
        status=_progress(making, place, "TrainingJob", names),
    )
    making.objects.append(made)


def _paddle_shape(making: Making, selector: dict[str, str] | None) -> Shape:
    """A pod as a TrainingJob makes it: resources and a node selector."""
    shape = _shape(making, plain=True)
    shape.template["metadata"] = {}
    shape.template["spec"]["nodeSelector"] = selector or {}
    return shape


def _batch(making: Making, place: Place) -> None:
    shape = _shape(making)
    if place.pool:
        shape.template["metadata"]["annotations"] = {"resource.aibee.cn/pool": place.pool}
    size = making.number(1, 3)
    indexed = making.chance(1, 2)
    made = batch_job(
        place.name,
        shape.template,
        namespace=place.namespace,
        parallelism=size,
        completions=size if indexed else making.one(None, size, size + 1),
        indexed=indexed,
        created=place.created,
        status={"completedIndexes": "0"} if indexed and making.chance(1, 6) else None,
    )
    making.objects.append(made)


# --- how far a job has come --------------------------------------------------------------------------------


def _progress(making: Making, place: Place, kind: str, names: dict[str, Shape]) -> Object:
    """Give some tasks of the job their pods; the status says since when a gang is broken, if it is."""
    if not making.chance(1, 3):
        return {}
    states = ("none", "running", "running", "running", "running", "leaving", "done", "failed", "pending")
    for name, shape in names.items():
        state = making.one(*states)
        made = None if state == "none" else _pod_in_state(making, place, name, shape, state)
        if made is not None:
            made["metadata"]["ownerReferences"] = [owner(kind, place.name)]
            making.objects.append(made)
    return {"brokenSince": making.one(JUST_NOW, LONG_AGO)}


def _pod_in_state(making: Making, place: Place, name: str, shape: Shape, state: str) -> Object | None:
    """The pod of a task, unless it should be on a node and the one drawn has no room."""
    where = None if state == "pending" else making.node_for(shape, place.home)
    if where is None and state != "pending":
        return None
    phases = {"done": "Succeeded", "failed": "Failed"}
    return pod_of(
        name,
        shape.template,
        namespace=place.namespace,
        node=where,
        terminating=state == "leaving",
        phase=phases.get(state),
        created=place.created,
    )


def _without_pods(making: Making, names: dict[str, Shape]) -> dict[str, Shape]:
    pods = {one["metadata"]["name"] for one in making.objects if one["kind"] == "Pod"}
    return {name: shape for name, shape in names.items() if name not in pods}


def _allocations(making: Making, place: Place, names: dict[str, Shape]) -> dict[str, str]:
    """Nodes that were given to tasks whose pods do not exist yet."""
    wanted = _without_pods(making, names)
    given = {name: making.node_for(shape, place.home) for name, shape in wanted.items()}
    return {name: where for name, where in given.items() if where is not None}


def _nominations(making: Making, place: Place, names: dict[str, Shape]) -> dict[str, str]:
    """Nodes that were promised, with or without reason."""
    at_home = [name for name, home in making.pool_of.items() if home == place.home]
    if not at_home:
        return {}
    return {name: making.one(*at_home) for name in names if making.chance(2, 3)}


# --- worlds ------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Any small world."""
    making = Making(draw)
    _cluster(making)
    for number in range(making.number(0, 4)):
        _filler(making, number)
    for number in range(making.number(0, 8)):
        _workload(making, number)
    config: Object = {"disablePreemption": True, "gangRecoverySeconds": 86400} if making.classes else {}
    queue = making.one(None, None, "Priority", "DRF")
    return World(making.objects, config | ({"queuePolicy": queue} if queue else {}))


@st.composite
def puzzles(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Few nodes, and jobs of unlike tasks, the large ones last: often only the second try fits them, or
    only the room of pods that leave."""
    making = Making(draw)
    for number in range(making.number(2, 4)):
        size = making.number(4, 6)
        making.objects.append(node(f"n{number + 1}", cpu=size, memory=_gi(making.one(size, 8))))
        if making.chance(1, 3):
            shape = template(cpu=making.number(1, size))
            making.objects.append(pod_of(f"leaving-{number}", shape, node=f"n{number + 1}", terminating=True))
    for number in range(making.number(1, 3)):
        _puzzle(making, f"w{number}")
    return World(making.objects, {})


def _puzzle(making: Making, name: str) -> None:
    sizes = sorted(making.number(1, 5) for _ in range(making.number(1, 4)))
    shapes = [template(cpu=size, memory=_gi(making.one(0, 1, size))) for size in sizes]
    made = tyjob(
        name,
        leader=template(cpu=1),
        workers={f"s{index}": (1, shape) for index, shape in enumerate(shapes)},
        min_workers=making.one(len(sizes), len(sizes), max(1, len(sizes) - 1), 1),
        policy=making.one("JobAntiAffinity", "JobAntiAffinity", "LeaderFirst", "MinFragment", "BinPack"),
        created=making.one(*CREATED),
    )
    making.objects.append(made)


# --- worlds in which pools share ---------------------------------------------------------------------------

SHARED_POOLS = ("a", "b", "c")
SHARED_CLASSES = (None, None, "low", "high", "high", "patient")


@st.composite
def shared_worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> World:
    """Two or three pools that lend, borrow and preempt or not, full of pods of theirs and of others."""
    making = Making(draw, pools=SHARED_POOLS[: draw(st.sampled_from([1, 2, 2, 3]))])
    _shared_cluster(making)
    for number in range(making.number(0, 3)):
        _bystander(making, f"x{number}")
    for number in range(making.number(1, 8)):
        kind = making.one(_member, _member, _member, _team, _team, _crew, _crew, _ranks)
        kind(making, f"w{number}")
    for number in range(making.one(0, 0, 1, 2)):
        making.objects.append(_budget(making, f"budget-{number}"))
    return World(making.objects, _shared_config(making))


def _shared_config(making: Making) -> Object:
    choices: Object = {
        "disablePreemption": making.chance(1, 8) or None,
        "order": making.one(None, None, "BorrowFirst", "PreemptFirst"),
        "queuePolicy": making.one(None, None, None, None, "DRF"),
        "gangRecoverySeconds": making.one(86400, 86400, 60),
    }
    return {key: value for key, value in choices.items() if value is not None}


def _shared_cluster(making: Making) -> None:
    making.objects += [_shared_pool(making, name) for name in making.pools]
    if making.chance(1, 3):
        making.objects.append(_shared_pool(making, "default"))
    making.objects += [
        priority_class("low", -1, default=making.chance(1, 8)),
        priority_class("high", 10),
        priority_class("patient", 20, never=True),
    ]
    for number in range(making.one(1, 2, 2, 3, 3, 4)):
        name, home = f"n{number + 1}", making.one(*making.pools, *making.pools, "default")
        cpu, gpu = making.number(2, 5), making.one(0, 0, 0, 2)
        memory, pods = making.one(8, 8, 8, 3), making.one(None, None, None, None, 3)
        taints = [taint("team", "a")] if making.chance(1, 16) else []
        made = node(
            name, cpu=cpu, memory=_gi(memory), gpu=gpu, pods=pods, labels={"pool": home}, taints=taints
        )
        making.objects.append(made)
        making.free[name] = [cpu, memory, gpu, pods or 99]
        making.pool_of[name] = home


def _shared_pool(making: Making, name: str) -> Object:
    made = open_pool(
        name,
        preempts=making.chance(5, 6),
        borrows=making.chance(5, 6),
        shares=making.chance(5, 6),
        borrows_from=making.one((), (), (), ("a",), ("b", "default")),
        order=making.one(None, None, "BorrowFirst", "PreemptFirst"),
        queue=making.one(None, None, None, "Priority", "DRF"),
    )
    if name == "default":
        del made["spec"]["nodeSelector"]
    return made


def _budget(making: Making, name: str) -> Object:
    numbers: dict[str, Any] = making.one(
        {"min_available": 1},
        {"min_available": "50%"},
        {"max_unavailable": 1},
        {"max_unavailable": "30%"},
        {"max_unavailable": 0},
        {"min_available": 1, "allowed": 0},
        {"min_available": 1, "allowed": 1},
    )
    return budget(name, guards={"app": making.one("a", "b")}, **numbers)


def _plain(making: Making, *, largest: int = 3) -> Shape:
    cpu, memory = making.number(1, largest), making.one(0, 0, 0, 1, 2)
    gpu = making.one(0, 0, 0, 0, 0, 1)
    labels = {"app": making.one("a", "b")}
    priority = making.one(*SHARED_CLASSES)
    made = template(cpu=cpu, memory=_gi(memory), gpu=gpu, labels=labels, priority=priority)
    return Shape(cpu, memory, gpu, made)


def _somewhere(making: Making, shape: Shape, near: str | None = None) -> str | None:
    """A node with room for the shape, at home or not; mostly in the pool of the node before."""
    pools = [making.pool_of[near]] if near and not making.chance(1, 8) else list(making.pool_of.values())
    for home in pools:
        where = making.node_for(shape, home)
        if where is not None:
            return where
    return None


def _bystander(making: Making, name: str) -> None:
    """A pod that is no workload of ours, or one that leaves."""
    shape = _plain(making)
    where = _somewhere(making, shape)
    if where is None:
        return
    theirs = making.chance(1, 2)
    made = pod_of(name, shape.template, node=where, terminating=not theirs or making.chance(1, 4))
    if theirs:
        made["spec"]["schedulerName"] = "default-scheduler"
    making.objects.append(made)


def _shared_place(making: Making, name: str) -> Place:
    wish = making.one(*making.pools, *making.pools, None)
    return Place(name, "default", wish, making.home(wish), making.one(*CREATED))


def _member(making: Making, name: str) -> None:
    """A loose pod, running somewhere or pending."""
    place, shape = _shared_place(making, name), _plain(making, largest=5)
    where = _somewhere(making, shape) if making.chance(1, 2) else None
    making.objects.append(_shared_pod(making, place, name, shape, where))


def _team(making: Making, name: str) -> None:
    """A gang of loose pods: all of it, part of it, or nothing runs."""
    place, size = _shared_place(making, name), making.number(2, 4)
    least, runs, near = making.one(None, None, *range(1, size + 1)), making.chance(1, 2), None
    shape = _plain(making, largest=2)
    for index in range(size):
        shape = shape if making.chance(4, 5) else _plain(making, largest=2)
        where = _somewhere(making, shape, near) if runs and making.chance(9, 10) else None
        near = near or where
        made = _shared_pod(making, place, f"{name}-{index}", shape, where)
        notes = made["metadata"].setdefault("annotations", {})
        notes["shoal.io/gang"] = name
        if least is not None:
            notes["shoal.io/gang-min"] = str(least)
        making.objects.append(made)


def _shared_pod(making: Making, place: Place, name: str, shape: Shape, where: str | None) -> Object:
    promised = making.one(*making.free) if where is None and making.chance(1, 10) else None
    of = owner("ReplicaSet", "r") if making.chance(1, 2) else None
    made = pod_of(name, shape.template, node=where, nominated=promised, of=of, created=place.created)
    if place.pool:
        made["metadata"].setdefault("annotations", {})["resource.aibee.cn/pool"] = place.pool
    if making.chance(1, 16):
        made["spec"] = made["spec"] | {"preemptionPolicy": "Never"}
    return made


def _crew(making: Making, name: str) -> None:
    """A TYJob."""
    place = _shared_place(making, name)
    leader, worker = _plain(making, largest=2), _plain(making, largest=3)
    count = making.number(1, 3)
    names = {f"{name}-leader": leader} | {f"{name}-s-{index}": worker for index in range(count)}
    status = _shared_progress(making, place, "TYJob", names)
    if making.chance(1, 10):
        status["nominations"] = {one: making.one(*making.free) for one in names}
    made = tyjob(
        name,
        leader=leader.template,
        workers={"s": (count, worker.template)},
        min_workers=making.number(1, count),
        policy=making.one(*POLICIES),
        queue=making.one(None, None, "DRF"),
        priority=making.one(None, 1, 8),
        pool=place.pool,
        created=place.created,
        status=status,
    )
    making.objects.append(made)


def _ranks(making: Making, name: str) -> None:
    """A DIJob, preemptible (then with a fixed size) or not."""
    place, shape = _shared_place(making, name), _plain(making, largest=2)
    low, preemptible = making.number(1, 3), making.chance(1, 2)
    size = low if preemptible else low + making.one(0, 1)
    names = {f"{name}-0-{rank}": shape for rank in range(size)}
    status = _shared_progress(making, place, "DIJob", names)
    if not preemptible:
        status["replicas"] = size
    made = dijob(
        name,
        shape.template,
        replicas=(low, size),
        preemptible=preemptible,
        priority=making.one(None, "high"),
        suspend=making.chance(1, 16),
        pool=place.pool,
        created=place.created,
        status=status,
    )
    making.objects.append(made)


def _shared_progress(making: Making, place: Place, kind: str, names: dict[str, Shape]) -> Object:
    """Give most tasks of half the jobs their pods, anywhere; now and then one leaves or is done."""
    if not making.chance(1, 2):
        return {}
    near = None
    for name, shape in names.items():
        state = making.one(*("running",) * 8, "none", "leaving", "done")
        where = None if state == "none" else _somewhere(making, shape, near)
        if where is not None:
            near = near or where
            phase = "Succeeded" if state == "done" else None
            made = pod_of(name, shape.template, node=where, phase=phase, created=place.created)
            if state == "leaving":
                made["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
            made["metadata"]["ownerReferences"] = [owner(kind, place.name)]
            making.objects.append(made)
    return {"brokenSince": making.one(JUST_NOW, LONG_AGO)}


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
    """Elastic jobs of all sizes beside each other, on few nodes, and others that need room."""
    making = Making(draw, pools=draw(st.sampled_from([(), (), (), ("a",), ("a",), ("a", "b")])))
    _elastic_cluster(making)
    for number in range(making.one(0, 0, 1, 2)):
        _bystander(making, f"x{number}")
    for number in range(making.number(2, 6)):
        kind = making.one(_trainers, _trainers, _trainers, _any_ranks, _any_ranks, _member, _team, _crew)
        kind(making, f"w{number}")
    if making.chance(1, 5):
        making.objects.append(_budget(making, "budget"))
    return World(making.objects, _elastic_config(making))


def _elastic_config(making: Making) -> Object:
    choices: Object = {
        "disablePreemption": making.chance(1, 16) or None,
        "maxLoad": making.one(None, 1, 1, 1, 0.97, 0.5),
        "rebalance": None if making.chance(3, 4) else False,
        "cooldown": making.one(None, None, "0s", 45, "1m30s"),
        "order": making.one(None, None, None, "BorrowFirst"),
        "gangRecoverySeconds": 86400,
    }
    return {key: value for key, value in choices.items() if value is not None}


def _elastic_cluster(making: Making) -> None:
    making.objects += [_shared_pool(making, name) for name in making.pools]
    if making.chance(1, 6):
        making.objects.append(_shared_pool(making, "default"))
    making.objects += [priority_class("low", -1), priority_class("high", 10)]
    making.objects.append(priority_class("patient", 20, never=True))
    with_gpus = making.chance(1, 2)
    for number in range(making.one(1, 2, 2, 3, 3, 4, 5)):
        name, homes = f"n{number + 1}", (*making.pools, *making.pools, "default")
        home = homes[number] if number < len(making.pools) else making.one(*homes)
        cpu, memory = making.number(3, 8), making.one(16, 8, 4)
        gpu, pods = making.one(0, 2, 4) if with_gpus else 0, making.one(*(None,) * 6, 4)
        kind = making.number(0, 30)
        made = node(
            name,
            cpu=cpu,
            memory=_gi(memory),
            gpu=gpu,
            pods=pods,
            labels={"pool": home},
            ready={0: "False", 1: "True"}.get(kind),
            unschedulable=kind == 2,
        )
        making.objects.append(made)
        making.free[name] = [cpu, memory, gpu, pods or 99]
        making.pool_of[name] = home


def _instance(making: Making, priority: str | None) -> Shape:
    sizes = [(1, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    with_gpus = any(left[2] for left in making.free.values())
    cpu, memory, gpu = making.one(*sizes, *([(1, 0, 1), (1, 0, 1), (1, 1, 2)] if with_gpus else []))
    labels = {"app": making.one("a", "b")}
    shape = template(cpu=cpu, memory=_gi(memory), gpu=gpu, labels=labels, priority=priority)
    return Shape(cpu, memory, gpu, shape)


def _with_limits(making: Making, shape: Shape) -> Object | None:
    """Limits above the requests, now and then; in the template as well."""
    if not making.chance(1, 4):
        return None
    limits = resources(shape.cpu + making.one(0, 1, 2), _gi(shape.memory), shape.gpu)
    shape.template["spec"]["containers"][0]["resources"]["limits"] = limits
    return limits


def _seat(making: Making, shape: Shape, home: str) -> str | None:
    """Some node with room for the shape, nearly always at home."""
    asked, elsewhere = (shape.cpu, shape.memory, shape.gpu, 1), making.chance(1, 24)
    able = [
        name
        for name, left in making.free.items()
        if all(a <= b for a, b in zip(asked, left, strict=True))
        and (elsewhere or making.pool_of[name] == home)
    ]
    where = making.one(*able) if able else None
    if where is not None:
        making.free[where] = [b - a for a, b in zip(asked, making.free[where], strict=True)]
    return where


def _trainers(making: Making, name: str) -> None:
    """A TrainingJob, not started or of any size, also above its largest."""
    place, priority = _shared_place(making, name), making.one(*ELASTIC_CLASSES)
    low = making.one(1, 1, 2)
    high = low + making.number(0, 4)
    shape, server = _instance(making, None), _instance(making, None)
    limits, servers = _with_limits(making, shape), making.one(0, 0, 0, 0, 1, 2)
    scaled = servers + making.number(1, 2) if servers and making.chance(2, 3) else None
    master = making.chance(1, 8)
    size = making.one(0, 0, low, making.number(low, high), making.number(low, high), high, high, high + 1)
    names = {f"{name}-master-0": server} if master and size else {}
    names |= {
        f"{name}-pserver-{i}": server for i in range(making.number(servers, scaled or servers) if size else 0)
    }
    names |= {f"{name}-trainer-{i}": shape for i in range(size)}
    _run(making, place, "TrainingJob", names)
    made = trainingjob(
        name,
        trainer=shape.resources(),
        trainers=(low, high),
        limits=limits,
        pserver=server.resources() if servers else None,
        pservers=servers,
        scaled_to=scaled,
        master=server.resources() if master else None,
        priority=priority,
        pool=place.pool,
        created=place.created,
        status=_history(making, place, [f"{name}-trainer-{i}" for i in range(high)]),
    )
    making.objects.append(made)


def _any_ranks(making: Making, name: str) -> None:
    """A preemptible DIJob, not started or of any size."""
    place, shape = _shared_place(making, name), _instance(making, making.one(*ELASTIC_CLASSES))
    _with_limits(making, shape)
    low = making.number(0, 2)
    high = max(1, low) + making.number(0, 3)
    size = making.one(0, 0, low, making.number(low, high), making.number(low, high), high, high, high + 1)
    names = {f"{name}-0-{rank}": shape for rank in range(size)}
    nodes = _run(making, place, "DIJob", names)
    status = _history(making, place, [f"{name}-0-{rank}" for rank in range(high)])
    if making.chance(1, 6):
        status["allocation"] = _ranks_given(making, place, names, nodes, making.number(0, high))
    if making.chance(1, 4):
        status["requestedReplicas"] = making.number(0, high + 1)
    made = dijob(
        name,
        shape.template,
        replicas=(low, high),
        preemptible=True,
        priority=making.one(None, None, "high"),
        suspend=making.chance(1, 24),
        pool=place.pool,
        created=place.created,
        status=status,
    )
    making.objects.append(made)


def _run(making: Making, place: Place, kind: str, names: dict[str, Shape]) -> dict[str, str]:
    """Give the tasks their pods where there is room; now and then one lacks, leaves, is done or failed."""
    nodes, pool = {}, making.one(*(place.home,) * 7, *making.pool_of.values())
    for name, shape in names.items():
        state = making.one(*("running",) * 24, "none", "leaving", "leaving", "done", "failed")
        where = None if state == "none" else _seat(making, shape, pool)
        if where is None:
            continue
        nodes[name] = where
        phase = {"done": "Succeeded", "failed": "Failed"}.get(state)
        made = pod_of(name, shape.template, node=where, phase=phase, created=place.created)
        if state == "leaving":
            made["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
        if kind == "DIJob":
            made["metadata"]["labels"]["diengine/rank"] = name.rpartition("-")[2]
        made["metadata"]["ownerReferences"] = [owner(kind, place.name)]
        making.objects.append(made)
    return nodes


def _ranks_given(
    making: Making, place: Place, names: dict[str, Shape], nodes: dict[str, str], size: int
) -> list[str]:
    """The nodes of the first ranks: where their pods are, or where they will be made."""
    given = []
    for rank in range(size):
        name, shape = f"{place.name}-0-{rank}", next(iter(names.values()), None)
        where = nodes.get(name) or (_seat(making, shape, place.home) if shape else None)
        if where is None:
            break
        given.append(where)
    return given


def _history(making: Making, place: Place, names: list[str]) -> Object:
    """When its size changed, and what it was promised."""
    status: Object = {}
    if making.chance(1, 3):
        record = {"time": making.one(*CHANGES), "from": 1, "to": 2, "reason": "Grown"}
        status["scaleRecords"] = [record]
    if making.chance(1, 6):
        pods = {one["metadata"]["name"] for one in making.objects if one["kind"] == "Pod"}
        free = [name for name in names if name not in pods]
        at_home = [name for name, home in making.pool_of.items() if home == place.home]
        if at_home:
            status["nominations"] = {name: making.one(*at_home) for name in free[: making.one(1, 1, 2)]}
    return status
