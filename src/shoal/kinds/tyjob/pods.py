"""The pods of a TYJob: names, hosts, labels, and the environment that leader and workers read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from shoal.api.managed import ManagedMeta
from shoal.api.podspec import Template
from shoal.cluster.resources import resource_of
from shoal.controllers.changes import Create
from shoal.controllers.jobs.frameworks import Member, ProcessGroup, is_data_parallel
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.names import dns_label, label_value, qualified_host
from shoal.controllers.jobs.pods import NewPod, create_pod, is_ours
from shoal.engine.config import SchedulerConfig
from shoal.kinds.tyjob import SERVICE_PREFIX, TYPE
from shoal.kinds.tyjob.slots import TYSlot, leader_slot, worker_slots
from shoal.kinds.tyjob.types import ManagedTYJob


def service_name(job: ManagedMeta) -> str:
    """Return the name of a job's headless service."""
    return dns_label(job.name, job.uid, prefix=SERVICE_PREFIX)


class PodBuilder:
    """Builds the pods of a job; what is the same for all of them is computed once."""

    def __init__(self, job: ManagedTYJob, config: SchedulerConfig) -> None:
        self._job, self._config = job, config
        self._service: Final = service_name(job.metadata)

    def name(self, slot: TYSlot) -> str:
        """Return the name of the pod of a slot."""
        return f"{self._job.metadata.name}-{slot.name}"

    @property
    def leader_address(self) -> str:
        """The name by which workers find the leader, on whichever node it runs."""
        return self._address(leader_slot(self._job.spec))

    def is_ours(self, slot: TYSlot) -> bool:
        """Return whether Shoal schedules the pod of a slot."""
        return is_ours(self._templates[slot.member], self._config)

    def roles(self, slots: Iterable[TYSlot]) -> dict[str, RoleHosts]:
        """Return the hosts of the leader and of each worker set that has one of some slots."""
        hosts = defaultdict[str, list[str]](list)
        for slot in slots:
            hosts[slot.member].append(self._address(slot))
        return {
            member: RoleHosts(found, self._templates[member].get("spec") or {})
            for member, found in hosts.items()
        }

    def create(self, slot: TYSlot, attempt: int, restart: int, leader_ip: str) -> Create:
        """Return the creation of the pod of a slot.

        `restart` counts its failures; `leader_ip` is the address of the leader now, or "".
        """
        job = self._job
        new = NewPod(
            name=self.name(slot),
            host=self._host(slot),
            service=self._service,
            template=self._templates[slot.member],
            labels=dict(self._labels(slot)),
            annotations={},
            env=tuple(self._environment(slot, leader_ip)),
            attempt=attempt,
            volumes=job.spec.volumes,
            member=self._member(slot, restart),
        )
        return create_pod(resource_of(TYPE.kind), job.metadata, new, self._config)

    def _host(self, slot: TYSlot) -> str:
        return dns_label(self._job.metadata.name, self._job.metadata.uid, suffix=f"-{slot.name}")

    def _address(self, slot: TYSlot) -> str:
        return qualified_host(self._host(slot), self._service, self._job.metadata.namespace)

    def _member(self, slot: TYSlot, restart: int) -> Member:
        is_parallel = is_data_parallel(self._templates[slot.member], default=False)
        group = self._group(slot) if is_parallel else None
        return Member(role=slot.member, index=slot.number, restart=restart, group=group)

    def _group(self, slot: TYSlot) -> ProcessGroup:
        """Return the process group of a worker set: at least what the others leave of the job's minimum."""
        spec = self._job.spec
        size = next((one.counts for one in spec.worker_sets if one.name == slot.member), 1)
        is_gang = spec.scheduler_policy.basic_policy == "Gang"
        least = spec.workers if is_gang else spec.min_workers_num
        return ProcessGroup(
            first_host=self._address(slot._replace(number=0)),
            size=size,
            minimum=min(size, max(least - (spec.workers - size), 1)),
            maximum=size,
        )

    def _labels(self, slot: TYSlot) -> Iterator[tuple[str, str]]:
        yield "tyrl.io/job", label_value(self._job.metadata.name, self._job.metadata.uid)
        yield "tyrl.io/role", slot.role
        yield "tyrl.io/worker-set", "" if slot.role == "leader" else slot.member
        yield "tyrl.io/index", str(slot.number)

    def _environment(self, slot: TYSlot, leader_ip: str) -> Iterator[tuple[str, str]]:
        meta, spec = self._job.metadata, self._job.spec
        is_leader = slot.role == "leader"
        yield "TYJOB_NAME", meta.name
        yield "TYJOB_NAMESPACE", meta.namespace
        yield "TYJOB_ROLE", slot.role
        yield "TYJOB_WORKER_SET", "" if is_leader else slot.member
        yield "TYJOB_INDEX", str(slot.number)
        yield "TYJOB_RANK", "" if is_leader else str(self._ranks[slot])
        yield "TYJOB_WORKERS", str(spec.workers)
        yield "LEADER_NAME", spec.leader.name
        yield "LEADER_ADDRESS", self.leader_address
        yield "LEADER_IP", "" if is_leader else leader_ip

    @cached_property
    def _templates(self) -> Mapping[str, Template]:
        spec = self._job.spec
        return {spec.leader.name: spec.leader.template} | {one.name: one.template for one in spec.worker_sets}

    @cached_property
    def _ranks(self) -> Mapping[TYSlot, int]:
        return {slot: rank for rank, slot in enumerate(worker_slots(self._job.spec))}
