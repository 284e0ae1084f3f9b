"""Which fault comes with which call: a schedule on its way through a run."""

import asyncio
import contextvars
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final, Protocol

from shoal.simulator.schedule import VERBS, AnyFault, ClockJump, Crash, Cut, NodeLoss, Outage, Schedule, shown
from shoal.simulator.simulation import WallClock


class Struck(Protocol):
    """Whoever is hit by what concerns everybody."""

    def crash(self, fault: Crash) -> None: ...

    def cut(self, fault: Cut) -> None: ...


class Faults:
    """A schedule that runs from the moment it is made. It outlives the processes that it strikes."""

    def __init__(self, schedule: Schedule, clock: WallClock) -> None:
        self.story: Final[list[str]] = []
        """What came so far, and when."""
        self.lost_nodes: Final[list[Callable[[NodeLoss], None]]] = []
        """Who plays the machines is told here; what they begin then is no part of the process that is hit."""
        self._loop: Final = asyncio.get_running_loop()
        self._began: Final = self._loop.time()
        self._clock: Final = clock
        self._outside: Final = contextvars.copy_context()
        self._struck: Final[dict[Struck, None]] = {}
        self._by_count: Final[defaultdict[tuple[str, int], list[AnyFault]]] = defaultdict(list)
        self._by_time: Final[defaultdict[str, deque[AnyFault]]] = defaultdict(deque)
        self._counted: Final[Counter[str]] = Counter()
        self._down_until = self._began
        for fault in sorted(schedule.faults, key=lambda fault: fault.at or 0.0):
            self._arm(fault)

    def strike(self, whom: Struck) -> None:
        """Have somebody hit by what concerns everybody, from now on."""
        self._struck[whom] = None

    def spare(self, whom: Struck) -> None:
        """Let them be."""
        self._struck.pop(whom, None)

    def hits(self, verb: str, resource: str) -> list[AnyFault]:
        """What comes with a call; what concerns everybody has happened when this returns."""
        sort, found = VERBS[verb], list[AnyFault]()
        for on in dict.fromkeys((sort, verb, f"{sort} {resource}", f"{verb} {resource}")):
            if on in self._counted:
                found += self._next_of(on)
        for fault in found:
            self._tell(fault, f"{verb} {resource}")
        return [fault for fault in found if not self._happens(fault)]

    @property
    def down(self) -> bool:
        """Whether nobody is answered just now."""
        return self._loop.time() < self._down_until

    # --- when ---------------------------------------------------------------------------------------------

    def _arm(self, fault: AnyFault) -> None:
        if fault.nth is not None:
            self._counted[fault.on] += 0
            self._by_count[fault.on, fault.nth].append(fault)
        elif isinstance(fault, Outage | Crash | ClockJump | NodeLoss | Cut):
            self._loop.call_at(self._began + (fault.at or 0.0), self._now, fault)
        else:
            self._counted[fault.on] += 0
            self._by_time[fault.on].append(fault)

    def _next_of(self, on: str) -> list[AnyFault]:
        self._counted[on] += 1
        found = self._by_count.pop((on, self._counted[on]), [])
        waiting, passed = self._by_time[on], self._loop.time() - self._began
        while waiting and (waiting[0].at or 0.0) <= passed:
            found.append(waiting.popleft())
        return found

    # --- what ---------------------------------------------------------------------------------------------

    def _now(self, fault: AnyFault) -> None:
        """The time of a fault has come that concerns everybody."""
        self._tell(fault, "everybody")
        if not self._happens(fault):
            for whom in list(self._struck):
                if isinstance(fault, Crash):
                    whom.crash(fault)
                elif isinstance(fault, Cut):
                    whom.cut(fault)

    def _happens(self, fault: AnyFault) -> bool:
        """Let happen what has nothing to do with the call it came with, if it is of that sort."""
        match fault:
            case Outage(seconds=seconds):
                self._down_until = max(self._down_until, self._loop.time() + seconds)
            case ClockJump(seconds=seconds):
                self._clock.jump(seconds)
            case NodeLoss():
                for tell in self.lost_nodes:
                    self._outside.copy().run(tell, fault)
            case _:
                return False
        return True

    def _tell(self, fault: AnyFault, whom: str) -> None:
        passed = self._loop.time() - self._began
        self.story.append(f"{passed:.6f} {whom}: {shown(fault)}")
