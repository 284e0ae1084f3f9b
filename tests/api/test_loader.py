"""load_objects: every error of every object, with its location; any input is loaded or rejected."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child
from shoal.api.kinds import Kind, by_name, read
from shoal.api.loader import LoadResult, UnreadableSource, load_objects
from shoal.api.manifest import ManifestError
from shoal.api.manifest import read as read_text
from tests import builders

NAME = "must be a DNS name (a-z, 0-9, - and ., at most 253 characters), not "
POOL = builders.pool("p", selector={"a": "b"})
NODE = builders.node("n")
POD = builders.pod("p")

ROWS: list[tuple[str, list[Any], list[str]]] = [
    ("valid objects", [POOL, NODE, POD], []),
    (
        "not an object",
        [5, "text", [], None],
        [
            "f0: must be an object (a mapping), not 5",
            "f1: must be an object (a mapping), not 'text'",
            "f2: must be an object (a mapping), not a list",
            "f3: must be an object (a mapping), not null",
        ],
    ),
    ("no apiVersion and kind", [{}], ["f0: apiVersion: is required", "f0: kind: is required"]),
    (
        "an invalid apiVersion and kind",
        [{"apiVersion": 1, "kind": ""}],
        [
            "f0: apiVersion: must be a string that is not empty, not 1",
            "f0: kind: must be a string that is not empty, not ''",
        ],
    ),
    (
        "another version of one of our kinds",
        [POOL | {"apiVersion": "resource.aibee.cn/v1"}],
        [
            "f0: apiVersion: must be resource.aibee.cn/v1alpha1 for a Pool, not 'resource.aibee.cn/v1'",
        ],
    ),
    (
        "no name",
        [POD | {"metadata": {"generateName": "p-"}}],
        ["f0: Pod without a name: metadata.name: is required"],
    ),
    (
        "a duplicate",
        [POD, NODE, POD],
        ["f2: Pod default/p: metadata.name: is a duplicate: f0 has the same name"],
    ),
    ("the same name in other namespaces", [POD, builders.pod("p", namespace="other")], []),
    (
        "the same name in namespaces that differ in their last letter",
        [builders.pod("p", namespace="n" * 61 + last) for last in "ab"],
        [],
    ),
    (
        "a long namespace is printed in full",
        [POD | {"metadata": {"name": "p", "namespace": "n" * 63}, "spec": 5}],
        [f"f0: Pod {'n' * 63}/p: spec: must be a mapping, not 5"],
    ),
    (
        "a namespace that is not a string",
        [
            POD | {"metadata": {"name": "p", "namespace": 5}},
            POD | {"metadata": {"name": "p", "namespace": 5}},
            POD | {"metadata": {"name": "p", "namespace": [1]}},
        ],
        [
            "f0: Pod 5/p: metadata.namespace: must be a string, not 5",
            "f1: Pod 5/p: metadata.namespace: must be a string, not 5",
            "f2: Pod [1]/p: metadata.namespace: must be a string, not a list",
        ],
    ),
    (
        "the namespace of a node is ignored",
        [NODE, NODE | {"metadata": {"name": "n", "namespace": "a"}}],
        ["f1: Node n: metadata.name: is a duplicate: f0 has the same name"],
    ),
    ("the same name of other kinds", [builders.pool("p"), POD], []),
    (
        "without a namespace, the namespace is default",
        [POD, POD | {"metadata": {"name": "p"}}],
        ["f1: Pod default/p: metadata.name: is a duplicate: f0 has the same name"],
    ),
    (
        "invalid and duplicate",
        [POD, POD | {"spec": 5}, NODE | {"status": 5}],
        [
            "f1: Pod default/p: metadata.name: is a duplicate: f0 has the same name",
            "f1: Pod default/p: spec: must be a mapping, not 5",
            "f2: Node n: status: must be a mapping, not 5",
        ],
    ),
    (
        "a source that could not be read",
        [UnreadableSource("is not\nYAML"), 5],
        [
            r"f0: is not\nYAML",
            "f1: must be an object (a mapping), not 5",
        ],
    ),
    (
        "control characters in names are escaped",
        [NODE | {"metadata": {"name": "\x1b[2J\n"}}],
        [
            rf"f0: Node \x1b[2J\n: metadata.name: {NAME}'\x1b[2J\n'",
        ],
    ),
]


def _load(raws: list[Any]) -> LoadResult:
    return load_objects((f"f{i}", raw) for i, raw in enumerate(raws))


@pytest.mark.parametrize("sentence, raws, errors", ROWS, ids=[row[0] for row in ROWS])
def test_errors(sentence: str, raws: list[Any], errors: list[str]) -> None:
    result = _load(raws)
    assert result.errors == errors, sentence
    assert len(result.views) + result.invalid == len(raws)


def test_unsupported_kinds_are_counted() -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": 5}
    result = _load([other, NODE, other, {"apiVersion": "v1", "kind": "Pool"}])
    assert result.unknown == {"Deployment apps/v1": 2, "Pool v1": 1}
    assert [(kind.kind, view.metadata.name) for kind, view in result.views] == [("Node", "n")]
    assert not result.errors


def test_unknown_fields_of_shoal_kinds_are_warnings() -> None:
    job = builders.tyjob("t", leader=builders.template(), workers={"w": (1, builders.template())})
    job["spec"]["prioritty"] = 5
    job["spec"]["workerSets"][0]["count"] = 5
    job["spec"]["a\nb"] = 5
    job["spec"]["leader"]["template"]["spec"]["anything"] = 5
    result = _load([job, POD | {"spec": {**POD["spec"], "anything": 5}}])
    assert not result.errors
    assert result.warnings == [
        "f0: TYJob default/t: spec.workerSets[0].count: is not a known field",
        "f0: TYJob default/t: spec.prioritty: is not a known field",
        r"f0: TYJob default/t: spec[a\nb]: is not a known field",
    ]


def test_a_restart_policy_that_is_ignored_is_a_warning() -> None:
    templates = [builders.template() for _ in range(4)]
    for template, policy in zip(templates, ("Always", "Never", "OnFailure", None), strict=True):
        template["spec"]["restartPolicy"] = policy
    always, never, on_failure, absent = templates
    ignored = "restartPolicy: is always Never, because Shoal recreates pods that failed; {} is ignored"
    result = _load(
        [
            builders.tyjob("t", leader=always, workers={"w": (1, never), "v": (1, on_failure)}),
            builders.dijob("d", on_failure),
            builders.dijob("e", absent),
            builders.batch_job("j", on_failure),
        ]
    )
    assert not result.errors
    assert result.warnings == [
        f"f0: TYJob default/t: spec.leader.template.spec.{ignored.format('Always')}",
        f"f0: TYJob default/t: spec.workerSets[1].template.spec.{ignored.format('OnFailure')}",
        f"f1: DIJob default/d: spec.template.spec.{ignored.format('OnFailure')}",
    ]


def test_each_result_starts_empty() -> None:
    _load([5])
    assert _load([]) == LoadResult()


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
REAL_KEYS = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "spec",
    "status",
    "template",
    "containers",
    "resources",
    "requests",
    "leader",
    "workerSets",
    "tasks",
    "trainer",
    "min-instance",
    "nodeSelector",
    "matchExpressions",
    "items",
]
KEYS = st.text(max_size=8) | st.sampled_from(REAL_KEYS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
ALL = sorted(by_name().values(), key=lambda kind: kind.kind)
VALID = {
    "TYJob": builders.tyjob(
        "t", leader=builders.template(cpu=1), workers={"w": (1, builders.template(cpu=1))}
    ),
    "DIJob": builders.dijob_tasks("t", [builders.di_task("learner", builders.template(cpu=1))]),
    "TrainingJob": builders.trainingjob("t", trainer={"cpu": "1"}),
    "Pool": POOL,
    "Pod": POD,
    "Node": NODE,
    "Job": builders.batch_job("t", builders.template(cpu=1)),
}


def _assert_printable_lines(result: LoadResult) -> None:
    assert all(line.isprintable() for line in [*result.errors, *result.warnings, *result.unknown])


@given(st.sampled_from(ALL), VALUES, VALUES, VALUES)
def test_any_values_are_loaded_or_rejected(
    kind: Kind, metadata: object, spec: object, status: object
) -> None:
    raw = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    _assert_printable_lines(_load([raw, metadata]))


def _locations(raw: Any, path: str = "") -> list[tuple[Any, Any, str]]:  # noqa: ANN401 - any JSON value
    """Return all values that can be replaced: their mapping or list, their key in it, and their path."""
    pairs = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [
        location
        for key, value in pairs
        for location in [(raw, key, child(path, key)), *_locations(value, child(path, key))]
    ]


@settings(max_examples=300)
@given(st.sampled_from(sorted(VALID)), st.data())
def test_a_wrong_type_is_the_only_error_of_an_otherwise_valid_object(name: str, data: st.DataObject) -> None:
    """No error is about a placeholder for a value of the wrong type."""
    raw = copy.deepcopy(VALID[name])
    kind = by_name()[raw["apiVersion"], raw["kind"]]
    parent, key, path = data.draw(st.sampled_from(_locations(raw)))
    parent[key] = data.draw(VALUES)
    wrong = _errors(lambda: decode(kind.view, kind.normalise(raw)))
    if path in {error.path for error in wrong}:
        assert _errors(lambda: read(kind, raw)) == wrong


def _errors(reading: Callable[[], object]) -> list[FieldError]:
    try:
        reading()
    except InvalidObjectError as problem:
        return problem.errors
    return []


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_loaded_or_rejected(data: bytes) -> None:
    try:
        raws = list(read_text(data))
    except ManifestError:
        return
    _assert_printable_lines(load_objects(raws))


@given(
    st.lists(
        st.sampled_from(
            ["a: ", "- ", "&x ", "*x ", "<<: ", "{", "}", "[", "]", ", ", "? ", "\n", "  ", "1", "'", "|\n"]
        )
    )
)
def test_any_pieces_of_yaml_are_loaded_or_rejected(pieces: list[str]) -> None:
    try:
        raws = list(read_text("".join(pieces).encode()))
    except ManifestError:
        return
    _assert_printable_lines(load_objects(raws))
