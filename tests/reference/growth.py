"""Elastic sizes: what is above its ceiling is cut, what is left of the room goes to the least fulfilled."""

import re
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.reference.filters import is_ready
from tests.reference.model import Room, Task, Workload, capacity, dominant_share, lowest_free
from tests.reference.placing import Choice, Trial, all_fit
from tests.reference.quantities import Resources, is_gpu, pod_limits, total
from tests.reference.state import Cycle
from tests.reference.victims import Giver

Object = dict[str, Any]
Tie = tuple[Fraction, Fraction, Fraction, datetime, str, str, str]


# --- its own size ------------------------------------------------------------------------------------------


def to_own_size(cycle: Cycle) -> None:
    """Whoever has more than its ceiling loses the highest."""
    for job in cycle.by_pool():
        if job.elastic is not None and not job.held:
            cycle.evict(job, seated(job)[: max(0, len(seated(job)) - job.elastic.ceiling)], "Shrunk")


def seated(job: Workload) -> list[Task]:
    """The instances that have a node, the highest index first."""
    return sorted((task for task in job.varying if task.node), key=lambda task: -task.index)


def follow(cycle: Cycle) -> None:
    """At last: parameter servers that no trainer needs any more, also none that leaves."""
    for job in cycle.by_pool():
        if job.elastic and is_settled(cycle, job) and not (job.elastic.leaving or job.key in cycle.lost):
            cycle.evict(job, _idle_servers(cycle, job), "Shrunk")


def _idle_servers(cycle: Cycle, job: Workload) -> list[Task]:
    spare = max(0, -_lacking_servers(cycle, job, 0))
    scaled = [task for task in job.tasks if task.scaled and task.node]
    return sorted(scaled, key=lambda task: -task.index)[:spare]


def _lacking_servers(cycle: Cycle, job: Workload, more: int) -> int:
    """How many parameter servers it lacks with so many more trainers; below 0: how many it has too many."""
    assert job.elastic is not None
    if job.elastic.servers is None:
        return 0
    low, high = job.elastic.servers
    return round(low + cycle.score(job, more) * (high - low)) - len(_servers(job))


def _servers(job: Workload) -> list[Task]:
    return [task for task in job.tasks if task.role == "pserver"]


# --- who may grow, in which order --------------------------------------------------------------------------


def candidates(cycle: Cycle) -> list[Workload]:
    """Those that may grow, the least fulfilled first."""
    able = [job for job in cycle.jobs if _may_grow(cycle, job)]
    return sorted(able, key=lambda job: (cycle.score(job), tie(cycle, job)))


def _may_grow(cycle: Cycle, job: Workload) -> bool:
    if not is_settled(cycle, job) or job.key in cycle.lost or is_resting(cycle, job):
        return False
    assert job.elastic is not None
    free_name = next_instance(cycle, job).name not in job.elastic.blocked
    return _lags(cycle, job) or (cycle.size(job) < job.elastic.ceiling and free_name)


def _lags(cycle: Cycle, job: Workload) -> bool:
    """Whether it has fewer parameter servers than go with its trainers."""
    return _lacking_servers(cycle, job, 0) > 0


def is_settled(cycle: Cycle, job: Workload) -> bool:
    """Elastic, with its minimum, and all at home."""
    active = job.elastic is not None and not job.held and job.minimum_met
    return active and cycle.is_at_home(job)


def tie(cycle: Cycle, job: Workload) -> Tie:
    """The order of growth among equally fulfilled ones."""
    asked, zero = next_instance(cycle, job).requests, Fraction(0)
    gpus = sum((amount for name, amount in asked.items() if is_gpu(name)), zero)
    sizes = (gpus, asked.get("cpu", zero), asked.get("memory", zero))
    return (*sizes, job.created, job.namespace, job.name, job.kind)


def next_instance(cycle: Cycle, job: Workload) -> Task:
    assert job.elastic is not None
    used = [task.index for task in job.varying if task.met]
    used += [task.index for task, _ in cycle.growing.get(job.key, [])]
    return job.elastic.instance(lowest_free(used))


def is_resting(cycle: Cycle, job: Workload) -> bool:
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


def rest(cycle: Cycle, job: Workload) -> None:
    """Whoever would like to grow and must rest is told."""
    resting = is_settled(cycle, job) and is_resting(cycle, job)
    if job.elastic and resting and cycle.size(job) < job.elastic.ceiling:
        job.reasons.append("Held")


def giver(cycle: Cycle, job: Workload) -> Giver | None:
    """What it could give to another's minimum."""
    if job.elastic is None or job.held or not job.minimum_met:
        return None
    extras = seated(job)[: max(0, job.size - job.minimum)]
    before = [other for other in cycle.jobs if other.elastic and tie(cycle, other) < tie(cycle, job)]
    return Giver(job, len(before), extras, [cycle.score(job, -number) for number in range(len(extras))])


# --- growing -----------------------------------------------------------------------------------------------


def grow(cycle: Cycle) -> None:
    """One step after another, each of the least fulfilled that has room."""
    while _grow_one(cycle):
        pass


def _grow_one(cycle: Cycle) -> bool:
    for job in candidates(cycle):
        choice = step(cycle, cycle.room, job)
        if choice is not None:
            _add(cycle, job, choice)
            return True
    return False


def step(cycle: Cycle, room: Room, job: Workload) -> Choice | None:
    """The next instance, and the parameter servers that it brings: where they would go, if they all fit."""
    tasks = new_servers(cycle, job)
    if not _lags(cycle, job):
        tasks.insert(0, next_instance(cycle, job))
    if not _load_allows(cycle, room, tasks):
        return None
    nodes = cycle.pools[job.pool]
    by_size = sorted(tasks, key=lambda task: -dominant_share(task.requests, capacity(nodes)))
    for order in (tasks, by_size):
        choice = Trial(room.copy(), nodes, job).put_each(order, "BinPack")
        if len(choice) == len(tasks):
            return choice
    return None


def new_servers(cycle: Cycle, job: Workload) -> list[Task]:
    """The parameter servers that it lacks, or will with one more trainer."""
    assert job.elastic is not None
    used = {task.index for task in _servers(job)}
    made: list[Task] = []
    for _ in range(_lacking_servers(cycle, job, 0 if _lags(cycle, job) else 1)):
        assert job.elastic.server is not None
        made.append(job.elastic.server(lowest_free({*used, *(task.index for task in made)})))
        made[-1].scaled = True
    return made


def _load_allows(cycle: Cycle, room: Room, tasks: list[Task]) -> bool:
    """Instances without GPUs grow only as far as the limits of all pods allow."""
    if any(is_gpu(name) for name in tasks[0].requests):
        return True
    most = Fraction(str(cycle.world.config.get("maxLoad", 0.97)))
    ready = {name: node for name, node in room.nodes.items() if is_ready(node)}
    there, asked = capacity(list(ready.values())), total(task.limits for task in tasks)
    load = _load(room, set(ready))
    zero = Fraction(0)
    return all(
        load.get(name, zero) + amount <= most * there.get(name, zero)
        for name, amount in asked.items()
        if not is_gpu(name)
    )


def _load(room: Room, ready: set[str]) -> Resources:
    standing = [pod_limits(pod.spec) for pod in room.standing if pod.node in ready]
    return total([*standing, *(one.limits for one in room.reserved)])


def _add(cycle: Cycle, job: Workload, choice: Choice) -> None:
    for task, _ in choice:
        job.add(task)
    cycle.place(job.pool, job, choice)
    if not all(task.scaled for task, _ in choice):
        cycle.grown.add(job.key)


# --- promises of earlier cycles ----------------------------------------------------------------------------


def reserve_promises(cycle: Cycle) -> None:
    """Room that was promised for growth is kept from the start, if the promise can still come true."""
    for job in cycle.by_pool():
        promised = _promises(cycle, job)
        if promised and all_fit(cycle.waiting_room, promised):
            cycle.growing[job.key] = promised
            cycle.reserve(job, promised)


def _promises(cycle: Cycle, job: Workload) -> Choice:
    if job.elastic is None or not is_settled(cycle, job) or job.key in cycle.lost:
        return []
    nodes = {node["metadata"]["name"] for node in cycle.pools[job.pool]}
    there = {task.index for task in job.varying if task.met}
    promised = [
        (task, node)
        for task, node in job.elastic.promised
        if task.index not in there and node in nodes and task.name not in job.elastic.blocked
    ]
    return promised if job.size + len(promised) <= job.elastic.ceiling else []


def keep_promises(cycle: Cycle) -> None:
    """Placed now, or kept, or dropped; also while it rests."""
    for job in cycle.by_pool():
        promised = cycle.growing.pop(job.key, [])
        if not promised:
            continue
        cycle.room.lift(job.key)
        if all_fit(cycle.room, promised):
            _add(cycle, job, promised)
        elif all_fit(cycle.waiting_room, promised):
            promise(cycle, job, promised)


def promise(cycle: Cycle, job: Workload, choice: Choice) -> None:
    """Keep room for growth."""
    cycle.growing.setdefault(job.key, []).extend(choice)
    cycle.reserve(job, choice)
    if "WaitingForRoom" not in job.reasons:
        job.reasons.append("WaitingForRoom")
