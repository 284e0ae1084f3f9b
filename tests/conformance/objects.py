"""Minimal objects for the conformance tests."""

import uuid
from typing import Any, Final

from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
    resource_of,
)
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kinds.pool.kind import KIND as POOL
from shoal.kinds.trainingjob.kind import KIND as TRAININGJOB
from shoal.kinds.tyjob.kind import KIND as TYJOB

CONTAINER: Final = {"name": "main", "image": "busybox"}
TEMPLATE: Final = {"spec": {"containers": [CONTAINER]}}
TRAINER: Final = {
    "entrypoint": "train",
    "min-instance": 1,
    "max-instance": 2,
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
}

SMALLEST: Final[dict[str, Object]] = {
    PODS.kind: {"spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 30}},
    NODES.kind: {},
    NAMESPACES.kind: {},
    SERVICES.kind: {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    CONFIG_MAPS.kind: {"data": {"a": "1"}},
    SECRETS.kind: {"data": {"a": "MQ=="}},
    EVENTS.kind: {"reason": "Seen", "message": "something happened"},
    LEASES.kind: {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 40}},
    PRIORITY_CLASSES.kind: {"value": 10},
    BUDGETS.kind: {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    JOBS.kind: {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}},
    DIJOB.kind: {"spec": {"template": TEMPLATE}},
    TYJOB.kind: {
        "spec": {
            "leader": {"name": "l", "template": TEMPLATE},
            "workerSets": [{"name": "w", "counts": 2, "template": TEMPLATE}],
        }
    },
    TRAININGJOB.kind: {"spec": {"image": "paddle", "trainer": TRAINER}},
    POOL.kind: {"spec": {"nodeSelector": {"matchLabels": {"pool": "a"}}}},
}
"""Required fields of each kind, besides the name."""

OWN: Final = (resource_of("DIJob"), resource_of("TYJob"), resource_of("TrainingJob"), resource_of("Pool"))


def unique(prefix: str = "test") -> str:
    """Return a name that no other test uses, for cluster-scoped objects."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def make(
    resource: Resource[Any],
    name: str,
    namespace: str = "",
    *,
    metadata: Object | None = None,
    spec: Object | None = None,
    **fields: Any,  # noqa: ANN401 - JSON
) -> Object:
    """Return the smallest object of a resource, with given parts of metadata and spec, and given fields."""
    smallest = SMALLEST[resource.kind]
    named: Object = {"name": name} if name else {}
    spaced = {"namespace": namespace} if namespace else {}
    merged = {"spec": {**smallest.get("spec", {}), **spec}} if spec else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**named, **spaced, **(metadata or {})},
        **smallest,
        **merged,
        **_regarding(resource, namespace),
        **fields,
    }


def _regarding(resource: Resource[Any], namespace: str) -> Object:
    """An event must be in the namespace of its involved object."""
    return {"involvedObject": {"kind": "Pod", "namespace": namespace}} if resource is EVENTS else {}


def config_map(name: str, namespace: str, **more: Any) -> Object:  # noqa: ANN401 - JSON
    return make(CONFIG_MAPS, name, namespace, **more)


def pod(name: str, namespace: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:  # noqa: ANN401 - JSON
    return make(PODS, name, namespace, metadata={"labels": labels} if labels else {}, spec=spec)


def owned_by(*owners: Object, **more: Any) -> Object:  # noqa: ANN401 - JSON
    """Return metadata with owner references."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **more,
        }
        for owner in owners
    ]
    return {"ownerReferences": references}


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def version_of(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])
