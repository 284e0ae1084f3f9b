"""Applies the changes that `--explain` proposes to the objects, and plans again.

Nothing here knows how proposals are found: a change is read from the JSON as a user would read it, applied to
the objects, and planned.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from shoal.api.quantity import Quantity
from tests.builders import POOL, Object, priority_class
from tests.support import plan

JOBS = ("TYJob", "DIJob", "TrainingJob")
NEW_CLASS = "fresh"


def variants(objects: Sequence[Object], job: str, change: Object) -> Iterator[list[Object]]:
    """The objects with a change applied, in each way that it may be read."""
    changed = _copied(objects)
    yield list(_APPLY[change["dimension"]](changed, job, change))
    if "priorityClass" in change:
        with_class = _copied(objects)
        _set_class(with_class, job, change["priorityClass"])
        yield with_class


def _copied(objects: Sequence[Object]) -> list[Object]:
    """Deep copies: tests build many objects from one template."""
    copies: list[Object] = msgspec.json.decode(msgspec.json.encode(objects))
    return copies


def runs(answer: Object, job: str, *, whole: bool) -> bool:
    """Whether a job runs by a plan: its minimum has nodes or nominations; all of it, if `whole`."""
    (entry,) = (one for one in answer["jobs"] if one["job"] == job)
    if whole:
        return bool(entry["state"] == "ScheduledSucceed")
    return entry["state"] in ("ScheduledSucceed", "ScheduledPartly") or bool(entry["nominated"])


def check_changes(explanation: Object, objects: Sequence[Object], **options: Any) -> None:  # noqa: ANN401 - options of `plan`
    """Assert that the job runs with each change, and gets exactly what the change announces."""
    job, whole = explanation["job"], explanation["state"] == "ScheduledPartly"
    for change in explanation["changes"]:
        for number, changed in enumerate(variants(objects, job, change)):
            answer = plan(changed, **options)
            assert runs(answer, job, whole=whole), (change, number)
            if not number:
                _check_outcome(change, answer, job)


def _check_outcome(change: Object, answer: Object, job: str) -> None:
    (entry,) = (one for one in answer["jobs"] if one["job"] == job)
    namespace = job.split("/")[1]
    placed = {p["pod"]: p["node"] for p in answer["placements"] if p["job"] == job}
    assert {f"{namespace}/{pod}": node for pod, node in change["placed"].items()} == placed
    assert change["nominated"] == entry["nominated"]
    assert [one["pod"] for one in change["evicts"]] == [
        one["pod"] for one in answer["evictions"] if one["for"] == job
    ]


def _objects_of(objects: list[Object], job: str) -> list[Object]:
    """The objects of a job: itself, its pods, or the batch Jobs that will create its pods."""
    kind, namespace, name = job.split("/")
    here = [one for one in objects if one["metadata"].get("namespace") == namespace]
    if kind == "Gang":
        return [one for one in here if one["kind"] in ("Pod", "Job") and _gang(one) == name]
    found = [one for one in here if one["kind"] == kind and one["metadata"]["name"] == name]
    return found or [j for j in here if j["kind"] == "Job" and name.startswith(f"{j['metadata']['name']}-")]


def _gang(one: Object) -> str | None:
    (template,) = _templates(one)
    gang: str | None = template.get("metadata", {}).get("annotations", {}).get("shoal.io/gang")
    return gang


def _templates(one: Object) -> list[Object]:
    spec = one["spec"]
    match one["kind"]:
        case "TYJob":
            return [spec["leader"]["template"], *(workers["template"] for workers in spec["workerSets"])]
        case "DIJob":
            return [spec["template"]] if "template" in spec else [task["template"] for task in spec["tasks"]]
        case "Job":
            return [spec["template"]]
        case _:
            return [one]


def _annotate(one: Object, key: str, value: str) -> None:
    target = one["spec"]["template"] if one["kind"] == "Job" else one
    target.setdefault("metadata", {}).setdefault("annotations", {})[key] = value


def _apply_fewer(objects: list[Object], job: str, change: Object) -> list[Object]:
    for one in _objects_of(objects, job):
        for path, number in change["set"].items():
            if path.startswith("metadata.annotations["):
                _annotate(one, path.removeprefix("metadata.annotations[")[:-1], str(number))
            else:
                _write(one, path, number)
    return objects


def _write(one: Any, path: str, number: int) -> None:  # noqa: ANN401 - a mapping or a list
    *steps, last = (int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", path.strip("]")))
    for step in steps:
        one = one[step]
    one[last] = number


def _apply_pool(objects: list[Object], job: str, change: Object) -> list[Object]:
    for one in _objects_of(objects, job):
        _annotate(one, POOL, change["pool"])
    return objects


def _apply_priority(objects: list[Object], job: str, change: Object) -> list[Object]:
    _set_class(objects, job, NEW_CLASS)
    return [*objects, priority_class(NEW_CLASS, change["priority"])]


def _set_class(objects: list[Object], job: str, name: str) -> None:
    for one in _objects_of(objects, job):
        if one["kind"] == "TrainingJob":
            one["spec"]["priorityClassName"] = name
        for template in _templates(one) if one["kind"] != "TrainingJob" else ():
            template["spec"].pop("priority", None)
            template["spec"]["priorityClassName"] = name


def _apply_resource(objects: list[Object], _: str, change: Object) -> list[Object]:
    nodes = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Node"}
    if "node" in change:
        status = nodes[change["node"]]["status"]
        for resource, amount in change["add"].items():
            for table in (status["capacity"], status["allocatable"]):
                nano = Quantity(table.get(resource, "0")).nano + Quantity(amount).nano
                table[resource] = f"{nano}n"
        return objects
    model = nodes[change["like"]]
    return [*objects, *(_copy_node(model, f"{change['like']}-{i + 1}") for i in range(change["nodes"]))]


def _copy_node(node: Object, name: str) -> Object:
    (changed,) = _copied([node])
    changed["metadata"]["name"] = changed["metadata"]["labels"]["kubernetes.io/hostname"] = name
    changed["spec"].pop("unschedulable", None)
    changed["status"].pop("conditions", None)
    return changed


def _apply_end(objects: list[Object], _: str, change: Object) -> list[Object]:
    for job in change["jobs"]:
        kind, namespace, name = job.split("/")
        ended = _objects_of(objects, job)
        if kind in JOBS:
            pods = [one for one in objects if _is_pod_of(one, kind, namespace, name)]
            objects = [one for one in objects if one not in ended and one not in pods]
        for pod in ended if kind not in JOBS else ():
            pod["status"]["phase"] = "Succeeded"
    return objects


def _is_pod_of(one: Object, kind: str, namespace: str, name: str) -> bool:
    owners = one["metadata"].get("ownerReferences", ())
    is_owned = any(ref["kind"] == kind and ref["name"] == name for ref in owners)
    return is_owned and one["metadata"].get("namespace") == namespace


_APPLY = {
    "fewer": _apply_fewer,
    "pool": _apply_pool,
    "priority": _apply_priority,
    "resource": _apply_resource,
    "end": _apply_end,
}
