"""PodRecord: a pod as a compact record of what the engine needs to know."""

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
    """A pod that exists, or is still to be created. Equal records mean the same to the engine.

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
        """Unique key: namespace and name."""
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        """Whether the pod has ended: it occupies no room any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def keeps_place(self) -> bool:
        """Whether the pod keeps its rank or index: it has a node, or has succeeded."""
        has_node = bool(self.node) and not self.leaving and self.phase != "Failed"
        return has_node or self.phase == "Succeeded"


class PodTraits(msgspec.Struct, frozen=True, gc=False):
    """What follows from the spec, the labels and the annotations of a pod."""

    pod_class: PodClass
    rank: int | None
    broken_since: float | None


def traits_of(pod: Pod, classes: PodClassCache) -> PodTraits:
    """Compute what follows from the spec, the labels and the annotations of a pod."""
    meta = pod.metadata
    pod_class = classes.of_pod_spec(meta.namespace, meta.labels, meta.annotations, pod.spec)
    return PodTraits(pod_class, _rank(meta), _time(meta.annotations.get(BROKEN_SINCE)))


def record_of(pod: Pod, classes: PodClassCache, now: float) -> PodRecord:
    """The record of a pod; without creationTimestamp it counts as created now."""
    return build_record(pod.metadata, pod.spec.node_name, pod.status, traits_of(pod, classes), now)


def build_record(stamp: Stamp, node: str, status: PodStatus, traits: PodTraits, now: float) -> PodRecord:
    """The record of a pod from its parts. Strings that many pods share are interned."""
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
    """Creation time in seconds since 1970."""
    return now if meta.creation_timestamp is None else meta.creation_timestamp.timestamp()


def controller_of(meta: Stamp) -> OwnerReference | None:
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
