"""Simulated days by hand: `python -m tests.soak --seed 7 --days 1`, or many with `--seeds 100`."""

import sys
import time

import click

from tests.soak.running import Outcome, Soak, soaked

_USUAL = Soak(seed=0)


@click.command(help=__doc__)
@click.option("--seed", default=_USUAL.seed, help="The first seed.")
@click.option("--seeds", default=1, help="How many.")
@click.option("--days", default=_USUAL.days, help="For how long users are there.")
@click.option("--faults", default=_USUAL.faults, help="How many a day.")
@click.option("--arrivals", default=_USUAL.arrivals, help="How many a day.")
def main(seed: int, seeds: int, days: float, faults: int, arrivals: int) -> None:
    """Run, and say how it went; fail if a promise was broken."""
    total, broken = 0.0, 0
    for each in range(seed, seed + seeds):
        begun = time.process_time()
        made = soaked(Soak(seed=each, days=days, faults=faults, arrivals=arrivals))
        total += made.days
        broken += bool(made.broken)
        click.echo(_line(each, made, time.process_time() - begun))
        if seeds == 1:
            click.echo("\n".join(made.story))
    click.echo(f"{total:.1f} simulated days in {time.process_time():.0f} s of CPU")
    sys.exit(bool(broken))


def _line(seed: int, made: Outcome, took: float) -> str:
    size = f"{made.days:.2f} days, {made.commits} commits, {made.pods} pods, {len(made.story)} faults"
    return f"seed {seed}: {size}, {took:.1f} s: {made.broken or 'no promise broken'}"


if __name__ == "__main__":
    main()
