"""Strategic merge patches case by case; `test_strategic_agreement` compares them with a real API server."""

import copy
from typing import Any

import pytest

from shoal.cluster.errors import BadRequestError, ClusterError, InvalidError
from shoal.cluster.patches.json_patch import Json
from shoal.cluster.patches.strategic import apply_strategic_patch
from shoal.cluster.resources import NODES, PODS
from shoal.cluster.schemas import core

POD = core.schemas()[core.schema_name(PODS)]
NODE = core.schemas()[core.schema_name(NODES)]


def spec(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"spec": fields}


def meta(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"metadata": {name.replace("__", "/"): value for name, value in fields.items()}}


AB = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]

MERGED: dict[str, tuple[Json, Json, Json]] = {
    "an object is merged": (
        meta(labels={"a": "1"}),
        meta(labels={"b": "2"}),
        meta(labels={"a": "1", "b": "2"}),
    ),
    "null removes": (meta(labels={"a": "1", "b": "2"}), meta(labels={"a": None}), meta(labels={"b": "2"})),
    "null in a new object is dropped": (meta(), meta(labels={"a": None, "b": "1"}), meta(labels={"b": "1"})),
    "containers are merged by name": (
        spec(containers=AB),
        spec(containers=[{"name": "b", "image": "2"}]),
        spec(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
    ),
    "a new container precedes those that the patch does not mention": (
        spec(containers=AB),
        spec(containers=[{"name": "c"}]),
        spec(containers=[{"name": "c"}, *AB]),
    ),
    "an environment is merged within its container": (
        spec(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}]}]),
        spec(containers=[{"name": "a", "env": [{"name": "X", "value": "2"}]}]),
        spec(containers=[{"name": "a", "env": [{"name": "X", "value": "2"}]}]),
    ),
    "a member is deleted": (
        spec(containers=AB),
        spec(containers=[{"name": "a", "$patch": "delete"}]),
        spec(containers=AB[1:]),
    ),
    "deleting an absent member changes nothing": (
        spec(containers=AB),
        spec(containers=[{"name": "z", "$patch": "delete"}]),
        spec(containers=AB),
    ),
    "a list is replaced on request": (
        spec(containers=AB),
        spec(containers=[{"name": "a", "$patch": "replace"}, {"name": "c"}]),
        spec(containers=[{"name": "c"}]),
    ),
    "an object is replaced on request": (
        meta(labels={"a": "1"}),
        meta(labels={"$patch": "replace", "b": "2"}),
        meta(labels={"b": "2"}),
    ),
    "an object is emptied on request": (
        meta(labels={"a": "1"}),
        meta(labels={"$patch": "delete"}),
        meta(labels={}),
    ),
    "a directive does not create an absent object": (
        meta(),
        meta(labels={"$patch": "delete"}),
        meta(),
    ),
    "tolerations are replaced whole": (
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[{"key": "b"}]),
    ),
    "finalizers are a set": (
        meta(finalizers=["a", "b"]),
        meta(finalizers=["b", "c"]),
        meta(finalizers=["a", "b", "c"]),
    ),
    "values are removed from a set": (
        meta(finalizers=["a", "b"]),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
        meta(finalizers=["b"]),
    ),
    "values are removed from an absent set": (
        meta(),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        meta(),
    ),
    "an order is set": (
        spec(containers=AB),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        spec(containers=AB[::-1]),
    ),
    "an order is set with new members": (
        spec(containers=AB),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}],
            }
        },
        spec(containers=[AB[1], {"name": "c"}, AB[0]]),
    ),
    "members that are not in the order keep their positions": (
        spec(containers=[*AB, {"name": "c"}]),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        spec(containers=[AB[1], {"name": "c"}, AB[0]]),
    ),
    "an order of an absent list changes nothing": (
        spec(),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}]}},
        spec(),
    ),
    "an order of a set": (
        meta(finalizers=["a", "b"]),
        {"metadata": {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}},
        meta(finalizers=["c", "a", "b"]),
    ),
    "a volume changes its type with $retainKeys": (
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    "directives in a new object are dropped": (
        spec(),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
    ),
    "a list replaces an object": (spec(volumes={}), spec(volumes=[]), spec(volumes=[])),
    "an unknown field is merged like an object": (
        spec(unknown={"a": [1]}),
        spec(unknown={"a": [2], "b": 1}),
        spec(unknown={"a": [2], "b": 1}),
    ),
}

INVALID: dict[str, tuple[Json, type[ClusterError], str]] = {
    "a list is not a patch": ([], BadRequestError, "is an object"),
    "a member without its key": (spec(containers=[{"image": "1"}]), InvalidError, "has no name"),
    "a member that is not an object": (spec(containers=["a"]), InvalidError, "must be objects"),
    "an unknown directive": ({"$patch": "merge"}, InvalidError, "$patch: merge"),
    "an unknown directive in a member": (
        spec(containers=[{"name": "a", "$patch": "merge"}]),
        InvalidError,
        "$patch: merge",
    ),
    "an order without a field": (
        {"$setElementOrder": []},
        BadRequestError,
        "$setElementOrder must name a field",
    ),
    "an order that is not a list": (
        {"$setElementOrder/a": 1},
        BadRequestError,
        "must name a field and be a list",
    ),
    "deletions that are not a list": ({"$deleteFromPrimitiveList/a": 1}, BadRequestError, "be a list"),
    "retained keys that are not a list": ({"$retainKeys": 1}, BadRequestError, "$retainKeys must be a list"),
    "retained keys that lack a field": ({"$retainKeys": ["a"], "b": 1}, BadRequestError, "lacks b"),
    "an order that contradicts the patch": (
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
        InvalidError,
        "the order of a list",
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_strategic_patch(name: str) -> None:
    target, patch, expected = MERGED[name]
    before = copy.deepcopy((target, patch))
    assert apply_strategic_patch(target, patch, POD) == expected
    assert (target, patch) == before, "the arguments are not modified"


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_patch(name: str) -> None:
    patch, error, message = INVALID[name]
    with pytest.raises(error) as caught:
        apply_strategic_patch(spec(containers=AB), patch, POD)
    assert message in caught.value.message


def test_taints_are_replaced() -> None:
    before = spec(taints=[{"key": "a", "effect": "NoSchedule"}])
    after = spec(taints=[{"key": "b", "effect": "NoExecute"}])
    assert apply_strategic_patch(before, after, NODE) == after
