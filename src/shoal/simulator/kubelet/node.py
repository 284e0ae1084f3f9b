"""A simulated node: its pods, what it observes and writes about them, and network partitions."""

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.errors import ConflictError, InternalError, TooManyRequestsError, UnavailableError
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster, Deletion, ObjectDeletedError, expect_same_object
from shoal.cluster.resources import PODS, Object
from shoal.simulator.kubelet import statuses
from shoal.simulator.kubelet.scripts import PodScript, PodState, ScriptSource, state_after

SIGTERM_EXIT_CODE: Final = 143
"""The exit code of containers that are terminated."""
_RETRY_DELAY: Final = 0.1
"""Seconds before a write is retried that the cluster could not serve."""
_MIN_DELAY: Final = 0.001
"""Seconds that are waited at least: times since 1970 are too coarse to wait for a billionth of a second."""


# --- clocks ------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """A clock that can be waited for."""

    def now(self) -> float:
        """Return seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Return at about that time, or earlier; never, if the time is infinite."""


class LoopClock:
    """A wall clock; waiting is done by the time of the running loop, real or simulated."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.now: Final = wall

    async def sleep_until(self, moment: float) -> None:
        if math.isinf(moment):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(max(moment - self.now(), 0.0))


# --- pods --------------------------------------------------------------------------------------------------


class SimulatedPod:
    """A pod of a node: as it was last observed, its script, and when it started."""

    task: asyncio.Task[None]

    def __init__(self, body: Object, script: PodScript, ip: str, now: float) -> None:
        self.body = body
        self.script: Final = script
        self.ip: Final = ip
        started = body.get("status", {}).get("startTime")
        self.started: Final = statuses.parse_time(started) if started else now
        self.deleted: Final = asyncio.Event()
        """Set when the deletion of the pod is observed."""
        self.observed: Final = asyncio.Event()
        """Set, for a moment, whenever the pod is observed."""
        self._deleted_at: float | None = None

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def name_and_namespace(self) -> tuple[str, str]:
        return self.body["metadata"]["name"], self.body["metadata"]["namespace"]

    @property
    def finished(self) -> bool:
        """Whether its status says that it has ended: that is final, also after a restart of the kubelet."""
        return self.body.get("status", {}).get("phase") in FINISHED_PHASES

    def observe(self, body: Object, now: float) -> None:
        """Take a new version of the pod. Only a deletion matters: everything else is written here."""
        self.body = body
        self.observed.set()
        self.observed.clear()
        if "deletionTimestamp" in body["metadata"]:
            self._deleted_at = now if self._deleted_at is None else self._deleted_at
            self.deleted.set()

    def state(self, now: float) -> PodState:
        """Return the state that its script has for now."""
        return state_after(self.script, now - self.started, self.body["spec"].get("restartPolicy", "Always"))

    def is_running(self, now: float) -> bool:
        """Return whether its containers run now."""
        left = self.time_left(now)
        return not self.finished and self.state(now).phase == "Running" and (left is None or left > 0)

    def time_left(self, now: float) -> float | None:
        """Return the seconds until a deleted pod ends; None if it was not deleted."""
        if self._deleted_at is None:
            return None
        grace = self.body["metadata"].get("deletionGracePeriodSeconds", 0)
        return self._deleted_at + min(self.script.shutdown, float(grace)) - now

    async def wait_for_deletion_or(self, sleep: Coroutine[Any, Any, None]) -> None:
        """Wait until the sleep is over or the deletion is observed."""
        tasks = [asyncio.ensure_future(sleep), asyncio.ensure_future(self.deleted.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


# --- nodes -------------------------------------------------------------------------------------------------


class NodeContext:
    """What the nodes of a kubelet share."""

    def __init__(self, cluster: Cluster, clock: Clock, script: ScriptSource) -> None:
        self.cluster: Final = cluster
        self.clock: Final = clock
        self.script = script
        self.tasks: Final = set[asyncio.Task[None]]()
        self._addresses: Final = (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in itertools.count(1))
        self._assigned: Final = set[str]()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def pod_ip(self, pod: Object) -> str:
        """Return the IP that a pod has already, or the next one that was never assigned."""
        own = pod.get("status", {}).get("podIP")
        address: str = own or next(each for each in self._addresses if each not in self._assigned)
        self._assigned.add(address)
        return address


class _Partition:
    """A time without a connection: until when, and the last missed change of each pod."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.over: Final = asyncio.Event()
        self.missed: Final[dict[Key, Change[Object]]] = {}


class SimulatedNode:
    """The pods of a node. During a partition it neither observes nor writes, and its pods run on."""

    def __init__(self, name: str, context: NodeContext) -> None:
        self.name: Final = name
        self._context: Final = context
        self._pods: Final[dict[Key, SimulatedPod]] = {}
        self._partition: _Partition | None = None

    # --- partitions ---------------------------------------------------------------------------------------

    @property
    def partitioned(self) -> bool:
        """Whether it is cut off from the API server."""
        return self._partition is not None

    def partition(self, until: float) -> bool:
        """Begin a partition, or extend the current one; return whether it is a new one."""
        if self._partition is not None:
            self._partition.until = max(self._partition.until, until)
            return False
        self._partition = _Partition(until)
        return True

    async def recover(self) -> None:
        """Wait for the end of the partition, and handle the missed changes."""
        partition = self._partition
        if partition is None:
            return
        while self._context.clock.now() < partition.until:
            await self._context.clock.sleep_until(partition.until)
        self._partition = None
        partition.over.set()
        for change in partition.missed.values():
            self.handle(change)

    # --- observing ----------------------------------------------------------------------------------------

    def handle(self, change: Change[Object]) -> None:
        """Handle a change of one of its pods, now or after the partition."""
        if self._partition is not None:
            self._partition.missed[change.key] = change
        elif isinstance(change, Put):
            self._observe(change.key, change.item)
        elif change.key in self._pods:
            self._pods.pop(change.key).task.cancel()

    def _observe(self, key: Key, body: Object) -> None:
        """Start a new pod, or pass a new version to a known one."""
        known, now = self._pods.get(key), self._context.clock.now()
        if known is not None and known.uid == body["metadata"]["uid"]:
            known.observe(body, now)
            return
        if known is not None:
            known.task.cancel()
        pod = SimulatedPod(body, self._context.script(body), self._context.pod_ip(body), now)
        self._pods[key] = pod
        pod.observe(body, now)
        pod.task = self._context.start(self._run_pod(pod))

    async def observed(self, key: Key, version: int) -> None:
        """Wait until this version of a pod, or a later one, has been observed."""
        pod = self._pods[key]
        while int(pod.body["metadata"]["resourceVersion"]) < version:
            await pod.observed.wait()

    def running_pods(self) -> list[str]:
        """Return the uids of the pods that run, whatever their status says."""
        now = self._context.clock.now()
        return [pod.uid for pod in self._pods.values() if pod.is_running(now)]

    # --- writing ------------------------------------------------------------------------------------------

    async def _run_pod(self, pod: SimulatedPod) -> None:
        """Write the status of a pod whenever it changes, until the pod is gone."""
        while True:
            if self._partition is not None:
                await self._partition.over.wait()
            try:
                until = await self._write_next(pod)
            except (UnavailableError, TooManyRequestsError, InternalError):
                await asyncio.sleep(_RETRY_DELAY)
                continue
            except ObjectDeletedError:
                return
            await pod.wait_for_deletion_or(self._context.clock.sleep_until(until))

    async def _write_next(self, pod: SimulatedPod) -> float:
        """Write the current status, and return when it changes; end a deleted pod whose time is over."""
        pod.deleted.clear()
        now = self._context.clock.now()
        left = pod.time_left(now)
        if left is None:
            state = pod.state(now)
            if not pod.finished:
                await self._write_status(pod, state)
            return now + max(state.lasts, _MIN_DELAY)
        if left > 0:
            return now + max(left, _MIN_DELAY)
        await self._remove(pod)
        raise ObjectDeletedError

    async def _write_status(self, pod: SimulatedPod, state: PodState) -> None:
        status = statuses.pod_status(pod.body, state, pod.ip, pod.started, self._context.clock.now())
        name, namespace = pod.name_and_namespace
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        with expect_same_object(ConflictError):
            pod.body = await self._context.cluster.patch_status(PODS, name, namespace, patch=patch)

    async def _remove(self, pod: SimulatedPod) -> None:
        """Write how the pod ended, unless it had ended before, and delete it for good."""
        if pod.body["status"].get("phase") == "Running":
            await self._write_status(pod, PodState("Failed", math.inf, exit_code=SIGTERM_EXIT_CODE))
        name, namespace = pod.name_and_namespace
        with expect_same_object(ConflictError):
            await self._context.cluster.delete(PODS, name, namespace, Deletion(grace=0, uid=pod.uid))
