"""Read the objects in the files, directories and standard input that `-f` names.

A file that cannot be read becomes an error line among the others, never a traceback. Only regular files are
opened: reading a pipe or a device named by mistake could block forever.
"""

import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from shoal.api import manifest
from shoal.api.fields import pluralize
from shoal.api.loader import LoadResult, UnreadableSource, load_objects

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PEEK: Final = 4096


def load(filenames: Sequence[str], *, recursive: bool = False) -> LoadResult:
    """Read and validate all objects in the files."""
    return load_objects(read(filenames, recursive=recursive))


def read(filenames: Sequence[str], *, recursive: bool = False) -> Iterator[tuple[str, object]]:
    """Read all objects in the files, each with its source; Unreadable in place of a file with an error."""
    for filename in filenames:
        if filename == STDIN:
            yield from _read_stream("standard input", sys.stdin.buffer)
        elif not filename:
            yield "-f ''", UnreadableSource("the file name is empty")
        else:
            yield from _read_path(Path(filename), recursive=recursive)


def report(loaded: LoadResult) -> None:
    """Print skipped kinds, warnings and errors on standard error; exit with 2 if there is an error."""
    for name, count in sorted(loaded.unknown.items()):
        click.echo(f"skipped: {name} ({pluralize(count, 'object')}): unsupported kind", err=True)
    report_problems(loaded)


def report_problems(loaded: LoadResult) -> None:
    """Print warnings and errors on standard error; exit with 2 if there is an error."""
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    for error in loaded.errors:
        click.echo(f"error: {error}", err=True)
    if loaded.errors:
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
            yield str(path), UnreadableSource("is not a regular file; use - to read from a pipe")
    except OSError as problem:
        yield str(path), UnreadableSource(_reason(problem))


def _read_directory(directory: Path, *, recursive: bool) -> Iterator[tuple[str, object]]:
    found = directory.rglob("*") if recursive else directory.iterdir()
    files = sorted(path for path in found if path.suffix in _SUFFIXES and not path.is_dir())
    if not files:
        yield str(directory), UnreadableSource(f"has no files that end in {', '.join(_SUFFIXES)}")
    for path in files:
        yield from _read_path(path, recursive=False)


def _read_stream(source: str, stream: BinaryIO) -> Iterator[tuple[str, object]]:
    """Read the objects in an open file; the size limit holds whatever size the file claims to have."""
    try:
        for place, raw in manifest.read(_read_limited(stream)):
            yield f"{source}{place}", raw
    except (manifest.ManifestError, OSError) as problem:
        yield source, UnreadableSource(_reason(problem))


def _read_limited(stream: BinaryIO) -> bytes:
    start = stream.read(_PEEK)
    limit = manifest.size_limit(start)
    data = start + stream.read(limit - len(start) + 1)
    if len(data) > limit:
        raise manifest.too_large(limit)
    return data


def _reason(problem: Exception) -> str:
    strerror = problem.strerror if isinstance(problem, OSError) else None
    return f"cannot be read: {strerror}" if strerror else str(problem)
