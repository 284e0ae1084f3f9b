"""LiveWorld: a World that reflectors keep up to date.

    reflectors = Reflectors(cluster)
    live = LiveWorld(reflectors, World(time.time()))
    task = asyncio.create_task(reflectors.run())  # cancel it to stop
    await live.synced()

Pods and nodes are numerous and change often: they are decoded in one step from text to a typed view, and of a
pod only the record is kept (`pod_reader`). An invalid object is decoded a second time to find all its errors;
it is left out and does not stop the others. A kind whose CRD is not installed counts as a kind without
objects, and is listed again from time to time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from shoal.api import core, kinds
from shoal.api.decode import dec_hook
from shoal.api.kinds import Kind
from shoal.api.meta import Object as View
from shoal.cache.pod_reader import PodReader
from shoal.cache.world import World
from shoal.cluster.errors import NotFoundError
from shoal.cluster.object_store import Change, DecodeFailure, Deleted, Key, Put, as_entries, version_number
from shoal.cluster.port import Cluster, list_all
from shoal.cluster.reflector import EventHandler, Reflectors
from shoal.cluster.resources import (
    BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Decode,
    Object,
    Resource,
    Text,
    resource_of,
)
from shoal.kinds.base import workload_kinds
from shoal.kinds.pods import PodRecord


def followed() -> tuple[Resource[Object], ...]:
    """The resources that a World consists of: core objects, pools, jobs of every kind, and pods last."""
    jobs = (resource_of(name) for name in workload_kinds())
    return (NAMESPACES, PRIORITY_CLASSES, NODES, resource_of("Pool"), BUDGETS, JOBS, *jobs, PODS)


_DECODERS: Final[dict[type[View], msgspec.json.Decoder[Any]]] = {
    view: msgspec.json.Decoder(view, dec_hook=dec_hook) for view in (core.Pod, core.Node)
}
"""Decoders for the kinds that are numerous and change often."""


Texts = dict[tuple[str, Key], bytes]
"""Whole objects as JSON text, by kind and key; a World keeps only part of them."""


class LiveWorld:
    """A World that follows reflectors, which may have other handlers too."""

    def __init__(self, reflectors: Reflectors, world: World, *, texts: Texts | None = None) -> None:
        """Follow from the first list on. `texts`, if given, collects whole objects."""
        self.world: Final = world
        self.reflectors: Final = reflectors
        self._all: Final[dict[str, EventHandler[Any]]] = {
            resource.kind: _listen(reflectors, resource, world, texts) for resource in followed()
        }

    async def synced(self) -> None:
        """Wait until every resource has been listed once."""
        await self.reflectors.synced()

    @property
    def unreadable(self) -> dict[tuple[str, Key], str]:
        """Invalid objects by kind and key, and what is wrong with each."""
        found = ((kind, listener.undecodable) for kind, listener in self._all.items())
        return {(kind, key): problem for kind, problems in found for key, problem in problems.items()}


def _listen(
    reflectors: Reflectors, resource: Resource[Object], world: World, texts: Texts | None
) -> EventHandler[Any]:
    read, tell = reader(resource, world), sink(resource.kind, world)
    if texts is None:
        return reflectors.follow(resource.read_as(read), tell)
    return reflectors.follow(resource.read_as(_keeping(read)), _kept(resource.kind, tell, texts))


async def read_once(cluster: Cluster, world: World) -> list[tuple[str, str]]:
    """Read all objects into a world once; return the invalid ones and what is wrong with each."""
    left_out: list[tuple[str, str]] = []
    for resource in followed():
        read = as_entries(resource.read_as(reader(resource, world)))
        try:
            page = await list_all(cluster, read)
        except NotFoundError:
            continue
        take = sink(resource.kind, world)
        for entry in page.items:
            if isinstance(entry.item, DecodeFailure):
                left_out.append((f"{resource.kind} {'/'.join(filter(None, entry.key))}", entry.item.message))
            else:
                take([Put(entry.key, entry.version, entry.item)])
    return left_out


def reader(resource: Resource[Any], world: World) -> Decode[Any]:
    """The decoder of a resource for a world."""
    kind = kinds.by_name()[resource.api_version, resource.kind]
    if kind.view is core.Pod:
        return PodReader(world, partial(_read, kind))
    return partial(_read, kind)


def sink(kind: str, world: World) -> Callable[[Sequence[Change[View | PodRecord]]], None]:
    """The handler that applies changes of one kind to a world."""

    def take(changes: Sequence[Change[View | PodRecord]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                world.remove(kind, change.key)
            elif isinstance(change.item, PodRecord):
                world.keep(change.item, version_number(change.version))
            else:
                world.put(change.item, version=version_number(change.version))

    return take


def _keeping(read: Decode[Any]) -> Decode[tuple[Any, bytes]]:
    """Decode an object, and keep its text beside the result."""
    return lambda text: (read(text), bytes(text))


def _kept(
    kind: str, tell: Callable[[Sequence[Change[Any]]], None], texts: Texts
) -> Callable[[Sequence[Change[tuple[Any, bytes]]]], None]:
    """Apply changes to a world, and keep the texts in step."""

    def take(changes: Sequence[Change[tuple[Any, bytes]]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                texts.pop((kind, change.key), None)
                tell([change])
            else:
                item, texts[kind, change.key] = change.item
                tell([Put(change.key, change.version, item)])

    return take


def _read(kind: Kind, text: Text) -> Any:  # noqa: ANN401 - the view of the kind
    """Decode an object; InvalidObjectError has everything that is wrong with it."""
    decoder = _DECODERS.get(kind.view)
    if decoder:
        try:
            view = decoder.decode(text)
        except msgspec.ValidationError:
            view = None
        if view and not any(kind.errors(view)):
            return view
    return kinds.read(kind, msgspec.json.decode(text))
