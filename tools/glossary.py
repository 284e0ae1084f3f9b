"""Write the list of classes in docs/glossary.md, from the first lines of their docstrings.

    python tools/glossary.py            rewrite the part of the page below the marker

The concepts above the marker are written by hand. `spec` and `status` structs of objects are left out: their
fields are documented by the objects themselves.
"""

import argparse
import ast
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "src" / "shoal"
PAGE: Final = ROOT / "docs" / "glossary.md"
MARKER: Final = "<!-- Written by `make glossary`; edit the docstrings instead. -->\n"

_FIELDS: Final = re.compile(r"`(?:spec|status)` of ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One public class: its module below `shoal`, its name, and the first sentence of its docstring."""

    module: str
    name: str
    meaning: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), entries(PACKAGE)), encoding="utf-8")
    return 0


def entries(package: Path) -> list[Entry]:
    """All public classes of a package, by module and name."""
    found = [entry for path in sorted(package.rglob("*.py")) for entry in _classes(path, package)]
    return sorted(found, key=lambda entry: (entry.module, entry.name))


def _classes(path: Path, package: Path) -> Iterator[Entry]:
    parts = path.relative_to(package).with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            meaning = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            if not _FIELDS.match(meaning):
                yield Entry(module, node.name, meaning)


def updated(page: str, found: Iterable[Entry]) -> str:
    """The page with a new list below the marker."""
    head, marker, _ = page.partition(MARKER)
    if not marker:
        raise ValueError(f"the page has no line {MARKER.strip()}")
    return head + MARKER + "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Iterable[Entry]) -> Iterator[str]:
    """One table for each package."""
    for package, members in itertools.groupby(found, key=lambda entry: entry.module.partition(".")[0]):
        yield from ("", f"### {package}", "", "| class | meaning | module |", "|---|---|---|")
        for entry in members:
            meaning = entry.meaning.replace("|", "\\|")
            yield f"| `{entry.name}` | {meaning} | `{entry.module}` |"


if __name__ == "__main__":
    sys.exit(main())
