"""Files that others replace while we run: tokens and certificates expire, and new ones are put in place."""

from pathlib import Path
from typing import Final

Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which file it is: a replaced one differs in some of it."""


class Watched:
    """The content of a file, read again when it has changed; or bytes, which never do."""

    def __init__(self, source: bytes | Path) -> None:
        self.source: Final = source
        self._content = source if isinstance(source, bytes) else b""
        self._stamp: Stamp | None = None

    def read(self) -> bytes:
        """What is there now; OSError if nothing can be read."""
        if isinstance(self.source, Path):
            found = self.source.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._content, self._stamp = self.source.read_bytes(), stamp
        return self._content
