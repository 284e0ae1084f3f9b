"""The table of resources agrees with a real API server."""

from typing import Any

import pytest

from shoal.cluster.resources import PODS, Object, Resource, by_kind, resource_of, resources
from tests.k8s.controlplane import ControlPlane


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.full_name)
def test_a_resource_agrees_with_the_api_server(k8s: ControlPlane, resource: Resource[Object]) -> None:
    found = {entry["name"]: entry for entry in _discover(k8s, resource)}
    published = found[resource.plural]
    assert published["kind"] == resource.kind
    assert published["namespaced"] == resource.namespaced
    assert tuple(published.get("shortNames", ())) == resource.short_names
    assert tuple(published.get("categories", ())) == resource.categories
    assert (f"{resource.plural}/status" in found) == resource.status


def _discover(k8s: ControlPlane, resource: Resource[Object]) -> list[dict[str, Any]]:
    root = resource.path().rpartition("/")[0]
    entries: list[dict[str, Any]] = k8s.client().get(root)["resources"]
    return entries


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("team", "a", "binding") == "/api/v1/namespaces/team/pods/a/binding"
    assert resource_of("Pool").path("ignored", "gpu") == "/apis/resource.aibee.cn/v1alpha1/pools/gpu"


def test_resources_by_api_version_and_kind() -> None:
    assert by_kind()["v1", "Pod"] is PODS
    assert by_kind()["resource.aibee.cn/v1alpha1", "Pool"] is resource_of("Pool")


def test_api_version_and_kind_are_added() -> None:
    assert PODS.decode(b'{"metadata": {}}') == {"apiVersion": "v1", "kind": "Pod", "metadata": {}}


def test_another_decoder() -> None:
    sizes = PODS.read_as(len)
    assert sizes.decode(b"{}") == 2
    assert sizes.full_name == PODS.full_name
