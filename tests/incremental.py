"""Incremental snapshots of a changing world, compared with snapshots that are built from scratch.

Both must have the same data, and the plans that are made of them must be equal to the byte.
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
from shoal.cache.snapshots import BuiltSnapshot, SnapshotBuilder, build_snapshot
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.nodes import Nodes
from shoal.engine.report import CycleResult, report
from shoal.engine.snapshot import Snapshot
from shoal.scheduler.decisions import Decision, decide
from tests.builders import Object
from tests.worlds import NOW as NOW_TEXT

NOW = datetime.fromisoformat(NOW_TEXT).timestamp()

Identity = tuple[str, Key]
"""Kind and key of an object."""


def view(raw: Object) -> View:
    """Return the typed view of an object, from a copy of it."""
    copied = msgspec.json.decode(msgspec.json.encode(raw))
    return kinds.read(by_name()[raw["apiVersion"], raw["kind"]], copied)


def identity(raw: Object) -> Identity:
    namespaced = by_name()[raw["apiVersion"], raw["kind"]].namespaced
    meta = raw["metadata"]
    return raw["kind"], (meta.get("namespace", "default") if namespaced else "", meta["name"])


@dataclass
class IncrementalWorld:
    """A world that changes, its incremental snapshot builder, and its current objects."""

    config: SchedulerConfig
    world: World = field(default_factory=lambda: World(NOW))
    objects: dict[Identity, Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = SnapshotBuilder(self.world, self.config)

    @classmethod
    def of(cls, objects: Iterable[Object], config: Mapping[str, Any] | None = None) -> "IncrementalWorld":
        """Return a world with these objects, of which a snapshot was built."""
        incremental = cls(decode(SchedulerConfig, dict(config or {})))
        incremental.put(*objects)
        incremental.builder.build(NOW)
        return incremental

    def put(self, *raws: Object) -> None:
        for raw in raws:
            self.objects[identity(raw)] = raw
            self.world.put(view(raw))

    def remove(self, *identities: Identity) -> None:
        for kind_and_key in identities:
            self.objects.pop(kind_and_key, None)
            self.world.remove(*kind_and_key)

    def build(self, now: float = NOW) -> BuiltSnapshot:
        return self.builder.build(now)

    def fresh(self) -> World:
        """Return a new world with the same objects."""
        world = World(NOW)
        world.put(*map(view, self.objects.values()))
        return world

    def check(self, now: float = NOW) -> Snapshot:
        """Compare the incremental snapshot with one that is built from scratch; return it.

        A world with assumptions differs from its objects in what is to be written.
        """
        fresh_world = self.fresh()
        incremental, fresh = self.build(now), build_snapshot(fresh_world, self.config, now)
        assert snapshot_data(incremental.snapshot) == snapshot_data(fresh.snapshot)
        assert plan_json(incremental.snapshot, self.config) == plan_json(fresh.snapshot, self.config)
        if not self.world.assumed:
            writes = self._writes(self.world, incremental)
            assert writes == self._writes(fresh_world, fresh)
        return incremental.snapshot

    def _writes(self, world: World, built: BuiltSnapshot) -> list[Decision]:
        plan = cycle(built.snapshot, self.config)
        return sorted(decide(world, built, plan), key=lambda decision: decision.workload)


def plan_json(snapshot: Snapshot, config: SchedulerConfig) -> bytes:
    """Return the JSON of the plan of a snapshot."""
    return msgspec.json.encode(report([CycleResult(snapshot, cycle(snapshot, config))], config))


def snapshot_data(snapshot: Snapshot) -> Object:
    """Return everything in a snapshot as plain data."""
    fields = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    for name in ("occupants", "terminating"):
        fields[name] = sorted(map(_occupant_data, fields[name]))
    plain: Object = _plain(fields)
    return plain


def _occupant_data(occupant: Occupant) -> tuple[int, bool, str, str]:
    shape, name = occupant.shape, occupant.identity
    return occupant.column, occupant.terminating, repr(_plain(shape)), repr(_plain(name))


def _plain(value: Any) -> Any:  # noqa: ANN401 - anything that a snapshot has
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Nodes):
        names = ("names", "pools", "alloc", "capacity", "ready", "schedulable", "labels", "_taints")
        return {name: _plain(getattr(value, name)) for name in names} | {"rows": value.layout.names}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return sorted(value) if isinstance(value, frozenset) else value
