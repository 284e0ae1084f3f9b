"""Responses: JSON bodies with headers, errors as Status, warnings, and content negotiation.

The first representation in the Accept header that is supported is used: whole objects, tables, or metadata
only. Whole objects are sent as the stored text, without decoding or encoding.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response

from shoal.api.fields import printable
from shoal.apiserver.http.printers import printer_of
from shoal.apiserver.http.requests import RequestContext, Target
from shoal.apiserver.http.tables import IncludeObject, Printer, make_table
from shoal.cluster.errors import (
    BadRequestError,
    ClusterError,
    InvalidError,
    MethodNotAllowedError,
    NotAcceptableError,
    NotFoundError,
)
from shoal.cluster.port import Page
from shoal.cluster.resources import Object, Resource

JSON: Final = "application/json"
PLAIN: Final = "text/plain"
HEADERS: Final = {"Cache-Control": "no-cache, private"}


def json_response(
    value: Any,  # noqa: ANN401 - any JSON value
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] = {},
) -> Response:
    """Return a response with a value, which is encoded as JSON."""
    return raw_json_response(msgspec.json.encode(value), status, headers)


def raw_json_response(text: bytes, status: int = HTTPStatus.OK, headers: Mapping[str, str] = {}) -> Response:
    """Return a response with JSON text."""
    return Response(text, status, {**HEADERS, **headers}, JSON)


def text_response(text: str) -> Response:
    """Return a plain text response."""
    return Response(text, HTTPStatus.OK, HEADERS, PLAIN)


_CODES_WITH_DETAILS: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
)


def not_found() -> ClusterError:
    """Return the error for a path that does not exist."""
    return NotFoundError("the server could not find the requested resource")


def method_not_allowed() -> ClusterError:
    """Return the error for a method that the path does not support."""
    return MethodNotAllowedError("the server does not allow this method on the requested resource")


def status_of(error: ClusterError, target: Target | None = None) -> dict[str, Any]:
    """Return the Status of an error, with details of the target."""
    status = error.status()
    if target is not None and _has_object_details(error):
        details = details_of(target, kind=error.code == HTTPStatus.UNPROCESSABLE_ENTITY)
        status["details"] = details | status.get("details", {})
    elif error.code == HTTPStatus.NOT_FOUND:
        status.setdefault("details", {})  # kubectl fails on a NotFound without details
    return status


def _has_object_details(error: ClusterError) -> bool:
    """Whether to add object details; not without causes if invalid: kubectl would hide the message."""
    return error.code in _CODES_WITH_DETAILS and (bool(error.causes) or not isinstance(error, InvalidError))


def details_of(target: Target, *, kind: bool = False) -> dict[str, Any]:
    """Return the details of a Status: name, group, and plural or kind."""
    resource = target.resource
    identity = {"name": target.name, "group": resource.group}
    return {name: value for name, value in identity.items() if value} | {
        "kind": resource.kind if kind else resource.plural
    }


def error_response(error: ClusterError, target: Target | None = None) -> Response:
    """Return the response for an error."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(round(error.retry_after), 1))
    if error.code == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="shoal"'
    return json_response(status_of(error, target), int(error.code), headers)


def success_status(target: Target, uid: str = "") -> dict[str, Any]:
    """Return a Status of success, for responses without an object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details_of(target) | ({"uid": uid} if uid else {}),
    }


_MAX_WARNING_LENGTH: Final = 256
_MAX_WARNINGS: Final = 16
"""Limits of warnings: clients limit the size of headers."""


def warning_headers(texts: Iterable[str]) -> Iterator[str]:
    """Yield the values of Warning headers, without duplicates."""
    for text in list(dict.fromkeys(texts))[:_MAX_WARNINGS]:
        plain = printable(text).encode("ascii", "backslashreplace").decode()[:_MAX_WARNING_LENGTH]
        quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'


RepresentationKind = Literal["Object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_JSON: Final = ("application/json", "application/*", "*/*")
_META: Final = "meta.k8s.io"
_META_VERSION: Final = "meta.k8s.io/v1"
_KINDS: Final[dict[str, RepresentationKind]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_VERSIONS: Final = ("v1",)


class MediaRange(msgspec.Struct, frozen=True):
    """One media range of an Accept header."""

    type: str
    parameters: dict[str, str]


def negotiate_kind(accept: str) -> RepresentationKind:
    """Choose the representation of the response; NotAcceptableError if none is supported."""
    for media in parse_accept(accept):
        if media.type not in _JSON:
            continue
        wanted = media.parameters.get("as")
        if wanted is None:
            return "Object"
        supported = media.parameters.get("g") == _META and media.parameters.get("v") in _VERSIONS
        if supported and wanted in _KINDS:
            return _KINDS[wanted]
    raise NotAcceptableError("only the following media types are accepted: application/json")


def prefers(accept: str, **parameters: str) -> bool:
    """Whether the first JSON media range of the header has these parameters."""
    first = next((media for media in parse_accept(accept) if media.type in _JSON), None)
    return first is not None and parameters.items() <= first.parameters.items()


def parse_accept(accept: str) -> Iterator[MediaRange]:
    """Yield the media ranges of an Accept header in order; an empty header accepts everything."""
    for entry in (accept or "*/*").split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield MediaRange(kind.lower(), {name.strip(): value.strip() for name, _, value in pairs})


_INCLUDES: Final[dict[str, IncludeObject]] = {
    "": "Metadata",
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}
_ROWS_PER_STEP: Final = 128
"""Table rows rendered before yielding to the event loop: about ten milliseconds."""


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder: Final = msgspec.json.Decoder(_MetadataOnly)


class Representation:
    """Encodes objects of one resource as the client wants them."""

    def __init__(
        self,
        resource: Resource[Object],
        kind: RepresentationKind,
        query: QueryParams,
        clock: Callable[[], float],
    ) -> None:
        self.resource, self.kind, self._clock = resource, kind, clock
        include = query.get("includeObject", "")
        if include not in _INCLUDES:
            raise BadRequestError(f"includeObject must be None, Metadata or Object, not '{include}'")
        self._include = _INCLUDES[include]
        self._columns_sent = False

    @classmethod
    def for_request(cls, context: RequestContext) -> "Representation":
        """Return the representation that a request asks for."""
        request = context.request
        kind = negotiate_kind(request.headers.get("accept", ""))
        return cls(context.target.resource, kind, request.query_params, context.clock)

    def encode(self, text: bytes) -> bytes:
        """Encode one object."""
        if self.kind == "Object":
            return text
        if self.kind == "Table":
            return msgspec.json.encode(self._table([text]))
        return _metadata_only(text)

    async def encode_page(self, page: Page[bytes]) -> bytes:
        """Encode a page of a list."""
        metadata: dict[str, Any] = {"resourceVersion": page.version}
        if page.next:
            metadata["continue"] = page.next
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if self.kind == "Table":
            return _join_list(self._table([]) | {"metadata": metadata}, "rows", await self._rows(page.items))
        if self.kind == "Object":
            return encode_list(f"{self.resource.kind}List", self.resource.api_version, metadata, page.items)
        return encode_list(
            "PartialObjectMetadataList",
            _META_VERSION,
            metadata,
            [_metadata_only(text) for text in page.items],
        )

    def encode_for_watch(self, text: bytes) -> bytes:
        """Encode the object of a watch event; only the first table of a stream has column definitions."""
        if self.kind != "Table":
            return self.encode(text)
        table = self._table([text])
        if self._columns_sent:
            table["columnDefinitions"] = None
        self._columns_sent = True
        return msgspec.json.encode(table)

    def encode_bookmark(self, metadata: Object) -> bytes:
        """Encode the object of a bookmark, which has only metadata."""
        if self.kind == "Table":
            return msgspec.json.encode(self._table([]) | {"columnDefinitions": None, "metadata": metadata})
        partial = self.kind != "Object"
        kind = "PartialObjectMetadata" if partial else self.resource.kind
        version = _META_VERSION if partial else self.resource.api_version
        return msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})

    async def _rows(self, texts: list[bytes]) -> list[bytes]:
        """Render table rows as JSON, yielding to the event loop in between."""
        rows: list[bytes] = []
        for first in range(0, len(texts), _ROWS_PER_STEP):
            table = self._table(texts[first : first + _ROWS_PER_STEP])
            rows += map(msgspec.json.encode, table["rows"])
            await asyncio.sleep(0)
        return rows

    def _table(self, texts: list[bytes]) -> Object:
        return make_table(self._printer, texts, self._include, self._clock())

    @property
    def _printer(self) -> Printer:
        return printer_of(self.resource)


def encode_list(kind: str, api_version: str, metadata: Object, texts: list[bytes]) -> bytes:
    """Encode a list of objects that are JSON text."""
    return _join_list({"kind": kind, "apiVersion": api_version, "metadata": metadata}, "items", texts)


def _join_list(head: Object, field: str, texts: list[bytes]) -> bytes:
    """Encode an object whose last field is a list of JSON texts."""
    start = msgspec.json.encode({name: value for name, value in head.items() if name != field})
    return b"".join((start[:-1], b',"', field.encode(), b'":[', b",".join(texts), b"]}"))


def _metadata_only(text: bytes) -> bytes:
    metadata = bytes(_metadata_decoder.decode(text).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + metadata + b"}"


async def until_stopped(chunks: AsyncIterator[bytes], stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield chunks until the iterator or the server ends; a pending wait for the next chunk is cancelled."""
    task = asyncio.current_task()
    iterator, stopped = aiter(chunks), asyncio.ensure_future(stopping.wait())
    waiting_for_chunk = False

    def wake(_: object) -> None:
        if waiting_for_chunk and task is not None and stopping.is_set():
            task.cancel()

    stopped.add_done_callback(wake)
    try:
        while not stopping.is_set():
            waiting_for_chunk = True
            chunk = await anext(iterator, None)
            waiting_for_chunk = False
            if chunk is None:
                return
            yield chunk
    except asyncio.CancelledError:
        if not (waiting_for_chunk and stopping.is_set()) or task is None:
            raise
        task.uncancel()
    finally:
        stopped.cancel()
