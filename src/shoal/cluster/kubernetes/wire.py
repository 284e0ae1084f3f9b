"""Wire format of an API server: lists, watch events and statuses.

Objects themselves stay text here: each is decoded once, by the resource that was asked for. Commands import
this module at start: it imports neither asyncio nor aiohttp.
"""

from typing import Any, Final

import msgspec

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


class PartialMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an object's metadata that the client needs."""

    resource_version: str = ""
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None


class PartialObject(msgspec.Struct, frozen=True):
    """An object of which only kind and metadata are decoded."""

    metadata: PartialMetadata = PartialMetadata()
    kind: str = ""


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    remaining_item_count: int | None = None
    next: str = msgspec.field(default="", name="continue")


class RawList(msgspec.Struct, frozen=True):
    """A list; some servers write an empty one as null."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class RawEvent(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


OBJECT_DECODER: Final = msgspec.json.Decoder(PartialObject)
LIST_DECODER: Final = msgspec.json.Decoder(RawList)
EVENT_DECODER: Final = msgspec.json.Decoder(RawEvent)


def parse_status(text: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode a Status object. Any other text becomes the message: proxies answer in plain text or HTML."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = None
    if isinstance(found, dict):
        return found
    return {"message": bytes(text).decode(errors="replace").strip()[:1000]}


def parse_retry_after(header: str) -> float | None:
    """Parse a Retry-After header: seconds; None if it is absent, or a date."""
    return float(header) if header.isdecimal() else None


class LineSplitter:
    """Splits a stream of chunks into lines of any length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def has_partial_line(self) -> bool:
        """Whether a line has begun and not ended."""
        return any(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk. The parts of a long line are joined once, at its end."""
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        if not newline:
            return []
        *lines, last = [b"".join(self._parts), *rest.split(b"\n")]
        self._parts = [last]
        return [line for line in lines if line]
