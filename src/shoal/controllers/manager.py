"""The house: all controllers on one cluster, and what they need to work.

Pools are Shoal's own, and are always looked after. Jobs, disruption budgets and silent nodes are Kubernetes'
own kinds: a Kubernetes cluster has controllers for them, every other home needs ours.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.controllers.budgets import budget_controller
from shoal.controllers.metrics import Measures
from shoal.controllers.nodes import node_controller
from shoal.controllers.pools import Board, pool_controller
from shoal.controllers.runtime import Controller, Runtime
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.batchjob.reconcile import job_controller

_STOP: Final = 10.0
"""Seconds for what is under way when it is told to stop."""


class House:
    """Controllers, and the stores that they look at, which reflectors fill."""

    def __init__(  # noqa: PLR0913 - what controllers work with
        self,
        cluster: Cluster,
        reflectors: Reflectors,
        config: SchedulerConfig,
        *,
        native: bool,
        clock: Callable[[], float] = time.time,
        dice: random.Random | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`native`: whether to look after Kubernetes' own kinds too. Somebody has to run the reflectors.

        What is measured goes into the `registry`.
        """
        stores = Stores()
        self.board: Final = Board(clock)
        """Where the scheduler leaves its figures."""
        controllers: list[Controller[Any]] = [pool_controller(stores, self.board)]
        if native:
            controllers += [
                job_controller(stores),
                budget_controller(stores),
                node_controller(stores, config.node_lost_seconds),
            ]
        self._runtime: Final = Runtime(
            cluster, stores, controllers, clock=clock, dice=dice, measures=Measures(registry)
        )
        self._synced: Final = reflectors.synced
        stores.follow(reflectors)

    async def run(self) -> None:
        """Work until cancelled. What has been begun by then is finished first, if that is quick."""
        await self._synced()
        working = asyncio.get_running_loop().create_task(self._runtime.run())
        try:
            await asyncio.shield(working)
        finally:
            await self._finish(working)

    async def _finish(self, working: asyncio.Task[None]) -> None:
        self._runtime.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(working, _STOP)

    @property
    def busy(self) -> int:
        """How many keys wait for a turn or are at it."""
        return self._runtime.busy
