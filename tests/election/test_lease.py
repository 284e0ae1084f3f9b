"""When a manager may take the Lease, and what it writes: tables, without a clock."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.resources import Object
from shoal.election.lease import LeaseOptions, ObservedLease

NEVER_HELD = -math.inf
OPTIONS = LeaseOptions(duration=12.0)

Observation = tuple[float, Object | None]


def lease(version: int, holder: str | None = "other", uid: str = "u", **spec: object) -> Object:
    held = {} if holder is None else {"holderIdentity": holder}
    return {
        "metadata": {"name": "shoal-manager", "uid": uid, "resourceVersion": str(version)},
        "spec": held | spec,
    }


TAKEABLE: dict[str, tuple[list[Observation], float]] = {
    "a Lease that never existed is created at once": ([(5, None)], NEVER_HELD),
    "a Lease of another manager, a duration after it was first seen": ([(5, lease(1))], 17),
    "each change starts the duration again": ([(5, lease(1)), (9, lease(2))], 21),
    "seeing the same version again does not": ([(5, lease(1)), (9, lease(1))], 17),
    "its times are of another machine, and do not count": (
        [(5, lease(1, renewTime="1999-01-01T00:00:00.000000Z"))],
        17,
    ),
    "the holder's own duration counts": ([(5, lease(1, leaseDurationSeconds=60))], 65),
    "a nonsensical duration is replaced by the own one": ([(5, lease(1, leaseDurationSeconds=-1))], 17),
    "a released Lease, at once": ([(5, lease(1)), (6, lease(2, holder=""))], NEVER_HELD),
    "a Lease that was made by hand, without a holder, at once": ([(5, lease(1, holder=None))], NEVER_HELD),
    "a spec that is null has no holder": ([(5, lease(1) | {"spec": None})], NEVER_HELD),
    "the own Lease is renewed at any time": ([(5, lease(1, holder="me"))], NEVER_HELD),
    "a deleted Lease, a duration after that was seen: its holder may not know": (
        [(5, lease(1)), (9, None)],
        21,
    ),
    "a deleted Lease, by the duration of its holder": (
        [(5, lease(1, leaseDurationSeconds=60)), (9, None)],
        69,
    ),
    "a Lease that was deleted after it was released, too": (
        [(5, lease(1)), (6, lease(2, holder="")), (7, None)],
        19,
    ),
    "a recreated Lease is another one, even with the same version": (
        [(5, lease(1)), (9, lease(1, uid="v"))],
        21,
    ),
}


@pytest.mark.parametrize("case", TAKEABLE)
def test_when_it_may_be_taken(case: str) -> None:
    observations, expected = TAKEABLE[case]
    observed = ObservedLease("me", OPTIONS)
    for now, found in observations:
        observed.observe(found, now)
    assert observed.takeable_at == expected


def test_what_is_written_when_it_is_created() -> None:
    observed = ObservedLease("me", OPTIONS)
    observed.observe(None, 0.0)
    body = observed.held(1_767_225_600.25)
    assert body["metadata"] == {"name": "shoal-manager", "namespace": "kube-system"}
    assert body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 12,
        "acquireTime": "2026-01-01T00:00:00.250000Z",
        "renewTime": "2026-01-01T00:00:00.250000Z",
        "leaseTransitions": 0,
    }


def test_a_renewal_keeps_when_it_was_acquired_and_names_the_version() -> None:
    observed = ObservedLease("me", OPTIONS)
    observed.observe(lease(7, holder="me", acquireTime="then", leaseTransitions=3), 0.0)
    body = observed.held(1_767_225_600.0)
    assert body["metadata"]["resourceVersion"] == "7"
    assert (body["spec"]["acquireTime"], body["spec"]["leaseTransitions"]) == ("then", 3)
    assert body["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


def test_taking_it_over_counts_a_transition() -> None:
    observed = ObservedLease("me", OPTIONS)
    observed.observe(lease(7, acquireTime="then", leaseTransitions=3), 0.0)
    spec = observed.held(1_767_225_600.0)["spec"]
    assert (spec["acquireTime"], spec["leaseTransitions"]) == ("2026-01-01T00:00:00.000000Z", 4)


def test_a_release_keeps_everything_but_the_holder() -> None:
    observed = ObservedLease("me", OPTIONS)
    observed.observe(lease(7, holder="me", acquireTime="then", leaseTransitions=3), 0.0)
    body = observed.released(1_767_225_600.0)
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["spec"] == {
        "holderIdentity": "",
        "acquireTime": "then",
        "leaseTransitions": 3,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }


OPTION_PROBLEMS = {
    "the defaults are consistent": (LeaseOptions(), ""),
    "those of Kubernetes too": (LeaseOptions(duration=15, renew_deadline=10, retry_period=2), ""),
    "half a second cannot be written": (LeaseOptions(duration=9.5), "whole number"),
    "no duration": (LeaseOptions(duration=0), "whole number"),
    "a renew deadline as long as the duration": (LeaseOptions(duration=8), "renew deadline"),
    "a retry period as long as the deadline": (LeaseOptions(retry_period=8), "retry period"),
    "with its jitter it is as long": (LeaseOptions(retry_period=7), "retry period"),
    "no retry period": (LeaseOptions(retry_period=0), "retry period"),
}


@pytest.mark.parametrize("case", OPTION_PROBLEMS)
def test_options_are_checked(case: str) -> None:
    options, part = OPTION_PROBLEMS[case]
    assert part in options.problem()
    assert bool(part) == bool(options.problem())


holders = st.sampled_from(["", "me", "a", "b"])


@given(st.lists(st.tuples(st.floats(0, 50), st.none() | st.tuples(st.integers(1, 5), holders))))
def test_a_held_lease_is_never_taken_before_its_duration(
    steps: list[tuple[float, tuple[int, str] | None]],
) -> None:
    """Whatever was seen before: the last change of another manager's Lease counts."""
    observed, now, last, changed = ObservedLease("me", OPTIONS), 0.0, None, 0.0
    for seconds, step in steps:
        now += seconds
        found = step and lease(step[0], holder=step[1])
        if observed.observe(found, now):
            last, changed = step, now
    if last and last[1] not in ("", "me"):
        assert observed.takeable_at == changed + OPTIONS.duration
