"""Reading the log of a run, while it is written and rotated, or afterwards.

The answers are the kubelet's: whole lines without the marks of the CRI, parts of a line joined, times only
where they are asked for and only at the beginning of a line.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

from shoal.kubelet.shim.logfile import timestamp

_BLOCK: Final = 1 << 16
_LOOK: Final = 0.1
"""Seconds between two looks whether there is more."""
_FIELDS: Final = 4


class Log:
    """The log of one run; `over` is set when nothing is added any more."""

    def __init__(self, path: Path, files: int, over: asyncio.Event) -> None:
        self._path, self._files = path, files
        self._over = over

    async def read(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        limit: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """What was written: the last lines, from a time on, so many bytes; to the end, if followed."""
        text = _Text(since, timestamps=timestamps)
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
            over = self._over.is_set() or not follow  # asked first: what came before the end is then there
            if lines := cursor.lines():
                yield lines
            elif over:
                return
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _LOOK)


class _Text:
    """Turns lines of the file into what was written."""

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
    """A place in the files of a log, which follows them when they are rotated."""

    def __init__(self, path: Path, files: int, tail: int | None) -> None:
        self._path, self._files = path, files
        self._rest = b""
        self._rotated = False
        self._file: BinaryIO | None = None
        if tail is not None:
            self._go_to(_beginning_of_last(tail, self._opened()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self._go_to(None)

    def lines(self) -> list[bytes]:
        """The next whole lines that are there, without their ends; none if there are none yet."""
        while True:
            text = self._file.read(_BLOCK) if self._file else b""
            if not text and not self._advanced():
                return []
            *lines, self._rest = (self._rest + text).split(b"\n")
            if lines:
                return lines

    def _advanced(self) -> bool:
        """At the end of a file: whether there may be more, in this one or in the next."""
        if self._file and not self._rotated:
            self._rotated = not _same(self._path, self._file)  # it may have grown until it was
            return self._rotated
        if following := self._following():
            self._go_to(following)
        return following is not None

    def _following(self) -> BinaryIO | None:
        """The file that was begun after ours, if it was; the oldest that there is, if ours is gone."""
        opened = self._opened()
        numbers = [_number(file) for file in opened]
        mine = _number(self._file) if self._file else None
        return _chosen(opened, numbers.index(mine) - 1 if mine in numbers else len(opened) - 1)

    def _go_to(self, file: BinaryIO | None) -> None:
        if self._file:
            self._file.close()
        self._file, self._rest, self._rotated = file, b"", False

    def _opened(self) -> list[BinaryIO]:
        """All files, newest first: one that is rotated meanwhile is seen twice rather than not at all."""
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._files))]
        found: dict[int, BinaryIO] = {}
        for name in names:
            with suppress(FileNotFoundError):
                file = name.open("rb", buffering=0)
                if found.setdefault(_number(file), file) is not file:
                    file.close()
        return list(found.values())


def _chosen(opened: list[BinaryIO], index: int) -> BinaryIO | None:
    """One of the files, if there is one of this number; the others are closed."""
    chosen = opened.pop(index) if index >= 0 else None
    for file in opened:
        file.close()
    return chosen


def _number(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _same(path: Path, file: BinaryIO) -> bool:
    try:
        return path.stat().st_ino == _number(file)
    except FileNotFoundError:  # being rotated
        return False


# --- from the end ------------------------------------------------------------------------------------------


def _beginning_of_last(count: int, opened: list[BinaryIO]) -> BinaryIO | None:
    """The file in which the last lines begin, at their beginning."""
    if count == 0 and opened:
        opened[0].seek(0, os.SEEK_END)
        return _chosen(opened, 0)
    begun = False  # a line without its end is a line too, if it is the last
    for index, file in enumerate(opened):
        for end, line in _backwards(file):
            whole = line.split(b" ", _FIELDS - 1)[2:3] == [b"F"]
            if whole and count == 0:
                file.seek(end)
                return _chosen(opened, index)
            count -= whole or not begun
            begun = True
        file.seek(0)
    return _chosen(opened, len(opened) - 1)


def _backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, the last one first, each with where the next one begins."""
    position, rest = file.seek(0, os.SEEK_END), b""
    while position > 0:
        start = max(0, position - _BLOCK)
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
