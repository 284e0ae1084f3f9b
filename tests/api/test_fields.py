"""Errors with paths: which hold, in which order they come, and how many there are of something."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NoReturn

import pytest

from shoal.api.fields import FieldError, InvalidObjectError, pluralize

STANDING: list[tuple[str, str, set[str], bool]] = [
    ("nothing is wrong", "a.b", set(), True),
    ("the field itself", "a.b", {"a.b"}, False),
    ("what it is part of", "a.b[0].c", {"a.b"}, False),
    ("an item it is part of", "a.b[0].c", {"a.b[0]"}, False),
    ("the whole object", "a.b", {""}, False),
    ("the whole object of the whole object", "", {""}, False),
    ("a part of it", "a", {"a.b"}, True),
    ("a neighbour", "a.b", {"a.c"}, True),
    ("a neighbour whose name starts alike", "a.bc", {"a.b"}, True),
    ("a key with dots", "a[x.y/z].b", {"a[x.y/z]"}, False),
]


@pytest.mark.parametrize("sentence, path, wrong, stands", STANDING, ids=[row[0] for row in STANDING])
def test_what_is_said_needs_fields_that_are_right(
    sentence: str, path: str, wrong: set[str], *, stands: bool
) -> None:
    assert FieldError(path, "is bad").is_independent_of(wrong) is stands, sentence
    assert FieldError("x", "is bad", ("y", path)).is_independent_of(wrong - {""}) is (stands or "" in wrong)


class LookedUp(AbstractSet[str]):
    """A set that is asked, and never walked through."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def __contains__(self, item: object) -> bool:
        self.asked.append(item)
        return False

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def __len__(self) -> NoReturn:
        raise AssertionError


def test_what_is_wrong_is_looked_up_however_much_it_is() -> None:
    wrong = LookedUp()
    assert FieldError("a.b[0].c", "is bad").is_independent_of(wrong)
    assert sorted(map(str, wrong.asked)) == ["", "a", "a.b", "a.b[0]", "a.b[0].c"]


def test_errors_come_once_and_in_one_order() -> None:
    paths = [f"x[{'0' * zeros}1]" for zeros in range(8, -1, -1)]
    errors = [FieldError(path, message) for path in paths for message in ("is bad", "is worse")]
    assert InvalidObjectError(reversed(errors * 2)).errors == errors


COUNTS = {
    (0, "pod"): "0 pods",
    (1, "pod"): "1 pod",
    (2, "other node"): "2 other nodes",
    (1200, "x"): "1,200 xs",
}


@pytest.mark.parametrize("counted, text", COUNTS.items(), ids=COUNTS.values())
def test_so_many(counted: tuple[int, str], text: str) -> None:
    assert pluralize(*counted) == text
