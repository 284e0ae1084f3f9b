"""The schema of every kind, whoever's it is.

Fields of an object beside its schema: those that there are not, and those of another type.
"""

import functools
from typing import Any, Final

import msgspec

from shoal.api.crds import INT_OR_STRING, PRESERVE, Schema, object_schema
from shoal.api.fields import child, described
from shoal.api.kinds import KINDS, OWN_KINDS
from shoal.cluster.resources import BY_KIND, RESOURCES, Resource
from shoal.cluster.schemas import core
from shoal.cluster.schemas.core import resolved

_METADATA: Final[Schema] = {
    "allOf": [{"$ref": f"{core.REFERENCES}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]
}
_OWN: Final = {BY_KIND[kind.api_version, kind.kind].full_name: kind for kind in OWN_KINDS}


def is_own(resource: Resource[Any]) -> bool:
    """Whether a kind is one of Shoal's: its schema says what may be said, and no list in it can be merged."""
    return resource.full_name in _OWN


def name_of(resource: Resource[Any]) -> str:
    """What the schema is called: `io.k8s.api.core.v1.Pod`, `io.tyrl.v1alpha1.TYJob`."""
    if not is_own(resource):
        return core.schema_name(resource)
    backwards = ".".join(reversed(resource.group.split(".")))
    return f"{backwards}.{resource.version}.{resource.kind}"


@functools.cache
def schemas() -> dict[str, Schema]:
    """The schemas of all kinds, with all that they are made of, by name."""
    return core.schemas() | {name_of(resource): _whole(resource) for resource in RESOURCES}


def schema_of(resource: Resource[Any]) -> Schema:
    """The schema of whole objects of a kind."""
    return schemas()[name_of(resource)]


def _whole(resource: Resource[Any]) -> Schema:
    if is_own(resource):
        made = object_schema(_OWN[resource.full_name])
        made["properties"]["metadata"] = _METADATA
    else:
        made = dict(core.schemas()[core.schema_name(resource)])
        if known := KINDS.get((resource.api_version, resource.kind)):
            made["description"] = known.view.__doc__
    said = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return made | {"x-kubernetes-group-version-kind": [said]}


_TYPES: Final[dict[str, tuple[str, type | tuple[type, ...]]]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "array": ("a list", list),
    "object": ("an object", dict),
}


class Fitted(msgspec.Struct, frozen=True):
    """An object without the fields that there are not, their paths, and what is of a wrong type."""

    value: Any
    unknown: tuple[str, ...]
    wrong: tuple[str, ...]


def fitted(value: object, schema: Schema) -> Fitted:
    """An object as its schema has it."""
    fitting = _Fitting()
    return Fitted(fitting.value(value, schema, ""), tuple(fitting.unknown), tuple(fitting.wrong))


class _Fitting:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def value(self, value: object, schema: Schema, path: str) -> object:
        """A value without fields that there are not; null is nothing, whatever there should be."""
        schema = resolved(schema)
        if value is None or not self._has_type(value, schema, path):
            return value
        if isinstance(value, dict):
            return self._object(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items", {})
            return [self.value(member, items, child(path, number)) for number, member in enumerate(value)]
        return value

    def _object(self, value: dict[str, object], schema: Schema, path: str) -> dict[str, object]:
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if properties is None and more is None:
            return value
        made = {}
        for name, inner in value.items():
            known = (properties or {}).get(name, more)
            if known is not None:
                made[name] = self.value(inner, known, child(path, name))
            elif schema.get(PRESERVE):
                made[name] = inner
            else:
                self.unknown.append(child(path, name))
        return made

    def _has_type(self, value: object, schema: Schema, path: str) -> bool:
        if schema.get(INT_OR_STRING) or "type" not in schema:
            return True
        name, types = _TYPES[schema["type"]]
        if isinstance(value, types) and isinstance(value, bool) == (types is bool):
            return True
        self.wrong.append(f"{path or 'the object'} must be {name}, not {described(value)}")
        return False
