"""Scene: a cluster at one moment, as `shoal top` shows it: who is where, and how each job stands."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.api.fields import many, printable
from shoal.api.podspec import is_gpu
from shoal.api.pool import DEFAULT_POOL
from shoal.cache.snapshots import Assembly
from shoal.cache.world import World
from shoal.engine.plan import Plan
from shoal.engine.resources import CPU
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Task, Workload
from shoal.kinds.pods import PodRecord


class PodCell(msgspec.Struct, frozen=True, kw_only=True):
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
    seats: tuple[PodCell, ...]


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


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...]

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing waits."""
        return not any(job.active for job in self.jobs) and not any(node.seats for node in self.nodes)


def build_view(world: World, made: Assembly, plan: Plan) -> ClusterView:
    """What there is to see of a world, of which `made` is the snapshot and `plan` what would be decided."""
    parts = defaultdict[str, list[_Part]](list)
    for workload in made.snapshot.workloads:
        for task in workload.tasks:
            parts[_job_of(made.pod(workload, task), workload.key)].append(_Part(workload, task))
    homes = {job: made.snapshot.pools[some[0].workload.pool].name for job, some in parts.items()}
    return ClusterView(
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
        resource, pool = _main_resource(snapshot, column), nodes.pools[column]
        yield NodeRow(
            name=name,
            pool=pool,
            resource=resource,
            total=int(nodes.alloc[nodes.layout.rows[resource], column]),
            usable=bool(nodes.ready[column] and nodes.schedulable[column]),
            seats=_cells(there[name], pool, resource, homes),
        )


def _main_resource(snapshot: Snapshot, column: int) -> str:
    layout = snapshot.nodes.layout
    gpus = (name for name in layout.names if is_gpu(name) and snapshot.nodes.alloc[layout.rows[name], column])
    return next(gpus, CPU)


def _cells(
    present: Iterable[PodRecord], pool: str, resource: str, homes: Mapping[str, str]
) -> tuple[PodCell, ...]:
    """Those at home first, then guests; those that are leaving apart from those that stay."""
    taken, count = Counter[tuple[str, str, bool]](), Counter[tuple[str, str, bool]]()
    for pod in present:
        job = _job_of(pod)
        home = homes.get(job) or pod.pod_class.pool or pool  # who leaves is in no workload any more
        whose = ("" if home == pool else home, job, pod.leaving)
        taken[whose] += pod.pod_class.shape.requests.get(resource, 0)
        count[whose] += 1
    return tuple(
        PodCell(
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
    ended, homes = _finished_pods(world), {_job_of(pod): pod.pod_class.pool for pod in world.pods.values()}
    wanted = {f"Job/{'/'.join(key)}": job.spec.completions for key, job in world.batch_jobs.items()}
    for job in sorted({*parts, *ended, *wanted}):
        done, failed = ended.get(job, (0, 0))
        over = JobRow(job=job, pool=homes.get(job) or DEFAULT_POOL)
        row = _row(job, snapshot, plan, parts[job]) if job in parts else over
        yield msgspec.structs.replace(row, done=done, failed=failed, wanted=wanted.get(job))


def _finished_pods(world: World) -> dict[str, tuple[int, int]]:
    """How many pods of each job have succeeded and failed; who was sent away has done neither."""
    ended = (pod for pod in world.pods.values() if pod.finished and not pod.leaving)
    phases = Counter((_job_of(pod), pod.phase) for pod in ended)
    return {job: (phases[job, "Succeeded"], phases[job, "Failed"]) for job, _ in phases}


def _row(job: str, snapshot: Snapshot, plan: Plan, parts: list[_Part]) -> JobRow:
    there = [part for part in parts if part.task.column != NO_NODE]
    waiting = [part for part in parts if part.task.column == NO_NODE]
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


R = TypeVar("R")

_COLOURS: Final = (
    "cyan",
    "magenta",
    "green",
    "blue",
    "yellow",
    "bright_red",
    "bright_cyan",
    "bright_magenta",
)
_MOST_CELLS: Final = 16
_HOME, _GUEST, _LEAVING, _FREE = "█", "▒", "░", "·"
VIEW_LEGEND: Final = f"{_HOME} at home  {_GUEST} borrowed  {_LEAVING} leaving  {_FREE} free"


class JobColours(dict[str, str]):
    """The colours of jobs: each keeps the one that it was first seen in."""

    def __missing__(self, job: str) -> str:
        return self.setdefault(job, _COLOURS[len(self) % len(_COLOURS)])


def render_view(
    scene: ClusterView, news: Iterable[str], colours: JobColours, *, title: str, height: int
) -> RenderableType:
    """The whole picture, in at most `height` lines: what is too much is counted, not shown."""
    lines = list(news)
    room = max(height - len(lines) - 8, 6)
    jobs = _visible(scene.jobs, room // 2, lambda job: not job.active)
    nodes = _visible(scene.nodes, room - len(jobs), lambda node: not node.seats)
    return Group(
        Text.assemble((title, "bold"), "   ", (VIEW_LEGEND, "dim")),
        _node_table(nodes, colours),
        _more(len(scene.nodes) - len(nodes), "node"),
        _job_table(jobs, colours),
        _more(len(scene.jobs) - len(jobs), "job"),
        *(Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in lines),
    )


def _visible(rows: Sequence[R], most: int, idle: Callable[[R], bool]) -> list[R]:
    """As many rows as there is room for, the busy ones first, in the order that all have."""
    chosen = sorted(sorted(range(len(rows)), key=lambda number: (idle(rows[number]), number))[:most])
    return [rows[number] for number in chosen]


def _more(hidden: int, what: str) -> Text:
    return Text(f"… and {many(hidden, f'other {what}')}" if hidden else "", style="dim")


def _node_table(nodes: Iterable[NodeRow], colours: JobColours) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("POOL", "NODE", "", "WHO"):
        table.add_column(column, no_wrap=True)
    before = ""
    for node in nodes:
        name = Text(node.name, style="" if node.usable else "red strike")
        table.add_row(
            node.pool if node.pool != before else "", name, _bar(node, colours), _occupants(node, colours)
        )
        before = node.pool
    return table


def _bar(node: NodeRow, colours: JobColours) -> Text:
    """One cell for each unit of the node, or for as many as fit into a bar."""
    cells = min(_units(node), _MOST_CELLS)
    filled = Text()
    taken = 0
    for seat in node.seats:
        taken += seat.amount
        upto = min(round(taken / node.total * cells), cells) if node.total else 0
        sign = _LEAVING if seat.leaving else _GUEST if seat.home else _HOME
        filled.append(sign * (upto - len(filled)), style=colours[seat.job])
    return filled.append(_FREE * (cells - len(filled)), style="dim")


def _units(node: NodeRow) -> int:
    """GPUs, or whole cores."""
    return node.total // 1000 if node.resource == "cpu" else node.total


def _occupants(node: NodeRow, colours: JobColours) -> Text:
    return Text(", ").join(_cell_texts(node.seats, colours))


def _cell_texts(seats: Iterable[PodCell], colours: JobColours) -> Iterator[Text]:
    for seat in seats:
        count = f" ×{seat.pods}" if seat.pods > 1 else ""
        note = " leaving" if seat.leaving else f" of {seat.home}" if seat.home else ""
        yield Text.assemble((_short(seat.job), colours[seat.job]), count, (note, "dim"))


def _job_table(jobs: Iterable[JobRow], colours: JobColours) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("JOB", no_wrap=True)
    table.add_column("POOL", no_wrap=True)
    for column in ("DONE", "AT WORK", "BORROWED", "WAITING"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        table.add_row(Text(_short(job.job), style=colours[job.job]), *_figures(job), Text(printable(job.why)))
    return table


def _figures(job: JobRow) -> Iterator[Text]:
    wanted = "" if job.wanted is None else f"/{job.wanted}"
    failed = f" ({job.failed} failed)" if job.failed else ""
    finished = job.wanted is not None and job.done >= job.wanted
    yield Text(job.pool)
    yield Text(f"{job.done}{wanted}{failed}", style="green" if finished else "")
    yield from (_count(number) for number in (job.working, job.borrowed, job.waiting))


def _count(number: int) -> Text:
    return Text(str(number), style="" if number else "dim")


def _short(job: str) -> str:
    """A job without its kind; one of the default namespace without that too."""
    _, namespace, name = job.split("/", 2)
    return printable(name if namespace == "default" else f"{namespace}/{name}")
