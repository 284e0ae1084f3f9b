"""The log of one run, as the CRI has it: `<time> stdout|stderr F|P <text>`, a line each, in a few files.

A log must never hold up what it tells of. What cannot be written is dropped and counted, and how much it was
stands in the log as soon as there is room again.
"""

import itertools
import os
import time

LONGEST = 16 * 1024
"""Bytes of a line that are kept together; what is longer is written in parts (P)."""


class LogFile:
    """Where lines go: one file, and the older ones beside it."""

    def __init__(self, path: str, size: int, files: int) -> None:
        self._path, self._limit, self._files = path, size, files
        self._descriptor = -1
        self._size = 0
        self.dropped = 0
        self.dropped_ever = 0
        self.problem = ""

    def write(self, stream: str, lines: "list[bytes]", *, ended: bool) -> None:
        """Keep lines; the last of them has no end yet unless it has ended."""
        if not lines:
            return
        stamp = timestamp(time.time_ns())
        whole, part = f"{stamp} {stream} F ".encode(), f"{stamp} {stream} P ".encode()
        pieces = [piece for line in lines[:-1] for piece in _pieces(line, whole, part)]
        pieces += _pieces(lines[-1], whole if ended else part, part)
        if self._append(self._notice(stamp) + b"".join(pieces)):
            self.dropped = 0
        else:
            self.dropped += len(lines)
            self.dropped_ever += len(lines)

    def _notice(self, stamp: str) -> bytes:
        """How much is missing before the next line, if anything is."""
        if not self.dropped:
            return b""
        return f"{stamp} stderr F shoal: {self.dropped} lines were dropped: {self.problem}\n".encode()

    def _append(self, text: bytes) -> bool:
        """Write all of it, or nothing."""
        try:
            self._make_room(len(text))
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as problem:
            self.problem = problem.strerror or str(problem)
            self._take_back()
            return False
        self._size += len(text)
        return True

    def _take_back(self) -> None:
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, self._size)

    def _make_room(self, length: int) -> None:
        if self._descriptor >= 0 and self._size and self._size + length > self._limit:
            self._rotate()
        if self._descriptor < 0:
            self._descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        """The file becomes the first of the older ones; the oldest goes."""
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._files))]
        for newer, older in reversed(list(itertools.pairwise(names))):
            if os.path.exists(newer):
                os.rename(newer, older)
        if len(names) == 1:
            os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = -1


class Stream:
    """One of the container's two streams: what is read from its pipe becomes lines of the log."""

    def __init__(self, name: str, descriptor: int, log: LogFile) -> None:
        self.descriptor = descriptor
        self.open = True
        self._name, self._log = name, log
        self._rest = b""

    def pump(self) -> bool:
        """Read once, and say whether there was anything; not open any more once nobody can write."""
        try:
            text = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return False
        self.open = bool(text)
        *lines, rest = (self._rest + text).split(b"\n")
        self._log.write(self._name, lines, ended=True)
        self._rest = rest
        if len(rest) >= LONGEST:
            self.flush()
        return self.open

    @property
    def waiting(self) -> bool:
        """Whether part of a line has come, and not its end."""
        return bool(self._rest)

    def flush(self) -> None:
        """Do not wait for the end of the line any longer."""
        if self._rest:
            self._log.write(self._name, [self._rest], ended=False)
            self._rest = b""


def _pieces(line: bytes, last: bytes, part: bytes) -> "list[bytes]":
    if len(line) <= LONGEST:
        return [last, line, b"\n"]
    cut = [line[start : start + LONGEST] for start in range(0, len(line), LONGEST)]
    return [text for piece in cut[:-1] for text in (part, piece, b"\n")] + [last, cut[-1], b"\n"]


def timestamp(nanoseconds: int) -> str:
    """A time as RFC 3339 has it, to the nanosecond."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09}Z"
