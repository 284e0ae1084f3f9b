"""The table of resources says of each what a real API server says."""

from typing import Any

import pytest

from shoal.cluster.resources import PODS, Object, Resource, by_kind, resource_of, resources
from tests.k8s.controlplane import ControlPlane


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.full_name)
def test_a_real_api_server_has_the_resource_just_so(k8s: ControlPlane, resource: Resource[Object]) -> None:
    found = {entry["name"]: entry for entry in _discovered(k8s, resource)}
    said = found[resource.plural]
    assert said["kind"] == resource.kind
    assert said["namespaced"] == resource.namespaced
    assert tuple(said.get("shortNames", ())) == resource.short_names
    assert tuple(said.get("categories", ())) == resource.categories
    assert (f"{resource.plural}/status" in found) == resource.status


def _discovered(k8s: ControlPlane, resource: Resource[Object]) -> list[dict[str, Any]]:
    root = resource.path().rpartition("/")[0]
    entries: list[dict[str, Any]] = k8s.client().get(root)["resources"]
    return entries


def test_paths_are_those_of_the_api() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("team", "a", "binding") == "/api/v1/namespaces/team/pods/a/binding"
    assert resource_of("Pool").path("ignored", "gpu") == "/apis/resource.aibee.cn/v1alpha1/pools/gpu"


def test_objects_are_found_by_what_they_say_they_are() -> None:
    assert by_kind()["v1", "Pod"] is PODS
    assert by_kind()["resource.aibee.cn/v1alpha1", "Pool"] is resource_of("Pool")


def test_an_object_that_does_not_say_what_it_is_is_told() -> None:
    assert PODS.decode(b'{"metadata": {}}') == {"apiVersion": "v1", "kind": "Pod", "metadata": {}}


def test_a_resource_can_be_read_as_something_else() -> None:
    sizes = PODS.read_as(len)
    assert sizes.decode(b"{}") == 2
    assert sizes.full_name == PODS.full_name
