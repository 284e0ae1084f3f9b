"""Moments, as clocks tell them and as objects have them: to the second, in UTC."""

from datetime import UTC, datetime


def moment(now: float) -> datetime:
    """Seconds since 1970 as a time that objects can have."""
    return datetime.fromtimestamp(int(now), UTC)


def as_text(now: float) -> str:
    """Seconds since 1970 as objects have them."""
    return moment(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(time: datetime) -> float:
    """A time that an object has, in seconds since 1970."""
    return time.timestamp()
