"""Moments, as clocks tell them and as objects have them: to the second, in UTC; and how long ago."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "<unknown>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def moment(now: float) -> datetime:
    """Seconds since 1970 as a time that objects can have."""
    return datetime.fromtimestamp(int(now), UTC)


def as_text(now: float) -> str:
    """Seconds since 1970 as objects have them."""
    return moment(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(time: datetime) -> float:
    """A time that an object has, in seconds since 1970."""
    return time.timestamp()


def since(time: object, now: float) -> str:
    """How long ago a time was."""
    seconds = seconds_of(time)
    return UNKNOWN if seconds is None else duration(now - seconds)


def seconds_of(time: object) -> float | None:
    """Seconds since 1970 of a time as objects have it; None if it is none."""
    try:
        return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None
    except ValueError:
        return None


def duration(seconds: float) -> str:
    """A length of time in one or two units, as short as a person likes it."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    for below, units in _STEPS:
        if whole < below:
            return _in_units(whole, units)
    return _in_units(whole, ("y",))


_UNITS: Final = {"y": _YEAR, "d": _DAY, "h": _HOUR, "m": _MINUTE, "s": 1}
_STEPS: Final = (
    (2 * _MINUTE, ("s",)),
    (10 * _MINUTE, ("m", "s")),
    (3 * _HOUR, ("m",)),
    (8 * _HOUR, ("h", "m")),
    (2 * _DAY, ("h",)),
    (8 * _DAY, ("d", "h")),
    (2 * _YEAR, ("d",)),
    (8 * _YEAR, ("y", "d")),
)


def _in_units(seconds: int, units: Iterable[str]) -> str:
    said = ""
    for unit in units:
        count, seconds = divmod(seconds, _UNITS[unit])
        said += f"{count}{unit}" if count or not said else ""
    return said
