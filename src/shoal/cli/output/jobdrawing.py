"""One job as people like to read it: how it stands, its nodes with the best first, and what would help."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.api.fields import many, printable
from shoal.explain.explanation import Explanation
from shoal.explain.nodes import NodeEntry, TaskEntry
from shoal.explain.trials import Change

_FEW: Final = 30
"""Lines of nodes that are drawn."""

_COLOURS: Final = {
    "ScheduledSucceed": "green",
    "ScheduledPartly": "yellow",
    "Unscheduled": "yellow",
    "ScheduledFailed": "red",
}
_WHEN: Final = {
    "now": "after the plan",
    "turn": "when the first of them got its node",
    "before": "before the plan, without it",
}

Row = tuple[str, ...]


def draw_job(paper: Console, explanation: Explanation, *, wide: bool = False) -> None:
    """Draw an explanation; `wide` shows every node."""
    for line in _headline(explanation):
        paper.print(line)
    for entry in explanation.tasks:
        paper.print()
        _draw_task(paper, entry, wide=wide)
    paper.print()
    paper.print(Text(_sentence(explanation.summary), style="bold"))
    if explanation.changes:
        paper.print(_change_table(explanation.changes))


def _headline(explanation: Explanation) -> list[Text]:
    where = f" in pool {explanation.pool}, priority {explanation.priority}"
    after = f", after {many(explanation.cycles, 'cycle')}"
    state = (explanation.state, _COLOURS[explanation.state])
    first = Text.assemble((printable(explanation.job), "bold"), ": ", state, where, after)
    reasons = (f"{reason.code}: {reason.message}" for reason in explanation.reasons)
    return [first, *(Text(printable(reason)) for reason in reasons)]


def _draw_task(paper: Console, entry: TaskEntry, *, wide: bool) -> None:
    paper.print(Text.assemble(("Nodes for ", "bold"), (_who(entry), "bold"), f": {_stand(entry)}"))
    nodes = sorted(entry.nodes, key=lambda node: _merit(entry, node))
    rows = _rows(entry, nodes, together=len(nodes) > _FEW and not wide)
    drawn = rows if wide else rows[:_FEW]
    paper.print(_node_table(entry, [row for row, _ in drawn]))
    hidden = sum(count for _, count in rows[len(drawn) :])
    if hidden:
        paper.print(Text(f"… and {many(hidden, 'other node')} (-o wide shows all)", style="dim"))


def _who(entry: TaskEntry) -> str:
    if entry.count == 1:
        return printable(entry.task)
    others = entry.count - 1
    return printable(f"{entry.task} and {others} more {entry.role}{'s' * (others > 1)}")


def _stand(entry: TaskEntry) -> str:
    """How many still need a node, what they ask for, and which score wins."""
    asks = ", ".join(f"{amount} {name}" for name, amount in entry.requests.items()) or "nothing but a place"
    number = f"{entry.waiting} of {entry.count} " if entry.count > 1 else ""
    need = f"{number}without a node; " if entry.waiting else ""
    each = "each asks" if entry.count > 1 else "asks"
    return f"{need}{each} for {asks}; {entry.policy}, {entry.best} score first, {_WHEN[entry.when]}"


def _merit(entry: TaskEntry, node: NodeEntry) -> tuple[object, ...]:
    """The chosen nodes first, then those that fit by their score, then those that lack least."""
    score = node.score or 0.0
    return (
        not node.chosen,
        not node.fits,
        node.barrier == "rule",
        node.lack,
        node.lender,
        score if entry.best == "lowest" else -score,
    )


def _rows(entry: TaskEntry, nodes: Sequence[NodeEntry], *, together: bool) -> list[tuple[Row, int]]:
    """A line for each node, and how many it speaks of; where they are many, one for all that are alike."""
    groups: dict[Row | int, list[NodeEntry]] = {}
    for number, node in enumerate(nodes):
        groups.setdefault(_cells(entry, node) if together and not node.chosen else number, []).append(node)
    return [
        ((_names([node.node for node in alike]), *_cells(entry, alike[0])), len(alike))
        for alike in groups.values()
    ]


def _cells(entry: TaskEntry, node: NodeEntry) -> Row:
    pool = f"{node.pool} (lends)" if node.lender else node.pool
    score = "-" if node.score is None else f"{node.score:g}"
    if entry.policy in ("JobAffinity", "JobAntiAffinity"):
        score = f"{node.siblings} pods, {score}"
    return pool, score, _says(entry, node)


def _says(entry: TaskEntry, node: NodeEntry) -> str:
    """What becomes of a node, in a few words."""
    takes = "fits" if entry.count == 1 or not entry.waiting else f"fits {node.takes} of {entry.waiting}"
    stand = takes if node.fits else node.why
    if not node.chosen:
        return stand
    chosen = f"chosen for {_names(node.pods)}"
    return f"{chosen}; {stand}" if entry.waiting else chosen


def _names(names: Sequence[str]) -> str:
    return printable(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more")


def _node_table(entry: TaskEntry, rows: Iterable[Row]) -> Table:
    pools = len({node.pool for node in entry.nodes}) > 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(("POOL",) if pools else ()), "SCORE", "WHAT OF IT"):
        table.add_column(title, no_wrap=title in ("POOL", "SCORE"), overflow="fold")
    for name, pool, score, says in rows:
        table.add_row(*(Text(cell) for cell in (name, *((pool,) if pools else ()), score, says)))
    return table


def _change_table(changes: Iterable[Change]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for change in changes:
        table.add_row(change.dimension, Text(printable(change.text)))
    return table


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
