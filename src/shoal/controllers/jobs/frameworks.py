"""What training frameworks read from the environment of a pod: its place in the job, and rendezvous settings.

The variables come before those of the template, and only if the template does not set them: users always win.
docs/environment.md lists all of them. A pod keeps the values that it was created with; what changes when the
job is resized is in the host files (`controllers.jobs.host_files`), which the kubelet keeps up to date.

*Data-parallel* pods train one model together: all are equal, each computes gradients on its share of the
data. They get what torchrun (`PET_…`), `torch.distributed`, Accelerate and JAX read. Other pods do not:
a collector that finds `WORLD_SIZE` would wait for a process group that never forms.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from shoal.api.managed import ManagedMeta
from shoal.api.names import JOB_DIRECTORY
from shoal.api.podspec import Template, is_gpu
from shoal.api.quantity import NANO, Quantity
from shoal.cluster.resources import Object

DATA_PARALLEL: Final = "shoal.io/data-parallel"
"""Annotation of a pod template: `"true"` or `"false"`, whether its pods are data-parallel."""

DEFAULT_GRACE: Final = 30
"""Grace period in seconds of a pod that names none, as Kubernetes has it."""

_FIRST_PORT: Final = 10_000
_PORTS: Final = 12_000
"""Ports of process groups: below those of DI-engine, of NodePorts and of outgoing connections."""

_ELASTIC_RESTARTS: Final = 100
"""How often torchrun starts its processes again: each removal of a peer costs one."""
_RIGID_RESTARTS: Final = 3

_RENDEZVOUS_TIMEOUT: Final = 600
"""Seconds in which the first pod must listen: it may have to pull its image."""
_LAST_CALL: Final = 5
"""Seconds that torchrun waits for more peers once it has the minimum; later ones join by a resize."""


class ProcessGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The data-parallel pods of one role.

    `first_host` is the fully qualified host of index 0: the last one to be removed, and the rendezvous of the
    others. `size` is their number now; `minimum` and `maximum` are what it may become.
    """

    first_host: str
    size: int
    minimum: int
    maximum: int

    @property
    def is_rigid(self) -> bool:
        """Whether the size never changes."""
        return self.minimum == self.maximum == self.size


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a pod in its job: with role and index it is one of the job's slots.

    `restart` counts how often the slot was recreated; `group` is None for pods that are not data-parallel.
    """

    role: str
    index: int
    restart: int = 0
    group: ProcessGroup | None = None


def is_data_parallel(template: Template, *, default: bool) -> bool:
    """Return whether the pods of a template are data-parallel: as its annotation says, else as is usual."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return {"true": True, "false": False}.get(annotations.get(DATA_PARALLEL, ""), default)


def member_variables(job: ManagedMeta, member: Member, host: str, spec: Object) -> dict[str, str]:
    """Return the variables of a pod with a fully qualified host and a pod spec."""
    found = {
        "SHOAL_JOB": job.name,
        "SHOAL_ROLE": member.role,
        "SHOAL_INDEX": str(member.index),
        "SHOAL_RESTART": str(member.restart),
        "SHOAL_GRACE_SECONDS": str(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)),
        "SHOAL_HOSTFILE": f"{JOB_DIRECTORY}/{host_file_name(member.role)}",
    }
    return found | dict(_group_variables(job.uid, member, member.group, host, spec) if member.group else ())


def host_file_name(role: str) -> str:
    """Return the name of the host file of a role."""
    return f"hosts.{role}"


def process_port(uid: str) -> int:
    """Return the port of a job's process groups.

    It differs from job to job, since frameworks listen on all addresses of a machine, and in the embedded
    home all jobs share one.
    """
    digest = hashlib.blake2b(uid.encode(), digest_size=4).digest()
    return _FIRST_PORT + int.from_bytes(digest) % _PORTS


def processes_of(spec: Object) -> int:
    """Return how many processes a pod is to run: one for each of its GPUs, else one."""
    amounts = (container.get("resources") or {} for container in spec.get("containers") or ())
    merged = ((one.get("requests") or {}) | (one.get("limits") or {}) for one in amounts)
    gpus = (Quantity(n).nano // NANO for one in merged for resource, n in one.items() if is_gpu(resource))
    return max(sum(gpus), 1)


def _group_variables(
    uid: str, member: Member, group: ProcessGroup, host: str, spec: Object
) -> Iterator[tuple[str, str]]:
    port, processes, index = process_port(uid), processes_of(spec), str(member.index)
    yield "MASTER_ADDR", group.first_host
    yield "MASTER_PORT", str(port)
    yield "PET_NNODES", f"{max(group.minimum, 1)}:{max(group.maximum, group.size)}"
    yield "PET_NPROC_PER_NODE", str(processes)
    yield "PET_NODE_RANK", index
    yield "PET_RDZV_BACKEND", "c10d"
    yield "PET_RDZV_ENDPOINT", f"{group.first_host}:{port}"
    yield "PET_RDZV_ID", uid
    yield "PET_RDZV_CONF", _rendezvous_settings(is_host=member.index == 0)
    yield "PET_LOCAL_ADDR", host
    yield "PET_MAX_RESTARTS", str(_RIGID_RESTARTS if group.is_rigid else _ELASTIC_RESTARTS)
    # A store that torchrun shares with its processes is announced once: peers that come later wait for ever.
    yield "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"
    yield "JAX_COORDINATOR_ADDRESS", f"{group.first_host}:{port}"
    yield "JAX_NUM_PROCESSES", str(group.size)
    yield "JAX_PROCESS_ID", index
    if group.is_rigid and processes == 1:
        yield "RANK", index
        yield "WORLD_SIZE", str(group.size)
        yield "LOCAL_RANK", "0"


def _rendezvous_settings(*, is_host: bool) -> str:
    settings = {
        "is_host": str(is_host).lower(),
        "join_timeout": _RENDEZVOUS_TIMEOUT,
        "read_timeout": _RENDEZVOUS_TIMEOUT,
        "last_call_timeout": _LAST_CALL,
    }
    return ",".join(f"{name}={value}" for name, value in settings.items())
