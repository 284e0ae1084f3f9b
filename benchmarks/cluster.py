"""What it costs to keep, read and follow the objects of a cluster, beside the least that it could cost.

    python benchmarks/cluster.py            all of it, as the table in docs/performance.md
    python benchmarks/cluster.py --quick    a tenth of the size, to see that it runs
    python benchmarks/cluster.py --only W   the rows whose titles have the words W

Every row has a *floor* that is measured beside it, turn by turn: a loop that does the least of the same
work and nothing else. The ratio says something on any machine; the rates only on this one. The rows about a
real API server need one (`make k8s-assets`) and are left out where there is none.
"""

import argparse
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a real API server is had from tests/k8s

import uvloop

from creating import creates
from following import follow, look, memory
from listing import listing
from measuring import Row
from storing import writes

Measure = Callable[[Path, int], Awaitable[Row]]

ROWS: dict[str, Measure] = {
    "durable writes of one writer that waits for each": lambda place, scale: writes(
        place, 2_000 // scale, writers=1
    ),
    "durable writes of 64 writers that each wait": lambda place, scale: writes(
        place, 10_000 // scale, writers=64
    ),
    "the same compared with inserts without waiting, 64 per commit": lambda place, scale: writes(
        place, 10_000 // scale, writers=64, at_once=64
    ),
    "listing 5,000 pods over HTTPS": lambda place, scale: listing(place, 5_000 // scale),
    "creating pods in a real API server": lambda place, scale: creates(place, 2_000 // scale),
    "the World follows 1,000 changes per second": lambda _, scale: follow(5_000 // scale, 20_000 // scale),
    "a snapshot without changes, compared with the first": lambda _, scale: look(
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
            with tempfile.TemporaryDirectory() as place:
                row = uvloop.run(_run(measure, Path(place), 10 if args.quick else 1))
            print(f"| {title} | {row.measured} | {row.floor} | {row.ratio} | {row.goal} |", flush=True)


async def _run(measure: Measure, place: Path, scale: int) -> Row:
    return await measure(place, scale)


if __name__ == "__main__":
    main()
