"""What it takes to plan, for the commands that do."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import click

from shoal.policies.contract import Policy
from shoal.policies.worker import PolicyProcess
from shoal.scheduling.config import FULFILMENT, SchedulerConfig

plan_output_option: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print it; wide shows every node and every job.",
)


def policy_of(settings: SchedulerConfig) -> AbstractContextManager[Policy | None]:
    """The policy for elastic jobs, in a process of its own; None for the engine's own."""
    if settings.elastic_policy == FULFILMENT:
        return nullcontext()
    return PolicyProcess(settings.elastic_policy)
