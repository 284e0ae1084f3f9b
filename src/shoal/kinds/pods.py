"""PodRecord: a pod as a compact record of what the engine needs to know."""

from collections.abc import Mapping
from sys import intern
from typing import Final

import msgspec

from shoal.api import registry
from shoal.api.conditions import FINISHED_PHASES
from shoal.api.core import INDEX_KEY, Pod, PodStatus
from shoal.api.disruption import DISRUPTION, was_asked_first
from shoal.api.meta import ObjectMeta, OwnerReference, PartialObjectMeta, Time
from shoal.api.names import parse_small_int
from shoal.kinds.pod_classes import PodClass, PodClassCache

EVICTION: Final = "shoal.io/eviction"
"""Annotation with the EvictionRecord of a pod, written together with its DisruptionTarget condition."""

BROKEN_SINCE: Final = "shoal.io/broken-since"


class EvictionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a pod is evicted, in favour of which workload, and the workload that is evicted as a whole, if any.

    It is stored in an annotation, so that an eviction continues if the scheduler is stopped between two
    writes.
    """

    reason: str
    whole: str = ""
    beneficiary: str = ""

    def __str__(self) -> str:
        """The message of the DisruptionTarget condition, for people."""
        whole = f" with all of {self.whole}" if self.whole else ""
        beneficiary = f" for {self.beneficiary}" if self.beneficiary else ""
        return f"Shoal: {self.reason}{whole}{beneficiary}"

    def annotation(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self).decode()


def eviction_in(annotations: Mapping[str, str]) -> EvictionRecord | None:
    """The eviction record in the annotations of a pod; None if there is none, or no valid one."""
    try:
        return msgspec.json.decode(annotations.get(EVICTION, ""), type=EvictionRecord)
    except msgspec.DecodeError:
        return None


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that exists, or is still to be created. Equal records mean the same to the engine.

    `leaving`: it is terminating, or is being evicted. `eviction` is set while its deletion is still to be
    requested: the scheduler may have been stopped before that write. `succeeded`: it has ended well, and was
    not asked to stop before.
    """

    namespace: str
    name: str
    pod_class: PodClass
    created: float
    uid: str = ""
    node: str = ""
    phase: str = "Pending"
    succeeded: bool = False
    leaving: bool = False
    eviction: EvictionRecord | None = None
    nominated: str = ""
    owner: OwnerReference | None = None
    rank: int | None = None
    broken_since: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Unique key: namespace and name."""
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        """Whether the pod has ended: it occupies no room any more."""
        return self.phase in FINISHED_PHASES

    @property
    def live(self) -> bool:
        """Whether the pod has not ended, and is not terminating."""
        return not self.leaving and not self.finished

    @property
    def keeps_place(self) -> bool:
        """Whether the pod keeps its rank or index: it has a node, or has succeeded."""
        return self.succeeded or (self.live and bool(self.node))


class PodTraits(msgspec.Struct, frozen=True, gc=False):
    """What follows from the spec, the labels and the annotations of a pod."""

    pod_class: PodClass
    rank: int | None
    broken_since: float | None
    eviction: EvictionRecord | None


def traits_of(pod: Pod, classes: PodClassCache) -> PodTraits:
    """Compute what follows from the spec, the labels and the annotations of a pod."""
    meta = pod.metadata
    pod_class = classes.of_pod_spec(meta.namespace, meta.labels, meta.annotations, pod.spec)
    broken = _time(meta.annotations.get(BROKEN_SINCE))
    return PodTraits(pod_class, _rank(meta), broken, eviction_in(meta.annotations))


def record_of(pod: Pod, classes: PodClassCache, now: float) -> PodRecord:
    """The record of a pod; without creationTimestamp it counts as created now."""
    return build_record(pod.metadata, pod.spec.node_name, pod.status, traits_of(pod, classes), now)


def build_record(
    stamp: PartialObjectMeta, node: str, status: PodStatus, traits: PodTraits, now: float
) -> PodRecord:
    """The record of a pod from its parts. Strings that many pods share are interned."""
    deleted = stamp.deletion_timestamp is not None
    eviction = traits.eviction if not deleted and _is_disrupted(status) else None
    return PodRecord(
        namespace=intern(stamp.namespace),
        name=stamp.name,
        pod_class=traits.pod_class,
        created=created_at(stamp, now),
        uid=stamp.uid,
        node=intern(node),
        phase=intern(status.phase),
        succeeded=status.phase == "Succeeded"
        and not was_asked_first(stamp, status.conditions, status.container_statuses),
        leaving=deleted or eviction is not None,
        eviction=eviction,
        nominated=status.nominated_node_name,
        owner=controller_of(stamp),
        rank=traits.rank,
        broken_since=traits.broken_since,
    )


def _is_disrupted(status: PodStatus) -> bool:
    """Whether the eviction was requested. An annotation alone may be the copy of another pod's."""
    return any(condition.type == DISRUPTION and condition.status == "True" for condition in status.conditions)


def created_at(meta: PartialObjectMeta, now: float) -> float:
    """Creation time in seconds since 1970."""
    return now if meta.creation_timestamp is None else meta.creation_timestamp.timestamp()


def controller_of(meta: PartialObjectMeta) -> OwnerReference | None:
    """The controller owner reference of an object; else its first owner reference."""
    possible = [ref for ref in meta.owner_references if ref.controller is not False]
    return next((ref for ref in possible if ref.controller), next(iter(possible), None))


def is_owned_by(pod: PodRecord, kind: str, meta: ObjectMeta) -> bool:
    """Whether an object controls a pod; uids decide where both have one."""
    ref = pod.owner
    if ref is None or ref.kind != kind or ref.name != meta.name or pod.namespace != meta.namespace:
        return False
    return not ref.uid or not meta.uid or ref.uid == meta.uid


def _rank(meta: ObjectMeta) -> int | None:
    for label in _index_labels():
        text = meta.labels.get(label) or meta.annotations.get(label)
        if text:
            return parse_small_int(text)
    return None


@registry.cached_by_kinds
def _index_labels() -> tuple[str, ...]:
    """Labels (or annotations) in which pods of any kind of job keep their rank or index."""
    return (*(type_.index_label for type_ in registry.types() if type_.index_label), INDEX_KEY)


def _time(text: str | None) -> float | None:
    try:
        return msgspec.convert(text, Time).timestamp() if text else None
    except msgspec.ValidationError:
        return None
