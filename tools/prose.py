"""Count personal pronouns in docstrings and comments: a thermometer for plain technical English.

    python tools/prose.py                    src, the ten worst files
    python tools/prose.py src tests --worst 30

Text that speaks of objects as of people ("whoever asks", "nobody waits") is hard to read, above all in a
second language. The count is per 1,000 words of docstrings and comments. Comparable projects (kopf, anyio)
have about 0.1. The exit code is 0 whatever the count is: this is a measurement, not a gate. Other string
literals are not counted, nor are comments for tools (`noqa`, `type: ignore`).
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COUNTED: Final = frozenset(
    ("who", "whoever", "whom", "whomever", "somebody", "nobody", "anybody", "everybody"),
)
"""The words that are counted. "whose" is not among them: English has no other possessive for things."""

_WORD: Final = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
_POSSESSIVE: Final = re.compile(r"['’]s$", re.IGNORECASE)
_DIRECTIVE: Final = re.compile(r"#\s*(?:noqa|type:|mypy:|pragma:|ruff:|fmt:|!)")
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Count:
    """The words of one file or of many."""

    words: int = 0
    """All words in docstrings and comments."""

    found: int = 0
    """The words of `COUNTED` among them."""

    @property
    def per_thousand(self) -> float:
        """Counted words per 1,000 words; 0 where there is no prose at all."""
        return 1000 * self.found / self.words if self.words else 0.0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.words + other.words, self.found + other.found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the count of all files together, then of the worst files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, help="directories or files (default: src)")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="files to list (default: 10)")
    options = parser.parse_args(arguments)
    paths = options.paths or [Path("src")]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        parser.error(f"no such file or directory: {', '.join(missing)}")
    counts = {path: count_prose(path.read_text(encoding="utf-8")) for path in python_files(paths)}
    sys.stdout.writelines(f"{line}\n" for line in report(counts, worst=options.worst))
    return 0


def python_files(paths: Iterable[Path]) -> list[Path]:
    """All Python files under the given paths, each once, in order of their names."""
    found = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else (path,))}
    return sorted(found)


def count_prose(source: str) -> Count:
    """Count the words in the docstrings and comments of one module."""
    words = [word for text in prose_of(source) for word in _WORD.findall(text)]
    counted = sum(_POSSESSIVE.sub("", word).lower() in COUNTED for word in words)
    return Count(len(words), counted)


def prose_of(source: str) -> Iterator[str]:
    """The docstrings and comments of a module, including the strings that document attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED):
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield token.string


def report(counts: dict[Path, Count], *, worst: int) -> Iterator[str]:
    """One line for all files, then a line for each of the worst, most frequent first."""
    total = sum(counts.values(), Count())
    yield (
        f"{total.per_thousand:.1f} per 1,000 words"
        f" ({total.found} of {total.words:,} words in {len(counts):,} files)"
    )
    offenders = [(path, count) for path, count in counts.items() if count.found]
    offenders.sort(key=lambda item: (-item[1].per_thousand, item[0]))
    for path, count in offenders[:worst]:
        yield f"{count.per_thousand:8.1f}  {count.found:4}  {path}"


if __name__ == "__main__":
    sys.exit(main())
