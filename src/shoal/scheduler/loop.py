"""Timers: when something will be due although nothing happens.

A gang that lost a part gives up, a node that is silent is lost, an elastic job has rested long enough: the
engine decides all of these by the clock alone, so somebody has to ask it at the right moment. Each moment can
be read from what a cycle saw and decided. (A coarse tick would do too, but would be late by up to its length,
and would wake an idle cluster for nothing.)

The loop: when a cycle runs, and what becomes of its plan.

A change of the world wakes it. The first change after a rest is planned at once; what comes in a burst is
gathered, for a few tens of milliseconds or as long as the last cycle took, whichever is more. So cycles
never take more than half of the loop's time, and reflectors, writes and whoever else lives in it have the
rest: a cycle runs in the loop itself, which keeps it simple and every run the same. Beside changes there
are timers: the moment that the engine would decide otherwise for (`timers`), the end of a rest (`rests`),
and the period after which elastic sizes are planned anew.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from shoal.api.quantity import seconds
from shoal.cache.changes import Key
from shoal.cache.live import LiveWorld
from shoal.cache.pod_index import silent_since
from shoal.cache.snapshots import Assembler
from shoal.cache.world import World
from shoal.cluster.events import EventRecorder as Events
from shoal.cluster.port import Cluster
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.plan import Plan
from shoal.engine.report import CycleResult
from shoal.engine.snapshot import Snapshot
from shoal.scheduler.backoff import Rests, without
from shoal.scheduler.commit import Committer
from shoal.scheduler.decisions import decide
from shoal.scheduler.followups import Followups
from shoal.scheduler.metrics import Metrics, tell
from shoal.scheduler.observer import Observer
from shoal.scheduler.policy_client import NO_ANSWER, Counsellor, PolicyClient
from shoal.scheduler.recording import EventRecorder, exact_moment
from shoal.scheduler.status_reporter import StatusReporter
from shoal.scheduler.writes import Patience, Writes

_AFTER: Final = 0.001
"""Seconds by which a deadline that must have passed is passed."""


class Timers:
    """Knows the next moment at which the clock alone changes a plan."""

    def __init__(self, world: World, config: SchedulerConfig) -> None:
        self._world, self._config = world, config
        self._cooldown: Final = seconds(config.cooldown)
        self._silent: dict[str, float] = {}

    def next(self, changes: Mapping[str, set[Key]], snapshot: Snapshot, plan: Plan) -> float | None:
        """The first moment after a cycle at which another is due; None if only events matter."""
        self._listen(changes)
        moments = (*self._lost_nodes(), *self._given_up(plan), *self._rested(snapshot))
        return min((moment for moment in moments if moment > snapshot.now), default=None)

    def _listen(self, changes: Mapping[str, set[Key]]) -> None:
        """Note which nodes are silent, and since when."""
        for _, name in changes["Node"]:
            node = self._world.nodes.get(name)
            since = silent_since(node) if node else None
            if since is None:
                self._silent.pop(name, None)
            else:
                self._silent[name] = since

    def _lost_nodes(self) -> Iterator[float]:
        yield from (since + self._config.node_lost_seconds + _AFTER for since in self._silent.values())

    def _given_up(self, plan: Plan) -> Iterator[float]:
        for verdict in plan.verdicts.values():
            if verdict.broken is not None:
                yield verdict.broken + self._config.gang_recovery_seconds

    def _rested(self, snapshot: Snapshot) -> Iterator[float]:
        for workload in snapshot.elastic:
            if workload.growth and workload.growth.changed is not None:
                yield workload.growth.changed + self._cooldown


_LOG: Final = logging.getLogger(__name__)
COMPONENT: Final = "shoal-scheduler"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a scheduler goes about it; times in seconds.

    Changes that come within `gather` of a cycle are planned together. `stop` is how long writes that are
    under way may take when it is told to stop.
    """

    gather: float = 0.03
    stop: float = 10.0
    rest: float = 1.0
    patience: Patience = Patience()


class Scheduler:
    """Plans a live world, over and over."""

    def __init__(  # noqa: PLR0913 - all have their usual values
        self,
        cluster: Cluster,
        live: LiveWorld,
        config: SchedulerConfig,
        *,
        clock: Callable[[], float] = time.time,
        advisor: PolicyClient | None = None,
        metrics: Metrics | None = None,
        manner: Options | None = None,
        recorder: EventRecorder | None = None,
        publish: Callable[[CycleResult], None] | None = None,
    ) -> None:
        """`publish` is called with each cycle, and is to be quick."""
        self._live, self._config, self._clock = live, config, clock
        self._manner: Final = manner or Options()
        self.metrics: Final = metrics or Metrics()
        self._woken: Final = asyncio.Event()
        world = live.world
        self._changes: Final = world.follow(self._woken.set)
        self._assembler: Final = Assembler(world, config, gangs_only=True)
        writes = Writes(cluster, config, clock, self._manner.patience)
        self._telling: Final = StatusReporter(world, writes, Events(cluster, COMPONENT, clock))
        self._rests: Final = Rests(self._manner.rest)
        observer = Observer(self.metrics, self._telling)
        self._committer: Final = Committer(world, writes, self._rests, observer, self._woken.set)
        self._followups: Final = Followups(world, self._committer.is_busy)
        self._timers: Final = Timers(world, config)
        self._counsellor: Final = Counsellor(world, advisor, self._woken.set)
        self._recorder: Final = recorder
        self._publish: Final = publish
        self.cycles = 0
        """How many cycles have run."""

    async def run(self) -> None:
        """Schedule for ever; cancel it to stop. What has been begun by then is finished, if that is quick."""
        telling = asyncio.get_running_loop().create_task(self._telling.run())
        try:
            await self._live.synced()
            await self._cycles()
        finally:
            self._counsellor.cancel()
            await self._finish()
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling

    async def _finish(self) -> None:
        try:
            async with asyncio.timeout(self._manner.stop):
                await self._committer.finish()
        except TimeoutError:
            self._committer.cancel()

    # --- when ---------------------------------------------------------------------------------------------

    async def _cycles(self) -> None:
        loop, period = asyncio.get_running_loop(), seconds(self._config.optimise_period)
        while True:
            begun = loop.time()
            due = self.cycle()
            rested, took = self._rests.next(), loop.time() - begun
            self.metrics.cycles.observe(took)
            await asyncio.sleep(max(self._manner.gather, took))
            waits = [period]
            waits += [] if due is None else [due - self._clock()]
            waits += [] if rested is None else [rested - loop.time()]
            await self._wait(min(waits))

    async def _wait(self, longest: float) -> None:
        """Wait until there is something to do, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(longest, 0.0)):
                await self._woken.wait()

    # --- what ---------------------------------------------------------------------------------------------

    def cycle(self) -> float | None:
        """Plan once, and begin to make it so; when the clock alone makes another cycle due."""
        self._woken.clear()
        changes = self._changes.take()
        changed, answer = bool(changes), self._counsellor.take()
        now = self._live.world.now = exact_moment(self._clock())
        made = self._assembler.assemble(now)
        idle = self._rests.resting() | self._counsellor.undecided(made.snapshot, answer)
        snapshot, absent = without(made.snapshot, idle)

        def planned() -> CycleResult:
            return CycleResult(snapshot, cycle(snapshot, self._config, answer.advice))

        done = self._recorder.record(self._config, planned, absent) if self._recorder else planned()
        decisions = decide(self._live.world, made, done.plan)
        self._committer.commit(decisions)
        self._committer.commit(self._followups.take(changes))
        self._telling.verdicts(made, done.plan, changes)
        if changed or answer is NO_ANSWER or self._counsellor.wants_again:
            self._counsellor.ask(made.snapshot)
        self._note(done, len(decisions))
        return self._timers.next(changes, snapshot, done.plan)

    def _note(self, done: CycleResult, decisions: int) -> None:
        """Let metrics and logs know."""
        self.cycles += 1
        plan, metrics = done.plan, self.metrics
        metrics.last = done
        if self._publish:
            self._publish(done)
        metrics.under_way.set(self._committer.under_way)
        metrics.to_tell.set(len(self._telling))
        tell(
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
