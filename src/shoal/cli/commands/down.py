"""`shoal down`: stops the daemon of an embedded home."""

import os
import select
import signal
from pathlib import Path
from typing import Final

import click

from shoal.cli.input.places import home_option
from shoal.embedded.daemon import LEAVE_PODS, is_locked, must_be_up

_LONGEST: Final = 2**31 - 1
"""Milliseconds that the system can wait at once."""


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
    """End the daemon; when this returns it is gone, and not only its lock."""
    pid = int(must_be_up(home)["pid"])
    try:
        daemon = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for told in (number, signal.SIGTERM):  # the second time it kills
            signal.pidfd_send_signal(daemon, told)
            if _ended(daemon, timeout):
                return
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"the daemon (pid {pid}) belongs to another user") from None
    finally:
        os.close(daemon)
    raise click.ClickException(f"the daemon (pid {pid}) does not end: its log says more")


def _ended(daemon: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    return bool(poll.poll(min(seconds * 1000, _LONGEST)))


def _running(home: Path) -> int:
    """How many containers live: each has a lock in the directory of its run, as a daemon in its home."""
    return sum(is_locked(run) for run in home.glob("pods/*/runs/*/*"))
