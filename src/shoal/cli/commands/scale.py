"""`shoal scale`: jobs of another size."""

from collections.abc import Sequence
from typing import Any

import click

from shoal.cli.input.completion import complete_targets
from shoal.cli.input.options import all_option, dry_run_option, selector_option
from shoal.cli.input.selection import Selection, select_objects
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix, typed_name
from shoal.client.client import ObjectName
from shoal.cluster.errors import NotFoundError


@click.command()
@click.argument("wanted", nargs=-1, required=True, metavar="KIND NAME...", shell_complete=complete_targets)
@session_option
@selector_option
@all_option
@click.option("--replicas", type=click.IntRange(0), required=True, metavar="N", help="The size to be.")
@click.option(
    "--role",
    default="",
    metavar="NAME",
    help="The task of a DIJob or the worker set of a TYJob that is meant.",
)
@dry_run_option
def scale(
    session: Session,
    wanted: Sequence[str],
    *,
    replicas: int,
    role: str,
    dry_run: str,
    **said: Any,  # noqa: ANN401
) -> None:
    r"""Change the size of jobs.

    Of a Job it is the parallelism; of a DIJob the replicas, if it is preemptible between its minimum and its
    maximum; of a DIJob with tasks and of a TYJob the number of pods of one --role. A TrainingJob is sized by
    the autoscaler.

    \b
    Examples:
      shoal scale job/train --replicas=4
      shoal scale dijob cartpole --replicas=8
      shoal scale tyjob/big --role=actor --replicas=16
    """
    failures = Failures()
    for one in select_objects(session, Selection(wanted=wanted, **said)):
        with failures.noted():
            _scale(session, one, replicas, role, dry_run)
    failures.end()


def _scale(session: Session, one: ObjectName, replicas: int, role: str, dry_run: str) -> None:
    from shoal.cli.input.scaling import CannotScaleError, rescaling
    from shoal.cli.input.session import CommandError

    name = typed_name(one.resource, one.name)
    thing = session.client.get(one.resource, one.name, one.namespace)
    try:
        change = rescaling(one.resource, thing, replicas, role)
    except CannotScaleError as problem:
        raise CommandError(f"error: {name} {problem}") from None
    if dry_run != "client":
        place, rehearsed = (one.resource, one.name, one.namespace), dry_run == "server"
        try:
            session.client.patch(*place, patch=change.patch, part=change.part, dry_run=rehearsed)
        except NotFoundError:
            raise CommandError(f"error: {name} has no size that could be changed") from None
    click.echo(f"{name} scaled{dry_run_suffix(dry_run)}")
