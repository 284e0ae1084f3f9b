"""Random strategic merge patches change a pod template as a real API server does.

A PodTemplate has every list of a pod, and all its fields can be changed. The patch is sent to the API server;
the object that Shoal's patch function returns is sent as an update. Both are dry runs, and both must give the
same object, or both must fail.
"""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.cluster.errors import ClusterError
from shoal.cluster.patches.strategic import apply_strategic_patch
from shoal.cluster.schemas import core
from tests.k8s.access import Client
from tests.k8s.controlplane import ControlPlane

SCHEMA = {"properties": {"template": core.schemas()["io.k8s.api.core.v1.PodTemplateSpec"]}}
ORDER = "$setElementOrder/containers"
NAMES = st.sampled_from(["a", "b", "c", "d"])


def without_new_directives(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove directives in new containers: an API server stores them as fields, and Shoal drops them."""
    replaced = any(container.get("$patch") == "replace" for container in containers)
    return [
        {name: _without_directives(value) for name, value in container.items()}
        if replaced or container["name"] == "d"
        else container
        for container in containers
    ]


def without_replace_in_order(spec: dict[str, Any]) -> dict[str, Any]:
    """Remove replace directives from ordered lists: an API server may fail on one that follows the order."""
    if "containers" not in spec or ORDER not in spec:
        return spec
    return spec | {
        "containers": [member for member in spec["containers"] if member.get("$patch") != "replace"]
    }


def _without_directives(value: Any) -> Any:  # noqa: ANN401 - any JSON
    return [member for member in value if "$patch" not in member] if isinstance(value, list) else value


def member_lists(
    key: str, keys: st.SearchStrategy[Any], **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Lists whose members have unique keys, some with a directive."""
    plain = st.fixed_dictionaries({key: keys}, optional=fields)
    deleted = st.fixed_dictionaries({key: keys, "$patch": st.just("delete")})
    replaced = st.fixed_dictionaries({key: keys, "$patch": st.just("replace")})
    members = st.one_of(plain, plain, plain, deleted, replaced)
    return st.lists(members, max_size=3, unique_by=lambda member: member[key])


VALUES = st.sampled_from(["1", "2", None])
ENV = member_lists("name", NAMES.map(str.upper), value=VALUES)
PORTS = member_lists("containerPort", st.sampled_from([80, 81, 82]), name=NAMES)
MOUNTS = member_lists("mountPath", st.sampled_from(["/x", "/y", "/z"]), name=st.sampled_from(["v", "w"]))
LABELS = st.dictionaries(NAMES, VALUES, max_size=3) | st.just({"$patch": "delete"})
CONTAINERS = member_lists(
    "name", NAMES, image=st.sampled_from(["i", "j"]), env=ENV, ports=PORTS, volumeMounts=MOUNTS
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS.map(without_new_directives),
        "tolerations": st.lists(st.builds(lambda key: {"key": key, "operator": "Exists"}, NAMES), max_size=2),
        "imagePullSecrets": member_lists("name", NAMES),
        "hostAliases": member_lists(
            "ip", st.sampled_from(["1.1.1.1", "2.2.2.2"]), hostnames=st.lists(NAMES, max_size=2)
        ),
        "nodeSelector": LABELS,
        ORDER: st.permutations(["a", "b", "c", "d"]).map(lambda names: [{"name": name} for name in names]),
        "volumes": st.sampled_from(
            [
                [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/p"}}],
                [{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/p"}}],
                [{"name": "w", "$patch": "delete"}],
                [{"name": "u", "emptyDir": {}}],
            ]
        ),
    },
).map(without_replace_in_order)
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "spec": SPECS,
        "metadata": st.fixed_dictionaries({}, optional={"labels": LABELS, "annotations": LABELS}),
    },
)
START: dict[str, Any] = {
    "metadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "i",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "1"},
                    {"name": "C", "value": "1"},
                ],
                "ports": [{"containerPort": 80}, {"containerPort": 81}],
                "volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "w", "mountPath": "/y"}],
            },
            {"name": "b", "image": "i"},
            {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
        "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}],
        "nodeSelector": {"a": "1", "b": "1"},
    },
}


@pytest.fixture(scope="module")
def client(k8s: ControlPlane) -> Client:
    return k8s.client()


@pytest.fixture(scope="module")
def start(client: Client) -> tuple[str, dict[str, Any]]:
    namespace = client.create("/api/v1/namespaces", {"metadata": {"generateName": "patches-"}})
    templates = f"/api/v1/namespaces/{namespace['metadata']['name']}/podtemplates"
    created = client.create(templates, {"metadata": {"name": "a"}, "template": START})
    return f"{templates}/a?dryRun=All&fieldValidation=Ignore", created


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patch=TEMPLATES)
def test_a_patch_agrees_with_the_api_server(
    client: Client, start: tuple[str, dict[str, Any]], patch: dict[str, Any]
) -> None:
    path, before = start
    code, theirs = client.call(
        "PATCH", path, {"template": patch}, media="application/strategic-merge-patch+json"
    )
    try:
        ours = apply_strategic_patch(before, copy.deepcopy({"template": patch}), SCHEMA)
    except ClusterError:
        assert code >= 400
        return
    written, stored = client.call("PUT", path, ours)
    assert (written, stored.get("template")) == (code, theirs.get("template"))
