"""The fault injector: looks up which faults of a schedule apply to which call, and when."""

import asyncio
import contextvars
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final, Protocol

from shoal.simulator.schedule import (
    CALL_TYPES,
    AnyFault,
    BreakWatch,
    ClockJump,
    Crash,
    Freeze,
    NodeLoss,
    Outage,
    Schedule,
    format_fault,
)
from shoal.simulator.simulation import WallClock


class FaultTarget(Protocol):
    """A connection that global faults apply to."""

    def crash(self, fault: Crash) -> None: ...

    def freeze(self, fault: Freeze) -> None: ...

    def break_watches(self, fault: BreakWatch) -> None: ...


class FaultInjector:
    """A schedule that begins when the injector is made. It outlives the processes that crash."""

    def __init__(self, schedule: Schedule, clock: WallClock) -> None:
        self.log: Final[list[str]] = []
        """The faults so far, with their times."""
        self.node_loss_handlers: Final[list[Callable[[NodeLoss], None]]] = []
        """Called when a node is lost, outside of the process whose call caused it."""
        self._loop: Final = asyncio.get_running_loop()
        self._began: Final = self._loop.time()
        self._clock: Final = clock
        self._context: Final = contextvars.copy_context()
        self._targets: Final[dict[FaultTarget, None]] = {}
        self._by_count: Final[defaultdict[tuple[str, int], list[AnyFault]]] = defaultdict(list)
        self._by_time: Final[defaultdict[str, deque[AnyFault]]] = defaultdict(deque)
        self._calls: Final[Counter[str]] = Counter()
        """Calls so far, by what a fault is on; only those that a fault is on are counted."""
        self._outage_until = self._began
        for fault in sorted(schedule.faults, key=lambda fault: fault.at or 0.0):
            self._arm(fault)

    def register(self, target: FaultTarget) -> None:
        """Apply global faults to a connection from now on."""
        self._targets[target] = None

    def unregister(self, target: FaultTarget) -> None:
        """Apply no more global faults to a connection."""
        self._targets.pop(target, None)

    def faults_for(self, verb: str, resource: str) -> list[AnyFault]:
        """Count a call, and return its faults; those that are not about a call have taken effect by then."""
        call_type, found = CALL_TYPES[verb], list[AnyFault]()
        for on in dict.fromkeys((call_type, verb, f"{call_type} {resource}", f"{verb} {resource}")):
            if on in self._calls:
                found += self._next_faults(on)
        for fault in found:
            self._log_fault(fault, f"{verb} {resource}")
        return [fault for fault in found if not self._apply_global(fault)]

    @property
    def in_outage(self) -> bool:
        """Whether the API server answers no calls now."""
        return self._loop.time() < self._outage_until

    # --- timing -------------------------------------------------------------------------------------------

    def _arm(self, fault: AnyFault) -> None:
        if fault.nth is not None:
            self._calls[fault.on] += 0
            self._by_count[fault.on, fault.nth].append(fault)
        elif isinstance(fault, Outage | Crash | Freeze | ClockJump | NodeLoss | BreakWatch):
            self._loop.call_at(self._began + (fault.at or 0.0), self._fire, fault)
        else:
            self._calls[fault.on] += 0
            self._by_time[fault.on].append(fault)

    def _next_faults(self, on: str) -> list[AnyFault]:
        self._calls[on] += 1
        found = self._by_count.pop((on, self._calls[on]), [])
        waiting, elapsed = self._by_time[on], self._loop.time() - self._began
        while waiting and (waiting[0].at or 0.0) <= elapsed:
            found.append(waiting.popleft())
        return found

    # --- effects ------------------------------------------------------------------------------------------

    def _fire(self, fault: AnyFault) -> None:
        """Apply a fault with a time to all targets."""
        self._log_fault(fault, "all")
        if not self._apply_global(fault):
            for target in list(self._targets):
                if isinstance(fault, Crash):
                    target.crash(fault)
                elif isinstance(fault, BreakWatch):
                    target.break_watches(fault)

    def _apply_global(self, fault: AnyFault) -> bool:
        """Apply a fault that is not about a call; return whether it was one."""
        match fault:
            case Outage(seconds=seconds):
                self._outage_until = max(self._outage_until, self._loop.time() + seconds)
            case ClockJump(seconds=seconds):
                self._clock.jump(seconds)
            case Freeze():
                for target in list(self._targets):
                    target.freeze(fault)
            case NodeLoss():
                for handler in self.node_loss_handlers:
                    self._context.copy().run(handler, fault)
            case _:
                return False
        return True

    def _log_fault(self, fault: AnyFault, on: str) -> None:
        elapsed = self._loop.time() - self._began
        self.log.append(f"{elapsed:.6f} {on}: {format_fault(fault)}")
