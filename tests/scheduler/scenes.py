"""Scenes: a live cluster as data, and a player for any home.

A scene has objects to begin with, and acts. In each act something is done to the cluster, and then the play
waits until the cluster has come to what the act expects. Nothing depends on how long that takes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

from shoal.api.decode import decode
from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import NAMESPACES, PODS, Object, Resource, by_kind
from shoal.engine.config import SchedulerConfig
from tests.scheduler.puppets import puppets
from tests.scheduler.simulated_nodes import run_nodes

PATIENCE = 60.0
"""Seconds after which what was waited for is taken never to come."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """What is done, and what must come of it."""

    create: Sequence[Object] = ()
    delete: Sequence[tuple[str, str]] = ()
    """Kinds and names."""
    patch: Sequence[tuple[str, str, Object]] = ()
    """Kinds, names and merge patches."""
    status: Sequence[tuple[str, str, Object]] = ()
    """Kinds, names and patches of statuses."""
    ends: Sequence[str] = ()
    """Pods that succeed."""
    on: Mapping[str, str] = field(default_factory=dict)
    """Pods that run, and where."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Pods that have no node, and a word of what they are told."""
    gone: Sequence[str] = ()
    """Pods that are no more, or are made again."""
    says: Mapping[str, Object] = field(default_factory=dict)
    """Jobs, as `Kind/name`, and a part of the status that each has."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A play. The pods of the first act that have nodes are never touched unless some act says so."""

    objects: Sequence[Object]
    acts: Sequence[Act]
    config: Object = field(default_factory=dict)


class Stage:
    """A cluster that a scene is played in, and what is remembered of its pods."""

    def __init__(self, cluster: Cluster, namespace: str, clock: Callable[[], float]) -> None:
        self.cluster, self.namespace, self.clock = cluster, namespace, clock
        self.made: list[Object] = []
        self._uids: dict[str, str] = {}

    def machines(self) -> AbstractAsyncContextManager[object]:
        """What runs the pods, until the block ends."""
        return run_nodes(self.cluster, self.clock)

    async def create(self, one: Object) -> None:
        """Make an object, and its status, which is written apart."""
        resource = by_kind()[one["apiVersion"], one["kind"]]
        body = {**one, "metadata": dict(one["metadata"])}
        body["metadata"].pop("uid", None)
        space = ""
        if resource.namespaced:
            space = body["metadata"]["namespace"] = self.namespace
        made = await self.cluster.create(resource, body)
        self.remember(made)
        if one["kind"] != "Pod" and "status" in one:
            patch = {"status": one["status"]}
            await self.cluster.patch_status(resource, made["metadata"]["name"], space, patch=patch)

    def remember(self, made: Object) -> None:
        """Keep in mind what was made, and which pod has a name now."""
        self.made.append(made)
        if made["kind"] == "Pod":
            self._uids[made["metadata"]["name"]] = made["metadata"]["uid"]

    async def perform(self, act: Act) -> None:
        """Do what an act does."""
        for one in act.create:
            await self.create(one)
        for kind, name, patch in act.patch:
            await self.cluster.patch(_of_kind(kind), name, self._space(kind), patch=patch)
        for kind, name in act.delete:
            await self.cluster.delete(_of_kind(kind), name, self._space(kind))
        ends = [("Pod", name, {"phase": "Succeeded"}) for name in act.ends]
        for kind, name, status in (*act.status, *ends):
            patch = {"status": status}
            await self.cluster.patch_status(_of_kind(kind), name, self._space(kind), patch=patch)

    def _space(self, kind: str) -> str:
        return self.namespace if _of_kind(kind).namespaced else ""

    async def pods(self) -> dict[str, Object]:
        page = await self.cluster.list(PODS, Selector(self.namespace))
        return {pod["metadata"]["name"]: pod for pod in page.items}

    async def missing(self, act: Act) -> list[str]:
        """What is not yet as an act expects it."""
        jobs = [missing async for missing in self._unsaid(act)]
        return [*self._missing(act, await self.pods()), *jobs]

    async def _unsaid(self, act: Act) -> AsyncIterator[str]:
        for job, wanted in act.says.items():
            kind, _, name = job.partition("/")
            status = (await self.cluster.get(_of_kind(kind), name, self.namespace)).get("status", {})
            said = {key: status.get(key) for key in wanted}
            if said != wanted:
                yield f"{job} says {said} where {wanted} is due"

    def _missing(self, act: Act, pods: Mapping[str, Object]) -> Iterator[str]:
        for name, node in act.on.items():
            pod = pods.get(name)
            if not pod or pod["spec"].get("nodeName") != node or pod["status"].get("phase") != "Running":
                yield f"{name} does not run on {node}: {_shown(pod)}"
        for name, word in act.waits.items():
            pod = pods.get(name)
            if not pod or pod["spec"].get("nodeName") or word not in told(pod):
                yield f"{name} does not wait with {word!r}: {_shown(pod)}"
        for name in act.gone:
            pod = pods.get(name)
            if pod and pod["metadata"]["uid"] == self._uids[name]:
                yield f"{name} is still there: {_shown(pod)}"

    async def clear(self) -> None:
        """Take away all that was made, newest first."""
        for pod in (await self.pods()).values():
            await self._remove(pod)
        for one in reversed(self.made):
            await self._remove(one)

    async def _remove(self, one: Object) -> None:
        resource, meta = by_kind()[one["apiVersion"], one["kind"]], one["metadata"]
        with suppress(NotFoundError):
            await self.cluster.delete(resource, meta["name"], meta.get("namespace", ""), Deletion(grace=0))


Shoal = Callable[[Cluster, SchedulerConfig], AbstractAsyncContextManager[object]]
"""Has Shoal at work on a cluster, until the block ends."""


async def play(scene: Scene, stage: Stage, shoal: Shoal) -> None:
    """Play a scene to its end."""
    for one in scene.objects:
        await stage.create(one)
    cluster, namespace = stage.cluster, stage.namespace
    async with (
        shoal(cluster, decode(SchedulerConfig, dict(scene.config))),
        stage.machines(),
        puppets(cluster, namespace),
    ):
        for number, act in enumerate(scene.acts, 1):
            await stage.perform(act)
            await until(lambda: stage.missing(act), f"act {number}")  # noqa: B023 - at once


async def until(missing: Callable[[], Awaitable[Sequence[str]]], what: str) -> None:
    """Wait until nothing is missing any more."""
    left: Sequence[str] = ["nothing was looked at"]
    try:
        async with asyncio.timeout(PATIENCE):
            while left := await missing():  # noqa: ASYNC110 - nobody tells when a cluster has come so far
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: " + "; ".join(left)) from None


async def new_stage(cluster: Cluster, clock: Callable[[], float]) -> Stage:
    """A stage with a namespace of its own."""
    made = await cluster.create(NAMESPACES, {"metadata": {"generateName": "scene-"}})
    return Stage(cluster, made["metadata"]["name"], clock)


def told(pod: Object) -> str:
    """What a pod that waits is told."""
    conditions = pod.get("status", {}).get("conditions") or ()
    found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return f"{found[0]['reason']}: {found[0].get('message', '')}" if found else ""


def _shown(pod: Object | None) -> object:
    if pod is None:
        return "there is no such pod"
    leaving = "deletionTimestamp" in pod["metadata"]
    return {"node": pod["spec"].get("nodeName"), "leaving": leaving, "status": pod.get("status")}


def _of_kind(kind: str) -> Resource[Object]:
    return next(resource for (_, name), resource in by_kind().items() if name == kind)
