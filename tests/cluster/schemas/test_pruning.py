"""Objects beside their schemas: what is dropped, and what is of a wrong type."""

from typing import Any

import pytest

from shoal.cluster.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, Object, Resource, resource_of
from shoal.cluster.schemas.kinds import prune, schema_of

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
    "a field of one of our kinds": (resource_of("TYJob"), {"spec": {"nope": 1}}, ["spec.nope"]),
    "metadata of one of our kinds": (resource_of("Pool"), {"metadata": {"nope": 1}}, ["metadata.nope"]),
    "templates of our kinds keep everything": (
        resource_of("DIJob"),
        {"spec": {"template": {"spec": {"containers": [{"nope": 1}]}}}},
        [],
    ),
    "null is nothing": (PODS, {"spec": None, "status": {"conditions": None}}, []),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_fields_that_there_are_not_are_found_and_dropped(name: str) -> None:
    resource, thing, paths = UNKNOWN[name]
    found = prune(thing, schema_of(resource))
    assert list(found.unknown) == paths
    assert prune(found.value, schema_of(resource)).unknown == ()
    assert found.value == thing or paths


WRONG: dict[str, tuple[Resource[Object], Object, str]] = {
    "a number for a text": (CONFIG_MAPS, {"data": {"a": 1}}, "data.a must be a string, not 1"),
    "a text for a number": (
        JOBS,
        {"spec": {"completions": "1"}},
        "spec.completions must be a whole number, not '1'",
    ),
    "true for a number": (
        JOBS,
        {"spec": {"completions": True}},
        "spec.completions must be a whole number, not true",
    ),
    "a number for true": (JOBS, {"spec": {"suspend": 1}}, "spec.suspend must be true or false, not 1"),
    "an object for a list": (
        PODS,
        {"spec": {"containers": {}}},
        "spec.containers must be a list, not a mapping",
    ),
    "a list for an object": (PODS, {"spec": []}, "spec must be an object, not a list"),
    "a text for a mapping": (SECRETS, {"data": "x"}, "data must be an object, not 'x'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_named(name: str) -> None:
    resource, thing, message = WRONG[name]
    assert prune(thing, schema_of(resource)).wrong == (message,)


GOOD: dict[str, tuple[Resource[Object], Any]] = {
    "a quantity may be a number": (PODS, {"spec": {"containers": [{"resources": {"limits": {"cpu": 1.5}}}]}}),
    "a port may be a name": (
        PODS,
        {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}]}},
    ),
    "a port may be a number": (
        PODS,
        {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]}},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_may_be_either_is_taken_as_either(name: str) -> None:
    resource, thing = GOOD[name]
    found = prune(thing, schema_of(resource))
    assert (found.value, found.wrong) == (thing, ())
