"""The view of a cluster that `shoal watch` shows: the pods on each node, and the progress of each job."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.api.fields import pluralize, printable
from shoal.api.podspec import is_gpu
from shoal.api.pool import DEFAULT_POOL
from shoal.cache.snapshots import BuiltSnapshot
from shoal.cache.world import World
from shoal.engine.plan import Plan
from shoal.engine.resources import CPU
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Task, Workload
from shoal.kinds.pods import PodRecord

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
_MAX_CELLS: Final = 16
_HOME_CELL, _BORROWED_CELL, _TERMINATING_CELL, _FREE_CELL = "█", "▒", "░", "·"
VIEW_LEGEND: Final = (
    f"{_HOME_CELL} at home  {_BORROWED_CELL} borrowed  {_TERMINATING_CELL} leaving  {_FREE_CELL} free"
)


class PodCell(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one job on one node, and what they use of the node's main resource.

    `home_pool` is the pool of the job if the node is borrowed from another pool, else empty.
    """

    job: str
    pods: int
    amount: int
    home_pool: str = ""
    terminating: bool = False


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its main resource (GPUs if it has any, else CPU in thousandths), and the pods that use it."""

    name: str
    pool: str
    resource: str
    total: int
    usable: bool
    cells: tuple[PodCell, ...]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a job's pods: done, failed, running, borrowed (running in another pool), waiting and why."""

    job: str
    pool: str
    done: int = 0
    failed: int = 0
    running: int = 0
    borrowed: int = 0
    waiting: int = 0
    completions: int | None = None
    """Pods that must succeed, if the job says so."""
    reason: str = ""

    @property
    def active(self) -> bool:
        """Whether a pod of the job runs or waits."""
        return self.running > 0 or self.waiting > 0


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment: its nodes and its jobs."""

    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...]

    @property
    def idle(self) -> bool:
        """Whether no pod runs or waits."""
        return not any(job.active for job in self.jobs) and not any(node.cells for node in self.nodes)


def build_view(world: World, assembly: BuiltSnapshot, plan: Plan) -> ClusterView:
    """Build the view of a world from its snapshot and the plan of the next cycle."""
    job_tasks = defaultdict[str, list[_JobTask]](list)
    for workload in assembly.snapshot.workloads:
        for task in workload.tasks:
            job_tasks[_job_of(assembly.pod(workload, task), workload.key)].append(_JobTask(workload, task))
    home_pools = {
        job: assembly.snapshot.pools[tasks[0].workload.pool].name for job, tasks in job_tasks.items()
    }
    return ClusterView(
        nodes=tuple(_nodes(world, assembly.snapshot, home_pools)),
        jobs=tuple(_jobs(world, assembly.snapshot, plan, job_tasks)),
    )


class _JobTask(msgspec.Struct, frozen=True):
    """One task of a workload, which is a pod of a job."""

    workload: Workload
    task: Task


def _job_of(pod: PodRecord, fallback: str = "") -> str:
    """Key of the job that a pod is shown under: its owner, else `fallback`, else the pod itself."""
    if pod.owner:
        return f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}"
    return fallback or f"Pod/{pod.namespace}/{pod.name}"


# --- nodes -------------------------------------------------------------------------------------------------


def _nodes(world: World, snapshot: Snapshot, home_pools: Mapping[str, str]) -> Iterator[NodeRow]:
    nodes, pods_by_node = snapshot.nodes, defaultdict[str, list[PodRecord]](list)
    for pod in world.pods.values():
        if pod.node and not pod.finished:
            pods_by_node[pod.node].append(pod)
    for column, name in enumerate(nodes.names):
        resource, pool = _main_resource(snapshot, column), nodes.pools[column]
        yield NodeRow(
            name=name,
            pool=pool,
            resource=resource,
            total=int(nodes.alloc[nodes.layout.rows[resource], column]),
            usable=bool(nodes.ready[column] and nodes.schedulable[column]),
            cells=_cells(pods_by_node[name], pool, resource, home_pools),
        )


def _main_resource(snapshot: Snapshot, column: int) -> str:
    layout = snapshot.nodes.layout
    gpus = (name for name in layout.names if is_gpu(name) and snapshot.nodes.alloc[layout.rows[name], column])
    return next(gpus, CPU)


def _cells(
    pods: Iterable[PodRecord], pool: str, resource: str, home_pools: Mapping[str, str]
) -> tuple[PodCell, ...]:
    """Group pods by job: jobs of this pool first, then borrowers; terminating pods are separate."""
    amounts, counts = Counter[tuple[str, str, bool]](), Counter[tuple[str, str, bool]]()
    for pod in pods:
        job = _job_of(pod)
        home_pool = home_pools.get(job) or pod.pod_class.pool or pool  # a leaving pod is in no workload
        key = ("" if home_pool == pool else home_pool, job, pod.leaving)
        amounts[key] += pod.pod_class.shape.requests.get(resource, 0)
        counts[key] += 1
    return tuple(
        PodCell(
            job=job,
            pods=counts[home_pool, job, terminating],
            amount=amounts[home_pool, job, terminating],
            home_pool=home_pool,
            terminating=terminating,
        )
        for home_pool, job, terminating in sorted(counts)
    )


# --- jobs --------------------------------------------------------------------------------------------------


def _jobs(
    world: World, snapshot: Snapshot, plan: Plan, job_tasks: Mapping[str, list[_JobTask]]
) -> Iterator[JobRow]:
    finished, home_pools = (
        _finished_pods(world),
        {_job_of(pod): pod.pod_class.pool for pod in world.pods.values()},
    )
    completions = {f"Job/{'/'.join(key)}": job.spec.completions for key, job in world.batch_jobs.items()}
    for job in sorted({*job_tasks, *finished, *completions}):
        done, failed = finished.get(job, (0, 0))
        finished_row = JobRow(job=job, pool=home_pools.get(job) or DEFAULT_POOL)
        row = _active_row(job, snapshot, plan, job_tasks[job]) if job in job_tasks else finished_row
        yield msgspec.structs.replace(row, done=done, failed=failed, completions=completions.get(job))


def _finished_pods(world: World) -> dict[str, tuple[int, int]]:
    """Numbers of succeeded and failed pods of each job; evicted pods count as neither."""
    finished = (pod for pod in world.pods.values() if pod.finished and not pod.leaving)
    phases = Counter((_job_of(pod), pod.phase) for pod in finished)
    return {job: (phases[job, "Succeeded"], phases[job, "Failed"]) for job, _ in phases}


def _active_row(job: str, snapshot: Snapshot, plan: Plan, job_tasks: list[_JobTask]) -> JobRow:
    placed = [each for each in job_tasks if each.task.column != NO_NODE]
    waiting = [each for each in job_tasks if each.task.column == NO_NODE]
    return JobRow(
        job=job,
        pool=snapshot.pools[job_tasks[0].workload.pool].name,
        running=len(placed),
        borrowed=sum(each.task.column not in snapshot.pools[each.workload.pool].span for each in placed),
        waiting=len(waiting),
        reason=_waiting_reason(plan, waiting),
    )


def _waiting_reason(plan: Plan, waiting: Iterable[_JobTask]) -> str:
    """The first reason of the first waiting task."""
    reasons = (reason for each in waiting for reason in plan.verdict(each.workload).reasons)
    return next((f"{reason.code}: {reason.message}" for reason in reasons), "")


# --- drawing -----------------------------------------------------------------------------------------------


class JobColours(dict[str, str]):
    """Colours of jobs: each job keeps the colour it gets first."""

    def __missing__(self, job: str) -> str:
        return self.setdefault(job, _COLOURS[len(self) % len(_COLOURS)])


def render_view(
    view: ClusterView, events: Iterable[str], colours: JobColours, *, title: str, height: int
) -> RenderableType:
    """Render the view in at most `height` lines; hidden rows are counted."""
    event_lines = list(events)
    room = max(height - len(event_lines) - 8, 6)
    jobs = _visible(view.jobs, room // 2, lambda job: not job.active)
    nodes = _visible(view.nodes, room - len(jobs), lambda node: not node.cells)
    return Group(
        Text.assemble((title, "bold"), "   ", (VIEW_LEGEND, "dim")),
        _node_table(nodes, colours),
        _more(len(view.nodes) - len(nodes), "node"),
        _job_table(jobs, colours),
        _more(len(view.jobs) - len(jobs), "job"),
        *(Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in event_lines),
    )


def _visible(rows: Sequence[R], limit: int, idle: Callable[[R], bool]) -> list[R]:
    """At most `limit` rows in their order, leaving out idle ones first."""
    chosen = sorted(sorted(range(len(rows)), key=lambda number: (idle(rows[number]), number))[:limit])
    return [rows[number] for number in chosen]


def _more(hidden: int, what: str) -> Text:
    return Text(f"… and {pluralize(hidden, f'other {what}')}" if hidden else "", style="dim")


def _node_table(nodes: Iterable[NodeRow], colours: JobColours) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("POOL", "NODE", "", "WORKLOADS"):
        table.add_column(column, no_wrap=True)
    previous_pool = ""
    for node in nodes:
        name = Text(node.name, style="" if node.usable else "red strike")
        table.add_row(
            node.pool if node.pool != previous_pool else "",
            name,
            _bar(node, colours),
            _occupants(node, colours),
        )
        previous_pool = node.pool
    return table


def _bar(node: NodeRow, colours: JobColours) -> Text:
    """Bar with one character for each unit of the main resource, scaled down if there are too many."""
    cells = min(_units(node), _MAX_CELLS)
    bar = Text()
    used = 0
    for cell in node.cells:
        used += cell.amount
        end = min(round(used / node.total * cells), cells) if node.total else 0
        symbol = _TERMINATING_CELL if cell.terminating else _BORROWED_CELL if cell.home_pool else _HOME_CELL
        bar.append(symbol * (end - len(bar)), style=colours[cell.job])
    return bar.append(_FREE_CELL * (cells - len(bar)), style="dim")


def _units(node: NodeRow) -> int:
    """Units of the main resource: GPUs, or whole cores."""
    return node.total // 1000 if node.resource == "cpu" else node.total


def _occupants(node: NodeRow, colours: JobColours) -> Text:
    return Text(", ").join(_cell_texts(node.cells, colours))


def _cell_texts(cells: Iterable[PodCell], colours: JobColours) -> Iterator[Text]:
    for cell in cells:
        count = f" ×{cell.pods}" if cell.pods > 1 else ""
        note = " leaving" if cell.terminating else f" of {cell.home_pool}" if cell.home_pool else ""
        yield Text.assemble((_short_name(cell.job), colours[cell.job]), count, (note, "dim"))


def _job_table(jobs: Iterable[JobRow], colours: JobColours) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("JOB", no_wrap=True)
    table.add_column("POOL", no_wrap=True)
    for column in ("DONE", "AT WORK", "BORROWED", "WAITING"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        table.add_row(
            Text(_short_name(job.job), style=colours[job.job]), *_job_cells(job), Text(printable(job.reason))
        )
    return table


def _job_cells(job: JobRow) -> Iterator[Text]:
    completions = "" if job.completions is None else f"/{job.completions}"
    failed = f" ({job.failed} failed)" if job.failed else ""
    finished = job.completions is not None and job.done >= job.completions
    yield Text(job.pool)
    yield Text(f"{job.done}{completions}{failed}", style="green" if finished else "")
    yield from (_count_text(number) for number in (job.running, job.borrowed, job.waiting))


def _count_text(number: int) -> Text:
    return Text(str(number), style="" if number else "dim")


def _short_name(job: str) -> str:
    """A job's name without its kind, and without the namespace if that is default."""
    _, namespace, name = job.split("/", 2)
    return printable(name if namespace == "default" else f"{namespace}/{name}")
