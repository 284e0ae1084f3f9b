"""`shoal scale`: change the size of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.cli.input.options import all_option, dry_run_option, selector_option, targets_argument
from shoal.cli.input.selection import Selection, is_finished, select_objects
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix, typed_name
from shoal.client.client import ObjectName
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object, Resource

if TYPE_CHECKING:
    from shoal.kinds.base import ScalePatch

_AUTO: Final = "auto"
"""The size that the elastic policy decides on."""


def _parse_size(_: click.Context, __: click.Parameter, value: str) -> int | None:
    """Parse a size; None stands for `auto`."""
    if value == _AUTO:
        return None
    if not value.isdecimal():
        raise click.BadParameter(f"must be a whole number from 0, or {_AUTO}, not {value!r}")
    return int(value)


@click.command()
@targets_argument("KIND NAME...", required=True)
@session_option
@selector_option
@all_option
@click.option(
    "--replicas",
    callback=_parse_size,
    required=True,
    metavar="N|auto",
    help="The new size; auto lets the elastic policy decide again.",
)
@click.option(
    "--role",
    default="",
    metavar="NAME",
    help="Task of a DIJob or worker set of a TYJob to scale.",
)
@dry_run_option
def scale(
    session: Session,
    arguments: Sequence[str],
    *,
    replicas: int | None,
    role: str,
    dry_run: str,
    **values: Any,  # noqa: ANN401
) -> None:
    r"""Set the size of jobs.

    For a Job this is the parallelism; for a DIJob the replicas, within minReplicas and maxReplicas if it is
    preemptible; for a DIJob with tasks and for a TYJob the pods of one --role. A TrainingJob is sized by the
    autoscaler. The size of a preemptible DIJob is a request: it is given up with --replicas=auto.

    \b
    Examples:
      shoal scale job/train --replicas=4
      shoal scale dijob cartpole --replicas=8
      shoal scale dijob cartpole --replicas=auto
      shoal scale tyjob/big --role=actor --replicas=16
    """
    failures = Failures()
    for target in select_objects(session, Selection(arguments=arguments, **values)):
        with failures.catch():
            _scale(session, target, replicas, role, dry_run)
    failures.exit_if_any()


def _scale(session: Session, target: ObjectName, replicas: int | None, role: str, dry_run: str) -> None:
    from shoal.cli.input.session import CommandError
    from shoal.kinds.base import CannotScaleError

    name = typed_name(target.resource, target.name)
    manifest = session.client.get(target.resource, target.name, target.namespace)
    try:
        change = scale_patch(target.resource, manifest, replicas, role)
    except CannotScaleError as problem:
        raise CommandError(f"error: {name} {problem}") from None
    if dry_run != "client":
        reference, server_dry_run = (target.resource, target.name, target.namespace), dry_run == "server"
        try:
            session.client.patch(
                *reference, patch=change.patch, subresource=change.subresource, dry_run=server_dry_run
            )
        except NotFoundError:
            raise CommandError(f"error: {name} cannot be scaled: it has no scale subresource") from None
    click.echo(f"{name} scaled{dry_run_suffix(dry_run)}")


def scale_patch(resource: Resource[Any], manifest: Object, replicas: int | None, role: str) -> "ScalePatch":
    """The patch that changes the size of an object: as its kind does it, else by the scale subresource.

    None stands for `auto`. CannotScaleError if it cannot have that size, or not in this way.
    """
    from shoal.kinds.base import CannotScaleError, ScalePatch, job_kinds

    kind = job_kinds().get(resource.kind)
    if kind is None or kind.group != resource.group:
        if replicas is None:
            raise CannotScaleError("is not sized automatically: give --replicas a number")
        return ScalePatch({"spec": {"replicas": replicas}}, "scale")
    if is_finished(manifest):
        raise CannotScaleError("has finished and cannot be scaled: to run it again, delete and apply it")
    if manifest["metadata"].get("deletionTimestamp"):
        raise CannotScaleError("is being deleted and cannot be scaled")
    if replicas is not None:
        return kind.scale(manifest, replicas, role)
    if role:
        raise CannotScaleError("is sized as a whole by --replicas=auto: leave out --role")
    return kind.scale_automatically(manifest)
