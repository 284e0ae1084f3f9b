"""How an API server writes what is around objects: lists, events, statuses.

Objects themselves stay text here: each is decoded once, by whoever asked, into what they asked for.

The port, in the words of Kubernetes.
"""

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
    JSON,
    MERGE_PATCH,
    Limits,
    Query,
    Request,
    Sleep,
    Transport,
    Verb,
)
from shoal.cluster.kubernetes.wire import HEADED, LISTED, TOLD, Headed, Lines, status_of
from shoal.cluster.port import AS_USUAL, EVERYWHERE, Deletion, Event, Page, Where
from shoal.cluster.resources import NAMESPACES, PODS, Object, Resource

T = TypeVar("T")

_DRY_RUN: Final = {"dryRun": "All"}


class KubernetesCluster:
    """A cluster behind an API server; see the port for what its methods promise."""

    def __init__(self, access: Access, limits: Limits | None = None, *, sleep: Sleep = asyncio.sleep) -> None:
        """Connections are opened when they are needed: nothing is asked of the server here."""
        self._transport: Final = Transport(access, limits or Limits(), sleep)
        self._namespace: Final = access.namespace

    # --- reading ------------------------------------------------------------------------------------------

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        path = self._path(resource, name, namespace)
        return _made(resource, await self._transport.ask(Request(verb="GET", path=path)))

    async def list(
        self, resource: Resource[T], where: Where = EVERYWHERE, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        query = _selectors(where)
        if limit:
            query["limit"] = str(limit)
        if start:
            query["continue"] = start
        request = Request(verb="GET", path=_collection(resource, where.namespace), query=query)
        return _page(resource, await self._transport.ask(request))

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        where: Where = EVERYWHERE,
        *,
        version: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - it is the server that is told
    ) -> AsyncIterator[AsyncIterator[Event[T]]]:
        query = _selectors(where) | {"watch": "true", "allowWatchBookmarks": "true"}
        if version:
            query["resourceVersion"] = version
        if timeout is not None:
            query["timeoutSeconds"] = str(max(math.ceil(timeout), 1))
        request = Request(verb="GET", path=_collection(resource, where.namespace), query=query)
        async with self._transport.stream(request) as pieces:
            yield _events(resource, pieces)

    # --- writing ------------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        _, namespace = _named(body)
        path = _collection(resource, namespace or self._namespace)
        return await self._write(resource, "POST", path, _whole(resource, body), _DRY_RUN if dry_run else {})

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        name, namespace = _named(body)
        path = self._path(resource, name, namespace)
        return await self._write(resource, "PUT", path, _whole(resource, body), _DRY_RUN if dry_run else {})

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
        self, resource: Resource[T], name: str, namespace: str = "", how: Deletion = AS_USUAL
    ) -> T | None:
        path = self._path(resource, name, namespace)
        body = msgspec.json.encode(_options(how))
        text = await self._transport.ask(Request(verb="DELETE", path=path, body=body))
        return resource.decode(text) if _is_still_there(resource, text) else None

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._act_on_pod(name, namespace, "binding", binding)

    async def evict(self, name: str, namespace: str, how: Deletion = AS_USUAL) -> None:
        """A budget that is spent says 429, as a busy server does: both are told, and nobody waits here."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _options(how),
        }
        await self._act_on_pod(name, namespace, "eviction", eviction, patient=False)

    async def close(self) -> None:
        await self._transport.close()

    def _path(self, resource: Resource[Any], name: str, namespace: str, subresource: str = "") -> str:
        return _address(resource, name, namespace or self._namespace, subresource)

    async def _write(self, resource: Resource[T], verb: Verb, path: str, body: Object, query: Query) -> T:
        content = MERGE_PATCH if verb == "PATCH" else JSON
        request = Request(verb=verb, path=path, query=query, body=msgspec.json.encode(body), content=content)
        return _made(resource, await self._transport.ask(request))

    async def _act_on_pod(
        self, name: str, namespace: str, subresource: str, body: Object, *, patient: bool = True
    ) -> None:
        path = self._path(PODS, name, namespace, subresource)
        text = msgspec.json.encode(body)
        await self._transport.ask(Request(verb="POST", path=path, body=text, patient=patient))


# --- addresses --------------------------------------------------------------------------------------------


def _address(resource: Resource[Any], name: str, namespace: str, subresource: str = "") -> str:
    """The path of one object. Without a name it would be that of all, and some names would lead elsewhere."""
    if not name:
        raise BadRequestError("resource name may not be empty")
    if name in {".", ".."} or "/" in name or "%" in name:
        raise BadRequestError(
            f"invalid resource name {name!r}: it may be no '.' or '..' and have no '/' or '%'"
        )
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _collection(resource: Resource[Any], namespace: str) -> str:
    return resource.path(quote(namespace, safe=""))


def _named(body: Object) -> tuple[str, str]:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "")


def _whole(resource: Resource[Any], body: Object) -> Object:
    """The object, which says what it is: for kinds of others an API server insists."""
    return {"apiVersion": resource.api_version, "kind": resource.kind} | body


def _selectors(where: Where) -> dict[str, str]:
    said = {"labelSelector": where.labels, "fieldSelector": where.fields}
    return {key: value for key, value in said.items() if value}


# --- answers ----------------------------------------------------------------------------------------------


def _made(resource: Resource[T], text: bytes) -> T:
    """What is made of an answer. That it is an object is for us to see, what is in it for whoever asked."""
    _headed(resource, text)
    return resource.decode(text)


def _headed(resource: Resource[Any], text: bytes) -> Headed:
    try:
        return HEADED.decode(text)
    except ValueError as problem:
        raise InternalError(f"the answer about {resource.full_name} is no object: {problem}") from problem


def _page(resource: Resource[T], text: bytes) -> Page[T]:
    try:
        listed = LISTED.decode(text)
    except msgspec.DecodeError as problem:
        raise InternalError(f"the list of {resource.full_name} is no list: {problem}") from problem
    return Page(
        items=[resource.decode(item) for item in listed.items or ()],
        version=listed.metadata.resource_version,
        next=listed.metadata.next,
        remaining=listed.metadata.remaining_item_count,
    )


async def _events(resource: Resource[T], pieces: AsyncIterator[bytes]) -> AsyncIterator[Event[T]]:
    lines = Lines()
    async for piece in pieces:
        for line in lines.feed(piece):
            yield _event(resource, line)
    if lines.rest:
        raise UnavailableError(f"the watch of {resource.full_name} ended in the middle of an event")


def _event(resource: Resource[T], line: bytes) -> Event[T]:
    try:
        told = TOLD.decode(line)
        version = HEADED.decode(told.object).metadata.resource_version
    except msgspec.DecodeError as problem:
        raise InternalError(f"the watch of {resource.full_name} tells nonsense: {problem}") from problem
    match told.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return Event(told.type, resource.decode(told.object), version)
        case "BOOKMARK":
            return Event("BOOKMARK", None, version)
        case _:
            raise from_status(status_of(told.object))


def _options(how: Deletion) -> Object:
    preconditions = {"uid": how.uid, "resourceVersion": how.version}
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if how.grace is not None:
        options["gracePeriodSeconds"] = how.grace
    if how.propagation is not None:
        options["propagationPolicy"] = how.propagation
    if how.uid or how.version:
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
    if how.dry_run:
        options["dryRun"] = ["All"]
    return options


def _is_still_there(resource: Resource[Any], text: bytes) -> bool:
    """Whether the answer to a deletion is an object that stays for now.

    Some resources answer with a Status when the object is gone, others with the object as it was; one that
    stays has finalizers, or a time to end in. A namespace has finalizers of another sort, and always stays.
    """
    found = _headed(resource, text)
    if found.kind == "Status":
        return False
    metadata = found.metadata
    return bool(
        metadata.finalizers
        or metadata.deletion_grace_period_seconds
        or resource.full_name == NAMESPACES.full_name
    )
