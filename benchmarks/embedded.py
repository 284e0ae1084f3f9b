"""`shoal up` on this machine: how soon it is there, how soon a job runs, how many run, in how much memory.

    python benchmarks/embedded.py            all of it, as the table in docs/performance.md
    python benchmarks/embedded.py --quick    a tenth of the size, to see that it runs

Jobs are batch Jobs of one short process each, submitted through the API. The floor is a loop that starts the
same processes through the same shims, without objects, scheduler or API.
"""

import argparse
import tempfile
from pathlib import Path

import uvloop

from daemons import ONE_NODE, daemon, resident
from jobs import bench, memory
from measuring import Row
from starting import start_to_ready, until_asked


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 10 if parser.parse_args().quick else 1
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        show("`shoal up` until it is ready, beside its imports", start_to_ready(place))
        show("`shoal get` until it asks, beside an empty Python", until_asked(place))
        uvloop.run(running(place, 100 // scale, 1_000 // scale))


async def running(place: Path, few: int, many: int) -> None:
    """What a daemon does with jobs, and what that does to it."""
    (place / "bare").mkdir()
    with daemon(place / "jobs", *ONE_NODE) as pid:
        at_first = resident(pid)
        async with bench(place / "jobs", place / "bare") as one:
            half, tail = await one.unloaded(few)
            show("a job from its submission to its process: half of them", half)
            show("the same: 99 of 100", tail)
            show(f"{many:,} jobs at once", await one.at_once(many))
            await one.clear()
            row = await memory(one, pid, 2 * many)
            show(f"memory after {3 * many:,} jobs, beside {2 * many:,}; {at_first:.0f} MiB at first", row)


def show(title: str, row: Row) -> None:
    """Print a line of the table."""
    print(f"| {title} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
