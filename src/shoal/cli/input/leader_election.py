"""The options of leader election, as those of Kubernetes' own components."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shoal.cli.input.options import duration_callback

if TYPE_CHECKING:
    from shoal.election.lease import LeaseOptions

_F = TypeVar("_F", bound=Callable[..., Any])


def _duration_option(name: str, default: str, text: str) -> Callable[[_F], _F]:
    return click.option(
        name, default=default, show_default=True, metavar="DURATION", callback=duration_callback, help=text
    )


_OPTIONS: Final = (
    click.option(
        "--leader-elect/--no-leader-elect",
        default=True,
        show_default=True,
        help="Schedule only while holding a Lease; of several managers the others stand by.",
    ),
    _duration_option(
        "--lease-duration", "12s", "Time without a renewal after which another manager takes over."
    ),
    _duration_option(
        "--renew-deadline", "8s", "Time without a renewal after which the leader stops writing."
    ),
    _duration_option("--retry-period", "2s", "Time between renewals, and between attempts."),
    click.option(
        "--lease-name", default="shoal-manager", show_default=True, metavar="NAME", help="Name of the Lease."
    ),
    click.option(
        "--lease-namespace",
        default="kube-system",
        show_default=True,
        metavar="NAMESPACE",
        help="Namespace of the Lease.",
    ),
)


def leader_election_options(command: _F) -> _F:
    """Add the options of leader election, which `lease_options` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def lease_options(  # noqa: PLR0913 - one parameter an option
    *,
    leader_elect: bool,
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
    lease_name: str,
    lease_namespace: str,
) -> "LeaseOptions | None":
    """Return what the options say; None without leader election."""
    from shoal.election.lease import LeaseOptions

    options = LeaseOptions(
        name=lease_name,
        namespace=lease_namespace,
        duration=lease_duration,
        renew_deadline=renew_deadline,
        retry_period=retry_period,
    )
    if leader_elect and options.problem():
        raise click.UsageError(f"invalid leader election: {options.problem()}")
    return options if leader_elect else None
