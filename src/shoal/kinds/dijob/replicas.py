"""What the server tells and grants the workers of a DIJob: the addresses of its ranks, and another size."""

from collections.abc import Sequence
from typing import Final

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.managed import ManagedPod
from shoal.api.podspec import Template
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import CannotScaleError, ReplicaApi
from shoal.kinds.dijob.ranks import is_elastic, read_ranks
from shoal.kinds.dijob.types import ManagedDIJob

_PORT_NAME: Final = "di-port"
_DEFAULT_PORT: Final = 22270


def addresses(job: ManagedDIJob, pods: Sequence[ManagedPod], config: SchedulerConfig) -> tuple[str, ...]:
    """Return `ip:port` of each rank up to the highest wanted one; "" where no live pod has an address.

    `pods` are the job's own. Pods of ranks that are not wanted are left out.
    """
    ranks = read_ranks(job, pods, config)
    wanted = set(ranks.slots.wanted)
    template_port = _port(job.spec.template or {})
    task_ports = {task.title: _port(task.template) for task in job.spec.tasks}
    return tuple(
        _address(
            ranks.slots.pods.get(rank),
            task_ports[ranks.task_pods[rank].task.title] if ranks.task_pods else template_port,
        )
        if rank in wanted
        else ""
        for rank in range(max(wanted, default=-1) + 1)
    )


def _address(pod: ManagedPod | None, port: int) -> str:
    if pod is None or not pod.active or not pod.status.pod_ip:
        return ""
    ip = pod.status.pod_ip
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _port(template: Template) -> int:
    """Return the container port of the name that DI-engine uses, or the port that it has by default."""
    containers = (template.get("spec") or {}).get("containers") or ()
    ports = (port for container in containers for port in container.get("ports") or ())
    named = (port.get("containerPort") for port in ports if port.get("name") == _PORT_NAME)
    return next(named, None) or _DEFAULT_PORT


def requested_size(job: ManagedDIJob, change: int, config: SchedulerConfig) -> int:
    """Return the size to request when `change` replicas are added, or removed if it is negative."""
    name, spec, status = f"dijob/{job.metadata.name}", job.spec, job.status
    if status.phase in FINISHED_PHASES:
        raise CannotScaleError(f"{name} has finished ({status.phase}): create a new job")
    if job.metadata.deletion_timestamp is not None:
        raise CannotScaleError(f"{name} is being deleted: create a new job once it is gone")
    if spec.tasks:
        raise CannotScaleError(
            f"{name} has tasks: change spec.tasks[].replicas, for example with "
            f"`shoal scale {name} --role=TASK --replicas=N`"
        )
    if not is_elastic(job, config):
        why = "is not scheduled by Shoal" if spec.preemptible else "is not preemptible"
        raise CannotScaleError(f"{name} {why}: set its size with `shoal scale {name} --replicas=N`")
    base = status.requested_replicas if status.requested_replicas is not None else status.replicas
    before = spec.min_replicas if base is None else base
    size = before + change
    if size > spec.maximum:
        raise CannotScaleError(
            f"{name} would have {size} replicas, more than maxReplicas, {spec.maximum}: raise "
            f"spec.maxReplicas{_or_at_most('add', spec.maximum - before)}"
        )
    if size < spec.min_replicas:
        raise CannotScaleError(
            f"{name} would have {size} replicas, fewer than minReplicas, {spec.min_replicas}: lower "
            f"spec.minReplicas{_or_at_most('remove', before - spec.min_replicas)}"
        )
    return size


def _or_at_most(verb: str, number: int) -> str:
    return f", or {verb} at most {number}" if number > 0 else ""


REPLICA_API: Final = ReplicaApi(view=ManagedDIJob, addresses=addresses, requested_size=requested_size)
