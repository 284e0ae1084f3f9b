"""Three-way merges: wanted fields are set, fields that are no longer wanted are removed, others stay."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.patches.strategic import apply_three_way
from shoal.cluster.resources import PODS
from shoal.cluster.schemas.core import schema_name, schemas

POD = schemas()[schema_name(PODS)]
Json = Any

CASES: dict[str, tuple[Json, Json, Json, Json]] = {
    "a new field is added": ({}, {"a": 1}, {}, {"a": 1}),
    "fields of others stay": ({}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "a field that is no longer wanted is removed": ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1}),
    "also in nested objects": ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
    "a field that was changed by others is restored": ({"a": 1}, {"a": 1}, {"a": 5}, {"a": 1}),
    "null removes": ({}, {"a": None}, {"a": 1}, {}),
    "a list without keys is replaced": ({"a": [1]}, {"a": [2]}, {"a": [1, 3]}, {"a": [2]}),
}


@pytest.mark.parametrize("last, wanted, live, expected", CASES.values(), ids=CASES)
def test_without_a_schema(last: Json, wanted: Json, live: Json, expected: Json) -> None:
    assert apply_three_way(last, wanted, live, {}) == expected


def pod(*containers: Json, **more: Json) -> Json:
    return {"spec": {"containers": list(containers), **more}}


PODS_CASES: dict[str, tuple[Json, Json, Json, Json]] = {
    "a container keeps what the server added": (
        pod({"name": "c", "image": "1"}),
        pod({"name": "c", "image": "2"}),
        pod({"name": "c", "image": "1", "terminationMessagePath": "/dev"}),
        pod({"name": "c", "image": "2", "terminationMessagePath": "/dev"}),
    ),
    "a container that others added stays": (
        pod({"name": "c"}),
        pod({"name": "c"}),
        pod({"name": "sidecar"}, {"name": "c"}),
        pod({"name": "c"}, {"name": "sidecar"}),
    ),
    "a container that is no longer wanted is removed": (
        pod({"name": "c"}, {"name": "d"}),
        pod({"name": "c"}),
        pod({"name": "c"}, {"name": "d"}, {"name": "sidecar"}),
        pod({"name": "c"}, {"name": "sidecar"}),
    ),
    "finalizers are a set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b", "x", "a"]}},
        {"metadata": {"finalizers": ["a", "x"]}},
    ),
}


@pytest.mark.parametrize("last, wanted, live, expected", PODS_CASES.values(), ids=PODS_CASES)
def test_pods(last: Json, wanted: Json, live: Json, expected: Json) -> None:
    assert apply_three_way(last, wanted, live, POD) == expected


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
objects = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        scalars, lambda inner: st.dictionaries(st.sampled_from("abc"), inner) | st.lists(inner, max_size=3)
    ),
)


def without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


@given(last=objects, wanted=objects, live=objects)
def test_applying_twice_changes_nothing(last: Json, wanted: Json, live: Json) -> None:
    once = apply_three_way(last, wanted, live, {})
    assert apply_three_way(wanted, wanted, once, {}) == once


@given(last=objects, wanted=objects)
def test_an_unchanged_live_object_becomes_the_wanted_one(last: Json, wanted: Json) -> None:
    assert apply_three_way(last, wanted, last, {}) == without_nulls(wanted)
