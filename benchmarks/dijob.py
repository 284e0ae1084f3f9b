"""DIJobs in `shoal up` on this machine: how soon the workers of a job run, and how fast its server answers.

    python benchmarks/dijob.py            the complete table of docs/performance.md
    python benchmarks/dijob.py --quick    fewer rounds, to check that it works
    python benchmarks/dijob.py server     one part of it: workers, server

The floor of workers is a loop that spawns the same processes, without objects, scheduler, API or shims; that
of the server a bare Starlette handler.
"""

import argparse
import tempfile
from pathlib import Path

import uvloop

from asking import measure_requests
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
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to measure; default all")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    rounds = 1 if arguments.quick else 5
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    for part in arguments.parts or PARTS:
        with tempfile.TemporaryDirectory() as path:
            uvloop.run(PARTS[part](Path(path), rounds))


async def measure_workers(directory: Path, rounds: int) -> None:
    """Measure how soon workers run."""
    with daemon(directory / "home", *LARGE_NODE):
        async with open_gang_bench(directory / "home") as bench:
            for workers in SIZES:
                row = await bench.measure_start(workers, rounds)
                print_row(f"a DIJob of {workers} from its submission until all its workers are ready", row)
            row = await bench.measure_growth(SIZES[1], rounds)
            print_row(f"one more worker for a DIJob of {SIZES[1]}, from the request until it is ready", row)


async def measure_server(directory: Path, rounds: int) -> None:
    """Measure how fast the DI server answers."""
    with daemon(directory / "home", *LARGE_NODE):
        for title, row in await measure_requests(directory / "home", 2_000 * rounds, min(rounds, 3)):
            print_row(title, row)


PARTS = {"workers": measure_workers, "server": measure_server}


def print_row(title: str, row: Row) -> None:
    """Print a row of the table."""
    print(f"| {title} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
