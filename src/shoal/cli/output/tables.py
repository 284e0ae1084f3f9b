"""Tables as kubectl draws them: columns as wide as what is in them, three blanks apart."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_GAP: Final = 3
_NARROWEST: Final = 6
_BREAK: Final = re.compile(r"[\f\n\r]")


class Columns:
    """Lines up rows. Widths are remembered, so that rows that come later stand below those before."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def drawn(self, rows: Iterable[Sequence[object]]) -> list[str]:
        """The rows as lines; the last cell of each is as wide as it is."""
        shown = [[cell(value) for value in row] for row in rows]
        for row in shown:
            self._widen(row)
        return [self._line(row) for row in shown]

    def _widen(self, row: Sequence[str]) -> None:
        self._widths += [0] * (len(row) - len(self._widths))
        for number, text in enumerate(row):
            self._widths[number] = max(self._widths[number], len(text) + _GAP, _NARROWEST)

    def _line(self, row: Sequence[str]) -> str:
        *before, last = row
        return "".join(text.ljust(width) for text, width in zip(before, self._widths, strict=False)) + last


def cell(value: object) -> str:
    """What stands in a cell: one line, the first of several."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    first, *rest = _BREAK.split(text, maxsplit=1)
    return f"{first}..." if rest else first


def columns(rows: Iterable[Sequence[object]]) -> str:
    """A whole table."""
    return "\n".join(Columns().drawn(rows))
