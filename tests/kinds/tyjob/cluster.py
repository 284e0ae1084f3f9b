"""One TYJob without a cluster: with what its scheduler and its nodes do.

The job `j` has the leader `learner` and one set of workers, `actor`.
"""

from collections.abc import Mapping
from typing import Any, Final

from shoal.cluster.times import format_time
from shoal.controllers.changes import Changes
from shoal.engine.config import SchedulerConfig
from shoal.kinds.tyjob.controller import reconcile
from shoal.kinds.tyjob.types import ManagedTYJob
from tests.kinds.job_cluster import TEMPLATE, JobCluster, make_object

LEADER: Final = "j-learner"
CONFIG: Final = SchedulerConfig(infeasible_seconds=60)


def tyjob(workers: int = 2, *, least: int = 1, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    """Return the spec of a job with one set of workers."""
    members = {
        "leader": {"name": "learner", "template": TEMPLATE},
        "workerSets": [{"name": "actor", "counts": workers, "template": TEMPLATE}],
        "minWorkersNum": least,
    }
    return members | spec


def actors(*numbers: int) -> list[str]:
    """Return the names of the pods of workers."""
    return [f"j-actor-{number}" for number in numbers]


class TYJobCluster(JobCluster[ManagedTYJob]):
    """One TYJob with its pods."""

    def __init__(self, spec: dict[str, Any], config: SchedulerConfig = CONFIG, name: str = "j") -> None:
        super().__init__(
            make_object(name, spec), ManagedTYJob, lambda view, now: reconcile(view, now, config)
        )
        self.stages: list[str] = []
        """All stages that the job was in, in order."""
        self.crash_at: int | None = None
        """How many writes are made until the controller is killed, and starts again."""

    def step(self, killed_after: int | None = None) -> Changes:
        changes = super().step(self.crash_at if killed_after is None else killed_after)
        if self.crash_at is not None:
            writes = sum(map(len, changes.stages))
            self.crash_at = self.crash_at - writes if writes <= self.crash_at else None
        stage = self.status.get("stage")
        if stage and [stage] != self.stages[-1:]:
            self.stages.append(stage)
        return changes

    # --- the scheduler ------------------------------------------------------------------------------------

    def allocate(self, *pods: str) -> None:
        """Give nodes to pods: these, or all of the job."""
        sets = self.job["spec"]["workerSets"]
        names = pods or (LEADER, *(f"j-{one['name']}-{i}" for one in sets for i in range(one["counts"])))
        self.status.setdefault("allocations", {}).update(dict.fromkeys(names, "n"))

    def release(self, *pods: str) -> None:
        """Take nodes from pods."""
        for pod in pods:
            self.status["allocations"].pop(pod, None)

    def report(self, state: str, reason: str, message: str = "") -> None:
        """Write the schedule state."""
        self.status["scheduleState"] = state
        others = [one for one in self.status.get("conditions", ()) if one["type"] != "Scheduled"]
        scheduled = {"type": "Scheduled", "status": "False", "reason": reason, "message": message}
        self.status["conditions"] = [*others, scheduled | {"lastTransitionTime": format_time(self.now)}]

    def evict(self, *pods: str) -> None:
        """Take nodes from pods, and delete them."""
        self.release(*pods)
        for pod in pods:
            self.delete(pod)

    # --- nodes --------------------------------------------------------------------------------------------

    def lose(self, *pods: str) -> None:
        """Force the deletion of pods whose node is gone."""
        self.release(*pods)
        for pod in pods:
            stamps = {"deletionTimestamp": format_time(self.now), "deletionGracePeriodSeconds": 0}
            self.pods[pod]["metadata"] |= stamps
        self.collect()

    def fail_image(self, pod: str, reason: str) -> None:
        """Bind a pod whose image cannot be pulled."""
        self.bind(pod)
        waiting = {"reason": reason, "message": "no such image"}
        self.pods[pod]["status"]["containerStatuses"] = [{"name": "w", "state": {"waiting": waiting}}]

    def run_all(self) -> None:
        """Give nodes to all pods, create them and let them run."""
        self.allocate()
        super().run_all()

    # --- outcomes -----------------------------------------------------------------------------------------

    @property
    def outcome(self) -> dict[str, Any]:
        """What users see of the job."""
        status = self.status
        return {
            "stage": status.get("stage"),
            "stages": self.stages,
            "reason": self.reason,
            "message": self._message,
            "ready": status.get("ready"),
            "restarts": status.get("restarts", {}),
            "completed": status.get("completed", {}),
            "failed": status.get("failed", {}),
            "leader": status.get("leaderAddress", ""),
            "pods": sorted(self.pods),
            "running": sorted(name for name, pod in self.pods.items() if _is_running(pod)),
            "created": len(self.created),
            "service": self.service is not None,
        }

    @property
    def _message(self) -> str:
        stage = self.status["stage"]
        return next(str(one.get("message", "")) for one in self.status["conditions"] if one["type"] == stage)


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
