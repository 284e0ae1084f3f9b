"""Schemas of Kubernetes' built-in kinds, parsed from a short notation.

    "volumes": "[Volume] by name retaining keys"     a list that a patch merges by the members' names
    "finalizers": "[string] as a set"                a list that a patch merges as a set
    "name": "string!"                                a required field
    "protocol": "string of SCTP|TCP|UDP"             an enumeration
    "data": "{string}"                               a mapping

`kubernetes.json` contains only this notation; a test compares it with what a real API server publishes.
"""

import functools
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.cluster.resources import Resource, own_groups

KUBERNETES_VERSION: Final = "1.36.3"
"""The Kubernetes version that the schemas are of."""

SCHEMAS_FILE: Final = Path(__file__).with_name("kubernetes.json")
REFERENCES: Final = "#/components/schemas/"
MERGE_KEY: Final = "x-kubernetes-patch-merge-key"
PATCH_STRATEGY: Final = "x-kubernetes-patch-strategy"

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
REQUEST_KINDS: Final = {
    "Binding": "io.k8s.api.core.v1.Binding",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "DeleteOptions": f"{_META}.DeleteOptions",
    "LocalSubjectAccessReview": "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    "SelfSubjectAccessReview": "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "SelfSubjectRulesReview": "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "SubjectAccessReview": "io.k8s.api.authorization.v1.SubjectAccessReview",
    "SelfSubjectReview": "io.k8s.api.authentication.v1.SelfSubjectReview",
    "TokenReview": "io.k8s.api.authentication.v1.TokenReview",
}
"""Kinds of request bodies, which are never stored, and the names of their schemas."""


def is_builtin(resource: Resource[Any]) -> bool:
    """Return whether a resource is one of Kubernetes' built-in resources."""
    return resource.group not in own_groups()


def schema_name(resource: Resource[Any]) -> str:
    """Return the name of the schema of a built-in resource: `io.k8s.api.core.v1.Pod`."""
    return f"{_PACKAGES[resource.group]}.{resource.version}.{resource.kind}"


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return all schemas by name, as in OpenAPI."""
    packages = msgspec.json.decode(SCHEMAS_FILE.read_bytes(), type=dict[str, dict[str, dict[str, str]]])
    names = {name.rpartition(".")[2]: name for name in _SIMPLE}
    names |= {kind: f"{package}.{kind}" for package, kinds in packages.items() for kind in kinds}
    parsed = {
        f"{package}.{kind}": _object_schema(fields, names)
        for package, kinds in packages.items()
        for kind, fields in kinds.items()
    }
    return _SIMPLE | parsed


def resolve_reference(schema: Schema) -> Schema:
    """Return the schema that a schema refers to, or itself."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return schemas()[part["$ref"].removeprefix(REFERENCES)]
    return schema


def _object_schema(fields: dict[str, str], names: dict[str, str]) -> Schema:
    parsed = {name: _parse_field(notation) for name, notation in fields.items()}
    required = [name for name, field in parsed.items() if field["required"]]
    properties = {name: _field_schema(field, names) for name, field in parsed.items()}
    return {"type": "object"} | ({"required": required} if required else {}) | {"properties": properties}


def _parse_field(notation: str) -> re.Match[str]:
    found = _FIELD.fullmatch(notation)
    if found is None:
        raise ValueError(f"invalid notation of a field: {notation}")
    return found


def _field_schema(field: re.Match[str], names: dict[str, str]) -> Schema:
    schema = _type_schema(field["type"], names)
    if field["key"]:
        schema[MERGE_KEY] = field["key"]
    if field["key"] or field["set"]:
        schema[PATCH_STRATEGY] = "merge,retainKeys" if field["retain"] else "merge"
    if field["values"]:
        schema["enum"] = field["values"].split("|")
    return schema


def _type_schema(notation: str, names: dict[str, str]) -> Schema:
    if notation.startswith("["):
        return {"type": "array", "items": _type_schema(notation[1:-1], names)}
    if notation.startswith("{"):
        return {"type": "object", "additionalProperties": _type_schema(notation[1:-1], names)}
    if notation in _SCALARS:
        return dict(_SCALARS[notation])
    return {"allOf": [{"$ref": f"{REFERENCES}{names[notation]}"}]}
