"""`shoal down`: stops the daemon of an embedded home."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import click

from shoal.cli.daemon import LEAVE_PODS, facts_of, is_locked, must_be_up
from shoal.cli.places import home_option

_LOOK: Final = 0.05


@click.command()
@home_option
@click.option("--keep-pods", is_flag=True, help="Let pods run on: the next `shoal up` finds them.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long pods may take to end; then they are killed.",
)
def down(*, home: Path, keep_pods: bool, timeout: float) -> None:
    r"""Stop the embedded cluster: its pods first, each within its grace, then the daemon.

    Objects stay: the next `shoal up` goes on with them. Pods that were ended are started again if their
    restart policy says so; a Job makes new ones.

    \b
    Examples:
      shoal down
      shoal down --keep-pods
    """
    home = home.absolute()
    if is_locked(home):
        _stop(home, timeout, LEAVE_PODS if keep_pods else signal.SIGTERM)
        said = "Shoal is down."
    else:
        said = f"{home} is not served."
    if not keep_pods and (left := _running(home)):  # a daemon that was killed could not end them
        remedy = "`shoal up -d` finds them, and then `shoal down` ends them"
        raise click.ClickException(f"{said} But {left} of its containers run on: {remedy}")
    click.echo(said)


def _stop(home: Path, timeout: float, number: signal.Signals) -> None:
    pid = int(must_be_up(home)["pid"])
    _signal(pid, number)
    if not _gone(home, pid, timeout):
        _signal(pid, signal.SIGTERM)  # the second time it kills
        if not _gone(home, pid, timeout):
            raise click.ClickException(f"the daemon (pid {pid}) does not end: its log says more")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"the daemon (pid {pid}) belongs to another user") from None


def _gone(home: Path, pid: int, seconds: float) -> bool:
    """Wait until nobody has the state, or somebody else has."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not is_locked(home) or ((facts := facts_of(home)) and facts["pid"] != pid):
            return True
        time.sleep(_LOOK)
    return False


def _running(home: Path) -> int:
    """How many containers live: each has a lock in the directory of its run, as a daemon in its home."""
    return sum(is_locked(run) for run in home.glob("pods/*/runs/*/*"))
