"""The status fields of a TrainingJob that follow from its pods: the figures of each role, and the score."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from shoal.controllers.jobs.slots import JobSlots
from shoal.kinds.trainingjob.slots import Instance
from shoal.kinds.trainingjob.types import ManagedTrainingJob, RoleStatus


def role_figures(
    job: ManagedTrainingJob, slots: JobSlots[Instance], failed: Iterable[Instance], *, final: bool
) -> dict[str, RoleStatus]:
    """Return the figures of all roles; `failed` are the instances whose failures are counted now.

    The scheduler writes the desired number. Nothing of a job that has ended is ready.
    """
    live = () if final else (one for one in slots.wanted if slots.is_live(one) and slots.is_ready(one))
    ready, succeeded = Counter(one.role for one in live), Counter(one.role for one in slots.completed)
    failures = Counter(one.role for one in failed)
    figures = dict(job.status.replicas)
    for role in job.spec.roles:
        before = figures.get(role, RoleStatus())
        figures[role] = replace(
            before, ready=ready[role], succeeded=succeeded[role], failed=before.failed + failures[role]
        )
    return figures


def score(job: ManagedTrainingJob) -> float:
    """Return the fulfilment: 0 at or below the minimum of trainers, 1 at the maximum."""
    trainer, desired = job.spec.trainer, job.status.replicas.get("trainer", RoleStatus()).desired
    least, most = trainer.min_instance, trainer.max_instance
    return 1.0 if least == most else min(max((desired - least) / (most - least), 0.0), 1.0)
