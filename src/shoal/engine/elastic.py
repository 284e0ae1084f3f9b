"""Sizes of elastic workloads: fulfilment, growth order, and their state during a cycle.

Fulfilment is 0 at the minimum and 1 at the ceiling. Sizes are whole numbers below 100,000, so floats
distinguish any two different values and represent equal ones equally: they order exactly as fractions would.
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
    """The fulfilment of a workload at a size; 1 if the ceiling is not above the minimum."""
    most = workload.ceiling - workload.minimum
    return (size - workload.minimum) / most if most > 0 else 1.0


def growth_ranks(workloads: Iterable[Workload]) -> dict[Workload, int]:
    """The position of each workload in the order in which equally fulfilled ones grow.

    Small instances go first (fewer GPUs, less CPU, less memory), then older workloads.
    """
    amounts: dict[Shape, tuple[int, int, int]] = {}

    def key(workload: Workload) -> tuple[int, int, int, float, str, str, str]:
        shape = workload.growth.series.shape if workload.growth else None
        if shape and shape not in amounts:
            amounts[shape] = _requests(shape)
        asked = amounts[shape] if shape else (0, 0, 0)
        return (*asked, workload.created, workload.namespace, workload.name, workload.kind)

    return {workload: place for place, workload in enumerate(sorted(workloads, key=key))}


def follower_count(workload: Workload, size: int) -> int:
    """The number of tasks that should follow the varying ones at a size."""
    following = workload.growth.following if workload.growth else None
    if following is None:
        return 0
    most = workload.ceiling - workload.minimum
    fulfilled = Fraction(min(max(size - workload.minimum, 0), most), most) if most > 0 else Fraction(1)
    return round(following.least + fulfilled * (following.most - following.least))


def varying_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The varying tasks, ordered by number."""
    return sorted([task for task in tasks if task.varying], key=attrgetter("number"))


def _requests(shape: Shape) -> tuple[int, int, int]:
    asked = shape.requests
    gpus = sum(amount for name, amount in asked.items() if is_gpu(name))
    return gpus, asked.get(CPU, 0), asked.get(MEMORY, 0)


class ElasticState:
    """The size of an elastic workload whose minimum is whole, as a cycle changes it.

    `size` counts its instances, finished and reserved ones included, and `next_task` is the one it would grow
    by. `bound` are the instances that had nodes before the cycle, ordered by number. `nominated` is room
    reserved for more of them. `rank` is its position among equally fulfilled workloads. `grew`: it got nodes
    beyond its minimum in this cycle. `name_taken`: the pod name of its next instance belongs to another
    owner.
    """

    def __init__(
        self,
        workload: Workload,
        span: NodeSpan,
        rank: int,
        tasks: list[Task],
        reserved: tuple[Placed, Placed],
    ) -> None:
        """Start with `tasks`, new ones of its minimum included, and its reservations beyond the minimum.

        `reserved` has those that were placed and those that are kept (see
        `Allocator.use_growth_reservations`).
        """
        growth = workload.growth
        if growth is None:
            raise ValueError(f"{workload.key} is not elastic")
        self.workload, self.span, self.rank, self._growth = workload, span, rank, growth
        placed, self.nominated = reserved[0], list(reserved[1])
        self.grew = bool(placed)
        self.bound = varying_tasks(task for task in tasks if task.column != NO_NODE)
        all_tasks = [*tasks, *(task for task, _ in (*placed, *self.nominated))]
        self.size = workload.done + sum([task.varying for task in all_tasks])
        self._tasks = tasks
        following = growth.following
        leaving = sum(task.follows for task in workload.placed) - sum(task.follows for task in tasks)
        self._following = len(following.series.taken) - leaving if following else 0
        released = {task.number for task in workload.nominated if task.varying}
        released -= {task.number for task in all_tasks if task.varying}
        self._instances = growth.series.instances(released)
        self._followers = following.series.instances() if following else iter(())
        self._next_followers: list[Task] = []
        self.has_followers, self.name_taken = following is not None, False
        self.next_task = self._next_instance()

    @property
    def fulfilment(self) -> float:
        """Its fulfilment at its present size."""
        return fulfilment(self.workload, self.size)

    @property
    def lacks_followers(self) -> bool:
        """Whether fewer tasks follow its instances than should."""
        return self.has_followers and follower_count(self.workload, self.size) > self._following

    @property
    def may_grow(self) -> bool:
        """Whether it would take a step if there were room."""
        return self.next_task is not None or self.lacks_followers

    def missing_below(self, size: int) -> list[Task]:
        """Instances with numbers below `size` that have no node and have not finished, if names allow."""
        if not self.workload.may_grow:
            return []
        series = self._growth.series
        reserved = {task.number for task in self.workload.nominated if task.varying}
        present = {task.number for task in self._tasks if task.varying} | (series.taken - reserved)
        tasks = (series.instance(number) for number in range(size) if number not in present)
        return [task for task in tasks if task]

    def next_step(self) -> list[Task] | None:
        """The tasks of its next step: an instance with its followers, or followers that are still lacking.

        None if it may not grow.
        """
        instance = [] if self.lacks_followers else [self.next_task]
        lacking = max(follower_count(self.workload, self.size + len(instance)) - self._following, 0)
        self._next_followers += islice(self._followers, max(lacking - len(self._next_followers), 0))
        if None in instance or len(self._next_followers) < lacking:
            return None
        return [*(task for task in instance if task), *self._next_followers[:lacking]]

    def grow(self, step: Sequence[Task] = ()) -> None:
        """Take a step whose tasks were placed; without tasks it is one instance."""
        following = sum(task.follows for task in step)
        self._following += following
        self._next_followers = self._next_followers[following:]
        self.grew = True
        if following < len(step) or not step:
            self._add_one()

    def surplus_followers(self) -> list[Task]:
        """Followers beyond the number that its instances need, the highest number first."""
        surplus = self._following - follower_count(self.workload, self.size) if self.has_followers else 0
        followers = sorted((task for task in self._tasks if task.follows), key=lambda task: -task.number)
        return followers[: max(surplus, 0)]

    def nominate(self, column: int) -> Task:
        """Add the next instance to `nominated`, on this column, and count it."""
        if self.next_task is None:
            raise ValueError(f"{self.workload.key} may not grow")
        task = self.next_task
        self.nominated.append((task, column))
        self._add_one()
        return task

    def shrink(self) -> Task:
        """Remove and return the instance with the highest number."""
        self.size -= 1
        return self.bound.pop()

    def _add_one(self) -> None:
        self.size += 1
        self.next_task = self._next_instance()

    def _next_instance(self) -> Task | None:
        if self.size >= self.workload.ceiling or not self.workload.may_grow:
            return None
        task = next(self._instances, None)
        self.name_taken = task is None
        return task
