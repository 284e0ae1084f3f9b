"""Simulated days: `python -m tests.soak --seed 7 --days 1`, or many with `--seeds 100`."""

import sys
import time

import click

from tests.soak.runs import Outcome, SoakConfig, run_soak

_DEFAULTS = SoakConfig(seed=0)


@click.command(help=__doc__)
@click.option("--seed", default=_DEFAULTS.seed, help="The first seed.")
@click.option("--seeds", default=1, help="Number of seeds.")
@click.option("--days", default=_DEFAULTS.days, help="Days with users.")
@click.option("--faults", default=_DEFAULTS.faults, help="Faults per day.")
@click.option("--arrivals", default=_DEFAULTS.arrivals, help="Arrivals per day.")
def main(seed: int, seeds: int, days: float, faults: int, arrivals: int) -> None:
    """Run, and print the results; fail if an invariant was violated."""
    total, violations = 0.0, 0
    for each in range(seed, seed + seeds):
        began = time.process_time()
        outcome = run_soak(SoakConfig(seed=each, days=days, faults=faults, arrivals=arrivals))
        total += outcome.days
        violations += bool(outcome.violation)
        click.echo(_line(each, outcome, time.process_time() - began))
        if seeds == 1:
            click.echo("\n".join(outcome.faults))
    click.echo(f"{total:.1f} simulated days in {time.process_time():.0f} s of CPU")
    sys.exit(bool(violations))


def _line(seed: int, outcome: Outcome, took: float) -> str:
    faults = f"{outcome.pods} pods, {len(outcome.faults)} faults"
    size = f"{outcome.days:.2f} days, {outcome.commits} commits, {faults}"
    return f"seed {seed}: {size}, {took:.1f} s: {outcome.violation or 'no violation'}"


if __name__ == "__main__":
    main()
