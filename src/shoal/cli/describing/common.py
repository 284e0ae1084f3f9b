"""What is told of every object: who it is, its conditions, what happened to it; and fields as they are."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from shoal.cli.describing.paper import NONE, Paper
from shoal.cli.happened import latest, seen
from shoal.cluster.resources import Object
from shoal.cluster.times import since

_OF_SERVERS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_OF_USERS: Final = ("data", "binaryData", "matchLabels", "nodeSelector", "limits", "requests", "labels")
"""Mappings whose keys are not fields."""


def identity(paper: Paper, thing: Object) -> None:
    """Name, namespace, labels, annotations, owner."""
    metadata = thing["metadata"]
    paper.line("Name", metadata["name"])
    if metadata.get("namespace"):
        paper.line("Namespace", metadata["namespace"])
    paper.pairs("Labels", metadata.get("labels"))
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _OF_SERVERS}
    paper.pairs("Annotations", notes, sign=": ")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            paper.line("Controlled By", f"{owner['kind']}/{owner['name']}")
    if metadata.get("deletionTimestamp"):
        paper.line("Status", f"Terminating (since {metadata['deletionTimestamp']})")


def conditions(paper: Paper, thing: Object, now: float) -> None:
    """How the object stands, and since when."""
    found = (thing.get("status") or {}).get("conditions") or ()
    rows = [
        [
            one.get("type", ""),
            one.get("status", ""),
            since(one.get("lastTransitionTime"), now),
            one.get("reason", ""),
            one.get("message", ""),
        ]
        for one in found
    ]
    if rows:
        paper.table("Conditions", [["Type", "Status", "Since", "Reason", "Message"], *rows])


def happened(paper: Paper, events: Iterable[Object], now: float) -> None:
    """What happened to it, the latest last."""
    rows = [
        [
            event.get("type", ""),
            event.get("reason", ""),
            seen(event, now),
            (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
            str(event.get("message", "")).strip(),
        ]
        for event in sorted(events, key=latest)
    ]
    paper.table("Events", [["Type", "Reason", "Age", "From", "Message"], *rows])


def fields(paper: Paper, value: Any, depth: int = 0) -> None:  # noqa: ANN401 - whatever JSON has
    """Everything that is left, as it is; fields are written as titles, users' names as they are."""
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        title = title_of(name)
        if name in _OF_USERS and isinstance(inner, Mapping) and not any(map(_is_deep, inner.values())):
            paper.pairs(title, dict(inner), sign=": ", depth=depth)
        elif isinstance(inner, Mapping) and inner:
            paper.heading(title, depth)
            fields(paper, inner, depth + 1)
        elif isinstance(inner, list) and inner:
            paper.heading(title, depth)
            _members(paper, inner, depth + 1)
        else:
            paper.line(title, NONE if inner in (None, {}, []) else as_text(inner), depth)


def _is_deep(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _members(paper: Paper, members: list[Any], depth: int) -> None:
    for member in members:
        if isinstance(member, Mapping):
            fields(paper, member, depth)
        else:
            paper.text(as_text(member), depth)


def title_of(name: str) -> str:
    """A field as a title: `minReplicas` is `Min Replicas`; what is no such name stays as it is."""
    if not name.isalnum():
        return name
    spaced = "".join(f" {letter}" if letter.isupper() and i else letter for i, letter in enumerate(name))
    return spaced[:1].upper() + spaced[1:]


def as_text(value: object) -> str:
    """A plain value, for people."""
    return str(value).lower() if isinstance(value, bool) else str(value)
