"""Manages one pod, from its assignment to the node until its object is deleted.

A sync: observe, decide (pure), act, report. All state comes from the pod and from the runtime, so a worker of
another process can continue at any time.
"""

import asyncio
import contextlib
import logging
import math
from datetime import datetime
from typing import Final

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.errors import ClusterError, ConflictError
from shoal.cluster.port import Deletion, ObjectDeletedError, expect_same_object
from shoal.cluster.resources import PODS, Object
from shoal.kubelet.containers import PodContainers
from shoal.kubelet.context import AgentContext
from shoal.kubelet.lifecycle import PodDecision, PodObservation, decide
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.pod_status import build_pod_status

_LOG: Final = logging.getLogger(__name__)
_RETRY_DELAY: Final = 1.0
"""Seconds until a sync that failed is tried again."""
_MAX_WAIT: Final = 600.0
"""Longest time in seconds between syncs: the wall clock may jump, and timers do not notice."""

_DOWNWARD_FIELDS: Final = ("labels", "annotations")
"""Metadata that volumes of the downward API can show, and that may change."""


class PodWorker:
    """Manages a pod: `run` works until the pod is deleted or it is cancelled."""

    def __init__(self, pod: Object, node: LocalNode, context: AgentContext) -> None:
        self.pod = pod
        self.node: Final = node
        self._context: Final = context
        self._changed: Final = asyncio.Event()
        self._containers: Final = PodContainers(pod, node, context, self._changed.set)
        self._reported: Object = {}
        self._stale_volumes = True
        """Whether volumes may differ from what they refer to; at first because no worker saw the changes."""

    def update(self, pod: Object) -> None:
        """Take a newer version of the pod."""
        if _version(pod) > _version(self.pod):
            if any(pod["metadata"].get(one) != self.pod["metadata"].get(one) for one in _DOWNWARD_FIELDS):
                self._stale_volumes = True
            self.pod = pod
            self._changed.set()

    def refresh_volumes(self) -> None:
        """Update the contents of the pod's volumes."""
        self._stale_volumes = True
        self._changed.set()

    async def run(self) -> None:
        """Sync whenever something has changed."""
        try:
            with contextlib.suppress(ObjectDeletedError):
                while True:
                    await self._wait_until(await self._sync_or_retry())
        finally:
            self._containers.close()

    async def _sync_or_retry(self) -> float:
        self._changed.clear()
        try:
            return await self._sync()
        except ObjectDeletedError:
            raise
        except ClusterError as error:
            _LOG.debug("pod %s: %s", self.pod["metadata"]["name"], error.message)
        except Exception:  # noqa: BLE001 - the pod must stay managed after any error
            _LOG.exception("pod %s/%s", self.pod["metadata"]["namespace"], self.pod["metadata"]["name"])
        return self._context.clock() + _RETRY_DELAY

    async def _wait_until(self, until: float) -> None:
        wait = min(max(until - self._context.clock(), 0.0), _MAX_WAIT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(until) and self._has_ended else wait):
                await self._changed.wait()

    @property
    def _has_ended(self) -> bool:
        return self.pod.get("status", {}).get("phase") in FINISHED_PHASES

    # --- sync ---------------------------------------------------------------------------------------------

    async def _sync(self) -> float:
        observation, decision = self._observe()
        await self._stop_containers(decision)
        if self._stale_volumes and observation.running:
            await self._refresh_volumes()
        for name in decision.start:
            last = observation.last(name)
            await self._containers.start(observation.pod, name, last.attempt + 1 if last else 0)
        if decision.start:
            observation, decision = self._observe()
        await self._report(observation, decision)
        if decision.phase in FINISHED_PHASES and not observation.running:
            await self._finish()
        return self._context.clock() if decision.start else decision.recheck_at

    def _observe(self) -> tuple[PodObservation, PodDecision]:
        pod = self.pod
        self._containers.adopt_runs(pod)
        observation = PodObservation(
            pod=pod,
            now=self._context.clock(),
            runs=self._containers.runs(pod),
            health=self._containers.health(),
            start_failures=self._containers.start_failures,
            restart=self._context.restart,
        )
        return observation, decide(observation)

    async def _refresh_volumes(self) -> None:
        self._stale_volumes = False
        try:
            await self._containers.refresh_volumes(self.pod)
        except BaseException:
            self._stale_volumes = True
            raise

    async def _stop_containers(self, decision: PodDecision) -> None:
        for name, reason in decision.stop.items():
            if self._containers.stop(name, self._remaining_grace()):
                message = f"Stopping container {name}: {reason}"
                await self._context.record_event(self.pod, "Killing", message, normal=True)

    def _remaining_grace(self) -> float:
        """Seconds that a container may take to stop; a deleted pod has a deadline."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if "deletionTimestamp" not in metadata:
            return float(spec.get("terminationGracePeriodSeconds", 30))
        deadline = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
        left = deadline - self._context.clock()
        return max(min(left, float(metadata.get("deletionGracePeriodSeconds", 0))), 0.0)

    async def _report(self, observation: PodObservation, decision: PodDecision) -> None:
        """Write the status of the pod if it has changed."""
        for kind, message in self._containers.take_probe_failures():
            await self._context.record_event(self.pod, "Unhealthy", f"{kind} probe failed: {message}")
        status = build_pod_status(observation, decision, self._context.names.address(observation.pod))
        if self._has_ended or status == self._reported:
            return
        await self._write_status(observation.pod, status)
        for name, (reason, _) in decision.waiting.items():
            if reason == "CrashLoopBackOff":
                await self._context.record_event(
                    self.pod, "BackOff", f"Back-off restarting failed container {name}"
                )

    async def _write_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": same, "status": status}
        try:
            with expect_same_object():
                written = await self._context.cluster.patch_status(
                    PODS, metadata["name"], metadata["namespace"], patch=patch
                )
        except ConflictError:
            await self._refresh()
            return
        self._reported = status
        if _version(written) > _version(self.pod):
            self.pod = written

    async def _refresh(self) -> None:
        metadata = self.pod["metadata"]
        with expect_same_object():
            newest = await self._context.cluster.get(PODS, metadata["name"], metadata["namespace"])
        if newest["metadata"]["uid"] != metadata["uid"]:
            raise ObjectDeletedError
        self.pod = newest
        self._changed.set()

    async def _finish(self) -> None:
        """Release the devices of an ended pod; if it was deleted, remove its object."""
        metadata = self.pod["metadata"]
        self._context.devices.release(metadata["uid"])
        if "deletionTimestamp" in metadata and self._has_ended:
            with expect_same_object():
                await self._context.cluster.delete(
                    PODS, metadata["name"], metadata["namespace"], Deletion(grace=0, uid=metadata["uid"])
                )


def _version(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
