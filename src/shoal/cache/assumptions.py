"""Assumptions: decided writes count at once, until the watch confirms them or they are known to have failed.

A scheduler that has just bound a pod must not use the same room again, although the watch still shows the pod
without a node. So every object that arrives is seen through the assumptions about it. An assumption ends

- when it is *confirmed*: an event shows the write, or a different one, or a recreated object of the name. A
  pod is bound once and deleted once, so an event without either is merely old. A job's status can be written
  many times: there, any event with the version of the write or a later one confirms it (`written` sets that
  version as soon as it is known);
- when its object is gone;
- when it is *forgotten*, because the write failed.

Assumptions have no timeout: the component that makes a write learns its result, and a stalled watch is no
reason to give the same room away twice.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shoal.cache.changes import Key
from shoal.kinds.pods import PodRecord

_NEVER: Final = 0
"""Version of an object that no watch event has shown; all others are greater."""


class Assumption(msgspec.Struct, eq=False, kw_only=True):
    """One decided write of one object."""

    kind: str
    key: Key
    change: Callable[[Any], Any]
    """Applies the write to the object."""
    is_answered: Callable[[Any, int], bool]
    """Whether an object with its version confirms the write."""


class _Watched(msgspec.Struct, frozen=True):
    """The last state of an object from the watch."""

    obj: Any
    version: int


class Assumptions:
    """All unconfirmed writes, and the last watched state of their objects."""

    def __init__(self) -> None:
        """Start without assumptions."""
        self._made: dict[Hashable, list[Assumption]] = {}
        self._watched: dict[Hashable, _Watched] = {}

    def __len__(self) -> int:
        return sum(map(len, self._made.values()))

    def seen(self, kind: str, key: Key, obj: Any, version: int = _NEVER) -> Any:  # noqa: ANN401 - of any kind
        """The object of a watch event with all its assumptions applied."""
        if (kind, key) not in self._made:
            return obj
        self._watched[kind, key] = _Watched(obj, version)
        return self._with_assumptions(kind, key)

    def make(self, assumption: Assumption, obj: Any) -> Any:  # noqa: ANN401
        """Add an assumption to the last seen object; return the result."""
        place = assumption.kind, assumption.key
        self._watched.setdefault(place, _Watched(obj, _NEVER))
        self._made.setdefault(place, []).append(assumption)
        return self._with_assumptions(*place)

    def review(self, assumption: Assumption, *, forget: bool = False) -> Any | None:  # noqa: ANN401
        """The object after an assumption was confirmed or forgotten; None if it had ended before."""
        place = assumption.kind, assumption.key
        if assumption not in self._made.get(place, ()):
            return None
        if forget:
            self._made[place].remove(assumption)
        return self._with_assumptions(*place)

    def drop(self, kind: str, key: Key) -> None:
        """Drop all assumptions about a removed object."""
        self._made.pop((kind, key), None)
        self._watched.pop((kind, key), None)

    def _with_assumptions(self, kind: str, key: Key) -> Any:  # noqa: ANN401
        watched, place = self._watched[kind, key], (kind, key)
        left = [one for one in self._made[place] if not one.is_answered(watched.obj, watched.version)]
        self._made[place], obj = left, watched.obj
        for one in left:
            obj = one.change(obj)
        if not left:
            self.drop(kind, key)
        return obj


def bound(pod: PodRecord, node: str) -> Assumption:
    """The assumption that a pod is bound to a node."""

    def is_answered(watched: PodRecord, _: int) -> bool:
        return bool(watched.node) or watched.leaving or watched.finished or watched.uid != pod.uid

    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda watched: replace(watched, node=node, nominated=""),
        is_answered=is_answered,
    )


def leaving(pod: PodRecord) -> Assumption:
    """The assumption that a pod is being deleted."""
    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda watched: replace(watched, leaving=True),
        is_answered=lambda watched, _: watched.leaving or watched.finished or watched.uid != pod.uid,
    )


def marked(pod: PodRecord, changes: dict[str, Any]) -> Assumption:
    """The assumption that fields of a pod are changed: its nomination, or since when its gang is broken."""
    return Assumption(
        kind="Pod",
        key=pod.key,
        change=lambda watched: replace(watched, **changes),
        is_answered=lambda watched, _: watched.uid != pod.uid,
    )


def restated(job: Any, changes: dict[str, Any]) -> Assumption:  # noqa: ANN401 - a job of any kind
    """The assumption that status fields of a job are changed."""
    meta = job.metadata

    def change(watched: Any) -> Any:  # noqa: ANN401
        return replace(watched, status=replace(watched.status, **changes))

    return Assumption(
        kind=type(job).__name__,
        key=(meta.namespace, meta.name),
        change=change,
        is_answered=lambda watched, _: watched.metadata.uid != meta.uid,
    )


def known_to_be_written(assumption: Assumption, version: int) -> None:
    """Let any event with this version or a later one confirm an assumption."""
    before = assumption.is_answered
    assumption.is_answered = lambda watched, seen: seen >= version or before(watched, seen)
