"""Events as rows: when, how often, what, to whom."""

from typing import Final

from shoal.cluster.resources import Object
from shoal.cluster.times import seconds_of, since

HEADER: Final = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]


def latest(event: Object) -> float:
    """When it last happened."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((moment for time in times if (moment := seconds_of(time)) is not None), 0.0)


def cells(event: Object, now: float) -> list[object]:
    """A row for people; who it is about is written in small letters, as on a command line."""
    about = event.get("involvedObject") or {}
    return [
        seen(event, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '')}/{about.get('name', '')}",
        str(event.get("message", "")).strip(),
    ]


def seen(event: Object, now: float) -> str:
    """How long ago it last happened, and how often since when."""
    series, count = event.get("series") or {}, event.get("count") or 0
    first = event.get("firstTimestamp") or event.get("eventTime")
    if series:
        last = since(series.get("lastObservedTime"), now)
        return f"{last} (x{series.get('count', 0)} over {since(first, now)})"
    if count > 1:
        return f"{since(event.get('lastTimestamp'), now)} (x{count} over {since(first, now)})"
    return since(first, now)
