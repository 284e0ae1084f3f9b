"""What `-f` names: files, directories and standard input, read into objects.

Whatever cannot be read becomes an error line among the others, never a traceback. Only regular files are
opened: a pipe or a device named by mistake could be waited for until the end of time.
"""

import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from shoal.api import manifest
from shoal.api.fields import many
from shoal.api.intake import Intake, Unreadable, take

STDIN: Final = "-"
_ENDINGS: Final = (".yaml", ".yml", ".json")
_PEEK: Final = 4096


def load(filenames: Sequence[str], *, recursive: bool = False) -> Intake:
    """All objects in the files, checked."""
    return take(read(filenames, recursive=recursive))


def read(filenames: Sequence[str], *, recursive: bool = False) -> Iterator[tuple[str, object]]:
    """All objects in the files, each with its source; an Unreadable where a file could not be read."""
    for filename in filenames:
        if filename == STDIN:
            yield from _read_stream("standard input", sys.stdin.buffer)
        elif not filename:
            yield "-f ''", Unreadable("is not the name of a file")
        else:
            yield from _read_path(Path(filename), recursive=recursive)


def report(intake: Intake) -> None:
    """Say on standard error what was skipped, what is doubtful, what is wrong; exit 2 if anything is."""
    for name, count in sorted(intake.unknown.items()):
        click.echo(f"skipped: {name} ({many(count, 'object')}): not a kind that is read", err=True)
    report_problems(intake)


def report_problems(intake: Intake) -> None:
    """Say on standard error what is doubtful and what is wrong; exit 2 if anything is."""
    for warning in intake.warnings:
        click.echo(f"warning: {warning}", err=True)
    for error in intake.errors:
        click.echo(f"error: {error}", err=True)
    if intake.errors:
        raise click.exceptions.Exit(2)


def _read_path(path: Path, *, recursive: bool) -> Iterator[tuple[str, object]]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from _read_directory(path, recursive=recursive)
        elif stat.S_ISREG(mode):
            with path.open("rb") as stream:
                yield from _read_stream(str(path), stream)
        else:
            yield str(path), Unreadable("is not a regular file; use - to read from a pipe")
    except OSError as problem:
        yield str(path), Unreadable(_why(problem))


def _read_directory(directory: Path, *, recursive: bool) -> Iterator[tuple[str, object]]:
    found = directory.rglob("*") if recursive else directory.iterdir()
    files = sorted(path for path in found if path.suffix in _ENDINGS and not path.is_dir())
    if not files:
        yield str(directory), Unreadable(f"has no files that end in {', '.join(_ENDINGS)}")
    for path in files:
        yield from _read_path(path, recursive=False)


def _read_stream(source: str, stream: BinaryIO) -> Iterator[tuple[str, object]]:
    """The objects in an open file; it is not trusted to be of the size it says."""
    try:
        for place, raw in manifest.read(_read_limited(stream)):
            yield f"{source}{place}", raw
    except (manifest.ManifestError, OSError) as problem:
        yield source, Unreadable(_why(problem))


def _read_limited(stream: BinaryIO) -> bytes:
    start = stream.read(_PEEK)
    limit = manifest.size_limit(start)
    data = start + stream.read(limit - len(start) + 1)
    if len(data) > limit:
        raise manifest.too_large(limit)
    return data


def _why(problem: Exception) -> str:
    strerror = problem.strerror if isinstance(problem, OSError) else None
    return f"cannot be read: {strerror}" if strerror else str(problem)
