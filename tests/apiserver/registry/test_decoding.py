"""Decoding by schema: unknown fields are removed, and values of a wrong type are reported."""

from typing import Any

import pytest

from shoal.apiserver.strategies.schemas import decode_object
from shoal.cluster.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, Object, Resource, resource_of

POD = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}

UNKNOWN: dict[str, tuple[Resource[Object], Object, list[str]]] = {
    "a pod of known fields": (PODS, POD, []),
    "a field at the top": (PODS, POD | {"nope": 1}, ["nope"]),
    "a field in metadata": (PODS, {"metadata": {"nope": 1, "labels": {"any": "key"}}}, ["metadata.nope"]),
    "a field in a list": (PODS, {"spec": {"containers": [{}, {"nope": {}}]}}, ["spec.containers[1].nope"]),
    "a key of a mapping is no field": (CONFIG_MAPS, {"data": {"nope": "x"}}, []),
    "a field deep in a template": (
        JOBS,
        {"spec": {"template": {"spec": {"volumes": [{"emptyDir": {"nope": 1}}]}}}},
        ["spec.template.spec.volumes[0].emptyDir.nope"],
    ),
    "a field of a Shoal kind": (resource_of("TYJob"), {"spec": {"nope": 1}}, ["spec.nope"]),
    "metadata of a Shoal kind": (resource_of("Pool"), {"metadata": {"nope": 1}}, ["metadata.nope"]),
    "pod templates of Shoal kinds keep every field": (
        resource_of("DIJob"),
        {"spec": {"template": {"spec": {"containers": [{"nope": 1}]}}}},
        [],
    ),
    "null is valid": (PODS, {"spec": None, "status": {"conditions": None}}, []),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_fields_are_removed(name: str) -> None:
    resource, body, paths = UNKNOWN[name]
    found = decode_object(resource, body)
    assert (list(found.unknown), found.wrong, found.errors) == (paths, (), ())
    again = decode_object(resource, found.value)
    assert (again.value, again.unknown) == (found.value, ())


NULLS: dict[str, tuple[Resource[Object], Object, Object]] = {
    "a field": (PODS, {"spec": None, "status": {"conditions": None}}, {"status": {}}),
    "a value of a map": (CONFIG_MAPS, {"data": {"a": None, "b": "c"}}, {"data": {"a": "", "b": "c"}}),
    "a label": (PODS, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}),
    "a label of a Shoal kind": (
        resource_of("Pool"),
        {"metadata": {"labels": {"a": None}, "nope": 1}},
        {"metadata": {"labels": {"a": ""}}},
    ),
    "fields of a Shoal kind": (
        resource_of("Pool"),
        {"spec": {"nodeSelector": {"matchLabels": {"a": None, "b": "c"}}, "disableSharing": None}},
        {"spec": {"nodeSelector": {"matchLabels": {"b": "c"}}, "disableSharing": False}},
    ),
}


@pytest.mark.parametrize("name", NULLS)
def test_null_is_the_same_as_absent_or_empty(name: str) -> None:
    resource, body, expected = NULLS[name]
    value = decode_object(resource, body).value
    assert {field: _only(value[field], inner) for field, inner in expected.items()} == expected
    assert set(value) <= {*expected, "spec"}


def _only(value: Any, expected: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Leave the defaults out of a value."""
    return {name: value[name] for name in expected} if isinstance(expected, dict) else value


WRONG: dict[str, tuple[Resource[Object], Object, str]] = {
    "a number for a string": (CONFIG_MAPS, {"data": {"a": 1}}, "data.a must be a string, not 1"),
    "a string for a number": (
        JOBS,
        {"spec": {"completions": "1"}},
        "spec.completions must be a whole number, not '1'",
    ),
    "true for a number": (
        JOBS,
        {"spec": {"completions": True}},
        "spec.completions must be a whole number, not true",
    ),
    "a number for a boolean": (JOBS, {"spec": {"suspend": 1}}, "spec.suspend must be true or false, not 1"),
    "an object for a list": (
        PODS,
        {"spec": {"containers": {}}},
        "spec.containers must be a list, not a mapping",
    ),
    "a list for an object": (PODS, {"spec": []}, "spec must be an object, not a list"),
    "a string for a mapping": (SECRETS, {"data": "x"}, "data must be an object, not 'x'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types(name: str) -> None:
    resource, body, message = WRONG[name]
    found = decode_object(resource, body)
    assert found.wrong == (message,)
    assert [error.path for error in found.errors] == [message.partition(" must ")[0]]


GOOD: dict[str, tuple[Resource[Object], Any]] = {
    "a quantity can be a number": (PODS, {"spec": {"containers": [{"resources": {"limits": {"cpu": 1.5}}}]}}),
    "a port can be a name": (
        PODS,
        {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}]}},
    ),
    "a port can be a number": (
        PODS,
        {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]}},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_fields_of_several_types(name: str) -> None:
    resource, body = GOOD[name]
    found = decode_object(resource, body)
    assert (found.value, found.wrong) == (body, ())
