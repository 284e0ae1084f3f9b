"""A pod on a machine: as it was last seen, its life, and since when it lives."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from shoal.cluster.resources import Object
from shoal.simulator.kubelet import statuses
from shoal.simulator.kubelet.lives import Life, Moment, moment_of


class Pod:
    """A pod that its node has."""

    task: asyncio.Task[None]

    def __init__(self, thing: Object, life: Life, address: str, now: float) -> None:
        self.thing = thing
        self.life: Final = life
        self.address: Final = address
        began = thing.get("status", {}).get("startTime")
        self.started: Final = statuses.read(began) if began else now
        self.changed: Final = asyncio.Event()
        self.heard: Final = asyncio.Event()
        self._deleted: float | None = None
        """When its deletion was heard of."""

    @property
    def uid(self) -> str:
        return str(self.thing["metadata"]["uid"])

    @property
    def place(self) -> tuple[str, str]:
        return self.thing["metadata"]["name"], self.thing["metadata"]["namespace"]

    @property
    def has_ended(self) -> bool:
        """What has ended stays so, whoever takes over."""
        return self.thing.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def hear(self, thing: Object, now: float) -> None:
        """Only a deletion matters: everything else about the pod is ours to say."""
        self.thing = thing
        self.heard.set()
        self.heard.clear()
        if "deletionTimestamp" in thing["metadata"]:
            self._deleted = now if self._deleted is None else self._deleted
            self.changed.set()

    def moment(self, now: float) -> Moment:
        return moment_of(self.life, now - self.started, self.thing["spec"].get("restartPolicy", "Always"))

    def runs(self, now: float) -> bool:
        """Whether its processes are there."""
        left = self.left(now)
        return not self.has_ended and self.moment(now).phase == "Running" and (left is None or left > 0)

    def left(self, now: float) -> float | None:
        """Seconds until a pod that was deleted is to end; None if it was not deleted."""
        if self._deleted is None:
            return None
        grace = self.thing["metadata"].get("deletionGracePeriodSeconds", 0)
        return self._deleted + min(self.life.dying, float(grace)) - now

    async def changed_or(self, sleep: Coroutine[Any, Any, None]) -> None:
        """Come back after the sleep, or when something changed."""
        tasks = [asyncio.ensure_future(sleep), asyncio.ensure_future(self.changed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
