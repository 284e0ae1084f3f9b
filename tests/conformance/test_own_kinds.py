"""Our own kinds are validated, defaulted and pruned alike in every home.

The objects are those of the tests of our validation; left out are those that `tests/k8s/test_agreement.py`
lists with the reason why an API server and our validation cannot agree.
"""

import pytest

from shoal.api import registry
from shoal.api.kinds import Kind
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, by_kind, resource_of
from tests.api import test_crds
from tests.api.test_validation import VALID, errors_of
from tests.conformance.cases import cases
from tests.conformance.objects import make, unique
from tests.k8s.test_agreement import CASES, STRICTER_KUBERNETES, STRICTER_SHOAL

AGREED = [
    (name, kind, raw)
    for name, (kind, raw) in CASES.items()
    if kind in registry.kinds() and name not in STRICTER_SHOAL | STRICTER_KUBERNETES
]
REFUSED = [row for row in AGREED if errors_of(row[1], row[2])]
TAKEN = [row for row in AGREED if not errors_of(row[1], row[2])]


def whole(kind: Kind, raw: Object, namespace: str) -> Object:
    """Return an object for a namespace, unless it has an invalid namespace itself."""
    metadata = raw.get("metadata")
    if kind.namespaced and isinstance(metadata, dict):
        raw = {**raw, "metadata": {"namespace": namespace, **metadata}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **raw}


@cases("kind, raw", REFUSED)
async def test_invalid_objects_are_refused(cluster: Cluster, namespace: str, kind: Kind, raw: Object) -> None:
    with pytest.raises((InvalidError, BadRequestError)):
        await cluster.create(
            by_kind()[kind.api_version, kind.kind], whole(kind, raw, namespace), dry_run=True
        )


@cases("kind, raw", TAKEN)
async def test_valid_objects_are_defaulted(cluster: Cluster, namespace: str, kind: Kind, raw: Object) -> None:
    resource = by_kind()[kind.api_version, kind.kind]
    made = await cluster.create(resource, whole(kind, raw, namespace), dry_run=True)
    assert made.get("spec") == test_crds.defaulted(test_crds.schema(kind), without_nulls(raw)).get("spec")


def without_nulls(raw: Object) -> Object:
    """Drop nulls in a spec: they are the same as absent fields."""
    errors_of = {field: value for field, value in raw.items() if value is not None}
    if "spec" in errors_of:
        errors_of["spec"] = {field: value for field, value in errors_of["spec"].items() if value is not None}
    return errors_of


async def test_unknown_fields_are_dropped(cluster: Cluster, namespace: str) -> None:
    body = make(resource_of("TYJob"), "a", namespace, spec={"colour": "red"})
    made = await cluster.create(resource_of("TYJob"), {**body, "colour": "blue"})
    assert "colour" not in made
    assert "colour" not in made["spec"]


async def test_templates_are_not_pruned(cluster: Cluster, namespace: str) -> None:
    kind, raw = VALID["dijob"]
    template = {
        "spec": {"containers": [{"name": "a", "image": "b", "fieldOfTomorrow": {"x": [1, None, "y"]}}]}
    }
    metadata = {"name": "a", "namespace": namespace}
    body = whole(kind, {"metadata": metadata, "spec": {**raw["spec"], "template": template}}, namespace)
    made = await cluster.create(by_kind()[kind.api_version, kind.kind], body)
    assert made["spec"]["template"] == template


@pytest.mark.parametrize("change", [{"spec": {"priority": "high"}}, {"spec": {"workerSets": 5}}], ids=str)
async def test_updates_are_validated_like_new_objects(
    cluster: Cluster, namespace: str, change: Object
) -> None:
    made = await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace))
    with pytest.raises(InvalidError) as refused:
        await cluster.patch(resource_of("TYJob"), "a", namespace, patch=change)
    assert any(cause.path.startswith("spec.") for cause in refused.value.causes)
    assert await cluster.get(resource_of("TYJob"), "a", namespace) == made


async def test_removed_fields_are_defaulted_again(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(
        resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace, spec={"priority": 7})
    )
    assert made["spec"]["priority"] == 7
    patched = await cluster.patch(resource_of("TYJob"), "a", namespace, patch={"spec": {"priority": None}})
    fresh = await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "b", namespace))
    assert patched["spec"] == fresh["spec"]


async def test_pools_are_cluster_scoped(cluster: Cluster) -> None:
    made = await cluster.create(resource_of("Pool"), make(resource_of("Pool"), unique("pool")), dry_run=True)
    assert "namespace" not in made["metadata"]
