"""`shoal describe` of jobs: the table of pods, with what the status of each kind tells of them."""

from typing import Any

import pytest

from shoal.cli.output.describe.common import NONE
from shoal.cli.output.describe.table import pod_table
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.kinds.base import PodSummary, job_kinds

NOW = 1_800_000_000.0


def pod(name: str, *, phase: str = "Running", restarts: int = 0, **metadata: Any) -> Object:  # noqa: ANN401 - fields of metadata
    return {
        "metadata": {"name": name, "creationTimestamp": format_time(NOW - 60), **metadata},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": [{"restartCount": restarts}]},
    }


FAILED: Object = {
    "phase": "Failed",
    "containerStatuses": [
        {"name": "sidecar", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
        {"name": "main", "restartCount": 1, "state": {"terminated": {"exitCode": 7}}},
    ],
}
PLACE = ["n", "10.0.0.1"]
NOWHERE = [NONE, NONE]
TABLES: dict[str, tuple[list[Object], list[PodSummary], list[list[object]]]] = {
    "pods of which the status tells nothing are in the order of their names": (
        [pod("b", restarts=2), pod("a")],
        [],
        [
            ["Name", "Status", "Node", "IP", "Restarts", "Age"],
            ["a", "Running", *PLACE, 0, "60s"],
            ["b", "Running", *PLACE, 2, "60s"],
        ],
    ),
    "ranks are in order, and a pod without rank is last": (
        [pod("x-0-10"), pod("x-0-2"), pod("a")],
        [PodSummary(pod="x-0-10", rank=10), PodSummary(pod="x-0-2", rank=2)],
        [
            ["Rank", "Name", "Status", "Node", "IP", "Restarts", "Age"],
            [2, "x-0-2", "Running", *PLACE, 0, "60s"],
            [10, "x-0-10", "Running", *PLACE, 0, "60s"],
            [NONE, "a", "Running", *PLACE, 0, "60s"],
        ],
    ),
    "restarts are those of the rank and of the containers of its pod": (
        [pod("x-1-0", phase="Failed", restarts=1)],
        [PodSummary(pod="x-1-0", rank=0, restarts=3, reason="exit 3")],
        [
            ["Rank", "Name", "Status", "Node", "IP", "Restarts", "Age", "Reason"],
            [0, "x-1-0", "Failed", *PLACE, 4, "60s", "exit 3"],
        ],
    ),
    "a failed pod of which the status tells no reason has the exit code of its container": (
        [pod("a", phase="Failed") | {"status": FAILED}],
        [PodSummary(pod="a", rank=0)],
        [
            ["Rank", "Name", "Status", "Node", "IP", "Restarts", "Age", "Reason"],
            [0, "a", "Failed", "n", NONE, 1, "60s", "exit 7"],
        ],
    ),
    "a pod that a node refused has the reason of the pod": (
        [pod("a", phase="Failed") | {"status": {"phase": "Failed", "reason": "OutOfcpu"}}],
        [],
        [
            ["Name", "Status", "Node", "IP", "Restarts", "Age", "Reason"],
            ["a", "Failed", "n", NONE, 0, "60s", "OutOfcpu"],
        ],
    ),
    "a rank without pod is shown": (
        [],
        [PodSummary(pod="", rank=0), PodSummary(pod="x-0-1", rank=1, phase="Succeeded")],
        [
            ["Rank", "Name", "Status", "Node", "IP", "Restarts", "Age"],
            [0, NONE, NONE, *NOWHERE, 0, NONE],
            [1, "x-0-1", "Succeeded", *NOWHERE, 0, NONE],
        ],
    ),
    "a pod that is being deleted is terminating, whatever its phase is": (
        [pod("a", deletionTimestamp=format_time(NOW))],
        [],
        [
            ["Name", "Status", "Node", "IP", "Restarts", "Age"],
            ["a", "Terminating", *PLACE, 0, "60s"],
        ],
    ),
    "a job without pods has only a header": (
        [],
        [],
        [["Name", "Status", "Node", "IP", "Restarts", "Age"]],
    ),
}


@pytest.mark.parametrize("pods, summaries, expected", TABLES.values(), ids=TABLES)
def test_table_of_pods(pods: list[Object], summaries: list[PodSummary], expected: list[list[object]]) -> None:
    assert pod_table({one["metadata"]["name"]: one for one in pods}, summaries, NOW) == expected


SUMMARIES: dict[str, tuple[str, Object, list[PodSummary]]] = {
    "workers of a DIJob": (
        "DIJob",
        {
            "metadata": {"name": "x"},
            "status": {
                "workers": [
                    {"rank": 0, "pod": "x-0-0", "phase": "Succeeded"},
                    {"rank": 1, "pod": "x-2-1", "phase": "Running", "restarts": 2, "reason": ""},
                    {"rank": 2, "pod": "x-0-2", "phase": "Failed", "restarts": 1, "reason": "exit 3"},
                    {"rank": 3},
                ]
            },
        },
        [
            PodSummary(pod="x-0-0", rank=0, phase="Succeeded"),
            PodSummary(pod="x-2-1", rank=1, restarts=2),
            PodSummary(pod="x-0-2", rank=2, phase="Failed", restarts=1, reason="exit 3"),
            PodSummary(pod="", rank=3),
        ],
    ),
    "restarted slots of a TYJob": (
        "TYJob",
        {"metadata": {"name": "x"}, "status": {"restarts": {"learner": 1, "actor-3": 2}}},
        [PodSummary(pod="x-learner", restarts=1), PodSummary(pod="x-actor-3", restarts=2)],
    ),
    "a TrainingJob: nothing of single pods": ("TrainingJob", {"metadata": {"name": "x"}, "status": {}}, []),
    "a DIJob without status": ("DIJob", {"metadata": {"name": "x"}}, []),
    "a TYJob without status": ("TYJob", {"metadata": {"name": "x"}}, []),
}


@pytest.mark.parametrize("kind, manifest, expected", SUMMARIES.values(), ids=SUMMARIES)
def test_what_a_status_tells_of_its_pods(kind: str, manifest: Object, expected: list[PodSummary]) -> None:
    assert list(job_kinds()[kind].pod_summaries(manifest)) == expected
