"""Reads the log of a run, while it is written and rotated, or afterwards.

The output is the kubelet's: lines without the CRI prefix, parts of a line joined, timestamps only on request
and only at the start of a line.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

from shoal.kubelet.shim.logfile import timestamp

_READ_SIZE: Final = 1 << 16
_POLL_INTERVAL: Final = 0.1
"""Seconds between checks for more output."""
_FIELDS: Final = 4


class Log:
    """The log of one run; `ended` is set when nothing will be appended any more."""

    def __init__(self, path: Path, files: int, ended: asyncio.Event) -> None:
        self._path, self._files = path, files
        self._ended = ended

    async def read(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        limit: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Read the log: the last `tail` lines, since a time, up to `limit` bytes.

        Until the run ends with `follow`.
        """
        text = _Renderer(since, timestamps=timestamps)
        left = limit
        with _Cursor(self._path, self._files, tail) as cursor:
            async for lines in self._chunks(cursor, follow=follow):
                rendered = text.render(lines)[:left]
                if rendered:
                    yield rendered
                if left is not None:
                    left -= len(rendered)
                    if left <= 0:
                        return

    async def _chunks(self, cursor: "_Cursor", *, follow: bool) -> AsyncIterator[list[bytes]]:
        while True:
            ended = (
                self._ended.is_set() or not follow
            )  # checked before reading, so that all output before the end is seen
            if lines := cursor.lines():
                yield lines
            elif ended:
                return
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), _POLL_INTERVAL)


class _Renderer:
    """Converts lines of the file to the original output."""

    def __init__(self, since: float | None, *, timestamps: bool) -> None:
        self._since = b"" if since is None else timestamp(int(since * 1e9)).encode()
        self._timestamps = timestamps
        self._at_start = True

    def render(self, lines: list[bytes]) -> bytes:
        return b"".join(piece for line in lines for piece in self._pieces(line))

    def _pieces(self, line: bytes) -> Iterator[bytes]:
        fields = line.split(b" ", _FIELDS - 1)
        if len(fields) < _FIELDS or fields[0] < self._since:
            return
        if self._timestamps and self._at_start:
            yield fields[0] + b" "
        yield fields[-1]
        self._at_start = fields[2] == b"F"
        if self._at_start:
            yield b"\n"


class _Cursor:
    """A position in the files of a log, which survives their rotation."""

    def __init__(self, path: Path, files: int, tail: int | None) -> None:
        self._path, self._files = path, files
        self._rest = b""
        self._rotated = False
        self._file: BinaryIO | None = None
        if tail is not None:
            self._switch_to(_seek_tail(tail, self._open_files()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._switch_to(None)

    def lines(self) -> list[bytes]:
        """The next complete lines without line ends; empty if there are none yet."""
        while True:
            text = self._file.read(_READ_SIZE) if self._file else b""
            if not text and not self._advance():
                return []
            *lines, self._rest = (self._rest + text).split(b"\n")
            if lines:
                return lines

    def _advance(self) -> bool:
        """At the end of a file: whether there may be more, in this file or in the next."""
        if self._file and not self._rotated:
            self._rotated = not _is_same_file(
                self._path, self._file
            )  # it may have grown before it was rotated
            return self._rotated
        if next_file := self._next_file():
            self._switch_to(next_file)
        return next_file is not None

    def _next_file(self) -> BinaryIO | None:
        """The file that follows the current one; the oldest existing one if the current one is gone."""
        opened = self._open_files()
        numbers = [_inode(file) for file in opened]
        own = _inode(self._file) if self._file else None
        return _take(opened, numbers.index(own) - 1 if own in numbers else len(opened) - 1)

    def _switch_to(self, file: BinaryIO | None) -> None:
        if self._file:
            self._file.close()
        self._file, self._rest, self._rotated = file, b"", False

    def _open_files(self) -> list[BinaryIO]:
        """Open all files, newest first. A file rotated meanwhile may be found twice, but is never missed."""
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._files))]
        found: dict[int, BinaryIO] = {}
        for name in names:
            with suppress(FileNotFoundError):
                file = name.open("rb", buffering=0)
                if found.setdefault(_inode(file), file) is not file:
                    file.close()
        return list(found.values())


def _take(opened: list[BinaryIO], index: int) -> BinaryIO | None:
    """Take the file at an index, None if it is negative; close the others."""
    chosen = opened.pop(index) if index >= 0 else None
    for file in opened:
        file.close()
    return chosen


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _is_same_file(path: Path, file: BinaryIO) -> bool:
    try:
        return path.stat().st_ino == _inode(file)
    except FileNotFoundError:  # in the middle of a rotation
        return False


# --- from the end ------------------------------------------------------------------------------------------


def _seek_tail(count: int, opened: list[BinaryIO]) -> BinaryIO | None:
    """The file in which the last `count` lines begin, positioned at their start."""
    if count == 0 and opened:
        opened[0].seek(0, os.SEEK_END)
        return _take(opened, 0)
    begun = False  # a partial line counts only as the last line
    for index, file in enumerate(opened):
        for end, line in _lines_backwards(file):
            whole = line.split(b" ", _FIELDS - 1)[2:3] == [b"F"]
            if whole and count == 0:
                file.seek(end)
                return _take(opened, index)
            count -= whole or not begun
            begun = True
        file.seek(0)
    return _take(opened, len(opened) - 1)


def _lines_backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of a file from the last to the first, each with the offset of the next line."""
    position, rest = file.seek(0, os.SEEK_END), b""
    while position > 0:
        start = max(0, position - _READ_SIZE)
        file.seek(start)
        first, *others = (file.read(position - start) + rest).split(b"\n")
        end = start + len(first) + sum(len(line) + 1 for line in others)
        for line in reversed(others):
            if line:
                yield end + 1, line
            end -= len(line) + 1
        position, rest = start, first
    if rest:
        yield len(rest) + 1, rest
