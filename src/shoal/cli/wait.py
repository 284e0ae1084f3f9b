"""`shoal wait`: until something holds of objects."""

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from shoal.cli.chosen import Choice, chosen
from shoal.cli.conditions import test_of
from shoal.cli.options import choosing_options
from shoal.cli.printing import name_of
from shoal.cli.session import Failures, Session
from shoal.client.client import Named
from shoal.client.waiting import Test, until
from shoal.cluster.errors import NotFoundError

_WEEK: Final = 7 * 24 * 3600.0


def _test(_: click.Context, __: click.Parameter, value: str) -> tuple[str, Test]:
    try:
        return value, test_of(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def _patience(_: click.Context, __: click.Parameter, value: str) -> float:
    """A duration; one below nothing is a week, as for kubectl."""
    from shoal.api.durations import seconds

    try:
        return _WEEK if value.startswith("-") else seconds(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command()
@choosing_options
@click.option(
    "--for",
    "test",
    required=True,
    callback=_test,
    metavar="WHAT",
    help="delete, create, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE].",
)
@click.option(
    "--timeout",
    default="30s",
    show_default=True,
    callback=_patience,
    metavar="DURATION",
    help="How long to wait for each; 0s looks once, and less is a week.",
)
def wait(
    session: Session,
    wanted: Sequence[str],
    test: tuple[str, Test],
    timeout: float,
    **said: Any,  # noqa: ANN401 - one an option
) -> None:
    r"""Wait until something holds of objects; exits with 1 when it takes too long.

    \b
    Examples:
      shoal wait pod/web --for=condition=Ready
      shoal wait job/train --for=condition=Complete --timeout=1h
      shoal wait dijob/cartpole --for=jsonpath='{.status.phase}'=Succeeded --timeout=10m
      shoal wait pods -l team=a --for=delete
    """
    failures, nothing = Failures(), True
    for one in chosen(session, Choice(wanted=wanted, **said)):
        nothing = False
        with failures.noted():
            _wait(session, one, test, timeout, failures)
    if nothing and test[0] != "delete":
        failures.say("error: no matching resources found")
    failures.end()


def _wait(session: Session, one: Named, test: tuple[str, Test], timeout: float, failures: Failures) -> None:
    said, holds = test
    if said not in ("delete", "create"):
        session.client.get(one.resource, one.name, one.namespace)  # what is not there is not waited for
    try:
        held = until(session.client, one, holds, time.monotonic() + timeout)
    except NotFoundError:
        held = said == "delete"
    if held:
        click.echo(f"{name_of(one.resource, one.name)} condition met")
    elif not timeout:
        failures.say(f"error: condition not met for {one.resource.full_name}/{one.name}")
    else:
        failures.say(f"error: timed out waiting for the condition on {one.resource.full_name}/{one.name}")
