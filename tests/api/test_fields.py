"""FieldError: dependencies on other fields, order, duplicates; pluralize."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NoReturn

import pytest

from shoal.api.fields import FieldError, InvalidObjectError, pluralize

DEPENDENCIES: list[tuple[str, str, set[str], bool]] = [
    ("no field is invalid", "a.b", set(), True),
    ("the field itself", "a.b", {"a.b"}, False),
    ("an ancestor", "a.b[0].c", {"a.b"}, False),
    ("an item that is an ancestor", "a.b[0].c", {"a.b[0]"}, False),
    ("the whole object", "a.b", {""}, False),
    ("the whole object, for an error of the whole object", "", {""}, False),
    ("a descendant", "a", {"a.b"}, True),
    ("a sibling", "a.b", {"a.c"}, True),
    ("a sibling whose name has the same prefix", "a.bc", {"a.b"}, True),
    ("a key with dots", "a[x.y/z].b", {"a[x.y/z]"}, False),
]


@pytest.mark.parametrize(
    "sentence, path, invalid, independent", DEPENDENCIES, ids=[row[0] for row in DEPENDENCIES]
)
def test_an_error_depends_on_fields_of_the_right_type(
    sentence: str, path: str, invalid: set[str], *, independent: bool
) -> None:
    assert FieldError(path, "is bad").is_independent_of(invalid) is independent, sentence
    assert FieldError("x", "is bad", ("y", path)).is_independent_of(invalid - {""}) is (
        independent or "" in invalid
    )


class LookupOnlySet(AbstractSet[str]):
    """A set that allows lookups and fails when it is iterated."""

    def __init__(self) -> None:
        self.lookups: list[object] = []

    def __contains__(self, item: object) -> bool:
        self.lookups.append(item)
        return False

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def __len__(self) -> NoReturn:
        raise AssertionError


def test_dependencies_are_looked_up_without_iteration() -> None:
    invalid = LookupOnlySet()
    assert FieldError("a.b[0].c", "is bad").is_independent_of(invalid)
    assert sorted(map(str, invalid.lookups)) == ["", "a", "a.b", "a.b[0]", "a.b[0].c"]


def test_errors_are_sorted_without_duplicates() -> None:
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
def test_pluralize(counted: tuple[int, str], text: str) -> None:
    assert pluralize(*counted) == text
