"""Answers to those who place pods and take them away: bindings and evictions."""

from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from shoal.apiserver.http import bodies
from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.delete import deletion_of
from shoal.apiserver.http.requests import dry_run
from shoal.apiserver.http.responses import json_answer
from shoal.cluster.errors import BadRequestError

T = TypeVar("T")


class _Place(msgspec.Struct):
    name: str = ""
    kind: str | None = None


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class _Binding(msgspec.Struct):
    target: _Place
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Eviction(msgspec.Struct, rename="camel"):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    delete_options: dict[str, Any] | None = None


async def bind(ask: Ask) -> Response:
    """Give a pod its node."""
    binding = await _read(ask, _Binding)
    if binding.target.kind not in (None, "", "Node") or not binding.target.name:
        raise BadRequestError("target must be a Node, with its name")
    name = _name(ask, binding.metadata)
    rehearsed = dry_run(ask.request.query_params.getlist("dryRun"))
    uid = binding.metadata.uid or ""
    await ask.registry.bind(name, ask.target.namespace, binding.target.name, uid=uid, dry_run=rehearsed)
    return json_answer(_done(), HTTPStatus.CREATED)


async def evict(ask: Ask) -> Response:
    """Delete a pod, if its disruption budgets let it go."""
    eviction = await _read(ask, _Eviction)
    name = _name(ask, eviction.metadata)
    how = deletion_of(eviction.delete_options)
    if dry_run(ask.request.query_params.getlist("dryRun")):
        how = msgspec.structs.replace(how, dry_run=True)
    await ask.registry.evict(name, ask.target.namespace, how)
    return json_answer(_done(), HTTPStatus.CREATED)


def _done() -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def _read(ask: Ask, kind: type[T]) -> T:
    body = await bodies.read_object(ask.request)
    try:
        return msgspec.convert(body.value, kind)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{kind.__name__.strip('_')} cannot be read: {error}") from None


def _name(ask: Ask, metadata: _Metadata) -> str:
    """The pod's name: from the path, or for a binding without one from itself."""
    name, target = metadata.name or "", ask.target
    if target.name and name not in ("", target.name):
        raise BadRequestError("name in URL does not match name in the object")
    if metadata.namespace not in (None, "", target.namespace):
        raise BadRequestError(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not (target.name or name):
        raise BadRequestError("metadata.name must name a pod")
    return target.name or name
