"""Sizes of elastic workloads: cut to the ceiling, then free room goes to the least fulfilled."""

import re
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.reference.filters import is_ready
from tests.reference.model import Room, Task, Workload, capacity, dominant_share, lowest_free
from tests.reference.placement import Choice, Trial, all_fit
from tests.reference.quantities import Resources, is_gpu, pod_limits, total
from tests.reference.state import CycleState
from tests.reference.victims import SurplusHolder

Object = dict[str, Any]
GrowthOrder = tuple[Fraction, Fraction, Fraction, datetime, str, str, str]


# --- cutting ------------------------------------------------------------------------------------------------


def cut_to_ceiling(cycle: CycleState) -> None:
    """Evict the highest instances above the ceiling."""
    for job in cycle.by_pool():
        if job.elastic is not None and not job.held:
            cycle.evict(job, bound(job)[: max(0, len(bound(job)) - job.elastic.ceiling)], "Shrunk")


def bound(job: Workload) -> list[Task]:
    """The instances that have a node, the highest index first."""
    return sorted((task for task in job.varying if task.node), key=lambda task: -task.index)


def cut_followers(cycle: CycleState) -> None:
    """Evict parameter servers that no trainer needs any more, not even one that is terminating."""
    for job in cycle.by_pool():
        if job.elastic and may_be_resized(cycle, job) and not (job.elastic.leaving or job.key in cycle.lost):
            cycle.evict(job, _surplus_servers(cycle, job), "Shrunk")


def _surplus_servers(cycle: CycleState, job: Workload) -> list[Task]:
    spare = max(0, -_lacking_servers(cycle, job, 0))
    scaled = [task for task in job.tasks if task.scaled and task.node]
    return sorted(scaled, key=lambda task: -task.index)[:spare]


def _lacking_servers(cycle: CycleState, job: Workload, more: int) -> int:
    """How many parameter servers it lacks with so many more trainers; negative: how many are surplus."""
    assert job.elastic is not None
    if job.elastic.servers is None:
        return 0
    low, high = job.elastic.servers
    return round(low + cycle.score(job, more) * (high - low)) - len(_servers(job))


def _servers(job: Workload) -> list[Task]:
    return [task for task in job.tasks if task.role == "pserver"]


# --- the order of growth ------------------------------------------------------------------------------------


def candidates(cycle: CycleState) -> list[Workload]:
    """Workloads that may grow, the least fulfilled first."""
    able = [job for job in cycle.jobs if _may_grow(cycle, job)]
    return sorted(able, key=lambda job: (cycle.score(job), growth_order(cycle, job)))


def _may_grow(cycle: CycleState, job: Workload) -> bool:
    if not may_be_resized(cycle, job) or job.key in cycle.lost or is_cooling_down(cycle, job):
        return False
    assert job.elastic is not None
    free_name = next_instance(cycle, job).name not in job.elastic.blocked
    below = cycle.size(job) < job.elastic.ceiling and not job.has_finished_instance
    return _lacks_servers(cycle, job) or (below and free_name)


def _lacks_servers(cycle: CycleState, job: Workload) -> bool:
    """Whether it has fewer parameter servers than its trainers need."""
    return _lacking_servers(cycle, job, 0) > 0


def may_be_resized(cycle: CycleState, job: Workload) -> bool:
    """Elastic, with its minimum met, and all in its home pool."""
    active = job.elastic is not None and not job.held and job.minimum_met
    return active and cycle.is_at_home(job)


def growth_order(cycle: CycleState, job: Workload) -> GrowthOrder:
    """The order of growth among equally fulfilled workloads."""
    requests, zero = next_instance(cycle, job).requests, Fraction(0)
    gpus = sum((amount for name, amount in requests.items() if is_gpu(name)), zero)
    sizes = (gpus, requests.get("cpu", zero), requests.get("memory", zero))
    return (*sizes, job.created, job.namespace, job.name, job.kind)


def next_instance(cycle: CycleState, job: Workload) -> Task:
    assert job.elastic is not None
    used = [task.index for task in job.varying if task.met]
    used += [task.index for task, _ in cycle.growing.get(job.key, [])]
    return job.elastic.instance(lowest_free(used))


def is_cooling_down(cycle: CycleState, job: Workload) -> bool:
    changed = job.elastic.changed if job.elastic else None
    return changed is not None and cycle.world.now - changed < _seconds(
        cycle.world.config.get("cooldown", "30s")
    )


def _seconds(written: str | float) -> timedelta:
    """`90`, `30s`, `1h30m`."""
    if not isinstance(written, str):
        return timedelta(seconds=written)
    units = {"h": 3600, "m": 60, "s": 1}
    return timedelta(seconds=sum(int(n) * units[u] for n, u in re.findall(r"([0-9]+)([hms])", written)))


def report_cooldown(cycle: CycleState, job: Workload) -> None:
    """Add the reason Held to a workload that could grow and is in cooldown."""
    cooling_down = may_be_resized(cycle, job) and is_cooling_down(cycle, job)
    may_grow = job.elastic and cycle.size(job) < job.elastic.ceiling and not job.has_finished_instance
    if cooling_down and may_grow:
        job.reasons.append("Held")


def surplus_of(cycle: CycleState, job: Workload) -> SurplusHolder | None:
    """What a workload could give to the minimum of another."""
    if job.elastic is None or job.held or not job.minimum_met:
        return None
    surplus = bound(job)[: max(0, job.size - job.minimum)]
    before = [
        other
        for other in cycle.jobs
        if other.elastic and growth_order(cycle, other) < growth_order(cycle, job)
    ]
    return SurplusHolder(
        job, len(before), surplus, [cycle.score(job, -number) for number in range(len(surplus))]
    )


# --- growing -----------------------------------------------------------------------------------------------


def grow(cycle: CycleState) -> None:
    """Grow step by step, each time the least fulfilled workload that has room."""
    while _grow_one(cycle):
        pass


def _grow_one(cycle: CycleState) -> bool:
    for job in candidates(cycle):
        choice = next_step(cycle, cycle.room, job)
        if choice is not None:
            _add(cycle, job, choice)
            return True
    return False


def next_step(cycle: CycleState, room: Room, job: Workload) -> Choice | None:
    """Where the next instance and the parameter servers that it needs would go; None if they do not fit."""
    tasks = new_servers(cycle, job)
    if not _lacks_servers(cycle, job):
        tasks.insert(0, next_instance(cycle, job))
    if not _load_allows(cycle, room, tasks):
        return None
    nodes = cycle.pools[job.pool]
    by_size = sorted(tasks, key=lambda task: -dominant_share(task.requests, capacity(nodes)))
    for order in (tasks, by_size):
        choice = Trial(room.copy(), nodes, job).place_each(order, "BinPack")
        if len(choice) == len(tasks):
            return choice
    return None


def new_servers(cycle: CycleState, job: Workload) -> list[Task]:
    """The parameter servers that it lacks, or will lack with one more trainer."""
    assert job.elastic is not None
    used = {task.index for task in _servers(job)}
    made: list[Task] = []
    for _ in range(_lacking_servers(cycle, job, 0 if _lacks_servers(cycle, job) else 1)):
        assert job.elastic.server is not None
        made.append(job.elastic.server(lowest_free({*used, *(task.index for task in made)})))
        made[-1].scaled = True
    return made


def _load_allows(cycle: CycleState, room: Room, tasks: list[Task]) -> bool:
    """Instances without GPUs grow only as far as the limits of all pods allow."""
    if any(is_gpu(name) for name in tasks[0].requests):
        return True
    most = Fraction(str(cycle.world.config.get("maxLoad", 0.97)))
    ready = {name: node for name, node in room.nodes.items() if is_ready(node)}
    there, requests = capacity(list(ready.values())), total(task.limits for task in tasks)
    load = _load(room, set(ready))
    zero = Fraction(0)
    return all(
        load.get(name, zero) + amount <= most * there.get(name, zero)
        for name, amount in requests.items()
        if not is_gpu(name)
    )


def _load(room: Room, ready: set[str]) -> Resources:
    pods_on_nodes = [pod_limits(pod.spec) for pod in room.pods_on_nodes if pod.node in ready]
    return total([*pods_on_nodes, *(one.limits for one in room.reserved)])


def _add(cycle: CycleState, job: Workload, choice: Choice) -> None:
    for task, _ in choice:
        job.add(task)
    cycle.place(job.pool, job, choice)
    if not all(task.scaled for task, _ in choice):
        cycle.grown.add(job.key)


# --- reservations of earlier cycles -----------------------------------------------------------------------


def restore_growth_reservations(cycle: CycleState) -> None:
    """Reserve the room nominated for growth by earlier cycles, if it can still become free."""
    for job in cycle.by_pool():
        reserved_tasks = _growth_reservations(cycle, job)
        if reserved_tasks and all_fit(cycle.room_after_release, reserved_tasks):
            cycle.growing[job.key] = reserved_tasks
            cycle.reserve(job, reserved_tasks)


def _growth_reservations(cycle: CycleState, job: Workload) -> Choice:
    if job.elastic is None or not may_be_resized(cycle, job) or job.key in cycle.lost:
        return []
    if job.has_finished_instance:
        return []
    nodes = {node["metadata"]["name"] for node in cycle.pools[job.pool]}
    there = {task.index for task in job.varying if task.met}
    reserved_tasks = [
        (task, node)
        for task, node in job.elastic.reserved_tasks
        if task.index not in there and node in nodes and task.name not in job.elastic.blocked
    ]
    return reserved_tasks if job.size + len(reserved_tasks) <= job.elastic.ceiling else []


def use_growth_reservations(cycle: CycleState) -> None:
    """Place reserved instances, or keep or drop their reservations; also in cooldown."""
    for job in cycle.by_pool():
        reserved_tasks = cycle.growing.pop(job.key, [])
        if not reserved_tasks:
            continue
        cycle.room.release(job.key)
        if all_fit(cycle.room, reserved_tasks):
            _add(cycle, job, reserved_tasks)
        elif all_fit(cycle.room_after_release, reserved_tasks):
            reserve_growth(cycle, job, reserved_tasks)


def reserve_growth(cycle: CycleState, job: Workload, choice: Choice) -> None:
    """Reserve room for growth."""
    cycle.growing.setdefault(job.key, []).extend(choice)
    cycle.reserve(job, choice)
    if "WaitingForRoom" not in job.reasons:
        job.reasons.append("WaitingForRoom")
