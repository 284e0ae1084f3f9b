"""Text in two columns, indented, with tables in between: what descriptions are written on.

What is told of every object: who it is, its conditions, what happened to it; and fields as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from shoal.cli.output.events import last_seen, last_seen_time
from shoal.cli.output.tables import format_table
from shoal.cluster.resources import Object
from shoal.cluster.times import format_age

NONE: Final = "<none>"
_GAP: Final = 2


class DescriptionWriter:
    """Lines of a description, in the order they are written."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str, str | None]] = []

    def line(self, title: str, value: object = "", depth: int = 0) -> None:
        """A title and what there is to say; several lines stand below each other."""
        first, *rest = str(value).splitlines() or [""]
        self._lines.append((depth, f"{title}:", first))
        self._lines += ((depth, "", more) for more in rest)

    def heading(self, title: str, depth: int = 0) -> None:
        """A title with something below it."""
        self._lines.append((depth, f"{title}:", None))

    def text(self, text: str, depth: int = 0) -> None:
        """Lines that stand as they are."""
        self._lines += ((depth, line, None) for line in text.splitlines())

    def table(self, title: str, rows: Sequence[Sequence[object]], depth: int = 0) -> None:
        """A table below a title; nothing but the title if it has only a header."""
        if len(rows) <= 1:
            self.line(title, NONE, depth)
            return
        self.heading(title, depth)
        self.text(format_table(rows), depth + 1)

    def pairs(self, title: str, values: dict[str, Any] | None, sign: str = "=", depth: int = 0) -> None:
        """Names and values, one below the other."""
        said = [f"{name}{sign}{value}" for name, value in sorted((values or {}).items())]
        self.line(title, "\n".join(said) or NONE, depth)

    def __str__(self) -> str:
        """All of it; values stand below each other as far as their titles are equally deep and near."""
        return "\n".join(self._drawn())

    def _drawn(self) -> Iterable[str]:
        for block in self._blocks():
            width = max((len(title) for _, title, value in block if value is not None), default=0) + _GAP
            for depth, title, value in block:
                said = title if value is None else f"{title.ljust(width)}{value}"
                yield f"{'  ' * depth}{said}".rstrip()

    def _blocks(self) -> Iterable[list[tuple[int, str, str | None]]]:
        """Neighbours of one depth."""
        block: list[tuple[int, str, str | None]] = []
        for line in self._lines:
            if block and block[-1][0] != line[0]:
                yield block
                block = []
            block.append(line)
        yield block


_HIDDEN_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_USER_KEYED: Final = ("data", "binaryData", "matchLabels", "nodeSelector", "limits", "requests", "labels")
"""Mappings whose keys are not fields."""


def write_identity(paper: DescriptionWriter, thing: Object) -> None:
    """Name, namespace, labels, annotations, owner."""
    metadata = thing["metadata"]
    paper.line("Name", metadata["name"])
    if metadata.get("namespace"):
        paper.line("Namespace", metadata["namespace"])
    paper.pairs("Labels", metadata.get("labels"))
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _HIDDEN_ANNOTATIONS}
    paper.pairs("Annotations", notes, sign=": ")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            paper.line("Controlled By", f"{owner['kind']}/{owner['name']}")
    if metadata.get("deletionTimestamp"):
        paper.line("Status", f"Terminating (since {metadata['deletionTimestamp']})")


def write_conditions(paper: DescriptionWriter, thing: Object, now: float) -> None:
    """How the object stands, and since when."""
    found = (thing.get("status") or {}).get("conditions") or ()
    rows = [
        [
            one.get("type", ""),
            one.get("status", ""),
            format_age(one.get("lastTransitionTime"), now),
            one.get("reason", ""),
            one.get("message", ""),
        ]
        for one in found
    ]
    if rows:
        paper.table("Conditions", [["Type", "Status", "Since", "Reason", "Message"], *rows])


def write_events(paper: DescriptionWriter, events: Iterable[Object], now: float) -> None:
    """What happened to it, the latest last."""
    rows = [
        [
            event.get("type", ""),
            event.get("reason", ""),
            last_seen(event, now),
            (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
            str(event.get("message", "")).strip(),
        ]
        for event in sorted(events, key=last_seen_time)
    ]
    paper.table("Events", [["Type", "Reason", "Age", "From", "Message"], *rows])


def write_fields(paper: DescriptionWriter, value: Any, depth: int = 0) -> None:  # noqa: ANN401 - whatever JSON has
    """Everything that is left, as it is; fields are written as titles, users' names as they are."""
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        title = field_title(name)
        if name in _USER_KEYED and isinstance(inner, Mapping) and not any(map(_is_nested, inner.values())):
            paper.pairs(title, dict(inner), sign=": ", depth=depth)
        elif isinstance(inner, Mapping) and inner:
            paper.heading(title, depth)
            write_fields(paper, inner, depth + 1)
        elif isinstance(inner, list) and inner:
            paper.heading(title, depth)
            _write_items(paper, inner, depth + 1)
        else:
            paper.line(title, NONE if inner in (None, {}, []) else scalar_text(inner), depth)


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _write_items(paper: DescriptionWriter, members: list[Any], depth: int) -> None:
    for member in members:
        if isinstance(member, Mapping):
            write_fields(paper, member, depth)
        else:
            paper.text(scalar_text(member), depth)


def field_title(name: str) -> str:
    """A field as a title: `minReplicas` is `Min Replicas`; what is no such name stays as it is."""
    if not name.isalnum():
        return name
    spaced = "".join(f" {letter}" if letter.isupper() and i else letter for i, letter in enumerate(name))
    return spaced[:1].upper() + spaced[1:]


def scalar_text(value: object) -> str:
    """A plain value, for people."""
    return str(value).lower() if isinstance(value, bool) else str(value)
