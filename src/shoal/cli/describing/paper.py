"""Text in two columns, indented, with tables in between: what descriptions are written on."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from shoal.cli.tables import columns

NONE: Final = "<none>"
_GAP: Final = 2


class Paper:
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
        self.text(columns(rows), depth + 1)

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
