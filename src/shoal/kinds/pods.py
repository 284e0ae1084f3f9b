"""Dooms: what a pod is told that must leave, in words that can be read back.

The words stand in the message of its DisruptionTarget condition. Whoever sends pods away may be stopped when
some of them have been told: what it had in mind is in the words, and whoever comes next goes on with it.

Pods as compact records: what the engine needs to know of each, and no more.
"""

import re
from sys import intern
from typing import Final

import msgspec

from shoal.api import registry
from shoal.api.batch import INDEX_KEY
from shoal.api.core import Pod, PodStatus
from shoal.api.meta import ObjectMeta, OwnerReference, Stamp, Time
from shoal.api.names import small_number
from shoal.kinds.pod_classes import PodClass, PodClassCache

DISRUPTION: Final = "DisruptionTarget"
"""The condition by which everybody knows that a pod does not fail: it is sent away."""

_WORDS: Final = re.compile(r"Shoal: (?P<reason>\w+)(?: with all of (?P<whole>\S+))?(?: for (?P<whom>\S+))?")


class EvictionRecord(msgspec.Struct, frozen=True):
    """Why a pod must leave, the workload that must leave with it, if any, and for whom, if for anybody."""

    reason: str
    whole: str = ""
    beneficiary: str = ""

    def __str__(self) -> str:
        whole = f" with all of {self.whole}" if self.whole else ""
        whom = f" for {self.beneficiary}" if self.beneficiary else ""
        return f"Shoal: {self.reason}{whole}{whom}"


def doom_in(message: str) -> EvictionRecord | None:
    """What a pod was told by us; None if the words are somebody else's."""
    found = _WORDS.fullmatch(message)
    return EvictionRecord(found["reason"], found["whole"] or "", found["whom"] or "") if found else None


BROKEN_SINCE = "shoal.io/broken-since"


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that exists, or is about to. Records that are equal tell the engine the same.

    One that was told to leave is `doomed` until it is deleted: whoever told it may have been stopped in
    between. It is leaving all the same.
    """

    namespace: str
    name: str
    pod_class: PodClass
    created: float
    uid: str = ""
    node: str = ""
    phase: str = "Pending"
    leaving: bool = False
    doomed: EvictionRecord | None = None
    nominated: str = ""
    owner: OwnerReference | None = None
    rank: int | None = None
    broken_since: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good: it takes no room any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def keeps_place(self) -> bool:
        """Whether its rank or index is taken: by a pod that has a node, or that need not run again."""
        has_node = bool(self.node) and not self.leaving and self.phase != "Failed"
        return has_node or self.phase == "Succeeded"


class PodTraits(msgspec.Struct, frozen=True, gc=False):
    """What follows from what a pod asks for, and from its labels and annotations."""

    pod_class: PodClass
    rank: int | None
    broken_since: float | None


def traits_of(pod: Pod, classes: PodClassCache) -> PodTraits:
    """What follows from what a pod asks for and what is written on it."""
    meta = pod.metadata
    pod_class = classes.of_pod_spec(meta.namespace, meta.labels, meta.annotations, pod.spec)
    return PodTraits(pod_class, _rank(meta), _time(meta.annotations.get(BROKEN_SINCE)))


def record_of(pod: Pod, classes: PodClassCache, now: float) -> PodRecord:
    """A pod as a record; one that does not say when it was made counts as made now."""
    return build_record(pod.metadata, pod.spec.node_name, pod.status, traits_of(pod, classes), now)


def build_record(stamp: Stamp, node: str, status: PodStatus, traits: PodTraits, now: float) -> PodRecord:
    """The record of a pod, of its parts. Words that many pods have in common are kept once."""
    deleted = stamp.deletion_timestamp is not None
    doomed = None if deleted else _doom(status)
    return PodRecord(
        namespace=intern(stamp.namespace),
        name=stamp.name,
        pod_class=traits.pod_class,
        created=created_at(stamp, now),
        uid=stamp.uid,
        node=intern(node),
        phase=intern(status.phase),
        leaving=deleted or doomed is not None,
        doomed=doomed,
        nominated=status.nominated_node_name,
        owner=controller_of(stamp),
        rank=traits.rank,
        broken_since=traits.broken_since,
    )


def _doom(status: PodStatus) -> EvictionRecord | None:
    """What a pod was told by us that must leave."""
    told = (doom_in(c.message) for c in status.conditions if c.type == DISRUPTION)
    return next((doom for doom in told if doom), None)


def created_at(meta: Stamp, now: float) -> float:
    """When an object was made, in seconds."""
    return now if meta.creation_timestamp is None else meta.creation_timestamp.timestamp()


def controller_of(meta: Stamp) -> OwnerReference | None:
    """Who controls an object."""
    possible = [ref for ref in meta.owner_references if ref.controller is not False]
    return next((ref for ref in possible if ref.controller), next(iter(possible), None))


def is_owned_by(pod: PodRecord, kind: str, meta: ObjectMeta) -> bool:
    """Whether an object of a kind made a pod; uids decide where both have one."""
    ref = pod.owner
    if ref is None or ref.kind != kind or ref.name != meta.name or pod.namespace != meta.namespace:
        return False
    return not ref.uid or not meta.uid or ref.uid == meta.uid


def _rank(meta: ObjectMeta) -> int | None:
    for label in _index_labels():
        text = meta.labels.get(label) or meta.annotations.get(label)
        if text:
            return small_number(text)
    return None


@registry.per_generation
def _index_labels() -> tuple[str, ...]:
    """Labels (or annotations) in which pods of any kind of job keep their rank or index."""
    return (*(type_.index_label for type_ in registry.types() if type_.index_label), INDEX_KEY)


def _time(text: str | None) -> float | None:
    try:
        return msgspec.convert(text, Time).timestamp() if text else None
    except msgspec.ValidationError:
        return None
