"""Completion indexes: which a pod has, and how a set of them is written."""

from collections.abc import Iterable, Iterator
from typing import Final

from shoal.api.batch import INDEX_KEY
from shoal.controllers.views import Pod

_PAIR: Final = 2


def index_of(pod: Pod) -> int | None:
    """The index of a pod, if it has one."""
    text = pod.metadata.annotations.get(INDEX_KEY, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - int32


def written(indexes: Iterable[int]) -> str:
    """Indexes as a status has them: `0-2,5,7,8`."""
    return ",".join(_range(first, last) for first, last in _ranges(sorted(set(indexes))))


def _ranges(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            yield ordered[start], ordered[place - 1]
            start = place


def _range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last - first + 1 == _PAIR else f"{first}-{last}"
