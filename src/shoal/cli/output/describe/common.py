"""The writer of descriptions, and the parts that all share: identity, conditions, events, fields."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from shoal.cli.output.events import last_seen, order_key
from shoal.cli.output.tables import format_table
from shoal.cluster.resources import Object
from shoal.cluster.times import format_age

NONE: Final = "<none>"
_GAP: Final = 2


class DescriptionWriter:
    """Collects the lines of a description: titles and values in two columns, indented, and tables."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str, str | None]] = []

    def line(self, title: str, value: object = "", depth: int = 0) -> None:
        """Write a title and a value; further lines of the value are aligned below the first."""
        first, *rest = str(value).splitlines() or [""]
        self._lines.append((depth, f"{title}:", first))
        self._lines += ((depth, "", more) for more in rest)

    def heading(self, title: str, depth: int = 0) -> None:
        """Write a title that other lines follow."""
        self._lines.append((depth, f"{title}:", None))

    def text(self, text: str, depth: int = 0) -> None:
        """Write lines as they are."""
        self._lines += ((depth, line, None) for line in text.splitlines())

    def table(self, title: str, rows: Sequence[Sequence[object]], depth: int = 0) -> None:
        """Write a table below a title; `<none>` if the table has only a header."""
        if len(rows) <= 1:
            self.line(title, NONE, depth)
            return
        self.heading(title, depth)
        self.text(format_table(rows), depth + 1)

    def pairs(self, title: str, values: dict[str, Any] | None, sign: str = "=", depth: int = 0) -> None:
        """Write names and values, one pair a line, sorted by name."""
        text = [f"{name}{sign}{value}" for name, value in sorted((values or {}).items())]
        self.line(title, "\n".join(text) or NONE, depth)

    def __str__(self) -> str:
        """The whole description; values are aligned within consecutive lines of one depth."""
        return "\n".join(self._format_lines())

    def _format_lines(self) -> Iterable[str]:
        for block in self._blocks():
            width = max((len(title) for _, title, value in block if value is not None), default=0) + _GAP
            for depth, title, value in block:
                text = title if value is None else f"{title.ljust(width)}{value}"
                yield f"{'  ' * depth}{text}".rstrip()

    def _blocks(self) -> Iterable[list[tuple[int, str, str | None]]]:
        """Groups of consecutive lines of one depth."""
        block: list[tuple[int, str, str | None]] = []
        for line in self._lines:
            if block and block[-1][0] != line[0]:
                yield block
                block = []
            block.append(line)
        yield block


_HIDDEN_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_USER_KEYED: Final = ("data", "binaryData", "matchLabels", "nodeSelector", "limits", "requests", "labels")
"""Fields whose keys are chosen by users, and are written as they are."""


def write_identity(writer: DescriptionWriter, obj: Object) -> None:
    """Write name, namespace, labels, annotations and controller."""
    metadata = obj["metadata"]
    writer.line("Name", metadata["name"])
    if metadata.get("namespace"):
        writer.line("Namespace", metadata["namespace"])
    writer.pairs("Labels", metadata.get("labels"))
    annotations = {
        k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _HIDDEN_ANNOTATIONS
    }
    writer.pairs("Annotations", annotations, sign=": ")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            writer.line("Controlled By", f"{owner['kind']}/{owner['name']}")
    if metadata.get("deletionTimestamp"):
        writer.line("Status", f"Terminating (since {metadata['deletionTimestamp']})")


def write_conditions(writer: DescriptionWriter, obj: Object, now: float) -> None:
    """Write the status conditions, with the age of each."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    rows = [
        [
            each.get("type", ""),
            each.get("status", ""),
            format_age(each.get("lastTransitionTime"), now),
            each.get("reason", ""),
            each.get("message", ""),
        ]
        for each in conditions
    ]
    if rows:
        writer.table("Conditions", [["Type", "Status", "Since", "Reason", "Message"], *rows])


def write_events(writer: DescriptionWriter, events: Iterable[Object], now: float) -> None:
    """Write the events, the latest last."""
    rows = [
        [
            event.get("type", ""),
            event.get("reason", ""),
            last_seen(event, now),
            (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
            str(event.get("message", "")).strip(),
        ]
        for event in sorted(events, key=order_key)
    ]
    writer.table("Events", [["Type", "Reason", "Age", "From", "Message"], *rows])


def write_fields(writer: DescriptionWriter, value: Any, depth: int = 0) -> None:  # noqa: ANN401 - any JSON value
    """Write a mapping recursively; names of fields become titles."""
    for name, child in value.items() if isinstance(value, Mapping) else ():
        title = field_title(name)
        if name in _USER_KEYED and isinstance(child, Mapping) and not any(map(_is_nested, child.values())):
            writer.pairs(title, dict(child), sign=": ", depth=depth)
        elif isinstance(child, Mapping) and child:
            writer.heading(title, depth)
            write_fields(writer, child, depth + 1)
        elif isinstance(child, list) and child:
            writer.heading(title, depth)
            _write_items(writer, child, depth + 1)
        else:
            writer.line(title, NONE if child in (None, {}, []) else scalar_text(child), depth)


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _write_items(writer: DescriptionWriter, items: list[Any], depth: int) -> None:
    for item in items:
        if isinstance(item, Mapping):
            write_fields(writer, item, depth)
        else:
            writer.text(scalar_text(item), depth)


def field_title(name: str) -> str:
    """Title of a field: `minReplicas` becomes `Min Replicas`; other names stay as they are."""
    if not name.isalnum():
        return name
    spaced = "".join(f" {letter}" if letter.isupper() and i else letter for i, letter in enumerate(name))
    return spaced[:1].upper() + spaced[1:]


def scalar_text(value: object) -> str:
    """Text of a scalar value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
