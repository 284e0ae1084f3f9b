"""How an API server writes what is around objects: lists, events, statuses."""

from typing import Any, Final

import msgspec


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """What the port needs to know of an object's metadata."""

    resource_version: str = ""
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None


class Headed(msgspec.Struct, frozen=True):
    """An object of which only the metadata is looked at."""

    metadata: Header = Header()
    kind: str = ""


class Continued(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    remaining_item_count: int | None = None
    next: str = msgspec.field(default="", name="continue")


class Listed(msgspec.Struct, frozen=True):
    """A list: empty ones of some servers are null."""

    metadata: Continued
    items: list[msgspec.Raw] | None = None


class Told(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


HEADED: Final = msgspec.json.Decoder(Headed)
LISTED: Final = msgspec.json.Decoder(Listed)
TOLD: Final = msgspec.json.Decoder(Told)


def status_of(text: bytes | msgspec.Raw) -> dict[str, Any]:
    """A Status object; whatever is not one becomes its message, as proxies answer in their own words."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = None
    if isinstance(found, dict):
        return found
    return {"message": bytes(text).decode(errors="replace").strip()[:1000]}


class Lines:
    """Makes whole lines of the chunks that a stream comes in, however long a line is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def rest(self) -> bool:
        """Whether there is a line that has not ended."""
        return any(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk. A long line is put together once, and not at every chunk."""
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        if not newline:
            return []
        *lines, last = [b"".join(self._parts), *rest.split(b"\n")]
        self._parts = [last]
        return [line for line in lines if line]
