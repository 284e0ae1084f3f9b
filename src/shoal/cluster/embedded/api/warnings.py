"""Warnings: what was done although something is odd about it, said in headers."""

from collections.abc import Iterable, Iterator
from typing import Final

from shoal.api.fields import printable

_LONGEST: Final = 256
_MOST: Final = 16
"""How much is said at most: headers have limits of their own."""


def warnings(texts: Iterable[str]) -> Iterator[str]:
    """Values of Warning headers, each text once."""
    for text in list(dict.fromkeys(texts))[:_MOST]:
        plain = printable(text).encode("ascii", "backslashreplace").decode()[:_LONGEST]
        quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'
