"""Turns: a queue with a lane for each pool, of which each has its turn; and how fast it is emptied.

Telling: verdicts become conditions and Events, for people to read. It is the slow lane of the commit.

An object is written only when what is said of it changes: what was said last is remembered, and after a
restart read from the object itself. Nothing waits for this lane. It is limited in rate, pools have their
turns in it, and of several things to say of one object only the last is said.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from shoal.api.meta import Condition
from shoal.cache.changes import Key
from shoal.cache.snapshots import Assembly
from shoal.cache.world import World
from shoal.cluster.errors import ClusterError
from shoal.cluster.events import EventRecorder, ObjectEvent, ObjectReference
from shoal.cluster.resources import Object, resource_of
from shoal.engine.plan import Plan, Verdict
from shoal.engine.workload import NO_NODE, Reason, Task, Workload
from shoal.kinds.pod_classes import GATED
from shoal.kinds.pods import PodRecord
from shoal.scheduler.writes import Writes, with_condition

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Things to do, by lane and key. Something newer about a key takes the place of what still waits."""

    def __init__(self) -> None:
        self._lanes: Final = OrderedDict[str, OrderedDict[Hashable, T]]()
        self._filled: Final = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(self, lane: str, key: Hashable, thing: T) -> None:
        """Add something to do."""
        self._lanes.setdefault(lane, OrderedDict())[key] = thing
        self._filled.set()

    async def take(self) -> T:
        """The oldest of the lane whose turn it is; wait for one if there is none."""
        while not self._lanes:
            self._filled.clear()
            await self._filled.wait()
        lane, things = self._lanes.popitem(last=False)
        _, thing = things.popitem(last=False)
        if things:
            self._lanes[lane] = things
        return thing


class Pacer:
    """Lets so many pass each second, and some at once after a rest."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._gap, self._ahead = 1 / per_second, burst / per_second
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._ahead) + self._gap
        if self._next > now:
            await asyncio.sleep(self._next - now)


_LOG: Final = logging.getLogger(__name__)
_SCHEDULED: Final = ("ScheduledSucceed", "ScheduledPartly")

Said = tuple[str, str, tuple[Reason, ...]]
"""The uid of an object, and the state and the reasons that it was told."""


class Pace(NamedTuple):
    """How fast things are told: so many a second, some more after a rest, and so many at once."""

    per_second: float = 100.0
    burst: int = 200
    at_once: int = 8


_USUAL: Final = Pace()


class ConditionUpdate(NamedTuple):
    """Something to be said of an object: as a condition, as an Event, or as both."""

    kind: str
    key: Key
    uid: str
    condition: Object | None = None
    note: ObjectEvent | None = None


class StatusReporter:
    """Says of objects what people should know."""

    def __init__(self, world: World, writes: Writes, recorder: EventRecorder, pace: Pace = _USUAL) -> None:
        self._world, self._writes, self._recorder = world, writes, recorder
        self._pacer: Final = Pacer(pace.per_second, pace.burst)
        self._at_once: Final = pace.at_once
        self._turns: Final = FairQueue[ConditionUpdate]()
        self._said: Final[dict[tuple[str, Key], Said]] = {}
        self._last: Mapping[Workload, Verdict] = {}

    def __len__(self) -> int:
        """How much is still to be said."""
        return len(self._turns)

    async def run(self) -> None:
        """Say for ever what there is to say; cancel it to stop."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._speak())

    def event(self, pool: str, key: Key, uid: str, reason: str, message: str) -> None:
        """Tell of something that happened to a pod."""
        note = ObjectEvent(regarding=_reference("Pod", key, uid), reason=reason, message=message)
        self._turns.put(pool, ("Pod", key, reason), ConditionUpdate("Pod", key, uid, note=note))

    def verdicts(self, made: Assembly, plan: Plan, changes: Mapping[str, set[Key]]) -> None:
        """Tell objects how their workloads stand, as far as that is news to them."""
        self._forget(changes)
        placed = {placement.task for placement in plan.placements}
        pools = made.snapshot.pools
        for workload, verdict in self._news(plan.verdicts):
            pool = pools[workload.pool].name
            if workload.kind in self._world.jobs:
                self._tell_job(pool, workload, verdict)
            if verdict.reasons:
                for pod in self._waiting(made, workload, placed):
                    self._tell_pod(pool, pod, verdict)
        for workload in self._misinformed(made, plan, changes):
            self._tell_job(pools[workload.pool].name, workload, plan.verdict(workload))

    def _news(self, verdicts: Mapping[Workload, Verdict]) -> list[tuple[Workload, Verdict]]:
        """Those of whom something else is to be said than after the last cycle: among many who wait, few."""
        last, self._last = self._last, verdicts
        return [
            (workload, verdict)
            for workload, verdict in verdicts.items()
            if (old := last.get(workload)) is None
            or old.reasons != verdict.reasons
            or old.state != verdict.state
        ]

    def _forget(self, changes: Mapping[str, set[Key]]) -> None:
        """Remember nothing of what is gone, or has a node: it will be another's turn under that name."""
        for key in changes["Pod"]:
            pod = self._world.pods.get(key)
            if pod is None or pod.node:
                self._said.pop(("Pod", key), None)
        for kind in self._world.jobs:
            for key in changes[kind] - self._world.jobs[kind].keys():
                self._said.pop((kind, key), None)

    def _waiting(self, made: Assembly, workload: Workload, placed: set[Task]) -> Iterator[PodRecord]:
        """The pods of a workload that exist, and got no node."""
        for task in workload.tasks:
            if task.column == NO_NODE and task not in placed:
                loose = workload.kind not in self._world.jobs
                known = self._world.pods.get((workload.namespace, task.name))
                pod = known if loose else made.pod(workload, task)
                if pod is not None and pod.uid and not pod.leaving and not pod.finished:
                    yield pod

    def _tell_pod(self, pool: str, pod: PodRecord, verdict: Verdict) -> None:
        said = pod.uid, verdict.state, verdict.reasons
        if self._said.get(("Pod", pod.key)) == said:
            return
        self._said["Pod", pod.key] = said
        text = in_one_line(verdict.reasons)
        why = "SchedulingGated" if pod.pod_class.held is GATED else "Unschedulable"
        condition = {"type": "PodScheduled", "status": "False", "reason": why, "message": text}
        about = _reference("Pod", pod.key, pod.uid)
        note = ObjectEvent(regarding=about, reason="FailedScheduling", message=text, type="Warning")
        self._turns.put(pool, ("Pod", pod.key, ""), ConditionUpdate("Pod", pod.key, pod.uid, condition, note))

    def _tell_job(self, pool: str, workload: Workload, verdict: Verdict) -> None:
        key = workload.namespace, workload.name
        job = self._world.jobs[workload.kind][key]
        said = job.metadata.uid, verdict.state, verdict.reasons
        if self._said.get((workload.kind, key)) == said:
            return
        self._said[workload.kind, key] = said
        condition = job_condition(verdict)
        if _says(job.status.conditions, condition):
            return
        about, text = _reference(workload.kind, key, job.metadata.uid), condition["message"]
        note = ObjectEvent(regarding=about, reason="FailedScheduling", message=text, type="Warning")
        if condition["status"] == "True":
            note = ObjectEvent(regarding=about, reason="Scheduled", message=text)
        saying = ConditionUpdate(workload.kind, key, job.metadata.uid, condition, note)
        self._turns.put(pool, (workload.kind, key, ""), saying)

    def _misinformed(self, made: Assembly, plan: Plan, changes: Mapping[str, set[Key]]) -> Iterator[Workload]:
        """Jobs for which there is nothing to do any more, and which do not say so."""
        stale = {
            f"{kind}/{key[0]}/{key[1]}"
            for kind in self._world.jobs
            for key in changes[kind]
            if (job := self._world.jobs[kind].get(key)) and not _is_content(job.status.conditions)
        }
        if stale:
            others = (
                w for w in made.snapshot.workloads if w.kind in self._world.jobs and w not in plan.verdicts
            )
            yield from (workload for workload in others if workload.key in stale)

    # --- speaking -----------------------------------------------------------------------------------------

    async def _speak(self) -> None:
        while True:
            saying = await self._turns.take()
            await self._pacer.turn()
            try:
                news = saying.condition is None or await self._write(saying)
            except ClusterError as error:
                self._said.pop((saying.kind, saying.key), None)
                self._last = {}
                _LOG.debug("%s %s could not be told: %s", saying.kind, "/".join(saying.key), error)
                continue
            if news and saying.note:
                await self._recorder.record(saying.note)

    async def _write(self, saying: ConditionUpdate) -> bool:
        """Write a condition; whether the object did not have it."""
        news = False

        def make(thing: Object) -> Object | None:
            nonlocal news
            spoken_for = thing["metadata"].get("deletionTimestamp") or thing["spec"].get("nodeName")
            conditions = with_condition(thing, saying.condition or {}, self._writes.now())
            news = conditions is not None and not spoken_for
            return {"conditions": conditions} if news else None

        await self._writes.amend(resource_of(saying.kind), saying.key, saying.uid, make)
        return news


def in_one_line(reasons: tuple[Reason, ...]) -> str:
    """Why a workload waits."""
    return "; ".join(reason.message for reason in reasons)


def job_condition(verdict: Verdict) -> Object:
    """How a job stands, as a condition."""
    good = verdict.state in _SCHEDULED
    return {
        "type": "Scheduled",
        "status": "True" if good else "False",
        "reason": verdict.reasons[-1].code if verdict.reasons else verdict.state,
        "message": in_one_line(verdict.reasons),
    }


def _says(conditions: tuple[Condition, ...], wanted: Object) -> bool:
    """Whether a job says so already."""
    found = (c for c in conditions if c.type == wanted["type"])
    return any(
        (c.status, c.reason, c.message) == tuple(wanted[k] for k in ("status", "reason", "message"))
        for c in found
    )


def _is_content(conditions: tuple[Condition, ...]) -> bool:
    return any(c.type == "Scheduled" and c.status == "True" for c in conditions)


def _reference(kind: str, key: Key, uid: str) -> ObjectReference:
    version, (namespace, name) = resource_of(kind).api_version, key
    return ObjectReference(api_version=version, kind=kind, name=name, namespace=namespace, uid=uid)
