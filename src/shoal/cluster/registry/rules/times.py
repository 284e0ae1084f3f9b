"""Times as Kubernetes writes them: to the second, in UTC."""

import functools
from datetime import UTC, datetime


def as_text(seconds: float) -> str:
    """A moment, in seconds since 1970, as text."""
    return _written(int(seconds))


@functools.lru_cache(maxsize=16)
def _written(seconds: int) -> str:
    """Many objects are written within one second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_time(text: str) -> datetime:
    """The moment that a text says."""
    return datetime.fromisoformat(text)
