"""How objects are deleted: with how much grace, with or without what they own, and until they are gone.

`shoal delete`: objects deleted, by file, name, labels, or all of a kind.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.options import dry_run_option, grace_period_option, parse_duration, selection_options
from shoal.cli.input.selection import Selection, select_objects
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.printing import dry_run_suffix, typed_name
from shoal.client.client import ObjectName
from shoal.client.kinds import qualified_kind
from shoal.client.watch import is_gone, wait_until
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to delete, as the command line says it."""

    grace_period: int = -1
    now: bool = False
    force: bool = False
    cascade: str = "background"
    wait: bool = True
    timeout: float = 0.0
    ignore_not_found: bool = False
    dry_run: str = "none"
    output: str = ""

    def options(self) -> Object:
        """What the server is told. No grace at all is for those who insist: it loses track of processes."""
        grace = 1 if self.now else self.grace_period
        if not grace and not self.force:
            grace = 1
        if self.force and grace < 0:
            grace = 0
        made: Object = {"propagationPolicy": self.cascade.capitalize()}
        made |= {"gracePeriodSeconds": grace} if grace >= 0 else {}
        return made | ({"dryRun": ["All"]} if self.dry_run == "server" else {})

    @property
    def deadline(self) -> float:
        """Until when to wait, by the monotonic clock."""
        return time.monotonic() + self.timeout if self.timeout else math.inf


def delete_all(session: Session, objects: list[ObjectName], manner: DeleteOptions) -> None:
    """Delete objects, say so one by one, and wait until they are gone if that is wanted."""
    failures, leaving = Failures(), list[tuple[ObjectName, str]]()
    for one in objects:
        with failures.noted():
            uid = _delete(session, one, manner)
            leaving += [(one, uid)] if uid else []
    if manner.wait and manner.dry_run == "none":
        deadline = manner.deadline
        for one, uid in leaving:
            if not wait_until(session.client, one, is_gone(uid), deadline):
                failures.say(
                    f"error: timed out waiting for the condition on {one.resource.full_name}/{one.name}"
                )
    failures.end()


def _delete(session: Session, one: ObjectName, manner: DeleteOptions) -> str:
    """Begin to delete an object; its uid if it is not gone at once."""
    answer: Object = {}
    if manner.dry_run != "client":
        try:
            answer = session.client.delete(one.resource, one.name, one.namespace, options=manner.options())
        except NotFoundError:
            if manner.ignore_not_found:
                return ""
            raise
    if manner.output == "name":
        click.echo(typed_name(one.resource, one.name))
    else:
        click.echo(_message(one, manner))
    return _uid(answer)


def _message(one: ObjectName, manner: DeleteOptions) -> str:
    done = "force deleted" if manner.force else "deleted"
    space = f" from {one.namespace} namespace" if one.namespace else ""
    return f'{short(one.resource)} "{one.name}" {done}{space}{dry_run_suffix(manner.dry_run)}'


def _uid(answer: dict[str, Any]) -> str:
    """An object that stays for a while comes back as it is; of one that is gone comes a Status."""
    return "" if answer.get("kind", "Status") == "Status" else str(answer["metadata"].get("uid", ""))


@click.command()
@selection_options
@grace_period_option
@click.option("--now", is_flag=True, help="Give pods one second to end.")
@click.option("--force", is_flag=True, help="Do not wait until a node has ended a pod: it may run on.")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="What becomes of those that an object owns: they go after it, before it, or stay.",
)
@click.option(
    "--wait",
    type=bool,
    default=True,
    is_flag=False,
    flag_value=True,
    metavar="true|false",
    help="Wait until the objects are gone; by default so.",
)
@click.option(
    "--timeout",
    default="0s",
    callback=parse_duration,
    metavar="DURATION",
    help="How long to wait; 0s is for ever.",
)
@click.option("--ignore-not-found", is_flag=True, help="Do not mind objects that are not there.")
@dry_run_option
@click.option("-o", "--output", type=click.Choice(["", "name"]), default="", help="Print names only.")
def delete(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Delete objects, and wait until they are gone.

    \b
    Examples:
      shoal delete pod web
      shoal delete -f my-job.yaml
      shoal delete dijob/cartpole tyjob/big
      shoal delete pods -l team=a --grace-period=5
      shoal delete jobs --all --wait=false
    """
    choice = {name: said.pop(name) for name in Selection.__struct_fields__ if name in said}
    manner = DeleteOptions(**said)
    if manner.force:
        click.echo(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
            "terminated. The resource may continue to run on the cluster indefinitely.",
            err=True,
        )
    delete_all(session, [*select_objects(session, Selection(wanted=wanted, **choice))], manner)
