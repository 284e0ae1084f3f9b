"""Shapes: objects as they are, as rows of a table, or as nothing but their metadata.

An object that is wanted as it is stays the text it is kept as: nothing is decoded or encoded for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams

from shoal.cluster.embedded.api.negotiation import Shape
from shoal.cluster.embedded.api.tables import printer_of
from shoal.cluster.embedded.api.tables.printing import Include, Printer, table
from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Page
from shoal.cluster.resources import Object, Resource

_INCLUDES: Final[dict[str, Include]] = {
    "": "Metadata",
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}
_META: Final = "meta.k8s.io/v1"
_AT_ONCE: Final = 128
"""Rows that are made in one go: in about ten milliseconds."""


class _Glance(msgspec.Struct):
    metadata: msgspec.Raw


_glance: Final = msgspec.json.Decoder(_Glance)


class Shaper:
    """Gives texts of one resource the shape that a client wants."""

    def __init__(
        self, resource: Resource[Object], shape: Shape, query: QueryParams, now: Callable[[], float]
    ) -> None:
        self.resource, self.shape, self._now = resource, shape, now
        include = query.get("includeObject", "")
        if include not in _INCLUDES:
            raise BadRequestError(f"includeObject must be None, Metadata or Object, not '{include}'")
        self._include = _INCLUDES[include]
        self._columns_told = False

    def one(self, text: bytes) -> bytes:
        """One object."""
        if self.shape == "Object":
            return text
        if self.shape == "Table":
            return msgspec.json.encode(self._table([text]))
        return _partial(text)

    async def page(self, page: Page[bytes]) -> bytes:
        """A list, or a part of one."""
        metadata: dict[str, Any] = {"resourceVersion": page.version}
        if page.next:
            metadata["continue"] = page.next
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if self.shape == "Table":
            return _joined(self._table([]) | {"metadata": metadata}, "rows", await self._rows(page.items))
        if self.shape == "Object":
            return listed(f"{self.resource.kind}List", self.resource.api_version, metadata, page.items)
        return listed("PartialObjectMetadataList", _META, metadata, [_partial(text) for text in page.items])

    def streamed(self, text: bytes) -> bytes:
        """One object of a watch: only the first table of a stream says its columns."""
        if self.shape != "Table":
            return self.one(text)
        made = self._table([text])
        if self._columns_told:
            made["columnDefinitions"] = None
        self._columns_told = True
        return msgspec.json.encode(made)

    def bookmark(self, metadata: Object) -> bytes:
        """An object that is nothing but a version."""
        if self.shape == "Table":
            return msgspec.json.encode(self._table([]) | {"columnDefinitions": None, "metadata": metadata})
        partial = self.shape != "Object"
        kind = "PartialObjectMetadata" if partial else self.resource.kind
        version = _META if partial else self.resource.api_version
        return msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})

    async def _rows(self, texts: list[bytes]) -> list[bytes]:
        """The rows of a table, as texts; others have their turn now and then."""
        rows: list[bytes] = []
        for first in range(0, len(texts), _AT_ONCE):
            made = self._table(texts[first : first + _AT_ONCE])
            rows += map(msgspec.json.encode, made["rows"])
            await asyncio.sleep(0)
        return rows

    def _table(self, texts: list[bytes]) -> Object:
        return table(self._printer, texts, self._include, self._now())

    @property
    def _printer(self) -> Printer:
        return printer_of(self.resource)


def listed(kind: str, api_version: str, metadata: Object, texts: list[bytes]) -> bytes:
    """A list of objects that are texts already."""
    return _joined({"kind": kind, "apiVersion": api_version, "metadata": metadata}, "items", texts)


def _joined(head: Object, field: str, texts: list[bytes]) -> bytes:
    """An object whose last field is a list of texts."""
    start = msgspec.json.encode({name: value for name, value in head.items() if name != field})
    return b"".join((start[:-1], b',"', field.encode(), b'":[', b",".join(texts), b"]}"))


def _partial(text: bytes) -> bytes:
    metadata = bytes(_glance.decode(text).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + metadata + b"}"
