"""PolicyClient: asks an elastic policy of the user without blocking the scheduling loop.

The questions are plain data and are answered outside of the loop; the reply wakes it. Until then cycles run
without answers: new workloads that a policy sizes are not served yet, running ones keep what they have, and
all others are served as usual. A reply is used in one cycle. The engine checks it against the present
snapshot: what does not fit any more is refused, and the policy is asked again.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from shoal.cache.policy_questions import PolicyQuestions, policy_questions
from shoal.cache.world import World
from shoal.engine.policy_answers import NO_ANSWERS, PolicyAnswers
from shoal.engine.snapshot import Snapshot
from shoal.policies.contract import Policy


class PolicyCall(Protocol):
    """Puts questions to a policy, which may take its time."""

    async def __call__(self, asked: PolicyQuestions) -> PolicyAnswers:
        """Return the answers of the policy."""


def call_in_thread(policy: Policy) -> PolicyCall:
    """Call a policy in a thread: it may block, for example on a process of its own."""

    async def ask(asked: PolicyQuestions) -> PolicyAnswers:
        return await asyncio.to_thread(asked.put_to, policy)

    return ask


def call_inline(policy: Policy) -> PolicyCall:
    """Call a policy in the event loop: for simulations, which have no threads and no real time."""

    async def ask(asked: PolicyQuestions) -> PolicyAnswers:
        return asked.put_to(policy)

    return ask


class PolicyReply(NamedTuple):
    """The answers of a policy, and the keys of the workloads that it was asked about."""

    answers: PolicyAnswers
    workloads: Collection[str]


NO_REPLY: Final = PolicyReply(NO_ANSWERS, ())


class PolicyClient:
    """Has at most one call to the policy in progress, and the reply to the last one."""

    def __init__(self, world: World, call: PolicyCall | None, wake: Callable[[], None]) -> None:
        """Without a `call` there are never any answers; `wake` is called when a reply arrives."""
        self._world, self._call, self._wake = world, call, wake
        self._reply = NO_REPLY
        self._in_progress: asyncio.Task[None] | None = None
        self._again = False

    def take(self) -> PolicyReply:
        """Return the reply that arrived since the last call."""
        reply, self._reply = self._reply, NO_REPLY
        return reply

    def undecided(self, snapshot: Snapshot, reply: PolicyReply) -> set[str]:
        """Keys of new workloads that the policy sizes and has not been asked about."""
        if self._call is None:
            return set()
        sized_by_policy = (
            w for w in snapshot.elastic if w.growth and w.growth.sized_by_policy and not w.placed
        )
        return {workload.key for workload in sized_by_policy if workload.key not in reply.workloads}

    def ask(self, snapshot: Snapshot) -> None:
        """Ask the questions of a snapshot, unless a call is in progress."""
        if self._call is None:
            return
        if self._in_progress is not None:
            self._again = True
            return
        asked = policy_questions(self._world, snapshot)
        if asked is not None:
            self._again = False
            self._in_progress = asyncio.get_running_loop().create_task(self._ask(self._call, asked))

    @property
    def wants_again(self) -> bool:
        """Whether there were questions while a call was in progress."""
        return self._again and self._in_progress is None

    def cancel(self) -> None:
        """Cancel the call in progress."""
        if self._in_progress is not None:
            self._in_progress.cancel()

    async def _ask(self, call: PolicyCall, asked: PolicyQuestions) -> None:
        try:
            self._reply = PolicyReply(await call(asked), asked.jobs.keys())
        finally:
            self._in_progress = None
            self._wake()
