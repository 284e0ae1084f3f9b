"""The scripts under `tools/`."""

from pathlib import Path

import pytest

from tools import glossary, prose

SOURCE = '''\
"""Nobody's module, for everybody."""

LIMIT = 3  # who knows why
"""Seconds. Whose limit it is does not count."""

TEXT = "somebody in a string is data"


def whoever() -> str:
    """Return what somebody asked for."""
    return TEXT  # noqa: who
'''

CASES = {
    "a docstring of a module": ('"""Somebody is here."""\n', 1, 3),
    "a docstring of a function": ('def f() -> None:\n    """Nobody calls."""\n', 1, 2),
    "a docstring of an attribute": ('class A:\n    x = 1\n    """For whom?"""\n', 1, 2),
    "a comment": ("x = 1  # for anybody\n", 1, 2),
    "a comment that speaks to a tool": ("x = 1  # type: ignore[who]\n", 0, 0),
    "any case, and possessives": ("# Everybody's, WHOEVER'S\n", 2, 2),
    "the possessive of things is allowed": ("# pods whose node is lost\n", 0, 5),
    "names and strings are no prose": ('who = "nobody"\n', 0, 0),
    "an empty file": ("", 0, 0),
}


@pytest.mark.parametrize("source, found, words", CASES.values(), ids=CASES)
def test_pronouns_are_counted_in_prose_only(source: str, found: int, words: int) -> None:
    assert prose.count_prose(source) == prose.Count(words=words, found=found)


def test_a_module_is_counted_with_all_its_parts() -> None:
    count = prose.count_prose(SOURCE)
    assert (count.found, count.words) == (4, 20)
    assert count.per_thousand == 200


def test_the_worst_files_are_listed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "bad.py").write_text("# who\n")
    (tmp_path / "better.py").write_text("# who asked for it\n")
    (tmp_path / "good.py").write_text("# the caller\n")
    assert prose.main([str(tmp_path), str(tmp_path / "good.py")]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "285.7 per 1,000 words (2 of 7 words in 3 files)"
    assert [line.split()[-1] for line in rest] == [
        str(tmp_path / "inner" / "bad.py"),
        str(tmp_path / "better.py"),
    ]


def test_the_list_can_be_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        (tmp_path / f"module_{number}.py").write_text("# nobody\n")
    prose.main([str(tmp_path), "--worst", "1"])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_path_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        prose.main(["no/such/directory"])
    assert "no such file or directory: no/such/directory" in capsys.readouterr().err


# --- the glossary ------------------------------------------------------------------------------------------


def test_public_classes_are_listed_by_package(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "__init__.py").write_text(
        'class Inner:\n    """In the package\n    itself.\n\n    More."""\n'
    )
    (tmp_path / "second.py").write_text(
        'class B:\n    """This | that."""\n\n\nclass _A:\n    """Private."""\n'
    )
    (tmp_path / "third.py").write_text('class Spec:\n    """`spec` of an object."""\n')
    found = glossary.entries(tmp_path)
    assert [(entry.module, entry.name) for entry in found] == [("first", "Inner"), ("second", "B")]
    page = glossary.updated(f"by hand\n{glossary.MARKER}old list\n", found)
    assert page.startswith(f"by hand\n{glossary.MARKER}\n### first\n")
    assert "| `Inner` | In the package itself. | `first` |\n" in page
    assert "| `B` | This \\| that. | `second` |\n" in page
    assert "old list" not in page


def test_a_page_without_a_marker_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="no line"):
        glossary.updated("by hand\n", [])
