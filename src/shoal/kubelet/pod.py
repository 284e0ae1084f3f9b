"""Looks after one pod, from the moment that its node has it until it is gone.

A turn: look, judge (pure), act, tell. All that is known comes from the pod and from the runtime: whoever
looks next, in another process, goes on from there.
"""

import asyncio
import contextlib
import logging
import math
from datetime import datetime
from typing import Final

from shoal.cluster.errors import ClusterError, ConflictError
from shoal.cluster.port import Deletion, VanishedError, of_this_object
from shoal.cluster.resources import PODS, Object
from shoal.kubelet.containers import Containers
from shoal.kubelet.context import Station
from shoal.kubelet.lifecycle import ENDED, Next, Seen, judge
from shoal.kubelet.nodes import Machine
from shoal.kubelet.statuses import status_of

_LOG: Final = logging.getLogger(__name__)
_AGAIN: Final = 1.0
"""Seconds until what the cluster refused is tried again."""
_LONGEST: Final = 600.0
"""Clocks may jump, timers do not know: a pod is looked at so often at least."""


class PodKeeper:
    """Looks after a pod. `run` does, until the pod is gone or it is cancelled."""

    def __init__(self, pod: Object, machine: Machine, station: Station) -> None:
        self.pod = pod
        self.machine: Final = machine
        self._station: Final = station
        self._changed: Final = asyncio.Event()
        self._containers: Final = Containers(pod, machine, station, self._changed.set)
        self._said: Object = {}

    def hear(self, pod: Object) -> None:
        """Something about the pod has changed."""
        if _version(pod) > _version(self.pod):
            self.pod = pod
            self._changed.set()

    async def run(self) -> None:
        """Do what is to be done, as often as something happens."""
        try:
            with contextlib.suppress(VanishedError):
                while True:
                    await self._rest(await self._turn_or_wait())
        finally:
            self._containers.close()

    async def _turn_or_wait(self) -> float:
        self._changed.clear()
        try:
            return await self._turn()
        except VanishedError:
            raise
        except ClusterError as problem:
            _LOG.debug("pod %s: %s", self.pod["metadata"]["name"], problem.message)
        except Exception:  # noqa: BLE001 - whatever it is, it is no reason to leave a pod alone
            _LOG.exception("pod %s/%s", self.pod["metadata"]["namespace"], self.pod["metadata"]["name"])
        return self._station.clock() + _AGAIN

    async def _rest(self, until: float) -> None:
        wait = min(max(until - self._station.clock(), 0.0), _LONGEST)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(until) and self._has_ended else wait):
                await self._changed.wait()

    @property
    def _has_ended(self) -> bool:
        return self.pod.get("status", {}).get("phase") in ENDED

    # --- a turn -------------------------------------------------------------------------------------------

    async def _turn(self) -> float:
        seen, plan = self._look()
        await self._stop(plan)
        for name in plan.start:
            last = seen.last(name)
            await self._containers.start(seen.pod, name, last.attempt + 1 if last else 0)
        if plan.start:
            seen, plan = self._look()
        await self._tell(seen, plan)
        if plan.phase in ENDED and not seen.living:
            await self._finish()
        return self._station.clock() if plan.start else plan.again

    def _look(self) -> tuple[Seen, Next]:
        pod = self.pod
        self._containers.follow(pod)
        seen = Seen(
            pod=pod,
            now=self._station.clock(),
            turns=self._containers.turns(pod),
            health=self._containers.health(),
            obstacles=self._containers.obstacles,
            pace=self._station.pace,
        )
        return seen, judge(seen)

    async def _stop(self, plan: Next) -> None:
        for name, why in plan.stop.items():
            if self._containers.stop(name, self._grace()):
                message = f"Stopping container {name}: {why}"
                await self._station.note(self.pod, "Killing", message, normal=True)

    def _grace(self) -> float:
        """How long a container may take to stop; a pod that was deleted has a time to be gone by."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if "deletionTimestamp" not in metadata:
            return float(spec.get("terminationGracePeriodSeconds", 30))
        due = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
        left = due - self._station.clock()
        return max(min(left, float(metadata.get("deletionGracePeriodSeconds", 0))), 0.0)

    async def _tell(self, seen: Seen, plan: Next) -> None:
        """Write how the pod stands, if that is news."""
        for kind, said in self._containers.failures():
            await self._station.note(self.pod, "Unhealthy", f"{kind} probe failed: {said}")
        status = status_of(seen, plan, self._station.directory.address(seen.pod))
        if self._has_ended or status == self._said:
            return
        await self._write(seen.pod, status)
        for name, (reason, _) in plan.waiting.items():
            if reason == "CrashLoopBackOff":
                await self._station.note(self.pod, "BackOff", f"Back-off restarting failed container {name}")

    async def _write(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": same, "status": status}
        try:
            with of_this_object():
                written = await self._station.cluster.patch_status(
                    PODS, metadata["name"], metadata["namespace"], patch=patch
                )
        except ConflictError:
            await self._read_again()
            return
        self._said = status
        if _version(written) > _version(self.pod):
            self.pod = written

    async def _read_again(self) -> None:
        metadata = self.pod["metadata"]
        with of_this_object():
            newest = await self._station.cluster.get(PODS, metadata["name"], metadata["namespace"])
        if newest["metadata"]["uid"] != metadata["uid"]:
            raise VanishedError
        self.pod = newest
        self._changed.set()

    async def _finish(self) -> None:
        """What has ended needs nothing any more; if it was deleted, it is gone now."""
        metadata = self.pod["metadata"]
        self._station.devices.release(metadata["uid"])
        if "deletionTimestamp" in metadata and self._has_ended:
            with of_this_object():
                await self._station.cluster.delete(
                    PODS, metadata["name"], metadata["namespace"], Deletion(grace=0, uid=metadata["uid"])
                )


def _version(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
