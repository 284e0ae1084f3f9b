"""The list-and-watch state machine: a table of what happens, and what is requested next."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import (
    ClusterError,
    ForbiddenError,
    GoneError,
    InternalError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from shoal.cluster.list_watch import MAX_RESUMES, ListWatch

TIMEOUT = 100.0
BACKOFF = Backoff(1.0, 8.0)
GONE = GoneError("too old resource version")
DOWN = UnavailableError("the connection was reset")
BUSY = TooManyRequestsError("later", retry_after=5)
BROKEN = InternalError("etcd is down")
FORBIDDEN = ForbiddenError("not allowed")
ABSENT = NotFoundError("no such resource")


class Run:
    """Drives a state machine with a clock, and notes the delays and requests."""

    def __init__(self, give_up_after: float | None) -> None:
        self.state = ListWatch(BACKOFF, give_up_after=give_up_after)
        self.now = 0.0
        self.delays: list[float] = []

    @property
    def next(self) -> str:
        return "list" if self.state.must_list else f"watch {self.state.version}"

    def fail(self, error: ClusterError) -> None:
        self.delays.append(self.state.failed(error, self.now))


Step = Callable[[Run], None]


def listed(version: int) -> Step:
    return lambda run: run.state.listed(str(version))


def started(run: Run) -> None:
    run.state.watch_started(run.now)


def received(version: int) -> Step:
    return lambda run: run.state.received(str(version))


def passed(seconds: float) -> Step:
    def step(run: Run) -> None:
        run.now += seconds

    return step


def ended(run: Run) -> None:
    """End a watch; ending it too early is a failure like any other."""
    try:
        run.state.watch_ended(run.now, TIMEOUT)
    except UnavailableError as error:
        run.fail(error)


def failed(error: ClusterError, times: int = 1) -> Step:
    def step(run: Run) -> None:
        for _ in range(times):
            run.fail(error)

    return step


@dataclass
class Case:
    """Steps, the request that comes next, and the delays of the failures; `raises` if it is given up."""

    steps: list[Step]
    next: str
    delays: list[float]
    give_up_after: float | None = None
    raises: ClusterError | None = None


CASES = {
    "at first the collection is listed": Case([], "list", []),
    "a list is followed by a watch from its version": Case([listed(4)], "watch 4", []),
    "an event moves the version": Case([listed(4), started, received(7)], "watch 7", []),
    "a watch that ends after an event is resumed at once": Case(
        [listed(4), started, received(7), ended], "watch 7", []
    ),
    "a watch that lasted half its timeout is resumed at once": Case(
        [listed(4), started, passed(TIMEOUT / 2), ended], "watch 4", []
    ),
    "a watch that ends early and without an event is a failure": Case(
        [listed(4), started, passed(TIMEOUT / 2 - 1), ended], "watch 4", [1]
    ),
    "a bookmark of the same version is no progress": Case(
        [listed(4), started, received(4), ended], "watch 4", [1]
    ),
    "a broken watch is resumed": Case([listed(4), started, received(5), failed(DOWN)], "watch 5", [1]),
    "a busy server decides the delay": Case([listed(4), failed(BUSY)], "watch 4", [5]),
    "410 leads to another list": Case([listed(4), started, received(5), failed(GONE)], "list", [1]),
    "an error that the version may cause leads to another list": Case(
        [listed(4), failed(BROKEN)], "list", [1]
    ),
    "a list that fails is repeated": Case([failed(DOWN), failed(BROKEN)], "list", [1, 2]),
    "a resource that is not installed is listed again": Case([failed(ABSENT, 2)], "list", [1, 2]),
    "delays grow to the maximum": Case([listed(4), failed(DOWN, MAX_RESUMES)], "watch 4", [1, 2, 4, 8, 8]),
    "too many failures in a row lead to another list": Case(
        [listed(4), failed(DOWN, MAX_RESUMES + 1)], "list", [1, 2, 4, 8, 8, 8]
    ),
    "a list is no progress": Case([failed(DOWN), listed(4), failed(DOWN)], "watch 4", [1, 2]),
    "a watch that starts is no progress": Case(
        [listed(4), failed(DOWN), started, failed(DOWN)], "watch 4", [1, 2]
    ),
    "a new version resets the delays": Case(
        [listed(4), failed(DOWN, 2), started, received(5), failed(DOWN)], "watch 5", [1, 2, 1]
    ),
    "a service never gives up": Case(
        [failed(FORBIDDEN), listed(4), failed(DOWN), passed(1e6), failed(DOWN)], "watch 4", [1, 2, 4]
    ),
    "a command reports a first list that fails": Case([failed(DOWN)], "list", [], 60, raises=DOWN),
    "a command resumes a broken watch": Case([listed(4), failed(DOWN)], "watch 4", [1], 60),
    "a command waits for a busy server": Case([listed(4), failed(BUSY)], "watch 4", [5], 60),
    "a command lists again after 410": Case([listed(4), failed(GONE)], "list", [1], 60),
    "a command retries another list": Case([listed(4), failed(GONE), failed(DOWN)], "list", [1, 2], 60),
    "a command reports other errors": Case([listed(4), failed(FORBIDDEN)], "watch 4", [], 60, FORBIDDEN),
    "a command reports errors of the server": Case([listed(4), failed(BROKEN)], "watch 4", [], 60, BROKEN),
    "a command is patient for a while": Case(
        [listed(4), failed(DOWN), passed(60), failed(DOWN)], "watch 4", [1, 2], 60
    ),
    "a command gives up at last": Case(
        [listed(4), failed(DOWN), passed(61), failed(DOWN)], "watch 4", [1], 60, raises=DOWN
    ),
    "a watch that starts shows that the server is reachable": Case(
        [listed(4), failed(DOWN), passed(50), started, passed(50), failed(DOWN)], "watch 4", [1, 2], 60
    ),
    "so does a list": Case(
        [listed(4), failed(GONE), passed(50), listed(9), passed(50), failed(DOWN)], "watch 9", [1, 2], 60
    ),
    "watches that end early do not make a command give up": Case(
        [listed(4), *[started, passed(45), ended] * 3], "watch 4", [1, 2, 4], 60
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_comes_next(case: Case) -> None:
    run = Run(case.give_up_after)
    *steps, last = case.steps or [lambda _: None]
    for step in steps:
        step(run)
    if case.raises is None:
        last(run)
    else:
        with pytest.raises(type(case.raises)) as caught:
            last(run)
        assert caught.value is case.raises
    assert (run.next, run.delays) == (case.next, case.delays)


STEPS = st.one_of(
    st.builds(listed, st.integers(1, 9)),
    st.just(started),
    st.builds(received, st.integers(1, 9)),
    st.builds(passed, st.integers(0, 200)),
    st.just(ended),
    st.builds(failed, st.sampled_from([GONE, DOWN, BUSY, BROKEN, FORBIDDEN])),
)


@given(st.lists(STEPS))
def test_a_service_always_goes_on_and_lists_again_after_410(steps: list[Step]) -> None:
    run = Run(None)
    for step in steps:
        step(run)
    assert all(0 < delay <= BACKOFF.maximum for delay in run.delays)
    run.fail(GONE)
    assert run.state.must_list
    run.state.listed("10")
    run.state.watch_started(run.now)
    run.state.received("11")
    assert (run.next, run.state.failures) == ("watch 11", 0)
    assert run.state.failed(DOWN, math.inf) == BACKOFF.initial
