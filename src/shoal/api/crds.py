"""CustomResourceDefinitions of Shoal's kinds, generated from their types.

The structural schema is generated from the types that validate objects, so that the two cannot drift apart.
What a type cannot express (relations between fields, names of list members) is left to validation and CEL
rules. What JSON Schema allows and structural schemas forbid (`$ref`, `additionalProperties: false`, types
below `anyOf`) is avoided.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import inspect

from shoal.api.kinds import Kind
from shoal.api.mutability import object_rules, spec_rules

Schema = dict[str, Any]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
QUANTITY_PATTERN: Final = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
_INT32: Final = (-(2**31), 2**31 - 1)
_LIMITS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}


def schema_of(info: inspect.Type, *, defaults: bool = True) -> Schema:
    """Return the structural schema of a type; without `defaults` for a status, which controllers write."""
    match info:
        case inspect.Metadata():
            return _annotated(schema_of(info.type, defaults=defaults), info.extra_json_schema or {})
        case inspect.StructType():
            return _object(info, defaults=defaults)
        case inspect.VarTupleType():
            items = {"items": schema_of(info.item_type, defaults=defaults)}
            return {"type": "array"} | ({"minItems": info.min_length} if info.min_length else {}) | items
        case inspect.DictType():
            return _mapping(info, defaults=defaults)
        case inspect.UnionType():
            return _union(info, defaults=defaults)
        case _:
            return _scalar(info)


def _annotated(schema: Schema, extra: Schema) -> Schema:
    """Add the keywords of an annotation to a schema; the description comes first, for readability."""
    text = {"description": extra["description"]} if "description" in extra else {}
    return text | schema | extra


def _mapping(info: inspect.DictType, *, defaults: bool) -> Schema:
    if isinstance(info.value_type, inspect.AnyType):
        return {"type": "object", PRESERVE: True}
    return {"type": "object", "additionalProperties": schema_of(info.value_type, defaults=defaults)}


def _object(info: inspect.StructType, *, defaults: bool) -> Schema:
    properties = {field.encode_name: _property(field, defaults=defaults) for field in info.fields}
    required = [field.encode_name for field in info.fields if field.required]
    return {"type": "object"} | ({"required": required} if required else {}) | {"properties": properties}


def _property(field: inspect.Field, *, defaults: bool) -> Schema:
    schema = schema_of(field.type, defaults=defaults)
    default = _default(field, schema) if defaults else None
    return schema if default is None else schema | {"default": default}


def _default(field: inspect.Field, schema: Schema) -> object:
    """Return the default for the API server; None without one, and for an empty string or list.

    An object has the default `{}` if one of its fields has a default, so that the API server applies it.
    """
    value = msgspec.to_builtins(field.default) if field.default is not msgspec.NODEFAULT else None
    if isinstance(value, dict):
        inner = schema.get("properties", {}).values()
        return {} if any("default" in prop for prop in inner) else None
    return None if value in ("", ()) or isinstance(value, list) else value


def _union(info: inspect.UnionType, *, defaults: bool) -> Schema:
    options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
    if len(options) > 1:
        return _int_or_string()
    return schema_of(options[0], defaults=defaults)


def _int_or_string(**extra: str | int) -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: True, **extra}


def _scalar(info: inspect.Type) -> Schema:
    return _SCALARS[type(info)](info)


_SCALARS: Final[dict[type[inspect.Type], Callable[[Any], Schema]]] = {
    inspect.StrType: lambda info: {"type": "string", **_limits(info)},
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.IntType: lambda info: {"type": "integer", **_limits(info)},
    inspect.FloatType: lambda info: {"type": "number", **_limits(info)},
    inspect.LiteralType: lambda info: {"type": "string", "enum": list(info.values)},
    inspect.DateTimeType: lambda _: {"type": "string", "format": "date-time"},
    inspect.CustomType: lambda _: _int_or_string(pattern=QUANTITY_PATTERN, minimum=0),
}


def _limits(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.IntType) and (info.ge, info.le) == _INT32:
        return {"format": "int32"}
    found = {name: getattr(info, field, None) for field, name in _LIMITS.items()}
    return {name: value for name, value in found.items() if value is not None}


_RULES: Final = "x-kubernetes-validations"


def crd(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one of Shoal's kinds."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _names(kind: Kind) -> dict[str, Any]:
    """Return the names of a kind. Jobs are in the category `all`; all of Shoal's kinds are in `shoal`."""
    return {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [kind.short_name] if kind.short_name else [],
        "categories": ["all", "shoal"] if kind.namespaced else ["shoal"],
    }


def _version(kind: Kind) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.definition() for column in kind.columns],
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return version | {"schema": {"openAPIV3Schema": object_schema(kind)}}


def object_schema(kind: Kind) -> Schema:
    """Return the schema of complete objects. A spec has defaults; a status has none."""
    spec, required = _spec_schema(kind)
    schema: Schema = {
        "type": "object",
        "description": kind.view.__doc__,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _status_schema(kind),
        },
    }
    rules = [*kind.rules, *(object_rules(kind.mutability) if kind.mutability else ())]
    return schema | ({"required": ["spec"]} if required else {}) | ({_RULES: rules} if rules else {})


def _spec_schema(kind: Kind) -> tuple[Schema, bool]:
    field = next(field for field in _fields(kind.view) if field.name == "spec")
    schema = schema_of(field.type)
    if kind.other_spellings:
        properties = schema["properties"]
        properties |= {other: properties[plain] for other, plain in kind.other_spellings.items()}
    if kind.mutability:
        schema[_RULES] = [*schema.get(_RULES, ()), *spec_rules(kind.mutability, schema)]
    return schema, field.required


def _status_schema(kind: Kind) -> Schema:
    """Return the schema of the status: of the view's field, or of a status that Shoal only writes."""
    types = {field.name: field.type for field in _fields(kind.view)}
    info = inspect.type_info(kind.status) if kind.status else types["status"]
    return schema_of(info, defaults=False)


def _fields(view: type[Any]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(view)
    return info.fields if isinstance(info, inspect.StructType) else ()
