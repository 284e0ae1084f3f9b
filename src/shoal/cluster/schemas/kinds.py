"""The schema of every kind, whoever's it is."""

import functools
from typing import Any, Final

from shoal.api.crds import object_schema
from shoal.api.kinds import KINDS, OWN_KINDS
from shoal.api.schema import Schema
from shoal.cluster.resources import BY_KIND, RESOURCES, Resource
from shoal.cluster.schemas import core

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
