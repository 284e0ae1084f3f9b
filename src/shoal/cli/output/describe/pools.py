"""Pools: which nodes they have, and their figures."""

from typing import Final

from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import DescriptionWriter, write_conditions, write_fields
from shoal.cluster.resources import Object

_COLUMNS: Final = ("capacity", "allocatable", "used", "shared", "system", "borrowed", "pending", "free")


def describe(paper: DescriptionWriter, _: Session, pool: Object, now: float) -> None:
    """All that is worth telling of a pool."""
    status = pool.get("status") or {}
    if pool.get("spec"):
        paper.heading("Spec")
        write_fields(paper, pool["spec"], 1)
    features = ("preemption", "borrowing", "sharing")
    on = [name for name in features if status.get(name, True)]
    paper.line("Features", ", ".join(on) or "none")
    paper.line("Nodes", status.get("nodes", 0))
    paper.line("Pending Pods", status.get("pendingPods", 0))
    resources = sorted({name for column in _COLUMNS for name in status.get(column) or {}})
    rows = [[name, *((status.get(column) or {}).get(name, "0") for column in _COLUMNS)] for name in resources]
    paper.table("Figures", [["Resource", *map(str.capitalize, _COLUMNS)], *rows])
    write_conditions(paper, pool, now)
