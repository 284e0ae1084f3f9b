"""Jobs: how far they are."""

from typing import Final

from shoal.apiserver.tables.printing import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    age_of,
    condition,
    entries,
    name_of,
    part,
)
from shoal.cluster.resources import Object
from shoal.cluster.times import duration, seconds_of

_LAST: Final = {"Complete": "Complete", "Failed": "Failed"}
_ON_THE_WAY: Final = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _cells(job: Object, now: float) -> list[Cell]:
    containers = entries(job, "spec", "template", "spec", "containers")
    return [
        name_of(job),
        _status(job),
        _completions(job),
        _duration(job, now),
        age_of(job, now),
        ",".join(str(container.get("name")) for container in containers),
        ",".join(str(container.get("image") or "") for container in containers),
        _selector(part(job, "spec", "selector")),
    ]


def _status(job: Object) -> str:
    for kind in _LAST:
        if condition(job, kind) == "True":
            return kind
    if part(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in _ON_THE_WAY if condition(job, kind) == "True"), "Running")


def _completions(job: Object) -> str:
    succeeded = part(job, "status", "succeeded") or 0
    wanted, parallel = part(job, "spec", "completions"), part(job, "spec", "parallelism") or 0
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _duration(job: Object, now: float) -> str:
    start = seconds_of(part(job, "status", "startTime"))
    end = seconds_of(part(job, "status", "completionTime"))
    return "" if start is None else duration((now if end is None else end) - start)


def _selector(selector: Object | None) -> str:
    """A selector as kubectl takes it."""
    if selector is None:
        return NONE
    parts = [f"{name}={value}" for name, value in sorted((selector.get("matchLabels") or {}).items())]
    parts += [_expression(entry) for entry in entries(selector, "matchExpressions")]
    return ",".join(parts) or NONE


def _expression(entry: Object) -> str:
    key, values = entry.get("key"), ",".join(sorted(entry.get("values") or []))
    match entry.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
    return str(key)


PRINTER: Final = Printer(
    (
        NAME,
        Column("Status", about="Whether the job goes on, and how it ended."),
        Column("Completions", about="How many of its pods have succeeded."),
        Column("Duration", about="How long the job took, or has taken."),
        AGE,
        Column("Containers", wide=True, about="The containers of its pods."),
        Column("Images", wide=True, about="Their images."),
        Column("Selector", wide=True, about="The labels of its pods."),
    ),
    _cells,
)
