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
    """The pods of one job on one node, and what they use of the node's GPUs and CPU.

    `home_pool` is the pool of the job if the node is borrowed from another pool, else empty.
    """

    job: str
    pods: int
    gpus: int
    cpu: int
    home_pool: str = ""
    terminating: bool = False


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its GPUs, its CPU in thousandths, and the pods that use them."""

    name: str
    pool: str
    gpus: int
    cpu: int
    usable: bool
    cells: tuple[PodCell, ...]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a job's pods: done, failed, running, borrowed (running in another pool), waiting and why.

    `size` is the present size of an elastic job, between its minimum and its maximum.
    """

    job: str
    pool: str
    size: str = ""
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
        pool = nodes.pools[column]
        amounts = {resource: int(nodes.alloc[row, column]) for resource, row in nodes.layout.rows.items()}
        yield NodeRow(
            name=name,
            pool=pool,
            gpus=_gpus(amounts),
            cpu=amounts.get(CPU, 0),
            usable=bool(nodes.ready[column] and nodes.schedulable[column]),
            cells=_cells(pods_by_node[name], pool, home_pools),
        )


def _gpus(amounts: Mapping[str, int]) -> int:
    return sum(amount for resource, amount in amounts.items() if is_gpu(resource))


def _cells(pods: Iterable[PodRecord], pool: str, home_pools: Mapping[str, str]) -> tuple[PodCell, ...]:
    """Group pods by job: jobs of this pool first, then borrowers; terminating pods are separate."""
    groups = defaultdict[tuple[str, str, bool], list[PodRecord]](list)
    for pod in pods:
        job = _job_of(pod)
        home_pool = home_pools.get(job) or pod.pod_class.pool or pool  # a leaving pod is in no workload
        groups["" if home_pool == pool else home_pool, job, pod.leaving].append(pod)
    return tuple(
        PodCell(
            job=job,
            pods=len(group),
            gpus=sum(_gpus(pod.pod_class.shape.requests) for pod in group),
            cpu=sum(pod.pod_class.shape.requests.get(CPU, 0) for pod in group),
            home_pool=home_pool,
            terminating=terminating,
        )
        for (home_pool, job, terminating), group in sorted(groups.items(), key=lambda one: one[0])
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
        size=_size(job_tasks[0].workload),
        running=len(placed),
        borrowed=sum(each.task.column not in snapshot.pools[each.workload.pool].span for each in placed),
        waiting=len(waiting),
        reason=_waiting_reason(plan, waiting),
    )


def _size(workload: Workload) -> str:
    """The number of instances of an elastic job that have nodes, and its minimum and maximum."""
    if workload.growth is None:
        return ""
    size = workload.done + sum(task.varying for task in workload.placed)
    return f"{size} of {workload.minimum}–{workload.maximum}"


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
    rows = list(nodes)
    amounts = (
        {"GPU": _gpu_amount, "CPU": _cpu_amount} if any(node.gpus for node in rows) else {"CPU": _cpu_amount}
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("POOL", "NODE", *amounts, "WORKLOADS"):
        table.add_column(column, no_wrap=True)
    previous_pool = ""
    for node in rows:
        name = Text(node.name, style="" if node.usable else "red strike")
        table.add_row(
            node.pool if node.pool != previous_pool else "",
            name,
            *(_bar(node, amount, _MAX_CELLS // len(amounts), colours) for amount in amounts.values()),
            _occupants(node, colours),
        )
        previous_pool = node.pool
    return table


def _bar(node: NodeRow, amount: Callable[[NodeRow | PodCell], float], most: int, colours: JobColours) -> Text:
    """Bar with one character for each unit of a resource, at most `most` of them."""
    total = amount(node)
    cells = min(int(total), most)
    bar = Text()
    used = 0.0
    for cell in node.cells:
        used += amount(cell)
        end = min(round(used / total * cells), cells) if total else 0
        symbol = _TERMINATING_CELL if cell.terminating else _BORROWED_CELL if cell.home_pool else _HOME_CELL
        bar.append(symbol * (end - len(bar)), style=colours[cell.job])
    return bar.append(_FREE_CELL * (cells - len(bar)), style="dim")


def _gpu_amount(one: NodeRow | PodCell) -> float:
    return one.gpus


def _cpu_amount(one: NodeRow | PodCell) -> float:
    return one.cpu / 1000


def _occupants(node: NodeRow, colours: JobColours) -> Text:
    return Text(", ").join(_cell_texts(node.cells, colours))


def _cell_texts(cells: Iterable[PodCell], colours: JobColours) -> Iterator[Text]:
    for cell in cells:
        count = f" ×{cell.pods}" if cell.pods > 1 else ""
        note = " leaving" if cell.terminating else f" of {cell.home_pool}" if cell.home_pool else ""
        yield Text.assemble((_short_name(cell.job), colours[cell.job]), count, (note, "dim"))


def _job_table(jobs: Iterable[JobRow], colours: JobColours) -> Table:
    rows = list(jobs)
    sized = any(job.size for job in rows)
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    for column in ("JOB", "POOL", *(["SIZE"] if sized else [])):
        table.add_column(column, no_wrap=True)
    for column in ("DONE", "AT WORK", "BORROWED", "WAITING"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in rows:
        table.add_row(
            Text(_short_name(job.job), style=colours[job.job]),
            Text(job.pool),
            *([Text(job.size)] if sized else []),
            *_job_cells(job),
            Text(printable(job.reason)),
        )
    return table


def _job_cells(job: JobRow) -> Iterator[Text]:
    completions = "" if job.completions is None else f"/{job.completions}"
    failed = f" ({job.failed} failed)" if job.failed else ""
    finished = job.completions is not None and job.done >= job.completions
    yield Text(f"{job.done}{completions}{failed}", style="green" if finished else "")
    yield from (_count_text(number) for number in (job.running, job.borrowed, job.waiting))


def _count_text(number: int) -> Text:
    return Text(str(number), style="" if number else "dim")


def _short_name(job: str) -> str:
    """A job's name without its kind, and without the namespace if that is default."""
    _, namespace, name = job.split("/", 2)
    return printable(name if namespace == "default" else f"{namespace}/{name}")
