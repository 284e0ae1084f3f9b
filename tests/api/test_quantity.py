"""Quantities: parsing, rejection, formatting, and exact sums."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.quantity import NANO, Quantity, format_bytes, format_milli

PARSED: list[tuple[object, int]] = [
    ("0", 0),
    ("-0", 0),
    ("+1", NANO),
    ("100m", NANO // 10),
    ("0.1", NANO // 10),
    (".5", NANO // 2),
    ("5.", 5 * NANO),
    ("1.5Gi", 3 * 2**29 * NANO),
    ("1e3", 1000 * NANO),
    ("1E3", 1000 * NANO),
    ("1e+3", 1000 * NANO),
    ("12e6", 12 * 10**6 * NANO),
    ("1e-3", NANO // 1000),
    ("1E", 10**18 * NANO),
    ("1Ei", 2**60 * NANO),
    ("1n", 1),
    ("0.5n", 1),  # finer than the smallest unit: rounded up
    ("1.0000000001", NANO + 1),
    ("1u", 1000),
    ("3k", 3000 * NANO),
    ("3Ki", 3072 * NANO),
    ("1M", 10**6 * NANO),
    ("1T", 10**12 * NANO),
    ("1P", 10**15 * NANO),
    ("1Pi", 2**50 * NANO),
    ("0.000000000000000000001", 1),
    (2, 2 * NANO),
    (0.1, NANO // 10),
    (1e22 / 1e10, 10**12 * NANO),
]

REJECTED: list[tuple[object, str]] = [
    ("", "not ''"),
    (" ", "not ' '"),
    ("1 Gi", "not '1 Gi'"),
    (" 1", "not ' 1'"),
    ("1\n", r"not '1\n'"),
    ("1GiB", "not '1GiB'"),
    ("1gi", "not '1gi'"),
    ("1K", "not '1K'"),
    ("--1", "not '--1'"),
    (".", "not '.'"),
    ("Gi", "not 'Gi'"),
    ("1e", "not '1e'"),
    ("1e1.5", "not '1e1.5'"),
    ("1_000", "not '1_000'"),
    ("0x10", "not '0x10'"),
    ("inf", "not 'inf'"),
    ("١", "not '١'"),  # noqa: RUF001 - the Arabic digit one, on purpose
    ("1" * 100, "1…'"),
    ("-1", "must be 0 or more, not '-1'"),
    (-1, "must be 0 or more, not '-1'"),
    ("-1n", "must be 0 or more, not '-1n'"),
    ("1e400", "must be at most 1Ei, not '1e400'"),
    ("2Ei", "must be at most 1Ei, not '2Ei'"),
    (True, "not true"),
    (None, "not null"),
    (float("nan"), "not 'nan'"),
    (float("inf"), "not 'inf'"),
    ([1], "not a list"),
    ({"a": 1}, "not a mapping"),
]


@pytest.mark.parametrize("text, nano", PARSED, ids=repr)
def test_is_parsed_exactly(text: object, nano: int) -> None:
    assert Quantity(text).nano == nano


@pytest.mark.parametrize("text, message", REJECTED, ids=lambda value: repr(value)[:30])
def test_is_rejected_with_its_value(text: object, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        Quantity(text)
    assert str(caught.value).endswith(message)


def test_equal_amounts_in_other_units_are_equal() -> None:
    assert {Quantity("1"), Quantity("1000m"), Quantity("1e0")} == {Quantity(1)}
    assert Quantity("1") != 1


@given(st.integers(0, 10**15))
def test_format_milli_round_trip(milli: int) -> None:
    assert Quantity(format_milli(milli)).nano == milli * 10**6


@given(st.integers(0, 2**60) | st.integers(0, 2**30).map(lambda n: n * 2**30))
def test_format_bytes_round_trip(value: int) -> None:
    assert Quantity(format_bytes(value)).nano == value * NANO


SUFFIXES = {"n": Fraction(1, NANO), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
SUFFIXES |= {"k": Fraction(10**3), "M": Fraction(10**6), "Ki": Fraction(2**10), "Gi": Fraction(2**30)}


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))))
def test_sums_are_exact(parts: list[tuple[int, int, str]]) -> None:
    """A sum exceeds the exact one by less than a nano-unit for each part, and is never below it."""
    texts = [f"{whole}.{part:03}{suffix}" for whole, part, suffix in parts]
    exact = sum(
        (Fraction(whole * 1000 + part, 1000) * SUFFIXES[suffix] for whole, part, suffix in parts), Fraction(0)
    )
    total = Fraction(sum(Quantity(text).nano for text in texts), NANO)
    assert 0 <= total - exact < Fraction(max(len(parts), 1), NANO)
