"""Events: what happened, to what, when last."""

from typing import Final

from shoal.apiserver.tables.printing import NAME, Cell, Column, Printer, name_of, part
from shoal.cluster.resources import Object
from shoal.cluster.times import UNKNOWN, since


def _cells(event: Object, now: float) -> list[Cell]:
    about = part(event, "involvedObject") or {}
    kind = str(about.get("kind") or "").lower()
    first, last, count = _times(event, now)
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        _source(event),
        str(event.get("message") or "").strip(),
        first,
        count,
        name_of(event),
    ]


def _times(event: Object, now: float) -> tuple[str, str, int]:
    """When an event was seen first and last, and how often."""
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = since(event.get("lastTimestamp"), now)
    series = part(event, "series")
    if series is not None:
        return first, since(series.get("lastObservedTime"), now), series.get("count") or 0
    return first, first if last == UNKNOWN else last, event.get("count") or 1


def _source(event: Object) -> str:
    source = part(event, "source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


PRINTER: Final = Printer(
    (
        Column("Last Seen", about="When it happened last."),
        Column("Type", about="Normal, or Warning."),
        Column("Reason", about="What happened, in one word."),
        Column("Object", about="To what it happened."),
        Column("Subobject", wide=True, about="To which part of it."),
        Column("Source", wide=True, about="Who says so."),
        Column("Message", about="What happened, for people."),
        Column("First Seen", wide=True, about="When it happened first."),
        Column("Count", wide=True, about="How often it happened."),
        Column("Name", wide=True, format="name", about=NAME.about),
    ),
    _cells,
)
