"""Scenarios of jobs, as data: the same for all kinds, and executed in every home.

A scenario has a job and steps. A step is an action of a user, of a node or of a process, and the outcome that
is waited for. All of Shoal works meanwhile. An outcome is the status of the job, and in addition:

    reason      reason of the condition of the present phase or stage
    conditions  types of all conditions that are True, without Scheduled
    entered     types of all conditions that are or were True, without Scheduled
    scheduled   reason of the Scheduled condition
    slots       phase of the pod of each slot; "terminating" is appended, and pods of one slot are joined
    nodes       node of the pod of each slot
    services    number of services of the job
    gone        True if the job does not exist

Only the parts that are named in an expectation are compared. A value that is a function is a predicate.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import NODES, PODS, SERVICES, Object, by_kind, resource_of
from shoal.controllers.jobs.frameworks import process_port
from shoal.controllers.jobs.names import uid_digits
from shoal.controllers.jobs.owners import JOB_UID
from shoal.controllers.jobs.phases import SUSPENDED

WAITING = ["sh", "-c", "[ -p end ] || mkfifo end; read code <end; exit $code"]
"""The command of workers: they exit with the code that is written into a pipe."""
_ADDRESSES = ("DI_SERVER_URL", "LEADER_IP", "MASTER_IP")
"""Environment variables that differ from home to home."""
_RETRIES = 20

Expected = dict[str, Any]


class JobHome(ABC):
    """A cluster with nodes on which Shoal works, and the job of a scenario in it."""

    patience = 90.0
    """Seconds until a wait fails."""
    interval = 0.1
    """Seconds between two checks of the outcome."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.job: Object = {}

    @abstractmethod
    async def end_pod(self, pod: Object, code: int) -> None:
        """End the process of a running pod with an exit code."""

    @abstractmethod
    async def lose_node(self, name: str, seconds: float) -> None:
        """Cut a node off for some seconds: it neither reports nor observes, and its pods run on."""

    async def own_pods(self) -> list[Object]:
        """Return the pods that the job controls."""
        uid = self.job["metadata"]["uid"]
        pods = (await self.cluster.list(PODS, Selector(self.namespace))).items
        owners = ((pod, pod["metadata"].get("ownerReferences", ())) for pod in pods)
        return [pod for pod, found in owners if uid in {one["uid"] for one in found}]

    async def pod_of(self, slot: str) -> Object:
        """Return the pod of a slot, rather a live one than one that terminates or has ended."""
        found = [pod for pod in await self.own_pods() if slot_of(pod, self.job) == slot]
        return max(found, key=lambda pod: (not _is_terminating(pod), pod["status"].get("phase") == "Running"))


Act = Callable[[JobHome], Awaitable[object]]
Step = tuple[Act, Expected]


@dataclass(frozen=True, kw_only=True)
class JobScenario:
    """A job, the outcome of its creation, and what happens to it then."""

    job: Object
    begin: Expected
    steps: Sequence[Step] = ()
    nodes: Mapping[str, int] = field(default_factory=lambda: {"n1": 4, "n2": 4})
    """CPUs of each node."""
    objects: Sequence[Object] = ()
    """Objects that exist before the job."""
    config: Object = field(default_factory=dict)
    with_crashes: bool = False
    """Whether it is repeated with Shoal killed at each write: it takes twice as many runs as writes."""
    with_faults: bool = True
    """Whether it has the same outcome if Shoal does not see the changes of nodes for some time."""
    only_simulated: bool = False
    """Whether it takes too much, or too long, for processes and a real API server."""
    loses_node: bool = False
    """Whether a node is lost, which the controllers of Kubernetes notice after minutes only."""


def job_object(kind: str, name: str, spec: Object) -> Object:
    """Return a job as a user writes it."""
    version = resource_of(kind).api_version
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def worker_template(cpu: int | str = 1, **spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    """Return the template of a worker that runs until a step ends it."""
    resources = {"requests": {"cpu": str(cpu)}, "limits": {"cpu": str(cpu)}}
    container = {"name": "main", "image": "none", "command": WAITING, "resources": resources}
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 5} | spec}


# --- actions ------------------------------------------------------------------------------------------------


def end(*slots: str, code: int = 0) -> Act:
    """End the pods of slots with an exit code."""

    async def act(home: JobHome) -> None:
        for slot in slots:
            await home.end_pod(await home.pod_of(slot), code)

    return act


def delete_pods(*slots: str, grace: int | None = None) -> Act:
    """Delete the pods of slots, as a user does."""

    async def act(home: JobHome) -> None:
        for slot in slots:
            meta = (await home.pod_of(slot))["metadata"]
            with suppress(NotFoundError):
                await home.cluster.delete(PODS, meta["name"], home.namespace, Deletion(grace=grace))

    return act


def edit(**spec: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Patch the spec of the job."""

    async def act(home: JobHome) -> None:
        resource = resource_of(home.job["kind"])
        await home.cluster.patch(resource, home.job["metadata"]["name"], home.namespace, patch={"spec": spec})

    return act


def set_status(**status: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Patch the status of the job, as the DI server and `shoal scale` do."""

    async def act(home: JobHome) -> None:
        name = home.job["metadata"]["name"]
        await home.cluster.patch_status(
            resource_of(home.job["kind"]), name, home.namespace, patch={"status": status}
        )

    return act


def delete_job() -> Act:
    """Delete the job and all that depends on it."""

    async def act(home: JobHome) -> None:
        name = home.job["metadata"]["name"]
        await home.cluster.delete(
            resource_of(home.job["kind"]), name, home.namespace, Deletion(propagation="Background")
        )

    return act


def delete_services() -> Act:
    """Delete the services of the job."""

    async def act(home: JobHome) -> None:
        for service in await own_services(home):
            await home.cluster.delete(SERVICES, service["metadata"]["name"], home.namespace)

    return act


def create(one: Object) -> Act:
    """Create an object."""

    async def act(home: JobHome) -> None:
        await create_object(home, one)

    return act


def delete(kind: str, name: str) -> Act:
    """Delete an object of the namespace."""

    async def act(home: JobHome) -> None:
        await home.cluster.delete(resource_of(kind), name, home.namespace)

    return act


def cordon(node: str, *, cordoned: bool = True) -> Act:
    """Make a node unschedulable, or schedulable again."""

    async def act(home: JobHome) -> None:
        await home.cluster.patch(NODES, node, patch={"spec": {"unschedulable": cordoned or None}})

    return act


def drain(node: str) -> Act:
    """Make a node unschedulable, and delete the job's pods on it until as many are bound to others.

    A scheduler that has not seen yet that the node is unschedulable binds them to it again.
    """

    async def act(home: JobHome) -> None:
        await cordon(node)(home)
        pods = {slot_of(pod, home.job) for pod in await home.own_pods()}
        while True:
            live = [pod for pod in await home.own_pods() if not _is_terminating(pod)]
            nodes = {slot_of(pod, home.job): pod["spec"].get("nodeName", "") for pod in live}
            await delete_pods(*(slot for slot in nodes if nodes[slot] == node))(home)
            if nodes.keys() == pods and not {node, ""} & set(nodes.values()):
                return
            await asyncio.sleep(home.interval)

    return act


def lose_node(node: str, seconds: float) -> Act:
    """Cut a node off for some seconds."""

    async def act(home: JobHome) -> None:
        await home.lose_node(node, seconds)

    return act


def pause(seconds: float) -> Act:
    """Wait, by the clock of the home."""

    async def act(_: JobHome) -> None:
        await asyncio.sleep(seconds)

    return act


def together(*acts: Act) -> Act:
    """Do several things, one after the other, without waiting for an outcome in between."""

    async def act(home: JobHome) -> None:
        for one in acts:
            await one(home)

    return act


# --- outcomes -----------------------------------------------------------------------------------------------


async def outcome(home: JobHome) -> Object:
    """Return the status of the job, its pods and its services."""
    job = await present_job(home)
    pods, status = await home.own_pods(), (job or {}).get("status") or {}
    slots: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        phase = pod["status"].get("phase", "Pending")
        slots[slot_of(pod, home.job)].append(f"{phase}{' terminating' if _is_terminating(pod) else ''}")
    conditions = {one["type"]: one for one in status.get("conditions", ()) if one["type"] != "Scheduled"}
    scheduled = next((one for one in status.get("conditions", ()) if one["type"] == "Scheduled"), None)
    true = {kind: one for kind, one in conditions.items() if one["status"] == "True"}
    return status | {
        "gone": job is None,
        "reason": next((one["reason"] for kind, one in true.items() if kind != SUSPENDED), ""),
        "conditions": sorted(true),
        "scheduled": scheduled["reason"] if scheduled else "",
        "entered": sorted(conditions),
        "slots": {slot: ", ".join(sorted(phases)) for slot, phases in sorted(slots.items())},
        "nodes": {slot_of(pod, home.job): pod["spec"].get("nodeName", "") for pod in pods},
        "services": len(await own_services(home)),
    }


async def present_job(home: JobHome) -> Object | None:
    """Return the job as it is now; None if it is gone."""
    meta = home.job["metadata"]
    with suppress(NotFoundError):
        return await home.cluster.get(resource_of(home.job["kind"]), meta["name"], home.namespace)
    return None


def slot_of(pod: Object, job: Object) -> str:
    """Return the slot of a pod: the end of its name, for a DIJob in template form the rank."""
    if "template" in job["spec"] and job["kind"] == "DIJob":
        return str(pod["metadata"]["labels"]["diengine/rank"])
    return str(pod["metadata"]["name"].removeprefix(f"{job['metadata']['name']}-"))


async def own_services(home: JobHome) -> list[Object]:
    """Return the services of the job."""
    uid = home.job["metadata"]["uid"]
    services = (await home.cluster.list(SERVICES, Selector(home.namespace))).items
    return [one for one in services if one["metadata"].get("labels", {}).get(JOB_UID) == uid]


def mismatches(seen: Object, expected: Expected) -> Iterator[str]:
    """Yield the parts of an outcome that differ from what is expected."""
    for name, value in expected.items():
        found = seen.get(name)
        if not (value(found) if callable(value) else found == value):
            yield f"{name} is {found!r}, not {value!r}"


def pod_specs(pods: Sequence[Object], job: Object) -> dict[str, Object]:
    """Return what Shoal decides about live pods, by slot, without what differs from home to home."""
    found = {slot_of(pod, job): _decided(pod) for pod in pods if _is_live(pod)}
    meta = job["metadata"]
    text = json.dumps(found, sort_keys=True).replace(str(process_port(meta["uid"])), "PORT")
    text = text.replace(meta["uid"], "UID")
    text = text.replace(uid_digits(meta["uid"]), "DIGITS").replace(meta["namespace"], "NAMESPACE")
    specs: dict[str, Object] = json.loads(text)
    return specs


def _decided(pod: Object) -> Object:
    meta, spec = pod["metadata"], pod["spec"]
    return {
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "finalizers": meta.get("finalizers"),
        "spec": {key: spec.get(key) for key in ("hostname", "subdomain", "restartPolicy", "schedulerName")},
        "containers": [
            {"command": one.get("command"), "args": one.get("args"), "env": [*map(_variable, one["env"])]}
            for one in spec["containers"]
        ],
    }


def _variable(variable: Object) -> Object:
    """Return an environment variable. API servers omit an empty value; addresses differ."""
    present = {key: value for key, value in variable.items() if value != ""}
    return {"name": variable["name"]} if variable["name"] in _ADDRESSES else present


def _is_live(pod: Object) -> bool:
    return not _is_terminating(pod) and pod["status"].get("phase") not in FINISHED_PHASES


def _is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


# --- execution ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScenarioRun:
    """The outcome of each step, and the live pods after those steps that say which slots are expected."""

    outcomes: list[Object]
    specs: list[dict[str, Object]]


async def run_scenario(home: JobHome, scenario: JobScenario) -> ScenarioRun:
    """Execute a scenario on which Shoal works; AssertionError if an expectation is not met in time."""
    for one in scenario.objects:
        await create_object(home, one)
    home.job = await create_object(home, scenario.job)
    done = ScenarioRun([], [])
    for number, (act, expected) in enumerate([(together(), scenario.begin), *scenario.steps]):
        await _perform(home, act)
        done.outcomes.append(await wait_for_outcome(home, expected, f"step {number}"))
        done.specs.append(pod_specs(await home.own_pods(), home.job) if "slots" in expected else {})
    return done


async def create_object(home: JobHome, one: Object) -> Object:
    """Create an object of any kind; return it as it is stored."""
    resource = by_kind()[one["apiVersion"], one["kind"]]
    body = {**one, "metadata": dict(one["metadata"])}
    if resource.namespaced:
        body["metadata"]["namespace"] = home.namespace
    return await home.cluster.create(resource, body) | {"apiVersion": one["apiVersion"], "kind": one["kind"]}


async def _perform(home: JobHome, act: Act) -> None:
    """Perform an action. The controllers write at the same time: after a conflict it is repeated."""
    for _ in range(_RETRIES):
        with suppress(ConflictError):
            await act(home)
            return
    raise AssertionError("an action has a conflict again and again")


async def wait_for_outcome(home: JobHome, expected: Expected, what: str) -> Object:
    """Wait until the job has an outcome, and return it; AssertionError if it does not have it in time."""
    now = asyncio.get_running_loop().time
    deadline = now() + home.patience
    while wrong := list(mismatches(seen := await outcome(home), expected)):
        if now() > deadline:
            raise AssertionError(f"{what}: {'; '.join(wrong)}; the whole outcome is {seen}")
        await asyncio.sleep(home.interval)
    return seen
