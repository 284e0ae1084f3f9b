"""Create, update and status of objects, and their refusals."""

import pytest

from shoal.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InternalError,
    InvalidError,
    NotFoundError,
    TooLargeError,
)
from shoal.cluster.port import Deletion
from shoal.cluster.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
    resource_of,
)
from tests.apiserver.registry.objects import as_port, config_map, names, opened, pod

ALWAYS = ["default", "kube-node-lease", "kube-public", "kube-system"]
SERVICE: Object = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}


async def test_a_new_cluster_has_the_built_in_objects() -> None:
    async with opened() as registry:
        assert await names(as_port(registry), NAMESPACES) == ALWAYS
        classes = (await registry.list(PRIORITY_CLASSES)).items
        assert {obj["metadata"]["name"]: obj["value"] for obj in classes} == {
            "system-cluster-critical": 2_000_000_000,
            "system-node-critical": 2_000_001_000,
        }


async def test_a_new_object_gets_server_set_metadata() -> None:
    async with opened() as registry:
        made = await registry.create(PODS, pod(uid="mine", creationTimestamp="2020-01-01T00:00:00Z"))
        metadata = made["metadata"]
        assert metadata["uid"] != "mine"
        assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
        assert (metadata["namespace"], metadata["generation"]) == ("default", 1)
        assert metadata["resourceVersion"] == registry.version
        assert await registry.get(PODS, "a") == made


REFUSED_CREATIONS: dict[str, tuple[Resource[Object], Object, type[Exception], str]] = {
    "the name exists": (CONFIG_MAPS, config_map("there"), AlreadyExistsError, 'configmaps "there" already'),
    "a namespace that does not exist": (
        PODS,
        pod(namespace="no"),
        NotFoundError,
        'namespaces "no" not found',
    ),
    "no name": (PODS, pod(""), InvalidError, "name or generateName is required"),
    "a name in upper case": (PODS, pod("A"), InvalidError, "metadata.name"),
    "a name that is not a string": (CONFIG_MAPS, {"metadata": {"name": 1}}, BadRequestError, "metadata.name"),
    "invalid labels": (PODS, pod(labels={"a": 1}), BadRequestError, "metadata.labels.a"),
    "an annotation with a space": (PODS, pod(annotations={"a b": "c"}), InvalidError, "metadata.annotations"),
    "a finalizer without a domain": (PODS, pod(finalizers=["a"]), InvalidError, "metadata.finalizers[0]"),
    "an incomplete owner reference": (
        PODS,
        pod(ownerReferences=[{"kind": "A", "name": "b"}]),
        InvalidError,
        "uid",
    ),
    "a resourceVersion": (PODS, pod(resourceVersion="1"), InternalError, "resourceVersion should not be set"),
    "another kind": (PODS, pod() | {"kind": "Node"}, BadRequestError, "kind must be Pod for pods"),
    "metadata that is not an object": (PODS, {"metadata": []}, BadRequestError, "metadata"),
    "not JSON": (PODS, {"metadata": {"name": 1j}}, BadRequestError, "not JSON"),
    "a namespace name that is not a DNS label": (
        NAMESPACES,
        {"metadata": {"name": "a.b"}},
        InvalidError,
        "DNS label",
    ),
    "a service with a clusterIP": (
        SERVICES,
        {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}},
        InvalidError,
        "spec.clusterIP",
    ),
    "a service without a spec": (SERVICES, {"metadata": {"name": "s"}}, InvalidError, "spec"),
    "a secret that is not base64": (
        SECRETS,
        {"metadata": {"name": "s"}, "data": {"a": "?"}},
        InvalidError,
        "data.a",
    ),
    "too much data": (
        CONFIG_MAPS,
        config_map(data={"a": "x" * 1_100_000}),
        InvalidError,
        "Too long",
    ),
    "too large an object": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x", "args": ["x" * 1_600_000]}]}),
        TooLargeError,
        "limit",
    ),
    "an unknown priority class": (
        PODS,
        pod(spec={"priorityClassName": "no"}),
        ForbiddenError,
        "PriorityClass",
    ),
    "a priority in the pod spec": (PODS, pod(spec={"priority": 7}), ForbiddenError, "must not be provided"),
    "a reserved PriorityClass name": (
        PRIORITY_CLASSES,
        {"metadata": {"name": "system-mine"}, "value": 1},
        InvalidError,
        "system-",
    ),
}


@pytest.mark.parametrize("case", REFUSED_CREATIONS)
async def test_invalid_objects_are_refused(case: str) -> None:
    resource, body, error, text = REFUSED_CREATIONS[case]
    async with opened() as registry:
        await registry.create(CONFIG_MAPS, config_map("there"))
        version = registry.version
        with pytest.raises(error) as caught:
            await registry.create(resource, body)
        assert text in str(caught.value)
        assert registry.version == version


async def test_names_are_generated() -> None:
    async with opened() as registry:
        made = [await registry.create(PODS, pod("", generateName="run-")) for _ in range(20)]
        found = {obj["metadata"]["name"] for obj in made}
        assert len(found) == 20
        assert all(name.startswith("run-") and len(name) == 9 for name in found)


async def test_a_dry_run_returns_the_result_and_stores_nothing() -> None:
    async with opened() as registry:
        version = registry.version
        made = await registry.create(PODS, pod(), dry_run=True)
        assert made["metadata"]["uid"]
        with pytest.raises(NotFoundError):
            await registry.get(PODS, "a")
        assert registry.version == version
        await registry.create(PODS, pod())
        assert await registry.delete(PODS, "a", deletion=Deletion(dry_run=True)) is None
        assert await names(as_port(registry), PODS) == ["a"]


# --- updates -----------------------------------------------------------------------------------------------


async def test_an_update_replaces_all_but_server_set_fields() -> None:
    async with opened() as registry:
        made = await registry.create(CONFIG_MAPS, config_map(labels={"a": "b"}))
        with pytest.raises(ConflictError, match="UID in precondition: other"):
            await registry.update(CONFIG_MAPS, config_map(uid="other"))
        new = await registry.update(
            CONFIG_MAPS, config_map(data={"x": "y"}, creationTimestamp="2020-01-01T00:00:00Z")
        )
        assert new["data"] == {"x": "y"}
        assert "labels" not in new["metadata"]
        for field in ("uid", "creationTimestamp"):
            assert new["metadata"][field] == made["metadata"][field]


async def test_an_unchanged_update_keeps_the_version() -> None:
    async with opened() as registry:
        made = await registry.create(PODS, pod())
        assert await registry.update(PODS, made) == made
        assert await registry.patch(PODS, "a", patch={"metadata": {"labels": {}}}) == made
        assert registry.version == made["metadata"]["resourceVersion"]


def nested(levels: int) -> Object:
    obj: Object = {}
    for _ in range(levels):
        obj = {"a": obj}
    return obj


REFUSED_CHANGES: dict[str, tuple[Object, type[Exception], str]] = {
    "another resourceVersion": ({"metadata": {"resourceVersion": "1"}}, ConflictError, "has been modified"),
    "another uid": ({"metadata": {"uid": "x"}}, InvalidError, "metadata.uid"),
    "a deletionTimestamp": (
        {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
        InvalidError,
        "metadata.deletionTimestamp",
    ),
    "another name": ({"metadata": {"name": "x"}}, BadRequestError, "does not match"),
    "another namespace": ({"metadata": {"namespace": "kube-system"}}, BadRequestError, "does not match"),
    "another node": ({"spec": {"nodeName": "n"}}, InvalidError, "pod updates may not change"),
    "another container": ({"spec": {"containers": []}}, InvalidError, "spec.containers"),
    "no spec": ({"spec": None}, InvalidError, "spec"),
    "a later deadline": ({"spec": {"activeDeadlineSeconds": 20}}, InvalidError, "less than or equal"),
    "no deadline": ({"spec": {"activeDeadlineSeconds": None}}, InvalidError, "activeDeadlineSeconds"),
    "an additional scheduling gate": (
        {"spec": {"schedulingGates": [{"name": "b"}]}},
        InvalidError,
        "schedulingGates",
    ),
    "a spec that is nested too deeply": ({"spec": nested(2000)}, InvalidError, "nested too deeply"),
}


@pytest.mark.parametrize("case", REFUSED_CHANGES)
async def test_forbidden_changes_are_refused(case: str) -> None:
    patch, error, text = REFUSED_CHANGES[case]
    async with opened() as registry:
        made = await registry.create(PODS, pod(spec={"activeDeadlineSeconds": 10}))
        with pytest.raises(error) as caught:
            await registry.patch(PODS, "a", patch=patch)
        assert text in str(caught.value)
        assert await registry.get(PODS, "a") == made


@pytest.mark.parametrize("namespace", [["default"], {"a": 1}, 5])
async def test_an_update_without_a_name_is_refused(namespace: object) -> None:
    async with opened() as registry:
        await registry.create(PODS, pod())
        with pytest.raises(BadRequestError, match=r"metadata\.namespace"):
            await registry.update(PODS, pod(namespace=namespace))


ALLOWED_CHANGES: dict[str, Object] = {
    "an image": {"spec": {"containers": [pod()["spec"]["containers"][0] | {"image": "other:1"}]}},
    "an earlier deadline": {"spec": {"activeDeadlineSeconds": 5}},
    "one more toleration": {"spec": {"tolerations": [{"operator": "Exists"}]}},
    "fewer gates": {"spec": {"schedulingGates": []}},
    "another node selector while gated": {"spec": {"nodeSelector": {"a": "b"}}},
}


@pytest.mark.parametrize("case", ALLOWED_CHANGES)
async def test_mutable_fields_of_a_pod_increment_its_generation(case: str) -> None:
    async with opened() as registry:
        body = pod(spec={"activeDeadlineSeconds": 10, "schedulingGates": [{"name": "a"}]})
        container = body["spec"]["containers"][0] | {"imagePullPolicy": "Always"}
        body["spec"]["containers"] = [container]
        await registry.create(PODS, body)
        patch = ALLOWED_CHANGES[case]
        if "containers" in patch["spec"]:
            patch = {"spec": {"containers": [container | {"image": "other:1"}]}}
        changed = await registry.patch(PODS, "a", patch=patch)
        assert changed["metadata"]["generation"] == 2


async def test_status_subresource() -> None:
    async with opened() as registry:
        made = await registry.create(
            resource_of("Pool"), {"metadata": {"name": "p"}, "spec": {}, "status": {"nodes": 1}}
        )
        assert "status" not in made
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"disableSharing": True}, "status": {"nodes": 2}}
        of_status = await registry.patch_status(resource_of("Pool"), "p", patch=patch)
        assert (of_status["status"], of_status["spec"]) == ({"nodes": 2}, made["spec"])
        assert "labels" not in of_status["metadata"]
        of_spec = await registry.patch(resource_of("Pool"), "p", patch=patch | {"status": {"nodes": 3}})
        assert (of_spec["status"], of_spec["spec"]["disableSharing"]) == ({"nodes": 2}, True)
        assert [obj["metadata"]["generation"] for obj in (made, of_status, of_spec)] == [1, 1, 2]
        replaced = await registry.update(resource_of("Pool"), of_spec | {"status": {"nodes": 9}}, status=True)
        assert replaced["status"] == {"nodes": 9}


async def test_conditional_updates_and_create_on_update() -> None:
    async with opened() as registry:
        lease: Object = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
        made = await registry.update(LEASES, lease)
        with pytest.raises(InvalidError, match=r"metadata.resourceVersion: must be specified"):
            await registry.update(LEASES, lease | {"spec": {}})
        made["spec"]["holderIdentity"] = "b"
        assert (await registry.update(LEASES, made))["spec"] == {"holderIdentity": "b"}
        with pytest.raises(NotFoundError):
            await registry.update(PODS, pod())
        assert (await registry.update(SERVICES, SERVICE))["spec"]["clusterIPs"] == ["None"]
