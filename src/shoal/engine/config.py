"""The scheduler's configuration: the fields of `scheduler.yaml`."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from shoal.api.fields import FieldError
from shoal.api.quantity import parse_duration
from shoal.engine.workload import QueuePolicy

FULFILMENT: Final = "fulfilment"
"""Name of the built-in elastic policy (see `shoal.engine.fulfilment`)."""

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings of one scheduler; every key is optional. docs/configuration.md describes them."""

    scheduler_names: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("shoal", "ai-scheduler")
    queue_policy: QueuePolicy | None = None
    disable_preemption: bool = False
    order: Literal["PreemptFirst", "BorrowFirst"] = "PreemptFirst"
    elastic_policy: str = FULFILMENT
    max_load: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.97
    cooldown: str | Seconds = "30s"
    rebalance: bool = True
    optimise_period: str | Seconds = "60s"
    infeasible_seconds: Seconds | None = 60
    node_lost_seconds: Seconds = 60
    gang_recovery_seconds: Seconds = 300
    reclaim_grace_period_seconds: Seconds | None = None

    def schedules(self, name: str) -> bool:
        """Whether this scheduler is responsible for pods with this `schedulerName`.

        A pod without a name belongs to Kubernetes' default scheduler.
        """
        return "*" in self.scheduler_names or (name or "default-scheduler") in self.scheduler_names


def config_errors(config: SchedulerConfig) -> Iterator[FieldError]:
    """Errors in a configuration whose field types are already valid."""
    for field, duration in (("cooldown", config.cooldown), ("optimisePeriod", config.optimise_period)):
        try:
            parse_duration(duration)
        except ValueError as problem:
            yield FieldError(field, str(problem))
