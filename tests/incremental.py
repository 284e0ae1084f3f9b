"""Worlds that change: what is told of them one object after another, and what must come of it.

A follower is held against a world that is put together anew from the objects as they are: their snapshots
must show the same, and the plans made of them must say the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from shoal.api import kinds
from shoal.api.decode import decode
from shoal.api.kinds import by_name
from shoal.api.meta import Object as View
from shoal.cache.changes import Key
from shoal.cache.snapshots import SnapshotBuilder, BuiltSnapshot, build_snapshot
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.nodes import Nodes
from shoal.engine.report import CycleResult, report
from shoal.engine.snapshot import Snapshot
from tests.builders import Object
from tests.worlds import NOW as NOW_TEXT

NOW = datetime.fromisoformat(NOW_TEXT).timestamp()

Identity = tuple[str, Key]
"""Kind and key of an object."""


def view(raw: Object) -> View:
    """An object as the world takes it; it shares nothing with what it was made of."""
    copied = msgspec.json.decode(msgspec.json.encode(raw))
    return kinds.read(by_name()[raw["apiVersion"], raw["kind"]], copied)


def identity(raw: Object) -> Identity:
    namespaced = by_name()[raw["apiVersion"], raw["kind"]].namespaced
    meta = raw["metadata"]
    return raw["kind"], (meta.get("namespace", "default") if namespaced else "", meta["name"])


@dataclass
class Follower:
    """A world that is told of changes, somebody who follows it, and the objects as they are."""

    config: SchedulerConfig
    world: World = field(default_factory=lambda: World(NOW))
    objects: dict[Identity, Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.assembler = SnapshotBuilder(self.world, self.config)

    @classmethod
    def of(cls, objects: Iterable[Object], config: Mapping[str, Any] | None = None) -> "Follower":
        """One that knows of objects, and has looked at them."""
        follower = cls(decode(SchedulerConfig, dict(config or {})))
        follower.put(*objects)
        follower.assembler.build(NOW)
        return follower

    def put(self, *raws: Object) -> None:
        for raw in raws:
            self.objects[identity(raw)] = raw
            self.world.put(view(raw))

    def remove(self, *which: Identity) -> None:
        for one in which:
            self.objects.pop(one, None)
            self.world.remove(*one)

    def look(self, now: float = NOW) -> BuiltSnapshot:
        return self.assembler.build(now)

    def afresh(self, now: float = NOW) -> BuiltSnapshot:
        """What somebody sees who has not followed."""
        world = World(NOW)
        world.put(*map(view, self.objects.values()))
        return build_snapshot(world, self.config, now)

    def check(self, now: float = NOW) -> Snapshot:
        """Hold what is seen against what would be seen afresh."""
        seen, fresh = self.look(now).snapshot, self.afresh(now).snapshot
        assert portrait(seen) == portrait(fresh)
        assert planned(seen, self.config) == planned(fresh, self.config)
        return seen


def planned(snapshot: Snapshot, config: SchedulerConfig) -> bytes:
    """What a plan of a snapshot says, to the byte."""
    return msgspec.json.encode(report([CycleResult(snapshot, cycle(snapshot, config))], config))


def portrait(snapshot: Snapshot) -> Object:
    """All that a snapshot shows, as plain data."""
    shown = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    for crowd in ("occupants", "terminating"):
        shown[crowd] = sorted(map(_shown_occupant, shown[crowd]))
    plain: Object = _plain(shown)
    return plain


def _shown_occupant(occupant: Occupant) -> tuple[int, bool, str, str]:
    shape, name = occupant.shape, occupant.identity
    return occupant.column, occupant.terminating, repr(_plain(shape)), repr(_plain(name))


def _plain(thing: Any) -> Any:  # noqa: ANN401 - anything that a snapshot has
    if isinstance(thing, msgspec.Struct):
        return {name: _plain(getattr(thing, name)) for name in thing.__struct_fields__}
    if isinstance(thing, Nodes):
        names = ("names", "pools", "alloc", "capacity", "ready", "schedulable", "labels", "_taints")
        return {name: _plain(getattr(thing, name)) for name in names} | {"rows": thing.layout.names}
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(one) for one in thing]
    return sorted(thing) if isinstance(thing, frozenset) else thing
