"""Scheduler: when a cycle runs, and what becomes of its plan.

A change of the world wakes the loop. The first change after an idle time is planned at once; later ones are
collected for a few tens of milliseconds, or as long as the last cycle took, whichever is more. So cycles
never take more than half of the event loop's time, and reflectors and writes have the rest. A cycle runs in
the event loop itself, which keeps it simple and every run reproducible.

Beside changes there are timers: the end of a back-off, the period after which elastic sizes are planned
again, and the times at which the clock alone changes a plan (`PlanTimers`): a broken gang is given up, a
silent node is lost, the cooldown of an elastic job ends. Each can be computed from what a cycle saw and
decided. (A periodic tick would be late by up to its period, and would wake an idle cluster for nothing.)
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.quantity import parse_duration
from shoal.cache.changes import Key
from shoal.cache.live import LiveWorld
from shoal.cache.pod_index import silent_since
from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from shoal.cluster.backoff import Backoff, KeyedBackoff
from shoal.cluster.events import EventRecorder as Events
from shoal.cluster.port import Cluster
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.plan import Plan
from shoal.engine.report import CycleResult
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Workload
from shoal.scheduler.commit import Committer
from shoal.scheduler.decisions import decide
from shoal.scheduler.followups import Followups
from shoal.scheduler.metrics import Metrics, log_event
from shoal.scheduler.policy_client import NO_REPLY, PolicyCall, PolicyClient
from shoal.scheduler.recording import CycleRecorder, exact_time
from shoal.scheduler.status_reporter import DecisionObserver, StatusReporter
from shoal.scheduler.writes import WriteOptions, Writes

_AFTER: Final = 0.001
"""Seconds added to a deadline that must have passed."""


class PlanTimers:
    """Computes the next time at which the clock alone changes a plan."""

    def __init__(self, world: World, config: SchedulerConfig) -> None:
        self._world, self._config = world, config
        self._cooldown: Final = parse_duration(config.cooldown)
        self._silent: dict[str, float] = {}

    def next(self, changes: Mapping[str, set[Key]], snapshot: Snapshot, plan: Plan) -> float | None:
        """The time at which another cycle is due; None if only events matter."""
        self._update_silent(changes)
        times = (*self._lost_nodes(), *self._broken_gangs(plan), *self._cooldowns(snapshot))
        return min((time for time in times if time > snapshot.now), default=None)

    def _update_silent(self, changes: Mapping[str, set[Key]]) -> None:
        """Update which nodes are silent, and since when."""
        for _, name in changes["Node"]:
            node = self._world.nodes.get(name)
            since = silent_since(node) if node else None
            if since is None:
                self._silent.pop(name, None)
            else:
                self._silent[name] = since

    def _lost_nodes(self) -> Iterator[float]:
        yield from (since + self._config.node_lost_seconds + _AFTER for since in self._silent.values())

    def _broken_gangs(self, plan: Plan) -> Iterator[float]:
        for verdict in plan.verdicts.values():
            if verdict.broken is not None:
                yield verdict.broken + self._config.gang_recovery_seconds

    def _cooldowns(self, snapshot: Snapshot) -> Iterator[float]:
        for workload in snapshot.elastic:
            if workload.growth and workload.growth.resized_at is not None:
                yield workload.growth.resized_at + self._cooldown


def without_workloads(snapshot: Snapshot, excluded: Collection[str]) -> tuple[Snapshot, list[Workload]]:
    """The snapshot without workloads that cannot be served now, by key; and these workloads.

    Otherwise the room that each plan gives them would stay empty. A workload that is partly placed, or has
    room reserved, stays: no other workload may have that room.
    """
    if not excluded:
        return snapshot, []
    out = [w for w in snapshot.unsettled if w.key in excluded and not w.placed and not w.nominated]
    gone = set(out)
    if not gone:
        return snapshot, []
    return replace(
        snapshot,
        workloads=tuple(w for w in snapshot.workloads if w not in gone),
        unsettled=tuple(w for w in snapshot.unsettled if w not in gone),
        elastic=tuple(w for w in snapshot.elastic if w not in gone),
    ), out


_LOG: Final = logging.getLogger(__name__)
COMPONENT: Final = "shoal-scheduler"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the scheduler; times in seconds.

    Changes that arrive within `gather` of a cycle are planned together. Writes in progress may take `stop`
    when the scheduler is stopped. `backoff` applies to workloads whose write was refused.
    """

    gather: float = 0.03
    stop: float = 10.0
    backoff: Backoff = Backoff(1.0, 60.0)
    writes: WriteOptions = WriteOptions()


class Scheduler:
    """Plans a live world in cycles, and commits the plans."""

    def __init__(  # noqa: PLR0913 - most have defaults
        self,
        cluster: Cluster,
        live: LiveWorld,
        config: SchedulerConfig,
        *,
        clock: Callable[[], float] = time.time,
        policy_call: PolicyCall | None = None,
        metrics: Metrics | None = None,
        options: Options | None = None,
        recorder: CycleRecorder | None = None,
        publish: Callable[[CycleResult], None] | None = None,
    ) -> None:
        """`publish` is called with the result of each cycle; it must not block."""
        self._live, self._config, self._clock = live, config, clock
        self._options: Final = options or Options()
        self.metrics: Final = metrics or Metrics()
        self._woken: Final = asyncio.Event()
        world = live.world
        self._changes: Final = world.follow(self._woken.set)
        self._builder: Final = SnapshotBuilder(world, config, gangs_only=True)
        writes = Writes(cluster, config, clock, self._options.writes)
        self._reporter: Final = StatusReporter(world, writes, Events(cluster, COMPONENT, clock))
        self._backoff: Final = KeyedBackoff[str](self._options.backoff)
        observer = DecisionObserver(self.metrics, self._reporter)
        self._committer: Final = Committer(world, writes, self._backoff, observer, self._woken.set)
        self._followups: Final = Followups(world, self._committer.is_busy)
        self._timers: Final = PlanTimers(world, config)
        self._policy: Final = PolicyClient(world, policy_call, self._woken.set)
        self._recorder: Final = recorder
        self._publish: Final = publish
        self.cycles = 0
        """Number of cycles so far."""

    async def run(self) -> None:
        """Schedule until cancelled. Writes in progress may then end, within a timeout."""
        reporting = asyncio.get_running_loop().create_task(self._reporter.run())
        try:
            await self._live.synced()
            await self._cycles()
        finally:
            self._policy.cancel()
            await self._finish()
            reporting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reporting

    async def _finish(self) -> None:
        try:
            async with asyncio.timeout(self._options.stop):
                await self._committer.finish()
        except TimeoutError:
            self._committer.cancel()

    # --- when ---------------------------------------------------------------------------------------------

    async def _cycles(self) -> None:
        loop, period = asyncio.get_running_loop(), parse_duration(self._config.optimise_period)
        while True:
            begun = loop.time()
            due = self.cycle()
            retry, took = self._backoff.next_expiry(loop.time()), loop.time() - begun
            self.metrics.cycles.observe(took)
            await asyncio.sleep(max(self._options.gather, took))
            waits = [period]
            waits += [] if due is None else [due - self._clock()]
            waits += [] if retry is None else [retry - loop.time()]
            await self._wait(min(waits))

    async def _wait(self, longest: float) -> None:
        """Wait until the loop is woken, or `longest` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(longest, 0.0)):
                await self._woken.wait()

    # --- what ---------------------------------------------------------------------------------------------

    def cycle(self) -> float | None:
        """Plan once, and start to commit the plan.

        Return the time at which the clock makes another cycle due.
        """
        self._woken.clear()
        changes = self._changes.take()
        changed, reply = bool(changes), self._policy.take()
        now = self._live.world.now = exact_time(self._clock())
        built = self._builder.build(now)
        excluded = self._committer.in_backoff() | self._policy.undecided(built.snapshot, reply)
        snapshot, absent = without_workloads(built.snapshot, excluded)

        def plan() -> CycleResult:
            return CycleResult(snapshot, cycle(snapshot, self._config, reply.answers))

        result = self._recorder.record(self._config, plan, absent) if self._recorder else plan()
        decisions = decide(self._live.world, built, result.plan)
        self._committer.commit(decisions)
        self._committer.commit(self._followups.take(changes))
        self._reporter.verdicts(built, result.plan, changes)
        if changed or reply is NO_REPLY or self._policy.wants_again:
            self._policy.ask(built.snapshot)
        self._report(result, len(decisions))
        return self._timers.next(changes, snapshot, result.plan)

    def _report(self, result: CycleResult, decisions: int) -> None:
        """Update metrics, and log the cycle."""
        self.cycles += 1
        plan, metrics = result.plan, self.metrics
        metrics.last = result
        if self._publish:
            self._publish(result)
        metrics.under_way.set(self._committer.in_progress)
        metrics.to_tell.set(len(self._reporter))
        log_event(
            _LOG,
            logging.INFO if decisions else logging.DEBUG,
            "cycle",
            number=self.cycles,
            placed=len(plan.placements),
            evicted=len(plan.evictions),
            nominated=len(plan.nominations),
            decisions=decisions,
            waiting=sum(verdict.waiting for verdict in plan.verdicts.values()),
        )
