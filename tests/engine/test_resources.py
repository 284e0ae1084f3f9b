"""Formatting of amounts for people, and parsing of amounts as a report writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.resources import CPU, MEMORY, PODS, STORAGE, format_amount, format_short, parse_amount

GI = 2**30

SHORT_FORMATS: list[tuple[str, str, int, str]] = [
    ("no cores", CPU, 0, "0"),
    ("whole cores", CPU, 64_000, "64"),
    ("half a core", CPU, 1_500, "1.5"),
    ("cores are rounded to tenths", CPU, 2_349_960, "2350"),
    ("a small amount is not 0", CPU, 1, "<0.1"),
    ("no memory", MEMORY, 0, "0"),
    ("a byte is not 0", MEMORY, 1, "<0.1Mi"),
    ("less than a Gi", MEMORY, GI // 2, "512Mi"),
    ("Gi with a tenth", MEMORY, 217 * GI + GI // 2, "217.5Gi"),
    ("an amount rounded up to the next unit is written in it", MEMORY, 1024 * GI - 1, "1Ti"),
    ("Ti with hundredths", MEMORY, 1500 * GI, "1.46Ti"),
    ("hundredths keep their zero", STORAGE, 1034 * GI, "1.01Ti"),
    ("storage is bytes too", STORAGE, 3 * 2**50, "3Pi"),
    ("Pi is the largest unit", STORAGE, 5000 * 2**50, "5000Pi"),
    ("other resources are counted", PODS, 1024, "1024"),
    ("GPUs are counted", "nvidia.com/gpu", 2000, "2000"),
]


@pytest.mark.parametrize(
    "sentence, resource, amount, text", SHORT_FORMATS, ids=[row[0] for row in SHORT_FORMATS]
)
def test_format_short(sentence: str, resource: str, amount: int, text: str) -> None:
    assert format_short(resource, amount) == text, sentence


@given(st.sampled_from([CPU, MEMORY, PODS, "nvidia.com/gpu"]), st.integers(0, 2**80))
def test_formatted_amounts_of_any_size_are_parsed_back(resource: str, amount: int) -> None:
    assert parse_amount(resource, format_amount(resource, amount)) == amount
