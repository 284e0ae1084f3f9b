"""The log of one run in the CRI format: `<time> stdout|stderr F|P <text>`, one line each, in rotated files.

Writing the log must never block the container. Lines that cannot be written are dropped and counted; the
count is written to the log as soon as writing works again.
"""

import itertools
import os
import time

MAX_LINE = 16 * 1024
"""Longest line in bytes that is written in one piece; longer lines are written in parts (P)."""


class LogFile:
    """The current log file and the rotated files next to it."""

    def __init__(self, path: str, size: int, files: int) -> None:
        self._path, self._limit, self._files = path, size, files
        self._descriptor = -1
        self._size = 0
        self.dropped = 0
        self.dropped_total = 0
        self.error = ""

    def write(self, stream: str, lines: "list[bytes]", *, ended: bool) -> None:
        """Append lines; `ended` says whether the last one is complete or more of it may follow."""
        if not lines:
            return
        stamp = timestamp(time.time_ns())
        whole, part = f"{stamp} {stream} F ".encode(), f"{stamp} {stream} P ".encode()
        pieces = [piece for line in lines[:-1] for piece in _pieces(line, whole, part)]
        pieces += _pieces(lines[-1], whole if ended else part, part)
        if self._append(self._dropped_notice(stamp) + b"".join(pieces)):
            self.dropped = 0
        else:
            self.dropped += len(lines)
            self.dropped_total += len(lines)

    def _dropped_notice(self, stamp: str) -> bytes:
        """A log line with the number of lines dropped before this write; empty if none were."""
        if not self.dropped:
            return b""
        return f"{stamp} stderr F shoal: {self.dropped} lines were dropped: {self.error}\n".encode()

    def _append(self, text: bytes) -> bool:
        """Write all of the text or nothing; return whether it was written."""
        try:
            self._rotate_if_full(len(text))
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.error = error.strerror or str(error)
            self._truncate()
            return False
        self._size += len(text)
        return True

    def _truncate(self) -> None:
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, self._size)

    def _rotate_if_full(self, length: int) -> None:
        if self._descriptor >= 0 and self._size and self._size + length > self._limit:
            self._rotate()
        if self._descriptor < 0:
            self._descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        """Rename the file to `.1`, the older ones one up, and let the oldest be overwritten."""
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._files))]
        for newer, older in reversed(list(itertools.pairwise(names))):
            if os.path.exists(newer):
                os.rename(newer, older)
        if len(names) == 1:
            os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = -1


class Stream:
    """Stdout or stderr of the container: bytes from a pipe become lines of the log."""

    def __init__(self, name: str, descriptor: int, log: LogFile) -> None:
        self.descriptor = descriptor
        self.open = True
        self._name, self._log = name, log
        self._rest = b""

    def pump(self) -> bool:
        """Read once; return whether there was data.

        `open` becomes False when all writers have closed the pipe.
        """
        try:
            text = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return False
        self.open = bool(text)
        *lines, rest = (self._rest + text).split(b"\n")
        self._log.write(self._name, lines, ended=True)
        self._rest = rest
        if len(rest) >= MAX_LINE:
            self.flush()
        return self.open

    @property
    def has_partial_line(self) -> bool:
        """Whether the start of a line was read, but not its end."""
        return bool(self._rest)

    def flush(self) -> None:
        """Write the partial line now, as a part (P)."""
        if self._rest:
            self._log.write(self._name, [self._rest], ended=False)
            self._rest = b""


def _pieces(line: bytes, last: bytes, part: bytes) -> "list[bytes]":
    if len(line) <= MAX_LINE:
        return [last, line, b"\n"]
    cut = [line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE)]
    return [text for piece in cut[:-1] for text in (part, piece, b"\n")] + [last, cut[-1], b"\n"]


def timestamp(nanoseconds: int) -> str:
    """Format a time in RFC 3339 with nanoseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09}Z"
