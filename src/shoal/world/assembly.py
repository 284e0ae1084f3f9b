"""Assembly: a Snapshot made of a World, and the pod behind each of its tasks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from shoal.api.core import Node
from shoal.api.podspec import Resources, in_nano
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.neighbours import Occupant, amounts_of
from shoal.scheduling.nodes import NodeFacts, Nodes
from shoal.scheduling.resources import Layout, offered
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import NOWHERE, Task, Workload
from shoal.world import dijobs, trainingjobs, tyjobs
from shoal.world.budgets import budgets
from shoal.world.desk import Desk
from shoal.world.loose import gang_sketch, pod_sketch
from shoal.world.membership import Membership
from shoal.world.pods import PodRecord
from shoal.world.population import Population
from shoal.world.sketch import Sketch
from shoal.world.world import World

_SKETCHERS: Final[dict[str, Callable[..., Sketch | None]]] = {
    "DIJob": dijobs.sketch,
    "TYJob": tyjobs.sketch,
    "TrainingJob": trainingjobs.sketch,
}


class Assembly(msgspec.Struct, frozen=True, eq=False):
    """A snapshot, and what its workloads and tasks were made of."""

    snapshot: Snapshot
    _pods: dict[Task, PodRecord]
    _sketches: dict[Workload, Sketch]

    def pod(self, workload: Workload, task: Task) -> PodRecord:
        """The pod that a task is or will be, also one that a plan has thought of."""
        if task in self._pods:
            return self._pods[task]
        sketch = self._sketches[workload]
        if sketch.elastic is None:
            raise KeyError(task.name)
        return sketch.pod(task.name, sketch.elastic.row_of(task.role).blueprint, task.number)


def assemble(world: World, config: SchedulerConfig, now: float) -> Assembly:
    """What the engine sees of a world."""
    population = Population(world, config, now)
    membership = Membership(world.pools)
    sketches = sorted([*_job_sketches(world, population), *_loose_sketches(population)], key=_seniority)
    nodes = _lay_out(world, membership, population, sketches)
    desk = Desk(world, config, population, membership, nodes)
    workloads = tuple(workload for sketch in sketches if (workload := desk.workload(sketch)))
    snapshot = Snapshot(
        nodes=nodes,
        pools=membership.pools(nodes),
        used=amounts_of(desk.occupants, nodes),
        system=amounts_of(desk.strangers, nodes),
        occupants=desk.occupants,
        leaving=tuple(occupant for occupant in desk.occupants if occupant.leaving),
        guarded=any(shape.apart for shape in {occupant.shape for occupant in desk.occupants}),
        budgets=budgets(world.budgets.values(), desk.occupants),
        workloads=workloads,
        unsettled=tuple(workload for workload in workloads if _is_unsettled(workload)),
        elastic=tuple(workload for workload in workloads if workload.elastic),
        limits=_limits(desk.occupants, nodes),
        now=now,
    )
    return Assembly(snapshot, desk.origins, desk.sketches)


def _job_sketches(world: World, population: Population) -> Iterator[Sketch]:
    for kind, jobs in world.jobs.items():
        for job in jobs.values():
            if job.metadata.deletion_timestamp is None:
                sketch = _SKETCHERS[kind](job, world.book, population.of(kind, job.metadata), world.now)
                if sketch:
                    yield sketch


def _loose_sketches(population: Population) -> Iterator[Sketch]:
    gangs: defaultdict[tuple[str, str], list[PodRecord]] = defaultdict(list)
    for pod in population.loose():
        if not pod.blueprint.gang:
            if not pod.finished:
                yield pod_sketch(pod)
        elif pod.phase != "Failed":
            gangs[pod.namespace, pod.blueprint.gang].append(pod)
    for (_, name), pods in gangs.items():
        if not all(pod.finished for pod in pods):
            yield gang_sketch(name, pods)


def _seniority(sketch: Sketch) -> tuple[float, str, str, str]:
    """Who was there first, whatever the order of the input."""
    return sketch.created, sketch.metadata.namespace, sketch.metadata.name, sketch.kind


def _lay_out(world: World, membership: Membership, population: Population, sketches: list[Sketch]) -> Nodes:
    """The nodes as columns, with a row for every resource that anybody has or wants."""
    facts = [_facts(node, membership.pool_of(node)) for node in world.nodes.values()]
    shapes = {pod.blueprint.shape for pod in population.pods.values()}
    shapes |= {blueprint.shape for sketch in sketches for blueprint in sketch.blueprints}
    resources = {name for node in facts for name in (*node.allocatable, *node.capacity)}
    return Nodes(facts, Layout(resources | {name for shape in shapes for name in shape.requests}))


def _facts(node: Node, pool: str) -> NodeFacts:
    return NodeFacts(
        name=node.metadata.name,
        pool=pool,
        allocatable=_offered(node.allocatable),
        capacity=_offered(node.status.capacity or node.allocatable),
        labels=node.metadata.labels,
        taints=node.spec.taints,
        ready=node.ready is None or node.ready.status == "True",
        unschedulable=node.spec.unschedulable,
    )


def _offered(amounts: Resources) -> dict[str, int]:
    return offered(in_nano(amounts))


def _limits(occupants: Iterable[Occupant], nodes: Nodes) -> Counter[str]:
    """What all pods on ready nodes may come to use; those that are alike are counted first."""
    ready = nodes.ready.tolist()
    pods = Counter(occupant.shape for occupant in occupants if ready[occupant.column])
    sums: Counter[str] = Counter()
    for shape, count in pods.items():
        sums.update({name: amount * count for name, amount in shape.limits.items()})
    return sums


def _is_unsettled(workload: Workload) -> bool:
    """Whether there is something to do for a workload, or something to say that may change."""
    if workload.held or workload.broken_since is not None:
        return True
    seated = [task.varying for task in workload.tasks if task.column != NOWHERE]
    return len(seated) < len(workload.tasks) or workload.done + sum(seated) < workload.minimum
