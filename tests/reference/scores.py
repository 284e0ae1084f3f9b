"""The six placement policies: for each, the best of the nodes that fit."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.reference.model import Room, Task, Workload
from tests.reference.quantities import allocatable, is_gpu

Object = dict[str, Any]
Use = dict[str, Fraction]


def use_with(room: Room, node: Object, task: Task) -> Use:
    """Utilisation by resource with this task on the node, for resources that the node has."""
    used = room.used(node["metadata"]["name"])
    return {
        name: (used.get(name, Fraction(0)) + task.requests.get(name, Fraction(0))) / has
        for name, has in allocatable(node).items()
        if has > 0 and (name in {"cpu", "memory"} or "/" in name)
    }


def mean(use: Use, weight: Callable[[str], int] = lambda _: 1) -> Fraction:
    weights = sum(weight(name) for name in use)
    return (
        sum((weight(name) * u for name, u in use.items()), Fraction(0)) / weights if weights else Fraction(0)
    )


def siblings(room: Room, node: Object, job: Workload) -> int:
    """The number of the job's tasks on the node."""
    return sum(pod.task in job.tasks for pod in room.on(node["metadata"]["name"]) if pod.task is not None)


def rank(policy: str, room: Room, node: Object, job: Workload, task: Task) -> tuple[Fraction | int, ...]:
    """Sort key of a node; the highest is the best."""
    use = use_with(room, node, task)
    match policy:
        case "BinPack" | "Gang":
            return (mean(use),)
        case "LeaderFirst" if task.role == "leader":
            return (-mean(use, lambda name: 4 if is_gpu(name) else 1),)
        case "LeaderFirst":
            return (mean(use, lambda name: 4 if name == "cpu" else 1),)
        case "MinFragment":
            return (1 - abs(use.get("cpu", Fraction(0)) - use.get("memory", Fraction(0))),)
        case "JobAffinity":
            return (siblings(room, node, job), mean(use))
        case "JobAntiAffinity":
            return (-siblings(room, node, job), -mean(use))
    raise ValueError(f"no such policy: {policy}")


def best(policy: str, room: Room, nodes: list[Object], job: Workload, task: Task) -> str | None:
    """The best of the nodes; the first by name among equals."""
    names = sorted(node["metadata"]["name"] for node in nodes)
    by_name = {node["metadata"]["name"]: node for node in nodes}
    return max(names, key=lambda name: rank(policy, room, by_name[name], job, task), default=None)
