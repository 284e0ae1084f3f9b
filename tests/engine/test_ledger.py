"""The ledger: an attempt that is not kept changes nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.podspec import HostPort
from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.filters import Filters
from shoal.engine.layout import ResourceLayout
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import NodeRecord, Nodes, NodeSpan
from shoal.engine.workload import Identity, NodeRules, Shape, Task

GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": 8000, "memory": 16, GPU: 4, "pods": 10}
WEIGHTS = (1, 1, 0, 0, 4)
ANYWHERE = NodeRules()
IDENTITY = Identity("default", {"app": "a"})
SHAPES = [
    Shape(requests={"cpu": 1000, "memory": 2}, nodes=ANYWHERE),
    Shape(requests={"cpu": 500, GPU: 1}, nodes=ANYWHERE, ports=(HostPort(port=80),)),
    Shape(requests={}, nodes=ANYWHERE),
]
ALL, FEW = NodeSpan(0, 4), NodeSpan(1, 3)


def new_ledger() -> Ledger:
    records = [
        NodeRecord(name=f"n{i}", pool="default", allocatable=AMOUNTS, capacity=AMOUNTS) for i in range(4)
    ]
    nodes = Nodes(records, ResourceLayout([GPU]))
    ledger = Ledger(nodes, np.zeros_like(nodes.alloc), InterPodRules(nodes))
    ledger.loads(WEIGHTS)
    return ledger


def content(ledger: Ledger) -> list[Any]:
    """Everything that is observable of a ledger."""
    filters = Filters(ledger)
    allowed = [filters.allowed(task(shape), ALL) for shape in SHAPES]
    parts = [ledger.used, ledger.reserved, ledger.room, *ledger.loads(WEIGHTS), *allowed]
    return [part.tolist() for part in parts]


def task(shape: Shape) -> Task:
    return Task(name="t", role="pod", shape=shape, identity=IDENTITY)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "reserve", "release", "clear", "drop", "nest", "nest and keep"]),
        st.integers(0, 3),
        st.sampled_from(SHAPES),
        st.integers(1, 3),
    ),
    max_size=12,
)


def apply(ledger: Ledger, todo: list[tuple[str, int, Shape, int]]) -> None:
    for i, (action, column, shape, count) in enumerate(todo):
        occupant = Occupant(column, shape, IDENTITY)
        match action:
            case "add":
                ledger.add(occupant, count)
            case "remove":
                ledger.remove(occupant)
            case "reserve":
                ledger.reserve(occupant)
            case "release":
                ledger.release(occupant)
            case "clear":
                ledger.clear(FEW)
            case "drop":
                ledger.drop_reservations(FEW)
            case _:
                with ledger.attempt() as attempt:
                    apply(ledger, todo[i + 1 :])
                    if action == "nest and keep":
                        attempt.keep()
                return


@given(steps, steps)
def test_an_attempt_that_is_not_kept_changes_nothing(
    before: list[tuple[str, int, Shape, int]], attempted: list[tuple[str, int, Shape, int]]
) -> None:
    ledger = new_ledger()
    apply(ledger, before)
    expected = content(ledger)
    with ledger.attempt():
        apply(ledger, attempted)
    assert content(ledger) == expected


@given(steps)
def test_a_kept_attempt_equals_direct_changes(done: list[tuple[str, int, Shape, int]]) -> None:
    kept, direct = new_ledger(), new_ledger()
    with kept.attempt() as attempt:
        apply(kept, done)
        attempt.keep()
    apply(direct, done)
    assert content(kept) == content(direct)


@given(steps)
def test_room_is_allocatable_minus_used_minus_reserved(done: list[tuple[str, int, Shape, int]]) -> None:
    ledger = new_ledger()
    apply(ledger, done)
    assert (ledger.room == ledger.nodes.alloc - ledger.used - ledger.reserved).all()


def test_an_attempt_that_raises_is_undone() -> None:
    ledger = new_ledger()
    expected = content(ledger)

    def fail() -> None:
        with ledger.attempt():
            ledger.add(Occupant(0, SHAPES[0], IDENTITY))
            ledger.add(Occupant(99, SHAPES[0], IDENTITY))

    with pytest.raises(IndexError):
        fail()
    assert content(ledger) == expected
