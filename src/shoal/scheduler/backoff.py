"""Rests: who was refused a write is left alone for a while, longer from one refusal to the next.

And how a cycle is run as if some were not there: those who rest, and those who wait for a policy.
"""

import asyncio
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Workload


class _Rest(msgspec.Struct):
    """How often somebody was refused, and until when it rests by the loop's time."""

    refusals: int
    until: float


class Rests:
    """Workloads that rest, by their keys. Time is that of the running loop."""

    def __init__(self, first: float = 1.0, most: float = 60.0) -> None:
        """The first rest takes so long, each next one twice as long, up to the most."""
        self._first, self._most = first, most
        self._known: Final[dict[str, _Rest]] = {}

    def refuse(self, key: str) -> None:
        """A write for somebody was refused."""
        refusals = self._known[key].refusals if key in self._known else 0
        wait = min(self._first * 2.0 ** min(refusals, 30), self._most)
        self._known[key] = _Rest(refusals + 1, asyncio.get_running_loop().time() + wait)

    def succeed(self, key: str) -> None:
        """A write for somebody was made."""
        self._known.pop(key, None)

    def resting(self) -> set[str]:
        """Who rests now; who has not been heard of for long enough begins anew."""
        now = asyncio.get_running_loop().time()
        for key in [key for key, rest in self._known.items() if now - rest.until > self._most]:
            del self._known[key]
        return {key for key, rest in self._known.items() if rest.until > now}

    def next(self) -> float | None:
        """When the next one has rested, by the loop's time."""
        now = asyncio.get_running_loop().time()
        return min((rest.until for rest in self._known.values() if rest.until > now), default=None)


def without(snapshot: Snapshot, absent: Collection[str]) -> tuple[Snapshot, list[Workload]]:
    """A snapshot as if some, who cannot be served just now, were not there; and who they are.

    Otherwise the room that each plan gives them would stand empty. One that has a part of its room, or that
    room is kept for, stays: nobody else may have it.
    """
    if not absent:
        return snapshot, []
    out = [w for w in snapshot.unsettled if w.key in absent and not w.placed and not w.nominated]
    gone = set(out)
    if not gone:
        return snapshot, []
    return replace(
        snapshot,
        workloads=tuple(w for w in snapshot.workloads if w not in gone),
        unsettled=tuple(w for w in snapshot.unsettled if w not in gone),
        elastic=tuple(w for w in snapshot.elastic if w not in gone),
    ), out
