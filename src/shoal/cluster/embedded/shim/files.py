"""Files that are whole or not there, whatever happens meanwhile; and plans, which the daemon hands over.

A plan is what the shim has to do, as plain data in an open file: `marshal` reads it in no time, and both
sides are the same Python.
"""

import marshal
import os

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
