"""The files of a run that the shim writes, and the configuration that the daemon hands to a shim.

A configuration is plain data in an open memory file, encoded with `marshal`: it decodes fast, and both sides
run the same Python. `shim.json` identifies the shim and its container, `exit.json` says how the container
ended. All files are replaced atomically.
"""

import marshal
import os
import time

from shoal.kubelet.shim import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MAX_DESCRIPTOR = 1 << 20
"""Upper bound of descriptors that are closed at start."""


def receive_config(descriptor: int, *kept: int) -> "dict[str, Any]":
    """Read the configuration from a descriptor.

    All descriptors above the used ones are closed; `kept` stay open.

    Descriptors that the daemon inherited by accident would otherwise be inherited by every container.
    """
    os.closerange(max((descriptor, *kept)) + 1, _MAX_DESCRIPTOR)
    for other in kept:
        os.set_inheritable(other, False)  # noqa: FBT003 - positional only
    with open(descriptor, "rb") as file:
        config: dict[str, Any] = marshal.load(file)  # noqa: S302 - written by the daemon that started us
        return config


def send_config(config: "dict[str, Any]") -> int:
    """Return a descriptor from which `receive_config` reads the configuration; the caller closes it."""
    descriptor = os.memfd_create("plan")
    os.write(descriptor, marshal.dumps(config))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def write_atomically(path: str, text: bytes, *, durable: bool) -> None:
    """Write a file so that readers see the old or the new contents; `durable`: also after a power failure."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(text)
        while rest:  # a nearly full disk accepts a part first, then fails
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    if durable:
        fsync_directory(os.path.dirname(path))


def fsync_directory(path: str) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def encode_json(fields: "dict[str, str | float | list[str] | None]") -> bytes:
    """Encode a flat JSON object; `json` would take too long to import."""
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


_RESERVED = 4096
"""Bytes reserved for exit.json at the start: a full disk must not lose an exit code."""
_MAX_MESSAGE = 512
"""Longest message in characters that fits into the reserved space in any encoding."""
_RETRY = 1.0
"""Seconds between attempts to write exit.json."""


class ShimFiles:
    """The files in the directory of a run that the shim writes."""

    def __init__(self, directory: str, cgroups: "list[str]") -> None:
        self._directory, self._cgroups = directory, cgroups

    def create(self) -> None:
        """Write `shim.json` before the container is forked: from now on the container may have run."""
        descriptor = self._open_exit()
        try:
            os.write(descriptor, b" " * _RESERVED)
        finally:
            os.close(descriptor)
        write_atomically(f"{self._directory}/shim.json", self._shim_record(None, None), durable=True)

    def record_container(self, container: int, started: "float | None") -> bytes:
        """Add the container's process to `shim.json`.

        Return the record for the daemon, in case the disk is full.
        """
        text = self._shim_record(container, started)
        try:
            write_atomically(f"{self._directory}/shim.json", text, durable=False)
        except OSError:
            return text
        return text

    def record_exit(self, fields: "dict[str, str | float | None]", message: str) -> None:
        """Write `exit.json`; retry until it is written or the run's directory is deleted."""
        text = encode_json({**fields, "message": message[:_MAX_MESSAGE]})
        while not self._write_exit(text):
            time.sleep(_RETRY)

    def _shim_record(self, container: "int | None", started: "float | None") -> bytes:
        own_pid = os.getpid()
        return encode_json(
            {
                "boot": process.boot_id(),
                "pid": own_pid,
                "start": process.start_time(own_pid),
                "container": container,
                "containerStart": process.start_time(container) if container else None,
                "started": started,
                "cgroups": self._cgroups,
            }
        )

    def _open_exit(self) -> int:
        return os.open(f"{self._directory}/exit.new", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write_exit(self, text: bytes) -> bool:
        """Write into the reserved space; return whether that worked or is not needed any more."""
        try:
            descriptor = self._open_exit()
            try:
                os.write(descriptor, text)
                os.ftruncate(descriptor, len(text))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(f"{self._directory}/exit.new", f"{self._directory}/exit.json")
            fsync_directory(self._directory)
        except OSError:
            return not os.path.exists(self._directory)  # deleted: no reader is left
        return True
