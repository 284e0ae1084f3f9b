"""Advisors: how policies of users are asked without anybody waiting for them.

The questions are plain data and leave the loop; the answer comes back when it comes, and wakes it. Until
then cycles run without advice: new workloads that a policy decides on are not served yet, running ones keep
what they have, and all others are served as ever. An answer is good for one cycle. What it says of a world
that has moved on is held against the world as it is: the engine refuses what does not fit any more, and the
policy is asked again.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from shoal.cache.policy_questions import Questions, questions
from shoal.cache.world import World
from shoal.engine.policy_answers import NO_ANSWERS, PolicyAnswers
from shoal.engine.snapshot import Snapshot
from shoal.policies.contract import Policy


class PolicyClient(Protocol):
    """Answers questions, in its own time."""

    async def __call__(self, asked: Questions) -> PolicyAnswers:
        """What a policy wants."""


def in_thread(policy: Policy) -> PolicyClient:
    """Ask a policy that takes its time, such as one in a process of its own."""

    async def ask(asked: Questions) -> PolicyAnswers:
        return await asyncio.to_thread(asked.put_to, policy)

    return ask


def at_once(policy: Policy) -> PolicyClient:
    """Ask a policy that answers at once: for simulations, where there are no threads and time is not real."""

    async def ask(asked: Questions) -> PolicyAnswers:
        return asked.put_to(policy)

    return ask


class Answer(NamedTuple):
    """What a policy said, and about which workloads it was asked."""

    advice: PolicyAnswers
    about: Collection[str]


NO_ANSWER: Final = Answer(NO_ANSWERS, ())


class Counsellor:
    """Has at most one question under way, and the answer to the last."""

    def __init__(self, world: World, advisor: PolicyClient | None, wake: Callable[[], None]) -> None:
        """Without an advisor there is never any advice; `wake` is told of answers."""
        self._world, self._advisor, self._wake = world, advisor, wake
        self._answer = NO_ANSWER
        self._asking: asyncio.Task[None] | None = None
        self._again = False

    def take(self) -> Answer:
        """What was answered since this was asked for last."""
        answer, self._answer = self._answer, NO_ANSWER
        return answer

    def undecided(self, snapshot: Snapshot, answer: Answer) -> set[str]:
        """New workloads that a policy is to decide on, and has not yet been asked about."""
        if self._advisor is None:
            return set()
        sized_by_policy = (
            w for w in snapshot.elastic if w.growth and w.growth.sized_by_policy and not w.placed
        )
        return {workload.key for workload in sized_by_policy if workload.key not in answer.about}

    def ask(self, snapshot: Snapshot) -> None:
        """Put the questions that a snapshot raises, unless others are under way."""
        if self._advisor is None:
            return
        if self._asking is not None:
            self._again = True
            return
        asked = questions(self._world, snapshot)
        if asked is not None:
            self._again = False
            self._asking = asyncio.get_running_loop().create_task(self._put(self._advisor, asked))

    @property
    def wants_again(self) -> bool:
        """Whether there were questions while others were under way."""
        return self._again and self._asking is None

    def cancel(self) -> None:
        """Wait for no answer any more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _put(self, advisor: PolicyClient, asked: Questions) -> None:
        try:
            self._answer = Answer(await advisor(asked), asked.jobs.keys())
        finally:
            self._asking = None
            self._wake()
