"""The pods of a DIJob: names, hosts, labels, and the environment that a DI-engine worker reads."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from shoal.api.managed import ManagedMeta
from shoal.cluster.resources import resource_of
from shoal.controllers.changes import Create
from shoal.controllers.jobs.names import dns_label, label_value, qualified_host
from shoal.controllers.jobs.pods import NewPod, create_pod
from shoal.controllers.jobs.slots import JobSlots
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import RANK_LABEL, SERVICE_PREFIX, TYPE
from shoal.kinds.dijob.ranks import GENERATION, Ranks
from shoal.kinds.dijob.types import DIJobSpec, ManagedDIJob

_FIRST_PORT: Final = 22270


def service_name(job: ManagedMeta) -> str:
    """Return the name of a job's headless service."""
    return dns_label(job.name, job.uid, prefix=SERVICE_PREFIX)


class PodBuilder:
    """Builds the pods of a job in one generation; what is the same for all of them is computed once."""

    def __init__(self, job: ManagedDIJob, ranks: Ranks, generation: int, config: SchedulerConfig) -> None:
        """`generation` is the one of the new pods."""
        self._job, self._ranks, self._generation, self._config = job, ranks, generation, config
        self._service: Final = service_name(job.metadata)

    def name(self, rank: int) -> str:
        """Return the name of the pod of a rank."""
        slot, job = self._ranks.task_pods.get(rank), self._job.metadata.name
        return f"{job}{slot.suffix}" if slot else f"{job}-{self._generation}-{rank}"

    def create(self, rank: int, attempt: int) -> Create:
        """Return the creation of the pod of a rank."""
        job, slot = self._job, self._ranks.task_pods.get(rank)
        new = NewPod(
            name=self.name(rank),
            host=self._host(rank),
            service=self._service,
            template=slot.task.template if slot else job.spec.template or {},
            labels=dict(self._labels(rank)),
            annotations={
                GENERATION: str(self._generation),
                "diengine/replicas": str(len(self._ranks.slots.wanted)),
                RANK_LABEL: str(rank),
                "diengine/node": self._allocated_node(rank),
            },
            env=tuple(self._environment(rank)),
            attempt=attempt,
            volumes=job.spec.volumes,
        )
        return create_pod(resource_of(TYPE.kind), job.metadata, new, self._config)

    def _allocated_node(self, rank: int) -> str:
        nodes = self._job.status.allocation if self._ranks.is_elastic else ()
        return nodes[rank] if rank < len(nodes) else ""

    def _host(self, rank: int) -> str:
        slot, meta = self._ranks.task_pods.get(rank), self._job.metadata
        return dns_label(meta.name, meta.uid, suffix=slot.suffix if slot else f"-{rank}")

    def _address(self, rank: int) -> str:
        return qualified_host(self._host(rank), self._service, self._job.metadata.namespace)

    def _labels(self, rank: int) -> Iterator[tuple[str, str]]:
        meta, slot = self._job.metadata, self._ranks.task_pods.get(rank)
        if self._job.spec.group:
            yield "diengine/group", self._job.spec.group
        yield "diengine/job", label_value(meta.name, meta.uid)
        yield "diengine/operator", "di-operator"
        yield RANK_LABEL, str(rank)
        yield "diengine/pod", label_value(self.name(rank), meta.uid)
        if slot:
            yield "diengine/task-type", slot.task.type
            yield "diengine/task-name", slot.task.title

    # --- environment --------------------------------------------------------------------------------------

    def _environment(self, rank: int) -> Iterator[tuple[str, str]]:
        meta, engine = self._job.metadata, self._job.spec.engine_fields
        workers = range(engine.parallel_workers)
        yield "DI_JOB_ID", f"{meta.namespace}.{meta.name}.{self._generation}"
        yield "DI_JOB_NAMESPACE", meta.namespace
        yield "DI_JOB_NAME", meta.name
        yield "DI_JOB_GENERATION", str(self._generation)
        yield "DI_RANK", str(rank)
        yield "DI_NODES", self._nodes(rank)
        yield from self._task_nodes
        yield "DI_PARALLEL_WORKERS_ARG", f"--parallel-workers={engine.parallel_workers}"
        yield "DI_PORTS_ARG", f"--ports={','.join(str(_FIRST_PORT + i) for i in workers)}"
        node_ids = ",".join(str(i + engine.parallel_workers * rank) for i in workers)
        yield "DI_NODE_IDS_ARG", f"--node-ids={node_ids}"
        attached = ",".join(self._attached_addresses(rank))
        yield "DI_ATTACHED_NODES_ARG", f"--attach-to={attached}" if attached else ""

    def _nodes(self, rank: int) -> str:
        """Return the host of each rank. A rank that does not exist has the pod's own: it must resolve."""
        if self._all_nodes is not None:
            return self._all_nodes
        own = self._address(rank)
        hosts = self._hosts
        return ",".join(hosts.get(one, own) for one in range(max(hosts) + 1))

    @cached_property
    def _hosts(self) -> dict[int, str]:
        return {rank: self._address(rank) for rank in self._ranks.slots.wanted}

    @cached_property
    def _all_nodes(self) -> str | None:
        """The hosts of all ranks; None if there are holes between them."""
        hosts = self._hosts
        return ",".join(hosts[rank] for rank in sorted(hosts)) if max(hosts) < len(hosts) else None

    @cached_property
    def _task_nodes(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (
                f"DI_{task.title.upper().replace('-', '_')}_NODES",
                ",".join(
                    self._hosts[rank]
                    for rank, slot in sorted(self._ranks.task_pods.items(), key=lambda one: one[1].index)
                    if slot.task is task
                ),
            )
            for task in self._job.spec.tasks
        )

    def _attached_addresses(self, rank: int) -> Iterator[str]:
        engine = self._job.spec.engine_fields
        ports = [_FIRST_PORT + i for i in range(engine.parallel_workers)]
        for lower in attached_ranks(self._job.spec, self._ranks.slots, rank):
            for port in ports[:1] if engine.topology == "star" else ports:
                yield f"tcp://{self._hosts[lower]}:{port}"


def attached_ranks(spec: DIJobSpec, slots: JobSlots[int], rank: int) -> Iterator[int]:
    """Yield the ranks that a rank attaches to; those that have completed do not listen any more."""
    match spec.engine_fields.topology:
        case "alone":
            return
        case "star":
            lower = slots.wanted[:1] if slots.wanted[:1] == (0,) and rank > 0 else ()
        case "mesh":
            lower = tuple(one for one in slots.wanted if one < rank)
    yield from (one for one in lower if one not in slots.completed)
