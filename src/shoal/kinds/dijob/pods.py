"""The pods of a DIJob: names, hosts, labels, and the environment that a DI-engine worker reads."""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final

from shoal.api.managed import ManagedMeta
from shoal.api.podspec import Template
from shoal.cluster.resources import resource_of
from shoal.controllers.changes import Create
from shoal.controllers.jobs.frameworks import Member, ProcessGroup, is_data_parallel
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.names import dns_label, label_value, qualified_host
from shoal.controllers.jobs.pods import NewPod, create_pod
from shoal.controllers.jobs.slots import JobSlots
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import RANK_LABEL, SERVICE_PREFIX, TYPE
from shoal.kinds.dijob.ranks import GENERATION, Ranks
from shoal.kinds.dijob.types import DIJobSpec, ManagedDIJob

_FIRST_PORT: Final = 22270
_NO_HOST: Final = "?"
"""Stands for a rank that does not exist; no host name contains it."""

WORKER: Final = "worker"
"""The role of all pods in template form."""


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
        return f"{self._job.metadata.name}{self._suffix(rank)}"

    def _suffix(self, rank: int) -> str:
        slot = self._ranks.task_pods.get(rank)
        return slot.suffix if slot else f"-{self._generation}-{rank}"

    def create(self, rank: int, attempt: int, restart: int) -> Create:
        """Return the creation of the pod of a rank that was recreated `restart` times."""
        job = self._job
        new = NewPod(
            name=self.name(rank),
            host=self._host(rank),
            service=self._service,
            template=self._template(rank),
            member=self._member(rank, restart),
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
        meta = self._job.metadata
        return dns_label(meta.name, meta.uid, suffix=self._host_suffix(rank))

    def _address(self, rank: int) -> str:
        return qualified_host(self._host(rank), self._service, self._job.metadata.namespace)

    def _host_suffix(self, rank: int) -> str:
        slot = self._ranks.task_pods.get(rank)
        return slot.suffix if slot else f"-{rank}"

    def _labels(self, rank: int) -> Iterator[tuple[str, str]]:
        meta, slot = self._job.metadata, self._ranks.task_pods.get(rank)
        if self._job.spec.group:
            yield "diengine/group", self._job.spec.group
        yield "diengine/job", label_value(meta.name, meta.uid)
        yield "diengine/operator", "di-operator"
        yield RANK_LABEL, str(rank)
        yield "diengine/pod", label_value(meta.name, meta.uid, suffix=self._suffix(rank))
        if slot:
            yield "diengine/task-type", slot.task.type
            yield "diengine/task-name", slot.task.title

    # --- roles --------------------------------------------------------------------------------------------

    def roles(self) -> dict[str, RoleHosts]:
        """Return the hosts of each role: of the only one in template form, else of each task."""
        return {
            role: RoleHosts([self._hosts[rank] for rank in ranks], self._template(ranks[0]).get("spec") or {})
            for role, ranks in self._ranks_by_role.items()
        }

    @cached_property
    def _ranks_by_role(self) -> dict[str, list[int]]:
        """The ranks of each role, in the order of their indices."""
        if not self._ranks.task_pods:
            return {WORKER: list(self._ranks.slots.wanted)} if self._ranks.slots.wanted else {}
        found: dict[str, list[int]] = {}
        for rank, slot in sorted(self._ranks.task_pods.items(), key=lambda one: one[1].index):
            found.setdefault(slot.task.title, []).append(rank)
        return found

    def _template(self, rank: int) -> Template:
        slot = self._ranks.task_pods.get(rank)
        return slot.task.template if slot else self._job.spec.template or {}

    def _member(self, rank: int, restart: int) -> Member:
        slot = self._ranks.task_pods.get(rank)
        role, index = (slot.task.title, slot.index) if slot else (WORKER, rank)
        is_parallel = is_data_parallel(
            self._template(rank), default=slot is None or slot.task.type == "learner"
        )
        group = self._group(role) if is_parallel else None
        return Member(role=role, index=index, restart=restart, group=group)

    def _group(self, role: str) -> ProcessGroup:
        spec, ranks = self._job.spec, self._ranks_by_role[role]
        size, first = len(ranks), ranks[0] if spec.tasks else 0
        least, most = (size, size) if spec.tasks else (spec.min_replicas, spec.maximum)
        return ProcessGroup(
            first_host=self._hosts.get(first) or self._address(first), size=size, minimum=least, maximum=most
        )

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
        return self._all_nodes.replace(_NO_HOST, self._hosts[rank])

    @cached_property
    def _hosts(self) -> dict[int, str]:
        """The qualified host of each wanted rank."""
        meta, wanted = self._job.metadata, self._ranks.slots.wanted
        suffixes = tuple(map(self._host_suffix, wanted))
        hosts = _qualified_hosts(meta.name, meta.uid, meta.namespace, self._service, suffixes)
        return dict(zip(wanted, hosts, strict=True))

    @cached_property
    def _all_nodes(self) -> str:
        """The hosts of all ranks up to the highest; computed once, as there may be thousands of each."""
        hosts = self._hosts
        return ",".join(hosts.get(rank, _NO_HOST) for rank in range(max(hosts) + 1))

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


@lru_cache(maxsize=128)
def _qualified_hosts(
    job: str, uid: str, namespace: str, service: str, suffixes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the hosts of a job, which are the same in nearly all reconciles."""
    return tuple(qualified_host(dns_label(job, uid, suffix=one), service, namespace) for one in suffixes)


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
