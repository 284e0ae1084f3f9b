"""Pruning and defaulting by schema.

Built-in kinds are decoded into types generated from the published OpenAPI schemas: unknown fields are
dropped, nulls and empty lists are treated as absent, and values of the wrong type are refused. Strategies can
therefore rely on the types of what they read.

Custom resources (our own kinds) are pruned and defaulted by the schemas of the CustomResourceDefinitions that
`shoal crds` prints, so a stored object is the one that a real API server would store.
"""

import functools
import keyword
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from shoal.api import kinds
from shoal.api.crds import PRESERVE, Schema, object_schema
from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.kinds import Kind
from shoal.api.meta import Int32, Time
from shoal.api.mutability import change_errors
from shoal.apiserver.registry.records import json_copy
from shoal.cluster.resources import Object, Resource
from shoal.cluster.schemas import core

_MICRO_TIME_SCHEMA: Final = "MicroTime"
_MicroTime: Final = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}"
        r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
    ),
]
"""MicroTime of Kubernetes: exactly six digits of a second, even if they are zero."""
_SCALAR_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "boolean": bool,
    "number": float,
    "integer": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
}
_FORMAT_TYPES: Final[dict[str, Any]] = {
    "int32": Int32,
    "date-time": Time,
    "int-or-string": int | str,
}


def prune_unknown_fields(resource: Resource[Any], obj: Object) -> Object:
    """Drop unknown fields from an object of a built-in kind; InvalidObjectError for wrong types."""
    pruned: Object = json_copy(decode(_struct(core.schema_name(resource)), obj))
    return pruned


def prune_unknown_fields_in_json(resource: Resource[Any], text: bytes) -> Object | None:
    """The same for JSON text, which is faster; None if a value has the wrong type."""
    try:
        pruned: Object = json_copy(_decoder(core.schema_name(resource)).decode(text))
    except (msgspec.ValidationError, RecursionError):
        return None
    return pruned


@functools.cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(name))


@functools.cache
def _struct(name: str) -> type[msgspec.Struct]:
    """Return the type generated from a schema."""
    fields = []
    names = {}
    for field, schema in core.schemas()[name].get("properties", {}).items():
        plain = f"{field}_" if keyword.iskeyword(field) else field
        names[plain] = field
        fields.append((plain, *_field_type(schema)))
    return msgspec.defstruct(name.rpartition(".")[2], fields, rename=names, omit_defaults=True, kw_only=True)


def _field_type(schema: Schema) -> tuple[Any, Any]:
    """Return the type and default of a field."""
    if schema.get("type") == "array":
        return _type(schema), ()
    if schema.get("type") == "object":
        return _type(schema), msgspec.field(default_factory=dict)
    return _type(schema) | None, None


def _type(schema: Schema) -> Any:  # noqa: ANN401 - a type
    if schema.get("type") == "array":
        item = _type(schema["items"])
        return tuple[item, ...]  # type: ignore[valid-type]
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        value = Any if inner is None else _type(inner)
        return dict[str, value]  # type: ignore[valid-type]
    return _reference_type(schema)


def _reference_type(schema: Schema) -> Any:  # noqa: ANN401 - a type
    references = [part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part]
    if not references:
        return _scalar_type(schema)
    name = references[0].removeprefix(core.REFERENCES)
    if name.endswith(_MICRO_TIME_SCHEMA):
        return _MicroTime
    target = core.schemas()[name]
    return _struct(name) if "properties" in target else _scalar_type(target)


def _scalar_type(schema: Schema) -> Any:  # noqa: ANN401 - a type
    if schema.get("format") in _FORMAT_TYPES:
        return _FORMAT_TYPES[schema["format"]]
    if "oneOf" in schema:
        return str | int | float
    return _SCALAR_TYPES.get(schema.get("type", ""), dict[str, Any])


def custom_resource_defaulter(kind: Kind) -> Callable[[Object], None]:
    """Return the function that prunes and defaults objects of one of our kinds."""
    schema = object_schema(kind)
    schema["properties"]["metadata"] |= {PRESERVE: True}
    return functools.partial(_prune_and_default_object, schema)


def custom_resource_errors(kind: Kind, obj: Object) -> list[FieldError]:
    """Return the validation errors of one of our kinds, and those that pruning has hidden."""
    emptied = list(kind.pruned_errors(obj))
    try:
        kinds.read(kind, obj)
    except InvalidObjectError as problem:
        return [*problem.errors, *emptied]
    return emptied


def custom_resource_update_errors(kind: Kind, obj: Object, old: Object) -> list[FieldError]:
    """Return the errors of a change of one of our kinds: fields that are immutable."""
    if kind.mutability is None or obj.get("spec") == old.get("spec"):
        return []
    was: Object = json_copy(old)  # it may have been stored before a field with a default was added
    custom_resource_defaulter(kind)(was)
    return list(change_errors(kind.mutability, obj, was))


def _prune_and_default(schema: Schema, value: Any) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        _prune_and_default_object(schema, value)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _prune_and_default(schema["items"], item)


def _prune_and_default_object(schema: Schema, value: Object) -> None:
    """Drop unknown and null fields, set defaults, and recurse."""
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name in list(value):
        inner = properties.get(name, others)
        if inner is None:
            if PRESERVE not in schema:
                del value[name]
        elif value[name] is None and not inner.get("nullable"):
            del value[name]
    for name, inner in properties.items():
        if name not in value and "default" in inner:
            value[name] = json_copy(inner["default"])
    for name, inside in value.items():
        inner = properties.get(name, others)
        if inner is not None:
            _prune_and_default(inner, inside)
