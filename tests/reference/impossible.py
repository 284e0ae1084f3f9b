"""Proof that a minimum can never run in a pool, by the three rules of the specification."""

from fractions import Fraction
from typing import Any

from tests.reference.filters import anti_affinity_terms, fits_beside_equals, fits_when_empty, host_ports
from tests.reference.model import Room, Task, Workload
from tests.reference.quantities import allocatable

Object = dict[str, Any]
Tasks = list[tuple[Task, set[str]]]
"""Tasks, each with the names of the nodes that could take it if they were empty."""

NODE_RULES = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")


def never_fits(room: Room, pool: list[Object], job: Workload) -> bool:
    """Whether there is proof that the minimum does not fit the pool even if that is empty."""
    empty = room.empty()
    nodes = {node["metadata"]["name"]: node for node in pool}
    tasks = [
        (task, {name for name, node in nodes.items() if fits_when_empty(empty, node, task)})
        for task in job.tasks
        if not task.done and not task.scaled
    ]
    least = max(0, job.minimum - sum(task.done for task in job.varying))
    return _asks_too_much(nodes, tasks, least) or any(
        _are_too_many(empty, nodes, tasks, least, kind) for kind in tasks
    )


def _asks_too_much(nodes: dict[str, Object], tasks: Tasks, least: int) -> bool:
    """Whether the tasks that only some nodes can take ask for more of a resource than these have."""
    for some in [set(nodes), *(able for _, able in tasks)]:
        inside = [(task, able) for task, able in tasks if able <= some]
        for resource in {name for task, _ in inside for name in task.requests} | {"pods"}:
            has = [allocatable(nodes[name]) for name in some]
            if resource == "pods" and not all("pods" in one for one in has):
                continue
            amounts = [1 if resource == "pods" else task.requests.get(resource, 0) for task, _ in inside]
            if _at_least(tasks, inside, amounts, least) > sum(one.get(resource, 0) for one in has):
                return True
    return False


def _are_too_many(
    empty: Room, nodes: dict[str, Object], tasks: Tasks, least: int, kind: tuple[Task, set[str]]
) -> bool:
    """Whether there are more tasks at least as large as this one than the nodes take of it, one by one."""
    task, able = kind
    larger = [one for one in tasks if one[1] <= able and _is_as_large(one[0], task)]
    equal = [one for one in larger if _rules(one[0]) == _rules(task)]
    for some, beside_equals in ((larger, False), (equal, True)):
        most = sum(
            _copies(empty, nodes[name], task, len(tasks), beside_equals=beside_equals) for name in able
        )
        if _at_least(tasks, some, [1] * len(some), least) > most:
            return True
    return False


def _at_least(tasks: Tasks, some: Tasks, amounts: list[Any], least: int) -> Any:  # noqa: ANN401 - int or Fraction
    """The smallest total of `some` in any choice of all fixed tasks and `least` others."""
    others = sum(not task.fixed for task, _ in tasks) - sum(not task.fixed for task, _ in some)
    fixed = [amount for (task, _), amount in zip(some, amounts, strict=True) if task.fixed]
    varying = [amount for (task, _), amount in zip(some, amounts, strict=True) if not task.fixed]
    return sum(fixed) + sum(sorted(varying)[: max(0, least - others)])


def _is_as_large(other: Task, task: Task) -> bool:
    return all(other.requests.get(name, 0) >= amount for name, amount in task.requests.items())


def _rules(task: Task) -> Object:
    rules: Object = {name: task.spec.get(name) for name in NODE_RULES}
    return rules | {"requests": task.requests, "labels": task.labels, "ports": host_ports(task.spec)}


def _copies(empty: Room, node: Object, task: Task, most: int, *, beside_equals: bool) -> int:
    """How many copies of a task an empty node takes; `beside_equals`: with host ports and anti-affinity."""
    if beside_equals and (host_ports(task.spec) or anti_affinity_terms(task.spec)):
        room, name = empty.copy(), node["metadata"]["name"]
        for number in range(most):
            if not fits_beside_equals(room, node, task):
                return number
            room.place(task, name)
        return most
    has = allocatable(node)
    limits = [Fraction(has.get(name, 0) // amount) for name, amount in task.requests.items() if amount]
    limits += [has["pods"]] if "pods" in has else []
    return min(most, *map(int, limits))
