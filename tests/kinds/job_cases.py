"""Cases of job controllers: a job, and acts with the outcome of each, as data.

    CASES = {"a failed worker is recreated": Case(spec, {"phase": "Pending"}, ((end(1, "j-0"), {…}), …))}

`play` checks a case, if wanted with a controller that is killed after some write: that changes no outcome.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from tests.kinds.job_cluster import JobCluster

Act = Callable[[Any], object]
Expected = dict[str, Any]


class CaseCluster(Protocol):
    """A job cluster with the outcome that cases expect."""

    crash_at: int | None

    @property
    def outcome(self) -> Expected: ...
    def settle(self) -> None: ...


@dataclass(frozen=True)
class Case:
    """A job, and what happens to it; `begin` is the outcome of its creation."""

    spec: dict[str, Any]
    begin: Expected
    steps: tuple[tuple[Act, Expected], ...] = ()


def play(make: Callable[[dict[str, Any]], CaseCluster], case: Case, crash_at: int | None = None) -> bool:
    """Check the outcome of every step; return whether the controller was killed.

    It is killed once `crash_at` writes were made, and goes on from what is written.
    """
    cluster = make(deepcopy(case.spec))
    cluster.crash_at = crash_at
    for place, (act, expected) in enumerate([(in_order(), case.begin), *case.steps]):
        act(cluster)
        cluster.settle()
        seen = cluster.outcome
        wrong = {name: seen[name] for name, value in expected.items() if seen[name] != value}
        assert not wrong, f"step {place}: {wrong} instead of {dict(expected)}"
    return crash_at is not None and cluster.crash_at is None


def play_with_crashes(make: Callable[[dict[str, Any]], CaseCluster], case: Case) -> None:
    """Play a case as often as its controller makes writes, and kill it after another one each time."""
    for crash_at in count():
        if not play(make, case, crash_at):
            break
    assert crash_at > 0, "there are writes"


# --- acts --------------------------------------------------------------------------------------------------


def in_order(*acts: Act) -> Act:
    """Do several things before the controller sees any of them."""

    def act(cluster: JobCluster[Any]) -> None:
        for one in acts:
            one(cluster)

    return act


def run(*pods: str) -> Act:
    """Let pods that were created run: these, or all."""
    return lambda cluster: cluster.run(*pods)


def run_all(cluster: JobCluster[Any]) -> None:
    """Let the job create and start all its pods."""
    cluster.run_all()


def end(code: int, *pods: str, reason: str = "") -> Act:
    """End pods, some time after they were created."""

    def act(cluster: JobCluster[Any]) -> None:
        cluster.now += 5
        for pod in pods:
            cluster.end(pod, code, reason)

    return act


def delete(*pods: str) -> Act:
    """Delete pods by hand."""

    def act(cluster: JobCluster[Any]) -> None:
        cluster.now += 5
        for pod in pods:
            cluster.delete(pod)

    return act


def finish(code: int = 143) -> Act:
    """End the pods that were asked to stop."""
    return lambda cluster: cluster.finish(code)


def lose(*pods: str) -> Act:
    """Let the node of pods be lost."""
    return lambda cluster: cluster.lose(*pods)


def wait(seconds: float) -> Act:
    """Let time pass."""

    def act(cluster: JobCluster[Any]) -> None:
        cluster.now += seconds

    return act


def edit(**spec: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Change the spec."""
    return lambda cluster: cluster.edit(**spec)


def fail_image(pod: str, reason: str) -> Act:
    """Bind a pod whose image cannot be pulled."""
    return lambda cluster: cluster.fail_image(pod, reason)
