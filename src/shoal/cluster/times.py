"""Times and durations of objects: conversion, formatting and parsing. Times are UTC, to the second."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

UNKNOWN_AGE: Final = "<unknown>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def to_datetime(now: float) -> datetime:
    """Convert seconds since 1970 to a time in UTC, truncated to whole seconds as in objects."""
    return datetime.fromtimestamp(int(now), UTC)


def format_time(now: float) -> str:
    """Format seconds since 1970 as a timestamp of an object: `2026-01-31T12:00:00Z`."""
    return to_datetime(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_seconds(time: datetime) -> float:
    """Convert a time of an object to seconds since 1970."""
    return time.timestamp()


def format_age(time: object, now: float) -> str:
    """Format how long ago a timestamp of an object was; `<unknown>` if it is not one."""
    seconds = parse_time(time)
    return UNKNOWN_AGE if seconds is None else format_duration(now - seconds)


def parse_time(time: object) -> float | None:
    """Parse a timestamp of an object to seconds since 1970; None if it is not one."""
    try:
        return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None
    except ValueError:
        return None


def format_duration(seconds: float) -> str:
    """Format a duration in one or two units, as kubectl does: `45s`, `3m20s`, `5d`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    for limit, units in _PRECISION:
        if whole < limit:
            return _in_units(whole, units)
    return _in_units(whole, ("y",))


_UNITS: Final = {"y": _YEAR, "d": _DAY, "h": _HOUR, "m": _MINUTE, "s": 1}
_PRECISION: Final = (
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
    text = ""
    for unit in units:
        count, seconds = divmod(seconds, _UNITS[unit])
        text += f"{count}{unit}" if count or not text else ""
    return text
