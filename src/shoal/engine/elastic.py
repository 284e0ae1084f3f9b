"""Sizes: how fulfilled elastic workloads are, and in which order they grow and give.

A score is 0 at the minimum and 1 at the ceiling. Sizes are whole numbers below a hundred thousand, so floats
tell any two different scores apart and never two equal ones: they order exactly as the fractions would.

Elastic workloads in the course of a cycle, as they grow, give and receive.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice
from operator import attrgetter

from shoal.api.podspec import is_gpu
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Placed
from shoal.engine.resources import CPU, MEMORY
from shoal.engine.workload import NO_NODE, Shape, Task, Workload


def fulfilment(workload: Workload, size: int) -> float:
    """How fulfilled a workload is at a size."""
    most = workload.ceiling - workload.minimum
    return (size - workload.minimum) / most if most > 0 else 1.0


def growth_ranks(workloads: Iterable[Workload]) -> dict[Workload, int]:
    """Whose turn it is to grow among equally fulfilled ones: the place of each workload in that order.

    Who asks for little goes first: fewer GPUs an instance, less CPU, less memory; then the older.
    """
    amounts: dict[Shape, tuple[int, int, int]] = {}

    def key(workload: Workload) -> tuple[int, int, int, float, str, str, str]:
        shape = workload.growth.series.shape if workload.growth else None
        if shape and shape not in amounts:
            amounts[shape] = _amounts(shape)
        asked = amounts[shape] if shape else (0, 0, 0)
        return (*asked, workload.created, workload.namespace, workload.name, workload.kind)

    return {workload: place for place, workload in enumerate(sorted(workloads, key=key))}


def follower_count(workload: Workload, size: int) -> int:
    """How many tasks are to follow those that vary, at a size."""
    following = workload.growth.following if workload.growth else None
    if following is None:
        return 0
    most = workload.ceiling - workload.minimum
    fulfilled = Fraction(min(max(size - workload.minimum, 0), most), most) if most > 0 else Fraction(1)
    return round(following.least + fulfilled * (following.most - following.least))


def varying_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Those of the role whose number may vary, the highest number last."""
    return sorted([task for task in tasks if task.varying], key=attrgetter("number"))


def _amounts(shape: Shape) -> tuple[int, int, int]:
    asked = shape.requests
    gpus = sum(amount for name, amount in asked.items() if is_gpu(name))
    return gpus, asked.get(CPU, 0), asked.get(MEMORY, 0)


class ElasticState:
    """An elastic workload whose minimum is whole.

    `size` counts its instances, `next` is what it would grow by, `seated` are the instances that have had
    nodes since before the cycle, the highest number last. `nominated` is room that is kept for more of them;
    `gained`: it got nodes beyond its minimum in this cycle; `is_blocked`: somebody else has the name of its
    next.
    """

    def __init__(
        self,
        workload: Workload,
        span: NodeSpan,
        rank: int,
        tasks: list[Task],
        promised: tuple[Placed, Placed],
    ) -> None:
        """Begin with `tasks`, those of its minimum that are new too, and what it had been promised."""
        growth = workload.growth
        if growth is None:
            raise ValueError(f"{workload.key} is not elastic")
        self.workload, self.span, self.rank, self._growth = workload, span, rank, growth
        placed, self.nominated = promised[0], list(promised[1])
        self.grew = bool(placed)
        self.bound = varying_tasks(task for task in tasks if task.column != NO_NODE)
        got = [*tasks, *(task for task, _ in (*placed, *self.nominated))]
        self.size = workload.done + sum([task.varying for task in got])
        self._tasks = tasks
        following = growth.following
        leaving = sum(task.follows for task in workload.placed) - sum(task.follows for task in tasks)
        self._following = len(following.series.taken) - leaving if following else 0
        dropped = {task.number for task in workload.nominated if task.varying}
        dropped -= {task.number for task in got if task.varying}
        self._instances = growth.series.instances(dropped)
        self._followers = following.series.instances() if following else iter(())
        self._ready: list[Task] = []
        self.has_followers, self.name_taken = following is not None, False
        self.next_task = self._another()

    @property
    def fulfilment(self) -> float:
        """How fulfilled it is."""
        return fulfilment(self.workload, self.size)

    @property
    def lacks_followers(self) -> bool:
        """Whether fewer follow its instances than are to."""
        return self.has_followers and follower_count(self.workload, self.size) > self._following

    @property
    def may_grow(self) -> bool:
        """Whether there is a step to take, if only there is room."""
        return self.next_task is not None or self.lacks_followers

    def missing_below(self, size: int) -> list[Task]:
        """The instances with numbers below a size that have no node and have not ended, if names allow."""
        series = self._growth.series
        promised = {task.number for task in self.workload.nominated if task.varying}
        there = {task.number for task in self._tasks if task.varying} | (series.taken - promised)
        made = (series.instance(number) for number in range(size) if number not in there)
        return [task for task in made if task]

    def next_step(self) -> list[Task] | None:
        """All that one step takes: an instance and what must follow it, or what should have followed before.

        None if it may not grow.
        """
        instance = [] if self.lacks_followers else [self.next_task]
        lacking = max(follower_count(self.workload, self.size + len(instance)) - self._following, 0)
        self._ready += islice(self._followers, max(lacking - len(self._ready), 0))
        if None in instance or len(self._ready) < lacking:
            return None
        return [*(task for task in instance if task), *self._ready[:lacking]]

    def grow(self, next_step: Sequence[Task] = ()) -> None:
        """Take a step whose tasks have found their nodes; by itself it is one instance."""
        following = sum(task.follows for task in next_step)
        self._following += following
        self._ready = self._ready[following:]
        self.grew = True
        if following < len(next_step) or not next_step:
            self._count_one()

    def surplus_followers(self) -> list[Task]:
        """Those that follow more instances than there are, the highest number first."""
        over = self._following - follower_count(self.workload, self.size) if self.has_followers else 0
        led = sorted((task for task in self._tasks if task.follows), key=lambda task: -task.number)
        return led[: max(over, 0)]

    def nominate(self, column: int) -> Task:
        """Take a step once a node has room for it."""
        if self.next_task is None:
            raise ValueError(f"{self.workload.key} may not grow")
        task = self.next_task
        self.nominated.append((task, column))
        self._count_one()
        return task

    def shrink(self) -> Task:
        """Lose the instance with the highest number."""
        self.size -= 1
        return self.bound.pop()

    def _count_one(self) -> None:
        self.size += 1
        self.next_task = self._another()

    def _another(self) -> Task | None:
        if self.size >= self.workload.ceiling:
            return None
        task = next(self._instances, None)
        self.name_taken = task is None
        return task
