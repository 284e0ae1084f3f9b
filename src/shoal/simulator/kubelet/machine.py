"""One machine: the pods of a node, what is heard and said about them, and times when nothing can be."""

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from shoal.cluster.errors import ConflictError, InternalError, TooManyRequestsError, UnavailableError
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster, Deletion, VanishedError, of_this_object
from shoal.cluster.resources import PODS, Object
from shoal.simulator.kubelet import statuses
from shoal.simulator.kubelet.lives import Moment, Script
from shoal.simulator.kubelet.pod import Pod

KILLED: Final = 143
"""The exit code of what ends because it is told to."""
_AGAIN: Final = 0.1
"""Seconds after which something is tried again that the cluster could not do just then."""
_SOON: Final = 0.001
"""The least that is waited: seconds since 1970 are too coarse to tell when a billionth of one has passed."""


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Come back when it is about that late, or sooner; never, if that is never."""


class LoopClock:
    """A wall clock, with the time of the running loop to wait by: real, or simulated."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.now: Final = wall

    async def sleep_until(self, moment: float) -> None:
        if math.isinf(moment):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(max(moment - self.now(), 0.0))


class Surroundings:
    """What the machines of a kubelet have in common."""

    def __init__(self, cluster: Cluster, clock: Clock, script: Script) -> None:
        self.cluster: Final = cluster
        self.clock: Final = clock
        self.script = script
        self.tasks: Final = set[asyncio.Task[None]]()
        self._addresses: Final = (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in itertools.count(1))
        self._taken: Final = set[str]()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def address(self, thing: Object) -> str:
        """A pod's own if it has one already, else the next that nobody has had."""
        own = thing.get("status", {}).get("podIP")
        address: str = own or next(each for each in self._addresses if each not in self._taken)
        self._taken.add(address)
        return address


class _Absence:
    """A time without a connection: until when, and what was missed of each pod."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.over: Final = asyncio.Event()
        self.missed: Final[dict[Key, Change[Object]]] = {}


class Machine:
    """A node's pods, and their lives."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name: Final = name
        self._around: Final = around
        self._pods: Final[dict[Key, Pod]] = {}
        self._absence: _Absence | None = None

    # --- absence ------------------------------------------------------------------------------------------

    @property
    def lost(self) -> bool:
        """Whether it is cut off."""
        return self._absence is not None

    def cut_off(self, until: float) -> bool:
        """Hear and say nothing until then, or longer if that was so already; whether it was not."""
        if self._absence is not None:
            self._absence.until = max(self._absence.until, until)
            return False
        self._absence = _Absence(until)
        return True

    async def back(self) -> None:
        """Wait for the end of the absence, and hear what was missed."""
        absence = self._absence
        if absence is None:
            return
        while self._around.clock.now() < absence.until:
            await self._around.clock.sleep_until(absence.until)
        self._absence = None
        absence.over.set()
        for change in absence.missed.values():
            self.hear(change)

    # --- hearing ------------------------------------------------------------------------------------------

    def hear(self, change: Change[Object]) -> None:
        """Take note of a change of one of its pods, now or when it is back."""
        if self._absence is not None:
            self._absence.missed[change.key] = change
        elif isinstance(change, Put):
            self._hear_of(change.key, change.item)
        elif change.key in self._pods:
            self._pods.pop(change.key).task.cancel()

    def _hear_of(self, key: Key, thing: Object) -> None:
        """Begin the life of a pod that is new here, or tell it that something changed."""
        known, now = self._pods.get(key), self._around.clock.now()
        if known is not None and known.uid == thing["metadata"]["uid"]:
            known.hear(thing, now)
            return
        if known is not None:
            known.task.cancel()
        pod = Pod(thing, self._around.script(thing), self._around.address(thing), now)
        self._pods[key] = pod
        pod.hear(thing, now)
        pod.task = self._around.begin(self._live(pod))

    async def heard_of(self, key: Key, version: int) -> None:
        """Come back when this version of a pod is known, or a later one."""
        pod = self._pods[key]
        while int(pod.thing["metadata"]["resourceVersion"]) < version:
            await pod.heard.wait()

    def running(self) -> list[str]:
        """The uids of the pods that run, whatever anybody was told."""
        now = self._around.clock.now()
        return [pod.uid for pod in self._pods.values() if pod.runs(now)]

    # --- saying -------------------------------------------------------------------------------------------

    async def _live(self, pod: Pod) -> None:
        """Write what the pod is, as often as that changes, until it is gone."""
        while True:
            if self._absence is not None:
                await self._absence.over.wait()
            try:
                until = await self._write_next(pod)
            except (UnavailableError, TooManyRequestsError, InternalError):
                await asyncio.sleep(_AGAIN)
                continue
            except VanishedError:
                return
            await pod.changed_or(self._around.clock.sleep_until(until))

    async def _write_next(self, pod: Pod) -> float:
        """Write how the pod is now, and return when that changes; end it if its time has come."""
        pod.changed.clear()
        now = self._around.clock.now()
        left = pod.left(now)
        if left is None:
            moment = pod.moment(now)
            if not pod.has_ended:
                await self._write(pod, moment)
            return now + max(moment.lasts, _SOON)
        if left > 0:
            return now + max(left, _SOON)
        await self._end(pod)
        raise VanishedError

    async def _write(self, pod: Pod, moment: Moment) -> None:
        status = statuses.pod_status(pod.thing, moment, pod.address, pod.started, self._around.clock.now())
        name, namespace = pod.place
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        with of_this_object(ConflictError):
            pod.thing = await self._around.cluster.patch_status(PODS, name, namespace, patch=patch)

    async def _end(self, pod: Pod) -> None:
        """Write how it ended, unless it had ended before, and remove it."""
        if pod.thing["status"].get("phase") == "Running":
            await self._write(pod, Moment("Failed", math.inf, exit_code=KILLED))
        name, namespace = pod.place
        with of_this_object(ConflictError):
            await self._around.cluster.delete(PODS, name, namespace, Deletion(grace=0, uid=pod.uid))
