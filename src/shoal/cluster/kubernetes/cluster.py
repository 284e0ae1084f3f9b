"""The cluster port on a Kubernetes API server."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from shoal.cluster.errors import BadRequestError, InternalError, UnavailableError, from_status
from shoal.cluster.kubernetes.access import Access
from shoal.cluster.kubernetes.transport import (
    Method,
    Query,
    Request,
    Sleep,
    Transport,
    TransportLimits,
    WriteGuard,
)
from shoal.cluster.kubernetes.wire import (
    EVENT_DECODER,
    JSON,
    LIST_DECODER,
    MERGE_PATCH,
    OBJECT_DECODER,
    LineSplitter,
    PartialObject,
    parse_status,
)
from shoal.cluster.port import DEFAULT_DELETION, EVERYTHING, Deletion, Page, Selector, WatchEvent
from shoal.cluster.resources import NAMESPACES, PODS, Object, Resource

T = TypeVar("T")

_DRY_RUN: Final = {"dryRun": "All"}


class KubernetesCluster:
    """A cluster behind an API server; the port documents the methods."""

    def __init__(
        self,
        access: Access,
        limits: TransportLimits | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        guard: WriteGuard | None = None,
    ) -> None:
        """Connections are opened when they are needed: no request is sent here.

        `guard` is called right before each write is sent, and may raise instead.
        """
        self._transport: Final = Transport(access, limits or TransportLimits(), sleep, guard)
        self._namespace: Final = access.namespace

    # --- reading ------------------------------------------------------------------------------------------

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        path = self._path(resource, name, namespace)
        return _decode(resource, await self._transport.request(Request(method="GET", path=path)))

    async def list(
        self, resource: Resource[T], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        query = _selector_query(selector)
        if limit:
            query["limit"] = str(limit)
        if start:
            query["continue"] = start
        request = Request(method="GET", path=_collection_path(resource, selector.namespace), query=query)
        return _decode_page(resource, await self._transport.request(request))

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - the server enforces it
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        query = _selector_query(selector) | {"watch": "true", "allowWatchBookmarks": "true"}
        if version:
            query["resourceVersion"] = version
        if timeout is not None:
            query["timeoutSeconds"] = str(max(math.ceil(timeout), 1))
        request = Request(method="GET", path=_collection_path(resource, selector.namespace), query=query)
        async with self._transport.stream(request) as chunks:
            yield _events(resource, chunks)

    # --- writing ------------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        _, namespace = _name_and_namespace(body)
        path = _collection_path(resource, namespace or self._namespace)
        return await self._write(
            resource, "POST", path, _with_kind(resource, body), _DRY_RUN if dry_run else {}
        )

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        name, namespace = _name_and_namespace(body)
        path = self._path(resource, name, namespace)
        return await self._write(
            resource, "PUT", path, _with_kind(resource, body), _DRY_RUN if dry_run else {}
        )

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        path = self._path(resource, name, namespace)
        return await self._write(resource, "PATCH", path, patch, _DRY_RUN if dry_run else {})

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        path = self._path(resource, name, namespace, "status")
        return await self._write(resource, "PATCH", path, patch, _DRY_RUN if dry_run else {})

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", deletion: Deletion = DEFAULT_DELETION
    ) -> T | None:
        path = self._path(resource, name, namespace)
        body = msgspec.json.encode(_delete_options(deletion))
        text = await self._transport.request(Request(method="DELETE", path=path, body=body))
        return resource.decode(text) if _still_exists(resource, text) else None

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._post_to_pod(name, namespace, "binding", binding)

    async def evict(self, name: str, namespace: str, deletion: Deletion = DEFAULT_DELETION) -> None:
        """Evict a pod. An exhausted budget answers 429, as a busy server does: neither is retried here."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(deletion),
        }
        await self._post_to_pod(name, namespace, "eviction", eviction, retry_busy=False)

    async def close(self) -> None:
        await self._transport.close()

    def _path(self, resource: Resource[Any], name: str, namespace: str, subresource: str = "") -> str:
        return _object_path(resource, name, namespace or self._namespace, subresource)

    async def _write(self, resource: Resource[T], method: Method, path: str, body: Object, query: Query) -> T:
        content = MERGE_PATCH if method == "PATCH" else JSON
        request = Request(
            method=method, path=path, query=query, body=msgspec.json.encode(body), content=content
        )
        return _decode(resource, await self._transport.request(request))

    async def _post_to_pod(
        self, name: str, namespace: str, subresource: str, body: Object, *, retry_busy: bool = True
    ) -> None:
        path = self._path(PODS, name, namespace, subresource)
        text = msgspec.json.encode(body)
        await self._transport.request(Request(method="POST", path=path, body=text, retry_busy=retry_busy))


# --- paths ------------------------------------------------------------------------------------------------


def _object_path(resource: Resource[Any], name: str, namespace: str, subresource: str = "") -> str:
    """Return the path of one object; reject names that would address the collection or another path."""
    if not name:
        raise BadRequestError("resource name may not be empty")
    if name in {".", ".."} or "/" in name or "%" in name:
        raise BadRequestError(
            f"invalid resource name {name!r}: it must not be '.' or '..' nor contain '/' or '%'"
        )
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _collection_path(resource: Resource[Any], namespace: str) -> str:
    return resource.path(quote(namespace, safe=""))


def _name_and_namespace(body: Object) -> tuple[str, str]:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "")


def _with_kind(resource: Resource[Any], body: Object) -> Object:
    """Return the object with apiVersion and kind, which servers require for custom resources."""
    return {"apiVersion": resource.api_version, "kind": resource.kind} | body


def _selector_query(selector: Selector) -> dict[str, str]:
    query = {"labelSelector": selector.labels, "fieldSelector": selector.fields}
    return {key: value for key, value in query.items() if value}


# --- responses --------------------------------------------------------------------------------------------


def _decode(resource: Resource[T], text: bytes) -> T:
    """Decode a response with the resource, once it is known to be an object."""
    _decode_partial(resource, text)
    return resource.decode(text)


def _decode_partial(resource: Resource[Any], text: bytes) -> PartialObject:
    try:
        return OBJECT_DECODER.decode(text)
    except ValueError as error:
        raise InternalError(f"the response for {resource.full_name} is not an object: {error}") from error


def _decode_page(resource: Resource[T], text: bytes) -> Page[T]:
    try:
        listed = LIST_DECODER.decode(text)
    except msgspec.DecodeError as error:
        raise InternalError(f"the response for {resource.full_name} is not a list: {error}") from error
    return Page(
        items=[resource.decode(item) for item in listed.items or ()],
        version=listed.metadata.resource_version,
        next=listed.metadata.next,
        remaining=listed.metadata.remaining_item_count,
    )


async def _events(resource: Resource[T], chunks: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent[T]]:
    lines = LineSplitter()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            yield _decode_event(resource, line)
    if lines.has_partial_line:
        raise UnavailableError(f"the watch of {resource.full_name} ended in the middle of an event")


def _decode_event(resource: Resource[T], line: bytes) -> WatchEvent[T]:
    try:
        event = EVENT_DECODER.decode(line)
        version = OBJECT_DECODER.decode(event.object).metadata.resource_version
    except msgspec.DecodeError as error:
        raise InternalError(f"the watch of {resource.full_name} sent an invalid event: {error}") from error
    match event.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return WatchEvent(event.type, resource.decode(event.object), version)
        case "BOOKMARK":
            return WatchEvent("BOOKMARK", None, version)
        case _:
            raise from_status(parse_status(event.object))


def _delete_options(deletion: Deletion) -> Object:
    preconditions = {"uid": deletion.uid, "resourceVersion": deletion.version}
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if deletion.grace is not None:
        options["gracePeriodSeconds"] = deletion.grace
    if deletion.propagation is not None:
        options["propagationPolicy"] = deletion.propagation
    if deletion.uid or deletion.version:
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
    if deletion.dry_run:
        options["dryRun"] = ["All"]
    return options


def _still_exists(resource: Resource[Any], text: bytes) -> bool:
    """Return whether the response to a deletion is an object that still exists.

    Some resources answer with a Status when the object is deleted, others with its last state. An object that
    still exists has finalizers, or a grace period. A namespace has finalizers in its spec, and always stays.
    """
    found = _decode_partial(resource, text)
    if found.kind == "Status":
        return False
    metadata = found.metadata
    return bool(
        metadata.finalizers
        or metadata.deletion_grace_period_seconds
        or resource.full_name == NAMESPACES.full_name
    )
