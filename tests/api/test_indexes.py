"""Lists of indexes: parsing, and a cost bounded by the size of the job."""

import pytest

from shoal.api import indexes
from shoal.api.indexes import parse_indexes

LISTS: list[tuple[str, str, int, set[int]]] = [
    ("an empty list", "", 10, set()),
    ("single indexes and ranges", "0-2,5", 10, {0, 1, 2, 5}),
    ("out of order and overlapping", "5-7,0,6-8,1-1", 10, {0, 1, 5, 6, 7, 8}),
    ("a range within a range", "0-9,2-3,7", 20, set(range(10))),
    ("a reversed range is empty", "5-2,6", 10, {6}),
    ("only indexes below the limit", "1-9999999,3,12", 4, {1, 2, 3}),
    ("all indexes are above the limit", "7-9,9999999", 4, set()),
]


@pytest.mark.parametrize("sentence, text, below, expected", LISTS, ids=[row[0] for row in LISTS])
def test_parse_indexes(sentence: str, text: str, below: int, expected: set[int]) -> None:
    assert parse_indexes(text, below) == expected, sentence


def test_the_default_limit_is_100000() -> None:
    assert len(parse_indexes("0-9999999")) == 100_000


def test_each_index_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[int] = []

    def counted(start: int, end: int) -> range:
        generated.extend(range(start, end))
        return range(start, end)

    monkeypatch.setattr(indexes, "range", counted, raising=False)
    parse_indexes("0-99," * 1000 + "0-9999999," * 1000, 200)
    assert sorted(generated) == list(range(200))
