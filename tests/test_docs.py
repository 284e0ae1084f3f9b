"""The documentation: links lead somewhere, and modules and names that it mentions exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import invoke
from tools import glossary

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "shoal"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])

every_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@every_page
def test_paths_exist(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    paths = re.findall(r"`((?:src|tests|benchmarks|tools|examples|docs)/[\w./*-]*)`", prose)
    assert [path for path in paths if not any(ROOT.glob(path.rstrip("/")))] == []


@every_page
def test_objects_are_valid(page: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    for block in (one for one in blocks if "apiVersion:" in one and "metadata:" in one):
        assert invoke("validate", "-f", "-", stdin=block).err == ""


def named_in_tour() -> Iterator[tuple[str, str]]:
    """Each "`module.py`: `name`" of the tour; "`Class.method`" where the name has two parts."""
    text = (ROOT / "docs" / "tour.md").read_text()
    yield from re.findall(r"`([\w/]+\.py)`:\s+`([\w.]+)`", text)


@pytest.mark.parametrize("module, name", sorted(set(named_in_tour())))
def test_the_tour_names_what_exists(module: str, name: str) -> None:
    source = (PACKAGE / module).read_text()
    missing = [
        part
        for part in name.split(".")
        if not re.search(rf"^\s*(async def|def|class) {part}\b", source, re.MULTILINE)
    ]
    assert missing == []


def test_the_glossary_lists_every_class() -> None:
    listed = re.findall(r"^\| `(\w+)` \|.*\| `([\w.]+)` \|$", glossary.PAGE.read_text(), re.MULTILINE)
    expected = [(entry.name, entry.module) for entry in glossary.entries(glossary.PACKAGE)]
    assert listed == expected, "run `make glossary`"
