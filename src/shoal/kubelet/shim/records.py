"""Files that are whole or not there, whatever happens meanwhile; and plans, which the daemon hands over.

A plan is what the shim has to do, as plain data in an open file: `marshal` reads it in no time, and both
sides are the same Python.

What a shim writes down in the directory of its run: who it is, and how its container ended.
"""

import marshal
import os
import time

from shoal.kubelet.shim import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MOST = 1 << 20


def take_plan(descriptor: int, *kept: int) -> "dict[str, Any]":
    """What the daemon wrote into the file that it left open for us; of other files, only the next are kept.

    Whoever started the daemon may have left files open to it, and so to us; nobody else is to have those.
    """
    os.closerange(max((descriptor, *kept)) + 1, _MOST)
    for other in kept:
        os.set_inheritable(other, False)  # noqa: FBT003 - positional only
    with open(descriptor, "rb") as file:
        plan: dict[str, Any] = marshal.load(file)  # noqa: S302 - of the daemon that started us
        return plan


def give_plan(plan: "dict[str, Any]") -> int:
    """A descriptor from which `take_plan` reads; whoever asked closes it."""
    descriptor = os.memfd_create("plan")
    os.write(descriptor, marshal.dumps(plan))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def write_whole(path: str, text: bytes, *, durable: bool) -> None:
    """Write a file so that others see all of it or what was there before; durable: also after a power cut."""
    aside = f"{path}.new"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(text)
        while rest:  # a disk that is nearly full takes a part first, and refuses then
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(aside, path)
    if durable:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in a directory last."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def as_json(fields: "dict[str, str | float | list[str] | None]") -> bytes:
    """A flat JSON object."""
    pairs = ",".join(f"{_text(name)}:{_value(value)}" for name, value in fields.items())
    return f"{{{pairs}}}\n".encode()


def _value(value: "str | float | list[str] | None") -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode()
    return '"' + "".join(c if c >= " " and c not in '"\\' else f"\\u{ord(c):04x}" for c in plain) + '"'


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
