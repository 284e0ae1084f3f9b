"""One TrainingJob without a cluster: with what its scheduler does.

The job `j` has a master, parameter servers and trainers, as its spec says.
"""

from typing import Any, Final

from shoal.engine.config import SchedulerConfig
from shoal.kinds.trainingjob.controller import reconcile
from shoal.kinds.trainingjob.types import ManagedTrainingJob
from tests.kinds.job_cluster import JobCluster, make_object

ROLES: Final = ("master", "pserver", "trainer")


def trainingjob(
    least: int = 2,
    most: int = 4,
    *,
    pservers: int = 0,
    master: bool = False,
    **spec: Any,  # noqa: ANN401 - as JSON has it
) -> dict[str, Any]:
    """Return the spec of a job."""
    roles: dict[str, Any] = {"trainer": {"entrypoint": "train", "min-instance": least, "max-instance": most}}
    if pservers:
        roles["pserver"] = {"min-instance": pservers, "max-instance": pservers}
    if master:
        roles["master"] = {}
    return roles | spec


def trainers(*numbers: int) -> list[str]:
    """Return the names of the pods of trainers."""
    return [f"j-trainer-{number}" for number in numbers]


class TrainingJobCluster(JobCluster[ManagedTrainingJob]):
    """One TrainingJob with its pods."""

    def __init__(self, spec: dict[str, Any], config: SchedulerConfig | None = None, name: str = "j") -> None:
        settings = config or SchedulerConfig()
        super().__init__(
            make_object(name, spec), ManagedTrainingJob, lambda view, now: reconcile(view, now, settings)
        )

    # --- the scheduler ------------------------------------------------------------------------------------

    def want(self, **sizes: int) -> None:
        """Want numbers of instances, without nodes for them; by default the minimum."""
        spec = self.job["spec"]
        for role, size in (sizes or {one: _least(spec[one]) for one in ROLES if one in spec}).items():
            self.status.setdefault("replicas", {}).setdefault(role, {})["desired"] = size

    def allocate(self, **sizes: int) -> None:
        """Give nodes to the lowest instances of roles; by default to the minimum."""
        self.want(**sizes)
        name, spec = self.job["metadata"]["name"], self.job["spec"]
        for role in sizes or [one for one in ROLES if one in spec]:
            size = self.status["replicas"][role]["desired"]
            kept = {pod: node for pod, node in self.allocations.items() if f"-{role}-" not in pod}
            self.status["allocations"] = kept | {f"{name}-{role}-{i}": "n" for i in range(size)}

    def take_away(self, *pods: str) -> None:
        """Take nodes from pods, and delete those that exist."""
        self.release(*pods)
        self.evict(*(pod for pod in pods if pod in self.pods))

    def release(self, *pods: str) -> None:
        """Take nodes from pods."""
        for pod in pods:
            self.status["allocations"] = {one: node for one, node in self.allocations.items() if one != pod}
            self.status["replicas"][pod.split("-")[-2]]["desired"] -= 1

    @property
    def allocations(self) -> dict[str, str]:
        """The node of each pod."""
        nodes: dict[str, str] = self.status.get("allocations", {})
        return nodes

    # --- outcomes -----------------------------------------------------------------------------------------

    @property
    def outcome(self) -> dict[str, Any]:
        """What users see of the job."""
        status = self.status
        figures = status.get("replicas", {})
        return {
            "phase": status.get("phase"),
            "phases": self.phases,
            "reason": self.reason,
            "message": self.message,
            "ready": _figure(figures, "ready"),
            "succeeded": _figure(figures, "succeeded"),
            "failures": _figure(figures, "failed"),
            "score": status.get("score"),
            "completed": status.get("completed", {}),
            "abandoned": status.get("failed", {}),
            "pods": sorted(self.pods),
            "running": self.running,
            "created": len(self.created),
            "service": self.service is not None,
            "deleted": self.is_deleted,
            "started": "startTime" in status,
        }


def _least(role: dict[str, Any]) -> int:
    return int(role.get("min-instance", 1))


def _figure(figures: dict[str, Any], name: str) -> dict[str, int]:
    return {role: one[name] for role, one in figures.items() if one.get(name)}
