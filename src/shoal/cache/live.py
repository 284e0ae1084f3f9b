"""A World that follows a cluster: what reflectors hear is read straight into what the World keeps.

    reflectors = Reflectors(cluster)
    live = LiveWorld(reflectors, World(time.time()))
    task = asyncio.create_task(reflectors.run())  # cancel it to stop
    await live.synced()

Pods and nodes are many and change often. They are read in one step from text to view, and of a pod only its
record is kept (`podreader`). An object that is not right is read a second time, thoroughly, to know all that
is wrong with it; it is left out, and does not stop the others. A kind that the cluster does not have, because
its CRD is not installed, is as good as one without objects, and is asked for again now and then.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from shoal.api import core, kinds
from shoal.api.decode import custom
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
    view: msgspec.json.Decoder(view, dec_hook=custom) for view in (core.Pod, core.Node)
}
"""For what is many and changes often."""


Texts = dict[tuple[str, Key], bytes]
"""Whole objects in JSON, by kind and key: what a World has forgotten of them."""


class LiveWorld:
    """A World that listens to reflectors, which may have others who listen."""

    def __init__(self, reflectors: Reflectors, world: World, *, texts: Texts | None = None) -> None:
        """Listen from the first list on. In `texts`, if there are any, objects are kept as they were told."""
        self.world: Final = world
        self.reflectors: Final = reflectors
        self._all: Final[dict[str, EventHandler[Any]]] = {
            resource.kind: _listen(reflectors, resource, world, texts) for resource in followed()
        }

    async def synced(self) -> None:
        """Wait until everything has been told once."""
        await self.reflectors.synced()

    @property
    def unreadable(self) -> dict[tuple[str, Key], str]:
        """Objects that are left out, by kind and key, and what is wrong with each."""
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
    """Read everything into a world, once: what is left out, and what is wrong with each."""
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
    """How objects of a resource are read for a world."""
    kind = kinds.by_name()[resource.api_version, resource.kind]
    if kind.view is core.Pod:
        return PodReader(world, partial(_read, kind))
    return partial(_read, kind)


def sink(kind: str, world: World) -> Callable[[Sequence[Change[View | PodRecord]]], None]:
    """How a world is told of changes of one kind."""

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
    """Read an object, and keep its text beside what was made of it."""
    return lambda text: (read(text), bytes(text))


def _kept(
    kind: str, tell: Callable[[Sequence[Change[Any]]], None], texts: Texts
) -> Callable[[Sequence[Change[tuple[Any, bytes]]]], None]:
    """Tell a world of changes, and keep the texts at the same moment."""

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
    """An object as its view; InvalidObjectError with everything that is wrong otherwise."""
    decoder = _DECODERS.get(kind.view)
    if decoder:
        try:
            view = decoder.decode(text)
        except msgspec.ValidationError:
            view = None
        if view and not any(kind.errors(view)):
            return view
    return kinds.read(kind, msgspec.json.decode(text))
