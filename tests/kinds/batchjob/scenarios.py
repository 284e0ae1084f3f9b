"""Lives of Jobs, as data: played on our controllers and on those of Kubernetes, with the same outcome.

A scenario is a spec and steps; after each step it is waited for what is to come of it. Pods have no kubelet:
their lives are played by writing their status.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.api.batch import INDEX_KEY
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Where
from shoal.cluster.resources import JOBS, PODS, Object

NAME = "j"
PATIENCE = 60.0
"""Seconds after which what has not come about will not."""

Act = Callable[[Cluster, str], Awaitable[object]]
Expected = Mapping[str, Any]
Step = tuple[Act, Expected]


@dataclass(frozen=True)
class Scenario:
    """A Job, and what happens to it; `begin` is what comes of making it."""

    spec: Object
    begin: Expected
    steps: tuple[Step, ...] = ()
    restart: str = "Never"


# --- what happens -------------------------------------------------------------------------------------------


def end(phase: str, *, index: int | None = None, code: int = 1, condition: str = "") -> Act:
    """One of the active pods ends: the first, or that of an index."""

    async def act(cluster: Cluster, namespace: str) -> None:
        pod = await _active(cluster, namespace, index)
        ended = {"exitCode": 0 if phase == "Succeeded" else code, "finishedAt": _just_now(pod)}
        status = {"phase": phase, "containerStatuses": [_container({"terminated": ended})]}
        if condition:
            told = {
                "type": condition,
                "status": "True",
                "reason": "Test",
                "lastTransitionTime": _just_now(pod),
            }
            status["conditions"] = [*(pod["status"].get("conditions") or ()), told]
        await _say(cluster, pod, status)

    return act


def run(*, restarts: int = 0) -> Act:
    """One of the active pods runs, and has been started again so often."""

    async def act(cluster: Cluster, namespace: str) -> None:
        pod = await _active(cluster, namespace, None)
        ready = {"type": "Ready", "status": "True"}
        container = _container({"running": {}}) | {"restartCount": restarts}
        status = {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
        await _say(cluster, pod, status)

    return act


def change(**spec: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Somebody changes the Job."""

    async def act(cluster: Cluster, namespace: str) -> None:
        await cluster.patch(JOBS, NAME, namespace, patch={"spec": spec})

    return act


def take(*, index: int | None = None) -> Act:
    """Somebody deletes one of the active pods."""

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


def _just_now(pod: Object) -> str:
    """A moment that has passed on any clock: pods without a life of their own end when they are made."""
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


async def _say(cluster: Cluster, pod: Object, status: Object) -> None:
    """Write the status of a pod, as its node would; others may write at the same time."""
    metadata = pod["metadata"]
    await cluster.patch_status(PODS, metadata["name"], metadata["namespace"], patch={"status": status})


# --- what comes of it ---------------------------------------------------------------------------------------


async def outcome(cluster: Cluster, namespace: str) -> Object:
    """What can be seen of the Job."""
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
        "given up": status.get("failedIndexes"),
        "started": "startTime" in status,
        "ended": "completionTime" in status,
        "conditions": sorted(
            f"{one['type']}={one['status']} {one.get('reason', '')}" for one in status.get("conditions") or ()
        ),
        "uncounted": sum(len(some or ()) for some in uncounted.values()),
        "pods": dict(Counter(_seen(pod) for pod in pods)),
    }


def _seen(pod: Object) -> str:
    """What can be seen of a pod; the index with it, and not the name, which is nobody's business."""
    index = pod["metadata"].get("annotations", {}).get(INDEX_KEY)
    host = pod["spec"].get("hostname", "")
    tracked = " tracked" if pod["metadata"].get("finalizers") else ""
    return f"{pod['status']['phase']}{f' {index} {host}' if index else ''}{tracked}"


async def _pods(cluster: Cluster, namespace: str) -> list[Object]:
    return (await cluster.list(PODS, Where(namespace))).items


async def play(cluster: Cluster, namespace: str, scenario: Scenario) -> list[Object]:
    """What came of each step, when it was as expected or would never be."""
    template = {
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": scenario.restart}
    }
    body = {
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"template": template} | scenario.spec,
    }
    await cluster.create(JOBS, body)
    seen = [await _awaited(cluster, namespace, scenario.begin)]
    for act, expected in scenario.steps:
        with suppress(ConflictError):
            await act(cluster, namespace)
        seen.append(await _awaited(cluster, namespace, expected))
    return seen


async def _awaited(cluster: Cluster, namespace: str, expected: Expected) -> Object:
    now = asyncio.get_running_loop().time
    end_of_patience = now() + PATIENCE
    while True:
        seen = await outcome(cluster, namespace)
        if shows(seen, expected) or now() > end_of_patience:
            return seen
        await asyncio.sleep(0.2)


def shows(seen: Object, expected: Expected) -> bool:
    return all(seen.get(name) == value for name, value in expected.items())


# --- the table ----------------------------------------------------------------------------------------------

DONE = {"conditions": ["Complete=True CompletionsReached", "SuccessCriteriaMet=True CompletionsReached"]}
COMPLETE = DONE | {"active": 0, "uncounted": 0, "ended": True}
SUSPENDED = ["Suspended=True JobSuspended"]
RESUMED = "Suspended=False JobResumed"
INDEXED = {"completionMode": "Indexed"}
ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
ON_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def failed(reason: str, **more: Any) -> Expected:  # noqa: ANN401 - whatever else is to be seen
    conditions = [f"Failed=True {reason}", f"FailureTarget=True {reason}"]
    return {"conditions": conditions, "active": 0, "uncounted": 0, "ended": False} | more


SCENARIOS = {
    "one pod that succeeds is all that is asked for": Scenario(
        {},
        {"active": 1, "started": True, "pods": {"Pending tracked": 1}},
        ((end("Succeeded"), COMPLETE | {"succeeded": 1, "pods": {"Succeeded": 1}}),),
    ),
    "three completions, two at once": Scenario(
        {"completions": 3, "parallelism": 2},
        {"active": 2},
        (
            (end("Succeeded"), {"succeeded": 1, "active": 2, "pods": {"Succeeded": 1, "Pending tracked": 2}}),
            (end("Succeeded"), {"succeeded": 2, "active": 1}),
            (end("Succeeded"), COMPLETE | {"succeeded": 3, "pods": {"Succeeded": 3}}),
        ),
    ),
    "a queue of work is done when one pod says so and the others have ended": Scenario(
        {"parallelism": 2},
        {"active": 2},
        (
            (end("Succeeded"), {"succeeded": 1, "active": 1, "pods": {"Succeeded": 1, "Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"succeeded": 2}),
        ),
    ),
    "indexes are run lowest first and completed in any order": Scenario(
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
    "nothing is asked for": Scenario({"completions": 0}, COMPLETE | {"succeeded": 0, "pods": {}}),
    "a failure too many ends all, and all that run have failed with it": Scenario(
        {"backoffLimit": 0, "completions": 2, "parallelism": 2},
        {"active": 2},
        ((end("Failed"), failed("BackoffLimitExceeded", failed=2, pods={"Failed": 1})),),
    ),
    "a failure is made good after a while": Scenario(
        {"backoffLimit": 1},
        {"active": 1},
        (
            (end("Failed"), {"failed": 1, "active": 1, "pods": {"Failed": 1, "Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"failed": 1, "succeeded": 1}),
        ),
    ),
    "an index that failed is run again": Scenario(
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
    "too late": Scenario({"activeDeadlineSeconds": 2}, failed("DeadlineExceeded", failed=1, pods={})),
    "made to wait, and then run": Scenario(
        {"suspend": True},
        {"conditions": SUSPENDED, "active": 0, "started": False, "pods": {}},
        (
            (change(suspend=False), {"conditions": [RESUMED], "active": 1, "started": True}),
            (end("Succeeded"), {"conditions": [*DONE["conditions"], RESUMED], "succeeded": 1, "ended": True}),
        ),
    ),
    "suspended on the way, which is no failure": Scenario(
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
    "more at once, and fewer again": Scenario(
        {"completions": 9, "parallelism": 1},
        {"active": 1},
        (
            (change(parallelism=3), {"active": 3, "pods": {"Pending tracked": 3}}),
            (change(parallelism=1), {"active": 1, "failed": 0, "pods": {"Pending tracked": 1}}),
            (change(parallelism=0), {"active": 0, "failed": 0, "pods": {}}),
        ),
    ),
    "fewer indexes than there were": Scenario(
        INDEXED | {"completions": 3, "parallelism": 3},
        {"active": 3},
        (
            (end("Succeeded", index=2), {"completed": "2", "active": 2}),
            (change(parallelism=1, completions=1), {"active": 1, "completed": "", "succeeded": 0}),
            (end("Succeeded", index=0), COMPLETE | {"completed": "0", "succeeded": 1}),
        ),
    ),
    "containers that were started again too often": Scenario(
        {"backoffLimit": 2},
        {"active": 1},
        (
            (run(restarts=1), {"active": 1, "ready": 1}),
            (run(restarts=2), failed("BackoffLimitExceeded", failed=1, pods={})),
        ),
        restart="OnFailure",
    ),
    "an exit code that ends it all": Scenario(
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
    "an index that is given up does not stop the others": Scenario(
        INDEXED | {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0},
        {"active": 2, "given up": ""},
        (
            (end("Failed", index=0), {"given up": "0", "active": 1, "failed": 1}),
            (end("Succeeded", index=1), failed("FailedIndexes", completed="1", failed=1, succeeded=1)),
        ),
    ),
    "an index may fail once, and is counted for itself": Scenario(
        INDEXED | {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1},
        {"active": 2},
        (
            (end("Failed", index=0), {"active": 2, "failed": 1, "given up": ""}),
            (end("Failed", index=0), {"active": 1, "failed": 2, "given up": "0"}),
        ),
    ),
    "too many indexes are given up": Scenario(
        INDEXED | {"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
        {"active": 3},
        ((end("Failed", index=1), failed("MaxFailedIndexesExceeded", failed=3, completed="")),),
    ),
    "one index is enough": Scenario(
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
    "gone when its time has come": Scenario(
        {"ttlSecondsAfterFinished": 1}, {"active": 1}, ((end("Succeeded"), {"gone": True}),)
    ),
    "managed by somebody else": Scenario(
        {"managedBy": "example.com/other"}, {"active": 0, "started": False, "conditions": [], "pods": {}}
    ),
}
"""The same with Kubernetes."""

OURS = {
    "a pod that somebody deletes has not failed, and is made again": Scenario(
        {"backoffLimit": 0},
        {"active": 1},
        (
            (take(), {"active": 1, "failed": 0, "uncounted": 0, "pods": {"Pending tracked": 1}}),
            (end("Succeeded"), COMPLETE | {"failed": 0, "succeeded": 1}),
        ),
    ),
    "a pod that the scheduler takes has not failed, also without a policy": Scenario(
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
"""Where Kubernetes would count a failure."""
