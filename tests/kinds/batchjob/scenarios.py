"""Scenarios of Jobs, as data: run with our controller and with that of Kubernetes, with the same outcome.

A scenario is a spec and steps; after each step the expected outcome is waited for. There is no kubelet: the
steps write the status of pods.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.api.core import INDEX_KEY
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.resources import JOBS, PODS, Object

NAME = "j"
TIMEOUT = 60.0
"""Seconds to wait for an outcome."""

Act = Callable[[Cluster, str], Awaitable[object]]
Expected = Mapping[str, Any]
Step = tuple[Act, Expected]


@dataclass(frozen=True)
class Scenario:
    """A Job, and what happens to it; `begin` is the outcome of its creation."""

    spec: Object
    begin: Expected
    steps: tuple[Step, ...] = ()
    restart: str = "Never"


# --- steps -------------------------------------------------------------------------------------------


def end(phase: str, *, index: int | None = None, code: int = 1, condition: str = "") -> Act:
    """End one of the active pods: the first, or that of an index."""

    async def act(cluster: Cluster, namespace: str) -> None:
        pod = await _active(cluster, namespace, index)
        ended = {"exitCode": 0 if phase == "Succeeded" else code, "finishedAt": _past_time(pod)}
        status = {"phase": phase, "containerStatuses": [_container({"terminated": ended})]}
        if condition:
            added = {
                "type": condition,
                "status": "True",
                "reason": "Test",
                "lastTransitionTime": _past_time(pod),
            }
            status["conditions"] = [*(pod["status"].get("conditions") or ()), added]
        await _write_status(cluster, pod, status)

    return act


def run(*, restarts: int = 0) -> Act:
    """Let one of the active pods run, with a restart count."""

    async def act(cluster: Cluster, namespace: str) -> None:
        pod = await _active(cluster, namespace, None)
        ready = {"type": "Ready", "status": "True"}
        container = _container({"running": {}}) | {"restartCount": restarts}
        status = {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
        await _write_status(cluster, pod, status)

    return act


def change(**spec: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Change the spec of the Job."""

    async def act(cluster: Cluster, namespace: str) -> None:
        await cluster.patch(JOBS, NAME, namespace, patch={"spec": spec})

    return act


def delete_pod(*, index: int | None = None) -> Act:
    """Delete one of the active pods, as a user would."""

    async def act(cluster: Cluster, namespace: str) -> None:
        pod = await _active(cluster, namespace, index)
        await cluster.delete(PODS, pod["metadata"]["name"], namespace)
        await _gone(cluster, namespace, pod["metadata"]["uid"])

    return act


async def _gone(cluster: Cluster, namespace: str, uid: str) -> None:
    for _ in range(100):
        if uid not in {one["metadata"]["uid"] for one in await _pods(cluster, namespace)}:
            return
        await asyncio.sleep(0.2)


def _container(state: Object) -> Object:
    return {
        "name": "main",
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }


def _past_time(pod: Object) -> str:
    """A time that is past by any clock: that of the creation of the pod."""
    return str(pod["metadata"]["creationTimestamp"])


async def _active(cluster: Cluster, namespace: str, index: int | None) -> Object:
    found = [
        pod
        for pod in await _pods(cluster, namespace)
        if "deletionTimestamp" not in pod["metadata"]
        and pod["status"]["phase"] in ("Pending", "Running")
        and index in (None, int(pod["metadata"].get("annotations", {}).get(INDEX_KEY, -1)))
    ]
    return min(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


async def _write_status(cluster: Cluster, pod: Object, status: Object) -> None:
    """Write the status of a pod, as its kubelet would; others may write at the same time."""
    metadata = pod["metadata"]
    await cluster.patch_status(PODS, metadata["name"], metadata["namespace"], patch={"status": status})


# --- outcomes ---------------------------------------------------------------------------------------


async def outcome(cluster: Cluster, namespace: str) -> Object:
    """The status of the Job and its pods, in short."""
    try:
        job = await cluster.get(JOBS, NAME, namespace)
    except NotFoundError:
        return {"gone": True}
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    pods = await _pods(cluster, namespace)
    return {
        "active": status.get("active", 0),
        "ready": status.get("ready", 0),
        "succeeded": status.get("succeeded", 0),
        "failed": status.get("failed", 0),
        "terminating": status.get("terminating", 0),
        "completed": status.get("completedIndexes", ""),
        "failed indexes": status.get("failedIndexes"),
        "started": "startTime" in status,
        "ended": "completionTime" in status,
        "conditions": sorted(
            f"{one['type']}={one['status']} {one.get('reason', '')}" for one in status.get("conditions") or ()
        ),
        "uncounted": sum(len(some or ()) for some in uncounted.values()),
        "pods": dict(Counter(_describe(pod) for pod in pods)),
    }


def _describe(pod: Object) -> str:
    """Phase, index, host name and finalizer of a pod. Its name is not compared: it differs by controller."""
    index = pod["metadata"].get("annotations", {}).get(INDEX_KEY)
    host = pod["spec"].get("hostname", "")
    tracked = " tracked" if pod["metadata"].get("finalizers") else ""
    return f"{pod['status']['phase']}{f' {index} {host}' if index else ''}{tracked}"


async def _pods(cluster: Cluster, namespace: str) -> list[Object]:
    return (await cluster.list(PODS, Selector(namespace))).items


async def run_scenario(cluster: Cluster, namespace: str, scenario: Scenario) -> list[Object]:
    """Return the outcome of each step: as expected, or as it was after the timeout."""
    template = {
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": scenario.restart}
    }
    body = {
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"template": template} | scenario.spec,
    }
    await cluster.create(JOBS, body)
    seen = [await _await_outcome(cluster, namespace, scenario.begin)]
    for act, expected in scenario.steps:
        with suppress(ConflictError):
            await act(cluster, namespace)
        seen.append(await _await_outcome(cluster, namespace, expected))
    return seen


async def _await_outcome(cluster: Cluster, namespace: str, expected: Expected) -> Object:
    now = asyncio.get_running_loop().time
    deadline = now() + TIMEOUT
    while True:
        seen = await outcome(cluster, namespace)
        if matches(seen, expected) or now() > deadline:
            return seen
        await asyncio.sleep(0.2)


def matches(seen: Object, expected: Expected) -> bool:
    return all(seen.get(name) == value for name, value in expected.items())


# --- the table ----------------------------------------------------------------------------------------------

DONE = {"conditions": ["Complete=True CompletionsReached", "SuccessCriteriaMet=True CompletionsReached"]}
COMPLETE = DONE | {"active": 0, "uncounted": 0, "ended": True}
SUSPENDED = ["Suspended=True JobSuspended"]
RESUMED = "Suspended=False JobResumed"
INDEXED = {"completionMode": "Indexed"}
ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
ON_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def failed(reason: str, **more: Any) -> Expected:  # noqa: ANN401 - other parts of the outcome
    conditions = [f"Failed=True {reason}", f"FailureTarget=True {reason}"]
    return {"conditions": conditions, "active": 0, "uncounted": 0, "ended": False} | more


SCENARIOS = {
    "one pod that succeeds": Scenario(
        {},
        {"active": 1, "started": True, "pods": {"Pending tracked": 1}},
        ((end("Succeeded"), COMPLETE | {"succeeded": 1, "pods": {"Succeeded": 1}}),),
    ),
    "three completions, parallelism two": Scenario(
        {"completions": 3, "parallelism": 2},
        {"active": 2},
        (
            (end("Succeeded"), {"succeeded": 1, "active": 2, "pods": {"Succeeded": 1, "Pending tracked": 2}}),
            (end("Succeeded"), {"succeeded": 2, "active": 1}),
            (end("Succeeded"), COMPLETE | {"succeeded": 3, "pods": {"Succeeded": 3}}),
        ),
    ),
    "a work queue is complete when one pod succeeds and the others have ended": Scenario(
        {"parallelism": 2},
        {"active": 2},
        (
            (end("Succeeded"), {"succeeded": 1, "active": 1, "pods": {"Succeeded": 1, "Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"succeeded": 2}),
        ),
    ),
    "indexes start in order and complete in any order": Scenario(
        INDEXED | {"completions": 4, "parallelism": 2},
        {"active": 2, "pods": {"Pending 0 j-0 tracked": 1, "Pending 1 j-1 tracked": 1}},
        (
            (end("Succeeded", index=1), {"completed": "1", "active": 2}),
            (end("Succeeded", index=2), {"completed": "1,2", "active": 2}),
            (
                end("Succeeded", index=3),
                {
                    "completed": "1-3",
                    "active": 1,
                    "pods": {
                        "Pending 0 j-0 tracked": 1,
                        "Succeeded 1 j-1": 1,
                        "Succeeded 2 j-2": 1,
                        "Succeeded 3 j-3": 1,
                    },
                },
            ),
            (end("Succeeded", index=0), COMPLETE | {"completed": "0-3", "succeeded": 4}),
        ),
    ),
    "no completions": Scenario({"completions": 0}, COMPLETE | {"succeeded": 0, "pods": {}}),
    "when the back-off limit is exceeded all active pods fail": Scenario(
        {"backoffLimit": 0, "completions": 2, "parallelism": 2},
        {"active": 2},
        ((end("Failed"), failed("BackoffLimitExceeded", failed=2, pods={"Failed": 1})),),
    ),
    "a failed pod is replaced after the back-off": Scenario(
        {"backoffLimit": 1},
        {"active": 1},
        (
            (end("Failed"), {"failed": 1, "active": 1, "pods": {"Failed": 1, "Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"failed": 1, "succeeded": 1}),
        ),
    ),
    "a failed index is retried": Scenario(
        INDEXED | {"completions": 2, "parallelism": 2},
        {"active": 2},
        (
            (
                end("Failed", index=0),
                {
                    "failed": 1,
                    "active": 2,
                    "pods": {"Failed 0 j-0": 1, "Pending 0 j-0 tracked": 1, "Pending 1 j-1 tracked": 1},
                },
            ),
            (end("Succeeded", index=0), {"completed": "0"}),
            (end("Succeeded", index=1), COMPLETE | {"completed": "0,1", "failed": 1}),
        ),
    ),
    "the deadline is exceeded": Scenario(
        {"activeDeadlineSeconds": 2}, failed("DeadlineExceeded", failed=1, pods={})
    ),
    "created suspended, then resumed": Scenario(
        {"suspend": True},
        {"conditions": SUSPENDED, "active": 0, "started": False, "pods": {}},
        (
            (change(suspend=False), {"conditions": [RESUMED], "active": 1, "started": True}),
            (end("Succeeded"), {"conditions": [*DONE["conditions"], RESUMED], "succeeded": 1, "ended": True}),
        ),
    ),
    "suspended while running, without a failure": Scenario(
        {"completions": 3, "parallelism": 2, "backoffLimit": 0},
        {"active": 2},
        (
            (end("Succeeded"), {"succeeded": 1, "active": 2}),
            (
                change(suspend=True),
                {"active": 0, "failed": 0, "conditions": SUSPENDED, "pods": {"Succeeded": 1}},
            ),
            (change(suspend=False), {"active": 2, "failed": 0, "conditions": [RESUMED], "started": True}),
        ),
    ),
    "parallelism is raised and lowered": Scenario(
        {"completions": 9, "parallelism": 1},
        {"active": 1},
        (
            (change(parallelism=3), {"active": 3, "pods": {"Pending tracked": 3}}),
            (change(parallelism=1), {"active": 1, "failed": 0, "pods": {"Pending tracked": 1}}),
            (change(parallelism=0), {"active": 0, "failed": 0, "pods": {}}),
        ),
    ),
    "completions are lowered": Scenario(
        INDEXED | {"completions": 3, "parallelism": 3},
        {"active": 3},
        (
            (end("Succeeded", index=2), {"completed": "2", "active": 2}),
            (change(parallelism=1, completions=1), {"active": 1, "completed": "", "succeeded": 0}),
            (end("Succeeded", index=0), COMPLETE | {"completed": "0", "succeeded": 1}),
        ),
    ),
    "container restarts reach the back-off limit": Scenario(
        {"backoffLimit": 2},
        {"active": 1},
        (
            (run(restarts=1), {"active": 1, "ready": 1}),
            (run(restarts=2), failed("BackoffLimitExceeded", failed=1, pods={})),
        ),
        restart="OnFailure",
    ),
    "an exit code with the action FailJob": Scenario(
        {"parallelism": 2, "completions": 2, "podFailurePolicy": {"rules": [ON_42]}},
        {"active": 2},
        ((end("Failed", code=42), failed("PodFailurePolicy", pods={"Failed": 1})),),
    ),
    "a disruption that is ignored": Scenario(
        {"backoffLimit": 0, "podFailurePolicy": {"rules": [ON_DISRUPTION]}},
        {"active": 1},
        (
            (
                end("Failed", condition="DisruptionTarget"),
                {"active": 1, "failed": 0, "uncounted": 0, "pods": {"Failed": 1, "Pending tracked": 1}},
            ),
            (end("Succeeded"), COMPLETE | {"failed": 0, "succeeded": 1}),
        ),
    ),
    "a failed index does not stop the others": Scenario(
        INDEXED | {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0},
        {"active": 2, "failed indexes": ""},
        (
            (end("Failed", index=0), {"failed indexes": "0", "active": 1, "failed": 1}),
            (end("Succeeded", index=1), failed("FailedIndexes", completed="1", failed=1, succeeded=1)),
        ),
    ),
    "back-off limit per index": Scenario(
        INDEXED | {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1},
        {"active": 2},
        (
            (end("Failed", index=0), {"active": 2, "failed": 1, "failed indexes": ""}),
            (end("Failed", index=0), {"active": 1, "failed": 2, "failed indexes": "0"}),
        ),
    ),
    "too many failed indexes": Scenario(
        INDEXED | {"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
        {"active": 3},
        ((end("Failed", index=1), failed("MaxFailedIndexesExceeded", failed=3, completed="")),),
    ),
    "a success policy with one index": Scenario(
        INDEXED
        | {"completions": 3, "parallelism": 3, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}},
        {"active": 3},
        (
            (
                end("Succeeded", index=1),
                {
                    "conditions": ["Complete=True SuccessPolicy", "SuccessCriteriaMet=True SuccessPolicy"],
                    "completed": "1",
                    "succeeded": 1,
                    "failed": 0,
                    "active": 0,
                    "pods": {"Succeeded 1 j-1": 1},
                },
            ),
        ),
    ),
    "deleted when the time to live is over": Scenario(
        {"ttlSecondsAfterFinished": 1}, {"active": 1}, ((end("Succeeded"), {"gone": True}),)
    ),
    "managed by another controller": Scenario(
        {"managedBy": "example.com/other"}, {"active": 0, "started": False, "conditions": [], "pods": {}}
    ),
}
"""Outcomes are the same with Kubernetes."""

SHOAL_SCENARIOS = {
    "a deleted pod has not failed, and is replaced": Scenario(
        {"backoffLimit": 0},
        {"active": 1},
        (
            (delete_pod(), {"active": 1, "failed": 0, "uncounted": 0, "pods": {"Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"failed": 0, "succeeded": 1}),
        ),
    ),
    "an evicted pod has not failed, also without a failure policy": Scenario(
        INDEXED | {"backoffLimit": 0, "completions": 1},
        {"active": 1},
        (
            (
                end("Failed", condition="DisruptionTarget"),
                {"active": 1, "failed": 0, "pods": {"Failed 0 j-0": 1, "Pending 0 j-0 tracked": 1}},
            ),
            (end("Succeeded"), COMPLETE | {"failed": 0, "completed": "0"}),
        ),
    ),
}
"""Scenarios in which Kubernetes would count a failure."""
