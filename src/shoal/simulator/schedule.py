"""Schedules: which faults come, and when. They are data: printed, read back, cut down, and run again.

A fault comes `at` a time, in seconds of the run, or with the `nth` of the calls that it is `on`:

| on | counts |
|---|---|
| `write` | create, update, patch, patch_status, delete, bind, evict |
| `read` | get, list |
| `watch` | watches that are opened |
| `event` | events that a watch has for its watcher |
| `bind`, `list`, ... | calls of one verb |
| `create pods`, `event nodes`, ... | the same, of one resource by its full name |

A fault with a time comes with the first such call from then on. Those that concern everybody (Outage, Crash,
ClockJump, NodeLoss, and Cut for all watches that are open) come at that very moment.

Finds what of a schedule is to blame: the fewest faults with which a run still fails.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal

import msgspec

from shoal.cluster.errors import (
    ClusterError,
    ConflictError,
    GoneError,
    InternalError,
    TooManyRequestsError,
    UnavailableError,
)

VERBS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("create", "update", "patch", "patch_status", "delete", "bind", "evict"), "write"),
    **dict.fromkeys(("get", "list"), "read"),
    "watch": "watch",
    "event": "event",
}
"""What sort of call each verb is."""

_ERRORS: Final = {
    int(error.code): error
    for error in (ConflictError, GoneError, TooManyRequestsError, InternalError, UnavailableError)
}
_SORTS: Final = frozenset(VERBS.values())
_CONFLICT, _GONE = 409, 410


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fault"):
    """Something that goes wrong once: `at` a time, or with the `nth` call of those it is `on`."""

    suits: ClassVar[frozenset[str]] = frozenset({"write"})
    """Sorts of calls that it can come with."""

    at: float | None = None
    nth: int | None = None
    on: str = "write"

    def __post_init__(self) -> None:
        problem = self.problem()
        if problem:
            raise ValueError(f"{type(self).__name__}: {problem}")

    @property
    def sort(self) -> str:
        """What sort of call it is on."""
        return VERBS.get(self.verb, self.verb)

    @property
    def verb(self) -> str:
        """The verb that it is on, or the sort if it is on all of that sort."""
        return self.on.partition(" ")[0]

    def problem(self) -> str:
        """What makes no sense about it, if anything."""
        if (self.at is None) == (self.nth is None):
            return "say either `at` or `nth`"
        if (self.at or 0) < 0 or (self.nth is not None and self.nth < 1):
            return "`at` is 0 or more, `nth` is 1 or more"
        if self.sort not in self.suits:
            return f"cannot be on {self.on!r}, only on {', '.join(sorted(self.suits))}"
        return ""


class Refuse(Fault, frozen=True, kw_only=True, tag="refuse"):
    """The call fails with this code; `applied`: but it was done. A watch that is under way ends with it."""

    suits: ClassVar[frozenset[str]] = _SORTS

    code: int = 503
    applied: bool = False
    retry_after: float | None = None

    def problem(self) -> str:
        if self.code not in _ERRORS:
            return f"`code` is one of {', '.join(map(str, sorted(_ERRORS)))}"
        if self.sort != "write" and (self.applied or self.code == _CONFLICT):
            return f"only writes have conflicts, or are applied: not {self.on!r}"
        if self.code == _GONE and self.verb not in ("list", "watch", "event"):
            return f"only a list, a watch or an event can be gone: not {self.on!r}"
        return super().problem()

    def error(self) -> ClusterError:
        """What the caller is told."""
        error = _ERRORS[self.code]
        return error(f"simulated: {error.reason}", retry_after=self.retry_after)


class Slow(Fault, frozen=True, kw_only=True, tag="slow"):
    """The call takes so long before it has any effect; `answer`: after it. An event, and all later, is late.

    Whoever gives up waiting for a write, or crashes, does not take it back.
    """

    suits: ClassVar[frozenset[str]] = _SORTS

    seconds: float
    answer: bool = False


class Twice(Fault, frozen=True, kw_only=True, tag="twice"):
    """The request arrives twice, the second time so much later; its caller hears one of the answers."""

    seconds: float = 0.0
    heard: Literal["first", "second"] = "first"


class Cut(Fault, frozen=True, kw_only=True, tag="cut"):
    """A watch tells nothing more, and so many seconds later it breaks, or just ends if `clean`.

    With a time, all watches that are open then.
    """

    suits: ClassVar[frozenset[str]] = frozenset({"event"})

    on: str = "event"
    seconds: float = 0.0
    clean: bool = False


class Lose(Fault, frozen=True, kw_only=True, tag="lose"):
    """A watcher is never told of this event, nor that it missed any: what no cluster may do.

    It is here so that those who check can be checked.
    """

    suits: ClassVar[frozenset[str]] = frozenset({"event"})

    on: str = "event"


class Outage(Fault, frozen=True, kw_only=True, tag="outage"):
    """For so long nobody is answered, nothing is done, and watches that have something to tell break."""

    seconds: float


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """All processes of Shoal are killed: before the write has any effect, or `after`; `down` for so long."""

    after: bool = False
    down: float = 1.0


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock"):
    """The wall clock is set forward by so many seconds, or back."""

    seconds: float


class NodeLoss(Fault, frozen=True, kw_only=True, tag="node"):
    """A node falls silent for so long: it neither reports nor hears, and what runs on it runs on."""

    node: str
    seconds: float


AnyFault = Refuse | Slow | Twice | Cut | Lose | Outage | Crash | ClockJump | NodeLoss

_DECODER: Final = msgspec.json.Decoder(AnyFault)


class Schedule(msgspec.Struct, frozen=True):
    """Faults. Its text has one on each line."""

    faults: tuple[AnyFault, ...] = ()

    def __str__(self) -> str:
        return "".join(f"{shown(fault)}\n" for fault in self.faults)


def parse(text: str) -> Schedule:
    """The schedule that a text tells; ValueError says what is wrong with which line."""
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                faults.append(_DECODER.decode(line))
            except (msgspec.DecodeError, ValueError) as problem:
                raise ValueError(f"line {number}: {problem}") from problem
    return Schedule(tuple(faults))


def shown(fault: AnyFault) -> str:
    """A fault as one line."""
    return msgspec.json.encode(fault).decode()


def shrunk(schedule: Schedule, still_fails: Callable[[Schedule], bool]) -> Schedule:
    """A part of the schedule that still fails, and would not without any one of its faults.

    The schedule itself is taken to fail. Large parts are left out first, then ever smaller ones, so that a
    few faults among many are found in few runs.
    """
    faults, size = schedule.faults, len(schedule.faults)
    while size > 0:
        smaller = _without_parts(faults, size, still_fails)
        size = size // 2 if len(smaller) == len(faults) or size > 1 else 1
        faults = smaller
    return Schedule(faults)


def _without_parts(
    faults: tuple[AnyFault, ...], size: int, still_fails: Callable[[Schedule], bool]
) -> tuple[AnyFault, ...]:
    """What is left when every part of a size has been left out that is not needed."""
    kept: Sequence[AnyFault] = faults
    for start in range(len(faults) - 1, -1, -size):
        first = max(start - size + 1, 0)
        fewer = (*kept[:first], *kept[start + 1 :])
        if still_fails(Schedule(fewer)):
            kept = fewer
    return tuple(kept)
