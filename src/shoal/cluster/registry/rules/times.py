"""Times as Kubernetes writes them: to the second, in UTC."""

from datetime import UTC, datetime


def as_text(seconds: float) -> str:
    """A moment, in seconds since 1970, as text."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_time(text: str) -> datetime:
    """The moment that a text says."""
    return datetime.fromisoformat(text)
