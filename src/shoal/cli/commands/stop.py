"""`shoal stop`: end jobs now, as succeeded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.input.options import all_option, dry_run_option, selector_option, targets_argument
from shoal.cli.input.selection import Selection, is_finished, select_objects
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix, typed_name
from shoal.client.client import ObjectName
from shoal.cluster.resources import Object, Resource

if TYPE_CHECKING:
    from shoal.kinds.base import Manifest


@click.command()
@targets_argument("KIND NAME...", required=True)
@session_option
@selector_option
@all_option
@dry_run_option
def stop(
    session: Session,
    arguments: Sequence[str],
    *,
    dry_run: str,
    **values: Any,  # noqa: ANN401
) -> None:
    r"""End jobs now, as succeeded.

    The pods are deleted as cleanPodPolicy says, and the job does not run again. Only a TYJob can be ended in
    this way. To pause a job of any kind, set spec.suspend; to discard it, delete it.

    \b
    Examples:
      shoal stop tyjob/big
      shoal stop tyjobs -l team=go
    """
    failures = Failures()
    for target in select_objects(session, Selection(arguments=arguments, **values)):
        with failures.catch():
            _stop(session, target, dry_run)
    failures.exit_if_any()


def _stop(session: Session, target: ObjectName, dry_run: str) -> None:
    from shoal.cli.input.session import CommandError
    from shoal.kinds.base import CannotStopError

    name = typed_name(target.resource, target.name)
    reference = target.resource, target.name, target.namespace
    manifest = session.client.get(*reference)
    try:
        patch = stop_patch(target.resource, manifest)
    except CannotStopError as problem:
        raise CommandError(f"error: {name} {problem}") from None
    if dry_run != "client":
        session.client.patch(*reference, patch=patch, dry_run=dry_run == "server")
    click.echo(f"{name} stopped{dry_run_suffix(dry_run)}")


def stop_patch(resource: Resource[Any], manifest: Object) -> "Manifest":
    """The patch that ends a job. CannotStopError if it cannot be ended, or not in this way."""
    from shoal.kinds.base import CannotStopError, job_kinds

    kind = job_kinds().get(resource.kind)
    if kind is None or kind.group != resource.group:
        raise CannotStopError("cannot be stopped: it is not a job")
    if is_finished(manifest):
        raise CannotStopError("has finished already")
    if manifest["metadata"].get("deletionTimestamp"):
        raise CannotStopError("is being deleted already")
    return kind.stop(manifest)
