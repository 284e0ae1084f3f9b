"""Schemas of all kinds, Shoal's and Kubernetes'."""

from typing import Any, Final

from shoal.api import kinds, registry
from shoal.api.crds import Schema, object_schema
from shoal.api.kinds import Kind
from shoal.cluster.resources import Resource, resources
from shoal.cluster.schemas import core

_METADATA: Final[Schema] = {
    "allOf": [{"$ref": f"{core.REFERENCES}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]
}


@registry.cached_by_kinds
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


@registry.cached_by_kinds
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
