"""Strategic merge patches, case by case; `test_strategic_agreement` holds them to a real API server."""

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


def spec(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    return {"spec": fields}


def meta(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    return {"metadata": {name.replace("__", "/"): value for name, value in fields.items()}}


AB = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]

MERGED: dict[str, tuple[Json, Json, Json]] = {
    "an object is merged": (
        meta(labels={"a": "1"}),
        meta(labels={"b": "2"}),
        meta(labels={"a": "1", "b": "2"}),
    ),
    "null removes": (meta(labels={"a": "1", "b": "2"}), meta(labels={"a": None}), meta(labels={"b": "2"})),
    "null in something new is nothing": (meta(), meta(labels={"a": None, "b": "1"}), meta(labels={"b": "1"})),
    "containers are merged by name": (
        spec(containers=AB),
        spec(containers=[{"name": "b", "image": "2"}]),
        spec(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
    ),
    "a new container comes before those that the patch does not know": (
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
    "deleting a member that is not there does nothing": (
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
    "an object that is not there is not made by a directive": (
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
    "values are taken out of a set": (
        meta(finalizers=["a", "b"]),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
        meta(finalizers=["b"]),
    ),
    "values are taken out of nothing": (
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
    "members that an order does not know keep their places": (
        spec(containers=[*AB, {"name": "c"}]),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        spec(containers=[AB[1], {"name": "c"}, AB[0]]),
    ),
    "an order of a list that is not there is nothing": (
        spec(),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}]}},
        spec(),
    ),
    "an order of a set": (
        meta(finalizers=["a", "b"]),
        {"metadata": {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}},
        meta(finalizers=["c", "a", "b"]),
    ),
    "a volume changes its sort with the keys that it retains": (
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    "directives of something new are dropped": (
        spec(),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
    ),
    "a list in the place of an object replaces it": (spec(volumes={}), spec(volumes=[]), spec(volumes=[])),
    "a field that nobody knows is merged like an object": (
        spec(unheard={"a": [1]}),
        spec(unheard={"a": [2], "b": 1}),
        spec(unheard={"a": [2], "b": 1}),
    ),
}

REFUSED: dict[str, tuple[Json, type[ClusterError], str]] = {
    "a list is no patch": ([], BadRequestError, "is an object"),
    "a member without its key": (spec(containers=[{"image": "1"}]), InvalidError, "has no name"),
    "a member that is no object": (spec(containers=["a"]), InvalidError, "must be objects"),
    "a directive that is none": ({"$patch": "merge"}, InvalidError, "$patch: merge"),
    "a directive for members that is none": (
        spec(containers=[{"name": "a", "$patch": "merge"}]),
        InvalidError,
        "$patch: merge",
    ),
    "an order of no field": ({"$setElementOrder": []}, BadRequestError, "$setElementOrder must name a field"),
    "an order that is no list": (
        {"$setElementOrder/a": 1},
        BadRequestError,
        "must name a field and be a list",
    ),
    "deletions that are no list": ({"$deleteFromPrimitiveList/a": 1}, BadRequestError, "be a list"),
    "keys that are no list": ({"$retainKeys": 1}, BadRequestError, "$retainKeys must be a list"),
    "keys that lack one": ({"$retainKeys": ["a"], "b": 1}, BadRequestError, "lacks b"),
    "an order that is not the patch's": (
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
        InvalidError,
        "the order of a list",
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_the_patch_gives(name: str) -> None:
    target, patch, expected = MERGED[name]
    before = copy.deepcopy((target, patch))
    assert apply_strategic_patch(target, patch, POD) == expected
    assert (target, patch) == before, "what is given is left alone"


@pytest.mark.parametrize("name", REFUSED)
def test_the_patch_is_refused(name: str) -> None:
    patch, error, message = REFUSED[name]
    with pytest.raises(error) as refused:
        apply_strategic_patch(spec(containers=AB), patch, POD)
    assert message in refused.value.message


def test_taints_are_replaced_whole() -> None:
    before = spec(taints=[{"key": "a", "effect": "NoSchedule"}])
    after = spec(taints=[{"key": "b", "effect": "NoExecute"}])
    assert apply_strategic_patch(before, after, NODE) == after
