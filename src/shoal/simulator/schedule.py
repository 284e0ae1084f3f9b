"""Schedules: which faults occur, and when. They are data: printed, parsed, shrunk, and run again.

A fault occurs `at` a time, in seconds of the run, or with the `nth` of the calls that it is `on`:

| on | counts |
|---|---|
| `write` | create, update, patch, patch_status, delete, bind, evict |
| `read` | get, list |
| `watch` | watches that are opened |
| `event` | events that watches deliver |
| `bind`, `list`, ... | calls of one verb |
| `create pods`, `event nodes`, ... | the same, of one resource by its full name |

A fault with a time occurs with the first such call from then on. Global faults (Outage, Crash, Freeze,
ClockJump, NodeLoss, and BreakWatch for all open watches) occur at exactly that time.

`shrink` finds the faults that are to blame: a smallest part of a schedule with which a run still fails.
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

CALL_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("create", "update", "patch", "patch_status", "delete", "bind", "evict"), "write"),
    **dict.fromkeys(("get", "list"), "read"),
    "watch": "watch",
    "event": "event",
}
"""The type of call of each verb."""

_ERRORS: Final = {
    int(error.code): error
    for error in (ConflictError, GoneError, TooManyRequestsError, InternalError, UnavailableError)
}
_ALL_TYPES: Final = frozenset(CALL_TYPES.values())
_CONFLICT, _GONE = 409, 410


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fault"):
    """A fault that occurs once: `at` a time, or with the `nth` call of those that it is `on`."""

    allowed_on: ClassVar[frozenset[str]] = frozenset({"write"})
    """Types of calls that it can be on."""

    at: float | None = None
    nth: int | None = None
    on: str = "write"

    def __post_init__(self) -> None:
        problem = self.problem()
        if problem:
            raise ValueError(f"{type(self).__name__}: {problem}")

    @property
    def call_type(self) -> str:
        """The type of calls that it is on."""
        return CALL_TYPES.get(self.verb, self.verb)

    @property
    def verb(self) -> str:
        """The verb that it is on, or the type if it is on all calls of a type."""
        return self.on.partition(" ")[0]

    def problem(self) -> str:
        """What is wrong with its fields; empty if nothing is."""
        if (self.at is None) == (self.nth is None):
            return "give either `at` or `nth`"
        if (self.at or 0) < 0 or (self.nth is not None and self.nth < 1):
            return "`at` must be at least 0, `nth` at least 1"
        if self.call_type not in self.allowed_on:
            return f"cannot be on {self.on!r}, only on {', '.join(sorted(self.allowed_on))}"
        return ""


class Refuse(Fault, frozen=True, kw_only=True, tag="refuse"):
    """The call fails with this code; `applied`: after it took effect. An open watch ends with the error."""

    allowed_on: ClassVar[frozenset[str]] = _ALL_TYPES

    code: int = 503
    applied: bool = False
    retry_after: float | None = None

    def problem(self) -> str:
        if self.code not in _ERRORS:
            return f"`code` must be one of {', '.join(map(str, sorted(_ERRORS)))}"
        if self.call_type != "write" and (self.applied or self.code == _CONFLICT):
            return f"only writes can have conflicts or be applied, not {self.on!r}"
        if self.code == _GONE and self.verb not in ("list", "watch", "event"):
            return f"only a list, a watch or an event can be gone, not {self.on!r}"
        return super().problem()

    def error(self) -> ClusterError:
        """Return the error that the caller gets."""
        error = _ERRORS[self.code]
        return error(f"simulated: {error.reason}", retry_after=self.retry_after)


class Slow(Fault, frozen=True, kw_only=True, tag="slow"):
    """The call is delayed before it takes effect; `answer`: after it. An event delays all later ones too.

    A write takes effect even if its caller gives up waiting, or crashes.
    """

    allowed_on: ClassVar[frozenset[str]] = _ALL_TYPES

    seconds: float
    answer: bool = False


class Duplicate(Fault, frozen=True, kw_only=True, tag="twice", rename={"answered_by": "heard"}):
    """The request arrives twice, the second time some seconds later; its caller gets one of the answers."""

    seconds: float = 0.0
    answered_by: Literal["first", "second"] = "first"


class BreakWatch(Fault, frozen=True, kw_only=True, tag="cut"):
    """A watch delivers nothing more, and some seconds later it fails, or just ends if `clean`.

    With a time, it applies to all watches that are open then.
    """

    allowed_on: ClassVar[frozenset[str]] = frozenset({"event"})

    on: str = "event"
    seconds: float = 0.0
    clean: bool = False


class DropEvent(Fault, frozen=True, kw_only=True, tag="lose"):
    """An event is not delivered, and the watch goes on: no correct cluster does that.

    It serves to test the checks.
    """

    allowed_on: ClassVar[frozenset[str]] = frozenset({"event"})

    on: str = "event"


class Outage(Fault, frozen=True, kw_only=True, tag="outage"):
    """For some seconds all calls fail without effect, and watches with an event to deliver fail."""

    seconds: float


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """All processes of Shoal are killed: before the write takes effect, or `after`; `down` is in seconds."""

    after: bool = False
    down: float = 1.0


class Freeze(Fault, frozen=True, kw_only=True, tag="freeze"):
    """All processes of Shoal stop for some seconds, as by SIGSTOP, and then continue where they were."""

    seconds: float


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock"):
    """The wall clock is set forward by some seconds, or back if negative."""

    seconds: float


class NodeLoss(Fault, frozen=True, kw_only=True, tag="node"):
    """A node is partitioned for some seconds: it neither reports nor observes, and its pods run on."""

    node: str
    seconds: float


AnyFault = Refuse | Slow | Duplicate | BreakWatch | DropEvent | Outage | Crash | Freeze | ClockJump | NodeLoss

_DECODER: Final = msgspec.json.Decoder(AnyFault)


class Schedule(msgspec.Struct, frozen=True):
    """Faults; `str` gives one line of JSON for each."""

    faults: tuple[AnyFault, ...] = ()

    def __str__(self) -> str:
        return "".join(f"{format_fault(fault)}\n" for fault in self.faults)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule of a text; ValueError says which line is wrong, and why."""
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                faults.append(_DECODER.decode(line))
            except (msgspec.DecodeError, ValueError) as problem:
                raise ValueError(f"line {number}: {problem}") from problem
    return Schedule(tuple(faults))


def format_fault(fault: AnyFault) -> str:
    """Return a fault as one line of JSON."""
    return msgspec.json.encode(fault).decode()


def shrink(schedule: Schedule, still_fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a part of the schedule that still fails, and would not without any one of its faults.

    The schedule itself is assumed to fail. Large parts are removed first, then smaller ones, so that a few
    faults among many are found in few runs.
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
    """Return what is left after removing every part of a size that is not needed."""
    kept: Sequence[AnyFault] = faults
    for start in range(len(faults) - 1, -1, -size):
        first = max(start - size + 1, 0)
        fewer = (*kept[:first], *kept[start + 1 :])
        if still_fails(Schedule(fewer)):
            kept = fewer
    return tuple(kept)
