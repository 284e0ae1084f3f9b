"""What is to become of a pod: tables of what is known and what is judged, and what always holds."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.resources import Object
from shoal.kubelet.lifecycle import (
    ENDED,
    REMEMBERED,
    Health,
    Next,
    Obstacle,
    Pace,
    Seen,
    Turn,
    back_off,
    judge,
    turns_of,
)
from shoal.kubelet.runtime import Exit
from shoal.kubelet.statuses import status_of

NOW = 1_000_000.0


def ended(code: int = 0, attempt: int = 0, *, ago: float = 1.0, lasted: float = 1.0) -> Turn:
    """A turn that is over."""
    finished = NOW - ago
    exit_ = Exit(code, None, finished - lasted, finished, "Error" if code else "Completed")
    return Turn(attempt, finished - lasted, exit_)


def runs(attempt: int = 0) -> Turn:
    return Turn(attempt, NOW - 1)


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


def seen(thing: Object, **more: Any) -> Seen:  # noqa: ANN401 - as a Seen has them
    return Seen(pod=thing, now=NOW, **more)


ALWAYS, FAILURE = "Always", "OnFailure"
LONG_AGO: Object = {"status": {"startTime": "1970-01-01T00:00:00Z"}}

CASES: dict[str, tuple[Seen, str, list[str], list[str]]] = {
    "nothing has begun": (seen(pod()), "Pending", ["m"], []),
    "all begin together": (seen(pod("a", "b")), "Pending", ["a", "b"], []),
    "one runs": (seen(pod(), turns={"m": [runs()]}), "Running", [], []),
    "it ended well": (seen(pod(), turns={"m": [ended()]}), "Succeeded", [], []),
    "it failed": (seen(pod(), turns={"m": [ended(1)]}), "Failed", [], []),
    "one of two failed, the other runs": (
        seen(pod("a", "b"), turns={"a": [ended(1)], "b": [runs()]}),
        "Running",
        [],
        [],
    ),
    "one of two failed": (seen(pod("a", "b"), turns={"a": [ended(1)], "b": [ended()]}), "Failed", [], []),
    "what failed begins again at once": (
        seen(pod(policy=FAILURE), turns={"m": [ended(1)]}),
        "Running",
        ["m"],
        [],
    ),
    "what ended well does not": (seen(pod(policy=FAILURE), turns={"m": [ended()]}), "Succeeded", [], []),
    "unless it always does": (seen(pod(policy=ALWAYS), turns={"m": [ended()]}), "Running", ["m"], []),
    "the second time it waits": (
        seen(pod(policy=FAILURE), turns={"m": [ended(1, ago=30), ended(1, 1)]}),
        "Running",
        [],
        [],
    ),
    "the first init container begins": (seen(pod(init=("i", "j"))), "Pending", ["i"], []),
    "then the second": (seen(pod(init=("i", "j")), turns={"i": [ended()]}), "Pending", ["j"], []),
    "then the others": (
        seen(pod(init=("i", "j")), turns={"i": [ended()], "j": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "while one initializes the others wait": (
        seen(pod(init=("i",)), turns={"i": [runs()]}),
        "Pending",
        [],
        [],
    ),
    "an init container that fails": (seen(pod(init=("i",)), turns={"i": [ended(1)]}), "Failed", [], []),
    "an init container that fails beside a sidecar that has ended": (
        seen(pod(init=("s+", "i")), turns={"s": [ended()], "i": [ended(1)]}),
        "Failed",
        [],
        [],
    ),
    "an init container that is tried again": (
        seen(pod(init=("i",), policy=FAILURE), turns={"i": [ended(1)]}),
        "Pending",
        ["i"],
        [],
    ),
    "an init container that ended well, in a pod that always restarts": (
        seen(pod(init=("i",), policy=ALWAYS), turns={"i": [ended()]}),
        "Pending",
        ["m"],
        [],
    ),
    "a sidecar begins first": (seen(pod(init=("s+",))), "Pending", ["s"], []),
    "the others follow when it has started": (
        seen(pod(init=("s+",)), turns={"s": [runs()]}),
        "Pending",
        ["m"],
        [],
    ),
    "and not before": (
        seen(pod(init=("s+",)), turns={"s": [runs()]}, health={"s": Health(started=False)}),
        "Pending",
        [],
        [],
    ),
    "a sidecar that ended begins again beside the others": (
        seen(pod(init=("s+",)), turns={"s": [ended()], "m": [runs()]}),
        "Running",
        ["s"],
        [],
    ),
    "sidecars stop when the others are done": (
        seen(pod(init=("s+",)), turns={"s": [runs()], "m": [ended()]}),
        "Running",
        [],
        ["s"],
    ),
    "and then the pod has ended": (
        seen(pod(init=("s+",)), turns={"s": [ended(1)], "m": [ended()]}),
        "Succeeded",
        [],
        [],
    ),
    "what is ailing is stopped": (
        seen(pod(policy=ALWAYS), turns={"m": [runs()]}, health={"m": Health(ailing="sick")}),
        "Running",
        [],
        ["m"],
    ),
    "what was deleted is stopped": (seen(deleted(pod()), turns={"m": [runs()]}), "Running", [], ["m"]),
    "sidecars last": (
        seen(deleted(pod(init=("s+",))), turns={"m": [runs()], "s": [runs()]}),
        "Running",
        [],
        ["m"],
    ),
    "what was deleted before it began never begins": (seen(deleted(pod())), "Failed", [], []),
    "what was deleted and done is done": (seen(deleted(pod()), turns={"m": [ended()]}), "Succeeded", [], []),
    "what has ended stays so": (
        seen(pod() | {"status": {"phase": "Succeeded"}}, turns={"m": [ended(1)]}),
        "Succeeded",
        [],
        [],
    ),
    "past its deadline": (
        seen(pod(deadline=1) | LONG_AGO, turns={"m": [runs()]}),
        "Running",
        [],
        ["m"],
    ),
    "what stands in the way is waited for": (
        seen(pod(), obstacles={"m": Obstacle("Why", "because", NOW + 1)}),
        "Pending",
        [],
        [],
    ),
    "and tried again": (seen(pod(), obstacles={"m": Obstacle("Why", "because", NOW)}), "Pending", ["m"], []),
}


@pytest.mark.parametrize("known, phase, start, stop", CASES.values(), ids=CASES)
def test_cases(known: Seen, phase: str, start: list[str], stop: list[str]) -> None:
    plan = judge(known)
    assert (plan.phase, plan.start, list(plan.stop)) == (phase, start, stop)


def test_a_deadline_is_looked_at_in_time_and_said() -> None:
    plan = judge(seen(pod(deadline=100), turns={"m": [runs()]}))
    assert plan.again == NOW - 1 + 100
    over = judge(seen(pod(deadline=1) | LONG_AGO, turns={"m": [ended(143)]}))
    assert (over.phase, over.reason) == ("Failed", "DeadlineExceeded")


def test_what_ended_in_time_has_not_missed_its_deadline() -> None:
    plan = judge(seen(pod(deadline=10), turns={"m": [ended(ago=100)]}))
    assert (plan.phase, plan.reason) == ("Succeeded", "")


WAITS = {
    "once": ([ended(1)], 0.0),
    "twice": ([ended(1), ended(1, 1)], 10.0),
    "three times": ([ended(1), ended(1, 1), ended(1, 2)], 20.0),
    "often": ([ended(1, n) for n in range(30)], 300.0),
    "after a calm time": ([ended(1), ended(1, 1), ended(1, 2, lasted=601)], 0.0),
    "after a calm time and one more": ([ended(1, 1, lasted=601), ended(1, 2)], 10.0),
}


@pytest.mark.parametrize("turns, wait", WAITS.values(), ids=WAITS)
def test_how_long_what_fails_waits(turns: list[Turn], wait: float) -> None:
    assert back_off(turns, Pace()) == wait


@given(st.lists(st.sampled_from([1.0, 601.0]), max_size=20))
def test_the_turns_that_are_remembered_tell_how_long_it_waits(lasted: list[float]) -> None:
    turns = [ended(1, attempt, lasted=seconds) for attempt, seconds in enumerate(lasted)]
    for ended_ones in (REMEMBERED - 1, REMEMBERED):  # while the last one runs, and after its end
        assert back_off(turns[-ended_ones:], Pace()) == back_off(turns, Pace())


def test_who_waits_says_why_and_is_looked_at_when_the_wait_is_over() -> None:
    known = seen(pod(policy=FAILURE), turns={"m": [ended(1, ago=30), ended(2, 1, ago=4)]})
    plan = judge(known)
    assert plan.waiting["m"][0] == "CrashLoopBackOff"
    assert plan.again == NOW + 6
    state = status_of(known, plan, "127.1.0.1")["containerStatuses"][0]
    assert state["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (state["lastState"]["terminated"]["exitCode"], state["restartCount"]) == (2, 1)


# --- what always holds -------------------------------------------------------------------------------------

NAMES = ("i", "s", "m", "n")
turn = st.one_of(st.just(runs()), st.builds(ended, st.sampled_from([0, 1])))
known = st.builds(
    seen,
    st.builds(
        pod,
        st.just("m"),
        st.just("n"),
        init=st.sampled_from([(), ("i",), ("s+",), ("i", "s+")]),
        policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    ).flatmap(lambda made: st.sampled_from([made, deleted(made)])),
    turns=st.dictionaries(st.sampled_from(NAMES), turn.map(lambda one: [one])),
    health=st.dictionaries(st.sampled_from(NAMES), st.builds(Health, st.booleans(), st.booleans())),
)


@given(known)
def test_what_runs_is_not_started_and_what_does_not_is_not_stopped(one: Seen) -> None:
    plan = judge(one)
    assert not any(one.runs(name) for name in plan.start)
    assert all(one.runs(name) for name in plan.stop)


@given(known)
def test_a_pod_that_has_ended_runs_nothing_and_starts_nothing(one: Seen) -> None:
    plan = judge(one)
    mains = ("m", "n")
    if plan.phase in ENDED:
        assert not plan.start
        assert not any(one.runs(name) for name in mains)


@given(known)
def test_what_never_restarts_is_never_run_twice(one: Seen) -> None:
    if one.pod["spec"]["restartPolicy"] == "Never":
        assert not any(one.last(name) for name in judge(one).start if name != "s")


@given(known)
def test_every_container_has_one_state_and_what_was_judged_is_what_is_said(one: Seen) -> None:
    plan = judge(one)
    status = status_of(one, plan, "127.1.0.1")
    every = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    assert all(len(each["state"]) == 1 for each in every)
    assert status["phase"] == plan.phase
    ready = {each["type"]: each["status"] for each in status["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"]
    assert not (plan.phase in ENDED and ready["Ready"] == "True")


@given(known)
def test_who_is_told_the_same_says_the_same(one: Seen) -> None:
    plan = judge(one)
    status = status_of(one, plan, "127.1.0.1")
    after = seen(one.pod | {"status": status}, turns=one.turns, health=one.health)
    if plan.phase not in ENDED:
        assert status_of(after, judge(after), "127.1.0.1") == status


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
    known = seen(before, turns={"m": [runs()]})
    found = {one["type"]: one for one in status_of(known, judge(known), "")["conditions"]}
    assert found["PodScheduled"] == before["status"]["conditions"][0]
    assert found["Ready"]["lastTransitionTime"] == "then"
    assert found["ContainersReady"]["lastTransitionTime"] != "then"


def test_readiness_gates_are_waited_for() -> None:
    thing = pod()
    thing["spec"]["readinessGates"] = [{"conditionType": "mine"}]
    known = seen(thing, turns={"m": [runs()]})
    found = {one["type"]: one for one in status_of(known, judge(known), "")["conditions"]}
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
    (turn,) = turns_of(thing, {}, NOW)["m"]
    assert turn.exit
    assert (turn.attempt, turn.exit.code) == (2, code)


def test_what_is_known_better_is_not_taken_from_the_status() -> None:
    assert turns_of(told({"running": {}}), {"m": [runs(3)]}, NOW)["m"] == [runs(3)]
    assert turns_of(pod(), {}, NOW) == {}


def test_nothing_is_waited_for_that_never_comes() -> None:
    assert judge(seen(pod(), turns={"m": [runs()]})) == Next(
        phase="Running", initialized=True, again=math.inf
    )
