"""Loose pods and gangs of loose pods as workloads."""

from collections.abc import Iterable
from typing import Final

from shoal.api.meta import ObjectMeta
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import Slot, WorkloadSpec

_NOTHING: Final[dict[str, str]] = {}
"""Shared by the many pods without labels, annotations or nominations."""


def pod_spec(pod: PodRecord) -> WorkloadSpec:
    """A loose pod as a workload of its own."""
    return _spec("Pod", pod.name, [pod], 1)


def gang_spec(name: str, pods: Iterable[PodRecord]) -> WorkloadSpec:
    """A gang: pods that start together or not at all, in the order of their creation."""
    ordered = sorted(pods, key=lambda pod: (pod.created, pod.name))
    minimum = max(pod.pod_class.gang_min for pod in ordered) or len(ordered)
    return _spec("Gang", name, ordered, minimum)


def _spec(kind: str, name: str, pods: list[PodRecord], minimum: int) -> WorkloadSpec:
    first = pods[0]
    broken = [pod.broken_since for pod in pods if pod.broken_since is not None]
    return WorkloadSpec(
        kind=kind,
        metadata=ObjectMeta(name=name, namespace=first.namespace, labels=_NOTHING, annotations=_NOTHING),
        created=first.created,
        slots=tuple(
            Slot(name=pod.name, role="pod", pod_class=pod.pod_class, completed=pod.phase == "Succeeded")
            for pod in pods
        ),
        minimum=minimum,
        maximum=len(pods),
        nominations={pod.name: pod.nominated for pod in pods if pod.nominated} or _NOTHING,
        broken_since=min(broken, default=None),
    )
