"""Decoding of objects by their schemas: once for each write, whether over HTTP or not.

Built-in kinds are decoded into types generated from the published OpenAPI schemas: unknown fields are
dropped, nulls and empty lists are treated as absent, and values of the wrong type are refused. Strategies can
therefore rely on the types of what they read. msgspec does this fast, but stops at the first unknown field or
error; only then is the schema walked in Python, which finds all of them.

Custom resources (our own kinds) are pruned and defaulted in one walk by the schemas of the
CustomResourceDefinitions that `shoal crds` prints, so a stored object is the one that a real API server would
store. Their metadata has the schema of all kinds' metadata.
"""

import functools
import keyword
from typing import Annotated, Any, Final

import msgspec

from shoal.api import kinds
from shoal.api.crds import INT_OR_STRING, PRESERVE, Schema
from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child, described
from shoal.api.kinds import Kind
from shoal.api.meta import Int32, Time
from shoal.api.mutability import change_errors
from shoal.apiserver.registry.records import decode as decode_json
from shoal.apiserver.registry.records import encode, json_copy
from shoal.cluster.resources import Object, Resource, resource_of
from shoal.cluster.schemas import core
from shoal.cluster.schemas.core import resolve_reference
from shoal.cluster.schemas.kinds import is_shoal_kind, schema_of

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


class DecodedObject(msgspec.Struct, frozen=True):
    """An object without its unknown fields, with the paths of these.

    `wrong` has a message for each value that is not of its field's JSON type; `errors` has those errors and
    the ones of ranges and formats. Both are empty for our kinds: their validation reports all errors.
    """

    value: Any
    unknown: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


def decode_object(resource: Resource[Any], obj: object) -> DecodedObject:
    """Copy an object by its schema; TypeError, ValueError or RecursionError if it is not JSON."""
    text = encode(obj)
    if is_shoal_kind(resource):
        defaulting = _DefaultingSchemaWalk()
        value = defaulting.copy(decode_json(text), schema_of(resource))
        return DecodedObject(value, tuple(defaulting.unknown))
    try:
        return DecodedObject(json_copy(_decoder(core.schema_name(resource)).decode(text)))
    except (msgspec.ValidationError, RecursionError):
        return _decode_slowly(resource, decode_json(text))


def _decode_slowly(resource: Resource[Any], obj: object) -> DecodedObject:
    """Decode an object of a built-in kind that has unknown fields, nulls in lists or maps, or errors."""
    walk = _SchemaWalk()
    value = walk.copy(obj, schema_of(resource))
    unknown, wrong = tuple(walk.unknown), tuple(walk.wrong)
    try:
        typed = decode(_struct(core.schema_name(resource)), value)
    except InvalidObjectError as problem:
        return DecodedObject(value, unknown, wrong, tuple(problem.errors))
    return DecodedObject(json_copy(typed), unknown)


_TYPES: Final[dict[str, tuple[str, type | tuple[type, ...]]]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "array": ("a list", list),
    "object": ("an object", dict),
}

_SCALARS: Final = (str, int, float)
_Path = tuple[str | int, ...]


class _SchemaWalk:
    """Copies one object by its schema, and collects what is wrong with it.

    `unknown` has the paths of the fields that were dropped, `wrong` messages about values of a wrong type,
    which are kept. Null is valid for every type.
    """

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def copy(self, value: object, schema: Schema, path: _Path = ()) -> object:
        """Return a value without unknown fields."""
        schema = resolve_reference(schema)
        if value is None or not self._has_type(value, schema, path):
            return value
        if isinstance(value, dict):
            return self._copy_object(value, schema, path)
        if isinstance(value, list) and "items" in schema:
            items = schema["items"]
            return [self.copy(member, items, (*path, number)) for number, member in enumerate(value)]
        return value

    def _copy_object(self, value: Object, schema: Schema, path: _Path) -> Object:
        if "properties" not in schema and "additionalProperties" not in schema:
            return value
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        result = {}
        for name, inside in value.items():
            inner = properties.get(name, others)
            if inner is not None:
                result[name] = self.copy(inside, inner, (*path, name))
            elif PRESERVE in schema:
                result[name] = inside
            else:
                self.unknown.append(_path_text((*path, name)))
        return result

    def _has_type(self, value: object, schema: Schema, path: _Path) -> bool:
        if INT_OR_STRING in schema or "type" not in schema:
            return True
        name, types = _TYPES[schema["type"]]
        if isinstance(value, types) and isinstance(value, bool) == (types is bool):
            return True
        self.wrong.append(f"{_path_text(path) or 'the object'} must be {name}, not {described(value)}")
        return False


class _DefaultingSchemaWalk(_SchemaWalk):
    """The walk for custom resources: drops nulls, and sets omitted fields to their defaults.

    It checks no types, since the validation of the kind does. Metadata is the only reference in a schema. As
    in Kubernetes it is decoded into the type that all kinds share, in which null is the empty value.
    """

    def copy(self, value: object, schema: Schema, path: _Path = ()) -> object:
        if "allOf" in schema:
            return self._copy_metadata(value, schema, path)
        if isinstance(value, dict):
            return self._copy_object(value, schema, path)
        if isinstance(value, list) and "items" in schema:
            items = schema["items"]
            return [self.copy(member, items, (*path, number)) for number, member in enumerate(value)]
        return value

    def _copy_metadata(self, value: object, schema: Schema, path: _Path) -> object:
        kind = _reference_type(schema)
        try:
            msgspec.convert(value, kind)
        except (msgspec.ValidationError, RecursionError):
            walk = _SchemaWalk()
            known = walk.copy(value, schema, path)
            self.unknown += walk.unknown
            try:
                return json_copy(decode(kind, known))
            except InvalidObjectError:
                return known
        return value

    def _copy_object(self, value: Object, schema: Schema, path: _Path) -> Object:
        if "properties" not in schema and "additionalProperties" not in schema:
            return value
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        result = {}
        for name, inside in value.items():
            inner = properties.get(name, others)
            if inner is None and PRESERVE not in schema:
                self.unknown.append(_path_text((*path, name)))
            elif inner is None or isinstance(inside, _SCALARS):
                result[name] = inside
            elif inside is not None:
                result[name] = self.copy(inside, inner, (*path, name))
        for name, inner in properties.items():
            if "default" in inner and name not in result:
                result[name] = self.copy(json_copy(inner["default"]), inner, (*path, name))
        return result


def _path_text(path: _Path) -> str:
    return functools.reduce(child, path, "")


@functools.cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(name))


@functools.cache
def _struct(name: str) -> type[msgspec.Struct]:
    """Return the type generated from a schema, which refuses unknown fields."""
    fields = []
    names = {}
    for field, schema in core.schemas()[name].get("properties", {}).items():
        plain = f"{field}_" if keyword.iskeyword(field) else field
        names[plain] = field
        fields.append((plain, *_field_type(schema)))
    return msgspec.defstruct(
        name.rpartition(".")[2],
        fields,
        rename=names,
        forbid_unknown_fields=True,
        omit_defaults=True,
        kw_only=True,
    )


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
    resource = resource_of(kind.kind)
    was = decode_object(resource, old).value  # a field with a default may be newer than the object
    return list(change_errors(kind.mutability, obj, was))
