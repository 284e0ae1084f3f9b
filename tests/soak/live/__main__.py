"""Real processes, and a daemon that is killed all the time: `python -m tests.soak.live --minutes 5`."""

import sys
import tempfile
from pathlib import Path

import click

from tests.soak.live.runs import run_live


@click.command(help=__doc__)
@click.option("--minutes", default=1.0, help="Minutes in which jobs are submitted.")
@click.option("--seed", default=0, help="The seed of the jobs and kills.")
def main(minutes: float, seed: int) -> None:
    """Run, and print the result; the directory is kept if something was violated."""
    directory = Path(tempfile.mkdtemp(prefix="shoal-soak-"))
    outcome = run_live(directory, seed, minutes * 60)
    size = f"{outcome.jobs} jobs, {outcome.pods} pods, {outcome.kills} kills, {outcome.changes} writes"
    click.echo(f"{size} in {directory}")
    click.echo("\n".join(outcome.violations) or "no violation")
    sys.exit(bool(outcome.violations))


if __name__ == "__main__":
    main()
