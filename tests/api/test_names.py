"""Numbers in names: one to seven ASCII digits."""

import pytest

from shoal.api.names import parse_small_int

NUMBERS: dict[str, int | None] = {
    "0": 0,
    "007": 7,
    "9999999": 9_999_999,
    "10000000": None,
    "": None,
    "-1": None,
    "+1": None,
    " 1": None,
    "1\n": None,
    "1_0": None,
    "1.0": None,
    "²": None,
    "١": None,  # noqa: RUF001 - the Arabic digit one, on purpose
}


@pytest.mark.parametrize("text, number", NUMBERS.items(), ids=map(repr, NUMBERS))
def test_parse_small_int(text: str, number: int | None) -> None:
    assert parse_small_int(text) == number
