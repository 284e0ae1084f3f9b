"""Scenarios: actions on a live cluster and their expected results as data, and their execution in any home.

A scenario has initial objects, and steps. Each step writes to the cluster, and waits until the cluster is in
the expected state. Nothing depends on how long that takes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

from shoal.api.decode import decode
from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import NAMESPACES, PODS, Object, Resource, by_kind
from shoal.engine.config import SchedulerConfig
from tests.scheduler.fake_controllers import run_fake_controllers
from tests.scheduler.simulated_nodes import run_nodes

PATIENCE = 60.0
"""Seconds until a wait fails."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Writes, and the state that is expected after them."""

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
    """Pods that run, and their nodes."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Pods that have no node, and a part of the reason in their PodScheduled condition."""
    gone: Sequence[str] = ()
    """Pods that were deleted, or recreated."""
    statuses: Mapping[str, Object] = field(default_factory=dict)
    """Jobs, as `Kind/name`, and a part of the status that each has."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Initial objects, and steps that are executed one after another."""

    objects: Sequence[Object]
    steps: Sequence[Step]
    config: Object = field(default_factory=dict)


class ClusterTestbed:
    """A cluster in which a scenario is executed; it knows the created objects and the uids of pods."""

    def __init__(self, cluster: Cluster, namespace: str, clock: Callable[[], float]) -> None:
        self.cluster, self.namespace, self.clock = cluster, namespace, clock
        self.made: list[Object] = []
        self._uids: dict[str, str] = {}

    def machines(self) -> AbstractAsyncContextManager[object]:
        """Run the pods until the block ends."""
        return run_nodes(self.cluster, self.clock)

    async def create(self, one: Object) -> None:
        """Create an object, and write its status with a second request."""
        resource = by_kind()[one["apiVersion"], one["kind"]]
        body = {**one, "metadata": dict(one["metadata"])}
        body["metadata"].pop("uid", None)
        space = ""
        if resource.namespaced:
            space = body["metadata"]["namespace"] = self.namespace
        made = await self.cluster.create(resource, body)
        self.record(made)
        if one["kind"] != "Pod" and "status" in one:
            patch = {"status": one["status"]}
            await self.cluster.patch_status(resource, made["metadata"]["name"], space, patch=patch)

    def record(self, made: Object) -> None:
        """Record a created object."""
        self.made.append(made)
        if made["kind"] == "Pod":
            self._uids[made["metadata"]["name"]] = made["metadata"]["uid"]

    async def perform(self, step: Step) -> None:
        """Make the writes of a step."""
        await self.record_uids(step.gone)
        for one in step.create:
            await self.create(one)
        for kind, name, patch in step.patch:
            await self.cluster.patch(_of_kind(kind), name, self._space(kind), patch=patch)
        for kind, name in step.delete:
            await self.cluster.delete(_of_kind(kind), name, self._space(kind))
        ends = [("Pod", name, {"phase": "Succeeded"}) for name in step.ends]
        for kind, name, status in (*step.status, *ends):
            patch = {"status": status}
            await self.cluster.patch_status(_of_kind(kind), name, self._space(kind), patch=patch)

    async def record_uids(self, names: Iterable[str]) -> None:
        """Record the uids of pods, which a step expects to be gone: controllers may create others."""
        present = await self.pods() if names else {}
        self._uids |= {name: present[name]["metadata"]["uid"] for name in names if name in present}

    def _space(self, kind: str) -> str:
        return self.namespace if _of_kind(kind).namespaced else ""

    async def pods(self) -> dict[str, Object]:
        page = await self.cluster.list(PODS, Selector(self.namespace))
        return {pod["metadata"]["name"]: pod for pod in page.items}

    async def missing(self, step: Step) -> list[str]:
        """Return what differs from the expected state."""
        jobs = [missing async for missing in self._wrong_statuses(step)]
        return [*self._missing(step, await self.pods()), *jobs]

    async def _wrong_statuses(self, step: Step) -> AsyncIterator[str]:
        for job, wanted in step.statuses.items():
            kind, _, name = job.partition("/")
            status = (await self.cluster.get(_of_kind(kind), name, self.namespace)).get("status", {})
            found = {key: status.get(key) for key in wanted}
            if found != wanted:
                yield f"the status of {job} has {found}, not {wanted}"

    def _missing(self, step: Step, pods: Mapping[str, Object]) -> Iterator[str]:
        for name, node in step.on.items():
            pod = pods.get(name)
            if not pod or pod["spec"].get("nodeName") != node or pod["status"].get("phase") != "Running":
                yield f"{name} does not run on {node}: {_shown(pod)}"
        for name, word in step.waits.items():
            pod = pods.get(name)
            if not pod or pod["spec"].get("nodeName") or word not in waiting_reason(pod):
                yield f"{name} does not wait with {word!r}: {_shown(pod)}"
        for name in step.gone:
            pod = pods.get(name)
            if pod and pod["metadata"]["uid"] == self._uids[name]:
                yield f"{name} is still there: {_shown(pod)}"

    async def clear(self) -> None:
        """Delete all created objects, newest first."""
        for pod in (await self.pods()).values():
            await self._remove(pod)
        for one in reversed(self.made):
            await self._remove(one)

    async def _remove(self, one: Object) -> None:
        resource, meta = by_kind()[one["apiVersion"], one["kind"]], one["metadata"]
        with suppress(NotFoundError):
            await self.cluster.delete(resource, meta["name"], meta.get("namespace", ""), Deletion(grace=0))


Shoal = Callable[[Cluster, SchedulerConfig], AbstractAsyncContextManager[object]]
"""Runs Shoal on a cluster until the block ends."""


async def run_scenario(scenario: Scenario, testbed: ClusterTestbed, shoal: Shoal) -> None:
    """Execute all steps of a scenario."""
    for one in scenario.objects:
        await testbed.create(one)
    cluster, namespace = testbed.cluster, testbed.namespace
    async with (
        shoal(cluster, decode(SchedulerConfig, dict(scenario.config))),
        testbed.machines(),
        run_fake_controllers(cluster, namespace),
    ):
        for number, step in enumerate(scenario.steps, 1):
            await testbed.perform(step)
            await until(lambda: testbed.missing(step), f"step {number}")  # noqa: B023 - at once


async def until(missing: Callable[[], Awaitable[Sequence[str]]], what: str) -> None:
    """Poll until nothing is missing."""
    left: Sequence[str] = ["not checked yet"]
    try:
        async with asyncio.timeout(PATIENCE):
            while left := await missing():  # noqa: ASYNC110 - any write may complete the state
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: " + "; ".join(left)) from None


async def new_testbed(cluster: Cluster, clock: Callable[[], float]) -> ClusterTestbed:
    """Return a testbed with a new namespace."""
    made = await cluster.create(NAMESPACES, {"metadata": {"generateName": "scenario-"}})
    return ClusterTestbed(cluster, made["metadata"]["name"], clock)


def waiting_reason(pod: Object) -> str:
    """The reason and message of the PodScheduled condition, if it is False."""
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
