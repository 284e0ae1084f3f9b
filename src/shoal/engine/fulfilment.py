"""Fulfilment: the built-in elastic policy, which makes elastic workloads grow evenly.

`Growing` gives free room to the least fulfilled workload, one instance after another. `Rebalancing` then
moves instances from the most fulfilled to the least fulfilled, as long as that makes them more equal.
`LoadLimit` bounds the growth of workloads without GPUs by the limits of all pods together (`maxLoad`).
"""

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
from shoal.engine.layout import exact_sums
from shoal.engine.nodes import Nodes, NodeSpan
from shoal.engine.placement import Placer
from shoal.engine.plan import Placement
from shoal.engine.resources import UNLIMITED
from shoal.engine.scores import score_for
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Shape, Task


class LoadLimit:
    """The limits of all pods on ready nodes, compared with a fraction of what those nodes have."""

    def __init__(self, snapshot: Snapshot, most: float, shapes: Iterable[Shape]) -> None:
        """Start with the pods of the snapshot and `shapes` that got room since; `most` is the fraction."""
        self._caps = _caps(snapshot.nodes, most)
        self._sums = Counter(snapshot.limits)
        for shape in shapes:
            self.add(shape)

    def add(self, shape: Shape, count: int = 1) -> None:
        """Add `count` pods of a shape, or remove them (negative)."""
        for name, amount in shape.limits.items():
            self._sums[name] += amount * count

    def max_more(self, shape: Shape) -> int:
        """How many more pods of a shape stay within the limit; pods that request GPUs are not limited."""
        if any(map(is_gpu, shape.requests)):
            return UNLIMITED
        left = ((self._caps.get(name, 0) - self._sums[name]) // n for name, n in shape.limits.items())
        return max(min(left, default=UNLIMITED), 0)

    def allows(self, shapes: Sequence[Shape]) -> bool:
        """Whether a pod, the first of `shapes`, and its followers stay within the limit together."""
        added: Counter[str] = Counter()
        for shape in shapes:
            added.update(shape.limits)
        free = any(map(is_gpu, shapes[0].requests))
        return free or all(self._sums[name] + n <= self._caps.get(name, 0) for name, n in added.items())


def _caps(nodes: Nodes, most: float) -> Mapping[str, int]:
    """The limit of each resource; the fraction is taken as its decimal notation, without float error."""
    part = Fraction(str(most))
    there = exact_sums(nodes.alloc[:, nodes.ready])
    return {name: int(part * amount) for name, amount in zip(nodes.layout.names, there, strict=True)}


class Growing:
    """Lets workloads grow onto free room, the least fulfilled first.

    A heap holds the workloads that may grow, so that a step costs the logarithm of their number. Nodes are
    ranked once for equal instances; consecutive ones go to the same node while it has room.
    """

    def __init__(self, filters: Filters, load: LoadLimit, states: Iterable[ElasticState]) -> None:
        """Start with the present sizes."""
        self._filters, self._ledger, self._load = filters, filters.ledger, load
        self._heap = [(state.fulfilment, state.rank, state) for state in states if state.may_grow]
        self._deferred: list[ElasticState] = []
        self._steps: list[Placement] = []

    def run(self) -> list[Placement]:
        """Grow until no workload can; returns the placements in order."""
        heapq.heapify(self._heap)
        while self._heap:
            state = self._heap[0][2]
            if state.next_task and self._ledger.inter_pod is None and not state.has_followers:
                self._grow_equals(state.next_task, state.span)
            else:
                heapq.heappop(self._heap)
                self._grow_one(state)
        return self._steps

    def _grow_equals(self, task: Task, span: NodeSpan) -> None:
        """Grow the workloads at the top of the heap on one node, while they need a task equal to `task`."""
        column, room = self._find(task, span)
        if not room:
            self._drop_equals(task, span)
            return
        count = 0
        while count < room and self._heap:
            state = self._heap[0][2]
            if state.next_task is None or not _needs_equal_task(state, task, span):
                break
            self._steps.append(Placement(state.workload, state.next_task, column))
            state.grow()
            self._put_back(state)
            count += 1
        self._ledger.add(Occupant(column, task.shape, task.identity), count)
        self._load.add(task.shape, count)

    def _drop_equals(self, task: Task, span: NodeSpan) -> None:
        """Drop the workloads that need an equal task: room only decreases, so they find none either."""
        self._heap = [entry for entry in self._heap if not _needs_equal_task(entry[2], task, span)]
        heapq.heapify(self._heap)

    def _find(self, task: Task, span: NodeSpan) -> tuple[int, int]:
        """The best node for a task and how many equal ones may go there; NO_NODE and 0 if there is none."""
        most = self._load.max_more(task.shape)
        column = self._filters.ranking(task, span, score_for("BinPack", task)).first() if most else NO_NODE
        room = 0 if column == NO_NODE else self._ledger.max_count(self._ledger.demand(task.shape), column)
        return column, min(room, most)

    def _put_back(self, state: ElasticState) -> None:
        """Reinsert the first of the heap if it can still grow, else remove it."""
        if state.next_task:
            heapq.heapreplace(self._heap, (state.fulfilment, state.rank, state))
        else:
            heapq.heappop(self._heap)

    def _grow_one(self, state: ElasticState) -> None:
        """Grow one workload by one step, with followers and inter-pod rules.

        A workload that fails because of affinity or spread is deferred until another one has grown.
        """
        step = state.next_step()
        if step is None or not self._load.allows([task.shape for task in step]):
            return
        placer = Placer(self._filters, state.span, "BinPack")
        outcome = placer.place(step, sum(task.varying for task in step))
        if outcome.placed is None:
            if any(task.shape.pod_affinity or task.shape.spread for task in step):
                self._deferred.append(state)
            return
        for placed, column in outcome.placed:
            self._load.add(placed.shape)
            self._steps.append(Placement(state.workload, placed, column))
        state.grow(step)
        for other in (state, *self._deferred):
            if other.may_grow:
                heapq.heappush(self._heap, (other.fulfilment, other.rank, other))
        self._deferred.clear()


def _needs_equal_task(state: ElasticState, task: Task, span: NodeSpan) -> bool:
    """Whether the next step of a workload is one instance with the shape of `task`, in the same pool."""
    following = state.next_task
    alike = following is not None and following.shape is task.shape
    return alike and not state.has_followers and state.span == span


class Transfer(msgspec.Struct, frozen=True, eq=False):
    """One step of rebalancing: an instance that leaves its node, and the one that takes its place."""

    donor: ElasticState
    leaving: Task
    receiver: ElasticState
    arriving: Task


class DonorIndex:
    """Where instances of one shape could go: nodes with room, and donors whose place they would fit.

    No inter-pod rules apply to these instances. `donors` are in the order of donating.
    """

    def __init__(self, filters: Filters, span: NodeSpan, task: Task, donors: list[ElasticState]) -> None:
        """Look at all nodes of the span and all donors."""
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
        """Add a donor, if an instance would fit in its place."""
        if self._would_fit(donor):
            insort(self.donors, donor, key=_donating_order)

    def _would_fit(self, donor: ElasticState) -> bool:
        """Whether an instance fits the node of the donor's highest instance, in place of that one."""
        leaving, demand = donor.bound[-1], self._demand
        room = (self._ledger.room[:, leaving.column] + self._ledger.demand(leaving.shape).vector).tolist()
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._suitable[leaving.column])


class Rebalancing:
    """Makes the workloads of one pool more equal.

    The ledger must have no terminating or evicted pods, and is left changed. Each step moves one instance:
    the donor's highest one leaves its node, and the room is reserved for the receiver's next one. A workload
    that has donated receives nothing any more, and one that has received does not donate. A transfer changes
    one node, so only what concerns that node is evaluated again.
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
        """`load` must correspond to the pods in the ledger."""
        self._filters, self._ledger, self._span, self._load = filters, filters.ledger, span, load
        self._receivers = sorted((g for g in receivers if g.next_task), key=_receiving_order)
        self._donors = sorted((g for g in donors if _may_donate(g)), key=_donating_order)
        self._donor_index: dict[Shape, DonorIndex] = {}
        self._donors_on: defaultdict[int, list[ElasticState]] = defaultdict(list)
        for donor in self._donors:
            self._donors_on[donor.bound[-1].column].append(donor)

    def run(self) -> list[Transfer]:
        """Transfer instances until no step is left."""
        transfers: list[Transfer] = []
        while transfer := self._step():
            transfers.append(transfer)
        return transfers

    def _step(self) -> Transfer | None:
        for receiver in self._receivers:
            task = receiver.next_task
            if task is None or (receiver.has_followers and receiver.next_step() != [task]):
                continue
            after = fulfilment(receiver.workload, receiver.size + 1)
            for donor in self._donors_for(task):
                if donor.fulfilment <= after:
                    break
                if _may_transfer(donor, receiver, after):
                    return self._transfer(donor, receiver)
        return None

    def _transfer(self, donor: ElasticState, receiver: ElasticState) -> Transfer:
        column = donor.bound[-1].column
        affected = self._donors_on.pop(column)
        for state in (*affected, receiver):
            self._remove_donor(state)
        self._receivers = [state for state in self._receivers if state is not donor and state is not receiver]
        leaving, arriving = donor.shrink(), receiver.nominate(column)
        self._ledger.remove(Occupant(column, leaving.shape, leaving.identity))
        self._ledger.add(Occupant(column, arriving.shape, arriving.identity))
        self._load.add(leaving.shape, -1)
        self._load.add(arriving.shape)
        for index in self._donor_index.values():
            index.refresh_node(column)
        for state in affected:
            if _may_donate(state):
                self._add_donor(state)
        if receiver.next_task:
            insort(self._receivers, receiver, key=_receiving_order)
        return Transfer(donor, leaving, receiver, arriving)

    def _remove_donor(self, donor: ElasticState) -> None:
        for donors in (self._donors, *(index.donors for index in self._donor_index.values())):
            if donor in donors:
                donors.remove(donor)

    def _add_donor(self, donor: ElasticState) -> None:
        insort(self._donors, donor, key=_donating_order)
        self._donors_on[donor.bound[-1].column].append(donor)
        for index in self._donor_index.values():
            index.add_donor(donor)

    def _donors_for(self, task: Task) -> list[ElasticState]:
        """Workloads whose highest instance could make room for a task; none if it fits without."""
        if self._filters.has_inter_pod_rules(task):
            fits = self._filters.fitting(task, self._span).any() and self._load.max_more(task.shape)
            return [] if fits else [donor for donor in self._donors if self._would_fit(task, donor)]
        if task.shape not in self._donor_index:
            self._donor_index[task.shape] = DonorIndex(self._filters, self._span, task, self._donors)
        index = self._donor_index[task.shape]
        return [] if index.nodes_with_room and self._load.max_more(task.shape) else index.donors

    def _would_fit(self, task: Task, donor: ElasticState) -> bool:
        leaving = donor.bound[-1]
        with self._ledger.attempt():
            self._ledger.remove(Occupant(leaving.column, leaving.shape, leaving.identity))
            return self._filters.fits_on(task, leaving.column, self._span)


def _may_transfer(donor: ElasticState, receiver: ElasticState, after: float) -> bool:
    """Whether the donor has no higher priority and is afterwards at least as fulfilled as the receiver."""
    if donor is receiver or donor.workload.priority > receiver.workload.priority:
        return False
    return fulfilment(donor.workload, donor.size - 1) >= after


def _may_donate(state: ElasticState) -> bool:
    """Whether it has a bound instance beyond its minimum, and no reservations."""
    return state.size > state.workload.minimum and bool(state.bound) and not state.nominated


def _receiving_order(state: ElasticState) -> tuple[float, int]:
    return state.fulfilment, state.rank


def _donating_order(state: ElasticState) -> tuple[float, int]:
    return -state.fulfilment, -state.rank
