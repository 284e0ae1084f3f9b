"""A case of a TYJob: the job, and acts with the outcome of each."""

from dataclasses import dataclass
from typing import Any, Final

from tests.kinds.tyjob.acts import Act
from tests.kinds.tyjob.cluster import LEADER, actors

Expected = dict[str, Any]

ADDRESS: Final = "j-learner.ty-j.default.svc.cluster.local"
RUNNING: Final = ["Pending", "Starting", "Running"]


@dataclass(frozen=True)
class Case:
    """A job, and what happens to it; `begin` is the outcome of its creation."""

    spec: dict[str, Any]
    begin: Expected
    steps: tuple[tuple[Act, Expected], ...] = ()


ALL: Final = sorted([LEADER, *actors(0, 1)])
PENDING: Final[Expected] = {"stage": "Pending", "ready": "0/2", "pods": [], "leader": "", "service": False}
RUNS: Final[Expected] = {"stage": "Running", "stages": RUNNING, "ready": "2/2", "running": ALL}
FAILED: Final[Expected] = {"stage": "Failed", "ready": "0/2", "running": [], "service": False}
SUCCEEDED: Final[Expected] = {"stage": "Succeeded", "ready": "0/2", "running": [], "service": False}
TERMINATED: Final[Expected] = {"stage": "Succeeded", "reason": "Terminating", "running": [], "service": False}
