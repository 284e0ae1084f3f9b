"""A cluster as it is now, for commands that only look: its world, and how its scheduler schedules.

What it takes to plan, for the commands that do.
"""

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from msgspec.structs import replace

from shoal.api.fields import InvalidObjectError
from shoal.cache.world import World
from shoal.cli.input.configuring import read_config
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.policies.contract import Policy
from shoal.policies.process import PolicyProcess
from shoal.policies.registry import policy_errors

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.cluster.port import Cluster


class Living(NamedTuple):
    """A world, and what it is to be planned with."""

    world: World
    settings: SchedulerConfig


def look(access: "Access", config: Path | None, now: float | None = None) -> Living:
    """All that scheduling reads of a cluster, once. What cannot be read is named and left out.

    The configuration is that of the file if there is one, else that of the cluster's own scheduler. Exits
    with 1 and one line if the cluster cannot be asked.
    """
    from shoal.cluster.errors import ClusterError

    said = read_config(config) if config else None
    try:
        return asyncio.run(_look(access, said, time.time() if now is None else now))
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem}") from None


async def _look(access: "Access", said: SchedulerConfig | None, now: float) -> Living:
    from shoal.cache.live import read_once
    from shoal.cluster.kubernetes.home import KubernetesCluster

    cluster, world = KubernetesCluster(access), World(now)
    try:
        for name, problem in await read_once(cluster, world):
            click.echo(f"left out: {name}: {problem}", err=True)
        return Living(world, said or await settings_of(cluster))
    finally:
        await cluster.close()


async def settings_of(cluster: "Cluster") -> SchedulerConfig:
    """How the scheduler of a cluster schedules; as usual where nobody says."""
    from shoal.scheduler.settings import published

    try:
        found = await published(cluster) or SchedulerConfig()
    except InvalidObjectError as problem:
        click.echo(f"left out: the configuration in the cluster: {problem}", err=True)
        return SchedulerConfig()
    if any(policy_errors(found)):
        click.echo(f"policy {found.elastic_policy} is not installed here: {FULFILMENT} instead", err=True)
        return replace(found, elastic_policy=FULFILMENT)
    return found


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
