"""Outcomes that cases of TYJobs share."""

from typing import Final

from tests.kinds.job_cases import Expected
from tests.kinds.tyjob.cluster import LEADER, actors

ADDRESS: Final = "j-learner.ty-j.default.svc.cluster.local"
RUNNING: Final = ["Pending", "Starting", "Running"]
ALL: Final = sorted([LEADER, *actors(0, 1)])
PENDING: Final[Expected] = {"stage": "Pending", "ready": "0/2", "pods": [], "leader": "", "service": False}
RUNS: Final[Expected] = {"stage": "Running", "stages": RUNNING, "ready": "2/2", "running": ALL}
FAILED: Final[Expected] = {"stage": "Failed", "ready": "0/2", "running": [], "service": False}
SUCCEEDED: Final[Expected] = {"stage": "Succeeded", "ready": "0/2", "running": [], "service": False}
TERMINATED: Final[Expected] = {"stage": "Succeeded", "reason": "Terminating", "running": [], "service": False}
