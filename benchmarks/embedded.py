"""`shoal up` on this machine: start-up time, latency and throughput of jobs, and memory.

    python benchmarks/embedded.py            the complete table of docs/performance.md
    python benchmarks/embedded.py --quick    a tenth of the size, to check that it works

Jobs are batch Jobs of one short process each, submitted through the API. The floor is a loop that starts the
same processes through the same shims, without objects, scheduler or API.
"""

import argparse
import tempfile
from pathlib import Path

import uvloop

from daemons import LARGE_NODE, daemon, resident_memory
from jobs import memory_growth, open_bench
from measuring import Row
from starting import get_until_request, up_until_ready


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 10 if parser.parse_args().quick else 1
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        print_row("`shoal up` until it is ready; floor: its imports", up_until_ready(directory))
        print_row("`shoal get` until its request; floor: an empty Python", get_until_request(directory))
        uvloop.run(measure_jobs(directory, 100 // scale, 1_000 // scale))


async def measure_jobs(directory: Path, few: int, many: int) -> None:
    """Measure latency and throughput of jobs, and the memory of the daemon."""
    (directory / "bare").mkdir()
    with daemon(directory / "jobs", *LARGE_NODE) as pid:
        initial = resident_memory(pid)
        async with open_bench(directory / "jobs", directory / "bare") as bench:
            median, tail = await bench.measure_latency(few)
            print_row("a job from its submission to its process: median", median)
            print_row("the same: 99th percentile", tail)
            print_row(f"{many:,} jobs at once", await bench.measure_throughput(many))
            await bench.delete_jobs()
            row = await memory_growth(bench, pid, 2 * many)
            print_row(
                f"memory after {3 * many:,} jobs; floor: after {2 * many:,}; {initial:.0f} MiB at the start",
                row,
            )


def print_row(title: str, row: Row) -> None:
    """Print a row of the table."""
    print(f"| {title} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
