"""`--for`: what somebody waits for, read from the command line.

`shoal wait`: until something holds of objects.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from shoal.cli.input.options import selection_options
from shoal.cli.input.selection import Selection, select_objects
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.jsonpath import as_text, evaluate
from shoal.cli.output.printing import typed_name
from shoal.client.client import ObjectName
from shoal.client.watch import Predicate, is_gone, wait_until
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object


def parse_test(said: str) -> Predicate:
    """Whether it holds: `delete`, `create`, `condition=Ready[=true]`, `jsonpath={.a.b}[=value]`.

    ValueError if it is none of these.
    """
    kind, _, rest = said.partition("=")
    if said == "delete":
        return is_gone("")
    if said == "create":
        return lambda thing: thing is not None
    if kind == "condition" and rest:
        name, _, wanted = rest.partition("=")
        return lambda thing: thing is not None and _has_condition(thing, name, wanted or "true")
    if kind == "jsonpath" and rest:
        return _jsonpath_test(rest)
    raise ValueError(f"'{said}' is not delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]")


def _has_condition(thing: Object, name: str, wanted: str) -> bool:
    """Whether a condition is as it should be, and about the object as it is now."""
    status = thing.get("status") or {}
    for condition in status.get("conditions") or ():
        if str(condition.get("type")).lower() == name.lower():
            observed = condition.get("observedGeneration", status.get("observedGeneration"))
            if observed is not None and observed < thing["metadata"].get("generation", 0):
                return False
            return str(condition.get("status")).lower() == wanted.lower()
    return False


def _jsonpath_test(rest: str) -> Predicate:
    path, brace, wanted = rest.rpartition("}")
    if not brace:
        path, _, wanted = rest.partition("=")
        wanted = f"={wanted}" if wanted else ""
    evaluate(path + brace, {})  # what is not a path is said now
    value = wanted.removeprefix("=").strip("\"'") if wanted else None

    def holds(thing: Object | None) -> bool:
        values = evaluate(path + brace, thing or {})
        return any(value is None or as_text(one) == value for one in values)

    return holds


_WEEK: Final = 7 * 24 * 3600.0


def _parse_for(_: click.Context, __: click.Parameter, value: str) -> tuple[str, Predicate]:
    try:
        return value, parse_test(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def _parse_timeout(_: click.Context, __: click.Parameter, value: str) -> float:
    """A duration; one below nothing is a week, as for kubectl."""
    from shoal.api.quantity import seconds

    try:
        return _WEEK if value.startswith("-") else seconds(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command()
@selection_options
@click.option(
    "--for",
    "test",
    required=True,
    callback=_parse_for,
    metavar="WHAT",
    help="delete, create, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE].",
)
@click.option(
    "--timeout",
    default="30s",
    show_default=True,
    callback=_parse_timeout,
    metavar="DURATION",
    help="How long to wait for each; 0s looks once, and less is a week.",
)
def wait(
    session: Session,
    wanted: Sequence[str],
    test: tuple[str, Predicate],
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
    for one in select_objects(session, Selection(wanted=wanted, **said)):
        nothing = False
        with failures.noted():
            _wait(session, one, test, timeout, failures)
    if nothing and test[0] != "delete":
        failures.say("error: no matching resources found")
    failures.end()


def _wait(session: Session, one: ObjectName, test: tuple[str, Predicate], timeout: float, failures: Failures) -> None:
    said, holds = test
    if said not in ("delete", "create"):
        session.client.get(one.resource, one.name, one.namespace)  # what is not there is not waited for
    try:
        held = wait_until(session.client, one, holds, time.monotonic() + timeout)
    except NotFoundError:
        held = said == "delete"
    if held:
        click.echo(f"{typed_name(one.resource, one.name)} condition met")
    elif not timeout:
        failures.say(f"error: condition not met for {one.resource.full_name}/{one.name}")
    else:
        failures.say(f"error: timed out waiting for the condition on {one.resource.full_name}/{one.name}")
