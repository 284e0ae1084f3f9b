"""Paths: their targets and allowed methods."""

import pytest

from shoal.apiserver.http.requests import NODE_METRICS, POD_METRICS, Target, parse_path
from shoal.cluster.resources import JOBS, NAMESPACES, NODES, PODS, resource_of

FOUND = {
    "/api/v1/pods": Target(resource=PODS),
    "/api/v1/pods/": Target(resource=PODS),
    "/api/v1/namespaces/x/pods": Target(resource=PODS, namespace="x"),
    "/api/v1/namespaces/x/pods/a": Target(resource=PODS, namespace="x", name="a"),
    "/api/v1/namespaces/x/pods/a/status": Target(
        resource=PODS, namespace="x", name="a", subresource="status"
    ),
    "/api/v1/namespaces/x/pods/a/binding": Target(
        resource=PODS, namespace="x", name="a", subresource="binding"
    ),
    "/api/v1/namespaces/x/pods/a/eviction": Target(
        resource=PODS, namespace="x", name="a", subresource="eviction"
    ),
    "/api/v1/namespaces/x/pods/a/log": Target(resource=PODS, namespace="x", name="a", subresource="log"),
    "/api/v1/namespaces/x/pods/a/exec": Target(resource=PODS, namespace="x", name="a", subresource="exec"),
    "/api/v1/namespaces/x/pods/a/attach": Target(
        resource=PODS, namespace="x", name="a", subresource="attach"
    ),
    "/apis/metrics.k8s.io/v1beta1/nodes/a": Target(resource=NODE_METRICS, name="a"),
    "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods": Target(resource=POD_METRICS, namespace="x"),
    "/apis/metrics.k8s.io/v1beta1/pods": Target(resource=POD_METRICS),
    "/api/v1/namespaces/x/bindings": Target(resource=PODS, namespace="x", subresource="binding"),
    "/api/v1/namespaces/x/pods/status": Target(resource=PODS, namespace="x", name="status"),
    "/api/v1/namespaces": Target(resource=NAMESPACES),
    "/api/v1/namespaces/x": Target(resource=NAMESPACES, name="x"),
    "/api/v1/namespaces/x/status": Target(resource=NAMESPACES, name="x", subresource="status"),
    "/api/v1/nodes/a": Target(resource=NODES, name="a"),
    "/apis/batch/v1/namespaces/x/jobs/a": Target(resource=JOBS, namespace="x", name="a"),
    "/apis/tyrl.io/v1alpha1/tyjobs": Target(resource=resource_of("TYJob")),
    "/apis/resource.aibee.cn/v1alpha1/pools/a/status": Target(
        resource=resource_of("Pool"), name="a", subresource="status"
    ),
}
NOWHERE = [
    "",
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/batch",
    "/apis/batch/v1",
    "/api/v1/tyjobs",
    "/api/v2/pods",
    "/apis/v1/pods",
    "/api/v1//pods",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/x/pods//status",
    "/api/v1/namespaces/x/nodes",
    "/api/v1/namespaces/x/namespaces",
    "/api/v1/pods/a",
    "/api/v1/nodes/a/binding",
    "/api/v1/bindings",
    "/api/v1/namespaces/x/bindings/a",
    "/api/v1/namespaces/x/configmaps/a/status",
    "/api/v1/namespaces/x/services/a/log",
    "/api/v1/pods/a/exec",
    "/apis/metrics.k8s.io/v1beta1/pods/a",
    "/apis/metrics.k8s.io/v1beta1/nodes/a/status",
    "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods/a/log",
    "/api/v1/namespaces/x/pods/a/status/y",
    "/apis/batch/v1/namespaces/x/bindings",
]


@pytest.mark.parametrize("path", FOUND)
def test_a_path_has_a_target(path: str) -> None:
    assert parse_path(path) == FOUND[path]


@pytest.mark.parametrize("path", NOWHERE)
def test_a_path_has_no_target(path: str) -> None:
    assert parse_path(path) is None


METHODS = {
    "/api/v1/pods": "GET",
    "/api/v1/namespaces/x/pods": "DELETE GET POST",
    "/api/v1/nodes": "DELETE GET POST",
    "/api/v1/nodes/a": "DELETE GET PATCH PUT",
    "/api/v1/nodes/a/status": "GET PATCH PUT",
    "/api/v1/namespaces/x/pods/a/eviction": "POST",
    "/api/v1/namespaces/x/pods/a/log": "GET",
    "/api/v1/namespaces/x/pods/a/exec": "GET POST",
    "/api/v1/namespaces/x/pods/a/portforward": "GET POST",
    "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods": "GET",
    "/api/v1/namespaces": "GET POST",
}


@pytest.mark.parametrize("path", METHODS)
def test_methods_of_a_target(path: str) -> None:
    target = parse_path(path)
    assert target is not None
    assert " ".join(sorted(target.methods)) == METHODS[path]
