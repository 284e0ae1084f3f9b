"""Priorities: what a class is, and how a pod gets the number that its class stands for."""

import functools
from collections.abc import Iterator
from typing import Final

from shoal.api.core import BUILT_IN_PRIORITIES
from shoal.api.fields import FieldError
from shoal.apiserver.registry.records import decode
from shoal.apiserver.strategies.strategy import Reader, unchanged
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.resources import PRIORITY_CLASSES, Object

_HIGHEST: Final = 1_000_000_000
_PREEMPT: Final = "PreemptLowerPriority"
_POLICIES: Final = (_PREEMPT, "Never")
_COMPUTED: Final = ("priority", "preemptionPolicy")
_ABOUT: Final = {
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be "
    "moved to another node if necessary.",
}


def built_in() -> list[Object]:
    """The classes that every cluster has."""
    return [
        {"metadata": {"name": name}, "value": BUILT_IN_PRIORITIES[name], "description": text}
        for name, text in _ABOUT.items()
    ]


def default_class(thing: Object) -> None:
    """Fill in what a user left out of a class."""
    thing.setdefault("preemptionPolicy", _PREEMPT)
    thing.setdefault("value", 0)
    if thing.get("globalDefault") is False:
        del thing["globalDefault"]


def errors(thing: Object) -> Iterator[FieldError]:
    """What the view of a class does not look at."""
    name, value = thing["metadata"]["name"], thing.get("value", 0)
    if BUILT_IN_PRIORITIES.get(name) == value:
        return
    if name.startswith("system-"):
        yield FieldError("metadata.name", "the prefix 'system-' is reserved for system use only")
    if value > _HIGHEST:
        yield FieldError("value", f"must be at most {_HIGHEST}")
    if thing["preemptionPolicy"] not in _POLICIES:
        yield FieldError("preemptionPolicy", f"must be one of {', '.join(_POLICIES)}")


def frozen_class(thing: Object, old: Object) -> Iterator[FieldError]:
    """Pods have the numbers of their classes already: they cannot change."""
    yield from unchanged(thing, old, "value", "preemptionPolicy")


def guard_class(thing: Object) -> None:
    """Refuse to delete what every cluster has."""
    name = thing["metadata"]["name"]
    if name in BUILT_IN_PRIORITIES:
        raise ForbiddenError(
            f'{PRIORITY_CLASSES.full_name} "{name}" is forbidden: this is a system priority class and '
            "cannot be deleted"
        )


def admit_class(thing: Object, old: Object | None, reader: Reader) -> None:
    """There is one default."""
    name = thing["metadata"]["name"]
    if thing.get("globalDefault") is not True or (old is not None and old.get("globalDefault") is True):
        return
    for other in _classes(reader):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise ForbiddenError(
                f'{PRIORITY_CLASSES.full_name} "{name}" is forbidden: PriorityClass '
                f"{other['metadata']['name']} is already marked as default. Only one default can exist"
            )


def admit_pod(pod: Object, old: Object | None, reader: Reader) -> None:
    """Give a new pod the number of its class, which it keeps also when an update does not repeat it."""
    spec = pod.get("spec")
    if spec is None:
        return
    if old is not None:
        pod["spec"] = {name: old["spec"][name] for name in _COMPUTED if name in old["spec"]} | spec
        return
    found = _class_of(pod, reader)
    value = 0 if found is None else found["value"]
    policy = _PREEMPT if found is None else found.get("preemptionPolicy", _PREEMPT)
    for field, given, computed in (
        ("integer value of priority", spec.get("priority"), value),
        ("string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy),
    ):
        if given is not None and given != computed:
            raise ForbiddenError(
                f'pods "{pod["metadata"]["name"]}" is forbidden: the {field} ({given}) must not be '
                f"provided in pod spec; priority admission controller computed {computed} from the given "
                "PriorityClass name"
            )
    spec |= {"priority": value, "preemptionPolicy": policy}


def _class_of(pod: Object, reader: Reader) -> Object | None:
    """The class that a pod names, or the default one, whose name it gets."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        found = next((thing for thing in _classes(reader) if thing["metadata"]["name"] == name), None)
        if found is None:
            raise ForbiddenError(
                f'pods "{pod["metadata"]["name"]}" is forbidden: no PriorityClass with name {name} was found'
            )
        return found
    defaults = [thing for thing in _classes(reader) if thing.get("globalDefault")]
    if not defaults:
        return None
    lowest = min(defaults, key=lambda thing: thing["value"])
    spec["priorityClassName"] = lowest["metadata"]["name"]
    return lowest


def _classes(reader: Reader) -> list[Object]:
    return [_decoded(record.body) for record in reader.records(PRIORITY_CLASSES.full_name)]


_decoded: Final = functools.lru_cache(maxsize=1024)(decode)
"""Every pod that is made asks for all classes, and they hardly ever change. Nobody may change the result."""
