"""What a shim writes down in the directory of its run: who it is, and how its container ended."""

import os
import time

from shoal.cluster.embedded.shim import process
from shoal.cluster.embedded.shim.files import as_json, sync_directory, write_whole

_ROOM = 4096
"""Bytes that are kept free for exit.json from the start: a full disk must not cost an exit code."""
_MESSAGE = 512
"""Characters of a message that fit into them, however they are written."""
_RETRY = 1.0
"""Seconds between two attempts to write how it ended."""


class Account:
    """The files of one run that are the shim's."""

    def __init__(self, directory: str, cgroups: "list[str]") -> None:
        self._directory, self._cgroups = directory, cgroups

    def open(self) -> None:
        """Say who we are, before there is a container: from now on it may have run."""
        descriptor = self._open_exit()
        try:
            os.write(descriptor, b" " * _ROOM)
        finally:
            os.close(descriptor)
        write_whole(f"{self._directory}/shim.json", self._introduction(None, None), durable=True)

    def tell_of(self, container: int, started: "float | None") -> bytes:
        """Say who the container is; the text, for whom it cannot reach through a full disk."""
        text = self._introduction(container, started)
        try:
            write_whole(f"{self._directory}/shim.json", text, durable=False)
        except OSError:
            return text
        return text

    def close(self, fields: "dict[str, str | float | None]", message: str) -> None:
        """Say how it ended; try again for as long as that cannot be written, and somebody could read it."""
        text = as_json({**fields, "message": message[:_MESSAGE]})
        while not self._written(text):
            time.sleep(_RETRY)

    def _introduction(self, container: "int | None", started: "float | None") -> bytes:
        me = os.getpid()
        return as_json(
            {
                "boot": process.boot_id(),
                "pid": me,
                "start": process.start_time(me),
                "container": container,
                "containerStart": process.start_time(container) if container else None,
                "started": started,
                "cgroups": self._cgroups,
            }
        )

    def _open_exit(self) -> int:
        return os.open(f"{self._directory}/exit.new", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _written(self, text: bytes) -> bool:
        """Write into the room that was kept for it."""
        try:
            descriptor = self._open_exit()
            try:
                os.write(descriptor, text)
                os.ftruncate(descriptor, len(text))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(f"{self._directory}/exit.new", f"{self._directory}/exit.json")
            sync_directory(self._directory)
        except OSError:
            return not os.path.exists(self._directory)  # whoever deleted it does not want to know
        return True
