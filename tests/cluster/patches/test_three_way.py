"""Three-way merges: what is said is made so, what is no longer said goes, what others wrote stays."""

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
    "what is new is added": ({}, {"a": 1}, {}, {"a": 1}),
    "what others wrote stays": ({}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "what is no longer said goes": ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1}),
    "also deep down": ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
    "what somebody changed is changed back": ({"a": 1}, {"a": 1}, {"a": 5}, {"a": 1}),
    "null takes away": ({}, {"a": None}, {"a": 1}, {}),
    "a list without keys is replaced": ({"a": [1]}, {"a": [2]}, {"a": [1, 3]}, {"a": [2]}),
}


@pytest.mark.parametrize("before, now, there, wanted", CASES.values(), ids=CASES)
def test_of_a_kind_that_nothing_is_known_of(before: Json, now: Json, there: Json, wanted: Json) -> None:
    assert apply_three_way(before, now, there, {}) == wanted


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
    "a container that is no longer said goes": (
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


@pytest.mark.parametrize("before, now, there, wanted", PODS_CASES.values(), ids=PODS_CASES)
def test_of_pods(before: Json, now: Json, there: Json, wanted: Json) -> None:
    assert apply_three_way(before, now, there, POD) == wanted


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


@given(before=objects, now=objects, there=objects)
def test_to_apply_twice_is_to_apply_once(before: Json, now: Json, there: Json) -> None:
    once = apply_three_way(before, now, there, {})
    assert apply_three_way(now, now, once, {}) == once


@given(before=objects, now=objects)
def test_what_nobody_else_wrote_to_is_as_it_is_said(before: Json, now: Json) -> None:
    assert apply_three_way(before, now, before, {}) == without_nulls(now)
