"""StatusReporter: verdicts become conditions and Events, for people to read.

It is the slow path of the commit: rate-limited, fair between pools (`FairQueue`), and a report that is
outdated before it was written is replaced by the newer one. Nothing else waits for it.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from typing import Final, Generic, NamedTuple, TypeVar

from shoal.api.conditions import set_condition
from shoal.api.meta import Condition
from shoal.cache.changes import Key
from shoal.cache.snapshots import BuiltSnapshot
from shoal.cache.world import World
from shoal.cluster.denials import report_denial
from shoal.cluster.errors import ClusterError
from shoal.cluster.events import EventRecorder, ObjectEvent, ObjectReference
from shoal.cluster.resources import Object, resource_of
from shoal.cluster.times import format_time
from shoal.engine.plan import Plan, Verdict
from shoal.engine.workload import NO_NODE, Reason, Task, Workload
from shoal.kinds.pod_classes import GATED
from shoal.kinds.pods import PodRecord
from shoal.scheduler.decisions import Bind, Evict
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.writes import Writes

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue with one lane per pool, served in turn. A newer item of a key replaces the waiting one."""

    def __init__(self) -> None:
        self._lanes: Final = OrderedDict[str, OrderedDict[Hashable, T]]()
        self._filled: Final = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(self, lane: str, key: Hashable, item: T) -> None:
        """Add an item."""
        self._lanes.setdefault(lane, OrderedDict())[key] = item
        self._filled.set()

    async def take(self) -> T:
        """Return the oldest item of the next lane; wait for one if the queue is empty."""
        while not self._lanes:
            self._filled.clear()
            await self._filled.wait()
        lane, items = self._lanes.popitem(last=False)
        _, item = items.popitem(last=False)
        if items:
            self._lanes[lane] = items
        return item


class RateLimiter:
    """Limits a rate, with a burst after an idle time."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._gap, self._ahead = 1 / per_second, burst / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the rate allows one more."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._ahead) + self._gap
        if self._next > now:
            await asyncio.sleep(self._next - now)


_LOG: Final = logging.getLogger(__name__)
_SCHEDULED: Final = ("ScheduledSucceed", "ScheduledPartly")
_ALL_SCHEDULED: Final = "All pods have nodes"

Reported = tuple[str, str, tuple[Reason, ...]]
"""The uid of an object, and the state and reasons that were reported last."""


class ReportRate(NamedTuple):
    """Reports per second, the burst after an idle time, and the number of concurrent writes."""

    per_second: float = 100.0
    burst: int = 200
    concurrency: int = 8


_DEFAULT_RATE: Final = ReportRate()


class ConditionUpdate(NamedTuple):
    """A report about an object: a condition, an Event, or both."""

    kind: str
    key: Key
    uid: str
    condition: Object | None = None
    event: ObjectEvent | None = None


class StatusReporter:
    """Writes conditions and Events about pods and jobs."""

    def __init__(
        self, world: World, writes: Writes, recorder: EventRecorder, rate: ReportRate = _DEFAULT_RATE
    ) -> None:
        self._world, self._writes, self._recorder = world, writes, recorder
        self._limiter: Final = RateLimiter(rate.per_second, rate.burst)
        self._concurrency: Final = rate.concurrency
        self._queue: Final = FairQueue[ConditionUpdate]()
        self._reported: Final[dict[tuple[str, Key], Reported]] = {}
        self._last: Mapping[Workload, Verdict] = {}

    def __len__(self) -> int:
        """Number of waiting reports."""
        return len(self._queue)

    async def run(self) -> None:
        """Write reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    def event(self, pool: str, key: Key, uid: str, reason: str, message: str) -> None:
        """Report an Event of a pod."""
        event = ObjectEvent(regarding=_reference("Pod", key, uid), reason=reason, message=message)
        self._queue.put(pool, ("Pod", key, reason), ConditionUpdate("Pod", key, uid, event=event))

    def verdicts(self, built: BuiltSnapshot, plan: Plan, changes: Mapping[str, set[Key]]) -> None:
        """Report the verdicts of a plan that differ from what was reported before."""
        self._forget(changes)
        placed = {placement.task for placement in plan.placements}
        pools = built.snapshot.pools
        for workload, verdict in self._changed(plan.verdicts):
            pool = pools[workload.pool].name
            if workload.kind in self._world.jobs:
                self._report_job(pool, workload, verdict)
            if verdict.reasons:
                for pod in self._waiting(built, workload, placed):
                    self._report_pod(pool, pod, verdict)
        for workload in self._outdated(built, plan, changes):
            self._report_job(pools[workload.pool].name, workload, plan.verdict(workload))

    def _changed(self, verdicts: Mapping[Workload, Verdict]) -> list[tuple[Workload, Verdict]]:
        """Workloads whose state or reasons differ from the last cycle: few, even if many wait."""
        last, self._last = self._last, verdicts
        return [
            (workload, verdict)
            for workload, verdict in verdicts.items()
            if (old := last.get(workload)) is None
            or old.reasons != verdict.reasons
            or old.state != verdict.state
        ]

    def _forget(self, changes: Mapping[str, set[Key]]) -> None:
        """Forget reports about objects that are gone or bound: a new object may get the name."""
        for key in changes["Pod"]:
            pod = self._world.pods.get(key)
            if pod is None or pod.node:
                self._reported.pop(("Pod", key), None)
        for kind in self._world.jobs:
            for key in changes[kind] - self._world.jobs[kind].keys():
                self._reported.pop((kind, key), None)

    def _waiting(self, built: BuiltSnapshot, workload: Workload, placed: set[Task]) -> Iterator[PodRecord]:
        """Existing pods of a workload that got no node."""
        for task in workload.tasks:
            if task.column == NO_NODE and task not in placed:
                loose = workload.kind not in self._world.jobs
                known = self._world.pods.get((workload.namespace, task.name))
                pod = known if loose else built.pod(workload, task)
                if pod is not None and pod.uid and not pod.leaving and not pod.finished:
                    yield pod

    def _report_pod(self, pool: str, pod: PodRecord, verdict: Verdict) -> None:
        report = pod.uid, verdict.state, verdict.reasons
        if self._reported.get(("Pod", pod.key)) == report:
            return
        self._reported["Pod", pod.key] = report
        text = in_one_line(verdict.reasons)
        why = "SchedulingGated" if pod.pod_class.held is GATED else "Unschedulable"
        condition = {"type": "PodScheduled", "status": "False", "reason": why, "message": text}
        about = _reference("Pod", pod.key, pod.uid)
        event = ObjectEvent(regarding=about, reason="FailedScheduling", message=text, type="Warning")
        self._queue.put(
            pool, ("Pod", pod.key, ""), ConditionUpdate("Pod", pod.key, pod.uid, condition, event)
        )

    def _report_job(self, pool: str, workload: Workload, verdict: Verdict) -> None:
        key = workload.namespace, workload.name
        job = self._world.jobs[workload.kind][key]
        report = job.metadata.uid, verdict.state, verdict.reasons
        if self._reported.get((workload.kind, key)) == report:
            return
        self._reported[workload.kind, key] = report
        condition = job_condition(verdict)
        if _has(job.status.conditions, condition):
            return
        about, text = _reference(workload.kind, key, job.metadata.uid), condition["message"]
        event = ObjectEvent(regarding=about, reason="FailedScheduling", message=text, type="Warning")
        if condition["status"] == "True":
            event = ObjectEvent(regarding=about, reason="Scheduled", message=text or _ALL_SCHEDULED)
        update = ConditionUpdate(workload.kind, key, job.metadata.uid, condition, event)
        self._queue.put(pool, (workload.kind, key, ""), update)

    def _outdated(
        self, built: BuiltSnapshot, plan: Plan, changes: Mapping[str, set[Key]]
    ) -> Iterator[Workload]:
        """Jobs that need no planning any more, but whose condition does not say so yet."""
        stale = {
            f"{kind}/{key[0]}/{key[1]}"
            for kind in self._world.jobs
            for key in changes[kind]
            if (job := self._world.jobs[kind].get(key)) and not _is_settled(job.status.conditions)
        }
        if stale:
            others = (
                w for w in built.snapshot.workloads if w.kind in self._world.jobs and w not in plan.verdicts
            )
            yield from (workload for workload in others if workload.key in stale)

    # --- writing ------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            update = await self._queue.take()
            await self._limiter.wait()
            try:
                is_new = update.condition is None or await self._write(update)
            except ClusterError as error:
                self._reported.pop((update.kind, update.key), None)
                self._last = {}
                report_denial(error)
                _LOG.debug("%s %s report failed: %s", update.kind, "/".join(update.key), error)
                continue
            if is_new and update.event:
                await self._recorder.record(update.event)

    async def _write(self, update: ConditionUpdate) -> bool:
        """Write a condition; return whether it was new."""
        is_new = False

        def status_of(obj: Object) -> Object | None:
            nonlocal is_new
            ignored = obj["metadata"].get("deletionTimestamp") or obj["spec"].get("nodeName")
            conditions = update.condition and set_condition(
                (obj.get("status") or {}).get("conditions") or (),
                update.condition,
                format_time(self._writes.now()),
                transition_fields=("status", "reason"),
            )
            is_new = conditions is not None and not ignored
            return {"status": {"conditions": conditions}} if is_new else None

        await self._writes.update_status(resource_of(update.kind), update.key, update.uid, status_of)
        return is_new


def in_one_line(reasons: tuple[Reason, ...]) -> str:
    """The reasons as one message."""
    return "; ".join(reason.message for reason in reasons)


def job_condition(verdict: Verdict) -> Object:
    """The condition `Scheduled` of a job."""
    good = verdict.state in _SCHEDULED
    return {
        "type": "Scheduled",
        "status": "True" if good else "False",
        "reason": verdict.reasons[-1].code if verdict.reasons else verdict.state,
        "message": in_one_line(verdict.reasons),
    }


def _has(conditions: tuple[Condition, ...], wanted: Object) -> bool:
    """Whether a job has a condition already."""
    found = (c for c in conditions if c.type == wanted["type"])
    return any(
        (c.status, c.reason, c.message) == tuple(wanted[k] for k in ("status", "reason", "message"))
        for c in found
    )


def _is_settled(conditions: tuple[Condition, ...]) -> bool:
    return any(c.type == "Scheduled" and c.reason == "ScheduledSucceed" for c in conditions)


def _reference(kind: str, key: Key, uid: str) -> ObjectReference:
    version, (namespace, name) = resource_of(kind).api_version, key
    return ObjectReference(api_version=version, kind=kind, name=name, namespace=namespace, uid=uid)


class DecisionObserver:
    """Turns the results of writes into metrics and Events."""

    def __init__(self, metrics: Metrics, reporter: StatusReporter) -> None:
        self._metrics, self._reporter = metrics, reporter
        self._writes = cache(metrics.writes.labels)

    def bound(self, pool: str, bind: Bind) -> None:
        """A pod was bound."""
        self._metrics.placements.inc()
        text = f"Successfully assigned {'/'.join(bind.key)} to {bind.node}"
        self._reporter.event(pool, bind.key, bind.uid, "Scheduled", text)

    def evicted(self, pool: str, eviction: Evict) -> None:
        """A pod was evicted.

        The Event is `Preempted` for reclaimed pods too: it is the word that users look for.
        """
        record = eviction.record
        self._metrics.evictions.labels(record.reason).inc()
        reason = "Preempted" if record.reason == "Reclaimed" else record.reason
        self._reporter.event(pool, eviction.key, eviction.uid, reason, str(record))

    def written(self, kind: str, seconds: float) -> None:
        """A write succeeded, after so many seconds."""
        self._writes(kind, "done").observe(seconds)

    def refused(self, kind: str, error: ClusterError, seconds: float) -> None:
        """A write was refused, after so many seconds."""
        self._writes(kind, error.reason).observe(seconds)
