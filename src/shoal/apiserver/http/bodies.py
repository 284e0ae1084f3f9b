"""Request bodies: reading, decoding (JSON, YAML, protobuf) and checks that need no stored object."""

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

MAX_BODY_BYTES: Final = 3 * 2**20
"""Maximum size of a request body in bytes, as in Kubernetes."""

_MAX_DEPTH: Final = 120
"""Maximum nesting depth of a body, so that recursive code is safe; objects are far below it."""

_JSON: Final = "application/json"
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml")


class Body(msgspec.Struct, frozen=True):
    """A decoded body, and the paths of duplicate fields."""

    value: Any
    duplicates: tuple[str, ...] = ()


def media_type(request: Request) -> str:
    """Return the media type of the body, without parameters."""
    return request.headers.get("content-type", _JSON).partition(";")[0].strip().lower() or _JSON


async def read(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read the body; TooLargeError above the limit."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"Request entity too large: limit is {limit}")


async def read_object(request: Request, *, duplicates: bool = False) -> Body:
    """Read and decode the object in a body."""
    return decode_object(await read(request), media_type(request), duplicates=duplicates)


def decode_object(text: bytes, media: str, *, duplicates: bool = False) -> Body:
    """Decode an object in JSON, YAML or protobuf."""
    if media == _JSON:
        body = decode_json(text, duplicates=duplicates)
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


def decode_json(text: bytes, *, duplicates: bool = False) -> Body:
    """Decode JSON text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"the body of the request is not JSON: {error}") from None
    if text.count(b"{") + text.count(b"[") > _MAX_DEPTH:
        _check_depth(value)
    return Body(value, tuple(_duplicate_fields(text)) if duplicates else ())


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise BadRequestError("the body of the request is nested too deeply")


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


class _DictWithDuplicates(dict[str, Any]):
    """A JSON object with duplicate names."""

    duplicates: tuple[str, ...] = ()


def _dict_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = _DictWithDuplicates(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        result.duplicates = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return result


def _duplicate_fields(text: bytes) -> Iterator[str]:
    """Yield the paths of duplicate fields; decoding keeps the last value."""
    yield from _duplicates_in(json.loads(text, object_pairs_hook=_dict_of_pairs), "")


def _duplicates_in(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _DictWithDuplicates):
        yield from (child(path, name) for name in value.duplicates)
        for name, inner in value.items():
            yield from _duplicates_in(inner, child(path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _duplicates_in(inner, child(path, number))


def _from_protobuf(text: bytes) -> Object:
    try:
        return protobuf.decode(text)
    except protobuf.ProtobufError as error:
        raise BadRequestError(f"the object provided is unrecognized: {error}") from None


def _from_yaml(text: bytes) -> object:
    try:
        documents = list(manifest.parse_yaml(text.decode()))
        value = msgspec.json.decode(msgspec.json.encode(documents[0] if documents else None))
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"the body of the request is not YAML: {shown(str(error))}") from None
    if len(documents) > 1:
        raise BadRequestError("the body of the request has more than one document")
    _check_depth(value)
    return value


def apply_target(obj: Object, target: Target) -> Object:
    """Complete an object with kind, name and namespace of the path; BadRequestError if they differ."""
    resource = target.resource
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field, expected) not in (expected, ""):
            raise BadRequestError(
                f'{shown(obj.get("kind"))} in version "{shown(obj.get("apiVersion"))}" '
                f"cannot be handled as a {resource.kind}"
            )
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict | None):
        raise BadRequestError(f"{resource.kind} cannot be read: metadata must be an object")
    named = _apply_target_metadata(metadata or {}, target)
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": named}


def _apply_target_metadata(metadata: Object, target: Target) -> Object:
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
