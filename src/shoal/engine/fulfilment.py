"""TODO"""

import heapq
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from shoal.api.podspec import is_gpu
from shoal.engine.affinity import Occupant
from shoal.engine.elastic import ElasticState, fulfilment
from shoal.engine.filters import Filters
from shoal.engine.nodes import Nodes, NodeSpan
from shoal.engine.placement import Placer
from shoal.engine.plan import Placement
from shoal.engine.resources import UNLIMITED, exact_sums
from shoal.engine.scores import score_for
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Shape, Task


class LoadLimit:
    """The limits of all pods on ready nodes, held against a part of what those nodes have."""

    def __init__(self, snapshot: Snapshot, most: float, shapes: Iterable[Shape]) -> None:
        """Begin with the pods there are and `shapes` that got room since; `most` is the part of it all."""
        self._caps = _caps(snapshot.nodes, most)
        self._sums = Counter(snapshot.limits)
        for shape in shapes:
            self.add(shape)

    def add(self, shape: Shape, count: int = 1) -> None:
        """Count a pod in, or out."""
        for name, amount in shape.limits.items():
            self._sums[name] += amount * count

    def max_more(self, shape: Shape) -> int:
        """How many more such pods stay within bounds; those that ask for GPUs are not held to any."""
        if any(map(is_gpu, shape.requests)):
            return UNLIMITED
        left = ((self._caps.get(name, 0) - self._sums[name]) // n for name, n in shape.limits.items())
        return max(min(left, default=UNLIMITED), 0)

    def allows(self, shapes: Sequence[Shape]) -> bool:
        """Whether a pod and those that must follow it stay within bounds together."""
        added: Counter[str] = Counter()
        for shape in shapes:
            added.update(shape.limits)
        free = any(map(is_gpu, shapes[0].requests))
        return free or all(self._sums[name] + n <= self._caps.get(name, 0) for name, n in added.items())


def _caps(nodes: Nodes, most: float) -> Mapping[str, int]:
    """How much of each resource may be in use; `most` is meant as it is written, in decimals."""
    part = Fraction(str(most))
    there = exact_sums(nodes.alloc[:, nodes.ready])
    return {name: int(part * amount) for name, amount in zip(nodes.layout.names, there, strict=True)}


class Growing:
    """Lets workloads grow on what is free."""

    def __init__(self, filters: Filters, load: LoadLimit, states: Iterable[ElasticState]) -> None:
        """Begin with the sizes they have."""
        self._filters, self._ledger, self._load = filters, filters.ledger, load
        self._heap = [(state.fulfilment, state.rank, state) for state in states if state.may_grow]
        self._put_off: list[ElasticState] = []
        self._steps: list[Placement] = []

    def run(self) -> list[Placement]:
        """Grow until nobody can; who grew by what on which node, one step after another."""
        heapq.heapify(self._heap)
        while self._heap:
            state = self._heap[0][2]
            if state.next_task and self._ledger.inter_pod is None and not state.has_followers:
                self._grow_alike(state.next_task, state.span)
            else:
                heapq.heappop(self._heap)
                self._grow_one(state)
        return self._steps

    def _grow_alike(self, task: Task, span: NodeSpan) -> None:
        """Grow those whose turn it is, as long as they need the same as a task, on one node."""
        column, room = self._find(task, span)
        if not room:
            self._give_up(task, span)
            return
        count = 0
        while count < room and self._heap:
            state = self._heap[0][2]
            if state.next_task is None or not _needs(state, task, span):
                break
            self._steps.append(Placement(state.workload, state.next_task, column))
            state.grow()
            self._put_back(state)
            count += 1
        self._ledger.add(Occupant(column, task.shape, task.identity), count)
        self._load.add(task.shape, count)

    def _give_up(self, task: Task, span: NodeSpan) -> None:
        """Who needs the same finds no room either: there is ever less of it."""
        self._heap = [entry for entry in self._heap if not _needs(entry[2], task, span)]
        heapq.heapify(self._heap)

    def _find(self, task: Task, span: NodeSpan) -> tuple[int, int]:
        """The best node for a task, and how many such may go there; NOWHERE if there is none."""
        most = self._load.max_more(task.shape)
        column = self._filters.ranking(task, span, score_for("BinPack", task)).first() if most else NO_NODE
        room = 0 if column == NO_NODE else self._ledger.max_count(self._ledger.demand(task.shape), column)
        return column, min(room, most)

    def _put_back(self, state: ElasticState) -> None:
        """Queue the first of the heap again, if it can still grow."""
        if state.next_task:
            heapq.heapreplace(self._heap, (state.fulfilment, state.rank, state))
        else:
            heapq.heappop(self._heap)

    def _grow_one(self, state: ElasticState) -> None:
        """Grow one workload by one step, whoever its neighbours are and whatever must follow."""
        step = state.next_step()
        if step is None or not self._load.allows([task.shape for task in step]):
            return
        placer = Placer(self._filters, state.span, "BinPack")
        outcome = placer.place(step, sum(task.varying for task in step))
        if outcome.placed is None:
            if any(task.shape.pod_affinity or task.shape.spread for task in step):
                self._put_off.append(state)
            return
        for put, column in outcome.placed:
            self._load.add(put.shape)
            self._steps.append(Placement(state.workload, put, column))
        state.grow(step)
        for other in (state, *self._put_off):
            if other.may_grow:
                heapq.heappush(self._heap, (other.fulfilment, other.rank, other))
        self._put_off.clear()


def _needs(state: ElasticState, task: Task, span: NodeSpan) -> bool:
    """Whether a step of a workload takes one instance, just like a task."""
    following = state.next_task
    alike = following is not None and following.shape is task.shape
    return alike and not state.has_followers and state.span == span


class Transfer(msgspec.Struct, frozen=True, eq=False):
    """One step: an instance that leaves, and the one that takes its place."""

    donor: ElasticState
    leaving: Task
    receiver: ElasticState
    arriving: Task


class DonorIndex:
    """What instances of one shape can hope for: nodes with room, and donors in whose place they would fit.

    Those instances mind no neighbours. `donors` are in the order of giving.
    """

    def __init__(self, filters: Filters, span: NodeSpan, task: Task, donors: list[ElasticState]) -> None:
        """Look at all nodes and all donors."""
        self._ledger, self._demand = filters.ledger, filters.ledger.demand(task.shape)
        self._suitable = filters.suitable(task)
        self.nodes_with_room = set((span.start + np.flatnonzero(filters.fitting(task, span))).tolist())
        self.donors = [donor for donor in donors if self._would_fit(donor)]

    def refresh_node(self, column: int) -> None:
        """Look again at a node that has changed."""
        if self._suitable[column] and self._ledger.has_room(self._demand, column):
            self.nodes_with_room.add(column)
        else:
            self.nodes_with_room.discard(column)

    def add_donor(self, donor: ElasticState) -> None:
        """Look at one more donor."""
        if self._would_fit(donor):
            insort(self.donors, donor, key=_giving_order)

    def _would_fit(self, donor: ElasticState) -> bool:
        """Whether an instance fits where the highest of a donor stands, in its place."""
        leaving, demand = donor.bound[-1], self._demand
        room = (self._ledger.room[:, leaving.column] + self._ledger.demand(leaving.shape).vector).tolist()
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._suitable[leaving.column])


class Rebalancing:
    """Makes workloads of one pool equal. The ledger must have nobody who leaves, and is left changed.

    Who has given takes nothing any more, and who has been promised something gives nothing. An exchange
    changes one node, so only what concerns that node is looked at again.
    """

    def __init__(
        self,
        filters: Filters,
        span: NodeSpan,
        load: LoadLimit,
        *,
        receivers: Iterable[ElasticState],
        donors: Iterable[ElasticState],
    ) -> None:
        """`load` is that of the ledger."""
        self._filters, self._ledger, self._span, self._load = filters, filters.ledger, span, load
        self._receivers = sorted((g for g in receivers if g.next_task), key=_growth_order)
        self._donors = sorted((g for g in donors if _may_give(g)), key=_giving_order)
        self._prospects: dict[Shape, DonorIndex] = {}
        self._standing: defaultdict[int, list[ElasticState]] = defaultdict(list)
        for donor in self._donors:
            self._standing[donor.bound[-1].column].append(donor)

    def run(self) -> list[Transfer]:
        """Exchange until no step is left."""
        made: list[Transfer] = []
        while exchange := self._step():
            made.append(exchange)
        return made

    def _step(self) -> Transfer | None:
        for receiver in self._receivers:
            task = receiver.next_task
            if task is None or (receiver.has_followers and receiver.next_step() != [task]):
                continue
            after = fulfilment(receiver.workload, receiver.size + 1)
            for donor in self._helpers(task):
                if donor.fulfilment <= after:
                    break
                if _is_fair(donor, receiver, after):
                    return self._exchange(donor, receiver)
        return None

    def _exchange(self, donor: ElasticState, receiver: ElasticState) -> Transfer:
        column = donor.bound[-1].column
        concerned = self._standing.pop(column)
        for one in (*concerned, receiver):
            self._forget_donor(one)
        self._receivers = [one for one in self._receivers if one is not donor and one is not receiver]
        leaving, arriving = donor.shrink(), receiver.nominate(column)
        self._ledger.remove(Occupant(column, leaving.shape, leaving.identity))
        self._ledger.add(Occupant(column, arriving.shape, arriving.identity))
        self._load.add(leaving.shape, -1)
        self._load.add(arriving.shape)
        for prospects in self._prospects.values():
            prospects.refresh_node(column)
        for one in concerned:
            if _may_give(one):
                self._add_donor(one)
        if receiver.next_task:
            insort(self._receivers, receiver, key=_growth_order)
        return Transfer(donor, leaving, receiver, arriving)

    def _forget_donor(self, donor: ElasticState) -> None:
        for donors in (self._donors, *(prospects.donors for prospects in self._prospects.values())):
            if donor in donors:
                donors.remove(donor)

    def _add_donor(self, donor: ElasticState) -> None:
        insort(self._donors, donor, key=_giving_order)
        self._standing[donor.bound[-1].column].append(donor)
        for prospects in self._prospects.values():
            prospects.add_donor(donor)

    def _helpers(self, task: Task) -> list[ElasticState]:
        """Who could make room for a task by giving its highest instance; nobody, if the task needs none."""
        if self._filters.has_inter_pod_rules(task):
            fits = self._filters.fitting(task, self._span).any() and self._load.max_more(task.shape)
            return [] if fits else [donor for donor in self._donors if self._would_fit(task, donor)]
        if task.shape not in self._prospects:
            self._prospects[task.shape] = DonorIndex(self._filters, self._span, task, self._donors)
        prospects = self._prospects[task.shape]
        return [] if prospects.nodes_with_room and self._load.max_more(task.shape) else prospects.donors

    def _would_fit(self, task: Task, donor: ElasticState) -> bool:
        leaving = donor.bound[-1]
        with self._ledger.attempt():
            self._ledger.remove(Occupant(leaving.column, leaving.shape, leaving.identity))
            return self._filters.fits_on(task, leaving.column, self._span)


def _is_fair(donor: ElasticState, receiver: ElasticState, after: float) -> bool:
    """Whether one may give to the other, and is then still at least as fulfilled."""
    if donor is receiver or donor.workload.priority > receiver.workload.priority:
        return False
    return fulfilment(donor.workload, donor.size - 1) >= after


def _may_give(state: ElasticState) -> bool:
    """Whether it has an instance more than it must have that was there before, and is promised none."""
    return state.size > state.workload.minimum and bool(state.bound) and not state.nominated


def _growth_order(state: ElasticState) -> tuple[float, int]:
    return state.fulfilment, state.rank


def _giving_order(state: ElasticState) -> tuple[float, int]:
    return -state.fulfilment, -state.rank
