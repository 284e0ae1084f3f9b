"""Parties: everybody else who has room, and how much it would help if they were gone.

Openings: what could change around a job: more on a node, more nodes, somebody else's end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from shoal.api.core import Node
from shoal.engine.affinity import Occupant
from shoal.engine.resources import format_amount
from shoal.explain import edits
from shoal.explain.holders import Gains, Party, parties
from shoal.explain.trials import Case, Change, Success, consequences, outcome, smallest
from shoal.explain.what_if import Addition

_FEW: Final = 3
"""How many candidates are planned before a search gives up."""

_MANY: Final = 200
"""How many candidates are tried on the room that is left."""

_FEW_MAKES: Final = 2
_MOST_NODES: Final = 1000
_MOST_PARTIES: Final = 3


def resource(case: Case) -> Change | None:
    """The least that one node would have to have more; beyond what it has already, rather whole nodes."""
    additions = [
        (addition.cost, rank, addition.column, addition)
        for rank, pool in enumerate(case.whatif.pools())
        for addition in case.whatif.additions(pool, _FEW)
    ]
    ordered = [addition for *_, addition in sorted(additions, key=lambda one: one[:3])]
    modest = [addition for addition in ordered if addition.modest]
    large = [addition for addition in ordered if not addition.modest]
    return _more_on_one(case, modest) or _more_nodes(case) or _more_on_one(case, large)


def _more_on_one(case: Case, additions: Iterable[Addition]) -> Change | None:
    for number, addition in enumerate(islice(additions, _FEW)):
        node = case.snapshot.nodes.names[addition.column]
        found = _added(case, node, Counter(addition.amounts), 1 if number else _FEW)
        if found:
            success, total = found
            amounts = {name: format_amount(name, amount) for name, amount in total.items()}
            parts = [f"{amount} more {name}" for name, amount in amounts.items()]
            text = f"{_and(parts)} on node {node}{consequences(success)}"
            return Change(dimension="resource", text=text, node=node, add=amounts, **outcome(success))
    return None


def _added(case: Case, node: str, amounts: Counter[str], tries: int) -> tuple[Success, Counter[str]] | None:
    """What is enough on a node; if others take of it, so much more as is lacking then, a few times."""
    for _ in range(tries):
        step = case.trials.plan(edits.with_more(case.world, node, amounts))
        success = case.trials.success(step) if step else None
        if success:
            return success, amounts
        left = case.after(step) if step else None
        more = left.lacking_on(node) if left else None
        if not more:
            return None
        amounts = amounts + Counter(more)
    return None


def _more_nodes(case: Case) -> Change | None:
    """So many nodes like one that there is; of the makes that need the fewest."""
    for guess, name in sorted(_makes(case))[:_FEW_MAKES]:
        found = smallest(partial(_planned_with, case, name), 1, max(2 * guess, _FEW), guess)
        if found:
            count, success = found
            text = f"{count} more node{'s' * (count > 1)} like {name}{consequences(success)}"
            return Change(dimension="resource", text=text, like=name, nodes=count, **outcome(success))
    return None


def _planned_with(case: Case, name: str, count: int) -> Success | None:
    return case.trials.run(edits.with_nodes_like(case.world, name, count))


def _makes(case: Case) -> Iterator[tuple[int, str]]:
    """A node of each make in the pools open to the job, and how many of it would seem to be enough."""
    seen = set()
    for pool in case.whatif.pools():
        span = case.snapshot.pools[pool].span
        for column in range(span.start, span.stop):
            name = case.snapshot.nodes.names[column]
            make = _make(case.world.nodes[name])
            if make not in seen:
                seen.add(make)
                bins = case.whatif.bins(pool, column)
                if bins and bins <= _MOST_NODES:
                    yield bins, name


def _make(node: Node) -> tuple[object, ...]:
    labels = {key: value for key, value in node.metadata.labels.items() if value != node.metadata.name}
    amounts = frozenset((name, amount.nano) for name, amount in node.allocatable.items())
    return frozenset(labels.items()), amounts, node.spec.taints


def end(case: Case) -> Change | None:
    """Who else would have to end: one, or the few that are found by taking the most helpful each time."""
    others, gains = [*_workloads(case), *_strangers(case)], Gains(case.whatif.filters)
    for ending in _singles(case, gains, others) or _groups(case, gains, others):
        success = case.trials.run(edits.without(case.world, [party.key for party in ending]))
        if success:
            names = sorted(party.key for party in ending)
            verb = "ends" if len(names) == 1 else "end"
            text = f"when {_and(names)} {verb}{consequences(success)}"
            return Change(dimension="end", text=text, jobs=tuple(names), **outcome(success))
    return None


def _workloads(case: Case) -> list[Party]:
    """Others that can end: not pods that are only about to be made."""
    jobs = case.world.jobs
    endable = {w.key for w in case.snapshot.workloads if w.kind in jobs or case.loose.exist(w)}
    return [party for party in parties(case.aftermath) if party.key in endable]


def _strangers(case: Case) -> Iterator[Party]:
    """Pods on nodes that are no workloads of ours."""
    ours = {(w.namespace, task.name) for w in case.snapshot.workloads for task in w.tasks}
    columns = case.snapshot.nodes.columns
    for key, pod in sorted(case.loose.pods.items()):
        if pod.node and key not in ours and not pod.finished and not pod.leaving:
            seat = Occupant(columns[pod.node], pod.pod_class.shape, pod.pod_class.identity)
            yield Party(f"Pod/{pod.namespace}/{pod.name}", (seat,), stranger=True)


def _singles(case: Case, gains: Gains, others: list[Party]) -> list[list[Party]]:
    """Those whose end alone seems to be enough, the smallest first."""
    found: dict[str, Party] = {}
    for pool in case.whatif.pools():
        span = case.snapshot.pools[pool].span
        helpful = (party for party in others if gains.could_help(party, case.whatif.goal, span))
        for party in sorted(helpful, key=gains.size)[:_MANY]:
            if len(found) < _FEW and case.whatif.fits_without([party], pool):
                found[party.key] = party
    return [[party] for party in sorted(found.values(), key=gains.size)]


def _groups(case: Case, gains: Gains, others: list[Party]) -> Iterator[list[Party]]:
    """Two or three whose end together seems to be enough, by pool; but first each of them, to be sure."""
    for pool in case.whatif.pools():
        group = _group(case, gains, others, pool)
        yield from ([party] for party in group)
        if len(group) > 1:
            yield group


def _group(case: Case, gains: Gains, others: list[Party], pool: int) -> list[Party]:
    """The most helpful, the most helpful once that is gone, and so on; without those who need not end."""
    gone: list[Party] = []
    while len(gone) < _MOST_PARTIES and not case.whatif.fits_without(gone, pool):
        left = (party for party in others if party not in gone)
        with case.whatif.gone(gone):
            best = gains.best(left, case.whatif.rest(pool), case.snapshot.pools[pool].span)
        if best is None:
            return []
        gone.append(best)
    for party in tuple(gone):
        fewer = [other for other in gone if other is not party]
        gone = fewer if case.whatif.fits_without(fewer, pool) else gone
    return gone if case.whatif.fits_without(gone, pool) else []


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
