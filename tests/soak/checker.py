"""Checks every invariant after every commit, and keeps the first violation."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoal.apiserver.registry.records import Change
from shoal.simulator import FaultInjector
from tests.kinds.promises import JobPromises
from tests.soak.elastic import check_sizes
from tests.soak.invariants import FINAL_INVARIANTS, INVARIANTS
from tests.soak.observed_state import MAX_FAULT_EFFECT, ObservedState

_IGNORED = ("leases.coordination.k8s.io", "events")
_POLL_INTERVAL = 60.0
"""Seconds between two checks whether everything is finished."""


class InvariantChecker:
    """A commit observer. A violation is reported with the invariant, what happened, and the time."""

    def __init__(self, state: ObservedState, faults: FaultInjector) -> None:
        self.state, self._faults = state, faults
        self.violation = ""
        self.promises = JobPromises([])
        self.over = asyncio.Event()
        """Set at the first violation: there is no use in going on."""
        self.commits = 0
        self._faults_seen = 0
        self._writes: list[str] = []
        """Recent writes, without Leases and Events."""

    def __call__(self, changes: Sequence[Change]) -> None:
        try:
            self._check(changes)
        except Exception as error:  # noqa: BLE001 - the store would only log it, whatever it is
            self.report_violation("the_checker_works", repr(error))

    def _check(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        self._writes += [f"{one.record.key}" for one in changes if one.record.key.resource not in _IGNORED]
        if self.violation:
            return
        if len(self._faults.log) > self._faults_seen:
            self._faults_seen, self.state.faults_over_at = (
                len(self._faults.log),
                self.state.now() + MAX_FAULT_EFFECT,
            )
        for broken in self.promises.observe(changes):
            self.report_violation("jobs_keep_their_promises", broken)
        for broken in check_sizes(changes):
            self.report_violation("elastic_jobs_are_sized_calmly", broken)
        for step in self.state.apply(changes):
            for invariant in INVARIANTS:
                for violation in invariant(self.state, step):
                    self.report_violation(invariant.__name__, violation)

    def report_violation(self, invariant: str, violation: str) -> None:
        """Record a violation, if it is the first."""
        self.violation = self.violation or f"{invariant}: {violation} (after {self.state.now():.3f} s)"
        self.over.set()

    async def expect_finished_within(self, seconds: float) -> None:
        """Wait until the final invariants hold; it is a violation if they do not by then."""
        last = self.state.now() + seconds
        while (unfinished := self._unfinished()) and self.state.now() < last:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(_POLL_INTERVAL)
        for invariant, violation in unfinished:
            self.report_violation(invariant, violation)

    async def expect_idle_for(self, seconds: float) -> None:
        """Wait, while nothing happens: any write but that of a Lease or an Event is a violation."""
        self._writes = []
        await asyncio.sleep(seconds)
        for what in self._writes:
            self.report_violation(
                "nothing_is_written_when_idle", f"{what} is written, although nothing has happened"
            )

    def _unfinished(self) -> list[tuple[str, str]]:
        unfinished = [("all_jobs_finish", job) for job in self.promises.unfinished()]
        return unfinished + [
            (invariant.__name__, violation)
            for invariant in FINAL_INVARIANTS
            for violation in invariant(self.state)
        ]

    @contextmanager
    def errors_are_violations(self) -> Iterator[None]:
        """Make every error that Shoal logs in this block a violation."""

        class ErrorHandler(logging.Handler):
            def emit(_, record: logging.LogRecord) -> None:  # noqa: N805 - self is the checker
                self.report_violation("no_errors_are_logged", logging.Formatter().format(record))

        handler, log = ErrorHandler(logging.ERROR), logging.getLogger("shoal")
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
