"""A real API server and our own validation refuse the same objects, apart from documented exceptions.

Requests are like those of kubectl: unknown fields are errors; and they are dry runs.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.api import registry
from shoal.api.kinds import Kind, by_name
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kinds.dijob.types import MAX_RANKS
from shoal.kinds.pool.kind import KIND as POOL
from shoal.kinds.tyjob.kind import KIND as TYJOB
from tests.api import test_crds, test_validation
from tests.api.test_validation import VALID, errors_of, patched
from tests.k8s.controlplane import ControlPlane

Object = dict[str, Any]
WORLDS = sorted((Path(__file__).parents[2] / "examples" / "worlds").glob("*.yaml"))

CPU = "spec.trainer.resources.requests"
EXISTS = {"key": "a", "operator": "Exists", "values": ["b"]}

EVERYTHING = "to select everything, write matchLabels: {}"

MORE: list[tuple[str, str, Object]] = [
    # --- nulls and defaults --------------------------------------------------------------------------------
    ("a null with a default", "tyjob", {"spec.priority": None, "spec.schedulerPolicy": None}),
    ("a null without a default", "tyjob", {"spec.volumes": None, "status": None}),
    ("a null where something is required", "tyjob", {"spec.leader.template": None}),
    ("a null in a template", "tyjob", {"spec.leader.template.metadata": {"creationTimestamp": None}}),
    ("a null in a list", "dijob", {"spec.volumes": [None]}),
    ("null for the other form", "tasks", {"spec.template": None}),
    ("empty tasks beside a template", "dijob", {"spec.tasks": []}),
    ("a minimum and no maximum", "dijob", {"spec.minReplicas": 0, "spec.maxReplicas": None}),
    ("a role that is null", "trainingjob", {"spec.pserver": None, "spec.master": {}}),
    ("both spellings", "trainingjob", {"spec.NodeSelector": {"a": "b"}, "spec.nodeSelector": {"c": "d"}}),
    ("a spec that is null", "pool", {"spec": None}),
    ("an empty default pool", "pool", {"metadata.name": "default", "spec": {"nodeResources": []}}),
    ("a namespace of a cluster-scoped kind", "pool", {"metadata.namespace": "default"}),
    ("a name of 170 characters", "tyjob", {"metadata.name": "a" * 170}),
    ("a name of 253 characters", "pool", {"metadata.name": "a" * 253}),
    ("a name of 254 characters", "pool", {"metadata.name": "a" * 254}),
    # --- numbers -------------------------------------------------------------------------------------------
    ("a whole number", "trainingjob", {CPU: {"cpu": 1}}),
    ("a whole number with a point", "trainingjob", {CPU: {"cpu": 1.0}}),
    ("half a number", "trainingjob", {CPU: {"cpu": 0.5}}),
    ("a negative number", "trainingjob", {CPU: {"cpu": -1}}),
    ("a negative string", "trainingjob", {CPU: {"cpu": "-1"}}),
    ("negative zero", "trainingjob", {CPU: {"cpu": "-0"}}),
    ("a space before the number", "trainingjob", {CPU: {"cpu": " 1"}}),
    ("a line break after the number", "trainingjob", {CPU: {"cpu": "1\n"}}),
    ("an absurd string", "trainingjob", {CPU: {"cpu": "1e400"}}),
    ("an absurd number", "trainingjob", {CPU: {"cpu": 10**25}}),
    ("a resource with a space", "trainingjob", {CPU: {"a b": "1"}}),
    ("a count with a point", "tyjob", {"spec.workerSets.0.counts": 2.0}),
    ("passes with a point", "trainingjob", {"spec.passes": 1.0}),
    ("a minimum of all workers", "tyjob", {"spec.minWorkersNum": 5}),
    ("the last port", "trainingjob", {"spec.port": 65534}),
    ("the port after the last", "trainingjob", {"spec.port": 65535}),
    ("half a GPU", "trainingjob", {CPU: {"nvidia.com/gpu": "0.5"}}),
    ("more than the limit", "trainingjob", {"spec.trainer.resources.limits": {"cpu": "500m"}}),
    # --- names, labels, templates --------------------------------------------------------------------------
    ("a set without a name", "tyjob", {"spec.workerSets.0.name": ""}),
    ("a set of 63 letters", "tyjob", {"spec.workerSets.0.name": "a" * 63}),
    ("a set of 64 letters", "tyjob", {"spec.workerSets.0.name": "a" * 64}),
    ("a set that ends in a hyphen", "tyjob", {"spec.workerSets.0.name": "a-"}),
    ("a name with a line break", "tasks", {"spec.tasks.1.name": "a\nb"}),
    ("an empty name of a learner", "tasks", {"spec.tasks.0.name": ""}),
    ("a group in upper case", "dijob", {"spec.group": "Team_A.1"}),
    ("an empty template", "dijob", {"spec.template": {}}),
    ("an annotation with a space", "tyjob", {"metadata.annotations": {"a b": "x"}}),
    ("an incomplete owner reference", "tyjob", {"metadata.ownerReferences": [{"kind": "A", "name": "b"}]}),
    ("an unknown field", "tyjob", {"spec.leader.colour": "red"}),
    ("an unknown resource field", "trainingjob", {"spec.trainer.resources.claims": [{"name": "x"}]}),
    # --- selectors -----------------------------------------------------------------------------------------
    ("resources of all sorts", "pool", {"spec.nodeResources": ["cpu", "nvidia.com/gpu", "a.b/c_D.e"]}),
    ("a resource without a name", "pool", {"spec.nodeResources": ["a/"]}),
    ("two prefixes", "pool", {"spec.nodeResources": ["a/b/c"]}),
    ("values of In", "pool", {"spec.nodeSelector.matchExpressions": [EXISTS | {"operator": "In"}]}),
    ("no values of Exists", "pool", {"spec.nodeSelector.matchExpressions": [EXISTS | {"values": []}]}),
    ("a selector of everything", "pool", {"spec.nodeSelector": {"matchLabels": {}}}),
    ("an empty selector", "pool", {"spec.nodeSelector": {}}),
    ("a label with a space", "pool", {"spec.nodeSelector.matchLabels": {"a b": "c"}}),
    ("values of Exists", "pool", {"spec.namespaceSelector": {"matchExpressions": [EXISTS]}}),
]

REFUSED_BY_SHOAL_ONLY = {
    "templates are kept as they are: with their schemas a CRD would be too large to be applied": [
        "dijob: an empty template",
    ],
    "CEL may not compare every name with every other in a list of any length": [
        "tasks: the type of another task as name",
    ],
    "a rule that would be unreadable": ["tyjob: the leader has the name of a worker's pod"],
    "schemas do not restrict keys": ["pool: a label with a space", "trainingjob: a resource with a space"],
    "a schema treats quantities as strings, without a size": [
        "trainingjob: an absurd string",
        "trainingjob: half a GPU",
        "trainingjob: more than the limit",
    ],
    "1.0 is stored as 1": ["trainingjob: passes with a point"],
    "Kubernetes accepts it, without any effect": [
        "pod: an amount above the maximum of quantities",
        "pod: more than any node has",
        "pod: Gt requires a number",
    ],
    "the status is ignored when an object is created": [
        "job: invalid indexes",
        "job: an index above the limit",
        "tyjob: invalid indexes in a TYJob",
    ],
    "the API server treats an absent value as 0 and writes it": ["class: a priority class without a value"],
}
REFUSED_BY_KUBERNETES_ONLY = {
    "a schema cannot allow fractions beside strings": ["trainingjob: half a number"],
    "harmless, and not worth a longer pattern": ["trainingjob: negative zero"],
    "Shoal does not read it, so Shoal does not check it": [
        "tyjob: an annotation with a space",
        "tyjob: an incomplete owner reference",
    ],
    "kubectl requests refusal of unknown fields; Shoal warns": [
        "tyjob: an unknown field",
        "trainingjob: an unknown resource field",
    ],
    "after pruning it may be the rest of misplaced labels, which only Shoal sees": [
        "pool: an empty selector"
    ],
}

CASES = {
    f"{name}: {sentence}": (VALID[name][0], patched(VALID[name][1], patch))
    for sentence, name, patch in [*((row[0], row[1], row[2]) for row in test_validation.ROWS), *MORE]
}
STRICTER_SHOAL = {case for cases in REFUSED_BY_SHOAL_ONLY.values() for case in cases}
STRICTER_KUBERNETES = {case for cases in REFUSED_BY_KUBERNETES_ONLY.values() for case in cases}


def post_dry_run(
    plane: ControlPlane, kind: Kind, raw: Object, strictness: str = "Strict"
) -> tuple[int, Object]:
    """Return the response of the API server to a dry run."""
    version = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    place = f"{version}/namespaces/default" if kind.namespaced else version
    whole = {"apiVersion": kind.api_version, "kind": kind.kind} | raw
    options = f"dryRun=All&fieldValidation={strictness}"
    return plane.client().call("POST", f"{place}/{kind.plural}?{options}", whole)


def test_the_tables_name_cases_that_exist() -> None:
    assert (STRICTER_SHOAL | STRICTER_KUBERNETES) - CASES.keys() == set()


@pytest.mark.parametrize("name", VALID)
def test_valid_objects_are_accepted_by_both(k8s: ControlPlane, name: str) -> None:
    code, answer = post_dry_run(k8s, *VALID[name])
    assert (errors_of(*VALID[name]), code) == ([], 201), answer


@pytest.mark.parametrize("case", CASES)
def test_both_refuse_the_same_objects(k8s: ControlPlane, case: str) -> None:
    kind, raw = CASES[case]
    ours = bool(errors_of(kind, raw))
    code, answer = post_dry_run(k8s, kind, raw)
    assert code in (201, 400, 422), answer
    expected = ours if case not in STRICTER_SHOAL | STRICTER_KUBERNETES else not ours
    assert (code >= 400) == expected, (errors_of(kind, raw), answer)
    assert ours or case not in STRICTER_SHOAL, "the exception is in the wrong table"


@pytest.mark.parametrize("world", WORLDS, ids=[path.stem for path in WORLDS])
def test_examples_are_accepted_by_the_api_server(k8s: ControlPlane, world: Path) -> None:
    documents = [document for document in yaml.safe_load_all(world.read_text()) if document]
    found = [raw for document in documents for raw in document.get("items", [document])]
    for raw in found:
        if raw["kind"] == "PriorityClass":  # pods with an unknown priority class are refused
            k8s.client().call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", raw)
    for raw in found:
        raw["metadata"].pop("namespace", None)
        code, answer = post_dry_run(k8s, by_name()[raw["apiVersion"], raw["kind"]], raw)
        assert code in (201, 409), answer


DEFAULTED = [
    (kind, {"metadata": {"name": "a"}} | raw)
    for kind, raw in [*VALID.values(), *test_crds.VALID]
    if kind in registry.kinds()
]


@pytest.mark.parametrize("kind, raw", DEFAULTED, ids=lambda value: getattr(value, "kind", ""))
def test_defaults_are_those_of_the_simulated_api_server(k8s: ControlPlane, kind: Kind, raw: Object) -> None:
    """`tests/api/test_crds.py` simulates the defaulting of an API server; this test checks it."""
    code, answer = post_dry_run(k8s, kind, raw)
    assert code == 201, answer
    assert answer.get("spec") == test_crds.defaulted(test_crds.schema(kind), raw).get("spec")


def test_labels_in_the_wrong_place_never_select_everything(k8s: ControlPlane) -> None:
    """Without strict validation unknown fields are dropped; the remaining empty selector is refused."""
    _, good = VALID["pool"]
    for selector in ("nodeSelector", "namespaceSelector"):
        code, answer = post_dry_run(k8s, POOL, patched(good, {f"spec.{selector}": {"pool": "gpu"}}), "Ignore")
        (cause,) = answer["details"]["causes"]
        assert (code, cause["field"]) == (422, f"spec.{selector}")
        assert cause["message"].endswith("must have matchLabels or matchExpressions; " + EVERYTHING)


def large_jobs() -> list[tuple[Kind, Object]]:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    sets = [{"name": f"w{i}", "template": template, "counts": 10} for i in range(10_000)]
    tasks = [{"name": f"t{i}", "template": template} for i in range(MAX_RANKS)]
    return [
        (TYJOB, patched(VALID["tyjob"][1], {"spec.workerSets": sets, "spec.minWorkersNum": 100_000})),
        (DIJOB, patched(VALID["tasks"][1], {"spec.tasks": tasks})),
    ]


@pytest.mark.parametrize("kind, raw", large_jobs(), ids=["TYJob", "DIJob"])
def test_large_jobs_are_within_the_cost_budget_of_rules(
    k8s: ControlPlane, namespace: str, kind: Kind, raw: Object
) -> None:
    """The API server limits the cost of CEL rules; the largest objects must be within the limit."""
    code, answer = post_dry_run(k8s, kind, raw)
    assert (code, errors_of(kind, raw)) == (201, []), answer.get("message")
    jobs = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"
    named = {"metadata": {"name": "a"}, "apiVersion": kind.api_version, "kind": kind.kind}
    made = k8s.client().create(jobs, raw | named)
    made["spec"]["suspend"] = True
    code, answer = k8s.client().call("PUT", f"{jobs}/a", made)
    assert code == 200, answer.get("message")
    made = answer | {"status": {"stage" if kind is TYJOB else "phase": "Failed"}}
    assert k8s.client().call("PUT", f"{jobs}/a/status", made)[0] == 200
    k8s.client().call("DELETE", f"{jobs}/a")
