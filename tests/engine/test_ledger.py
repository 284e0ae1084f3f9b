"""The ledger: whatever is attempted and not kept leaves no trace."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.podspec import HostPort
from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.filters import Filters
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import NodeRecord, Nodes, NodeSpan
from shoal.engine.resources import ResourceLayout
from shoal.engine.workload import Identity, NodeRules, Shape, Task

GPU = "nvidia.com/gpu"
HAVE = {"cpu": 8000, "memory": 16, GPU: 4, "pods": 10}
WEIGHTS = (1, 1, 0, 0, 4)
ANYWHERE = NodeRules()
IDENTITY = Identity("default", {"app": "a"})
SHAPES = [
    Shape(requests={"cpu": 1000, "memory": 2}, nodes=ANYWHERE),
    Shape(requests={"cpu": 500, GPU: 1}, nodes=ANYWHERE, ports=(HostPort(port=80),)),
    Shape(requests={}, nodes=ANYWHERE),
]
ALL, FEW = NodeSpan(0, 4), NodeSpan(1, 3)


def ledger() -> Ledger:
    facts = [NodeRecord(name=f"n{i}", pool="default", allocatable=HAVE, capacity=HAVE) for i in range(4)]
    nodes = Nodes(facts, ResourceLayout([GPU]))
    made = Ledger(nodes, np.zeros_like(nodes.alloc), InterPodRules(nodes))
    made.loads(WEIGHTS)
    return made


def trace(made: Ledger) -> list[Any]:
    """Everything that can be seen of a ledger."""
    filters = Filters(made)
    allowed = [filters.allowed(task(shape), ALL) for shape in SHAPES]
    parts = [made.used, made.reserved, made.room, *made.loads(WEIGHTS), *allowed]
    return [part.tolist() for part in parts]


def task(shape: Shape) -> Task:
    return Task(name="t", role="pod", shape=shape, identity=IDENTITY)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "reserve", "release", "vacate", "forget", "nest", "nest and keep"]),
        st.integers(0, 3),
        st.sampled_from(SHAPES),
        st.integers(1, 3),
    ),
    max_size=12,
)


def act(made: Ledger, todo: list[tuple[str, int, Shape, int]]) -> None:
    for i, (what, column, shape, count) in enumerate(todo):
        occupant = Occupant(column, shape, IDENTITY)
        match what:
            case "add":
                made.add(occupant, count)
            case "remove":
                made.remove(occupant)
            case "reserve":
                made.reserve(occupant)
            case "release":
                made.release(occupant)
            case "vacate":
                made.clear(FEW)
            case "forget":
                made.drop_reservations(FEW)
            case _:
                with made.attempt() as attempt:
                    act(made, todo[i + 1 :])
                    if what == "nest and keep":
                        attempt.keep()
                return


@given(steps, steps)
def test_an_attempt_that_is_not_kept_leaves_no_trace(
    before: list[tuple[str, int, Shape, int]], tried: list[tuple[str, int, Shape, int]]
) -> None:
    made = ledger()
    act(made, before)
    seen = trace(made)
    with made.attempt():
        act(made, tried)
    assert trace(made) == seen


@given(steps)
def test_an_attempt_that_is_kept_is_as_if_done_outright(done: list[tuple[str, int, Shape, int]]) -> None:
    kept, outright = ledger(), ledger()
    with kept.attempt() as attempt:
        act(kept, done)
        attempt.keep()
    act(outright, done)
    assert trace(kept) == trace(outright)


@given(steps)
def test_room_is_what_is_left(done: list[tuple[str, int, Shape, int]]) -> None:
    made = ledger()
    act(made, done)
    assert (made.room == made.nodes.alloc - made.used - made.reserved).all()


def test_a_broken_attempt_is_taken_back() -> None:
    made = ledger()
    seen = trace(made)

    def break_off() -> None:
        with made.attempt():
            made.add(Occupant(0, SHAPES[0], IDENTITY))
            made.add(Occupant(99, SHAPES[0], IDENTITY))

    with pytest.raises(IndexError):
        break_off()
    assert trace(made) == seen
