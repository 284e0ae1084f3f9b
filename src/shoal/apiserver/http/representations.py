"""Negotiation: in which form a client wants its answer.

The first form in the Accept header that can be given is given. A client that takes nothing of it (but only
protobuf, say) is told so.

Shapes: objects as they are, as rows of a table, or as nothing but their metadata.

An object that is wanted as it is stays the text it is kept as: nothing is decoded or encoded for it.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import msgspec
from starlette.datastructures import QueryParams

from shoal.apiserver.tables import printer_of
from shoal.apiserver.tables.printing import Include, Printer, table
from shoal.cluster.errors import BadRequestError, NotAcceptableError
from shoal.cluster.port import Page
from shoal.cluster.resources import Object, Resource

Shape = Literal["Object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_JSON: Final = ("application/json", "application/*", "*/*")
_META: Final = "meta.k8s.io"
_META_VERSION: Final = "meta.k8s.io/v1"
_SHAPES: Final[dict[str, Shape]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_VERSIONS: Final = ("v1",)


class Media(msgspec.Struct, frozen=True):
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]


def shape_of(accept: str) -> Shape:
    """The shape of the answer."""
    for media in media_of(accept):
        if media.type not in _JSON:
            continue
        wanted = media.parameters.get("as")
        if wanted is None:
            return "Object"
        good = media.parameters.get("g") == _META and media.parameters.get("v") in _VERSIONS
        if good and wanted in _SHAPES:
            return _SHAPES[wanted]
    raise NotAcceptableError("only the following media types are accepted: application/json")


def wants(accept: str, **parameters: str) -> bool:
    """Whether the first JSON that a client would take has these parameters."""
    first = next((media for media in media_of(accept) if media.type in _JSON), None)
    return first is not None and parameters.items() <= first.parameters.items()


def media_of(accept: str) -> Iterator[Media]:
    """The entries of an Accept header, in order; without one, anything will do."""
    for entry in (accept or "*/*").split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield Media(kind.lower(), {name.strip(): value.strip() for name, _, value in pairs})


_INCLUDES: Final[dict[str, Include]] = {
    "": "Metadata",
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}
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
        return listed(
            "PartialObjectMetadataList", _META_VERSION, metadata, [_partial(text) for text in page.items]
        )

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
        version = _META_VERSION if partial else self.resource.api_version
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
