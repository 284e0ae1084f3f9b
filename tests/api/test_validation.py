"""Every validation rule of every kind: a valid object, a patch that makes it invalid, the exact errors."""

import copy
from typing import Any

import pytest

from shoal.api import kinds
from shoal.api.fields import InvalidObjectError
from shoal.api.kinds import Kind, by_name
from shoal.api.podspec import decode_template
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kinds.pool.kind import KIND as POOL
from shoal.kinds.trainingjob.kind import KIND as TRAININGJOB
from shoal.kinds.tyjob.kind import KIND as TYJOB
from tests import builders

ABSENT: Any = object()
"""In a patch: the field is removed."""

T = builders.template(cpu=1)
VALID: dict[str, tuple[Kind, dict[str, Any]]] = {
    "tyjob": (TYJOB, builders.tyjob("a", leader=T, workers={"w": (2, T), "v": (3, T)})),
    "dijob": (DIJOB, builders.dijob("a", T)),
    "tasks": (
        DIJOB,
        builders.dijob_tasks("a", [builders.di_task("learner", T), builders.di_task("none", T, name="x")]),
    ),
    "trainingjob": (
        TRAININGJOB,
        builders.trainingjob(
            "a", trainer={"cpu": "1"}, trainers=(1, 3), pserver={"cpu": "1"}, master={"cpu": "1"}
        ),
    ),
    "pool": (POOL, builders.pool("a", selector={"x": "y"})),
    "pod": (by_name()["v1", "Pod"], builders.pod("a", cpu=1)),
    "node": (by_name()["v1", "Node"], builders.node("a")),
    "job": (by_name()["batch/v1", "Job"], builders.batch_job("a", T)),
    "class": (by_name()["scheduling.k8s.io/v1", "PriorityClass"], builders.priority_class("a", 5)),
    "pdb": (
        by_name()["policy/v1", "PodDisruptionBudget"],
        {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    ),
}

DNS = "must be a DNS label (a-z, 0-9 and -, at most 63 characters), not "
NAME = "must be a DNS name (a-z, 0-9, - and ., at most 253 characters), not "
COUNT = "must be a whole number from 1 to 100000, not "
RANKS = "must be a whole number from 1 to 5000, not "
LONG = "a" * 171
LONG_NAME = ["metadata.name: must have at most 170 characters in a job, not 171"]
LABEL = "must be letters, digits, -, _ and . (at most 63 characters), not "
QUALIFIED = "must be named [prefix/]name: a DNS name, then letters, digits, -, _ and . (at most 63), not "
CPU = "spec.containers[0].resources.requests.cpu: "

RANGE = "[0-9]{1,5}(-[0-9]{1,5})?"
INT32 = "must be a whole number from -2147483648 to 2147483647"
QUANTITY = "must be a quantity such as 500m, 2 or 1.5Gi, not "
POLICY = "must be one of BinPack, Gang, JobAffinity, JobAntiAffinity, LeaderFirst, MinFragment, not "
TIME = "must be a time such as 2026-01-31T12:00:00Z, not "
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
TERM = f"{TERMS}[0].matchExpressions[0]"

Row = tuple[str, str, dict[str, Any], list[str]]
ROWS: list[Row] = [
    # --- metadata ------------------------------------------------------------------------------------------
    ("no name", "pod", {"metadata.name": ABSENT}, ["metadata.name: is required"]),
    ("no metadata", "pod", {"metadata": ABSENT}, ["metadata: is required"]),
    ("a name that is not a string", "pod", {"metadata.name": 5}, ["metadata.name: must be a string, not 5"]),
    ("an empty name", "pod", {"metadata.name": ""}, [f"metadata.name: {NAME}''"]),
    ("capitals in the name", "pod", {"metadata.name": "Aa"}, [f"metadata.name: {NAME}'Aa'"]),
    ("an invalid namespace", "pod", {"metadata.namespace": "a.b"}, [f"metadata.namespace: {DNS}'a.b'"]),
    ("a job with a long name", "dijob", {"metadata.name": LONG[1:]}, []),
    ("a DIJob with too long a name", "dijob", {"metadata.name": LONG}, LONG_NAME),
    ("a TYJob with too long a name", "tyjob", {"metadata.name": LONG}, LONG_NAME),
    ("a TrainingJob with too long a name", "trainingjob", {"metadata.name": LONG}, LONG_NAME),
    (
        "a number as a label",
        "pod",
        {"metadata.labels": {"a": 5}},
        ["metadata.labels.a: must be a string, not 5"],
    ),
    (
        "an invalid label value",
        "pod",
        {"metadata.labels": {"a": "b c"}},
        [f"metadata.labels.a: {LABEL}'b c'"],
    ),
    (
        "an invalid label value with an invalid key",
        "pod",
        {"metadata.labels": {"a b": 5}},
        ["metadata.labels[a b]: must be a string, not 5", f"metadata.labels[a b]: {QUALIFIED}'a b'"],
    ),
    (
        "a superscript is not a digit",
        "pod",
        {"metadata.labels": {"1²1": "a"}},
        [f"metadata.labels[1²1]: {QUALIFIED}'1²1'"],
    ),
    (
        "a key of more digits than int() accepts",
        "pod",
        {"metadata.labels": {"1" * 5000: "a"}},
        [f"metadata.labels.{'1' * 5000}: {QUALIFIED}'{'1' * 60}…'"],
    ),
    (
        "numbers in keys are sorted as numbers",
        "pod",
        {"metadata.labels": dict.fromkeys(("a10", "a9", "a010", "a"), 5)},
        [f"metadata.labels.{key}: must be a string, not 5" for key in ("a", "a9", "a010", "a10")],
    ),
    (
        "a time without a zone",
        "pod",
        {"metadata.creationTimestamp": "2026-01-31T12:00:00"},
        [f"metadata.creationTimestamp: {TIME}'2026-01-31T12:00:00'"],
    ),
    (
        "null is the same as absent",
        "pod",
        {"metadata.labels": None, "spec.nodeName": None, "status": None},
        [],
    ),
    ("null in a required field", "pod", {"spec": None}, ["spec: is required"]),
    # --- pods ----------------------------------------------------------------------------------------------
    ("no containers", "pod", {"spec.containers": []}, ["spec.containers: must have at least 1 item"]),
    (
        "containers that are not a list",
        "pod",
        {"spec.containers": "x"},
        ["spec.containers: must be a list, not 'x'"],
    ),
    (
        "a negative amount",
        "pod",
        {"spec.containers.0.resources.requests": {"cpu": "-1"}},
        [f"{CPU}must be 0 or more, not '-1'"],
    ),
    (
        "an amount above the maximum of quantities",
        "pod",
        {"spec.containers.0.resources.requests": {"cpu": "1e400"}},
        [f"{CPU}must be at most 1Ei, not '1e400'"],
    ),
    (
        "more than any node has",
        "pod",
        {"spec.containers.0.resources.requests": {"cpu": "1E"}},
        [f"{CPU}must be at most 1T, which is more than any node has"],
    ),
    (
        "not a quantity",
        "pod",
        {"spec.containers.0.resources.requests": {"cpu": "x"}},
        [f"{CPU}{QUANTITY}'x'"],
    ),
    (
        "half a GPU",
        "pod",
        {"spec.containers.0.resources.limits": {"nvidia.com/gpu": "0.5"}},
        ["spec.containers[0].resources.limits[nvidia.com/gpu]: must be a whole number"],
    ),
    (
        "more than the limit",
        "pod",
        {"spec.containers.0.resources.limits": {"cpu": "500m"}},
        [f"{CPU}must not be more than the limit"],
    ),
    (
        "a request is not compared with an invalid limit",
        "pod",
        {"spec.containers.0.resources.limits": {"cpu": "x"}},
        [f"spec.containers[0].resources.limits.cpu: {QUANTITY}'x'"],
    ),
    (
        "an unknown operator: its values are not checked",
        "pod",
        {TERMS: [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]},
        [f"{TERM}.operator: must be one of DoesNotExist, Exists, Gt, In, Lt, NotIn, not 'Is'"],
    ),
    (
        "Gt requires a number",
        "pod",
        {TERMS: [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]},
        [f"{TERM}.values: must be one whole number when operator is Gt, not ['x']"],
    ),
    (
        "a port above 65535",
        "pod",
        {"spec.containers.0.ports": [{"hostPort": 70000}]},
        ["spec.containers[0].ports[0].hostPort: must be a whole number from 0 to 65535, not 70000"],
    ),
    (
        "a priority of more than 32 bits",
        "pod",
        {"spec.priority": 2**40},
        [f"spec.priority: {INT32}, not {2**40}"],
    ),
    # --- nodes, classes, budgets, batch Jobs ---------------------------------------------------------------
    (
        "negative allocatable resources",
        "node",
        {"status.allocatable": {"cpu": "-1"}},
        ["status.allocatable.cpu: must be 0 or more, not '-1'"],
    ),
    (
        "a taint without an effect",
        "node",
        {"spec.taints": [{"key": "a"}]},
        ["spec.taints[0].effect: is required"],
    ),
    ("a priority class without a value", "class", {"value": ABSENT}, ["value: is required"]),
    (
        "a priority class whose value is a string",
        "class",
        {"value": "high"},
        [f"value: {INT32}, not 'high'"],
    ),
    (
        "a budget with minAvailable and maxUnavailable",
        "pdb",
        {"spec.maxUnavailable": "5%"},
        ["spec: must have only one of minAvailable and maxUnavailable"],
    ),
    (
        "not a percentage",
        "pdb",
        {"spec.minAvailable": "5"},
        ["spec.minAvailable: must be a number of at least 0 or a percentage, not '5'"],
    ),
    (
        "a very long percentage",
        "pdb",
        {"spec.minAvailable": "9" * 5000 + "%"},
        [
            f"spec.minAvailable: must be a number of at least 0 or a percentage, not '{'9' * 60}…'",
        ],
    ),
    ("a percentage", "pdb", {"spec.minAvailable": "50%"}, []),
    (
        "an invalid minAvailable beside a maxUnavailable",
        "pdb",
        {"spec.minAvailable": [], "spec.maxUnavailable": 1},
        [
            "spec: must have only one of minAvailable and maxUnavailable",
            f"spec.minAvailable: {INT32} or a string, not a list",
        ],
    ),
    (
        "Indexed without completions",
        "job",
        {"spec.completionMode": "Indexed"},
        ["spec.completions: is required when completionMode is Indexed"],
    ),
    (
        "invalid indexes",
        "job",
        {"status.completedIndexes": "1-x"},
        ["status.completedIndexes: must be indices such as 0-2,5, not '1-x'"],
    ),
    (
        "an index above the limit",
        "job",
        {"status.failedIndexes": "0-2,10000000"},
        ["status.failedIndexes: must be indices such as 0-2,5, not '0-2,10000000'"],
    ),
    ("valid indexes", "job", {"status.completedIndexes": "0-2,5,7-9999999"}, []),
    ("a template without a spec", "job", {"spec.template": {}}, ["spec.template.spec: is required"]),
    # --- TYJob ---------------------------------------------------------------------------------------------
    (
        "no leader and no workers",
        "tyjob",
        {"spec": {}},
        ["spec.leader: is required", "spec.workerSets: is required"],
    ),
    (
        "invalid indexes in a TYJob",
        "tyjob",
        {"status.completed": {"w": "0-2,5,7-99999", "v": "1-x"}},
        [f"status.completed.v: must be like ^({RANGE}(,{RANGE})*)?$, not '1-x'"],
    ),
    ("no worker sets", "tyjob", {"spec.workerSets": []}, ["spec.workerSets: must have at least 1 item"]),
    (
        "no workers in a set",
        "tyjob",
        {"spec.workerSets.0.counts": 0},
        [f"spec.workerSets[0].counts: {COUNT}0"],
    ),
    (
        "a fraction of a worker",
        "tyjob",
        {"spec.workerSets.0.counts": 1.5},
        [f"spec.workerSets[0].counts: {COUNT}1.5"],
    ),
    (
        "a boolean instead of a number",
        "tyjob",
        {"spec.workerSets.0.counts": True},
        [f"spec.workerSets[0].counts: {COUNT}true"],
    ),
    (
        "a very large number",
        "tyjob",
        {"spec.workerSets.0.counts": 10**30},
        [f"spec.workerSets[0].counts: {COUNT}{10**30}"],
    ),
    (
        "a priority above 10",
        "tyjob",
        {"spec.priority": 11},
        ["spec.priority: must be a whole number from 1 to 10, not 11"],
    ),
    (
        "an unknown policy",
        "tyjob",
        {"spec.schedulerPolicy.basicPolicy": "Best"},
        [f"spec.schedulerPolicy.basicPolicy: {POLICY}'Best'"],
    ),
    (
        "a minimum above the number of workers",
        "tyjob",
        {"spec.minWorkersNum": 6},
        ["spec.minWorkersNum: must be at most the number of workers, 5"],
    ),
    (
        "a minimum is not compared with an invalid count",
        "tyjob",
        {"spec.minWorkersNum": 6, "spec.workerSets.0.counts": "x"},
        [f"spec.workerSets[0].counts: {COUNT}'x'"],
    ),
    (
        "a duplicate name",
        "tyjob",
        {"spec.workerSets.1.name": "w"},
        ["spec.workerSets[1].name: must be unique, and spec.workerSets[0] is named 'w' too"],
    ),
    (
        "a worker set with the name of the leader",
        "tyjob",
        {"spec.workerSets.1.name": "leader"},
        ["spec.workerSets[1].name: must be unique, and spec.leader is named 'leader' too"],
    ),
    (
        "the leader has the name of a worker's pod",
        "tyjob",
        {"spec.leader.name": "w-1"},
        ["spec.leader.name: must not be 'w-1', which is worker 1 of spec.workerSets[0]"],
    ),
    ("the leader has the name of no worker's pod", "tyjob", {"spec.leader.name": "w-2"}, []),
    ("the leader has almost the name of a worker's pod", "tyjob", {"spec.leader.name": "w-01"}, []),
    (
        "a name that is not a DNS label",
        "tyjob",
        {"spec.leader.name": "a_b"},
        [f"spec.leader.name: {DNS}'a_b'"],
    ),
    (
        "errors of types, values and templates at once",
        "tyjob",
        {
            "metadata.name": "A",
            "spec.restartLimit": -1,
            "spec.leader.name": "v",
            "spec.leader.template": {
                "spec": {"containers": [{"resources": {"requests": {"cpu": "x", "a/b": "0.5"}}}]}
            },
            "spec.workerSets.0.counts": "two",
            "spec.workerSets.0.template": {"spec": {"containers": []}},
        },
        [
            f"metadata.name: {NAME}'A'",
            f"spec.leader.template.spec.containers[0].resources.requests.cpu: {QUANTITY}'x'",
            "spec.leader.template.spec.containers[0].resources.requests[a/b]: must be a whole number",
            "spec.restartLimit: must be a whole number from 0 to 100000, not -1",
            f"spec.workerSets[0].counts: {COUNT}'two'",
            "spec.workerSets[0].template.spec.containers: must have at least 1 item",
            "spec.workerSets[1].name: must be unique, and spec.leader is named 'v' too",
        ],
    ),
    # --- DIJob ---------------------------------------------------------------------------------------------
    (
        "neither template nor tasks",
        "dijob",
        {"spec.template": ABSENT},
        ["spec: must have exactly one of template and tasks"],
    ),
    (
        "template and tasks",
        "tasks",
        {"spec.template": T},
        ["spec: must have exactly one of template and tasks"],
    ),
    (
        "template and tasks, one of them invalid",
        "tasks",
        {"spec.template": 5},
        ["spec: must have exactly one of template and tasks", "spec.template: must be a mapping, not 5"],
    ),
    ("tasks that are not a list", "tasks", {"spec.tasks": "x"}, ["spec.tasks: must be a list, not 'x'"]),
    (
        "max below min",
        "dijob",
        {"spec.minReplicas": 4, "spec.maxReplicas": 2},
        ["spec.maxReplicas: must be at least minReplicas, 4"],
    ),
    (
        "max is not compared with an invalid min",
        "dijob",
        {"spec.minReplicas": "x", "spec.maxReplicas": 2},
        ["spec.minReplicas: must be a whole number from 0 to 5000, not 'x'"],
    ),
    ("maxReplicas of 0", "dijob", {"spec.maxReplicas": 0}, [f"spec.maxReplicas: {RANKS}0"]),
    (
        "as many ranks as possible",
        "dijob",
        {"spec.minReplicas": 5000, "spec.maxReplicas": 5000},
        [],
    ),
    (
        "too many ranks",
        "dijob",
        {"spec.minReplicas": 5001, "spec.maxReplicas": 5001},
        [
            f"spec.maxReplicas: {RANKS}5001",
            "spec.minReplicas: must be a whole number from 0 to 5000, not 5001",
        ],
    ),
    (
        "too many ranks of one task",
        "tasks",
        {"spec.tasks.1.replicas": 5001},
        [f"spec.tasks[1].replicas: {RANKS}5001"],
    ),
    (
        "too many ranks of all tasks",
        "tasks",
        {"spec.tasks.0.replicas": 1, "spec.tasks.1.replicas": 5000},
        ["spec.tasks: must have at most 5000 replicas in all, not 5001"],
    ),
    ("minReplicas of 0", "dijob", {"spec.minReplicas": 0}, []),
    (
        "an unknown topology",
        "dijob",
        {"spec.engineFields": {"topology": "ring"}},
        ["spec.engineFields.topology: must be one of alone, mesh, star, not 'ring'"],
    ),
    (
        "no parallel workers",
        "dijob",
        {"spec.engineFields": {"parallelWorkers": 0}},
        [f"spec.engineFields.parallelWorkers: {COUNT}0"],
    ),
    ("a group that is not a label value", "dijob", {"spec.group": "a b"}, [f"spec.group: {LABEL}'a b'"]),
    (
        "two learners",
        "tasks",
        {"spec.tasks.1.type": "learner"},
        ["spec.tasks[1].type: must be unique, and spec.tasks[0] is a learner too"],
    ),
    (
        "two learners without names",
        "tasks",
        {"spec.tasks.1.type": "learner", "spec.tasks.1.name": ABSENT},
        ["spec.tasks[1].type: must be unique, and spec.tasks[0] is a learner too"],
    ),
    (
        "the type of another task as name",
        "tasks",
        {"spec.tasks.1.name": "learner"},
        ["spec.tasks[1].name: must be unique, and spec.tasks[0] is named 'learner' too"],
    ),
    (
        "a task without name or type",
        "tasks",
        {"spec.tasks.1.name": ABSENT},
        ["spec.tasks[1].name: is required for a task of type none"],
    ),
    (
        "an unknown type requires no name",
        "tasks",
        {"spec.tasks.1.name": ABSENT, "spec.tasks.1.type": "x"},
        ["spec.tasks[1].type: must be one of collector, evaluator, learner, none, not 'x'"],
    ),
    # --- TrainingJob ---------------------------------------------------------------------------------------
    ("no trainer", "trainingjob", {"spec.trainer": ABSENT}, ["spec.trainer: is required"]),
    (
        "max below min",
        "trainingjob",
        {"spec.trainer.min-instance": 5},
        ["spec.trainer.max-instance: must be at least min-instance, 5"],
    ),
    (
        "pservers: max below min",
        "trainingjob",
        {"spec.pserver.min-instance": 5},
        ["spec.pserver.max-instance: must be at least min-instance, 5"],
    ),
    (
        "max is not compared with an invalid min",
        "trainingjob",
        {"spec.trainer.min-instance": []},
        [f"spec.trainer.min-instance: {COUNT}a list"],
    ),
    (
        "no minimum",
        "trainingjob",
        {"spec.trainer.min-instance": ABSENT},
        ["spec.trainer.min-instance: is required"],
    ),
    (
        "ports above 65535",
        "trainingjob",
        {"spec.port": 65000, "spec.ports_num": 600},
        ["spec.port: must leave room for all ports, and the last would be 65600"],
    ),
    (
        "the capital spelling of nodeSelector",
        "trainingjob",
        {"spec.NodeSelector": {"a": 5}},
        ["spec.nodeSelector.a: must be a string, not 5"],
    ),
    (
        "a role with invalid resources",
        "trainingjob",
        {"spec.master.resources.requests": {"cpu": []}},
        [f"spec.master.resources.requests.cpu: {QUANTITY}a list"],
    ),
    # --- Pool ----------------------------------------------------------------------------------------------
    (
        "labels beside matchLabels: the selector would select everything",
        "pool",
        {"spec.nodeSelector": {"pool": "gpu"}},
        ["spec.nodeSelector.pool: is not known"],
    ),
    (
        "an operator without values",
        "pool",
        {"spec.nodeSelector.matchExpressions": [{"key": "a", "operator": "In"}]},
        ["spec.nodeSelector.matchExpressions[0].values: must have at least one value when operator is In"],
    ),
    (
        "a default pool with a selector",
        "pool",
        {"metadata.name": "default"},
        ["spec.nodeSelector: must be absent: the default pool has all nodes that are in no other pool"],
    ),
    (
        "a string instead of a boolean",
        "pool",
        {"spec.disableSharing": "yes"},
        ["spec.disableSharing: must be true or false, not 'yes'"],
    ),
    (
        "an unknown order",
        "pool",
        {"spec.order": "Any"},
        ["spec.order: must be one of BorrowFirst, PreemptFirst, not 'Any'"],
    ),
    (
        "invalid resource names",
        "pool",
        {"spec.nodeResources": ["a b"]},
        [f"spec.nodeResources[0]: {QUALIFIED}'a b'"],
    ),
    ("unknown fields are kept", "pool", {"spec.colour": "red"}, []),
]


def patched(raw: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with some fields, given by their paths, replaced or removed."""
    result = copy.deepcopy(raw)
    for path, value in patch.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        parent: Any = result
        for part in parents:
            parent = parent[part] if isinstance(part, int) else parent.setdefault(part, {})
        if value is ABSENT:
            parent.pop(last, None)
        else:
            parent[last] = value
    return result


def errors_of(kind: Kind, raw: dict[str, Any]) -> list[str]:
    try:
        kinds.read(kind, raw)
    except InvalidObjectError as problem:
        return [str(error) for error in problem.errors]
    return []


@pytest.mark.parametrize("name", VALID)
def test_valid_objects_have_no_errors(name: str) -> None:
    assert errors_of(*VALID[name]) == []


@pytest.mark.parametrize("sentence, name, patch, errors", ROWS, ids=[f"{row[1]}: {row[0]}" for row in ROWS])
def test_rules(sentence: str, name: str, patch: dict[str, Any], errors: list[str]) -> None:
    kind, raw = VALID[name]
    assert errors_of(kind, patched(raw, patch)) == errors, sentence


def test_templates_are_kept_as_they_were_written() -> None:
    template = {**T, "extra": {"null": None, "list": [1, {"a": None}]}}
    job = kinds.read(DIJOB, builders.dijob("a", template) | {"status": None})
    assert job.spec.template == template  # type: ignore[attr-defined]


def test_all_errors_of_a_template_are_reported() -> None:
    raw = {
        "metadata": {"labels": {"a": 5, "b c": "d"}},
        "spec": {"containers": [], "overhead": {"cpu": "-1"}},
    }
    with pytest.raises(InvalidObjectError) as caught:
        decode_template(raw, "t")
    assert [error.path for error in caught.value.errors] == [
        "t.metadata.labels.a",
        "t.metadata.labels[b c]",
        "t.spec.containers",
        "t.spec.overhead.cpu",
    ]


def test_errors_are_in_the_order_of_the_list() -> None:
    containers = [{"resources": 5}] * 12
    raw = builders.pod("a", spec={"containers": containers})
    assert errors_of(VALID["pod"][0], raw) == [
        f"spec.containers[{i}].resources: must be a mapping, not 5" for i in range(12)
    ]


def test_the_namespace_defaults_to_default() -> None:
    kind, raw = VALID["pod"]
    assert kinds.read(kind, patched(raw, {"metadata.namespace": ABSENT})).metadata.namespace == "default"
    kind, raw = VALID["node"]
    assert not kinds.read(kind, raw).metadata.namespace


def test_capital_spellings_are_accepted() -> None:
    kind, raw = VALID["trainingjob"]
    job: Any = kinds.read(
        kind, patched(raw, {"spec.NodeSelector": {"a": "b"}, "spec.VolumeMounts": [{"name": "x"}]})
    )
    assert (job.spec.node_selector, job.spec.volume_mounts) == ({"a": "b"}, ({"name": "x"},))
    both = patched(raw, {"spec.NodeSelector": {"a": "b"}, "spec.nodeSelector": {"c": "d"}})
    job = kinds.read(kind, both)
    assert job.spec.node_selector == {"c": "d"}
    assert kinds.unknown_spec_fields(kind, both) == ["spec.NodeSelector"]
