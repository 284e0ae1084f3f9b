"""The state of every workload after the plan."""

from datetime import timedelta
from typing import Any

from tests.reference.model import Workload
from tests.reference.quantities import is_gpu
from tests.reference.state import CycleState

Object = dict[str, Any]


def evict_broken_gang(cycle: CycleState, job: Workload) -> None:
    """Evict the rest of a gang that did not get its minimum back in time."""
    if not job.is_broken or job.held or job.key in cycle.victims or job.key in cycle.nominated:
        return
    config = cycle.world.config
    broken = job.broken_since or cycle.world.now
    late = cycle.world.now - broken >= timedelta(seconds=config.get("gangRecoverySeconds", 300))
    if late and not config.get("disablePreemption"):
        cycle.victims.add(job.key)
        cycle.evict(job, job.placed, "GangLost")


def report(cycle: CycleState, jobs: list[Workload]) -> list[Object]:
    """The verdicts on the workloads of one pool."""
    waiting = [job for job in jobs if cycle.is_waiting(job)]
    positions = {job.key: number for number, job in enumerate(waiting, start=1)}
    return [_verdict(cycle, job, positions.get(job.key)) for job in jobs]


def nominations(cycle: CycleState, job: Workload) -> dict[str, str]:
    choice = [*cycle.nominated.get(job.key, []), *cycle.growing.get(job.key, [])]
    return {task.name: node for task, node in choice}


def _verdict(cycle: CycleState, job: Workload, position: int | None) -> Object:
    nominated = nominations(cycle, job)
    return {
        "job": job.key,
        "state": _state(cycle, job),
        "pool": job.pool,
        "priority": job.priority,
        "jobPriority": job.job_priority,
        "position": position,
        "share": float(cycle.shares[job.key]),
        "min": job.minimum,
        "max": job.maximum,
        "current": cycle.current[job.key],
        "target": _target(cycle, job, nominated),
        "allocation": {task.name: task.node for task in job.placed},
        "nominated": nominated,
        "reasons": [{"code": code} for code in job.reasons],
    }


def _state(cycle: CycleState, job: Workload) -> str:
    if not job.minimum_met:
        if job.placed and not job.is_broken:
            return "ScheduledPartly"
        return "ScheduledFailed" if "NeverFits" in job.reasons else "Unscheduled"
    return "ScheduledPartly" if job.needing or job.key in cycle.growing else "ScheduledSucceed"


def _target(cycle: CycleState, job: Workload, nominated: dict[str, str]) -> int:
    """Tasks with a node or nominated; pods of a waiting TrainingJob without GPUs are created anyway."""
    have = sum(task.node is not None or task.name in nominated for task in job.varying)
    have += len(cycle.growing.get(job.key, []))
    on_cpus = job.kind == "TrainingJob" and not any(is_gpu(name) for t in job.varying for name in t.requests)
    return max(have, job.minimum) if on_cpus and _state(cycle, job) == "Unscheduled" else have
