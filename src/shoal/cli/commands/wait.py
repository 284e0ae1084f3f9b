"""`shoal wait`: wait until objects meet a condition."""

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from shoal.cli.input.selection import Selection, select_objects, selection_options
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.jsonpath import as_text, evaluate
from shoal.cli.output.printing import typed_name
from shoal.client.client import ObjectName
from shoal.client.watch import Predicate, is_gone, wait_until
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object

_WEEK_SECONDS: Final = 7 * 24 * 3600.0


class WaitCondition(NamedTuple):
    """What --for names, and the predicate that tests an object for it."""

    text: str
    is_met: Predicate


def _parse_for(_: click.Context, __: click.Parameter, value: str) -> WaitCondition:
    try:
        return WaitCondition(value, parse_condition(value))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def _parse_timeout(_: click.Context, __: click.Parameter, value: str) -> float:
    """Parse a timeout into seconds; a negative one means a week, as in kubectl."""
    from shoal.api.quantity import parse_duration

    try:
        return _WEEK_SECONDS if value.startswith("-") else parse_duration(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command()
@selection_options
@click.option(
    "--for",
    "condition",
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
    help="Maximum time to wait for each object; 0s checks once, a negative value means a week.",
)
def wait(
    session: Session,
    arguments: Sequence[str],
    condition: WaitCondition,
    timeout: float,
    **values: Any,  # noqa: ANN401 - one an option
) -> None:
    r"""Wait until objects meet a condition; exits with 1 at the timeout.

    \b
    Examples:
      shoal wait pod/web --for=condition=Ready
      shoal wait job/train --for=condition=Complete --timeout=1h
      shoal wait dijob/cartpole --for=jsonpath='{.status.phase}'=Succeeded --timeout=10m
      shoal wait pods -l team=a --for=delete
    """
    failures, none_selected = Failures(), True
    for name in select_objects(session, Selection(arguments=arguments, **values)):
        none_selected = False
        with failures.catch():
            _wait_for(session, name, condition, timeout, failures)
    if none_selected and condition.text != "delete":
        failures.report("error: no matching resources found")
    failures.exit_if_any()


def _wait_for(
    session: Session, name: ObjectName, condition: WaitCondition, timeout: float, failures: Failures
) -> None:
    if condition.text not in ("delete", "create"):
        session.client.get(name.resource, name.name, name.namespace)  # a missing object is an error
    try:
        met = wait_until(session.client, name, condition.is_met, time.monotonic() + timeout)
    except NotFoundError:
        met = condition.text == "delete"
    title = f"{name.resource.full_name}/{name.name}"
    if met:
        click.echo(f"{typed_name(name.resource, name.name)} condition met")
    elif not timeout:
        failures.report(f"error: condition not met for {title}")
    else:
        failures.report(f"error: timed out waiting for the condition on {title}")


# --- conditions --------------------------------------------------------------------------------------------


def parse_condition(text: str) -> Predicate:
    """Parse --for: `delete`, `create`, `condition=Ready[=true]` or `jsonpath={.a.b}[=value]`.

    ValueError if it is none of these.
    """
    kind, _, rest = text.partition("=")
    if text == "delete":
        return is_gone("")
    if text == "create":
        return lambda item: item is not None
    if kind == "condition" and rest:
        name, _, expected = rest.partition("=")
        return lambda item: item is not None and _has_condition(item, name, expected or "true")
    if kind == "jsonpath" and rest:
        return _jsonpath_predicate(rest)
    raise ValueError(f"'{text}' is not delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]")


def _has_condition(item: Object, name: str, expected: str) -> bool:
    """Whether a condition has the expected status, and was observed at the current generation."""
    status = item.get("status") or {}
    for condition in status.get("conditions") or ():
        if str(condition.get("type")).lower() == name.lower():
            observed = condition.get("observedGeneration", status.get("observedGeneration"))
            if observed is not None and observed < item["metadata"].get("generation", 0):
                return False
            return str(condition.get("status")).lower() == expected.lower()
    return False


def _jsonpath_predicate(rest: str) -> Predicate:
    path, brace, expected = rest.rpartition("}")
    if not brace:
        path, _, expected = rest.partition("=")
        expected = f"={expected}" if expected else ""
    evaluate(path + brace, {})  # reject an invalid path now
    value = expected.removeprefix("=").strip("\"'") if expected else None

    def is_met(item: Object | None) -> bool:
        values = evaluate(path + brace, item or {})
        return any(value is None or as_text(each) == value for each in values)

    return is_met
