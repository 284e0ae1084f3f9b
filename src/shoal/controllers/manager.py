"""The controller manager: all controllers of one cluster, with their stores.

Pools are Shoal's own kind, and always have a controller. Jobs and disruption budgets belong to Kubernetes: a
Kubernetes cluster has controllers for them, any other cluster needs ours. The controller of lost nodes runs
everywhere; on Kubernetes it only deletes pods of our job kinds.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.controllers.budgets import budget_controller
from shoal.controllers.metrics import ControllerMetrics
from shoal.controllers.nodes import node_controller
from shoal.controllers.pools import PoolStatusSource, pool_controller
from shoal.controllers.runtime import Controller, ControllerRuntime
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig

ControllerFactory = Callable[[Stores, SchedulerConfig], Controller[Any] | None]
"""Makes a controller that reads from the stores; None if there is nothing to run."""

_STOP_TIMEOUT: Final = 10.0
"""Seconds that running reconciles have to end when the manager stops."""


class ControllerManager:
    """Controllers, and the stores that they read, which reflectors fill."""

    def __init__(  # noqa: PLR0913 - what controllers work with
        self,
        cluster: Cluster,
        reflectors: Reflectors,
        config: SchedulerConfig,
        *,
        native: bool,
        job_controllers: Sequence[ControllerFactory] = (),
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Run the controllers of job kinds; with `native`, also that of budgets, and judge nodes.

        The caller runs the reflectors. Metrics go into the `registry`.
        """
        stores = Stores()
        self.pool_statuses: Final = PoolStatusSource(clock)
        """Where the scheduler publishes its cycles."""
        controllers: list[Controller[Any]] = [pool_controller(stores, self.pool_statuses)]
        controllers += [made for factory in job_controllers if (made := factory(stores, config)) is not None]
        controllers.append(node_controller(stores, config.node_lost_seconds, native=native))
        if native:
            controllers.append(budget_controller(stores))
        self._runtime: Final = ControllerRuntime(
            cluster, stores, controllers, clock=clock, rng=rng, metrics=ControllerMetrics(registry)
        )
        self._synced: Final = reflectors.synced
        stores.follow(reflectors)

    async def run(self) -> None:
        """Run until cancelled. Reconciles that are running by then may end, within a timeout."""
        await self._synced()
        running = asyncio.get_running_loop().create_task(self._runtime.run())
        try:
            await asyncio.shield(running)
        finally:
            self._runtime.stop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(running, _STOP_TIMEOUT)

    @property
    def backlog(self) -> int:
        """Number of keys that are queued or being reconciled."""
        return self._runtime.backlog
