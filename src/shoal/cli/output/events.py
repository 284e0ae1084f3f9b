"""Events as rows of a table: last seen, type, reason, object, message."""

import time
from collections.abc import Sequence
from typing import Final

import click

from shoal.cli.output.tables import Columns, paint
from shoal.cluster.resources import Object
from shoal.cluster.times import format_age, parse_time

EVENT_COLUMNS: Final = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]


class EventTable:
    """Prints events in one table, all at once or as they arrive; warnings in yellow."""

    def __init__(self, *, namespaces: bool, headers: bool) -> None:
        self._columns, self._namespaces, self._headers = Columns(), namespaces, headers

    def print_events(self, events: Sequence[Object]) -> None:
        """Print events, after the header if it has not been printed yet."""
        now = time.time()
        rows = [self._row(event, now) for event in events]
        titles = (["NAMESPACE"] if self._namespaces else []) + EVENT_COLUMNS
        lines = self._columns.format([titles, *rows] if self._headers else rows)
        header_lines = len(lines) - len(events)
        for number, line in enumerate(lines):
            warning = number >= header_lines and events[number - header_lines].get("type") == "Warning"
            click.echo(paint(line, "yellow") if warning else line)
        self._headers = False

    def _row(self, event: Object, now: float) -> list[object]:
        namespace = [event["metadata"].get("namespace", "")] if self._namespaces else []
        return [*namespace, *event_row(event, now)]


def event_row(event: Object, now: float) -> list[object]:
    """The cells of an event."""
    involved = event.get("involvedObject") or {}
    return [
        last_seen(event, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{involved.get('kind', '')}/{involved.get('name', '')}",
        str(event.get("message", "")).strip(),
    ]


def last_seen(event: Object, now: float) -> str:
    """Age of the last occurrence, with the number of occurrences and the age of the first if repeated."""
    series, count = event.get("series") or {}, event.get("count") or 0
    first = event.get("firstTimestamp") or event.get("eventTime")
    if series:
        last = format_age(series.get("lastObservedTime"), now)
        return f"{last} (x{series.get('count', 0)} over {format_age(first, now)})"
    if count > 1:
        return f"{format_age(event.get('lastTimestamp'), now)} (x{count} over {format_age(first, now)})"
    return format_age(first, now)


def order_key(event: Object) -> tuple[float, int]:
    """Sort key by the time of the last occurrence.

    Times are whole seconds: within one, the order is that of the writes.
    """
    version = str(event["metadata"].get("resourceVersion", ""))
    return _last_seen_time(event), int(version) if version.isdecimal() else 0


def _last_seen_time(event: Object) -> float:
    """Time of the last occurrence, in seconds since the epoch; 0 if the event has none."""
    series = event.get("series") or {}
    texts = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((moment for text in texts if (moment := parse_time(text)) is not None), 0.0)
