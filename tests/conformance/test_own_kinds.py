"""Our own kinds are refused, completed and pruned alike, whoever keeps them.

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
from tests.api.test_validation import GOOD, said
from tests.conformance.cases import cases
from tests.conformance.objects import make, unique
from tests.k8s.test_agreement import CASES, STRICTER_KUBERNETES, STRICTER_SHOAL

AGREED = [
    (name, kind, raw)
    for name, (kind, raw) in CASES.items()
    if kind in registry.kinds() and name not in STRICTER_SHOAL | STRICTER_KUBERNETES
]
REFUSED = [row for row in AGREED if said(row[1], row[2])]
TAKEN = [row for row in AGREED if not said(row[1], row[2])]


def whole(kind: Kind, raw: Object, namespace: str) -> Object:
    """An object as it is sent to a namespace, unless it names one that is wrong itself."""
    metadata = raw.get("metadata")
    if kind.namespaced and isinstance(metadata, dict):
        raw = {**raw, "metadata": {"namespace": namespace, **metadata}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **raw}


@cases("kind, raw", REFUSED)
async def test_what_cannot_be_is_refused(cluster: Cluster, namespace: str, kind: Kind, raw: Object) -> None:
    with pytest.raises((InvalidError, BadRequestError)):
        await cluster.create(
            by_kind()[kind.api_version, kind.kind], whole(kind, raw, namespace), dry_run=True
        )


@cases("kind, raw", TAKEN)
async def test_what_may_be_is_completed(cluster: Cluster, namespace: str, kind: Kind, raw: Object) -> None:
    resource = by_kind()[kind.api_version, kind.kind]
    made = await cluster.create(resource, whole(kind, raw, namespace), dry_run=True)
    assert made.get("spec") == test_crds.defaulted(test_crds.schema(kind), without_nulls(raw)).get("spec")


def without_nulls(raw: Object) -> Object:
    """A null in a spec is the same as nothing."""
    said = {field: value for field, value in raw.items() if value is not None}
    if "spec" in said:
        said["spec"] = {field: value for field, value in said["spec"].items() if value is not None}
    return said


async def test_fields_that_nobody_knows_are_dropped(cluster: Cluster, namespace: str) -> None:
    body = make(resource_of("TYJob"), "a", namespace, spec={"colour": "red"})
    made = await cluster.create(resource_of("TYJob"), {**body, "colour": "blue"})
    assert "colour" not in made
    assert "colour" not in made["spec"]


async def test_templates_are_kept_as_they_are(cluster: Cluster, namespace: str) -> None:
    kind, raw = GOOD["dijob"]
    template = {
        "spec": {"containers": [{"name": "a", "image": "b", "fieldOfTomorrow": {"x": [1, None, "y"]}}]}
    }
    metadata = {"name": "a", "namespace": namespace}
    body = whole(kind, {"metadata": metadata, "spec": {**raw["spec"], "template": template}}, namespace)
    made = await cluster.create(by_kind()[kind.api_version, kind.kind], body)
    assert made["spec"]["template"] == template


@pytest.mark.parametrize("change", [{"spec": {"priority": "high"}}, {"spec": {"workerSets": 5}}], ids=str)
async def test_a_change_is_judged_like_a_new_object(cluster: Cluster, namespace: str, change: Object) -> None:
    made = await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace))
    with pytest.raises(InvalidError) as refused:
        await cluster.patch(resource_of("TYJob"), "a", namespace, patch=change)
    assert any(cause.path.startswith("spec.") for cause in refused.value.causes)
    assert await cluster.get(resource_of("TYJob"), "a", namespace) == made


async def test_what_a_change_takes_away_is_filled_in_again(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(
        resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace, spec={"priority": 7})
    )
    assert made["spec"]["priority"] == 7
    patched = await cluster.patch(resource_of("TYJob"), "a", namespace, patch={"spec": {"priority": None}})
    fresh = await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "b", namespace))
    assert patched["spec"] == fresh["spec"]


async def test_a_pool_has_no_namespace(cluster: Cluster) -> None:
    made = await cluster.create(resource_of("Pool"), make(resource_of("Pool"), unique("pool")), dry_run=True)
    assert "namespace" not in made["metadata"]
