"""Index ranges: sets of indexes in a status, written as `0-2,5`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

import msgspec

from shoal.api.meta import MAX_PODS

_RANGE: Final = "[0-9]{1,5}(-[0-9]{1,5})?"

IndexRanges = Annotated[str, msgspec.Meta(pattern=f"^({_RANGE}(,{_RANGE})*)?$")]
"""Indexes below `MAX_PODS`, such as `0-2,5`; "" for none."""


def parse_indexes(text: str, below: int = MAX_PODS) -> set[int]:
    """Parse a list of indexes such as `0-2,5`; only those below a limit.

    Overlapping ranges are merged first, so that the cost is bound by the limit and not by the text.
    """
    found: set[int] = set()
    end = 0
    for first, last in sorted(_parse_ranges(text)):
        start, end = max(first, end), max(end, min(last + 1, below))
        found.update(range(start, end))
    return found


def _parse_ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as a status lists them: `0-2,5,7,8`."""
    return ",".join(_format_range(first, last) for first, last in _ranges(sorted(set(indexes))))


def _ranges(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            yield ordered[start], ordered[place - 1]
            start = place


def parse_index_map(ranges: Mapping[str, IndexRanges]) -> set[tuple[str, int]]:
    """Return the (role, index) pairs of a record of indexes by role."""
    return {(role, index) for role, text in ranges.items() for index in parse_indexes(text)}


def format_index_map(pairs: Iterable[tuple[str, int]]) -> dict[str, IndexRanges]:
    """Return (role, index) pairs as a record of indexes by role."""
    indexes = defaultdict[str, list[int]](list)
    for role, index in pairs:
        indexes[role].append(index)
    return {role: format_indexes(indexes[role]) for role in sorted(indexes)}


def _format_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
