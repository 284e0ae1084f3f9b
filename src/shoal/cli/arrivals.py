"""What a plan has to say of each node: who came, and for whom its room is kept."""

from collections.abc import Iterable

from rich.text import Text

from shoal.api.names import small_number
from shoal.scheduling.report import Report


def news(answer: Report) -> dict[str, Text]:
    """What there is to say, by node; nothing of the others."""
    said = {node: Text(", ".join(_ranges(pods))) for node, pods in _arrived(answer).items()}
    for node, pods in _kept(answer).items():
        waited = Text(f"kept for {', '.join(_ranges(pods))}", style="dim")
        said[node] = Text("; ").join([said[node], waited]) if node in said else waited
    return said


def _arrived(answer: Report) -> dict[str, list[str]]:
    """The pods that came to each node and are there at the end: in many cycles some come and go again."""
    there = {
        (f"{job.job.split('/')[1]}/{pod}", node)
        for job in answer.jobs
        for pod, node in job.allocation.items()
    }
    arrived: dict[str, list[str]] = {}
    for pod, node in dict.fromkeys((placement.pod, placement.node) for placement in answer.placements):
        if (pod, node) in there:
            arrived.setdefault(node, []).append(pod.partition("/")[2])
    return arrived


def _kept(answer: Report) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    for job in answer.jobs:
        for pod, node in job.nominated.items():
            kept.setdefault(node, []).append(pod)
    return kept


def _ranges(names: Iterable[str]) -> list[str]:
    """Names with neighbouring numbers drawn together: `a-worker-0…3`."""
    found: list[tuple[str, int, int] | str] = []
    for stem, number in sorted(map(_numbered, names)):
        if number < 0:
            found.append(stem)
            continue
        before = found[-1] if found else ""
        if isinstance(before, tuple) and before[0] == stem and before[2] == number - 1:
            found[-1] = (stem, before[1], number)
        else:
            found.append((stem, number, number))
    return [
        f if isinstance(f, str) else f"{f[0]}-{f[1]}" + (f"…{f[2]}" if f[2] > f[1] else "") for f in found
    ]


def _numbered(name: str) -> tuple[str, int]:
    """A name as its stem and its number; one without a number (`007` is none) is all stem, with -1."""
    stem, _, tail = name.rpartition("-")
    number = small_number(tail)
    return (stem, number) if stem and number is not None and str(number) == tail else (name, -1)
