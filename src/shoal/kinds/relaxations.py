"""Ways to ask for fewer pods of jobs whose pods come in sets: worker sets, tasks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify, heapreplace
from typing import Final, TypeVar

from shoal.kinds.base import FieldValues, Relaxation

J = TypeVar("J")

Counts = list[int]
"""Number of pods of each set."""

_MOST_SETS: Final = 3
"""How many sets are tried alone."""


def fewer_of_sets(
    role: str,
    counts: Sequence[int],
    fields: Callable[[Counts], FieldValues],
    job: Callable[[Counts], J],
) -> Iterator[Relaxation[J]]:
    """Fewer pods of one set alone, the largest set first; then fewer of all sets. Of each set one is left."""
    total = sum(counts)

    def relaxation(most: int, remaining: Callable[[int], Counts]) -> Relaxation[J]:
        return Relaxation(
            role,
            total,
            total - most,
            lambda n: fields(remaining(total - n)),
            lambda n: job(remaining(total - n)),
        )

    for most, remaining in _reductions(list(counts)):
        yield relaxation(most, remaining)


def changed_fields(before: Sequence[int], after: Sequence[int], path: str) -> FieldValues:
    """Numbers that differ, by field path; `path` has a `{}` for the position in the list."""
    pairs = enumerate(zip(before, after, strict=True))
    return {path.format(index): new for index, (old, new) in pairs if old != new}


def _reductions(counts: Counts) -> Iterator[tuple[int, Callable[[int], Counts]]]:
    """Each way to reduce: by how many pods at most, and the counts that remain after so many fewer."""
    for index in sorted(range(len(counts)), key=lambda index: -counts[index])[:_MOST_SETS]:
        yield counts[index] - 1, partial(_fewer_of_one, counts, index)
    if sum(count > 1 for count in counts) > 1:
        yield sum(counts) - len(counts), partial(_fewer_of_all, counts)


def _fewer_of_one(counts: Counts, index: int, fewer: int) -> Counts:
    return [*counts[:index], counts[index] - fewer, *counts[index + 1 :]]


def _fewer_of_all(counts: Counts, fewer: int) -> Counts:
    """Take pods one by one from the largest set; of equal sets from the last."""
    heap = [(-count, -index) for index, count in enumerate(counts)]
    heapify(heap)
    for _ in range(fewer):
        count, index = heap[0]
        heapreplace(heap, (count + 1, index))
    return [-count for count, _ in sorted(heap, key=lambda pair: -pair[1])]
