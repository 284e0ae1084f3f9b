"""The CRDs follow the rules of structural schemas, and accept and reject the same objects as validation."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.api import crds, registry
from shoal.api.crds import INT_OR_STRING, PRESERVE, QUANTITY_PATTERN
from shoal.api.kinds import Kind
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kinds.pool.kind import KIND as POOL
from shoal.kinds.trainingjob.kind import KIND as TRAININGJOB
from shoal.kinds.tyjob.kind import KIND as TYJOB
from tests import builders

Schema = dict[str, Any]
CRDS = {kind.kind: crds.crd(kind) for kind in registry.kinds()}
EACH_KIND = pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.kind)


def schema(kind: Kind) -> Schema:
    subschema: Schema = CRDS[kind.kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return subschema


def subschemas(subschema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and all schemas in it, with their paths."""
    yield path, subschema
    for name, inner in subschema.get("properties", {}).items():
        yield from subschemas(inner, f"{path}.{name}")
    if "items" in subschema:
        yield from subschemas(subschema["items"], f"{path}[]")
    if "additionalProperties" in subschema:
        yield from subschemas(subschema["additionalProperties"], f"{path}{{}}")


ALLOWED = {
    "type",
    "format",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "anyOf",
    PRESERVE,
    INT_OR_STRING,
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}


def structural_errors(subschema: Schema, path: str) -> Iterator[str]:
    """Yield the rules of structural schemas that one schema violates."""
    if subschema.keys() - ALLOWED:
        yield f"has {subschema.keys() - ALLOWED}"
    yield from type_errors(subschema)
    if "properties" in subschema and "additionalProperties" in subschema:
        yield "must not have both properties and additionalProperties"
    if not set(subschema.get("required", [])) <= set(subschema.get("properties", {})):
        yield "has required fields without properties"
    if subschema.get("type") == "array" and "items" not in subschema:
        yield "must have items"
    filled = {"properties", "additionalProperties", PRESERVE} & subschema.keys()
    if subschema.get("type") == "object" and not filled and path != ".metadata":
        yield "would be pruned to an empty object"
    if subschema.get("x-kubernetes-list-type") == "map":
        yield from map_list_errors(subschema)


def type_errors(subschema: Schema) -> Iterator[str]:
    if INT_OR_STRING in subschema:
        if "type" in subschema or subschema.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
            yield "must have the exact form of an int-or-string"
    elif "anyOf" in subschema:
        yield "must have no anyOf"
    elif subschema.get("type") not in ("object", "array", "string", "integer", "number", "boolean"):
        yield "must have a type"


def map_list_errors(subschema: Schema) -> Iterator[str]:
    items = subschema["items"]
    for key in subschema["x-kubernetes-list-map-keys"]:
        known = items.get("properties", {}).get(key, {})
        if known.get("type") != "string" or (key not in items.get("required", []) and "default" not in known):
            yield f"key {key} must be required or have a default"


@EACH_KIND
def test_schemas_are_structural(kind: Kind) -> None:
    assert [
        f"{path}: {rule}"
        for path, subschema in subschemas(schema(kind))
        for rule in structural_errors(subschema, path)
    ] == []


@EACH_KIND
def test_metadata_is_left_to_kubernetes(kind: Kind) -> None:
    assert schema(kind)["properties"]["metadata"] == {"type": "object"}


@EACH_KIND
def test_defaults_are_valid_and_not_for_required_fields(kind: Kind) -> None:
    for path, subschema in subschemas(schema(kind)):
        for name, inner in subschema.get("properties", {}).items():
            if "default" in inner:
                assert name not in subschema.get("required", []), path
                assert invalid_paths(inner, inner["default"]) == [], path
                assert defaulted(inner, inner["default"]) == pruned(inner, defaulted(inner, inner["default"]))


@EACH_KIND
def test_a_status_has_no_defaults(kind: Kind) -> None:
    assert all(
        "default" not in subschema for _, subschema in subschemas(schema(kind)["properties"]["status"])
    )


@EACH_KIND
def test_columns_and_selectable_fields_exist(kind: Kind) -> None:
    (version,) = CRDS[kind.kind]["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        found = at(schema(kind), column["jsonPath"])
        if column["jsonPath"].startswith(".metadata."):
            continue
        if found is None:  # a key that workers report
            parent = at(schema(kind), column["jsonPath"].rpartition(".")[0])
            assert (parent or {}).get("x-kubernetes-preserve-unknown-fields"), column
            continue
        assert found["type"] == column["type"], column
    for field in version.get("selectableFields", []):
        found = at(schema(kind), field["jsonPath"])
        assert found is not None
        assert found["type"] == "string"


@EACH_KIND
def test_rules_name_fields_that_exist(kind: Kind) -> None:
    for path, subschema in subschemas(schema(kind)):
        for rule in subschema.get("x-kubernetes-validations", []):
            assert rule["message"]
            for field in re.findall(r"self((?:\.\w+\b(?!\())+)", rule["rule"]):
                plain = field.replace("__dash__", "-")
                assert plain == ".metadata.name" or at(subschema, plain) is not None, (path, field)


@EACH_KIND
def test_every_field_of_a_spec_has_a_description(kind: Kind) -> None:
    for path, subschema in subschemas(schema(kind)["properties"]["spec"]):
        for name, inner in subschema.get("properties", {}).items():
            if "resources" not in path and "elector" not in path:
                assert inner.get("description"), f"{path}.{name}"


@EACH_KIND
def test_a_crd_is_small_enough_for_kubectl_apply(kind: Kind) -> None:
    assert len(json.dumps(CRDS[kind.kind])) < 100_000


def at(subschema: Schema, path: str) -> Schema | None:
    found: Schema | None = subschema
    for name in path.strip(".").split("."):
        found = (found or {}).get("properties", {}).get(name) or (found or {}).get("additionalProperties")
    return found


def test_names() -> None:
    short = {name: subschema["spec"]["names"]["shortNames"] for name, subschema in CRDS.items()}
    assert short == {"DIJob": ["dijob"], "TYJob": ["tyj"], "TrainingJob": ["tj"], "Pool": ["pool"]}
    assert [subschema["spec"]["scope"] for subschema in CRDS.values()] == [
        "Namespaced",
        "Namespaced",
        "Namespaced",
        "Cluster",
    ]
    assert CRDS["Pool"]["metadata"]["name"] == "pools.resource.aibee.cn"
    assert all(
        subschema["spec"]["versions"][0]["subresources"] == {"status": {}} for subschema in CRDS.values()
    )


def defaults_of(kind: Kind) -> dict[str, Any]:
    found = (
        (path, subschema.get("default")) for path, subschema in subschemas(schema(kind)["properties"]["spec"])
    )
    return {path.strip("."): value for path, value in found if value is not None}


def test_defaults_are_those_of_the_specifications() -> None:
    assert defaults_of(TYJOB) == {
        "restartLimit": 3,
        "cleanPodPolicy": "All",
        "terminating": False,
        "minWorkersNum": 1,
        "priority": 5,
        "schedulerPolicy": {},
        "schedulerPolicy.jobQueuePolicy": "Priority",
        "schedulerPolicy.basicPolicy": "BinPack",
        "workerSets[].counts": 1,
        "suspend": False,
    }
    assert defaults_of(DIJOB) == {
        "priority": "normal",
        "engineFields": {},
        "engineFields.topology": "star",
        "engineFields.parallelWorkers": 1,
        "cleanPodPolicy": "Running",
        "preemptible": False,
        "minReplicas": 1,
        "suspend": False,
        "tasks[].type": "none",
        "tasks[].replicas": 1,
    }
    assert defaults_of(TRAININGJOB) == {
        "image": "paddlepaddle/paddlecloud-job",
        "host_network": False,
        "port": 7164,
        "ports_num": 1,
        "ports_num_for_sparse": 1,
        "fault_tolerant": False,
        "passes": 1,
        "pserver.scaleWithTrainers": False,
        "suspend": False,
    }
    assert defaults_of(POOL) == dict.fromkeys(
        ("disablePreemption", "disableBorrowing", "disableSharing"), False
    )


# --- a minimal API server: defaulting, pruning, validation -------------------------------------------------


def defaulted(subschema: Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        filled = dict(value)
        for name, inner in subschema.get("properties", {}).items():
            if name not in filled and "default" in inner:
                filled[name] = copy.deepcopy(inner["default"])
        return {name: defaulted(_inner(subschema, name), entry) for name, entry in filled.items()}
    if isinstance(value, list):
        return [defaulted(subschema.get("items", {}), item) for item in value]
    return value


def pruned(subschema: Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        known = {name for name in value if PRESERVE in subschema or _inner(subschema, name)}
        return {
            name: pruned(_inner(subschema, name), entry) if _inner(subschema, name) else entry
            for name, entry in value.items()
            if name in known
        }
    if isinstance(value, list):
        return [pruned(subschema.get("items", {}), item) for item in value]
    return value


def _inner(subschema: Schema, name: str) -> Schema:
    found: Schema = subschema.get("properties", {}).get(name) or subschema.get("additionalProperties") or {}
    return found


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def invalid_paths(subschema: Schema, value: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON value
    """Return the paths at which a value violates its schema."""
    expected: Any = TYPES.get(subschema.get("type", ""), (int, str) if INT_OR_STRING in subschema else object)
    if not isinstance(value, expected) or (
        isinstance(value, bool) and subschema.get("type") in ("integer", "number")
    ):
        return [path]
    found = [path] if _violates_limits(subschema, value) else []
    if isinstance(value, dict):
        found += [f"{path}.{name}" for name in subschema.get("required", []) if name not in value]
        for name, entry in value.items():
            found += invalid_paths(_inner(subschema, name), entry, f"{path}.{name}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += invalid_paths(subschema.get("items", {}), item, f"{path}[{i}]")
    return found


def _violates_limits(subschema: Schema, value: object) -> bool:
    if isinstance(value, str):
        return (
            value not in subschema.get("enum", [value])
            or re.search(subschema.get("pattern", ""), value) is None
        )
    if isinstance(value, list):
        return bool(len(value) < subschema.get("minItems", 0))
    if isinstance(value, int | float):
        return bool(value < subschema.get("minimum", value) or value > subschema.get("maximum", value))
    return False


T = builders.template(cpu=1)
VALID = [
    (TYJOB, builders.tyjob("a", leader=T, workers={"w": (2, T)}, policy="Gang", status={"stage": "Running"})),
    (DIJOB, builders.dijob("a", T, replicas=(0, 4), status={"phase": "Running", "profilings": {"x": [1]}})),
    (DIJOB, builders.dijob_tasks("a", [builders.di_task("learner", T)])),
    (
        TRAININGJOB,
        builders.trainingjob("a", trainer={"cpu": "100m", "memory": "1.5Gi"}, pserver={"cpu": "1"}),
    ),
    (TRAININGJOB, {"spec": {"trainer": {"min-instance": 1, "max-instance": 1}, "NodeSelector": {"a": "b"}}}),
    (POOL, builders.pool("a", selector={"x": "y"}, queue="DRF")),
    (POOL, {"metadata": {"name": "a"}}),
]


@pytest.mark.parametrize("kind, raw", VALID, ids=lambda value: getattr(value, "kind", ""))
def test_valid_objects_are_accepted_unchanged(kind: Kind, raw: dict[str, Any]) -> None:
    full = defaulted(schema(kind), raw)
    assert invalid_paths(schema(kind), full) == []
    without_metadata = {key: value for key, value in full.items() if key != "metadata"}
    assert pruned(schema(kind), without_metadata) == without_metadata


def test_templates_and_pools_keep_unknown_fields() -> None:
    pool = {"spec": {"colour": {"deep": [1]}}}
    assert pruned(schema(POOL), pool) == pool
    job = builders.dijob("a", {"spec": {"anything": {"deep": [None]}}})
    assert pruned(schema(DIJOB), job)["spec"]["template"] == job["spec"]["template"]


INVALID: list[tuple[str, Kind, Any, list[str]]] = [
    ("no leader", TYJOB, {"spec": {"workerSets": [{"name": "a", "template": {}}]}}, [".spec.leader"]),
    (
        "no worker sets",
        TYJOB,
        {"spec": {"leader": {"name": "a", "template": {}}, "workerSets": []}},
        [".spec.workerSets"],
    ),
    ("an unknown phase", DIJOB, {"spec": {}, "status": {"phase": "Odd"}}, [".status.phase"]),
    (
        "invalid indexes",
        TYJOB,
        {
            "spec": {"leader": {"name": "a", "template": {}}, "workerSets": [{"name": "b", "template": {}}]},
            "status": {"completed": {"b": "0-2,5", "c": "1-x"}, "failed": {"b": "", "c": "100000"}},
        },
        [".status.completed.c", ".status.failed.c"],
    ),
    ("an invalid priority", DIJOB, {"spec": {"priority": 5}}, [".spec.priority"]),
    (
        "no maximum",
        TRAININGJOB,
        {"spec": {"trainer": {"min-instance": 0}}},
        [".spec.trainer.max-instance", ".spec.trainer.min-instance"],
    ),
    ("a string for a boolean", POOL, {"spec": {"disableSharing": "yes"}}, [".spec.disableSharing"]),
    (
        "a quantity with a space",
        TRAININGJOB,
        {
            "spec": {
                "trainer": {"min-instance": 1, "max-instance": 1, "resources": {"limits": {"cpu": "1 Gi"}}}
            }
        },
        [".spec.trainer.resources.limits.cpu"],
    ),
]


@pytest.mark.parametrize("sentence, kind, raw, paths", INVALID, ids=[row[0] for row in INVALID])
def test_invalid_objects_are_rejected(sentence: str, kind: Kind, raw: object, paths: list[str]) -> None:
    assert invalid_paths(schema(kind), raw) == paths, sentence


@pytest.mark.parametrize("text", ["1", "+1", "100m", "1.5Gi", ".5", "5.", "1e3", "1E-3", "2Ei", "0.1k", "1n"])
def test_the_pattern_matches_quantities(text: str) -> None:
    assert re.search(QUANTITY_PATTERN, text)


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "1GiB", "1K", "e3", ".", "1e", "1e1.5", "١"])  # noqa: RUF001
def test_the_pattern_matches_nothing_else(text: str) -> None:
    assert not re.search(QUANTITY_PATTERN, text)
