"""What is to become of a pod: tables of what is known and what is judged, and what always holds."""

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
    """A turn that is over."""
    finished = NOW - ago
    exit_ = ExitStatus(code, None, finished - lasted, finished, "Error" if code else "Completed")
    return ContainerRun(attempt, finished - lasted, exit_)


def running(attempt: int = 0) -> ContainerRun:
    return ContainerRun(attempt, NOW - 1)


def pod(
    *mains: str, init: tuple[str, ...] = (), policy: str = "Never", deadline: int | None = None
) -> Object:
    """A pod by the names of its containers; a name with a plus is a sidecar's."""
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


def deleted(thing: Object) -> Object:
    return {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}}


def observation(thing: Object, **more: Any) -> PodObservation:  # noqa: ANN401 - as a Seen has them
    return PodObservation(pod=thing, now=NOW, **more)


ALWAYS, FAILURE = "Always", "OnFailure"
LONG_AGO: Object = {"status": {"startTime": "1970-01-01T00:00:00Z"}}

CASES: dict[str, tuple[PodObservation, str, list[str], list[str]]] = {
    "nothing has begun": (observation(pod()), "Pending", ["m"], []),
    "all begin together": (observation(pod("a", "b")), "Pending", ["a", "b"], []),
    "one runs": (observation(pod(), runs={"m": [running()]}), "Running", [], []),
    "it ended well": (observation(pod(), runs={"m": [ended()]}), "Succeeded", [], []),
    "it failed": (observation(pod(), runs={"m": [ended(1)]}), "Failed", [], []),
    "one of two failed, the other runs": (
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
    "what failed begins again at once": (
        observation(pod(policy=FAILURE), runs={"m": [ended(1)]}),
        "Running",
        ["m"],
        [],
    ),
    "what ended well does not": (
        observation(pod(policy=FAILURE), runs={"m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "unless it always does": (observation(pod(policy=ALWAYS), runs={"m": [ended()]}), "Running", ["m"], []),
    "the second time it waits": (
        observation(pod(policy=FAILURE), runs={"m": [ended(1, ago=30), ended(1, 1)]}),
        "Running",
        [],
        [],
    ),
    "the first init container begins": (observation(pod(init=("i", "j"))), "Pending", ["i"], []),
    "then the second": (observation(pod(init=("i", "j")), runs={"i": [ended()]}), "Pending", ["j"], []),
    "then the others": (
        observation(pod(init=("i", "j")), runs={"i": [ended()], "j": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "while one initializes the others wait": (
        observation(pod(init=("i",)), runs={"i": [running()]}),
        "Pending",
        [],
        [],
    ),
    "an init container that fails": (observation(pod(init=("i",)), runs={"i": [ended(1)]}), "Failed", [], []),
    "an init container that fails beside a sidecar that has ended": (
        observation(pod(init=("s+", "i")), runs={"s": [ended()], "i": [ended(1)]}),
        "Failed",
        [],
        [],
    ),
    "an init container that is tried again": (
        observation(pod(init=("i",), policy=FAILURE), runs={"i": [ended(1)]}),
        "Pending",
        ["i"],
        [],
    ),
    "an init container that ended well, in a pod that always restarts": (
        observation(pod(init=("i",), policy=ALWAYS), runs={"i": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "a sidecar begins first": (observation(pod(init=("s+",))), "Pending", ["s"], []),
    "the others follow when it has started": (
        observation(pod(init=("s+",)), runs={"s": [running()]}),
        "Pending",
        ["m"],
        [],
    ),
    "and not before": (
        observation(pod(init=("s+",)), runs={"s": [running()]}, health={"s": ContainerHealth(started=False)}),
        "Pending",
        [],
        [],
    ),
    "a sidecar that ended begins again beside the others": (
        observation(pod(init=("s+",)), runs={"s": [ended()], "m": [running()]}),
        "Running",
        ["s"],
        [],
    ),
    "sidecars stop when the others are done": (
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
    "what is ailing is stopped": (
        observation(
            pod(policy=ALWAYS),
            runs={"m": [running()]},
            health={"m": ContainerHealth(unhealthy_reason="sick")},
        ),
        "Running",
        [],
        ["m"],
    ),
    "what was deleted is stopped": (
        observation(deleted(pod()), runs={"m": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "sidecars last": (
        observation(deleted(pod(init=("s+",))), runs={"m": [running()], "s": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "what was deleted before it began never begins": (observation(deleted(pod())), "Failed", [], []),
    "what was deleted and done is done": (
        observation(deleted(pod()), runs={"m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "what has ended stays so": (
        observation(pod() | {"status": {"phase": "Succeeded"}}, runs={"m": [ended(1)]}),
        "Succeeded",
        [],
        [],
    ),
    "past its deadline": (
        observation(pod(deadline=1) | LONG_AGO, runs={"m": [running()]}),
        "Running",
        [],
        ["m"],
    ),
    "what stands in the way is waited for": (
        observation(pod(), start_failures={"m": StartFailure("Why", "because", NOW + 1)}),
        "Pending",
        [],
        [],
    ),
    "and tried again": (
        observation(pod(), start_failures={"m": StartFailure("Why", "because", NOW)}),
        "Pending",
        ["m"],
        [],
    ),
}


@pytest.mark.parametrize("known, phase, start, stop", CASES.values(), ids=CASES)
def test_cases(known: PodObservation, phase: str, start: list[str], stop: list[str]) -> None:
    decision = decide(known)
    assert (decision.phase, decision.start, list(decision.stop)) == (phase, start, stop)


def test_a_deadline_is_looked_at_in_time_and_said() -> None:
    decision = decide(observation(pod(deadline=100), runs={"m": [running()]}))
    assert decision.recheck_at == NOW - 1 + 100
    over = decide(observation(pod(deadline=1) | LONG_AGO, runs={"m": [ended(143)]}))
    assert (over.phase, over.reason) == ("Failed", "DeadlineExceeded")


def test_what_ended_in_time_has_not_missed_its_deadline() -> None:
    decision = decide(observation(pod(deadline=10), runs={"m": [ended(ago=100)]}))
    assert (decision.phase, decision.reason) == ("Succeeded", "")


WAITS = {
    "once": ([ended(1)], 0.0),
    "twice": ([ended(1), ended(1, 1)], 10.0),
    "three times": ([ended(1), ended(1, 1), ended(1, 2)], 20.0),
    "often": ([ended(1, n) for n in range(30)], 300.0),
    "after a calm time": ([ended(1), ended(1, 1), ended(1, 2, lasted=601)], 0.0),
    "after a calm time and one more": ([ended(1, 1, lasted=601), ended(1, 2)], 10.0),
}


@pytest.mark.parametrize("runs, wait", WAITS.values(), ids=WAITS)
def test_how_long_what_fails_waits(runs: list[ContainerRun], wait: float) -> None:
    assert restart_delay(runs, RestartOptions()) == wait


@given(st.lists(st.sampled_from([1.0, 601.0]), max_size=20))
def test_the_turns_that_are_remembered_tell_how_long_it_waits(lasted: list[float]) -> None:
    runs = [ended(1, attempt, lasted=seconds) for attempt, seconds in enumerate(lasted)]
    for ended_ones in (KEPT_RUNS - 1, KEPT_RUNS):  # while the last one runs, and after its end
        assert restart_delay(runs[-ended_ones:], RestartOptions()) == restart_delay(runs, RestartOptions())


def test_who_waits_says_why_and_is_looked_at_when_the_wait_is_over() -> None:
    known = observation(pod(policy=FAILURE), runs={"m": [ended(1, ago=30), ended(2, 1, ago=4)]})
    decision = decide(known)
    assert decision.waiting["m"][0] == "CrashLoopBackOff"
    assert decision.recheck_at == NOW + 6
    state = build_pod_status(known, decision, "127.1.0.1")["containerStatuses"][0]
    assert state["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (state["lastState"]["terminated"]["exitCode"], state["restartCount"]) == (2, 1)


# --- what always holds -------------------------------------------------------------------------------------

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
def test_what_runs_is_not_started_and_what_does_not_is_not_stopped(one: PodObservation) -> None:
    decision = decide(one)
    assert not any(one.is_running(name) for name in decision.start)
    assert all(one.is_running(name) for name in decision.stop)


@given(known)
def test_a_pod_that_has_ended_runs_nothing_and_starts_nothing(one: PodObservation) -> None:
    decision = decide(one)
    mains = ("m", "n")
    if decision.phase in FINISHED_PHASES:
        assert not decision.start
        assert not any(one.is_running(name) for name in mains)


@given(known)
def test_what_never_restarts_is_never_run_twice(one: PodObservation) -> None:
    if one.pod["spec"]["restartPolicy"] == "Never":
        assert not any(one.last(name) for name in decide(one).start if name != "s")


@given(known)
def test_every_container_has_one_state_and_what_was_judged_is_what_is_said(one: PodObservation) -> None:
    decision = decide(one)
    status = build_pod_status(one, decision, "127.1.0.1")
    every = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    assert all(len(each["state"]) == 1 for each in every)
    assert status["phase"] == decision.phase
    ready = {each["type"]: each["status"] for each in status["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"]
    assert not (decision.phase in FINISHED_PHASES and ready["Ready"] == "True")


@given(known)
def test_who_is_told_the_same_says_the_same(one: PodObservation) -> None:
    decision = decide(one)
    status = build_pod_status(one, decision, "127.1.0.1")
    after = observation(one.pod | {"status": status}, runs=one.runs, health=one.health)
    if decision.phase not in FINISHED_PHASES:
        assert build_pod_status(after, decide(after), "127.1.0.1") == status


def test_conditions_of_others_stay_and_times_change_only_with_what_they_are_of() -> None:
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


def test_readiness_gates_are_waited_for() -> None:
    thing = pod()
    thing["spec"]["readinessGates"] = [{"conditionType": "mine"}]
    known = observation(thing, runs={"m": [running()]})
    found = {one["type"]: one for one in build_pod_status(known, decide(known), "")["conditions"]}
    assert (found["ContainersReady"]["status"], found["Ready"]["status"]) == ("True", "False")
    assert found["Ready"]["reason"] == "ReadinessGatesNotReady"


# --- what was lost -----------------------------------------------------------------------------------------


def told(state: Object, **more: object) -> Object:
    status = {"name": "m", "state": state, "restartCount": 2, "containerID": "shoal://u/m/2", **more}
    return pod() | {"status": {"containerStatuses": [status]}}


TRACES: dict[str, tuple[Object, int]] = {
    "it was running": (told({"running": {}}), 137),
    "it had ended": (told({"terminated": {"exitCode": 4, "finishedAt": "2020-01-01T00:00:00Z"}}), 4),
    "it was about to be started again": (
        told({"waiting": {}}, lastState={"terminated": {"exitCode": 5}}),
        5,
    ),
}


@pytest.mark.parametrize("thing, code", TRACES.values(), ids=TRACES)
def test_what_was_said_to_have_begun_has_begun(thing: Object, code: int) -> None:
    (run,) = container_runs(thing, {}, NOW)["m"]
    assert run.exit
    assert (run.attempt, run.exit.code) == (2, code)


def test_what_is_known_better_is_not_taken_from_the_status() -> None:
    assert container_runs(told({"running": {}}), {"m": [running(3)]}, NOW)["m"] == [running(3)]
    assert container_runs(pod(), {}, NOW) == {}


def test_nothing_is_waited_for_that_never_comes() -> None:
    assert decide(observation(pod(), runs={"m": [running()]})) == PodDecision(
        phase="Running", initialized=True, recheck_at=math.inf
    )
