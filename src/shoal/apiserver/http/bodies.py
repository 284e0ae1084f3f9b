"""Bodies: what a request carries, checked as far as that goes without knowing what is there."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from starlette.requests import Request

from shoal.api import manifest
from shoal.api.fields import child, shown
from shoal.apiserver.http.requests import Target
from shoal.cluster.errors import BadRequestError, TooLargeError, UnsupportedMediaError
from shoal.cluster.resources import Object
from shoal.cluster.schemas import protobuf

LARGEST: Final = 3 * 2**20
"""Bytes of a request: what a Kubernetes API server takes."""

_DEEPEST: Final = 120
"""How deep a body may be nested; no object comes near, and everything that walks one is safe."""

_JSON: Final = "application/json"
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml")


class Body(msgspec.Struct, frozen=True):
    """What was sent, and the fields that it says twice."""

    value: Any
    doubles: tuple[str, ...] = ()


def media_type(request: Request) -> str:
    """The sort of the body, without its parameters."""
    return request.headers.get("content-type", _JSON).partition(";")[0].strip().lower() or _JSON


async def read(request: Request) -> bytes:
    """The bytes of a body, if they are not too many."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > LARGEST:
        raise _too_large()
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _too_large() -> TooLargeError:
    return TooLargeError(f"Request entity too large: limit is {LARGEST}")


async def read_object(request: Request, *, doubles: bool = False) -> Body:
    """The object in a body, in JSON, YAML or protobuf."""
    return object_in(await read(request), media_type(request), doubles=doubles)


def object_in(text: bytes, media: str, *, doubles: bool = False) -> Body:
    """The object in a text of this sort."""
    if media == _JSON:
        body = decoded(text, doubles=doubles)
    elif media in _YAML:
        body = Body(_from_yaml(text))
    elif media == protobuf.MEDIA_TYPE:
        body = Body(_from_protobuf(text))
    else:
        raise UnsupportedMediaError(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{_JSON}, {_YAML[0]}, {protobuf.MEDIA_TYPE}"
        )
    if not isinstance(body.value, dict):
        raise BadRequestError("the object provided is unrecognized: it is not an object")
    return body


def decoded(text: bytes, *, doubles: bool = False) -> Body:
    """What a text in JSON says."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"the body of the request is not JSON: {error}") from None
    if text.count(b"{") + text.count(b"[") > _DEEPEST:
        _check_depth(value)
    return Body(value, tuple(_doubles(text)) if doubles else ())


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise BadRequestError("the body of the request is nested too deeply")


def _within(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


class _Doubled(dict[str, Any]):
    """An object in which names came more than once."""

    doubles: tuple[str, ...] = ()


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = _Doubled(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        made.doubles = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return made


def _doubles(text: bytes) -> Iterator[str]:
    """The paths of fields that are said twice: the last one counts, and the others are lost."""
    yield from _doubles_in(json.loads(text, object_pairs_hook=_paired), "")


def _doubles_in(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Doubled):
        yield from (child(path, name) for name in value.doubles)
        for name, inner in value.items():
            yield from _doubles_in(inner, child(path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _doubles_in(inner, child(path, number))


def _from_protobuf(text: bytes) -> Object:
    try:
        return protobuf.decoded(text)
    except protobuf.ProtobufError as error:
        raise BadRequestError(f"the object provided is unrecognized: {error}") from None


def _from_yaml(text: bytes) -> object:
    try:
        documents = list(manifest.values(text.decode()))
        value = msgspec.json.decode(msgspec.json.encode(documents[0] if documents else None))
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"the body of the request is not YAML: {shown(str(error))}") from None
    if len(documents) > 1:
        raise BadRequestError("the body of the request has more than one document")
    _check_depth(value)
    return value


def addressed(thing: Object, target: Target) -> Object:
    """The object, complete with what its path says; BadRequestError if it says otherwise itself."""
    resource = target.resource
    for field, meant in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if thing.get(field, meant) not in (meant, ""):
            raise BadRequestError(
                f'{shown(thing.get("kind"))} in version "{shown(thing.get("apiVersion"))}" '
                f"cannot be handled as a {resource.kind}"
            )
    metadata = thing.get("metadata")
    if not isinstance(metadata, dict | None):
        raise BadRequestError(f"{resource.kind} cannot be read: metadata must be an object")
    named = _placed(metadata or {}, target)
    return {**thing, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": named}


def _placed(metadata: Object, target: Target) -> Object:
    if not target.resource.namespaced:
        metadata = {field: value for field, value in metadata.items() if field != "namespace"}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if namespace != target.namespace and namespace:
        raise BadRequestError(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.name and name != target.name:
        raise BadRequestError(
            f"the name of the object ({shown(name)}) does not match the name on the URL ({target.name})"
        )
    return {**metadata, **({"namespace": target.namespace} if target.namespace else {})}
