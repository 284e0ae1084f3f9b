"""Decodes objects of Kubernetes' built-in kinds from protobuf, which typed clients in Go send; never encodes.

`protobuf.json` has, for each type, the field names by field number. `name?` is a field that has a meaning
even when it is empty or zero; other fields are then omitted, as in JSON. `~Type` is a message whose fields
are inlined into the surrounding message in JSON.
"""

import base64
import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.cluster.resources import Object, by_kind
from shoal.cluster.schemas import core

FIELD_NUMBERS_FILE: Final = Path(__file__).with_name("protobuf.json")
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10
_SIGN: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INLINE: Final = "~"
_ALWAYS_PRESENT: Final = "?"

Value = int | bytes
"""The value of a field on the wire."""


class ProtobufError(ValueError):
    """Raised when bytes are not a valid object in protobuf."""


def decode(text: bytes) -> Object:
    """Decode an object to its JSON form; ProtobufError if it is not valid, or of an unknown kind."""
    if not text.startswith(_MAGIC):
        raise ProtobufError("not a protobuf message of Kubernetes: it has no k8s prefix")
    envelope = dict(_fields(text[len(_MAGIC) :]))
    type_meta = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = _text(type_meta.get(1, b"")), _text(type_meta.get(2, b""))
    name = _schema_name(api_version, kind)
    if name is None:
        raise ProtobufError(f"kind {kind} of {api_version} is not supported in protobuf; send JSON")
    body = _message(_bytes(envelope.get(2, b"")), name.rpartition(".")[2], core.schemas()[name])
    return {"apiVersion": api_version, "kind": kind, **body}


def _schema_name(api_version: str, kind: str) -> str | None:
    resource = by_kind().get((api_version, kind))
    if resource is not None and core.is_builtin(resource):
        return core.schema_name(resource)
    return core.REQUEST_KINDS.get(kind)


@functools.cache
def _numbers() -> dict[str, dict[int, str]]:
    return msgspec.json.decode(FIELD_NUMBERS_FILE.read_bytes(), type=dict[str, dict[int, str]])


# --- messages ---------------------------------------------------------------------------------------------


def _message(text: bytes, kind: str, schema: Schema) -> Object:
    """Decode a message of a type; unknown fields are skipped."""
    result: Object = {}
    names, properties = _numbers().get(kind, {}), schema.get("properties", {})
    for number, value in _fields(text):
        name = names.get(number)
        if name is None:
            continue
        if name.startswith(_INLINE):
            result |= _message(_bytes(value), name.removeprefix(_INLINE), schema)
        else:
            _put(
                result,
                name.removesuffix(_ALWAYS_PRESENT),
                value,
                properties,
                always_present=name.endswith(_ALWAYS_PRESENT),
            )
    return result


def _put(result: Object, name: str, value: Value, properties: Schema, *, always_present: bool) -> None:
    schema = properties[name]
    if schema.get("type") == "array":
        result.setdefault(name, []).append(_value(value, schema["items"]))
    elif "additionalProperties" in schema:
        entry = dict(_fields(_bytes(value)))
        inner = _value(entry.get(2, b""), schema["additionalProperties"])
        result.setdefault(name, {})[_text(entry.get(1, b""))] = inner
    else:
        found = _value(value, schema)
        if found is not None and (always_present or isinstance(found, dict) or found):
            result[name] = found


def _value(value: Value, schema: Schema) -> Any:  # noqa: ANN401 - as JSON has it
    """Decode a value to its JSON form."""
    kind = _reference(schema)
    if kind in _SPECIAL:
        return _SPECIAL[kind](_bytes(value))
    if kind:
        return _message(_bytes(value), kind, core.resolve_reference(schema))
    match schema.get("type"), schema.get("format"):
        case "integer", _:
            return _integer(value)
        case "boolean", _:
            return bool(value)
        case "string", "byte":
            return base64.b64encode(_bytes(value)).decode()
        case "string", _:
            return _text(value)
    raise ProtobufError("a field has a type that is not supported in protobuf")


def _reference(schema: Schema) -> str:
    """Return the short name of the type that a schema refers to; empty if it refers to none."""
    found = next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
    return str(found).rpartition(".")[2]


def _time(text: bytes) -> str | None:
    fields = dict(_fields(text))
    seconds, nanos = _integer(fields.get(1, 0)), _integer(fields.get(2, 0))
    if not seconds and not nanos:
        return None
    try:
        found = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProtobufError("a time is out of range") from None
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if nanos else "%Y-%m-%dT%H:%M:%SZ")


def _quantity(text: bytes) -> str:
    return _text(dict(_fields(text)).get(1, b""))


def _int_or_string(text: bytes) -> int | str:
    fields = dict(_fields(text))
    return _text(fields.get(3, b"")) if fields.get(1) else _integer(fields.get(2, 0))


def _raw_json(text: bytes) -> object:
    try:
        return msgspec.json.decode(_bytes(dict(_fields(text)).get(1, b"{}")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(f"a field is not valid JSON: {error}") from None


_SPECIAL: Final = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _raw_json,
}


# --- the wire ---------------------------------------------------------------------------------------------


def _fields(text: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the field numbers and values of a message, in order."""
    position = 0
    while position < len(text):
        tag, position = _varint(text, position)
        wire = tag & 7
        if wire == _VARINT:
            value, position = _varint(text, position)
            yield tag >> 3, value
            continue
        if wire == _BYTES:
            length, position = _varint(text, position)
        elif wire in _FIXED:
            length = _FIXED[wire]
        else:
            raise ProtobufError(f"a field has an unknown wire type: {wire}")
        if position + length > len(text):
            raise ProtobufError("the message ends in the middle of a field")
        yield tag >> 3, text[position : position + length]
        position += length


def _varint(text: bytes, position: int) -> tuple[int, int]:
    """Decode a varint, of seven bits per byte; return it and the position after it."""
    number = 0
    for count, byte in enumerate(text[position : position + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return number, position + count + 1
    raise ProtobufError("the message ends in the middle of a number")


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise ProtobufError("expected a number")
    return value - 2 * _SIGN if value & _SIGN else value


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("expected bytes, found a number")
    return value


def _text(value: Value) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a string is not UTF-8") from None
