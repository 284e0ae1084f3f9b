"""Cases of the pure DIJob controller, as data: a job, and what happens to it with the outcome of each step.

An outcome has the fields of the status and what `DIJobCluster.outcome` adds. Only those that are named in an
expectation are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.controller import reconcile
from shoal.kinds.dijob.types import ManagedDIJob
from tests.kinds.job_cluster import TEMPLATE, JobCluster, make_object

Act = Callable[["DIJobCluster"], object]
Expected = dict[str, Any]


def make_job(name: str = "job", *, status: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    """Return a DIJob: in tasks form if tasks are given, else of one template."""
    return make_object(
        name, spec if "tasks" in spec or "template" in spec else {"template": TEMPLATE} | spec, status
    )


def task(kind: str, replicas: int = 1, name: str = "") -> dict[str, Any]:
    return {"type": kind, "replicas": replicas, "template": TEMPLATE, "name": name}


class DIJobCluster(JobCluster[ManagedDIJob]):
    """One DIJob with its pods."""

    def __init__(self, job: dict[str, Any], config: SchedulerConfig | None = None) -> None:
        settings = config or SchedulerConfig()
        super().__init__(job, ManagedDIJob, lambda view, now: reconcile(view, now, settings))

    @property
    def phase(self) -> str:
        return str(self.status.get("phase"))

    @property
    def live(self) -> list[str]:
        """The names of the pods that are neither terminating nor finished."""
        return sorted(
            name
            for name, pod in self.pods.items()
            if "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        )

    @property
    def terminating(self) -> list[str]:
        return sorted(name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"])

    @property
    def outcome(self) -> Expected:
        workers = self.status.get("workers", ())
        true = [one for one in self.status.get("conditions", ()) if one["status"] == "True"]
        return self.status | {
            "reason": self.reason,
            "message": next(c.get("message", "") for c in true if c["type"] == self.phase),
            "true": sorted(one["type"] for one in true),
            "live": self.live,
            "terminating": self.terminating,
            "pods": sorted(self.pods),
            "created": list(self.created),
            "restarts": [worker.get("restarts", 0) for worker in workers],
            "worker phases": [worker.get("phase", "") for worker in workers],
            "service": self.service is not None,
            "started": "startTime" in self.status,
            "ended": "completionTimestamp" in self.status,
            "gone": self.is_deleted,
        }


@dataclass(frozen=True)
class Case:
    """A job, the outcome of its creation, and steps."""

    spec: Mapping[str, Any]
    begin: Expected
    steps: Sequence[tuple[Act, Expected]] = ()
    status: Mapping[str, Any] | None = None


def play(case: Case) -> DIJobCluster:
    """Check the outcome of every step: the controller reconciles until nothing changes any more."""
    cluster = DIJobCluster(make_job(status=deepcopy(dict(case.status or {})), **deepcopy(dict(case.spec))))
    cluster.settle()
    _check(cluster, case.begin, 0)
    for number, (act, expected) in enumerate(case.steps, 1):
        act(cluster)
        cluster.settle()
        _check(cluster, expected, number)
    return cluster


def _check(cluster: DIJobCluster, expected: Expected, number: int) -> None:
    seen = cluster.outcome
    wrong = {name: seen.get(name) for name, value in expected.items() if seen.get(name) != value}
    assert not wrong, f"step {number}: {wrong}, expected {expected}"


# --- what happens to a job ----------------------------------------------------------------------------------


def run_all(cluster: DIJobCluster) -> None:
    """All pods that can be created are, and run."""
    cluster.run_all()


def run(*pods: str) -> Act:
    """Pods start to run: these, or all that exist."""
    return lambda cluster: cluster.run(*pods)


def end(*pods: str, code: int = 0, reason: str = "", after: float = 5) -> Act:
    """Pods end, some seconds later."""

    def act(cluster: DIJobCluster) -> None:
        cluster.now += after
        for pod in pods:
            cluster.end(pod, code, reason)

    return act


def delete(*pods: str) -> Act:
    """A user deletes pods; those that run get a grace period."""

    def act(cluster: DIJobCluster) -> None:
        cluster.now += 5
        for pod in pods:
            cluster.delete(pod)

    return act


def finish(code: int = 143) -> Act:
    """All terminating pods end."""
    return lambda cluster: cluster.finish(code)


def edit(**spec: Any) -> Act:  # noqa: ANN401 - fields of the spec
    return lambda cluster: cluster.edit(**spec)


def status(**fields: Any) -> Act:  # noqa: ANN401 - fields of the status
    """Another component writes the status: the scheduler, the server or `shoal scale`."""
    return lambda cluster: cluster.status.update(fields)


def later(seconds: float) -> Act:
    def act(cluster: DIJobCluster) -> None:
        cluster.now += seconds

    return act


def together(*acts: Act) -> Act:
    """Several things happen before the controller sees any of them."""

    def act(cluster: DIJobCluster) -> None:
        for one in acts:
            one(cluster)

    return act
