"""Clusters and their users by dice: what there is in the beginning, and what is done to it from day to day.

Everything that is submitted fits its pool as it was in the beginning, which is how it is put back in the end,
and every life ends: so in the end everything must have ended, but for what is `huge`, which fits nowhere.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shoal.simulator.kubelet import Habits
from tests.builders import (
    GPU,
    POOL,
    Object,
    budget,
    namespace,
    open_pool,
    pod,
    priority_class,
    template,
)

HOUR, DAY = 3600.0, 86400.0
NAMESPACE = "soak"
HABITS = Habits(running=2400.0, creating=5.0, dying=20.0, failing=0.05, stumbling=0.05)
LONGEST_TTL = 7200
"""Seconds that a Job stays after its end."""
_APPS = ("red", "blue", "green")
_UNWANTED = 0.06
"""How many of all that come are deleted before they end."""
_GIVEN_UP = 0.9
"""How many of those that fit nowhere."""


@dataclass(frozen=True)
class Group:
    """Nodes of one shape in one pool."""

    pool: str
    names: Sequence[str]
    capacity: Object


@dataclass(frozen=True)
class Deed:
    """Something that a user does at a time; `ref` names an object as kind and name."""

    at: float
    do: Literal["create", "delete", "patch"]
    body: Object = field(default_factory=dict)
    ref: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class World:
    """Nodes, what is there in the beginning, and what users do, in order."""

    groups: Sequence[Group]
    objects: Sequence[Object]
    deeds: Sequence[Deed]

    @property
    def nodes(self) -> list[str]:
        return [name for group in self.groups for name in group.names]


def drawn_world(dice: random.Random, days: float, arrivals: int = 80) -> World:
    """A cluster with so many arrivals a day."""
    groups = _groups(dice)
    pools = [_pool(dice, group.pool) for group in groups if group.pool != "default"]
    deeds = [
        *_arrivals(dice, groups, days, arrivals),
        *_meddling(dice, groups, pools, days),
        *_put_back(groups, pools, days),
    ]
    classes = [priority_class("low", -10), priority_class("mid", 10), priority_class("high", 1000)]
    budgets = [_budget(dice, app) for app in _APPS if dice.random() < 0.5]
    return World(
        groups, [namespace(NAMESPACE), *pools, *classes, *budgets], sorted(deeds, key=lambda deed: deed.at)
    )


# --- what there is ------------------------------------------------------------------------------------------


def _groups(dice: random.Random) -> list[Group]:
    groups = []
    for name in ("default", "a", "b", "c")[: dice.randint(2, 4)]:
        capacity = {
            "cpu": dice.choice(("8", "12", "7900m")),
            "memory": "32Gi",
            "pods": dice.choice(("110", "8")),
        }
        if dice.random() < 0.4:
            capacity[GPU] = dice.choice(("4", "8"))
        groups.append(Group(name, [f"{name}{i}" for i in range(dice.randint(3, 4))], capacity))
    return groups


def _pool(dice: random.Random, name: str) -> Object:
    return open_pool(
        name,
        preempts=dice.random() < 0.8,
        borrows=dice.random() < 0.8,
        shares=dice.random() < 0.8,
        order=dice.choice((None, "BorrowFirst")),
        queue=dice.choice((None, "DRF")),
    )


def _budget(dice: random.Random, app: str) -> Object:
    least = dice.choice((1, 2, "50%"))
    return budget(f"guard-{app}", guards={"app": app}, namespace=NAMESPACE, min_available=least)


# --- what is submitted --------------------------------------------------------------------------------------


def _arrivals(dice: random.Random, groups: Sequence[Group], days: float, a_day: int) -> Iterator[Deed]:
    """Jobs, gangs and pods, many at once and then none for a while; some are deleted before they end."""
    at = 0.0
    for number in range(round(days * a_day)):
        if dice.random() < 0.3:
            at += dice.expovariate(a_day * 0.3 / DAY)
        if at >= days * DAY:
            return
        moment = round(at + dice.uniform(0, 5), 3)
        made = _submitted(dice, number, dice.choice(groups))
        yield from (Deed(moment, "create", one) for one in made)
        if dice.random() < (_GIVEN_UP if "huge" in made[0]["metadata"]["name"] else _UNWANTED):
            left = made if dice.random() < 0.5 else made[:1]
            later = round(moment + dice.expovariate(1 / 1200), 3)
            yield from (Deed(later, "delete", ref=(one["kind"], one["metadata"]["name"])) for one in left)


def _submitted(dice: random.Random, number: int, home: Group) -> list[Object]:
    kind = dice.choices(("pod", "gang", "job", "huge"), weights=(40, 25, 32, 3))[0]
    name = f"{kind}{number}"
    if kind == "gang":
        return _gang(dice, name, home)
    if kind == "job":
        return [_job(dice, name, home)]
    cpu = "64" if kind == "huge" else None
    return [_ours(pod(name, **_shape(dice, home, cpu)))]


def _shape(dice: random.Random, home: Group, cpu: str | None = None) -> Object:
    shape: Object = {
        "namespace": NAMESPACE,
        "cpu": cpu or dice.choice(("1", "1500m", "2", "3")),
        "memory": dice.choice(("1Gi", "4Gi", "10Gi")),
        "priority": dice.choice((None, None, "low", "mid", "high")),
        "labels": {"app": dice.choice(_APPS)},
    }
    if home.pool != "default":
        shape["pool"] = home.pool
    if GPU in home.capacity and dice.random() < 0.4:
        shape["gpu"] = dice.choice((1, 2))
    return shape


def _gang(dice: random.Random, name: str, home: Group) -> list[Object]:
    size, shape = dice.randint(2, 5), _shape(dice, home)
    least = size if dice.random() < 0.7 else dice.randint(2, size)
    return [_ours(pod(f"{name}-{i}", gang=name, gang_min=least, **shape)) for i in range(size)]


def _ours(made: Object) -> Object:
    """A pod that a user makes: it runs once."""
    del made["status"]
    _limit(made["spec"])
    made["spec"]["restartPolicy"] = "Never"
    return made


def _limit(spec: Object) -> None:
    """GPUs are counted one by one, and must be limited to what is asked for."""
    asked = spec["containers"][0]["resources"]
    if GPU in asked["requests"]:
        asked["limits"] = {GPU: asked["requests"][GPU]}


def _job(dice: random.Random, name: str, home: Group) -> Object:
    shape = _shape(dice, home)
    del shape["namespace"]
    notes = {POOL: shape.pop("pool")} if "pool" in shape else {}
    made = template(scheduler="shoal", annotations=notes, **shape)
    _limit(made["spec"])
    made["spec"]["restartPolicy"] = dice.choice(("Never", "Never", "OnFailure"))
    completions = dice.randint(1, 6)
    spec: Object = {
        "completions": completions,
        "parallelism": dice.randint(1, completions),
        "completionMode": dice.choice(("Indexed", "NonIndexed")),
        "backoffLimit": dice.choice((0, 2, 6)),
        "ttlSecondsAfterFinished": dice.choice((600, LONGEST_TTL)),
        "template": made,
    }
    if dice.random() < 0.1:
        spec["activeDeadlineSeconds"] = dice.choice((900, 7200))
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


# --- what is changed ----------------------------------------------------------------------------------------


def _meddling(
    dice: random.Random, groups: Sequence[Group], pools: Sequence[Object], days: float
) -> Iterator[Deed]:
    """Nodes are cordoned and moved to other pools, and pools change their minds, a few times a day."""
    at = dice.expovariate(6 / DAY)
    while at < days * DAY:
        moment, node = round(at, 3), dice.choice(dice.choice(groups).names)
        back = round(moment + dice.expovariate(1 / HOUR), 3)
        what = dice.choice(("cordon", "move", "pool", "suspend"))
        if what == "cordon":
            yield Deed(moment, "patch", {"spec": {"unschedulable": True}}, ("Node", node))
            yield Deed(min(back, days * DAY), "patch", {"spec": {"unschedulable": None}}, ("Node", node))
        elif what == "move":
            label = dice.choice([group.pool for group in groups] + ["nowhere"])
            yield Deed(moment, "patch", {"metadata": {"labels": {"pool": label}}}, ("Node", node))
        elif what == "pool" and pools:
            chosen = dice.choice(pools)
            spec = {flag: dice.random() < 0.3 for flag in _FLAGS}
            yield Deed(moment, "patch", {"spec": spec}, ("Pool", chosen["metadata"]["name"]))
        at += dice.expovariate(6 / DAY)


_FLAGS = ("disablePreemption", "disableBorrowing", "disableSharing")


def _put_back(groups: Sequence[Group], pools: Sequence[Object], days: float) -> Iterator[Deed]:
    """At the end of the last day everything is as it was in the beginning."""
    for group in groups:
        patch = {"metadata": {"labels": {"pool": group.pool}}, "spec": {"unschedulable": None}}
        yield from (Deed(days * DAY, "patch", patch, ("Node", name)) for name in group.names)
    for one in pools:
        spec = {flag: one["spec"].get(flag) for flag in _FLAGS}
        yield Deed(days * DAY, "patch", {"spec": spec}, ("Pool", one["metadata"]["name"]))
