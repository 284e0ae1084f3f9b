"""How pods of jobs ended, when their successors may come, and that each end is counted once."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.managed import ManagedPod
from shoal.cluster.times import format_time
from shoal.controllers.jobs.ends import describe_end, has_stopped, next_attempt, pod_end, retry_time
from shoal.controllers.jobs.names import dns_label, label_value
from shoal.controllers.jobs.tracking import MAX_COUNTED, count_ends
from tests.kinds.job_cluster import FINALIZER, NOW, UID

TARGET: Final = "DisruptionTarget"


def pod(
    phase: str = "Failed",
    *,
    code: int | tuple[int, ...] = 1,
    reason: str = "",
    asked: float | None = None,
    evicted: float | None = None,
    attempt: int = 1,
    ran: float = 5,
    uid: str = "u",
    **meta: Any,  # noqa: ANN401 - as JSON has it
) -> ManagedPod:
    """Return a pod that ended at NOW; `asked` and `evicted` are when it was asked to stop."""
    metadata: dict[str, Any] = {"name": "p", "uid": uid, "annotations": {"shoal.io/attempt": str(attempt)}}
    metadata |= {"creationTimestamp": format_time(NOW - ran - 1), **meta}
    if asked is not None:
        metadata |= {"deletionTimestamp": format_time(asked + 30), "deletionGracePeriodSeconds": 30}
    codes = (code,) if isinstance(code, int) else code
    times = {"startedAt": format_time(NOW - ran), "finishedAt": format_time(NOW)}
    statuses = [{"name": "w", "state": {"terminated": {"exitCode": one} | times}} for one in codes]
    if reason.startswith("OutOf") or phase in ("Pending", "Running"):
        statuses = []
    when = {} if evicted is None else {"lastTransitionTime": format_time(evicted)}
    target = {"type": TARGET, "status": "True", "reason": "Preempted"} | when
    status = {"phase": phase, "reason": reason, "containerStatuses": statuses}
    return msgspec.convert(
        {"metadata": metadata, "status": status | {"conditions": [target] if evicted is not None else []}},
        ManagedPod,
    )


DISRUPTIONS: Final = (
    *("Evicted", "Preempting", "Shutdown", "Terminated", "NodeShutdown", "NodeLost", "NodeAffinity"),
    *("UnexpectedAdmissionError", "TopologyAffinityError", "OutOfcpu", "OutOfnvidia.com/gpu", "outofmemory"),
    "EVICTED",
)

ENDS: Final = {
    "exit 0": (pod("Succeeded", code=0), "succeeded"),
    "exit 0 before it was deleted": (pod("Succeeded", code=0, asked=NOW + 1), "succeeded"),
    "exit 0 in the second in which it was deleted": (pod("Succeeded", code=0, asked=NOW), "disrupted"),
    "exit 0 after it was deleted": (pod("Succeeded", code=0, asked=NOW - 5), "disrupted"),
    "exit 0 after it was evicted": (pod("Succeeded", code=0, evicted=NOW - 5), "disrupted"),
    "exit 0 before it was evicted": (pod("Succeeded", code=0, evicted=NOW + 5), "succeeded"),
    "exit 1": (pod(code=1), "failed"),
    "killed for its own reasons": (pod(code=137), "failed"),
    "SIGTERM without a request": (pod(code=143), "disrupted"),
    "SIGTERM for one container, an error of another": (pod(code=(143, 1)), "failed"),
    "SIGTERM for one container, the other succeeded": (pod(code=(143, 0)), "disrupted"),
    "exit 1 after it was deleted": (pod(code=1, asked=NOW - 5), "disrupted"),
    "exit 1 before it was deleted": (pod(code=1, asked=NOW + 5), "failed"),
    "exit 1 after it was evicted": (pod(code=1, evicted=NOW - 5), "disrupted"),
    "force-deleted while it ran": (pod("Running", asked=NOW), "disrupted"),
    "failed for a reason that is not a disruption": (pod(code=1, reason="DeadlineExceeded"), "failed"),
    **{f"failed with reason {reason}": (pod(code=1, reason=reason), "disrupted") for reason in DISRUPTIONS},
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_pod_ended(name: str) -> None:
    ended, end = ENDS[name]
    assert pod_end(ended) == end


STOPPED: Final = {
    "it runs": (pod("Running"), False),
    "it has failed": (pod(), True),
    "it terminates": (pod("Running", asked=NOW), False),
    "it was deleted and never bound": (
        pod("Pending", deletionTimestamp=format_time(NOW), deletionGracePeriodSeconds=0),
        True,
    ),
    "it was force-deleted": (
        pod("Running", deletionTimestamp=format_time(NOW), deletionGracePeriodSeconds=0),
        True,
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_whether_anything_of_a_pod_runs(name: str) -> None:
    assert has_stopped(STOPPED[name][0]) == STOPPED[name][1]


BACKOFFS: Final = {
    "a first failure": (pod(code=1), 1, 2),
    "a fourth failure": (pod(code=1, attempt=4), 8, 5),
    "a twentieth failure": (pod(code=1, attempt=20), 60, 21),
    "a failure after 10 minutes": (pod(code=1, attempt=6, ran=600), 1, 1),
    "a failure after less than 10 minutes": (pod(code=1, attempt=6, ran=599), 32, 7),
    "a disruption": (pod(code=143, attempt=4), None, 1),
    "a deletion": (pod(code=1, attempt=4, asked=NOW - 3), None, 1),
    "a refusal by the node": (pod(code=1, reason="UnexpectedAdmissionError"), 1, 2),
    "a refusal without containers, counted from the creation": (
        pod(reason="OutOfcpu", attempt=3, ran=0),
        3,
        4,
    ),
    "an annotation that is no number": (pod(annotations={"shoal.io/attempt": "many"}), 1, 2),
}


@pytest.mark.parametrize("name", BACKOFFS)
def test_back_off(name: str) -> None:
    ended, wait, attempt = BACKOFFS[name]
    assert retry_time(ended) == (0.0 if wait is None else NOW + wait)
    assert next_attempt(ended) == attempt


@pytest.mark.parametrize(
    "ended, text",
    [
        (pod(code=3), "exit 3"),
        (pod(code=(0, 3)), "exit 3"),
        (pod(code=1, evicted=NOW - 5), "Preempted"),
        (pod(code=1, reason="Evicted"), "Evicted"),
        (pod(code=143), "exit 143"),
        (pod("Running", asked=NOW), "Deleted"),
    ],
)
def test_why_a_pod_ended_in_words(ended: ManagedPod, text: str) -> None:
    assert describe_end(ended) == text


# --- counting ----------------------------------------------------------------------------------------------


def tracked(number: int) -> list[ManagedPod]:
    return [pod(uid=f"u{i}", finalizers=[FINALIZER]) for i in range(number)]


def test_an_end_is_counted_released_and_forgotten() -> None:
    first = count_ends((), tracked(2))
    assert (len(first.new), first.recorded(()), len(first.release)) == (2, ("u0", "u1"), 2)
    again = count_ends(("u0", "u1"), tracked(2))
    assert (again.new, len(again.release), again.recorded(("u0", "u1"))) == ((), 2, ("u0", "u1"))
    released = [pod(uid="u0"), pod(uid="u1"), pod(uid="u2", finalizers=[FINALIZER])]
    assert count_ends(("u0", "u1"), released).recorded(("u0", "u1")) == ("u2",)


def test_no_more_ends_are_recorded_than_fit_into_the_status() -> None:
    pods = tracked(MAX_COUNTED + 7)
    first = count_ends((), pods)
    assert len(first.new) == len(first.uids) == MAX_COUNTED
    assert count_ends(first.uids, pods).new == (), "room comes when finalizers are gone"
    left = [pod(uid=one.metadata.uid) for one in first.release] + pods[MAX_COUNTED:]
    then = count_ends(first.uids, left)
    assert len(then.new) == 7
    assert then.recorded(first.uids) == tuple(one.metadata.uid for one in pods[MAX_COUNTED:])


# --- names -------------------------------------------------------------------------------------------------

JOB_NAMES: Final = st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,168}[a-z0-9])?\Z")


@given(name=JOB_NAMES, number=st.integers(0, 4998), task=st.sampled_from(["", "-learner", f"-{'t' * 63}"]))
def test_labels_are_valid_and_distinct(name: str, number: int, task: str) -> None:
    suffixes = [f"{task}-{number}", f"{task}-{number + 1}"]
    hosts = {dns_label(name, UID, suffix=suffix) for suffix in suffixes}
    values = {label_value(name, UID, suffix=suffix) for suffix in suffixes}
    assert len(hosts) == len(values) == 2
    assert all(len(label) <= 63 and "." not in label for label in hosts)
    assert all(len(value) <= 63 and value[-1].isalnum() for value in values)


@pytest.mark.parametrize(
    "job, suffix, label",
    [
        ("job", "-12", "job-12"),
        ("a.b", "-12", "a-b-12-0123abcd"),
        ("j" * 61, "-12", f"{'j' * 51}-12-0123abcd"),
        ("j" * 60, "-123", f"{'j' * 50}-123-0123abcd"),
    ],
)
def test_only_the_part_of_the_job_is_shortened(job: str, suffix: str, label: str) -> None:
    assert dns_label(job, UID, suffix=suffix) == label
