"""Changes around a job that would let it run: more resources on a node, more nodes, the end of other jobs."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from shoal.api.core import Node
from shoal.engine.affinity import Occupant
from shoal.engine.resources import format_amount
from shoal.explain import edits
from shoal.explain.estimates import Consumer, NodeShortage, ReleaseGains, other_workloads
from shoal.explain.trials import (
    Change,
    ChangeSearch,
    TrialResult,
    describe_effects,
    find_smallest,
    result_fields,
)

_MAX_CANDIDATES: Final = 3
"""Candidates that are planned before a search gives up."""

_MAX_ESTIMATES: Final = 200
"""Consumers per pool whose end is estimated."""

_MAX_NODE_TYPES: Final = 2
"""Node types of which more nodes are tried."""

_MAX_NEW_NODES: Final = 1000
"""More new nodes than this are not proposed."""

_MAX_ENDING: Final = 3
"""More jobs that have to end than this are not proposed."""


def find_resources(search: ChangeSearch) -> Change | None:
    """The smallest addition to one node; new nodes instead if it would more than double the node."""
    shortages = [
        (shortage.cost, rank, shortage.column, shortage)
        for rank, pool in enumerate(search.estimator.pools())
        for shortage in search.estimator.shortages(pool, _MAX_CANDIDATES)
    ]
    ordered = [shortage for *_, shortage in sorted(shortages, key=lambda one: one[:3])]
    modest = [shortage for shortage in ordered if shortage.is_modest]
    large = [shortage for shortage in ordered if not shortage.is_modest]
    return _larger_node(search, modest) or _more_nodes(search) or _larger_node(search, large)


def _larger_node(search: ChangeSearch, shortages: Iterable[NodeShortage]) -> Change | None:
    """More resources on one node: the first shortage whose removal lets the job run.

    Only for the first node the amounts are increased until they suffice; the others get one trial each.
    """
    for number, shortage in enumerate(islice(shortages, _MAX_CANDIDATES)):
        node = search.snapshot.nodes.names[shortage.column]
        found = _sufficient_amounts(search, node, Counter(shortage.amounts), 1 if number else _MAX_CANDIDATES)
        if found:
            result, total = found
            amounts = {name: format_amount(name, amount) for name, amount in total.items()}
            parts = [f"{amount} more {name}" for name, amount in amounts.items()]
            text = f"{_join(parts)} on node {node}{describe_effects(result)}"
            return Change(dimension="resource", text=text, node=node, add=amounts, **result_fields(result))
    return None


def _sufficient_amounts(
    search: ChangeSearch, node: str, amounts: Counter[str], tries: int
) -> tuple[TrialResult, Counter[str]] | None:
    """Amounts with which the job runs; if other jobs take some of them, what is lacking then is added."""
    for _ in range(tries):
        cycle_result = search.planner.plan(edits.with_more_resources(search.world, node, amounts))
        result = search.planner.result(cycle_result) if cycle_result else None
        if result:
            return result, amounts
        estimator = search.estimator_after(cycle_result) if cycle_result else None
        more = estimator.shortage_on(node) if estimator else None
        if not more:
            return None
        amounts = amounts + Counter(more)
    return None


def _more_nodes(search: ChangeSearch) -> Change | None:
    """New nodes like an existing one, of the node types that need the fewest."""
    for guess, name in sorted(_node_types(search))[:_MAX_NODE_TYPES]:
        high = max(2 * guess, _MAX_CANDIDATES)
        found = find_smallest(partial(_run_with_nodes, search, name), 1, high, guess)
        if found:
            count, result = found
            text = f"{count} more node{'s' * (count > 1)} like {name}{describe_effects(result)}"
            return Change(dimension="resource", text=text, like=name, nodes=count, **result_fields(result))
    return None


def _run_with_nodes(search: ChangeSearch, name: str, count: int) -> TrialResult | None:
    return search.planner.run(edits.with_nodes_like(search.world, name, count))


def _node_types(search: ChangeSearch) -> Iterator[tuple[int, str]]:
    """One node of each type in the pools open to the job, after the estimated number of new nodes like it."""
    seen = set()
    for pool in search.estimator.pools():
        span = search.snapshot.pools[pool].span
        for column in range(span.start, span.stop):
            name = search.snapshot.nodes.names[column]
            node_type = _node_type(search.world.nodes[name])
            if node_type not in seen:
                seen.add(node_type)
                count = search.estimator.nodes_needed(pool, column)
                if count and count <= _MAX_NEW_NODES:
                    yield count, name


def _node_type(node: Node) -> tuple[object, ...]:
    """Equal for nodes with the same labels (except those with the node's name), amounts and taints."""
    labels = {key: value for key, value in node.metadata.labels.items() if value != node.metadata.name}
    amounts = frozenset((name, amount.nano) for name, amount in node.allocatable.items())
    return frozenset(labels.items()), amounts, node.spec.taints


def find_ending_jobs(search: ChangeSearch) -> Change | None:
    """Other jobs or pods whose end lets the job run: one, or a few that a greedy search finds."""
    consumers = [*_ending_workloads(search), *_foreign_pods(search)]
    gains = ReleaseGains(search.estimator.filters)
    for ending in _singles(search, gains, consumers) or _groups(search, gains, consumers):
        result = search.planner.run(edits.without_jobs(search.world, [consumer.key for consumer in ending]))
        if result:
            names = sorted(consumer.key for consumer in ending)
            verb = "ends" if len(names) == 1 else "end"
            text = f"when {_join(names)} {verb}{describe_effects(result)}"
            return Change(dimension="end", text=text, jobs=tuple(names), **result_fields(result))
    return None


def _ending_workloads(search: ChangeSearch) -> list[Consumer]:
    """Other workloads that can end: not those of loose pods that do not exist yet."""
    jobs, loose_pods = search.world.jobs, search.loose_pods
    existing = {w.key for w in search.snapshot.workloads if w.kind in jobs or loose_pods.all_exist(w)}
    return [consumer for consumer in other_workloads(search.planned) if consumer.key in existing]


def _foreign_pods(search: ChangeSearch) -> Iterator[Consumer]:
    """Pods on nodes that belong to no workload: those of other schedulers."""
    own = {(w.namespace, task.name) for w in search.snapshot.workloads for task in w.tasks}
    columns = search.snapshot.nodes.columns
    for key, pod in sorted(search.loose_pods.pods.items()):
        if pod.node and key not in own and not pod.finished and not pod.leaving:
            occupant = Occupant(columns[pod.node], pod.pod_class.shape, pod.pod_class.identity)
            yield Consumer(f"Pod/{pod.namespace}/{pod.name}", (occupant,), is_foreign=True)


def _singles(search: ChangeSearch, gains: ReleaseGains, consumers: list[Consumer]) -> list[list[Consumer]]:
    """Consumers whose end alone seems to be sufficient, the smallest first."""
    found: dict[str, Consumer] = {}
    for pool in search.estimator.pools():
        span = search.snapshot.pools[pool].span
        helpful = (one for one in consumers if gains.could_help(one, search.estimator.goal, span))
        for consumer in sorted(helpful, key=gains.size)[:_MAX_ESTIMATES]:
            if len(found) < _MAX_CANDIDATES and search.estimator.fits_without([consumer], pool):
                found[consumer.key] = consumer
    return [[consumer] for consumer in sorted(found.values(), key=gains.size)]


def _groups(search: ChangeSearch, gains: ReleaseGains, consumers: list[Consumer]) -> Iterator[list[Consumer]]:
    """For each pool, two or three consumers whose end seems to be sufficient.

    Before a group comes each of its members alone, as an estimate may have missed that one is sufficient.
    """
    for pool in search.estimator.pools():
        group = _group(search, gains, consumers, pool)
        yield from ([consumer] for consumer in group)
        if len(group) > 1:
            yield group


def _group(search: ChangeSearch, gains: ReleaseGains, consumers: list[Consumer], pool: int) -> list[Consumer]:
    """Add the most helpful consumer until the job fits, then remove those that are not needed."""
    estimator, ending = search.estimator, list[Consumer]()
    while len(ending) < _MAX_ENDING and not estimator.fits_without(ending, pool):
        remaining = (consumer for consumer in consumers if consumer not in ending)
        with estimator.without(ending):
            best = gains.best(remaining, estimator.unplaced(pool), search.snapshot.pools[pool].span)
        if best is None:
            return []
        ending.append(best)
    for consumer in tuple(ending):
        fewer = [other for other in ending if other is not consumer]
        ending = fewer if estimator.fits_without(fewer, pool) else ending
    return ending if estimator.fits_without(ending, pool) else []


def _join(names: list[str]) -> str:
    """Names as a list in a sentence: `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
