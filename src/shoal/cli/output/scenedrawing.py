"""A scene for the eye: machines filled with the colours of jobs, jobs in figures, the last news."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.api.fields import many, printable
from shoal.cli.output.scene import JobRow, NodeRow, Scene, Seat

R = TypeVar("R")

_COLOURS: Final = (
    "cyan",
    "magenta",
    "green",
    "blue",
    "yellow",
    "bright_red",
    "bright_cyan",
    "bright_magenta",
)
_MOST_CELLS: Final = 16
_HOME, _GUEST, _LEAVING, _FREE = "█", "▒", "░", "·"
LEGEND: Final = f"{_HOME} at home  {_GUEST} borrowed  {_LEAVING} leaving  {_FREE} free"


class Palette(dict[str, str]):
    """The colours of jobs: each keeps the one that it was first seen in."""

    def __missing__(self, job: str) -> str:
        return self.setdefault(job, _COLOURS[len(self) % len(_COLOURS)])


def drawn(scene: Scene, news: Iterable[str], colours: Palette, *, title: str, height: int) -> RenderableType:
    """The whole picture, in at most `height` lines: what is too much is counted, not shown."""
    lines = list(news)
    room = max(height - len(lines) - 8, 6)
    jobs = _few(scene.jobs, room // 2, lambda job: not job.active)
    nodes = _few(scene.nodes, room - len(jobs), lambda node: not node.seats)
    return Group(
        Text.assemble((title, "bold"), "   ", (LEGEND, "dim")),
        _node_table(nodes, colours),
        _more(len(scene.nodes) - len(nodes), "node"),
        _job_table(jobs, colours),
        _more(len(scene.jobs) - len(jobs), "job"),
        *(Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in lines),
    )


def _few(rows: Sequence[R], most: int, idle: Callable[[R], bool]) -> list[R]:
    """As many rows as there is room for, the busy ones first, in the order that all have."""
    chosen = sorted(sorted(range(len(rows)), key=lambda number: (idle(rows[number]), number))[:most])
    return [rows[number] for number in chosen]


def _more(hidden: int, what: str) -> Text:
    return Text(f"… and {many(hidden, f'other {what}')}" if hidden else "", style="dim")


def _node_table(nodes: Iterable[NodeRow], colours: Palette) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("POOL", "NODE", "", "WHO"):
        table.add_column(column, no_wrap=True)
    before = ""
    for node in nodes:
        name = Text(node.name, style="" if node.usable else "red strike")
        table.add_row(
            node.pool if node.pool != before else "", name, _bar(node, colours), _who(node, colours)
        )
        before = node.pool
    return table


def _bar(node: NodeRow, colours: Palette) -> Text:
    """One cell for each unit of the node, or for as many as fit into a bar."""
    cells = min(_units(node), _MOST_CELLS)
    filled = Text()
    taken = 0
    for seat in node.seats:
        taken += seat.amount
        upto = min(round(taken / node.total * cells), cells) if node.total else 0
        sign = _LEAVING if seat.leaving else _GUEST if seat.home else _HOME
        filled.append(sign * (upto - len(filled)), style=colours[seat.job])
    return filled.append(_FREE * (cells - len(filled)), style="dim")


def _units(node: NodeRow) -> int:
    """GPUs, or whole cores."""
    return node.total // 1000 if node.resource == "cpu" else node.total


def _who(node: NodeRow, colours: Palette) -> Text:
    return Text(", ").join(_seated(node.seats, colours))


def _seated(seats: Iterable[Seat], colours: Palette) -> Iterator[Text]:
    for seat in seats:
        count = f" ×{seat.pods}" if seat.pods > 1 else ""
        note = " leaving" if seat.leaving else f" of {seat.home}" if seat.home else ""
        yield Text.assemble((_short(seat.job), colours[seat.job]), count, (note, "dim"))


def _job_table(jobs: Iterable[JobRow], colours: Palette) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("JOB", no_wrap=True)
    table.add_column("POOL", no_wrap=True)
    for column in ("DONE", "AT WORK", "BORROWED", "WAITING"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        table.add_row(Text(_short(job.job), style=colours[job.job]), *_figures(job), Text(printable(job.why)))
    return table


def _figures(job: JobRow) -> Iterator[Text]:
    wanted = "" if job.wanted is None else f"/{job.wanted}"
    failed = f" ({job.failed} failed)" if job.failed else ""
    finished = job.wanted is not None and job.done >= job.wanted
    yield Text(job.pool)
    yield Text(f"{job.done}{wanted}{failed}", style="green" if finished else "")
    yield from (_count(number) for number in (job.working, job.borrowed, job.waiting))


def _count(number: int) -> Text:
    return Text(str(number), style="" if number else "dim")


def _short(job: str) -> str:
    """A job without its kind; one of the default namespace without that too."""
    _, namespace, name = job.split("/", 2)
    return printable(name if namespace == "default" else f"{namespace}/{name}")
