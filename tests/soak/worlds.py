"""Random clusters and their users: the initial objects, and the actions of users over the days.

Everything that is submitted fits its pool as it was at the beginning, which is restored at the end, and every
pod script ends: so in the end everything must be finished, except for `huge` pods, which fit on no node.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shoal.cluster.resources import resource_of
from shoal.simulator.kubelet import ScriptDistribution
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
from tests.soak.jobs import JOB_KINDS, JobChange

HOUR, DAY = 3600.0, 86400.0
NAMESPACE = "soak"
SCRIPTS = ScriptDistribution(run_time=2400.0, start_delay=5.0, shutdown=20.0, failing=0.05, unready=0.05)
LONGEST_TTL = 7200
"""Seconds until a finished Job is deleted, at most."""
_APPS = ("red", "blue", "green")
_DELETED_PART = 0.06
"""The part of all submissions that is deleted before its end."""
_DELETED_HUGE_PART = 0.9
"""The same of those that fit on no node."""


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one shape in one pool."""

    pool: str
    names: Sequence[str]
    capacity: Object


@dataclass(frozen=True)
class UserAction:
    """An action of a user at a time; `ref` names an object by kind and name."""

    at: float
    do: Literal["create", "delete", "patch", "patch_status", "delete_pod"]
    body: Object = field(default_factory=dict)
    ref: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class World:
    """Nodes, initial objects, and the actions of users, in order."""

    groups: Sequence[NodeGroup]
    objects: Sequence[Object]
    actions: Sequence[UserAction]

    @property
    def nodes(self) -> list[str]:
        return [name for group in self.groups for name in group.names]


def random_world(rng: random.Random, days: float, arrivals: int = 80) -> World:
    """Return a cluster with a number of arrivals per day."""
    groups = _groups(rng)
    pools = [_pool(rng, group.pool) for group in groups if group.pool != "default"]
    actions = [
        *_arrivals(rng, groups, days, arrivals),
        *_admin_changes(rng, groups, pools, days),
        *_restore(groups, pools, days),
    ]
    classes = [priority_class("low", -10), priority_class("mid", 10), priority_class("high", 1000)]
    budgets = [_budget(rng, app) for app in _APPS if rng.random() < 0.5]
    return World(
        groups,
        [namespace(NAMESPACE), *pools, *classes, *budgets],
        sorted(actions, key=lambda action: action.at),
    )


# --- the cluster -------------------------------------------------------------------------------------------


def _groups(rng: random.Random) -> list[NodeGroup]:
    groups = []
    for name in ("default", "a", "b", "c")[: rng.randint(2, 4)]:
        capacity = {
            "cpu": rng.choice(("8", "12", "7900m")),
            "memory": "32Gi",
            "pods": rng.choice(("110", "8")),
        }
        if rng.random() < 0.4:
            capacity[GPU] = rng.choice(("4", "8"))
        groups.append(NodeGroup(name, [f"{name}{i}" for i in range(rng.randint(3, 4))], capacity))
    return groups


def _pool(rng: random.Random, name: str) -> Object:
    return open_pool(
        name,
        preempts=rng.random() < 0.8,
        borrows=rng.random() < 0.8,
        shares=rng.random() < 0.8,
        order=rng.choice((None, "BorrowFirst")),
        queue=rng.choice((None, "DRF")),
    )


def _budget(rng: random.Random, app: str) -> Object:
    least = rng.choice((1, 2, "50%"))
    return budget(f"guard-{app}", selector={"app": app}, namespace=NAMESPACE, min_available=least)


# --- submissions -------------------------------------------------------------------------------------------


def _arrivals(
    rng: random.Random, groups: Sequence[NodeGroup], days: float, per_day: int
) -> Iterator[UserAction]:
    """Yield Jobs, gangs and pods, in bursts; some are deleted before they end."""
    at = 0.0
    for number in range(round(days * per_day)):
        if rng.random() < 0.3:
            at += rng.expovariate(per_day * 0.3 / DAY)
        if at >= days * DAY:
            return
        moment = round(at + rng.uniform(0, 5), 3)
        made, changes = _submission(rng, number, rng.choice(groups))
        yield from (UserAction(moment, "create", one) for one in made)
        yield from _changes(made[0], moment, changes, days)
        if rng.random() < (_DELETED_HUGE_PART if "huge" in made[0]["metadata"]["name"] else _DELETED_PART):
            left = made if rng.random() < 0.5 else made[:1]
            later = round(moment + rng.expovariate(1 / 1200), 3)
            yield from (
                UserAction(later, "delete", ref=(one["kind"], one["metadata"]["name"])) for one in left
            )


def _changes(made: Object, moment: float, changes: Sequence[JobChange], days: float) -> Iterator[UserAction]:
    """Yield what a user does with a job, one after the other, until the end of the last day."""
    at = moment
    for change in changes:
        at = min(round(at + change.delay, 3), days * DAY)
        yield UserAction(at, change.do, change.body, (made["kind"], made["metadata"]["name"]))


def _submission(
    rng: random.Random, number: int, group: NodeGroup
) -> tuple[list[Object], Sequence[JobChange]]:
    kind = rng.choices(("pod", "gang", "job", "training", "huge"), weights=(32, 20, 25, 20, 3))[0]
    name = f"{kind}{number}"
    if kind == "gang":
        return _gang(rng, name, group), ()
    if kind == "job":
        return [_job(rng, name, group)], ()
    if kind == "training":
        made, changes = _training_job(rng, name, group)
        return [made], changes
    cpu = "64" if kind == "huge" else None
    return [_user_pod(pod(name, **_shape(rng, group, cpu)))], ()


def _training_job(rng: random.Random, name: str, group: NodeGroup) -> tuple[Object, Sequence[JobChange]]:
    """Return a job of one of our kinds, and what its user changes."""
    made, pool = _template(rng, group)
    kind = rng.choice(list(JOB_KINDS))
    spec, changes = JOB_KINDS[kind](rng, made)
    annotations = {POOL: pool} if pool else {}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    version = resource_of(kind).api_version
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, changes


def _template(rng: random.Random, group: NodeGroup) -> tuple[Object, str]:
    """Return the template of pods of a job, and their pool."""
    shape = _shape(rng, group)
    del shape["namespace"]
    pool = shape.pop("pool", "")
    made = template(scheduler="shoal", annotations={POOL: pool} if pool else {}, **shape)
    _set_gpu_limits(made["spec"])
    return made, pool


def _shape(rng: random.Random, group: NodeGroup, cpu: str | None = None) -> Object:
    shape: Object = {
        "namespace": NAMESPACE,
        "cpu": cpu or rng.choice(("1", "1500m", "2", "3")),
        "memory": rng.choice(("1Gi", "4Gi", "10Gi")),
        "priority": rng.choice((None, None, "low", "mid", "high")),
        "labels": {"app": rng.choice(_APPS)},
    }
    if group.pool != "default":
        shape["pool"] = group.pool
    if GPU in group.capacity and rng.random() < 0.4:
        shape["gpu"] = rng.choice((1, 2))
    return shape


def _gang(rng: random.Random, name: str, group: NodeGroup) -> list[Object]:
    size, shape = rng.randint(2, 5), _shape(rng, group)
    least = size if rng.random() < 0.7 else rng.randint(2, size)
    return [_user_pod(pod(f"{name}-{i}", gang=name, gang_min=least, **shape)) for i in range(size)]


def _user_pod(made: Object) -> Object:
    """Return a pod as a user creates it: it runs once."""
    del made["status"]
    _set_gpu_limits(made["spec"])
    made["spec"]["restartPolicy"] = "Never"
    return made


def _set_gpu_limits(spec: Object) -> None:
    """Set the limits of GPUs, which have to equal the requests."""
    resources = spec["containers"][0]["resources"]
    if GPU in resources["requests"]:
        resources["limits"] = {GPU: resources["requests"][GPU]}


def _job(rng: random.Random, name: str, group: NodeGroup) -> Object:
    made, _ = _template(rng, group)
    made["spec"]["restartPolicy"] = rng.choice(("Never", "Never", "OnFailure"))
    completions = rng.randint(1, 6)
    spec: Object = {
        "completions": completions,
        "parallelism": rng.randint(1, completions),
        "completionMode": rng.choice(("Indexed", "NonIndexed")),
        "backoffLimit": rng.choice((0, 2, 6)),
        "ttlSecondsAfterFinished": rng.choice((600, LONGEST_TTL)),
        "template": made,
    }
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = rng.choice((900, 7200))
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


# --- changes by administrators -----------------------------------------------------------------------------


def _admin_changes(
    rng: random.Random, groups: Sequence[NodeGroup], pools: Sequence[Object], days: float
) -> Iterator[UserAction]:
    """Yield changes, a few a day: nodes are cordoned and moved to other pools, and pools get other flags."""
    at = rng.expovariate(6 / DAY)
    while at < days * DAY:
        moment, node = round(at, 3), rng.choice(rng.choice(groups).names)
        back = round(moment + rng.expovariate(1 / HOUR), 3)
        what = rng.choice(("cordon", "move", "pool", "suspend"))
        if what == "cordon":
            yield UserAction(moment, "patch", {"spec": {"unschedulable": True}}, ("Node", node))
            yield UserAction(
                min(back, days * DAY), "patch", {"spec": {"unschedulable": None}}, ("Node", node)
            )
        elif what == "move":
            label = rng.choice([group.pool for group in groups] + ["nowhere"])
            yield UserAction(moment, "patch", {"metadata": {"labels": {"pool": label}}}, ("Node", node))
        elif what == "pool" and pools:
            chosen = rng.choice(pools)
            spec = {flag: rng.random() < 0.3 for flag in _FLAGS}
            yield UserAction(moment, "patch", {"spec": spec}, ("Pool", chosen["metadata"]["name"]))
        at += rng.expovariate(6 / DAY)


_FLAGS = ("disablePreemption", "disableBorrowing", "disableSharing")


def _restore(groups: Sequence[NodeGroup], pools: Sequence[Object], days: float) -> Iterator[UserAction]:
    """Yield changes at the end of the last day that restore the initial state."""
    for group in groups:
        patch = {"metadata": {"labels": {"pool": group.pool}}, "spec": {"unschedulable": None}}
        yield from (UserAction(days * DAY, "patch", patch, ("Node", name)) for name in group.names)
    for one in pools:
        spec = {flag: one["spec"].get(flag) for flag in _FLAGS}
        yield UserAction(days * DAY, "patch", {"spec": spec}, ("Pool", one["metadata"]["name"]))
