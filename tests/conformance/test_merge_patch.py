"""JSON merge patches (RFC 7396), and the validation of their result."""

import pytest

from shoal.cluster.errors import InvalidError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import CONFIG_MAPS, PODS, Object, Resource, resource_of
from tests.conformance.cases import cases
from tests.conformance.objects import CONTAINER, config_map, make, pod, uid_of

ANNOTATIONS = {"a": "1", "b": "2"}
DATA = {"x": "1", "y": "2"}

CASES: list[tuple[str, Object, Object]] = [
    ("an empty patch changes nothing", {}, {}),
    ("a present key is replaced", {"data": {"x": "9"}}, {"data": {"x": "9", "y": "2"}}),
    ("an absent key is added", {"data": {"z": "3"}}, {"data": {"x": "1", "y": "2", "z": "3"}}),
    ("null removes a key", {"data": {"x": None}}, {"data": {"y": "2"}}),
    ("null for an absent key changes nothing", {"data": {"z": None}}, {}),
    ("null removes a whole map", {"data": None}, {"data": None}),
    ("an empty map changes nothing", {"data": {}}, {}),
    (
        "maps are merged at every depth",
        {"metadata": {"annotations": {"a": "9"}}},
        {"annotations": {"a": "9", "b": "2"}},
    ),
    ("null removes an annotation", {"metadata": {"annotations": {"a": None}}}, {"annotations": {"b": "2"}}),
    ("null removes all annotations", {"metadata": {"annotations": None}}, {"annotations": None}),
    (
        "all together",
        {"metadata": {"annotations": {"a": None, "c": "3"}}, "data": {"x": None, "z": "3"}},
        {"annotations": {"b": "2", "c": "3"}, "data": {"y": "2", "z": "3"}},
    ),
    ("an empty value is a value", {"data": {"x": ""}}, {"data": {"x": "", "y": "2"}}),
    ("a new field beside the old", {"binaryData": {"q": "AAEC"}}, {"binaryData": {"q": "AAEC"}}),
    ("apiVersion and kind are allowed", {"apiVersion": "v1", "kind": "ConfigMap"}, {}),
]


@cases("patch, changed", CASES)
async def test_a_patch_of_a_map(cluster: Cluster, namespace: str, patch: Object, changed: Object) -> None:
    body = config_map("a", namespace, metadata={"annotations": ANNOTATIONS}, data=DATA)
    made = await cluster.create(CONFIG_MAPS, body)
    patched = await cluster.patch(CONFIG_MAPS, "a", namespace, patch=patch)
    expected = {"annotations": ANNOTATIONS, "data": DATA, "binaryData": None, **changed}
    assert patched["metadata"].get("annotations") == expected["annotations"]
    assert patched.get("data") == expected["data"]
    assert patched.get("binaryData") == expected["binaryData"]
    assert uid_of(patched) == uid_of(made)
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == patched


async def test_a_list_is_replaced_whole(cluster: Cluster, namespace: str) -> None:
    body = config_map("a", namespace, metadata={"finalizers": ["example.com/a", "example.com/b"]})
    await cluster.create(CONFIG_MAPS, body)
    patch = {"metadata": {"finalizers": ["example.com/c"]}}
    patched = await cluster.patch(CONFIG_MAPS, "a", namespace, patch=patch)
    assert patched["metadata"]["finalizers"] == ["example.com/c"]


@pytest.mark.parametrize("empty", [[], None], ids=["an empty list", "null"])
async def test_a_list_can_be_emptied(cluster: Cluster, namespace: str, empty: list[str] | None) -> None:
    body = config_map("a", namespace, metadata={"finalizers": ["example.com/a"]})
    await cluster.create(CONFIG_MAPS, body)
    patched = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"metadata": {"finalizers": empty}})
    assert not patched["metadata"].get("finalizers")


async def test_containers_are_a_list_like_any_other(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace, containers=[CONTAINER, {**CONTAINER, "name": "side"}]))
    patch = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    with pytest.raises(InvalidError) as refused:
        await cluster.patch(PODS, "a", namespace, patch=patch)
    assert "spec.containers" in [cause.path for cause in refused.value.causes]


BAD: list[tuple[str, Resource[Object], Object]] = [
    ("a number for a string", CONFIG_MAPS, {"data": {"x": 5}}),
    ("a string for a map", CONFIG_MAPS, {"data": "text"}),
    ("a list for a map", CONFIG_MAPS, {"metadata": {"labels": ["a"]}}),
    ("an invalid label key", CONFIG_MAPS, {"metadata": {"labels": {"a b": "c"}}}),
    ("another kind", CONFIG_MAPS, {"kind": "Secret"}),
    ("null for a required field", resource_of("TYJob"), {"spec": {"leader": None}}),
    (
        "a number for a string in a custom resource",
        resource_of("TYJob"),
        {"spec": {"leader": {"name": 5}}},
    ),
]


@cases("resource, patch", BAD)
async def test_a_patch_with_an_invalid_result_changes_nothing(
    cluster: Cluster, namespace: str, resource: Resource[Object], patch: Object
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    with pytest.raises(InvalidError):
        await cluster.patch(resource, "a", namespace, patch=patch)
    assert await cluster.get(resource, "a", namespace) == made
