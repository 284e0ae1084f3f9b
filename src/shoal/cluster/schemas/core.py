"""The schemas of Kubernetes' own kinds, read from their notation.

    "volumes": "[Volume] by name retaining keys"     a list that a patch merges by the members' names
    "finalizers": "[string] as a set"                a list that a patch merges as a set
    "name": "string!"                                a field that is required
    "protocol": "string of SCTP|TCP|UDP"             a field with values to choose from
    "data": "{string}"                               a mapping

`kubernetes.json` has nothing but this; a test holds it to what a real API server publishes.
"""

import functools
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.cluster.resources import OWN_GROUPS, Resource

VERSION: Final = "1.36.3"
"""The Kubernetes whose kinds these are."""

SHAPES: Final = Path(__file__).with_name("kubernetes.json")
REFERENCES: Final = "#/components/schemas/"
MERGE_KEY: Final = "x-kubernetes-patch-merge-key"
STRATEGY: Final = "x-kubernetes-patch-strategy"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_FIELD: Final = re.compile(
    r"(?P<type>[^! ]+)(?P<required>!)?( by (?P<key>\w+)|(?P<set> as a set))?(?P<retain> retaining keys)?"
    r"( of (?P<values>\S+))?"
)
_SCALARS: Final[dict[str, Schema]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
}
_SIMPLE: Final[dict[str, Schema]] = {
    f"{_META}.Time": {"type": "string", "format": "date-time"},
    f"{_META}.MicroTime": {"type": "string", "format": "date-time"},
    f"{_META}.FieldsV1": {"type": "object"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}
_PACKAGES: Final = {
    "": "io.k8s.api.core",
    "batch": "io.k8s.api.batch",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "policy": "io.k8s.api.policy",
    "scheduling.k8s.io": "io.k8s.api.scheduling",
}
SENT: Final = {
    "Binding": "io.k8s.api.core.v1.Binding",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "DeleteOptions": f"{_META}.DeleteOptions",
}
"""Kinds that are sent and never kept, and the names of their schemas."""


def knows(resource: Resource[Any]) -> bool:
    """Whether a resource is one of Kubernetes' own."""
    return resource.group not in OWN_GROUPS


def schema_name(resource: Resource[Any]) -> str:
    """What Kubernetes calls the schema of a resource's objects."""
    return f"{_PACKAGES[resource.group]}.{resource.version}.{resource.kind}"


@functools.cache
def schemas() -> dict[str, Schema]:
    """All schemas by name, as OpenAPI has them."""
    packages = msgspec.json.decode(SHAPES.read_bytes(), type=dict[str, dict[str, dict[str, str]]])
    names = {name.rpartition(".")[2]: name for name in _SIMPLE}
    names |= {kind: f"{package}.{kind}" for package, kinds in packages.items() for kind in kinds}
    made = {
        f"{package}.{kind}": _object(fields, names)
        for package, kinds in packages.items()
        for kind, fields in kinds.items()
    }
    return _SIMPLE | made


def resolved(schema: Schema) -> Schema:
    """The schema that another one refers to, or itself."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return schemas()[part["$ref"].removeprefix(REFERENCES)]
    return schema


def _object(fields: dict[str, str], names: dict[str, str]) -> Schema:
    read = {name: _matched(notation) for name, notation in fields.items()}
    required = [name for name, field in read.items() if field["required"]]
    properties = {name: _property(field, names) for name, field in read.items()}
    return {"type": "object"} | ({"required": required} if required else {}) | {"properties": properties}


def _matched(notation: str) -> re.Match[str]:
    found = _FIELD.fullmatch(notation)
    if found is None:
        raise ValueError(f"no notation of a field: {notation}")
    return found


def _property(field: re.Match[str], names: dict[str, str]) -> Schema:
    made = _type(field["type"], names)
    if field["key"]:
        made[MERGE_KEY] = field["key"]
    if field["key"] or field["set"]:
        made[STRATEGY] = "merge,retainKeys" if field["retain"] else "merge"
    if field["values"]:
        made["enum"] = field["values"].split("|")
    return made


def _type(notation: str, names: dict[str, str]) -> Schema:
    if notation.startswith("["):
        return {"type": "array", "items": _type(notation[1:-1], names)}
    if notation.startswith("{"):
        return {"type": "object", "additionalProperties": _type(notation[1:-1], names)}
    if notation in _SCALARS:
        return dict(_SCALARS[notation])
    return {"allOf": [{"$ref": f"{REFERENCES}{names[notation]}"}]}
