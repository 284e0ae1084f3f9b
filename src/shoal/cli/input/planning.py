"""Input of the commands that plan: the scheduler's configuration, the live cluster, the policy, the job.

A job is named `TYJob/ns/name`, `tj/name`, `ns/name` or `name`.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec.structs import replace

from shoal.api import registry
from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.loader import UnreadableSource
from shoal.cache.world import World
from shoal.cli.input import files
from shoal.engine.config import FULFILMENT, SchedulerConfig, config_errors
from shoal.policies.contract import Policy
from shoal.policies.process import PolicyProcess
from shoal.policies.registry import policy_errors

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.cluster.port import Cluster

_CORE_KINDS: Final = {
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "Pod": ("pod", "pods", "po"),
    "Gang": ("gang", "gangs"),
}
"""Names of the kinds of workloads that Shoal does not define."""

_MAX_LISTED: Final = 10


def read_config(path: Path | None, **defaults: object) -> SchedulerConfig:
    """Read the configuration file; `defaults` replace built-in defaults.

    Exits with 2 and prints all errors if it is invalid.
    """
    try:
        fields = _read_mapping(path) if path else {}
        return decode(SchedulerConfig, {**defaults, **fields}, check=_errors)
    except InvalidObjectError as problem:
        for error in problem.errors:
            click.echo(f"error: {path}: {error}", err=True)
        raise click.exceptions.Exit(2) from None


def _errors(config: SchedulerConfig) -> Iterator[FieldError]:
    yield from config_errors(config)
    yield from policy_errors(config)


def _read_mapping(path: Path) -> Mapping[str, Any]:
    documents = [document for _, document in files.read([str(path)])]
    problems = [document.problem for document in documents if isinstance(document, UnreadableSource)]
    if not problems and len(documents) == 1 and isinstance(documents[0], Mapping):
        return documents[0]
    problems = problems or ["must contain exactly one mapping"]
    raise InvalidObjectError(FieldError("", problem) for problem in problems)


class LiveCluster(NamedTuple):
    """The world read from a live cluster, and the configuration to plan it with."""

    world: World
    config: SchedulerConfig


def read_cluster(access: "Access", config: Path | None, now: float | None = None) -> LiveCluster:
    """Read everything that scheduling needs from a cluster, once. Unreadable objects are named and left out.

    The configuration comes from the file if there is one, else from the cluster's own scheduler. Exits with 1
    and one line if the cluster cannot be read.
    """
    from shoal.cluster.errors import ClusterError

    given = read_config(config) if config else None
    try:
        return asyncio.run(_read_cluster(access, given, time.time() if now is None else now))
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem}") from None


async def _read_cluster(access: "Access", config: SchedulerConfig | None, now: float) -> LiveCluster:
    from shoal.cache.live import read_once
    from shoal.cluster.kubernetes.cluster import KubernetesCluster

    cluster, world = KubernetesCluster(access), World(now)
    try:
        for name, problem in await read_once(cluster, world):
            click.echo(f"left out: {name}: {problem}", err=True)
        return LiveCluster(world, config or await cluster_config(cluster))
    finally:
        await cluster.close()


async def cluster_config(cluster: "Cluster") -> SchedulerConfig:
    """The configuration that the cluster's scheduler has published; the defaults if it has not."""
    from shoal.scheduler.settings import published

    try:
        config = await published(cluster) or SchedulerConfig()
    except InvalidObjectError as problem:
        click.echo(f"left out: the configuration in the cluster: {problem}", err=True)
        return SchedulerConfig()
    if any(policy_errors(config)):
        message = f"policy {config.elastic_policy} is not installed here: using {FULFILMENT} instead"
        click.echo(message, err=True)
        return replace(config, elastic_policy=FULFILMENT)
    return config


plan_output_option: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; wide shows every node and every job.",
)


def open_policy(config: SchedulerConfig) -> AbstractContextManager[Policy | None]:
    """Start the policy for elastic jobs in its own process; None for the engine's built-in policy."""
    if config.elastic_policy == FULFILMENT:
        return nullcontext()
    return PolicyProcess(config.elastic_policy)


class JobNameError(ValueError):
    """Raised when a name matches no job, or more than one; the message lists candidates."""


def find_job(query: str, keys: Collection[str]) -> str:
    """The only job that a name matches; `keys` are those of a plan: `TYJob/ns/name`."""
    found = [key for key in keys if _matches(query, key)]
    if len(found) == 1:
        return found[0]
    if found:
        raise JobNameError(f"'{query}' matches {len(found)} jobs: {_join_keys(found)}")
    similar = _similar(query, keys)
    hint = (
        f"did you mean {_join_keys(similar)}?"
        if similar
        else "the plan has " + (_join_keys(sorted(keys)) or "no job")
    )
    raise JobNameError(f"there is no job '{query}' in the plan, or it has finished; {hint}")


def _matches(query: str, key: str) -> bool:
    """Whether a name matches a job; the kind, the namespace or both may be left out."""
    kind, namespace, name = key.split("/", 2)
    match query.split("/"):
        case [a, b, c]:
            return _is_kind(a, kind) and (b, c) == (namespace, name)
        case [a, b]:
            return b == name and (_is_kind(a, kind) or a == namespace)
        case _:
            return query == name


def _is_kind(text: str, kind: str) -> bool:
    own = {type_.kind: (type_.kind.lower(), type_.plural, type_.short_name) for type_ in registry.types()}
    return text.lower() in (own | _CORE_KINDS).get(kind, (kind.lower(),))


def _similar(query: str, keys: Collection[str]) -> list[str]:
    """Jobs with similar names, or with names that start with it, as pods of a batch Job have; best first."""
    name = query.rpartition("/")[2]
    names = sorted({key.split("/", 2)[2] for key in keys})
    candidates = [
        *get_close_matches(name, names, n=_MAX_LISTED),
        *(n for n in names if n.startswith(f"{name}-")),
    ]
    rank = {candidate: number for number, candidate in reversed(list(enumerate(candidates)))}
    similar = (key for key in keys if key.split("/", 2)[2] in rank)
    return sorted(similar, key=lambda key: (rank[key.split("/", 2)[2]], key))


def _join_keys(keys: list[str]) -> str:
    more = len(keys) - _MAX_LISTED
    return ", ".join(keys[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
