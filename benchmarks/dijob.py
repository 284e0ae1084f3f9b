"""DIJobs in `shoal up` on this machine: how soon the workers of a job run, and how soon one more does.

    python benchmarks/dijob.py            the complete table of docs/performance.md
    python benchmarks/dijob.py --quick    fewer rounds, to check that it works

The floor is a loop that spawns the same processes, without objects, scheduler, API or shims.
"""

import argparse
import tempfile
from pathlib import Path

import uvloop

from daemons import LARGE_NODE, daemon
from gangs import open_gang_bench
from measuring import Row

SIZES = (1, 16, 64)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 1 if parser.parse_args().quick else 5
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as path:
        uvloop.run(measure_workers(Path(path), rounds))


async def measure_workers(directory: Path, rounds: int) -> None:
    """Measure how soon workers run."""
    with daemon(directory / "home", *LARGE_NODE):
        async with open_gang_bench(directory / "home") as bench:
            for workers in SIZES:
                row = await bench.measure_start(workers, rounds)
                print_row(f"a DIJob of {workers} from its submission until all its workers are ready", row)
            row = await bench.measure_growth(SIZES[1], rounds)
            print_row(f"one more worker for a DIJob of {SIZES[1]}, from the request until it is ready", row)


def print_row(title: str, row: Row) -> None:
    """Print a row of the table."""
    print(f"| {title} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
