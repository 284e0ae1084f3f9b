"""What it takes to plan, for the commands that do."""

from contextlib import AbstractContextManager, nullcontext

from shoal.policies.contract import Policy
from shoal.policies.worker import PolicyProcess
from shoal.scheduling.config import FULFILMENT, SchedulerConfig


def policy_of(settings: SchedulerConfig) -> AbstractContextManager[Policy | None]:
    """The policy for elastic jobs, in a process of its own; None for the engine's own."""
    if settings.elastic_policy == FULFILMENT:
        return nullcontext()
    return PolicyProcess(settings.elastic_policy)
