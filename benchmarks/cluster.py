"""Cost of storing, reading and following the objects of a cluster, compared with a lower bound.

    python benchmarks/cluster.py            everything, as the table in docs/performance.md
    python benchmarks/cluster.py --quick    a tenth of the size, to see that it runs
    python benchmarks/cluster.py --only W   the rows whose titles contain W

Every row has a *floor* that is measured alternately with it: a loop that does the least possible part of the
same work. The ratio is comparable between machines; the rates are not. The rows about a real API server need
one (`make k8s-assets`), and are skipped without it.
"""

import argparse
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/k8s starts a real API server

import uvloop

from creating import creates
from listing import listing
from measuring import Row
from storing import writes
from world_updates import follow, memory, unchanged_snapshot

Measure = Callable[[Path, int], Awaitable[Row]]

ROWS: dict[str, Measure] = {
    "durable writes of one writer that waits for each": lambda directory, scale: writes(
        directory, 2_000 // scale, writers=1
    ),
    "durable writes of 64 writers that each wait": lambda directory, scale: writes(
        directory, 10_000 // scale, writers=64
    ),
    "the same compared with inserts without waiting, 64 per commit": lambda directory, scale: writes(
        directory, 10_000 // scale, writers=64, at_once=64
    ),
    "listing 5,000 pods over HTTPS": lambda directory, scale: listing(directory, 5_000 // scale),
    "creating pods in a real API server": lambda directory, scale: creates(directory, 2_000 // scale),
    "the World follows 1,000 changes per second": lambda _, scale: follow(5_000 // scale, 20_000 // scale),
    "a snapshot without changes, compared with the first": lambda _, scale: unchanged_snapshot(
        5_000 // scale, 20_000 // scale
    ),
    "memory of the World": lambda _, scale: memory(5_000 // scale, 20_000 // scale),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows whose title has these words")
    args = parser.parse_args()
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    for title, measure in ROWS.items():
        if args.only in title:
            with tempfile.TemporaryDirectory() as directory:
                row = uvloop.run(_run(measure, Path(directory), 10 if args.quick else 1))
            print(f"| {title} | {row.measured} | {row.floor} | {row.ratio} | {row.goal} |", flush=True)


async def _run(measure: Measure, directory: Path, scale: int) -> Row:
    return await measure(directory, scale)


if __name__ == "__main__":
    main()
