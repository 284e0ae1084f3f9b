"""Refused objects, their errors, and the fields that the errors name."""

import pytest

from shoal.cluster.errors import BadRequestError, ClusterError, InvalidError, NotFoundError, TooLargeError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Object,
    Resource,
    resource_of,
)
from tests.conformance.cases import cases, kinds
from tests.conformance.objects import CONTAINER, config_map, make, pod
from tests.conformance.waiting import exists

# --- metadata ------------------------------------------------------------------------------------------

METADATA: list[tuple[str, Object, str]] = [
    ("a name in upper case", {"name": "Aa"}, "metadata.name"),
    ("a name with a space", {"name": "a b"}, "metadata.name"),
    ("a name with an underscore", {"name": "a_b"}, "metadata.name"),
    ("a name with a slash", {"name": "a/b"}, "metadata.name"),
    ("a name that begins with a hyphen", {"name": "-a"}, "metadata.name"),
    ("a name that ends with a dot", {"name": "a."}, "metadata.name"),
    ("a name of 254 letters", {"name": "a" * 254}, "metadata.name"),
    ("no name", {"name": ""}, "metadata.name"),
    ("a label with a space", {"labels": {"a b": "c"}}, "metadata.labels"),
    ("a label without a name", {"labels": {"a/": "c"}}, "metadata.labels"),
    ("a label of 64 letters", {"labels": {"a" * 64: "c"}}, "metadata.labels"),
    ("a value with a space", {"labels": {"a": "b c"}}, "metadata.labels"),
    ("a value of 64 letters", {"labels": {"a": "b" * 64}}, "metadata.labels"),
    ("a value that ends with a hyphen", {"labels": {"a": "b-"}}, "metadata.labels"),
    ("an annotation with a space", {"annotations": {"a b": "c"}}, "metadata.annotations"),
    ("too large annotations", {"annotations": {"a": "b" * 262_145}}, "metadata.annotations"),
    (
        "an owner without a uid",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]},
        "metadata.ownerReferences",
    ),
    (
        "an event as an owner",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "x"}]},
        "metadata.ownerReferences",
    ),
    (
        "an owner without a kind",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "a", "uid": "x"}]},
        "metadata.ownerReferences",
    ),
    (
        "two controller references",
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                for name in "ab"
            ]
        },
        "metadata.ownerReferences",
    ),
]
GOOD_METADATA: list[tuple[str, Object]] = [
    ("a name with dots", {"name": "a.b-c.1"}),
    ("a name of 253 letters", {"name": "a" * 253}),
    ("a name of one digit", {"name": "1"}),
    ("a label with a domain", {"labels": {"example.com/A_b.c-d": "X_y.z-1"}}),
    ("a label of 63 letters", {"labels": {"a" * 63: "b" * 63}}),
    ("an empty value", {"labels": {"a": ""}}),
    ("an annotation with any value", {"annotations": {"a/B": "ü \n {}"}}),
    (
        "an owner that may not exist",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "x"}]},
    ),
]


@cases("metadata, path", METADATA)
@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_invalid_metadata_is_refused(
    cluster: Cluster, namespace: str, resource: Resource[Object], metadata: Object, path: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        await cluster.create(resource, make(resource, "a", namespace, metadata=metadata))
    assert any(cause.path.startswith(path) for cause in refused.value.causes)
    assert "is invalid" in refused.value.message


@cases("metadata", GOOD_METADATA)
async def test_valid_metadata_is_stored(cluster: Cluster, namespace: str, metadata: Object) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=metadata))
    assert {**made["metadata"], **metadata} == made["metadata"]


@kinds(CONFIG_MAPS, JOBS)
async def test_finalizers_need_a_domain(cluster: Cluster, namespace: str, resource: Resource[Object]) -> None:
    with pytest.raises(InvalidError) as refused:
        await cluster.create(resource, make(resource, "a", namespace, metadata={"finalizers": ["mine"]}))
    assert [cause.path for cause in refused.value.causes] == ["metadata.finalizers[0]"]


@kinds(resource_of("TYJob"), LEASES, BUDGETS)
async def test_finalizers_of_some_kinds_need_no_domain(
    cluster: Cluster, namespace: str, resource: Resource[Object]
) -> None:
    made = await cluster.create(
        resource, make(resource, "a", namespace, metadata={"finalizers": ["mine"]}), dry_run=True
    )
    assert made["metadata"]["finalizers"] == ["mine"]


# --- generated names -----------------------------------------------------------------------------------


@kinds(CONFIG_MAPS, PODS, resource_of("TYJob"))
async def test_a_name_is_generated(cluster: Cluster, namespace: str, resource: Resource[Object]) -> None:
    names = set()
    for _ in range(3):
        made = await cluster.create(
            resource, make(resource, "", namespace, metadata={"generateName": "gen-"})
        )
        names.add(made["metadata"]["name"])
        assert made["metadata"]["generateName"] == "gen-"
    assert len(names) == 3
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


async def test_an_explicit_name_is_kept(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("own", namespace, metadata={"generateName": "gen-"}))
    assert made["metadata"]["name"] == "own"


async def test_a_long_generate_name_is_truncated(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("", namespace, metadata={"generateName": "g" * 70}))
    name = made["metadata"]["name"]
    assert len(name) == 63
    assert name.startswith("g" * 58)


# --- bodies --------------------------------------------------------------------------------------------

BODIES: list[tuple[str, Resource[Object], Object, type[ClusterError]]] = [
    ("another kind", CONFIG_MAPS, {"kind": "Secret"}, BadRequestError),
    ("another version", CONFIG_MAPS, {"apiVersion": "v2"}, BadRequestError),
    ("another group", resource_of("TYJob"), {"apiVersion": "example.com/v1"}, BadRequestError),
    ("a number for a string", CONFIG_MAPS, {"data": {"a": 5}}, BadRequestError),
    ("a string for a map", CONFIG_MAPS, {"data": "a"}, BadRequestError),
    ("a string for a number", PODS, {"spec": {"priority": "high"}}, BadRequestError),
    ("a list for an object", PODS, {"spec": []}, BadRequestError),
    ("an invalid time", PODS, {"metadata": {"name": "a", "creationTimestamp": "soon"}}, BadRequestError),
    ("an invalid MicroTime", LEASES, {"spec": {"renewTime": "soon"}}, BadRequestError),
    (
        "a MicroTime in month 13",
        LEASES,
        {"spec": {"renewTime": "2026-13-01T00:00:00.000000Z"}},
        BadRequestError,
    ),
    (
        "a MicroTime without a fraction",
        LEASES,
        {"spec": {"renewTime": "2026-01-01T00:00:00Z"}},
        BadRequestError,
    ),
    (
        "a time without a zone",
        JOBS,
        {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00"}},
        BadRequestError,
    ),
    (
        "a date without a time",
        PODS,
        {"metadata": {"name": "a", "creationTimestamp": "2026-01-01"}},
        BadRequestError,
    ),
    ("secrets that are not in base64", SECRETS, {"data": {"a": "?"}}, BadRequestError),
]


@cases("resource, fields, error", BODIES)
async def test_an_undecodable_body_is_refused(
    cluster: Cluster, namespace: str, resource: Resource[Object], fields: Object, error: type[ClusterError]
) -> None:
    body = {**make(resource, "a", namespace), **fields}
    with pytest.raises(error):
        await cluster.create(resource, body)
    assert not await exists(cluster, resource, "a", namespace)


@pytest.mark.parametrize("missing", ["kind", "apiVersion"])
@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_api_version_and_kind_are_optional(
    cluster: Cluster, namespace: str, resource: Resource[Object], missing: str
) -> None:
    body = make(resource, "a", namespace)
    del body[missing]
    assert (await cluster.create(resource, body))["kind"] == resource.kind


SPECS: list[tuple[str, Resource[Object], Object, str]] = [
    ("a pod without containers", PODS, {"spec": {"containers": []}}, "spec.containers"),
    (
        "a container without a name",
        PODS,
        {"spec": {"containers": [{"image": "a"}]}},
        "spec.containers[0].name",
    ),
    (
        "a container without an image",
        PODS,
        {"spec": {"containers": [{"name": "a"}]}},
        "spec.containers[0].image",
    ),
    (
        "a container name in upper case",
        PODS,
        {"spec": {"containers": [{**CONTAINER, "name": "A"}]}},
        "spec.containers[0].name",
    ),
    (
        "duplicate container names",
        PODS,
        {"spec": {"containers": [CONTAINER, CONTAINER]}},
        "spec.containers[1].name",
    ),
    (
        "a negative request",
        PODS,
        {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "-1"}}}]}},
        "spec.containers[0].resources.requests",
    ),
    (
        "more than the limit",
        PODS,
        {
            "spec": {
                "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]
            }
        },
        "spec.containers[0].resources.requests",
    ),
    (
        "an unknown restart policy",
        PODS,
        {"spec": {"containers": [CONTAINER], "restartPolicy": "Maybe"}},
        "spec.restartPolicy",
    ),
    (
        "a port above 65535",
        SERVICES,
        {"spec": {"clusterIP": "None", "ports": [{"port": 70000}]}},
        "spec.ports[0].port",
    ),
    (
        "a hostname in upper case",
        PODS,
        {"spec": {"containers": [CONTAINER], "hostname": "A"}},
        "spec.hostname",
    ),
    (
        "a deadline of 0",
        PODS,
        {"spec": {"containers": [CONTAINER], "activeDeadlineSeconds": 0}},
        "spec.activeDeadlineSeconds",
    ),
    (
        "a duplicate taint",
        NODES,
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
        "metadata.taints[1]",
    ),
    ("a key with a slash", CONFIG_MAPS, {"data": {"a/b": "c"}}, "data[a/b]"),
    (
        "a secret for TLS without its key",
        SECRETS,
        {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}},
        "data[tls.key]",
    ),
    ("a secret for SSH without its key", SECRETS, {"type": "kubernetes.io/ssh-auth"}, "data[ssh-privatekey]"),
    ("basic auth without user and password", SECRETS, {"type": "kubernetes.io/basic-auth"}, "data[password]"),
    (
        "registry credentials without data",
        SECRETS,
        {"type": "kubernetes.io/dockerconfigjson"},
        "data[.dockerconfigjson]",
    ),
    (
        "legacy registry credentials without data",
        SECRETS,
        {"type": "kubernetes.io/dockercfg"},
        "data[.dockercfg]",
    ),
    (
        "tolerationSeconds without NoExecute",
        PODS,
        {
            "spec": {
                "containers": [CONTAINER],
                "tolerations": [
                    {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
                ],
            }
        },
        "spec.tolerations[0].effect",
    ),
    ("the key ..", CONFIG_MAPS, {"data": {"..": "c"}}, "data[..]"),
    (
        "a budget with minAvailable and maxUnavailable",
        BUDGETS,
        {"spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}},
        "spec",
    ),
    (
        "a lease with duration 0",
        LEASES,
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 0}},
        "spec.leaseDurationSeconds",
    ),
    (
        "a job with restart policy Always",
        JOBS,
        {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Always"}}}},
        "spec.template.spec.restartPolicy",
    ),
    (
        "a job with a negative back-off limit",
        JOBS,
        {
            "spec": {
                "backoffLimit": -1,
                "template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}},
            }
        },
        "spec.backoffLimit",
    ),
    ("a job without a template", resource_of("TYJob"), {"spec": {}}, "spec"),
    (
        "a worker set with count 0",
        resource_of("TYJob"),
        {"spec": {"leader": {}, "workerSets": [{"counts": 0}]}},
        "spec",
    ),
    (
        "maxReplicas below minReplicas",
        resource_of("DIJob"),
        {"spec": {"minReplicas": 5, "maxReplicas": 1, "template": {}}},
        "spec",
    ),
    (
        "max-instance below min-instance",
        resource_of("TrainingJob"),
        {"spec": {"trainer": {"min-instance": 5, "max-instance": 1}}},
        "spec",
    ),
]


@cases("resource, fields, path", SPECS)
async def test_an_invalid_object_is_refused_with_the_field(
    cluster: Cluster, namespace: str, resource: Resource[Object], fields: Object, path: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        await cluster.create(resource, {**make(resource, "a", namespace), **fields})
    assert any(cause.path.startswith(path) for cause in refused.value.causes)
    assert f'"{"a"}" is invalid' in refused.value.message
    assert not await exists(cluster, resource, "a", namespace)


async def test_all_errors_are_reported_at_once(cluster: Cluster, namespace: str) -> None:
    containers = [{"name": "A", "image": "x"}, {"name": "b", "image": ""}]
    body = pod("a", namespace, labels={"x y": "z"}, containers=containers)
    with pytest.raises(InvalidError) as refused:
        await cluster.create(PODS, body)
    paths = [cause.path for cause in refused.value.causes]
    for path in ("metadata.labels", "spec.containers[0].name", "spec.containers[1].image"):
        assert any(found.startswith(path) for found in paths)


async def test_a_service_has_an_address(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(
        SERVICES, {**make(SERVICES, "a", namespace), "spec": {"ports": [{"port": 80}]}}
    )
    assert made["spec"]["clusterIP"].startswith("10.")


# --- size ----------------------------------------------------------------------------------------------


async def test_a_large_object_is_stored(cluster: Cluster, namespace: str) -> None:
    large = {"a": "x" * 1_000_000}
    assert (await cluster.create(CONFIG_MAPS, config_map("a", namespace, data=large)))["data"] == large
    assert (await cluster.get(CONFIG_MAPS, "a", namespace))["data"] == large


@pytest.mark.parametrize("size", [1_100_000, 4_000_000], ids=["a little", "by far"])
async def test_an_object_that_is_too_large_is_refused(cluster: Cluster, namespace: str, size: int) -> None:
    with pytest.raises((TooLargeError, InvalidError)):
        await cluster.create(CONFIG_MAPS, config_map("a", namespace, data={"a": "x" * size}))
    assert not await exists(cluster, CONFIG_MAPS, "a", namespace)


# --- names that lead elsewhere -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b", "..", "a?b", "a%2fb", "a b", "ä", "a#b"])
@kinds(CONFIG_MAPS, NODES, resource_of("Pool"))
async def test_an_invalid_name_is_not_found(
    cluster: Cluster, namespace: str, resource: Resource[Object], name: str
) -> None:
    there = namespace if resource.namespaced else ""
    with pytest.raises((NotFoundError, BadRequestError)):
        await cluster.get(resource, name, there)
    with pytest.raises((NotFoundError, BadRequestError)):
        await cluster.delete(resource, name, there)
