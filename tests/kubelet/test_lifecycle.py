"""Decisions about pods: tables of observations with expected decisions, and invariants."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.resources import Object
from shoal.kubelet.lifecycle import (
    KEPT_RUNS,
    ContainerHealth,
    ContainerRun,
    PodDecision,
    PodObservation,
    RestartOptions,
    StartFailure,
    container_runs,
    decide,
    restart_delay,
)
from shoal.kubelet.pod_status import build_pod_status
from shoal.kubelet.runtime import ExitStatus

NOW = 1_000_000.0


def ended(code: int = 0, attempt: int = 0, *, ago: float = 1.0, lasted: float = 1.0) -> ContainerRun:
    """A run that has ended."""
    finished = NOW - ago
    exit_ = ExitStatus(code, None, finished - lasted, finished, "Error" if code else "Completed")
    return ContainerRun(attempt, finished - lasted, exit_)


def running(attempt: int = 0) -> ContainerRun:
    return ContainerRun(attempt, NOW - 1)


def pod(
    *mains: str, init: tuple[str, ...] = (), policy: str = "Never", deadline: int | None = None
) -> Object:
    """A pod with containers of these names; a plus marks a sidecar."""
    inits = [
        {"name": name.rstrip("+")} | ({"restartPolicy": "Always"} if "+" in name else {}) for name in init
    ]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {
            "containers": [{"name": name} for name in mains or ("m",)],
            "initContainers": inits,
            "restartPolicy": policy,
            "activeDeadlineSeconds": deadline,
        },
    }


def deleted(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}}


def observation(obj: Object, **more: Any) -> PodObservation:  # noqa: ANN401 - fields of PodObservation
    return PodObservation(pod=obj, now=NOW, **more)


ALWAYS, FAILURE = "Always", "OnFailure"
LONG_AGO: Object = {"status": {"startTime": "1970-01-01T00:00:00Z"}}

CASES: dict[str, tuple[PodObservation, str, list[str], list[str]]] = {
    "no container has started": (observation(pod()), "Pending", ["m"], []),
    "all containers start together": (observation(pod("a", "b")), "Pending", ["a", "b"], []),
    "running": (observation(pod(), runs={"m": [running()]}), "Running", [], []),
    "succeeded": (observation(pod(), runs={"m": [ended()]}), "Succeeded", [], []),
    "failed": (observation(pod(), runs={"m": [ended(1)]}), "Failed", [], []),
    "one of two failed, the other is running": (
        observation(pod("a", "b"), runs={"a": [ended(1)], "b": [running()]}),
        "Running",
        [],
        [],
    ),
    "one of two failed": (
        observation(pod("a", "b"), runs={"a": [ended(1)], "b": [ended()]}),
        "Failed",
        [],
        [],
    ),
    "a failed container restarts at once": (
        observation(pod(policy=FAILURE), runs={"m": [ended(1)]}),
        "Running",
        ["m"],
        [],
    ),
    "a succeeded container does not restart": (
        observation(pod(policy=FAILURE), runs={"m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "unless its restart policy is Always": (
        observation(pod(policy=ALWAYS), runs={"m": [ended()]}),
        "Running",
        ["m"],
        [],
    ),
    "the second restart waits": (
        observation(pod(policy=FAILURE), runs={"m": [ended(1, ago=30), ended(1, 1)]}),
        "Running",
        [],
        [],
    ),
    "the first init container starts": (observation(pod(init=("i", "j"))), "Pending", ["i"], []),
    "then the second": (observation(pod(init=("i", "j")), runs={"i": [ended()]}), "Pending", ["j"], []),
    "then the main containers": (
        observation(pod(init=("i", "j")), runs={"i": [ended()], "j": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "main containers wait for init containers": (
        observation(pod(init=("i",)), runs={"i": [running()]}),
        "Pending",
        [],
        [],
    ),
    "a failed init container": (observation(pod(init=("i",)), runs={"i": [ended(1)]}), "Failed", [], []),
    "a failed init container beside an ended sidecar": (
        observation(pod(init=("s+", "i")), runs={"s": [ended()], "i": [ended(1)]}),
        "Failed",
        [],
        [],
    ),
    "a failed init container that restarts": (
        observation(pod(init=("i",), policy=FAILURE), runs={"i": [ended(1)]}),
        "Pending",
        ["i"],
        [],
    ),
    "a succeeded init container in a pod with restart policy Always": (
        observation(pod(init=("i",), policy=ALWAYS), runs={"i": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "a sidecar starts first": (observation(pod(init=("s+",))), "Pending", ["s"], []),
    "main containers start after the sidecar": (
        observation(pod(init=("s+",)), runs={"s": [running()]}),
        "Pending",
        ["m"],
        [],
    ),
    "but not before its startup probe succeeds": (
        observation(pod(init=("s+",)), runs={"s": [running()]}, health={"s": ContainerHealth(started=False)}),
        "Pending",
        [],
        [],
    ),
    "an ended sidecar restarts beside main containers": (
        observation(pod(init=("s+",)), runs={"s": [ended()], "m": [running()]}),
        "Running",
        ["s"],
        [],
    ),
    "sidecars stop when main containers have ended": (
        observation(pod(init=("s+",)), runs={"s": [running()], "m": [ended()]}),
        "Running",
        [],
        ["s"],
    ),
    "and then the pod has ended": (
        observation(pod(init=("s+",)), runs={"s": [ended(1)], "m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "an unhealthy container is stopped": (
        observation(
            pod(policy=ALWAYS),
            runs={"m": [running()]},
            health={"m": ContainerHealth(unhealthy_reason="liveness")},
        ),
        "Running",
        [],
        ["m"],
    ),
    "a deleted pod is stopped": (
        observation(deleted(pod()), runs={"m": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "sidecars are stopped last": (
        observation(deleted(pod(init=("s+",))), runs={"m": [running()], "s": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "a pod deleted before its start never starts": (observation(deleted(pod())), "Failed", [], []),
    "a deleted pod whose containers succeeded has succeeded": (
        observation(deleted(pod()), runs={"m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "a finished pod stays finished": (
        observation(pod() | {"status": {"phase": "Succeeded"}}, runs={"m": [ended(1)]}),
        "Succeeded",
        [],
        [],
    ),
    "past the active deadline": (
        observation(pod(deadline=1) | LONG_AGO, runs={"m": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "a start failure is waited for": (
        observation(pod(), start_failures={"m": StartFailure("Reason", "message", NOW + 1)}),
        "Pending",
        [],
        [],
    ),
    "and retried": (
        observation(pod(), start_failures={"m": StartFailure("Reason", "message", NOW)}),
        "Pending",
        ["m"],
        [],
    ),
}


@pytest.mark.parametrize("known, phase, start, stop", CASES.values(), ids=CASES)
def test_decisions(known: PodObservation, phase: str, start: list[str], stop: list[str]) -> None:
    decision = decide(known)
    assert (decision.phase, decision.start, list(decision.stop)) == (phase, start, stop)


def test_the_active_deadline_is_checked_in_time_and_reported() -> None:
    decision = decide(observation(pod(deadline=100), runs={"m": [running()]}))
    assert decision.recheck_at == NOW - 1 + 100
    overdue = decide(observation(pod(deadline=1) | LONG_AGO, runs={"m": [ended(143)]}))
    assert (overdue.phase, overdue.reason) == ("Failed", "DeadlineExceeded")


def test_a_pod_that_ended_before_its_deadline_has_not_exceeded_it() -> None:
    decision = decide(observation(pod(deadline=10), runs={"m": [ended(ago=100)]}))
    assert (decision.phase, decision.reason) == ("Succeeded", "")


DELAYS = {
    "one failure": ([ended(1)], 0.0),
    "two failures": ([ended(1), ended(1, 1)], 10.0),
    "three failures": ([ended(1), ended(1, 1), ended(1, 2)], 20.0),
    "many failures": ([ended(1, n) for n in range(30)], 300.0),
    "after a long run": ([ended(1), ended(1, 1), ended(1, 2, lasted=601)], 0.0),
    "one failure after a long run": ([ended(1, 1, lasted=601), ended(1, 2)], 10.0),
}


@pytest.mark.parametrize("runs, delay", DELAYS.values(), ids=DELAYS)
def test_restart_delay(runs: list[ContainerRun], delay: float) -> None:
    assert restart_delay(runs, RestartOptions()) == delay


@given(st.lists(st.sampled_from([1.0, 601.0]), max_size=20))
def test_the_kept_runs_suffice_to_compute_the_delay(lasted: list[float]) -> None:
    runs = [ended(1, attempt, lasted=seconds) for attempt, seconds in enumerate(lasted)]
    for count in (KEPT_RUNS - 1, KEPT_RUNS):  # while the last run is running, and after it has ended
        assert restart_delay(runs[-count:], RestartOptions()) == restart_delay(runs, RestartOptions())


def test_back_off_is_reported_and_rechecked_when_it_ends() -> None:
    known = observation(pod(policy=FAILURE), runs={"m": [ended(1, ago=30), ended(2, 1, ago=4)]})
    decision = decide(known)
    assert decision.waiting["m"][0] == "CrashLoopBackOff"
    assert decision.recheck_at == NOW + 6
    state = build_pod_status(known, decision, "127.1.0.1")["containerStatuses"][0]
    assert state["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (state["lastState"]["terminated"]["exitCode"], state["restartCount"]) == (2, 1)


# --- invariants --------------------------------------------------------------------------------------------

NAMES = ("i", "s", "m", "n")
run = st.one_of(st.just(running()), st.builds(ended, st.sampled_from([0, 1])))
known = st.builds(
    observation,
    st.builds(
        pod,
        st.just("m"),
        st.just("n"),
        init=st.sampled_from([(), ("i",), ("s+",), ("i", "s+")]),
        policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    ).flatmap(lambda made: st.sampled_from([made, deleted(made)])),
    runs=st.dictionaries(st.sampled_from(NAMES), run.map(lambda one: [one])),
    health=st.dictionaries(st.sampled_from(NAMES), st.builds(ContainerHealth, st.booleans(), st.booleans())),
)


@given(known)
def test_running_containers_are_not_started_and_others_are_not_stopped(one: PodObservation) -> None:
    decision = decide(one)
    assert not any(one.is_running(name) for name in decision.start)
    assert all(one.is_running(name) for name in decision.stop)


@given(known)
def test_a_finished_pod_runs_nothing_and_starts_nothing(one: PodObservation) -> None:
    decision = decide(one)
    mains = ("m", "n")
    if decision.phase in FINISHED_PHASES:
        assert not decision.start
        assert not any(one.is_running(name) for name in mains)


@given(known)
def test_restart_policy_never_never_runs_a_container_twice(one: PodObservation) -> None:
    if one.pod["spec"]["restartPolicy"] == "Never":
        assert not any(one.last(name) for name in decide(one).start if name != "s")


@given(known)
def test_every_container_has_one_state_and_the_status_matches_the_decision(one: PodObservation) -> None:
    decision = decide(one)
    status = build_pod_status(one, decision, "127.1.0.1")
    every = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    assert all(len(each["state"]) == 1 for each in every)
    assert status["phase"] == decision.phase
    ready = {each["type"]: each["status"] for each in status["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"]
    assert not (decision.phase in FINISHED_PHASES and ready["Ready"] == "True")


@given(known)
def test_the_status_is_stable(one: PodObservation) -> None:
    decision = decide(one)
    status = build_pod_status(one, decision, "127.1.0.1")
    after = observation(one.pod | {"status": status}, runs=one.runs, health=one.health)
    if decision.phase not in FINISHED_PHASES:
        assert build_pod_status(after, decide(after), "127.1.0.1") == status


def test_other_conditions_are_kept_and_transition_times_change_only_with_the_status() -> None:
    before = pod() | {
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "then"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "then"},
                {"type": "ContainersReady", "status": "False", "lastTransitionTime": "then"},
            ]
        }
    }
    known = observation(before, runs={"m": [running()]})
    found = {one["type"]: one for one in build_pod_status(known, decide(known), "")["conditions"]}
    assert found["PodScheduled"] == before["status"]["conditions"][0]
    assert found["Ready"]["lastTransitionTime"] == "then"
    assert found["ContainersReady"]["lastTransitionTime"] != "then"


def test_readiness_gates_delay_ready() -> None:
    obj = pod()
    obj["spec"]["readinessGates"] = [{"conditionType": "mine"}]
    known = observation(obj, runs={"m": [running()]})
    found = {one["type"]: one for one in build_pod_status(known, decide(known), "")["conditions"]}
    assert (found["ContainersReady"]["status"], found["Ready"]["status"]) == ("True", "False")
    assert found["Ready"]["reason"] == "ReadinessGatesNotReady"


# --- lost runs ---------------------------------------------------------------------------------------------


def pod_with_status(state: Object, **more: object) -> Object:
    status = {"name": "m", "state": state, "restartCount": 2, "containerID": "shoal://u/m/2", **more}
    return pod() | {"status": {"containerStatuses": [status]}}


LOST_RUNS: dict[str, tuple[Object, int]] = {
    "it was running when it was lost": (pod_with_status({"running": {}}), 137),
    "it had ended": (
        pod_with_status({"terminated": {"exitCode": 4, "finishedAt": "2020-01-01T00:00:00Z"}}),
        4,
    ),
    "it was in back-off": (
        pod_with_status({"waiting": {}}, lastState={"terminated": {"exitCode": 5}}),
        5,
    ),
}


@pytest.mark.parametrize("obj, code", LOST_RUNS.values(), ids=LOST_RUNS)
def test_lost_runs_are_rebuilt_from_the_status(obj: Object, code: int) -> None:
    (run,) = container_runs(obj, {}, NOW)["m"]
    assert run.exit
    assert (run.attempt, run.exit.code) == (2, code)


def test_known_runs_are_not_taken_from_the_status() -> None:
    assert container_runs(pod_with_status({"running": {}}), {"m": [running(3)]}, NOW)["m"] == [running(3)]
    assert container_runs(pod(), {}, NOW) == {}


def test_a_running_pod_needs_no_recheck() -> None:
    assert decide(observation(pod(), runs={"m": [running()]})) == PodDecision(
        phase="Running", initialized=True, recheck_at=math.inf
    )
