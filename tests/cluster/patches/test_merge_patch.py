"""Merge patches: the examples of RFC 7396, and properties of every patch."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.patches.json_patch import Json, apply_merge_patch

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)

CASES: dict[str, tuple[Json, Json, Json]] = {
    "a value replaces a value": ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    "a new name is added": ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    "null removes": ({"a": "b"}, {"a": None}, {}),
    "null leaves the others": ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    "a value replaces a list": ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    "a list replaces a value": ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    "objects are merged": ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    "lists are not": ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    "a list replaces the whole": (["a", "b"], ["c", "d"], ["c", "d"]),
    "a list replaces an object": ({"a": "b"}, ["c"], ["c"]),
    "null replaces the whole": ({"a": "foo"}, None, None),
    "a string replaces the whole": ({"a": "foo"}, "bar", "bar"),
    "an existing null stays": ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    "an object replaces a list": ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    "nulls in a new object are dropped": ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    "nulls in lists stay": ({}, {"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}),
}


@pytest.mark.parametrize("name", CASES)
def test_merge_patch(name: str) -> None:
    target, patch, expected = CASES[name]
    assert apply_merge_patch(target, patch) == expected


@given(DOCUMENTS, DOCUMENTS)
def test_the_arguments_are_not_modified(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    apply_merge_patch(target, patch)
    assert (target, patch) == before


@given(DOCUMENTS, DOCUMENTS)
def test_the_same_patch_again_changes_nothing(target: Json, patch: Json) -> None:
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once
