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
    made: Schema = CRDS[kind.kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return made


def subschemas(made: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and all schemas in it, with their paths."""
    yield path, made
    for name, inner in made.get("properties", {}).items():
        yield from subschemas(inner, f"{path}.{name}")
    if "items" in made:
        yield from subschemas(made["items"], f"{path}[]")
    if "additionalProperties" in made:
        yield from subschemas(made["additionalProperties"], f"{path}{{}}")


ALLOWED = {
    "type",
    "format",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minItems",
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


def structural_errors(made: Schema, path: str) -> Iterator[str]:
    """Yield the rules of structural schemas that one schema violates."""
    if made.keys() - ALLOWED:
        yield f"has {made.keys() - ALLOWED}"
    yield from type_errors(made)
    if "properties" in made and "additionalProperties" in made:
        yield "must not have both properties and additionalProperties"
    if not set(made.get("required", [])) <= set(made.get("properties", {})):
        yield "has required fields without properties"
    if made.get("type") == "array" and "items" not in made:
        yield "must have items"
    filled = {"properties", "additionalProperties", PRESERVE} & made.keys()
    if made.get("type") == "object" and not filled and path != ".metadata":
        yield "would be pruned to an empty object"
    if made.get("x-kubernetes-list-type") == "map":
        yield from map_list_errors(made)


def type_errors(made: Schema) -> Iterator[str]:
    if INT_OR_STRING in made:
        if "type" in made or made.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
            yield "must have the exact form of an int-or-string"
    elif "anyOf" in made:
        yield "must have no anyOf"
    elif made.get("type") not in ("object", "array", "string", "integer", "number", "boolean"):
        yield "must have a type"


def map_list_errors(made: Schema) -> Iterator[str]:
    items = made["items"]
    for key in made["x-kubernetes-list-map-keys"]:
        known = items.get("properties", {}).get(key, {})
        if known.get("type") != "string" or (key not in items.get("required", []) and "default" not in known):
            yield f"key {key} must be required or have a default"


@EACH_KIND
def test_schemas_are_structural(kind: Kind) -> None:
    assert [
        f"{path}: {rule}" for path, made in subschemas(schema(kind)) for rule in structural_errors(made, path)
    ] == []


@EACH_KIND
def test_metadata_is_left_to_kubernetes(kind: Kind) -> None:
    assert schema(kind)["properties"]["metadata"] == {"type": "object"}


@EACH_KIND
def test_defaults_are_valid_and_not_for_required_fields(kind: Kind) -> None:
    for path, made in subschemas(schema(kind)):
        for name, inner in made.get("properties", {}).items():
            if "default" in inner:
                assert name not in made.get("required", []), path
                assert invalid_paths(inner, inner["default"]) == [], path
                assert defaulted(inner, inner["default"]) == pruned(inner, defaulted(inner, inner["default"]))


@EACH_KIND
def test_a_status_has_no_defaults(kind: Kind) -> None:
    assert all("default" not in made for _, made in subschemas(schema(kind)["properties"]["status"]))


@EACH_KIND
def test_columns_and_selectable_fields_exist(kind: Kind) -> None:
    (version,) = CRDS[kind.kind]["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        found = at(schema(kind), column["jsonPath"])
        if column["jsonPath"].startswith(".metadata."):
            continue
        assert found is not None, column
        assert found["type"] == column["type"], column
    for field in version.get("selectableFields", []):
        found = at(schema(kind), field["jsonPath"])
        assert found is not None
        assert found["type"] == "string"


@EACH_KIND
def test_rules_name_fields_that_exist(kind: Kind) -> None:
    for path, made in subschemas(schema(kind)):
        for rule in made.get("x-kubernetes-validations", []):
            assert rule["message"]
            for field in re.findall(r"self((?:\.\w+\b(?!\())+)", rule["rule"]):
                plain = field.replace("__dash__", "-")
                assert plain == ".metadata.name" or at(made, plain) is not None, (path, field)


@EACH_KIND
def test_every_field_of_a_spec_has_a_description(kind: Kind) -> None:
    for path, made in subschemas(schema(kind)["properties"]["spec"]):
        for name, inner in made.get("properties", {}).items():
            if "resources" not in path and "elector" not in path:
                assert inner.get("description"), f"{path}.{name}"


@EACH_KIND
def test_a_crd_is_small_enough_for_kubectl_apply(kind: Kind) -> None:
    assert len(json.dumps(CRDS[kind.kind])) < 100_000


def at(made: Schema, path: str) -> Schema | None:
    found: Schema | None = made
    for name in path.strip(".").split("."):
        found = (found or {}).get("properties", {}).get(name) or (found or {}).get("additionalProperties")
    return found


def test_names() -> None:
    short = {name: made["spec"]["names"]["shortNames"] for name, made in CRDS.items()}
    assert short == {"DIJob": ["dijob"], "TYJob": ["tyj"], "TrainingJob": ["tj"], "Pool": ["pool"]}
    assert [made["spec"]["scope"] for made in CRDS.values()] == [
        "Namespaced",
        "Namespaced",
        "Namespaced",
        "Cluster",
    ]
    assert CRDS["Pool"]["metadata"]["name"] == "pools.resource.aibee.cn"
    assert all(made["spec"]["versions"][0]["subresources"] == {"status": {}} for made in CRDS.values())


def defaults_of(kind: Kind) -> dict[str, Any]:
    found = ((path, made.get("default")) for path, made in subschemas(schema(kind)["properties"]["spec"]))
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
    }
    assert defaults_of(POOL) == dict.fromkeys(
        ("disablePreemption", "disableBorrowing", "disableSharing"), False
    )


# --- a minimal API server: defaulting, pruning, validation -------------------------------------------------


def defaulted(made: Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        filled = dict(value)
        for name, inner in made.get("properties", {}).items():
            if name not in filled and "default" in inner:
                filled[name] = copy.deepcopy(inner["default"])
        return {name: defaulted(_inner(made, name), entry) for name, entry in filled.items()}
    if isinstance(value, list):
        return [defaulted(made.get("items", {}), item) for item in value]
    return value


def pruned(made: Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        known = {name for name in value if PRESERVE in made or _inner(made, name)}
        return {
            name: pruned(_inner(made, name), entry) if _inner(made, name) else entry
            for name, entry in value.items()
            if name in known
        }
    if isinstance(value, list):
        return [pruned(made.get("items", {}), item) for item in value]
    return value


def _inner(made: Schema, name: str) -> Schema:
    found: Schema = made.get("properties", {}).get(name) or made.get("additionalProperties") or {}
    return found


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def invalid_paths(made: Schema, value: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON value
    """Return the paths at which a value violates its schema."""
    expected: Any = TYPES.get(made.get("type", ""), (int, str) if INT_OR_STRING in made else object)
    if not isinstance(value, expected) or (
        isinstance(value, bool) and made.get("type") in ("integer", "number")
    ):
        return [path]
    found = [path] if _violates_limits(made, value) else []
    if isinstance(value, dict):
        found += [f"{path}.{name}" for name in made.get("required", []) if name not in value]
        for name, entry in value.items():
            found += invalid_paths(_inner(made, name), entry, f"{path}.{name}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += invalid_paths(made.get("items", {}), item, f"{path}[{i}]")
    return found


def _violates_limits(made: Schema, value: object) -> bool:
    if isinstance(value, str):
        return value not in made.get("enum", [value]) or re.search(made.get("pattern", ""), value) is None
    if isinstance(value, list):
        return bool(len(value) < made.get("minItems", 0))
    if isinstance(value, int | float):
        return bool(value < made.get("minimum", value) or value > made.get("maximum", value))
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
