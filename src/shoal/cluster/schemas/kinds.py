"""Schemas of all kinds, Shoal's and Kubernetes', and pruning: the check of an object against its schema."""

from typing import Any, Final

import msgspec

from shoal.api import kinds, registry
from shoal.api.crds import INT_OR_STRING, PRESERVE, Schema, object_schema
from shoal.api.fields import child, described
from shoal.api.kinds import Kind
from shoal.cluster.resources import Resource, resources
from shoal.cluster.schemas import core
from shoal.cluster.schemas.core import resolve_reference

_METADATA: Final[Schema] = {
    "allOf": [{"$ref": f"{core.REFERENCES}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]
}


@registry.per_generation
def _own() -> dict[str, Kind]:
    return {f"{kind.plural}.{kind.group}": kind for kind in registry.kinds()}


def is_shoal_kind(resource: Resource[Any]) -> bool:
    """Return whether a kind is one of Shoal's: its schema is complete, and none of its lists is merged."""
    return resource.full_name in _own()


def schema_name(resource: Resource[Any]) -> str:
    """Return the name of a schema: `io.k8s.api.core.v1.Pod`, `io.tyrl.v1alpha1.TYJob`."""
    if not is_shoal_kind(resource):
        return core.schema_name(resource)
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


@registry.per_generation
def schemas() -> dict[str, Schema]:
    """Return the schemas of all kinds, and those that they refer to, by name."""
    return core.schemas() | {schema_name(resource): _object_schema(resource) for resource in resources()}


def schema_of(resource: Resource[Any]) -> Schema:
    """Return the schema of the objects of a resource."""
    return schemas()[schema_name(resource)]


def _object_schema(resource: Resource[Any]) -> Schema:
    if is_shoal_kind(resource):
        schema = object_schema(_own()[resource.full_name])
        schema["properties"]["metadata"] = _METADATA
    else:
        schema = dict(core.schemas()[core.schema_name(resource)])
        if known := kinds.by_name().get((resource.api_version, resource.kind)):
            schema["description"] = known.view.__doc__
    identity = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return schema | {"x-kubernetes-group-version-kind": [identity]}


_TYPES: Final[dict[str, tuple[str, type | tuple[type, ...]]]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "array": ("a list", list),
    "object": ("an object", dict),
}


class PrunedObject(msgspec.Struct, frozen=True):
    """An object without its unknown fields, the paths of these, and messages about values of a wrong type."""

    value: Any
    unknown: tuple[str, ...]
    wrong: tuple[str, ...]


def prune(value: object, schema: Schema) -> PrunedObject:
    """Remove the fields of an object that its schema does not have, and check the types of the others."""
    pruner = _Pruner()
    return PrunedObject(pruner.prune(value, schema, ""), tuple(pruner.unknown), tuple(pruner.wrong))


class _Pruner:
    """Prunes one object, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def prune(self, value: object, schema: Schema, path: str) -> object:
        """Return a value without unknown fields; null is valid for every type."""
        schema = resolve_reference(schema)
        if value is None or not self._has_type(value, schema, path):
            return value
        if isinstance(value, dict):
            return self._object(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items", {})
            return [self.prune(member, items, child(path, number)) for number, member in enumerate(value)]
        return value

    def _object(self, value: dict[str, object], schema: Schema, path: str) -> dict[str, object]:
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties is None and additional is None:
            return value
        result = {}
        for name, inner in value.items():
            known = (properties or {}).get(name, additional)
            if known is not None:
                result[name] = self.prune(inner, known, child(path, name))
            elif schema.get(PRESERVE):
                result[name] = inner
            else:
                self.unknown.append(child(path, name))
        return result

    def _has_type(self, value: object, schema: Schema, path: str) -> bool:
        if schema.get(INT_OR_STRING) or "type" not in schema:
            return True
        name, types = _TYPES[schema["type"]]
        if isinstance(value, types) and isinstance(value, bool) == (types is bool):
            return True
        self.wrong.append(f"{path or 'the object'} must be {name}, not {described(value)}")
        return False
