"""`shoal delete`: delete objects by name, by file, by selector, or all of a kind."""

import math
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.options import (
    dry_run_option,
    duration_callback,
    grace_period_option,
    ignore_not_found_option,
)
from shoal.cli.input.selection import Selection, select_objects, selection_options
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.printing import dry_run_suffix, typed_name
from shoal.client.client import ObjectName
from shoal.client.kind_resolver import qualified_kind
from shoal.client.watch import is_gone, wait_until
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How objects are deleted: grace period, propagation, waiting."""

    grace_period: int = -1
    now: bool = False
    force: bool = False
    cascade: str = "background"
    wait: bool = True
    timeout: float = 0.0
    ignore_not_found: bool = False
    dry_run: str = "none"
    output: str = ""

    def request_body(self) -> Object:
        """The DeleteOptions to send; without --force the grace period is not 0, which may leave processes."""
        grace = 1 if self.now else self.grace_period
        if not grace and not self.force:
            grace = 1
        if self.force and grace < 0:
            grace = 0
        body: Object = {"propagationPolicy": self.cascade.capitalize()}
        body |= {"gracePeriodSeconds": grace} if grace >= 0 else {}
        return body | ({"dryRun": ["All"]} if self.dry_run == "server" else {})

    @property
    def deadline(self) -> float:
        """When to stop waiting, in seconds of the monotonic clock."""
        return time.monotonic() + self.timeout if self.timeout else math.inf


def delete_all(session: Session, objects: list[ObjectName], options: DeleteOptions) -> None:
    """Delete objects, print a line for each, and wait until they are gone if `options.wait` is set."""
    failures, terminating = Failures(), list[tuple[ObjectName, str]]()
    for name in objects:
        with failures.catch():
            uid = _delete(session, name, options)
            terminating += [(name, uid)] if uid else []
    if options.wait and options.dry_run == "none":
        deadline = options.deadline
        for name, uid in terminating:
            if not wait_until(session.client, name, is_gone(uid), deadline):
                failures.report(
                    f"error: timed out waiting for the condition on {name.resource.full_name}/{name.name}"
                )
    failures.exit_if_any()


def _delete(session: Session, name: ObjectName, options: DeleteOptions) -> str:
    """Send the deletion of an object; its uid if it is not gone at once."""
    response: Object = {}
    if options.dry_run != "client":
        try:
            response = session.client.delete(
                name.resource, name.name, name.namespace, options=options.request_body()
            )
        except NotFoundError:
            if options.ignore_not_found:
                return ""
            raise
    if options.output == "name":
        click.echo(typed_name(name.resource, name.name))
    else:
        click.echo(_message(name, options))
    return _uid(response)


def _message(name: ObjectName, options: DeleteOptions) -> str:
    verb = "force deleted" if options.force else "deleted"
    suffix = f" from {name.namespace} namespace" if name.namespace else ""
    return f'{qualified_kind(name.resource)} "{name.name}" {verb}{suffix}{dry_run_suffix(options.dry_run)}'


def _uid(response: dict[str, Any]) -> str:
    """Uid in the answer to a deletion: a terminating object, or a Status if the object is gone."""
    return "" if response.get("kind", "Status") == "Status" else str(response["metadata"].get("uid", ""))


@click.command()
@selection_options
@grace_period_option
@click.option("--now", is_flag=True, help="Give pods a grace period of 1 second.")
@click.option(
    "--force",
    is_flag=True,
    help="Remove pods at once, without waiting for their nodes: they may keep running.",
)
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="Delete dependent objects afterwards, first, or not at all.",
)
@click.option(
    "--wait",
    type=bool,
    default=True,
    is_flag=False,
    flag_value=True,
    metavar="true|false",
    help="Wait until the objects are gone; default true.",
)
@click.option(
    "--timeout",
    default="0s",
    callback=duration_callback,
    metavar="DURATION",
    help="Maximum time to wait; 0s means no limit.",
)
@ignore_not_found_option
@dry_run_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["", "name"]),
    default="",
    help="Output format; name prints names only.",
)
def delete(session: Session, arguments: Sequence[str], **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Delete objects, and wait until they are gone.

    \b
    Examples:
      shoal delete pod web
      shoal delete -f my-job.yaml
      shoal delete dijob/cartpole tyjob/big
      shoal delete pods -l team=a --grace-period=5
      shoal delete jobs --all --wait=false
    """
    selected = {name: values.pop(name) for name in Selection.__struct_fields__ if name in values}
    options = DeleteOptions(**values)
    if options.force:
        click.echo(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
            "terminated. The resource may continue to run on the cluster indefinitely.",
            err=True,
        )
    delete_all(session, [*select_objects(session, Selection(arguments=arguments, **selected))], options)
