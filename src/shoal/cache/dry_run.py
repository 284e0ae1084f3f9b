"""Dry run: plan, apply the plan to a world of records, and plan again (`shoal plan --cycles`).

A placed task runs. A victim is gone; it is pending again under its name if it has a controller. Terminating
pods are gone, and the clock advances.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from shoal.api.meta import Object
from shoal.cache.policy_questions import ask_policy
from shoal.cache.snapshots import BuiltSnapshot, SnapshotBuilder
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.plan import Plan, Resize
from shoal.engine.policy_answers import NO_ANSWERS
from shoal.engine.report import CycleResult
from shoal.engine.workload import NO_NODE, Workload
from shoal.kinds.base import job_kinds
from shoal.kinds.pods import PodRecord
from shoal.kinds.status import scale_record, with_record
from shoal.policies.contract import Policy

_FIRST: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST: Final = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()


def world_of(views: Iterable[Object], now: float | None = None) -> World:
    """A world of these objects at a time; by default the newest time in the objects."""
    objects = list(views)
    world = World(newest(objects) if now is None else now)
    world.put(*objects)
    return world


def newest(views: Iterable[Object]) -> float:
    """The latest time in the objects."""
    return max((time.timestamp() for view in views for time in _times(view)), default=0.0)


def run_cycles(
    world: World, config: SchedulerConfig, *, cycles: int = 1, step: float = 30, policy: Policy | None = None
) -> list[CycleResult]:
    """Run up to `cycles` cycles, and stop after one that changes nothing. The world is changed.

    `policy` sizes elastic jobs where the configuration names a policy other than the engine's own.
    """
    return list(_steps(world, config, cycles, step, policy))


def _steps(
    world: World, config: SchedulerConfig, cycles: int, step: float, policy: Policy | None
) -> Iterator[CycleResult]:
    now, assembler = world.now, SnapshotBuilder(world, config)
    for number in range(1, cycles + 1):
        made = assembler.build(now)
        advice = ask_policy(policy, world, made.snapshot) if policy else NO_ANSWERS
        done = CycleResult(made.snapshot, cycle(made.snapshot, config, advice))
        yield done
        if done.stable or number == cycles:
            return
        _apply(world, made, done.plan)
        now += step


def _apply(world: World, made: BuiltSnapshot, plan: Plan) -> None:
    """Apply a plan to the world."""
    names = made.snapshot.nodes.names
    for key in [key for key, pod in world.pods.items() if pod.leaving]:
        world.remove("Pod", key)
    for workload in made.snapshot.workloads:
        _run_allocated(world, made, workload)
    for placement in plan.placements:
        _run(world, made.pod(placement.workload, placement.task), names[placement.column])
    for eviction in plan.evictions:
        _evict(world, made.pod(eviction.workload, eviction.task))
    _note(world, made, plan)
    for resize in plan.resizes:
        _record(world, plan, resize, made.snapshot.now)


def _record(world: World, plan: Plan, resize: Resize, now: float) -> None:
    """Add a scale record."""
    workload = resize.workload
    evictions = [one for one in plan.evictions if one.workload is workload]
    record = scale_record(resize, evictions, min(max(now, _FIRST), _LAST))
    known = world.jobs[workload.kind][workload.namespace, workload.name].status
    _set_status(world, workload, scale_records=with_record(known.scale_records, record))


def _run(world: World, pod: PodRecord, node: str) -> None:
    running = replace(pod, node=node, phase="Running", leaving=False, eviction=None, nominated="")
    world.keep(running)


def _run_allocated(world: World, made: BuiltSnapshot, workload: Workload) -> None:
    """Let allocated pods run; from then on the pods say where they are."""
    for task in workload.tasks:
        pod = made.pod(workload, task)
        if task.column != NO_NODE and (pod.leaving or not pod.node):
            _run(world, pod, made.snapshot.nodes.names[task.column])
    if workload.kind in world.jobs:
        job = world.jobs[workload.kind][workload.namespace, workload.name]
        world.put(job_kinds()[workload.kind].without_allocations(job))


def _evict(world: World, pod: PodRecord) -> None:
    if pod.owner and pod.owner.kind not in world.jobs:
        world.keep(replace(pod, node="", phase="Pending", nominated="", broken_since=None))
    else:
        world.remove("Pod", pod.key)


def _note(world: World, made: BuiltSnapshot, plan: Plan) -> None:
    """Write nominations, and since when gangs are broken."""
    nominations: defaultdict[Workload, dict[str, str]] = defaultdict(dict)
    for kept in plan.nominations:
        nominations[kept.workload][kept.task.name] = made.snapshot.nodes.names[kept.column]
    evicted = {eviction.workload for eviction in plan.evictions}
    for workload, verdict in plan.verdicts.items():
        broken = None if workload in evicted else verdict.broken
        if workload.kind in world.jobs:
            since = None if broken is None else _moment(broken)
            _set_status(world, workload, nominations=nominations[workload], broken_since=since)
            continue
        for pod in (made.pod(workload, task) for task in workload.tasks):
            nominated = nominations[workload].get(pod.name, "")
            if pod.key in world.pods or nominated:
                known = world.pods.get(pod.key, pod)
                world.keep(replace(known, nominated=nominated, broken_since=broken))


def _set_status(world: World, workload: Workload, **changes: Any) -> None:  # noqa: ANN401 - fields of any status
    key = workload.namespace, workload.name
    job = world.jobs[workload.kind][key]
    world.put(replace(job, status=replace(job.status, **changes)))


def _moment(seconds: float) -> datetime:
    """A time as objects have it, limited to what a datetime can hold."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)


def _times(view: Object) -> Iterator[datetime]:
    """All times in an object."""
    meta, status = view.metadata, getattr(view, "status", None)
    named = ("broken_since", "start_time", "completion_time", "completion_timestamp")
    conditions = getattr(status, "conditions", ())
    times = (
        meta.creation_timestamp,
        meta.deletion_timestamp,
        *(getattr(status, name, None) for name in named),
        *(record.time for record in getattr(status, "scale_records", ())),
        *(condition.last_transition_time for condition in conditions),
        *(getattr(condition, "last_heartbeat_time", None) for condition in conditions),
    )
    return (time for time in times if time)
