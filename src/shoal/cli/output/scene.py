"""Scene: a cluster at one moment, as `shoal top` shows it: who is where, and how each job stands."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from shoal.api.podspec import is_gpu
from shoal.api.pool import DEFAULT_POOL
from shoal.cache.pods import PodRecord
from shoal.cache.snapshots import Assembly
from shoal.cache.world import World
from shoal.engine.plan import Plan
from shoal.engine.resources import CPU
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NOWHERE, Task, Workload


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one job on one node: how many, what they take of it, and whose guests they are."""

    job: str
    pods: int
    amount: int
    home: str = ""
    leaving: bool = False


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node: what it has of the resource that counts there (GPUs if it has any), and who takes it."""

    name: str
    pool: str
    resource: str
    total: int
    usable: bool
    seats: tuple[Seat, ...]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of a job are done, failed, at work (some of them in other pools) and waiting, and why."""

    job: str
    pool: str
    done: int = 0
    failed: int = 0
    working: int = 0
    borrowed: int = 0
    waiting: int = 0
    wanted: int | None = None
    """How many are to be done, if that is known."""
    why: str = ""

    @property
    def active(self) -> bool:
        """Whether anything of it runs, or wants to."""
        return self.working > 0 or self.waiting > 0


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...]

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing waits."""
        return not any(job.active for job in self.jobs) and not any(node.seats for node in self.nodes)


def scene_of(world: World, made: Assembly, plan: Plan) -> Scene:
    """What there is to see of a world, of which `made` is the snapshot and `plan` what would be decided."""
    parts = defaultdict[str, list[_Part]](list)
    for workload in made.snapshot.workloads:
        for task in workload.tasks:
            parts[_job_of(made.pod(workload, task), workload.key)].append(_Part(workload, task))
    homes = {job: made.snapshot.pools[some[0].workload.pool].name for job, some in parts.items()}
    return Scene(
        nodes=tuple(_nodes(world, made.snapshot, homes)),
        jobs=tuple(_jobs(world, made.snapshot, plan, parts)),
    )


class _Part(msgspec.Struct, frozen=True):
    """One task of a workload."""

    workload: Workload
    task: Task


def _job_of(pod: PodRecord, otherwise: str = "") -> str:
    """What people know a pod by: who made it, else what it is planned as, else itself."""
    if pod.owner:
        return f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}"
    return otherwise or f"Pod/{pod.namespace}/{pod.name}"


# --- nodes -------------------------------------------------------------------------------------------------


def _nodes(world: World, snapshot: Snapshot, homes: Mapping[str, str]) -> Iterator[NodeRow]:
    nodes, there = snapshot.nodes, defaultdict[str, list[PodRecord]](list)
    for pod in world.pods.values():
        if pod.node and not pod.finished:
            there[pod.node].append(pod)
    for column, name in enumerate(nodes.names):
        resource, pool = _what_counts(snapshot, column), nodes.pools[column]
        yield NodeRow(
            name=name,
            pool=pool,
            resource=resource,
            total=int(nodes.alloc[nodes.layout.rows[resource], column]),
            usable=bool(nodes.ready[column] and nodes.open[column]),
            seats=_seats(there[name], pool, resource, homes),
        )


def _what_counts(snapshot: Snapshot, column: int) -> str:
    layout = snapshot.nodes.layout
    gpus = (name for name in layout.names if is_gpu(name) and snapshot.nodes.alloc[layout.rows[name], column])
    return next(gpus, CPU)


def _seats(
    present: Iterable[PodRecord], pool: str, resource: str, homes: Mapping[str, str]
) -> tuple[Seat, ...]:
    """Those at home first, then guests; those that are leaving apart from those that stay."""
    taken, count = Counter[tuple[str, str, bool]](), Counter[tuple[str, str, bool]]()
    for pod in present:
        job = _job_of(pod)
        home = homes.get(job) or pod.blueprint.pool or pool  # who leaves is in no workload any more
        whose = ("" if home == pool else home, job, pod.leaving)
        taken[whose] += pod.blueprint.shape.requests.get(resource, 0)
        count[whose] += 1
    return tuple(
        Seat(
            job=job,
            pods=count[home, job, leaving],
            amount=taken[home, job, leaving],
            home=home,
            leaving=leaving,
        )
        for home, job, leaving in sorted(count)
    )


# --- jobs --------------------------------------------------------------------------------------------------


def _jobs(world: World, snapshot: Snapshot, plan: Plan, parts: Mapping[str, list[_Part]]) -> Iterator[JobRow]:
    ended, homes = _ended(world), {_job_of(pod): pod.blueprint.pool for pod in world.pods.values()}
    wanted = {f"Job/{'/'.join(key)}": job.spec.completions for key, job in world.batch_jobs.items()}
    for job in sorted({*parts, *ended, *wanted}):
        done, failed = ended.get(job, (0, 0))
        over = JobRow(job=job, pool=homes.get(job) or DEFAULT_POOL)
        row = _row(job, snapshot, plan, parts[job]) if job in parts else over
        yield msgspec.structs.replace(row, done=done, failed=failed, wanted=wanted.get(job))


def _ended(world: World) -> dict[str, tuple[int, int]]:
    """How many pods of each job have succeeded and failed; who was sent away has done neither."""
    ended = (pod for pod in world.pods.values() if pod.finished and not pod.leaving)
    phases = Counter((_job_of(pod), pod.phase) for pod in ended)
    return {job: (phases[job, "Succeeded"], phases[job, "Failed"]) for job, _ in phases}


def _row(job: str, snapshot: Snapshot, plan: Plan, parts: list[_Part]) -> JobRow:
    there = [part for part in parts if part.task.column != NOWHERE]
    waiting = [part for part in parts if part.task.column == NOWHERE]
    return JobRow(
        job=job,
        pool=snapshot.pools[parts[0].workload.pool].name,
        working=len(there),
        borrowed=sum(part.task.column not in snapshot.pools[part.workload.pool].span for part in there),
        waiting=len(waiting),
        why=_why(plan, waiting),
    )


def _why(plan: Plan, waiting: Iterable[_Part]) -> str:
    """The first reason of the first that waits."""
    reasons = (reason for part in waiting for reason in plan.verdict(part.workload).reasons)
    return next((f"{reason.code}: {reason.message}" for reason in reasons), "")
