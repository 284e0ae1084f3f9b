"""One TYJob without a cluster: with what its scheduler and its nodes do.

The job `j` has the leader `learner` and one set of workers, `actor`.
"""

from typing import Any, Final

from shoal.cluster.times import format_time
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

    def take_away(self, *pods: str) -> None:
        """Take nodes from pods, and delete them."""
        self.release(*pods)
        self.evict(*pods)

    def lose(self, *pods: str) -> None:
        """Take the nodes from pods whose node is gone, and force their deletion."""
        self.release(*pods)
        super().lose(*pods)

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
            "stages": self.phases,
            "reason": self.reason,
            "message": self.message,
            "ready": status.get("ready"),
            "restarts": status.get("restarts", {}),
            "completed": status.get("completed", {}),
            "failed": status.get("failed", {}),
            "leader": status.get("leaderAddress", ""),
            "pods": sorted(self.pods),
            "running": self.running,
            "created": len(self.created),
            "service": self.service is not None,
        }
