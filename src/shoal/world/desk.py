"""Desk: where a Sketch becomes a Workload, once it is known which pods there are and where."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from shoal.api.meta import ObjectMeta
from shoal.api.pool import POOL_ANNOTATION
from shoal.scheduling.config import FULFILMENT, SchedulerConfig
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Nodes
from shoal.scheduling.reasons import Reason
from shoal.scheduling.workload import NOWHERE, Growth, Task, Workload
from shoal.world.elastic import growth_of
from shoal.world.membership import Membership
from shoal.world.pods import PodRecord
from shoal.world.population import Population
from shoal.world.sketch import Sketch
from shoal.world.slots import Slot
from shoal.world.world import Key, World


class Desk:
    """Makes workloads, and notes the pod behind each task and the room it takes."""

    def __init__(
        self,
        world: World,
        config: SchedulerConfig,
        population: Population,
        membership: Membership,
        nodes: Nodes,
    ) -> None:
        """Seat every pod that has a node."""
        self._world, self._config, self._population = world, config, population
        self._membership, self._nodes = membership, nodes
        self.origins: dict[Task, PodRecord] = {}
        self.sketches: dict[Workload, Sketch] = {}
        self._claims: dict[Key, Sketch] = {}
        seated = [pod for pod in population.pods.values() if pod.node and not pod.finished]
        self.occupants = [self._occupant(pod) for pod in seated]
        self.strangers = [
            occupant
            for pod, occupant in zip(seated, self.occupants, strict=True)
            if not population.is_ours(pod)
        ]

    def workload(self, sketch: Sketch) -> Workload | None:
        """The workload of a sketch; None when all its pods are left to another scheduler."""
        slots = [slot for slot in sketch.slots if self._is_ours(slot)]
        if sketch.slots and not slots:
            return None
        pods = self._pods_of(sketch)
        ended = {name for name, pod in pods.items() if pod.phase == "Succeeded"}
        done = [slot for slot in slots if slot.name in ended]
        wanted = [slot for slot in slots if slot.name not in ended]
        tasks = [self._task(sketch, slot, pods.get(slot.name)) for slot in wanted]
        minimum, ended_ones = _minimum(sketch, slots), sum(slot.varying for slot in done)
        if sketch.elastic:
            tasks = _present(tasks, minimum - ended_ones)
        meta = sketch.metadata
        pool, remarks = self._membership.home(
            self._pool_name(sketch), meta.namespace, self._namespace_labels(meta)
        )
        made = Workload(
            kind=sketch.kind,
            namespace=meta.namespace,
            name=meta.name,
            pool=pool,
            created=sketch.created,
            tasks=tuple(tasks),
            minimum=minimum,
            maximum=sketch.maximum,
            done=ended_ones,
            growth=self._growth(sketch, [*tasks, *done], pods),
            optimistic=sketch.optimistic,
            priority=self._priority(sketch),
            own_priority=sketch.own_priority,
            queue_policy=sketch.queue_policy,
            placement=sketch.placement,
            may_borrow=sketch.may_borrow,
            evictable=sketch.evictable,
            makes_room=self._makes_room(sketch),
            held=sketch.held or self._held(sketch, wanted, pods),
            remarks=remarks,
            broken_since=sketch.broken_since,
        )
        self.sketches[made] = sketch
        return made

    def _growth(
        self, sketch: Sketch, taken: list[Task | Slot], pods: Mapping[str, PodRecord]
    ) -> Growth | None:
        """How a workload is resized; new pods get names that nobody has or claims."""
        if sketch.elastic is None:
            return None

        def is_free(name: str) -> bool:
            key = sketch.metadata.namespace, name
            unclaimed = key not in self._population.pods and self._claims.get(key, sketch) is sketch
            return name in pods or unclaimed

        growth = growth_of(sketch.elastic, taken, is_free)
        prefix = sketch.elastic.row.prefix
        settled = not any(pod.leaving and pod.name.startswith(prefix) for pod in pods.values())
        advised = sketch.kind == "DIJob" and self._config.elastic_policy != FULFILMENT
        return replace(growth, settled=settled, advised=advised)

    def _is_ours(self, slot: Slot) -> bool:
        """Whether a pod is ours to place; a template that names no scheduler is left to us."""
        scheduler = slot.blueprint.scheduler
        return not scheduler or self._config.schedules(scheduler)

    def _pods_of(self, sketch: Sketch) -> dict[str, PodRecord]:
        """The pods that exist of a sketch, by name."""
        if sketch.kind in self._world.jobs:
            return {pod.name: pod for pod in self._population.of(sketch.kind, sketch.metadata)}
        pods, namespace = self._population.pods, sketch.metadata.namespace
        return {slot.name: pods[namespace, slot.name] for slot in sketch.slots}

    def _task(self, sketch: Sketch, slot: Slot, pod: PodRecord | None) -> Task:
        if pod is None or pod.finished:
            pod = sketch.pod(slot.name, slot.blueprint, slot.number)
        task = Task(
            name=slot.name,
            role=slot.role,
            shape=pod.blueprint.shape,
            identity=pod.blueprint.identity,
            varying=slot.varying,
            leads=slot.leads,
            follows=slot.follows,
            number=slot.number,
            column=self._column(sketch, pod),
            nominated=self._nodes.columns.get(sketch.nominations.get(slot.name, ""), NOWHERE),
        )
        self.origins[task] = pod
        return task

    def _column(self, sketch: Sketch, pod: PodRecord) -> int:
        """Where a pod is, or where its job's allocation wants it; in that case its room is taken already."""
        if pod.leaving:
            return NOWHERE
        if pod.node:
            return self._nodes.columns[pod.node]
        node = sketch.allocations.get(pod.name, "")
        column = self._nodes.columns[node] if node in self._population.alive else NOWHERE
        if column != NOWHERE:
            self.occupants.append(Occupant(column, pod.blueprint.shape, pod.blueprint.identity))
        return column

    def _occupant(self, pod: PodRecord) -> Occupant:
        blueprint = pod.blueprint
        return Occupant(self._nodes.columns[pod.node], blueprint.shape, blueprint.identity, pod.leaving)

    def _pool_name(self, sketch: Sketch) -> str:
        """The pool that a job names, or its pods, or the batch Job that made them, or its namespace."""
        meta = sketch.metadata
        namespace = self._world.namespaces.get(meta.namespace)
        return (
            meta.annotations.get(POOL_ANNOTATION)
            or next((blueprint.pool for blueprint in sketch.blueprints if blueprint.pool), "")
            or next(self._pools_of_batch_jobs(sketch), "")
            or (namespace.metadata.annotations.get(POOL_ANNOTATION, "") if namespace else "")
        )

    def _pools_of_batch_jobs(self, sketch: Sketch) -> Iterator[str]:
        if sketch.kind in self._world.jobs:
            return
        for pod in self._pods_of(sketch).values():
            if pod.owner and pod.owner.kind == "Job":
                job = self._world.batch_jobs.get((pod.namespace, pod.owner.name))
                if job and POOL_ANNOTATION in job.metadata.annotations:
                    yield job.metadata.annotations[POOL_ANNOTATION]

    def _namespace_labels(self, meta: ObjectMeta) -> dict[str, str]:
        namespace = self._world.namespaces.get(meta.namespace)
        return namespace.metadata.labels if namespace else {}

    def _priority(self, sketch: Sketch) -> int:
        """The value of the class that a job has; what its pods say of it goes first; else the default."""
        named = _class_of(sketch)
        said = (blueprint.priority for blueprint in sketch.blueprints if blueprint.priority_class == named)
        value = next((priority for priority in said if priority is not None), None)
        if value is not None:
            return value
        return (self._world.priority_of(named) or 0) if named else self._world.default_priority

    def _makes_room(self, sketch: Sketch) -> bool:
        """Whether others may have to leave for a job: not if its class, or a pod of its, says Never."""
        if any(blueprint.patient for blueprint in sketch.blueprints):
            return False
        return not self._world.is_patient(_class_of(sketch))

    def _held(self, sketch: Sketch, slots: list[Slot], pods: dict[str, PodRecord]) -> Reason | None:
        """Why a workload must not be placed now, whatever room there is."""
        namespace = sketch.metadata.namespace
        for slot in slots:
            if slot.name not in pods and not self._claim((namespace, slot.name), sketch):
                return Reason("NameTaken", f"the pod {namespace}/{slot.name} belongs to somebody else")
            if slot.blueprint.held:
                return slot.blueprint.held
        return None

    def _claim(self, name: Key, sketch: Sketch) -> bool:
        """Whether a pod of that name may be made: nobody else has one, and no sketch before wants one."""
        return name not in self._population.pods and self._claims.setdefault(name, sketch) is sketch


def _class_of(sketch: Sketch) -> str:
    """The PriorityClass that a job names, or the first of its pods that names one."""
    named = (blueprint.priority_class for blueprint in sketch.blueprints)
    return sketch.priority_class or next(filter(None, named), "")


def _minimum(sketch: Sketch, slots: list[Slot]) -> int:
    """The minimum, as far as its pods are ours to place."""
    if len(slots) == len(sketch.slots):
        return sketch.minimum
    return min(sketch.minimum, sum(slot.varying for slot in slots))


def _present(tasks: list[Task], least: int) -> list[Task]:
    """Tasks of an elastic workload: those with nodes, those its minimum lacks, or else the promised ones."""
    lacking = max(least - sum(task.varying and task.column != NOWHERE for task in tasks), 0)
    missing = [task for task in tasks if task.varying and task.column == NOWHERE]
    promised = [task for task in missing if task.nominated != NOWHERE]
    wanted = set(missing[:lacking] if lacking else promised)
    return [task for task in tasks if not task.varying or task.column != NOWHERE or task in wanted]
