"""Assumptions: what was decided counts at once, until the cluster tells of it or it is known to have failed.

A scheduler that has just bound a pod must not offer its room again, although the watch says for a while that
the pod has no node. So whatever is told of an object is seen through the assumptions about it, and each of
them ends

- when it is *answered*: what is told says so, or says otherwise, or is about another object of that name. A
  pod gets a node once and begins to leave once, so being told of neither is no answer, it is just old news. A
  job's status can be written again and again: there an answer is whatever is told with the version of the
  write, or a later one (`written` says which that is, as soon as it is known);
- when its object is gone;
- when it is *forgotten*, because the write has failed.

There is no time after which an assumption ends by itself: whoever makes a write learns how it went, and a
watch that has stopped is no reason to give the same room away twice.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shoal.cache.changes import Key
from shoal.kinds.pods import PodRecord

_NEVER: Final = 0
"""The version of what no watch has told; all others are greater."""


class Assumption(msgspec.Struct, eq=False, kw_only=True):
    """One decision about one object."""

    kind: str
    key: Key
    change: Callable[[Any], Any]
    """What the object becomes by it."""
    is_answered: Callable[[Any, int], bool]
    """Whether it has an answer in what is told, and its version."""


class _Told(msgspec.Struct, frozen=True):
    """What was told last of an object."""

    thing: Any
    version: int


class Assumptions:
    """All decisions that have no answer yet, and what was told of the objects that they are about."""

    def __init__(self) -> None:
        """Assume nothing."""
        self._made: dict[Hashable, list[Assumption]] = {}
        self._told: dict[Hashable, _Told] = {}

    def __len__(self) -> int:
        return sum(map(len, self._made.values()))

    def seen(self, kind: str, key: Key, thing: Any, version: int = _NEVER) -> Any:  # noqa: ANN401 - of any kind
        """What to make of an object that is told of: with what is assumed about it."""
        if (kind, key) not in self._made:
            return thing
        self._told[kind, key] = _Told(thing, version)
        return self._with_assumptions(kind, key)

    def make(self, assumption: Assumption, thing: Any) -> Any:  # noqa: ANN401
        """Assume something about an object as it was seen last: what it is now."""
        place = assumption.kind, assumption.key
        self._told.setdefault(place, _Told(thing, _NEVER))
        self._made.setdefault(place, []).append(assumption)
        return self._with_assumptions(*place)

    def review(self, assumption: Assumption, *, forget: bool = False) -> Any | None:  # noqa: ANN401
        """What an object is now that more is known of an assumption; None if that had ended before."""
        place = assumption.kind, assumption.key
        if assumption not in self._made.get(place, ()):
            return None
        if forget:
            self._made[place].remove(assumption)
        return self._with_assumptions(*place)

    def drop(self, kind: str, key: Key) -> None:
        """Assume nothing more about an object that is gone."""
        self._made.pop((kind, key), None)
        self._told.pop((kind, key), None)

    def _with_assumptions(self, kind: str, key: Key) -> Any:  # noqa: ANN401
        told, place = self._told[kind, key], (kind, key)
        left = [one for one in self._made[place] if not one.is_answered(told.thing, told.version)]
        self._made[place], thing = left, told.thing
        for one in left:
            thing = one.change(thing)
        if not left:
            self.drop(kind, key)
        return thing


def bound(pod: PodRecord, node: str) -> Assumption:
    """A pod gets a node."""

    def is_answered(told: PodRecord, _: int) -> bool:
        return bool(told.node) or told.leaving or told.finished or told.uid != pod.uid

    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda told: replace(told, node=node, nominated=""),
        is_answered=is_answered,
    )


def leaving(pod: PodRecord) -> Assumption:
    """A pod is sent away."""
    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda told: replace(told, leaving=True),
        is_answered=lambda told, _: told.leaving or told.uid != pod.uid,
    )


def marked(pod: PodRecord, changes: dict[str, Any]) -> Assumption:
    """A pod is nominated for a node, or no longer, or says since when its gang is broken."""
    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda told: replace(told, **changes),
        is_answered=lambda told, _: told.uid != pod.uid,
    )


def restated(job: Any, changes: dict[str, Any]) -> Assumption:  # noqa: ANN401 - a job of any kind
    """A job gets another status."""
    meta = job.metadata

    def change(told: Any) -> Any:  # noqa: ANN401
        return replace(told, status=replace(told.status, **changes))

    return Assumption(
        kind=type(job).__name__,
        key=(meta.namespace, meta.name),
        change=change,
        is_answered=lambda told, _: told.metadata.uid != meta.uid,
    )


def known_to_be_written(assumption: Assumption, version: int) -> None:
    """An assumption has an answer in whatever is told with this version or a later one."""
    before = assumption.is_answered
    assumption.is_answered = lambda told, seen: seen >= version or before(told, seen)
