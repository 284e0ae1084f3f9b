"""The loop: when a cycle runs, and what becomes of its plan.

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
from collections.abc import Callable
from typing import Final

import msgspec

from shoal.api.durations import seconds
from shoal.cluster.events import Recorder as Events
from shoal.cluster.live import LiveWorld
from shoal.cluster.port import Cluster
from shoal.scheduler.advisor import NO_ANSWER, Advisor, Counsellor
from shoal.scheduler.commit import Committer
from shoal.scheduler.decisions import decide
from shoal.scheduler.followups import Followups
from shoal.scheduler.logs import tell
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.observer import Observer
from shoal.scheduler.recording import Recorder, exact_moment
from shoal.scheduler.rests import Rests, without
from shoal.scheduler.telling import Telling
from shoal.scheduler.timers import Timers
from shoal.scheduler.writes import Patience, Writes
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.cycle import cycle
from shoal.scheduling.report import Step
from shoal.world.assembly import Assembler

_LOG: Final = logging.getLogger(__name__)
COMPONENT: Final = "shoal-scheduler"


class Manner(msgspec.Struct, frozen=True, kw_only=True):
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
        advisor: Advisor | None = None,
        metrics: Metrics | None = None,
        manner: Manner | None = None,
        recorder: Recorder | None = None,
        publish: Callable[[Step], None] | None = None,
    ) -> None:
        """`publish` is called with each cycle, and is to be quick."""
        self._live, self._config, self._clock = live, config, clock
        self._manner: Final = manner or Manner()
        self.metrics: Final = metrics or Metrics()
        self._woken: Final = asyncio.Event()
        world = live.world
        self._changes: Final = world.follow(self._woken.set)
        self._assembler: Final = Assembler(world, config, gangs_only=True)
        writes = Writes(cluster, config, clock, self._manner.patience)
        self._telling: Final = Telling(world, writes, Events(cluster, COMPONENT, clock))
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

        def planned() -> Step:
            return Step(snapshot, cycle(snapshot, self._config, answer.advice))

        done = self._recorder.record(self._config, planned, absent) if self._recorder else planned()
        decisions = decide(self._live.world, made, done.plan)
        self._committer.commit(decisions)
        self._committer.commit(self._followups.take(changes))
        self._telling.verdicts(made, done.plan, changes)
        if changed or answer is NO_ANSWER or self._counsellor.wants_again:
            self._counsellor.ask(made.snapshot)
        self._note(done, len(decisions))
        return self._timers.next(changes, snapshot, done.plan)

    def _note(self, done: Step, decisions: int) -> None:
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
