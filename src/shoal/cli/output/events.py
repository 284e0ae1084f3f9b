"""Events as rows: when, how often, what, to whom."""

import time
from collections.abc import Sequence
from typing import Final

import click

from shoal.cli.output.tables import Columns, paint
from shoal.cluster.resources import Object
from shoal.cluster.times import format_age, parse_time

EVENT_COLUMNS: Final = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]


def last_seen_time(event: Object) -> float:
    """When it last happened."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((moment for time in times if (moment := parse_time(time)) is not None), 0.0)


def event_row(event: Object, now: float) -> list[object]:
    """A row for people; who it is about is written in small letters, as on a command line."""
    about = event.get("involvedObject") or {}
    return [
        last_seen(event, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '')}/{about.get('name', '')}",
        str(event.get("message", "")).strip(),
    ]


def last_seen(event: Object, now: float) -> str:
    """How long ago it last happened, and how often since when."""
    series, count = event.get("series") or {}, event.get("count") or 0
    first = event.get("firstTimestamp") or event.get("eventTime")
    if series:
        last = format_age(series.get("lastObservedTime"), now)
        return f"{last} (x{series.get('count', 0)} over {format_age(first, now)})"
    if count > 1:
        return f"{format_age(event.get('lastTimestamp'), now)} (x{count} over {format_age(first, now)})"
    return format_age(first, now)


class EventTable:
    """Draws events below each other, as they come."""

    def __init__(self, *, spaces: bool, headers: bool) -> None:
        self._columns, self._spaces, self._headers = Columns(), spaces, headers

    def draw(self, found: Sequence[Object]) -> None:
        now = time.time()
        rows = [self._row(event, now) for event in found]
        titles = (["NAMESPACE"] if self._spaces else []) + EVENT_COLUMNS
        lines = self._columns.drawn([titles, *rows] if self._headers else rows)
        plain = len(lines) - len(found)
        for number, line in enumerate(lines):
            warning = number >= plain and found[number - plain].get("type") == "Warning"
            click.echo(paint(line, "yellow") if warning else line)
        self._headers = False

    def _row(self, event: Object, now: float) -> list[object]:
        space = [event["metadata"].get("namespace", "")] if self._spaces else []
        return [*space, *event_row(event, now)]
