"""Shapes: the types of Kubernetes' own kinds, through which whatever is sent must pass.

As with a real API server, fields that it does not know are dropped, nulls and empty lists are as good as
absent, and a value of the wrong type is refused. Behind this gate rules can rely on the types of what they
read. The types are made from the schemas that the API publishes.

What an API server makes of our objects by their schemas: unknown fields go, defaults come.

The schemas are those of the CustomResourceDefinitions that `shoal crds` prints, so the object that is kept
here is the one that a real API server keeps.
"""

import functools
import keyword
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import msgspec

from shoal.api import kinds
from shoal.api.crds import PRESERVE, Schema, object_schema
from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.kinds import Kind
from shoal.api.meta import Int32, Time
from shoal.api.pool import SELECTS_NOTHING_SAID
from shoal.apiserver.registry.records import copied
from shoal.cluster.resources import Object, Resource
from shoal.cluster.schemas import core

_EXACT_TIME: Final = "MicroTime"
_EXACTLY: Final = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}"
        r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
    ),
]
"""Go wants its fraction of a second as it wrote it, also where that is nothing."""
_SCALARS: Final[dict[str, Any]] = {
    "string": str,
    "boolean": bool,
    "number": float,
    "integer": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
}
_FORMATS: Final[dict[str, Any]] = {
    "int32": Int32,
    "date-time": Time,
    "int-or-string": int | str,
}


def shaped(resource: Resource[Any], thing: Object) -> Object:
    """What is left of an object of one of Kubernetes' own kinds; InvalidObjectError for wrong types."""
    made: Object = copied(decode(_struct(core.schema_name(resource)), thing))
    return made


def shaped_text(resource: Resource[Any], text: bytes) -> Object | None:
    """The same for an object that is still text, in fewer steps; None if there is something wrong with it."""
    try:
        made: Object = copied(_decoder(core.schema_name(resource)).decode(text))
    except (msgspec.ValidationError, RecursionError):
        return None
    return made


@functools.cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(name))


@functools.cache
def _struct(name: str) -> type[msgspec.Struct]:
    """The type of a schema."""
    fields = []
    names = {}
    for field, schema in core.schemas()[name].get("properties", {}).items():
        plain = f"{field}_" if keyword.iskeyword(field) else field
        names[plain] = field
        fields.append((plain, *_typed(schema)))
    return msgspec.defstruct(name.rpartition(".")[2], fields, rename=names, omit_defaults=True, kw_only=True)


def _typed(schema: Schema) -> tuple[Any, Any]:
    """The type of a field, and what it is when it is absent."""
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
    return _one(schema)


def _one(schema: Schema) -> Any:  # noqa: ANN401 - a type
    references = [part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part]
    if not references:
        return _scalar(schema)
    name = references[0].removeprefix(core.REFERENCES)
    if name.endswith(_EXACT_TIME):
        return _EXACTLY
    target = core.schemas()[name]
    return _struct(name) if "properties" in target else _scalar(target)


def _scalar(schema: Schema) -> Any:  # noqa: ANN401 - a type
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if "oneOf" in schema:
        return str | int | float
    return _SCALARS.get(schema.get("type", ""), dict[str, Any])


def filler(kind: Kind) -> Callable[[Object], None]:
    """What prunes and fills in objects of a kind."""
    schema = object_schema(kind)
    schema["properties"]["metadata"] |= {PRESERVE: True}
    return functools.partial(_fill_object, schema)


def errors(kind: Kind, thing: Object) -> list[FieldError]:
    """All that our own validation has to say, and what it cannot see any more."""
    emptied = list(_emptied_selectors(thing)) if kind is kinds.POOL else []
    try:
        kinds.read(kind, thing)
    except InvalidObjectError as problem:
        return [*problem.errors, *emptied]
    return emptied


def _emptied_selectors(pool: Object) -> Iterator[FieldError]:
    """Of labels in the wrong place nothing is left when unknown fields go, and nothing selects everything."""
    spec = pool.get("spec")
    for field in ("nodeSelector", "namespaceSelector"):
        if isinstance(spec, dict) and spec.get(field) == {}:
            yield FieldError(f"spec.{field}", SELECTS_NOTHING_SAID)


def _fill(schema: Schema, value: Any) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        _fill_object(schema, value)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _fill(schema["items"], item)


def _fill_object(schema: Schema, value: Object) -> None:
    """Drop what is unknown or null, fill in what is absent, and go on inside."""
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
            value[name] = copied(inner["default"])
    for name, inside in value.items():
        inner = properties.get(name, others)
        if inner is not None:
            _fill(inner, inside)
