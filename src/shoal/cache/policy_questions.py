"""Questions to an elastic policy about a snapshot, and what becomes of its answers.

Whatever a policy does, there is a result: an exception, and an answer that is not an allocation, become the
reason why the answer is not followed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from shoal.api.fields import shown
from shoal.cache.world import World
from shoal.engine.layout import Amounts
from shoal.engine.policy_answers import PolicyAnswers
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Growth, Workload
from shoal.kinds.base import job_kinds
from shoal.policies.contract import JobInfo, NodeInfo, Policy
from shoal.policies.registry import PolicyDiedError, PolicyError


def ask_policy(policy: Policy, world: World, snapshot: Snapshot) -> PolicyAnswers:
    """The answers of a policy for the workloads whose size it decides."""
    asked = policy_questions(world, snapshot)
    return asked.put_to(policy) if asked else PolicyAnswers()


class PolicyQuestions(msgspec.Struct, frozen=True):
    """The questions to a policy: plain data that can be sent to a thread or process.

    `previous` has the node of each rank of running jobs; jobs without an entry are new.
    """

    jobs: dict[str, JobInfo]
    nodes: dict[str, NodeInfo]
    previous: dict[str, list[str]]

    def put_to(self, policy: Policy) -> PolicyAnswers:
        """Ask a policy, about new jobs first; return its answers."""
        collector, fresh = _AnswerCollector(), dict(self.nodes)
        for job in (job for key, job in self.jobs.items() if key not in self.previous):
            collector.ask_one(job.key, partial(policy.allocate, job, fresh))
            _take(fresh, job, collector.allocations.get(job.key, ()))
        if self.previous:
            running = {key: self.jobs[key] for key in self.previous}
            collector.ask_all(self.previous, partial(policy.optimize, running, self.nodes, self.previous))
        return PolicyAnswers(allocations=collector.allocations, refusals=collector.refusals)


def policy_questions(world: World, snapshot: Snapshot) -> PolicyQuestions | None:
    """The questions of a snapshot; None if there is no workload whose size a policy decides."""
    sized_by_policy = [(w, w.growth) for w in snapshot.elastic if w.growth and _is_asked_about(w, snapshot)]
    if not sized_by_policy:
        return None
    return PolicyQuestions(
        jobs={w.key: _job_info(w, growth, world, snapshot) for w, growth in sized_by_policy},
        nodes={node.name: node for node in _node_infos(snapshot)},
        previous={w.key: _ranks(w, snapshot.nodes.names) for w, _ in sized_by_policy if w.placed},
    )


def _is_asked_about(workload: Workload, snapshot: Snapshot) -> bool:
    """Whether a policy decides the size.

    Not of broken gangs, borrowers, or jobs that have begun to finish.
    """
    if not workload.growth or not workload.growth.sized_by_policy or workload.held or workload.done:
        return False
    span = snapshot.pools[workload.pool].span
    return not workload.placed or (not workload.unmet and all(t.column in span for t in workload.placed))


def _take(nodes: dict[str, NodeInfo], job: JobInfo, names: Iterable[str]) -> None:
    """Subtract what a job is to get from the free amounts that the next job sees."""
    for name in names:
        if name in nodes:
            left = {r: n - job.resources.get(r, 0) for r, n in nodes[name].free.items()}
            nodes[name] = replace(nodes[name], free=left)


class _AnswerCollector:
    """Collects answers, and reasons for refusing some. A policy that died is not asked again."""

    _cause_of_death = ""

    def __init__(self) -> None:
        self.allocations: dict[str, tuple[str, ...]] = {}
        self.refusals: dict[str, str] = {}

    def ask_one(self, key: str, question: Callable[[], object]) -> None:
        """Ask about one job; an empty answer means no opinion."""
        answer = self._answer([key], question)
        if key not in self.refusals and answer not in ([], ()):
            self._note(key, answer)

    def ask_all(self, keys: Iterable[str], question: Callable[[], object]) -> None:
        """Ask about several jobs at once."""
        answer = self._answer(keys, question)
        for key in keys:
            if key not in self.refusals:
                self._note(key, answer.get(key) if isinstance(answer, Mapping) else answer)

    def _answer(self, keys: Iterable[str], question: Callable[[], object]) -> object:
        try:
            if not self._cause_of_death:
                return question()
            failure = self._cause_of_death
        except PolicyDiedError as problem:
            failure = self._cause_of_death = str(problem)
        except PolicyError as problem:
            failure = str(problem)
        except Exception as problem:  # noqa: BLE001 - whatever a user's code raises, the cycle goes on
            failure = f"it raised {type(problem).__name__}: {shown(str(problem))}"
        self.refusals.update(dict.fromkeys(keys, f"the policy failed: {failure}"))
        return None

    def _note(self, key: str, answer: object) -> None:
        if isinstance(answer, list | tuple) and all(isinstance(name, str) for name in answer):
            self.allocations[key] = tuple(answer)
        else:
            said = "nothing" if answer is None else shown(repr(answer))
            self.refusals[key] = f"the policy must answer with a list of node names, and answered {said}"


def _job_info(workload: Workload, growth: Growth, world: World, snapshot: Snapshot) -> JobInfo:
    job = world.jobs[workload.kind][workload.namespace, workload.name]
    inputs = job_kinds()[workload.kind].policy_inputs(job)
    return JobInfo(
        key=workload.key,
        min=workload.minimum,
        max=workload.maximum,
        preemptible=workload.evictable,
        resources=growth.series.shape.requests,
        priority=workload.priority,
        created=workload.created,
        node_filter=_open_nodes(workload, growth, snapshot),
        requested=inputs.requested,
        profilings=inputs.profilings,
    )


def _open_nodes(workload: Workload, growth: Growth, snapshot: Snapshot) -> tuple[str, ...]:
    """Names of the nodes in the home pool that a workload may use."""
    nodes, rules, span = snapshot.nodes, growth.series.shape.nodes, snapshot.pools[workload.pool].span
    mask = nodes.ready & nodes.schedulable & nodes.selected(rules) & nodes.tolerated(rules)
    return tuple(nodes.names[column] for column in range(span.start, span.stop) if mask[column])


def _node_infos(snapshot: Snapshot) -> Iterator[NodeInfo]:
    nodes, free = snapshot.nodes, snapshot.nodes.alloc - snapshot.used
    for column, name in enumerate(nodes.names):
        yield NodeInfo(
            name=name,
            labels=nodes.labels[column],
            pool=nodes.pools[column],
            allocatable=_amounts(nodes.alloc, column, nodes.layout.names),
            free=_amounts(free, column, nodes.layout.names),
        )


def _amounts(table: Amounts, column: int, names: Iterable[str]) -> dict[str, int]:
    return {name: int(table[row, column]) for row, name in enumerate(names)}


def _ranks(workload: Workload, names: tuple[str, ...]) -> list[str]:
    """The node of each rank; "" for a rank without node."""
    nodes = {task.number: names[task.column] for task in workload.placed}
    return [nodes.get(rank, "") for rank in range(max(nodes) + 1)]
