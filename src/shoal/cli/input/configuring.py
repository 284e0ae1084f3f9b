"""`--config`: the scheduler's configuration, read and checked."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.intake import Unreadable
from shoal.cli.input import files
from shoal.engine.config import SchedulerConfig, config_errors
from shoal.policies.registry import policy_errors

_F = TypeVar("_F", bound=Callable[..., Any])


def config_option(command: _F) -> _F:
    """Give a command the option `--config`, as the parameter `config`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The scheduler's configuration (scheduler.yaml).",
    )(command)


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
