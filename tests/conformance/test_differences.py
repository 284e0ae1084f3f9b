"""The table of differences names existing cases, and the documentation has the same table."""

import re
from pathlib import Path

from tests.conformance.differences import DIFFERENCES
from tests.conformance.homes import HOMES

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "homes.md"


def sentence(case: str) -> str:
    """Return `file::test_a_thing_is_so[in this case]` as a sentence."""
    name = case.partition("::test_")[2]
    test, _, row = name.rstrip("]").partition("[")
    return f"{test.replace('_', ' ')}: {row}" if row else test.replace("_", " ")


def rows() -> list[str]:
    """Return the table of the page: every case once, with the homes that differ."""
    found = {(case, reason) for cases in DIFFERENCES.values() for case, reason in cases.items()}
    return [row(case, reason) for case, reason in sorted(found)]


def row(case: str, reason: str) -> str:
    homes = [home for home in DIFFERENCES if case in DIFFERENCES[home]]
    return f"| {sentence(case)} | {', '.join(homes)} | {reason} |"


def test_the_page_lists_the_differences() -> None:
    table = PAGE.read_text().partition("## Differences")[2]
    assert [line for line in table.splitlines() if line.startswith("| ")][1:] == rows()


def test_only_homes_that_exist_differ() -> None:
    assert DIFFERENCES.keys() <= {home.name for home in HOMES}


def test_the_cases_exist() -> None:
    for case in {case for cases in DIFFERENCES.values() for case in cases}:
        file, _, name = case.partition("::")
        test, _, row = name.rstrip("]").partition("[")
        source = (HERE / file).read_text()
        assert re.search(rf"^async def {test}\(", source, re.MULTILINE)
        assert row in source
