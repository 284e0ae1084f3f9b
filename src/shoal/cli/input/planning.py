"""`--config`: the scheduler's configuration, read and checked."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec.structs import replace

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.intake import Unreadable
from shoal.cache.world import World
from shoal.cli.input import files
from shoal.engine.config import FULFILMENT, SchedulerConfig, config_errors
from shoal.policies.contract import Policy
from shoal.policies.process import PolicyProcess
from shoal.policies.registry import policy_errors

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.cluster.port import Cluster


def read_config(path: Path | None, **usual: object) -> SchedulerConfig:
    """The configuration in a file, with other usual values than the usual ones.

    Exits with 2 and everything that is wrong with it if it is bad.
    """
    try:
        said = _mapping_in(path) if path else {}
        return decode(SchedulerConfig, {**usual, **said}, check=_errors)
    except InvalidObjectError as problem:
        for error in problem.errors:
            click.echo(f"error: {path}: {error}", err=True)
        raise click.exceptions.Exit(2) from None


def _errors(settings: SchedulerConfig) -> Iterator[FieldError]:
    yield from config_errors(settings)
    yield from policy_errors(settings)


def _mapping_in(path: Path) -> Mapping[str, Any]:
    found = [raw for _, raw in files.read([str(path)])]
    problems = [raw.problem for raw in found if isinstance(raw, Unreadable)]
    if not problems and len(found) == 1 and isinstance(found[0], Mapping):
        return found[0]
    problems = problems or ["must have one mapping, and nothing else"]
    raise InvalidObjectError(FieldError("", problem) for problem in problems)


class LiveCluster(NamedTuple):
    """A world, and what it is to be planned with."""

    world: World
    settings: SchedulerConfig


def read_cluster(access: "Access", config: Path | None, now: float | None = None) -> LiveCluster:
    """All that scheduling reads of a cluster, once. What cannot be read is named and left out.

    The configuration is that of the file if there is one, else that of the cluster's own scheduler. Exits
    with 1 and one line if the cluster cannot be asked.
    """
    from shoal.cluster.errors import ClusterError

    said = read_config(config) if config else None
    try:
        return asyncio.run(_read_cluster(access, said, time.time() if now is None else now))
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem}") from None


async def _read_cluster(access: "Access", said: SchedulerConfig | None, now: float) -> LiveCluster:
    from shoal.cache.live import read_once
    from shoal.cluster.kubernetes.home import KubernetesCluster

    cluster, world = KubernetesCluster(access), World(now)
    try:
        for name, problem in await read_once(cluster, world):
            click.echo(f"left out: {name}: {problem}", err=True)
        return LiveCluster(world, said or await cluster_config(cluster))
    finally:
        await cluster.close()


async def cluster_config(cluster: "Cluster") -> SchedulerConfig:
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


def open_policy(settings: SchedulerConfig) -> AbstractContextManager[Policy | None]:
    """The policy for elastic jobs, in a process of its own; None for the engine's own."""
    if settings.elastic_policy == FULFILMENT:
        return nullcontext()
    return PolicyProcess(settings.elastic_policy)
